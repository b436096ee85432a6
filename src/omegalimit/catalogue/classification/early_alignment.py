"""Early alignment: how long until a linear classifier points along the maximum margin? See `EarlyAlignment`."""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...data.classification_generators import pushed_gaussians
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _alignment_claims as claims
from . import _alignment_counters, _alignment_user
from . import _alignment_times as times
from ._alignment_arrays import arrays
from ._alignment_instance import PAIR_START, Instance, fixture, instance, pair
from ._alignment_path import Path
from ._alignment_radial import radial_tangential
from ._alignment_runs import descent, flow

STATED = (
    "stated by the authors and not tested here: weak alignment within O(exp(exp(-delta))) iterations, delta > 0 the "
    "permissible error, and that this is tight. Read literally the bound tends to a constant as delta goes to zero; "
    "what delta measures is not known here."
)

LOSSES = ("exponential", "logistic")
MOST_ENTRIES = 4_000_000
MOST_STEPS = 10_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyAlignment(AbstractSystem):
    """Early alignment: how long until a linear classifier points along the maximum margin?

    Setting. Rows `z_i = y_i x_i` that some w separates, z_i'w > 0; the loss `L(w) = sum_i c_i l(z_i'w)` with l
    exponential or logistic (weights c_i = 1/n unless told otherwise), which no w minimises; gradient flow
    `w' = -grad L` and gradient descent. Let g = -grad L, rho = |w|, th = w/rho; gamma the maximum margin in the l2
    norm, u its direction, and w_perp the part of w across u. Times t are those of the flow of this L; for descent, step
    size times steps.

    Stated by the authors (abstract only; the body was not consulted): for exponential tails and separable data, weak
    alignment with the maximum-margin direction comes within O(exp(exp(-delta))) iterations, delta > 0 the permissible
    error, and that is tight; the proof goes by radial and tangential flows, without asymptotic expansion. Read
    literally the bound tends to a constant as delta goes to zero, which no accuracy can; what delta measures is not
    known here. So the bound is shown as stated, and not tested.

    Derived here: all that is tested. V is the span of the support vectors' parts across u. The V-part of w_perp
    minimises `sum_SV c_i exp(-z_i'w)` in the limit (w*, the balance solution), which exists if and only if some
    maximum-margin dual is positive on all support vectors. With B the value there and b = log(gamma^2 B),
    `gamma u'w - log t -> b`; the rest of w_perp tends to a limit that depends on start, loss and all rows, and is taken
    from the run. Once these are put in, what remains falls like a power of t, with an exponent r that is known: the
    laws below are tested in their full form, `tan(angle) = C / (log t + b)` with C = gamma |lim w_perp|, and to parts
    in 1e5. That w tends to u, and the 1/log t, are classical (Soudry et al. 2018).

    Claims.
    - `radial-tangential` (invariant; flow): d rho/dt = th'g and d th/dt = (g - (th'g) th)/rho, hence
      d th/d log rho = (g - (th'g) th)/(th'g).
    - `radius-law` (equality; flow, descent): rho ~ log t / gamma; in full, (gamma rho)^2 = (log t + b)^2 + C^2.
    - `balance-solution` (equality; flow, descent): the V-part of w_perp tends to w*.
    - `transverse-limit` (equality; flow, descent): the rest tends to a limit of its own: another start, another limit.
    - `direction-law` (equality; flow, descent): angle * log t tends to C.
    - `exponential-time` (lower bound; flow, descent): T(0.03) / T(0.3) >= 1e5 on the fixture: weak alignment is cheap,
      fine alignment exponentially dear, T(angle) = exp(C / tan(angle) - b). That is a law of small angles: at large
      ones the fixture is later than exp(C / angle), and other rows are earlier.
    - `symmetric-pair` (invariant; flow, exponential loss): for rows (gamma, a), (gamma, -a) there is a closed form.
    - `power-alignment` (rate; flow, descent): there w* = 0, the law is void, and w2 falls like t^{-(a/gamma)^2}.
    - `loss-law` (equality; flow, descent): t L(t) -> 1/gamma^2, whatever the weights.
    - `residual-identity` (equality; flow, descent): gamma^2 t c_i |l'(z_i'w)| tends to p_i with sum p_i z_i = gamma u.

    Descent takes exact steps, up to 1.9 / smoothness (the bound on the Hessian), and is then continued by the flow; its
    limits are those of the flow but for `transverse-limit`, whose limit is its own. `radial-tangential` and
    `symmetric-pair` are the flow's alone: large steps break them, see the counter-instance `large-steps`.

    On data of one's own (`data`, `target`): separable or not, with a proof either way; the margin; how many steps until
    weak and until fine alignment, and how far that answer is to be trusted.

    Not checked: the authors' bound; stochastic gradients; losses without an exponential tail (a counter-instance).
    """

    title: ClassVar[str] = "early alignment: how long until a linear classifier points along the maximum margin?"

    n: int = 40
    """Rows that are drawn."""
    d: int = 10
    """Their dimension."""
    push: float = 0.3
    """How far each row is pushed away from the plane between the classes."""
    seed: int = 0
    """Seed of the rows and of the other start."""
    loss: str = "all"
    """exponential, logistic or all; on your own data `all` is the logistic loss."""
    until_log_time: float = 92.1
    """Natural log of the time to which the flow runs at least; the default is t = 1e40. On `data` with entries beyond
    2^20, or all below its inverse, the time is that of the rows divided by a power of two: a note says which."""
    weak: float = 0.3
    """Angle of weak alignment, in radians."""
    fine: float = 0.03
    """Angle of fine alignment, in radians."""
    steps: int = 100_000
    """Steps of descent that are taken one by one, before the flow continues them."""
    step_sizes: tuple[float, ...] = (0.2, 1.9)
    """Step sizes of the drawn runs, in units of 1 / smoothness; below 2."""
    data: str | None = None
    """A file of your own rows in two classes (CSV, Parquet, npz) instead of drawn rows."""
    target: str | None = None
    """The column of `data` with the classes; the last when not given."""
    positive: str | None = None
    """The class of `data` that counts as +1; the later in sorted order when not given."""
    weight_column: str | None = None
    """A column of `data` with a positive weight for each row, which is then no feature."""
    intercept: bool = False
    """Add a column of ones to `data`: an intercept, trained like any weight and counted in the margin's norm."""
    step_size: float = 1.0
    """Step size on `data`, in units of 1 / smoothness; below 2."""
    absolute_step: float | None = None
    """Step size on `data` in its own units, instead of `step_size`."""

    def __post_init__(self) -> None:
        for name, least in (("n", 2), ("d", 2), ("seed", 0), ("steps", 10)):
            check_whole(name, getattr(self, name), least)
        if self.n * self.d > MOST_ENTRIES:
            raise ValueError(f"{self.n} x {self.d} rows are too many numbers: take at most {MOST_ENTRIES}.")
        if self.steps > MOST_STEPS:
            raise ValueError(f"`steps` must be at most {MOST_STEPS}; got {self.steps}.")
        if self.loss not in ("all", *LOSSES):
            raise ValueError(f"`loss` must be one of all, {', '.join(LOSSES)}; got {self.loss!r}.")
        if not 0 <= self.push <= 1e3:
            raise ValueError(f"`push` must lie between 0 and 1e3; got {self.push!r}.")
        if not 10 <= self.until_log_time <= 1e5:
            raise ValueError(f"`until_log_time` must lie between 10 and 1e5; got {self.until_log_time!r}.")
        if not 0 < self.fine < self.weak < math.pi / 2:
            raise ValueError(
                f"`fine` and `weak` must be angles with 0 < fine < weak < pi/2; got {self.fine!r} and {self.weak!r}."
            )
        object.__setattr__(self, "step_sizes", tuple(self.step_sizes))
        if not self.step_sizes:
            raise ValueError("`step_sizes` is empty; give at least one.")
        for name, value in (*(("step_sizes", h) for h in self.step_sizes), ("step_size", self.step_size)):
            if not 0 < value < 2:
                raise ValueError(
                    f"`{name}` must lie between 0 and 2, in units of 1 / smoothness; got {value!r}"
                    f"{'' if name == 'step_sizes' else ' (a step in the units of the data: `absolute_step`)'}."
                )
        if self.absolute_step is not None and not 0 < self.absolute_step < math.inf:
            raise ValueError(f"`absolute_step` must be a positive number; got {self.absolute_step!r}.")

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses of the run."""
        if self.loss != "all":
            return (self.loss,)
        return LOSSES if self.data is None else ("logistic",)

    @property
    def is_small(self) -> bool:
        """Whether the fine angle is one of the law's."""
        return self.fine <= times.LARGEST_FINE

    def drawn(self) -> Instance:
        """The drawn rows. Raises `ValueError` when they cannot be separated."""
        data = pushed_gaussians(self.n, self.d, push=self.push, seed=self.seed)
        return instance("drawn", data.Z)

    # -- the check ------------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Solve the maximum margin, run flow and descent, judge every claim; or all this on the user's data.

        Raises `ValueError` for data or options that cannot be used, in the words in which they were given.
        """
        with one_blas_thread():
            return self._check(progress) if self.data is None else _alignment_user.check(self, self.data, progress)

    def _check(self, progress: Progress) -> Findings:
        progress("maximum margins", 0.0)
        instances = [fixture(), self.drawn()]
        two = pair()
        verdicts: list[Verdict] = []
        paths: list[Path] = []
        not_applicable: dict[str, str] = {}
        for count, loss in enumerate(self.losses):
            progress(f"flow, {loss} loss", (count + 0.05) / len(self.losses))
            until = self.until_log_time
            flows = [flow(i, loss, until=until) for i in instances]
            others = [flow(i, loss, until=until, start=i.another_start(self.seed)) for i in instances if i.n_outside]
            on_pair = flow(two, loss, until=until, start=PAIR_START)
            verdicts.append(radial_tangential(flows))
            verdicts += self.limits(flows, others)
            if loss == "exponential":
                verdicts.append(times.symmetric_pair([on_pair]))
            verdicts.append(times.power_alignment([on_pair]))
            progress(f"descent, {loss} loss", (count + 0.3) / len(self.losses))
            steps = [self.descent(i, loss, h) for i in instances for h in self.step_sizes]
            others = [
                self.descent(i, loss, self.step_sizes[-1], start=i.another_start(self.seed))
                for i in instances
                if i.n_outside
            ]
            verdicts += self.limits(steps, others)
            verdicts.append(
                times.power_alignment([self.descent(two, loss, h, start=PAIR_START) for h in self.step_sizes])
            )
            paths += [*flows, *steps]
        if not any(i.n_outside for i in instances):
            not_applicable["transverse-limit"] = "the support vectors reach every direction across u"
        if not self.is_small:
            not_applicable["exponential-time"] = (
                f"the law is one of small angles, and `fine` is {self.fine:g} rad: take at most {times.LARGEST_FINE:g}"
            )
        if "exponential" not in self.losses:
            not_applicable["symmetric-pair"] = "the closed form is that of the exponential loss"
        progress("done", 1.0)
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=not_applicable,
            settings={**dataclasses.asdict(self), "instances": {i.name: i.summary() for i in (*instances, two)}},
            arrays=arrays(paths),
            notes=(STATED, *self.ignored_options()),
        )

    def descent(self, rows: Instance, loss: str, size: float, *, start=None) -> Path:
        """Descent on these rows with a step of this many times 1 / smoothness."""
        return descent(rows, loss, until=self.until_log_time, size=size, n_steps=self.steps, start=start)

    def limits(self, paths: list[Path], others: list[Path]) -> list[Verdict]:
        """The claims on limits and times, for the flow or for descent."""
        free = [p for p in paths if p.instance.n_outside]
        on_fixture = [p for p in paths if p.instance.name == "fixture"]
        return [
            claims.radius_law(paths),
            claims.balance_solution(paths),
            *([claims.transverse_limit(free, others)] if free else []),
            claims.direction_law(paths),
            *([times.exponential_time(on_fixture, weak=self.weak, fine=self.fine)] if self.is_small else []),
            claims.loss_law(paths),
            claims.residual_identity(paths),
        ]

    def ignored_options(self) -> list[str]:
        """A sentence on options that were set and have no part in the run."""
        names = (
            ("target", "positive", "weight_column", "intercept", "step_size", "absolute_step")
            if self.data is None
            else ("n", "d", "push", "seed", "step_sizes")
        )
        return unused(self, names, "without `--data`" if self.data is None else "with `--data`")

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _alignment_counters.counters(self)
