"""What a run of `negative_shifted_descent` leaves for the record and the figures, as labelled arrays."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...claims import Verdict
from ...limits.spectral_filters import (
    crossing,
    flow_filter,
    negative_ridge_filter,
    rescaling_filter,
    ridge_filter,
    ridgeless_filter,
)
from ...limits.spectrum_law import head_location, marchenko_pastur_edges
from ._shifted_experiment import Draw

N_TIMES, N_GRID = 81, 300


def arrays(several: Draw, one: Draw, sweep: Sequence[Sequence[Draw]], *, exponent: Verdict) -> dict[str, xr.Dataset]:
    """Spectra with filters, risks along paths and modes above ridgeless of two designs; ratios over the sizes."""
    found = {}
    for label, draw in (("several-heads", several), ("one-head", one)):
        found[f"{label}/shifted-spectrum"] = spectrum(draw)
        found[f"{label}/shifted-risk"] = risk(draw)
        found[f"{label}/shifted-prefix"] = prefix(draw)
    rows = [(d.setting.n, d.endpoint[0] / d.floor_critical[0]) for draws in sweep for d in draws]
    found["one-head/shifted-sizes"] = xr.Dataset(
        {"n": ("draw", [float(n) for n, _ in rows]), "ratio": ("draw", [ratio for _, ratio in rows])},
        attrs={"exponent": exponent.measured, "slack": exponent.slack},
    )
    return found


def spectrum(draw: Draw) -> xr.Dataset:
    """Eigenvalues with what the laws say of them, and the filters of the compared estimators over a grid."""
    s = draw.setting
    level = s.tail.trace / s.tail.size
    grid = np.geomspace(0.5 * float(draw.m[0]), 1.3 * float(draw.m[-1]), N_GRID)
    share, (_, t) = draw.endpoint[1], draw.floor_critical
    nu = share * float(draw.m[0])
    # The endpoint's filter belongs to this spectrum: on the grid it is drawn from its smallest eigenvalue on.
    inside = grid >= draw.m[0]
    endpoint = np.full(grid.size, np.nan)
    endpoint[inside] = negative_ridge_filter(grid[inside], nu)
    filters = {
        "ridge, penalty a": ridge_filter(grid, s.a),
        "ridgeless": ridgeless_filter(grid),
        "best rescaling": rescaling_filter(grid, draw.rescaling[1]),
        "best endpoint": endpoint,
        "stopped, ν = a": flow_filter(grid, s.a, t),
    }
    edges = marchenko_pastur_edges(s.a, level)
    return xr.Dataset(
        {
            "eigenvalues": ("mode", draw.m),
            "grid": ("eigenvalue", grid),
            "filters": (("filter", "eigenvalue"), np.array(list(filters.values()))),
            "head_locations": ("head", np.atleast_1d(head_location(s.a, level, np.array(s.head)))),
        },
        coords={"filter": list(filters)},
        attrs={
            "floor": s.a,
            "lower_edge": edges.lower,
            "upper_edge": edges.upper,
            "m_min": float(draw.m[0]),
            "endpoint_shift": nu,
            "stopping_time": t,
            "n": s.n,
        },
    )


def risk(draw: Draw) -> xr.Dataset:
    """Mean excess risk along the paths of several shifts, and what it is compared with."""
    a, least, lh = draw.setting.a, float(draw.m[0]), min(draw.setting.head)
    shifts = {"0": 0.0, "0.95 m_min+": 0.95 * least, "a": a, "a + min lh": a + lh}
    t = np.geomspace(0.1, 60, N_TIMES) / draw.scale
    risks = np.array([draw.risk.expected(flow_filter(draw.m, nu, t)) for nu in shifts.values()])
    return xr.Dataset(
        {"t": ("time", t), "risk": (("shift", "time"), risks), "nu": ("shift", list(shifts.values()))},
        coords={"shift": list(shifts)},
        attrs={"endpoint": draw.endpoint[0], "ridgeless": draw.ridgeless, "rescaling": draw.rescaling[0]},
    )


def prefix(draw: Draw) -> xr.Dataset:
    """The filter under nu = a on the eigenvalues, largest first, at several times; where it crosses 1."""
    a = draw.setting.a
    t = np.array([0.75, 0.9, 1.0, 1.1, 1.3]) / a
    f = flow_filter(draw.m[::-1], a, t)
    return xr.Dataset(
        {
            "eigenvalues": ("mode", draw.m[::-1]),
            "t": ("time", t),
            "filter": (("time", "mode"), f),
            "above": (("time", "mode"), (f > 1).astype(float)),
            "crossing": ("time", crossing(a, t)),
        },
        attrs={"nu": a},
    )


def choice(errors: np.ndarray, nus: np.ndarray, ts: np.ndarray, **filters: np.ndarray) -> xr.Dataset:
    """Errors on the rows held out for every pair of the user's grid, and the chosen filter."""
    finite = np.isfinite(ts)
    data = {
        "errors": (("shift", "time"), np.where(np.isfinite(errors), errors, np.nan)[:, finite]),
        "nu": ("shift", nus),
        "t": ("time", ts[finite]),
        **{name: ("mode", values) for name, values in filters.items()},
    }
    return xr.Dataset(data, attrs={"any_endpoint": math.nan if finite.all() else float(np.nanmin(errors[:, ~finite]))})
