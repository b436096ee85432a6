"""The claims of `monomial_networks` on ranks: each counts what contradicts it, and every count rests on exact ranks."""

from collections.abc import Sequence

from ...claims import Assumption, Kind, Verdict
from ._monomial_architecture import Architecture, AtDegree, JudgedPoint, plain_weights
from ._monomial_known import names_a_witness
from ._monomial_search import SearchResult
from ._monomial_table import Entry, thresholds
from ._monomial_widths import enough, text_of, widening

LOSS = "none"
"""Ranks are about the parametrisation; no loss has a part in them."""
SHOWN = 6
"""Examples that a verdict keeps."""


def of_widths(widths: Sequence[int]) -> tuple[Assumption, ...]:
    """What the claims need of the widths.

    In a layer after one of width one all rows are proportional, and forms in one variable have one coefficient.
    """
    at = widening(widths)
    return (
        Assumption(
            name="no layer of width one before a wider hidden one",
            holds=at is None,
            measured="none" if at is None else f"layer {at} has width 1, layer {at + 1} has {widths[at + 1]}",
        ),
        Assumption(name="at least two inputs", holds=widths[0] >= 2, measured=float(widths[0])),
    )


def degree_reached(r: int, widths: Sequence[int]) -> Assumption:
    """Whether the degree is one from which the claim is made."""
    least = enough(widths)
    return Assumption(name=f"degree at or beyond 2h - 1 = {least}", holds=r >= least, measured=float(r))


def generic_rank_verdict(
    entries: Sequence[Entry], label: str, *, capped: bool = True, from_degree: int | None = None
) -> Verdict:
    """Generic against expected rank, in every entry with r at or beyond 2h - 1 (or `from_degree`).

    An entry contradicts where the rank at random points is below the expected one; where it equals it, the rank is
    proved from both sides.
    """
    judged = [e for e in entries if e.degree >= (enough(e.widths) if from_degree is None else from_degree)]
    wanted = [e.expected if capped else e.uncapped for e in judged]
    against = [(e, w) for e, w in zip(judged, wanted, strict=True) if e.generic.rank != w]
    below = [e for e in entries if e.generic.rank != e.expected and e not in judged]
    return Verdict(
        claim="generic-rank",
        parametrisation=label,
        loss=LOSS,
        kind=Kind.COUNT,
        measured=float(len(against)),
        bound=0.0,
        slack=0.0,
        unit="entries whose generic rank is not the expected one",
        assumptions=tuple(x for w in dict.fromkeys(e.widths for e in judged) for x in of_widths(w) if not x.holds),
        undecided=None if judged else "no entry has a degree from which the claim is made",
        details={
            "entries": len(judged),
            "thresholds": {text_of(w): r for w, r in thresholds(entries).items()},
            "against": [
                {"widths": text_of(e.widths), "degree": e.degree, "rank": e.generic.rank, "expected": w}
                for e, w in against[:SHOWN]
            ],
            "proved": sum(e.generic.proved for e in judged),
            "largest_failure_probability": max((e.generic.failure_probability for e in judged), default=0.0),
            "defective_below": {
                text_of(w): [e.degree for e in below if e.widths == w] for w in dict.fromkeys(e.widths for e in below)
            },
        },
    )


def subnetworks_critical(found: Architecture, *, degrees: Sequence[AtDegree] | None = None) -> Verdict:
    """Every kind of subnetwork in every hidden layer has a rank below the generic one, at every degree from 2h - 1."""
    judged = beyond(found) if degrees is None else list(degrees)
    against = [(at, point) for at in judged for point in at.noncritical]
    open_ = [(at, point) for at in judged for point in at.undecided]
    reason = None if judged else too_low(found)
    if open_ and not against:
        reason = f"{len(open_)} ranks have bounds on both sides of the generic one"
    return Verdict(
        claim="subnetworks-critical",
        parametrisation=found.label,
        loss=LOSS,
        kind=Kind.COUNT,
        measured=float(len(against)),
        bound=0.0,
        slack=0.0,
        unit="kinds of subnetworks that are not critical",
        assumptions=(*of_widths(found.widths), *(degree_reached(at.degree, found.widths) for at in judged)),
        undecided=reason,
        details={
            "kinds": sum(len(at.kinds) for at in judged),
            "proved_for_the_whole_kind": sum(p.by_formula for at in judged for p in at.kinds),
            "degrees": [at.degree for at in judged],
            "against": [point_detail(at.degree, at.generic.rank, point) for at, point in against[:SHOWN]],
        },
    )


def criticality(
    found: Architecture,
    *,
    degrees: Sequence[AtDegree] | None = None,
    given: Sequence[tuple[int, JudgedPoint]] = (),
    label: str | None = None,
) -> Verdict:
    """No critical parameter that is no subnetwork, at every degree from 2h - 1: found by search, or `given`.

    `given`: further parameters, each with its degree. A candidate counts against the claim only where its exact rank is
    below the generic one and it is exactly no subnetwork.
    """
    judged = beyond(found) if degrees is None else list(degrees)
    generic = {at.degree: at.generic.rank for at in found.degrees}
    witnesses = [(at.degree, point) for at in judged for point in at.others]
    decided = [(r, p, p.critical(generic[r])) for r, p in given if p.kind is None]
    witnesses += [(r, p) for r, p, critical in decided if critical]
    searches = [at.search for at in judged if at.search is not None]
    open_ = sum(len(s.undecided) for s in searches)
    reason = None if judged else too_low(found)
    if open_ and not witnesses:
        reason = (
            f"{open_} candidates have a singular value at rounding, and no exact point near them was found to be "
            "critical or shown not to be"
        )
    if not witnesses and any(critical is None for _, _, critical in decided):
        reason = "the rank of a given point has bounds on both sides of the generic one"
    if judged and not given and not any(s.n_tried + s.n_starts for s in searches):
        reason = "the search looked at no net that is no subnetwork; ask for more with `--search-points`"
    if found.always_redundant:
        reason = "every net of these widths is a subnetwork: there is nothing else to search"
    return Verdict(
        claim="criticality",
        parametrisation=found.label if label is None else label,
        loss=LOSS,
        kind=Kind.COUNT,
        measured=float(len(witnesses)),
        bound=0.0,
        slack=0.0,
        unit="critical points that are no subnetwork",
        assumptions=(*of_widths(found.widths), *(degree_reached(at.degree, found.widths) for at in judged)),
        undecided=reason,
        details={
            "degrees": [at.degree for at in judged],
            "given": len(given),
            "whole_numbered": sum(s.n_tried for s in searches),
            "starts": sum(s.n_starts for s in searches),
            "candidates": sum(s.n_candidates for s in searches),
            "smallest_singular_value": min((x for x in map(least, searches) if x is not None), default=None),
            "separation": min((s.separation for s in searches), default=None),
            "against": [point_detail(r, generic[r], p) for r, p in witnesses[:SHOWN]],
        },
    )


def below_threshold(found: Architecture, *, threshold: int | None = None) -> Verdict | None:
    """At every degree below the threshold "critical exactly at subnetworks" is false, each time by an exact witness.

    `threshold`: the proved one, or else the measured. `None` where there is no degree below it. A degree at which the
    search finds none decides nothing; the claim fails where exact ranks deny the witness that theory names there.
    """
    at_most = found.criticality_place.first if threshold is None else threshold
    judged = [at for at in found.degrees if at_most is not None and at.degree < at_most]
    if at_most is None or not judged:
        return None
    refuted = [at for at in judged if at.refuted]
    denied = [] if threshold is None else [at for at in judged if is_denied(at, threshold)]
    missing = [at.degree for at in judged if not at.refuted]
    return Verdict(
        claim="below-threshold",
        parametrisation=found.label,
        loss=LOSS,
        kind=Kind.LOWER,
        measured=float(len(refuted)),
        bound=float(len(judged)),
        slack=0.0,
        unit="degrees below the threshold with an exact witness",
        assumptions=of_widths(found.widths),
        undecided=none_found(missing) if missing and not denied else None,
        details={
            "threshold": at_most,
            "witnesses": [witness_detail(at) for at in refuted],
            "degrees_without": missing,
            "named_by_theory_and_denied": [at.degree for at in denied],
        },
    )


def is_denied(at: AtDegree, threshold: int) -> bool:
    """Whether exact ranks show that what theory names at this degree, below its threshold, is no witness."""
    decided = not at.named_open and not at.undecided
    return names_a_witness(at.widths, at.degree, threshold) and not at.refuted and decided


def none_found(degrees: Sequence[int]) -> str:
    """Why degrees without a witness decide nothing."""
    return f"the search found none at degree{'s' if len(degrees) > 1 else ''} {listed(degrees)}, which proves nothing"


def listed(degrees: Sequence[int]) -> str:
    """Degrees in words; four or more in a row as `2 to 7`.

    >>> listed([2, 3, 4, 5, 9]), listed([2, 7])
    ('2 to 5, 9', '2, 7')
    """
    parts: list[list[int]] = []
    for r in degrees:
        if parts and r == parts[-1][-1] + 1:
            parts[-1].append(r)
        else:
            parts.append([r])
    return ", ".join(f"{p[0]} to {p[-1]}" if len(p) >= 4 else ", ".join(map(str, p)) for p in parts)


def criticality_threshold_verdict(found: Architecture, proved: int, source: str) -> Verdict:
    """The measured threshold is the proved one: one more than the last degree with an exact witness.

    Too large a measured one rests on witnesses, and fails. Too small a one rests on a search that found none; it fails
    where exact ranks deny the witness that the proof names, and is inconclusive otherwise.
    """
    place = found.criticality_place
    at = {here.degree: here for here in found.degrees}
    degrees, before = list(at), at.get(proved - 1)
    measured, reason = place.exact, None
    if place.last is not None and place.last >= proved:
        measured = place.last + 1  # at least
    elif proved not in at or (proved > 2 and before is None):
        reason = f"the degrees {degrees} do not lie on both sides of {proved}; ask for more with `--degrees`"
    elif before is not None and not before.refuted:
        denied = is_denied(before, proved)
        reason = None if denied else none_found([proved - 1])
        # Where the witness is denied the threshold is at most that degree, however far down the next one is.
        measured = proved - 1 if measured is None and denied else measured
    return Verdict(
        claim="criticality-threshold",
        parametrisation=found.label,
        loss=LOSS,
        kind=Kind.EQUALITY,
        measured=float("nan") if measured is None else float(abs(measured - proved)),
        bound=0.0,
        slack=0.0,
        unit="difference of the measured threshold to the proved one",
        assumptions=of_widths(found.widths),
        undecided=reason,
        details={
            "measured": measured,
            "last_with_a_witness": place.last,
            "first_without": place.first,
            "proved": proved,
            "source": source,
            "degrees": degrees,
        },
    )


def beyond(found: Architecture) -> list[AtDegree]:
    """The degrees from which the claims are made."""
    return [at for at in found.degrees if at.degree >= enough(found.widths)]


def too_low(found: Architecture) -> str:
    return (
        f"no degree at or beyond 2h - 1 = {enough(found.widths)}, from which the claim is made; ask for one with "
        "`--degrees`"
    )


def point_detail(degree: int, generic: int, point: JudgedPoint) -> dict[str, object]:
    """A parameter for the record: its weights, its rank and the generic one."""
    return {
        "degree": degree,
        "kind": point.name,
        "rank": point.rank.rank,
        "generic": generic,
        "weights": plain_weights(point.weights),
    }


def witness_detail(at: AtDegree) -> dict[str, object]:
    """The first exact witness against "critical exactly at subnetworks" at this degree."""
    point = at.others[0] if at.others else at.noncritical[0]
    return point_detail(at.degree, at.generic.rank, point)


def least(search: SearchResult) -> float | None:
    """The smallest singular value at the ends of a search; `None` where nothing was minimised."""
    return float(search.smallest_singular_value.min()) if search.n_starts else None
