"""Both ends of the barrier's path, and the crossover under a fixed eps: claims of `smoothed_sign_descent`.

Let x be the Euclidean maximum-margin point with margin one, and v(kappa) the barrier's minimiser. With R(a) = B(a) -
a^2/2 the optimality conditions say that v is the Euclidean projection of -grad R(v) on {Z v >= kappa}, and kappa x that
of 0. Projections do not stretch, hence, exactly and for every kappa,

    |v/kappa - x| <= |grad R(v)| / kappa,       R'(a) = a |a| / (1 - |a|),                           which is O(kappa).

At the other end let p >= 0, sum p = 1, be a dual solution of the l-infinity maximum margin gamma, q = Z'p and |q|_1 =
gamma. Every v with |v|_inf <= 1 and Z v >= kappa has

    sum_i p_i (z_i'v - kappa) + sum_j (|q_j| - q_j v_j) = gamma - kappa,

with no negative term on the left. So the rows with p_i > 0 and the coordinates with q_j != 0 of v are within (gamma -
kappa) over p_i or |q_j| of those of the maximiser, and v itself is within K (gamma - kappa) when these rows and
coordinates determine it (K by the smallest singular value). `_ends` has it. The barrier's own law, when they
are d + 1 in number: 1 - |v_j| = (gamma - kappa) / (m |q_j|) to first order, m the number of coordinates at the bound.

Both are derived here; the authors state the two limits.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...flows.smoothed_sign_descent import smoothed_sign_descent
from ._sign_setting import Setting, named

LABEL = "barrier path"
SMALL = (1e-1, 1e-2, 1e-3, 1e-4)
"""Rates over gamma_inf towards the Euclidean end, and what is missing from one towards the other. Nearer to it the
Euclidean maximum margin, which a solver knows to the root of its gap, is no better known than the distance."""

SMALLER = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
"""What is missing from one where `SMALL` does not come near enough: K may be large."""

DECISIVE = 0.1
"""Share of the distance between the two ends that the last rate may allow, so that it tells them apart."""

ONE_DIRECTION = 1e-3
"""Distance of two directions of length one that count as one."""

LEAST_STEPS = 8192
"""Fewer are as dear: the dynamics compiles anew for each number of steps below this."""

CROSSOVER = 0.01
"""Relative error of the slope; that of a rate kappa would be off by kappa / gamma_inf at least."""


def l2_endpoint(setting: Setting, *, norm: str = "l2") -> Verdict:
    """v(kappa)/kappa against the Euclidean maximum margin as kappa falls; `norm="linf"` for a counter-instance."""
    why, undecided = setting.why_inseparable, _undecided(setting)
    points: list[_Point] = []
    apart = math.nan
    if why is None and undecided is None:
        certificate, other = (s.certificate for s in _ordered(setting, norm == "l2"))
        end = certificate.point  # scaled to margin 1
        apart = float(np.linalg.norm(end - other.point))
        # The point of margin one is unique, and as near to the candidate as the gap allows: |x - x'|^2 <= |x|^2 -
        # |x'|^2.
        end_error = float(np.linalg.norm(end)) * math.sqrt(
            2 * max(certificate.gap, 0.0) + 2 * certificate.relative_slack
        )
        for fraction in SMALL:
            found = setting.barrier(fraction)
            if found.status != "optimal":
                undecided = f"the barrier at {fraction:g} gamma_inf is not solved: {found.reason}"
                break
            kappa, v = fraction * setting.gamma, found.certificate.point
            points.append(
                _Point(
                    at=fraction,
                    distance=float(np.linalg.norm(v / kappa - end)),
                    allowed=float(np.linalg.norm(v * v / (1 - np.abs(v)))) / kappa,
                    error=found.certificate.distance / kappa + end_error,
                )
            )
    return _endpoint("l2-endpoint", points, apart, why, undecided)


def linf_endpoint(setting: Setting, *, norm: str = "linf") -> Verdict:
    """v(kappa) against the l-infinity maximiser as kappa tends to gamma_inf; `norm="l2"` for a counter-instance."""
    why, undecided = setting.why_inseparable, _undecided(setting)
    points: list[_Point] = []
    laws: list[float] = []
    apart = math.nan
    if why is None and undecided is None:
        constant, law = _ends(setting)
        if not math.isfinite(constant):
            undecided = "more than one point has the largest l-infinity margin, or rounding does not tell them apart."
        certificate, other = (s.certificate for s in _ordered(setting, norm == "l2"))
        end = certificate.point / np.abs(certificate.point).max()
        apart = float(np.linalg.norm(end - other.point / np.abs(other.point).max()))
        for missing in (*SMALL, *SMALLER) if undecided is None else ():
            if missing < SMALL[-1] and points[-1].allowed <= DECISIVE * apart:
                break
            found = setting.barrier(1 - missing)
            if found.status != "optimal":
                # What was solved may be enough; `_endpoint` says so if it is not.
                if len(points) < len(SMALL):
                    undecided = f"the barrier at (1 - {missing:g}) gamma_inf is not solved: {found.reason}"
                break
            room = missing * setting.gamma
            # The maximiser of the solver misses the margin by its gap, and is off by as much as that allows.
            missed = constant * setting.gamma * (max(setting.linf.certificate.gap, 0.0) + certificate.relative_slack)
            points.append(
                _Point(
                    at=missing,
                    distance=float(np.linalg.norm(found.certificate.point - end)),
                    allowed=constant * room,
                    error=found.certificate.distance + missed,
                )
            )
            if law is not None:
                at, expected = law
                laws.append(float(np.abs(found.certificate.room[at] / (room * expected) - 1).max()))
    verdict = _endpoint("linf-endpoint", points, apart, why, undecided)
    verdict.details["relative error of the law 1 - |v_j| = (gamma - kappa) / (m |q_j|)"] = laws
    return verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Point:
    """A rate, as it is counted at its end; the distance to the end, what is allowed, and how well the two are known."""

    at: float
    distance: float
    allowed: float
    error: float


def _ordered(setting: Setting, l2_first: bool) -> tuple[Any, Any]:
    return (setting.l2, setting.linf) if l2_first else (setting.linf, setting.l2)


def _ends(setting: Setting) -> tuple[float, tuple[np.ndarray, np.ndarray] | None]:
    """K, infinite where the maximiser is not determined; coordinates at the bound with 1 / (m |q_j|), or `None`."""
    certificate = setting.linf.certificate
    d, gamma, p = setting.Z.shape[1], setting.gamma, certificate.multipliers
    q = setting.Z.T @ p
    rounding = 1e3 * len(p) * np.finfo(float).eps
    active = np.flatnonzero(p > max(rounding, 10 * certificate.gap) * p.max())
    bound = np.flatnonzero(np.abs(q) > max(rounding, 10 * certificate.gap) * np.abs(q).max())
    M = np.vstack([setting.Z[active] / gamma, np.eye(d)[bound]])
    sizes = np.concatenate([np.maximum(1, 1 / p[active] - 1), gamma / np.abs(q[bound])]) / gamma
    values = np.linalg.svd(M, compute_uv=False) if len(M) >= d else np.zeros(1)
    if values[-1] <= rounding * values[0]:
        return math.inf, None
    # Not all terms can be as large as that at once, since their weighted sum is gamma - kappa: K is not the least.
    constant = float(np.linalg.norm(sizes)) / float(values[-1])
    law = (bound, 1 / (len(bound) * np.abs(q[bound]))) if len(M) == d + 1 else None
    return constant, law


def _undecided(setting: Setting) -> str | None:
    """Why neither end can be judged, or `None`."""
    if setting.why_unknown is not None:
        return setting.why_unknown
    for name, found in (("l-infinity", setting.linf), ("Euclidean", setting.l2)):
        if setting.why_inseparable is None and found.status != "optimal":
            return f"the {name} maximum margin is not solved: {found.reason}"
    if setting.separable and setting.apart < ONE_DIRECTION:
        return "the Euclidean and the l-infinity maximum margin are one direction: these data cannot tell them apart."
    return None


def _endpoint(claim: str, points: list[_Point], apart: float, why: str | None, undecided: str | None) -> Verdict:
    """The distance at every rate is within what is allowed, and what the last allows tells the two ends apart."""
    ratios = [p.distance / p.allowed if p.allowed > 0 else math.inf for p in points]
    slacks = [p.error / p.allowed if p.allowed > 0 else math.inf for p in points]
    worst = int(np.argmax(np.array(ratios) + np.array(slacks))) if ratios else None
    if undecided is None and points and not points[-1].allowed <= DECISIVE * apart:
        undecided = (
            f"at the last rate a distance of {points[-1].allowed:.1e} is allowed, and the two ends are {apart:.1e} "
            "apart: nothing nearer was solved."
        )
    if undecided is None and worst is not None and abs(ratios[worst] - 1) <= slacks[worst]:
        undecided = f"the limits are known to {slacks[worst]:.1e} of the distance that is allowed, no better."
    return Verdict(
        claim=claim,
        parametrisation=LABEL,
        loss="exponential",
        kind=Kind.EQUALITY,
        measured=math.nan if worst is None else ratios[worst],
        bound=1.0,
        slack=0.0 if worst is None else slacks[worst],
        unit="of the distance that is allowed",
        conditions=(Assumption(name=why or "the rows are separable", holds=why is None),),
        undecided=undecided,
        details={
            "distance to the end": {f"{p.at:g}": p.distance for p in points},
            "distance between the two ends": apart,
            "ratios": ratios,
        },
    )


def affordable(setting: Setting, epsilons: tuple[float, ...], *, step: float, work: float) -> tuple[float, ...]:
    """Those of the values, the largest first, that this much work is enough for.

    The slope is a limit as eps falls: the smallest are worth most, and two of them far apart. So the smallest is taken
    that can be had with two others, near a half and a quarter of its logarithm; then what there is room for, the
    smallest first.
    """
    values = sorted(set(epsilons))
    cost = {eps: _n_steps(setting, eps, step=step, rate=0.0) for eps in values}
    budget = setting.affordable_steps(work)
    for k, smallest in enumerate(values[:-1]):
        taken = [smallest]
        for share in (0.5, 0.25):
            rest = [eps for eps in values[k:] if eps > taken[-1]]
            if rest:
                taken.append(min(rest, key=lambda eps: abs(math.log(eps) / math.log(smallest) - share)))
        if sum(cost[eps] for eps in taken) <= budget:
            for eps in values[k:]:
                if eps not in taken and sum(cost[e] for e in (*taken, eps)) <= budget:
                    taken.append(eps)
            return tuple(sorted(taken, reverse=True))
    return ()


def _n_steps(setting: Setting, eps: float, *, step: float, rate: float) -> int:
    """log |g| falls by gamma_inf - rate a unit of S, nearly, after a start of its own."""
    span = 1.1 * math.log(1 / eps) + 10
    return max(LEAST_STEPS, math.ceil((span / (setting.gamma - rate) if setting.separable else span) / step))


def crossovers(
    setting: Setting, epsilons: tuple[float, ...], *, step: float, rate: float = 0.0
) -> list[tuple[float, float]]:
    """(eps, S_x) for each fixed eps, in units of the first gradient: S when every |g_j| is below it; NaN if never."""
    found = []
    for eps in epsilons:
        path = smoothed_sign_descent(
            setting.Z,
            rate=rate,
            step_size=step,
            n_steps=_n_steps(setting, eps, step=step, rate=rate),
            weights=setting.weights,
            eps0=eps * setting.gradient_size,
            n_kept=2,
        )
        found.append((eps, path.crossover_S))
    return found


def fixed_eps_crossover(
    setting: Setting, found: list[tuple[float, float]], *, step: float, dropped: tuple[float, ...] = ()
) -> Verdict:
    """The slope of S_x in log(1/eps) is 1/gamma_inf, between the two smallest eps.

    How far the slope still is from its limit is estimated by its change from the pair before; the first "pair" is of
    the start, eps = 1 and S = 0. `dropped`: values that were asked for and not run.
    """
    ordered = sorted(found, reverse=True)
    reached = np.array([math.isfinite(at) for _, at in ordered], dtype=bool)
    x = np.array([0.0, *(math.log(1 / eps) for eps, _ in ordered)])
    S = np.array([0.0, *(at for _, at in ordered)])
    slopes = np.diff(S) / np.diff(x)
    slope = float(slopes[-1])
    why, undecided, gamma = setting.why_inseparable, setting.why_unknown, setting.gamma
    if why is None and undecided is None and not reached.all():
        undecided = f"{int((~reached).sum())} runs did not reach the crossover."
    # S_x is known to one step at each end; gamma to its certificate.
    slack = 2 * step * gamma / float(x[-1] - x[-2]) + setting.linf.certificate.gap
    slack += abs(float(slopes[-1] - slopes[-2])) * gamma
    measured = abs(slope * gamma - 1)
    cut = ""
    if dropped:
        cut = f" Not run, since they take too many steps here: eps = {', '.join(map(named, sorted(dropped)))}."
    if (
        why is None
        and undecided is None
        and measured + slack > CROSSOVER
        and (dropped or measured <= CROSSOVER + slack)
    ):
        undecided = (
            f"the slope times gamma_inf is {slopes[-2] * gamma:.4f} and then {slope * gamma:.4f}: it takes smaller "
            f"eps, or some farther apart.{cut}"
        )
    return Verdict(
        claim="fixed-eps-crossover",
        parametrisation="fixed eps",
        loss="exponential",
        kind=Kind.EQUALITY,
        measured=measured if why is None else math.nan,
        bound=CROSSOVER,
        slack=slack if math.isfinite(slack) else 0.0,
        unit="relative error of the slope",
        undecided=undecided,
        conditions=(Assumption(name=why or "gamma_inf is positive", holds=why is None),),
        details={
            "slope": slope,
            "slopes between neighbouring eps, the first from the start": slopes.tolist(),
            "1/gamma_inf": 1 / gamma if setting.separable else math.inf,
            "S_x": {named(eps): at for eps, at in ordered},
        },
    )
