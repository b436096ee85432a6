"""The networks of `diagonal_networks`: neurons, the shape of their start, and their growth times."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...data import random_starts
from ...limits.growth_times import GrowthTimes, deep_growth_times, two_layer_growth_times
from ...models import AbstractNeurons, NeuronFunctions, PowerDifference, ProductNeurons
from ...models.diagonal import WeightedSquares

SPREAD_TWO_LAYERS = 100.0  # of the sizes of two-layer starts, which the theory says do not matter
SPREAD_DEEP = 4.0  # of the sizes of deep starts, which set the growth times
N_KINDS = 4  # of weighted squares
SPREAD_EIGENVALUES = 4.0  # of the curvatures p, q of `p u^2 - q v^2`, which set the growth times


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """Neurons with the shape of their start, and the growth times that the theory gives them.

    - `label`: the name in the verdicts; `layers`: 2, or the depth.
    - `shape` (d, m): `theta*`.
    """

    label: str
    neurons: AbstractNeurons
    shape: np.ndarray
    growth: GrowthTimes

    @property
    def layers(self) -> int:
        """The lowest degree of the neurons at zero."""
        return self.neurons.order

    @property
    def plain(self) -> bool:
        """True when all growth times are the same, so that R is a multiple of the l1 norm."""
        times = np.concatenate([self.growth.t_plus, self.growth.t_minus])
        return bool(np.isfinite(times).all() and times.max() <= times.min() * (1 + 1e-9))


def square_difference(d: int, shape: str, seed: int, draw: int) -> Network:
    """`u^2 - v^2`; sizes spread over a factor 100 and fair signs, or all one."""
    return _two_layers("square-difference", PowerDifference(2), _two_layer_start(d, shape, seed, draw))


def weighted_squares(d: int, shape: str, seed: int, draw: int) -> Network:
    """`p u^2 - q v^2` with four pairs (p, q) in turn, drawn with sizes spread over a factor 4.

    The growth times are 1/(2p) and 1/(2q).

    Zero is the only critical point, and its Hessian there has the eigenvalues `2 p` and `-2 q`.
    """
    drawn = random_starts((N_KINDS, 2), spread=SPREAD_EIGENVALUES, seed=seed, draw=draw, stream=2, signs=False)
    p, q = drawn[np.arange(d) % N_KINDS].T.tolist()
    return _two_layers("weighted-squares", WeightedSquares(tuple(p), tuple(q)), _two_layer_start(d, shape, seed, draw))


def _two_layer_start(d: int, shape: str, seed: int, draw: int) -> np.ndarray:
    if shape == "equal":
        return np.ones((d, 2))
    return random_starts((d, 2), spread=SPREAD_TWO_LAYERS, seed=seed, draw=draw)


def mixed_neurons(d: int, shape: str, seed: int, draw: int) -> Network:
    """The paper's own: `2ab + (a^2 + b^2 + c^2) c` for the first half of the features, `a tanh a - (e^b - 1)^2` after.

    All have extreme eigenvalues -2 and 2 at zero, with the eigenvectors (1, +-1, 0) and the axes. Sizes of the start
    are spread over a factor 100, `a > b > 0`: on the side `b < 0` the second function stays above -1, which the
    definition forbids.
    """
    first = (d + 1) // 2
    start = random_starts((d, 3), spread=SPREAD_TWO_LAYERS, seed=seed, draw=draw)
    start[:, :2] = -np.sort(-np.abs(start[:, :2]), axis=1)
    if shape == "equal":
        start = np.tile([1.0, 0.5, 0.25], (d, 1))  # all ones would be orthogonal to (1, -1, 0)
    start[first:, 2] = 0.0
    functions = [cubic_neuron] * first + [hyperbolic_neuron] * (d - first)
    return function_network("paper", functions, [3] * first + [2] * (d - first), start)


def cubic_neuron(p: Any) -> Any:
    """`2ab + (a^2 + b^2 + c^2) c`."""
    return 2 * p[0] * p[1] + (p[0] ** 2 + p[1] ** 2 + p[2] ** 2) * p[2]


def hyperbolic_neuron(p: Any) -> Any:
    """`a tanh a - (e^b - 1)^2`."""
    import jax.numpy as jnp

    return p[0] * jnp.tanh(p[0]) - jnp.expm1(p[1]) ** 2


def function_network(
    label: str, functions: Callable[[Any], Any] | Sequence[Callable[[Any], Any]], sizes: Any, shape: np.ndarray
) -> Network:
    """Neurons given as JAX functions, one for each feature or one for all."""
    return _two_layers(label, NeuronFunctions(functions, sizes), np.asarray(shape, dtype=float))


def deep(d: int, depth: int, shape: str, seed: int, draw: int) -> Network:
    """Products of `depth` layers: sizes spread over a factor 4 with fair signs; all one; or a = b = .. = 1, c = 0."""
    start = np.ones((d, depth))
    if shape == "zero-balanced":
        start[:, -1] = 0.0
    elif shape == "random":
        start = random_starts((d, depth), spread=SPREAD_DEEP, seed=seed, draw=draw)
    label = "zero-balanced" if shape == "zero-balanced" else "product"
    if depth == 2:
        return _two_layers(label, ProductNeurons(2), start)
    return Network(label, ProductNeurons(depth), start, deep_growth_times(start))


def hyperbolic_squares(neurons: AbstractNeurons, shape: np.ndarray) -> np.ndarray | None:
    """`(U^2, V^2)` with `k = U^2 - V^2` for `u^2 - v^2` and products of two, shape (d, 2); `None` for other neurons."""
    if neurons == PowerDifference(2):
        return shape**2
    if neurons == ProductNeurons(2):
        a, b = shape.T
        return np.stack([(a + b) ** 2, (a - b) ** 2], axis=1) / 4
    return None


def _two_layers(label: str, neurons: AbstractNeurons, start: np.ndarray) -> Network:
    least, largest = neurons.extreme_eigenvalues(len(start))
    # A part that is exactly zero stays zero: these are quadratic. For functions the definition is checked instead.
    # (A start at zero keeps its times: that it never moves is said elsewhere.)
    never = np.zeros((len(start), 2), bool)
    if not isinstance(neurons, NeuronFunctions):
        squares = hyperbolic_squares(neurons, start)
        never = (start if squares is None else squares) == 0
        never &= ~never.all(axis=1, keepdims=True)
    growth = two_layer_growth_times(least, largest, no_plus=never[:, 0], no_minus=never[:, 1])
    return Network(label, neurons, start, growth)
