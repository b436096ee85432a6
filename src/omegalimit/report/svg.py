"""Figures as inline SVG: themable, described, small, and safe to put many of in one page.

Matplotlib draws once. Its identifiers are made unique by the figure's name, or dropped where nothing refers to them;
its style sheet, which would apply to the whole page, and its metadata are dropped. Text stays text in the page's own
font. Backgrounds are transparent, and the greys of the figures' style become variables of the page (`--ink`,
`--faint`, `--grid`), so that a figure is read in light and dark. White and other colours are data and stay. Black text
and fill, which Matplotlib leaves unsaid, take the colour of the text around.
"""

import io
import re
from typing import TYPE_CHECKING

import matplotlib
from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VARIABLES = {"#222222": "--ink", "#888888": "--faint", "#e4e4e4": "--grid"}
_REFERENCE = re.compile(r'(?:url\(#|href="#)([^")]+)')


def to_svg(figure: "Figure", *, name: str, title: str, description: str) -> Markup:
    """The figure as one `<svg>` element.

    - `name`: unique in the page; it begins every identifier.
    - `title`, `description`: what a screen reader says of the picture.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    prefix = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    hidden = [figure.patch, *(axes.patch for axes in figure.axes)]
    colours = [patch.get_facecolor() for patch in hidden]
    canvas, dpi = figure.canvas, figure.dpi
    buffer = io.StringIO()
    try:
        for patch in hidden:
            patch.set_facecolor("none")
        # A salt of its own: the identifiers, and so the page, are the same whenever it is made.
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
            # Not `savefig`, which would lay out and draw a second time.
            FigureCanvasSVG(figure).print_svg(
                buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
            )
    finally:
        for patch, colour in zip(hidden, colours, strict=True):
            patch.set_facecolor(colour)
        figure.dpi = dpi
        figure.set_canvas(canvas)
    text = buffer.getvalue()
    body = text[text.index(">", text.index("<svg ")) + 1 : text.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href=", "href=")
    body = _identifiers(body, prefix)
    body = re.sub(r"#(?:222222|888888|e4e4e4)\b", lambda m: f"var({_VARIABLES[m[0]]}, {m[0]})", body)
    body = re.sub(r"font: ((?:[a-z0-9]+ )*)([0-9.]+)px [^;\"]*", _font, body)
    body = re.sub(r"font-family: [^;\"]*(?:; )?", "", body)
    body = re.sub(r"\s*\n\s*", "\n", body.strip())
    width, height = (72 * inches for inches in figure.get_size_inches())
    return Markup(
        f'<svg class="plot" role="img" aria-labelledby="{prefix}-title {prefix}-desc" '
        f'viewBox="0 0 {width:g} {height:g}" style="--natural: {width * 4 / 3:.0f}px" '
        'fill="currentColor" stroke-linejoin="round" stroke-linecap="butt">'
        f'<title id="{prefix}-title">{escape(title)}</title><desc id="{prefix}-desc">{escape(description)}</desc>'
        f"{body}</svg>"
    )


def _identifiers(body: str, prefix: str) -> str:
    wanted = set(_REFERENCE.findall(body))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match[1]}"' if match[1] in wanted else ""

    body = re.sub(r'\sid="([^"]*)"', renamed, body)
    return _REFERENCE.sub(lambda m: m[0][: -len(m[1])] + f"{prefix}-{m[1]}", body)


def _font(match: re.Match[str]) -> str:
    """The size with weight and slant; the family is the page's."""
    words = match[1].split()
    said = f"font-size: {match[2]}px"
    said += "; font-weight: bold" if "bold" in words or "700" in words else ""
    return said + ("; font-style: italic" if {"italic", "oblique"} & set(words) else "")
