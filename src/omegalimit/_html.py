"""How results look in a notebook: small tables in the notebook's own colours, light or dark, every text escaped.

Duck-typed, so that every room may use it: a verdict is anything with a verdict's attributes. What stands beside an
outcome is worded here once, for the terminal, the notebook and the page alike.
"""

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

_SIGNS = {"holds": "✓", "fails": "✗", "inconclusive": "?"}


def escaped(value: Any) -> str:
    """The value as text, escaped."""
    return html.escape(number(value) if isinstance(value, float) else str(value))


def number(value: float | None, digits: int = 3) -> str:
    """A number as the tables write it.

    >>> number(0.00012345), number(float("nan")), number(float("inf")), number(None), number(0.123456789, 8)
    ('0.000123', 'not a number', '∞', '', '0.12345679')
    """
    if value is None:
        return ""
    if math.isnan(value):
        return "not a number"
    return f"{value:.{digits}g}" if math.isfinite(value) else ("∞" if value > 0 else "-∞")


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]], *, caption: str = "") -> str:
    """A table in the notebook's own colours."""
    head = "".join(f'<th scope="col" style="text-align: left">{escaped(h)}</th>' for h in headings)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return _framed(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", caption)


def pairs(facts: Mapping[str, Any], *, caption: str = "") -> str:
    """A table of names and values."""
    body = "".join(
        f'<tr><th scope="row" style="text-align: left">{escaped(name)}</th>{_cell(value)}</tr>'
        for name, value in facts.items()
    )
    return _framed(f"<tbody>{body}</tbody>", caption)


def _cell(value: Any) -> str:
    return f'<td style="text-align: left">{escaped(value)}</td>'


def _framed(inside: str, caption: str) -> str:
    said = f'<caption style="text-align: left">{escaped(caption)}</caption>' if caption else ""
    return f'<div style="overflow-x: auto" tabindex="0"><table>{said}{inside}</table></div>'


def paragraphs(lines: Iterable[str]) -> str:
    """Each line in a paragraph of its own."""
    return "".join(f"<p>{escaped(line)}</p>" for line in lines)


def verdicts(several: Iterable[Any], *, caption: str = "") -> str:
    """One row for each verdict: claim, where, outcome by sign and word, numbers, what stands beside it."""
    rows = []
    for v in several:
        sign = "≥" if v.kind.value == "lower bound" else "≤"
        numbers = number(v.measured), f"{sign} {number(v.bound)}", number(v.slack)
        outcome = f"{_SIGNS[v.outcome.value]} {v.outcome.value}"
        rows.append((v.claim, v.parametrisation, outcome, *numbers, v.unit, "; ".join(remarks(v))))
    headings = ("claim", "parametrisation", "outcome", "measured", "bound", "slack", "unit", "remarks")
    return table(headings, rows, caption=caption)


def remarks(verdict: Any) -> list[str]:
    """What stands beside the outcome: why it is undecided, which condition failed, what is outside the theorem."""
    said = [] if verdict.undecided is None else [verdict.undecided]
    said += [f"not met: {c.name}" for c in verdict.conditions if c.holds is False]
    said += [f"not decided: {c.name}" for c in verdict.conditions if c.holds is None]
    said += [f"outside the theorem: {a.name}" for a in verdict.assumptions if a.holds is False]
    said += [f"assumption not decided: {a.name}" for a in verdict.assumptions if a.holds is None]
    return said


def beside(notes: Iterable[str], not_applicable: Mapping[str, str]) -> str:
    """What a run says beside its verdicts."""
    said = [f"note: {note}" for note in notes]
    return paragraphs(said + [f"not applicable: {claim}: {reason}" for claim, reason in not_applicable.items()])


def bounds(certificate: Any, *, of: str, facts: Mapping[str, Any]) -> str:
    """A certificate: its two bounds on `of`, how far they are apart, and what else is to be said of it."""
    shown = {
        "lower bound": number(certificate.lower, 8),
        "upper bound": number(certificate.upper, 8),
        "relative gap": f"{number(certificate.gap)} ± {number(certificate.relative_slack, 1)}",
    }
    return pairs({**shown, **facts}, caption=f"{of}, from both sides")


def found(given: bool) -> str:
    """Where a certificate's multipliers come from."""
    return "given" if given else "found here from the point"
