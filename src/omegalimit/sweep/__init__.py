"""Many seeds and settings of one system: one record a cell, and what is there is not run again. See `run_sweep`."""

import contextlib
import datetime
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import record, store
from ..catalogue import AbstractSystem
from .cell import FAILED, RAN, THERE, Done
from .plan import Plan, make_plan

Watch = Callable[["Counts", Mapping[str, Any] | None], None]
"""`watch(counts, line)`: called as cells finish; `line` is the cell's index line, or its failure, or `None`."""


class Counts:
    """How far a sweep is: `n_cells` in all; `n_there` before it began; `n_ran`, `n_failed` by it; outcomes of all."""

    def __init__(self, n_cells: int) -> None:
        self.n_cells = n_cells
        self.n_there = self.n_ran = self.n_failed = 0
        self.outcomes = {"holds": 0, "fails": 0, "inconclusive": 0}

    @property
    def n_done(self) -> int:
        return self.n_there + self.n_ran + self.n_failed

    def add_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            self.outcomes[row[4]] += 1


def run_sweep(
    system: str | type[AbstractSystem],
    *,
    folder: str | Path,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: str | int | Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    cluster: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    retry: bool = False,
    watch: Watch | None = None,
    say: Callable[[str], None] | None = None,
) -> store.Folder:
    """Run a system on every combination of a grid of settings and of seeds, and return the folder of their records.

    - `system`: a name in the catalogue, a class of your own, or where it is: "module:Class", "file.py:Class".
    - `folder`: where the records go. A cell's place is its content: what is there already is not run again.
    - `grid`: values by field, every combination is run; `seeds`: "0:100" (100 left out) or a list; `options`: fields
      that are the same everywhere.
    - `workers`: processes on this machine, one thread each (by default as many as there are processors, with Dask
      installed; 1 runs in this process). `scheduler`: the address of a Dask scheduler instead; `cluster`: options of a
      SLURM cluster. All workers must see the folder.
    - `timeout`: seconds after which a cell is given up (with workers in processes of their own).
    - `retry`: run cells again that failed before. Cells whose worker was lost are always tried again.
    - `watch`, `say`: called with the counts as cells finish, and with sentences for the user.

    A cell that raises is kept as a failure, with its reason. Verdicts do not depend on the number of workers.

    Raises `ValueError` for a plan that makes no sense and for a folder that another sweep is writing in or that has
    records of another layout; `OSError` when the disk refuses: what was finished is kept.
    """
    say = say or (lambda text: None)
    watch = watch or (lambda counts, line: None)
    plan = make_plan(system, grid=grid, seeds=seeds, options=options)
    for note in plan.notes:
        say(note)
    place = record.prepare(folder)
    with _locked(place):
        known, earlier = _before(place, plan, say)
        (place / "cells").mkdir(exist_ok=True)
        _clean(place / "cells")
        store.write_text(place / "sweep.json", json.dumps(plan.to_json(earlier), indent=1, ensure_ascii=False) + "\n")
        _set_aside(place, plan, known, say)
        counts = Counts(len(plan.cells))
        wanted = _wanted(plan, known, counts, retry=retry, say=say)
        watch(counts, None)
        if wanted:
            with _engine(workers, scheduler, cluster, timeout, len(wanted), place, say) as engine:
                _run(engine, plan, place, wanted, counts, watch)
        found = store.open_folder(place)
        found.write_tables()
    return found


def _before(place: Path, plan: Plan, say: Callable[[str], None]) -> tuple[store.Folder, list[Mapping[str, Any]]]:
    """What is in the folder, and what was asked in it before; what has changed since is told."""
    known = store.open_folder(place)
    if known.plan is None:
        if (place / "record.json").exists():
            raise ValueError(f"{str(place)!r} is a record, not a folder for a sweep; give another one.")
        return known, []
    last = known.plan
    if last["system"] != plan.system:
        raise ValueError(
            f"{str(place)!r} holds a sweep of {last['system']}, and this is one of {plan.system}; give another folder."
        )
    asked = plan.asked()
    changed = [name for name in asked if last.get(name) != asked[name]]
    if not changed:
        return known, list(last.get("earlier", ()))
    for name in changed:
        if name == "files":
            files = [f for f in asked["files"] if last["files"].get(f, asked["files"][f]) != asked["files"][f]]
            for file in files:
                say(f"the content of {file} has changed since: its cells are new ones.")
        else:
            say(f"changed since the last call: {name} was {_short(last.get(name))}, and is {_short(asked[name])}.")
    keys = {key for key, _ in plan.cells}
    if left := sum(cell.key not in keys for cell in (*known.cells, *known.earlier)):
        say(f"{left} cells of earlier calls are not in this one; their records are kept.")
    before = {name: value for name, value in last.items() if name in asked}
    return known, [*last.get("earlier", ()), before]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _set_aside(place: Path, plan: Plan, known: store.Folder, say: Callable[[str], None]) -> None:
    """Move records of the plan that cannot be read out of the way, so that their cells are run again."""
    keys = {key for key, _ in plan.cells}
    broken = [key for key in known.damaged if key in keys]
    if foreign := [key for key in broken if "schema version" in known.damaged[key]]:
        raise ValueError(f"{known.damaged[foreign[0]]} Or give this sweep another folder.")
    for key in broken:
        (place / "damaged").mkdir(exist_ok=True)
        aside = place / "damaged" / f"{key}-{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S%fZ}"
        (place / "cells" / key).rename(aside)
        say(f"the record of cell {key} is damaged ({known.damaged[key]}); it was moved to {aside}, and is run again.")


def _wanted(plan: Plan, known: store.Folder, counts: Counts, *, retry: bool, say: Callable[[str], None]) -> list[str]:
    """The keys to run: those without a record, and without a failure that stands."""
    there = {cell.key: cell for cell in (*known.cells, *known.earlier)}
    failed = store.read_failures(known.path)
    wanted = []
    for key, _ in plan.cells:
        if key in there:
            counts.n_there += 1
            counts.add_rows(there[key].rows)
        elif key in failed and not retry and failed[key].kind != "worker lost":
            counts.n_failed += 1
        else:
            wanted.append(key)
    if counts.n_there:
        say(f"{counts.n_there} of {counts.n_cells} cells are there already.")
    if counts.n_failed:
        say(f"{counts.n_failed} cells failed before and are not run again (--retry does).")
    return wanted


@contextlib.contextmanager
def _engine(
    workers: int | None,
    scheduler: str | None,
    cluster: Mapping[str, Any] | None,
    timeout: float | None,
    n_jobs: int,
    place: Path,
    say: Callable[[str], None],
) -> Iterator[Any]:
    from . import engines

    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"`workers` must be a whole number of at least 1; got {workers!r}.")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"`timeout` must be a number of seconds above 0; got {timeout!r}.")
    if scheduler is None and cluster is None:
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        n = min(workers or usable, n_jobs)
        alone = workers == 1 or (workers is None and (n == 1 or not engines.dask_is_there()))
        if alone and timeout is None:
            if workers is None and n > 1:
                say("one cell at a time, in this process: `pip install 'omegalimit[dask]'` runs several at once.")
            with engines.in_process() as engine:
                yield engine
            return
        workers = n
    with engines.dask(
        workers=workers, scheduler=scheduler, cluster=cluster, timeout=timeout, folder=place, say=say
    ) as engine:
        say(engine.words)
        yield engine


def _run(engine: Any, plan: Plan, place: Path, wanted: Sequence[str], counts: Counts, watch: Watch) -> None:
    settings = dict(plan.cells)
    for done in engine.run(plan.jobs(place, wanted)):
        if not isinstance(done, Done):
            failure = store.Failure(
                key=done.job.key,
                system=plan.system,
                settings=record.plain(settings[done.job.key]),
                seed=settings[done.job.key].get("seed"),
                kind=done.kind,
                error=done.kind,
                message=done.reason,
                traceback="",
                where=done.where,
                started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                wall_seconds=None,
                versions=record.versions(),
                command=done.job.command,
            )
            store.write_failure(place, failure)
            counts.n_failed += 1
            watch(counts, record.plain(failure))
            continue
        if done.status == FAILED:
            counts.n_failed += 1
        else:
            counts.n_there += done.status == THERE
            counts.n_ran += done.status == RAN
            counts.add_rows(done.line["rows"])
            store.append_index(place, [done.line])
        watch(counts, done.line)


def _clean(cells: Path) -> None:
    """Remove what runs that were killed while writing have left; nobody else writes here, as the folder is locked."""
    for left in cells.glob(f".*{record.PARTIAL}"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock goes with the process, however it ends."""
    with (place / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise ValueError(
                f"a sweep is running in {str(place)!r} already (process {owner}); wait for it, or give another folder."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
