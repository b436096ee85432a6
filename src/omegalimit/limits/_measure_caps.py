"""How much of a measure on the sphere lies near given directions.

Cones on which `R` is linear are cut in two until each lies within a cap, outside all caps, or holds next to nothing;
what the undecided ones hold is the error.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from ._measure_cones import log_volume
from ._measure_fan import cut, split
from ._measure_partition import CLOSED
from ._measure_rule import refined, simplex_rule

# Nodes a coordinate of the rule on each cone, by whether a closed form exists (there, accuracy is cheap).
_ORDER, _ORDER_LARGE, _ORDER_SMALL = 6, 4, 3
# Cuts of each edge after which the small rule does.
_MANY_CUTS = 3
_MOST_UNDECIDED = 200_000
_MOST_ROUNDS = 200
_CHUNK = 8192

TOO_CLOSE = (
    "at this residual |R(u)| comes so close to `lam` that rounding decides what lies around its peaks. Scale the "
    "residual towards zero, or take a smaller `beta`."
)
"""Why a law that exists cannot be cut into pieces."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Concentration:
    """What lies within an angle of given directions.

    - `mass`: share of `int |E[a s | u]| rho(du)`, the size of what the network computes there; `probability`: share of
      the particles. `mass_error`, `probability_error`: absolute; of draws, four standard errors.
    - `total_mass`: the integral itself. `tol`: the error that was asked for.
    """

    mass: float
    probability: float
    mass_error: float
    probability_error: float
    total_mass: float
    tol: float

    @property
    def reached(self) -> bool:
        """Whether both errors are within `tol`."""
        return max(self.mass_error, self.probability_error) <= self.tol


def node_weights(P, R, order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On each cone: nodes (T, M, D), and at them the weights of `(1 - |R|^2)^{-D/2}` and `|R| (1 - |R|^2)^{-D/2-1}`."""
    D = P.shape[1]
    nodes, weights = simplex_rule(D, order)
    square = (P**2).sum(axis=2) - (R**2).sum(axis=2)
    rho = np.sqrt(square)
    P, R = P / rho[:, :, None], R / rho[:, :, None]
    v, at = np.einsum("mk,tkd->tmd", nodes, P), np.einsum("mk,tkc->tmc", nodes, R)
    length, size = np.sqrt((v**2).sum(axis=2)), np.sqrt((at**2).sum(axis=2))
    form = length**2 - size**2
    density = np.exp(log_volume(P))[:, None] * weights * form ** (-D / 2)
    return v / length[:, :, None], density, density * size * length / form


def concentration(P, R, axes: Float[np.ndarray, "K D"], angle: float, *, tol: float, log_total: float) -> Concentration:
    """Over the cones `P` with `R` at their rays; `axes` of length one. `log_total`: what all cones hold, known better.

    Raises `ValueError` where `|R|` comes so close to 1 that rounding has the word.
    """
    D, m = R.shape[1:]
    order = _ORDER if D <= CLOSED else _ORDER_LARGE
    if m == 1 and np.any(R):
        # |R| has a kink where R is zero.
        P, _, R, _ = cut(P, R[:, :, 0] / np.abs(R).max(), R)
    cones = refined(P, R)
    if cones is None:
        raise ValueError(TOO_CLOSE)
    P, R = cones[:2]
    inside, outside = np.zeros(2), np.zeros(2)
    for round_ in range(_MOST_ROUNDS):
        # Cones cut so often are small, and the form is almost constant on them.
        rule = order if round_ < _MANY_CUTS * (D - 1) else _ORDER_SMALL
        near, far = _against(P, axes, angle)
        inside += _held(P[near], R[near], rule)
        outside += _held(P[far], R[far], rule)
        open_ = ~(near | far)
        P, R = P[open_], R[open_]
        held = _held(P, R, 1)
        if (held <= tol * (inside + outside + held)).all() or len(P) > _MOST_UNDECIDED:
            break
        gram = (P @ P.transpose(0, 2, 1)).reshape(len(P), -1)
        first, last = np.divmod(gram.argmin(axis=1), D)
        P, R = split([P, R, np.zeros(len(P))], first, last, np.ones((len(P), 2)))[:2]
    within, held = _held_within(P, R, _ORDER_SMALL, axes, angle)
    total = inside + outside + held
    share, error = (inside + within) / np.maximum(total, 1e-300), held / np.maximum(total, 1e-300)
    # What the rules on the cones are wrong by.
    error = error + abs(float(np.expm1(np.log(total[0]) - log_total)))
    return Concentration(
        mass=float(share[1]),
        probability=float(share[0]),
        mass_error=float(error[1]),
        probability_error=float(error[0]),
        total_mass=float(total[1] / total[0]),
        tol=tol,
    )


def _against(P, axes, angle):
    """Which cones lie in one cap, and which outside every cap."""
    if not len(axes):
        return np.zeros(len(P), dtype=bool), np.ones(len(P), dtype=bool)
    cosines = np.clip(P @ axes.T, -1, 1)
    near = (cosines >= np.cos(angle)).all(axis=1).any(axis=1) & (angle < np.pi / 2)
    centre = P.sum(axis=1)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    radius = np.arccos(np.clip(np.einsum("tkd,td->tk", P, centre), -1, 1)).max(axis=1)
    distance = np.arccos(np.clip(centre @ axes.T, -1, 1))
    # A ball of directions that is smaller than a hemisphere holds the cone of the rays in it.
    far = (distance > angle + radius[:, None]).all(axis=1) & (radius < np.pi / 2)
    near |= ((distance + radius[:, None] <= angle) & (radius < np.pi / 2)[:, None]).any(axis=1)
    return near, far & ~near


def _held(P, R, order):
    total = np.zeros(2)
    for i in range(0, len(P), _CHUNK):
        _, probability, mass = node_weights(P[i : i + _CHUNK], R[i : i + _CHUNK], order)
        total += [probability.sum(), mass.sum()]
    return total


def _held_within(P, R, order, axes, angle):
    """What the undecided cones hold at nodes within the caps, and in all."""
    within, total = np.zeros(2), np.zeros(2)
    for i in range(0, len(P), _CHUNK):
        u, probability, mass = node_weights(P[i : i + _CHUNK], R[i : i + _CHUNK], order)
        good = (u @ axes.T >= np.cos(angle)).any(axis=2) if len(axes) else np.zeros(u.shape[:2], dtype=bool)
        within += [probability[good].sum(), mass[good].sum()]
        total += [probability.sum(), mass.sum()]
    return within, total
