"""What a run leaves for the record and the figures: trajectory, attention maps and limits as labelled arrays."""

import numpy as np
import xarray as xr

from ...flows import measure
from ._experiment import Experiment
from ._limits import OTHER_NORM

N_SHOWN = 160  # states along the path for which gaps and weights are recorded


def arrays(e: Experiment) -> dict[str, xr.Dataset]:
    """Trajectory, attention maps and limits as labelled arrays."""
    path = e.flow.trajectory
    index = np.unique(np.linspace(0, len(path) - 1, min(len(path), N_SHOWN)).astype(int))
    states = [
        measure(e.problem, path.direction[i], float(path.log_sharpness[i]), log_time=float(path.log_time[i]))
        for i in index
    ]
    norms = [norm for norm in (e.norm, OTHER_NORM[e.norm]) if e.limits.solution(norm).status == "optimal"]
    points = e.point(path.direction[index])
    W = e.model.matrix(path.direction[index])
    gap = np.array([[e.limits.distance(norm, point) for norm in norms] for point in points])
    one = lambda name: ("point", np.array([getattr(s, name) for s in states]))  # noqa: E731 - a column of the table
    S = np.exp(np.array([s.log_sharpness for s in states]))
    trajectory = xr.Dataset(
        {
            "s": ("point", path.time[index]),
            "log_time": ("point", path.log_time[index]),
            "log_sharpness": one("log_sharpness"),
            "log_free_sharpness": ("point", path.log_radius[index] * e.problem.degree + e.flow.log_unit),
            "log_loss_gap": one("log_loss_gap"),
            "least_margin": ("point", S * np.array([s.least_margin for s in states])),
            "gap": (("point", "norm"), gap.reshape(len(index), len(norms))),
            "singular_values": (
                ("point", "index"),
                np.linalg.svd(W / np.linalg.norm(W, axis=(1, 2), keepdims=True))[1],
            ),
            "entropy_bound": one("entropy_bound"),
            "complementarity": one("complementarity"),
            "stationarity": one("stationarity"),
            "direction": (("point", "parameter"), path.direction[index]),
            "log_radius": ("point", path.log_radius[index]),
        },
        coords={"norm": norms},
        attrs={
            "parametrisation": e.label,
            "clock": path.clock,
            "cap": e.flow.cap,
            "ending": str(e.flow.ending),
        },
    )
    if e.model.balance(e.start) is not None:
        trajectory["balance_drift"] = ("point", e.balance_drift()[index])
    middle = int(np.argmin(np.abs(path.log_sharpness - (path.log_sharpness[0] + path.log_sharpness[-1]) / 2)))
    stages = [0, middle, len(path) - 1]
    attention = xr.Dataset(
        {
            "attention": (("stage", "input", "token"), np.array([attention_map(e, i) for i in stages])),
            "selected": ("input", e.flow.arrival.selection),
            "best": ("input", e.data.best),
        },
        coords={"stage": ["start", "middle", "limit"]},
    )
    if e.data.name.startswith("digits"):  # tokens that are rows of an image: attention is shown on it
        attention["pixels"] = ("input", "token", "column"), e.data.X
    limits = xr.Dataset(coords={"norm": norms})
    if norms:
        certificates = [e.limits.solution(norm).certificate for norm in norms]
        axes = ("diagonal",) if e.diagonal else ("row", "column")
        limits["point"] = (("norm", *axes), np.array([c.point for c in certificates]))
        n = e.data.n
        limits["multipliers"] = (
            ("norm", "input", "other"),
            np.array([c.multipliers.reshape(n, -1) for c in certificates]),
        )
        limits["lower"] = ("norm", [c.lower for c in certificates])
        limits["upper"] = ("norm", [c.upper for c in certificates])
    limits["flow"] = (
        ("diagonal",) if e.diagonal else ("row", "column"),
        e.point(e.flow.arrival.direction),
    )
    return {
        f"{e.label}/trajectory": trajectory,
        f"{e.label}/attention": attention,
        f"{e.label}/limits": limits,
    }


def attention_map(e: Experiment, index: int) -> np.ndarray:
    """`softmax(h)` at a state of the path, shape (n, L)."""
    path, p = e.flow.trajectory, e.problem
    W = e.model.matrix(path.direction[index])
    h = np.exp(path.log_sharpness[index]) * np.einsum("nld,de,ne->nl", p.X, W, p.z)
    weights = np.exp(h - h.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
