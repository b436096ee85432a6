"""Counter-instances of `diagonal_networks`: each breaks one assumption and names the claims that must then not hold."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Verdict
from ...data import tied_regression
from .._system import Counter, Findings, Progress
from ._diagonal_claims import (
    dual_certificate,
    jump_times,
    modified_l1_limit,
    not_plain_l1,
    plain_l1,
    saddles_in_order,
)
from ._diagonal_data import Instance, instance
from ._diagonal_definition import definition_of
from ._diagonal_draws import pair
from ._diagonal_experiment import Experiment, run_experiment, run_several
from ._diagonal_manifolds import affine_kept, affine_start, curved_left, flow_keeps
from ._diagonal_models import Network, deep, square_difference
from ._diagonal_potentials import exact_potential, run_potential
from ._diagonal_prediction import Prediction
from ._diagonal_ties import tie_entropy

if TYPE_CHECKING:
    from .diagonal_networks import DiagonalNetworks

LARGE_START = math.log(0.5)


def counters(system: "DiagonalNetworks") -> Mapping[str, Counter]:
    """Every counter-instance, made from the system's own size and seed.

    Each makes the data and the networks that it needs. Running one raises `ValueError` when others are asked for.
    """
    base = dataclasses.replace(system, data=None, target=None, model="all", shape="random")
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Callable[..., list[Verdict]]]] = {
        "large-start": (
            "u^2 - v^2 starts at 0.5 and is judged by the theory of a vanishing start",
            (
                ("saddles-in-order", "square-difference"),
                ("modified-l1-limit", "square-difference"),
                ("plain-l1", "square-difference"),
            ),
            large_start,
        ),
        "plain-for-deep": (
            "a deep network with unequal growth times is judged by the plain l1 norm",
            (("plain-l1", "product"), ("modified-l1-limit", "product")),
            plain_for_deep,
        ),
        "wrong-growth-time": (
            "the prediction is made with a growth time a hundred times too long for the neuron that wakes first",
            tuple(
                (claim, where)
                for where in ("product", "square-difference")
                for claim in ("saddles-in-order", "modified-l1-limit", "jump-times", "dual-certificate")
            ),
            wrong_growth_time,
        ),
        "equal-growth-times": (
            "all growth times are equal, so that the least modified and the least plain l1 norm are the same",
            (("not-plain-l1", "zero-balanced"),),
            equal_growth_times,
        ),
        "equal-eigenvalues": (
            "u^2 - v^2 is trained on data that tell the norms apart and judged by a product's growth times",
            (("not-plain-l1", "square-difference"), ("modified-l1-limit", "square-difference")),
            equal_eigenvalues,
        ),
        "stopped-at-a-saddle": (
            "training is stopped in the middle of its rest at the last saddle, where it looks converged",
            (
                ("saddles-in-order", "square-difference"),
                ("modified-l1-limit", "square-difference"),
                ("plain-l1", "square-difference"),
                ("dual-certificate", "square-difference"),
            ),
            stopped_at_a_saddle,
        ),
        "wrong-weights": (
            "among tied features the entropy is taken relative to another start",
            (("tie-entropy", "tied"),),
            wrong_weights,
        ),
        "broken-definition": (
            "k = u^2 - v^2 + u^3 has a second critical point at u = -2/3",
            (("definition", "functions"),),
            broken_definition,
        ),
        "unbounded-nowhere": (
            "k = tanh(u^2) - v^2 stays below one: its positive branch is bounded",
            (("definition", "functions"),),
            bounded_neuron,
        ),
        "large-steps": (
            "gradient descent takes the place of the flow",
            (("invariant-manifolds", "product"),),
            large_steps,
        ),
        "unequal-layers": (
            "the layers that should be equal start apart by a tenth",
            (("invariant-manifolds", "descent-affine"),),
            unequal_layers,
        ),
        "tiny-steps": (
            "the steps of descent are so small that it cannot be told from the flow",
            (("invariant-manifolds", "descent-curved"),),
            tiny_steps,
        ),
        "wrong-depth": (
            "u^3 - v^3 is judged by the potential of u^2 - v^2, and u^4 - v^4 by that of u^3 - v^3",
            (("exact-potential", "depth-3"), ("exact-potential", "depth-4")),
            wrong_depth,
        ),
        "vanishing-alpha": (
            "u^2 - v^2 from a finite start is judged by the potential of a start a thousand times smaller",
            (("exact-potential", "depth-2"),),
            vanishing_alpha,
        ),
    }
    return {
        name: Counter(text=text, expected=expected, check=_findings(function, system, base))
        for name, (text, expected, function) in made.items()
    }


def _findings(
    function: Callable[..., list[Verdict]], system: "DiagonalNetworks", base: "DiagonalNetworks"
) -> Callable[[Progress], Findings]:
    def check(progress: Progress) -> Findings:
        for name in ("data", "target", "model", "shape"):
            if getattr(system, name) != getattr(base, name):
                option = "--" + name
                raise ValueError(
                    f"a counter-instance makes its own data and network; drop `{option}` "
                    f"(got {getattr(system, name)!r})."
                )
        return Findings(verdicts=tuple(function(base, progress)), settings=dataclasses.asdict(base))

    return check


def _square(system: "DiagonalNetworks") -> tuple[Network, Instance]:
    return pair(system, "square-difference", square_difference)[:2]


def _product(system: "DiagonalNetworks", label: str = "product") -> tuple[Network, Instance]:
    shape = "zero-balanced" if label == "zero-balanced" else "random"
    return pair(system, label, lambda d, _, seed, draw: deep(d, system.depth, shape, seed, draw))[:2]


def _judged_for(e: Experiment, log_s: float) -> Experiment:
    """The same run, judged by what the theory says about another start."""
    return dataclasses.replace(e, log_s=log_s)


def large_start(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The run from 0.5 with the bounds of `s`."""
    network, made = _square(system)
    e = _judged_for(run_experiment(network, made, LARGE_START), math.log(system.s))
    return [saddles_in_order(e), modified_l1_limit(e), plain_l1(e)]


def plain_for_deep(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """Growth times all one in the place of the network's own."""
    network, made = _product(system)
    ones = np.ones(made.d)
    e = run_experiment(network, made, system.starts(network)[-1])
    return [plain_l1(e), modified_l1_limit(dataclasses.replace(e, prediction=Prediction(made.X, made.y, ones, ones)))]


def wrong_growth_time(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """A hundred times the times of the first event's neuron, in the prediction only."""
    verdicts = []
    for network, made in (_product(system), _square(system)):
        runs = run_several(network, made, system.starts(network))
        true = runs[-1].prediction
        factor = np.ones(made.d)
        factor[true.path.events[0].entered] = 100.0
        wrong = Prediction(made.X, made.y, factor * true.t_plus, factor * true.t_minus)
        runs = [dataclasses.replace(run, prediction=wrong) for run in runs]
        verdicts += [saddles_in_order(runs[-1]), jump_times(runs), dual_certificate(runs), modified_l1_limit(runs[-1])]
    return verdicts


def equal_growth_times(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The zero-balanced start, whose growth times are all pi/2 for three layers."""
    network, made = _product(system, "zero-balanced")
    return [not_plain_l1(run_experiment(network, made, system.starts(network)[-1]))]


def equal_eigenvalues(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The product's data and prediction, the flow of u^2 - v^2."""
    network, made = _product(system)
    theirs = Prediction(made.X, made.y, network.growth.t_plus, network.growth.t_minus)
    own = square_difference(made.d, "random", system.seed, 0)
    e = run_experiment(own, made, math.log(system.s), prediction=theirs)
    return [not_plain_l1(e), modified_l1_limit(e)]


def stopped_at_a_saddle(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The middle of the last rest, on the scaled clock; nothing there says that it is not the limit but what grows."""
    network, made = _square(system)
    runs = run_several(network, made, system.starts(network))
    times = runs[-1].prediction.times
    stop = float((times[-2] + times[-1]) / 2)
    early = [run_experiment(network, made, run.log_s, prediction=run.prediction, until=stop) for run in runs]
    # The flow says itself that it has not arrived, which would leave every claim open: here it is taken for converged.
    early = [dataclasses.replace(run, trusted=True) for run in early]
    return [saddles_in_order(early[-1]), modified_l1_limit(early[-1]), plain_l1(early[-1]), dual_certificate(early)]


def wrong_weights(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """Equal shapes in the place of the start's own."""
    made = instance(tied_regression())
    e = run_experiment(square_difference(made.d, "random", system.seed, 0), made, math.log(system.s))
    return [tie_entropy(dataclasses.replace(e, label="tied"), shape=np.ones((made.d, 2)))]


def broken_definition(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The gradient (2u + 3u^2, -2v) vanishes at u = -2/3, v = 0 as well."""
    made = instance(tied_regression())
    return [definition_of(lambda p: p[0] ** 2 - p[1] ** 2 + p[0] ** 3, 2, np.ones((made.d, 2)), made)[0]]


def bounded_neuron(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """Started towards the branch on which k tends to one."""
    import jax.numpy as jnp

    made = instance(tied_regression())
    return [definition_of(lambda p: jnp.tanh(p[0] ** 2) - p[1] ** 2, 2, np.ones((made.d, 2)), made)[0]]


def large_steps(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The curved manifolds of a product under descent, at the flow's bound."""
    network, made = _product(system)
    return [flow_keeps(network, made, by_descent=True)]


def unequal_layers(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The first two layers a tenth apart."""
    network, made = _product(system)
    start = affine_start(network)
    start[:, 1] *= 1.1
    return [affine_kept(network, made, start=start)]


def tiny_steps(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """Steps of 1e-12 of the usual size, as many as usual: nothing moves, and nothing leaves its manifold."""
    network, made = _product(system)
    return [curved_left(network, made, share=1e-12)]


def wrong_depth(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """Each depth by the potential of the one below."""
    _, made = _square(system)
    runs = [run_potential(made, depth, system.alpha) for depth in (3, 4)]
    return [exact_potential(run, judged_by=run.depth - 1) for run in runs]


def vanishing_alpha(system: "DiagonalNetworks", progress: Progress) -> list[Verdict]:
    """The flow from alpha, by the potential of alpha / 1000."""
    _, made = _square(system)
    run = run_potential(made, 2, system.alpha)
    return [exact_potential(dataclasses.replace(run, alpha=system.alpha / 1000))]
