"""A record that was never written, for the figures."""

from pathlib import Path

import xarray as xr

from omegalimit.record import Record


def record(arrays: dict[str, xr.Dataset]) -> Record:
    """The record that holds these arrays and nothing else."""
    return Record(
        path=Path("nowhere"),
        system="toy",
        settings={},
        seed=0,
        verdicts=(),
        counters=(),
        not_applicable={},
        notes=(),
        arrays=arrays,
        versions={},
        threads={},
        platform={},
        started="",
        cpu_seconds=None,
        wall_seconds=None,
    )
