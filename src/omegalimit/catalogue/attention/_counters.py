"""Counter-instances of `softmax_attention`: each breaks one assumption and names the claims that must then not hold."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Verdict
from ...data import TokenData, gaussian_tokens, orbit_tokens
from ...flows import gradient_descent
from ...models import DiagonalKeyQueryAttention, KeyQueryAttention
from .._system import Counter, Findings, Progress
from ._claims import (
    balance_conserved,
    kkt_path,
    max_margin,
    minimal_loss,
    selected_max_margin,
    singular_spaces_kept,
)
from ._comparisons import initialisation, norms_differ, rank
from ._experiment import Experiment

if TYPE_CHECKING:
    from .softmax_attention import SoftmaxAttention


def counters(system: "SoftmaxAttention") -> Mapping[str, Counter]:
    """Every counter-instance, made from the system's own size, loss and seed.

    Each makes the data that it needs. Running one raises `ValueError` when data, weights or a model are given as well.
    """
    base = dataclasses.replace(
        system, data=None, weights=None, tokens="planted", parametrisation="all", inner=None, log10_time=None
    )
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Callable[..., list[Verdict]]]] = {
        "inseparable": (
            "every input occurs twice with opposite labels: no weights attend to the best-scored tokens of both",
            (("minimal-loss", "kq"), ("nuclear-max-margin", "kq"), ("selected-max-margin", "kq")),
            inseparable,
        ),
        "tied-scores": (
            "in every input another token is given the best score: the target is not unique",
            (("nuclear-max-margin", "kq"),),
            tied_scores,
        ),
        "rank-one-start": (
            "K = a w^T and Q = b w^T share one inner direction, which keeps W at rank one for ever",
            (("nuclear-max-margin", "kq"), ("selected-max-margin", "kq"), ("initialisation", "kq")),
            rank_one_start,
        ),
        "equal-start": (
            "k(0) = q(0) pins the signs of the diagonal, and the flow is judged by the unsigned l1 norm",
            (("l1-max-margin", "diagonal-kq"),),
            equal_start,
        ),
        "wrong-norm": (
            "the merged run is judged by the nuclear norm, and K and Q apart by the Frobenius norm",
            (("nuclear-max-margin", "merged"), ("frobenius-max-margin", "kq")),
            wrong_norm,
        ),
        "stopped-early": (
            "training is stopped at t = 100, long before the direction has settled",
            (("nuclear-max-margin", "kq"), ("selected-max-margin", "kq"), ("kkt-path", "kq")),
            stopped_early,
        ),
        "wrong-limit": (
            "the optimum of the other norm is handed in as the limit",
            (
                ("nuclear-max-margin", "kq"),
                ("rank", "kq"),
                ("frobenius-max-margin", "merged"),
                ("l1-max-margin", "diagonal-kq"),
            ),
            wrong_limit,
        ),
        "separate-normalisation": (
            "K and Q take normalised steps each on its own, which is no time change of the flow",
            (("balance-conserved", "kq"),),
            separate_normalisation,
        ),
        "perturbed-orbits": (
            "the orbits' tokens are perturbed by 5%: their symmetry, and with it the alignment, is lost",
            (("singular-spaces-kept", "kq-aligned"),),
            perturbed_orbits,
        ),
        "coinciding-norms": (
            "token differences and queries are orthogonal, so that the nuclear and Frobenius optima coincide",
            (("norms-differ", "kq"), ("rank", "kq")),
            coinciding_norms,
        ),
    }
    return {
        name: Counter(text=text, expected=expected, check=_findings(function, system, base))
        for name, (text, expected, function) in made.items()
    }


def _findings(
    function: Callable[..., list[Verdict]], system: "SoftmaxAttention", base: "SoftmaxAttention"
) -> Callable[[Progress], Findings]:
    def check(progress: Progress) -> Findings:
        for name in ("data", "weights", "tokens", "parametrisation", "inner", "log10_time"):
            if getattr(system, name) != getattr(base, name):
                option = "--" + name.replace("_", "-")
                raise ValueError(
                    f"a counter-instance makes its own data and model; drop `{option}` (got {getattr(system, name)!r})."
                )
        return Findings(verdicts=tuple(function(base, progress)), settings=dataclasses.asdict(base))

    return check


def inseparable(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """Contradictory pairs."""
    half = gaussian_tokens(max(1, system.n // 2), system.L, system.d, seed=system.seed)
    data = TokenData(
        X=np.concatenate([half.X, half.X]),
        z=np.concatenate([half.z, half.z]),
        y=np.concatenate([half.y, -half.y]),
        v=half.v,
        name="contradictory pairs",
    )
    e = system.experiment("kq", data, "kq", progress)
    return [minimal_loss(e), max_margin(e), selected_max_margin(e)]


def tied_scores(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """The first token that is not the target gets its score, along the head."""
    data, _ = system.planted()
    X = np.array(data.X)
    rows = np.arange(data.n)
    rival = np.where(data.best == 0, 1, 0)
    scores = data.scores
    lift = (scores[rows, data.best] - scores[rows, rival]) * data.y / (data.v @ data.v)
    X[rows, rival] += lift[:, None] * data.v
    tied = TokenData(X=X, z=data.z, y=data.y, v=data.v, name="planted, tied")
    e = system.experiment("kq", tied, "kq", progress, max_evaluations=300_000)
    return [minimal_loss(e), max_margin(e)]


def rank_one_start(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """The shared direction is the first axis: the other columns of K and Q stay zero exactly, not up to rounding."""
    data, _ = system.planted()
    model = KeyQueryAttention(d=data.d, inner=data.d)
    rng = np.random.default_rng([system.seed, 11])
    K, Q = np.zeros((2, data.d, data.d))
    K[:, 0], Q[:, 0] = rng.standard_normal((2, data.d))
    theta = np.concatenate([K.ravel(), Q.ravel()])
    runs = []
    for i, factor in enumerate((1.0, 10.0, 0.1, 0.01)):
        progress("starts", i / 4)
        start, scale = factor * system.scaled(theta, data, model), factor * system.scale
        options = {"model": model, "start": start, "scale": scale, "twin": i == 0, "max_evaluations": 400_000}
        runs.append(system.experiment("kq", data, "kq", **options))
    return [max_margin(runs[0]), selected_max_margin(runs[0]), initialisation(runs[0], runs[1:])]


def equal_start(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """All of beta stays positive; the planted l1 optimum has both signs."""
    data, _ = system.planted()
    model = DiagonalKeyQueryAttention(d=data.d)
    k = np.abs(np.random.default_rng([system.seed, 12]).standard_normal(data.d))
    start = system.scaled(np.concatenate([k, k]), data, model)
    e = system.experiment("diagonal-kq", data, "diagonal-kq", progress, start=start, max_evaluations=400_000)
    return [max_margin(e)]


def wrong_norm(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """The norms exchanged."""
    data, _ = system.planted()
    merged = system.experiment("merged", data, "merged", progress)
    apart = system.experiment("kq", data, "kq", progress)
    return [max_margin(merged, "nuclear"), max_margin(apart, "frobenius")]


def stopped_early(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """t = 100 in the data's units of time."""
    data, _ = system.planted()
    e = system.experiment("kq", data, "kq", progress, until_log_time=float(np.log(100.0)), twin=False)
    return [max_margin(e), selected_max_margin(e), kkt_path(e)]


def wrong_limit(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """The other norm's optimum in the place of the limit."""
    data, _ = system.planted()
    verdicts = []
    for name, other in (("kq", "frobenius"), ("merged", "nuclear"), ("diagonal-kq", "l2")):
        e = system.experiment(name, data, name, progress)
        verdicts.append(max_margin(e, wrong=e.limits.solution(other).certificate.point))
        if name == "kq":
            verdicts.append(rank(e, swapped=True))
    return verdicts


def separate_normalisation(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """Normalised steps of K and Q apart; judged by the balance of the flow at the flow's tolerance."""
    data, _ = system.planted()
    e = system.experiment("kq", data, "kq", progress, twin=False)
    return [balance_conserved(dataclasses.replace(e, flow=_separately_normalised(e)))]


def _separately_normalised(e: Experiment):
    """The experiment's flow result with the path of 300 steps of size 0.1 r, K and Q normalised each on its own."""
    theta, radius = e.start, float(np.linalg.norm(e.start))
    half = theta.size // 2
    path = [theta]
    for _ in range(300):
        step = gradient_descent(e.problem, theta, step_size=radius * 1e-3, n_steps=1, normalised=True, n_kept=2)
        move = step.trajectory.theta[-1] - theta
        K, Q = move[:half], move[half:]
        theta = theta + 0.1 * radius * np.concatenate([K / np.linalg.norm(K), Q / np.linalg.norm(Q)])
        path.append(theta)
    states = np.array(path)
    r = np.linalg.norm(states, axis=1)
    trajectory = dataclasses.replace(
        e.flow.trajectory,
        clock="step",
        time=np.arange(len(r), dtype=float),
        direction=states / r[:, None],
        log_radius=np.log(r),
        log_time=np.full(len(r), np.nan),
        log_sharpness=e.problem.degree * np.log(r),
    )
    return dataclasses.replace(e.flow, trajectory=trajectory)


def perturbed_orbits(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """Noise on every token; the rotation that made the orbits is kept as the axes to be judged by."""
    data = orbit_tokens(seed=system.seed)
    size = 0.05 * np.linalg.norm(data.X, axis=2).mean() / np.sqrt(data.d)
    X = data.X + size * np.random.default_rng([system.seed, 13]).standard_normal(data.X.shape)
    perturbed = TokenData(X=X, z=data.z, y=data.y, v=data.v, name="perturbed orbits", rotation=data.rotation)
    return [singular_spaces_kept(system.experiment("kq", perturbed, "kq-aligned", progress))]


def coinciding_norms(system: "SoftmaxAttention", progress: Progress) -> list[Verdict]:
    """Input i has the token 0, its target, and negative multiples of e_i; its query is e_i: the inputs decouple."""
    n, L = max(2, min(system.n, system.d)), system.L
    X, z = np.zeros((n, L, n)), np.eye(n)
    for i in range(n):
        X[i, 1:, i] = -1.0 - 0.1 * np.arange(L - 1)
    data = TokenData(X=X, z=z, y=np.ones(n), v=np.ones(n), name="orthogonal")
    e = system.experiment("kq", data, "kq", progress, twin=False)
    return [norms_differ(e), rank(e)]
