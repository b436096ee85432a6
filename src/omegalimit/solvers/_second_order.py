"""Columns in groups: the second-order cones `|w_g|_2 <= t_g`, their scaling, and Newton's system in three forms.

For `x_g = (t_g, w_g)` and `z_g = (tau, -g_g)` the scaling of Nesterov and Todd is `x_g = W_g^2 z_g` with
`W_g^2 = eta^2 (2 v v^T - J)`, `v = (v0, u)`, `J = diag(1, -1, ..., -1)`. Its block for `w_g` is
`M_g = eta_g^2 (I + 2 u_g u_g^T)`, and Newton's system, for rows with slack `s` and multipliers `p`, is

    dw = q + M A^T x,   A dw + a y + (s / p) x = r,   a.x = e.

Three ways, cheapest first: `A M A^T + diag(s / p)` (rows), `M^-1 + A^T diag(p / s) A` (columns; Woodbury's identity),
and the indefinite matrix of both together, whose condition is not squared. `M^(1/2)` is a rank-one change of `eta_g I`
too, so the first costs one symmetric product.

Sources: Nesterov and Todd (1997); Vandenberghe's notes on the cone programs of CVXOPT for the formulas of one cone. The
forms of the system are derived here.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from ._algebra import cogram, gram, positive_solver

_sytrf, _sytrs = get_lapack_funcs(("sytrf", "sytrs"), dtype=float)
(_syrk,) = get_blas_funcs(("syrk",), dtype=float)

# Entries of a block of rows, about a megabyte, that stays in the cache.
_BLOCK = 200_000


def _no_zeros(sizes):
    """Sizes of rows; with an intercept a row may be zero, and counts as one of the smallest."""
    return np.where(sizes > 0, sizes, sizes[sizes > 0].min(initial=np.inf) if np.any(sizes > 0) else 1.0)


class Problem:
    """The rows, each divided by its size, with columns in the order of their groups.

    `A w + a b >= h`, `h_k = 1 / |A_k|` up to one factor for all, `a = c h`: the same problem, better conditioned.
    """

    A: Any  # dense or sparse

    def __init__(self, A, c: Float[np.ndarray, " N"] | None, groups: Int[np.ndarray, " d"]):
        self.groups = groups = np.asarray(groups)
        self.order = np.argsort(groups, kind="stable")
        labels = groups[self.order]
        self.starts = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
        self.of = np.repeat(np.arange(len(self.starts)), np.diff(np.r_[self.starts, len(labels)]))
        self.raw, self.c, self.sparse = A, c, scipy.sparse.issparse(A)
        A = A[:, self.order]
        # The largest entry first, so that no square of a small row underflows.
        if self.sparse:
            self.sizes = _no_zeros(abs(A).max(axis=1).toarray().ravel())
            A = scipy.sparse.diags_array(1 / self.sizes) @ A
            norms = _no_zeros(np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel()))
            self.A = scipy.sparse.csr_array(scipy.sparse.diags_array(1 / norms) @ A)
        else:
            self.sizes = _no_zeros(np.abs(A).max(axis=1))
            A = A / self.sizes[:, None]
            norms = _no_zeros(np.linalg.norm(A, axis=1))
            self.A = np.ascontiguousarray(A / norms[:, None])
        self.sizes = self.sizes * norms
        self.h = self.sizes.min() / self.sizes
        self.a = None if c is None else c * self.h

    def total(self, v):
        """The sum over each group, of a vector or of each row."""
        return np.add.reduceat(v, self.starts, axis=-1)

    def norms(self, v: Float[np.ndarray, " d"]) -> Float[np.ndarray, " G"]:
        # Rows may be so small that squares of what they combine to underflow.
        largest = np.abs(v).max()
        if not largest > 0:
            return np.zeros(len(self.starts))
        v = v / largest
        return largest * np.sqrt(self.total(v * v))

    def blocks(self) -> list[slice]:
        """The columns of each group."""
        edges = [*self.starts.tolist(), len(self.of)]
        return [slice(start, end) for start, end in pairwise(edges)]


class Cone:
    """The scaling of Nesterov and Todd at `(t, w)`, `(tau, -g)`, for all groups at once.

    `eta`, `(v0, u)`: the scaling point; `(l0, l1)`: the scaled variable, `W^-1 x = W z`.
    """

    def __init__(self, problem: Problem, *, t, w, tau: float, g):
        self._total, self._of = problem.total, problem.of
        of = self._of
        w_size, g_size = problem.norms(w), problem.norms(g)
        x_det, z_det = np.sqrt((t - w_size) * (t + w_size)), np.sqrt((tau - g_size) * (tau + g_size))
        # t tau - w.g cancels near the optimum; this sum of non-negative terms does not.
        tiny = np.finfo(float).tiny
        turn = w / np.maximum(w_size, tiny)[of] - g / np.maximum(g_size, tiny)[of]
        angle = self._total(turn * turn) / 2
        self.complementarity = (t - w_size) * tau + w_size * (tau - g_size) + w_size * g_size * angle
        gamma = np.sqrt((1 + self.complementarity / (x_det * z_det)) / 2)
        x0, x1, z0, z1 = t / x_det, w / x_det[of], tau / z_det, -g / z_det[of]
        self.eta = np.sqrt(x_det / z_det)
        self.u = (x1 - z1) / (2 * gamma)[of]
        self.square = self._total(self.u * self.u)
        self.v0 = np.sqrt(1 + self.square)
        size = np.sqrt(x_det * z_det)
        self.det = size * size
        self.l0 = size * gamma
        self.l1 = (size / (x0 + z0 + 2 * gamma))[of] * ((gamma + z0)[of] * x1 + (gamma + x0)[of] * z1)

    def scale(self, y0, y1):
        """`W y`."""
        along = self._total(self.u * y1)
        return self.eta * (self.v0 * y0 + along), self.eta[self._of] * (
            y1 + (y0 + along / (1 + self.v0))[self._of] * self.u
        )

    def unscale(self, y0, y1):
        """`W^-1 y`."""
        along = self._total(self.u * y1)
        return (self.v0 * y0 - along) / self.eta, (y1 + (along / (1 + self.v0) - y0)[self._of] * self.u) / self.eta[
            self._of
        ]

    def M(self, y1):
        return (self.eta**2)[self._of] * (y1 + (2 * self._total(self.u * y1))[self._of] * self.u)

    def inverse_M(self, y1):
        along = self._total(self.u * y1) * 2 / (1 + 2 * self.square)
        return (y1 - along[self._of] * self.u) / (self.eta**2)[self._of]

    def beside(self, y1):
        """What `W^2` makes of `(0, M^-1 y1)` in `t`: from `y1`, since the large `M` would magnify rounding in `z`."""
        return 2 * self.v0 * self._total(self.u * y1) / (1 + 2 * self.square)

    def divide(self, r0, r1):
        """The `y` whose Jordan product with the scaled variable is `r`."""
        y0 = (self.l0 * r0 - self._total(self.l1 * r1)) / self.det
        return y0, (r1 - y0[self._of] * self.l1) / self.l0[self._of]

    def longest(self, y0, y1) -> float:
        """The largest step along `y`, in scaled variables, that stays in the cones."""
        size = np.sqrt(self.det)
        n0, n1 = self.l0 / size, self.l1 / size[self._of]
        rho0 = (n0 * y0 - self._total(n1 * y1)) / size
        rho1 = (y1 - ((rho0 * size + y0) / (1 + n0))[self._of] * n1) / size[self._of]
        worst = (np.sqrt(self._total(rho1 * rho1)) - rho0).max()
        return 1 / worst if worst > 0 else np.inf


def by_rows(problem, cone, diagonal):
    """Solver of `dw = q + M A^T x`, `A dw + a y + diagonal x = r`, `a.x = e` for `(x, dw, y)` from its N x N matrix.

    Of the three of them the cheapest; `None` when the factorisation fails.
    """
    A, a, of = problem.A, problem.a, problem.of
    eta, u = cone.eta[of], cone.u
    if problem.sparse:
        H = gram(A, eta**2)
        U = scipy.sparse.csr_array((u, (np.arange(len(of)), of)), shape=(len(of), len(cone.eta)))
        H += gram(A @ U, 2 * cone.eta**2)
    else:
        # With many columns, passes over all of the memory would cost as much as the product.
        bend = 2 / (1 + np.sqrt(1 + 2 * cone.square))
        B, lift, n_rows = np.empty_like(A), eta * u, max(1, _BLOCK // A.shape[1])
        for start in range(0, len(A), n_rows):
            rows, out = A[start : start + n_rows], B[start : start + n_rows]
            along = np.add.reduceat(np.multiply(rows, u, out=out), problem.starts, axis=1)
            along *= bend
            np.multiply(along[:, of], lift, out=out)
            out += rows * eta
        H = _syrk(1.0, B.T, trans=1, lower=0).T
    H.flat[:: len(H) + 1] += diagonal
    inverse = positive_solver(H)
    if inverse is None:
        return None
    column = None if a is None else inverse(a)

    def solve(q, r, e):
        x, y = inverse(r - A @ q), 0.0
        if column is not None:
            y = (a @ x - e) / (a @ column)
            x = x - y * column
        return x, q + cone.M(A.T @ x), y

    return solve


def by_columns(problem, cone, diagonal):
    """The same from the `d x d` matrix, for many rows.

    Refined by the equations for `dw` and `y`, whose right-hand sides are `A^T x` and `a.x`: `x` changes by what the
    change of `dw` makes of it. Computed afresh, as `r - A dw` over an `s / p` that vanishes, it would be rounding.
    """
    A, a, of, d = problem.A, problem.a, problem.of, problem.A.shape[1]
    K = np.zeros((d + (a is not None),) * 2)
    K[:d, :d] = cogram(A, 1 / diagonal)
    weight = 1 / cone.eta**2
    fold = 2 * weight / (1 + 2 * cone.square)
    for group, here in enumerate(problem.blocks()):
        K[here, here] -= fold[group] * np.outer(cone.u[here], cone.u[here])
    K.flat[: d * len(K) : len(K) + 1] += weight[of]
    if a is not None:
        K[d, :d], K[d, d] = A.T @ (a / diagonal), a @ (a / diagonal)
    inverse = positive_solver(K)
    if inverse is None:
        return None

    def solve(q, r, e):
        force = cone.inverse_M(q)
        dw, y, x = np.zeros(d), 0.0, r / diagonal
        for _ in range(2):
            change = force - cone.inverse_M(dw) + A.T @ x
            if a is None:
                change = inverse(change)
                dw, x = dw + change, x - A @ change / diagonal
            else:
                change = inverse(np.r_[change, a @ x - e])
                dw, y = dw + change[:-1], y + change[-1]
                x = x - (A @ change[:-1] + a * change[-1]) / diagonal
        return x, dw, y

    return solve


def by_both(problem, cone, diagonal):
    """The same from the indefinite matrix of `(dw, x, y)`, whose condition is not squared: slower, for what is left."""
    A, a, of = problem.A, problem.a, problem.of
    N, d = A.shape
    size = d + N + (a is not None)
    K = np.zeros((size, size))
    weight = 1 / cone.eta**2
    fold = 2 * weight / (1 + 2 * cone.square)
    for group, here in enumerate(problem.blocks()):
        K[here, here] = fold[group] * np.outer(cone.u[here], cone.u[here])
    K.flat[: d * size : size + 1] -= weight[of]
    K[d : d + N, :d] = A.toarray() if problem.sparse else A
    K.flat[d * (size + 1) : (d + N) * (size + 1) : size + 1] = diagonal
    if a is not None:
        K[-1, d : d + N] = a
    inverse = symmetric_solver(K)
    if inverse is None:
        return None

    def solve(q, r, e):
        right = np.r_[-cone.inverse_M(q), r]
        x = inverse(right if a is None else np.r_[right, e])
        return x[d : d + N], x[:d], 0.0 if a is None else x[-1]

    return solve


def symmetric_solver(K: Float[np.ndarray, "n n"], *, shift: float | np.ndarray = 0.0, n_refine: int = 1):
    """Solver of `K x = r` for a symmetric `K`, of which the lower triangle is read; `None` when it is singular.

    The matrix is scaled so that the largest entry of each row is near one, `shift` is added to its diagonal, and the
    solution refined with the matrix without the shift.
    """
    K = np.tril(K) + np.tril(K, -1).T
    unit = np.ones(len(K))
    for _ in range(3):
        largest = (np.abs(K) * unit * unit[:, None]).max(axis=1)
        unit /= np.sqrt(np.where(largest > 0, largest, 1.0))
    K *= unit
    K *= unit[:, None]
    if not np.isfinite(K).all():
        return None
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += shift
    factor, pivots, info = _sytrf(shifted, lower=1)
    if info != 0:
        return None

    def solve(r):
        r = unit * r
        x = _sytrs(factor, pivots, r, lower=1)[0]
        for _ in range(n_refine):
            x = x + _sytrs(factor, pivots, r - K @ x, lower=1)[0]
        return unit * x

    return solve
