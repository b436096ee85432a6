"""Is a function affine inside given cells? Its second differences there, beside those across the walls."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ._collapse_instance import Instance, values_of

BENT = 0.004
"""Second differences inside the cells, over those across their walls, that count as none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bends:
    """Mean second difference `inside` cells and `across` walls, standard `error` of their ratio, `largest` output."""

    inside: float
    across: float
    error: float
    largest: float

    @property
    def ratio(self) -> float:
        return self.inside / self.across if self.across > 0 else math.nan


NO_BENDS = Bends(inside=math.nan, across=math.nan, error=0.0, largest=math.nan)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Stencils:
    """Triples of equally spaced inputs on lines in the box: `points` (3, M, d).

    - `inside`: the triple lies in one cell, farther than `angle` from every wall as neurons see it: `|u'(x, 1)| >
      |(x, 1)| sin(angle)`. No neuron within `angle` of a learned direction has its kink there.
    - `across`: a wall passes between its ends.
    """

    points: Float[np.ndarray, "3 M d"]
    inside: np.ndarray
    across: np.ndarray

    @classmethod
    def drawn(
        cls, instance: Instance, kinks: Float[np.ndarray, "K D"], *, angle: float, seed: int, n: int = 4000
    ) -> "Stencils":
        """Centres uniform in the box, lines of uniform direction, spaced by a twentieth of the box."""
        rng = np.random.default_rng(seed)
        low, high = instance.box()
        along = rng.standard_normal((n, instance.d))
        along *= (high - low) / 20 / np.linalg.norm(along, axis=1, keepdims=True)
        centre = low + (high - low) * rng.random((n, instance.d))
        points = np.stack([centre - along, centre, centre + along])
        rows = np.concatenate([points, np.ones((3, n, 1))], axis=2)
        sines = rows @ kinks.T / np.linalg.norm(rows, axis=2, keepdims=True)
        same = np.sign(sines[0]) == np.sign(sines[2])
        far = (np.abs(sines) > math.sin(angle)).all(axis=0)
        return cls(points=points, inside=(same & far).all(axis=1), across=~same.all(axis=1))

    @property
    def few(self) -> str | None:
        """Why nothing can be said."""
        if self.across.sum() < 20:
            return "no wall of the limit passes through the box about the inputs: the limit is affine there."
        if self.inside.sum() < 20:
            return "the cells in the box about the inputs are no larger than the angle of a cluster."
        return None

    def bends(self, predict: Callable[[np.ndarray], np.ndarray]) -> Bends:
        if self.few is not None:
            return NO_BENDS
        f = [np.asarray(predict(p)) for p in self.points]
        second = values_of(f[0] - 2 * f[1] + f[2])
        inside, across = second[self.inside], second[self.across]
        error = math.hypot(
            inside.std() / math.sqrt(len(inside)), inside.mean() / across.mean() * across.std() / math.sqrt(len(across))
        )
        return Bends(
            inside=float(inside.mean()),
            across=float(across.mean()),
            error=float(error / across.mean()),
            largest=float(max(values_of(part).max() for part in f)),
        )
