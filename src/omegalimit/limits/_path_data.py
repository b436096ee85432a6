"""A regression with growth times, scaled by powers of two: every column, `y` and the times each by its own.

With `X_i = 2^e_i X~_i`, `y = 2^f y~`, `t_i = 2^(e_i + g) t~_i`:

    k_i = 2^(f - e_i) k~_i,   u_i = 2^(e_i + f) u~_i,   s_i = 2^(e_i + g) s~_i,   R = 2^g R~,   T = 2^(g - f) T~,

and `sum t k` is `2^(f + g)` times what it is in scaled units. All of it is exact, so that data times a power of two
give the same digits. Columns of any size stand beside each other without overflow or underflow.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .._checks import check_finite, check_ndim, check_same_length, shape_text, to_float64

# Beyond 2**1000 what is computed from the data leaves double precision.
_LARGEST_EXPONENT = 1000
# Times that differ by more than this have no common unit in double precision.
_LARGEST_SPREAD = 2.0**400
_BLOCK, _CHUNK = 16, 4096  # states and features that are looked at together
_TURNED = 256  # features that are transposed together: a block that stays in the cache


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PathData:
    """The scaled arrays. `rows`: `X~'`, shape `(d, n)`, one row a feature; `sizes`: `|X~_i|`, shape `(d,)`."""

    rows: Float[np.ndarray, "d n"]
    y: Float[np.ndarray, " n"]
    t_plus: Float[np.ndarray, " d"]
    t_minus: Float[np.ndarray, " d"]
    sizes: Float[np.ndarray, " d"]
    columns_exponent: Int[np.ndarray, " d"]
    y_exponent: int
    t_exponent: int

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.rows.shape[1]

    @property
    def d(self) -> int:
        """Number of features."""
        return self.rows.shape[0]

    @functools.cached_property
    def rounding(self) -> float:
        """What a product of a feature with a vector of `n` entries may err by, over the product of their sizes."""
        return 4 * float(np.finfo(float).eps) * (math.sqrt(self.n) + 4)

    def given(self) -> Float[np.ndarray, "n d"]:
        """`X` as it was given, a new array, read-only."""
        X = np.ldexp(self.rows, self.columns_exponent[:, None]).T
        X.flags.writeable = False
        return X

    def coefficients(self, k, where: Any = slice(None)):
        """`k` in the data's units, from scaled ones."""
        return np.ldexp(k, self.y_exponent - self.columns_exponent[where])

    def scaled_coefficients(self, k, where: Any = slice(None)):
        """`k` in scaled units, from the data's."""
        return np.ldexp(k, self.columns_exponent[where] - self.y_exponent)

    def durations(self, T):
        """Times in the data's units, from scaled ones."""
        return np.ldexp(T, self.t_exponent - self.y_exponent)

    def scaled_durations(self, T):
        """Times in scaled units, from the data's."""
        return np.ldexp(T, self.y_exponent - self.t_exponent)


def path_data(X: ArrayLike, y: ArrayLike, t_plus: ArrayLike, t_minus: ArrayLike, *, told: "Told | None" = None):
    """The scaled form of `X`, which is a copy, and checked copies of the others in double precision, read-only.

    `told`: the words of errors about sizes; those of growth times when not given.
    """
    # What comes in double precision is copied once only, by the scaling.
    given = X if isinstance(X, np.ndarray) and X.dtype == np.float64 else to_float64(X, "X")[0]
    check_ndim(given, "X", axes="n, d")
    if 0 in given.shape:
        raise ValueError(f"`X` must have at least one row and one column; got shape {shape_text(given.shape)}.")
    check_finite(given, "X")
    target, _ = to_float64(y, "y")
    check_ndim(target, "y", axes="n")
    check_same_length(given, target, ("X", "y"), axes=(0, 0), what="rows")
    check_finite(target, "y")
    d = given.shape[1]
    times = [_times(value, name, d) for value, name in ((t_plus, "t_plus"), (t_minus, "t_minus"))]
    for array in (target, *times):
        array.flags.writeable = False
    return _scaled(given, target, *times, told=told or GROWTH), target, *times


@dataclasses.dataclass(frozen=True)
class Told:
    """How errors about sizes are told: a feature beyond the others, what leaves double precision, and the way out."""

    spread: str
    times: str
    value: str
    bring: str


GROWTH = Told(
    f"is so slow (its growth time over the size of its column) that the fastest one is {_LARGEST_SPREAD:.0e} times "
    "faster",
    "The times, of the size of t over X'y,",
    "The optimal value, of the size of t times y over X,",
    "bring `X`, `y` or the growth times nearer to one",
)
PENALTY = Told(
    f"is so small that the largest column is {_LARGEST_SPREAD:.0e} times larger",
    "The penalties, of the size of X'y,",
    "The l1 norm at the end, of the size of y over X,",
    "bring `X` or `y` nearer to one",
)


def _times(value, name, d):
    array, _ = to_float64(value, name)
    if array.ndim == 0:
        array = np.full(d, float(array))
    if array.shape != (d,):
        raise ValueError(
            f"`{name}` must be a number or have shape ({d},), one per column of `X`; got shape "
            f"{shape_text(array.shape)}."
        )
    bad = ~(array > 0)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(f"`{name}[{i}]` is {array[i]:g}; growth times are positive (inf: that sign is never taken).")
    return array


def _scaled(X, y, t_plus, t_minus, *, told: Told) -> PathData:
    rows, sizes, e = _scaled_rows(X)
    f = math.frexp(float(np.abs(y).max()))[1]
    used = sizes > 0
    mantissa, exponent = np.frexp(np.stack([t_plus, t_minus]))
    exponent = exponent - e
    finite = np.isfinite(mantissa) & used
    g = int(exponent[finite].min()) if finite.any() else 0
    if finite.any() and exponent[finite].max() - g > math.log2(_LARGEST_SPREAD):
        i = int(np.argmax(np.where(finite, exponent, -(2**30)).max(axis=0)))
        raise ValueError(
            f"Feature {i} {told.spread} or more; double precision holds no path of both. Rescale or drop it."
        )
    # Zero columns never move: any time will do.
    t = np.where(np.isfinite(mantissa), np.ldexp(mantissa, np.where(finite, exponent - g, 0)), np.inf)
    unit = e[used] if used.any() else np.zeros(1, int)
    if y.any() and used.any():
        for what, size in (
            ("The coefficients k, of the size of y over X,", max(abs(f - unit.min()), abs(f - unit.max()))),
            (told.times, abs(g - f)),
            (told.value, abs(f + g)),
        ):
            if size > _LARGEST_EXPONENT:
                raise ValueError(f"{what} leave double precision; {told.bring}.")
    arrays = {"rows": rows, "y": np.ldexp(y, -f), "t_plus": t[0], "t_minus": t[1], "sizes": sizes}
    for array in arrays.values():
        array.flags.writeable = False
    return PathData(**arrays, columns_exponent=e, y_exponent=f, t_exponent=g)


def _scaled_rows(X):
    """`X'` with the largest entry of every row in [1/2, 1), the sizes of its rows, and the exponents."""
    n, d = X.shape
    rows, sizes, e = np.empty((d, n)), np.empty(d), np.empty(d, dtype=int)
    for start in range(0, d, _TURNED):
        part = slice(start, start + _TURNED)
        block = rows[part]
        block[:] = X[:, part].T
        e[part] = np.frexp(np.maximum(block.max(axis=1), -block.min(axis=1)))[1]
        # What `ldexp` does, several times faster; in two steps, as one power of two may leave double precision.
        half = e[part] // 2
        block *= np.ldexp(1.0, -half)[:, None]
        block *= np.ldexp(1.0, half - e[part])[:, None]
        sizes[part] = np.sqrt(np.einsum("dn,dn->d", block, block))
    return rows, sizes, e


def near(data: PathData, s, radius, where: Any = slice(None)) -> np.ndarray:
    """A mask of the features that may leave `[-t-, t+]` within `radius` of an `R` with `X'R = s`: Cauchy-Schwarz.

    `s` and `radius` (one, or one a feature) are those of the features `where`. A margin of 1e-6 of the bound takes up
    all rounding.
    """
    reach = data.sizes[where] * (radius * (1 + 1e-6))
    return (s + reach >= (1 - 1e-6) * data.t_plus[where]) | (reach - s >= (1 - 1e-6) * data.t_minus[where])


def excess(data: PathData, R: Float[np.ndarray, "m n"], unit: Float[np.ndarray, " d"] | None = None):
    """By how much `X'R` is beyond its bounds at most, over the bound (or over `unit`), shape `(m,)`; 0 where it is not.

    What cannot be near a bound, because `R` is near another one at which it is not, is not computed: neighbours that
    are near each other, as on a path, cost little.
    """
    found = np.zeros(len(R))
    blocks = [R[start : start + _BLOCK] for start in range(0, len(R), _BLOCK)]
    anchors = np.array([(block[0] + block[-1]) / 2 for block in blocks])
    for i, (block, s) in enumerate(zip(blocks, (data.rows @ anchors.T).T, strict=True)):
        radius = float(np.sqrt(((block - anchors[i]) ** 2).sum(axis=1).max()))
        where = np.flatnonzero(near(data, s, radius))
        products = (data.rows if len(where) == data.d else data.rows[where]) @ block.T
        beyond = (products.max(axis=1) > data.t_plus[where]) | (-products.min(axis=1) > data.t_minus[where])
        if not beyond.any():
            continue
        where, products = where[beyond], products[beyond]
        t_plus, t_minus = data.t_plus[where, None], data.t_minus[where, None]
        if unit is None:
            over = np.maximum(products / t_plus, -products / t_minus) - 1
        else:
            over = np.maximum(products - t_plus, -products - t_minus) / unit[where, None]
        found[i * _BLOCK : i * _BLOCK + len(block)] = np.maximum(over.max(axis=0), 0.0)
    return found
