"""Programs with rows and columns of like size, exactly equivalent, and the best pair of bounds known for one."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float

from ._candidate import balanced, best_intercept


class Scaled(NamedTuple):
    """The rows and columns divided by powers of two: `margin_k = (A w)_k / h_k + c_k b`, `|w| = |f * w|`."""

    A: Any  # dense, or a csr_array
    c: Float[np.ndarray, " N"] | None
    h: Float[np.ndarray, " N"]
    f: Float[np.ndarray, " d"]
    box: bool

    def norm(self, w):
        """The primal norm of a scaled point: l-infinity in a box, else l1."""
        size = np.abs(w)
        return float((size / self.f).max()) if self.box else float((size * self.f).sum())

    def dual(self, a):
        """The dual norm of a combination of scaled rows."""
        size = np.abs(a)
        return float((size * self.f).sum()) if self.box else float((size / self.f).max())

    def lower(self, w):
        """The least margin of `w` over its norm, with the best intercept."""
        size = self.norm(w)
        if not (size > 0 and np.isfinite(size)):
            return -np.inf
        scores = (self.A @ w) / self.h
        b = best_intercept(scores, self.c)
        return float((scores if self.c is None else scores + self.c * b).min()) / size

    def upper(self, p):
        """The dual norm of the combination with multipliers `p` (of the rows as given, balanced)."""
        return self.dual(self.A.T @ (p / self.h)) if np.isfinite(p).all() and p.any() else np.inf


def scaled(A, c: Float[np.ndarray, " N"] | None, *, box: bool) -> Scaled:
    """Rows, then columns, divided by the power of two next to their largest entry; exact."""
    rows = units(largest_entries(A, 1), c)
    A = A.multiply(rows[:, None]).tocsr() if scipy.sparse.issparse(A) else A * rows[:, None]
    largest = largest_entries(A, 0)
    columns = units(largest)
    A = A.multiply(columns[None, :]).tocsr() if scipy.sparse.issparse(A) else A * columns
    # In the box the bound is on w_j = columns_j w'_j, in l1 the cost: f = 1/columns bounds w', or columns costs it.
    return Scaled(A, c, rows, 1 / columns if box else columns, box)


def units(sizes: np.ndarray, c: Float[np.ndarray, " N"] | None = None) -> np.ndarray:
    """The powers of two that take what has these sizes to between 1/2 and 1; zeros stay.

    With an intercept, rows far below the least size on the other side are all but zero beside it, and stay so.
    """
    if c is not None:
        sizes = np.maximum(sizes, max(sizes[c > 0].min(), sizes[c < 0].min()))
    return np.ldexp(1.0, -np.frexp(np.where(sizes > 0, sizes, 1.0))[1])


def largest_entries(A, axis):
    size = abs(A).max(axis=axis)
    return size.toarray().ravel() if scipy.sparse.issparse(size) else np.asarray(size)


class Best:
    """The highest lower bound with the smallest upper bound so far: one needs the point alone, one the multipliers."""

    def __init__(self, program: Scaled):
        self.program = program
        self.lower, self.upper = -np.inf, np.inf
        self.w: np.ndarray | None = None
        self.p: np.ndarray | None = None
        size = abs(program.A)
        along = (
            size @ program.f
            if program.box
            else largest_entries(size.multiply(1 / program.f) if scipy.sparse.issparse(size) else size / program.f, 1)
        )
        self._row_sizes = along / program.h

    def offer(self, w, p):
        """Keeps what is better of a scaled point and of multipliers of the rows as given; true when something was."""
        p = balanced(p, self.program.c)
        lower, upper = self.program.lower(w), self.program.upper(p)
        if better_w := lower > self.lower:
            self.lower, self.w = lower, w
        if better_p := upper < self.upper:
            self.upper, self.p = upper, p
        return better_w or better_p

    @property
    def negligible(self):
        """True when the combination cancels to rounding: nothing is separable, or it cannot be told."""
        if self.p is None:
            return False
        return self.upper <= 1e-15 * float(self._row_sizes @ self.p)

    @property
    def gap(self):
        """The relative gap; at most 1, which is that of the point zero."""
        if not 0 < self.upper < np.inf:
            return 1.0
        return (self.upper - max(self.lower, 0.0)) / self.upper
