"""Gradient flow on a linear margin loss in the logarithm of time, from the true start: `t = 0` is at a finite place.

With `v = log(1 + t/t0)` the flow `dw/dt = g(w)` is `dw/dv = t0 e^v g(w)`, exactly, from v = 0 on; `e^v` and the slopes
of the loss are added in logs, so that every row enters with `p_i = t0 e^v c_i (-l'(m_i))`, which stays of the size of
the motion however late it is. Run from a later time T0 on, `t = T0 + t0 (e^v - 1)`, which has the same field. t0 is the
time in which the slope of the loss changes by its own size at the start, or T0 where that is later.

The integrator wants a field without a time: v is one more coordinate, with `dv/dv = 1`.

What an evaluation costs, for m = min(n, d) coordinates: 4 n m flops and n exponentials; a factorisation, for the k rows
that bend: k m^2 + m^3/3.
"""

import functools
import math

import numpy as np
import scipy.linalg
from jaxtyping import Float

from ._margin_rows import EPS, MarginRows
from ._stiff import DenseAutonomous, Solve

_potrf, _potrs = scipy.linalg.get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)
# Weights that large, and logs of times and slopes, are beyond what doubles can tell: the rounding of these logs is a
# factor in the pulls, here of 1e-5.
_LARGEST, _OVERFLOW, _LONGEST = 2.0**1000, 2.0**1020, 2.0**-16 / EPS
# Pulls along what does not bend that are more than rounding, over the sum of all.
_FLAT = 64 * EPS
# Rows that bend so little that the square root of their curvature is small beside their pull.
_STRAIGHT = 1e-4
# Rows that bend so little of what a step sees are left out of its derivative; most are, once their margins have grown.
_UNSEEN = 1e-13


class LogTimeField(DenseAutonomous):
    """The field at `y = (a, v)`, where `w = start + basis a`, in the units of the rows.

    `basis` spans the rows where there are fewer of them than columns: the weights move in their span alone.
    """

    def __init__(self, rows: MarginRows, start: Float[np.ndarray, " d"], *, log_start: float, tol: float) -> None:
        self.rows, self.start, self.log_start = rows, start, log_start
        n, d = rows.Z.shape
        self.basis, self.Z = (None, rows.Z) if d <= n else _row_space(rows.Z)
        self.tol, self.start_margins = tol, rows.Z @ start
        self._squares = rows.lengths**2
        self._start_size = float(np.abs(self.start_margins).max())
        slope, _ = rows.log_slopes(self.start_margins)
        with np.errstate(divide="ignore"):
            sizes = rows.log_c + slope + 2 * np.log(rows.lengths)
        self.log_t0 = max(-float(np.logaddexp.reduce(sizes)), log_start)
        self._shift = rows.log_c + self.log_t0
        self._y, self._p, self._bend, self._pull = None, np.empty(n), np.empty(n), None

    def _weights_at(self, y: Float[np.ndarray, " N"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """`p` and `d log(-l') / dm`. The integrator asks for the field and its derivative at the same place."""
        if self._y is None or not np.array_equal(y, self._y):
            slope, bend = self.rows.log_slopes(self.start_margins + self.Z @ y[:-1])
            self._y, self._p, self._bend, self._pull = y.copy(), np.exp(self._shift + slope + y[-1]), bend, None
        return self._p, self._bend

    def field(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        p, _ = self._weights_at(y)
        if self._pull is None:
            # A tail that falls by a power makes a pull of zero of weights that are infinite: no step may end there.
            self._pull = np.append(p @ self.Z, 1.0 if float(np.abs(y[:-1]).max()) < _OVERFLOW else math.nan)
        return self._pull.copy()

    def jacobian(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N N"]:
        p, bend = self._weights_at(y)
        J = np.zeros((y.size, y.size))
        J[:-1, :-1] = (self.Z.T * (p * bend)) @ self.Z
        J[:-1, -1] = p @ self.Z
        return J

    def factor(self, y: Float[np.ndarray, " N"], shift: float) -> Solve:
        """By the triangular factor of `shift + Z'PZ`, which is positive definite: the loss is convex, and the clock's
        equation stands alone."""
        p, bend = self._weights_at(y)
        curvature = -p * bend
        if not (curvature >= 0).all():
            return super().factor(y, shift)
        seen = curvature * self._squares > _UNSEEN * shift / len(p)
        Z = self.Z[seen]
        M = (Z.T * curvature[seen]) @ Z
        M.flat[:: y.size] += shift
        # Transposed, a matrix in C's order is one in Fortran's, and nothing is copied; it is symmetric.
        L, info = _potrf(M.T, lower=1, overwrite_a=1)
        if info != 0 or not np.isfinite(L).all():
            return lambda b: np.full_like(b, math.nan)
        return functools.partial(_solved, L, self.field(y)[:-1], shift)

    def fastest(self, y: Float[np.ndarray, " N"]) -> float:
        # The trace, which is at least the largest eigenvalue and at most d times it.
        p, bend = self._weights_at(y)
        return float(-(p * bend) @ self._squares)

    def unit(self, y: Float[np.ndarray, " N"]) -> float:
        """What an error of `tol` is worth: one in the longest row's margin; or, where these are more, what the weights
        have gone in a unit of log time so far (late, they grow like log(t) / gamma); their size, as far as the loss
        changes slower than e^-m; and what rounding moves margins by."""
        _, bend = self._weights_at(y)
        size = float(np.abs(y[:-1]).max())
        slow = 1 / max(float(-bend.min()), 1e-300)
        rounding = 64 * EPS / self.tol * max(size, self._start_size)
        return max(1.0, size / max(float(y[-1]), 1.0), min(size, slow), rounding)

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

    def is_within_doubles(self, y: Float[np.ndarray, " N"]) -> bool:
        """Whether weights and clock are what double precision can tell."""
        within = float(np.abs(y[:-1]).max()) < _LARGEST and max(float(y[-1]), abs(self.log_t0)) < _LONGEST
        return bool(within)

    def balance(self, y: Float[np.ndarray, " N"]) -> float:
        """What the rows' pulls leave of each other, over their sum; rows with a margin gamma leave gamma or more."""
        p, _ = self._weights_at(y)
        top = float(p.max())
        if not 0 < top < math.inf:
            return 1.0 if top == 0 else 0.0
        p = p / top
        return float(np.linalg.norm(p @ self.Z)) / float(p @ self.rows.lengths)

    def newton_step(self, y: Float[np.ndarray, " N"]) -> float:
        """The largest change of a margin in Newton's step towards the minimiser, here; infinite where what is left of
        the pulls is along what does not bend."""
        p, bend = self._weights_at(y)
        if not np.isfinite(p).all():
            return math.inf
        p = p / p.max()
        roots = np.sqrt(p * np.maximum(-bend, 0.0))
        # Least squares solve for rows that bend: they square no condition. A row on a straight line pulls and does not
        # bend, and its pull is added as it is.
        straight = -bend < _STRAIGHT
        with np.errstate(divide="ignore", invalid="ignore"):
            A, b = roots[:, None] * self.Z, np.where(straight, 0.0, p / roots)
        U, S, V = np.linalg.svd(A, full_matrices=False)
        kept = max(A.shape) * EPS * S[0] < S
        U, S, V = U[:, kept], S[kept], V[kept]
        pull = p[straight] @ self.Z[straight]
        along = V @ pull
        if np.linalg.norm(pull - along @ V) > _FLAT * (p @ self.rows.lengths):
            return math.inf
        return float(np.abs(self.Z @ (((b @ U) / S + along / S**2) @ V)).max(initial=0.0))


def _solved(
    L: Float[np.ndarray, "m m"], pull: Float[np.ndarray, " m"], shift: float, b: Float[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    """The clock first, then the weights, which it drives by `pull`."""
    x = np.empty_like(b)
    x[-1] = b[-1] / shift
    x[:-1] = _potrs(L, b[:-1] + pull * x[-1], lower=1)[0]
    return x


def _row_space(Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "d n"], Float[np.ndarray, "n n"]]:
    """An orthonormal basis of the rows' span, and the rows in it."""
    Q, R = np.linalg.qr(Z.T)
    return Q, np.ascontiguousarray(R.T)
