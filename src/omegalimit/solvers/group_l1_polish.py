"""Newton's method on the active rows and groups of a group-l1 problem, down to rounding.

With active rows `I` and active groups `S` the optimality conditions are, for `g = A_I^T lam_I`,

    w_g = t_g g_g,   |g_g|_2 = 1 (g in S),   sum_g t_g A_g g_g + a b = h on I,   a.lam = 0,

in the unknowns `lam_I`, `t_S`, `b`. One Newton step solves the symmetric system

    [ sum_g t_g A_g A_g^T   B   a ]                       [ h - sum_g t_g A_g g_g - a b ]
    [ B^T                   0   0 ]  (dlam, dt, db)   =   [ (1 - |g_g|^2) / 2           ]
    [ a^T                   0   0 ]                       [ -a.lam                      ],   B = (A_g g_g)_g,

and converges quadratically once the sets are right. A row or group whose multiplier or size turns negative leaves; one
that is violated when the method has converged enters. A pair counts only by its recomputed gap.
Where multipliers are not unique (equal rows) the system is singular but consistent; a shift of 1e-11 with refinement
then finds a solution nearby. Derived here; the pattern is that of the nuclear norm's polish.
"""

import numpy as np

from ._algebra import gram
from ._candidate import best_intercept
from ._second_order import Problem, symmetric_solver

_MOST_STEPS = 20
_SHIFT = 1e-11
_ROUNDING = 1e-13
# From further away than this relative gap the active sets are a guess.
_CLOSE = 0.1
_DONE = 1e-15


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
            active, support, last = active | more_rows, support | more_groups, np.inf
            continue
        right = np.r_[lack[rows], excess[groups], [] if a is None else [-(a @ lam)]]
        change = _newton(problem, rows, groups, t=t, g=g, right=right)
        if change is None:
            return step
        new_lam, new_t = lam[rows] + change[: len(rows)], t[groups] + change[len(rows) : len(rows) + len(groups)]
        if (new_lam <= 0).any() or (new_t <= 0).any():
            active[rows[new_lam <= 0]], support[groups[new_t <= 0]] = False, False
            lam, t, last = np.where(active, lam, 0.0), np.where(support, t, 0.0), np.inf
            continue
        lam[rows], t[groups], last = new_lam, new_t, residual
        b = b if a is None else b + change[-1]
        best.take(t[problem.of] * (A.T @ lam), lam)
        if best.gap <= _DONE:
            return step + 1
    return _MOST_STEPS


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
    return active, support, np.where(support, t, 0.0), np.where(active, lam, 0.0), b


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
