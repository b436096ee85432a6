"""What the dynamics of linear classification ask of rows, weights and starts."""

import numpy as np
import scipy.sparse
from jaxtyping import Float

from .._checks import check_finite, check_same_length, n_rounded, shape_text, to_float64


def checked_doubles(value: object, name: str) -> Float[np.ndarray, "..."]:
    """`value` as a new array of doubles, all finite. Raises `ValueError` or `TypeError`.

    Integers that no double holds are refused: where nothing takes a note, rounding them would go unseen.
    """
    if scipy.sparse.issparse(value):
        raise TypeError(f"`{name}` is a sparse array; pass `{name}.toarray()`.")
    array = to_float64(value, name)[0]
    given = np.asarray(value)
    if given.dtype.kind in "iu" and n_rounded(given, array):
        raise ValueError(f"`{name}` has integers beyond 2**53 that no double holds; rescale it or round it yourself.")
    check_finite(array, name)
    return array


def checked_rows(Z: object, *, matrices: bool = False) -> Float[np.ndarray, "n ..."]:
    """The rows `y_i x_i`, shape (n, d), and with `matrices` (n, d1, d2) too. Raises `ValueError` or `TypeError`."""
    rows = checked_doubles(Z, "Z")
    if rows.ndim not in ((2, 3) if matrices else (2,)) or not rows.size:
        wanted = "(n, d) or (n, d1, d2)" if matrices else "(n, d)"
        raise ValueError(f"`Z` must have shape {wanted} and at least one entry; got {shape_text(rows.shape)}.")
    return rows


def checked_weights(weights: object, rows: Float[np.ndarray, "n ..."], *, default: float) -> Float[np.ndarray, " n"]:
    """Positive weights, one for each row; `default` for each when `None`. Raises `ValueError` or `TypeError`."""
    if weights is None:
        return np.full(len(rows), default)
    c = checked_doubles(weights, "weights")
    if c.ndim != 1:
        raise ValueError(f"`weights` must have shape (n,); got {shape_text(c.shape)}.")
    check_same_length(rows, c, ("Z", "weights"), axes=(0, 0), what="rows")
    if (c <= 0).any():
        i = int(np.flatnonzero(c <= 0)[0])
        remedy = "drop the rows that shall not count" if c[i] == 0 else "a loss with a negative weight has no infimum"
        raise ValueError(f"`weights` must be positive; `weights[{i}]` is {c[i]:g}: {remedy}.")
    return c


def checked_start(start: object, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """The start, of this shape; zero when `None`. Raises `ValueError` or `TypeError`."""
    if start is None:
        return np.zeros(shape)
    w = checked_doubles(start, "start")
    if w.shape != shape:
        raise ValueError(f"`start` must have shape {shape_text(shape)}; got {shape_text(w.shape)}.")
    return w


def check_start_margins(w: Float[np.ndarray, "..."], rows: Float[np.ndarray, "n D"]) -> None:
    """Raise `ValueError` when margins of this start may overflow; `w` and `rows` in units that belong together."""
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.abs(rows) @ np.abs(w.reshape(-1))
    if not np.isfinite(sizes).all():
        raise ValueError("`start` is so large for these rows that its margins overflow; start nearer to zero.")
