"""The shifted iteration and its flow, which know no spectrum, against matrix functions, units and their bounds."""

import math
import re

import numpy as np
import pytest
from scipy.linalg import expm

from omegalimit.flows import shifted_descent, shifted_flow
from omegalimit.limits.spectral_filters import descent_filter, flow_filter

EPS = float(np.finfo(float).eps)


def problem(n=10, d=25, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def exponential(X, y, nu, t, start=None):
    """`b(t)` by the exponential of the affine field's matrix: an independent reference for the flow."""
    n, d = X.shape
    A = np.zeros((d + 1, d + 1))
    A[:d, :d] = nu * np.eye(d) - X.T @ X / n
    A[:d, d] = X.T @ y / n
    state = np.append(np.zeros(d) if start is None else start, 1.0)
    return (expm(t * A) @ state)[:d]


@pytest.mark.parametrize("nu", [0.0, 0.3, 1.5, -2.0])
@pytest.mark.parametrize("shape", [(10, 25), (25, 10)])
def test_the_flow_is_the_matrix_exponential(nu, shape):
    X, y = problem(*shape)
    start = np.random.default_rng(1).standard_normal(shape[1])
    times = [0.0, 0.1, 0.5, 2.0]
    for b0 in (None, start):
        path = shifted_flow(X, y, nu=nu, times=times, start=b0)
        assert path.clock == "t"
        assert path.left_range_at is None
        for t, b in zip(times, path.b, strict=True):
            exact = exponential(X, y, nu, t, b0)
            # Default tolerance 1e-10 a step, some forty steps, grown by e^{nu t}.
            assert np.linalg.norm(b - exact) <= 4e-9 * math.exp(max(nu, 0) * t) * max(np.linalg.norm(exact), 1e-300)


@pytest.mark.parametrize("nu", [0.0, 0.3, 1.5, -2.0])
def test_descent_is_the_matrix_power(nu):
    X, y = problem()
    n, d = X.shape
    eta, M = 0.05, (1 + 0.05 * nu) * np.eye(d) - 0.05 * X.T @ X / n
    path = shifted_descent(X, y, nu=nu, eta=eta, steps=[0, 1, 2, 30])
    assert path.clock == "step"
    assert path.cost.n_steps == 30
    for k, b in zip((0, 1, 2, 30), path.b, strict=True):
        exact = sum((np.linalg.matrix_power(M, j) for j in range(k)), np.zeros((d, d))) @ (eta * X.T @ y / n)
        assert np.linalg.norm(b - exact) <= (n + d) * EPS * k * 5 * max(np.linalg.norm(exact), 1e-300)


def test_runs_meet_the_filters():
    """The number on the theory page: iteration and formula differ by 1.1e-14."""
    X, y = problem(12, 40)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    m, ridgeless = s**2 / 12, (U.T @ y) / s
    nu, eta, k = 0.7 * m[-1] + 0.3 * m[0], 0.2 / m[0], 20
    by_steps = shifted_descent(X, y, nu=nu, eta=eta, steps=[k]).b[0]
    formula = Vt.T @ (descent_filter(m, nu, k, eta=eta) * ridgeless)
    assert np.linalg.norm(by_steps - formula) / np.linalg.norm(formula) < 1e-13
    flow = shifted_flow(X, y, nu=nu, times=[eta * k]).b[0]
    formula = Vt.T @ (flow_filter(m, nu, eta * k) * ridgeless)
    assert np.linalg.norm(flow - formula) / np.linalg.norm(formula) < 1e-9
    # The two dynamics are told apart at this step size.
    assert np.linalg.norm(flow - by_steps) / np.linalg.norm(formula) > 1e-3


@pytest.mark.parametrize("scale", [1e-150, 1e140])
def test_units_of_the_columns_change_nothing(scale):
    X, y = problem()
    plain = shifted_flow(X, y, nu=0.5, times=[0.1, 2.0])
    scaled = shifted_flow(X * scale, y, nu=0.5 * scale**2, times=[0.1 / scale**2, 2.0 / scale**2])
    np.testing.assert_allclose(scaled.b * scale, plain.b, rtol=1e-8, atol=1e-10)
    assert scaled.cost.n_steps <= 2 * plain.cost.n_steps
    by_steps = shifted_descent(X * scale, y, nu=0.5 * scale**2, eta=0.1 / scale**2, steps=[7]).b[0] * scale
    np.testing.assert_allclose(by_steps, shifted_descent(X, y, nu=0.5, eta=0.1, steps=[7]).b[0], rtol=1e-10)


def test_without_data_nothing_moves():
    X = np.zeros((3, 2))
    np.testing.assert_array_equal(shifted_flow(X, np.ones(3), nu=1.0, times=[0.0, 5.0]).b, 0.0)
    np.testing.assert_array_equal(shifted_descent(X, np.ones(3), nu=1.0, eta=0.1, steps=[3]).b, 0.0)


def test_leaving_the_range_of_doubles_is_a_value():
    X, y = problem()
    path = shifted_descent(X, y, nu=0.0, eta=1e3, steps=[1, 20, 200])
    assert path.left_range_at == 200.0
    assert np.isfinite(path.b[:2]).all()
    assert np.isnan(path.b[2]).all()
    flow = shifted_flow(X, y, nu=50.0, times=[1.0, 20.0])
    assert flow.left_range_at == 20.0
    assert np.isfinite(flow.b[0]).all()
    assert np.isnan(flow.b[1]).all()


def test_rounding_outside_the_row_space_grows_with_the_shift():
    """What a user of more columns than rows meets: the null directions of S, which start at zero, do not stay there."""
    X, y = problem(5, 30)
    V = np.linalg.svd(X)[2]
    path = shifted_descent(X, y, nu=0.5, eta=0.1, steps=[10, 400])
    outside = np.linalg.norm(path.b @ V[5:].T, axis=1)
    assert 0 < outside[0] < 1e-14 * np.linalg.norm(path.b[0])
    growth = (1 + 0.1 * 0.5) ** 390
    assert outside[1] / outside[0] == pytest.approx(
        growth, rel=1.0
    )  # rounding goes on being added: a factor of order 1


X, Y = problem(4, 3)
TIMES = "`times` must be ascending and finite, from 0 on; got "
STEPS = "`steps` must be ascending whole numbers, from 0 on; got "


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shifted_flow(X, Y[:3], nu=0.0, times=[1.0]), "`X` has shape (4, 3) and `y` has shape (3,): "
         "4 rows against 3."),
        (lambda: shifted_flow(X, Y, nu=math.nan, times=[1.0]), "`nu` must be finite; got nan."),
        (lambda: shifted_flow(X, Y, nu=0.0, times=[2.0, 1.0]), f"{TIMES}[2.0, 1.0]."),
        (lambda: shifted_flow(X, Y, nu=0.0, times=[math.inf]), f"{TIMES}[inf]."),
        (lambda: shifted_flow(X, Y, nu=0.0, times=[1.0], rtol=1.0), "`rtol` must lie between 1e-13 and 1e-2; got 1.0."),
        (lambda: shifted_descent(X, Y, nu=0.0, eta=0.0, steps=[1]), "`eta` must be positive and finite; got 0.0."),
        (lambda: shifted_descent(X, Y, nu=0.0, eta=1.0, steps=[-1]), f"{STEPS}[-1]."),
        (lambda: shifted_descent(X, Y, nu=0.0, eta=1.0, steps=[]), f"{STEPS}[]."),
        (lambda: shifted_descent(X, Y, nu=0.0, eta=1.0, steps=[1], start=np.ones(2)), "`X` has shape (4, 3) and "
         "`start` has shape (2,): 3 columns and coefficients against 2."),
        (lambda: shifted_descent(X * np.nan, Y, nu=0.0, eta=1.0, steps=[1]), "`X[0, 0]` is nan (12 such entries of "
         "12); every entry must be finite."),
    ],
)  # fmt: skip
def test_bad_arguments_are_told(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_steps_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match=r"^`steps` must be ascending whole numbers, from 0 on; got \[1.5\]\.$"):
        shifted_descent(X, Y, nu=0.0, eta=1.0, steps=[1.5])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_a_flow_that_has_settled_is_not_run_on(scale):
    X, y = problem(10, 4)
    b = np.linalg.lstsq(X, y, rcond=None)[0]
    path = shifted_flow(X * scale, y, nu=0.0, times=[0.5 / scale**2, 1e6 / scale**2, 2e6 / scale**2])
    assert path.ending == "settled"
    assert path.cost.n_steps < 1000  # m_max t / 6 would be some 300 000
    # A point of zero velocity to rounding, which least squares magnify by their condition.
    error = np.linalg.cond(X) ** 2 * 14 * EPS
    assert np.linalg.norm(path.b[1] * scale - b) <= error * np.linalg.norm(b)
    assert np.array_equal(path.b[1], path.b[2])
    assert np.linalg.norm(path.b[0] * scale - exponential(X, y, 0.0, 0.5)) <= 1e-8 * np.linalg.norm(b)


def test_a_direction_that_still_moves_is_not_taken_for_settled():
    """At t = 4000 the fast directions rest for long; the slow one, of eigenvalue 1e-4, has a third of its way to go."""
    X = np.diag([1.0, 1.0, 1e-2]) * math.sqrt(3)
    y = np.array([1.0, -1.0, 1e-2]) * math.sqrt(3)
    path = shifted_flow(X, y, nu=0.0, times=[4000.0, 12000.0])
    assert np.abs(path.b[:, 2] + np.expm1(-1e-4 * path.time)).max() <= 1e-7  # 10 rtol a step of the slowest unit
    assert path.ending == "arrived"


def test_the_integrators_steps_are_limited():
    X, y = problem(10, 4)
    path = shifted_flow(X, y, nu=0.05, times=[1.0, 1e6], most_steps=300)
    assert path.ending == "step limit"
    assert path.cost.n_steps == 300
    assert path.left_range_at is None
    assert np.isfinite(path.b[0]).all()
    assert np.isnan(path.b[1]).all()


def test_descent_stops_where_a_step_changes_nothing():
    X, y = problem(10, 4)
    path = shifted_descent(X, y, nu=0.0, eta=0.3, steps=[3, 10**12])
    assert path.ending == "settled"
    assert path.cost.n_steps < 10**5
    b = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.linalg.norm(path.b[1] - b) <= np.linalg.cond(X) ** 2 * 14 * EPS * np.linalg.norm(b)
    assert shifted_descent(X, y, nu=0.0, eta=0.3, steps=[3]).ending == "arrived"
    assert shifted_descent(X, y, nu=0.0, eta=1e3, steps=[1000]).ending == "left range"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y: shifted_descent(X[:0], y[:0], nu=0.0, eta=1.0, steps=[3]), ValueError,
         "`X` has shape (0, 25): there is no row; pass at least one."),
        (lambda X, y: shifted_flow(X[:, :0], y, nu=0.0, times=[3.0]), ValueError,
         "`X` has shape (10, 0): there is no column; pass at least one."),
        (lambda X, y: shifted_descent(X, y, nu=0.0, eta="a", steps=[3]), TypeError,  # pyright: ignore[reportArgumentType] - on purpose
         "`eta` must hold real numbers; it holds text (dtype <U1)."),
        (lambda X, y: shifted_flow(X, y, nu="a", times=[3.0]), TypeError,  # pyright: ignore[reportArgumentType] - on purpose
         "`nu` must hold real numbers; it holds text (dtype <U1)."),
        (lambda X, y: shifted_flow(X, y, nu=0.0, times=3.0), ValueError,  # pyright: ignore[reportArgumentType] - on purpose
         "`times` must be a list of numbers; got shape ()."),
        (lambda X, y: shifted_descent(X, y, nu=0.0, eta=1.0, steps=5), ValueError,  # pyright: ignore[reportArgumentType] - on purpose
         "`steps` must be a list of numbers; got shape ()."),
        (lambda X, y: shifted_descent(X, y, nu=0.0, eta=1.0, steps=[math.inf]), ValueError,  # pyright: ignore[reportArgumentType] - on purpose
         "`steps` must be ascending whole numbers, from 0 on; got [inf]."),
    ],
)  # fmt: skip
def test_bad_arguments_are_told_in_the_users_words(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call(*problem())
