"""Counter-instances of `positive-quadratic-networks`: each breaks one assumption and names what must then not hold."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.integrate

from ...claims import Verdict
from ...data.measurement_generators import gaussian_measurements
from ...data.measurements import DenseMeasurements, RankOneMeasurements
from .._system import Counter, Findings, Progress
from ._quadratic_entropy import bregman, finite_steps, minimum_trace, mirror, starts, weighted_entropy
from ._quadratic_geometry import (
    comparison_path,
    congruence,
    curvature_claims,
    exponential_rate,
    horizontal_gradient,
    linear_rate,
    quotient_flow_claim,
)
from ._quadratic_recovery import recovery
from ._quadratic_statistics import Law

if TYPE_CHECKING:
    from .positive_quadratic_networks import PositiveQuadraticNetworks

_Run = Callable[["PositiveQuadraticNetworks", Progress], list[Verdict]]


def counters(system: "PositiveQuadraticNetworks") -> Mapping[str, Counter]:
    """Every counter-instance, made from the system's own size, loss and seed.

    Each makes the data that it needs. Running one raises `ValueError` when data of one's own are given as well.
    """
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], _Run]] = {
        "column-rates": (
            "every column of U learns at a rate of its own, which is no metric on Q",
            (("horizontal-gradient", "gaussian"), ("quotient-flow", "gaussian"), ("congruence", "gaussian")),
            column_rates,
        ),
        "off-the-data": (
            "the Hessian is taken at the start of training, which does not interpolate",
            (("effective-hessian", "gaussian"), ("gauge-zeros", "gaussian")),
            off_the_data,
        ),
        "few-measurements": (
            "two measurements fewer than Q has unknowns",
            (("gauge-zeros", "gaussian"),),
            few_measurements,
        ),
        "wide-factor": (
            "U is twice as wide as the planted matrix's rank: the unused columns fade like t^(-1/2)",
            (("exponential-rate", "gaussian"), ("linear-rate", "gaussian")),
            wide_factor,
        ),
        "rank-deficient-start": (
            "a column of the start is zero, and a positive eigenvalue that the limit needs: no gradient fills them",
            (
                ("exponential-rate", "gaussian"),
                ("linear-rate", "gaussian"),
                ("recovery", "gaussian"),
                ("bregman-projection", "commuting"),
            ),
            rank_deficient_start,
        ),
        "too-large-step": (
            "descent takes steps beyond 2 / largest curvature",
            (
                ("linear-rate", "gaussian"),
                ("recovery", "gaussian"),
                ("finite-step", "commuting"),
                ("finite-step-corrected", "commuting"),
            ),
            too_large_step,
        ),
        "sign-rows": (
            "the rows have entries +-1: their fourth moment is 1 and not 3",
            tuple(
                (claim, "gaussian")
                for claim in ("population-curvature", "operator-concentration", "spectral-start", "recovery")
            ),
            sign_rows,
        ),
        "non-commuting": (
            "the measurements are random positive matrices, which do not commute",
            (("entropy-mirror-flow", "commuting"), ("bregman-projection", "commuting")),
            non_commuting,
        ),
        "large-start": (
            "the limit eps -> 0 is asked of starts as large as the solution",
            (("minimum-trace", "commuting"), ("weighted-entropy-on-face", "commuting")),
            large_start,
        ),
        "wrong-weights": (
            "the face's point is computed with equal weights, and the start's are not",
            (("weighted-entropy-on-face", "commuting"),),
            wrong_weights,
        ),
    }
    return {
        name: Counter(text=text, expected=expected, check=_findings(function, system))
        for name, (text, expected, function) in made.items()
    }


def _findings(function: _Run, system: "PositiveQuadraticNetworks") -> Callable[[Progress], Findings]:
    def check(progress: Progress) -> Findings:
        if system.data is not None:
            raise ValueError(f"a counter-instance makes its own data; drop `--data` (got {system.data!r}).")
        base = dataclasses.replace(system, measurements="gaussian", n=None)
        return Findings(verdicts=tuple(function(base, progress)), settings=dataclasses.asdict(base))

    return check


def _gaussian(system: "PositiveQuadraticNetworks", n: int | None = None) -> RankOneMeasurements:
    """Enough rows for the curvature at the planted matrix to be far from zero, unless n says otherwise."""
    unknowns = system.d * system.r - system.r * (system.r - 1) // 2
    return gaussian_measurements(4 * unknowns if n is None else n, system.d, system.r, seed=system.seed)


def column_rates(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """`U' = -2 G U B` with B diagonal, and the same in steps."""
    r = max(system.r, 2)  # with one column the rate only rescales time
    system = dataclasses.replace(system, r=r)
    m = _gaussian(system)
    e = system.experiment(m, system.start(m, []), "gaussian")
    B = np.linspace(1.0, 0.3, r)
    times, _ = comparison_path(e)
    shape = e.start.shape

    def field(t: float, y: np.ndarray) -> np.ndarray:
        U = y.reshape(shape)
        return (-2 * m.adjoint_factor(e.weights(m.apply_factor(U)), U) * B).reshape(-1)

    solved = scipy.integrate.solve_ivp(
        field, (0.0, times[-1]), e.start.reshape(-1), t_eval=times, rtol=1e-10, atol=1e-12, method="DOP853"
    )
    path = solved.y.T.reshape(-1, *shape)
    U, steps = e.start, [e.start]
    for _ in range(40):
        U = U - 2 * e.descent.step_size * m.adjoint_factor(e.weights(m.apply_factor(U)), U) * B
        steps.append(U)
    return [
        horizontal_gradient(e, lambda gradients: gradients * B),
        quotient_flow_claim(e, (times, path)),
        congruence(e, (np.arange(41.0), np.array(steps)), lambda gradients: gradients * B),
    ]


def off_the_data(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """At the spectral start."""
    system = dataclasses.replace(system, r=max(system.r, 2))  # one column has no gauge
    m = _gaussian(system)
    e = system.experiment(m, system.start(m, []), "gaussian")
    return curvature_claims(e, e.start)


def few_measurements(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """From the planted factor itself, moved a little: the interpolators are a manifold there."""
    unknowns = system.d * system.r - system.r * (system.r - 1) // 2
    m = _gaussian(system, max(1, unknowns - 2))
    start = np.random.default_rng([system.seed, 49]).standard_normal((system.d, system.r))
    e = system.experiment(m, start, "gaussian", max_steps=100)
    return curvature_claims(e, unseen=True)


def wide_factor(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """Random columns beside the spectral start; with a planted matrix of full rank no column would be unused."""
    system = dataclasses.replace(system, r=min(system.r, system.d - 1))
    m = _gaussian(system)
    start = system.start(m, [])
    more = np.random.default_rng([system.seed, 50]).standard_normal((system.d, min(system.r, system.d - system.r) or 1))
    wide = np.column_stack([start, 0.3 * np.linalg.norm(start) / np.linalg.norm(more) * more])
    # By then the residual has fallen like 1/t for four decades.
    e = system.experiment(m, wide, "gaussian", max_steps=20_000, max_time=1e4, anywhere=True)
    return [exponential_rate(e), linear_rate(e)]


def rank_deficient_start(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """The last column zero; of the commuting start, the largest eigenvalue of the limit of least trace."""
    system = dataclasses.replace(system, r=max(system.r, 2))
    m = _gaussian(system)
    start = system.start(m, [])
    start[:, -1] = 0.0
    e = system.experiment(m, start, "gaussian", max_steps=20_000)
    progress("recovery", 0.3)
    found, _ = recovery(Law(), seed=system.seed, pairs=((4, 2),), rank_deficient=True)
    instance, _ = system.commuting()
    commuting = instance.measurements
    Q0 = starts(commuting, system.seed)[1]
    q0 = commuting.diagonal(Q0)
    q0[int(np.argmax(instance.least_trace.certificate.point))] = 0.0
    return [
        exponential_rate(e),
        linear_rate(e),
        found,
        bregman(commuting, system.loss, [instance.matrix(q0)], judged_by=[Q0]),
    ]


def too_large_step(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """2.5 units, where 2 is the edge; for commuting measurements 16."""
    m = _gaussian(system)
    e = system.experiment(m, system.start(m, []), "gaussian", step=2.5, max_steps=20_000, anywhere=True)
    progress("recovery", 0.3)
    found, _ = recovery(Law(), seed=system.seed, pairs=((4, 2),), too_large=2.5)
    instance, _ = system.commuting()
    log_q0 = np.log(instance.measurements.diagonal(starts(instance.measurements, system.seed)[1]))
    steps, _ = finite_steps(instance, log_q0, system.loss, largest=16.0, most_steps=50_000)
    return [linear_rate(e), found, *steps]


def sign_rows(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """All claims about random rows."""
    return system.random_claims(Law("signs"), progress, pairs=((4, 2),))[0]


def non_commuting(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """`A_i = M_i M_i' / d` with M_i standard normal, two of them, with targets of a positive matrix."""
    d = min(max(system.d, 4), 8)
    rng = np.random.default_rng([system.seed, 51])
    M = rng.standard_normal((2, d, d))
    A = M @ M.transpose(0, 2, 1) / d
    planted = np.diag(rng.uniform(0.5, 1.5, d))
    m = DenseMeasurements(A=A, y=np.einsum("nab,ab->n", A, planted))
    Q0s = starts(m, system.seed)
    return [mirror(m, Q0s[1], system.loss)[0], bregman(m, system.loss, Q0s)]


def large_start(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """eps from 1 to 1/4."""
    log_eps: Any = np.log([1.0, 0.5, 0.25])
    instance, _ = system.commuting()
    tied, _ = system.commuting(tied=True)
    return [
        minimum_trace(instance, system.shape(instance.measurements.d), system.loss, log_eps=log_eps)[0],
        weighted_entropy(tied, system.shape(tied.measurements.d), system.loss, log_eps=log_eps),
    ]


def wrong_weights(system: "PositiveQuadraticNetworks", progress: Progress) -> list[Verdict]:
    """Equal weights in the limit problem."""
    tied, _ = system.commuting(tied=True)
    d = tied.measurements.d
    return [weighted_entropy(tied, system.shape(d), system.loss, judged_by=np.ones(d))]
