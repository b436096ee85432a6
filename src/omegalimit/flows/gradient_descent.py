"""Gradient descent and normalised gradient descent, as users run them, with gradients that do not underflow."""

import dataclasses
import math
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._numerics import double_precision
from ..problem import AbstractProblem
from ..trajectory import Cost, Trajectory
from ._state import Arrival, measure
from .gradient_flow import checked_start


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescentResult:
    """Where a finite number of steps came to.

    - `arrival`: the last state's own numbers, see `Arrival`; `trajectory`: clock `"step"`, `log_time` the log of
      step size times steps (NaN for normalised steps, whose time is not the flow's).
    - `stalled_at`: how many steps were taken before the first one that changed no parameter (the update had fallen
      below rounding), or `None`. A run that stalls looks converged; arithmetic ended it, not theory.
    """

    arrival: Arrival
    trajectory: Trajectory
    stalled_at: int | None
    cost: Cost


@eqx.filter_jit
def _descend(problem: AbstractProblem, theta, step_size, n_steps, normalised):
    N_D = problem.degree

    def gradient(theta):
        """`(log of the length, unit vector)` of `-grad L`."""
        r = jnp.linalg.norm(theta)
        h, vjp = jax.vjp(problem.outputs, theta / r)
        q, M = problem.weights(h, N_D * jnp.log(r) + jnp.log(problem.unit))
        g = vjp(q)[0]
        size = jnp.linalg.norm(g)
        unit = g / jnp.where(size > 0, size, 1.0)
        return jnp.log(problem.unit) + (N_D - 1) * jnp.log(r) + M + jnp.log(size), unit

    def body(carry):
        theta, k, still = carry
        log_length, unit = gradient(theta)
        new = theta + step_size * jnp.where(normalised, 1.0, jnp.exp(log_length)) * unit
        still = jnp.where((still < 0) & jnp.all(new == theta), k, still)
        return new, k + 1, still

    return jax.lax.while_loop(lambda c: c[1] < n_steps, body, (theta, jnp.zeros((), dtype=int), jnp.asarray(-1)))


def gradient_descent(
    problem: AbstractProblem,
    start: Float[np.ndarray, " N"] | None = None,
    *,
    step_size: float,
    n_steps: int,
    normalised: bool = False,
    n_kept: int = 50,
) -> DescentResult:
    """`theta <- theta - step_size grad L(theta)`, or with `normalised` the gradient divided by its length.

    The gradient's direction and the log of its length are computed apart, so that the direction is right at any margin;
    a plain step that is smaller than rounding leaves the parameters as they are, as it would in any program, and is
    reported in `stalled_at`.

    - `start`: flat parameters, shape (N,); `step_size` > 0; `n_steps` >= 1; `n_kept` states are kept, log-spaced.

    Raises `ValueError` for options out of range or a start that is zero, not finite or of the wrong shape.
    """
    theta = checked_start(problem, start)
    if not (math.isfinite(step_size) and step_size > 0):
        raise ValueError(f"`step_size` must be positive and finite; got {step_size!r}.")
    if n_steps < 1 or n_kept < 2:
        raise ValueError(f"`n_steps` must be at least 1 and `n_kept` at least 2; got {n_steps!r} and {n_kept!r}.")
    cpu = time.process_time()
    marks = np.unique(np.round(np.geomspace(1, n_steps, n_kept)).astype(int))
    steps, states, stalled = [0], [theta], None
    with double_precision():
        for mark in marks:
            new, _, still = _descend(
                problem,
                states[-1],
                np.asarray(float(step_size)),
                np.asarray(int(mark - steps[-1])),
                np.asarray(normalised),
            )
            if stalled is None and int(still) >= 0:
                stalled = steps[-1] + int(still)
            steps.append(int(mark))
            states.append(np.asarray(new))
            if not np.isfinite(states[-1]).all():
                raise ValueError(
                    f"the parameters left the range of double precision before step {mark}; "
                    f"use a smaller `step_size` than {step_size!r}."
                )
    thetas, step = np.array(states), np.array(steps)
    r = np.linalg.norm(thetas, axis=1)
    with np.errstate(divide="ignore"):
        log_time = np.full(step.size, np.nan) if normalised else np.log(step * step_size)
    log_S = problem.degree * np.log(r) + math.log(problem.unit)
    trajectory = Trajectory(
        clock="step",
        time=step.astype(float),
        direction=thetas / r[:, None],
        log_radius=np.log(r),
        log_time=log_time,
        log_sharpness=log_S,
    )
    return DescentResult(
        arrival=measure(problem, thetas[-1], float(log_S[-1]), log_time=float(log_time[-1])),
        trajectory=trajectory,
        stalled_at=stalled,
        cost=Cost(n_evaluations=n_steps, n_steps=n_steps, n_rejected=0, cpu_seconds=time.process_time() - cpu),
    )
