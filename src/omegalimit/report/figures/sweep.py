"""Figures of many records: measured over bound against a setting."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ._shared import BLUE, INK, STYLE, figure_of, log10

_MOST_PANELS = 12


def against(points: Mapping[str, Sequence[tuple[float, float]]], field: str) -> Figure | None:
    """A panel for each claim: median and quartiles of measured over bound at each value of the field.

    On a logarithmic axis; ratios that are not positive are left out. `None` when there is nothing to draw. Of many
    claims the first dozen are drawn.
    """
    shown = {}
    for name, pairs in points.items():
        values = np.array([pair for pair in pairs if pair[1] > 0 and np.isfinite(pair[1])], dtype=np.float64)
        if len(values):
            shown[name] = values
    if not shown:
        return None
    shown = dict(list(shown.items())[:_MOST_PANELS])
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    with matplotlib.rc_context(STYLE):
        figure = figure_of(0.6 + 3.3 * columns, 0.5 + 2.3 * rows)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for here, (name, values) in zip(axes.flat, shown.items(), strict=False):
            at = np.unique(values[:, 0])
            logs = [log10(values[values[:, 0] == a, 1]) for a in at]
            low, middle, high = (np.array([np.quantile(v, q) for v in logs]) for q in (0.25, 0.5, 0.75))
            here.fill_between(at, low, high, color=BLUE, alpha=0.2, linewidth=0)
            here.plot(at, middle, color=BLUE, marker="o", markersize=4)
            here.axhline(0.0, color=INK, linestyle="--", linewidth=1.0)
            here.set_title(name, fontsize=8)
            if len(at) > 1 and at[0] > 0 and at[-1] / at[0] >= 100:
                here.set_xscale("log")
        for bottom in axes[-1]:
            bottom.set_xlabel(field)
        for left in axes[:, 0]:
            left.set_ylabel("log₁₀ measured / bound")
        for empty in axes.flat[len(shown) :]:
            empty.set_visible(False)
    return figure
