"""The claim `exact-potential` of `diagonal_networks`: what a finite start selects, by the duality gap of its potential.

From `u = v = alpha` the flow of `k = u^D - v^D` ends at the interpolant that is least in a potential of its own, for
every alpha (after Woodworth et al. 2020; restated and derived here). No limit is involved: the gap is a number of the
arithmetic. The flow supplies the multipliers: with `tau = int u dt = X'nu`, the dual point is `4 tau` for D = 2 and
`D (D - 2) alpha^(D - 2) tau` beyond.
"""

import dataclasses
import functools
import math

import numpy as np
import scipy.linalg
import xarray as xr

from ...claims import Assumption, Kind, Verdict
from ...flows.diagonal_flow import DiagonalFlow, diagonal_flow
from ...limits import DepthPotential, HyperbolicEntropy, Interpolation, ModifiedL1
from ...models import PowerDifference
from ...solvers import solve
from ._diagonal_data import Instance

GAP_BOUND = 1e-9  # the flow's tolerance for a step; the gap is of second order in most errors
LOG10_ALPHAS = np.linspace(-6.0, 1.0, 15)  # at which the potential's own minimiser is drawn


@dataclasses.dataclass(frozen=True, eq=False)
class PotentialRun:
    """The flow of `u^D - v^D` from `u = v = alpha`."""

    depth: int
    alpha: float
    instance: Instance
    flow: DiagonalFlow

    @property
    def label(self) -> str:
        """`depth-D`."""
        return f"depth-{self.depth}"

    @functools.cached_property
    def plain(self) -> np.ndarray:
        """An interpolant of least l1 norm."""
        return solve(Interpolation(ModifiedL1(1.0, 1.0), self.instance.X, self.instance.y), tol=1e-10).certificate.point

    def limit(self, depth: int | None = None) -> Interpolation:
        """The exact potential of this start, or that of another depth."""
        return potential_limit(self.instance, self.depth if depth is None else depth, math.log(self.alpha))

    def multipliers(self) -> np.ndarray:
        """`nu` of the flow's own accumulated force, in the units of its potential, by least squares."""
        tau = self.flow.integral * math.exp(self.flow.log_h)
        D = self.depth
        factor = 4.0 if D == 2 else D * (D - 2) * self.alpha ** (D - 2)
        solved = scipy.linalg.lstsq(self.instance.X.T, factor * tau)
        assert solved is not None
        return solved[0]


def potential_limit(instance: Instance, depth: int, log_alpha: float) -> Interpolation:
    """The least potential of `u^D - v^D` from `alpha`, over `X k = y`."""
    if depth == 2:
        regulariser = HyperbolicEntropy(log_squares=(2 * log_alpha, 2 * log_alpha))
    else:
        regulariser = DepthPotential(depth, log_alpha=log_alpha)
    return Interpolation(regulariser, instance.X, instance.y)


def run_potential(instance: Instance, depth: int, alpha: float) -> PotentialRun:
    """Train `u^D - v^D` from `u = v = alpha`."""
    neurons, start = PowerDifference(depth), np.ones((instance.d, 2))
    flow = diagonal_flow(neurons, instance.X, instance.y, shape=start, log_s=math.log(alpha))
    return PotentialRun(depth, alpha, instance, flow)


def exact_potential(run: PotentialRun, *, judged_by: int | None = None) -> Verdict:
    """The duality gap of the flow's end and its own multipliers in its exact potential.

    `judged_by`: the depth of another potential, for a counter-instance.
    """
    limit, flow = run.limit(judged_by), run.flow
    undecided = None if flow.is_limit else f"the flow has not arrived: {flow.reason}"
    gap = slack = rival = math.nan
    details = {}
    if np.isfinite(flow.limit).all() and np.isfinite(flow.integral).all():
        certificate = limit.certify(flow.limit, run.multipliers())
        gap, slack = certificate.gap, certificate.relative_slack
        rival = limit.certify(run.plain).gap
        details = {
            "lower": certificate.lower,
            "upper": certificate.upper,
            "residual": certificate.residual,
            "correction": certificate.correction,
        }
    if undecided is None and gap <= GAP_BOUND and rival <= GAP_BOUND:
        undecided = _not_told(run, rival)
    return Verdict(
        claim="exact-potential",
        parametrisation=run.label,
        loss="squared",
        kind=Kind.EQUALITY,
        measured=gap,
        bound=GAP_BOUND,
        slack=slack if math.isfinite(slack) else 0.0,
        unit="relative gap",
        undecided=undecided,
        assumptions=(
            Assumption(name="X k = y can be solved", holds=run.instance.solvable, measured=run.instance.unreachable),
            Assumption(name="arrival", holds=flow.is_limit, measured=str(flow.ending)),
        ),
        details={
            **details,
            "alpha": run.alpha,
            "plain_optimum_gap": rival,
            "l1_excess": l1_excess(flow.limit, run.plain),
            "limit": flow.limit,
        },
    )


def _not_told(run: PotentialRun, rival: float) -> str:
    """Why the least plain l1 norm passes too. With growing alpha the potential tends to the Euclidean norm."""
    X, y = run.instance.X, run.instance.y
    if len(X) == run.instance.d:
        return "`X k = y` has one solution only on these data: there is nothing to select, at any `alpha`."
    euclidean = np.linalg.pinv(X) @ y
    apart = float(np.abs(euclidean - run.plain).max() / np.abs(euclidean).max())
    if apart <= math.sqrt(GAP_BOUND):
        return "the least plain l1 and the least Euclidean norm are one point on these data: nothing tells them apart."
    return f"the least plain l1 norm passes as well (its gap: {rival:.2g}): take a larger `alpha`."


def l1_excess(k: np.ndarray, least: np.ndarray) -> float:
    """How much more l1 norm `k` has than the least."""
    return float(np.abs(k).sum() / np.abs(least).sum() - 1)


def potential_arrays(run: PotentialRun) -> dict[str, xr.Dataset]:
    """The potential's own excess of l1 norm over many alphas, and the flow's at its own."""
    excess = np.full(len(LOG10_ALPHAS), np.nan)
    for i, log10_alpha in enumerate(LOG10_ALPHAS):
        solution = solve(potential_limit(run.instance, run.depth, log10_alpha * math.log(10)), tol=1e-9)
        if solution.status == "optimal":
            excess[i] = l1_excess(solution.certificate.point, run.plain)
    data = xr.Dataset(
        {
            "log10_alpha": ("alpha", LOG10_ALPHAS),
            "excess": ("alpha", excess),
            "flow_log10_alpha": ("run", [math.log10(run.alpha)]),
            "flow_excess": ("run", [l1_excess(run.flow.limit, run.plain)]),
        }
    )
    return {f"{run.label}/potential": data}
