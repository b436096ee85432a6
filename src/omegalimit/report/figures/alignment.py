"""Figures of early alignment.

A record may hold, for each set of rows P:

- `P/alignment-angle`: `log_time` (time), `angle` (run, time) in radians, `C` and `log_exact` (run: the log time of the
  last step that was taken one by one, NaN for flows), with the coordinate `run`; attributes `C`, `offset`;
- `P/alignment-flow`: `log_time` (time), `radial`, `tangential` (run, time), per unit of log time;
- `P/alignment-times`: `angle` (angles), `log_times` (run, angles), `law`, `first_term` (angles); attributes `C`,
  `offset`, and where they were asked for `weak`, `fine`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, figure_of, groups_of, line, numbers

_RUNS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"), (FAINT, "v"), (INK, "P"))


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name, each `None` where there is nothing to show.

    `alignment-angle`, `alignment-flow`, `alignment-times`.
    """
    return {
        "alignment-angle": _angles(groups_of(record, "alignment-angle")),
        "alignment-flow": _flows(groups_of(record, "alignment-flow")),
        "alignment-times": _times(groups_of(record, "alignment-times")),
    }


def _attribute(data: Mapping[str, Any], name: str) -> float:
    return float(getattr(data, "attrs", {}).get(name, np.nan))


def _runs(data: Mapping[str, Any], group: str) -> list[str]:
    """The labels of the runs, without the part that the panel's title says already."""
    labels = [str(run) for run in np.asarray(data["run"])]
    return [label.removeprefix(f"{group}, ") for label in labels]


def _angles(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """For each set of rows the angle over log time beside the law; below it the angle times log time."""
    shown = {name: data for name, data in groups.items() if numbers(data, "angle") is not None}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.4 * len(shown), 6.4)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col", gridspec_kw={"height_ratios": [3, 2]})
    for column, (name, data) in enumerate(shown.items()):
        above, below = axes[0, column], axes[1, column]
        s, angle = (np.asarray(data[key], dtype=np.float64) for key in ("log_time", "angle"))
        C, b = _attribute(data, "C"), _attribute(data, "offset")
        late = s > max(1.0, 1.2 - b)
        for (colour, marker), label, row in zip(_cycle(len(angle)), _runs(data, name), angle, strict=True):
            line(above, s, row, colour=colour, marker=marker, label=label)
            line(below, s[late], (row * s)[late], colour=colour, marker=marker)
        above.plot(s[late], C / s[late], color=FAINT, linestyle=":", linewidth=1.4, label="C / log t")
        above.plot(s[late], np.arctan(C / (s[late] + b)), color=INK, linestyle="--", linewidth=1.2, label="the law")
        below.plot(s[late], s[late] * np.arctan(C / (s[late] + b)), color=INK, linestyle="--", linewidth=1.2)
        below.axhline(C, color=FAINT, linestyle=":", linewidth=1.4)
        above.set_yscale("log")
        above.set_title(name)
        above.legend(loc="upper right", fontsize=7)
        below.set_ylim(0, 2.2 * C if C > 0 else None)
        below.set_xlabel("log t (natural)")
    axes[0, 0].set_ylabel("angle to the maximum margin, rad")
    axes[1, 0].set_ylabel("angle × log t")
    figure.suptitle("Alignment: angle × log t tends to C", fontsize=11, x=0.01, ha="left")
    return figure


def _cycle(count: int) -> list[tuple[str, str]]:
    return [_RUNS[i % len(_RUNS)] for i in range(count)]


def _flows(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """For each set of rows what a unit of log time adds to the radius, and by how much it turns the direction."""
    shown = {name: data for name, data in groups.items() if numbers(data, "radial") is not None}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.4 * len(shown), 5.2)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col")
    for column, (name, data) in enumerate(shown.items()):
        s = np.asarray(data["log_time"], dtype=np.float64)
        for here, key in ((axes[0, column], "radial"), (axes[1, column], "tangential")):
            rows = np.asarray(data[key], dtype=np.float64)
            for (colour, marker), label, row in zip(_cycle(len(rows)), _runs(data, name), rows, strict=True):
                line(here, s, row, colour=colour, marker=marker, label=label)
        C, b = _attribute(data, "C"), _attribute(data, "offset")
        late = s > max(1.0, 1.2 - b)
        axes[0, column].axhline(1.0, color=INK, linestyle="--", linewidth=1.2, label="γ ρ = log t + b")
        law = C / ((s[late] + b) ** 2 + C**2)
        axes[1, column].plot(
            s[late], law, color=INK, linestyle="--", linewidth=1.2, label="the law, C / ((log t + b)² + C²)"
        )
        axes[1, column].set_yscale("log")
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel("log t (natural)")
        for here in axes[:, column]:
            here.legend(loc="best", fontsize=7)
    axes[0, 0].set_ylabel("radial: γ dρ / d log t")
    axes[1, 0].set_ylabel("tangential: |dθ / d log t|")
    figure.suptitle("Radial and tangential flow", fontsize=11, x=0.01, ha="left")
    return figure


def _times(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """For each set of rows the time of each angle, beside the law and its first term exp(C / angle)."""
    shown = {name: data for name, data in groups.items() if numbers(data, "log_times") is not None}
    if not shown:
        return None
    figure = figure_of(0.8 + 4.4 * len(shown), 4.2)
    axes = figure.subplots(1, len(shown), squeeze=False)
    for column, (name, data) in enumerate(shown.items()):
        here = axes[0, column]
        angle, law, first = (np.asarray(data[key], dtype=np.float64) for key in ("angle", "law", "first_term"))
        rows = np.asarray(data["log_times"], dtype=np.float64)
        for (colour, marker), label, row in zip(_cycle(len(rows)), _runs(data, name), rows, strict=True):
            line(here, angle, row, colour=colour, marker=marker, label=label)
        here.plot(angle, np.where(law > 0, law, np.nan), color=INK, linestyle="--", linewidth=1.2, label="the law")
        here.plot(angle, first, color=FAINT, linestyle=":", linewidth=1.4, label="C / angle")
        _marks(here, data)
        here.set_xscale("log")
        here.set_yscale("log")
        here.invert_xaxis()
        seen = rows[np.isfinite(rows) & (rows > 0)]
        if seen.size:
            # Times below e^0.3 are the start, where log T runs to minus infinity.
            here.set_ylim(max(0.3, 0.5 * float(seen.min())), 1.5 * float(seen.max()))
        _decimal(here, angle)
        here.set_title(name)
        here.set_xlabel("angle, rad")
        here.legend(loc="best", fontsize=7)
    axes[0, 0].set_ylabel("log T(angle) (natural)")
    figure.suptitle("The time until an angle: exponential in 1 / angle", fontsize=11, x=0.01, ha="left")
    return figure


def _marks(axes: Axes, data: Mapping[str, Any]) -> None:
    for name in ("weak", "fine"):
        if np.isfinite(at := _attribute(data, name)):
            axes.axvline(at, color=FAINT, linewidth=1.0)
            axes.annotate(name, (at, 1.01), xycoords=("data", "axes fraction"), fontsize=7, ha="center", va="bottom")


def _decimal(axes: Axes, angle: np.ndarray) -> None:
    ticks = [t for t in (1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3) if angle.min() <= t <= angle.max()]
    if ticks:
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
