"""Exact solves on the active rows of a least-norm problem, with repairs of the set of active rows.

On the rows `I` that bind, `<A_k, w> + c_k b = h_k`, and `w = sum_I p_k A_k` has the least norm of all such points. The
intercept is eliminated first with the row of largest `h`, so that no multiple of it exceeds one. Then either `p` comes
from the inner products of the rows and `w` from `p`, refined by its own margins; or, as inner products square the
condition, `w = Q R^-T h` and `R p = Q^T w` with the QR factorisation `A_I^T = Q R`, which takes several times as long.

Source: null-space and QR methods for least-norm problems (Bjorck 1996). Derived here: the repairs.
"""

import numpy as np
import scipy.sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr, solve_triangular
from scipy.optimize import nnls

from ._candidate import balanced, best_intercept
from ._least_norm import BestNorm, RowSpace

_MOST_REPAIRS = 40
# Solves after which rows are added one at a time, which cannot cycle.
_BY_MANY = 6
# A gap at which nothing is left to repair.
_SHARP = 1e-13
# Margins and multipliers short by no more than this are rounding.
_SLIGHT = 1e-12
# More entries than this are not made dense, nor factored.
_MOST_DENSE = 30_000_000


def polish_support(best: BestNorm, sets: list[np.ndarray]) -> int:
    """Offers `best` the exact solutions on sets of rows, by inner products and then by QR; the number of solves."""
    n_solves = 0
    if best.w is not None and best.p is not None:
        scores = best.space.margins(best.w) / best.h
        scores = scores if best.c is None else scores + best.c * best_intercept(scores, best.c)
        # The rows whose multiplier, as a part of one, exceeds the slack, as a part of the margin.
        sets = [*sets, best.p > scores / scores.min() - 1]
    sets = [active for i, active in enumerate(sets) if not any(np.array_equal(active, before) for before in sets[:i])]
    for orthogonal in (False, True) if isinstance(best.space, RowSpace) else (False,):
        for active in sets:
            if best.gap > _SHARP:
                n_solves += _repair(best, active, orthogonal)
    return n_solves


def _repair(best, active, orthogonal):
    """Offers `best` the exact solutions on sets of rows, starting from those `active`; the number of solves.

    As in the active-set method of Lawson and Hanson, from the multipliers known: towards the solution on the set until
    the first multiplier vanishes, whose row is dropped; when none does, rows with less than the margin are added.
    """
    space, h, c = best.space, best.h, best.c
    if best.p is None:
        return 0
    # Inner products only make the easy cases cheap.
    n_most = _BY_MANY if isinstance(space, RowSpace) and not orthogonal else _MOST_REPAIRS
    active, seen = active.copy(), set()
    x = balanced(np.where(active, best.p, 0.0), c) / h
    for n_solves in range(n_most):
        rows = np.flatnonzero(active)
        # A set that comes back has been changed for no reason but rounding, and would be again.
        if best.gap <= _SHARP or (key := rows.tobytes()) in seen:
            return n_solves
        seen.add(key)
        solved = _equal_margins(space, rows, h, c, orthogonal)
        if solved is None:
            return n_solves
        w, at_rows = solved
        p = np.zeros(len(h))
        p[rows] = at_rows / float(h[rows] @ at_rows)
        improved = best.offer(w, p * h)
        ahead = active & (p < 0) & (p < -_SLIGHT * np.abs(p).max())
        if ahead.any():
            if orthogonal and improved:
                # The point may be right, and its multipliers not unique.
                p[rows] = _nonnegative(_dense(space.A[rows]), None if c is None else c[rows] * h[rows], w)
                best.offer(w, p * h)
            parts = x[ahead] / (x[ahead] - p[ahead])
            first = parts.min()
            x = np.maximum(x + first * (p - x), 0.0)
            active[np.flatnonzero(ahead)[parts <= first]] = False
            x[~active] = 0.0
            continue
        x = np.maximum(p, 0.0)
        scores = space.margins(w) / h
        if c is not None:
            scores = scores + c * float(np.mean((1 - scores[rows]) * c[rows]))
        slight = _SLIGHT + 1e-15 * space.sizes / h * space.norm(w)
        missing = ~active & (scores < 1 - slight)
        if not missing.any():
            return n_solves + 1
        active |= missing if n_solves < _BY_MANY else missing & (scores <= scores[missing].min())
    return n_most


def _equal_margins(space, rows, h, c, orthogonal):
    """The point of least norm with equal margins on the rows, and its multipliers there, of any sign; or `None`."""
    if len(rows) == 0:
        return None
    right, multiples, pivot = h[rows], None, 0
    if c is not None:
        pivot = int(np.argmax(right))
        multiples = np.delete(c[rows] * right, pivot) / (c[rows[pivot]] * right[pivot])
        right = np.delete(right, pivot) - multiples * right[pivot]
    if not right.any():
        return None

    def eliminated(values):
        if multiples is None:
            return values
        rest = np.delete(values, pivot, axis=0)
        return (
            rest - np.multiply.outer(multiples, values[pivot]) if values.ndim > 1 else rest - multiples * values[pivot]
        )

    def restored(x):
        return x if multiples is None else np.insert(x, pivot, -float(multiples @ x))

    if orthogonal and len(rows) * space.A.shape[1] <= _MOST_DENSE:
        found = _by_orthogonal(eliminated(_dense(space.A[rows])), right)
        return found and (found[0], restored(found[1]))
    K = _inner_products(space, rows)
    solve = _gram_solver(eliminated(eliminated(K).T))
    x = restored(solve(right))

    def lifted(x):
        full = np.zeros(len(h))
        full[rows] = x
        return space.lift(full)

    w = lifted(x)
    for _ in range(3):
        w = w + lifted(restored(solve(right - eliminated(space.margins(w)[rows]))))
    return (w, x) if np.isfinite(w).all() and np.isfinite(x).all() else None


def _by_orthogonal(rows, right):
    """The least-norm solution of `rows w = right`, and `x` with `rows^T x = w`; dependent rows get no multiplier."""
    # Large coordinates first: a Householder factorisation then keeps the digits of the small ones.
    order = np.argsort(-np.abs(rows).max(axis=0), kind="stable")
    factors = qr(rows.T[order], mode="economic", pivoting=True, check_finite=False)
    Q, R, kept = (np.asarray(factor) for factor in factors)
    diagonal = np.abs(R.diagonal())
    rank = int((diagonal > len(rows) * np.finfo(float).eps * diagonal[0]).sum())
    Q, R, kept = Q[:, :rank], R[:rank, :rank], kept[:rank]
    chosen = rows[kept]
    w, x = np.zeros(rows.shape[1]), np.zeros(len(rows))
    for _ in range(3):
        w[order] += Q @ solve_triangular(R, right[kept] - chosen @ w, trans=1, check_finite=False)
    for _ in range(2):
        x[kept] += solve_triangular(R, Q.T @ (w - chosen.T @ x[kept])[order], check_finite=False)
    return (w, x) if np.isfinite(w).all() and np.isfinite(x).all() else None


def _inner_products(space, rows):
    if isinstance(space, RowSpace):
        A = space.A[rows]
        return _dense(A @ A.T)
    return space.K[np.ix_(rows, rows)]


def _gram_solver(K):
    """Solver of `K x = r` for a positive semi-definite `K`; least squares when it is singular."""
    unit = 1 / np.sqrt(np.maximum(K.diagonal(), np.finfo(float).tiny))
    K = K * unit * unit[:, None]
    try:
        factor = cho_factor(K)
    except LinAlgError:
        return lambda r: unit * np.linalg.lstsq(K, unit * r, rcond=None)[0]
    return lambda r: unit * cho_solve(factor, unit * r)


def _nonnegative(rows, signs, w):
    """`x >= 0` with `rows^T x` near `w`, and `signs.x` near 0."""
    matrix = rows.T if signs is None else np.vstack([rows.T, signs])
    try:
        return nnls(matrix, w if signs is None else np.append(w, 0.0), maxiter=10 * len(rows) + 100)[0]
    except RuntimeError:
        return np.zeros(len(rows))


def _dense(A):
    return A.toarray() if scipy.sparse.issparse(A) else A
