"""Figures of early alignment, from made-up records."""

import matplotlib
import numpy as np
import pytest
import xarray as xr

from _records import record
from omegalimit.report.figures import alignment
from omegalimit.report.figures._shared import STYLE

NAMES = ["alignment-angle", "alignment-flow", "alignment-times"]
RUNS = ["rows, logistic, flow", "rows, logistic, descent"]
LAW = {"C": 0.5, "offset": -1.0, "gamma": 1.0}


def angles() -> xr.Dataset:
    s = np.linspace(-2, 60, 40)
    angle = np.arctan(0.5 / np.maximum(s - 1, 0.5))
    late = np.where(s < 0, np.nan, angle)
    return xr.Dataset(
        {
            "log_time": ("time", s),
            "angle": (("run", "time"), np.stack([angle, late])),
            "C": ("run", [0.5, 0.5]),
            "log_exact": ("run", [np.nan, 12.0]),
        },
        coords={"run": RUNS},
        attrs=LAW,
    )


def flows() -> xr.Dataset:
    s = np.linspace(-2, 60, 40)
    return xr.Dataset(
        {
            "log_time": ("time", s),
            "radial": (("run", "time"), 1 / (1 + np.exp(-s))[None]),
            "tangential": (("run", "time"), 0.5 / (1 + s**2)[None]),
        },
        coords={"run": RUNS[:1]},
        attrs=LAW,
    )


def times() -> xr.Dataset:
    angle = np.geomspace(1, 0.01, 30)
    law = 0.5 / np.tan(angle) + 1
    measured = np.stack([law + angle, np.where(angle < 0.02, np.nan, law)])
    return xr.Dataset(
        {
            "angle": ("angles", angle),
            "log_times": (("run", "angles"), measured),
            "law": ("angles", law),
            "first_term": ("angles", 0.5 / angle),
        },
        coords={"run": RUNS},
        attrs={**LAW, "weak": 0.3, "fine": 0.03},
    )


ARRAYS = {"rows/alignment-angle": angles, "rows/alignment-flow": flows, "rows/alignment-times": times}


def drawn(arrays):
    with matplotlib.rc_context(STYLE):
        return alignment.draw(record(arrays))


@pytest.fixture(scope="module")
def whole():
    return drawn({name: make() for name, make in ARRAYS.items()})


def test_every_figure_is_drawn_and_saved(whole, tmp_path):
    assert list(whole) == NAMES
    for name, figure in whole.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_nothing_to_show_is_no_figure():
    assert drawn({}) == dict.fromkeys(NAMES)
    empty = angles()
    empty["angle"] = empty["angle"] * np.nan
    assert drawn({"rows/alignment-angle": empty})["alignment-angle"] is None


def test_labels_are_those_of_the_runs_without_the_rows(whole):
    above = whole["alignment-angle"].axes[0]
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert labels == ["logistic, flow", "logistic, descent", "C / log t", "the law"]
    assert above.get_title(loc="left") == "rows"


def test_the_law_is_drawn_through_what_follows_it(whole):
    above, below = whole["alignment-angle"].axes
    law = next(line for line in above.lines if line.get_label() == "the law")
    path = above.lines[0]
    s, angle = (np.asarray(values, dtype=float) for values in law.get_data())
    np.testing.assert_allclose(angle, np.interp(s, *path.get_data()), rtol=1e-12)
    # Below, the level C.
    assert any(np.allclose(line.get_ydata(), 0.5) for line in below.lines)


def test_angles_fall_to_the_right_and_marks_stand_where_they_were_asked_for(whole):
    (axes,) = whole["alignment-times"].axes
    left, right = axes.get_xlim()
    assert left > right
    assert sorted(text.get_text() for text in axes.texts) == ["fine", "weak"]
    bare = times()
    bare.attrs = LAW
    figure = drawn({"rows/alignment-times": bare})["alignment-times"]
    assert figure is not None
    (axes,) = figure.axes
    assert list(axes.texts) == []


def test_radial_and_tangential_flow_have_a_panel_each(whole):
    radial, tangential = whole["alignment-flow"].axes
    assert radial.get_ylabel().startswith("radial")
    assert tangential.get_yscale() == "log"
    drawn_law = next(line for line in tangential.lines if line.get_label() == "the law, C / ((log t + b)² + C²)")
    s, law = (np.asarray(values, dtype=float) for values in drawn_law.get_data())
    np.testing.assert_allclose(law, 0.5 / ((s - 1) ** 2 + 0.25), rtol=1e-12)


def test_counter_instances_are_left_out():
    assert drawn({"counters/zero-dual/rows/alignment-angle": angles()})["alignment-angle"] is None
