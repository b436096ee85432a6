"""Figures of diagonal networks.

A record may hold, for each parametrisation P:

- `P/saddles`, dimensions `point`, `event`, `feature`: of the flow `time` (on the scaled clock t/h), `k`, `s` and
  `log_loss` (natural log, relative to the start's); of the predicted path `path_time`, `path_k`, `path_s`,
  `path_log_loss` (event 0 is the origin); `t_plus`, `t_minus` (feature); and, dimension `rest`, `rest_time` and
  `rest_log_loss`, where the flow itself found a rest that is no limit;
- `P/saddle-rates`, dimension `scale`: `h`, `jump_error`, `dual_error`;
- `P/potential`, dimension `alpha`: `log10_alpha`, `excess` (of the least l1 norm, predicted by the exact potential),
  `flow_log10_alpha` and `flow_excess` (what the flow's end had).

Scales and losses are drawn as base-10 logarithms, as plain numbers: starts go down to 1e-100.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, LN10, ORANGE, PURPLE, figure_of, groups_of, log10, numbers, panels

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9", "#E69F00", "#8B5A2B", "#6A5ACD")
_DEPTHS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"))
_BEYOND = 1.06  # the limit is drawn on a little further than the flow went
_LOWEST = 1e-13  # an excess below it is rounding of the norms
_LEAST_SHARE = 1e-3  # a feature whose weight stays below this share of the largest is drawn without a name


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name, each `None` where there is nothing to show.

    `diagonal-path`, `diagonal-loss`, `diagonal-dual`, `diagonal-rates`, `diagonal-potential`.
    """
    saddles, rates = groups_of(record, "saddles"), groups_of(record, "saddle-rates")
    return {
        "diagonal-path": panels(
            saddles,
            _path,
            title="Weights of the flow (lines) and the predicted saddles (dashed) on the scaled clock",
            x="t / h(s)",
            y="weight k",
        ),
        "diagonal-loss": panels(
            saddles,
            _loss,
            title="Loss of the flow, losses of the predicted saddles (dashed), and rests the flow found (○)",
            x="t / h(s)",
            y="log₁₀ loss / loss at start",
        ),
        "diagonal-dual": panels(
            saddles,
            _dual,
            title="Accumulated force between its walls: a neuron wakes at +1 or −1 (dashed: predicted)",
            x="t / h(s)",
            y="s / t±",
        ),
        "diagonal-rates": panels(
            rates,
            _rates,
            title="Errors at a finite scale of the start: like 1/h",
            x="log₁₀ h(s)",
            y="log₁₀ relative error",
        ),
        "diagonal-potential": _potential(groups_of(record, "potential")),
    }


def _named(values: np.ndarray) -> np.ndarray:
    """Which features ever have a weight worth a name."""
    sizes = np.abs(values).max(axis=0)
    return sizes > _LEAST_SHARE * sizes.max()


def _steps(axes: Axes, time: np.ndarray, values: np.ndarray, end: float, colour: str) -> None:
    axes.step([*time, end], [*values, values[-1]], where="post", color=colour, linestyle="--", linewidth=1.0)


def _path(axes: Axes, data: Mapping[str, Any]) -> bool:
    time, k = numbers(data, "time"), numbers(data, "k")
    if time is None or k is None:
        return False
    steps, saddles = numbers(data, "path_time"), numbers(data, "path_k")
    named = _named(k if saddles is None else np.vstack([k, saddles]))
    end = _BEYOND * float(time[-1])
    for i, colour in _coloured(named):
        axes.plot([*time, end], [*k[:, i], k[-1, i]], color=colour, label=f"k{i + 1}" if named[i] else None)
        if steps is not None and saddles is not None and named[i]:
            _steps(axes, steps, saddles[:, i], end, colour)
    _legend(axes)
    return True


def _loss(axes: Axes, data: Mapping[str, Any]) -> bool:
    time, loss = numbers(data, "time"), numbers(data, "log_loss")
    if time is None or loss is None:
        return False
    axes.plot(time, loss / LN10, color=BLUE, label="flow")
    bottom = max(float(np.nanmin(loss)) / LN10, -12.0)
    steps, saddles = numbers(data, "path_time"), numbers(data, "path_log_loss")
    if steps is not None and saddles is not None:
        kept = saddles / LN10 > bottom  # the last saddle has no loss
        axes.hlines(
            saddles[kept] / LN10, steps[kept], np.append(steps, time[-1])[1:][kept], color=ORANGE, linestyle="--"
        )
        for moment in steps[1:]:
            axes.axvline(float(moment), color=FAINT, linestyle=":", linewidth=0.8)
    rests, losses = numbers(data, "rest_time"), numbers(data, "rest_log_loss")
    if rests is not None and losses is not None:
        axes.plot(rests, losses / LN10, color=INK, marker="o", markerfacecolor="none", linestyle="none", markersize=6)
    axes.set_ylim(bottom - 0.5, 0.5)
    return True


def _dual(axes: Axes, data: Mapping[str, Any]) -> bool:
    time, s = numbers(data, "time"), numbers(data, "s")
    t_plus, t_minus = numbers(data, "t_plus"), numbers(data, "t_minus")
    if time is None or s is None or t_plus is None or t_minus is None:
        return False
    steps, predicted = numbers(data, "path_time"), numbers(data, "path_s")
    k = numbers(data, "k")
    named = np.ones(s.shape[1], dtype=bool) if k is None else _named(k)
    for i, colour in _coloured(named):
        axes.plot(time, _share(s[:, i], t_plus[i], t_minus[i]), color=colour, label=f"s{i + 1}" if named[i] else None)
        if steps is not None and predicted is not None and named[i]:
            # Straight between events in s itself, but with a kink at zero in units of two walls.
            between = np.union1d(steps, np.linspace(steps[0], steps[-1], 200))
            share = _share(np.interp(between, steps, predicted[:, i]), t_plus[i], t_minus[i])
            axes.plot(between, share, color=colour, linestyle="--", linewidth=1.0)
    for wall in (-1.0, 1.0):
        axes.axhline(wall, color=INK, linewidth=0.8)
    axes.set_ylim(-1.15, 1.5)  # room for the legend beyond the upper wall
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", ncols=4, handlelength=1.2, columnspacing=0.8)
    return True


def _share(s: np.ndarray, t_plus: float, t_minus: float) -> np.ndarray:
    """s in units of the growth time of its own sign; a wall at infinity is never reached."""
    return np.where(s > 0, s / t_plus, s / t_minus)


def _rates(axes: Axes, data: Mapping[str, Any]) -> bool:
    h = numbers(data, "h")
    if h is None:
        return False
    shown = False
    for (variable, label), (colour, marker) in zip(
        (("jump_error", "jump times"), ("dual_error", "dual certificate")),
        _DEPTHS,
        strict=False,
    ):
        values = numbers(data, variable)
        if values is None or not (values > 0).any():
            continue
        axes.plot(log10(h), log10(values), color=colour, marker=marker, markersize=4, label=label)
        if not shown:
            first = log10(values)[0]
            axes.plot(log10(h), first - (log10(h) - log10(h)[0]), color=INK, linestyle="--", linewidth=1.0, label="1/h")
        shown = True
    _legend(axes)
    return shown


def _potential(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Excess over the least l1 norm against the scale of the start, a line for each depth."""
    shown = {name: data for name, data in groups.items() if numbers(data, "excess") is not None}
    if not shown:
        return None
    figure = figure_of(5.6, 3.8)
    axes = figure.add_subplot()
    for (name, data), (colour, marker) in zip(shown.items(), _DEPTHS * len(shown), strict=False):
        excess, where = numbers(data, "excess"), numbers(data, "log10_alpha")
        assert excess is not None
        assert where is not None
        axes.plot(where, log10(np.where(excess > _LOWEST, excess, 0.0)), color=colour, label=name)
        flows, at = numbers(data, "flow_excess"), numbers(data, "flow_log10_alpha")
        if flows is not None and at is not None:
            label = f"{name}, flow"
            axes.plot(at, log10(flows), color=colour, marker=marker, linestyle="none", markersize=6, label=label)
    axes.set_xlabel("log₁₀ α   (scale of the start)")
    axes.set_ylabel("log₁₀ excess over the least l1 norm")
    axes.legend(loc="best")
    axes.set_title("How rich: excess l1 norm of the exact potential's minimiser")
    return figure


def _coloured(named: np.ndarray):
    """Indices with their colours, the unnamed first and faint, so that the named are drawn over them."""
    colours = iter(_COLOURS * len(named))
    last = [(int(i), next(colours)) for i in np.flatnonzero(named)]
    return [*((int(i), "#cccccc") for i in np.flatnonzero(~named)), *last]


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", ncols=2, handlelength=1.2, columnspacing=0.8)
