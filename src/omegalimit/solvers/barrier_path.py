"""The whole path of barrier minimisers, from the l2 to the l-infinity maximum margin: one problem for each rate.

The l-infinity margin `gamma` is found once. Each point then comes from its own start, the l-infinity maximiser moved
towards zero, and not from its neighbour: an interior point method gains nothing from an iterate on the boundary.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from .._checks import check_finite, shape_text, to_float64
from ..certificate import BarrierCertificate, Certificate
from ..limits import MaxMargin
from ..limits.barrier import Barrier, checked_rows
from ._barrier import MARGIN_TOL, least_barrier
from ._solution import Solution
from ._solve import solve


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BarrierPath:
    """The minimisers `v*(kappa)` for `kappa = fractions * gamma`.

    - `fractions`: shape `(m,)`, as given.
    - `margin`: the l-infinity maximum margin that they are fractions of, certified.
    - `solutions`: one for each fraction, with its status; also where `solved` is false.
    """

    fractions: Float[np.ndarray, " m"]
    margin: Solution[Certificate]
    solutions: tuple[Solution[BarrierCertificate], ...]

    @property
    def kappas(self) -> Float[np.ndarray, " m"]:
        """The margins that were asked for, shape `(m,)`, in the units of `Z`."""
        return kappas_of(self.fractions, self.margin.certificate.lower)

    @property
    def solved(self) -> Bool[np.ndarray, " m"]:
        """Which of the problems were solved to `tol`, shape `(m,)`."""
        return np.array([solution.status == "optimal" for solution in self.solutions])

    @property
    def points(self) -> Float[np.ndarray, "m d"]:
        """`v*(kappa)`, shape `(m, d)`: `v* / kappa` tends to the l2 maximum margin as `kappa` falls to zero.

        NaN where the problem was not solved; how far its method came is in `solutions`.
        """
        points = np.stack([solution.certificate.point for solution in self.solutions])
        return np.where(self.solved[:, None], points, np.nan)


def barrier_path(Z: ArrayLike, fractions: ArrayLike, *, tol: float = 1e-8) -> BarrierPath:
    """The barrier's minimisers at these fractions of the l-infinity maximum margin of the rows `Z`.

    - `Z`: rows `y_i x_i`, shape `(n, d)`. `fractions`: shape `(m,)`, each in (0, 1). `tol`: as in `solve`.

    Raises `ValueError` for fractions or a `tol` outside (0, 1), for rows that are not separable, and what `Barrier`
    raises.
    """
    shares, _ = to_float64(fractions, "fractions")
    check_finite(shares, "fractions")
    if shares.ndim != 1 or not shares.size:
        raise ValueError(f"`fractions` must have shape (m,) with m >= 1; got {shape_text(shares.shape)}.")
    outside = np.flatnonzero((shares <= 0) | (shares >= 1))
    if len(outside):
        i = int(outside[0])
        raise ValueError(f"`fractions[{i}]` is {shares[i]:g}; each must lie between 0 and 1, both excluded.")
    tol = _checked_tol(tol)
    rows = checked_rows(Z)[0]
    margin = solve(MaxMargin("linf", rows=rows), MARGIN_TOL)
    if margin.farkas is not None or not margin.certificate.lower > 0:
        raise ValueError(f"The rows of `Z` have no positive margin, and no barrier path: {margin.reason}")
    kappas = kappas_of(shares, margin.certificate.lower)
    solutions = tuple(least_barrier(Barrier(rows, kappa), margin, tol=tol) for kappa in kappas.tolist())
    return BarrierPath(fractions=shares, margin=margin, solutions=solutions)


def _checked_tol(tol: object) -> float:
    """As `solve` asks of it, which is called with a tolerance of its own here."""
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.integer, np.floating)):
        raise TypeError(f"`tol` must be a number; got {tol!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol}.")
    return float(tol)


def kappas_of(fractions: Float[np.ndarray, " m"], gamma: float) -> Float[np.ndarray, " m"]:
    """`fractions * gamma`; near one from above, so that `gamma - kappa` keeps the digits of `1 - fraction`."""
    return np.where(fractions < 0.5, fractions * gamma, gamma - (1 - fractions) * gamma)
