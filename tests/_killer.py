"""Kill a sweep with SIGKILL at random moments, fifty times, and look each time at what it left.

`python _killer.py WORKERS FOLDER` prints one JSON document: what was seen.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np  # noqa: F401 - imported before the fork, as what the children need
import xarray as xr  # noqa: F401 - the same

import _toy  # noqa: F401 - the same
from omegalimit.record import read
from omegalimit.store import open_folder
from omegalimit.sweep import run_sweep

N_KILLS = 50
SEEDS, SIZES = "0:12", (0.5, 2.0)


def sweep(folder: Path, workers: int) -> None:
    grid, options = {"size": SIZES}, {"seconds": 0.01}
    run_sweep("_toy:Toy", folder=folder, grid=grid, seeds=SEEDS, options=options, workers=workers)


def records(folder: Path) -> dict[str, tuple[int, int]]:
    """Every record by its cell, read and found whole, with inode and time of change."""
    found = {}
    for path in sorted((folder / "cells").glob("[0-9a-f]*")) if (folder / "cells").is_dir() else ():
        record = read(path)  # raises for anything half written
        stat = (path / "record.json").stat()
        found[f"{record.settings['size']} {record.seed}"] = stat.st_ino, stat.st_mtime_ns
    return found


def wait_for_a_moment(folder: Path, pid: int, rng: random.Random, *, n_before: int) -> None:
    """Wait until a random number of records is there, and a little longer; one in four is not waited for.

    Moments by the clock alone would all lie before the first record on a machine that is busy with other things.
    """
    wanted = rng.choice((0, *[rng.randint(n_before, 24)] * 3))
    while wanted > n_before and len(list((folder / "cells").glob("[0-9a-f]*"))) < wanted:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.03 if wanted > n_before else 0.6))


def main(workers: int, root: Path) -> None:
    rng = random.Random(0)
    journal = root / "journal"
    os.environ["TOY_JOURNAL"] = str(journal)
    seen = {"kills": 0, "in_time": 0, "rewritten": [], "run_again": [], "unreadable": [], "complete": 0, "moments": []}
    folder, number = root / "0", 0
    while seen["kills"] < N_KILLS:
        before = records(folder)
        journal.write_text("")
        pid = os.fork()
        if pid == 0:
            os.setsid()
            sweep(folder, workers)
            os._exit(0)
        wait_for_a_moment(folder, pid, rng, n_before=len(before))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        seen["kills"] += 1
        seen["in_time"] += os.WIFSIGNALED(status)
        after = records(folder)
        seen["moments"].append(len(after) - len(before))
        seen["rewritten"] += [key for key in before if after.get(key) != before[key]]
        seen["run_again"] += sorted(set(journal.read_text().splitlines()) & set(before))
        if (folder / "sweep.json").exists():
            seen["unreadable"] += list(open_folder(folder).damaged)
        if len(after) == 24:
            sweep(folder, 1)  # collected: nothing is left to run
            found = open_folder(folder)
            assert records(folder) == after
            assert (len(found.cells), found.failures, found.missing) == (24, (), ())
            assert sorted(p.name for p in (folder / "cells").glob(".*")) == []
            seen["complete"] += 1
            number += 1
            folder = root / str(number)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
