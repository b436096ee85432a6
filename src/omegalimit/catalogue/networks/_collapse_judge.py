"""Everything that `width_collapse` finds on one instance: measures, limit, particles, and a verdict for each claim."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ...claims import Verdict
from ...limits._measure_caps import Concentration
from ...limits._measure_partition import CLOSED
from ...limits.stationary_measure import StationaryMeasure
from ...solvers.stationary_measure import stationary_measure
from .._system import Progress
from ._collapse_arrival import KNOWN
from ._collapse_instance import TOL, Instance
from ._collapse_measures import concentration, direction_count, predictor_limit, ternary_patterns, unique_measure
from ._collapse_particles import STARTS, Plan, Training, train
from ._collapse_training import (
    Predicted,
    directions_used,
    effective_width,
    langevin_agreement,
    particle_rate,
    piecewise_affine,
    predict,
    same_measure,
)

SIDE = {1: 401, 2: 41}
"""Points along each side of the box on which predictors are compared; for more columns `POINTS` random ones, since
each cuts the cones of the measure, which has no closed form there."""
POINTS = 60

SHARE_TOL = 1e-3
"""Error that is asked of the shares near the directions; it enters as slack."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Family:
    """What the measures of an instance say along the inverse temperatures `betas`.

    - `betas`: those at which the measure was found; `dropped`: the others, with the reason.
    - `shares`: what lies within `window` of the learned directions, of |E[as]| and of neurons.
    - `points`: inputs in the box, shape (k, d); `predictors`: at each beta there; `limit`: at zero temperature.
    """

    betas: tuple[float, ...]
    dropped: tuple[tuple[float, str], ...]
    window: float
    shares: tuple[Concentration | None, ...]
    points: Float[np.ndarray, "k d"]
    predictors: tuple[Float[np.ndarray, " k *m"], ...]
    limit: Float[np.ndarray, " k *m"]


def family(instance: Instance, betas: Sequence[float], *, window: float) -> Family:
    """The measures at each beta, beside the limit."""
    certificate = instance.cold.certificate
    points = box_points(instance)
    solutions = {beta: instance.stationary(beta)[1] for beta in betas}
    known = [beta for beta in betas if solutions[beta].certificate.distance <= KNOWN * np.linalg.norm(instance.y)]
    laws = [instance.measure(beta) for beta in known]
    return Family(
        betas=tuple(known),
        dropped=tuple((beta, solutions[beta].reason) for beta in betas if beta not in known),
        window=window,
        shares=tuple(share_of(instance, law, window) for law in laws),
        points=points,
        predictors=tuple(np.asarray(law.predict(points)) for law in laws),
        limit=np.asarray(certificate.predict(points)),
    )


def share_of(instance: Instance, law: Any, window: float, directions: Any = None) -> Concentration | None:
    """What the law has near the limit's directions, or near those given; `None` where there are none."""
    near = instance.cold.certificate.directions if directions is None else directions
    # Without a closed form each digit costs minutes.
    tol = SHARE_TOL if instance.d <= CLOSED - 1 else 10 * SHARE_TOL
    return law.concentration(near, window, tol=tol) if len(near) else None


def box_points(instance: Instance) -> Float[np.ndarray, "k d"]:
    """A grid in the box about the inputs, or random points of it."""
    low, high = instance.box()
    if instance.d in SIDE:
        sides = [np.linspace(a, b, SIDE[instance.d]) for a, b in zip(low, high, strict=True)]
        return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, instance.d)
    return low + (high - low) * np.random.default_rng(0).random((POINTS, instance.d))


def newton_starts(instance: Instance, n: int, *, seed: int) -> list[Float[np.ndarray, " n *m"]]:
    """Residuals with `max |R|` at shares of lam spread from small to nearly one, in random directions."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 7]))
    found = []
    for share in np.linspace(0.1, 0.99, n):
        r = rng.standard_normal(instance.y.shape)
        found.append(r * (share * instance.lam / instance.net.largest(r, share=1.0).value))
    return found


def curvature(instance: Instance, beta: float, *, seed: int, n: int = 4) -> tuple[float, int]:
    """The largest eigenvalue of the dual's Hessian at `n` residuals, and n.

    By central differences of the dual's gradient `(f_r - y - r)/n`, which the certificate gives: f changes on the scale
    of the distance to the boundary of the domain, from which these residuals keep away, so that steps of 1e-5 of their
    size leave an error of about 1e-10.
    """
    limit = StationaryMeasure(instance.X, instance.y, lam=instance.lam, beta=beta)
    largest = -np.inf
    for r in newton_starts(instance, n, seed=seed + 1):
        r = 0.8 * r
        step = 1e-5 * float(np.abs(r).max())
        columns = []
        for k in range(r.size):
            e = np.zeros(r.size)
            e[k] = step
            up, down = (limit.certify(r + s * e.reshape(r.shape)).outputs for s in (1, -1))
            columns.append(((up - down) / (2 * step)).reshape(-1))
        J = np.stack(columns, axis=1) - np.eye(r.size)
        largest = max(largest, float(np.linalg.eigvalsh((J + J.T) / (2 * instance.n)).max()))
    return largest, n


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """An instance with all that was found on it."""

    instance: Instance
    family: Family
    predicted: Predicted
    training: Training
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    @property
    def not_applicable(self) -> dict[str, str]:
        """Claims that say nothing here, with the reason."""
        if len(self.instance.cold.certificate.directions):
            return {}
        reason = f"{self.instance.label}: no direction is learned, see the notes"
        return dict.fromkeys(ON_DIRECTIONS, reason)


ON_DIRECTIONS = ("concentration", "predictor-limit", "effective-width", "piecewise-affine")
"""Claims that need a learned direction."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """The options on which an instance is judged, see `WidthCollapse`."""

    betas: tuple[float, ...]
    warm: float
    cold: float
    starts: int
    angle: float
    window: float
    least_mass: float
    seed: int


def judge(instance: Instance, plan: Plan, terms: Terms, progress: Progress) -> Judged:
    """Every claim."""
    label = instance.label
    progress(f"{label}: limit at zero temperature", 0.0)
    certificate = instance.cold.certificate
    progress(f"{label}: measures", 0.05)
    found = family(instance, terms.betas, window=terms.window)
    limit = StationaryMeasure(instance.X, instance.y, lam=instance.lam, beta=terms.warm)
    solutions = [instance.stationary(terms.warm)[1]]
    solutions += [
        stationary_measure(limit, tol=TOL, start=r) for r in newton_starts(instance, terms.starts, seed=terms.seed)
    ]
    predicted = predict(instance, terms.warm)
    verdicts = [
        unique_measure(instance, terms.warm, solutions, curvature(instance, terms.warm, seed=terms.seed)),
        direction_count(instance, certificate),
        ternary_patterns(instance, certificate),
    ]
    if len(certificate.directions):
        verdicts += [
            concentration(instance, found.betas, found.shares, terms.window),
            predictor_limit(instance, found.betas, found.predictors, found.limit),
        ]
    progress(f"{label}: particles", 0.3)
    training = train(instance, plan, warm=terms.warm, cold=terms.cold, starts=STARTS[: terms.starts])
    verdicts += judged_training(instance, training, predicted, terms)
    progress(f"{label}: done", 1.0)
    return Judged(
        instance=instance,
        family=found,
        predicted=predicted,
        training=training,
        verdicts=tuple(verdicts),
        notes=told(instance, found),
    )


def judged_training(instance: Instance, training: Training, predicted: Predicted, terms: Terms) -> list[Verdict]:
    """The claims on particles."""
    certificate = instance.cold.certificate
    found = [
        same_measure(instance, predicted, training.replicas),
        langevin_agreement(instance, predicted, training.replicas, training.sizes),
        particle_rate(instance, predicted, training.sizes, training.replicas),
    ]
    if not len(certificate.directions):
        return found
    return [
        *found,
        directions_used(instance, training.collapsed, terms.angle),
        effective_width(instance, training.collapsed, angle=terms.angle, least_mass=terms.least_mass),
        piecewise_affine(instance, training.collapsed, certificate.predict, angle=terms.angle, seed=terms.seed),
    ]


def told(instance: Instance, family: Family) -> tuple[str, ...]:
    """What was counted and solved."""
    certificate: Any = instance.cold.certificate
    learned = len(certificate.directions)
    position = {True: "in general position", False: "not in general position", None: "perhaps in general position"}
    notes = [
        f"{instance.label}: {instance.n} inputs {position[instance.arrangement.general_position]}, "
        f"P = {instance.n_dichotomies} dichotomies; {learned} learned direction{'s' if learned != 1 else ''}, "
        f"of at most 2P - 1 = {2 * instance.n_dichotomies - 1}."
    ]
    if instance.cold.status != "optimal":
        notes.append(f"{instance.label}: the limit is not solved: {instance.cold.reason}")
    notes += [f"{instance.label}: no measure at beta = {beta:g}: {reason}" for beta, reason in family.dropped]
    if certificate.unique is None and instance.outputs > 1:
        notes.append(
            f"{instance.label}: the limit is not known to be the only one: {certificate.uniqueness}. Where |R| = lam "
            "on an arc of directions, mass spreads over it as beta grows, and not on finitely many of them."
        )
    if not len(certificate.directions):
        notes.append(
            f"{instance.label}: lam = {instance.lam:g} is at least {instance.net.lam_max:.3g}, from where on the "
            "limit is the net without neurons: there is no direction to collapse on. Take a smaller one (`--lam`)."
        )
    return tuple(notes)
