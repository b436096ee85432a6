"""The system `monomial-networks`: claims hold where they should, counter-instances fail, own nets are judged."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from omegalimit.catalogue.networks import _monomial_separation as separation
from omegalimit.catalogue.networks import _monomial_training as training
from omegalimit.catalogue.networks._monomial_architecture import (
    STEEP,
    Architecture,
    JudgedPoint,
    Place,
    at_degree,
    confirmed,
    is_steep,
    judged,
    judged_kinds,
    searched,
    study,
)
from omegalimit.catalogue.networks._monomial_arrays import architecture_arrays
from omegalimit.catalogue.networks._monomial_claims import (
    below_threshold,
    criticality,
    criticality_threshold_verdict,
    generic_rank_verdict,
    subnetworks_critical,
)
from omegalimit.catalogue.networks._monomial_counters import COLLINEAR
from omegalimit.catalogue.networks._monomial_known import known_candidates, names_a_witness
from omegalimit.catalogue.networks._monomial_shallow import shallow_cases, shallow_rank_verdict
from omegalimit.catalogue.networks._monomial_table import entry, rank_entries, thresholds
from omegalimit.catalogue.networks._monomial_thresholds import proved_threshold
from omegalimit.catalogue.networks._monomial_widths import enough, parse_architectures, parse_widths
from omegalimit.catalogue.networks.monomial_networks import MonomialNetworks, told, verdicts_of
from omegalimit.claims import Kind, Outcome
from omegalimit.limits.shallow_rank import criticality_threshold
from omegalimit.models.monomial import MonomialNetwork
from omegalimit.models.subnetworks import SubnetworkKind, subnetwork_kinds
from omegalimit.record import plain
from omegalimit.rigorous.jacobian_rank import expected_rank, generic_rank, jacobian_rank

CLAIMS = {
    "shallow-rank", "generic-rank", "subnetworks-critical", "criticality", "criticality-threshold", "below-threshold",
    "near-redundant", "conditioning",
}  # fmt: skip
COUNTERS = (
    "collinear-rows", "low-degree", "no-cap", "bottleneck", "floats-alone", "truly-redundant", "degree-two",
    "proportional-rows", "three-inputs", "late-threshold",
)  # fmt: skip
SMALL: dict[str, Any] = {
    "search_points": 800,
    "search_starts": 2,
    "training_widths": "none",
    "table": "2,2,1",
    "table_degree": 3,
}


def outcomes(verdicts):
    return {(v.claim, v.parametrisation): v.outcome for v in verdicts}


# A run with every part, smaller than the default one.


@pytest.fixture(scope="module")
def run():
    ticks = []
    system = MonomialNetworks(
        widths=("2,3,1", "3,3,1", "2,2,2,1", "2,3,2,1"),
        degrees=(2, 3, 4, 5),
        search_points=1500,
        search_starts=4,
        training_widths=("2,2,1",),
        training_starts=20,
        training_steps=300,
    )
    return system.check(lambda text, fraction: ticks.append(fraction)), ticks


def test_every_claim_of_the_run_holds(run):
    findings, _ = run
    assert {key: outcome for key, outcome in outcomes(findings.verdicts).items() if outcome is not Outcome.HOLDS} == {}
    assert {v.claim for v in findings.verdicts} == CLAIMS
    assert len(outcomes(findings.verdicts)) == len(findings.verdicts)  # none twice
    assert findings.not_applicable == {}


def test_claims_are_those_of_the_docstring_and_every_claim_can_fail():
    page = str(MonomialNetworks.__doc__)
    assert set(re.findall(r"- `([a-z-]+)` \(", page)) == CLAIMS
    counters = MonomialNetworks().counters
    assert tuple(counters) == COUNTERS
    assert {claim for counter in counters.values() for claim, _ in counter.expected} == CLAIMS


def test_thresholds_are_those_of_the_theory(run):
    findings, _ = run
    measured = {
        name.removesuffix("/monomial-ranks"): (data.attrs["generic_threshold"], data.attrs["criticality_threshold"])
        for name, data in findings.arrays.items()
        if name.endswith("/monomial-ranks")
    }
    assert measured == {"2,3,1": (2, 5), "3,3,1": (2, 5), "2,2,2,1": (2, 2), "2,3,2,1": (4, 4)}
    assert findings.notes[1] == (
        "3,3,1, degrees 2 to 5: generic rank as expected from 2 on, critical exactly at subnetworks from 5 on "
        "(measured; 5 is proved)."
    )


def test_witnesses_below_the_threshold_are_exact(run):
    findings, _ = run
    seen = 0
    for v in findings.verdicts:
        if v.claim != "below-threshold":
            continue
        for witness in v.details["witnesses"]:
            weights = [np.array(W) for W in witness["weights"]]
            kinds, rank = subnetwork_kinds(weights), jacobian_rank(weights, witness["degree"])
            generic = generic_rank(parse_widths(v.parametrisation), witness["degree"])
            assert rank.proved
            # Critical and no subnetwork, or a subnetwork with the generic rank.
            assert (rank.upper < generic.rank) if not kinds else (rank.lower == generic.rank == generic.upper)
            seen += 1
    assert seen == 3 + 3 + 2  # degrees 2, 3, 4 of the shallow ones and 2, 3 of the deep one


def test_kinds_are_proved_critical_at_all_their_points(run):
    findings, _ = run
    judged_at = [v.details for v in findings.verdicts if v.claim == "subnetworks-critical"]
    assert [(d["kinds"], d["proved_for_the_whole_kind"]) for d in judged_at] == [(3, 3), (3, 3), (18, 18), (6, 6)]
    # Below the threshold the formulas do not suffice: there are other null vectors.
    low = judged_kinds((3, 3, 1), 2, np.random.default_rng(5))
    assert [p.by_formula for p in low] == [False, False, False]


def test_what_is_left_for_the_record(run):
    findings, ticks = run
    groups = {"generic ranks/monomial-table", "2,2,1, starts of size 1/monomial-training"}
    assert groups < set(findings.arrays)
    assert {name.rpartition("/")[2] for name in findings.arrays} == {
        "monomial-table", "monomial-ranks", "monomial-separation", "monomial-training",
    }  # fmt: skip
    for v in findings.verdicts:
        json.dumps(plain(v.details), allow_nan=False)
        assert all(map(math.isfinite, (v.measured, v.bound, v.slack)))
    json.dumps(plain(dict(findings.settings)), allow_nan=False)
    assert ticks == sorted(ticks)
    assert (ticks[0], ticks[-1]) == (0.0, 1.0)


# Counter-instances.


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_instance_fails_as_it_should(name):
    counter = MonomialNetworks(seed=1).counters[name]
    findings = counter.check(lambda text, fraction: None)
    assert counter.as_expected(findings)
    expected = set(counter.expected)
    found = outcomes(findings.verdicts)
    # What is not expected to fail is a control, and holds.
    assert {key for key, outcome in found.items() if outcome is Outcome.HOLDS} == set(found) - expected
    inconclusive = {key for key, outcome in found.items() if outcome is Outcome.INCONCLUSIVE}
    assert inconclusive == {
        "floats-alone": {("near-redundant", "2,2,1, r = 3")},
        "bottleneck": {("criticality", "2,1,2,1")},
    }.get(name, set())


def test_collinear_rows_are_found_and_hold_from_degree_five():
    findings = MonomialNetworks().counters["collinear-rows"].check(lambda text, fraction: None)
    found = outcomes(findings.verdicts)
    for label in ("3,3,1", "3,3,1, rows e1, e2, e1 + e2"):
        assert found["criticality", f"{label}, r = 3"] is Outcome.FAILS
        assert found["criticality", f"{label}, r = 5"] is Outcome.HOLDS
    # The search found such rows by itself: three that depend on each other, no two of them.
    (by_search,) = (v for v in findings.verdicts if v.parametrisation == "3,3,1, r = 3")
    rows = np.array(by_search.details["against"][0]["weights"][0])
    assert np.linalg.matrix_rank(rows) == 2
    assert [jacobian_rank(COLLINEAR, r).rank for r in (3, 4, 5)] == [7, 8, 9]


def test_a_counter_instance_makes_its_own_nets(tmp_path):
    system = MonomialNetworks(weights=str(tmp_path / "net.npz"))
    message = f"a counter-instance makes its own nets; drop `--weights` (got {str(tmp_path / 'net.npz')!r})."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        system.counters["no-cap"].check(lambda text, fraction: None)
    notes = MonomialNetworks(table="2,2,1").counters["no-cap"].check(lambda text, fraction: None).notes
    assert notes == ("not used by a counter-instance, which has nets of its own: --table.",)


# Ranks, against the numbers of the theory.


RANKS = {  # generic, expected, then zero row, zero column, proportional rows of layer 1 and of layer 2
    ((2, 2, 2, 1), 2): (5, 5, 2, 3, 2, 3, 4, 3),
    ((2, 2, 2, 1), 3): (6, 6, 2, 3, 2, 4, 5, 4),
    ((2, 2, 2, 1), 4): (6, 6, 2, 3, 2, 4, 5, 4),
    ((2, 2, 2, 1), 5): (6, 6, 2, 3, 2, 4, 5, 4),
    ((2, 3, 2, 1), 3): (8, 9, 6, 8, 7, 4, 5, 4),
    ((2, 3, 2, 1), 5): (9, 9, 6, 8, 7, 6, 7, 6),
    ((3, 2, 2, 2), 2): (10, 10, 4, 6, 6, 6, 8, 7),
}


@pytest.mark.parametrize(("widths", "degree"), RANKS)
def test_ranks_at_subnetworks(widths, degree):
    kinds = judged_kinds(widths, degree, np.random.default_rng(5))
    assert [(p.kind, p.layer) for p in kinds] == [(kind, layer) for layer in (1, 2) for kind in SubnetworkKind]
    found = (generic_rank(widths, degree).rank, expected_rank(widths, degree), *(p.rank.rank for p in kinds))
    assert found == RANKS[widths, degree]


def test_the_table_of_generic_ranks():
    entries = rank_entries((4, 4, 4, 1), range(2, 10), seed=0)
    assert len(entries) == 27 * 8
    found = thresholds(entries)
    assert len(found) == 27
    assert all(r is not None and r <= enough(w) for w, r in found.items())
    known = {
        (2, 2, 2, 1): 2, (2, 2, 3, 1): 5, (2, 2, 4, 1): 7, (2, 3, 2, 1): 4, (3, 2, 4, 1): 7, (4, 4, 4, 1): 3,
    }  # fmt: skip
    assert {w: found[w] for w in known} == known
    verdict = generic_rank_verdict(entries, "table")
    assert verdict.outcome is Outcome.HOLDS
    assert verdict.details["proved"] == verdict.details["entries"]
    # From degree 2 on it does not hold: the claim rests on its threshold.
    low = generic_rank_verdict(entries, "table", from_degree=2)
    assert low.outcome is Outcome.FAILS
    assert low.measured == sum(e.generic.rank != e.expected for e in entries)


def test_a_threshold_beyond_the_table_is_none():
    entries = [entry((2, 2, 3, 1), r, seed=0) for r in (2, 3)]
    assert thresholds(entries) == {(2, 2, 3, 1): None}
    verdict = generic_rank_verdict(entries, "low")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == "no entry has a degree from which the claim is made"


PROVED = {
    (2, 3, 1): 5, (3, 3, 1): 5, (3, 4, 1): 7, (4, 2, 1): 2, (2, 3, 2): 5,
    (2, 2, 2, 1): 2, (2, 3, 2, 1): 4, (2, 2, 3, 1): 5, (2, 2, 4, 1): 7,
}  # fmt: skip


@pytest.mark.parametrize(("widths", "degree"), PROVED.items())
def test_proved_thresholds_against_exact_ranks(widths, degree):
    proved = proved_threshold(widths)
    assert proved is not None
    assert proved[0] == degree
    # From there on no kind of subnetwork is left uncritical, and no whole-numbered net is critical beside them.
    for r in (degree, degree + 1):
        assert not at_degree(widths, r, n_whole=300, n_starts=0, seed=3).refuted
    if degree > 2:
        assert at_degree(widths, degree - 1, n_whole=1500, n_starts=0, seed=3).refuted


def test_no_threshold_is_claimed_where_none_is_proved():
    assert proved_threshold((2, 3, 3, 1)) is None
    assert proved_threshold((1, 2, 1)) is None


def test_ranks_do_not_depend_on_the_units():
    weights = [np.array(W, dtype=float) for W in COLLINEAR]
    for factor in (2.0**-500, 1.0, 2.0**500):
        scaled = [factor * W for W in weights]
        assert jacobian_rank(scaled, 3).rank == 7
        assert judged(scaled, 3).critical(9) is True


# Each verdict, on what it must not be fooled by.


@pytest.fixture(scope="module")
def pair():
    """Widths 3,3,1 at degrees 4 and 5, below and at the threshold."""
    return Architecture(
        widths=(3, 3, 1), degrees=tuple(at_degree((3, 3, 1), r, n_whole=800, n_starts=2, seed=0) for r in (4, 5))
    )


def test_criticality_counts_neither_subnetworks_nor_points_of_generic_rank(pair):
    rows = np.array([[1, 0, 0], [0, 1, 0], [2, 0, 0]])
    subnetwork = judged((rows, np.array([[1, 1, 1]])), 5)
    assert subnetwork.critical(9) is True
    assert subnetwork.kind is SubnetworkKind.REDUNDANT
    generic = judged((np.eye(3, dtype=int), np.array([[1, 1, 1]])), 5)
    assert criticality(pair, given=((5, subnetwork), (5, generic))).outcome is Outcome.HOLDS
    # Nor where a search says otherwise.
    said = [subnetwork.weights, generic.weights, COLLINEAR]
    assert confirmed(said, 5, 9) == ()
    assert [point.weights for point in confirmed(said, 4, 9)] == [COLLINEAR]
    open_ = JudgedPoint(weights=generic.weights, rank=dataclasses.replace(generic.rank, lower=8))
    verdict = criticality(pair, given=((5, open_),))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == "the rank of a given point has bounds on both sides of the generic one"
    collinear = judged(COLLINEAR, 4)
    assert criticality(pair, degrees=pair.degrees[:1], given=((4, collinear),)).outcome is Outcome.FAILS


def test_candidates_that_nothing_settles_leave_criticality_open(pair):
    at = pair.degrees[1]
    assert at.search is not None
    left = (np.eye(3), np.ones((1, 3)))
    open_ = dataclasses.replace(at, search=dataclasses.replace(at.search, undecided=(left,)))
    verdict = criticality(Architecture(widths=(3, 3, 1), degrees=(open_,)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == (
        "1 candidates have a singular value at rounding, and no exact point near them was found to be critical or "
        "shown not to be"
    )


def test_ranks_that_are_not_proved_leave_the_kinds_open(pair):
    at = pair.degrees[1]
    point = at.kinds[0]
    loose = JudgedPoint(
        weights=point.weights, rank=dataclasses.replace(point.rank, upper=9), kind=point.kind, layer=point.layer
    )
    assert loose.critical(9) is None
    open_ = dataclasses.replace(at, kinds=(loose, *at.kinds[1:]))
    verdict = subnetworks_critical(Architecture(widths=(3, 3, 1), degrees=(open_,)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == "1 ranks have bounds on both sides of the generic one"


def test_degrees_that_are_too_low_decide_nothing():
    found = Architecture(widths=(3, 3, 1), degrees=(at_degree((3, 3, 1), 3, n_whole=800, n_starts=0, seed=0),))
    reason = "no degree at or beyond 2h - 1 = 5, from which the claim is made; ask for one with `--degrees`"
    for verdict in (subnetworks_critical(found), criticality(found)):
        assert (verdict.outcome, verdict.undecided) == (Outcome.INCONCLUSIVE, reason)
    verdict = criticality_threshold_verdict(found, 5, "here")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == "the degrees [3] do not lie on both sides of 5; ask for more with `--degrees`"
    assert found.criticality_threshold is None
    assert below_threshold(found) is None
    # With the proved threshold there is something below it.
    below = below_threshold(found, threshold=5)
    assert below is not None
    assert (below.outcome, below.kind, below.bound) == (Outcome.HOLDS, Kind.LOWER, 1.0)


def test_a_threshold_beyond_the_degrees_fails_against_a_proved_one_among_them():
    # Said to be 4: degree 4 is refuted, so that the measured threshold is 5 at least.
    found = Architecture(
        widths=(3, 3, 1),
        degrees=tuple(at_degree((3, 3, 1), r, n_whole=800, n_starts=0, seed=0) for r in (3, 4)),
    )
    verdict = criticality_threshold_verdict(found, 4, "wrong")
    assert (verdict.outcome, verdict.measured) == (Outcome.FAILS, 1.0)


# A search that misses decides nothing; witnesses that theory names are ranked.


@pytest.mark.parametrize(
    ("widths", "degrees"),
    [("3,8,1", (14, 15)), ("3,9,1", (16, 17)), ("3,12,1", (21, 22, 23)), ("3,4,1", (5, 6, 7)), ("2,3,2", (2, 3, 4, 5))],
)
def test_witnesses_in_closed_form_make_up_for_a_search_that_misses(widths, degrees):
    found = study(parse_widths(widths), degrees, n_whole=60, n_starts=0, seed=0)
    assert found.criticality_threshold == degrees[-1]
    by_claim = {v.claim: v for v in verdicts_of(found)}
    assert {name: v.outcome for name, v in by_claim.items()} == dict.fromkeys(
        ("subnetworks-critical", "criticality", "criticality-threshold", "below-threshold"), Outcome.HOLDS
    )
    assert by_claim["below-threshold"].measured == len(degrees) - 1


def test_a_witness_far_below_the_threshold_of_a_wide_net():
    (verdict,) = (
        v
        for v in verdicts_of(study((30, 30, 1), (3,), n_whole=None, n_starts=None, seed=0))
        if v.claim == "below-threshold"
    )
    assert (verdict.outcome, verdict.measured) == (Outcome.HOLDS, 1.0)


@pytest.mark.parametrize("widths", [(3, 3, 1), (4, 3, 1), (3, 4, 1), (4, 5, 1), (2, 4, 2), (3, 3, 2)])
def test_the_nets_that_theory_names_are_critical_and_no_subnetworks_at_every_degree(widths):
    known = criticality_threshold(widths)
    assert known.degree is not None
    for r in range(2, known.degree):
        points = [judged(weights, r) for weights in known_candidates(widths, r)]
        generic = generic_rank(widths, r).rank
        witness = any(p.kind is None and p.critical(generic) for p in points)
        kinds = [p for p in judged_kinds(widths, r, np.random.default_rng(0)) if p.critical(generic) is False]
        assert witness or kinds
    assert known_candidates(widths, known.degree) == []
    # Beyond the threshold the same nets have the generic rank.
    for weights in known_candidates(widths, known.degree - 1):
        if not subnetwork_kinds(weights):
            assert judged(weights, known.degree).critical(generic_rank(widths, known.degree).rank) is False


def bare(widths, degrees):
    """An architecture whose witnesses are all taken away."""
    made = [at_degree(widths, r, n_whole=1, n_starts=0, seed=0) for r in degrees]
    kinds = [tuple(p for p in at.kinds if p.critical(at.generic.rank)) for at in made]
    return Architecture(
        widths=widths,
        degrees=tuple(dataclasses.replace(at, others=(), kinds=k) for at, k in zip(made, kinds, strict=True)),
    )


def test_where_the_search_finds_none_and_nothing_is_known_nothing_is_decided():
    # No threshold is proved for these widths: the last degree is given a witness, those before it have none.
    found = bare((2, 3, 3, 1), (2, 3))
    witness = at_degree((2, 3, 3, 1), 4, n_whole=800, n_starts=0, seed=0)
    later = bare((2, 3, 3, 1), (5,)).degrees
    assert witness.refuted
    below = below_threshold(Architecture(widths=(2, 3, 3, 1), degrees=(*found.degrees, witness, *later)))
    assert below is not None
    assert (below.outcome, below.measured, below.bound) == (Outcome.INCONCLUSIVE, 1.0, 3.0)
    assert below.undecided == "the search found none at degrees 2, 3, which proves nothing"
    # Two outputs, far below the threshold: theory names nothing that can be denied.
    two = below_threshold(bare((3, 4, 2), (3,)), threshold=7)
    assert two is not None
    assert two.outcome is Outcome.INCONCLUSIVE
    assert two.undecided == "the search found none at degree 3, which proves nothing"


def test_a_named_witness_that_exact_ranks_deny_fails():
    found = bare((3, 3, 1), (4, 5))
    below = below_threshold(found, threshold=5)
    assert below is not None
    assert below.outcome is Outcome.FAILS
    assert criticality_threshold_verdict(found, 5, "proof").outcome is Outcome.FAILS
    # Its rank not proved: nothing is denied.
    open_ = Architecture(
        widths=(3, 3, 1), degrees=(dataclasses.replace(found.degrees[0], named_open=1), found.degrees[1])
    )
    below = below_threshold(open_, threshold=5)
    assert below is not None
    assert below.outcome is Outcome.INCONCLUSIVE
    verdict = criticality_threshold_verdict(open_, 5, "proof")
    assert (verdict.outcome, verdict.undecided) == (
        Outcome.INCONCLUSIVE,
        "the search found none at degree 4, which proves nothing",
    )
    assert names_a_witness((3, 4, 2), 6, 7)
    assert not names_a_witness((3, 4, 2), 5, 7)


def test_nothing_searched_is_not_nothing_found():
    found = study((2, 3, 1), (5,), n_whole=0, n_starts=0, seed=0)
    verdict = criticality(found)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == "the search looked at no net that is no subnetwork; ask for more with `--search-points`"


def test_thresholds_are_stated_for_the_degrees_that_were_looked_at():
    def note(*degrees):
        found = study((3, 3, 1), degrees, n_whole=1, n_starts=0, seed=0)
        return found, told(found)

    found, text = note(2, 7)
    assert text == (
        "3,3,1, degrees 2, 7 (no others were looked at): generic rank as expected from 2 on, critical exactly at "
        "subnetworks from a degree after 2 on, at or before 7 (measured; 5 is proved)."
    )
    assert found.criticality_threshold is None
    verdict = criticality_threshold_verdict(found, 5, "proof")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert math.isnan(verdict.measured)
    found, text = note(1000)
    assert text == (
        "3,3,1, degree 1000: generic rank as expected at or before 1000, critical exactly at subnetworks at or before "
        "1000 (measured; 5 is proved)."
    )
    assert math.isnan(architecture_arrays(found).attrs["criticality_threshold"])
    assert told(bare((3, 3, 1), (3, 4, 5))) == (
        "3,3,1, degrees 3, 4, 5: generic rank as expected at or before 3, critical exactly at subnetworks at or before "
        "3 (measured: no witness is found at 3, 4; 5 is proved)."
    )
    assert told(study((2, 2, 2, 2, 1), (3,), n_whole=50, n_starts=0, seed=0)).endswith(
        "at or before 3 (measured: no witness against it is found from there on; not proved)."
    )
    places = [[(2, True), (3, False), (4, True)], [(2, False), (4, False)], [(2, True), (3, True), (4, False)]]
    assert [Place.of(broken) for broken in places] == [Place(4, None), Place(None, 2), Place(3, 4)]


# Large degrees and large nets.


def test_at_large_degrees_nothing_is_minimised_and_the_claims_are_judged():
    options: dict[str, Any] = {**SMALL, "search_points": 60, "search_starts": 4}
    runs = {
        widths: MonomialNetworks(widths=(widths,), degrees=degrees, **options).check()
        for widths, degrees in (("2,3,1", (100, 1000)), ("2,2,2,2,1", (100,)))
    }
    for widths, findings in runs.items():
        found = outcomes(findings.verdicts)
        assert found["subnetworks-critical", widths] is Outcome.HOLDS
        assert found["criticality", widths] is Outcome.HOLDS
    starts = {r: n for r, (_, n) in runs["2,3,1"].settings["searched"]["2,3,1"].items()}
    assert starts == {100: 4, 1000: 0}
    assert runs["2,2,2,2,1"].notes[-1] == (
        f"2,2,2,2,1: nothing is minimised at 100, where the outputs are forms of a degree beyond {STEEP}: "
        "singular values are at rounding there. Whole-numbered nets are searched."
    )
    assert [is_steep((2, 2, 2, 2, 1), r) for r in (8, 9)] == [False, True]


def test_the_search_becomes_smaller_in_larger_nets_down_to_nothing():
    sizes = [searched((n, n, 1)) for n in (4, 6, 10, 16, 18, 19, 40)]
    assert sizes[0] == (4000, 8)
    assert [n for n, _ in sizes] == sorted((n for n, _ in sizes), reverse=True)
    assert sizes[-1] == (0, 0)


def test_progress_is_told_inside_of_a_degree_and_of_the_table():
    said = []
    MonomialNetworks(widths=("2,2,2,1",), degrees=(3,), **{**SMALL, "table": "3,3,1"}).check(
        lambda text, fraction: said.append(text)
    )
    assert "generic ranks, 2,3,1, 2 of 8 are done" in said
    assert "2,2,2,1, r = 3, inactive (zero incoming row), layer 2" in said


def test_training_that_leaves_double_precision_is_refused_before_anything_is_run():
    said = []
    system = MonomialNetworks(
        widths=("2,2,1",), training_widths=("2,2,2,2,1",), degree=9, training_sizes=(1.0, 1e6), training_starts=3
    )
    start = (
        "nets of `training_widths` 2,2,2,2,1 cannot be trained at `degree` 9 from starts of size 1000000 "
        "(`training_sizes`): "
    )
    with pytest.raises(ValueError, match=f"^{re.escape(start)}"):
        system.check(lambda text, fraction: said.append(text))
    assert said == ["options"]


def test_sizes_that_are_nearly_equal_are_kept_apart_and_equal_ones_are_dropped():
    sizes: Any = (1, 1.0, 1.0000001, np.float32(0.5))
    system = MonomialNetworks(training_sizes=sizes, training_widths=("2,2,1",), training_starts=3, training_steps=5)
    assert system.training_sizes == (1.0, 1.0000001, 0.5)
    assert list(system.trainings()) == [f"2,2,1, starts of size {s}" for s in ("1", "1.0000001", "0.5")]


def test_single_values_and_numpy_numbers_are_taken():
    options: Any = {"degrees": np.int64(3), "training_sizes": 1.0, "degree": np.int32(4), "widths": np.array([2, 2, 1])}
    system = MonomialNetworks(**options)
    assert (system.degrees, system.training_sizes, system.degree) == ((3,), (1.0,), 4)
    assert system.widths == ("2,2,1",)
    json.dumps(dataclasses.asdict(system))
    several: Any = (3, np.int64(2))
    assert MonomialNetworks(degrees=several).degrees == (2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degrees": "abc"}, "`degrees` must be numbers; got 'abc'."),
        ({"training_sizes": ("a",)}, "`training_sizes` must be numbers; got 'a'."),
        ({"training_sizes": "1"}, "`training_sizes` must be numbers; got '1'."),
        ({"weights": 3}, "`weights` must be the path of an .npz file, as text; got 3."),
    ],
)
def test_options_of_the_wrong_kind(options, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        MonomialNetworks(**options)


def test_the_shallow_formula_is_not_fooled():
    cases = shallow_cases((2, 3), (3, 5), seed=0)
    assert shallow_rank_verdict(cases, "two inputs").outcome is Outcome.HOLDS
    wrong = [*cases[:-1], dataclasses.replace(cases[-1], formula=cases[-1].formula + 1)]
    verdict = shallow_rank_verdict(wrong, "two inputs")
    assert (verdict.outcome, verdict.measured) == (Outcome.FAILS, 1.0)
    loose = dataclasses.replace(cases[0], exact=dataclasses.replace(cases[0].exact, lower=0))
    assert shallow_rank_verdict([loose], "two inputs").undecided == "1 ranks are not proved"


# Near-redundant neurons.


@pytest.fixture(scope="module")
def sweep():
    return separation.sweep(separation.shallow_pair, 3, range(2, 26), label="2,2,1", seed=0)


def test_exact_arithmetic_decides_what_floats_leave_open(sweep):
    assert separation.near_redundant(sweep).outcome is Outcome.HOLDS
    by_floats = separation.near_redundant(sweep, by="float")
    assert by_floats.outcome is Outcome.INCONCLUSIVE
    assert by_floats.undecided is not None
    assert by_floats.undecided.endswith("; exact arithmetic decides them")
    far = separation.sweep(separation.shallow_pair, 3, range(2, 5), label="2,2,1", seed=0)
    assert separation.near_redundant(far, by="float").outcome is Outcome.HOLDS


def test_floats_that_claim_too_much_are_caught(sweep):
    lower = sweep.float_lower.copy()
    lower[-1] = sweep.generic + 1
    verdict = separation.near_redundant(dataclasses.replace(sweep, float_lower=lower))
    assert verdict.outcome is Outcome.FAILS
    assert [c.name for c in verdict.conditions if c.holds is False] == ["floats claim no more than the exact rank"]


def test_the_exponent_is_measured_where_floats_resolve_it(sweep):
    slope, slack = separation.measured_exponent(sweep)
    # Of first order in the last separation that counts, some 1e-4.
    assert abs(slope - 3) <= slack + 1e-3
    assert slack < 0.01
    short = dataclasses.replace(sweep, rounding=1.0)
    assert math.isnan(separation.measured_exponent(short)[0])
    verdict = separation.conditioning(short)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == "fewer than three separations are resolved by floats"
    assert separation.conditioning(sweep, exponent=2.0).outcome is Outcome.FAILS


# Training: reported, not judged.


def test_wilsons_interval_is_scipys():
    for k, n in ((0, 7), (3, 7), (7, 7), (41, 200)):
        known = binomtest(k, n).proportion_ci(method="wilson")
        np.testing.assert_allclose(training.wilson(k, n), (known.low, known.high), rtol=0, atol=1e-14)


def test_targets_are_what_they_are_said_to_be():
    widths, rng = (2, 3, 2, 1), np.random.default_rng(0)
    X = training.inputs(20, 2, rng)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-15)
    made = {kind: training.targets(X, widths, 3, kind, np.random.default_rng(1)) for kind in training.TARGETS}
    for y in made.values():
        assert y.shape == (20, 1)
        assert np.mean(y**2) == pytest.approx(1, rel=1e-14)
    # Forms of degree 9 in two variables have ten coefficients: a net's targets are one, noise is none.
    forms = X[:, :1] ** np.arange(10) * X[:, 1:] ** np.arange(9, -1, -1)
    left = {k: np.linalg.norm(y - forms @ np.linalg.lstsq(forms, y)[0]) for k, y in made.items()}
    assert max(left["same widths"], left["smaller net"]) < 1e-10 < 1 < left["noise"]
    # Without one neuron of the widest layer the same draw gives a net of widths 2,2,2,1.
    net = MonomialNetwork(widths, 3)
    again = np.random.default_rng(1)
    weights = [again.standard_normal(shape) for shape in net.shapes]
    small = MonomialNetwork((2, 2, 2, 1), 3).evaluate((weights[0][1:], weights[1][:, 1:], weights[2]), X)
    np.testing.assert_allclose(made["smaller net"], small / np.sqrt(np.mean(small**2)), rtol=1e-12)


def test_runs_are_counted_with_those_that_diverged():
    run = training.train((2, 2, 1), 3, "smaller net", n=10, n_starts=8, n_steps=200, size=0.3, seed=0)
    assert run.label == "2,2,1, starts of size 0.3"
    assert run.end.shape == run.start.shape == (8,)
    some = dataclasses.replace(run, end=np.array([0.05, 5e-3, 5e-4, 0.5, 0.9, np.nan, np.nan, 0.1]))
    assert [some.near(d)[0] for d in (1e-1, 1e-2, 1e-3)] == [4, 2, 1]
    assert some.near(1e-2)[1:] == (0.25, *training.wilson(2, 8))
    kept = np.array([True] * 7 + [False])
    found, _ = training.distances(run.descent.weights, 3, kept)
    assert np.isnan(found[-1])
    np.testing.assert_array_equal(found[:-1], run.end[:-1])


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"widths": "2,1"},
            "`widths` needs three numbers at least (inputs, a hidden layer, outputs): without a hidden layer the net "
            "is linear, and every matrix is reached; got '2,1'.",
        ),
        ({"widths": "2,0,1"}, "`widths` must be at least 1 in every layer; got '2,0,1'."),
        (
            {"widths": "2,two,1"},
            "`widths` must be whole numbers with commas between, such as 2,3,2,1 (inputs, hidden layers, outputs); got "
            "'2,two,1'.",
        ),
        (
            {"widths": 5},
            "`widths` needs three numbers at least (inputs, a hidden layer, outputs): without a hidden layer the net "
            "is linear, and every matrix is reached; got 5.",
        ),
        ({"widths": ()}, "`widths` is empty; give at least one architecture, such as 2,2,2,1."),
        ({"degrees": ()}, "`degrees` is empty; give at least one, a whole number from 2 on."),
        *(
            (
                {name: (value,) if name == "degrees" else value},
                f"`{name}`: a degree must be a whole number of at least 2, the power r of the activation x^r (with r = "
                f"1 the net is linear, and another r gives no polynomial); got {value!r}.",
            )
            for name, value in (("degrees", 1), ("degrees", 2.5), ("degree", 0), ("table_degree", 1))
        ),
        *(
            (
                {"degrees": degrees},
                "`degrees`: a degree must be a whole number of at least 2, the power r of the activation x^r (with r = "
                "1 the net is linear, and another r gives no polynomial); got 'a'.",
            )
            for degrees in (("a",), (3, "a"))
        ),
        (
            {"degrees": (2, 1_000_000)},
            "`degrees`: degrees are at most 1000 here (beyond it exact powers have too many digits, and singular "
            "values leave double precision); got 1000000.",
        ),
        ({"training_sizes": ()}, "`training_sizes` is empty; give at least one, or `training_widths` none."),
        ({"training_sizes": (math.nan,)}, "`training_sizes` must lie between 1e-6 and 1e6; got nan."),
        (
            {"table": "9,9,9,9,1"},
            "`table` 9,9,9,9,1 to degree 9 is a table of 33280 generic ranks, more than 5000; name a smaller "
            "architecture, or a smaller `table_degree`.",
        ),
        ({"training_sizes": (0.0,)}, "`training_sizes` must lie between 1e-6 and 1e6; got 0.0."),
        ({"search_points": 0}, "`search_points` must be a whole number of at least 1; got 0."),
        ({"training_starts": 1}, "`training_starts` must be a whole number of at least 2; got 1."),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        MonomialNetworks(**options)


def test_widths_may_be_text_or_numbers():
    def parsed(**options: Any) -> MonomialNetworks:
        return MonomialNetworks(**options)

    assert parsed(widths=(2, 2, 1)).widths == ("2,2,1",)
    assert parsed(widths=[(2, 2, 1), "2, 3, 1", "2,2,1"]).widths == ("2,2,1", "2,3,1")
    assert parse_architectures("2,2,2,1") == ("2,2,2,1",)
    assert parsed(training_widths="none").training_widths == ()


def test_architectures_with_layers_of_width_one_and_one_input():
    findings = MonomialNetworks(widths=("2,1,1", "2,1,2,1", "1,1,1"), degrees=(3,), **SMALL).check()
    found = {key: outcome for key, outcome in outcomes(findings.verdicts).items() if "," in key[1][:2]}
    assert found["criticality", "2,1,1"] is Outcome.HOLDS
    assert found["criticality", "2,1,2,1"] is Outcome.INCONCLUSIVE
    assert found["subnetworks-critical", "2,1,2,1"] is Outcome.FAILS
    for v in findings.verdicts:
        if v.parametrisation in ("2,1,2,1", "1,1,1"):
            assert v.outside_theorem
    assert findings.not_applicable["below-threshold"] == "no degree lies below the threshold of any architecture"


def test_several_outputs_and_deeper_nets():
    findings = MonomialNetworks(widths=("3,2,2,2", "2,2,2,2,1"), degrees=(3,), **SMALL).check()
    for widths in ("3,2,2,2", "2,2,2,2,1"):
        assert outcomes(findings.verdicts)["subnetworks-critical", widths] is Outcome.HOLDS
    assert findings.not_applicable["criticality-threshold"] == "no threshold is proved for any of these architectures"


def test_an_architecture_that_does_not_fit_is_refused_before_anything_is_run():
    # The message is that of the exact rank, which its own tests match: how large, and what floats can do instead.
    said = r"^widths \(2000, 50, 1\) have 100050 weights: .* takes .* TB, more than `most_bytes` = 2 GB; `float_rank` "
    with pytest.raises(ValueError, match=said):
        MonomialNetworks(widths=("2000,50,1",), degrees=(3,), **SMALL).check()


def test_large_nets_are_searched_less_and_told_so():
    assert searched((4, 4, 4, 1)) == (4000, 8)
    assert searched((10, 10, 1)) == (192, 0)
    options = {**SMALL, "search_points": None, "search_starts": None}
    findings = MonomialNetworks(widths=("10,10,1",), degrees=(19,), **options).check()
    assert findings.notes[1] == (
        "10,10,1: the search looks at 192 whole-numbered nets a degree only; the minimisation of the smallest singular "
        "value takes minutes a start in nets of this size (`--search-starts` asks for it)."
    )


def test_the_same_seed_gives_the_same_verdicts():
    system = MonomialNetworks(widths=("3,3,1",), degrees=(4, 5), seed=7, **SMALL)
    one, two = (json.dumps(plain([v.details for v in system.check().verdicts])) for _ in range(2))
    assert one == two


# Nets of one's own.


def written(path, **matrices):
    np.savez(path, **matrices)
    return str(path)


def test_a_net_of_ones_own_below_and_beyond_the_threshold(tmp_path):
    path = written(tmp_path / "net.npz", W1=COLLINEAR[0], W2=COLLINEAR[1])
    findings = MonomialNetworks(weights=path, degree=3).check()
    (verdict,) = findings.verdicts
    assert (verdict.claim, verdict.parametrisation, verdict.outcome) == ("criticality", "3,3,1", Outcome.FAILS)
    assert findings.notes[:2] == (
        "exact rank 7; generic rank of these widths 9, expected 9: critical.",
        "no subnetwork (exact).",
    )
    (verdict,) = MonomialNetworks(weights=path, degree=5).check().verdicts
    assert verdict.outcome is Outcome.HOLDS


def test_a_subnetwork_of_ones_own(tmp_path):
    rng = np.random.default_rng(0)
    W = [rng.standard_normal(shape) for shape in ((3, 2), (2, 3), (1, 2))]
    W[1][:, 0] = 0
    path = written(tmp_path / "net.npz", W1=W[0], W2=W[1], W3=W[2])
    found = {r: MonomialNetworks(weights=path, degree=r, seed=2).check() for r in (3, 5)}
    assert {r: f.verdicts[0].outcome for r, f in found.items()} == {3: Outcome.FAILS, 5: Outcome.HOLDS}
    assert found[3].verdicts[0].claim == "subnetworks-critical"
    assert found[3].notes[:2] == (
        "exact rank 8; generic rank of these widths 8, expected 9: not critical.",
        "a subnetwork: inactive (zero outgoing column) of layer 1: (0,).",
    )


def test_a_near_redundant_net_of_ones_own(tmp_path):
    path = written(tmp_path / "net.npz", W1=np.array([[1, 1], [1, 1 + 2.0**-30]]), W2=np.ones((1, 2), dtype=np.float32))
    findings = MonomialNetworks(weights=path, table="2,2,1").check()
    assert findings.verdicts[0].outcome is Outcome.HOLDS
    assert findings.notes == (
        "not used with `--weights`: --table.",
        "`W2` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
        "exact rank 4; generic rank of these widths 4, expected 4: not critical.",
        "no subnetwork (exact).",
        "distance to the subnetworks 4.66e-10, nearest: redundant (two proportional incoming rows), layer 1, neurons "
        "(0, 1).",
        "floats alone prove a rank of at least 3; beyond that they are undecided.",
    )


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        (
            {"W1": np.ones((3, 2)), "W2": np.ones((1, 2))},
            "the widths do not chain: `W1` has shape (3, 2) and `W2` has shape (1, 2); `W2` must have 3 columns, one "
            "for each row of `W1`.",
        ),
        (
            {"W1": np.ones((3, 2)), "W3": np.ones((1, 3))},
            "the file must hold the matrices `W1`, `W2`, ... of the layers, two at least, and nothing else; it holds "
            "`W1`, `W3`.",
        ),
        (
            {"W1": np.ones((3, 2)), "W2": np.full((1, 3), np.inf)},
            "`W2[0, 0]` is inf (3 such entries of 3); every entry must be finite.",
        ),
        (
            {"W1": np.ones((0, 2)), "W2": np.ones((1, 0))},
            "`W1` has shape (0, 2): there are no weights in it.",
        ),
    ],
)
def test_files_that_hold_no_net(tmp_path, matrices, message):
    path = written(tmp_path / "net.npz", **matrices)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {message}')}$"):
        MonomialNetworks(weights=path).check()


def test_a_file_that_is_not_there_or_no_archive(tmp_path):
    path = tmp_path / "net.npz"
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: there is no such file.')}$"):
        MonomialNetworks(weights=str(path)).check()
    path.write_text("1,2\n")
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'{path}: this is not an .npz file (it is a text file); write one')}"
    ):
        MonomialNetworks(weights=str(path)).check()


# The page.


def test_the_page_names_claims_and_counter_instances_and_its_code_runs():
    page = (Path(__file__).parents[1] / "docs" / "monomial-networks.md").read_text()
    for name in (*CLAIMS, *COUNTERS):
        assert f"`{name}`" in page
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    assert names["rank"].rank == 7
    assert names["generic"].rank == 9
    assert names["found"].criticality_threshold == 5
    assert outcomes(verdicts_of(names["found"]))["criticality-threshold", "3,3,1"] is Outcome.HOLDS
