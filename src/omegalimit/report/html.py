"""Pages from templates: the one door to Jinja2.

Everything that a template prints is escaped unless it is `Markup`, and a name that a template uses and nobody gave is
an error, not an empty string. A page holds all that it needs: it makes no request and needs no script.
"""

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..record import plain

_TEMPLATES = Path(__file__).with_name("templates")
_SIGNS = {"holds": "✓", "fails": "✗", "inconclusive": "?", "no verdict": "!", "not run": "–"}


def render(template: str, **context: Any) -> str:
    """The template of that file name, filled in; one that extends `base.html` is a whole page."""
    return _environment().get_template(template).render(**context)


def number(value: object, digits: int = 3) -> str:
    """A number as the page writes it; what is no number is said in words.

    >>> number(0.000123456), number(float("nan")), number(float("-inf")), number(None), number(True), number(12)
    ('0.000123', 'not a number', '-∞', 'none', 'yes', '12')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{digits}g}"


def prose(text: str) -> Markup:
    """Text with `code` between backticks, escaped.

    >>> prose("`a < b` & c")
    Markup('<code>a &lt; b</code> &amp; c')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def outcome(word: str) -> Markup:
    """The outcome as a word with a sign, so that it is read without its colour."""
    kind = word.replace(" ", "-")
    return Markup('<span class="outcome {}"><span aria-hidden="true">{}</span> {}</span>').format(
        kind, _SIGNS.get(word, "·"), word
    )


def pretty(value: object) -> str:
    """JSON text of anything, indented."""
    return json.dumps(plain(value), indent=1, ensure_ascii=False)


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "prose": prose, "outcome": outcome, "pretty": pretty}
    return made
