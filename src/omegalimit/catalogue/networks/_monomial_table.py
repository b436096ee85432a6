"""The table of generic against expected ranks, and the threshold of every architecture in it."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

from ...rigorous.jacobian_rank import GenericRank, expected_rank, generic_rank
from .._system import Progress, silent
from ._monomial_widths import enough, text_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One architecture at one degree. `uncapped`: the expected rank without the dimension of the space of forms."""

    widths: tuple[int, ...]
    degree: int
    generic: GenericRank
    expected: int
    uncapped: int


def architectures(largest: Sequence[int], *, least: int = 2) -> Iterator[tuple[int, ...]]:
    """Every one with inputs and hidden layers from `least` up to `largest`, and the outputs of `largest`."""
    inner = [range(min(least, most), most + 1) for most in largest[:-1]]
    return ((*widths, largest[-1]) for widths in itertools.product(*inner))


def n_entries(largest: Sequence[int], n_degrees: int) -> int:
    """How many entries `rank_entries` makes, counted without making any."""
    return n_degrees * math.prod(max(1, most - 1) for most in largest[:-1])


def rank_entries(
    largest: Sequence[int], degrees: Sequence[int], *, seed: int, progress: Progress = silent
) -> list[Entry]:
    """Every architecture up to `largest` at every degree."""
    found, n = [], n_entries(largest, len(degrees))
    for widths in architectures(largest):
        progress(f"generic ranks, {text_of(widths)}, {len(found)} of {n} are done", len(found) / n)
        found += [entry(widths, r, seed=seed) for r in degrees]
    return found


def entry(widths: tuple[int, ...], degree: int, *, seed: int) -> Entry:
    return Entry(
        widths=widths,
        degree=degree,
        generic=generic_rank(widths, degree, seed=seed),
        expected=expected_rank(widths, degree),
        uncapped=expected_rank(widths, degree, capped=False),
    )


def thresholds(entries: Sequence[Entry]) -> dict[tuple[int, ...], int | None]:
    """For each architecture the least degree in the table from which on generic is expected; `None` where none is."""
    found: dict[tuple[int, ...], int | None] = {}
    for widths in dict.fromkeys(e.widths for e in entries):
        own = sorted((e.degree, e.generic.rank != e.expected) for e in entries if e.widths == widths)
        last = max((k for k, (_, broken) in enumerate(own) if broken), default=-1)
        found[widths] = own[last + 1][0] if last + 1 < len(own) else None
    return found


def beyond_enough(entries: Sequence[Entry]) -> dict[tuple[int, ...], int]:
    """The architectures whose threshold exceeds 2h - 1; none are known."""
    return {w: r for w, r in thresholds(entries).items() if r is not None and r > enough(w)}
