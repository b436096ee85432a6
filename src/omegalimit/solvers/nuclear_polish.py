"""Nuclear norm: Newton's method in the low-rank coordinates of the optimum, from a pair that already names the rank.

At the optimum, scaled to `|G(lam)|_2 = 1` and `min_k (<A_k, W> / b_k) = 1`, `W = U1 H V1^T` with `U1, V1` the singular
vectors of `G(lam)` at singular value 1 and `H` symmetric, positive definite. Unknowns are the multipliers `lam`, the
slacks `w` and `H`; how `U1, V1` turn with `lam` is the resolvent of the other singular pairs. With `Phi_k` the
symmetric part of `U1^T A_k V1`, `B` its entries and `M` the curvature, a step solves

    [[M + diag(w / lam), B], [B^T, 0]] (dl, dh) = (b - B svec(H) + mu / lam, svec(I - diag(s)))

with `lam_k w_k` aimed at a `mu` that falls to zero, each step kept inside `lam, w > 0`. The matrix stays well
conditioned where that of the interior point does not, so the active rows sort themselves out: the interior point
names one of a hundred wrongly as a rule, and Newton on a fixed set of rows then ends at a gap of `1e-5`.

Derived here: `M`, `B`, the lift and the barrier.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_lapack_funcs

from .nuclear import Pair, _ratio

# Rows whose multiplier is this far below their slack (both relative) are inactive beyond doubt.
_CLEAR = 1e-4
# Largest system that is worth a singular value decomposition.
_SMALL = 500
(_sysv,) = get_lapack_funcs(("sysv",), dtype=float)


def polish(
    D: Float[np.ndarray, "N n1"],
    Z: Float[np.ndarray, "N n2"],
    b: Float[np.ndarray, " N"],
    pair: Pair,
    *,
    goal: float = 1e-14,
    max_steps: int = 30,
) -> Pair:
    """The pair of smallest certified gap that Newton finds for `<D_k Z_k^T, W> >= b_k`; `pair` when none is better."""
    margins = _margins(D, Z, b, pair.W)
    start, _ = _gap(D, Z, b, pair.W, pair.lam)
    if not goal < start < 1:
        return pair
    W = pair.W / margins.min()
    lam = pair.lam / np.linalg.norm(D.T @ (pair.lam[:, None] * Z), 2)
    slack = b * (margins / margins.min() - 1)
    near = np.flatnonzero(b * lam / (b @ lam) >= _CLEAR * slack / b)
    sizes, s = np.linalg.svd(W, compute_uv=False), np.linalg.svd(D.T @ (lam[:, None] * Z), compute_uv=False)
    r = int((sizes / sizes.sum() > 1 - s).sum())
    if r == 0:
        return pair
    # Every near row starts on the central path: neither its multiplier nor its slack may be zero.
    mu = max(start, goal) * (b @ lam) / len(near)
    lam = np.maximum(lam[near], 1e-3 * np.sqrt(mu))
    w = np.maximum(slack[near], mu / lam)
    lam = np.maximum(lam, mu / w)
    best, since, reduction = dataclasses.replace(pair, gap=start), 0, 1e-2
    for step in range(1, max_steps + 1):
        mu = (lam @ w) / len(near)
        moved = _newton(D[near], Z[near], b[near], W, lam, w, reduction * mu, r)
        if moved is None:
            break
        W, lam, w, size = moved
        reduction = 1e-3 if size > 0.9 else 1e-1 if size > 0.3 else 0.5
        whole = np.zeros(len(b))
        whole[near] = lam
        gap, margins = _gap(D, Z, b, W, whole)
        since += 1
        if gap < best.gap:
            since = since if gap > 0.5 * best.gap else 0
            best = Pair(W / margins.min(), whole, gap, pair.n_iterations + step)
        if best.gap <= goal or since >= 6 or not np.isfinite(W).all():
            break
    return dataclasses.replace(best, n_iterations=pair.n_iterations + step)


def _margins(D, Z, b, W):
    return np.einsum("kj,kj->k", D @ W, Z) / b


def _gap(D, Z, b, W, lam):
    """`(upper - lower) / upper` of the pair with negative multipliers clipped, infinite unless separating; margins."""
    p = np.maximum(lam, 0)
    margins = _margins(D, Z, b, W)
    if not (np.isfinite(margins).all() and margins.min() > 0 and p.sum() > 0):
        return math.inf, margins
    lower = margins.min() / np.linalg.svd(W, compute_uv=False).sum()
    upper = np.linalg.norm(D.T @ (p[:, None] * Z), 2) / (b @ p)
    return float((upper - lower) / upper), margins


def _newton(D, Z, b, W, lam, w, mu, r):
    """One damped step: `W`, `lam`, `w` and the step length; None when the linear system cannot be solved."""
    n1, n2 = W.shape
    G = D.T @ (lam[:, None] * Z)
    u, s, vt = np.linalg.svd(G, full_matrices=True)
    v, m = vt.T, len(s)
    U1, V1 = u[:, :r], v[:, :r]
    H = U1.T @ W @ V1
    H = (H + H.T) / 2
    e, E = np.linalg.eigh(H)
    L = E * np.sqrt(np.maximum(e, 1e-12 * max(e[-1], 1e-300)))

    def coefficients(Du, Zv, a, c):
        """Each row's part in the other singular pairs: (N, j, r) and weights; `Du = D u`, `a = V1^T z`."""
        x, y = Du[:, :, None] * a[:, None, :], Zv[:, :, None] * c[:, None, :]
        return [
            (x[:, r:m] + y[:, r:m]) / 2,
            (x[:, :m] - y[:, :m]) / 2,
            x[:, m:] / math.sqrt(2),
            y[:, m:] / math.sqrt(2),
        ]

    gaps = 1 - s[r:]
    if len(gaps) and gaps.min() <= 0:
        return None
    weights = [1 / gaps, 1 / (1 + s), np.ones(n1 - m), np.ones(n2 - m)]
    Du, Zv = D @ u, Z @ v
    c, a = Du[:, :r], Zv[:, :r]
    M = np.zeros((len(lam), len(lam)))
    for part, weight in zip(coefficients(Du, Zv, a, c), weights, strict=True):
        if part.size:
            flat = ((part @ L) * np.sqrt(2 * weight)[:, None]).reshape(len(lam), -1)
            M += flat @ flat.T
    i, j = np.tril_indices(r)
    twice = np.where(i == j, 1.0, math.sqrt(2))
    B = (c[:, i] * a[:, j] + c[:, j] * a[:, i]) / 2 * twice
    M.flat[:: len(lam) + 1] += w / lam
    rhs = np.concatenate([b - B @ (H[i, j] * twice) + mu / lam, (np.eye(r) - np.diag(s[:r]))[i, j] * twice])
    solution = _solve_symmetric(np.block([[M, B], [B.T, np.zeros((len(i), len(i)))]]), rhs)
    if solution is None:
        return None
    dl, dh = solution[: len(lam)], solution[len(lam) :] / twice
    dH = np.zeros((r, r))
    dH[i, j] = dH[j, i] = dh

    dw = mu / lam - w - w / lam * dl
    size = min(1.0, 0.995 * _ratio(lam, dl), 0.995 * _ratio(w, dw))
    dl, dH, dw = size * dl, size * dH, size * dw

    dG = D.T @ (dl[:, None] * Z)
    up, vp = u.T @ dG @ V1, v.T @ dG.T @ U1
    plus, minus = (up[r:m] + vp[r:m]) / 2 / gaps[:, None], (up[:m] - vp[:m]) / 2 / (1 + s)[:, None]
    left = U1 + u[:, r:m] @ plus + u[:, :m] @ minus + u[:, m:] @ up[m:]
    right = V1 + v[:, r:m] @ plus - v[:, :m] @ minus + v[:, m:] @ vp[m:]
    lam = lam + dl
    lam = lam / np.linalg.norm(D.T @ (lam[:, None] * Z), 2)
    return left @ (H + dH) @ right.T, lam, w + dw, size


def _solve_symmetric(K, rhs):
    """`K x = rhs` for the symmetric, indefinite `K`, scaled to rows of size one; None when it cannot be solved.

    `K` is singular when the optimum is not unique, as in problems with a symmetry: least squares moves no further in
    the optimal face than it must.
    """
    unit = 1 / np.sqrt(np.maximum(np.abs(K).max(0), 1e-300))
    scaled = K * unit[:, None] * unit
    _, _, x, failed = _sysv(scaled.T, unit * rhs, lower=0)
    if failed or not np.isfinite(x).all():
        if len(K) > _SMALL or not np.isfinite(scaled).all():
            return None
        x = np.linalg.lstsq(scaled, unit * rhs, rcond=None)[0]
    return unit * x
