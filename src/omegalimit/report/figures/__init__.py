"""Figures of a record, made from its arrays alone; nothing is run again.

Each module of this folder draws what its systems leave in the record, and says at its head which groups it reads. What
is missing is left out; a figure with nothing to show is not made.
"""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from ...record import Record
from . import alignment, attention, collapse, diagonal, monomial, quadratic, shifted, sign, stopping
from ._shared import STYLE, plain_ticks

_MODULES = (attention, diagonal, quadratic, shifted, alignment, sign, stopping, collapse, monomial)


def save(record: Record, folder: str | Path) -> list[Path]:
    """Write every figure of the record into `folder` as PNG and return the paths."""
    paths = []
    for name, figure in draw(record).items():
        paths.append(Path(folder) / f"{name}.png")
        figure.savefig(paths[-1], dpi=130, metadata={"Software": None})
    return paths


def draw(record: Record) -> dict[str, Figure]:
    """The figures of the record by name, those that have data."""
    with matplotlib.rc_context(STYLE):
        made = {name: figure for module in _MODULES for name, figure in module.draw(record).items()}
    drawn = {name: figure for name, figure in made.items() if figure is not None}
    for figure in drawn.values():
        plain_ticks(figure)
    return drawn
