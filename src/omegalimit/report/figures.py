"""Figures of a record, made from its arrays alone; nothing is run again.

A record may hold, for each parametrisation P, the groups `P/trajectory` and `P/attention`:

- `P/trajectory`, dimension `point`: `log_time`, `log_sharpness`, `log_free_sharpness`, `log_loss_gap` (natural logs),
  `least_margin`, `gap` (point, norm), `singular_values` (point, index), `entropy_bound`;
- `P/attention`: `attention` (stage, input, token), `selected` (input), `best` (input).

What is missing is left out; a figure with nothing to show is not made. Times reach `e^700` and losses `e^-700`:
the axes show base-10 logarithms as plain numbers, since the values themselves do not fit into a float.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..record import Record

_LN10 = np.log(10.0)
# Okabe and Ito's palette, told apart by readers with any of the common colour vision deficiencies.
_BLUE, _ORANGE, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_INK, _FAINT = "#222222", "#888888"
# A norm looks the same in every panel, whichever is the limit there; l1 and l2 are the two norms on the diagonal.
_NORM_STYLES = {"nuclear": (_BLUE, "o"), "l1": (_BLUE, "o"), "frobenius": (_ORANGE, "s"), "l2": (_ORANGE, "s")}
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
# The smallest singular value worth a line: below it, rounding of a matrix of norm one.
_FLOOR = -17.0


def save(record: Record, folder: str | Path) -> list[Path]:
    """Write every figure of the record into `folder` as PNG and return the paths."""
    paths = []
    for name, figure in draw(record).items():
        paths.append(Path(folder) / f"{name}.png")
        figure.savefig(paths[-1], dpi=130, metadata={"Software": None})
    return paths


def draw(record: Record) -> dict[str, Figure]:
    """The figures of the record by name: `margins`, `gaps`, `singular-values`, `attention`, those that have data."""
    with matplotlib.rc_context(_STYLE):
        made = {
            "margins": _margins(_groups(record, "trajectory")),
            "gaps": _gaps(_groups(record, "trajectory")),
            "singular-values": _singular_values(_groups(record, "trajectory")),
            "attention": _attention(_groups(record, "attention")),
        }
    return {name: figure for name, figure in made.items() if figure is not None}


def _groups(record: Record, kind: str) -> dict[str, Mapping[str, Any]]:
    """The datasets `P/kind` by parametrisation; those of counter-instances are left to the reader of the arrays."""
    found = {}
    for group, dataset in record.arrays.items():
        name, _, last = group.rpartition("/")
        if last == kind and name and not name.startswith("counters/"):
            found[name] = dataset
    return found


def _values(dataset: Mapping[str, Any], name: str) -> np.ndarray | None:
    """The variable as float64, or `None` when it is missing or holds no finite number."""
    if name not in dataset:
        return None
    values = np.asarray(dataset[name], dtype=np.float64)
    return values if np.isfinite(values).any() else None


def _log10(values: np.ndarray) -> np.ndarray:
    """Base-10 logarithm; NaN, which draws nothing, where there is none."""
    return np.log10(np.where(values > 0, values, np.nan))


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _margins(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Loss gap (upper row) and least margin (lower row) against time."""
    shown = {
        name: data
        for name, data in groups.items()
        if _values(data, "log_time") is not None
        and any(_values(data, y) is not None for y in ("log_loss_gap", "least_margin"))
    }
    if not shown:
        return None
    figure = _figure(1.0 + 2.9 * len(shown), 5.2)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col")
    for column, (name, data) in enumerate(shown.items()):
        time = np.asarray(data["log_time"], dtype=np.float64) / _LN10
        rows = (("log_loss_gap", 1 / _LN10, _BLUE, "o"), ("least_margin", 1.0, _ORANGE, "s"))
        for row, (variable, factor, colour, marker) in enumerate(rows):
            values = _values(data, variable)
            if values is None:
                _leave_out(axes[row, column])
            else:
                _line(axes[row, column], time, factor * values, colour=colour, marker=marker)
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel("log₁₀ t   (physical time)")
    axes[0, 0].set_ylabel("log₁₀ (L − L*)")
    axes[1, 0].set_ylabel("least margin  (logit units)")
    figure.suptitle("Loss gap and least margin along the path", fontsize=11, x=0.01, ha="left")
    return figure


def _free_sharpness(data: Mapping[str, Any]) -> np.ndarray | None:
    """Log of the sharpness that the flow would have without its cap; the sharpness where that is not stored."""
    free = _values(data, "log_free_sharpness")
    return _values(data, "log_sharpness") if free is None else free


def _mark_cap(axes: Axes, data: Mapping[str, Any]) -> None:
    """A dotted line where the flow reached its cap, when it went on from there."""
    free, sharpness = _values(data, "log_free_sharpness"), _values(data, "log_sharpness")
    if free is not None and sharpness is not None and free.max() > sharpness.max() + 1e-6:
        axes.axvline(float(free[free <= sharpness + 1e-6].max()) / _LN10, color=_INK, linestyle=":", linewidth=0.9)


def _gaps(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Certified gap against the limit in each norm, with the entropy bound that the theory allows."""

    def panel(axes: Axes, data: Mapping[str, Any]) -> bool:
        gap, sharpness = _values(data, "gap"), _free_sharpness(data)
        if gap is None or sharpness is None:
            return False
        styles = ((_GREEN, "^"), (_PURPLE, "D"))
        norms = [str(norm) for norm in np.asarray(data["norm"])] if "norm" in data else [""] * gap.shape[1]
        for column, norm in enumerate(norms):
            colour, marker = _NORM_STYLES.get(norm, styles[column % len(styles)])
            _line(axes, sharpness / _LN10, _log10(gap[:, column]), colour=colour, marker=marker, label=f"{norm} gap")
        bound = _values(data, "entropy_bound")
        if bound is not None:
            top = axes.get_ylim()[1]  # the bound says nothing above the gaps, and would squeeze them
            axes.plot(sharpness / _LN10, _log10(bound), color=_INK, linestyle="--", linewidth=1.2, label="bound B(S)")
            axes.set_ylim(top=top)
        _mark_cap(axes, data)
        axes.legend(loc="best")
        return True

    return _panels(
        groups,
        panel,
        title="Certified gap against the maximum margin in each norm  (right of the dotted line: S held at the cap)",
        x="log₁₀ S   (sharpness)",
        y="log₁₀ relative gap",
    )


def _singular_values(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Singular values of the normalised weights along the path."""

    def panel(axes: Axes, data: Mapping[str, Any]) -> bool:
        values, sharpness = _values(data, "singular_values"), _free_sharpness(data)
        if values is None or sharpness is None:
            return False
        colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, values.shape[1]))
        for index in range(values.shape[1]):
            label = f"σ{index + 1}" if index < 5 else None
            axes.plot(sharpness / _LN10, _log10(values[:, index]), color=colours[index], linewidth=1.3, label=label)
        _mark_cap(axes, data)
        bottom, top = max(axes.get_ylim()[0], _FLOOR), axes.get_ylim()[1]
        axes.set_ylim(bottom - 0.14 * (top - bottom), top)  # room for the legend
        axes.legend(loc="lower left", ncols=min(5, values.shape[1]), handlelength=1.0, columnspacing=0.8)
        return True

    return _panels(
        groups,
        panel,
        title="Singular values of W / |W| along the path  (right of the dotted line: S held at the cap)",
        x="log₁₀ S   (sharpness)",
        y="log₁₀ singular value",
    )


def _attention(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Attention maps, a row for each parametrisation and a column for each stage."""
    shown = {name: data for name, data in groups.items() if _values(data, "attention") is not None}
    if not shown:
        return None
    maps = {name: np.asarray(data["attention"], dtype=np.float64) for name, data in shown.items()}
    columns = max(len(stages) for stages in maps.values())
    heights = [max(1.5, min(3.4, 1.0 + 0.16 * stages.shape[1])) for stages in maps.values()]
    figure = _figure(1.4 + 2.6 * columns, 0.9 + sum(heights))
    axes = figure.subplots(len(shown), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    image = None
    for row, (name, data) in enumerate(shown.items()):
        stages = [str(s) for s in np.asarray(data["stage"])] if "stage" in data else [""] * len(maps[name])
        for column in range(columns):
            if column >= len(stages):
                axes[row, column].set_visible(False)
                continue
            image = _map(axes[row, column], maps[name][column], data)
            axes[row, column].set_title(f"{name}: {stages[column]}")
        axes[row, 0].set_ylabel("input")
    for bottom in axes[-1]:
        bottom.set_xlabel("token")
    if image is not None:
        figure.colorbar(image, ax=axes, label="attention", shrink=0.7, aspect=30)
    figure.suptitle("Attention: ○ best-scored token, × token selected in the limit", fontsize=11, x=0.01, ha="left")
    return figure


def _map(axes: Axes, attention: np.ndarray, data: Mapping[str, Any]) -> Any:
    image = axes.imshow(attention, cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axes.grid(visible=False)
    size = float(np.clip(420 / max(attention.shape), 4, 70))
    for variable, marker, scale in (("best", "o", 1.0), ("selected", "x", 0.3)):
        if variable in data:
            tokens = np.asarray(data[variable], dtype=np.int64)
            # White below the middle of the colour scale, dark above it: the mark is seen on every cell.
            dark = attention[np.arange(len(tokens)), tokens] > 0.55
            colours = ["#000000" if d else "#ffffff" for d in dark]
            paint: dict[str, Any] = {"facecolors": "none", "edgecolors": colours} if marker == "o" else {"c": colours}
            paint |= {"s": scale * size, "linewidths": 1.2}
            axes.scatter(tokens, np.arange(len(tokens)), marker=marker, **paint)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, nbins=6))
    return image


def _panels(
    groups: Mapping[str, Mapping[str, Any]],
    panel: Callable[[Axes, Mapping[str, Any]], bool],
    *,
    title: str,
    x: str,
    y: str,
) -> Figure | None:
    """One panel for each parametrisation for which `panel` drew something; `None` when there is none."""
    scratch = Figure().add_subplot()
    shown = {name: data for name, data in groups.items() if panel(scratch, data)}
    if not shown:
        return None
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = _figure(0.6 + 3.5 * columns, 0.6 + 2.9 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for index, (name, data) in enumerate(shown.items()):
        here = axes.flat[index]
        panel(here, data)
        here.set_title(name)
        here.set_xlabel(x)
        if index % columns == 0:
            here.set_ylabel(y)
    for empty in axes.flat[len(shown) :]:
        empty.set_visible(False)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, *, colour: str, marker: str, label: str | None = None) -> None:
    """A line with a few marks on it, so that it is told apart without its colour."""
    finite = np.isfinite(x) & np.isfinite(y)
    # A share of the axes' diagonal between the marks, not of the points: points crowd at the start.
    axes.plot(x[finite], y[finite], color=colour, marker=marker, markevery=0.14, markersize=4, label=label)


def _leave_out(axes: Axes) -> None:
    axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", va="center", color=_FAINT)
    axes.set_yticks([])
