"""Gradient flow on a linear margin loss in the logarithm of time, from the true start: `t = 0` is at a finite place.

With `v = log(1 + t/t0)` the flow `dw/dt = g(w)` is `dw/dv = t0 e^v g(w)`, exactly, from v = 0 on; `e^v` and the slopes
of the loss are added in logs, so that every row enters with `p_i = t0 e^v c_i (-l'(m_i))`, which stays of the size of
the motion however late it is. Run from a later time T0 on, `t = T0 + t0 (e^v - 1)`, which has the same field. t0 is the
time in which the slope of the loss changes by its own size at the start, or T0 where that is later.

The integrator wants a field without a time: v is one more coordinate, with `dv/dv = 1`.
"""

import math

import numpy as np
from jaxtyping import Float

from ._margin_rows import EPS, MarginRows
from ._stiff import DenseAutonomous


class LogTimeField(DenseAutonomous):
    """The field at `y = (a, v)`, where `w = start + basis a`, in the units of the rows.

    `basis` spans the rows where there are fewer of them than columns: the weights move in their span alone.
    """

    def __init__(self, rows: MarginRows, start: Float[np.ndarray, " d"], *, log_start: float, tol: float) -> None:
        self.rows, self.start, self.log_start = rows, start, log_start
        n, d = rows.Z.shape
        self.basis, self.Z = (None, rows.Z) if d <= n else _row_space(rows.Z)
        self.tol, self.start_margins = tol, rows.Z @ start
        slope, _ = rows.log_slopes(self.start_margins)
        with np.errstate(divide="ignore"):
            sizes = rows.log_c + slope + 2 * np.log(rows.lengths)
        self.log_t0 = max(-float(np.logaddexp.reduce(sizes)), log_start)
        self._shift = rows.log_c + self.log_t0
        self._y, self._p, self._bend = None, np.empty(n), np.empty(n)

    def _weights_at(self, y: Float[np.ndarray, " N"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """`p` and `d log(-l') / dm`. The integrator asks for the field and its derivative at the same place."""
        if self._y is None or not np.array_equal(y, self._y):
            slope, bend = self.rows.log_slopes(self.start_margins + self.Z @ y[:-1])
            self._y, self._p, self._bend = y.copy(), np.exp(self._shift + slope + y[-1]), bend
        return self._p, self._bend

    def field(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        return np.append(self._weights_at(y)[0] @ self.Z, 1.0)

    def jacobian(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N N"]:
        p, bend = self._weights_at(y)
        J = np.zeros((y.size, y.size))
        J[:-1, :-1] = (self.Z.T * (p * bend)) @ self.Z
        J[:-1, -1] = p @ self.Z
        return J

    def fastest(self, y: Float[np.ndarray, " N"]) -> float:
        # The trace, which is at least the largest eigenvalue and at most d times it.
        p, bend = self._weights_at(y)
        return float(-(p * bend) @ self.rows.lengths**2)

    def unit(self, y: Float[np.ndarray, " N"]) -> float:
        """What an error of `tol` is worth: one in a margin, more where the loss changes slower than e^-m (at most the
        size of the weights), and never less than rounding moves them."""
        _, bend = self._weights_at(y)
        size = float(np.abs(y[:-1]).max())
        slow = 1 / max(float(-bend.min()), 1e-300)
        return max(1.0, size / max(float(y[-1]), 1.0), min(size, slow), 64 * EPS / self.tol * size)

    def tolerance(self, y: Float[np.ndarray, " N"]) -> float:
        """The largest error of a step that ends at y, as the length of the error of the weights."""
        return self.tol * self.unit(y) * math.sqrt(y.size - 1)

    def weights(self, y: Float[np.ndarray, "T N"]) -> Float[np.ndarray, "T d"]:
        """The weights, in the units of the rows."""
        a = y[..., :-1]
        return self.start + (a if self.basis is None else a @ self.basis.T)

    def log_time(self, v: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        """Log of the physical time, in the user's units."""
        with np.errstate(divide="ignore", over="ignore"):
            # log(e^v - 1), which is -inf at v = 0.
            since = np.where(v < 30, np.log(np.expm1(np.minimum(v, 30.0))), v + np.log1p(-np.exp(-v)))
        return np.logaddexp(self.log_start, since + self.log_t0) + self.rows.log_unit_time

    def clock(self, log_time: float) -> float:
        """The v of a physical log time in the user's units, not before the start."""
        s = log_time - self.rows.log_unit_time
        if self.log_start == self.log_t0:
            return max(s - self.log_t0, 0.0)
        if s <= self.log_start:
            return 0.0
        since = s + math.log(-math.expm1(self.log_start - s))
        return float(np.logaddexp(0.0, since - self.log_t0))

    def balance(self, y: Float[np.ndarray, " N"]) -> float:
        """What the rows' pulls leave of each other, over their sum; rows with a margin gamma leave gamma or more."""
        p, _ = self._weights_at(y)
        top = float(p.max())
        if not 0 < top < math.inf:
            return 1.0 if top == 0 else 0.0
        p = p / top
        return float(np.linalg.norm(p @ self.Z)) / float(p @ self.rows.lengths)

    def newton_step(self, y: Float[np.ndarray, " N"]) -> float:
        """The largest change of a margin in Newton's step towards the minimiser, here."""
        p, bend = self._weights_at(y)
        if not np.isfinite(p).all():
            return math.inf
        p = p / p.max()
        roots = np.sqrt(p * np.maximum(-bend, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            A, b = roots[:, None] * self.Z, np.where(roots > 0, p / roots, 0.0)
        return float(np.abs(self.Z @ np.linalg.lstsq(A, b)[0]).max())


def _row_space(Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "d n"], Float[np.ndarray, "n n"]]:
    """An orthonormal basis of the rows' span, and the rows in it."""
    Q, R = np.linalg.qr(Z.T)
    return Q, np.ascontiguousarray(R.T)
