"""Measurements of a matrix from `.npz` files.

`X` with `y` (rank one), `A` with `y` (matrices), `rows`, `cols` and `y` (entries; `d` where the matrix has more rows
than the largest index says), `a` with `y` (commuting; `V` where it is not the identity). As in `files.py`: nothing in
a file is run, sizes are checked before memory is taken, and every failure is one line that names the file as typed.
"""

import os
from pathlib import Path

import numpy as np

from .._checks import shape_text
from .files import MAX_BYTES, _Refused
from .margin_files import _listed, _numbers, _opened, _unpack
from .measurements import (
    CommutingMeasurements,
    DenseMeasurements,
    EntryMeasurements,
    Measurements,
    RankOneMeasurements,
)

_HOW = "np.savez(path, X=X, y=y), np.savez(path, A=A, y=y), np.savez(path, rows=j, cols=k, y=y) or (path, a=a, y=y)"
_KINDS = {("X", "y"): (), ("A", "y"): (), ("rows", "cols", "y"): ("d",), ("a", "y"): ("V",)}


def load_measurements(path: str | os.PathLike[str]) -> Measurements:
    """The measurements in an `.npz` file: see the top of this page. Arrays with other names are ignored, with a note.

    Raises `ValueError`, one line that starts with the path as given: for a file that is missing, damaged, of another
    kind or too large, for missing arrays, for arrays of two kinds in one file, and for everything that the kinds of
    `Measurements` refuse.
    """
    with _opened(path, _HOW) as (stream, typed):
        raw, notes = _unpack(stream, _keys, _HOW)
        y = raw.pop("y")
        size = raw.pop("d", None)
        arrays = {key: _numbers(array, key, notes) for key, array in raw.items() if key not in ("rows", "cols")}
        common = {"y": _numbers(y, "y", []), "name": Path(typed).name}
        if y.dtype.kind == "f" and y.dtype.itemsize < 8:
            notes.append(
                f"`y` came as {y.dtype} and was converted to float64: "
                f"its own rounding, about {np.finfo(y.dtype).eps / 2:.0e}, stays in the data."
            )
        try:
            if "X" in arrays:
                return RankOneMeasurements(X=arrays["X"], notes=tuple(notes), **common)
            if "A" in arrays:
                return DenseMeasurements(A=arrays["A"], notes=tuple(notes), **common)
            if "a" in arrays:
                return CommutingMeasurements(a=arrays["a"], V=arrays.get("V"), notes=tuple(notes), **common)
            rows, cols = (_numbers(raw[key], key, []) for key in ("rows", "cols"))
            if rows.shape != cols.shape:
                raise _Refused(
                    f"`rows` has shape {shape_text(rows.shape)} and `cols` has shape {shape_text(cols.shape)}; "
                    "both must have one index for each entry."
                )
            return EntryMeasurements(rows=rows, cols=cols, size=_size(size, rows, cols), notes=tuple(notes), **common)
        except _Refused:
            raise
        except (ValueError, TypeError) as error:
            raise _Refused(str(error)) from None


def _size(given: np.ndarray | None, rows: np.ndarray, cols: np.ndarray) -> int:
    if given is None:
        d, whose = max(1, int(max(rows.max(), cols.max())) + 1), "the largest index asks for"
    elif given.size != 1 or given.dtype.kind not in "iu":
        raise _Refused(
            f"`d` must be one integer, the number of rows; got {given.dtype} of shape {shape_text(given.shape)}."
        )
    else:
        d, whose = int(given.reshape(())), "`d` asks for"
    if 8 * d * d > MAX_BYTES:
        raise _Refused(f"{whose} a {d} x {d} matrix; at most {MAX_BYTES} bytes are taken for one.")
    return d


def _keys(keys: set[str]) -> tuple[str, ...]:
    """The arrays to read from a file that holds `keys`."""
    whole = [kind for kind in _KINDS if keys >= set(kind)]
    if len(whole) > 1:
        held = " and ".join(f"`{kind[0]}`" for kind in whole)
        raise _Refused(f"the file holds {held}: it is not clear which are the measurements.")
    if not whole:
        there = f"it holds {_listed(sorted(keys))}" if keys else "it holds none"
        raise _Refused(
            "the file must hold `y` and one of `X`, `A`, `a`, or `rows` with `cols`; "
            + f"{there}. Write it with {_HOW}."
        )
    return (*whole[0], *(key for key in _KINDS[whole[0]] if key in keys))
