"""Where a sweep's cells run: in this process, or on Dask's workers. The only door to Dask.

An engine has `n_workers`, `words` (one line for the user) and `run(jobs)`, which yields a `Done` for each job that came
back, in the order of finishing, and a `Lost` for one that did not: its worker died, or took too long.
"""

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .cell import Done, Job, run_cell

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
}
"""The environment of a worker: the problems are small, and the cores are for other cells.

`NPROC` is the size of XLA's thread pool. Its flag `xla_cpu_multi_thread_eigen=false` would change the last digits:
other code is compiled, and the verdicts would not be those of a run in its own process, to the last bit.
"""

_ALLOWED_DEATHS = 2  # of workers under one cell, before the cell is given up
_MOST_AT_ONCE = 16  # cells handed to a worker together, where they are quick
_SLURM = {"queue", "account", "memory", "walltime", "job_extra_directives", "job_script_prologue", "interface"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lost:
    """A job that gave nothing: `kind` is "worker lost" or "too slow"; `reason` in words; `where`: the worker."""

    job: Job
    kind: str
    reason: str
    where: str = ""


class InProcess:
    """One cell after the other, here."""

    n_workers = 1
    words = "one cell at a time, in this process."

    def run(self, jobs: Iterable[Job]) -> Iterator[Done | Lost]:
        yield from map(run_cell, jobs)


@contextlib.contextmanager
def in_process() -> Iterator[InProcess]:
    yield InProcess()


def dask_is_there() -> bool:
    return importlib.util.find_spec("distributed") is not None


def _need(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"this needs {package}, which is not installed: `pip install 'omegalimit[{extra}]'`.")


@contextlib.contextmanager
def dask(
    *,
    folder: Path,
    workers: int | None = None,
    scheduler: str | None = None,
    cluster: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator["OnDask"]:
    """An engine on `workers` processes of this machine, on the scheduler at an address, or on a SLURM cluster.

    Raises `ValueError` when Dask or dask-jobqueue is not installed, when nobody answers at the address, and when no
    worker has this version of omegalimit and sees the folder.
    """
    _need("distributed", "dask")
    import dask.config
    import distributed

    if scheduler is not None and cluster is not None:
        raise ValueError("a scheduler's address and a SLURM cluster are both given; leave one of them.")
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        stack.enter_context(
            dask.config.set(
                {
                    "distributed.scheduler.allowed-failures": _ALLOWED_DEATHS,
                    "distributed.admin.tick.limit": "1h",  # a cell that holds the interpreter is no fault
                    "distributed.worker.profile.enabled": False,
                }
            )
        )
        if scheduler is not None:
            client = stack.enter_context(_client(scheduler))
            words = f"on the Dask scheduler at {scheduler}"
        elif cluster is not None:
            made = stack.enter_context(slurm(cluster, scratch=scratch))
            made.scale(jobs=workers or 1)
            client = stack.enter_context(distributed.Client(made))
            say(f"waiting for the first of {workers or 1} SLURM jobs.")
            words = "on SLURM"
        else:
            local = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers or os.cpu_count() or 1,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                    memory_limit=None,
                    local_directory=scratch,
                    env={**ONE_THREAD, **_inherited()},
                )
            )
            client = stack.enter_context(distributed.Client(local))
            words = "in processes of this machine, one thread each"
        good = _able(client, folder, say, patience=3600.0 if cluster is not None else 30.0)
        yield OnDask(client=client, workers=good, words=f"{words}: {len(good)} at once.", timeout=timeout)


def _inherited() -> dict[str, str]:
    """Where compiled code is kept, so that each worker does not compile everything anew."""
    return {name: value for name, value in os.environ.items() if name.startswith("JAX_")}


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    import distributed

    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {' '.join(str(error).split())}.") from None
    with client:
        yield client


def slurm(options: Mapping[str, Any], *, scratch: str) -> Any:
    """The SLURM cluster for these options: one process of one thread a job. Raises `ValueError` for others."""
    _need("dask_jobqueue", "slurm")
    from dask_jobqueue.slurm import SLURMCluster

    if unknown := sorted(set(options) - _SLURM):
        raise ValueError(f"SLURM has no option {unknown[0]!r} here; there are: {', '.join(sorted(_SLURM))}.")
    given = dict(options)
    lines = [f"export {name}='{value}'" for name, value in ONE_THREAD.items()]
    return SLURMCluster(
        cores=1,
        processes=1,
        memory=given.pop("memory", "4GB"),
        job_script_prologue=[*lines, *given.pop("job_script_prologue", ())],
        local_directory=scratch,
        scheduler_options={"dashboard": False},
        **given,
    )


def slurm_job_script(options: Mapping[str, Any]) -> str:
    """The job script that SLURM is given for one worker."""
    with tempfile.TemporaryDirectory() as scratch, slurm(options, scratch=scratch) as cluster:
        return cluster.job_script()


def _able(client: Any, folder: Path, say: Callable[[str], None], *, patience: float) -> tuple[str, ...]:
    """The addresses of the workers that have this omegalimit and see the folder; the others are told.

    They are asked by functions of the standard library, which every worker has.
    """
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        raise ValueError(f"no worker came within {patience:.0f} s.") from None
    ours = importlib.metadata.version("omegalimit")
    probe = folder / f".probe-{secrets.token_hex(4)}"
    probe.touch()
    try:
        versions = client.run(importlib.metadata.version, "omegalimit", on_error="return")
        seen = client.run(os.path.exists, str(probe.resolve()), on_error="return")
    finally:
        probe.unlink()
    good, trouble = [], []
    for worker, version in versions.items():
        if isinstance(version, importlib.metadata.PackageNotFoundError):
            trouble.append(f"worker {worker} has no omegalimit: install it there, version {ours}")
        elif version != ours:
            trouble.append(f"worker {worker} has omegalimit {version}, and this is {ours}: install the same there")
        elif seen.get(worker) is not True:
            trouble.append(f"worker {worker} does not see {str(folder.resolve())!r}: all must share one file system")
        else:
            good.append(worker)
    if not good:
        raise ValueError(f"no worker can run this. {'; '.join(trouble[:3])}.")
    for text in trouble:
        say(f"{text}; it is not used.")
    return tuple(good)


def _run_cells(batch: tuple[Job, ...]) -> list[Done]:
    return list(map(run_cell, batch))


class OnDask:
    """Dask's workers, each one cell at a time."""

    def __init__(self, *, client: Any, workers: Sequence[str], words: str, timeout: float | None) -> None:
        self._client, self._workers, self._timeout = client, workers, timeout
        self.n_workers, self.words = len(workers), words
        self._all_able = len(client.scheduler_info(n_workers=-1)["workers"]) == len(workers)

    def run(self, jobs: Iterable[Job]) -> Iterator[Done | Lost]:
        import distributed

        # With a time limit a job must not wait behind another; else one waits at each worker, so that none is idle.
        most = self.n_workers * (1 if self._timeout is not None else 2)
        # Dask blames a worker's death on all that waited there: who is blamed is run again, by itself, at the end.
        waiting, blamed, running = iter(jobs), [], {}
        by_itself = False
        seconds, n_done = 0.0, 0
        tick = min(1.0, (self._timeout or 40.0) / 10)
        try:
            while True:
                while len(running) < most:
                    batch = tuple(itertools.islice(waiting, self._batch(seconds, n_done)))
                    if not batch:
                        break
                    running[self._submit(batch)] = batch, time.monotonic()
                if not running:
                    if not blamed:
                        return
                    by_itself = True
                    batch = (blamed.pop(0),)
                    running[self._submit(batch)] = batch, time.monotonic()
                with contextlib.suppress(TimeoutError):
                    distributed.wait(list(running), timeout=tick, return_when="FIRST_COMPLETED")
                for future in [f for f in running if f.done()]:
                    batch, _ = running.pop(future)
                    for done in self._results(future, batch):
                        if isinstance(done, Lost) and not by_itself:
                            blamed.append(done.job)
                            continue
                        if isinstance(done, Done):
                            seconds, n_done = seconds + done.seconds, n_done + 1
                        yield done
                if self._timeout is not None:
                    late = [f for f, (_, start) in running.items() if time.monotonic() - start > self._timeout]
                    for future in late:
                        (job,), _ = running.pop(future)
                        where = self._stop(future)
                        # Those that ran beside it on a restarted worker start anew.
                        running = {f: (b, time.monotonic()) for f, (b, _) in running.items()}
                        yield Lost(job=job, kind="too slow", reason=f"stopped after {self._timeout:g} s.", where=where)
        finally:
            for future in running:
                with contextlib.suppress(Exception):
                    future.cancel()

    def _batch(self, seconds: float, n_done: int) -> int:
        """How many cells go to a worker at once: enough for a quarter of a second, as handing over takes its time."""
        if self._timeout is not None or n_done < self.n_workers:
            return 1
        return max(1, min(_MOST_AT_ONCE, round(0.25 * n_done / max(seconds, 1e-9))))

    def _submit(self, batch: tuple[Job, ...]) -> Any:
        chosen = {} if self._all_able else {"workers": list(self._workers)}
        key = f"cells-{batch[0].key}-{secrets.token_hex(4)}"
        return self._client.submit(_run_cells, batch, key=key, pure=False, **chosen)

    def _results(self, future: Any, batch: tuple[Job, ...]) -> list[Done | Lost]:
        from distributed.scheduler import KilledWorker

        if future.cancelled():
            reason, where = "the connection to its worker was lost.", ""
        elif (error := future.exception()) is None:
            return future.result()
        elif isinstance(error, KilledWorker):
            reason = (
                f"{_ALLOWED_DEATHS + 1} workers died while they ran it; out of memory, or a crash in compiled code?"
            )
            where = str(getattr(error.last_worker, "address", ""))
        elif isinstance(error, ModuleNotFoundError):
            reason, where = f"its worker cannot import what it needs: {error}.", ""
        else:
            raise error
        return [Lost(job=job, kind="worker lost", reason=reason, where=where) for job in batch]

    def _stop(self, future: Any) -> str:
        """Give the job up: its worker is restarted, as a thread cannot be stopped. The worker's address."""
        where = [worker for worker, keys in self._client.processing().items() if future.key in keys]
        future.cancel()
        if where:
            self._client.restart_workers(where, timeout=60, raise_for_error=False)
        return where[0] if where else ""
