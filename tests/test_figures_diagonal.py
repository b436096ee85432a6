"""Figures of diagonal networks, from made-up records."""

import numpy as np
import pytest
import xarray as xr

from _records import record
from omegalimit.report.figures import diagonal

NAMES = ["diagonal-path", "diagonal-loss", "diagonal-dual", "diagonal-rates", "diagonal-potential"]


def saddles() -> xr.Dataset:
    """Three features: the first wakes at time 1 and sleeps again at 2, the second wakes at 2; the third never does."""
    time = np.linspace(0, 4, 81)
    k = np.stack([np.where((time > 1) & (time < 2), 0.8, 0.0), np.where(time >= 2, -1.5, 0.0), 0 * time], axis=1)
    path_k = np.array([[0.0, 0, 0], [0.8, 0, 0], [0, -1.5, 0]])
    s = np.stack([0.5 * np.minimum(time, 1), -np.minimum(time, 2), 0.1 * time], axis=1)
    return xr.Dataset(
        {
            "time": ("point", time),
            "k": (("point", "feature"), k),
            "s": (("point", "feature"), s),
            "log_loss": ("point", np.where(time < 1, 0.0, np.where(time < 2, -1.0, -60.0))),
            "path_time": ("event", [0.0, 1.0, 2.0]),
            "path_k": (("event", "feature"), path_k),
            "path_s": (("event", "feature"), s[[0, 20, 40]]),
            "path_log_loss": ("event", [0.0, -1.0, -np.inf]),
            "rest_time": ("rest", [0.5, 1.5]),
            "rest_log_loss": ("rest", [0.0, -1.0]),
            "t_plus": ("feature", [0.5, 1.0, 2.0]),
            "t_minus": ("feature", [0.5, 2.0, np.inf]),
        }
    )


def rates() -> xr.Dataset:
    h = np.array([46.0, 92.0, 184.0])
    return xr.Dataset(
        {
            "h": ("scale", h),
            "jump_error": ("scale", 7 / h),
            "dual_error": ("scale", 0 * h),
        }
    )


def potential(depth: int) -> xr.Dataset:
    log10_alpha = np.linspace(-6, 1, 15)
    return xr.Dataset(
        {
            "log10_alpha": ("alpha", log10_alpha),
            "excess": ("alpha", 10 ** (np.minimum(log10_alpha, 0) * (depth - 1))),
            "flow_log10_alpha": ("run", [-1.0]),
            "flow_excess": ("run", [0.1 ** (depth - 1)]),
        }
    )


@pytest.fixture
def drawn():
    arrays = {"product/saddles": saddles(), "product/saddle-rates": rates()}
    arrays |= {f"depth-{depth}/potential": potential(depth) for depth in (2, 3)}
    return diagonal.draw(record(arrays))


def lines(axes) -> dict[str, np.ndarray]:
    return {line.get_label(): np.asarray(line.get_xydata()) for line in axes.get_lines()}


def test_every_figure_shows_something(drawn, tmp_path):
    assert list(drawn) == NAMES
    for name, figure in drawn.items():
        assert figure is not None
        figure.savefig(tmp_path / f"{name}.png")


def test_weights_and_saddles_are_those_of_the_record(drawn):
    axes = drawn["diagonal-path"].axes[0]
    found = lines(axes)
    assert {"k1", "k2"} <= set(found)
    assert "k3" not in found  # it never has a weight worth a name
    np.testing.assert_array_equal(found["k2"][:-1, 1], saddles()["k"].values[:, 1])  # the last point is drawn on
    dashed = [np.asarray(line.get_xydata()) for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert len(dashed) == 2
    np.testing.assert_array_equal(dashed[0][:, 1], [0.0, 0.8, 0.0, 0.0])
    np.testing.assert_allclose(dashed[0][:, 0], [0.0, 1.0, 2.0, 1.06 * 4.0])


def test_forces_are_shown_between_their_own_walls(drawn):
    found = lines(drawn["diagonal-dual"].axes[0])
    s = saddles()["s"].values
    np.testing.assert_allclose(found["s1"][:, 1], s[:, 0] / 0.5)
    np.testing.assert_allclose(found["s2"][:, 1], s[:, 1] / 2.0)  # negative: the wall of the other sign


def test_losses_below_what_is_drawn_are_cut_and_the_last_saddle_has_none(drawn):
    axes = drawn["diagonal-loss"].axes[0]
    assert axes.get_ylim()[0] == -12.5
    (dashes,) = axes.collections
    assert len(dashes.get_segments()) == 2
    (rests,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
    np.testing.assert_allclose(np.asarray(rests.get_xydata())[:, 1], [0.0, -1.0 / np.log(10)])


def test_rates_have_a_line_of_slope_minus_one_and_no_line_for_zeros(drawn):
    axes = drawn["diagonal-rates"].axes[0]
    found = lines(axes)
    assert set(found) == {"jump times", "1/h"}
    slope = np.diff(found["1/h"][[0, -1], 1]) / np.diff(found["1/h"][[0, -1], 0])
    np.testing.assert_allclose(slope, -1)


def test_potentials_have_a_line_and_marks_for_each_depth(drawn):
    found = lines(drawn["diagonal-potential"].axes[0])
    assert set(found) == {"depth-2", "depth-2, flow", "depth-3", "depth-3, flow"}
    np.testing.assert_allclose(10 ** found["depth-3"][:, 1], potential(3)["excess"])
    np.testing.assert_allclose(found["depth-3, flow"], [[-1.0, -2.0]])


def test_what_is_missing_is_left_out():
    assert set(diagonal.draw(record({})).values()) == {None}
    assert set(diagonal.draw(record({"counters/x/product/saddles": saddles()})).values()) == {None}
    bare = diagonal.draw(record({"product/saddles": saddles()[["time", "k"]]}))
    assert [name for name, figure in bare.items() if figure is not None] == ["diagonal-path"]
    nothing = diagonal.draw(record({"product/saddles": saddles() * np.nan, "product/saddle-rates": rates() * np.nan}))
    assert set(nothing.values()) == {None}
