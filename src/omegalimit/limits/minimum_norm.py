"""Minimum-norm interpolation on the numerical range: what the rounding of the data leaves of it, and what it hides.

The interpolant of least Euclidean norm is `k = X^+ y`; of least norm in the space of a kernel `sum_i a_i K(., x_i)`
with `a = K^+ y` and norm `sqrt(a^T K a)`. Both are the limit at infinite time of gradient flow on the squared loss from
zero. Data rounded to a precision `eps` are known to within `eps |X|_F`, and so are their singular values (Weyl):
directions of `y` whose value lies below that level are unresolved. No factorisation can say what the interpolant does
there, a Cholesky factor least of all. Here they are left out, named and weighed, and the answer says whether `y` is
reached without them.

The truncation is standard (numerical rank); derived here: the level from the precision in which the data came, and the
norm that an interpolant would need at least.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import shape_text
from ._arrays import checked, split


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MinimumNorm:
    """The minimum-norm interpolant on the resolved directions.

    - `coefficients`: `k`, shape `(d,)`, or with a kernel `a`, shape `(n,)`; finite always.
    - `norm`: `|k|`, or with a kernel `sqrt(a^T K a)`.
    - `values`: singular values of `X`, or eigenvalues of the kernel as computed (those near zero may be negative),
      falling. Where `X` has more rows than columns, what no column reaches counts as one direction, that of the part of
      `y` that lies there, with the value zero.
    - `level`: what rounding does to any of them. `n_resolved` of them exceed it.
    - `directions`: the unresolved directions, orthonormal columns, shape `(n, m)`, in the order of `values`;
      `components`: those of `y` along them.
    - `residual`: `|X k - y| / |y|`; zero for `y = 0`.
    - `backward_error`: `|X k - y| / (|X|_2 |k| + |y|)`: the relative change of the data that makes `k` an interpolator.
    - `precision`: the relative rounding of the data, as found or as given.
    """

    coefficients: Float[np.ndarray, " d"]
    norm: float
    values: Float[np.ndarray, " r"]
    level: float
    n_resolved: int
    directions: Float[np.ndarray, "n m"]
    components: Float[np.ndarray, " m"]
    residual: float
    backward_error: float
    precision: float

    @property
    def unresolved_values(self) -> Float[np.ndarray, " m"]:
        """The values of the unresolved directions: zero to within `level`."""
        return self.values[self.n_resolved :]

    @property
    def reached(self) -> bool:
        """Whether `y` is interpolated within the rounding of the data: others, as near as their precision, fit exactly.

        If not, the share `residual` of `y` lies in directions that these data do not resolve.
        """
        return self.backward_error <= self.precision * (2 + math.sqrt(len(self.values)))

    @property
    def least_norm_beyond(self) -> float:
        """A norm that an interpolant of these data, whatever they are within `level`, must have at least.

        `|components| / (|unresolved values| + level)`, with a kernel the root of `|components|^2` over that. Infinite
        where the values and the level are zero.
        """
        size = float(np.linalg.norm(self.components))
        if size == 0:
            return 0.0
        reach = float(np.abs(self.unresolved_values).max(initial=0.0)) + self.level
        if reach == 0:
            return math.inf
        return size / math.sqrt(reach) if self._of_kernel else size / reach

    @property
    def relative_error(self) -> float:
        """What rounding does to the coefficients, first order: `level` over the least resolved value."""
        return self.level / float(self.values[self.n_resolved - 1]) if self.n_resolved else 0.0

    _of_kernel: bool = dataclasses.field(default=False, repr=False)


def minimum_norm(X: ArrayLike, y: ArrayLike, *, kernel: bool = False, precision: float | None = None) -> MinimumNorm:
    """The interpolant of `y` of least norm, on the directions that the precision of the data resolves.

    - `X`: shape `(n, d)`; with `kernel=True` the kernel matrix, shape `(n, n)`, symmetric. `y`: shape `(n,)`.
    - `precision`: the relative rounding of the data; by default that of the arrays' own type (single precision: 1.2e-7,
      whatever they are converted to later), integers counting as double. Pass it for data known to fewer digits, or
      for a kernel that was computed in lower precision than it is stored in.

    Raises `ValueError` for arrays of the wrong shape, entries that are not finite, a kernel that is not symmetric or
    has an eigenvalue below zero beyond rounding, and a `precision` outside (0, 1).
    """
    eps = max(_precision(X), _precision(y)) if precision is None else precision
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.integer, np.floating)):
        raise TypeError(f"`precision` must be a number; got {precision!r}.")
    if not 0 < eps < 1:
        raise ValueError(f"`precision` must lie between 0 and 1, both excluded; got {precision}.")
    eps = max(float(eps), float(np.finfo(float).eps))
    name = "kernel" if kernel else "X"
    array, target = checked(name, X), checked("y", y)
    if array.ndim != 2 or 0 in array.shape or (kernel and array.shape[0] != array.shape[1]):
        wanted = "(n, n)" if kernel else "(n, d)"
        raise ValueError(f"`{name}` must have shape {wanted} and at least one entry; got {shape_text(array.shape)}.")
    if target.shape != array.shape[:1]:
        raise ValueError(
            f"`y` must hold one value for each of the {len(array)} rows of `{name}`; "
            f"got shape {shape_text(target.shape)}."
        )
    A, e = split(array)
    b, e_y = split(target)
    # What the data's rounding does to any value, and what the factorisation in double precision adds to it.
    level = (eps + float(np.finfo(float).eps) * math.sqrt(max(A.shape))) * float(np.linalg.norm(A))
    if kernel:
        values, left, right = _eigen(A, level)
    else:
        left, values, right = np.linalg.svd(A, full_matrices=False)
        left, values, right = *_with_the_rest(left, values, b), right.T
    n_resolved = int((values > level).sum())
    parts = left.T @ b
    used = parts[:n_resolved] / values[:n_resolved]
    k = right[:, :n_resolved] @ used
    off = float(np.linalg.norm(A @ k - b))
    squares = parts[:n_resolved] * used if kernel else used * used
    size, largest = float(np.linalg.norm(b)), float(np.abs(values).max(initial=0.0))
    scale = largest * float(np.linalg.norm(k)) + size
    # In halves of exponents, so that the square of a norm need not be a double.
    root, exponent = float(np.sqrt(squares.sum())), 2 * e_y - e if kernel else 2 * (e_y - e)
    root = root * math.sqrt(2) if exponent % 2 else root
    return MinimumNorm(
        coefficients=np.ldexp(k, e_y - e),
        norm=float(np.ldexp(root, exponent // 2)),
        values=np.ldexp(values, e),
        level=float(np.ldexp(level, e)),
        n_resolved=n_resolved,
        directions=left[:, n_resolved:],
        components=np.ldexp(parts[n_resolved:], e_y),
        residual=off / size if size else 0.0,
        backward_error=off / scale if scale else 0.0,
        precision=eps,
        _of_kernel=kernel,
    )


def _precision(value) -> float:
    """The relative rounding of the array's own type; of integers and lists that of doubles."""
    dtype = np.asarray(value).dtype
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else float(np.finfo(float).eps)


def _with_the_rest(left, values, b):
    """The part of `b` outside the span of all columns as one more direction, of value zero."""
    if left.shape[0] == left.shape[1]:
        return left, values
    rest = b - left @ (left.T @ b)
    rest = rest - left @ (left.T @ rest)
    size = float(np.linalg.norm(rest))
    return (np.column_stack([left, rest / size]), np.append(values, 0.0)) if size > 0 else (left, values)


def _eigen(K, level):
    """Eigenvalues, falling, and their vectors, twice."""
    uneven = float(np.abs(K - K.T).max())
    if uneven > level:
        i, j = np.unravel_index(int(np.argmax(np.abs(K - K.T))), K.shape)
        raise ValueError(
            f"`kernel` is not symmetric: its entries [{i}, {j}] and [{j}, {i}] differ by "
            f"{uneven / np.abs(K).max():.1e} of the largest; pass the symmetric matrix, or `kernel=False` for features."
        )
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    if values[0] < -level:
        raise ValueError(
            f"`kernel` has the eigenvalue {values[0] / max(values[-1], -values[0]):.1e} (relative to the largest), "
            "below zero beyond rounding: it is no kernel matrix. State `precision` if it was computed in a lower one."
        )
    return values[::-1], vectors[:, ::-1], vectors[:, ::-1]
