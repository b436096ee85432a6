"""Vertices of the l1 and l-infinity programs: one solve on an active set, and the simplex method of HiGHS.

With the active rows `I` and the free unknowns `x` (l1: the entries `w_j != 0`; l-infinity: the entries inside the box,
and the size `t` of all the others, `w_j = +-t f_j`; and the intercept), the point and its multipliers solve

    M x = h_I,   M^T p = q,

for one matrix `M` and `q` zero but for the entries that carry the norm. At a nondegenerate vertex `M` is square; on a
face of optima the least change of the point given, in units of its own entries, is taken.

Source: linear programming; the simplex method of HiGHS (Huangfu and Hall 2018) through SciPy.
"""

import numpy as np
import scipy.sparse
from scipy.linalg import get_lapack_funcs, lstsq
from scipy.optimize import linprog

from ._candidate import best_intercept
from ._scaled_program import Best, Scaled

_getrf, _getrs = get_lapack_funcs(("getrf", "getrs"), dtype=float)
# The smallest that HiGHS takes.
_TOLERANCE = 1e-10
# A gap at which nothing is left to polish.
_SHARP = 1e-14


def polish_vertex(program: Scaled, best: Best):
    """Offers `best` the solutions on the active sets that it suggests itself, as long as that helps."""
    for _ in range(3):
        improved = False
        for active in _read_off(program, best):
            if best.gap > _SHARP:
                improved |= offer_vertex(program, best, active)
        if not improved:
            return


def _read_off(program, best):
    """Sets of rows and free coordinates: of each pair the larger side counts, then as many of one as of the other."""
    if best.w is None or best.p is None or best.lower <= 0:
        return
    A, c, h, f, box = program
    w = best.w / program.norm(best.w)
    scores = A @ w / (h * best.lower)
    slack = (scores if c is None else scores + c * best_intercept(scores, c)) - 1
    size, weight = np.abs(w), np.abs(A.T @ (best.p / (best.upper * h)))
    size, weight = (size / f, weight * f) if box else (size * f, weight / f)
    tiny = np.finfo(float).tiny
    by_row = best.p / np.maximum(slack, tiny)
    by_column = (1 - size) / np.maximum(weight, tiny) if box else size / np.maximum(1 - weight, tiny)
    rows, free = by_row > 1, by_column > 1
    n_more = int(box) + int(c is not None)
    yield rows, free
    if rows.sum() != free.sum() + n_more:
        yield rows, _largest(by_column, rows.sum() - n_more)
        yield _largest(by_row, free.sum() + n_more), free


def _largest(values, n):
    chosen = np.zeros(len(values), dtype=bool)
    chosen[np.argsort(-values, kind="stable")[: max(n, 0)]] = True
    return chosen


def offer_vertex(program: Scaled, best: Best, active: tuple[np.ndarray, np.ndarray]) -> bool:
    """Offers `best` the solution on an active set; true when it was better.

    `active`: which rows have multipliers, and which coordinates are not zero (l1) or inside the box (l-infinity).
    """
    rows, free = (np.flatnonzero(mask) for mask in active)
    A, c, h, f, box = program
    if best.w is None or best.p is None or best.lower <= 0 or not (len(rows) and len(free) + box):
        return False
    w = best.w / (program.norm(best.w) * best.lower)
    lam = best.p / (best.upper * h)
    a = A.T @ lam
    b = best_intercept(A @ w / h, c)
    A_I = A[rows]
    M = _dense(A_I[:, free])
    x, q = w[free], np.zeros(len(free)) if box else f[free] * np.sign(a[free])
    if box:
        bound = np.setdiff1d(np.arange(len(w)), free)
        M = np.column_stack([M, A_I[:, bound] @ (f[bound] * np.sign(a[bound]))])
        x, q = np.append(x, 1 / best.lower), np.append(q, 1.0)
    if c is not None:
        M, x, q = np.column_stack([M, c[rows] * h[rows]]), np.append(x, b), np.append(q, 0.0)
    solved = _both_sides(M, x, h[rows], lam[rows], q)
    if solved is None:
        return False
    x, lam_I = solved
    point, p = np.zeros_like(w), np.zeros_like(best.p)
    point[free] = x[: len(free)]
    if box:
        point[bound] = x[len(free)] * f[bound] * np.sign(a[bound])
    p[rows] = lam_I * h[rows]
    return best.offer(point, p)


def _both_sides(M, x, right, lam, q):
    """`M x = right` and `M^T lam = q`, from the guesses `x` and `lam`; `None` when that cannot be done."""
    if M.shape[0] == M.shape[1]:
        factor, pivots, failed = _getrf(M)
        if not failed:
            for _ in range(3):
                x = x + _getrs(factor, pivots, right - M @ x)[0]
                lam = lam + _getrs(factor, pivots, q - M.T @ lam, trans=1)[0]
            if np.isfinite(x).all() and np.isfinite(lam).all():
                return x, lam
        return None
    # In units of the guesses themselves, so that the change is spread and no sign turns.
    by_x, by_lam = M * np.abs(x), M.T * np.abs(lam)
    for _ in range(2):
        x = x + np.abs(x) * _least(by_x, right - M @ x)
        lam = lam + np.abs(lam) * _least(by_lam, q - M.T @ lam)
    return (x, lam) if np.isfinite(x).all() and np.isfinite(lam).all() else None


def _least(M, r):
    if not (np.isfinite(M).all() and np.isfinite(r).all()):
        return np.full(M.shape[1], np.nan)  # LAPACK would complain, on standard output
    solved = lstsq(M, r, lapack_driver="gelsy", check_finite=False)
    assert solved is not None
    return solved[0]


def _dense(M):
    return M.toarray() if scipy.sparse.issparse(M) else M


def offer_simplex(program: Scaled, best: Best, *, least: float) -> int:
    """Offers `best` a vertex that HiGHS finds for `min |w|` over margins of at least `least`; its steps."""
    A, c, h, f, box = program
    N, d = A.shape
    columns, n_b = ([A] if box else [A, -A]), int(c is not None)
    if box:
        columns.append(np.zeros((N, 1)))
    if c is not None:
        columns.append((c * h)[:, None])
    n = sum(column.shape[1] for column in columns)
    rows = [_stack(columns)]
    cost = np.zeros(n)
    if box:
        cost[d] = 1.0
        eye, t = scipy.sparse.eye_array(d), f[:, None]
        rows += [_stack([part, t, *[np.zeros((d, 1))] * n_b]) for part in (-eye, eye)]
    else:
        cost[: 2 * d] = np.tile(f, 2)
    right = np.append(least * h / h.max(), np.zeros(2 * d if box else 0))
    constraints = scipy.sparse.vstack(rows, format="csr")
    bounds = [(None, None) if box else (0, None)] * (d if box else 2 * d) + [(0, None)] * box + [(None, None)] * n_b
    options = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE}
    result = linprog(cost, A_ub=-constraints, b_ub=-right, bounds=bounds, method="highs", options=options)
    if result.x is None or result.ineqlin is None or result.ineqlin.marginals is None:
        return 0
    w = result.x[:d] if box else result.x[:d] - result.x[d : 2 * d]
    best.offer(w, np.maximum(-result.ineqlin.marginals[:N], 0) * h)
    return int(result.nit)


def _stack(columns):
    return scipy.sparse.hstack([scipy.sparse.csr_array(column) for column in columns], format="csr")
