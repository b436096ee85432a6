"""An integrator of autonomous systems whose step is never added to a time before it is used; L-stable where stiff.

The Rosenbrock-Wanner method Rodas5P (G. Steinebach, *BIT Numerical Mathematics* 63:27, 2023): eight stages, order 5
with an embedded error estimate of order 4, stiffly accurate, one factorisation a step:

    (1/(h gamma) - J) U_i = f(y + sum_j a_ij U_j) + sum_j C_ij U_j / h,    y_new = y + sum_j a_8j U_j + U_8,  error U_8.

The way from one saddle to the next may take 1e-60 of the time that was spent at the saddle. A program that computes
`t + h` cannot step there, and one that does not need `t` can: the field here has no time in it, steps of any size are
taken, and their sum is kept as two doubles for the reader alone.

Between two rests the path is not stiff, and explicit steps of order 8 (`_explicit.py`) are longer and cheaper. They are
taken only as long as they damp what decays as the solution does: at a rest, or where rates are far apart, they would be
held far below what the error asks for, and Rodas5P takes over.
"""

import abc
import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
from jaxtyping import Float

from ._explicit import DAMPED, N_STAGES, ExplicitStep, explicit_error, explicit_step

_getrf, _getrs = scipy.linalg.get_lapack_funcs(("getrf", "getrs"), dtype=np.float64)
GAMMA = 0.21193756319429014
_SIXTH = (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946)
A = (
    (),
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    _SIXTH,
    (*_SIXTH, 1.0),
    (*_SIXTH, 1.0, 1.0),
)
C = (
    (),
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
    (
        *(30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623),
        -28.087943162872662,
    ),
    (
        *(37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002),
        *(-54.66780262877968, -9.48861652309627),
    ),
)
STAGES = len(A)
_A, _C = tuple(map(np.array, A)), tuple(map(np.array, C))
SMALLEST_STEP = 1e-300
PATIENCE = 3  # explicit steps that stability, not the error, holds back before Rodas5P is tried; doubled where in vain
LOOSE = 1.5  # Rodas5P is left where stability lets explicit steps be longer by this factor than its own
NOISY = 3e-11  # tolerances below which an explicit step's error estimate may be rounding, and says nothing of stiffness
Solve = Callable[[Float[np.ndarray, " N"]], Float[np.ndarray, " N"]]


class AbstractAutonomous(abc.ABC):
    """`y' = f(y)` with its derivative. A trial step may leave the domain: `field` then returns non-finite entries."""

    @abc.abstractmethod
    def field(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """`f(y)`, shape (N,)."""

    @abc.abstractmethod
    def factor(self, y: Float[np.ndarray, " N"], shift: float) -> Solve:
        """The map `b -> (shift - f'(y))^{-1} b`."""

    def fastest(self, y: Float[np.ndarray, " N"]) -> float:
        """An estimate of the fastest rate at which anything decays at y; infinite for no explicit steps."""
        del y
        return math.inf

    def unit(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"] | float:
        """The size of an error of one in each coordinate; 1 for errors that are absolute in the coordinates."""
        del y
        return 1.0

    def reach(self, y: Float[np.ndarray, " N"], f: Float[np.ndarray, " N"]) -> float:
        """The time after which a straight line from here leaves the domain; infinite where it has no border."""
        del y, f
        return math.inf


class DenseAutonomous(AbstractAutonomous):
    """A system that gives its derivative as a matrix."""

    @abc.abstractmethod
    def jacobian(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N N"]:
        """`f'(y)`, shape (N, N)."""

    def factor(self, y: Float[np.ndarray, " N"], shift: float) -> Solve:
        return factored(shift, self.jacobian(y))


def factored(shift: float, J: Float[np.ndarray, "N N"]) -> Solve:
    """`b -> (shift - J)^{-1} b`, by LU on rows of size one (rows may differ in size by 1e200)."""
    W = -J
    W.flat[:: len(W) + 1] += shift
    size = np.abs(W).max(axis=1)
    LU, pivots, info = _getrf(W / size[:, None])
    if info != 0 or not np.isfinite(LU).all():
        return lambda b: np.full_like(b, math.nan)
    return lambda b: _getrs(LU, pivots, b / size)[0]


class StiffIntegrator:
    """Steps with the error of each at most `tol` in the largest coordinate.

    - `y`, `f`: the present state and field, shape (N,); `next_size`: the step to try next.
    - `elapsed`, `elapsed_low`: the sum of the steps as two doubles.
    - `explicit`: the last accepted step, where it was an explicit one.
    - `stuck`: no step was small enough: the field is not finite, or is beyond double precision.
    """

    def __init__(self, system: AbstractAutonomous, y: Float[np.ndarray, " N"], *, tol: float) -> None:
        self.system, self.tol = system, tol
        self.y = np.array(y, dtype=float)
        with np.errstate(all="ignore"):
            self.f = system.field(self.y)
            speed = np.max(np.abs(self.f) / system.unit(self.y), initial=0.0)
        self.next_size = 1e-3 / speed if 0 < speed < math.inf else 1.0
        self.near_border = False
        self.explicit: ExplicitStep | None = None
        self.votes, self.patience, self.since = 0, PATIENCE, 0
        self._look()
        self.is_explicit = self.stable > 0 and tol >= NOISY
        self.elapsed = self.elapsed_low = 0.0
        self.n_evaluations, self.n_steps, self.n_rejected = 1, 0, 0
        self.stuck = not bool(np.isfinite(self.f).all())

    def trial(self, h: float) -> tuple[Float[np.ndarray, " N"], float]:
        """The state after a step `h` of Rodas5P, and its error in units of `tol`; NaN for a step out of the domain."""
        solve = self.system.factor(self.y, 1 / (h * GAMMA))
        U = np.empty((STAGES, self.y.size))
        y = self.y
        for i in range(STAGES):
            right = self.f
            if i:
                y = self.y + _A[i] @ U[:i]
                right = self.system.field(y) + (_C[i] / h) @ U[:i]
            U[i] = solve(right)
        self.n_evaluations += STAGES - 1
        # A stage out of the domain is NaN, and so is the last, which was made of it.
        if not np.isfinite(U).all():
            return self.y, math.nan
        return y + U[-1], float(np.max(np.abs(U[-1]) / self.system.unit(y), initial=0.0)) / self.tol

    def step(self, longest: float = math.inf) -> bool:
        """One accepted step, at most `longest`; False when stuck."""
        with np.errstate(all="ignore"):
            while not self.stuck:
                free = min(self.next_size, self.stable) if self.is_explicit else self.next_size
                h = min(free, longest)
                if self.is_explicit:
                    y, f, error = self._explicit_trial(h)
                else:
                    y, error = self.trial(h)
                    f = self.system.field(y) if error <= 1 else self.f
                    self.n_evaluations += error <= 1
                power = 1 / 8 if self.is_explicit else 1 / 5
                if not error <= 1 or not np.isfinite(f).all():
                    self.n_rejected += 1
                    if 1 < error < math.inf:
                        self.next_size = h * max(0.1, 0.8 * error**-power)
                    else:
                        # Out of the domain, as on the way into a pole: what is left gets shorter with each step.
                        self.near_border, self.next_size = True, self._within(0.1 * h, h)
                    self.stuck = self.next_size < SMALLEST_STEP
                    continue
                self.y, self.f = y, f
                self.n_steps += 1
                proposed = h * min(8.0, 0.8 * max(error, 1e-9) ** -power)
                if self.near_border:
                    within = self._within(proposed, proposed)
                    self.near_border, proposed = within < proposed, within
                # A step that the caller cut short says nothing against a longer one.
                self.next_size = proposed if h == free else max(self.next_size, proposed)
                self._add(float(h))
                self._look()
                if not self.is_explicit:
                    self.explicit = None
                if h == free:
                    self._choose(proposed)
                return True
        return False

    def _explicit_trial(self, h: float) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"], float]:
        """The state after an explicit step, the field there, and the error as `trial` tells it."""
        step = explicit_step(self.system.field, self.y, self.f, h)
        self.n_evaluations += N_STAGES
        if step is None:
            return self.y, self.f, math.nan
        error = explicit_error(step, self.system.unit(step.end)) / self.tol
        if error <= 1:
            self.explicit = step
        return step.end, step.stages[-1], error

    def _look(self) -> None:
        """The longest explicit step that damps, here."""
        rate = self.system.fastest(self.y)
        self.stable = math.inf if rate == 0 else DAMPED / rate if rate > 0 else 0.0

    def _choose(self, size: float) -> None:
        """The method of the next step, from the size that the error lets it have."""
        if self.is_explicit:
            self.votes = self.votes + 1 if size >= self.stable else 0
            if self.votes >= self.patience:
                self.is_explicit, self.votes, self.since = False, 0, self.n_steps
                self.next_size = self.stable
        elif self.tol >= NOISY:
            self.votes = self.votes + 1 if self.stable > LOOSE * size else 0
            if self.votes == 2:
                in_vain = self.n_steps - self.since <= 4
                self.patience = min(2 * self.patience, 32 * PATIENCE) if in_vain else PATIENCE
                self.is_explicit, self.votes = True, 0

    def _within(self, otherwise: float, largest: float) -> float:
        """A step that covers most of the way to the border; what was proposed where the field is not a guide to it (a
        stiff coordinate's is rounding)."""
        step = 0.95 * self.system.reach(self.y, self.f)
        return step if 1e-3 * largest < step < largest else otherwise

    def replace(self, y: Float[np.ndarray, " N"]) -> None:
        """Go on from the same place in other coordinates."""
        with np.errstate(all="ignore"):
            self.y, self.f = y, self.system.field(y)
            self._look()
        self.n_evaluations += 1

    def _add(self, h: float) -> None:
        total = self.elapsed + h
        part = total - self.elapsed
        self.elapsed_low += (self.elapsed - (total - part)) + (h - part)
        self.elapsed = total
