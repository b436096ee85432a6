"""What a method hands back, to be judged by the limit's own certificate."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Candidate(NamedTuple):
    """A point, multipliers `p >= 0` of any scale, and the intercept (0 where the problem has none)."""

    point: Float[np.ndarray, "..."]
    multipliers: Float[np.ndarray, " N"]
    intercept: float = 0.0


def balanced(p: Float[np.ndarray, " N"], c: Float[np.ndarray, " N"] | None) -> Float[np.ndarray, " N"]:
    """`p` clipped to be non-negative, of sum one; with a free intercept `sum_k c_k p_k = 0`, half of it on each side.

    `c`: the signs `+-1` of the intercept's column, or `None`. Zero when a side that needs mass has none.
    """
    p = np.maximum(p, 0.0)
    if c is None:
        total = p.sum()
        return p / total if total > 0 else p
    up, down = p[c > 0].sum(), p[c < 0].sum()
    if not (up > 0 and down > 0):
        return np.zeros_like(p)
    return np.where(c > 0, p / up, p / down) / 2


def best_intercept(scores: Float[np.ndarray, " N"], c: Float[np.ndarray, " N"] | None) -> float:
    """The `b` with the largest `min_k scores_k + c_k b`; 0 without an intercept."""
    if c is None:
        return 0.0
    return float(scores[c < 0].min() - scores[c > 0].min()) / 2
