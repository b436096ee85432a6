"""The command: what it prints, how it ends, and that it never ends in a traceback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import _toy
from omegalimit.catalogue import SYSTEMS
from omegalimit.cli import main
from omegalimit.record import read

TOY = str(Path(_toy.__file__))
CATALOGUE = ", ".join(SYSTEMS)


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    _toy.register(monkeypatch)
    monkeypatch.chdir(tmp_path)  # a run leaves its record in `runs`, where it is started
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("DIR", "MIN_COMPILE"):
        monkeypatch.delenv(f"JAX_COMPILATION_CACHE_{name}", raising=False)
    # Set by the command for its own process, and taken back here for the next test.
    monkeypatch.setattr(os, "environ", os.environ.copy())


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


def refused(capsys, *arguments: str) -> str:
    """The one line with which the command refuses the arguments."""
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("omegalimit: error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err.removeprefix("omegalimit: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 0),
        (("--size", "2"), 1),
        (("--size", "0.95"), 3),
        (("--size", "nan"), 2),
        (("--size", "inf"), 3),
        (("--counter", "too-big"), 0),
        (("--counter", "broken"), 1),
        (("--counter", "all"), 1),
    ],
)
def test_exit_status(capsys, arguments, status):
    assert run(capsys, "run", "toy", "--quiet", *arguments)[0] == status


def test_a_fault_of_the_library_is_not_taken_for_a_verdict(capsys):
    status, out, err = run(capsys, "run", "toy", "--quiet", "--ending", "fault")
    assert (status, out) == (70, "")
    assert err.endswith("omegalimit: error: this is a fault of omegalimit, please report it: two and two are five\n")


def test_the_table_says_it_in_plain_words(capsys):
    status, out, err = run(capsys, "run", "toy", "--quiet", "--no-record")
    assert (status, err) == (0, "")
    row = next(line for line in out.splitlines() if "stays-under" in line)
    assert row.split()[:7] == ["stays-under", "plain", "holds", "0.5", "<=", "1", "0.1"]
    assert row.rstrip().endswith("outside the theorem: even number")
    assert out.splitlines()[-4:] == [
        "1 verdicts: 1 hold, 0 fail, 0 inconclusive.",
        "note: the number was taken as given",
        "not applicable: rank: a number has none",
        "no record was written, as --no-record asks.",
    ]


def test_json_is_one_document(capsys):
    status, out, err = run(capsys, "run", "toy", "--json", "--quiet", "--seed", "4", "--no-record")
    document = json.loads(out, parse_constant=pytest.fail)
    assert (status, err) == (0, "")
    assert list(document) == ["system", "settings", "verdicts", "counters", "notes", "record"]
    assert document["system"] == "toy"
    assert document["settings"] == {
        "data": None,
        "seed": 4,
        "size": 0.5,
        "ending": "found",
        "seconds": 0.0,
        "cap": None,
        "not_applicable": {"rank": "a number has none"},
    }
    assert [v["outcome"] for v in document["verdicts"]] == ["holds"]
    assert document["verdicts"][0]["assumptions"] == [{"name": "even number", "holds": False, "measured": None}]
    assert (document["counters"], document["record"]) == ([], None)


def test_json_with_counter_instances(capsys, tmp_path):
    status, out, _ = run(capsys, "run", "toy", "--json", "--quiet", "--counter", "all", "--out", str(tmp_path / "runs"))
    document = json.loads(out, parse_constant=pytest.fail)
    assert status == 1
    assert document["verdicts"] == []
    assert [list(c) for c in document["counters"]] == [["name", "text", "expected", "verdicts", "as_expected"]] * 2
    assert [(c["name"], c["as_expected"]) for c in document["counters"]] == [("too-big", True), ("broken", False)]
    assert document["counters"][0]["expected"] == [{"claim": "stays-under", "parametrisation": "plain"}]
    assert [v["outcome"] for c in document["counters"] for v in c["verdicts"]] == ["fails", "holds"]
    record = read(document["record"])
    assert [c.as_expected for c in record.counters] == [True, False]
    assert set(record.arrays) == {"counters/too-big/plain/trajectory", "counters/broken/plain/trajectory"}


def test_counter_instances_in_the_table(capsys):
    _, out, _ = run(capsys, "run", "toy", "--quiet", "--counter", "all")
    assert "counter-instance too-big: The number is two.\n" in out
    assert "too-big as it should be; expected not to hold: stays-under (plain).\n" in out
    assert "broken NOT AS IT SHOULD BE; expected not to hold: stays-under (plain).\n" in out


def test_out_writes_one_new_record_each_time(capsys, tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    for seed in ("1", "2"):
        status, out, _ = run(capsys, "run", "toy", "--quiet", "--out", str(folder), "--seed", seed)
        path = out.splitlines()[-1].removeprefix("record: ")
        record = read(path)
        assert (status, record.system, record.seed) == (0, "toy", int(seed))
        assert record.wall_seconds is not None
    assert len(list(folder.iterdir())) == 3


def test_every_run_leaves_a_record_with_its_page(capsys, tmp_path):
    status, out, err = run(capsys, "run", "toy", "--quiet", "--size", "0.25")
    path = Path(out.splitlines()[-1].removeprefix("record: "))
    assert (status, err, path.parent) == (0, "", Path("runs"))
    record = read(path)
    assert record.command == ("run", "toy", "--size", "0.25")
    assert record.about is not None
    assert record.about.title == "a number and its bound"
    assert "stays-under" in (path / "report.html").read_text()


def test_the_folder_that_nobody_asked_for_is_no_reason_to_stop(capsys, tmp_path):
    (tmp_path / "runs").write_text("mine")
    status, out, err = run(capsys, "run", "toy", "--quiet", "--json")
    assert (status, json.loads(out)["record"]) == (0, None)
    assert err == (
        "omegalimit: warning: cannot write a record in 'runs': File exists. There will be no record; "
        "--out DIR writes one elsewhere.\n"
    )


def test_a_run_that_fails_leaves_no_folder(capsys, tmp_path):
    refused(capsys, "run", "toy", "--quiet", "--ending", "memory")
    assert not (tmp_path / "runs").exists()
    (tmp_path / "runs").mkdir()
    refused(capsys, "run", "toy", "--quiet", "--ending", "memory")
    assert (tmp_path / "runs").exists()


def test_counter_instances_beside_the_check(capsys, tmp_path):
    status, out, _ = run(capsys, "run", "toy", "--quiet", "--json", "--with-counters")
    document = json.loads(out)
    assert status == 1  # of the toy's two, one is not as it should be
    assert [v["outcome"] for v in document["verdicts"]] == ["holds"]
    assert [c["as_expected"] for c in document["counters"]] == [True, False]
    record = read(document["record"])
    assert record.command == ("run", "toy", "--with-counters")
    assert set(record.arrays) == {
        "plain/trajectory",
        *(f"counters/{name}/plain/trajectory" for name in ("too-big", "broken")),
    }


def test_the_name_may_come_after_options(capsys):
    assert run(capsys, "run", "--json", "--quiet", "toy")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (),
            "what to do? `omegalimit list`, `show NAME`, `run NAME`, `sweep NAME`, `report DIR`, `solve LIMIT` or "
            "`certify LIMIT`.",
        ),
        (
            ("dance",),
            "argument COMMAND: invalid choice: 'dance' (choose from list, show, run, sweep, report, solve, certify); "
            "see `omegalimit --help`.",
        ),
        (("list", "toy", "top"), "unrecognized arguments: top; see `omegalimit --help`."),
        (("show",), "the following arguments are required: NAME; see `omegalimit show --help`."),
        (("show", "top"), f"there is no system 'top'; the catalogue has: {CATALOGUE}, toy."),
        (("run",), f"which system? `omegalimit run NAME`; the catalogue has: {CATALOGUE}, toy."),
        (("run", "--json"), f"which system? `omegalimit run NAME`; the catalogue has: {CATALOGUE}, toy."),
        (("run", "top"), f"there is no system 'top'; the catalogue has: {CATALOGUE}, toy."),
        (("run", "toy", "--colour", "red"), "Unrecognized options: --colour, red; see `omegalimit run toy --help`."),
        (
            ("run", "toy", "--qiet"),
            "Unrecognized options: --qiet; perhaps you meant --quiet; see `omegalimit run toy --help`.",
        ),
        (
            ("run", "toy", "--seed", "x"),
            "Error parsing --seed: invalid literal for int() with base 10: 'x'; see `omegalimit run toy --help`.",
        ),
        (
            ("run", "toy", "--seed"),
            "Missing value for argument '--seed'. Expected 1 values; see `omegalimit run toy --help`.",
        ),
        (("run", "toy", "--size", "-1"), "`size` must be >= 0; got -1.0."),
        (("run", "toy", "--no-record", "--out", "a"), "--no-record writes nothing; drop it, or `--out a`."),
        (
            ("run", "toy", "--with-counters", "--counter", "all"),
            "--with-counters runs every counter-instance; drop `--counter all`.",
        ),
        (
            ("run", "toy", "--counter", "x"),
            "--counter: there is no counter-instance 'x'; there are: too-big, broken, or all.",
        ),
        (("run", "toy", "--quiet", "--data", "/nowhere/tokens.npz"), "/nowhere/tokens.npz: No such file or directory"),
        (("run", "toy", "--quiet", "--data", "/"), "/: Is a directory"),
        (("run", "toy", "--quiet", "--data", os.devnull), "--data /dev/null: it holds 0 characters, not tokens."),
        (("run", "toy", "--quiet", "--ending", "memory"), "MemoryError"),
    ],
)
def test_wrong_usage_and_bad_input_are_one_line(capsys, arguments, message):
    said = refused(capsys, *arguments)
    # Python 3.12 and later no longer quote the choices.
    quoted = "(choose from 'list', 'show', 'run', 'sweep', 'report', 'solve', 'certify')"
    assert said.replace(quoted, quoted.replace("'", "")) == message


def test_a_folder_that_cannot_be_written_is_refused_before_the_run(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "runs")
    # The run itself would end otherwise: it is not reached.
    said = refused(capsys, "run", "toy", "--ending", "fault", "--quiet", "--out", folder)
    assert said == f"cannot write a record in {folder!r}: Not a directory."


def test_a_result_is_printed_even_when_its_record_cannot_be_written(capsys, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("omegalimit.record.write_arrays", full)
    status, out, err = run(capsys, "run", "toy", "--quiet", "--json", "--out", str(tmp_path / "runs"))
    assert status == 2
    assert [v["outcome"] for v in json.loads(out)["verdicts"]] == ["holds"]
    where = str(tmp_path / "runs")
    assert err == f"omegalimit: error: no record was written in {where!r}: No space left on device\n"
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_record_survives_pictures_that_fail(capsys, tmp_path, monkeypatch):
    def fail(*args):
        raise RuntimeError("no fonts")

    monkeypatch.setattr("omegalimit.report.figures.save", fail)
    status, out, err = run(capsys, "run", "toy", "--quiet", "--out", str(tmp_path / "runs"))
    assert (status, err) == (0, "omegalimit: warning: the record has no figures or no page: no fonts\n")
    assert read(out.splitlines()[-1].removeprefix("record: ")).system == "toy"


def test_list_show_version_and_help(capsys):
    width = max(map(len, SYSTEMS))
    assert run(capsys, "list")[1].splitlines()[-1] == f"{'toy':<{width}}  a toy: does a number stay under its bound?"
    assert json.loads(run(capsys, "list", "--json")[1])[-1] == {"name": "toy", "line": _toy.ENTRY.line}
    shown = run(capsys, "show", "toy")[1]
    assert shown.startswith("toy: a number and its bound\n\nA number is compared with one.\n")
    assert "  --size = 0.5\n" in shown
    assert "  too-big: The number is two.\n" in shown
    assert run(capsys, "--version") == (0, "omegalimit 0.1.0\n", "")
    for arguments, word in (
        (("--help",), "list the catalogue"),
        (("run", "--help"), "omegalimit run NAME"),
        (("run", "toy", "--help"), "The number that is judged."),
        (("show", "--help"), "NAME"),
    ):
        status, out, err = run(capsys, *arguments)
        assert (status, err) == (0, "")
        assert word in out


def test_compiled_code_is_kept_in_the_users_cache_folder(capsys, tmp_path):
    run(capsys, "run", "toy", "--quiet")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "cache" / "omegalimit")
    assert os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "0"
    os.environ["JAX_COMPILATION_CACHE_DIR"] = "/the/users/own"
    run(capsys, "run", "toy", "--quiet")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "/the/users/own"


def test_a_cache_folder_that_cannot_be_made_is_no_trouble(capsys, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    status, _, err = run(capsys, "run", "toy", "--quiet")
    assert (status, err) == (0, "")
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, TOY, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )


def test_interrupted_in_mid_run(tmp_path):
    with start("run", "toy", "--ending", "wait", "--quiet", "--out", str(tmp_path / "runs")) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
        assert child.stderr.read() == "omegalimit: interrupted; nothing half-written is left.\n"
    assert not (tmp_path / "runs").exists()


def test_an_interrupt_that_python_drops_ends_the_run_all_the_same():
    with start("run", "toy", "--ending", "dropped", "--quiet") as child:
        assert child.wait(20) == 130
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read() == ""
        assert child.stderr.read() == "omegalimit: interrupted; nothing half-written is left.\n"


@pytest.mark.parametrize("arguments", [("list",), ("run", "toy", "--quiet"), ("run", "toy", "--quiet", "--json")])
def test_a_reader_that_leaves_is_no_trouble(arguments):
    with start(*arguments) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.wait(20) == 0
        assert child.stderr.read() == ""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_wrong_options_are_one_line_on_any_terminal(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "40"}
    command = [sys.executable, TOY, "run", "toy", "--qiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "omegalimit: error: Unrecognized options: --qiet; perhaps you meant --quiet; see `omegalimit run toy --help`.\n"
    )


def test_a_terminal_without_unicode_is_no_trouble():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, TOY, "run", "toy"], env=environment, capture_output=True, check=False)
    assert done.returncode == 0
    done.stdout.decode("ascii")


def test_python_m_omegalimit():
    done = subprocess.run([sys.executable, "-m", "omegalimit", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "omegalimit 0.1.0\n"
