"""The user's own arrays from `.npz` files: every failure is one line that names the file as it was typed.

Nothing in a file is run: pickles and object arrays are refused. Sizes are checked before memory is taken.
"""

import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Float
from numpy.lib import format as npy

from .._checks import check_finite, check_ndim, to_float64
from .tokens import TokenData

MAX_BYTES = 2**30
"""Largest content of a file that is read, in bytes (1 GiB): more tokens than a full-weight flow can use."""

_KINDS = (
    (b"\x93NUMPY", "a single array (.npy)"),
    (b"\x89HDF", "an HDF5 or NetCDF file"),
    (b"CDF", "a NetCDF file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "a gzip file"),
    (b"MATLAB", "a MATLAB file"),
)

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    SyntaxError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OSError,
)
"""What `zipfile` and `numpy.lib.format` raise on damaged bytes; found by cutting and flipping files (tests)."""


class _Refused(ValueError):
    """A message of ours about a file's content, to be told from an error of the parser."""


def load_tokens(path: str | os.PathLike[str]) -> TokenData:
    """Token data from an `.npz` file with `X` (n, L, d), `z` (n, d), `y` (n,) and `v` (d,), as `numpy.savez` writes it.

    Raises `ValueError`, one line that starts with the path as given: for a file that is missing, damaged, of another
    kind, larger than 1 GiB unpacked, or that would run code when loaded; for missing or unknown keys; and for
    everything that `TokenData` refuses.
    """
    typed = _typed(path)
    try:
        arrays = _read(
            path, {"X": 3, "z": 2, "y": 1, "v": 1}, (("X", "z", "y", "v"),), how="np.savez(path, X=X, z=z, y=y, v=v)"
        )
        return TokenData(X=arrays["X"], z=arrays["z"], y=arrays["y"], v=arrays["v"], name=Path(typed).name)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{typed}: {error}") from None


def load_weights(
    path: str | os.PathLike[str], *, d: int | None = None, notes: list[str] | None = None
) -> dict[str, Float[np.ndarray, "d _"]]:
    """Attention weights from an `.npz` file: `{"K": K, "Q": Q}`, each (d, m), with `W = K Q^T`; or `{"W": W}`, (d, d).

    - `d`: entries of a token, when known; other sizes are then refused.
    - `notes`: a list to which sentences about conversions (float32, integers) are appended.

    Raises `ValueError`, one line that starts with the path as given, as `load_tokens` does; also when the merged
    weights are all zero, which have no direction.
    """
    typed = _typed(path)
    try:
        raw = _read(
            path, {"K": 2, "Q": 2, "W": 2}, (("K", "Q"), ("W",)), how="np.savez(path, K=K, Q=Q) or np.savez(path, W=W)"
        )
        weights = {}
        for key, array in raw.items():
            weights[key], note = to_float64(array, key)
            check_ndim(weights[key], key, axes="d, d" if key == "W" else "d, m")
            check_finite(weights[key], key)
            if note is not None and notes is not None:
                notes.append(note)
        _check_weights(weights, d)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{typed}: {error}") from None
    return weights


def _check_weights(weights: Mapping[str, Float[np.ndarray, "d _"]], d: int | None) -> None:
    if "W" in weights:
        W = weights["W"]
        if W.shape[0] != W.shape[1]:
            raise ValueError(f"`W` must be square, (d, d); got {W.shape}.")
    else:
        K, Q = weights["K"], weights["Q"]
        if K.shape != Q.shape:
            raise ValueError(
                f"`K` has shape {K.shape} and `Q` has shape {Q.shape}; both must be (d, m), with W = K Q^T."
            )
    for key, array in weights.items():
        if array.size == 0:
            raise ValueError(f"`{key}` has shape {array.shape}: there are no weights in it.")
        if d is not None and array.shape[0] != d:
            raise ValueError(f"`{key}` has shape {array.shape}; the tokens have {d} entries, so it must have {d} rows.")
        if not array.any():
            raise ValueError(f"`{key}` is all zero: such weights have no direction.")
    if "K" in weights:
        # At scale one, so that only exact zeros count and small weights do not underflow.
        K, Q = (array / np.abs(array).max() for array in (weights["K"], weights["Q"]))
        if not (K @ Q.T).any():
            raise ValueError("`K Q^T` is all zero: such weights have no direction.")


def _typed(path: str | os.PathLike[str]) -> str:
    typed = os.fsdecode(path)
    return typed if typed.isprintable() and typed else repr(typed)


def _read(
    path: str | os.PathLike[str], ndims: Mapping[str, int], choices: tuple[tuple[str, ...], ...], *, how: str
) -> dict[str, np.ndarray]:
    """The arrays of the one of `choices` whose keys the file has; `how` says how such a file is written."""
    file = Path(os.fsdecode(path))
    try:
        _check_file(file, f"an .npz file, written by {how}")
        with file.open("rb") as stream:
            _check_kind(stream, how)
            return _unpack(stream, ndims, choices, how)
    except _Refused:
        raise
    except OSError as error:
        raise _Refused(f"it cannot be read: {error.strerror or 'the file is damaged; write it again'}.") from None
    except _DAMAGE:  # of the archive's own directory; the members' is caught where the member is known
        raise _Refused("the .npz file is truncated or damaged; write it again.") from None


def _check_file(file: Path, what: str) -> None:
    if file.is_dir():
        raise _Refused(f"this is a folder; give {what}.")
    if not file.exists():
        raise _Refused("there is no such file.")
    if not file.is_file():
        raise _Refused("this is not a regular file.")


def _check_kind(stream: BinaryIO, how: str) -> None:
    head = stream.read(512)
    stream.seek(0)
    if not head:
        raise _Refused("the file is empty.")
    if head[:2] == b"PK":
        return
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise _Refused(f"this is a pickle, and loading it would run code; refused. Write the arrays with {how}.")
    what = next((f"it is {text}" for magic, text in _KINDS if head.startswith(magic)), None)
    raise _Refused(f"this is not an .npz file ({what or _text_or_unknown(head)}); write one with {how}.")


def _text_or_unknown(head: bytes) -> str:
    if b"\x00" not in head:
        try:
            head[:500].decode("utf-8")  # the cut may fall inside a character: at most three bytes of one
            return "it is a text file"
        except UnicodeDecodeError as error:
            if error.start >= 497:
                return "it is a text file"
    return "its first bytes are of no known kind"


def _unpack(
    stream: BinaryIO, ndims: Mapping[str, int], choices: tuple[tuple[str, ...], ...], how: str
) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(stream) as archive:
        infos = archive.infolist()
        if any(info.filename.endswith((".pkl", ".pickle")) for info in infos):
            raise _Refused(
                f"the file holds a pickle, and loading it would run code; refused. Write the arrays with {how}."
            )
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            key = info.filename.removesuffix(".npy")
            if key in members:
                raise _Refused(f"the file holds `{_shown(key)}` twice.")
            members[key] = info
        wanted = _choose(set(members), choices)
        total = sum(members[key].file_size for key in wanted)
        if total > MAX_BYTES:
            raise _Refused(f"the arrays take {total} bytes unpacked; at most {MAX_BYTES} are read.")
        return {key: _read_array(archive, members[key], key, ndims[key], how) for key in wanted}


def _choose(keys: set[str], choices: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The choice that `keys` are, exactly; else an error that lists what is missing and what is unknown."""
    for choice in choices:
        if keys == set(choice):
            return choice
    words = " or ".join(
        " and ".join([", ".join(f"`{k}`" for k in c[:-1]), f"`{c[-1]}`"]) if c[1:] else f"`{c[0]}`" for c in choices
    )
    best = max(choices, key=lambda c: (len(keys & set(c)), -len(c)))
    parts = []
    if missing := [k for k in best if k not in keys]:
        parts.append("missing: " + ", ".join(f"`{k}`" for k in missing))
    known = {k for c in choices for k in c}
    if unknown := sorted(keys - known):
        listed = ", ".join(f"`{_shown(k)}`" for k in unknown[:5]) + (
            f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        )
        parts.append(f"unknown: {listed}")
    if not parts:
        parts.append("got " + ", ".join(f"`{k}`" for k in sorted(keys)))
    raise _Refused(f"the file must hold the arrays {words} and no others; {'; '.join(parts)}.")


def _shown(key: str) -> str:
    return (key if key.isprintable() else ascii(key))[:40]


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str, ndim: int, how: str) -> np.ndarray:
    if info.flag_bits & 0x1:
        raise _Refused(f"`{key}` is encrypted; write it without a password.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged header may look like one of Python 2, or hold stray escapes
            with archive.open(info) as member:
                version = npy.read_magic(member)
                read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read_header(member)
                header = member.tell()
            if dtype.hasobject:
                raise _Refused(
                    f"`{key}` holds Python objects, and loading them would run code; refused. "
                    f"Convert it to numbers (`{key}.astype(float)`) and write it with {how}."
                )
            if any(k < 0 for k in shape):
                raise _Refused(f"`{key}` claims the shape {shape}; the file is damaged.")
            if len(shape) != ndim:
                letters = {"X": "(n, L, d)", "z": "(n, d)", "y": "(n,)", "v": "(d,)", "W": "(d, d)"}.get(key, "(d, m)")
                raise _Refused(f"`{key}` must have shape {letters}; got {shape}.")
            size = dtype.itemsize
            for k in shape:  # Python integers: no overflow, whatever the header claims
                size *= int(k)
            if size != info.file_size - header:
                raise _Refused(
                    f"`{key}` claims the shape {shape} of {dtype}, which is {size} bytes; "
                    f"{info.file_size - header} are there. The file is damaged; write it again."
                )
            with archive.open(info) as member:
                array = npy.read_array(member, allow_pickle=False)
                if member.read(1):
                    raise _Refused(f"`{key}` has bytes after its end; the file is damaged.")
            return array
    except _Refused:
        raise
    except _DAMAGE:
        raise _Refused(f"`{key}` cannot be read: the file is truncated or damaged; write it again.") from None
