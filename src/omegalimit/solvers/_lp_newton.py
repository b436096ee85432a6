"""The linear system of a step of the interior point method for lp: one factorisation, then any number of right sides.

With the equations of `lp.py`, `P = alpha / (u - w)`, `Q = beta / (u + w)`, `L = (p - 1) y / u`, the two equations of a
coordinate give `du` in terms of `dw` and leave

    Phi dw - A^T dlam = X + (Q - P) y dkappa / M,       M = L + P + Q,    Phi = (L (P + Q) + 4 P Q) / M > 0,
    A dw + c db - dgamma + D dlam = Y,                  D = s / lam,

so that the matrix to factor is `A Phi^-1 A^T + D` (N by N) or `Phi + A^T D^-1 A` (d by d), whichever is smaller. `Phi`
is a sum of positive terms: nothing cancels, however large the power. The scalars `kappa, gamma, b` are eliminated last,
with a right side each. Derived here.

The matrix is the square of a tall one, which a margin of 1e-6 or less does not survive in double precision: a QR
factorisation of the root then takes the place of Cholesky.
"""

import functools

import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float

from ._algebra import cogram, gram, positive_solver
from ._power import log_norm


class Newton:
    """The factored system at the slacks `x = (s, u - w, u + w)` and their multipliers `z = (lam, alpha, beta)`.

    `care`: 0 is Cholesky, 1 adds a refinement by the residual of the two block equations, 2 is QR with two of them.
    `factored` is false where the matrix could not be; nothing else may be asked then.
    """

    def __init__(self, A, c: Float[np.ndarray, " N"] | None, p: float, *, x, z, care: int):
        self._A, self._c, self._n_refine = A, c, care
        N, d = self._shape = A.shape
        self._wide = d >= N
        self._x, self._z = x, z
        self.u, self.y = (x[N : N + d] + x[N + d :]) / 2, z[N : N + d] + z[N + d :]
        ratio = z[N:] / x[N:]
        self._P, self._Q = ratio[:d], ratio[d:]
        bend, both = (p - 1) * self.y / self.u, self._P + self._Q
        self._M, self._skew = bend + both, self._Q - self._P
        self._phi, self._D = (bend * both + 4 * self._P * self._Q) / self._M, x[:N] / z[:N]
        self._inverse = self._cholesky() if care < 2 else None
        if self._inverse is None:
            self._n_refine, self._inverse = 2, self._triangular()
        self.factored = self._inverse is not None
        if self.factored:
            self._border(p)

    def _cholesky(self):
        N, d = self._shape
        if self._wide:
            H = gram(self._A, 1 / self._phi)
            H.flat[:: N + 1] += self._D
        else:
            H = cogram(self._A, 1 / self._D)
            H.flat[:: d + 1] += self._phi
        return positive_solver(H)

    def _triangular(self):
        """The same matrix as `R^T R`, `R` of a QR factorisation of its root: not squared, at 2.5 times the price."""
        A = self._A.toarray() if scipy.sparse.issparse(self._A) else self._A
        weights, added = (1 / self._phi, self._D) if self._wide else (1 / self._D, self._phi)
        root = np.vstack([np.sqrt(weights)[:, None] * (A.T if self._wide else A), np.diag(np.sqrt(added))])
        if not np.isfinite(root).all():
            return None
        # Rows of very different size: Householder's method keeps the small ones only if they come last.
        root = root[np.argsort(-np.abs(root).max(1), kind="stable")]
        R = np.asarray(scipy.linalg.qr(root, mode="r", overwrite_a=True, check_finite=False)[0])[: root.shape[1]]
        if not np.abs(R.diagonal()).min() > 0:
            return None
        lower = functools.partial(scipy.linalg.solve_triangular, R, trans=1, check_finite=False)
        upper = functools.partial(scipy.linalg.solve_triangular, R, check_finite=False)
        return lambda r: upper(lower(r))

    def _border(self, p):
        """The columns of `kappa`, `gamma` and `b`, and the rows of the equations that determine them."""
        N, d = self._shape
        n_scalars = 2 if self._c is None else 3
        X, Y = np.zeros((d, n_scalars)), np.zeros((N, n_scalars))
        X[:, 0], Y[:, 1] = self._skew * self.y / self._M, 1
        self.log_size = log_norm(self.u, p)
        slope = np.exp(p * (np.log(self.u) - self.log_size)) / self.u  # of log |u|_p
        self._row = slope / self._M
        if self._c is not None:
            Y[:, 2] = -self._c
        self._dw, self._dlam = self._solve(X, Y)
        rows = [-(self._row * self._skew) @ self._dw, self._dlam.sum(0)]
        rows[0][0] -= self._row @ self.y
        if self._c is not None:
            rows.append(self._c @ self._dlam)
        self._corner = np.array(rows)

    def _solve(self, X, Y):
        phi, D = (self._phi, self._D) if X.ndim == 1 else (self._phi[:, None], self._D[:, None])
        dw, dlam = self._once(X, Y, phi, D)
        for _ in range(self._n_refine):
            more, further = self._once(X - phi * dw + self._A.T @ dlam, Y - self._A @ dw - D * dlam, phi, D)
            dw, dlam = dw + more, dlam + further
        return dw, dlam

    def _once(self, X, Y, phi, D):
        assert self._inverse is not None
        if self._wide:
            dlam = self._inverse(Y - self._A @ (X / phi))
            return (X + self._A.T @ dlam) / phi, dlam
        dw = self._inverse(X + self._A.T @ (Y / D))
        return dw, (Y - self._A @ dw) / D

    def direction(self, t, *, margins, forces, curve, sums):
        """`(dx, dz, (dkappa, dgamma, db))` with `x dz + z dx = t` that removes the residuals of the other equations.

        `margins` (N), `forces` (d), `curve` (d): those of (1), (2), (3); `sums`: what `sum lam` and `c.lam` lack.
        """
        N, d = self._shape
        t = t / self._x
        # What would remain of the steps of s, alpha and beta if nothing else moved.
        ds, da, db = self._D * t[:N], t[N : N + d], t[N + d :]
        R = da + db + self.y * curve
        dw, dlam = self._solve(forces - da + db - self._skew * R / self._M, ds - margins)
        right = [-self.log_size - self._row @ R + (self._row * self._skew) @ dw, sums[0] - dlam.sum()]
        if self._c is not None:
            right.append(sums[1] - self._c @ dlam)
        scalars = np.linalg.solve(self._corner, np.array(right))
        dw, dlam = dw + self._dw @ scalars, dlam + self._dlam @ scalars
        du = (R - self.y * scalars[0] - self._skew * dw) / self._M
        dx = np.concatenate([ds - self._D * dlam, du - dw, du + dw])
        dz = np.concatenate([dlam, da - self._P * (du - dw), db - self._Q * (du + dw)])
        return dx, dz, scalars
