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
from ._collapse_arrival import Net, halfway, measure_nets
from ._collapse_instance import Instance
from ._collapse_measures import name_of, not_unique, scalar, unique_limit, verdict
from ._collapse_particles import Replicas, Sizes, error_of, mean_of
from ._collapse_stencils import BENT, NO_BENDS, Bends, Stencils

PARTICLES = "particles"

UNIT = "of the distance to the measure at another temperature"

AGREES = 0.5
"""Distance of averaged residuals to the measure's that counts as agreement, over that to the nearer of the measures at
four times and a quarter of the temperature: below a half they are nearer to their own than to either."""

NEIGHBOURS = (0.25, 4.0)

ERRORS = 3.0
"""Standard errors that enter as slack, and that an averaged residual may be away from what it is said to be."""

FLOOR = 0.2
"""Floor of the steps, in units of the distance to the nearer neighbour, beyond which the first order does not suffice:
errors of half of such a floor are seen when it is taken off."""

EXPONENT = 0.08
"""Distance of the measured exponent to 1/2 that counts as agreement."""

HELD = 0.9
"""Share of the mass that the clusters must hold."""

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
    distances = {name: _over(_norm(run.mean_residual - meant), predicted.unit) for name, run in replicas.fine.items()}
    errors = {
        name: _over(math.hypot(_norm(run.standard_error), replicas.floor_error), predicted.unit)
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


def langevin_agreement(
    instance: Instance, predicted: Predicted, replicas: Replicas, sizes: Sizes | None = None
) -> Verdict:
    """The averaged residual, without the floor of the steps, is the measure's.

    A bias in proportion to 1/N is left, which runs of fewer particles (`sizes`) show: it is taken off as well.
    """
    r, unit = predicted.residual, predicted.unit
    bias, bias_error = (np.zeros_like(r), 0.0) if sizes is None or sizes.diverged else sizes.bias
    distance = _norm(replicas.extrapolated - bias - r)
    error = math.hypot(replicas.error, predicted.error, bias_error)
    both = (replicas.coarse, replicas.fine)
    floor, undecided = _norm(replicas.floor), None
    if floor > FLOOR * unit and ERRORS * error < distance <= AGREES * unit:
        undecided = (
            f"the average is off by more than {ERRORS:g} standard errors, and the steps moved it by "
            f"{_over(floor, unit):.2g} {UNIT}, more than {FLOOR:g}: what they do to second order is not known; take "
            "smaller ones (`--step-size`)."
        )
    return _verdict(
        instance,
        "langevin-agreement",
        Kind.EQUALITY,
        runs=replicas.runs,
        measured=_over(distance, unit),
        bound=AGREES,
        slack=ERRORS * _over(error, unit),
        unit=UNIT,
        undecided=undecided,
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
            "distance at each": [_over(_norm(mean_of(runs) - r), unit) for runs in both],
            "standard error at each": [_over(error_of(runs), unit) for runs in both],
            "floor of the smaller steps": _over(_norm(replicas.floor), unit),
            "standard error of the floor": _over(replicas.floor_error, unit),
            "bias of finitely many particles": _over(_norm(bias), unit),
            "standard error of that bias": _over(bias_error, unit),
            "distance over |r|": _over(distance, _norm(r)),
            "largest entry of the distance": float(np.abs(replicas.extrapolated - bias - r).max()),
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
    # A cluster may lie at one of these too.
    possible = predicted_clusters(instance, angle, least_mass / 1.5)
    pairs = matched(possible, found, angle) if found is not None else []
    n_found = len(found) if found is not None else 0
    undecided = not_unique(instance) or _no_width_yet(instance, run, predicted, possible, doubtful)
    if undecided is None and doubtful > 0 and abs(n_found - len(predicted)) <= doubtful:
        undecided = (
            f"directions of the limit with nearly {least_mass:.0%} of the mass: {doubtful}; the temperature decides "
            "which of them are clusters. Take another `--least-mass`."
        )
    return _verdict(
        instance,
        "effective-width",
        Kind.COUNT,
        runs=[run],
        measured=float(abs(n_found - len(predicted))),
        bound=0.0,
        slack=float(doubtful),
        unit="clusters, less the directions predicted",
        undecided=undecided,
        conditions=(
            Assumption(
                name=f"each cluster lies within {angle:g} rad of a direction of its own",
                holds=len(pairs) == n_found,
                measured=f"{len(pairs)} of {n_found}",
            ),
            Assumption(
                name=f"the clusters hold {HELD:.0%} of the mass",
                holds=found is not None and found.covered >= HELD,
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


def _no_width_yet(
    instance: Instance, run: Langevin, predicted: Clusters, possible: Clusters, doubtful: int
) -> str | None:
    """Why particles cannot be expected to form the predicted clusters: their measure does not, or they still move."""
    angle, least = predicted.angle, predicted.least_mass
    if run.diverged:
        return None
    everywhere = predicted_clusters(instance, angle, 1e-9)  # light directions are no clusters, and hold mass

    def shows(found: Clusters) -> bool:
        each = len(matched(possible, found, angle)) == len(found)
        return each and abs(len(found) - len(predicted)) <= doubtful and found.covered >= HELD

    nets = measure_nets(instance, run)
    of_measure = [net.clusters(angle, least) for net in nets]
    if not all(map(shows, of_measure)):
        near = np.mean([_near(everywhere, net) for net in nets])
        return (
            f"at beta = {name_of(run.beta)} the measure itself has not collapsed: {run.n_particles} particles drawn "
            f"from it form {_range([len(found) for found in of_measure])} clusters where {len(predicted)} are "
            f"predicted, with {near:.1%} of the mass near those; raise `--cold`."
        )
    half, end = halfway(run), Net(run.a, run.V)
    if half is None or shows(end.clusters(angle, least)):
        return None
    before, after = _near(everywhere, half), _near(everywhere, end)
    if after - before <= ERRORS * math.sqrt(max(before * (1 - before), 0.0) / run.n_particles):
        return None
    return (
        f"the particles have not arrived: {before:.1%} of their mass was near the predicted directions in mid-run, and "
        f"{after:.1%} at its end; take more steps (`--n-steps`)."
    )


def _near(predicted: Clusters, net: Net) -> float:
    """Share of `|a||v|` within the angle of the predicted directions, with their sign."""
    lengths = np.linalg.norm(net.V, axis=1)
    sizes = lengths * (np.abs(net.a) if net.a.ndim == 1 else np.linalg.norm(net.a, axis=1))
    masses = np.asarray(predicted.masses)
    aligned = net.a[:, None] * masses if net.a.ndim == 1 else net.a @ masses.T
    cosines = net.V @ predicted.directions.T
    near = (cosines >= math.cos(predicted.angle) * lengths[:, None]) & (aligned > 0)
    return float(sizes[near.any(axis=1)].sum() / sizes.sum())


def _range(counts: list[int]) -> str:
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


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
    undecided = stencils.few or not_unique(instance) or _still_bent(instance, run, stencils, bends)
    return _verdict(
        instance,
        "piecewise-affine",
        Kind.UPPER,
        runs=[run],
        measured=bent,
        bound=BENT,
        slack=ERRORS * bends.error,
        unit="second differences in cells, over those across walls",
        undecided=undecided,
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


def _still_bent(instance: Instance, run: Langevin, stencils: Stencils, bends: Bends) -> str | None:
    """Why particles cannot be expected to be affine in the cells: their measure is not, or they still move."""
    if run.diverged:
        return None
    of_measure = [stencils.bends(net.predict).ratio for net in measure_nets(instance, run)]
    if any(not ratio <= BENT for ratio in of_measure):
        return (
            f"at beta = {name_of(run.beta)} the measure itself has not collapsed: nets of {run.n_particles} particles "
            f"drawn from it have second differences of up to {max(of_measure):.2g}; raise `--cold`."
        )
    half = halfway(run)
    if half is None or bends.ratio <= BENT:
        return None
    before = stencils.bends(half.predict)
    if before.ratio - bends.ratio <= ERRORS * math.hypot(before.error, bends.error):
        return None
    return (
        f"the particles have not arrived: their net's second differences were {before.ratio:.2g} in mid-run and are "
        f"{bends.ratio:.2g} at its end; take more steps (`--n-steps`)."
    )


def _rms(batches: np.ndarray) -> list[float]:
    return np.sqrt((batches**2).mean(axis=1)).tolist()


def _over(distance: float, unit: float) -> float:
    """NaN where the unit vanishes: measures at all temperatures are one in double precision."""
    return distance / unit if unit > 0 else math.nan


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
