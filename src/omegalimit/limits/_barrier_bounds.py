"""Both bounds on the least barrier, of a point and multipliers, in the scaled problem's units.

See `limits/barrier.py` for the formulas.
"""

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from ..certificate import BarrierCertificate
from ._barrier_terms import barrier_terms, conjugate_terms, log1p_less, smoothed_sign
from ._double_double import EPS as PAIR_EPS
from ._double_double import times, total, two_product, two_sum

_EPS = float(np.finfo(float).eps)
# Above this `B*(u)` is written as `|u|` less a logarithm, so that the large terms can be summed apart.
_NEAR = 0.5
# Shares of the largest row's margin within which a row may be active, where multipliers are to be found.
_NEARLY = (1e-13, 1e-10, 1e-7, 1e-4, 1e-1, np.inf)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ScaledBarrier:
    """The problem with `Z` over a power of two, its largest entry in [1/2, 1); the point is the same.

    `Z = 2^exponent Z'`, `kappa = 2^exponent kappa'`, multipliers `lambda = 2^-exponent lambda'`.
    """

    Z: Float[np.ndarray, "n d"]
    kappa: float
    exponent: int


def room_of(high: Float[np.ndarray, " d"], low: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """`1 - |high + low|` of a normalised pair, to its own last place."""
    return (1 - np.abs(high)) - np.sign(high) * low


def slacks(scaled: ScaledBarrier, high, low) -> Float[np.ndarray, " n"]:
    """`z_i.(high + low) - kappa`."""
    product, error = times(scaled.Z, high, low)
    return (product - scaled.kappa) + error


def active_rows(scaled: ScaledBarrier, room, excess, multipliers) -> np.ndarray:
    """Rows whose multiplier holds more of the margin than the row has to spare: `lambda_i z_i'B''^-1 z_i >= s_i`."""
    held = multipliers * ((scaled.Z * room) ** 2).sum(axis=1)
    return np.flatnonzero((multipliers > 0) & (held >= excess))


def dual_value(scaled: ScaledBarrier, multipliers) -> tuple[float, float]:
    """The dual value in the scaled problem's units, and its rounding error."""
    u, u_low = times(np.ascontiguousarray(scaled.Z.T), multipliers)
    size = np.abs(u)
    far = size > _NEAR
    # kappa 1'lambda and the |u_j| may both be large and nearly equal: their difference is taken of pairs.
    mass, error = total(multipliers, np.zeros_like(multipliers))
    product, product_error = two_product(mass, np.float64(scaled.kappa))
    linear = np.concatenate([[product], -size[far]])
    rest = np.concatenate([[product_error + error * scaled.kappa], -(np.sign(u) * u_low)[far]])
    first = sum(total(linear, rest))
    logs, near = np.log1p(size[far]), conjugate_terms(u[~far])
    value = float(first + logs.sum() - near.sum())
    summed = abs(float(first)) + float(logs.sum() + near.sum()) + PAIR_EPS / _EPS * float(np.abs(linear).sum())
    return value, 4 * _EPS * summed


def certified(scaled: ScaledBarrier, high, low, multipliers) -> BarrierCertificate:
    """The certificate in the scaled problem's units, of the pair `high + low`."""
    given = multipliers is not None
    margin = float(slacks(scaled, high, low).min())
    infeasibility = max(-margin, 0.0) / scaled.kappa
    scaling = -margin / (margin + scaled.kappa) if margin + scaled.kappa > 0 else np.inf
    point, tail = _scaled_to_margin(scaled, high, low) if np.isfinite(scaling) else (high, low)
    room, excess = room_of(point, tail), slacks(scaled, point, tail)
    norms = np.abs(scaled.Z) @ np.abs(point) + scaled.kappa
    feasible = bool(np.isfinite(scaling) and (room > 0).all() and (excess >= -16 * PAIR_EPS * norms).all())
    excess = np.maximum(excess, 0.0) if feasible else excess
    if multipliers is None:
        multipliers = _stationary(scaled, point, room, excess) if feasible else np.zeros(len(scaled.Z))
    u = times(np.ascontiguousarray(scaled.Z.T), multipliers)[0]
    lower, of_lower = dual_value(scaled, multipliers)
    terms = barrier_terms(point, room)
    upper = float(terms.sum()) if feasible else np.inf
    difference, doubt = np.inf, np.inf
    if feasible:
        size, own = np.abs(u), np.abs(point)
        q = size * room - own
        opposite = np.where(u * point < 0, 2 * size * own, 0.0)
        products = multipliers * excess
        difference = float(log1p_less(np.maximum(q, -1 + _EPS)).sum() + opposite.sum() + products.sum())
        of_q = 4 * _EPS * (size * room + own)
        doubt = float((np.abs(q / (1 + q)) * of_q + of_q**2).sum() + 4 * _EPS * (opposite.sum() + products.sum()))
        doubt += 4 * _EPS * difference + 16 * PAIR_EPS * float(multipliers @ norms)
    largest = float(np.abs(point).max(initial=0.0))
    return BarrierCertificate(
        lower=lower,
        upper=upper,
        slack=max(of_lower, 4 * _EPS * upper) if feasible else of_lower,
        difference=difference,
        difference_slack=doubt,
        point=point,
        tail=tail,
        room=room,
        scaling=float(scaling),
        infeasibility=infeasibility,
        multipliers=multipliers,
        n_clipped=0,
        stationarity=float(np.abs(point - smoothed_sign(u)).max()) / largest if largest > 0 else np.inf,
        complementarity=float(multipliers @ excess) / upper if feasible and upper > 0 else np.inf,
        support=active_rows(scaled, room, excess, multipliers),
        multipliers_given=given,
    )


def _scaled_to_margin(scaled: ScaledBarrier, high, low):
    """The multiple of a point of positive margin that has least margin `kappa`, as a pair."""
    for k in range(4):
        worst = float(slacks(scaled, high, low).min())
        if worst == 0:
            break
        if k == 0:
            factor = np.float64(scaled.kappa / (worst + scaled.kappa))
            product, error = two_product(high, factor)
            high, low = two_sum(product, error + low * factor)
        else:  # what is left is small, and its own digits count
            product, error = two_product(high, np.float64(-worst / (worst + scaled.kappa)))
            high, more = two_sum(high, product)
            high, low = two_sum(high, low + (more + error))
    return high, low


def _stationary(scaled: ScaledBarrier, point, room, excess):
    """Multipliers whose `Z'lambda` is nearest to `B'(v)`, in the metric of the barrier, of the smallest difference."""
    best, least = np.zeros(len(scaled.Z)), np.inf
    largest = float(np.abs(scaled.Z).max() * np.abs(point).max())
    n_before = -1
    for share in _NEARLY:
        rows = np.flatnonzero(excess <= share * largest)
        if len(rows) in (0, n_before):
            continue
        n_before = len(rows)
        try:
            found, _ = nnls((scaled.Z[rows] * room).T, point, maxiter=30 * len(rows))
        except RuntimeError:  # SciPy's word for too many steps
            continue
        other = np.zeros(len(scaled.Z))
        other[rows] = found
        q = np.abs(scaled.Z.T @ other) * room - np.abs(point)
        difference = float(log1p_less(np.maximum(q, -1 + _EPS)).sum() + other @ excess)
        if difference < least:
            best, least = other, difference
    return best
