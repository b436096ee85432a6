"""The linear system of a step of the interior point method for l1 and l-infinity, on the smaller side.

    dw / t - A^T dp + e dg = r,   A dw + S dp + B y = q,   e.dw - m dg = k,   B^T dp = b,

for diagonal `t, S > 0` and one or two columns `B`; `e` and `m > 0` belong to l1 alone. `d < N`: eliminating `dp`, `dg`
leaves a positive definite matrix of `d` rows and those for `y`. Otherwise eliminating `dw` leaves `A diag(t) A^T + S`;
this is singular at a vertex but for `B`, so a multiple of `B B^T` is added, which the last equation allows.

Derived here.
"""

import numpy as np
import scipy.sparse
from scipy.linalg import get_blas_funcs

from ._algebra import cogram, gram, positive_solver
from ._single_precision import SinglePrecision

(_syr,) = get_blas_funcs(("syr",), dtype=float)
# The error of a solve that was factored in single precision; a refinement squares it.
_INEXACT = 1e-6


def single_precision(A, B) -> SinglePrecision:
    """What `newton_system` needs of `A` and `B` to factor in single precision."""
    if A.shape[1] < A.shape[0] and not scipy.sparse.issparse(A):
        return SinglePrecision(np.column_stack([A, B]).T)
    return SinglePrecision(A)


def newton_system(A, B, t, S, e, m, single: SinglePrecision | None = None):
    """A function of `(r, q, k, b, refine)` that returns `(dw, dp, dg, y)`; `None` when the matrix cannot be factored.

    `refine`: one more step with the residual of the whole system, as the eliminations lose digits near the end.
    `single`: factor in single precision; raises `TooInexact` where that does not do, now or when called.
    """
    solve = (_by_columns if A.shape[1] < A.shape[0] else _by_rows)(A, B, t, S, e, m, single)
    if solve is None:
        return None

    def refined(r, q, k, b, refine):
        dw, dp, dg, y = solve(r, q, k, b)
        if not refine:
            return dw, dp, dg, y
        back = dw / t - A.T @ dp
        along = 0.0
        if e is not None:
            back, along = back + e * dg, float(e @ dw) - m * dg
        more = solve(r - back, q - (A @ dw + S * dp + B @ y), k - along, b - B.T @ dp)
        return dw + more[0], dp + more[1], dg + more[2], y + more[3]

    return refined


def _by_columns(A, B, t, S, e, m, single):
    d, scaled = A.shape[1], B / S[:, None]
    if single is None:
        factored = _columns_in_double(A, B, t, S, e, m, scaled)
    else:
        n_y = B.shape[1]
        slope = np.zeros(d) if e is None else e / m

        def times(x):
            dw, y = x[:d], x[d:]
            s = (A @ dw + B @ y) / S
            head = A.T @ s + dw / t
            return np.concatenate([head if e is None else head + slope * float(e @ dw), B.T @ s])

        added = np.concatenate([1 / t, np.zeros(n_y)])
        columns = np.zeros((d + n_y, 0)) if e is None else np.append(e / np.sqrt(m), np.zeros(n_y))[:, None]
        factored = single.weighted(1 / S).solver(times, added, columns, tol=_INEXACT)
    if factored is None:
        return None

    def solve(r, q, k, b):
        head = r + A.T @ (q / S)
        if e is not None:
            head = head + e * (k / m)
        x = factored(np.concatenate([head, scaled.T @ q - b]))
        dw, y = x[:d], x[d:]
        return dw, (q - A @ dw - B @ y) / S, 0.0 if e is None else (float(e @ dw) - k) / m, y

    return solve


def _columns_in_double(A, B, t, S, e, m, scaled):
    d, n = A.shape[1], A.shape[1] + B.shape[1]
    M = np.zeros((n, n))
    M[:d, :d] = cogram(A, 1 / S)
    M.flat[: d * n : n + 1] += 1 / t
    if e is not None:
        M[:d, :d] += np.multiply.outer(e / m, e)
    M[d:, :d], M[d:, d:] = (A.T @ scaled).T, B.T @ scaled
    return positive_solver(M, n_refine=0)


def _by_rows(A, B, t, S, e, m, single):
    last = None if e is None else -(A @ (t * e))
    corner = m if e is None else m + float(t @ (e * e))
    if single is None:
        M = gram(A, t)
        M.flat[:: len(M) + 1] += S
        bordered = bordered_solver(M, B, last, corner)
        if bordered is None:
            return None
    else:
        weighted = single.weighted(t)
        weights = _weights(B, weighted.diagonal + S)

        def times(x):
            return A @ (t * (A.T @ x)) + S * x + B @ (weights * (B.T @ x))

        factored = weighted.solver(times, S, B * np.sqrt(weights), tol=_INEXACT)
        bordered = _bordered(factored, weights, B, last, corner)

    def solve(r, q, k, b):
        dp, y, dg = bordered(q - A @ (t * r), b, 0.0 if e is None else float(e @ (t * r)) - k)
        back = r + A.T @ dp
        return t * (back if e is None else back - e * dg), dp, dg, y

    return solve


def bordered_solver(M, B, last=None, m=0.0):
    """Solver of `M x + B y + last z = q`, `B^T x = b`, `last.x - m z = k` as a function of `(q, b, k)`, or `None`.

    `M` is positive semi-definite, definite where `B^T x = 0`; its lower triangle is read, and overwritten.
    """
    weights = _weights(B, M.diagonal())
    for weight, column in zip(weights, B.T, strict=True):
        M = _syr(weight, column, lower=0, a=M.T, overwrite_a=1).T
    factored = positive_solver(M, n_refine=0)
    return None if factored is None else _bordered(factored, weights, B, last, m)


def _weights(B, diagonal):
    """Those that make `B B^T` about as large as `M` on the rows of least diagonal, which are the active ones."""
    return 1 / (B * B / diagonal[:, None]).sum(axis=0)


def _bordered(factored, weights, B, last, m):
    """The solver of the bordered system from one of `M + B diag(weights) B^T`."""
    border = B if last is None else np.column_stack([B, last])
    solved = factored(border)
    corner = border.T @ solved
    if last is not None:
        corner[-1, -1] -= m

    def solve(q, b, k=0.0):
        x = factored(q + B @ (weights * b))
        right = border.T @ x - (b if last is None else np.append(b, k))
        # Not finite, LAPACK would complain on standard output; the step that comes out is then refused.
        finite = np.isfinite(corner).all() and np.isfinite(right).all()
        y = np.linalg.lstsq(corner, right, rcond=None)[0] if finite else np.full(len(right), np.nan)
        return x - solved @ y, y[: B.shape[1]], 0.0 if last is None else float(y[-1])

    return solve
