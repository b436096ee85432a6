"""Two integrators behind one interface: RKC2 (any size, no Jacobian) and LSODA (tight, for trajectories)."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
import scipy.integrate
import scipy.optimize

from . import _rkc
from ._field import Field, Keep, Stop, Tolerance


class AbstractIntegrator(abc.ABC):
    """A state `y` on the clock `s` that advances until a test says so. Field and tolerance may change between calls."""

    y: np.ndarray
    f: np.ndarray
    s: float
    n_evaluations: int
    n_steps: int
    n_rejected: int
    stuck: bool

    @abc.abstractmethod
    def advance(self, field: Field, stop: Stop, keep: Keep, *, rtol: float, atol: float, max_evaluations: int) -> None:
        """Integrate until `stop`, or `max_evaluations` more have been spent, or the step has shrunk to nothing."""

    @abc.abstractmethod
    def restart(self, y: np.ndarray) -> None:
        """Go on from another state at the same `s`."""

    @abc.abstractmethod
    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """States kept so far, `(s, y)` of shapes (T,) and (T, N + 2)."""

    @abc.abstractmethod
    def crossing(self, index: int, value: float) -> tuple[float, np.ndarray]:
        """`(s, y)` inside the last step where `y[index]` crosses `value`."""


class RKC(AbstractIntegrator):
    """See `_rkc`. Order 2."""

    def __init__(self, field: Field, y: np.ndarray):
        self._table = _rkc.coefficients()
        self._take(_rkc.start(y, np.asarray(_evaluate(field, y))))

    def _take(self, state: _rkc.State) -> None:
        self._state = state
        self.y, self.f, self.s = np.asarray(state.y), np.asarray(state.f), float(state.s)
        self.n_evaluations, self.n_steps = int(state.n_evaluations), int(state.n_steps)
        self.n_rejected = int(state.n_rejected)
        self.stuck = float(state.h) <= 1e-14 * (1 + self.s)

    def advance(self, field, stop, keep, *, rtol, atol, max_evaluations):
        # The field may have changed since the last call (its cap): the derivative is taken anew.
        state = self._state._replace(f=_evaluate(field, self._state.y))
        limit = self.n_evaluations + max_evaluations
        tolerance = Tolerance(field.problem, np.asarray(rtol), np.asarray(atol))
        self._take(_rkc.advance(field, state, self._table, tolerance, stop, keep, np.asarray(limit)))

    def restart(self, y):
        self.y = y
        self._state = self._state._replace(y=y, y0=y)

    def kept(self):
        n = int(self._state.n_kept)
        return np.asarray(self._state.kept_s)[:n], np.asarray(self._state.kept_y)[:n]

    def crossing(self, index, value):
        c = self._state
        y0, f0, y1, f1, h = (np.asarray(x) for x in (c.y0, c.f0, c.y, c.f, c.h0))

        def hermite(x: float) -> np.ndarray:
            return (
                (1 + 2 * x) * (1 - x) ** 2 * y0
                + x * (1 - x) ** 2 * h * f0
                + x**2 * (3 - 2 * x) * y1
                + x**2 * (x - 1) * h * f1
            )

        x = _root(lambda x: hermite(x)[index] - value, 0.0, 1.0)
        return self.s - float(h) * (1 - x), hermite(x)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where `function` changes its sign in `[low, high]`; an end when rounding hides the change there."""
    at_low, at_high = function(low), function(high)
    if at_low * at_high >= 0:
        return low if abs(at_low) < abs(at_high) else high
    return float(scipy.optimize.root_scalar(function, bracket=(low, high), xtol=1e-15 * max(1.0, abs(high))).root)


@eqx.filter_jit
def _evaluate(field: Field, y):
    return field(y)


@eqx.filter_jit
def _jacobian(field: Field, y):
    return jax.jacfwd(field)(y)


@eqx.filter_jit
def _tests(stop: Stop, keep: Keep, y, f, y_kept):
    return stop(y, f), keep(y, y_kept)


class LSODA(AbstractIntegrator):
    """SciPy's LSODA with the exact Jacobian: variable order, for trajectories; dense, so for small N."""

    def __init__(self, field: Field, y: np.ndarray):
        self.y, self.f, self.s = y, np.asarray(_evaluate(field, y)), 0.0
        self._kept_s, self._kept_y = [0.0], [y]
        self.n_evaluations = self.n_steps = self.n_rejected = 0
        self.stuck = False
        self._solver = self._key = None

    def advance(self, field, stop, keep, *, rtol, atol, max_evaluations):
        key = (float(field.log_cap), rtol, atol)
        if self._solver is None or key != self._key:
            self._key = key
            self._solver = scipy.integrate.LSODA(
                lambda s, y: np.asarray(_evaluate(field, y)),
                self.s,
                self.y,
                np.inf,
                rtol=rtol,
                atol=atol,
                jac=lambda s, y: np.asarray(_jacobian(field, y)),
            )
        solver, spent = self._solver, 0
        while spent < max_evaluations:
            before = solver.nfev
            solver.step()
            spent += solver.nfev - before
            self.n_evaluations += solver.nfev - before
            self.n_steps += 1
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                self.stuck = True
                return
            self.y, self.s = np.array(solver.y), float(solver.t)
            self.f = np.asarray(_evaluate(field, self.y))
            done, wanted = _tests(stop, keep, self.y, self.f, self._kept_y[-1])
            if wanted:
                self._kept_s.append(self.s)
                self._kept_y.append(self.y)
            if done:
                return

    def restart(self, y):
        self.y, self._solver = y, None

    def kept(self):
        return np.asarray(self._kept_s), np.asarray(self._kept_y)

    def crossing(self, index, value):
        assert self._solver is not None
        assert self._solver.t_old is not None
        dense = self._solver.dense_output()
        s = _root(lambda s: dense(s)[index] - value, self._solver.t_old, self._solver.t)
        return s, np.asarray(dense(s))


INTEGRATORS: dict[str, type[RKC] | type[LSODA]] = {"rkc": RKC, "lsoda": LSODA}
