"""The page of a record, and what pages are made of: templates, figures as SVG, verdicts on a line, sentences."""

import dataclasses
import inspect
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

import _toy
import omegalimit as ol
from omegalimit import record
from omegalimit.catalogue import SYSTEMS, load
from omegalimit.claims import Assumption, Kind, Outcome, Verdict
from omegalimit.report import html, lines, page, words
from omegalimit.report.svg import to_svg


def judged(measured: float, bound: float, slack: float = 0.0, kind: Kind = Kind.UPPER) -> Verdict:
    return Verdict(
        claim="stays-under",
        parametrisation="plain",
        loss="squared",
        kind=kind,
        measured=measured,
        bound=bound,
        slack=slack,
        unit="nats",
    )


def about(toy: _toy.Toy) -> record.About:
    defaults = {field.name: field.default for field in dataclasses.fields(toy)}
    counters = {name: counter.text for name, counter in toy.counters.items()}
    return record.About(title=toy.title, text=inspect.getdoc(toy) or "", counters=counters, defaults=defaults)


def stored(folder: Path, toy: _toy.Toy, *, counters: tuple[str, ...] = (), command=None, **changes) -> record.Record:
    """The toy's record, written and read back."""
    results = []
    for name in counters:
        counter = toy.counters[name]
        found = counter.check(lambda text, fraction: None)
        results.append(
            record.CounterResult(
                name=name,
                text=counter.text,
                expected=counter.expected,
                verdicts=found.verdicts,
                as_expected=counter.as_expected(found),
            )
        )
    findings = dataclasses.replace(toy.check(), **changes)
    path = record.write(
        findings, folder=folder, system="toy", seed=toy.seed, counters=results, about=about(toy), command=command
    )
    return record.read(path)


class Page(HTMLParser):
    """The elements of a page: identifiers, what refers to them, addresses, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.referred: set[str] = set()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.headings: list[int] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name == "aria-labelledby":
                self.referred |= set(value.split())
            elif name == "href" and value.startswith("#"):
                self.referred.add(value[1:])
            elif name in ("href", "src"):
                self.addresses.append(value)

    def handle_data(self, data: str) -> None:
        self.text += data


# Templates


def test_whatever_a_template_prints_is_escaped(monkeypatch):
    made = html._environment().from_string("{{ a }} {{ a | prose }} {{ 'fails' | outcome }}")
    assert made.render(a="<b> `<i>`") == (
        "&lt;b&gt; `&lt;i&gt;` &lt;b&gt; <code>&lt;i&gt;</code> "
        '<span class="outcome fails"><span aria-hidden="true">✗</span> fails</span>'
    )


def test_a_name_that_nobody_gave_is_an_error():
    with pytest.raises(UndefinedError):
        html.render("record.html")


# Figures as SVG


def drawn() -> Figure:
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1, 2], [0, 1, 4], marker="o", color="#222222", clip_on=True)
    axes.grid(color="#e4e4e4")
    axes.set_title("log₁₀ t", color="#222222", fontweight="bold")
    axes.imshow(np.eye(3), extent=(0, 1, 0, 1))
    return figure


def test_two_figures_share_no_identifier_and_each_reference_has_its_target():
    text = to_svg(drawn(), name="a", title="A", description="one") + to_svg(
        drawn(), name="b", title="B", description="two"
    )
    ids = re.findall(r'\sid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert len(ids) > 8
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= set(ids)
    assert all(name.startswith(("a-", "b-")) for name in ids)


def test_a_figure_brings_neither_metadata_nor_a_style_sheet_nor_a_font_nor_a_background():
    text = to_svg(drawn(), name="a", title="A", description="one")
    for word in ("<style", "metadata", "DejaVu", "xlink", "<!--", "<?xml"):
        assert word not in text
    assert not re.search(r"fill: ?#ffffff", text)
    assert ">log₁₀ t<" in text  # text stays text
    assert re.search("font-weight: (?:bold|700)", text)


def test_the_greys_of_the_style_become_variables_of_the_page_and_data_keep_their_colours():
    figure = drawn()
    figure.axes[0].plot([0, 1], [1, 0], color="#0072b2")
    text = to_svg(figure, name="a", title="A", description="one")
    assert "stroke: var(--ink, #222222)" in text
    assert "stroke: var(--grid, #e4e4e4)" in text
    assert "stroke: #0072b2" in text


def test_title_and_description_are_escaped_and_read_out():
    text = to_svg(drawn(), name="a b", title="<script>", description="x < y")
    assert '<title id="a-b-title">&lt;script&gt;</title><desc id="a-b-desc">x &lt; y</desc>' in text
    assert 'role="img" aria-labelledby="a-b-title a-b-desc"' in text


def test_a_figure_is_drawn_once_and_left_as_it_was(monkeypatch):
    figure = drawn()
    before = (figure.dpi, figure.canvas, figure.patch.get_facecolor(), figure.axes[0].patch.get_facecolor())
    draws, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda self, renderer: (draws.append(1), draw(self, renderer))[1])
    first = to_svg(figure, name="a", title="A", description="one")
    assert draws == [1]
    assert before == (figure.dpi, figure.canvas, figure.patch.get_facecolor(), figure.axes[0].patch.get_facecolor())
    assert to_svg(drawn(), name="a", title="A", description="one") == first  # the same page whenever it is made


# Verdicts on a line


@pytest.mark.parametrize(
    "verdict",
    [
        judged(1e-8, 1e-3, 1e-12),
        judged(0.2, 0.3, 0.01),
        judged(0.0, 1.0),
        judged(0.0, 0.0),
        judged(3.0, 0.0, 1.0),
        judged(-5.0, -2.0, 0.5),
        judged(-5.0, 2.0, kind=Kind.LOWER),
        judged(1.5e308, -1.5e308, 1e307),
        judged(5e-324, 1e308),
        judged(5e-324, 5e-324),
        judged(1.0, 1.0, math.inf),
    ],
)
def test_measured_and_bound_are_on_the_axis_or_said_to_be_beyond_it(verdict):
    place = lines.axis(verdict)
    assert place is not None
    assert 0 <= place.share(verdict.bound) <= 1
    beyond = not 0 <= place.share(verdict.measured) <= 1
    assert lines.said(verdict).endswith("; the measured number lies beyond the axis") == beyond
    # On the axis the order of the two is the order of their places.
    order = np.sign(place.share(verdict.measured) - place.share(verdict.bound))
    assert order == np.sign(verdict.measured / 2 - verdict.bound / 2) or verdict.measured == verdict.bound
    picture = lines.line(verdict, name="x")
    assert "nan" not in picture
    assert "inf" not in picture.split("</title>")[1]


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize(("measured", "slack"), [(2e-4, 1e-5), (0.3, 0.2), (-0.4, 0.1)])
def test_a_line_is_free_of_scale(measured, slack, scale):
    plain, scaled = judged(measured, 1.0, slack), judged(scale * measured, scale, scale * slack)
    one, other = lines.axis(plain), lines.axis(scaled)
    assert one is not None
    assert other is not None
    assert one.log == other.log
    for value in (measured, 1.0):
        # A logarithm near 150 has 3e-14 of rounding, over an axis of a decade or more.
        assert other.share(scale * value) == pytest.approx(one.share(value), abs=1e-12)


def test_the_allowed_side_is_below_an_upper_bound_and_above_a_lower_one():
    def shaded(verdict):
        found = re.search(r'<rect x="([0-9.]+)" y="6" width="([0-9.]+)"', lines.line(verdict, name="x"))
        assert found is not None
        return float(found[1]), float(found[1]) + float(found[2])

    upper, lower = judged(0.2, 0.3), judged(0.2, 0.3, kind=Kind.LOWER)
    place = lines.axis(upper), lines.axis(lower)
    assert place[0] is not None
    assert place[1] is not None
    # Places are printed to a tenth.
    assert shaded(upper) == pytest.approx((14.0, place[0].x(0.3)), abs=0.11)
    assert shaded(lower) == pytest.approx((place[1].x(0.3), 306.0), abs=0.11)


def test_what_is_not_finite_is_said_and_not_drawn():
    lost = judged(math.nan, 6.0)
    assert lines.said(lost) == "measured not a finite number, must be at most 6 (nats)"
    assert "<circle" not in lines.line(lost, name="x")
    assert lines.line(judged(math.nan, math.nan), name="x") == ""
    assert lines.said(judged(1.0, 2.0, math.inf)) == "measured 1, error not known, must be at most 2 (nats)"
    assert lines.said(judged(1e-60, 1.0)) == (
        "measured 1e-60, must be at most 1 (nats); the measured number lies beyond the axis"
    )


def test_each_outcome_has_a_mark_of_its_own():
    marks = {
        Outcome.HOLDS: (judged(0.2, 0.3), "<circle", 'fill="var(--holds)"'),
        Outcome.FAILS: (judged(0.4, 0.3), "m0 -10 l-10 10", 'stroke="var(--fails)"'),
        Outcome.INCONCLUSIVE: (judged(0.29, 0.3, 0.1), 'fill="var(--paper)"', 'stroke="var(--inconclusive)"'),
    }
    for outcome, (verdict, *parts) in marks.items():
        assert verdict.outcome is outcome
        picture = lines.line(verdict, name="x")
        assert all(part in picture for part in parts)
        assert f">{outcome.value}: measured" in picture


# Sentences


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_claim_that_a_system_states_has_its_sentence(name):
    text = inspect.getdoc(load(name)) or ""
    said = words.sentences(text)
    stated = [
        claim
        for start in re.findall(r"^- (`[a-z0-9-]+`(?:[^\n:]*, `[a-z0-9-]+` \()*)", text, re.MULTILINE)
        for claim in re.findall(r"`([a-z0-9-]+)`", start)
    ]
    assert len(stated) >= 8
    assert all(len(said[claim]) > 15 for claim in stated)


def test_a_sentence_is_shared_by_the_claims_before_its_colon_and_brackets_are_no_part_of_it():
    text = "Claims.\n- `a` (x; `b: c`), `d` (rate): both\n  fall: fast.\n\nClaim `e`: alone."
    assert words.sentences(text) == {"a": "both fall: fast.", "d": "both fall: fast.", "e": "alone."}


# The page


def test_the_page_says_first_what_fails(tmp_path):
    found = page.page(stored(tmp_path, _toy.Toy(size=2.0)))
    text = Page(found).text
    assert "Of 1 verdict 1 fails; 1 lies outside the theorem: an assumption does not hold." in text
    assert "the number is at most one." in text  # the claim's sentence
    assert "measured 2 ± 0.1, must be at most 1 (relative)" in text
    assert "outside the theorem: even number" in text
    assert "Not applicable: rank: a number has none" in text
    assert "the number was taken as given" in text


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((0.5,), "The claim that was judged holds."),
        ((0.5, 0.6), "All 2 verdicts hold."),
        ((0.5, 2.0, 3.0), "Of 3 verdicts 2 fail and 1 holds."),
        ((0.5, 2.0, 1.05), "Of 3 verdicts 1 fails, 1 is inconclusive and 1 holds."),
        ((), "No claim could be judged."),
    ],
)
def test_the_answer_counts_what_was_found(tmp_path, sizes, sentence):
    verdicts = tuple(_toy.verdict(size, slack=0.1) for size in sizes)
    assert page.answer(stored(tmp_path, _toy.Toy(), verdicts=verdicts)) == sentence


def test_many_verdicts_are_shown_at_a_glance_each_with_its_sign(tmp_path):
    verdicts = tuple(_toy.verdict(size, slack=0.1) for size in (0.5, 2.0, 1.05, 0.5, 0.5, 0.5, 0.5))
    made = page.page(stored(tmp_path, _toy.Toy(), verdicts=verdicts))
    signs = re.findall(r'<a class="sign ([a-z]+)" href="#v-([0-9])"[^>]*aria-label="plain: \1">(.)</a>', made)
    assert signs[:3] == [("holds", "0", "✓"), ("fails", "1", "✗"), ("inconclusive", "2", "?")]
    assert len(signs) == 7


def test_a_page_asks_for_nothing_and_is_well_made(tmp_path):
    made = page.page(stored(tmp_path, _toy.Toy(), counters=("too-big", "broken"), command=("run", "toy")))
    found = Page(made)
    assert found.addresses == ["data:,"]
    assert "script" not in found.tags
    assert len(found.ids) == len(set(found.ids))
    assert found.referred <= set(found.ids)
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(found.headings, found.headings[1:], strict=False))
    assert "default-src 'none'" in made
    assert '<html lang="en">' in made


def test_hostile_text_is_text(tmp_path):
    evil = "<script>alert(1)</script>"
    verdict = dataclasses.replace(
        _toy.verdict(2.0), claim=evil, parametrisation=evil, unit=evil, undecided=evil, details={evil: [evil]}
    )
    found = stored(
        tmp_path,
        _toy.Toy(),
        verdicts=(verdict,),
        notes=(evil,),
        settings={"data": evil, evil: evil},
        not_applicable={evil: evil},
        command=("run", "toy", "--data", evil),
    )
    made = page.page(found)
    assert "<script" not in made
    assert Page(made).text.count(evil) > 10


def test_counter_instances_say_whether_they_failed_as_they_should(tmp_path):
    toy = _toy.Toy()
    right = Page(page.page(stored(tmp_path, toy, counters=("too-big",), command=("run", "toy")))).text
    assert "the counter-instance failed as it should" in right
    assert "too-big: ✓ as it should be" in right
    assert "omegalimit run toy --counter broken" in right  # declared, and not run
    assert "omegalimit run toy --counter too-big" not in right
    wrong = Page(page.page(stored(tmp_path, toy, counters=("too-big", "broken")))).text
    assert "counter-instances that held where they should not: broken" in wrong
    assert "broken: ✗ not as it should be" in wrong


def test_the_command_and_the_lines_of_python_run_it_again(tmp_path, monkeypatch):
    _toy.register(monkeypatch)
    command = ("run", "toy", "--size", "0.25", "--seed", "3", "--with-counters", "--counter", "broken")
    found = stored(tmp_path, _toy.Toy(size=0.25, seed=3), command=command)
    made = page.python_lines(found)
    assert made is not None
    assert made.splitlines()[2] == "system = ol.load('toy')(seed=3, size=0.25)"
    names: dict = {"print": lambda *args: None}
    exec(made, names)
    # Compared as written: a NaN that was read is not the one that was found.
    again, first = names["findings"].verdicts, found.verdicts
    assert [record.verdict_to_json(v) for v in again] == [record.verdict_to_json(v) for v in first]
    text = Page(page.page(found)).text
    assert "omegalimit run toy --size 0.25 --seed 3 --with-counters --counter broken\n" in text + "\n"
    assert "omegalimit run toy --size 0.25 --seed 3 --counter too-big" in text
    assert ol.load("toy") is not None


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("mine.systems:Toy", "from mine.systems import Toy\n\nsystem = Toy(seed=3)"),
        ("a b/mine.py:Toy", "# in the folder of a b/mine.py\nfrom mine import Toy\n\nsystem = Toy(seed=3)"),
    ],
)
def test_a_system_of_ones_own_is_imported(tmp_path, name, head):
    found = stored(tmp_path, _toy.Toy(seed=3), command=("run", name, "--seed", "3"))
    assert str(page.python_lines(found)).startswith(head)


def test_settings_that_were_changed_come_first_and_say_the_default(tmp_path):
    found = stored(tmp_path, _toy.Toy(size=0.25))
    rows = list(page._settings(found))
    assert rows[0] == ("size", "0.25", "changed; 0.5 by default")
    assert ("seed", "0", "default") in rows
    assert rows[-1] == ("cap", "none", "found in the run")


def test_a_record_of_the_first_version_has_a_page(tmp_path):
    found = stored(tmp_path, _toy.Toy(), command=("run", "toy"))
    file = found.path / "record.json"
    document = json.loads(file.read_text())
    document["schema"] = 1
    del document["about"], document["command"]
    file.write_text(json.dumps(document))
    old = record.read(found.path)
    assert old.about is None
    assert old.command is None
    text = Page(page.page(old)).text
    assert "This record does not hold the command that made it" in text
    assert "The claim that was judged holds" in text
    assert page.python_lines(old) is None


def test_assumptions_that_do_not_hold_come_first_and_each_is_said_once():
    no, yes, open_ = (Assumption(name=n, holds=h) for n, h in (("no", False), ("yes", True), ("open", None)))
    verdicts = [
        dataclasses.replace(judged(0.1, 1.0), assumptions=(yes, open_), conditions=(yes,)),
        dataclasses.replace(judged(0.1, 1.0), parametrisation="other", assumptions=(yes, no)),
    ]
    assert page.assumptions(verdicts) == [
        ("no", "does not hold", "", "stays-under (other)"),
        ("open", "not decided", "", "stays-under (plain)"),
        ("yes", "holds", "", "every verdict"),
        ("yes (part of the claim)", "holds", "", "stays-under (plain)"),
    ]


def test_details_are_laid_out_in_a_table_and_given_in_full(tmp_path):
    details = {"caps": [{"gap": 0.5}, {"gap": 0.25}], "path": list(range(9)), "by": {}, "open": None}
    verdict = dataclasses.replace(_toy.verdict(0.5), details=details)
    (claim,) = page.grouped([verdict], {}, prefix="v")
    rows, left_out, everything = page._details(claim)
    assert rows == [
        ("caps 1, gap", ["0.5"]),
        ("caps 2, gap", ["0.25"]),
        ("path", ["9 numbers from 0 to 8"]),
        ("by", ["none"]),
        ("open", ["none"]),
    ]
    assert (left_out, everything) == (0, {"plain": details})


def test_figures_are_in_the_page_with_title_and_axes(tmp_path):
    import xarray as xr

    path = np.linspace(0.0, 10.0, 20)
    arrays = {
        "kq/trajectory": xr.Dataset(
            {"log_time": ("point", path), "log_loss_gap": ("point", -path), "least_margin": ("point", path)}
        )
    }
    made = page.page(stored(tmp_path, _toy.Toy(), arrays=arrays))
    found = Page(made)
    assert 'class="plot"' in made
    assert "about-margins" in found.ids
    assert "Loss gap and least margin along the path" in found.text
    assert "Across: log₁₀ t (physical time)." in found.text


def test_the_page_is_saved_beside_the_record(tmp_path):
    found = stored(tmp_path, _toy.Toy())
    path = page.save(found, tmp_path)
    assert path == tmp_path / "report.html"
    assert path.read_text(encoding="utf-8") == page.page(found)
