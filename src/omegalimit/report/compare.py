"""Records side by side: two of them verdict by verdict, or all of a folder, one row each.

Made from the records alone; nothing is run.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ..claims import Verdict
from ..record import Record, plain
from ..store import Folder
from . import page
from .html import number, render
from .table import folder_words


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A verdict in two records; `None` where one does not have it. `ratio`: second measured over first."""

    claim: str
    where: str
    first: Verdict | None
    second: Verdict | None

    @property
    def flipped(self) -> bool:
        """True when the outcomes differ, or one record lacks the verdict."""
        return self.first is None or self.second is None or self.first.outcome is not self.second.outcome

    @property
    def ratio(self) -> float:
        if self.first is None or self.second is None or self.first.measured == 0:
            return math.nan
        return self.second.measured / self.first.measured


def comparison(records: Sequence[Record] | Folder) -> str:
    """The page of two records side by side, or of all records of a folder.

    Raises `ValueError` when there are not two records, or the folder has none.
    """
    if isinstance(records, Folder):
        return _folder(records)
    if len(records) != 2:
        raise ValueError(f"two records are compared side by side; got {len(records)}.")
    first, second = records
    pairs = _pairs(first, second)
    flipped = [pair for pair in pairs if pair.flipped]
    return render(
        "compare.html",
        first=first,
        second=second,
        answer=_answer(first, second, pairs, flipped),
        pairs=[*flipped, *(pair for pair in pairs if not pair.flipped)],
        settings=_differences(first.settings, second.settings),
        versions=_differences(first.versions, second.versions),
        threads=_differences(first.threads, second.threads),
        figures=_figures(first, second),
        number=number,
    )


def _pairs(first: Record, second: Record) -> list[Pair]:
    def named(record: Record) -> dict[tuple[str, str, str], Verdict]:
        return {(v.claim, v.parametrisation, v.loss): v for v in record.verdicts}

    one, other = named(first), named(second)
    return [
        Pair(claim=key[0], where=key[1], first=one.get(key), second=other.get(key))
        for key in dict.fromkeys([*one, *other])
    ]


def _answer(first: Record, second: Record, pairs: Sequence[Pair], flipped: Sequence[Pair]) -> str:
    if first.system != second.system:
        return f"Two systems, {first.system} and {second.system}: only what they share can be compared."
    if not flipped:
        return f"All {len(pairs)} verdicts have the same outcome in both."
    return f"{len(flipped)} of {len(pairs)} verdicts differ in outcome, or are in one record only."


def _differences(first: Any, second: Any) -> list[tuple[str, str, str]]:
    one, other = plain(first), plain(second)
    names = dict.fromkeys([*one, *other])
    missing = object()

    def told(side: dict[str, Any], name: str) -> str:
        return str(side[name]) if name in side else "not there"

    return [
        (name, told(one, name), told(other, name))
        for name in names
        if one.get(name, missing) != other.get(name, missing)
    ]


def _figures(first: Record, second: Record) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """Name, title, and the figure in each record that has it."""
    made = [
        {name: rest for name, *rest in page.figures_of(record, prefix=f"{letter}-")}
        for letter, record in (("a", first), ("b", second))
    ]
    found = []
    for name in dict.fromkeys([*made[0], *made[1]]):
        sides = [(letter, side[name][1]) for letter, side in zip("AB", made, strict=True) if name in side]
        title = next(side[name][0] for side in made if name in side)
        found.append((name, title, sides))
    return found


def _folder(folder: Folder) -> str:
    cells = folder.cells
    if not cells:
        raise ValueError(f"there is no record in {str(folder.path)!r} to compare.")
    systems = []
    for system in dict.fromkeys(cell.system for cell in cells):
        mine = [cell for cell in cells if cell.system == system]
        claims = list(dict.fromkeys((row[0], row[1]) for cell in mine for row in cell.rows))
        rows = []
        for cell in mine:
            found = {(row[0], row[1]): row for row in cell.rows}
            outcomes = [(found[c][4], number(found[c][5]), number(found[c][6])) if c in found else None for c in claims]
            linked = (cell.path / page.NAME).exists()
            rows.append((cell, f"{cell.path.name}/{page.NAME}" if linked else None, _changed(cell), outcomes))
        systems.append((system, claims, rows))
    n_fails = sum(row[4] == "fails" for cell in cells for row in cell.rows)
    return render(
        "folder.html",
        folder=folder,
        systems=systems,
        words=folder_words(folder),
        answer=f"{n_fails or 'No'} {'verdict fails' if n_fails < 2 else 'verdicts fail'} in {len(cells)} records.",
    )


def _changed(cell: Any) -> str:
    """What the record's command says beyond the system's name."""
    return " ".join(cell.command[2:]) if cell.command else ""
