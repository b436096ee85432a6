"""Nuclear norm: primal-dual interior point whose only unknowns in a linear system are the `N` multipliers.

Primal: `min (tr P + tr Q) / 2` over `X = [[P, W], [W^T, Q]] >= 0` with `<A_k, W> + e_k beta - w_k = b_k`, `w >= 0`.
Dual: `max b.lam` over `lam >= 0`, `e.lam = 0`, with the slack `1/2 [[I, -G], [-G^T, I]] >= 0`, `G = sum_k lam_k A_k`.
HKM direction with Mehrotra's predictor and corrector; the dual is feasible throughout, the primal need not be. A free
intercept `beta` with column `e` borders the linear system (`nuclear_schur`).

Source: the HKM direction of semidefinite programming (Helmberg, Rendl, Vanderbei, Wolkowicz 1996; Kojima, Shindoh,
Hara 1997; Monteiro 1997) with Mehrotra's predictor-corrector; its form for these constraints is derived here.
"""

import dataclasses
import math

import numpy as np
from scipy.linalg import get_lapack_funcs

from .nuclear_problem import Pair, Problem, largest_step
from .nuclear_schur import schur_solver

# A combination this small, relative to the constraints that it combines, is zero within rounding.
_ZERO = 1e-14
_MOST_STEPS = 60
_MOST_REFINEMENTS = 2
(_potrf,) = get_lapack_funcs(("potrf",), dtype=float)


def central_path(problem: Problem, *, tol: float) -> Pair:
    """The best certified pair of the path, which ends at a gap of `tol` or where rounding stops it.

    A start far smaller than `|W*| = 1 / margin` ends in tiny steps. The dual then has proved an upper bound of the
    margin, and the path starts again at that dual, with the primal that is central beside it.
    """
    lam = _start(problem)
    size, n_iterations, best = 1.0, 0, None
    while True:
        pair = _path_from(problem, lam, central=best is not None, tol=tol)
        n_iterations += pair.n_iterations
        if best is not None:
            lam = min((best.lam, pair.lam), key=problem.upper)
            pair = min((best, pair), key=lambda pair: pair.gap)
            # A pair that separates nothing is no pair: its halves are judged apart.
            pair = pair if pair.gap < 1 else dataclasses.replace(pair, lam=lam)
        best, upper = pair, problem.upper(pair.lam)
        if best.gap <= tol or not (_ZERO < upper * size < 0.1) or n_iterations > _MOST_STEPS:
            return dataclasses.replace(best, n_iterations=n_iterations)
        size, lam = 1 / upper, _inside(problem, best.lam, _ZERO)


def _path_from(problem, lam, *, central, tol):
    """The path from multipliers `lam`; `central`: with the primal beside them, and else from multiples of one."""
    A, b, e = problem.constraints, problem.b, problem.column
    N, (n1, n2) = len(b), A.shape
    G = A.combine(lam)
    X, w = 10 * np.eye(n1 + n2), np.full(N, 10.0)
    if central:
        mu = b @ lam / (n1 + n2 + N)
        X, w = 2 * mu * np.linalg.inv(np.block([[np.eye(n1), -G], [-G.T, np.eye(n2)]])), mu / lam
    best, waited = Pair(X[:n1, n1:], lam, math.inf, 0), 0
    least = (math.inf, lam)
    for iteration in range(_MOST_STEPS + 1):
        u, s, vt = np.linalg.svd(G, full_matrices=False)
        P, W, Q = X[:n1, :n1], X[:n1, n1:], X[n1:, n1:]
        mu = (np.trace(X) / 2 - np.vdot(W, G) + w @ lam) / (n1 + n2 + N)
        total = b @ lam
        upper = s[0] / total
        if upper < least[0]:
            least = upper, lam
        # The complementarity estimates the gap; the singular values of W are worth taking only once it is small.
        if mu * (n1 + n2 + N) < 0.1 * total and np.any(W):
            gap, waited = (upper - problem.lower(W)) / upper, waited + 1
            if gap < best.gap:
                best, waited = Pair(W.copy(), lam, float(gap), iteration), 0
            if gap <= tol or waited >= 8 or gap > 100 * best.gap:
                break
        if s[0] < _ZERO * lam.sum() or iteration == _MOST_STEPS:
            break

        h = (1 - s) * (1 + s)
        if h.min() <= 0:
            break
        S = (u * (s / h)) @ vt
        Xi, Yi = np.eye(n1) + (u * (1 / h - 1)) @ u.T, np.eye(n2) + (vt.T * (1 / h - 1)) @ vt
        solve = schur_solver(A, (P, W, Q, S, Xi, Yi), w / lam, e)
        if solve is None:
            break
        g = A.margins(S)

        def direction(dl, sigma_mu, R, second, S=S, Xi=Xi, Yi=Yi, X=X, w=w, lam=lam):
            dG = A.combine(dl)
            T = _tangent(dG, S, Xi, Yi)
            dX = X @ T - R
            dX = (dX + dX.T) / 2 - X
            if sigma_mu:
                dX += 2 * sigma_mu * np.block([[Xi, S], [S.T, Yi]])
            return dG, T, dX, sigma_mu / lam - w - w * dl / lam - second

        dl = solve(b, lam)
        dG, T, dX, dw = direction(dl, 0.0, 0.0, 0.0)
        ap, ad = _steps(X, dX, w, dw, G, dG, lam, dl, precision=0.1)
        Wa, Ga = W + ap * dX[:n1, n1:], G + ad * dG
        mu_a = (np.trace(X) + ap * np.trace(dX)) / 2 - np.vdot(Wa, Ga) + (w + ap * dw) @ (lam + ad * dl)
        exponent = max(1.0, 3 * min(ap, ad) ** 2)
        sigma = min(1.0, max(1e-4, (max(mu_a, 0.0) / (n1 + n2 + N) / mu) ** exponent))

        R = -dX @ T
        R12 = (R[:n1, n1:] + R[n1:, :n1].T) / 2
        second = dl * dw / lam
        dl = solve(b + sigma * mu / lam - second - 2 * sigma * mu * g + A.margins(R12), lam)
        dG, _, dX, dw = direction(dl, sigma * mu, R, second)
        for _ in range(_MOST_REFINEMENTS):
            # What rounding left of `<A_k, W> + e_k beta - w_k = b_k`: near a contradiction, far more than the gap.
            missed = b + w + dw - A.margins(W + dX[:n1, n1:])
            share = missed / b
            if np.abs(share if e is None else share - problem.c * (problem.c @ share) / N).max() <= 0.1 * tol:
                break
            more = solve(missed, lam + dl)
            added = X @ _tangent(A.combine(more), S, Xi, Yi)
            dl, dX, dw = dl + more, dX + (added + added.T) / 2, dw - w * more / lam
            dG = A.combine(dl)
        ap, ad = _steps(X, dX, w, dw, G, dG, lam, dl, precision=0.02)
        fraction = 0.9 + 0.09 * min(1.0, ap, ad)
        ap, ad = min(1.0, fraction * ap), min(1.0, fraction * ad)
        if not (np.isfinite(ap * ad) and max(ap, ad) > 1e-8):
            break
        X, w, lam = X + ap * dX, w + ap * dw, lam + ad * dl
        G = A.combine(lam)
    if best.gap >= 1:
        best = Pair(X[:n1, n1:], least[1], math.inf, iteration)
    return dataclasses.replace(best, n_iterations=iteration)


def _start(problem):
    """Equal multipliers, on each side of the intercept."""
    lam = np.ones(len(problem.b))
    if problem.c is not None:
        for side in (problem.c > 0, problem.c < 0):
            lam[side] /= problem.b[side].sum()
        lam /= lam.max()
    return _inside(problem, lam, 1e-2)


def _inside(problem, lam, least):
    """`lam` with `|G|_2 = 1/2`, or less where it is zero within rounding."""
    return lam * 0.5 / max(np.linalg.norm(problem.constraints.combine(lam), 2), least * lam.sum())


def _tangent(dG, S, Xi, Yi):
    """`T(dG)`, with `X dZs Zs^-1 = -X T(dG)` for the change `dZs` of the dual slack."""
    return np.block([[dG @ S.T, dG @ Yi], [dG.T @ Xi, dG.T @ S]])


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

    return _boundary(primal, largest_step(w, dw), precision), _boundary(dual, largest_step(lam, dl), precision)


def _boundary(inside, high, precision):
    """Largest step in `[0, high]` that passes, by bisection: a Cholesky test is cheaper than an eigenvalue."""
    if inside(high):
        return high
    low = 0.0
    while high - low > precision * high and high > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low
