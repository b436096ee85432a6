"""The same sweep on Dask: the same verdicts on any number of workers, and what happens to workers is no one's loss."""

import contextlib
import importlib.metadata
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import distributed
import pytest

from _sweeps import said, toy_sweep
from omegalimit.store import open_folder
from omegalimit.sweep import run_sweep
from omegalimit.sweep.engines import slurm_job_script

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def toy_on_workers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


def test_verdicts_are_the_same_on_one_worker_and_on_many(tmp_path):
    """Also of a system of the catalogue that compiles, trains and solves: to the last digit."""
    small = {
        "options": {"parametrisation": "merged", "tokens": "gaussian", "n": 3, "L": 3, "d": 4},
        "grid": {"cap": [100.0, 1000.0]},
        "seeds": "0:2",
    }
    here, there = (run_sweep("softmax-attention", folder=tmp_path / str(n), workers=n, **small) for n in (1, 2))
    assert len(here.cells) == 4
    assert said(here) == said(there)
    toys = [toy_sweep(tmp_path / f"toy{n}", sizes=(0.5, 0.95, 2.0, -1.0), workers=n) for n in (1, 3)]
    assert said(toys[0]) == said(toys[1])
    assert [f.key for f in toys[0].failures] == [f.key for f in toys[1].failures]
    threads = there.cells[0].open().threads
    assert threads["environment"]["OMP_NUM_THREADS"] == "1"
    assert set(threads["pools"].values()) == {1}


def test_a_worker_killed_in_mid_run_costs_nothing(tmp_path):
    """The first worker that is seen at work is killed; Dask starts another, and every cell arrives."""
    killed = []

    def kill(counts, line):
        if counts.n_ran == 4 and not killed:
            children = subprocess.run(
                ["pgrep", "-f", "multiprocessing.spawn.*spawn_main", "-P", str(os.getpid())],
                capture_output=True,
                text=True,
                check=True,
            )
            killed.append(int(children.stdout.split()[0]))
            os.kill(killed[0], signal.SIGKILL)

    folder = toy_sweep(tmp_path, seeds="0:12", workers=3, watch=kill, options={"seconds": 0.05})
    assert len(killed) == 1
    assert (len(folder.cells), folder.failures, folder.missing) == (24, (), ())


def test_a_cell_that_kills_its_workers_is_given_up_and_the_rest_kept(tmp_path):
    told: list[str] = []
    grid = {"ending": ["killed", "found"]}
    ask = {"folder": tmp_path, "grid": grid, "seeds": "0:2", "workers": 2, "say": told.append}
    folder = run_sweep("_toy:Toy", **ask)
    assert [cell.settings["ending"] for cell in folder.cells] == ["found", "found"]
    assert [(f.kind, f.seed) for f in folder.failures] == [("worker lost", 0), ("worker lost", 1)]
    assert folder.failures[0].message == (
        "3 workers died while they ran it; out of memory, or a crash in compiled code?"
    )


def test_a_cell_that_takes_too_long_is_stopped(tmp_path):
    grid = {"seconds": [60.0, 0.0]}
    folder = run_sweep("_toy:Toy", folder=tmp_path, grid=grid, seeds="0:2", workers=2, timeout=3.0)
    assert [cell.settings["seconds"] for cell in folder.cells] == [0.0, 0.0]
    assert [(f.kind, f.message) for f in folder.failures] == [("too slow", "stopped after 3 s.")] * 2


def worker_of(address: str, tmp_path: Path, path: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    command += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def scheduler_with(tmp_path: Path, *paths: str):
    """The address of a scheduler with one worker process for each entry, which comes first in its search path."""
    made: Any = distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address=":0", silence_logs=logging.CRITICAL
    )
    with made as cluster:
        workers = [worker_of(cluster.scheduler_address, tmp_path, path) for path in paths]
        try:
            with distributed.Client(cluster.scheduler_address) as client:
                client.wait_for_workers(len(paths), timeout=60)
            yield cluster.scheduler_address
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def without_the_package(tmp_path: Path) -> str:
    """A folder that makes a worker one without omegalimit: neither found nor listed as installed."""
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import importlib.metadata, sys

            class Hide:
                def find_spec(self, name, path=None, target=None):
                    if name.partition(".")[0] == "omegalimit":
                        raise ModuleNotFoundError("No module named 'omegalimit'", name="omegalimit")

            sys.meta_path.insert(0, Hide())
            whole = importlib.metadata.version
            def version(package):
                if package == "omegalimit":
                    raise importlib.metadata.PackageNotFoundError(package)
                return whole(package)
            importlib.metadata.version = version
            """
        )
    )
    return str(hiding)


def test_at_the_address_of_a_scheduler(tmp_path):
    told: list[str] = []
    with scheduler_with(tmp_path, str(TESTS), f"{without_the_package(tmp_path)}:{TESTS}") as address:
        folder = toy_sweep(tmp_path / "s", workers=None, scheduler=address, say=told.append)
        assert len(folder.cells) == 6
    (lacking,) = [text for text in told if "has no omegalimit" in text]
    version = importlib.metadata.version("omegalimit")
    assert lacking.endswith(f" has no omegalimit: install it there, version {version}; it is not used.")
    assert told[-1] == f"on the Dask scheduler at {address}: 1 at once."


def test_no_worker_has_the_package(tmp_path):
    with (
        scheduler_with(tmp_path, f"{without_the_package(tmp_path)}:{TESTS}") as address,
        pytest.raises(
            ValueError, match=r"^no worker can run this\. worker tcp://.* has no omegalimit: install it there"
        ),
    ):
        toy_sweep(tmp_path / "s", workers=None, scheduler=address)
    assert open_folder(tmp_path / "s").cells == ()


def test_nobody_answers(tmp_path):
    with pytest.raises(ValueError, match=r"^no Dask scheduler answers at 'tcp://127\.0\.0\.1:9': "):
        toy_sweep(tmp_path, workers=None, scheduler="tcp://127.0.0.1:9")


def test_the_job_script_of_slurm():
    script = slurm_job_script({"queue": "short", "account": "me", "memory": "2GB", "walltime": "00:30:00"})
    lines = script.splitlines()
    for line in ("#SBATCH -p short", "#SBATCH -A me", "#SBATCH -t 00:30:00", "#SBATCH --cpus-per-task=1"):
        assert line in lines
    assert "export OMP_NUM_THREADS='1'" in lines
    assert "--nthreads 1" in script
    with pytest.raises(ValueError, match=r"^SLURM has no option 'colour' here; there are: account, interface, "):
        slurm_job_script({"colour": "red"})


@pytest.mark.parametrize(("package", "extra"), [("distributed", "dask"), ("dask_jobqueue", "slurm")])
def test_an_extra_that_is_missing_is_named(tmp_path, monkeypatch, package, extra):
    import importlib.util

    whole = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else whole(name))
    message = f"this needs {package}, which is not installed: `pip install 'omegalimit\\[{extra}\\]'`"
    with pytest.raises(ValueError, match=f"^{message}"):
        toy_sweep(tmp_path, workers=2, cluster={} if extra == "slurm" else None)


def test_without_dask_a_sweep_runs_in_its_own_process(tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr("omegalimit.sweep.engines.dask_is_there", lambda: False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    folder = toy_sweep(tmp_path, workers=None, say=told.append)
    assert len(folder.cells) == 6
    assert told == ["one cell at a time, in this process: `pip install 'omegalimit[dask]'` runs several at once."]


def test_nothing_is_left_running(tmp_path):
    toy_sweep(tmp_path, workers=2)
    found = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "spawn_main"], capture_output=True, check=False)
    assert found.stdout == b""
    assert not [t for t in threading.enumerate() if "worker" in t.name.lower()]


def test_workers_that_come_later_join_and_those_without_the_package_do_not(tmp_path):
    """As the jobs of SLURM do: the first worker is waited for, the others start when they start."""
    told: list[str] = []
    late: list[subprocess.Popen] = []
    busy: set[str] = set()
    with scheduler_with(tmp_path, str(TESTS)) as address, distributed.Client(address) as seen:

        def come(counts, line):
            at_work: Any = seen.processing()
            busy.update(worker for worker, keys in at_work.items() if keys)
            if counts.n_ran == 2 and not late:
                for path in (f"{without_the_package(tmp_path)}:{TESTS}", str(TESTS)):
                    late.append(worker_of(address, tmp_path, path))
                seen.wait_for_workers(3, timeout=60)

        ask = {"seeds": "0:15", "workers": None, "scheduler": address, "options": {"seconds": 0.3}}
        try:
            folder = toy_sweep(tmp_path / "s", watch=come, say=told.append, **ask)
            (lacking,) = [text for text in told if "has no omegalimit" in text]
            able = [worker for worker in seen.scheduler_info(n_workers=-1)["workers"] if worker not in lacking]
        finally:
            for worker in late:
                worker.kill()
                worker.wait()
    assert (len(folder.cells), folder.failures, folder.missing) == (30, (), ())
    assert len(able) == 2
    assert busy >= set(able)


def test_a_scheduler_that_goes_is_told_and_what_was_finished_is_kept(tmp_path):
    made: Any = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    with made as cluster:

        def close(counts, line):
            if counts.n_ran == 3:
                cluster.close()

        ask = {"seeds": "0:20", "workers": None, "scheduler": cluster.scheduler_address, "options": {"seconds": 0.1}}
        with pytest.raises(ConnectionError, match=r"^the connection to the Dask scheduler was lost"):
            toy_sweep(tmp_path / "s", watch=close, **ask)
    kept = open_folder(tmp_path / "s")
    assert len(kept.cells) >= 3
    assert kept.failures == ()
    assert len(kept.cells) + len(kept.missing) == 40


def test_a_worker_that_cannot_be_restarted_is_not_used_with_a_time_limit(tmp_path):
    with (
        scheduler_with(tmp_path, str(TESTS)) as address,
        pytest.raises(ValueError, match=r"could not be restarted to stop a cell in time: start it without --no-nanny"),
    ):
        toy_sweep(tmp_path / "s", workers=None, scheduler=address, timeout=5.0)


def test_a_script_that_sweeps_as_it_is_imported_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import omegalimit as ol\nol.run_sweep('_toy:Toy', folder='s', seeds='0:4', workers=2)\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ValueError: the worker processes did not start: Nanny failed to start. A script that sweeps must do so under "
        '`if __name__ == "__main__":`, as each worker imports it; or give `workers=1`.'
    )


def test_a_sweep_whose_workers_are_gone_ends_and_keeps_what_was_finished(tmp_path, monkeypatch):
    """The only worker of a scheduler goes after a cell, and none comes: not a wait without end."""
    monkeypatch.setattr("omegalimit.sweep.engines._PATIENCE", 2.0)
    with scheduler_with(tmp_path, str(TESTS)) as address:

        def stop(counts, line):
            if line is not None:
                with distributed.Client(address) as client:
                    pids: Any = client.run(os.getpid)
                for pid in pids.values():
                    os.kill(pid, signal.SIGKILL)

        with pytest.raises(ConnectionError, match=r"^no worker has been there for 2 s$"):
            toy_sweep(tmp_path / "s", workers=None, scheduler=address, watch=stop, options={"seconds": 0.3})
    found = open_folder(tmp_path / "s")
    assert len(found.cells) >= 1
    assert found.missing
