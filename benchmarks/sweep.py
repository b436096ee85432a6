"""Seconds on the wall that a sweep costs beside a loop, and that its folder of 10,000 cells takes to be listed.

    python benchmarks/sweep.py [--quick] [--json FILE]

A cell keeps one thread busy for 0, 0.05 or 0.5 s and leaves 8 verdicts and 24 arrays in three groups. The loop calls
its check and keeps nothing; the sweep writes a record of each. What a cell costs is the slope between a sweep of few
cells and one of many, times the workers; the rest, paid once, is the start and the end: importing, the workers, tables.
Run it with nothing beside: two workers, the scheduler and the sweep share the cores.
"""

import dataclasses
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xarray as xr

import _timing
from omegalimit.catalogue import AbstractSystem, Counter, Findings
from omegalimit.catalogue._system import Progress, silent
from omegalimit.claims import Kind, Verdict
from omegalimit.sweep import run_sweep

N_VERDICTS, N_GROUPS, N_VARIABLES, N_POINTS = 8, 3, 8, 200
# Cells of so many seconds; sweeps of so many of them, few and many, and of so many in a quick run.
CELLS = ((0.0, (100, 900), (50, 250)), (0.05, (40, 240), (20, 60)), (0.5, (20, 100), (4, 12)))
WORKERS = (1, 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Busy(AbstractSystem):
    """A check that takes `seconds` of one processor."""

    title: ClassVar[str] = "a busy check"
    seconds: float = 0.0
    """Processor seconds of the check."""
    seed: int = 0
    """Seed of the data."""

    def check(self, progress: Progress = silent) -> Findings:
        end = time.thread_time() + self.seconds
        rng = np.random.default_rng(self.seed)
        values = rng.standard_normal((N_POINTS, 4))
        while time.thread_time() < end:
            values = np.sort(values, axis=0)
        verdicts = tuple(
            Verdict(
                claim=f"claim-{k}",
                parametrisation="busy",
                loss="none",
                kind=Kind.UPPER,
                measured=float(abs(values[k, 0])),
                bound=9.0,
                slack=1e-12,
                unit="relative",
            )
            for k in range(N_VERDICTS)
        )
        arrays = {
            f"busy/group-{g}": xr.Dataset(
                {f"values_{k}": (("point", "column"), values) for k in range(N_VARIABLES)},
                coords={"column": list("abcd")},
            )
            for g in range(N_GROUPS)
        }
        return Findings(verdicts=verdicts, settings=dataclasses.asdict(self), arrays=arrays)

    @property
    def counters(self) -> Mapping[str, Counter]:
        return {}


OWN = f"{Path(__file__).resolve()}:Busy"


def loop(seconds: float, n: int) -> float:
    """Seconds on the wall of a check alone, of `n` one after the other."""
    start = time.perf_counter()
    for seed in range(n):
        Busy(seconds=seconds, seed=seed).check()
    return (time.perf_counter() - start) / n


def swept(seconds: float, n: int, workers: int, folder: Path) -> float:
    """Seconds on the wall of a whole sweep of `n` cells."""
    shutil.rmtree(folder, ignore_errors=True)
    options = {"seconds": seconds}
    start = time.perf_counter()
    run_sweep(OWN, folder=folder, options=options, seeds=range(n), workers=workers)
    return time.perf_counter() - start


def measure(*, quick: bool = False) -> dict[str, Any]:
    from omegalimit.report.sweep_page import sweep_page
    from omegalimit.store import open_folder

    found: dict[str, Any] = {"cells": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "sweep"
        Busy().check()
        for seconds, sizes, small in CELLS:
            few, many = small if quick else sizes
            alone = loop(seconds, few)
            for workers in WORKERS:
                first, second = (swept(seconds, n, workers, folder) for n in (few, many))
                one = (second - first) / (many - few) * workers
                found["cells"].append(
                    {
                        "seconds": seconds,
                        "workers": workers,
                        "cells": [few, many],
                        "loop": alone,
                        "sweep": one,
                        "once": first - few * one / workers,
                    }
                )
            _timing.tell(f"sweep: cells of {seconds:g} s: done")
        n = 500 if quick else 10_000
        swept(0.0, n, 1, folder)
        start = time.perf_counter()
        opened = open_folder(folder)
        opened.summary()
        listed = time.perf_counter() - start
        start = time.perf_counter()
        size = len(sweep_page(opened))
        page = time.perf_counter() - start
    found["listing"] = {"cells": n, "seconds": listed, "page_seconds": page, "page_bytes": size}
    return found


def tables(found: dict[str, Any]):
    rows = []
    for cell in found["cells"]:
        extra = cell["sweep"] - cell["loop"]
        rows.append(
            (
                f"{cell['seconds']:g}",
                cell["workers"],
                f"{1000 * cell['loop']:.1f}",
                f"{1000 * cell['sweep']:.1f}",
                f"{1000 * extra:.1f}",
                f"{100 * extra / cell['loop']:.1f}%" if cell["seconds"] else "",
                f"{cell['once']:.1f}",
            )
        )
    yield _timing.table(
        "A sweep beside a loop: milliseconds on the wall for each cell and worker",
        ("busy s", "workers", "loop", "sweep", "more", "share", "once, s"),
        rows,
    )
    its = found["listing"]
    yield _timing.table(
        "A folder of cells",
        ("cells", "opened and summarised, s", "its page, s", "kB"),
        [(its["cells"], f"{its['seconds']:.2f}", f"{its['page_seconds']:.2f}", f"{its['page_bytes'] / 1000:.0f}")],
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__])
