"""One cell of a sweep: a system with its settings, checked, and recorded at the place that its content names.

What runs where the cell runs: in this process, or in a worker of any machine that sees the sweep's folder.
"""

import dataclasses
import datetime
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import platform
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import record, store
from .._threads import one_blas_thread
from ..catalogue import SYSTEMS, AbstractSystem, load

RAN, THERE, FAILED = "ran", "there", "failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker is asked for.

    - `root`: the sweep's folder, absolute; `key`: the cell's content address.
    - `system`: a name in the catalogue, "module:Class", or "file.py:Class"; `settings`: all its fields.
    - `command`: the words after `omegalimit` that run this cell alone, or `None`.
    """

    root: str
    key: str
    system: str
    settings: Mapping[str, Any]
    command: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a job: `status` is "ran", "there" (its record was there already) or "failed".

    `line`: its line for the index, or the failure in JSON's own types. `seconds`: on the wall, writing included.
    """

    key: str
    status: str
    line: Mapping[str, Any]
    seconds: float


def resolve(system: str | type[AbstractSystem]) -> tuple[str, type[AbstractSystem]]:
    """The system's name, by which a worker finds it again, and its class.

    Raises `ValueError` or `TypeError` for what is no system.
    """
    if isinstance(system, str):
        if ":" not in system:
            return system, load(system)
        return system, _load_own(system)
    if not (isinstance(system, type) and issubclass(system, AbstractSystem)):
        raise TypeError(f"`system` must be a name or a class that derives from AbstractSystem; got {system!r}.")
    for name, entry in SYSTEMS.items():
        if (entry.module, entry.cls) == (system.__module__, system.__qualname__):
            return name, system
    if system.__module__ == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise ValueError(
                f"{system.__name__} was defined at the prompt, where no worker finds it: put it into a file and give "
                f"`system='file.py:{system.__qualname__}'`."
            )
        return f"{os.path.abspath(file)}:{system.__qualname__}", system
    return f"{system.__module__}:{system.__qualname__}", system


@functools.cache  # a thousand modules are looked through
def _load_own(name: str) -> type[AbstractSystem]:
    place, _, cls = name.rpartition(":")
    try:
        if place.endswith(".py"):
            path = os.path.abspath(place)
            known = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == path), None)
            module = known or _module_of(path)
        else:
            module = importlib.import_module(place)
    except (ImportError, OSError, SyntaxError) as error:
        raise ValueError(f"there is no system {name!r}: {place!r} cannot be imported: {error}.") from error
    except Exception as error:  # the user's own code ran, and whatever it raises is no fault of ours
        told = f"{type(error).__name__}: {error}"
        raise ValueError(f"there is no system {name!r}: {place!r} cannot be imported: {told}.") from error
    found = getattr(module, cls, None)
    if not (isinstance(found, type) and issubclass(found, AbstractSystem)):
        raise ValueError(
            f"there is no system {name!r}: {cls!r} in {place!r} is not a class that derives from AbstractSystem."
        )
    return found


def _module_of(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"omegalimit_own_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ImportError("there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module


def about(system: AbstractSystem) -> record.About:
    """What the system says of itself, for its record."""
    assert dataclasses.is_dataclass(system)
    counters = {name: counter.text for name, counter in system.counters.items()}
    defaults = {field.name: field.default for field in dataclasses.fields(system)}
    return record.About(
        title=type(system).title, text=inspect.getdoc(type(system)) or "", counters=counters, defaults=defaults
    )


def run_cell(job: Job) -> Done:
    """Check the cell and record it, or why it failed; nothing is run whose record is there.

    Raises `OSError` when the disk refuses the record or the failure: that is no property of the cell.
    """
    clock = time.monotonic()
    place = Path(job.root) / "cells" / job.key
    if (place / "record.json").exists():
        return Done(key=job.key, status=THERE, line=store.index_line(place), seconds=time.monotonic() - clock)
    started, cpu = datetime.datetime.now(datetime.UTC), time.process_time()
    try:
        with one_blas_thread():
            system = resolve(job.system)[1](**job.settings)
            findings = system.check()
            about_it = about(system)
    except Exception as error:  # whatever a check raises is a result of the sweep
        failure = store.Failure(
            key=job.key,
            system=job.system,
            settings=record.plain(job.settings),
            seed=job.settings.get("seed"),
            kind="raised",
            error=type(error).__name__,
            message=str(error),
            traceback="".join(traceback.format_exception(error)),
            where=f"{platform.node()}, process {os.getpid()}",
            started=started.isoformat(timespec="seconds"),
            wall_seconds=time.monotonic() - clock,
            versions=record.versions(),
            command=job.command,
        )
        store.write_failure(Path(job.root), failure)
        return Done(key=job.key, status=FAILED, line=record.plain(failure), seconds=time.monotonic() - clock)
    status = RAN
    try:
        with one_blas_thread():
            record.write(
                findings,
                folder=place.parent,
                system=job.system,
                seed=job.settings.get("seed"),
                started=started,
                cpu_seconds=time.process_time() - cpu,
                wall_seconds=time.monotonic() - clock,
                about=about_it,
                command=job.command,
                name=job.key,
            )
    except FileExistsError:  # another worker was given the cell too, and was first
        status = THERE
    (Path(job.root) / "failures" / f"{job.key}.json").unlink(missing_ok=True)
    return Done(key=job.key, status=status, line=store.index_line(place), seconds=time.monotonic() - clock)
