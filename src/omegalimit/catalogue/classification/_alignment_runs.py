"""Flow and descent on an instance, as paths that `early_alignment` judges."""

import math

import numpy as np
from jaxtyping import Float

from ...flows.separable_descent import ExtendedDescent, separable_descent, smoothness
from ...flows.separable_flow import SeparableFlow, separable_flow
from ...losses import AbstractLoss
from ._alignment_instance import Instance
from ._alignment_path import Path


def flow(
    rows: Instance,
    loss: str | AbstractLoss,
    *,
    until: float,
    start: Float[np.ndarray, " d"] | None = None,
    weights: Float[np.ndarray, " n"] | None = None,
) -> Path:
    """Gradient flow to the instance's horizon; `weights`: others than the law's, for a counter-instance."""
    c = rows.weights if weights is None else weights
    run = separable_flow(rows.Z, loss=loss, weights=c, start=start, until_log_time=rows.horizon(until))
    name = loss if isinstance(loss, str) else loss.name
    return Path(
        instance=rows,
        loss=loss,
        dynamics="flow",
        label=f"{rows.name}, {name}, flow",
        start=np.zeros(rows.d) if start is None else start,
        log_time=run.log_time[1:],  # the first is t = 0, whose log is not a number to compute with
        w=run.w[1:],
        errors=errors_of(run, rows)[1:],
        first_times=lambda angles: run.hitting(rows.u, angles),
        at=run.at,
    )


def errors_of(run: SeparableFlow, rows: Instance) -> Float[np.ndarray, " T"]:
    """The run's bound on the error of its weights, in units of 1 / gamma."""
    return run.margin_error * rows.gamma / float(np.linalg.norm(rows.Z, axis=1).max())


def descent(
    rows: Instance,
    loss: str,
    *,
    until: float,
    n_steps: int,
    size: float | None = None,
    step_size: float | None = None,
    start: Float[np.ndarray, " d"] | None = None,
    weights: Float[np.ndarray, " n"] | None = None,
) -> Path:
    """Exact steps of `size / smoothness`, or of `step_size`, and then the flow that they are, to the horizon."""
    c = rows.weights if weights is None else weights
    if step_size is None:
        assert size is not None
        step_size = size / smoothness(rows.Z, weights=c, loss=loss, start=start)
    made = separable_descent(rows.Z, step_size=step_size, n_steps=n_steps, loss=loss, weights=c, start=start)
    label = f"{rows.name}, {loss}, descent" + ("" if size is None else f" {size:g}/smoothness")
    return joined(made.extended(rows.horizon(until)), rows, loss, label)


def joined(run: ExtendedDescent, rows: Instance, loss: str, label: str) -> Path:
    """The kept steps and the flow from the last of them on, as one path in log(step size times steps)."""
    made, later = run.descent, run.flow
    unit = rows.gamma / float(np.linalg.norm(rows.Z, axis=1).max())
    handed_over = float(np.nan_to_num(run.handover_error, nan=np.inf))
    return Path(
        instance=rows,
        loss=loss,
        dynamics="descent",
        label=label,
        start=made.w[0],
        log_time=np.concatenate([made.log_time[1:], later.log_time[1:]]),
        w=np.vstack([made.w[1:], later.w[1:]]),
        errors=np.append(np.zeros(len(made.step) - 1), unit * later.margin_error[1:]),
        first_times=lambda angles: run.hitting(rows.u, angles).log_steps + math.log(made.step_size),
        at=later.at,
        handed_over=unit * handed_over / 9,
        n_exact=made.n_steps,
        last_exact=float(made.log_time[-1]),
        log_step=math.log(made.step_size),
        run=run,
    )
