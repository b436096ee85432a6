"""Products of a matrix and a vector to about thirty digits, rounded once at the end.

An unevaluated sum of two doubles, `high + low`, holds a number to about `2^-104`. `two_sum` and `two_product` give the
error of one operation exactly (Knuth, Dekker); entries must be far from the ends of the range of doubles, as those of a
problem scaled by a power of two are. No extended precision of the machine is used: the digits are the same everywhere.
"""

import numpy as np
from jaxtyping import Float

# One unit in the last place of a pair, with room for the few operations between.
EPS = 2.0**-100
_SPLITTER = 2.0**27 + 1
# Entries whose products are held at one time.
_CHUNK = 2**20


def two_sum(a, b):
    """`a + b` as the rounded sum and its error."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def two_product(a, b):
    """`a b` as the rounded product and its error."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def times(
    A: Float[np.ndarray, "m k"], x: Float[np.ndarray, " k"], tail: Float[np.ndarray, " k"] | None = None
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """`A (x + tail)` as a pair, each of shape `(m,)`."""
    high, low = np.zeros(len(A)), np.zeros(len(A))
    step = max(1, _CHUNK // max(A.shape[1], 1))
    for i in range(0, len(A), step):
        part = A[i : i + step]
        products, errors = two_product(part, x)
        high[i : i + step], low[i : i + step] = total(products, errors if tail is None else errors + part * tail)
    return high, low


def total(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums of pairs along the last axis, as pairs, by halves."""
    while high.shape[-1] > 1:
        if high.shape[-1] % 2:
            high, low = (np.concatenate([x, np.zeros((*x.shape[:-1], 1))], axis=-1) for x in (high, low))
        half = high.shape[-1] // 2
        added, error = two_sum(high[..., :half], high[..., half:])
        high, low = two_sum(added, error + low[..., :half] + low[..., half:])
    return high[..., 0], low[..., 0]


def _halves(a):
    big = _SPLITTER * a
    high = big - (big - a)
    return high, a - high
