"""Progress on the standard error stream: what is being done, how much is behind, how long it may still take."""

import contextlib
import time
from collections.abc import Iterator
from typing import TextIO

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


class Bar:
    """Progress on a terminal: one line that is redrawn, and wiped at the end."""

    def __init__(self, bar, task) -> None:
        self._bar, self._task = bar, task

    def __call__(self, text: str, fraction: float) -> None:
        self._bar.update(self._task, completed=min(max(fraction, 0.0), 1.0), description=text)


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
