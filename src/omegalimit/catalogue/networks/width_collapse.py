"""Noisy wide ReLU networks: on how many directions does the width collapse?"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ..._threads import one_blas_thread
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _collapse_counters
from ._collapse_arrays import arrays_of
from ._collapse_instance import FINEST_BETA, Instance, drawn, named
from ._collapse_judge import Judged, Terms, judge
from ._collapse_particles import STARTS, Plan, length_of
from ._collapse_user import ROUNDING, check_count_of, flattened, own_instance, told_of_inputs

MOST_WORK = 1e9
"""Particles times steps times inputs of one run, for up to two columns, and less for more; a run that would take more
is shortened, and a note says so."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WidthCollapse(AbstractSystem):
    """Noisy wide ReLU networks: on how many directions does the width collapse?

    Setting. N neurons (a_j, v_j) make the net `f(x) = (1/N) sum_j a_j relu(v_j'xt)`, `xt = (x, 1)`, D = d + 1. Noisy
    gradient descent on all of them, with weight decay lam and inverse temperature beta, is the mean-field Langevin
    dynamics of

        F(rho) = (1/2n) sum_i |f(x_i) - y_i|^2 + (lam/2) E(a^2 + |v|^2) + (1/beta) E log rho.

    Its stationary measure is the Gibbs measure of its own residual r = f - y. With `v = s u`, |u| = 1, and
    `R(u) = (1/n) sum_i r_i relu(u'xt_i)` its integrals over s and a close,

        density of u ~ (lam^2 - |R(u)|^2)^(-D/2),        E[a s | u] = -(D/beta) R(u) / (lam^2 - |R(u)|^2),

    and r maximises the concave `-|r|^2/2n - r'y/n - (1/beta) log int (lam^2 - |R|^2)^(-D/2) du`. As beta grows this
    becomes `min (1/2n)|f - y|^2 + lam (total mass)` over measures of directions, whose dual asks `|R| <= lam`, with all
    mass where |R| = lam.

    Stated by the authors (abstract; the body was not read): a Wasserstein gradient flow with a unique stationary
    measure; weights with their biases align on finitely many directions; the predictor is continuous and piecewise
    affine, its cells those of a finite arrangement of hyperplanes; at most 2P - 1 directions, P the number of linear
    dichotomies of the inputs; each direction has a ternary activation pattern of its own.

    Reconstructed here: the dynamics, and the limit that these statements are about. The abstract does not say how the
    limit is taken. At any finite beta the density of directions is smooth and positive; finitely many directions, exact
    cells and exact patterns are statements about beta = inf. What is seen at finite beta is how mass tends there.

    Derived here: the closed integrals, both duals, the certificates, the rates in beta, and for one output the bound:
    R is linear on a closed cell and |R| <= lam, so that each cell has at most one direction of either sign, and the
    cell with all inputs off none: 2(P - 1) at most. With several outputs it does not: within a cell the penalty is the
    nuclear norm of a matrix, and where that has rank two, |R| = lam on an arc of directions, over which mass spreads
    (derived here). Then 2P - 1, the patterns and the concentration are tested only; the other claims are the same.

    Instances: `relu d=2`, standard normal inputs and targets; beside it one input column with one output and with two
    (`relu d=1`, `relu d=1, 2 outputs`), unless `--no-companions`.

    Claims. A parametrisation that ends in `particles` is judged on trained particles, the others on measures.
    - `unique-measure` (invariant, equality): the dual's Hessian is at most -1/n, and Newton's method ends at one
      residual from every start, within the certified distance; particles from different starts have that residual.
    - `langevin-agreement` (equality): the time-averaged residual of particles is the measure's, once the floor of the
      step size is taken off, which runs in twice as large steps show.
    - `particle-rate` (rate): snapshots of N particles scatter about their mean like N^(-1/2).
    - `concentration` (rate): the share of |E[as]| farther than `window` from the learned directions falls like
      beta^-1 at least, and is a hundredth at most at the largest beta.
    - `direction-count` (count): the limit has at most 2P - 1 directions; so many caps of radius `angle` hold 95% of the
      trained particles' mass.
    - `ternary-patterns` (count): no two directions of the limit have the same ternary activation pattern.
    - `predictor-limit` (rate): the largest distance over a box of the predictor to its piecewise affine limit falls
      with beta.
    - `piecewise-affine` (upper bound): inside the predicted cells the trained net has no second differences, beside
      those across the walls.
    - `effective-width` (count): trained particles form as many clusters as there are predicted directions, each at one
      of them. A cluster lies within `angle` and holds `least_mass` at least; the predicted directions are those with
      that share of the limit's mass, taken together where they are closer than `angle`.

    Not checked: the authors' own proof of 2P - 1; how fast the dynamics arrive at the measure. For D >= 5 a learned
    direction on four walls or more may leave no stationary measure at all, since mass can then leave to infinity
    (derived here, to leading order; nothing in the abstract is known to exclude it).
    """

    title: ClassVar[str] = "noisy wide ReLU networks: on how many directions does the width collapse?"

    n: int = 5
    """Inputs that are drawn, at least 2."""
    d: int = 2
    """Their columns, at least 1."""
    outputs: int = 1
    """Outputs of the net; several need d of at most 2."""
    lam: float = 0.05
    """Weight decay, positive."""
    betas: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5, 1e6)
    """Inverse temperatures of the measures, at least two."""
    warm: float = 50.0
    """Inverse temperature of the particles that are compared with their measure."""
    cold: float = 1e4
    """Inverse temperature of the particles whose directions are counted."""
    particles: int = 4000
    """Particles of a run, at least 200; the rate is taken from runs of as many down to a 32nd of it."""
    step_size: float | None = None
    """Step size; the floor is seen in twice as large ones. When not given 0.4 over an estimate of the curvature."""
    n_steps: int | None = None
    """Steps of a run, at least 400. When not given 40/lam of time, which lets particles forget their start."""
    starts: int = 3
    """Starts of Newton's method, beside zero, and of the particles; 2 to 5."""
    angle: float = 0.15
    """Radius of a cluster of directions, in radians."""
    window: float = 0.1
    """Radius within which mass counts as concentrated, in radians."""
    least_mass: float = 0.05
    """Least share of the mass that makes a cluster, or a predicted direction."""
    companions: bool = True
    """Also judge the two small instances with one input column."""
    seed: int = 0
    """Seed of all draws."""
    data: str | None = None
    """A file of your own regression data (CSV, Parquet, npz) instead of drawn inputs."""
    target: str | None = None
    """The column of `data` that is to be predicted; the last when not given."""
    standardise: bool = True
    """Shift and scale the columns of `data` to mean zero and standard deviation one."""

    def __post_init__(self) -> None:
        for name, least in (("n", 2), ("d", 1), ("outputs", 1), ("particles", 200), ("starts", 2), ("seed", 0)):
            check_whole(name, getattr(self, name), least)
        if self.n_steps is not None:
            check_whole("n_steps", self.n_steps, 400)
        if self.starts > len(STARTS):
            raise ValueError(f"`starts` must be at most {len(STARTS)}, the starts there are; got {self.starts}.")
        object.__setattr__(self, "betas", tuple(sorted(set(self.betas))))
        if len(self.betas) < 2:
            raise ValueError(f"`betas` needs two inverse temperatures at least, to see a rate; got {self.betas!r}.")
        for name, value in (*(("betas", beta) for beta in self.betas), ("warm", self.warm), ("cold", self.cold)):
            if not 0 < value <= FINEST_BETA:
                raise ValueError(
                    f"`{name}` must lie between 0 and {FINEST_BETA:g}, 0 excluded; got {value!r}. The limit of large "
                    "inverse temperatures is solved in any case."
                )
        if self.lam == 0:
            raise ValueError(
                "without weight decay (`lam` = 0) there is no stationary measure: nothing holds large weights back. "
                "Take `lam` > 0."
            )
        for name, value in (("lam", self.lam), ("step_size", self.step_size)):
            if value is not None and not (0 < value < np.inf):
                raise ValueError(f"`{name}` must be positive and finite; got {value!r}.")
        for name, value in (("angle", self.angle), ("window", self.window)):
            if not 0 < value <= 0.5:
                raise ValueError(f"`{name}` must lie between 0 and 0.5 radians, 0 excluded; got {value!r}.")
        if not 0 < self.least_mass < 0.5:
            raise ValueError(f"`least_mass` must lie between 0 and 0.5, both excluded; got {self.least_mass!r}.")
        if self.outputs > 1 and self.d > 2:
            raise ValueError(
                "several outputs need `d` of at most 2: beyond, the limit at zero temperature is a problem without a "
                f"finite formula here; got outputs = {self.outputs}, d = {self.d}."
            )

    # -- data -----------------------------------------------------------------------------------------------------

    def instances(self) -> tuple[list[Instance], tuple[str, ...]]:
        """What is judged, with sentences on it. Raises `ValueError` for data that cannot be used."""
        if self.data is not None:
            instance, notes = own_instance(self.data, self.target, lam=self.lam, standardise=self.standardise)
            return [instance], notes
        main = self.drawn(self.d, self.outputs)
        check_count_of(main.X)
        found = [main]
        if self.companions:
            found += [self.drawn(d, m) for d, m in ((1, 1), (1, 2)) if (d, m) != (self.d, self.outputs)]
        flat = flattened(main.X, ROUNDING * np.abs(main.X).max(axis=0))[1]
        return found, (*told_of_inputs(main.X, main.y), *flat)

    def drawn(self, d: int, m: int, **changes) -> Instance:
        """Standard normal inputs, then standard normal targets."""
        return drawn(self.n, d, m, **{"lam": self.lam, "seed": self.seed, "label": named(d, m), **changes})

    # -- the check ------------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Solve measures and limits, run particles, judge every claim; on drawn inputs or on the user's own.

        Raises `ValueError` for data or options that cannot be used, in the words in which they were given.
        """
        with one_blas_thread():
            return self._check(progress)

    def _check(self, progress: Progress) -> Findings:
        notes = self.ignored_options()
        instances, told = self.instances()
        notes += told
        found: list[Judged] = []
        for k, instance in enumerate(instances):

            def shown(text: str, fraction: float, k: int = k) -> None:
                progress(text, (k + fraction) / len(instances))

            plan, shortened = self.plan(instance)
            notes += shortened
            found.append(judge(instance, plan, self.terms, shown))
        notes += [note for one in found for note in one.notes]
        progress("done", 1.0)
        first = instances[0]
        return Findings(
            verdicts=tuple(v for one in found for v in one.verdicts),
            not_applicable={claim: why for one in found for claim, why in one.not_applicable.items()},
            settings={
                **dataclasses.asdict(self),
                "n": first.n,
                "d": first.d,
                "step_size": [one.training.collapsed.step_size for one in found],
                "n_steps": [int(one.training.collapsed.n_steps) for one in found],
                "dichotomies": [one.instance.n_dichotomies for one in found],
            },
            arrays={name: data for one in found for name, data in arrays_of(one).items()},
            notes=tuple(dict.fromkeys(notes)),
        )

    @property
    def terms(self) -> Terms:
        """The options on which every instance is judged."""
        return Terms(
            betas=self.betas,
            warm=self.warm,
            cold=self.cold,
            starts=self.starts,
            angle=self.angle,
            window=self.window,
            least_mass=self.least_mass,
            seed=self.seed,
        )

    def plan(self, instance: Instance) -> tuple[Plan, list[str]]:
        """How particles are run on this instance; with a sentence where runs are shorter than they should be."""
        step_size = instance.step_size if self.step_size is None else self.step_size
        wanted = length_of(instance, step_size) if self.n_steps is None else self.n_steps
        most = max(400, int(MOST_WORK / (self.particles * (instance.n + 5) * max(1.0, (instance.d + 1) / 3))))
        notes = []
        if self.n_steps is None and wanted > most:
            notes.append(
                f"{instance.label}: {most} steps in place of {wanted}, which would take too long, unless you ask for "
                "them (`--n-steps`): particles may not have forgotten where they started."
            )
            wanted = most
        return Plan(particles=self.particles, step_size=step_size, n_steps=wanted, seed=self.seed), notes

    def ignored_options(self) -> list[str]:
        """A sentence on options that were set and have no part in the run."""
        names = ("target", "standardise") if self.data is None else ("n", "d", "outputs", "companions")
        return unused(self, names, "without `--data`" if self.data is None else "with `--data`")

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _collapse_counters.counters(self)
