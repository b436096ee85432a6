"""The linear system of a Newton step for spectral functions.

    C u + D x + E y = rest,   u = C^T x - pulled,   E^T x = off

with the rows `C_k = L^T A_k` (`S = L L^T` of `_spectral_metric`), a diagonal `D > 0` and one or two columns `E`.
Eliminating `u` leaves `C C^T + D`, which squares a condition that grows without bound on the way to the optimum: at a
margin of 1e-9, or with more constraints than entries of `W`, nothing is left. The careful way solves the same equations
as least squares by orthogonal factors,

    min |C^T x - pulled|^2 + |D^(1/2) x - D^(-1/2) rest|^2    or    min |u + pulled|^2 + |D^(-1/2) (rest - C u)|^2,

whichever has fewer unknowns; `u` and `x` of the other are its residuals, so that both keep their digits.

Derived here.
"""

import numpy as np
from scipy.linalg import get_lapack_funcs, qr

from ..limits.constraints import Factors, Matrices
from ._algebra import positive_solver
from ._spectral_metric import Metric

_ormqr, _trtrs = get_lapack_funcs(("ormqr", "trtrs"), dtype=float)


def newton_system(metric: Metric, constraints: Factors | Matrices, D, E, *, careful: bool):
    """A function of `(pulled, rest, off)` that returns `(x, u, y)`; `None` where no factors exist."""
    plain = (_by_orthogonal_factors if careful else _by_elimination)(metric, constraints, D)
    if plain is None:
        return None
    along, moved = (np.stack(a, -1) for a in zip(*(plain(np.zeros(constraints.shape), e) for e in E.T), strict=True))
    corner = E.T @ along

    def bordered(pulled, rest, off):
        x, u = plain(pulled, rest)
        y = np.linalg.lstsq(corner, E.T @ x - off, rcond=None)[0]
        return x - along @ y, u - moved @ y, y

    return bordered


def _by_elimination(metric, constraints, D):
    H = metric.gram(constraints)
    H.flat[:: len(H) + 1] += D
    factored = positive_solver(H)
    if factored is None:
        return None

    def plain(pulled, rest):
        x = factored(rest + constraints.margins(metric.push(pulled)))
        return x, metric.pull(constraints.combine(x)) - pulled

    return plain


def _by_orthogonal_factors(metric, constraints, D):
    """`min |C^T x - pulled|^2 + |D^(1/2) x - D^(-1/2) rest|^2`, or as `u` and `x` have it the other way round."""
    N, (m, n) = constraints.n_constraints, constraints.shape
    C, root = metric.rows(constraints), np.sqrt(D)
    few = m * n >= N
    M = np.vstack([C.T, np.diag(root)] if few else [C / root[:, None], np.eye(m * n)])
    factors, tau = qr(M, mode="raw", check_finite=False)[0]
    width = M.shape[1]

    def rotate(f, trans):
        return _ormqr("L", trans, factors, tau, f[:, None], 64)[0][:, 0]

    def plain(pulled, rest):
        f = [pulled.reshape(-1), rest / root] if few else [rest / root, -pulled.reshape(-1)]
        c = rotate(np.concatenate(f), "T")
        x = _trtrs(factors[:width], c[:width])[0]
        c[:width] = 0
        left = rotate(c, "N")
        if few:
            return x, -left[: m * n].reshape(m, n)
        return left[:N] / root, x.reshape(m, n)

    return plain
