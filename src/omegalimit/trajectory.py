"""Trajectories: states along a path on a named clock, how it ended, and what it cost."""

import dataclasses
import enum

import numpy as np
from jaxtyping import Float


class Ending(enum.StrEnum):
    """How a flow ended. Only `CERTIFIED` says that a limit was found."""

    CERTIFIED = "certified"
    STATIONARY = "stationary but not optimal"
    PLATEAU = "plateau"
    HORIZON = "horizon"
    NOT_SEPARATED = "not separated"
    TIME_REACHED = "time reached"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run cost: field evaluations, accepted and rejected steps, CPU seconds of this process."""

    n_evaluations: int
    n_steps: int
    n_rejected: int
    cpu_seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trajectory:
    """States `theta = e^{log_radius} direction` along a path.

    - `clock`: what `time` counts: `"s"` for flows, the direction clock `ds = unit r^(D-2) e^M dt`,
      `"step"` for descent.
    - `time`: shape (T,), on that clock.
    - `direction`: shape (T, N), unit vectors; `log_radius`: shape (T,).
    - `log_time`: natural log of the physical time t, shape (T,); NaN where time has no meaning (past the cap).
    - `log_sharpness`: natural log of `S = unit r^D` at which the gradient was taken, shape (T,).
    """

    clock: str
    time: Float[np.ndarray, " T"]
    direction: Float[np.ndarray, "T N"]
    log_radius: Float[np.ndarray, " T"]
    log_time: Float[np.ndarray, " T"]
    log_sharpness: Float[np.ndarray, " T"]

    @property
    def theta(self) -> Float[np.ndarray, "T N"]:
        """The parameters themselves, shape (T, N); infinite where the radius overflows."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_radius)[:, None] * self.direction

    def __len__(self) -> int:
        return len(self.time)
