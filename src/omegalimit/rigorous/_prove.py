"""`prove(limit, point, multipliers)`: both bounds of a certificate in ball arithmetic, rounded outward.

For every `W`, `b` and every `p >= 0` of sum one (free intercept: of mass one half on each label)
`min_k (<A_k, W> + y_k b) / |W| <= gamma* <= |sum_k p_k A_k|_dual`, with the data exactly as given in double precision.
Each operation carries a proved radius, so that no estimate of rounding enters. Weak duality is standard; the norm
bounds are in `_norms.py`, the rational proof that no point separates in `_farkas.py`.
"""

import dataclasses

import numpy as np
from flint import arb, arb_mat, ctx
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..certificate import Certificate
from ..limits import MaxMargin
from ._balls import dot, matrix, products, round_down, round_up, total
from ._farkas import Farkas, rational_farkas
from ._norms import Basis, upper_norm

# Only a combination this much smaller than what it combines is worth an exact elimination: a question of cost.
_WORTH_A_TRY = 1e-6
_LEAST_PRECISION = 53


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProvenBounds:
    """`lower <= gamma* <= upper`, proved.

    - `lower`, `upper`: doubles, rounded outward. `lower` is 0 where the point does not separate (`W = 0` attains it).
      `upper` is `inf`, or `lower` the largest double, where the number itself is beyond double precision.
    - `farkas`: the rational proof that no point separates, with which both bounds are 0; else `None`.
    - `certificate`: the same bounds in floating point, with their estimated slack.
    - `point`, `intercept`, `multipliers`: what the bounds are computed from; multipliers clipped, otherwise as given.
    - `point_basis`, `dual_basis`: witnesses for the Schatten norms of the point and of the combination; else `None`.
    - `precision`: bits of the ball arithmetic.
    """

    lower: float
    upper: float
    farkas: Farkas | None
    certificate: Certificate
    point: Float[np.ndarray, "..."]
    intercept: float | None
    multipliers: Float[np.ndarray, " N"]
    point_basis: Basis | None
    dual_basis: Basis | None
    precision: int

    @property
    def width(self) -> float:
        """`upper - lower`."""
        return self.upper - self.lower

    @property
    def gap(self) -> float:
        """`(upper - lower) / upper`; 0 where both bounds are 0."""
        return self.width / self.upper if self.upper > 0 else 0.0

    @property
    def separable(self) -> bool | None:
        """True or false where it is proved, else `None`."""
        if self.farkas is not None:
            return False
        return True if self.lower > 0 else None


def prove(
    limit: MaxMargin,
    point: ArrayLike,
    multipliers: ArrayLike | None = None,
    intercept: float | None = None,
    *,
    precision: int = 106,
) -> ProvenBounds:
    """Proved bounds on the maximum margin of `limit` from any candidate.

    - `point`: `W`, shape `limit.shape`; `multipliers`: shape `(N,)`, negative ones are clipped; `None`: those that
      `limit.certify(point)` finds. `intercept`: `b`; `None` with a free intercept: the one that `limit.certify`
      chooses, together with its scaling of the point.
    - `precision`: bits, at least 53. A product of two doubles is exact with 106.

    Raises what `limit.certify` raises, and `ValueError` for a precision below 53.
    """
    if isinstance(precision, bool) or not isinstance(precision, (int, np.integer)):
        raise TypeError(f"`precision` must be an integer, a number of bits; got {precision!r}.")
    if precision < _LEAST_PRECISION:
        raise ValueError(f"`precision` must be at least {_LEAST_PRECISION} bits; got {precision}.")
    certificate = limit.certify(point, multipliers, intercept=intercept)
    W, b = np.asarray(point, dtype=float).reshape(limit.shape), intercept
    if limit.intercept != "none" and b is None:
        W, b = certificate.point, certificate.intercept
    p = certificate.multipliers if multipliers is None else np.asarray(multipliers, dtype=float).reshape(-1)
    p = np.maximum(p, 0.0)
    b = None if limit.intercept == "none" else float(np.asarray(b).reshape(()))  # pyright: ignore[reportArgumentType]

    with ctx.workprec(int(precision)):
        lower, point_basis = _lower(limit, W, b)
        upper, dual_basis = _upper(limit, p)
    farkas = None
    if lower <= 0 and certificate.upper <= _WORTH_A_TRY * float(limit.sizes @ certificate.multipliers):
        farkas = rational_farkas(limit, p)
    return ProvenBounds(
        lower=lower,
        upper=upper if farkas is None else 0.0,
        farkas=farkas,
        certificate=certificate,
        point=W,
        intercept=b,
        multipliers=p,
        point_basis=point_basis,
        dual_basis=dual_basis,
        precision=int(precision),
    )


def _lower(limit, W, b):
    plain, w = limit.plain(), [arb(x) for x in W.ravel().tolist()]
    if limit.intercept == "penalised":
        w.append(arb(b))
    margins = _margins(plain, w)
    if limit.intercept == "free":
        offset = arb(b)
        margins = [m + offset if y > 0 else m - offset for m, y in zip(margins, limit.labels.tolist(), strict=True)]
    least = margins[0].lower()
    for m in margins[1:]:
        least = least.min(m.lower())
    size, basis = upper_norm(plain, w, dual=False)
    return (max(round_down(least / size.upper()), 0.0) if least > 0 else 0.0), basis


def _upper(limit, p):
    plain, weights = limit.plain(), [arb(x) for x in p.tolist()]
    if limit.intercept == "free":
        up = limit.labels > 0
        halves = [
            2 * total([x for x, side in zip(weights, up, strict=True) if side == wanted]) for wanted in (True, False)
        ]
        weights = [x / halves[0] if side else x / halves[1] for x, side in zip(weights, up, strict=True)]
        mass = arb(1)
    else:
        mass = total(weights)
    used = np.flatnonzero(p)
    G = _combination(plain, used, [weights[k] for k in used])
    size, basis = upper_norm(plain, G, dual=True)
    return round_up(size / mass), basis


def _margins(limit, w):
    if limit.rows is not None:
        return products(_flat(limit.rows), w)
    scores = (matrix(limit.left) * arb_mat(limit.shape[0], limit.shape[1], w)).tolist()
    return [dot(row, z) for row, z in zip(scores, limit.right.tolist(), strict=True)]


def _combination(limit, used, weights):
    if limit.rows is not None:
        return products(_flat(limit.rows)[used].T, weights)
    weighted = [[p * x for x in row] for p, row in zip(weights, limit.left[used].tolist(), strict=True)]
    left = arb_mat(len(used), limit.left.shape[1], [x for row in weighted for x in row])
    return (left.transpose() * matrix(limit.right[used])).entries()


def _flat(rows):
    return rows.reshape(len(rows), -1) if isinstance(rows, np.ndarray) else rows
