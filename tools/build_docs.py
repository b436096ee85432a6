"""Build the documentation's site: `python tools/build_docs.py` (needs the extra `docs`).

1. The pages of `docs/`, with the README as the tour, are copied into `build/docs`.
2. Each system's page is made from its docstring and its fields, with the report of its default run embedded; the
   written page follows under "In detail". Reports are made by running the systems, two at a time; `--reports DIR` takes
   those made before in DIR by the same version with the same command, and keeps new ones there.
3. MkDocs builds the site, strictly; then every link and anchor of what was built is checked.

Ends with status 1, and says why, on a broken link, a missing report, a request to another place, or a warning.
"""

import argparse
import ast
import dataclasses
import html.parser
import importlib.metadata
import inspect
import re
import shutil
import subprocess
import sys
import textwrap
import typing
import urllib.parse
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=Path, default=ROOT / "build" / "records", metavar="DIR")
    parser.add_argument("--systems", nargs="*", metavar="NAME", help="these alone (default: the whole catalogue)")
    options = parser.parse_args()
    from omegalimit.catalogue import SYSTEMS

    names = options.systems or list(SYSTEMS)
    source, site = ROOT / "build" / "docs", ROOT / "build" / "site"
    reports = make_reports(names, options.reports)
    make_source(source, reports)
    config = ROOT / "build" / "mkdocs.yml"
    config.write_text(configuration((ROOT / "mkdocs.yml").read_text(), names), encoding="utf-8")
    # In a process of its own: a warning is an error there.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean", "--config-file", str(config)]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        print("build_docs: MkDocs found faults; see above.", file=sys.stderr)
        return 1
    faults, external = check_links(site)
    for fault in faults:
        print(f"build_docs: {fault}", file=sys.stderr)
    n_pages = len(list(site.rglob("*.html")))
    print(f"{site}: {n_pages} pages; {len(external)} links lead outside and were not followed; {len(faults)} faults.")
    return int(bool(faults))


def configuration(text: str, names: Iterable[str]) -> str:
    """The site's configuration with the systems in its navigation, and paths that hold from the build folder."""
    listed = "".join(f"\n      - {name}: {name}.md" for name in names)
    text = text.replace("  - Systems: []", f"  - Systems:{listed}")
    return text.replace("docs_dir: build/docs", "docs_dir: docs").replace("site_dir: build/site", "site_dir: site")


def make_reports(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """The page of each system's default run with its counter-instances, run where there is no record of this version.

    Every page is made again from its record: a record kept from before has the page of the code of then.
    """
    from omegalimit.record import read
    from omegalimit.report.page import save

    version, found = importlib.metadata.version("omegalimit"), {}
    for path in sorted(folder.glob("*/record.json")):
        record = read(path.parent, arrays=False)
        if record.command == ("run", record.system, "--with-counters") and record.versions["omegalimit"] == version:
            found[record.system] = path.parent
    missing = [name for name in names if name not in found]

    def run(name: str) -> Path:
        print(f"runs {name}", flush=True)
        command = [sys.executable, "-m", "omegalimit", "run", name, "--with-counters", "--out", str(folder), "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"build_docs: {name} gave no report: {done.stderr}")
        return Path(done.stdout.splitlines()[-1].removeprefix("record: "))

    with ThreadPoolExecutor(2) as pool:
        found |= dict(zip(missing, pool.map(run, missing), strict=True))
    return {name: save(read(found[name]), found[name]) for name in names}


def make_source(source: Path, reports: Mapping[str, Path]) -> None:
    """The tree that MkDocs reads: the pages of `docs/`, the tour, the systems' pages and their reports."""
    from omegalimit.catalogue import SYSTEMS

    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source)
    tour = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = tour.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
    (source / "index.md").write_text(tour, encoding="utf-8")
    shutil.copy(ROOT / "CONTRIBUTING.md", source / "contributing.md")
    (source / "reports").mkdir()
    for name in SYSTEMS:
        if name not in reports:
            (source / f"{name}.md").unlink()
            continue
        shutil.copy(reports[name], source / "reports" / f"{name}.html")
        page = source / f"{name}.md"
        page.write_text(system_page(name, page.read_text(encoding="utf-8")), encoding="utf-8")


def system_page(name: str, written: str) -> str:
    """The page of a system: from its docstring, options, counter-instances and report; then the written page."""
    from omegalimit.catalogue import load
    from omegalimit.report import words

    cls = load(name)
    text = inspect.getdoc(cls) or ""
    sentences = words.sentences(text)
    parts = [f"# {cls.title[0].upper()}{cls.title[1:]}", f"```sh\nomegalimit run {name}\n```"]
    for block in words.blocks(text):
        if block.parts[0].casefold() == cls.title.casefold():
            continue  # the heading says it
        if block.kind == "bullets" and any(part.startswith("`") for part in block.parts):
            rows = claim_rows(block.parts, sentences)
            parts.append(table(("claim", "kind and where", "what is claimed"), rows))
        elif block.kind == "bullets":
            parts.append("\n".join(f"- {part}" for part in block.parts))
        elif block.kind == "formula":
            parts.append(f"```\n{block.parts[0]}\n```")
        else:
            parts.append(block.parts[0])
    system = cls()
    parts.append("## Options")
    parts.append(table(("option", "default", "what it is"), option_rows(cls)))
    parts.append(
        "## Counter-instances\n\nIn each one assumption is broken on purpose, and the claims named must not hold."
    )
    rows = [
        (f"`{key}`", counter.text, ", ".join(f"`{claim}` ({where})" for claim, where in counter.expected))
        for key, counter in system.counters.items()
    ]
    parts.append(table(("name", "what is broken", "must not hold"), rows))
    parts.append(
        f"## The default run\n\n[The report on a page of its own](reports/{name}.html)\n\n"
        f'<iframe src="reports/{name}.html" title="Report of the default run of {name}" loading="lazy" '
        'style="width: 100%; height: 40rem; border: 1px solid #8884"></iframe>'
    )
    body = re.sub(r"\A# .*\n", "", written)
    return "\n\n".join([*parts, "## In detail", re.sub(r"^(##+ )", r"#\1", body, flags=re.MULTILINE).strip()]) + "\n"


def option_rows(cls: type) -> list[tuple[str, str, str]]:
    """Each field as an option, with its default, and the text that stands under it in the source."""
    assert dataclasses.is_dataclass(cls)
    told = texts_under_fields(cls)
    hints = typing.get_type_hints(cls)
    rows = []
    for field in dataclasses.fields(cls):
        said = told.get(field.name, "")
        choices = typing.get_args(hints[field.name])
        if typing.get_origin(hints[field.name]) is typing.Literal:
            said += f" One of: {', '.join(map(str, choices))}."
        default = "" if field.default is None else f"`{field.default}`"
        rows.append((f"`--{field.name.replace('_', '-')}`", default, said))
    return rows


def texts_under_fields(cls: type) -> dict[str, str]:
    """The string that stands right under each field in the source of the class, on one line."""
    (defined,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(defined, ast.ClassDef)
    told = {}
    for line, below in zip(defined.body, defined.body[1:], strict=False):
        match line, below:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                told[field] = " ".join(text.split())
    return told


def claim_rows(bullets: Iterable[str], sentences: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Each claim of a list of claims, with what stands in brackets after it or, at the end, after all of the bullet."""
    rows = []
    for bullet in bullets:
        names = [
            name for name in re.findall(r"`([A-Za-z0-9_-]+)`", bullet) if bullet.endswith(sentences.get(name, "-"))
        ]
        head = bullet.removesuffix(sentences[names[0]]).rstrip(": ") if names else ""
        last = re.search(r"\(((?:[^()]|\([^()]*\))*)\)$", head)
        for name in names:
            # `a` (where), `b` (where) (kind): the last bracket is all names' own.
            own = re.search(rf"`{name}` \(((?:[^()]|\([^()]*\))*)\)", head)
            said = [found[1] for found in (last, own) if found]
            rows.append((f"`{name}`", "; ".join(dict.fromkeys(said)), sentences[name]))
    return rows


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"

    headings = list(headings)
    return "\n".join([line(headings), line("---" for _ in headings), *map(line, rows)])


class Reader(html.parser.HTMLParser):
    """What a page has and where it leads: `ids`, `links` and `assets`, which a browser asks for by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given and tag != "meta"}
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.assets.append(given.get("href", ""))
        for name in ("src", "poster", "data") + (("href", "xlink:href") if tag in ("image", "use") else ()):
            if name in given and (name != "data" or tag == "object"):
                self.assets.append(given[name])
        self.assets += [part.split()[0] for part in given.get("srcset", "").split(",") if part.split()]
        self.styled(given.get("style", ""))
        self.in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.styled(data)

    def styled(self, text: str) -> None:
        """What a style sheet asks for from outside."""
        self.assets += re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s;]+)""", text)


def check_links(site: Path) -> tuple[list[str], set[str]]:
    """Faults in words, and the links that lead outside: those are not followed."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        pages[file.resolve()] = reader = Reader()
        reader.feed(file.read_text(encoding="utf-8"))
    faults, external = [], set()
    for file, reader in pages.items():
        here = file.relative_to(site.resolve())
        for asset in reader.assets:
            if re.match(r"(https?:)?//", asset, re.IGNORECASE):
                faults.append(f"{here} asks for {asset}: the site must ask nothing from outside.")
        for link in [*reader.links, *reader.assets]:
            try:
                parts = urllib.parse.urlsplit(link)
            except ValueError as error:
                faults.append(f"{here}: {link} is no address: {error}.")
                continue
            if parts.scheme in ("http", "https", "mailto") or link.startswith("//"):
                external.add(link)
                continue
            if parts.scheme or here.name == "404.html":
                continue
            target = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                faults.append(f"{here}: {link} leads nowhere.")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                faults.append(f"{here}: {link} leads to no place in that page.")
    return faults, external


if __name__ == "__main__":
    sys.exit(main())
