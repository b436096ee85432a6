"""The saddle-to-saddle path of diagonal networks from infinitesimal initialisation, as a problem with a certificate.

Algorithm 1 of arXiv 2607.12332 (stated by the authors; growth times all one: Pesme & Flammarion 2023). On the clock of
`growth_times.py`, with `u = X'(y - Xk)`, a feature whose `s_i = int u_i` reaches `t_i+` (or `-t_i-`) enters with that
sign, and `k` jumps to the least squares solution that keeps the signs; it ends at a minimiser of

    R(k) = sum_i t_i+ max(k_i, 0) + t_i- max(-k_i, 0)      over      Xk = y.

Derived here, and what is certified: the path is one function. With `s = X'R` it is the only solution of

    R' = y - Xk,   R(0) = 0,   -t- <= X'R <= t+,   k_i > 0 only where s_i = t_i+,   k_i < 0 only where s_i = -t_i-,

because `Xk` lies in the normal cone of the polyhedron `{R: -t- <= X'R <= t+}`: `R` climbs the linear program
`max y'R`, the dual of the one above, by steepest ascent. `k` then minimises `|Xk - y|` over the features on the
boundary, each with the sign of its side: where several arrive together they all enter, each with the sign of its
gradient (the authors' theorem excludes such ties). The last `R` is the dual certificate. Where `Xk = y` has no solution
with the allowed signs, `k` ends at the nearest one, and its residual proves that there is none.

The loss is `1/2 |Xk - y|^2`; with `|Xk - y|^2` all times halve.
"""

import dataclasses

import numpy as np
import scipy.sparse
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_finite, shape_text, to_float64
from ._path_data import PathData, excess, path_data

_EPS = float(np.finfo(float).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Knots:
    """A path in pieces. Plateau `p = 0 .. P` holds `k[p]` for `durations[p]`; it starts at `R[p] = int (y - Xk)`.

    - `durations`: shape `(P + 1,)`; the last is `inf` where nothing happens any more.
    - `k`: shape `(P + 1, d)`, CSR; its first row is zero.
    - `R`: shape `(P + 1, n)`; its first row is zero.
    """

    durations: Float[np.ndarray, " P"]
    k: scipy.sparse.csr_array
    R: Float[np.ndarray, "P n"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PathCertificate:
    """What is left of every condition, recomputed from the data and the knots; all relative, so free of units.

    One figure a plateau, shape `(P + 1,)`, with `size = |y| + sum_j |X_j| |k_j|`:

    - `residual`: `|Xk - y| / |y|`.
    - `stationarity`: `max |u_i| / (|X_i| size)` over the support of `k`.
    - `boundary`: `max |s_i - t_i+| / t_i+` (for `k_i < 0`: `|s_i + t_i-| / t_i-`) over the support, at both ends.
    - `overshoot`: by how much `s` leaves `[-t-, t+]` at either end, over `t_i`; for a plateau without end, how fast:
      `max u_i / (|X_i| size)` over the features with a finite time. Zero says that `k` minimises `|Xk - y|` over its
      cone: a feature on the boundary with a gradient that leads out would leave.
    - `consistency`: `|R[p+1] - R[p] - duration (y - Xk)| / (duration size + |R[p+1]|)`.

    The end, for the least `R(k)` over `Xk = y` (`inf` when there is none):

    - `nu`: the last `R` over the largest `|s_i| / t_i` where that is above one: `-t- <= X'nu <= t+`.
    - `lower`: `y'nu`. `upper`: `R(k)` of the last `k`; `inf` unless `Xk = y` to rounding.
    - `slack`: rounding of the two, and what the residual of `Xk = y` moves the optimal value by; absolute.
    - `witness`: where `Xk = y` has no solution with the allowed signs, a `v` that shows it (Farkas): `y'v > 0`, and
      `X'v` is zero, or leads to infinite times, to the rounding of `|X_i| |v|`; a solution would have
      `y'v = (X'v)'k <= 0`. It is the last residual without what rounding left of the support in it. Else `None`.
    """

    residual: Float[np.ndarray, " P"]
    stationarity: Float[np.ndarray, " P"]
    boundary: Float[np.ndarray, " P"]
    overshoot: Float[np.ndarray, " P"]
    consistency: Float[np.ndarray, " P"]
    nu: Float[np.ndarray, " n"]
    lower: float
    upper: float
    slack: float
    witness: Float[np.ndarray, " n"] | None

    @property
    def unreachable(self) -> bool:
        """`Xk = y` has no solution with the allowed signs, to rounding; `witness` shows it."""
        return self.witness is not None

    @property
    def kkt(self) -> Float[np.ndarray, " P"]:
        """The largest of the four conditions on every plateau, shape `(P + 1,)`."""
        return np.max([self.stationarity, self.boundary, self.overshoot, self.consistency], axis=0)

    @property
    def worst(self) -> float:
        """The largest residual of any condition on any plateau."""
        return float(self.kkt.max())

    @property
    def gap(self) -> float:
        """`(upper - lower) / upper`: zero if and only if the last `k` is a minimiser; `inf` without an upper bound."""
        if not np.isfinite(self.upper):
            return float("inf")
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0


class SaddlePath:
    """The path of `X` (shape `(n, d)`), `y` (`(n,)`) with growth times `t_plus`, `t_minus` (`(d,)`, or one number).

    Times are positive; `inf` says that the coefficient never takes that sign. `y`, `t_plus` and `t_minus` are copies in
    double precision, read-only; `X` is kept in scaled form only and made anew when it is asked for. Scale-free: data or
    times times a power of two give the same digits, also column by column.

    Raises `ValueError` or `TypeError` for shapes that do not fit, entries that are not finite, times that are not
    positive, and sizes whose results leave double precision.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike, t_plus: ArrayLike = 1.0, t_minus: ArrayLike = 1.0):
        self._data, self._y, self._t_plus, self._t_minus = path_data(X, y, t_plus, t_minus)

    def __repr__(self):
        return f"SaddlePath(n={self.n}, d={self.d})"

    @property
    def X(self) -> Float[np.ndarray, "n d"]:
        """The features, as they were given; a new array every time."""
        return self._data.given()

    @property
    def y(self) -> Float[np.ndarray, " n"]:
        """The target."""
        return self._y

    @property
    def t_plus(self) -> Float[np.ndarray, " d"]:
        """Growth times of positive coefficients."""
        return self._t_plus

    @property
    def t_minus(self) -> Float[np.ndarray, " d"]:
        """Growth times of negative coefficients."""
        return self._t_minus

    def products(self, R: ArrayLike) -> Float[np.ndarray, " d"]:
        """`s = X'R` of one `R`, shape `(n,)`."""
        vector, _ = to_float64(R, "R")
        if vector.shape != (self.n,):
            raise ValueError(f"`R` must have shape ({self.n},); got {shape_text(vector.shape)}.")
        data = self._data
        s = data.rows @ np.ldexp(vector, -data.t_exponent)
        return np.ldexp(s, data.columns_exponent + data.t_exponent)

    @property
    def n(self) -> int:
        """Number of samples."""
        return self._data.n

    @property
    def d(self) -> int:
        """Number of features."""
        return self._data.d

    def scaled(self) -> PathData:
        """The data over powers of two, column by column."""
        return self._data

    def value(self, k: ArrayLike) -> float:
        """`R(k) = sum t+ k+ + t- k-` of one point, shape `(d,)`; `inf` where a sign is taken that has no time."""
        point, _ = to_float64(k, "k")
        if point.shape != (self.d,):
            raise ValueError(f"`k` must have shape ({self.d},); got {shape_text(point.shape)}.")
        check_finite(point, "k")
        data = self._data
        return float(np.ldexp(weighted(data, data.scaled_coefficients(point)), data.y_exponent + data.t_exponent))

    def certify(self, knots: Knots) -> PathCertificate:
        """What is left of every condition of the path, and the two bounds on the least `R(k)`: see `PathCertificate`.

        Nothing but the data and the knots is used. Memory `O(nd)`. Raises `ValueError` for shapes that do not fit and
        durations that are negative or, but for the last, infinite.
        """
        durations, k, R = self._checked(knots)
        data, n_plateaus = self._data, len(durations)
        y_size = float(np.linalg.norm(data.y)) or 1.0
        supports = [slice(*k.indptr[p : p + 2]) for p in range(n_plateaus)]
        r = np.array([data.y - k.data[at] @ data.rows[k.indices[at]] for at in supports])
        size = np.array([y_size + np.abs(k.data[at]) @ data.sizes[k.indices[at]] for at in supports])
        ended = not np.isfinite(durations[-1])
        # The end of every plateau is a state to look at; where the last one has no end it is its start once more.
        ends = np.vstack([R[1:], R[-1] + (0.0 if ended else durations[-1]) * r[-1]])
        over = np.maximum(excess(data, np.vstack([R, ends[-1:]])), 0.0)
        stationarity, boundary = np.zeros(n_plateaus), np.zeros(n_plateaus)
        sizes = np.where(data.sizes > 0, data.sizes, 1.0)
        for p, at in enumerate(supports):
            where = k.indices[at]
            if len(where):
                products = np.array([R[p], ends[p], r[p]]) @ data.rows[where].T
                stationarity[p] = (np.abs(products[2]) / sizes[where]).max() / size[p]
                boundary[p] = _off_boundary(data, where, k.data[at] > 0, products[:2])
        steps = np.where(np.isfinite(durations), durations, 0.0)
        moved = ends - R - steps[:, None] * r
        moved[0] += R[0]
        reach = steps * size + np.linalg.norm(ends, axis=1)
        consistency = np.divide(np.linalg.norm(moved, axis=1), reach, out=np.zeros(n_plateaus), where=reach > 0)
        overshoot = np.maximum(over[:-1], over[1:])
        if ended:
            overshoot[-1] = max(overshoot[-1], _outward(data, r[-1]) / size[-1])
        figures = {
            "residual": np.linalg.norm(r, axis=1) / y_size,
            "stationarity": stationarity,
            "boundary": boundary,
            "overshoot": overshoot,
            "consistency": consistency,
        }
        return self._end(figures, k.indices[supports[-1]], k.data[supports[-1]], r[-1], size[-1], R[-1], over[-2])

    def _end(self, figures, where, values, r, size, R, over):
        data = self._data
        point = np.zeros(data.d)
        point[where] = values
        left, rounding = float(np.linalg.norm(r)), 4 * _EPS * (np.sqrt(data.n) + np.sqrt(len(where)))
        feasible = left <= 4 * rounding * size
        witness = None if feasible else _witness(data, where, r)
        nu = R / (1 + over)
        value = weighted(data, point)
        slack = float(np.linalg.norm(nu)) * (left + rounding * float(np.linalg.norm(data.y))) + rounding * (
            value if feasible and np.isfinite(value) else 0.0
        )
        unit = data.y_exponent + data.t_exponent
        return PathCertificate(
            **figures,
            nu=np.ldexp(nu, data.t_exponent),
            lower=float(np.ldexp(data.y @ nu, unit)),
            upper=float(np.ldexp(value, unit)) if feasible else float("inf"),
            slack=float(np.ldexp(slack, unit)),
            witness=None if witness is None else np.ldexp(witness, data.y_exponent),
        )

    def _checked(self, knots):
        durations, _ = to_float64(knots.durations, "durations")
        k = scipy.sparse.csr_array(knots.k, dtype=float, copy=True)
        R, _ = to_float64(knots.R, "R")
        P = len(durations) if durations.ndim == 1 else 0
        if not P or k.shape != (P, self.d) or R.shape != (P, self.n):
            raise ValueError(
                f"`durations`, `k` and `R` must have shapes (P + 1,), (P + 1, {self.d}) and (P + 1, {self.n}); got "
                f"{shape_text(durations.shape)}, {shape_text(tuple(k.shape or ()))} and {shape_text(R.shape)}."
            )
        bad = ~((durations >= 0) & (np.isfinite(durations) | (np.arange(P) == P - 1)))
        if bad.any():
            p = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"`durations[{p}]` is {durations[p]}; durations are at least zero, and only the last may be infinite."
            )
        check_finite(k.data, "k.data")
        check_finite(R, "R")
        data = self._data
        k.sum_duplicates()
        k.eliminate_zeros()
        k.data = data.scaled_coefficients(k.data, k.indices)
        return data.scaled_durations(durations), k, np.ldexp(R, -data.t_exponent)


def weighted(data: PathData, k: Float[np.ndarray, " d"]) -> float:
    """`sum t+ k+ + t- k-` in scaled units."""
    t = np.where(k > 0, data.t_plus, data.t_minus)
    return float(t[k != 0] @ np.abs(k[k != 0]))


def _outward(data: PathData, v):
    """The largest `|x_i'v| / |x_i|` that leads to a finite time."""
    u, used = data.rows @ v, data.sizes > 0
    outward = np.maximum(np.where(np.isfinite(data.t_plus), u, 0.0), np.where(np.isfinite(data.t_minus), -u, 0.0))
    return float((outward[used] / data.sizes[used]).max(initial=0.0))


def _witness(data: PathData, where, r):
    """The part of `r` orthogonal to the columns of a support where it shows that `y` is out of reach, else `None`."""
    columns = data.rows[where].T
    v = r - columns @ np.linalg.lstsq(columns, r)[0]
    size = float(np.linalg.norm(v))
    shows = float(data.y @ v) > size * size / 2 > 0 and _outward(data, v) <= 2 * data.rounding * size
    return v if shows else None


def _off_boundary(data, where, positive, s):
    """How far the `s` of a support, with these signs, is from the boundary of its sign, over the time."""
    t = np.where(positive, data.t_plus[where], data.t_minus[where])
    if np.isinf(t).any():
        return np.inf  # a sign that is never taken has no boundary
    return float((np.abs(np.where(positive, s, -s) - t) / t).max())
