"""The table of generic against expected ranks, and the threshold of every architecture in it."""

import dataclasses
import itertools
from collections.abc import Sequence

from ...rigorous.jacobian_rank import GenericRank, expected_rank, generic_rank
from ._monomial_widths import enough


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One architecture at one degree. `uncapped`: the expected rank without the dimension of the space of forms."""

    widths: tuple[int, ...]
    degree: int
    generic: GenericRank
    expected: int
    uncapped: int


def rank_entries(largest: Sequence[int], degrees: Sequence[int], *, seed: int, least: int = 2) -> list[Entry]:
    """Every architecture with inputs and hidden layers from `least` up to `largest`, and the outputs of `largest`."""
    inner = [range(min(least, most), most + 1) for most in largest[:-1]]
    return [entry((*widths, largest[-1]), r, seed=seed) for widths in itertools.product(*inner) for r in degrees]


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
