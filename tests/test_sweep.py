"""Sweeps in this process: what is run, what is not run again, what is noticed, what is kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import _toy
from _sweeps import TOY, said, toy_sweep
from omegalimit import record
from omegalimit.catalogue.classification.early_alignment import EarlyAlignment
from omegalimit.store import open_folder
from omegalimit.sweep import run_sweep
from omegalimit.sweep.cell import resolve

TESTS = Path(__file__).parent


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every record: they tell one that was written again."""
    files = {path.parent.name: path.stat() for path in folder.glob("cells/*/record.json")}
    return {key: (found.st_ino, found.st_mtime_ns) for key, found in files.items()}


def test_a_cell_is_what_a_run_of_it_is(tmp_path):
    folder = toy_sweep(tmp_path, seeds="0:2")
    assert [(cell.settings["size"], cell.seed) for cell in folder.cells] == [(0.5, 0), (0.5, 1), (2.0, 0), (2.0, 1)]
    for cell in folder.cells:
        whole = cell.open()
        findings = _toy.Toy(**{"size": cell.settings["size"], "seed": cell.seed}).check()
        assert [(v.measured, v.outcome) for v in whole.verdicts] == [(v.measured, v.outcome) for v in findings.verdicts]
        assert set(whole.arrays) == {"plain/trajectory"}
        assert whole.about is not None
        assert whole.threads["pools"]
        assert sorted(path.name for path in cell.path.iterdir()) == ["arrays.nc", "record.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "cells",
        "index.jsonl",
        "sweep.json",
        "table.csv",
        "table.parquet",
    ]


@pytest.fixture
def log(tmp_path, monkeypatch):
    """What checks ran, in order: sizes and seeds."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("TOY_JOURNAL", str(path))
    return lambda: path.read_text().splitlines()


def test_a_second_call_runs_only_what_is_missing(tmp_path, log):
    toy_sweep(tmp_path / "s", seeds="0:2")
    before = stamps(tmp_path / "s")
    toy_sweep(tmp_path / "s", seeds="0:3")
    after = stamps(tmp_path / "s")
    assert {key: after[key] for key in before} == before
    assert len(after) == 6
    assert log() == ["0.5 0", "0.5 1", "2.0 0", "2.0 1", "0.5 2", "2.0 2"]


def test_failures_are_data_and_stand_until_asked(tmp_path, log):
    ask = {"options": {"ending": "fault"}, "sizes": (0.5,), "seeds": "0:2"}
    folder = toy_sweep(tmp_path / "s", **ask)
    assert [(f.kind, f.reason, f.seed) for f in folder.failures] == [
        ("raised", "AssertionError: two and two are five", seed) for seed in (0, 1)
    ]
    assert "two and two are five" in folder.failures[0].traceback
    assert folder.failures[0].where
    toy_sweep(tmp_path / "s", **ask)
    assert len(log()) == 2
    toy_sweep(tmp_path / "s", **ask, retry=True)
    assert len(log()) == 4


def test_a_failure_goes_when_its_cell_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(_toy.Toy, "check", lambda self, progress=None: 1 / 0)
    assert len(toy_sweep(tmp_path).failures) == 6
    monkeypatch.undo()
    folder = toy_sweep(tmp_path, retry=True)
    assert (len(folder.cells), len(folder.failures), list((tmp_path / "failures").iterdir())) == (6, 0, [])


def test_a_changed_configuration_is_noticed(tmp_path):
    told: list[str] = []
    toy_sweep(tmp_path, seeds="0:3", say=told.append)
    assert told == []
    toy_sweep(tmp_path, sizes=(0.5,), seeds="0:3", say=told.append)
    assert told == [
        'changed since the last call: grid was {"size": [0.5, 2.0]}, and is {"size": [0.5]}.',
        "3 cells of earlier calls are not in this one; their records are kept.",
        "3 of 3 cells are there already.",
    ]
    folder = open_folder(tmp_path)
    assert (len(folder.cells), len(folder.earlier)) == (3, 3)
    assert len(folder.table()) == 3
    plan = json.loads((tmp_path / "sweep.json").read_text())
    assert [entry["grid"] for entry in plan["earlier"]] == [{"size": [0.5, 2.0]}]


def test_another_version_of_omegalimit_makes_other_cells(tmp_path, monkeypatch):
    first = toy_sweep(tmp_path)
    told: list[str] = []
    monkeypatch.setattr("importlib.metadata.version", lambda package: "99")
    second = toy_sweep(tmp_path, say=told.append)
    assert told[0] == 'changed since the last call: omegalimit was "0.1.0", and is "99".'
    assert not {c.key for c in first.cells} & {c.key for c in second.cells}


def test_a_file_whose_content_changed_makes_other_cells(tmp_path):
    data, told = tmp_path / "a.txt", []
    ask = {"options": {"data": str(data)}, "sizes": (0.5,), "seeds": "0:1", "say": told.append}
    data.write_text("one")
    first = toy_sweep(tmp_path / "s", **ask)
    assert "3 characters" in first.failures[0].message
    data.write_text("three")
    second = toy_sweep(tmp_path / "s", **ask)
    assert "5 characters" in second.failures[0].message
    assert told == [f"the content of {data} has changed since: its cells are new ones."]


def test_a_damaged_record_is_moved_aside_and_its_cell_run_again(tmp_path):
    folder = toy_sweep(tmp_path)
    broken = folder.cells[1]
    (broken.path / "record.json").write_text("{")
    before, told = stamps(tmp_path), []
    again = toy_sweep(tmp_path, say=told.append)
    assert said(again) == said(folder)
    assert {key: v for key, v in stamps(tmp_path).items() if key != broken.key} == {
        key: v for key, v in before.items() if key != broken.key
    }
    (aside,) = (tmp_path / "damaged").iterdir()
    assert (aside / "record.json").read_text() == "{"
    assert told[0].startswith(f"the record of cell {broken.key} is damaged (")


def test_records_of_another_layout_are_left_alone(tmp_path):
    cell = toy_sweep(tmp_path).cells[0]
    document = json.loads((cell.path / "record.json").read_text())
    (cell.path / "record.json").write_text(json.dumps(document | {"schema": 99}))
    with pytest.raises(ValueError, match=r"schema version 99, .* Or give this sweep another folder\.$"):
        toy_sweep(tmp_path)
    assert json.loads((cell.path / "record.json").read_text())["schema"] == 99


def test_what_a_kill_left_while_writing_is_cleaned(tmp_path):
    toy_sweep(tmp_path, seeds="0:1")
    left = tmp_path / "cells" / f".abc-1{record.PARTIAL}"
    left.mkdir()
    (left / "record.json").write_text("{")
    toy_sweep(tmp_path, seeds="0:2")
    assert not left.exists()


def test_two_sweeps_do_not_write_in_one_folder(tmp_path):
    code = (
        "import sys, time, fcntl; f = open(sys.argv[1], 'a+'); fcntl.flock(f, fcntl.LOCK_EX); f.truncate(0); "
        "f.write('77'); f.flush(); print('held', flush=True); time.sleep(60)"
    )
    (tmp_path / ".lock").touch()
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / ".lock"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=r"^a sweep is running in '.*' already \(process 77\); wait for it"):
            toy_sweep(tmp_path)
        child.kill()
    assert len(toy_sweep(tmp_path).cells) == 6


def test_a_full_disk_stops_the_sweep_and_keeps_the_rest(tmp_path, monkeypatch):
    whole = record.write_arrays
    calls = []

    def full(*args):
        calls.append(args)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        return whole(*args)

    monkeypatch.setattr(record, "write_arrays", full)
    with pytest.raises(OSError, match="No space left on device"):
        toy_sweep(tmp_path)
    folder = open_folder(tmp_path)
    assert (len(folder.cells), len(folder.failures), len(folder.missing)) == (3, 0, 3)
    before = stamps(tmp_path)
    monkeypatch.undo()
    assert len(toy_sweep(tmp_path).cells) == 6
    assert {key: stamps(tmp_path)[key] for key in before} == before


def test_another_system_needs_another_folder(tmp_path):
    toy_sweep(tmp_path)
    with pytest.raises(ValueError, match=r"holds a sweep of _toy:Toy, and this is one of early-alignment; give"):
        run_sweep("early-alignment", folder=tmp_path, workers=1)
    path = record.write(_toy.Toy().check(), folder=tmp_path / "runs", system="toy", seed=0)
    with pytest.raises(ValueError, match=r"is a record, not a folder for a sweep; give another one\.$"):
        toy_sweep(path)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"workers": 0}, "`workers` must be a whole number of at least 1; got 0."),
        ({"timeout": 0}, "`timeout` must be a number of seconds above 0; got 0."),
    ],
)
def test_bad_ways_to_run(tmp_path, ask, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        toy_sweep(tmp_path, **ask)
    assert str(caught.value) == message


def test_own_systems_are_found_by_module_file_and_class(tmp_path, monkeypatch):
    assert resolve(_toy.Toy)[0] == TOY
    assert resolve(EarlyAlignment) == ("early-alignment", EarlyAlignment)
    file = tmp_path / "mine.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nfrom _toy import Toy\n\nclass Own(Toy):\n    pass\n"
    )
    folder = run_sweep(f"{file}:Own", folder=tmp_path / "s", seeds="0:2", workers=1)
    assert [cell.system for cell in folder.cells] == [f"{file}:Own"] * 2
    (tmp_path / "broken.py").write_text("x = nowhere\n")
    monkeypatch.chdir(tmp_path)
    for name, message in (
        ("broken.py:X", "there is no system 'broken.py:X': 'broken.py' cannot be imported: NameError: name 'nowhere' "),
        ("_toy:Nothing", "there is no system '_toy:Nothing': 'Nothing' in '_toy' is not a class that derives from"),
        ("nowhere.at.all:X", "there is no system 'nowhere.at.all:X': 'nowhere.at.all' cannot be imported: "),
        ("nowhere.py:X", "there is no system 'nowhere.py:X': 'nowhere.py' cannot be imported: "),
        ("nothing", "there is no system 'nothing'; the catalogue has: "),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
            resolve(name)
        assert str(caught.value).startswith(message)
    with pytest.raises(
        TypeError, match=r"^`system` must be a name or a class that derives from AbstractSystem; got 3\.$"
    ):
        resolve(3)  # pyright: ignore[reportArgumentType] - bad input on purpose


def test_a_sweep_killed_half_way_with_a_diverging_cell_is_resumed_and_collected(tmp_path):
    """Descent with steps beyond 2 diverges. The process is killed after its third record, and gone on with."""
    script = tmp_path / "sweep.py"
    script.write_text(
        "import os, signal, sys\n"
        "from omegalimit.sweep import run_sweep\n"
        "def watch(counts, line):\n"
        "    if counts.n_ran == 3 and sys.argv[1] == 'kill':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "run_sweep('_descent:Descent', folder=sys.argv[2], workers=1, watch=watch, seeds='0:3',\n"
        "          grid={'step': [1.0, 3.0, 1.5]})\n"
    )
    folder = tmp_path / "s"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}
    killed = subprocess.run([sys.executable, script, "kill", folder], env=environment, check=False)
    assert killed.returncode == -9
    found = open_folder(folder)
    before = stamps(folder)
    assert (len(found.cells), len(found.failures), len(found.missing)) == (3, 0, 6)
    subprocess.run([sys.executable, script, "go", folder], env=environment, check=True)
    found = open_folder(folder)
    assert {key: stamps(folder)[key] for key in before} == before
    assert (len(found.cells), len(found.failures), found.missing) == (6, 3, ())
    for failure in found.failures:
        assert (failure.kind, failure.error) == ("raised", "FloatingPointError")
        assert failure.message.startswith("descent diverged: the loss is ")
    frame = found.table()
    assert frame.groupby("step")["outcome"].agg(set).to_dict() == {
        1.0: {"holds"},
        1.5: {"holds"},
        3.0: {"no verdict"},
    }
    (claim,) = found.summary()
    assert (claim.n_holds, claim.n_fails, claim.n_inconclusive, claim.n_no_verdict) == (6, 0, 0, 3)


def test_the_same_with_a_system_of_the_catalogue_of_which_some_cells_raise(tmp_path):
    """Three rows are too few to hold some out, which shows only when they are read: those cells raise in their check.

    The process is killed after its third record, when two cells have failed; neither is run again.
    """
    script, rows = tmp_path / "sweep.py", tmp_path / "three.csv"
    rows.write_text("a,b\n1,2\n3,4\n5,7\n")
    script.write_text(
        "import os, signal, sys\n"
        "from omegalimit.sweep import run_sweep\n"
        "def watch(counts, line):\n"
        "    if counts.n_ran == 3 and sys.argv[1] == 'kill':\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "run_sweep('negative-shifted-descent', folder=sys.argv[2], workers=1, watch=watch, seeds='0:2',\n"
        f"          grid={{'n': [20, 24], 'data': [None, {str(rows)!r}]}},\n"
        "          options={'sizes': (20, 30), 'draws': 2, 'shifts': 2, 'times': 2})\n"
    )
    folder = tmp_path / "s"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    assert subprocess.run([sys.executable, script, "kill", folder], env=environment, check=False).returncode == -9
    found = open_folder(folder)
    assert (len(found.cells), len(found.failures), len(found.missing)) == (3, 2, 3)
    before = stamps(folder)
    failed = {path: path.stat().st_mtime_ns for path in folder.glob("failures/*.json")}
    subprocess.run([sys.executable, script, "go", folder], env=environment, check=True)
    found = open_folder(folder)
    assert {key: stamps(folder)[key] for key in before} == before
    assert {path: path.stat().st_mtime_ns for path in failed} == failed
    assert (len(found.cells), len(found.failures), found.missing) == (4, 4, ())
    message = f"{rows}: 3 rows; at least 4 are needed, to train and to hold some out."
    assert {(f.kind, f.error, f.message) for f in found.failures} == {("raised", "ValueError", message)}
    frame = found.table()
    assert len(set(frame["key"])) == 8
    assert set(frame[frame["data"].notna()]["outcome"]) == {"no verdict"}
    n_claims = frame[frame["data"].isna()].groupby("key").size()
    assert (len(n_claims), n_claims.nunique()) == (4, 1)
    assert int(n_claims.iloc[0]) > 10
