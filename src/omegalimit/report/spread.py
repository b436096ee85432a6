"""Small drawings of many verdicts on one claim: the outcomes as a bar, and measured against bound as a spread.

Both are inline SVG of a few elements, however many the cells: ten thousand points are told by their quantiles.
"""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from ..claims import Kind
from ..store import ClaimSummary

_WIDTH, _LEFT, _RIGHT = 320.0, 14.0, 306.0
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FILLS = {"holds": "var(--holds)", "fails": "var(--fails)", "inconclusive": "var(--inconclusive)"}
MOST_POINTS = 60


def percent(share: float) -> str:
    """A share in percent; only what is exactly all or nothing is written so.

    >>> percent(1.0), percent(0.9996), percent(0.5), percent(float("nan"))
    ('100%', '>99.9%', '50%', 'none decided')
    """
    if math.isnan(share):
        return "none decided"
    if 0.999 < share < 1:
        return ">99.9%"
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{100 * share:.3g}%"


def told(claim: ClaimSummary) -> str:
    """The outcomes in one sentence.

    The interval is that of the share among the decided; what is not decided stands apart.
    """
    if claim.n_decided:
        low, high = claim.interval
        text = (
            f"holds in {claim.n_holds} of {claim.n_decided} decided cells: {percent(claim.share_holds)} "
            f"(95% interval {100 * low:.3g}% to {100 * high:.3g}%)"
        )
    else:
        text = "no cell is decided"
    if claim.n_inconclusive:
        text += f"; {claim.n_inconclusive} inconclusive"
    if claim.n_no_verdict:
        text += f"; {claim.n_no_verdict} without a verdict"
    if claim.n_decided < claim.n:
        low, high = claim.envelope
        text += f"; of all cells between {percent(low)} and {percent(high)}, however the undecided ones would end"
    return text


def bar(claim: ClaimSummary, *, name: str) -> Markup:
    """The outcomes as a bar in four parts, and under it the interval of the share among the decided."""
    parts = (
        ("holds", claim.n_holds),
        ("fails", claim.n_fails),
        ("inconclusive", claim.n_inconclusive),
        ("no verdict", claim.n_no_verdict),
    )
    drawn, at = [], _LEFT
    for outcome, count in parts:
        width = (_RIGHT - _LEFT) * count / claim.n
        fill = _FILLS.get(outcome, "none")
        edge = ' stroke="var(--soft)" stroke-dasharray="2 2"' if outcome == "no verdict" else ""
        if count:
            drawn.append(f'<rect x="{at:.2f}" y="4" width="{width:.2f}" height="14" fill="{fill}"{edge}/>')
        at += width
    if claim.n_decided:
        low, high = (_LEFT + (_RIGHT - _LEFT) * end for end in claim.interval)
        drawn.append(
            f'<path d="M{low:.1f} 22 v8 M{low:.1f} 26 H{high:.1f} M{high:.1f} 22 v8" stroke="var(--ink)" '
            'stroke-width="1.5" fill="none"/>'
        )
    for share in (0, 50, 100):
        x = _LEFT + (_RIGHT - _LEFT) * share / 100
        drawn.append(f'<text x="{x:.1f}" y="41" text-anchor="middle" fill="var(--faint)">{share}%</text>')
    return _svg(drawn, name, told(claim), height=44)


def spread(claim: ClaimSummary, ratios: Sequence[float], *, name: str) -> Markup:
    """Measured over bound in all cells, on a logarithmic axis with the bound at one; empty when none is positive.

    Points where there are few; else a bar from the first to the last hundredth, the quartiles, and the median.
    """
    positive = sorted(r for r in ratios if math.isfinite(r) and r > 0)
    if not positive:
        return Markup("")
    logs = [math.log10(r) for r in positive]
    low, high = min(logs[0], 0.0), max(logs[-1], 0.0)
    room = max(0.12 * (high - low), 0.15)
    low, high = low - room, high + room

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)

    start, end = (x(0.0), _RIGHT) if claim.kind is Kind.LOWER else (_LEFT, x(0.0))
    drawn = [
        f'<rect x="{start:.1f}" y="5" width="{end - start:.1f}" height="20" fill="var(--zone)"/>',
        f'<line x1="{x(0.0):.1f}" x2="{x(0.0):.1f}" y1="3" y2="27" stroke="var(--zone-edge)" stroke-width="2.5"/>',
    ]

    def quantile(share: float) -> float:
        place = share * (len(logs) - 1)
        below = math.floor(place)
        above = min(below + 1, len(logs) - 1)
        return logs[below] + (place - below) * (logs[above] - logs[below])

    if len(logs) <= MOST_POINTS:
        drawn += [f'<circle cx="{x(v):.1f}" cy="15" r="3" fill="var(--ink)" fill-opacity="0.55"/>' for v in logs]
    else:
        q1, q3 = x(quantile(0.25)), x(quantile(0.75))
        drawn += [
            f'<line x1="{x(quantile(0.01)):.1f}" x2="{x(quantile(0.99)):.1f}" y1="15" y2="15" stroke="var(--ink)" '
            'stroke-width="1.5"/>',
            f'<rect x="{q1:.1f}" y="10" width="{max(q3 - q1, 1):.1f}" height="10" fill="var(--soft)"/>',
            *(f'<circle cx="{x(v):.1f}" cy="15" r="2" fill="var(--ink)"/>' for v in (logs[0], logs[-1])),
        ]
    middle = x(quantile(0.5))
    drawn.append(f'<path d="M{middle:.1f} 7 v16" stroke="var(--ink)" stroke-width="2"/>')
    step = max(1, math.ceil((high - low) / 5))
    for power in range(math.ceil(low), math.floor(high) + 1):
        if power % step == 0:
            label = "bound" if power == 0 else f"10{str(power).translate(_SUPERSCRIPT)}"
            drawn.append(f'<text x="{x(power):.1f}" y="38" text-anchor="middle" fill="var(--faint)">{label}</text>')
    left = len(ratios) - len(positive)
    text = f"measured over bound: median {10 ** quantile(0.5):.3g}, from {positive[0]:.3g} to {positive[-1]:.3g}"
    return _svg(drawn, name, text + (f"; {left} cells are zero, negative or not finite" if left else ""), height=41)


def _svg(parts: Sequence[str], name: str, title: str, *, height: float) -> Markup:
    return Markup(
        f'<svg class="verdict-line" role="img" aria-labelledby="{escape(name)}" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'font-size="9.5"><title id="{escape(name)}">{escape(title)}</title>{"".join(parts)}</svg>'
    )
