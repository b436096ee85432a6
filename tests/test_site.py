"""The documentation's site: pages of systems are made from their docstrings, and the link checker sees faults."""

import sys
from pathlib import Path

import pytest

from omegalimit.catalogue import SYSTEMS, load
from omegalimit.report import words

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import build_docs  # noqa: E402  # pyright: ignore[reportMissingImports] - it lies in tools/


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_page_of_a_system_is_its_docstring(name):
    page = build_docs.system_page(name, "# Old title\n\n## A part\n\nWritten by hand.\n")
    cls = load(name)
    sentences = words.sentences(str(cls.__doc__ and build_docs.inspect.getdoc(cls)))
    assert sentences
    for claim, sentence in sentences.items():
        assert f"| `{claim}` | {' '.join(sentence.replace('|', chr(92) + '|').split())} |" in page
    for field in build_docs.dataclasses.fields(cls):
        row = next(line for line in page.splitlines() if line.startswith(f"| `--{field.name.replace('_', '-')}` |"))
        assert row.split("|")[-2].strip(), f"{field.name} has no text"
    for counter in cls().counters:
        assert f"| `{counter}` |" in page
    assert f'<iframe src="reports/{name}.html" title="Report of the default run of {name}"' in page
    assert "\n### A part\n\nWritten by hand.\n" in page
    assert "Old title" not in page


def test_every_page_is_in_the_navigation():
    text = build_docs.configuration((ROOT / "mkdocs.yml").read_text(), SYSTEMS)
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    for page in {*pages, "index.md", "contributing.md"}:
        assert f": {page}\n" in text, page


def site(folder: Path, body: str) -> tuple[list[str], set[str]]:
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "index.html").write_text(f"<html><body id='top'>{body}</body></html>")
    (folder / "sub" / "b.html").write_text("<html><a id='here' href='../index.html#top'>back</a></html>")
    return build_docs.check_links(folder)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<a href='sub/c.html'>x</a>", "index.html: sub/c.html leads nowhere."),
        ("<a href='sub/b.html#gone'>x</a>", "index.html: sub/b.html#gone leads to no place in that page."),
        ("<a href='#gone'>x</a>", "index.html: #gone leads to no place in that page."),
        ("<img src='a.png'>", "index.html: a.png leads nowhere."),
        (
            "<img src='https://example.org/a.png'>",
            "index.html asks for https://example.org/a.png: the site must ask nothing from outside.",
        ),
        (
            "<script src='//example.org/a.js'></script>",
            "index.html asks for //example.org/a.js: the site must ask nothing from outside.",
        ),
    ],
)
def test_the_checker_sees_what_is_broken(tmp_path, body, fault):
    faults, _ = site(tmp_path, body)
    assert fault in faults


def test_the_checker_passes_what_is_whole(tmp_path):
    body = "<a href='sub/b.html#here'>x</a><a href='#top'>y</a><a href='https://example.org/'>z</a>"
    assert site(tmp_path, body) == ([], {"https://example.org/"})
