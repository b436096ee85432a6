"""What a notebook shows: tables of verdicts, pages in frames, figures."""

import html
import re

import pytest

import _toy
import omegalimit as ol
from _sweeps import toy_sweep
from omegalimit import record
from omegalimit.record import CounterResult


@pytest.fixture
def written(tmp_path):
    findings = _toy.Toy(size=2.0).check()
    counter = CounterResult(
        name="too-big", text="Two.", expected=(("stays-under", "plain"),), verdicts=findings.verdicts, as_expected=True
    )
    return record.write(findings, folder=tmp_path, system="toy", seed=3, counters=[counter])


def cells(shown: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(r"<td[^>]*>(.*?)</td>", shown)]


def test_a_verdict_says_it_by_word_and_sign():
    verdict = _toy.verdict(2.0)
    assert cells(verdict._repr_html_()) == ["stays-under", "plain", "✗ fails", "2", "≤ 1", "0", "relative", ""]


def test_findings_show_what_the_table_shows():
    shown = _toy.Toy(size=0.95).check()._repr_html_()
    assert cells(shown)[2] == "? inconclusive"
    assert cells(shown)[-1] == "outside the theorem: even number"
    assert "<p>note: the number was taken as given</p><p>not applicable: rank: a number has none</p>" in shown


def test_nothing_of_the_users_is_markup(tmp_path):
    verdict = _toy.verdict(0.5, undecided="<script>alert(1)</script>")
    assert "<script>" not in verdict._repr_html_()
    findings = _toy.Toy().check()
    vars(findings)["notes"] = ("<b>bold</b>",)
    assert "<b>" not in findings._repr_html_()


def test_a_record_and_its_dataset(written):
    opened = record.read(written)
    shown = opened._repr_html_()
    assert cells(shown)[:3] == ["stays-under", "plain", "✗ fails"]
    assert "counter-instance too-big: as it should be" in shown
    dataset = opened.dataset()
    assert dict(dataset.sizes) == {"verdict": 1}
    assert (dataset["measured"].item(), dataset["outcome"].item(), dataset["claim"].item()) == (
        2.0,
        "fails",
        "stays-under",
    )


def test_a_folder(tmp_path):
    shown = toy_sweep(tmp_path / "s")._repr_html_()
    assert cells(shown) == ["stays-under", "plain", "3", "3", "0", "0", "0.5", "0.118 to 0.882"]


def test_pages(written, tmp_path):
    page = ol.page(written)
    assert page.html == ol.page(record.read(written)).html
    frame = page._repr_html_()
    assert frame.startswith('<iframe title="omegalimit page" srcdoc="')
    assert html.unescape(frame.split('srcdoc="')[1].split('" style=')[0]) == page.html
    assert page.save(tmp_path / "p.html").read_text() == page.html
    assert "Records in" in ol.page(written.parent).html
    assert "how often does each claim hold?" in ol.page(toy_sweep(tmp_path / "s")).html
    with pytest.raises(TypeError, match=r"^a page is made of a Record, a Folder, or the path of one; got int\.$"):
        ol.page(3)  # pyright: ignore[reportArgumentType] - bad input on purpose
    with pytest.raises(ValueError, match=r"^there is no folder 'nowhere'\.$"):
        ol.page("nowhere")


def test_figures_of_findings_and_of_their_record_are_the_same(tmp_path):
    system = ol.load("softmax-attention")(parametrisation="merged", tokens="gaussian", n=3, L=3, d=4, cap=100.0)  # pyright: ignore[reportCallIssue] - the system's own fields
    findings = system.check()
    path = record.write(findings, folder=tmp_path, system="softmax-attention", seed=0)
    drawn = ol.figures(findings)
    assert list(drawn) == list(ol.figures(path)) == ["margins", "gaps", "singular-values", "attention"]
    assert len(drawn) == 4
    assert repr(drawn) == "Figures(margins, gaps, singular-values, attention)"
    assert drawn["gaps"].axes
    assert drawn._repr_html_().count("<svg ") == 4
    with pytest.raises(TypeError, match=r"^figures are drawn of a Record or of Findings; got int\.$"):
        ol.figures(3)
