"""Gradient descent of a diagonal linear network, step by step in the plain weights, as a training loop does it.

    theta_i <- theta_i + eta u_i grad k_i(theta_i),    u = X^T (y - X k),    loss |y - X k|^2 / 2

It is here for what a finite step does to what the flow conserves. For products `a_1 ... a_L` one step changes

    a_j^2 - a_l^2  by the factor  1 - (eta u k / (a_j a_l))^2,

derived here: exactly zero stays exactly zero, so the straight manifolds `a_j = +-a_l` survive any step, and the curved
ones, `a_j^2 - a_l^2 = const`, do not. And `u v` of `u^2 - v^2` shrinks by `1 - (2 eta u_i)^2`.
"""

import dataclasses
import math
import time as clock

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .._checks import check_count
from .._threads import one_blas_thread
from ..models.diagonal import AbstractNeurons
from ..trajectory import Cost
from .diagonal_flow import checked_data, checked_shape


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiagonalDescent:
    """Where a number of steps came to.

    - `step`: numbers of the kept steps, shape (T,); `k`: shape (T, d); `components`: shape (T, d, m); `loss`: (T,).
    - `invariants`: what the flow conserves, at the kept steps, shape (T, d, q), or `None` where no formula is known;
      `terms`: the size of the terms it is a difference of (its rounding is relative to that).
    - `stalled_at`: how many steps were taken before the first that changed no weight: the update had fallen below
      rounding, or was zero. `None` while it moves. Arithmetic ended such a run, not theory.
    - `diverged_at`: the step after which a weight was not finite, or `None`; what is kept ends before it.
    - `underflows`: neurons whose first update is zero though neither u_i nor their weights are: the gradient is smaller
      than doubles hold (or they start at a critical point).
    """

    step_size: float
    step: Int[np.ndarray, " T"]
    k: Float[np.ndarray, "T d"]
    components: Float[np.ndarray, "T d m"]
    loss: Float[np.ndarray, " T"]
    residual: float
    invariants: Float[np.ndarray, "T d q"] | None
    terms: Float[np.ndarray, "T d q"] | None
    stalled_at: int | None
    diverged_at: int | None
    underflows: Int[np.ndarray, " f"]
    cost: Cost

    @property
    def drift(self) -> float:
        """The largest change of an invariant, in units of its terms at the start; NaN where no formula is known."""
        if self.invariants is None or self.terms is None:
            return math.nan
        moves = self.terms[0] > 0
        return float((np.abs(self.invariants - self.invariants[0])[:, moves] / self.terms[0, moves]).max(initial=0.0))

    @property
    def drift_rounding(self) -> float:
        """What rounding of the largest weights alone may make of `drift`: `4 eps` times the growth of the terms."""
        if self.terms is None:
            return math.nan
        moves = self.terms[0] > 0
        growth = float((self.terms[:, moves] / self.terms[0, moves]).max(initial=0.0))
        return 4 * float(np.finfo(float).eps) * growth


def diagonal_descent(
    model: AbstractNeurons,
    X: ArrayLike,
    y: ArrayLike,
    *,
    start: ArrayLike,
    step_size: float,
    n_steps: int,
    n_kept: int = 50,
) -> DiagonalDescent:
    """`n_steps` of gradient descent from the weights `start`, shape (d, m) or (m,) for all neurons alike.

    `n_kept` states are kept, spaced evenly in the log of the step. A run that leaves double precision ends there.
    Raises `ValueError` or `TypeError` for data, a start or options that are out of range.
    """
    X, y = checked_data(X, y)
    if not isinstance(model, AbstractNeurons):
        raise TypeError(f"`model` must be neurons such as ProductNeurons(3); got {type(model).__name__}.")
    theta = checked_shape(model, X.shape[1], start, name="start")
    if not (isinstance(step_size, int | float | np.number) and math.isfinite(step_size) and step_size > 0):
        raise ValueError(f"`step_size` must be positive and finite; got {step_size!r}.")
    n_steps, n_kept = check_count(n_steps, "n_steps", least=1), check_count(n_kept, "n_kept", least=2)
    with one_blas_thread(), np.errstate(all="ignore"):
        return _descend(model, X, y, theta, float(step_size), n_steps, n_kept)


def _descend(model: AbstractNeurons, X, y, theta, step_size: float, n_steps: int, n_kept: int) -> DiagonalDescent:
    cpu = clock.process_time()
    marks = set(np.unique(np.round(np.geomspace(1, n_steps, n_kept)).astype(int)).tolist())
    u = X.T @ (y - X @ model.k(theta))
    underflows = np.flatnonzero(~(u[:, None] * model.gradient(theta)).any(axis=1) & theta.any(axis=1) & (u != 0))
    steps, states = [0], [theta]
    stalled = diverged = None
    done = 0
    for step in range(1, n_steps + 1):
        u = X.T @ (y - X @ model.k(theta))
        new = theta + step_size * u[:, None] * model.gradient(theta)
        if not np.isfinite(new).all():
            diverged = step
            break
        done = step
        if (new == theta).all():
            # Nothing random here: what did not change will not.
            stalled = step - 1
            break
        theta = new
        if step in marks:
            steps.append(step)
            states.append(theta)
    if steps[-1] != done:
        steps.append(done)
        states.append(theta)
    components = np.array(states)
    k = model.k(components)
    r = y - k @ X.T
    kept = model.invariants(components)
    return DiagonalDescent(
        step_size=step_size,
        step=np.array(steps),
        k=k,
        components=components,
        loss=0.5 * np.sum(r * r, axis=1),
        residual=float(np.linalg.norm(r[-1]) / np.linalg.norm(y)),
        invariants=None if kept is None else kept[0],
        terms=None if kept is None else kept[1],
        stalled_at=stalled,
        diverged_at=diverged,
        underflows=underflows,
        cost=Cost(n_evaluations=done, n_steps=done, n_rejected=0, cpu_seconds=clock.process_time() - cpu),
    )
