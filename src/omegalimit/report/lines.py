"""A verdict on one line: measured with its slack, the bound, and the side that the claim allows, on one axis.

The axis is logarithmic where all three ends are positive and span a decade or more, else linear. It reaches at most
thirty decades from the bound: what lies beyond is an arrow at the edge, and said. What is not finite is not drawn, and
said.
"""

import dataclasses
import math

from markupsafe import Markup, escape

from ..claims import Kind, Outcome, Verdict

_WIDTH, _LEFT, _RIGHT, _Y = 320.0, 14.0, 306.0, 15.0
_DECADES = 30.0
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axis:
    """Where numbers stand: `low` and `high` are the ends (exponents of ten when `log`)."""

    log: bool
    low: float
    high: float

    def share(self, value: float) -> float:
        """The place of `value` in units of the axis: 0 at its start, 1 at its end; -inf for no place on a log axis."""
        if self.log:
            if value <= 0:
                return -math.inf
            value = math.log10(value)
        # In units of the larger end: the difference of two floats may overflow, and the half of one may vanish.
        unit = max(abs(self.low), abs(self.high))
        return (value / unit - self.low / unit) / (self.high / unit - self.low / unit)

    def x(self, value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(max(self.share(value), 0.0), 1.0)


def axis(verdict: Verdict) -> Axis | None:
    """The axis of the verdict; `None` when neither the measured number nor the bound is finite."""
    numbers = [value for value in (verdict.measured, verdict.bound) if math.isfinite(value)]
    if not numbers:
        return None
    least, most = min(numbers), max(numbers)
    if least > 0 and (most / least >= 10 or most / least == math.inf):
        low, high = math.log10(least), math.log10(most)
        if math.isfinite(verdict.bound):
            middle = math.log10(verdict.bound)
            low, high = max(low, middle - _DECADES), min(high, middle + _DECADES)
        margin = 0.12 * (high - low)
        return Axis(log=True, low=low - margin, high=high + margin)
    slack = verdict.slack if math.isfinite(verdict.slack) else 0.0
    # The slack has its room, but may not push the numbers themselves together.
    reach = min(slack, 4 * (most / 2 - least / 2) + max(abs(least), abs(most)))
    ends = [*numbers, 0.0] if least >= 0 or most <= 0 else numbers
    if math.isfinite(verdict.measured):
        ends += [verdict.measured - reach, verdict.measured + reach]
    low, high = (max(min(end, 1.5e308), -1.5e308) for end in (min(ends), max(ends)))
    if low == high:
        return Axis(log=False, low=low - 1.0, high=high + 1.0) if low == 0 else Axis(log=False, low=0.0, high=2 * high)
    room = 0.12 * (high / 2 - low / 2)
    low = low if low == 0 and verdict.kind is not Kind.LOWER and least > 0 else low - room
    return Axis(log=False, low=max(low, -1.7e308), high=min(high + room, 1.7e308))


def said(verdict: Verdict) -> str:
    """The numbers of the verdict in one plain sentence, with what the line cannot show.

    >>> from omegalimit.claims import Kind
    >>> numbers = dict(measured=2.0, bound=3.0, slack=0.1, unit="nats")
    >>> said(Verdict(claim="c", parametrisation="p", loss="l", kind=Kind.LOWER, **numbers))
    'measured 2 ± 0.1, must be at least 3 (nats)'
    """
    side = "at least" if verdict.kind is Kind.LOWER else "at most"
    measured = f"measured {_word(verdict.measured)}"
    if math.isfinite(verdict.measured) and verdict.slack:
        measured += f" ± {verdict.slack:.1g}" if math.isfinite(verdict.slack) else ", error not known"
    text = f"{measured}, must be {side} {_word(verdict.bound)} ({verdict.unit})"
    place = axis(verdict)
    if place is not None and math.isfinite(verdict.measured) and not 0 <= place.share(verdict.measured) <= 1:
        text += "; the measured number lies beyond the axis"
    return text


def line(verdict: Verdict, *, name: str) -> Markup:
    """The verdict as a small SVG; `name`, unique in the page, begins its identifiers. Empty when nothing is finite."""
    place = axis(verdict)
    if place is None:
        return Markup("")
    parts = [f'<line x1="{_LEFT:g}" x2="{_RIGHT:g}" y1="{_Y:g}" y2="{_Y:g}" stroke="var(--line)" stroke-width="1"/>']
    if math.isfinite(verdict.bound):
        parts += _bound(verdict, place)
    for at, text in _ticks(place):
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="25" y2="28" stroke="var(--faint)" stroke-width="1"/>')
        parts.append(f'<text x="{at:.1f}" y="38" text-anchor="middle" fill="var(--faint)">{text}</text>')
    if math.isfinite(verdict.measured):
        parts += _measured(verdict, place)
    title = f"{verdict.outcome.value}: {said(verdict)}"
    return Markup(
        f'<svg class="verdict-line" role="img" aria-labelledby="{escape(name)}" viewBox="0 0 {_WIDTH:g} 41" '
        f'font-size="9.5"><title id="{escape(name)}">{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _bound(verdict: Verdict, place: Axis) -> list[str]:
    at = place.x(verdict.bound)
    start, end = (at, _RIGHT) if verdict.kind is Kind.LOWER else (_LEFT, at)
    return [
        f'<rect x="{start:.1f}" y="6" width="{max(end - start, 0):.1f}" height="18" fill="var(--zone)"/>',
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="3" y2="27" stroke="var(--zone-edge)" stroke-width="2.5"/>',
    ]


def _measured(verdict: Verdict, place: Axis) -> list[str]:
    value, slack = verdict.measured, verdict.slack
    colour = f"var(--{verdict.outcome.value})"
    at = place.x(value)
    left, right = place.x(value - slack), place.x(value + slack)
    parts = []
    if right - left > 1:
        parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="15" y2="15" stroke="{colour}" stroke-width="2"/>')
        for end, number in ((left, value - slack), (right, value + slack)):
            if 0 <= place.share(number) <= 1:
                parts.append(
                    f'<line x1="{end:.1f}" x2="{end:.1f}" y1="11" y2="19" stroke="{colour}" stroke-width="2"/>'
                )
    if not 0 <= place.share(value) <= 1:
        tip = at + (-9 if place.share(value) < 0 else 9)
        parts.append(f'<path d="M{at:.1f} 9 L{tip:.1f} 15 L{at:.1f} 21 Z" fill="{colour}"/>')
    elif verdict.outcome is Outcome.HOLDS:
        parts.append(f'<circle cx="{at:.1f}" cy="15" r="5" fill="{colour}"/>')
    elif verdict.outcome is Outcome.FAILS:
        parts.append(
            f'<path d="M{at - 5:.1f} 10 l10 10 m0 -10 l-10 10" stroke="{colour}" stroke-width="3" fill="none"/>'
        )
    else:
        parts.append(
            f'<circle cx="{at:.1f}" cy="15" r="4.5" fill="var(--paper)" stroke="{colour}" stroke-width="2.5"/>'
        )
    return parts


def _ticks(place: Axis) -> list[tuple[float, str]]:
    """Places and labels: powers of ten, or round numbers; at most five."""
    span = place.high - place.low if place.log else place.high / 2 - place.low / 2
    if place.log:
        step = max(1, math.ceil(span / 4.5))
        powers = range(math.ceil(place.low), math.floor(place.high) + 1)
        made = [p for p in powers if p % step == 0]
        scale = (_RIGHT - _LEFT) / span
        return [(_LEFT + scale * (p - place.low), f"10{str(p).translate(_SUPERSCRIPT)}") for p in made]
    rough = span / 2  # span is half the axis: four steps
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 1e-307 else rough
    step = next((m * power for m in (1, 2, 5, 10) if m * power >= rough), rough)
    if step == 0:
        return []
    first, last = math.ceil(place.low / step), math.floor(place.high / step)
    return [(place.x(k * step), f"{k * step:.3g}") for k in range(first, last + 1)]


def _word(value: float) -> str:
    if math.isnan(value):
        return "not a finite number"
    return f"{value:.3g}" if math.isfinite(value) else ("∞" if value > 0 else "-∞")
