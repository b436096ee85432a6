"""Newton's method on the active rows and groups of a group-l1 problem, down to rounding.

With active rows `I` and active groups `S` the optimality conditions are, for `g = A_I^T lam_I`,

    w_g = t_g g_g,   |g_g|_2 = 1 (g in S),   sum_g t_g A_g g_g + a b = h on I,   a.lam = 0,

in the unknowns `lam_I`, `t_S`, `b`. One Newton step solves the symmetric system

    [ sum_g t_g A_g A_g^T   B   a ]                       [ h - sum_g t_g A_g g_g - a b ]
    [ B^T                   0   0 ]  (dlam, dt, db)   =   [ (1 - |g_g|^2) / 2           ]
    [ a^T                   0   0 ]                       [ -a.lam                      ],   B = (A_g g_g)_g,

and converges quadratically once the sets are right. A step ends where the first multiplier or size vanishes, whose row
or group leaves: with one row too many the system is singular, and beyond that point the signs mean nothing. What is
violated when the method has converged enters. A pair counts only by its recomputed gap.
Where multipliers are not unique (equal rows) the system is singular but consistent; a shift of 1e-11 with refinement
then finds a solution nearby. Derived here; the pattern is that of the nuclear norm's polish.
"""

import numpy as np
from scipy.linalg import qr

from ._algebra import gram, positive_solver
from ._candidate import best_intercept
from ._second_order import Problem, symmetric_solver

_MOST_STEPS = 40
_SHIFT = 1e-11
_ROUNDING = 1e-13
# From further away than this relative gap the active sets are a guess.
_CLOSE = 0.1
_DONE = 1e-15
# Above this gap, and below this residual before the step, what is left is the rounding of w.
_SHARP = 1e-13
_QUADRATIC = 1e-6
# More active rows than this multiple of what a vertex has are thinned out before the first step.
_MOST_ROWS = 2
_DEPENDENT = 1e-12


def polish(problem: Problem, best) -> int:
    """Newton steps from the best pair of the interior point; what is better goes to `best`. The number of steps."""
    if best.pair is None or not best.pair_gap < _CLOSE:
        return 0
    active, support, t, lam, b = _start(problem, *best.pair)
    A, h, a = problem.A, problem.h, problem.a
    last = np.inf
    for step in range(_MOST_STEPS):
        rows, groups = np.flatnonzero(active), np.flatnonzero(support)
        if not (len(rows) and len(groups)):
            return step
        g = A.T @ lam
        w = t[problem.of] * g
        sizes = problem.norms(g)
        lack = h - A @ w if a is None else h - A @ w - a * b
        excess = (1 - sizes) * (1 + sizes) / 2
        residual = max(np.abs(lack[rows] / h[rows]).max(), np.abs(excess[groups]).max())
        if not np.isfinite(residual):
            return step
        if residual < _ROUNDING or residual > last / 2:
            # Converged on these sets: are they the right ones?
            beyond = max(_ROUNDING, 2 * residual)
            more_rows, more_groups = ~active & (lack > beyond * h), ~support & (-excess > beyond)
            if not (more_rows.any() or more_groups.any()):
                return step
            # Far off, rows by the thousand fall short; no more than a vertex has can bind.
            missing = np.where(more_rows, lack / h, 0.0)
            most = min(A.shape[1] + 1, np.count_nonzero(more_rows))
            more_rows[np.argsort(-missing, kind="stable")[most:]] = False
            active, support, last = active | more_rows, support | more_groups, np.inf
            continue
        right = np.r_[lack[rows], excess[groups], [] if a is None else [-(a @ lam)]]
        change = _newton(problem, rows, groups, t=t, g=g, right=right)
        if change is None:
            return step
        dlam, dt = change[: len(rows)], change[len(rows) : len(rows) + len(groups)]
        to_rows, to_groups = _ratios(lam[rows], dlam), _ratios(t[groups], dt)
        first = min(to_rows.min(), to_groups.min())
        if first <= 1:
            lam[rows], t[groups] = np.maximum(lam[rows] + first * dlam, 0.0), np.maximum(t[groups] + first * dt, 0.0)
            gone, faded = rows[to_rows <= first], groups[to_groups <= first]
            active[gone], support[faded], lam[gone], t[faded], last = False, False, 0.0, 0.0, np.inf
            b = b if a is None else b + first * change[-1]
            continue
        new_lam, new_t = lam[rows] + dlam, t[groups] + dt
        lam[rows], t[groups], last = new_lam, new_t, residual
        b = b if a is None else b + change[-1]
        best.take(t[problem.of] * (A.T @ lam), lam)
        if best.gap > _SHARP and residual < _QUADRATIC:
            best.take(_met(problem, rows, groups, t[problem.of] * (A.T @ lam), b), lam)
        if best.gap <= _DONE:
            return step + 1
    return _MOST_STEPS


def _met(problem, rows, groups, w, b):
    """`w` changed as little as meets the active rows.

    Where the margin is a small part of the rows, the multipliers cancel in `g` and `t` magnifies what rounding leaves.
    Norms change by `lam.lack` alone, to first order.
    """
    columns = np.flatnonzero(np.isin(problem.of, groups))
    A, h, a = problem.A[rows][:, columns], problem.h[rows], None if problem.a is None else problem.a[rows]
    K = gram(A, np.ones(len(columns)))
    if a is not None:
        K += np.multiply.outer(a, a)
    solve = positive_solver(K, n_refine=0)
    if solve is None:
        return w
    w = w.copy()
    for _ in range(3):
        z = solve(h - A @ w[columns] - (0 if a is None else a * b))
        w[columns] += A.T @ z
        b += 0.0 if a is None else float(a @ z)
    return w


def _start(problem, w, lam):
    """The active rows and groups, and `t`, `lam`, `b` with least margin and largest `|g_g|` equal to 1."""
    g_sizes = problem.norms(problem.A.T @ lam)
    lam, g_sizes = lam / g_sizes.max(), g_sizes / g_sizes.max()
    scores, b = problem.A @ w, 0.0
    if problem.a is not None:
        b = best_intercept(scores / problem.h, problem.c)
        scores = scores + problem.a * b
    least = (scores / problem.h).min()
    t, b, slack = problem.norms(w) / least, b / least, scores / least - problem.h
    # Each multiplier against its row's slack, both relative to what they can be at most: |g| is 1, |A_k w| at most |w|.
    active = lam > slack / t.sum()
    support = t / t.sum() > 1 - g_sizes
    if np.count_nonzero(active) > _MOST_ROWS * (problem.A.shape[1] + 1):
        lam = _fewer(problem, np.flatnonzero(active), lam)
        active = lam > 0
    return active, support, np.where(support, t, 0.0), np.where(active, lam, 0.0), b


def _fewer(problem, rows, lam):
    """Multipliers on linearly independent ones of the `rows`, the weightiest first, with nearly the same `A^T lam`.

    Rows that are many times there would make the system large, and leave it singular.
    """
    A = problem.A[rows].toarray() if problem.sparse else problem.A[rows]
    columns = A.T if problem.a is None else np.vstack([A.T, problem.a[rows]])
    factors = qr(columns * lam[rows], mode="economic", pivoting=True, check_finite=False)
    _, R, order = (np.asarray(factor) for factor in factors)
    diagonal = np.abs(R.diagonal())
    kept = order[: np.count_nonzero(diagonal > _DEPENDENT * diagonal[0])]
    fewer = np.zeros_like(lam)
    fewer[rows[kept]] = np.linalg.lstsq(columns[:, kept], columns @ lam[rows], rcond=None)[0]
    return np.maximum(fewer, 0.0)


def _newton(problem, rows, groups, *, t, g, right):
    """`(dlam_I, dt_S, db)`, `db` only with an intercept; `None` when the system cannot be solved."""
    columns = np.flatnonzero(np.isin(problem.of, groups))
    A, of = problem.A[rows][:, columns], problem.of[columns]
    n, m = len(rows), len(groups)
    K = np.zeros((len(right), len(right)))
    K[:n, :n] = gram(A, t[of])
    B = A.multiply(g[columns][None, :]).toarray() if problem.sparse else A * g[columns]
    K[n : n + m, :n] = np.add.reduceat(B, np.searchsorted(of, groups), axis=1).T
    if problem.a is not None:
        K[-1, :n] = problem.a[rows]
    # A shift of either sign keeps a system that is singular but consistent in hand.
    solve = symmetric_solver(K, shift=np.where(np.arange(len(K)) < n, _SHIFT, -_SHIFT), n_refine=2)
    x = None if solve is None else solve(right)
    return x if x is not None and np.isfinite(x).all() else None


def _ratios(x, dx):
    """For each entry of `x >= 0` the part of the step `dx` at which it vanishes."""
    return np.where(dx < 0, x / -dx, np.inf)
