"""Figures of negative-shifted descent, from made-up records."""

import matplotlib
import numpy as np
import pytest
import xarray as xr

from _records import record
from omegalimit.report.figures import shifted
from omegalimit.report.figures._shared import STYLE

NAMES = ["shifted-spectrum", "shifted-risk", "shifted-ratio", "shifted-prefix", "shifted-choice"]


def spectrum() -> xr.Dataset:
    grid = np.geomspace(0.4, 6, 50)
    return xr.Dataset(
        {
            "eigenvalues": ("mode", np.append(np.linspace(0.71, 1.34, 60), [1.5, 5.0])),
            "grid": ("eigenvalue", grid),
            "filters": (
                ("filter", "eigenvalue"),
                np.stack([grid / (grid + 1), np.where(grid > 0.7, 1 / (1 - 0.5 / grid), np.nan)]),
            ),
            "head_locations": ("head", [1.49, 5.0, np.nan]),
        },
        coords={"filter": ["ridge", "endpoint"]},
        attrs={"floor": 1.0, "lower_edge": 0.709, "upper_edge": 1.341, "m_min": 0.71},
    )


def risk() -> xr.Dataset:
    t = np.geomspace(0.1, 20, 30)
    return xr.Dataset(
        {
            "t": ("time", t),
            "risk": (("shift", "time"), np.stack([0.3 + np.exp(-t), 0.05 + np.exp(-t) + 1e-3 * np.exp(t)])),
        },
        coords={"shift": ["0", "a"]},
        attrs={"endpoint": 0.12, "ridgeless": 0.3, "rescaling": 0.2},
    )


def sizes() -> xr.Dataset:
    n = np.repeat([100.0, 200.0, 400.0], 2)
    return xr.Dataset(
        {"n": ("draw", n), "ratio": ("draw", 2 * (n / 100) ** 0.25)}, attrs={"exponent": 0.25, "slack": 0.01}
    )


def prefix() -> xr.Dataset:
    m = np.linspace(2.0, 0.5, 20)
    f = np.stack([m / 1.9, m])
    return xr.Dataset(
        {
            "eigenvalues": ("mode", m),
            "t": ("time", [0.5, 1.0]),
            "filter": (("time", "mode"), f),
            "crossing": ("time", [1.9, 1.0]),
        },
        attrs={"nu": 1.0},
    )


def choice() -> xr.Dataset:
    nu, t = np.array([0.0, 0.5, 1.0]), np.geomspace(0.1, 10, 12)
    errors = 0.1 + (np.log(t)[None] - nu[:, None]) ** 2
    errors[2, -1] = np.nan
    m = np.geomspace(0.1, 4, 9)
    return xr.Dataset(
        {
            "errors": (("shift", "time"), errors),
            "nu": ("shift", nu),
            "t": ("time", t),
            "eigenvalues": ("mode", m),
            "filter": ("mode", m),
        },
        attrs={"chosen_nu": 1.0, "chosen_t": 2.5, "crossing": 1.0, "ridgeless_error": 0.5},
    )


ARRAYS = {
    "heads/shifted-spectrum": spectrum, "heads/shifted-risk": risk, "heads/shifted-sizes": sizes,
    "heads/shifted-prefix": prefix, "price/shifted-choice": choice,
}  # fmt: skip


def drawn(arrays):
    with matplotlib.rc_context(STYLE):
        return shifted.draw(record(arrays))


def pixels(figure) -> np.ndarray:
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba(), dtype=float)[..., :3]


def test_every_figure_is_made_and_shows_something():
    figures = drawn({name: make() for name, make in ARRAYS.items()})
    assert list(figures) == NAMES
    for figure in figures.values():
        assert figure is not None
        picture = pixels(figure)
        assert (np.abs(picture - picture[0, 0]).max(axis=2) > 50).mean() > 0.005


def test_nothing_to_show_is_no_figure():
    assert drawn({}) == dict.fromkeys(NAMES)
    assert drawn({"counters/isotropic/heads/shifted-risk": risk()}) == dict.fromkeys(NAMES)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_group_makes_its_figure_alone(name):
    figures = drawn({name: ARRAYS[name]()})
    assert sum(figure is not None for figure in figures.values()) == 1


def axes(name, arrays):
    figure = drawn(arrays)[name]
    assert figure is not None
    return figure.axes


def test_the_spectrum_has_its_marks_and_the_heads_that_are_seen():
    top, bottom = axes("shifted-spectrum", {"heads/shifted-spectrum": spectrum()})[:2]
    upright = [
        float(np.asarray(line.get_xdata())[0]) for line in top.get_lines() if len(np.asarray(line.get_xdata())) == 2
    ]
    assert {0.709, 1.341, 1.0} <= set(upright)
    heads = next(line for line in top.get_lines() if line.get_label() == "heads, predicted")
    np.testing.assert_array_equal(heads.get_xdata(), [1.49, 5.0])
    assert [line.get_label() for line in bottom.get_lines()][:2] == ["ridge", "endpoint"]


def test_the_ratio_is_drawn_with_its_exponent():
    (here,) = axes("shifted-ratio", {"heads/shifted-sizes": sizes()})
    line = next(line for line in here.get_lines() if line.get_label() == "n^0.25 (± 0.01)")
    x, y = np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)
    np.testing.assert_allclose(y, 2 * (x / 100) ** 0.25, rtol=1e-12)


def test_the_bar_stands_behind_the_modes_above_ridgeless():
    here = axes("shifted-prefix", {"heads/shifted-prefix": prefix()})[0]
    bars = [float(np.asarray(line.get_xdata())[0]) for line in here.get_lines()]
    m = np.linspace(2.0, 0.5, 20)
    assert bars == [np.sum(m > 1.9) - 0.5, np.sum(m > 1.0) - 0.5]


def test_the_chosen_pair_and_both_sides_of_its_filter_are_marked():
    left, right = axes("shifted-choice", {"price/shifted-choice": choice()})[:2]
    assert "ν = 1, chosen" in [line.get_label() for line in left.get_lines()]
    labels = [line.get_label() for line in right.get_lines()]
    assert {"below ridgeless", "above ridgeless", "predicted crossing"} <= set(labels)


def test_a_target_that_is_predicted_without_error_is_drawn():
    data = choice()
    data["errors"] = data["errors"] * 0.0
    assert drawn({"y/shifted-choice": data})["shifted-choice"] is not None
