"""The least barrier over a margin slice: the theory's numbers, duality, independent witnesses, both ends, refusals."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq, minimize

from omegalimit.certificate import BarrierCertificate
from omegalimit.limits import MaxMargin
from omegalimit.limits._barrier_terms import conjugate_terms, log1p_less
from omegalimit.limits._double_double import times
from omegalimit.limits.barrier import Barrier
from omegalimit.solvers import Solution, solve
from omegalimit.solvers.barrier_path import barrier_path


def refusal(make, kind: type[Exception] = ValueError) -> str:
    """The message with which `make` refuses, which the tests then compare in full."""
    with pytest.raises(kind) as refused:
        make()
    return str(refused.value)


def page_rows() -> np.ndarray:
    """The fixture of the theory."""
    g = np.random.default_rng(0)
    w, X = g.standard_normal(4), g.standard_normal((6, 4))
    return np.sign(X @ w)[:, None] * X


def random_rows(seed: int, n: int, d: int) -> np.ndarray:
    """Separable rows, the first two once more."""
    g = np.random.default_rng(seed)
    X, w = g.standard_normal((n, d)), g.standard_normal(d)
    Z = np.sign(X @ w)[:, None] * X
    return np.vstack([Z, Z[:2]])


def problem_at(Z, fraction: float) -> Barrier:
    """The problem at this fraction of the l-infinity margin."""
    gamma = solve(MaxMargin("linf", rows=Z), 1e-12).certificate.lower
    return Barrier(Z, gamma - (1 - fraction) * gamma if fraction > 0.5 else fraction * gamma)


def at_fraction(Z, fraction: float) -> Solution[BarrierCertificate]:
    """The same, solved."""
    return solve(problem_at(Z, fraction), 1e-12)


def exactly(limit: Barrier, found: BarrierCertificate) -> tuple[Fraction, Fraction]:
    """Of `point + tail`, in rational numbers: the least margin less `kappa`, over `kappa`; and the largest `|v_j|`."""
    v = [Fraction(a) + Fraction(b) for a, b in zip(found.point.tolist(), found.tail.tolist(), strict=True)]
    margins = [sum(Fraction(z) * x for z, x in zip(row, v, strict=True)) for row in limit.Z.tolist()]
    return min(margins) / Fraction(limit.kappa) - 1, max(abs(x) for x in v)


PAGE = page_rows()
GAMMA = 0.8513643517412691
FRACTIONS = (1e-8, 1e-4, 0.1, 0.5, 0.9, 1 - 1e-4, 1 - 1e-6, 1 - 1e-8)


# The theory's numbers.


def test_the_pages_numbers():
    """To the last digit that the page has."""
    linf, l2 = (solve(MaxMargin(norm, rows=PAGE), 1e-12).certificate for norm in ("linf", "l2"))
    assert linf.lower == pytest.approx(GAMMA, abs=4e-16)
    solution = solve(Barrier(PAGE, 0.5 * GAMMA), 1e-12)
    found = solution.certificate
    assert solution.status == "optimal"
    np.testing.assert_allclose(found.point, [0.2641441216, -0.0833093787, 0.5734044371, 0.2945414901], atol=6e-11)
    assert found.upper == pytest.approx(0.37913300726, abs=1.6e-11)  # the page's last digit is one too high
    v, u = found.point, l2.point / np.linalg.norm(l2.point)
    assert v @ u / np.linalg.norm(v) == pytest.approx(0.976704, abs=6e-7)
    direction = linf.point / np.abs(linf.point).max()
    assert np.abs(v / np.abs(v).max() - direction).max() == pytest.approx(0.486, abs=6e-4)


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize(
    "rows", [PAGE, random_rows(1, 40, 10), random_rows(2, 10, 40), random_rows(3, 30, 30)], ids=len
)
def test_certified_over_the_whole_range(rows, fraction):
    """A gap of 1e-12 needs both ends: values of 1e-16 near zero, a room of 1e-8 at the margin."""
    limit = problem_at(rows, fraction)
    solution = solve(limit, 1e-12)
    found = solution.certificate
    assert solution.status == "optimal"
    assert found.gap <= 1e-12
    assert found.relative_slack <= 1e-15
    spare, largest = exactly(limit, found)
    assert abs(spare) <= Fraction(1, 10**28)  # the digits of a pair of doubles, less those of forty sums
    assert largest < 1
    assert found.n_clipped == 0
    if 1e-4 <= fraction <= 0.9:
        assert found.distance <= 1e-12


# Independent witnesses.


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fraction", [0.2, 0.8])
def test_agrees_with_a_conic_solver(seed, fraction):
    """CVXPY with Clarabel: `|v| <= t`, `-t - log(1 - t)` convex and increasing; its own multipliers certify."""
    rows = random_rows(seed, 8, 5)
    mine = at_fraction(rows, fraction).certificate
    kappa = float((rows @ mine.point).min())
    v, t = cp.Variable(5), cp.Variable(5)
    margin = rows @ v >= kappa
    problem = cp.Problem(cp.Minimize(cp.sum(-t - cp.log(1 - t))), [margin, cp.abs(v) <= t])
    problem.solve(solver=cp.CLARABEL)
    assert problem.value == pytest.approx(mine.upper, rel=1e-6)  # the solver's own tolerance is 1e-8 of its cones
    point: Any = v.value
    theirs = Barrier(rows, kappa).certify(point, margin.dual_value)
    assert theirs.gap < 1e-5
    assert np.linalg.norm(theirs.point - mine.point) <= theirs.distance + mine.distance


def test_agrees_with_a_bounded_quasi_newton_method_on_the_dual():
    """SciPy's L-BFGS-B maximises `kappa 1'l - sum B*(Z'l)`, written out here, over `l >= 0`."""
    rows = random_rows(5, 12, 6)
    mine = at_fraction(rows, 0.6).certificate
    kappa = float((rows @ mine.point).min())

    def dual(weights):
        u = rows.T @ weights
        return -(kappa * weights.sum() - (np.abs(u) - np.log1p(np.abs(u))).sum()), rows @ (u / (1 + np.abs(u))) - kappa

    found = minimize(dual, np.ones(len(rows)), jac=True, bounds=[(0, None)] * len(rows), options={"ftol": 1e-15})
    assert -found.fun == pytest.approx(mine.lower, rel=1e-8)


@pytest.mark.parametrize("kappa", [1e-6, 0.3, 1.9, 2.4999])
def test_one_row_by_one_equation(kappa):
    """`v = B*'(lambda z)` with one multiplier: a root of one increasing function."""
    z = np.array([1.0, -0.5, 0.0, 1.0])
    root: Any = brentq(
        lambda x: float(z @ (z * x / (1 + np.abs(z * x)))) - kappa, 0, 1e6, xtol=1e-300, rtol=np.float64(1e-15)
    )
    found = solve(Barrier(z[None], kappa), 1e-12).certificate
    # Near the margin, 2.5, the root is as ill-conditioned as the room is small: 4e-5.
    np.testing.assert_allclose(found.point, z * root / (1 + np.abs(z * root)), rtol=1e-11)
    np.testing.assert_allclose(found.multipliers, [root], rtol=1e-10)


def test_one_coordinate():
    """`v = kappa / z`, whatever the barrier."""
    assert solve(Barrier([[4.0], [2.0]], 1.0)).certificate.point == pytest.approx([0.5], abs=1e-16)


def test_smoothed_sign_descent_ends_there():
    """The descent that the problem was reconstructed from, written out: the theory's distances, which fall as 1 / S.

    `lambda_i <- lambda_i exp(eta (kappa - z_i.v))`, `v = B*'(Z'lambda)`, `w = eta sum v`, from `w = 0`, `lambda = 1`.
    """
    kappa, eta, log_lambda, w = 0.5 * GAMMA, 0.05, np.zeros(6), np.zeros(4)
    end = solve(Barrier(PAGE, kappa), 1e-12).certificate.point
    distances, v = {}, w
    for t in range(1, 10_001):
        u = np.exp(log_lambda) @ PAGE
        v = u / (1 + np.abs(u))
        log_lambda, w = log_lambda + eta * (kappa - PAGE @ v), w + eta * v
        distances[t] = np.linalg.norm(w / (eta * t) - end)
    assert distances[100] == pytest.approx(0.160144, abs=6e-7)
    assert distances[1000] == pytest.approx(0.0271756, abs=6e-8)
    assert distances[10_000] == pytest.approx(0.00310347, abs=6e-9)
    np.testing.assert_allclose(v, end, atol=1e-13)  # the last step itself converges geometrically


# Duality and what the certificate says.


@given(st.integers(0, 10**6), st.floats(0.05, 0.95))
@settings(max_examples=40, deadline=None)
def test_weak_duality_and_the_distance(seed, fraction):
    """Of any points and multipliers: the bounds, the difference against its direct form, and the distance bound."""
    g = np.random.default_rng(seed)
    rows = random_rows(seed, int(g.integers(2, 9)), int(g.integers(1, 7)))
    best = at_fraction(rows, fraction)
    assert best.status == "optimal"
    v = best.certificate.point
    limit = Barrier(rows, float((rows @ v).min()))
    point = v * np.exp(0.3 * g.standard_normal(v.shape)) + 0.01 * g.standard_normal(v.shape)
    multipliers = g.exponential(size=len(rows)) * np.exp(2 * g.standard_normal())
    found = limit.certify(point, multipliers)
    assert found.lower <= best.certificate.upper * (1 + 1e-14)
    u = rows.T @ multipliers
    direct = limit.kappa * multipliers.sum() - (np.abs(u) - np.log1p(np.abs(u))).sum()
    # Rounding of terms of these sizes; the certificate has its own bound on its own.
    assert found.lower == pytest.approx(direct, abs=1e-14 * (1 + multipliers.sum() * np.abs(rows).max() * 10))
    if found.upper < np.inf:
        assert (np.abs(found.point) < 1).all()
        assert (rows @ found.point).min() == pytest.approx(limit.kappa, rel=1e-13)
        assert found.upper >= best.certificate.lower * (1 - 1e-14)
        own = (-np.abs(found.point) - np.log1p(-np.abs(found.point))).sum()
        assert found.upper == pytest.approx(own, rel=1e-9, abs=1e-14)
        assert found.difference == pytest.approx(found.upper - found.lower, abs=4 * found.slack)
        image = u / (1 + np.abs(u))
        assert np.linalg.norm(found.point - v) <= found.distance
        assert np.linalg.norm(image - v) <= found.distance


def test_a_certificate_tells_a_wrong_point_and_wrong_multipliers():
    """The l2 maximum margin scaled into the slice, and multipliers that a permutation spoiled, leave a gap."""
    limit = Barrier(PAGE, 0.5 * GAMMA)
    best = solve(limit, 1e-12).certificate
    l2 = solve(MaxMargin("l2", rows=PAGE)).certificate.point
    assert limit.certify(l2, best.multipliers).gap > 1e-2
    assert limit.certify(best.point, best.multipliers[::-1].copy()).gap > 1e-1
    # A point that is off by 1e-6 within the slice is off by 1e-12 in value, and that shows.
    off = limit.certify(best.point + 1e-6 * np.array([1.0, -1.0, 1.0, 1.0]), best.multipliers)
    assert 1e-14 < off.gap < 1e-5
    assert off.distance > 1e-7


def test_multipliers_found_from_the_point():
    """To the square of what a double says of the point."""
    limit = Barrier(PAGE, 0.5 * GAMMA)
    best = solve(limit, 1e-12).certificate
    found = limit.certify(best.point)
    assert not found.multipliers_given
    assert found.gap < 1e-14
    np.testing.assert_allclose(found.multipliers, best.multipliers, atol=1e-13)
    np.testing.assert_array_equal(found.support, best.support)


def test_a_point_is_scaled_to_the_margin():
    """Short of the margin or beyond it: the certificate is of the multiple, and says so."""
    limit = Barrier(PAGE, 0.5 * GAMMA)
    best = solve(limit, 1e-12).certificate
    for factor in (0.25, 1.5):
        found = limit.certify(factor * best.point, best.multipliers)
        assert found.scaling == pytest.approx(1 / factor - 1, rel=1e-13)
        assert found.infeasibility == pytest.approx(max(1 - factor, 0.0), rel=1e-13)
        assert found.gap < 1e-15  # the point has lost its tail, and with it 1e-16 of its margin on some rows
    none = limit.certify(-best.point, best.multipliers)
    assert (none.upper, none.gap, none.distance) == (np.inf, np.inf, np.inf)
    assert none.lower == pytest.approx(best.lower, rel=1e-14)
    outside = Barrier(PAGE, 0.99 * GAMMA).certify([0.0, 0.0, 1.0, 0.3], best.multipliers)
    assert outside.upper == np.inf


def test_values_as_given():
    """`value` and `dual_value` move nothing and check nothing but shapes."""
    limit = Barrier(PAGE, 0.5 * GAMMA)
    best = solve(limit, 1e-12).certificate
    assert limit.value(best.point) == pytest.approx(best.upper, rel=1e-14)
    assert limit.dual_value(best.multipliers) == pytest.approx(best.lower, rel=1e-14)
    assert limit.value(np.zeros(4)) == 0.0
    assert limit.value(np.ones(4)) == np.inf
    assert limit.dual_value(-best.multipliers) < 0


def test_negative_multipliers_are_counted():
    """And set to zero."""
    limit = Barrier(PAGE, 0.5 * GAMMA)
    best = solve(limit, 1e-12).certificate
    spoiled = best.multipliers.copy()
    spoiled[np.flatnonzero(best.multipliers == 0)[0]] = -1.0
    found = limit.certify(best.point, spoiled)
    assert found.n_clipped == 1
    assert found.gap < 1e-15


# Scales, degenerate rows, and both ends.


@pytest.mark.parametrize("exponent", [-900, -500, 500, 900])
def test_powers_of_two_give_the_same_digits(exponent):
    """Of the point; the multipliers are in units of `1 / Z`."""
    one, other = (solve(Barrier(np.ldexp(PAGE, e), np.ldexp(0.4, e))).certificate for e in (0, exponent))
    np.testing.assert_array_equal(one.point, other.point)
    np.testing.assert_array_equal(one.multipliers, np.ldexp(other.multipliers, exponent))
    assert one.gap == other.gap


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_other_factors_to_rounding(factor):
    """The data change by 1e-16, so the point by some 1e-15."""
    one, other = (solve(Barrier(PAGE * f, 0.4 * f)).certificate for f in (1.0, factor))
    np.testing.assert_allclose(one.point, other.point, rtol=1e-14)


def test_repeated_rows_and_empty_columns():
    """Change nothing but how the multiplier is shared, and where the barrier alone puts a coordinate: at zero."""
    more = np.hstack([np.vstack([PAGE, PAGE, PAGE[:2]]), np.zeros((14, 1))])
    one, other = solve(Barrier(PAGE, 0.7), 1e-12).certificate, solve(Barrier(more, 0.7), 1e-12).certificate
    np.testing.assert_allclose(other.point, [*one.point, 0.0], atol=1e-15)
    shared = other.multipliers[:6] + other.multipliers[6:12] + np.append(other.multipliers[12:], np.zeros(4))
    np.testing.assert_allclose(shared, one.multipliers, rtol=1e-12)


def test_the_weights_of_rows_in_the_loss_are_no_part_of_it():
    """A row counted a hundred times is a row a hundred times: the same limit."""
    many = np.vstack([PAGE, np.repeat(PAGE[3:4], 99, axis=0)])
    one, other = solve(Barrier(PAGE, 0.4), 1e-12).certificate, solve(Barrier(many, 0.4), 1e-12).certificate
    np.testing.assert_allclose(one.point, other.point, rtol=1e-13)


@pytest.mark.parametrize("rows", [PAGE, random_rows(1, 40, 10), random_rows(2, 10, 40)], ids=len)
def test_small_kappa_is_the_l2_maximum_margin(rows):
    """`v / kappa` differs from it by `O(kappa)`: `B(v) = v^2 / 2 + |v|^3 / 3 + ...`."""
    path = barrier_path(rows, [1e-3, 1e-5, 1e-7], tol=1e-12)
    l2 = solve(MaxMargin("l2", rows=rows), 1e-12).certificate.point
    off = np.linalg.norm(path.points / path.kappas[:, None] - l2, axis=1) / np.linalg.norm(l2)
    np.testing.assert_allclose(off[:-1] / off[1:], 100, rtol=0.05)
    assert off[-1] < 1e-6


@pytest.mark.parametrize("rows", [PAGE, random_rows(1, 40, 10)], ids=len)
def test_kappa_near_the_margin_is_the_linf_maximum_margin(rows):
    """Unique here; the distance falls with `gamma - kappa`, and the l2 end is far away."""
    path = barrier_path(rows, [1 - 1e-3, 1 - 1e-5, 1 - 1e-7], tol=1e-12)
    end = path.margin.certificate.point / np.abs(path.margin.certificate.point).max()
    off = np.abs(path.points - end).max(axis=1)
    np.testing.assert_allclose(off[:-1] / off[1:], 100, rtol=0.05)
    assert off[-1] < 1e-5


def test_where_the_linf_maximum_margin_is_not_unique():
    """The end is the least barrier over its face, of the coordinates that are not at a bound on all of it.

    Rows (1, 0, 0) and (1/2, 1, 1/2): the margin is 1 with `v_1 = 1`, and the face `v_2 + v_3 / 2 >= 1/2`.
    """
    rows = np.array([[1.0, 0, 0], [0.5, 1, 0.5], [3.0, -1, 1]])
    end = np.append(1.0, solve(Barrier([[1.0, 0.5]], 0.5), 1e-12).certificate.point)
    # Neither the least l2 norm of the face, (0.4, 0.2), nor the middle of anything.
    assert np.abs(end[1:] - [0.4, 0.2]).max() > 0.01
    points = barrier_path(rows, [1 - 1e-3, 1 - 1e-5, 1 - 1e-7], tol=1e-12).points
    off = np.abs(points - end).max(axis=1)
    np.testing.assert_allclose(off[:-1] / off[1:], 100, rtol=0.05)
    assert off[-1] < 1e-6


def test_the_path():
    """What it hands out, and that it is the single problems' solutions."""
    path = barrier_path(PAGE, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(path.kappas, np.array([0.25, 0.5, 0.75]) * GAMMA, rtol=1e-15)
    assert [solution.status for solution in path.solutions] == ["optimal"] * 3
    single = solve(Barrier(PAGE, float(path.kappas[1]))).certificate
    np.testing.assert_array_equal(path.points[1], single.point)
    assert (np.diff([s.certificate.upper for s in path.solutions]) > 0).all()


# No solution.


def test_kappa_above_the_margin():
    """Infeasible, with multipliers that prove it to anybody."""
    limit = Barrier(PAGE, 0.9)
    solution = solve(limit)
    assert solution.status == "infeasible"
    assert solution.reason == (
        "`kappa` is 0.9, and no point with |v_j| < 1 has a margin of 0.8513643517 or more (`farkas`); take `kappa` "
        "between 0 and 0.8513643517, both excluded."
    )
    p = solution.farkas
    assert p is not None
    assert (p >= 0).all()
    assert np.abs(p @ PAGE).sum() <= 0.9 * p.sum()
    assert limit.unreachable(p)
    assert solution.certificate.upper == np.inf
    # The same multipliers prove nothing below the margin, nor do others.
    assert not Barrier(PAGE, 0.85).unreachable(p)
    assert not limit.unreachable(np.eye(6)[0])
    assert not limit.unreachable(-p)
    assert not limit.unreachable(0 * p)


def test_kappa_at_the_margin():
    """Rounding decides nothing there, and the status says that."""
    solution = solve(Barrier(PAGE, GAMMA))
    assert solution.status in ("stalled", "infeasible")
    assert solution.certificate.gap > 0.1 or solution.farkas is not None


def test_rows_that_are_not_separable():
    """Opposite rows: their half sum is the proof."""
    solution = solve(Barrier(np.vstack([PAGE, -PAGE[:1]]), 1e-3))
    assert solution.status == "infeasible"
    assert solution.reason == (
        "the rows are not separable, so that no point has a positive margin: a convex combination of 2 constraints is "
        "zero to rounding (`farkas`)."
    )
    np.testing.assert_array_equal(solution.farkas, [0.5, 0, 0, 0, 0, 0, 0.5])


def test_refusals():
    """In the user's words."""
    assert refusal(lambda: Barrier(PAGE, 0.0)) == (
        "`kappa` must be positive, and below the l-infinity maximum margin of the rows; got 0.0."
    )
    assert refusal(lambda: Barrier(PAGE, np.nan)) == (
        "`kappa` must be positive, and below the l-infinity maximum margin of the rows; got nan."
    )
    two: Any = [0.1, 0.2]
    assert refusal(lambda: Barrier(PAGE, two)) == "`kappa` must be one number; got shape (2,)."
    assert refusal(lambda: Barrier(PAGE[0], 0.1)) == "`Z` must have shape (n, d) and at least one entry; got (4,)."
    assert refusal(lambda: Barrier(np.where(PAGE > 0, PAGE, np.inf), 0.1)).startswith("`Z[0, ")
    assert refusal(lambda: Barrier(PAGE, 1e-200)) == (
        f"`kappa` is 1e-200, smaller than the entries of `Z` by a factor of {1e-200 / np.abs(PAGE).max():.0e}; the "
        "barrier's values leave double precision. Take the l2 maximum margin, which is the limit."
    )
    limit = Barrier(PAGE, 0.1)
    assert refusal(lambda: limit.certify(np.ones(3))) == "`point` must have shape (4,); got (3,)."
    assert refusal(lambda: limit.certify(None)) == "`point` is None: was the problem that it comes from solved?"  # pyright: ignore[reportArgumentType] - on purpose
    assert refusal(lambda: limit.certify(np.ones(4), np.ones(4))) == "`multipliers` must have shape (6,); got (4,)."
    assert refusal(lambda: barrier_path(PAGE, [0.5, 1.0])) == (
        "`fractions[1]` is 1; each must lie between 0 and 1, both excluded."
    )
    assert refusal(lambda: barrier_path(PAGE, 0.5)) == "`fractions` must have shape (m,) with m >= 1; got ()."
    assert refusal(lambda: barrier_path(np.vstack([PAGE, -PAGE[:1]]), [0.5])) == (
        "The rows of `Z` have no positive margin, and no barrier path: a convex combination of 2 constraints is zero "
        "to rounding (`farkas`)."
    )


def test_the_path_asks_as_a_single_problem_does():
    """Its own names in its messages, and no tolerance that `solve` refuses."""
    for tol in (0, 1.0, 2, math.nan):
        single = refusal(lambda tol=tol: solve(Barrier(PAGE, 0.1), tol))
        assert refusal(lambda tol=tol: barrier_path(PAGE, [0.5], tol=tol)) == single
        assert single == f"`tol` must lie between 0 and 1, both excluded; got {tol}."
    no_numbers: Any = ("a", True)
    for tol in no_numbers:
        assert refusal(lambda tol=tol: barrier_path(PAGE, [0.5], tol=tol), TypeError) == (
            f"`tol` must be a number; got {tol!r}."
        )
    small = np.vstack([PAGE, 1e-200 * PAGE[:1]])
    for Z, message in (
        (PAGE[0], "`Z` must have shape (n, d) and at least one entry; got (4,)."),
        (np.zeros((0, 4)), "`Z` must have shape (n, d) and at least one entry; got (0, 4)."),
        ([[2**53 + 1, 1]], "`Z` has integers beyond 2**53 that no double holds; rescale it or round it yourself."),
        (
            np.ldexp(PAGE, 1010),
            "The rows of `Z` are of size 2**1012; their bounds leave double precision. "
            "Divide the data, to a size from 2**-1000 to 2**1000.",
        ),
        (small, None),
    ):
        single = refusal(lambda Z=Z: Barrier(Z, 0.1))
        assert refusal(lambda Z=Z: barrier_path(Z, [0.5])) == single
        if message is None:
            assert single.startswith("Row 6 of `Z` is smaller than the largest by a factor of ")
        else:
            assert single == message
    sparse: Any = scipy.sparse.csr_array(PAGE)
    assert refusal(lambda: barrier_path(sparse, [0.5]), TypeError) == "`Z` is a sparse array; pass `Z.toarray()`."


def test_a_point_that_was_not_found_is_marked():
    """At the margin itself, to rounding: NaN in `points`, and what was found in `solutions`."""
    path = barrier_path(PAGE, [0.5, 1 - 1e-16])
    assert path.solved.tolist() == [True, False]
    assert [solution.status for solution in path.solutions] == ["optimal", "stalled"]
    assert np.isfinite(path.points[0]).all()
    assert np.isnan(path.points[1]).all()
    assert path.points.shape == (2, 4)


# The arithmetic.


@given(st.floats(-0.9999, 1e8, allow_subnormal=False).filter(lambda x: abs(x) > 1e-140))
@settings(max_examples=200, deadline=None)
def test_the_logarithm_less_its_first_term(x):
    """Against sixty digits of decimals; a few units of the last place."""
    with localcontext() as context:
        context.prec = 340
        exact = float(Decimal(x) - (1 + Decimal(x)).ln())
    assert float(log1p_less(np.array(x))) == pytest.approx(exact, rel=1e-15)


def test_conjugate_terms_are_even_and_tend_to_squares():
    """`B*(u) = u^2 / 2 - |u|^3 / 3 + ...`."""
    u = np.array([-1e-9, 1e-9, 3.0, -3.0])
    np.testing.assert_allclose(conjugate_terms(u), [5e-19 * (1 - 2e-9 / 3)] * 2 + [3 - math.log(4)] * 2, rtol=1e-15)


@given(arrays(float, (3, 7), elements=st.floats(-1, 1)), arrays(float, 7, elements=st.floats(-1e8, 1e8)))
@settings(max_examples=100, deadline=None)
def test_products_to_thirty_digits(A, x):
    """Against rational numbers: the pair is within 1e-29 of the absolute sum."""
    high, low = times(A, x)
    for i in range(3):
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(A[i].tolist(), x.tolist(), strict=True))
        size = float(sum(abs(Fraction(a) * Fraction(b)) for a, b in zip(A[i].tolist(), x.tolist(), strict=True)))
        # Products whose own error underflows are exact to the least double alone.
        assert abs(float(Fraction(float(high[i])) + Fraction(float(low[i])) - exact)) <= 1e-29 * size + 1e-300
