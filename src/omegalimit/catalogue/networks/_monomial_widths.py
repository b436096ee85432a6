"""Widths of a monomial net as they are typed: `2,3,2,1` is two inputs, hidden layers of 3 and 2, one output."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def parse_widths(value: Any, name: str = "widths") -> tuple[int, ...]:
    """The widths in `value`: text such as `2,3,2,1`, or whole numbers.

    Raises `ValueError` for what is no list of whole numbers, for fewer than three, and for a width below one.
    """
    parts = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    widths = []
    for part in parts:
        try:
            width = int(part) if isinstance(part, str | np.integer) else part
        except ValueError:
            width = None
        if isinstance(width, bool) or not isinstance(width, int):
            raise ValueError(
                f"`{name}` must be whole numbers with commas between, such as 2,3,2,1 (inputs, hidden layers, "
                f"outputs); got {value!r}."
            )
        widths.append(width)
    if len(widths) < 3:
        raise ValueError(
            f"`{name}` needs three numbers at least (inputs, a hidden layer, outputs): without a hidden layer the net "
            f"is linear, and every matrix is reached; got {value!r}."
        )
    if min(widths) < 1:
        raise ValueError(f"`{name}` must be at least 1 in every layer; got {value!r}.")
    return tuple(widths)


def parse_architectures(value: Any, name: str = "widths") -> tuple[str, ...]:
    """Several architectures as text, none twice; a single one, as text or as numbers, is a list of one."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = tuple(value)
    numbers = isinstance(value, tuple) and value and all(isinstance(part, int | np.integer) for part in value)
    if isinstance(value, str) or numbers:
        value = (value,)
    if not isinstance(value, Iterable):
        parse_widths(value, name)
    found = tuple(dict.fromkeys(text_of(parse_widths(part, name)) for part in value))
    if not found:
        raise ValueError(f"`{name}` is empty; give at least one architecture, such as 2,2,2,1.")
    return found


def text_of(widths: Sequence[int]) -> str:
    """The widths as they are typed.

    >>> text_of((2, 3, 2, 1))
    '2,3,2,1'
    """
    return ",".join(map(str, widths))


def enough(widths: Sequence[int]) -> int:
    """The degree 2h - 1, h the widest hidden layer: from there on, critical is said to be subnetwork; at least 2.

    For one hidden layer that is proved (`limits/shallow_rank.py`); for more it is tested.

    >>> enough((3, 3, 1)), enough((2, 3, 2, 1)), enough((4, 1, 1))
    (5, 5, 2)
    """
    return max(2, 2 * max(widths[1:-1]) - 1)


def widening(widths: Sequence[int]) -> int | None:
    """The first layer (inputs are 0) of width one before a wider hidden one, in which all rows are proportional.

    >>> widening((2, 1, 2, 1)), widening((2, 2, 1, 1)) is None
    (1, True)
    """
    pairs = itertools.pairwise(widths[:-1])
    return next((k for k, (before, after) in enumerate(pairs) if before == 1 < after), None)
