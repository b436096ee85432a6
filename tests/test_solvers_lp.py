"""The kernels for l1, l-infinity and l2: optimal pairs by recomputed bounds, independent references, hard inputs."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog

from omegalimit.limits.constraints import Rows
from omegalimit.solvers.frobenius import least_norm_combination
from omegalimit.solvers.l1 import least_l1
from omegalimit.solvers.l2 import least_l2, least_l2_gram
from omegalimit.solvers.linf import least_linf


def by_gram(A, c, *, tol, polish=True):
    """The l2 kernel that sees inner products only."""
    return least_l2_gram(A @ A.T, c, combine=lambda x: A.T @ x, margins=lambda w: A @ w, tol=tol, polish=polish)


KERNELS = {"l1": least_l1, "linf": least_linf, "l2": least_l2, "l2 gram": by_gram}
ORDER = {"l1": 1, "linf": np.inf, "l2": 2, "l2 gram": 2}
DUAL = {"l1": np.inf, "linf": 1, "l2": 2, "l2 gram": 2}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
row_kernels = pytest.mark.parametrize("kernel", ["l1", "linf", "l2"])
with_and_without = pytest.mark.parametrize("intercept", [False, True])


def bounds(kernel, A, c, candidate):
    """Both bounds from the definition alone; the multipliers must be what the certificate assumes."""
    w, p, b = candidate
    assert np.isfinite(w).all()
    assert np.any(w)
    assert p.min() >= 0
    # Sums of N numbers of sum one, in double precision.
    assert p.sum() == pytest.approx(1, abs=1e-13)
    scores = A @ w
    if c is not None:
        assert c @ p == pytest.approx(0, abs=1e-13)
        scores = scores + c * b
    return scores.min() / np.linalg.norm(w, ORDER[kernel]), np.linalg.norm(A.T @ p, DUAL[kernel])


def gap(kernel, A, c=None, *, tol=1e-8, polish=True):
    candidates, n_iterations = KERNELS[kernel](A, c, tol=tol, polish=polish)
    assert n_iterations >= 0
    lower, upper = bounds(kernel, A, c, candidates[0])
    return (upper - lower) / upper


def floor(kernel, A, c=None):
    """The relative gap that rounding allows: a margin is a sum of d products, of size up to the largest row."""
    candidates, _ = KERNELS[kernel](A, c, tol=1e-8)
    _, upper = bounds(kernel, A, c, candidates[0])
    return 1e-15 * sum(A.shape) * np.abs(A).max() / upper


def separable(N, d, *, margin=0.1, seed=0):
    """Rows `y_k x_k` of points on both sides of a plane, and their labels."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(N, d))
    y = np.where(X @ w > 0, 1.0, -1.0)
    if N > 1:
        y[:2] = 1, -1
    along = np.abs(X @ w) + margin
    return y[:, None] * (X + np.outer(y * along - X @ w, w)), y


def labels(N):
    return np.where(np.arange(N) % 2 == 0, 1.0, -1.0)


def by_conic_solver(kernel, A, c):
    w, b = cp.Variable(A.shape[1]), cp.Variable()
    order = {1: 1, 2: 2, np.inf: "inf"}[ORDER[kernel]]
    problem = cp.Problem(cp.Minimize(cp.norm(w, order)), [A @ w + (0 if c is None else c * b) >= 1])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return 1 / float(np.linalg.norm(np.asarray(w.value), ORDER[kernel]))


SHAPES = {"40x10": (40, 10), "15x40": (15, 40), "25x25": (25, 25), "150x6": (150, 6), "1x7": (1, 7), "9x1": (9, 1)}


@every_kernel
@with_and_without
@pytest.mark.parametrize("shape", SHAPES)
def test_optimal_pair_agrees_with_conic_solver(kernel, intercept, shape):
    N, d = SHAPES[shape]
    if intercept and N == 1:
        N = 2
    A, y = separable(N, d, seed=N)
    c = y if intercept else None
    candidates, _ = KERNELS[kernel](A, c, tol=1e-8)
    lower, upper = bounds(kernel, A, c, candidates[0])
    # The polish ends at rounding level; the Gram form loses a few digits more where K is singular.
    assert upper - lower <= 1e-11 * upper
    # Clarabel's default tolerance is 1e-8, in the objective and in the constraints.
    assert lower == pytest.approx(by_conic_solver(kernel, A, c), rel=1e-6)


@every_kernel
@with_and_without
def test_tolerance_is_met_without_polish(kernel, intercept):
    A, y = separable(60, 20, seed=3)
    for tol in (1e-3, 1e-8):
        assert gap(kernel, A, y if intercept else None, tol=tol, polish=False) <= tol


@row_kernels
@with_and_without
def test_sparse_and_dense_rows_have_the_same_optimum(kernel, intercept):
    rng = np.random.default_rng(2)
    A = rng.normal(size=(40, 90)) * (rng.random((40, 90)) < 0.2)
    c = labels(40) if intercept else None
    lowers = []
    for rows in (A, scipy.sparse.csr_array(A), A[:, :30], scipy.sparse.csr_array(A[:, :30])):
        candidates, _ = KERNELS[kernel](rows, c, tol=1e-10)
        lower, upper = bounds(kernel, rows, c, candidates[0])
        assert upper - lower <= 1e-10 * upper
        lowers.append(lower)
    # Two brackets of width 1e-10 around one number.
    assert lowers[0] == pytest.approx(lowers[1], rel=2e-10)
    assert lowers[2] == pytest.approx(lowers[3], rel=2e-10)


@every_kernel
@with_and_without
@pytest.mark.parametrize("seed", range(4))
def test_exact_duplicates_and_opposite_columns(kernel, intercept, seed):
    A = np.random.default_rng(seed).normal(size=(20, 30))
    c = labels(20)
    for rows, signs in ((np.vstack([A, A]), np.tile(c, 2)), (np.hstack([A, A]), c), (np.hstack([A, -A]), c)):
        assert gap(kernel, rows, signs if intercept else None) <= 1e-11


@every_kernel
@with_and_without
@pytest.mark.parametrize("seed", range(4))
def test_near_duplicates_reach_the_tolerance(kernel, intercept, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(20, 30))
    A = np.vstack([A, A + 1e-9 * rng.normal(size=A.shape)])
    # Beyond 1e-8 the active set among near-duplicates is ambiguous; the tolerance is still met.
    assert gap(kernel, A, np.tile(labels(20), 2) if intercept else None) <= 1e-8


@every_kernel
@with_and_without
@pytest.mark.parametrize("shape", [(30, 60), (60, 12)])
@pytest.mark.parametrize("seed", range(4))
def test_rows_over_eight_decades(kernel, intercept, shape, seed):
    A, y = separable(*shape, seed=seed)
    A = A * 10 ** np.random.default_rng(seed + 50).uniform(-4, 4, (len(A), 1))
    A /= np.abs(A).max()
    assert gap(kernel, A, y if intercept else None) <= 1e-8


@every_kernel
@with_and_without
@pytest.mark.parametrize("shape", [(30, 60), (60, 12)])
@pytest.mark.parametrize("seed", range(4))
def test_columns_over_six_decades(kernel, intercept, shape, seed):
    A, y = separable(*shape, seed=seed)
    A = A * 10 ** np.random.default_rng(seed + 50).uniform(-3, 3, A.shape[1])
    A /= np.abs(A).max()
    c = y if intercept else None
    # The Gram matrix of such columns has lost half the digits; rows should then be given.
    worst = 1e-5 if kernel == "l2 gram" else 1e-8
    assert gap(kernel, A, c) <= max(worst, floor(kernel, A, c))


@row_kernels
@pytest.mark.parametrize("seed", range(4))
def test_columns_over_sixteen_decades(kernel, seed):
    A, _ = separable(30, 60, seed=seed)
    A = A * 10 ** np.random.default_rng(seed + 50).uniform(-8, 8, 60)
    A /= np.abs(A).max()
    assert gap(kernel, A) <= max(1e-8, floor(kernel, A))


@every_kernel
@with_and_without
@pytest.mark.parametrize("factor", [1e10, 1e-10, 1e-100])
def test_one_row_of_another_size(kernel, intercept, factor):
    A, y = separable(25, 40, seed=1)
    A[0] *= factor
    A /= np.abs(A).max()
    # A row of size 1e-100 leaves the Gram matrix only by way of its scaling; the bounds keep ten digits.
    assert gap(kernel, A, y if intercept else None) <= 1e-8


@row_kernels
@with_and_without
@pytest.mark.parametrize("margin", [1e-6, 1e-8])
@pytest.mark.parametrize("seed", range(6))
def test_barely_separable(kernel, intercept, margin, seed):
    A, y = barely_separable(margin, seed)
    c = y if intercept else None
    # The floor of rounding, 1e-16 max|A| / gamma*, and no more than ten times that.
    _, upper = bounds(kernel, A, c, KERNELS[kernel](A, c, tol=1e-8)[0][0])
    assert gap(kernel, A, c) <= max(1e-8, 1e-15 * np.linalg.norm(A, DUAL[kernel], axis=1).max() / upper)


def barely_separable(margin, seed):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=12)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(40, 12))
    y = labels(40)
    X += np.outer(y * margin * (1 + rng.exponential(size=40)) - X @ w, w)
    return X * y[:, None], y


@every_kernel
def test_two_points_and_an_intercept(kernel):
    A = np.array([[0.3, 1.0, -0.2], [0.5, -0.4, 0.1]])
    # The points are A_0 and -A_1: w is the dual vector of half their difference.
    half = (A[0] + A[1]) / 2
    candidates, _ = KERNELS[kernel](A, labels(2), tol=1e-8)
    lower, upper = bounds(kernel, A, labels(2), candidates[0])
    assert lower == pytest.approx(np.linalg.norm(half, DUAL[kernel]), rel=1e-13)
    assert upper == pytest.approx(np.linalg.norm(half, DUAL[kernel]), rel=1e-13)


@every_kernel
def test_long_hulls_that_nearly_touch(kernel):
    rng = np.random.default_rng(5)
    y = labels(60)
    X = np.column_stack([rng.uniform(-100, 100, 60), y * (1e-3 + np.abs(rng.normal(size=60)))])
    A = X * y[:, None] / 100
    # The margin is 1e-5 of the size of the rows, and K has condition 1e10.
    assert gap(kernel, A, y) <= 1e-9


def test_closed_forms():
    # Rows e_k: the l1 margin is 1/d, l2 1/sqrt(d), l-infinity 1.
    for kernel, value in (("l1", 1 / 12), ("l2", 12**-0.5), ("l2 gram", 12**-0.5), ("linf", 1.0)):
        candidates, _ = KERNELS[kernel](np.eye(12), None, tol=1e-8)
        assert bounds(kernel, np.eye(12), None, candidates[0]) == pytest.approx((value, value), rel=1e-14)


def test_a_vertex_when_the_optimum_is_one():
    A, _ = separable(40, 10, seed=7)
    w = least_l1(A, None, tol=1e-8)[0][0].point
    reference = linprog(np.ones(20), A_ub=np.hstack([-A, A]), b_ub=-np.ones(40), method="highs-ds")
    vertex = reference.x[:10] - reference.x[10:]
    np.testing.assert_array_equal(w != 0, vertex != 0)
    # HiGHS's feasibility tolerance is 1e-7, the vertex's condition below 100.
    np.testing.assert_allclose(w / np.abs(w).sum(), vertex / np.abs(vertex).sum(), atol=1e-5)


INSEPARABLE = {
    "many": lambda rng: rng.normal(size=(60, 10)),
    "opposite": lambda rng: np.vstack([A := rng.normal(size=(20, 30)), -A[:1]]),
    "sum": lambda rng: np.vstack([A := rng.normal(size=(20, 30)), -(A[:1] + A[1:2])]),
    "two": lambda rng: np.array([[1.0, 2.0], [-1.0, -2.0]]),
    "rows": lambda rng: rng.normal(size=(60, 10)) * 10 ** rng.uniform(-4, 4, (60, 1)),
    "columns": lambda rng: rng.normal(size=(60, 10)) * 10 ** rng.uniform(-3, 3, 10),
}


@every_kernel
@pytest.mark.parametrize("name", INSEPARABLE)
def test_inseparable_data_end_with_a_farkas_combination(kernel, name):
    A = INSEPARABLE[name](np.random.default_rng(4))
    A /= np.abs(A).max()
    candidates, n_iterations = KERNELS[kernel](A, None, tol=1e-8)
    lower, upper = bounds(kernel, A, None, candidates[0])
    p = candidates[0].multipliers
    # Rounding of the sum of 60 rows, in units of those rows.
    assert upper <= 1e-14 * float(p @ np.linalg.norm(A, DUAL[kernel], axis=1))
    assert lower <= 1e-15
    assert n_iterations <= 200


@row_kernels
def test_inseparable_with_an_intercept(kernel):
    rng = np.random.default_rng(6)
    y = labels(80)
    A = rng.normal(size=(80, 8)) * y[:, None]
    _, upper = bounds(kernel, A, y, KERNELS[kernel](A, y, tol=1e-8)[0][0])
    assert upper <= 1e-14 * np.abs(A).max()
    # Shifted apart, the same points are separable; the shift is made of the intercept alone in one more coordinate.
    apart = np.column_stack([A, np.ones(80)])
    assert gap(kernel, apart, y) <= 1e-11


def test_least_norm_combination():
    rng = np.random.default_rng(8)
    A = rng.normal(size=(50, 8))
    for rows in (A, scipy.sparse.csr_array(A)):
        p = least_norm_combination(Rows(rows), None)
        assert p is not None
        assert p.min() >= 0
        # Rounding of a convex combination of rows of size 3.
        assert np.linalg.norm(A.T @ p) <= 1e-14
    A, y = separable(30, 8, seed=9)
    p = least_norm_combination(Rows(A), y)
    assert p is not None
    assert np.linalg.norm(A.T @ p) == pytest.approx(by_conic_solver("l2", A, y), rel=1e-6)


@every_kernel
def test_a_power_of_two_changes_nothing(kernel):
    A, y = separable(30, 12, seed=10)
    first, _ = KERNELS[kernel](A, y, tol=1e-8)
    second, _ = KERNELS[kernel](A / 64, y, tol=1e-8)
    # The scaling is exact, and so are the steps but for sums taken in another order.
    np.testing.assert_allclose(first[0].multipliers, second[0].multipliers, rtol=1e-9, atol=1e-13)


def test_rank_one_constraints_by_inner_products():
    rng = np.random.default_rng(11)
    D, Z = rng.normal(size=(40, 9)), rng.normal(size=(40, 8))
    flat = np.einsum("ki,kj->kij", D, Z).reshape(40, -1)
    candidates, _ = least_l2_gram(
        (D @ D.T) * (Z @ Z.T),
        None,
        combine=lambda x: (D * x[:, None]).T @ Z,
        margins=lambda W: np.einsum("ki,ij,kj->k", D, W, Z),
        tol=1e-8,
    )
    W, p, _ = candidates[0]
    assert W.shape == (9, 8)
    lower, upper = (flat @ W.ravel()).min() / np.linalg.norm(W), np.linalg.norm(p @ flat)
    assert upper - lower <= 1e-12 * upper
    assert lower == pytest.approx(by_conic_solver("l2", flat, None), rel=1e-6)
