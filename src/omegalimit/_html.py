"""How results look in a notebook: small tables, readable in light and dark, every text escaped.

Duck-typed, so that every room may use it: a verdict is anything with a verdict's attributes.
"""

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

_SIGNS = {"holds": "✓", "fails": "✗", "inconclusive": "?"}


def escaped(value: Any) -> str:
    """The value as text, escaped."""
    return html.escape(number(value) if isinstance(value, float) else str(value))


def number(value: float | None) -> str:
    """A number as the tables write it.

    >>> number(0.00012345), number(float("nan")), number(float("inf")), number(None)
    ('0.000123', 'not a number', '∞', '')
    """
    if value is None:
        return ""
    if math.isnan(value):
        return "not a number"
    return f"{value:.3g}" if math.isfinite(value) else ("∞" if value > 0 else "-∞")


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]], *, caption: str = "") -> str:
    """A table in the notebook's own colours."""
    head = "".join(f'<th scope="col" style="text-align: left">{escaped(h)}</th>' for h in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align: left">{escaped(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    said = f'<caption style="text-align: left">{escaped(caption)}</caption>' if caption else ""
    inside = f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x: auto" tabindex="0">{inside}</div>'


def pairs(facts: Mapping[str, Any], *, caption: str = "") -> str:
    """A table of names and values."""
    return table(("", ""), facts.items(), caption=caption)


def verdicts(several: Iterable[Any], *, caption: str = "") -> str:
    """One row for each verdict: claim, where, outcome by sign and word, numbers, what stands beside it."""
    rows = []
    for v in several:
        sign = "≥" if v.kind.value == "lower bound" else "≤"
        beside = [v.undecided] if v.undecided else []
        beside += [f"not met: {c.name}" for c in v.conditions if c.holds is False]
        beside += [f"outside the theorem: {a.name}" for a in v.assumptions if a.holds is False]
        numbers = number(v.measured), f"{sign} {number(v.bound)}", number(v.slack)
        outcome = f"{_SIGNS[v.outcome.value]} {v.outcome.value}"
        rows.append((v.claim, v.parametrisation, outcome, *numbers, v.unit, "; ".join(beside)))
    headings = ("claim", "parametrisation", "outcome", "measured", "bound", "slack", "unit", "remarks")
    return table(headings, rows, caption=caption)
