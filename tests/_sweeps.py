"""Sweeps of the toy, for the tests of the store, of sweeps, and of their pages."""

from pathlib import Path
from typing import Any

from omegalimit.store import Folder
from omegalimit.sweep import run_sweep

TOY = "_toy:Toy"


def toy_sweep(folder: Path, *, sizes: tuple[float, ...] = (0.5, 2.0), seeds: str = "0:3", **rest: Any) -> Folder:
    """Sizes 0.5 hold, 2.0 fail, 0.95 are inconclusive, and a negative one is refused by the toy."""
    rest.setdefault("workers", 1)
    return run_sweep(TOY, folder=folder, grid={"size": sizes}, seeds=seeds, **rest)


def said(folder: Folder) -> list[tuple[Any, ...]]:
    """What was found, without what a clock or a place has its part in."""
    return [(cell.key, *map(tuple, cell.rows)) for cell in folder.cells]
