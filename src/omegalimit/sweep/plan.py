"""The plan of a sweep: which settings on which seeds, and the address that each cell's content gives it."""

import dataclasses
import difflib
import hashlib
import importlib.metadata
import inspect
import itertools
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import store
from ..catalogue import AbstractSystem
from ..record import plain
from .cell import Job, resolve

MOST_CELLS = 1_000_000
_TOML = ("system", "seeds", "out", "workers", "scheduler", "timeout", "options", "grid", "slurm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a sweep is asked for.

    - `system`: its name; `options`: fields that are the same in every cell; `grid`: values by field; `seeds`.
    - `cells`: for each cell, in order (the grid's last field and then the seed run fastest), its address and settings,
      all fields filled in; `refused`: by address, why the system refuses a cell's settings, if it does.
    - `files`: SHA-256 of the files that the settings name, by name; `notes`: what the user should know of the plan.
    """

    system: str
    options: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    seeds: Sequence[int]
    cells: Sequence[tuple[str, Mapping[str, Any]]]
    refused: Mapping[str, str]
    files: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def varied(self) -> tuple[str, ...]:
        """The fields that the sweep sets: those of the grid, and the seed."""
        return (*self.grid, "seed")

    def jobs(self, root: Path, wanted: Sequence[str]) -> list[Job]:
        """The jobs of the cells `wanted`, in the plan's order."""
        settings = dict(self.cells)
        return [
            Job(
                root=str(root.resolve()),
                key=key,
                system=self.system,
                settings=settings[key],
                command=self.command(settings[key]),
            )
            for key in wanted
        ]

    def command(self, settings: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The words after `omegalimit` that run one cell alone; `None` for a system outside of the catalogue."""
        if ":" in self.system:
            return None
        words: list[str] = []
        for name in dict.fromkeys((*self.options, *self.varied)):
            words += option_words(name, settings[name])
        return "run", self.system, *words

    def to_json(self, earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The document `sweep.json`; `earlier`: what was asked in this folder before."""
        return {
            "schema": store.SCHEMA,
            **self.asked(),
            "cells": [
                {"key": key, "settings": plain({n: settings[n] for n in self.varied})} for key, settings in self.cells
            ],
            "notes": list(self.notes),
            "earlier": list(earlier),
        }

    def asked(self) -> dict[str, Any]:
        """What was asked for, without the cells that follow from it."""
        return {
            "system": self.system,
            "options": plain(self.options),
            "grid": plain(self.grid),
            "seeds": list(self.seeds),
            "files": dict(self.files),
            "omegalimit": importlib.metadata.version("omegalimit"),
        }


def option_words(name: str, value: Any) -> list[str]:
    """A field with its value as typed on the command line; nothing for `None`, which is a default only."""
    option = f"--{name.replace('_', '-')}"
    if value is None:
        return []
    if isinstance(value, bool):
        return [option if value else f"--no-{option[2:]}"]
    if isinstance(value, list | tuple):
        return [option, *map(str, value)]
    return [option, str(value)]


def parse_seeds(text: str | int | Sequence[int]) -> tuple[int, ...]:
    """The seeds that "0:100" (100 left out), "0:100:5", "1,5,9" or "3" stand for, or those of a list.

    Raises `ValueError` for what cannot be read, and when there is none.

    >>> parse_seeds("0:3"), parse_seeds("0:10:4"), parse_seeds("7,8")
    ((0, 1, 2), (0, 4, 8), (7, 8))
    """
    wanted = "write A:B (B left out), A:B:STEP, or a list such as 1,5,9"
    if isinstance(text, str):
        seeds: list[int] = []
        for part in text.split(","):
            if not re.fullmatch(r"\s*\d+(:\d+(:\d+)?)?\s*", part):
                raise ValueError(f"the seeds {text!r} cannot be read; {wanted}.")
            numbers = [int(n) for n in part.split(":")]
            if numbers[2:] == [0]:
                raise ValueError(f"the seeds {text!r} have a step of 0; {wanted}.")
            if len(numbers) > 1 and (numbers[1] - numbers[0]) // (numbers[2:] or [1])[0] > MOST_CELLS:
                raise ValueError(f"the seeds {text!r} are more than {MOST_CELLS:,}.")
            seeds += range(*numbers) if len(numbers) > 1 else numbers
    else:
        seeds = [text] if isinstance(text, int) else list(text)
        if bad := [s for s in seeds if isinstance(s, bool) or not _is_whole(s) or s < 0]:
            raise ValueError(f"seeds must be whole numbers of at least 0; got {bad[0]!r}.")
        seeds = [int(s) for s in seeds]
    if not seeds:
        raise ValueError(f"there is no seed in {text!r}; {wanted}.")
    return tuple(seeds)


def _is_whole(value: Any) -> bool:
    try:
        return int(value) == value
    except (TypeError, ValueError, OverflowError):
        return False


def make_plan(
    system: str | type[AbstractSystem],
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: str | int | Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan for a system on a grid of settings and on seeds; every cell's settings are tried before anything runs.

    Raises `ValueError` for fields that the system does not have, for a field without values, and when the system
    refuses every cell; `TypeError` for what is no system.
    """
    name, cls = resolve(system)
    options, grid, notes = dict(options or {}), dict(grid or {}), []
    assert dataclasses.is_dataclass(cls)
    defaults: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(cls)}
    for field in (*grid, *options):
        if field not in defaults:
            near = difflib.get_close_matches(field, defaults, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{name} has no field {field!r}; {hint}it has: {', '.join(defaults)}.")
    for field, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ValueError(f"the grid's {field!r} must be a list of values; got {values!r}.")
        if not values:
            raise ValueError(f"the grid has no value for {field!r}; give one at least, or leave the field out.")
        if field in options:
            raise ValueError(f"{field!r} is in the grid and among the options; leave it in one of them.")
        grid[field] = _once(field, values, notes)
    if "seed" in grid:
        if seeds is not None:
            raise ValueError("`seed` is in the grid, and seeds are given too; leave one of them.")
        seeds = grid.pop("seed")
    if "seed" in options:
        if seeds is not None:
            raise ValueError("`seed` is among the options, and seeds are given too; leave one of them.")
        seeds = (options.pop("seed"),)
    if "seed" not in defaults:
        raise ValueError(f"{name} has no field `seed`; give it one, so that a cell can be run again.")
    chosen = parse_seeds(seeds if seeds is not None else defaults["seed"])
    chosen = tuple(_once("seeds", chosen, notes))
    n = len(chosen)
    for values in grid.values():
        n *= len(values)
    if n > MOST_CELLS:
        raise ValueError(f"that is a sweep of {n:,} cells; {MOST_CELLS:,} at most are run.")
    code = _code_of(name, cls)
    files: dict[str, str] = {}
    cells: dict[str, Mapping[str, Any]] = {}
    refused: dict[str, str] = {}
    for values in itertools.product(*grid.values()):
        for seed in chosen:
            settings = {**defaults, **options, **dict(zip(grid, values, strict=True)), "seed": seed}
            key = address(name, settings, code=code, files=files)
            cells[key] = settings
            try:
                cls(**settings)
            except (ValueError, TypeError) as error:
                refused[key] = str(error)
    if len(refused) == len(cells):
        raise ValueError(f"{name} refuses every cell; the first because: {next(iter(refused.values()))}")
    if refused:
        notes.append(
            f"{name} refuses {len(refused)} of {len(cells)} cells; they are kept as failures. The first because: "
            f"{next(iter(refused.values()))}"
        )
    return Plan(
        system=name,
        options=options,
        grid=grid,
        seeds=chosen,
        cells=tuple(cells.items()),
        refused=refused,
        files=files,
        notes=tuple(notes),
    )


def _once(field: str, values: Sequence[Any], notes: list[str]) -> list[Any]:
    """The values without repetitions, which are told; those are one that have one address, as 1 and 1.0."""
    seen: dict[str, Any] = {}
    for value in values:
        seen.setdefault(json.dumps(_canonical(value), sort_keys=True), value)
    if len(seen) < len(values):
        notes.append(f"{field}: {len(values) - len(seen)} of {len(values)} values are repetitions, run once.")
    return list(seen.values())


def address(system: str, settings: Mapping[str, Any], *, code: str = "", files: dict[str, str] | None = None) -> str:
    """The content address of a cell: 20 hexadecimal digits of SHA-256.

    Over the system's name, all its settings, the content of every file that a setting names, the version of
    omegalimit, and `code`, the digest of a user's own source file. `files` takes the files' digests, by name.
    """
    files = {} if files is None else files
    for value in settings.values():
        if isinstance(value, str) and value not in files and os.path.isfile(value):
            files[value] = hashlib.sha256(Path(value).read_bytes()).hexdigest()
    named = {value: files[value] for value in settings.values() if isinstance(value, str) and value in files}
    content = {
        "system": system,
        "settings": {name: _canonical(value) for name, value in settings.items()},
        "files": named,
        "omegalimit": importlib.metadata.version("omegalimit"),
        "code": code,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _canonical(value: Any) -> Any:
    """A setting so that 1, 1.0 and NumPy's one are the same, and numbers that are not finite differ."""
    if isinstance(value, float) and not isinstance(value, bool):
        return int(value) if value.is_integer() else repr(float(value))
    if isinstance(value, list | tuple):
        return [_canonical(entry) for entry in value]
    tolist = getattr(value, "tolist", None)
    return _canonical(tolist()) if callable(tolist) else plain(value)


def _code_of(name: str, cls: type[AbstractSystem]) -> str:
    if ":" not in name:
        return ""
    try:
        return hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()
    except (OSError, TypeError) as error:
        raise ValueError(f"the source file of {name} cannot be read: {error}.") from None


def read_toml(path: str) -> dict[str, Any]:
    """What a TOML file asks for: `system`, `seeds`, `[options]`, `[grid]`, `out`, `workers`, `scheduler`, `timeout`,
    `[slurm]`.

    Raises `ValueError` when it cannot be read, lacks the system, or has entries of another name.
    """
    try:
        with open(path, "rb") as file:
            asked = tomllib.load(file)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}.") from None
    if unknown := [name for name in asked if name not in _TOML]:
        raise ValueError(f"{path}: there is no entry {unknown[0]!r}; there are: {', '.join(_TOML)}.")
    if not isinstance(asked.get("system"), str):
        raise ValueError(f'{path}: name the system: `system = "softmax-attention"`.')
    for table in ("options", "grid", "slurm"):
        if not isinstance(asked.get(table, {}), dict):
            raise ValueError(f"{path}: `{table}` must be a table; write it under `[{table}]`.")
    return asked
