"""Figures of negative-shifted descent.

A record may hold, for each design P:

- `P/shifted-spectrum`: `eigenvalues` (mode), `grid` (eigenvalue), `filters` (filter, eigenvalue), `head_locations`
  (head); attributes `floor`, `lower_edge`, `upper_edge`, `m_min`;
- `P/shifted-risk`: `t` (time), `risk` (shift, time), with the coordinate `shift`; attributes `endpoint`, `ridgeless`,
  `rescaling`;
- `P/shifted-sizes`: `n`, `ratio` (draw); attributes `exponent`, `slack`;
- `P/shifted-prefix`: `eigenvalues` (mode, largest first), `filter` (time, mode), `t`, `crossing` (time); attribute
  `nu`;
- `P/shifted-choice`: `nu` (shift), `t` (time), `errors` (shift, time), `eigenvalues`, `filter` (mode); attributes
  `chosen_nu`, `chosen_t`, `crossing`, `ridgeless_error`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, figure_of, groups_of, numbers

_FILTERS = (FAINT, INK, GREEN, ORANGE, BLUE)
_STYLES = ("-", "--", "-.", (0, (5, 1)), "-")
_SHIFTS = ((FAINT, "o"), (ORANGE, "s"), (BLUE, "^"), (PURPLE, "D"))
_ABOVE, _BELOW = ORANGE, BLUE


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name, each `None` where there is nothing to show.

    `shifted-spectrum`, `shifted-risk`, `shifted-ratio`, `shifted-prefix`, `shifted-choice`.
    """
    return {
        "shifted-spectrum": _spectra(groups_of(record, "shifted-spectrum")),
        "shifted-risk": _risks(groups_of(record, "shifted-risk")),
        "shifted-ratio": _ratios(groups_of(record, "shifted-sizes")),
        "shifted-prefix": _prefixes(groups_of(record, "shifted-prefix")),
        "shifted-choice": _choices(groups_of(record, "shifted-choice")),
    }


def _attribute(data: Mapping[str, Any], name: str) -> float:
    return float(getattr(data, "attrs", {}).get(name, np.nan))


def _plain_ticks(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis of x with a few plain numbers: powers of ten alone are too far apart for a spectrum."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if high / low < 1e3 else (1,)
    ticks = [step * 10.0**k for k in decades for step in steps if low <= step * 10.0**k <= high]
    if ticks:
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


def _spectra(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """For each design a histogram of the eigenvalues, and over the same axis what each estimator makes of them."""
    shown = {name: data for name, data in groups.items() if numbers(data, "eigenvalues") is not None}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.4 * len(shown), 5.6)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col", gridspec_kw={"height_ratios": [2, 3]})
    for column, (name, data) in enumerate(shown.items()):
        _histogram(axes[0, column], data)
        axes[0, column].set_title(name)
        _filters(axes[1, column], data)
        axes[1, column].set_xlabel("eigenvalue m of X'X/n")
    axes[0, 0].set_ylabel("eigenvalues")
    axes[1, 0].set_ylabel("filter f(m): 1 is ridgeless")
    figure.suptitle("Spectrum and filters", fontsize=11, x=0.01, ha="left")
    return figure


def _histogram(axes: Axes, data: Mapping[str, Any]) -> None:
    m = np.asarray(data["eigenvalues"], dtype=np.float64)
    axes.hist(m, bins=np.geomspace(m.min() * 0.97, m.max() * 1.03, 50).tolist(), color=BLUE, alpha=0.55)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, None)
    marks = [
        ("lower_edge", INK, ":", "bulk's edges"),
        ("upper_edge", INK, ":", None),
        ("floor", ORANGE, "--", "floor a"),
    ]
    for attribute, colour, style, label in marks:
        if np.isfinite(at := _attribute(data, attribute)):
            axes.axvline(at, color=colour, linestyle=style, linewidth=1.1, label=label)
    heads = numbers(data, "head_locations")
    if heads is not None:
        seen = heads[np.isfinite(heads)]
        axes.plot(seen, np.full(seen.shape, 1.6), "v", color=PURPLE, label="heads, predicted")
    axes.legend(loc="upper right")


def _filters(axes: Axes, data: Mapping[str, Any]) -> None:
    grid, filters = numbers(data, "grid"), numbers(data, "filters")
    if grid is None or filters is None:
        return
    names = [str(name) for name in np.asarray(data["filter"])]
    for i, (name, f) in enumerate(zip(names, filters, strict=True)):
        wide = 2.2 if i == len(names) - 1 else 1.4
        axes.plot(grid, f, color=_FILTERS[i % 5], linestyle=_STYLES[i % 5], linewidth=wide, label=name)
    if np.isfinite(at := _attribute(data, "floor")):
        axes.axvline(at, color=ORANGE, linestyle="--", linewidth=1.1)
    for edge in ("lower_edge", "upper_edge"):
        if np.isfinite(at := _attribute(data, edge)):
            axes.axvline(at, color=INK, linestyle=":", linewidth=1.1)
    _plain_ticks(axes, float(grid.min()), float(grid.max()))
    # An endpoint's pole stands at the left: what it does there is no reason to squeeze the others.
    axes.set_ylim(0, min(float(np.nanmax(filters)), 4.0) * 1.05)
    axes.legend(loc="upper right")


def _risks(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Mean excess risk along the path of each shift, and the levels of what is not stopped."""
    shown = {name: data for name, data in groups.items() if numbers(data, "risk") is not None}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.4 * len(shown), 4.2)
    axes = figure.subplots(1, len(shown), squeeze=False)
    for column, (name, data) in enumerate(shown.items()):
        here, t = axes[0, column], np.asarray(data["t"], dtype=np.float64)
        risk = np.asarray(data["risk"], dtype=np.float64)
        for i, (shift, row) in enumerate(zip(np.asarray(data["shift"]), risk, strict=True)):
            colour, marker = _SHIFTS[i % len(_SHIFTS)]
            here.plot(t, row, color=colour, marker=marker, markevery=9, markersize=3.5, label=f"ν = {shift}")
        levels = (("ridgeless", INK, ":"), ("rescaling", GREEN, "-."), ("endpoint", ORANGE, "--"))
        for level, colour, style in levels:
            if np.isfinite(at := _attribute(data, level)):
                best = level if level == "ridgeless" else f"best {level}"
                here.axhline(at, color=colour, linestyle=style, linewidth=1.1, label=best)
        here.set_xscale("log")
        here.set_yscale("log")
        here.set_ylim(0.6 * float(np.nanmin(risk)), 2.0 * float(risk[:, 0].max()))
        here.set_title(name)
        here.set_xlabel("stopping time t")
    axes[0, 0].set_ylabel("mean excess risk, given the design")
    lines, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=min(len(labels), 4 * len(shown)))
    figure.suptitle("Risk along the paths, and without stopping", fontsize=11, x=0.01, ha="left")
    return figure


def _ratios(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Ratio of risks over sizes in logs, with the fitted exponent."""
    shown = {name: data for name, data in groups.items() if numbers(data, "ratio") is not None}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.4 * len(shown), 3.6)
    axes = figure.subplots(1, len(shown), squeeze=False)
    for column, (name, data) in enumerate(shown.items()):
        here = axes[0, column]
        n, ratio = (np.asarray(data[key], dtype=np.float64) for key in ("n", "ratio"))
        here.plot(n, ratio, "o", color=BLUE, markersize=5, alpha=0.6, label="one design each")
        exponent, slack = _attribute(data, "exponent"), _attribute(data, "slack")
        if np.isfinite(exponent):
            ends = np.array([n.min(), n.max()])
            level = np.exp(np.mean(np.log(ratio) - exponent * np.log(n)))
            label = f"n^{exponent:.2f} (± {slack:.2f})"
            here.plot(ends, level * ends**exponent, color=INK, linestyle="--", label=label)
        here.axhline(1.0, color=FAINT, linewidth=1.0)
        here.set_xscale("log")
        here.set_yscale("log")
        sizes = np.unique(n)
        here.set_xticks(sizes, [f"{size:g}" for size in sizes])
        low, high = 0.9, float(ratio.max()) * 1.15
        ticks = [tick for tick in (1, 1.5, 2, 3, 4, 6, 8, 12, 20, 50) if tick <= high]
        here.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        here.minorticks_off()
        here.set_ylim(low, high)
        here.set_title(name)
        here.set_xlabel("observations n")
        here.legend(loc="upper left")
    axes[0, 0].set_ylabel("risk: best endpoint / stopped path")
    figure.suptitle("What stopping gains over every admissible endpoint", fontsize=11, x=0.01, ha="left")
    return figure


def _prefixes(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Which modes are above ridgeless at each time: a row of cells for each time, largest eigenvalue at the left."""
    shown = {name: data for name, data in groups.items() if numbers(data, "filter") is not None}
    if not shown:
        return None
    figure = figure_of(0.9 + 4.4 * len(shown), 3.3)
    axes = figure.subplots(1, len(shown), squeeze=False)
    image = None
    for column, (name, data) in enumerate(shown.items()):
        here, f = axes[0, column], np.asarray(data["filter"], dtype=np.float64)
        t, crossing = np.asarray(data["t"], dtype=np.float64), np.asarray(data["crossing"], dtype=np.float64)
        m = np.asarray(data["eigenvalues"], dtype=np.float64)
        with np.errstate(divide="ignore"):
            size = np.log2(f)
        image = here.imshow(size, aspect="auto", cmap="RdBu_r", vmin=-0.6, vmax=0.6, interpolation="nearest")
        here.grid(visible=False)
        for row, m_c in enumerate(crossing):  # where the formula says that the prefix ends
            here.plot([np.sum(m > m_c) - 0.5] * 2, [row - 0.5, row + 0.5], color=INK, linewidth=2.0)
        here.set_yticks(range(len(t)), [f"{time:.2g}" for time in t])
        here.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        here.set_title(f"{name}, ν = {_attribute(data, 'nu'):.3g}")
        here.set_xlabel("mode, largest eigenvalue first")
    axes[0, 0].set_ylabel("stopping time t")
    if image is not None:
        figure.colorbar(image, ax=axes, label="log₂ filter", shrink=0.9, aspect=25)
    title = "Modes above ridgeless (red) are a leading prefix; bar: where the crossing says that it ends"
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


def _choices(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Error on the rows held out over the grid, and the chosen filter on the eigenvalues."""
    shown = {name: data for name, data in groups.items() if numbers(data, "errors") is not None}
    if not shown:
        return None
    figure = figure_of(10.0, 0.5 + 3.6 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, (name, data) in enumerate(shown.items()):
        _errors(axes[row, 0], name, data)
        _chosen(axes[row, 1], data)
    figure.suptitle("Shift and stopping time by hold-out", fontsize=11, x=0.01, ha="left")
    return figure


def _errors(axes: Axes, name: str, data: Mapping[str, Any]) -> None:
    nu, t, errors = (np.asarray(data[key], dtype=np.float64) for key in ("nu", "t", "errors"))
    least = float(np.nanmin(errors))
    lines = np.unique(np.linspace(0, nu.size - 1, min(nu.size, 6)).astype(int))
    chosen = int(np.argmin(np.abs(nu - _attribute(data, "chosen_nu"))))
    for count, i in enumerate(lines):
        shade = 0.15 + 0.6 * count / max(1, len(lines) - 1)
        axes.plot(t, errors[i], color=(shade, shade, shade), linewidth=1.0, label=f"ν = {nu[i]:.3g}")
    axes.plot(t, errors[chosen], color=BLUE, linewidth=2.0, label=f"ν = {nu[chosen]:.3g}, chosen")
    if np.isfinite(at := _attribute(data, "chosen_t")):
        axes.plot([at], [np.interp(at, t, errors[chosen])], "o", color=ORANGE, zorder=5)
    if np.isfinite(at := _attribute(data, "ridgeless_error")):
        axes.axhline(at, color=INK, linestyle=":", linewidth=1.1, label="ridgeless")
    axes.set_xscale("log")
    if least > 0:  # a target that is constant is predicted without error
        axes.set_yscale("log")
        axes.set_ylim(0.8 * least, min(1.2 * float(np.nanmax(errors)), 30 * least))
    axes.set_title(f"predicting {name}")
    axes.set_xlabel("stopping time t")
    axes.set_ylabel("mean squared error, rows held out")
    axes.legend(loc="best", fontsize=7)


def _chosen(axes: Axes, data: Mapping[str, Any]) -> None:
    m, f = numbers(data, "eigenvalues"), numbers(data, "filter")
    if m is None or f is None:
        return
    above = f > 1
    for some, marker, colour, label in (
        (~above, "o", _BELOW, "below ridgeless"),
        (above, "s", _ABOVE, "above ridgeless"),
    ):
        if some.any():
            axes.plot(m[some], f[some], marker, color=colour, markersize=3.5, label=label)
    axes.axhline(1.0, color=INK, linewidth=0.9)
    crossing = _attribute(data, "crossing")
    if np.isfinite(crossing) and m.min() * 0.3 < crossing < m.max() * 3:
        axes.axvline(crossing, color=INK, linestyle="--", linewidth=1.0, label="predicted crossing")
    _plain_ticks(axes, 0.9 * float(m.min()), 1.1 * float(m.max()))
    axes.set_title(f"filter, ν = {_attribute(data, 'chosen_nu'):.3g}, t = {_attribute(data, 'chosen_t'):.3g}")
    axes.set_xlabel("eigenvalue m of X'X/n")
    axes.set_ylabel("filter f(m)")
    axes.legend(loc="best")
