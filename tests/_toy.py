"""A toy system: quick, and made to hold, fail, be undecided, wait or break as its fields say."""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr

from omegalimit.catalogue import SYSTEMS, AbstractSystem, Counter, Entry, Findings
from omegalimit.catalogue._system import Progress, silent
from omegalimit.claims import Assumption, Kind, Verdict

ENTRY = Entry("_toy", "Toy", "a toy: does a number stay under its bound?")


def verdict(measured: float, *, slack: float = 0.0, **rest: Any) -> Verdict:
    return Verdict(
        claim="stays-under",
        parametrisation="plain",
        loss="exponential",
        kind=Kind.UPPER,
        measured=measured,
        bound=1.0,
        slack=slack,
        unit="relative",
        **rest,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(AbstractSystem):
    """A number is compared with one.

    Claim `stays-under`: the number is at most one.
    """

    title: ClassVar[str] = "a number and its bound"

    data: str | None = None
    """File to read."""
    seed: int = 0
    """Seed of the noise."""
    size: float = 0.5
    """The number that is judged."""
    ending: Literal["found", "wait", "dropped", "memory", "fault", "killed"] = "found"
    """How the check ends."""
    seconds: float = 0.0
    """How long the check takes."""

    def __post_init__(self) -> None:
        if not self.size >= 0:
            raise ValueError(f"`size` must be >= 0; got {self.size}.")

    def check(self, progress: Progress = silent) -> Findings:
        progress("thinking", 0.5)
        if self.data is not None:
            with open(self.data) as file:
                raise ValueError(f"--data {self.data}: it holds\n{len(file.read())} characters, not tokens.")
        if journal := os.environ.get("TOY_JOURNAL"):  # a file to which every check adds a line
            with open(journal, "a") as file:
                file.write(f"{self.size} {self.seed}\n")
        time.sleep(self.seconds)
        if self.ending == "killed":  # as by a system that is out of memory
            os.kill(os.getpid(), signal.SIGKILL)
        if self.ending == "wait":
            print("waiting", flush=True)
            time.sleep(60)
        if self.ending == "dropped":  # an interrupt that Python drops, as it does those inside a collector's callback
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            progress("going on", 0.7)
            print("never said", flush=True)
        if self.ending == "memory":
            raise MemoryError
        if self.ending == "fault":
            raise AssertionError("two and two are five")
        outside = Assumption(name="even number", holds=False, measured=float("nan"))
        return Findings(
            verdicts=(verdict(self.size, slack=0.1, assumptions=(outside,)),),
            not_applicable={"rank": "a number has none"},
            settings={**dataclasses.asdict(self), "cap": np.float64(np.inf)},
            arrays={"plain/trajectory": xr.Dataset({"log_time": ("point", np.array([0.0, np.inf, np.nan]))})},
            notes=("the number was taken as given",),
        )

    @property
    def counters(self) -> Mapping[str, Counter]:
        def judged(size: float) -> Any:
            return lambda progress: dataclasses.replace(self, size=size).check(progress)

        expected = (("stays-under", "plain"),)
        return {
            "too-big": Counter(text="The number is two.", expected=expected, check=judged(2.0)),
            "broken": Counter(text="The number is too small to fail.", expected=expected, check=judged(0.1)),
        }


def register(monkeypatch: Any) -> None:
    """Put the toy into the catalogue for one test."""
    monkeypatch.setitem(SYSTEMS, "toy", ENTRY)


if __name__ == "__main__":  # the command, with the toy in its catalogue, for tests that need a process of their own
    import sys

    from omegalimit.cli import main

    sys.modules.setdefault("_toy", sys.modules["__main__"])
    SYSTEMS["toy"] = ENTRY
    # A shell that runs the tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
