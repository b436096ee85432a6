"""Seconds on the wall of `omegalimit report`, each in a fresh process, and the size of the page.

    python benchmarks/pages.py [--quick] [--json FILE]

Of each system's default run, which is made first and not counted; the median of three, with the least and the largest.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _timing
from omegalimit.catalogue import SYSTEMS

GOAL_SECONDS, GOAL_BYTES = 3.0, 2_000_000
QUICK = ("early-alignment", "softmax-attention")


def wall_seconds(record: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "omegalimit", "report", record], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def measure(*, quick: bool = False) -> dict[str, Any]:
    found = {}
    for name in QUICK if quick else SYSTEMS:
        with tempfile.TemporaryDirectory() as folder:
            run = [sys.executable, "-m", "omegalimit", "run", name, "--quiet", "--out", folder]
            status = subprocess.run(run, stdout=subprocess.DEVNULL).returncode
            (record,) = (Path(folder) / entry for entry in os.listdir(folder))
            n_verdicts = len(json.loads((record / "record.json").read_text())["verdicts"])
            seconds = [wall_seconds(record) for _ in range(3)]
            size = (record / "report.html").stat().st_size
        found[name] = {"status": status, "verdicts": n_verdicts, "seconds": seconds, "bytes": size}
        _timing.tell(f"pages: {name}: done")
    return found


def tables(found: dict[str, Any]):
    yield _timing.table(
        f"The page of a record: seconds on the wall (goal {GOAL_SECONDS:g}) and size (goal {GOAL_BYTES / 1e6:g} MB)",
        ("system", "verdicts", "median", "range", "MB"),
        [
            (
                name,
                cell["verdicts"],
                f"{_timing.spread(cell['seconds'])['median']:.2f}",
                f"{min(cell['seconds']):.2f} - {max(cell['seconds']):.2f}",
                f"{cell['bytes'] / 1e6:.2f}",
            )
            for name, cell in found.items()
        ],
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__])
