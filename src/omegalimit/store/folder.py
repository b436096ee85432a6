"""A folder of records as one thing: what is there, what failed, what is missing; one table, one dataset.

The folder is that of a sweep (`sweep.json`, `cells/KEY/`, `failures/KEY.json`), or any folder with records in it. The
index `index.jsonl` is a cache of one line a cell, so that ten thousand cells are listed without opening ten thousand
files: a line is believed only while its record has the size and the time of change that stand in it.
"""

import contextlib
import dataclasses
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _html
from ..record import read
from .cells import (
    SCHEMA,
    Cell,
    Failure,
    cell_from_json,
    cell_of,
    cell_to_json,
    cell_value,
    numbered,
    read_failures,
    replace,
    setting_name,
)
from .datasets import dataset_of_group, dataset_of_verdicts
from .summary import ClaimSummary, summary_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

NO_VERDICT, NOT_RUN = "no verdict", "not run"
"""What stands in the table in place of an outcome: the cell failed; the cell of the plan was not run."""

_COLUMNS = (
    *("claim", "parametrisation", "loss", "kind", "outcome", "measured", "bound", "slack", "unit"),
    *("outside_theorem", "undecided", "reason", "cpu_seconds", "wall_seconds", "record"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder of records.

    - `plan`: what a sweep was last asked for (`sweep.json`), or `None`.
    - `cells`: the records, in the plan's order (else by name); `failures`: cells that gave no verdict.
    - `missing`: keys of the plan that have neither; `earlier`: cells of plans before, not in this one.
    - `damaged`: what could not be read, by name, with the reason.
    """

    path: Path
    plan: Mapping[str, Any] | None
    cells: tuple[Cell, ...]
    failures: tuple[Failure, ...]
    missing: tuple[str, ...]
    earlier: tuple[Cell, ...]
    damaged: Mapping[str, str]

    @property
    def varied(self) -> tuple[str, ...]:
        """The settings, the seed left out, that differ between the cells; those of the grid first."""
        planned = [] if self.plan is None else [name for name in self.plan["grid"] if name != "seed"]
        seen: dict[str, set[str]] = defaultdict(set)
        everyone = (*self.cells, *self.failures)
        for one in everyone:
            for name, value in one.settings.items():
                seen[name].add(json.dumps(value, sort_keys=True, default=str))
        n = len(everyone)
        count = {name: sum(name in one.settings for one in everyone) for name in seen}
        others = [name for name, values in seen.items() if name != "seed" and (len(values) > 1 or count[name] < n)]
        derived = [name for name in others if name not in planned]
        # What a run derives for itself is no setting of the sweep: only a plan knows which is which.
        return tuple(planned if self.plan is not None else derived)

    def summary(self) -> tuple[ClaimSummary, ...]:
        """Each claim over all cells, in the order in which the records have them."""
        groups: dict[tuple[str, str, str, str, int], list[Sequence[Any]]] = {}
        n_system: dict[str, int] = defaultdict(int)
        for cell in self.cells:
            n_system[cell.system] += 1
            for name, row in numbered(cell):
                groups.setdefault((cell.system, *name), []).append(row)
        for failure in self.failures:
            n_system[failure.system] += 1
        return tuple(summary_of(*key[:4], rows, n_system[key[0]]) for key, rows in groups.items())

    def table(self) -> "pd.DataFrame":
        """One row for each cell and verdict; a failed cell, and one that was not run, is one row.

        Columns: `key`, `system`, `seed`, what varies, then the verdict's; `outcome` is "no verdict" for a cell that
        failed, with its `reason`, and "not run" for a cell of the plan that is missing.
        """
        import pandas as pd

        varied = self.varied
        named = tuple(setting_name(name, {"key", "system", "seed", *_COLUMNS}) for name in varied)
        head = ("key", "system", "seed", *named)
        rows: list[tuple[Any, ...]] = []
        for cell in self.cells:
            start = (cell.key, cell.system, cell.seed, *(cell_value(cell.settings.get(name)) for name in varied))
            end = (None, cell.cpu_seconds, cell.wall_seconds, str(cell.path.relative_to(self.path)))
            if not cell.rows:
                rows.append((*start, *[None] * 4, NO_VERDICT, *[math.nan] * 3, None, None, None, *end))
            for claim, where, loss, kind, outcome, measured, bound, slack, unit, undecided, outside, *_ in cell.rows:
                rows.append(
                    (*start, claim, where, loss, kind, outcome, measured, bound, slack, unit, outside, undecided, *end)
                )
        blank: dict[str, Any] = dict.fromkeys(_COLUMNS)
        for failure in self.failures:
            settings = [cell_value(failure.settings.get(name)) for name in varied]
            said = {"outcome": NO_VERDICT, "reason": failure.reason, "wall_seconds": failure.wall_seconds}
            rows.append((failure.key, failure.system, failure.seed, *settings, *(blank | said).values()))
        planned = {} if self.plan is None else {entry["key"]: entry["settings"] for entry in self.plan["cells"]}
        for key in self.missing:
            assert self.plan is not None
            asked = planned[key]
            settings = [cell_value(asked.get(name)) for name in varied]
            rows.append((key, self.plan["system"], asked["seed"], *settings, *(blank | {"outcome": NOT_RUN}).values()))
        frame = pd.DataFrame.from_records(rows, columns=[*head, *_COLUMNS])
        for place, name in enumerate(named, start=3):
            frame[name] = _one_sort(frame.iloc[:, place])
        frame["seed"] = frame["seed"].astype("Int64")
        frame["outside_theorem"] = frame["outside_theorem"].astype("boolean")
        for name in ("cpu_seconds", "wall_seconds", "measured", "bound", "slack"):
            frame[name] = frame[name].astype(float)
        return frame

    def write_tables(self) -> tuple[Path, ...]:
        """Write `table.csv`, and `table.parquet` where pyarrow is installed, whole or not at all; return the paths."""
        import importlib.util

        frame = self.table()
        written = [replace(self.path / "table.csv", lambda path: frame.to_csv(path, index=False))]
        if importlib.util.find_spec("pyarrow") is not None:
            written.append(replace(self.path / "table.parquet", lambda path: frame.to_parquet(path, index=False)))
        return tuple(written)

    def dataset(self, group: str | None = None) -> "xr.Dataset":
        """The verdicts of all cells over `cell` and `verdict`; or one group of arrays of all records, over `cell`.

        Coordinates along `cell`: `key`, `seed`, and what varies; a setting is called `setting_loss` where the dataset
        has a `loss` of its own. Verdicts that a cell lacks are NaN, with an empty outcome. A `group` ("kq/trajectory")
        is padded with NaN where the records differ in length, which makes floats of whole numbers and of truth; the
        attribute `lacking` names the cells that do not have it, `damaged` those whose arrays cannot be read.

        Raises `ValueError` when there is no record, or none that has the group.
        """
        if not self.cells:
            raise ValueError(f"there is no record in {str(self.path)!r}.")
        if group is None:
            return dataset_of_verdicts(self.cells, self.varied)
        return dataset_of_group(self.cells, self.varied, group=group, where=str(self.path))

    def _repr_html_(self) -> str:
        headings = ("claim", "parametrisation", "holds", "fails", "inconclusive", "no verdict", "share", "95% interval")
        rows = []
        for c in self.summary():
            counts = (c.n_holds, c.n_fails, c.n_inconclusive, c.n_no_verdict)
            interval = f"{c.interval[0]:.3f} to {c.interval[1]:.3f}"
            rows.append((c.claim, c.parametrisation, *counts, c.share_holds, interval))
        said = f"{len(self.cells)} records, {len(self.failures)} failed, {len(self.missing)} not run"
        return _html.table(headings, rows, caption=f"{self.path.name}: {said}")


def open_folder(path: str | Path) -> Folder:
    """Read a folder of records, or of a sweep; what cannot be read is named in `damaged`, and the rest is kept.

    Raises `ValueError` when there is no such folder, or when its plan cannot be read.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"there is no folder {str(path)!r}.")
    plan = read_plan(path)
    inside = path if plan is None else path / "cells"
    damaged: dict[str, str] = {}
    cells = _read_cells(path, inside, damaged)
    failures = {} if plan is None else read_failures(path, damaged)
    failures = {key: failure for key, failure in failures.items() if key not in cells}
    if plan is None:
        order = sorted(cells, key=lambda key: (cells[key].started, key))
        return Folder(
            path=path,
            plan=None,
            cells=tuple(cells[key] for key in order),
            failures=(),
            missing=(),
            earlier=(),
            damaged=damaged,
        )
    keys = [entry["key"] for entry in plan["cells"]]
    wanted = set(keys)
    return Folder(
        path=path,
        plan=plan,
        cells=tuple(cells[key] for key in keys if key in cells),
        failures=tuple(failures[key] for key in keys if key in failures),
        missing=tuple(key for key in keys if key not in cells and key not in failures),
        earlier=tuple(cell for key, cell in sorted(cells.items()) if key not in wanted),
        damaged=damaged,
    )


def read_plan(path: Path) -> dict[str, Any] | None:
    """What `sweep.json` in the folder says, or `None` when there is none. Raises `ValueError` when it is damaged."""
    try:
        text = (path / "sweep.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r}: `sweep.json` cannot be read: {error}.") from None
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r}: `sweep.json` is damaged or cut short: {error}.") from None
    needed = ("schema", "system", "grid", "cells")
    if not isinstance(plan, dict) or any(name not in plan for name in needed) or not _is_laid_out(plan):
        raise ValueError(f"{str(path)!r}: `sweep.json` is not a sweep's plan; omegalimit did not write it.")
    if plan["schema"] != SCHEMA:
        raise ValueError(
            f"{str(path)!r}: `sweep.json` has schema version {plan['schema']!r}, and this omegalimit reads version "
            f"{SCHEMA}; use the version of omegalimit that wrote it, or another folder."
        )
    return plan


def _is_laid_out(plan: Mapping[str, Any]) -> bool:
    if plan["schema"] != SCHEMA:  # told by its version
        return True
    cells = plan["cells"]
    return (
        isinstance(plan["grid"], dict)
        and isinstance(cells, list)
        and all(isinstance(cell, dict) and isinstance(cell.get("key"), str) for cell in cells)
        and all(isinstance(cell.get("settings"), dict) and "seed" in cell["settings"] for cell in cells)
    )


def index_line(path: Path) -> dict[str, Any]:
    """The line of the index for the record at `path`: its cell, and the size and time of change of `record.json`."""
    before = _stamp(path / "record.json")
    cell = cell_of(read(path, arrays=False))
    return {**cell_to_json(cell), "stamp": before}


def append_index(folder: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add lines to the folder's index. A cut last line (of a process that was killed) is ended first."""
    text = "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n" for line in lines
    )
    if not text:
        return
    with (folder / "index.jsonl").open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                text = "\n" + text
        file.write(text.encode())


def _read_cells(path: Path, inside: Path, damaged: dict[str, str]) -> dict[str, Cell]:
    """The cells by key: from the index where it is believed, from the records else."""
    indexed = _read_index(path)
    cells, learned = {}, []
    if not inside.is_dir():
        return {}
    with os.scandir(inside) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        if name.startswith("."):  # among them what was left by a run that was killed while writing
            continue
        place = inside / name
        try:
            stamp = _stamp(place / "record.json")
        except OSError:
            if inside != path and place.is_dir():
                damaged[name] = "it has no `record.json`"
            continue
        try:
            line = indexed.get(name)
            if line is not None and line.get("stamp") == stamp:
                try:
                    cells[name] = cell_from_json(line, name, place)
                    continue
                except (ValueError, KeyError, TypeError):
                    pass  # a damaged line: the record itself is read
            learned.append(index_line(place))
            cells[name] = cell_from_json(learned[-1], name, place)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            damaged[name] = str(error)
    if inside != path and learned:
        with contextlib.suppress(OSError):  # the index is a cache: a folder that is read-only is read all the same
            append_index(path, learned)
    return cells


def _read_index(path: Path) -> dict[str, dict[str, Any]]:
    try:
        text = (path / "index.jsonl").read_bytes()
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            found[entry["key"]] = entry
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # cut short by a kill, or damaged: the record itself is read
    return found


def _stamp(file: Path) -> list[int]:
    found = file.stat()
    return [found.st_size, found.st_mtime_ns]


def _one_sort(column: "pd.Series") -> "pd.Series":
    """The column as it is, or as text where it mixes what a Parquet column cannot: numbers with text or truth."""
    import pandas as pd

    sort = pd.api.types.infer_dtype(column, skipna=True)
    large = sort == "integer" and column.dtype == object and any(abs(v) >= 2**63 for v in column.dropna())
    if not (sort.startswith("mixed") or large):
        return column
    return column.map(lambda value: value if value is None or isinstance(value, str) else json.dumps(value))
