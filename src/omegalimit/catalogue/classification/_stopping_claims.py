"""Claims of `early_stopping` that are statistics over samples.

An excess below rounding counts as zero, and has no log: it is left out of means and slopes. Where that could have
decided a claim, the claim is undecided, and says so; leaving out can only raise a geometric mean. The same goes for
interpolators that were sought and not found.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ._stopping_draws import Run, Setting, log, logs, n_zero
from ._stopping_statistics import Interval, Runs, below, compared, geometric, slope, zeros

LOSS = "logistic"
GROWTH = 0.1
"""An exponent of n is a growth (or, negative, a fall) from here on: less is a quarter over a decade of sizes."""

FLOOR = 10.0
"""How many times the oracle's excess an interpolator has at least, in the default configuration."""

WORSE = 3.0
"""The same for the best of all interpolators, at the largest size."""


def oracle(run: Run) -> float:
    """The least excess along the path."""
    return run.oracle


def left_out(runs: Runs, what: str, of: Callable[[Run], float]) -> str | None:
    """That excesses are below rounding and have no logs; `None` when none is."""
    found = sum(zeros(runs, of))
    total = sum(not math.isnan(of(run)) for some in runs.values() for run in some)
    return None if not found else f"{what} is below rounding in {found} of {total} samples: zero, which has no log."


def what_is_left_out(runs: Runs) -> list[str]:
    """Sentences on samples that means and slopes leave out: below rounding, or not found."""
    reasons = (left_out(runs, PATH, oracle), left_out(runs, BEST, best), _best_missing(runs), _margins_missing(runs))
    return [f"{reason} Left out of means and slopes." for reason in reasons if reason is not None]


def first_reason(*reasons: str | None) -> str | None:
    """The first that is one."""
    return next((reason for reason in reasons if reason is not None), None)


PATH = "the least excess along the path"
BEST = "the best interpolator's excess"
MARGIN = "the maximum margin's excess"


def conditions_of(setting: Setting, runs: Runs) -> tuple[Assumption, ...]:
    """The theorem's conditions, as far as the abstract names them, as they are here."""
    m, most = setting.mixture, max(runs)
    rank = setting.effective_rank
    return (
        Assumption(name="labels are flipped: p > 0", holds=m.flips > 0, measured=m.flips),
        Assumption(name="more directions than rows: d > n", holds=m.d > most, measured=float(m.d)),
        Assumption(name="falling spectrum: tr(Sigma)/lam_1 below every n", holds=rank < min(runs), measured=rank),
    )


def judged(claim: str, kind: Kind, setting: Setting, runs: Runs, **rest) -> Verdict:
    """A verdict on these samples: what they are goes into the details."""
    m = setting.mixture
    about = {
        "sizes": list(runs),
        "draws": [len(some) for some in runs.values()],
        "flips": m.flips,
        "r": m.r,
        "d": m.d,
        "effective_rank": setting.effective_rank,
    }
    rest["details"] = {**about, **rest.get("details", {})}
    found: Interval | None = rest.pop("found", None)
    if found is not None:
        rest |= {"measured": found.value, "slack": found.half}
    if not rest["slack"] >= 0:
        rest["slack"] = math.inf
    return Verdict(
        claim=claim,
        parametrisation=setting.name,
        loss=LOSS,
        kind=kind,
        assumptions=(*conditions_of(setting, runs), *rest.pop("more", ())),
        **rest,
    )


# -- the stopped path -------------------------------------------------------------------------------------------------


def oracle_excess_falls(setting: Setting, runs: Runs, *, of: Callable[[Run], float] = oracle) -> Verdict:
    """`oracle-excess-falls`: the least excess along the path falls with n.

    Measured: the slope of its log on log n over all samples, below 0. Where the path was still improving at its end in
    most samples of the largest size, what is found is not its least. The rate of a heuristic stands in the details,
    not as a gate. `of`: another excess, for a counter-instance.
    """
    found = slope(runs, of)
    return judged(
        "oracle-excess-falls",
        Kind.UPPER,
        setting,
        runs,
        found=found,
        bound=0.0,
        unit="exponent of n",
        undecided=first_reason(left_out(runs, PATH, of), _still_improving(runs)),
        details={
            "excess": geometric(runs, of),
            "below_rounding": zeros(runs, of),
            "heuristic_rate": setting.rate,
            "heuristic_exponent": setting.exponent if math.isfinite(setting.exponent) else None,
        },
    )


def _still_improving(runs: Runs) -> str | None:
    """That the path was too short at the largest size to have a best time; `None` when it was long enough."""
    last = [run.best == len(run.marks) - 1 for run in runs[max(runs)]]
    if 2 * sum(last) <= len(last):
        return None
    return f"in {sum(last)} of {len(last)} samples of the largest size the path still improved at its last step."


def stopping_time_grows(setting: Setting, runs: Runs) -> Verdict:
    """`stopping-time-grows`: the time of least excess (steps times their size) grows like a power of n.

    Measured: the slope of its log on log n, at least 0.1. A best time at the first step bounds the time from above
    only, which makes the slope too small; where most samples of the largest size have it there, or at the last step,
    no growth can be seen.
    """
    found = slope(runs, lambda run: math.exp(run.log_time[run.best]))
    first = [run.best == 0 for run in runs[max(runs)]]
    early = f"in {sum(first)} of {len(first)} samples of the largest size the first step is the best: none is shorter."
    return judged(
        "stopping-time-grows",
        Kind.LOWER,
        setting,
        runs,
        found=found,
        bound=GROWTH,
        unit="exponent of n",
        undecided=first_reason(
            left_out(runs, PATH, oracle), early if 2 * sum(first) > len(first) else None, _still_improving(runs)
        ),
        details={
            "time": geometric(runs, lambda run: math.exp(run.log_time[run.best])),
            "steps": [float(np.median([run.marks[run.best] for run in some])) for some in runs.values()],
            "at_first_step": [float(np.mean([run.best == 0 for run in some])) for some in runs.values()],
            "at_last_step": [
                float(np.mean([run.best == len(run.marks) - 1 for run in some])) for some in runs.values()
            ],
        },
    )


# -- interpolation ----------------------------------------------------------------------------------------------------


def interpolator_floor(setting: Setting, runs: Runs, *, of: Callable[[Run], float] = oracle) -> Verdict:
    """`interpolator-floor`: the maximum-margin classifier's excess does not fall with n, and is 10 times the oracle's.

    Measured: the log of the ratio of geometric means, at the n at which it (less its slack) is least. The maximum
    margin is certified, and counts with the least excess that its certificate leaves to it. That it does not fall is
    a condition: its slope in n is above -0.1. `of`: what is compared with, for a counter-instance.
    """
    ratios = {
        n: compared(some, lambda run: log(run.margin_excess), lambda run: log(of(run))) for n, some in runs.items()
    }
    counted = _counted(runs, lambda run: run.margin_excess)
    at = min(ratios, key=lambda n: ratios[n].value - ratios[n].half if math.isfinite(ratios[n].half) else -math.inf)
    trend = slope(runs, lambda run: run.margin_excess)
    falls = below(trend, -GROWTH)
    errors = [run.margin_error / run.margin_angle for some in runs.values() for run in some if run.margin_angle > 0]
    return judged(
        "interpolator-floor",
        Kind.LOWER,
        setting,
        runs,
        found=ratios[at],
        bound=math.log(FLOOR),
        unit="log of the ratio of excesses",
        undecided=first_reason(
            _margins_missing(runs), left_out(runs, MARGIN, lambda run: run.margin_excess), left_out(runs, PATH, of)
        ),
        conditions=(
            Assumption(
                name="its excess does not fall: slope in n above -0.1",
                holds=None if falls is None else not falls,
                measured=trend.value,
            ),
        ),
        details={
            "at_n": at,
            "ratio": [_exp(ratio.value) for ratio in ratios.values()],
            "excess": geometric(runs, lambda run: run.margin_excess),
            "slope": [trend.value, trend.half],
            "interpolators": counted,
            "largest_relative_error_of_the_angle": max(errors, default=None),
        },
    )


def best_interpolator_grows(setting: Setting, runs: Runs) -> Verdict:
    """`best-interpolator-grows`: the least excess that any linear interpolator can have grows with n.

    It is found knowing mu and Sigma, as a projection onto a cone, exactly. (In whitened coordinates, which is why its
    distribution depends on n, d, r and p, but not on the spectrum: derived here.) Measured: the slope of its log on log
    n, at least 0.1. Conditions: at the smallest size it is better than the oracle's stopped path, at the second largest
    worse: the two cross in between. It is zero where Bayes itself fits the sample. Leaving those samples out makes it
    look worse, and its slope smaller where their share falls with n: what holds, or fails, in spite of that stands.
    """
    found = slope(runs, best)
    sizes = list(runs)
    early, late = sizes[0], sizes[-2] if len(sizes) > 2 else sizes[-1]
    at_zero = zeros(runs, best)
    shares = [k / max(1, count) for k, count in zip(at_zero, _counted(runs, best), strict=True)]
    better, ratio = _better(runs[early])
    not_worse, late_ratio = _better(runs[late])
    worse = None if not_worse is None else not not_worse
    if worse and n_zero([best(run) for run in runs[late]]):
        worse = None  # of the others only
    undecided = first_reason(_best_missing(runs), left_out(runs, PATH, oracle))
    if undecided is None and any(at_zero):
        reason = left_out(runs, BEST, best)
        falling = all(a >= b for a, b in itertools.pairwise(shares))
        if not math.isfinite(found.half):
            undecided = f"{reason} Too few samples are left for a slope."
        elif not falling or below(found, GROWTH) is not False:
            undecided = f"{reason} Left out of the slope, they may have made it wrong."
        if worse is False:  # in spite of what was left out
            undecided = None
    return judged(
        "best-interpolator-grows",
        Kind.LOWER,
        setting,
        runs,
        found=found,
        bound=GROWTH,
        unit="exponent of n",
        undecided=undecided,
        conditions=(
            Assumption(name=f"at n = {early} it is better than the stopped path", holds=better, measured=ratio),
            Assumption(name=f"at n = {late} it is worse", holds=worse, measured=late_ratio),
        ),
        details={
            "excess": geometric(runs, best),
            "below_rounding": at_zero,
            "interpolators": _counted(runs, best),
            "largest_gap_of_the_signal": max(
                (run.best_gap for some in runs.values() for run in some if run.best_sought), default=0.0
            ),
        },
    )


def _better(some: Sequence[Run]) -> tuple[bool | None, float | None]:
    """Whether the best interpolator is better than the stopped path, and the ratio of their excesses.

    Samples in which it is zero are left out, unless there are no others.
    """
    found = [best(run) for run in some if not math.isnan(best(run))]
    if found and not any(found):
        return all(run.oracle > 0 for run in some) or None, 0.0
    interval = _against(some)
    return below(interval, 0.0), _exp(interval.value)


def best_interpolator_loses(setting: Setting, runs: Runs, *, of: Callable[[Run], float] = oracle) -> Verdict:
    """`best-interpolator-loses`: at the largest size every linear interpolator has 3 times the oracle's excess.

    Measured: the log of the ratio of geometric means, best interpolator over stopped path. Where the best interpolator
    is zero in some samples, the ratio is of the others, and too large: it may fail the claim, not confirm it. `of`:
    what is compared with, for a counter-instance.
    """
    last = {max(runs): runs[max(runs)]}
    found = _against(runs[max(runs)], of)
    favoured = left_out(last, BEST, best) if below(found, math.log(WORSE)) is not True else None
    return judged(
        "best-interpolator-loses",
        Kind.LOWER,
        setting,
        runs,
        found=found,
        bound=math.log(WORSE),
        unit="log of the ratio of excesses",
        undecided=first_reason(_best_missing(last), left_out(last, PATH, of), favoured),
        details={
            "ratio": [_exp(_against(some, of).value) for some in runs.values()],
            "below_rounding": zeros(runs, best),
            "interpolators": _counted(runs, best),
        },
    )


def best(run: Run) -> float:
    """The best interpolator's excess."""
    return run.best_excess


def _against(some: Sequence[Run], of: Callable[[Run], float] = oracle) -> Interval:
    return compared(some, lambda run: log(run.best_excess), lambda run: log(of(run)))


def _margins_missing(runs: Runs) -> str | None:
    sought = sum(run.sought for some in runs.values() for run in some)
    counted = sum(_counted(runs, lambda run: run.margin_excess))
    return None if sought == counted else f"the maximum margin was certified on {counted} of {sought} samples."


def _best_missing(runs: Runs) -> str | None:
    sought = sum(run.best_sought for some in runs.values() for run in some)
    counted = sum(_counted(runs, best))
    if sought == counted:
        return None
    return f"the best interpolator was found on {counted} of {sought} samples; the others may have none."


def _counted(runs: Runs, of: Callable[[Run], float]) -> list[int]:
    return [int(np.sum([math.isfinite(of(run)) for run in some])) for some in runs.values()]


def _exp(value: float) -> float | None:
    return math.exp(value) if math.isfinite(value) else None


# -- hold-out ---------------------------------------------------------------------------------------------------------


def hold_out(setting: Setting, runs: Runs, *, criterion: str = "error") -> Verdict:
    """`hold-out`: stopping by a share of the rows is nearer to the oracle than to interpolation, in logs.

    The time is chosen by the error on the rows held out of a run on the others (the earliest of equal ones), and the
    run on all rows is stopped there. Measured: the log of its excess over the geometric mean of the oracle's and the
    maximum margin's, at the n at which it is largest; at most 0. Choosing by the loss stands in the details.
    `criterion`: another one, for a counter-instance.
    """
    found = {
        n: compared(
            some,
            lambda run: log(_stopped(run, criterion)) - 0.5 * log(run.oracle),
            lambda run: 0.5 * log(run.margin_excess),
        )
        for n, some in runs.items()
    }
    at = max(found, key=lambda n: found[n].value + found[n].half if math.isfinite(found[n].half) else math.inf)
    return judged(
        "hold-out",
        Kind.UPPER,
        setting,
        runs,
        found=found[at],
        bound=0.0,
        unit="log of the excess over the middle",
        undecided=first_reason(
            _margins_missing(runs),
            left_out(runs, MARGIN, lambda run: run.margin_excess),
            left_out(runs, PATH, oracle),
            left_out(runs, "the excess that hold-out stops at", lambda run: _stopped(run, criterion)),
        ),
        more=(Assumption(name="chosen on rows that were not trained on", holds=criterion != "train"),),
        details={
            "at_n": at,
            "rows": [setting.held(n) for n in runs],
            "interpolators": _counted(runs, lambda run: run.margin_excess),
            "excess": geometric(runs, lambda run: _stopped(run, criterion)),
            "over_oracle": _over_oracle(runs, criterion),
            "over_oracle_by_loss": _over_oracle(runs, "loss"),
        },
    )


def _stopped(run: Run, criterion: str) -> float:
    return float(run.excess[run.chosen(criterion)])


def _over_oracle(runs: Runs, criterion: str) -> list[float | None]:
    """Geometric means of the excess that hold-out gets over the oracle's, of samples where both have a log."""
    found = [logs([_stopped(run, criterion) / run.oracle for run in some if run.oracle > 0]) for some in runs.values()]
    return [math.exp(float(np.mean(x))) if x.size else None for x in found]
