"""Activations of a two-layer network, by name or as the user's functions."""

from collections.abc import Callable

import numpy as np

from .._checks import check_number, shape_text
from ._langevin_blocks import Neuron


def named_neuron(activation: object, sharpness: float = 1.0) -> Neuron:
    """`"relu"`, `"softplus"` of a sharpness, `"tanh"`, or a pair of functions. Raises as `langevin` says."""
    k = check_number(sharpness, "sharpness")
    if k <= 0:
        raise ValueError(f"`sharpness` must be positive; got {k!r}.")
    if k != 1.0 and activation != "softplus":
        raise ValueError(f"`sharpness` belongs to the activation 'softplus'; got {k!r} with another.")
    if activation == "relu":
        return Neuron("relu", None, None)
    if activation == "softplus":

        def softplus(h):
            z = k * h
            return (np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))) / k

        return Neuron("softplus" if k == 1.0 else f"softplus of sharpness {k:g}", softplus, lambda h: _sigmoid(k * h))
    if activation == "tanh":
        return Neuron("tanh", np.tanh, lambda h: 1 / np.cosh(h) ** 2)
    if isinstance(activation, str):
        raise ValueError(f"`activation` must be 'relu', 'softplus', 'tanh' or two functions; got {activation!r}.")
    if not (isinstance(activation, tuple | list) and len(activation) == 2 and all(map(callable, activation))):
        raise TypeError(
            f"`activation` must be a name, or a pair of functions, phi and its derivative; got {activation!r}."
        )
    value, slope = (_checked(function, what) for function, what in zip(activation, ("first", "second"), strict=True))
    return Neuron("given", value, slope)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, e) / (1 + e)


def _checked(function: Callable, which: str) -> Callable[[np.ndarray], np.ndarray]:
    h = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    found = np.asarray(function(h.copy()))
    if found.shape != h.shape or found.dtype.kind not in "fiub" or not np.isfinite(found).all():
        raise ValueError(
            f"The {which} function of `activation` must map an array to finite real numbers of the same shape; "
            f"from shape (2, 3) it made {shape_text(found.shape)}, dtype {found.dtype}."
        )
    return lambda h: np.asarray(function(h), dtype=np.float64)
