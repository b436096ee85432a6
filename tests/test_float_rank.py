"""Ranks in double precision: what is certified is never more than the exact rank, and the error bounds hold."""

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpz_mat

from _expansion import COLLINEAR
from omegalimit.models.monomial import MonomialNetwork
from omegalimit.rigorous._rank_float import _Bounded, _doubles, _jacobian, _scaled, _singular_values
from omegalimit.rigorous.jacobian_rank import float_rank, jacobian_rank


@pytest.mark.parametrize("power", [2.0**-500, 2.0**500])
def test_powers_of_two_change_nothing(power):
    weights = MonomialNetwork((3, 3, 2, 1), 3).random(0)
    one, other = float_rank(weights, 3), float_rank([power * W for W in weights], 3)
    assert one.decided
    assert (one.error, one.singular_values.tolist()) == (other.error, other.singular_values.tolist())


def near_redundant(s):
    return [[[1.0, 0.0], [1.0, s]], [[1.0, 2.0], [2.0, -1.0]], [[1.0, 1.0]]]


def test_near_redundant_neurons_are_undecided_in_doubles_and_decided_exactly():
    for s, rank in ((2.0**-3, 6), (2.0**-20, 6), (2.0**-40, 6), (0.0, 2)):
        exact, doubles = jacobian_rank(near_redundant(s), 3), float_rank(near_redundant(s), 3)
        assert exact.rank == rank
        assert doubles.decided == (s == 2.0**-3)
        assert doubles.lower <= rank <= doubles.upper == 6
    sentence = float_rank(near_redundant(2.0**-40), 3).describe()
    assert sentence.startswith("undecided: at least ")
    assert sentence.endswith("`jacobian_rank` decides exactly")
    assert float_rank(near_redundant(0.125), 3).describe() == "rank 6, certified in double precision"


def test_columns_that_underflow_cost_only_themselves():
    # The first hidden layer is scaled by 1e-200, and one neuron's column by another 1e-150: its seventh powers
    # of seventh powers leave the range of doubles, and what the other neurons prove stays.
    weights = [W.copy() for W in MonomialNetwork((2, 2, 2, 2, 1), 7).random(0)]
    weights[0] *= 1e-200
    weights[1][:, 0] *= 1e-150
    found = float_rank(weights, 7)
    assert 0 < found.lower <= jacobian_rank(weights, 7).lower
    assert not found.decided


def test_doubles_never_certify_more_than_the_exact_rank():
    for degree in (3, 4):
        found = float_rank(COLLINEAR, degree)
        assert (found.lower, found.rank) == (jacobian_rank(COLLINEAR, degree).rank, None)
    assert float_rank(COLLINEAR, 5).rank == 9


@pytest.mark.parametrize(("widths", "degree"), [((2, 3, 2, 2), 3), ((4, 4, 4, 1), 5), ((3, 2, 1), 7)])
def test_the_error_bound_of_the_jacobian_holds_entry_by_entry(widths, degree):
    weights = MonomialNetwork(widths, degree).random(0)
    layers = _scaled(_doubles([W.tolist() for W in weights]), degree)
    assert layers is not None
    X = np.random.default_rng(1).standard_normal((3, widths[0]))
    value, error = _jacobian(layers, degree, _Bounded(X, np.zeros_like(X)))
    exact = exact_jacobian([[[Fraction(x) for x in row] for row in W.value.tolist()] for W in layers], degree, X)
    off = [[abs(Fraction(v) - x) for v, x in zip(*row, strict=True)] for row in zip(value.tolist(), exact, strict=True)]
    assert all(a <= Fraction(b) for row in zip(off, error.tolist(), strict=True) for a, b in zip(*row, strict=True))
    # It is of use: some hundred roundings of the largest entry.
    assert error.max() < 1e-13 * abs(value).max()


def exact_jacobian(layers, degree, X):
    rows = []
    for x in X.tolist():
        inputs, slopes = [[Fraction(y) for y in x]], []
        for W in layers[:-1]:
            h = [sum(w * a for w, a in zip(row, inputs[-1], strict=True)) for row in W]
            inputs.append([y**degree for y in h])
            slopes.append([degree * y ** (degree - 1) for y in h])
        for o in range(len(layers[-1])):
            delta, blocks = [Fraction(i == o) for i in range(len(layers[-1]))], []
            for k in range(len(layers) - 1, -1, -1):
                blocks.insert(0, [d * a for d in delta for a in inputs[k]])
                if k:
                    sums = [sum(w * d for w, d in zip(c, delta, strict=True)) for c in zip(*layers[k], strict=True)]
                    delta = [s * y for s, y in zip(sums, slopes[k - 1], strict=True)]
            rows.append([x for block in blocks for x in block])
    return rows


def test_no_more_singular_values_are_certified_than_the_matrix_has():
    rng = np.random.default_rng(0)
    for rank in range(1, 7):
        A = rng.integers(-9, 10, (12, rank)) @ rng.integers(-9, 10, (rank, 7))
        values, error = _singular_values(A.astype(float), np.zeros(A.shape))
        assert np.count_nonzero(values > error) == fmpz_mat(A.tolist()).rank()
        # With an error that may remove a singular value fewer are certified.
        _, wide = _singular_values(A.astype(float), np.full(A.shape, values[rank - 1]))
        assert np.count_nonzero(values > wide) < rank


def test_what_underflows_altogether_is_said():
    found = float_rank([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0]]], 10**6)
    assert not found.decided
    assert found.describe() == (
        "undecided: at least 0 and at most 4; all that is left of the Jacobian in double precision is zero; "
        "`jacobian_rank` decides exactly"
    )


@pytest.mark.parametrize("call", [float_rank, jacobian_rank])
def test_masked_weights_and_none_are_refused(call):
    nothing: Any = None
    masked = np.ma.MaskedArray([[1.0, 2.0], [3.0, 4.0]], [[False, True], [False, False]])
    message = "`weights[0][0, 1]` is masked; fill masked entries in, or leave out their rows."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call((masked, [[1.0, 1.0]]), 3)
    message = "`weights` must be a sequence of matrices (W_1, ..., W_L); got NoneType."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call(nothing, 3)
