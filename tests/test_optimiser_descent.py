"""Optimisers of optax in log-domain arithmetic: against optax itself, against fifty digits, and their own scaling."""

import math
import re
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
import scipy.sparse

from omegalimit.flows.optimiser_descent import optimiser_descent

EPS = float(np.finfo(float).eps)
GAMMA_INF = 0.8513643517412691
LINF = np.array([0.9326318707, -0.3057558685, 1.0, 1.0])
L2 = np.array([0.2172257118, -0.0712081557, 0.9175361012, 0.3253765383])
LR = 0.1


def fixture():
    rng = np.random.default_rng(0)
    w, X = rng.standard_normal(4), rng.standard_normal((6, 4))
    return np.sign(X @ w)[:, None] * X


def matrices():
    rng = np.random.default_rng(1)
    A, W = rng.standard_normal((12, 5, 4)), rng.standard_normal((5, 4))
    return np.sign((A * W).sum(axis=(1, 2)))[:, None, None] * A


def positive():
    """Rows that every coordinate helps: no optimiser turns back, and rounding does not grow."""
    return np.abs(fixture()) + 0.1


# Functions of eps, the eps, and the degree of that eps.
ADAM = lambda eps: optax.adam(LR, eps=eps)  # noqa: E731 - one object for several tests, which is compiled once
FAST_ADAM = lambda eps: optax.adam(1.0, b1=0.01, b2=0.01, eps=eps)  # noqa: E731 - as above
MUON = lambda eps: optax.contrib.muon(LR, eps=eps)  # noqa: E731 - as above
SIGNS = optax.sign_sgd(0.01)
NORMALISED = lambda eps: optax.normalize_by_update_norm(-LR, eps=eps)  # noqa: E731 - as above
WITH_EPS = {
    "adam": (ADAM, 1e-8, 1),
    "adam without eps": (ADAM, 0.0, 1),
    "adamax": (lambda eps: optax.adamax(LR, eps=eps), 1e-8, 1),
    "rmsprop": (lambda eps: optax.rmsprop(LR, eps=eps), 1e-8, 2),
    "rmsprop, eps beside the root": (
        lambda eps: optax.rmsprop(LR, eps=eps, eps_in_sqrt=False, momentum=0.9),
        1e-8,
        1,
    ),
    "adagrad": (lambda eps: optax.adagrad(LR, eps=eps), 1e-7, 2),
    "normalised": (NORMALISED, 1e-6, 1),
}
BY_THEMSELVES = {
    "gradient descent": (optax.sgd(LR), 1),
    "momentum": (optax.sgd(LR, momentum=0.9), 1),
    "a schedule": (optax.sgd(optax.exponential_decay(LR, 100, 0.9), momentum=0.9), 1),
    "signs of momentum": (optax.signum(LR), 0),
}
UNSCALED = {
    "adam with an eps of its own": optax.adam(LR),
    "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(LR)),
    "decay added to the gradient": optax.chain(optax.add_decayed_weights(0.1), optax.sgd(LR)),
    "another rule after some steps": optax.radam(LR),
}
LOSSES = {"logistic": lambda m: jax.nn.softplus(-m), "exponential": lambda m: jnp.exp(-m)}


def by_optax(optimiser, Z, *, shape, n_steps, loss):
    """The loop of the optimiser's own documentation, on the loss itself, in double precision."""
    with jax.enable_x64(True):
        rows = jnp.asarray(Z.reshape(len(Z), -1))
        gradient = jax.grad(lambda w: jnp.mean(LOSSES[loss](rows @ w.reshape(-1))))

        def body(_, carry):
            w, state = carry
            updates, state = optimiser.update(gradient(w), state, w)
            return optax.apply_updates(w, updates), state

        start = jnp.zeros(shape)
        return np.asarray(jax.lax.fori_loop(0, n_steps, body, (start, optimiser.init(start)))[0])


def check_against_optax(run, optimiser, name):
    exact = by_optax(optimiser, fixture(), shape=(4,), n_steps=200, loss=loss_of(name))
    # 200 steps of rounding; a root and a quotient in each.
    np.testing.assert_allclose(run.w[-1], exact, rtol=0, atol=200 * 30 * EPS * np.abs(exact).max())
    assert run.horizon is None
    assert run.ending == "all steps were taken"


def loss_of(name):
    """Either loss, for about half of the cases each."""
    return "exponential" if len(name) % 2 else "logistic"


@pytest.mark.parametrize("name", WITH_EPS)
def test_optimisers_with_an_eps_are_optaxs_own(name):
    make, eps, degree = WITH_EPS[name]
    run = optimiser_descent(fixture(), make, n_steps=200, eps=eps, loss=loss_of(name))
    check_against_optax(run, make(eps), name)
    assert run.scaled
    assert run.degrees is not None
    assert (run.degrees.update, run.degrees.eps) == (0, degree)


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_optimisers_without_an_eps_are_optaxs_own(name):
    optimiser, degree = BY_THEMSELVES[name]
    run = optimiser_descent(fixture(), optimiser, n_steps=200, loss=loss_of(name))
    check_against_optax(run, optimiser, name)
    assert run.scaled
    assert run.why_unscaled == ""
    assert run.degrees is not None
    assert (run.degrees.update, run.degrees.eps) == (degree, 0)


@pytest.mark.parametrize("name", UNSCALED)
def test_optimisers_that_do_not_scale_run_on_the_true_gradients(name):
    run = optimiser_descent(fixture(), UNSCALED[name], n_steps=200, loss=loss_of(name))
    check_against_optax(run, UNSCALED[name], name)
    assert not run.scaled
    assert run.degrees is None
    assert run.why_unscaled
    assert (run.log_scale == 0).all()


def test_matrices_and_muon():
    A = matrices()
    exact = by_optax(MUON(1e-8), A, shape=(5, 4), n_steps=100, loss="logistic")
    for rows, shape in ((A, None), (A.reshape(12, 20), (5, 4))):
        run = optimiser_descent(rows, MUON, n_steps=100, eps=1e-8, shape=shape)
        assert run.w.shape == (len(run.steps), 5, 4)
        # Products of small matrices, five in each of 100 steps, with coefficients up to five.
        np.testing.assert_allclose(run.w[-1], exact, rtol=0, atol=100 * 200 * EPS * np.abs(exact).max())
        np.testing.assert_allclose(run.margins[-1], (A * run.w[-1]).sum(axis=(1, 2)), rtol=1e-12)


def adam_in_digits(Z, *, lr, b1, b2, eps, n_steps):
    """Adam on the mean exponential loss, in 60 digits and with exponents that do not end."""
    with localcontext(prec=60):
        n, d = Z.shape
        rows = [[Decimal(x) for x in row] for row in Z.tolist()]
        b1, b2, eps, lr = Decimal(b1), Decimal(b2), Decimal(eps), Decimal(lr)
        w, m, v = ([Decimal(0)] * d for _ in range(3))
        for t in range(1, n_steps + 1):
            slopes = [(-sum((x * y for x, y in zip(row, w, strict=True)), Decimal(0))).exp() / n for row in rows]
            g = [-sum((s * row[j] for s, row in zip(slopes, rows, strict=True)), Decimal(0)) for j in range(d)]
            m = [b1 * x + (1 - b1) * y for x, y in zip(m, g, strict=True)]
            v = [b2 * x + (1 - b2) * y * y for x, y in zip(v, g, strict=True)]
            w = [x - lr * (y / (1 - b1**t)) / ((z / (1 - b2**t)).sqrt() + eps) for x, y, z in zip(w, m, v, strict=True)]
        return np.array([float(x) for x in w])


@pytest.mark.parametrize("eps", [0.0, 1e-300, 1e-30])
def test_adam_past_every_underflow(eps):
    """Margins above 1000: gradients of e^-1000, squares of e^-2000."""
    Z, n_steps = positive(), 600
    run = optimiser_descent(Z, FAST_ADAM, eps=eps, n_steps=n_steps, loss="exponential")
    exact = adam_in_digits(Z, lr=1.0, b1=0.01, b2=0.01, eps=eps, n_steps=n_steps)
    # Rounding of margins of 1000 is 1e-13, a relative error of gradients that every step has anew.
    np.testing.assert_allclose(run.w[-1], exact, rtol=0, atol=1e-12 * np.abs(exact).max())
    assert not run.arithmetic_ended
    if eps == 0:
        assert run.margins[-1].min() > 1000
        assert run.log_gradient[-1] < -1000
        assert run.log_loss[-1] < -1000
        assert run.log_scale[-1] < -900
        assert run.below_eps_step is None
        assert run.log_threshold == -math.inf
    else:
        # eps means what it says: growth ends soon after the gradient has fallen below it.
        assert run.below_eps_step is not None
        kept = run.steps < run.below_eps_step
        assert (run.log_gradient[kept] >= math.log(eps)).all()
        assert (run.log_gradient[~kept] < math.log(eps)).all()
        assert -math.log(eps) < run.margins[-1].min() + math.log(60) < -math.log(eps) + 20


@pytest.mark.parametrize("name", ["adam", "adamax", "rmsprop", "rmsprop, eps beside the root", "normalised"])
def test_a_smaller_loss_with_a_smaller_eps_is_the_same_run(name):
    """Weights times 2^-460 and eps times the same, to its degree; squares of these gradients are no doubles."""
    make, _, degree = WITH_EPS[name]
    Z, c, small, eps = positive(), np.arange(1.0, 7.0) / 21, -460, 0.01 ** WITH_EPS[name][2]
    one = optimiser_descent(Z, make, n_steps=3000, loss=loss_of(name), eps=eps, weights=c)
    assert one.below_eps_step is not None
    smaller_eps = float(np.ldexp(eps, small * degree))
    other = optimiser_descent(Z, make, n_steps=3000, loss=loss_of(name), eps=smaller_eps, weights=np.ldexp(c, small))
    # Logs of 320 have a rounding error of 6e-14, a relative error of gradients that every step has anew.
    np.testing.assert_allclose(other.w, one.w, rtol=0, atol=1e-12 * np.abs(one.w[-1]).max())
    assert other.below_eps_step == one.below_eps_step
    np.testing.assert_allclose(other.log_gradient, one.log_gradient + small * math.log(2), rtol=0, atol=1e-10)
    # The same eps on the smaller loss is another run.
    third = optimiser_descent(Z, make, n_steps=3000, loss=loss_of(name), eps=eps, weights=np.ldexp(c, small))
    assert np.abs(third.w[-1] - one.w[-1]).max() > 0.1 * np.abs(one.w[-1]).max()
    assert third.below_eps_step == 0


def test_an_eps_that_is_built_in_ends_where_doubles_do():
    """The same Adam, with its eps where it cannot be reached: its squares underflow near a margin of 354."""
    Z = positive()
    run = optimiser_descent(Z, FAST_ADAM(1e-300), n_steps=600, loss="exponential")
    assert not run.scaled
    assert run.why_unscaled.endswith("its updates are neither the same nor as much smaller")
    assert run.arithmetic_ended
    assert run.ending == "squares of the next gradient are below the smallest double"
    assert run.horizon is not None
    assert run.horizon == run.steps[-1] == run.cost.n_steps < 600
    # Up to there the true gradients are right, and they end where their squares do.
    exact = adam_in_digits(Z, lr=1.0, b1=0.01, b2=0.01, eps=1e-300, n_steps=run.horizon)
    np.testing.assert_allclose(run.w[-1], exact, rtol=0, atol=1e-12 * np.abs(exact).max())
    assert run.log_gradient[-1] < -511 * math.log(2) <= run.log_gradient[-2]


def test_gradient_descent_stalls_and_says_so():
    """From margins at which a step is below rounding: not converged, and not a gradient of zero."""
    Z = fixture()
    for gap in (20, 100, 104, 120, 740, 760):  # of a known fault: gradients of 0 in single and in double precision
        start = L2 * gap / (Z @ L2).min()
        run = optimiser_descent(Z, BY_THEMSELVES["gradient descent"][0], n_steps=10, start=start)
        assert run.stalled_at == (None if gap == 20 else 0)
        assert run.ending == (
            "all steps were taken" if gap == 20 else "after 0 steps updates were below the rounding of w"
        )
        # log of the loss's mean slope, between the largest term alone and all six.
        assert -gap - math.log(6) - 1 < run.log_gradient[0] < -gap + 2
        assert -gap - math.log(6) - 1e-9 < run.log_loss[0] < -gap + 1e-9
        normalised = optimiser_descent(Z, NORMALISED, eps=0.0, n_steps=1, start=start)
        step = normalised.w[-1] - start
        p = np.exp(-(Z @ start) + gap)
        # Subtracting points of size up to 1e3 leaves 1e-13.
        np.testing.assert_allclose(step, LR * p @ Z / np.linalg.norm(p @ Z), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("optimiser", "n_steps", "since"),
    [
        (optax.MultiSteps(optax.sgd(LR), 3).gradient_transformation(), 301, 300),  # gathers for two more steps
        (optax.MultiSteps(optax.sgd(LR), 3).gradient_transformation(), 300, None),
        (optax.sgd(optax.cosine_decay_schedule(LR, 100)), 300, 100),
        (optax.sgd(optax.cosine_decay_schedule(LR, 100)), 100, None),
        (optax.set_to_zero(), 30, 0),
    ],
)
def test_an_optimiser_that_makes_no_update_is_not_stalled(optimiser, n_steps, since):
    run = optimiser_descent(fixture(), optimiser, n_steps=n_steps)
    assert (run.stalled_at, run.idle_since, run.horizon) == (None, since, None)
    assert not run.arithmetic_ended
    assert run.ending == (
        "all steps were taken" if since is None else f"the optimiser made no update since step {since}"
    )


def test_updates_that_are_lost_are_told_from_updates_that_are_not_made():
    """From margins at which every update is below rounding: lost, whatever comes after; or not made at all."""
    Z = fixture()
    schedule = optax.sgd(optax.cosine_decay_schedule(LR, 100))  # zero from step 100 on
    gathered = optax.MultiSteps(optax.sgd(LR), 3).gradient_transformation()  # its first update is at the third step
    for optimiser, eps, margin, stalled, idle, ending in (
        (schedule, None, 1500, 0, None, "after 0 steps updates were below the rounding of w"),
        (gathered, None, 100, 2, None, "after 2 steps updates were below the rounding of w"),
        # A gradient below eps by more than doubles have: a zero in the units that eps leaves, and lost in any.
        (ADAM, 1e-8, 4000, 0, None, "after 0 steps updates were below the rounding of w"),
        (optax.set_to_zero(), None, 1500, None, 0, "the optimiser made no update since step 0"),
    ):
        start = L2 * margin / (Z @ L2).min()
        run = optimiser_descent(Z, optimiser, n_steps=200, start=start, eps=eps)
        assert (run.stalled_at, run.idle_since, run.ending) == (stalled, idle, ending)
        assert run.arithmetic_ended == (stalled is not None)


def test_rows_and_steps_at_the_end_of_doubles():
    """No warning, and numbers where there are numbers: one step, from which margins overflow."""
    Z = fixture() / np.abs(fixture()).max() * 5e307
    run = optimiser_descent(Z, optax.sgd(LR), n_steps=5)
    assert (run.horizon, run.stalled_at, run.idle_since) == (1, None, None)
    assert run.ending == "margins are beyond the largest double"
    step = LR * (Z / 1e300).mean(axis=0) / 2 * 1e300
    np.testing.assert_allclose(run.w[1], step, rtol=1e-13)  # some 1e-16 for each power of two in log c + 1020 log 2
    assert run.log_gradient[0] == pytest.approx(math.log(np.abs(step / LR).max()), rel=1e-14)
    # Steps to match: the same run as in any other unit.
    scale = 2.0**1000
    one = optimiser_descent(fixture(), SIGNS, n_steps=500)
    other = optimiser_descent(fixture() * scale, optax.sign_sgd(0.01 / scale), n_steps=500)
    np.testing.assert_allclose(other.margins, one.margins, rtol=0, atol=1e-10)
    assert other.ending == "all steps were taken"
    # A step of 1e300 in w, after which nothing is left to be done.
    far = optimiser_descent(fixture(), optax.sgd(1e300), n_steps=5)
    assert far.stalled_at == 1
    assert np.isfinite(far.margins).all()


def test_momentum_outlives_its_gradients():
    """A step of a thousand in margin: the momentum is then e^1000 times the gradient, and still the same number."""
    Z = fixture()
    optimiser = optax.chain(optax.scale(1e4), optax.trace(0.5), optax.scale(-1.0))
    first = optimiser_descent(Z, optimiser, n_steps=1)
    assert first.margins[-1].min() > 500
    run = optimiser_descent(Z, optimiser, n_steps=30, n_kept=100)
    # From the second step on the gradient adds nothing: w_k = w_1 (2 - 2^(1-k)).
    expected = first.w[-1] * (2 - 2.0 ** (1 - run.steps[1:, None]))
    np.testing.assert_allclose(run.w[1:], expected, rtol=1e-13)


def test_signs_go_to_the_sup_norm_margin_and_normalised_descent_to_the_euclidean():
    Z = fixture()
    signs = optimiser_descent(Z, SIGNS, n_steps=200_000, loss="exponential")
    ratio = (Z @ signs.w[-1]).min() / np.abs(signs.w[-1]).max() / GAMMA_INF
    # A step of 0.01 in 2000; the margins are equal to about one.
    assert 1 - 5e-3 < ratio <= 1
    assert signs.S[-1] == pytest.approx(2000, rel=1e-9)
    assert signs.stalled_at is None
    euclidean = optimiser_descent(Z, NORMALISED, eps=0.0, n_steps=20_000)
    assert np.linalg.norm(euclidean.w[-1] / np.linalg.norm(euclidean.w[-1]) - L2) < 5e-3
    assert np.linalg.norm(signs.w[-1] / np.linalg.norm(signs.w[-1]) - L2) > 0.3


def test_a_column_of_zeros_under_no_eps():
    """0/0 at the first step: not a number in optax, and a value in the result here."""
    Z = fixture() * np.array([1.0, 1.0, 1.0, 0.0])
    run = optimiser_descent(Z, ADAM, eps=0.0, n_steps=50)
    assert run.horizon == 0
    assert run.steps.tolist() == [0]
    assert run.ending == "the next update or the optimiser's next state is not a finite number"
    assert np.isfinite(run.w).all()
    fine = optimiser_descent(Z, ADAM, eps=1e-300, n_steps=50)
    assert fine.horizon is None
    assert (fine.w[:, 3] == 0).all()


def test_rows_that_cancel_have_a_minimiser():
    run = optimiser_descent(np.array([[1.0, 0.0], [-1.0, 0.0]]), BY_THEMSELVES["gradient descent"][0], n_steps=20)
    assert run.ending == "after 0 steps nothing moved: the gradient is zero"
    assert (run.stalled_at, run.idle_since, run.arithmetic_ended) == (None, 0, False)
    assert run.log_gradient.tolist() == [-math.inf] * len(run.steps)
    assert (run.w == 0).all()


def test_units_of_the_data():
    """Rows times 1e+-150 with steps to match: the same margins from signs."""
    Z = fixture()
    one = optimiser_descent(Z, SIGNS, n_steps=500, loss="exponential")
    for scale in (1e-150, 1e150):
        other = optimiser_descent(Z * scale, optax.sign_sgd(0.01 / scale), n_steps=500, loss="exponential")
        np.testing.assert_allclose(other.margins, one.margins, rtol=0, atol=1e-10)


NOT_OF_EPS = (
    "`optimiser` is a function that cannot be called with eps alone: pass the optimiser that it makes, or a function "
    "of one number, `lambda eps: optax.adam(0.1, eps=eps)`."
)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"Z": np.ones(3)},
            ValueError,
            "`Z` must have shape (n, d) or (n, d1, d2) and at least one entry; got (3,).",
        ),
        (
            {"Z": scipy.sparse.csr_array(np.ones((2, 4)))},
            TypeError,
            "`Z` is a sparse array; pass `Z.toarray()`.",
        ),
        (
            {"Z": [[2**53 + 1, 1, 1, 1]]},
            ValueError,
            "`Z` has integers beyond 2**53 that no double holds; rescale it or round it yourself.",
        ),
        ({"Z": [[np.nan, 1.0]]}, ValueError, "`Z[0, 0]` is nan; every entry must be finite."),
        ({"n_steps": 0}, ValueError, "`n_steps` must be at least 1; got 0."),
        ({"loss": "hinge"}, ValueError, "`loss` must be one of exponential, logistic; got 'hinge'."),
        ({"weights": -np.ones(6)}, ValueError, "`weights` must be positive; `weights[0]` is -1:"),
        ({"weights": np.ones(5)}, ValueError, "`Z` has shape (6, 4) and `weights` has shape (5,): 6 rows against 5."),
        ({"weights": np.ones((6, 1))}, ValueError, "`weights` must have shape (n,); got (6, 1)."),
        ({"start": np.ones(3)}, ValueError, "`start` must have shape (4,); got (3,)."),
        (
            {"start": np.full(4, 1e308)},
            ValueError,
            "`start` is so large for these rows that its margins overflow; start nearer to zero.",
        ),
        ({"shape": (2.5, 1)}, TypeError, "`shape` must be a tuple of integers, for example (5, 4); got (2.5, 1)."),
        ({"shape": 2}, TypeError, "`shape` must be a tuple of integers, for example (5, 4); got 2."),
        ({"shape": (True, 4)}, TypeError, "`shape` must be a tuple of integers, for example (5, 4); got (True, 4)."),
        (
            {"shape": (2, 3)},
            ValueError,
            "`shape` (2, 3) does not hold the 4 entries of a row of `Z`, which has shape (6",
        ),
        (
            {"eps": 1e-8},
            ValueError,
            "`eps` goes with a function that makes an optimiser of it, `lambda eps: optax.adam(",
        ),
        ({"optimiser": "adam"}, TypeError, "`optimiser` must be an optax.GradientTransformation, or a function that"),
        (
            {"optimiser": optax.MultiSteps(optax.sgd(LR), 3)},
            TypeError,
            "`optimiser` must be an optax.GradientTransformation, or a function that makes one of eps; got MultiSteps; "
            "pass its `.gradient_transformation()`.",
        ),
        ({"optimiser": lambda: optax.sgd(LR)}, TypeError, NOT_OF_EPS),
        ({"optimiser": lambda: optax.sgd(LR), "eps": 1e-8}, TypeError, NOT_OF_EPS),
        ({"optimiser": lambda a, b: optax.sgd(a), "eps": 1e-8}, TypeError, NOT_OF_EPS),
        ({"optimiser": lambda eps: optax.adam(eps)}, ValueError, "`optimiser` is a function, of eps: pass `eps`, a"),
        ({"optimiser": optax.adam, "eps": -1.0}, ValueError, "`eps` must be a finite number, at least 0; got -1.0."),
        (
            {"optimiser": lambda eps: eps, "eps": 1e-8},
            TypeError,
            "`optimiser` must make an optax.GradientTransformation of eps; it returned float.",
        ),
        (
            {"optimiser": lambda eps: optax.chain(optax.clip(0.1), optax.adam(LR, eps=eps)), "eps": 1e-8},
            ValueError,
            "`optimiser` cannot be run in units of its gradient: part 1 of its state is no power of the gradient. Pass",
        ),
        (
            {"optimiser": lambda eps: optax.adam(LR, eps=max(eps, 1e-9)), "eps": 1e-8},
            TypeError,
            "`optimiser` asks for the value of eps, which is traced: it may use eps in jax.numpy's functions, not in",
        ),
        (
            {"optimiser": optax.polyak_sgd()},
            TypeError,
            "`optimiser` cannot be run on gradients alone: scale_by_polyak.<locals>.update_fn() missing 1 required key",
        ),
        (
            {"optimiser": lambda eps: optax.adadelta(LR, eps=eps), "eps": 1e-8},
            ValueError,
            "`optimiser` cannot be run in units of its gradient: ",
        ),
    ],
)
def test_bad_input(change, error, message):
    arguments = {"Z": fixture(), "optimiser": optax.sgd(LR), "n_steps": 5} | change
    with pytest.raises(error, match="^" + re.escape(message)):
        optimiser_descent(**arguments)
