"""Both bounds of a pair, with an estimate of their rounding, in double or in extended precision."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from . import _wide
from .constraints import AbstractConstraints
from .norms import AbstractNorm

EPS = float(np.finfo(float).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Bounds:
    """What a point `W` with an intercept and normalised multipliers prove, in the scaled data's units.

    `margins` are those of the point of norm one, `size` is `|W|`, `G` the combination of dual norm `upper`.
    """

    margins: Float[np.ndarray, " N"]
    size: float
    intercept: float
    G: Float[np.ndarray, "..."]
    lower: float
    upper: float
    average: float
    slack: float


class Scale:
    """The constraints, their norm, the signs of a free intercept, and what rounding does to products with them."""

    def __init__(self, norm: AbstractNorm, constraints: AbstractConstraints, signs: Float[np.ndarray, " N"] | None):
        self.norm, self.constraints, self.signs = norm, constraints, signs
        self.error_sizes = constraints.error_sizes(norm)
        self.n_terms = max(*constraints.shape, constraints.n_constraints)

    def normalised(self, p: np.ndarray) -> Any:
        """`p` clipped, of sum one, half of it on each label with a free intercept; `None` where there is no mass."""
        p = np.maximum(p, 0)
        if self.signs is None:
            return p / p.sum() if p.sum() > 0 else None
        up, down = p[self.signs > 0].sum(), p[self.signs < 0].sum()
        return np.where(self.signs > 0, p / up, p / down) / 2 if up > 0 and down > 0 else None

    def scores(self, W: np.ndarray, b: float | None, *, wide: bool) -> tuple[np.ndarray, float]:
        """`<A_k, W> + y_k b`, and `b`: with a free intercept `None` is the best one."""
        scores = _wide.margins(self.constraints, W) if wide else self.constraints.margins(W)
        if self.signs is None:
            return scores, 0.0
        if b is None:
            b = float((scores[self.signs < 0].min() - scores[self.signs > 0].min()) / 2)
        return scores + self.signs * b, b

    def bounds(self, W: np.ndarray, b: float | None, p: Float[np.ndarray, " N"], *, wide: bool) -> Bounds:
        """The bounds of `W`, `b` and the normalised `p`.

        The rounding error is of first order and statistical: a sum of `n` products errs by about `sqrt(n)` units of the
        last place of the bound `|A_k|_dual |W|` on it (Euclidean: `|A_k|_2 |W|_2`), where the arithmetic is that of
        the sums, and norms by as many units of themselves in double precision.
        """
        size, (scores, b) = self.norm.of(W), self.scores(W, b, wide=wide)
        margins = scores / size
        lower = margins.min()
        # The multipliers are normalised in the arithmetic of the sums: what is left of their balance is an error.
        weights = self.normalised(p.astype(np.longdouble)) if wide else p
        G = _wide.combine(self.constraints, weights) if wide else self.constraints.combine(weights)
        G = G.astype(float)
        upper, average = self.norm.dual(G), float(weights @ margins)

        spread = 2 + math.sqrt(self.n_terms)
        unit, of_sums = EPS * spread, (_wide.EPS if wide else EPS) * spread
        euclidean = self.constraints.euclidean_sizes * (np.linalg.norm(W) / size)
        errors = of_sums * (np.minimum(self.error_sizes, euclidean) + abs(b) / size)
        above, below = (margins + errors).min() - lower, lower - (margins - errors).min()
        slack = max(float(above), float(below)) + unit * abs(float(lower))
        slack = max(slack, of_sums * float(self.error_sizes @ p) + unit * upper)
        return Bounds(
            margins=margins.astype(float),
            size=size,
            intercept=b,
            G=G,
            lower=float(lower),
            upper=upper,
            average=average,
            slack=slack,
        )
