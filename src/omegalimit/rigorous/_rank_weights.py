"""Weights of a monomial network as exact integers; bounds on the size of its polynomials' coefficients.

Multiplying a whole matrix `W_l` by a number `c != 0` multiplies `f` by a power of c, so the rank of the differential
does not change: each layer is brought to integers by its common denominator.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from .._exact import Rows, exact_layers
from ..models.monomial import check_shapes

Layers = list[list[list[int]]]


def integer_layers(weights: Sequence[Any]) -> tuple[Layers, tuple[int, ...]]:
    """Integers proportional, layer by layer, to these weights, and the widths; raises as `exact_layers`."""
    layers = exact_layers(weights)
    return [_whole(rows) for rows in layers], check_shapes([(len(rows), len(rows[0])) for rows in layers])


def fraction_layers(weights: Sequence[Any]) -> list[list[list[Fraction]]]:
    """The weights as fractions; raises as `exact_layers`."""
    layers = exact_layers(weights)
    check_shapes([(len(rows), len(rows[0])) for rows in layers])
    return [[[Fraction(x) for x in row] for row in rows] for rows in layers]


def _whole(rows: Rows) -> list[list[int]]:
    """The rows times their common denominator, over their common divisor."""
    common = math.lcm(*(x.denominator for row in rows for x in row))
    whole = [[x.numerator * (common // x.denominator) for x in row] for row in rows]
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
