"""What a notebook shows of a run: its page, and its figures."""

import dataclasses
import html
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..record import Record, read
from ..store import Folder, open_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT = 640  # of the frame in a notebook, in pixels
# A notebook's theme is known by its text alone: the figures' greys are shades of that, on whatever ground it stands.
_INK = "; ".join(
    f"--{name}: color-mix(in srgb, currentColor {share}%, transparent)"
    for name, share in (("ink", 100), ("faint", 60), ("grid", 15))
)


@dataclasses.dataclass(frozen=True)
class Page:
    """A self-contained HTML page. A notebook shows it in a frame; `save` writes it."""

    html: str = dataclasses.field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page to `path`, whole or not at all, and return the path."""
        from ..store import write_text

        return write_text(Path(path), self.html)

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="omegalimit page" srcdoc="{html.escape(_in_frame(self.html))}" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
        )


def _in_frame(page: str) -> str:
    """The page for a `srcdoc`, whose links would lead to places in the notebook around it."""
    return page.replace("<head>", '<head><base href="about:srcdoc">', 1)


class Figures(Mapping[str, "Figure"]):
    """The figures of a run by name. A notebook shows all of them; each is a Matplotlib figure."""

    def __init__(self, figures: Mapping[str, "Figure"]) -> None:
        self._figures = dict(figures)

    def __getitem__(self, name: str) -> "Figure":
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __repr__(self) -> str:
        return f"Figures({', '.join(self._figures)})"

    def _repr_html_(self) -> str:
        shown = "".join(f"<div>{_shown(name, figure)}</div>" for name, figure in self.items())
        return f'<div style="{_INK}; font-family: sans-serif">{shown}</div>'


def _shown(name: str, figure: "Figure") -> str:
    """The figure under its title, which as a part of the picture would be cut off where that is narrow."""
    from .page import caption, hidden_title
    from .svg import to_svg

    title = hidden_title(figure)
    try:
        said = title or name.replace("-", " ")
        svg = to_svg(figure, name=f"notebook-{name}", title=said, description=caption(figure))
    finally:
        for text in figure.texts:
            if title and text.get_text() == title:
                text.set_visible(True)
                text.set_in_layout(True)
    width = 96 * figure.get_size_inches()[0]  # CSS has 96 pixels to the inch
    return f'<p>{html.escape(said)}</p><div style="max-width: {width:.0f}px">{svg}</div>'


def page(shown: Record | Folder | str | Path) -> Page:
    """The page of a record, or of a folder of records or of a sweep, or of either at a path.

    Raises `ValueError` when there is no such record or folder, `TypeError` for anything else, findings included: a page
    tells how to run it again, with which versions and seed, and that stands in a record.
    """
    if isinstance(shown, str | Path):
        shown = read(shown) if (Path(shown) / "record.json").exists() else open_folder(shown)
    if isinstance(shown, Record):
        from .page import page as page_of

        return Page(page_of(shown))
    if not isinstance(shown, Folder):
        said = "a page is made of a Record, a Folder, or the path of one (`write_record` makes a record of findings)"
        raise TypeError(f"{said}; got {type(shown).__name__}.")
    if shown.plan is None:
        from .compare import comparison

        return Page(comparison(shown))
    from .sweep_page import sweep_page

    return Page(sweep_page(shown))


def figures(shown: Any) -> Figures:
    """The figures of a record, of the record at a path, or of findings straight from a system's `check()`.

    Raises `ValueError` when there is no record at the path, `TypeError` for what has no `arrays`.
    """
    from . import figures as drawn

    if isinstance(shown, str | Path):
        shown = read(shown)
    if not isinstance(getattr(shown, "arrays", None), Mapping):
        raise TypeError(f"figures are drawn of a Record or of Findings; got {type(shown).__name__}.")
    return Figures(drawn.draw(shown))
