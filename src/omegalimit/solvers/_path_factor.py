"""A QR factorisation of a growing and shrinking set of columns: append, delete, solve, project."""

import numpy as np
from scipy.linalg import get_lapack_funcs, qr_delete  # pyright: ignore[reportAttributeAccessIssue]

_trtrs, _trtri = get_lapack_funcs(("trtrs", "trtri"), dtype=float)
_EPS = float(np.finfo(float).eps)
# Removals turn the factors by rotations, which add up their rounding; after so many they are made anew.
_REFRESH = 50
# Of a vector of which more than this is left a projection is orthogonal to rounding; of less it is taken twice.
_ENOUGH = 0.7


class Factor:
    """`X_P = Q R` with orthonormal columns `Q`, `P` the list `order` of features; `rows` is `X'`, one row a feature.

    Columns are appended by Gram-Schmidt, twice where need be, and removed by rotations. What is solved with it has the
    backward error of the columns themselves: nothing is squared.
    """

    def __init__(self, rows):
        self._rows = rows
        d, n = rows.shape
        most = min(n, d)
        self._Q = np.zeros((n, most), order="F")
        self._R = np.zeros((most, most), order="F")
        self._n_removed = 0
        self.order: list[int] = []

    @property
    def Q(self):
        return self._Q[:, : len(self.order)]

    @property
    def R(self):
        m = len(self.order)
        return self._R[:m, :m]

    def append(self, j, *, again: bool = False) -> bool:
        """Add feature `j`; false, and nothing done, when its column depends on the others to rounding.

        `again`: it was found independent of them before, and is not to be judged once more.
        """
        m, x = len(self.order), self._rows[j]
        size = float(np.sqrt(x @ x))
        if m == self._Q.shape[1] or not size:
            return False
        Q = self.Q
        h = x @ Q
        w = x - Q @ h
        left = float(np.sqrt(w @ w))
        if left < _ENOUGH * size:
            more = w @ Q
            w -= Q @ more
            h += more
            left = float(np.sqrt(w @ w))
        if not left or left <= (not again) * 8 * _EPS * (np.sqrt(len(x)) + np.sqrt(m + 1)) * size:
            return False
        # A third time where almost nothing is left: orthogonality, not the column, is what must be exact.
        w /= left
        if left < 1e-4 * size:
            w -= Q @ (w @ Q)
            w /= float(np.sqrt(w @ w))
        self._Q[:, m] = w
        self._R[:m, m] = h
        self._R[m, m] = left
        self.order.append(j)
        return True

    def remove(self, j) -> None:
        """Take feature `j` out."""
        at = self.order.index(j)
        if self._n_removed >= _REFRESH:
            self.rebuild([i for i in self.order if i != j])
            return
        m = len(self.order)
        if at < m - 1:
            Q, R = qr_delete(self.Q, self.R, at, which="col", check_finite=False)
            self._Q[:, : m - 1] = Q[:, : m - 1]
            self._R[: m - 1, : m - 1] = R[: m - 1, : m - 1]
        del self.order[at]
        self._n_removed += 1

    def rebuild(self, order) -> None:
        """Factor the columns of `order`, which were factored before, afresh."""
        self.order, self._n_removed = [], 0
        for j in order:
            self.append(j, again=True)

    def products(self, at, v):
        """`x_i'v` of some features."""
        return self._rows[at] @ v

    def dual(self, b):
        """The `v` in the span of the columns with `x_i'v = b_i` for every one of them."""
        return self.Q @ _trtrs(self.R, b, trans=1)[0] if self.order else np.zeros(len(self._Q))

    def sensitivity(self):
        """How much `z` of `minimum` moves at most when `y` moves by one: the sizes of the rows of `R^-1`."""
        inverse, _ = _trtri(self.R)
        return np.sqrt((inverse**2).sum(axis=1))

    def minimum(self, y):
        """`z` over `order` with the least `|y - X z|`, and `y - X z`: the part of `y` orthogonal to the columns.

        That part is orthogonal relative to itself, however small it is.
        """
        if not self.order:
            return np.zeros(0), y
        Q = self.Q
        h = y @ Q
        z = _trtrs(self.R, h)[0]
        if len(self.order) == len(y):
            return z, np.zeros_like(y)
        r = y - Q @ h
        if float(r @ r) < _ENOUGH**2 * float(y @ y):
            r -= Q @ (r @ Q)
        return z, r
