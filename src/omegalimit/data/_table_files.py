"""Tables of rows with one column to predict, from the user's own files and from data frames of pandas.

What a file is, its content says and not its name. Nothing in a file is run, sizes are checked before memory is taken,
and every failure is one line that starts with the path as it was typed. What is made of the rows is the caller's: the
column to predict comes as numbers, or, for classes, as whatever stands there.
"""

import dataclasses
import decimal
import difflib
import io
import numbers
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from .._checks import n_rounded, to_float64
from ._rows import check_unique, listed, shown
from ._separated_text import TextTable, missing, no_text, read_separated
from .files import _DAMAGE, _KINDS, MAX_BYTES, _check_file, _Refused, _typed
from .margin_files import _unpack

_HOW = "np.savez(path, X=X, y=y)"
_WANTED = "a CSV, Parquet or .npz file"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """What was read: `X` rows of numbers, `y` the column to predict, and their names; nothing is checked yet."""

    X: np.ndarray
    y: Any
    names: tuple[str, ...]
    target: str
    name: str
    notes: tuple[str, ...]
    weights: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Wanted:
    """Which column is to be predicted, whether as `labels` of any kind, and which has weights."""

    target: str | None
    labels: bool
    weights: str | None


def load_rows(
    source: Any,
    target: str | None,
    header: bool | None,
    make: Callable[[Rows], T],
    *,
    labels: bool = False,
    weights: str | None = None,
) -> T:
    """What `make` makes of the rows in `source`; with `labels` the column to predict is left as it is.

    `source`, `target`, `header` and `weights`, and what is raised: `load_regression`, `load_classification`. An `.npz`
    file's `weights` are read with `labels` only.
    """
    for key, value in (("target", target), ("weights", weights)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"`{key}` must be the name of a column; got {value!r}.")
    if header is not None and not isinstance(header, bool):
        raise TypeError(f"`header` must be True, False or None; got {header!r}.")
    if _is_frame(source):
        typed, name = "data frame", "data frame"
    elif isinstance(source, (str, os.PathLike)):
        typed, name = _typed(source), Path(os.fsdecode(source)).name
    else:
        raise TypeError(f"`source` must be a path or a pandas DataFrame; got {type(source).__name__}.")
    wanted = _Wanted(target=target, labels=labels, weights=weights)
    try:
        if _is_frame(source):
            return make(_chosen(FrameTable(source), wanted, name))
        return make(_from_file(Path(os.fsdecode(source)), wanted, header, name))
    except OSError as error:
        raise ValueError(f"{typed}: it cannot be read: {error.strerror or 'the file is damaged'}.") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{typed}: {error}") from None


def _is_frame(source: Any) -> bool:
    """Whether this is a data frame of pandas; who has one has imported pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def _from_file(file: Path, wanted: _Wanted, header: bool | None, name: str) -> Rows:
    _check_file(file, _WANTED)
    if (size := file.stat().st_size) > MAX_BYTES:
        raise _Refused(f"the file takes {size} bytes; at most {MAX_BYTES} are read.")
    with file.open("rb") as stream:
        head = stream.read(16)
        stream.seek(0)
        if not head:
            raise _Refused("the file is empty.")
        if head.startswith(b"PAR1"):
            return _chosen(_from_parquet(stream), wanted, name)
        if head.startswith(b"PK"):
            return _from_npz(stream, wanted, name)
        if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
            raise _Refused(f"this is a pickle, and loading it would run code; refused. Give {_WANTED}.")
        if what := next((text for magic, text in _KINDS if head.startswith(magic)), None):
            raise _Refused(f"this is {what}; give {_WANTED}.")
        if size > MAX_BYTES // 4:
            raise _Refused(
                f"the text takes {size} bytes; at most {MAX_BYTES // 4} are read: write it as Parquet or .npz."
            )
        return _chosen(read_separated(stream.read(), header=header, labels=wanted.labels), wanted, name)


def _chosen(table: "TextTable | FrameTable", wanted: _Wanted, name: str) -> Rows:
    """The table with one of its columns as what is to be predicted."""
    names, notes = table.names, list(table.notes)
    if len(names) < 2:
        raise _Refused(f"there is one column, {listed([*names])}; give one to predict and one to predict it from.")
    weights = None if wanted.weights is None else _column_called(wanted.weights, names)
    if wanted.target is None:
        column = len(names) - (2 if weights == len(names) - 1 else 1)
        last = "the last one" if column == len(names) - 1 else "the last one before the weights"
        notes.append(f"the column to predict is {last}, `{shown(names[column])}`; say `target` for another.")
    else:
        column = _column_called(wanted.target, names)
    if column == weights:
        raise _Refused(f"the column `{shown(names[column])}` cannot be both the target and the weights.")
    others = [j for j in range(len(names)) if j not in (column, weights)]
    if not others:
        raise _Refused(f"beside the target and the weights there is no column; the columns are {listed([*names])}.")
    as_numbers = [j for j in range(len(names)) if not wanted.labels or j != column]
    values, told = table.numbers(as_numbers)
    return Rows(
        X=values[:, [as_numbers.index(j) for j in others]],
        y=table.labels(column) if wanted.labels else values[:, as_numbers.index(column)],
        weights=None if weights is None else values[:, as_numbers.index(weights)],
        names=tuple(names[j] for j in others),
        target=names[column],
        name=name,
        notes=(*notes, *told),
    )


def _column_called(name: str, names: tuple[str, ...]) -> int:
    if name in names:
        return names.index(name)
    close = difflib.get_close_matches(name, names, 1, 0.6)
    meant = f"; do you mean `{shown(close[0])}`?" if close else "."
    raise _Refused(f"there is no column `{shown(name)}`; the columns are {listed([*names])}{meant}")


def _from_npz(stream: io.BufferedReader, wanted: _Wanted, name: str) -> Rows:
    def choose(keys: set[str]) -> tuple[str, ...]:
        if any(key.startswith("xl/") for key in keys):
            raise _Refused(f"this is a workbook of a spreadsheet; save the sheet as CSV, or give {_WANTED}.")
        if lacking := [key for key in ("X", "y") if key not in keys]:
            there = listed(sorted(keys)) if keys else "none"
            raise _Refused(
                f"the file must hold the arrays `X` and `y`; missing: {listed(lacking)}; it holds {there}. "
                f"Write it with {_HOW}."
            )
        if wanted.weights is not None and "weights" not in keys:
            raise _Refused(f"there is no array `weights` in the file; it holds {listed(sorted(keys))}.")
        more = ("names", "weights") if wanted.labels else ("names",)
        return ("X", "y", *(key for key in more if key in keys))

    if wanted.target not in (None, "y"):
        raise _Refused(
            f"the column to predict in an .npz file is its array `y`; got `target` {shown(wanted.target)!r}."
        )
    if wanted.weights not in (None, "weights"):
        raise _Refused(f"the weights in an .npz file are its array `weights`; got `weights` {shown(wanted.weights)!r}.")
    arrays, notes = _unpack(stream, choose, _HOW)
    names = arrays.get("names", np.array([], dtype=str))
    if names.dtype.kind != "U" or names.ndim != 1:
        raise _Refused("`names` must be a list of texts, one for each column of `X`.")
    if arrays["y"].ndim == 2 and 1 in arrays["y"].shape and arrays["X"].shape[:1] != (1,):
        raise _Refused(f"`y` must have shape (n,); got {arrays['y'].shape}: write `y.ravel()`.")
    names = tuple(map(str, names))
    return Rows(
        X=arrays["X"],
        y=arrays["y"],
        weights=arrays.get("weights"),
        names=names,
        target="y",
        name=name,
        notes=tuple(notes),
    )


def _from_parquet(stream: io.BufferedReader) -> "FrameTable":
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise _Refused('reading Parquet needs pyarrow; install it with `pip install "omegalimit[parquet]"`.') from None
    try:
        file = parquet.ParquetFile(stream)
        n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
        if (size := 8 * n_rows * n_columns) > MAX_BYTES:
            raise _Refused(f"the table takes {size} bytes unpacked; at most {MAX_BYTES} are read.")
        frame = file.read(use_threads=False).to_pandas(use_threads=False)
    except _Refused:
        raise
    except (pyarrow.ArrowException, *_DAMAGE):
        raise _Refused("the Parquet file is truncated or damaged; write it again.") from None
    return FrameTable(frame)


class FrameTable:
    """A data frame as a table: `names` of its columns, what was left out in `notes`; values when they are asked for.

    Raises `_Refused` for names that are missing or used twice and for an empty frame; asked for values, for what is
    not of the kind that is asked for, with its row and column.
    """

    def __init__(self, frame: Any):
        if frame.columns.nlevels > 1:
            raise _Refused("the columns have names of several levels; give every column one name.")
        self.names = tuple(map(str, frame.columns))
        check_unique(self.names)
        if not all(self.names):
            place = f"column {self.names.index('') + 1} of {len(self.names)}"
            raise _Refused(f"{place} has no name; give it one, or leave it out.")
        n = len(frame)
        if not n or not self.names:
            raise _Refused(f"it has shape {frame.shape}: there are no {'columns' if n else 'rows'} in it.")
        ends = [*frame.index[:1], *frame.index[-1:]]
        plain = frame.index.nlevels == 1 and frame.index.name is None and ends == [0, n - 1]
        self.notes = () if plain else ("the index of the data frame was left out.",)
        self._frame = frame

    def numbers(self, columns: list[int]) -> tuple[Float[np.ndarray, "n w"], list[str]]:
        """These columns as doubles, shape `(n, w)`, and sentences on what that did to them."""
        values = np.empty((len(self._frame), len(columns)))
        converted: dict[str, list[str]] = {}
        for k, j in enumerate(columns):
            values[:, k], note = _column(self._frame.iloc[:, j], self.names[j])
            if note is not None:
                converted.setdefault(note, []).append(self.names[j])
        return values, [f"{listed(names)} {note}" for note, names in converted.items()]

    def labels(self, column: int) -> Any:
        """A column of any values, as it is: a list, or pandas' categorical, whose categories may have an order."""
        series = self._frame.iloc[:, column]
        _check_gaps(series, self.names[column])
        return series.array if isinstance(series.dtype, sys.modules["pandas"].CategoricalDtype) else series.tolist()


def _column(series: Any, name: str) -> tuple[np.ndarray, str | None]:
    """A column as doubles, and what a conversion did to it."""
    _check_gaps(series, name)
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiubc":
        array = series.to_numpy()
    elif sys.modules["pandas"].api.types.is_numeric_dtype(dtype) and dtype.kind in "fiub":
        array = series.to_numpy(
            dtype={"f": "f8", "i": "i8", "u": "u8", "b": "?"}[dtype.kind]
        )  # pandas' own Int64 and such
    else:
        array = _from_objects(series, name)
    try:
        doubles, note = to_float64(array, name)
    except TypeError as error:
        raise _Refused(str(error)) from None
    bad = np.flatnonzero(~np.isfinite(doubles))
    if bad.size:
        raise _Refused(f"{_place(bad[0], name)}the value is {doubles[bad[0]]}; every value must be finite.")
    if note is None:
        return doubles, None
    if array.dtype.kind in "iu" and n_rounded(array, doubles):
        return doubles, f"came as {array.dtype}: integers above 2**53 were rounded."
    if array.dtype.kind == "f":
        rounding = np.finfo(array.dtype).eps / 2
        return doubles, f"came as {array.dtype}: its own rounding, about {rounding:.0e}, stays in the data."
    return doubles, f"came as {array.dtype}, converted to float64 exactly."


def _from_objects(series: Any, name: str) -> np.ndarray:
    """Doubles from Python's own numbers (databases give decimals); anything else is refused with its place."""
    doubles = np.empty(len(series))
    for i, value in enumerate(series):
        if not isinstance(value, (numbers.Real, decimal.Decimal)):
            raise _Refused(f"{_place(i, name)}{no_text(shown(repr(value)))}")
        try:
            doubles[i] = float(value)
        except (OverflowError, ValueError):
            doubles[i] = np.inf
        if value and not doubles[i]:
            raise _Refused(f"{_place(i, name)}{shown(str(value))} is too small for double precision.")
    return doubles


def _check_gaps(series: Any, name: str) -> None:
    gaps = np.flatnonzero(series.isna().to_numpy(dtype=bool))
    if gaps.size:
        raise _Refused(missing(_place(gaps[0], name), str(series.iloc[gaps[0]]), gaps.size))


def _place(row: int, name: str) -> str:
    return f"row {row} (the first is 0), column `{shown(name)}`: "
