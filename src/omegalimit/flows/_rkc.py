"""RKC2: the stabilised explicit Runge-Kutta-Chebyshev method of order 2, as one compiled loop.

Coefficients of Sommeijer, Shampine, Verwer, "RKC: an explicit solver for parabolic PDEs" (J. Comput. Appl. Math. 88,
1998), damping eps = 2/13. It suits the frozen flow because the Jacobian there is `-S A^T C A` plus bounded terms,
nearly
real and negative; the cost grows like the root of the sharpness. No Jacobian, no linear solver, memory of a few
vectors.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

S_MAX = 200  # stages of one step at most
POWER_STEPS = 3  # nonlinear power iterations per step, the vector carried along


def history(size: int) -> int:
    """How many states are kept along the path: as many as fit in 32 MB, between 128 and 1024."""
    return int(np.clip(4_000_000 // size, 128, 1024))


@functools.cache
def coefficients() -> np.ndarray:
    """Table (S_MAX + 1, S_MAX + 1, 4) of `(mu, nu, mu~, gamma~)` for stage j of s; j = 1 has only `mu~_1`."""
    table = np.zeros((S_MAX + 1, S_MAX + 1, 4))
    for s in range(2, S_MAX + 1):
        w0 = 1 + 2 / 13 / s**2
        j = np.arange(s + 1)
        ac, q = np.arccosh(w0), np.sqrt(w0**2 - 1)
        T, T1 = np.cosh(j * ac), j * np.sinh(j * ac) / q
        T2 = (j**2 * T - w0 * T1) / (w0**2 - 1)
        w1 = T1[s] / T2[s]
        b = np.empty(s + 1)
        b[2:] = T2[2:] / T1[2:] ** 2
        b[:2] = b[2]
        a = 1 - b * T
        table[s, 1, 2] = b[1] * w1
        table[s, 2 : s + 1, 0] = 2 * w0 * b[2:] / b[1:-1]
        table[s, 2 : s + 1, 1] = -b[2:] / b[:-2]
        table[s, 2 : s + 1, 2] = 2 * w1 * b[2:] / b[1:-1]
        table[s, 2 : s + 1, 3] = -a[1:-1] * table[s, 2 : s + 1, 2]
    return table


class State(NamedTuple):
    """The loop's state: point, derivative, step, power vector, the last step's start, counters, history."""

    y: Any
    f: Any
    s: Any  # the clock
    h: Any
    v: Any
    y0: Any
    f0: Any
    h0: Any
    n_steps: Any
    n_rejected: Any
    n_evaluations: Any
    n_kept: Any
    y_kept: Any  # the last state kept
    kept_y: Any
    kept_s: Any


def start(y: np.ndarray, f: np.ndarray) -> State:
    """The state at `y` with the derivative `f` there, NumPy; the types are those that `advance` returns."""
    zero, one = np.zeros((), dtype=np.int64), np.ones((), dtype=np.int64)
    kept = np.zeros((history(y.size) + 1, y.size))  # the last row is scratch
    kept[0] = y
    s = np.zeros(())
    return State(y, f, s, np.asarray(1e-3), f, y, f, s, zero, zero, zero, one, y, kept, np.zeros(len(kept)))


@eqx.filter_jit
def advance(field, state: State, table, tolerance, stop, keep, max_evaluations) -> State:
    """Integrate until `stop(y, f)` is true or `max_evaluations` are spent.

    Besides being called, `field` has `active`, a mask of the components that act back on others, and `passive_rate(f)`,
    the fastest relaxation rate of those that do not. `keep(y, y_kept)` says when to keep a state; `tolerance(y,
    y_new)` is the error allowed in each component.
    """

    def step(y, f0, h, s):
        c = table[s]

        def stage(j, pair):
            g2, g1 = pair
            mu, nu, mt, gt = c[j]
            return g1, (1 - mu - nu) * y + mu * g1 + nu * g2 + h * (mt * field(g1) + gt * f0)

        return jax.lax.fori_loop(2, s + 1, stage, (y, y + h * c[1, 2] * f0))[1]

    def spectral_radius(y, f, v):
        # A passive component (time) acts back on nothing, so its rate is an eigenvalue of its own. Left in the power
        # iteration it would swamp the others: the direction's part of v would drown in rounding.
        active = field.active
        fresh = jnp.where(active, jnp.cos(jnp.arange(v.size) + 1.0), 0.0)

        def power(_, pair):
            v, _ = pair
            df = jnp.where(active, field(y + 1e-7 * v / jnp.linalg.norm(v)) - f, 0.0)
            rho = jnp.linalg.norm(df) / 1e-7
            good = jnp.isfinite(rho) & (rho > 1e-12)
            return jnp.where(good, df, fresh), jnp.where(good, rho, 1.0)

        v = jnp.where(active, v, 0.0)
        v = jnp.where(jnp.linalg.norm(v) > 1e-30, v, fresh)
        v, rho = jax.lax.fori_loop(0, POWER_STEPS, power, (v, jnp.ones(())))
        return v, jnp.maximum(rho, field.passive_rate(f))

    def body(c: State) -> State:
        v, rho = spectral_radius(c.y, c.f, c.v)
        rho = 1.15 * rho + 1e-3
        h = jnp.minimum(c.h, 0.653 * (S_MAX - 1) ** 2 / rho)
        s = jnp.clip(1 + jnp.ceil(jnp.sqrt(1.54 * h * rho + 1)), 2, S_MAX).astype(int)
        y = step(c.y, c.f, h, s)
        f = field(y)
        error = 0.8 * (c.y - y) + 0.4 * h * (c.f + f)
        e = jnp.sqrt(jnp.mean((error / tolerance(c.y, y)) ** 2))
        e = jnp.where(jnp.isfinite(e), e, 1e6)
        accept = e <= 1
        # 1e-12: a field that has come to rest leaves no error, and the next step is five times as long.
        factor = jnp.clip(0.8 * (e + 1e-12) ** (-1 / 3), 0.1, 5.0)
        pick = lambda new, old: jnp.where(accept, new, old)  # noqa: E731 - used on eight pairs, next lines
        y_new, s_new = pick(y, c.y), pick(c.s + h, c.s)
        wanted = accept & keep(y, c.y_kept)
        room = c.kept_s.size - 1
        n_kept = jnp.minimum(c.n_kept + wanted, room)  # when all are taken, the last one is written anew
        slot = jnp.where(wanted, n_kept - 1, room)  # unwanted ones go to the scratch row
        return State(
            y_new,
            pick(f, c.f),
            s_new,
            h * factor,
            v,
            pick(c.y, c.y0),
            pick(c.f, c.f0),
            pick(h, c.h0),
            c.n_steps + 1,
            c.n_rejected + ~accept,
            c.n_evaluations + s + POWER_STEPS,
            n_kept,
            jnp.where(wanted, y_new, c.y_kept),
            # A slice written in place; a scattered write, or a read of the row before, would copy the whole history.
            jax.lax.dynamic_update_slice(c.kept_y, y_new[None], (slot, jnp.zeros_like(slot))),
            jax.lax.dynamic_update_slice(c.kept_s, s_new[None], (slot,)),
        )

    def go_on(c: State):
        return (~stop(c.y, c.f)) & (c.n_evaluations < max_evaluations) & (c.h > 1e-14 * (1 + c.s))

    return jax.lax.while_loop(go_on, body, state)
