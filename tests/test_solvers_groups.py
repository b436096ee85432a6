"""Group l1 and Fourier l1: against independent witnesses, by their laws, in closed form, and on hard data."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog, nnls

from omegalimit.solvers.fourier_l1 import least_fourier_l1
from omegalimit.solvers.group_l1 import least_group_l1

# What the polish leaves on well-scaled data: rounding of sums of at most a few hundred terms, over a margin of 1e-2.
ROUNDING = 1e-12
# What the conic solver, asked for 1e-9, reaches in its own objective.
CONIC = 1e-7


def separable(N, d, *, seed=0, with_intercept=False):
    """Rows with a positive margin, entries at most 1 in size, and the signs of the intercept's column or None."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(N, d)), rng.normal(size=d)
    scores = X @ w
    # With an intercept the threshold lies between the two middle scores, so that both sides are there.
    threshold = np.sort(scores)[N // 2 - 1 : N // 2 + 1].mean() if with_intercept else 0.0
    c = np.where(scores > threshold, 1.0, -1.0)
    A = c[:, None] * X
    return A / np.abs(A).max(), c if with_intercept else None


def uneven_groups(d):
    """Labels that are neither contiguous nor sorted; groups of 1, 2, 3, ... columns."""
    labels = np.repeat(7 * np.arange(d) - 40, np.arange(1, d + 1))[:d]
    return labels[np.random.default_rng(5).permutation(d)]


def group_sizes(v, groups):
    return np.array([np.linalg.norm(v[groups == label]) for label in np.unique(groups)])


def fourier_sizes(v, n_plain=0):
    D = len(v) - n_plain
    F = np.fft.fft(np.eye(D)) / np.sqrt(D)
    return np.r_[np.abs(F @ v[:D]), np.abs(v[D:])]


def bounds(A, c, candidate, sizes):
    """Lower and upper bound on the maximum margin, by nothing but the definition; `sizes(v)`: the groups' norms."""
    p = candidate.multipliers
    assert (p >= 0).all()
    if c is not None:
        assert abs(c @ p) <= 1e-14 * p.sum()
    scores = A @ candidate.point + (0 if c is None else c * candidate.intercept)
    return scores.min() / sizes(candidate.point).sum(), sizes(A.T @ p).max() / p.sum()


def group_bounds(A, c, groups, *, tol=1e-8, polish=True):
    candidates, n_iterations = least_group_l1(A, c, groups=groups, tol=tol, polish=polish)
    assert n_iterations < 200
    return bounds(A, c, candidates[0], lambda v: group_sizes(v, groups))


def fourier_bounds(A, c=None, *, n_plain=0, tol=1e-8):
    candidates, _ = least_fourier_l1(A, c, n_plain=n_plain, tol=tol)
    return bounds(A, c, candidates[0], lambda v: fourier_sizes(v, n_plain))


def assert_optimal(found, rtol=ROUNDING):
    lower, upper = found
    # Either may be off by rounding, so that a gap may be negative.
    assert abs(upper - lower) <= rtol * upper


def by_conic_solver(A, c, norm):
    """The maximum margin by CVXPY and Clarabel; `norm(cp, w)` states the norm."""
    import cvxpy as cp

    w, b = cp.Variable(A.shape[1]), cp.Variable()
    margins = A @ w if c is None else A @ w + cp.multiply(c, cp.hstack([b] * len(c)))
    problem = cp.Problem(cp.Minimize(norm(cp, w)), [margins >= 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert isinstance(problem.value, float)
    return 1 / problem.value


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize(("N", "d"), [(12, 20), (40, 9), (15, 15)])
def test_group_optimum_agrees_with_a_conic_solver(N, d, with_intercept):
    A, c = separable(N, d, with_intercept=with_intercept)
    groups = uneven_groups(d)
    found = group_bounds(A, c, groups)
    assert_optimal(found)
    witness = by_conic_solver(A, c, lambda cp, w: sum(cp.norm(w[groups == g]) for g in np.unique(groups)))
    assert found[0] == pytest.approx(witness, rel=CONIC)


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize(("N", "d"), [(20, 30), (60, 12)])
def test_singletons_are_l1(N, d, with_intercept):
    A, c = separable(N, d, seed=1, with_intercept=with_intercept)
    found = group_bounds(A, c, np.arange(d))
    assert_optimal(found)
    columns = [-A, A] if c is None else [-A, A, -c[:, None]]
    free = [] if c is None else [(None, None)]
    program = linprog(
        np.r_[np.ones(2 * d), np.zeros(len(free))],
        A_ub=np.hstack(columns),
        b_ub=-np.ones(N),
        bounds=[(0, None)] * (2 * d) + free,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    # Feasibility of 1e-10 in the margins is a relative error of the same size.
    assert found[0] == pytest.approx(1 / program.fun, rel=1e-9)


@pytest.mark.parametrize(("N", "d"), [(20, 30), (60, 12)])
def test_one_group_is_l2(N, d):
    A, _ = separable(N, d, seed=2)
    found = group_bounds(A, None, np.zeros(d, dtype=int))
    assert_optimal(found)
    p, _ = nnls(np.vstack([A.T, np.ones(N)]), np.r_[np.zeros(d), 1.0])
    # The least-norm point by active sets, to rounding.
    assert found[0] == pytest.approx(np.linalg.norm(A.T @ p) / p.sum(), rel=ROUNDING)


def test_a_rotation_inside_a_group_changes_nothing():
    A, c = separable(25, 12, seed=3, with_intercept=True)
    groups = np.repeat(np.arange(3), 4)
    rotations = [np.linalg.qr(np.random.default_rng(k).normal(size=(4, 4)))[0] for k in range(3)]
    rotated = np.hstack([A[:, groups == g] @ rotations[g] for g in range(3)])
    assert group_bounds(A, c, groups)[0] == pytest.approx(group_bounds(rotated, c, groups)[0], rel=ROUNDING)
    # The control: the same rotations across the groups are no symmetry.
    assert group_bounds(rotated, c, np.tile(np.arange(4), 3))[0] != pytest.approx(
        group_bounds(A, c, np.tile(np.arange(4), 3))[0], rel=1e-3
    )


def test_labels_are_names_only():
    A, _ = separable(10, 8)
    names = np.array([5, 5, -2, 9, -2, 9, 9, 0])
    order = np.array([3, 1, 4, 0, 7, 6, 2, 5])
    assert group_bounds(A, None, names)[0] == pytest.approx(group_bounds(A, None, names * 3 + 1)[0], rel=ROUNDING)
    assert group_bounds(A, None, names)[0] == pytest.approx(
        group_bounds(A[:, order], None, names[order])[0], rel=ROUNDING
    )


def test_one_row_is_solved_in_closed_form():
    a = np.array([[0.3, -0.4, 0.1, 1.0, 0.0]])
    candidates, _ = least_group_l1(a, None, groups=np.array([0, 0, 1, 2, 2]), tol=1e-8)
    # The largest group, (1, 0), has the dual norm 1, and the point lies along it alone.
    assert bounds(a, None, candidates[0], lambda v: group_sizes(v, np.array([0, 0, 1, 2, 2]))) == pytest.approx(
        (1.0, 1.0), rel=ROUNDING
    )
    direction = candidates[0].point / np.linalg.norm(candidates[0].point)
    assert direction == pytest.approx(np.array([0, 0, 0, 1.0, 0]), abs=ROUNDING)


def test_one_column_and_two_points():
    assert_optimal(group_bounds(np.array([[0.5], [1.0], [0.25]]), None, np.array([3])))
    A, c = np.array([[1.0, 0.5, 0.2], [-0.25, 0.25, -0.1]]), np.array([1.0, -1.0])
    groups = np.array([0, 0, 1])
    found = group_bounds(A, c, groups)
    # With a free intercept two points weigh half each.
    assert found == pytest.approx((np.linalg.norm([0.375, 0.375]),) * 2, rel=ROUNDING)


@pytest.mark.parametrize("shape", [(60, 40), (15, 40)])
@pytest.mark.parametrize("with_intercept", [False, True])
def test_sparse_and_dense_rows_agree(shape, with_intercept):
    N, d = shape
    A, c = separable(N, d, seed=4, with_intercept=with_intercept)
    rng = np.random.default_rng(4)
    A *= rng.random(A.shape) < 0.4
    if c is None:
        A *= np.where(A @ rng.normal(size=d) > 0, 1, -1)[:, None]
    groups = uneven_groups(d)
    dense, sparse = group_bounds(A, c, groups), group_bounds(scipy.sparse.csr_array(A), c, groups)
    if dense[0] > 0:
        assert_optimal(dense)
        assert_optimal(sparse)
        assert sparse[0] == pytest.approx(dense[0], rel=ROUNDING)
    else:
        assert max(dense[1], sparse[1]) <= 1e-13


def test_without_the_polish_the_gap_is_the_one_asked_for():
    A, _ = separable(50, 60, seed=6)
    groups = np.arange(60) // 3
    lower, upper = group_bounds(A, None, groups, tol=1e-6, polish=False)
    assert 0 < upper - lower <= 1e-6 * upper


# Hard data.


def changed(A, c, change, rng):
    N, d = A.shape
    if change == "equal rows":
        rows = np.r_[:N, : N // 2]
        return A[rows], None if c is None else c[rows]
    if change == "near-equal rows":
        rows = np.r_[:N, : N // 2]
        return A[rows] * (1 + 1e-9 * rng.normal(size=(len(rows), d))), None if c is None else c[rows]
    if change == "equal and opposite columns":
        return np.hstack([A, A[:, : d // 2], -A[:, : d // 3]]), c
    if change == "rows of all sizes":
        return A * 10 ** rng.uniform(-4, 4, size=(N, 1)), c
    if change == "columns of all sizes":
        return A * 10 ** rng.uniform(-3, 3, size=d), c
    assert change == "both"
    return A * 10 ** rng.uniform(-4, 4, size=(N, 1)) * 10 ** rng.uniform(-3, 3, size=d), c


HARD = [
    "equal rows",
    "near-equal rows",
    "equal and opposite columns",
    "rows of all sizes",
    "columns of all sizes",
    "both",
]


@pytest.mark.parametrize("change", HARD)
@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize(("N", "d"), [(30, 40), (60, 20), (10, 100), (200, 10)])
def test_hard_data(N, d, with_intercept, change):
    # Separable with b = 0, so that no size of a row takes that away.
    A, _ = separable(N, d, seed=N)
    c = np.random.default_rng(N).choice([-1.0, 1.0], size=N) if with_intercept else None
    A, c = changed(A, c, change, np.random.default_rng(d))
    A /= np.abs(A).max()
    # The tolerance that was asked for.
    assert_optimal(group_bounds(A, c, np.arange(A.shape[1]) // 3), rtol=1e-8)


def test_rows_that_are_tiny_decide_alone():
    """Rows of 1e-16 beside rows of 1: these hold anyway, so that the margin is that of the tiny ones, to all digits."""
    A, _ = separable(20, 12, seed=10)
    groups = np.arange(12) // 3
    found = group_bounds(np.r_[1e-16 * A[:15], A[15:]], None, groups)
    # At the optimum of the first fifteen the others have a positive margin, which is all that they need.
    candidates, _ = least_group_l1(A[:15], None, groups=groups, tol=1e-8)
    assert (A @ candidates[0].point > 0).all()
    assert found == pytest.approx((1e-16 * group_bounds(A[:15], None, groups)[0],) * 2, rel=1e-8)


def test_rows_that_cancel_at_once():
    A = np.array([[1.0, 2.0], [-1.0, -2.0]])
    candidates, _ = least_group_l1(A, None, groups=np.array([0, 1]), tol=1e-8)
    assert not (A.T @ candidates[0].multipliers).any()


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("with_intercept", [False, True])
def test_margins_that_are_nearly_zero(distance, with_intercept):
    """A row and nearly its negative: the margin is about `distance`, and rounding ends the gap at about 1e-16 of it."""
    A, c = separable(30, 40, seed=8, with_intercept=with_intercept)
    rng = np.random.default_rng(9)
    A = np.vstack([A, -A[:1] + distance * rng.normal(size=40)])
    c = None if c is None else np.r_[c, -c[0]]
    A /= np.abs(A).max()
    lower, upper = group_bounds(A, c, np.arange(40) // 3)
    assert distance / 100 < lower < upper * (1 + ROUNDING) < distance
    # eps over the margin, times the number of terms in a score and its rounding in the solves.
    assert upper - lower <= max(1e-8, 1e4 * 2e-16 / upper) * upper


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_two_long_hulls_that_nearly_touch(distance):
    x = np.linspace(0, 1, 30)
    points = np.vstack([np.c_[x, np.full(30, distance)], np.c_[x, np.full(30, -distance)]])
    c = np.repeat([1.0, -1.0], 30)
    # The hulls are 2 distance apart, along the second coordinate alone; half of that is the margin in any grouping.
    for groups in (np.array([0, 1]), np.array([0, 0])):
        lower, upper = group_bounds(points * c[:, None], c, groups)
        assert upper == pytest.approx(distance, rel=1e-7)
        assert lower == pytest.approx(distance, rel=1e-7)


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize(("N", "d"), [(30, 40), (60, 20), (200, 10)])
def test_a_contradiction_is_shown_by_the_multipliers(N, d, with_intercept):
    A, c = separable(N, d, seed=7, with_intercept=with_intercept)
    A, c = np.vstack([A, -A[:1]]), None if c is None else np.r_[c, -c[0]]
    _, upper = group_bounds(A, c, np.arange(d) // 3)
    # A combination of rows of size about 1 that cancels: rounding of each entry.
    assert 0 <= upper <= 1e-13


# Many more rows than columns: the margin is a small part of the rows, and nearly all of them are far from binding.


def labelled(N, *, seed, with_intercept):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 20))
    y = np.sign(X @ np.ones(20))
    return y[:, None] * X / np.abs(X).max(), y if with_intercept else None


def assert_optimal_for_its_margin(found):
    # eps over the margin, times the number of terms in a score and its rounding in the solves.
    assert_optimal(found, rtol=1e3 * 2e-16 / found[1])


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize("polish", [False, True])
def test_gaussian_data_with_many_rows(with_intercept, polish):
    groups = np.arange(20) // 4
    for seed in range(20):
        A, c = labelled(2000, seed=seed, with_intercept=with_intercept)
        group, _ = least_group_l1(A, c, groups=groups, tol=1e-8, polish=polish)
        fourier, _ = least_fourier_l1(A, c, tol=1e-8, polish=polish)
        for candidates, sizes in ((group, lambda v: group_sizes(v, groups)), (fourier, fourier_sizes)):
            found = bounds(A, c, candidates[0], sizes)
            if polish:
                assert_optimal_for_its_margin(found)
            else:
                # The tolerance that was asked for.
                assert_optimal(found, rtol=1e-8)


@pytest.mark.parametrize("with_intercept", [False, True])
def test_gaussian_data_with_still_more_rows(with_intercept):
    for seed in range(4):
        A, c = labelled(8000, seed=seed, with_intercept=with_intercept)
        assert_optimal_for_its_margin(group_bounds(A, c, np.arange(20) // 4))
        assert_optimal_for_its_margin(fourier_bounds(A, c))


@pytest.mark.parametrize("change", ["equal rows", "near-equal rows", "equal and opposite columns"])
def test_many_rows_that_repeat(change):
    """A set of active rows that is far too large, or dependent, is brought down to one that decides."""
    A, _ = changed(separable(6000, 12, seed=5)[0], None, change, np.random.default_rng(12))
    assert_optimal_for_its_margin(group_bounds(A, None, np.arange(A.shape[1]) // 3))
    assert_optimal_for_its_margin(fourier_bounds(A))


@pytest.mark.parametrize("distance", [1e-6, 1e-9])
@pytest.mark.parametrize("with_intercept", [False, True])
def test_many_rows_and_a_margin_that_is_nearly_zero(distance, with_intercept):
    """Rounding ends the gap at about 1e-16 of the margin, and not at as many times that as there are rows."""
    A, c = separable(3000, 40, seed=5, with_intercept=with_intercept)
    A = np.vstack([A, -A[:1] + distance * np.random.default_rng(1).normal(size=40)])
    c = None if c is None else np.r_[c, -c[0]]
    for lower, upper in (group_bounds(A, c, np.arange(40) // 3), fourier_bounds(A, c)):
        assert distance / 1000 < lower < upper * (1 + ROUNDING) < distance
        # As above: the number of terms in a score and its rounding in the solves.
        assert upper - lower <= max(1e-8, 1e3 * 2e-16 / upper) * upper


# Fourier l1.


@pytest.mark.parametrize(
    ("N", "d", "n_plain"), [(10, 1, 0), (10, 2, 0), (8, 16, 0), (8, 15, 0), (40, 9, 1), (30, 8, 1)]
)
@pytest.mark.parametrize("with_intercept", [False, True])
def test_fourier_optimum_agrees_with_a_conic_solver(N, d, n_plain, with_intercept):
    A, c = separable(N, d + n_plain, seed=d, with_intercept=with_intercept)
    found = fourier_bounds(A, c, n_plain=n_plain)
    assert_optimal(found)
    F = np.fft.fft(np.eye(d)) / np.sqrt(d)

    def norm(cp, w):
        # Coefficients that are real are stated so: rounding in place of their imaginary parts misleads the solver.
        real = [2 * k % d == 0 for k in range(d)]
        parts = [cp.abs(F[k].real @ w[:d]) for k in range(d) if real[k]]
        parts += [cp.norm(cp.hstack([F[k].real @ w[:d], F[k].imag @ w[:d]])) for k in range(d) if not real[k]]
        return sum(parts) + (cp.abs(w[d]) if n_plain else 0)

    assert found[0] == pytest.approx(by_conic_solver(A, c, norm), rel=CONIC)


@pytest.mark.parametrize("d", [7, 8])
def test_fourier_margin_does_not_see_a_shift(d):
    A, _ = separable(6, d, seed=11)
    shifted = fourier_bounds(np.roll(A, 3, axis=1))
    assert_optimal(shifted)
    assert shifted[0] == pytest.approx(fourier_bounds(A)[0], rel=ROUNDING)


@pytest.mark.parametrize("d", [1, 2, 3, 6, 9])
def test_fourier_of_one_wave(d):
    """One row that is a wave of frequency `k`: the point is the same wave, its norm and the dual norm are closed."""
    for k in range(d // 2 + 1):
        wave = np.cos(2 * np.pi * k * np.arange(d) / d)[None, :]
        candidates, _ = least_fourier_l1(wave, None, tol=1e-8)
        # The wave has two coefficients of size sqrt(d) / 2, or one of sqrt(d) where k and -k are the same.
        expected = np.sqrt(d) if 2 * k % d == 0 else np.sqrt(d) / 2
        found = bounds(wave, None, candidates[0], fourier_sizes)
        assert found == pytest.approx((expected, expected), rel=ROUNDING)
        point = candidates[0].point / np.linalg.norm(candidates[0].point)
        assert point == pytest.approx(wave[0] / np.linalg.norm(wave), abs=1e-9)


def test_fourier_takes_sparse_rows():
    A, c = separable(12, 10, seed=12, with_intercept=True)
    assert fourier_bounds(scipy.sparse.csr_array(A), c) == pytest.approx(fourier_bounds(A, c), rel=ROUNDING)


def test_fourier_needs_a_coordinate():
    with pytest.raises(
        ValueError, match=r"^The transform needs a coordinate; got 1 of them, 1 outside the transform\.$"
    ):
        least_fourier_l1(np.ones((2, 1)), None, n_plain=1, tol=1e-8)
