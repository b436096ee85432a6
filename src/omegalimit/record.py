"""Records: what was run, with which settings and versions, the verdicts, the arrays. Written whole or not at all.

A record is a folder: `record.json`, `arrays.nc` (NetCDF 4, one group for each labelled dataset), and pictures.
It is built in a hidden folder beside its place and renamed when it is complete and on the disk: a run that is
killed leaves at most a hidden folder ending in `.partial`, which is never read.
"""

import dataclasses
import datetime
import errno
import functools
import importlib.metadata
import json
import math
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import _html
from ._stored import file_sha256, plain, read_arrays, write_arrays
from .claims import Assumption, Kind, Verdict

if TYPE_CHECKING:
    import xarray as xr

SCHEMA = 2
"""The version of the layout that this module writes."""

_READS = (1, 2)  # version 1 had neither `about` nor `command`
PARTIAL = ".partial"
_PACKAGES = ("omegalimit", "jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn", "xarray", "h5netcdf", "h5py")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC", "XLA_FLAGS")


class Writable(Protocol):
    """What can be written: the findings of a system's check, or anything with the same attributes."""

    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...
    @property
    def not_applicable(self) -> Mapping[str, str]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def arrays(self) -> "Mapping[str, xr.Dataset]": ...
    @property
    def notes(self) -> tuple[str, ...]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class CounterResult:
    """What a counter-instance gave.

    - `name`, `text`: which assumption was broken, and how.
    - `expected`: the pairs (claim, parametrisation) that had to fail or be inconclusive.
    - `verdicts`: what was found; `as_expected`: whether it was what had to be.
    """

    name: str
    text: str
    expected: tuple[tuple[str, str], ...]
    verdicts: tuple[Verdict, ...]
    as_expected: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class About:
    """What a system says of itself, kept beside what it found: a page is made from the record alone.

    - `title`: one line; `text`: the setting, what is claimed, and where it comes from.
    - `counters`: the counter-instances that it has, by name, each with what is broken; `defaults`: of its options.
    """

    title: str
    text: str
    counters: Mapping[str, str]
    defaults: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """A record as read from its folder.

    - `path`: the folder. `system`, `settings`, `seed`: what was run.
    - `verdicts`, `counters`, `not_applicable`, `notes`: what was found.
    - `about`: what the system says of itself; `command`: the words after `omegalimit` that run it again. Both are
      `None` where they were not written.
    - `arrays`: labelled arrays by group, in memory; empty when they were not read.
    - `versions`, `threads`, `platform`: what it ran on. `threads` has the number of processors, what the environment
      asked the numerical libraries for, and the threads of each library's pool at the time of writing.
    - `started`: UTC, ISO 8601. `cpu_seconds`, `wall_seconds`: what the check cost; `None` when nobody measured it.
    """

    path: Path
    system: str
    settings: Mapping[str, Any]
    seed: int | None
    verdicts: tuple[Verdict, ...]
    counters: tuple[CounterResult, ...]
    not_applicable: Mapping[str, str]
    notes: tuple[str, ...]
    arrays: "Mapping[str, xr.Dataset]" = dataclasses.field(repr=False)
    versions: Mapping[str, str | None]
    threads: Mapping[str, Any]
    platform: Mapping[str, str]
    started: str
    cpu_seconds: float | None
    wall_seconds: float | None
    about: About | None = None
    command: tuple[str, ...] | None = None

    def dataset(self) -> "xr.Dataset":
        """The verdicts as labelled variables over `verdict`; their arrays are in `arrays`, by group."""
        import xarray as xr

        def column(name: str) -> list[Any]:
            return [getattr(v, name) for v in self.verdicts]

        labels = ("claim", "parametrisation", "loss", "unit")
        variables = {name: ("verdict", column(name)) for name in ("measured", "bound", "slack", "outside_theorem")}
        variables["outcome"] = ("verdict", [v.outcome.value for v in self.verdicts])
        variables["kind"] = ("verdict", [v.kind.value for v in self.verdicts])
        return xr.Dataset(variables, coords={name: ("verdict", column(name)) for name in labels})

    def _repr_html_(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        shown = _html.verdicts(self.verdicts, caption=f"{self.system}{seed}, {self.started}")
        for counter in self.counters:
            said = "as it should be" if counter.as_expected else "NOT AS IT SHOULD BE"
            shown += _html.verdicts(counter.verdicts, caption=f"counter-instance {counter.name}: {said}")
        return shown + _html.beside(self.notes, self.not_applicable)


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict in JSON's own types; numbers that are not finite are `None`."""
    return {
        "claim": verdict.claim,
        "parametrisation": verdict.parametrisation,
        "loss": verdict.loss,
        "kind": verdict.kind.value,
        "outcome": verdict.outcome.value,
        "measured": plain(verdict.measured),
        "bound": plain(verdict.bound),
        "slack": plain(verdict.slack),
        "unit": verdict.unit,
        "assumptions": plain(verdict.assumptions),
        "conditions": plain(verdict.conditions),
        "undecided": verdict.undecided,
        "details": plain(verdict.details),
    }


def verdict_from_json(entry: Mapping[str, Any]) -> Verdict:
    """The verdict that `verdict_to_json` wrote, judged again; `null` becomes NaN (infinity for the slack).

    Raises `ValueError` when the stored outcome is not the one that the stored numbers give.
    """
    verdict = Verdict(
        claim=entry["claim"],
        parametrisation=entry["parametrisation"],
        loss=entry["loss"],
        kind=Kind(entry["kind"]),
        measured=math.nan if entry["measured"] is None else entry["measured"],
        bound=math.nan if entry["bound"] is None else entry["bound"],
        slack=math.inf if entry["slack"] is None else entry["slack"],
        unit=entry["unit"],
        assumptions=tuple(Assumption(**a) for a in entry["assumptions"]),
        conditions=tuple(Assumption(**c) for c in entry["conditions"]),
        undecided=entry["undecided"],
        details=entry["details"],
    )
    if verdict.outcome.value != entry["outcome"]:
        raise ValueError(
            f"the verdict on {verdict.claim!r} is stored as {entry['outcome']!r}, "
            f"but its numbers say {verdict.outcome.value!r}"
        )
    return verdict


def counter_to_json(counter: CounterResult) -> dict[str, Any]:
    """The counter-instance's result in JSON's own types."""
    return {
        "name": counter.name,
        "text": counter.text,
        "expected": [{"claim": claim, "parametrisation": where} for claim, where in counter.expected],
        "verdicts": [verdict_to_json(v) for v in counter.verdicts],
        "as_expected": counter.as_expected,
    }


def prepare(folder: str | Path) -> Path:
    """Make `folder` when it is missing and check that a record can be written in it.

    Raises `ValueError` when it cannot: before a long run, not after it.
    """
    folder = Path(folder)
    probe = folder / f".{secrets.token_hex(8)}{PARTIAL}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise ValueError(f"cannot write a record in {str(folder)!r}: {error.strerror or error}.") from None
    return folder


def write(
    findings: Writable,
    *,
    folder: str | Path,
    system: str,
    seed: int | None,
    counters: Sequence[CounterResult] = (),
    started: datetime.datetime | None = None,
    cpu_seconds: float | None = None,
    wall_seconds: float | None = None,
    about: About | None = None,
    command: Sequence[str] | None = None,
    name: str | None = None,
    illustrate: Callable[[Record, Path], object] | None = None,
) -> Path:
    """Write one new record into `folder`, which is made when missing, and return its path.

    - `findings`: what a check returned. `counters`: results of counter-instances, if any were run.
    - `system`: the system's name; `name`: that of the record's folder, by default after the system, the time (UTC)
      and six random digits.
    - `about`, `command`: what the system says of itself, and the words after `omegalimit` that run it again.
    - `started`, `cpu_seconds`, `wall_seconds`: when the check began and what it cost.
    - `illustrate`: called with the record, as read back from the disk, and the folder in which it may put pictures.

    Nothing that exists is overwritten. Raises `ValueError` when the folder cannot be made or written in,
    `FileExistsError` when there is a record of that name, `OSError` when the disk refuses later; no half-written
    record is left then.
    """
    folder = prepare(folder)
    started = datetime.datetime.now(datetime.UTC) if started is None else started.astimezone(datetime.UTC)
    name = f"{system}-{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}" if name is None else name
    final, temporary = folder / name, folder / f".{name}-{secrets.token_hex(3)}{PARTIAL}"
    if os.path.lexists(final):
        raise FileExistsError(errno.EEXIST, "there is a record already", str(final))
    temporary.mkdir()
    try:
        arrays = temporary / "arrays.nc"
        groups = write_arrays(arrays, findings.arrays)
        document = {
            "schema": SCHEMA,
            "system": system,
            "settings": plain(findings.settings),
            "seed": seed,
            "verdicts": [verdict_to_json(v) for v in findings.verdicts],
            "counters": [counter_to_json(c) for c in counters],
            "not_applicable": plain(findings.not_applicable),
            "notes": plain(findings.notes),
            "started": started.isoformat(timespec="seconds"),
            "cpu_seconds": plain(cpu_seconds),
            "wall_seconds": plain(wall_seconds),
            "versions": versions(),
            "threads": _threads(),
            "platform": _platform(),
            "about": None if about is None else plain(about),
            "command": None if command is None else list(command),
            "arrays": {"file": arrays.name, "sha256": file_sha256(arrays), "groups": groups},
        }
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        (temporary / "record.json").write_text(text + "\n", encoding="utf-8")
        if illustrate is not None:
            illustrate(_read(temporary), temporary)
        for path in (*temporary.iterdir(), temporary):
            _sync(path)
        if os.path.lexists(final):  # a rename would silently replace an empty folder
            raise FileExistsError(errno.EEXIST, "there is a record already", str(final))
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(folder)
    return final


def read(path: str | Path, *, arrays: bool = True) -> Record:
    """Read the record in the folder `path`, with its arrays in memory, or without them, which is quicker.

    Raises `ValueError` when there is no record, when it was written in another layout, and when a file is missing,
    cut short or changed.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"there is no record at {str(path)!r}: a record is a folder with `record.json` in it.")
    if path.name.startswith(".") and path.name.endswith(PARTIAL):
        raise ValueError(f"{str(path)!r} was left by a run that was killed while writing; it is not a record.")
    return _read(path, arrays)


def _read(path: Path, arrays: bool = True) -> Record:
    try:
        text = (path / "record.json").read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"there is no record at {str(path)!r}: `record.json`: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r}: `record.json` is damaged: it is not UTF-8 text.") from None
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # a file of brackets alone nests without end
        raise ValueError(f"{str(path)!r}: `record.json` is damaged or cut short: {error}.") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError(f"{str(path)!r}: `record.json` names no schema version; omegalimit did not write it.")
    if document["schema"] not in _READS:
        raise ValueError(
            f"{str(path)!r} has schema version {document['schema']!r}, and this omegalimit reads versions "
            f"{' and '.join(map(str, _READS))}; read it with the version of omegalimit that wrote it."
        )
    try:
        listed = document["arrays"]
        found = read_arrays(path / listed["file"], listed["sha256"]) if arrays else {}
        if arrays and set(found) != set(listed["groups"]):
            raise ValueError(f"`arrays.nc` has the groups {sorted(found)}, and {listed['groups']} are named")
        about, command = (None, None) if document["schema"] == 1 else (document["about"], document["command"])
        return Record(
            path=path,
            verdicts=tuple(map(verdict_from_json, document["verdicts"])),
            counters=tuple(map(_counter_from_json, document["counters"])),
            arrays=found,
            notes=tuple(document["notes"]),
            about=None if about is None else About(**about),
            command=None if command is None else tuple(command),
            **{name: document[name] for name in _COPIED},
        )
    except KeyError as error:
        raise ValueError(f"{str(path)!r}: `record.json` lacks the entry {error}.") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{str(path)!r}: `record.json` is not laid out as a record: {error}.") from None
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}.") from None


_COPIED = (
    "system",
    "settings",
    "seed",
    "not_applicable",
    "versions",
    "threads",
    "platform",
    "started",
    "cpu_seconds",
    "wall_seconds",
)


def _counter_from_json(entry: Mapping[str, Any]) -> CounterResult:
    return CounterResult(
        name=entry["name"],
        text=entry["text"],
        expected=tuple((pair["claim"], pair["parametrisation"]) for pair in entry["expected"]),
        verdicts=tuple(map(verdict_from_json, entry["verdicts"])),
        as_expected=entry["as_expected"],
    )


def _refuse_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@functools.cache
def _platform() -> dict[str, str]:
    return {"system": platform.platform(), "machine": platform.machine()}


@functools.cache
def versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _threads() -> dict[str, Any]:
    from ._threads import pools

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "processors": os.cpu_count(),
        "usable": usable,
        "environment": {name: os.environ.get(name) for name in _THREADS},
        "pools": pools(),
    }
