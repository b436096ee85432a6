"""Figures of softmax attention.

A record may hold, for each parametrisation P, the groups `P/trajectory` and `P/attention`:

- `P/trajectory`, dimension `point`: `log_time`, `log_sharpness`, `log_free_sharpness`, `log_loss_gap` (natural logs),
  `least_margin`, `gap` (point, norm), `singular_values` (point, index), `entropy_bound`;
- `P/attention`: `attention` (stage, input, token), `selected` (input), `best` (input), and `pixels` (input, token,
  column) where a token is a row of an image.

Times reach `e^700` and losses `e^-700`: the axes show base-10 logarithms as plain numbers, since the values themselves
do not fit into a float.
"""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...record import Record
from ._shared import (
    BLUE,
    GREEN,
    INK,
    LN10,
    ORANGE,
    PURPLE,
    figure_of,
    groups_of,
    leave_out,
    line,
    log10,
    numbers,
    panels,
)

# A norm looks the same in every panel, whichever is the limit there; l1 and l2 are the two norms on the diagonal.
_NORM_STYLES = {"nuclear": (BLUE, "o"), "l1": (BLUE, "o"), "frobenius": (ORANGE, "s"), "l2": (ORANGE, "s")}
# The smallest singular value worth a line: below it, rounding of a matrix of norm one.
_FLOOR = -17.0
_MOST_IMAGES = 8


def draw(record: Record) -> dict[str, Figure | None]:
    """`margins`, `gaps`, `singular-values`, `attention`, `attention-images`: a figure, or `None` without data."""
    return {
        "margins": _margins(groups_of(record, "trajectory")),
        "gaps": _gaps(groups_of(record, "trajectory")),
        "singular-values": _singular_values(groups_of(record, "trajectory")),
        "attention": _attention(groups_of(record, "attention")),
        "attention-images": _on_images(groups_of(record, "attention")),
    }


def _margins(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Loss gap (upper row) and least margin (lower row) against time."""
    shown = {
        name: data
        for name, data in groups.items()
        if numbers(data, "log_time") is not None
        and any(numbers(data, y) is not None for y in ("log_loss_gap", "least_margin"))
    }
    if not shown:
        return None
    figure = figure_of(1.0 + 2.9 * len(shown), 5.2)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col")
    for column, (name, data) in enumerate(shown.items()):
        time = np.asarray(data["log_time"], dtype=np.float64) / LN10
        rows = (("log_loss_gap", 1 / LN10, BLUE, "o"), ("least_margin", 1.0, ORANGE, "s"))
        for row, (variable, factor, colour, marker) in enumerate(rows):
            values = numbers(data, variable)
            if values is None:
                leave_out(axes[row, column])
            else:
                line(axes[row, column], time, factor * values, colour=colour, marker=marker)
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel("log₁₀ t   (physical time)")
    axes[0, 0].set_ylabel("log₁₀ (L − L*)")
    axes[1, 0].set_ylabel("least margin  (logit units)")
    figure.suptitle("Loss gap and least margin along the path", fontsize=11, x=0.01, ha="left")
    return figure


def _free_sharpness(data: Mapping[str, Any]) -> np.ndarray | None:
    """Log of the sharpness that the flow would have without its cap; the sharpness where that is not stored."""
    free = numbers(data, "log_free_sharpness")
    return numbers(data, "log_sharpness") if free is None else free


def _mark_cap(axes: Axes, data: Mapping[str, Any]) -> None:
    """A dotted line where the flow reached its cap, when it went on from there."""
    free, sharpness = numbers(data, "log_free_sharpness"), numbers(data, "log_sharpness")
    if free is not None and sharpness is not None and free.max() > sharpness.max() + 1e-6:
        axes.axvline(float(free[free <= sharpness + 1e-6].max()) / LN10, color=INK, linestyle=":", linewidth=0.9)


def _gaps(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Certified gap against the limit in each norm, with the entropy bound that the theory allows."""

    def panel(axes: Axes, data: Mapping[str, Any]) -> bool:
        gap, sharpness = numbers(data, "gap"), _free_sharpness(data)
        if gap is None or sharpness is None:
            return False
        styles = ((GREEN, "^"), (PURPLE, "D"))
        norms = [str(norm) for norm in np.asarray(data["norm"])] if "norm" in data else [""] * gap.shape[1]
        for column, norm in enumerate(norms):
            colour, marker = _NORM_STYLES.get(norm, styles[column % len(styles)])
            line(axes, sharpness / LN10, log10(gap[:, column]), colour=colour, marker=marker, label=f"{norm} gap")
        bound = numbers(data, "entropy_bound")
        if bound is not None:
            top = axes.get_ylim()[1]  # the bound says nothing above the gaps, and would squeeze them
            axes.plot(sharpness / LN10, log10(bound), color=INK, linestyle="--", linewidth=1.2, label="bound B(S)")
            axes.set_ylim(top=top)
        _mark_cap(axes, data)
        axes.legend(loc="best")
        return True

    return panels(
        groups,
        panel,
        title="Certified gap against the maximum margin in each norm  (right of the dotted line: S held at the cap)",
        x="log₁₀ S   (sharpness)",
        y="log₁₀ relative gap",
    )


def _singular_values(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Singular values of the normalised weights along the path."""

    def panel(axes: Axes, data: Mapping[str, Any]) -> bool:
        values, sharpness = numbers(data, "singular_values"), _free_sharpness(data)
        if values is None or sharpness is None:
            return False
        colours = matplotlib.colormaps["viridis"](np.linspace(0.3, 0.85, values.shape[1]))
        for index in range(values.shape[1]):
            label = f"σ{index + 1}" if index < 5 else None
            axes.plot(sharpness / LN10, log10(values[:, index]), color=colours[index], linewidth=1.3, label=label)
        _mark_cap(axes, data)
        bottom, top = max(axes.get_ylim()[0], _FLOOR), axes.get_ylim()[1]
        axes.set_ylim(bottom - 0.14 * (top - bottom), top)  # room for the legend
        axes.legend(loc="lower left", ncols=min(5, values.shape[1]), handlelength=1.0, columnspacing=0.8)
        return True

    return panels(
        groups,
        panel,
        title="Singular values of W / |W| along the path  (right of the dotted line: S held at the cap)",
        x="log₁₀ S   (sharpness)",
        y="log₁₀ singular value",
    )


def _attention(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Attention maps, a row for each parametrisation and a column for each stage."""
    shown = {name: data for name, data in groups.items() if numbers(data, "attention") is not None}
    if not shown:
        return None
    maps = {name: np.asarray(data["attention"], dtype=np.float64) for name, data in shown.items()}
    columns = max(len(stages) for stages in maps.values())
    heights = [max(1.5, min(3.4, 1.0 + 0.16 * stages.shape[1])) for stages in maps.values()]
    figure = figure_of(1.4 + 2.6 * columns, 0.9 + sum(heights))
    axes = figure.subplots(len(shown), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    image = None
    same_tokens = len({stages.shape[-1] for stages in maps.values()}) == 1
    for row, (name, data) in enumerate(shown.items()):
        stages = [str(s) for s in np.asarray(data["stage"])] if "stage" in data else [""] * len(maps[name])
        for column in range(columns):
            if column >= len(stages):
                axes[row, column].set_visible(False)
                continue
            image = _map(axes[row, column], maps[name][column], data)
            axes[row, column].set_title(f"{name}: {stages[column]}")
            below = same_tokens and row < len(shown) - 1
            axes[row, column].tick_params(labelleft=column == 0, labelbottom=not below)
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
    for axis, n in zip((axes.yaxis, axes.xaxis), attention.shape, strict=True):
        ticks = np.asarray(MaxNLocator(integer=True, min_n_ticks=1, nbins=6).tick_values(0, n - 1))
        axis.set_ticks(ticks[(ticks >= 0) & (ticks <= n - 1)])
    return image


def _on_images(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Attention on the images whose rows are the tokens: at the start and in the limit, for the first images."""
    shown = {name: data for name, data in groups.items() if numbers(data, "pixels") is not None}
    if not shown:
        return None
    columns = min(_MOST_IMAGES, max(np.asarray(data["pixels"]).shape[0] for data in shown.values()))
    figure = figure_of(0.8 + 1.25 * columns, 0.7 + 1.45 * 2 * len(shown))
    axes = figure.subplots(2 * len(shown), columns, squeeze=False)
    for place, (name, data) in enumerate(shown.items()):
        pixels, attention = (np.asarray(data[key], dtype=np.float64) for key in ("pixels", "attention"))
        for row, (stage, word) in enumerate(((0, "start"), (-1, "limit"))):
            for column in range(columns):
                here = axes[2 * place + row, column]
                if column >= len(pixels):
                    here.set_visible(False)
                    continue
                _image(here, pixels[column], attention[stage, column], data, column)
            axes[2 * place + row, 0].set_ylabel(f"{name}\n{word}", fontsize=8)
    figure.suptitle(
        "Attention on the image: shade of each row; ○ best-scored row, × row selected in the limit",
        fontsize=11,
        x=0.01,
        ha="left",
    )
    return figure


def _image(axes: Axes, pixels: np.ndarray, attention: np.ndarray, data: Mapping[str, Any], index: int) -> None:
    n_rows, n_columns = pixels.shape
    axes.imshow(pixels, cmap="gray_r", interpolation="nearest", aspect="equal", extent=(0, n_columns, n_rows, 0))
    for row, share in enumerate(attention):
        axes.fill_between([0, n_columns], row, row + 1, color=ORANGE, alpha=0.65 * float(share), linewidth=0)
    for variable, marker in (("best", "o"), ("selected", "x")):
        if variable in data:
            at = n_columns + 0.9, int(np.asarray(data[variable])[index]) + 0.5
            paint: dict[str, Any] = {"facecolors": "none", "edgecolors": INK} if marker == "o" else {"c": INK}
            axes.scatter(*at, marker=marker, s=34 if marker == "o" else 14, linewidths=1.1, clip_on=False, **paint)
    axes.set_xlim(0, n_columns + 1.8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
