"""What a sweep costs beside calling the check in a loop, and how quickly its folder is listed and made a page of.

`python benchmarks/sweep.py` prints a table. The cells are busy for 0, 0.05 and 0.5 s of one processor and leave one
group of arrays; a loop calls their check and keeps nothing. Overheads are for each cell, beyond the start of the
workers (importing and connecting), which stands apart: it is paid once. On two workers the loop's time is halved.
"""

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import xarray as xr

from omegalimit.catalogue import AbstractSystem, Counter, Findings
from omegalimit.catalogue._system import Progress, silent
from omegalimit.claims import Kind, Verdict
from omegalimit.sweep import run_sweep

N_VERDICTS, N_POINTS = 8, 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Busy(AbstractSystem):
    """A check that takes `seconds` of one processor."""

    title: ClassVar[str] = "a busy check"
    seconds: float = 0.0
    """Processor seconds of the check."""
    seed: int = 0
    """Seed of the data."""

    def check(self, progress: Progress = silent) -> Findings:
        end = time.process_time() + self.seconds
        rng = np.random.default_rng(self.seed)
        values = rng.standard_normal((N_POINTS, 4))
        while time.process_time() < end:
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
        arrays = {"busy/trajectory": xr.Dataset({"values": (("point", "column"), values)})}
        return Findings(verdicts=verdicts, settings=dataclasses.asdict(self), arrays=arrays)

    @property
    def counters(self) -> Mapping[str, Counter]:
        return {}


def loop(seconds: float, n: int) -> float:
    """Seconds on the wall of the checks alone, one after the other."""
    start = time.perf_counter()
    for seed in range(n):
        Busy(seconds=seconds, seed=seed).check()
    return time.perf_counter() - start


def swept(seconds: float, n: int, workers: int, folder: Path) -> tuple[float, float]:
    """Seconds of the sweep from its first finished cell to its end, and those before: the start."""
    shutil.rmtree(folder, ignore_errors=True)
    first = []

    def watch(counts, line):
        if line is not None and not first:
            first.append(time.perf_counter())

    start = time.perf_counter()
    run_sweep(
        f"{Path(__file__).resolve()}:Busy",
        folder=folder,
        options={"seconds": seconds},
        seeds=range(n),
        workers=workers,
        watch=watch,
    )
    return time.perf_counter() - first[0], first[0] - start


def main() -> None:
    folder = Path(tempfile.mkdtemp()) / "sweep"
    Busy().check()
    print(
        f"{'cell':>7} {'workers':>8} {'cells':>6} {'loop':>9} {'sweep':>9} {'overhead a cell':>16} "
        f"{'share':>7} {'start':>7}"
    )
    for seconds, n in ((0.0, 400), (0.05, 200), (0.5, 40)):
        alone = loop(seconds, n)
        for workers in (1, 2):
            took, start = swept(seconds, n, workers, folder)
            # The first cell (the first of each worker) is over when the clock starts.
            ideal = alone * (n - workers) / n / workers
            extra = (took - ideal) * workers / (n - workers)
            share = f"{100 * (took - ideal) / ideal:5.1f} %" if seconds else "-"
            print(
                f"{seconds:5.2f} s {workers:8d} {n:6d} {alone:7.2f} s {took:7.2f} s {1000 * extra:13.1f} ms {share:>7} "
                f"{start:5.1f} s"
            )
    listing(folder)


def listing(folder: Path, n: int = 10_000) -> None:
    """A folder of `n` cells: opened and summarised from its index, and its page."""
    from omegalimit.report.sweep_page import sweep_page
    from omegalimit.store import open_folder

    shutil.rmtree(folder, ignore_errors=True)
    run_sweep(f"{Path(__file__).resolve()}:Busy", folder=folder, seeds=range(n), workers=1)
    start = time.perf_counter()
    found = open_folder(folder)
    found.summary()
    listed = time.perf_counter() - start
    start = time.perf_counter()
    size = len(sweep_page(found))
    print(f"{n} cells of {N_VERDICTS} verdicts: listed and summarised in {listed:.2f} s; ", end="")
    print(f"page of {size / 1000:.0f} kB in {time.perf_counter() - start:.2f} s.")


if __name__ == "__main__":
    main()
