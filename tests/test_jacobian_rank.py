"""Exact ranks of monomial networks: against full expansions, known theory, and what double precision can say."""

import itertools
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpz_mat, nmod_mat
from hypothesis import example, given, settings
from hypothesis import strategies as st

from _expansion import COLLINEAR, coefficient_matrix, columns, drawn
from omegalimit.limits.shallow_rank import shallow_rank
from omegalimit.models.monomial import MonomialNetwork
from omegalimit.rigorous import _rank_nulls
from omegalimit.rigorous._rank_bounds import n_monomials, rank_bound, shallow_generic_rank
from omegalimit.rigorous._rank_nulls import are_null, lattice
from omegalimit.rigorous._rank_residues import FloatResidues, Residues, primes_below, residue_jacobian
from omegalimit.rigorous._rank_structure import structural_null_vectors
from omegalimit.rigorous._rank_weights import coefficient_bounds, integer_layers
from omegalimit.rigorous.jacobian_rank import expected_rank, float_rank, generic_rank, jacobian_rank, rank_table


def subnetwork(weights, kind, layer):
    """The first neuron of a hidden layer inactive, or the second a multiple of it."""
    found = [[list(row) for row in W] for W in weights]
    if kind == "in":
        found[layer][0] = [0] * len(found[layer][0])
    elif kind == "out":
        for row in found[layer + 1]:
            row[0] = 0
    else:
        found[layer][1] = [3 * x for x in found[layer][0]]
    return found


# Generic rank, expected rank, then the ranks at inactive (row, column) and redundant neurons of layers 1 and 2.
TABLE = [
    ((2, 2, 2, 1), 2, 5, 5, (2, 3, 2, 3, 4, 3)),
    ((2, 2, 2, 1), 3, 6, 6, (2, 3, 2, 4, 5, 4)),
    ((2, 2, 2, 1), 4, 6, 6, (2, 3, 2, 4, 5, 4)),
    ((2, 2, 2, 1), 5, 6, 6, (2, 3, 2, 4, 5, 4)),
    ((2, 3, 2, 1), 3, 8, 9, (6, 8, 7, 4, 5, 4)),
    ((2, 3, 2, 1), 5, 9, 9, (6, 8, 7, 6, 7, 6)),
    ((3, 2, 2, 2), 2, 10, 10, (4, 6, 6, 6, 8, 7)),
]


@pytest.mark.parametrize(("widths", "degree", "generic", "expected", "ranks"), TABLE)
def test_ranks_at_subnetworks(widths, degree, generic, expected, ranks):
    found = generic_rank(widths, degree)
    assert (found.rank, found.proved, found.failure_probability) == (generic, True, 0.0)
    assert expected_rank(widths, degree) == expected
    weights = drawn(widths, 0)
    assert jacobian_rank(weights, degree).rank == generic
    kinds = [(kind, layer) for layer in (0, 1) for kind in ("in", "out", "red")]
    assert tuple(jacobian_rank(subnetwork(weights, *kind), degree).rank for kind in kinds) == ranks


def test_expected_rank_without_its_cap():
    assert (expected_rank((2, 2, 2, 1), 2), expected_rank((2, 2, 2, 1), 2, capped=False)) == (5, 6)
    assert generic_rank((2, 2, 2, 1), 2).rank == 5


@pytest.mark.parametrize(("degree", "rank"), [(3, 7), (4, 8), (5, 9), (6, 9)])
def test_three_rows_in_a_plane_are_critical_below_degree_five(degree, rank):
    found = jacobian_rank(COLLINEAR, degree)
    assert found.rank == rank
    assert generic_rank((3, 3, 1), degree).rank == 9


def test_an_inactive_neuron_that_is_not_critical():
    inactive = subnetwork(drawn((2, 3, 2, 1), 1), "out", 0)
    assert jacobian_rank(inactive, 3).rank == generic_rank((2, 3, 2, 1), 3).rank == 8
    assert jacobian_rank(inactive, 5).rank == 8 < generic_rank((2, 3, 2, 1), 5).rank


@pytest.mark.parametrize("h", [2, 3, 4])
def test_shallow_networks_of_two_variables(h):
    rows = [[1, k] for k in range(h)]
    for degree in range(2, 10):
        found = jacobian_rank([rows, [[1] * h]], degree)
        assert found.rank == min(2 * h, degree + 1) == generic_rank((2, h, 1), degree).rank
        # With two proportional rows there is one class less.
        fewer = jacobian_rank([[*rows[:-1], [2, 0]], [[1] * h]], degree)
        assert fewer.rank == min(2 * (h - 1), degree + 1)


@st.composite
def networks(draw):
    n_layers = draw(st.integers(2, 3))
    widths = [draw(st.integers(1, 3)) for _ in range(n_layers)] + [draw(st.integers(1, 2))]
    entry = st.integers(-2, 2)
    weights = [
        draw(st.lists(st.lists(entry, min_size=k, max_size=k), min_size=m, max_size=m))
        for k, m in itertools.pairwise(widths)
    ]
    return weights, draw(st.integers(2, 3))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(networks())
@example(([[[0, 0], [0, 0]], [[0, 0]]], 2))
@example(([[[1], [-1]], [[1, 1]], [[1]]], 2))
@example((COLLINEAR, 3))
def test_ranks_are_those_of_the_expansion(case):
    weights, degree = case
    exact = coefficient_matrix(weights, degree)
    rank = exact.rank() if exact.nrows() else 0
    found = jacobian_rank(weights, degree)
    assert found.proved
    assert found.rank == rank
    doubles = float_rank(weights, degree)
    assert doubles.lower <= rank <= doubles.upper
    widths = MonomialNetwork(found.widths, degree).widths
    assert rank <= generic_rank(widths, degree).rank <= rank_bound(widths, degree) <= expected_rank(widths, degree)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(networks())
@example((COLLINEAR, 3))
@example((COLLINEAR, 4))
def test_null_vectors_are_null_in_the_expansion(case):
    found = jacobian_rank(*case)
    if not found.null_vectors:
        assert found.proof == "a bound for the architecture"
        assert found.rank == rank_bound(found.widths, found.degree)
        return
    vectors = fmpz_mat([list(v) for v in found.null_vectors])
    assert vectors.rank() == len(found.null_vectors) == vectors.ncols() - found.upper
    exact = coefficient_matrix(found.layers, found.degree)
    assert exact.nrows() == 0 or not any((exact * vectors.transpose()).entries())


@pytest.mark.parametrize(("weights", "degree"), [(drawn((2, 3, 2, 2), 3, 9), 3), (drawn((3, 2, 1), 4, 9), 4)])
def test_bounds_on_coefficients_and_both_residue_arithmetics(weights, degree):
    derivatives = columns(weights, degree)
    bounds = coefficient_bounds(weights, degree)
    for bound, column in zip(bounds, derivatives, strict=True):
        assert bound >= max(abs(x) for poly in column for x in poly.values())
    d = len(weights[0][0])
    X = lattice(d, degree ** (len(weights) - 1))
    p = primes_below(24, 1)[0]
    whole = residue_jacobian(Residues(p), weights, degree, X)
    parts = residue_jacobian(FloatResidues(p), weights, degree, X.astype(float))
    np.testing.assert_array_equal(parts.astype(np.int64) % p, whole)


@pytest.mark.parametrize(("d", "degree"), [(1, 5), (2, 7), (3, 4), (4, 3)])
def test_the_lattice_determines_forms_modulo_larger_primes(d, degree):
    X = lattice(d, degree).tolist()
    n = math.comb(degree + d - 1, d - 1)
    exponents = [e for e in itertools.product(range(degree + 1), repeat=d) if sum(e) == degree]
    values = [math.prod(x**e for x, e in zip(point, powers, strict=True)) for point in X for powers in exponents]
    larger = next(p for p in (5, 7, 11) if p > degree)
    assert len(X) == n == nmod_mat(n, n, values, larger).rank()
    if d > 1:  # the condition is needed: modulo a prime that is at most the degree the same points do not do
        smaller = next(p for p in (7, 3, 2) if p <= degree)
        assert nmod_mat(n, n, values, smaller).rank() < n


def test_null_vectors_on_all_points_of_a_large_network():
    weights = subnetwork(drawn((4, 4, 4, 1), 0, 9), "red", 1)
    vectors = [[int(v.get(j, 0) * 10**6) for j in range(36)] for v in structural_null_vectors(weights, 7)]
    vectors = [v for v in vectors if math.gcd(*v) % 10**6 == 0]
    assert len(vectors) >= 8
    assert are_null(weights, 7, vectors)
    wrong = [v[:] for v in vectors]
    wrong[3][0] += 1
    assert not are_null(weights, 7, wrong)


def test_integers_fractions_and_floats_are_the_same_weights():
    whole = drawn((2, 3, 2, 1), 2, 99)
    third = [[[Fraction(x, 3) for x in row] for row in W] for W in whole]
    doubles = [np.array(W) / 8 for W in whole]
    numpy_integers = [np.array(W) for W in whole]
    for weights in (third, doubles, numpy_integers, [W.tolist() for W in doubles]):
        assert integer_layers(weights)[0] == integer_layers(whole)[0]
        assert jacobian_rank(weights, 3).rank == 8


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_scale_free(size):
    # Rounding 1e+-150 times an integer leaves no exact multiples; in a plane the rows stay, by their zeros.
    scaled = [[[x * size for x in row] for row in W] for W in COLLINEAR]
    assert [jacobian_rank(scaled, degree).rank for degree in (3, 4, 5)] == [7, 8, 9]


def test_rescaled_neurons_have_the_same_rank():
    # The second neuron's row by 2/3, its column by (2/3)^-3: the same function, at another point of the fibre.
    rows = COLLINEAR[0]
    scaled = [[rows[0], [Fraction(2, 3) * x for x in rows[1]], rows[2]], [[1, Fraction(27, 8), 1]]]
    assert jacobian_rank(scaled, 3).rank == jacobian_rank(COLLINEAR, 3).rank == 7


def test_several_outputs_that_share_nothing():
    # Each output sees one neuron only: every point gives one useful row a weight.
    weights = [[[1, 2], [3, 1]], [[1, 0], [0, 1], [0, 0]]]
    exact = coefficient_matrix(weights, 3)
    assert jacobian_rank(weights, 3).rank == exact.rank()


@pytest.mark.parametrize(("degree", "d", "h"), [(3, 5, 7), (4, 3, 5), (4, 4, 9), (4, 5, 14)])
def test_the_exceptions_of_alexander_and_hirschowitz(degree, d, h):
    found = generic_rank((d, h, 1), degree)
    assert found.proved
    assert found.rank == expected_rank((d, h, 1), degree) - 1
    for other in (h - 1, h + 1):
        assert generic_rank((d, other, 1), degree).rank == expected_rank((d, other, 1), degree)


def test_sums_of_squares():
    for d, h in itertools.product((2, 3, 4), (1, 2, 3, 4, 5)):
        assert (
            generic_rank((d, h, 1), 2).rank
            == shallow_generic_rank(d, h, 2)
            == jacobian_rank(drawn((d, h, 1), 0), 2).rank
        )


def test_a_generic_rank_that_is_not_proved_says_how_sure_it_is():
    # Pairs of ternary cubics (London, 1890): five cubes of linear forms give 19 of 20 dimensions.
    one, two = generic_rank((3, 5, 2), 3, n_draws=1), generic_rank((3, 5, 2), 3)
    assert (two.rank, two.upper, two.proved, two.proof) == (19, 20, False, "2 random draws")
    # Degree of a minor 20 (3 + 4 - 1), over 2^60, and a share of primes below that.
    assert 20 * 6 / 2**60 < one.failure_probability < 1e-14
    assert two.failure_probability == pytest.approx(one.failure_probability**2, rel=1e-12)
    # At weights given exactly the same deficiency is proved, from null vectors.
    found = jacobian_rank(drawn((3, 5, 2), 0, 9), 3)
    assert (found.rank, found.proof) == (19, "null vectors proved on 10 points")


def test_the_table():
    table = rank_table()
    assert len(table.architectures) == 27 + 9
    assert table.degrees == tuple(range(2, 10))
    assert table.proved
    assert table.failure_probability == 0.0
    for widths, degree, generic, expected, _ in TABLE:
        if widths in table.architectures:
            assert (table.ranks[widths, degree].rank, table.expected(widths, degree)) == (generic, expected)
    assert ((2, 3, 2, 1), 3) in table.defective()
    assert ((2, 2, 2, 1), 2) not in table.defective()
    assert ((2, 2, 2, 1), 2) in table.defective(capped=False)
    assert [table.threshold(w) for w in ((2, 2, 2, 1), (2, 3, 2, 1), (3, 3, 1), (2, 2, 4, 1))] == [2, 4, 2, 7]
    # (2, 2, 4, 1) is a network of four neurons in two activations: min(8, r + 1) + 4 - 2, which is 10 from r = 7.
    assert [table.ranks[(2, 2, 4, 1), degree].rank for degree in range(3, 8)] == [6, 7, 8, 9, 10]
    assert [table.threshold((2, h, 1), capped=False) for h in (2, 3, 4)] == [3, 5, 7]
    # Every entry again at weights of its own, independent of the table's draws.
    for widths, degree in (((4, 4, 4, 1), 2), ((3, 4, 2, 1), 2), ((2, 2, 4, 1), 5), ((2, 4, 3, 1), 4)):
        assert jacobian_rank(drawn(widths, 5), degree).rank == table.ranks[widths, degree].rank


def test_a_threshold_beyond_the_table_is_none():
    assert rank_table((2, 2, 4, 1), (2, 3), shallow=False).threshold((2, 2, 4, 1)) is None


@pytest.mark.parametrize(
    ("call", "said", "few"),
    [
        (lambda weights: jacobian_rank(weights, 3, most_bytes=1e4), "exact Jacobian of 40 rows takes 104 kB", 3),
        (lambda _: generic_rank((4, 4, 4, 1), 3, most_bytes=1e4), "exact Jacobian of 40 rows takes 161 kB", 2),
        (lambda weights: float_rank(weights, 3, most_bytes=1e4), "Jacobian of 72 rows takes 233 kB", 3),
    ],
)
def test_what_does_not_fit_is_refused_with_its_size(call, said, few):
    message = (
        f"widths (4, 4, 4, 1) have 36 weights: the {said}, more than `most_bytes` = 10 kB; `float_rank` and "
        f"`jacobian_rank` with `n_points` = {few} or fewer give a certified lower bound within it."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(drawn((4, 4, 4, 1), 0))


def test_one_point_that_does_not_fit():
    message = (
        "widths (4, 4, 4, 1) have 36 weights: the exact Jacobian of 40 rows takes 104 kB, more than `most_bytes` = "
        "1 kB; one point takes 3.24 kB already."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        jacobian_rank(drawn((4, 4, 4, 1), 0), 3, most_bytes=1e3)


def test_few_points_give_a_lower_bound():
    few = jacobian_rank(drawn((4, 4, 4, 1), 0), 3, most_bytes=1e4, n_points=3)
    assert (few.lower, few.upper, few.rank, few.proof) == (3, 28, None, "not proved: sampled at 3 points only")
    doubles = float_rank(drawn((4, 4, 4, 1), 0), 3, most_bytes=1e4, n_points=3)
    assert (doubles.lower, doubles.rank, len(doubles.singular_values)) == (3, None, 3)


def test_a_proof_that_does_not_fit_leaves_bounds():
    # Three rows in a plane need null vectors that no formula gives: 23 is proved from below, that it is no more is not.
    rows = [[1, 0, *[0] * 6], [0, 1, *[0] * 6], [1, 1, *[0] * 6]]
    found = jacobian_rank([rows, [[1, 1, 1]]], 4, most_bytes=7e4)
    assert (found.lower, found.upper, found.rank, found.null_vectors) == (23, 24, None, ())
    assert found.proof == (
        "not proved: forms of degree 4 in 8 variables are determined by 330 points, and the Jacobian there takes "
        "92.4 kB, more than `most_bytes` = 70 kB"
    )
    assert jacobian_rank([rows, [[1, 1, 1]]], 4).rank == 23


def test_a_proof_of_too_much_work_leaves_bounds(monkeypatch):
    monkeypatch.setattr(_rank_nulls, "_MOST_WORK", 100)
    found = jacobian_rank(COLLINEAR, 3)
    assert (found.lower, found.upper, found.null_vectors) == (7, 9, ())
    assert found.proof == "not proved: coefficients are too large to check the null vectors in minutes"


def test_degrees_beyond_all_integers_of_the_machine():
    # Degree 200^8 in two variables: nothing is expanded, and doubles say that they cannot.
    weights = [[[1, 2], [1, 3]], [[1, 2], [1, 3]], [[1, 1]], *[[[1]]] * 6]
    found = jacobian_rank(weights, 200)
    assert (found.rank, found.proof) == (6, "null vectors known by formula")
    assert generic_rank(found.widths, 200).rank == 6 == expected_rank(found.widths, 200)
    doubles = float_rank(weights, 200)
    assert (doubles.lower, doubles.error, doubles.decided) == (0, math.inf, False)
    # Ratios of redundant neurons whose powers of powers would have some 10^15 digits.
    twice = [[[1, 2], [3, 6]], [[1, 2], [1, 3]], [[1, 2], [2, 3]], [[1, 5], [2, 3]], [[1, 1], [2, 2]], [[1, 1]]]
    assert jacobian_rank(twice, 2).rank == 2
    found = jacobian_rank(twice, 1000)
    assert (found.lower, found.rank) == (2, None)


def test_dimensions_of_forms():
    for d, degree in itertools.product(range(1, 6), range(1, 9)):
        assert n_monomials(d, degree) == math.comb(degree + d - 1, d - 1)
    assert n_monomials(10**9, 10**9) == n_monomials(2, 10**20) == 2**40


def test_null_vectors_of_too_many_digits_leave_bounds():
    rows = drawn((3, 3, 1), 0)
    rows[0][2] = [a + b for a, b in zip(rows[0][0], rows[0][1], strict=True)]
    found = jacobian_rank(rows, 3, most_primes=1)
    assert (found.lower, found.upper) == (7, 9)
    assert found.proof == "not proved: null vectors are not found with 1 primes, which `most_primes` raises"
    assert jacobian_rank(rows, 3).rank == 7


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        (
            [[[1, 2], [3, 4]], [[1, 2, 3]]],
            ValueError,
            "widths do not chain: `weights[0]` has shape (2, 2) and `weights[1]` has shape (1, 3): "
            "2 rows against 3 columns.",
        ),
        ([[[1, 2], [3]], [[1, 2]]], ValueError, "`weights[0]` is not a rectangular matrix: its rows differ in length."),
        ([[1, 2], [[1, 2]]], ValueError, "`weights[0]` must be a matrix: a sequence of rows of numbers."),
        ([[[1.0, math.inf]], [[1.0]]], ValueError, "`weights[0][0, 1]` is inf; every entry must be finite."),
        ([[["1", 2]], [[1]]], TypeError, "`weights[0][0, 0]` must be an integer, a Fraction or a float; got '1'."),
        ("W", TypeError, "`weights` must be a sequence of matrices (W_1, ..., W_L); got str."),
    ],
)
def test_bad_weights(weights, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        jacobian_rank(weights, 2)
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        float_rank(weights, 2)


@pytest.mark.parametrize("call", [jacobian_rank, float_rank])
def test_bad_degrees(call):
    message = "`degree` must be at least 2 (the activation is x^degree); got 1."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(COLLINEAR, 1)
    message = "`degree` must be an integer, the power r of the activation x^r; got 2.5."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call(COLLINEAR, 2.5)


def test_bad_widths():
    with pytest.raises(TypeError, match=r"^`widths` must be a sequence of integers such as \(2, 3, 1\); got 4\.$"):
        generic_rank(4, 2)  # pyright: ignore[reportArgumentType] - what a user may type
    with pytest.raises(ValueError, match=r"^`widths\[1\]` must be at least 1; got 0\.$"):
        expected_rank((2, 0, 1), 2)


def test_bad_tables():
    with pytest.raises(ValueError, match=r"^`degrees` is empty; give at least one power of at least 2\.$"):
        rank_table(degrees=[])
    message = "`max_widths` must name inputs, hidden layers and outputs, as in (4, 4, 4, 1); got (4, 1)."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rank_table((4, 1))
    with pytest.raises(
        TypeError, match=r"^`max_widths` must be a sequence of integers such as \(4, 4, 4, 1\); got 5\.$"
    ):
        rank_table(WRONG[5])
    with pytest.raises(TypeError, match=r"^`degrees` must be integers, such as range\(2, 10\); got 3\.$"):
        rank_table((2, 2, 1), WRONG[3])
    table = rank_table((2, 2, 1), [2, 3])
    assert table.threshold([2, 2, 1]) == table.threshold((2, 2, 1)) == 2
    message = (
        "`widths` = (9, 9, 1) is not in the table, which goes from (2, 2, 1) to (2, 2, 1); `rank_table` takes larger "
        "`max_widths`."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        table.threshold((9, 9, 1))


WRONG: dict[Any, Any] = {k: k for k in (3, 5, None, "1e9", True)}


@pytest.mark.parametrize(
    ("most_bytes", "kind", "message"),
    [
        ("1e9", TypeError, "`most_bytes` must be a number of bytes, such as 2e9; got '1e9'."),
        (None, TypeError, "`most_bytes` must be a number of bytes, such as 2e9; got None."),
        (True, TypeError, "`most_bytes` must be a number of bytes, such as 2e9; got True."),
        (math.nan, ValueError, "`most_bytes` must be positive, a number of bytes such as 2e9; got nan."),
        (-1, ValueError, "`most_bytes` must be positive, a number of bytes such as 2e9; got -1."),
    ],
)
@pytest.mark.parametrize("call", [jacobian_rank, float_rank, lambda W, r, **most: generic_rank((2, 2, 1), r, **most)])
def test_bad_memory(call, most_bytes, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call(COLLINEAR, 3, most_bytes=most_bytes)


def test_entries_far_apart_take_more_primes_than_256():
    """Minors of powers of 1e150 and 1e-150: null vectors of thousands of bits. The shallow formulas are the check."""
    W = [
        [[1e150, 1.0, 1.0], [0.0, 1e150, 1e150], [1.0, 1.0, 1.0], [0.0, 1e150, 1e150]],
        [[1e-150, 1e-150, 1e-150, -1.0]],
    ]
    found = jacobian_rank(W, 4)
    assert found.proved
    assert found.rank == shallow_rank(W[0], 4, outgoing=W[1])
    few = jacobian_rank(W, 4, most_primes=256)
    assert few.proof == "not proved: null vectors are not found with 256 primes, which `most_primes` raises"
    assert few.lower <= found.lower == found.upper <= few.upper
