"""Counter-instances from functions that judge a broken variant: the same wrapping for every system."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

from .._threads import one_blas_thread
from ..claims import Verdict
from ._options import unused_by_counter
from ._system import AbstractSystem, Counter, Findings, Progress

System = TypeVar("System", bound=AbstractSystem)
Made = Mapping[str, tuple[str, tuple[tuple[str, str], ...], Callable[[System], list[Verdict]]]]
"""By name: what is broken, the claims that must then not hold, and the function that judges them."""


def counters_of(
    system: System, made: Made[System], *, own: System, what: str, option: str, noun: str
) -> dict[str, Counter]:
    """The counter-instances of `system`, each run on `own`, one BLAS thread.

    `what` the variants make themselves is said of options that they do not use; a user's file, given by the option
    `option`, is refused: they make their own `noun`.
    """

    def check_of(function: Callable[[System], list[Verdict]]) -> Callable[[Progress], Findings]:
        def check(progress: Progress) -> Findings:
            given = getattr(system, option)
            if given is not None:
                raise ValueError(f"a counter-instance makes its own {noun}; drop `--{option}` (got {given!r}).")
            progress("runs", 0.0)
            with one_blas_thread():
                verdicts = tuple(function(own))
            progress("done", 1.0)
            assert dataclasses.is_dataclass(own)
            return Findings(verdicts=verdicts, settings=dataclasses.asdict(own), notes=unused_by_counter(system, what))

        return check

    return {
        name: Counter(text=text, expected=expected, check=check_of(function))
        for name, (text, expected, function) in made.items()
    }
