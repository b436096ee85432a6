"""What a run leaves for the record and the figures: path, flow and rates as labelled arrays."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ._diagonal_experiment import Experiment

N_SHOWN = 700  # states along the flow that are recorded


def saddle_arrays(e: Experiment) -> dict[str, xr.Dataset]:
    """The flow and the path of saddles on the scaled clock."""
    p, flow = e.prediction, e.flow
    index = _kept(e)
    time, forces = flow.time, accumulated_forces(e)
    start = 0.5 * float(p.y @ p.y)
    residuals = p.y - p.k @ p.X.T
    with np.errstate(divide="ignore"):
        log_loss = np.log(np.maximum(flow.loss, 0.0) / start)
        path_log_loss = np.log(0.5 * (residuals**2).sum(axis=1) / start)
    saddles = xr.Dataset(
        {
            "time": ("point", time[index]),
            "k": (("point", "feature"), flow.k[index]),
            "s": (("point", "feature"), forces[index]),
            "log_loss": ("point", log_loss[index]),
            "path_time": ("event", p.times),
            "path_k": (("event", "feature"), p.k),
            "path_s": (("event", "feature"), p.s),
            "path_log_loss": ("event", path_log_loss),
            "rest_time": ("rest", [rest.time for rest in flow.plateaus]),
            "rest_log_loss": ("rest", [math.log(rest.loss / start) for rest in flow.plateaus]),
            "t_plus": ("feature", p.t_plus),
            "t_minus": ("feature", p.t_minus),
        },
        coords={"feature": list(e.instance.names)},
        attrs={
            "parametrisation": e.label,
            "log_s": e.log_s,
            "h": e.h,
            "ending": str(flow.ending),
            "exponents": list(e.instance.exponents),
        },
    )
    return {f"{e.label}/saddles": saddles}


def rate_arrays(runs: Sequence[Experiment]) -> dict[str, xr.Dataset]:
    """The worst errors of jump times, dual certificate and limit at each scale of the start."""
    worst = {
        "jump_error": [np.abs(run.jump_errors()).max(initial=0.0) for run in runs],
        "dual_error": [np.abs(run.dual_errors()).max(initial=0.0) for run in runs],
        "limit_error": [run.prediction.excess(run.limit)[0] for run in runs],
    }
    data = {name: ("scale", np.array(values)) for name, values in worst.items()}
    rates = xr.Dataset(
        data | {"h": ("scale", [run.h for run in runs]), "log_s": ("scale", [run.log_s for run in runs])}
    )
    return {f"{runs[0].label}/saddle-rates": rates}


def accumulated_forces(e: Experiment) -> np.ndarray:
    """`s(T) = int u dT` along the flow, shape (T, d): the trapezoidal rule with its end correction.

    `u' = -X'X k'` and `k_i' = |grad k_i|^2 u_i h` are known at every state, so that the rule is of fourth order.
    """
    flow, p = e.flow, e.prediction
    u = (p.y - flow.k @ p.X.T) @ p.X
    growth = (e.network.neurons.gradient(flow.components) ** 2).sum(axis=-1)
    slope = -((growth * u * np.exp(flow.log_h)) @ p.X.T) @ p.X
    steps = (np.diff(flow.time) + np.diff(flow.time_low))[:, None]
    pieces = steps / 2 * (u[:-1] + u[1:]) + steps**2 / 12 * (slope[:-1] - slope[1:])
    return np.vstack([np.zeros(u.shape[1]), np.cumsum(pieces, axis=0)])


def _kept(e: Experiment) -> np.ndarray:
    """States to record: every one where there are few, else evenly many along the path's length in k and in time."""
    flow = e.flow
    if len(flow.time) <= N_SHOWN:
        return np.arange(len(flow.time))
    scale = np.abs(flow.k).max()
    length = np.abs(np.diff(flow.k, axis=0)).max(axis=1) / scale + np.diff(flow.time) / flow.time[-1]
    travelled = np.concatenate([[0.0], np.cumsum(length)])
    wanted = np.linspace(0, travelled[-1], N_SHOWN)
    return np.unique(np.append(np.searchsorted(travelled, wanted).clip(max=len(travelled) - 1), len(travelled) - 1))
