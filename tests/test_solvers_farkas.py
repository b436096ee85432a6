"""Data that nothing separates: the combinations that prove it, how few steps they take, and on how few constraints."""

import numpy as np
import pytest
import scipy.sparse

from omegalimit import MaxMargin, solve
from omegalimit.limits.constraints import Factors, Matrices, Rows
from omegalimit.solvers import _least_norm, l2
from omegalimit.solvers._farkas import null_combination, opposite, reduced
from omegalimit.solvers._least_norm import GramSpace, RowSpace
from omegalimit.solvers.frobenius import least_frobenius
from omegalimit.solvers.l2 import least_l2, least_l2_gram

# A sum of products with weights of sum one errs by a unit of the last place or two, relative to the sizes combined.
ROUNDING = 1e-15
intercepts = pytest.mark.parametrize("free", [False, True])


def left(constraints, p):
    """The size of a combination as a part of the sizes combined."""
    return np.linalg.norm(constraints.combine(p)) / (constraints.euclidean_sizes @ p)


def check(constraints, c, p):
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-14)
    if c is not None:
        assert c @ p == pytest.approx(0, abs=1e-14)
    assert left(constraints, p) <= ROUNDING


def labelled(X, y, *, free):
    """The rows `y_k x_k`, and the signs of a free intercept."""
    return X * y[:, None], y if free else None


def doubled(n, d, seed=0):
    """Every input twice, with labels drawn for each."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return np.vstack([X, X]), rng.choice([-1.0, 1.0], size=2 * n)


def midpoint(n, d, seed=0):
    """One input halfway between two of the other label; the rest are separable, and have no part in a combination."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], size=n)
    return np.vstack([X, X[y > 0][:2].mean(axis=0)]), np.append(y, -1.0)


def boundary(n, d, n_on, seed=0):
    """Inputs on both sides of a plane, and `n_on` of both labels in it: combinations have no weight off the plane."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sign(X[:, 0])
    X[:n_on, 0], y[:n_on] = 0, rng.choice([-1.0, 1.0], size=n_on)
    return X, y


DATA = {
    "doubled": lambda: doubled(120, 160),
    "midpoint": lambda: midpoint(150, 200),
    "boundary": lambda: boundary(300, 30, 100),
    "boundary, rank near its size": lambda: boundary(300, 100, 230),
    "random": lambda: boundary(300, 60, 300),
}


@pytest.fixture
def no_pairs(monkeypatch):
    """Without the look for opposite constraints, so that the method has to find the combination."""
    monkeypatch.setattr(l2, "opposite", lambda constraints, c: None)


@intercepts
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("form", ["dense", "sparse", "gram"])
def test_a_combination_of_zero_is_found_in_few_steps(no_pairs, name, form, free):
    A, c = labelled(*DATA[name](), free=free)
    if form == "gram":
        found, n_steps = least_l2_gram(A @ A.T, c, combine=lambda x: A.T @ x, margins=lambda w: A @ w, tol=1e-8)
    else:
        found, n_steps = least_l2(A if form == "dense" else scipy.sparse.csr_array(A), c, tol=1e-8)
    check(Rows(A), c, found[0].multipliers)
    # By steps alone, which take half off where weights vanish like their slacks, rounding is 40 steps away.
    assert n_steps <= 20


@intercepts
def test_margins_far_below_the_share_at_which_combinations_are_sought(no_pairs, free):
    for size in (1e-3, 1e-6, 1e-9):
        A, c = labelled(*midpoint(60, 80), free=free)
        A[-1, :] += size * np.random.default_rng(1).normal(size=80)
        found, _ = least_l2(A, c, tol=1e-8)
        w, p, b = found[0]
        lower = (A @ w + (0 if c is None else c * b)).min() / np.linalg.norm(w)
        upper = np.linalg.norm(A.T @ p)
        assert lower > 0
        # Rounding of rows of size ten, over a margin of some tenths of the change.
        assert upper - lower <= max(1e-8, 1e-14 / (0.01 * size)) * upper


def test_a_combination_that_is_small_but_not_zero_is_not_kept(no_pairs, monkeypatch):
    A, _ = labelled(*midpoint(60, 80), free=False)
    A[-1, :] += 1e-6 * np.random.default_rng(1).normal(size=80)
    asked = []

    def recorded(space, x, border):
        asked.append(null_combination(space, x, border))
        return asked[-1]

    monkeypatch.setattr(_least_norm, "null_combination", recorded)
    found, _ = least_l2(A, None, tol=1e-8)
    assert asked
    upper = np.linalg.norm(A.T @ found[0].multipliers)
    # Weak duality: no combination is below the margin.
    assert (A @ found[0].point).min() / np.linalg.norm(found[0].point) > 0.99 * upper


def test_rows_of_unlike_size_do_not_end_the_method_early(no_pairs):
    # The small rows bound the margin from the first step on, and the two that cancel are 1e5 times their size.
    rng = np.random.default_rng(2)
    A = np.abs(rng.normal(size=(12, 4))) * 10.0 ** rng.uniform(-5, -4, (12, 1))
    A = np.vstack([A, [[300.0, -100.0, 0.0, 0.0], [-100.0, 100.0 / 3, 0.0, 0.0]]])
    found, _ = least_l2(A, None, tol=1e-8)
    check(Rows(A), None, found[0].multipliers)


@intercepts
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_one_input_with_both_labels_is_the_combination(form, free):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 400)), rng.choice([-1.0, 1.0], size=300)
    X, y = np.vstack([X, X[7]]), np.append(y, -y[7])
    rows = X if form == "dense" else scipy.sparse.csr_array(X)
    solution = solve(MaxMargin.from_labels("l2", rows, y, intercept="free" if free else "none"))
    assert solution.status == "not separable"
    assert solution.farkas is not None
    np.testing.assert_array_equal(np.flatnonzero(solution.farkas), [7, 300])
    np.testing.assert_array_equal(solution.farkas[[7, 300]], [0.5, 0.5])
    A, c = labelled(X, y, free=free)
    # The same pair out of a combination of many rows, with noise on all others.
    p = np.full(301, 1e-12)
    p[[7, 300]] = 0.5
    np.testing.assert_array_equal(np.flatnonzero(reduced(Rows(A), c, p)), [7, 300])


def test_opposite_constraints():
    rng = np.random.default_rng(4)
    D, Z = rng.normal(size=(20, 3)), rng.normal(size=(20, 5))
    D[13], Z[13] = -2 * D[5], Z[5] / 4
    for constraints in (Factors(D, Z), Matrices(np.einsum("ki,kj->kij", D, Z))):
        p = opposite(constraints, None)
        assert p is not None
        # The weights are inverse to the sizes, which differ by a power of two.
        np.testing.assert_allclose(p[[5, 13]], [1 / 3, 2 / 3], rtol=1e-15)
        found, n_steps = least_frobenius(constraints, None, tol=1e-8)
        assert n_steps == 0
        check(constraints, None, found[0].multipliers)
        # An intercept asks for equal weights and unlike signs.
        assert opposite(constraints, np.where(np.arange(20) == 5, 1.0, -1.0)) is None
    A = rng.normal(size=(10, 3))
    A[4] = -A[2]
    c = np.ones(10)
    c[4] = -1
    p = opposite(Rows(A), c)
    assert p is not None
    np.testing.assert_array_equal(np.flatnonzero(p), [2, 4])
    assert opposite(Rows(A), np.where(np.arange(10) == 0, -1.0, 1.0)) is None
    # One unit of the last place apart is a margin, however small.
    A[4, 1] = np.nextafter(A[4, 1], 9)
    assert opposite(Rows(A), None) is None


def test_zero_constraints_are_opposite_to_themselves():
    A = np.vstack([np.eye(3), np.zeros((2, 3))])
    p = opposite(Rows(A), None)
    assert p is not None
    assert not p[:3].any()
    p = opposite(Rows(A), np.array([1.0, 1, 1, 1, -1]))
    np.testing.assert_array_equal(p, [0, 0, 0, 0.5, 0.5])
    assert opposite(Rows(A), np.array([-1.0, 1, 1, 1, 1])) is None


@intercepts
@pytest.mark.parametrize("gram", [False, True])
def test_null_combination_needs_no_point_near_it(gram, free):
    # From equal weights: all of the rows but the pairs drop out, as they are independent.
    A, c = labelled(*doubled(40, 70), free=free)
    space = GramSpace(A @ A.T, lambda x: A.T @ x, lambda w: A @ w) if gram else RowSpace(A)
    y = null_combination(space, np.ones(80), c)
    assert y is not None
    check(Rows(A), None, y / y.sum())
    same = np.flatnonzero(A[:40, 0] == A[40:, 0])
    # What is left of the weight of an independent row is rounding.
    assert y[np.concatenate([same, same + 40])].max() <= 1e-12 * y.max()
    if c is not None:
        assert abs(c @ y) <= 1e-12 * y.sum()


@intercepts
@pytest.mark.parametrize("kind", ["rows", "sparse", "matrices", "factors", "unlike sizes"])
def test_reduced_combines_no_more_than_rank_and_two_constraints(kind, free):
    rng = np.random.default_rng(5)
    n, d1, d2 = 200, 4, 6
    c = rng.choice([-1.0, 1.0], size=n) if free else None
    D, Z = rng.normal(size=(n, d1)), rng.normal(size=(n, d2))
    M = rng.normal(size=(n, d1, d2))
    flat = M.reshape(n, -1)
    constraints = {
        "rows": Rows(flat),
        "sparse": Rows(scipy.sparse.csr_array(np.where(rng.random(flat.shape) < 0.5, flat, 0.0))),
        "matrices": Matrices(M),
        "factors": Factors(D, Z),
        "unlike sizes": Rows(flat * 10.0 ** rng.uniform(-3, 3, (n, 1))),
    }[kind]
    p = least_frobenius(constraints, c, tol=1e-8)[0][0].multipliers
    check(constraints, c, p)
    assert np.count_nonzero(p) > 50
    few = reduced(constraints, c, p)
    check(constraints, c, few)
    assert np.count_nonzero(few) <= d1 * d2 + 2
    # Once more changes nothing: the constraints are independent but for one relation.
    assert np.count_nonzero(reduced(constraints, c, few)) == np.count_nonzero(few)


def test_reduced_leaves_what_it_cannot_improve():
    p = np.array([0.25, 0.25, 0.5])
    triangle = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, -0.5]])
    np.testing.assert_array_equal(reduced(Rows(triangle), None, p), p)
    # Not a proof: what comes out must combine to no more.
    A = np.abs(np.random.default_rng(6).normal(size=(30, 5)))
    q = np.full(30, 1 / 30)
    assert left(Rows(A), reduced(Rows(A), None, q)) <= left(Rows(A), q)


def test_reduced_is_not_sought_where_it_would_take_long(monkeypatch):
    A, _ = labelled(*DATA["random"](), free=False)
    p = least_l2(A, None, tol=1e-8)[0][0].multipliers
    monkeypatch.setattr("omegalimit.solvers._farkas._MOST_WORK", 1000)
    np.testing.assert_array_equal(reduced(Rows(A), None, p), p)


def test_nearly_contradictory_matrices_do_not_repeat_sets():
    # Rank-one constraints whose sum is 1e-10 of their size: inner products do not resolve it, and repairs would cycle.
    rng = np.random.default_rng(7)
    D, Z = rng.normal(size=(121, 24)), rng.normal(size=(121, 24))
    D[1] = D[120] = D[0]
    Z[120] = -(Z[0] + Z[1]) + 1e-10 * rng.normal(size=24)
    found, n_steps = least_frobenius(Factors(D, Z), None, tol=1e-8)
    assert n_steps <= 100
    W, p, _ = found[0]
    constraints = Factors(D, Z)
    lower, upper = constraints.margins(W).min() / np.linalg.norm(W), np.linalg.norm(constraints.combine(p))
    assert lower > 0
    # Rounding of constraints of size 24 over a margin of 1e-10 of that.
    assert upper - lower <= 1e-4 * upper
