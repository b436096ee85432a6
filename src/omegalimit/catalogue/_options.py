"""What every system does with its options: check whole numbers, and say which options have no part in a run."""

import dataclasses
from collections.abc import Collection

from ._system import AbstractSystem


def check_whole(name: str, value: object, least: int) -> None:
    """Raise `ValueError` for what is no whole number of at least `least`; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")


def set_options(system: AbstractSystem, names: Collection[str] | None = None) -> list[str]:
    """Those of the options `names` (all when `None`) that are not at their defaults, as typed in a shell, in order."""
    assert dataclasses.is_dataclass(system)
    fields = [field for field in dataclasses.fields(system) if names is None or field.name in names]
    changed = [field.name for field in fields if getattr(system, field.name) != field.default]
    return [f"--{name.replace('_', '-')}" for name in changed]


def unused(system: AbstractSystem, names: Collection[str], where: str) -> list[str]:
    """A sentence on the options among `names` that were set and are not used `where`; none when none was."""
    options = set_options(system, names)
    return [f"not used {where}: {', '.join(options)}."] if options else []


def unused_by_counter(system: AbstractSystem, what: str) -> tuple[str, ...]:
    """The same for a counter-instance, which has `what` of its own and takes the seed only."""
    assert dataclasses.is_dataclass(system)
    names = [field.name for field in dataclasses.fields(system) if field.name != "seed"]
    options = set_options(system, names)
    return (f"not used by a counter-instance, which has {what} of its own: {', '.join(options)}.",) if options else ()
