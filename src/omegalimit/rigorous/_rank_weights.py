"""Weights of a monomial network as exact integers; bounds on the size of its polynomials' coefficients.

Multiplying a whole matrix `W_l` by a number `c != 0` multiplies `f` by a power of c, so the rank of the differential
does not change: each layer is brought to integers by its common denominator.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..models.monomial import check_shapes

Layers = list[list[list[int]]]


def integer_layers(weights: Sequence[Any]) -> tuple[Layers, tuple[int, ...]]:
    """Integers proportional, layer by layer, to these weights, and the widths; raises as `_ratios`."""
    layers, widths = _ratios(weights)
    return [_whole(rows) for rows in layers], widths


def fraction_layers(weights: Sequence[Any]) -> list[list[list[Fraction]]]:
    """The weights as fractions; raises as `_ratios`."""
    return [[[Fraction(p, q) for p, q in row] for row in rows] for rows in _ratios(weights)[0]]


def _ratios(weights):
    """Numerators and denominators of the weights, and the widths.

    Entries may be integers, `Fraction`s (anything with an exact `as_integer_ratio`), NumPy numbers, or floats, which
    are taken as the dyadic rationals that they are. Raises as `models.monomial.check_shapes`, `TypeError` for entries
    of another kind, and `ValueError` for NaN and infinities.
    """
    if isinstance(weights, (str, bytes)) or not isinstance(weights, (Sequence, np.ndarray)):
        raise TypeError(f"`weights` must be a sequence of matrices (W_1, ..., W_L); got {type(weights).__name__}.")
    layers = []
    for layer, W in enumerate(weights):
        rows = W.tolist() if isinstance(W, np.ndarray) else W
        try:
            rows = [list(row) for row in rows]
        except TypeError:
            raise ValueError(f"`weights[{layer}]` must be a matrix: a sequence of rows of numbers.") from None
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"`weights[{layer}]` is not a rectangular matrix: its rows differ in length.")
        layers.append([[_ratio(x, (layer, i, k)) for k, x in enumerate(row)] for i, row in enumerate(rows)])
    return layers, check_shapes([(len(rows), len(rows[0]) if rows else 0) for rows in layers])


def _ratio(x, where) -> tuple[int, int]:
    if type(x) is int:
        return x, 1
    if isinstance(x, (float, Fraction, int, np.integer, np.floating)):
        try:
            p, q = x.as_integer_ratio() if not isinstance(x, np.integer) else (int(x), 1)
        except (ValueError, OverflowError):
            at = f"`weights[{where[0]}][{where[1]}, {where[2]}]`"
            raise ValueError(f"{at} is {float(x)}; every entry must be finite.") from None
        return int(p), int(q)
    at = f"`weights[{where[0]}][{where[1]}, {where[2]}]`"
    raise TypeError(f"{at} must be an integer, a Fraction or a float; got {x!r}.")


def _whole(rows):
    """The rows times their common denominator, over their common divisor."""
    common = math.lcm(*(q for row in rows for _, q in row))
    whole = [[p * (common // q) for p, q in row] for row in rows]
    divisor = math.gcd(*(x for row in whole for x in row)) or 1
    return [[x // divisor for x in row] for row in whole]


def coefficient_bounds(layers: Layers, degree: int) -> list[int]:
    """For each weight a bound on the coefficients of the derivative of any output by it, in the order of the columns.

    The sum of the absolute values of a polynomial's coefficients is at most the value at `x = (1, ..., 1)` of the same
    network with the absolute values of the weights, and so it is for the derivatives: all terms are positive there.
    """
    positive = [[[abs(x) for x in row] for row in W] for W in layers]
    inputs, slopes = [[1] * len(positive[0][0])], []
    for W in positive[:-1]:
        h = [sum(w * a for w, a in zip(row, inputs[-1], strict=True)) for row in W]
        inputs.append([x**degree for x in h])
        slopes.append([degree * x ** (degree - 1) for x in h])
    delta, blocks = [1] * len(positive[-1]), []
    for layer in range(len(positive) - 1, -1, -1):
        blocks.append([d * a for d in delta for a in inputs[layer]])
        if layer:
            # Of the outputs the largest; below, sums over the neurons of the layer above.
            joined = max if layer == len(positive) - 1 else sum
            columns = zip(*positive[layer], strict=True)
            delta = [joined(w * d for w, d in zip(column, delta, strict=True)) for column in columns]
            delta = [d * s for d, s in zip(delta, slopes[layer - 1], strict=True)]
    return [bound for block in blocks[::-1] for bound in block]
