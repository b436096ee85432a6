"""Claims of `softmax_attention` that compare limits or several runs, and weights trained elsewhere."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...data import TokenData
from ...flows import Arrival
from ...problem import AttentionProblem
from ._claims import FLOOR, worst_of
from ._experiment import ALLOWANCE, Experiment
from ._limits import MAX_MARGIN_CLAIM, NAMES, OTHER_NORM, Limits, n_not_best

LEAST_EXCESS = 0.03  # norms whose optima differ by less cannot be told apart


def norms_differ(e: Experiment) -> Verdict:
    """Each optimum's excess in the other norm; under 3% the two limits cannot be told apart: inconclusive."""
    norms = (e.norm, OTHER_NORM[e.norm])
    solutions = [e.limits.solution(norm) for norm in norms]
    unsolved = [f"{NAMES[n]}: {s.status}" for n, s in zip(norms, solutions, strict=True) if s.status != "optimal"]
    excess = [math.nan] * 2 if unsolved else [e.limits.excess(norm, OTHER_NORM[norm]) for norm in norms]
    undecided = f"a limit is not solved ({', '.join(unsolved)})." if unsolved else None
    if not unsolved and min(excess) < LEAST_EXCESS:
        undecided = f"the two optima differ by less than {LEAST_EXCESS:.0%} in norm: these data cannot tell them apart."
    return Verdict(
        claim="norms-differ",
        parametrisation=e.label,
        loss=e.problem.loss.name,
        kind=Kind.LOWER,
        measured=min(excess),
        bound=LEAST_EXCESS,
        slack=2 * sum(max(s.certificate.gap, 0.0) + s.certificate.relative_slack for s in solutions)
        if not unsolved
        else 0.0,
        unit="relative excess",
        undecided=undecided,
        assumptions=e.assuming("separable", "unique target"),
        details={
            f"{NAMES[OTHER_NORM[n]]} optimum in the {NAMES[n]} norm": x for n, x in zip(norms, excess, strict=True)
        },
    )


def rank(e: Experiment, *, swapped: bool = False) -> Verdict:
    """The nuclear optimum's delta-rank is at most the Frobenius optimum's rank.

    The first is an upper bound proved from the dual (all but the share delta of every optimum's nuclear norm lies in so
    many dimensions), the second a lower bound: the Frobenius optimum of norm one is within `(2 gap)^(1/2)` of its dual
    matrix M, so by Weyl it has as many singular values as M has beyond that. Derived here. Where the two norms have the
    same optimum the claim says nothing: inconclusive.

    `swapped`: each norm's optimum in the place of the other, for a counter-instance.
    """
    found = {norm: e.limits.solution(norm).certificate for norm in ("nuclear", "frobenius")}
    M = e.limits["frobenius"].combine(found["frobenius"].multipliers)
    size = np.linalg.norm(M)
    singular = np.linalg.svd(M / size)[1] if size > 0 else np.zeros(1)
    doubt = math.sqrt(2 * (max(found["frobenius"].gap, 0.0) + found["frobenius"].relative_slack))
    proved = found["nuclear"].delta_rank
    ranks = {
        "nuclear": math.nan if proved is None else float(proved.rank),
        "frobenius": float((singular > max(doubt, 1e-6)).sum()),
    }
    differ = norms_differ(e)
    measured, bound = ranks["nuclear"], ranks["frobenius"]
    if swapped:
        measured, bound = bound, measured
    return Verdict(
        claim="rank",
        parametrisation=e.label,
        loss=e.problem.loss.name,
        kind=Kind.COUNT,
        measured=measured,
        bound=bound,
        slack=0.0,
        unit="delta-rank",
        undecided=differ.undecided,
        assumptions=e.assuming("separable", "unique target"),
        details={**ranks, "delta": None if proved is None else proved.delta},
    )


def initialisation(e: Experiment, others: Sequence[Experiment]) -> Verdict:
    """Starts of four scales come to the same limit: each flow's gap to the first one's limit is within its own bound.

    For K and Q apart the time at which L - L* has halved must rise as the start shrinks (a saddle at zero holds it);
    for merged weights it tends to a constant, and is reported only.
    """
    runs = sorted([e, *others], key=lambda run: -run.scale)
    limits, selected = e.selected_limits, tuple(map(int, e.flow.arrival.selection))
    limit = limits[e.norm]
    gaps, bounds, slacks, same = [], [], [], True
    for run in runs:
        a = run.flow.arrival
        certificate = limit.certify(run.point(a.direction), a.multipliers)
        gaps.append(certificate.gap)
        slacks.append(certificate.relative_slack)
        bounds.append(ALLOWANCE * a.entropy_bound + FLOOR)
        same = same and tuple(map(int, a.selection)) == selected
    times = [run.log_halving_time() for run in runs]
    conditions = [Assumption(name="same tokens at every scale", holds=same)]
    if e.model.name == "kq":
        # From a start sharper than 1 there is no saddle at zero to leave: those are not compared.
        small = [t for t, run in zip(times, runs, strict=True) if run.scale <= 1]
        rises = all(x < y for x, y in itertools.pairwise(small)) if all(map(math.isfinite, small)) else None
        conditions.append(Assumption(name="halving time rises as the start shrinks", holds=rises))
    late = [
        f"scale {run.scale:g}: {run.flow.ending}"
        for run in runs
        if run.flow.ending not in ("certified", "stationary but not optimal")
    ]
    worst = worst_of(gaps, bounds)
    undecided = f"a flow did not arrive ({'; '.join(late)})." if late else None
    return Verdict(
        claim="initialisation",
        parametrisation=e.label,
        loss=e.problem.loss.name,
        kind=Kind.RATE,
        measured=gaps[worst],
        bound=bounds[worst],
        slack=slacks[worst] if math.isfinite(slacks[worst]) else math.inf,
        unit="relative gap",
        conditions=tuple(conditions),
        undecided=undecided,
        assumptions=e.assuming("arrival", "rank of start"),
        details={"scale": [run.scale for run in runs], "gap": gaps, "bound": bounds, "log_halving_time": times},
    )


def weights_verdicts(problem: AttentionProblem, data: TokenData, arrival: Arrival, W: np.ndarray) -> list[Verdict]:
    """Is `W`, trained elsewhere, at each limit within what its own sharpness allows? One verdict per norm."""
    verdicts = []
    diagonal = bool((np.diag(np.diag(W)) == W).all())
    best = tuple(map(int, data.best))
    bound = ALLOWANCE * arrival.entropy_bound + FLOOR
    for norm in ("nuclear", "frobenius", "l1") if diagonal else ("nuclear", "frobenius"):
        limits = Limits(data, norm == "l1", best)
        solution = limits.solution(norm)
        point = np.diag(W) if norm == "l1" else W
        gap = limits.distance(norm, point) if solution.status == "optimal" else math.nan
        undecided = None if solution.status == "optimal" else f"the predicted limit is not solved: {solution.status}."
        if undecided is None and not bound < 1:
            undecided = f"at this sharpness the bound {bound:.2g} is vacuous; the gap is what is known."
        if undecided is None and gap <= bound and limits.solution(OTHER_NORM[norm]).status == "optimal":
            rival = 1 - 1 / (1 + limits.excess(norm, OTHER_NORM[norm]))
            if not bound < rival:
                undecided = (
                    f"at this sharpness the bound {bound:.2g} would let the {NAMES[OTHER_NORM[norm]]} optimum pass too "
                    f"(its gap: {rival:.2g}); the gap is what is known."
                )
        certificate = solution.certificate
        verdicts.append(
            Verdict(
                claim=MAX_MARGIN_CLAIM[norm],
                parametrisation="weights",
                loss=problem.loss.name,
                kind=Kind.RATE,
                measured=gap,
                bound=bound,
                slack=certificate.relative_slack if math.isfinite(certificate.relative_slack) else math.inf,
                unit="relative gap",
                undecided=undecided,
                assumptions=(
                    Assumption(name="separable", holds=solution.status != "not separable", measured=certificate.lower),
                    Assumption(
                        name="minimal loss attained",
                        holds=n_not_best(data, arrival.selection) == 0,
                        measured=float(n_not_best(data, arrival.selection)),
                    ),
                ),
                details={
                    "sharpness": math.exp(min(arrival.log_sharpness, 700.0)),
                    "own_margin": float(limits[norm].margins(point).min()) / limits[norm].norm_of(point),
                    "maximum_margin": [certificate.lower, certificate.upper],
                    "complementarity": arrival.complementarity,
                    "stationarity": arrival.stationarity,
                },
            )
        )
    return verdicts
