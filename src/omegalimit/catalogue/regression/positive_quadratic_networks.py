"""Positive quadratic networks: geometry of `Q = U U'` and which Q training selects. See `PositiveQuadraticNetworks`."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float

from ...claims import Verdict
from ...data.measurement_files import load_measurements
from ...data.measurement_generators import completion_measurements, gaussian_measurements
from ...data.measurements import CommutingMeasurements, EntryMeasurements, Measurements, RankOneMeasurements
from ...limits.quotient import spectral_start
from .._options import unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _quadratic_counters
from ._quadratic_arrays import run_arrays
from ._quadratic_commuting import Commuting, drawn
from ._quadratic_entropy import bregman, commute, finite_steps, minimum_trace, mirror, starts, weighted_entropy
from ._quadratic_experiment import LOSSES, MOST_UNKNOWNS, Experiment, run_experiment
from ._quadratic_geometry import (
    congruence,
    curvature_claims,
    exponential_rate,
    horizontal_gradient,
    linear_rate,
    quotient_flow_claim,
)
from ._quadratic_recovery import PAIRS, recovery
from ._quadratic_statistics import Law, concentration, population_curvature

LARGEST_RANDOM = 8  # dimension of the claims about random rows, whose operator has d (d+1)/2 rows
COMMUTING_DIMENSIONS = (4, 8)  # least and largest, of the commuting measurements that are drawn
LARGEST_EXPONENT = 150  # of two: products of six sizes, as in the curvature along a step, are still doubles
MOST_COMPARED = 60  # measurements whose commutators are computed
MOST_COMMUTATORS = 10_000_000  # entries of all commutators
MOST_ENTRIES = 30_000_000  # of drawn rows

_RANDOM = ("population-curvature", "operator-concentration", "spectral-start", "recovery")
_ENTROPY = (
    "entropy-mirror-flow",
    "bregman-projection",
    "minimum-trace",
    "weighted-entropy-on-face",
    "finite-step",
    "finite-step-corrected",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PositiveQuadraticNetworks(AbstractSystem):
    """Positive quadratic networks: the geometry of `Q = U U'`, and which Q does training select?

    Setting. `f_U(x) = x' U U' x` with U of d x r, trained by gradient flow or descent on a smooth loss of the outputs
    `<A_i, Q>`, `Q = U U'`: inputs of the network (`A_i = x_i x_i'`), entries of Q, or any symmetric matrices. With
    `l(Q) = (1/2n) sum_i (<A_i, Q> - y_i)^2` and `G = grad l(Q)` the gradient in U is `2 G U`. Other conventions of the
    loss rescale time.

    Stated by the authors, in the abstract alone (no theorem numbers): that the training of such networks is a
    Riemannian flow on the quotient of the factors by rotations, that this geometry gives the effective Hessian, local
    rates, recovery from Gaussian measurements, and, for commuting measurements, an entropy's implicit bias.

    Derived here: every formula on this page, the guarantee of recovery, and the form of each test.

    Claims.
    - `horizontal-gradient` (invariant): JAX's gradient in U moves no gauge: `U' grad` is symmetric, to rounding.
    - `quotient-flow` (equality): the flow of U, seen in Q, is `Q' = -2 (G Q + Q G)`: both integrated, at equal times.
    - `congruence` (equality): descent's Q obeys `Q+ = (I - 2 eta G) Q (I - 2 eta G)`, iterated in Q alone, to rounding.
    - `effective-hessian` (equality): at the interpolator JAX's Hessian in U has the eigenvalues of the Gram form on the
      tangent space in the quotient metric, and zeros.
    - `gauge-zeros` (count): exactly `r (r-1)/2` zeros when the data see every tangent direction, which takes
      `n >= d r - r (r-1)/2` of them, and r is the limit's rank.
    - `exponential-rate`, `linear-rate` (rate): near the end the residual falls, mode by mode, like `exp(-t lambda)`
      along the flow and by `1 - eta lambda` a step in descent, lambda over the form's eigenvalues; at last like the
      slowest mode.
    - `population-curvature` (equality; normal rows): the form's mean is `2 |xi|_F^2 + (tr xi)^2`, its least value
      `4 sigma_r(U)^2` (d > r), by an exact cubature.
    - `operator-concentration`, `spectral-start` (rate; normal rows): the deviation of the normal operator on symmetric
      matrices, and the error of the spectral initialiser, fall like n^(-1/2) over two decades.
    - `recovery` (count; normal rows): every trial within the guarantee that the deviation gives is recovered, at the
      guaranteed rate; where recovery begins without it is reported, and how conservative the guarantee is.
    - `entropy-mirror-flow` (equality; commuting): the flow of U is the entropy's mirror flow of the eigenvalues.
    - `bregman-projection` (equality; commuting): from every strictly positive start q0 it ends at
      `argmin KL(q | q0)` over `a q = y`, `q >= 0`.
    - `minimum-trace` (rate; commuting): from `q0 = eps^2 w`, eps -> 0, the limit has the least trace; the other entries
      fade like `eps^(2 x reduced cost)`.
    - `weighted-entropy-on-face` (rate; commuting): where the least trace is not unique, the least `sum q log(q/w) - q`
      decides.
    - `finite-step`, `finite-step-corrected` (rate; commuting): descent's limit is O(eta) from the Bregman projection of
      q0, and O(eta^2) from that of `q0 exp(-4 eta int g * g dt)`.

    Not checked: global convergence; noise (an end that does not interpolate leaves its claims undecided); activations
    other than the square; negative output weights.
    """

    title: ClassVar[str] = "positive quadratic networks: the geometry of Q = U U', and which Q does training select?"

    measurements: Literal["gaussian", "completion"] = "gaussian"
    """What is measured of a planted matrix: random normal inputs of the network, or entries of the matrix."""
    loss: Literal["squared", "log-cosh"] = "squared"
    """The loss of the outputs; both are least, with the same curvature, where the outputs meet the targets."""
    n: int | None = None
    """Measurements; 40 for gaussian and 85% of the entries for completion when not given."""
    d: int = 6
    """Rows of the factor."""
    r: int = 2
    """Columns of the factor, and the rank of the planted matrix."""
    scale: float = 0.1
    """Size of the start's outputs beside the targets, where the start is random (completion, your own data)."""
    step: float = 0.5
    """Step size of descent in units of 1 / largest curvature, of the start or of the flow's end."""
    seed: int = 0
    """Seed of the data and of the starts."""
    data: str | None = None
    """A file of your own measurements (npz with y and one of X; A; rows, cols; a) instead of `measurements`."""

    def __post_init__(self) -> None:
        for name, least in (("d", 2), ("r", 1), ("seed", 0), *((("n", 1),) if self.n is not None else ())):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")
        if self.r > self.d and self.data is None:
            raise ValueError(f"`r` must be at most d = {self.d}; got {self.r}.")
        if (self.n or 0) * self.d > MOST_ENTRIES:
            raise ValueError(f"n x d = {self.n} x {self.d} is too large to be made; take at most {MOST_ENTRIES:.0e}.")
        if self.d * self.r > MOST_UNKNOWNS and self.data is None:
            raise ValueError(
                f"d x r = {self.d} x {self.r} is too large: the Hessian in U is formed up to {MOST_UNKNOWNS} entries."
            )
        if not 1e-30 <= self.scale <= 1e3:
            raise ValueError(f"`scale` must lie between 1e-30 and 1e3; got {self.scale!r}.")
        if not 0 < self.step < 100:
            raise ValueError(f"`step` must be positive and below 100; got {self.step!r}.")
        for name, allowed in (("measurements", ("gaussian", "completion")), ("loss", tuple(LOSSES))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")

    # -- instances -----------------------------------------------------------------------------------------------

    def instance(self) -> Measurements:
        """The measurements that are trained on."""
        if self.data is not None:
            found = load_measurements(self.data)
            if not found.y.any():
                raise ValueError(
                    f"{self.data}: `y` is all zero, which Q = 0 meets: the network shrinks to nothing, and there is no "
                    "choice to look at."
                )
            return in_range(found)
        if self.measurements == "completion":
            entries = self.d * (self.d + 1) // 2
            n = math.ceil(0.85 * entries) if self.n is None else self.n
            return completion_measurements(n, self.d, self.r, seed=self.seed)
        return gaussian_measurements(40 if self.n is None else self.n, self.d, self.r, seed=self.seed)

    def start(self, measurements: Measurements, notes: list[str]) -> Float[np.ndarray, "d r"]:
        """The spectral start for normal rows; else a random factor whose outputs are `scale` times the targets."""
        d = measurements.d
        if self.r > d:
            raise ValueError(f"`r` is {self.r}, and the measured matrix has {d} rows; take `--r {d}` or less.")
        U = np.random.default_rng([self.seed, 43]).standard_normal((d, self.r))
        size = float(np.linalg.norm(measurements.y))
        outputs = float(np.linalg.norm(measurements.apply_factor(U)))
        if size > 0 and outputs > 0:
            U *= math.sqrt(self.scale) * math.sqrt(size / outputs)
        if self.data is None and isinstance(measurements, RankOneMeasurements):
            found = spectral_start(measurements.X, measurements.y, rank=self.r)
            if found.n_positive < self.r:
                notes.append(
                    f"the spectral start has {found.n_positive} of {self.r} columns; the others were drawn at random."
                )
            return np.where(np.arange(self.r) < found.n_positive, found.factor, U)
        return U

    def experiment(self, measurements: Measurements, start: np.ndarray, label: str, **options: Any) -> Experiment:
        """Flow and descent from `start`; `options` go to `run_experiment`."""
        options = {"loss": self.loss, "rank": self.r, "step": self.step, **options}
        return run_experiment(measurements, start, label=label, **options)

    def planted_factor(self) -> Float[np.ndarray, "d r"]:
        """The factor of the claims about random rows, of dimension 8 at most."""
        d = min(self.d, LARGEST_RANDOM)
        return np.random.default_rng([self.seed, 48]).standard_normal((d, min(self.r, d)))

    def commuting(self, *, tied: bool = False) -> tuple[Commuting, int]:
        """Drawn commuting measurements, two of a matrix with 4 to 8 rows, and the number of draws."""
        least, largest = COMMUTING_DIMENSIONS
        return drawn(min(max(self.d, least), largest), 2, self.seed, tied=tied)

    def shape(self, d: int) -> Float[np.ndarray, " d"]:
        """The weights w of small starts `eps^2 w`: between 0.3 and 3."""
        return np.random.default_rng([self.seed, 46]).uniform(0.3, 3.0, d)

    # -- the check -----------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Train on the measurements, judge the geometry; then the claims about random rows and about commuting ones.

        Raises `ValueError` for data or options that cannot be used, in the words in which they were given.
        """
        progress("data", 0.0)
        measurements = self.instance()
        notes = [*self.ignored_options(), *measurements.notes]
        label = "data" if self.data is not None else self.measurements
        start = self.start(measurements, notes)
        progress("flow and descent", 0.02)
        e = self.experiment(measurements, start, label)
        verdicts: list[Verdict] = []
        for claim in (horizontal_gradient, quotient_flow_claim, congruence, exponential_rate, linear_rate):
            progress("geometry", 0.05 + 0.03 * len(verdicts))
            verdicts.append(claim(e))
        verdicts += curvature_claims(e)
        arrays: dict[str, xr.Dataset] = run_arrays(e)
        if not e.interpolates:
            notes.append(
                f"the flow did not end at an interpolator ({e.flow.ending}, relative residual "
                f"{e.flow.figures.residual:.1e}): what rests on one is left undecided."
            )
        skipped: dict[str, str] = {}
        settings = {**dataclasses.asdict(self), "n": measurements.n, "d": measurements.d}
        if label == "gaussian":
            if measurements.d > LARGEST_RANDOM:
                notes.append(f"the claims about random rows are judged in {LARGEST_RANDOM} dimensions.")
            found, tables = self.random_claims(Law(), lambda text, share: progress(text, 0.3 + 0.45 * share))
            verdicts += found
            arrays |= tables
        else:
            skipped |= dict.fromkeys(_RANDOM, "about normal rows, which were not drawn")
        found, tables, reasons = self.entropy_claims(
            measurements, settings, lambda text, share: progress(text, 0.75 + 0.25 * share)
        )
        progress("done", 1.0)
        return Findings(
            verdicts=(*verdicts, *found),
            not_applicable=skipped | reasons,
            settings=settings,
            arrays=arrays | tables,
            notes=tuple(notes),
        )

    def random_claims(
        self,
        law: Law,
        progress: Callable[[str, float], None],
        *,
        pairs: tuple[tuple[int, int], ...] = PAIRS,
    ) -> tuple[list[Verdict], dict[str, xr.Dataset]]:
        """Curvature, concentration, the spectral start and recovery (at these `(d, r)`) for rows of the law."""
        U = self.planted_factor()
        progress("concentration", 0.0)
        verdicts, table = concentration(U, law, seed=self.seed)
        verdicts.insert(0, population_curvature(U, law, seed=self.seed))
        found, diagram = recovery(
            law, seed=self.seed, pairs=pairs, progress=lambda share: progress("recovery", 0.35 + 0.65 * share)
        )
        return [*verdicts, found], {"gaussian/concentration": table, "gaussian/recovery": diagram}

    def entropy_claims(
        self, measurements: Measurements, settings: dict[str, Any], progress: Callable[[str, float], None]
    ) -> tuple[list[Verdict], dict[str, xr.Dataset], dict[str, str]]:
        """The claims about commuting measurements: the user's own where they commute, else drawn ones."""
        tied: Commuting | None = None
        reasons: dict[str, str] = {}
        if self.data is None:
            instance, settings["draws"] = self.commuting()
            tied, _ = self.commuting(tied=True)
        else:
            own = as_commuting(measurements)
            if own is None:
                return [], {}, dict.fromkeys(_ENTROPY, _not_commuting(measurements))
            instance = Commuting(own)
            if instance.least_trace.status != "optimal":
                return [], {}, dict.fromkeys(_ENTROPY, f"no q >= 0 meets the data: {instance.least_trace.reason}")
            if not instance.interior:
                reason = "no q > 0 meets the data, only ones with zeros, which are approached like 1/t"
                reasons |= dict.fromkeys(_ENTROPY[1:], reason)
            elif instance.face.size == own.d:
                reasons |= dict.fromkeys(_ENTROPY[2:4], "every matrix that meets these data has the same trace")
            elif not instance.vertex:
                tied = instance
        m = instance.measurements
        Q0s, weights = starts(m, self.seed), self.shape(m.d)
        progress("entropy", 0.0)
        first, path = mirror(m, Q0s[1], self.loss)
        progress("entropy", 0.2)
        verdicts, tables = [first], {}
        if path is not None:
            tables["commuting/mirror"] = path
        if "bregman-projection" not in reasons:
            verdicts.append(bregman(m, self.loss, Q0s))
        progress("least trace", 0.4)
        if "minimum-trace" not in reasons:
            found, tables["commuting/least-trace"] = minimum_trace(instance, weights, self.loss)
            verdicts.append(found)
        progress("least trace", 0.6)
        if "weighted-entropy-on-face" in reasons:
            pass
        elif tied is None:
            reasons["weighted-entropy-on-face"] = "the solution of least trace is unique: there is no face"
        else:
            verdicts.append(weighted_entropy(tied, self.shape(tied.measurements.d), self.loss))
        progress("finite steps", 0.7)
        if "finite-step" not in reasons:
            found, tables["commuting/steps"] = finite_steps(instance, np.log(m.diagonal(Q0s[1])), self.loss)
            verdicts += found
        return verdicts, tables, reasons

    def ignored_options(self) -> list[str]:
        """A sentence on the options that were set and that the data leave no room for."""
        names = ("measurements", "n", "d") if self.data is not None else ()
        if self.data is None and self.measurements == "gaussian":
            names = ("scale",)
        return unused(self, names, "with these data")

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _quadratic_counters.counters(self)


def as_commuting(measurements: Measurements) -> CommutingMeasurements | None:
    """The same measurements in their common basis, or `None` when they do not commute (or are too many to tell)."""
    if isinstance(measurements, CommutingMeasurements):
        return measurements
    if isinstance(measurements, EntryMeasurements) and (measurements.rows == measurements.cols).all():
        return CommutingMeasurements(a=np.eye(measurements.d)[measurements.rows], y=measurements.y)
    if _too_many(measurements) or commute(measurements) > 1e-12:
        return None
    # A combination with random weights has the common eigenvectors, and no others, with probability one.
    A = measurements.matrices()
    norms = np.where(measurements.norms > 0, measurements.norms, 1.0)
    weights = np.random.default_rng(0).standard_normal(measurements.n) / norms
    V = np.linalg.eigh(np.einsum("n,nab->ab", weights, A))[1]
    a = np.einsum("ai,nab,bi->ni", V, A, V, optimize=True)
    return CommutingMeasurements(a=a, V=V, y=measurements.y)


def _too_many(measurements: Measurements) -> bool:
    """Whether all commutators would take too long, or too much memory."""
    return measurements.n > MOST_COMPARED or (measurements.n * measurements.d) ** 2 > MOST_COMMUTATORS


def _not_commuting(measurements: Measurements) -> str:
    if _too_many(measurements):
        return (
            f"about measurements that commute; whether these {measurements.n} of {measurements.d} rows do was not "
            f"looked at (it is for at most {MOST_COMPARED}): pass them as `a` and `V`"
        )
    return "about measurements that commute; these do not"


def in_range(measurements: Measurements) -> Measurements:
    """The same measurements; in units of their own, powers of two, where fourth powers would leave double precision."""
    e_A = measurements.exponent
    e_y = math.frexp(float(np.abs(measurements.y).max()))[1]
    if max(abs(e_A), abs(e_y)) <= LARGEST_EXPONENT:
        return measurements
    e_A, e_y = e_A + e_A % 2, e_y + e_y % 2  # even: rows and factors have roots of these
    scaled = measurements.times(-e_A, -e_y)
    note = (
        f"the measurements were scaled by 2**{-e_A} and the targets by 2**{-e_y}, exactly; times, rates and arrays are "
        "in these units."
    )
    return dataclasses.replace(scaled, name=measurements.name, notes=(*measurements.notes, note))
