"""The run of a quadratic flow: steps of an integrator, and after each the question whether the flow has arrived.

Speed is never asked: a saddle looks converged. A flow has arrived when its outputs meet the targets, or when its
gradient vanishes beside what it would be if nothing cancelled AND no part of Q that the state holds still grows. What
was reached is then judged by the optimality conditions of the convex problem in Q.
"""

from __future__ import annotations

import dataclasses
import math
import time as clock

import numpy as np

from ..trajectory import Cost
from ._quadratic_loss import ScaledProblem, SquaredLoss
from ._quadratic_result import Figures, History, QuadraticEnding
from ._quadratic_stepper import Stepper
from ._quadratic_system import System

MAX_KEPT_BYTES = 2**26
"""States kept along a path take at most this: beyond it every other one is dropped."""


LOOK = 2
"""Steps between two rows of the history: a row costs as much as a step."""


@dataclasses.dataclass
class Run:
    """What `arrive` found: rows of history, kept states, the ending."""

    times: np.ndarray
    states: np.ndarray
    ending: QuadraticEnding
    figures: Figures
    history: History
    drift: float
    cost: Cost


def escape(problem: ScaledProblem, w: np.ndarray, gamma: float) -> float:
    """`-lambda_min(G) / Gamma`, 0 where every weight is zero."""
    if not gamma > 0:
        return 0.0
    return -float(np.linalg.eigvalsh(problem.measurements.adjoint(w / gamma))[0])


def target_size(problem: ScaledProblem, f0: np.ndarray) -> float:
    """`|y|`, or the size of the outputs at the start where y = 0."""
    return float(np.linalg.norm(problem.measurements.y)) or float(np.linalg.norm(f0)) or 1.0


class Watch:
    """The rows of the history, and whether the flow has arrived."""

    def __init__(self, system: System, arrival: float, *, residual: float | None = None):
        self._system, self._problem, self._arrival = system, system.problem, arrival
        self._least_residual = arrival if residual is None else residual
        self._norms = system.problem.measurements.norms
        self._size = target_size(system.problem, system.outputs(system.y0))
        # The user's loss need not be least at f = y: only the squared loss has arrived with its residual.
        self._by_residual = isinstance(system.problem.loss, SquaredLoss)
        self.rows: list[tuple] = []
        self.drift = 0.0
        self.ending: QuadraticEnding | None = None
        self._top, self._log_largest = 0.0, -math.inf
        # The size of Q that gives outputs like the targets; U has its root.
        self._log_natural = math.log(self._size) - math.log(float(self._norms.max()))
        if system.coordinates == "factor":
            self._log_natural /= 2

    def look(self, t: float, y: np.ndarray) -> None:
        """Append a row for the state y, and set `ending` when the flow has arrived."""
        f = self._system.outputs(y)
        w = self._problem.loss.weights(f)
        gamma = float(np.abs(w) @ self._norms)
        ratio, log_size, growth, spectrum = self._system.slopes(y, w, gamma)
        self._log_largest = max(self._log_largest, log_size)
        # A start far larger than what the targets need is no measure of what is small.
        stationarity = ratio * math.exp(log_size - min(self._log_largest, max(log_size, self._log_natural)))
        residual = float(np.linalg.norm(f - self._problem.measurements.y)) / self._size
        self.rows.append((t, residual, stationarity, growth, self._problem.loss.value(f), spectrum))
        self.drift = max(self.drift, self._system.drift(y))
        self._top = max(self._top, gamma)
        if residual <= self._least_residual and self._by_residual:
            self.ending = QuadraticEnding.INTERPOLATES
        elif not self._by_residual and gamma <= self._arrival * self._top and self._rests(t, y, f):
            self.ending = QuadraticEnding.OPTIMAL
        elif stationarity <= self._arrival and growth <= self._arrival:
            self.ending = self._judged(w, gamma)

    def _rests(self, t: float, y: np.ndarray, f: np.ndarray) -> bool:
        """Whether the outputs still travel less, in as much time again, than rounding leaves of the gradient.

        A gradient that is 1e-12 of what it was is not enough: a flat loss has it while the outputs are on their way.
        """
        moved = self._system.outputs(y + t * self._system.field(t, y)) - f
        return float(np.linalg.norm(moved)) <= 1000 * self._arrival * self._size

    def _judged(self, w: np.ndarray, gamma: float) -> QuadraticEnding:
        # On the space that U holds, G is known to `arrival` times the condition of U; 1000 leaves room for that.
        optimal = escape(self._problem, w, gamma) <= 1000 * self._arrival
        return QuadraticEnding.OPTIMAL if optimal else QuadraticEnding.STATIONARY

    def figures(self, y: np.ndarray) -> Figures:
        """The last row, and whether Q is optimal."""
        w = self._problem.loss.weights(self._system.outputs(y))
        _, residual, stationarity, growth, _, _ = self.rows[-1]
        return Figures(
            residual=residual,
            stationarity=stationarity,
            growth=growth,
            escape=escape(self._problem, w, float(np.abs(w) @ self._norms)),
        )

    def history(self) -> History:
        t, residual, stationarity, growth, loss, spectrum = (
            np.array(column) for column in zip(*self.rows, strict=True)
        )
        return History(
            log_time=self._problem.log_time(t),
            residual=residual,
            stationarity=stationarity,
            growth=growth,
            loss=self._problem.value(loss),
            log_spectrum=spectrum + self._problem.exponent_Q * math.log(2),
        )


class Kept:
    """The user's states along the path, thinned by halves when they take too much memory."""

    def __init__(self, state: np.ndarray):
        self.times, self.states = [0.0], [state]
        self._stride, self._skipped = 1, 0

    def add(self, t: float, state: np.ndarray) -> None:
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self.times.append(t)
        self.states.append(state)
        if len(self.states) > 64 and len(self.states) * state.nbytes > MAX_KEPT_BYTES:
            self.times, self.states = self.times[::2], self.states[::2]
            self._stride *= 2

    def end(self, t: float, state: np.ndarray) -> None:
        if self.times[-1] != t:
            self.times.append(t)
            self.states.append(state)


def arrive(
    system: System,
    *,
    arrival: float,
    times: np.ndarray | None,
    max_time: float,
    max_steps: int,
) -> Run:
    """Integrate until the flow has arrived, `max_time` (scaled) is reached or `max_steps` are spent.

    - `times`: scaled, increasing; the states there are returned with the last one, instead of those of the steps. The
      run goes on to the last of them, arrived or not.
    """
    cpu = clock.process_time()
    watch, y, t = Watch(system, arrival), system.y0, 0.0
    watch.look(t, y)
    kept, asked = Kept(system.user(y)), [] if times is None else list(times)
    sampled = [system.user(y) for s in asked if s == 0]
    ending = watch.ending if len(sampled) == len(asked) else None
    stepper, n_steps = None, 0
    if ending is None:
        stepper = Stepper(system, max_time)
    while ending is None and stepper is not None:
        if n_steps >= max_steps or not stepper.step():
            ending = watch.ending or QuadraticEnding.HORIZON
            if watch.ending is not None:  # it moves by no more than rounding: the times that are left find it there
                sampled += [system.user(y)] * (len(asked) - len(sampled))
            break
        n_steps += 1
        t, y = stepper.t, stepper.y
        while len(sampled) < len(asked) and asked[len(sampled)] <= t:
            sampled.append(system.user(stepper.at(asked[len(sampled)])))
        if t >= max_time:
            ending = QuadraticEnding.TIME_REACHED
            break
        if n_steps % LOOK:
            continue
        kept.add(t, system.user(y))
        if watch.ending is None:
            watch.look(t, y)
        if watch.ending is not None and len(sampled) == len(asked):
            ending = watch.ending
    assert ending is not None
    if watch.rows[-1][0] != t:
        watch.look(t, y)
        ending = watch.ending or ending
    kept.end(t, system.user(y))
    found, states = kept.times, kept.states
    if times is not None:
        found, states = [*asked[: len(sampled)], max(t, *asked[: len(sampled)], 0.0)], [*sampled, system.user(y)]
    history = watch.history()
    return Run(
        times=system.problem.log_time(np.array(found)),
        states=np.array([system.state(state) for state in states]),
        ending=ending,
        figures=watch.figures(y),
        history=history,
        drift=watch.drift,
        cost=Cost(
            n_evaluations=stepper.n_evaluations if stepper else 0,
            n_steps=n_steps,
            n_rejected=0,
            cpu_seconds=clock.process_time() - cpu,
        ),
    )
