"""What a direction says of itself at a sharpness: weights, complementarity, stationarity, entropy bound."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._numerics import double_precision
from ..problem import AbstractProblem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrival:
    """A direction `omega` at the sharpness `S`, and the numbers that say whether it is a limit; nothing here is
    polished.

    - `direction`: omega, shape (N,); `log_sharpness`: log S; `log_time`: log of the physical time, NaN when unknown.
    - `selection`: winning tokens, shape (n,), empty for problems without a choice.
    - `margins`: the constraints `m_k(omega)`, shape (K,), of the outputs divided by the problem's unit.
    - `multipliers`: the flow's own weights p, shape (K,), negative ones clipped, of sum one; `negative_mass`: the share
      of the absolute sum that was clipped (outputs that are better than the selected ones).
    - `growth`: `a = omega . g`, the growth rate of log r in the direction clock, for g with the signed weights.
    - `stationarity`: `|g - a omega| / |a|`.
    - `offset`: `sum p b - b_j` with `p_k ~ e^{b_k - S m_k}`, j the least margin.
    - `log_loss_gap`: log(L - inf L); `log_normaliser`: M, with `-grad L = unit r^(D-1) e^M g`.
    - `gap`: what the handed-in test gave; NaN without one.
    """

    direction: Float[np.ndarray, " N"]
    log_sharpness: float
    log_time: float
    selection: Int[np.ndarray, " n"]
    margins: Float[np.ndarray, " K"]
    multipliers: Float[np.ndarray, " K"]
    negative_mass: float
    growth: float
    stationarity: float
    offset: float
    log_loss_gap: float
    log_normaliser: float
    gap: float = math.nan

    @property
    def mean_margin(self) -> float:
        """`sum_k p_k m_k`, which is a / D where no weight is negative."""
        return float(self.multipliers @ self.margins)

    @property
    def least_margin(self) -> float:
        """`min_k m_k`."""
        return float(self.margins.min())

    @property
    def complementarity(self) -> float:
        """`C = (sum p m - min m) / sum p m`; `inf` where the mean margin is not positive."""
        return (self.mean_margin - self.least_margin) / self.mean_margin if self.mean_margin > 0 else math.inf

    @property
    def entropy_bound(self) -> float:
        """`B(S) = (log K + offset) / (S sum p m)`: what C, and at a limit the gap, cannot exceed.

        For a stationary point of the frozen flow whose weights are dual optimal the relative gap is C, and
        `S (sum p m - m_j) = H(p) + sum p b - b_j + log p_j <= log K + sum p b - b_j`. Derived here.
        """
        K = self.margins.size
        if not self.mean_margin > 0:
            return math.inf
        return (math.log(K) + self.offset) / (math.exp(min(self.log_sharpness, 700.0)) * self.mean_margin)

    @property
    def arithmetic_horizon(self) -> float:
        """`S_eps = 1 / (eps max |m|)`: beyond it rounding of the margins makes the weights random."""
        return 1 / (np.finfo(float).eps * max(float(np.abs(self.margins).max()), 1e-300))


@eqx.filter_jit
def _evaluate(problem: AbstractProblem, omega, log_S, selection, own):
    h, vjp = jax.vjp(problem.outputs, omega)
    q, M = problem.weights(h, log_S)
    g = vjp(q)[0]
    a = omega @ g
    selection = jnp.where(own, problem.selection(h), selection)
    sign, log_abs = problem.log_weights(h, log_S, selection)
    return (
        selection,
        problem.constraints(h, selection),
        sign,
        log_abs,
        a,
        jnp.linalg.norm(g - a * omega),
        problem.log_loss_gap(h, log_S),
        M,
    )


def measure(
    problem: AbstractProblem,
    direction: Float[np.ndarray, " N"],
    log_sharpness: float,
    *,
    selection: Int[np.ndarray, " n"] | None = None,
    log_time: float = math.nan,
) -> Arrival:
    """The `Arrival` at a direction of any length and `log S`, for the winning tokens or a `selection` given."""
    omega = np.asarray(direction, dtype=float)
    omega = omega / np.linalg.norm(omega)
    with double_precision():
        own = selection is None
        given = (
            np.zeros(problem.n_choices, dtype=np.int64) if selection is None else np.asarray(selection, dtype=np.int64)
        )
        chosen, m, sign, log_abs, a, residual, log_gap, M = map(
            np.asarray, _evaluate(problem, omega, np.asarray(float(log_sharpness)), given, np.asarray(own))
        )
    finite = log_abs > -np.inf
    shift = log_abs[finite].max() if finite.any() else 0.0
    signed = sign * np.exp(np.where(finite, log_abs - shift, -np.inf))
    p = np.maximum(signed, 0.0)
    total, mass = p.sum(), np.abs(signed).sum()
    S = math.exp(min(log_sharpness, 700.0))
    if total > 0:
        p = p / total
        used = (p > 0) & finite
        b = log_abs[used] + S * m[used]
        offset = float(p[used] @ b - b[np.argmin(m[used])])
    else:
        p, offset = np.full(m.size, 1 / m.size), math.inf
    return Arrival(
        direction=omega,
        log_sharpness=float(log_sharpness),
        log_time=log_time,
        selection=chosen,
        margins=m,
        multipliers=p,
        negative_mass=float(1 - total / mass) if mass > 0 else 0.0,
        growth=float(a),
        stationarity=float(residual / abs(a)) if a != 0 else math.inf,
        offset=offset,
        log_loss_gap=float(log_gap),
        log_normaliser=float(M),
    )
