"""Rows at scale one, centred and with a column for the intercept: what descent works on, and the way back to units."""

import math

import numpy as np

from ._softmax_descent import Part, hessian_bound, largest_eigenvalue, start


class DescentRows:
    """The rows at scale one, and what a part of them is trained on and judged by."""

    def __init__(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, *, intercept: bool, centred: bool):
        largest = float(np.abs(X).max(initial=0.0))
        # Powers of two, which round nothing: no square leaves the range of doubles, and no digit depends on units.
        self.power = math.frexp(largest)[1] if largest else 0
        X = np.ldexp(X, -self.power)
        # The largest weight is one first: their sum may leave the range of doubles.
        self.c = weights / weights.max()
        self.c /= self.c.sum()
        self.intercept, self.centred = intercept, centred
        # Parts are centred once more; large means are taken away while all columns are there.
        self.middle = self.c @ X if self.centred else np.zeros(X.shape[1])
        constant = self.centred & (X.min(axis=0) == X.max(axis=0))
        X = np.where(constant, 0.0, X - self.middle)  # what rounding leaves of such a column is no feature
        self.basis = None
        if X.shape[1] > 1.2 * len(X):  # X = R'Q' with Q of n columns: each step then takes n numbers a row, not d
            self.basis, R = np.linalg.qr(X.T)
            X = np.ascontiguousarray(R.T)
        self.X = X
        n_classes = int(codes.max()) + 1
        self.Y = (codes[:, None] == (np.arange(n_classes) if n_classes > 2 else [1])).astype(float)
        X = X - self._centre(np.arange(len(X)))
        size = math.sqrt(largest_eigenvalue(X, self.c))
        self.unit = size or 1.0
        self.bound = hessian_bound(self._with_unit(X), self.c, self.Y.shape[1])

    def share(self, rows: np.ndarray) -> float:
        """Their share of the weights."""
        return float(self.c[rows].sum())

    def step_size(self, given: float | None, least_share: float) -> float:
        if given is None:
            return least_share / self.bound if self.bound else 1.0
        with np.errstate(over="ignore", under="ignore"):
            step = float(np.ldexp(given, 2 * self.power))
        if not 0 < step < math.inf:
            raise ValueError(
                f"`step_size` = {given:g} in units of `X` leaves the range of doubles; divide `X` by its largest entry."
            )
        return step

    def step_in_units(self, step: float) -> float:
        with np.errstate(over="ignore", under="ignore"):
            return float(np.ldexp(step, -2 * self.power))

    def part(self, rows: np.ndarray, *, centred_by: np.ndarray | None = None) -> Part:
        A = self._with_unit(self.X[rows] - self._centre(rows if centred_by is None else centred_by))
        return Part(A=A, Y=self.Y[rows], c=self.c[rows] / self.share(rows))

    def start(self, rows: np.ndarray) -> np.ndarray:
        W = np.zeros((self.X.shape[1] + self.intercept, self.Y.shape[1]))
        if self.intercept:
            W[-1] = start(self.Y[rows], self.c[rows] / self.share(rows)) / self.unit
        return W

    def in_units(self, W: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts for `X` as it came."""
        coef, b = (W[:-1], self.unit * W[-1]) if self.intercept else (W, np.zeros(W.shape[1]))
        b = b - self._centre(train) @ coef
        coef = coef if self.basis is None else self.basis @ coef
        b = b - self.middle @ coef
        with np.errstate(over="ignore", under="ignore"):
            coef = np.ldexp(coef, -self.power)
        if not (np.isfinite(coef).all() and np.isfinite(b).all()):
            raise ValueError(
                "the coefficients leave the range of doubles; take a smaller `step_size`, or divide `X` by its largest "
                "entry."
            )
        return np.ascontiguousarray(coef.T), b

    def _centre(self, rows: np.ndarray) -> np.ndarray:
        if not self.centred:
            return np.zeros(self.X.shape[1])
        return self.c[rows] / self.share(rows) @ self.X[rows]

    def _with_unit(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.full(len(X), self.unit)]) if self.intercept else X
