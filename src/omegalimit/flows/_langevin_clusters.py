"""Clusters of particle directions: on how many directions does a two-layer network of many neurons lean?"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

_N_CANDIDATES = 400  # a cluster of 1% of the mass holds four of them
_N_SHIFTS = 20


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """K clusters, the heaviest first.

    - `directions`: unit centres, shape (K, D); `masses`: the sum of `a_j |v_j| / N` over the particles of the cluster,
      shape (K,) or (K, m): what the cluster adds to the network is `mass relu(direction'xt)` as its
      angle tends to zero; its sign is the sign of a.
    - `shares`: of `mean |a||v|`, shape (K,); `covered`: their sum.
    - `members`: the cluster of each particle, -1 where it has none, shape (N,).
    - `angle`, `least_mass`: what was asked.
    """

    directions: Float[np.ndarray, "K D"]
    masses: Float[np.ndarray, " K *m"]
    shares: Float[np.ndarray, " K"]
    members: Int[np.ndarray, " N"]
    angle: float
    least_mass: float

    @property
    def covered(self) -> float:
        """Share of `mean |a||v|` that the clusters hold."""
        return float(self.shares.sum())

    def __len__(self) -> int:
        return len(self.directions)


def find_clusters(a: Float[np.ndarray, " N *m"], V: Float[np.ndarray, "N D"], angle: float, least: float) -> Clusters:
    """Greedy by mass: the direction with the most mass within `angle` of it, that mass removed, and so on.

    Candidates are directions of particles, drawn evenly by mass; the best is then moved to the mean direction of what
    is within its angle, again and again. Scalar outputs: particles with a > 0 and with a < 0 form clusters apart.
    """
    scalar = a.ndim == 1
    # In units of the largest, so that products neither over- nor underflow.
    v_top, a_top = float(np.abs(V).max(initial=0.0)), float(np.abs(a).max(initial=0.0))
    lengths = np.linalg.norm(V / (v_top or 1.0), axis=1)
    sizes = np.abs(a) / (a_top or 1.0) if scalar else np.linalg.norm(a / (a_top or 1.0), axis=1)
    weights = lengths * sizes
    with np.errstate(invalid="ignore", divide="ignore"):
        U = np.where(lengths[:, None] > 0, (V / (v_top or 1.0)) / lengths[:, None], 0.0)
    signs = np.sign(a) if scalar else np.ones(len(V))
    members = np.full(len(V), -1)
    total, left = float(weights.sum()), weights.copy()
    centres: list[np.ndarray] = []
    shares: list[float] = []
    near_than = np.cos(angle)
    while total > 0 and left.sum() >= least * total and left.any():
        cumulated = np.cumsum(left)
        levels = (np.arange(_N_CANDIDATES) + 0.5) / _N_CANDIDATES * cumulated[-1]
        chosen = np.unique(np.minimum(np.searchsorted(cumulated, levels), len(V) - 1))
        held = np.array([left @ _near(U, signs, U[k], signs[k], near_than) for k in chosen])
        best = chosen[int(np.argmax(held))]
        centre, sign, most = U[best], signs[best], float(held.max())
        for _ in range(_N_SHIFTS):
            inside = _near(U, signs, centre, sign, near_than)
            mean = (left * inside) @ U
            length = float(np.linalg.norm(mean))
            if length == 0:
                break
            moved = mean / length
            mass = float(left @ _near(U, signs, moved, sign, near_than))
            if mass <= most:
                # The mean direction describes the cluster better, as long as it holds as much.
                centre = moved if mass == most else centre
                break
            centre, most = moved, mass
        if most < least * total:
            break
        inside = _near(U, signs, centre, sign, near_than) & (left > 0)
        members[inside] = len(centres)
        left[inside] = 0.0
        centres.append(centre)
        shares.append(most / total)
    order = np.argsort(-np.array(shares), kind="stable")
    names = np.full(len(order) + 1, -1)
    names[order] = np.arange(len(order))
    members = names[members]
    with np.errstate(over="ignore"):
        outputs = a * (lengths * v_top) if scalar else a * (lengths * v_top)[:, None]
        masses = np.array([outputs[members == k].sum(axis=0) / len(V) for k in range(len(order))])
    return Clusters(
        directions=np.array(centres)[order] if centres else np.empty((0, V.shape[1])),
        masses=masses if centres else np.empty((0, *a.shape[1:])),
        shares=np.array(shares)[order] if centres else np.empty(0),
        members=members,
        angle=angle,
        least_mass=least,
    )


def _near(U, signs, centre, sign, near_than) -> np.ndarray:
    return (U @ centre > near_than) & (signs == sign)
