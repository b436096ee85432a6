"""Flow and descent on an instance, as paths that `early_alignment` judges."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ...flows.separable_descent import ExtendedDescent, separable_descent, smoothness
from ...flows.separable_flow import SeparableFlow, separable_flow
from ...losses import LOSSES, AbstractLoss
from ._alignment_instance import LATEST, Instance
from ._alignment_path import Path

TOL = 1e-10
"""The error of a step, at first."""

ERROR = 1e-6
"""Of a whole run, in the longest row's margin, which is what it does to log L: a tenth of what the claims bear."""

LEAST_TOL = 1e-12
"""The smallest error of a step that is asked for."""


REFINABLE = 1e-3
"""A bound on a run's error above this is not brought down to what claims bear by steps that can be paid for."""

UNSETTLED = 1e-6
"""What may be left, in units of 1 / gamma, where a path is judged: a tenth of what the claims bear."""

LONGER = 2
"""How often a run is made once more, and longer."""


class Diverged(ValueError):
    """Descent is no longer finite."""


class StepsTooLate(ValueError):
    """The exact steps alone go beyond the log time to which the run goes."""


def flow(
    rows: Instance,
    loss: str | AbstractLoss,
    *,
    until: float,
    start: Float[np.ndarray, " d"] | None = None,
    weights: Float[np.ndarray, " n"] | None = None,
    fine: float | None = None,
) -> Path:
    """Gradient flow to the instance's horizon, and later where it shows no limit until then, or not the angle `fine`.

    `weights`: others than the law's, for a counter-instance.
    """
    c = rows.weights if weights is None else weights

    def made(end: float, tol: float) -> tuple[Path, SeparableFlow]:
        run = separable_flow(rows.Z, loss=loss, weights=c, start=start, until_log_time=end, tol=tol)
        name = loss if isinstance(loss, str) else loss.name
        path = Path(
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
        return path, run

    return _complete(made, rows.horizon(until), fine=fine, error=ERROR)


def _complete(
    made: Callable[[float, float], tuple[Path, SeparableFlow]], end: float, *, fine: float | None, error: float
) -> Path:
    """A run to `end` or, if need be, later; then once more with smaller errors, where they are more than `error`."""
    path, run = made(end, TOL)
    for _ in range(LONGER):
        later = _later(path, end, fine)
        if run.log_time[-1] < end or not end < later <= LATEST:
            break
        end = later
        path, run = made(end, TOL)
    least = float(run.margin_error[-1])
    known = run.log_time[-1] >= end and path.loss_name in LOSSES
    if not known or not error < least <= REFINABLE:
        return path
    finer, run = made(end, max(LEAST_TOL, TOL * error / least / 3))
    return finer if run.log_time[-1] >= end else path


def _later(path: Path, end: float, fine: float | None) -> float:
    """Until when a run should go that shows no limit by `end`, or is not within the angle `fine`; else `end`."""
    here, exists = path.settling, path.instance.balance is not None
    if exists and path.loss_name in LOSSES and (here.reason is not None or here.at_first > UNSETTLED):
        # After giant steps w waits for the flow to come so far; before, a power of t has but to fall.
        return (4 if here.reason is not None else 2) * end
    if fine is None or path.angle[-1] <= fine:
        return end
    # Without a balance C still grows, like log log t: by a half from here to any time that is run to.
    needed = (1.1 if exists else 1.6) * (path.constant / math.tan(fine) - path.offset) + 10
    return max(end, min(needed, LATEST))


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
    fine: float | None = None,
) -> Path:
    """Exact steps of `size / smoothness`, or of `step_size`, and then the flow that they are, to the horizon."""
    c = rows.weights if weights is None else weights
    if step_size is None:
        assert size is not None
        step_size = size / smoothness(rows.Z, weights=c, loss=loss, start=start)
    made = separable_descent(rows.Z, step_size=step_size, n_steps=n_steps, loss=loss, weights=c, start=start)
    label = f"{rows.name}, {loss}, descent" + ("" if size is None else f" {size:g}/smoothness")
    if made.diverged_at is not None:
        raise Diverged(f"descent with steps of {step_size:.4g} diverged at step {made.diverged_at}: take smaller steps")
    end = rows.horizon(until)
    if not made.log_time[-1] < end:
        raise StepsTooLate(
            f"the first {made.n_steps} exact steps come to log t = {made.log_time[-1]:.4g}, beyond the log time "
            f"{end:.4g} to which the run goes: take fewer or smaller steps, or a later `until_log_time`."
        )

    def continued(end: float, tol: float) -> tuple[Path, SeparableFlow]:
        run = made.extended(end, tol=tol)
        return joined(run, rows, loss, label), run.flow

    return _complete(continued, end, fine=fine, error=max(ERROR, 1 / n_steps))


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
