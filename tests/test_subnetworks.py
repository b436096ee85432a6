"""Subnetworks decided exactly, and the distance: its invariance, what it is 0 at, and its digits near redundancy."""

import itertools
import math
import re
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.limits.shallow_rank import shallow_rank
from omegalimit.models.subnetworks import (
    Subnetwork,
    SubnetworkKind,
    subnetwork,
    subnetwork_distance,
    subnetwork_kinds,
)
from omegalimit.rigorous.jacobian_rank import float_rank, jacobian_rank

WIDTHS = [(2, 2, 2, 1), (3, 4, 1), (2, 3, 2, 2), (3, 2, 4, 3, 1)]


def draw(widths, seed):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((after, before)) for before, after in itertools.pairwise(widths))


def rescaled(weights, degree, seed, *, powers=True):
    """The same net: neuron i's row times c_i, its column times `c_i^-r`; powers of two, so that nothing is rounded."""
    rng, made = np.random.default_rng(seed), [W.copy() for W in weights]
    for k in range(len(made) - 1):
        n = len(made[k])
        c = 2.0 ** rng.integers(-4, 5, n) if powers else np.exp(rng.standard_normal(n))
        c *= rng.choice([-1.0, 1.0], n)
        made[k] *= c[:, None]
        made[k + 1] *= c**-degree
    return tuple(made)


def evaluate(weights, degree, x):
    for W in weights[:-1]:
        x = (W @ x) ** degree
    return weights[-1] @ x


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(WIDTHS), st.sampled_from([2, 3, 5]), st.integers(0, 2**32 - 1), st.booleans())
def test_rescaling_a_neuron_changes_neither_the_net_nor_the_distances(widths, degree, seed, powers):
    weights = draw(widths, seed)
    other = rescaled(weights, degree, seed, powers=powers)
    x = np.random.default_rng(0).standard_normal(widths[0])
    # Each layer's powers multiply the relative rounding of what comes in by r; cancellations in a sum by 1e3 at most.
    assert evaluate(other, degree, x) == pytest.approx(evaluate(weights, degree, x), rel=1e-8)
    a, b = subnetwork_distance(weights, degree), subnetwork_distance(other, degree)
    # Logarithms of sizes up to e^(r^L) times the largest rescaling, each rounded: 1e-16 * 1e4 at most.
    for one, two in zip((*a.inactive, *a.redundant), (*b.inactive, *b.redundant), strict=True):
        assert two == pytest.approx(one, rel=1e-11)
    assert b.distance == pytest.approx(a.distance, rel=1e-11)
    assert 0 < a.distance <= 1
    if powers:
        assert (a.nearest.layer, a.nearest.neurons) == (b.nearest.layer, b.nearest.neurons)


def test_a_distance_that_ignored_the_columns_would_not_be_invariant():
    """The row norms themselves move by the factor of the rescaling: the test above can fail."""
    weights = draw((2, 3, 1), 0)
    other = rescaled(weights, 3, 1)
    before, after = (np.linalg.norm(w[0], axis=1) for w in (weights, other))
    assert not np.allclose(before / before.max(), after / after.max(), rtol=1e-3)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(WIDTHS), st.sampled_from(list(SubnetworkKind)), st.integers(0, 2**32 - 1), st.data())
def test_a_subnetwork_that_was_made_is_found_and_has_distance_zero(widths, kind, seed, data):
    weights = draw(widths, seed)
    assert subnetwork_kinds(weights) == ()
    layer = data.draw(st.integers(1, len(widths) - 2))
    neurons = tuple(data.draw(st.permutations(range(widths[layer]))))[: 2 if kind is SubnetworkKind.REDUNDANT else 1]
    factor = data.draw(st.sampled_from([1, -1, 2.0, -0.25]))
    made = subnetwork(weights, kind, layer, neurons, factor=factor)
    found = subnetwork_kinds(made)
    expected = Subnetwork(kind, layer, tuple(sorted(neurons)))
    assert expected in found
    # Where two neurons lose one, the next layer's rows have one entry left and are proportional; nothing else follows.
    follows = kind is SubnetworkKind.OUTGOING and widths[layer] == 2
    assert all(other.layer == layer + 1 and follows for other in found if other != expected)
    measured = subnetwork_distance(made, 3)
    assert measured.distance == 0
    assert measured.nearest == expected
    for W, V in zip(weights, draw(widths, seed), strict=True):
        assert np.array_equal(W, V)  # what was given was copied
    part = measured.redundant if kind is SubnetworkKind.REDUNDANT else measured.inactive
    assert (part[layer - 1] == 0).sum() == (2 if kind is SubnetworkKind.REDUNDANT else 1)


def test_exactness_is_that_of_the_numbers_as_given():
    """Doubles 0.1 + 0.2 and 0.3 differ in the last bit; as fractions the rows are proportional."""
    doubles = (np.array([[0.1 + 0.2, 1.0], [0.3, 1.0]]), np.ones((1, 2)))
    assert subnetwork_kinds(doubles) == ()
    # The minor is one unit in the last place of 0.3, and both rows have length sqrt(1.09) to rounding.
    assert subnetwork_distance(doubles, 3).distance == pytest.approx(2.0**-54 / 1.09, rel=1e-12)
    exact = ([[Fraction(3, 10), 1], [Fraction(9, 10), 3]], [[1, 1]])
    assert subnetwork_kinds(exact) == (Subnetwork(SubnetworkKind.REDUNDANT, 1, (0, 1)),)
    assert subnetwork_distance(exact, 3).distance == 0


@pytest.mark.parametrize("t", [1.0, 1e-3, 1e-9, 1e-15, 1e-100])
def test_the_sine_keeps_its_digits_in_a_later_layer(t):
    """Rows (1, 1) and (1, 1 + t) after neurons of lengths 2 and 1: their columns count 8 and 1 at r = 3."""
    t = Fraction(t)
    first = np.array([[2, 0], [0, 1]], dtype=object)
    second = np.array([[1, 1], [1, 1 + t]], dtype=object)
    found = subnetwork_distance((first, second, np.array([[1, 1]])), 3).redundant[1][0, 1]
    expected = 8 * float(t) / (math.hypot(8, 1) * math.hypot(8, 1 + float(t)))
    assert found == pytest.approx(expected, rel=1e-13)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_sines_of_the_first_layer_are_those_of_a_qr_decomposition(seed):
    (W, _) = weights = draw((4, 3, 1), seed)
    found = subnetwork_distance(weights, 3).redundant[0]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        R = np.linalg.qr(W[[i, j]].T)[1]
        assert found[i, j] == pytest.approx(abs(R[1, 1]) / np.linalg.norm(W[j]), rel=1e-12)


def test_the_inactive_distance_is_the_length_of_a_balanced_neuron():
    """Three neurons, products |a| |w|^r of 1, 1 and q: the shortest weights of each go like the root r + 1."""
    r, q = 3, 1e-6
    weights = (np.array([[1.0, 0], [0, 10.0], [3.0, 4.0]]), np.array([[1.0, -1e-3, q / 125]]))
    found = subnetwork_distance(weights, r)
    assert found.inactive[0] == pytest.approx([1, 1, q**0.25], rel=1e-12)
    shortest = []
    for product in (1.0, q):
        c = np.geomspace(1e-3, 1e3, 200_001)  # row length c, column product c^-r
        shortest.append(np.hypot(c, product * c**-r).min())
    assert shortest[1] / shortest[0] == pytest.approx(q**0.25, rel=1e-6)  # the grid's own error is its spacing squared
    assert found.nearest == Subnetwork(SubnetworkKind.OUTGOING, 1, (2,))
    small_row = (np.array([[1.0, 0], [0, 1.0], [3e-3, 4e-3]]), np.array([[1.0, 1.0, 1.0]]))
    assert subnetwork_distance(small_row, r).nearest == Subnetwork(SubnetworkKind.INCOMING, 1, (2,))


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_sizes_do_not_matter(factor):
    weights = draw((2, 3, 2, 1), 5)
    before = subnetwork_distance(weights, 9)
    for k in range(3):
        scaled = [W * factor if k == i else W for i, W in enumerate(weights)]
        after = subnetwork_distance(scaled, 9)
        for one, two in zip((*before.inactive, *before.redundant), (*after.inactive, *after.redundant), strict=True):
            # Logarithms of 1e150^9 are near 3000 and are multiplied by r: 3000 * 9 * 2 eps, before the root.
            assert two == pytest.approx(one, rel=2e-11)


def test_what_is_not_zero_is_not_called_zero():
    tiny = (np.array([[1.0, 0.0], [1.0, 5e-324]]), np.array([[1.0, 5e-324]]))
    assert subnetwork_kinds(tiny) == ()
    assert 0 < subnetwork_distance(tiny, 3).distance <= 5e-324


def test_one_neuron_and_one_input():
    assert subnetwork_kinds(([[2]], [[1]])) == ()
    assert subnetwork_distance(([[2]], [[1]]), 3).distance == 1
    assert subnetwork_kinds(([[2], [3]], [[1, 1]])) == (Subnetwork(SubnetworkKind.REDUNDANT, 1, (0, 1)),)
    nothing = ([[0, 0]], [[0]])
    assert [found.kind for found in subnetwork_kinds(nothing)] == [SubnetworkKind.INCOMING, SubnetworkKind.OUTGOING]
    assert subnetwork_distance(nothing, 3).distance == 0


def test_whole_numbers_and_fractions_stay_what_they_are():
    weights = (np.array([[1, 2], [3, 4]]), np.array([[1, 1]]))
    assert subnetwork(weights, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=3)[0].tolist() == [[1, 2], [3, 6]]
    half = subnetwork(weights, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=Fraction(1, 2))[0]
    assert half.tolist() == [[1, 2], [Fraction(1, 2), 1]]
    assert subnetwork(weights, "inactive (zero outgoing column)", 1, 1)[1].tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("W", "factor", "expected"),
    [
        (np.array([[100, 2], [3, 4]], np.int8), 3, [300, 6]),
        (np.array([[100, 2], [3, 4]], np.uint8), -1, [-100, -2]),
        (np.array([[2**62, 2], [3, 4]]), 5, [5 * 2**62, 10]),
        (np.array([[2**62 + 1, 2], [3, 4]]), Fraction(1, 3), [Fraction(2**62 + 1, 3), Fraction(2, 3)]),
        ([[1, 2], [3, 4]], 10**30, [10**30, 2 * 10**30]),
        ([[2**63, -1], [3, 4]], 2, [2**64, -2]),
        (np.array([[True, False], [True, True]]), 2, [2, 0]),
    ],
)
def test_whole_numbers_do_not_wrap_and_are_not_rounded(W, factor, expected):
    made = subnetwork((W, [[1, 1]]), SubnetworkKind.REDUNDANT, 1, (0, 1), factor=factor)
    assert made[0].tolist()[1] == expected
    assert [int(x) for x in made[0][0]] == [int(x) for x in W[0]]
    assert Subnetwork(SubnetworkKind.REDUNDANT, 1, (0, 1)) in subnetwork_kinds(made)


def test_what_fits_keeps_its_type():
    assert (
        subnetwork((np.ones((2, 2), np.int8), [[1, 1]]), SubnetworkKind.REDUNDANT, 1, (0, 1), factor=100)[0].dtype
        == np.int8
    )
    single = np.ones((2, 2), np.float32)
    assert subnetwork((single, single[:1]), SubnetworkKind.REDUNDANT, 1, (0, 1), factor=0.1)[0].dtype == np.float32


@pytest.mark.parametrize("weights", [([[1.0]], [[1.0]]), (np.eye(2), np.ones((1, 2))), ([[3], [0]], [[1, 1], [2, 1]])])
def test_the_nearest_subnetwork_names_two_different_neurons(weights):
    nearest = subnetwork_distance(weights, 3).nearest
    assert len(set(nearest.neurons)) == (2 if nearest.kind is SubnetworkKind.REDUNDANT else 1)


def test_right_angles_are_the_nearest_pair_and_one_neuron_is_none():
    assert subnetwork_distance((np.eye(2), np.ones((1, 2))), 3).nearest == Subnetwork(
        SubnetworkKind.REDUNDANT, 1, (0, 1)
    )
    assert subnetwork_distance(([[1.0]], [[1.0]]), 3).nearest.kind is not SubnetworkKind.REDUNDANT


def test_every_array_is_taken_alike():
    """Lists, NumPy, JAX and pandas; booleans are 0 and 1; large integers of a list are not made floats."""
    plain = ([[1, 0], [1, 1]], [[1, 1]])
    for one in (np.array, jnp.array, pd.DataFrame, lambda W: np.array(W, bool), lambda W: [np.array(row) for row in W]):
        given = tuple(one(W) for W in plain)
        assert subnetwork_kinds(given) == subnetwork_kinds(plain)
        assert subnetwork_distance(given, 3).distance == subnetwork_distance(plain, 3).distance
        assert jacobian_rank(given, 3).rank == jacobian_rank(plain, 3).rank
        assert float_rank(given, 3).lower == float_rank(plain, 3).lower
        assert shallow_rank(given[0], 3, outgoing=given[1]) == shallow_rank(plain[0], 3, outgoing=plain[1])
    assert subnetwork_kinds(([[2**63, -1], [2**63 + 1, -1]], [[1, 1]])) == ()


GOOD = ([[1, 2], [3, 4]], [[1, 1]])
DOUBLES = ([[1.0, 20.0], [1.0, 1e-5]], [[1.0, 1.0]])
NOTHING: Any = None
MASKED = np.ma.MaskedArray([[1, 2], [3, 4]], [[False, True], [False, False]])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: subnetwork_kinds([[[1, 2]]]), ValueError,
         "`weights` must hold at least two matrices; got 1."),
        (lambda: subnetwork_kinds(([[1, 2]], [[1, 1]])), ValueError,
         "widths do not chain: `weights[0]` has shape (1, 2) and `weights[1]` has shape (1, 2): 1 rows against 2 "
         "columns."),
        (lambda: subnetwork_kinds(([1, 2], [[1]])), ValueError,
         "`weights[0]` must be a matrix: a sequence of rows of numbers."),
        (lambda: subnetwork_kinds((np.ones(2), [[1]])), ValueError,
         "`weights[0]` must be a matrix: a sequence of rows of numbers."),
        (lambda: subnetwork_kinds(([[1, 2], [3]], [[1]])), ValueError,
         "`weights[0]` is not a rectangular matrix: its rows differ in length."),
        (lambda: subnetwork_kinds((np.ones((0, 2)), [[1]])), ValueError,
         "`weights[0]` must be a matrix (rows, columns), none empty; got (0, 0)."),
        (lambda: subnetwork_kinds(([[1.0, np.inf]], [[1]])), ValueError,
         "`weights[0][0, 1]` is inf; every entry must be finite."),
        (lambda: subnetwork_kinds(([[1j]], [[1]])), TypeError,
         "`weights[0][0, 0]` must be an integer, a Fraction or a float; got 1j."),
        (lambda: subnetwork_kinds((np.array([[1j]]), [[1]])), TypeError,
         "`weights[0]` must hold real numbers; it holds complex128."),
        (lambda: subnetwork_kinds(([[None]], [[1]])), TypeError,
         "`weights[0][0, 0]` must be an integer, a Fraction or a float; got None."),
        (lambda: subnetwork_distance(GOOD, 0), ValueError, "`degree` must be at least 1; got 0."),
        (lambda: subnetwork(GOOD, SubnetworkKind.INCOMING, 2, 0), ValueError,
         "`layer` is 2, and the net has 1 hidden layer, counted from 1."),
        (lambda: subnetwork(GOOD, SubnetworkKind.INCOMING, 1, 2), ValueError,
         "`neurons` must be one neuron of the 2 of layer 1, counted from 0; got (2,)."),
        (lambda: subnetwork(GOOD, SubnetworkKind.REDUNDANT, 1, (1, 1)), ValueError,
         "`neurons` must be two different neurons of the 2 of layer 1, counted from 0; got (1, 1)."),
        (lambda: subnetwork(GOOD, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=0), ValueError,
         "`factor` is zero, which makes a neuron inactive; pass the kind that says so."),
        (lambda: subnetwork(GOOD, SubnetworkKind.REDUNDANT, 1, (0, 1), factor="2"), TypeError,
         "`factor` must be one number: an integer, a Fraction or a float; got '2'."),
        (lambda: subnetwork(GOOD, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=np.array([1, 2])), TypeError,
         "`factor` must be one number: an integer, a Fraction or a float; got array([1, 2])."),
        (lambda: subnetwork(GOOD, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=np.nan), ValueError,
         "`factor` must be finite; got nan."),
        (lambda: subnetwork(DOUBLES, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=1e308), ValueError,
         "`factor` = 1e+308 times row 0 leaves float64; take a factor nearer one, or give the weights as Fractions."),
        (lambda: subnetwork(DOUBLES, SubnetworkKind.REDUNDANT, 1, (1, 0), factor=1e-320), ValueError,
         "`factor` = 9.99989e-321 times row 1 leaves float64; take a factor nearer one, or give the weights as "
         "Fractions."),
        (lambda: subnetwork(DOUBLES, SubnetworkKind.REDUNDANT, 1, (0, 1), factor=10**400), ValueError,
         "`factor` = a number of 1329 bits times row 0 leaves float64; take a factor nearer one, or give the weights "
         "as Fractions."),
        (lambda: subnetwork(GOOD, SubnetworkKind.INCOMING, 1, NOTHING), TypeError,
         "`neurons` must be an integer or a sequence of integers, counted from 0; got None."),
        *((lambda call=call: call(NOTHING), TypeError,
           "`weights` must be a sequence of matrices (W_1, ..., W_L); got NoneType.")
          for call in (subnetwork_kinds, lambda W: subnetwork_distance(W, 3), lambda W: subnetwork(W, "", 1, 0))),
        *((lambda call=call: call((MASKED, [[1, 1]])), ValueError,
           "`weights[0][0, 1]` is masked; fill masked entries in, or leave out their rows.")
          for call in (subnetwork_kinds, lambda W: subnetwork_distance(W, 3), lambda W: subnetwork(W, "", 1, 0))),
        (lambda: subnetwork(GOOD, "idle", 1, 0), ValueError, "'idle' is not a valid SubnetworkKind"),
    ],
)  # fmt: skip
def test_messages(call, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()
