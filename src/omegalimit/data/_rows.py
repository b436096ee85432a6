"""What data sets of rows share: arrays copied and checked, names for columns, and what a reader must see of them."""

from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, check_same_length, to_float64


def settle_arrays(data: Any, axes: dict[str, str]) -> dict[str, str]:
    """Replace the arrays of a frozen data set by read-only copies in float64; what a conversion did, for each.

    `axes`: the name of each array and its axes, `X` (rows first) before the others. Raises `ValueError` for other
    shapes, no rows or columns, and entries that are not finite; `TypeError` for entries that are not real numbers.
    """
    notes = {}
    for key, letters in axes.items():
        array, note = to_float64(getattr(data, key), key)
        check_ndim(array, key, axes=letters)
        array.flags.writeable = False
        object.__setattr__(data, key, array)
        if note is not None:
            notes[key] = note
    for axis, what in ((0, "row"), (1, "column")):
        if data.X.shape[axis] == 0:
            raise ValueError(f"`X` has shape {data.X.shape}: there is no {what}; pass at least one.")
    for key in axes:
        check_same_length(data.X, getattr(data, key), ("X", key), axes=(0, 0), what="rows")
    for key in axes:
        check_finite(getattr(data, key), key)
    return notes


def settle_names(data: Any) -> None:
    """Replace `names` by a name for each column of `X` (`x1`, `x2`, ... when there are none), all different."""
    if isinstance(data.names, (str, bytes)):
        raise TypeError(f"`names` must be a list of texts, one for each column of `X`; got {data.names!r}.")
    n_columns = data.X.shape[1]
    names = tuple(data.names) or tuple(f"x{j}" for j in range(1, n_columns + 1))
    for name in (*names, data.target):
        if not isinstance(name, str):
            raise TypeError(f"`names` and `target` must be text; got {name!r}.")
        if not name:
            raise ValueError("`names` and `target` must not be empty; give every column a name.")
    if len(names) != n_columns:
        raise ValueError(f"`names` has {len(names)} entries, and `X` has {n_columns} columns; give one for each.")
    check_unique((*names, data.target) if data.names else names)
    object.__setattr__(data, "names", names)


def zero_columns(X: Float[np.ndarray, "n d"], names: tuple[str, ...]) -> list[str]:
    """Names of the columns that are zero in every row."""
    return [names[j] for j in np.flatnonzero(~X.any(axis=0))]


def column_notes(X: Float[np.ndarray, "n d"], names: tuple[str, ...]) -> list[str]:
    """Sentences on columns that are zero, or that repeat an earlier one or its opposite exactly."""
    zero = zero_columns(X, names)
    notes = [f"zero in every row: {listed(zero)}."] if zero else []
    if len(X) == 1:
        return notes
    seen: dict[bytes, str] = {}
    pairs: dict[str, list[str]] = {"equal": [], "opposite": []}
    skipped = set(zero)
    for name, column in zip(names, X.T + 0.0, strict=True):  # + 0.0: no negative zeros
        if name in skipped:
            continue
        key = column.tobytes()
        if key in seen:
            pairs["equal"].append(f"`{shown(seen[key])}` and `{shown(name)}`")
        elif (other := (0.0 - column).tobytes()) in seen:
            pairs["opposite"].append(f"`{shown(seen[other])}` and `{shown(name)}`")
        else:
            seen[key] = name
    return [*notes, *(f"{kind} columns: {some(found)}." for kind, found in pairs.items() if found)]


def check_unique(names: tuple[str, ...]) -> None:
    """Raise `ValueError` when two names are the same."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two columns are called `{shown(name)}`; give every column a name of its own.")
        seen.add(name)


def shown(text: str) -> str:
    """Text of a file in a message: on one line, at most forty characters."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 40 else f"{text[:37]}..."


def listed(names: list[str]) -> str:
    """Names in a message, the first five of them."""
    return some([f"`{shown(name)}`" for name in names])


def some(items: list[str]) -> str:
    """The first five items of a list in a message, and how many there are beside them."""
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
