"""Rows at scale one, and the decomposition of some of them: what a choice among shifts works on.

`X` and `y` are divided by powers of two, which rounds nothing, so that no square of theirs leaves the range of doubles
and no digit depends on units. With more columns than rows `X = R'Q'` with Q of n orthonormal columns, once for all
folds, which then work on n numbers a row instead of d. Weights `c` make means, `S = X'CX / sum c` and errors weighted;
a row of weight k is as k rows.
"""

import dataclasses
import math

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_finite, check_ndim, check_same_length, to_float64
from .._threads import one_blas_thread
from ..limits.spectral_filters import flow_blocks, flow_filter

_EPS = float(np.finfo(float).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ShiftedFit:
    """Negative-shifted descent with one shift and one time, on `n` rows.

    - `nu`, `t`: the shift and the stopping time (may be infinite), in units of `S = X'CX / sum c` and of its inverse.
    - `coef`: coefficients, shape (d,); `intercept`: `ybar - xbar'coef`, or 0 without one.
    - `eigenvalues`: of `S` on the rows that were fitted, resolved ones only, descending, shape (r,); `filter`: what is
      made of the ridgeless coefficient on each, (r,).
    - `ridgeless`: coefficients of the least-norm least-squares fit on the same rows, (d,).
    - `n`: rows fitted (each counts once, however heavy); `unresolved`: eigenvalues at the level of rounding, whose
      directions were left out.
    """

    nu: float
    t: float
    coef: Float[np.ndarray, " d"]
    intercept: float
    eigenvalues: Float[np.ndarray, " r"]
    filter: Float[np.ndarray, " r"]
    ridgeless: Float[np.ndarray, " d"]
    n: int
    unresolved: Float[np.ndarray, " k"]


class ScaledRows:
    """`X` and `y` divided by powers of two, so that their largest entries lie in [1, 2); columns merged when d > n.

    `c`: the weights over the largest of them; ones without any.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike, *, intercept: bool, weights: ArrayLike | None = None):
        X, y = to_float64(X, "X")[0], to_float64(y, "y")[0]
        check_ndim(X, "X", axes="n, d")
        check_ndim(y, "y", axes="n")
        check_same_length(X, y, ("X", "y"), axes=(0, 0), what="rows")
        check_finite(X, "X")
        check_finite(y, "y")
        self.n, self.d = X.shape
        if self.n < 2 or self.d < 1:
            raise ValueError(f"`X` has shape {X.shape}; there must be two rows and a column at least.")
        self.c = np.ones(self.n) if weights is None else _weights(weights, X)
        self.intercept = intercept
        self.x_power, self.y_power = _power(X), _power(y)
        self.X, self.y = np.ldexp(X, -self.x_power), np.ldexp(y, -self.y_power)
        self.basis = None
        if self.d > 1.2 * self.n:  # X = R'Q' with Q of n columns: every fold works on rows of n numbers instead of d
            with one_blas_thread():
                self.basis, R = np.linalg.qr(self.X.T)
            self.X = np.ascontiguousarray(R.T)
        # The square of what rounding leaves of a residual: differences below are none.
        self.rounding = (self.n * _EPS * float(np.abs(self.y).max())) ** 2

    def check_squares(self) -> None:
        """Refuse a `y` whose mean square is no double: errors would be infinite, or zero."""
        if not abs(2 * self.y_power) <= 1020:
            raise ValueError(
                "squares of `y` leave the range of doubles, and mean squared errors with them; divide `y` by its "
                "largest entry."
            )

    def weight(self, rows: np.ndarray) -> float:
        """How much these rows count, in units of the heaviest row: their number, when all are alike."""
        return float(self.c[rows].sum())

    def part(self, rows: np.ndarray) -> "Part":
        return Part(self, rows)

    def shift_in_units(self, nu):
        return moved(nu, 2 * self.x_power, "shift")

    def time_in_units(self, t):
        return moved(t, -2 * self.x_power, "time")

    def square_in_units(self, square):
        with np.errstate(over="ignore"):  # errors near the largest double are as good as infinite
            return np.ldexp(square, 2 * self.y_power)

    def in_units(self, fit: ShiftedFit) -> ShiftedFit:
        power = self.y_power - self.x_power
        with np.errstate(over="ignore", invalid="ignore"):
            coef, ridgeless = (
                np.ldexp(b if self.basis is None else self.basis @ b, power) for b in (fit.coef, fit.ridgeless)
            )
            intercept = float(np.ldexp(fit.intercept, self.y_power))
            eigenvalues, unresolved = (np.ldexp(m, 2 * self.x_power) for m in (fit.eigenvalues, fit.unresolved))
        return dataclasses.replace(
            fit,
            nu=float(self.shift_in_units(fit.nu)),
            t=float(self.time_in_units(fit.t)),
            coef=coef,
            ridgeless=ridgeless,
            intercept=intercept,
            eigenvalues=eigenvalues,
            unresolved=unresolved,
        )


def _power(array: np.ndarray) -> int:
    """k with the largest entry in [2^k, 2^(k+1)); 0 for zeros."""
    largest = float(np.abs(array).max(initial=0.0))
    return math.frexp(largest)[1] - 1 if largest else 0


def moved(value, power: int, what: str):
    """`value` times 2^power, refused where that leaves the range of doubles."""
    value = np.asarray(value, dtype=float)
    with np.errstate(over="ignore", under="ignore"):
        there = np.ldexp(value, power)
        back = np.ldexp(there, -power)
    if not np.array_equal(back, value):
        raise ValueError(
            f"a {what} in units of `X` leaves the range of doubles, as squares of its entries do; divide `X` by its "
            "largest entry."
        )
    return there


def _weights(weights: ArrayLike, X: np.ndarray) -> Float[np.ndarray, " n"]:
    c = to_float64(weights, "weights")[0]
    check_ndim(c, "weights", axes="n")
    check_same_length(X, c, ("X", "weights"), axes=(0, 0), what="rows")
    check_finite(c, "weights")
    bad = np.flatnonzero(c <= 0)
    if bad.size:
        raise ValueError(
            f"`weights[{bad[0]}]` is {c[bad[0]]:g}; every weight must be positive: leave out rows that do not count."
        )
    i = int(np.argmin(c))
    if c[i] / c.max() < np.finfo(float).tiny:
        raise ValueError(
            f"`weights[{i}]` is {c[i]:g} and the largest is {c.max():g}: their ratio leaves the range of doubles; "
            "leave out rows that do not count."
        )
    return c / c.max()  # a sum of large weights would leave the range of doubles


class Part:
    """The decomposition of some rows: `m` eigenvalues, descending, `c` the ridgeless coefficients along `V`."""

    def __init__(self, data: ScaledRows, rows: np.ndarray):
        self.data, self.n, self.weight = data, rows.size, data.weight(rows)
        X, y, c = data.X[rows], data.y[rows], data.c[rows]
        self.x_mean = c @ X / self.weight if data.intercept else np.zeros(X.shape[1])
        self.y_mean = float(c @ y) / self.weight if data.intercept else 0.0
        X, residual = X - self.x_mean, y - self.y_mean
        if np.abs(residual).max() <= self.n * _EPS * np.abs(y).max():
            residual = np.zeros_like(residual)  # a constant y, and what rounding left of it
        root = np.sqrt(c)
        U, s, V = _decomposed(root[:, None] * X)
        # What centring took away sets the rounding of what it left.
        size = max(float(s.max(initial=0.0)), math.sqrt(self.weight) * float(np.linalg.norm(self.x_mean)))
        kept = s > max(self.n, data.d) * _EPS * size
        m = (s / math.sqrt(self.weight)) ** 2
        reached = min(self.n - data.intercept, data.d)  # beyond, the zeros are of the shape and not of the data
        self.m, self.unresolved = m[kept], m[:reached][~kept[:reached]]
        s, self.V = s[kept], V[kept]
        self.c = (U[:, kept].T @ (root * residual)) / s

    def errors(self, judge: np.ndarray, nus: np.ndarray, ts: np.ndarray) -> tuple[Float[np.ndarray, "a b"], float]:
        """Mean square error of every pair on these rows, and that of the ridgeless fit."""
        root, weight = np.sqrt(self.data.c[judge]), self.data.weight(judge)
        modes = ((self.data.X[judge] - self.x_mean) @ self.V.T) * self.c * root[:, None]
        wanted = (self.data.y[judge] - self.y_mean) * root
        errors = np.empty(nus.size * ts.size)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows, f in flow_blocks(self.m, nus[:, None], ts[None, :]):
                # Where a filter is infinite so is the estimator, even if these rows do not see it.
                off = f @ modes.T - wanted
                errors[rows] = np.einsum("pj,pj->p", off, off) / weight
                errors[rows][~np.isfinite(f).all(axis=1)] = math.inf
        errors[~np.isfinite(errors)] = math.inf
        return errors.reshape(nus.size, ts.size), float(np.sum((modes.sum(axis=1) - wanted) ** 2) / weight)

    def fit(self, nu: float, t: float) -> ShiftedFit:
        f = flow_filter(self.m, nu, t)
        with np.errstate(over="ignore", invalid="ignore"):
            coef = (f * self.c) @ self.V
            intercept = self.y_mean - float(self.x_mean @ coef)
        return ShiftedFit(
            nu=nu,
            t=t,
            coef=coef,
            intercept=intercept,
            eigenvalues=self.m,
            filter=f,
            ridgeless=self.c @ self.V,
            n=self.n,
            unresolved=self.unresolved,
        )


def _decomposed(X: np.ndarray):
    try:
        return scipy.linalg.svd(X, full_matrices=False, check_finite=False)
    except np.linalg.LinAlgError:  # divide and conquer gives up on rare matrices; the older driver does not
        return scipy.linalg.svd(X, full_matrices=False, check_finite=False, lapack_driver="gesvd")
