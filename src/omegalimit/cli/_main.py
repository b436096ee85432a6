"""The command `omegalimit`: list the catalogue, show a system, run it; repeat it; look at records; solve, certify.

It holds no logic: it reads options, calls `check`, and hands what was found to the table, the record or JSON.
"""

import contextlib
import dataclasses
import datetime
import inspect
import io
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from ..catalogue import SYSTEMS, AbstractSystem, Findings, load
from ..claims import Outcome, Verdict
from ._shared import USAGE, Parser, complain, one_line, reader_left

_BUG, _INTERRUPTED = 70, 130
_EPILOG = """exit status of run: 0 all claims hold; 1 a claim fails; 3 none fails, some are inconclusive;
2 wrong usage or bad input; 130 interrupted. With --counter: 0 when every counter-instance fails as it
should, else 1. With --seeds: as `omegalimit sweep`, 4 when a cell gave no verdict."""
_RUNS = Path("runs")
_RUN_HELP = f"""usage: omegalimit run NAME [--data FILE] [--weights FILE] [--seed N | --seeds A:B] [--counter NAME|all]
                          [--with-counters] [--out DIR | --no-record] [--json] [--quiet] [the system's own options]

Runs the system NAME of the catalogue, judges every claim, prints the verdicts, and leaves a record with its page,
`report.html`, in the folder `{_RUNS}`. With --seeds A:B (or A:B:STEP, or 1,5,9) it is run for every seed
from A to B, B left out, as `omegalimit sweep` does, whose options --workers, --timeout and --retry it takes too.
`omegalimit run NAME --help` has all options of NAME; `omegalimit list` has the names.

{_EPILOG}"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    """How to run, whatever the system."""

    counter: str | None = None
    """Run this counter-instance instead ("all" for each of them): one assumption is broken on purpose."""
    with_counters: bool = False
    """Run every counter-instance too, after the check: each must not hold where it says so."""
    out: Path | None = None
    """Write a record, with figures and a page, into a new folder in this one, made when missing; "runs" by default."""
    no_record: bool = False
    """Write no record."""
    json: bool = False
    """Print one JSON document instead of the table."""
    quiet: bool = False
    """Show no progress."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments `argv` (those of the process by default) and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stands for the process's own stream
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Greek is no reason to stop
    interrupts: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        # Python drops an exception that is raised inside a callback of the garbage collector: what came is kept.
        interrupts.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    try:
        status = _dispatch(arguments, interrupts)
        sys.stdout.flush()
        if interrupts and status != _INTERRUPTED:
            return complain("interrupted at the very end; what was written is whole.", _INTERRUPTED)
        return status
    except BrokenPipeError:
        return reader_left()
    except KeyboardInterrupt:
        return complain("interrupted; nothing half-written is left.", _INTERRUPTED)
    except SystemExit as stop:  # from the parsers' --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except (ValueError, TypeError, OSError, MemoryError) as error:
        return complain(f"error: {one_line(error)}", USAGE)
    except Exception as error:
        traceback.print_exc()
        return complain(f"error: this is a fault of omegalimit, please report it: {one_line(error)}", _BUG)


def _dispatch(arguments: list[str], interrupts: Sequence[int]) -> int:
    if arguments[:1] == ["run"]:
        return _run(arguments[1:], interrupts)
    if arguments[:1] == ["sweep"]:
        from . import _sweep

        _keep_compiled_code()
        return _sweep.command(arguments[1:], interrupts)
    if arguments[:1] == ["report"]:
        from . import _report

        return _report.command(arguments[1:])
    if arguments[:1] in (["solve"], ["certify"]):
        from . import _margins

        return _margins.command(arguments[0], arguments[1:])
    parser = Parser(prog="omegalimit", description="Where does training go?", epilog=_EPILOG)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    listing = commands.add_parser("list", help="list the catalogue, or the records of a folder")
    listing.add_argument("folder", metavar="DIR", nargs="?", help="a folder of records, or of a sweep")
    listing.add_argument("--json", action="store_true", help="print one JSON document")
    showing = commands.add_parser("show", help="show a system: what it claims, its options, its counter-instances")
    showing.add_argument("name", metavar="NAME")
    commands.add_parser("run", help="run a system and judge its claims", add_help=False)
    commands.add_parser("sweep", help="run a system on many seeds and settings", add_help=False)
    commands.add_parser("report", help="make the page of a record, of two, or of a folder of them", add_help=False)
    commands.add_parser("solve", help="solve a limit problem and certify the answer", add_help=False)
    commands.add_parser("certify", help="bound the optimum of a limit problem from a candidate point", add_help=False)
    chosen = parser.parse_args(arguments)
    if chosen.version:
        from .. import __version__

        print(f"omegalimit {__version__}")
    elif chosen.command == "list" and chosen.folder is not None:
        from . import _report

        return _report.listing(chosen.folder, as_json=chosen.json)
    elif chosen.command == "list":
        _list(as_json=chosen.json)
    elif chosen.command == "show":
        _show(chosen.name)
    else:
        raise ValueError(
            "what to do? `omegalimit list`, `show NAME`, `run NAME`, `sweep NAME`, `report DIR`, `solve LIMIT` or "
            "`certify LIMIT`."
        )
    return 0


def _list(*, as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"name": name, "line": entry.line} for name, entry in SYSTEMS.items()], indent=1))
        return
    width = max(map(len, SYSTEMS))
    for name, entry in SYSTEMS.items():
        print(f"{name:<{width}}  {entry.line}")


def _show(name: str) -> None:
    cls = load(name)
    print(f"{name}: {cls.title}\n\n{inspect.getdoc(cls) or ''}\n\nOptions and their defaults:\n")
    defaults: Any = cls()
    for field in dataclasses.fields(defaults):
        print(f"  --{field.name.replace('_', '-')} = {getattr(defaults, field.name)}")
    print("\nCounter-instances (--counter NAME):\n")
    for counter_name, counter in defaults.counters.items():
        print(f"  {counter_name}: {counter.text}")


def _run(arguments: list[str], interrupts: Sequence[int]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(_RUN_HELP)
        return 0
    # The name may come after options, where it is looked for among the systems.
    name = next((a for a in arguments if a in SYSTEMS or (a is arguments[0] and not a.startswith("-"))), None)
    if name is None:
        raise ValueError(f"which system? `omegalimit run NAME`; the catalogue has: {', '.join(SYSTEMS)}.")
    arguments.remove(name)
    _keep_compiled_code()
    if any(a == "--seeds" or a.startswith("--seeds=") for a in arguments):
        from . import _sweep

        return _sweep.seeds_of_run(name, arguments, interrupts)
    system, options = parse(name, load(name), arguments)
    wanted = _wanted_counters(system, options)
    from .. import record
    from ..report import progress
    from ..sweep.cell import about

    there = (options.out or _RUNS).exists()
    folder, trouble = _folder(options), None
    started, wall, cpu = datetime.datetime.now(datetime.UTC), time.monotonic(), time.process_time()
    with contextlib.ExitStack() as stack:
        if folder is not None and not there:
            stack.callback(_remove_when_empty, folder)
        shown = (lambda text, fraction: None) if options.quiet else stack.enter_context(progress.shown(sys.stderr))

        def show(text: str, fraction: float) -> None:
            if interrupts:  # one that came inside a callback of the garbage collector, and was dropped there
                raise KeyboardInterrupt
            shown(text, fraction)

        findings, counters = _found(system, options, wanted, show)
    path = None
    if folder is not None:
        try:
            path = record.write(
                findings,
                folder=folder,
                system=name,
                seed=getattr(system, "seed", None),
                counters=counters,
                about=about(system),
                command=_command(name, system, options),
                started=started,
                cpu_seconds=time.process_time() - cpu,
                wall_seconds=time.monotonic() - wall,
                illustrate=_illustrate,
            )
        except (OSError, ValueError) as error:  # the result is printed all the same
            trouble = f"error: no record was written in {str(folder)!r}: {one_line(error)}"
    status = 0 if options.counter is not None else _status(findings.verdicts)
    if not all(c.as_expected for c in counters):
        status = 1
    try:
        if options.json:
            print(json.dumps(_document(name, findings, counters, path), indent=1, ensure_ascii=False, allow_nan=False))
        else:
            from ..report import table

            table.show(findings, counters, sys.stdout)
            if path is not None:
                print(f"record: {path}")
            elif options.no_record:
                print("no record was written, as --no-record asks.")
        sys.stdout.flush()
    except BrokenPipeError:
        reader_left()
    return status if trouble is None else complain(trouble, USAGE)


def parse(name: str, cls: type[AbstractSystem], arguments: list[str]) -> tuple[AbstractSystem, _Options]:
    """The system with its fields set, and how to run it, by tyro; its complaint, a box, is made one line."""
    import tyro

    def asked(system, options):
        return system, options

    asked.__annotations__ = {
        "system": Annotated[cls, tyro.conf.arg(name="")],
        "options": Annotated[_Options, tyro.conf.arg(name=""), tyro.conf.FlagCreatePairsOff],
    }
    prog, box = f"omegalimit run {name}", io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(asked, prog=prog, description=f"{cls.title}\n\n{_EPILOG}", args=arguments)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
    # Sections between rules: what is wrong, then hints. Drawn in ASCII, a section with the title comes first.
    text = re.sub(r"\x1b\[[0-9;]*m", "", box.getvalue())
    inside = "\n".join(line.strip("│ ") for line in text.splitlines() if not line.startswith(("╭", "╰")))
    sections = [part.strip().splitlines() for part in re.split(r"^[─-]+$", inside, flags=re.MULTILINE)]
    wrong, *hints = sections if "╭" in text else sections[1:] or sections
    text = " ".join(wrong) or "wrong usage"
    if hints and hints[0][0] == "Perhaps you meant:":
        text += f"; perhaps you meant {hints[0][1].strip()}"
    raise ValueError(f"{text.rstrip('.')}; see `{prog} --help`.")


def _wanted_counters(system: AbstractSystem, options: _Options) -> list[str]:
    asked, names = options.counter, list(system.counters)
    if options.with_counters:
        if asked is not None:
            raise ValueError(f"--with-counters runs every counter-instance; drop `--counter {asked}`.")
        return names
    if asked is None:
        return []
    if asked != "all" and asked not in names:
        raise ValueError(f"--counter: there is no counter-instance {asked!r}; there are: {', '.join(names)}, or all.")
    return names if asked == "all" else [asked]


def _folder(options: _Options) -> Path | None:
    """The folder for the record, ready to be written in, or `None` when there is to be no record."""
    from ..record import prepare

    if options.no_record:
        if options.out is not None:
            raise ValueError(f"--no-record writes nothing; drop it, or `--out {options.out}`.")
        return None
    if options.out is not None:
        return prepare(options.out)
    try:
        return prepare(_RUNS)
    except ValueError as error:  # nobody asked for this folder: what runs is worth more than its record
        complain(f"warning: {one_line(error)} There will be no record; --out DIR writes one elsewhere.", 0)
        return None


def _remove_when_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _found(system: AbstractSystem, options: _Options, wanted: list[str], show: Any) -> tuple[Findings, list]:
    """What the check found, or nothing where counter-instances run instead of it, and what those gave."""
    if not wanted:
        return system.check(show), []
    if options.counter is not None:
        return _counters(system, wanted, show)
    findings = system.check(lambda text, fraction: show(text, fraction / 2))
    broken, counters = _counters(system, wanted, lambda text, fraction: show(text, (1 + fraction) / 2))
    arrays, notes = {**findings.arrays, **broken.arrays}, (*findings.notes, *broken.notes)
    return dataclasses.replace(findings, arrays=arrays, notes=notes), counters


def _counters(system: AbstractSystem, names: list[str], show: Any) -> tuple[Findings, list]:
    """Run the counter-instances; the first value has their settings, notes and arrays, and no verdicts."""
    from ..record import CounterResult

    results, arrays, notes = [], {}, []
    for index, name in enumerate(names):
        counter = system.counters[name]

        def part(text: str, fraction: float, index: int = index, name: str = name) -> None:
            show(f"{name}: {text}", (index + fraction) / len(names))

        found = counter.check(part)
        arrays |= {f"counters/{name}/{group}": dataset for group, dataset in found.arrays.items()}
        notes += [f"{name}: {note}" for note in found.notes]
        as_expected, verdicts = counter.as_expected(found), found.verdicts
        results.append(
            CounterResult(
                name=name, text=counter.text, expected=counter.expected, verdicts=verdicts, as_expected=as_expected
            )
        )
    settings = {f.name: getattr(system, f.name) for f in dataclasses.fields(system)}  # pyright: ignore[reportArgumentType]
    return Findings(verdicts=(), settings=settings, arrays=arrays, notes=tuple(notes)), results


def _command(name: str, system: AbstractSystem, options: _Options) -> tuple[str, ...]:
    """The words after `omegalimit` that run it again."""
    counters = ("--with-counters",) if options.with_counters else ()
    counters += () if options.counter is None else ("--counter", options.counter)
    from ..sweep.plan import option_words

    assert dataclasses.is_dataclass(system)
    fields = [field.name for field in dataclasses.fields(system) if getattr(system, field.name) != field.default]
    words = [word for field in fields for word in option_words(field, getattr(system, field))]
    return ("run", name, *words, *counters)


def _document(name: str, findings: Findings, counters: list, path: Path | None) -> Mapping[str, Any]:
    from ..record import counter_to_json, plain, verdict_to_json

    return {
        "system": name,
        "settings": {**plain(findings.settings), "not_applicable": plain(findings.not_applicable)},
        "verdicts": [verdict_to_json(v) for v in findings.verdicts],
        "counters": [counter_to_json(c) for c in counters],
        "notes": list(findings.notes),
        "record": None if path is None else str(path),
    }


def _illustrate(record: Any, folder: Path) -> None:
    """Put the figures and the page into the record's folder."""
    try:
        from ..report import figures, page

        figures.save(record, folder)
        page.save(record, folder)
    except Exception as error:  # the record is worth more than its pictures
        complain(f"warning: the record has no figures or no page: {one_line(error)}", 0)


def _status(verdicts: Sequence[Verdict]) -> int:
    outcomes = {v.outcome for v in verdicts}
    if Outcome.FAILS in outcomes:
        return 1
    return 0 if outcomes == {Outcome.HOLDS} else 3


def _keep_compiled_code() -> None:
    """Have JAX keep what it compiles in the user's cache folder, unless told otherwise or unable to write there."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache") / "omegalimit"
    warnings.filterwarnings("ignore", message=".*persistent compilation cache.*")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
