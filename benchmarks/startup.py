"""Seconds on the wall of fresh processes: import, list, the whole default run, the first verdict.

    python benchmarks/startup.py [--quick] [--json FILE]

As a user runs them: all cores, nothing pinned. `empty` has a new, empty folder for compiled code in every run; `warm`
the folder that the run before left. Time to the first verdict is that of a run which judges K and Q alone, the first of
the default run's parametrisations. The median of three processes; the least and the largest beside it.
"""

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import _timing

RUN = ("-m", "omegalimit", "run", "softmax-attention", "--quiet", "--json")
COMMANDS = {
    "import omegalimit": ("-c", "import omegalimit"),
    "omegalimit list": ("-m", "omegalimit", "list"),
    "first verdict": (*RUN, "--parametrisation", "kq"),
    "whole run": RUN,
}
GOALS = {
    "import omegalimit": 1.0,
    "omegalimit list": 0.7,
    "first verdict, empty": 10.0,
    "whole run, empty": 60.0,
    "whole run, warm": 15.0,
}


def wall_seconds(arguments: tuple[str, ...], cache: str) -> tuple[float, int]:
    """Of a fresh process, with its exit status."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {"XDG_CACHE_HOME": cache}
    start = time.perf_counter()
    status = subprocess.run([sys.executable, *arguments], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start, status.returncode


def measure(*, quick: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, arguments in COMMANDS.items():
        if quick and name == "whole run":
            continue
        compiles = arguments[:2] == ("-m", "omegalimit") and "run" in arguments
        for _ in range(1 if quick else 3):
            with tempfile.TemporaryDirectory() as cache:
                for kind in (", empty", ", warm") if compiles else ("",):
                    seconds, status = wall_seconds(arguments, cache)
                    cell = found.setdefault(name + kind, {"seconds": [], "status": []})
                    cell["seconds"].append(seconds)
                    cell["status"].append(status)
        _timing.tell(f"startup: {name}: done")
    return found


def tables(found: dict[str, Any]):
    rows = []
    for name, cell in found.items():
        seconds = sorted(cell["seconds"])
        goal = GOALS.get(name)
        rows.append(
            (
                name,
                f"{_timing.spread(seconds)['median']:.2f}",
                f"{seconds[0]:.2f} - {seconds[-1]:.2f}",
                "" if goal is None else f"<= {goal:g}",
                ", ".join(map(str, sorted(set(cell["status"])))),
            )
        )
    yield _timing.table(
        "Fresh processes: seconds on the wall",
        ("command, folder of compiled code", "median", "range", "goal", "exit status"),
        rows,
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__])
