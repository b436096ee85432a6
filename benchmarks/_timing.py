"""What the benchmarks share: one child process a cell, on one thread, its CPU seconds limited; tables.

A cell is a run of a benchmark's own script with `--cell`; it prints one line of JSON. Figures are CPU seconds of that
process, so that other work on the machine counts little; only `startup.py` measures seconds on the wall.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"), "1"
) | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU seconds of this process, all threads, that `work()` took, and what it returned."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peak_bytes() -> int:
    """The largest resident size that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def limit_this_process(seconds: int, n_bytes: int | None = None) -> None:
    """End this process when it has used `seconds` more of CPU time, or more than `n_bytes` of address space."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + seconds
    # The soft limit raises SIGXCPU, by which `cell` knows it from a process killed for memory.
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    if n_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def cell(script: str, *arguments: object, seconds: int) -> dict[str, Any]:
    """What `script --cell arguments` printed, run in a child process; `{"ended": why}` when it did not come to an end.

    The child counts its CPU seconds itself (`limit_this_process`); on the wall it may take ten times as long.
    """
    wall = 10 * seconds + 60
    child = subprocess.Popen(
        [sys.executable, script, "--cell", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ONE_THREAD,
    )
    try:
        output, errors = child.communicate(timeout=wall)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {"ended": f"> {wall} s on the wall"}
    if child.returncode == 0:
        return json.loads(output.splitlines()[-1])
    if "alloc" in errors or "Memory" in errors:
        return {"ended": "out of memory"}
    if child.returncode == -signal.SIGXCPU:
        return {"ended": f"> {seconds}"}
    if child.returncode < 0:
        return {"ended": f"killed by {signal.Signals(-child.returncode).name}"}
    return {"ended": (errors.strip().splitlines() or ["no output"])[-1][:200]}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, mean and largest."""
    return {"median": statistics.median(values), "mean": statistics.fmean(values), "max": max(values)}


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    names = ("omegalimit", "jax", "numpy", "scipy", "cvxpy", "clarabel", "scs", "osqp", "highspy", "scikit-learn")
    cpuinfo, model = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if cpuinfo.exists():
        model = next((s.split(":")[1].strip() for s in cpuinfo.open() if s.startswith("model name")), model)
    return {
        "cpu": model,
        "n_cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in names},
    }


def machine_line(found: dict[str, Any]) -> str:
    """`machine()` in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items() if version)
    return (
        f"{found['cpu']}, {found['n_cpus']} CPUs, load {found['load']:.1f} at the start; {found['system']}; "
        f"Python {found['python']}, {versions}"
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence[object]], caption: str = "") -> Any:
    """A Rich table whose first column is text and whose others are numbers."""
    from rich.table import Table

    found = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for i, name in enumerate(columns):
        found.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        found.add_row(*map(str, row))
    return found


def console() -> Any:
    """Standard output; wide enough for the tables when it is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 170)


def show(tables: Iterable[Any]) -> None:
    """Print tables, and the sentences between them."""
    out = console()
    for shown in tables:
        out.print(shown, highlight=False, markup=False)


def tell(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def command(
    module: Any, *, run_cell: Callable[..., dict[str, Any]] | None = None, sizes: Iterable[str] | None = None
) -> None:
    """The command line of one benchmark; `--cell` is for its own children."""
    parser = argparse.ArgumentParser(description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller instances")
    parser.add_argument("--json", metavar="FILE", help="also write every figure to this file")
    if sizes is not None:
        parser.add_argument("--sizes", nargs="+", choices=list(sizes), help="only these instances")
    parser.add_argument("--cell", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell and run_cell is not None:
        print(json.dumps(run_cell(*arguments.cell)))
        return
    chosen = {"sizes": arguments.sizes} if sizes is not None and arguments.sizes else {}
    found = module.measure(quick=arguments.quick, **chosen)
    show(module.tables(found))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
