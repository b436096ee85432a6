"""Claims of `diagonal_networks` about flows from small starts, judged.

Every figure is the flow's own. What theory promises at a finite scale s is an error of order `1/h`, with `h = log(1/s)`
for two layers and `s^-(L-2)` for depth L: it bounds the distances, and its exponent is measured over several s.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ._diagonal_experiment import Experiment

FLOOR = 1e-6  # added to bounds: what the flow's own tolerances leave (its step errors are about 1e-9 of the weights)
SHOWN = 100.0  # a run's error counts for an exponent where it is this many times the tolerance of a step
LEAST_EXCESS = 0.03  # norms whose optima differ by less cannot be told apart
EXPONENT_TOLERANCE = 0.1  # of a measured exponent: corrections of relative order 1/h, over a factor four or more in h


def verdict(e: Experiment, claim: str, kind: Kind, **rest) -> Verdict:
    """A verdict with the experiment's label."""
    return Verdict(claim=claim, parametrisation=e.label, loss="squared", kind=kind, **rest)


def saddles_in_order(e: Experiment) -> Verdict:
    """The flow comes near every saddle of Algorithm 1, one after the other, and its neurons wake in that order.

    Measured: the least d for which there are times `t_0 < t_1 < ...` with `|k(t_p) - k^(p)| <= d |step p|` for all p,
    where step p is the shorter of the two steps between the saddle and its neighbours (largest entries). A flow that
    takes another way has d of order one. The theorem says that d -> 0 with s; at a finite s the bound is `1/h`. Where
    dependent features are active together only the fits X k are determined, and compared.
    """
    distances = e.distances
    worst, times = monotone_bottleneck(distances)
    bound = 1 / e.h + FLOOR
    rushed = e.unresolved(bound)
    undecided = e.undecided
    if undecided is None and not e.prediction.path.events:
        undecided = "the path makes no step: there is no length to measure distances by."
    if undecided is None and worst > bound and rushed:
        p = max(rushed, key=e.log_approach)
        near = math.exp(min(e.log_approach(p), 0.0))
        undecided = (
            f"at this start the flow leaves saddle {p} after coming within about {near:.1g} steps of it, by the "
            f"theory's own estimate: too soon for the bound {bound:.2g}; take a smaller `s`."
        )
        if e.upset is not None and not e.log_approach(p) > math.log(bound / 10):
            undecided = (
                f"at this start the moments at which neurons wake are off by as much as the rest at saddle {e.upset} "
                "lasts, by the theory's own estimate; take a smaller `s`."
            )
    wake = Assumption(
        name="neurons wake in the order of the path", holds=e.same_order(), measured=_written(e.activations)
    )
    return verdict(
        e,
        "saddles-in-order",
        Kind.RATE,
        measured=worst,
        bound=bound,
        slack=1e-12,
        unit="distance / step",
        conditions=(wake,) if e.prediction.unique else (),
        undecided=undecided,
        assumptions=e.assumptions,
        details={
            "distances": distances[np.arange(len(times)), times],
            "times": e.flow.time[times],
            "predicted_times": e.prediction.times,
            "predicted_order": _written(e.prediction.path.order),
            "order": _written(e.activations),
        },
    )


def modified_l1_limit(e: Experiment) -> Verdict:
    """The flow's end has the least `R(k) = sum t+ k+ + t- k-` of all interpolants, by a certified lower bound on it.

    Measured: the relative excess of R over the certified lower bound, at the flow's end moved onto `X k = y` by least
    squares, and the relative residual before that: the larger.
    """
    p, residual = e.prediction, e.residual
    excess, slack = p.excess(e.limit)
    bound = limit_bound(e)
    undecided = e.undecided or p.unsolved()
    if undecided is None and not max(excess, residual) <= bound:
        undecided = _too_large(e)
    rival = p.excess_of_plain
    if undecided is None and max(excess, residual) <= bound and 1e-9 < rival <= bound:
        undecided = f"the bound {bound:.2g} would let the least plain l1 norm pass too (its excess: {rival:.2g})."
    return verdict(
        e,
        "modified-l1-limit",
        Kind.RATE,
        measured=max(excess, residual),
        bound=bound,
        slack=slack,
        unit="relative excess",
        undecided=undecided,
        assumptions=e.assumptions,
        details={
            "excess": excess,
            "residual": residual,
            "least": [p.solution.certificate.lower, p.solution.certificate.upper],
            "plain_optimum_excess": rival,
            "excess_of_this_start": e.excess_of_start,
            "limit": e.limit,
            "predicted": p.k[-1],
            "optimal_face": None
            if p.face is None
            else {
                "unique": p.face.unique,
                "reason": p.face.reason,
                "dimension": p.face.dimension,
                "lowest": p.face.lowest,
                "highest": p.face.highest,
            },
            "ending": str(e.flow.ending),
        },
    )


def plain_l1(e: Experiment) -> Verdict:
    """The flow's end has the least plain l1 norm: the extreme eigenvalues, or the growth times, are all equal.

    Measured like `modified-l1-limit`.
    """
    p = e.prediction
    excess, slack = p.excess(e.limit, plain=True)
    times = np.concatenate([p.t_plus, p.t_minus])
    equal = float(times.max() / times.min() - 1) if np.isfinite(times).all() else math.inf
    measured, bound = max(excess, e.residual), limit_bound(e)
    undecided = e.undecided or p.unsolved(plain=True)
    if undecided is None and not measured <= bound:
        undecided = _too_large(e)
    return verdict(
        e,
        "plain-l1",
        Kind.RATE,
        measured=measured,
        bound=bound,
        slack=slack,
        unit="relative excess",
        undecided=undecided,
        assumptions=(
            *e.assumptions,
            Assumption(name="equal growth times", holds=equal < 1e-9, measured=equal),
        ),
        details={
            "excess": excess,
            "residual": e.residual,
            "growth_time_spread": equal,
            "limit": e.limit,
            "plain_optimum": p.plain_solution.certificate.point,
        },
    )


def not_plain_l1(e: Experiment) -> Verdict:
    """The flow's end has more l1 norm than the least, by 3% or more; first the two optima must differ by that much."""
    p = e.prediction
    excess, slack = p.excess(e.limit, plain=True)
    apart = p.l1_excess_of_modified
    undecided = e.undecided or p.unsolved() or p.unsolved(plain=True)
    if undecided is None and not min(apart, p.excess_of_plain) >= LEAST_EXCESS:
        undecided = (
            f"the least modified and the least plain l1 norm differ by less than {LEAST_EXCESS:.0%} on these data "
            f"({apart:.2g} and {p.excess_of_plain:.2g}): they cannot be told apart."
        )
    if undecided is None and not excess >= LEAST_EXCESS:
        undecided = _too_large(e)
    return verdict(
        e,
        "not-plain-l1",
        Kind.LOWER,
        measured=excess,
        bound=LEAST_EXCESS,
        slack=slack,
        unit="relative excess",
        conditions=(Assumption(name="the end interpolates", holds=e.residual <= 1 / e.h + FLOOR, measured=e.residual),),
        undecided=undecided,
        assumptions=e.assumptions,
        details={"predicted_excess": apart, "plain_optimum_excess": p.excess_of_plain},
    )


def jump_times(runs: Sequence[Experiment]) -> Verdict:
    """The jumps' times, on the scaled clock, approach the predicted ones like `1/h`: the exponent over several s.

    A jump is the moment at which the waking neuron has half of its next plateau's weight. Measured: the exponent of
    the largest error against h, plus one; a wrong prediction has errors that stay, with exponent zero.
    """
    errors = [run.jump_errors() for run in runs]
    return _approach(runs, "jump-times", errors, {"predicted": runs[-1].prediction.times[1:]})


def dual_certificate(runs: Sequence[Experiment]) -> Verdict:
    """`s = X' nu`, accumulated by the flow itself, ends in `[-t-, t+]`, on the boundary where k is not zero.

    Measured: the exponent of the largest violation (of the box, and of equality on the support, relative to t) against
    h, plus one. In the limit the violation vanishes, and s proves the end point optimal.
    """
    errors = [run.dual_errors() for run in runs]
    return _approach(runs, "dual-certificate", errors, {"accumulated_s": runs[-1].flow.integral})


def limit_bound(e: Experiment) -> float:
    """The excess of R that a start of this size may leave: `1/h`, or what its exact potential leaves if that is less.

    The potential of the start itself knows no constant: two-layer starts of 1e-60 leave 1e-12 and not 7e-3.
    """
    exact = e.excess_of_start
    return 1 / e.h + FLOOR if exact is None else min(1 / e.h, exact) + FLOOR


def _too_large(e: Experiment) -> str | None:
    """A sentence when this start leaves an excess of R beyond 1/h by the theory of its finite size, else `None`."""
    exact = e.excess_of_start
    if exact is not None:
        too_large, told = exact > 1 / e.h, f"the exact potential of this start leaves an excess of {exact:.2g}"
    else:
        about = e.estimated_excess()
        too_large = about > 0.1 / e.h
        told = f"what sleeps at the end leaves an excess of about {about:.1g}, right within a factor of ten"
    return f"{told}: too much for the bound {1 / e.h:.2g}; take a smaller `s`." if too_large else None


def _extrapolated(runs: Sequence[Experiment], errors: list[np.ndarray]) -> Assumption:
    """Each jump by itself: what the last two runs say about s = 0, when errors fall like 1/h, is within 1/h of zero."""
    (g, h), (a, b) = [run.h for run in runs[-2:]], errors[-2:]
    left = np.abs((h * b - g * a) / (h - g)).max(initial=0.0)
    return Assumption(
        name="every jump comes at its predicted time when extrapolated to s = 0",
        holds=None if math.isnan(left) else left <= 1 / h + FLOOR,
        measured=float(left),
    )


def _approach(runs: Sequence[Experiment], claim: str, errors: list[np.ndarray], details: dict) -> Verdict:
    """The verdict on an error that must fall like 1/h over the runs, ordered by rising h.

    An error that is not well above the tolerance of the flow's steps is the flow's own, and says nothing about the
    exponent: it is left out. Where no run has another, the errors themselves are judged, by that floor.
    """
    e = runs[-1]
    h = np.array([run.h for run in runs])
    worst = np.array([np.abs(found).max() if found.size else math.nan for found in errors])
    floor = SHOWN * e.flow.rtol
    n_missing = float(sum(int(np.isnan(found).sum()) for found in errors))
    missing = n_missing > 0
    shown = [i for i, error in enumerate(worst) if not error <= floor]
    if len(shown) == 1 and shown[0] > 0:  # an error that was not there before: it does not fall
        shown = [shown[0] - 1, shown[0]]
    seen = np.maximum(worst[shown], floor)
    slopes = [math.log(b / a) / math.log(g / f) for (a, b), (f, g) in zip(_pairs(seen), _pairs(h[shown]), strict=True)]
    measured, bound, unit = abs(slopes[-1] + 1) if slopes else math.nan, EXPONENT_TOLERANCE, "exponent + 1"
    spread = abs(slopes[-1] - slopes[-2]) / 2 if len(slopes) > 1 else 0.0
    if slopes:
        spread += float((e.flow.rtol / seen[-2:]).sum()) / math.log(h[shown[-1]] / h[shown[-2]])
    if not len(shown):
        measured, bound, unit = float(worst.max()), floor, "relative error"
    settled = None
    if claim == "jump-times" and len(shown) > 1:
        settled = _extrapolated([runs[i] for i in shown], [errors[i] for i in shown])
    undecided = next((run.undecided for run in runs if run.undecided), None)
    if undecided is None and not any(found.size for found in errors):
        undecided = "the path makes no jump: there is no time to measure."
    if undecided is None and (missing or not measured <= bound or (settled is not None and settled.holds is False)):
        undecided = _too_soon([runs[i] for i in shown] or runs)
    if undecided is None and len(shown) == 1 and not missing:
        undecided = (
            f"the errors of all runs but the first are below {floor:.1g}, what the tolerance of the flow leaves: "
            "there is no exponent to measure."
        )
    conditions = ()
    if claim == "jump-times":
        if not e.prediction.unique:
            undecided = "dependent features are active together: the theory does not say which of them jumps how far."
        conditions = (
            Assumption(name="every jump happens", holds=not missing, measured=n_missing),
            *([] if settled is None else [settled]),
        )
    return verdict(
        e,
        claim,
        Kind.RATE,
        measured=measured,
        bound=bound,
        slack=min(spread, EXPONENT_TOLERANCE) if math.isfinite(spread) else 0.0,
        unit=unit,
        conditions=conditions,
        undecided=undecided,
        assumptions=e.assumptions,
        details={
            **details,
            "s": [run.log_s for run in runs],
            "h": h,
            "errors": [list(found) for found in errors],
            "exponents": slopes,
            "left_out": [float(h[i]) for i in range(len(h)) if i not in shown],
        },
    )


def _too_soon(runs: Sequence[Experiment]) -> str | None:
    """A sentence when one of the last two runs leaves a saddle before it has settled there, else `None`."""
    for run in runs[-2:]:
        for p in run.unresolved(1 / run.h + FLOOR):
            return (
                f"at log10 s = {run.log_s / math.log(10):.3g} the flow leaves saddle {p} before it has settled there, "
                "by the theory's own estimate: the order 1/h does not show yet; take a smaller `s`."
            )
    return None


def _pairs(values: np.ndarray):
    return list(itertools.pairwise(values.tolist()))


def monotone_bottleneck(near: np.ndarray) -> tuple[float, np.ndarray]:
    """The least d with columns `t_0 <= t_1 <= ...` such that `near[p, t_p] <= d` for every row p, and the columns."""
    best = near[0].copy()
    came = []
    for row in near[1:]:
        arg = np.zeros(len(best), dtype=int)
        for t in range(1, len(best)):
            arg[t] = t if best[t] < best[arg[t - 1]] else arg[t - 1]
        came.append(arg)
        best = np.maximum(row, best[arg])
    t = int(np.argmin(best))
    worst, times = float(best[t]), [t]
    for arg in reversed(came):
        t = int(arg[t])
        times.append(t)
    return worst, np.array(times[::-1])


def _written(events: Sequence[tuple[int, int]]) -> str:
    """Neurons with their signs: `+1 -4 +2`, counted from one."""
    return " ".join(f"{'+' if sign > 0 else '-'}{neuron + 1}" for neuron, sign in events)
