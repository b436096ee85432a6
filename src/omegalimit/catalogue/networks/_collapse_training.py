"""Claims of `width_collapse` on trained particles: their residual, its scatter, the directions that they lean on."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...flows._langevin_clusters import Clusters, find_clusters
from ...flows.langevin import Langevin
from ._collapse_instance import Instance, values_of
from ._collapse_measures import scalar, unique_limit, verdict
from ._collapse_particles import Replicas, Sizes, error_of, mean_of

PARTICLES = "particles"

UNIT = "of the distance to the measure at another temperature"

AGREES = 0.5
"""Distance of averaged residuals to the measure's that counts as agreement, over that to the nearer of the measures at
four times and a quarter of the temperature: below a half they are nearer to their own than to either."""

NEIGHBOURS = (0.25, 4.0)

ERRORS = 3.0
"""Standard errors that enter as slack, and that an averaged residual may be away from what it is said to be."""

EXPONENT = 0.08
"""Distance of the measured exponent to 1/2 that counts as agreement."""

BENT = 0.004
"""Second differences inside the cells, over those across their walls, that count as none."""

COVERED, CRUMBS = 0.95, 0.002
"""Share of the mass whose directions are counted, and the least share that is looked for."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Predicted:
    """What the measure at the particles' inverse temperature says: its residual, certified to within `error`; and the
    residuals at `NEIGHBOURS` times that beta, which give the unit of distances."""

    beta: float
    residual: Float[np.ndarray, " n *m"]
    error: float
    neighbours: tuple[Float[np.ndarray, " n *m"], ...]

    @property
    def unit(self) -> float:
        """How far the nearer of the neighbours is."""
        return min(_norm(self.residual - other) for other in self.neighbours)


def predict(instance: Instance, beta: float) -> Predicted:
    """The residual that particles at this inverse temperature should have on average."""
    certificate = instance.stationary(beta)[1].certificate
    return Predicted(
        beta=beta,
        residual=certificate.residual,
        error=certificate.distance,
        neighbours=tuple(instance.stationary(share * beta)[1].certificate.residual for share in NEIGHBOURS),
    )


def same_measure(instance: Instance, predicted: Predicted, replicas: Replicas) -> Verdict:
    """Runs from different starts have the measure's residual, up to the floor of their step size."""
    meant = predicted.residual + replicas.floor
    distances = {name: _norm(run.mean_residual - meant) / predicted.unit for name, run in replicas.fine.items()}
    errors = {
        name: math.hypot(_norm(run.standard_error), replicas.floor_error) / predicted.unit
        for name, run in replicas.fine.items()
    }
    # The run that says most against the claim; a NaN says nothing, and the run that diverged all that there is to say.
    worst = max(distances, key=lambda name: np.nan_to_num(distances[name] + ERRORS * errors[name]))
    return _verdict(
        instance,
        "unique-measure",
        Kind.EQUALITY,
        runs=replicas.runs,
        measured=distances[worst],
        bound=AGREES,
        slack=ERRORS * errors[worst],
        unit=UNIT,
        details={"distance by start": distances, "its standard error": errors, "farthest": worst},
    )


def langevin_agreement(instance: Instance, predicted: Predicted, replicas: Replicas) -> Verdict:
    """The averaged residual, without the floor of the steps, is the measure's."""
    r, unit = predicted.residual, predicted.unit
    distance = _norm(replicas.extrapolated - r)
    error = math.hypot(replicas.error, predicted.error)
    both = (replicas.coarse, replicas.fine)
    return _verdict(
        instance,
        "langevin-agreement",
        Kind.EQUALITY,
        runs=replicas.runs,
        measured=distance / unit,
        bound=AGREES,
        slack=ERRORS * error / unit,
        unit=UNIT,
        conditions=(
            Assumption(
                name=f"within {ERRORS:g} standard errors",
                holds=None if math.isnan(distance) else distance <= ERRORS * error,
                measured=distance / error if error > 0 else math.inf,
            ),
        ),
        details={
            "beta": predicted.beta,
            "step sizes": [next(iter(runs.values())).step_size for runs in both],
            "distance at each": [_norm(mean_of(runs) - r) / unit for runs in both],
            "standard error at each": [error_of(runs) / unit for runs in both],
            "floor of the smaller steps": _norm(replicas.floor) / unit,
            "standard error of the floor": replicas.floor_error / unit,
            "distance over |r|": distance / _norm(r),
            "largest entry of the distance": float(np.abs(replicas.extrapolated - r).max()),
            "unit": unit,
        },
    )


def particle_rate(instance: Instance, predicted: Predicted, sizes: Sizes, replicas: Replicas) -> Verdict:
    """Snapshots scatter about their mean by the inverse root of the number of particles."""
    exponent, error, details = math.nan, 0.0, {}
    if not sizes.diverged:
        centre = sizes.centre
        exponent, error = sizes.exponent(centre)
        details = {
            "exponent": exponent,
            "its standard error": error,
            "particles": sizes.particles.tolist(),
            "scatter of snapshots": _rms(sizes.errors(centre)),
            "distance of snapshots to the measure's residual": _rms(sizes.errors(predicted.residual)),
            "floor of the steps": _norm(replicas.floor),
        }
    return _verdict(
        instance,
        "particle-rate",
        Kind.RATE,
        runs=sizes.runs,
        measured=abs(exponent + 0.5),
        bound=EXPONENT,
        slack=ERRORS * error,
        unit="distance of the exponent to -1/2",
        details=details,
    )


def directions_used(instance: Instance, run: Langevin, angle: float) -> Verdict:
    """So many caps of the clusters' size cover the trained net's mass, at most 2P - 1 of them."""
    shares = run.clusters(angle=angle, least_mass=CRUMBS).shares if not run.diverged else np.empty(0)
    total = np.cumsum(shares)
    missing = max(0.0, COVERED - float(total[-1])) if len(total) else COVERED
    # Where crumbs are left out, each more would cover less than `CRUMBS`.
    needed = int(np.searchsorted(total, COVERED)) + 1 if missing == 0 else len(shares) + math.ceil(missing / CRUMBS)
    return _verdict(
        instance,
        "direction-count",
        Kind.COUNT,
        runs=[run],
        measured=float(needed),
        bound=float(2 * instance.n_dichotomies - 1),
        slack=0.0,
        unit=f"caps of {angle:g} rad with {COVERED:.0%} of the mass",
        assumptions=(scalar(instance),),
        details={"beta": run.beta, "P": instance.n_dichotomies, "largest shares": shares[:8].tolist()},
    )


def effective_width(instance: Instance, run: Langevin, *, angle: float, least_mass: float) -> Verdict:
    """As many clusters of particles as directions of the limit, each at one of them."""
    predicted = predicted_clusters(instance, angle, least_mass)
    found = run.clusters(angle=angle, least_mass=least_mass) if not run.diverged else None
    certificate = instance.cold.certificate
    shares = np.abs(np.asarray(certificate.masses)).reshape(len(certificate.masses), -1)
    heavy = predicted_clusters(instance, angle, 1e-9).shares
    # Directions whose share is so near the least one that the particles' temperature decides about them.
    doubtful = int(((heavy > least_mass / 1.5) & (heavy < 1.5 * least_mass)).sum())
    pairs = matched(predicted, found, angle) if found is not None else []
    n_found = len(found) if found is not None else 0
    return _verdict(
        instance,
        "effective-width",
        Kind.COUNT,
        runs=[run],
        measured=float(abs(n_found - len(predicted))),
        bound=0.0,
        slack=float(doubtful),
        unit="clusters, less the directions predicted",
        conditions=(
            Assumption(
                name=f"each cluster lies within {angle:g} rad of a direction of its own",
                holds=len(pairs) == n_found,
                measured=f"{len(pairs)} of {n_found}",
            ),
            Assumption(
                name="the clusters hold 90% of the mass",
                holds=found is not None and found.covered >= 0.9,
                measured=None if found is None else found.covered,
            ),
        ),
        assumptions=(unique_limit(instance),),
        details={
            "beta": run.beta,
            "particles": run.n_particles,
            "clusters": n_found,
            "predicted": len(predicted),
            "shares found": [] if found is None else found.shares.tolist(),
            "shares predicted": predicted.shares.tolist(),
            "angles to the predicted directions": [pair[2] for pair in pairs],
            "directions at zero temperature": len(shares),
        },
    )


def predicted_clusters(instance: Instance, angle: float, least_mass: float) -> Clusters:
    """The limit's directions, clustered as particles are: those with the least mass, farther apart than the angle."""
    certificate = instance.cold.certificate
    return find_clusters(np.asarray(certificate.masses), np.asarray(certificate.directions), angle, least_mass)


def matched(predicted: Clusters, found: Clusters, angle: float) -> list[tuple[int, int, float]]:
    """Pairs of a predicted and a found cluster, nearest first, each in one pair: same sign, at most `angle` apart."""
    if not (len(predicted) and len(found)):
        return []
    cosines = np.clip(predicted.directions @ found.directions.T, -1.0, 1.0)
    opposed = np.asarray(predicted.masses)[:, None] * np.asarray(found.masses)[None]
    # Scalar outputs: the product of the signs; vectors: the cosine of the outputs' angle, times sizes.
    opposed = opposed if opposed.ndim == 2 else opposed.sum(axis=2)
    angles = np.where(opposed > 0, np.arccos(cosines), np.inf)
    pairs = []
    while np.isfinite(angles).any() and angles.min() <= angle:
        k, j = (int(i) for i in np.unravel_index(np.argmin(angles), angles.shape))
        pairs.append((k, j, float(angles[k, j])))
        angles[k], angles[:, j] = np.inf, np.inf
    return pairs


def piecewise_affine(
    instance: Instance,
    run: Langevin,
    limit: Callable[[Float[np.ndarray, "k d"]], Float[np.ndarray, " k *m"]],
    *,
    angle: float,
    seed: int = 0,
) -> Verdict:
    """The trained net's second differences inside the predicted cells vanish beside those across their walls."""
    kinks = np.asarray(instance.cold.certificate.directions)
    stencils = Stencils.drawn(instance, kinks, angle=angle, seed=seed)
    bends = NO_BENDS if run.diverged else stencils.bends(run.predict)
    bent, of_limit = bends.ratio, stencils.bends(limit)
    few = stencils.few
    return _verdict(
        instance,
        "piecewise-affine",
        Kind.UPPER,
        runs=[run],
        measured=bent,
        bound=BENT,
        slack=ERRORS * bends.error,
        unit="second differences in cells, over those across walls",
        undecided=few,
        conditions=(
            Assumption(
                name="the limit's second differences in cells are rounding",
                holds=None if math.isnan(of_limit.inside) else of_limit.inside <= 1e-12 * of_limit.largest,
                measured=of_limit.inside,
            ),
        ),
        assumptions=(unique_limit(instance),),
        details={
            "beta": run.beta,
            "activation": run.activation,
            "stencils in cells": int(stencils.inside.sum()),
            "stencils across walls": int(stencils.across.sum()),
        },
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bends:
    """Mean second difference `inside` cells and `across` walls, standard `error` of their ratio, `largest` output."""

    inside: float
    across: float
    error: float
    largest: float

    @property
    def ratio(self) -> float:
        return self.inside / self.across if self.across > 0 else math.nan


NO_BENDS = Bends(inside=math.nan, across=math.nan, error=0.0, largest=math.nan)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Stencils:
    """Triples of equally spaced inputs on lines in the box: `points` (3, M, d).

    - `inside`: the triple lies in one cell, farther than `angle` from every wall as neurons see it: `|u'(x, 1)| >
      |(x, 1)| sin(angle)`. No neuron within `angle` of a learned direction has its kink there.
    - `across`: a wall passes between its ends.
    """

    points: Float[np.ndarray, "3 M d"]
    inside: np.ndarray
    across: np.ndarray

    @classmethod
    def drawn(
        cls, instance: Instance, kinks: Float[np.ndarray, "K D"], *, angle: float, seed: int, n: int = 4000
    ) -> "Stencils":
        """Centres uniform in the box, lines of uniform direction, spaced by a twentieth of the box."""
        rng = np.random.default_rng(seed)
        low, high = instance.box()
        along = rng.standard_normal((n, instance.d))
        along *= (high - low) / 20 / np.linalg.norm(along, axis=1, keepdims=True)
        centre = low + (high - low) * rng.random((n, instance.d))
        points = np.stack([centre - along, centre, centre + along])
        rows = np.concatenate([points, np.ones((3, n, 1))], axis=2)
        sines = rows @ kinks.T / np.linalg.norm(rows, axis=2, keepdims=True)
        same = np.sign(sines[0]) == np.sign(sines[2])
        far = (np.abs(sines) > math.sin(angle)).all(axis=0)
        return cls(points=points, inside=(same & far).all(axis=1), across=~same.all(axis=1))

    @property
    def few(self) -> str | None:
        """Why nothing can be said."""
        if self.across.sum() < 20:
            return "no wall of the limit passes through the box about the inputs: the limit is affine there."
        if self.inside.sum() < 20:
            return "the cells in the box about the inputs are no larger than the angle of a cluster."
        return None

    def bends(self, predict: Callable[[np.ndarray], np.ndarray]) -> Bends:
        if self.few is not None:
            return NO_BENDS
        f = [np.asarray(predict(p)) for p in self.points]
        second = values_of(f[0] - 2 * f[1] + f[2])
        inside, across = second[self.inside], second[self.across]
        error = math.hypot(
            inside.std() / math.sqrt(len(inside)), inside.mean() / across.mean() * across.std() / math.sqrt(len(across))
        )
        return Bends(
            inside=float(inside.mean()),
            across=float(across.mean()),
            error=float(error / across.mean()),
            largest=float(max(values_of(part).max() for part in f)),
        )


def _rms(batches: np.ndarray) -> list[float]:
    return np.sqrt((batches**2).mean(axis=1)).tolist()


def _norm(values: np.ndarray) -> float:
    return float(np.linalg.norm(values))


def _verdict(
    instance: Instance, claim: str, kind: Kind, *, runs: Any, undecided: str | None = None, **more: Any
) -> Verdict:
    """As `verdict`, of particles; a run that diverged makes a claim fail."""
    conditions = more.pop("conditions", ())
    if any(run.diverged for run in runs):
        step = max(run.step_size for run in runs)
        conditions = (*conditions, Assumption(name=f"no run diverged; steps of {step:.3g} are too large", holds=False))
    return verdict(instance, claim, kind, of=PARTICLES, conditions=conditions, undecided=undecided, **more)
