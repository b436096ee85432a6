"""One-layer softmax attention: which maximum margin does gradient flow select? See `SoftmaxAttention`."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr

from ...claims import Verdict
from ...data import (
    TokenData,
    digit_tokens,
    gaussian_tokens,
    load_tokens,
    load_weights,
    orbit_tokens,
    planted_tokens,
)
from ...flows import measure, predicted_gap
from ...losses import LOSSES
from ...models import (
    AbstractAttention,
    DiagonalKeyQueryAttention,
    KeyQueryAttention,
    MergedAttention,
    MergedDiagonalAttention,
)
from ...problem import AttentionProblem
from .._options import check_whole, unused
from .._system import AbstractSystem, Counter, Findings, Progress, silent
from . import _counters
from ._arrays import arrays
from ._claims import (
    balance_conserved,
    kkt_path,
    max_margin,
    minimal_loss,
    selected_max_margin,
    singular_spaces_kept,
)
from ._comparisons import initialisation, norms_differ, rank, weights_verdicts
from ._experiment import Experiment, run_experiment
from ._limits import OTHER_NORM, Limits, n_not_best

PARAMETRISATIONS = ("kq", "merged", "diagonal-kq", "diagonal-merged")
SCALES = (10.0, 1.0, 0.1, 0.01)  # starts of the claim `initialisation`, in units of `scale`
MOST_DRAWS = 200  # of planted data, before giving up
MOST_CONSTRAINTS = 6000
MOST_DIMENSIONS = 600


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftmaxAttention(AbstractSystem):
    """One-layer softmax attention: which maximum margin does gradient flow select?

    Setting. Inputs of L tokens x_l in R^d with a query z and a label y = +-1; a fixed head v. The output f = y v^T
    X^T softmax(X W z) is trained by gradient flow on `sum_i exp(-f_i)` (or the logistic loss) in the attention
    weights alone: W itself (`merged`), W = K Q^T with K and Q apart (`kq`, any inner width), both diagonal
    (`diagonal-kq`), or W diagonal (`diagonal-merged`). A token's score is gamma_l = y v^T x_l; the best-scored one
    is the target, fixed before training. f stays inside the scores' range, so the infimum L* > 0 is reached only as
    W diverges.

    Stated by the authors (abstract of Sheen, Chen, Wang, Zhou, "Implicit Regularization of Gradient Flow on
    One-Layer Softmax Attention", arXiv 2403.08699; the body was not consulted, theorem numbers are not known): for
    separable data, when the flow attains the minimal loss, K and Q trained apart minimise the nuclear norm of W
    subject to `(x_target - x_l)^T W z >= 1`; trained as one matrix, the Frobenius norm. Diagonal K, Q: by
    reparametrisation and approximate KKT conditions of that problem. General K, Q: when the start's singular spaces
    are aligned with the data.

    Derived here: the log-domain form of the loss gap, the entropy bound B(S) on the gap at sharpness S, the 1/log t
    law with its constant, the l1 form of the diagonal case, sign-flip orbits as data on which alignment is exact
    and the norms disagree, and the form in which each claim is tested.

    How it is tested. The flow is integrated to the sharpness `cap` and then with the sharpness held until its
    direction is at rest: the limit statement is about S -> inf, and holding S waits for it. Left to itself the flow
    of K and Q may need a sharpness, and so a log of the training time, beyond any training; a note then says how
    much.

    Claims.
    - `minimal-loss` (rate): every selected token is the best-scored, and log(L - L*) falls one for one with the least
      margin.
    - `nuclear-max-margin` (kq), `frobenius-max-margin` (merged, diagonal-merged), `l1-max-margin` (diagonal-kq) (rate):
      the flow's own unpolished gap at the cap and at ten times the cap is at most 1.2 B(S), on the same tokens.
    - `selected-max-margin` (rate): the same for whatever tokens were selected.
    - `norms-differ` (lower bound): each optimum has at least 3% more of the other norm; inconclusive below.
    - `kkt-path` (rate): complementarity and stationarity residual at the exit are at most 1.2 B(S), at both caps.
    - `balance-conserved` (invariant): K^T K - Q^T Q keeps its value up to ten times the integrator's tolerance.
    - `singular-spaces-kept` (invariant; orbits): W stays diagonal in the data's axes.
    - `rank` (count): the nuclear optimum's delta-rank is at most the Frobenius optimum's rank; both proved from duals.
    - `initialisation` (rate): starts of four scales have the same limit; for K and Q apart the time at which L - L* has
      halved rises as the start shrinks. The bias is asymptotic: scale does not set it.

    Not checked: convergence of the loss as a theorem (it is an assumption here, and reported); several layers or heads;
    a trained head; stochastic gradients.
    """

    title: ClassVar[str] = "one-layer softmax attention: which maximum margin does gradient flow select?"

    tokens: Literal["planted", "gaussian", "orbits", "digits"] = "planted"
    """Which data are made: planted (separable for all weights), gaussian, sign-flip orbits, two digits' images."""
    parametrisation: Literal["all", "kq", "merged", "diagonal-kq", "diagonal-merged"] = "all"
    """Which weights are trained; `all` runs the four, and K and Q on sign-flip orbits from an aligned start."""
    loss: Literal["exponential", "logistic"] = "exponential"
    """The loss of the signed output."""
    n: int = 6
    """Inputs (gaussian, planted, digits)."""
    L: int = 8
    """Tokens per input."""
    d: int = 10
    """Dimension of a token."""
    inner: int | None = None
    """Inner width of K and Q; d when not given. May be narrower."""
    scale: float = 0.1
    """Radius of the start in the data's units."""
    cap: float = 1e4
    """Sharpness at which the flow is frozen; the twin runs to ten times it."""
    seed: int = 0
    """Seed of the data and of the starts."""
    log10_time: float | None = None
    """Also report, for each parametrisation, the predicted and the measured gap at the time t = 10^this."""
    data: str | None = None
    """A file of your own tokens (npz with X (n,L,d), z (n,d), y (n,), v (d,)) instead of `tokens`."""
    weights: str | None = None
    """A file of weights trained elsewhere (npz with K and Q, or W): how far from each limit? Trains nothing."""

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("L", 2), ("d", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), least)
        if self.n * self.L * self.d > 10**8:
            raise ValueError(f"n x L x d = {self.n} x {self.L} x {self.d} is too large to be made; take less than 1e8.")
        if self.inner is not None:
            check_whole("inner", self.inner, 1)
        if not 1e-60 <= self.scale <= 1e3:
            raise ValueError(f"`scale` must lie between 1e-60 and 1e3; got {self.scale!r}.")
        if not 10 <= self.cap <= 1e8:
            raise ValueError(f"`cap` must lie between 10 and 1e8; got {self.cap!r}.")
        if self.log10_time is not None and not 0.5 < self.log10_time < 1e6:
            raise ValueError(f"`log10_time` must lie between 0.5 and 1e6; got {self.log10_time!r}.")
        for name, allowed in (
            ("tokens", ("planted", "gaussian", "orbits", "digits")),
            ("parametrisation", ("all", *PARAMETRISATIONS)),
            ("loss", tuple(LOSSES)),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")

    # -- instances -----------------------------------------------------------------------------------------------

    def instance(self) -> tuple[TokenData, dict[str, Any]]:
        """The data, and what is to be said of how they were made (JSON-ready)."""
        if self.data is not None:
            return load_tokens(self.data), {"data": self.data}
        match self.tokens:
            case "gaussian":
                return gaussian_tokens(self.n, self.L, self.d, seed=self.seed), {}
            case "digits":
                return digit_tokens(self.n, seed=self.seed), {}
            case "orbits":
                return orbit_tokens(seed=self.seed), {}
            case _:
                return self.planted()

    def ignored_options(self) -> list[str]:
        """A sentence on the options that were set and that the chosen data or weights leave no room for."""
        of_size = {"digits": ("L", "d"), "orbits": ("n", "L", "d")}.get(self.tokens, ())
        names = ("tokens", "n", "L", "d") if self.data is not None else of_size
        if self.weights is not None:
            names = (*names, "parametrisation", "inner", "scale", "cap", "log10_time")
        return unused(self, names, "with these data or weights")

    def planted(self) -> tuple[TokenData, dict[str, Any]]:
        """The first draw of planted tokens whose limits can tell the norms apart; the number of draws is reported.

        Asked of a draw: each optimum has at least 10% more of the other's norm, for full and for diagonal weights; the
        nuclear optimum's second singular value is at least 1% of its norm; the l1 optimum has both signs. Nothing is
        asked of the flow.
        """
        for draw in range(MOST_DRAWS):
            data = planted_tokens(self.n, self.L, self.d, seed=self.seed, draw=draw)
            best = tuple(map(int, data.best))
            full, diagonal = Limits(data, False, best), Limits(data, True, best)
            if any(limits.solution(norm).status != "optimal" for limits, norm in _each_norm(full, diagonal)):
                continue
            if min(limits.excess(norm, OTHER_NORM[norm]) for limits, norm in _each_norm(full, diagonal)) < 0.1:
                continue
            singular = np.linalg.svd(full.solution("nuclear").certificate.point)[1]
            beta = diagonal.solution("l1").certificate.point
            if singular[1] >= 0.01 * singular.sum() and beta.min() < -1e-6 * np.abs(beta).max() < 0 < beta.max():
                return data, {"draws": draw + 1}
        raise ValueError(
            f"no planted data whose norms differ were found in {MOST_DRAWS} draws "
            f"for n = {self.n}, L = {self.L}, d = {self.d}; "
            "take a larger `n` or `d`, or `--tokens gaussian`."
        )

    def model(self, name: str, d: int) -> AbstractAttention:
        """The parametrisation called `name` for tokens of dimension d."""
        match name:
            case "kq":
                return KeyQueryAttention(d=d, inner=d if self.inner is None else self.inner)
            case "merged":
                return MergedAttention(d=d)
            case "diagonal-kq":
                return DiagonalKeyQueryAttention(d=d)
            case _:
                return MergedDiagonalAttention(d=d)

    def start(self, data: TokenData, model: AbstractAttention) -> np.ndarray:
        """A random direction at the radius of `scale`; K, Q aligned with the data's axes where they have some."""
        rng = np.random.default_rng([self.seed, PARAMETRISATIONS.index(model.name)])
        if isinstance(model, KeyQueryAttention) and data.rotation is not None:
            theta = aligned_start(model, data.rotation, rng)
        else:
            theta = rng.standard_normal(model.size)
        return self.scaled(theta, data, model)

    def scaled(self, theta: np.ndarray, data: TokenData, model: AbstractAttention) -> np.ndarray:
        """`theta` at the radius r with `unit r^D = scale^D`, so that a change of the tokens' units changes nothing."""
        problem = AttentionProblem(data, model)
        return theta / np.linalg.norm(theta) * self.scale * float(problem.unit) ** (-1 / problem.degree)

    # -- the check -----------------------------------------------------------------------------------------------

    def check(self, progress: Progress = silent) -> Findings:
        """Make the data, train each parametrisation to its limit, solve the predicted limits, judge every claim.

        Raises `ValueError` for data, weights or options that cannot be used, in the words in which they were given.
        """
        progress("data", 0.0)
        data, made = self.instance()
        data, ex, ez = data.rescaled()
        if (N := data.n * (data.L - 1)) > MOST_CONSTRAINTS or data.d > MOST_DIMENSIONS:
            raise ValueError(
                f"{data.n} inputs of {data.L} tokens in {data.d} dimensions make {N} constraints; the certified solver "
                f"takes up to {MOST_CONSTRAINTS} constraints (ten N x N matrices) and {MOST_DIMENSIONS} dimensions."
            )
        notes = [*self.ignored_options(), *data.notes]
        settings = {**dataclasses.asdict(self), **made, "n": data.n, "L": data.L, "d": data.d, "data_name": data.name}
        if self.weights is not None:
            return self.check_weights(data, settings, (ex, ez))
        runs: list[tuple[str, TokenData]] = [(p, data) for p in PARAMETRISATIONS if self.parametrisation in ("all", p)]
        if self.parametrisation == "all" and self.data is None and self.tokens == "planted":
            orbits = orbit_tokens(seed=self.seed)
            if self.inner is None or self.inner >= orbits.d:  # narrower K and Q cannot start aligned
                runs.append(("kq", orbits))
        for name, tokens in runs:
            self.start(tokens, self.model(name, tokens.d))  # what cannot be started is said before anything is run
        verdicts: list[Verdict] = []
        groups: dict[str, xr.Dataset] = {}
        times = []
        for i, (name, tokens) in enumerate(runs):
            label = name if tokens.rotation is None or name != "kq" else "kq-aligned"
            tell = _share(progress, label, i / len(runs), 1 / len(runs))
            experiment, found = self.judge(name, tokens, label, tell)
            verdicts += found
            groups.update(arrays(experiment))
            if not experiment.flow.certified:
                notes.append(f"{label}: {experiment.flow.ending}: {experiment.flow.reason}")
            notes += experiment.wait()
            if self.log10_time is not None:
                times.append(self.at_time(experiment, notes))
        if times:
            settings["at_time"] = times
        progress("done", 1.0)
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=self.not_applicable(verdicts, data),
            settings=settings,
            arrays=groups,
            notes=tuple(notes),
        )

    def experiment(self, name: str, data: TokenData, label: str, progress: Progress = silent, **options) -> Experiment:
        """Train the parametrisation `name` on `data`; keyword arguments are those of `run_experiment`."""
        model = options.pop("model", None) or self.model(name, data.d)
        theta = options.pop("start", None)
        theta = self.start(data, model) if theta is None else theta
        return run_experiment(
            data,
            model,
            theta,
            loss=self.loss,
            cap=self.cap,
            label=label,
            scale=options.pop("scale", self.scale),
            progress=progress,
            **options,
        )

    def judge(self, name: str, data: TokenData, label: str, progress: Progress) -> tuple[Experiment, list[Verdict]]:
        """Every claim about one parametrisation."""
        e = self.experiment(name, data, label, _share(progress, "flow", 0.0, 0.5))
        verdicts = [minimal_loss(e), max_margin(e), selected_max_margin(e), kkt_path(e)]
        if e.model.balance(e.start) is not None:
            verdicts.append(balance_conserved(e))
        if label == "kq-aligned":
            return e, [*verdicts, singular_spaces_kept(e)]
        if name in ("kq", "diagonal-kq"):
            verdicts.append(norms_differ(e))
        if name == "kq":
            verdicts.append(rank(e))
        others = []
        arrived = e.flow.ending in ("certified", "stationary but not optimal")
        for k, factor in enumerate(SCALES if arrived else ()):
            progress("starts of other scales", 0.5 + 0.5 * k / len(SCALES))
            if factor != 1.0:
                start, scale = e.start * factor, self.scale * factor
                others.append(self.experiment(name, data, label, twin=False, limits=e.limits, start=start, scale=scale))
        verdicts.append(initialisation(e, others))
        return e, verdicts

    def not_applicable(self, verdicts: list[Verdict], data: TokenData) -> dict[str, str]:
        """The claims that were left out, each with its reason."""
        judged = {v.claim for v in verdicts}
        reasons = {
            "nuclear-max-margin": "about K and Q trained apart, which were not run",
            "frobenius-max-margin": "about merged weights, which were not run",
            "l1-max-margin": "about diagonal K and Q, which were not run",
            "balance-conserved": "about K and Q trained apart, which were not run",
            "norms-differ": "compares the limits of K and Q apart with merged ones; only merged weights were run",
            "rank": "about the limits of K and Q trained apart, which were not run",
            "singular-spaces-kept": "needs sign-flip orbits (`--tokens orbits`), K and Q apart, `inner` not below d",
            "initialisation": "judged on data without orbits; on orbits only the aligned start is run",
        }
        return {claim: reason for claim, reason in reasons.items() if claim not in judged}

    def at_time(self, e: Experiment, notes: list[str]) -> dict[str, Any]:
        """The predicted and the measured gap at the time t = 10^log10_time, for the selected tokens."""
        assert self.log10_time is not None
        log_time = self.log10_time * math.log(10)
        there = self.experiment(
            e.model.name,
            e.data,
            e.label,
            model=e.model,
            start=e.start,
            twin=False,
            limits=e.limits,
            until_log_time=log_time,
        )
        polished, arrival = e.flow.polished, there.flow.arrival
        predicted = math.nan
        if polished is not None:
            predicted = predicted_gap(e.problem, e.flow.arrival.selection, polished.multipliers, log_time=log_time)
        reached = there.flow.ending == "time reached"
        found = {
            "parametrisation": e.label,
            "log10_time": self.log10_time,
            "predicted_gap": predicted,
            "measured_gap": e.selected_limits.distance(e.norm, e.point(arrival.direction)) if reached else math.nan,
            "complementarity": arrival.complementarity if reached else math.nan,
            "sharpness": math.exp(arrival.log_sharpness),
            "same_tokens": bool(np.array_equal(arrival.selection, e.flow.arrival.selection)),
        }
        if reached:
            slow = "; inactive directions are still on their way" if found["measured_gap"] > 2 * predicted else ""
            notes.append(
                f"{e.label}: at t = 1e{self.log10_time:g} the gap to the limit is {found['measured_gap']:.3g}; "
                f"the 1/log t law predicts {predicted:.3g}{slow}."
            )
        else:
            notes.append(
                f"{e.label}: t = 1e{self.log10_time:g} lies beyond the cap; raise `--cap` to measure the gap there."
            )
        return found

    def check_weights(self, data: TokenData, settings: dict[str, Any], exponents: tuple[int, int]) -> Findings:
        """How far weights trained elsewhere are from each limit; `exponents`: what `TokenData.rescaled` took out."""
        assert self.weights is not None
        notes = [*self.ignored_options(), *data.notes]
        found = load_weights(self.weights, d=data.d, notes=notes)
        taken_out = {"K": exponents[0], "Q": exponents[1], "W": sum(exponents)}
        found = {name: np.ldexp(array, taken_out[name]) for name, array in found.items()}
        if "W" in found:
            model, theta = self.model("merged", data.d), found["W"].ravel()
        else:
            model = KeyQueryAttention(d=data.d, inner=found["K"].shape[1])
            theta = np.concatenate([found["K"].ravel(), found["Q"].ravel()])
        problem = AttentionProblem(data, model, loss=self.loss)
        size = float(np.abs(theta).max())
        if size == 0:
            raise ValueError(f"{self.weights}: the weights are all zero, which have no direction.")
        theta = theta / size
        log_S = problem.degree * (math.log(size) + math.log(np.linalg.norm(theta))) + math.log(float(problem.unit))
        horizon = math.log(measure(problem, theta, 0.0).arithmetic_horizon / 10)
        if log_S > horizon:
            notes.append(
                f"the weights' sharpness 1e{log_S / math.log(10):.0f} is beyond what double precision resolves; "
                f"bounds are given at 1e{horizon / math.log(10):.0f}."
            )
        arrival = measure(problem, theta, min(log_S, horizon))
        verdicts = weights_verdicts(problem, data, arrival, model.matrix(theta))
        others = n_not_best(data, arrival.selection)
        if others:
            notes.append(f"the weights attend to a token that is not the best-scored in {others} of {data.n} inputs.")
        judged = {v.claim for v in verdicts}
        return Findings(
            verdicts=tuple(verdicts),
            not_applicable=dict.fromkeys(
                ("minimal-loss", "kkt-path", "balance-conserved", "norms-differ", "rank", "initialisation"),
                "nothing is trained when `--weights` is given",
            )
            | ({} if "l1-max-margin" in judged else {"l1-max-margin": "the weights are not diagonal"}),
            settings={**settings, "log_sharpness": log_S},
            notes=tuple(notes),
        )

    @property
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name; each breaks one assumption of the default run."""
        return _counters.counters(self)


def aligned_start(
    model: KeyQueryAttention, rotation: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """`K = U A R^T`, `Q = V B R^T` with random diagonal A, B and R with orthonormal columns; needs `inner >= d`."""
    d, inner = model.d, model.inner
    if inner < d:
        raise ValueError(f"an aligned start needs an inner width of at least d = {d}; got `inner` = {inner}.")
    U, V = rotation
    R = np.linalg.qr(rng.standard_normal((inner, d)))[0]
    A, B = rng.standard_normal((2, d))
    return np.concatenate([((U * A) @ R.T).ravel(), ((V * B) @ R.T).ravel()])


def _each_norm(full: Limits, diagonal: Limits):
    return [(full, "frobenius"), (full, "nuclear"), (diagonal, "l2"), (diagonal, "l1")]


def _share(progress: Progress, label: str, at: float, share: float) -> Callable[[str, float], None]:
    """A `Progress` for a part of the work that begins at `at` and is `share` of the whole."""
    return lambda text, fraction: progress(f"{label}: {text}" if text != label else label, at + share * fraction)
