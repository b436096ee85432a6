"""Early stopping: how long should gradient descent train a classifier on noisy labels? See `EarlyStopping`."""

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ClassVar

from ..._threads import one_blas_thread
from ...claims import Verdict
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _stopping_counters
from ._stopping_arrays import arrays
from ._stopping_claims import (
    best_interpolator_grows,
    best_interpolator_loses,
    hold_out,
    interpolator_floor,
    oracle_excess_falls,
    stopping_time_grows,
    what_is_left_out,
)
from ._stopping_draws import Run, Setting, draw_seed, rows_held
from ._stopping_geometry import bayes_direction, calibration, quadratic_excess
from ._stopping_spectra import MOST_ENTRIES, repeated, settings
from ._stopping_statistics import Runs

INTERPOLATION = ("interpolator-floor", "best-interpolator-grows", "best-interpolator-loses", "hold-out")
MOST = {"sizes": 5_000, "draws": 10_000, "interpolators": 10_000, "n_steps": 100_000}
"""More than a run can do in a day; of rows, as a sample's Gram matrix is held."""
STATED = (
    "stated by the authors and not tested: that early stopping attains the best rate over all classifiers (their lower "
    "bound), and that interpolating classifiers may need exponentially more samples."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyStopping(AbstractSystem):
    """Early stopping: how long should gradient descent train a classifier on noisy labels?

    Setting. Two Gaussian classes of one covariance, more directions than rows, and labels of which a share p is
    flipped: clean label y* = +-1, `x = y* mu + Sigma^{1/2} z`, `y = -y*` with probability p. Gradient descent from zero
    on the logistic loss of n rows. The rows are separable: after long enough it fits every flipped label, and its
    direction tends to the maximum margin. Stopped in time it does not.

    Stated by the authors (abstract only; exact theorems, constants and settings are not known here): with an oracle's
    stopping time the excess 0-1 risk is minimax-optimal for polynomially and exponentially falling spectra, with a
    lower bound over all classifiers; an excess logistic risk bounds the excess 0-1 risk without the usual square root,
    although the logistic model is wrong under flips; interpolating classifiers may need exponentially more samples.

    Derived here: everything that is computed. 0-1 and logistic risks as functions of two numbers, the angle theta to
    the Bayes direction `Sigma^{-1} mu` and the size, both in the metric of Sigma; c* from a problem in one variable;
    both calibration constants; the best of all linear interpolators, by projection onto a cone. The spectra, the
    direction `Sigma^{-1} mu = C i^-decay` scaled to `r = (mu' Sigma^{-1} mu)^{1/2}`, sizes and seeds are a choice made
    here, and so is the form in which each claim is tested.

    Claims, on each spectrum. Excesses are over the Bayes risk and exact given the sample; intervals are of 95%, over
    samples.
    - `oracle-excess-falls` (upper bound): the least excess along the path falls with n.
    - `stopping-time-grows` (lower bound): the time at which it is reached grows like a power of n.
    - `interpolator-floor` (lower bound): the maximum-margin classifier's excess does not fall with n, and is 10 times
      the oracle's at every n (the margin is certified).
    - `best-interpolator-grows` (lower bound): the excess of the best linear interpolator, which knows mu and Sigma,
      grows with n. At the smallest n it is better than the stopped path, from the second largest on worse.
    - `best-interpolator-loses` (lower bound): at the largest n it has 3 times the oracle's excess.
    - `hold-out` (upper bound): stopping by rows held out is nearer to the oracle than to interpolation, in logs.
    - `quadratic-excess` (equality): the excess is `(1-2p) phi(r) r theta^2/2 (1 + O(theta^2))`, the rest bounded.
    - `calibration` (upper bound): excess 0-1 risk is at most K times the excess logistic risk, K the supremum over all
      weight vectors. The local constant at the minimiser is smaller, and not a bound along paths.
    - `bayes-direction` (equality): the population's logistic loss is least at `c* Sigma^{-1} mu`.

    Reported and not judged: slopes in n beside the rates of a heuristic, bias `1/(eta t)` against variance
    `#{i: lam_i eta t > 1}/n`: `n^-a/(a+1)` for `lam_i = i^-a`, `log n / n` for exponential spectra. At these n the
    slopes are far from them.

    Not checked: the lower bound over all classifiers; "exponentially more samples"; classes that are not Gaussian;
    flips that depend on x.
    """

    title: ClassVar[str] = "early stopping: how long should gradient descent train a classifier on noisy labels?"

    sizes: tuple[int, ...] = (100, 200, 400, 800)
    """Numbers of rows."""
    polynomial: tuple[float, ...] = (1.2, 2.0)
    """Exponents a of spectra i^-a."""
    exponential: tuple[float, ...] = (0.08,)
    """Rates of spectra e^(-rate (i - 1))."""
    eigenvalues: tuple[float, ...] | None = None
    """Eigenvalues of your own, in place of these spectra."""
    spectrum: str | None = None
    """A file of your own eigenvalues (text, or .npy), in place of these spectra."""
    flips: float = 0.1
    """Probability p with which a label is flipped."""
    r: float = 2.0
    """Half the distance of the two means, in standard deviations: on clean labels the Bayes risk is Phi(-r)."""
    decay: float = 0.6
    """The Bayes direction falls like i^-decay."""
    dim: int = 2000
    """Directions of the spectra that are given by a formula."""
    draws: int = 40
    """Samples of the two largest sizes; of the smallest two and a half times as many, of others in between half. On a
    second spectrum, and further ones, half of all these."""
    interpolators: int = 12
    """Of the largest size, samples with the best interpolator, and a quarter as many with the maximum margin; of others
    more."""
    n_steps: int = 200
    """Steps of descent, of size 4 over the largest eigenvalue of X'X/n."""
    held_out: float = 0.25
    """Share of the rows by which hold-out chooses the time."""
    seed: int = 0
    """Seed of all samples."""

    def __post_init__(self) -> None:
        for name in ("sizes", "polynomial", "exponential"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.eigenvalues is not None:
            object.__setattr__(self, "eigenvalues", tuple(self.eigenvalues))
            if not self.eigenvalues:
                raise ValueError("`eigenvalues` holds no numbers; give at least one, or leave the option out.")
        for name, least in (("dim", 2), ("draws", 2), ("interpolators", 2), ("n_steps", 2), ("seed", 0)):
            check_whole(name, getattr(self, name), least)
        for size in self.sizes:
            check_whole("sizes", size, 8)
        for name, most in MOST.items():
            value = max(self.sizes, default=0) if name == "sizes" else getattr(self, name)
            if value > most:
                raise ValueError(f"`{name}` may be at most {most}; got {value}.")
        if len(set(self.sizes)) < 2:
            raise ValueError(f"`sizes` needs two numbers at least, to see a slope; got {self.sizes!r}.")
        if max(self.sizes) * self.dim > MOST_ENTRIES:
            raise ValueError(
                f"{max(self.sizes)} rows of {self.dim} numbers are too many: the product may be at most {MOST_ENTRIES}."
            )
        for name, low, high in (("polynomial", 0.0, 20.0), ("exponential", 0.0, 100.0)):
            for value in getattr(self, name):
                if not low < value <= high:
                    raise ValueError(f"`{name}` must lie between {low:g} (excluded) and {high:g}; got {value!r}.")
        if not 0 <= self.flips < 0.5:
            raise ValueError(
                f"`flips`, the probability that a label is flipped, must be at least 0 and less than 1/2; "
                f"got {self.flips!r}."
            )
        if not 0.1 <= self.r <= 20:  # beyond, excesses are no doubles
            raise ValueError(f"`r` must lie between 0.1 and 20; got {self.r!r}.")
        if not (math.isfinite(self.decay) and abs(self.decay) <= 10):
            raise ValueError(f"`decay` must lie between -10 and 10; got {self.decay!r}.")
        if not 0 < self.held_out < 1:
            raise ValueError(f"`held_out` must lie between 0 and 1; got {self.held_out!r}.")
        for n in sorted(self.sizes):
            if rows_held(self.held_out, n) >= n:
                raise ValueError(
                    f"`held_out` {self.held_out:g} leaves no row to train on at n = {n}; give a smaller share, or "
                    "larger `sizes`."
                )
        if not (self.polynomial or self.exponential or self.eigenvalues or self.spectrum is not None):
            raise ValueError("there is no spectrum: give some `polynomial`, `exponential` or `eigenvalues`.")

    # -- samples --------------------------------------------------------------------------------------------------

    def runs(self, setting: Setting, *, role: int = 0, progress: Progress = silent) -> dict[int, list[Run]]:
        """The samples of every size, ascending, run and judged; `role` tells apart the parts of one check."""
        found: dict[int, list[Run]] = {}
        sizes = sorted(set(self.sizes))
        # Two samples at a time: most of the work is BLAS and random numbers, which do not hold the interpreter. Each
        # sample has its own seed, so that they are the same in any order.
        pool = ThreadPoolExecutor(max_workers=2)
        try:
            for k, n in enumerate(sizes):
                count, best, margin = self.counts(n)

                def run(i: int, n: int = n, best: int = best, margin: int = margin) -> Run:
                    return setting.run(n, draw_seed(self.seed, role, n, i), best=i < best, margin=i < margin)

                found[n] = []
                for one in in_order(pool, run, count):
                    # What a sample costs grows a little faster than its rows.
                    progress(f"{setting.name}, n = {n}", (sum(sizes[:k]) + n * len(found[n]) / count) / sum(sizes))
                    found[n].append(one)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return found

    def counts(self, n: int) -> tuple[int, int, int]:
        """How many samples of n rows there are, with the best interpolator, and with the maximum margin.

        The maximum margin is nearest to ten times the oracle at the smallest size, where samples cost least; at the
        second largest the best interpolator is nearest to the stopped path, and the maximum margin, which is dear at
        the largest, has a lever on its slope; others in between do little for one.
        """
        if n == min(self.sizes):
            count = 5 * self.draws // 2
            return count, count, count
        second, largest = sorted(set(self.sizes))[-2:]
        count = self.draws if n >= second else max(2, self.draws // 2)
        found = self.interpolators * largest / n
        if n == second:  # where the best interpolator is compared in pairs
            return count, count, min(count, max(2, round(found / 2)))
        return count, min(count, round(found)), min(count, max(2, round(found / 4)))

    # -- the check ------------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Draw samples from each spectrum, run descent, find the interpolators, judge every claim.

        Raises `ValueError` for a spectrum that cannot be used, in the words in which it was given.
        """
        with one_blas_thread():
            return self._check(progress)

    def _check(self, progress: Progress) -> Findings:
        chosen = list(settings(self))
        verdicts, missing, made, notes = [], {}, {}, [STATED, *self.ignored_options(), *repeated(self)]
        for k, setting in enumerate(chosen):

            def part(text: str, fraction: float, k: int = k) -> None:
                progress(text, (k + 0.97 * fraction) / len(chosen))

            # The claims are closest to their bounds on the flattest spectrum, which comes first.
            thinned = self if k == 0 else dataclasses.replace(self, draws=max(2, self.draws // 2))
            runs = thinned.runs(setting, progress=part)
            judged, reason = self.judge(setting, runs)
            verdicts += judged
            if reason is not None:
                missing |= dict.fromkeys(INTERPOLATION, reason)
            made |= arrays(setting, runs, seed=self.seed)
            notes += _slopes(setting, judged)
            notes += [f"{setting.name}: {sentence}" for sentence in what_is_left_out(runs)]
        progress("done", 1.0)
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=missing,
            settings={**dataclasses.asdict(self), "spectra": [setting.name for setting in chosen]},
            arrays=made,
            notes=tuple(notes),
        )

    def judge(self, setting: Setting, runs: Runs) -> tuple[list[Verdict], str | None]:
        """Every claim on one spectrum, and why those on interpolation do not apply, if they do not."""
        found = [oracle_excess_falls(setting, runs), stopping_time_grows(setting, runs)]
        reason = no_interpolator(setting, runs)
        if reason is None:
            found += [
                interpolator_floor(setting, runs),
                best_interpolator_grows(setting, runs),
                best_interpolator_loses(setting, runs),
                hold_out(setting, runs),
            ]
        found += [
            quadratic_excess(setting, runs, seed=self.seed),
            calibration(setting, runs),
            bayes_direction(setting, runs, seed=self.seed),
        ]
        return found, reason

    def ignored_options(self) -> list[str]:
        """A sentence on options that were set and have no part in the run."""
        if self.eigenvalues is None and self.spectrum is None:
            return []
        return unused(self, ("polynomial", "exponential", "dim"), "with a spectrum of your own")

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _stopping_counters.counters(self)


def in_order(pool: Executor, run: Callable[[int], Run], count: int) -> Iterator[Run]:
    """`run(0)`, `run(1)`, ..., in this order, of which only a few are waiting at a time."""
    waiting: deque[Future[Run]] = deque()
    for i in range(count):
        waiting.append(pool.submit(run, i))
        if len(waiting) == 4:  # two that run, and one after each
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def no_interpolator(setting: Setting, runs: Runs) -> str | None:
    """Why there are no interpolators to speak of: samples of some size that no linear classifier fits."""
    for n, some in runs.items():
        if not any(run.margin_angle >= 0 for run in some):
            rank = f"{setting.mixture.d} directions, effective rank {setting.effective_rank:.3g}"
            return f"no sample of {n} rows was certified to be separable ({rank})."
    return None


def _slopes(setting: Setting, verdicts: list[Verdict]) -> list[str]:
    """The slope of the oracle's excess beside the heuristic's rate."""
    v = next(v for v in verdicts if v.claim == "oracle-excess-falls")
    if not math.isfinite(v.measured):
        return []
    beside = f", {setting.exponent:.2f} over these n" if math.isfinite(setting.exponent) else ""
    power = f"like n^{round(v.measured, 2) + 0.0:.2f}"  # no minus before a zero
    if abs(v.measured) <= v.slack:
        seen = f"neither falls nor grows that one could tell, {power}"
    else:
        seen = f"falls {power}" if v.measured < 0 else f"grows {power}"
    return [
        f"{setting.name}: the oracle's excess {seen} (+- {v.slack:.2f}); rate of the heuristic: "
        f"{setting.rate}{beside}. Reported, not judged."
    ]
