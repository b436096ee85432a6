"""Figures of smoothed sign descent.

A record may hold, for each run or data set P:

- `P/sign-path`: `fraction` (rate), `direction` (rate, coordinate), `l2_ratio`, `linf_ratio` (rate), `l2_end`,
  `linf_end` (coordinate);
- `P/sign-run`: `S`, `v_distance`, `w_distance`, `envelope`, `plain_envelope` (step);
- `P/sign-crossover`: `log_inverse_eps`, `S` (eps); attribute `gamma_inf`;
- `P/sign-diagnostics`: `S` (mark), `distance`, `l2_ratio`, `linf_ratio` (dynamics, mark), with the coordinate
  `dynamics`;
- `P/sign-optimisers`: `ratio_lower`, `ratio_upper` (point, norm), with the coordinates `point` and `norm`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, ON_LIGHT, ORANGE, PURPLE, figure_of, groups_of, line, numbers, panels

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, INK, "#56B4E9", "#E69F00", FAINT, "#7a5195")
_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name; `None` where there are no data."""
    return {
        "sign-path": _paths(groups_of(record, "sign-path")),
        "sign-run": panels(
            groups_of(record, "sign-run"),
            _run,
            title="Distance to the barrier's minimiser v*, and both envelopes",
            x="cumulative time S",
            y="Euclidean distance",
        ),
        "sign-crossover": _crossover(groups_of(record, "sign-crossover"), groups_of(record, "sign-diagnostics")),
        "sign-diagnostics": _diagnostics(groups_of(record, "sign-diagnostics")),
        "sign-optimisers": _optimisers(groups_of(record, "sign-optimisers")),
    }


def _attribute(data: Mapping[str, Any], name: str) -> float:
    return float(getattr(data, "attrs", {}).get(name, np.nan))


def _column(data: Mapping[str, Any], name: str) -> np.ndarray:
    return np.asarray(data[name], dtype=np.float64)


def _paths(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Directions of the minimisers over the rate, and the share that they reach of both maximum margins."""
    shown = {name: data for name, data in groups.items() if numbers(data, "direction") is not None}
    if not shown:
        return None
    figure = figure_of(9.6, 0.6 + 3.6 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, data in enumerate(shown.values()):
        _directions(axes[row, 0], data)
        _ratios(axes[row, 1], data)
    figure.suptitle(
        "The path of barriers, from the Euclidean to the l-infinity maximum margin", fontsize=11, x=0.01, ha="left"
    )
    return figure


def _directions(axes: Axes, data: Mapping[str, Any]) -> None:
    fraction, direction = _column(data, "fraction"), _column(data, "direction")
    l2, linf = _column(data, "l2_end"), _column(data, "linf_end")
    n = direction.shape[1]
    # The coordinates that turn most: with many of them the others are a thicket.
    chosen = np.sort(np.argsort(-np.nanmax(direction, axis=0) + np.nanmin(direction, axis=0))[:8])
    for count, j in enumerate(chosen):
        colour = _COLOURS[count % len(_COLOURS)]
        axes.plot(fraction, direction[:, j], color=colour, linestyle=_STYLES[count // 2 % 4], label=f"coordinate {j}")
        axes.plot([0], [l2[j]], "o", color=colour, markersize=5, clip_on=False)
        axes.plot([1], [linf[j]], "s", color=colour, markersize=5, clip_on=False)
    axes.set_title("direction v*/|v*|" + (f", {len(chosen)} of {n} coordinates" if n > len(chosen) else ""))
    axes.set_xlabel("rate κ/γ   (●: largest l2 margin, ■: largest l-infinity margin γ)")
    axes.legend(loc="best", ncols=2)


def _ratios(axes: Axes, data: Mapping[str, Any]) -> None:
    fraction = _column(data, "fraction")
    for name, label, colour, style in (("l2_ratio", "l2", BLUE, "-"), ("linf_ratio", "l-infinity", ORANGE, "--")):
        axes.plot(fraction, _column(data, name), color=colour, linestyle=style, label=label)
    axes.axhline(1.0, color=FAINT, linewidth=0.8)
    axes.set_title("margin of v* over the largest one")
    axes.set_xlabel("rate κ/γ")
    axes.legend(loc="best", title="norm")


def _run(axes: Axes, data: Mapping[str, Any]) -> bool:
    if numbers(data, "w_distance") is None or numbers(data, "S") is None:
        return False
    S = _column(data, "S")
    after = S > 0
    for name, colour, marker, label in (
        ("v_distance", GREEN, "^", "v"),
        ("w_distance", BLUE, "o", "w/S"),
    ):
        y = _column(data, name)[after]
        line(axes, S[after], np.where(y > 0, y, np.nan), colour=colour, marker=marker, label=label)
    for name, colour, style, label in (
        ("envelope", ORANGE, "-", "envelope"),
        ("plain_envelope", INK, "--", "without the KL sum"),
    ):
        y = _column(data, name)[after]
        axes.plot(S[after], np.where(np.isfinite(y), y, np.nan), color=colour, linestyle=style, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-17)
    axes.legend(loc="lower left")
    return True


def _crossover(
    crossovers: Mapping[str, Mapping[str, Any]], diagnostics: Mapping[str, Mapping[str, Any]]
) -> Figure | None:
    """S at which a fixed eps takes over, by eps; and the margins along one such run."""
    shown = [name for name, data in crossovers.items() if numbers(data, "S") is not None]
    if not shown:
        return None
    figure = figure_of(9.6, 0.6 + 3.4 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for row, name in enumerate(shown):
        data, here = crossovers[name], axes[row, 0]
        x, S, gamma = _column(data, "log_inverse_eps"), _column(data, "S"), _attribute(data, "gamma_inf")
        here.plot(x, S, "o", color=BLUE, label="S until all |g| < eps")
        if np.isfinite(gamma) and np.isfinite(S).any():
            offset = float(np.nanmean(S - x / gamma))
            here.plot(x, offset + x / gamma, color=INK, linestyle="--", linewidth=1.2, label="slope 1/γ")
        here.set_xlabel("log(1/eps)")
        here.set_ylabel("cumulative time S")
        here.set_title("when a fixed eps takes over")
        here.legend(loc="upper left")
        _turn(axes[row, 1], diagnostics.get(name, {}))
    figure.suptitle("A fixed eps: signs first, gradient descent in the end", fontsize=11, x=0.01, ha="left")
    return figure


def _turn(axes: Axes, data: Mapping[str, Any]) -> None:
    names = [str(name) for name in np.asarray(data["dynamics"])] if "dynamics" in data else []
    fixed = [i for i, name in enumerate(names) if name.startswith("fixed eps")]
    if not fixed or numbers(data, "linf_ratio") is None:
        axes.set_visible(False)
        return
    S = _column(data, "S")
    for key, label, colour, marker in (("l2_ratio", "l2", BLUE, "o"), ("linf_ratio", "l-infinity", ORANGE, "s")):
        line(axes, S, _column(data, key)[fixed[0]], colour=colour, marker=marker, label=label)
    axes.set_xscale("log")
    axes.set_title(f"margin over the largest one, {names[fixed[0]]}")
    axes.set_xlabel("sum of the step sizes")
    axes.legend(loc="best", title="norm")


def _diagnostics(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """|w/S - v*| along each dynamics."""
    shown = {name: data for name, data in groups.items() if numbers(data, "distance") is not None}
    if not shown:
        return None
    figure = figure_of(7.4, 0.6 + 3.8 * len(shown))
    axes = figure.subplots(len(shown), 1, squeeze=False)
    for row, data in enumerate(shown.values()):
        here, S = axes[row, 0], _column(data, "S")
        for i, (name, y) in enumerate(zip(np.asarray(data["dynamics"]), _column(data, "distance"), strict=True)):
            colour, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]
            line(here, S, y, colour=colour, marker=marker, label=str(name))
        here.set_xscale("log")
        here.set_yscale("log")
        here.set_xlabel("cumulative time S")
        here.set_ylabel("|w/S − v*|")
        here.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle("Other dynamics at the same rate (not judged)", fontsize=11, x=0.01, ha="left")
    return figure


def _optimisers(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Ratios of margins, optimisers by norms, as a table of shaded cells; the highest of a row in bold."""
    shown = {name: data for name, data in groups.items() if numbers(data, "ratio_lower") is not None}
    if not shown:
        return None
    heights = [len(np.asarray(data["point"])) + 1.5 for data in shown.values()]
    figure = figure_of(8.2, 0.7 + 0.3 * sum(heights))
    axes = figure.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    image = None
    for row, (name, data) in enumerate(shown.items()):
        here = axes[row, 0]
        ratio = (_column(data, "ratio_lower") + _column(data, "ratio_upper")) / 2
        image = here.imshow(ratio, aspect="auto", cmap="viridis", vmin=0.4, vmax=1.0, interpolation="nearest")
        here.grid(visible=False)
        points, norms = ([str(x) for x in np.asarray(data[key])] for key in ("point", "norm"))
        here.set_yticks(range(len(points)), points)
        here.set_xticks(range(len(norms)), norms)
        here.tick_params(length=0)
        here.xaxis.tick_top()
        for i, values in enumerate(ratio):
            for k, value in enumerate(values):
                here.text(
                    k,
                    i,
                    f"{value:.4f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    fontweight="bold" if k == int(np.argmax(values)) else "normal",
                    color="white" if value < 0.75 else ON_LIGHT,
                )
        here.set_title(f"rows: {name}", pad=16)
    if image is not None:
        figure.colorbar(image, ax=axes, shrink=0.8, aspect=30, label="margin over the largest one in that norm")
    figure.suptitle("Margin ratios: which norm does an optimiser serve?", fontsize=11, x=0.01, ha="left")
    return figure
