"""Nuclear norm, `|W|_*`: from the constraints to certified candidates.

Matrices of rank one become factors, each constraint is divided by its own size, coordinates outside the row and column
spans go, and of near-duplicates one stays. Then the interior point (`nuclear_path`) comes within `tol` of the optimum,
and Newton's method in its low-rank coordinates (`nuclear_polish`) as close as rounding lets it. Bounds are taken over
all constraints, near-duplicates included.
"""

import math

import numpy as np
from jaxtyping import Float

from ..limits.constraints import Factors, Matrices
from ._candidate import Candidate, best_intercept
from ._reduce import as_factors, in_spans, near_duplicates, of_size_one
from .nuclear_path import central_path
from .nuclear_polish import newton
from .nuclear_problem import Pair, Problem

_GOAL = 1e-14


def least_nuclear(
    constraints: Factors | Matrices, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """`min |W|_*` over `<A_k, W> + c_k beta >= 1`: candidates, the best first, and the number of steps taken.

    `c`: the signs of a free intercept's column, or `None`. `tol`: the relative gap at which the interior point stops;
    `polish`: follow with Newton's method.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        constraints = as_factors(constraints)
        unit, sizes = of_size_one(constraints)
        if not (sizes.min() > 0 and np.isfinite(sizes).all()):
            return [], 0
        unit, back = in_spans(unit)
        every = Problem(unit, sizes.min() / sizes, c)
        kept, member_of = near_duplicates(unit, every.b, c)
        few = every if len(kept) == len(sizes) else every.take(kept)
        pair = central_path(few, tol=tol)
        found = [(pair.W, _spread(pair.lam, kept, len(sizes)))]
        if polish:
            pair = newton(few, pair)
            found.append((pair.W, _spread(pair.lam, kept, len(sizes))))
            if every is not few and every.gap(*found[-1]) > _GOAL:
                # Of two near-duplicates the one that binds is not always the one that was kept.
                lam = (pair.lam / np.bincount(member_of))[member_of]
                pair = newton(every, Pair(pair.W, lam, math.inf, pair.n_iterations))
                found.append((pair.W, pair.lam))
        # Multipliers that combine to zero leave no point: any will do beside them.
        some = unit.combine(np.eye(1, len(sizes))[0])
        W = max((W if np.any(W) else some for W, _ in found), key=every.lower)
        lam = min((lam for _, lam in found), key=every.upper)
        point = back(W)
        if not (np.isfinite(point).all() and every.weights(lam).any()):
            return [], pair.n_iterations
        return [Candidate(point, every.weights(lam), best_intercept(constraints.margins(point), c))], pair.n_iterations


def _spread(lam, kept, n):
    whole = np.zeros(n)
    whole[kept] = lam
    return whole
