"""What the flow of a diagonal network comes back with: its path, its rests, what came to life, and how it ended."""

import dataclasses
import enum

import numpy as np
from jaxtyping import Float, Int

from ..trajectory import Cost


class DiagonalEnding(enum.StrEnum):
    """How the flow of a diagonal network ended. The first two are limits."""

    INTERPOLATES = "interpolates"
    STATIONARY = "stationary, with loss left"
    TIME_REACHED = "time reached"
    STEPS_SPENT = "steps spent"
    HORIZON = "horizon"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiagonalPlateau:
    """A rest at a saddle: slow, with neurons that will leave.

    - `time`: T at which the loss fell slowest, where the rest is read; `start`, `end`: the stretch around it in which
      the fit X k stayed within `resolution |y|` of the rest's.
    - `k`, `loss`; `support`: the active neurons; `u`: the gradient X^T (y - X k).
    - `leaves_in`: per neuron, how much T it would take at this `u` to grow to size one; infinite for neurons that are
      active, frozen, or pushed where they never grow. `growth_rates`: the inverse. A positive one is the proof that
      this is a saddle and not the limit.
    - `slowness`: how fast the loss falls here, over how fast it falls at the lower of the peaks before and after.
    """

    start: float
    end: float
    time: float
    k: Float[np.ndarray, " d"]
    loss: float
    support: Int[np.ndarray, " p"]
    u: Float[np.ndarray, " d"]
    leaves_in: Float[np.ndarray, " d"]
    slowness: float

    @property
    def growth_rates(self) -> Float[np.ndarray, " d"]:
        """`1 / leaves_in`, per unit of T."""
        with np.errstate(divide="ignore"):
            return 1 / self.leaves_in

    @property
    def is_saddle(self) -> bool:
        """True when some neuron still grows."""
        return bool((self.growth_rates > 0).any())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Activation:
    """A neuron that came to life between two rests, or left.

    - `neuron`, `sign` of k; `enters`: False for one that left.
    - `time`: T at which |k| crossed half of its value at the next rest (of the last one, for a neuron that left);
      `log_t`: log of t there.
    - `transition`: number of the way between two rests. Neurons with the same number moved together: a tie, or a
      start too large for a rest between them.
    """

    neuron: int
    sign: int
    enters: bool
    time: float
    log_t: float
    transition: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiagonalFlow:
    """What the flow of a diagonal network did.

    - `ending`, `reason`: how it ended, and the numbers behind it.
    - `time`: T, shape (T,), with `time_low` what its last bit leaves out; `log_h`: log of h(s) in `t = h T`.
    - `k`: shape (T, d); `components`: the weights, shape (T, d, m); `loss`: shape (T,), `|y - X k|^2 / 2`.
    - `activations` in the order of time; `plateaus`: the saddles, without the limit.
    - `u`: the gradient `X^T (y - X k)` at the end; `residual`: `|y - X k| / |y|` there.
    - `integral`: `tau_i / h = int u_i dT`, shape (d,): for s -> 0 the dual certificate of the limit in units of growth
      times; NaN for frozen neurons, and for runs in the weights.
    - `frozen`: neurons that start at a zero of their gradient and never move.
    - `drift`: for runs in the weights, the largest change of a conserved quantity, in units of the terms it is a
      difference of at the start; `drift_slack`: what one step's error in the largest weights makes of it, `rtol` times
      the growth of those terms. Both 0 by construction in orbit coordinates, NaN where no formula is known.
    - `coordinates`: "orbits" or "weights".
    """

    ending: DiagonalEnding
    reason: str
    log_s: float
    log_h: float
    time: Float[np.ndarray, " T"]
    time_low: Float[np.ndarray, " T"]
    k: Float[np.ndarray, "T d"]
    components: Float[np.ndarray, "T d m"]
    loss: Float[np.ndarray, " T"]
    activations: tuple[Activation, ...]
    plateaus: tuple[DiagonalPlateau, ...]
    u: Float[np.ndarray, " d"]
    residual: float
    frozen: Int[np.ndarray, " f"]
    integral: Float[np.ndarray, " d"]
    drift: float
    drift_slack: float
    coordinates: str
    rtol: float
    cost: Cost

    @property
    def limit(self) -> Float[np.ndarray, " d"]:
        """The last k. It is a limit only where `is_limit`."""
        return self.k[-1]

    @property
    def is_limit(self) -> bool:
        """True when nothing is left to fit or nothing that can move has a gradient."""
        return self.ending in (DiagonalEnding.INTERPOLATES, DiagonalEnding.STATIONARY)

    @property
    def log_t(self) -> Float[np.ndarray, " T"]:
        """Log of t, shape (T,); minus infinity at the start."""
        with np.errstate(divide="ignore"):
            return np.log(self.time) + self.log_h

    @property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """The neurons that came to life, transition by transition."""
        entered: dict[int, list[int]] = {}
        for event in self.activations:
            if event.enters:
                entered.setdefault(event.transition, []).append(event.neuron)
        return tuple(map(tuple, entered.values()))

    @property
    def ties(self) -> tuple[tuple[int, ...], ...]:
        """Neurons that came to life with no rest between them."""
        return tuple(group for group in self.order if len(group) > 1)
