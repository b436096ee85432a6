"""Diagonal linear networks from a vanishing start: which interpolant do they select? See `DiagonalNetworks`."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr

from ...claims import Verdict
from ...data import RegressionData, tied_regression
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _diagonal_counters
from ._diagonal_arrays import rate_arrays, saddle_arrays
from ._diagonal_claims import (
    dual_certificate,
    jump_times,
    modified_l1_limit,
    not_plain_l1,
    plain_l1,
    saddles_in_order,
)
from ._diagonal_data import Instance, instance
from ._diagonal_definition import definition, definition_of
from ._diagonal_draws import MOST_FEATURES, builders, pair
from ._diagonal_experiment import Experiment, log_start, run_experiment, run_several
from ._diagonal_manifolds import has_curved, manifold_verdicts
from ._diagonal_models import Network, square_difference
from ._diagonal_potentials import exact_potential, potential_arrays, run_potential
from ._diagonal_ties import has_ties, tie_entropy

SHARES = (0.5, 0.75, 1.0)  # of log(1/s): the starts at which rates are measured, two layers
DEEP_CLOCKS = (1e3, 1e4, 1e5)  # h of the starts at which rates are measured, deeper
DEPTHS = (2, 3, 4)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiagonalNetworks(AbstractSystem):
    """Diagonal linear networks from a vanishing start: which interpolant do they select?

    Setting. `F(x) = sum_i k_i(theta_i) x_i`, each weight k_i a small network of its own parameters: `u^2 - v^2`, a
    product of L layers, or any function of the paper's Definition 4.1 (real analytic, k_i(0) = 0, zero its only
    critical point, the extreme eigenvalues of its Hessian there simple and of both signs, unbounded along the curves
    that leave zero). Trained by gradient flow on `1/2 |X k - y|^2` from `s theta*`, s -> 0. With `u = X'(y - X k)`
    every neuron moves by `theta_i' = u_i grad k_i`: along one fixed curve, forth and back.

    Stated by the authors ("Gradient flow from infinitesimal initialisation", arXiv 2607.12332; their loss
    `|X k - y|^2` is twice as fast and halves every time). On the clock t / h(s), `h = log(1/s)` for two layers and
    `s^-(L-2)` for L layers, the flow follows Algorithm 1: a neuron wakes when its accumulated force s_i = int u_i
    reaches its growth time t_i+ (or -t_i-), k then minimises the loss over the woken neurons with their signs, and so
    on from saddle to saddle; the limit has the least `R(k) = sum t_i+ k_i+ + t_i- k_i-` of all interpolants. Two
    layers: `t = 1/|extreme Hessian eigenvalue|`, whatever theta*; deeper: an integral over theta*.

    Derived here: that two-layer growth times do not depend on the initial shape, so that `u^2 - v^2` has the plain l1
    limit from any start; jump times and dual certificate are off by O(1/h); what is done with ties; the exact potential
    of `u^D - v^D` (after Woodworth et al. 2020) as a convex problem with a duality gap; the form of each test.

    Claims.
    - `saddles-in-order` (rate): the flow passes every saddle of Algorithm 1, in order, within 1/h of the step between
      saddles, and its neurons wake in the path's order.
    - `modified-l1-limit` (rate): R at the flow's end is within 1/h of a certified lower bound on the least, and within
      what the exact potential of the start leaves, where that is known (`u^2 - v^2`, products of two) and less.
    - `jump-times` (rate): the errors of the jumps' times fall like 1/h: log(1/s)^-1 for two layers, s^(L-2) deeper;
      errors at the tolerance of the flow's steps are left out.
    - `dual-certificate` (rate): the flow's own accumulated s ends in [-t-, t+], on the boundary where k is not zero, up
      to an error that falls like 1/h.
    - `plain-l1` (rate): the limit has the least plain l1 norm: `u^2 - v^2` from starts spread over a factor 100, the
      paper's own neurons (eigenvalues +-2), and deep products with a = b, c = 0.
    - `not-plain-l1` (lower bound): the limit has at least 3% more than the least l1 norm: unequal eigenvalues, or deep
      products with unequal growth times. Inconclusive where the two optima differ by less.
    - `invariant-manifolds` (invariant): the flow keeps `a_j^2 - a_L^2` (and u v); gradient descent keeps `a_j = a_l` to
      rounding (`descent-affine`) and leaves the curved ones by an amount of order of its step (`descent-curved`).
    - `exact-potential` (equality): from a finite start alpha, the end of the flow of `u^D - v^D` minimises the exact
      potential, by its duality gap with the flow's own multipliers; D = 2, 3, 4.
    - `tie-entropy` (rate; `u^2 - v^2`, where the least l1 norm is not unique): of all its minimisers the flow selects
      the one of least entropy relative to the squares of its start. Derived here.
    - `definition` (count): no condition of Definition 4.1 is refuted by a witness. Analyticity and the absence of other
      critical points cannot be decided numerically: they are reported as undecided, never as found.

    Not checked: the theorem for infinite time and s -> 0 at once; gradient descent with large steps; noise; layers that
    share parameters between features.
    """

    title: ClassVar[str] = "diagonal linear networks from a vanishing start: which interpolant do they select?"

    model: Literal["all", "square-difference", "weighted-squares", "paper", "product", "power-difference"] = "all"
    """Which neurons: u^2 - v^2; p u^2 - q v^2 with p, q drawn; the paper's four; products of layers; u^D - v^D."""
    shape: Literal["random", "equal", "zero-balanced"] = "random"
    """Shape of the start: random sizes and signs; all equal; a = b, c = 0 (products only)."""
    depth: int = 3
    """Layers of a product, or the power of `power-difference`."""
    n: int = 3
    """Samples of drawn data."""
    d: int = 8
    """Features of drawn data."""
    sparsity: int = 2
    """Nonzero weights of the target of drawn data."""
    s: float = 1e-60
    """Scale of the start, two layers."""
    deep_s: float = 1e-5
    """Scale of the start of products with more layers, whose flow takes more steps the smaller it is."""
    alpha: float = 0.1
    """Scale of the start of `power-difference`, which is judged by the exact potential."""
    seed: int = 0
    """Seed of the data and of the starts."""
    data: str | None = None
    """A file of your own (CSV, Parquet or npz with X and y) instead of drawn data."""
    target: str | None = None
    """The column to predict; the last one when not given."""

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("d", 1), ("sparsity", 1), ("seed", 0), ("depth", 2)):
            check_whole(name, getattr(self, name), least)
        if self.depth > 8:
            raise ValueError(f"`depth` must be at most 8; got {self.depth!r}.")
        if self.sparsity > self.d:
            raise ValueError(f"`sparsity` must be at most d = {self.d}; got {self.sparsity}.")
        if self.d > MOST_FEATURES or self.n > 10**5:
            raise ValueError(
                f"`d` must be at most {MOST_FEATURES} and `n` at most 1e5; got d = {self.d}, n = {self.n}: every step "
                "of the flow solves a system with one unknown a feature."
            )
        for name, low, high in (("s", 1e-140, 0.1), ("deep_s", 1e-60, 0.1), ("alpha", 1e-30, 1e3)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"`{name}` must lie between {low:g} and {high:g}; got {getattr(self, name)!r}.")
        for name, allowed in (
            ("model", ("all", "square-difference", "weighted-squares", "paper", "product", "power-difference")),
            ("shape", ("random", "equal", "zero-balanced")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if self.shape == "zero-balanced" and self.model not in ("all", "product"):
            raise ValueError(f"`shape` zero-balanced is for products; got `model` {self.model!r}.")

    # -- the check ------------------------------------------------------------------------------------------------

    def starts(self, network: Network) -> list[float]:
        """Logarithms of the scales at which rates are measured; the last is the one of the other claims.

        Beside the other networks the paper's own are trained from one start only: their rates are those of u^2 - v^2.
        """
        if self.model == "all" and network.label == "paper":
            return [math.log(self.s)]
        if network.layers == 2:
            return [share * math.log(self.s) for share in SHARES]
        own = math.log(self.deep_s)
        return [*(log_s for h in DEEP_CLOCKS if (log_s := log_start(network.layers, h)) > own + 1e-9), own]

    def check(self, progress: Progress = silent) -> Findings:
        """Draw or read the data, train each network to its limit, predict it, judge every claim.

        Raises `ValueError` for data or options that cannot be used, in the words in which they were given.
        """
        progress("data", 0.0)
        pairs = {label: pair(self, label, builder) for label, builder in builders(self).items()}
        notes = [*self.ignored_options()]
        settings: dict[str, Any] = dataclasses.asdict(self)
        verdicts: list[Verdict] = []
        groups: dict[str, xr.Dataset] = {}
        n_parts = len(pairs) + 2
        for i, (label, (network, made, drawn)) in enumerate(pairs.items()):
            progress(label, i / n_parts)
            settings |= drawn
            found, arrays, said = self.judge(network, made)
            verdicts += found
            groups |= arrays
            notes += [note for note in (*made.notes, *said) if note not in notes]
        if self.model == "all" and self.data is None:
            tied = instance(tied_regression())
            e = run_experiment(square_difference(tied.d, "random", self.seed, 0), tied, math.log(self.s))
            verdicts.append(tie_entropy(dataclasses.replace(e, label="tied")))
        if self.model in ("all", "product", "square-difference"):
            progress("invariant manifolds", len(pairs) / n_parts)
            verdicts += manifold_verdicts(
                [pairs[name][:2] for name in ("product", "square-difference") if name in pairs]
            )
            if "product" in pairs and not has_curved(pairs["product"][0]):
                notes.append("descent-curved does not apply: with layers of equal size every manifold is a plane.")
        if self.model in ("all", "power-difference"):
            verdicts += self.potentials(pairs, groups, notes, settings, progress, (len(pairs) + 1) / n_parts)
        progress("done", 1.0)
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=self.not_applicable(verdicts),
            settings=settings,
            arrays=groups,
            notes=tuple(notes),
        )

    def judge(self, network: Network, made: Instance) -> tuple[list[Verdict], dict[str, xr.Dataset], list[str]]:
        """Every claim about one network: verdicts, arrays and notes."""
        runs = run_several(network, made, self.starts(network))
        e = runs[-1]
        verdicts = [saddles_in_order(e), modified_l1_limit(e)]
        if len(runs) > 1:
            verdicts += [jump_times(runs), dual_certificate(runs)]
        verdicts.append(plain_l1(e) if network.plain else not_plain_l1(e))
        if has_ties(e):
            verdicts.append(tie_entropy(e))
        if network.label == "paper":
            verdicts += filter(None, [definition(network)])
        arrays = saddle_arrays(e) | (rate_arrays(runs) if len(runs) > 1 else {})
        return verdicts, arrays, _remarks(e)

    def potentials(
        self,
        pairs: Mapping[str, tuple[Network, Instance, dict[str, Any]]],
        groups: dict[str, xr.Dataset],
        notes: list[str],
        settings: dict[str, Any],
        progress: Progress,
        at: float,
    ) -> list[Verdict]:
        """`exact-potential` for D = 2, 3, 4, or for `depth` alone when `power-difference` is asked for."""
        if "square-difference" in pairs:
            made = pairs["square-difference"][1]
        else:
            _, made, drawn = pair(self, "square-difference", square_difference)
            settings |= drawn
            notes += [note for note in made.notes if note not in notes]
        verdicts = []
        for depth in DEPTHS if self.model == "all" else (self.depth,):
            progress(f"exact potential, depth {depth}", at)
            run = run_potential(made, depth, self.alpha)
            verdicts.append(exact_potential(run))
            groups |= potential_arrays(run)
        return verdicts

    def check_neurons(
        self,
        functions: Callable[[Any], Any] | Sequence[Callable[[Any], Any]],
        sizes: int | Sequence[int],
        *,
        shape: np.ndarray,
        data: RegressionData,
    ) -> Findings:
        """The same check for neurons of your own, from Python.

        - `functions`: JAX functions of one vector, one for each feature of the data or one for all; `sizes`: how many
          parameters each takes.
        - `shape`: theta*, shape (d, largest size); `data`: the regression. The start is `s` times the shape.

        Definition 4.1 comes first: neurons that a witness refutes are not trained, and `definition` is the only
        verdict.

        Raises `ValueError` or `TypeError` for functions, sizes or a shape that do not fit.
        """
        made = instance(data)
        verdict, network = definition_of(functions, sizes, shape, made)
        if network is None:
            return Findings(
                verdicts=(verdict,),
                not_applicable=dict.fromkeys(_CLAIMS[:6], "Definition 4.1 is refuted; nothing was trained"),
                settings=dataclasses.asdict(self),
                notes=made.notes,
            )
        verdicts, arrays, said = self.judge(network, made)
        return Findings(
            verdicts=(verdict, *verdicts),
            not_applicable=self.not_applicable([verdict, *verdicts]),
            settings=dataclasses.asdict(self),
            arrays=arrays,
            notes=(*made.notes, *said),
        )

    # -- what was left out ----------------------------------------------------------------------------------------

    def ignored_options(self) -> list[str]:
        """A sentence that names the options that play no part in this run."""
        used = {
            "square-difference": {"shape", "s"},
            "weighted-squares": {"shape", "s"},
            "paper": {"shape", "s"},
            "product": {"shape", "depth", "s" if self.depth == 2 else "deep_s"},
            "power-difference": {"depth", "alpha"},
        }
        names = {"shape", "depth", "s", "deep_s", "alpha"} - used.get(
            self.model, {"shape", "depth", "s", "deep_s", "alpha"}
        )
        if self.data is not None or self.model == "paper":
            names |= {"n", "d", "sparsity"}
        if self.data is None:
            names |= {"target"}
        return unused(self, names, "in this run")

    def not_applicable(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        """The claims that were left out, each with its reason."""
        judged = {verdict.claim for verdict in verdicts}
        trained = "about networks from a vanishing start; only finite starts were trained"
        reasons = dict.fromkeys(_CLAIMS[:4], trained) | {
            "plain-l1": "about equal growth times, which no trained network has",
            "not-plain-l1": "about growth times that differ, which no trained network has",
            "invariant-manifolds": "judged on products and u^2 - v^2, which were not trained",
            "exact-potential": "about u^D - v^D from a finite start, which was not trained",
            "tie-entropy": "about u^2 - v^2 on data whose least l1 norm is not unique, which was not met",
            "definition": "about two-layer neurons given as functions, which were not trained",
        }
        return {claim: reason for claim, reason in reasons.items() if claim not in judged}

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _diagonal_counters.counters(self)


_CLAIMS = (
    "saddles-in-order",
    "modified-l1-limit",
    "jump-times",
    "dual-certificate",
    "plain-l1",
    "not-plain-l1",
    "invariant-manifolds",
    "exact-potential",
    "tie-entropy",
    "definition",
)


def _remarks(e: Experiment) -> list[str]:
    """Sentences about one run that the reader must see: ties, starts at zero, what did not arrive."""
    said = []
    path = e.prediction.path
    for event in path.events:
        if event.tied:
            names = ", ".join(e.instance.names[int(i)] for i in event.entered)
            said.append(f"{e.label}: {names} reach their walls together: a tie, outside the theorem.")
    if not path.unique.all():
        said.append(f"{e.label}: dependent features are active together: the path is one of several.")
    face = e.prediction.face
    if face is not None and face.unique is False:
        said.append(f"{e.label}: the least R is not unique: {face.reason}")
    if path.status != "interpolates":
        said.append(f"{e.label}: the path of saddles: {path.status}: {path.reason}")
    if e.network.growth.note is not None:
        said.append(f"{e.label}: {e.network.growth.note}")
    if len(e.flow.frozen):
        names = ", ".join(e.instance.names[int(i)] for i in e.flow.frozen[:8])
        said.append(
            f"{e.label}: {names} start where their gradient is zero, or are zero in every sample: they never move."
        )
    if not e.flow.is_limit:
        said.append(f"{e.label}: {e.flow.ending}: {e.flow.reason}")
    return said
