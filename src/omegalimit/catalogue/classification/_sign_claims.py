"""Claims of `smoothed_sign_descent` on one run: its limit, its identities, its envelopes, its rate."""

import math
from typing import Any

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ._sign_run import EPS, Run
from ._sign_setting import FAR

LEAST_FALL = -0.9
"""The exponent of the distance of w_t/S_t in S_t that is asked for; the envelope's is -1/2."""

LONG = 3.0
"""A run that has not arrived by this many times the estimate of `Setting.settling` has not arrived."""

MOST_STEPS = 1e9
"""More are no advice."""

UNEVEN = 100.0
"""Columns whose sizes differ by this factor are why the limit is far away, or one reason of it."""


def barrier_limit(r: Run) -> Verdict:
    """The last smoothed sign is the barrier's minimiser, and w_t/S_t is on its way there."""
    _, w = r.distances()
    size = float(np.linalg.norm(r.point))
    tenth = int(np.searchsorted(r.path.S, r.path.S[-1] / 10))
    nearer = float(w[-1] / w[tenth]) if w[tenth] > 0 else 0.0
    error = r.checks.distance / size
    return _verdict(
        r,
        "barrier-limit",
        Kind.EQUALITY,
        measured=_last(r),
        bound=FAR,
        slack=0.0 if math.isnan(error) else error,
        unit="distance of v to v*, over |v*|",
        undecided=_too_short(r),
        assumptions=(_small_steps(r),),
        conditions=(
            Assumption(
                name="w_t/S_t came nearer over the last decade of S, by a factor of 2 at least",
                holds=None if math.isnan(nearer) else nearer < 0.5,
                measured=nearer,
            ),
        ),
        details={
            "S": float(r.path.S[-1]),
            "S by which v should be at v*": r.settling,
            "distance of w/S": float(w[-1]),
            "limit": r.point.tolist(),
            "last v": r.path.v[-1].tolist(),
            "largest |v| coordinate": float(np.abs(r.path.v[-1]).max()),
        },
    )


def _last(r: Run) -> float:
    """|v - v*| / |v*| at the end."""
    return float(r.distances()[0][-1] / np.linalg.norm(r.point))


def _too_short(r: Run, times: float = 1.5) -> str | None:
    """Why the run has not shown its limit, with what would; `None` where v has arrived, or had the time to.

    `times`: of the time that it takes, for what is claimed.

    What a run shows of a limit it has not reached is nothing, unless it is long beside the limit's own time and v comes
    no nearer.
    """
    if r.solution is None or _last(r) <= FAR:
        return None
    S, (v, _) = r.path.S, r.distances()
    if S[-1] >= LONG * r.settling:
        last, before = (v[(S / S[-1] >= a) & (S / S[-1] <= b)].max() for a, b in ((0.75, 1.0), (0.5, 0.75)))
        if last > 0.5 * before:
            return None
    advice = _advice(r, times * r.settling)
    return f"v is still {_last(r):.1e} |v*| away from v*, and was not given the time to arrive: {advice}"


def _advice(r: Run, S: float) -> str:
    """How many steps reach S."""
    least, n_steps = S / r.step, int(r.path.steps[-1])
    # Where the run is past the estimate, it goes on for as long again.
    least = max(least, 2.0 * n_steps)
    uneven = f"; the columns differ in size by a factor of {r.setting.spread:.1g}: scale them"
    uneven = uneven if r.setting.spread > UNEVEN else ""
    if not least <= MOST_STEPS:
        return (
            f"no number of steps that can be run will do{uneven or '; take rates farther from 0 and 1 (`--kappas`)'}."
        )
    digits = 10 ** max(0, math.floor(math.log10(least)) - 1)
    return f"`--n-steps {math.ceil(least / digits) * digits}` would do, by estimate{uneven}."


def primal_dual(r: Run) -> Verdict:
    """lambda from w and eps moves as the mirror step says, in every step, to rounding."""
    return _verdict(
        r,
        "primal-dual",
        Kind.INVARIANT,
        measured=r.checks.identity,
        bound=1.0,
        slack=0.0,
        unit="of what rounding explains",
        details={"steps": r.checks.n_steps, **r.path.details},
        needs_limit=False,
    )


def kl_recursion(r: Run) -> Verdict:
    """The divergence to lambda* obeys its recursion in every step, to rounding."""
    return _verdict(
        r,
        "kl-recursion",
        Kind.INVARIANT,
        measured=r.checks.recursion,
        bound=1.0,
        slack=0.0,
        unit="of what rounding explains",
        details={"steps": r.checks.n_steps, "unit in the last place": EPS},
    )


def envelope(r: Run) -> Verdict:
    """The distance of w_t/S_t to v* is within the envelope with the KL sum, in every step, for every step size."""
    return _envelope(r, "envelope", r.checks.envelope, r.checks.envelope_slack, ())


def plain_envelope(r: Run) -> Verdict:
    """The same without the sum, which needs small steps; its premise stands beside it."""
    return _envelope(r, "plain-envelope", r.checks.plain, r.checks.plain_slack, (_small_steps(r),))


def _small_steps(r: Run) -> Assumption:
    return Assumption(
        name="small steps: sum KL(l_t, l_t+1) <= 0.1 KL(l*, l_0)",
        holds=r.checks.premise <= 0.1 if r.solution is not None else None,
        measured=r.checks.premise if r.solution is not None else None,
    )


def _envelope(r: Run, claim: str, ratio: float, slack: float, assumptions: tuple[Assumption, ...]) -> Verdict:
    # No divergence is negative: from where their sum is beyond doubles, the envelope exceeds every distance there is.
    # A sum that is no number says nothing.
    lost = r.solution is not None and math.isnan(r.checks.kl_sum) and claim == "envelope"
    return _verdict(
        r,
        claim,
        Kind.UPPER,
        undecided="lambda left double precision, and the sum of divergences is no number." if lost else None,
        measured=ratio,
        bound=1.0,
        slack=0.0 if math.isnan(slack) else slack,
        unit="of the envelope",
        assumptions=assumptions,
        details={
            "steps": r.checks.n_steps,
            "KL(l*, l_0)": r.checks.kl_start,
            "sum KL": r.checks.kl_sum,
        },
    )


def observed_rate(r: Run) -> Verdict:
    """The exponent of |w_t/S_t - v*| in S_t over the last decade; w_t - S_t v* tends to a constant."""
    S, (_, w) = r.path.S, r.distances()
    # Where w/S is as near to the point as the point is to v*, the exponent says nothing.
    floor = 0.0 if math.isnan(r.checks.distance) else 100 * r.checks.distance
    late = (S[-1] / 10 < S) & (w > floor)
    measured, slack, undecided = math.nan, 0.0, _too_short(r, LONG)
    if r.solution is not None and late.sum() < 8:
        undecided = "w_t/S_t came as near to v* as v* is known, before the last decade of S."
    elif r.solution is not None:
        x, y = np.log(S[late]), np.log(w[late])
        measured = float(np.polyfit(x, y, 1)[0])
        middle = (x[0] + x[-1]) / 2
        halves = [float(np.polyfit(x[side], y[side], 1)[0]) for side in (x <= middle, x >= middle)]
        slack = abs(halves[1] - halves[0])
        if undecided is None and abs(measured - LEAST_FALL) <= slack:
            undecided = (
                f"the exponent is {halves[0]:.3f} in the first and {halves[1]:.3f} in the second half of the last "
                f"decade of S: {_advice(r, 3 * float(S[-1]))}"
            )
    return _verdict(
        r,
        "observed-rate",
        Kind.RATE,
        measured=measured,
        bound=LEAST_FALL,
        slack=slack,
        unit="exponent of S",
        undecided=undecided,
        details={"S times the distance, at the end": float(S[-1] * w[-1]), "from S": float(S[-1] / 10)},
    )


def _verdict(
    r: Run,
    claim: str,
    kind: Kind,
    *,
    measured: float,
    bound: float,
    slack: float,
    unit: str,
    undecided: str | None = None,
    conditions: tuple[Assumption, ...] = (),
    assumptions: tuple[Assumption, ...] = (),
    details: dict[str, Any],
    needs_limit: bool = True,
) -> Verdict:
    """A verdict with what all claims of a run share."""
    if needs_limit:
        has = Assumption(name=r.why or "the barrier has a minimiser at kappa", holds=r.why is None)
        if r.solution is None:
            conditions, measured, slack, undecided = (has,), math.nan, 0.0, r.unsolved
        else:
            conditions = (has, *conditions)
    return Verdict(
        claim=claim,
        parametrisation=r.label,
        loss=r.path.loss,
        kind=kind,
        measured=measured,
        bound=bound,
        slack=slack,
        unit=unit,
        undecided=undecided,
        conditions=conditions,
        assumptions=assumptions,
        details={"kappa": r.kappa, "rate of eps": r.rate, "step size": r.step, **details},
    )
