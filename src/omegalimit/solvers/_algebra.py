"""Linear algebra of the methods: weighted Gram matrices of dense or sparse rows, and a Cholesky solver that refines."""

from collections.abc import Callable

import numpy as np
import scipy.sparse
from jaxtyping import Float
from scipy.linalg import get_blas_funcs, get_lapack_funcs

_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=float)
_symv, _syrk = get_blas_funcs(("symv", "syrk"), dtype=float)


def gram(A, h: Float[np.ndarray, " d"]) -> Float[np.ndarray, "N N"]:
    """`A diag(h) A^T` for `h >= 0`, as a dense array whose lower triangle alone is filled; `A` is dense or sparse."""
    if scipy.sparse.issparse(A):
        return (A.multiply(h[None, :]) @ A.T).toarray()
    B = A * np.sqrt(h)
    # B is stored by rows, so that B.T is what BLAS sees without a copy; its upper triangle is our lower one.
    return _syrk(1.0, B.T, trans=1, lower=0).T


def cogram(A, h: Float[np.ndarray, " N"]) -> Float[np.ndarray, "d d"]:
    """`A^T diag(h) A` for `h >= 0`, as a dense array whose lower triangle alone is filled; `A` is dense or sparse."""
    if scipy.sparse.issparse(A):
        return (A.T @ A.multiply(h[:, None])).toarray()
    B = A * np.sqrt(h)[:, None]
    return _syrk(1.0, B.T, trans=0, lower=0).T


def positive_solver(
    H: Float[np.ndarray, "n n"], *, n_refine: int = 1, largest: float = 1e-9
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Solver of `H x = r` (`r` a vector or columns) for a positive definite `H`, of which the lower triangle is read.

    `H` (row-major) is scaled to unit diagonal in place. When it cannot be factored, a multiple of the identity up to
    `largest` is added and `n_refine` rises to 3 steps of refinement with the matrix as it was. `None` when that fails.
    """
    diagonal = H.diagonal().copy()
    if not (np.isfinite(diagonal).all() and diagonal.min() > 0):
        return None
    unit = 1 / np.sqrt(diagonal)
    H *= unit
    H *= unit[:, None]
    n, added = len(H), 0.0
    H.flat[:: n + 1] = 1.0
    factor, failed = _potrf(H.T, lower=0, clean=0)
    while failed and added < largest:
        added = max(1e-15, 10 * added)
        H.flat[:: n + 1] = 1.0 + added
        factor, failed = _potrf(H.T, lower=0, clean=0)
    if failed:
        return None
    H.flat[:: n + 1] = 1.0
    n_steps = max(n_refine, 3) if added else n_refine

    def solve(r):
        scale = unit if r.ndim == 1 else unit[:, None]
        y = scale * r
        x = _potrs(factor, y, lower=0)[0]
        for _ in range(n_steps):
            x = x + _potrs(factor, y - times(x), lower=0)[0]
        return scale * x

    def times(x):
        if x.ndim == 1:
            return _symv(1.0, H.T, x, lower=0)
        return np.column_stack([_symv(1.0, H.T, column, lower=0) for column in x.T])

    return solve
