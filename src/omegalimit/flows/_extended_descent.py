"""Descent on a linear margin loss beyond the steps that were made: as the flow that late steps are, with an error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ._separable_path import checked_angles, checked_direction, lengths
from .separable_flow import SeparableFlow

if TYPE_CHECKING:
    from .separable_descent import SeparableDescent


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepCounts:
    """How many steps descent needs until an angle.

    - `angle`: what was asked for; `log_steps`: log of the number of steps, NaN where it is beyond the run.
    - `error`: how far it may be off; 0 where the steps were made and counted.
    """

    angle: Float[np.ndarray, " A"]
    log_steps: Float[np.ndarray, " A"]
    error: Float[np.ndarray, " A"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ExtendedDescent:
    """Descent, and the flow that its later steps are.

    - `flow`: from the last step on; `early_flow`: from about a tenth of the steps on, to measure what that costs.
    """

    descent: SeparableDescent
    flow: SeparableFlow
    early_flow: SeparableFlow

    @property
    def handover_error(self) -> float:
        """How far the flow from a tenth of the steps misses the last weights of descent, in the longest row's margin.

        What the later handing over costs is several times less. NaN when there are no steps between the two.
        """
        path = self.descent.path
        if self.early_flow.log_time[0] >= path.log_time[-1]:
            return math.nan
        missed = self.early_flow.path_at(float(path.log_time[-1])).scaled_w[0] - path.scaled_w[-1]
        return float(lengths(missed[None])[0])

    def _delay(self, log_time: float, direction: Float[np.ndarray, " d"]) -> float:
        """How long the angle to `direction` takes for as much as the two flows differ by there, whatever the signs."""
        late, early = (flow.path_at(log_time) for flow in (self.flow, self.early_flow))
        theta, u = late.direction[0], checked_direction(direction, late.direction.shape[1])
        apart = early.scaled_w[0] - late.scaled_w[0]
        across = apart - (apart @ theta) * theta
        apart = lengths(across[None])[0] / lengths(late.scaled_w)[0]
        # The angle's rate is -u'theta' over its sine.
        rate = abs(u @ late.tangential[0]) / math.sin(late.angle_to(u)[0])
        return float(apart / rate) if rate > 0 else math.inf

    def log_steps(self, log_time: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
        """`log k = log t - log(step_size)`."""
        return np.asarray(log_time) - math.log(self.descent.step_size)

    def hitting(
        self, direction: Float[np.ndarray, " d"], angles: float | Sequence[float] | Float[np.ndarray, " A"]
    ) -> StepCounts:
        """How many steps until the angle to `direction` first falls to each of `angles` (radians)."""
        wanted = checked_angles(angles)
        counted = self.descent.hitting(direction, wanted)
        with np.errstate(divide="ignore"):
            log_steps, error = np.log(counted), np.where(np.isnan(counted), np.nan, 0.0)
        later = np.flatnonzero(np.isnan(counted))
        if later.size:
            late, early = (flow.hitting(direction, wanted[later]) for flow in (self.flow, self.early_flow))
            log_steps[later] = self.log_steps(late)
            for i, x, y in zip(later, late, early, strict=True):
                if math.isfinite(x) and math.isfinite(y):
                    # Steps are whole: the first one after the crossing counts.
                    error[i] = max(abs(x - y), self._delay(float(x), direction)) + math.exp(-log_steps[i])
        return StepCounts(angle=wanted, log_steps=log_steps, error=error)
