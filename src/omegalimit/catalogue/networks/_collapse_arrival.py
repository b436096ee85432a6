"""Has the collapse come? What the stationary measure itself shows to particles, and what they showed in mid-run.

At finite beta the measure is smooth, and finitely many particles are a sample of it: where nets of as many independent
draws from the exact measure do not show what is claimed of its limit, trained ones cannot be blamed for it.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from ...flows._langevin_clusters import Clusters, find_clusters
from ...flows.langevin import Langevin
from ...limits._measure_partition import CLOSED
from ._collapse_instance import FINEST_BETA, Instance

KNOWN = 1e-3
"""Certified distance of a measure's residual to the optimum, over |y|, above which nothing is said at its beta."""

DRAWS = 4
"""Nets that are drawn from a measure; each has to show the collapse."""


@dataclasses.dataclass(frozen=True, eq=False)
class Net:
    """`f(x) = (1/N) sum_j a_j relu(v_j'(x, 1))`: `a` (N,) or (N, m), `V` (N, D)."""

    a: Float[np.ndarray, " N *m"]
    V: Float[np.ndarray, "N D"]

    def predict(self, X: Float[np.ndarray, "k d"]) -> Float[np.ndarray, " k *m"]:
        """Outputs at `X`."""
        found = []
        for part in np.array_split(X, max(1, len(X) * len(self.V) // 4_000_000)):  # blocks of 32 MB
            neurons = np.maximum(part @ self.V[:, :-1].T + self.V[:, -1], 0.0)
            found.append(neurons @ self.a / len(self.V))
        return np.concatenate(found)

    def clusters(self, angle: float, least_mass: float) -> Clusters:
        """As those of trained particles."""
        return find_clusters(self.a, self.V, angle, least_mass)


def measure_nets(instance: Instance, run: Langevin) -> list[Net]:
    """Nets of as many particles as the run has, drawn from the measure at its beta; none where it is not known.

    Beyond closed forms draws are no longer exact, and take minutes.
    """
    if instance.d > CLOSED - 1 or not run.beta <= FINEST_BETA or run.activation != "relu":
        return []
    if not instance.stationary(run.beta)[1].certificate.distance <= KNOWN * np.linalg.norm(instance.y):
        return []
    law = instance.measure(run.beta)
    drawn = [law.sample(run.n_particles, seed=seed) for seed in range(DRAWS)]
    return [Net(np.asarray(a).reshape(-1, *instance.y.shape[1:]), V) for a, V in drawn]


def halfway(run: Langevin) -> Net | None:
    """The particles in the latest snapshot of the second quarter; `None` where none was taken."""
    early = np.flatnonzero((4 * run.snapshot_steps >= run.n_steps) & (2 * run.snapshot_steps <= run.n_steps))
    if not len(early) or run.activation != "relu":
        return None
    return Net(run.snapshot_a[early[-1]], run.snapshot_V[early[-1]])
