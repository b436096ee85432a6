"""The lp method: bounds recomputed here, laws and closed forms, an independent solver of p = 2, and hard data."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize, nnls

from omegalimit.solvers._power import log_norm, power_norm, power_unit
from omegalimit.solvers.lp import least_lp

POWERS = [1.001, 1.05, 1.1, 1.5, 1.9, 2, 2.5, 3, 6, 10, 30, 100, 1000]
SHAPES = [(40, 40), (120, 10), (10, 120), (5, 1), (1, 5), (1, 1)]


def separable(rng, n_rows, d, c=None):
    A = rng.standard_normal((n_rows, d))
    w, b = rng.standard_normal(d), 0.3
    if c is None:
        A *= np.sign(A @ w)[:, None]
    else:
        A += np.maximum(0.1 - A @ w - c * b, 0)[:, None] * w / (w @ w)
    return A / np.abs(A).max()


def signs(rng, n_rows):
    return np.concatenate([[1.0, -1.0], np.where(rng.random(n_rows - 2) < 0.5, 1.0, -1.0)])


def norm(x, p):
    top = np.abs(x).max()
    return top * np.sum((np.abs(x) / top) ** p) ** (1 / p) if top > 0 else 0.0


def bounds(A, c, p, found):
    """Both bounds from the data and the definition; the multipliers must be feasible as they are handed back."""
    lam, q = found.multipliers, p / (p - 1)
    assert lam.min() >= 0
    assert lam.sum() == pytest.approx(1, rel=1e-12)
    if c is not None:
        # Each side is normalised by its own sum: what is left is the rounding of a sum.
        assert abs(c @ lam) <= 1e-15 * len(lam)
    scores = A @ found.point + (0 if c is None else c * found.intercept)
    return scores.min() / norm(found.point, p), norm(A.T @ lam, q)


def solved(A, c, p, *, within, polish=True):
    candidates, n_iterations = least_lp(A, c, p=p, tol=1e-8, polish=polish)
    lower, upper = bounds(A, c, p, candidates[0])
    # The bounds may cross by their rounding only.
    assert -1e-13 <= (upper - lower) / upper <= within
    assert n_iterations <= 40
    return candidates[0], lower


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("intercept", [False, True])
def test_gap_is_closed_for_every_power_and_shape(p, intercept):
    rng = np.random.default_rng(1)
    for n_rows, d in SHAPES:
        if intercept and n_rows < 2:
            continue
        c = signs(rng, n_rows) if intercept else None
        # The polish ends at the rounding of the margin, 1e-16 max|A| / gamma*: 1e-10 is far above that and below `tol`.
        solved(separable(rng, n_rows, d, c), c, p, within=1e-10)


@pytest.mark.parametrize("p", POWERS)
def test_without_polish_the_tolerance_is_met(p):
    A = separable(np.random.default_rng(2), 60, 60)
    solved(A, None, p, within=1e-8, polish=False)


@pytest.mark.parametrize("shape", [(30, 30), (60, 8), (8, 60)])
def test_p_2_is_the_least_norm_point_of_the_hull(shape):
    A = separable(np.random.default_rng(3), *shape)
    p = nnls(np.vstack([A.T, np.ones(len(A))]), np.eye(shape[1] + 1)[-1])[0]
    reference = A.T @ (p / p.sum())
    found, lower = solved(A, None, 2, within=1e-12)
    # NNLS in double precision squares nothing; its least norm is good to about 1e-13.
    assert lower == pytest.approx(np.linalg.norm(reference), rel=1e-11)
    cosine = found.point @ reference / np.linalg.norm(found.point) / np.linalg.norm(reference)
    assert cosine == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("p", [1.5, 2, 3, 6])
@pytest.mark.parametrize("intercept", [False, True])
def test_margin_agrees_with_a_general_solver(p, intercept):
    rng = np.random.default_rng(4)
    c = signs(rng, 12) if intercept else None
    A = separable(rng, 12, 5, c)
    columns = A if c is None else np.column_stack([A, c])
    found, lower = solved(A, c, p, within=1e-10)
    reference = minimize(
        lambda v: np.sum(np.abs(v[:5]) ** p),
        np.append(found.point, found.intercept)[: columns.shape[1]] / lower / norm(found.point, p) + 0.1,
        constraints={"type": "ineq", "fun": lambda v: columns @ v - 1, "jac": lambda v: columns},
        jac=lambda v: np.append(p * np.sign(v[:5]) * np.abs(v[:5]) ** (p - 1), np.zeros(columns.shape[1] - 5)),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    # SLSQP stops on a change of the objective, whose error is of second order; its constraints hold to about 1e-8.
    assert 1 / reference.fun ** (1 / p) == pytest.approx(lower, rel=1e-6)


@pytest.mark.parametrize("p", POWERS)
def test_closed_forms(p):
    d = 7
    found, lower = solved(np.eye(d), None, p, within=1e-14)
    assert lower == pytest.approx(d ** (-1 / p), rel=1e-14)
    np.testing.assert_allclose(found.point / found.point[0], np.ones(d), rtol=1e-12)
    # One row: the margin is its dual norm, and the point the gradient of that.
    a = np.array([[1.0, -0.5, 0.25]])
    found, lower = solved(a, None, p, within=1e-14)
    assert lower == pytest.approx(norm(a[0], p / (p - 1)), rel=1e-14)
    # Two points with an intercept: half their difference.
    found, lower = solved(np.array([[0.75, 0.5], [-0.25, 1.0]]), np.array([1.0, -1.0]), p, within=1e-14)
    assert lower == pytest.approx(norm(np.array([0.25, 0.75]), p / (p - 1)), rel=1e-14)


def test_extreme_powers_approach_l1_and_linf():
    """`|w|_p <= |w|_1 <= d^(1-1/p) |w|_p`, and likewise at the other end: the margins obey the same inequalities."""
    from scipy.optimize import linprog

    A = separable(np.random.default_rng(5), 30, 12)
    d = A.shape[1]
    l1 = linprog(np.ones(2 * d), A_ub=np.hstack([-A, A]), b_ub=-np.ones(len(A)), bounds=(0, None)).fun
    top = linprog(
        np.append(np.zeros(d), 1),
        A_ub=np.block(
            [
                [-A, np.zeros((len(A), 1))],
                [np.eye(d), -np.ones((d, 1))],
                [-np.eye(d), -np.ones((d, 1))],
            ]
        ),
        b_ub=np.append(-np.ones(len(A)), np.zeros(2 * d)),
        bounds=(None, None),
    ).fun
    near_1, near_inf = solved(A, None, 1.001, within=1e-8)[1], solved(A, None, 1000, within=1e-8)[1]
    # HiGHS is asked for 1e-7 in feasibility by default.
    assert 1 / l1 * (1 - 1e-6) <= near_1 <= 1 / l1 * d ** (1 - 1 / 1.001) * (1 + 1e-6)
    assert 1 / top * d ** (-1 / 1000) * (1 - 1e-6) <= near_inf <= 1 / top * (1 + 1e-6)


@pytest.mark.parametrize("p", [1.05, 1.5, 3, 30])
@pytest.mark.parametrize("intercept", [False, True])
def test_duplicates_change_nothing(p, intercept):
    rng = np.random.default_rng(6)
    for n_rows, d in ((20, 12), (12, 30)):
        c = signs(rng, n_rows) if intercept else None
        A = separable(rng, n_rows, d, c)
        twice = None if c is None else np.tile(c, 2)
        margin = solved(A, c, p, within=1e-10)[1]
        assert solved(np.vstack([A, A]), twice, p, within=1e-8)[1] == pytest.approx(margin, rel=1e-8)
        near = A * (1 + 1e-9 * rng.standard_normal(A.shape))
        # A change of 1e-9 in the data moves the margin by that times |A| / gamma, here below 100.
        assert solved(np.vstack([A, near]), twice, p, within=1e-8)[1] == pytest.approx(margin, rel=1e-7)
        # Each column three times, once negated: |w|_p^p is shared by three, so the margin grows by 3^(1 - 1/p).
        wide = solved(np.hstack([A, A, -A]), c, p, within=1e-8)[1]
        assert wide == pytest.approx(margin * 3 ** (1 - 1 / p), rel=1e-8)


@pytest.mark.parametrize("p", [1.05, 1.5, 2, 3, 30])
@pytest.mark.parametrize("shape", [(40, 40), (40, 15), (15, 40)])
def test_rows_and_columns_of_very_different_size(p, shape):
    rng = np.random.default_rng(7)
    A = separable(rng, *shape)
    by_rows, by_columns = (
        A * 10.0 ** rng.uniform(-4, 4, (shape[0], 1)),
        A * 10.0 ** rng.uniform(-3, 3, (1, shape[1])),
    )
    for B in (by_rows, by_columns):
        solved(B / np.abs(B).max(), None, p, within=1e-8)


@pytest.mark.parametrize("p", [1.05, 2, 3, 100])
@pytest.mark.parametrize("shape", [(30, 10), (10, 30)])
def test_a_margin_of_a_millionth_is_resolved(p, shape):
    """Rows whose positive combination is of size 1e-6: rounding alone leaves a gap of about 1e-9."""
    rng = np.random.default_rng(8)
    w = rng.standard_normal(shape[1])
    w /= np.linalg.norm(w)
    A = rng.standard_normal(shape)
    A -= np.outer(A @ w, w)
    A[-1] = -A[:-1].sum(0)
    A += 1e-6 * np.outer(rng.uniform(1, 2, shape[0]), w)
    solved(A / np.abs(A).max(), None, p, within=1e-8)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("intercept", [False, True])
def test_data_that_are_not_separable_end_with_a_vanishing_combination(p, intercept):
    rng = np.random.default_rng(9)
    c = signs(rng, 60) if intercept else None
    A = rng.uniform(-1, 1, (60, 6))
    for B, signed in ((A, c), (np.vstack([A[:5], -A[:5]]), None if c is None else np.tile([1.0, -1, 1, -1, 1], 2))):
        candidates, n_iterations = least_lp(B, signed, p=p, tol=1e-8)
        lower, upper = bounds(B, signed, p, candidates[0])
        # Rounding of sums of sixty terms of size one; with an intercept, two pairs of opposite rows balance each other.
        assert upper <= 1e-14
        assert lower <= 1e-14
        assert n_iterations <= 60


@pytest.mark.parametrize("p", [1.1, 3, 30])
def test_sparse_rows_give_the_same(p):
    rng = np.random.default_rng(10)
    for n_rows, d in ((30, 60), (60, 30)):
        A = separable(rng, n_rows, d) * (rng.random((n_rows, d)) < 0.3)
        A *= np.sign(A @ np.arange(1, d + 1))[:, None]
        dense, sparse = solved(A, None, p, within=1e-8), solved(scipy.sparse.csr_array(A), None, p, within=1e-8)
        assert sparse[1] == pytest.approx(dense[1], rel=1e-8)


def test_a_tolerance_below_rounding_ends():
    A = separable(np.random.default_rng(11), 30, 30)
    candidates, n_iterations = least_lp(A, None, p=3, tol=1e-20)
    lower, upper = bounds(A, None, 3, candidates[0])
    assert (upper - lower) / upper <= 1e-12
    assert n_iterations <= 40


def test_data_that_are_not_finite_give_nothing():
    A = np.eye(3)
    A[0, 1] = np.nan
    assert least_lp(A, None, p=3, tol=1e-8)[0] == []


def test_a_power_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"^`p` must lie between 1 and infinity, both excluded; got 1\.$"):
        least_lp(np.eye(2), None, p=1, tol=1e-8)


@pytest.mark.parametrize("q", [1.001, 1.5, 2, 4, 1001])
def test_power_functions(q):
    s = np.array([3.0, -1.0, 0.25, -1e-3])
    p = q / (q - 1)
    assert log_norm(s, q) == pytest.approx(np.log(power_norm(s, q)), abs=1e-14)
    # Powers of order 1000 multiply rounding by as much.
    assert power_norm(power_unit(s, q), p) == pytest.approx(1, rel=1e-12)
    assert s @ power_unit(s, q) == pytest.approx(power_norm(s, q), rel=1e-12)
    np.testing.assert_allclose(power_unit(1e150 * s, q), power_unit(s, q), rtol=1e-11)


def test_power_functions_of_zero():
    assert power_norm(np.zeros(3), 3) == 0
    np.testing.assert_array_equal(power_unit(np.zeros(3), 3), np.zeros(3))
