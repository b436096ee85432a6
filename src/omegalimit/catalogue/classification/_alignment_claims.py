"""The claims of `early_alignment`, each judged on one or several paths: the worst of them decides.

With `s = log t`, the theory of `EarlyAlignment` leaves, once `gamma u'w = s + b` and `w_perp` are replaced by their
limits, a remainder that falls like a power of t, `e^{-r s}`, and no powers of `1/s`. So every law is compared with its
full form (`tan(angle) = C / (s + b)`), to parts in a million, and not with its first term alone.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ...claims import Assumption, Kind, Outcome, Verdict
from ._alignment_path import Path

TOLERANCE = 1e-5
"""Of what is dimensionless: the angle's law, the balance solution, the shares of the rows, log(gamma^2 t L)."""

STEPS = 10.0
"""For descent the tolerance is at least this over the number of exact steps: it is the flow up to O(1/k)."""

VACUOUS = 0.1
"""A bound from here on is none."""

WITHOUT_LIMIT = ("radial-tangential", "symmetric-pair", "power-alignment", "exponential-time")
"""Claims along a path, which no limit makes wrong."""

VOID = 1e-8
"""C below this is zero to the accuracy of a run: nothing but a power of t is left."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """One path's part in a verdict."""

    measured: float
    slack: float
    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    conditions: tuple[Assumption, ...] = ()
    undecided: str | None = None


def verdict(
    claim: str,
    paths: Sequence[Path],
    read: Callable[[Path], Reading],
    *,
    kind: Kind = Kind.EQUALITY,
    bound: float | None = None,
    unit: str,
) -> Verdict:
    """`claim` on all these paths, which share a dynamics and a loss: the reading that is worst for it is its number."""
    readings = [read(path) for path in paths]
    sign = -1.0 if kind is Kind.LOWER else 1.0
    worst = max(readings, key=lambda r: math.inf if math.isnan(r.measured) else sign * r.measured + r.slack)
    several = len(paths) > 1
    made = Verdict(
        claim=claim,
        parametrisation=paths[0].dynamics,
        loss=paths[0].loss_name,
        kind=kind,
        measured=float(worst.measured),
        bound=tolerance(paths) if bound is None else bound,
        slack=float(worst.slack),
        unit=unit,
        assumptions=_assumptions(paths),
        conditions=tuple(
            dataclasses.replace(c, name=f"{c.name} ({path.label})" if several else c.name)
            for path, reading in zip(paths, readings, strict=True)
            for c in reading.conditions
        ),
        undecided=next((r.undecided for r in readings if r.undecided is not None), None) or _no_law(claim, paths),
        details={
            path.label: {"measured": float(r.measured), "slack": float(r.slack), **_exact(path), **r.details}
            for path, r in zip(paths, readings, strict=True)
        },
    )
    if bound is None and made.bound >= VACUOUS:
        fewest = min(path.n_exact for path in paths if path.n_exact is not None)
        reason = f"{fewest} exact steps tell no limit (the bound would be {made.bound:.1g}): take more `steps`"
        return dataclasses.replace(made, undecided=made.undecided or reason)
    if made.outcome is Outcome.INCONCLUSIVE and made.undecided is None and worst.slack >= made.bound:
        reason = f"what is left of the law, or the run's own error, may be {worst.slack:.1e}: more than the bound"
        return dataclasses.replace(made, undecided=reason)
    return made


def _no_law(claim: str, paths: Sequence[Path]) -> str | None:
    """Why a claim that rests on the law of these rows cannot be judged, where that law or its limit is not known."""
    if claim in WITHOUT_LIMIT:
        return None
    for path in paths:
        i = path.instance
        if i.undecided is not None and claim != "transverse-limit":
            return i.undecided
        # Without a balance there is no C, and what the law says of it is wrong; the rest comes true like 1 / log t.
        if i.balance is None and claim not in ("transverse-limit", "direction-law"):
            return i.no_balance
        if path.settling.reason is not None and i.law.strictly_complementary is not False:
            return path.settling.reason
    return None


def tolerance(paths: Sequence[Path]) -> float:
    """`TOLERANCE`, or for descent what so many exact steps can tell."""
    return max(TOLERANCE, *(0.0 if path.n_exact is None else STEPS / path.n_exact for path in paths))


def _exact(path: Path) -> dict[str, Any]:
    return {} if path.n_exact is None else {"steps_one_by_one": path.n_exact}


def _assumptions(paths: Sequence[Path]) -> tuple[Assumption, ...]:
    found = []
    for path in paths:
        found += [dataclasses.replace(a, name=f"{a.name} ({path.instance.name})") for a in path.instance.assumptions]
        tail = "exponential tail of the loss"
        found.append(
            Assumption(name=tail, holds=path.loss_name in ("exponential", "logistic"), measured=path.loss_name)
        )
    return tuple({a.name: a for a in found}.values())


# Limits.


def _late(path: Path) -> tuple[slice, float]:
    """Where the path is judged, in the last quarter of the log time, and how far from its limit it may be there."""
    here = path.settling
    return slice(here.first, None), _finite(here.at_first)


def _finite(left: float) -> float:
    """Zero where nothing is known: then the verdict is not decided anyway."""
    return left if math.isfinite(left) else 0.0


def radius_law(paths: Sequence[Path]) -> Verdict:
    """`gamma rho = ((log t + b)^2 + C^2)^(1/2)`, whose first term is `log t`."""

    def read(path: Path) -> Reading:
        late, left = _late(path)
        s = path.log_time[late]
        law = np.hypot(s + path.offset, path.constant)
        off = np.abs(path.radius[late] - law)
        return Reading(
            measured=float(off.max()),
            slack=left + path.error,
            details={
                "radius_over_log_time": float(path.radius[-1] / path.log_time[-1]),
                "offset": float(path.offset),
                "log_time": float(path.log_time[-1]),
            },
        )

    return verdict("radius-law", paths, read, unit="gamma |w|, beside log t")


def balance_solution(paths: Sequence[Path]) -> Verdict:
    """The part of `gamma w_perp` in the support vectors' span is `gamma w*`."""

    def read(path: Path) -> Reading:
        i = path.instance
        if i.balance is None:
            drift = _drift(i.inside(path.across), path)
            why = f"{i.undecided or i.no_balance}; what drifts is measured"
            return Reading(measured=drift, slack=0.0, undecided=why)
        off = np.linalg.norm(i.inside(path.across[-1]) - i.gamma * i.balance)
        size = max(1.0, float(i.gamma * np.linalg.norm(i.balance)))
        return Reading(
            measured=float(off) / size,
            slack=(_finite(path.settling.at_end) + path.error) / size,
            details={
                "balance_solution": i.balance.tolist(),
                "length_in_margins": float(i.gamma * np.linalg.norm(i.balance)),
            },
        )

    return verdict("balance-solution", paths, read, unit="of gamma w*, or of 1 where that is less")


def _drift(values: Float[np.ndarray, "T d"], path: Path) -> float:
    """How far the values still go in the last quarter of the log time, beside 1 or their own size."""
    first = path.index(0.75)
    return float(np.linalg.norm(values[-1] - values[first]) / max(1.0, np.linalg.norm(values[-1])))


def transverse_limit(paths: Sequence[Path], others: Sequence[Path] = ()) -> Verdict:
    """The part of `gamma w_perp` that no support vector reaches stands still.

    `others`: paths from another start on the same rows, whose limit must be another one: it is no function of the rows.
    """

    def read(path: Path) -> Reading:
        i = path.instance
        outside = i.outside(path.across)
        _, left = _late(path)
        limit = outside[-1]
        same = [
            other
            for other in others
            if other.instance is i and other.loss_name == path.loss_name and other.dynamics == path.dynamics
        ]
        apart = [float(np.linalg.norm(limit - i.outside(other.across[-1]))) for other in same]
        # What both may still be off by: less apart than that, they may have the same limit or another.
        doubts = [sum(p.error + p.settling.at_end for p in (path, other)) for other in same]
        return Reading(
            measured=_drift(outside, path),
            slack=left + path.error / max(1.0, float(np.linalg.norm(limit))),
            details={"limit_in_margins": float(np.linalg.norm(limit)), "from_other_starts": apart},
            conditions=tuple(
                Assumption(
                    name="another start has another limit",
                    holds=True if distance > doubt else None,
                    measured=distance,
                )
                for distance, doubt in zip(apart, doubts, strict=True)
            ),
        )

    return verdict("transverse-limit", paths, read, unit="moved in the last quarter of log t")


def direction_law(paths: Sequence[Path], *, constant: Callable[[Path], float] | None = None) -> Verdict:
    """`tan(angle) (log t + b) = C` over the last quarter of the log time, whose first term is `angle * log t -> C`.

    `constant`: another C, for a counter-instance.
    """

    def read(path: Path) -> Reading:
        C = path.constant if constant is None else constant(path)
        if C <= VOID:
            return Reading(measured=math.nan, slack=0.0, undecided="w_perp tends to zero: the law is void")
        here = path.settling
        if here.reason is None and here.at_end >= C:
            why = f"the run is too short: w_perp may move by {here.at_end:.1e} / gamma still, and C is {C:.1e}"
            return Reading(measured=math.nan, slack=0.0, undecided=why)
        late, left = _late(path)
        s = path.log_time[late]
        off = np.abs(np.tan(path.angle[late]) * (s + path.offset) / C - 1)
        # Along u the same distance counts by the tangent only.
        wide = 1 + float(np.tan(path.angle[late]).max())
        return Reading(
            measured=float(off.max()),
            slack=wide * left / C + path.error / float(np.linalg.norm(path.across[-1])),
            details={
                "C": C,
                "angle_times_log_time": float(path.angle[-1] * path.log_time[-1]),
                "off_where_judging_begins": _raw(path, C, here.first),
                "off_at_the_end": _raw(path, C, -1),
                "log_time": float(path.log_time[-1]),
            },
            conditions=(*_nearer(path, C), *_exact_steps(path, C)),
        )

    return verdict("direction-law", paths, read, unit="of C")


def _nearer(path: Path, C: float) -> tuple[Assumption, ...]:
    """`angle * log t` comes nearer to C: between halfway and the end, or from where the path has settled, if later.

    Its distance is `-b / (log t + b)` times C to first order, beside what is left of the remainder.
    """
    left = path.settling.left
    half = path.index(0.5)
    first = half if left[half] / C < 0.1 * abs(_raw(path, C, half)) else path.settling.first
    before, after = abs(_raw(path, C, first)), abs(_raw(path, C, -1))
    doubt = (_finite(float(left[first])) + path.error) / C + C**2 / float(path.log_time[first]) ** 2
    holds = True if after < before else None if after - before <= doubt else False
    where = "halfway" if first == half else "where judging begins"
    return (Assumption(name=f"angle * log t is nearer to C at the end than {where}", holds=holds, measured=after),)


def _exact_steps(path: Path, C: float) -> tuple[Assumption, ...]:
    """Descent's last exact step, beside what the path was still to move from there; none so early that no law shows."""
    if path.last_exact is None:
        return ()
    at = int(np.searchsorted(path.log_time, path.last_exact, side="right")) - 1
    s = float(path.log_time[at])
    left = _finite(float(path.settling.left[at])) + path.error
    reached = s + path.offset
    if not (reached > 1 and left < min(C, 0.5 * reached)):
        return ()
    tangent = float(np.tan(path.angle[at]))
    off = abs(tangent * reached / C - 1)
    # tan(angle) = |across| / along, each off by no more than `left`.
    allowed = ((C + left) / (reached - left)) * reached / C - 1
    return (
        Assumption(
            name="the last exact step is as near to the law as its remainder allows",
            holds=off <= allowed + tolerance([path]),
            measured=off,
        ),
    )


def _raw(path: Path, C: float, at: int) -> float:
    return float(path.angle[at] * path.log_time[at] / C - 1)


def loss_law(paths: Sequence[Path]) -> Verdict:
    """`t L(w) -> 1 / gamma^2`, with t the time of that L: no weights, no n."""

    def read(path: Path) -> Reading:
        late, left = _late(path)
        off = np.abs(2 * math.log(path.instance.gamma) + path.log_time[late] + path.log_loss[late])
        return Reading(measured=float(off.max()), slack=_shares_error(path, left) + path.log_loss_error)

    return verdict("loss-law", paths, read, unit="log of gamma^2 t L")


def _shares_error(path: Path, left: float) -> float:
    """What a distance from the limit, in units of 1 / gamma, may do to shares of sum one: times the longest of them."""
    i = path.instance
    longest = float(np.linalg.norm(i.Z[i.support], axis=1).max()) / i.gamma
    return left * max(1.0, longest)


def residual_identity(paths: Sequence[Path]) -> Verdict:
    """`gamma^2 t c_i |l'(z_i'w)|` tends to the multipliers of the balance solution: `sum_i p_i z_i = gamma u`."""

    def read(path: Path) -> Reading:
        i = path.instance
        shares = np.exp(path.log_shares[-1])
        left = _shares_error(path, _finite(path.settling.at_end)) + path.log_loss_error
        pull = float(np.linalg.norm(shares @ (i.Z / i.gamma) - i.u))
        if i.shares is None:
            return Reading(measured=pull, slack=left, details={"sum": pull})
        return Reading(
            measured=max(pull, float(np.abs(shares - i.shares).max())),
            slack=left,
            details={"sum": pull, "shares": shares[i.support].tolist(), "rows": i.support.tolist()},
        )

    return verdict("residual-identity", paths, read, unit="of a sum of one")
