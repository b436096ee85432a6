"""Systems factored in single precision: as accurate as asked for, and given up where single precision does not do."""

from collections import Counter

import numpy as np
import pytest

from omegalimit.solvers import _linear_program, _program_system, _single_precision
from omegalimit.solvers._program_system import newton_system, single_precision
from omegalimit.solvers._single_precision import SinglePrecision, TooInexact


@pytest.fixture(autouse=True)
def at_any_size(monkeypatch):
    monkeypatch.setattr(_single_precision, "_LEAST", 1)


def system(shape, spread):
    rng = np.random.default_rng(0)
    A = rng.standard_normal(shape)
    t, D = 10 ** rng.uniform(-spread, spread, shape[1]), 10 ** rng.uniform(-spread, spread, shape[0])
    V, r = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[0], 3))
    return A, t, D, V, r, A @ (t[:, None] * A.T) + np.diag(D) + V @ V.T


def solver(A, t, D, V, M, tol):
    return SinglePrecision(A).weighted(t).solver(lambda x: M @ x, D, V, tol=tol)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_the_error_is_that_asked_for(order, size):
    A, t, D, V, r, M = system((40, 60), 1.0)
    t, D, V, M = size * t, size * D, np.sqrt(size) * V, size * M
    x = solver(np.asarray(A, order=order), t, D, V, M, 1e-10)(r)
    error = np.linalg.solve(M, r) - x
    # The rule that ends the iterations measures the error by the factor, not by M: the two differ by less than twice.
    assert np.all(np.sqrt((error * (M @ error)).sum(0)) <= 2e-10 * np.sqrt((x * (M @ x)).sum(0)))


def test_a_condition_beyond_single_precision_is_reported():
    # Of 40 rows, 30 are combinations of the others but for 1e-13: a condition of 1e26 before, 1e13 after the weights.
    rng = np.random.default_rng(1)
    base = rng.standard_normal((10, 60))
    A = np.vstack([base, rng.standard_normal((30, 10)) @ base])
    t, D, V = np.ones(60), np.full(40, 1e-13), np.zeros((40, 0))
    M = A @ A.T + np.diag(D)
    with pytest.raises(TooInexact):
        solver(A, t, D, V, M, 1e-10)(rng.standard_normal(40))


def test_weights_out_of_range_are_reported():
    A, t, D, V, _, M = system((4, 6), 1.0)
    with pytest.raises(TooInexact), np.errstate(over="ignore"):
        solver(1e-30 * A, t, 1e-200 * D, 0 * V, M, 1e-10)


@pytest.mark.parametrize("shape", [(30, 40), (40, 30)])
@pytest.mark.parametrize("box", [True, False])
def test_a_step_is_that_of_double_precision(shape, box):
    rng = np.random.default_rng(2)
    A, (N, d) = rng.standard_normal(shape), shape
    B = np.column_stack([-np.ones(N), np.sign(rng.standard_normal(N))])
    t, S = rng.uniform(0.5, 2, d), rng.uniform(0.5, 2, N)
    e, m = (None, 0.0) if box else (rng.uniform(-0.5, 0.5, d), 3.0)
    right = rng.standard_normal(d), rng.standard_normal(N), 0.0 if box else 0.3, rng.standard_normal(2)
    single = single_precision(A, B)
    found, expected = (newton_system(A, B, t, S, e, m, precision) for precision in (single, None))
    assert found is not None
    assert expected is not None
    for one, other in zip(found(*right, True), expected(*right, True), strict=True):
        # Refined once, an error of 1e-6 is one of 1e-12; conditions are below 100.
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("box", [True, False])
@pytest.mark.parametrize("most", [0, 2, 8])
def test_the_run_goes_on_in_double_where_single_precision_fails(monkeypatch, box, most):
    monkeypatch.setattr(_single_precision, "_MOST_ITERATIONS", most)
    calls = Counter()

    def counted(name, function):
        def call(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(SinglePrecision, "weighted", counted("single", SinglePrecision.weighted))
    monkeypatch.setattr(_program_system, "positive_solver", counted("double", _program_system.positive_solver))
    A = np.random.default_rng(3).standard_normal((60, 60))
    (found,), n_steps = _linear_program.least_norm_program(A, None, box=box, tol=1e-9, polish=True)
    order = (np.inf, 1) if box else (1, np.inf)
    lower = (A @ found.point).min() / np.linalg.norm(found.point, order[0])
    upper = np.linalg.norm(A.T @ found.multipliers, order[1]) / found.multipliers.sum()
    # The vertex, to rounding: 1e-16 times the entries over the margin, and a condition.
    assert abs(upper - lower) < 1e-11 * upper
    # The step that failed is taken again, and none is tried any more.
    assert calls["single"] + calls["double"] == n_steps + (calls["double"] > 0)
    assert calls["single"] == 1 if most == 0 else calls["single"] > 3
    assert calls["double"] > 0 or most == 8
