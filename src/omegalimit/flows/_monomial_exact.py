"""Whether the gradient of the squared loss of a monomial net is exactly zero, in rational arithmetic.

In doubles a derivative that underflows looks like one that vanishes: only the second is rest.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

# Bits of the largest numbers times products to be formed: some seconds.
_MOST_WORK = 1e9


def gradient_is_zero(X: np.ndarray, y: np.ndarray, weights: Sequence[np.ndarray], degree: int) -> bool | None:
    """Whether it is, at these doubles, taken as the dyadic rationals that they are; `None` where that takes too long.

    Each of `X` (n, d_0), `y` (n, m) and the weights is whole numbers times a power of two. With `f = 2^e F`, F in whole
    numbers, the gradient is a power of two times that of `sum |F - 2^-e y|^2` by the whole weights.
    """
    (points, a), *layers = (_whole(part) for part in (X, *weights))
    targets, b = _whole(y)
    bits = max(int(x).bit_length() for part in (points, *(W for W, _ in layers)) for x in part.flat)
    degree_of_outputs = degree ** len(layers) + degree ** (len(layers) - 1)
    if bits * degree_of_outputs * len(X) * sum(W.size for W in weights) > _MOST_WORK:
        return None
    exponent, inputs, slopes = a, [points], []
    for k, (W, e) in enumerate(layers):
        h = inputs[-1] @ W.T
        exponent += e
        if k + 1 < len(layers):
            inputs.append(h**degree)
            slopes.append(h ** (degree - 1))
            exponent *= degree
        else:
            inputs.append(h)
    shift = b - exponent
    back = inputs.pop() * 2 ** max(0, -shift) - targets * 2 ** max(0, shift)
    for k in range(len(layers) - 1, -1, -1):
        if (back.T @ inputs[k]).any():
            return False
        if k:
            back = (back @ layers[k][0]) * slopes[k - 1]
    return True


def _whole(array: np.ndarray) -> tuple[Any, int]:
    """Python's integers N and an exponent e with `array = N 2^e`."""
    values = [Fraction(x) for x in array.ravel().tolist()]
    bits = math.lcm(*(x.denominator for x in values)).bit_length() - 1  # denominators are powers of two
    whole = np.empty(array.shape, dtype=object)
    whole.ravel()[:] = [int(x * 2**bits) for x in values]
    return whole, -bits
