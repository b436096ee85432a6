"""The steps of gradient descent on a separable loss, in the coordinates of the rows or of the weights.

`eta ZZ'` comes in the matrix itself, so that a step is `a <- a + c s(K a)` with `alpha = eta a`. Each function fills
its outputs (margins and a at the marks) up to where the run leaves the range of doubles.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_blas_funcs
from scipy.special import expit

TOGETHER = 160  # rows up to which data sets of a batch step together: one product is shorter than the call for it
CACHE = 2**20  # bytes of the matrices that do
_TINY = float(np.finfo(float).tiny)
_DENSE = 64  # rows below which all eigenvalues are cheaper than the largest one alone
(_symv,) = get_blas_funcs(("symv",), dtype=float)


def _exponential_slope(m: np.ndarray, out: np.ndarray) -> np.ndarray:
    return np.exp(np.negative(m, out=out), out=out)


def _logistic_slope(m: np.ndarray, out: np.ndarray) -> np.ndarray:
    return expit(np.negative(m, out=out), out=out)


SLOPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "logistic": _logistic_slope,
    "exponential": _exponential_slope,
}


def scaled_problem(rows, is_gram, dual, c, eta, of) -> tuple[np.ndarray, float, float, np.ndarray]:
    """`eta ZZ'`, or for primal coordinates Z, in units in which no entry is above 1; eta in these units; eta; `|z_i|`.

    At scale one neither a Gram matrix nor a product leaves the range of doubles, whatever the user's units are.
    """
    unit = float(np.abs(rows).max())
    if unit == 0:
        raise ValueError(f"every row {of}is zero: there is nothing to learn from.")
    scaled = rows / unit
    if is_gram:
        lengths = np.sqrt(unit) * np.sqrt(np.maximum(scaled.diagonal(), 0.0))
    else:
        lengths = unit * np.linalg.norm(scaled, axis=1)
    K = scaled if is_gram else (scaled @ scaled.T if dual else None)
    if eta is None:
        root = np.sqrt(c)[:, None]
        largest = _largest_eigenvalue(root * scaled if K is None else root * K * root.T, K is None)
        if not largest > 0:
            raise ValueError("every row of positive weight is zero: there is nothing to learn from.")
        unit_step = 4 / largest
        eta = unit_step / unit if is_gram else unit_step / unit / unit
    else:
        eta = float(eta)
        unit_step = eta * unit if is_gram else eta * unit * unit
    if not all(_TINY <= step < np.inf for step in (unit_step, eta)):
        name = "`gram`" if is_gram else "`Z`"
        raise ValueError(
            f"with entries up to {unit:g} in {name} {of}the step size leaves the range of doubles, here or in units of "
            f"the largest entry; divide {name} by its largest entry."
        )
    if K is None:
        return scaled, unit_step, eta, lengths
    K *= unit_step
    return K, unit_step, eta, lengths


def steps_together(K, c, marks, slope, margins, alpha) -> None:
    """As `dual_steps` for matrices (B, n, n) so small that a step costs less than the calls that it takes."""
    a, c, done = np.zeros((*c.shape, 1)), c[..., None], 0
    m, s = np.zeros_like(a), np.empty_like(a)
    with np.errstate(over="ignore", invalid="ignore"):
        for i, mark in enumerate(marks):
            for _ in range(int(mark) - done):
                slope(m, s)
                s *= c
                a += s
                np.matmul(K, a, out=m)
            done = int(mark)
            inside = np.isfinite(m).all(axis=(1, 2))
            if not inside.any():
                return
            margins[inside, i], alpha[inside, i] = m[inside, :, 0], a[inside, :, 0]


def dual_steps(K, c, marks, slope, margins, alpha) -> None:
    """The iteration on `a = alpha / eta`; `K` holds `eta ZZ'`. Filled up to where it leaves the range of doubles."""
    # A symmetric matrix is its transpose: in Fortran's order without a copy, and one triangle is read.
    K, a, s, done = K.T, np.zeros(len(c)), np.empty(len(c)), 0
    m = np.zeros(len(c))
    with np.errstate(over="ignore", invalid="ignore"):
        for i, mark in enumerate(marks):
            for _ in range(int(mark) - done):
                slope(m, s)
                s *= c
                a += s
                m = _symv(1.0, K, a, beta=0.0, y=m, overwrite_y=1, lower=1)
            done = int(mark)
            if not np.isfinite(m).all():
                return
            margins[i], alpha[i] = m, a


def primal_steps(Z, step, c, marks, slope, margins, alpha) -> None:
    """The iteration on w itself, in the scaled units; the coordinates are summed beside it."""
    w, a, s, done = np.zeros(Z.shape[1]), np.zeros(len(c)), np.empty(len(c)), 0
    m = np.zeros(len(c))
    with np.errstate(over="ignore", invalid="ignore"):
        for i, mark in enumerate(marks):
            for _ in range(int(mark) - done):
                slope(m, s)
                s *= c
                a += s
                w += step * (s @ Z)
                np.dot(Z, w, out=m)
            done = int(mark)
            if not np.isfinite(m).all():
                return
            margins[i], alpha[i] = m, a


def dual_is_less_work(n: int, d: int, n_steps: int) -> bool:
    """Numbers read: a triangle of `ZZ'` a step, or the rows twice; `ZZ'` itself is made at eight times that pace."""
    return n_steps * n / 2 + n * d / 16 <= n_steps * 2 * d


def _largest_eigenvalue(A: np.ndarray, of_rows: bool) -> float:
    """Of the positive semidefinite matrix A, to rounding; with `of_rows`, of `A'A`."""
    from scipy.linalg import eigvalsh
    from scipy.sparse.linalg import ArpackError, eigsh

    K = A if not of_rows else (A @ A.T if A.shape[0] <= A.shape[1] else A.T @ A)
    if len(K) > _DENSE:
        # Any start but one orthogonal to the eigenvector will do; a fixed one gives the same digits every time.
        start = np.random.default_rng(0).standard_normal(len(K))
        try:
            return float(eigsh(K, k=1, which="LA", v0=start, return_eigenvectors=False)[0])
        except ArpackError:  # no convergence: clustered eigenvalues
            pass
    return float(eigvalsh(K, subset_by_index=[len(K) - 1, len(K) - 1], check_finite=False)[0])
