"""What the flows and the descent of a positive quadratic network return."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..trajectory import Cost

if TYPE_CHECKING:
    from ..data.measurements import Measurements


class QuadraticEnding(enum.StrEnum):
    """How a run ended. `INTERPOLATES` and `OPTIMAL` are limits; the others are not shown to be.

    `OPTIMAL`: `G Q = 0` with `escape <= 0`; or, for a loss of one's own, G itself has vanished (to `arrival` times the
    largest it was) and the outputs rest. Then `escape` and `growth`, relative to what is left of it, say nothing.
    """

    INTERPOLATES = "interpolates"
    OPTIMAL = "stationary and optimal"
    STATIONARY = "stationary but not optimal"
    TIME_REACHED = "time reached"
    STEPS_TAKEN = "steps taken"
    DIVERGED = "diverged"
    HORIZON = "horizon"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """Numbers without a unit that say whether a state is a limit. With `Gamma = sum_i |w_i| |A_i|_F`, the size that G
    would have if nothing cancelled:

    - `residual`: `|f - y| / |y|` (over the start's outputs where y = 0).
    - `stationarity`: `|G U|_F / (Gamma max |U|_F)`, the largest U met on the way, or, at a start far too large, the
      size that the targets ask for; for the quotient with Q in place of U.
    - `growth`: the largest of `-p' G p / Gamma` over the eigenvectors p of Q that the state holds: positive where some
      part of Q, however small, still grows.
    - `escape`: `-lambda_min(G) / Gamma`: positive where Q is not optimal among positive matrices, whatever the factor
      can reach. `G Q = 0` and `escape <= 0` are the optimality conditions of `min l(Q), Q >= 0`, sufficient for a
      convex loss.
    """

    residual: float
    stationarity: float
    growth: float
    escape: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """The numbers along a flow, at the start, every other accepted step and the end, shape (T,) each.

    - `log_time`: natural log of t, -inf at the start.
    - `residual`, `stationarity`, `growth`: see `Figures`; `loss` in the user's unit.
    - `log_spectrum`: natural logs of the eigenvalues of Q, shape (T, k), falling (mirror: in the order of the basis);
      NaN where rounding hides one.
    """

    log_time: Float[np.ndarray, " T"]
    residual: Float[np.ndarray, " T"]
    stationarity: Float[np.ndarray, " T"]
    growth: Float[np.ndarray, " T"]
    loss: Float[np.ndarray, " T"]
    log_spectrum: Float[np.ndarray, "T k"]

    @property
    def time(self) -> Float[np.ndarray, " T"]:
        with np.errstate(over="ignore"):
            return np.exp(self.log_time)


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuadraticPlateau:
    """A stretch in which the loss fell by less than 1% while an eigenvalue of Q grew by a factor 100 or more.

    It looks converged and is not: it is the neighbourhood of a saddle. `growth` (see `Figures`) is the largest met.
    """

    log_time_start: float
    log_time_end: float
    loss: float
    residual: float
    growth: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate:
    """A straight line through the log residual's tail: `residual ~ exp(-rate clock)`.

    - `rate`: per unit of time for flows, per step for descent; `error`: the larger of half the difference between the
      two halves of the window, which shows a rate that still drifts, and the tilt that the largest distance from the
      line allows. Points along a path are not independent: the usual standard error would be far too small.
    - `first`, `last`: the residuals at the ends of the window; `n_points`: how many points the line has.
    """

    rate: float
    error: float
    first: float
    last: float
    n_points: int

    @property
    def factor(self) -> float:
        """`exp(-rate)`: the factor of one step of descent."""
        return math.exp(-self.rate)


def tail_rate(
    clock: Float[np.ndarray, " T"], residual: Float[np.ndarray, " T"], *, first: float, last: float
) -> Rate | None:
    """The rate over the last stretch with `first >= residual >= last`; `None` with fewer than eight points in it.

    Points are weighted by the clock between them, so that an integrator's choice of steps does not matter.
    """
    above = np.flatnonzero(residual > first)
    start = int(above[-1]) + 1 if above.size else 0
    below = np.flatnonzero(residual[start:] < last)
    end = start + int(below[0]) if below.size else residual.size
    x, r = clock[start:end], residual[start:end]
    if x.size < 8 or not (r > 0).all() or not np.isfinite(x).all():
        return None
    y = np.log(r)
    weight = np.gradient(x)

    def line(part: slice) -> tuple[float, float]:
        """Slope, and the largest distance from the line."""
        u, v, w = x[part], y[part], weight[part] / weight[part].sum()
        du, dv = u - w @ u, v - w @ v
        slope = (w @ (du * dv)) / (w @ du**2)
        return -slope, float(np.abs(dv - slope * du).max())

    rate, off = line(slice(None))
    # Halves of the clock, not of the points.
    middle = int(np.clip(np.searchsorted(x, (x[0] + x[-1]) / 2), 4, x.size - 4))
    drift = abs(line(slice(0, middle))[0] - line(slice(middle, None))[0]) / 2
    error = float(max(drift, 2 * off / (x[-1] - x[0])))
    return Rate(rate=float(rate), error=error, first=float(r[0]), last=float(r[-1]), n_points=x.size)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticResult:
    """A flow of a positive quadratic network.

    - `coordinates`: `"factor"`, states U (T, d, r); `"quotient"`, states Q (T, d, d); `"mirror"`, states `log q`
      (T, d), the logs of the eigenvalues of Q in the measurements' common basis.
    - `log_time`: natural log of t at the states, shape (T,): the times asked for and the end, or those of the steps.
    - `ending`, `figures`: how it ended, and the last state's numbers; `plateaus`: saddles that were passed.
    - `rank_start`: the numerical rank of the start. A factor flow never leaves it, and never raises it.
    - `drift`: the largest relative error in what the exact dynamics keeps: factor, the null space of the start
      (`|U N| / |U|`); quotient, positivity (`-min eig / max eig` of Q); mirror, the part of `log q - log q0` that no
      `A' nu` makes.
    - `history`: numbers along the path; `cost`.
    """

    measurements: Measurements
    coordinates: str
    log_time: Float[np.ndarray, " T"]
    states: Float[np.ndarray, "T ..."]
    ending: QuadraticEnding
    figures: Figures
    plateaus: tuple[QuadraticPlateau, ...]
    rank_start: int
    drift: float
    history: History
    cost: Cost

    @property
    def time(self) -> Float[np.ndarray, " T"]:
        """The physical time t; infinite where it leaves the doubles."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_time)

    @property
    def final(self) -> Float[np.ndarray, ...]:
        """The last state."""
        return self.states[-1]

    @property
    def Q(self) -> Float[np.ndarray, "d d"]:
        """The last state as a matrix Q, shape (d, d)."""
        return self.matrix(-1)

    def matrix(self, index: int) -> Float[np.ndarray, "d d"]:
        """The state `index` as a matrix Q, shape (d, d)."""
        state = self.states[index]
        if self.coordinates == "quotient":
            return state
        if self.coordinates == "factor":
            return state @ state.T
        V = self.measurements.basis
        return (V * np.exp(state)) @ V.T

    @property
    def outputs(self) -> Float[np.ndarray, " n"]:
        """The last state's outputs `<A_i, Q>`, shape (n,)."""
        if self.coordinates == "factor":
            return self.measurements.apply_factor(self.final)
        return self.measurements.apply(self.Q)

    def local_rate(self, *, first: float = 1e-4, last: float = 1e-9) -> Rate | None:
        """The exponential rate of the residual between `first` and `last`; `None` when the run does not come there."""
        return tail_rate(self.history.time, self.history.residual, first=first, last=last)


def plateaus(history: History) -> tuple[QuadraticPlateau, ...]:
    """The stretches of a path in which Q grew without progress, see `QuadraticPlateau`; greedy, without overlap."""
    found = []
    start, T = 0, history.loss.size
    while start < T - 1:
        level = 0.99 * history.loss[start]
        after = np.flatnonzero(history.loss[start:] < level)
        end = start + int(after[0]) - 1 if after.size else T - 1
        with np.errstate(invalid="ignore"):
            grown = history.log_spectrum[end] - history.log_spectrum[start]
        if end > start and np.nanmax(grown, initial=-np.inf) >= math.log(100):
            found.append(
                QuadraticPlateau(
                    log_time_start=float(history.log_time[start]),
                    log_time_end=float(history.log_time[end]),
                    loss=float(history.loss[start]),
                    residual=float(history.residual[start]),
                    growth=float(history.growth[start : end + 1].max()),
                )
            )
            start = end
        start += 1
    return tuple(found)
