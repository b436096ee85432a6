"""Schatten and spectral norms: bounds recomputed from the data, and independent solvers on small problems."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import nnls

from omegalimit.limits.constraints import Factors, Matrices
from omegalimit.limits.norms import Schatten
from omegalimit.solvers._candidate import balanced
from omegalimit.solvers._spectral_curves import Barrier, Power
from omegalimit.solvers._spectral_metric import Metric
from omegalimit.solvers._spectral_path import Problem, path
from omegalimit.solvers._spectral_system import newton_system
from omegalimit.solvers.schatten import least_schatten
from omegalimit.solvers.spectral import least_spectral

POWERS = (1.01, 1.2, 1.5, 2.0, 3.0, 6.0, 50.0, np.inf)
# Clarabel's default stopping tolerance is 1e-8, relative; a factor of 100 is left for how it enters the margin.
BY_CLARABEL = 1e-6


def solve(constraints, c, p, *, tol=1e-9, polish=True):
    """The best candidate and its two bounds, from the norms alone."""
    if p == np.inf:
        found, _ = least_spectral(constraints, c, tol=tol, polish=polish)
    else:
        found, _ = least_schatten(constraints, c, p=p, tol=tol, polish=polish)
    return found[0], *bounds(constraints, c, found[0], p)


def bounds(constraints, c, candidate, p):
    norm = Schatten(p)
    margins = constraints.margins(candidate.point) + (0 if c is None else c * candidate.intercept)
    q = balanced(candidate.multipliers, c)
    return margins.min() / norm.of(candidate.point), norm.dual(constraints.combine(q))


def optimum(objective, above) -> float:
    """The least value by CVXPY and Clarabel."""
    return float(cp.Problem(cp.Minimize(objective), above).solve(solver=cp.CLARABEL))  # pyright: ignore


def attention(d, *, seed=0):
    """Factors as of softmax attention: three differences of tokens to each query."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(d // 2, 4, d)), rng.normal(size=(d // 2, d))
    return Factors((x[:, :1] - x[:, 1:]).reshape(-1, d) / np.sqrt(d), np.repeat(z, 3, 0) / np.sqrt(d))


def separated(n, shape, *, rank=1, seed=0):
    """Gaussian matrices on the positive side of a matrix of the given rank."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    A = rng.normal(size=(n, *shape))
    return Matrices(A * np.sign(np.tensordot(A, W))[:, None, None])


def labelled(n, shape, *, seed=0):
    """Gaussian matrices on both sides of an affine hyperplane, times their signs, and the signs."""
    rng = np.random.default_rng(seed)
    W, A = rng.normal(size=shape), rng.normal(size=(n, *shape))
    c = np.sign(np.tensordot(A, W) + 1.0)
    return Matrices(A * c[:, None, None]), c


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("d", [8, 32, 64])
def test_polished_to_rounding(d, p):
    _, lower, upper = solve(attention(d), None, p)
    # Rounding of margins and norms of up to 64 terms, relative to margins above 1/20 of the constraints.
    assert abs(upper - lower) <= 1e-12 * upper


@pytest.mark.parametrize("p", POWERS)
def test_unpolished_ends_at_the_gap_asked_for(p):
    _, lower, upper = solve(attention(32), None, p, tol=1e-4, polish=False)
    assert upper - lower <= 1e-4 * upper


def test_frobenius_is_the_point_of_least_norm():
    A = attention(16)
    flat = np.einsum("ki,kj->kij", A.left, A.right).reshape(A.n_constraints, -1)
    p = nnls(np.vstack([flat.T, np.ones(len(flat))]), np.append(np.zeros(flat.shape[1]), 1.0))[0]
    _, lower, upper = solve(A, None, 2.0)
    # nnls ends at its own rounding, a few digits above ours.
    np.testing.assert_allclose([lower, upper], np.linalg.norm(flat.T @ (p / p.sum())), rtol=1e-11)


@pytest.mark.parametrize("with_intercept", [False, True])
@pytest.mark.parametrize(("n", "shape"), [(7, (5, 4)), (30, (3, 4))])
def test_spectral_agrees_with_a_semidefinite_solver(n, shape, with_intercept):
    A, c = labelled(n, shape) if with_intercept else (separated(n, shape), None)
    W, b = cp.Variable(shape), cp.Variable()
    scores = A.flat @ cp.vec(W, order="C") + (0 if c is None else c * b)
    size = optimum(cp.sigma_max(W), [scores >= 1])
    _, lower, upper = solve(A, c, np.inf)
    np.testing.assert_allclose([lower, upper], 1 / size, rtol=BY_CLARABEL)


def test_schatten_4_agrees_with_a_semidefinite_solver():
    """`|W|_4^2 = min |X|_F` over `[[X, W], [W^T, I]] >= 0`."""
    A, c = labelled(12, (4, 3))
    W, X, b = cp.Variable((4, 3)), cp.Variable((4, 4), symmetric=True), cp.Variable()
    above = [cp.bmat([[X, W], [W.T, np.eye(3)]]) >> 0, A.flat @ cp.vec(W, order="C") + c * b >= 1]
    squared = optimum(cp.norm(X, "fro"), above)
    _, lower, upper = solve(A, c, 4.0)
    np.testing.assert_allclose([lower, upper], 1 / np.sqrt(squared), rtol=BY_CLARABEL)


@pytest.mark.parametrize("p", [1.25, 1.5, 3.0, 8.0, np.inf])
def test_diagonal_matrices_are_the_vector_problem(p):
    rows = np.random.default_rng(3).normal(size=(6, 7)) + 0.5
    w = cp.Variable(7)
    size = optimum(cp.norm(w, p), [rows @ w >= 1])
    A = Matrices(rows[:, :, None] * np.eye(7))
    best, lower, upper = solve(A, None, p)
    np.testing.assert_allclose([lower, upper], 1 / size, rtol=BY_CLARABEL)
    if p < np.inf:  # the optimum is unique, hence diagonal; to the root of the rounding of the gap
        assert np.abs(best.point - np.diag(np.diag(best.point))).max() <= 1e-6 * np.abs(best.point).max()


def test_margins_grow_with_the_power_as_the_norms_allow():
    A, powers = attention(16), (1.001, 1.5, 2.0, 4.0, 100.0, 1000.0, np.inf)
    found = [solve(A, None, p)[1:] for p in powers]
    for (p, (lower, upper)), (q, (higher, highest)) in zip(
        zip(powers, found, strict=True), list(zip(powers, found, strict=True))[1:], strict=False
    ):
        assert highest >= lower
        assert higher <= upper * 8 ** (1 / p - 1 / q)  # matrices of rank 8 at most


def test_the_wrong_norm_is_not_certified():
    A = attention(16)
    best = solve(A, None, 1.2)[0]
    lower, upper = bounds(A, None, best, 3.0)
    assert upper - lower > 1e-2 * upper


@pytest.mark.parametrize("p", POWERS)
def test_many_constraints_on_few_entries(p):
    for A, c in [(separated(300, (6, 5)), None), labelled(200, (4, 5))]:
        _, lower, upper = solve(A, c, p, polish=False)
        assert upper - lower <= 1e-9 * upper


@pytest.mark.parametrize("p", [20.0, 100.0, 500.0])
def test_large_powers_of_few_entries(p):
    """Their gradients are steps up to rounding: the powers that a path of their own often loses."""
    for seed, shape in enumerate([(2, 2), (4, 2), (3, 8), (7, 5), (8, 8)]):
        A = separated(20 + 10 * seed, shape, rank=2, seed=seed)
        _, lower, upper = solve(A, None, p, polish=False)
        assert upper - lower <= 1e-9 * upper


# A path lost early for powers near 1; and the spectral norm's, which stick near the end, where `W` has equal singular
# values and the combination a singular value of zero or a small one.
LOST = [[[2, -2], [-2, 2]], [[-1, 2], [-1, 2]], [[0, -2], [2, -2]], [[0, -1], [2, -1]], [[0, -2], [0, -2]]]
STICKING = [
    [[[1, 0], [0, 1e-4]]],
    [[[1, 0], [0, 3e-4]]],
    [[[1, 0], [0, 3e-5]]],
    [[[0, 2], [1, -1]], [[2, 1], [0, 1]], [[-1, -2], [1, -2]]],
    [[[-1, 1], [-2, 0]], [[-2, -2], [0, 0]], [[0, -2], [-2, -2]], [[1, -2], [2, -1]]],
]


@pytest.mark.parametrize(
    ("p", "rows"), [(1.05, LOST), (1.1, LOST), (1.15, LOST), *((np.inf, rows) for rows in STICKING)]
)
@pytest.mark.parametrize("polish", [False, True])
def test_a_path_that_stops_short_is_followed_again_slowly(p, rows, polish):
    _, lower, upper = solve(Matrices(np.array(rows, dtype=float)), None, p, polish=polish)
    assert upper - lower <= 1e-9 * upper  # the gap asked for


def test_a_slow_path_reaches_the_gap_by_itself():
    A = np.array(STICKING[-1], dtype=float)
    sizes = np.linalg.norm(A, axis=(1, 2))
    problem = Problem(Matrices(A / sizes[:, None, None]), sizes.min() / sizes, None)
    slow, _ = path(problem, Barrier(0.0), tol=1e-9, polish=False, uneven=300.0, slow=True)
    assert slow.gap <= 1e-9


@pytest.mark.parametrize("p", POWERS)
def test_duplicates_and_near_duplicates(p):
    A, rng = attention(16), np.random.default_rng(0)
    _, lower, _ = solve(A, None, p)
    for noise in (0.0, 1e-9, 1e-7):
        again = A.left * (1 + noise * rng.normal(size=A.left.shape))
        twice = Factors(np.vstack([A.left, again]), np.vstack([A.right, A.right]))
        _, low, high = solve(twice, None, p)
        assert high - low <= 1e-9 * high
        # The constraints move by the noise times sqrt(2) times a few units, the margin by at most as much.
        assert abs(low - lower) <= 1e-9 * lower + 20 * noise


@pytest.mark.parametrize("p", POWERS)
def test_constraints_and_columns_of_very_different_size(p):
    A, rng = attention(16), np.random.default_rng(1)
    cases = [
        Factors(A.left * 10 ** rng.uniform(-4, 4, size=(24, 1)), A.right),
        Factors(A.left * 10 ** rng.uniform(-3, 3, size=16), A.right),
    ]
    for scaled in cases:
        scaled = Factors(scaled.left / np.abs(scaled.left).max(), scaled.right)
        _, lower, upper = solve(scaled, None, p)
        # Margins down to 1e-8 of the largest constraint: rounding of 1e-16 is 1e-8 of them.
        assert abs(upper - lower) <= 1e-7 * upper


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("margin", [1e-3, 1e-6, 1e-9])
def test_barely_separable(p, margin):
    rng = np.random.default_rng(2)
    u, v, w = rng.normal(size=(3, 6, 5))
    u /= np.linalg.norm(u)
    A = Matrices(np.stack([u, -u + margin * v, u + margin * w]))
    _, lower, upper = solve(A, None, p)
    # The floor: rounding relative to the margin, with a factor for the sums of 30 terms.
    assert abs(upper - lower) <= (1e-9 + 1e-15 / margin) * upper


@pytest.mark.parametrize("p", POWERS)
def test_not_separable_is_proved_by_the_multipliers(p):
    A = attention(16)
    negated = Factors(np.vstack([A.left, -A.left[:1]]), np.vstack([A.right, A.right[:1]]))
    c = np.where(np.arange(60) % 2, 1.0, -1.0)
    noise = Matrices(np.random.default_rng(4).normal(size=(60, 4, 3)))
    opposite = Matrices(np.stack([noise.matrices[0], -noise.matrices[0]]))
    for constraints, signs in [(negated, None), (noise, None), (noise, c), (opposite, None), (opposite, c[:2])]:
        _, lower, upper = solve(constraints, signs, p)
        assert lower <= 0
        assert upper <= 1e-13 * constraints.euclidean_sizes.max()  # rounding of the sum that vanishes


@pytest.mark.parametrize("p", POWERS)
def test_two_points_with_an_intercept(p):
    """The weights are a half each, so that the margin is the dual norm of half the difference of the points."""
    X = np.random.default_rng(5).normal(size=(2, 5, 4))
    for gap in (1.0, 1e-6):
        A = Matrices(np.stack([X[0], -X[0] + gap * X[1]]))
        _, lower, upper = solve(A, np.array([1.0, -1.0]), p)
        np.testing.assert_allclose([lower, upper], Schatten(p).dual(A.combine(np.full(2, 0.5))), rtol=1e-9)


@pytest.mark.parametrize("p", POWERS)
def test_the_smallest_problems(p):
    rng = np.random.default_rng(6)
    D, Z = rng.normal(size=(2, 4)), rng.normal(size=(2, 3))
    _, lower, upper = solve(Factors(D[:1], Z[:1]), None, p)
    np.testing.assert_allclose([lower, upper], np.linalg.norm(D[0]) * np.linalg.norm(Z[0]), rtol=1e-14)
    _, lower, upper = solve(Factors(np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [0.5], [2.0]])), None, p)
    np.testing.assert_allclose([lower, upper], 1.0, rtol=1e-14)
    _, lower, upper = solve(Factors(D, Z), None, p)
    assert abs(upper - lower) <= 1e-9 * upper
    # Diagonal units: by symmetry W is the identity and p uniform.
    _, lower, upper = solve(Factors(np.eye(5), np.eye(5)), None, p)
    np.testing.assert_allclose([lower, upper], 5.0 ** (-1 / p), rtol=1e-14)


@pytest.mark.parametrize("p", [1.3, 5.0, np.inf])
def test_turned_and_multiplied_out(p):
    A = attention(16)
    turned = Factors(A.right, A.left)
    full = Matrices(np.einsum("ki,kj->kij", A.left, A.right) + 1e-12)  # no longer rank one: another way through
    np.testing.assert_allclose(solve(turned, None, p)[1], solve(A, None, p)[1], rtol=1e-12)
    np.testing.assert_allclose(solve(full, None, p)[1], solve(A, None, p)[1], rtol=1e-9)


def test_antisymmetric_constraints_have_singular_combinations():
    S = np.random.default_rng(7).normal(size=(4, 5, 5))
    for p in POWERS:
        _, lower, upper = solve(Matrices(S - S.transpose(0, 2, 1)), None, p)
        assert abs(upper - lower) <= 1e-9 * upper


@pytest.mark.parametrize("curve", [Power(1.3), Power(2.0), Power(7.0), Barrier(0.02)])
def test_points_of_a_curve(curve):
    """`sigma + eta g = z`, the length of `g`, and the metric as the derivative of `W` by its gradient."""
    rng = np.random.default_rng(8)
    u, z, vt = np.linalg.svd(rng.normal(size=(5, 4)))
    for eta in (1e-3, 1.0, 1e3):
        pair = curve.at(z, eta)
        np.testing.assert_allclose(pair.sigma + eta * pair.g, z, rtol=1e-12)
        if isinstance(curve, Power):
            np.testing.assert_allclose(curve.dual(pair.g), curve.norm(pair.sigma), rtol=1e-12)
        else:
            t = pair.t
            np.testing.assert_allclose((2 * curve.mu / (t**2 - pair.sigma**2)).sum(), 1, rtol=1e-9)
            np.testing.assert_allclose(pair.g, 2 * curve.mu * pair.sigma / (t**2 - pair.sigma**2), rtol=1e-9)

    pair, step = curve.at(z, 1.0), 1e-5
    Z = (u[:, :4] * z) @ vt
    R = rng.normal(size=Z.shape)

    def moved(by):
        a, s, b = np.linalg.svd(Z + by * R)
        new = curve.at(s, 1.0)
        return (a[:, :4] * new.sigma) @ b, (a[:, :4] * new.g) @ b

    (W1, G1), (W0, G0) = moved(step), moved(-step)
    metric = Metric(u, vt.T, pair.weights())
    # Central differences: step^2 of truncation, 1e-16 / step of rounding, relative to slopes of order one.
    expected = (W1 - W0) / (2 * step)
    np.testing.assert_allclose(
        metric.push(metric.pull(G1 - G0)) / (2 * step), expected, atol=1e-7 * np.abs(expected).max()
    )


@pytest.mark.parametrize("multiplied_out", [False, True])
@pytest.mark.parametrize("n", [6, 40])
def test_both_ways_through_the_linear_system(n, multiplied_out):
    rng = np.random.default_rng(9)
    D, Z = rng.normal(size=(n, 5)), rng.normal(size=(n, 4))
    A = Matrices(np.einsum("ki,kj->kij", D, Z)) if multiplied_out else Factors(D, Z)
    u, z, vt = np.linalg.svd(rng.normal(size=(5, 4)))
    metric = Metric(u, vt.T, Power(3.0).at(z, 1.0).weights())
    diagonal, E = rng.uniform(1, 2, size=n), rng.normal(size=(n, 2))
    pulled, rest, off = rng.normal(size=(5, 4)), rng.normal(size=n), rng.normal(size=2)
    for careful in (False, True):
        solve = newton_system(metric, A, diagonal, E, careful=careful)
        assert solve is not None
        x, moved, y = solve(pulled, rest, off)
        # Well conditioned: everything to rounding, with a few digits for sums.
        np.testing.assert_allclose(A.margins(metric.push(moved)) + diagonal * x + E @ y, rest, atol=1e-11)
        np.testing.assert_allclose(metric.pull(A.combine(x)) - pulled, moved, atol=1e-11)
        np.testing.assert_allclose(E.T @ x, off, atol=1e-11)


def test_the_path_stops_when_the_combination_vanishes():
    A = Matrices(np.random.default_rng(10).normal(size=(60, 4, 3)))
    sizes = A.euclidean_sizes
    problem = Problem(Matrices(A.matrices / sizes[:, None, None]), sizes.min() / sizes, None)
    best, n = path(problem, Power(3.0), tol=1e-9, polish=True, uneven=30.0)
    assert best.vanished
    assert n < 40
