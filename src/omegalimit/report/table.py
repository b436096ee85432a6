"""The verdicts as a table in plain words, for the terminal."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from .._html import remarks as remarks
from ..claims import Kind, Outcome, Verdict
from ..record import CounterResult, Writable, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..store import Folder

_STYLE = {Outcome.HOLDS: "green", Outcome.FAILS: "bold red", Outcome.INCONCLUSIVE: "yellow"}
# Where the output is not a terminal there is no width to fit: wide enough that no number is folded.
_WIDTH = 150


def show(findings: Writable, counters: Sequence[CounterResult], file: TextIO) -> None:
    """Print the verdicts, or those of each counter-instance, then the notes and what did not apply."""
    console = _console(file)
    if findings.verdicts or not counters:
        console.print(table(findings.verdicts))
        console.print(f"{summary(findings.verdicts)}.")
    for counter in counters:
        console.print(f"\ncounter-instance {counter.name}: {counter.text}")
        console.print(table(counter.verdicts))
        said = "as it should be" if counter.as_expected else "NOT AS IT SHOULD BE"
        expected = ", ".join(f"{claim} ({where})" for claim, where in counter.expected)
        console.print(f"{counter.name} {said}; expected not to hold: {expected}.")
    for note in findings.notes:
        console.print(f"note: {note}")
    for claim, reason in findings.not_applicable.items():
        console.print(f"not applicable: {claim}: {reason}")


def _console(file: TextIO) -> "Console":
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would end the process here; that is for the caller to decide

    return Plain(file=file, width=None if file.isatty() else _WIDTH, highlight=False, markup=False)


def show_folder(folder: "Folder", file: TextIO) -> None:
    """Print how often each claim holds over the records of a folder, then what failed, grouped by its reason."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = _console(file)
    claims = folder.summary()
    rows = Table(box=SIMPLE_HEAD, pad_edge=False)
    several = len({claim.system for claim in claims}) > 1
    for heading in (*(("system",) if several else ()), "claim", "parametrisation"):
        rows.add_column(heading, overflow="fold")
    for heading in ("holds", "fails", "inconclusive", "no verdict", "share that holds", "median", "unit"):
        rows.add_column(heading, justify="left" if heading == "unit" else "right", overflow="fold")
    for c in claims:
        low, high = c.interval
        share = f"{c.share_holds:.3g}  [{low:.3f}, {high:.3f}]" if c.n_decided else "-"
        counts = (c.n_holds, c.n_fails, c.n_inconclusive, c.n_no_verdict)
        head = (c.system,) if several else ()
        rows.add_row(*head, c.claim, c.parametrisation, *map(str, counts), share, f"{c.measured[1]:.3g}", c.unit)
    if claims:
        console.print(rows)
        console.print("share: of the decided; in brackets 95% Clopper-Pearson intervals.")
    console.print(f"{folder_words(folder)}.")
    for reason, n in Counter(failure.reason for failure in folder.failures).most_common(10):
        console.print(f"failed ({n}): {reason}")


def folder_words(folder: "Folder") -> str:
    """What is in a folder, in one line."""
    parts = [f"{len(folder.cells)} records"]
    for n, words in (
        (len(folder.failures), "cells failed"),
        (len(folder.missing), "cells were not run"),
        (len(folder.damaged), "could not be read"),
        (len(folder.earlier), "records of earlier calls"),
    ):
        parts += [f"{n} {words}"] if n else []
    return ", ".join(parts)


def folder_document(folder: "Folder") -> dict[str, object]:
    """What `show_folder` says, in JSON's own types."""
    claims = []
    for c in folder.summary():
        derived = {"share_holds": c.share_holds, "interval": c.interval, "envelope": c.envelope}
        claims.append(plain({**vars(c), **derived}))
    return {
        "folder": str(folder.path),
        "system": None if folder.plan is None else folder.plan["system"],
        "records": len(folder.cells),
        "claims": claims,
        "failures": [plain(vars(failure) | {"traceback": None}) for failure in folder.failures],
        "missing": list(folder.missing),
        "damaged": dict(folder.damaged),
        "earlier": len(folder.earlier),
    }


def table(verdicts: Sequence[Verdict]) -> "Table":
    """One row for each verdict: what was claimed and where, the outcome, the numbers, and what limits them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("claim", "parametrisation", "outcome"):
        rows.add_column(heading, overflow="fold")
    for heading in ("measured", "bound", "slack"):
        rows.add_column(heading, justify="right", no_wrap=True)
    rows.add_column("unit", overflow="fold")
    rows.add_column("remarks", overflow="fold")
    for v in verdicts:
        sign = ">=" if v.kind is Kind.LOWER else "<="
        rows.add_row(
            Text(v.claim),
            Text(v.parametrisation),
            Text(v.outcome.value, style=_STYLE[v.outcome]),
            f"{v.measured:.3g}",
            f"{sign} {v.bound:.3g}",
            f"{v.slack:.1g}",
            Text(v.unit),
            Text("; ".join(remarks(v))),
        )
    return rows


def summary(verdicts: Sequence[Verdict]) -> str:
    """The count of each outcome, in words.

    >>> summary([])
    'no claim could be judged'
    """
    if not verdicts:
        return "no claim could be judged"
    counts = Counter(v.outcome for v in verdicts)
    words = (("hold", Outcome.HOLDS), ("fail", Outcome.FAILS), ("inconclusive", Outcome.INCONCLUSIVE))
    return f"{len(verdicts)} verdicts: " + ", ".join(f"{counts[outcome]} {word}" for word, outcome in words)
