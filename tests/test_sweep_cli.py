"""`omegalimit sweep`, `run --seeds`, `list DIR` and `report`: what they print, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import _toy
from omegalimit.cli import main
from omegalimit.store import open_folder

TOY = str(Path(_toy.__file__))


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    _toy.register(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "environ", os.environ.copy())


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


def swept(capsys, *arguments: str) -> tuple[int, str, str]:
    return run(capsys, "sweep", "toy", "--workers", "1", *arguments)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--grid", "size=0.2,0.5"), 0),
        (("--grid", "size=0.2,2"), 1),
        (("--grid", "size=0.2,0.95"), 3),
        (("--grid", "size=0.95", "ending=found,fault"), 4),
        (("--grid", "size=2", "--grid", "ending=found,fault"), 1),
        (("--ending", "fault"), 4),
    ],
)
def test_exit_status(capsys, arguments, status):
    assert swept(capsys, "--quiet", *arguments)[0] == status


def test_what_is_printed_and_left(capsys):
    status, out, err = swept(capsys, "--seeds", "0:3", "--grid", "size=0.5,2", "--out", "s", "--quiet")
    assert (status, err) == (1, "")
    row = next(line for line in out.splitlines() if "stays-under" in line)
    assert row.split()[:7] == ["stays-under", "plain", "3", "3", "0", "0", "0.5"]
    assert out.splitlines()[-3:] == ["6 records.", "table: s/table.csv", "page: s/sweep.html"]
    assert "stays-under" in Path("s/sweep.html").read_text()
    folder = open_folder("s")
    assert folder.cells[4].command == ("run", "toy", "--size", "2.0", "--seed", "1")


def test_counts_and_failures_are_shown_as_they_happen(capsys):
    _, _, err = swept(capsys, "--seeds", "0:2", "--grid", "ending=found,fault")
    lines = err.splitlines()
    assert sum("gave no verdict: AssertionError: two and two are five" in line for line in lines) == 2
    _, _, err = swept(capsys, "--seeds", "0:2", "--grid", "ending=found,fault")
    assert "omegalimit: 2 of 4 cells are there already." in err.splitlines()
    assert "omegalimit: 2 cells failed before and are not run again (--retry does)." in err.splitlines()


def test_json(capsys):
    status, out, _ = swept(capsys, "--seeds", "0:2", "--grid", "size=0.5,-1", "--json", "--quiet", "--out", "s")
    document = json.loads(out, parse_constant=pytest.fail)
    assert status == 4
    assert (document["records"], len(document["failures"])) == (2, 2)
    assert document["claims"][0]["n_holds"] == 2
    assert json.loads(run(capsys, "list", "s", "--json")[1]) == document


def test_run_with_seeds_is_a_sweep(capsys):
    status, out, _ = run(capsys, "run", "toy", "--seeds", "0:4", "--size", "0.3", "--workers", "1", "--quiet")
    assert (status, out.splitlines()[-1]) == (0, "page: runs/toy-seeds/sweep.html")
    assert [cell.settings["size"] for cell in open_folder("runs/toy-seeds").cells] == [0.3] * 4


def test_a_file_that_says_it_all(capsys):
    Path("a.toml").write_text('system = "toy"\nseeds = "0:2"\nout = "t"\nworkers = 1\n[grid]\nsize = [0.5, 0.6]\n')
    assert run(capsys, "sweep", "a.toml", "--quiet")[0] == 0
    assert len(open_folder("t").cells) == 4
    assert run(capsys, "sweep", "a.toml", "--quiet", "--seeds", "0:3", "--grid", "ending=found")[0] == 0
    assert len(open_folder("t").cells) == 6


def test_the_job_script(capsys):
    status, out, _ = run(capsys, "sweep", "toy", "--slurm", "queue=short", "memory=2GB", "--job-script")
    assert status == 0
    assert "#SBATCH -p short\n" in out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: NAME|FILE.toml; see `omegalimit sweep --help`."),
        (("toy", "--grid", "size"), "--grid size: write FIELD=VALUE,VALUE, such as --grid L=4,8."),
        (("toy", "--grid", "size="), "--grid size=: the grid has no value for 'size'; give one at least."),
        (
            ("toy", "--grid", "size=1", "size=2"),
            "--grid: 'size' is given twice; write all its values behind one `=`.",
        ),
        (
            ("toy", "--grid", "size=x"),
            "Error parsing --size: could not convert string to float: 'x'; see `omegalimit run toy --help`.",
        ),
        (
            ("toy", "--grid", "siz=1"),
            "Unrecognized options: --siz, 1; perhaps you meant --size FLOAT; see `omegalimit run toy --help`.",
        ),
        (("toy", "--colour", "red"), "Unrecognized options: --colour, red; see `omegalimit run toy --help`."),
        (("toy", "--counter", "all"), "--counter does not go with a sweep."),
        (
            ("toy", "--seeds", "5:5"),
            "there is no seed in '5:5'; write A:B (B left out), A:B:STEP, or a list such as 1,5,9.",
        ),
        (("toy", "--workers", "0"), "`workers` must be a whole number of at least 1; got 0."),
        (("toy", "--workers", "x"), "argument --workers: 'x' is not a number; see `omegalimit sweep --help`."),
        (("a.toml",), "a.toml: No such file or directory."),
    ],
)
def test_wrong_usage(capsys, arguments, message):
    status, out, err = run(capsys, "sweep", *arguments, "--quiet") if arguments else run(capsys, "sweep")
    assert (status, out, err) == (2, "", f"omegalimit: error: {message}\n")


def test_seeds_do_not_go_with_counter_instances(capsys):
    status, _, err = run(capsys, "run", "toy", "--seeds", "0:2", "--counter", "all")
    assert (status, err) == (
        2,
        "omegalimit: error: --counter goes with one seed; drop it, or `--seeds 0:2`.\n",
    )


def test_a_full_disk(capsys, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("omegalimit.record.write_arrays", full)
    status, out, err = swept(capsys, "--quiet", "--out", "s")
    assert (status, out) == (2, "")
    assert err == (
        "omegalimit: error: No space left on device. What was finished is kept in 's'; the same call goes on.\n"
    )


def test_interrupted_and_gone_on_with(capsys):
    command = [
        sys.executable,
        TOY,
        "sweep",
        "toy",
        "--workers",
        "1",
        "--seeds",
        "0:40",
        "--seconds",
        "0.1",
        "--out",
        "s",
    ]
    with subprocess.Popen([*command, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        for _ in range(600):
            if len(list(Path("s/cells").glob("*"))) >= 3:
                break
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out) == (130, "")
    assert err == "omegalimit: interrupted; what was finished is kept in 's'; the same call goes on.\n"
    folder = open_folder("s")
    assert 3 <= len(folder.cells) < 40
    assert len(folder.cells) + len(folder.missing) == 40
    assert list(Path("s/cells").glob(".*")) == []


def test_list_of_a_folder(capsys):
    swept(capsys, "--quiet", "--grid", "size=0.5,2", "--out", "s")
    status, out, _ = run(capsys, "list", "s")
    assert status == 0
    assert out.splitlines()[-1] == "2 records."
    assert run(capsys, "list", "nowhere")[2] == "omegalimit: error: there is no folder 'nowhere'.\n"
    Path("empty").mkdir()
    assert run(capsys, "list", "empty")[2] == (
        "omegalimit: error: there is no record in 'empty'; `omegalimit run NAME --out empty` writes one.\n"
    )


def test_report_makes_each_kind_of_page(capsys):
    swept(capsys, "--quiet", "--out", "s")
    Path("s/sweep.html").unlink()
    paths = []
    for seed in ("1", "2"):
        out = run(capsys, "run", "toy", "--quiet", "--out", "r", "--seed", seed)[1]
        paths.append(out.splitlines()[-1].removeprefix("record: "))
    (Path(paths[0]) / "report.html").unlink()
    assert run(capsys, "report", paths[0])[1] == f"page: {paths[0]}/report.html\n"
    assert run(capsys, "report", paths[0], "--out", "p.html")[1] == "page: p.html\n"
    assert run(capsys, "report", *paths)[1] == "page: comparison.html\n"
    assert run(capsys, "report", "r")[1] == "page: r/comparison.html\n"
    assert run(capsys, "report", "s")[1].splitlines() == [
        "table: s/table.csv",
        "table: s/table.parquet",
        "page: s/sweep.html",
    ]
    for page in (f"{paths[0]}/report.html", "p.html", "comparison.html", "r/comparison.html", "s/sweep.html"):
        assert "stays-under" in Path(page).read_text()
    assert list(Path().rglob("*.partial")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "there is no folder 'nowhere': a record is a folder with `record.json` in it."),
        (("r", "r", "r"), "one or two records are compared; got 3. Put more into one folder and give the folder."),
        (("r", "--out", "r"), "--out r is a folder; name a file, such as r/page.html."),
        (("r",), "there is no record in 'r'; `omegalimit run NAME --out r` writes one."),
        (("r", "r"), "there is no record at 'r': `record.json`: No such file or directory."),
    ],
)
def test_what_no_page_can_be_made_of(capsys, arguments, message):
    Path("r").mkdir()
    assert run(capsys, "report", *arguments) == (2, "", f"omegalimit: error: {message}\n")


def test_damaged_records_are_named_and_the_rest_shown(capsys):
    swept(capsys, "--quiet", "--seeds", "0:3", "--out", "s")
    broken = open_folder("s").cells[0]
    (broken.path / "record.json").write_text("{")
    status, out, err = run(capsys, "report", "s")
    assert status == 0
    assert err.startswith(f"omegalimit: warning: {broken.key} is left out: ")
    assert "page: s/sweep.html" in out
    (Path("s") / "sweep.json").write_text("{")
    assert run(capsys, "list", "s")[2].startswith("omegalimit: error: 's': `sweep.json` is damaged or cut short: ")


def test_the_counts_in_words():
    from omegalimit.report.progress import counts_text
    from omegalimit.sweep import Counts

    counts = Counts(9)
    assert counts_text(counts) == "0 of 9 cells"
    counts.n_ran, counts.n_there, counts.n_failed = 2, 3, 1
    counts.outcomes.update(holds=4, inconclusive=1)
    assert counts_text(counts) == "5 of 9 cells, 1 failed; verdicts: 4 hold, 1 inconclusive"
