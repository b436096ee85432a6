"""Descent on a positive quadratic network: exact recursions, local rates, endings, and the mirror form in logs."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit._numerics import double_precision
from omegalimit.data.measurement_generators import commuting_measurements, gaussian_measurements
from omegalimit.data.measurements import CommutingMeasurements, DenseMeasurements, RankOneMeasurements
from omegalimit.flows import QuadraticEnding, factor_flow, mirror_descent, mirror_flow, quadratic_descent

GAUSSIAN = gaussian_measurements(40, 6, 2, seed=0)
START = np.random.default_rng(1).standard_normal((6, 2))
COMMUTING = CommutingMeasurements(a=np.array([[1, 0.5, 0.2, 0.8], [0.3, 1, 0.7, 0.1]]), y=np.array([1.0, 0.8]))


def bregman(m, log_q0):
    """`argmin KL(q | q0), a q = y`: Newton on the smooth dual."""
    nu = np.zeros(m.n)
    for _ in range(200):
        q = np.exp(log_q0 + nu @ m.a)
        step = np.linalg.solve((m.a * q) @ m.a.T, m.y - m.a @ q)
        nu = nu + step / max(1.0, np.abs(step @ m.a).max())
    return np.exp(log_q0 + nu @ m.a)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(1e-6, 1e-2))
def test_a_step_is_a_congruence_to_rounding(seed, r, eta):
    m, U = gaussian_measurements(20, 5, 2, seed=seed), np.random.default_rng(seed).standard_normal((5, r))
    run = quadratic_descent(m, U, step_size=eta, n_steps=1, until=0.0)
    G = m.adjoint((m.apply_factor(U) - m.y) / m.n)
    M = np.eye(5) - 2 * eta * G
    expected = M @ (U @ U.T) @ M
    # Products of 20 and 5 terms; the rounding of G counts with eta |G| |Q| beside |Q|.
    size = np.abs(U @ U.T).max() * (1 + 2 * eta * np.abs(G).max()) ** 2
    np.testing.assert_allclose(run.Q, expected, atol=1e-14 * size * 5)
    half = np.eye(5) - eta * G
    if 2 * eta * np.abs(G).max() > 1e-3:
        assert np.abs(run.Q - half @ (U @ U.T) @ half).max() > 1e-12 * size


def test_the_fast_step_and_the_general_one_are_the_same():
    dense = DenseMeasurements(A=GAUSSIAN.matrices(), y=GAUSSIAN.y)

    def squared(f, y):
        return jnp.mean((f - y) ** 2) / 2

    runs = [
        quadratic_descent(GAUSSIAN, START, step_size=0.002, n_steps=300, until=0.0),
        quadratic_descent(dense, START, step_size=0.002, n_steps=300, until=0.0),
        quadratic_descent(GAUSSIAN, START, step_size=0.002, n_steps=300, until=0.0, loss=squared),
    ]
    for run in runs[1:]:
        # 300 steps, each with a few hundred roundings, and the iteration contracts.
        np.testing.assert_allclose(run.U, runs[0].U, atol=1e-12)
        assert run.edge_end == pytest.approx(runs[0].edge_end, rel=2e-3)


@pytest.mark.parametrize("r", [1, 2])
def test_the_start_is_the_first_state_and_stays_as_it_was(r):
    # A factor of one column is its own transpose in memory, and the steps are taken in place.
    start = START[:, :r].copy()
    run = quadratic_descent(GAUSSIAN, start, step_size=1e-3, n_steps=5, until=0.0)
    np.testing.assert_array_equal(run.states[0], START[:, :r])
    np.testing.assert_array_equal(start, START[:, :r])
    assert np.abs(run.states[-1] - start).max() > 1e-6


def test_the_linear_rate_is_that_of_the_least_curvature():
    run = quadratic_descent(GAUSSIAN, START, step_size=0.002, n_steps=20_000)
    assert run.ending == QuadraticEnding.INTERPOLATES
    assert run.residual[-1] <= 1e-12 < run.residual[-2]
    assert run.n_rises == 0
    B = GAUSSIAN.factor_rows(run.U).reshape(40, -1)
    curvature = np.linalg.eigvalsh(4 * B.T @ B / 40)
    rate = run.local_rate()
    assert rate is not None
    assert abs(rate.factor - (1 - 0.002 * curvature[1])) <= rate.error
    assert rate.error < 1e-4 * rate.rate
    # Three digits are asked of the largest eigenvalue.
    assert run.edge_end == pytest.approx(0.002 * curvature[-1], rel=2e-3)
    assert run.step[0] == 0
    assert run.step[-1] == run.residual.size - 1 == run.cost.n_steps


def test_a_factor_wider_than_the_rank_has_no_rate():
    wide = np.random.default_rng(2).standard_normal((6, 6))
    run = quadratic_descent(GAUSSIAN, wide, step_size=0.002, n_steps=20_000)
    assert run.ending == QuadraticEnding.STEPS_TAKEN
    rate = run.local_rate(first=1e-2, last=1e-6)
    assert rate is not None
    assert rate.error > 0.3 * rate.rate


def test_the_edge_is_the_largest_eigenvalue_of_the_hessian():
    run = quadratic_descent(GAUSSIAN, START, step_size=1e-3, n_steps=1, until=0.0)
    with double_precision():

        def loss(u):
            return jnp.mean((((GAUSSIAN.X @ u.reshape(6, 2)) ** 2).sum(axis=1) - GAUSSIAN.y) ** 2) / 2

        H = np.asarray(jax.hessian(loss)(jnp.asarray(START.reshape(-1))))
    assert run.edge_start == pytest.approx(1e-3 * np.linalg.eigvalsh(H)[-1], rel=2e-3)


def test_too_large_a_step_diverges_and_says_so():
    run = quadratic_descent(GAUSSIAN, START, step_size=0.02, n_steps=1000)
    assert run.ending == QuadraticEnding.DIVERGED
    assert run.diverged_at is not None
    assert 1 <= run.diverged_at < 20
    assert np.isfinite(run.U).all()
    assert math.isnan(run.edge_end)
    assert run.n_rises >= 3
    assert run.local_rate() is None
    # Just beyond the edge at the limit it cannot settle there; just below it does.
    limit = factor_flow(GAUSSIAN, START).final
    near = limit + 1e-6 * START
    edge = quadratic_descent(GAUSSIAN, near, step_size=1e-3, n_steps=1, until=0.0).edge_start / 1e-3
    below = quadratic_descent(GAUSSIAN, near, step_size=1.95 / edge, n_steps=5000)
    beyond = quadratic_descent(GAUSSIAN, near, step_size=2.05 / edge, n_steps=5000)
    assert below.ending == QuadraticEnding.INTERPOLATES
    assert beyond.ending != QuadraticEnding.INTERPOLATES
    assert beyond.residual[-1] > 1e3 * beyond.residual[0] or beyond.diverged_at is not None
    assert beyond.edge_start > 2 > below.edge_start


def test_a_start_that_lacks_a_direction_ends_at_a_saddle():
    run = quadratic_descent(GAUSSIAN, np.outer(START[:, 0], [1.0, 2.0]), step_size=0.002, n_steps=20_000)
    assert run.ending == QuadraticEnding.STATIONARY
    assert run.rank_start == 1
    assert run.figures.escape > 0.1


def test_noisy_targets_end_where_the_flow_does():
    m = gaussian_measurements(40, 6, 2, seed=0, noise=1.0)
    run = quadratic_descent(m, np.random.default_rng(2).standard_normal((6, 4)), step_size=0.002, n_steps=50_000)
    flow = factor_flow(m, np.random.default_rng(2).standard_normal((6, 6)))
    assert run.ending == flow.ending == QuadraticEnding.OPTIMAL
    # Both to a relative gradient of 1e-12; the problem's condition is below 1e3.
    np.testing.assert_allclose(run.Q, flow.Q, atol=1e-8)


def test_a_run_that_rounding_stops_says_so():
    m = RankOneMeasurements(X=np.ones((1, 1)), y=np.array([5.0]))
    root = math.sqrt(5)
    assert all(u * u != 5 for u in (math.nextafter(root, 0), root, math.nextafter(root, 9)))
    run = quadratic_descent(m, np.ones((1, 1)), step_size=0.01, n_steps=30_000, until=1e-18)
    assert run.ending == QuadraticEnding.HORIZON
    assert run.cost.n_steps < 2000
    assert 0 < run.residual[-1] < 1e-15


@pytest.mark.parametrize("k", [-500, 500])
def test_scales_change_no_digit(k):
    m = RankOneMeasurements(X=np.ldexp(GAUSSIAN.X, k), y=np.ldexp(GAUSSIAN.y, -k // 2))
    plain = quadratic_descent(GAUSSIAN, START, step_size=2.0**-9, n_steps=500)
    scaled = quadratic_descent(m, np.ldexp(START, -k // 4 - k), step_size=2.0 ** (-9 - 2 * k + k // 2), n_steps=500)
    np.testing.assert_array_equal(scaled.residual, plain.residual)
    np.testing.assert_array_equal(scaled.U, np.ldexp(plain.U, -k // 4 - k))


# --- commuting measurements -------------------------------------------------------------------------------------------


def test_the_mirror_form_is_descent_on_a_diagonal_matrix():
    m = commuting_measurements(3, 6, 2, seed=1)
    q0 = np.random.default_rng(3).uniform(0.5, 2, size=6)
    mirror = mirror_descent(m, q0, step_size=0.1, n_steps=200, until=0.0)
    factor = quadratic_descent(m, m.basis * np.sqrt(q0), step_size=0.1, n_steps=200, until=0.0)
    np.testing.assert_allclose(factor.Q, (m.basis * mirror.q) @ m.basis.T, atol=1e-12)
    np.testing.assert_allclose(mirror.residual, factor.residual, atol=1e-12)
    assert mirror.n_crossings == 0


def test_the_distance_to_the_projection_is_of_order_eta_and_its_correction_leaves_eta_squared():
    q0 = np.full(4, 0.1)
    etas = 0.2 * 0.5 ** np.arange(5)
    plain, corrected, exact = [], [], []
    for eta in etas:
        # The loss here is |f - y|^2 / (2 x 2): a step of 2 eta is one of eta for |f - y|^2 / 2.
        run = mirror_descent(COMMUTING, q0, step_size=2 * eta, n_steps=100_000, until=1e-14)
        assert run.ending == QuadraticEnding.INTERPOLATES
        plain.append(np.abs(run.q - bregman(COMMUTING, np.log(q0))).max())
        corrected.append(np.abs(run.q - bregman(COMMUTING, run.corrected_start)).max())
        exact.append(np.abs(run.q - bregman(COMMUTING, run.exact_start)).max())
    halves, quarters = np.array(plain[:-1]) / plain[1:], np.array(corrected[:-1]) / corrected[1:]
    # Orders one and two; what is left of the next order halves with eta, so that the ratios approach 2 and 4.
    assert (np.abs(halves - 2) < 0.4 * etas[:-1] / etas[0]).all()
    assert (np.abs(quarters - 4) < 1.0 * etas[:-1] / etas[0]).all()
    assert plain[-1] > 20 * corrected[-1]
    assert max(exact) < 1e-12


def test_descent_in_logs_tends_to_the_mirror_flow():
    m, log_q0 = COMMUTING, np.full(4, -700.0)
    flow = mirror_flow(m, log_q0=log_q0)
    run = mirror_descent(m, log_q0=log_q0, step_size=0.02, n_steps=100_000)
    assert run.ending == QuadraticEnding.INTERPOLATES
    # What is large agrees; the logs of what is small differ by 4 eta int g^2 dt, a share of eta of them.
    np.testing.assert_allclose(run.q[:2], np.exp(flow.final)[:2], atol=1e-9)
    np.testing.assert_allclose(run.log_q[2:], flow.final[2:], rtol=0.05)


def test_factors_below_zero_are_counted():
    run = mirror_descent(COMMUTING, np.full(4, 3.0), step_size=0.3, n_steps=50)
    assert run.n_crossings > 0
    wild = mirror_descent(COMMUTING, np.full(4, 30.0), step_size=3.0, n_steps=5000)
    assert wild.ending == QuadraticEnding.DIVERGED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "`step_size` must be positive and finite; got 0.0."),
        ({"step_size": math.inf}, "`step_size` must be positive and finite; got inf."),
        ({"n_steps": 0}, "`n_steps` must be at least 1; got 0."),
        ({"until": 1.0}, "`until` must be at least 0 and below 1; got 1.0."),
        ({"n_kept": 1}, "`n_kept` must be at least 2; got 1."),
        ({"U0": np.zeros((6, 2))}, "`U0` is all zero, and the flow stays there; start from something else."),
        ({"U0": np.ones((5, 2))}, "`U0` must have shape (d, r) with d = 6; got (5, 2)."),
    ],
)
def test_bad_input(options, message):
    given = {"U0": START, "step_size": 0.1, "n_steps": 5} | options
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quadratic_descent(GAUSSIAN, given.pop("U0"), **given)


def test_mirror_descent_wants_measurements_that_commute_and_a_positive_start():
    with pytest.raises(
        TypeError, match=r"^`measurements` must be `CommutingMeasurements`: others do not keep Q diagonal"
    ):
        mirror_descent(GAUSSIAN, np.ones(6), step_size=0.1, n_steps=5)  # pyright: ignore[reportArgumentType]  # tested
    with pytest.raises(ValueError, match=r"^`q0\[2\]` is -1: every entry must be positive"):
        mirror_descent(COMMUTING, np.array([1.0, 1.0, -1.0, 1.0]), step_size=0.1, n_steps=5)
