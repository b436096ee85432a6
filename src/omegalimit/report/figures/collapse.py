"""Figures of noisy wide ReLU networks whose width collapses.

A record may hold, for each instance P:

- `P/collapse-particles`: `time` (snapshot), `direction` (snapshot, particle, weight), `size`, `sign` (snapshot,
  particle), `predicted` (learned, weight), `predicted_mass` (learned), `rows` (input, weight: `(x, 1)`); attributes
  `beta`, `outputs`;
- `P/collapse-density` (one input column): `angle` (place), `density`, `mass` (temperature, place), `predicted`
  (learned), `walls` (wall), with the coordinate `temperature`;
- `P/collapse-function` (one or two input columns): `point` (place, column), `limit`, `trained` (place, output),
  `at_beta` (temperature, place, output), `X` (input, column), `y` (input, output), `walls` (learned, weight), with the
  coordinate `temperature`; attribute `beta_trained`;
- `P/collapse-shares`: `beta`, `mass_away`, `neurons_away`, `predictor` (temperature); attribute `window`;
- `P/collapse-errors`: `particles` (run), `scatter`, `distance` (run, batch), `step_size`, `averaged`, `averaged_error`
  (step); attributes `floor`, `extrapolated`, `beta`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, figure_of, groups_of, line, numbers, panels

_WARM_TO_COLD = ("#E69F00", ORANGE, PURPLE, BLUE, GREEN, "#56B4E9")
_SHOWN_TIMES = 4  # maps of the sphere


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name; `None` where there are no data."""
    functions = groups_of(record, "collapse-function")
    return {
        "collapse-particles": _particles(groups_of(record, "collapse-particles")),
        "collapse-density": panels(
            groups_of(record, "collapse-density"),
            _density,
            title="Mass |E[a s]| over the circle of directions (w, b), by inverse temperature; dashed: predicted",
            x="angle of (w, b), radians",
            y="|E[a s]| per radian",
        ),
        "collapse-function": _curves(functions),
        "collapse-cells": _maps(functions),
        "collapse-shares": _shares(groups_of(record, "collapse-shares")),
        "collapse-errors": panels(
            groups_of(record, "collapse-errors"),
            _errors,
            title="Distance of the particles' residual to the measure's",
            x="particles",
            y="root mean square of snapshots",
        ),
    }


def _column(data: Mapping[str, Any], name: str) -> np.ndarray:
    return np.asarray(data[name], dtype=np.float64)


def _attribute(data: Mapping[str, Any], name: str) -> float:
    return float(getattr(data, "attrs", {}).get(name, np.nan))


# -- particles through time ---------------------------------------------------------------------------------------


def _particles(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """One input column: angles over time. Two: maps of the sphere at a few times."""
    shown = {name: data for name, data in groups.items() if numbers(data, "direction") is not None}
    shown = {name: data for name, data in shown.items() if _column(data, "direction").shape[2] in (2, 3)}
    if not shown:
        return None
    lines = {name: data for name, data in shown.items() if _column(data, "direction").shape[2] == 2}
    spheres = {name: data for name, data in shown.items() if name not in lines}
    heights = [2.6] * len(spheres) + [2.9] * (len(lines) > 0)
    figure = figure_of(11.0, 0.5 + sum(heights))
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, (name, data) in zip(parts, spheres.items(), strict=False):
        _spheres(part, name, data)
    if lines:
        axes = parts[-1].subplots(1, len(lines), squeeze=False)
        for here, (name, data) in zip(axes[0], lines.items(), strict=True):
            _circle(here, data)
            here.set_title(f"{name}, β = {_attribute(data, 'beta'):g}")
    figure.suptitle("Particles collapse onto the predicted directions", fontsize=11, x=0.01, ha="left")
    return figure


def _areas(size: np.ndarray) -> np.ndarray:
    top = np.nanmax(size, initial=0.0)
    return 1.0 + 24.0 * size / top if top > 0 else np.ones_like(size)


def _colours(data: Mapping[str, Any]) -> np.ndarray:
    sign = _column(data, "sign")
    if _attribute(data, "outputs") > 1:
        return np.full(sign.shape, GREEN, dtype=object)
    return np.where(sign >= 0, BLUE, ORANGE).astype(object)


def _spheres(part: Any, name: str, data: Mapping[str, Any]) -> None:
    """Longitude is the direction of w in the plane of inputs, latitude the angle of the bias to it."""
    U, size, time = _column(data, "direction"), _column(data, "size"), _column(data, "time")
    # The run has arrived long before its end: times are even in the logarithm.
    chosen = np.unique(np.round(np.linspace(0, len(time) - 1, _SHOWN_TIMES)).astype(int))
    axes = part.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
    colours, predicted = _colours(data), _column(data, "predicted")
    for here, k in zip(axes, chosen, strict=True):
        for row in _column(data, "rows"):
            _great_circle(here, row)
        here.scatter(*_map(U[k]), s=_areas(size[k]), c=list(colours[k]), alpha=0.5, linewidths=0, rasterized=True)
        here.scatter(*_map(predicted), s=150, facecolors="none", edgecolors=INK, linewidths=1.2)
        here.set_xlim(-np.pi, np.pi)
        here.set_ylim(-np.pi / 2, np.pi / 2)
        here.set_title(f"{name}, β = {_attribute(data, 'beta'):g}, time {time[k]:.3g}", fontsize=8.5)
        here.set_xlabel("longitude of (w, b)")
    axes[0].set_ylabel("latitude")


def _map(U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.arctan2(U[:, 1], U[:, 0]), np.arcsin(np.clip(U[:, 2], -1, 1))


def _great_circle(axes: Axes, row: np.ndarray) -> None:
    """Where `u'row = 0`: a wall between dichotomies."""
    basis = np.linalg.svd(row[None])[2][1:]
    t = np.linspace(0, 2 * np.pi, 400)
    longitude, latitude = _map(np.cos(t)[:, None] * basis[0] + np.sin(t)[:, None] * basis[1])
    order = np.argsort(longitude)
    axes.plot(longitude[order], latitude[order], color=FAINT, linewidth=0.6, zorder=0)


def _circle(axes: Axes, data: Mapping[str, Any]) -> None:
    U, size, time = _column(data, "direction"), _column(data, "size"), _column(data, "time")
    # The start has no place on a logarithmic axis; it is drawn before the first step.
    shown = np.where(time > 0, time, time[time > 0].min() / 3 if (time > 0).any() else 1.0)
    angle = np.arctan2(U[:, :, 1], U[:, :, 0])
    at = np.broadcast_to(shown[:, None], angle.shape)
    colours = _colours(data)
    axes.scatter(
        at.reshape(-1), angle.reshape(-1), s=_areas(size).reshape(-1), c=list(colours.reshape(-1)), alpha=0.5,
        linewidths=0, rasterized=True,
    )  # fmt: skip
    predicted = _column(data, "predicted")
    for phi in np.arctan2(predicted[:, 1], predicted[:, 0]):
        axes.axhline(phi, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_ylim(-np.pi, np.pi)
    axes.set_xlabel("time")
    axes.set_ylabel("angle of (w, b)")


# -- densities ----------------------------------------------------------------------------------------------------


def _density(axes: Axes, data: Mapping[str, Any]) -> bool:
    if numbers(data, "mass") is None:
        return False
    angle, mass = _column(data, "angle"), _column(data, "mass")
    names = [str(name) for name in np.asarray(data["temperature"])]
    for k, (name, row) in enumerate(zip(names, mass, strict=True)):
        axes.plot(angle, np.where(row > 0, row, np.nan), color=_WARM_TO_COLD[k % 6], linewidth=1.2, label=f"β = {name}")
    for phi in _column(data, "predicted"):
        axes.axvline(phi, color=INK, linestyle="--", linewidth=0.9, zorder=0)
    axes.set_yscale("log")
    top = float(np.nanmax(mass))
    bottom = max(float(np.nanmin(mass[mass > 0])), top * 1e-11)
    # A quarter of the height is left for the legend, which would hide a peak anywhere else.
    axes.set_ylim(bottom, 2 * top * (top / bottom) ** (1 / 3))
    axes.legend(loc="upper center", ncols=3, fontsize=6.5)
    return True


# -- functions ----------------------------------------------------------------------------------------------------


def _curves(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """One input column: the graph, a panel for each output, and below it the distance to the limit."""
    shown = [
        (name, data, k)
        for name, data in groups.items()
        if numbers(data, "limit") is not None and _column(data, "point").shape[1] == 1
        for k in range(_column(data, "limit").shape[1])
    ]
    if not shown:
        return None
    figure = figure_of(0.8 + 3.6 * len(shown), 6.0)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col", gridspec_kw={"height_ratios": [3, 2]})
    for column, (name, data, k) in enumerate(shown):
        above, below = axes[0, column], axes[1, column]
        _curve(above, below, data, k)
        several = _column(data, "limit").shape[1] > 1
        above.set_title(f"{name}, output {k + 1}" if several else name)
        below.set_xlabel("x")
    handles = {label: h for axis in axes[:, 0] for h, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=8)
    axes[0, 0].set_ylabel("f(x)")
    axes[1, 0].set_ylabel("|f − limit|")
    figure.suptitle("The learned function and its cells (dotted walls)", fontsize=11, x=0.01, ha="left")
    return figure


def _curve(above: Axes, below: Axes, data: Mapping[str, Any], k: int) -> None:
    x = _column(data, "point")[:, 0]
    limit, trained = _column(data, "limit")[:, k], _column(data, "trained")[:, k]
    names = [str(name) for name in np.asarray(data["temperature"])]
    walls = _column(data, "walls")
    for here in (above, below):
        for w, b in walls:
            if w != 0 and x.min() <= -b / w <= x.max():
                here.axvline(-b / w, color=FAINT, linestyle=":", linewidth=1.2, zorder=0)
    for j, (name, f) in enumerate(zip(names, _column(data, "at_beta")[:, :, k], strict=True)):
        colour = _WARM_TO_COLD[j % 6]
        above.plot(x, f, color=colour, linewidth=1.1)
        below.plot(x, np.abs(f - limit), color=colour, linewidth=1.1, label=f"β = {name}")
    above.plot(x, limit, color=INK, label="limit")
    above.plot(x, trained, color=GREEN, linestyle=":", linewidth=2.2, label=f"trained, β = {_beta_trained(data)}")
    above.plot(_column(data, "X")[:, 0], _column(data, "y")[:, k], "o", color=INK, markersize=5, label="data")
    below.set_yscale("log")


def _beta_trained(data: Mapping[str, Any]) -> str:
    """The inverse temperature of the trained particles, in words."""
    return f"{_attribute(data, 'beta_trained'):.3g}".replace("e+0", "e")


def _maps(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Two input columns: contours of the limit, of the trained net and of the warmest measure, with walls."""
    shown = [
        (name, data, k)
        for name, data in groups.items()
        if numbers(data, "limit") is not None and _column(data, "point").shape[1] == 2
        for k in range(_column(data, "limit").shape[1])
    ]
    if not shown:
        return None
    figure = figure_of(11.0, 0.6 + 3.4 * len(shown))
    axes = figure.subplots(len(shown), 3, squeeze=False, sharex="row", sharey="row")
    for row, (name, data, k) in enumerate(shown):
        warm = str(np.asarray(data["temperature"])[0])
        titles = ("limit", f"particles, β = {_beta_trained(data)}", f"measure, β = {warm}")
        fields = (_column(data, "limit"), _column(data, "trained"), _column(data, "at_beta")[0])
        low, high = min(f[:, k].min() for f in fields), max(f[:, k].max() for f in fields)
        levels = np.linspace(low, high, 15) if high > low else np.array([low - 1, low + 1])
        images = []
        for here, title, f in zip(axes[row], titles, fields, strict=True):
            images.append(_contours(here, data, f[:, k], levels))
            several = _column(data, "limit").shape[1] > 1
            here.set_title(f"{name}{f', output {k + 1}' if several else ''}: {title}")
            here.set_xlabel("x1")
        axes[row, 0].set_ylabel("x2")
        figure.colorbar(images[0], ax=axes[row].tolist(), shrink=0.85, label="f")
    figure.suptitle("The learned function; lines: walls of the predicted cells", fontsize=11, x=0.01, ha="left")
    return figure


def _contours(axes: Axes, data: Mapping[str, Any], f: np.ndarray, levels: np.ndarray) -> Any:
    points = _column(data, "point")
    x, y = np.unique(points[:, 0]), np.unique(points[:, 1])
    image = axes.contourf(x, y, f.reshape(len(x), len(y)).T, levels=levels, cmap="viridis")
    axes.grid(visible=False)
    for w1, w2, b in _column(data, "walls"):
        if abs(w2) >= abs(w1):
            axes.plot(x, -(w1 * x + b) / w2, color="white", linewidth=1.6)
        else:
            axes.plot(-(w2 * y + b) / w1, y, color="white", linewidth=1.6)
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    X = _column(data, "X")
    axes.plot(X[:, 0], X[:, 1], "o", color=ORANGE, markeredgecolor="white", markersize=6)
    return image


# -- rates --------------------------------------------------------------------------------------------------------


def _shares(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """By beta: mass away from the learned directions, and the predictor's distance to its limit."""
    shown = {name: data for name, data in groups.items() if numbers(data, "mass_away") is not None}
    if not shown:
        return None
    figure = figure_of(9.6, 3.6)
    left, right = figure.subplots(1, 2)
    looks = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"))
    for k, (name, data) in enumerate(shown.items()):
        colour, marker = looks[k % 4]
        beta = _column(data, "beta")
        for axes, key in ((left, "mass_away"), (right, "predictor")):
            y = _column(data, key)
            line(axes, beta, np.where(y > 0, y, np.nan), colour=colour, marker=marker, label=name)
    beta = np.concatenate([_column(data, "beta") for data in shown.values()])
    x = np.array([beta.min(), beta.max()])
    top = max(float(np.nanmax(_column(data, "mass_away"))) for data in shown.values())
    for slope, style in ((-1.0, "--"), (-1.5, ":")):
        left.plot(x, top * (x / x[0]) ** slope, color=FAINT, linestyle=style, linewidth=1.0, label=f"slope {slope:g}")
    window = _attribute(next(iter(shown.values())), "window")
    left.set_title(f"share of |E[a s]| farther than {window:g} rad")
    right.set_title("largest distance of f to the limit, over max |f|")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("inverse temperature β")
        axes.legend(loc="lower left")
    figure.suptitle("From the stationary measure to its limit", fontsize=11, x=0.01, ha="left")
    return figure


def _errors(axes: Axes, data: Mapping[str, Any]) -> bool:
    if numbers(data, "scatter") is None:
        return False
    N = _column(data, "particles")
    sizes = np.unique(N)

    def means(name: str) -> np.ndarray:
        squares = (_column(data, name) ** 2).mean(axis=1)
        return np.sqrt([squares[size == N].mean() for size in sizes])

    scatter = means("scatter")
    line(axes, sizes, means("distance"), colour=ORANGE, marker="s", label="to the measure's")
    line(axes, sizes, scatter, colour=BLUE, marker="o", label="about their own mean")
    axes.plot(
        sizes, scatter[0] * np.sqrt(sizes[0] / sizes), color=INK, linestyle="--", linewidth=1.0, label="slope −1/2"
    )
    looks = ((PURPLE, "-."), (GREEN, ":"))
    steps, averaged = _column(data, "step_size"), _column(data, "averaged")
    for (colour, style), step, value in zip(looks, steps, averaged, strict=False):
        axes.axhline(value, color=colour, linestyle=style, linewidth=1.2, label=f"time average, steps {step:.2g}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=min(float(averaged.min()), float(scatter.min())) / 12)
    axes.legend(loc="lower left", fontsize=7)
    return True
