"""Is the least interpolant unique, and if not, the set of all of them.

Let `(k, nu)` be an optimal pair for the modified l1 norm and `s = X^T nu`. Every optimum is zero wherever `s` is
strictly inside its bounds, and has the sign of the bound where it meets one. With `x_i = t_i |k_i|` over the
coordinates `T` that meet one, and `B` the columns `sign_i X_i / t_i` there, the optima are exactly

    { x >= 0 : B x = y },

all of the same norm `sum x = nu.y`. One point if `B` has full column rank; else linear programs give the range of each
entry, those that can be positive form `T'`, and the dimension is `|T'| - rank B_T'`. The criterion is that of linear
programs (Mangasarian 1979); the thresholds are those of `limits/face.py`.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from ..certificate import LeastCertificate
from ._least_squares import EPS
from .interpolation import Interpolation
from .regularisers import ModifiedL1

# Above this gap a pair says nothing about which coordinates hold the optimum.
_LARGEST_GAP = 1e-6
# More entries than this are not all searched for their ranges.
_LARGEST_SEARCH = 200
# Share of the norm below which linear programs leave an entry at zero.
_ZERO = 1e-8


class Found(NamedTuple):
    """The set of optima: see `Face`, which these become."""

    unique: bool | None
    dimension: int | None
    reason: str
    other: np.ndarray | None = None
    spread: float | None = None
    lowest: np.ndarray | None = None
    highest: np.ndarray | None = None


class Tight(NamedTuple):
    """The coordinates that meet a bound, its sign and size, and `x` there; `B` has these columns."""

    indices: np.ndarray
    signs: np.ndarray
    bounds: np.ndarray
    x: Float[np.ndarray, " T"]
    B: Float[np.ndarray, "n T"]

    def lifted(self, x, d) -> Float[np.ndarray, " d"]:
        """The point with these terms."""
        point = np.zeros(d)
        point[self.indices] = self.signs * x / self.bounds
        return point


def tight(limit: Interpolation, certificate: LeastCertificate, tie: float) -> Tight:
    """In the units of `limit.scaled()`; bounds within the share `tie` of the multipliers are met."""
    scaled = limit.scaled()
    f = scaled.regulariser
    assert isinstance(f, ModifiedL1)
    k = np.ldexp(certificate.point, -scaled.size)
    above, below = f.room(np.ldexp(certificate.dual_point, scaled.size - scaled.value))
    indices = np.flatnonzero(np.minimum(above, below) <= tie)
    signs = np.where(above[indices] <= below[indices], 1.0, -1.0)
    bounds = np.where(signs > 0, f.t_plus[indices], f.t_minus[indices])
    x = np.maximum(signs * k[indices], 0) * bounds
    return Tight(indices, signs, bounds, x, scaled.X[:, indices] * (signs / bounds))


def interpolant_face(limit: Interpolation, certificate: LeastCertificate, ranges: bool) -> Found:
    """What `optimal_face` says of an interpolation problem; the certificate is of this problem."""
    if not np.isfinite(certificate.upper):
        return _undecided("the point of the certificate does not interpolate.")
    if not isinstance(limit.regulariser, ModifiedL1):
        reason = f"{type(limit.regulariser).__name__} is strictly convex, and the point interpolates."
        return Found(True, 0, reason, spread=0.0)
    if certificate.upper == 0:
        return Found(True, 0, "the least norm is zero, which only zero has.", spread=0.0)
    if not certificate.gap <= _LARGEST_GAP:
        return _undecided(f"the certificate's gap, {certificate.gap:.1e}, exceeds {_LARGEST_GAP:g}.")
    noise = max(certificate.gap, 0.0) + certificate.relative_slack
    tie = 10 * math.sqrt(noise)
    part = tight(limit, certificate, tie)
    if not len(part.indices):
        return _undecided("no multiplier meets its bound.")
    values, Vt = np.linalg.svd(part.B)[1:]
    error = EPS * math.sqrt(max(part.B.shape)) * float(values[0])
    n_columns = len(part.indices)
    smallest = float(values[-1]) if n_columns <= len(part.B) else 0.0
    if smallest > 100 * error:
        return Found(
            True,
            0,
            f"the {n_columns} columns that meet their bounds are independent "
            f"(least singular value {smallest:.1e}, error {100 * error:.1e}).",
            spread=0.0,
        )
    rank = int((values > 10 * error).sum())
    if (values[:rank] <= 100 * error).any():
        return _undecided(f"the columns that meet their bounds are dependent to within {100 * error:.1e}, if at all.")
    return _searched(limit, certificate, part, Vt[rank:].T, ranges)


def _undecided(reason):
    return Found(None, None, reason)


def _searched(limit, certificate, part: Tight, null, ranges) -> Found:
    """The ranges by linear programs in the null space of `B`."""
    norm = float(part.x.sum())
    x, d = part.x / norm, limit.shape[0]
    low, high = x.copy(), x.copy()
    n = len(x)
    searched = np.arange(n) if ranges and n <= _LARGEST_SEARCH else np.argsort(x)[[0, -1]]
    farthest = x
    for j in searched:
        for sign in (1.0, -1.0):
            found = linprog(-sign * null[j], A_ub=-null, b_ub=x, bounds=(None, None), method="highs")
            if found.x is None:
                return _undecided(f"a linear program over the set of optima ended with: {found.message}")
            end = np.maximum(x + null @ found.x, 0)
            low, high = np.minimum(low, end), np.maximum(high, end)
            if np.abs(end - x).sum() > np.abs(farthest - x).sum():
                farthest = end
    complete = len(searched) == n
    moving = high > _ZERO
    dimension = None
    if complete:
        values = np.linalg.svd(part.B[:, moving], compute_uv=False)
        error = EPS * math.sqrt(max(part.B.shape)) * float(values[0])
        dimension = int(moving.sum()) - int((values > 10 * error).sum())
    spread = float(np.abs(farthest - x).sum())
    if spread <= _ZERO:
        if not complete:
            return _undecided(f"{null.shape[1]} directions are free, but the few that were tried lead nowhere.")
        reason = f"{null.shape[1]} directions keep `X k`, but the signs stop every step along them."
        return Found(True, 0, reason, spread=0.0)
    size = limit.scaled().size
    other = limit.certify(np.ldexp(part.lifted(norm * farthest, d), size), certificate.multipliers)
    if not abs(other.upper - certificate.upper) <= certificate.slack + other.slack:
        return _undecided("a second point along a free direction has a larger norm beyond rounding.")
    lowest = highest = None
    if complete:
        ends = [np.ldexp(part.lifted(norm * np.where(moving, end, 0.0), d), size) for end in (low, high)]
        lowest, highest = np.minimum(*ends) + 0.0, np.maximum(*ends) + 0.0  # no zero with a sign
    return Found(
        False,
        dimension,
        f"another point, at the distance {spread:.1e} of the norm, has the same norm within rounding.",
        other.point,
        spread,
        lowest,
        highest,
    )
