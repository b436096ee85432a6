"""Deep networks with the monomial activation `x^r`: `f(x) = W_L (... (W_2 (W_1 x)^r)^r ...)`, with no biases.

Powers are taken entry by entry, so each output is a homogeneous polynomial of degree `r^(L-1)` in the `d_0` inputs.
Scaling the incoming row of a hidden neuron by t and its outgoing column by `t^-r` leaves `f` as it is.

Weights are a sequence `(W_1, ..., W_L)`, `W_l` of shape `(d_l, d_{l-1})`. Numbers here are float64; exact weights
(integers, fractions) are for `omegalimit.rigorous.jacobian_rank`.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_count, check_finite, check_ndim, shape_text, to_float64
from .._exact import check_layers

Array = Float[np.ndarray, "..."]
Weights = Sequence[Any]


@dataclasses.dataclass(frozen=True)
class MonomialNetwork:
    """The architecture: `widths = (d_0, d_1, ..., d_L)`, inputs first and outputs last, and the power `degree` r >= 2.

    Raises `TypeError` for widths or a degree that are no integers, `ValueError` for fewer than two layers, a width
    below 1 or a degree below 2.
    """

    widths: tuple[int, ...]
    degree: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", check_widths(self.widths))
        object.__setattr__(self, "degree", check_degree(self.degree))

    @property
    def n_layers(self) -> int:
        """L, the number of weight matrices."""
        return len(self.widths) - 1

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """`(d_l, d_{l-1})` for l = 1, ..., L."""
        return tuple(zip(self.widths[1:], self.widths[:-1], strict=True))

    @property
    def n_parameters(self) -> int:
        """The number of weights."""
        return sum(rows * columns for rows, columns in self.shapes)

    @property
    def n_hidden(self) -> int:
        """The number of hidden neurons, each with one rescaling that changes nothing."""
        return sum(self.widths[1:-1])

    @property
    def output_degree(self) -> int:
        """`r^(L-1)`, the degree of the outputs in the inputs."""
        return self.degree ** (self.n_layers - 1)

    @property
    def n_monomials(self) -> int:
        """`C(r^(L-1) + d_0 - 1, d_0 - 1)`: the dimension of the space that each output lies in."""
        return math.comb(self.output_degree + self.widths[0] - 1, self.widths[0] - 1)

    def check_weights(self, weights: Weights) -> tuple[Array, ...]:
        """The weights as float64 arrays of shape `(..., d_l, d_{l-1})`.

        Raises `ValueError` for another number of layers, widths that do not chain or are not these, and entries that
        are NaN or infinite.
        """
        arrays = tuple(to_float64(W, f"weights[{layer}]")[0] for layer, W in enumerate(check_layers(weights)))
        check_shapes([W.shape[-2:] for W in arrays], self.widths)
        for layer, W in enumerate(arrays):
            check_finite(W, f"weights[{layer}]")
        return arrays

    def evaluate(self, weights: Weights, X: Any) -> Array:
        """`f` at each row of `X`, shape (n, d_0): an array of shape (..., n, d_L); leading axes are the weights'.

        Raises as `check_weights`, `ValueError` for inputs that do not fit, and where values leave double precision.
        """
        a = self._points(X)
        *hidden, last = self.check_weights(weights)
        with np.errstate(over="ignore", invalid="ignore"):
            for W in hidden:
                a = (a @ np.swapaxes(W, -1, -2)) ** self.degree
            return self._doubles(a @ np.swapaxes(last, -1, -2), "an output")

    def jacobian(self, weights: Weights, X: Any) -> Array:
        """The derivatives of the outputs at the rows of `X` by all weights: shape (..., n d_L, n_parameters).

        Rows are (point, output), the outputs running fastest; columns are the weights layer by layer, each matrix row
        by row. Raises as `evaluate`.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._doubles(self._jacobian(self._points(X), self.check_weights(weights)), "a derivative")

    def _jacobian(self, X, arrays):
        r = self.degree
        inputs, slopes = [X], []
        for W in arrays[:-1]:
            h = inputs[-1] @ np.swapaxes(W, -1, -2)
            inputs.append(h**r)
            slopes.append(r * h ** (r - 1))
        m = self.widths[-1]
        lead = np.broadcast_shapes(*(W.shape[:-2] for W in arrays))
        delta, blocks = np.broadcast_to(np.eye(m), (*lead, len(X), m, m)), []
        for layer in range(self.n_layers - 1, -1, -1):
            block = delta[..., :, None] * inputs[layer][..., :, None, None, :]
            blocks.append(block.reshape(*lead, len(X) * m, -1))
            if layer:
                delta = (delta @ arrays[layer][..., None, :, :]) * slopes[layer - 1][..., :, None, :]
        return np.concatenate(blocks[::-1], axis=-1)

    def random(self, seed: int) -> tuple[Array, ...]:
        """Independent standard normal weights, from this seed: an integer, 0 or more."""
        rng = np.random.default_rng(check_count(seed, "seed", least=0))
        return tuple(rng.standard_normal(shape) for shape in self.shapes)

    def _doubles(self, values, what):
        if not np.isfinite(values).all():
            raise ValueError(
                f"{what} leaves double precision: the outputs are of degree {self.output_degree} in the inputs, and of "
                f"degree {(self.degree**self.n_layers - 1) // (self.degree - 1)} in the weights; divide those that are "
                "large."
            )
        return values

    def _points(self, X):
        X = to_float64(X, "X")[0]
        check_ndim(X, "X", axes="n, d_0")
        check_finite(X, "X")
        if X.shape[1] != self.widths[0]:
            raise ValueError(
                f"`X` has shape {shape_text(X.shape)}: {X.shape[1]} columns, and the network has {self.widths[0]} "
                f"inputs (widths {self.widths})."
            )
        return X


def check_widths(widths: Sequence[int]) -> tuple[int, ...]:
    """The widths `(d_0, ..., d_L)` as a tuple of `int`, at least three of them, each at least 1."""
    if isinstance(widths, str) or not isinstance(widths, (Sequence, np.ndarray)):
        raise TypeError(f"`widths` must be a sequence of integers such as (2, 3, 1); got {widths!r}.")
    found = tuple(check_count(width, f"widths[{i}]", least=1) for i, width in enumerate(widths))
    if len(found) < 3:
        raise ValueError(
            f"`widths` must name the inputs, at least one hidden layer and the outputs, as in (2, 3, 1); got {found}."
        )
    return found


def check_degree(degree: object) -> int:
    """The power r of the activation as an `int`, at least 2."""
    if isinstance(degree, bool) or not isinstance(degree, (int, np.integer)):
        raise TypeError(f"`degree` must be an integer, the power r of the activation x^r; got {degree!r}.")
    if degree < 2:
        raise ValueError(f"`degree` must be at least 2 (the activation is x^degree); got {degree}.")
    return int(degree)


def check_shapes(shapes: Sequence[tuple[int, ...]], widths: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """The widths that weights of these shapes have; with `widths` they must be those.

    Raises `ValueError` for fewer than two matrices, and where the columns of one are not the rows of the one before.
    """
    for layer, shape in enumerate(shapes):
        if len(shape) != 2 or 0 in shape:
            raise ValueError(
                f"`weights[{layer}]` must be a matrix (rows, columns), none empty; got {shape_text(shape)}."
            )
    if len(shapes) < 2:
        raise ValueError(f"`weights` must hold at least two matrices; got {len(shapes)}.")
    for layer, (below, above) in enumerate(itertools.pairwise(shapes), start=1):
        if above[1] != below[0]:
            raise ValueError(
                f"widths do not chain: `weights[{layer - 1}]` has shape {shape_text(below)} and `weights[{layer}]` has "
                f"shape {shape_text(above)}: {below[0]} rows against {above[1]} columns."
            )
    found = (int(shapes[0][1]), *(int(shape[0]) for shape in shapes))
    if widths is not None and found != widths:
        raise ValueError(f"`weights` have widths {found}, and the network has {widths}.")
    return found
