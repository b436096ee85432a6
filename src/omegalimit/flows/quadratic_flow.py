"""Gradient flow of a positive quadratic network `f_U(x) = x' U U' x`, in three coordinates that check each other.

For a loss `l(Q)` of `Q = U U'` with `G = grad l(Q)`, symmetric, the gradient in U is `2 G U`:

- `factor_flow`: `U' = -2 G U`, U of shape (d, r);
- `quotient_flow`: `Q' = -2 (G Q + Q G)`, the projection of the former, and the Riemannian gradient flow of the quotient
  metric (`|U Z' + Z U'|^2 = |Z|_F^2` for horizontal Z: `U'Z` symmetric). It is integrated as a symmetric matrix, by
  another field and another Jacobian, and knows nothing of U;
- `mirror_flow`: for commuting measurements `A_i = V diag(a_i) V'` and `Q = V diag(q) V'` at the start, both stay
  diagonal in V, and `(log q)' = -4 sum_i w_i a_i`: the mirror flow of the entropy. Integrated in `log q`, so that
  starts of any size down to 1e-300 and below are the same work.

The first two equations are the authors' setting as its abstract states it; the mirror form is derived here.

What the flows keep. U(t) = M(t) U(0) with M invertible: the rank and the null space of the start stay, whatever the
measurements say; a start that lacks a direction ends at a saddle, and the result says so. `log q - log q0` stays in the
range of A', exactly so for any Runge-Kutta or multistep method: the end of the mirror flow alone is then no test of the
path to it, and the comparison with the other two at equal times is.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, to_float64
from .._threads import one_blas_thread
from ._quadratic_engine import Run, arrive
from ._quadratic_loss import OutputLoss, checked_commuting, checked_logs, checked_start, scale, to_units
from ._quadratic_result import QuadraticResult, plateaus
from ._quadratic_system import System
from ._quadratic_systems import FactorSystem, MirrorSystem, QuotientSystem

if TYPE_CHECKING:
    from ..data.measurements import CommutingMeasurements, Measurements


MOST_OVER = 1e40
"""Largest outputs of a start beside the targets."""


def factor_flow(
    measurements: Measurements,
    U0: Float[np.ndarray, "d r"],
    *,
    loss: OutputLoss | None = None,
    times: Float[np.ndarray, " T"] | None = None,
    max_time: float = math.inf,
    accuracy: float = 1e-11,
    arrival: float = 1e-12,
    max_steps: int = 100_000,
) -> QuadraticResult:
    """`U' = -2 G U` from `U0`, shape (d, r), to arrival.

    - `loss`: a JAX function `loss(outputs, targets)`, smooth, the whole sum; `|f - y|^2 / (2n)` when `None`.
    - `times`: physical times, increasing, at which states are wanted; else the states of the steps are kept.
    - `max_time`: where to end at the latest; `max_steps` likewise (ending `horizon`).
    - `accuracy`: relative tolerance of the integrator's steps; `arrival`: how small `Figures.residual`, or stationarity
      with growth, must be. Where it is below what rounding allows, the run ends at the horizon.

    Raises `ValueError` for a start that is all zero, not finite or of the wrong shape, and for options out of range.
    """
    U0 = checked_start(U0, "U0", axes="d, r", d=measurements.d)
    checked_options(accuracy=accuracy, arrival=arrival, max_time=max_time, max_steps=max_steps)
    problem = scale(measurements, loss, lambda scaled: float(np.abs(scaled.apply_factor(U0)).max()))
    U = to_units(U0, problem.exponent_Q // 2, "U0")
    return _run(measurements, FactorSystem(problem, U, accuracy), times, max_time, arrival, max_steps)


def quotient_flow(
    measurements: Measurements,
    Q0: Float[np.ndarray, "d d"],
    *,
    loss: OutputLoss | None = None,
    times: Float[np.ndarray, " T"] | None = None,
    max_time: float = math.inf,
    accuracy: float = 1e-11,
    arrival: float = 1e-12,
    max_steps: int = 100_000,
) -> QuadraticResult:
    """`Q' = -2 (G Q + Q G)` from `Q0`, shape (d, d), symmetric and positive semidefinite, to arrival.

    Options as for `factor_flow`. Eigenvalues below the rounding of the largest are lost in Q (not in U): starts more
    than 1e-8 smaller than where the flow goes are for `factor_flow` and `mirror_flow`.

    Raises `ValueError` also when `Q0` is not symmetric, or has an eigenvalue that is negative beyond rounding.
    """
    Q0 = checked_start(Q0, "Q0", axes="d, d", d=measurements.d)
    checked_options(accuracy=accuracy, arrival=arrival, max_time=max_time, max_steps=max_steps)
    top = float(np.abs(Q0).max())
    odd = float(np.abs(Q0 / top - Q0.T / top).max())
    rounding = 8 * measurements.d * np.finfo(float).eps
    if odd > rounding:
        raise ValueError(
            f"`Q0` must be symmetric; it differs from its transpose by {odd:.1e} of its largest entry: "
            "pass `(Q0 + Q0.T) / 2` if that is meant."
        )
    least = float(np.linalg.eigvalsh(Q0 / top)[0])
    if least < -rounding:
        raise ValueError(
            f"`Q0` must be positive semidefinite; it has the eigenvalue {least * top:.3g} "
            f"({least:.1e} of its largest entry)."
        )
    problem = scale(measurements, loss, lambda scaled: float(np.abs(scaled.apply(Q0)).max()))
    Q = to_units(Q0 / 2 + Q0.T / 2, problem.exponent_Q, "Q0")
    return _run(measurements, QuotientSystem(problem, Q, accuracy), times, max_time, arrival, max_steps)


def mirror_flow(
    measurements: CommutingMeasurements,
    q0: Float[np.ndarray, " d"] | None = None,
    *,
    log_q0: Float[np.ndarray, " d"] | None = None,
    loss: OutputLoss | None = None,
    times: Float[np.ndarray, " T"] | None = None,
    max_time: float = math.inf,
    accuracy: float = 1e-11,
    arrival: float = 1e-12,
    max_steps: int = 100_000,
) -> QuadraticResult:
    """`(log q)' = -4 sum_i w_i a_i` from `q0 > 0`, shape (d,), or from its logs, to arrival; the states are `log q`.

    Options as for `factor_flow`. `accuracy` bounds the absolute error of a step in `log q`.

    Raises `ValueError` when an entry of `q0` is not positive: it would stay zero, and the theory needs a positive
    start; `TypeError` for measurements that are not `CommutingMeasurements`.
    """
    checked_options(accuracy=accuracy, arrival=arrival, max_time=max_time, max_steps=max_steps)
    checked_commuting(measurements)
    log_q = checked_logs(measurements.d, q0, log_q0)
    top = float(log_q.max())

    def size(scaled: Measurements) -> float:
        return float(np.abs(checked_commuting(scaled) @ np.exp(log_q - top)).max()) * math.exp(min(top, 700.0))

    problem = scale(measurements, loss, size)
    log_q = log_q - problem.exponent_Q * math.log(2)
    return _run(measurements, MirrorSystem(problem, log_q, accuracy), times, max_time, arrival, max_steps)


def checked_options(*, accuracy: float, arrival: float, max_time: float, max_steps: int) -> None:
    """Raise `ValueError` for options out of range."""
    for name, value in (("accuracy", accuracy), ("arrival", arrival)):
        if not 1e-14 <= value <= 1e-2:
            raise ValueError(f"`{name}` must lie between 1e-14 and 0.01; got {value!r}.")
    if not max_time > 0:
        raise ValueError(f"`max_time` must be positive; got {max_time!r}.")
    if max_steps < 1:
        raise ValueError(f"`max_steps` must be at least 1; got {max_steps!r}.")


def check_start_size(system: System) -> None:
    """Raise `ValueError` for a start from which the way to the data leaves double precision."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        f0 = system.outputs(system.y0)
        largest = float(np.abs(f0).max())
    targets = float(np.abs(system.problem.measurements.y).max()) or 1.0
    if not largest <= MOST_OVER * targets:
        size = f"{largest / targets:.0e} times" if math.isfinite(largest / targets) else "too many times"
        raise ValueError(
            f"the start's outputs are {size} as large as the targets; the flow is computed from up to {MOST_OVER:.0e}. "
            "Take a smaller start."
        )


def _run(
    measurements: Measurements,
    system: System,
    times: np.ndarray | None,
    max_time: float,
    arrival: float,
    max_steps: int,
) -> QuadraticResult:
    unit = system.problem.exponent_t
    asked = None
    if times is not None:
        asked, _ = to_float64(times, "times")
        check_ndim(asked, "times", axes="T")
        check_finite(asked, "times")
        if not (asked.size and (asked >= 0).all() and (np.diff(asked) > 0).all()):
            raise ValueError("`times` must be increasing and not negative, at least one.")
        if asked[-1] > max_time:
            raise ValueError(f"`times` end at {asked[-1]:g}, after `max_time` = {max_time:g}.")
        asked = np.ldexp(asked, -unit)
    check_start_size(system)
    with one_blas_thread(), np.errstate(under="ignore"), warnings.catch_warnings():
        # LSODA warns where it fails; what became of the run is in its ending.
        warnings.filterwarnings("ignore", message="lsoda: ", category=UserWarning)
        run: Run = arrive(
            system, arrival=arrival, times=asked, max_time=float(np.ldexp(max_time, -unit)), max_steps=max_steps
        )
    return QuadraticResult(
        measurements=measurements,
        coordinates=system.coordinates,
        log_time=run.times,
        states=run.states,
        ending=run.ending,
        figures=run.figures,
        plateaus=plateaus(run.history),
        rank_start=system.rank_start,
        drift=run.drift,
        history=run.history,
        cost=run.cost,
    )
