"""`omegalimit sweep` and `omegalimit run NAME --seeds A:B`: options in, the sweep asked, a table and a page out."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._shared import USAGE, Parser, complain, one_line, reader_left

_ABOUT = """Runs a system on every combination of settings and seeds; one record a cell. The same call again runs only
what is missing. Options of the system itself (`omegalimit run NAME --help`) are the same in every cell."""
_EPILOG = """exit status: 0 every claim holds in every cell; 1 a claim fails somewhere; 4 none fails, some cells gave no
verdict; 3 none of these, some claims are inconclusive; 2 wrong usage or bad input; 130 interrupted."""


def command(arguments: list[str], interrupts: Sequence[int]) -> int:
    """Run `omegalimit sweep` with the arguments after it, and return its exit status."""
    options, rest = _parser("omegalimit sweep", target=True).parse_known_args(arguments)
    asked = _asked(options.target)
    name = asked["system"]
    for option in ("seeds", "out", "workers", "scheduler", "timeout"):
        if (value := getattr(options, option)) is not None:
            asked[option] = value
    grid = {**asked.get("grid", {}), **_grid(name, options.grid)}
    return _run(name, asked, grid, rest, options, interrupts, out=Path("runs") / f"{_plain_name(name)}-sweep")


def seeds_of_run(name: str, arguments: list[str], interrupts: Sequence[int]) -> int:
    """Run `omegalimit run NAME --seeds A:B` with the arguments after the name, and return its exit status."""
    options, rest = _parser(f"omegalimit run {name} --seeds", target=False).parse_known_args(arguments)
    for option in ("--counter", "--with-counters", "--no-record"):
        if any(word == option or word.startswith(f"{option}=") for word in rest):
            raise ValueError(f"{option} goes with one seed; drop it, or `--seeds {options.seeds}`.")
    asked = {key: getattr(options, key) for key in ("seeds", "out", "workers", "scheduler", "timeout")}
    return _run(name, asked, {}, rest, options, interrupts, out=Path("runs") / f"{name}-seeds")


def _parser(prog: str, *, target: bool) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description=_ABOUT, epilog=_EPILOG, allow_abbrev=False)
    add = parser.add_argument
    if target:
        add("target", metavar="NAME|FILE.toml", help='a system, "file.py:Class", or a file that says all of this')
        add("--grid", metavar="FIELD=V1,V2", nargs="+", action="append", default=[], help="values of a field; repeat")
    add("--seeds", metavar="A:B", help="the seeds from A to B, B left out; or A:B:STEP, or 1,5,9")
    add("--out", metavar="DIR", help="the folder of the sweep")
    add(
        "--workers",
        type=_number(int),
        metavar="N",
        help="processes here, by Dask; 1: in this process. If not given: as many as processors where Dask is installed",
    )
    add("--scheduler", metavar="ADDRESS", help="a Dask scheduler to run on")
    if target:
        add("--slurm", nargs="*", metavar="KEY=VALUE", help="run as SLURM jobs: queue=, account=, memory=, walltime=")
        add("--job-script", action="store_true", help="with --slurm: print the job script, run nothing")
    add("--timeout", type=_number(float), metavar="SECONDS", help="give a cell up after this long")
    add("--retry", action="store_true", help="run cells again that failed before")
    add("--json", action="store_true", help="print one JSON document instead of the table")
    add("--quiet", action="store_true", help="show no progress")
    return parser


def _number(kind: type) -> Any:
    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None

    return read


def _plain_name(system: str) -> str:
    return Path(system.rpartition(":")[2]).name if ":" in system else system


def _asked(target: str) -> dict[str, Any]:
    from ..sweep.plan import read_toml

    return read_toml(target) if target.endswith(".toml") else {"system": target}


def _grid(name: str, given: Sequence[Sequence[str]]) -> dict[str, list[Any]]:
    """The grid as typed, each value read as its field's type."""
    grid: dict[str, list[Any]] = {}
    for entry in (entry for group in given for entry in group):
        field, equals, values = entry.partition("=")
        field = field.strip().removeprefix("--").replace("-", "_")
        if not equals or not field:
            raise ValueError(f"--grid {entry}: write FIELD=VALUE,VALUE, such as --grid L=4,8.")
        if field in grid:
            raise ValueError(f"--grid: {field!r} is given twice; write all its values behind one `=`.")
        texts = [text.strip() for text in values.split(",") if text.strip()]
        if not texts:
            raise ValueError(f"--grid {entry}: the grid has no value for {field!r}; give one at least.")
        grid[field] = [_values(name, [f"--{field.replace('_', '-')}", text])[field] for text in texts]
    return grid


def _values(name: str, words: list[str]) -> dict[str, Any]:
    """The system's fields that the words set, by name, read as their types."""
    import dataclasses
    import typing

    from ..sweep.cell import resolve
    from ._main import parse

    if not words:
        return {}
    given, cls = resolve(name)
    hints = typing.get_type_hints(cls)
    # The fields without the rules: a value that is refused beside the defaults may be right beside others.
    assert dataclasses.is_dataclass(cls)
    fields = [(f.name, hints[f.name], dataclasses.field(default=f.default)) for f in dataclasses.fields(cls)]
    bare: Any = dataclasses.make_dataclass(cls.__name__, fields, frozen=True, kw_only=True)
    bare.title = cls.title
    system, _ = parse(given, bare, words)
    typed = {word.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_") for word in words}
    if strange := typed & {"counter", "with_counters", "no_record"}:
        raise ValueError(f"--{strange.pop().replace('_', '-')} does not go with a sweep.")
    return {field: getattr(system, field) for field, *_ in fields if field in typed}


def _run(
    name: str,
    asked: Mapping[str, Any],
    grid: Mapping[str, Any],
    rest: list[str],
    options: argparse.Namespace,
    interrupts: Sequence[int],
    *,
    out: Path,
) -> int:
    from ..report import progress
    from ..sweep import run_sweep

    cluster = asked.get("slurm")
    if (slurm := getattr(options, "slurm", None)) is not None:
        pairs = [pair.partition("=") for pair in slurm]
        cluster = {**(cluster or {}), **{key: value for key, _, value in pairs}}
    if getattr(options, "job_script", False):
        from ..sweep.engines import slurm_job_script

        print(slurm_job_script(cluster or {}), end="")
        return 0
    fixed = {**asked.get("options", {}), **_values(name, rest)}
    folder = Path(asked.get("out") or out)
    with progress.counted(None if options.quiet else sys.stderr) as shown:

        def say(text: str) -> None:
            complain(text, 0)

        def watch(counts: Any, line: Mapping[str, Any] | None) -> None:
            if interrupts:
                raise KeyboardInterrupt
            shown(counts, line)

        try:
            found = run_sweep(
                name,
                folder=folder,
                grid=grid,
                seeds=asked.get("seeds"),
                options=fixed,
                workers=asked.get("workers"),
                scheduler=asked.get("scheduler"),
                cluster=cluster,
                timeout=asked.get("timeout"),
                retry=options.retry,
                watch=watch,
                say=None if options.quiet else say,
            )
        except OSError as error:
            told = one_line(error)
            return complain(
                f"error: {told}. What was finished is kept in {str(folder)!r}; the same call goes on.", USAGE
            )
        except KeyboardInterrupt:
            return complain(f"interrupted; what was finished is kept in {str(folder)!r}; the same call goes on.", 130)
    page = _page(found)
    _show(found, folder, page, as_json=options.json)
    return _status(found)


def _page(found: Any) -> Path | None:
    try:
        from ..report.sweep_page import sweep_page
        from ..store import write_text

        return write_text(found.path / "sweep.html", sweep_page(found))
    except Exception as error:  # the records are worth more than their page
        complain(f"warning: the sweep has no page: {one_line(error)}", 0)
        return None


def _show(found: Any, folder: Path, page: Path | None, *, as_json: bool) -> None:
    from ..report import table

    try:
        if as_json:
            print(json.dumps(table.folder_document(found), indent=1, ensure_ascii=False, allow_nan=False))
        else:
            table.show_folder(found, sys.stdout)
            print(f"table: {folder / 'table.csv'}")
            if page is not None:
                print(f"page: {page}")
        sys.stdout.flush()
    except BrokenPipeError:
        reader_left()


def _status(found: Any) -> int:
    summary = found.summary()
    if any(claim.n_fails for claim in summary):
        return 1
    if found.failures or found.missing or any(claim.n_no_verdict for claim in summary):
        return 4
    return 3 if any(claim.n_inconclusive for claim in summary) or not summary else 0
