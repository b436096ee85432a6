"""l2 and Frobenius: the point of least norm in the convex hull of the constraints.

With `p` the multipliers of that point, `W = sum_k p_k A_k` is the maximum-margin direction and `|W|` the margin; a
least norm of zero means that the constraints are not separable, whatever the norm, and `p` is the Farkas combination.

Methods and sources: `_least_norm.py`, then `_support.py`.
"""

import numpy as np
import scipy.sparse
from jaxtyping import Float

from ..limits.constraints import Rows
from ._candidate import Candidate, best_intercept
from ._farkas import opposite
from ._least_norm import BestNorm, GramSpace, RowSpace, interior_point
from ._scaled_program import largest_entries, units
from ._support import polish_support


def least_l2(A, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True) -> tuple[list[Candidate], int]:
    """The best pair for rows `A` (dense or sparse) and the signs `c` of a free intercept, and the number of steps.

    `tol`: the relative gap to reach. `polish`: go on to an exact solve on the active rows. Where nothing is separable
    the multipliers are the Farkas combination.
    """
    with np.errstate(all="ignore"):
        p = opposite(Rows(A), c)
        if p is not None:
            return [Candidate(A.T @ np.eye(1, len(p))[0], p)], 0
        h = units(largest_entries(A, 1), c)
        space = RowSpace(A.multiply(h[:, None]).tocsr() if scipy.sparse.issparse(A) else A * h[:, None])
        best, n_steps = _solved(space, h, c, tol, polish)
        return _candidates(best, lambda w: A @ w, c), n_steps


def least_l2_gram(
    K: Float[np.ndarray, "N N"], c: Float[np.ndarray, " N"] | None, *, combine, margins, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """The same from inner products `K_kl = <A_k, A_l>`, for constraints that are no vectors.

    `combine(x)` is the point `sum_k x_k A_k`, an array of any shape; `margins(W)` is `<A_k, W>`, in the units of `K`.
    For more constraints than a point has entries, rows are better: `K` is singular then, and holds half the digits.
    """
    with np.errstate(all="ignore"):
        h = units(np.sqrt(K.diagonal()), c)
        space = GramSpace(K * h * h[:, None], lambda x: combine(x * h), lambda W: margins(W) * h)
        best, n_steps = _solved(space, h, c, tol, polish)
        return _candidates(best, margins, c), n_steps


def _candidates(best, margins, c):
    if best.p is None:
        return []
    # Where the combination is zero to the last digit there is no point yet, and none has a positive margin.
    w = best.space.lift(np.eye(1, len(best.h))[0]) if best.w is None else best.w
    w = w * units(np.abs(w).max())
    return [Candidate(w, best.p, best_intercept(margins(w), c))]


def _solved(space, h, c, tol, polish):
    best = BestNorm(space, h, c)
    n_steps, active = interior_point(best, tol=tol)
    # Where the combination is zero, a positive margin is rounding, and no set of rows improves on it.
    if polish and best.lower > 0 and not best.negligible:
        n_steps += polish_support(best, active)
    return best, n_steps
