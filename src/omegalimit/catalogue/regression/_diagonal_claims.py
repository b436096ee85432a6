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
    if undecided is None and worst > bound and rushed:
        p = max(rushed, key=e.log_approach)
        near = math.exp(min(e.log_approach(p), 0.0))
        undecided = (
            f"at this start the flow leaves saddle {p} after coming within about {near:.1g} steps of it, by the "
            f"theory's own estimate: too soon for the bound {bound:.2g}; take a smaller `s`."
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
    bound = 1 / e.h + FLOOR
    undecided = e.undecided or p.unsolved()
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
    return verdict(
        e,
        "plain-l1",
        Kind.RATE,
        measured=max(excess, e.residual),
        bound=1 / e.h + FLOOR,
        slack=slack,
        unit="relative excess",
        undecided=e.undecided or p.unsolved(plain=True),
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
    """The verdict on an error that must fall like 1/h over the runs, ordered by rising h."""
    e = runs[-1]
    h = np.array([run.h for run in runs])
    worst = np.array([np.abs(found).max() if found.size else math.nan for found in errors])
    slopes = [math.log(b / a) / math.log(g / f) for (a, b), (f, g) in zip(_pairs(worst), _pairs(h), strict=True)]
    missing = not np.isfinite(worst).all()
    exponent = slopes[-1] if slopes else math.nan
    spread = abs(slopes[-1] - slopes[-2]) / 2 if len(slopes) > 1 else math.inf
    undecided = next((run.undecided for run in runs if run.undecided), None)
    if undecided is None and not abs(exponent + 1) <= EXPONENT_TOLERANCE:
        undecided = _too_soon(runs)
    conditions = ()
    if claim == "jump-times":
        if not e.prediction.unique:
            undecided = "dependent features are active together: the theory does not say which of them jumps how far."
        n_missing = float(sum(int(np.isnan(found).sum()) for found in errors))
        conditions = (
            Assumption(name="every jump happens", holds=not missing, measured=n_missing),
            _extrapolated(runs, errors),
        )
    return verdict(
        e,
        claim,
        Kind.RATE,
        measured=abs(exponent + 1),
        bound=EXPONENT_TOLERANCE,
        slack=min(spread, EXPONENT_TOLERANCE) if math.isfinite(spread) else 0.0,
        unit="exponent + 1",
        conditions=conditions,
        undecided=undecided,
        assumptions=e.assumptions,
        details={
            **details,
            "s": [run.log_s for run in runs],
            "h": h,
            "errors": [list(found) for found in errors],
            "exponents": slopes,
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
