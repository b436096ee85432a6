"""Figures of positive quadratic networks.

A record may hold:

- `P/run` for a parametrisation P: of the flow `time`, `flow_residual`, `log_spectrum` (flow_point, index); of descent
  `step`, `descent_residual`; attributes `rate`, `factor`: what the curvature predicts;
- `P/concentration`, dimensions `size`, `draw`: `deviation`, `start_error`, with fitted exponents as attributes;
- `P/recovery`, dimensions `pair`, `ratio_index`: `recovered`, `guaranteed` (shares), `n`; `ratio`; `begins`;
- `P/least-trace`, dimensions `start`, `entry`: `log_eps`, `excess`, `predicted_excess`, `log_q`, `reduced_cost`;
- `P/steps`, dimension `halving`: `step_size`, `plain`, `corrected`.
"""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, LN10, ON_LIGHT, ORANGE, PURPLE, figure_of, groups_of, log10, numbers

_Groups = Mapping[str, Mapping[str, Any]]
# What drawn curves may span: below it lies rounding.
_FLOOR = 1e-13


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name, each `None` where there is nothing to show.

    `quadratic-rates`, `quadratic-concentration`, `quadratic-recovery`, `quadratic-trace`, `quadratic-steps`.
    """
    return {
        "quadratic-rates": _rates(groups_of(record, "run")),
        "quadratic-concentration": _concentration(groups_of(record, "concentration")),
        "quadratic-recovery": _recovery(groups_of(record, "recovery")),
        "quadratic-trace": _trace(groups_of(record, "least-trace")),
        "quadratic-steps": _steps(groups_of(record, "steps")),
    }


def _complete(groups: _Groups, *names: str) -> dict[str, Mapping[str, Any]]:
    """The groups that hold all of these variables, with a number in each."""
    return {key: data for key, data in groups.items() if all(numbers(data, name) is not None for name in names)}


def _attribute(data: Mapping[str, Any], name: str) -> float:
    value = getattr(data, "attrs", {}).get(name, np.nan)
    return float(value) if value is not None else float("nan")


def _rates(groups: _Groups) -> Figure | None:
    """Residuals of flow and descent against the slope that the curvature predicts, through their last points."""
    shown = _complete(groups, "time", "flow_residual", "step", "descent_residual")
    if not shown:
        return None
    figure = figure_of(8.4, 0.7 + 3.1 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, (name, data) in zip(axes, shown.items(), strict=True):
        factor = _attribute(data, "factor")
        slope = -np.log(factor) if factor > 0 else np.nan
        for here, x, y, rate, colour, what in (
            (row[0], "time", "flow_residual", _attribute(data, "rate"), BLUE, "flow"),
            (row[1], "step", "descent_residual", slope, ORANGE, "descent"),
        ):
            clock, residual = np.asarray(data[x], dtype=float), np.asarray(data[y], dtype=float)
            seen = np.isfinite(residual) & (residual > _FLOOR)
            here.plot(clock[seen], log10(residual[seen]), color=colour, label=what)
            if np.isfinite(rate) and seen.any():
                last = int(np.flatnonzero(seen)[-1])
                line = np.log10(residual[last]) + rate / LN10 * (clock[last] - clock[seen])
                # Left of where it meets the top the prediction says nothing.
                line[line > log10(residual[seen]).max() + 0.5] = np.nan
                label = f"predicted: {'exp(−' if what == 'flow' else ''}"
                label += f"{rate:.4g} t)" if what == "flow" else f"× {factor:.6g} a step"
                here.plot(clock[seen], line, color=INK, linestyle="--", linewidth=1.2, label=label)
            here.set_title(f"{name}: {what}")
            here.set_xlabel("t" if what == "flow" else "step")
            here.legend(loc="best")
        row[0].set_ylabel("log₁₀ relative residual")
    figure.suptitle(
        "Local convergence, and the rate that the effective Hessian predicts", fontsize=11, x=0.01, ha="left"
    )
    return figure


def _concentration(groups: _Groups) -> Figure | None:
    """Deviation of the normal operator and error of the spectral start against n, with fitted exponents."""
    shown = _complete(groups, "size", "deviation", "start_error")
    if not shown:
        return None
    figure = figure_of(8.4, 0.7 + 3.2 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, data in zip(axes, shown.values(), strict=True):
        n = np.asarray(data["size"], dtype=float)
        for here, name, claim, colour, title in (
            (row[0], "deviation", "operator-concentration", BLUE, "normal operator: |N − P|"),
            (row[1], "start_error", "spectral-start", ORANGE, "spectral start: relative error"),
        ):
            values = np.asarray(data[name], dtype=float)
            here.plot(np.repeat(n, values.shape[1]), values.reshape(-1), ".", color=colour, alpha=0.35, markersize=4)
            slope, intercept = (_attribute(data, f"{claim} {key}") for key in ("slope", "intercept"))
            error = _attribute(data, f"{claim} error")
            label = f"fit: n^({slope:.3f} ± {error:.3f})"
            here.plot(n, np.exp(intercept) * n**slope, color=INK, linewidth=1.2, label=label)
            middle = np.exp(np.log(values).mean() + 0.5 * np.log(n).mean())
            here.plot(n, middle * n**-0.5, color=FAINT, linestyle="--", linewidth=1.2, label="n^(−1/2)")
            here.set_xscale("log")
            here.set_yscale("log")
            here.set_title(title)
            here.set_xlabel("rows n")
            here.legend(loc="lower left")
    figure.suptitle("Concentration over the draws of the rows", fontsize=11, x=0.01, ha="left")
    return figure


def _recovery(groups: _Groups) -> Figure | None:
    """Shares of trials recovered, with the guaranteed cells framed; and where each begins."""
    shown = _complete(groups, "recovered", "guaranteed", "n", "begins")
    if not shown:
        return None
    data = next(iter(shown.values()))
    width = int(np.flatnonzero(np.isfinite(np.asarray(data["recovered"], dtype=float)).any(axis=0))[-1]) + 1
    seen, within, n = (np.asarray(data[name], dtype=float)[:, :width] for name in ("recovered", "guaranteed", "n"))
    pairs = [str(pair) for pair in np.asarray(data["pair"])]
    figure = figure_of(11.4, 1.5 + 0.5 * len(pairs))
    left, right = figure.subplots(1, 2, width_ratios=(2.2, 1.0))
    colours = matplotlib.colormaps["cividis"].with_extremes(bad="#f2f2f2")
    image = left.imshow(seen, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    left.grid(visible=False)
    for p, q in np.argwhere(np.isfinite(seen)):
        dark = seen[p, q] < 0.5
        text = f"{n[p, q]:.0f}" if n[p, q] < 10_000 else f"{n[p, q] / 1000:.0f}k"
        left.text(q, p, text, ha="center", va="center", fontsize=7, color="white" if dark else ON_LIGHT)
        if within[p, q] >= 0.5:
            edge = {"fill": False, "edgecolor": ORANGE, "linewidth": 2.2}
            left.add_patch(Rectangle((q - 0.45, p - 0.45), 0.9, 0.9, **edge))
    left.set_yticks(range(len(pairs)), pairs)
    ratios = np.asarray(data["ratio"], dtype=float)[:width]
    left.set_xticks(range(len(ratios)), [f"{ratio:g}" for ratio in ratios], fontsize=7, rotation=45)
    left.set_xlabel("rows n over unknowns d r − r(r−1)/2   (in the cells: n)")
    left.set_title("share recovered; framed: guaranteed; grey: not run")
    figure.colorbar(image, ax=left, label="share recovered", shrink=0.8)
    begins = np.asarray(data["begins"], dtype=float)
    y = np.arange(len(pairs))
    for p in y:
        if np.isfinite(begins[p]).all():
            right.plot(begins[p], [p, p], color=FAINT, linewidth=1.0, zorder=1)
            right.text(
                float(np.sqrt(begins[p].prod())),
                p - 0.18,
                f"× {begins[p, 1] / begins[p, 0]:.0f}",
                ha="center",
                fontsize=8,
            )
    right.plot(begins[:, 0], y, "o", color=BLUE, label="half are recovered")
    right.plot(begins[:, 1], y, "s", color=ORANGE, label="half are guaranteed")
    right.set_xscale("log")
    right.margins(x=0.12)
    right.set_ylim(len(pairs) - 0.5, -1.1)
    right.set_yticks(y, pairs)
    right.set_xlabel("rows n")
    right.set_title("from which n on")
    right.legend(loc="upper center", ncols=2, columnspacing=1.0, handletextpad=0.3)
    figure.suptitle("Recovery from the spectral start: seen and guaranteed", fontsize=11, x=0.01, ha="left")
    return figure


def _trace(groups: _Groups) -> Figure | None:
    """Excess of the trace and the eigenvalues against eps, with the exponents that the reduced costs predict."""
    shown = _complete(groups, "log_eps", "excess", "log_q", "reduced_cost")
    if not shown:
        return None
    figure = figure_of(8.4, 0.7 + 3.2 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, data in zip(axes, shown.values(), strict=True):
        x = np.asarray(data["log_eps"], dtype=float) / LN10
        costs = np.asarray(data["reduced_cost"], dtype=float)
        excess = np.asarray(data["excess"], dtype=float)
        row[0].plot(x, log10(excess), "o-", color=BLUE, label="flow")
        predicted = numbers(data, "predicted_excess")
        if predicted is not None:
            row[0].plot(x, log10(predicted), "x", color=INK, markersize=8, label="Bregman projection")
        least = float(costs[costs > 1e-9].min()) if (costs > 1e-9).any() else np.nan
        # Through the smallest start: the law holds in the limit.
        at = int(np.argmin(x))
        law = log10(excess)[at] + 2 * least * (x - x[at])
        row[0].plot(x, law, color=FAINT, linestyle="--", linewidth=1.2, label=f"ε^{2 * least:.3f}: least reduced cost")
        row[0].set_ylabel("log₁₀ (trace / least trace − 1)")
        logs = np.asarray(data["log_q"], dtype=float) / LN10
        palette = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9", "#E69F00", "#8B5A2B", "#6A5ACD")
        for j in range(logs.shape[1]):
            colour = palette[j % len(palette)]
            row[1].plot(x, logs[:, j], "o-", color=colour, markersize=4, label=f"2c = {2 * max(costs[j], 0.0):.3f}")
            row[1].plot(x, logs[at, j] + 2 * costs[j] * (x - x[at]), color=INK, linestyle="--", linewidth=0.9)
        row[1].set_ylabel("log₁₀ q")
        for here, title in ((row[0], "trace"), (row[1], "eigenvalues (dashed: ε^2c)")):
            here.set_title(title)
            here.set_xlabel("log₁₀ ε   (start ε² w)")
            here.invert_xaxis()
            here.legend(loc="lower left", ncols=1 if here is row[0] else 2)
    figure.suptitle("Towards the least trace as the start shrinks", fontsize=11, x=0.01, ha="left")
    return figure


def _steps(groups: _Groups) -> Figure | None:
    """Distance of descent's limit from the two projections against the step size."""
    shown = _complete(groups, "step_size", "plain", "corrected")
    if not shown:
        return None
    figure = figure_of(5.2, 0.7 + 3.4 * len(shown))
    axes = figure.subplots(len(shown), 1, squeeze=False)
    for here, data in zip(axes[:, 0], shown.values(), strict=True):
        _orders(here, data)
    figure.suptitle("Finite steps: where descent ends", fontsize=11, x=0.01, ha="left")
    return figure


def _orders(axes: Axes, data: Mapping[str, Any]) -> None:
    eta = np.asarray(data["step_size"], dtype=float)
    rows = (
        ("plain", 1, BLUE, "o", "from the Bregman projection"),
        ("corrected", 2, ORANGE, "s", "after the correction"),
    )
    for name, order, colour, marker, label in rows:
        values = np.asarray(data[name], dtype=float)
        axes.plot(eta, values, marker=marker, color=colour, label=label)
        known = np.flatnonzero(np.isfinite(values))
        if known.size:
            last = known[np.argmin(eta[known])]
            law = values[last] * (eta / eta[last]) ** order
            axes.plot(eta, law, color=FAINT, linestyle="--", linewidth=1.0, label=f"η^{order}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("step size η")
    axes.set_ylabel("relative distance")
    axes.legend(loc="lower right")
