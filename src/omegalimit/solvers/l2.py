"""l2 and Frobenius: the point of least norm in the convex hull of the constraints.

With `p` the multipliers of that point, `W = sum_k p_k A_k` is the maximum-margin direction and `|W|` the margin; a
least norm of zero means that the constraints are not separable, whatever the norm, and `p` is the Farkas combination.

Methods and sources: `_least_norm.py`, then `_support.py`.
"""

import numpy as np
import scipy.sparse
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls

from ..limits import MaxMargin
from ._candidate import Candidate, best_intercept
from ._least_norm import BestNorm, GramSpace, RowSpace, interior_point
from ._scaled_program import largest_entries, units
from ._support import polish_support


def least_l2(A, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True) -> tuple[list[Candidate], int]:
    """The best pair for rows `A` (dense or sparse) and the signs `c` of a free intercept, and the number of steps.

    `tol`: the relative gap to reach. `polish`: go on to an exact solve on the active rows. Where nothing is separable
    the multipliers are the Farkas combination.
    """
    with np.errstate(all="ignore"):
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


def least_norm_combination(A, c: Float[np.ndarray, " N"] | None) -> Float[np.ndarray, " N"] | None:
    """`p >= 0` of sum one, balanced, with the least `|sum_k p_k A_k|_2` to rounding: zero if not separable."""
    found, _ = least_l2(A, c, tol=1e-12)
    return found[0].multipliers if found else None


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
    if polish and best.lower > 0:
        n_steps += polish_support(best, active)
    return best, n_steps


def minimum_norm_point(limit: MaxMargin) -> Float[np.ndarray, " N"]:
    """`p >= 0` of sum one with the least `|sum_k p_k A_k|_2` (Frobenius for factors).

    Solves `min |[F; 1^T] p - e_last|` over `p >= 0`, where `F^T F` is the Gram matrix of the constraints: `F` is the
    data when there are fewer coordinates than constraints, else a Cholesky factor, else the root by eigenvectors.
    """
    F, N = _factor(limit), limit.n_constraints
    target = np.zeros(len(F) + 1)
    target[-1] = 1
    try:
        p = nnls(np.vstack([F, np.ones(N)]), target, maxiter=10 * N + 100)[0]
    except RuntimeError:
        p = np.ones(N)
    return p / p.sum() if p.sum() > 0 else np.full(N, 1 / N)


def on_support(
    limit: MaxMargin, p: Float[np.ndarray, " N"], *, max_changes: int = 20
) -> tuple[np.ndarray, np.ndarray] | None:
    """Point and multipliers with equal margins on the support exactly, repairing the support; or `None`.

    The point is refined on its own: taken from the multipliers, its margins would carry the square of the condition.
    """
    K, support = gram(limit), p > 0
    for _ in range(max_changes):
        indices = np.flatnonzero(support)
        solve = _solver(K[np.ix_(indices, indices)])
        x = np.zeros(limit.n_constraints)
        x[indices] = solve(np.ones(len(indices)))
        if not np.isfinite(x).all():
            return None
        if x[indices].min() <= 0:
            support &= x > 0
            if not support.any():
                return None
            continue
        W = limit.combine(x)
        for _ in range(3):
            change = np.zeros_like(x)
            # In the scaled data's units <A_k, W> is 2**-exponent of the margin twice over.
            change[indices] = solve(1 - _scaled(limit, limit.margins(W))[indices])
            W = W + limit.combine(change)
        missing = ~support & (_scaled(limit, limit.margins(W)) < 1 - 1e-12)
        if not missing.any():
            return W, x / x.sum()
        support |= missing
    return None


def _scaled(limit, margins):
    return np.ldexp(margins, -2 * limit.scaled()[1])


def gram(limit: MaxMargin) -> Float[np.ndarray, "N N"]:
    """`<A_k, A_l>` of the scaled data."""
    data, _ = limit.scaled()
    K = data[0] @ data[0].T
    return K if len(data) == 1 else K * (data[1] @ data[1].T)


def _factor(limit):
    data, _ = limit.scaled()
    if len(data) == 1 and data[0].shape[1] <= limit.n_constraints:
        return data[0].T
    K = gram(limit)
    try:
        L = np.linalg.cholesky(K)
        # A factor with pivots at rounding level is noise of size 1e-8 in the least norm.
        if np.diag(L).min() > 1e-6 * np.diag(L).max():
            return L.T
    except np.linalg.LinAlgError:
        pass
    e, V = np.linalg.eigh(K)
    kept = e > len(e) * np.finfo(float).eps * e[-1]
    return np.sqrt(e[kept])[:, None] * V[:, kept].T


def _solver(K):
    """Solver of `K x = r` for a positive semi-definite `K`; least squares when it is singular."""
    try:
        factor = cho_factor(K)
    except np.linalg.LinAlgError:
        return lambda r: np.linalg.lstsq(K, r, rcond=None)[0]
    return lambda r: cho_solve(factor, r)
