"""The page of a sweep: how often each claim holds, how far from its bound, against which setting, and what failed.

Made from the folder alone; nothing is run. Everything is told by counts and quantiles, so that a page of ten thousand
cells is as large as one of ten.
"""

import dataclasses
import json
import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..store import Cell, ClaimSummary, Failure, Folder
from . import spread
from .html import number, render
from .table import folder_words

_MOST_LISTED = 30  # failing cells named one by one; the table has all of them
_MOST_VALUES = 40  # rows of the table of settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One claim on the page: its drawings, and the sentence beside them."""

    claim: ClaimSummary
    told: str
    bar: Markup
    spread: Markup
    spread_told: str


def sweep_page(folder: Folder) -> str:
    """The page of the sweep, whole: it makes no request and needs no script. Raises `ValueError` without a plan."""
    if folder.plan is None:
        raise ValueError(f"{str(folder.path)!r} is no sweep: it has no `sweep.json`.")
    claims = folder.summary()
    ratios = _ratios(folder.cells)
    rows = []
    for index, claim in enumerate(claims):
        values = ratios[claim.claim, claim.parametrisation, claim.loss]
        drawn = spread.spread(claim, values, name=f"s-{index}")
        rows.append(
            Row(
                claim=claim,
                told=spread.told(claim),
                bar=spread.bar(claim, name=f"b-{index}"),
                spread=drawn,
                spread_told=_spread_told(claim),
            )
        )
    failing = list(_failing(folder.cells))
    return render(
        "sweep.html",
        folder=folder,
        plan=folder.plan,
        answer=answer(folder, claims),
        words=folder_words(folder),
        rows=rows,
        grid=settings_table(folder, claims),
        figure=_figure(folder, claims),
        failures=grouped_failures(folder.failures),
        failing=failing[:_MOST_LISTED],
        n_failing=len(failing),
        command=_command(folder),
        asked=[(name, json.dumps(value)) for name, value in {**folder.plan["options"], **folder.plan["grid"]}.items()],
        seeds=_seeds_told(folder.plan["seeds"]),
        seconds=_seconds(folder.cells),
        versions=_versions(folder.cells),
        number=number,
    )


def answer(folder: Folder, claims: Sequence[ClaimSummary]) -> str:
    """What was found, in one sentence; what fails comes first."""
    if not claims:
        return f"No cell of {_n_cells(folder)} gave a verdict."
    fails = [c for c in claims if c.n_fails]
    never = [c for c in claims if not c.n_decided]
    parts = []
    if fails:
        worst = min(fails, key=lambda c: c.share_holds)
        parts.append(
            f"{len(fails)} of {len(claims)} claims {'fails' if len(fails) == 1 else 'fail'} somewhere, most often "
            f"{worst.claim} ({worst.parametrisation}), in {worst.n_fails} cells"
        )
    else:
        decided = len(claims) - len(never)
        parts.append(
            f"All {len(claims)} claims hold wherever they are decided"
            if not never
            else f"{decided} of {len(claims)} claims hold wherever they are decided, and {len(never)} nowhere are"
        )
    if n := sum(c.n_inconclusive for c in claims):
        parts.append(f"{n} verdicts are inconclusive")
    if folder.failures:
        parts.append(f"{len(folder.failures)} of {_n_cells(folder)} cells gave no verdict")
    if folder.missing:
        parts.append(f"{len(folder.missing)} cells were not run")
    return "; ".join(parts) + "."


def _n_cells(folder: Folder) -> int:
    return len(folder.cells) + len(folder.failures) + len(folder.missing)


def _ratios(cells: Sequence[Cell]) -> dict[tuple[str, str, str], list[float]]:
    """Measured over bound, by claim, parametrisation and loss; NaN where one of them is not finite."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cell in cells:
        for row in cell.rows:
            measured, bound = row[5], row[6]
            ratio = math.nan if measured is None or not bound else measured / bound
            found[row[0], row[1], row[2]].append(ratio)
    return found


def _spread_told(claim: ClaimSummary) -> str:
    low, middle, high = claim.measured
    if math.isnan(middle):
        return "measured: nowhere finite"
    least, most = claim.median_interval
    interval = f", 95% interval of the median {least:.3g} to {most:.3g}" if math.isfinite(least) else ""
    return f"measured: median {middle:.3g} (quartiles {low:.3g} and {high:.3g}{interval}), {claim.unit}"


def settings_table(folder: Folder, claims: Sequence[ClaimSummary]) -> dict[str, Any] | None:
    """The share that holds by setting, a row for each combination of the grid and a column for each claim.

    `None` without a grid, or with too many combinations for a table.
    """
    assert folder.plan is not None
    fields = list(folder.plan["grid"])
    names = [(c.claim, c.parametrisation, c.loss) for c in claims]
    if not fields or not names:
        return None
    counts: dict[tuple[str, ...], dict[Any, Counter]] = defaultdict(lambda: defaultdict(Counter))
    for cell in folder.cells:
        at = tuple(json.dumps(cell.settings.get(field)) for field in fields)
        for row in cell.rows:
            counts[at][row[0], row[1], row[2]][row[4]] += 1
    lost = Counter(tuple(json.dumps(f.settings.get(field)) for field in fields) for f in folder.failures)
    places = list(dict.fromkeys([*counts, *lost]))
    if len(places) > _MOST_VALUES:
        return None
    rows = []
    for at in places:
        shown = []
        for name in names:
            c = counts[at][name]
            decided = c["holds"] + c["fails"]
            share = c["holds"] / decided if decided else math.nan
            text = f"{spread.percent(share)} of {decided}" if decided else ("?" if c["inconclusive"] else "–")
            kind = "fails" if c["fails"] else "holds" if c["holds"] else "inconclusive"
            shown.append((text, kind, c["inconclusive"]))
        rows.append((at, shown, lost[at]))
    return {"fields": fields, "claims": [(c.claim, c.parametrisation) for c in claims], "rows": rows}


def grouped_failures(failures: Sequence[Failure]) -> list[tuple[str, int, Failure]]:
    """The reasons, most frequent first, each with its count and one example."""
    by_reason: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        by_reason[failure.reason].append(failure)
    ordered = sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    return [(reason, len(several), several[0]) for reason, several in ordered]


def _failing(cells: Sequence[Cell]) -> Iterator[tuple[Cell, list[str], str | None]]:
    """The cells in which a claim fails, which claims, and the command that runs the cell alone."""
    for cell in cells:
        names = [f"{row[0]} ({row[1]})" for row in cell.rows if row[4] == "fails"]
        if names:
            yield cell, names, None if cell.command is None else shlex.join(("omegalimit", *cell.command))


def _command(folder: Folder) -> str:
    plan = folder.plan
    assert plan is not None
    words = ["omegalimit", "sweep", plan["system"]]
    for name, value in plan["options"].items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    for name, values in plan["grid"].items():
        words += ["--grid", f"{name}={','.join(map(str, values))}"]
    return shlex.join([*words, "--seeds", _seeds_told(plan["seeds"]), "--out", folder.path.name])


def _seeds_told(seeds: Sequence[int]) -> str:
    """The seeds as they are typed: a range where they are one."""
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}:{seeds[-1] + 1}"
    return ",".join(map(str, seeds))


def _seconds(cells: Sequence[Cell]) -> str | None:
    known = sorted(c.cpu_seconds for c in cells if c.cpu_seconds is not None)
    if not known:
        return None
    return f"{sum(known):.3g} s of processor time in all; {known[len(known) // 2]:.3g} s in the median cell"


def _versions(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """For each package the versions that the cells were made with, with the number of cells where they differ."""
    found: dict[str, Counter] = defaultdict(Counter)
    for cell in cells:
        for package, version in cell.versions.items():
            found[package][version or "not installed"] += 1
    return [
        (package, next(iter(c)) if len(c) == 1 else "MIXED: " + ", ".join(f"{v} in {n} cells" for v, n in c.items()))
        for package, c in found.items()
    ]


def _figure(folder: Folder, claims: Sequence[ClaimSummary]) -> tuple[str, Markup] | None:
    """Measured over bound against each numeric field of the grid, a panel for each claim; `None` without one."""
    assert folder.plan is not None
    numeric = [
        field
        for field, values in folder.plan["grid"].items()
        if len(values) > 1 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    ]
    if not numeric or not claims:
        return None
    from .figures import sweep as figures

    field = numeric[0]
    points: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for cell in folder.cells:
        at = cell.settings.get(field)
        for row in cell.rows:
            if at is not None and row[5] is not None and row[6]:
                points[row[0], row[1], row[2]].append((float(at), row[5] / row[6]))
    shown = {
        f"{c.claim} ({c.parametrisation})": points[c.claim, c.parametrisation, c.loss]
        for c in claims
        if points[c.claim, c.parametrisation, c.loss]
    }
    figure = figures.against(shown, field)
    if figure is None:
        return None
    from .svg import to_svg

    title = f"Measured over bound against {field}"
    text = "Line: median; band: quartiles; dashed: the bound. Claims that are lower bounds must lie above it."
    return title, to_svg(figure, name="against", title=title, description=text)


def mapping_text(settings: Mapping[str, Any]) -> str:
    """Settings in one line."""
    return ", ".join(f"{name} = {value}" for name, value in settings.items())
