"""Candidate points in `.npz` files, read and written.

A file is written whole or not at all: beside its place, and renamed when it is on the disk.
"""

import dataclasses
import os
import secrets
import stat
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import shape_text
from .files import _Refused, _typed
from .margin_files import _listed, _numbers, _opened, _unpack

_HOW = "np.savez(path, point=W, multipliers=p)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointData:
    """A candidate as a file holds it: `point`, and `multipliers` and `intercept` where there are some."""

    point: Float[np.ndarray, "..."]
    multipliers: Float[np.ndarray, "..."] | None
    intercept: float | None
    typed: str
    notes: tuple[str, ...]


def load_point(path: str | os.PathLike[str]) -> PointData:
    """A candidate from an `.npz` file with `point` and, optionally, `multipliers` and `intercept`.

    Raises `ValueError` as `load_margin_data` does. Whether the shapes fit a problem is for the problem to say.
    """
    with _opened(path, _HOW) as (stream, typed):
        raw, notes = _unpack(stream, _point_keys, _HOW)
        arrays = {key: _numbers(array, key, notes, least_ndim=0) for key, array in raw.items()}
        intercept = arrays.get("intercept")
        if intercept is not None and intercept.size != 1:
            raise _Refused(f"`intercept` must be one number; got shape {shape_text(intercept.shape)}.")
        return PointData(
            point=arrays["point"],
            multipliers=arrays.get("multipliers"),
            intercept=None if intercept is None else float(intercept.reshape(())),
            typed=typed,
            notes=tuple(notes),
        )


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` when no file can be written at `path`: before a long computation, not after it.

    A file that is there may be replaced. A folder, or what is no regular file, may not.
    """
    typed = _typed(path)
    try:
        target = _target(path)
        probe = _beside(target)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise ValueError(f"{typed}: no file can be written there: {error.strerror or error}.") from None
    except _Refused as error:
        raise ValueError(f"{typed}: {error}") from None


def save_point(
    path: str | os.PathLike[str],
    *,
    point: Float[np.ndarray, "..."],
    multipliers: Float[np.ndarray, " N"],
    intercept: float | None = None,
) -> None:
    """Write a candidate where `load_point` reads it, whole or not at all.

    It is written beside its place and renamed when it is on the disk: a process that is killed leaves the file that was
    there before, and at most a hidden file ending in `.partial`. Raises `ValueError` as `check_writable` does.
    """
    check_writable(path)
    target = _target(path)
    temporary = _beside(target)
    arrays: dict[str, Any] = {"point": point, "multipliers": multipliers}
    if intercept is not None:
        arrays["intercept"] = np.float64(intercept)
    try:
        with temporary.open("xb") as stream:
            np.savez(stream, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ValueError(f"{_typed(path)}: nothing was written: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _target(path: str | os.PathLike[str]) -> Path:
    """Where the bytes go: a link is followed, for a rename would replace the link itself."""
    target = Path(os.path.realpath(os.fsdecode(path)))
    if target.exists():
        mode = target.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _Refused("this is a folder; give the name of a file.")
        if not stat.S_ISREG(mode):
            raise _Refused("this is not a regular file; give the name of a file.")
    elif not target.parent.is_dir():
        raise _Refused(f"there is no folder {str(target.parent)!r}; make it first.")
    return target


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:100]}-{secrets.token_hex(6)}.partial")


def _point_keys(keys: set[str]) -> tuple[str, ...]:
    if "point" not in keys:
        there = _listed(sorted(keys)) if keys else "none"
        raise _Refused(f"the file must hold the array `point`; it holds {there}. Write it with {_HOW}.")
    return ("point", *sorted(keys & {"multipliers", "intercept"}))
