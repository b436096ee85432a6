"""Where a sweep's cells run: in this process, or on Dask's workers. The only door to Dask.

An engine has `n_workers`, `words` (one line for the user) and `run(jobs)`, which yields a `Done` for each job that came
back, in the order of finishing, and a `Lost` for one that did not: its worker died, or took too long.
"""

import contextlib
import dataclasses
import importlib.util
import logging
import os
import secrets
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._crew import Crew, probe
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

_PATIENCE = 180.0  # seconds without any worker, after which a sweep ends; what was finished is kept
_ALLOWED_DEATHS = 2  # of workers under one cell, before the cell is given up
_MOST_AT_ONCE = 16  # cells handed to a worker together, where they are quick
_A_WHILE = 1.0  # seconds after which a worker gives back what it was handed and has not begun
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
                    # What wakes often takes its time from the cells: by default 4% of each core.
                    "distributed.admin.tick.interval": "1s",
                    "distributed.admin.system-monitor.interval": "5s",
                    "distributed.scheduler.active-memory-manager.start": False,
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
            client = stack.enter_context(distributed.Client(stack.enter_context(_local(workers, scratch))))
            words = "in processes of this machine, one thread each"
        try:
            client.wait_for_workers(1, timeout=3600.0 if cluster is not None else 30.0)
        except TimeoutError:
            raise ValueError("no worker came in time; are any started, and do they reach this scheduler?") from None
        local = scheduler is None and cluster is None
        file = stack.enter_context(probe(folder))
        crew = Crew(client=client, file=file, say=say, local=local, restartable=timeout is not None)
        crew.first_look()
        words = f"{words}: {len(crew.good)} at once{'' if cluster is None else ' now; those that start later join'}."
        yield OnDask(client=client, crew=crew, words=words, timeout=timeout)


def _local(workers: int | None, scratch: str) -> Any:
    import distributed

    try:
        return distributed.LocalCluster(
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            memory_limit=None,
            local_directory=scratch,
            env={**ONE_THREAD, **_inherited()},
        )
    except RuntimeError as error:
        # Workers import the script that is being run; one that sweeps as it is imported ends them.
        raise ValueError(
            f"the worker processes did not start: {str(error).rstrip('.')}. A script that sweeps must do so under "
            '`if __name__ == "__main__":`, as each worker imports it; or give `workers=1`.'
        ) from error


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


def _run_cells(batch: tuple[Job, ...]) -> list[Done]:
    """The first cells of the batch, at least one, as far as the time goes: the rest is asked for again.

    A batch is made as long as the cells before it were quick, and the next ones may be slow.
    """
    end = time.monotonic() + _A_WHILE
    done = []
    for job in batch:
        done.append(run_cell(job))
        if time.monotonic() > end:
            break
    return done


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Handed:
    """Jobs that a worker has: since when, to which workers they were kept (`None`: any), and whether no others ran."""

    batch: tuple[Job, ...]
    start: float
    kept: Sequence[str] | None
    by_itself: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stray:
    """A batch fell to a worker that cannot run it."""

    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Killed:
    """Workers died that had the batch. The scheduler blames all that a worker had, also what it had not begun.

    So none is given up for this before workers died while they had nothing but it.
    """

    reason: str
    where: str


class OnDask:
    """Dask's workers, each one cell at a time; those that come later join, and those that leave are not waited for."""

    def __init__(self, *, client: Any, crew: Crew, words: str, timeout: float | None) -> None:
        self._client, self._crew, self._timeout, self.words = client, crew, timeout, words

    @property
    def n_workers(self) -> int:
        return max(1, len(self._crew.good))

    def run(self, jobs: Iterable[Job]) -> Iterator[Done | Lost]:
        """Raises `ConnectionError` when the scheduler is lost: what was finished is recorded."""
        from distributed import CancelledError
        from distributed.client import FuturesCancelledError
        from distributed.comm.core import CommClosedError

        try:
            yield from self._run(jobs)
        except (FuturesCancelledError, CancelledError, CommClosedError):
            raise ConnectionError("the connection to the Dask scheduler was lost, or it gave the cells up") from None

    def _run(self, jobs: Iterable[Job]) -> Iterator[Done | Lost]:
        import distributed

        waiting, suspects, strays = deque(jobs), deque(), Counter()
        running: dict[Any, _Handed] = {}
        seconds, n_done = 0.0, 0
        tick, looked = min(1.0, (self._timeout or 40.0) / 10), time.monotonic()
        alive = looked
        try:
            while True:
                # With a time limit a job must not wait behind another; else one waits at each, so that none is idle.
                most = self.n_workers * (1 if self._timeout is not None else 2)
                while waiting and len(running) < most:
                    size = min(self._batch(seconds, n_done), -(-len(waiting) // most))
                    self._submit(running, tuple(waiting.popleft() for _ in range(size)))
                if not running:
                    if not suspects:
                        return
                    self._submit(running, (suspects.popleft(),), by_itself=True)
                with contextlib.suppress(TimeoutError):
                    distributed.wait(list(running), timeout=tick, return_when="FIRST_COMPLETED")
                for future in [f for f in running if f.done()]:
                    handed = running.pop(future)
                    batch, back = handed.batch, self._results(future, handed.batch)
                    if isinstance(back, _Stray):
                        strays.update(job.key for job in batch)
                        if max(strays[job.key] for job in batch) < 3:
                            looked = float("-inf")  # whoever cannot import it came a moment ago: who is it?
                            waiting.extendleft(reversed(batch))
                            continue
                        back = [Lost(job=job, kind="worker lost", reason=back.reason) for job in batch]
                    elif isinstance(back, _Killed):
                        if not handed.by_itself:
                            suspects.extend(batch)
                            continue
                        back = [Lost(job=batch[0], kind="worker lost", reason=back.reason, where=back.where)]
                    waiting.extendleft(reversed(batch[len(back) :]))
                    for done in back:
                        if isinstance(done, Done):
                            seconds, n_done = seconds + done.seconds, n_done + 1
                        yield done
                if time.monotonic() - looked > 1:
                    self._crew.look()
                    looked = time.monotonic()
                    alive = looked if self._crew.good else alive
                    if looked - alive > _PATIENCE:
                        raise ConnectionError(f"no worker has been there for {_PATIENCE:.0f} s")
                    for future in [f for f, handed in running.items() if self._stranded(handed)]:
                        handed = running.pop(future)
                        future.cancel()
                        (suspects if handed.by_itself else waiting).extendleft(reversed(handed.batch))
                if self._timeout is not None:
                    now = time.monotonic()
                    for future in [f for f, handed in running.items() if now - handed.start > self._timeout]:
                        (job,) = running.pop(future).batch
                        where = self._stop(future)
                        # Those that ran beside it on a restarted worker start anew.
                        running = {f: dataclasses.replace(h, start=time.monotonic()) for f, h in running.items()}
                        yield Lost(job=job, kind="too slow", reason=f"stopped after {self._timeout:g} s.", where=where)
        finally:
            for future in running:
                with contextlib.suppress(Exception):
                    future.cancel()

    def _stranded(self, handed: _Handed) -> bool:
        """Whether all workers that a job was kept to have left: one that is restarted has another address."""
        return handed.kept is not None and bool(self._crew.good) and not set(handed.kept) & set(self._crew.good)

    def _batch(self, seconds: float, n_done: int) -> int:
        """How many cells go to a worker at once: enough for a while, as handing over takes its time."""
        if self._timeout is not None or n_done < self.n_workers:
            return 1
        return max(1, min(_MOST_AT_ONCE, round(_A_WHILE * n_done / max(seconds, 1e-9))))

    def _submit(self, running: dict[Any, _Handed], batch: tuple[Job, ...], *, by_itself: bool = False) -> None:
        kept = None if self._crew.all_able else self._crew.good
        rest = {} if kept is None else {"workers": list(kept)}
        key = f"cells-{batch[0].key}-{secrets.token_hex(4)}"
        future = self._client.submit(_run_cells, batch, key=key, pure=False, **rest)
        running[future] = _Handed(batch=batch, start=time.monotonic(), kept=kept, by_itself=by_itself)

    def _results(self, future: Any, batch: tuple[Job, ...]) -> Sequence[Done | Lost] | _Stray | _Killed:
        import distributed
        from distributed.scheduler import KilledWorker

        if future.cancelled():
            raise distributed.CancelledError(future.key)
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, ModuleNotFoundError):
            return _Stray(reason=f"its worker cannot import what it needs: {error}.")
        if isinstance(error, KilledWorker):
            n = error.allowed_failures + 1
            reason = f"{n} workers died while they ran it; out of memory, or a crash in compiled code?"
            return _Killed(reason=reason, where=str(getattr(error.last_worker, "address", "")))
        raise error

    def _stop(self, future: Any) -> str:
        """Give the job up: its worker is restarted, as a thread cannot be stopped. The worker's address."""
        where = [worker for worker, keys in self._client.processing().items() if future.key in keys]
        future.cancel()
        if where:
            self._client.restart_workers(where, timeout=60, raise_for_error=False)
        return where[0] if where else ""
