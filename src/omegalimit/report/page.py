"""The page of one record: verdicts in plain words, the dynamics, proof, assumptions, how to run it again.

Made from the record alone; nothing is run. What an older record does not hold (what the system says of itself, the
command) is left out, and said.
"""

import contextlib
import dataclasses
import gc
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ..claims import Kind, Outcome, Verdict
from ..record import Record, plain
from . import lines, words
from .html import number, render
from .table import remarks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "report.html"
_MOST_ROWS = 40  # of a table of details; the raw details beside it have everything
_ASKED = {
    Kind.EQUALITY: "an equality, to within the bound",
    Kind.UPPER: "an upper bound",
    Kind.LOWER: "a lower bound",
    Kind.RATE: "a rate",
    Kind.INVARIANT: "an invariant, kept to within the bound",
    Kind.COUNT: "a count",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One verdict on the page: where it was judged, its anchor, its line, its numbers, and what stands beside it."""

    verdict: Verdict
    where: str
    anchor: str
    line: Markup
    numbers: str
    remarks: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """All verdicts on one claim, with its sentence (`None` where the record has none) and what it asks."""

    name: str
    sentence: str | None
    asked: str
    rows: tuple[Row, ...]

    @property
    def outcomes(self) -> list[tuple[str, int]]:
        """How many verdicts have each outcome, those with none left out."""
        counts = Counter(row.verdict.outcome for row in self.rows)
        return [(o.value, counts[o]) for o in Outcome if counts[o]]


def save(record: Record, folder: str | Path) -> Path:
    """Write the page of the record as `report.html` into `folder` and return its path."""
    path = Path(folder) / NAME
    path.write_text(page(record), encoding="utf-8")
    return path


def page(record: Record) -> str:
    """The page of the record, whole: it makes no request and needs no script."""
    with _without_collector():
        return _page(record)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Matplotlib makes and keeps objects by the hundred thousand; going through them again and again takes a tenth."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _page(record: Record) -> str:
    about = record.about
    said = words.sentences(about.text) if about else {}
    claims = grouped(record.verdicts, said, prefix="v")
    rows = [row for claim in claims for row in claim.rows]
    ran = {counter.name for counter in record.counters}
    return render(
        "record.html",
        record=record,
        about=about,
        story=words.blocks(about.text) if about else [],
        answer=answer(record),
        attention=[r for o in (Outcome.FAILS, Outcome.INCONCLUSIVE) for r in rows if r.verdict.outcome is o],
        claims=claims,
        figures=list(figures_of(record)),
        proofs=[(claim, *_details(claim)) for claim in claims if any(r.verdict.details for r in claim.rows)],
        assumptions=assumptions(record.verdicts),
        counters=[
            (counter, grouped(counter.verdicts, said, prefix=f"c{index}"))
            for index, counter in enumerate(record.counters)
        ],
        not_run=[
            (name, text, _shell((*_without_counters(record), "--counter", name)) if record.command else None)
            for name, text in (about.counters if about else {}).items()
            if name not in ran
        ],
        command=_shell(record.command) if record.command else None,
        python=python_lines(record),
        settings=list(_settings(record)),
        versions=[(name, version or "not installed") for name, version in record.versions.items()],
        machine=[*_flat(record.platform), *(("threads: " + key, value) for key, value in _flat(record.threads))],
        cost=_cost(record),
    )


def answer(record: Record) -> str:
    """What was found, in one sentence; what fails comes first.

    Counter-instances are told apart: they should not hold.
    """
    counts = Counter(v.outcome for v in record.verdicts)
    n = len(record.verdicts)
    parts = []
    if n and counts[Outcome.HOLDS] == n:
        parts.append("The claim that was judged holds" if n == 1 else f"All {n} verdicts hold")
    elif n:
        said = [
            f"{counts[o]} {one if counts[o] == 1 else many}"
            for o, one, many in (
                (Outcome.FAILS, "fails", "fail"),
                (Outcome.INCONCLUSIVE, "is inconclusive", "are inconclusive"),
                (Outcome.HOLDS, "holds", "hold"),
            )
            if counts[o]
        ]
        parts.append(f"Of {n} verdict{'s' if n > 1 else ''} " + _listed(said))
    elif record.counters:
        parts.append("Counter-instances were run, and no claim was judged beside them")
    else:
        parts.append("No claim could be judged")
    if outside := sum(v.outside_theorem for v in record.verdicts):
        parts.append(f"{outside} {'lies' if outside == 1 else 'lie'} outside the theorem: an assumption does not hold")
    if record.counters:
        wrong = [c.name for c in record.counters if not c.as_expected]
        if wrong:
            parts.append("counter-instances that held where they should not: " + ", ".join(wrong))
        else:
            k = len(record.counters)
            parts.append(
                "the counter-instance failed as it should"
                if k == 1
                else f"all {k} counter-instances failed as they should"
            )
    return "; ".join(parts) + "."


def grouped(verdicts: Sequence[Verdict], said: Mapping[str, str], *, prefix: str) -> list[Claim]:
    """The verdicts by claim, in their order; `prefix` begins the anchor of each, and must be unique in the page."""
    several = len({v.loss for v in verdicts}) > 1
    by_claim: dict[str, list[Row]] = defaultdict(list)
    for index, v in enumerate(verdicts):
        anchor = f"{prefix}-{index}"
        by_claim[v.claim].append(
            Row(
                verdict=v,
                where=f"{v.parametrisation}, {v.loss} loss" if several else v.parametrisation,
                anchor=anchor,
                line=lines.line(v, name=f"{anchor}-line"),
                numbers=lines.said(v),
                remarks=tuple(remarks(v)),
            )
        )
    return [
        Claim(
            name=name,
            sentence=said.get(name),
            asked=_listed(list(dict.fromkeys(_ASKED[row.verdict.kind] for row in rows))),
            rows=tuple(rows),
        )
        for name, rows in by_claim.items()
    ]


def assumptions(verdicts: Sequence[Verdict]) -> list[tuple[str, str, str, str]]:
    """Name, state, number and where, of each assumption and condition found; those that do not hold come first."""
    found: dict[tuple[str, bool | None, str], dict[str, None]] = defaultdict(dict)
    for v in verdicts:
        for kind, several in (("", v.assumptions), (" (part of the claim)", v.conditions)):
            for a in several:
                measured = "" if a.measured is None else number(a.measured)
                found[a.name + kind, a.holds, measured].setdefault(f"{v.claim} ({v.parametrisation})")
    states = {False: "does not hold", None: "not decided", True: "holds"}
    ordered = sorted(found.items(), key=lambda entry: list(states).index(entry[0][1]))
    return [
        (name, states[holds], measured, _many(list(where), len(verdicts))) for (name, holds, measured), where in ordered
    ]


def python_lines(record: Record) -> str | None:
    """The lines that run it again from Python; `None` where the record does not know its command."""
    if record.command is None or record.about is None or len(record.command) < 2:
        return None
    name = record.command[1]
    typed = {word.partition("=")[0] for word in record.command if word.startswith("--")}
    defaults = record.about.defaults
    names = [f for f in defaults if f in record.settings and _flag(f) & typed]
    arguments = ", ".join(f"{f}={record.settings[f]!r}" for f in names)
    module, colon, cls = name.rpartition(":")
    if not colon:
        made = f"import omegalimit as ol\n\nsystem = ol.load({name!r})({arguments})"
    elif module.endswith(".py"):
        stem = Path(module).stem
        made = f"# in the folder of {module}\nfrom {stem} import {cls}\n\nsystem = {cls}({arguments})"
    else:
        made = f"from {module} import {cls}\n\nsystem = {cls}({arguments})"
    return f"{made}\nfindings = system.check()\nprint([(v.claim, v.outcome.value) for v in findings.verdicts])"


def _flag(field: str) -> set[str]:
    words_ = field.replace("_", "-")
    return {f"--{words_}", f"--no-{words_}", f"--{field}"}


def _without_counters(record: Record) -> Iterator[str]:
    assert record.command is not None
    skip = False
    for word in record.command:
        if not skip and word not in ("--with-counters", "--counter") and not word.startswith("--counter="):
            yield word
        skip = word == "--counter"


def _shell(command: Sequence[str]) -> str:
    return shlex.join(("omegalimit", *command))


def figures_of(record: Record, *, prefix: str = "figure-") -> Iterator[tuple[str, str, Markup, str]]:
    """Name, title, SVG and caption of each figure; `prefix`, unique in the page, begins the identifiers."""
    if not record.arrays:
        return
    from . import figures  # Matplotlib: a second

    for name, figure in figures.draw(record).items():
        title = hidden_title(figure) or name.replace("-", " ")
        yield name, title, _svg(figure, prefix + name, title), caption(figure)


def _svg(figure: "Figure", name: str, title: str) -> Markup:
    from .svg import to_svg

    return to_svg(figure, name=name, title=title, description=caption(figure))


def hidden_title(figure: "Figure") -> str:
    """The figure's title, which becomes the heading of the page's text and is taken out of the picture."""
    title = figure.get_suptitle()
    for text in figure.texts:
        if title and text.get_text() == title:
            text.set_visible(False)
            text.set_in_layout(False)
    return title


def caption(figure: "Figure") -> str:
    """What is on the axes, and the panels by name."""
    shown = [axes for axes in figure.axes if axes.get_visible()]

    def distinct(texts: list[str]) -> list[str]:
        return list(dict.fromkeys(re.sub(r"\s+", " ", text).strip() for text in texts if text.strip()))

    parts = []
    if across := distinct([axes.get_xlabel() for axes in shown]):
        parts.append(f"Across: {_listed(across)}.")
    if up := distinct([axes.get_ylabel() for axes in shown]):
        parts.append(f"Up: {_listed(up)}.")
    if len(panels := distinct([axes.get_title() or axes.get_title(loc="left") for axes in shown])) > 1:
        parts.append(f"Panels: {', '.join(panels)}.")
    return " ".join(parts)


def _details(claim: Claim) -> tuple[list[tuple[str, list[str]]], int, Any]:
    """Rows of the table of a claim's details (a column for each verdict), how many were left out, and all of it."""
    columns = [dict(_flat(row.verdict.details)) for row in claim.rows]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    table = [(key, [column.get(key, "") for column in columns]) for key in keys[:_MOST_ROWS]]
    return table, max(0, len(keys) - _MOST_ROWS), {row.where: row.verdict.details for row in claim.rows}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Names and texts of the numbers in nested mappings and lists; long lists in one line."""
    if isinstance(value, Mapping) and value:
        for key, entry in value.items():
            yield from _flat(entry, f"{path}, {key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        for index, entry in enumerate(value):
            yield from _flat(entry, f"{path} {index + 1}")
    else:
        yield path or "value", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        if not value:
            return "none"
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
        if numeric and len(value) > 6:
            if min(value) == max(value):
                return f"{len(value)} times {number(value[0], 4)}"
            return f"{len(value)} numbers from {number(min(value), 4)} to {number(max(value), 4)}"
        shown = ", ".join(map(_text, value[:6]))
        return f"[{shown}]" if len(value) <= 6 else f"[{shown}, … {len(value)} in all]"
    if isinstance(value, Mapping):
        return "none" if not value else ", ".join(f"{k}: {_text(v)}" for k, v in value.items())
    return number(value, 4)


def _settings(record: Record) -> Iterator[tuple[str, str, str]]:
    """Name, value, and what is to be said of it: those that were changed come first, those that were found last."""
    defaults = {} if record.about is None else {k: plain(v) for k, v in record.about.defaults.items()}
    sections: tuple[list, list, list] = ([], [], [])
    for name, value in record.settings.items():
        # In full: a setting is for typing again.
        shown = value if isinstance(value, str) else ("none" if value is None else str(value))
        if len(shown) > 400:
            shown = _text(value) if not isinstance(value, str) else shown
        if name not in defaults:
            sections[2].append((name, shown, "" if record.about is None else "found in the run"))
        elif plain(value) != defaults[name]:
            default = defaults[name]
            sections[0].append((name, shown, f"changed; {'none' if default is None else default} by default"))
        else:
            sections[1].append((name, shown, "default"))
    for section in sections:
        yield from section


def _cost(record: Record) -> str:
    said = [
        f"{number(seconds)} s {what}"
        for seconds, what in ((record.wall_seconds, "on the clock"), (record.cpu_seconds, "of processor time"))
        if seconds is not None
    ]
    return _listed(said) if said else "not measured"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def _many(where: Sequence[str], everything: int) -> str:
    if len(where) == everything > 1:
        return "every verdict"
    return ", ".join(where) if len(where) <= 4 else f"{', '.join(where[:3])} and {len(where) - 3} more"
