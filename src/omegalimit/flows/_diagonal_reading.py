"""What a path of a diagonal network shows: where it rested, what came to life between two rests, what would leave."""

import dataclasses
import functools
import math

import numpy as np
import scipy.optimize
from jaxtyping import Float

from ._diagonal_result import Activation, DiagonalPlateau
from ._diagonal_systems import Charts
from ._stiff import StiffIntegrator
from ._valleys import Valley, valleys

CHUNK = 256  # steps whose stages are kept at a time
WITHIN = np.arange(1, 6) / 6
EPS = float(np.finfo(float).eps)
VALLEY_DEPTH = math.log(10)  # a rest is slower, by this factor in the fall of the loss, than what is around it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One run's data, in the unit of the largest entry of X, and its settings.

    - `T = w / scale` for the clock w of the charts; `t = T e^{log_h}`.
    - `frozen`: neurons that never move.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    unit: float
    charts: Charts
    log_h: float
    frozen: np.ndarray
    tol: float
    resolution: float

    @functools.cached_property
    def scale(self) -> float:
        return math.exp(self.log_h + self.charts.log_unit) * self.unit**2

    @functools.cached_property
    def sizes(self) -> Float[np.ndarray, " d"]:
        """Lengths of the columns."""
        return np.linalg.norm(self.X, axis=0)

    @functools.cached_property
    def size_y(self) -> float:
        return float(np.linalg.norm(self.y))

    def gradient(self, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`y - X k` and `X^T (y - X k)`, leading axes free."""
        r = self.y - k @ self.X.T
        return r, r @ self.X


class Record:
    """The states along the path: the ends of steps, and places within the explicit ones, which are long.

    Readers draw straight lines between neighbours: with `WITHIN` places in each, explicit steps have them as dense as
    those of a method of order 5.
    """

    def __init__(self, charts: Charts) -> None:
        self.charts = charts
        self.pending: list[tuple] = []  # (state, time, low, the explicit step that led there, the ends it went by)
        self.done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.last = (0.0, 0.0)
        self.side: np.ndarray | None = None

    def add(self, state: np.ndarray, it: StiffIntegrator) -> None:
        """The state after a step, as the integrator has made it."""
        self.pending.append((state, it.elapsed, it.elapsed_low, it.explicit, self.side))
        self.side = self.charts.side
        if len(self.pending) >= CHUNK:
            self._fill()

    def _fill(self) -> None:
        pending, self.pending = self.pending, []
        made = [(step, side) for _, _, _, step, side in pending if step is not None]
        inner = self.charts.between([s for s, _ in made], [side for _, side in made], WITHIN) if made else None
        states, times, lows, row = [], [], [], 0
        for state, time, low, step, _ in pending:
            if step is not None and inner is not None:
                states += list(inner[row])
                parts = step.h * WITHIN
                total = self.last[0] + parts
                added = total - self.last[0]
                times += total.tolist()
                lows += (self.last[1] + (self.last[0] - (total - added)) + (parts - added)).tolist()
                row += 1
            states.append(state)
            times.append(time)
            lows.append(low)
            self.last = time, low
        self.done.append((np.array(states), np.array(times), np.array(lows)))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States (T, N), times and what their last bit leaves out (T,)."""
        self._fill()
        states, times, lows = zip(*self.done, strict=True)
        return np.concatenate(states), np.concatenate(times), np.concatenate(lows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rest:
    """`node`: the slowest; `slowness`: speed there over the lower of the peaks beside it; `is_valley`: False for the
    start of a flow that is at its fastest there; `at_end`: the path ends in it."""

    node: int
    slowness: float
    is_valley: bool
    at_end: bool


class Path:
    """States `Z` at the times `w` (and what their last bit leaves out, `low`), read once."""

    def __init__(self, setting: Setting, Z: np.ndarray, w: np.ndarray, low: np.ndarray) -> None:
        self.setting, self.Z, self.w, self.low = setting, Z, w, low
        self.steps = np.diff(w, append=w[-1]) + np.diff(low, append=low[-1])
        self.k, self.growth = setting.charts.motion(Z)
        self.r, self.u = setting.gradient(self.k)
        self.sizes, self.size_y = setting.sizes, setting.size_y
        self.rests = self._rests()

    def _rests(self) -> list[_Rest]:
        """The valleys of the speed at which the loss falls, and the start where it is not in one."""
        # Near a saddle the gradient of active neurons is rounding; what that alone would cost is no motion.
        noise = 4 * EPS * self.sizes * (self.size_y + (np.abs(self.k) @ self.sizes)[:, None])
        speed = np.sum(self.growth * (self.u**2 + 100 * noise**2), axis=1)
        log_speed = np.log(np.maximum(speed, 1e-300 * speed.max(initial=1e-300)))
        kept: list[Valley] = []
        for valley in valleys(log_speed, depth=VALLEY_DEPTH):
            # Two rests between which the fit never moved are one, however the speed changed far below sight.
            if kept and self._near(kept[-1].lowest)[kept[-1].lowest : valley.lowest + 1].all():
                slower = min(kept[-1], valley, key=lambda v: log_speed[v.lowest])
                kept[-1] = dataclasses.replace(slower, at_end=valley.at_end)
            else:
                kept.append(valley)
        if not kept:
            return [_Rest(node=0, slowness=1.0, is_valley=False, at_end=False)]
        nodes = [valley.lowest for valley in kept]
        # A flow at its fastest from the start has no rest there, but what comes to life is told from it.
        moving = not self._near(nodes[0])[: nodes[0] + 1].all()
        found = [_Rest(node=0, slowness=1.0, is_valley=False, at_end=False)] if moving else []
        for i, valley in enumerate(kept):
            before = nodes[i - 1] if i else 0
            after = nodes[i + 1] if i + 1 < len(nodes) else len(log_speed) - 1
            peaks = [float(log_speed[before : nodes[i] + 1].max())] if i or moving else []
            peaks += [] if valley.at_end else [float(log_speed[nodes[i] : after + 1].max())]
            drop = min(peaks) - float(log_speed[nodes[i]]) if peaks else 0.0
            found.append(_Rest(node=nodes[i], slowness=math.exp(-drop), is_valley=True, at_end=valley.at_end))
        return found

    def _near(self, j: int) -> np.ndarray:
        """The nodes whose fit is that of node j."""
        return np.linalg.norm(self.r - self.r[j], axis=1) <= self.setting.resolution * self.size_y

    def active(self, rest: _Rest) -> np.ndarray:
        """Which neurons carry a part of the fit at a rest, shape (d,)."""
        share = min(max(math.sqrt(rest.slowness), self.setting.resolution), 0.1)
        return np.abs(self.k[rest.node]) * self.sizes > share * self.size_y

    def activations(self) -> tuple[Activation, ...]:
        """What came to life or left between neighbouring rests, in the order of time."""
        found = []
        for transition, (before, after) in enumerate(zip(self.rests[:-1], self.rests[1:], strict=True)):
            was, will = self.active(before), self.active(after)
            old, new = self.k[before.node], self.k[after.node]
            flips = np.sign(old) != np.sign(new)
            for i in np.flatnonzero(will & (~was | flips)).tolist():
                w = self._crossing(i, int(np.sign(new[i])), 0.5 * abs(new[i]), before, after)
                found.append(self._event(i, new[i], True, w, transition))
            for i in np.flatnonzero(was & (~will | flips)).tolist():
                w = self._crossing(i, -int(np.sign(old[i])), -0.5 * abs(old[i]), before, after)
                found.append(self._event(i, old[i], False, w, transition))
        return tuple(sorted(found, key=lambda event: event.time))

    def _event(self, i: int, k: float, enters: bool, w: float, transition: int) -> Activation:
        T = float(w / self.setting.scale)
        return Activation(
            neuron=int(i),
            sign=int(np.sign(k)),
            enters=enters,
            time=T,
            log_t=math.log(T) + self.setting.log_h if T > 0 else -math.inf,
            transition=transition,
        )

    def _crossing(self, i: int, sign: int, level: float, before: _Rest, after: _Rest) -> float:
        """The first w between two rests with `sign k_i >= level`, by steps of the integrator from the node before."""
        inside = sign * self.k[before.node : after.node + 1, i] >= level
        j = before.node + int(np.argmax(inside)) - 1
        if j < before.node:
            return float(self.w[before.node])
        charts, h = self.setting.charts, self.steps[j]
        step = charts.steps_from(self.Z[j])

        def above(x: float) -> float:
            z = self.Z[j] if x == 0 else self.Z[j + 1] if x == 1 else step(x * h)
            return sign * float(charts.motion(z)[0][i]) - level

        return float(self.w[j] + scipy.optimize.brentq(above, 0.0, 1.0, xtol=1e-9) * h)

    def plateaus(self, *, arrived: bool) -> tuple[DiagonalPlateau, ...]:
        """The rests, without the one that a flow that has arrived ends in."""
        return tuple(self._plateau(rest) for rest in self.rests if rest.is_valley and not (arrived and rest.at_end))

    def _plateau(self, rest: _Rest) -> DiagonalPlateau:
        j, setting = rest.node, self.setting
        active, u = self.active(rest), self.u[j]
        leaves = np.full(u.size, np.nan)
        if setting.charts.in_orbits:
            pushed = np.abs(u) > setting.tol * self.sizes * np.linalg.norm(self.r[j])
            free = pushed & ~active & ~setting.frozen
            tau = setting.charts.orbits.remaining(self.Z[j], u > 0)
            leaves = np.where(free, tau / np.where(free, np.abs(u), 1.0), np.inf) / setting.scale
        near = self._near(j)
        first = 0 if near[: j + 1].all() else j - int(np.argmin(near[j::-1])) + 1
        last = len(near) - 1 if near[j:].all() else j + int(np.argmin(near[j:])) - 1
        start, time, end = (float(self.w[node] / setting.scale) for node in (first, j, last))
        return DiagonalPlateau(
            start=start,
            end=end,
            time=time,
            k=self.k[j],
            loss=0.5 * float(self.r[j] @ self.r[j]) * setting.unit**2,
            support=np.flatnonzero(active),
            u=u * setting.unit**2,
            leaves_in=leaves,
            slowness=rest.slowness,
        )

    def integral(self, order: int) -> Float[np.ndarray, " d"]:
        """`int u_i dT`."""
        setting = self.setting
        if not setting.charts.in_orbits:
            return np.full(self.sizes.size, np.nan)
        end, orbits = self.Z[-1], setting.charts.orbits
        if order == 2:
            return end / math.exp(setting.log_h)
        up = np.ones(self.sizes.size, dtype=bool)
        upward = orbits.remaining(orbits.start, up) - orbits.remaining(end, up)
        downward = orbits.remaining(end, ~up) - orbits.remaining(orbits.start, ~up)
        return np.where(np.isfinite(upward), upward, downward) * math.exp(-setting.log_h - setting.charts.log_unit)
