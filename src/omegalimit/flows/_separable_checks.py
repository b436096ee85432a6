"""What the descents on linear classification ask of rows, weights and starts."""

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, check_same_length, shape_text, to_float64


def checked_rows(Z: object, *, name: str = "Z") -> Float[np.ndarray, "n d"]:
    """The rows `y_i x_i`, shape (n, d), both at least 1, finite. Raises `ValueError` or `TypeError`."""
    rows = to_float64(Z, name)[0]
    check_ndim(rows, name, axes="n, d")
    if not rows.size:
        raise ValueError(f"`{name}` has shape {shape_text(rows.shape)}: pass at least one row and one column.")
    check_finite(rows, name)
    return rows


def checked_weights(weights: object, n: int, *, default: float) -> Float[np.ndarray, " n"]:
    """Positive weights, shape (n,); `default` for each when `None`. Raises `ValueError` or `TypeError`."""
    if weights is None:
        return np.full(n, default)
    c = to_float64(weights, "weights")[0]
    check_ndim(c, "weights", axes="n")
    check_same_length(np.empty((n, 1)), c, ("Z", "weights"), axes=(0, 0), what="rows and weights")
    check_finite(c, "weights")
    if (c <= 0).any():
        i = int(np.flatnonzero(c <= 0)[0])
        remedy = "drop the rows that shall not count" if c[i] == 0 else "a loss with a negative weight has no infimum"
        raise ValueError(f"`weights` must be positive; `weights[{i}]` is {c[i]:g}: {remedy}.")
    return c


def checked_start(start: object, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """The start, of this shape; zero when `None`. Raises `ValueError` or `TypeError`."""
    if start is None:
        return np.zeros(shape)
    w = to_float64(start, "start")[0]
    if w.shape != shape:
        raise ValueError(f"`start` must have shape {shape_text(shape)}; got {shape_text(w.shape)}.")
    check_finite(w, "start")
    return w
