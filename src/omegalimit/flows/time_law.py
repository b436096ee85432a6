"""How far from its limit a training time leaves the direction: the 1/log t law with its constant."""

import math

import numpy as np
from jaxtyping import Float, Int

from ..problem import AbstractProblem


def time_constant(
    problem: AbstractProblem,
    selection: Int[np.ndarray, " n"],
    multipliers: Float[np.ndarray, " K"],
    *,
    tight: float = 1e-9,
) -> float:
    """`c` in *relative gap = c / log t + o(1 / log t)*: `H(alpha) + sum alpha b - min_k (b_k - log alpha_k)`.

    alpha are the limit's multipliers (sum one, those below `tight` dropped), H their entropy, and b the constants
    of the weights `p_k ~ e^{b_k - S m_k}` (0 for a plain margin loss; for attention `log(gamma_sel - gamma_l) -
    gamma_sel` with the exponential loss). At the limit `S (m_k - m_j) = (b_k - log alpha_k) - (b_j - log alpha_j)`,
    and `S sum p m = log t` to leading order. It needs non-negative weights and strict complementarity. Derived
    here.

    It is the law of the complementarity. It is the law of the whole gap where what is inactive fades faster than 1
    / log t: for a model linear in its parameters. Where two factors are trained apart, an inactive singular value
    of W whose value in the dual's normalised matrix is sigma_i < 1 fades like `(log t)^-(1 - sigma_i)` only, and
    the gap lies above the law for longer the nearer sigma_i is to 1. The exponent of the gap itself there was not
    derived.

    NaN when a token better than the selected one carries a multiplier.
    """
    alpha = np.asarray(multipliers, dtype=float)
    alpha = alpha / alpha.sum()
    used = alpha > tight
    alpha, b = alpha[used] / alpha[used].sum(), problem.limit_offsets(selection)[used]
    level = b - np.log(alpha)
    return float(alpha @ level - level.min())


def predicted_gap(
    problem: AbstractProblem, selection: Int[np.ndarray, " n"], multipliers: Float[np.ndarray, " K"], *, log_time: float
) -> float:
    """The relative gap that the law predicts at a natural log of physical time. Raises `ValueError` below 1."""
    if not (math.isfinite(log_time) and log_time > 1):
        raise ValueError(f"`log_time` must be finite and above 1 for a law in 1 / log t; got {log_time!r}.")
    return time_constant(problem, selection, multipliers) / log_time
