"""Generic rank against expected rank, for many architectures and degrees."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from .._checks import check_count
from ..models.monomial import check_degree, check_widths
from ._rank_generic import GenericRank, expected_rank, generic_rank


@dataclasses.dataclass(frozen=True)
class RankTable:
    """`ranks[widths, degree]` for every architecture of `architectures` and every degree of `degrees`, ascending."""

    architectures: tuple[tuple[int, ...], ...]
    degrees: tuple[int, ...]
    ranks: dict[tuple[tuple[int, ...], int], GenericRank]

    def expected(self, widths: Sequence[int], degree: int, *, capped: bool = True) -> int:
        """The expected rank of an entry."""
        return expected_rank(widths, degree, capped=capped)

    def defective(self, *, capped: bool = True) -> tuple[tuple[tuple[int, ...], int], ...]:
        """The entries whose generic rank is not the expected one."""
        return tuple(key for key, found in self.ranks.items() if found.rank != self.expected(*key, capped=capped))

    def threshold(self, widths: Sequence[int], *, capped: bool = True) -> int | None:
        """The least degree from which on the generic rank is the expected one, up to the largest of the table.

        `None` where it is not even there. Without the cap: the least degree from which the rescalings are all that is
        lost. Raises `ValueError` for widths that are not in the table.
        """
        found, least = check_widths(widths), None
        if found not in self.architectures:
            raise ValueError(
                f"`widths` = {found} is not in the table, which goes from "
                f"{self.architectures[0]} to {self.architectures[-1]}; `rank_table` takes larger `max_widths`."
            )
        for degree in reversed(self.degrees):
            if self.ranks[found, degree].rank != self.expected(found, degree, capped=capped):
                break
            least = degree
        return least

    @property
    def proved(self) -> bool:
        """Whether every entry is proved."""
        return all(found.proved for found in self.ranks.values())

    @property
    def failure_probability(self) -> float:
        """A bound on the probability that any entry is wrong."""
        return min(1.0, sum(found.failure_probability for found in self.ranks.values()))


def rank_table(
    max_widths: Sequence[int] = (4, 4, 4, 1),
    degrees: Iterable[int] = range(2, 10),
    *,
    shallow: bool = True,
    seed: int = 0,
) -> RankTable:
    """The generic ranks for all widths from 2 to `max_widths`, with as many outputs as its last entry says.

    - `shallow`: also the networks with one hidden layer, of the first two widths.
    """
    if isinstance(max_widths, (str, bytes)) or not isinstance(max_widths, (Sequence, np.ndarray)):
        raise TypeError(f"`max_widths` must be a sequence of integers such as (4, 4, 4, 1); got {max_widths!r}.")
    if isinstance(degrees, (str, bytes)) or not isinstance(degrees, Iterable):
        raise TypeError(f"`degrees` must be integers, such as range(2, 10); got {degrees!r}.")
    most = tuple(check_count(width, f"max_widths[{i}]", least=1) for i, width in enumerate(max_widths))
    if len(most) < 3:
        raise ValueError(f"`max_widths` must name inputs, hidden layers and outputs, as in (4, 4, 4, 1); got {most}.")
    powers = tuple(sorted({check_degree(degree) for degree in degrees}))
    if not powers:
        raise ValueError("`degrees` is empty; give at least one power of at least 2.")
    shapes = [most[:-1]]
    if shallow and len(most) > 3:
        shapes.insert(0, most[:2])
    architectures = tuple(
        (*widths, most[-1])
        for shape in shapes
        for widths in itertools.product(*(range(min(2, width), width + 1) for width in shape))
    )
    ranks = {(widths, degree): generic_rank(widths, degree, seed=seed) for widths in architectures for degree in powers}
    return RankTable(architectures, powers, ranks)
