"""How often gradient descent on a monomial net ends near a subnetwork: reported, and not judged.

Data: n inputs drawn uniformly on the unit sphere of R^d, and targets of mean square one that are

- `same widths`: a net of the same widths with standard normal weights;
- `smaller net`: such a net in which the first neuron of the widest hidden layer has no outgoing weights;
- `noise`: standard normal numbers that no net explains.

Loss: the mean square, halved; steps are found by backtracking (`flows/monomial_descent.py`). Starts: independent normal
weights of standard deviation `size` over the root of the number of incoming weights; each start is a run of its own.
"Near" is a distance to the set of subnetworks (`models/subnetworks.py`) of at most delta; the same share is reported
for the starts, which says what the runs add. A run that diverged is counted, and as not near. Intervals are Wilson's,
of 95%.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from ...flows.monomial_descent import MonomialDescent, monomial_descent
from ...models.monomial import MonomialNetwork
from ...models.subnetworks import SubnetworkKind, subnetwork_distance
from ._monomial_widths import text_of

TARGETS = ("same widths", "smaller net", "noise")
DELTAS = (1e-1, 1e-2, 1e-3)
Z95 = 1.959963984540054
"""The normal distribution's 0.975 quantile."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """All starts of one architecture on one target. Distances are NaN for runs that diverged.

    `redundant`: whether the nearest subnetwork of the end has a redundant neuron (else it has an inactive one).
    """

    widths: tuple[int, ...]
    degree: int
    target: str
    size: float
    start: Float[np.ndarray, " s"]
    end: Float[np.ndarray, " s"]
    redundant: Bool[np.ndarray, " s"]
    descent: MonomialDescent

    @property
    def label(self) -> str:
        return f"{text_of(self.widths)}, starts of size {size_text(self.size)}"

    @property
    def n_starts(self) -> int:
        return len(self.end)

    def near(self, delta: float, *, at_start: bool = False) -> tuple[int, float, float, float]:
        """How many are within delta, their share of all starts, and Wilson's interval of it."""
        k = int((np.nan_to_num(self.start if at_start else self.end, nan=np.inf) <= delta).sum())
        return k, k / self.n_starts, *wilson(k, self.n_starts)


def size_text(size: float) -> str:
    """The number that was typed, with all its digits.

    >>> size_text(1.0), size_text(1.0000001), size_text(1e-06)
    ('1', '1.0000001', '1e-06')
    """
    return repr(float(size)).removesuffix(".0")


def wilson(k: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share, k of n.

    >>> tuple(round(x, 4) for x in wilson(5, 50))
    (0.0435, 0.2136)
    """
    p, z2 = k / n, Z95**2
    middle, half = p + z2 / (2 * n), Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, (middle - half) / (1 + z2 / n)), min(1.0, (middle + half) / (1 + z2 / n))


def inputs(n: int, d: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Uniform on the unit sphere."""
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def targets(
    X: Float[np.ndarray, "n d"], widths: tuple[int, ...], degree: int, kind: str, rng: np.random.Generator
) -> Float[np.ndarray, "n m"]:
    """The targets of this kind, of mean square one."""
    net = MonomialNetwork(widths, degree)
    weights = tuple(rng.standard_normal(shape) for shape in net.shapes)
    if kind == "smaller net":
        widest = 1 + int(np.argmax(widths[1:-1]))
        weights[widest][:, 0] = 0.0
    y = rng.standard_normal((len(X), widths[-1])) if kind == "noise" else net.evaluate(weights, X)
    most = float(np.abs(y).max())
    y = y / most if most > 0 else y  # squares may leave double precision where the outputs do not
    size = float(np.sqrt(np.mean(y**2)))
    return y / size if size > 0 else y


def distances(
    weights: Sequence[Float[np.ndarray, "s a b"]], degree: int, kept: Bool[np.ndarray, " s"]
) -> tuple[Float[np.ndarray, " s"], Bool[np.ndarray, " s"]]:
    """The distance to the subnetworks of each net of a batch, and whether the nearest is redundant; NaN if not kept."""
    found = np.full(len(kept), math.nan)
    redundant = np.zeros(len(kept), dtype=bool)
    for s in np.flatnonzero(kept):
        near = subnetwork_distance([W[s] for W in weights], degree)
        found[s], redundant[s] = near.distance, near.nearest.kind is SubnetworkKind.REDUNDANT
    return found, redundant


def problem(
    widths: tuple[int, ...], degree: int, target: str, *, n: int, seed: int
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n m"]]:
    """Inputs and targets of one architecture's runs."""
    rng = np.random.default_rng([seed, degree, TARGETS.index(target), *widths])
    X = inputs(n, widths[0], rng)
    return X, targets(X, widths, degree, target, rng)


def check_training(
    widths: tuple[int, ...], degree: int, target: str, *, n: int, n_starts: int, size: float, seed: int
) -> None:
    """Take one step of these runs. Raises `ValueError` where they leave double precision at the start."""
    try:
        X, y = problem(widths, degree, target, n=n, seed=seed)
        monomial_descent(X, y, widths, degree, n_starts=n_starts, n_steps=1, size=size, seed=seed)
    except ValueError as error:
        raise ValueError(
            f"nets of `training_widths` {text_of(widths)} cannot be trained at `degree` {degree} from starts of size "
            f"{size_text(size)} (`training_sizes`): {error}"
        ) from None


def train(
    widths: tuple[int, ...], degree: int, target: str, *, n: int, n_starts: int, n_steps: int, size: float, seed: int
) -> Training:
    """All runs of one architecture on one target."""
    X, y = problem(widths, degree, target, n=n, seed=seed)
    descent = monomial_descent(X, y, widths, degree, n_starts=n_starts, n_steps=n_steps, size=size, seed=seed)
    end, redundant = distances(descent.weights, degree, ~descent.diverged)
    return Training(
        widths=widths,
        degree=degree,
        target=target,
        size=size,
        start=distances(descent.start, degree, np.ones(n_starts, dtype=bool))[0],
        end=end,
        redundant=redundant,
        descent=descent,
    )
