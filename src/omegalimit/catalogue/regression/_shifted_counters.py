"""Counter-instances of `negative_shifted_descent`: each breaks one assumption and names what must not hold."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...data.spike_designs import power_tail
from .._options import unused_by_counter
from .._system import Counter, Findings, Progress
from ._shifted_experiment import Draw, draw_seed, flat_setting
from ._shifted_filters import (
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
    risk_ratio_grows,
)
from ._shifted_spectra import bulk_barrier, floor_critical_path, squares_set_exposure, trace_sets_floor

if TYPE_CHECKING:
    from .negative_shifted_descent import NegativeShiftedDescent

    Check = Callable[[NegativeShiftedDescent, Progress], list[Verdict]]


def counters(system: "NegativeShiftedDescent") -> Mapping[str, Counter]:
    """Every counter-instance, from the system's seed.

    Each makes the data that it needs, at sizes and noise of its own (`sized`), so that what it breaks is seen whatever
    the options are. Running one raises `ValueError` when data are given as well.
    """
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Check]] = {
        "coarse-steps": (
            "steps of half the largest eigenvalue's inverse are judged by the flow's filter, and the flow by theirs",
            (("filter-formula", "flow"), ("filter-formula", "descent")),
            coarse_steps,
        ),
        "no-shift": (
            "nu = 0: the filter stays below 1 and crosses it nowhere",
            (("one-crossing", "flow"),),
            no_shift,
        ),
        "large-steps": (
            "an even number of steps beyond the step condition: the largest eigenvalues fall below ridgeless again",
            (("one-crossing", "descent"), ("leading-prefix", "descent")),
            large_steps,
        ),
        "odd-steps": (
            "beyond the step condition, but an odd number of steps: there is no second crossing",
            (("two-crossings", "descent"),),
            odd_steps,
        ),
        "start-not-zero": (
            "b(0) is not zero: it starts along small eigenvalues, or where S is zero and every positive shift grows",
            (("leading-prefix", "flow"), ("endpoint-pole", "endpoint")),
            start_not_zero,
        ),
        "stopped-early": (
            "the run to the endpoint is stopped on the way: small eigenvalues are shrunk, not amplified",
            (("anti-shrinkage", "endpoint"),),
            stopped_early,
        ),
        "isotropic": (
            "the head is no stronger than the tail: no mode is worth amplifying",
            (
                ("beats-endpoints", "flow"),
                ("beats-rescaling", "flow"),
                ("head-worth-amplifying", "spectrum"),
                ("floor-critical-path", "flow"),
            ),
            isotropic,
        ),
        "head-inside-bulk": (
            "the head is above the tail but inside the bulk of eigenvalues, where it is not seen",
            (("floor-critical-path", "flow"), ("beats-endpoints", "flow"), ("beats-rescaling", "flow")),
            head_inside_bulk,
        ),
        "single-head": (
            "one head scale only: a uniform rescaling of the interpolant does as well",
            (("beats-rescaling", "flow"),),
            single_head,
        ),
        "wrong-shift": (
            "the shift is where the weakest head is seen, a + lh, and not the floor: other heads overshoot",
            (("floor-critical-path", "flow"),),
            wrong_shift,
        ),
        "dependent-rows": (
            "the tails of neighbouring observations are correlated: together they are no multiple of the identity",
            (
                ("bulk-barrier", "spectrum"),
                ("trace-sets-floor", "spectrum"),
                ("squared-spectrum-sets-exposure", "spectrum"),
                ("floor-critical-path", "flow"),
            ),
            dependent_rows,
        ),
        "short-tail": (
            "the tail's eigenvalues fall off fast: its effective rank is below n, and there is no floor",
            (
                ("bulk-barrier", "spectrum"),
                ("trace-sets-floor", "spectrum"),
                ("squared-spectrum-sets-exposure", "spectrum"),
                ("beats-endpoints", "flow"),
            ),
            short_tail,
        ),
        "fixed-aspect": (
            "the tail keeps its dimensions for each observation as n grows: its exposure stays, and so does the ratio",
            (("risk-ratio-grows", "flow"),),
            fixed_aspect,
        ),
        "unequal-noise": (
            "the noise differs from row to row: the price of a mode is not sigma^2 A_ii / (n m_i)",
            (("amplification-rule", "spectrum"),),
            unequal_noise,
        ),
        "validated-on-training": (
            "the pair is chosen by the error on the training rows",
            (("hold-out", "flow"),),
            validated_on_training,
        ),
    }
    return {
        name: Counter(text=text, expected=expected, check=_findings(function, system))
        for name, (text, expected, function) in made.items()
    }


def _findings(function: "Check", system: "NegativeShiftedDescent") -> Callable[[Progress], Findings]:
    def check(progress: Progress) -> Findings:
        if system.data is not None:
            raise ValueError(f"a counter-instance makes its own data; drop `--data` (got {system.data!r}).")
        own = sized(system)
        with one_blas_thread():
            return Findings(
                verdicts=tuple(function(own, progress)),
                settings=dataclasses.asdict(own),
                notes=unused_by_counter(system, "sizes"),
            )

    return check


def sized(system: "NegativeShiftedDescent") -> "NegativeShiftedDescent":
    """The system with the default options at sizes that show every broken assumption, and its own seed."""
    return type(system)(seed=system.seed, sizes=(100, 200, 400))


def coarse_steps(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """Each dynamics by the other's filter at t = eta k."""
    rows = gaussian_rows(40, 400, seed=system.seed)
    return [
        filter_formula(rows, dynamics="flow", judged_by="descent"),
        filter_formula(rows, dynamics="descent", judged_by="flow"),
    ]


def no_shift(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """Two times."""
    return [one_crossing_flow([(0.0, 0.95), (0.0, 3.0)])]


def large_steps(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """eta = 1.95 / (m_max - nu), ten steps: stable, and (1 - eta (m - nu))^10 is positive on the largest eigenvalue."""
    nu, k, eta = 1.3, 10, 0.225
    draw = system.several()[0]
    rows = system.rows(draw)
    a = draw.setting.a
    return [
        one_crossing_descent([(nu, k, eta)], 10.0),
        leading_prefix(rows, a, k=k, eta=1.95 / (float(rows.m[-1]) - a)),
    ]


def odd_steps(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """Eleven in place of ten."""
    return [two_crossings(1.3, 11, 0.225)]


def start_not_zero(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """Twice the interpolant along the smallest eigenvalue; a random start with more columns than rows."""
    rows = system.rows(system.several()[0])
    a = system.setting(system.head).a
    start = 2 * rows.ridgeless[0] * rows.V[:, 0]
    wide = gaussian_rows(12, 40, seed=system.seed)
    off = np.random.default_rng([system.seed, 21]).standard_normal(40)
    return [leading_prefix(rows, a, t=1 / a, start=start), endpoint_pole(wide, start=off)]


def stopped_early(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """At twice the time of the largest eigenvalue."""
    rows = gaussian_rows(40, 12, seed=system.seed, even=True)
    return [anti_shrinkage(rows, t=2 / float(rows.m[-1]), share=0.9)]


def isotropic(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """The head's variance is the tail's level."""
    level = system.setting((1.0,)).tail.eigenvalues[0]
    draws = system.setting((level,)).draws(system.draws, seed=system.seed, role=4)
    return [
        beats_endpoints(draws),
        beats_rescaling(draws),
        head_worth_amplifying(draws),
        floor_critical_path(draws[:1]),
    ]


def head_inside_bulk(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """lh = 0.6 sqrt(a lT): below the threshold lT + sqrt(a lT)."""
    w = system.setting((1.0,)).w
    draws = system.setting((0.6 * w,)).draws(system.draws, seed=system.seed, role=5)
    return [floor_critical_path(draws[:2]), beats_endpoints(draws), beats_rescaling(draws)]


def single_head(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """The designs on which endpoints are compared."""
    return [beats_rescaling(system.one())]


def wrong_shift(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """a + lh for the weakest head."""
    draws = system.several()
    return [floor_critical_path(draws, shift=draws[0].scale)]


def dependent_rows(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """Correlation 0.8 from one observation to the next."""
    setting = dataclasses.replace(system.setting(system.head), row_correlation=0.8)
    draws = setting.draws(system.draws, seed=system.seed, role=6)
    return [
        bulk_barrier(draws),
        trace_sets_floor([draws]),
        squares_set_exposure([draws]),
        floor_critical_path(draws),
    ]


def short_tail(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """j^-1.5 with the default's trace, ten dimensions for each observation."""
    flat = system.setting(system.head)
    tail = power_tail(10 * system.n, exponent=1.5, trace=flat.tail.trace)
    draws = dataclasses.replace(flat, tail=tail).draws(system.draws, seed=system.seed, role=7)
    return [bulk_barrier(draws), trace_sets_floor([draws]), squares_set_exposure([draws]), beats_endpoints(draws)]


def fixed_aspect(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """The default's aspect at every size."""
    groups = []
    for n in sorted(set(system.sizes)):
        setting = flat_setting(n, (system.single,), floor=system.floor, aspect=system.aspect, sigma=system.sigma)
        groups.append(setting.draws(system.draws, seed=draw_seed(system.seed, n), role=8))
    return [risk_ratio_grows(groups)]


def unequal_noise(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """Variances with a standard deviation of 1 in their logs, of the same mean."""
    return [amplification_rule(seed=system.seed, noise_spread=1.0)]


def validated_on_training(system: "NegativeShiftedDescent", progress: Progress) -> list[Verdict]:
    """The interpolant wins on the rows that it interpolates."""

    def losses(draw: Draw, z: np.ndarray, n_points: int) -> np.ndarray:
        fitted = (np.sqrt(draw.setting.n * draw.m) * z) @ draw.risk.U.T
        return np.mean((fitted - draw.design.y) ** 2, axis=1)

    return [system.hold_out(system.one(), losses=losses)]
