"""Figures of deep monomial networks, from made-up records."""

import matplotlib
import numpy as np
import pytest
import xarray as xr

from _records import record
from omegalimit.catalogue.networks._monomial_arrays import separation_arrays
from omegalimit.catalogue.networks.monomial_networks import MonomialNetworks
from omegalimit.report.figures import monomial
from omegalimit.report.figures._shared import STYLE

NAMES = ["monomial-table", "monomial-ranks", "monomial-separation", "monomial-training"]


def table() -> xr.Dataset:
    both = ("architecture", "degree")
    return xr.Dataset(
        {
            "generic": (both, [[5, 6, 7], [9, 9, 9]]),
            "expected": (both, [[5, 8, 7], [9, 9, 9]]),
            "threshold": ("architecture", [4.0, 2.0]),
            "enough": ("architecture", [5, 3]),
        },
        coords={"architecture": ["2,2,3,1", "3,3,1"], "degree": [2, 3, 4]},
    )


def ranks() -> xr.Dataset:
    return xr.Dataset(
        {
            "rank": (("kind", "degree"), [[3, 4], [5, 5]]),
            "generic": ("degree", [5, 6]),
            "other_critical": ("degree", [2, 0]),
        },
        coords={"kind": ["inactive (zero incoming row), layer 1", "inactive (zero outgoing column), layer 1"],
                "degree": [2, 3]},
        attrs={"criticality_threshold": 3.0},
    )  # fmt: skip


def separation() -> xr.Dataset:
    e = 2.0 ** -np.arange(2, 12)
    return xr.Dataset(
        {
            "separation": ("net", e),
            "float_singular": ("net", np.append(e[:-1] ** 3, 0.0)),
            "float_error": ("net", np.full(len(e), 1e-6)),
            "float_decided": ("net", (e > 0.01).astype(np.int8)),
        },
    )


def training() -> xr.Dataset:
    rng = np.random.default_rng(0)
    end = rng.uniform(0, 1, (2, 20)) ** 4
    end[0, :3] = np.nan  # diverged
    end[1, 0] = 0.0
    share = (np.nan_to_num(end, nan=9.0)[:, :, None] <= np.array([0.1, 0.01])).mean(axis=1)
    return xr.Dataset(
        {
            "start_distance": (("target", "start"), rng.uniform(0, 1, (2, 20))),
            "end_distance": (("target", "start"), end),
            "end_share": (("target", "delta"), share),
            "end_low": (("target", "delta"), share - 0.05),
            "end_high": (("target", "delta"), share + 0.1),
        },
        coords={"target": ["same widths", "noise"], "delta": [0.1, 0.01]},
    )


ARRAYS = {
    "ranks/monomial-table": table, "2,2,1/monomial-ranks": ranks, "2,2,1, r = 3/monomial-separation": separation,
    "2,2,1/monomial-training": training,
}  # fmt: skip


def drawn(arrays):
    with matplotlib.rc_context(STYLE):
        return monomial.draw(record(arrays))


@pytest.fixture(scope="module")
def whole():
    return drawn({name: make() for name, make in ARRAYS.items()})


def words(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_every_figure_is_drawn_and_saved(whole, tmp_path):
    assert list(whole) == NAMES
    for name, figure in whole.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_nothing_to_show_is_no_figure():
    assert drawn({}) == dict.fromkeys(NAMES)
    assert drawn({f"counters/no-cap/{name}": make() for name, make in ARRAYS.items()}) == dict.fromkeys(NAMES)
    empty = separation()
    empty["float_singular"] = empty["float_singular"] * np.nan
    assert drawn({"x/monomial-separation": empty})["monomial-separation"] is None


@pytest.mark.parametrize("name", ARRAYS)
def test_a_group_makes_its_figure_alone(name):
    assert sum(figure is not None for figure in drawn({name: ARRAYS[name]()}).values()) == 1


def test_the_table_shows_both_ranks_where_they_differ(whole):
    axes = whole["monomial-table"].axes[0]
    assert words(axes) == ["5", "6 / 8", "7", "9", "9", "9"]
    np.testing.assert_allclose(axes.get_images()[0].get_array(), [[1, 0.75, 1], [1, 1, 1]])
    # Marks at r = 4 and r = 2; 2h - 1 = 5 is beyond the table, 3 is not.
    assert len(axes.lines) == 3
    no_threshold = table()
    no_threshold["threshold"].values[:] = np.nan
    figure = drawn({"x/monomial-table": no_threshold})["monomial-table"]
    assert figure is not None
    assert len(figure.axes[0].lines) == 1


def test_what_refutes_is_boxed(whole):
    axes = whole["monomial-ranks"].axes[0]
    assert words(axes) == ["3", "4", "5 = generic", "5", "5", "6", "found", "–"]
    boxes = [(patch.get_x() + 0.47, patch.get_y() + 0.42) for patch in axes.patches]
    assert sorted((round(x), round(y)) for x, y in boxes) == [(0, 1), (0, 3)]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "zero row, layer 1", "zero column, layer 1", "generic rank", "other critical points",
    ]  # fmt: skip
    assert axes.lines[0].get_xdata()[0] == 0.5  # the threshold, before the second degree


def test_values_that_have_no_logarithm_are_left_out(whole):
    (axes,) = whole["monomial-separation"].axes
    line = axes.lines[0]
    y = np.asarray(line.get_ydata(), dtype=float)
    assert np.isnan(y[-1])
    np.testing.assert_allclose(y[:-1], separation()["float_singular"].values[:-1])
    error, filled, hollow = axes.lines[1:4]
    np.testing.assert_array_equal(error.get_ydata(), separation()["float_error"].values)
    assert len(filled.get_xdata()) == int(separation()["float_decided"].sum())
    assert len(filled.get_xdata()) + len(hollow.get_xdata()) == 10


def test_floats_decide_where_the_value_shown_exceeds_the_error_shown():
    """Of the nets of a run, in each layer: what is filled lies above its error, what is hollow below it."""
    sweeps = MonomialNetworks().sweeps()
    figure = drawn({f"{s.label}/monomial-separation": separation_arrays(s) for s in sweeps})["monomial-separation"]
    assert figure is not None
    lines = figure.axes[0].lines
    assert len(lines) == 4 * len(sweeps)
    for k in range(len(sweeps)):
        _, error, filled, hollow = lines[4 * k : 4 * k + 4]
        allowed = {float(x): y for x, y in np.asarray(error.get_xydata())}
        above, below = np.asarray(filled.get_xydata()), np.asarray(hollow.get_xydata())
        assert len(above) > 0
        assert len(below) > 0
        assert all(y > allowed[x] for x, y in above)
        # NaN: no such value, or zero.
        assert not any(y > allowed[x] for x, y in below)


def test_runs_that_diverged_are_never_near(whole):
    axes = whole["monomial-training"].axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    top = {name: float(np.asarray(lines[name].get_ydata())[-1]) for name in ("same widths", "noise", "starts")}
    assert top == {"same widths": 17 / 20, "noise": 1.0, "starts": 1.0}
    x, y = (np.asarray(values, dtype=float) for values in lines["noise"].get_data())
    # A distance of zero stands at the left end of the axis.
    assert (x[1], y[1]) == (1e-5, 1 / 20)
