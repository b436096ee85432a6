"""Claims of `smoothed_sign_descent` on one run: its limit, its identities, its envelopes, its rate."""

import math
from typing import Any

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ._sign_run import EPS, Run

FAR = 1e-6
"""A distance of v_t to v* that counts as arrival. v_t settles exponentially, to rounding; the barrier's minimisers at
two rates that differ by one part in 10^5 are farther apart."""

LEAST_FALL = -0.9
"""The exponent of the distance of w_t/S_t in S_t that is asked for; the envelope's is -1/2."""


def barrier_limit(r: Run) -> Verdict:
    """The last smoothed sign is the barrier's minimiser, and w_t/S_t is on its way there."""
    v, w = r.distances()
    measured = float(v[-1])
    undecided = _too_short(r) if measured > FAR else None
    tenth = int(np.searchsorted(r.path.S, r.path.S[-1] / 10))
    nearer = float(w[-1] / w[tenth]) if w[tenth] > 0 else 0.0
    error = r.checks.distance
    return _verdict(
        r,
        "barrier-limit",
        Kind.EQUALITY,
        measured=measured,
        bound=FAR,
        slack=0.0 if math.isnan(error) else error,
        unit="distance of v to v*",
        undecided=undecided,
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
            "distance of w/S": float(w[-1]),
            "limit": r.point.tolist(),
            "last v": r.path.v[-1].tolist(),
            "largest |v| coordinate": float(np.abs(r.path.v[-1]).max()),
        },
    )


def _too_short(r: Run) -> str | None:
    """Why the run has not shown its limit: v still moves, and w/S is within the envelope, as it must be; or `None`."""
    if r.why is not None:
        return None
    S, (_, w) = r.path.S, r.distances()
    late = int(np.searchsorted(S, S[-1] / 2))
    moving = float(np.linalg.norm(r.path.v[late:] - r.path.v[-1], axis=1).max())
    plain = math.sqrt(2 * r.checks.kl_start / S[-1]) + r.checks.start_size / S[-1]
    if moving > FAR and w[-1] <= plain:
        return f"v still moved by {moving:.1e} over the second half of the run; take more steps, or longer ones."
    return None


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
        holds=r.checks.premise <= 0.1 if r.why is None else None,
        measured=r.checks.premise if r.why is None else None,
    )


def _envelope(r: Run, claim: str, ratio: float, slack: float, assumptions: tuple[Assumption, ...]) -> Verdict:
    # An envelope that is infinite holds whatever the run does.
    lost = r.why is None and not math.isfinite(r.checks.kl_sum) and claim == "envelope"
    return _verdict(
        r,
        claim,
        Kind.UPPER,
        undecided="lambda left double precision, and the sum of divergences with it." if lost else None,
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
    measured, slack, undecided = math.nan, 0.0, _too_short(r)
    if late.sum() < 8 and r.why is None:
        undecided = "w_t/S_t came as near to v* as v* is known, before the last decade of S."
    elif r.why is None:
        x, y = np.log(S[late]), np.log(w[late])
        measured = float(np.polyfit(x, y, 1)[0])
        middle = (x[0] + x[-1]) / 2
        halves = [float(np.polyfit(x[side], y[side], 1)[0]) for side in (x <= middle, x >= middle)]
        slack = abs(halves[1] - halves[0])
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
        conditions = (has, *conditions) if r.why is None else (has,)
        measured, slack = (measured, slack) if r.why is None else (math.nan, 0.0)
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
