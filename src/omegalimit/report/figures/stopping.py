"""Figures of early stopping.

A record may hold, for each spectrum P:

- `P/stopping-sizes`: `n` (size), `excess`, `factor` (classifier, size): geometric means of excesses above rounding,
  and the factor to the ends of their intervals; `below_rounding` (classifier, size): how many are not; `slope`,
  `slack` (classifier), with the coordinate `classifier`; attributes `heuristic_exponent`, `heuristic_rate`;
- `P/stopping-path`: `n` (size), `time`, `excess`, `train_error` (size, mark), `oracle_time`, `oracle`, `hold_out_time`,
  `hold_out`, `max_margin`, `best_interpolator` (size);
- `P/stopping-calibration`: `logistic`, `excess`, `before` (point; 1 up to the best mark of its path, else 0);
  attributes `local`, `global`.

Excesses are drawn on log axes, where a zero (below rounding) has no place. Axes end a little beyond the means: an
interval of two samples may be as long as the page.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, figure_of, groups_of, numbers

_LOOKS = {
    "oracle": (BLUE, "o", "-"),
    "hold-out": (GREEN, "D", "--"),
    "maximum margin": (ORANGE, "s", "-"),
    "best interpolator": (PURPLE, "^", "-."),
}
_SIZES = (BLUE, ORANGE, GREEN, PURPLE)


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name, each `None` where there is nothing to show.

    `stopping-sizes`, `stopping-path`, `stopping-calibration`.
    """
    return {
        "stopping-sizes": _figure(
            groups_of(record, "stopping-sizes"),
            _sizes,
            title="Excess over the Bayes risk, and slopes in n",
            x="rows n",
            y="excess 0-1 risk (geometric mean)",
        ),
        "stopping-path": _figure(
            groups_of(record, "stopping-path"),
            _paths,
            title="Risk along the path, one sample each",
            x="time η k",
            y="excess 0-1 risk",
        ),
        "stopping-calibration": _figure(
            groups_of(record, "stopping-calibration"),
            _pairs,
            title="Calibration: excess 0-1 risk is at most K times excess logistic risk",
            x="excess logistic risk",
            y="excess 0-1 risk",
            shared=False,
        ),
    }


def _figure(
    groups: Mapping[str, Mapping[str, Any]], panel, *, title: str, x: str, y: str, shared: bool = True
) -> Figure | None:
    shown = {name: data for name, data in groups.items() if positive(data, "excess").size}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.2 * len(shown), 4.6)
    axes = figure.subplots(1, len(shown), squeeze=False, sharey=shared)
    for column, (name, data) in enumerate(shown.items()):
        here = axes[0, column]
        here.set_xscale("log")
        here.set_yscale("log")
        panel(here, data)
        here.set_title(name)
        here.set_xlabel(x)
        if not shared:
            here.set_ylim(*_ends(data))
            here.xaxis.set_minor_formatter(NullFormatter())  # over two decades Matplotlib's labels lie on each other
    if shared:
        axes[0, 0].set_ylim(*_ends(*shown.values()))  # and with it the others
    axes[0, 0].set_ylabel(y)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def positive(data: Mapping[str, Any], name: str) -> np.ndarray:
    """The positive numbers among these."""
    values = numbers(data, name)
    return np.empty(0) if values is None else values[np.isfinite(values) & (values > 0)]


def _ends(*groups: Mapping[str, Any]) -> tuple[float, float]:
    """Where the axis of excesses ends: at all that is drawn, and half a decade around."""
    names = ("excess", "oracle", "hold_out", "max_margin", "best_interpolator")
    shown = np.concatenate([positive(data, name) for data in groups for name in names])
    return float(shown.min()) / 3, float(shown.max()) * 3


def _sizes(axes: Axes, data: Mapping[str, Any]) -> None:
    n = np.asarray(data["n"], dtype=np.float64)
    excess, factor = (np.asarray(data[key], dtype=np.float64) for key in ("excess", "factor"))
    slope, slack = (np.asarray(data[key], dtype=np.float64) for key in ("slope", "slack"))
    for i, name in enumerate(str(name) for name in np.asarray(data["classifier"])):
        colour, marker, style = _LOOKS.get(name, (FAINT, ".", "-"))
        if not (excess[i] > 0).any():
            continue
        spread = np.where(np.isfinite(factor[i]), factor[i], 1.0)
        errors = np.array([excess[i] - excess[i] / spread, excess[i] * spread - excess[i]])
        label = f"{name}: {slope[i]:+.2f} ± {slack[i]:.2f}" if np.isfinite(slope[i]) else name
        axes.errorbar(
            n,
            excess[i],
            yerr=errors,
            color=colour,
            marker=marker,
            linestyle=style,
            markersize=4.5,
            capsize=2,
            label=label,
        )
    exponent = float(getattr(data, "attrs", {}).get("heuristic_exponent", np.nan))
    if np.isfinite(exponent) and (excess[0] > 0).all():
        guide = 0.75 * excess[0][0] * (n / n[0]) ** exponent
        axes.plot(n, guide, color=FAINT, linestyle=":", linewidth=1.2, label=f"heuristic rate: {exponent:+.2f}")
    axes.set_xticks(n, [f"{size:g}" for size in n])
    axes.xaxis.set_minor_locator(NullLocator())
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i].startswith("heuristic"))  # last, and not first
    axes.legend(
        [handles[i] for i in order], [labels[i] for i in order], loc="upper center", bbox_to_anchor=(0.5, -0.16)
    )


def _paths(axes: Axes, data: Mapping[str, Any]) -> None:
    n, time, excess = (np.asarray(data[key], dtype=np.float64) for key in ("n", "time", "excess"))
    for i, size in enumerate(n):
        colour = _SIZES[i % len(_SIZES)]
        axes.plot(
            time[i],
            np.where(excess[i] > 0, excess[i], np.nan),
            color=colour,
            linestyle="-" if i == 0 else "--",
            label=f"n = {size:g}",
        )
        for at, marker, label in (("oracle", "o", "oracle"), ("hold_out", "D", "hold-out")):
            x, y = (float(np.asarray(data[key])[i]) for key in (f"{at}_time", at))
            shown = f"{label} stops" if i == 0 else None
            if not y > 0:
                continue
            axes.plot([x], [y], marker, color=colour, markeredgecolor=INK, markersize=6, zorder=5, label=shown)
        for level, style, label in (
            ("max_margin", ":", "maximum margin"),
            ("best_interpolator", "-.", "best interpolator"),
        ):
            at = float(np.asarray(data[level])[i])
            if np.isfinite(at) and at > 0:
                axes.axhline(at, color=colour, linestyle=style, linewidth=1.0, label=label if i == 0 else None)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=7.5)


def _pairs(axes: Axes, data: Mapping[str, Any]) -> None:
    logistic, excess = (np.asarray(data[key], dtype=np.float64) for key in ("logistic", "excess"))
    before = np.asarray(data["before"]) > 0.5
    seen = (logistic > 0) & (excess > 0)
    logistic, excess, before = logistic[seen], excess[seen], before[seen]
    if not seen.any():
        return
    for some, colour, marker, label in (
        (~before, ORANGE, "x", "after the best time"),
        (before, BLUE, "o", "up to the best time"),
    ):
        axes.plot(logistic[some], excess[some], marker, color=colour, markersize=2.5, alpha=0.6, label=label)
    attributes = getattr(data, "attrs", {})
    ends = np.array([logistic.min(), logistic.max()])
    for key, style, label in (("global", "-", "K, over all weight vectors"), ("local", "--", "K at the minimiser")):
        K = float(attributes.get(key, np.nan))
        if np.isfinite(K):
            axes.plot(ends, K * ends, color=INK, linestyle=style, linewidth=1.1, label=f"{label}: {K:.3g}")
    axes.plot(ends, np.sqrt(ends), color=FAINT, linestyle=":", linewidth=1.2, label="with a square root")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=7.5)
