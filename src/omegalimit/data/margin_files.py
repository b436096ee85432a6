"""Margin problems from `.npz` files, and groups of columns from text.

The constraints `A_k` are `rows`, `left` with `right` (`A_k = D_k Z_k^T`), `X` with `y` (`A_k = y_k X_k`), or sparse
rows as `scipy.sparse.save_npz` writes them. As in `files.py`: nothing in a file is run, sizes are checked before memory
is taken, and every failure is one line that names the file as it was typed. The indices of a sparse array are checked
too: SciPy follows them without looking.
"""

import contextlib
import dataclasses
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.lib import format as npy

from .._checks import check_finite, check_labels, shape_text, to_float64
from .files import _DAMAGE, MAX_BYTES, _check_file, _check_kind, _read_array, _Refused, _shown, _typed

_HOW = "np.savez(path, rows=A), np.savez(path, left=D, right=Z), np.savez(path, X=X, y=y) or scipy.sparse.save_npz"
_SPARSE = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
_KINDS = (("rows",), ("left", "right"), ("X", "y"))
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")  # eighteen digits fit 64 bits


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginData:
    """The constraints of a margin problem as a file holds them.

    - `arrays`: `rows`, or `left` and `right`, or `X` and `y`, by name: double precision, finite, one row a constraint.
    - `labels`: +1 or -1 a constraint, for an intercept; `None` where the file has none.
    - `typed`, `sha256`: the path as it was typed, and the digest of the file's bytes.
    - `notes`: sentences about conversions and about arrays that were ignored.
    """

    arrays: Mapping[str, Any]
    labels: Float[np.ndarray, " N"] | None
    typed: str
    sha256: str
    notes: tuple[str, ...]

    @property
    def n_columns(self) -> int | None:
        """Number of columns of vectors; `None` for matrices."""
        first = next(iter(self.arrays.values()))
        return int(first.shape[1]) if "left" not in self.arrays and len(first.shape) == 2 else None


def load_margin_data(path: str | os.PathLike[str]) -> MarginData:
    """The constraints in an `.npz` file: see the top of this page. `labels`, shape (N,), may stand beside the rows.

    Arrays with other names are ignored, and a note says so. Raises `ValueError`, one line that starts with the path as
    given: for a file that `load_tokens` would refuse as a file, for missing arrays, for arrays of two kinds in one
    file, and for entries, shapes and labels that do not fit.
    """
    with _opened(path, _HOW) as (stream, typed):
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        stream.seek(0)
        raw, notes = _unpack(stream, _data_keys, _HOW)
        labels = raw.pop("labels", None)
        if "format" in raw:
            arrays: dict[str, Any] = {"rows": _sparse(raw, notes)}
        else:
            arrays = {key: _numbers(array, key, notes) for key, array in raw.items()}
        n = next(iter(arrays.values())).shape[0]
        if "right" in arrays and arrays["right"].shape[0] != n:
            raise _Refused(
                f"`left` has shape {shape_text(arrays['left'].shape)} and `right` has shape "
                f"{shape_text(arrays['right'].shape)}; both must have one row for each constraint."
            )
        if "y" in arrays:
            arrays["y"] = _signs(arrays["y"], "y", n, of="rows of `X`")
        if labels is not None:
            labels = _signs(labels, "labels", n, of="constraints")
        return MarginData(arrays=arrays, labels=labels, typed=typed, sha256=sha256, notes=tuple(notes))


def load_groups(path: str | os.PathLike[str], *, n_columns: int | None = None) -> Int[np.ndarray, " d"]:
    """The groups of columns from a text file: one integer label a line, for each column in turn.

    `n_columns`: how many there must be, when known. The last line may end in a newline; blank lines, comments and
    several labels on a line are refused with the number of the line. Raises `ValueError` that starts with the path.
    """
    typed, file = _typed(path), Path(os.fsdecode(path))
    try:
        _check_file(file, "a text file with one integer label a line")
        if (size := file.stat().st_size) > MAX_BYTES // 8:
            raise _Refused(f"the file takes {size} bytes; at most {MAX_BYTES // 8} are read.")
        lines = file.read_bytes().decode("utf-8-sig").splitlines()
        labels = []
        for number, line in enumerate(lines, 1):
            word = line.strip()
            if not _INTEGER.fullmatch(word):
                what = f"is {_shown(word)!r}, which is not an integer" if word else "is blank"
                raise _Refused(f"line {number} {what}; write one integer label a line, one for each column.")
            labels.append(int(word))
        if not labels:
            raise _Refused("the file is empty; write one integer label a line, one for each column.")
        if n_columns is not None and len(labels) != n_columns:
            raise _Refused(
                f"there are {len(labels)} labels, and the data has {n_columns} columns; write one label for each."
            )
    except UnicodeDecodeError:
        raise ValueError(f"{typed}: this is not text; write one integer label a line, one for each column.") from None
    except OSError as error:
        raise ValueError(f"{typed}: it cannot be read: {error.strerror}.") from None
    except _Refused as error:
        raise ValueError(f"{typed}: {error}") from None
    return np.array(labels)


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], how: str) -> Iterator[tuple[io.BufferedReader, str]]:
    """The stream of an `.npz` file and the path as it was typed; whatever goes wrong inside is one line with it."""
    typed, file = _typed(path), Path(os.fsdecode(path))
    try:
        _check_file(file, f"an .npz file, written by {how}")
        with file.open("rb") as stream:
            _check_kind(stream, how)
            yield stream, typed
    except _Refused as error:
        raise ValueError(f"{typed}: {error}") from None
    except OSError as error:
        said = error.strerror or "the file is damaged; write it again"
        raise ValueError(f"{typed}: it cannot be read: {said}.") from None


def _unpack(
    stream: io.BufferedReader, choose: Callable[[set[str]], tuple[str, ...]], how: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays that `choose` picks from the names in the file, and a note on the others."""
    try:
        archive = zipfile.ZipFile(stream)
        infos = archive.infolist()
    except _DAMAGE:
        raise _Refused("the .npz file is truncated or damaged; write it again.") from None
    with archive:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            key = info.filename.removesuffix(".npy")
            if key in members:
                raise _Refused(f"the file holds `{_shown(key)}` twice.")
            members[key] = info
        wanted = choose(set(members))
        total = sum(members[key].file_size for key in wanted)
        if total > MAX_BYTES:
            raise _Refused(f"the arrays take {total} bytes unpacked; at most {MAX_BYTES} are read.")
        arrays = {key: _read_array(archive, members[key], key, _ndim(archive, members[key]), how) for key in wanted}
    ignored = sorted(set(members) - set(wanted) - {"_is_array"})
    return arrays, [f"ignored in the file: {_listed(ignored)}."] if ignored else []


def _ndim(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Axes that the header claims: any number is right here, and the problem says later which it needs."""
    try:
        with archive.open(info) as member:
            version = npy.read_magic(member)
            read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            return len(read_header(member)[0])
    except _DAMAGE:
        return -1  # `_read_array` meets the same damage, and says so


def _data_keys(keys: set[str]) -> tuple[str, ...]:
    """The arrays to read from a file that holds `keys`."""
    whole = [kind for kind in _KINDS if keys >= set(kind)]
    touched = [kind for kind in _KINDS if keys & set(kind)]
    if keys >= {"format", "shape", "data"}:
        parts = tuple(sorted(keys & {"indices", "indptr", "row", "col"}))
        whole, touched = [*whole, ("format", "shape", "data", *parts)], [*touched, ("a sparse array",)]
    if not whole:
        missing = [key for kind in touched for key in kind if key not in keys]
        there = f"; it holds {_listed(sorted(keys))}" if keys else "; it holds none"
        raise _Refused(
            "the file must hold `rows`, or `left` and `right`, or `X` and `y`, or one sparse array"
            + (f"; missing: {_listed(missing)}" if len(touched) == 1 else "")
            + f"{there}. Write it with {_HOW}."
        )
    if len(touched) > 1:
        held = [f"`{k}`" if k != "a sparse array" else k for kind in touched for k in kind if k in keys or " " in k]
        labels = " The labels of rows are called `labels`." if ("X", "y") in touched and "X" not in keys else ""
        raise _Refused(f"the file holds {' and '.join(held)}: it is not clear which are the constraints.{labels}")
    if "labels" in keys and whole[0] == ("X", "y"):
        raise _Refused("the file holds `X`, `y` and `labels`: the labels of `X` are `y`; write it without `labels`.")
    return (*whole[0], "labels") if "labels" in keys else whole[0]


def _listed(keys: list[str]) -> str:
    return ", ".join(f"`{_shown(k)}`" for k in keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")


def _numbers(array: np.ndarray, key: str, notes: list[str], *, least_ndim: int = 1) -> np.ndarray:
    try:
        converted, note = to_float64(array, key)
        check_finite(converted, key)
    except (ValueError, TypeError) as error:
        raise _Refused(str(error)) from None
    if converted.ndim < least_ndim:
        raise _Refused(f"`{key}` must have one row for each constraint; got shape {shape_text(converted.shape)}.")
    if 0 in converted.shape:
        raise _Refused(f"`{key}` has shape {shape_text(converted.shape)}: there is nothing in it.")
    if note is not None and key != "y":
        notes.append(note)
    return converted


def _signs(array: np.ndarray, key: str, n: int, *, of: str) -> Float[np.ndarray, " N"]:
    labels = _numbers(array, key, [])
    if labels.shape != (n,):
        raise _Refused(f"`{key}` must hold one label for each of the {n} {of}; got shape {shape_text(labels.shape)}.")
    try:
        check_labels(labels, key)
    except ValueError as error:
        raise _Refused(str(error)) from None
    return labels


def _sparse(raw: dict[str, np.ndarray], notes: list[str]) -> Any:
    """A sparse array from its parts, in CSR format; every index is checked."""
    import scipy.sparse

    named = raw["format"].reshape(-1)
    name = str(named[0], "ascii", "replace") if named.dtype.kind == "S" and named.size == 1 else str(named)
    parts = _SPARSE.get(name)
    if parts is None:
        raise _Refused(f"the sparse array has the format {_shown(name)!r}; write it as `.tocsr()`.")
    if missing := [part for part in parts if part not in raw]:
        raise _Refused(f"the sparse array of format {name!r} lacks {_listed(missing)}; write it again.")
    if any(raw[part].dtype.kind not in "iu" or raw[part].ndim != 1 for part in parts):
        raise _Refused(f"{_listed(list(parts))} of the sparse array must be lists of integers; write it again.")
    shape = raw["shape"]
    if shape.dtype.kind not in "iu" or shape.shape != (2,):
        raise _Refused(f"`shape` of the sparse array must be two integers; got {_shown(str(shape.tolist()))}.")
    n, d = map(int, shape)
    if not (0 < n <= MAX_BYTES // 8 and 0 < d <= MAX_BYTES // 8):
        raise _Refused(f"the sparse array has shape {(n, d)}; both must lie between 1 and {MAX_BYTES // 8}.")
    data = raw["data"]
    data = _numbers(data, "data", notes) if data.size else np.zeros(0)
    first, second = (raw[part] for part in parts)
    make = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "coo": scipy.sparse.coo_array}[name]
    try:
        array = make((data, (first, second)) if name == "coo" else (data, first, second), shape=(n, d))
        if name != "coo":
            array.check_format(full_check=True)
        return scipy.sparse.csr_array(array)
    except _DAMAGE as error:
        raise _Refused(f"the sparse array is damaged: {' '.join(str(error).split())}.") from None
