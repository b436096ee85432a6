"""Explicit steps of order 8 for the parts of a path that are not stiff, and the path between their ends.

The Runge-Kutta method 8(5,3) of Dormand and Prince with the error estimate and the continuous extension of order 7 of
Hairer, Norsett and Wanner (*Solving Ordinary Differential Equations I*, section II.10; coefficients as SciPy publishes
them). At an error of 1e-9 a step is about five times as long as one of a method of order 5, and solves no system.
"""

import dataclasses

import numpy as np
import scipy.integrate
from jaxtyping import Float

_method = scipy.integrate.DOP853
N_STAGES: int = _method.n_stages
_A = tuple(np.ascontiguousarray(_method.A[i, :i]) for i in range(N_STAGES))
_B = np.ascontiguousarray(_method.B)
_ERRORS = np.stack([_method.E5, _method.E3])
_A_EXTRA = tuple(np.ascontiguousarray(row[: N_STAGES + 1 + i]) for i, row in enumerate(_method.A_EXTRA))
_D = np.ascontiguousarray(_method.D)
# The interval of the negative axis in which the method damps ends at 6.1; up to here it damps like the solution.
DAMPED = 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExplicitStep:
    """One step: its size, the state and the stages at its start (stage 0 is the field there), the state at its end."""

    h: float
    y: Float[np.ndarray, " N"]
    stages: Float[np.ndarray, "S N"]
    end: Float[np.ndarray, " N"]


def explicit_step(field, y: Float[np.ndarray, " N"], f: Float[np.ndarray, " N"], h: float) -> ExplicitStep | None:
    """A step of `y' = field(y)` with `f = field(y)`, its last stage `field(end)`; `None` where it leaves the domain."""
    K = np.empty((N_STAGES + 1, y.size))
    K[0] = f
    for i in range(1, N_STAGES):
        K[i] = field(y + (h * _A[i]) @ K[:i])
    end = y + (h * _B) @ K[:-1]
    K[-1] = field(end)
    # A stage out of the domain is NaN, and so is everything that was made of it.
    if not np.isfinite(K[-1]).all():
        return None
    return ExplicitStep(h=h, y=y, stages=K, end=end)


def explicit_error(step: ExplicitStep, unit: Float[np.ndarray, " N"] | float) -> float:
    """The estimate of the error of a step, in the largest coordinate."""
    fifth, third = np.abs(_ERRORS @ step.stages / unit).max(axis=1).tolist()
    size = (fifth * fifth + 0.01 * third * third) ** 0.5
    return step.h * fifth * (fifth / size) if size > 0 else 0.0


def between(field, steps: list[ExplicitStep], shares: Float[np.ndarray, " m"]) -> Float[np.ndarray, "B m N"]:
    """The states at the given shares of each step, by the continuous extension; `field` takes (B, N)."""
    h = np.array([step.h for step in steps])[:, None]
    y = np.stack([step.y for step in steps])
    K = np.empty((len(steps), N_STAGES + 1 + len(_A_EXTRA), y.shape[1]))
    K[:, : N_STAGES + 1] = [step.stages for step in steps]
    for row, a in enumerate(_A_EXTRA, start=N_STAGES + 1):
        K[:, row] = field(y + h * (a @ K[:, :row]))
    delta = np.stack([step.end for step in steps]) - y
    first, last = h * K[:, 0], h * K[:, N_STAGES]
    terms = [delta, first - delta, 2 * delta - first - last, *np.moveaxis(h[:, None] * (_D @ K), 1, 0)]
    x = shares[:, None]
    value = np.zeros((len(steps), len(shares), y.shape[1]))
    for i, term in enumerate(reversed(terms)):
        value = (value + term[:, None]) * (x if i % 2 == 0 else 1 - x)
    return y[:, None] + value
