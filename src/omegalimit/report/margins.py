"""What is known of a maximum margin, as a table in plain words or as one JSON document."""

import contextlib
import dataclasses
import importlib.metadata
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from ..certificate import Certificate
from ..record import plain

_STYLE = {"optimal": "green", "certified": "green", "not separable": "bold red"}
# What the delta-rank counts, where it counts no dimensions of a matrix.
_COUNTED = {"l1": "coordinates", "l2": "coordinates", "group-l1": "groups", "fourier-l1": "frequencies"}
_WIDTH = 110  # where the output is not a terminal
_QUIET_FOR, _BETWEEN = 2.0, 10.0  # seconds before the first line of progress, and from one to the next


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginReport:
    """What `solve` or `certify` found.

    - `status`, `reason`: how it ended, and the number that decided it; `certificate`: both bounds.
    - `norm`, `p`, `n_constraints`, `shape`, `tol`: what was asked.
    - `unique`, `unique_reason`: whether the optimum has one direction, `None` where that is not decided.
    - `farkas`: non-negative weights that combine the constraints to zero, where they cannot be separated.
    - `proven`: the interval that holds the maximum margin by proof; `exact`: true when a rational combination that
      is exactly zero shows that nothing separates.
    - `data`, `sha256`: the data file as it was typed, and its digest. `out`, `proof`: files that were written.
    - `notes`: sentences for the reader. `cpu_seconds`: process time.
    """

    status: str
    reason: str
    certificate: Certificate
    norm: str
    p: float | None
    n_constraints: int
    shape: tuple[int, ...]
    tol: float
    unique: bool | None
    unique_reason: str
    farkas: Any
    proven: tuple[float, float] | None
    exact: bool
    data: str
    sha256: str
    out: str | None
    proof: str | None
    notes: tuple[str, ...]
    cpu_seconds: float


def document(report: MarginReport) -> dict[str, Any]:
    """The report in JSON's own types; what is not finite (the gap where the upper bound is zero) is `None`."""
    found = report.certificate
    return plain(
        {
            "status": report.status,
            "reason": report.reason,
            "lower": found.lower,
            "upper": found.upper,
            "gap": found.gap,
            "slack": found.slack,
            "stationarity": found.stationarity,
            "complementarity": found.complementarity,
            "delta_rank": found.delta_rank,
            "support": found.support,
            "unique": report.unique,
            "farkas": report.farkas,
            "rigorous": report.proven,
            "norm": report.norm,
            "p": report.p,
            "n_constraints": report.n_constraints,
            "shape": report.shape,
            "intercept": found.intercept,
            "intercept_kind": found.intercept_kind,
            "tol": report.tol,
            "n_clipped": found.n_clipped,
            "clipped_mass": found.clipped_mass,
            "multipliers_given": found.multipliers_given,
            "data": {"file": Path(report.data).name, "sha256": report.sha256},
            "out": report.out,
            "proof": report.proof,
            "notes": report.notes,
            "versions": {name: importlib.metadata.version(name) for name in ("omegalimit", "numpy", "scipy")},
            "cpu_seconds": report.cpu_seconds,
        }
    )


def show(report: MarginReport, file: TextIO) -> None:
    """Print the report as a table of two columns, then the notes."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would end the process here; that is for the caller to decide

    console = Plain(file=file, width=None if file.isatty() else _WIDTH, highlight=False, markup=False)
    norm = report.norm if report.p is None else f"{report.norm}, p = {report.p:g}"
    console.print(
        f"maximum margin in {norm} · {report.data}: {report.n_constraints} constraints, point of shape {report.shape}"
    )
    rows = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row("status", Text(f"{report.status}: {report.reason}", style=_STYLE.get(report.status, "yellow")))
    for name, text in lines(report):
        rows.add_row(name, Text(text))
    console.print(rows)
    for note in report.notes:
        console.print(f"note: {note}")


def lines(report: MarginReport) -> list[tuple[str, str]]:
    """The rows below the status: a name and what is known."""
    found = report.certificate
    said = [
        ("margin of the point", f"{found.lower:.15g}" + (" (it misclassifies)" if found.lower < 0 else "")),
        ("no margin exceeds", f"{found.upper:.15g}"),
    ]
    if report.proven is not None:
        low, high = report.proven
        exact = "; a rational combination of the constraints is exactly zero" if report.exact else ""
        said.append(("proven interval", f"[{low!r}, {high!r}]{exact}"))
        floating = f"{found.upper - found.lower:.1e}, and {2 * found.slack:.1e} for rounding"
        said.append(("its width", f"{high - low:.1e} (in floating point {floating})"))
    if found.upper > 0:
        parts = f"stationarity {found.stationarity:.1e}, complementarity {found.complementarity:.1e}"
        said.append(("relative gap", f"{found.gap:.1e} ({parts})"))
    said.append(("rounding", f"{found.slack:.1e} in either bound, estimated"))
    if found.intercept_kind != "none":
        said.append(("intercept", f"{found.intercept:.15g} ({found.intercept_kind})"))
    word = {True: "yes", False: "no", None: "not decided"}[report.unique]
    said.append(("unique", f"{word}: {report.unique_reason}"))
    shown = ", ".join(map(str, found.support[:10])) + (", ..." if len(found.support) > 10 else "")
    said.append(("support", f"{len(found.support)} constraints" + (f": {shown}" if len(found.support) else "")))
    if found.delta_rank is not None:
        counted = _COUNTED.get(report.norm, "dimensions")
        rank, delta = found.delta_rank.rank, found.delta_rank.delta
        said.append(("delta-rank", f"all but {delta:.1e} of the norm of every optimum is in {rank} {counted}"))
    if found.n_clipped:
        share = f"their share is {found.clipped_mass:.1e}"
        said.append(("multipliers", f"{found.n_clipped} negative, clipped to zero; {share}"))
    if report.farkas is not None:
        said.append(("farkas", f"{int((found.multipliers > 0).sum())} weights prove it; --json lists them"))
    said += [(name, value) for name, value in (("point", report.out), ("proof", report.proof)) if value is not None]
    said.append(("CPU time", f"{report.cpu_seconds:.2f} s"))
    return said


@contextlib.contextmanager
def waiting(stream: TextIO | None) -> Iterator[Callable[[str], None]]:
    """A function `say(what)`; what was said last stands on `stream` when the block has run for two seconds.

    How much is left is not known, so that only the time so far is shown; `None`: nothing is.
    """
    if stream is None:
        yield lambda what: None
        return
    over, doing, start = threading.Event(), ["working"], time.monotonic()

    def tell() -> None:
        live, pause = stream.isatty(), _QUIET_FOR
        while not over.wait(pause):
            text = f"omegalimit: {doing[0]}, {time.monotonic() - start:.0f} s so far"
            print(f"\r{text}\x1b[K" if live else text, end="" if live else "\n", file=stream, flush=True)
            pause = 1.0 if live else _BETWEEN
        if live and pause != _QUIET_FOR:
            print("\r\x1b[K", end="", file=stream, flush=True)

    def tell_or_leave() -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader has gone, and the result matters more
            tell()

    def say(what: str) -> None:
        doing[0] = what

    thread = threading.Thread(target=tell_or_leave, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        over.set()
        thread.join()
