"""Arrangements: brute force, Whitney's and Cover's counts, Euler's relation, areas, thin cells, scales, refusals."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.limits._arrangement_count import _PRIMES, count_cells, in_general_position
from omegalimit.limits._arrangement_integers import exact_signs, floats_of, integer_rows, null_vectors
from omegalimit.limits.arrangement import Arrangement, augmented, cover_count, face_count


def refusal(make, kind: type[Exception] = ValueError) -> str:
    """The message with which `make` refuses, which the tests then compare in full."""
    with pytest.raises(kind) as refused:
        make()
    return str(refused.value)


def gaussian(seed: int, n: int, D: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, D))


def signs_of(rows, u) -> tuple[int, ...]:
    """The signs of `rows @ u` in rational numbers: the reference for every sign here."""
    products = [sum((Fraction(a) * Fraction(b) for a, b in zip(row, u, strict=True)), Fraction(0)) for row in rows]
    return tuple((p > 0) - (p < 0) for p in products)


def patterns_in_box(rows: np.ndarray, size: int) -> set[tuple[int, ...]]:
    """The patterns of all nonzero integer vectors of entries up to `size`; doubles hold these products exactly."""
    axes = np.meshgrid(*[np.arange(-size, size + 1.0)] * rows.shape[1], indexing="ij")
    vectors = np.stack([axis.ravel() for axis in axes], axis=1)
    vectors = vectors[vectors.any(axis=1)]
    powers = 3 ** np.arange(len(rows))
    codes = np.unique(
        sum((1 + np.sign(vectors @ row)).astype(int) * power for row, power in zip(rows, powers, strict=True))
    )
    return {tuple(row) for row in (codes[:, None] // powers % 3 - 1).tolist()}


def whitney_count(rows: np.ndarray) -> int:
    """`sum_S (-1)^(|S| - rank S)` over all sets of rows (Whitney; Zaslavsky), ranks of small integers."""
    total = 1
    for k in range(1, len(rows) + 1):
        for S in itertools.combinations(range(len(rows)), k):
            total += (-1) ** (k - int(np.linalg.matrix_rank(rows[list(S)])))
    return total


def as_sets(arrangement: Arrangement) -> tuple[set, set]:
    cells, faces = arrangement.cells().signs.tolist(), arrangement.faces().signs.tolist()
    found = {tuple(s) for s in cells}, {tuple(s) for s in faces}
    assert (len(found[0]), len(found[1])) == (len(cells), len(faces))  # each once
    return found


GRID = np.array(list(itertools.product(range(4), repeat=2)), dtype=float)


# Against brute force, exactly.


# In each face of dimension k lies the sum of some k of its rays, whose entries are minors: at most 1, 2 and 8 for
# entries up to two in one, two and three dimensions, 4 for entries up to one in four. So these boxes miss no face.
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_all_patterns_and_no_other(data):
    """Repeated, parallel, opposite and dependent rows, of any rank, arise by themselves among small integers."""
    D = data.draw(st.integers(1, 3))
    entry = st.integers(-2, 2)
    row = st.lists(entry, min_size=D, max_size=D).filter(any)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=6)))
    arrangement = Arrangement(rows)
    cells, faces = as_sets(arrangement)
    expected = patterns_in_box(rows, {1: 1, 2: 4, 3: 24}[D])
    assert faces == expected
    assert cells == {s for s in expected if all(s)}
    assert len(cells) == arrangement.n_cells == count_cells(arrangement._quotient[0]) == whitney_count(rows)
    size = min(rows.shape)
    subsets = itertools.combinations(range(len(rows)), size)
    assert arrangement.general_position == all(np.linalg.matrix_rank(rows[list(S)]) == size for S in subsets)


@pytest.mark.parametrize("seed", range(3))
def test_four_dimensions_by_brute_force(seed):
    rows = np.random.default_rng(seed).integers(-1, 2, (6, 4))
    rows = rows[rows.any(axis=1)]
    cells, faces = as_sets(Arrangement(rows))
    expected = patterns_in_box(rows, 16)
    assert faces == expected
    assert cells == {s for s in expected if all(s)}


# Counts.


@pytest.mark.parametrize(
    ("n", "D"), [(1, 1), (5, 1), (1, 3), (6, 2), (3, 3), (10, 3), (30, 3), (70, 3), (12, 4), (9, 5), (8, 9), (12, 11)]
)
def test_general_position_has_covers_count(n, D):
    """Below and above 63 hyperplanes, where the keys change; and fewer rows than columns."""
    arrangement = Arrangement(gaussian(n, n, D))
    cells = arrangement.cells()
    assert len(cells) == arrangement.n_cells == cover_count(n, D)
    assert arrangement.general_position
    assert cells.certified.all()
    if n <= D:
        assert len(cells) == 2**n


def test_the_pages_number():
    X = np.random.default_rng(0).standard_normal((5, 2))
    arrangement = Arrangement.of_inputs(X)
    assert len(arrangement.cells()) == arrangement.n_cells == cover_count(5, 3) == 22


@pytest.mark.parametrize(("n", "D"), [(5, 2), (3, 3), (10, 3), (45, 3), (7, 4), (7, 8)])
def test_face_counts_in_general_position(n, D):
    """Of dimension k those of `C(n, D - k)` flats; above 39 hyperplanes the ternary keys change."""
    faces = Arrangement(gaussian(n, n, D)).faces()
    assert len(faces) == face_count(n, D)
    for k in range(1, D + 1):
        expected = math.comb(n, D - k) * cover_count(n - D + k, k) if n > D - k else int(k == D - n)
        assert (faces.dimensions == k).sum() == expected


@pytest.mark.parametrize("rows", [gaussian(0, 9, 3), gaussian(1, 7, 4), augmented(GRID), gaussian(2, 4, 2)], ids=len)
def test_eulers_relation(rows):
    """On the sphere `sum_k (-1)^(k - 1) f_k = 1 + (-1)^(D - 1)`, in general position or not."""
    D = rows.shape[1]
    dimensions = Arrangement(rows).faces().dimensions
    assert sum((-1) ** (int(k) - 1) for k in dimensions) == 1 + (-1) ** (D - 1)


def test_a_grid_has_fewer():
    """Whitney's sum over its sets of 16 collinear-rich inputs would be long: the count goes by restriction instead."""
    arrangement = Arrangement.of_inputs(GRID)
    assert not arrangement.general_position
    P = Arrangement.of_inputs(GRID).n_cells
    assert len(arrangement.cells()) == P < cover_count(16, 3)
    # Straight cuts of the 4 x 4 grid in pairs: the number of linear threshold functions of two 4-valued inputs.
    weights = range(-12, 13)
    cuts = {
        tuple(np.sign(augmented(GRID) @ (2 * a, 2 * b, 2 * c + 1)))
        for a, b in itertools.product(weights, repeat=2)
        for c in range(-40, 41)
    }
    assert len(cuts) == P


def test_repeated_and_opposite_rows_add_nothing():
    X = gaussian(3, 5, 3)
    plain = Arrangement(X).cells()
    again = Arrangement(np.concatenate([X, X[:2], -4 * X[2:3]])).cells()
    assert np.array_equal(again.signs[:, :5], plain.signs)
    assert np.array_equal(again.signs[:, 5:7], plain.signs[:, :2])
    assert np.array_equal(again.signs[:, 7], -plain.signs[:, 2])
    assert np.array_equal(again.points, plain.points)


def test_counting_in_hyperplanes_agrees_with_the_enumeration():
    """Two ways that share no code past the rows; the cube in four dimensions has 1882 threshold functions (known)."""
    cube = Arrangement.of_inputs(np.array(list(itertools.product((0.0, 1.0), repeat=4))))
    assert count_cells(cube._quotient[0]) == 1882
    assert len(cube.cells()) == 1882
    assert count_cells(cube._quotient[0], most=100) > 100


def test_general_position_is_decided_exactly():
    """One dependent subset among 1.9 million at the very end, and the same rows with one entry one ulp off."""
    rows = np.random.default_rng(4).integers(-(2**20), 2**20, (24, 7)).astype(float)
    rows[-1] = rows[-2] - rows[-3] + 2 * rows[-4] + rows[-5] + rows[-6] - rows[-7]
    assert not Arrangement(rows).general_position
    rows[-1, 0] = np.nextafter(rows[-1, 0], np.inf)
    assert Arrangement(rows).general_position


def test_minors_that_the_primes_divide_are_not_zero():
    rows = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [math.prod(_PRIMES), 1, 1]], dtype=object)
    assert in_general_position(rows)
    rows[3, 0] = 0
    assert not in_general_position(rows)


# Points, rays, patterns.


@pytest.mark.parametrize("rows", [gaussian(0, 8, 3), gaussian(1, 6, 4), augmented(GRID), gaussian(2, 3, 5)], ids=len)
def test_points_and_witnesses_have_their_signs(rows):
    arrangement = Arrangement(rows)
    cells = arrangement.cells()
    assert cells.certified.all()
    for signs, point in zip(cells.signs, cells.points, strict=True):
        assert signs_of(rows, point) == tuple(signs)
        witness = arrangement.witness(signs)
        assert witness is not None
        assert signs_of(rows, witness) == tuple(signs)
    # Three roundings of a sum of squares, a root and a quotient.
    np.testing.assert_allclose(np.linalg.norm(cells.points, axis=1), 1, atol=1e-15)
    assert np.array_equal(arrangement.pattern(cells.points), cells.signs)


@pytest.mark.parametrize(
    "rows", [gaussian(0, 7, 3), gaussian(1, 6, 4), augmented(GRID[:9]), gaussian(2, 3, 5)], ids=len
)
def test_every_face_has_a_witness(rows):
    arrangement = Arrangement(rows)
    faces = arrangement.faces()
    for signs in faces.signs:
        witness = arrangement.witness(signs)
        assert witness is not None
        assert any(witness)
        assert signs_of(rows, witness) == tuple(signs)
    # A face's point is off its hyperplanes by rounding only: projected back, it has the pattern.
    assert np.array_equal(arrangement.pattern(faces.points, zeros=faces.signs == 0), faces.signs)
    assert np.array_equal(
        arrangement.pattern(arrangement.rays, zeros=arrangement.ray_signs == 0), arrangement.ray_signs
    )


def test_what_is_no_pattern_has_no_witness():
    arrangement = Arrangement([[1, 0], [0, 1], [1, 1]])
    assert arrangement.witness([1, 1, -1]) is None
    assert arrangement.witness([0, 0, 0]) is None
    assert arrangement.witness([1, 0, 0]) is None
    assert arrangement.cells().index([1, 1, -1]) is None
    index = arrangement.cells().index([1, -1, 1])
    assert index is not None
    assert arrangement.cells().signs[index].tolist() == [1, -1, 1]


def test_rays_come_with_their_opposites():
    arrangement = Arrangement(gaussian(5, 6, 3))
    half = len(arrangement.rays) // 2
    assert half == math.comb(6, 2)
    assert np.array_equal(arrangement.rays[half:], -arrangement.rays[:half])
    assert np.array_equal(arrangement.ray_signs[half:], -arrangement.ray_signs[:half])


@pytest.mark.parametrize("rows", [gaussian(0, 8, 3), augmented(GRID), gaussian(3, 3, 3)], ids=len)
def test_corners_in_order_cover_the_sphere(rows):
    """The areas of the polygons, fanned from their first corners counter-clockwise, are positive and sum to `4 pi`."""
    arrangement = Arrangement(rows)
    rays, total = arrangement.rays, 0.0
    for k in range(len(arrangement.cells())):
        at = arrangement.vertices_of(k)
        for b, c in itertools.pairwise(at[1:]):
            A, B, C = rays[at[0]], rays[b], rays[c]
            area = 2 * math.atan2(np.linalg.det([A, B, C]), 1 + A @ B + B @ C + C @ A)
            assert area > 0
            total += area
        for a, b in zip(at, np.roll(at, -1), strict=True):
            assert ((arrangement.ray_signs[a] == 0) & (arrangement.ray_signs[b] == 0)).any()
    # A few hundred triangles of a few ulp each.
    assert total == pytest.approx(4 * math.pi, abs=1e-11)


def test_ends_in_order_cover_the_circle():
    arrangement = Arrangement(gaussian(0, 5, 2))
    total = 0.0
    for k in range(len(arrangement.cells())):
        a, b = arrangement.rays[arrangement.vertices_of(k)]
        angle = math.atan2(a[0] * b[1] - a[1] * b[0], a @ b)
        assert angle > 0
        total += angle
    assert total == pytest.approx(2 * math.pi, abs=1e-13)


def test_corners_of_any_face():
    arrangement = Arrangement(gaussian(1, 6, 4))
    faces = arrangement.faces()
    for signs, dimension in zip(faces.signs, faces.dimensions, strict=True):
        at = arrangement.vertices_of(signs)
        closed = arrangement.ray_signs[at]
        assert ((closed == 0) | (closed == signs)).all()
        assert np.array_equal(np.sign(closed.sum(axis=0)), signs)
        assert np.linalg.matrix_rank(arrangement.rays[at]) == dimension


def test_rows_that_do_not_span():
    """Inputs on a line of the plane: the cells are those of the line, each times the direction beside it."""
    t = np.array([0.5, -1.25, 2.0, 3.0])
    X = np.outer(t, [1.0, 2.0])
    arrangement = Arrangement.of_inputs(X)
    assert (arrangement.rank, arrangement.general_position) == (2, False)
    assert np.array_equal(arrangement.cells().signs, Arrangement.of_inputs(t[:, None]).cells().signs)
    assert arrangement.n_cells == cover_count(4, 2)
    np.testing.assert_allclose(np.abs(arrangement.lineality), np.array([[2.0, 1.0, 0.0]]) / math.sqrt(5), atol=2e-16)
    faces = arrangement.faces()
    zero = np.flatnonzero(~faces.signs.any(axis=1))
    assert faces.dimensions[zero].tolist() == [1]
    assert np.array_equal(faces.signs, faces.signs[np.lexsort(-faces.signs.T[::-1])])
    whole = arrangement.completed()
    assert whole.rank == 3
    assert np.array_equal(whole.rows[:4], arrangement.rows)
    assert {tuple(s) for s in whole.cells().signs[:, :4].tolist()} == as_sets(arrangement)[0]
    assert whole.completed() is whole


# Thin cells, scales, kinds of numbers.


@pytest.mark.parametrize("seed", range(6))
def test_three_lines_that_miss_one_point_by_an_ulp(seed):
    """Exactly concurrent: 6 cells. One entry an ulp off: 8, and two of them are thinner than a double sees."""
    integers = np.random.default_rng(seed).integers(-(2**30), 2**30, (2, 3)) / 2.0**30
    rows = np.concatenate([integers, integers.sum(axis=0, keepdims=True)])
    assert len(Arrangement(rows).cells()) == Arrangement(rows).n_cells == 6
    for towards in (-np.inf, np.inf):
        off = rows.copy()
        off[2, 0] = np.nextafter(off[2, 0], towards)
        arrangement = Arrangement(off)
        cells = arrangement.cells()
        assert len(cells) == arrangement.n_cells == 8
        assert as_sets(arrangement)[0] == set(itertools.product((-1, 1), repeat=3))
        for signs, point, certified in zip(cells.signs, cells.points, cells.certified, strict=True):
            assert (signs_of(off, point) == tuple(signs)) == certified
            witness = arrangement.witness(signs)
            assert witness is not None
            assert signs_of(off, witness) == tuple(signs)


def test_a_cell_without_doubles_says_so():
    """Between two consecutive convergents of the golden ratio beyond 10**40 no pair of doubles has its direction."""
    a, b = 1, 1
    while b < 10**40:
        a, b = b, a + b
    arrangement = Arrangement([[b, -a], [a + b, -b]])
    cells = arrangement.cells()
    assert cells.certified.tolist().count(False) == 2
    thin = cells.signs[~cells.certified]
    assert np.array_equal(thin[0], -thin[1])
    for signs in cells.signs:
        witness = arrangement.witness(signs)
        assert witness is not None
        assert signs_of([[b, -a], [a + b, -b]], witness) == tuple(signs)


@pytest.mark.parametrize("exponent", [-1000, -500, 500, 1000])
def test_scale_free(exponent):
    """Rows times powers of two change no digit; with a bias the columns scale apart, and no sign changes."""
    X = gaussian(7, 7, 2)
    plain = Arrangement(augmented(X))
    scaled = Arrangement(np.ldexp(augmented(X), exponent))
    assert np.array_equal(scaled.cells().points, plain.cells().points)
    apart = Arrangement.of_inputs(np.ldexp(X, exponent))
    assert np.array_equal(apart.cells().signs, plain.cells().signs)
    assert np.array_equal(apart.faces().signs, plain.faces().signs)
    assert apart.cells().certified.all()


def test_the_order_of_rows_only_orders():
    X = gaussian(8, 8, 3)
    order = np.random.default_rng(0).permutation(8)
    assert as_sets(Arrangement(X[order]))[0] == {tuple(np.array(s)[order]) for s in as_sets(Arrangement(X))[0]}


def test_integers_fractions_and_floats_are_taken_exactly():
    big = 2**80
    exact = [[Fraction(1, 3), 1], [big + 1, 3 * big + 3], [big, 3 * big + 1]]
    arrangement = Arrangement(exact)
    assert arrangement.n_hyperplanes == 2  # the first two are parallel, the third misses them by one part in 2**80
    assert arrangement.rows.dtype == np.float64
    assert len(arrangement.cells()) == 4
    assert arrangement.pattern([-3.0, 1.0]).tolist() == [0, 0, 1]
    assert Arrangement([[2**63, -1], [2**63 + 1, -1]]).n_hyperplanes == 2
    assert Arrangement(np.array([[0.1, 1]], dtype=np.float32)).pattern([-1.0, float(np.float32(0.1))]).tolist() == [0]
    assert Arrangement([[0.1, 1]]).pattern([-1.0, float(np.float32(0.1))]).tolist() == [1]


def test_the_filter_and_the_integers_agree():
    """Null vectors times their rows: zeros that no float sees, next to signs of one part in 2**90."""
    rows = integer_rows(gaussian(9, 9, 4), "rows")
    vectors = null_vectors(rows)
    signs = exact_signs(vectors, rows)
    products = vectors.dot(rows.T)
    assert np.array_equal(signs, np.array([[(p > 0) - (p < 0) for p in row] for row in products.tolist()]))
    assert ((signs == 0).sum(axis=1) == 3).all()
    assert (np.sign(floats_of(vectors) @ floats_of(rows).T) != signs).any()  # which floats alone would get wrong


def test_patterns_of_doubles_are_exact():
    arrangement = Arrangement([[0.1, 0.2, 0.3], [1.0, 0.0, 0.0]])
    u = np.array([1.0, 1.0, -1.0])
    # 0.1 + 0.2 rounds to more than 0.3; the doubles themselves sum to more, by 2.8e-17.
    assert arrangement.pattern(u).tolist() == list(signs_of(arrangement.rows, u)) == [1, 1]
    assert arrangement.pattern(u, zeros=[True, False]).tolist() == [0, 1]
    assert arrangement.pattern([u, -u], zeros=[[True, False], [False, True]]).tolist() == [[0, 1], [1, 0]]
    dependent = Arrangement([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    assert dependent.pattern([1e-9, -1e-9, 1.0], zeros=[True, True, False]).tolist() == [0, 0, 0]


# Refusals.


def test_too_many_are_counted_and_refused():
    X = gaussian(0, 32, 8)
    assert refusal(lambda: Arrangement.of_inputs(X).cells()) == (
        "These 32 inputs of 8 columns have more than 200 000 dichotomies, up to 22 921 898 (Cover's count); at most "
        "200 000 are enumerated. Take fewer inputs or fewer columns, or raise `most`."
    )
    assert refusal(lambda: Arrangement.of_inputs(X[:24]).faces()) == (
        "These 24 inputs of 8 columns have 1 761 940 dichotomies (Cover's count); at most "
        "200 000 are enumerated. Take fewer inputs or fewer columns, or raise `most`."
    )
    assert cover_count(24, 9) == Arrangement.of_inputs(X[:24]).n_cells == 1761940
    assert refusal(lambda: Arrangement(X[:10, :3]).cells(most=91)) == (
        "These 10 rows of 3 columns have 92 dichotomies (Cover's count); at most 91 are enumerated. "
        "Take fewer inputs or fewer columns, or raise `most`."
    )
    assert len(Arrangement(X[:10, :3]).cells(most=92)) == 92
    assert refusal(lambda: Arrangement(X[:10, :3]).faces(most=361)) == (
        "These 10 rows of 3 columns have more than 361 ternary patterns (at most 362); at most 361 are enumerated. "
        "Take fewer inputs or fewer columns, or raise `most`."
    )
    assert len(Arrangement(X[:10, :3]).faces(most=362)) == 362


def test_degenerate_rows_are_refused_by_their_own_count():
    """The grid has fewer cells than Cover's count: a limit between the two lets it pass, one below does not."""
    P = Arrangement.of_inputs(GRID).n_cells
    assert len(Arrangement.of_inputs(GRID).cells(most=P)) == P
    assert refusal(lambda: Arrangement.of_inputs(GRID).cells(most=P - 1)) == (
        f"These 16 inputs of 2 columns have more than {P - 1} dichotomies, up to {cover_count(16, 3)} (Cover's count); "
        f"at most {P - 1} are enumerated. Take fewer inputs or fewer columns, or raise `most`."
    )
    F = len(Arrangement.of_inputs(GRID).faces())
    assert refusal(lambda: Arrangement.of_inputs(GRID).faces(most=F - 1)) == (
        f"These 16 inputs of 2 columns have more than {F - 1} ternary patterns (at most {face_count(16, 3)}); "
        f"at most {F - 1} are enumerated. Take fewer inputs or fewer columns, or raise `most`."
    )


def test_too_many_signs_are_refused():
    """50 000 inputs of one column have few dichotomies, and each has many signs."""
    assert refusal(lambda: Arrangement.of_inputs(np.arange(50000.0)[:, None]).cells()) == (
        "The dichotomies of these 50000 inputs of 1 column have up to 5 000 000 000 signs; at most 268 435 456 are "
        "held. Take fewer inputs, or fewer columns."
    )


def test_too_many_to_count():
    """Sixty binary inputs of eight columns: not in general position, and too many to count in one by one."""
    X = np.random.default_rng(0).integers(0, 2, (60, 8)).astype(float)
    arrangement = Arrangement.of_inputs(X)
    m = arrangement.n_hyperplanes
    assert m < 60
    assert refusal(lambda: arrangement.n_cells) == (
        "The dichotomies of these 60 inputs of 8 columns are too many to count in minutes; there are at most "
        f"{cover_count(m, 9):,} (Cover's count). Take fewer inputs, or fewer columns.".replace(",", " ", 3)
    )
    unsettled = Arrangement(gaussian(0, 60, 9))
    assert unsettled.general_position is None
    assert refusal(lambda: Arrangement(gaussian(0, 26, 9)).cells(most=10**8)) == (
        "The cells of these 26 rows of 9 columns have corners on 1 562 275 subsets of the rows; at most 1 000 000 are "
        "looked at. Take fewer inputs, or fewer columns."
    )
    assert refusal(lambda: Arrangement(gaussian(0, 99, 20)).cells()) == (
        "These 99 rows of 20 columns have more than 200 000 dichotomies, up to about 10^20 (Cover's count); at most "
        "200 000 are enumerated. Take fewer inputs or fewer columns, or raise `most`."
    )


def test_refusals_at_the_door():
    assert refusal(lambda: Arrangement([[1.0, 2.0], [0.0, 0.0]])) == (
        "`rows[1]` is zero: no direction lies on either side of it. Leave the row out "
        "(an input of zeros without bias never switches a neuron on)."
    )
    assert refusal(lambda: Arrangement(np.zeros((0, 3)))) == (
        "`rows` must have shape (n, D) and at least one entry; got (0, 3)."
    )
    assert refusal(lambda: Arrangement([[1.0, np.nan]])) == "`rows[0, 1]` is nan; every entry must be finite."
    assert refusal(lambda: Arrangement(np.array([[1.0, np.inf]]))) == (
        "`rows[0, 1]` is inf; every entry must be finite."
    )
    assert refusal(lambda: Arrangement([1.0, 2.0])) == "`rows` must have shape (n, D); got (2,)."
    assert refusal(lambda: Arrangement([[1.0, 2.0], [3.0]])) == (
        "`rows` is not a rectangular array of numbers: its rows differ in length."
    )
    assert refusal(lambda: Arrangement([["a", 1]]), TypeError) == (
        "`rows[0, 0]` is 'a'; it must be a float, an integer or a fraction."
    )
    assert (
        refusal(lambda: augmented(np.zeros((0, 2)))) == "`X` must have shape (n, d) and at least one entry; got (0, 2)."
    )
    assert refusal(lambda: augmented([[1.0, np.nan]])) == "`X[0, 1]` is nan; every entry must be finite."
    assert augmented([[2.0]], bias=False).tolist() == [[2.0]]
    assert augmented([[2.0]]).tolist() == [[2.0, 1.0]]
    assert refusal(lambda: cover_count(0, 3)) == "`n` must be at least 1; got 0."
    assert refusal(lambda: Arrangement([[1.0]]).cells(most=0)) == "`most` must be at least 1; got 0."


def test_refusals_of_questions():
    arrangement = Arrangement([[1.0, 0.0], [0.0, 1.0]])
    assert refusal(lambda: arrangement.pattern([1.0])) == "`u` must have shape (2,) or (k, 2); got (1,)."
    assert refusal(lambda: arrangement.pattern([[1.0, 2.0], [0.0, 0.0]])) == (
        "`u[1]` is zero; a pattern needs a direction."
    )
    assert refusal(lambda: arrangement.pattern([1.0, 2.0], zeros=[True, True])) == (
        "`u` is zero once projected on the hyperplanes of `zeros`; a pattern needs a direction."
    )
    assert refusal(lambda: arrangement.pattern([1.0, 2.0], zeros=[0, 1])) == (
        "`zeros` must be a mask of shape (2,); got int64 of shape (2,)."
    )
    assert refusal(lambda: arrangement.witness([2, 0])) == (
        "`signs` must have shape (2,) and hold only -1, 0 and +1; got [2, 0]."
    )
    assert refusal(lambda: arrangement.vertices_of([1, 7])) == ("The signs in `cell` must be -1, 0 or +1; got [1, 7].")
    n_cells = len(arrangement.cells())
    sparse: Any = scipy.sparse.csr_array(np.eye(2))
    for cell in (99, -1):
        assert refusal(lambda cell=cell: arrangement.vertices_of(cell)) == (
            f"`cell` must be an index from 0 to {n_cells - 1}, as there are {n_cells} cells; got {cell}."
        )
    assert refusal(lambda: arrangement.cells().index([1, 1, 1])) == "`signs` must have shape (2,); got (3,)."
    assert refusal(lambda: Arrangement(sparse), TypeError) == ("`rows` is a sparse array; pass `rows.toarray()`.")
    assert refusal(lambda: augmented(sparse), TypeError) == ("`X` is a sparse array; pass `X.toarray()`.")
    assert refusal(lambda: arrangement.vertices_of([1])) == (
        "`cell` must be an index or signs of shape (2,); got shape (1,)."
    )
