"""The zero-temperature limit: cone programs, dense grids, its certificate, counts of directions, wrong candidates."""

import itertools
import re

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.limits._relu_reach import Reach
from omegalimit.limits.arrangement import Arrangement, cover_count
from omegalimit.limits.convex_relu import ConvexReluNet
from omegalimit.solvers import solve
from omegalimit.solvers.convex_relu import _status, convex_relu

# |R| / lam on a learned direction: a sum of some ten terms of about that size, each rounded once or twice.
ALIGNED = 1e-12


def normal(n, d, m=None, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(n if m is None else (n, m))


def augmented(X):
    return np.column_stack([X, np.ones(len(X))])


def objective(X, y, lam, directions, masses):
    """From its definition."""
    f = np.maximum(augmented(X) @ directions.T, 0) @ masses
    return ((f - y) ** 2).sum() / (2 * len(X)) + lam * np.linalg.norm(masses.reshape(len(masses), -1), axis=1).sum()


def sphere(D, n, seed=1):
    u = np.random.default_rng(seed).standard_normal((n, D))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def R(X, residual, u):
    """`|R(u)|` from its definition."""
    outputs = np.maximum(u @ augmented(X).T, 0) @ residual.reshape(len(X), -1) / len(X)
    return np.linalg.norm(outputs, axis=1)


def check(limit, solution, *, tol=1e-12):
    """Optimal, of the counts that scalar outputs have; what the certificate says agrees with the definition."""
    c = solution.certificate
    assert solution.status == "optimal"
    assert 0 <= c.gap <= tol
    assert c.upper - c.lower == pytest.approx(c.difference, abs=2 * c.slack + 1e-300)
    assert c.n_directions <= c.bound
    np.testing.assert_allclose(np.linalg.norm(c.directions, axis=1), 1, rtol=1e-15, atol=0)
    if limit.y.ndim == 1:
        assert c.distinct_patterns
        closed = (c.patterns[:, None] * c.patterns[None] >= 0).all(axis=2) & (c.masses[:, None] * c.masses > 0)
        assert closed.sum() == c.n_directions  # each pair of one sign is in no closed cell together
    return c


def test_the_numbers_of_five_normal_inputs():
    X, y = normal(5, 2)
    limit = ConvexReluNet(X, y, lam=0.05)
    c = check(limit, convex_relu(limit))
    assert (c.n_dichotomies, c.bound) == (22, 43)
    assert c.n_dichotomies == cover_count(5, 3)
    assert c.n_directions == 2
    assert c.unique is True
    assert np.abs(R(X, c.residual, c.directions) / 0.05 - 1).max() < ALIGNED
    assert np.abs(c.alignment - 1).max() < ALIGNED
    assert R(X, c.residual, sphere(3, 20_000)).max() <= 0.05 * (1 + ALIGNED)
    assert c.upper == pytest.approx(objective(X, y, 0.05, c.directions, c.masses), rel=1e-14)
    # r = f - y, and the fitted values are the predictor's, at any input.
    np.testing.assert_allclose(c.residual, c.fitted - y, atol=1e-13)
    np.testing.assert_allclose(c.predict(X), c.fitted, atol=1e-14)
    # The signs are those of the directions wherever these are not zero to rounding; zeros are where they are.
    products = augmented(X) @ c.directions.T
    assert ((np.abs(products.T) < 1e-14) == (c.patterns == 0)).all()
    assert (np.sign(products.T) * c.patterns >= 0).all()
    assert (c.patterns == 0).any()


def cone_program(X, y, lam):
    """One cone for each sign of each dichotomy, found by drawing directions, as many as Cover counts."""
    cp = pytest.importorskip("cvxpy")
    rows = augmented(X)
    n, D = rows.shape
    signs = np.unique(np.sign(sphere(D, 50_000) @ rows.T), axis=0)
    assert len(signs) == cover_count(n, D)
    f, cost, cones, weights = 0, 0, [], []
    for pattern in signs:
        for sign in (1, -1):
            p = cp.Variable(D)
            f = f + sign * np.where(pattern > 0, 1.0, 0.0)[:, None] * rows @ p
            cost = cost + cp.norm(p)
            cones.append((pattern[:, None] * rows) @ p >= 0)
            weights.append(p)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(f - y) / (2 * n) + lam * cost), cones)
    value = problem.solve(solver="CLARABEL")
    return value, np.array([p.value for p in weights])


@pytest.mark.parametrize(("n", "d", "lam", "seed"), [(5, 2, 0.05, 0), (8, 1, 0.02, 1), (6, 1, 0.01, 2), (4, 3, 0.1, 3)])
def test_the_cone_program_of_all_dichotomies(n, d, lam, seed):
    X, y = normal(n, d, seed=seed)
    limit = ConvexReluNet(X, y, lam=lam)
    c = check(limit, convex_relu(limit))
    value, weights = cone_program(X, y, lam)
    # Its tolerances are 1e-8.
    assert value == pytest.approx(c.upper, rel=1e-7)
    assert c.unique is True
    size = np.linalg.norm(weights, axis=1)
    large = np.flatnonzero(size > 1e-3 * size.max())
    near = np.abs((weights[large] / size[large, None])[:, None] - c.directions[None]).max(axis=2).min(axis=1)
    assert near.max() < 1e-3  # a gap of 1e-8 leaves directions open by some multiple of its root


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_vector_outputs_against_a_dense_grid(m, seed):
    cp = pytest.importorskip("cvxpy")
    X, y = normal(6, 1, m, seed=seed)
    limit = ConvexReluNet(X, y, lam=0.05)
    c = check(limit, convex_relu(limit))
    n = 720
    t = 2 * np.pi * np.arange(n) / n
    grid = np.column_stack([np.cos(t), np.sin(t)])
    masses = cp.Variable((n, m))
    fit = cp.sum_squares(np.maximum(augmented(X) @ grid.T, 0) @ masses - y) / 12
    value = cp.Problem(cp.Minimize(fit + 0.05 * cp.sum(cp.norm(masses, axis=1)))).solve(solver="CLARABEL")
    # Never below; above by the cost of two neighbours for one direction, of order h^2 for inner maxima, h at kinks.
    assert c.lower <= value * (1 + 1e-7)
    assert value <= c.upper * (1 + np.pi / n)
    assert R(X, c.residual, grid).max() <= 0.05 * (1 + ALIGNED)


@pytest.mark.parametrize(
    ("n", "d", "m"), [(7, 1, None), (6, 2, None), (6, 3, None), (5, 5, None), (6, 1, 2), (5, 2, 3)]
)
def test_the_largest_value_on_the_sphere(n, d, m):
    X, r = normal(n, d, m, seed=4)
    limit = ConvexReluNet(X, np.zeros_like(r), lam=1.0)
    found = limit.largest(r)
    u = np.concatenate([sphere(d + 1, 50_000), found.directions])
    values = R(X, r, u)
    assert values.max() <= found.value * (1 + ALIGNED)
    np.testing.assert_allclose(R(X, r, found.directions), found.values, rtol=1e-12, atol=1e-14)
    assert found.values[0] == pytest.approx(found.value, rel=1e-14)
    # A climb from many starts ends at no other value than the list has, near the top.
    starts = u[np.argsort(-values)[:20]]
    tops = np.array([climbed(X, r, start) for start in starts])
    assert tops.max() == pytest.approx(found.value, rel=1e-9)
    few = limit.largest(r, share=0.9)
    assert len(few.values) == (found.values >= 0.9 * found.value).sum()
    assert few.value == pytest.approx(found.value, rel=1e-14)


def climbed(X, r, u):
    """The value after steps of random size that rise."""
    rng = np.random.default_rng(0)
    value = R(X, r, u[None])[0]
    for k in range(60):
        moves = u + 0.5**k * rng.standard_normal((200, len(u)))
        moves /= np.linalg.norm(moves, axis=1, keepdims=True)
        values = R(X, r, moves)
        if values.max() > value:
            u, value = moves[np.argmax(values)], values.max()
    return value


def test_the_certificate_of_any_pair():
    """Bounds hold for what is not optimal; and each thing that is wrong shows."""
    X, y = normal(6, 1, seed=3)
    limit = ConvexReluNet(X, y, lam=0.04)
    best = check(limit, convex_relu(limit))
    rng = np.random.default_rng(0)
    for k in range(20):
        K = 1 + k % 4
        c = limit.certify(sphere(2, K, seed=k), rng.standard_normal(K), rng.standard_normal(6))
        assert c.lower <= best.upper + best.slack
        assert c.upper >= best.lower - best.slack
        assert c.upper - c.lower == pytest.approx(c.difference, abs=2 * c.slack)
        assert c.upper == pytest.approx(objective(X, y, 0.04, c.directions, c.masses), rel=1e-13)
        assert R(X, c.residual, sphere(2, 2000)).max() <= 0.04 * (1 + ALIGNED)
        assert c.unique is None
        assert c.uniqueness.startswith("not decided: the pair is too far from the optimum")
    # The residual of another lam, a direction moved, a mass changed: a gap far above rounding.
    other = convex_relu(ConvexReluNet(X, y, lam=0.05)).certificate
    u, masses = best.directions, best.masses
    assert limit.certify(u, masses, other.residual).gap > 1e-4
    turned = u @ np.array([[np.cos(0.01), -np.sin(0.01)], [np.sin(0.01), np.cos(0.01)]])
    assert limit.certify(turned, masses, best.residual).gap > 1e-6
    assert limit.certify(u, masses * 1.01, best.residual).gap > 1e-6
    # f - y is the residual where none is given; neurons need not have length one.
    assert limit.certify(3 * u, masses / 3, patterns=best.patterns).gap < 1e-12
    # A direction given twice is counted twice, and the patterns say so.
    twice = limit.certify(
        np.concatenate([u, u[:1]]), np.append(masses, 1e-9), patterns=best.patterns[[*range(len(u)), 0]]
    )
    assert twice.n_directions == len(u) + 1
    assert not twice.distinct_patterns
    assert best.distinct_patterns


def test_patterns_are_exact_and_not_taken_on_trust():
    X, y = normal(5, 2)
    limit = ConvexReluNet(X, y, lam=0.05)
    best = convex_relu(limit).certificate
    on_face = int(np.flatnonzero((best.patterns == 0).any(axis=1))[0])
    u = best.directions[[on_face]]
    # As it stands, the float vector lies beside the hyperplane, or on it by chance; with the claim, on it.
    claimed = limit.certify(u, [1.0], best.residual, patterns=best.patterns[[on_face]])
    np.testing.assert_array_equal(claimed.patterns[0], best.patterns[on_face])
    free = limit.certify(u + 1e-15, [1.0], best.residual)
    assert (free.patterns != 0).all()
    # A claim that is wrong moves the direction and does not come back as it was.
    wrong = -best.patterns[[on_face]]
    np.testing.assert_array_equal(limit.certify(u, [1.0], patterns=wrong).patterns[0], best.patterns[on_face])
    moved = limit.certify(np.array([[1.0, 2, 3]]), [1.0], patterns=np.array([[0, 1, 1, 1, 1]]))
    assert moved.patterns[0, 0] == 0
    assert abs(augmented(X)[0] @ moved.directions[0]) < 1e-15
    assert abs(moved.directions[0] @ np.array([1, 2, 3]) / np.sqrt(14)) < 1 - 1e-3


def test_from_lam_max_on_the_zero_measure():
    X, y = normal(7, 2, seed=5)
    top = ConvexReluNet(X, y, lam=1.0).lam_max
    assert top == pytest.approx(max(R(X, y, sphere(3, 200_000))), rel=1e-3)
    for factor in (1 + 1e-12, 3.0):
        c = convex_relu(ConvexReluNet(X, y, lam=factor * top)).certificate
        assert (c.n_directions, c.gap, c.unique) == (0, 0.0, True)
        assert c.upper == c.lower == pytest.approx((y**2).sum() / 14, rel=1e-14)
        np.testing.assert_array_equal(c.predict(X), 0)
    below = ConvexReluNet(X, y, lam=(1 - 1e-6) * top)
    c = check(below, convex_relu(below))
    assert c.n_directions == 1
    assert c.total_mass > 0
    zero = convex_relu(ConvexReluNet(X, 0 * y, lam=0.1)).certificate
    assert (zero.gap, zero.upper, zero.n_directions) == (0.0, 0.0, 0)


@pytest.mark.parametrize(("n", "d", "m"), [(10, 1, None), (8, 2, None), (8, 3, None), (6, 1, 2)])
def test_interpolation_as_lam_goes_to_zero(n, d, m):
    X, y = normal(n, d, m, seed=6)
    least = []
    for lam in (1e-6, 1e-8):
        limit = ConvexReluNet(X, y, lam=lam)
        # The dual point is known to 1e-16 of a residual whose products with the rows cancel to lam.
        c = check(limit, convex_relu(limit), tol=1e-11)
        assert np.abs(c.fitted - y).max() < 100 * lam * n
        least.append(c.total_mass)
    assert least[1] == pytest.approx(least[0], rel=1e-2)
    assert least[1] >= least[0]


DISTINCT = (
    [
        [-2, -1, 1, -1, 1],
        [-2, -2, 1, -1, 1],
        [-1, -2, -2, -1, -2],
        [1, -2, -1, 1, 0],
        [0, 2, 1, 0, -1],
        [-2, 2, 2, 1, 1],
    ],
    [0, 0, 1, 0, -1, -1],
)
REPEATED = (
    [[1, 1, 1], [1, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1]],
    [-1, 1, -1, 0, 1, 1],
)


def test_far_below_the_first_lam():
    """The directions hardly change any more: `F*/lam` tends to the least mass that interpolates, from below."""
    X, y = DISTINCT
    found = [convex_relu(ConvexReluNet(X, y, lam=lam)) for lam in (1e-6, 1e-8, 1e-12, 1e-15)]
    values = [
        check(ConvexReluNet(X, y, lam=1.0), one).upper / lam
        for one, lam in zip(found, (1e-6, 1e-8, 1e-12, 1e-15), strict=True)
    ]
    assert [one.certificate.n_directions for one in found] == [2, 2, 2, 2]
    assert sorted(values) == values
    # The distance is half of lam |nu|^2 / n, and |nu| about two.
    assert values[0] == pytest.approx(values[-1], rel=1e-5)
    c = found[-1].certificate
    np.testing.assert_allclose(c.predict(np.array(X, float)), y, atol=1e-12)


@pytest.mark.parametrize("lam", [1e-7, 2.7374392578249336e-10, 1e-12, 1e-20])
def test_targets_out_of_reach_of_every_network(lam):
    """Two inputs with targets -1 and 1 each cost 4 (1/12); the others are interpolated, with one direction."""
    X, y = REPEATED
    limit = ConvexReluNet(X, y, lam=lam)
    for solution in (convex_relu(limit), solve(limit)):
        c = check(limit, solution)
        assert c.n_directions == 1
        assert c.upper == pytest.approx(1 / 3 + lam * c.total_mass, rel=1e-12)
        assert c.total_mass == pytest.approx(1.58114, rel=1e-5)
        np.testing.assert_allclose(c.residual, c.fitted - y, atol=1e-12)
        assert objective(np.array(X, float), np.array(y), lam, c.directions, c.masses) == pytest.approx(
            c.upper, rel=1e-14
        )
    # Whatever residual is given: its part out of reach is that of the targets.
    noise = np.random.default_rng(0).standard_normal(6)
    given = limit.certify(c.directions, c.masses, noise, patterns=c.patterns)
    assert given.lower <= c.upper * (1 + 1e-14)
    assert given.upper == pytest.approx(c.upper, rel=1e-14)
    assert given.lower >= 1 / 3 - 1e-12


def test_contradictory_targets_of_two_outputs():
    rng = np.random.default_rng(11)
    X, y = rng.integers(0, 2, (12, 2)).astype(float), rng.integers(-1, 2, (12, 2)).astype(float)
    for lam in (1e-4, 1.7e-10):
        c = convex_relu(ConvexReluNet(X, y, lam=lam)).certificate
        assert c.gap < 1e-14
        means = np.array([y[(x == X).all(axis=1)].mean(axis=0) for x in X])
        fitted = ((c.fitted - means) ** 2).sum() / 24 + lam * c.total_mass
        assert c.upper == pytest.approx(((y - means) ** 2).sum() / 24 + fitted, rel=1e-14)
        # At the optimum of the means' problem its misfit is of second order: lam^2 |nu|^2 / 2n, with |nu| below 30.
        assert ((c.fitted - means) ** 2).sum() <= (30 * lam) ** 2


@pytest.mark.parametrize("seed", range(4))
def test_the_reach_is_the_span_of_features(seed):
    """Rows repeated, stretched, and of opposite senses whose normals are dependent, against many features."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((3 + seed % 2, 2))
    rows = np.concatenate([base, 4 * base[:2], -base, -0.5 * base[1:2], base[:1]])
    features = np.maximum(rows @ sphere(2, 4000, seed=seed).T, 0)
    U, S, _ = np.linalg.svd(features)
    rank = int((1e-10 * S[0] < S).sum())
    # Pairs of both senses: of as many linear functions two are independent; the rest are kinks, one a pair.
    assert rank == len(base) + 2 < len(rows)
    values = rng.standard_normal((len(rows), 2))
    part = Reach(Arrangement(rows)).part(values)
    np.testing.assert_allclose(part, U[:, :rank] @ (U[:, :rank].T @ values), atol=1e-12)
    limit = ConvexReluNet(rows, values[:, 0], lam=1e-9, bias=False)
    c = check(limit, convex_relu(limit))
    misfit = ((values - part)[:, 0] ** 2).sum() / (2 * len(rows))
    assert c.upper == pytest.approx(misfit + 1e-9 * c.total_mass, rel=1e-12)


def test_a_small_gap_beside_misfit_is_no_optimum():
    """Where the least objective is mostly misfit, directions that are not the optimum's have small gaps too."""
    limit = ConvexReluNet(*REPEATED, lam=1e-9)
    best = convex_relu(limit).certificate
    assert _status(limit, best, 1e-8)[0] == "optimal"
    twice = np.repeat(best.directions, 2, axis=0), np.repeat(best.masses / 2, 2)
    split = limit.certify(*twice, best.residual, patterns=np.repeat(best.patterns, 2, axis=0))
    assert split.gap < 1e-8
    status, reason = _status(limit, split, 1e-8)
    assert status == "stalled"
    assert reason.endswith(
        " with 2 directions, some of one sign in one closed cell: the objective is near its least value, the "
        "directions are not yet those of the optimum."
    )
    more = limit.certify(best.directions, best.masses * 1.0001, best.residual, patterns=best.patterns)
    assert more.gap < 1e-8
    status, reason = _status(limit, more, 1e-8)
    assert status == "stalled"
    assert re.fullmatch(
        r"the relative gap is 2\.5e-09 with 1 directions, and 5\.3e-01 of the masses' cost: the objective is near its "
        r"least value, the directions are not yet those of the optimum\.",
        reason,
    )


def test_rounding_is_no_optimum_and_the_advice():
    X, y = normal(5, 2)
    for lam in (1e-22, 1e-24):
        solution = solve(ConvexReluNet(X, y, lam=lam))
        c = solution.certificate
        assert c.gap <= 1e-8 < c.relative_slack
        assert solution.status == "stalled"
        assert solution.reason == (
            f"the relative gap is {c.gap:.1e} with 3 directions, but rounding alone moves it by "
            f"{c.relative_slack:.1e}. `lam` is {lam:.0e} of the least that leaves no direction: take a larger one."
        )
    near = solve(ConvexReluNet(1e-8 * X, y, lam=5e-10))
    assert near.status == "stalled"
    assert near.reason.endswith(
        ". The rows (x, 1) are parallel but for 4e-09: inputs close together, near zero or far from it. Shift and "
        "scale the columns of `X` to mean 0 and size 1; that is another problem, as weight decay takes in the bias."
    )
    apart = convex_relu(ConvexReluNet(X * [1e-8, 1], y, lam=1e-12, bias=False))
    assert apart.status == "stalled"
    assert apart.reason.endswith(" The inputs span their space only to 3e-08: scale the columns of `X` to one size.")


def test_candidates_of_extreme_lengths():
    """Lengths of directions belong to the masses, however large or small either is."""
    limit = ConvexReluNet(*normal(5, 2), lam=0.05)
    best = convex_relu(limit).certificate
    for length in (1e-200, 1e-300, 1e200, 2.0**1000):
        c = limit.certify(best.directions * length, best.masses / length, best.residual, patterns=best.patterns)
        assert c.gap < 1e-14
        np.testing.assert_allclose(c.masses, best.masses, rtol=1e-14)
    tiny = limit.certify(best.directions * 1e-200, best.masses, best.residual)
    np.testing.assert_allclose(tiny.masses, 1e-200 * best.masses, rtol=1e-14)
    large = limit.certify(best.directions, best.masses * 1e140, best.residual * 1e300)
    # The misfit is quadratic in masses so large; the residual is brought down to the same feasible one.
    assert large.upper == pytest.approx((1e140 * best.fitted) @ (1e140 * best.fitted) / 10, rel=1e-12)
    assert large.lower <= best.upper
    assert limit.certify(best.directions, best.masses, best.residual * 1e300).lower > 0


def test_units():
    X, y = normal(6, 2, seed=8)
    one = convex_relu(ConvexReluNet(X, y, lam=0.05)).certificate
    for factor in (2.0**400, 2.0**-400, 1e150, 3e-150):
        c = convex_relu(ConvexReluNet(X, factor * y, lam=factor * 0.05)).certificate
        np.testing.assert_array_equal(c.patterns, one.patterns)
        np.testing.assert_allclose(c.directions, one.directions, atol=1e-12)
        np.testing.assert_allclose(c.masses / factor, one.masses, rtol=1e-11)
        assert c.gap < 1e-14
        assert c.unique is True
    # Without a bias, inputs and lam times one factor change nothing but the masses.
    plain = convex_relu(ConvexReluNet(X, y, lam=0.05, bias=False)).certificate
    for factor in (2.0**300, 1e-150, 1e150):
        c = convex_relu(ConvexReluNet(factor * X, y, lam=factor * 0.05, bias=False)).certificate
        np.testing.assert_array_equal(c.patterns, plain.patterns)
        np.testing.assert_allclose(c.masses * factor, plain.masses, rtol=1e-11)
        assert c.upper == pytest.approx(plain.upper, rel=1e-13)
    # With one it is another problem.
    other = convex_relu(ConvexReluNet(10 * X, y, lam=0.5)).certificate
    assert abs(other.upper / one.upper - 1) > 1e-3


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 6, 9])
def test_random_problems(n, d):
    for seed, lam in itertools.product(range(2), (0.3, 0.02, 1e-3)):
        X, y = normal(n, d, seed=seed)
        limit = ConvexReluNet(X, y, lam=lam)
        c = check(limit, convex_relu(limit))
        assert np.abs(c.alignment - 1).max(initial=0) < ALIGNED
        assert c.n_directions <= n  # basic: no more than it takes
        if c.unique:
            active = limit.largest(c.residual, share=1 - 1e-9).directions
            features = np.maximum(augmented(X) @ active.T, 0)
            assert np.linalg.matrix_rank(features) == len(active) >= c.n_directions


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_integer_inputs_of_any_position(data):
    """Repeated, parallel and collinear rows; equal and different targets."""
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    entry = st.integers(-2, 2)
    X = np.array(data.draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=n, max_size=n)), float)
    m = data.draw(st.sampled_from([None, 2])) if d < 3 else None
    y = np.array(data.draw(st.lists(entry, min_size=n * (m or 1), max_size=n * (m or 1))), float)
    limit = ConvexReluNet(X, y if m is None else y.reshape(n, m), lam=data.draw(st.sampled_from([1.0, 0.1, 1e-3])))
    solution = convex_relu(limit)
    c = check(limit, solution) if m is None else solution.certificate
    assert c.gap < 1e-12
    assert np.abs(c.alignment - 1).max(initial=0) < 1e-10


def test_repeated_inputs_with_different_targets():
    X, y = np.array([[1.0], [1.0], [2.0], [2.0]]), np.array([1.0, -1.0, 3.0, 5.0])
    limit = ConvexReluNet(X, y, lam=0.01)
    c = check(limit, convex_relu(limit))
    # The mean of the targets is what counts, with its own weight.
    once = ConvexReluNet([[1.0], [2.0]], [0.0, 4.0], lam=0.01)
    np.testing.assert_allclose(c.fitted[[0, 2]], convex_relu(once).certificate.fitted, atol=1e-12)
    assert c.n_dichotomies == 4


def test_collinear_inputs_and_more_dimensions_than_inputs():
    rng = np.random.default_rng(2)
    line = np.outer(rng.standard_normal(6), [1.0, 2.0])
    limit = ConvexReluNet(line, rng.standard_normal(6), lam=0.02)
    c = check(limit, convex_relu(limit))
    assert c.n_dichotomies == cover_count(6, 2)  # a line with bias has the rank of one input
    few = ConvexReluNet(*normal(3, 8, seed=1), lam=0.02)
    c = check(few, convex_relu(few))
    assert c.n_dichotomies == 8


def test_the_predictor_is_affine_between_its_kinks():
    X, y = normal(8, 1, seed=7)
    limit = ConvexReluNet(X, y, lam=0.005)
    c = check(limit, convex_relu(limit))
    kinks = np.sort([-b / w for w, b in c.kinks if w != 0])
    t = np.linspace(-4, 4, 4001)
    second = np.abs(np.diff(c.predict(t[:, None]), 2))
    near = (np.abs(t[1:-1, None] - kinks) < t[1] - t[0]).any(axis=1)
    # Second differences of an affine function are rounding; a kink's is its change of slope times the step.
    assert second[~near].max() < 1e-13 < 1e-5 < second[near].max()
    assert len(kinks) >= 2


def test_a_unique_optimum_and_one_that_is_not_decided():
    X, y = normal(6, 1, seed=1)
    limit = ConvexReluNet(X, y, lam=0.03)
    c = convex_relu(limit).certificate
    assert c.unique is True
    assert c.uniqueness == "the directions that can carry mass are finitely many, with linearly independent features"
    # On a line without a bias neurons have two directions, whatever their number; features independent.
    assert convex_relu(ConvexReluNet(X, y, lam=0.03, bias=False)).certificate.unique is True


@pytest.mark.parametrize("seed", range(3))
def test_kinks_that_can_be_turned_round(seed):
    """Small `lam`, one input: `sum_i r_i xt_i = 0`, more active directions than independent features; one predictor."""
    X, y = normal(10, 1, seed=seed)
    lam = 1e-3
    limit = ConvexReluNet(X, y, lam=lam)
    c = check(limit, convex_relu(limit))
    assert c.unique is None
    # Ten terms of size |r_i| up to a thousand lam, each rounded.
    assert np.abs(augmented(X).T @ c.residual).max() < 1e-11 * lam * len(X)
    active = limit.largest(c.residual, share=1 - 1e-9)
    features = np.maximum(augmented(X) @ active.directions.T, 0)
    assert np.linalg.matrix_rank(features) == c.n_directions < len(active.values) <= c.bound
    # Another optimal measure on them: along a null vector of the features, until a mass is zero or its sign would turn.
    where = np.abs(c.directions[:, None] - active.directions[None]).max(axis=2).argmin(axis=1)
    masses = np.zeros(len(active.values))
    masses[where] = c.masses
    signs = -np.sign(active.outputs[:, 0])
    free = np.linalg.svd(features)[2][c.n_directions :]
    rng = np.random.default_rng(0)
    for _ in range(200):
        move = rng.standard_normal(len(free)) @ free
        most = np.where(move * signs < 0, -masses / np.where(move == 0, 1, move), np.inf)
        length = most.min()
        if 0 < length < np.inf:
            break
    else:
        pytest.fail("no direction of the null space keeps the signs")
    other = limit.certify(active.directions, masses + 0.5 * length * move, c.residual, patterns=active.patterns)
    assert other.gap < 1e-12
    assert other.n_directions > c.n_directions
    assert np.abs(0.5 * length * move).max() > 1e-3 * c.total_mass
    t = np.linspace(-5, 5, 101)[:, None]
    np.testing.assert_allclose(other.predict(t), c.predict(t), atol=1e-11 * c.total_mass)


def test_two_outputs_can_have_a_whole_arc_of_maxima():
    """What is proved for one output fails for two: `|R| = lam` all along a cell, and pairs in one closed cell."""
    arcs, pairs = [], 0
    for seed in range(25):
        X, y = normal(6, 1, 2, seed=seed)
        limit = ConvexReluNet(X, y, lam=0.03)
        c = check(limit, convex_relu(limit))
        t = 2 * np.pi * np.arange(3600) / 3600
        on = R(X, c.residual, np.column_stack([np.cos(t), np.sin(t)])) > 0.03 * (1 - 1e-12)
        closed = (c.patterns[:, None] * c.patterns[None] >= 0).all(axis=2)
        pairs += closed.sum() > c.n_directions
        assert c.unique is None or not on.sum() > c.n_directions
        if on.sum() > 360:  # more than a tenth of the circle, where single maxima would have a few points at most
            arcs.append(seed)
            assert c.uniqueness == "not decided: |R| is lam, or nearly so, all along a face (two equal singular values)"
    assert len(arcs) == 3
    assert pairs >= len(arcs)
    # It is no accident of the targets.
    X, y = normal(6, 1, 2, seed=arcs[0])
    y = y + 1e-3 * np.random.default_rng(99).standard_normal(y.shape)
    c = convex_relu(ConvexReluNet(X, y, lam=0.03)).certificate
    assert (R(X, c.residual, np.column_stack([np.cos(t), np.sin(t)])) > 0.03 * (1 - 1e-12)).sum() > 360


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1.0]], [1.0], {"lam": 0}, "`lam` must be positive; got 0. Without weight decay no measure is singled out."),
        ([[1.0]], [1.0], {"lam": np.nan}, "`lam` must be finite; got nan."),
        ([1.0], [1.0], {"lam": 1}, "`X` must have shape (n, d) and at least one entry; got (1,)."),
        ([[1.0]], [[[1.0]]], {"lam": 1}, "`y` must have shape (n,) or (n, m); got (1, 1, 1)."),
        ([[1.0]], [1.0, 2], {"lam": 1}, "`X` has shape (1, 1) and `y` has shape (2,): 1 inputs against 2."),
        ([[np.nan]], [1.0], {"lam": 1}, "`X[0, 0]` is nan; every entry must be finite."),
        (
            np.ones((5, 3)),
            np.ones((5, 2)),
            {"lam": 1},
            "2 outputs with neurons of 4 weights: the largest |R| on a cell is then a problem without a finite formula "
            "here. Pass at most 2 columns of `X`, or one output.",
        ),
        (
            [[1.0], [0.0]],
            [1.0, 2],
            {"lam": 1, "bias": False},
            "`X[1]` is zero: without a bias every network is zero there. Drop the row, or take `bias=True`.",
        ),
        (
            [[1e200]],
            [1.0],
            {"lam": 1},
            "The inputs are of size 2**665 and the targets of size 2**1: their products leave double precision. "
            "Divide both to sizes near one.",
        ),
        (
            [[1.0]],
            [1.0],
            {"lam": 1e-250},
            "`lam` is 1e-250, too far from the size of the data (4e+00) for double precision.",
        ),
    ],
)
def test_bad_input(X, y, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ConvexReluNet(X, y, **options)


def test_bad_candidates_and_other_arguments():
    limit = ConvexReluNet(*normal(5, 2), lam=0.05)
    u = [[1.0, 0, 0]]
    for options, message in [
        ({"lam": True}, "`lam` must be a number; got True."),
        ({"lam": 0.1, "bias": "no"}, "`bias` must be True or False; got 'no'."),
        ({"lam": 0.1, "most": "a"}, "`most` must be an integer; got 'a'."),
        ({"lam": 0.1, "X": scipy.sparse.csr_array(limit.X)}, "`X` is a sparse array; pass `X.toarray()`."),
    ]:
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            ConvexReluNet(**{"X": limit.X, "y": limit.y, **options})
    for share, message in [
        (np.nan, "`share` must be finite; got nan."),
        (2, "`share` must lie between 0 and 1; got 2."),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            limit.largest(limit.y, share=share)
    with pytest.raises(
        ValueError,
        match=r"^`patterns\[0\]` has zeros on whose hyperplanes `directions\[0\]` has no part: no direction near it "
        r"has that pattern\.$",
    ):
        limit.certify(u, [1.0], patterns=np.zeros((1, 5)))
    for arguments, message in [
        (
            (u, [1e160]),
            "`masses[0]`, times the length of `directions[0]` and the size of the inputs, is more than 1e+150 times "
            "the targets: bounds on its square leave double precision.",
        ),
        (([[1.0, 2]], [1.0]), "`directions` must have shape (K, 3); got (1, 2)."),
        (([[0.0, 0, 0]], [1.0]), "`directions[0]` is zero; a direction must have a length."),
        (([[1.0, 0, 0]], [1.0, 2]), "`masses` must have shape (1,); got (2,)."),
        (([[1.0, 0, 0]], [1.0], [1.0]), "`residual` must have shape (5,); got (1,)."),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            limit.certify(*arguments)
    with pytest.raises(ValueError, match=r"^`tol` must lie between 0 and 1, both excluded; got 2\.0\.$"):
        convex_relu(limit, tol=2)
    with pytest.raises(
        ValueError, match=r"^`X` must have shape \(N, 2\), as the inputs that were fitted; got \(3,\)\.$"
    ):
        convex_relu(limit).certificate.predict(np.ones(3))
    with pytest.raises(TypeError, match=r"^`limit` must be a ConvexReluNet; got str\.$"):
        convex_relu("limit")  # pyright: ignore - the wrong type on purpose


def test_too_many_dichotomies_are_counted_first():
    limit = ConvexReluNet(*normal(32, 8), lam=0.05)
    with pytest.raises(ValueError, match=r"^These 32 inputs of 8 columns have .* dichotomies"):
        convex_relu(limit)
    with pytest.raises(ValueError, match=r"^These 5 inputs of 2 columns have 22 dichotomies"):
        convex_relu(ConvexReluNet(*normal(5, 2), lam=0.05, most=20))
