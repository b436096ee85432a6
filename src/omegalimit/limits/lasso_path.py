"""The Lasso path as a problem with a certificate: the plain-l1 companion of the saddle-to-saddle path.

    w(lam) = argmin 1/2 |Xw - y|^2 + lam |w|_1      for lam from |X'y|_inf down to 0.

**Normalisation**: the sum of squares, not its mean. scikit-learn's `alpha` is `lam / n`.

With `c = X'(y - Xw)`: `|c_i| <= lam`, and `c_i = lam sign(w_i)` where `w_i` is not zero (standard). `w` and `c` are
linear between knots, so both conditions at two neighbouring knots, with the signs of either, prove the whole piece. At
`lam = 0` stands a least squares solution of least `|w|_1`: `X'(y - Xw) = 0` and a `nu` with `|X'nu|_inf <= 1` and
`(Xw)'nu = |w|_1`, since every other least squares solution has the same `Xw` (derived here).
"""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_finite, shape_text, to_float64
from ._path_data import PENALTY, PathData, excess, path_data


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LassoCertificate:
    """What is left of every condition, recomputed from the data, the knots and `nu`.

    One figure a knot, shape `(P,)`:

    - `kkt`: `max(|c_i| - lam, 0)`, and `|c_i - lam sign|` where `w_i` is not zero at this knot or a neighbour, over
      `|X_i| (|y| + sum_j |X_j| |w_j|)`: the rounding of `c_i` is some `1e-16` of that.
    - `residual`: `|Xw - y| / |y|`.

    The end, where the last `lam` is zero: bounds on the least `|w|_1` of all least squares solutions, of all
    interpolants where there are any.

    - `nu`: as given, over `|X'nu|_inf` where that is above one. `lower`: `(Xw)'nu`; `upper`: `|w|_1`.
    - `slack`: rounding of the two, absolute. All three `None` where `lam` ends above zero.
    """

    kkt: Float[np.ndarray, " P"]
    residual: Float[np.ndarray, " P"]
    nu: Float[np.ndarray, " n"] | None
    lower: float | None
    upper: float | None
    slack: float | None

    @property
    def worst(self) -> float:
        """The largest residual of any condition at any knot."""
        return float(self.kkt.max())

    @property
    def gap(self) -> float:
        """`(upper - lower) / upper`; `inf` where `lam` ends above zero."""
        if self.upper is None or self.lower is None:
            return float("inf")
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0


class LassoPath:
    """The Lasso path of `X`, shape `(n, d)`, and `y`, `(n,)`, in double precision.

    `y` is a copy, read-only; `X` is kept in scaled form only and made anew when it is asked for. Scale-free: data times
    a power of two give the same digits. Raises `ValueError` or `TypeError` for shapes that do not fit, entries that are
    not finite and sizes whose results leave double precision.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike):
        self._data, self._y, _, _ = path_data(X, y, 1.0, 1.0, told=PENALTY)

    def __repr__(self):
        return f"LassoPath(n={self.n}, d={self.d})"

    @property
    def X(self) -> Float[np.ndarray, "n d"]:
        """The features, as they were given; a new array every time."""
        return self._data.given()

    @property
    def y(self) -> Float[np.ndarray, " n"]:
        """The target."""
        return self._y

    @property
    def n(self) -> int:
        """Number of samples."""
        return self._data.n

    @property
    def d(self) -> int:
        """Number of features."""
        return self._data.d

    def scaled(self) -> PathData:
        """The data over powers of two, column by column, with all growth times one."""
        return self._data

    def certify(self, lam: ArrayLike, w: Any, nu: ArrayLike | None = None) -> LassoCertificate:
        """What is left of every condition at knots `lam`, shape `(P,)`, falling, with `w`, `(P, d)`, dense or sparse.

        `nu`, shape `(n,)`: the dual point of the end; needed where the last `lam` is zero. Memory `O(nd)`. Raises
        `ValueError` for shapes that do not fit and penalties that are negative or do not fall.
        """
        knots, _ = to_float64(lam, "lam")
        w = scipy.sparse.csr_array(w, dtype=float, copy=True)
        P = len(knots) if knots.ndim == 1 else 0
        if not P or w.shape != (P, self.d):
            raise ValueError(
                f"`lam` and `w` must have shapes (P,) and (P, {self.d}); got {shape_text(knots.shape)} and "
                f"{shape_text(tuple(w.shape or ()))}."
            )
        check_finite(knots, "lam")
        check_finite(w.data, "w.data")
        if knots[-1] < 0 or (np.diff(knots) > 0).any():
            raise ValueError("`lam` must fall from knot to knot and not below zero.")
        data = self._data
        w.sum_duplicates()
        w.eliminate_zeros()
        w.data = data.scaled_coefficients(w.data, w.indices)
        scaled = np.ldexp(knots, data.t_exponent - data.y_exponent)
        y_size = float(np.linalg.norm(data.y)) or 1.0
        supports = [w.indices[slice(*w.indptr[p : p + 2])] for p in range(P)]
        values = [w.data[slice(*w.indptr[p : p + 2])] for p in range(P)]
        r = np.array([data.y - x @ data.rows[where] for where, x in zip(supports, values, strict=True)])
        size = np.array([y_size + np.abs(x) @ data.sizes[where] for where, x in zip(supports, values, strict=True)])
        sizes = np.where(data.sizes > 0, data.sizes, 1.0)
        kkt, positive = np.zeros(P), scaled > 0
        if positive.any():
            kkt[positive] = (
                excess(data, r[positive] / scaled[positive, None], sizes) * scaled[positive] / size[positive]
            )
        for p in np.flatnonzero(~positive):
            kkt[p] = (np.abs(data.rows @ r[p]) / sizes).max() / size[p]
        for p, (where, x) in enumerate(zip(supports, values, strict=True)):
            # The signs of a knot bind at its neighbours too; two that disagree cannot both be met.
            near = slice(max(p - 1, 0), p + 2)
            bound = np.sign(x) * data.t_plus[where]
            off = np.abs(data.rows[where] @ r[near].T - bound[:, None] * scaled[near]) / sizes[where, None]
            np.maximum(kkt[near], off.max(axis=0, initial=0.0) / size[near], out=kkt[near])
        dual, lower, upper, slack = None, None, None, None
        if not positive[-1]:
            dual, lower, upper, slack = self._end(nu, supports[-1], values[-1], r[-1], size[-1])
        residual = np.linalg.norm(r, axis=1) / y_size
        return LassoCertificate(kkt=kkt, residual=residual, nu=dual, lower=lower, upper=upper, slack=slack)

    def _end(self, nu, where, values, r, size):
        if nu is None:
            raise ValueError("`nu` is missing: the last `lam` is zero, and the end is certified by a dual point.")
        dual, _ = to_float64(nu, "nu")
        if dual.shape != (self.n,):
            raise ValueError(f"`nu` must have shape ({self.n},); got {shape_text(dual.shape)}.")
        check_finite(dual, "nu")
        data = self._data
        dual = np.ldexp(dual, -data.t_exponent)
        dual = dual / (1 + float(excess(data, dual[None])[0]))
        upper = float(np.abs(values) @ data.t_plus[where])
        rounding = data.rounding * (1 + np.sqrt(len(where)))
        slack = rounding * (float(np.linalg.norm(dual)) * size + upper)
        unit = data.y_exponent + data.t_exponent
        lower, upper, slack = (float(np.ldexp(x, unit)) for x in ((data.y - r) @ dual, upper, slack))
        return np.ldexp(dual, data.t_exponent), lower, upper, slack
