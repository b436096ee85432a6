"""The quotient geometry of `Q = U U'`: horizontal space, quotient metric, curvature at an interpolator, a first guess.

All of this page is derived here; the authors' abstract states only that the geometry governs the training.

Two factors give the same Q when they differ by an orthogonal r x r matrix (the gauge), so only directions Z with
`U'Z` symmetric (the horizontal ones) move Q. A tangent vector of the matrices of rank r is `xi = U Z' + Z U'`, and its
length in the quotient metric is that of its shortest lift, which is the horizontal one, `Z = M U` with
`M Q + Q M = xi`:

    |xi|_Q^2 = min |Z|_F^2 = tr(M xi) / 2 = (1/2) sum_ij (v_i' xi v_j)^2 / (mu_i + mu_j),    Q = sum_i mu_i v_i v_i'.

At an interpolator of `l(Q) = (1/2n) sum_i (<A_i, Q> - y_i)^2` the second derivative along Z of the loss of `U U'` is
the Gram form `(1/n) sum_i <A_i, xi>^2`. In the basis of tangent vectors

    E_ij = (mu_i + mu_j)^(1/2) (v_i v_j' + v_j v_i')  (i < j, i <= r),    E_ii = 2 mu_i^(1/2) v_i v_i'  (i <= r),

which is orthonormal for the quotient metric, the form is a matrix of `d r - r (r-1)/2` rows, and the Hessian of the
loss in U has its eigenvalues and `r (r-1)/2` zeros more, one for each gauge direction. The form has no zero of its own
only when n is at least its size.

For rows `x_i` with independent standard normal entries and `A_i = x_i x_i'`, the form's expectation is
`2 |xi|_F^2 + (tr xi)^2` (Isserlis), with eigenvalues `4 (mu_i + mu_j)` for i < j <= r, `4 mu_i` (d - r times), and
those of `8 diag(mu) + 4 s s'`, `s_i = mu_i^(1/2)`; the least one is `4 mu_r = 4 sigma_r(U)^2` when d > r.
"""

import dataclasses
import math

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_count, shape_text
from ._arrays import checked, split

_EPS = float(np.finfo(float).eps)


def tangent(U: ArrayLike, Z: ArrayLike) -> Float[np.ndarray, "d d"]:
    """`xi = U Z' + Z U'`, by which Q moves when U moves along Z."""
    U, Z = _pair(U, Z)
    return U @ Z.T + Z @ U.T


def horizontal_part(U: ArrayLike, Z: ArrayLike) -> Float[np.ndarray, "d r"]:
    """`Z - U W`: what of Z moves Q. W is the skew matrix with `U'U W + W U'U = U'Z - Z'U`.

    The part taken off, `U W`, is the gauge direction nearest to Z; `tangent(U, Z)` stays what it was.
    """
    U, Z = _pair(U, Z)
    _, s, Vt = np.linalg.svd(U, full_matrices=False)
    lift = Vt @ (U.T @ Z - Z.T @ U) @ Vt.T
    mu = s**2
    size = mu[:, None] + mu[None, :]
    W = np.divide(lift, size, out=np.zeros_like(lift), where=size > _EPS * U.shape[0] * size.max(initial=0.0))
    return Z - U @ (Vt.T @ W @ Vt)


def vertical_share(U: ArrayLike, Z: ArrayLike) -> float:
    """`|U'Z - Z'U|_F / (2 |U|_F |Z|_F)`, in [0, 1]: zero if and only if Z is horizontal. Units of U and Z cancel."""
    U, Z = (split(a)[0] for a in _pair(U, Z))
    size = 2 * float(np.linalg.norm(U)) * float(np.linalg.norm(Z))
    return float(np.linalg.norm(U.T @ Z - Z.T @ U)) / size if size > 0 else 0.0


def quotient_norm(U: ArrayLike, xi: ArrayLike) -> float:
    """`|xi|_Q`, the length of the shortest Z with `U Z' + Z U' = xi`; `inf` when there is none.

    There is none when xi is not tangent to the matrices of U's rank: when it has a part outside `U`'s range on both
    sides, beyond rounding.
    """
    U = _factor(U)
    xi = _symmetric("xi", xi, U.shape[0])
    mu, V, r = _spectrum(U)
    inside = V.T @ xi @ V
    if np.linalg.norm(inside[r:, r:]) > 100 * _EPS * U.shape[0] * np.linalg.norm(xi):
        return float("inf")
    size = mu[:, None] + mu[None, :]
    inside[r:, r:] = 0.0
    return float(np.sqrt((inside**2 / np.where(size > 0, size, 1.0)).sum() / 2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class EffectiveHessian:
    """The Gram form on the tangent space at `Q = U U'`, relative to the quotient metric.

    - `eigenvalues`: ascending, `d q - q (q-1)/2` of them with q the rank of U; those at the end of the list that the
      data leave at zero are exact zeros when n is too small, and otherwise at the rounding level.
    - `rank`: q, at the rounding level of U. `width`: the number of columns of U.
    - `n_zero`: how many of `eigenvalues` are zero: those by which the form's size exceeds n, or that lie below
      `rounding`.
    - `rounding`: the level below which an eigenvalue is not told from zero.
    """

    eigenvalues: Float[np.ndarray, " m"]
    rank: int
    width: int
    dimension: int
    n_zero: int
    rounding: float

    @property
    def n_gauge(self) -> int:
        """`q (q-1)/2`: the directions of U that leave Q where it is."""
        return self.rank * (self.rank - 1) // 2

    @property
    def n_excess(self) -> int:
        """`d (width - q)`: the directions of columns that are not used, flat to second order. None when width = q."""
        return self.dimension * (self.width - self.rank)

    @property
    def n_zero_in_factor(self) -> int:
        """How many zeros the Hessian of the loss in U has: gauge, unused columns, and what the data do not see."""
        return self.n_gauge + self.n_excess + self.n_zero

    @property
    def smallest(self) -> float:
        """The least eigenvalue of the form, zero when the data do not see some tangent direction."""
        return 0.0 if self.n_zero else float(self.eigenvalues[0])

    @property
    def smallest_nonzero(self) -> float:
        """The least eigenvalue that is told from zero; NaN when all are zero."""
        return float(self.eigenvalues[self.n_zero]) if self.n_zero < self.eigenvalues.size else float("nan")

    @property
    def largest(self) -> float:
        """The largest eigenvalue."""
        return float(self.eigenvalues[-1])


def effective_hessian(
    U: ArrayLike,
    *,
    rows: ArrayLike | None = None,
    matrices: ArrayLike | None = None,
    curvature: ArrayLike | None = None,
) -> EffectiveHessian:
    """The Gram form at the interpolator `U U'`, from the tangent vectors `E_ij` and never from a derivative in U.

    - `U`: shape (d, k). `rows`: x of shape (n, d) for `A_i = x_i x_i'`, or `matrices`: A of shape (n, d, d), symmetric.
    - `curvature`: second derivative of each measurement's loss at the data, shape (n,); one when not given (the squared
      loss). The form is then `(1/n) sum_i curvature_i <A_i, xi>^2`.

    Raises `ValueError` for shapes that do not fit, entries that are not finite, U = 0, a negative curvature, or a
    form that is no double.
    """
    U = _factor(U)
    scaled, e_U = split(U)
    A, e_A, n = _measurements(U.shape[0], rows, matrices)
    mu, V, q = _spectrum(scaled)
    J = _pairings(A, mu, V, q)
    if curvature is not None:
        weights = checked("curvature", curvature)
        if weights.shape != (n,) or (weights < 0).any():
            least = f" and the least entry {weights.min():g}" if weights.shape == (n,) else ""
            raise ValueError(
                f"`curvature` must have shape ({n},) and entries >= 0; got {shape_text(weights.shape)}{least}."
            )
        J = np.sqrt(weights)[:, None] * J
    m = J.shape[1]
    s = np.zeros(m)
    found = np.linalg.svd(J, compute_uv=False)
    s[: found.size] = found
    level = _EPS * max(n, m) * float(s[0])
    exponent = 2 * (e_U + e_A)
    return EffectiveHessian(
        eigenvalues=_in_range("`U` and the measurements give", s[::-1] ** 2 / n, exponent),
        rank=q,
        width=U.shape[1],
        dimension=U.shape[0],
        n_zero=int((s <= level).sum()),
        rounding=float(np.ldexp(level**2 / n, exponent)),
    )


def population_form(xi: ArrayLike) -> float:
    """`2 |xi|_F^2 + (tr xi)^2`, the mean of `(x' xi x)^2` over standard normal x, for symmetric xi."""
    xi = checked("xi", xi)
    xi = _symmetric("xi", xi, xi.shape[0])
    return float(2 * (xi**2).sum() + np.trace(xi) ** 2)


def population_spectrum(U: ArrayLike) -> Float[np.ndarray, " m"]:
    """Eigenvalues of `2 |xi|_F^2 + (tr xi)^2` relative to the quotient metric, ascending, in closed form."""
    U = _factor(U)
    scaled, e = split(U)
    mu, _, q = _spectrum(scaled)
    d = U.shape[0]
    upper = np.triu_indices(q, 1)
    s = np.sqrt(mu[:q])
    parts = [
        4 * (mu[upper[0]] + mu[upper[1]]),
        np.repeat(4 * mu[:q], d - q),
        np.linalg.eigvalsh(8 * np.diag(mu[:q]) + 4 * np.outer(s, s)),
    ]
    return np.ldexp(np.sort(np.concatenate(parts)), 2 * e)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpectralStart:
    """A first guess of the planted matrix.

    - `factor`: U of shape (d, r), with `U U'` the positive part of the r leading eigenvalues of `estimate`.
    - `estimate`: `(M - t I)/2`, `M = (1/n) sum_i y_i x_i x_i'`. `eigenvalues`: its r leading ones, descending.
    - `n_positive`: how many of them are positive; with fewer than r the factor has columns of zeros, which no gradient
      ever fills.
    """

    factor: Float[np.ndarray, "d r"]
    estimate: Float[np.ndarray, "d d"]
    eigenvalues: Float[np.ndarray, " r"]
    n_positive: int

    @property
    def matrix(self) -> Float[np.ndarray, "d d"]:
        """`U U'`."""
        return self.factor @ self.factor.T


def spectral_start(rows: ArrayLike, y: ArrayLike, *, rank: int, trace: str = "mean") -> SpectralStart:
    """The spectral initialiser: `(1/n) sum_i y_i x_i x_i'` has the mean `2 Q + tr(Q) I` for standard normal rows.

    - `trace`: how tr(Q) is estimated: `"mean"`, by the mean of y; `"moment"`, by `tr(M)/(d+2)`, for which
      `recovery.py` has a bound.

    Its error falls like n^(-1/2). Raises `ValueError` for shapes that do not fit, `rank` outside 1 to d, or a start
    that is no double.
    """
    X, y = checked("rows", rows), checked("y", y)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"`rows` must have shape (n, d) and at least one entry; got {shape_text(X.shape)}.")
    if y.shape != (X.shape[0],):
        raise ValueError(f"`y` must have shape ({X.shape[0]},), one value for each row; got {shape_text(y.shape)}.")
    (X, e_X), (y, e_y) = split(X), split(y)
    n, d = X.shape
    check_count(rank, "rank", least=1)
    if rank > d:
        raise ValueError(f"`rank` must be at most the dimension {d}; got {rank}.")
    if trace not in ("mean", "moment"):
        raise ValueError(f"`trace` must be mean or moment; got {trace!r}.")
    M = (X.T * y) @ X / n
    # The mean of y is not in the units of M: it counts as much as rows of size one give.
    t = (
        float(_in_range("`rows` and `y` give", np.mean(y), -2 * e_X))
        if trace == "mean"
        else float(np.trace(M)) / (d + 2)
    )
    estimate = (M - t * np.eye(d)) / 2
    w, V = np.linalg.eigh(estimate)
    top = w[::-1][:rank]
    # Rows of another size than one are of another law; what is returned is the formula's value all the same.
    exponent = 2 * e_X + e_y
    half, odd = exponent // 2, exponent % 2
    factor = V[:, ::-1][:, :rank] * np.sqrt(np.maximum(np.ldexp(top, odd), 0.0))
    return SpectralStart(
        factor=_in_range("`rows` and `y` give", factor, half),
        estimate=_in_range("`rows` and `y` give", estimate, exponent),
        eigenvalues=_in_range("`rows` and `y` give", top, exponent),
        n_positive=int((top > 0).sum()),
    )


def _in_range(names: str, scaled: ArrayLike, exponent: int) -> np.ndarray:
    """`scaled * 2**exponent`, or `ValueError` where that is no double."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.ldexp(scaled, exponent)
    if not np.isfinite(found).all():
        size = math.log10(float(np.abs(scaled).max())) + exponent * math.log10(2)
        raise ValueError(f"{names} numbers of about 1e{size:+.0f}, which no double holds; rescale them.")
    return found


def _factor(U: ArrayLike) -> Float[np.ndarray, "d r"]:
    array = checked("U", U)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"`U` must have shape (d, r) and at least one entry; got {shape_text(array.shape)}.")
    return array


def _pair(U: ArrayLike, Z: ArrayLike) -> tuple[Float[np.ndarray, "d r"], Float[np.ndarray, "d r"]]:
    U, Z = _factor(U), checked("Z", Z)
    if Z.shape != U.shape:
        raise ValueError(f"`Z` must have the shape of `U`, {shape_text(U.shape)}; got {shape_text(Z.shape)}.")
    return U, Z


def _symmetric(name: str, value: ArrayLike, d: int) -> Float[np.ndarray, "d d"]:
    array = checked(name, value)
    if array.shape != (d, d):
        raise ValueError(f"`{name}` must have shape ({d}, {d}); got {shape_text(array.shape)}.")
    return (array + array.T) / 2


def _spectrum(U: Float[np.ndarray, "d r"]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"], int]:
    """Eigenvalues of `U U'` (descending, zeros beyond the rank), all its eigenvectors, and the rank of U.

    From the singular values of U: those of `U U'` itself would lose the small half of the digits.
    """
    V, s, _ = scipy.linalg.svd(U, full_matrices=True)
    if s[0] == 0:
        raise ValueError("`U` is zero: no direction moves Q there, and nothing is trained from it.")
    q = int((s > _EPS * max(U.shape) * s[0]).sum())
    mu = np.zeros(U.shape[0])
    mu[:q] = s[:q] ** 2
    return mu, V, q


def _measurements(d: int, rows: ArrayLike | None, matrices: ArrayLike | None):
    """The measurements scaled by a power of two, the exponent that `<A, Q>` gets back, and n."""
    if (rows is None) == (matrices is None):
        raise ValueError("pass `rows` of shape (n, d) or `matrices` of shape (n, d, d), one of the two.")
    name, given = ("rows", rows) if rows is not None else ("matrices", matrices)
    array = checked(name, given)
    wanted = (d,) if rows is not None else (d, d)
    if array.ndim != len(wanted) + 1 or array.shape[1:] != wanted or array.shape[0] == 0:
        text = f"(n, {d})" if rows is not None else f"(n, {d}, {d})"
        raise ValueError(f"`{name}` must have shape {text} to fit `U`; got {shape_text(array.shape)}.")
    if matrices is not None:
        array = (array + array.transpose(0, 2, 1)) / 2
    scaled, e = split(array)
    return scaled, (2 * e if rows is not None else e), array.shape[0]


def _pairings(A: np.ndarray, mu: np.ndarray, V: np.ndarray, q: int) -> Float[np.ndarray, "n m"]:
    """`<A_i, E>` for every measurement and every tangent vector E of the basis."""
    d = V.shape[0]
    i, j = np.triu_indices(d, 1)
    keep = i < q
    i, j = i[keep], j[keep]
    off, diagonal = 2 * np.sqrt(mu[i] + mu[j]), 2 * np.sqrt(mu[:q])
    if A.ndim == 2:
        c = A @ V
        return np.concatenate([c[:, :q] ** 2 * diagonal, c[:, i] * c[:, j] * off], axis=1)
    c = np.einsum("nab,ai,bj->nij", A, V[:, :q], V, optimize=True)
    return np.concatenate([c[:, np.arange(q), np.arange(q)] * diagonal, c[:, i, j] * off], axis=1)
