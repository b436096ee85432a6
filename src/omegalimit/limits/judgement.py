"""What a certificate says: optimal, not separable, or neither. One rule for solvers and for candidates of all kinds."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ..certificate import Certificate
from ._cancellation import cancelling
from .max_margin import MaxMargin

OPTIMAL, NOT_SEPARABLE, OPEN = "optimal", "not separable", "open"
# A convex combination this small, relative to the constraints that it combines, may be zero within rounding.
_SMALL = 1e-13
# Shares of the largest multiplier below which others may be rounding, or what a method leaves of a zero.
_DUST = (float(np.finfo(float).eps), 1e-13, 1e-10)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a certificate says.

    - `status`: `OPTIMAL`: the gap is at most the tolerance, and its rounding error at most the tolerance or 1e-8,
      whichever is larger. `NOT_SEPARABLE`: a constraint is zero, or the multipliers combine the constraints to zero
      within rounding. `OPEN`: neither.
    - `reason`: the status in words, with the number that decided it.
    - `farkas`: `p >= 0` of sum one, shape `(N,)`, with `|sum_k p_k A_k|_dual` zero within rounding; `None` unless the
      status is `NOT_SEPARABLE`.
    """

    status: str
    reason: str
    farkas: Float[np.ndarray, " N"] | None = None


def judge(
    limit: MaxMargin, certificate: Certificate, *, tol: float, separable_by_rows: Callable[[MaxMargin], bool]
) -> Judgement:
    """What `certificate` says of `limit`.

    `separable_by_rows`: asked before `NOT_SEPARABLE` is said; true when the constraints, each scaled to size one, have
    a positive margin. No scaling of rows changes whether they can be separated, and rows of very different size have
    a margin that is lost in the rounding of the largest.
    """
    gap, slack = certificate.gap, certificate.relative_slack
    if gap <= tol and slack <= max(tol, 1e-8):
        return Judgement(status=OPTIMAL, reason=f"the recomputed gap is {gap:.1e}, at most {tol:g}.")
    sizes = limit.plain().sizes
    zero = np.flatnonzero(sizes == 0)
    if len(zero) and limit.signs is None:
        rows = f"row {zero[0]} is" if len(zero) == 1 else f"rows {', '.join(map(str, zero[:5]))} are"
        return Judgement(
            status=NOT_SEPARABLE,
            reason=f"{rows} zero, so that no point has a positive margin there.",
            farkas=np.eye(1, len(sizes), int(zero[0]))[0],
        )
    plain = limit.plain()
    p = _zero_combination(plain, certificate.multipliers) if certificate.lower <= certificate.slack else None
    if p is not None:
        if separable_by_rows(plain):
            lost = "some rows are so small that the margin is lost in the rounding of the others."
            return Judgement(status=OPEN, reason=lost)
        return Judgement(
            status=NOT_SEPARABLE,
            reason=f"a convex combination of {np.count_nonzero(p)} constraints is zero to rounding (`farkas`).",
            farkas=p / p.sum(),
        )
    if gap <= tol or gap <= 4 * slack:
        ends = f"double precision ends here: rounding alone moves the gap by {slack:.1e}."
        return Judgement(status=OPEN, reason=ends)
    return Judgement(status=OPEN, reason=f"the gap is {gap:.1e}, above {tol:g}.")


def _zero_combination(limit, multipliers):
    """Multipliers near these that combine the constraints to zero, or `None`; what may be dust is dropped."""
    small = limit.dual_norm_of(limit.combine(multipliers)) <= _SMALL * limit.sizes.max()
    for dust in _DUST if small else ():
        p = np.where(multipliers > dust * multipliers.max(), multipliers, 0.0)
        if limit.signs is not None and not all((p[limit.signs == side] > 0).any() for side in (-1, 1)):
            return None
        refined = cancelling(limit, p)
        if refined is not None and limit.dual_norm_of(limit.combine(refined)) <= _SMALL * (limit.sizes @ refined):
            return refined
    return None
