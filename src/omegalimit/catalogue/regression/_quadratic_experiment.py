"""One training run of a positive quadratic network: flow, descent, and the curvature where they end."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numerics import double_precision
from ...claims import Assumption
from ...data.measurements import EntryMeasurements, Measurements, RankOneMeasurements
from ...flows import QuadraticDescent, QuadraticEnding, QuadraticResult, factor_flow, quadratic_descent
from ...limits.quotient import EffectiveHessian, effective_hessian

MOST_UNKNOWNS = 400  # entries of U: the Hessian in U has so many rows
MOST_PAIRINGS = 10_000_000  # n times the entries of U: the Gram form's factor
N_KEPT = 400  # states of descent, spaced by 3% of the steps made
FADING = 0.5  # of the exponent -1 of an eigenvalue that the limit has not; one that it has settles
INTERPOLATES = 1e-9  # residual below which the end counts as an interpolator


@dataclasses.dataclass(frozen=True)
class OutputLoss:
    """A loss of outputs and targets: `jax`, for derivatives (`None`: the flows' own squared loss), and `weights`.

    Both losses have second derivative 1/n in each output at the data, so the effective Hessian is the same.
    """

    name: str
    jax: Callable[[Any, Any], Any] | None
    weights: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def value(self, f: Any, y: Any) -> Any:
        return jnp.mean((f - y) ** 2) / 2 if self.jax is None else self.jax(f, y)


LOSSES = {
    "squared": OutputLoss("squared", None, lambda f, y: (f - y) / f.size),
    # logaddexp does not overflow where cosh does.
    "log-cosh": OutputLoss(
        "log-cosh",
        lambda f, y: jnp.mean(jnp.logaddexp(f - y, y - f)) - math.log(2),
        lambda f, y: np.tanh(f - y) / f.size,
    ),
}


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """The run, and what the claims need of it.

    - `rank`: of the matrix that the width is meant for; the end is cut to it for the curvature.
    - `flow`, `descent`: from the same `start`. `hessian`, `descent_hessian`: the Gram form at the end of each, cut to
      `rank`; where the data leave a choice, the two ends are different interpolators.
    """

    measurements: Measurements
    label: str
    loss: OutputLoss
    rank: int
    start: Float[np.ndarray, "d k"]
    flow: QuadraticResult
    descent: QuadraticDescent
    hessian: EffectiveHessian
    descent_hessian: EffectiveHessian

    @property
    def interpolates(self) -> bool:
        """Whether the flow ended at an interpolator."""
        return self.flow.figures.residual <= INTERPOLATES

    @property
    def fades(self) -> bool:
        """Whether the flow's residual falls like a power of t at the end: it interpolates, and not exponentially."""
        return falls_like_a_power(self.flow.history.time, self.flow.history.residual)

    @functools.cached_property
    def limit_rank(self) -> int:
        """The rank of the flow's limit: the eigenvalues of Q that do not fade any more at the end.

        An unused column fades like t^(-1/2), its eigenvalue like 1/t: by log 2 in the second half of the time, at any
        scale. One that the limit has has settled by then.
        """
        history = self.flow.history
        if history.time.size < 3:
            return self.flow.rank_start
        middle = int(np.searchsorted(history.time, history.time[-1] / 2))
        middle = min(middle, history.time.size - 2)
        span = math.log(history.time[-1] / history.time[middle]) if history.time[middle] > 0 else math.inf
        fall = history.log_spectrum[middle] - history.log_spectrum[-1]
        return max(1, int((fall < FADING * span).sum()))

    @functools.cached_property
    def edge(self) -> float:
        """Step size times the largest curvature at the flow's end: beyond 2 descent cannot settle there."""
        return self.descent.step_size * self.hessian.largest

    @functools.cached_property
    def end(self) -> Float[np.ndarray, "d r"]:
        """The flow's end, cut to the leading `rank` directions."""
        return cut(self.flow.final, self.rank)

    def weights(self, f: np.ndarray) -> np.ndarray:
        """`dl/df` at the outputs f."""
        return self.loss.weights(f, self.measurements.y)

    def gradient_in_q(self, Q: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """G."""
        return self.measurements.adjoint(self.weights(self.measurements.apply(Q)))

    @functools.cached_property
    def _loss_of_factor(self) -> Callable[[Any], Any]:
        y = self.measurements.y
        outputs = outputs_of(self.measurements)
        return lambda U: self.loss.value(outputs(U), y)

    def gradients(self, states: Float[np.ndarray, "T d k"]) -> Float[np.ndarray, "T d k"]:
        """JAX's gradient of the loss in U at every state: it knows no G and no 2 G U."""
        with double_precision():
            # One state after the other: all at once they would take as many copies of the rows' products.
            return np.asarray(jax.jit(lambda all: jax.lax.map(jax.grad(self._loss_of_factor), all))(states))

    def hessian_in_factor(self, U: Float[np.ndarray, "d k"]) -> Float[np.ndarray, " N"]:
        """Eigenvalues, ascending, of JAX's Hessian of the loss in U."""
        N, gradient = U.size, jax.grad(self._loss_of_factor)

        def column(Z):
            return jax.jvp(gradient, (jnp.asarray(U),), (Z,))[1]

        with double_precision():
            basis = np.eye(N).reshape(N, *U.shape)
            H = np.asarray(jax.jit(lambda all: jax.lax.map(column, all))(basis)).reshape(N, N)
        return np.linalg.eigvalsh((H + H.T) / 2)

    def assuming(self, *names: str) -> tuple[Assumption, ...]:
        """The conditions of the theorem, as found in this run."""
        size = self.hessian.eigenvalues.size
        n = self.measurements.n
        found = {
            "interpolates": Assumption(
                name="the flow interpolates", holds=self.interpolates, measured=self.flow.figures.residual
            ),
            "enough measurements": Assumption(
                name="n >= d r - r (r-1)/2", holds=n >= size, measured=f"{n} against {size}"
            ),
            "width": Assumption(
                name="width equals the limit's rank",
                holds=self.start.shape[1] == self.limit_rank if self.interpolates or self.fades else None,
                measured=f"{self.start.shape[1]} against {self.limit_rank}",
            ),
            "full-rank start": Assumption(
                name="start of full rank",
                holds=self.flow.rank_start == self.start.shape[1],
                measured=float(self.flow.rank_start),
            ),
            "stable step": Assumption(
                name="step below 2 / largest curvature at the end",
                holds=(self.edge if self.descent.diverged_at is not None else self.descent.edge_end) < 2,
                measured=self.edge if self.descent.diverged_at is not None else self.descent.edge_end,
            ),
        }
        return tuple(found[name] for name in names)


def run_experiment(
    measurements: Measurements,
    start: Float[np.ndarray, "d k"],
    *,
    loss: str,
    label: str,
    rank: int,
    step: float = 0.5,
    max_steps: int = 200_000,
    max_time: float = math.inf,
    anywhere: bool = False,
) -> Experiment:
    """Flow and descent from `start`; `step` is the step size in units of 1 / largest curvature of start and flow's end.

    `anywhere`: of the end alone, for a counter-instance.
    """
    if start.size > MOST_UNKNOWNS or measurements.n * start.size > MOST_PAIRINGS:
        raise ValueError(
            f"{measurements.n} measurements and a factor of {start.shape[0]} x {start.shape[1]} entries; the curvature "
            f"is computed up to {MOST_UNKNOWNS} entries and {MOST_PAIRINGS:.0e} entries times measurements. "
            "Take a smaller `r` or fewer measurements."
        )
    chosen = LOSSES[loss]
    # Another loss ends by its own gradient, which rounding holds a little higher beside its largest.
    flow = factor_flow(
        measurements, start, loss=chosen.jax, arrival=1e-12 if chosen.jax is None else 1e-11, max_time=max_time
    )
    # A flow that shrinks to nothing, away from any data, has no curvature there: the unit is the start's.
    vanished = float(np.linalg.norm(flow.final)) <= 1e-3 * float(np.linalg.norm(start))
    at = start if vanished else flow.final
    hessian = curvature_at(measurements, cut(at, rank))
    # A start that overshoots, as the spectral one may, has more curvature than the end: descent would not come there.
    largest = hessian.largest + _rest(measurements, at, chosen)
    if not anywhere:
        largest = max(largest, curvature_at(measurements, start).largest + _rest(measurements, start, chosen))
    descent = quadratic_descent(
        measurements,
        start,
        step_size=step / largest,
        n_steps=max_steps,
        loss=chosen.jax,
        n_kept=N_KEPT,
    )
    ended = descent.diverged_at is None and descent.residual[-1] <= INTERPOLATES
    return Experiment(
        measurements=measurements,
        label=label,
        loss=chosen,
        rank=rank,
        start=start,
        flow=flow,
        descent=descent,
        hessian=hessian,
        descent_hessian=curvature_at(measurements, cut(descent.U, rank)) if ended else hessian,
    )


def _rest(measurements: Measurements, U: Float[np.ndarray, "d k"], loss: OutputLoss) -> float:
    """What the Hessian may have beside the form off the data, `2 <G, Z Z'>`; at an interpolator it is nothing."""
    weights = loss.weights(measurements.apply_factor(U), measurements.y)
    return 2 * float(np.linalg.norm(measurements.adjoint(weights), 2))


def falls_like_a_power(clock: np.ndarray, residual: np.ndarray) -> bool:
    """Whether the residual falls like a power of the clock over its last two decades, and at least threefold.

    There `log r` is a straight line in `log t`. An exponential bends by a factor ten a decade; what has stopped, at a
    local minimum or at rounding, does not fall.
    """
    fine = np.isfinite(residual) & (residual > 0) & (clock > 0)
    if fine.sum() < 3:
        return False
    t, r = np.log(clock[fine]), np.log(residual[fine])
    if t[-1] - t[0] < 2 * math.log(10):
        return False
    at = np.linspace(t[-1] - 2 * math.log(10), t[-1], 21)
    values = np.interp(at, t, r)
    line = np.polyval(np.polyfit(at, values, 1), at)
    fall = line[0] - line[-1]
    return bool(fall >= math.log(3) and np.abs(values - line).max() <= 0.05 * fall)


def curvature_at(measurements: Measurements, U: Float[np.ndarray, "d r"]) -> EffectiveHessian:
    """The Gram form of these measurements at U."""
    if isinstance(measurements, RankOneMeasurements):
        return effective_hessian(U, rows=measurements.X)
    return effective_hessian(U, matrices=measurements.matrices())


def cut(U: Float[np.ndarray, "d k"], rank: int) -> Float[np.ndarray, "d r"]:
    """U turned, within its gauge, so that its leading `rank` directions come first, and the others left off."""
    if U.shape[1] <= rank:
        return U
    return U @ np.linalg.svd(U)[2][:rank].T


def outputs_of(measurements: Measurements) -> Callable[[Any], Any]:
    """`<A_i, U U'>` as a JAX function of U, from the arrays and not by the measurements' own code."""
    match measurements:
        case RankOneMeasurements():
            X = measurements.X
            return lambda U: ((jnp.asarray(X) @ U) ** 2).sum(axis=1)
        case EntryMeasurements():
            rows, cols = measurements.rows, measurements.cols
            return lambda U: (U[rows] * U[cols]).sum(axis=1)
        case _:
            A = measurements.matrices()
            return lambda U: jnp.einsum("nab,ak,bk->n", A, U, U)


def arrived(result: QuadraticResult) -> bool:
    """Whether a flow ended in a limit and not at a saddle or at the end of its time.

    A run that rounding stops at an interpolator has arrived, whatever it says itself.
    """
    limits = (QuadraticEnding.INTERPOLATES, QuadraticEnding.OPTIMAL)
    return result.ending in limits or result.figures.residual <= INTERPOLATES
