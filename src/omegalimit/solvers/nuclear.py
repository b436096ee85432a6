"""Nuclear norm: primal-dual interior point whose only unknowns in a linear system are the `N` multipliers.

Primal: `min (tr P + tr Q) / 2` over `X = [[P, W], [W^T, Q]] >= 0` with `<A_k, W> - w_k = b_k`, `w >= 0`.
Dual: `max b.lam` over `lam >= 0` with the slack `1/2 [[I, -G], [-G^T, I]] >= 0`, `G = sum_k lam_k A_k`.
HKM direction with Mehrotra's predictor and corrector; the dual is feasible throughout, the primal need not be.
With `A_k = D_k Z_k^T` the Schur matrix is a sum of entrywise products of `N x N` Gram matrices, so an iteration costs
`O(N^2 d + N d^2) + N^3 / 3` and nothing of size `d^2 x d^2` or `N x d^2` is formed.

Source: the HKM direction of semidefinite programming (Helmberg, Rendl, Vanderbei, Wolkowicz 1996; Kojima, Shindoh,
Hara 1997; Monteiro 1997) with Mehrotra's predictor-corrector; its form for rank-one data is derived here.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs, get_lapack_funcs

_BLOCK = 384
_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=float)
(_symv,) = get_blas_funcs(("symv",), dtype=float)


@dataclasses.dataclass(frozen=True)
class Pair:
    """Best primal-dual pair of an iteration: `W`, `lam`, its `gap = (upper - lower) / upper`, and the steps taken."""

    W: np.ndarray
    lam: np.ndarray
    gap: float
    n_iterations: int


def interior_point(
    D: Float[np.ndarray, "N n1"],
    Z: Float[np.ndarray, "N n2"],
    b: Float[np.ndarray, " N"],
    *,
    tol: float,
    max_iterations: int = 60,
) -> Pair:
    """The best certified pair of `min |W|` over `<D_k Z_k^T, W> >= b_k`, with `|D_k||Z_k| = 1` and `max b = 1`."""
    N, (n1, n2) = len(D), (D.shape[1], Z.shape[1])
    total = np.linalg.norm(D.T @ Z, 2)
    lam = np.full(N, 0.5 / max(total, 1e-2 * N))
    G = D.T @ (lam[:, None] * Z)
    X, w = 10 * np.eye(n1 + n2), np.full(N, 10.0)
    best, waited = Pair(X[:n1, n1:], lam, math.inf, 0), 0
    for iteration in range(max_iterations + 1):
        u, s, vt = np.linalg.svd(G, full_matrices=False)
        P, W, Q = X[:n1, :n1], X[:n1, n1:], X[n1:, n1:]
        mu = (np.trace(X) / 2 - np.vdot(W, G) + w @ lam) / (n1 + n2 + N)
        total = b @ lam
        upper = s[0] / total
        # The complementarity estimates the gap; the singular values of W are worth taking only once it is small.
        if mu * (n1 + n2 + N) < 0.1 * total and np.any(W):
            lower = (np.einsum("kj,kj->k", D @ W, Z) / b).min() / np.linalg.svd(W, compute_uv=False).sum()
            gap, waited = (upper - lower) / upper, waited + 1
            if gap < best.gap:
                best, waited = Pair(W.copy(), lam, float(gap), iteration), 0
            if gap <= tol or waited >= 8 or gap > 100 * best.gap:
                break
        if upper < 1e-14 or iteration == max_iterations:
            best = best if best.gap < math.inf else Pair(W.copy(), lam, math.inf, iteration)
            break

        h = (1 - s) * (1 + s)
        if h.min() <= 0:
            break
        S = (u * (s / h)) @ vt
        Xi, Yi = np.eye(n1) + (u * (1 / h - 1)) @ u.T, np.eye(n2) + (vt.T * (1 / h - 1)) @ vt
        solve_schur = _schur(D, Z, P, W, Q, S, Xi, Yi, w / lam)
        if solve_schur is None:
            break
        g = np.einsum("kj,kj->k", D @ S, Z)

        def direction(dl, sigma_mu, R, second, S=S, Xi=Xi, Yi=Yi, X=X, w=w, lam=lam):
            dG = D.T @ (dl[:, None] * Z)
            T = _tangent(dG, S, Xi, Yi)
            dX = X @ T - R
            dX = (dX + dX.T) / 2 - X
            if sigma_mu:
                dX += 2 * sigma_mu * np.block([[Xi, S], [S.T, Yi]])
            return dG, T, dX, sigma_mu / lam - w - w * dl / lam - second

        dl = solve_schur(b)
        dG, T, dX, dw = direction(dl, 0.0, 0.0, 0.0)
        ap, ad = _steps(X, dX, w, dw, G, dG, lam, dl, precision=0.1)
        Wa, Ga = W + ap * dX[:n1, n1:], G + ad * dG
        mu_a = (np.trace(X) + ap * np.trace(dX)) / 2 - np.vdot(Wa, Ga) + (w + ap * dw) @ (lam + ad * dl)
        exponent = max(1.0, 3 * min(ap, ad) ** 2)
        sigma = min(1.0, max(1e-4, (max(mu_a, 0.0) / (n1 + n2 + N) / mu) ** exponent))

        R = -dX @ T
        R12 = (R[:n1, n1:] + R[n1:, :n1].T) / 2
        second = dl * dw / lam
        rhs = b + sigma * mu / lam - second - 2 * sigma * mu * g + np.einsum("kj,kj->k", D @ R12, Z)
        dl = solve_schur(rhs)
        dG, _, dX, dw = direction(dl, sigma * mu, R, second)
        ap, ad = _steps(X, dX, w, dw, G, dG, lam, dl, precision=0.02)
        fraction = 0.9 + 0.09 * min(1.0, ap, ad)
        ap, ad = min(1.0, fraction * ap), min(1.0, fraction * ad)
        if not (np.isfinite(ap * ad) and max(ap, ad) > 1e-8):
            break
        X, w, lam = X + ap * dX, w + ap * dw, lam + ad * dl
        G = D.T @ (lam[:, None] * Z)
    return dataclasses.replace(best, n_iterations=iteration)


def _tangent(dG, S, Xi, Yi):
    """`T(dG)`, with `X dZs Zs^-1 = -X T(dG)` for the change `dZs` of the dual slack."""
    return np.block([[dG @ S.T, dG @ Yi], [dG.T @ Xi, dG.T @ S]])


def _schur(D, Z, P, W, Q, S, Xi, Yi, ratio):
    """Solver for `H dl = rhs`, or None when `H` cannot be factored.

    `2 H = (D Xi D^T) o (Z Q Z^T) + (D P D^T) o (Z Yi Z^T) + T + T^T + 2 diag(w / lam)`,
    `T = (D W Z^T) o (D S Z^T)^T`. Only the lower triangle is made, in blocks of rows that stay in cache.
    """
    N = len(D)
    DX, DP, DW, DS, ZQ, ZY = D @ Xi, D @ P, D @ W, D @ S, Z @ Q, Z @ Yi

    def diagonal(left, right):
        return np.einsum("kj,kj->k", left, right)

    diag = diagonal(DX, D) * diagonal(ZQ, Z) + diagonal(DP, D) * diagonal(ZY, Z)
    diag = diag / 2 + diagonal(DW, Z) * diagonal(DS, Z) + ratio
    if not (np.isfinite(diag).all() and diag.min() > 0):
        return None
    unit = 1 / np.sqrt(diag)
    H = np.empty((N, N))
    for start in range(0, N, _BLOCK):
        r, e = slice(start, start + _BLOCK), min(N, start + _BLOCK)
        part = DX[r] @ D[:e].T
        part *= ZQ[r] @ Z[:e].T
        for a, b, c, d in ((DP[r], D, ZY[r], Z), (DW[r], Z, Z[r], DS), (Z[r], DW, DS[r], Z)):
            product = a @ b[:e].T
            product *= c @ d[:e].T
            part += product
        part *= 0.5 * unit[r, None]
        part *= unit[:e]
        H[r, :e] = part
    H.flat[:: N + 1] = 1.0
    # The transpose of a C-ordered array is what LAPACK stores, without a copy; its upper triangle is our lower one.
    factor, failed = _potrf(H.T, lower=0, clean=0)
    regularised = 0.0
    while failed and regularised < 1e-9:
        regularised = max(1e-15, 10 * regularised)
        H.flat[:: N + 1] = 1.0 + regularised
        factor, failed = _potrf(H.T, lower=0, clean=0)
    if failed:
        return None
    H.flat[:: N + 1] = 1.0

    def solve(rhs):
        y = unit * rhs
        x = _potrs(factor, y, lower=0)[0]
        for _ in range(3 if regularised else 1):
            x = x + _potrs(factor, y - _symv(1.0, H.T, x, lower=0), lower=0)[0]
        return unit * x

    return solve


def _steps(X, dX, w, dw, G, dG, lam, dl, *, precision):
    """Largest primal and dual steps that stay inside, from below, to a relative `precision`; at most 1.1."""

    def primal(step):
        return _potrf((X + step * dX).T, lower=0, clean=0)[1] == 0

    def dual(step):
        M = G + step * dG
        M = M @ M.T if len(M) <= M.shape[1] else M.T @ M
        np.negative(M, out=M)
        M.flat[:: len(M) + 1] += 1
        return _potrf(M.T, lower=0, clean=0)[1] == 0

    return _boundary(primal, _ratio(w, dw), precision), _boundary(dual, _ratio(lam, dl), precision)


def _ratio(x, dx):
    """Largest step at most 1.1 with `x + step dx >= 0`."""
    falling = dx < 0
    return min(1.1, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.1


def _boundary(inside, high, precision):
    """Largest step in `[0, high]` that passes, by bisection: a Cholesky test is cheaper than an eigenvalue."""
    if inside(high):
        return high
    low = 0.0
    while high - low > precision * high and high > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low
