"""Directions on a face: doubles are rational numbers, and so are their projections."""

from fractions import Fraction

import numpy as np
from jaxtyping import Float


def _dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _without(vector, orthogonal):
    for q in orthogonal:
        share = _dot(vector, q) / _dot(q, q)
        vector = [x - share * y for x, y in zip(vector, q, strict=True)]
    return vector


def projected(u: Float[np.ndarray, " D"], normals: Float[np.ndarray, "k D"]) -> Float[np.ndarray, " D"]:
    """`u` without its part in the span of `normals`, computed exactly and rounded to length one; zero if nothing stays.

    Normals that depend on others, or nearly do, are no trouble: rank is decided in rational arithmetic.
    """
    orthogonal: list[list[Fraction]] = []
    for normal in normals:
        rest = _without([Fraction(float(x)) for x in normal], orthogonal)
        if any(rest):
            orthogonal.append(rest)
    v = _without([Fraction(float(x)) for x in u], orthogonal)
    largest = max(abs(x) for x in v)
    if not largest:
        return np.zeros(len(v))
    rounded = np.array([float(x / largest) for x in v])
    return rounded / np.linalg.norm(rounded)
