"""Positive definite systems factored in single precision and solved in double, at half the price of a factorisation.

    M = A diag(t) A^T + diag(D) + V V^T,     t >= 0,  D >= 0,

is formed and factored in single precision, scaled to unit diagonal before it is rounded, so that nothing overflows. The
factor preconditions conjugate gradients in double with `M` itself, which is never formed: each iteration gains as many
digits as single precision leaves beside the condition of `M`. Where too few are left, the caller must turn to double.

Source: mixed precision with iterative refinement (Carson and Higham 2018), here by conjugate gradients.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse
from jaxtyping import Float
from scipy.linalg import get_blas_funcs, get_lapack_funcs

_syrk, _syr, _trsv = get_blas_funcs(("syrk", "syr", "trsv"), dtype=np.float32)
(_potrf,) = get_lapack_funcs(("potrf",), dtype=np.float32)
# Below this many rows or columns the iterations cost what the factorisation saves.
_LEAST = 500
# Iterations that still cost less than what a factorisation saves.
_MOST_ITERATIONS = 8


class TooInexact(ArithmeticError):
    """Single precision does not do for this system."""


class SinglePrecision:
    """A dense `A` in single precision. `usable` is set to false by whoever found that it does not do any more."""

    def __init__(self, A):
        self.usable = not scipy.sparse.issparse(A) and min(A.shape) >= _LEAST
        self._A = A.astype(np.float32) if self.usable else None

    def weighted(self, t: Float[np.ndarray, " d"]) -> "WeightedGram":
        """`A diag(t) A^T`, to be factored with what is added to it."""
        assert self._A is not None
        return WeightedGram(self._A, t)


class WeightedGram:
    """`A diag(t) A^T` with its `diagonal` (n)."""

    def __init__(self, A: np.ndarray, t):
        self._largest = float(t.max())
        self._root = A * np.sqrt(t / self._largest).astype(np.float32)
        self.diagonal = self._largest * np.einsum("ij,ij->i", self._root, self._root).astype(float)

    def solver(
        self, times: Callable[[np.ndarray], np.ndarray], D, V: Float[np.ndarray, "n r"], *, tol: float
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Solver of `M x = r` (`r` a vector or columns) to the relative error `tol` in the norm of `M`; only once.

        `times`: the product with `M`, in double. It raises `TooInexact`, and so does the solver.
        """
        unit = 1 / np.sqrt(self.diagonal + D + (V * V).sum(1))
        scale = (np.sqrt(self._largest) * unit).astype(np.float32)
        if not np.isfinite(scale).all():
            raise TooInexact
        root, self._root = self._root, None
        assert root is not None
        root *= scale[:, None]
        # Whichever way it is stored, BLAS sees it without a copy.
        H = _syrk(1.0, root.T, trans=1, lower=0) if root.flags.c_contiguous else _syrk(1.0, root, lower=0)
        H.T.flat[:: len(unit) + 1] += (D * unit * unit).astype(np.float32)
        for column in (unit[:, None] * V).T:
            H = _syr(1.0, column.astype(np.float32), lower=0, a=H, overwrite_a=1)
        factor, failed = _potrf(H, lower=0, clean=0, overwrite_a=1)
        if failed:
            raise TooInexact

        def nearly(r):
            y = unit * r
            size = np.abs(y).max()
            y = (y / size).astype(np.float32)
            y = _trsv(factor, _trsv(factor, y, trans=1, overwrite_x=1), overwrite_x=1)
            return unit * (size * y.astype(float))

        def solve(r):
            if r.ndim == 1:
                return _conjugate_gradients(times, nearly, r, tol)
            return np.column_stack([_conjugate_gradients(times, nearly, column, tol) for column in r.T])

        return solve


def _conjugate_gradients(times, nearly, r, tol):
    """`M x = r` with the preconditioner `nearly`, until the norm of the error is about `tol` times that of `x`."""
    x = np.zeros_like(r)
    if not r.any():
        return x
    p = nearly(r)
    rho = first = r @ p
    for _ in range(_MOST_ITERATIONS):
        q = times(p)
        step = rho / (p @ q)
        x, r = x + step * p, r - step * q
        if not r.any():
            return x
        z = nearly(r)
        rho, last = r @ z, rho
        if rho <= tol**2 * first:
            return x
        p = z + (rho / last) * p
    raise TooInexact
