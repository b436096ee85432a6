"""Gradient descent on a linear margin loss, step by step, and then as the flow that late steps are.

    w+ = w - eta grad L(w),     L(w) = sum_i c_i l(z_i'w).

On separable rows the direction needs e^(C/angle) steps, which nobody can make. After k steps one step is 1/k of what
has been done, and descent is the flow at t = eta k up to about 1/k (derived here: a step differs from the flow over the
same time by half its square). So `extended` hands the last weights over to the flow, and those after a tenth of the
steps, too: how far the two come apart is measured, and is several times what the later handing over costs.

The weights are kept as two doubles: what a step is too small to change is carried on. A step that is zero in doubles (a
margin above 708) is not made silently: it ends the run, which says at which step, and `extended` goes on from there.
"""

import dataclasses
import enum
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count
from .._threads import one_blas_thread
from ..losses import AbstractLoss
from ..trajectory import Cost
from ._descent_loop import DescentLoop
from ._extended_descent import ExtendedDescent
from ._extended_descent import StepCounts as StepCounts
from ._margin_rows import EPS, checked_margin_rows, checked_number, checked_scaled_start
from ._margin_smoothness import scaled_smoothness, times_power_of_two
from ._margin_smoothness import smoothness as smoothness
from ._separable_path import SeparablePath, angles, checked_angles, checked_direction
from .separable_flow import LATEST, SeparableFlow, checked_tol, flow_of_rows

_SETTLED = 64 * EPS
"""What is left of pulls that cancel, where steps go to and fro by their rounding."""


class DescentEnding(enum.StrEnum):
    """How descent on a linear margin loss ended."""

    STEPS_MADE = "steps made"
    SETTLED = "settled at a finite minimiser"
    STALLED = "stalled: a step is zero in double precision"
    DIVERGED = "diverged"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SeparableDescent:
    """A run of gradient descent.

    - `step`: numbers of the kept steps, log-spaced, from 0 to the last, shape (T,); `path`: the states there, with
      `log_time = log(step_size step)`, and all that `SeparablePath` reads off them.
    - `stalled_at`: the step whose successor is zero in double precision, else `None`; `diverged_at`: the step
      that was no longer finite, else `None`.
    - `n_overshoots`, `last_overshoot`: after how many steps, and after which last (0 for none), the gradient pointed
      back: the only ones in which a convex loss can have risen.
    - `sharpness`: step size times `smoothness` at the start; above 2 descent may overshoot. Infinite where it
      overflows.
    """

    step: Int[np.ndarray, " T"]
    path: SeparablePath
    step_size: float
    ending: DescentEnding
    stalled_at: int | None
    diverged_at: int | None
    n_overshoots: int
    last_overshoot: int
    sharpness: float
    cost: Cost
    _start: Float[np.ndarray, " d"]
    _eta: float

    @property
    def w(self) -> Float[np.ndarray, "T d"]:
        """The weights at the kept steps."""
        return self.path.w

    @property
    def direction(self) -> Float[np.ndarray, "T d"]:
        return self.path.direction

    @property
    def log_radius(self) -> Float[np.ndarray, " T"]:
        return self.path.log_radius

    @property
    def log_time(self) -> Float[np.ndarray, " T"]:
        """`log(step_size step)`; `-inf` at the start."""
        return self.path.log_time

    @property
    def n_steps(self) -> int:
        """Steps made."""
        return int(self.step[-1])

    @property
    def is_oscillating(self) -> bool:
        """Whether the gradient still pointed back in the last tenth of the steps."""
        return self.last_overshoot > 0.9 * self.n_steps

    def hitting(
        self, direction: Float[np.ndarray, " d"], angles: float | Sequence[float] | Float[np.ndarray, " A"]
    ) -> Float[np.ndarray, " A"]:
        """The first steps after which the angle to `direction` is at most each of `angles` (radians), shape (A,).

        The run is made once more, up to the last of them, and every step is looked at; NaN where it does not come
        there. At the origin there is no angle.
        """
        wanted = checked_angles(angles)
        u = checked_direction(direction, self.path.rows.Z.shape[1])
        hits = np.full(wanted.size, np.nan)
        hits[_angle_of(self._start, u) <= wanted] = 0
        loop = DescentLoop(self.path.rows, self._start, eta=self._eta)
        state, made = loop.first, 0
        with one_blas_thread():
            while made < self.n_steps and np.isnan(hits).any():
                state, steps, found = loop.watch(state, self.n_steps, u)
                lowest = np.minimum.accumulate(found)
                for i in np.flatnonzero(np.isnan(hits) & (wanted >= lowest[-1])):
                    hits[i] = steps[int(np.argmax(lowest <= wanted[i]))]
                made = int(state.k)
        return hits

    def extended(self, until_log_time: float = LATEST, *, tol: float = 1e-10) -> ExtendedDescent:
        """The flow from the last weights on, and from those after a tenth of the steps, until `log t` (t = eta k).

        `tol` as for `separable_flow`. Raises `ValueError` for a run that diverged; `ValueError` or `TypeError` for bad
        input.
        """
        until_log_time, tol = checked_number(until_log_time, "until_log_time"), checked_tol(tol)
        if self.diverged_at is not None:
            raise ValueError(
                f"descent diverged at step {self.diverged_at}: no flow goes on from there; make `step_size` smaller."
            )
        if not self.log_time[-1] < until_log_time:
            raise ValueError(
                f"`until_log_time` must be after the last step, at log t = {self.log_time[-1]:g}; "
                f"got {until_log_time:g}."
            )
        tenth = int(np.searchsorted(self.step, self.n_steps / 10))
        flows = [self._flow_from(i, until_log_time, tol) for i in (len(self.step) - 1, tenth)]
        return ExtendedDescent(descent=self, flow=flows[0], early_flow=flows[1])

    def _flow_from(self, i: int, until: float, tol: float) -> SeparableFlow:
        start, log_time = self.path.scaled_w[i], float(self.log_time[i])
        return flow_of_rows(self.path.rows, start, until_log_time=until, start_log_time=log_time, tol=tol)


def separable_descent(
    Z: Any,
    *,
    step_size: float,
    n_steps: int,
    loss: str | AbstractLoss = "logistic",
    weights: Any = None,
    start: Any = None,
    n_kept: int = 200,
) -> SeparableDescent:
    """`n_steps` gradient steps on `L(w) = sum_i c_i l(z_i'w)`.

    - `step_size`: eta > 0; `1 / smoothness(Z)` is the usual choice, and below `2 / smoothness(Z)` the logistic loss
      falls with every step. `n_kept`: about how many states are kept. The rest as for `separable_flow`.

    Divergence and stalling are values: see `SeparableDescent`. Raises `ValueError` or `TypeError` for bad input.
    """
    rows = checked_margin_rows(Z, weights, loss)
    w = checked_scaled_start(start, rows)
    n_steps, n_kept = check_count(n_steps, "n_steps", least=1), check_count(n_kept, "n_kept", least=2)
    step_size = checked_number(step_size, "step_size")
    if not step_size > 0:
        raise ValueError(f"`step_size` must be positive; got {step_size:g}.")
    eta = times_power_of_two(step_size, 2 * rows.exponent)
    value, exponent = scaled_smoothness(rows, w)
    began = time.process_time()
    marks = np.unique(np.round(np.geomspace(1, n_steps, n_kept)).astype(np.int64)).tolist()
    loop = DescentLoop(rows, w, eta=eta)
    state, kept, steps, stalled, diverged = loop.first, [w], [0], None, None
    with one_blas_thread():
        if not bool(state.is_finite):
            diverged, marks = 0, []
        for k in marks:
            state = loop.advance(state, k)
            made = int(state.k)
            if made > steps[-1]:
                kept.append(np.asarray(state.w))
                steps.append(made)
            if not bool(state.is_finite):
                diverged = made + 1
                break
            if not bool(state.is_moving):
                stalled = made
                break
    step = np.array(steps)
    with np.errstate(divide="ignore"):
        log_time = np.log(step) + math.log(step_size)
    path = SeparablePath(rows=rows, log_time=log_time, scaled_w=np.array(kept))
    if diverged is not None:
        ending = DescentEnding.DIVERGED
    elif path.balance[-1] <= _SETTLED:
        ending = DescentEnding.SETTLED
    else:
        ending = DescentEnding.STEPS_MADE if stalled is None else DescentEnding.STALLED
    return SeparableDescent(
        step=step,
        path=path,
        step_size=step_size,
        ending=ending,
        stalled_at=stalled,
        diverged_at=diverged,
        n_overshoots=int(state.n_overshoots),
        last_overshoot=int(state.last_overshoot),
        sharpness=times_power_of_two(value * step_size, exponent + 2 * rows.exponent),
        cost=Cost(
            n_evaluations=steps[-1] + 1,
            n_steps=steps[-1],
            n_rejected=0,
            cpu_seconds=time.process_time() - began,
        ),
        _start=w,
        _eta=eta,
    )


def _angle_of(w: Float[np.ndarray, " d"], u: Float[np.ndarray, " d"]) -> float:
    return float(angles(w[None], u)[0]) if w.any() else math.inf
