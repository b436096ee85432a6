"""Proved bounds: they contain optima known in closed form, and are no wider than rounding to doubles makes them."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
from flint import arb, ctx

from omegalimit.limits import MaxMargin
from omegalimit.rigorous import prove, rational_farkas
from omegalimit.rigorous._balls import round_down, round_up
from omegalimit.rigorous._norms import upper_norm

D = 6
GROUPS = np.array([0, 0, 1, 1, 2, 2])
# Norm, its parameters, and `gamma*^power` as a fraction for the constraints e_1, ..., e_D (matrices: e_k e_k^T).
IDENTITY = [
    ("l1", {}, 1, Fraction(1, D)),
    ("l2", {}, 2, Fraction(1, D)),
    ("linf", {}, 1, Fraction(1)),
    ("lp", {"p": 3.0}, 3, Fraction(1, D)),
    ("lp", {"p": 1.5}, Fraction(3, 2), Fraction(1, D)),
    ("group-l1", {"groups": GROUPS}, 2, Fraction(1, 18)),
    ("fourier-l1", {}, 2, Fraction(1, D)),
    ("nuclear", {}, 1, Fraction(1, D)),
    ("frobenius", {}, 2, Fraction(1, D)),
    ("spectral", {}, 1, Fraction(1)),
    ("schatten", {"p": 4.0}, 4, Fraction(1, D)),
    ("schatten", {"p": 1.5}, Fraction(3, 2), Fraction(1, D)),
]


def ulps(proven):
    """Width in units of the last place of the upper bound."""
    return proven.width / math.ulp(proven.upper)


def power(x, exponent):
    """`x^exponent` for a non-negative double: exact for whole exponents, to 90 digits otherwise."""
    if exponent == int(exponent):
        return Fraction(x) ** int(exponent)
    with localcontext(prec=90):
        return Fraction(Decimal(x) ** (Decimal(exponent.numerator) / Decimal(exponent.denominator)))


def identity(norm, parameters):
    if norm in ("nuclear", "frobenius", "spectral", "schatten"):
        return MaxMargin(norm, left=np.eye(D), right=np.eye(D), **parameters), np.eye(D)
    return MaxMargin(norm, rows=np.eye(D), **parameters), np.ones(D)


@pytest.mark.parametrize(("norm", "parameters", "exponent", "value"), IDENTITY)
def test_contains_the_optimum_of_the_identity(norm, parameters, exponent, value):
    limit, point = identity(norm, parameters)
    proven = prove(limit, point, np.ones(D))
    assert power(proven.lower, exponent) <= value <= power(proven.upper, exponent)
    # One unit for each of the two roundings outward; one more where the exact value is itself a double.
    assert ulps(proven) <= 3
    assert proven.separable is True


def balanced_rows(g, directions):
    """Rows `g + u` and `g - u` for each direction: their mean is `g`."""
    return np.array([g + sign * np.asarray(u, dtype=float) for u in directions for sign in (1, -1)])


# (norm, point, `sum p_k A_k`, directions orthogonal to the point, gamma*): exact KKT pairs in integers.
PLANTED = [
    ("l2", {}, [2, 3, 6], [2, 3, 6], [[3, -2, 0], [0, 2, -1]], 7),
    ("lp", {"p": 3.0}, [3, 4, 5], [9, 16, 25], [[4, -3, 0], [5, 0, -3]], 36),
    ("l1", {}, [2, 1, 0], [4, 4, 3], [[1, -2, 5], [0, 0, 1]], 4),
    ("linf", {}, [1, -1, 1], [3, -5, 2], [[1, 1, 0], [0, 1, 1]], 10),
]


@pytest.mark.parametrize(("norm", "parameters", "point", "g", "directions", "gamma"), PLANTED)
def test_contains_a_planted_optimum(norm, parameters, point, g, directions, gamma):
    rows = balanced_rows(np.array(g, dtype=float), directions)
    proven = prove(MaxMargin(norm, rows=rows, **parameters), np.array(point, dtype=float), np.ones(len(rows)))
    assert Fraction(proven.lower) <= gamma <= Fraction(proven.upper)
    assert ulps(proven) <= 3  # two roundings outward


def test_contains_a_planted_nuclear_optimum():
    G = np.array([[3.0, -4, 0], [4, 3, 0], [0, 0, 2]])  # singular values 5, 5, 2
    W = np.array([[3.0, -4, 0], [4, 3, 0], [0, 0, 0]])  # nuclear norm 10, <G, W> = 50
    rows = balanced_rows(G, [[[4, 3, 1], [0, 0, 2], [5, 6, 7]], [[0, 0, 0], [0, 0, 0], [1, 2, 3]]])
    proven = prove(MaxMargin("nuclear", rows=rows), W, np.ones(len(rows)))
    assert proven.lower <= 5 <= proven.upper
    assert ulps(proven) <= 3


@pytest.mark.parametrize("scale", [0, -500, 480])
def test_bounds_are_the_exact_numbers_rounded_outward(scale):
    """l1, l2 and l-infinity of random data in rationals: neither bound may be on the wrong side, or one unit off."""
    rng = np.random.default_rng(3)
    A = np.ldexp(rng.standard_normal((7, 5)) * 10.0 ** rng.integers(-8, 8, (7, 5)), scale)
    w, p = A[0] / np.abs(A[0]).max(), rng.random(7) * (rng.random(7) < 0.7)
    rows = np.where((A @ w)[:, None] < 0, -A, A)
    exact = [[Fraction(x) for x in row] for row in rows]
    m = min(sum(a * Fraction(x) for a, x in zip(row, w, strict=True)) for row in exact)
    G = [sum(Fraction(q) * row[j] for q, row in zip(p, exact, strict=True)) / sum(map(Fraction, p)) for j in range(5)]
    absolute = [abs(Fraction(x)) for x in w]
    for norm, size, dual, e in [
        ("l1", sum(absolute), max(map(abs, G)), 1),
        ("linf", max(absolute), sum(map(abs, G)), 1),
        ("l2", sum(x * x for x in absolute), sum(x * x for x in G), 2),
    ]:
        proven = prove(MaxMargin(norm, rows=rows), w, p)
        lower, upper = m**e / size, dual
        assert Fraction(proven.lower) ** e <= lower <= Fraction(math.nextafter(proven.lower, math.inf)) ** e
        assert Fraction(math.nextafter(proven.upper, 0)) ** e <= upper <= Fraction(proven.upper) ** e


def test_free_intercept_balances_exactly():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((9, 3)), np.where(np.arange(9) % 3, 1.0, -1.0)
    limit = MaxMargin.from_labels("l1", X, y, intercept="free")
    p = rng.random(9)
    upper = prove(limit, np.ones(3), p, 0.25).upper
    exact, mass = [[Fraction(x) for x in row] for row in X], {s: sum(Fraction(q) for q in p[y == s]) for s in (1, -1)}
    G = [
        sum(int(s) * Fraction(q) / mass[int(s)] * row[j] for s, q, row in zip(y, p, exact, strict=True)) / 2
        for j in range(3)
    ]
    value = max(map(abs, G))
    assert Fraction(math.nextafter(upper, 0)) <= value <= Fraction(upper)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "group-l1", "fourier-l1"])
def test_penalised_intercept_is_one_more_coordinate(norm):
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((8, 4)), np.where(np.arange(8) % 2, 1.0, -1.0)
    groups = np.array([3, 3, 7, 7]) if norm == "group-l1" else None
    limit = MaxMargin.from_labels(norm, X, y, intercept="penalised", groups=groups)
    rows = np.column_stack([limit.rows, y])
    more = {"group-l1": {"groups": [0, 0, 1, 1, 2]}, "fourier-l1": {"n_plain": 1}}.get(norm, {})
    p = rng.random(8)
    here = prove(limit, np.ones(4), p, -0.5)
    there = prove(MaxMargin(norm, rows=rows, **more), np.array([1, 1, 1, 1, -0.5]), p)
    assert (here.lower, here.upper) == (there.lower, there.upper)


@pytest.mark.parametrize(("norm", "parameters", "exponent", "value"), IDENTITY)
def test_more_precision_is_never_wider(norm, parameters, exponent, value):
    limit, _ = identity(norm, parameters)
    rng = np.random.default_rng(7)
    point, p = np.abs(rng.standard_normal(limit.shape)), rng.random(D)
    intervals = [prove(limit, point, p, precision=bits) for bits in (53, 80, 106, 240)]
    for wide, narrow in itertools.pairwise(intervals):
        assert wide.lower <= narrow.lower
        assert narrow.upper <= wide.upper


@pytest.mark.parametrize(("norm", "parameters", "exponent", "value"), IDENTITY)
@pytest.mark.parametrize("shift", [-500, 490])
def test_powers_of_two_change_no_digit(norm, parameters, exponent, value, shift):
    rng = np.random.default_rng(8)
    limit, _ = identity(norm, parameters)
    shape = (9, *limit.shape)
    rows, point, p = rng.standard_normal(shape), rng.standard_normal(limit.shape), rng.random(9)
    signs = np.sign(np.tensordot(rows, point, point.ndim))
    rows = rows * signs.reshape(-1, *[1] * point.ndim)
    here = prove(MaxMargin(norm, rows=rows, **parameters), point, p)
    there = prove(MaxMargin(norm, rows=np.ldexp(rows, shift), **parameters), np.ldexp(point, -shift), p)
    assert here.lower > 0
    assert (there.lower, there.upper) == (math.ldexp(here.lower, shift), math.ldexp(here.upper, shift))
    far = prove(MaxMargin(norm, rows=rows * 1e150, **parameters), point * 1e-150, p)
    # The scaled data are other doubles: a relative change of 1.2e-16 in each entry, enlarged by cancellation.
    assert far.lower == pytest.approx(here.lower * 1e150, rel=1e-11)
    assert far.upper == pytest.approx(here.upper * 1e150, rel=1e-12)


@pytest.mark.parametrize(
    "values", [[4, 4, 4, 4, 4, 4, 4, 4], [9, 9, 9, 2, 2, 1, 0, 0], [8, 7, 6, 5, 4, 3, 2, 1], [3] + [0] * 7]
)
@pytest.mark.parametrize("p", [1.0, 1.25, 2.0, 2.5, 3.0, 4.0, 8.0, math.inf])
def test_schatten_norms_of_known_singular_values(values, p):
    """The Hadamard matrix of order eight has entries +-1: `H diag(s) H^T` is exact, its singular values are `8 s`."""
    H = scipy.linalg.hadamard(8).astype(float)
    M = np.vstack([H @ np.diag(np.array(values, dtype=float)) @ H.T, np.zeros((3, 8))])
    name = {1.0: "nuclear", 2.0: "frobenius", math.inf: "spectral"}.get(p, "schatten")
    limit = MaxMargin(name, rows=M[None], **({"p": p} if name == "schatten" else {}))
    with localcontext(prec=60):
        s = [8 * Decimal(x) for x in values if x]
        expected = max(s) if p == math.inf else sum(x ** Decimal(p) for x in s) ** (1 / Decimal(p))
    for matrix in (M, M.T):
        turned = MaxMargin(name, rows=matrix[None], p=limit.p)
        with ctx.workprec(120):
            bound, _ = upper_norm(turned, [arb(x) for x in matrix.ravel().tolist()], dual=False)
            excess = bound.upper() / arb(str(expected)) - 1
            # 1e-26 is the room of 2**-90 and more; the digits of the witness end at 1e-31.
            assert -1e-50 < float(excess.mid()) < 1e-26


def test_rounding_is_outward_over_the_whole_range():
    with ctx.workprec(200):
        for man in (1, 3, 2**53 + 1, -(2**60) - 1, 2**53 - 1):
            for exp in (-1200, -1100, -1074, -30, 0, 900, 960):
                value = Fraction(man) * Fraction(2) ** exp
                ball = arb(man) * arb(2) ** exp
                low, high = round_down(ball), round_up(ball)
                assert Fraction(low) <= value <= Fraction(high)
                assert high in (low, math.nextafter(low, math.inf))
        huge = arb(2) ** 5000
        assert (round_up(huge), round_down(huge)) == (math.inf, math.nextafter(math.inf, 0))
        assert (round_up(-huge), round_down(-huge)) == (-math.nextafter(math.inf, 0), -math.inf)
        assert (round_up(arb("nan")), round_down(arb("nan"))) == (math.inf, -math.inf)


def test_sparse_rows_give_the_same_bounds():
    rng = np.random.default_rng(9)
    A = rng.standard_normal((20, 30)) * (rng.random((20, 30)) < 0.2)
    w, p = A.sum(axis=0), rng.random(20)
    A = np.where((A @ w)[:, None] < 0, -A, A)
    dense, sparse = (prove(MaxMargin("lp", rows=rows, p=1.7), w, p) for rows in (A, scipy.sparse.csr_array(A)))
    assert (dense.lower, dense.upper) == (sparse.lower, sparse.upper)


def test_factors_and_matrices_give_the_same_bounds():
    rng = np.random.default_rng(10)
    left, right = rng.integers(-9, 9, (12, 5)).astype(float), rng.integers(-9, 9, (12, 4)).astype(float)
    W, p = left.T @ right, rng.random(12)
    here = prove(MaxMargin("nuclear", left=left, right=right), W, p)
    there = prove(MaxMargin("nuclear", rows=np.einsum("ki,kj->kij", left, right)), W, p)
    assert (here.lower, here.upper) == (there.lower, there.upper)


def test_certificate_is_beside_and_agrees_within_its_slack():
    rng = np.random.default_rng(11)
    A = rng.standard_normal((30, 50))
    w = np.linalg.lstsq(A, np.ones(30), rcond=None)[0]
    limit = MaxMargin("l2", rows=A)
    proven = prove(limit, w)
    assert proven.certificate.multipliers_given is False
    assert np.array_equal(proven.multipliers, proven.certificate.multipliers)
    assert abs(proven.lower - proven.certificate.lower) <= proven.certificate.slack
    assert abs(proven.upper - proven.certificate.upper) <= proven.certificate.slack
    assert proven.gap == proven.width / proven.upper


def test_negative_multipliers_are_clipped():
    limit, point = identity("l1", {})
    p = np.ones(D)
    clipped = prove(limit, point, np.append(p[:-1], -3.0))
    assert clipped.multipliers.min() == 0
    assert clipped.upper == prove(limit, point, np.append(p[:-1], 0.0)).upper


def test_a_point_that_does_not_separate_proves_zero():
    limit, point = identity("l2", {})
    proven = prove(limit, -point, np.ones(D))
    assert (proven.lower, proven.separable, proven.farkas) == (0.0, None, None)
    assert proven.certificate.lower < 0


def test_precision_is_checked():
    limit, point = identity("l2", {})
    with pytest.raises(ValueError, match=r"^`precision` must be at least 53 bits; got 20\.$"):
        prove(limit, point, precision=20)
    with pytest.raises(TypeError, match=r"^`precision` must be an integer, a number of bits; got 100\.5\.$"):
        prove(limit, point, precision=100.5)  # pyright: ignore[reportArgumentType]


def contradiction(kind):
    rng = np.random.default_rng(12)
    A = rng.integers(-99, 99, (6, 9)) * 2.0**-700
    if kind == "a row and its negative":
        return np.vstack([A, -A[2]]), [2, 6], [1, 1]
    if kind == "minus the sum of two":
        return np.vstack([A, -(A[1] + A[3])]), [1, 3, 6], [1, 1, 1]
    if kind == "three to one":
        return np.vstack([A, -3 * A[0]]), [0, 6], [3, 1]
    return np.vstack([A, np.zeros(9)]), [6], [1]


@pytest.mark.parametrize("kind", ["a row and its negative", "minus the sum of two", "three to one", "a zero row"])
@pytest.mark.parametrize("norm", ["l1", "linf", "fourier-l1"])
def test_rational_proof_that_nothing_separates(kind, norm):
    rows, indices, weights = contradiction(kind)
    p = np.zeros(len(rows))
    p[indices] = np.array(weights) * (1 + 1e-15)
    proven = prove(MaxMargin(norm, rows=rows), np.ones(9), p)
    assert proven.farkas is not None
    assert (list(proven.farkas.indices), list(proven.farkas.weights)) == (indices, weights)
    assert (proven.lower, proven.upper, proven.separable) == (0.0, 0.0, False)
    assert sum(proven.farkas.multipliers.values()) == 1


def exactly_zero(A, farkas):
    chosen = [[Fraction(x) for x in A[k].ravel()] for k in farkas.indices]
    return not any(sum(w * row[j] for w, row in zip(farkas.weights, chosen, strict=True)) for j in range(A[0].size))


def least_norm_weights(A, *, labels=None):
    """Floating-point weights of the zero combination of rows, by non-negative least squares."""
    columns = A.reshape(len(A), -1).T
    system = np.vstack([columns, np.ones(len(A)), *([] if labels is None else [labels])])
    target = np.zeros(len(system))
    target[len(columns)] = 1
    return scipy.optimize.nnls(system, target)[0]


@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
@pytest.mark.parametrize("repeat", [1, 2])
def test_random_rows_in_general_position(intercept, repeat):
    """Five times as many rows as dimensions: 0 lies inside their hull, and doubles in general position prove it."""
    rng = np.random.default_rng(13)
    X, y = np.tile(rng.standard_normal((60, 12)), (repeat, 1)), np.tile(np.where(np.arange(60) % 2, 1.0, -1.0), repeat)
    limit = MaxMargin.from_labels("l2", X, y, intercept=intercept)
    labels = None if intercept == "none" else y
    p = least_norm_weights(limit.rows, labels=labels)
    farkas = rational_farkas(limit, p / repeat)
    assert farkas is not None
    assert exactly_zero(limit.rows, farkas)
    if labels is not None:
        assert sum(w * int(labels[k]) for k, w in zip(farkas.indices, farkas.weights, strict=True)) == 0


def test_factors_have_a_rational_proof():
    rng = np.random.default_rng(14)
    left, right = rng.standard_normal((8, 5)), rng.standard_normal((8, 4))
    left, right = np.vstack([left, -2 * left[3]]), np.vstack([right, right[3] / 2])
    p = np.zeros(9)
    p[[3, 8]] = 1
    proven = prove(MaxMargin("nuclear", left=left, right=right), np.ones((5, 4)), p)
    assert proven.farkas is not None
    assert (proven.farkas.indices, proven.farkas.weights) == ((3, 8), (1, 1))


def test_a_sum_that_rounding_spoils_has_no_rational_proof():
    """Three rows that are dependent up to rounding are independent as doubles: only a small upper bound is proved."""
    rng = np.random.default_rng(15)
    A = rng.standard_normal((2, 9))
    proven = prove(MaxMargin("l2", rows=np.vstack([A, -(A[0] + A[1])])), np.ones(9), np.ones(3))
    assert proven.farkas is None
    assert 0 < proven.upper < 1e-15
