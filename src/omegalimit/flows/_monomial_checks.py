"""What `monomial_descent` takes: inputs, targets and starts that fit the net."""

from collections.abc import Sequence

import numpy as np

from .._checks import check_finite, check_ndim, shape_text, to_float64
from ..models.monomial import MonomialNetwork


def checked_data(X, y, net: MonomialNetwork):
    """Inputs (n, d_0) and targets (n, m) as float64."""
    X, y = to_float64(X, "X")[0], to_float64(y, "y")[0]
    check_ndim(X, "X", axes="n, d_0")
    if y.ndim not in (1, 2):
        raise ValueError(f"`y` must have shape (n,) or (n, m); got {shape_text(y.shape)}.")
    check_finite(X, "X")
    check_finite(y, "y")
    if not len(X) or len(X) != len(y):
        raise ValueError(
            f"`X` and `y` must have the same number of rows, at least one; got shapes {shape_text(X.shape)} and "
            f"{shape_text(y.shape)}."
        )
    if X.shape[1] != net.widths[0]:
        raise ValueError(
            f"`X` has shape {shape_text(X.shape)}: {X.shape[1]} columns, and the network has {net.widths[0]} inputs "
            f"(widths {net.widths})."
        )
    y = y.reshape(len(y), -1)
    if y.shape[1] != net.widths[-1]:
        raise ValueError(
            f"`y` has {y.shape[1]} column{'s' if y.shape[1] > 1 else ''}, and the network has {net.widths[-1]} outputs "
            f"(widths {net.widths})."
        )
    return X, y


def checked_start(start, net: MonomialNetwork):
    """An array (S, d_l, d_{l-1}) a layer, as float64."""
    if isinstance(start, (str, bytes)) or not isinstance(start, (Sequence, np.ndarray)):
        raise TypeError(f"`start` must be a sequence of arrays (S, d_l, d_{{l-1}}), one a layer; got {start!r}.")
    arrays = tuple(to_float64(W, f"start[{k}]")[0] for k, W in enumerate(start))
    for k, W in enumerate(arrays):
        check_finite(W, f"start[{k}]")
    wanted = tuple((len(arrays[0]) if arrays and arrays[0].ndim == 3 else "S", *shape) for shape in net.shapes)
    if tuple(W.shape for W in arrays) != wanted or not len(arrays[0]):
        expected = ", ".join(f"(S, {d}, {k})" for d, k in net.shapes)
        got = ", ".join(shape_text(W.shape) for W in arrays)
        raise ValueError(f"`start` must have the shapes {expected} with the same S of at least 1; got {got}.")
    return arrays
