"""Progress on the standard error stream: what is being done, how much is behind, how long it may still take."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TextIO

_SILENT_FOR = 3.0  # seconds between two lines where there is no terminal to redraw


def remaining(elapsed: float, fraction: float) -> str:
    """The time still needed if the rest goes at the pace so far; grows while nothing moves.

    No estimate is given in the first second or on the first two hundredths: it would be a guess.

    >>> remaining(10.0, 0.25), remaining(120.0, 0.5), remaining(0.5, 0.5)
    ('about 30 s left', 'about 2 min left', '')
    """
    if fraction < 0.02 or elapsed < 1.0:
        return ""
    left = elapsed * (1 - fraction) / fraction
    return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"


class Lines:
    """Progress where there is no terminal: a line now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = self._last = time.monotonic()

    def __call__(self, text: str, fraction: float) -> None:
        now = time.monotonic()
        if now - self._last < _SILENT_FOR:
            return
        self._last = now
        parts = (f"{100 * min(max(fraction, 0.0), 1.0):.0f} %", text, remaining(now - self._start, fraction))
        print("omegalimit: " + " · ".join(part for part in parts if part), file=self._stream, flush=True)

    def above(self, text: str) -> None:
        """A line that stays."""
        print(f"omegalimit: {text}", file=self._stream, flush=True)


class Bar:
    """Progress on a terminal: one line that is redrawn, and wiped at the end."""

    def __init__(self, bar, task) -> None:
        self._bar, self._task = bar, task

    def __call__(self, text: str, fraction: float) -> None:
        self._bar.update(self._task, completed=min(max(fraction, 0.0), 1.0), description=text)

    def above(self, text: str) -> None:
        """A line that stays, above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)


@contextlib.contextmanager
def shown(stream: TextIO) -> Iterator[Lines | Bar]:
    """A progress function `progress(text, fraction)` that shows itself on `stream` while the block runs."""
    if not stream.isatty():
        yield Lines(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(remaining(task.elapsed or 0.0, task.completed))

    class Doing(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(task.description)

    columns = (BarColumn(bar_width=24), TaskProgressColumn(), Left(), Doing())
    with Progress(*columns, console=Console(file=stream), transient=True, redirect_stdout=False) as bar:
        yield Bar(bar, bar.add_task("starting", total=1.0))


class CellCounts(Protocol):
    """How far a sweep is; `outcomes` has the verdicts of all its cells by outcome."""

    n_cells: int
    n_there: int
    n_ran: int
    n_failed: int
    outcomes: dict[str, int]


def counts_text(counts: CellCounts) -> str:
    """The counts in words; what is zero is left out but for the cells done."""
    parts = [f"{counts.n_there + counts.n_ran} of {counts.n_cells} cells"]
    parts += [f"{counts.n_failed} failed"] if counts.n_failed else []
    words = {"holds": "hold", "fails": "fail", "inconclusive": "inconclusive"}
    said = [f"{n} {words[outcome]}" for outcome, n in counts.outcomes.items() if n]
    return ", ".join(parts) + (f"; verdicts: {', '.join(said)}" if said else "")


def failure_text(line: Mapping[str, Any]) -> str:
    """A failure as it is shown when it happens: which cell, and why, in one line."""
    said = " ".join(f"{line['error']}: {line['message']}".split())
    return f"cell {line['key']} (seed {line['seed']}) gave no verdict: {said}"


@contextlib.contextmanager
def counted(stream: TextIO | None) -> Iterator[Callable[[CellCounts, Mapping[str, Any] | None], None]]:
    """A function that shows a sweep's counts on `stream` as cells finish, and each failure as it happens."""
    if stream is None:
        yield lambda counts, line: None
        return
    with shown(stream) as show:

        def watch(counts: CellCounts, line: Mapping[str, Any] | None) -> None:
            if line is not None and "error" in line:
                show.above(failure_text(line))
            done = counts.n_there + counts.n_ran + counts.n_failed
            show(counts_text(counts), done / counts.n_cells)

        yield watch
