"""Counter-instances of `monomial_networks`: each breaks one assumption and names what must not hold."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Verdict
from .._counters import counters_of
from .._system import Counter
from ._monomial_architecture import Architecture, at_degree, judged, study
from ._monomial_claims import (
    below_threshold,
    criticality,
    criticality_threshold_verdict,
    generic_rank_verdict,
    subnetworks_critical,
)
from ._monomial_separation import conditioning, near_redundant, shallow_pair, sweep
from ._monomial_shallow import shallow_cases, shallow_rank_verdict
from ._monomial_table import entry

if TYPE_CHECKING:
    from .monomial_networks import MonomialNetworks

    Check = Callable[[MonomialNetworks], list[Verdict]]

N_WHOLE, N_STARTS = 3000, 8
"""Of a search in a counter-instance."""
COLLINEAR = (np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]]), np.array([[1, 1, 1]]))
"""Widths (3, 3, 1): rows in one plane, no two proportional, no outgoing weight zero."""
PAIRS = range(2, 40)
"""Separations 2^-k of the near-redundant nets."""


def counters(system: "MonomialNetworks") -> Mapping[str, Counter]:
    """Every counter-instance, from the system's seed."""
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Check]] = {
        "collinear-rows": (
            "three rows of three inputs lie in one plane, and the degree is 3, below 2h - 1 = 5: a critical point that "
            "is no subnetwork",
            (("criticality", "3,3,1, r = 3"), ("criticality", "3,3,1, rows e1, e2, e1 + e2, r = 3")),
            collinear_rows,
        ),
        "low-degree": (
            "widths 2,3,2,1 at degree 3: the generic rank is below the expected one, and a neuron without outgoing "
            "weights is not critical",
            (("subnetworks-critical", "2,3,2,1"), ("generic-rank", "2,3,2,1, r = 3")),
            low_degree,
        ),
        "no-cap": (
            "the expected rank is taken without its cap, the dimension of the space of forms: widths 2,2,2,1, degree 2",
            (("generic-rank", "2,2,2,1, r = 2, no cap"),),
            no_cap,
        ),
        "bottleneck": (
            "a hidden layer of width one before a wider one: its rows are always proportional",
            (
                ("generic-rank", "2,1,2,1"),
                ("subnetworks-critical", "2,1,2,1"),
                ("criticality", "2,1,2,1"),
            ),
            bottleneck,
        ),
        "floats-alone": (
            "the rank of near-redundant neurons is judged by singular values alone",
            (("near-redundant", "2,2,1, r = 3"),),
            floats_alone,
        ),
        "truly-redundant": (
            "the separation of the two rows is zero: they are proportional",
            (("near-redundant", "2,2,1, r = 3"),),
            truly_redundant,
        ),
        "degree-two": (
            "the exponent of the smallest singular value is judged in degree 2, where two rows span three dimensions",
            (("conditioning", "2,2,1, r = 2"),),
            degree_two,
        ),
        "proportional-rows": (
            "two rows are proportional, and the shallow formula counts both",
            (("shallow-rank", "two proportional rows"),),
            proportional_rows,
        ),
        "three-inputs": (
            "the formula for two inputs is applied to nets with three",
            (("shallow-rank", "three inputs"),),
            three_inputs,
        ),
        "late-threshold": (
            "the threshold of widths 2,3,1 is said to be 6, one more than the proved one",
            (("criticality-threshold", "2,3,1"), ("below-threshold", "2,3,1")),
            late_threshold,
        ),
    }
    return counters_of(system, made, own=type(system)(seed=system.seed), what="nets", option="weights", noun="nets")


def alone(widths: tuple[int, ...], degree: int, system: "MonomialNetworks") -> Architecture:
    """An architecture at one degree."""
    at = at_degree(widths, degree, n_whole=N_WHOLE, n_starts=N_STARTS, seed=system.seed)
    return Architecture(widths=widths, degrees=(at,))


def collinear_rows(system: "MonomialNetworks") -> list[Verdict]:
    """Found by the search and given as it stands, at degree 3; and at degree 5, where it holds."""
    verdicts = []
    for r in (3, 5):
        found = alone((3, 3, 1), r, system)
        bare = Architecture(
            widths=found.widths, degrees=(dataclasses.replace(found.degrees[0], search=None, others=()),)
        )
        given = ((r, judged(COLLINEAR, r)),)
        verdicts += [
            criticality(found, degrees=found.degrees, label=f"3,3,1, r = {r}"),
            criticality(bare, degrees=bare.degrees, given=given, label=f"3,3,1, rows e1, e2, e1 + e2, r = {r}"),
        ]
    return verdicts


def low_degree(system: "MonomialNetworks") -> list[Verdict]:
    """Generic rank 8 in place of 9, and 8 without the outgoing weights of a neuron of layer 1."""
    found = alone((2, 3, 2, 1), 3, system)
    entries = [entry((2, 3, 2, 1), 3, seed=system.seed)]
    return [
        subnetworks_critical(found, degrees=found.degrees),
        generic_rank_verdict(entries, "2,3,2,1, r = 3", from_degree=2),
    ]


def no_cap(system: "MonomialNetworks") -> list[Verdict]:
    """With the cap it holds."""
    entries = [entry((2, 2, 2, 1), 2, seed=system.seed)]
    return [
        generic_rank_verdict(entries, "2,2,2,1, r = 2, no cap", capped=False, from_degree=2),
        generic_rank_verdict(entries, "2,2,2,1, r = 2", from_degree=2),
    ]


def bottleneck(system: "MonomialNetworks") -> list[Verdict]:
    """At the degrees from 2h - 1 = 3 to 6."""
    widths, degrees = (2, 1, 2, 1), range(3, 7)
    found = study(widths, degrees, n_whole=N_WHOLE, n_starts=N_STARTS, seed=system.seed)
    entries = [entry(widths, r, seed=system.seed) for r in degrees]
    return [generic_rank_verdict(entries, "2,1,2,1"), subnetworks_critical(found), criticality(found)]


def floats_alone(system: "MonomialNetworks") -> list[Verdict]:
    """The same nets as in the default run."""
    return [near_redundant(sweep(shallow_pair, 3, PAIRS, label="2,2,1, r = 3", seed=system.seed), by="float")]


def truly_redundant(system: "MonomialNetworks") -> list[Verdict]:
    """At the separations 0 and 1/4: the first contradicts."""
    found = sweep(lambda e: shallow_pair(0.0 if e < 0.25 else e), 3, (2, 3), label="2,2,1, r = 3", seed=system.seed)
    return [near_redundant(found)]


def degree_two(system: "MonomialNetworks") -> list[Verdict]:
    """The exponent is 1."""
    return [conditioning(sweep(shallow_pair, 2, PAIRS, label="2,2,1, r = 2", seed=system.seed))]


def proportional_rows(system: "MonomialNetworks") -> list[Verdict]:
    """`min(2h, r + 1)` with h the number of rows, at degrees that leave room."""

    def draw(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        rows = rng.integers(1, 10, size=(n, d))
        rows[1] = -2 * rows[0]
        return rows

    cases = shallow_cases((2, 3), range(6, 10), seed=system.seed, draw=draw, formula=two_inputs)
    return [shallow_rank_verdict(cases, "two proportional rows")]


def three_inputs(system: "MonomialNetworks") -> list[Verdict]:
    """The rank is h d = 3h there."""
    cases = shallow_cases((2, 3), range(6, 10), seed=system.seed, d=3, formula=two_inputs)
    return [shallow_rank_verdict(cases, "three inputs")]


def two_inputs(rows: np.ndarray, degree: int) -> int:
    """`min(2h, r + 1)`, whatever the rows are."""
    return min(2 * len(rows), degree + 1)


def late_threshold(system: "MonomialNetworks") -> list[Verdict]:
    """At degree 5 nothing refutes any more."""
    found = study((2, 3, 1), range(2, 8), n_whole=N_WHOLE, n_starts=N_STARTS, seed=system.seed)
    below = below_threshold(found, threshold=6)
    assert below is not None
    return [criticality_threshold_verdict(found, 6, "one too many"), below]
