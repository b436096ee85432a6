"""The steps of a quadratic flow, with tolerances that follow it.

The integrator is LSODA with the exact Jacobian, which turns implicit by itself as soon as the fast directions have
died, so that its steps grow with the elapsed time: a sublinear tail (`residual ~ 1/t`, a factor wider than the rank)
costs steps in proportion to `log t`. Beyond `DENSE` unknowns, whose Jacobian would be too large, it is DOP853. Neither
tells how many steps it rejected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.integrate

from ._quadratic_system import System

DENSE = 600
"""Most unknowns for which a dense Jacobian is formed: 600^2 doubles, 72 million multiplications to factorise it."""

_EPS = float(np.finfo(float).eps)

LEAST_RTOL = 100 * _EPS
"""SciPy takes no smaller relative tolerance."""

TAIL = 1e-4
"""Share of the distance to go that a step's error may have."""

RESTART = 0.01
"""First step after a restart, as a share of the last one before it."""

STUCK = 0.01
"""Groups that still travel more than this share of the furthest they did are on their way, whatever time does."""

EVERY = 4
"""Steps between two looks at the tolerances."""

END = 1e-3
"""Relative error by accumulated rounding at which a run is ended."""


class Stepper:
    """LSODA or DOP853 on the deviation from a base point, which moves when the tolerances no longer fit.

    Each group of entries has an absolute tolerance, the least of two, but not less than rounding:

    - `accuracy` times its size, so that what starts small keeps its digits while it grows;
    - `TAIL` of the distance it still travels, about `t |dy/dt|` (exponential and sublinear approaches alike). A
      tolerance relative to the state alone stops seeing the motion near the limit; and the deviation has digits of its
      own there, so that the approach keeps its rate down to the rounding of the field.

    That rounding, about `eps Gamma` of G, is worth `eps Gamma h` in a step h, which no tolerance undercuts; what adds
    up to over the time t ends a sublinear tail where it passes `END`.
    """

    def __init__(self, system: System, max_time: float):
        self._system, self._max_time = system, max_time
        self.t, self.y = 0.0, system.y0
        self.n_evaluations = 0
        m = system.problem.measurements
        self._rest = float(np.abs(system.problem.loss.weights(np.zeros(m.n))) @ m.norms)
        self._lost = 0.0
        self._rounding()
        self._h, self._share, self._n = 0.0, TAIL, 0
        self._furthest = np.zeros(system.sizes(system.y0).size)
        self._begin()

    def _rounding(self) -> None:
        """What rounding leaves of G here. Far from the data, at a large start, it is far more than later."""
        problem = self._system.problem
        weights = np.abs(problem.loss.weights(self._system.outputs(self.y)))
        self._noise = 4 * _EPS * (self._rest + float(weights @ problem.measurements.norms))

    def _travels(self) -> tuple[np.ndarray, np.ndarray]:
        """Sizes of the groups, and the distances they still travel relative to them; infinite at the start."""
        sizes = self._system.sizes(self.y)
        if self.t == 0:
            return sizes, np.full(sizes.size, np.inf)
        speeds = self._system.sizes(self._system.field(self.t, self.y)) * self.t
        self.n_evaluations += 1
        return sizes, speeds if self._system.logs() else speeds / np.where(sizes > 0, sizes, 1.0)

    def _begin(self) -> None:
        system = self._system
        self.y = base = system.rebase(self.y)
        sizes, travels = self._travels()
        self._sizes, self._travelled, self._mark = sizes, travels, (self.t, travels)
        self._floor = max(4 * _EPS, self._noise * self._h)
        share = np.maximum(np.minimum(system.accuracy, self._share * travels), self._floor)
        atol = system.spread(share if system.logs() else share * np.where(sizes > 0, sizes, 1.0))
        options: dict[str, Any] = {"rtol": max(system.accuracy, LEAST_RTOL), "atol": atol}
        if self._h > 0:
            # LSODA's own guess looks at the tolerances alone, and is far too large where little moves.
            options["first_step"] = min(RESTART * self._h, 0.5 * (self._max_time - self.t))

        def field(t, deviation):
            self.n_evaluations += 1
            return system.field(t, base + deviation)

        make: Any = scipy.integrate.DOP853
        if base.size <= DENSE:
            make, options["jac"] = scipy.integrate.LSODA, lambda t, deviation: system.jacobian(t, base + deviation)
        self._base, self._solver = base, make(field, self.t, np.zeros_like(base), self._max_time, **options)

    def _unfit(self) -> bool:
        """Whether the tolerances no longer fit."""
        sizes, travels = self._travels()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            grown = sizes / self._sizes
        share, floor = self._share, self._floor
        self._furthest = np.maximum(self._furthest, travels)
        closing = (share * travels < self._system.accuracy) & (0.1 * share * self._travelled > floor)
        # What is left to go stays as it is while the time triples: it is the steps' own error. So moves an explicit
        # method at the edge of its stability, by its tolerance.
        stuck = np.zeros(travels.size, dtype=bool)
        if self.t > 3 * self._mark[0]:
            stuck = (
                (travels < STUCK * self._furthest) & (travels > 0.9 * self._mark[1]) & (0.1 * share * travels > floor)
            )
            self._mark = self.t, travels
        if stuck.any():
            self._share = 0.1 * min(share, self._system.accuracy / float(travels[stuck].max()))
        return bool(
            (not self._system.logs() and ((grown > 10) | (grown < 1e-3)).any())
            or (closing & (travels < 0.1 * self._travelled)).any()
            or stuck.any()
            or self._noise * self._h > 10 * max(self._floor, self._system.accuracy)
            or self._system.worn(self.y)
        )

    def step(self) -> bool:
        """One step; false when arithmetic or the integrator allows none."""
        if self._lost > END or self._system.hidden(self.y):
            return False
        self._n += 1
        if self._n % EVERY == 0:
            self._rounding()
            if self._unfit():
                self._begin()
        for attempt in range(2):
            self._solver.step()
            if self._solver.status != "failed" and np.isfinite(self._solver.y).all():
                self._h = float(self._solver.t) - self.t
                self.t, self.y = float(self._solver.t), self._base + self._solver.y
                self._lost += self._noise * self._h
                return True
            if attempt == 0:
                self._begin()  # it forgets the history that it failed with
        return False

    def at(self, t: float) -> np.ndarray:
        """The state at a time inside the last step."""
        return self._base + self._solver.dense_output()(t)
