"""What a run of `early_alignment` leaves for the record and the figures, as labelled arrays."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from ._alignment_path import Path, movement

N_TIMES, N_ANGLES = 241, 60
FIRST_LOG_TIME, LARGEST_ANGLE = -2.0, 1.2


def arrays(paths: Sequence[Path], *, finest: float = 0.01) -> dict[str, xr.Dataset]:
    """For each instance: angles over log time, radial and tangential flow, and the time of each angle."""
    found = {}
    for name in dict.fromkeys(path.instance.name for path in paths):
        here = [path for path in paths if path.instance.name == name]
        s = np.linspace(FIRST_LOG_TIME, min(path.log_time[-1] for path in here), N_TIMES)
        even = [_evenly(path, s) for path in here]
        found[f"{name}/alignment-angle"] = angles(even)
        found[f"{name}/alignment-flow"] = flows([path for path in even if path.dynamics == "flow"])
        found[f"{name}/alignment-times"] = times(even, finest=finest)
    return found


def _evenly(path: Path, s: Float[np.ndarray, " S"]) -> Path:
    """The path at these times; NaN before its first, and between two exact steps on the line from one to the other."""
    w = np.full((s.size, path.instance.d), np.nan)
    exact = np.zeros(s.size, dtype=bool) if path.last_exact is None else s <= path.last_exact
    inside = exact & (s >= path.log_time[0])
    for j, column in enumerate(path.w.T):
        w[inside, j] = np.interp(s[inside], path.log_time, column)
    if path.at is not None:
        w[~exact] = path.at(s[~exact])
    C, offset = path.constant, path.offset
    even = dataclasses.replace(path, log_time=s, w=w, errors=np.zeros(s.size))
    # What the law takes from the run, it takes from the run as it was.
    even.__dict__.update(constant=C, offset=offset)
    return even


def _law(paths: Sequence[Path]) -> dict[str, float]:
    """The law's constants: of the first path, which is a flow; others of the same rows differ in what they end at."""
    return {"C": paths[0].constant, "offset": float(paths[0].offset), "gamma": paths[0].instance.gamma}


def angles(paths: Sequence[Path]) -> xr.Dataset:
    """The angle to the maximum margin, in radians, over log time; NaN before a path begins."""
    return xr.Dataset(
        {
            "log_time": ("time", paths[0].log_time),
            "angle": (("run", "time"), np.array([path.angle for path in paths])),
            "C": ("run", [path.constant for path in paths]),
            "log_exact": ("run", [np.nan if p.last_exact is None else p.last_exact for p in paths]),
        },
        coords={"run": [path.label for path in paths]},
        attrs=_law(paths),
    )


def flows(paths: Sequence[Path]) -> xr.Dataset:
    """Per unit of log time: `gamma d rho` and `|d th|`, from the gradient at the weights."""
    moved = [movement(path, path.log_time, path.w) for path in paths]
    return xr.Dataset(
        {
            "log_time": ("time", paths[0].log_time),
            "radial": (("run", "time"), np.array([radial for radial, _ in moved])),
            "tangential": (("run", "time"), np.array([np.linalg.norm(turn, axis=1) for _, turn in moved])),
        },
        coords={"run": [path.label for path in paths]},
        attrs=_law(paths),
    )


def times(paths: Sequence[Path], *, finest: float) -> xr.Dataset:
    """The log time at which each angle is first reached, beside `C / tan(angle) - b` and `C / angle`.

    Read off the evenly spaced times, on which the figure is drawn; verdicts and answers find each crossing itself.
    """
    grid = np.geomspace(LARGEST_ANGLE, finest, N_ANGLES)
    law = paths[0].constant / np.tan(grid) - paths[0].offset
    return xr.Dataset(
        {
            "angle": ("angles", grid),
            "log_times": (("run", "angles"), np.array([_first_times(path, grid) for path in paths])),
            "law": ("angles", law),
            "first_term": ("angles", paths[0].constant / grid),
        },
        coords={"run": [path.label for path in paths]},
        attrs=_law(paths),
    )


def _first_times(path: Path, grid: Float[np.ndarray, " A"]) -> Float[np.ndarray, " A"]:
    seen = np.isfinite(path.angle)
    s, least = path.log_time[seen], np.minimum.accumulate(path.angle[seen])
    # Up to the first time at which the least angle so far was reached, it falls strictly.
    new = np.append(True, least[1:] < least[:-1])
    s, least = s[new], np.log(np.maximum(least[new], np.finfo(float).tiny))
    return np.interp(np.log(grid), least[::-1], s[::-1], left=np.nan, right=np.nan)
