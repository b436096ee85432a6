"""Deep monomial networks: are the critical points of the parametrisation its subnetworks?"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...models.monomial import MonomialNetwork
from ...rigorous._rank_sizes import LARGE_PRIMES, check_fits
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _monomial_counters
from ._monomial_architecture import STEEP, Architecture, is_steep, searched, study
from ._monomial_arrays import architecture_arrays, separation_arrays, table_arrays, training_arrays
from ._monomial_claims import (
    below_threshold,
    criticality,
    criticality_threshold_verdict,
    generic_rank_verdict,
    listed,
    subnetworks_critical,
)
from ._monomial_separation import (
    Sweep,
    conditioning,
    first_layer_pair,
    near_redundant,
    second_layer_pair,
    shallow_pair,
    sweep,
)
from ._monomial_shallow import shallow_cases, shallow_rank_verdict
from ._monomial_table import Entry, n_entries, rank_entries
from ._monomial_thresholds import proved_threshold
from ._monomial_training import DELTAS, TARGETS, Training, check_training, train
from ._monomial_user import judge_net, load_net
from ._monomial_widths import parse_architectures, parse_widths, text_of

SEPARATIONS = tuple(range(2, 40))
"""Rows are 2^-k apart."""
MOST_DEGREE, MOST_ENTRIES = 1000, 5000
"""The largest degree of an activation, and the most entries of the table of generic ranks, see `check`."""
SHALLOW_NEURONS, SHALLOW_DEGREES = (1, 2, 3, 4), tuple(range(2, 10))


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonomialNetworks(AbstractSystem):
    """Deep monomial networks: are the critical points of the parametrisation its subnetworks?

    Setting. Fully-connected nets without biases whose activation is a power, `f = W_L (... (W_2 (W_1 x)^r)^r ...)`, of
    widths (d_0, ..., d_L). Every output is a form of degree r^(L-1) in d_0 variables. The parametrisation sends weights
    to the coefficients of the outputs. A parameter is *critical* where the rank of its differential is below the
    generic rank, the one at almost all weights. A *subnetwork* has an unneeded hidden neuron: inactive (its incoming
    row or its outgoing column is zero) or redundant (two incoming rows of a layer are proportional).

    Rescaling a neuron's row and column leaves f as it is, so that the rank is at most the *expected* one,
    `min(#weights - #hidden neurons, outputs * C(r^(L-1) + d_0 - 1, d_0 - 1))`.

    Stated by the authors (abstract; the body was not read): critical means that the Jacobian of the parametrisation is
    rank-deficient; for large enough activation degree this happens precisely at subnetworks; the proof rests on Mason's
    theorem. In an earlier paper of the group: degrees from which the generic rank is the expected one.

    Reconstructed here: "critical" as below the *generic* rank, which differs from the expected one at low degrees.

    Derived here: every formula and threshold below. Let h be the widest hidden layer. For one hidden layer it is proved
    that critical parameters are subnetworks exactly from degree 2h - 1 on (with one exception, see
    `limits/shallow_rank.py`), for some widths with two hidden layers from which degree on
    (`_monomial_thresholds.py`). For all others 2h - 1 is tested, and not proved.

    Claims. All ranks are exact: over the rationals, with a lower and an upper bound that meet.
    - `shallow-rank` (count): with two inputs and one output the rank of h pairwise non-proportional neurons is
      `min(2h, r + 1)`; the formula of the limits against exact ranks.
    - `generic-rank` (count): in a table of architectures the generic rank is the expected one at every degree from
      2h - 1 on. Where it is not below that, and from which degree on it is, is listed.
    - `subnetworks-critical` (count): every kind of subnetwork in every hidden layer is critical, from 2h - 1 on.
    - `criticality` (count): no critical parameter that is no subnetwork is found from 2h - 1 on, by a search over small
      whole numbers and by minimising the smallest singular value, each candidate decided exactly.
    - `criticality-threshold` (equality): the measured threshold, one more than the last degree with an exact witness
      against "critical exactly at subnetworks", is the proved one; where one is proved.
    - `below-threshold` (lower bound): at every degree below the threshold there is such a witness: a critical point
      that is no subnetwork, or a subnetwork that is not critical.
    - `near-redundant` (count): two rows that are 2^-k apart, k up to 39, leave the rank generic; exact arithmetic
      decides each, floats leave the nearer ones open and never claim too much.
    - `conditioning` (equality): the smallest singular value that counts falls with the separation to the power 3 for
      two neurons of two inputs (r >= 3). A threshold on floats cannot tell near-redundant from critical.

    Reported, and not judged: how often gradient descent from random starts ends near a subnetwork, with intervals; the
    distance, data, loss and starts are defined in `models/subnetworks.py` and in the notes of a run.

    Not checked: the authors' own threshold and theorem; critical points that no search meets; real weights beyond
    the doubles that were searched (a critical point that is no subnetwork and has no small whole-numbered relative
    may exist).
    """

    title: ClassVar[str] = "deep monomial networks: are the critical points of the parametrisation its subnetworks?"

    widths: tuple[str, ...] = (
        "2,3,1",
        "3,3,1",
        "3,4,1",
        "2,2,2,1",
        "2,3,2,1",
        "2,2,3,1",
        "2,3,3,1",
        "2,3,2",
        "3,2,2,2",
    )
    """Architectures, each as its widths with commas between: inputs, hidden layers, outputs."""
    degrees: tuple[int, ...] = (2, 3, 4, 5, 6, 7)
    """Degrees r of the activation x^r, from 2 to 1000."""
    table: str = "4,4,4,1"
    """The largest architecture of the table of generic ranks: all from 2 inputs and neurons a layer up to this."""
    table_degree: int = 9
    """The largest degree of the table, at least 2."""
    search_points: int | None = None
    """Small whole-numbered nets that are searched for critical points, at each architecture and degree. 4000 when not
    given, fewer in nets of more than 40 weights, none in nets of more than 350."""
    search_starts: int | None = None
    """Starts from which the smallest singular value is minimised, at each architecture and degree. 8 when not given,
    none in nets of more than 40 weights, where one takes minutes."""
    training_widths: tuple[str, ...] = ("2,2,2,1", "2,3,2,1", "3,4,1")
    """Architectures that are trained; `none` for none."""
    degree: int = 3
    """Degree of the nets that are trained, and of those in `weights`."""
    training_sizes: tuple[float, ...] = (1.0, 0.1)
    """Sizes of the starting weights, over 1/sqrt(number of incoming weights)."""
    training_points: int = 32
    """Data points in training."""
    training_starts: int = 100
    """Runs for each architecture, target and size."""
    training_steps: int = 6000
    """The most steps of a run."""
    seed: int = 0
    """Seed of all draws."""
    weights: str | None = None
    """A file with a net of your own (npz with W1, W2, ...): is it critical, is it a subnetwork? Runs nothing else."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", parse_architectures(self.widths))
        none = self.training_widths in ("none", ("none",), ())
        object.__setattr__(
            self, "training_widths", () if none else parse_architectures(self.training_widths, "training_widths")
        )
        object.__setattr__(self, "table", text_of(parse_widths(self.table, "table")))
        degrees = {checked_degree("degrees", r) for r in several("degrees", self.degrees)}
        if not degrees:
            raise ValueError("`degrees` is empty; give at least one, a whole number from 2 on.")
        object.__setattr__(self, "degrees", tuple(sorted(degrees)))
        for name in ("table_degree", "degree"):
            object.__setattr__(self, name, checked_degree(name, getattr(self, name)))
        for name, least in (
            *(("search_points", 1), ("search_starts", 0), ("training_points", 1), ("training_starts", 2)),
            *(("training_steps", 1), ("seed", 0)),
        ):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least)
        sizes = (checked_size(size) for size in several("training_sizes", self.training_sizes))
        object.__setattr__(self, "training_sizes", tuple(dict.fromkeys(sizes)))
        if not self.training_sizes:
            raise ValueError("`training_sizes` is empty; give at least one, or `training_widths` none.")
        if self.weights is not None and not isinstance(self.weights, str):
            raise TypeError(f"`weights` must be the path of an .npz file, as text; got {self.weights!r}.")
        widths = parse_widths(self.table, "table")
        n = sum(n_entries(largest, self.table_degree - 1) for largest in tables(widths))
        if n > MOST_ENTRIES:
            raise ValueError(
                f"`table` {self.table} to degree {self.table_degree} is a table of {n} generic ranks, more than "
                f"{MOST_ENTRIES}; name a smaller architecture, or a smaller `table_degree`."
            )

    # -- the check ------------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Compute the ranks, search for critical points, train; judge every claim.

        Raises `ValueError` for options that cannot be used, and for architectures whose ranks would not fit in memory.
        """
        with one_blas_thread():
            return self._own_net() if self.weights is not None else self._check(progress)

    def _own_net(self) -> Findings:
        assert self.weights is not None
        weights, notes = load_net(self.weights)
        verdicts, told = judge_net(weights, self.degree, seed=self.seed)
        names = [f.name for f in dataclasses.fields(self) if f.name not in ("weights", "degree", "seed")]
        return Findings(
            verdicts=tuple(verdicts),
            settings=dataclasses.asdict(self),
            notes=(*unused(self, names, "with `--weights`"), *notes, *told),
        )

    def _check(self, progress: Progress) -> Findings:
        progress("options", 0.0)
        self.refuse_what_does_not_fit()
        self.refuse_what_cannot_be_trained()
        entries = self.table_entries(lambda text, part: progress(text, 0.05 * part))
        cases = shallow_cases(SHALLOW_NEURONS, SHALLOW_DEGREES, seed=self.seed)
        verdicts = [
            shallow_rank_verdict(cases, "2,h,1"),
            generic_rank_verdict(entries, f"table up to {self.table}"),
        ]
        progress("near-redundant neurons", 0.05)
        sweeps = self.sweeps()
        verdicts += [near_redundant(s) for s in sweeps]
        verdicts += [conditioning(sweeps[0])]
        architectures, notes, not_applicable = [], [], {}
        for k, text in enumerate(self.widths):
            lo, hi = 0.1 + 0.5 * k / len(self.widths), 0.1 + 0.5 * (k + 1) / len(self.widths)

            def part(text: str, fraction: float, lo: float = lo, hi: float = hi) -> None:
                progress(text, lo + (hi - lo) * fraction)

            found = study(
                parse_widths(text),
                self.degrees,
                n_whole=self.search_points,
                n_starts=self.search_starts,
                seed=self.seed,
                progress=part,
            )
            architectures.append(found)
            verdicts += verdicts_of(found)
            notes += [told(found)]
            notes += told_of_search(found, self.search_points, self.search_starts)
        if not any(v.claim == "below-threshold" for v in verdicts):
            not_applicable["below-threshold"] = "no degree lies below the threshold of any architecture"
        if not any(v.claim == "criticality-threshold" for v in verdicts):
            not_applicable["criticality-threshold"] = "no threshold is proved for any of these architectures"
        trainings = self.trainings(progress)
        if trainings:
            notes += [self.told_of_data()]
        progress("done", 1.0)
        arrays = {
            "generic ranks/monomial-table": table_arrays(entries),
            **{f"{s.label}/monomial-separation": separation_arrays(s) for s in sweeps},
            **{f"{a.label}/monomial-ranks": architecture_arrays(a) for a in architectures},
            **{f"{text}/monomial-training": training_arrays(runs) for text, runs in trainings.items()},
        }
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=not_applicable,
            settings={**dataclasses.asdict(self), "searched": {a.label: a.searched for a in architectures}},
            arrays=arrays,
            notes=(*notes, *(told_of_training(runs) for runs in trainings.values())),
        )

    def refuse_what_does_not_fit(self) -> None:
        """Raise `ValueError`, before anything is run, where an exact rank would not fit in memory."""
        for text, degree in (*((text, self.degrees[-1]) for text in self.widths), (self.table, self.table_degree)):
            check_fits(MonomialNetwork(parse_widths(text), degree), 2e9, an_entry=LARGE_PRIMES)

    def refuse_what_cannot_be_trained(self) -> None:
        """Raise `ValueError`, before anything long is run, where training leaves double precision at its start."""
        for text, size, target in itertools.product(self.training_widths, self.training_sizes, TARGETS):
            check_training(
                parse_widths(text),
                self.degree,
                target,
                n=self.training_points,
                n_starts=self.training_starts,
                size=size,
                seed=self.seed,
            )

    def table_entries(self, progress: Progress = silent) -> list[Entry]:
        """The table: all architectures up to the largest, and those with the last hidden layer left out."""
        degrees = range(2, self.table_degree + 1)
        found: list[Entry] = []
        for largest in tables(parse_widths(self.table, "table")):
            found += rank_entries(largest, degrees, seed=self.seed, progress=progress)
            progress = silent  # the second table is a small part of the first
        return found

    def sweeps(self) -> list[Sweep]:
        """Near-redundant neurons in a shallow net and in each layer of a deep one."""
        families = (
            ("2,2,1, r = 3", shallow_pair),
            ("2,2,2,1, layer 1, r = 3", first_layer_pair),
            ("2,2,2,1, layer 2, r = 3", second_layer_pair),
        )
        return [sweep(make, 3, SEPARATIONS, label=label, seed=self.seed) for label, make in families]

    def trainings(self, progress: Progress = silent) -> dict[str, list[Training]]:
        """All runs, by architecture and size of the starts; in each, one for each target."""
        found: dict[str, list[Training]] = {}
        todo = list(itertools.product(self.training_widths, self.training_sizes, TARGETS))
        for k, (text, size, target) in enumerate(todo):
            progress(f"training {text}, {target}", 0.6 + 0.4 * k / len(todo))
            run = train(
                parse_widths(text),
                self.degree,
                target,
                n=self.training_points,
                n_starts=self.training_starts,
                n_steps=self.training_steps,
                size=size,
                seed=self.seed,
            )
            found.setdefault(run.label, []).append(run)
        return found

    def told_of_data(self) -> str:
        """What the runs were trained on, and what is counted, in a sentence."""
        return (
            f"training: {self.training_points} inputs uniform on the unit sphere; targets of mean square one: a net of "
            "the same widths, one with a neuron less in its widest hidden layer, or noise; halved mean square loss; "
            "normal starts. Not judged."
        )

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _monomial_counters.counters(self)


def tables(largest: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The largest architecture of the table, and the one with its last hidden layer left out, where it has two."""
    return [largest, (*largest[:2], largest[-1])] if len(largest) > 3 else [largest]


def several(name: str, value: Any) -> tuple[Any, ...]:
    """The values of an option that takes several; a single number is one."""
    if isinstance(value, str):
        raise TypeError(f"`{name}` must be numbers; got {value!r}.")
    return tuple(value) if isinstance(value, Iterable) else (value,)


def checked_degree(name: str, r: Any) -> int:
    """The degree as an `int`. Raises `ValueError` for what is no whole number from 2 on, and for what is too large."""
    if isinstance(r, bool) or not isinstance(r, int | np.integer) or r < 2:
        raise ValueError(
            f"`{name}`: a degree must be a whole number of at least 2, the power r of the activation x^r (with r = 1 "
            f"the net is linear, and another r gives no polynomial); got {r!r}."
        )
    if r > MOST_DEGREE:
        raise ValueError(
            f"`{name}`: degrees are at most {MOST_DEGREE} here (beyond it exact powers have too many digits, and "
            f"singular values leave double precision); got {r}."
        )
    return int(r)


def checked_size(size: Any) -> float:
    """A size of starts as a `float`."""
    if isinstance(size, bool) or not isinstance(size, int | float | np.integer | np.floating):
        raise TypeError(f"`training_sizes` must be numbers; got {size!r}.")
    if not 1e-6 <= size <= 1e6 or math.isnan(size):
        raise ValueError(f"`training_sizes` must lie between 1e-6 and 1e6; got {size!r}.")
    return float(size)


def verdicts_of(found: Architecture) -> list[Verdict]:
    """Every claim on one architecture."""
    proved, below = proved_threshold(found.widths), None
    verdicts = [subnetworks_critical(found), criticality(found)]
    if proved is not None:
        verdicts.append(criticality_threshold_verdict(found, *proved))
    below = below_threshold(found, threshold=None if proved is None else proved[0])
    return verdicts if below is None else [*verdicts, below]


def told(found: Architecture) -> str:
    """Both thresholds of an architecture, in words: where the degrees place them, and what that rests on."""
    proved = proved_threshold(found.widths)
    degrees = [at.degree for at in found.degrees]
    gaps = degrees[-1] - degrees[0] >= len(degrees)
    text = (
        f"{found.label}, degree{'s' if len(degrees) > 1 else ''} {listed(degrees)}"
        f"{' (no others were looked at)' if gaps else ''}: generic rank as expected {found.generic_place.text}, "
        f"critical exactly at subnetworks {found.criticality_place.text} "
    )
    if proved is None:
        rest = "" if found.criticality_place.first is None else "no witness against it is found from there on; "
        return f"{text}(measured: {rest}not proved)."
    missing = [at.degree for at in found.degrees if at.degree < proved[0] and not at.refuted]
    why = f"measured: no witness is found at {listed(missing)}" if missing else "measured"
    return f"{text}({why}; {proved[0]} is proved)."


def told_of_search(found: Architecture, n_whole: int | None, n_starts: int | None) -> list[str]:
    """What the search left out: in nets that are large, and at degrees that are steep. The two are what was asked."""
    notes, (points, starts) = [], searched(found.widths)
    shown = points if n_whole is None else n_whole
    few = n_whole is None and points < searched((1, 1, 1))[0]
    left_out = starts == 0 and n_starts is None
    if few or left_out:
        nets = f"at {shown} whole-numbered nets a degree only" if shown else "at no whole-numbered net"
        why = (
            "; the minimisation of the smallest singular value takes minutes a start in nets of this size "
            "(`--search-starts` asks for it)."
            if left_out
            else ", as each takes long in nets of this size (`--search-points` asks for more)."
        )
        notes.append(f"{found.label}: the search looks {nets}{why}")
    steep = [at.degree for at in found.degrees if is_steep(found.widths, at.degree)]
    if steep and (starts if n_starts is None else n_starts):
        notes.append(
            f"{found.label}: nothing is minimised at {listed(steep)}, where the outputs are forms of a degree beyond "
            f"{STEEP}: singular values are at rounding there. Whole-numbered nets are searched."
        )
    return notes


def told_of_training(runs: Sequence[Training]) -> str:
    """The shares within each distance, by target, in words."""
    parts = []
    for run in runs:
        near = [run.near(delta) for delta in DELTAS]
        shares = " / ".join(f"{k} ({low:.0%} to {high:.0%})" for k, _, low, high in near)
        ended = ", ".join(f"{k} {how}" for how, k in run.descent.count.items() if k)
        parts.append(f"{run.target}: {shares}; {ended}")
    at_start = " / ".join(str(runs[0].near(delta, at_start=True)[0]) for delta in DELTAS)
    deltas = " / ".join(f"{delta:g}" for delta in DELTAS)
    return (
        f"training {runs[0].label}, r = {runs[0].degree}, {runs[0].n_starts} runs each; within {deltas} of a "
        f"subnetwork in the end (95% intervals): {'. '.join(parts)}. At the start: {at_start}."
    )
