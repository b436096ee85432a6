"""Pages in Chromium: no request, no message, no sideways scroll, nothing that axe finds; phone and desktop, light and
dark. Screenshots go to the folder that OMEGALIMIT_SCREENSHOTS names, to be looked at."""

import dataclasses
import os
from pathlib import Path

import pytest

import _browser
import _toy
import omegalimit as ol
from _browser import VARIANTS, look
from _sweeps import toy_sweep
from omegalimit import record
from omegalimit.record import CounterResult
from omegalimit.report import compare, page, sweep_page
from omegalimit.sweep.cell import about

# Quick settings of every kind of figure that a quick run can leave.
SYSTEMS = {
    "softmax-attention": {"parametrisation": "merged", "tokens": "gaussian", "n": 3, "L": 3, "d": 4, "cap": 100.0},
    "digits": {"parametrisation": "merged", "tokens": "digits", "n": 4, "cap": 100.0},
    "early-alignment": {"n": 12, "d": 3, "steps": 1000},
    "diagonal-networks": {},
}


@pytest.fixture(scope="module")
def browser():
    yield from _browser.chromium()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Files by name: a record that has everything, hostile text included; each system; the pages of many records."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}

    def write(name: str, text: str) -> None:
        made[name] = folder / f"{name}.html"
        made[name].write_text(text, encoding="utf-8")

    toy = _toy.Toy(size=2.0)
    findings = dataclasses.replace(
        toy.check(),
        verdicts=(
            _toy.verdict(2.0),
            _toy.verdict(0.5),
            _toy.verdict(float("nan"), undecided="<script>alert(1)</script>"),
        ),
        notes=("a <b>note</b>",),
    )
    counter = CounterResult(
        name="too-big", text="Two.", expected=(("stays-under", "plain"),), verdicts=findings.verdicts, as_expected=False
    )
    for seed in (0, 1):
        path = record.write(
            findings if seed else toy.check(),
            folder=folder / "records",
            system="toy",
            seed=seed,
            counters=[counter],
            about=about(toy),
            command=("run", "toy", "--data", "my <file>.npz"),
        )
        write(f"record-{seed}", page.page(record.read(path)))
    both = sorted((folder / "records").iterdir())
    write("two", compare.comparison([record.read(path) for path in both]))
    write("folder", ol.page(folder / "records").html)
    sweep = toy_sweep(folder / "sweep", sizes=(0.5, 0.95, 2.0, -1.0), seeds="0:4")
    write("sweep", sweep_page.sweep_page(sweep))
    write("notebook", f"<!DOCTYPE html><html lang=en><title>n</title><main><h1>n</h1>{sweep._repr_html_()}</main>")
    for name, settings in SYSTEMS.items():
        system = ol.load("softmax-attention" if name == "digits" else name)(**settings)
        path = record.write(
            system.check(), folder=folder, system=name, seed=0, about=about(system), command=("run", name), name=name
        )
        write(name, page.page(record.read(path)))
    return made


NAMES = ("record-0", "record-1", "two", "folder", "sweep", "notebook", *SYSTEMS)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_as_a_reader_sees_it(browser, pages, name, tmp_path):
    shots = Path(os.environ.get("OMEGALIMIT_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    for width, height, scheme in VARIANTS:
        shot = shots / f"{name}-{width}-{scheme}.png"
        seen = look(browser, pages[name], width, height, scheme, shot=shot)
        assert seen.is_clean, (width, scheme, seen)
        assert shot.stat().st_size > 5000  # something is on it
    assert pages[name].stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ('<img src="http://127.0.0.1:9/x.png" alt="x">', "requests"),
        ("<script>console.log('hm')</script>", "messages"),
        ("<script>throw new Error('hm')</script>", "messages"),
        ('<div style="width: 3000px">wide</div>', "beyond"),
        ('<p style="color: #ccc; background: #fff">faint</p>', "violations"),
        ('<svg role="img" width="9" height="9"></svg>', "violations"),
    ],
)
def test_the_looking_sees_faults(browser, tmp_path, body, what):
    """What the test above would pass over is nothing that it claims to see."""
    file = tmp_path / "bad.html"
    file.write_text(f"<!DOCTYPE html><html lang=en><title>bad</title><main><h1>bad</h1>{body}</main></html>")
    seen = look(browser, file, 360, 800, "light")
    assert getattr(seen, what)
    assert not seen.is_clean


def test_a_page_prints(browser, pages):
    context = browser.new_context()
    sheet = context.new_page()
    sheet.goto(pages["softmax-attention"].as_uri())
    sheet.emulate_media(media="print")
    assert sheet.pdf(format="A4").startswith(b"%PDF")
    visible = "getComputedStyle(document.querySelector('nav')).display"
    assert sheet.evaluate(visible) == "none"
    context.close()
