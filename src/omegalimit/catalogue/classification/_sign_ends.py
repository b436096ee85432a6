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
coordinates determine it (K by the smallest singular value). That is `Ends.constant`. The barrier's own law, when they
are d + 1 in number: 1 - |v_j| = (gamma - kappa) / (m |q_j|) to first order, m the number of coordinates at the bound.

Both are derived here; the authors state the two limits.
"""

import math

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...flows.smoothed_sign_descent import smoothed_sign_descent
from ._sign_setting import Setting

LABEL = "barrier path"
SMALL = (1e-1, 1e-2, 1e-3, 1e-4)
"""Rates over gamma_inf towards the Euclidean end, and what is missing from one towards the other. Nearer to it the
Euclidean maximum margin, which a solver knows to the root of its gap, is no better known than the distance."""

NEAR = 1e-3
"""Distance of the nearest point of `SMALL` to the end, relative to the end's size."""

LEAST_STEPS = 8192
"""Fewer are as dear: the dynamics compiles anew for each number of steps below this."""

CROSSOVER = 0.01
"""Relative error of the slope; that of a rate kappa would be off by kappa / gamma_inf at least."""


def l2_endpoint(setting: Setting, *, norm: str = "l2") -> Verdict:
    """v(kappa)/kappa against the Euclidean maximum margin as kappa falls; `norm="linf"` for a counter-instance."""
    certificate = (setting.l2 if norm == "l2" else setting.linf).certificate
    end, why = certificate.point, _why_unsolved(setting)  # scaled to margin 1
    undecided = _one_point(setting) if why is None else None
    size = float(np.linalg.norm(end))
    # The point of margin one is unique, and as near to the candidate as the gap allows: |x - x'|^2 <= |x|^2 - |x'|^2.
    end_error = size * math.sqrt(2 * max(certificate.gap, 0.0) + 2 * certificate.relative_slack)
    ratios, slacks, distances = [], [], []
    for fraction in SMALL if why is None else ():
        found = setting.barrier(fraction).certificate
        kappa, v = fraction * setting.gamma, found.point
        bound = float(np.linalg.norm(v * v / (1 - np.abs(v)))) / kappa
        distance = float(np.linalg.norm(v / kappa - end))
        distances.append(distance / size)
        ratios.append(distance / bound)
        slacks.append((found.distance / kappa + end_error) / bound)
    return _endpoint(setting, "l2-endpoint", ratios, slacks, distances, why, undecided)


def linf_endpoint(setting: Setting, *, norm: str = "linf") -> Verdict:
    """v(kappa) against the l-infinity maximiser as kappa tends to gamma_inf; `norm="l2"` for a counter-instance."""
    certificate = (setting.linf if norm == "linf" else setting.l2).certificate
    end, why = certificate.point / np.abs(certificate.point).max(), _why_unsolved(setting)
    constant, law = _ends(setting) if why is None else (math.inf, None)
    undecided = _one_point(setting) if why is None else None
    if why is None and not math.isfinite(constant):
        undecided = "more than one point has the largest l-infinity margin, or rounding does not tell them apart."
    size = float(np.linalg.norm(end))
    ratios, slacks, distances, laws = [], [], [], []
    for missing in SMALL if why is None and math.isfinite(constant) else ():
        found = setting.barrier(1 - missing).certificate
        room = missing * setting.gamma
        distance = float(np.linalg.norm(found.point - end))
        bound = constant * room
        distances.append(distance / size)
        ratios.append(distance / bound if bound > 0 else math.inf)
        # The maximiser of the solver misses the margin by its gap, and is off by as much as that allows.
        missed = constant * setting.gamma * (max(setting.linf.certificate.gap, 0.0) + certificate.relative_slack)
        slacks.append((found.distance + missed) / bound if bound > 0 else math.inf)
        if law is not None:
            at, expected = law
            laws.append(float(np.abs(found.room[at] / (room * expected) - 1).max()))
    verdict = _endpoint(setting, "linf-endpoint", ratios, slacks, distances, why, undecided)
    verdict.details["relative error of the law 1 - |v_j| = (gamma - kappa) / (m |q_j|)"] = laws
    return verdict


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


def _one_point(setting: Setting) -> str | None:
    """Why the ends cannot be told apart, or `None`."""
    ends = [s.certificate.point / np.linalg.norm(s.certificate.point) for s in (setting.l2, setting.linf)]
    if np.linalg.norm(ends[0] - ends[1]) < 10 * NEAR:
        return "the Euclidean and the l-infinity maximum margin are one direction: these data cannot tell them apart."
    return None


def _why_unsolved(setting: Setting) -> str | None:
    if not setting.separable:
        return f"nothing separates the rows: {setting.linf.reason}"
    open_ends = [s.reason for s in (setting.l2, setting.linf) if s.status != "optimal"]
    open_ends += [
        s.reason for f in SMALL for s in (setting.barrier(f), setting.barrier(1 - f)) if s.status != "optimal"
    ]
    return f"a limit is not solved: {open_ends[0]}" if open_ends else None


def _endpoint(setting, claim, ratios, slacks, distances, why, undecided=None) -> Verdict:
    worst = int(np.argmax(np.array(ratios) + np.array(slacks))) if ratios else None
    conditions = (Assumption(name=why or "both ends and the barrier are solved", holds=why is None),)
    if distances:
        near = Assumption(
            name=f"the last point is within {NEAR:g} of the end", holds=distances[-1] < NEAR, measured=distances[-1]
        )
        conditions = (*conditions, near)
    return Verdict(
        claim=claim,
        parametrisation=LABEL,
        loss="exponential",
        kind=Kind.EQUALITY,
        measured=math.nan if worst is None else ratios[worst],
        bound=1.0,
        slack=0.0 if worst is None else slacks[worst],
        unit="of the distance that is allowed",
        conditions=conditions,
        undecided=undecided,
        details={
            "distance to the end, relative": dict(zip(map(str, SMALL), distances, strict=False)),
            "ratios": ratios,
        },
    )


def affordable(setting: Setting, epsilons: tuple[float, ...], *, step: float, work: float) -> tuple[float, ...]:
    """As many of the values, the largest first, as this much work is enough for."""
    taken, left = [], setting.affordable_steps(work)
    for eps in sorted(set(epsilons), reverse=True):
        left -= _n_steps(setting, eps, step=step, rate=0.0)
        if left < 0:
            break
        taken.append(eps)
    return tuple(taken)


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


def fixed_eps_crossover(setting: Setting, found: list[tuple[float, float]], *, step: float) -> Verdict:
    """The slope of S_x in log(1/eps) is 1/gamma_inf."""
    x = np.array([math.log(1 / eps) for eps, _ in found])
    S = np.array([at for _, at in found])
    reached = np.isfinite(S)
    slope = float(np.polyfit(x[reached], S[reached], 1)[0]) if reached.sum() > 1 else math.nan
    span = float(np.ptp(x[reached])) if reached.sum() > 1 else math.nan
    why = None if setting.separable else f"nothing separates the rows: {setting.linf.reason}"
    return Verdict(
        claim="fixed-eps-crossover",
        parametrisation="fixed eps",
        loss="exponential",
        kind=Kind.EQUALITY,
        measured=abs(slope * setting.gamma - 1) if why is None else math.nan,
        bound=CROSSOVER,
        # S_x is known to one step at each end; gamma to its certificate.
        slack=2 * step * setting.gamma / span + setting.linf.certificate.gap if math.isfinite(span) else 0.0,
        unit="relative error of the slope",
        undecided=None if reached.all() or why else f"{int((~reached).sum())} runs did not reach the crossover.",
        conditions=(Assumption(name=why or "gamma_inf is positive", holds=why is None),),
        details={
            "slope": slope,
            "1/gamma_inf": 1 / setting.gamma if setting.separable else math.inf,
            "S_x": {f"{eps:g}": at for eps, at in found},
        },
    )
