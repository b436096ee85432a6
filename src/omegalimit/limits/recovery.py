"""When does training from the spectral start recover the planted matrix? A guarantee that can be computed.

Rows `x_i`, measurements `y_i = x_i' Q* x_i` of a planted `Q* = U* U*'` of rank r. The normal operator on symmetric
matrices is `N(xi) = (1/n) sum_i (x_i' xi x_i) x_i x_i'`; for standard normal rows its mean is
`P(xi) = 2 xi + tr(xi) I`. Its deviation `delta = |N - P|`, in the operator norm on symmetric matrices with the
Frobenius product, is the only thing that the guarantee asks of the rows. All of it is derived here, except the lemma.

**Guarantee.** Let `c = 2 (2^(1/2) - 1)`, `delta < 2`, and `rho = sigma_r(U*) (c (2 - delta) / (3 + delta))^(1/2)`. From
every U within rho of `U*` (`|Z|_F < rho`, `Z = U - U* R` with the orthogonal R that makes it least) the flow
`U' = -grad`, `grad = 2 N(D) U`, `D = U U' - Q*`, converges to `U* R`, and `|Z|_F` falls at least like
`exp(-t (1 - theta) (2 - delta) c sigma_r^2)`, `theta = |Z(0)|_F / rho`. Descent does so too when its step is at most
`(1 - theta) / (4 (d + 2 + delta) (sigma_1(U*) + rho)^2)`. The spectral start (`trace="moment"`) lies within rho when

    delta |Q*|_F / sigma_r(U*)^2 < c ((2 - delta) / (3 + delta))^(1/2).

**Proof.** Write `|xi|_N^2 = <xi, N xi>`. As `D = U Z' + Z U' - Z Z'`,
`<grad, Z> = <N D, U Z' + Z U'> = |D|_N^2 + <N D, Z Z'> >= |D|_N (|D|_N - |Z Z'|_N)`. Lemma (Tu, Boczar, Simchowitz,
Soltanolkotabi and Recht 2016, lemma 5.4): `|D|_F^2 >= c sigma_r^2 |Z|_F^2`. So
`|D|_N^2 >= (2 - delta) |D|_F^2 >= (2 - delta) c sigma_r^2 |Z|_F^2`, as P is at least 2; and
`|Z Z'|_N^2 <= (2 + delta) |Z Z'|_F^2 + (tr Z Z')^2 <= (3 + delta) |Z|_F^4`. Hence `|Z Z'|_N <= (|Z|_F / rho) |D|_N`,
and `(d/dt) |Z|_F^2 / 2 <= -<grad, Z> <= -(1 - theta) |D|_N^2`: the distance falls, theta stays, and the rate follows.
For descent add `eta^2 |grad|_F^2 <= 4 eta^2 |N| |D|_N^2 |U|^2` with `|N| <= d + 2 + delta`: at the step named, it eats
half of the decrease at most. For the start, `P^-1 N Q* = Q* + P^-1 (N - P) Q*` is off by at most `delta |Q*|_F / 2`, as
`P^-1` is at most 1/2; its best positive part of rank r is off by at most twice that, and the lemma turns
`|U U' - Q*|_F <= delta |Q*|_F` into `|Z|_F <= delta |Q*|_F / (c^(1/2) sigma_r)`.

How much it gives away: delta is over all symmetric matrices and falls like d / n^(1/2), so the guarantee begins at n of
order r d^2, with a factor of about a hundred; recovery is seen from about twice the number of unknowns, n ~ 2 r d, on.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import shape_text
from ._arrays import checked
from .quotient import _factor

LEMMA = 2 * (math.sqrt(2.0) - 1)
"""The constant c of the lemma."""

LEAST_ROWS, MOST_ROWS = 2.0**-200, 2.0**200
"""Between these the fourth powers of the rows, and their squares, are doubles."""

MOST_ENTRIES = 3000
"""The largest `d (d+1)/2` for which the operator is formed as a matrix."""


def normal_operator(rows: ArrayLike) -> Float[np.ndarray, "m m"]:
    """N as a matrix of `m = d (d+1)/2` rows, in the orthonormal basis of `packed`.

    Raises `ValueError` when `d (d+1)/2` is more than `MOST_ENTRIES`, or for rows whose fourth powers are no doubles.
    """
    X = checked("rows", rows)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"`rows` must have shape (n, d) and at least one entry; got {shape_text(X.shape)}.")
    n, d = X.shape
    if (m := d * (d + 1) // 2) > MOST_ENTRIES:
        raise ValueError(
            f"symmetric matrices of dimension {d} have {m} entries; the operator is formed up to {MOST_ENTRIES}."
        )
    if not LEAST_ROWS < float(np.abs(X).max()) < MOST_ROWS:
        raise ValueError(
            f"the largest entry of `rows` is {np.abs(X).max():.1e}: the operator is of fourth powers, and compared "
            "with that of standard normal rows. Divide the rows by their standard deviation."
        )
    i, j = np.triu_indices(d)
    factor = np.where(i == j, 1.0, math.sqrt(2.0))
    total = np.zeros((m, m))
    # A block at a time: the packed rows of all n would take n m numbers.
    for block in np.array_split(X, max(1, n * m // 2_000_000)):
        R = block[:, i] * block[:, j] * factor
        total += R.T @ R
    return total / n


def population_operator(d: int) -> Float[np.ndarray, "m m"]:
    """P in the same basis: `2 I + t t'`, t the packed identity."""
    t = packed(np.eye(d))
    return 2 * np.eye(t.size) + np.outer(t, t)


def packed(xi: ArrayLike) -> Float[np.ndarray, " m"]:
    """A symmetric matrix as the vector of its upper triangle, off-diagonal entries times 2^(1/2): products agree."""
    xi = np.asarray(xi, dtype=float)
    i, j = np.triu_indices(xi.shape[0])
    return xi[i, j] * np.where(i == j, 1.0, math.sqrt(2.0))


def operator_deviation(rows: ArrayLike) -> float:
    """`delta = |N - P|` on symmetric matrices: the largest absolute eigenvalue of the difference."""
    N = normal_operator(rows)
    d = (math.isqrt(8 * N.shape[0] + 1) - 1) // 2
    return float(np.abs(np.linalg.eigvalsh(N - population_operator(d))).max())


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecoveryGuarantee:
    """What the guarantee at the head of this page says of one planted matrix and one set of rows.

    - `deviation`: delta. `largest`, `smallest`: sigma_1 and sigma_r of `U*`. `size`: `|Q*|_F`. `dimension`: d.
    """

    deviation: float
    smallest: float
    largest: float
    size: float
    dimension: int

    @property
    def radius(self) -> float:
        """rho: how far from the orbit of `U*` training may begin; zero when delta is 2 or more."""
        if not self.deviation < 2:
            return 0.0
        return self.smallest * math.sqrt(LEMMA * (2 - self.deviation) / (3 + self.deviation))

    @property
    def start_distance(self) -> float:
        """The largest distance at which the spectral start can lie from the orbit."""
        return self.deviation * self.size / (math.sqrt(LEMMA) * self.smallest)

    @property
    def holds(self) -> bool:
        """Whether recovery from the spectral start (`trace="moment"`) is guaranteed."""
        return self.start_distance < self.radius

    @property
    def theta(self) -> float:
        """`start_distance / radius`; infinite when there is no radius."""
        return self.start_distance / self.radius if self.radius > 0 else math.inf

    @property
    def rate(self) -> float:
        """The guaranteed rate of `|Z|_F` along the flow from the spectral start; zero without a guarantee."""
        return self.rate_from(self.start_distance)

    @property
    def largest_step(self) -> float:
        """The largest step for which descent is guaranteed from the spectral start; zero without a guarantee."""
        return self.step_from(self.start_distance)

    def rate_from(self, distance: float) -> float:
        """The guaranteed rate of `|Z|_F` from a start at this distance from the orbit; zero outside the radius."""
        if not distance < self.radius:
            return 0.0
        return (1 - distance / self.radius) * (2 - self.deviation) * LEMMA * self.smallest**2

    def step_from(self, distance: float) -> float:
        """The largest step for which descent is guaranteed from this distance; zero outside the radius."""
        if not distance < self.radius:
            return 0.0
        norm = self.dimension + 2 + self.deviation
        return (1 - distance / self.radius) / (4 * norm * (self.largest + self.radius) ** 2)


def recovery_guarantee(rows: ArrayLike, U: ArrayLike) -> RecoveryGuarantee:
    """The guarantee for these rows and the planted factor `U*`, of shape (d, r) and full column rank.

    Raises `ValueError` for shapes that do not fit, entries that are not finite, or a factor of lower rank.
    """
    U, X = _factor(U), checked("rows", rows)
    if X.ndim != 2 or X.shape[1] != U.shape[0]:
        raise ValueError(f"`rows` must have shape (n, {U.shape[0]}) to fit `U`; got {shape_text(X.shape)}.")
    s = np.linalg.svd(U, compute_uv=False)
    if U.shape[1] > U.shape[0] or s[-1] <= np.finfo(float).eps * max(U.shape) * s[0]:
        raise ValueError(
            f"`U` of shape {shape_text(U.shape)} has not full column rank; drop the columns that the others span."
        )
    return RecoveryGuarantee(
        deviation=operator_deviation(X),
        smallest=float(s[-1]),
        largest=float(s[0]),
        size=float(s[0] ** 2 * np.linalg.norm((s / s[0]) ** 2)),  # squares of squares would leave double precision
        dimension=U.shape[0],
    )


def orbit_distance(U: ArrayLike, V: ArrayLike) -> float:
    """`min_R |U - V R|_F` over orthogonal R; the shapes are the same."""
    U, V = _factor(U), checked("V", V)
    if U.shape != V.shape:
        raise ValueError(f"`V` must have the shape of `U`, {shape_text(U.shape)}; got {shape_text(V.shape)}.")
    L, _, Rt = np.linalg.svd(V.T @ U)
    return float(np.linalg.norm(U - V @ (L @ Rt)))
