"""The documentation: its tour runs, its links lead somewhere, its pages name what the code has."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from omegalimit.catalogue import SYSTEMS, load

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shell_lines():
    """The commands of the README's shell tour, without their comments."""
    block = re.search(r"## Five minutes from the shell\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    lines = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    return [words for words in lines if words[0] != "export"]


def test_the_tour_runs_as_written():
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted > 15
    assert results.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert missing == []


def test_the_shell_tour_names_options_that_exist():
    lines = shell_lines()
    assert len(lines) >= 6
    asked = {
        **{f"run {name}": ["run", name] for name in SYSTEMS},
        "run": ["run"],
        "sweep": ["sweep"],
        "report": ["report"],
        "list": ["list"],
        "solve": ["solve", "max-margin"],
        "certify": ["certify", "max-margin"],
    }
    text = {
        command: subprocess.run(
            [sys.executable, "-m", "omegalimit", *words, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for command, words in asked.items()
    }
    for words in lines:
        if words[0] == "python":
            assert (ROOT / words[1]).exists()
            continue
        assert words[0] == "omegalimit"
        command = " ".join(words[1:3]) if words[1] == "run" else words[1]
        assert command in ("show", *asked)
        known = text.get(command, "") + (text["run"] if words[1] == "run" else "")
        # A sweep takes the options of its system too.
        known += text[f"run {words[2]}"] if words[1] == "sweep" else ""
        for option in (word for word in words if word.startswith("--")):
            assert option in known, f"{option} of `{' '.join(words)}` is not an option of {command}"


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_page_of_a_system_names_its_claims_and_counter_instances(name):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    cls = load(name)
    claims = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", str(cls.__doc__)))
    parametrisations = {"diagonal-kq", "diagonal-merged"}
    assert claims - parametrisations
    for claim in claims:
        assert f"`{claim}`" in page
    for counter in cls().counters:
        assert f"`{counter}`" in page
