"""Smoothed sign descent with annealed stability: which maximum margin between l2 and l-infinity does it select?"""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...data.classification import ClassificationData
from ...data.classification_files import load_classification
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _sign_counters, _sign_diagnostics, _sign_table
from ._sign_arrays import crossover_arrays, path_arrays, run_arrays
from ._sign_claims import barrier_limit, envelope, kl_recursion, observed_rate, plain_envelope, primal_dual
from ._sign_draws import setting_of
from ._sign_ends import affordable, crossovers, fixed_eps_crossover, l2_endpoint, linf_endpoint
from ._sign_run import Run, run
from ._sign_setting import Setting, named, power_of_two_below, unequal_weights
from ._sign_user import inseparable, told_of_rows

if TYPE_CHECKING:
    import xarray as xr

MOST_WORK, COARSE_WORK = 2e9, 5e8
"""Of a run, and of all crossovers together; of a run in coarse steps. See `Setting.affordable_steps`."""

LEAST_STEPS, STEPS, MOST_STEPS = 1000, 200_000, 1_000_000
"""Of a run: the fewest that can be asked for; where nothing is asked for, as many, and more where v takes longer."""

SETTLED = 3.0
"""Times of `Setting.settling` that a run is given, so that the last decade of S shows the rate."""

STEP, OWN_STEP = 0.08, 0.3
"""The step size for drawn rows and for a user's own. With the first the sum of divergences is below a tenth of KL_0 on
the drawn rows of every seed; on the user's own, which are larger as a rule, so is the second, and arrives sooner."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmoothedSignDescent(AbstractSystem):
    """Smoothed sign descent with annealed stability: which margin between l2 and l-infinity does it select?

    Setting. Linear classification of separable rows `z_i = y_i x_i` with weighted exponential loss `L(w) = sum_i c_i
    exp(-z_i'w)`, g = -grad L. In every coordinate

        w <- w + eta g / (|g| + eps),     eps <- eps e^{-kappa eta},     S = sum of the step sizes:

    sign descent where g is large beside eps, gradient descent where it is small. eps falls with S at the rate kappa,
    between 0 and gamma_inf, the largest l-infinity margin `max min_i z_i'v` over `|v|_inf <= 1`. With `lambda_i = c_i
    e^{-z_i'w}/eps` the step is `v = u/(1 + |u|)` at `u = Z'lambda`, the gradient of `B*(u) = |u| - log(1 + |u|)`.

    The limit problem, with its dual:

        min_v sum_j B(v_j)  over  Z v >= kappa,                  B(v) = -|v| - log(1 - |v|)
        max_{lambda >= 0}  D(lambda) = kappa 1'lambda - sum_j B*((Z'lambda)_j).

    Stated by the authors (abstract of "stability-annealed smoothed sign descent"; the body was not read): normalised
    iterates tend to the minimiser of a convex Burg-type barrier over a margin slice; an exact rewriting as entropic
    mirror ascent on a concave dual; a recursion of Kullback-Leibler divergences; an explicit envelope of order
    S^(-1/2); both endpoints of the family; the crossover under a fixed eps in cumulative time; diagnostics for logistic
    tails and adaptive variants.

    Reconstructed here, from that abstract: every formula on this page, the schedule of eps and the constants of the
    envelope. All items of the abstract are met by it; that is no proof that the authors' formulas are these.

    Claims. `r` is a rate kappa = r gamma_inf; a run is named by it.
    - `barrier-limit` (equality): the last smoothed sign is the barrier's minimiser v*, to 1e-6 of its size, and
      w/S is on its way there; also with weights over four decades, which move the start of lambda and not the limit.
    - `primal-dual` (invariant): lambda from w and eps moves by `exp(eta (kappa - Z v))` in every step, to rounding.
    - `kl-recursion` (invariant): `KL(l*, l_{t+1}) = KL(l*, l_t) - eta <grad D(l_t), l* - l_t> + KL(l_t, l_{t+1})` in
      every step, to rounding.
    - `envelope` (upper bound): `|w/S - v*| <= |w_0|/S + (2 (KL(l*, l_0) + sum KL(l_t, l_{t+1}))/S)^(1/2)` in every
      step, for every step size (small ones, and `coarse`).
    - `plain-envelope` (upper bound): the same without the sum, in every step; assumes small steps.
    - `observed-rate` (rate): |w/S - v*| falls faster than S^-0.9. It is S^-1: v settles exponentially, so that w - S v*
      has a limit. Derived here; the authors' envelope allows S^-1/2.
    - `l2-endpoint` (equality): v*(kappa)/kappa is the Euclidean maximum margin as kappa falls, within a bound of order
      kappa that is derived here.
    - `linf-endpoint` (equality): v*(kappa) is the l-infinity maximum margin as kappa tends to gamma_inf, within a bound
      of order gamma_inf - kappa that is derived here.
    - `fixed-eps-crossover` (equality): with a fixed eps, S until every |g_j| is below eps grows by 1/gamma_inf with
      log(1/eps), between the two smallest eps.

    A run that was not given the time to arrive is inconclusive, and says how many steps would do; so is a claim whose
    limit no solver found.

    Diagnostics, reported as arrays and notes and not judged: logistic loss, a fixed eps, Adam and RMSProp with the
    annealed eps, signs of a momentum; and a table of optimisers (optax's own) by norms, each cell the margin that the
    optimiser has reached over the largest, which is certified.

    Not checked: the authors' own constants; data that are separable with several l-infinity maximisers (the barrier's
    limit at that end is inconclusive there).
    """

    title: ClassVar[str] = "smoothed sign descent: which maximum margin between l2 and l-infinity does it select?"

    n: int = 6
    """Rows that are drawn, at least 2."""
    d: int = 4
    """Their columns, at least 2: with one there is nothing between the two margins."""
    kappas: tuple[float, ...] = (0.1, 0.5, 0.9)
    """Rates at which eps falls, as shares of gamma_inf."""
    step: float | None = None
    """Step size, as a share of the largest stable one (at the limit or at the start, whichever is smaller). 0.08 when
    not given, 0.3 with `data`."""
    n_steps: int | None = None
    """Steps of each run, at least 1000. When not given 200 000, up to 1 000 000 where v takes longer to settle, and
    fewer on large data."""
    coarse: tuple[float, ...] = (0.9, 1.5)
    """Further step sizes in the same unit, for the envelope at the middle rate."""
    eps0: float = 1.0
    """eps at the start, over the largest entry of the gradient there."""
    eps: tuple[float, ...] = (1e-3, 1e-6, 1e-12, 1e-25, 1e-50, 1e-100, 1e-200, 1e-300)
    """Values at which eps is held fixed, for the crossover, in the same unit."""
    crossover_step: float = 0.25
    """Step size of the runs with a fixed eps, over gamma_inf / (largest |z_i|_1)^2."""
    adam_eps: float = 1e-8
    """eps of Adam in the table of optimisers, in the gradient's own unit."""
    optimiser_steps: int = 20_000
    """Steps of each optimiser in the table, at least 1000 (Adam takes ten times as many, which are smaller)."""
    seed: int = 0
    """Seed of all draws."""
    data: str | None = None
    """A file of your own data with two classes (CSV, Parquet, npz) instead of drawn rows."""
    target: str | None = None
    """The column of `data` with the classes; the last when not given."""
    positive: str | None = None
    """The class that counts as +1; the later in sorted order when not given."""
    intercept: bool = False
    """Add a column of ones to `data`; its weight is in the norm like the others."""

    def __post_init__(self) -> None:
        for name, least in (("n", 2), ("d", 2), ("seed", 0), ("optimiser_steps", LEAST_STEPS)):
            check_whole(name, getattr(self, name), least)
        if self.n_steps is not None:
            check_whole("n_steps", self.n_steps, LEAST_STEPS)
        for name in ("kappas", "coarse", "eps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.kappas:
            raise ValueError("`kappas` is empty; give at least one rate between 0 and 1.")
        for kappa in self.kappas:
            if not 0 < kappa < 1:
                raise ValueError(
                    f"`kappas` must lie between 0 and 1, both excluded: they are shares of gamma_inf, the largest "
                    f"l-infinity margin, from which on no point has the margin; got {kappa!r}."
                )
        for name, value in (
            *((name, getattr(self, name)) for name in ("step", "eps0", "crossover_step", "adam_eps")),
            *(("coarse", eta) for eta in self.coarse),
        ):
            if value is not None and not (1e-300 <= value <= 1e300):
                raise ValueError(f"`{name}` must lie between 1e-300 and 1e300; got {value!r}.")
        if len(set(self.eps)) < 2:
            raise ValueError(f"`eps` needs two values at least, to see a slope; got {self.eps!r}.")
        for eps in self.eps:
            if not 1e-300 <= eps < 1:
                raise ValueError(f"`eps` must lie between 1e-300 and 1; got {eps!r}.")

    # -- data -----------------------------------------------------------------------------------------------------

    def setting(self) -> Setting:
        """The drawn rows, weights one."""
        return setting_of(self.n, self.d, self.seed)[0]

    def own_data(self) -> tuple[ClassificationData, Setting]:
        """The user's data, and its rows at size one. Raises `ValueError` for data that nothing separates."""
        data = load_classification(self.data, self.target, positive=self.positive)
        if data.contradiction is not None:
            raise ValueError(f"{self.data}: {data.contradiction}")
        Z = data.Z
        if self.intercept:
            Z = np.hstack([Z, data.y[:, None]])
        largest = float(np.abs(Z).max())
        if largest == 0:
            raise ValueError(f"{self.data}: all columns are zero; nothing separates the classes.")
        unit = power_of_two_below(largest)
        setting = Setting(Z=Z / unit, weights=np.ones(len(Z)), unit=unit, label=data.target or "y")
        if not setting.separable:
            raise ValueError(f"{self.data}: {inseparable(setting, intercept=self.intercept)}")
        return data, setting

    # -- the check ------------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Solve the limits, run the dynamics, judge every claim; on drawn rows or on the user's own.

        Raises `ValueError` for data or options that cannot be used, in the words in which they were given.
        """
        with one_blas_thread():
            return self._check(progress)

    def _check(self, progress: Progress) -> Findings:
        progress("limits", 0.0)
        notes = self.ignored_options()
        if self.data is None:
            setting, told = setting_of(self.n, self.d, self.seed)
            notes += told
            if not setting.separable:
                raise ValueError(f"the drawn rows are not separable: {setting.linf.reason}")
        else:
            data, setting = self.own_data()
            notes += [*data.notes, *told_of_rows(setting, intercept=self.intercept)]
        runs, coarse = self.runs(setting, progress=progress)
        notes += self.told_of_steps(setting, runs)
        verdicts = [v for r in runs for v in claims_of(r)]
        verdicts += [envelope(r) for r in coarse]
        progress("endpoints", 0.4)
        ends, not_applicable = self.ends(setting)
        verdicts += ends
        progress("crossover", 0.45)
        found, crossover, none = self.crossovers(setting)
        not_applicable |= none
        verdicts += [] if crossover is None else [crossover]
        progress("diagnostics", 0.6)
        diagnostics = self.diagnostics(setting)
        progress("optimisers", 0.75)
        tables = self.tables(setting)
        progress("done", 1.0)
        label = setting.label
        arrays = {f"{r.label}/sign-run": run_arrays(r) for r in (*runs, *coarse)}
        arrays[f"{label}/sign-path"] = path_arrays(setting)
        if crossover is not None:
            arrays[f"{label}/sign-crossover"] = crossover_arrays(setting, found, crossover)
        if diagnostics is None:
            notes.append("no diagnostics of other dynamics: the limit at the middle rate is not solved.")
        else:
            arrays[f"{label}/sign-diagnostics"] = diagnostics
            notes += _sign_diagnostics.notes(diagnostics)
        arrays |= {
            f"{name}/sign-optimisers": table.dataset for name, table in tables.items() if table.dataset is not None
        }
        notes += [note for table in tables.values() for note in table.notes]
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=not_applicable,
            settings={
                **dataclasses.asdict(self),
                "n": setting.Z.shape[0],
                "d": setting.Z.shape[1],
                "n_steps": max(int(r.path.steps[-1]) for r in runs),
                "step": self.share,
                "unit": setting.unit,
                "gamma_inf": setting.gamma * setting.unit,
                "l2_margin": setting.l2.certificate.lower * setting.unit,
            },
            arrays=arrays,
            notes=tuple(notes),
        )

    @property
    def share(self) -> float:
        """The step size over the largest stable one."""
        return self.step if self.step is not None else STEP if self.data is None else OWN_STEP

    def steps_of(self, setting: Setting, fraction: float) -> int:
        """Steps of the run at this rate: as many as were asked for, or else what it takes and can be afforded."""
        if self.n_steps is not None:
            return self.n_steps
        wanted = SETTLED * setting.settling(fraction, eps0=self.eps0 * setting.gradient_size)
        # Infinite where the limit is not solved, and nothing is to be seen.
        steps = min(wanted / self.step_of(setting, fraction), MOST_STEPS) if math.isfinite(wanted) else STEPS
        return min(max(math.ceil(steps), STEPS), max(LEAST_STEPS, setting.affordable_steps(MOST_WORK)))

    def told_of_steps(self, setting: Setting, runs: list[Run]) -> list[str]:
        """A sentence where runs have fewer steps than usual, or more."""
        taken = {r.label: int(r.path.steps[-1]) for r in runs}
        if self.n_steps is not None:
            return []
        if min(taken.values()) < STEPS:
            return [
                f"{min(taken.values())} steps in place of {STEPS}: more take too long on {setting.Z.size} numbers, "
                "unless you ask for them (`--n-steps`)."
            ]
        more = ", ".join(f"{n} ({label})" for label, n in taken.items() if n > STEPS)
        return [f"more steps than {STEPS} where v takes longer to settle: {more}."] if more else []

    @property
    def middle(self) -> float:
        """The rate on which coarse steps, unequal weights and the diagnostics are run."""
        return sorted(self.kappas)[(len(self.kappas) - 1) // 2]

    @property
    def diagnostic_eps(self) -> float:
        """The fixed eps of the diagnostics: the one nearest to 1e-6."""
        return min(self.eps, key=lambda eps: abs(math.log(eps / 1e-6)))

    def runs(
        self, setting: Setting, n_steps: int | None = None, progress: Progress = silent
    ) -> tuple[list[Run], list[Run]]:
        """A run at each rate and one with unequal weights; runs in coarse steps."""
        rates = tuple(dict.fromkeys(self.kappas))
        found, todo = [], len(rates) + 1
        for i, fraction in enumerate(rates):
            progress(f"kappa = {named(fraction)} gamma_inf", 0.05 + 0.35 * i / todo)
            found.append(self.run(setting, fraction, n_steps=n_steps or self.steps_of(setting, fraction)))
        weighted = setting.weighted(unequal_weights(len(setting.Z), seed=self.seed))
        progress("unequal weights and coarse steps", 0.05 + 0.35 * (todo - 1) / todo)
        middle = self.middle
        several = n_steps or self.steps_of(weighted, middle)
        found.append(self.run(weighted, middle, n_steps=several, label=f"r = {named(middle)}, weighted"))
        most = max(LEAST_STEPS, setting.affordable_steps(COARSE_WORK))
        coarse = [
            self.run(
                setting,
                middle,
                # The envelope is judged in every step, and needs no arrival.
                n_steps=min(n_steps or self.n_steps or STEPS, most),
                step=share * self.step_of(setting, middle) / self.share,
                label=f"r = {named(middle)}, {named(share)} x stable step",
            )
            for share in dict.fromkeys(self.coarse)
        ]
        return found, coarse

    def run(self, setting: Setting, fraction: float, *, n_steps: int, label: str | None = None, **options) -> Run:
        """One run with this system's step and eps, in the units of `setting`, unless `options` say otherwise."""
        if "step" not in options:
            options["step"] = self.step_of(setting, fraction)
        options = {"eps0": self.eps0 * setting.gradient_size, "label": label or f"r = {named(fraction)}", **options}
        return run(setting, fraction, n_steps=n_steps, **options)

    def step_of(self, setting: Setting, fraction: float) -> float:
        """The step size of a run at this rate."""
        return self.share * setting.small_step(fraction, eps0=self.eps0 * setting.gradient_size)

    def ends(self, setting: Setting) -> tuple[list[Verdict], dict[str, str]]:
        """The verdicts on both ends of the path, or why there are none."""
        if setting.Z.shape[1] > 1:
            return [l2_endpoint(setting), linf_endpoint(setting)], {}
        reason = "in one column every margin has the same maximiser: there is no path between two ends"
        return [], {"l2-endpoint": reason, "linf-endpoint": reason}

    def crossovers(self, setting: Setting) -> tuple[list[tuple[float, float]], Verdict | None, dict[str, str]]:
        """The crossovers with their verdict; or why there is none."""
        step = self.crossover_step * setting.sign_step
        values = affordable(setting, self.eps, step=step, work=MOST_WORK)
        if len(values) < 2:
            reason = (
                f"the steps must be small, {step:.2g}, beside gamma_inf, {setting.gamma:.2g}, and would be too many"
            )
            return [], None, {"fixed-eps-crossover": reason}
        found = crossovers(setting, values, step=step)
        dropped = tuple(eps for eps in self.eps if eps not in values)
        return found, fixed_eps_crossover(setting, found, step=step, dropped=dropped), {}

    def diagnostics(self, setting: Setting) -> "xr.Dataset | None":
        """Other dynamics at the middle rate; `None` where its limit is not solved."""
        if setting.barrier(self.middle).status != "optimal":
            return None
        return _sign_diagnostics.diagnose(
            setting,
            self.middle,
            # Half the step: what memory does goes with kappa eta, and the limit that it leaves is reached sooner.
            step=STEP / self.share * self.step_of(setting, self.middle) / 2,
            eps0=self.eps0,
            fixed_eps=self.diagnostic_eps,
        )

    def tables(self, setting: Setting) -> dict[str, "_sign_table.OptimiserTable"]:
        """Optimisers by norms, on these rows and, where they were drawn, on matrices."""
        vectors = _sign_table.vectors(
            setting.Z, n_steps=self.optimiser_steps, adam_eps=self.adam_eps, unit=setting.unit
        )
        found = {setting.label: vectors}
        if self.data is None:
            found["matrices"] = _sign_table.matrices(seed=self.seed, n_steps=self.optimiser_steps)
        return found

    def ignored_options(self) -> list[str]:
        """A sentence on options that were set and have no part in the run."""
        names = ("target", "positive", "intercept") if self.data is None else ("n", "d")
        return unused(self, names, "without `--data`" if self.data is None else "with `--data`")

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _sign_counters.counters(self)


def claims_of(r: Run) -> list[Verdict]:
    """Every claim on one run."""
    return [
        barrier_limit(r),
        primal_dual(r),
        kl_recursion(r),
        envelope(r),
        plain_envelope(r),
        observed_rate(r),
    ]
