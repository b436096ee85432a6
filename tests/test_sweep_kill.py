"""SIGKILL at fifty random moments: nothing half written, nothing lost that was finished, nothing run again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2], ids=["in process", "on Dask"])
def test_killed_at_fifty_moments(tmp_path, workers):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}
    command = [sys.executable, TESTS / "_killer.py", str(workers), tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["kills"] == 50
    assert (seen["rewritten"], seen["run_again"], seen["unreadable"]) == ([], [], [])
    # The test means something only if many kills came in the middle: some before, some after, records were written.
    assert seen["in_time"] >= 15
    assert seen["complete"] >= 2
    assert sum(n > 0 for n in seen["moments"]) >= 10
