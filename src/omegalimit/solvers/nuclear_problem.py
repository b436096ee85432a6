"""Nuclear norm: the problem as its methods see it, every constraint divided by its own size.

    min |W|_*  over  <A_k, W> + c_k b_k beta >= b_k,  |A_k|_F = 1,        max b.lam  over  |sum_k lam_k A_k|_2 <= 1

with `b_k` the reciprocal of the size, at most 1, `beta` the free intercept and `sum_k c_k b_k lam_k = 0` where there is
one. It is the same problem, better conditioned. Any `W` and any `lam >= 0` bound the margin from below and above.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from ..limits.constraints import Factors, Matrices
from ._candidate import balanced, best_intercept


@dataclasses.dataclass(frozen=True)
class Pair:
    """Best primal-dual pair of an iteration: `W`, `lam`, its `gap = (upper - lower) / upper`, and the steps taken."""

    W: np.ndarray
    lam: np.ndarray
    gap: float
    n_iterations: int


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """`constraints` of size one, `b`, and the signs `c` of the intercept's column or `None`."""

    constraints: Factors | Matrices
    b: Float[np.ndarray, " N"]
    c: Float[np.ndarray, " N"] | None = None

    @property
    def column(self) -> Float[np.ndarray, " N"] | None:
        """The intercept's column `c_k b_k`."""
        return None if self.c is None else self.c * self.b

    def take(self, kept) -> "Problem":
        """The constraints with these indices."""
        return Problem(self.constraints.take(kept), self.b[kept], None if self.c is None else self.c[kept])

    def margins(self, W) -> Float[np.ndarray, " N"]:
        """`<A_k, W> / b_k + c_k beta` with the best intercept."""
        scores = self.constraints.margins(W) / self.b
        return scores if self.c is None else scores + best_intercept(scores, self.c) * self.c

    def lower(self, W) -> float:
        """The least margin of `W / |W|_*`; minus infinity where there is none."""
        size = np.linalg.svd(W, compute_uv=False).sum() if np.isfinite(W).all() else 0.0
        lower = self.margins(W).min() / size if size > 0 else -np.inf
        return float(lower) if np.isfinite(lower) else -np.inf

    def weights(self, lam) -> Float[np.ndarray, " N"]:
        """The weights `p` of the undivided constraints: not negative, of sum one, balanced over the intercept."""
        p = balanced(self.b * lam, self.c)
        return p if np.isfinite(p).all() else np.zeros_like(p)

    def upper(self, lam) -> float:
        """`|sum_k p_k A_k / b_k|_2`; infinite where there are no weights."""
        p = self.weights(lam)
        return float(np.linalg.norm(self.constraints.combine(p / self.b), 2)) if p.any() else np.inf

    def gap(self, W, lam) -> float:
        """`(upper - lower) / upper`; infinite unless both bounds are positive and finite."""
        lower, upper = self.lower(W), self.upper(lam)
        return (upper - lower) / upper if lower > 0 and 0 < upper < np.inf else np.inf


def largest_step(x: Float[np.ndarray, " n"], dx: Float[np.ndarray, " n"]) -> float:
    """Largest step at most 1.1 with `x + step dx >= 0`."""
    falling = dx < 0
    return min(1.1, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.1
