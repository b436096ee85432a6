"""Inverse Hessian of a spectral function at `W = u diag(sigma) v^T`: its action, and its form on the constraints.

With `B = u^T A v` (`u` square, no fewer rows than columns) the form is `sum even_ij sym(B)_ij^2 + odd_ij anti(B)_ij^2`
on the square part, `outer_j B_ij^2` on the rows below it, and a rank-one change on the diagonal (Daleckii and Krein).
Written as `S = L L^T` in coordinates `z_ij`, it needs no matrix of size `n1 n2`. A constraint `D_k Z_k^T` becomes
`B_k = (u^T D_k) (v^T Z_k)^T`, a few rows of `L^T A_k` at a time.

Derived here.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs

from ..limits.constraints import Factors, Matrices
from ._spectral_curves import Weights

(_syrk,) = get_blas_funcs(("syrk",), dtype=float)
_TILE = 2**21  # numbers held at once


class Metric:
    """`S = L L^T` at singular vectors `u` (square) and `v`."""

    def __init__(self, u: Float[np.ndarray, "m m"], v: Float[np.ndarray, "n n"], weights: Weights):
        n = len(v)
        self._u, self._v, self._e, self._more = u, v, weights.e, weights.stretch - 1
        even, odd = np.sqrt(weights.even / 2), np.sqrt(weights.odd / 2)
        upper = np.triu(np.ones((n, n), dtype=bool), 1)
        # z_ij = X_ij B_ij + Y_ij B_ji: above the diagonal the symmetric part, below it the antisymmetric one.
        self._X = np.vstack([np.where(upper, even, odd), np.broadcast_to(np.sqrt(weights.outer), (len(u) - n, n))])
        self._Y = np.where(upper, even, -odd)
        i = np.arange(n)
        self._X[i, i], self._Y[i, i] = np.sqrt(2) * even[i, i], 0.0

    def pull(self, R: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
        """`L^T R`."""
        B, n = self._u.T @ R @ self._v, len(self._v)
        z = self._X * B
        z[:n] += self._Y * B[:n].T
        return self._bent(z)

    def push(self, z: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m n"]:
        """`L z`."""
        z, n = self._bent(z.copy()), len(self._v)
        B = self._X * z
        B[:n] += (self._Y * z[:n]).T
        return self._u @ B @ self._v.T

    def _bent(self, z):
        i = np.arange(len(self._v))
        z[i, i] += self._more * (z[i, i] @ self._e) * self._e
        return z

    def gram(self, constraints: Factors | Matrices) -> Float[np.ndarray, "N N"]:
        """`<A_k, S A_l>`; the lower triangle alone is filled."""
        N, (m, n) = constraints.n_constraints, constraints.shape
        H = np.zeros((N, N), order="F")
        step = max(1, _TILE // (N * n))
        rotated = self._rotated(constraints, 0, N)
        for start in range(0, m, step):
            C = self._columns(rotated, start, min(m, start + step)).reshape(N, -1)
            H = _syrk(1.0, C.T, beta=1.0, c=H, trans=1, lower=0, overwrite_c=1)
        return H.T

    def rows(self, constraints: Factors | Matrices) -> Float[np.ndarray, "N mn"]:
        """`L^T A_k`."""
        N, m = constraints.n_constraints, constraints.shape[0]
        return self._columns(self._rotated(constraints, 0, N), 0, m).reshape(N, -1)

    def _rotated(self, constraints, start, stop):
        if isinstance(constraints, Factors):
            return constraints.left[start:stop] @ self._u, constraints.right[start:stop] @ self._v
        return self._u.T @ constraints.matrices[start:stop] @ self._v

    def _columns(self, rotated, start, stop):
        """Rows `start` to `stop` of `L^T A_k`, for all of the rotated constraints."""
        n, last = len(self._v), min(stop, len(self._v))
        X, Y, i = self._X[start:stop], self._Y[start:last], np.arange(start, last)
        if isinstance(rotated, tuple):
            a, b = rotated
            C = (a[:, start:stop, None] * X) * b[:, None, :]
            if last > start:
                C[:, : last - start] += (b[:, start:last, None] * Y) * a[:, None, :n]
            diagonal = a[:, :n] * b
        else:
            C = rotated[:, start:stop] * X
            if last > start:
                C[:, : last - start] += rotated[:, :n, start:last].transpose(0, 2, 1) * Y
            diagonal = np.einsum("kii->ki", rotated[:, :n])
        if last > start:
            along = self._more * ((diagonal * self._X[np.arange(n), np.arange(n)]) @ self._e)
            C[:, i - start, i] += along[:, None] * self._e[start:last]
        return C
