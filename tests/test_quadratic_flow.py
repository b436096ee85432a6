"""The flow of a positive quadratic network in three coordinates: each against the others, and against the theory."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit._numerics import double_precision
from omegalimit.data.measurement_generators import (
    commuting_measurements,
    completion_measurements,
    gaussian_measurements,
)
from omegalimit.data.measurements import CommutingMeasurements, EntryMeasurements, RankOneMeasurements
from omegalimit.flows import QuadraticEnding, factor_flow, mirror_flow, quotient_flow
from omegalimit.flows._quadratic_loss import scale
from omegalimit.flows._quadratic_result import tail_rate
from omegalimit.flows._quadratic_stepper import Stepper
from omegalimit.flows._quadratic_systems import FactorSystem, MirrorSystem, QuotientSystem, graded_svd

A = np.array([[1, 0.5, 0.2, 0.8], [0.3, 1, 0.7, 0.1]])
Y = np.array([1.0, 0.8])
GAUSSIAN = gaussian_measurements(40, 6, 2, seed=0)
PLANTED = np.asarray(GAUSSIAN.planted)
START = np.random.default_rng(1).standard_normal((6, 2))
WIDE = np.random.default_rng(2).standard_normal((6, 6))


def bregman(a, y, log_q0):
    """`argmin KL(q | q0), a q = y`: Newton on the smooth dual, from a q0 to y in forty steps."""
    nu = np.zeros(y.size)
    y0 = a @ np.exp(log_q0)
    for s in np.linspace(0, 1, 41)[1:]:  # in logs of y: from 1e-8 to 1 the first step would otherwise be all
        target = y0 ** (1 - s) * y**s
        for _ in range(60):
            q = np.exp(log_q0 + nu @ a)
            step = np.linalg.solve((a * q) @ a.T, target - a @ q)
            nu = nu + step / max(1.0, np.abs(step @ a).max())
    return np.exp(log_q0 + nu @ a)


def loss_of(Q, m):
    return 0.5 * np.mean((m.apply(Q) - m.y) ** 2)


# --- fields -----------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_the_factor_gradient_is_the_loss_gradient_and_horizontal(seed, r):
    rng = np.random.default_rng(seed)
    m, U = gaussian_measurements(12, 4, 2, seed=seed), rng.standard_normal((4, r))
    system = FactorSystem(scale(m, None, lambda _: 1.0), U, 1e-10)
    velocity = (system.field(0.0, system.of(U)).reshape(system.shape)) @ system._R.T
    p = system.problem
    with double_precision():

        def loss(U):
            X = jnp.asarray(p.measurements.inputs)
            return jnp.mean((((X @ U) ** 2).sum(axis=1) - jnp.asarray(p.measurements.y)) ** 2) / 2

        gradient = np.asarray(jax.grad(loss)(jnp.asarray(U)))
    size = np.abs(gradient).max()
    # Sums of 12 and 4 products: a hundred roundings.
    np.testing.assert_allclose(velocity, -gradient, atol=1e-13 * size)
    K = U.T @ velocity
    np.testing.assert_allclose(K, K.T, atol=1e-13 * np.abs(U).max() * size * 4)


def test_a_direction_that_is_not_a_gradient_need_not_be_horizontal():
    rng = np.random.default_rng(0)
    K = START.T @ (rng.standard_normal((6, 6)) @ START)
    assert np.abs(K - K.T).max() > 0.1


@pytest.mark.parametrize("kind", ["factor", "quotient", "mirror"])
def test_jacobians_are_the_derivatives_of_the_fields(kind):
    rng = np.random.default_rng(0)

    def curved(f, y):
        return jnp.mean(jnp.log(jnp.cosh(f - y)))

    for loss in (None, curved):
        if kind == "mirror":
            m = commuting_measurements(3, 5, 2, seed=0)
            system = MirrorSystem(scale(m, loss, lambda _: 1.0), rng.standard_normal(5), 1e-10)
        else:
            m = gaussian_measurements(12, 4, 2, seed=0)
            U = rng.standard_normal((4, 2))
            problem = scale(m, loss, lambda _: 1.0)
            system = FactorSystem(problem, U, 1e-10) if kind == "factor" else QuotientSystem(problem, U @ U.T, 1e-10)
        y, h = system.y0, 1e-5
        seen = np.array([(system.field(0, y + h * e) - system.field(0, y - h * e)) / (2 * h) for e in np.eye(y.size)]).T
        J = system.jacobian(0.0, y)
        # Central differences: h^2 times a third derivative of size one, and 1e-16 / h of rounding.
        np.testing.assert_allclose(J, seen, atol=1e-8 * max(1.0, np.abs(J).max()))


def test_small_columns_keep_their_digits():
    B = np.random.default_rng(0).standard_normal((6, 3))
    sizes = np.array([1.0, 1e-20, 1e-100])
    P, values, V = graded_svd(B * sizes)
    np.testing.assert_allclose((P * values) / sizes, (B * sizes) @ V / sizes, atol=1e-13)
    np.testing.assert_allclose(P.T @ P, np.eye(3), atol=1e-14)
    # The product of the singular values is a volume: that of B times the sizes.
    assert np.log(values).sum() == pytest.approx(np.log(np.linalg.svd(B)[1]).sum() + np.log(sizes).sum(), abs=1e-12)


# --- projection -------------------------------------------------------------------------------------------------------


def test_the_factor_flow_projects_to_the_quotient_flow_at_every_time():
    times = np.geomspace(1e-3, 3, 16)
    factor = factor_flow(GAUSSIAN, START, times=times)
    quotient = quotient_flow(GAUSSIAN, START @ START.T, times=times)
    assert factor.ending == quotient.ending == QuadraticEnding.INTERPOLATES
    size = max(np.abs(factor.matrix(i)).max() for i in range(16))
    # Each is integrated with steps of 1e-11; a few hundred of them add up, and the flow contracts.
    error = max(np.abs(factor.matrix(i) - quotient.matrix(i)).max() for i in range(16)) / size
    assert error < 1e-9
    late = quotient_flow(GAUSSIAN, START @ START.T, times=1.001 * times)
    assert max(np.abs(factor.matrix(i) - late.matrix(i)).max() for i in range(16)) / size > 1e-4
    np.testing.assert_allclose(factor.time[:-1], times, rtol=1e-13)


def test_a_third_integrator_agrees():
    m, t = GAUSSIAN, 0.05

    def field(_, u):
        U = u.reshape(6, 2)
        return (-2 * m.adjoint((m.apply_factor(U) - m.y) / m.n) @ U).reshape(-1)

    other = scipy.integrate.solve_ivp(field, (0, t), START.reshape(-1), method="DOP853", rtol=1e-13, atol=1e-13)
    U = factor_flow(m, START, times=np.array([t]), max_time=t).final
    # Orders 8 and up to 12, tolerances 1e-13 and 1e-11 a step.
    np.testing.assert_allclose(U, other.y[:, -1].reshape(6, 2), atol=1e-9)


def test_explicit_steps_for_many_unknowns_arrive_where_implicit_ones_do(monkeypatch):
    implicit = factor_flow(GAUSSIAN, START)
    monkeypatch.setattr("omegalimit.flows._quadratic_stepper.DENSE", 4)
    explicit = factor_flow(GAUSSIAN, START)
    assert explicit.ending == QuadraticEnding.INTERPOLATES
    assert explicit.cost.n_steps != implicit.cost.n_steps
    # Both contract to the same point of the same orbit.
    np.testing.assert_allclose(explicit.final, implicit.final, atol=1e-9 * np.abs(implicit.final).max())


# --- arrival ----------------------------------------------------------------------------------------------------------


def test_the_local_rate_is_the_least_curvature_of_the_limit():
    run = factor_flow(GAUSSIAN, START)
    B = GAUSSIAN.factor_rows(run.final).reshape(40, -1)
    curvature = np.linalg.eigvalsh(4 * B.T @ B / 40)
    # The planted matrix is the only interpolant of 40 > 21 generic measurements; the theory page has these two numbers.
    assert curvature[1] == pytest.approx(4.25699523, abs=5e-9)
    assert curvature[-1] == pytest.approx(241.14279821, abs=5e-8)
    for result in (run, quotient_flow(GAUSSIAN, START @ START.T)):
        rate = result.local_rate()
        assert rate is not None
        assert abs(rate.rate - curvature[1]) <= rate.error
        assert rate.error < 1e-3 * rate.rate


def test_a_factor_wider_than_the_rank_has_no_rate():
    run = factor_flow(GAUSSIAN, WIDE, arrival=1e-8)
    assert run.ending == QuadraticEnding.INTERPOLATES
    rate = run.local_rate(last=1e-7)
    assert rate is not None
    assert rate.error > 0.5 * rate.rate
    assert rate.rate < 1e-3
    # The residual falls like 1/t: the exponent from the last decade of time.
    h = run.history
    late = h.time > h.time[-1] / 10
    slope = np.polyfit(np.log(h.time[late]), np.log(h.residual[late]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.01)


def test_noisy_targets_end_at_the_optimum_among_positive_matrices():
    m = gaussian_measurements(40, 6, 2, seed=0, noise=1.0)
    run = factor_flow(m, WIDE)
    assert run.ending == QuadraticEnding.OPTIMAL
    G = m.adjoint((m.apply(run.Q) - m.y) / m.n)
    size = np.abs((m.apply(run.Q) - m.y) / m.n) @ m.norms
    assert np.abs(G @ run.Q).max() / np.abs(run.Q).max() / size < 1e-10
    assert np.linalg.eigvalsh(G)[0] / size > -1e-8
    # A factor of the planted rank stops short of it: Q of rank three would do better.
    narrow = factor_flow(m, START)
    assert narrow.ending == QuadraticEnding.STATIONARY
    assert narrow.figures.escape > 0.01
    assert loss_of(narrow.Q, m) > loss_of(run.Q, m)


def test_a_start_that_lacks_a_direction_ends_at_a_saddle_and_says_so():
    for U0 in (np.outer(START[:, 0], [1.0, 2.0]), START * [1.0, 0.0]):
        run = factor_flow(GAUSSIAN, U0)
        assert run.ending == QuadraticEnding.STATIONARY
        assert run.rank_start == 1
        assert run.figures.stationarity < 1e-11
        assert run.figures.escape > 0.1
        assert run.figures.residual > 0.1
        assert run.drift < 1e-14
        assert np.linalg.matrix_rank(run.final, tol=1e-12 * np.abs(run.final).max()) == 1
    quotient = quotient_flow(GAUSSIAN, np.outer(START[:, 0], START[:, 0]))
    assert (quotient.ending, quotient.rank_start) == (QuadraticEnding.STATIONARY, 1)


def test_a_start_that_holds_the_direction_however_little_of_it_leaves_the_saddle():
    run = factor_flow(GAUSSIAN, START * [1.0, 1e-13])
    assert run.ending == QuadraticEnding.INTERPOLATES
    assert run.rank_start == 2
    np.testing.assert_allclose(run.Q, PLANTED, atol=1e-9)


def test_plateaus_are_listed_and_last_as_long_as_the_growth_rate_says():
    def crossing(run):
        """The log residual's first passage through one half, on the clock t."""
        h = run.history
        i = int(np.argmax(h.residual < 0.5))
        return np.interp(math.log(2), -np.log(h.residual[i - 1 : i + 1]), h.time[i - 1 : i + 1])

    runs = [factor_flow(GAUSSIAN, eps * START) for eps in (1e-6, 1e-12, 1e-24)]
    for run in runs:
        assert run.ending == QuadraticEnding.INTERPOLATES
        first = run.plateaus[0]
        assert first.growth > 0.1
        assert first.residual == pytest.approx(1, abs=1e-6)
        assert math.exp(first.log_time_end) < run.time[-1]
    # At the origin sigma grows like exp(2 lambda t), lambda the largest eigenvalue of -G(0): a factor
    # 1e-6 costs log(1e6) / (2 lambda).
    lam = np.linalg.eigvalsh(GAUSSIAN.adjoint(GAUSSIAN.y / 40))[-1]
    t = [crossing(run) for run in runs]
    # The crossing is interpolated inside a step, which there is a few thousandths of the plateau.
    assert (t[1] - t[0]) * 2 * lam == pytest.approx(math.log(1e6), rel=2e-3)
    assert (t[2] - t[1]) * 2 * lam == pytest.approx(math.log(1e12), rel=2e-3)
    assert not factor_flow(GAUSSIAN, START).plateaus


def test_the_quotient_says_when_a_growing_part_is_below_its_rounding():
    run = quotient_flow(GAUSSIAN, 1e-20 * np.eye(6))
    assert run.ending == QuadraticEnding.HORIZON
    assert run.figures.growth > 0.1


@pytest.mark.parametrize("flow", ["factor", "quotient", "mirror"])
def test_targets_that_no_positive_matrix_meets(flow):
    """Negative targets of positive measurements: the best Q is zero, and the run says that this is no interpolation."""
    if flow == "mirror":
        run = mirror_flow(CommutingMeasurements(a=A, y=-Y), np.ones(4))
    else:
        m = RankOneMeasurements(X=GAUSSIAN.X, y=-GAUSSIAN.y)
        run = factor_flow(m, START) if flow == "factor" else quotient_flow(m, START @ START.T)
    assert run.ending == QuadraticEnding.OPTIMAL
    assert run.figures.residual == pytest.approx(1, abs=1e-9)
    assert run.figures.escape < 0
    assert not run.plateaus


def test_entries_of_a_matrix_that_is_not_positive():
    m = EntryMeasurements(rows=np.array([0, 0, 1]), cols=np.array([0, 1, 1]), size=2, y=np.array([1.0, 2.0, 1.0]))
    run = factor_flow(m, np.random.default_rng(1).standard_normal((2, 2)))
    assert run.ending == QuadraticEnding.OPTIMAL
    # min (a-1)^2 + (b-2)^2 + (c-1)^2, ac >= b^2: at a = b = c it is 2(a-1)^2 + (a-2)^2, least at 4/3.
    np.testing.assert_allclose(run.Q, np.full((2, 2), 4 / 3), atol=1e-9)


def test_matrix_completion_arrives():
    m = completion_measurements(40, 10, 2, seed=0)
    run = factor_flow(m, np.random.default_rng(5).standard_normal((10, 2)))
    assert run.ending == QuadraticEnding.INTERPOLATES
    np.testing.assert_allclose(run.outputs, m.y, atol=1e-11 * np.abs(m.y).max())


def test_any_smooth_loss():
    def curved(f, y):
        return jnp.mean(jnp.log(jnp.cosh(f - y)))

    run = factor_flow(GAUSSIAN, START, loss=curved)
    assert run.ending == QuadraticEnding.OPTIMAL
    np.testing.assert_allclose(run.Q, PLANTED, atol=1e-9)

    def sign(f, y):  # a loss that is not least at f = y
        return jnp.mean(jnp.logaddexp(0.0, -(y - 10) * f / 5))

    run = factor_flow(GAUSSIAN, START, loss=sign)
    assert run.ending == QuadraticEnding.OPTIMAL
    assert run.figures.residual > 0.5
    with double_precision():
        w = np.asarray(jax.grad(sign)(jnp.asarray(run.outputs), jnp.asarray(GAUSSIAN.y)))
    G, size = GAUSSIAN.adjoint(w), np.abs(w) @ GAUSSIAN.norms
    assert np.abs(G @ run.Q).max() / np.abs(run.Q).max() / size < 1e-10
    assert np.linalg.eigvalsh(G)[0] / size > -1e-8
    with pytest.raises(
        ValueError, match=r"^`loss` must return one number, the whole loss; it returned shape \(40,\)\.$"
    ):
        factor_flow(GAUSSIAN, START, loss=lambda f, y: (f - y) ** 2)


@pytest.mark.parametrize("k", [-500, 500])
def test_scales_change_no_digit(k):
    """X times 2^k and y times 2^-k: 1e-150 and 1e+150 each."""
    m = RankOneMeasurements(X=np.ldexp(GAUSSIAN.X, k), y=np.ldexp(GAUSSIAN.y, -k // 2))
    U0 = np.ldexp(START, -k // 4 - k)
    plain, scaled = factor_flow(GAUSSIAN, START), factor_flow(m, U0)
    assert scaled.figures == plain.figures
    assert scaled.cost.n_steps == plain.cost.n_steps
    np.testing.assert_array_equal(scaled.final, np.ldexp(plain.final, -k // 4 - k))
    np.testing.assert_allclose(scaled.log_time[1:] - plain.log_time[1:], -(2 * k - k // 2) * math.log(2), rtol=1e-12)


def test_a_start_out_of_reach_of_the_data_is_refused():
    m = RankOneMeasurements(X=np.ldexp(GAUSSIAN.X, 500), y=GAUSSIAN.y)
    with pytest.raises(
        ValueError, match=r"^`U0` \(largest entry 3.0e\+307\) and the size that fits the data, about 1e-150"
    ):
        factor_flow(m, np.full((6, 2), 3e307))


# --- commuting measurements -------------------------------------------------------------------------------------------

CHECKED = {
    1.0: (0.35789828, 0.30242614, 0.48717525, 0.491817),
    0.1: (0.56324586, 0.54328597, 0.09940945, 0.18153658),
    0.01: (0.65895751, 0.58650632, 0.01456705, 0.0560949),
    0.001: (0.69217382, 0.58931021, 0.00206112, 0.01594856),
}


@pytest.mark.parametrize("eps", CHECKED)
def test_the_mirror_flow_ends_at_the_bregman_projection(eps):
    m = CommutingMeasurements(a=A, y=Y)
    run = mirror_flow(m, np.full(4, eps**2))
    assert run.ending == QuadraticEnding.INTERPOLATES
    q = np.exp(run.final)
    np.testing.assert_allclose(q, CHECKED[eps], atol=5.1e-9)  # they are rounded to eight digits
    # The residual is 1e-12, and the smallest eigenvalue of a diag(q) a' about 0.1.
    np.testing.assert_allclose(q, bregman(A, Y, np.full(4, 2 * math.log(eps))), atol=1e-10)
    assert np.abs(q - bregman(A, Y, 2 * math.log(eps) + np.array([0, 0, 0, 0.5]))).max() > 1e-3
    assert run.drift < 1e-13


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(-12, 3), min_size=4, max_size=4))
def test_for_every_positive_start(logs):
    run = mirror_flow(CommutingMeasurements(a=A, y=Y), log_q0=np.array(logs))
    assert run.ending == QuadraticEnding.INTERPOLATES
    # q grows by at most e^12 from its start, and log q = log q0 + a' nu is kept to rounding.
    np.testing.assert_allclose(np.exp(run.final), bregman(A, Y, np.array(logs)), atol=1e-9)


def test_among_ties_the_weights_decide():
    m, eps = CommutingMeasurements(a=np.array([[1, 1, 0.5]]), y=np.ones(1)), 1e-4
    for weights, checked in (((1, 1, 1), (0.49998232, 0.49998232)), ((1, 3, 1), (0.24999375, 0.74998125))):
        q = np.exp(mirror_flow(m, eps**2 * np.array(weights, dtype=float)).final)
        np.testing.assert_allclose(q[:2], checked, atol=5.1e-9)


def test_starts_of_1e_minus_300_are_the_same_work():
    m = CommutingMeasurements(a=A, y=Y)
    run = mirror_flow(m, log_q0=np.full(4, -300 * math.log(10)))
    assert run.ending == QuadraticEnding.INTERPOLATES
    np.testing.assert_allclose(np.exp(run.final)[:2], [0.70588235, 0.58823529], atol=5.1e-9)
    # Off the support q ~ eps^(2 x reduced cost): q0^(0.42352941) and q0^(0.28235294).
    np.testing.assert_allclose(run.final[2:] / (-300 * math.log(10)), [0.42352941, 0.28235294], atol=3e-3)
    assert run.plateaus
    far = mirror_flow(m, log_q0=np.full(4, -1e5))
    assert far.ending == QuadraticEnding.INTERPOLATES
    # The prefactors of the powers count for 1e-5 of so large a log.
    np.testing.assert_allclose(far.final[2:] / -1e5, [0.42352941, 0.28235294], atol=2e-5)


def test_the_matrix_flows_stay_diagonal_and_follow_the_mirror_flow():
    m = commuting_measurements(3, 6, 2, seed=1)
    q0 = np.random.default_rng(3).uniform(0.5, 2, size=6)
    times = np.geomspace(0.1, 100, 8)
    mirror = mirror_flow(m, q0, times=times)
    factor = factor_flow(m, m.basis * np.sqrt(q0), times=times)
    quotient = quotient_flow(m, (m.basis * q0) @ m.basis.T, times=times)
    for i in range(8):
        np.testing.assert_allclose(factor.matrix(i), mirror.matrix(i), atol=1e-8)
        np.testing.assert_allclose(quotient.matrix(i), mirror.matrix(i), atol=1e-8)
    np.testing.assert_allclose(np.exp(mirror.final), bregman(m.a, m.y, np.log(q0)), atol=1e-9)


def test_measurements_that_do_not_commute_end_elsewhere():
    m = gaussian_measurements(3, 4, 2, seed=0)
    run = factor_flow(m, 0.5 * np.eye(4))
    assert run.ending == QuadraticEnding.INTERPOLATES
    # argmin KL(Q | Q0) over matrices with the same data is exp(log Q0 + sum nu_i A_i): log Q is then in their span.
    values, V = np.linalg.eigh(run.Q)
    log_Q = (V * np.log(values)) @ V.T - 2 * math.log(0.5) * np.eye(4)
    span = m.matrices().reshape(3, -1).T
    left = log_Q.reshape(-1) - span @ np.linalg.lstsq(span, log_Q.reshape(-1))[0]
    assert np.linalg.norm(left) > 0.01 * np.linalg.norm(log_Q)


# --- endings, rates, bad input ----------------------------------------------------------------------------------------


def test_an_end_that_was_asked_for_is_no_arrival():
    run = factor_flow(GAUSSIAN, START, max_time=0.1)
    assert run.ending == QuadraticEnding.TIME_REACHED
    assert run.time[-1] == pytest.approx(0.1, rel=1e-13)
    run = factor_flow(GAUSSIAN, START, max_steps=7)
    assert (run.ending, run.cost.n_steps) == (QuadraticEnding.HORIZON, 7)
    assert run.local_rate() is None


def test_a_start_at_the_limit_has_arrived():
    rng = np.random.default_rng(0)
    rng.standard_normal((40, 6))
    U = rng.standard_normal((6, 2))
    run = factor_flow(GAUSSIAN, U)
    assert run.ending == QuadraticEnding.INTERPOLATES
    assert run.cost.n_steps == 0
    # Later times find it there, and so do times long after an arrival.
    for start in (U, START):
        run = factor_flow(GAUSSIAN, start, times=np.array([0.0, 100.0, 1e4]))
        assert run.ending == QuadraticEnding.INTERPOLATES
        np.testing.assert_allclose(run.time, [0, 100, 1e4, run.time[-1]], rtol=1e-12)
        np.testing.assert_array_equal(run.states[0], start)
        for i in (1, 2, 3):
            np.testing.assert_allclose(run.matrix(i), PLANTED, atol=1e-9)


def test_an_integrator_that_fails_twice_is_the_horizon(monkeypatch):
    monkeypatch.setattr(Stepper, "step", lambda self: False)
    run = factor_flow(GAUSSIAN, START)
    assert run.ending == QuadraticEnding.HORIZON
    np.testing.assert_array_equal(run.final, run.states[0])


def test_the_tail_rate_knows_its_error():
    t = np.sort(np.random.default_rng(0).uniform(0, 20, 400))
    pure = tail_rate(t, 3 * np.exp(-1.5 * t), first=1e-3, last=1e-10)
    assert pure is not None
    assert pure.rate == pytest.approx(1.5, abs=1e-12)
    assert pure.error < 1e-10
    assert pure.factor == pytest.approx(math.exp(-1.5))
    # A second exponential moves the rate by less than the error says.
    mixed = tail_rate(t, 3 * np.exp(-1.5 * t) + 3 * np.exp(-2.5 * t), first=1e-3, last=1e-10)
    assert mixed is not None
    assert 0 < abs(mixed.rate - 1.5) <= mixed.error
    assert tail_rate(t, 1 / (1 + t), first=1e-3, last=1e-10) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: factor_flow(GAUSSIAN, np.zeros((6, 2))),
            "`U0` is all zero, and the flow stays there; start from something else.",
        ),
        (lambda: factor_flow(GAUSSIAN, np.ones((5, 2))), "`U0` must have shape (d, r) with d = 6; got (5, 2)."),
        (lambda: factor_flow(GAUSSIAN, np.ones(6)), "`U0` must have shape (d, r) with d = 6; got (6,)."),
        (
            lambda: factor_flow(GAUSSIAN, np.full((6, 1), np.nan)),
            "`U0[0, 0]` is nan (6 such entries of 6); every entry must be finite.",
        ),
        (
            lambda: factor_flow(GAUSSIAN, START, accuracy=1e-16),
            "`accuracy` must lie between 1e-14 and 0.01; got 1e-16.",
        ),
        (lambda: factor_flow(GAUSSIAN, START, arrival=0.5), "`arrival` must lie between 1e-14 and 0.01; got 0.5."),
        (lambda: factor_flow(GAUSSIAN, START, max_time=0.0), "`max_time` must be positive; got 0.0."),
        (lambda: factor_flow(GAUSSIAN, START, max_steps=0), "`max_steps` must be at least 1; got 0."),
        (
            lambda: factor_flow(GAUSSIAN, START, times=np.array([2.0, 1.0])),
            "`times` must be increasing and not negative, at least one.",
        ),
        (
            lambda: factor_flow(GAUSSIAN, START, times=np.array([2.0]), max_time=1.0),
            "`times` end at 2, after `max_time` = 1.",
        ),
        (
            lambda: quotient_flow(GAUSSIAN, np.triu(np.ones((6, 6)))),
            "`Q0` must be symmetric; it differs from its transpose by 1.0e+00 of its largest entry: "
            "pass `(Q0 + Q0.T) / 2` if that is meant.",
        ),
        (
            lambda: quotient_flow(GAUSSIAN, np.diag([1.0, 1, 1, 1, 1, -2])),
            "`Q0` must be positive semidefinite; it has the eigenvalue -2 (-1.0e+00 of its largest entry).",
        ),
        (
            lambda: mirror_flow(CommutingMeasurements(a=A, y=Y), np.array([1.0, 0, 1, 1])),
            "`q0[1]` is 0: every entry must be positive, for the flow cannot leave zero; "
            "for entries too small for a double pass `log_q0`.",
        ),
        (lambda: mirror_flow(CommutingMeasurements(a=A, y=Y)), "pass one of `q0` and `log_q0`; got neither."),
        (lambda: mirror_flow(CommutingMeasurements(a=A, y=Y), np.ones(3)), "`q0` must have shape (4,); got (3,)."),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_the_mirror_flow_wants_measurements_that_commute():
    with pytest.raises(
        TypeError, match=r"^`measurements` must be `CommutingMeasurements`: .*; got `RankOneMeasurements`\.$"
    ):
        mirror_flow(GAUSSIAN, np.ones(6))  # pyright: ignore[reportArgumentType]  # that is what is tested


@pytest.mark.parametrize("size", [1e5, 1e8, 1e12])
def test_a_start_far_too_large_comes_back(size):
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((20, 3)), rng.standard_normal((3, 2))
    m = RankOneMeasurements(X=X, y=np.square(X @ U).sum(axis=1))
    run = factor_flow(m, U[::-1] * size)
    assert run.ending is QuadraticEnding.INTERPOLATES


def test_a_start_beyond_reach_is_refused():
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((20, 3)), rng.standard_normal((3, 2))
    m = RankOneMeasurements(X=X, y=np.square(X @ U).sum(axis=1))
    message = (
        r"^the start's outputs are \de\+\d+ times as large as the targets; the flow is computed from up to 1e\+40\. "
        r"Take a smaller start\.$"
    )
    with pytest.raises(ValueError, match=message):
        factor_flow(m, U * 1e150)
    commuting = CommutingMeasurements(a=np.array([[1.0, 0.5, 0.2]]), y=np.ones(1))
    with pytest.raises(ValueError, match=r"^the start's outputs are \de\+\d+ times as large as the targets; "):
        mirror_flow(commuting, log_q0=np.full(3, 1000.0))


def test_a_flat_loss_has_not_arrived_while_its_outputs_move():
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((20, 3)), rng.standard_normal((3, 2))
    m = RankOneMeasurements(X=X, y=np.square(X @ U).sum(axis=1))
    # The gradient of a fourth power is 1e-12 of what it was when the residual is 1e-4 of what it was.
    run = factor_flow(m, 0.5 * U, loss=lambda f, y: ((f - y) ** 4).sum())
    assert run.ending not in (QuadraticEnding.OPTIMAL, QuadraticEnding.INTERPOLATES)
    assert run.figures.residual < 1e-5
