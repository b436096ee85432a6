"""Negative-shifted descent: how far beyond negative ridge does it pay to go? See `NegativeShiftedDescent`."""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...data.spike_designs import Tail
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _shifted_counters, _shifted_user
from ._shifted_arrays import arrays
from ._shifted_experiment import Draw, Setting, draw_seed, flat_setting
from ._shifted_filters import (
    Rows,
    anti_shrinkage,
    endpoint_pole,
    filter_formula,
    gaussian_rows,
    leading_prefix,
    one_crossing_descent,
    one_crossing_flow,
    two_crossings,
)
from ._shifted_risks import (
    amplification_rule,
    beats_endpoints,
    beats_rescaling,
    head_worth_amplifying,
    hold_out,
    risk_ratio_grows,
)
from ._shifted_spectra import bulk_barrier, floor_critical_path, squares_set_exposure, trace_sets_floor

PAIRS = ((1.3, 0.95), (1.0, 0.2), (1.0, 1.0), (1.0, 0.999), (1.0, 3.0), (0.5, 2.1), (2.0, 4.0))
"""Shifts and times at which the flow's crossing is located: on both sides of nu t = 1, on it, and beside it."""

RUNS = ((1.3, 10, 0.1), (1.3, 9, 0.1), (0.5, 100, 0.1))
"""The same for descent, (nu, k, eta), on eigenvalues up to `TOP`, within the step condition."""

TOP = 10.0
BEYOND = (1.3, 10, 0.225)
"""A run beyond the step condition whose filter crosses 1 twice."""

MOST_SPREAD = 1e4
MOST_ENTRIES = 4_000_000  # of an n x n matrix; a run holds several


@dataclasses.dataclass(frozen=True, kw_only=True)
class NegativeShiftedDescent(AbstractSystem):
    """Negative-shifted descent: how far beyond negative ridge does it pay to go?

    Setting. Linear regression with more directions than observations: a few strong ones (the head, variances lh, in
    which the signal lies) over a long weak tail. `S = X'X/n`, `g = X'y/n`; gradient descent on least squares with a
    negative ridge term, `b' = -(S - nu I) b + g`, `b(0) = 0`, stopped at a time t; and the same in steps of size eta.
    On an eigenvalue m of S it multiplies the least-norm interpolant's coefficient by the filter
    `f(m) = m / (m - nu) (1 - e^{-t (m - nu)})`. For nu below the smallest nonzero eigenvalue m_min+ it settles at an
    endpoint, negative ridge `m / (m - nu)`; for larger nu it has none, and must be stopped.

    Stated by the authors (pages and abstract of "negative-shifted gradient descent", arXiv 2607.22474; the body was not
    consulted, so no theorem numbers, constants or step conditions): dynamics and filter; the endpoint with its range;
    that the tail acts like a penalty `a = tr(Sigma_T)/n` on the head, that its squared spectrum sets the price in
    variance, and that endpoints stop at the Marchenko-Pastur barrier short of cancelling it; that the stopped path
    does not; that the modes above ridgeless are a leading prefix; the amplification rule m_i > v_i; hold-out.

    Derived here: the discrete filter; where and how often the filters cross 1 (Lambert W; the second crossing of an
    even number of large steps); that nu = a cancels the penalty for all head scales, with the law of recovery that
    holds while the bulk has width; finite-n predictions of floor and price; the constant-free hold-out inequality; and
    the form in which each claim is tested. Excess risks are exact given the design: quadratic in the filter, without
    sampling of noise or of new points.

    Claims.
    - `filter-formula` (equality; flow, descent): runs on X and y and the filter agree to rounding.
    - `one-crossing` (equality; flow, descent): f crosses 1 exactly once, for the flow at the Lambert-W point, for
      descent under `eta (m_max - nu) <= 1` where its own equation says.
    - `two-crossings` (equality; descent): beyond that condition an even number of steps crosses twice.
    - `leading-prefix` (count; flow, descent): the modes above ridgeless are those of the largest eigenvalues.
    - `endpoint-pole` (equality): the shift at which runs stop settling is m_min+.
    - `anti-shrinkage` (count): the endpoint amplifies every mode, the smaller the more.
    - `bulk-barrier` (equality): nu = a lies the bulk's half width beyond every admissible shift.
    - `trace-sets-floor` (equality): tails of one trace raise one floor, whatever else differs.
    - `squared-spectrum-sets-exposure` (equality): what fitted noise costs in the tail follows tr(Sigma_T^2).
    - `floor-critical-path` (equality): with nu = a the flow recovers the share 1 - e^{-t h} of every head, at once.
    - `beats-endpoints` (lower bound): stopped, the path nu = a has less risk than every admissible endpoint, by 10%.
    - `risk-ratio-grows` (lower bound): the ratio of the two grows like a power of n.
    - `beats-rescaling` (lower bound): with several head scales it beats every multiple of the interpolant, by 10%.
    - `amplification-rule` (equality): the risk's slope in f_i at the interpolant is 2 (v_i - m_i).
    - `head-worth-amplifying` (lower bound): on the head's modes gain is above price.
    - `hold-out` (upper bound): choosing (nu, t) by hold-out comes within the Gaussian inequality of the best pair.

    On data of one's own (`data`, `target`): the pair (nu, t) is chosen by hold-out; what needs a known covariance or
    signal is not applicable.

    Not checked: lower bounds over all estimators; noise or rows that are not Gaussian (two counter-instances break
    that); the authors' own constants.
    """

    title: ClassVar[str] = "negative-shifted descent: how far beyond negative ridge does it pay to go?"

    n: int = 200
    """Observations."""
    head: tuple[float, ...] = (4.0, 0.4)
    """Variances of the strong directions; each carries the same share of the signal's power."""
    single: float = 1.0
    """Variance of the one strong direction on which endpoints are compared and sizes swept."""
    floor: float = 1.0
    """What the tail adds to every eigenvalue, tr(Sigma_T)/n."""
    aspect: float = 40.0
    """Tail dimensions for each observation; in the sweep over sizes they grow in proportion to n."""
    sigma: float = 0.1
    """Standard deviation of the noise."""
    draws: int = 6
    """Designs that are drawn of each kind."""
    sizes: tuple[int, ...] = (100, 200, 400, 800)
    """Numbers of observations of the sweep."""
    shifts: int = 11
    """Shifts in the grid of hold-out, from 0 to twice where the weakest head is seen."""
    times: int = 16
    """Times in the grid of hold-out, over three decades."""
    alpha: float = 0.05
    """Probability with which the hold-out inequality may fail."""
    seed: int = 0
    """Seed of all draws."""
    data: str | None = None
    """A file of your own regression data (CSV, Parquet, npz) instead of drawn designs."""
    target: str | None = None
    """The column of `data` that is to be predicted; the last when not given."""
    held_out: float = 0.25
    """Share of the rows of `data` that are held out to choose by."""

    def __post_init__(self) -> None:
        for name, least in (("n", 20), ("draws", 2), ("shifts", 2), ("times", 2), ("seed", 0)):
            check_whole(name, getattr(self, name), least)
        object.__setattr__(self, "head", tuple(self.head))
        object.__setattr__(self, "sizes", tuple(self.sizes))
        for size in self.sizes:
            check_whole("sizes", size, 20)
        if len(set(self.sizes)) < 2:
            raise ValueError(f"`sizes` needs two numbers at least, to see a growth; got {self.sizes!r}.")
        if (most := max(self.n, *self.sizes)) ** 2 > MOST_ENTRIES:
            raise ValueError(f"{most} observations are too many: take at most {math.isqrt(MOST_ENTRIES)}.")
        if not self.head:
            raise ValueError("`head` is empty; give at least one variance.")
        for name, value in (
            *(("head", lam) for lam in self.head),
            *((name, getattr(self, name)) for name in ("single", "floor", "sigma")),
        ):
            if not 1e-100 <= value <= 1e100:  # squares of variances must be doubles
                raise ValueError(f"`{name}` must lie between 1e-100 and 1e100; got {value!r}.")
        scales = (*self.head, self.single, self.floor)
        if max(scales) > MOST_SPREAD * min(scales):
            raise ValueError(
                f"`head`, `single` and `floor` must lie within a factor of {MOST_SPREAD:g} of each other: runs from "
                f"the strongest to the weakest direction take that many steps; got {min(scales)!r} to {max(scales)!r}."
            )
        if not (math.isfinite(self.aspect) and 1.5 <= self.aspect <= 1e6):
            raise ValueError(
                f"`aspect` must lie between 1.5 and 1e6, so that there are more tail dimensions than observations; "
                f"got {self.aspect!r}."
            )
        for name in ("alpha", "held_out"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"`{name}` must lie between 0 and 1; got {getattr(self, name)!r}.")

    # -- designs --------------------------------------------------------------------------------------------------

    def setting(self, head: tuple[float, ...], n: int | None = None) -> Setting:
        """A flat tail under this head; with another n the floor stays and the tail lengthens like n^2."""
        n = self.n if n is None else n
        return flat_setting(n, head, floor=self.floor, aspect=self.aspect * n / self.n, sigma=self.sigma)

    def spread_setting(self) -> Setting:
        """The same trace and two tail levels, half of the trace in each: one fifth of the dimensions, the rest."""
        flat = self.setting(self.head)
        first = max(1, flat.tail.size // 5)
        second = flat.tail.size - first
        levels = flat.tail.trace / 2 / first, flat.tail.trace / 2 / second
        return dataclasses.replace(flat, tail=Tail(eigenvalues=levels, counts=(first, second)))

    def several(self) -> list[Draw]:
        """Designs with the whole head."""
        return self.setting(self.head).draws(self.draws, seed=self.seed, role=0)

    def one(self) -> list[Draw]:
        """Designs with the single head."""
        return self.setting((self.single,)).draws(self.draws, seed=self.seed, role=1)

    def sweep(self) -> list[list[Draw]]:
        """Designs of every size with the single head."""
        return [
            self.setting((self.single,), n).draws(self.draws, seed=draw_seed(self.seed, n), role=2)
            for n in sorted(set(self.sizes))
        ]

    def rows(self, draw: Draw) -> Rows:
        """The rows of a design, to run on."""
        return Rows.of(draw.design.columns())

    # -- the check ------------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Draw the designs, run flow and descent, take the risks, judge every claim; or all this on the user's data.

        Raises `ValueError` for data or options that cannot be used, in the words in which they were given.
        """
        with one_blas_thread():
            return self._check(progress) if self.data is None else _shifted_user.check(self, self.data, progress)

    def _check(self, progress: Progress) -> Findings:
        progress("filters", 0.0)
        several, one = self.several(), self.one()
        rows = self.rows(several[0])
        a = several[0].setting.a
        eta = 0.5 / float(rows.m[-1])
        verdicts: list[Verdict] = [
            *(filter_formula(gaussian_rows(40, 400, seed=self.seed), dynamics=kind) for kind in ("flow", "descent")),
            one_crossing_flow(PAIRS),
            one_crossing_descent(RUNS, TOP),
            two_crossings(*BEYOND),
            leading_prefix(rows, a, t=1 / a),
            leading_prefix(rows, a, k=max(1, round(1 / (a * eta))), eta=eta),
            endpoint_pole(gaussian_rows(40, 12, seed=self.seed)),
            anti_shrinkage(gaussian_rows(40, 12, seed=self.seed, even=True)),
        ]
        progress("spectra", 0.1)
        spread = self.spread_setting().draws(self.draws, seed=self.seed, role=3)
        verdicts += [
            bulk_barrier(several),
            trace_sets_floor([several, spread]),
            squares_set_exposure([several, spread]),
        ]
        progress("the path nu = a", 0.2)
        verdicts.append(floor_critical_path(several))
        progress("risks", 0.3)
        verdicts.append(beats_endpoints(one))
        sweep = self.sweep()
        for i, draws in enumerate(sweep):
            progress(f"risks at n = {draws[0].setting.n}", 0.35 + 0.6 * i / len(sweep))
            for draw in draws:
                _ = draw.endpoint, draw.floor_critical
        verdicts += [
            risk_ratio_grows(sweep),
            beats_rescaling(several),
            amplification_rule(seed=self.seed),
            head_worth_amplifying(several),
            self.hold_out(several),
        ]
        progress("done", 1.0)
        return Findings(
            verdicts=tuple(verdicts),
            settings={**dataclasses.asdict(self), "tail_dimensions": several[0].setting.tail.size},
            arrays=arrays(
                several[0], one[0], sweep, exponent=next(v for v in verdicts if v.claim == "risk-ratio-grows")
            ),
            notes=tuple(self.ignored_options()),
        )

    def hold_out(self, draws: list[Draw], *, losses=None) -> Verdict:
        """`hold-out` on these designs, with as many new points as observations."""
        found = [d.hold_out(self.shifts, self.times, n_points=d.setting.n, losses=losses) for d in draws]
        return hold_out(draws, found, alpha=self.alpha, fresh=losses is None)

    def ignored_options(self) -> list[str]:
        """A sentence on options that were set and have no part in the run."""
        names = ("target", "held_out") if self.data is None else tuple(_shifted_user.UNUSED)
        return unused(self, names, "without `--data`" if self.data is None else "with `--data`")

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _shifted_counters.counters(self)
