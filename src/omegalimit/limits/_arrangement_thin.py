"""Doubles inside a cell that is thinner than their distance."""

import numpy as np
from jaxtyping import Float, Int

from ._arrangement_integers import exact_signs, floats_of, integers_of

# How many multiples are rounded, in turn.
_TRIES = (64, 1024, 16384)


def double_inside(inside: list[int], rows: np.ndarray, signs: Int[np.ndarray, " n"]) -> Float[np.ndarray, " D"] | None:
    """A vector of doubles, of a length between one and two, with these signs on the integer rows; `None` if not found.

    The multiples of the inner vector `inside` round to many directions, each within an ulp of its own.
    """
    vector = np.empty((1, len(inside)), dtype=object)
    vector[0] = inside
    first = 0
    for n_tries in _TRIES:
        # Steps of an odd number, so that no digit of the multiples stays.
        floats = floats_of(vector * (2**40 + np.arange(first, first + n_tries).astype(object)[:, None] * 2654435761))
        good = (exact_signs(integers_of(floats), rows) == signs).all(axis=1)
        if good.any():
            point = floats[int(good.argmax())]
            # Only a power of two keeps the direction.
            return np.ldexp(point, 1 - int(np.frexp(np.sqrt(point @ point))[1]))
        first += n_tries
    return None
