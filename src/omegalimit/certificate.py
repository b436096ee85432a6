"""Certificates: two-sided bounds on a limit problem's value, recomputed from the problem and a candidate alone."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from . import _html


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeltaRank:
    """Every optimum has all but the share `delta` of its norm in a space of dimension (or on a support of size) `rank`.

    Proved from the dual (von Neumann's trace inequality): with `|M| = 1` in the dual norm and `s_i` its sorted
    singular values (l1: sorted absolute entries; group and Fourier l1: sorted sizes of the groups or coefficients),
    every optimum `W` of norm one has `sum_i (1 - s_i) sigma_i(W) <= gap`, hence `delta = gap / (1 - s_{rank+1})`.
    Derived here.
    """

    rank: int
    delta: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """Bounds `lower <= gamma* <= upper` on the maximum margin `gamma* = max_W min_k <A_k, W> / |W|`.

    With an intercept `b` the margins are `<A_k, W> + y_k b`; below, `m_k` are the margins of the point of norm one.

    - `lower`: the candidate's own margin `min_k m_k`; negative where it misclassifies, never clipped.
    - `upper`: `|sum_k p_k A_k|` in the dual norm, with `p` the multipliers clipped to be non-negative, of sum one.
    - `average`: `sum_k p_k m_k`, which lies between the two: `upper - average` is what the pair lacks in stationarity,
      `average - lower` what it lacks in complementarity.
    - `slack`: rounding error of either bound, absolute, first-order estimate (about `eps * max_k |A_k|`).
    - `point`: the candidate scaled to least margin 1 (as given, scaled to norm 1, when its margin is not positive).
    - `intercept`: `b`, scaled like the point; `None` when the problem has none.
    - `intercept_kind`: `"none"`, `"free"` (`b` is not in the norm) or `"penalised"` (the norm is that of `(W, b)`).
    - `multipliers`: `p`, shape `(N,)`; with a free intercept also scaled to `sum_k y_k p_k = 0`.
    - `support`: indices of the constraints that hold the solution: `p_k > 0`, and `p_k` above the share by which `m_k`
      exceeds the least margin. A reading of the pair, not a proof.
    - `n_clipped`, `clipped_mass`: how many multipliers were negative, and their share of the absolute sum.
    - `delta_rank`: see `DeltaRank`; `None` where nothing can be proved.
    - `multipliers_given`: false when the multipliers were found here by non-negative least squares, which loses
      accuracy.
    """

    lower: float
    upper: float
    average: float
    slack: float
    point: Float[np.ndarray, "..."]
    intercept: float | None
    intercept_kind: str
    multipliers: Float[np.ndarray, " N"]
    support: Int[np.ndarray, " S"]
    n_clipped: int
    clipped_mass: float
    delta_rank: DeltaRank | None
    multipliers_given: bool

    @property
    def gap(self) -> float:
        """`(upper - lower) / upper`: zero if and only if the pair is optimal; `inf` when `upper` is zero."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else float("inf")

    @property
    def stationarity(self) -> float:
        """`(upper - average) / upper`, the part of `gap` that the point's direction causes; `inf` when `upper` is 0."""
        return (self.upper - self.average) / self.upper if self.upper > 0 else float("inf")

    @property
    def complementarity(self) -> float:
        """`(average - lower) / upper`, the part of `gap` from multipliers on constraints that are not active."""
        return (self.average - self.lower) / self.upper if self.upper > 0 else float("inf")

    @property
    def relative_slack(self) -> float:
        """Rounding error of `gap`, first order: `slack (1/upper + 1/upper)`; `inf` when `upper` is zero."""
        return 2 * self.slack / self.upper if self.upper > 0 else float("inf")

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "holding the solution": f"{len(self.support)} of {len(self.multipliers)} constraints"
        }
        if self.delta_rank is not None:
            share = _html.number(self.delta_rank.delta)
            facts["rank"] = f"{self.delta_rank.rank}, but for at most the share {share} of the norm"
        if self.intercept is not None:
            facts["intercept"] = self.intercept
        facts["multipliers"] = _html.found(self.multipliers_given)
        return _html.bounds(self, of="maximum margin", facts=facts)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LeastCertificate:
    """Bounds `lower <= f* <= upper` on the least value `f*` of `f(k)` over `X k = y`.

    - `lower`: `nu.y - f^*(X^T nu)`, with `nu` scaled into the domain of the conjugate `f^*`; never clipped.
    - `upper`: `f` at `point`; infinite where the point lies outside the domain of `f`, or off `X k = y` with no
      correction that moves it there.
    - `slack`: error of either bound, absolute, first order: rounding, and `|nu|.|X k - y|` for what residual is left.
    - `residual`: of the point as given, `max_i |X_i.k - y_i| / (|X_i| |k| + |y_i|)`: the relative change of the data
      that makes it an interpolator (Rigal and Gaches).
    - `correction`: how far the point was moved onto `X k = y`, as a share of its own Euclidean size.
    - `point`: the point so moved, shape `(d,)`; as given where that failed.
    - `multipliers`: `nu` as scaled, shape `(n,)`; `dual_point`: `X^T nu`, shape `(d,)`, in the subdifferential of `f`
      at the optimum.
    - `support`: the coordinates that the point uses, see the regulariser. A reading of the pair, not a proof.
    - `multipliers_given`: false when the multipliers were found here from the point's stationarity condition, which
      loses accuracy.
    """

    lower: float
    upper: float
    slack: float
    residual: float
    correction: float
    point: Float[np.ndarray, " d"]
    multipliers: Float[np.ndarray, " n"]
    dual_point: Float[np.ndarray, " d"]
    support: Int[np.ndarray, " S"]
    multipliers_given: bool

    @property
    def gap(self) -> float:
        """`(upper - lower) / upper`, zero if and only if the pair is optimal; `inf` where `upper` is no bound.

        Where the least value is zero there is no relative gap: 0 when both bounds are zero, else `inf`.
        """
        if self.upper == 0:
            return 0.0 if self.lower >= 0 else float("inf")
        return (self.upper - self.lower) / self.upper if np.isfinite(self.upper) else float("inf")

    @property
    def relative_slack(self) -> float:
        """Error of `gap`, first order: `2 slack / upper`; `inf` where `upper` is no bound."""
        if self.slack == 0 and np.isfinite(self.upper):
            return 0.0
        return 2 * self.slack / self.upper if 0 < self.upper < np.inf else float("inf")

    def _repr_html_(self) -> str:
        facts = {
            "support": f"{len(self.support)} of {len(self.point)} coordinates",
            "residual": self.residual,
            "multipliers": _html.found(self.multipliers_given),
        }
        return _html.bounds(self, of="least value over the interpolants", facts=facts)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BarrierCertificate:
    """Bounds `lower <= f* <= upper` on the least value `f*` of a strongly convex barrier over `Z v >= kappa`.

    - `lower`: the dual value at `multipliers`; `upper`: the barrier's value at `point`, infinite where that is not
      feasible and no multiple of it is.
    - `slack`: rounding error of either bound, absolute, first order.
    - `difference`: `upper - lower`, summed from terms none of which is negative, so that it may be far smaller than
      the rounding error of either bound; `difference_slack`: its own rounding error.
    - `point`: scaled to least margin `kappa`, shape `(d,)`, with `tail`: `point + tail` is meant, where a double holds
      too few digits of a coordinate near its bound; `room`: `1 - |point + tail|`.
    - `scaling`: the factor less one by which the given point was scaled; `infeasibility`: of the point as given, by
      how much its least margin falls short of `kappa`, as a share of `kappa` (0 when feasible).
    - `multipliers`: shape `(n,)`, not negative; `n_clipped`: how many were, and were set to zero.
    - `stationarity`: the largest `|v_j - w_j|`, `w` the primal point of the multipliers, as a share of the largest
      `|v_j|`; `complementarity`: `sum_i lambda_i (z_i.v - kappa)` as a share of `upper`.
    - `support`: rows with `lambda_i > 0` that exceed the margin by no more than their multiplier holds of it. A reading
      of the pair, not a proof.
    - `multipliers_given`: false when they were found here from the point, which loses accuracy.
    """

    lower: float
    upper: float
    slack: float
    difference: float
    difference_slack: float
    point: Float[np.ndarray, " d"]
    tail: Float[np.ndarray, " d"]
    room: Float[np.ndarray, " d"]
    scaling: float
    infeasibility: float
    multipliers: Float[np.ndarray, " n"]
    n_clipped: int
    stationarity: float
    complementarity: float
    support: Int[np.ndarray, " S"]
    multipliers_given: bool

    @property
    def gap(self) -> float:
        """`difference / upper`: zero if and only if the pair is optimal; `inf` where `upper` is no bound."""
        return self.difference / self.upper if 0 < self.upper < np.inf else float("inf")

    @property
    def relative_slack(self) -> float:
        """Rounding error of `gap`; `inf` where `upper` is no bound."""
        return self.difference_slack / self.upper if 0 < self.upper < np.inf else float("inf")

    @property
    def distance(self) -> float:
        """A bound on `|v - v*|_2`, of the point and of the multipliers' own alike: `sqrt(2 (upper - lower))`.

        The barrier's second derivative is at least one everywhere. `inf` where `upper` is no bound.
        """
        return float(np.sqrt(2 * (self.difference + self.difference_slack)))

    def _repr_html_(self) -> str:
        facts = {
            "support": f"{len(self.support)} of {len(self.multipliers)} rows",
            "distance to the optimum": f"at most {_html.number(self.distance)}",
            "multipliers": _html.found(self.multipliers_given),
        }
        return _html.bounds(self, of="least barrier", facts=facts)
