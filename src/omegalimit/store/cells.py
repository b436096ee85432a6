"""The cells of a folder: a record without its arrays and details, or a failure with its reason; and their files."""

import dataclasses
import functools
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..claims import Assumption, Kind, Verdict
from ..record import PARTIAL, Record, plain, read

SCHEMA = 1
"""The version of the layout of `sweep.json` and of the failures."""

ROW = (
    *("claim", "parametrisation", "loss", "kind", "outcome", "measured", "bound", "slack", "unit"),
    *("undecided", "outside_theorem", "assumptions", "conditions"),
)
"""What stands in a row of the index: a verdict without its details; numbers that are not finite are `None`."""

_CELL_FIELDS = ("key", "system", "settings", "seed", "cpu_seconds", "wall_seconds", "started", "versions", "command")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One record of a folder, without its arrays and details.

    `key`: its folder's name; `rows`: the verdicts as the index keeps them, in the order of `ROW`; `verdicts`: the same
    as objects, judged again, without `details`. The other fields are those of `Record`.
    """

    key: str
    path: Path
    system: str
    settings: Mapping[str, Any]
    seed: int | None
    rows: Sequence[Sequence[Any]] = dataclasses.field(repr=False)
    cpu_seconds: float | None
    wall_seconds: float | None
    started: str
    versions: Mapping[str, str | None]
    command: tuple[str, ...] | None = None

    @functools.cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(map(_verdict_of_row, self.rows))

    def open(self) -> Record:
        """The whole record, with its arrays."""
        return read(self.path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A cell that gave no verdict, and why.

    - `kind`: "raised" (the check raised an error), "worker lost", or "too slow".
    - `error`, `message`, `traceback`: the error's class, what it said, and where it was raised.
    - `where`: the worker; `started`: UTC; `wall_seconds`: how long it ran.
    """

    key: str
    system: str
    settings: Mapping[str, Any]
    seed: int | None
    kind: str
    error: str
    message: str
    traceback: str
    where: str
    started: str
    wall_seconds: float | None
    versions: Mapping[str, str | None]
    command: tuple[str, ...] | None = None

    @property
    def reason(self) -> str:
        """One line: what happened."""
        said = " ".join(self.message.split())
        return f"{self.error}: {said}" if said else self.error


def cell_of(record: Record) -> Cell:
    fields = {name: getattr(record, name) for name in _CELL_FIELDS if name != "key"}
    return Cell(key=record.path.name, path=record.path, rows=tuple(map(_row_of, record.verdicts)), **fields)


def _row_of(v: Verdict) -> list[Any]:
    parts = [[plain(list(dataclasses.astuple(a))) for a in part] for part in (v.assumptions, v.conditions)]
    return [
        *(v.claim, v.parametrisation, v.loss, v.kind.value, v.outcome.value),
        *(plain(v.measured), plain(v.bound), plain(v.slack), v.unit, v.undecided, v.outside_theorem, *parts),
    ]


def _verdict_of_row(row: Sequence[Any]) -> Verdict:
    claim, where, loss, kind, outcome, measured, bound, slack, unit, undecided, _, *parts = row
    assumptions, conditions = (tuple(Assumption(name=n, holds=h, measured=m) for n, h, m in part) for part in parts)
    verdict = Verdict(
        claim=claim,
        parametrisation=where,
        loss=loss,
        kind=Kind(kind),
        measured=math.nan if measured is None else measured,
        bound=math.nan if bound is None else bound,
        slack=math.inf if slack is None else slack,
        unit=unit,
        undecided=undecided,
        assumptions=assumptions,
        conditions=conditions,
    )
    if verdict.outcome.value != outcome:
        raise ValueError(f"the verdict on {claim!r} is kept as {outcome!r}, but its numbers say {verdict.outcome!r}")
    return verdict


def cell_to_json(cell: Cell) -> dict[str, Any]:
    return {**{name: plain(getattr(cell, name)) for name in _CELL_FIELDS}, "rows": cell.rows}


def cell_from_json(line: Mapping[str, Any], key: str, path: Path) -> Cell:
    rows, command = line["rows"], line["command"]
    if any(len(row) != len(ROW) for row in rows):
        raise ValueError("its line in the index is damaged")
    fields = {name: line[name] for name in _CELL_FIELDS if name not in ("key", "command")}
    return Cell(key=key, path=path, rows=rows, command=None if command is None else tuple(command), **fields)


def numbered(cell: Cell) -> Iterator[tuple[tuple[str, str, str, int], Sequence[Any]]]:
    """The rows, each with its claim, parametrisation and loss, and how many of the same were before it."""
    seen: dict[tuple[str, str, str], int] = {}
    for row in cell.rows:
        name = (row[0], row[1], row[2])
        seen[name] = seen.get(name, -1) + 1
        yield (*name, seen[name]), row


def setting_name(name: str, taken: Iterable[str]) -> str:
    """The setting's name, told apart from what stands beside it."""
    return f"setting_{name}" if name in taken else name


def cell_value(value: Any) -> Any:
    """A setting as one value of a table: numbers, truth and text as they are, anything else as JSON text."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(plain(value))


def write_failure(folder: Path, failure: Failure) -> Path:
    """Write the failure into `folder`/failures, over an earlier one of the same cell."""
    place = folder / "failures"
    place.mkdir(parents=True, exist_ok=True)
    document = {"schema": SCHEMA, **plain(failure)}
    return write_text(place / f"{failure.key}.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_failure(path: Path) -> Failure:
    """Read one failure. Raises `ValueError` when the file is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.pop("schema", None) != SCHEMA:
            raise ValueError("it is of another version, or omegalimit did not write it")
        command = document.pop("command", None)
        return Failure(**document, command=None if command is None else tuple(command))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the failure in {path.name!r} cannot be read: {error}") from None


def read_failures(folder: Path, damaged: dict[str, str] | None = None) -> dict[str, Failure]:
    """The failures of a sweep's folder by key; those that cannot be read go to `damaged`, with the reason."""
    damaged = {} if damaged is None else damaged
    inside, found = folder / "failures", {}
    for file in sorted(inside.glob("*.json")) if inside.is_dir() else ():
        if file.name.startswith("."):
            continue
        try:
            failure = read_failure(file)
            found[failure.key] = failure
        except ValueError as error:
            damaged[file.name] = str(error)
    return found


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all, and onto the disk. Raises `OSError` when the disk refuses."""

    def put(place: Path) -> None:
        with place.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    return replace(path, put)


def replace(path: Path, put: Any) -> Path:
    """Have `put` write a file beside `path` and put it into its place."""
    partial = path.with_name(f".{path.name}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        put(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return path
