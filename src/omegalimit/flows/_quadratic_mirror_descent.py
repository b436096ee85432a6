"""Gradient descent on a positive quadratic network with commuting measurements, from a diagonal start.

`q+ = q (1 - 2 eta g)^2` with `g = a' w`, iterated in logs. To first order in eta it ends where the flow would have
ended from another start (derived here): with

    2 log(1 - 2 eta g) = -4 eta g - 4 eta^2 g^2 - ...

the first terms add up to something in the range of A', and the second to `-4 eta int g^2 dt`. So the limit is the
Bregman projection of `q0 exp(-4 eta int g * g dt)` up to O(eta^2), and that of `exact_start` to rounding.
"""

from __future__ import annotations

import dataclasses
import math
import time as clock
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._checks import check_count
from .._threads import one_blas_thread
from ..trajectory import Cost
from ._quadratic_engine import target_size
from ._quadratic_loss import OutputLoss, checked_commuting, checked_logs, checked_step, scale
from ._quadratic_result import QuadraticEnding, Rate, tail_rate

if TYPE_CHECKING:
    from ..data.measurements import CommutingMeasurements, Measurements


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class MirrorDescent:
    """Where `q+ = q (1 - 2 eta g)^2` came to, in the measurements' common basis.

    - `log_q0`, `log_q`: the start and the end, shape (d,); an entry that met a factor of exactly zero is -inf.
    - `square_integral`: `sum eta g * g` over the steps, shape (d,), which is `int g * g dt` to first order.
    - `linear_integral`: `sum eta g`, shape (d,), in the range of A'.
    - `residual`: `|f - y| / |y|` before every step and after the last, shape (T,).
    - `n_crossings`: how many factors `1 - 2 eta g` were not positive: the step was too large to follow the flow there.
    """

    measurements: CommutingMeasurements
    step_size: float
    log_q0: Float[np.ndarray, " d"]
    log_q: Float[np.ndarray, " d"]
    square_integral: Float[np.ndarray, " d"]
    linear_integral: Float[np.ndarray, " d"]
    residual: Float[np.ndarray, " T"]
    ending: QuadraticEnding
    n_crossings: int
    cost: Cost

    @property
    def q(self) -> Float[np.ndarray, " d"]:
        """The end itself."""
        return np.exp(self.log_q)

    @property
    def corrected_start(self) -> Float[np.ndarray, " d"]:
        """`log q0 - 4 eta int g * g dt`: the logs of the start whose Bregman projection is the end up to O(eta^2)."""
        return self.log_q0 - 4 * self.step_size * self.square_integral

    @property
    def exact_start(self) -> Float[np.ndarray, " d"]:
        """`log q + 4 sum eta g`: the logs of the start whose Bregman projection is the end, to every order."""
        return self.log_q + 4 * self.linear_integral

    def local_rate(self, *, first: float = 1e-4, last: float = 1e-9) -> Rate | None:
        """As `QuadraticDescent.local_rate`."""
        return tail_rate(np.arange(self.residual.size, dtype=float), self.residual, first=first, last=last)


def mirror_descent(
    measurements: CommutingMeasurements,
    q0: Float[np.ndarray, " d"] | None = None,
    *,
    log_q0: Float[np.ndarray, " d"] | None = None,
    step_size: float,
    n_steps: int,
    until: float = 1e-12,
    loss: OutputLoss | None = None,
) -> MirrorDescent:
    """`q+ = q (1 - 2 step_size g)^2` from `q0 > 0`, shape (d,), or its logs.

    It is what `quadratic_descent` does to a diagonal Q. It runs to `until` or `n_steps`, whatever the gradient does.
    """
    checked_commuting(measurements)
    start = checked_logs(measurements.d, q0, log_q0)
    n_steps = check_count(n_steps, "n_steps", least=1)
    checked_step(step_size, until)
    top = float(start.max())

    def size_of_start(scaled: Measurements) -> float:
        return float(np.abs(checked_commuting(scaled) @ np.exp(start - top)).max()) * math.exp(min(top, 700.0))

    problem = scale(measurements, loss, size_of_start)
    cpu = clock.process_time()
    a, y = checked_commuting(problem.measurements), problem.measurements.y
    shift = problem.exponent_Q * math.log(2)
    log_q = start - shift
    squares, lines = np.zeros_like(log_q), np.zeros_like(log_q)
    eta, found, n_crossings = float(np.ldexp(step_size, -problem.exponent_t)), [], 0
    with one_blas_thread(), np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore"):
        size = target_size(problem, a @ np.exp(log_q))
        ending = QuadraticEnding.STEPS_TAKEN
        for k in range(n_steps + 1):
            f = a @ np.exp(log_q)
            found.append(float(np.linalg.norm(f - y)) / size)
            if not math.isfinite(found[-1]):
                ending = QuadraticEnding.DIVERGED
                break
            if found[-1] <= until:
                ending = QuadraticEnding.INTERPOLATES
                break
            if k == n_steps:
                break
            x = (2 * eta) * (problem.loss.weights(f) @ a)
            n_crossings += int((x >= 1).sum())
            # log1p keeps the digits of small steps; beyond one the factor's square has the log of its size.
            log_q = log_q + 2 * np.where(x < 1, np.log1p(-np.minimum(x, 1)), np.log(np.abs(1 - x)))
            lines += x / 2
            squares += x * x / (4 * eta)
    return MirrorDescent(
        measurements=measurements,
        step_size=float(step_size),
        log_q0=start,
        log_q=log_q + shift,
        square_integral=np.ldexp(squares, -problem.exponent_t),
        linear_integral=lines,
        residual=np.array(found),
        ending=ending,
        n_crossings=n_crossings,
        cost=Cost(
            n_evaluations=len(found),
            n_steps=len(found) - 1,
            n_rejected=0,
            cpu_seconds=clock.process_time() - cpu,
        ),
    )
