"""Claims of `positive-quadratic-networks` about commuting measurements: entropy, least trace, finite steps."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...data.measurements import CommutingMeasurements, Measurements
from ...flows import QuadraticEnding, factor_flow, mirror_descent, mirror_flow
from ._quadratic_commuting import Commuting, entropy_projection, factor_span_residual
from ._quadratic_experiment import LOSSES, arrived

ACCURACY = 1e-11
ARRIVAL = 1e-12
EQUAL = 1e-8  # of two paths: a thousand times the integrators' accuracy
SAME_LIMIT = 1e-7  # of two limits: the residual at arrival times the condition of the measurements, and room
SPREAD = math.log(1e8)  # of the eigenvalues of Q, while the logs of the small ones are compared
POWERS = (1, 2, 3, 4, 5, 6)  # eps is chosen so that the slowest entry has faded to 10 to minus these
EXPONENT_ALLOWANCE = 1e-3  # what is left of the last two starts' own error, about 10^-5
ORDER_ALLOWANCE = 0.05  # the neighbouring orders are one away
HALVINGS = 5  # of the step size
MOST_STEPS = 600_000  # of descent: a second or so for each of the halvings that needs them


def _verdict(claim: str, kind: Kind, loss: str, **rest) -> Verdict:
    return Verdict(claim=claim, parametrisation="commuting", loss=loss, kind=kind, **rest)


def commute(measurements: Measurements) -> float:
    """The largest `|A_i A_j - A_j A_i| / (|A_i| |A_j|)`: zero when they commute."""
    A = measurements.matrices()
    A = A[measurements.norms > 0] / measurements.norms[measurements.norms > 0][:, None, None]
    products = np.einsum("iab,jbc->ijac", A, A, optimize=True)
    return float(np.linalg.norm(products - products.transpose(1, 0, 2, 3), axis=(2, 3)).max())


def _assume(measurements: Measurements) -> Assumption:
    size = commute(measurements)
    return Assumption(name="the measurements commute", holds=size <= 1e-12, measured=size)


def _positive(Q0: Float[np.ndarray, "d d"]) -> Assumption:
    w = np.linalg.eigvalsh(Q0)
    return Assumption(name="strictly positive start", holds=w[0] > 1e-14 * w[-1], measured=float(w[0] / w[-1]))


def starts(measurements: Measurements, seed: int) -> list[Float[np.ndarray, "d d"]]:
    """Four positive starts, diagonal in the measurements' basis where they have one: 0.01, 0.1, 1 and a spread."""
    d = measurements.d
    V = measurements.basis if isinstance(measurements, CommutingMeasurements) else np.eye(d)
    unit = float(np.abs(measurements.y).max() / measurements.norms.max())
    rng = np.random.default_rng([seed, 45])
    sizes = [0.01, 0.1, 1.0]
    diagonals = [size * rng.uniform(0.5, 1.5, d) for size in sizes] + [10 ** rng.uniform(-3, 0, d)]
    return [(V * (unit * q)) @ V.T for q in diagonals]


def mirror(measurements: Measurements, Q0: Float[np.ndarray, "d d"], loss: str) -> tuple[Verdict, xr.Dataset | None]:
    """The flow of U is the mirror flow of the entropy: `log Q - log Q0` stays in the span of the `A_i`, all the way.

    Where the measurements commute, also: at equal times `U U' = V diag(q) V'` with q from the flow of `log q` alone.
    """
    chosen = LOSSES[loss]
    arrival = ARRIVAL if chosen.jax is None else 10 * ARRIVAL
    free = factor_flow(measurements, _root(Q0), loss=chosen.jax, accuracy=ACCURACY, arrival=arrival)
    # Eigenvalues that go to zero take their logs out of sight.
    spread = np.ptp(free.history.log_spectrum, axis=1)
    hidden = spread > max(SPREAD, float(spread[0]))
    below = np.flatnonzero((free.history.residual <= 1e-8) | hidden)
    last = float(free.history.time[below[0] if below.size else -1])
    times = np.geomspace(1e-3 * last, last, 25)
    run = factor_flow(
        measurements, _root(Q0), loss=chosen.jax, times=times, max_time=last, accuracy=ACCURACY, arrival=1e-13
    )
    n = min(len(times), len(run.states))
    matrices = measurements.matrices()
    with np.errstate(divide="ignore"):  # an eigenvalue of zero has an infinite rounding
        seen = [factor_span_residual(run.states[i], Q0, matrices) for i in range(n)]
    # Where the rounding of a small eigenvalue is as large as what is looked for, nothing is seen.
    off = [residual for residual, rounding in seen if rounding <= EQUAL / 10]
    measured, table, difference = max(off, default=math.nan), None, []
    if isinstance(measurements, CommutingMeasurements):
        q0 = measurements.diagonal(Q0)
        other = mirror_flow(
            measurements, q0, loss=chosen.jax, times=times, max_time=last, accuracy=ACCURACY, arrival=1e-13
        )
        n = min(n, len(other.states))
        difference = [
            float(np.linalg.norm(run.matrix(i) - other.matrix(i)) / np.linalg.norm(run.matrix(i))) for i in range(n)
        ]
        measured = max(measured, *difference)
        table = xr.Dataset(
            {
                "time": ("point", times[:n]),
                "factor": (("point", "entry"), [measurements.diagonal(run.matrix(i)) for i in range(n)]),
                "mirror": (("point", "entry"), np.exp(other.states[:n])),
                "difference": ("point", difference),
            },
            attrs={"loss": loss},
        )
    undecided = None
    if n < len(times):
        undecided = f"a flow ended before the other: {run.ending}."
    elif not off:
        undecided = "the small eigenvalues of Q are below the rounding of the large ones, on all of the path."
    return _verdict(
        "entropy-mirror-flow",
        Kind.EQUALITY,
        loss,
        measured=measured,
        bound=EQUAL,
        slack=ACCURACY,
        unit="relative difference",
        undecided=undecided,
        assumptions=(_assume(measurements), _positive(Q0)),
        details={"times": times[:n], "off the span": off, "difference": difference},
    ), table


def bregman(
    measurements: Measurements,
    loss: str,
    Q0s: Sequence[Float[np.ndarray, "d d"]],
    *,
    judged_by: Sequence[Float[np.ndarray, "d d"]] | None = None,
) -> Verdict:
    """From every positive start the flow of U ends at `argmin KL(q | q0)` over `a q = y`, `q >= 0`.

    Matrices that do not commute have no q: they are judged by the projection in von Neumann's entropy, which is the
    same where they do; commuting ones are judged by both. `judged_by`: other starts for the limit, for a
    counter-instance.
    """
    chosen = LOSSES[loss]
    arrival = ARRIVAL if chosen.jax is None else 10 * ARRIVAL
    distances, gaps, late = [], [], []
    matrices = measurements.matrices()
    for Q0, of in zip(Q0s, Q0s if judged_by is None else judged_by, strict=True):
        run = factor_flow(measurements, _root(Q0), loss=chosen.jax, accuracy=ACCURACY, arrival=arrival)
        if not arrived(run):
            late.append(f"{run.ending} at relative residual {run.figures.residual:.1e}")
        Q, residual = entropy_projection(of, matrices, measurements.y)
        limits = [Q]
        gaps.append(residual)
        if isinstance(measurements, CommutingMeasurements):
            exact = Commuting(measurements)
            found = exact.projection(np.log(measurements.diagonal(of)))
            gaps.append(found.certificate.gap)
            limits.append(exact.matrix(found.certificate.point))
        distances.append(max(float(np.linalg.norm(run.Q - limit) / np.linalg.norm(limit)) for limit in limits))
    return _verdict(
        "bregman-projection",
        Kind.EQUALITY,
        loss,
        measured=max(distances),
        bound=SAME_LIMIT,
        slack=ACCURACY + max(map(abs, gaps)),
        unit="relative distance",
        # A flow that is far from the limit and does not move has failed; one that is near it may still arrive.
        undecided=f"a flow did not arrive: {late[0]}." if late and max(distances) <= 0.01 else None,
        assumptions=(_assume(measurements), *(_positive(Q0) for Q0 in Q0s[:1])),
        details={"starts": len(distances), "distance": distances, "residual and gap": gaps, "not arrived": late},
    )


def small_starts(instance: Commuting, powers: Sequence[float]) -> Float[np.ndarray, " k"]:
    """`log eps` for which the slowest off-face entry, `eps^(2 cost)`, is 10 to minus each of `powers`."""
    costs = np.delete(instance.reduced_costs, instance.face)
    return -np.asarray(powers, dtype=float) * math.log(10) / (2 * float(costs.min()))


def minimum_trace(
    instance: Commuting,
    weights: Float[np.ndarray, " d"],
    loss: str,
    *,
    log_eps: Float[np.ndarray, " k"] | None = None,
) -> tuple[Verdict, xr.Dataset]:
    """As eps -> 0 the limit from `q0 = eps^2 w` has the least trace: its other entries fade like `eps^(2 cost)`.

    Measured: the largest distance of the measured exponents (between the last two starts) from twice the reduced cost
    of the linear program. The excess of the trace is exactly `sum cost_j q_j`, and must fall with every start.
    `log_eps`: other starts, for a counter-instance.
    """
    log_eps = small_starts(instance, POWERS) if log_eps is None else log_eps
    costs, least = instance.reduced_costs, instance.least_trace
    logs, traces, predicted, residuals, late = [], [], [], [], []
    for le in log_eps:
        start = 2 * le + np.log(weights)
        run = mirror_flow(instance.measurements, log_q0=start, loss=LOSSES[loss].jax, arrival=ARRIVAL)
        if not arrived(run):
            late.append(f"eps = 1e{le / math.log(10):.1f}: {run.ending} at residual {run.figures.residual:.1e}")
        logs.append(run.final)
        traces.append(float(np.exp(run.final).sum()))
        residuals.append(run.figures.residual)
        predicted.append(float(instance.projection(2 * le + np.log(weights)).certificate.point.sum()))
    bound = least.certificate.lower
    excess = np.array(traces) / bound - 1
    slopes = (logs[-1] - logs[-2]) / (log_eps[-1] - log_eps[-2])
    off = np.abs(slopes - 2 * costs)
    table = xr.Dataset(
        {
            "log_eps": ("start", log_eps),
            "excess": ("start", excess),
            "predicted_excess": ("start", np.array(predicted) / bound - 1),
            "log_q": (("start", "entry"), np.array(logs)),
            "reduced_cost": ("entry", costs),
        },
        attrs={"least_trace": bound, "loss": loss},
    )
    falls = bool((np.diff(excess) < 0).all() and excess[-1] < 1e-3)
    undecided = None
    if least.status != "optimal":
        undecided = f"the linear program is not solved: {least.status}."
    elif late:
        undecided = f"a flow did not arrive: {late[0]}."
    elif not instance.costs_known:
        undecided = (
            "the least trace has fewer positive entries than there are independent measurements: the reduced costs are "
            f"not unique, and with them the exponents. The trace's excess fell to {excess[-1]:.1e}."
        )
    return _verdict(
        "minimum-trace",
        Kind.RATE,
        loss,
        measured=float(off.max()),
        bound=EXPONENT_ALLOWANCE,
        slack=max(residuals) if math.isfinite(max(residuals)) else 0.0,
        unit="exponent of eps",
        conditions=(
            Assumption(name="the trace's excess falls to nothing", holds=falls, measured=float(excess[-1])),
            Assumption(name="the flow interpolates", holds=max(residuals) <= 1e-9, measured=max(residuals)),
        ),
        assumptions=(
            _assume(instance.measurements),
            Assumption(name="one solution of least trace", holds=instance.vertex),
        ),
        undecided=undecided,
        details={
            "log10 eps": log_eps / math.log(10),
            "excess": excess,
            "exponents": slopes,
            "twice the reduced costs": 2 * costs,
            "least trace": bound,
            "gap": least.certificate.gap,
            "not arrived": late,
        },
    ), table


def weighted_entropy(
    instance: Commuting,
    weights: Float[np.ndarray, " d"],
    loss: str,
    *,
    log_eps: Float[np.ndarray, " k"] | None = None,
    judged_by: Float[np.ndarray, " d"] | None = None,
) -> Verdict:
    """Where the least trace is not unique, `sum q log(q / w) - q` decides within its face, w the start's shape.

    Measured: the distance from the face's solution, at the smallest start, over the size that its off-face entries
    still have, which is `eps^(2 cost)`; it must fall with the start. `judged_by`: other weights, and `log_eps`: other
    starts, for counter-instances.
    """
    log_eps = small_starts(instance, POWERS[1::2]) if log_eps is None else log_eps
    point = instance.on_face(weights if judged_by is None else judged_by)
    rival = instance.on_face(np.ones_like(weights))
    size = float(np.abs(point).max())
    apart = float(np.abs(instance.on_face(weights) - rival).max()) / size
    distances, late = [], []
    for le in log_eps:
        run = mirror_flow(
            instance.measurements, log_q0=2 * le + np.log(weights), loss=LOSSES[loss].jax, arrival=ARRIVAL
        )
        if not arrived(run):
            late.append(f"eps = 1e{le / math.log(10):.1f}: {run.ending} at residual {run.figures.residual:.1e}")
        distances.append(float(np.abs(np.exp(run.final) - point).max()) / size)
    costs = np.delete(instance.reduced_costs, instance.face)
    # Each entry is eps^(2 cost) times a number of order one; ten of them for what they displace.
    bound = 10 * costs.size * float(np.exp(2 * log_eps[-1] * costs.min()))
    undecided = None
    if late:
        undecided = f"a flow did not arrive: {late[0]}."
    elif apart < 100 * bound and judged_by is None and bound < 1e-2:
        undecided = f"other weights choose nearly the same point of the face: {apart:.1e} away."
    return _verdict(
        "weighted-entropy-on-face",
        Kind.RATE,
        loss,
        measured=distances[-1],
        bound=min(bound, 1e-3),
        slack=EQUAL,
        unit="relative distance",
        conditions=(
            Assumption(name="the distance falls with the start", holds=bool((np.diff(distances) < 0).all())),
            Assumption(
                name="the face is no vertex",
                holds=not instance.vertex,
                measured=float(instance.face.size),
            ),
        ),
        undecided=undecided,
        assumptions=(_assume(instance.measurements),),
        details={
            "log10 eps": log_eps / math.log(10),
            "distance": distances,
            "on the face": point,
            "with equal weights": rival,
            "apart": apart,
        },
    )


def finite_steps(
    instance: Commuting,
    log_q0: Float[np.ndarray, " d"],
    loss: str,
    *,
    largest: float = 0.5,
    most_steps: int = MOST_STEPS,
) -> tuple[list[Verdict], xr.Dataset]:
    """Descent's limit is off the Bregman projection by O(eta), and off that of the corrected start by O(eta^2).

    The corrected start is `q0 exp(-4 eta int g * g dt)`, with the sum over descent's own steps for the integral. Orders
    are fitted over halvings of the step; the slack is the change of the order from the last halving to the one before.
    `largest`: the first step size, in units of 1 / largest curvature at the projection.
    """
    a, y, m = instance.a, instance.y, instance.measurements
    point = instance.projection(log_q0).certificate.point
    # q moves like U: the curvature along the factor is 4 a_i q a_i' summed, over n.
    curvature = 4 * float(np.linalg.norm((a * point) @ a.T, 2)) / len(y)
    etas = largest / curvature / 2.0 ** np.arange(HALVINGS)
    plain, corrected, endings, slow = [], [], [], []
    for eta in etas:
        run = mirror_descent(
            m, log_q0=log_q0, step_size=float(eta), n_steps=most_steps, until=1e-11, loss=LOSSES[loss].jax
        )
        endings.append(run.ending)
        if run.ending is not QuadraticEnding.INTERPOLATES:
            # With its steps spent it may be on its way; if it was not coming nearer, it has failed.
            half = run.residual[run.residual.size // 2 :]
            if run.ending is QuadraticEnding.STEPS_TAKEN and (np.diff(half) <= 0).all() and half[-1] < half[0]:
                slow.append(f"step {eta:.2g}: relative residual {half[-1]:.1e} after {most_steps} steps")
            plain.append(math.nan)
            corrected.append(math.nan)
            continue
        shifted = instance.projection(run.corrected_start).certificate.point
        plain.append(float(np.abs(run.q - point).max() / np.abs(point).max()))
        corrected.append(float(np.abs(run.q - shifted).max() / np.abs(point).max()))
    table = xr.Dataset(
        {"step_size": ("halving", etas), "plain": ("halving", plain), "corrected": ("halving", corrected)},
        attrs={"loss": loss},
    )
    same = None
    if max(plain) <= SAME_LIMIT:  # false for NaN
        same = "every step size ends at the projection: these data leave descent no choice."
    elif slow:
        same = f"descent did not arrive: {slow[0]}."
    late = [f"step {eta:.2g}: {end}" for eta, end in zip(etas, endings, strict=True) if end != "interpolates"]
    verdicts = []
    for claim, order, values in (("finite-step", 1, plain), ("finite-step-corrected", 2, corrected)):
        with np.errstate(invalid="ignore", divide="ignore"):
            orders = np.log2(np.array(values[:-1]) / np.array(values[1:]))
        verdicts.append(
            _verdict(
                claim,
                Kind.RATE,
                loss,
                measured=float(abs(orders[-1] - order)),
                bound=ORDER_ALLOWANCE,
                slack=float(abs(orders[-1] - orders[-2])) if np.isfinite(orders[-2:]).all() else math.inf,
                unit=f"order - {order}",
                conditions=(
                    Assumption(
                        name="every step size ends at an interpolator", holds=not late, measured=float(len(late))
                    ),
                ),
                undecided=same,
                assumptions=(_assume(m),),
                details={
                    "step size": etas,
                    "distance": values,
                    "orders": orders,
                    "ratios": 2.0**orders,
                    "over eta": np.array(values) / etas**order,
                    "endings": [str(ending) for ending in endings],
                },
            )
        )
    return verdicts, table


def _root(Q0: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """U with `U U' = Q0`, square; columns of exactly zero where Q0 has no such direction."""
    w, V = np.linalg.eigh(Q0)
    return V * np.sqrt(np.where(w > 1e-14 * w[-1], w, 0.0))
