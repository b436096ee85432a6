"""What `logistic_descent` is asked for, checked at the door."""

import math

import numpy as np
from jaxtyping import Int
from scipy.linalg import LinAlgError, cholesky

from .._checks import check_finite, shape_text, to_float64
from .._threads import one_blas_thread

N_MARKS = 80
_EPS = float(np.finfo(float).eps)


def check_data(Z: object, gram: object) -> tuple[np.ndarray, bool]:
    if (Z is None) == (gram is None):
        raise ValueError("pass either the rows `Z` or their `gram` matrix, one of the two.")
    name, value, axes = ("Z", Z, "n, d") if gram is None else ("gram", gram, "n, n")
    # A batch is large: it is copied only where it must be converted.
    array = value if type(value) is np.ndarray and value.dtype == np.float64 else to_float64(value, name)[0]
    if array.ndim not in (2, 3):
        raise ValueError(f"`{name}` must have shape ({axes}), or (B, {axes}); got {shape_text(array.shape)}.")
    if not array.size:
        raise ValueError(f"`{name}` has shape {shape_text(array.shape)}: there is nothing in it.")
    check_finite(array, name)
    if gram is None:
        return array, False
    if array.shape[-1] != array.shape[-2]:
        raise ValueError(f"`gram` must be square in its last two axes; got {shape_text(array.shape)}.")
    # Sums of products, rounded in another order, and in the precision that they came in.
    came_as = np.asarray(gram).dtype
    eps = max(_EPS, float(np.finfo(came_as).eps)) if came_as.kind == "f" else _EPS
    rounding = min(1e3 * array.shape[-1] * eps, 1e-3)
    off = np.abs(array - np.swapaxes(array, -1, -2)).max()
    if off > rounding * np.abs(array).max():
        raise ValueError(f"`gram` is not symmetric: entries that should be equal differ by up to {off:g}.")
    for b, matrix in enumerate(array if array.ndim == 3 else array[None]):
        _check_semidefinite(matrix, rounding, f"`gram[{b}]`" if array.ndim == 3 else "`gram`")
    return array, True


def _check_semidefinite(matrix: np.ndarray, rounding: float, name: str) -> None:
    """Refuse a matrix that no rows have: on a direction of negative curvature the loss would rise."""
    size = float(np.abs(matrix).max())
    if size == 0:
        return  # told with the rows
    scaled = matrix / size
    scaled.flat[:: len(scaled) + 1] += rounding
    with one_blas_thread():
        try:
            # Its transpose is in Fortran's order, and is overwritten.
            cholesky(scaled.T, overwrite_a=True, check_finite=False)
            return
        except LinAlgError:
            scaled = matrix / size
            values = np.linalg.eigvalsh((scaled + scaled.T) / 2)
    raise ValueError(
        f"{name} is not positive semidefinite: it has the eigenvalue {values[0] * size:g} beside "
        f"{values[-1] * size:g}, and the products `z_i'z_j` of rows have none below zero."
    )


def check_marks(marks: object, n_steps: int) -> Int[np.ndarray, " T"]:
    if marks is None:
        return np.unique(np.round(np.geomspace(1, n_steps, N_MARKS)).astype(int))
    array = to_float64(marks, "marks")[0]
    whole = array.ndim == 1 and array.size > 0 and np.array_equal(array, np.floor(array))
    if not whole or array[0] < 1 or array[-1] > n_steps or not np.all(np.diff(array) > 0):
        raise ValueError(
            f"`marks` must be ascending whole numbers from 1 to `n_steps` = {n_steps}; got {array.tolist()!r}."
        )
    return array.astype(int)


def check_weights(weights: object, shape: tuple[int, ...]) -> np.ndarray:
    if weights is None:
        return np.full(shape, 1 / shape[-1])
    array = to_float64(weights, "weights")[0]
    if array.shape not in (shape, shape[-1:]):
        raise ValueError(
            f"`weights` must have shape {shape_text(shape[-1:])}, one for each row"
            + (f", or {shape_text(shape)}" if len(shape) > 1 else "")
            + f"; got {shape_text(array.shape)}."
        )
    check_finite(array, "weights")
    array = np.array(np.broadcast_to(array, shape))
    if (array < 0).any() or not (array.max(axis=-1) > 0).all():
        raise ValueError(
            f"`weights` must not be negative, and not all zero; the least is {array.min():g}, the largest "
            f"{array.max():g}."
        )
    return array


def check_steps(step_size: object, shape: tuple[int, ...]) -> np.ndarray:
    array = to_float64(step_size, "step_size")[0]
    if array.shape not in ((), shape):
        of = f", or one for each data set, shape {shape_text(shape)}" if shape else ""
        raise ValueError(f"`step_size` must be one number{of}; got shape {shape_text(array.shape)}.")
    array = np.array(np.broadcast_to(array, shape))
    if not (np.isfinite(array) & (array > 0)).all():
        bad = array[~(np.isfinite(array) & (array > 0))].flat[0]
        raise ValueError(f"`step_size` must be positive and finite; got {math.nan if np.isnan(bad) else float(bad)!r}.")
    return array
