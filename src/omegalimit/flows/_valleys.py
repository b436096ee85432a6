"""Where a path rested: valleys of its speed, with no threshold on the speed itself."""

import dataclasses

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Valley:
    """`lowest`: its slowest node; `drop`: log of the lower of the peaks beside it over the speed there; `at_end`: the
    path ends in it."""

    lowest: int
    drop: float
    at_end: bool


def valleys(log_speed: Float[np.ndarray, " T"], *, depth: float) -> list[Valley]:
    """The valleys of `log_speed`: nodes with a node higher by `depth` on either side, or on one side at the ends of the
    path. They are the turning points of the zigzag that ignores swings smaller than `depth`."""
    turns: list[tuple[bool, int]] = []  # (whether a valley, node)
    low = high = 0
    direction = 0
    for j, value in enumerate(log_speed):
        if value < log_speed[low]:
            low = j
        if value > log_speed[high]:
            high = j
        if direction <= 0 and value >= log_speed[low] + depth:
            turns.append((True, low))
            direction, high = 1, j
        elif direction >= 0 and value <= log_speed[high] - depth:
            turns.append((False, high))
            direction, low = -1, j
    if direction:
        turns.append((direction < 0, low if direction < 0 else high))
    found = []
    for index, (is_valley, j) in enumerate(turns):
        if is_valley:
            peaks = [log_speed[turns[i][1]] for i in (index - 1, index + 1) if 0 <= i < len(turns)]
            found.append(Valley(lowest=j, drop=float(min(peaks) - log_speed[j]), at_end=index == len(turns) - 1))
    return found
