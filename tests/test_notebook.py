"""What a notebook shows: tables of verdicts, pages in frames, figures."""

import html
import os
import re
from pathlib import Path

import numpy as np
import pytest

import _browser
import _toy
import omegalimit as ol
from _sweeps import toy_sweep
from omegalimit import record
from omegalimit.claims import Assumption
from omegalimit.record import CounterResult
from omegalimit.report import table


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


def test_the_notebook_and_the_terminal_say_the_same_beside_an_outcome():
    unknown = Assumption(name="odd number", holds=None)
    verdict = _toy.verdict(0.5, conditions=(unknown,), assumptions=(unknown,))
    said = ["not decided: odd number", "assumption not decided: odd number"]
    assert table.remarks(verdict) == said
    assert cells(verdict._repr_html_())[2:] == ["? inconclusive", "0.5", "≤ 1", "0", "relative", "; ".join(said)]


def facts(shown: str) -> dict[str, str]:
    names = [html.unescape(text) for text in re.findall(r'<th scope="row"[^>]*>(.*?)</th>', shown)]
    return dict(zip(names, cells(shown), strict=True))


def test_a_solution_shows_its_certificate():
    """Rows (1, 0) and (0, 1): the margin in l2 is 1/sqrt(2), and both rows hold it. A bad point's bounds are apart."""
    limit = ol.MaxMargin("l2", rows=np.eye(2))
    solution = ol.solve(limit)
    shown = facts(solution._repr_html_())
    assert shown["status"] == "optimal"
    assert shown["lower bound"] == shown["upper bound"] == "0.70710678"
    assert shown["holding the solution"] == "2 of 2 constraints"
    bad = facts(limit.certify(np.array([2.0, 1.0]), solution.certificate.multipliers)._repr_html_())
    assert (bad["lower bound"], bad["upper bound"]) == ("0.4472136", "0.70710678")
    assert bad["relative gap"].startswith("0.368 ± ")  # 1 - sqrt(2/5)


def test_every_kind_of_certificate_is_shown():
    X, y = np.array([[1.0, 2.0]]), np.array([2.0])
    least = facts(ol.solve(ol.Interpolation(ol.ModifiedL1(), X, y))._repr_html_())
    assert (least["upper bound"], least["support"]) == ("1", "1 of 2 coordinates")
    barrier = facts(ol.solve(ol.Barrier(Z=np.array([[1.0, 0.0]]), kappa=0.5))._repr_html_())
    assert barrier["support"] == "1 of 1 rows"
    measure = ol.stationary_measure(ol.StationaryMeasure(np.eye(2), np.array([1.0, -1.0]), lam=0.5, beta=5.0))
    assert facts(measure._repr_html_())["method"] == "closed form"
    net = ol.convex_relu(ol.ConvexReluNet(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]), lam=0.1))
    assert facts(net._repr_html_())["directions"] == "1"


def test_paths_show_their_ties():
    X, y = np.array([[1.0, 1.0]]), np.array([1.0])
    path = facts(ol.saddle_path(ol.SaddlePath(X, y))._repr_html_())
    assert path["features that come in together"] == "yes: outside the theorem"
    assert path["unique"] == "not on 1 of 2 plateaus"
    lasso = facts(ol.lasso_path(X, y)._repr_html_())
    assert (lasso["features that come in together"], lasso["status"]) == ("yes", "interpolates")
    assert facts(ol.lasso_path([[1.0, 0.5]], y)._repr_html_())["features that come in together"] == "none"


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
    assert "<p>note: the number was taken as given</p><p>not applicable: rank: a number has none</p>" in shown
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
    inside = html.unescape(frame.split('srcdoc="')[1].split('" style=')[0])
    assert inside.replace('<base href="about:srcdoc">', "") == page.html
    assert page.save(tmp_path / "p.html").read_text() == page.html
    assert "Records in" in ol.page(written.parent).html
    assert "how often does each claim hold?" in ol.page(toy_sweep(tmp_path / "s")).html
    said = "a page is made of a Record, a Folder, or the path of one (`write_record` makes a record of findings); got "
    with pytest.raises(TypeError, match=rf"^{re.escape(said)}Findings\.$"):
        ol.page(_toy.Toy().check())  # pyright: ignore[reportArgumentType] - bad input on purpose
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
    shown = drawn._repr_html_()
    assert shown.count("<svg ") == 4
    assert "<desc id=" in shown
    assert "Across:" in shown
    # The picture stands under its title, and the figure keeps it.
    assert "<p>Loss gap and least margin along the path</p>" in shown
    (title,) = (text for text in drawn["margins"].texts if text.get_text() == drawn["margins"].get_suptitle())
    assert title.get_visible()
    with pytest.raises(TypeError, match=r"^figures are drawn of a Record or of Findings; got int\.$"):
        ol.figures(3)


@pytest.fixture(scope="module")
def browser():
    yield from _browser.chromium()


@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", "#111111"), ("#111111", "#eeeeee")])
def test_a_notebook_as_a_reader_sees_it(browser, tmp_path, ground, ink):
    """Nothing brings a ground of its own: axe measures the contrast of every text on that of the theme."""
    system = ol.load("softmax-attention")(parametrisation="merged", tokens="gaussian", n=3, L=3, d=4, cap=100.0)  # pyright: ignore[reportCallIssue] - the system's own fields
    findings = system.check()
    path = record.write(findings, folder=tmp_path / "runs", system="softmax-attention", seed=0)
    solution = ol.solve(ol.MaxMargin("l2", rows=np.eye(2)))
    shown = [findings.verdicts[0], findings, record.read(path), solution, ol.open_folder(tmp_path / "runs")]
    shown.append(ol.figures(findings))
    theme = f"<style>body {{ background: {ground}; color: {ink}; font-family: sans-serif }}</style>"
    cells = "".join(f"<section>{thing._repr_html_()}</section>" for thing in shown)
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><html lang=en><title>n</title>{theme}<main><h1>n</h1>{cells}</main></html>")
    shots = Path(os.environ.get("OMEGALIMIT_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    for width in (360, 1280):
        scheme = "light" if ground == "#ffffff" else "dark"
        shot = shots / f"notebook-objects-{width}-{scheme}.png"
        seen = _browser.look(browser, file, width, 900, scheme, shot=shot)
        assert seen.is_clean, (width, ground, seen)


def test_a_page_in_a_notebook_is_whole(browser, written, tmp_path):
    file = tmp_path / "framed.html"
    file.write_text(
        f"<!DOCTYPE html><html lang=en><title>n</title><main>{ol.page(written)._repr_html_()}</main></html>"
    )
    sheet, said = browser.new_page(), []
    sheet.on("console", lambda message: said.append(message.text))
    sheet.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else said.append(request.url)
    )
    sheet.goto(file.as_uri())
    inside = sheet.frame_locator("iframe")
    assert inside.locator("h1").count() == 1
    assert inside.locator("h2").count() > 3
    inside.locator("nav a", has_text="Settings").click()  # the frame scrolls; the notebook stays where it is
    assert sheet.url == file.as_uri()
    assert inside.locator("#settings").is_visible()
    assert said == []
    sheet.close()
