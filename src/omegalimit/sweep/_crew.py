"""Which of Dask's workers can run a sweep's cells: those that have this omegalimit and see the folder."""

import contextlib
import importlib.metadata
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def probe(folder: Path) -> Iterator[Path]:
    """A file by which a worker shows that it sees the folder."""
    for left in folder.glob(".probe-*"):  # by one that was killed; the folder is ours alone
        left.unlink(missing_ok=True)
    file = folder.resolve() / f".probe-{secrets.token_hex(4)}"
    file.touch()
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


class Crew:
    """The workers that can run cells: `good` holds their addresses, and `look` asks those that came since.

    They are asked by functions of the standard library, which every worker has. One that lacks this omegalimit, does
    not see the folder, or (where cells may be stopped) could not be restarted is told once, and never used. Processes
    that we started are not asked. The questions are tasks: who dies while it is asked keeps nobody waiting.
    """

    def __init__(self, *, client: Any, file: Path, say: Callable[[str], None], local: bool, restartable: bool) -> None:
        self._client, self._file, self._say = client, file, say
        self._local, self._restartable = local, restartable
        self._asked: dict[str, tuple[Any, Any]] = {}
        self._trouble: dict[str, str] = {}
        self.good: tuple[str, ...] = ()

    @property
    def all_able(self) -> bool:
        return not self._trouble and not self._asked

    def first_look(self) -> None:
        """Wait for the answers of those that are there. Raises `ValueError` if none can run a cell."""
        end = time.monotonic() + 30
        self.look()
        while self._asked and time.monotonic() < end:
            time.sleep(0.02)
            self.look()
        if not self.good:
            trouble = list(self._trouble.values()) or [f"worker {worker} does not answer" for worker in self._asked]
            raise ValueError(f"no worker can run this. {'; '.join(trouble[:3])}.")

    def look(self) -> None:
        """Ask the newcomers, hear who answered, and forget who left."""
        there = self._client.scheduler_info(n_workers=-1)["workers"]
        if self._local:
            self.good = tuple(there)
            return
        self._trouble = {worker: text for worker, text in self._trouble.items() if worker in there}
        self._asked = {worker: asked for worker, asked in self._asked.items() if worker in there}
        self.good = tuple(worker for worker in self.good if worker in there)
        for worker in there:
            if worker not in self.good and worker not in self._trouble and worker not in self._asked:
                at = {"workers": [worker], "pure": False, "priority": 10}
                version = self._client.submit(importlib.metadata.version, "omegalimit", **at)
                self._asked[worker] = version, self._client.submit(os.path.exists, str(self._file), **at)
        for worker, (version, seen) in list(self._asked.items()):
            if not (version.done() and seen.done()):
                continue
            del self._asked[worker]
            if trouble := self._lacks(version, seen, nanny=bool(there[worker].get("nanny"))):
                self._trouble[worker] = f"worker {worker} {trouble}"
                self._say(f"{self._trouble[worker]}; it is not used.")
            else:
                self.good = (*self.good, worker)

    def _lacks(self, version: Any, seen: Any, *, nanny: bool) -> str:
        ours = importlib.metadata.version("omegalimit")
        if isinstance(version.exception(), importlib.metadata.PackageNotFoundError):
            return f"has no omegalimit: install it there, version {ours}"
        if error := version.exception() or seen.exception():
            return f"cannot be asked: {' '.join(str(error).split())}"
        if version.result() != ours:
            return f"has omegalimit {version.result()}, and this is {ours}: install the same there"
        if not seen.result():
            return f"does not see {str(self._file.parent)!r}: all must share one file system"
        if self._restartable and not nanny:
            return "could not be restarted to stop a cell in time: start it without --no-nanny"
        return ""
