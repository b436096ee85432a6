"""Gradient flow in polar coordinates on the direction clock, with the sharpness frozen at a cap.

`theta = r omega`, `lr = log r`, `S = unit r^D`, `g = sum_k q_k grad h_k(omega)`, `a = omega . g`:

    omega' = g - a omega,    lr' = a,    u' = exp(-(D - 2) lr - log unit - M - u),    u = log(t + t0)

in the clock `ds = unit r^(D-2) e^M dt`. Past the cap `S` in `q` and `M` stays at `S_c` and u stands still: M then
belongs
to `S_c` and time has no meaning. `t0` makes u' = 1 at the start, so that the clock's first steps are not stiff.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..problem import AbstractProblem
from ._state import measure


def pack(problem: AbstractProblem, omega: np.ndarray, lr: float) -> np.ndarray:
    """The state `y = (omega, lr, u)` at a direction and log radius, u such that u' = 1 there, shape (N + 2,)."""
    D, log_unit = problem.degree, float(np.log(problem.unit))
    there = measure(problem, omega, D * lr + log_unit)
    return np.concatenate([there.direction, [lr, -(D - 2) * lr - log_unit - there.log_normaliser]])


def log_sharpness(problem: AbstractProblem, y):
    """`log S` of a state y."""
    return problem.degree * y[problem.size] + jnp.log(problem.unit)


class Field(eqx.Module):
    """`y -> y'`; see the module's head. `log_cap` is `log S_c`."""

    problem: AbstractProblem
    log_cap: Any

    def __call__(self, y):
        N, D = self.problem.size, self.problem.degree
        omega, lr, u = y[:N], y[N], y[N + 1]
        log_S = log_sharpness(self.problem, y)
        h, vjp = jax.vjp(self.problem.outputs, omega)
        q, M = self.problem.weights(h, jnp.minimum(log_S, self.log_cap))
        g = vjp(q)[0]
        a = omega @ g
        # g - a omega draws |omega| back to 1 where a > 0 and lets it drift away where a < 0; there the sign of the
        # drift is turned. At |omega| = 1 nothing is changed.
        c = jnp.where(a < 0, a * (3 - 2 * (omega @ omega)), a)
        du = jnp.where(log_S < self.log_cap, jnp.exp(-(D - 2) * lr - jnp.log(self.problem.unit) - M - u), 0.0)
        return jnp.concatenate([g - c * omega, a[None], du[None]])

    @property
    def active(self):
        """All components but u, which acts back on nothing, shape (N + 2,)."""
        return jnp.arange(self.problem.size + 2) < self.problem.size + 1

    def passive_rate(self, f):
        """`-du'/du = u'`, a scalar."""
        return f[self.problem.size + 1]


class Stop(eqx.Module):
    """When to hand back: arrived to `speed` at the cap, shrunk to nothing, at rest, or the time reached."""

    problem: AbstractProblem
    log_cap: Any
    log_low: Any
    speed: Any
    until_u: Any

    def __call__(self, y, f):
        N = self.problem.size
        log_S = log_sharpness(self.problem, y)
        slow = jnp.linalg.norm(f[:N]) < self.speed * jnp.abs(f[N])
        return ((log_S >= self.log_cap) & slow) | (log_S < self.log_low) | at_rest(f, N) | (y[N + 1] >= self.until_u)


REST = 1e-9


def at_rest(f, N):
    """True where the whole gradient has vanished, not only its tangential part: a finite minimiser."""
    return jnp.linalg.norm(f[: N + 1]) < REST


class Tolerance(eqx.Module):
    """The error allowed in each component of a step: `atol + rtol |y|`, with two exceptions.

    lr is a logarithm: its error is relative already, and is held to what a component of the direction is held to, so
    that r^2 and with it the conserved quantities keep the integrator's accuracy. u is held to what the direction's
    error does to M: S times it, which is at most 0.1 at the cap by the choice of the tolerances. Asking more of u would
    let the noise of the stiff modes, which does not act back on the direction, set the step.
    """

    problem: AbstractProblem
    rtol: Any
    atol: Any

    def __call__(self, y, y_new):
        N = self.problem.size
        allowed = self.atol + self.rtol * jnp.maximum(jnp.abs(y), jnp.abs(y_new))
        S = jnp.exp(jnp.minimum(log_sharpness(self.problem, y), 60.0))
        unit = self.atol + self.rtol / jnp.sqrt(float(N))  # of a typical component of the direction
        return allowed.at[N].set(unit).at[N + 1].add(S * unit)


class Keep(eqx.Module):
    """Keep a state when the sharpness or the direction has moved enough since the last one kept."""

    problem: AbstractProblem
    log_cap: Any
    step_log_S: Any

    def __call__(self, y, y_kept):
        N, D = self.problem.size, self.problem.degree
        # Past the cap the wait may be long, and only the direction tells something.
        step = jnp.where(log_sharpness(self.problem, y) < self.log_cap, self.step_log_S, 4 * self.step_log_S)
        return (jnp.abs(D * (y[N] - y_kept[N])) >= step) | (jnp.linalg.norm(y[:N] - y_kept[:N]) >= 0.05)
