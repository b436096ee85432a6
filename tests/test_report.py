"""Figures, table and progress, from made-up records."""

import io
import re

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.image import imread

from _records import record
from omegalimit.claims import Assumption, Kind, Verdict
from omegalimit.report import figures, table
from omegalimit.report.figures._shared import plain_ticks
from omegalimit.report.progress import Lines, remaining, shown


def trajectory() -> xr.Dataset:
    """A path as theory has it: log t and the margin grow like S, the gap in the right norm falls like 1/S."""
    log_sharpness = np.linspace(-4.0, 16.0, 60)
    sharpness = np.exp(log_sharpness)
    gap = np.stack([np.minimum(1.0, 3 / sharpness), 0.1 + np.minimum(0.9, 2 / sharpness)], axis=1)
    singular = np.where(np.arange(6) < 2, 1.0, np.minimum(1.0, 1 / sharpness)[:, None] ** np.arange(1, 7))
    return xr.Dataset(
        {
            "log_time": ("point", np.where(sharpness < 700, sharpness, np.nan)),
            "log_sharpness": ("point", log_sharpness),
            "log_loss_gap": ("point", -sharpness),
            "least_margin": ("point", sharpness),
            "gap": (("point", "norm"), gap),
            "singular_values": (("point", "index"), singular),
            "entropy_bound": ("point", 5 / sharpness),
        },
        coords={"norm": ["nuclear", "frobenius"]},
    )


def attention() -> xr.Dataset:
    best = np.array([2, 0, 1])
    limit = np.eye(4)[best]
    stages = np.stack([np.full((3, 4), 0.25), (limit + 0.25) / 2, limit])
    return xr.Dataset(
        {"attention": (("stage", "input", "token"), stages), "selected": ("input", best), "best": ("input", best)},
        coords={"stage": ["start", "middle", "limit"]},
    )


def test_every_figure_is_made_and_shows_something(tmp_path):
    arrays = {"kq/trajectory": trajectory(), "merged/trajectory": trajectory(), "kq/attention": attention()}
    paths = figures.save(record(arrays), tmp_path)
    assert [path.name for path in paths] == ["margins.png", "gaps.png", "singular-values.png", "attention.png"]
    for path in paths:
        picture = imread(path)
        # Neither blank nor a single flat patch: a plot has many pixels that are not the background.
        assert (np.abs(picture - picture[0, 0]).max(axis=2) > 0.2).mean() > 0.005


def lines(axes) -> dict[str, np.ndarray]:
    return {line.get_label(): np.asarray(line.get_xydata()) for line in axes.get_lines()}


def test_ticks_of_logarithmic_axes_are_text_and_say_the_same():
    """Powers, their multiples on a short axis, a base of 2 and an axis through zero, against Matplotlib's formulas."""

    def spoken(text: str) -> str:
        text = re.sub(r"[⁻⁰¹²³⁴-⁹]+", lambda m: "^{" + m[0].translate(plain) + "}", text.replace("−", "-"))
        return text.replace("×", r"\times")

    plain = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    figure, seen = Figure(figsize=(4, 16)), set()
    for row, (low, high, scale) in enumerate(
        ((1e-13, 1e-8, {}), (2e-3, 7e-3, {}), (1.0, 64.0, {"base": 2}), (-1e4, 1e5, {"linthresh": 1}))
    ):
        axes = figure.add_subplot(4, 1, row + 1)
        axes.set_yscale("symlog" if low < 0 else "log", **scale)
        axes.set_ylim(low, high)
        n_minor = len(axes.get_yticks(minor=True))
        formulas = [
            (axes.yaxis.get_minor_formatter() if minor else axes.yaxis.get_major_formatter()).format_ticks(
                list(axes.get_yticks(minor=minor))
            )
            for minor in (False, True)
        ]
        plain_ticks(figure)
        texts = [text.get_text() for text in axes.get_yticklabels()]
        small = [text.get_text() for text in axes.get_yticklabels(minor=True)]
        wanted = [re.sub(r"\$\\mathdefault\{(.*)\}\$", r"\1", text) for text in formulas[0]]
        assert [spoken(text) for text in texts] == wanted
        if row == 0:  # only the powers are marked
            assert n_minor > 0
            assert small == []
        else:
            wanted = [re.sub(r"\$\\mathdefault\{(.*)\}\$", r"\1", text) for text in formulas[1]]
            assert [spoken(text) for text in small] == wanted
        seen |= set(texts) | set(small)
    assert {"10⁻¹²", "3×10⁻³", "2⁴", "−10³", "0"} <= seen
    assert not any("$" in text for text in seen)


def test_the_figures_show_the_numbers_of_the_record():
    data = trajectory()
    drawn = figures.draw(record({"kq/trajectory": data, "kq/attention": attention()}))
    gaps = lines(drawn["gaps"].axes[0])
    assert set(gaps) == {"nuclear gap", "frobenius gap", "bound B(S)"}
    np.testing.assert_allclose(gaps["nuclear gap"][:, 0], data["log_sharpness"] / np.log(10))
    np.testing.assert_allclose(10 ** gaps["nuclear gap"][:, 1], data["gap"].values[:, 0])
    loss, margin = drawn["margins"].axes
    timed = np.isfinite(data["log_time"].values)  # beyond the cap time has no meaning, and nothing is drawn
    for axes, expected in ((loss, data["log_loss_gap"] / np.log(10)), (margin, data["least_margin"])):
        (line,) = axes.get_lines()
        points = np.asarray(line.get_xydata())
        np.testing.assert_allclose(points[:, 0], data["log_time"].values[timed] / np.log(10))
        np.testing.assert_allclose(points[:, 1], expected.values[timed])
    assert len(drawn["singular-values"].axes[0].get_lines()) == 6
    maps = [axes.get_images()[0].get_array() for axes in drawn["attention"].axes[:3]]
    np.testing.assert_array_equal(maps, attention()["attention"])


def test_what_is_missing_is_left_out():
    assert figures.draw(record({})) == {}
    assert figures.draw(record({"kq/limits": xr.Dataset({"x": 1})})) == {}
    assert figures.draw(record({"counters/early/kq/trajectory": trajectory()})) == {}
    assert list(figures.draw(record({"kq/trajectory": trajectory().drop_vars(["gap", "singular_values"])}))) == [
        "margins"
    ]
    nothing = trajectory() * np.nan
    assert figures.draw(record({"kq/trajectory": nothing})) == {}
    some = figures.draw(
        record({"kq/trajectory": trajectory(), "merged/trajectory": trajectory()[["log_time", "least_margin"]]})
    )
    assert [axes.get_title(loc="left") for axes in some["gaps"].axes] == ["kq"]
    assert [axes.get_title(loc="left") for axes in some["margins"].axes[:2]] == ["kq", "merged"]


@pytest.mark.parametrize("extreme", ["gap", "singular_values", "entropy_bound"])
def test_zero_negative_and_infinite_values_are_drawn_around(tmp_path, extreme):
    data = trajectory().copy(deep=True)
    data[extreme].values[:4] = np.array([0.0, -1.0, np.inf, np.nan]).reshape((4,) + (1,) * (data[extreme].ndim - 1))
    assert len(figures.save(record({"kq/trajectory": data}), tmp_path)) == 3


def test_drawing_leaves_matplotlibs_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figures.draw(record({"kq/trajectory": trajectory()}))
    assert dict(matplotlib.rcParams) == before


def judged(**changes) -> Verdict:
    fields = {
        "claim": "rank",
        "parametrisation": "kq",
        "loss": "exponential",
        "kind": Kind.UPPER,
        "measured": 1.0,
        "bound": 2.0,
        "slack": 0.0,
        "unit": "count",
    }
    return Verdict(**{**fields, **changes})


def test_remarks_say_what_stands_beside_the_outcome():
    conditions = tuple(Assumption(name=f"c{holds}", holds=holds) for holds in (True, False, None))
    assumptions = tuple(Assumption(name=f"a{holds}", holds=holds) for holds in (True, False, None))
    verdict = judged(undecided="did not arrive", conditions=conditions, assumptions=assumptions)
    assert table.remarks(verdict) == [
        "did not arrive",
        "not met: cFalse",
        "not decided: cNone",
        "outside the theorem: aFalse",
        "assumption not decided: aNone",
    ]
    assert table.remarks(judged()) == []


def test_summary_counts_each_outcome():
    verdicts = [judged(), judged(measured=3.0), judged(measured=float("nan")), judged(kind=Kind.LOWER)]
    assert table.summary(verdicts) == "4 verdicts: 1 hold, 2 fail, 1 inconclusive"


def test_the_estimate_follows_the_pace_and_grows_when_nothing_moves():
    assert remaining(10.0, 0.5) == "about 10 s left"
    assert remaining(20.0, 0.5) == "about 20 s left"
    assert remaining(600.0, 0.25) == "about 30 min left"
    assert remaining(10.0, 0.0) == remaining(0.1, 0.9) == ""
    assert remaining(10.0, 1.0) == "about 0 s left"


def test_lines_come_now_and_then(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    stream = io.StringIO()
    show = Lines(stream)
    for second in range(10):
        clock[0] = 100.0 + second
        show("training kq", second / 20)
    assert stream.getvalue().splitlines() == [
        "omegalimit: 15 % · training kq · about 17 s left",
        "omegalimit: 30 % · training kq · about 14 s left",
        "omegalimit: 45 % · training kq · about 11 s left",
    ]


def test_the_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with shown(stream) as show:
        show("training [kq]", 0.5)
    assert "training [kq]" in stream.getvalue()
    assert "50%" in stream.getvalue()
