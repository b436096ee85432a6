"""Figures of noisy wide ReLU networks, from made-up records."""

import matplotlib
import numpy as np
import pytest
import xarray as xr

from _records import record
from omegalimit.report.figures import collapse
from omegalimit.report.figures._shared import STYLE

NAMES = [
    "collapse-particles", "collapse-density", "collapse-function", "collapse-cells", "collapse-shares",
    "collapse-errors",
]  # fmt: skip
TEMPERATURES = ["100", "1e4"]


def unit(rng, *shape):
    U = rng.standard_normal(shape)
    return U / np.linalg.norm(U, axis=-1, keepdims=True)


def particles(D, outputs=1):
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "time": ("snapshot", [0.0, 0.1, 1.0, 10.0, 100.0]),
            "direction": (("snapshot", "particle", "weight"), unit(rng, 5, 30, D)),
            "size": (("snapshot", "particle"), rng.random((5, 30))),
            "sign": (("snapshot", "particle"), rng.choice([-1.0, 1.0], (5, 30))),
            "predicted": (("learned", "weight"), unit(rng, 2, D)),
            "predicted_mass": ("learned", [1.0, 0.2]),
            "rows": (("input", "weight"), np.column_stack([rng.standard_normal((4, D - 1)), np.ones(4)])),
        },
        attrs={"beta": 1e4, "outputs": outputs},
    )


def density():
    angle = np.linspace(-np.pi, np.pi, 100)
    mass = np.stack([1.1 + np.cos(angle), np.maximum(np.cos(angle), 0) ** 4])
    return xr.Dataset(
        {
            "angle": ("place", angle),
            "density": (("temperature", "place"), mass),
            "mass": (("temperature", "place"), mass),
            "predicted": ("learned", [0.0]),
            "walls": ("wall", [1.0, -2.0]),
        },
        coords={"temperature": TEMPERATURES},
    )


def function(d, m=1):
    side = np.linspace(-1, 1, 9)
    points = np.stack(np.meshgrid(*[side] * d, indexing="ij"), axis=-1).reshape(-1, d)
    f = np.maximum(points[:, :1] + 0.2, 0) * np.arange(1, m + 1)
    walls = [[1.0, 0.2]] if d == 1 else [[1.0, 0.1, 0.2], [0.1, -1.0, 0.3]]
    return xr.Dataset(
        {
            "point": (("place", "column"), points),
            "limit": (("place", "output"), f),
            "at_beta": (("temperature", "place", "output"), np.stack([f + 0.1, f + 0.001])),
            "trained": (("place", "output"), f + 0.01),
            "X": (("input", "column"), np.zeros((1, d))),
            "y": (("input", "output"), np.ones((1, m))),
            "walls": (("learned", "weight"), walls),
        },
        coords={"temperature": TEMPERATURES},
        attrs={"beta_trained": 1e4},
    )


def shares():
    return xr.Dataset(
        {
            "beta": ("temperature", [1e2, 1e4]),
            "mass_away": ("temperature", [0.5, 1e-3]),
            "neurons_away": ("temperature", [0.9, 0.5]),
            "predictor": ("temperature", [0.1, 1e-3]),
        },
        attrs={"window": 0.1},
    )


def errors():
    N = np.array([100.0, 400.0, 400.0])
    scatter = np.tile(1 / np.sqrt(N)[:, None], (1, 8))
    return xr.Dataset(
        {
            "particles": ("run", N),
            "scatter": (("run", "batch"), scatter),
            "distance": (("run", "batch"), scatter + 0.01),
            "step_size": ("step", [0.2, 0.1]),
            "averaged": ("step", [0.02, 0.01]),
            "averaged_error": ("step", [0.001, 0.001]),
        },
        attrs={"floor": 0.01, "extrapolated": 0.001, "beta": 50.0},
    )


def arrays():
    return {
        "plane/collapse-particles": particles(3),
        "plane/collapse-function": function(2),
        "plane/collapse-shares": shares(),
        "plane/collapse-errors": errors(),
        "line/collapse-particles": particles(2),
        "two/collapse-particles": particles(2, outputs=2),
        "line/collapse-density": density(),
        "line/collapse-function": function(1),
        "two/collapse-function": function(1, 2),
    }


def drawn(groups):
    with matplotlib.rc_context(STYLE):
        figures = collapse.draw(record(groups))
        for figure in figures.values():
            if figure is not None:
                figure.canvas.draw()
    return figures


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


def test_every_figure_is_drawn():
    figures = drawn(arrays())
    assert list(figures) == NAMES
    assert all(figure is not None for figure in figures.values())
    assert titles(figures["collapse-particles"]) == [
        *(f"plane, β = 10000, time {t}" for t in ("0", "0.1", "10", "100")), "line, β = 10000", "two, β = 10000",
    ]  # fmt: skip
    assert titles(figures["collapse-function"]) == ["line", "two, output 1", "two, output 2"]
    assert titles(figures["collapse-cells"]) == [
        "plane: limit", "plane: particles, β = 1e4", "plane: measure, β = 100",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["particles", "density", "function", "shares", "errors"])
def test_what_is_missing_is_left_out(kind):
    some = {name: data for name, data in arrays().items() if not name.endswith(f"collapse-{kind}")}
    gone = {"collapse-function", "collapse-cells"} if kind == "function" else {f"collapse-{kind}"}
    figures = drawn(some)
    assert {name for name, figure in figures.items() if figure is None} == gone


def test_nothing_to_show():
    assert set(drawn({}).values()) == {None}
    # Directions of higher dimension have no map, and functions of three columns no picture.
    assert drawn({"d=3/collapse-particles": particles(4)})["collapse-particles"] is None
    assert drawn({"d=3/collapse-shares": shares()})["collapse-shares"] is not None


def test_a_net_that_diverged_leaves_the_limit():
    data = function(1)
    data["trained"] = data["trained"] * np.nan
    assert drawn({"line/collapse-function": data})["collapse-function"] is not None
    plane = function(2)
    plane["trained"] = plane["trained"] * np.nan
    assert drawn({"plane/collapse-function": plane})["collapse-cells"] is not None
    away = shares()
    away["mass_away"] = away["mass_away"] * np.nan
    assert drawn({"line/collapse-shares": away})["collapse-shares"] is None


def test_density_peaks_are_on_a_log_axis():
    figure = drawn({"line/collapse-density": density()})["collapse-density"]
    assert figure is not None
    assert figure.axes[0].get_yscale() == "log"
    assert len(figure.axes[0].lines) == len(TEMPERATURES) + 1  # and the predicted direction


def test_the_legend_of_densities_hides_no_peak():
    figure = drawn({"line/collapse-density": density()})["collapse-density"]
    assert figure is not None
    axes = figure.axes[0]
    legend = axes.get_legend()
    assert legend is not None
    top = max(np.nanmax(np.asarray(curve.get_ydata(), dtype=float)) for curve in axes.lines[: len(TEMPERATURES)])
    assert axes.transData.transform((0, top))[1] < legend.get_window_extent().y0
