"""The documentation's site: pages of systems are made from their docstrings, and the link checker sees faults."""

import sys
from pathlib import Path

import pytest

from omegalimit.catalogue import SYSTEMS, load
from omegalimit.claims import Kind
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
        row = next(line for line in page.splitlines() if line.startswith(f"| `{claim}` |"))
        assert row.endswith(f" | {' '.join(sentence.replace('|', chr(92) + '|').split())} |")
        assert any(kind.value in row for kind in Kind), f"{claim} has no kind"
    for field in build_docs.dataclasses.fields(cls):
        row = next(line for line in page.splitlines() if line.startswith(f"| `--{field.name.replace('_', '-')}` |"))
        # Its own text, and no other field's: what stands right under it in the source.
        source = build_docs.inspect.getsource(cls)
        own = source.partition(f"\n    {field.name}: ")[2].partition('"""')[2].partition('"""')[0]
        assert own.strip()
        assert " ".join(own.replace("|", chr(92) + "|").split()) in row
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
        ("<a href='http://[bad'>x</a>", "index.html: http://[bad is no address: Invalid IPv6 URL."),
        *(
            (body, "index.html asks for https://example.org/a: the site must ask nothing from outside.")
            for body in (
                "<img src='sub/b.html' srcset='sub/b.html 1x, https://example.org/a 2x'>",
                "<video poster='https://example.org/a'></video>",
                "<object data='https://example.org/a'></object>",
                "<svg><image href='https://example.org/a'/></svg>",
                "<p style='background: url(https://example.org/a)'>x</p>",
                "<style>@import 'https://example.org/a';</style>",
                '<style>p { background: url("https://example.org/a") }</style>',
            )
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


def test_a_claims_brackets_are_its_kind_and_where():
    bullets = ["`a` (kq), `b` (f(x), merged) (rate): both fall.", "`c`, `d` (equality; `u^2`): the same: `a` too."]
    said = {"a": "both fall.", "b": "both fall.", "c": "the same: `a` too.", "d": "the same: `a` too."}
    assert build_docs.claim_rows(bullets, said) == [
        ("`a`", "rate; kq", "both fall."),
        ("`b`", "rate; f(x), merged", "both fall."),
        ("`c`", "equality; `u^2`", "the same: `a` too."),
        ("`d`", "equality; `u^2`", "the same: `a` too."),
    ]
