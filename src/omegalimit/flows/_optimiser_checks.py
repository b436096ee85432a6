"""What a run of an optimiser asks of the optimiser, its eps, and the shape of the weights."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import shape_text, to_float64
from ._separable_checks import checked_rows


def checked_eps(optimiser: Any, eps: float | None) -> float:
    """The eps, 0 for an optimiser without one to set; raises where the two do not belong together."""
    import optax

    if isinstance(optimiser, optax.GradientTransformation):
        if eps is not None:
            raise ValueError(
                "`eps` goes with a function that makes an optimiser of it, `lambda eps: optax.adam(0.1, eps=eps)`; "
                "`optimiser` is an optimiser, whose own eps cannot be seen."
            )
        return 0.0
    if not callable(optimiser):
        remedy = "; pass its `.gradient_transformation()`" if isinstance(optimiser, optax.MultiSteps) else ""
        raise TypeError(
            "`optimiser` must be an optax.GradientTransformation, or a function that makes one of eps; "
            f"got {type(optimiser).__name__}{remedy}."
        )
    if not _takes_one(optimiser):
        raise TypeError(
            "`optimiser` is a function that cannot be called with eps alone: pass the optimiser that it makes, or a "
            "function of one number, `lambda eps: optax.adam(0.1, eps=eps)`."
        )
    if eps is None:
        raise ValueError("`optimiser` is a function, of eps: pass `eps`, a number >= 0.")
    value = to_float64(eps, "eps")[0]
    if value.ndim or not (math.isfinite(float(value)) and value >= 0):
        raise ValueError(f"`eps` must be a finite number, at least 0; got {eps!r}.")
    made = optimiser(float(value))
    if not isinstance(made, optax.GradientTransformation):
        raise TypeError(
            f"`optimiser` must make an optax.GradientTransformation of eps; it returned {type(made).__name__}."
        )
    return float(value)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether it can be called with one argument; True where Python cannot say."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return True
    try:
        signature.bind(1.0)
    except TypeError:
        return False
    return True


def flat_rows(Z: Any, shape: tuple[int, ...] | None) -> tuple[np.ndarray, tuple[int, ...]]:
    """The rows, flat, and the shape of w."""
    array = checked_rows(Z, matrices=True)
    rows = array.reshape(len(array), -1)
    if shape is None:
        return rows, array.shape[1:]
    whole = isinstance(shape, (tuple, list)) and all(
        isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in shape
    )
    if not whole:
        raise TypeError(f"`shape` must be a tuple of integers, for example (5, 4); got {shape!r}.")
    of_shape = tuple(int(k) for k in shape)
    if min(of_shape, default=0) < 1 or math.prod(of_shape) != rows.shape[1]:
        raise ValueError(
            f"`shape` {shape_text(of_shape)} does not hold the {rows.shape[1]} entries of a row of `Z`, "
            f"which has shape {shape_text(array.shape)}."
        )
    return rows, of_shape
