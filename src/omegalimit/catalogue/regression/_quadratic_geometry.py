"""Claims of `positive-quadratic-networks` about one run: gradient, quotient flow, congruence, curvature, rates."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...flows import Rate, factor_flow, quotient_flow
from ...limits.quotient import vertical_share
from ._quadratic_experiment import Experiment, curvature_at, cut, falls_like_a_power

EPS = float(np.finfo(float).eps)
N_STATES = 40  # of a path that are looked at
LONGEST_STRETCH = 16  # steps between two kept states of descent over which the congruence is iterated
N_TIMES = 30  # at which the two flows are compared
ACCURACY = 1e-11  # of the integrators' steps
PATH_ALLOWANCE = 1e3  # global errors over the accuracy of a step; another equation is off by 1e9 times more
RATE_ALLOWANCE = 0.01  # the next eigenvalue, or twice the rate, is further off than this by far
SURELY = 20.0  # e-folds of the slowest mode in the last decade of a clock: by then an exponential shows as one
WINDOW = (1e-6, 1e-10)  # of the residual, in which the rate is local: its square is as small as what rounding leaves


def _verdict(e: Experiment, claim: str, kind: Kind, **rest) -> Verdict:
    return Verdict(claim=claim, parametrisation=e.label, loss=e.loss.name, kind=kind, **rest)


def horizontal_gradient(
    e: Experiment, turned: Callable[[Float[np.ndarray, "T d k"]], Float[np.ndarray, "T d k"]] | None = None
) -> Verdict:
    """JAX's gradient in U along the flow and along descent is horizontal: `U' grad` is symmetric, to rounding.

    `turned`: what the training does to the gradient before the step, for a counter-instance.
    """
    shares, rests = [], []
    for states in (_thinned(e.flow.states), _thinned(e.descent.states)):
        states = states[_sizeable(e, states)]
        gradients = e.gradients(states)
        gradients = gradients if turned is None else turned(gradients)
        for U, g in zip(states, gradients, strict=True):
            w = np.abs(e.weights(e.measurements.apply_factor(U)))
            uncancelled = 2 * float(w @ e.measurements.norms) * float(np.linalg.norm(U))
            size = float(np.linalg.norm(g))
            # A gradient that cancels to nothing keeps the rounding of its terms.
            if size > 1e-6 * uncancelled:
                shares.append(vertical_share(U, g))
                rests.append(uncancelled / size)
    worst = int(np.argmax(shares)) if shares else 0
    return _verdict(
        e,
        "horizontal-gradient",
        Kind.INVARIANT,
        measured=shares[worst] if shares else math.nan,
        bound=100 * EPS * max(rests) if shares else math.nan,
        slack=EPS,
        unit="vertical share",
        undecided=None if shares else "the gradient vanishes in every state.",
        details={"states": len(shares)},
    )


def quotient_flow_claim(
    e: Experiment, path: tuple[Float[np.ndarray, " T"], Float[np.ndarray, "T d k"]] | None = None
) -> Verdict:
    """`U U'` along the factor's flow and Q along the quotient's, integrated apart, agree at equal times.

    `path`: times and factors of another training, for a counter-instance.
    """
    times, states = comparison_path(e) if path is None else path
    if len(times) < 2:
        return _verdict(
            e,
            "quotient-flow",
            Kind.EQUALITY,
            measured=math.nan,
            bound=PATH_ALLOWANCE * ACCURACY,
            slack=0.0,
            unit="relative difference",
            undecided="the start interpolates already: there is no path.",
        )
    other = quotient_flow(
        e.measurements,
        states[0] @ states[0].T,
        loss=e.loss.jax,
        times=times,
        max_time=float(times[-1]),
        accuracy=ACCURACY,
        arrival=1e-13,
    )
    n = min(len(states), len(other.states))
    differences = [
        float(np.linalg.norm(U @ U.T - Q) / np.linalg.norm(Q))
        for U, Q in zip(states[:n], other.states[:n], strict=True)
    ]
    reached = n == len(times)
    worst = max(differences)
    # Errors of the steps, as large as the flow makes them; looked at where they might be what is seen.
    slack = ACCURACY
    if worst > PATH_ALLOWANCE * ACCURACY:
        # In Q the least eigenvalue has the errors of the largest.
        slack *= (
            _spread(states[:n]) if path is not None else math.exp(np.ptp(e.flow.history.log_spectrum, axis=1).max())
        )
        slack *= max(1.0, _sensitivity(e, states[0], times[:n], other.states[:n]))
    return _verdict(
        e,
        "quotient-flow",
        Kind.EQUALITY,
        measured=worst,
        bound=PATH_ALLOWANCE * ACCURACY,
        slack=slack,
        unit="relative difference",
        undecided=None if reached else f"the quotient's flow ended early: {other.ending}.",
        details={"times": times[:n], "difference": differences, "steps": other.cost.n_steps},
    )


def _spread(states: np.ndarray) -> float:
    """The largest eigenvalue of Q over the least, on the way: in Q the least keeps the rounding of the largest."""
    values = np.linalg.svd(states, compute_uv=False)
    return float((values[:, 0] / np.maximum(values[:, -1], 1e-8 * values[:, 0])).max()) ** 2


def _sensitivity(e: Experiment, U0: np.ndarray, times: np.ndarray, states: np.ndarray) -> float:
    """By how much the quotient's flow, from a start with relative errors in every entry, enlarges them."""
    size = 1e-6
    noise = np.random.default_rng(0).standard_normal(U0.shape)
    moved = U0 * (1 + size * noise)
    other = quotient_flow(
        e.measurements,
        moved @ moved.T,
        loss=e.loss.jax,
        times=times,
        max_time=float(times[-1]),
        accuracy=ACCURACY,
        arrival=1e-13,
    )
    pairs = zip(states, other.states, strict=False)
    return max(float(np.linalg.norm(P - Q) / np.linalg.norm(Q)) for Q, P in pairs) / size


def comparison_path(e: Experiment) -> tuple[np.ndarray, np.ndarray]:
    """Times from 0 to where the residual is 1e-8 (or Q has all but vanished), and the flow's own states there."""
    history = e.flow.history
    if history.time.size < 2:
        return np.zeros(1), e.start[None]
    top = np.nanmax(history.log_spectrum, axis=1)
    over = np.flatnonzero((history.residual <= 1e-8) | (top < top[0] + math.log(1e-6)))
    last = float(history.time[over[0] if over.size else -1])
    times = np.concatenate([[0.0], np.geomspace(1e-4 * last, last, N_TIMES)])
    run = factor_flow(
        e.measurements,
        e.start,
        loss=e.loss.jax,
        times=times,
        max_time=last,
        accuracy=ACCURACY,
        arrival=1e-13,
    )
    return times, run.states[: len(times)]


def congruence(
    e: Experiment,
    path: tuple[np.ndarray, np.ndarray] | None = None,
    turned: Callable[[Float[np.ndarray, "T d k"]], Float[np.ndarray, "T d k"]] | None = None,
) -> Verdict:
    """`Q+ = (I - 2 eta G) Q (I - 2 eta G)`, iterated in Q alone, is what descent does to `U U'`.

    Judged from each kept step of descent to the next, where they lie close, and over one step of JAX's gradient from
    every kept state. (Over many steps the recursion in Q leaves the matrices of rank r by rounding, and near a saddle
    that grows; U cannot.) `path`, `turned`: another training and its gradient, for a counter-instance.
    """
    steps, states = (e.descent.step, e.descent.states) if path is None else path
    states = states[np.isfinite(states).all(axis=(1, 2)) & _sizeable(e, states)]
    eta = e.descent.step_size
    near = [i for i in range(len(states) - 1) if steps[i + 1] - steps[i] <= LONGEST_STRETCH]
    gradients = e.gradients(states)
    single = states - eta * (gradients if turned is None else turned(gradients))
    pairs = [(states[i], states[i + 1], int(steps[i + 1] - steps[i])) for i in near]
    pairs += [(U, after, 1) for U, after in zip(states, single, strict=True)]
    differences = []
    for U, after, count in pairs:
        Q = U @ U.T
        for _ in range(count):
            M = np.eye(len(Q)) - 2 * eta * e.gradient_in_q(Q)
            Q = M @ Q @ M
            Q = (Q + Q.T) / 2
        # A step may shrink Q to nothing: rounding is that of what it started from.
        size = max(float(np.linalg.norm(Q)), float(np.linalg.norm(U)) ** 2)
        differences.append(float(np.linalg.norm(after @ after.T - Q)) / size)
    return _verdict(
        e,
        "congruence",
        Kind.EQUALITY,
        measured=max(differences) if differences else math.nan,
        # Rounding of the products of a step, added up over a stretch.
        bound=100 * EPS * math.sqrt(LONGEST_STRETCH),
        slack=EPS,
        unit="relative difference",
        undecided=None if differences else "descent left the doubles.",
        details={"stretches": len(near), "single steps": len(states), "difference": differences, "step size": eta},
    )


def _sizeable(e: Experiment, states: np.ndarray) -> np.ndarray:
    """Which states have squares: what descent leaves on its way out of the doubles has none."""
    largest = 1e3 * (float(np.abs(e.start).max()) + float(np.abs(e.flow.final).max()))
    return np.abs(states).max(axis=(1, 2)) <= largest


def curvature_claims(e: Experiment, U: np.ndarray | None = None, *, unseen: bool = False) -> list[Verdict]:
    """`effective-hessian` and `gauge-zeros`: JAX's Hessian in U against the Gram form in coordinates of Q.

    `U`: another point than the flow's end, for a counter-instance; `unseen`: count the zeros also where the data do not
    see every tangent direction, for another.
    """
    at = e.flow.final if U is None else U
    form = e.hessian if U is None and at.shape[1] == e.rank else curvature_at(e.measurements, at)
    found = e.hessian_in_factor(at)
    residual = e.flow.figures.residual if U is None else math.nan
    # Where the residual is not exactly zero, the Hessian has 2 <G, Z Z'> beside the form (Weyl).
    G = e.gradient_in_q(at @ at.T)
    rest = 2 * float(np.linalg.norm(G, 2)) if U is None else 0.0
    rounding = 100 * EPS * form.largest
    expected = np.concatenate([np.zeros(found.size - form.eigenvalues.size), form.eigenvalues])
    difference = float(np.abs(found - expected).max())
    n_zero = int((np.abs(found) <= rounding + rest).sum())
    r = e.rank
    undecided = zeros_undecided = None
    if U is None and not e.interpolates:
        undecided = zeros_undecided = f"the flow did not end at an interpolator: relative residual {residual:.1e}."
    elif U is None and e.limit_rank < at.shape[1]:
        zeros_undecided = (
            f"the limit has rank {e.limit_rank}, and the factor {at.shape[1]} columns: the claim is about as many "
            "columns as the rank."
        )
    elif U is None and form.n_zero and not unseen:
        zeros_undecided = (
            f"the data do not see {form.n_zero} of the {form.eigenvalues.size} tangent directions: the claim is about "
            "data that see all of them."
        )
    common = {"assumptions": e.assuming("interpolates", "enough measurements", "width")}
    return [
        _verdict(
            e,
            "effective-hessian",
            Kind.EQUALITY,
            measured=difference / form.largest,
            bound=(rounding + rest) / form.largest,
            slack=EPS,
            unit="relative difference",
            details={"in U": found, "form": form.eigenvalues, "residual": residual},
            undecided=undecided,
            **common,
        ),
        _verdict(
            e,
            "gauge-zeros",
            Kind.COUNT,
            measured=float(abs(n_zero - r * (r - 1) // 2)),
            bound=0.0,
            slack=0.0,
            unit="zeros too many or too few",
            details={
                "zeros": n_zero,
                "r (r-1)/2": r * (r - 1) // 2,
                "smallest nonzero": form.smallest_nonzero,
                "largest": form.largest,
            },
            undecided=zeros_undecided,
            **common,
        ),
    ]


def exponential_rate(e: Experiment) -> Verdict:
    """Near its end the flow's residual falls mode by mode like `exp(-t lambda)`, lambda over the form's eigenvalues."""
    flow = e.flow
    path = _Path(flow.time, flow.states, flow.history.time, flow.history.residual, e.end)
    return _rate(e, "exponential-rate", path, lambda form, t: -form * t, flow.local_rate, ())


def linear_rate(e: Experiment) -> Verdict:
    """Near its end descent's residual falls mode by mode by `1 - eta lambda` a step."""
    descent = e.descent
    steps = np.arange(descent.residual.size, dtype=float)
    path = _Path(descent.step, e.descent.states, steps, descent.residual, cut(descent.U, e.rank))
    diverged = Assumption(
        name="descent does not diverge",
        holds=descent.diverged_at is None,
        measured=None if descent.diverged_at is None else float(descent.diverged_at),
    )
    if not diverged.holds:
        path = dataclasses.replace(path, end=e.end)
    found = _rate(
        e,
        "linear-rate",
        path,
        lambda form, k: k * np.log(np.maximum(np.abs(1 - descent.step_size * form), 1e-300)),
        descent.local_rate,
        ("stable step",),
    )
    undecided = found.undecided
    if not diverged.holds:
        # Beyond 2 it could settle nowhere near the end; below, it never came to where the claim is about.
        undecided = None
        if e.edge < 2:
            undecided = (
                f"descent diverged from the start, where step x curvature is {descent.edge_start:.3g} "
                f"(at the flow's end {e.edge:.3g}): it never came near an interpolator."
            )
    return dataclasses.replace(found, conditions=(diverged,), undecided=undecided)


@dataclasses.dataclass(frozen=True)
class _Path:
    """Kept states on their clock, the residual on its own (finer) one, and the end, cut to the rank."""

    clock: np.ndarray
    states: np.ndarray
    fine: np.ndarray
    residual: np.ndarray
    end: np.ndarray


def _rate(
    e: Experiment,
    claim: str,
    path: _Path,
    log_decay: Callable[[np.ndarray, float], np.ndarray],
    rate_of: Callable[..., Rate | None],
    names: tuple[str, ...],
) -> Verdict:
    """The fall of the residual over the window against what the form's modes give from the state at its beginning.

    One rate alone would be right only where a single mode is left; with many unknowns that is below rounding. Measured:
    the error of the logarithm at the window's end over its fall.
    """
    m = e.measurements
    seen = np.flatnonzero(np.isfinite(path.residual) & (path.residual >= WINDOW[1]))
    stop = int(seen[-1]) if seen.size else 0
    r1, t1 = float(path.residual[stop]), float(path.fine[stop])
    local = r1 <= WINDOW[0] / 100
    below = WINDOW[0] if local else 100 * r1
    size = float(np.linalg.norm(m.y))
    first = None
    for t, U in zip(path.clock, path.states, strict=True):
        if not (t < t1 and np.isfinite(U).all()):
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            r0 = float(np.linalg.norm(m.apply_factor(U) - m.y)) / size
        if r0 <= below:
            first = float(t), U, r0
            break
    fit = rate_of(first=WINDOW[0], last=WINDOW[1])
    measured, undecided, details = math.nan, None, {}
    if first is None or not 0 < r1 < first[2] / 3:
        undecided = f"no tail to judge: the residual ended at {r1:.1e}."
    else:
        t0, U0, r0 = first
        L, s, _ = np.linalg.svd(2 * m.factor_rows(path.end).reshape(m.n, -1) / math.sqrt(m.n), full_matrices=False)
        # Without the gauge and what the data do not see: those columns of L are no part of the range.
        kept = s > math.sqrt(EPS) * s[0]
        L, form = L[:, kept], s[kept] ** 2
        # Beside an interpolator the residual lies in the range of the derivative, to second order.
        modes = np.abs(L.T @ (m.apply_factor(U0) - m.y)) / size
        logs = np.log(modes[modes > 0]) + log_decay(form[modes > 0], t1 - t0)
        predicted = float(np.logaddexp.reduce(2 * logs)) / 2 if logs.size else -math.inf
        fall = math.log(r0) - predicted
        measured = abs(math.log(r1) - predicted) / fall if math.isfinite(fall) and fall > 0 else 1.0
        details = {"window": [r0, r1], "predicted log residual": predicted, "clock": [t0, t1]}
        last = float(path.residual[np.isfinite(path.residual)][-1])
        # A residual that stopped has met no data: at a local minimum, at a saddle, at the rounding of the targets.
        # One that falls like a power of the clock goes to an interpolator, and not exponentially.
        slowest = curvature_at(m, cut(path.end, e.limit_rank)).smallest_nonzero
        if last > WINDOW[1] and not (
            measured > RATE_ALLOWANCE
            and falls_like_a_power(path.fine, path.residual)
            # Many modes together may fall like a power until the slowest one is left.
            and log_decay(np.array(slowest), 0.9 * float(path.fine[-1])) < -SURELY
        ):
            undecided = f"the residual ended at {last:.1e}, before the rate could be local."
    return _verdict(
        e,
        claim,
        Kind.RATE,
        measured=measured,
        bound=RATE_ALLOWANCE,
        slack=ACCURACY,
        unit="relative error of the rate",
        undecided=undecided,
        assumptions=e.assuming("interpolates", "width", "full-rank start", *names),
        details={
            **details,
            "local": local,
            "fitted rate": None if fit is None else fit.rate,
            "its error": None if fit is None else fit.error,
            "smallest curvature": e.hessian.smallest_nonzero,
            "largest curvature": e.hessian.largest,
        },
    )


def _thinned(states: np.ndarray) -> np.ndarray:
    return states[np.unique(np.linspace(0, len(states) - 1, min(len(states), N_STATES)).astype(int))]
