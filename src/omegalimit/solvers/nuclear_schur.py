"""Nuclear norm: the linear system of the interior point, for constraints of rank one and for full matrices.

With `X = [[P, W], [W^T, Q]]` and half the inverse of the dual slack `[[Xi, S], [S^T, Yi]]`, it is

    (H + diag(w / lam)) dl + e beta = r,    2 H_kl = <A_k, Xi A_l Q + P A_l Yi + W A_l^T S + S A_l^T W>.

For `A_k = D_k Z_k^T` that is a sum of entrywise products of `N x N` matrices,

    2 H = (D Xi D^T) o (Z Q Z^T) + (D P D^T) o (Z Yi Z^T) + T + T^T,    T = (D W Z^T) o (D S Z^T)^T,

at `O(N^2 d + N d^2)`; for full matrices the maps cost `O(N d^3)` and their inner products `N^2 d^2`. Only the lower
triangle is made, in blocks of rows that stay in cache; its factor costs `N^3 / 3`. With many more constraints than
entries, `N > 2 d1 d2`, the map itself is the smaller matrix, `H = A K A^T` with `K` of size `d1 d2`, and Woodbury's
identity leaves a system of that size. Derived here.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, get_lapack_funcs, solve_triangular

from ..limits.constraints import Factors, Matrices
from ._algebra import positive_solver

_BLOCK = 384
# Entries of the largest temporary of a block of full matrices.
_ENTRIES = 2**19
_N_REFINE = 1
# A diagonal this far below the rest of its row would cancel in Woodbury's identity.
_SMALL = 1e-2
(_potrf,) = get_lapack_funcs(("potrf",), dtype=float)


def schur_solver(
    constraints: Factors | Matrices, blocks, ratio: Float[np.ndarray, " N"], e: Float[np.ndarray, " N"] | None
) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """`solve(r, lam)`: the `dl` of the system, with `e.(lam + dl) = 0`; without `e`, no `beta`. `None` when it fails.

    `blocks`: `P, W, Q, S, Xi, Yi`; `ratio`: `w / lam`.

    Where `e` is fixed by the other constraints, the matrix is nearly singular along it. The matrix with `rho e e^T`
    added is not, and has the same steps with another `beta`.
    """
    n1, n2 = constraints.shape
    if constraints.n_constraints > 2 * n1 * n2:
        K = schur_matrix(Matrices(np.eye(n1 * n2).reshape(-1, n1, n2)), *blocks)
        solve = _solver_of_many(constraints, K, ratio, e)
    else:
        H = schur_matrix(constraints, *blocks)
        H.flat[:: len(H) + 1] += ratio
        if e is not None:
            H += np.outer(_weight(e, H.diagonal()) * e, e)
        solve = positive_solver(H)
    if solve is None or e is None:
        return solve and (lambda r, lam: solve(r))
    t = solve(e)
    if not e @ t > 0:
        return None

    def bordered(r, lam):
        y = solve(r)
        return y - (e @ (y + lam)) / (e @ t) * t

    return bordered


def _weight(e, diagonal):
    """`rho` such that `rho e_k^2` is at most the diagonal."""
    return 1 / (e * e / np.maximum(diagonal, np.finfo(float).tiny)).max()


def _solver_of_many(constraints, K, ratio, e):
    """Solver of `A K A^T + diag(ratio) + rho e e^T`; `K` has the size of a point, its lower triangle is read.

    With `K = C C^T` and `V = A C`, Woodbury's identity eliminates the rows whose `ratio` is not small beside their
    diagonal, which costs no digits: `B = I + V_R^T diag(1 / ratio_R) V_R` is well conditioned. The others, hardly more
    than the active ones, keep a system of their own, `V_S B^-1 V_S^T + diag(ratio_S)`.
    """
    diagonal = K.diagonal()
    if not (np.isfinite(diagonal).all() and diagonal.min() > 0):
        return None
    A, unit = _flat(constraints), 1 / np.sqrt(diagonal)
    C = _cholesky(K * unit * unit[:, None])
    if C is None:
        return None
    V = (A / unit) @ C
    if e is not None:
        weight = _weight(e, np.einsum("kj,kj->k", V, V) + ratio)
        V = np.column_stack([V, np.sqrt(weight) * e])
    small = ratio < _SMALL * np.einsum("kj,kj->k", V, V)
    VS, VR, large = V[small], V[~small], ratio[~small]
    B = (VR / large[:, None]).T @ VR
    B.flat[:: len(B) + 1] += 1
    LB = _cholesky(B)
    if LB is None:
        return None
    Y = solve_triangular(LB, VS.T, lower=True, check_finite=False).T
    own = Y @ Y.T
    own.flat[:: len(own) + 1] += ratio[small]
    solve_own = positive_solver(own) if len(own) else lambda r: r
    if solve_own is None:
        return None

    def inner(y):
        return cho_solve((LB, True), y, check_finite=False)

    def once(r):
        x = np.empty_like(r)
        y = VR.T @ (r[~small] / large)
        x[small] = solve_own(r[small] - VS @ inner(y))
        x[~small] = (r[~small] - VR @ inner(y + VS.T @ x[small])) / large
        return x

    def solve(r):
        x = once(r)
        for _ in range(_N_REFINE):
            x = x + once(r - (V @ (V.T @ x) + ratio * x))
        return x

    return solve


def _cholesky(K):
    """Lower factor of the lower triangle of `K`, of unit diagonal or well conditioned, or of little more than `K`."""
    added = 0.0
    factor, failed = _potrf(K, lower=1, clean=1)
    while failed and added < 1e-9:
        added = max(1e-15, 10 * added)
        factor, failed = _potrf(K + added * np.eye(len(K)), lower=1, clean=1)
    return None if failed else factor


def _flat(constraints):
    if isinstance(constraints, Matrices):
        return constraints.flat
    D, Z = constraints.left, constraints.right
    return (D[:, :, None] * Z[:, None, :]).reshape(len(D), -1)


def schur_matrix(constraints: Factors | Matrices, P, W, Q, S, Xi, Yi) -> Float[np.ndarray, "N N"]:
    """`H`, of which the lower triangle is filled."""
    if isinstance(constraints, Factors):
        return _of_factors(constraints.left, constraints.right, P, W, Q, S, Xi, Yi)
    return _of_matrices(constraints, P, W, Q, S, Xi, Yi)


def _of_factors(D, Z, P, W, Q, S, Xi, Yi):
    N = len(D)
    DX, DP, DW, DS, ZQ, ZY = D @ Xi, D @ P, D @ W, D @ S, Z @ Q, Z @ Yi
    H = np.zeros((N, N))
    for start in range(0, N, _BLOCK):
        r, e = slice(start, start + _BLOCK), min(N, start + _BLOCK)
        part = DX[r] @ D[:e].T
        part *= ZQ[r] @ Z[:e].T
        for a, b, c, d in ((DP[r], D, ZY[r], Z), (DW[r], Z, Z[r], DS), (Z[r], DW, DS[r], Z)):
            product = a @ b[:e].T
            product *= c @ d[:e].T
            part += product
        part *= 0.5
        H[r, :e] = part
    return H


def _of_matrices(constraints, P, W, Q, S, Xi, Yi):
    A, flat = constraints.matrices, constraints.flat
    N, n1, n2 = A.shape
    n_rows = max(1, min(N, _ENTRIES // (n1 * n2)))
    H = np.zeros((N, N))
    for start in range(0, N, n_rows):
        r, e = slice(start, start + n_rows), min(N, start + n_rows)
        block = A[r]
        turned = block.transpose(0, 2, 1)
        image = Xi @ (block @ Q)
        image += P @ (block @ Yi)
        image += W @ (turned @ S)
        image += S @ (turned @ W)
        H[r, :e] = 0.5 * (image.reshape(len(block), -1) @ flat[:e].T)
    return H
