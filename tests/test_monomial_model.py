"""Monomial networks in double precision: values and Jacobians equal their expansions, and bad input is named."""

import itertools
import re

import numpy as np
import pytest

from _expansion import columns, expanded, value
from omegalimit.models.monomial import MonomialNetwork

CASES = [((2, 2, 2, 1), 2), ((2, 3, 2, 1), 3), ((3, 2, 2), 4), ((1, 2, 1, 3), 2), ((2, 2, 1, 2, 1), 2)]


def integers(widths, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(-2, 3, (rows, columns)) for columns, rows in itertools.pairwise(widths)]


@pytest.mark.parametrize(("widths", "degree"), CASES)
def test_values_and_jacobian_are_those_of_the_expansion(widths, degree):
    network, weights = MonomialNetwork(widths, degree), integers(widths, 0)
    X = np.random.default_rng(1).integers(-2, 3, (5, widths[0]))
    points = X.tolist()
    outputs = expanded(weights, degree)
    # All numbers here are integers below 2^53: floating-point arithmetic makes no error at all.
    exact = [[value(poly, x) for poly in outputs] for x in points]
    assert max(abs(y) for row in exact for y in row) < 2**53
    np.testing.assert_array_equal(network.evaluate(weights, X), exact)
    derivatives = columns(weights, degree)
    exact = [[value(column[o], x) for column in derivatives] for x in points for o in range(widths[-1])]
    assert max(abs(y) for row in exact for y in row) < 2**53
    np.testing.assert_array_equal(network.jacobian(weights, X), exact)


def test_counts():
    network = MonomialNetwork((4, 4, 4, 1), 7)
    assert (network.n_layers, network.n_parameters, network.n_hidden) == (3, 36, 8)
    assert (network.output_degree, network.n_monomials) == (49, 22100)
    assert network.shapes == ((4, 4), (4, 4), (1, 4))
    assert MonomialNetwork((2, 5, 3), 4).output_degree == 4


def test_rescaling_a_neuron_changes_nothing():
    network = MonomialNetwork((3, 4, 2, 2), 3)
    weights = network.random(0)
    scaled = [W.copy() for W in weights]
    scaled[0][1] *= 2.0
    scaled[1][:, 1] *= 2.0**-3
    scaled[1][0] *= 0.5
    scaled[2][:, 0] *= 2.0**3
    X = np.random.default_rng(1).standard_normal((6, 3))
    # Powers of two: no rounding differs.
    np.testing.assert_array_equal(network.evaluate(scaled, X), network.evaluate(weights, X))


def test_stacked_weights_are_as_one_by_one():
    network = MonomialNetwork((2, 3, 2, 2), 3)
    starts = [network.random(seed) for seed in range(4)]
    stacked = [np.stack(parts) for parts in zip(*starts, strict=True)]
    X = np.random.default_rng(9).standard_normal((5, 2))
    for k, weights in enumerate(starts):
        # The same sums in another order of a few terms.
        np.testing.assert_allclose(network.evaluate(stacked, X)[k], network.evaluate(weights, X), rtol=1e-12)
        np.testing.assert_allclose(
            network.jacobian(stacked, X)[k], network.jacobian(weights, X), rtol=1e-11, atol=1e-12
        )


def test_a_seed_is_a_draw():
    network = MonomialNetwork((2, 3, 1), 2)
    first, again, other = network.random(3), network.random(3), network.random(4)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not any((a == b).any() for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("widths", "degree", "kind", "message"),
    [
        ((2, 2, 1), 1, ValueError, "`degree` must be at least 2 (the activation is x^degree); got 1."),
        ((2, 2, 1), 2.5, TypeError, "`degree` must be an integer, the power r of the activation x^r; got 2.5."),
        ((2, 2, 1), True, TypeError, "`degree` must be an integer, the power r of the activation x^r; got True."),
        (
            (2, 1),
            2,
            ValueError,
            "`widths` must name the inputs, at least one hidden layer and the outputs, as in (2, 3, 1); got (2, 1).",
        ),
        ((2, 0, 1), 2, ValueError, "`widths[1]` must be at least 1; got 0."),
        ((2, 2.0, 1), 2, TypeError, "`widths[1]` must be an integer; got 2.0."),
        ("2,2,1", 2, TypeError, "`widths` must be a sequence of integers such as (2, 3, 1); got '2,2,1'."),
    ],
)
def test_bad_architectures(widths, degree, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        MonomialNetwork(widths, degree)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            [np.ones((2, 2)), np.ones((1, 3))],
            "widths do not chain: `weights[0]` has shape (2, 2) and `weights[1]` has shape (1, 3): "
            "2 rows against 3 columns.",
        ),
        ([np.ones((2, 2))], "`weights` must hold at least two matrices; got 1."),
        ([np.ones((2, 2)), np.ones((3, 2))], "`weights` have widths (2, 2, 3), and the network has (2, 2, 1)."),
        ([np.ones(2), np.ones((1, 2))], "`weights[0]` must be a matrix (rows, columns), none empty; got (2,)."),
        (
            [np.array([[1.0, np.nan], [0.0, 1.0]]), np.ones((1, 2))],
            "`weights[0][0, 1]` is nan; every entry must be finite.",
        ),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        MonomialNetwork((2, 2, 1), 2).evaluate(weights, np.ones((1, 2)))


def test_bad_points():
    network = MonomialNetwork((2, 2, 1), 2)
    message = "`X` has shape (4, 3): 3 columns, and the network has 2 inputs (widths (2, 2, 1))."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        network.evaluate(network.random(0), np.ones((4, 3)))


def test_values_beyond_doubles_are_named():
    network = MonomialNetwork((2, 2, 1), 3)
    weights = (np.full((2, 2), 1e150), np.ones((1, 2)))
    for call, what in ((network.evaluate, "an output"), (network.jacobian, "a derivative")):
        message = (
            f"{what} leaves double precision: the outputs are of degree 3 in the inputs, and of degree 4 in the "
            "weights; divide those that are large."
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call(weights, np.ones((1, 2)))
        assert np.isfinite(call(weights, np.full((1, 2), 1e-150))).all()


@pytest.mark.parametrize(
    ("seed", "kind", "message"),
    [
        (-1, ValueError, "`seed` must be at least 0; got -1."),
        (1.5, TypeError, "`seed` must be an integer; got 1.5."),
        ("a", TypeError, "`seed` must be an integer; got 'a'."),
        (None, TypeError, "`seed` must be an integer; got None."),
    ],
)
def test_bad_seeds(seed, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        MonomialNetwork((2, 2, 1), 3).random(seed)


@pytest.mark.parametrize("weights", [None, 5, {1, 2}])
def test_weights_that_are_no_sequence(weights):
    message = f"`weights` must be a sequence of matrices (W_1, ..., W_L); got {type(weights).__name__}."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        MonomialNetwork((2, 2, 1), 3).evaluate(weights, np.ones((1, 2)))
