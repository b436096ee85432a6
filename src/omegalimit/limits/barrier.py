"""The barrier over a margin slice: where smoothed sign descent with annealed stability ends, with a certificate.

    min_v  sum_j B(v_j)   over  Z v >= kappa,        B(v) = -|v| - log(1 - |v|)

the Burg entropy of the room `1 - |v_j|` that a coordinate leaves, made even. With `Z' lambda = u` the dual is

    max_{lambda >= 0}  kappa 1'lambda - sum_j B*(u_j),   B*(u) = |u| - log(1 + |u|),   (B*)'(u) = u / (1 + |u|)

so that `v = (B*)'(Z'lambda)`: the map of a smoothed sign. `B'' = 1 / (1 - |v|)^2 >= 1`. Between the ends of
`0 < kappa < gamma`, `gamma` the l-infinity maximum margin, the minimiser goes from the direction of the l2 maximum
margin (`B(v) ~ v^2 / 2`) to the l-infinity maximum margin; where that is not unique, to the point of its face with the
least sum of `B` over the coordinates that are not at a bound on the whole face.

The paper's abstract speaks of "a convex Burg-type barrier over a margin slice"; this problem, its dual and both ends
are reconstructed here from that. Derived here too: the certificate's form.

**No difference of large numbers.** With `q_j = |u_j| (1 - |v_j|) - |v_j|`, for `u_j v_j >= 0`,

    primal - dual value = sum_j (q_j - log(1 + q_j)) + sum_i lambda_i (z_i.v - kappa)

(else `2 |u_j v_j|` more, with `q_j = |u_j| (1 - |v_j|) - |v_j|` all the same): no term is negative for a feasible `v`,
and near the optimum each is the square of a small number. The products with `Z` are taken to thirty digits. So the
difference is known far below the rounding of either value, and with it the distance to the minimiser, at most
`sqrt(2 (primal - dual))`, which holds for `v` and for `(B*)'(Z'lambda)` alike.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import shape_text, to_float64
from ..certificate import BarrierCertificate
from ._arrays import check_range, checked, shaped, split
from ._barrier_bounds import ScaledBarrier, certified, dual_value
from ._barrier_terms import barrier_terms
from ._double_double import times, two_sum

_EPS = float(np.finfo(float).eps)
# Beyond 2**1000 the multipliers' bounds leave double precision, and below 2**-400 the barrier's values do.
_LARGEST_EXPONENT = 1000
_LEAST_EXPONENT = -400


def checked_rows(Z: ArrayLike) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"], int]:
    """The rows as a fresh array, and over a power of two with its exponent. Raises as `Barrier` does."""
    if scipy.sparse.issparse(Z):
        raise TypeError("`Z` is a sparse array; pass `Z.toarray()`.")
    rows = checked("Z", Z)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"`Z` must have shape (n, d) and at least one entry; got {shape_text(rows.shape)}.")
    scaled, exponent = split(rows)
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError(
            f"The rows of `Z` are of size 2**{exponent}; their bounds leave double precision. "
            f"{'Divide' if exponent > 0 else 'Multiply'} the data, to a size from 2**-1000 to 2**1000."
        )
    check_range("Z", scaled)
    return rows, scaled, exponent


@dataclasses.dataclass(frozen=True, eq=False)
class Barrier:
    """The least barrier `min sum_j B(v_j)` over `Z v >= kappa`, see the top of this file.

    - `Z`: rows `y_i x_i`, shape `(n, d)`. Copied to double precision and made read-only. The weights of the rows in the
      loss do not matter: they move the multipliers' start and not the limit.
    - `kappa`: the margin that is asked for, positive, in the units of `Z`. The problem has a solution if and only if
      `kappa` is below the l-infinity maximum margin of `Z`; `solve` says whether it is.

    Scale-free: `Z` and `kappa` times a power of two together give the same digits of the point.

    Raises `ValueError` or `TypeError` for arrays of the wrong shape or kind, entries that are not finite, a `kappa`
    that is not a positive finite number, and data whose size leaves double precision.
    """

    Z: Any = dataclasses.field(repr=False)
    kappa: float

    def __post_init__(self):
        Z, _, exponent = checked_rows(self.Z)
        kappa, _ = to_float64(self.kappa, "kappa")
        if kappa.size != 1:
            raise ValueError(f"`kappa` must be one number; got shape {shape_text(kappa.shape)}.")
        kappa = float(kappa.reshape(()))
        if not (np.isfinite(kappa) and kappa > 0):
            raise ValueError(
                f"`kappa` must be positive, and below the l-infinity maximum margin of the rows; got {kappa}."
            )
        if Z.any() and np.frexp(kappa)[1] - exponent < _LEAST_EXPONENT:
            raise ValueError(
                f"`kappa` is {kappa:g}, smaller than the entries of `Z` by a factor of {kappa / np.abs(Z).max():.0e}; "
                "the barrier's values leave double precision. Take the l2 maximum margin, which is the limit."
            )
        Z.flags.writeable = False
        object.__setattr__(self, "Z", Z)
        object.__setattr__(self, "kappa", kappa)

    @property
    def n_constraints(self) -> int:
        """`n`, the number of rows."""
        return len(self.Z)

    @property
    def shape(self) -> tuple[int]:
        """Shape of a point, `(d,)`."""
        return (self.Z.shape[1],)

    def scaled(self) -> ScaledBarrier:
        """The problem in units of its own, see `ScaledBarrier`."""
        return self._scaled

    @functools.cached_property
    def _scaled(self) -> ScaledBarrier:
        Z, exponent = split(self.Z)
        with np.errstate(over="ignore"):
            return ScaledBarrier(Z=Z, kappa=float(np.ldexp(self.kappa, -exponent)), exponent=exponent)

    def value(self, point: ArrayLike) -> float:
        """`sum_j B(v_j)`; infinite outside `|v_j| < 1`. Feasible or not."""
        return float(barrier_terms(shaped("point", point, self.shape)).sum())

    def dual_value(self, multipliers: ArrayLike) -> float:
        """`kappa 1'lambda - sum_j B*((Z'lambda)_j)`, for multipliers used as given."""
        scaled = self.scaled()
        return dual_value(scaled, np.ldexp(shaped("multipliers", multipliers, (len(self.Z),)), scaled.exponent))[0]

    def certify(
        self, point: ArrayLike, multipliers: ArrayLike | None = None, *, tail: ArrayLike | None = None
    ) -> BarrierCertificate:
        """Both bounds on the least value, recomputed from the data, the candidate and multipliers alone.

        - `point`: `v`, shape `(d,)`. It is scaled to least margin `kappa`, which makes a point that falls short
          feasible and improves one that exceeds. Where its least margin is not positive, or the multiple leaves
          `|v_j| < 1`, the upper bound is infinite.
        - `multipliers`: `lambda`, shape `(n,)`; negative ones are set to zero and counted. CVXPY's dual values of
          `Z @ v >= kappa` serve as they are. `None`: they are found by non-negative least squares of the stationarity
          condition on the nearly active rows, and `multipliers_given` is false.
        - `tail`: `point + tail` is the candidate; a double near one holds few digits of the room beside it.

        Raises `ValueError` for shapes that do not fit and entries that are not finite.
        """
        scaled = self.scaled()
        v = shaped("point", point, self.shape)
        low = np.zeros_like(v) if tail is None else shaped("tail", tail, self.shape)
        given, n_clipped = None, 0
        if multipliers is not None:
            given = np.ldexp(shaped("multipliers", multipliers, (len(self.Z),)), scaled.exponent)
            n_clipped = int((given < 0).sum())
            given = np.maximum(given, 0.0)
            if not np.isfinite(given).all():
                raise ValueError("`multipliers` are so large that their bound leaves double precision; rescale them.")
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            found = certified(scaled, *two_sum(v, low), given)
        return dataclasses.replace(
            found, multipliers=np.ldexp(found.multipliers, -scaled.exponent), n_clipped=n_clipped
        )

    def unreachable(self, multipliers: ArrayLike) -> bool:
        """True when `p >= 0` proves that no point has the margin: `|Z'p|_1 <= kappa 1'p`, within rounding.

        For then `min_i z_i.v <= p.Z v / 1'p < kappa` wherever all `|v_j| < 1` (Farkas).
        """
        scaled = self.scaled()
        p, _ = split(shaped("multipliers", multipliers, (len(self.Z),)))
        if not (p >= 0).all() or not p.any():
            return False
        size = float(np.abs(times(np.ascontiguousarray(scaled.Z.T), p)[0]).sum())
        # Entries that change by this share of the largest make the inequality exact.
        rounding = _EPS * (2 + np.sqrt(max(scaled.Z.shape))) * float(p @ np.abs(scaled.Z).max(axis=1))
        return bool(size <= scaled.kappa * p.sum() + rounding)
