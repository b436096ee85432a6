"""Counter-instances of `early_alignment`: each breaks one assumption and names what must not hold."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...flows.separable_flow import separable_flow
from ...limits import MaxMargin
from ...losses import PolynomialTail
from ...solvers import solve
from .._options import unused_by_counter
from .._system import Counter, Findings, Progress
from . import _alignment_claims as claims
from . import _alignment_times as times
from ._alignment_instance import PAIR_START, Instance, fixture, instance, pair, refusal, unreached
from ._alignment_path import Path, log_slope
from ._alignment_radial import radial_tangential
from ._alignment_runs import descent, errors_of, flow

if TYPE_CHECKING:
    from .early_alignment import EarlyAlignment

    Check = Callable[[EarlyAlignment], tuple[list[Verdict], list[str]]]

LOSS = "logistic"
LARGE = 1.9
"""Step size of descent in the counter-instances, in units of 1 / smoothness."""

LONG = 1e5
"""Log time at which the growth like log log t is read off."""

N_POLYGON = 20_000
"""Steps of the descent that is taken for a flow."""


def counters(system: "EarlyAlignment") -> Mapping[str, Counter]:
    """Every counter-instance, from the system's seed.

    Each makes the rows that it needs, with the default options, so that what it breaks is seen whatever the options
    are. Running one raises `ValueError` when data are given as well.
    """
    flow_laws = ("radius-law", "balance-solution", "direction-law", "loss-law", "residual-identity")
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Check]] = {
        "not-separable": (
            "a fifth row that no w has on the right side along with the others: the flow settles",
            tuple((claim, "flow") for claim in (*flow_laws, "exponential-time")),
            not_separable,
        ),
        "polynomial-tail": (
            "the loss falls like 1/z: the support vectors do not outweigh the rest, and w does not tend to u",
            tuple((claim, "flow") for claim in (*flow_laws, "transverse-limit")),
            polynomial_tail,
        ),
        "zero-dual": (
            "a support vector whose dual is always zero: w_perp grows like log log t, and no balance is reached",
            (("balance-solution", "flow"), ("direction-law", "flow")),
            zero_dual,
        ),
        "span-only": (
            "C is taken from the support vectors' span alone, and they do not reach every direction",
            (("direction-law", "flow"), ("direction-law", "descent")),
            span_only,
        ),
        "other-weights": (
            "the rows count differently in training than in the law",
            (
                *((claim, where) for where in ("flow", "descent") for claim in ("balance-solution", "radius-law")),
                ("residual-identity", "flow"),
            ),
            other_weights,
        ),
        "large-steps": (
            "descent with large steps is taken for a flow",
            (("radial-tangential", "flow"), ("symmetric-pair", "flow")),
            large_steps,
        ),
        "symmetric-rows": (
            "the symmetric pair: w* = 0, so that the law is void and fine alignment is not exponentially dear",
            tuple((claim, where) for where in ("flow", "descent") for claim in ("direction-law", "exponential-time")),
            symmetric_rows,
        ),
        "unequal-pair": (
            "two rows whose parts across u are not opposite, judged as a symmetric pair",
            (("symmetric-pair", "flow"), ("power-alignment", "flow"), ("power-alignment", "descent")),
            unequal_pair,
        ),
        "steps-as-time": (
            "for descent the steps are counted, and not step size times steps",
            tuple((c, "descent") for c in ("radius-law", "direction-law", "loss-law", "residual-identity")),
            steps_as_time,
        ),
        "stopped-early": (
            "descent is judged at its last exact step, and is not continued",
            tuple((c, "descent") for c in ("balance-solution", "transverse-limit", "direction-law")),
            stopped_early,
        ),
    }
    return {
        name: Counter(text=text, expected=expected, check=_findings(function, system))
        for name, (text, expected, function) in made.items()
    }


def _findings(function: "Check", system: "EarlyAlignment") -> Callable[[Progress], Findings]:
    def check(progress: Progress) -> Findings:
        if system.data is not None:
            raise ValueError(f"a counter-instance makes its own data; drop `--data` (got {system.data!r}).")
        own = type(system)(seed=system.seed)
        with one_blas_thread():
            verdicts, notes = function(own)
            return Findings(
                verdicts=tuple(verdicts),
                settings=dataclasses.asdict(own),
                notes=(*notes, *unused_by_counter(system, "options")),
            )

    return check


def _laws(paths: list[Path]) -> list[Verdict]:
    return [
        claims.radius_law(paths),
        claims.balance_solution(paths),
        claims.direction_law(paths),
        claims.loss_law(paths),
        claims.residual_identity(paths),
    ]


def not_separable(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """The fixture and the row (-1, 0.2): judged by the law of the other four, at the place where the flow settles."""
    rows = fixture()
    Z = np.vstack([rows.Z, [-1.0, 0.2]])
    proof = refusal(solve(MaxMargin("l2", rows=Z)), Z)
    run = separable_flow(Z, loss=LOSS, until_log_time=system.until_log_time)
    # It stays where it is: the law is judged at the time to which a separable flow would have gone.
    later = np.linspace(run.log_time[-1] + 1, system.until_log_time, 50)
    held = np.repeat(run.w[-1:], later.size, axis=0)
    path = dataclasses.replace(
        flow(rows, LOSS, until=system.until_log_time),
        log_time=np.append(run.log_time[1:], later),
        w=np.vstack([run.w[1:], held]),
        errors=np.append(errors_of(run, rows)[1:], np.repeat(errors_of(run, rows)[-1], later.size)),
        first_times=lambda angles: run.hitting(rows.u, angles),
        at=None,
    )
    settled = f"the flow's ending: {run.ending}, at |w| = {float(np.linalg.norm(run.w[-1])):.4g}."
    late = times.exponential_time([path], weak=system.weak, fine=system.fine)
    return [*_laws([path]), late], [proof, settled]


def polynomial_tail(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """`-l'(z) = (1 + z)^-2` on rows whose support vectors do not span."""
    path = flow(unreached(), PolynomialTail(1.0), until=system.until_log_time)
    return [*_laws([path]), claims.transverse_limit([path])], []


def zero_dual(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """Rows (1, 0), (1, 1), (2, -1): u = (1, 0) is the first row itself, and the second has its margin for nothing."""
    rows = instance("zero dual", np.array([[1.0, 0.0], [1.0, 1.0], [2.0, -1.0]]))
    path = flow(rows, LOSS, until=system.until_log_time)
    long = flow(rows, LOSS, until=LONG)
    assert rows.law.second_margin is not None
    assert rows.law.second_direction is not None
    at = [long.index(share) for share in (0.1, 1.0)]
    grown = np.diff(long.across[at] @ rows.law.second_direction)[0]
    slope = float(grown / np.diff(np.log(long.log_time[at]))[0])
    note = (
        f"gamma |w_perp| grows by {slope:.4f} with each unit of log log t, log t from {LONG / 10:g} to {LONG:g}; "
        f"theory: {rows.gamma / rows.law.second_margin:.4f}, gamma over the margin of the rows of zero dual."
    )
    return [claims.balance_solution([path]), claims.direction_law([path])], [note]


def span_only(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """Rows whose support vectors do not span, by `C = gamma |w*|`."""

    def constant(path: Path) -> float:
        assert path.instance.balance is not None
        return float(path.instance.gamma * np.linalg.norm(path.instance.balance))

    rows = unreached()
    paths = [flow(rows, LOSS, until=system.until_log_time), system.descent(rows, LOSS, LARGE)]
    return [claims.direction_law([path], constant=constant) for path in paths], []


def other_weights(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """The drawn rows with weights 1/n in the law and, every other row, nine times as much in training."""
    rows = system.drawn()
    c = np.where(np.arange(rows.n) % 2 == 0, 1.0, 9.0)
    c /= c.sum()
    path = flow(rows, LOSS, until=system.until_log_time, weights=c)
    steps = descent(rows, LOSS, until=system.until_log_time, size=LARGE, n_steps=system.steps, weights=c)
    return [
        *(claims.radius_law([p]) for p in (path, steps)),
        *(claims.balance_solution([p]) for p in (path, steps)),
        claims.residual_identity([path]),
    ], []


def large_steps(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """The polygon through descent's points, walked at constant speed between them."""
    drawn = _polygon(system.drawn(), LOSS, np.zeros(system.d))
    on_pair = _polygon(pair(), "exponential", PAIR_START)
    return [radial_tangential([drawn]), times.symmetric_pair([on_pair])], []


def _polygon(rows: Instance, loss: str, start: Float[np.ndarray, " d"]) -> Path:
    """Descent from `start` with steps of 1.9 / lambda, lambda the largest eigenvalue of the Hessian at the start."""
    weights, Z = rows.weights, rows.Z
    slopes = np.exp(log_slope(loss, Z @ start))
    curvatures = slopes * (1 - slopes) if loss == "logistic" else slopes
    eta = LARGE / float(np.linalg.eigvalsh((Z.T * (weights * curvatures)) @ Z)[-1])
    points = [start]
    for _ in range(N_POLYGON):
        w = points[-1]
        points.append(w + eta * (weights * np.exp(log_slope(loss, Z @ w))) @ Z)
    times, w = eta * np.arange(N_POLYGON + 1), np.array(points)

    def at(log_time: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S d"]:
        t = np.exp(log_time)
        return np.stack([np.interp(t, times, column) for column in w.T], axis=1)

    s = np.log(times[1:])
    return Path(
        instance=rows,
        loss=loss,
        dynamics="flow",
        label=f"{rows.name}, {loss}, descent taken for a flow",
        start=start,
        log_time=s,
        w=w[1:],
        errors=np.zeros(s.size),
        first_times=lambda angles: np.full(len(angles), math.nan),
        at=at,
    )


def symmetric_rows(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """The law on the symmetric pair."""
    rows = pair()
    paths = [
        flow(rows, LOSS, until=system.until_log_time, start=PAIR_START),
        system.descent(rows, LOSS, LARGE, start=PAIR_START),
    ]
    judged = [times.exponential_time([p], weak=system.weak, fine=system.fine) for p in paths]
    return [*(claims.direction_law([p]) for p in paths), *judged], []


def unequal_pair(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """Rows (1, 1/2), (1, -1/4)."""
    rows = instance("unequal pair", np.array([[1.0, 0.5], [1.0, -0.25]]))
    exponential = flow(rows, "exponential", until=system.until_log_time, start=PAIR_START)
    steps = system.descent(rows, LOSS, LARGE, start=PAIR_START)
    return [times.symmetric_pair([exponential]), *(times.power_alignment([p]) for p in (exponential, steps))], []


def steps_as_time(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """The fixture, with the log of the number of steps as the law's log t."""
    path = system.descent(fixture(), LOSS, system.step_sizes[0])
    assert path.log_step is not None
    counted = dataclasses.replace(path, log_time=path.log_time - path.log_step)
    return [verdict for verdict in _laws([counted]) if verdict.claim != "balance-solution"], []


def stopped_early(system: "EarlyAlignment") -> tuple[list[Verdict], list[str]]:
    """Rows whose support vectors do not span, the exact steps alone."""
    path = system.descent(unreached(), LOSS, LARGE)
    assert path.last_exact is not None
    kept = path.log_time <= path.last_exact
    short = dataclasses.replace(path, log_time=path.log_time[kept], w=path.w[kept], errors=path.errors[kept])
    return [claims.balance_solution([short]), claims.transverse_limit([short]), claims.direction_law([short])], []
