"""Pages of many records: what is counted, what is said, what is drawn."""

import dataclasses
import html
import math
import re

import pytest

import _toy
from _sweeps import toy_sweep
from omegalimit import record
from omegalimit.report import compare, spread
from omegalimit.report.sweep_page import answer, settings_table, sweep_page
from omegalimit.store import open_folder


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return toy_sweep(tmp_path_factory.mktemp("s") / "sweep", sizes=(0.5, 0.95, 2.0, -1.0), seeds="0:4")


def text_of(page: str) -> str:
    """What a reader reads: no tags, one space between words."""
    body = re.sub(r"<(style|title)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_the_page_of_a_sweep_tells_everything_apart(swept):
    said = text_of(sweep_page(swept))
    assert (
        "1 of 1 claims fails somewhere, most often stays-under (plain), in 4 cells; 4 verdicts are inconclusive; "
        "4 of 16 cells gave no verdict." in said
    )
    assert (
        "holds in 4 of 8 decided cells: 50% (95% interval 15.7% to 84.3%); 4 inconclusive; 4 without a verdict; "
        "of all cells between 25% and 75%, however the undecided ones would end." in said
    )
    assert "4 cells : ValueError: `size` must be >= 0; got -1.0." in said.replace("cells:", "cells :")
    assert "omegalimit sweep _toy:Toy --grid size=0.5,0.95,2.0,-1.0 --seeds 0:4 --out sweep" in said


def test_the_table_of_settings(swept):
    table = settings_table(swept, swept.summary())
    assert table is not None
    assert table["fields"] == ["size"]
    assert table["rows"] == [
        (("0.5",), [("100% of 4", "holds", 0)], 0),
        (("0.95",), [("?", "inconclusive", 4)], 0),
        (("2.0",), [("0% of 4", "fails", 0)], 0),
        (("-1.0",), [("–", "inconclusive", 0)], 4),
    ]


def test_answers_where_little_was_found(tmp_path):
    empty = dataclasses.replace(toy_sweep(tmp_path / "a", sizes=(0.5,), seeds="0:1", options={"ending": "fault"}))
    assert answer(empty, empty.summary()) == "No cell of 1 gave a verdict."
    assert "No cell of 1 gave a verdict." in sweep_page(empty)
    whole = toy_sweep(tmp_path / "b", sizes=(0.5,), seeds="0:2")
    assert answer(whole, whole.summary()) == "All 1 claims hold wherever they are decided."
    none = toy_sweep(tmp_path / "c", sizes=(0.95,), seeds="0:2")
    assert answer(none, none.summary()) == (
        "0 of 1 claims hold wherever they are decided, and 1 nowhere are; 2 verdicts are inconclusive."
    )


def test_the_bar_is_as_long_as_its_parts(swept):
    (claim,) = swept.summary()
    drawn = spread.bar(claim, name="b")
    widths = [float(w) for w in re.findall(r'<rect x="[^"]+" y="4" width="([^"]+)"', drawn)]
    assert widths == [73.0] * 4  # four equal parts of 292
    # The interval's ends stand where its numbers are.
    low, high = claim.interval
    ends = re.search(r"M([\d.]+) 22 v8 M[\d.]+ 26 H([\d.]+)", drawn)
    assert ends is not None
    assert float(ends[1]) == pytest.approx(14 + 292 * low, abs=0.05)  # written to a tenth
    assert float(ends[2]) == pytest.approx(14 + 292 * high, abs=0.05)


def test_a_spread_is_small_however_many_the_cells(swept):
    (claim,) = swept.summary()
    few = spread.spread(claim, [0.1, 1.0, 10.0], name="s")
    many = spread.spread(claim, [10 ** (k / 5000 - 1) for k in range(10_000)], name="s")
    assert few.count("<circle") == 3
    assert len(many) < 2500
    assert "from 0.1 to 10" in many
    assert spread.spread(claim, [math.nan, -1.0, 0.0], name="s") == ""
    assert "1 cells are zero, negative or not finite" in spread.spread(claim, [1.0, 0.0], name="s")


def test_ten_thousand_cells_make_a_small_page(swept):
    cells = tuple(dataclasses.replace(swept.cells[k % 12], key=f"{k:020x}") for k in range(10_000))
    assert len(sweep_page(dataclasses.replace(swept, cells=cells))) < 200_000


def test_two_records_side_by_side(tmp_path):
    paths = [
        record.write(_toy.Toy(size=size).check(), folder=tmp_path, system="toy", seed=0, name=f"r{size}")
        for size in (0.5, 2.0)
    ]
    first, second = map(record.read, paths)
    said = text_of(compare.comparison([first, second]))
    assert "1 of 1 verdicts differ in outcome, or are in one record only." in said
    assert "stays-under plain ✓ holds 0.5 ± 0.1, ≤ 1 ✗ fails 2 ± 0.1, ≤ 1 4" in said
    assert "size 0.5 2.0" in said
    assert "The versions are the same." in said
    same = text_of(compare.comparison([first, first]))
    assert "All 1 verdicts have the same outcome in both." in same
    assert "The settings are the same." in same
    other = dataclasses.replace(second, system="other")
    assert "Two systems, toy and other: only what they share can be compared." in compare.comparison([first, other])
    with pytest.raises(ValueError, match=r"^two records are compared side by side; got 1\.$"):
        compare.comparison([first])


def test_a_folder_has_a_row_for_each_record(tmp_path):
    for size in (0.5, 2.0):
        path = record.write(_toy.Toy(size=size).check(), folder=tmp_path, system="toy", seed=7, name=f"r{size}")
        (path / "report.html").write_text("page")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "record.json").write_text("{")
    page = compare.comparison(open_folder(tmp_path))
    said = text_of(page)
    assert "1 verdict fails in 2 records." in said
    assert "r0.5 seed 7 ✓ holds 0.5 of 1" in said
    assert 'href="r2.0/report.html"' in page
    assert "broken : " in said.replace("broken:", "broken :")
    with pytest.raises(ValueError, match=r"^there is no record in '.*' to compare\.$"):
        compare.comparison(dataclasses.replace(open_folder(tmp_path), cells=()))


def test_nothing_of_the_users_is_markup(tmp_path):
    folder = toy_sweep(tmp_path, sizes=(0.5,), seeds="0:1", options={"data": "<script>alert(1)</script>"})
    assert folder.failures
    assert "<script" not in sweep_page(folder)
