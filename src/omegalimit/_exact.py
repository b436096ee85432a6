"""Matrices as the exact numbers that they are: integers and fractions, no rounding on the way.

Lists are read entry by entry: as an array `[[2**63, -1]]` would be one of floats. Whatever else holds a matrix (NumPy,
JAX, pandas) is asked for its array. Booleans are 0 and 1, as in every other input.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ._checks import check_unmasked, shape_text

Rows = list[list[int | Fraction]]


def check_layers(weights: Sequence[Any], name: str = "weights") -> Sequence[Any]:
    """`weights`, a sequence of matrices; raises `TypeError` for what is none."""
    if isinstance(weights, (str, bytes)) or not isinstance(weights, (Sequence, np.ndarray)):
        raise TypeError(f"`{name}` must be a sequence of matrices (W_1, ..., W_L); got {type(weights).__name__}.")
    return weights


def exact_layers(weights: Sequence[Any]) -> list[Rows]:
    """`exact_rows` of every matrix."""
    return [exact_rows(W, f"weights[{layer}]") for layer, W in enumerate(check_layers(weights))]


def exact_rows(W: Any, name: str) -> Rows:
    """The rows of a matrix as integers and fractions.

    Entries may be integers, booleans, `Fraction`s, or floats of any width, which are the dyadic rationals that they
    are. Raises `ValueError` for what is no matrix, for an empty one, for rows of different lengths, masked entries,
    NaN and infinities; `TypeError` for entries of another kind.
    """
    rows = [_entries(row, f"{name}[{i}]", name) for i, row in enumerate(_entries(W, name, name))]
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"`{name}` is not a rectangular matrix: its rows differ in length.")
    if not rows or not rows[0]:
        shape = (len(rows), len(rows[0]) if rows else 0)
        raise ValueError(f"`{name}` must be a matrix (rows, columns), none empty; got {shape_text(shape)}.")
    return [[_exact(x, f"{name}[{i}, {k}]") for k, x in enumerate(row)] for i, row in enumerate(rows)]


def _entries(values, at, name) -> list:
    check_unmasked(values, at)
    if isinstance(values, (list, tuple)):
        return list(values)
    array = np.asarray(values)
    if array.dtype.kind not in "biufO":
        if array.dtype.kind in "US" and not array.ndim:
            raise TypeError(f"`{at}` must be a matrix of numbers; got {values!r}.")
        raise TypeError(f"`{at}` must hold real numbers; it holds {array.dtype}.")
    if not array.ndim:
        raise ValueError(f"`{name}` must be a matrix: a sequence of rows of numbers.")
    return array.tolist()


def _exact(x, at) -> int | Fraction:
    if isinstance(x, (bool, np.bool_)):
        return int(x)
    if isinstance(x, (int, np.integer)):
        return int(x)
    if isinstance(x, Fraction):
        return x
    if not isinstance(x, (float, np.floating)):
        raise TypeError(f"`{at}` must be an integer, a Fraction or a float; got {x!r}.")
    if not np.isfinite(x):
        raise ValueError(f"`{at}` is {float(x)}; every entry must be finite.")
    ratio = x.as_integer_ratio()
    return Fraction(int(ratio[0]), int(ratio[1]))
