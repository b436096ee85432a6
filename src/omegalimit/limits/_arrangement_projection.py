"""Exact geometry of integer vectors: orthogonal complements, and determinants."""

import math
from collections.abc import Sequence


def orthogonalised(vectors: Sequence[list[int]], basis: Sequence[list[int]] = ()) -> list[list[int]]:
    """Orthogonal vectors, coprime, that with the orthogonal `basis` span what `vectors` and `basis` do."""
    found: list[list[int]] = []
    for vector in vectors:
        reduced = without(vector, [*basis, *found])
        if any(reduced):
            found.append(reduced)
    return found


def without(vector: list[int], orthogonal: Sequence[list[int]]) -> list[int]:
    """A positive multiple of `vector` less its parts along these orthogonal vectors, coprime."""
    for other in orthogonal:
        length = sum(a * a for a in other)
        along = sum(a * b for a, b in zip(vector, other, strict=True))
        if along:
            vector = [length * a - along * b for a, b in zip(vector, other, strict=True)]
            divisor = math.gcd(*vector) or 1
            vector = [a // divisor for a in vector]
    return vector


def determinant(square: list[list[int]]) -> int:
    """Of two or three integer vectors."""
    if len(square) == 2:
        (a, b), (c, d) = square
        return a * d - b * c
    (a, b, c), (d, e, f), (g, h, i) = square
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
