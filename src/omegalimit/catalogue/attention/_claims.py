"""Claims of `softmax_attention` about one run, judged."""

import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...flows import Arrival, measure
from ...problem import other_tokens
from ...trajectory import Ending
from ._experiment import ALLOWANCE, Experiment, off_diagonal_share
from ._limits import MAX_MARGIN_CLAIM, NAMES, OTHER_NORM, Limits

FLOOR = 1e-9  # added to the bounds: a gap or residual below it is not told from zero (a single constraint has B = 0)


def _verdict(e: Experiment, claim: str, kind: Kind, **rest) -> Verdict:
    return Verdict(claim=claim, parametrisation=e.label, loss=e.problem.loss.name, kind=kind, **rest)


def _per_cap(e: Experiment, arrivals: Sequence[Arrival], gaps: Sequence[float]) -> list[dict]:
    return [
        {
            "sharpness": math.exp(a.log_sharpness),
            "gap": gap,
            "entropy_bound": a.entropy_bound,
            "complementarity": a.complementarity,
            "stationarity": a.stationarity,
            "log_loss_gap": a.log_loss_gap,
            "least_margin": math.exp(a.log_sharpness) * a.least_margin,
            "selected": own.selection,
            "n_not_best": e.n_not_best(own),
            "negative_mass": a.negative_mass,
        }
        for a, own, gap in zip(arrivals, e.arrivals, gaps, strict=True)
    ]


def _same_tokens(e: Experiment) -> Assumption:
    first, *rest = e.arrivals
    same = all(np.array_equal(first.selection, a.selection) for a in rest) if rest else None
    return Assumption(name="same tokens at both caps", holds=same, measured=float(len(e.arrivals)))


def _moving(e: Experiment) -> str | None:
    """Why the tokens attended to at the end need not stay: the flow was still moving."""
    moving = (Ending.PLATEAU, Ending.HORIZON, Ending.TIME_REACHED)
    if e.flow.ending in moving:
        return f"the flow has not arrived: {e.flow.reason}"
    if e.flow.twin is not None and e.flow.twin.ending in moving:
        return f"the twin at ten times the cap has not arrived: {e.flow.twin.reason}"
    return None


def _not_arrived(e: Experiment, bound: float) -> str | None:
    """Why nothing measured at the exit can decide: no arrival, or a bound that anything passes."""
    if _moving(e) is not None:
        return _moving(e)
    if e.flow.ending is Ending.NOT_SEPARATED:
        return f"no direction was selected: {e.flow.reason}"
    return None if bound < 1 else f"the bound {bound:.2g} is vacuous at this sharpness."


def _undecided(e: Experiment, gap: float, bound: float, norm: str, limits: Limits) -> str | None:
    """Why `gap` against `bound` decides nothing: no arrival, no limit, or the other norm's optimum passes too."""
    reason = _not_arrived(e, bound)
    if reason is not None:
        return reason
    if limits.solution(norm).status != "optimal":
        return f"the predicted limit is not solved: {limits.solution(norm).status}."
    other = OTHER_NORM[norm]
    if gap <= bound and limits.solution(other).status == "optimal":
        rival = 1 - 1 / (1 + limits.excess(norm, other))
        if rival > 1e-6 and bound >= rival:
            return f"the bound {bound:.2g} would let the {NAMES[other]} optimum pass too (its gap: {rival:.2g})."
    return None


def _max_margin(
    e: Experiment, claim: str, norm: str, limits: Limits, arrivals, names: tuple[str, ...], wrong=None
) -> Verdict:
    """The flow's own gap against one limit, at the cap where it is largest beside its bound."""
    limit = limits[norm]
    gaps, slacks = [], []
    for a in arrivals:
        point = e.point(a.direction)
        certificate = limit.certify(point, a.multipliers)
        gaps.append(certificate.gap)
        slacks.append(certificate.relative_slack)
        if wrong is not None:  # a limit handed in: the distance to it is the larger norm ratio at equal margin
            ratio = limit.norm_of(wrong) / float(limit.margins(wrong).min())
            gaps[-1] = abs(1 - float(limit.margins(point).min()) / limit.norm_of(point) * ratio)
    bounds = [ALLOWANCE * a.entropy_bound + FLOOR for a in e.arrivals]
    worst = worst_of(gaps, bounds)
    details = {"caps": _per_cap(e, arrivals, gaps), "norm": norm, "reason": e.flow.reason}
    details["log10_free_sharpness"] = e.flow.log_free_sharpness / math.log(10)
    if len(gaps) > 1 and gaps[1] > 0:
        details["gap_ratio"] = gaps[0] / gaps[1]
    solution = limits.solution(norm)
    details["limit"] = {
        "status": str(solution.status),
        "lower": solution.certificate.lower,
        "upper": solution.certificate.upper,
        "gap": solution.certificate.gap,
    }
    if e.flow.polished is not None:
        details["polished"] = {"gap": e.flow.polished.gap, "change": e.flow.polished.change}
    return _verdict(
        e,
        claim,
        Kind.RATE,
        measured=gaps[worst],
        bound=bounds[worst],
        slack=_finite(slacks[worst]),
        unit="relative gap",
        conditions=(_same_tokens(e),),
        undecided=_undecided(e, gaps[worst], bounds[worst], norm, limits),
        assumptions=e.assuming(*names),
        details=details,
    )


def max_margin(e: Experiment, norm: str | None = None, *, wrong: np.ndarray | None = None) -> Verdict:
    """`nuclear-`, `frobenius-` or `l1-max-margin`: the gap of the flow's own weights, best-scored tokens.

    `norm`: another norm to be judged by; `wrong`: a point handed in as the limit. Both are for counter-instances.
    """
    norm = e.norm if norm is None else norm
    names = ("separable", "unique target", "score gap", "minimal loss attained", "arrival")
    names += ("aligned start", "rank of start", "unequal start")
    return _max_margin(e, MAX_MARGIN_CLAIM[norm], norm, e.limits, e.at_best, names, wrong)


def selected_max_margin(e: Experiment) -> Verdict:
    """The same for whatever tokens the flow selected."""
    return _max_margin(
        e,
        "selected-max-margin",
        e.norm,
        e.selected_limits,
        e.arrivals,
        ("arrival", "rank of start", "unequal start"),
    )


def minimal_loss(e: Experiment) -> Verdict:
    """Every selected token is the best-scored one, and log(L - L*) falls one for one with the least margin.

    `log(L - L*) + S min m` stays between two constants that the scores give (derived here), so between two caps
    the slope differs from -1 by at most `(log K + range b) / change of S min m`.
    """
    path = e.flow.trajectory
    # Of tied best tokens whichever the flow attends to; where it attends to a worse one, the target.
    attended = e.flow.arrival.selection
    target = attended if e.n_not_best(e.flow.arrival) == 0 else e.data.best
    ends = [(a.direction, a.log_sharpness) for a in e.arrivals]
    if len(ends) == 1:  # no second cap: the start of the path is the other end
        ends.insert(0, (path.direction[0], float(path.log_sharpness[0])))
    first, last = (measure(e.problem, w, log_S, selection=target) for w, log_S in (ends[0], ends[-1]))
    scores = e.problem.scores
    L = scores.shape[1]
    worse = ~np.take_along_axis(e.data.is_best, other_tokens(target, L), axis=1).reshape(-1)
    best = scores.max(axis=1, keepdims=True)
    b = (np.log(np.where(e.data.is_best, 1.0, best - scores)) - best)[~e.data.is_best]
    margins = [math.exp(a.log_sharpness) * float(a.margins[worse].min()) for a in (first, last)]
    rise = margins[1] - margins[0]
    slope = (last.log_loss_gap - first.log_loss_gap) / rise if rise != 0 else math.nan
    bound = FLOOR + (math.log(b.size) + float(b.max() - b.min())) / abs(rise) if rise != 0 else math.inf
    n_not_best = [e.n_not_best(a) for a in e.arrivals]
    undecided = (
        None if bound < 0.5 else f"the bound {bound:.2g} on the slope is vacuous: the margin rose by {rise:.2g}."
    )
    return _verdict(
        e,
        "minimal-loss",
        Kind.RATE,
        measured=abs(slope + 1),
        bound=bound,
        slack=_finite(1e-12 * abs(slope)),
        unit="slope + 1",
        conditions=(
            Assumption(
                name="every selected token is the best-scored",
                holds=max(n_not_best) == 0,
                measured=float(max(n_not_best)),
            ),
        ),
        assumptions=e.assuming("separable", "unique target", "score gap", "arrival"),
        undecided=_moving(e) or (None if max(n_not_best) else undecided),
        details={"slope": slope, "least_margin": margins, "log_loss_gap": [first.log_loss_gap, last.log_loss_gap]},
    )


def kkt_path(e: Experiment) -> Verdict:
    """Complementarity and stationarity residual at the exit, at both caps; along the path only recorded."""
    measured = [max(a.complementarity, a.stationarity) for a in e.arrivals]
    bounds = [ALLOWANCE * a.entropy_bound + FLOOR for a in e.arrivals]
    worst = worst_of(measured, bounds)
    return _verdict(
        e,
        "kkt-path",
        Kind.RATE,
        measured=measured[worst],
        bound=bounds[worst],
        slack=1e-12,
        unit="relative residual",
        undecided=_not_arrived(e, bounds[worst]),
        assumptions=e.assuming("arrival"),
        details={"caps": _per_cap(e, e.arrivals, [a.gap for a in e.arrivals])},
    )


def balance_conserved(e: Experiment) -> Verdict:
    """`K^T K - Q^T Q` (diagonal: `k_j^2 - q_j^2`) is conserved: its drift over r^2 along the whole path.

    r is the largest radius so far: an error made there stays when the weights shrink afterwards.
    """
    drift = e.balance_drift()
    measured = float(np.abs(drift).max())
    return _verdict(
        e,
        "balance-conserved",
        Kind.INVARIANT,
        measured=measured,
        bound=10 * e.flow.rtol,
        slack=min(e.accumulated_error, measured),
        unit="drift / r^2",
        details={"rtol": e.flow.rtol},
    )


def singular_spaces_kept(e: Experiment) -> Verdict:
    """Off-diagonal share of `U^T W V` along the path, in the axes of the sign-flip orbit."""
    U, V = e.axes
    share = off_diagonal_share(U, e.model.matrix(e.flow.trajectory.direction), V)
    bound = 100 * e.flow.rtol
    first = measure(e.problem, e.start, float(e.flow.trajectory.log_sharpness[0]))
    gradient = Limits(e.data, False, tuple(map(int, first.selection)))["nuclear"].combine(first.multipliers)
    force = off_diagonal_share(U, gradient, V)
    # Symmetric data from an aligned start have no off-diagonal force at all: what is seen later grew from rounding.
    amplified = share > bound and force < 1e-10 and e.start_alignment < 1e-10
    return _verdict(
        e,
        "singular-spaces-kept",
        Kind.INVARIANT,
        measured=share,
        bound=bound,
        slack=1e-14,
        unit="off-diagonal share",
        undecided="rounding was amplified along the path: at the start there is no off-diagonal force."
        if amplified
        else None,
        details={"rtol": e.flow.rtol, "off_diagonal_force_at_start": force},
    )


def worst_of(measured: Sequence[float], bounds: Sequence[float]) -> int:
    """The index with the largest measured/bound; one that is not a number first."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.divide(measured, bounds)
    return int(np.argmax(np.where(np.isnan(ratio), np.inf, ratio)))


def _finite(slack: float) -> float:
    return slack if math.isfinite(slack) else math.inf
