"""Flows: the path is gradient flow, an arrival is a limit, and everything else is called by its name."""

import dataclasses
import functools
import math
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

from _double import in_double
from omegalimit._numerics import double_precision
from omegalimit.data import TokenData, gaussian_tokens
from omegalimit.flows import _rkc, gradient_descent, gradient_flow, measure, predicted_gap, time_constant
from omegalimit.limits import MaxMargin
from omegalimit.models import KeyQueryAttention, MergedAttention
from omegalimit.problem import AttentionProblem, MarginProblem
from omegalimit.solvers import solve
from omegalimit.trajectory import Ending

# Instances.


def limit_of(data, norm, selection):
    differences = data.differences(np.asarray(selection))
    queries = np.broadcast_to(data.z[:, None, :], differences.shape)
    return MaxMargin(norm, left=differences.reshape(-1, data.d), right=queries.reshape(-1, data.d))


def judge_of(data, model, norm):
    return lambda omega, selection, p: limit_of(data, norm, selection).certify(model.matrix(omega), p).gap


def random_start(size, radius, seed=0):
    theta = np.random.default_rng(seed).standard_normal(size)
    return radius * theta / np.linalg.norm(theta)


@dataclasses.dataclass(frozen=True, eq=False)
class Attention:
    """A small attention problem, its certificate as a judge, and a start of radius one."""

    data: TokenData
    problem: AttentionProblem
    start: np.ndarray
    norm: str

    @functools.cached_property
    def judge(self):
        return judge_of(self.data, self.problem.model, self.norm)

    def gap(self, arrival):
        """The gap of a state against the solved limit for its own tokens."""
        limit = limit_of(self.data, self.norm, arrival.selection)
        W = self.problem.model.matrix(arrival.direction)
        return 1 - limit.margins(W).min() / limit.norm_of(W) / solve(limit, tol=1e-12).certificate.upper


@functools.cache
def small(kind="kq", seed=0):
    model = KeyQueryAttention(d=4, inner=4) if kind == "kq" else MergedAttention(d=4)
    data = gaussian_tokens(3, 4, 4, seed=seed)
    problem = AttentionProblem(data, model)
    return Attention(data, problem, random_start(problem.size, 1.0), "nuclear" if kind == "kq" else "frobenius")


@functools.cache
def small_flow():
    case = small()
    return gradient_flow(case.problem, case.start, judge=case.judge, twin=True)


RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((8, 4))
ROWS *= np.sign(ROWS @ RNG.standard_normal(4))[:, None]


def linear(w):
    return ROWS @ w


def diagonal(p):
    return ROWS @ (p["k"] * p["q"])


def deep(p):
    return ROWS @ (p[0] @ (p[1] @ p[2]))


LEFT, RIGHT = RNG.standard_normal((2, 5, 3))
LEFT *= np.sign(np.sum(LEFT * RIGHT, axis=1))[:, None]


def bilinear(p):
    return jnp.einsum("ki,ir,jr,kj->k", LEFT, p["K"], p["Q"], RIGHT)


@functools.cache
def linear_problem(loss="exponential"):
    return MarginProblem(linear, np.array([0.3, -1.0, 0.2, 0.5]), loss=loss)


@functools.cache
def linear_flow(loss="exponential"):
    return gradient_flow(linear_problem(loss), tol=1e-12)


@functools.cache
def unit_limit(norm):
    limit = MaxMargin(norm, rows=ROWS)
    return solve(limit, tol=1e-12).certificate.point / limit.norm_of(solve(limit, tol=1e-12).certificate.point)


# The integrator.


class Plain(eqx.Module):
    """A right-hand side all of whose components act on each other."""

    function: Any = eqx.field(static=True)
    active = True

    def __call__(self, y):
        return self.function(y)

    def passive_rate(self, f):
        return 0.0


def integrate(function, y, *, h=1e-3, rtol=1e9, atol=1e9, until, max_evaluations=10**6):
    """The integrator's last state on a field that has nothing to do with this package."""
    field = Plain(function)
    with double_precision():
        state = _rkc.start(y, np.asarray(field(y)))._replace(h=np.asarray(h))
        return _rkc.advance(
            field, state, _rkc.coefficients(), lambda y, new: atol + rtol * jnp.abs(y), until,
            lambda y, kept: jnp.asarray(False), np.asarray(max_evaluations),
        )  # fmt: skip


def one_step(function, y, h):
    """`function` advanced by one step of length h, whatever its error."""
    done = integrate(function, y, h=h, until=lambda y, f: jnp.asarray(False), max_evaluations=1)
    assert int(done.n_steps) == 1
    assert float(done.s) == h
    return np.asarray(done.y)


MATRIX = np.array([[-1.0, 0.5, 0.0], [-0.3, -2.0, 0.2], [0.1, 0.0, -0.5]])


def decay(y):
    return jnp.asarray(MATRIX) @ y


def riccati(y):
    return -(y**2)


@pytest.mark.parametrize(
    ("field", "exact"),
    [
        (decay, lambda y, h: scipy.linalg.expm(h * MATRIX) @ y),
        (riccati, lambda y, h: y / (1 + h * y)),
    ],
    ids=["linear", "nonlinear"],
)
def test_rkc_has_order_two(field, exact):
    y = np.array([1.0, 0.6, 1.5])
    steps = (0.04, 0.02, 0.01)
    errors = [np.linalg.norm(one_step(field, y, h) - exact(y, h)) for h in steps]
    slopes = np.diff(np.log(errors)) / np.diff(np.log(steps))
    # A method of order two errs by O(h^3) in one step; the next term is a share h |A| <= 0.08 of it.
    assert np.all((slopes > 2.8) & (slopes < 3.2)), slopes


def stability_polynomial(s, z):
    """What one step of s stages makes of y' = lambda y, y = 1, at z = h lambda."""
    c = _rkc.coefficients()[s]
    before, now = np.ones_like(z), 1 + c[1, 2] * z
    for j in range(2, s + 1):
        mu, nu, mt, gt = c[j]
        before, now = now, (1 - mu - nu) + mu * now + nu * before + mt * z * now + gt * z
    return now


@pytest.mark.parametrize("s", [2, 3, 10, 57, _rkc.S_MAX])
def test_rkc_is_stable_on_the_interval_for_which_its_stages_are_chosen(s):
    # s = 1 + ceil(sqrt(1.54 h rho + 1)) stages serve h rho up to ((s - 1)^2 - 1) / 1.54.
    reach = ((s - 1) ** 2 - 1) / 1.54
    z = -np.linspace(0, reach, 20001)
    # Rounding grows with s^2: 200 stages keep ten digits.
    assert np.abs(stability_polynomial(s, z)).max() <= 1 + 1e-10 * s
    # Consistency: P(z) = 1 + z + z^2/2 + O(z^3); at z = -1e-3 the cubic term is below 1e-9.
    assert stability_polynomial(s, np.array([-1e-3]))[0] == pytest.approx(1 - 1e-3 + 5e-7, abs=2e-10)


def test_rkc_crosses_a_stiff_transient_with_the_root_of_the_stiffness():
    rates = np.geomspace(1.0, 1e6, 20)

    def stiff(y):
        return jnp.concatenate([-rates * (y[:-1] - jnp.cos(y[-1])), jnp.ones(1)])

    start = np.append(np.ones(20), 0.0)
    done = integrate(stiff, start, rtol=1e-4, atol=1e-6, until=lambda y, f: y[-1] >= 2.0)
    y = np.asarray(done.y)
    t = y[-1]
    # y' = -k (y - cos t), y(0) = 1, solved by hand.
    exact = (rates**2 * np.cos(t) + rates * np.sin(t) + np.exp(-rates * t)) / (rates**2 + 1)
    # rtol over some hundred steps, errors of different sign.
    np.testing.assert_allclose(y[:-1], exact, atol=1e-3)
    # An explicit method of two stages needs h < 2e-6, a million steps, 2e6 evaluations.
    assert int(done.n_evaluations) < 20_000


# The path below the cap.

TIMES = (1.0, 10.0, 100.0, 500.0)


@functools.cache
def reference_path():
    """DOP853 on the raw loss in physical time, on the data as they came."""
    case = small()
    data = case.data

    def loss(theta):
        K, Q = theta.reshape(2, 4, 4)
        p = jax.nn.softmax(jnp.einsum("nld,de,ne->nl", data.X, K @ Q.T, data.z), axis=1)
        return jnp.exp(-data.y * jnp.einsum("nl,nld,d->n", p, data.X, data.v)).sum()

    gradient = in_double(jax.jit(jax.grad(loss)))
    path = scipy.integrate.solve_ivp(
        lambda t, y: -gradient(y), (0, 500), case.start, method="DOP853", rtol=1e-11, atol=1e-13, t_eval=TIMES
    )
    return dict(zip(TIMES, path.y.T, strict=True))


def balance_drift(model, theta, start):
    return np.abs(model.balance(theta) - model.balance(start)).max() / np.linalg.norm(theta) ** 2


# Seen: rkc 5e-4 (the default at the cap 1e4 is 5e-5), lsoda 5e-9 at 1e-8, 6e-11 at 1e-10; balance 3e-5, 1e-9, 1e-11.
# The bounds are 20 rtol for a method whose local error is rtol and which takes some hundred steps.
@pytest.mark.parametrize(("method", "rtol"), [("rkc", None), ("rkc", 1e-6), ("lsoda", 1e-8)])
def test_below_the_cap_the_path_is_gradient_flow_in_physical_time(method, rtol):
    case = small()
    for t in TIMES:
        flow = gradient_flow(case.problem, case.start, method=method, rtol=rtol, until_log_time=math.log(t))
        assert flow.ending is Ending.TIME_REACHED
        assert flow.arrival.log_time == pytest.approx(math.log(t), abs=1e-12)
        theta, reference = flow.trajectory.theta[-1], reference_path()[t]
        limit = (20 if method == "lsoda" or rtol is None else 100) * flow.rtol
        assert np.linalg.norm(theta - reference) <= limit * np.linalg.norm(reference)
        assert balance_drift(case.problem.model, theta, case.start) <= limit


def test_descent_converges_to_the_flow_at_first_order_in_the_step():
    case = small()
    reference = reference_path()[100.0]
    errors = []
    for step in (0.1, 0.05):
        descent = gradient_descent(case.problem, case.start, step_size=step, n_steps=round(100 / step), n_kept=2)
        assert descent.trajectory.log_time[-1] == pytest.approx(math.log(100.0), rel=1e-14)
        errors.append(np.linalg.norm(descent.trajectory.theta[-1] - reference))
    assert 1.8 <= errors[0] / errors[1] <= 2.2
    # Explicit Euler errs by step times a constant of order 0.01 here.
    assert errors[1] / np.linalg.norm(reference) < 1e-3


def test_balance_is_conserved_past_the_cap_too():
    # Past the cap the field has another S but the same symmetry: C(t) = C(0), so C / r^2 falls like 1 / r^2.
    flow, case = small_flow(), small()
    model, path = case.problem.model, flow.trajectory
    drift = np.abs(
        model.balance(path.direction) - model.balance(case.start) * np.exp(-2 * path.log_radius)[:, None]
    ).max(axis=1)
    assert drift.max() <= 20 * flow.rtol
    assert path.log_radius[-1] > 4  # r^2 has grown by more than e^8


def test_the_trajectory_is_ordered_and_its_time_ends_at_the_cap():
    flow = small_flow()
    path = flow.trajectory
    assert path.clock == "s"
    assert np.all(np.diff(path.time) > 0)
    below = path.log_sharpness < math.log(flow.cap)
    assert below[0]
    assert not below[-1]
    assert np.isfinite(path.log_time[below][1:]).all()
    assert path.log_time[0] == -math.inf
    assert np.all(np.diff(path.log_time[below]) > 0)
    assert np.isnan(path.log_time[~below]).all()
    np.testing.assert_allclose(np.linalg.norm(path.direction, axis=1), 1.0, rtol=1e-14)
    assert len(path) == len(path.theta)


def test_the_horizons_are_where_rounding_and_tolerance_say():
    flow = small_flow()
    a, N = flow.arrival, flow.arrival.direction.size
    assert a.arithmetic_horizon == pytest.approx(1 / (2.0**-52 * np.abs(a.margins).max()), rel=1e-14)
    assert flow.tolerance_horizon == pytest.approx(1 / (flow.atol + flow.rtol / math.sqrt(N)), rel=1e-14)
    assert flow.horizon == min(a.arithmetic_horizon, flow.tolerance_horizon) / 10
    assert flow.cap <= flow.horizon
    assert flow.twin is not None
    assert flow.twin.cap <= flow.twin.horizon


# Limits.


def test_arrival_is_certified_and_its_twin_has_a_tenth_of_the_gap():
    flow = small_flow()
    assert flow.ending is Ending.CERTIFIED
    assert flow.certified
    assert flow.polished is not None
    assert flow.polished.gap <= 1e-8
    assert flow.twin is not None
    assert flow.twin.ending is Ending.CERTIFIED
    assert flow.twin.cap == 10 * flow.cap
    # C = c / S + O(1/S^2), C here 1e-3; the gap has what is left of the velocity beside it, 10% at most.
    assert flow.twin.arrival.complementarity / flow.arrival.complementarity == pytest.approx(0.1, rel=0.01)
    assert flow.twin.arrival.gap / flow.arrival.gap == pytest.approx(0.1, rel=0.15)
    np.testing.assert_array_equal(flow.arrival.selection, flow.twin.arrival.selection)


def test_certified_gap_is_that_of_a_solver_that_knows_no_flow():
    flow, case = small_flow(), small()
    assert flow.polished is not None
    state = measure(case.problem, flow.polished.direction, flow.arrival.log_sharpness)
    assert case.gap(state) == pytest.approx(0.0, abs=1e-8)  # both certified to 1e-8
    # The unpolished state is as far as it says: its gap against the solver's optimum is at most its own certificate's.
    assert 0 < case.gap(flow.arrival) <= flow.arrival.gap


def test_complementarity_is_below_the_entropy_bound_on_every_arrival():
    model = KeyQueryAttention(d=10, inner=10)
    selected_others = 0
    for seed in range(10):
        data = gaussian_tokens(6, 8, 10, seed=seed)
        problem = AttentionProblem(data, model)
        flow = gradient_flow(
            problem, random_start(problem.size, 0.1, seed), judge=judge_of(data, model, "nuclear"), polishing=False
        )
        a = flow.arrival
        assert flow.certified, (seed, flow.reason)
        # Proved where p is the frozen flow's own weights; 1e-12 for rounding.
        assert a.complementarity <= a.entropy_bound * (1 + 1e-12), seed
        assert a.gap <= 1.1 * a.complementarity + 1e-12, seed
        selected_others += int(not np.array_equal(a.selection, data.best))
    assert selected_others < 10


def test_a_linear_classifier_goes_to_the_l2_maximum_margin():
    flow = linear_flow()
    assert flow.certified
    assert flow.polished is not None
    # A certified gap of 1e-12 leaves an angle of 1.4e-6 at most; Newton's last step is far better.
    np.testing.assert_allclose(flow.polished.direction, unit_limit("l2"), atol=1e-8)


def test_a_diagonal_net_goes_to_l1_and_a_deep_linear_net_to_l2():
    rng = np.random.default_rng(1)
    problem = MarginProblem(diagonal, {"k": rng.standard_normal(4), "q": rng.standard_normal(4)})
    flow = gradient_flow(problem, tol=1e-12)
    assert flow.certified, flow.reason
    assert flow.polished is not None
    p = problem.params(flow.polished.direction)
    beta = p["k"] * p["q"]
    np.testing.assert_allclose(beta / np.abs(beta).sum(), unit_limit("l1"), atol=1e-8)
    assert np.abs(unit_limit("l1") - unit_limit("l2") / np.abs(unit_limit("l2")).sum()).max() > 0.01

    problem = MarginProblem(
        deep, [rng.standard_normal((4, 3)), rng.standard_normal((3, 3)), rng.standard_normal(3)]
    )  # fmt: skip
    flow = gradient_flow(problem, tol=1e-12)
    assert flow.certified, flow.reason
    assert flow.polished is not None
    p = problem.params(flow.polished.direction)
    beta = p[0] @ (p[1] @ p[2])
    np.testing.assert_allclose(beta / np.linalg.norm(beta), unit_limit("l2"), atol=1e-7)
    assert flow.growth_rate <= 1e-3


def test_exponential_and_logistic_loss_have_the_same_limit():
    one, other = linear_flow().polished, linear_flow("logistic").polished
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(one.direction, other.direction, atol=1e-8)


# Endings.


def shared_direction(d, seed):
    rng = np.random.default_rng(seed)
    K, Q = np.zeros((2, d, d))
    K[:, 0], Q[:, 0] = rng.standard_normal((2, d))
    return K, Q


def test_a_start_of_rank_one_is_stationary_but_not_optimal():
    case = small()
    K, Q = shared_direction(4, 1)
    start = 0.1 * np.concatenate([K.ravel(), Q.ravel()])
    flow = gradient_flow(case.problem, start, judge=case.judge)
    assert flow.ending is Ending.STATIONARY
    assert not flow.certified
    assert flow.polished is None
    assert flow.arrival.stationarity < 1e-8
    assert flow.arrival.gap > 0.05
    assert flow.plateaus  # every place where it was slow is on record
    W = case.problem.model.matrix(flow.arrival.direction)
    assert np.linalg.matrix_rank(W, tol=1e-12) == 1
    assert flow.reason.startswith("at rest in direction at sharpness 1.0e+04, yet inactive directions would grow (")


def test_a_saddle_of_a_users_model_is_not_sold_as_a_limit():
    K, Q = shared_direction(3, 2)
    problem = MarginProblem(bilinear, {"K": K, "Q": Q})
    saddle = gradient_flow(problem)
    assert saddle.ending is Ending.STATIONARY
    assert saddle.polished is None
    # Its KKT residuals alone would have passed.
    assert max(saddle.arrival.stationarity, saddle.arrival.complementarity) < 1e-3
    # Growth in closed form: max over the free inner directions of sigma(sum p A_k) against the growth a of the occupied
    # one, by an SVD that the engine does not use.
    p = saddle.arrival.multipliers
    free = np.linalg.svd(np.einsum("k,ki,kj->ij", p, LEFT, RIGHT))[1][0]
    occupied = saddle.arrival.mean_margin * float(problem.unit) * 2
    assert free / occupied - 1 > 1e-3
    start = problem.start + 0.01 * np.random.default_rng(0).standard_normal(problem.size)
    away = gradient_flow(problem, start)
    assert away.certified
    assert away.growth_rate <= 1e-3
    # What it gained by leaving: the margin over the nuclear norm, |W|_* <= |theta|^2 / 2.
    assert away.arrival.least_margin > saddle.arrival.least_margin * 1.001
    limit = MaxMargin("nuclear", left=LEFT, right=RIGHT)
    W = problem.params(away.arrival.direction)
    W = W["K"] @ W["Q"].T
    assert limit.margins(W).min() / limit.norm_of(W) == pytest.approx(solve(limit).certificate.lower, rel=1e-3)


def test_contradictory_inputs_are_not_separated():
    case = small()
    data = case.data
    twice = TokenData(
        X=np.concatenate([data.X, data.X]), z=np.concatenate([data.z, data.z]), y=np.concatenate([data.y, -data.y]),
        v=data.v,
    )  # fmt: skip
    problem = AttentionProblem(twice, case.problem.model)
    flow = gradient_flow(problem, case.start, judge=judge_of(twice, problem.model, "nuclear"))
    assert flow.ending is Ending.NOT_SEPARATED
    assert re.fullmatch(
        r"the gradient has vanished beside its weights at the finite sharpness \S+: "
        r"the flow rests there, or creeps, and no direction is selected\.",
        flow.reason,
    )
    # The whole gradient has vanished, not only its tangential part; |omega| = 1, and with it S, to the tolerance 5e-5.
    assert abs(flow.arrival.growth) < 1e-4


def test_a_margin_too_thin_for_double_precision_ends_at_the_horizon():
    # Margins +-w_0 + 1e-8 w_1: separable with the relative margin 1e-8, for which the cap would have to pass 1e7.
    problem = MarginProblem(lambda w: jnp.stack([w[0] + 1e-8 * w[1], -w[0] + 1e-8 * w[1]]), np.array([0.1, 0.3]))
    flow = gradient_flow(problem, method="lsoda")
    assert flow.ending is Ending.HORIZON
    assert flow.reason.startswith("arithmetic or tolerance ends the run at sharpness 1.0e+04 before a limit is decided")
    assert flow.arrival.entropy_bound > 2e-2


def test_too_few_evaluations_end_on_a_plateau():
    case = small()
    flow = gradient_flow(case.problem, case.start, judge=case.judge, max_evaluations=300)
    assert flow.ending is Ending.PLATEAU
    assert 300 <= flow.cost.n_evaluations < 300 + _rkc.S_MAX + _rkc.POWER_STEPS
    assert flow.reason.startswith(f"still moving after {flow.cost.n_evaluations} field evaluations, at sharpness ")


# Training time.


def at_time(case, log_time):
    flow = gradient_flow(
        case.problem, case.start, cap=1e6, polishing=False, judge=case.judge, until_log_time=log_time
    )  # fmt: skip
    assert flow.ending is Ending.TIME_REACHED
    return flow.arrival


def measured_over_predicted(case, base, log10_times):
    ratios = []
    for log10_time in log10_times:
        log_time = log10_time * math.log(10)
        flow = gradient_flow(
            case.problem, case.start, cap=1e6, polishing=False, judge=case.judge, until_log_time=log_time
        )
        assert flow.ending is Ending.TIME_REACHED
        a = flow.arrival
        predicted = predicted_gap(case.problem, a.selection, base.polished.multipliers, log_time=log_time)
        ratios.append(case.gap(a) / predicted)
    return np.array(ratios)


def test_the_law_in_one_over_log_t_holds_with_its_constant_for_merged_weights():
    case = small("merged")
    base = gradient_flow(case.problem, case.start, judge=case.judge)
    excess = np.abs(measured_over_predicted(case, base, (100, 300, 1000, 3000)) - 1)
    # The correction is o(1) in t: here it falls like 1 / log t, thirtyfold over the range.
    assert np.all(np.diff(excess) < 0)
    assert excess[-1] < 0.002
    assert 15 < excess[0] / excess[-1] < 60


def test_the_law_holds_for_a_linear_classifier_under_both_losses():
    for loss in ("exponential", "logistic"):
        problem, base = linear_problem(loss), linear_flow(loss)
        limit = MaxMargin("l2", rows=ROWS)
        best = solve(limit, tol=1e-12).certificate.upper
        excess = []
        for log10_time in (100, 1000, 3000):
            log_time = log10_time * math.log(10)
            flow = gradient_flow(problem, cap=1e6, polishing=False, until_log_time=log_time)
            gap = 1 - limit.margins(flow.arrival.direction).min() / best
            assert base.polished is not None
            predicted = predicted_gap(problem, flow.arrival.selection, base.polished.multipliers, log_time=log_time)
            excess.append(abs(gap / predicted - 1))
        assert np.all(np.diff(excess) < 0)
        assert excess[-1] < 0.005


def test_inactive_singular_values_of_key_and_query_fall_as_a_power_that_the_dual_gives():
    # sigma_i(W) grows like S^(sigma_i(M) / sigma_1(M)): its share falls like S^-(1 - s_i), more slowly than 1/S. So the
    # gap of K and Q apart stays above the law in 1/log t, which sees the margins alone.
    case = small("kq", 2)
    base = gradient_flow(case.problem, case.start, judge=case.judge)
    limit = limit_of(case.data, "nuclear", base.arrival.selection)
    s = np.linalg.svd(limit.combine(solve(limit, tol=1e-12).certificate.multipliers))[1]
    assert s[1] == pytest.approx(s[0], rel=1e-6)
    assert 0.2 < s[2] / s[0] < 0.8
    shares, log_S = [], []
    for log10_time in (1000, 10000):
        log_time = log10_time * math.log(10)
        flow = gradient_flow(
            case.problem, case.start, cap=1e6, polishing=False, judge=case.judge, until_log_time=log_time
        )
        sigma = np.linalg.svd(case.problem.model.matrix(flow.arrival.direction))[1]
        shares.append(sigma[2] / sigma.sum())
        log_S.append(flow.arrival.log_sharpness)
    exponent = math.log(shares[1] / shares[0]) / (log_S[1] - log_S[0])
    # M at finite S is off by a share of 1/S-like gaps, here about 1e-3 to 1e-2.
    assert exponent == pytest.approx(-(1 - s[2] / s[0]), rel=0.03)
    ratios = measured_over_predicted(case, base, (300, 3000))
    assert 1 < ratios[0] < ratios[1]
    # The law is that of the complementarity, and there it holds, with a correction that falls.
    excess = []
    for log10_time in (300, 3000):
        log_time, a = log10_time * math.log(10), at_time(case, log10_time * math.log(10))
        assert base.polished is not None
        predicted = predicted_gap(case.problem, a.selection, base.polished.multipliers, log_time=log_time)
        excess.append(abs(a.complementarity / predicted - 1))
    assert excess[1] < 0.6 * excess[0]
    assert excess[1] < 0.06


def test_the_constant_is_that_of_the_multipliers_by_hand():
    problem = linear_problem()
    p = np.array([0.5, 0.25, 0.25, 0, 0, 0, 0, 0])
    # Without offsets: H - min(-log p) = H - log 2 = 1.5 log 2 - log 2.
    assert time_constant(problem, np.zeros(0, dtype=int), p) == pytest.approx(0.5 * math.log(2), rel=1e-14)
    message = "`log_time` must be finite and above 1 for a law in 1 / log t; got 0.5."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        predicted_gap(problem, np.zeros(0, dtype=int), p, log_time=0.5)


# Descent.


def test_normalised_descent_takes_the_same_direction_with_another_length():
    case = small()
    one = functools.partial(gradient_descent, case.problem, case.start, step_size=0.01, n_steps=1, n_kept=2)
    plain = one().trajectory.theta[-1] - case.start
    normalised = one(normalised=True)
    move = normalised.trajectory.theta[-1] - case.start
    # Differences of parameters of size one: eps / 0.01.
    assert np.linalg.norm(move) == pytest.approx(0.01, rel=1e-12)
    cosine = move @ plain / np.linalg.norm(move) / np.linalg.norm(plain)
    assert cosine == pytest.approx(1.0, abs=1e-12)
    assert np.linalg.norm(plain) < 0.9 * np.linalg.norm(move)
    assert np.isnan(normalised.trajectory.log_time).all()


def test_a_run_whose_updates_fall_below_rounding_says_where():
    problem = MarginProblem(lambda w: w, np.ones(2))
    # From the margin 30 one step of 1e15 e^-30 = 94 reaches the margin 124, where the next would be 2e-39.
    result = gradient_descent(problem, np.array([30.0, 30.0]), step_size=1e15, n_steps=6, n_kept=6)
    assert result.stalled_at == 1
    last = result.trajectory.theta[-1]
    np.testing.assert_allclose(last, 30 + 1e15 * math.exp(-30), rtol=1e-13)
    np.testing.assert_allclose(result.trajectory.theta[result.trajectory.time >= 1], [last] * 5, rtol=1e-14)
    # The gradient is not lost: two terms of size e^-124, and a normalised step goes on.
    assert result.arrival.log_loss_gap == pytest.approx(math.log(2) - last[0], rel=1e-13)
    moving = gradient_descent(problem, last, step_size=0.1, n_steps=6, n_kept=6, normalised=True)
    assert moving.stalled_at is None
    np.testing.assert_allclose(moving.trajectory.theta[-1], last + 0.6 / math.sqrt(2), rtol=1e-13)


# Bad input.


def refused(function, *args, **options):
    with pytest.raises((ValueError, TypeError)) as caught:
        function(*args, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": np.zeros(4)}, "`start` is zero, where the direction is undefined; start from any other point."),
        ({"start": np.ones(3)}, "`start` must have shape (4,); got (3,)."),
        ({"start": np.array([1, np.inf, 0, 0])}, "`start` must be finite; got inf."),
        ({"method": "euler"}, "`method` must be one of rkc, lsoda; got 'euler'."),
        ({"cap": 1.0}, "`cap` must lie between 10 and 1e+09; got 1.0."),
        ({"cap": math.nan}, "`cap` must lie between 10 and 1e+09; got nan."),
        ({"rtol": 0.1}, "`rtol` must lie between 1e-13 and 1e-2; got 0.1."),
        ({"tol": 0.0}, "`tol` must lie between 0 and 1; got 0.0."),
    ],
)
def test_a_flow_that_cannot_start_says_why(options, message):
    assert refused(gradient_flow, linear_problem(), **options) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0, "n_steps": 1}, "`step_size` must be positive and finite; got 0.0."),
        ({"step_size": math.inf, "n_steps": 1}, "`step_size` must be positive and finite; got inf."),
        (
            {"step_size": 1.0, "n_steps": 0},
            "`n_steps` must be at least 1 and `n_kept` at least 2; got 0 and 50.",
        ),
        (
            {"step_size": 1.0, "n_steps": 3, "n_kept": 1},
            "`n_steps` must be at least 1 and `n_kept` at least 2; got 3 and 1.",
        ),
        (
            {"step_size": 1.0, "n_steps": 3, "start": np.array([1e200, 0, 0, 0])},
            "`start` has entries of size 1e+200, whose squares leave double precision; rescale the problem.",
        ),
    ],
)
def test_a_descent_that_cannot_run_says_why(options, message):
    assert refused(gradient_descent, linear_problem(), **options) == message


def test_an_attention_flow_needs_a_start():
    assert refused(gradient_flow, small().problem) == "`start` is missing; pass the flat parameters to start from."


# Extreme scales and degenerate starts.


@pytest.mark.parametrize("c", [2.0**200, 1e-150, 1e150])
def test_units_of_the_tokens_do_not_change_the_path(c):
    case = small()
    data = TokenData(X=case.data.X * c, z=case.data.z, y=case.data.y, v=case.data.v / c)
    problem = AttentionProblem(data, case.problem.model)
    start = case.start / math.sqrt(c)
    # In the scaled problem W0 is W / c and the clock of physical time runs with 1 / c: t -> t / c for K and Q apart.
    here = gradient_flow(case.problem, case.start, until_log_time=math.log(100.0))
    there = gradient_flow(problem, start, until_log_time=math.log(100.0) - math.log(c))
    # log r = -173 or 173 does not loosen its tolerance; two paths, each as near the flow as the test above asks.
    tolerance = 20 * here.rtol
    np.testing.assert_allclose(there.arrival.direction, here.arrival.direction, atol=tolerance)
    flow = gradient_flow(problem, start, judge=judge_of(data, problem.model, "nuclear"))
    assert flow.certified
    assert flow.polished is not None
    base = small_flow().polished
    assert base is not None
    # Both are optimal to 1e-6; the direction follows the gap like its root.
    np.testing.assert_allclose(flow.polished.direction, base.direction, atol=1e-3)
    assert np.isfinite(flow.trajectory.direction).all()
    assert np.isfinite(flow.trajectory.log_radius).all()


def test_a_balanced_start_with_equal_singular_values_arrives():
    case = small()
    half = np.eye(4).ravel() / 2
    flow = gradient_flow(case.problem, np.concatenate([half, half]), judge=case.judge)
    assert flow.certified
    assert flow.polished is not None
    assert flow.polished.gap <= 1e-6
    assert np.isfinite(flow.trajectory.direction).all()
    sigma = np.linalg.svd(case.problem.model.matrix(flow.trajectory.direction))[1]
    np.testing.assert_allclose(sigma[0], np.full(4, sigma[0, 0]), rtol=1e-14)  # degenerate at the start indeed
    assert np.isfinite(sigma).all()


def test_no_gradient_goes_through_singular_vectors():
    problem = small().problem
    with double_precision():

        def direction(theta):
            h, vjp = jax.vjp(problem.outputs, theta)
            return vjp(problem.weights(h, 3.0)[0])[0]

        text = str(jax.make_jaxpr(direction)(small().start))
    assert "dot_general" in text  # the text is that of the field
    assert "svd" not in text
    assert "eigh" not in text


def test_jax_of_the_user_stays_in_single_precision():
    linear_flow()
    gradient_descent(linear_problem(), step_size=0.1, n_steps=2)
    assert jnp.ones(1).dtype == jnp.float32


def test_weights_of_degree_one_pass_through_zero():
    # Polar coordinates end at zero; the flow of one weight from the wrong sign must come out on the other side.
    problem = MarginProblem(lambda w: w[0] * jnp.array([1.0, 2.0]), np.array([-0.3]))
    flow = gradient_flow(problem)
    assert flow.ending is Ending.CERTIFIED
    np.testing.assert_array_equal(flow.arrival.direction, [1.0])


def test_a_change_of_lead_does_not_jump():
    # The weights' normaliser sets the clock: just before and after another token takes the lead it is the same.
    data = TokenData(
        X=np.array([[[0.0, 1.0], [1.0, 0.2], [2.0, -0.5]]]), z=np.ones((1, 2)), y=np.ones(1), v=np.array([0.0, 1.0])
    )
    problem = AttentionProblem(data, MergedAttention(d=2))
    before, after = (
        [np.asarray(x) for x in in_double(problem.weights)(np.array([[1.0, 1.0 + lead, 0.3]]), np.log(30.0))]
        for lead in (-1e-12, 1e-12)
    )
    for x, y in zip(before, after, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)  # 30 times the change of the logits, and no jump


@pytest.mark.parametrize("size", [0.3, 1e-3, 1e-6])
def test_shrinking_weights_keep_their_direction_a_unit_vector(size):
    # Where a < 0 the length of omega would drift away exponentially; from a small start the way to zero is long.
    problem = MarginProblem(lambda w: w[0] * jnp.array([1.0, 2.0]), np.array([-size]))
    flow = gradient_flow(problem)
    assert flow.ending is Ending.CERTIFIED
    np.testing.assert_array_equal(flow.arrival.direction, [1.0])
