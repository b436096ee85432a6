"""What every figure shares: style, palette, and the way from a record's groups to panels."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogFormatterSciNotation, NullLocator

from ...record import Record

LN10 = np.log(10.0)
# Okabe and Ito's palette, told apart by readers with any of the common colour vision deficiencies.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK, FAINT = "#222222", "#888888"
ON_LIGHT = "#111111"  # text on light data: unlike INK, a page keeps it dark where its own ground is dark
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # else Matplotlib measures all ticks once more for each title
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.color": INK,
    "ytick.color": INK,
}


def groups_of(record: Record, kind: str) -> dict[str, Mapping[str, Any]]:
    """The datasets `P/kind` by parametrisation; those of counter-instances are left to the reader of the arrays."""
    found = {}
    for group, dataset in record.arrays.items():
        name, _, last = group.rpartition("/")
        if last == kind and name and not name.startswith("counters/"):
            found[name] = dataset
    return found


def numbers(dataset: Mapping[str, Any], name: str) -> np.ndarray | None:
    """The variable as float64, or `None` when it is missing or holds no finite number."""
    if name not in dataset:
        return None
    values = np.asarray(dataset[name], dtype=np.float64)
    return values if np.isfinite(values).any() else None


def log10(values: np.ndarray) -> np.ndarray:
    """Base-10 logarithm; NaN, which draws nothing, where there is none."""
    return np.log10(np.where(values > 0, values, np.nan))


_SUPERSCRIPTS = str.maketrans("−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class PowersAsText(Formatter):
    """The ticks of a logarithmic axis as text, 2×10⁻³, in place of formulas, which take a quarter of a page's time."""

    def __init__(self, formulas: LogFormatterSciNotation) -> None:
        self._formulas = formulas

    def set_locs(self, locs: list[float]) -> None:
        self._formulas.set_locs(locs)

    def __call__(self, x: float, pos: int | None = None) -> str:
        text = self._formulas(x, pos)
        found = re.fullmatch(r"\$\\mathdefault\{(.*)\}\$", text)
        if found is None:
            return text
        plain = found[1].replace(r"\times", "×").replace("-", "−")
        return re.sub(r"\^\{([^}]*)\}", lambda power: power[1].translate(_SUPERSCRIPTS), plain)


def plain_ticks(figure: Figure) -> None:
    """Have the ticks of the figure's logarithmic axes written as text, and only powers marked where there are a few.

    Each tick is five of Matplotlib's objects, measured several times.
    """
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(formulas := axis.get_major_formatter(), LogFormatterSciNotation):
                axis.set_major_formatter(PowersAsText(formulas))
                low, high = sorted(axis.get_view_interval())
                if 0 < 100 * low <= high:
                    axis.set_minor_locator(NullLocator())
            if isinstance(formulas := axis.get_minor_formatter(), LogFormatterSciNotation):
                axis.set_minor_formatter(PowersAsText(formulas))


def figure_of(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(
    groups: Mapping[str, Mapping[str, Any]],
    panel: Callable[[Axes, Mapping[str, Any]], bool],
    *,
    title: str,
    x: str,
    y: str,
) -> Figure | None:
    """One panel for each parametrisation for which `panel` drew something; `None` when there is none."""
    shown = dict(groups)
    while shown:
        columns = min(3, len(shown))
        rows = -(-len(shown) // columns)
        figure = figure_of(0.6 + 3.5 * columns, 0.6 + 2.9 * rows)
        axes = figure.subplots(rows, columns, squeeze=False)
        drawn = [panel(here, data) for here, data in zip(axes.flat, shown.values(), strict=False)]
        if all(drawn):
            break
        shown = {name: data for (name, data), there in zip(shown.items(), drawn, strict=True) if there}
    else:
        return None
    for index, name in enumerate(shown):
        here = axes.flat[index]
        here.set_title(name)
        here.set_xlabel(x)
        if index % columns == 0:
            here.set_ylabel(y)
    for empty in axes.flat[len(shown) :]:
        empty.set_visible(False)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def line(axes: Axes, x: np.ndarray, y: np.ndarray, *, colour: str, marker: str, label: str | None = None) -> None:
    """A line with a few marks on it, so that it is told apart without its colour."""
    finite = np.isfinite(x) & np.isfinite(y)
    # A share of the axes' diagonal between the marks, not of the points: points crowd at the start.
    axes.plot(x[finite], y[finite], color=colour, marker=marker, markevery=0.14, markersize=4, label=label)


def leave_out(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", va="center", color=FAINT)
    axes.set_yticks([])
