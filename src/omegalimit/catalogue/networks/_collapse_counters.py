"""Counter-instances of `width_collapse`: each breaks one assumption and names what must not hold."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...limits.stationary_measure import StationaryMeasure
from ...solvers.stationary_measure import stationary_measure
from .._counters import counters_of
from .._system import Counter
from ._collapse_instance import TOL, Instance, drawn
from ._collapse_judge import box_points, curvature, family, share_of
from ._collapse_measures import (
    concentration,
    direction_count,
    predictor_limit,
    ternary_patterns,
    unique_measure,
    verdict,
)
from ._collapse_particles import STARTS, Plan, Replicas, replicated, sized
from ._collapse_training import (
    PARTICLES,
    directions_used,
    effective_width,
    langevin_agreement,
    particle_rate,
    piecewise_affine,
    predict,
    same_measure,
)

if TYPE_CHECKING:
    from .width_collapse import WidthCollapse

    Check = Callable[[WidthCollapse], list[Verdict]]

WIDE, LINE = "relu d=2", "relu d=1"
OF_WIDE, OF_LINE = f"{WIDE}, {PARTICLES}", f"{LINE}, {PARTICLES}"
TWO = "relu d=2, 2 outputs"
N_PARTICLES = 2000


def counters(system: "WidthCollapse") -> Mapping[str, Counter]:
    """Every counter-instance, from the system's seed; options other than that are the defaults.

    Running one raises `ValueError` when data are given as well.
    """
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Check]] = {
        "no-collapse-when-warm": (
            "beta is 200 and less, and 5 where caps are counted: noise keeps other directions alive",
            (("concentration", WIDE), *((claim, OF_WIDE) for claim in ("direction-count", "effective-width"))),
            no_collapse_when_warm,
        ),
        "no-decay": (
            "lam = 0: the stationary density has no finite integral, and the weights of particles grow without end",
            (("unique-measure", LINE), ("langevin-agreement", OF_LINE)),
            no_decay,
        ),
        "other-targets": (
            "the same inputs, hence the same dichotomies and the same bound, with other targets: other directions",
            (("concentration", WIDE), ("effective-width", OF_WIDE), ("piecewise-affine", OF_WIDE)),
            other_targets,
        ),
        "smooth-activation": (
            "the activation is smooth (tanh, softplus): the net has no kinks to put between cells",
            tuple(("piecewise-affine", f"{name} d=2, {PARTICLES}") for name in ("tanh", "softplus")),
            smooth_activation,
        ),
        "wrong-temperature": (
            "particles at four times the temperature of the measure that they are compared with",
            (("langevin-agreement", OF_LINE), ("unique-measure", OF_LINE)),
            wrong_temperature,
        ),
        "no-noise": (
            "gradient descent without noise, compared with the measure at beta = 50",
            (("langevin-agreement", OF_LINE), ("unique-measure", OF_LINE)),
            no_noise,
        ),
        "other-decay": (
            "measures and particles are compared with those of a weight decay that is larger by a quarter",
            (
                ("unique-measure", LINE),
                ("predictor-limit", LINE),
                ("langevin-agreement", OF_LINE),
                ("unique-measure", OF_LINE),
            ),
            other_decay,
        ),
        "large-steps": (
            "steps eight times as large, and their floor is not taken off",
            (("langevin-agreement", OF_LINE),),
            large_steps,
        ),
        "stopped-early": (
            "particles are stopped after a hundredth of the time, on their way from their starts",
            tuple((claim, OF_LINE) for claim in ("langevin-agreement", "unique-measure", "particle-rate")),
            stopped_early,
        ),
        "two-outputs": (
            "two outputs in the plane: in one cell |R| = lam along a whole arc, and mass spreads over it",
            (("concentration", TWO),),
            two_outputs,
        ),
        "doubled-direction": (
            "each neuron of the limit is split into two halves of one direction: the same net, with shared patterns",
            (("ternary-patterns", WIDE),),
            doubled_direction,
        ),
        "spread-directions": (
            "each neuron of the limit is spread into a fan of directions, more than 2P - 1 in all",
            (("direction-count", WIDE),),
            spread_directions,
        ),
    }
    return counters_of(
        system,
        made,
        own=type(system)(seed=system.seed, particles=N_PARTICLES),
        what="inputs",
        option="data",
        noun="data",
    )


def _line(system: "WidthCollapse") -> tuple[Instance, Plan]:
    instance = system.drawn(1, 1)
    return instance, system.plan(instance)[0]


def _wide(system: "WidthCollapse") -> tuple[Instance, Plan]:
    instance = system.drawn(2, 1)
    return instance, system.plan(instance)[0]


def _starts(system: "WidthCollapse") -> tuple[str, ...]:
    return STARTS[: system.starts]


def no_collapse_when_warm(system: "WidthCollapse") -> list[Verdict]:
    """Concentration, clusters and caps at temperatures that are too high."""
    instance, plan = _wide(system)
    betas = (2.0, 20.0, 200.0)
    run = plan.run(instance, betas[-1], 200)
    return [
        concentration(instance, betas, family(instance, betas, window=system.window).shares, system.window),
        directions_used(instance, plan.run(instance, 5.0, 201), system.angle),
        effective_width(instance, run, angle=system.angle, least_mass=system.least_mass),
    ]


def no_decay(system: "WidthCollapse") -> list[Verdict]:
    """What refuses to be a measure, and what particles do instead."""
    instance, plan = _line(system)
    try:
        StationaryMeasure(instance.X, instance.y, lam=0.0, beta=system.warm)
        refused = Assumption(name="a stationary measure exists", holds=True)
    except ValueError as error:
        refused = Assumption(name=str(error), holds=False)
    # Twice the time at twice the distance: a random walk's E|theta|^2 grows in proportion to time.
    run = plan.run(instance, system.warm, 0, lam=0.0)
    squares = run.moments.sum(axis=1)
    half = len(squares) // 2
    growth = float((squares[-1] - squares[half]) / (squares[half] - squares[0]))
    details = {"E|theta|^2 at the start, halfway and at the end": squares[[0, half, -1]].tolist()}
    return [
        verdict(
            instance,
            "unique-measure",
            Kind.INVARIANT,
            measured=math.nan,
            bound=1.0,
            slack=0.0,
            unit="of the certified distance",
            conditions=(refused,),
        ),
        verdict(
            instance,
            "langevin-agreement",
            Kind.EQUALITY,
            of=PARTICLES,
            measured=growth,
            bound=0.1,
            slack=0.0,
            unit="growth of E|theta|^2 in the second half, over that in the first",
            conditions=(refused,),
            details=details,
        ),
    ]


def other_targets(system: "WidthCollapse") -> list[Verdict]:
    """A net trained on other targets against the directions of the first; its own count beside it."""
    instance, plan = _wide(system)
    other = dataclasses.replace(instance, y=drawn(system.n, 2, 1, lam=system.lam, seed=system.seed + 1, label="").y)
    directions = instance.cold.certificate.directions
    shares = [share_of(other, other.measure(beta), system.window, directions) for beta in system.betas]
    run = plan.run(other, system.cold, 200)
    return [
        concentration(instance, system.betas, shares, system.window),
        effective_width(instance, run, angle=system.angle, least_mass=system.least_mass),
        piecewise_affine(instance, run, instance.cold.certificate.predict, angle=system.angle, seed=system.seed),
        direction_count(other, other.cold.certificate),
    ]


def smooth_activation(system: "WidthCollapse") -> list[Verdict]:
    """Second differences of nets with smooth neurons, in the cells that relu would have."""
    instance, plan = _wide(system)
    found = []
    for activation in ("tanh", "softplus"):
        run = plan.run(instance, system.cold, 200, activation=activation)
        named = dataclasses.replace(instance, label=f"{activation} d=2")
        found.append(
            piecewise_affine(named, run, instance.cold.certificate.predict, angle=system.angle, seed=system.seed)
        )
    return found


def wrong_temperature(system: "WidthCollapse") -> list[Verdict]:
    """Particles at a quarter of beta."""
    return _compared(system, system.warm / 4)


def no_noise(system: "WidthCollapse") -> list[Verdict]:
    """Particles at beta = inf."""
    return _compared(system, math.inf)


def _compared(system: "WidthCollapse", beta: float) -> list[Verdict]:
    instance, plan = _line(system)
    predicted = predict(instance, system.warm)
    replicas = replicated(instance, plan, beta, _starts(system))
    return [langevin_agreement(instance, predicted, replicas), same_measure(instance, predicted, replicas)]


def other_decay(system: "WidthCollapse") -> list[Verdict]:
    """Everything of the first weight decay against what the second predicts."""
    instance, plan = _line(system)
    other = dataclasses.replace(instance, lam=1.25 * instance.lam)
    limit = StationaryMeasure(other.X, other.y, lam=other.lam, beta=system.warm)
    solutions = [instance.stationary(system.warm)[1], stationary_measure(limit, tol=TOL)]
    replicas = replicated(instance, plan, system.warm, _starts(system))
    predicted, points = predict(other, system.warm), box_points(instance)
    predictors = [instance.measure(beta).predict(points) for beta in system.betas]
    return [
        unique_measure(instance, system.warm, solutions, curvature(instance, system.warm, seed=system.seed)),
        predictor_limit(instance, system.betas, predictors, other.cold.certificate.predict(points)),
        langevin_agreement(instance, predicted, replicas),
        same_measure(instance, predicted, replicas),
    ]


def large_steps(system: "WidthCollapse") -> list[Verdict]:
    """Runs in steps of 3.2 over the estimated curvature stand for those in vanishing steps."""
    instance, plan = _line(system)
    large = dataclasses.replace(plan, step_size=8 * plan.step_size, n_steps=plan.n_steps // 8)
    predicted = predict(instance, system.warm)
    runs = {name: large.run(instance, system.warm, 2 * k, start=name) for k, name in enumerate(_starts(system))}
    # Both sizes the same: no floor is seen.
    replicas = Replicas(fine=runs, coarse=runs)
    return [langevin_agreement(instance, predicted, replicas)]


def stopped_early(system: "WidthCollapse") -> list[Verdict]:
    """Runs that have not forgotten their starts."""
    instance, plan = _line(system)
    early = dataclasses.replace(plan, n_steps=max(40, plan.n_steps // 100))
    predicted = predict(instance, system.warm)
    replicas = replicated(instance, early, system.warm, _starts(system))
    return [
        langevin_agreement(instance, predicted, replicas),
        same_measure(instance, predicted, replicas),
        particle_rate(instance, predicted, sized(instance, early, system.warm, replicas), replicas),
    ]


def two_outputs(system: "WidthCollapse") -> list[Verdict]:
    """Targets that two neurons make which are on at every input, with a weight decay that is small beside them.

    Within a cell the limit's penalty is the nuclear norm of a matrix, and its factors of rank two are not unique:
    `M = sum_k c_k u_k'` has a polar form Q S with `S = sum_k |c_k| u_k u_k'`, which holds for many u_k of one plane.
    Derived here.
    """
    instance = on_an_arc(system.n, seed=system.seed)
    found = family(instance, (1e2, 1e3, 1e4), window=system.window)
    return [
        concentration(instance, found.betas, found.shares, system.window),
        direction_count(instance, instance.cold.certificate),
    ]


def on_an_arc(n: int, *, seed: int) -> Instance:
    """Inputs of standard deviation 0.3, targets `relu(u_k'(x, 1))` for two u_k at 0.2 rad of the bias' direction."""
    X = 0.3 * np.random.default_rng(seed).standard_normal((n, 2))
    u = np.array([[math.sin(0.2), 0.0, math.cos(0.2)], [-math.sin(0.2), 0.0, math.cos(0.2)]])
    y = np.maximum(np.column_stack([X, np.ones(n)]) @ u.T, 0.0)
    return Instance(label=TWO, X=X, y=y, lam=0.002)


def doubled_direction(system: "WidthCollapse") -> list[Verdict]:
    """Certified like the limit itself: the gap stays closed, and the patterns are shared."""
    instance, _ = _wide(system)
    c = instance.cold.certificate
    doubled = instance.net.certify(
        np.repeat(c.directions, 2, axis=0),
        np.repeat(c.masses, 2, axis=0) / 2,
        c.residual,
        patterns=np.repeat(c.patterns, 2, axis=0),
    )
    return [direction_count(instance, doubled), ternary_patterns(instance, doubled)]


def spread_directions(system: "WidthCollapse") -> list[Verdict]:
    """As many directions as exceed the bound, within 0.01 rad of the limit's."""
    instance, _ = _wide(system)
    c = instance.cold.certificate
    fan = math.ceil(2 * instance.n_dichotomies / len(c.directions))
    rng = np.random.default_rng(system.seed)
    directions = np.repeat(c.directions, fan, axis=0)
    directions = directions + 0.01 * rng.standard_normal(directions.shape) / math.sqrt(directions.shape[1])
    spread = instance.net.certify(directions, np.repeat(c.masses, fan, axis=0) / fan, c.residual)
    return [direction_count(instance, spread), ternary_patterns(instance, spread)]
