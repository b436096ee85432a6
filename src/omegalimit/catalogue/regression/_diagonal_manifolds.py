"""The claim `invariant-manifolds` of `diagonal_networks`: what flow and finite steps keep of a network's geometry.

Every neuron of a product keeps `a_j^2 - a_l^2` under the flow (and `u^2 - v^2` keeps `u v`). One step of descent
changes it by the factor `1 - (eta u k / (a_j a_l))^2`: the planes `a_j = +-a_l` survive any step, exactly, and the
curved manifolds are left by an amount of order eta over a given time. Stated by the authors: which of them survive;
derived in `flows/diagonal_descent.py`: the factor.
"""

import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...flows.diagonal_descent import DiagonalDescent, diagonal_descent
from ...flows.diagonal_flow import DiagonalFlow, diagonal_flow
from ...models import ProductNeurons
from ._diagonal_data import Instance
from ._diagonal_experiment import log_start
from ._diagonal_models import Network

CLOCK = 10.0  # h of the start, small enough for descent to arrive in some thousand steps: s = 0.1 for three layers
STEP = 0.1  # of descent, as a share of the largest stable one along the flow
MOST_STEPS = 20_000
LEAST_SEEN = 1e-6  # drift by rounding, as a share of the start, beyond which a manifold is not seen to be kept
ARRIVED = (
    0.1  # distance to the flow's end, as a share of it, within which no more than that share of the drift is missing
)
HALVES = (1.7, 2.3)  # drift at a step over drift at half of it: 2 up to a correction of order of the step


def start_scale(network: Network) -> float:
    """The size of the start, `h = s^-(L-2) = 10`; 0.1 for two layers. Smaller ones of deep products take for ever."""
    return math.exp(log_start(max(network.layers, 3), CLOCK))


def has_curved(network: Network) -> bool:
    """Whether some neuron starts off the planes `a_j = +-a_l`: with all sizes equal nothing is curved."""
    size = np.abs(network.shape)
    return bool((size != size[:, :1]).any())


def manifold_verdicts(pairs: Sequence[tuple[Network, Instance]]) -> list[Verdict]:
    """The flow's verdict on every network, and descent's two on products; of planes alone `descent-affine` only."""
    verdicts = [flow_keeps(network, made) for network, made in pairs]
    for network, made in pairs:
        if isinstance(network.neurons, ProductNeurons):
            verdicts += [affine_kept(network, made), *([curved_left(network, made)] if has_curved(network) else [])]
    return verdicts


def flow_keeps(network: Network, made: Instance, *, by_descent: bool = False) -> Verdict:
    """The drift of every conserved quantity along the flow in its plain weights, relative to its terms at the start.

    At most ten times what the tolerance of one step makes of it. `by_descent`: descent in the place of the flow, for a
    counter-instance.
    """
    flow = _flow(network, made)
    drift = _descend(network, made, flow, start_scale(network) * network.shape).drift if by_descent else flow.drift
    return Verdict(
        claim="invariant-manifolds",
        parametrisation=network.label,
        loss="squared",
        kind=Kind.INVARIANT,
        measured=drift,
        bound=10 * flow.drift_slack,
        slack=0.0,
        unit="drift / start",
        assumptions=(Assumption(name="arrival", holds=flow.is_limit, measured=str(flow.ending)),),
        undecided=None if math.isfinite(drift) else "no formula for what is conserved.",
        details={"s": start_scale(network), "rtol": flow.rtol, "n_steps": flow.cost.n_steps},
    )


def affine_start(network: Network) -> np.ndarray:
    """The network's start with the second layer equal to the first, shape (d, L)."""
    start = start_scale(network) * network.shape
    start[:, 1] = start[:, 0]
    return start


def affine_kept(network: Network, made: Instance, *, start: np.ndarray | None = None) -> Verdict:
    """Descent from a start on the plane `a_1 = a_2` stays on it, up to rounding; other starts: a counter-instance."""
    descent = _descend(network, made, _flow(network, made), affine_start(network) if start is None else start)
    assert descent.invariants is not None
    assert descent.terms is not None
    away = np.abs(descent.invariants[..., 0]) / descent.terms[0, :, 0]
    return Verdict(
        claim="invariant-manifolds",
        parametrisation="descent-affine",
        loss="squared",
        kind=Kind.INVARIANT,
        measured=float(away.max()),
        bound=descent.drift_rounding,
        slack=0.0,
        unit="distance / start",
        conditions=(
            Assumption(
                name="descent moved", holds=bool((descent.k[-1] != descent.k[0]).any()), measured=descent.residual
            ),
        ),
        undecided=_stopped(descent) or _rounded_away(descent),
        details=_told(descent),
    )


def curved_left(network: Network, made: Instance, *, share: float = 1.0) -> Verdict:
    """Descent leaves the curved manifolds by more than the flow's tolerance, and by half as much at half the step.

    `share`: of the usual step, for a counter-instance.
    """
    flow, start = _flow(network, made), start_scale(network) * network.shape
    whole, half = (_descend(network, made, flow, start, share=x * share) for x in (1.0, 0.5))
    ratio = whole.drift / half.drift if half.drift > 0 else math.nan
    return Verdict(
        claim="invariant-manifolds",
        parametrisation="descent-curved",
        loss="squared",
        kind=Kind.LOWER,
        measured=whole.drift,
        bound=10 * flow.drift_slack,
        slack=whole.drift_rounding,
        unit="drift / start",
        conditions=(
            Assumption(
                name="half the step, half the drift",
                holds=HALVES[0] <= ratio <= HALVES[1] if math.isfinite(ratio) else None,
                measured=ratio,
            ),
        ),
        undecided=_stopped(whole) or (_cut_short(half, flow) if share == 1.0 else None),
        details={**_told(whole), "drift_at_half_the_step": half.drift},
    )


def _flow(network: Network, made: Instance) -> DiagonalFlow:
    return diagonal_flow(
        network.neurons,
        made.X,
        made.y,
        shape=network.shape,
        log_s=math.log(start_scale(network)),
        coordinates="weights",
    )


def _descend(
    network: Network, made: Instance, flow: DiagonalFlow, start: np.ndarray, *, share: float = 1.0
) -> DiagonalDescent:
    """Descent over the flow's own time at a share of the largest stable step `2 / max |X G^(1/2)|^2` along the flow."""
    g = np.linalg.norm(network.neurons.gradient(flow.components), axis=-1)
    sharpest = max(float(np.linalg.norm(made.X * row, 2)) for row in g[:: max(1, len(g) // 50)]) ** 2
    step = STEP * 2 / sharpest
    duration = float(flow.time[-1]) * math.exp(flow.log_h)
    n_steps = int(min(math.ceil(duration / step / min(share, 1.0)) if share > 1e-6 else MOST_STEPS, MOST_STEPS))
    return diagonal_descent(network.neurons, made.X, made.y, start=start, step_size=share * step, n_steps=n_steps)


def _stopped(descent: DiagonalDescent) -> str | None:
    return None if descent.diverged_at is None else f"descent left double precision after step {descent.diverged_at}."


def _rounded_away(descent: DiagonalDescent) -> str | None:
    """A weight that shrinks to nothing loses its manifold in rounding."""
    if descent.drift_rounding <= LEAST_SEEN:
        return None
    return f"rounding alone may move a neuron by {descent.drift_rounding:.1g} of its start here."


def _cut_short(descent: DiagonalDescent, flow: DiagonalFlow) -> str | None:
    """Fewer steps than the flow's time takes, and not at its end: runs of two step sizes then do not compare."""
    reached, wanted = descent.step_size * descent.step[-1], float(flow.time[-1]) * math.exp(flow.log_h)
    near = bool(np.abs(descent.k[-1] - flow.limit).max() <= ARRIVED * np.abs(flow.limit).max())
    if near or descent.stalled_at is not None or reached >= wanted * (1 - 1e-9):
        return None
    return (
        f"descent reaches {reached / wanted:.0%} of the flow's time in {MOST_STEPS} steps: the drifts do not compare."
    )


def _told(descent: DiagonalDescent) -> dict:
    return {
        "step_size": descent.step_size,
        "n_steps": descent.cost.n_steps,
        "residual": descent.residual,
        "stalled_at": descent.stalled_at,
    }
