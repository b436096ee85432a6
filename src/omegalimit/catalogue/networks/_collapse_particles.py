"""Runs of particles for `width_collapse`: what their residual is, how fast it fluctuates, and how far steps move it."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from ...flows.langevin import Langevin, langevin
from ._collapse_instance import Instance

UNIT_OF_TIME = 40.0
"""Length of a run, over 1/lam: in a quarter of it particles forget where they started."""

STARTS = ("normal", "sphere", "one-sided", "small", "large")
"""Of the runs that must agree, in the order in which they are taken."""

AVERAGE_FROM = 0.25
"""Share of a run that is left out of its averages."""

FEWER = (32, 8, 2)
"""Runs of so many times fewer particles show the rate."""


def length_of(instance: Instance, step_size: float) -> int:
    """Steps of a run that is as long as it takes."""
    return max(1, math.ceil(UNIT_OF_TIME / (instance.lam * step_size)))


def stream(seed: int, *key: int) -> int:
    """A seed of its own for each run."""
    return int(np.random.SeedSequence([seed, *key]).generate_state(1)[0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How particles are run: their number, the step size, the number of steps at that size, the seed."""

    particles: int
    step_size: float
    n_steps: int
    seed: int

    def run(
        self,
        instance: Instance,
        beta: float,
        key: int,
        *,
        particles: int | None = None,
        doubled: bool = False,
        start: str = "normal",
        activation: str = "relu",
        lam: float | None = None,
        n_snapshots: int = 2,
    ) -> Langevin:
        """One run; `key` gives it a random stream of its own, `doubled` half as many steps of twice the size."""
        return langevin(
            instance.X,
            instance.y,
            lam=instance.lam if lam is None else lam,
            beta=beta,
            step_size=self.step_size * (2 if doubled else 1),
            n_steps=max(1, self.n_steps // 2) if doubled else self.n_steps,
            n_particles=self.particles if particles is None else particles,
            start=start,
            activation=activation,
            seed=stream(self.seed, key),
            n_snapshots=n_snapshots,
            average_from=AVERAGE_FROM,
        )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Replicas:
    """Runs from several starts, each in steps of a size (`fine`) and of twice that size (`coarse`), for one time.

    The bias of the averaged residual is proportional to the step size, to first order: `floor`, that of the smaller
    steps, is the difference of the two averages, and `extrapolated` (Richardson) has none of it left.
    """

    fine: Mapping[str, Langevin]
    coarse: Mapping[str, Langevin]

    @property
    def runs(self) -> list[Langevin]:
        return [*self.fine.values(), *self.coarse.values()]

    @property
    def floor(self) -> Float[np.ndarray, " n *m"]:
        """What the smaller steps move the averaged residual by."""
        return mean_of(self.coarse) - mean_of(self.fine)

    @property
    def floor_error(self) -> float:
        """Standard error of `floor`, as a Euclidean norm."""
        return math.hypot(error_of(self.fine), error_of(self.coarse))

    @property
    def extrapolated(self) -> Float[np.ndarray, " n *m"]:
        """Averaged residual at vanishing step size."""
        return mean_of(self.fine) - self.floor

    @property
    def error(self) -> float:
        """Standard error of `extrapolated`, as a Euclidean norm."""
        return math.hypot(2 * error_of(self.fine), error_of(self.coarse))


def mean_of(runs: Mapping[str, Langevin]) -> Float[np.ndarray, " n *m"]:
    """Averaged residual over all runs."""
    return np.mean([run.mean_residual for run in runs.values()], axis=0)


def error_of(runs: Mapping[str, Langevin]) -> float:
    """Standard error of `mean_of`, as a Euclidean norm.

    The larger of two: from batches of each run, which misses memory longer than a batch, and from how much the runs
    differ, which few runs estimate badly.
    """
    R = len(runs)
    batches = math.hypot(*(_norm(run.standard_error) for run in runs.values())) / R
    if R == 1:
        return batches
    spread = _norm(np.stack([run.mean_residual for run in runs.values()]) - mean_of(runs))
    return max(batches, spread / math.sqrt(R * (R - 1)))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Sizes:
    """Runs of different numbers of particles, at one step size and for one time; several may have the same number."""

    runs: tuple[Langevin, ...]

    @property
    def diverged(self) -> bool:
        return any(run.diverged for run in self.runs)

    @property
    def particles(self) -> Float[np.ndarray, " S"]:
        return np.array([run.n_particles for run in self.runs], dtype=float)

    @property
    def centre(self) -> Float[np.ndarray, " n *m"]:
        """The mean residual at this step size, floor and all: averages weighted by the numbers of particles."""
        means = np.stack([run.mean_residual for run in self.runs])
        return np.tensordot(self.particles / self.particles.sum(), means, axes=1)

    @property
    def bias(self) -> tuple[Float[np.ndarray, " n *m"], float]:
        """What finitely many particles move the averaged residual of the largest runs by, and its standard error.

        The bias is in proportion to 1/N, to first order: means are fitted by a line in 1/N with the weights of their
        standard errors. Runs of less than a tenth of the particles are left out, where the next order would show.
        """
        N = self.particles
        kept = np.flatnonzero(N / N.max() >= 0.1)
        if len(set(N[kept])) < 2:
            return np.zeros_like(self.runs[0].mean_residual), 0.0
        x = N.max() / N[kept]
        means = np.stack([self.runs[k].mean_residual for k in kept])
        # Variances go like 1/N; the largest of those seen sets their scale, since few batches estimate them badly.
        scale = max(_norm(self.runs[k].standard_error) / math.sqrt(share) for k, share in zip(kept, x, strict=True))
        weights = 1 / x / (1 / x).sum()
        centred = x - weights @ x
        spread = float(weights @ centred**2)
        slope = np.tensordot(weights * centred, means, axes=1) / spread
        return slope, scale / math.sqrt(float((1 / x).sum()) * spread)

    def errors(self, residual: Float[np.ndarray, " n *m"], *, batches: int = 8) -> Float[np.ndarray, "S b"]:
        """Root mean squares of the distance of snapshots to `residual`, over batches of what is averaged."""
        return np.array([_batched(run, residual, batches) for run in self.runs])

    def exponent(self, residual: Float[np.ndarray, " n *m"]) -> tuple[float, float]:
        """The exponent of that distance in the number of particles, and its standard error.

        Runs of different sizes are independent, and so are, nearly, the batches of one; the line through the sizes is
        fitted to each batch, and its slopes averaged.
        """
        logs, x = np.log(self.errors(residual)), np.log(self.particles)
        slopes = np.polyfit(x, logs, 1)[0]
        return float(slopes.mean()), float(slopes.std(ddof=1) / math.sqrt(slopes.size))


def _batched(run: Langevin, residual: Float[np.ndarray, " n *m"], batches: int) -> Float[np.ndarray, " b"]:
    late = run.residual[run.recorded >= run.average_from]
    squares = ((late - residual) ** 2).reshape(len(late), -1).sum(axis=1)
    return np.array([math.sqrt(part.mean()) for part in np.array_split(squares, batches)])


def _norm(values: np.ndarray) -> float:
    return float(np.linalg.norm(values))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """All runs of an instance: `replicas` and `sizes` at the inverse temperature `warm`, `collapsed` at `cold`."""

    warm: float
    cold: float
    replicas: Replicas
    sizes: Sizes
    collapsed: Langevin

    @property
    def diverged(self) -> bool:
        """Whether any run did: its averages are no numbers then."""
        return any(run.diverged for run in (*self.replicas.runs, *self.sizes.runs, self.collapsed))


def train(
    instance: Instance,
    plan: Plan,
    *,
    warm: float,
    cold: float,
    starts: Sequence[str],
    n_snapshots: int = 24,
) -> Training:
    """Every run that the claims are judged on."""
    replicas = replicated(instance, plan, warm, starts)
    return Training(
        warm=warm,
        cold=cold,
        replicas=replicas,
        sizes=sized(instance, plan, warm, replicas),
        collapsed=plan.run(instance, cold, 200, n_snapshots=n_snapshots),
    )


def replicated(instance: Instance, plan: Plan, beta: float, starts: Sequence[str]) -> Replicas:
    """The runs from these starts."""
    return Replicas(
        fine={name: plan.run(instance, beta, 2 * k, start=name) for k, name in enumerate(starts)},
        coarse={name: plan.run(instance, beta, 2 * k + 1, start=name, doubled=True) for k, name in enumerate(starts)},
    )


def sized(instance: Instance, plan: Plan, beta: float, replicas: Replicas) -> Sizes:
    """Runs of fewer particles, beside the fine ones."""
    fewer = [max(4, plan.particles // share) for share in FEWER]
    runs = [plan.run(instance, beta, 100 + k, particles=N) for k, N in enumerate(fewer)]
    return Sizes(runs=(*runs, *replicas.fine.values()))
