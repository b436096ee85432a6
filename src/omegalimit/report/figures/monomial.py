"""Figures of deep monomial networks.

A record may hold, for each P:

- `P/monomial-table`: `generic`, `expected` (architecture, degree), `threshold`, `enough` (architecture), with the
  coordinates `architecture` and `degree`;
- `P/monomial-ranks`: `rank` (kind, degree), `generic`, `other_critical` (degree), with the coordinates `kind` and
  `degree`; attribute `criticality_threshold`;
- `P/monomial-separation`: `separation`, `float_singular`, `float_error`, `float_decided` (net);
- `P/monomial-training`: `start_distance`, `end_distance` (target, start), `end_share`, `end_low`, `end_high`,
  `start_share` (target, delta), with the coordinates `target` and `delta`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from ...record import Record
from ._shared import BLUE, FAINT, GREEN, INK, ON_LIGHT, ORANGE, PURPLE, figure_of, groups_of, numbers

_COLOURS, _STYLES = (BLUE, ORANGE, GREEN, PURPLE), ("-", "--", "-.", ":")
_SHARES = LinearSegmentedColormap.from_list("shares", ["#b2182b", "#f4a582", "#f7f7f7"])
"""White where a rank is full, red where it is not."""


def draw(record: Record) -> dict[str, Figure | None]:
    """The figures by name; `None` where there are no data."""
    return {
        "monomial-table": _table(_shown(record, "monomial-table", "generic")),
        "monomial-ranks": _ranks(_shown(record, "monomial-ranks", "rank")),
        "monomial-separation": _separation(_shown(record, "monomial-separation", "float_singular")),
        "monomial-training": _training(_shown(record, "monomial-training", "end_distance")),
    }


def _shown(record: Record, kind: str, variable: str) -> dict[str, Mapping[str, Any]]:
    return {name: data for name, data in groups_of(record, kind).items() if numbers(data, variable) is not None}


def _column(data: Mapping[str, Any], name: str) -> np.ndarray:
    return np.asarray(data[name], dtype=np.float64)


def _words(data: Mapping[str, Any], name: str) -> list[str]:
    return [str(x) for x in np.asarray(data[name])]


def _attribute(data: Mapping[str, Any], name: str) -> float:
    return float(getattr(data, "attrs", {}).get(name, np.nan))


def _grid(axes: Axes, share: np.ndarray, text: list[list[str]], rows: list[str], columns: list[str]) -> Any:
    """Shaded cells with numbers in them."""
    image = axes.imshow(share, aspect="auto", cmap=_SHARES, vmin=0.5, vmax=1.0, interpolation="nearest")
    axes.grid(visible=False)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns)
    axes.tick_params(length=0)
    for i, line in enumerate(text):
        for k, word in enumerate(line):
            colour = "white" if share[i, k] < 0.62 else ON_LIGHT
            axes.text(k, i, word, ha="center", va="center", fontsize=7.5, color=colour)
    return image


def _table(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Generic over expected rank by architecture and degree; a bar where each threshold is."""
    if not groups:
        return None
    heights = [len(_words(data, "architecture")) for data in groups.values()]
    figure = figure_of(7.2, 1.2 + 0.24 * sum(heights) + 0.5 * len(heights))
    axes = figure.subplots(len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    image = None
    for here, (name, data) in zip(axes[:, 0], groups.items(), strict=True):
        generic, expected = _column(data, "generic"), _column(data, "expected")
        degrees = _column(data, "degree")
        text = [
            [f"{g:.0f}" if g == e else f"{g:.0f} / {e:.0f}" for g, e in zip(*row, strict=True)]
            for row in zip(generic, expected, strict=True)
        ]
        image = _grid(here, generic / expected, text, _words(data, "architecture"), [f"r = {r:.0f}" for r in degrees])
        for i, (threshold, enough) in enumerate(zip(_column(data, "threshold"), _column(data, "enough"), strict=True)):
            for value, colour, style in ((threshold, BLUE, "-"), (enough, INK, ":")):
                if np.isfinite(value) and degrees[0] <= value <= degrees[-1]:
                    x = float(np.searchsorted(degrees, value)) - 0.5 + (0.04 if value == degrees[0] else 0)
                    here.plot([x, x], [i - 0.42, i + 0.42], color=colour, linestyle=style, linewidth=2.2)
        here.set_title(name)
    if image is not None:
        figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, label="generic rank over expected rank")
    figure.suptitle(
        "Generic rank (red: generic / expected).  Blue: from here on equal.  Dotted: 2h − 1",
        fontsize=11,
        x=0.01,
        ha="left",
    )
    return figure


def _ranks(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Ranks of the kinds of subnetworks under the generic one; degrees with other critical points are marked."""
    if not groups:
        return None
    columns = 2 if len(groups) > 1 else 1
    rows = -(-len(groups) // columns)
    most = max(len(_words(data, "kind")) for data in groups.values())
    figure = figure_of(6.4 * columns, 0.8 + rows * (0.9 + 0.25 * (most + 2)))
    axes = figure.subplots(rows, columns, squeeze=False)
    for here, (name, data) in zip(axes.flat, groups.items(), strict=False):
        rank, generic = _column(data, "rank"), _column(data, "generic")
        degrees, other = _column(data, "degree"), _column(data, "other_critical")
        share = np.vstack([rank / generic, np.ones((2, len(degrees)))])
        # A subnetwork that is not critical is what refutes: it is set off, not the ranks below.
        text = [[f"{x:.0f}" if x < g else f"{x:.0f} = generic" for x, g in zip(r, generic, strict=True)] for r in rank]
        text += [[f"{g:.0f}" for g in generic], ["found" if k else "–" for k in other]]
        words = [*_words(data, "kind"), "generic rank", "other critical points"]
        short = [w.replace("inactive (zero incoming row)", "zero row").replace("inactive (zero outgoing column)",
                 "zero column").replace("redundant (two proportional incoming rows)", "proportional rows")
                 for w in words]  # fmt: skip
        _grid(here, share, text, short, [f"r = {r:.0f}" for r in degrees])
        for k, words_of in enumerate(np.array(text).T):
            for i, word in enumerate(words_of):
                if "=" in word or word == "found":
                    box = [k - 0.47, i - 0.42]
                    here.add_patch(_box(box))
        threshold = _attribute(data, "criticality_threshold")
        if np.isfinite(threshold):
            here.axvline(float(np.searchsorted(degrees, threshold)) - 0.5, color=BLUE, linewidth=2.2)
        here.set_title(f"{name}   (blue: from here on critical = subnetwork)")
    for empty in axes.flat[len(groups) :]:
        empty.set_visible(False)
    figure.suptitle(
        "Ranks at subnetworks.  Boxed: what refutes “critical exactly at subnetworks”", fontsize=11, x=0.01, ha="left"
    )
    return figure


def _box(corner: list[float]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((corner[0], corner[1]), 0.94, 0.84, fill=False, edgecolor=ORANGE, linewidth=1.6)


def _separation(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """The singular value that floats decide by, over the separation of two rows, with its certified error at each net.

    A marker is filled where floats decide the rank: that is where the value exceeds its error.
    """
    if not groups:
        return None
    figure = figure_of(7.4, 4.2)
    here = figure.subplots()
    lowest = np.inf
    for k, (name, data) in enumerate(groups.items()):
        x, y, decided = _column(data, "separation"), _column(data, "float_singular"), _column(data, "float_decided") > 0
        error, colour, y = _column(data, "float_error"), _COLOURS[k % 4], np.where(y > 0, y, np.nan)
        here.plot(x, y, color=colour, linestyle=_STYLES[k % 4], linewidth=1.2, label=name)
        here.plot(x, error, color=colour, linewidth=0.8, alpha=0.6)
        lowest = min([lowest, *error[error > 0]])
        for chosen, fill in ((decided, colour), (~decided, "white")):
            here.plot(x[chosen], y[chosen], "os^D"[k % 4], color=colour, markerfacecolor=fill, markersize=5)
    here.set_xscale("log")
    here.set_yscale("log")
    if np.isfinite(lowest):  # what is far below every error is rounding
        here.set_ylim(bottom=lowest * 1e-4)
    here.set_xlabel("separation of two rows")
    here.set_ylabel("smallest singular value that counts")
    here.legend(loc="upper left")
    here.set_title(
        "filled: floats decide the rank.  hollow: exact arithmetic only.  thin lines: the certified error",
        fontsize=9,
    )
    figure.suptitle("Nearly redundant neurons", fontsize=11, x=0.01, ha="left")
    return figure


def _training(groups: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Distribution of the distance to the subnetworks at the end and the start, with intervals at each delta."""
    if not groups:
        return None
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure = figure_of(0.8 + 3.9 * columns, 0.8 + 3.2 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for index, (name, data) in enumerate(groups.items()):
        here, deltas = axes.flat[index], _column(data, "delta")
        starts, ends = _column(data, "start_distance"), _column(data, "end_distance")
        for k, target in enumerate(_words(data, "target")):
            colour = _COLOURS[k % 4]
            here.step(*_ecdf(ends[k]), where="post", color=colour, linestyle=_STYLES[k % 4], label=target)
            share = _column(data, "end_share")[k]
            low, high = share - _column(data, "end_low")[k], _column(data, "end_high")[k] - share
            # Shifted a little, so that the intervals of different targets do not cover each other.
            here.errorbar(
                deltas * 1.12 ** (k - 1), share, yerr=np.abs([low, high]), fmt="os^D"[k % 4], color=colour,
                markersize=3.5, capsize=3, linewidth=1.2,
            )  # fmt: skip
        here.step(*_ecdf(starts.ravel()), where="post", color=FAINT, linewidth=1.2, label="starts")
        here.set_xscale("log")
        here.set_xlim(1e-5, 1.2)
        here.set_ylim(-0.03, 1.03)
        here.set_title(name)
        here.set_xlabel("distance to the subnetworks")
        if index % columns == 0:
            here.set_ylabel("share of runs within it")
        if index == 0:
            here.legend(loc="upper left")
    for empty in axes.flat[len(groups) :]:
        empty.set_visible(False)
    figure.suptitle(
        "How near do runs end to a subnetwork?  (not judged; bars: 95% intervals)", fontsize=11, x=0.01, ha="left"
    )
    return figure


def _ecdf(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances below the axis stand at its left end; runs that diverged never count as near."""
    finite = np.sort(np.maximum(values[np.isfinite(values)], 1e-5))
    counts = np.concatenate([[0], np.arange(1, len(finite) + 1), [len(finite)]])
    return np.concatenate([[1e-5], finite, [1.2]]), counts / max(1, len(values))
