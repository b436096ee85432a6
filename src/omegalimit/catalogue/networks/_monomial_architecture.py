"""One architecture of `monomial_networks`, degree by degree: its subnetworks' ranks, and a search for others.

A parameter is critical where the differential of weights -> coefficients has a rank below the generic one. "Critical
exactly at subnetworks" is refuted in two ways, each by one exact rank: a subnetwork whose rank is the generic one, and
a critical parameter that is no subnetwork. Every rank here has a lower and an upper bound in exact arithmetic.

A subnetwork kind is judged at one random whole-numbered point of it. A rank there that is the generic one proves that
the kind is not critical. A rank below it, whose upper bound comes from null vectors that are known by formula, proves
the whole kind critical: the same formulas give as many independent null vectors at almost all points of the kind, and a
rank is never larger at the others. Where null vectors were found for the one point only, the kind is critical unless
the point is one of a set of measure zero.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...models.subnetworks import SubnetworkKind, subnetwork, subnetwork_kinds
from ...rigorous.jacobian_rank import GenericRank, JacobianRank, expected_rank, generic_rank, jacobian_rank
from .._system import Progress, silent
from ._monomial_known import known_candidates
from ._monomial_search import SearchResult, search_critical
from ._monomial_widths import text_of, widening

ENTRIES = 999
"""Random weights are whole numbers up to this, without zero."""

WHOLE, STARTS, SMALL = 4000, 8, 40
"""What a search looks at where nothing is asked for: so many whole-numbered nets and so many starts, in nets of up to
so many weights. In larger ones the whole-numbered nets become fewer, none beyond some 350 weights, and nothing is
minimised: a start takes minutes.
"""

STEEP = 600
"""Nothing is minimised where the outputs are forms of a larger degree: singular values are then at rounding whatever
the weights are, or powers of cosines leave double precision."""
WITNESSES = 3
"""A search stops deciding when it has so many, or one where theory names another: one refutes."""

Weights = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class JudgedPoint:
    """A parameter with its exact rank, and the subnetwork kind and layer that it was made for, if any."""

    weights: Weights
    rank: JacobianRank
    kind: SubnetworkKind | None = None
    layer: int | None = None

    def critical(self, generic: int) -> bool | None:
        """Whether the rank is below `generic`; `None` where its bounds leave that open."""
        return True if self.rank.upper < generic else False if self.rank.lower >= generic else None

    @property
    def by_formula(self) -> bool:
        """Whether the upper bound of the rank comes from null vectors that the whole kind has."""
        return self.rank.proof == "null vectors known by formula"

    @property
    def name(self) -> str:
        """Such as `inactive (zero incoming row), layer 1`."""
        return "no subnetwork" if self.kind is None else f"{self.kind.value}, layer {self.layer}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AtDegree:
    """An architecture at one degree: generic and expected rank, each subnetwork kind, what the search found.

    `others`: critical parameters that are no subnetworks, named by theory or found by the search, each judged here and
    not taken on trust. `named_open`: how many that theory names have a rank that is not proved.
    """

    widths: tuple[int, ...]
    degree: int
    generic: GenericRank
    expected: int
    kinds: tuple[JudgedPoint, ...]
    search: SearchResult | None = None
    others: tuple[JudgedPoint, ...] = ()
    named_open: int = 0

    @property
    def noncritical(self) -> tuple[JudgedPoint, ...]:
        """Subnetwork kinds that are proved to have the generic rank."""
        return tuple(point for point in self.kinds if point.critical(self.generic.rank) is False)

    @property
    def undecided(self) -> tuple[JudgedPoint, ...]:
        """Subnetwork kinds whose rank has bounds on both sides of the generic one."""
        return tuple(point for point in self.kinds if point.critical(self.generic.rank) is None)

    @property
    def refuted(self) -> bool:
        """True where "critical exactly at subnetworks" has an exact witness against it."""
        return bool(self.noncritical or self.others)

    @property
    def defective(self) -> bool:
        """True where the generic rank is not the expected one."""
        return self.generic.rank != self.expected


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """One architecture at all degrees, in rising order."""

    widths: tuple[int, ...]
    degrees: tuple[AtDegree, ...]

    @property
    def label(self) -> str:
        return text_of(self.widths)

    @property
    def searched(self) -> dict[int, tuple[int, int]]:
        """By degree: how many whole-numbered nets were decided in a search, and how many starts were minimised."""
        return {at.degree: (at.search.n_tried, at.search.n_starts) for at in self.degrees if at.search is not None}

    @property
    def always_redundant(self) -> bool:
        """True where every net of these widths is a subnetwork: a layer of width one before a wider one."""
        return widening(self.widths) is not None

    @property
    def criticality_place(self) -> "Place":
        """Where "critical exactly at subnetworks" begins, as far as these degrees show."""
        return Place.of([(at.degree, at.refuted) for at in self.degrees])

    @property
    def generic_place(self) -> "Place":
        """Where the generic rank begins to be the expected one."""
        return Place.of([(at.degree, at.defective) for at in self.degrees])

    @property
    def criticality_threshold(self) -> int | None:
        """The least degree from which on nothing refutes; `None` where the degrees do not bracket it."""
        return self.criticality_place.exact

    @property
    def generic_threshold(self) -> int | None:
        """The least degree from which on the generic rank is the expected one; `None` as above."""
        return self.generic_place.exact


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a property begins to hold: after the degree `last` at which it is broken, at or before the degree `first`.

    `last` is `None` where it is broken at no degree, `first` where it is broken at the largest.
    """

    last: int | None
    first: int | None

    @classmethod
    def of(cls, broken: Sequence[tuple[int, bool]]) -> "Place":
        """From rising degrees, each with whether it is broken there."""
        k = max((k for k, (_, is_broken) in enumerate(broken) if is_broken), default=-1)
        return cls(broken[k][0] if k >= 0 else None, broken[k + 1][0] if k + 1 < len(broken) else None)

    @property
    def exact(self) -> int | None:
        """The least degree, where no degree between is left out (2 is the least there is)."""
        return self.first if self.first == (1 if self.last is None else self.last) + 1 else None

    @property
    def text(self) -> str:
        """Such as `from 5 on`.

        >>> Place(4, 5).text, Place(None, 2).text, Place(None, 7).text
        ('from 5 on', 'from 2 on', 'at or before 7')
        >>> Place(2, 7).text, Place(7, None).text
        ('from a degree after 2 on, at or before 7', 'from some degree beyond 7 on')
        """
        if self.first is None:
            return f"from some degree beyond {self.last} on"
        if self.exact is not None:
            return f"from {self.first} on"
        if self.last is None:
            return f"at or before {self.first}"
        return f"from a degree after {self.last} on, at or before {self.first}"


def n_weights(widths: Sequence[int]) -> int:
    """How many weights a net of these widths has."""
    return sum(a * b for a, b in itertools.pairwise(widths))


def searched(widths: Sequence[int]) -> tuple[int, int]:
    """How many whole-numbered nets and how many starts a search of these widths looks at, where none are asked for."""
    n = n_weights(widths)
    if n <= SMALL:
        return WHOLE, STARTS
    n_whole = round(WHOLE * (SMALL / n) ** 3)  # the work of each is that of an elimination
    return (n_whole if n_whole >= 6 else 0), 0


def is_steep(widths: Sequence[int], degree: int) -> bool:
    """Whether nothing is minimised at this degree, see `STEEP`."""
    return degree ** (len(widths) - 2) > STEEP


def study(
    widths: tuple[int, ...],
    degrees: Sequence[int],
    *,
    n_whole: int | None,
    n_starts: int | None,
    seed: int,
    progress: Progress = silent,
) -> Architecture:
    """The architecture at each of these degrees. What is `None` is as `searched` says."""
    usual, found = searched(widths), []
    n_whole, n_starts = (own if own is not None else n for own, n in zip((n_whole, n_starts), usual, strict=True))
    for k, degree in enumerate(sorted(degrees)):

        def part(text: str, fraction: float, k: int = k) -> None:
            progress(text, (k + fraction) / len(degrees))

        found.append(at_degree(widths, degree, n_whole=n_whole, n_starts=n_starts, seed=seed, progress=part))
    return Architecture(widths=widths, degrees=tuple(found))


def at_degree(
    widths: tuple[int, ...], degree: int, *, n_whole: int, n_starts: int, seed: int, progress: Progress = silent
) -> AtDegree:
    """Generic rank, subnetwork kinds and search at one degree; nothing is minimised where `is_steep`."""
    label = f"{text_of(widths)}, r = {degree}"
    progress(label, 0.0)
    generic = generic_rank(widths, degree, seed=seed)
    rng = np.random.default_rng([seed, degree, *widths])
    kinds = tuple(judged_kinds(widths, degree, rng, lambda text, part: progress(f"{label}, {text}", 0.1 + 0.4 * part)))
    progress(f"{label}, search", 0.5)
    named = [judged(weights, degree) for weights in known_candidates(widths, degree)]
    witnesses = tuple(point for point in named if point.kind is None and point.critical(generic.rank))
    search = search_critical(
        widths,
        degree,
        n_whole=n_whole,
        n_starts=0 if is_steep(widths, degree) else n_starts,
        most_decided=1 if witnesses else WITNESSES,
        seed=seed,
    )
    return AtDegree(
        widths=widths,
        degree=degree,
        generic=generic,
        expected=expected_rank(widths, degree),
        kinds=kinds,
        search=search,
        others=(
            *confirmed([point.weights for point in search.critical], degree, generic.rank),
            *witnesses,
        ),
        named_open=sum(point.kind is None and point.critical(generic.rank) is None for point in named),
    )


def confirmed(found: Sequence[Weights], degree: int, generic: int) -> tuple[JudgedPoint, ...]:
    """Those of the parameters whose exact rank is below the generic one and that are exactly no subnetwork."""
    points = [judged(weights, degree) for weights in found]
    return tuple(point for point in points if point.kind is None and point.critical(generic))


def judged_kinds(
    widths: tuple[int, ...], degree: int, rng: np.random.Generator, progress: Progress = silent
) -> list[JudgedPoint]:
    """Each kind of subnetwork in each hidden layer that can have it, at a random point of it.

    Redundant rows are opposite: rescaling a neuron, which changes no rank, makes all proportional rows so, and the
    powers of other factors would have thousands of digits.
    """
    found = []
    for layer in range(1, len(widths) - 1):
        for kind in SubnetworkKind:
            redundant = kind is SubnetworkKind.REDUNDANT
            if redundant and widths[layer] < 2:
                continue
            progress(f"{kind.value}, layer {layer}", (layer - 1) / (len(widths) - 2))
            weights = random_weights(widths, rng)
            made = subnetwork(weights, kind, layer, (0, 1) if redundant else 0, factor=-1 if redundant else 1)
            found.append(JudgedPoint(weights=made, rank=jacobian_rank(made, degree), kind=kind, layer=layer))
    return found


def judged(weights: Weights, degree: int) -> JudgedPoint:
    """A parameter with its exact rank, and the first reason for which it is a subnetwork, if there is one."""
    kinds = subnetwork_kinds(weights)
    return JudgedPoint(
        weights=weights,
        rank=jacobian_rank(weights, degree),
        kind=kinds[0].kind if kinds else None,
        layer=kinds[0].layer if kinds else None,
    )


def random_weights(
    widths: Sequence[int], rng: np.random.Generator, *, entries: int = ENTRIES
) -> tuple[np.ndarray, ...]:
    """Whole numbers without zero, between -entries and entries."""
    shapes = list(zip(widths[1:], widths[:-1], strict=True))
    return tuple(rng.integers(1, entries + 1, size=s) * rng.choice([-1, 1], size=s) for s in shapes)


def plain_weights(weights: Weights) -> list[Any]:
    """Matrices as nested lists of numbers and text (`1/3`), for JSON."""
    return [
        [[x if isinstance(x, int | float) else str(x) for x in row] for row in np.asarray(W).tolist()] for W in weights
    ]
