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
            f'<iframe title="omegalimit page" srcdoc="{html.escape(self.html)}" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
        )


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
        from .svg import to_svg

        # A notebook has no variables of ours: the figures' own colours on their own ground.
        shown = (to_svg(f, name=f"notebook-{n}", title=n, description=n) for n, f in self._figures.items())
        return '<div style="background: #ffffff; color: #222222">' + "".join(shown) + "</div>"


def page(shown: Record | Folder | str | Path) -> Page:
    """The page of a record, or of a folder of records or of a sweep, or of either at a path.

    Raises `ValueError` when there is no such record or folder.
    """
    if isinstance(shown, str | Path):
        shown = read(shown) if (Path(shown) / "record.json").exists() else open_folder(shown)
    if isinstance(shown, Record):
        from .page import page as page_of

        return Page(page_of(shown))
    if not isinstance(shown, Folder):
        raise TypeError(f"a page is made of a Record, a Folder, or the path of one; got {type(shown).__name__}.")
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
