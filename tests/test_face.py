"""Uniqueness and the optimal face: closed forms for every norm, near ties, scales, and linear programs as reference."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

from omegalimit.limits import MaxMargin
from omegalimit.limits.face import margin_ratio, optimal_face
from omegalimit.solvers import solve

DIAGONAL = np.stack([np.diag(row) for row in np.eye(3)])


def problem(norm: str, rows: Any, **more: Any) -> MaxMargin:
    return MaxMargin(norm, rows=np.array(rows, dtype=float), **more)


class Case(NamedTuple):
    """A problem, an optimal pair worked out by hand, and what the face must be."""

    norm: str
    rows: Any
    point: Any
    multipliers: Any
    dimension: int
    more: dict = {}  # noqa: RUF012 - never written to

    def limit(self, factor=1.0):
        return problem(self.norm, factor * np.array(self.rows, dtype=float), **self.more)

    def face(self, factor=1.0, **options) -> Any:
        limit = self.limit(factor)
        return optimal_face(limit, limit.certify(self.point, self.multipliers), **options)


LABELS = {"intercept": "free", "labels": [1, -1]}
CASES = {
    "l1, one coordinate": Case("l1", [[3]], [1], [1], 0),
    "l1, identity rows": Case("l1", np.eye(5), np.ones(5), np.ones(5), 0),
    "l1, one column ahead": Case("l1", [[1, 0.9]], [1, 0], [1], 0),
    "l1, equal columns": Case("l1", [[1, 1]], [1, 0], [1], 1),
    "l1, equal columns, midway": Case("l1", [[1, 1, 0]], [0.3, 0.7, 0], [1], 1),
    "l1, opposite columns": Case("l1", [[1, -1]], [0, -1], [1], 1),
    "l1, three equal columns": Case("l1", [[2, 2, 2]], [1, 0, 0], [1], 2),
    # The second row has no multiplier: w_1 - w_2 >= 1 meets w_2 >= 0 at w_2 = 0.
    "l1, tied but stopped by a row": Case("l1", [[1, 1], [1, -1]], [1, 0], [1, 0], 0),
    "l1, tied, partly stopped by a row": Case("l1", [[1, 1, 1], [1, -1, 1]], [1, 0, 0], [1, 0], 1),
    "linf, one coordinate": Case("linf", [[-2]], [-1], [1], 0),
    "linf, identity rows": Case("linf", np.eye(4), np.ones(4), np.ones(4), 0),
    "linf, zero column": Case("linf", [[1, 0, 2]], [1, 0.2, 1], [1], 1),
    "linf, zero column, at its end": Case("linf", [[1, 0, 2]], [1, 1, 1], [1], 1),
    "linf, two rows fix a coordinate": Case("linf", [[1, 0.5], [1, -0.5]], [1, 0], [1, 1], 0),
    "linf, symmetric rows and a zero column": Case("linf", [[1, 1, 0], [1, -1, 0]], [1, 0, 0], [1, 1], 1),
    "linf, a slack row": Case("linf", [[1, 0], [3, 1]], [1, 0], [1, 0], 1),
    "group-l1, one group ahead": Case("group-l1", [[3, 4, 4, 0]], [3, 4, 0, 0], [1], 0, {"groups": [0, 0, 1, 1]}),
    "group-l1, tied groups": Case("group-l1", [[3, 4, 5, 0]], [3, 4, 0, 0], [1], 1, {"groups": [0, 0, 1, 1]}),
    # A constant is one frequency; a unit vector has all at the same size: 0, the pair 1 and 3, and 2.
    "fourier-l1, a constant": Case("fourier-l1", [[1, 1, 1, 1]], [1, 1, 1, 1], [1], 0),
    "fourier-l1, a unit vector": Case("fourier-l1", [[1, 0, 0, 0]], [1, 0, 0, 0], [1], 2),
    "fourier-l1, a unit vector, one frequency": Case("fourier-l1", [[1, 0, 0, 0, 0]], np.ones(5), [1], 2),
    "fourier-l1, a plain coordinate tied": Case("fourier-l1", [[1, 1, np.sqrt(2)]], [1, 1, 0], [1], 1, {"n_plain": 1}),
    "nuclear, one singular value ahead": Case("nuclear", [np.diag([2, 1])], np.diag([1, 0]), [1], 0),
    # H p.s.d. of trace one: dimension 3 - 1.
    "nuclear, a multiple of the identity": Case("nuclear", [np.eye(2)], np.diag([1, 0]), [1], 2),
    # Correlation matrices: H p.s.d. with unit diagonal.
    "nuclear, diagonal rows": Case("nuclear", DIAGONAL, np.eye(3), np.ones(3), 3),
    "nuclear, diagonal rows, at a corner": Case("nuclear", DIAGONAL, np.ones((3, 3)), np.ones(3), 3),
    "spectral, full rank": Case("spectral", [np.diag([2, 1])], np.eye(2), [1], 0),
    "spectral, diagonal rows": Case("spectral", DIAGONAL, np.eye(3), np.ones(3), 0),
    "spectral, rank one": Case("spectral", [np.diag([1, 0])], np.diag([1, 0]), [1], 1),
    "spectral, rank one, at a corner": Case("spectral", [np.diag([1, 0])], np.eye(2), [1], 1),
    "spectral, rank one, wide": Case("spectral", [np.eye(2, 4, 0) * [1, 0, 0, 0]], np.eye(2, 4), [1], 3),
    "l2": Case("l2", [[1, 1], [1, 1]], [1, 1], [1, 1], 0),
    "lp": Case("lp", [[1, 1]], [1, 1], [1], 0, {"p": 3.0}),
    "frobenius": Case("frobenius", [np.eye(2)], np.eye(2), [1], 0),
    "schatten": Case("schatten", [np.eye(2)], np.eye(2), [1], 0, {"p": 1.5}),
    "l1, free intercept": Case("l1", [[4], [-2]], [1], [1, 1], 0, LABELS),
    "l1, free intercept, equal columns": Case("l1", [[4, 4], [-2, -2]], [1, 0], [1, 1], 1, LABELS),
    "linf, free intercept, zero column": Case("linf", [[1, 0], [1, 0]], [1, 0], [1, 1], 1, LABELS),
    "nuclear, free intercept": Case("nuclear", [np.eye(2), np.eye(2)], np.eye(2), [1, 1], 2, LABELS),
    "spectral, free intercept, no room": Case("spectral", [[[3]], [[1]]], [[1]], [1, 1], 0, LABELS),
}
MANY = [name for name, case in CASES.items() if case.dimension]
VECTORS_MANY = [name for name in MANY if np.ndim(CASES[name].rows) == 2]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [1.0, 1e150, 1e-150, 3.7])
def test_the_dimension_is_that_of_the_closed_form_at_every_scale(name, factor):
    face = CASES[name].face(factor)
    assert face.unique is (CASES[name].dimension == 0)
    assert face.dimension == CASES[name].dimension
    assert face.reason.endswith(".")


@pytest.mark.parametrize("name", MANY)
def test_the_second_point_is_optimal_and_elsewhere(name):
    case = CASES[name]
    limit, face = case.limit(), case.face()
    first = limit.certify(case.point, case.multipliers)
    second = limit.certify(face.other, case.multipliers, intercept=face.other_intercept)
    # Each bound is right within its own rounding error.
    assert second.lower >= first.upper - first.slack - second.slack
    apart = face.other / limit.norm_of(face.other) - np.array(case.point) / limit.norm_of(case.point)
    assert face.spread == pytest.approx(limit.norm_of(apart), rel=1e-12)  # a few roundings
    assert face.spread > 0.1


@pytest.mark.parametrize("name", VECTORS_MANY)
def test_the_ranges_hold_both_points(name):
    case, face = CASES[name], CASES[name].face()
    first = case.limit().certify(case.point, case.multipliers).point
    room = 1e-9 * np.abs(first).max()  # accuracy of the linear programs
    for point in (first, face.other):
        assert (face.lowest - room <= point).all()
        assert (point <= face.highest + room).all()


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [
        ("l1, equal columns", [0, 0], [1, 1]),
        ("l1, equal columns, midway", [0, 0, 0], [1, 1, 0]),
        ("l1, opposite columns", [0, -1], [1, 0]),
        ("l1, tied, partly stopped by a row", [0, 0, 0], [1, 0, 1]),
        ("linf, zero column", [1 / 3, -1 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]),
        ("linf, a slack row", [1, -1], [1, 1]),
        ("group-l1, tied groups", [0, 0, 0, 0], [3 / 25, 4 / 25, 1 / 5, 0]),
        ("fourier-l1, a unit vector", [1, -1, -1, -1], [1, 1, 1, 1]),
        ("l1, free intercept, equal columns", [0, 0], [1 / 3, 1 / 3]),
        ("linf, free intercept, zero column", [1, -1], [1, 1]),
    ],
)
def test_ranges_in_closed_form(name, lowest, highest):
    case = CASES[name]
    if name == "l1, free intercept, equal columns":
        case = case._replace(rows=[[4, 4], [2, 2]])  # half of 4 + 2 is the margin
    face = case.face()
    np.testing.assert_allclose(face.lowest, lowest, atol=1e-9)  # accuracy of the linear programs
    np.testing.assert_allclose(face.highest, highest, atol=1e-9)


@pytest.mark.parametrize("name", VECTORS_MANY)
def test_without_ranges_the_verdict_stays(name):
    face, bare = CASES[name].face(), CASES[name].face(ranges=False)
    assert (bare.unique, bare.dimension) == (face.unique, face.dimension)
    assert bare.spread > 0.1


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.norm in ("l1", "linf")])
def test_order_of_rows_and_columns_changes_nothing(name):
    case = CASES[name]
    rows, p = np.array(case.rows, dtype=float)[::-1, ::-1], np.array(case.multipliers)[::-1]
    more = {**case.more, "labels": case.more["labels"][::-1]} if case.more else {}
    face = case._replace(rows=rows, multipliers=p, point=np.array(case.point)[::-1], more=more).face()
    assert face.dimension == case.dimension
    if face.lowest is not None:
        np.testing.assert_allclose(face.lowest[::-1], case.face().lowest, atol=1e-9)  # linear programs


@pytest.mark.parametrize("step", [1e-15, 1e-14, 1e-13, 1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("norm", ["l1", "group-l1", "nuclear"])
def test_a_near_tie_beyond_rounding_is_no_tie(norm, step):
    if norm == "nuclear":
        limit = problem(norm, [np.diag([1, 1 - step])])
        certificate = limit.certify(np.diag([1, 0]), [1])
    else:
        more = {"groups": [0, 1]} if norm == "group-l1" else {}
        limit = problem(norm, [[1, 1 - step]], **more)
        certificate = limit.certify([1, 0], [1])
    face: Any = optimal_face(limit, certificate)
    if face.unique is False:
        second = limit.certify(face.other, [1])
        assert certificate.lower - second.lower <= certificate.slack + second.slack
        assert step < 1e-13
    assert face.unique is True or step < 1e-3
    if norm == "l1":  # the data are the columns, with no rounding in between
        assert face.unique is True or step < 1e-12


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1e-13, 1e-10, 1e-7])
def test_a_pair_that_is_optimal_only_nearly_never_turns_the_verdict_round(name, size, seed):
    case, rng = CASES[name], np.random.default_rng(seed)
    limit = case.limit()
    point = np.array(case.point, dtype=float)
    point = point + size * rng.normal(size=point.shape)
    p = np.array(case.multipliers, dtype=float)
    certificate = limit.certify(point, p + size * rng.exponential(size=p.shape))
    face = optimal_face(limit, certificate)
    assert face.unique in (None, case.dimension == 0)
    if face.unique is False:
        assert face.dimension in (None, case.dimension)


def by_linear_program(limit):
    """An optimal vertex, multipliers, and the range of every coordinate over the optimal face."""
    A, (n, d) = limit.rows, limit.rows.shape
    if limit.norm == "l1":
        cost, columns = np.ones(2 * d), np.hstack([np.eye(d), -np.eye(d)])
        inequalities, bounds = np.hstack([-A, A]), [(0, None)] * (2 * d)
    else:
        cost, columns = np.eye(1, d + 1, d)[0], np.eye(d, d + 1)
        box = [np.hstack([sign * np.eye(d), -np.ones((d, 1))]) for sign in (1, -1)]
        inequalities, bounds = np.vstack([np.hstack([-A, np.zeros((n, 1))]), *box]), [(None, None)] * (d + 1)
    right = np.append(-np.ones(n), np.zeros(len(inequalities) - n))
    best = linprog(cost, A_ub=inequalities, b_ub=right, bounds=bounds)
    if best.status:
        return None
    on_face = {"A_ub": np.vstack([inequalities, cost]), "b_ub": np.append(right, best.fun * (1 + 1e-11))}
    lowest = np.array([linprog(row, **on_face, bounds=bounds).fun for row in columns])
    highest = np.array([-linprog(-row, **on_face, bounds=bounds).fun for row in columns])
    return columns @ best.x, -best.ineqlin.marginals[:n], lowest, highest


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_small_whole_numbers_agree_with_linear_programs(norm):
    rng, seen = np.random.default_rng(0), []
    for _ in range(60):
        rows = rng.integers(-2, 3, size=rng.integers(1, 7, size=2)).astype(float)
        limit = problem(norm, rows)
        reference = by_linear_program(limit)
        if reference is None:
            continue
        point, p, lowest, highest = reference
        face: Any = optimal_face(limit, limit.certify(point, p))
        unique = bool((highest - lowest).max() < 1e-6)  # whole numbers up to 2: a range is 0 or far above this
        assert face.unique is unique
        seen.append(unique)
        if not unique:
            np.testing.assert_allclose(face.lowest, lowest, atol=1e-6)  # the reference allows 1e-7 each way
            np.testing.assert_allclose(face.highest, highest, atol=1e-6)
    assert {True, False} <= set(seen)


def test_a_penalised_intercept_is_a_coordinate():
    limit = problem("l1", [[1.0]], intercept="penalised", labels=[1])
    face = optimal_face(limit, limit.certify([1.0], [1.0], intercept=0.0))
    assert (face.unique, face.dimension) == (False, 1)
    assert face.other_intercept == pytest.approx(1.0, abs=1e-9)  # linear program
    assert face.other is not None
    assert face.lowest is not None
    assert face.other.shape == face.lowest.shape == (1,)
    limit = problem("l1", [[1.5]], intercept="penalised", labels=[1])
    assert optimal_face(limit, limit.certify([1.0], [1.0], intercept=0.0)).unique is True


def test_an_optimum_without_strict_complementarity_is_no_face_at_low_accuracy():
    # W_13 = 1 leaves the second row (x, y, 0) with |(x, y)| <= 1, and W_22 - W_12 >= 1 forces y = 1. That row has no
    # multiplier, and x may be as large as the square root of what y lacks.
    rows = np.zeros((2, 2, 3))
    rows[0, 0, 2], rows[1, 0, 1], rows[1, 1, 1] = 1, -1, 1
    limit = problem("spectral", rows)
    for lack in (0.0, 1e-12, 1e-9):
        point = np.array([[0, 0, 1], [np.sqrt(2 * lack - lack**2), 1 - lack, 0]])
        assert optimal_face(limit, limit.certify(point, [1, 0])).unique is not False
    # A pair of an interior-point method, gap 1e-13: x may move by 3e-4 within its bounds.
    point = [[-7.13649842e-9, -2.58642745e-7, 1], [2.65367468e-5, 9.99999842e-1, 2.58604186e-7]]
    certificate = limit.certify(point, [1 - 1.961e-7, 1.961e-7])
    assert certificate.gap < 1e-12
    assert optimal_face(limit, certificate).unique is not False


def test_rows_that_hardly_move_a_direction_do_not_fix_it():
    rows = np.zeros((1, 2, 2))
    rows[0] = [[1, 0], [0, 1e-11]]
    limit = problem("spectral", rows)
    # Exact: W = I. But a point with 0 for 1 is as good up to 1e-11, and such a pair may not be called unique.
    assert optimal_face(limit, limit.certify(np.diag([1.0, 0.0]), [1.0])).unique is None


def test_many_free_coordinates_are_a_face_without_ranges():
    rows = np.zeros((1, 500))
    rows[0, 0] = 1
    limit = problem("linf", rows)
    face = optimal_face(limit, limit.certify(rows[0], [1.0]))
    assert (face.unique, face.dimension, face.lowest) == (False, 499, None)
    rows = np.stack([np.diag(row) for row in np.eye(30)])
    limit = problem("nuclear", rows)
    face = optimal_face(limit, limit.certify(np.eye(30), np.ones(30)))
    assert (face.unique, face.dimension) == (False, 30 * 29 // 2)


def test_factors_and_sparse_rows_are_as_good_as_dense():
    import scipy.sparse

    left = np.eye(3)
    limit = MaxMargin("nuclear", left=left, right=left)
    assert optimal_face(limit, limit.certify(np.eye(3), np.ones(3))).dimension == 3
    for norm in ("l1", "linf"):
        limit = MaxMargin(norm, rows=scipy.sparse.csr_array(np.array([[1.0, 1.0, 0.0]])))
        assert optimal_face(limit, limit.certify([1, 1, 0], [1])).dimension == 1


def test_nothing_is_said_without_a_margin_or_at_a_large_gap():
    limit = problem("l1", [[1, 0], [-1, 0]])
    face = optimal_face(limit, limit.certify([1, 0], [1, 1]))
    assert (face.unique, face.reason) == (None, "no positive margin is certified (lower bound -1.0e+00).")
    limit = problem("l1", [[1, 0.5]])
    face = optimal_face(limit, limit.certify([1, 1e-5], [1]))
    assert (face.unique, face.reason) == (None, "the certificate's gap, 5.0e-06, exceeds 1e-06.")
    limit = problem("l2", [[1, 0.5]])
    assert optimal_face(limit, limit.certify([1, 0], [1])).unique is True


def test_margin_ratio_is_one_on_the_face_only():
    case = CASES["l1, equal columns"]
    limit, other = case.limit(), case.face().other
    assert other is not None
    certificate = limit.certify(case.point, case.multipliers)
    for point in (case.point, other, [2.0, 3.0]):
        # One rounding of the margin, one of the norm, one of the bound.
        assert margin_ratio(limit, point, certificate) == pytest.approx(1, rel=4e-16)
    assert margin_ratio(limit, [3.0, -1.0], certificate) == pytest.approx(0.5, rel=4e-16)
    assert margin_ratio(limit, [-1.0, 0.0], certificate) == -1
    limit = problem("l1", [[4], [-2]], intercept="free", labels=[1, -1])
    certificate = limit.certify([1], [1, 1])
    assert margin_ratio(limit, [7], certificate) == 1
    assert margin_ratio(limit, [1], certificate, intercept=-2.0) == 0
    limit = problem("l1", [[1], [-1]])
    assert np.isnan(margin_ratio(limit, [1], limit.certify([1], [1, 1])))


def test_a_certificate_of_another_problem_is_refused():
    limit = problem("l1", [[1, 0.5]])
    other = problem("l1", [[1, 2, 3], [2, 1, 0]])
    for ask in (optimal_face, lambda a, c: margin_ratio(a, [1, 0], c)):
        with pytest.raises(ValueError, match="belongs to another problem") as raised:
            ask(limit, other.certify([1, 1, 1], [1, 1]))
        assert str(raised.value) == (
            "`certificate` belongs to another problem: it has a point of shape (3,) and 2 multipliers, "
            "the limit has points of shape (2,) and 1 constraints."
        )
    certificate = dataclasses.replace(limit.certify([1, 0], [1]), intercept_kind="free")
    with pytest.raises(ValueError, match="its intercept is 'free', the limit's 'none'"):
        optimal_face(limit, certificate)


def test_a_point_that_is_not_quite_the_optimum_shows_nothing_of_a_tie():
    """Columns that differ by fifty units of the last place: the middle of the two is not optimal, beyond slack."""
    limit = MaxMargin("l1", rows=[[1.0, 1 + 1e-14]])
    assert optimal_face(limit, limit.certify([0.5, 0.5], [1.0])).unique is not False


@pytest.mark.parametrize("norm", ["nuclear", "spectral"])
def test_a_matrix_of_one_row_has_one_singular_value(norm):
    limit = MaxMargin(norm, rows=np.array([[[1.0, 2.0, 3.0]], [[2.0, 1.0, 3.0]]]))
    assert optimal_face(limit, limit.certify([[1.0, 1.0, 2.0]], [1.0, 1.0])).unique is True


def test_a_certificate_of_other_data_is_refused():
    limit = MaxMargin("l1", rows=[[1.0, 2.0], [2.0, 1.0]])
    certificate = limit.certify([1.0, 1.0], [1.0, 1.0])
    other = MaxMargin("l1", rows=[[3.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="belongs to other data") as caught:
        optimal_face(other, certificate)
    assert str(caught.value) == (
        "`certificate` belongs to other data: its multipliers give the upper bound 1.5 there and 2.5 here."
    )
    with pytest.raises(TypeError, match="solution") as wrong_type:
        optimal_face(limit, solve(limit))  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert str(wrong_type.value) == (
        "`certificate` must be a Certificate; got Solution. A solution has one: `solution.certificate`."
    )


@pytest.mark.parametrize("e", [1e-13, 1e-12, 1e-11, 1e-10, 9e-10, 1e-9, 5e-9, 1e-8, 1e-4])
def test_a_nearly_equal_column_does_not_hide_that_two_are_equal(e):
    """The third column is near a tie; directions next to it are blurred, and the tie of the first two must show."""
    limit = MaxMargin("l1", rows=[[1, 1, 1 - e]])
    assert optimal_face(limit, limit.certify([1.0, 0, 0], [1.0])).unique is not True
