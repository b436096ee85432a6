"""The closed formulas for shallow nets against the rank of the differential, expanded monomial by monomial."""

import itertools
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omegalimit.limits.shallow_rank import (
    criticality_threshold,
    generic_shallow_rank,
    generic_threshold,
    shallow_rank,
)
from omegalimit.models.subnetworks import subnetwork_kinds


def power(w, r):
    """The coefficients of `(w'x)^r` by exponent."""
    found = {}
    for e in itertools.product(range(r + 1), repeat=len(w)):
        if sum(e) == r:
            value = math.factorial(r)
            for k, x in zip(e, w, strict=True):
                value = value // math.factorial(k) * Fraction(x) ** k
            found[e] = value
    return found


def times(form, j):
    return {tuple(k + (i == j) for i, k in enumerate(e)): c for e, c in form.items()}


def expanded_rank(rows, outgoing, r):
    """The rank of the Jacobian of weights -> coefficients, over the rationals."""
    rows, outgoing = np.asarray(rows).tolist(), np.asarray(outgoing).tolist()
    h, d, m = len(rows), len(rows[0]), len(outgoing)
    columns = []
    for i in range(h):
        columns += [{(k, e): c for e, c in power(rows[i], r).items()} for k in range(m)]
        lower = power(rows[i], r - 1)
        columns += [
            {(k, e): r * Fraction(outgoing[k][i]) * c for k in range(m) for e, c in times(lower, j).items()}
            for j in range(d)
        ]
    keys = sorted({key for column in columns for key in column})
    whole = [[Fraction(column.get(key, 0)) for key in keys] for column in columns]
    return fmpq_mat([[fmpq(x.numerator, x.denominator) for x in row] for row in whole]).rank()


def integers(shape, seed, least=-2, most=2):
    return np.random.default_rng(seed).integers(least, most + 1, shape)


@pytest.mark.parametrize("h", [2, 3, 4])
def test_in_two_variables_the_rank_is_2h_or_the_room(h):
    rows = np.column_stack([np.ones(h, dtype=int), np.arange(h)])
    for r in range(2, 10):
        found = shallow_rank(rows, r)
        assert found == min(2 * h, r + 1) == expanded_rank(rows, np.ones((1, h), dtype=int), r)
        assert found == generic_shallow_rank((2, h, 1), r)


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2), st.integers(2, 5), st.integers(0, 2**32 - 1))
@example(3, 3, 1, 3, 7)
def test_every_answer_is_the_rank_of_the_expanded_differential(d, h, m, r, seed):
    """Small entries, so that zero rows, proportional rows and zero outgoing weights are common."""
    rows, outgoing = integers((h, d), seed, -1, 1), integers((m, h), seed + 1, -1, 1)
    try:
        found = shallow_rank(rows, r, outgoing=outgoing)
    except ValueError:  # no closed formula: the next test
        return
    assert found == expanded_rank(rows, outgoing, r)


def test_the_formula_refuses_only_where_the_rank_depends_on_the_place_of_the_rows():
    """(3,4,1), r = 4: two sets of four pairwise different rows with two ranks, so no count of classes can decide."""
    general = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]
    special = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    ones = [[1, 1, 1, 1]]
    assert expanded_rank(general, ones, 4) != expanded_rank(special, ones, 4)
    message = (
        "no closed formula gives the rank of 4 different rows in degree 4: it asks for degree 7, or for one output and "
        "rows in one plane. Compute the rank exactly instead."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        shallow_rank(special, 4)


def test_dependent_rows_in_three_variables():
    rows = [[1, 0, 0], [0, 1, 0], [1, 1, 0]]
    assert [shallow_rank(rows, r) for r in (3, 4, 5, 6)] == [7, 8, 9, 9]
    assert [expanded_rank(rows, [[1, 1, 1]], r) for r in (3, 4, 5, 6)] == [7, 8, 9, 9]


def test_outgoing_weights_that_vanish_leave_a_power_and_not_its_derivatives():
    rows = [[1, 0], [1, 1], [1, 2]]
    assert shallow_rank(rows, 5, outgoing=[[1, 1, 0]]) == 5 == expanded_rank(rows, [[1, 1, 0]], 5)
    assert shallow_rank(rows, 4, outgoing=[[1, 1, 0]]) == 5 == shallow_rank(rows, 4)  # no drop: not critical


def test_fractions_and_doubles_are_taken_exactly():
    """0.1 + 0.2 is not 0.3, so these two rows are not proportional; as fractions they are."""
    rows = np.array([[0.1 + 0.2, 1.0], [0.3, 1.0]])
    assert shallow_rank(rows, 5) == 4
    exact = np.array([[Fraction(3, 10), Fraction(1)], [Fraction(3, 5), Fraction(2)]])
    assert shallow_rank(exact, 5) == 2
    for factor in (2.0**-500, 2.0**500):
        assert shallow_rank(rows * factor, 5) == 4


@pytest.mark.parametrize(
    ("d", "h", "r"),
    [(3, 2, 2), (4, 3, 2), (4, 2, 2), (3, 5, 4), (3, 4, 3), (3, 4, 4), (3, 6, 4), (4, 4, 3), (3, 3, 2), (5, 7, 3)],
)
def test_the_generic_rank_is_that_of_random_weights(d, h, r):
    """Alexander and Hirschowitz, exceptions included; random whole numbers below 50 are generic but for 2% at most."""
    rows = integers((h, d), 0, -50, 50)
    assert generic_shallow_rank((d, h, 1), r) == expanded_rank(rows, np.ones((1, h), dtype=int), r)


def test_the_exceptions_of_alexander_and_hirschowitz_are_one_below():
    expected = {(3, 5, 4): 15, (4, 9, 4): 35, (5, 7, 3): 35, (5, 14, 4): 70}
    for (d, h, r), room in expected.items():
        assert math.comb(r + d - 1, d - 1) == room
        assert h * d >= room
        assert generic_shallow_rank((d, h, 1), r) == room - 1


def test_thresholds_of_the_generic_rank():
    assert [generic_threshold((3, 3, 1)), generic_threshold((3, 3, 1), capped=False)] == [2, 3]
    assert [generic_threshold((2, h, 1), capped=False) for h in (2, 3, 4)] == [3, 5, 7]
    assert generic_threshold((3, 5, 1)) == 5  # five conics: r = 4 is defective
    assert generic_threshold((4, 3, 1)) == 3  # r = 2 is defective
    for widths, capped in itertools.product([(2, 3, 1), (3, 3, 1), (3, 4, 1), (4, 3, 1), (3, 5, 1)], [True, False]):
        d, h, _ = widths
        least = generic_threshold(widths, capped=capped)
        wanted = {r: min(h * d, math.comb(r + d - 1, d - 1)) if capped else h * d for r in range(2, 12)}
        assert all(generic_shallow_rank(widths, r) == wanted[r] for r in range(least, 12))
        assert least == 2 or generic_shallow_rank(widths, least - 1) != wanted[least - 1]


SMALL = [(2, 2, 1), (2, 3, 1), (2, 4, 1), (3, 3, 1), (3, 4, 1), (4, 3, 1), (2, 2, 2), (3, 2, 2), (2, 3, 2), (3, 3, 2)]


@pytest.mark.parametrize("widths", SMALL)
def test_below_the_threshold_the_witness_breaks_it_exactly(widths):
    found = criticality_threshold(widths)
    d, h, m = widths
    assert found.degree == 2 * h - 1
    assert found.fails_at == 2 * h - 2
    assert found.weights is not None
    assert found.rank is not None
    assert found.rank == expanded_rank(found.rows, found.outgoing, found.fails_at)
    # The generic rank by random whole numbers: a lower bound that the number of parameters meets.
    generic = expanded_rank(integers((h, d), 1, -50, 50), integers((m, h), 2, -50, 50), found.fails_at)
    assert found.generic == generic
    is_subnetwork = bool(subnetwork_kinds(found.weights))
    assert found.critical == (found.rank < generic)
    assert found.critical != is_subnetwork
    # At the threshold the same weights behave: critical exactly where they are a subnetwork.
    full = h * (m + d - 1)
    assert (expanded_rank(found.rows, found.outgoing, found.degree) < full) == is_subnetwork


@pytest.mark.parametrize("widths", [(2, 2, 1), (2, 3, 1), (3, 3, 1), (3, 2, 1), (2, 2, 2), (4, 2, 1), (3, 1, 2)])
def test_from_the_threshold_on_critical_is_subnetwork_at_small_whole_numbers(widths):
    d, h, m = widths
    least = criticality_threshold(widths).degree
    assert least is not None
    n_subnetworks = 0
    for r in (least, least + 1):
        generic = expanded_rank(integers((h, d), 1, -50, 50), integers((m, h), 2, -50, 50), r)
        for seed in range(40):
            rows, outgoing = integers((h, d), seed, -1, 1), integers((m, h), seed + 1000, -1, 1)
            is_subnetwork = bool(subnetwork_kinds((rows, outgoing)))
            n_subnetworks += is_subnetwork
            assert (expanded_rank(rows, outgoing, r) < generic) == is_subnetwork
    assert 0 < n_subnetworks < 80  # both kinds of weights were seen


def test_two_neurons_in_three_variables_need_no_more_than_degree_two():
    found = criticality_threshold((3, 2, 1))
    assert (found.degree, found.fails_at, found.weights) == (2, None, None)
    assert criticality_threshold((3, 2, 2)).degree == 3  # with two outputs they do


def test_with_one_input_there_is_no_threshold():
    """The rank is m whatever the outgoing weights are, so an outgoing zero is no critical point in any degree."""
    assert criticality_threshold((1, 1, 1)).degree is None
    for r in (2, 5):
        assert expanded_rank([[1]], [[0]], r) == expanded_rank([[1]], [[1]], r) == 1 == shallow_rank([[1]], r)
        assert generic_shallow_rank((1, 3, 2), r) == 2


NOTHING: Any = None


@pytest.mark.parametrize("r", [2, 3, 4])
def test_rows_of_zero(r):
    for rows, outgoing in (([[0, 0]], [[1]]), ([[0, 0], [-2, 0]], [[2, 0], [1, 1], [0, 2]])):
        if r >= 2 * len(rows) - 2:
            assert shallow_rank(rows, r, outgoing=outgoing) == expanded_rank(rows, outgoing, r)


def test_the_threshold_of_the_generic_rank_is_the_last_degree_at_which_it_is_not_expected():
    """Degree by degree, by the definition; and wide nets at once, where that would take minutes."""
    for d, h, capped in itertools.product(range(1, 7), range(1, 16), [True, False]):
        if d == 1 and h > 1 and not capped:
            continue
        wrong = [
            r
            for r in range(2, 2 * h + 4)
            if generic_shallow_rank((d, h, 1), r) != (min(h * d, math.comb(r + d - 1, d - 1)) if capped else h * d)
        ]
        assert generic_threshold((d, h, 1), capped=capped) == max(wrong, default=1) + 1
    assert generic_threshold((3, 10**6, 1)) == 2
    assert generic_threshold((2, 10**6, 1), capped=False) == 2 * 10**6 - 1
    wide = criticality_threshold((2, 2000, 1))
    assert (wide.degree, wide.generic, wide.rank, wide.critical) == (3999, 3999, 3999, False)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: shallow_rank([1, 2], 3), ValueError,
         "`rows` must be a matrix: a sequence of rows of numbers."),
        (lambda: shallow_rank(np.ones((2, 0)), 3), ValueError,
         "`rows` must be a matrix (rows, columns), none empty; got (2, 0)."),
        (lambda: shallow_rank([[1, 2], [3]], 3), ValueError,
         "`rows` is not a rectangular matrix: its rows differ in length."),
        (lambda: shallow_rank(np.ma.MaskedArray([[1, 2]], [[True, False]]), 3), ValueError,
         "`rows[0, 0]` is masked; fill masked entries in, or leave out their rows."),
        (lambda: shallow_rank([[1, 2]], 3, outgoing=np.ma.MaskedArray([[1]], [[True]])), ValueError,
         "`outgoing[0, 0]` is masked; fill masked entries in, or leave out their rows."),
        (lambda: shallow_rank([[0, 0]], 1), ValueError,
         "`degree` must be at least 2 (the activation is x^degree); got 1."),
        (lambda: generic_shallow_rank((2, 3, 1), 1), ValueError,
         "`degree` must be at least 2 (the activation is x^degree); got 1."),
        *((lambda call=call: call(NOTHING), TypeError,
           "`widths` must be a sequence of three integers, such as (2, 3, 1); got None.")
          for call in (criticality_threshold, generic_threshold, lambda widths: generic_shallow_rank(widths, 3))),
        (lambda: generic_threshold({2, 3, 1}),  # pyright: ignore[reportArgumentType] - the mistake
         TypeError, "`widths` must be a sequence of three integers, such as (2, 3, 1); got {1, 2, 3}."),
        (lambda: shallow_rank([[1.0, np.nan]], 3), ValueError, "`rows[0, 1]` is nan; every entry must be finite."),
        (lambda: shallow_rank([["a"]], 3), TypeError,
         "`rows[0, 0]` must be an integer, a Fraction or a float; got 'a'."),
        (lambda: shallow_rank([[1, 0], [0, 1]], 3, outgoing=[[1, 1, 1]]), ValueError,
         "`outgoing` must have a column for each of the 2 rows, shape (m, 2); got (1, 3)."),
        (lambda: shallow_rank([[1, 0]], 2.5),  # pyright: ignore[reportArgumentType] - the mistake
         TypeError, "`degree` must be an integer; got 2.5."),
        (lambda: criticality_threshold((2, 3)), ValueError,
         "`widths` of a shallow net are three numbers, (inputs, neurons, outputs); got (2, 3)."),
        (lambda: generic_shallow_rank((3, 3, 2), 3), ValueError,
         "no formula gives the generic rank for 2 outputs below degree 5; got degree 3. Compute it exactly instead."),
        (lambda: generic_threshold((3, 3, 2)), ValueError,
         "the generic rank in every degree is known for one output only; `widths` has 2."),
        (lambda: generic_threshold((1, 3, 1), capped=False), ValueError,
         "with one input the rank is 1, never 3; take `capped=True`."),
    ],
)  # fmt: skip
def test_messages(call, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()
