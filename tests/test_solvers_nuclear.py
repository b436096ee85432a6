"""The nuclear kernel: bounds recomputed from the data, laws, and a conic solver as an independent witness."""

import cvxpy as cp
import numpy as np
import pytest

from omegalimit.limits.constraints import Factors, Matrices
from omegalimit.solvers._reduce import as_factors, in_spans, near_duplicates, row_span
from omegalimit.solvers.nuclear import least_nuclear
from omegalimit.solvers.nuclear_schur import schur_matrix, schur_solver

# Where Newton's method follows, bounds meet up to a few roundings of a sum of this many terms.
SHARP = 1e-12


def attention(n, n_tokens, d, seed=0):
    """Tokens and queries normal of variance `1/d`, the first token wanted: `A_k = D_k Z_k^T`."""
    rng = np.random.default_rng(seed)
    tokens, queries = rng.normal(size=(n, n_tokens, d)) / np.sqrt(d), rng.normal(size=(n, d)) / np.sqrt(d)
    return Factors((tokens[:, :1] - tokens[:, 1:]).reshape(-1, d), np.repeat(queries, n_tokens - 1, axis=0))


def dense(constraints):
    return Matrices(np.einsum("ki,kj->kij", constraints.left, constraints.right))


def labelled(N, d1, d2, seed=0, *, away=0.3, offset=0.7):
    """Normal matrices on two sides of `<W, A> = offset`, none nearer than `away`, times their labels; the labels."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d1, d2))
    W /= np.linalg.norm(W)
    A = rng.normal(size=(N, d1, d2))
    y = np.where(np.einsum("kij,ij->k", A, W) > offset, 1.0, -1.0)
    return Matrices((A + away * y[:, None, None] * W) * y[:, None, None]), y


def bounds(constraints, c, candidate):
    """Lower and upper bound of the margin, from the data alone; the multipliers must be weights."""
    scores, p = constraints.margins(candidate.point), candidate.multipliers
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-14)
    assert c is None or abs(c @ p) < 1e-14
    margins = scores if c is None else scores + candidate.intercept * c
    lower = margins.min() / np.linalg.svd(candidate.point, compute_uv=False).sum()
    return lower, np.linalg.norm(constraints.combine(p), 2)


def solved(constraints, c=None, *, tol=1e-8, polish=True):
    """The bounds of the first candidate and their gap."""
    candidates, n_iterations = least_nuclear(constraints, c, tol=tol, polish=polish)
    assert n_iterations < 150
    lower, upper = bounds(constraints, c, candidates[0])
    return lower, upper, (upper - lower) / upper


def by_conic_solver(constraints, c=None):
    """The maximum margin by CVXPY with Clarabel."""
    A = constraints.matrices if isinstance(constraints, Matrices) else dense(constraints).matrices
    W, b = cp.Variable(A.shape[1:]), cp.Variable()
    margins = A.reshape(len(A), -1) @ cp.vec(W, order="C") + (0 if c is None else c * b)
    objective = cp.Minimize(cp.normNuc(W))
    cp.Problem(objective, [margins >= 1]).solve(solver="CLARABEL")  # pyright: ignore[reportArgumentType]
    return 1 / float(np.asarray(objective.value))


@pytest.mark.parametrize("shape", [(12, 3, 3), (12, 2, 5), (25, 4, 3), (2, 4, 4), (40, 1, 3), (60, 3, 2)])
@pytest.mark.parametrize("intercept", [False, True])
def test_agrees_with_a_conic_solver(shape, intercept):
    N, d1, d2 = shape
    constraints, y = labelled(N, d1, d2, offset=0.2 if intercept else 0.0)
    if N == 2:
        y = np.array([1.0, -1.0])
    c = y if intercept else None
    lower, upper, gap = solved(constraints, c)
    assert gap < SHARP
    # Clarabel's own tolerance is 1e-8 on objectives of a few units.
    assert by_conic_solver(constraints, c) == pytest.approx(upper, rel=1e-6)
    assert lower == pytest.approx(upper, rel=SHARP)


@pytest.mark.parametrize("intercept", [False, True])
def test_factors_agree_with_a_conic_solver(intercept):
    constraints = attention(4, 4, 5)
    c = np.where(np.arange(12) % 2, 1.0, -1.0) if intercept else None
    _, upper, gap = solved(constraints, c)
    assert gap < SHARP
    assert by_conic_solver(constraints, c) == pytest.approx(upper, rel=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_matrices_of_rank_one_are_solved_as_factors(intercept):
    constraints = attention(8, 4, 16)
    c = np.where(np.arange(24) % 2, 1.0, -1.0) if intercept else None
    _, upper, gap = solved(constraints, c)
    _, same, other_gap = solved(dense(constraints), c)
    assert isinstance(as_factors(dense(constraints)), Factors)
    assert max(gap, other_gap) < SHARP
    assert same == pytest.approx(upper, rel=SHARP)


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_the_gap_asked_for_is_reached(polish, tol):
    for constraints, c in [(attention(8, 4, 16), None), labelled(40, 6, 6), labelled(300, 4, 4)]:
        assert solved(constraints, c, tol=tol, polish=polish)[2] <= (SHARP if polish else tol)


def test_many_constraints_have_the_steps_of_the_dense_system():
    """`N > 2 d1 d2` takes Woodbury's way."""
    rng = np.random.default_rng(0)
    constraints, c = labelled(40, 3, 2)
    d1, d2 = constraints.shape
    X, T = (root @ root.T + np.eye(d1 + d2) for root in rng.normal(size=(2, d1 + d2, d1 + d2)))
    blocks = X[:d1, :d1], X[:d1, d1:], X[d1:, d1:], T[:d1, d1:], T[:d1, :d1], T[d1:, d1:]
    ratio = 10.0 ** rng.uniform(-9, 3, size=40)
    H = schur_matrix(constraints, *blocks)
    H = np.tril(H) + np.tril(H, -1).T + np.diag(ratio)
    r, lam = rng.normal(size=40), rng.uniform(size=40)
    for e in (None, c):
        solve = schur_solver(constraints, blocks, ratio, e)
        assert solve is not None
        x = solve(r, lam)
        missed = r - H @ x
        if e is not None:
            missed -= e * (e @ missed) / 40  # the intercept's share
            assert abs(e @ (lam + x)) < 1e-12 * np.abs(x).sum()
        # Backward stable: relative to the terms of each sum.
        assert np.abs(missed).max() < 1e-10 * (np.abs(H) @ np.abs(x)).max()


def test_schur_matrices_of_factors_and_of_matrices_are_the_map_written_out():
    rng = np.random.default_rng(0)
    constraints = Factors(rng.normal(size=(7, 3)), rng.normal(size=(7, 4)))
    P, Xi = (a @ a.T for a in rng.normal(size=(2, 3, 3)))
    Q, Yi = (a @ a.T for a in rng.normal(size=(2, 4, 4)))
    W, S = rng.normal(size=(2, 3, 4))
    A = dense(constraints).matrices
    image = Xi @ A @ Q + P @ A @ Yi + W @ A.transpose(0, 2, 1) @ S + S @ A.transpose(0, 2, 1) @ W
    expected = np.tril(np.einsum("kij,lij->kl", A, image) / 2)
    for data in (constraints, Matrices(A)):
        # Sums of a hundred products of numbers near one.
        np.testing.assert_allclose(np.tril(schur_matrix(data, P, W, Q, S, Xi, Yi)), expected, atol=1e-11)


HARD = {
    "rows of different size": lambda rng, A: A * 10 ** rng.uniform(-4, 4, size=(len(A), 1, 1)),
    "one row 1e10 times larger": lambda rng, A: A * np.where(np.arange(len(A)) == 3, 1e10, 1.0)[:, None, None],
    "columns of different size": lambda rng, A: A * 10 ** rng.uniform(-3, 3, size=A.shape[2]),
    "every row twice": lambda rng, A: np.concatenate([A, A]),
    "near-duplicates": lambda rng, A: np.concatenate([A, A + 1e-9 * rng.normal(size=A.shape)]),
    "less near duplicates": lambda rng, A: np.concatenate([A, A + 1e-7 * rng.normal(size=A.shape)]),
    "opposite columns": lambda rng, A: np.concatenate([A, -A], axis=2),
    "a column of zeros": lambda rng, A: np.concatenate([A, np.zeros_like(A[:, :, :1])], axis=2),
}


@pytest.mark.parametrize("change", HARD)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_hard_data_are_solved(change, intercept, seed):
    constraints, y = labelled(40, 6, 5, seed, offset=0.5 * intercept)
    A = HARD[change](np.random.default_rng(seed), constraints.matrices)
    c = np.resize(y, len(A)) if intercept else None
    # Data of different size leave the rounding of the small among the large: the gap asked for, and as a rule far less.
    assert solved(Matrices(A), c)[2] <= 1e-8


@pytest.mark.parametrize("change", ["rows of different size", "columns of different size", "near-duplicates"])
def test_hard_factors_are_solved(change):
    rng = np.random.default_rng(0)
    constraints = attention(16, 4, 32)
    D, Z = constraints.left, constraints.right
    if change == "rows of different size":
        D = D * 10 ** rng.uniform(-4, 4, size=(len(D), 1))
    elif change == "columns of different size":
        D, Z = D * 10 ** rng.uniform(-3, 3, size=32), Z * 10 ** rng.uniform(-3, 3, size=32)
    else:
        D, Z = np.vstack([D, D + 1e-9 * rng.normal(size=D.shape)]), np.vstack([Z, Z])
    assert solved(Factors(D, Z))[2] < SHARP


@pytest.mark.parametrize("away", [1e-3, 1e-6])
def test_near_contradictions_are_solved_to_their_rounding(away):
    """A row and nearly its opposite: the margin is of the size of what they differ by."""
    constraints, _ = labelled(40, 6, 6, offset=0.0)
    A = constraints.matrices
    A = np.concatenate([A, -A[:1] + away * np.random.default_rng(1).normal(size=(1, 6, 6))])
    _, upper, gap = solved(Matrices(A))
    assert upper < 10 * away
    # Multipliers of the size of 1 / margin combine to one: their rounding is 1e-16 / margin, times what amplifies it.
    assert gap < max(1e-8, 1e3 * 1e-16 * constraints.euclidean_sizes.max() / upper)


@pytest.mark.parametrize("away", [1e-2, 1e-4, 1e-6])
def test_long_hulls_that_nearly_touch_are_told_apart(away):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    x = rng.uniform(-1, 1, size=(40, 4, 4))
    x[:, 0, 0] = y * away * rng.uniform(0.5, 1, size=40)
    lower, _, gap = solved(Matrices(x * y[:, None, None]), y)
    assert lower > 0.5 * away
    assert gap <= 1e-8


CONTRADICTIONS = {
    "normal": lambda A, y: (np.random.default_rng(0).normal(size=(60, 3, 4)), np.where(np.arange(60) % 2, 1.0, -1.0)),
    "a row and its opposite": lambda A, y: (np.concatenate([A, -A[:1]]), np.append(y, -y[0])),
    "all rows and their opposites": lambda A, y: (np.concatenate([A, -A]), np.concatenate([y, -y])),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
@pytest.mark.parametrize("intercept", [False, True])
def test_contradictions_end_in_weights_that_combine_to_nothing(case, intercept):
    constraints, y = labelled(20, 3, 4)
    A, c = CONTRADICTIONS[case](constraints.matrices, y)
    lower, upper, _ = solved(Matrices(A), c if intercept else None)
    size = Matrices(A).euclidean_sizes.max()
    # No margin beyond the rounding of a product, and the rounding of a combination of weights of sum one.
    assert lower < 1e-15 * size
    assert upper < 1e-11 * size


@pytest.mark.parametrize("n", [1, 2, 5])
def test_unit_matrices_have_known_margins(n):
    """`<e_k e_k^T, W> >= 1` for all `k`: `W = I`, the margin is `1 / n`; with signs, any balance has the same value."""
    constraints = Factors(np.eye(n), np.eye(n))
    _, upper, gap = solved(constraints)
    assert upper == pytest.approx(1 / n, rel=1e-14)
    assert abs(gap) < 1e-14


def test_one_pair_with_an_intercept_has_the_margin_of_half_its_difference():
    """`<A, W> + b >= 1` and `<B, W> - b >= 1`: the weights are halves."""
    A = np.random.default_rng(0).normal(size=(2, 3, 4))
    _, upper, gap = solved(Matrices(A), np.array([1.0, -1.0]))
    assert upper == pytest.approx(np.linalg.norm(A.sum(0), 2) / 2, rel=1e-13)
    assert abs(gap) < SHARP


def test_many_constraints_in_few_dimensions_and_few_in_many():
    for N, d in ((2000, 4), (30, 40)):
        constraints, c = labelled(N, d, d)
        assert solved(constraints, c)[2] < SHARP


@pytest.mark.parametrize("factor", [1e-160, 1e-300])
def test_squares_below_the_range_of_the_numbers_do_no_harm(factor):
    constraints = attention(5, 4, 6)
    tiny = Factors(np.vstack([constraints.left, factor * constraints.left[:1]]), constraints.right[[*range(15), 0]])
    p = least_nuclear(tiny, None, tol=1e-8)[0][0].multipliers
    # The tiny constraint has all the weight: the others cost nothing beside it.
    assert p[-1] == pytest.approx(1, abs=1e-14)


def test_near_duplicates_of_one_side_only_are_merged():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 3, 4))
    A /= np.linalg.norm(A, axis=(1, 2), keepdims=True)
    A = Matrices(np.concatenate([A, A + 1e-10 * rng.normal(size=A.shape)]))
    b = np.concatenate([np.full(6, 0.5), np.full(6, 0.6)])
    kept, member_of = near_duplicates(A, b)
    assert sorted(kept) == [*range(6, 12)]
    np.testing.assert_array_equal(kept[member_of], [*range(6, 12)] * 2)
    # With an intercept neither a larger `b` nor the other sign implies a constraint.
    c = np.where(np.arange(12) < 6, 1.0, -1.0)
    assert len(near_duplicates(A, b, c)[0]) == 12
    assert len(near_duplicates(A, np.full(12, 0.5), c)[0]) == 12
    assert len(near_duplicates(A, np.full(12, 0.5), np.ones(12))[0]) == 6


def test_spans_keep_every_constraint():
    rng = np.random.default_rng(0)
    A = np.einsum("ir,krs,sj->kij", rng.normal(size=(9, 3)), rng.normal(size=(50, 3, 2)), rng.normal(size=(2, 7)))
    small, back = in_spans(Matrices(A))
    W = rng.normal(size=(3, 2))
    assert small.shape == (3, 2)
    # Orthonormal bases: sums of products of numbers near one.
    np.testing.assert_allclose(small.margins(W), Matrices(A).margins(back(W)), atol=1e-12)
    assert np.linalg.norm(back(W), "nuc") == pytest.approx(np.linalg.norm(W, "nuc"), rel=1e-13)
    assert row_span(rng.normal(size=(50, 4))) is None
