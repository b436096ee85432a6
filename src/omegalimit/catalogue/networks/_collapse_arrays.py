"""What `width_collapse` leaves for the record and the figures, as labelled arrays."""

import numpy as np
import xarray as xr

from ._collapse_instance import values_of
from ._collapse_judge import Family, Judged
from ._collapse_measures import name_of
from ._collapse_particles import error_of, mean_of

DRAWN_PARTICLES, DRAWN_TIMES = 600, 24
"""Particles and snapshots of the collapse that are kept."""

ANGLES = 3600
"""Points of the circle, besides those at the peaks."""


def arrays_of(found: Judged) -> dict[str, xr.Dataset]:
    """Every group of one instance."""
    instance = found.instance
    arrays = {"collapse-shares": shares(found.family)}
    if not found.training.diverged:
        arrays |= {"collapse-particles": particles(found), "collapse-errors": errors(found)}
    if instance.d in (1, 2):
        arrays["collapse-function"] = function(found)
    if instance.d == 1:
        arrays["collapse-density"] = density(found)
    return {f"{instance.label}/{name}": dataset for name, dataset in arrays.items()}


def shares(family: Family) -> xr.Dataset:
    """Mass away from the learned directions, and the predictor's distance to its limit, by beta."""
    largest = float(values_of(family.limit).max(initial=0.0))
    away = [float(values_of(f - family.limit).max()) for f in family.predictors]
    return xr.Dataset(
        {
            "beta": ("temperature", list(family.betas)),
            "mass_away": ("temperature", [np.nan if share is None else 1 - share.mass for share in family.shares]),
            "neurons_away": (
                "temperature",
                [np.nan if share is None else 1 - share.probability for share in family.shares],
            ),
            "predictor": ("temperature", np.array(away) / largest if largest > 0 else np.full(len(away), np.nan)),
        },
        attrs={"window": family.window},
    )


def particles(found: Judged) -> xr.Dataset:
    """Directions and sizes |a||v| of some particles through time, and the predicted directions."""
    run, certificate = found.training.collapsed, found.instance.cold.certificate
    N = run.snapshot_V.shape[1]
    chosen = np.arange(min(N, DRAWN_PARTICLES)) * N // min(N, DRAWN_PARTICLES)
    V, a = run.snapshot_V[:, chosen], run.snapshot_a[:, chosen]
    length = np.linalg.norm(V, axis=2)
    size = np.abs(a) if a.ndim == 2 else np.linalg.norm(a, axis=2)
    clusters = run.clusters()
    with np.errstate(invalid="ignore", divide="ignore"):
        U = V / length[:, :, None]
    return xr.Dataset(
        {
            "time": ("snapshot", run.snapshot_steps * run.step_size),
            "direction": (("snapshot", "particle", "weight"), U),
            "size": (("snapshot", "particle"), size * length),
            "sign": (("snapshot", "particle"), np.sign(a if a.ndim == 2 else a[..., 0])),
            "predicted": (("learned", "weight"), np.asarray(certificate.directions)),
            "predicted_mass": ("learned", values_of(np.asarray(certificate.masses))),
            "cluster": (("found", "weight"), clusters.directions),
            "cluster_share": ("found", clusters.shares),
            "rows": (("input", "weight"), found.instance.rows),
        },
        attrs={"beta": run.beta, "outputs": found.instance.outputs},
    )


def errors(found: Judged) -> xr.Dataset:
    """Scatter of snapshots and their distance to the measure's residual, by particles; and the floor of the steps."""
    sizes, replicas, r = found.training.sizes, found.training.replicas, found.predicted.residual
    both = (replicas.coarse, replicas.fine)
    return xr.Dataset(
        {
            "particles": ("run", sizes.particles),
            "scatter": (("run", "batch"), sizes.errors(sizes.centre)),
            "distance": (("run", "batch"), sizes.errors(r)),
            "step_size": ("step", [next(iter(runs.values())).step_size for runs in both]),
            "averaged": ("step", [float(np.linalg.norm(mean_of(runs) - r)) for runs in both]),
            "averaged_error": ("step", [error_of(runs) for runs in both]),
        },
        attrs={
            "beta": found.predicted.beta,
            "floor": float(np.linalg.norm(replicas.floor)),
            "extrapolated": float(np.linalg.norm(replicas.extrapolated - r)),
            "extrapolated_error": replicas.error,
            "residual": float(np.linalg.norm(r)),
            "temperature_shift": found.predicted.unit,
        },
    )


def function(found: Judged) -> xr.Dataset:
    """The learned function over the box at several beta, its limit with walls, and the trained net's."""
    instance, family, run = found.instance, found.family, found.training.collapsed
    m = instance.outputs
    points = family.points

    def shaped(f: np.ndarray) -> np.ndarray:
        return np.asarray(f).reshape(len(points), m)

    return xr.Dataset(
        {
            "point": (("place", "column"), points),
            "limit": (("place", "output"), shaped(family.limit)),
            "at_beta": (("temperature", "place", "output"), np.stack([shaped(f) for f in family.predictors])),
            "trained": (
                ("place", "output"),
                shaped(np.full_like(family.limit, np.nan) if run.diverged else run.predict(points)),
            ),
            "X": (("input", "column"), instance.X),
            "y": (("input", "output"), instance.y.reshape(instance.n, m)),
            "walls": (("learned", "weight"), np.asarray(instance.cold.certificate.directions)),
        },
        coords={"temperature": [name_of(beta) for beta in family.betas]},
        attrs={"beta_trained": run.beta},
    )


def density(found: Judged) -> xr.Dataset:
    """The density of directions on the circle at several beta, and the predicted directions."""
    instance, family = found.instance, found.family
    certificate = instance.cold.certificate
    directions = np.asarray(certificate.directions)
    peaks = np.arctan2(directions[:, 1], directions[:, 0])
    # Peaks are far narrower than a grid: points crowd about each, from 1e-7 on.
    near = np.concatenate([s * np.geomspace(1e-7, 0.2, 240) for s in (-1, 1)] + [[0.0]])
    angle = np.concatenate([np.linspace(-np.pi, np.pi, ANGLES), (peaks[:, None] + near).reshape(-1)])
    angle = np.unique(np.mod(angle + np.pi, 2 * np.pi) - np.pi)
    U = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    laws = [instance.measure(beta) for beta in family.betas]
    densities = np.stack([np.asarray(law.density(U)) for law in laws])
    outputs = np.stack([values_of(np.asarray(law.mean_output(U))) for law in laws])
    return xr.Dataset(
        {
            "angle": ("place", angle),
            "density": (("temperature", "place"), densities),
            "mass": (("temperature", "place"), densities * outputs),
            "predicted": ("learned", peaks),
            "predicted_mass": ("learned", values_of(np.asarray(certificate.masses))),
            "walls": ("wall", _on_circle(instance.rows)),
        },
        coords={"temperature": [name_of(beta) for beta in family.betas]},
    )


def _on_circle(rows: np.ndarray) -> np.ndarray:
    """The two angles at which each input's hyperplane meets the circle of neurons."""
    first = np.arctan2(rows[:, 0], -rows[:, 1])
    return np.mod(np.concatenate([first, first + np.pi]) + np.pi, 2 * np.pi) - np.pi
