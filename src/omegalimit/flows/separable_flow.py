"""Gradient flow on a linear margin loss, in the logarithm of time: to t = 1e40, to t = e^10000, from the true t = 0.

    w' = -grad L(w),     L(w) = sum_i c_i l(z_i'w),     rows z_i = y_i x_i.

Where the rows are separable nothing ever arrives: the weights grow like log t, and their direction turns slower and
slower. So the flow is integrated in log t (`_log_time_field`), its slopes in logs (`losses`), and its states are read
at any log time by a step from the one before it, not by a polynomial. The flow knows no limit: a direction to measure
angles to is handed in.

Where the rows are not separable, the flow settles at a minimiser, and says so. Where some are and some are not, those
that are not pull with forces of order one that cancel, and what is left of them in doubles buries the others' pull at
about t = 1e10: the run ends there, with `HORIZON`. So it does where arithmetic ends for other reasons: the rows are
separable, but by a margin of less than some 1e-10 of their lengths, and their own pulls cancel; the weights overflow
(where the tail is a power, they grow like a power of t); or log t, or the log of a slope at the start, is so large,
some 1e10, that its rounding is a factor in the pulls.

The flow of a convex loss brings no two paths further apart. So the error at the end is at most the sum of the errors of
the steps, each of which was estimated to be at most `tol`: in the longest row's margin, and where the weights have gone
further in it than one a unit of log time, in units of that. Once w has come to grow like log(t) / gamma, `tol` is thus
an error in log t, however small the margin gamma is beside the longest row.
Rounding is not in it; what it does is as if rows and weights were changed in their last digits.
"""

import dataclasses
import enum
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize
from jaxtyping import Float

from .._checks import check_count
from .._threads import on_one_blas_thread
from ..losses import AbstractLoss
from ..trajectory import Cost
from ._log_time_field import LogTimeField
from ._margin_rows import EPS, MarginRows, checked_margin_rows, checked_number, checked_scaled_start
from ._separable_path import SeparablePath, angles, checked_angles, checked_direction, checked_list, lengths
from ._stiff import StiffIntegrator

TINY = float(np.finfo(float).tiny)
LATEST = 40 * math.log(10.0)
"""The log time at which a flow ends unless told otherwise: t = 1e40."""
MOST_STEPS = 20_000
# Pulls that leave so little of each other: digits that are still right, and none.
_FEW, _NONE = 1e6 * EPS, 8 * EPS
# Newton's step, in margins: near a minimiser, and where it cannot yet be told. It is one and more where rows with an
# exponential tail go to infinity, whatever the time: with z_i'v > 0 for them, sum p_i (z_i'v) (1 - z_i'step) <= 0.
_NEAR, _FAR = 0.01, 0.5


class SeparableEnding(enum.StrEnum):
    """How the flow of a linear margin loss ended. Only `SETTLED` is a limit: a minimiser, at a finite place."""

    TIME_REACHED = "time reached"
    SETTLED = "settled at a finite minimiser"
    HORIZON = "horizon"
    STEPS_SPENT = "steps spent"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SeparableFlow:
    """The flow at the ends of its steps, and anywhere between them.

    - `path`: the states at the ends of the steps; its `log_time`, `w`, `log_radius` and `direction` are here, too.
    - `ending`; `cost`; `tol`: the error of a step, see `separable_flow`.
    - `margin_error`: a bound on the error of the weights times the longest row, from the start to here, shape (T,). It
      rests on the steps' own estimates.
    """

    path: SeparablePath
    ending: SeparableEnding
    cost: Cost
    tol: float
    margin_error: Float[np.ndarray, " T"]
    _field: LogTimeField
    _y: Float[np.ndarray, "T N"]
    _is_explicit: list[bool]

    @property
    def rows(self) -> MarginRows:
        return self.path.rows

    @property
    def log_time(self) -> Float[np.ndarray, " T"]:
        """Natural log of the physical time; the first is `-inf`, for t = 0, unless the flow started later."""
        return self.path.log_time

    @property
    def w(self) -> Float[np.ndarray, "T d"]:
        return self.path.w

    @property
    def log_radius(self) -> Float[np.ndarray, " T"]:
        return self.path.log_radius

    @property
    def direction(self) -> Float[np.ndarray, "T d"]:
        return self.path.direction

    @property
    def angle_error(self) -> Float[np.ndarray, " T"]:
        """A bound on the error of the direction, in radians, from the start to here; NaN at the origin."""
        rho = lengths(self.path.scaled_w)
        return self.margin_error / np.where(rho > 0, rho, np.nan)

    def at(self, log_time: float | Sequence[float] | Float[np.ndarray, " T"]) -> Float[np.ndarray, "..."]:
        """The weights at log times within the run, shape (T, d), or (d,) for one number."""
        found = self.path_at(log_time).w
        return found if np.ndim(log_time) else found[0]

    @on_one_blas_thread
    def path_at(self, log_time: float | Sequence[float] | Float[np.ndarray, " T"]) -> SeparablePath:
        """The path at log times within the run: as accurate as at the ends of the steps.

        Raises `ValueError` for times outside; a flow that has settled stays where it is, for ever.
        """
        s = checked_list(log_time, "log_time")
        first, last = float(self.log_time[0]), float(self.log_time[-1])
        late = last if math.isinf(last) else last + 4 * EPS * abs(last)
        late = math.inf if self.ending is SeparableEnding.SETTLED else late
        bad = ~((s >= first) & (s <= late))
        if bad.any():
            raise ValueError(
                f"`log_time` must lie within the run, from {first:g} to {last:g}; got {float(s[bad][0]):g}."
            )
        y = np.array([self._state(self._field.clock(float(x))) for x in s]).reshape(s.size, self._y.shape[1])
        return SeparablePath(rows=self.rows, log_time=s, scaled_w=self._field.weights(y))

    @on_one_blas_thread
    def hitting(
        self, direction: Float[np.ndarray, " d"], angles: float | Sequence[float] | Float[np.ndarray, " A"]
    ) -> Float[np.ndarray, " A"]:
        """The log times at which the angle to `direction` first falls to each of `angles` (radians), shape (A,).

        The first of `log_time` where it is there from the start, NaN where it does not come there within the run. The
        angle need not fall all the way: between two steps its turning points are looked for by the sign of its rate.
        """
        wanted = checked_angles(angles)
        u = checked_direction(direction, self.rows.Z.shape[1])
        nodes = self._turning_points(u)
        v, found = np.array(nodes), np.array([self._angle(x, u) for x in nodes])
        return np.array([self._first(float(a), v, found, u) for a in wanted])

    def _first(self, angle: float, v: np.ndarray, found: np.ndarray, u: np.ndarray) -> float:
        below = np.flatnonzero(found <= angle)
        if below.size == 0:
            return math.nan
        i = int(below[0])
        if i == 0:
            return float(self.log_time[0])

        def excess(x: float) -> float:
            return math.log(max(self._angle(x, u), TINY) / angle)

        crossing = _root(excess, float(v[i - 1]), float(v[i]))
        return float(self._field.log_time(np.array([crossing]))[0])

    def _turning_points(self, u: np.ndarray) -> list[float]:
        """The ends of the steps, and the least angle inside every step in which it falls first and rises last."""
        v = self._y[:, -1]
        rates = [self._rate(y, u) for y in self._y]
        nodes = [float(v[0])]
        for i in range(1, len(v)):
            if rates[i - 1] < 0 < rates[i]:
                inside = _root(lambda x: self._rate(self._state(x), u), float(v[i - 1]), float(v[i]))
                nodes.append(inside)
            nodes.append(float(v[i]))
        return nodes

    def _angle(self, v: float, u: np.ndarray) -> float:
        if v == self._y[0, -1]:
            return float(angles(self.path.direction[:1], u)[0])
        return float(angles(self._field.weights(self._state(v)[None]), u)[0])

    def _rate(self, y: np.ndarray, u: np.ndarray) -> float:
        """The rate of the angle `atan2(|p|, u'w)` times a positive number; p is the part of w perpendicular to u."""
        w = self._field.weights(y)
        f = self._field.field(y)[:-1]
        f = f if self._field.basis is None else self._field.basis @ f
        w, f = w / max(float(np.abs(w).max()), TINY), f / max(float(np.abs(f).max()), TINY)
        along = w @ u
        p = w - along * u
        return float((p @ f) * along - (p @ p) * (u @ f))

    def _state(self, v: float) -> np.ndarray:
        """The state at v, by steps from the last end before it."""
        ends = self._y[:, -1]
        if v >= ends[-1]:
            return self._y[-1]
        i = max(int(np.searchsorted(ends, v, side="right")) - 1, 0)
        if v <= ends[i]:
            return self._y[i]
        integrator = StiffIntegrator(self._field, self._y[i], tol=self.tol)
        integrator.is_explicit, integrator.next_size = self._is_explicit[i], ends[i + 1] - ends[i]
        _advance(integrator, v)
        return integrator.y


def separable_flow(
    Z: Any,
    *,
    loss: str | AbstractLoss = "logistic",
    weights: Any = None,
    start: Any = None,
    until_log_time: float = LATEST,
    start_log_time: float = -math.inf,
    tol: float = 1e-10,
    max_steps: int = MOST_STEPS,
) -> SeparableFlow:
    """Gradient flow on `L(w) = sum_i c_i l(z_i'w)` until `log t = until_log_time`.

    - `Z`: shape (n, d), the rows `y_i x_i`, separable or not, in any units.
    - `loss`: a name, or a loss; it should be convex.
    - `weights`: the c_i > 0, shape (n,); 1/n each when `None`, the mean loss. `start`: w at the beginning; zero.
    - `start_log_time`: log of the time at the beginning; `-inf` for t = 0.
    - `tol`: the error of a step, in the longest row's margin, or times how far the weights have gone in it per unit of
      log time, where that is more than one; `max_steps`: then the ending is `STEPS_SPENT`.

    Raises `ValueError` or `TypeError` for bad input; never for how the run goes.
    """
    rows = checked_margin_rows(Z, weights, loss)
    w = checked_scaled_start(start, rows)
    max_steps, tol = check_count(max_steps, "max_steps", least=1), checked_tol(tol)
    until_log_time = checked_number(until_log_time, "until_log_time")
    # The one infinity that is a time.
    if not (isinstance(start_log_time, float) and start_log_time == -math.inf):
        start_log_time = checked_number(start_log_time, "start_log_time")
    if not start_log_time < until_log_time:
        raise ValueError(
            f"`until_log_time` must be after `start_log_time`; got {until_log_time:g} and {start_log_time:g}."
        )
    return flow_of_rows(
        rows, w, until_log_time=until_log_time, start_log_time=start_log_time, tol=tol, max_steps=max_steps
    )


def checked_tol(tol: Any) -> float:
    """Raises `ValueError` or `TypeError` where it is not an error that a step can be held to."""
    found = checked_number(tol, "tol")
    if not 1e-14 <= found <= 1e-3:
        raise ValueError(f"`tol` must lie between 1e-14 and 1e-3; got {found:g}.")
    return found


@on_one_blas_thread
def flow_of_rows(
    rows: MarginRows,
    w: Float[np.ndarray, " d"],
    *,
    until_log_time: float,
    start_log_time: float,
    tol: float,
    max_steps: int = MOST_STEPS,
) -> SeparableFlow:
    """`separable_flow` from weights in the units of the rows, with everything checked."""
    began = time.process_time()
    field = LogTimeField(rows, w, log_start=start_log_time - rows.log_unit_time, tol=tol)
    integrator = StiffIntegrator(field, np.zeros(field.Z.shape[1] + 1), tol=tol)
    last = field.clock(until_log_time)
    kept, is_explicit, errors, ending, newton = [integrator.y.copy()], [], [0.0], None, (0.0, math.inf)
    while ending is None:
        if last - integrator.y[-1] <= 4 * EPS * last:
            ending = SeparableEnding.TIME_REACHED
        elif integrator.n_steps >= max_steps:
            ending = SeparableEnding.STEPS_SPENT
        elif not (integrator.step(last - integrator.y[-1]) and field.is_within_doubles(integrator.y)):
            ending = SeparableEnding.HORIZON
        else:
            kept.append(integrator.y.copy())
            is_explicit.append(integrator.explicit is not None)
            errors.append(field.tolerance(integrator.y))
            ending, newton = _cancelled(field, integrator.y, newton)
    if ending is SeparableEnding.TIME_REACHED and len(kept) == 1:
        # Nothing moves until so late that no clock of doubles shows it: the end is where the start is.
        kept, is_explicit, errors = 2 * kept, [False], 2 * errors
    states = np.array(kept)
    log_time = field.log_time(states[:, -1])
    if ending is SeparableEnding.TIME_REACHED:
        log_time[-1] = until_log_time
    return SeparableFlow(
        path=SeparablePath(rows=rows, log_time=log_time, scaled_w=field.weights(states)),
        ending=ending,
        cost=Cost(
            n_evaluations=integrator.n_evaluations,
            n_steps=integrator.n_steps,
            n_rejected=integrator.n_rejected,
            cpu_seconds=time.process_time() - began,
        ),
        tol=tol,
        margin_error=np.cumsum(errors),
        _field=field,
        _y=states,
        _is_explicit=is_explicit,
    )


def _cancelled(
    field: LogTimeField, y: Float[np.ndarray, " N"], before: tuple[float, float]
) -> tuple[SeparableEnding | None, tuple[float, float]]:
    """Whether the pulls of the rows cancel: at a minimiser, or in rows that bury what pulls the others.

    `before`: a clock, and Newton's step then, in margins. Near a minimiser it falls many times in a unit of log time,
    down to rounding or to what the errors of the steps leave of it, and then no further.
    """
    left = field.balance(y)
    if left > _FEW:
        return None, (0.0, math.inf)
    away = field.newton_step(y)
    if away > (_NEAR if left <= _NONE else _FAR):
        return SeparableEnding.HORIZON, before
    clock = float(y[-1])
    is_still = clock - before[0] >= 1 and away >= before[1] / 2
    if left <= _NONE or (is_still and away <= field.tolerance(y)):
        return SeparableEnding.SETTLED, before
    return None, before if clock - before[0] < 1 else (clock, away)


def _advance(integrator: StiffIntegrator, v: float) -> None:
    while v - integrator.y[-1] > 2 * EPS * abs(v) and integrator.step(v - integrator.y[-1]):
        pass


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where `function` changes sign; the end nearer to zero where rounding hides the change."""
    a, b = function(low), function(high)
    if a * b >= 0 or not math.isfinite(a * b):
        return low if abs(a) < abs(b) else high
    return float(scipy.optimize.brentq(function, low, high, xtol=TINY, rtol=np.float64(8 * EPS)))  # pyright: ignore[reportArgumentType] - stubs want a float
