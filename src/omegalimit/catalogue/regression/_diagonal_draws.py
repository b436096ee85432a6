"""Which networks a run of `diagonal_networks` trains, and on which data."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data import RegressionData, load_regression, saddle_regression, sparse_regression
from ._diagonal_data import Instance, instance
from ._diagonal_models import Network, deep, mixed_neurons, square_difference, weighted_squares
from ._diagonal_prediction import Prediction

if TYPE_CHECKING:
    from .diagonal_networks import DiagonalNetworks

MOST_DRAWS = 200  # of sparse data, before giving up
MOST_FEATURES = 200  # every step of the flow solves a system with one unknown a feature
LEAST_STAY = 0.05  # of drawn data: the shortest stay at a saddle, as a share of the time of the last jump
LEAST_APART = 0.06  # of drawn data: the excess of each of the two optima in the other's norm
LEAST_STEP = 0.05  # of drawn data: the largest change of a weight in each step, as a share of the largest weight

Builder = Callable[[int, str, int, int], Network]
"""`builder(d, shape, seed, draw)`."""


def builders(system: "DiagonalNetworks") -> dict[str, Builder]:
    """The networks that a run trains to their limit, by label."""
    made: dict[str, Builder] = {
        "square-difference": square_difference,
        "weighted-squares": weighted_squares,
        "paper": mixed_neurons,
        "product": lambda d, shape, seed, draw: deep(d, system.depth, shape, seed, draw),
    }
    if system.model == "all":
        made["zero-balanced"] = lambda d, shape, seed, draw: deep(d, system.depth, "zero-balanced", seed, draw)
        return made
    return {name: builder for name, builder in made.items() if name == system.model}


def pair(system: "DiagonalNetworks", label: str, builder: Builder) -> tuple[Network, Instance, dict[str, Any]]:
    """The network called `label` and its data: the user's own, the paper's, or the first draw that will do.

    Asked of a draw, all of it about the prediction and none of it about the flow: the path is certified, without ties,
    with two saddles or more besides the origin, each of which lasts 5% of the time of the last jump; every step changes
    some weight by 5% of the largest; and, where growth times differ, each of the two optima has 6% more of the other's
    norm. The number of draws comes third.
    """
    shape = system.shape if label == "product" or system.shape != "zero-balanced" else "random"
    if system.data is not None or label == "paper":
        made = instance(saddle_regression() if system.data is None else own_data(system.data, system.target))
        return builder(made.d, shape, system.seed, 0), made, {}
    for draw in range(MOST_DRAWS):
        made = instance(sparse_regression(system.n, system.d, system.sparsity, seed=system.seed, draw=draw))
        network = builder(system.d, shape, system.seed, draw)
        if will_do(network, made):
            return network, made, {f"draws of {label}": draw + 1}
    raise ValueError(
        f"no data on which {label} has a clear path of saddles were found in {MOST_DRAWS} draws for n = {system.n}, "
        f"d = {system.d}, sparsity {system.sparsity}; take another size, or data of your own."
    )


def own_data(path: str, target: str | None) -> RegressionData:
    """The user's file. Raises `ValueError` when it has too many features for the flow."""
    found = load_regression(path, target)
    if found.d > MOST_FEATURES:
        raise ValueError(
            f"{path}: {found.d} features; the flow takes up to {MOST_FEATURES}. The path alone has no such limit: "
            "omegalimit.saddle_path."
        )
    return found


def will_do(network: Network, made: Instance) -> bool:
    """Whether drawn data have a clear path, see `pair`."""
    p = Prediction(made.X, made.y, network.growth.t_plus, network.growth.t_minus)
    path = p.path
    if path.status != "interpolates" or path.tied or not path.unique.all() or path.n_plateaus < 4:
        return False
    if np.diff(p.times).min() < LEAST_STAY * p.times[-1]:
        return False
    if np.abs(np.diff(p.k, axis=0)).max(axis=1).min() < LEAST_STEP * np.abs(p.k).max():
        return False
    if network.plain:
        return True
    solved = p.unsolved() is None and p.unsolved(plain=True) is None
    return solved and min(p.excess_of_plain, p.l1_excess_of_modified) >= LEAST_APART
