"""Problems: the gradient in logs against the plain one where that is exact, and against exact arithmetic elsewhere."""

import functools
import math
import re
from decimal import Decimal, localcontext

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from _double import in_double
from omegalimit._numerics import double_precision
from omegalimit.data import TokenData, gaussian_tokens
from omegalimit.flows import measure
from omegalimit.losses import LOSSES
from omegalimit.models import (
    DiagonalKeyQueryAttention,
    KeyQueryAttention,
    MergedAttention,
    MergedDiagonalAttention,
)
from omegalimit.problem import AttentionProblem, MarginProblem, other_tokens

D = 5
MODELS = {
    "merged": MergedAttention(d=D),
    "kq": KeyQueryAttention(d=D, inner=3),
    "kq-wide": KeyQueryAttention(d=D, inner=2 * D),  # the other order of products
    "diagonal-kq": DiagonalKeyQueryAttention(d=D),
    "diagonal-merged": MergedDiagonalAttention(d=D),
}


@functools.cache
def tokens(seed=0):
    return gaussian_tokens(3, 4, D, seed=seed)


def log_sharpness(problem, theta):
    return problem.degree * math.log(np.linalg.norm(theta)) + math.log(float(problem.unit))


def plain_loss(problem, data, theta):
    """The loss as anyone would write it, on the data as they came."""
    model, d = problem.model, data.d
    if isinstance(model, MergedAttention):
        W = theta.reshape(d, d)
    elif isinstance(model, KeyQueryAttention):
        K, Q = theta.reshape(2, d, model.inner)
        W = K @ Q.T
    elif isinstance(model, DiagonalKeyQueryAttention):
        W = jnp.diag(theta[:d] * theta[d:])
    else:
        W = jnp.diag(theta)
    attention = jax.nn.softmax(jnp.einsum("nld,de,ne->nl", data.X, W, data.z), axis=1)
    f = data.y * jnp.einsum("nl,nld,d->n", attention, data.X, data.v)
    return (jnp.exp(-f) if problem.loss.name == "exponential" else jnp.log1p(jnp.exp(-f))).sum()


def compiled(method):
    """A problem's method, compiled once per shape, as a function of the problem, in double precision."""
    return in_double(eqx.filter_jit(lambda problem, *args: getattr(problem, method)(*map(jnp.asarray, args))))


weights, log_weights, outputs = compiled("weights"), compiled("log_weights"), compiled("outputs")


@in_double
@eqx.filter_jit
def log_domain_gradient(problem, theta):
    """`-grad L` put together as `unit r^(D-1) e^M g`."""
    r, D = jnp.linalg.norm(theta), problem.degree
    h, vjp = jax.vjp(problem.outputs, theta / r)
    q, M = problem.weights(h, D * jnp.log(r) + jnp.log(problem.unit))
    return problem.unit * r ** (D - 1) * jnp.exp(M) * vjp(q)[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_that_of_the_plain_loss(name, loss):
    data, model = tokens(), MODELS[name]
    problem = AttentionProblem(data, model, loss=loss)
    gradient = in_double(jax.jit(jax.grad(lambda t: plain_loss(problem, data, t))))
    rng = np.random.default_rng(1)
    for S in (0.1, 3.0, 30.0):
        theta = rng.standard_normal(model.size)
        theta *= (S / float(problem.unit)) ** (1 / problem.degree) / np.linalg.norm(theta)
        plain = gradient(theta)
        # The plain form cancels f - gamma against rounding: eps e^(S spread of h) with h of order 0.3 or less, and the
        # least gradient here is 1e-3 of the loss.
        np.testing.assert_allclose(
            log_domain_gradient(problem, theta), -plain, rtol=0, atol=1e-12 * float(np.linalg.norm(plain))
        )


def exact_weights(scores, h, S, loss):
    """`(log |q|, sign q)` of `-dL/dh_l = softmax_l (gamma_l - f) |l'(f)|`, in so many digits that nothing cancels."""
    log_abs, sign = np.full(h.shape, -np.inf), np.zeros(h.shape)
    with localcontext() as context:
        # gamma - f cancels to e^(-1.3 S) at the least, 0.57 S digits.
        context.prec, context.Emin, context.Emax = int(60 + 0.65 * S), -(10**9), 10**9
        for i, (gamma, row) in enumerate(zip(scores, h, strict=True)):
            gamma = [Decimal(float(g)) for g in gamma]
            e = [(Decimal(S) * Decimal(float(x))).exp() for x in row]
            p = [x / sum(e) for x in e]
            f = sum((a * b for a, b in zip(p, gamma, strict=True)), Decimal(0))
            slope = (-f).exp() if loss == "exponential" else 1 / (1 + f.exp())
            for j, (a, g) in enumerate(zip(p, gamma, strict=True)):
                q = a * (g - f) * slope
                log_abs[i, j], sign[i, j] = float(abs(q).ln()), 1 if q > 0 else -1
    return log_abs, sign


def scored(scores):
    """A merged problem on tokens whose scores are `scores`; its logits are handed to `weights` directly."""
    scores = np.asarray(scores, dtype=float)
    n, L = scores.shape
    X = np.zeros((n, L, 2))
    X[:, :, 0], X[:, :, 1] = np.arange(L), scores
    return TokenData(X=X, z=np.ones((n, 2)), y=np.ones(n), v=np.array([0.0, 1.0]))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("S", [1.0, 40.0, 1000.0])
@pytest.mark.parametrize(
    "scores",
    [
        [[1.0, 0.3, -0.2, 0.4], [0.1, 0.8, 0.5, -1.0]],
        [[0.3, 1.0, -0.2, 0.4], [0.8, 0.1, 0.5, -1.0]],  # the winner is not the best: weights of both signs
        [[1.0, 1.0, -0.2, 0.4], [0.8, 0.8, 0.8, -1.0]],  # ties with the winner
    ],
    ids=["best", "not-best", "tied"],
)
def test_weights_are_exact_past_underflow(scores, S, loss):
    problem = AttentionProblem(scored(scores), MergedAttention(d=2), loss=loss)
    h = np.array([[1.0, 0.2, 0.1, -0.3], [0.9, 0.4, 0.0, -0.1]])
    q, M = weights(problem, h, np.log(S))
    log_abs, sign = exact_weights(problem.scores, h, S, loss)
    winner = np.zeros(h.shape, dtype=bool)
    winner[:, 0] = True
    reference = np.where(winner, -np.inf, log_abs)
    top = log_abs.max()
    total = top + np.log(np.exp(log_abs - top).sum())  # the winners' terms too, so that M does not jump with the lead
    assert float(M) == pytest.approx(total, abs=1e-12 + 4e-15 * S)  # a log of size S h, rounded
    # q itself is relative to the largest; smaller ones keep their own digits up to the rounding of S h.
    expected = np.where(reference > total - 700, sign * np.exp(np.maximum(reference - total, -745)), 0.0)
    expected -= winner * expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(q, expected, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(q.sum(axis=1), 0.0, atol=1e-15)


def test_gradient_does_not_depend_on_the_token_that_serves_as_reference():
    # Where two logits cross, the reference switches from one to the other: nothing must jump.
    problem = AttentionProblem(scored([[1.0, 0.3, -0.2, 0.4]]), MergedAttention(d=2))
    q = []
    for side in (-1e-13, 1e-13):
        value, M = weights(problem, np.array([[1.0, 1.0 + side, 0.2, -0.1]]), np.log(20.0))
        q.append(value * np.exp(float(M)))
    # The logits differ by 2e-13, times S = 20.
    np.testing.assert_allclose(q[0], q[1], rtol=1e-11)


@pytest.mark.parametrize("S", [1e3, 1e5, 1e12])
def test_tied_scores_keep_finite_weights_of_row_sum_zero_where_the_rest_underflows(S):
    problem = AttentionProblem(scored([[1.0, 1.0, 0.2], [0.5, 0.5, 0.5001]]), MergedAttention(d=2))
    h = np.array([[1.0, 0.5, 0.0], [0.7, 1.0, -0.5]])
    q, M = weights(problem, h, np.log(S))
    assert np.isfinite(q).all()
    assert np.isfinite(M)
    assert np.abs(q).max() > 0.1
    np.testing.assert_allclose(q.sum(axis=1), 0.0, atol=1e-15)
    on_constraints = log_weights(problem, h, np.log(S), np.array([0, 1]))
    assert np.isfinite(on_constraints.log_abs).all()  # also of the tokens whose softmax is e^-S
    assert np.isfinite(on_constraints.sign).all()


def test_log_weights_on_constraints_are_the_weights_on_logits():
    data = tokens()
    problem = AttentionProblem(data, MODELS["merged"])
    theta = np.random.default_rng(3).standard_normal(D * D)
    h = outputs(problem, theta / np.linalg.norm(theta))
    selection = h.argmax(axis=1)
    q, M = weights(problem, h, np.log(5.0))
    on_constraints = log_weights(problem, h, np.log(5.0), selection)
    on_others = np.take_along_axis(q, other_tokens(selection, data.L), axis=1).reshape(-1)
    # Raising a constraint h_sel - h_l lowers h_l: the sign turns.
    np.testing.assert_allclose(on_constraints.sign * np.exp(on_constraints.log_abs - float(M)), -on_others, rtol=1e-13)
    with double_precision():
        m = np.asarray(problem.constraints(h, jnp.asarray(selection))).reshape(data.n, -1)
    others = np.take_along_axis(h, other_tokens(selection, data.L), axis=1)
    np.testing.assert_array_equal(m, h.max(axis=1)[:, None] - others)


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_gap_is_the_plain_difference_where_that_is_exact(loss):
    data = tokens()
    problem = AttentionProblem(data, MODELS["kq"], loss=loss)
    best = data.scores.max(axis=1)
    least = np.exp(-best).sum() if loss == "exponential" else np.log1p(np.exp(-best)).sum()
    plain = in_double(jax.jit(lambda t: plain_loss(problem, data, t)))
    for seed in range(3):
        theta = np.random.default_rng(seed).standard_normal(problem.size)
        gap = float(plain(theta)) - least
        found = measure(problem, theta, log_sharpness(problem, theta)).log_loss_gap
        # Both losses are rounded to eps; the gap is a tenth of them or more.
        assert math.exp(found) == pytest.approx(gap, rel=1e-13 * max(1.0, least / gap))


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_gap_at_large_margins_is_the_sum_over_constraints_that_the_offsets_give(loss):
    # W = sum_i (x_best - mean) z_i^T on orthogonal queries selects the best token of every input.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 4, D))
    data = TokenData(X=X, z=np.eye(D)[:3], y=np.array([1.0, -1.0, 1.0]), v=rng.standard_normal(D))
    W = np.zeros((D, D))
    for i, b in enumerate(data.best):
        W[:, i] = np.linalg.lstsq(np.delete(X[i, b] - X[i], b, axis=0), rng.uniform(1, 2, size=3), rcond=None)[0]
    problem = AttentionProblem(data, MODELS["merged"], loss=loss)
    direction = W.ravel() / np.linalg.norm(W)
    b = problem.limit_offsets(data.best)
    previous = math.inf
    for S in np.geomspace(1e3, 1e5, 9) / measure(problem, direction, 0.0).least_margin:
        arrival = measure(problem, direction, math.log(S))
        np.testing.assert_array_equal(arrival.selection, data.best)
        levels = b - S * arrival.margins
        # L - L* = sum e^(b - S m) up to a factor 1 + O(e^-1000); S m is rounded once on either side.
        assert arrival.log_loss_gap == pytest.approx(np.logaddexp.reduce(levels), rel=4e-15)
        assert arrival.log_loss_gap < previous - 100
        previous = arrival.log_loss_gap


def test_offsets_of_tokens_better_than_the_selected_are_not_numbers():
    problem = AttentionProblem(scored([[1.0, 0.5, 0.0]]), MergedAttention(d=2))
    offsets = problem.limit_offsets(np.array([1]))
    assert np.isnan(offsets[0])
    assert offsets[1] == pytest.approx(math.log(0.5) - 0.5, rel=1e-15)


# Scale laws.


def rescaled(data, c, c_z=1.0):
    return TokenData(X=data.X * c, z=data.z * c_z, y=data.y, v=data.v / c)


@pytest.mark.parametrize("c", [2.0**-480, 2.0**30, 1e-150, 1e150])
@pytest.mark.parametrize("name", ["merged", "kq"])
def test_units_of_the_tokens_change_the_unit_and_nothing_else(name, c):
    # X -> c X, v -> v / c: the scores stay, the logits at a direction are c times as large, and so is `unit`.
    data, model = tokens(), MODELS[name]
    here, there = AttentionProblem(data, model), AttentionProblem(rescaled(data, c), model)
    direction = np.random.default_rng(2).standard_normal(model.size)
    a, b = measure(here, direction, math.log(7.0)), measure(there, direction, math.log(7.0))
    # `unit` is a power of two; c / unit is not 1 unless c is one too, and the logits make up for it.
    ratio = c * float(here.unit) / float(there.unit)
    assert 0.25 <= ratio <= 4
    b = measure(there, direction, math.log(7.0) - math.log(ratio))
    # 2^k: no digit changes but those of log S; 10^k: one rounding of X and of v.
    tolerance = 1e-12
    np.testing.assert_allclose(b.margins, ratio * a.margins, rtol=tolerance, atol=1e-13)
    np.testing.assert_allclose(b.multipliers, a.multipliers, rtol=tolerance)
    assert b.log_loss_gap == pytest.approx(a.log_loss_gap, rel=tolerance)
    assert b.stationarity == pytest.approx(a.stationarity, rel=1e-11)


def test_data_whose_units_multiply_out_of_range_are_refused():
    data = TokenData(
        X=tokens().X * 1e200, z=tokens().z * 1e200, y=tokens().y, v=tokens().v / 1e200
    )  # fmt: skip
    message = r"`X` and `z` together have the scale 2\^13\d\d, beyond double precision; rescale one of them\."
    with pytest.raises(ValueError, match=f"^{message}$"):
        AttentionProblem(data, MODELS["merged"])


def test_model_of_another_dimension_is_refused():
    message = "`model` is for tokens of dimension 3, but the data have dimension 5."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AttentionProblem(tokens(), MergedAttention(d=3))


# A user's own margins.

ROWS = np.random.default_rng(5).standard_normal((6, 3))


def linear(w):
    return ROWS @ w


def diagonal(p):
    return ROWS @ (p["k"] * p["q"])


def deep(p):
    return ROWS @ p[0] @ p[1] @ p[2]


def quartic(w):
    return (ROWS @ w**2) ** 2


def three_halves(w):
    return ROWS @ w * jnp.sqrt(jnp.abs(w).sum())


@pytest.mark.parametrize(
    ("margins", "params", "degree"),
    [
        (linear, np.array([1.0, 2.0, -1.0]), 1.0),
        (diagonal, {"k": np.array([1.0, 2.0, -1.0]), "q": np.array([0.3, -0.5, 1.0])}, 2.0),
        (deep, [np.eye(3) + 0.1, np.eye(3) - 0.2, np.array([1.0, 0.5, -0.2])], 3.0),
        (quartic, np.array([1.0, 2.0, -1.0]), 4.0),
        (three_halves, np.array([1.0, 2.0, -1.0]), 1.5),
    ],
    ids=["1", "2", "3", "4", "1.5"],
)
def test_degree_is_measured_and_euler_holds(margins, params, degree):
    problem = MarginProblem(margins, params)
    # An integer is snapped to; anything else is measured by logarithms, to rounding.
    assert problem.degree == (degree if degree == round(degree) else pytest.approx(degree, abs=1e-9))
    # Euler: omega . grad m = D m, by an independent derivative.
    with double_precision():
        m, slope = jax.jvp(problem.outputs, (jnp.asarray(problem.start),), (jnp.asarray(problem.start),))
    np.testing.assert_allclose(np.asarray(slope), degree * np.asarray(m), rtol=1e-8)
    back = problem.params(problem.start)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    for x, y in zip(jax.tree.leaves(back), jax.tree.leaves(params), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_of_a_margin_loss_is_the_plain_one(loss):
    problem = MarginProblem(diagonal, {"k": np.array([1.0, 2.0, -1.0]), "q": np.array([0.3, -0.5, 1.0])}, loss=loss)

    def plain(theta):
        m = ROWS @ (theta[:3] * theta[3:])
        return (jnp.exp(-m) if loss == "exponential" else jnp.log1p(jnp.exp(-m))).sum()

    expected = -in_double(jax.grad(plain))(problem.start)
    # A sum of six terms: nothing cancels but their signs.
    np.testing.assert_allclose(log_domain_gradient(problem, problem.start), expected, rtol=1e-13, atol=1e-14)


def refusal(margins, params):
    with pytest.raises((ValueError, TypeError)) as caught:
        MarginProblem(margins, params)
    return str(caught.value)


W = np.array([1.0, 2.0, -1.0])


@pytest.mark.parametrize(
    ("margins", "params", "message"),
    [
        (3.0, W, "`margins` must be a function from parameters to margins; got float."),
        (
            lambda w: w.sum(),
            W,
            "`margins` must return one vector of real margins; got an array of shape () and type float64.",
        ),
        (
            lambda w: w[:, None],
            W,
            "`margins` must return one vector of real margins; got an array of shape (3, 1) and type float64.",
        ),
        (lambda w: jnp.log(w), W, "`margins` returned nan at `params`; it must be finite there."),
        (linear, np.zeros(3), "`params` must be finite and not all zero; their norm is 0.0."),
        (linear, np.array([1.0, np.nan, 0.0]), "`params` must be finite and not all zero; their norm is nan."),
        (
            lambda w: 0 * w,
            W,
            "`margins` is zero at `params` and beside it; its degree of homogeneity cannot be measured there.",
        ),
        (
            lambda w: w / jnp.linalg.norm(w),
            W,
            "`margins` has the degree of homogeneity 0; it must be positive for a flow to have a direction.",
        ),
    ],
    ids=["number", "scalar", "matrix", "nan", "zero", "nan-params", "zero-margins", "degree-0"],
)
def test_margins_that_cannot_be_used_are_refused(margins, params, message):
    assert refusal(margins, params) == message


def test_margins_without_a_degree_are_refused_with_the_figures():
    # m(c w) / m(w) for w = (1, 2, 3) + 1: the slopes over c = 1/2, 2, 8 follow by hand.
    w = np.array([1.0, 2.0, 3.0])
    text = refusal(lambda w: w + 1, w)
    low, high = map(float, re.findall(r"\[(\S+), (\S+)\]", text)[0])
    beside = w + 0.1 * np.linalg.norm(w) * np.random.default_rng(0).standard_normal(3) / math.sqrt(3)
    slopes = [np.log((c * p + 1) / (p + 1)) / math.log(c) for p in (w, beside) for c in (0.5, 2.0, 8.0)]
    assert low == pytest.approx(np.min(slopes), rel=1e-5)  # printed with six digits
    assert high == pytest.approx(np.max(slopes), rel=1e-5)
    assert text.startswith("`margins` is not homogeneous: the slopes of log m(c theta) in log c range over [")
    assert text.endswith(
        "], where a homogeneous function has one degree. "
        "Drop biases or normalisation layers, or scale them with the parameters."
    )


def test_a_margin_that_changes_its_sign_along_a_ray_is_refused():
    assert refusal(lambda w: w - 1.5, W) == (
        "`margins` is not homogeneous: a margin changed its sign under scaling, where a homogeneous function has one "
        "degree. Drop biases or normalisation layers, or scale them with the parameters."
    )


def test_a_small_bias_is_not_taken_for_rounding():
    assert refusal(lambda w: ROWS @ w + 1e-4, W).startswith("`margins` is not homogeneous: ")


def test_jax_of_the_user_stays_in_single_precision():
    problem = MarginProblem(lambda w: ROWS @ w, W)
    measure(problem, W, 1.0)
    problem.params(problem.start)
    AttentionProblem(tokens(), MODELS["merged"]).limit_offsets(tokens().best)
    assert jnp.ones(1).dtype == jnp.float32
    assert problem.start.dtype == np.float64
