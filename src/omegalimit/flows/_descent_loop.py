"""Gradient steps on a linear margin loss as one compiled loop: a microsecond each on forty rows of ten columns.

A step is `w <- w + eta sum_i exp(log c_i + log(-l'(z_i'w))) z_i`, 4nd operations and three exponentials or logarithms a
row. The weights are kept as two doubles, so that what a step is too small to change is carried on to the next.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._numerics import double_precision
from ..losses import AbstractLoss
from ._margin_rows import MarginRows

_BUFFER = 2**15
"""Steps whose angles come back at a time."""
_NOISE = 8 * float(np.finfo(float).eps)
"""The rounding of a pull, over the sum of the rows' own: below it a pull that points back says nothing."""


@dataclasses.dataclass(kw_only=True)
class DescentState:
    """Where a run stands after `k` steps: the weights `w + low`, the pull g and its rounding, what happened so far.

    - `n_overshoots`, `last_overshoot`: steps after which the pull pointed back, the only ones in which a convex loss
      can have risen.
    - `is_finite`, `is_moving`: whether the last step tried was; the loop ends where not.
    """

    w: Any
    low: Any
    g: Any
    noise: Any
    k: Any
    n_overshoots: Any
    last_overshoot: Any
    is_finite: Any
    is_moving: Any


jax.tree_util.register_dataclass(
    DescentState, [field.name for field in dataclasses.fields(DescentState)], meta_fields=[]
)


class DescentLoop:
    """Steps of size `eta` from `w`, both in the units of the rows."""

    def __init__(self, rows: MarginRows, w: Float[np.ndarray, " d"], *, eta: float) -> None:
        self._arguments = (rows.Z, rows.log_c, np.float64(eta))
        self._advance, self._watch, begin = _compiled(rows.loss)
        with double_precision():
            self.first = begin(*self._arguments, w)

    def advance(self, state: DescentState, until: int) -> DescentState:
        """Steps until `until` have been made, or one that is not finite, or does not move."""
        with double_precision():
            return jax.block_until_ready(self._advance(*self._arguments, state, until))

    def watch(
        self, state: DescentState, until: int, u: Float[np.ndarray, " d"]
    ) -> tuple[DescentState, Int[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """The same for at most 2^15 steps; the numbers of the steps made and the angle to `u` after each of them."""
        before = int(state.k)
        with double_precision():
            state, found = self._watch(*self._arguments, state, min(until, before + _BUFFER), u)
            steps = np.arange(before + 1, int(state.k) + 1)
            return state, steps, np.asarray(found)[: steps.size]


@functools.lru_cache(maxsize=16)
def _compiled(loss: AbstractLoss) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    def pull(Z, log_c, w):
        p = jnp.exp(log_c + loss.log_slope(Z @ w))
        return p @ Z, _NOISE * p.sum()

    def begin(Z, log_c, eta, w):
        del eta
        (g, noise), zero = pull(Z, log_c, w), jnp.asarray(0)
        return DescentState(
            w=w, low=jnp.zeros_like(w), g=g, noise=noise, k=zero, n_overshoots=zero, last_overshoot=zero,
            is_finite=jnp.isfinite(g).all(), is_moving=jnp.asarray(True),
        )  # fmt: skip

    def step(Z, log_c, eta, s):
        change = eta * s.g + s.low
        w = s.w + change
        # What the sum left out (Knuth's two-sum: nothing is assumed of the sizes).
        back = w - s.w
        low = (s.w - (w - back)) + (change - back)
        g, noise = pull(Z, log_c, w)
        moving = jnp.any((w != s.w) | (low != s.low))
        finite = jnp.isfinite(g).all() & jnp.isfinite(w).all()
        made, over = moving & finite, jnp.sum(g * s.g) < -noise * s.noise
        k = s.k + made
        return DescentState(
            w=jnp.where(made, w, s.w), low=jnp.where(made, low, s.low), g=jnp.where(made, g, s.g), noise=noise, k=k,
            n_overshoots=s.n_overshoots + (made & over), last_overshoot=jnp.where(made & over, k, s.last_overshoot),
            is_finite=finite, is_moving=moving | ~finite,
        )  # fmt: skip

    def on(state, until):
        return (state.k < until) & state.is_finite & state.is_moving

    def advance(Z, log_c, eta, state, until):
        return jax.lax.while_loop(lambda s: on(s, until), lambda s: step(Z, log_c, eta, s), state)

    def watch(Z, log_c, eta, state, until, u):
        first = state.k

        def body(carry):
            s, found = carry
            s = step(Z, log_c, eta, s)
            # Squares overflow long before the weights do. At the origin there is no angle, and none is reached.
            largest = jnp.abs(s.w).max()
            w = s.w / jnp.where(largest > 0, largest, 1.0)
            along = w @ u
            across = w - along * u
            angle = jnp.where(largest > 0, jnp.arctan2(jnp.sqrt(across @ across), along), jnp.inf)
            return s, found.at[s.k - first - 1].set(angle)

        return jax.lax.while_loop(lambda c: on(c[0], until), body, (state, jnp.full(_BUFFER, jnp.nan)))

    return jax.jit(advance), jax.jit(watch), jax.jit(begin)
