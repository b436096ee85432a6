"""Nuclear norm: Newton's method in the low-rank coordinates of the optimum, from a pair that already names the rank.

At the optimum, scaled to `|G(lam)|_2 = 1` and `min_k (<A_k, W> / b_k) = 1`, `W = U1 H V1^T` with `U1, V1` the singular
vectors of `G(lam)` at singular value 1 and `H` symmetric, positive definite. Unknowns are the multipliers `lam`, the
slacks `w` and `H`; how `U1, V1` turn with `lam` is the resolvent of the other singular pairs. With `Phi_k` the
symmetric part of `U1^T A_k V1`, `B` its entries and `M` the curvature, a step solves

    [[M + diag(w / lam), B], [B^T, 0]] (dl, dh) = (b - B svec(H) + mu / lam, svec(I - diag(s)))

with `lam_k w_k` aimed at a `mu` that falls to zero, each step kept inside `lam, w > 0`. The matrix stays well
conditioned where that of the interior point does not, so the active rows sort themselves out: the interior point
names one of a hundred wrongly as a rule, and Newton on a fixed set of rows then ends at a gap of `1e-5`.

A free intercept adds its column `e` and the row `e.(lam + dl) = 0`.

Derived here: `M`, `B`, the lift and the barrier.
"""

import dataclasses
import math

import numpy as np
from scipy.linalg import get_lapack_funcs

from ..limits.constraints import Factors, Matrices
from .nuclear_problem import Pair, Problem, largest_step

# Rows whose multiplier is this far below their slack (both relative) are inactive beyond doubt.
_CLEAR = 1e-4
_INSIDE = 8 * np.finfo(float).eps
# Largest system that is worth a singular value decomposition.
_SMALL = 500
# Steps of refinement of each Newton system.
_N_REFINE = 2
# Entries of `B` this far below the largest are rounding.
_NEGLIGIBLE = 1e-12
_SHIFT = 1e-13
# Most constraints near the optimum with which a step costs less than one of the interior point from the start.
_LARGEST = 4000
_sysv, _sytrs = get_lapack_funcs(("sysv", "sytrs"), dtype=float)


def newton(problem: Problem, pair: Pair, *, goal: float = 1e-14, max_steps: int = 30) -> Pair:
    """The pair of smallest certified gap that Newton finds; `pair` when none is better."""
    A, b = problem.constraints, problem.b
    start = problem.gap(pair.W, pair.lam)
    if not goal < start < 1:
        return pair
    margins = problem.margins(pair.W)
    W = pair.W / margins.min()
    lam = problem.weights(pair.lam) / b
    lam = lam / np.linalg.norm(A.combine(lam), 2)
    slack = b * (margins / margins.min() - 1)
    sizes, s = np.linalg.svd(W, compute_uv=False), np.linalg.svd(A.combine(lam), compute_uv=False)
    near = np.flatnonzero(lam >= _CLEAR * slack / sizes.sum())
    r = int((sizes / sizes.sum() > 1 - s).sum())
    if r == 0 or len(near) > _LARGEST:
        return pair
    # Every near row starts on the central path: neither its multiplier nor its slack may be zero.
    mu = max(start, goal) * (b @ lam) / len(near)
    lam = np.maximum(lam[near], 1e-3 * np.sqrt(mu))
    w = np.maximum(slack[near], mu / lam)
    lam = np.maximum(lam, mu / w)
    # A margin `b_k` far below `|W|` drowns in the rounding of `<A_k, W>`: aim inside by as much.
    active, inside = problem.take(near), _INSIDE * np.linalg.norm(W)
    target = b[near] + np.where((b[near] < 1e-2) & (inside > 10 * goal * b[near]), inside, 0)
    best, since, reduction = dataclasses.replace(pair, gap=start), 0, 1e-2
    for step in range(1, max_steps + 1):
        mu = (lam @ w) / len(near)
        moved = _step(active, W, lam, w, target, reduction * mu, r)
        if moved is None:
            break
        W, lam, w, size = moved
        reduction = 1e-3 if size > 0.9 else 1e-1 if size > 0.3 else 0.5
        whole = np.zeros(len(b))
        whole[near] = lam
        gap = problem.gap(W, whole)
        since += 1
        if gap < best.gap:
            since = since if gap > 0.5 * best.gap else 0
            best = Pair(W / problem.margins(W).min(), whole, gap, pair.n_iterations + step)
        if best.gap <= goal or since >= 6 or not np.isfinite(W).all():
            break
    return dataclasses.replace(best, n_iterations=pair.n_iterations + step)


def _turned(constraints: Factors | Matrices, u, v, r):
    """`u^T A_k V1` and `v^T A_k^T U1`, of shapes `(N, n1, r)` and `(N, n2, r)`."""
    U1, V1 = u[:, :r], v[:, :r]
    if isinstance(constraints, Factors):
        Du, Zv = constraints.left @ u, constraints.right @ v
        return Du[:, :, None] * Zv[:, None, :r], Zv[:, :, None] * Du[:, None, :r]
    A = constraints.matrices
    return u.T @ (A @ V1), v.T @ (A.transpose(0, 2, 1) @ U1)


def _step(problem, W, lam, w, target, mu, r):
    """One damped step: `W`, `lam`, `w` and the step length; None when the linear system cannot be solved."""
    A, e = problem.constraints, problem.column
    n1, n2 = W.shape
    G = A.combine(lam)
    u, s, vt = np.linalg.svd(G, full_matrices=True)
    v, m, N = vt.T, len(s), len(lam)
    U1, V1 = u[:, :r], v[:, :r]
    H = U1.T @ W @ V1
    H = (H + H.T) / 2
    values, E = np.linalg.eigh(H)
    L = E * np.sqrt(np.maximum(values, 1e-12 * max(values[-1], 1e-300)))

    gaps = 1 - s[r:]
    if len(gaps) and gaps.min() <= 0:
        return None
    # Each constraint's part in the other singular pairs, and what it costs to turn there.
    x, y = _turned(A, u, v, r)
    parts = [
        ((x[:, r:m] + y[:, r:m]) / 2, 1 / gaps),
        ((x[:, :m] - y[:, :m]) / 2, 1 / (1 + s)),
        (x[:, m:] / math.sqrt(2), np.ones(n1 - m)),
        (y[:, m:] / math.sqrt(2), np.ones(n2 - m)),
    ]
    M = np.zeros((N, N))
    for part, weight in parts:
        if part.size:
            flat = ((part @ L) * np.sqrt(2 * weight)[:, None]).reshape(N, -1)
            M += flat @ flat.T
    M.flat[:: N + 1] += w / lam
    i, j = np.tril_indices(r)
    twice = np.where(i == j, 1.0, math.sqrt(2))
    B = (x[:, i, j] + x[:, j, i]) / 2 * twice
    rhs = [target - B @ (H[i, j] * twice) + mu / lam, (np.eye(r) - np.diag(s[:r]))[i, j] * twice]
    if e is not None:
        B, rhs = np.column_stack([B, e]), [*rhs, [-(e @ lam)]]
    solution = _solve_saddle(M, B, np.concatenate(rhs))
    if solution is None:
        return None
    dl, dh = solution[:N], solution[N : N + len(i)] / twice
    dH = np.zeros((r, r))
    dH[i, j] = dH[j, i] = dh

    dw = mu / lam - w - w / lam * dl
    size = min(1.0, 0.995 * largest_step(lam, dl), 0.995 * largest_step(w, dw))
    dl, dH, dw = size * dl, size * dH, size * dw

    dG = A.combine(dl)
    up, vp = u.T @ dG @ V1, v.T @ dG.T @ U1
    plus, minus = (up[r:m] + vp[r:m]) / 2 / gaps[:, None], (up[:m] - vp[:m]) / 2 / (1 + s)[:, None]
    left = U1 + u[:, r:m] @ plus + u[:, :m] @ minus + u[:, m:] @ up[m:]
    right = V1 + v[:, r:m] @ plus - v[:, :m] @ minus + v[:, m:] @ vp[m:]
    lam = lam + dl
    lam = lam / np.linalg.norm(A.combine(lam), 2)
    return left @ (H + dH) @ right.T, lam, w + dw, size


def _solve_saddle(M, B, rhs):
    """`[[M, B], [B^T, 0]] x = rhs`, scaled to entries of size one; None when it cannot be solved.

    `B` loses rank when the optimum is not unique, as in problems with a symmetry. A shift keeps steps along the optimal
    face from being made of rounding alone; refinement takes its effect away elsewhere.
    """
    N, n = B.shape
    columns = np.abs(B).max(0)
    sizes = [np.maximum(np.abs(M).max(0), np.abs(B).max(1)), np.maximum(columns, _NEGLIGIBLE * columns.max())]
    unit = 1 / np.sqrt(np.concatenate(sizes))
    scaled = np.block([[M, B], [B.T, np.zeros((n, n))]]) * unit[:, None] * unit
    y, shifted = unit * rhs, scaled.copy()
    shifted.flat[N * (N + n + 1) :: N + n + 1] -= _SHIFT
    factor, pivots, x, failed = _sysv(shifted.T, y, lower=0)
    if failed or not np.isfinite(x).all():
        if N + n > _SMALL or not np.isfinite(scaled).all():
            return None
        return unit * np.linalg.lstsq(scaled, y, rcond=None)[0]
    for _ in range(_N_REFINE):
        x = x + _sytrs(factor, pivots, y - scaled @ x, lower=0)[0]
    return unit * x if np.isfinite(x).all() else None
