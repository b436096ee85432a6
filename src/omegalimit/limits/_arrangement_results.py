"""What the enumeration of an arrangement returns: its cells, and its faces of every dimension."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from .._checks import shape_text


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """The cells of an arrangement, in lexicographic order of their signs from + to -.

    - `signs`: shape `(P, n)`, -1 or +1.
    - `points`: shape `(P, D)`, a direction strictly inside each, near the middle of the cell's rays. Of length one up
      to rounding; in a cell that is thinner than the distance of doubles, of a length between one and two.
    - `certified`: shape `(P,)`, whether the doubles in `points` have these signs, decided exactly. False only in a cell
      so thin that no vector of doubles was found in it; `Arrangement.witness` has one of integers.
    """

    signs: Int[np.ndarray, "P n"]
    points: Float[np.ndarray, "P D"]
    certified: Bool[np.ndarray, " P"]

    def __len__(self) -> int:
        return len(self.signs)

    def index(self, signs: ArrayLike) -> int | None:
        """The cell with these signs; `None` where no direction has them. Raises `ValueError` for another shape."""
        wanted = np.asarray(signs)
        if wanted.shape != self.signs.shape[1:]:
            raise ValueError(
                f"`signs` must have shape {shape_text(self.signs.shape[1:])}; got {shape_text(wanted.shape)}."
            )
        found = np.flatnonzero((self.signs == wanted).all(axis=1))
        return int(found[0]) if len(found) else None


@dataclasses.dataclass(frozen=True, eq=False)
class Faces:
    """All ternary patterns of nonzero directions, in lexicographic order from + to -.

    The pattern of zeros alone is among them if and only if the rows do not span `R^D`: then a nonzero direction has it.

    - `signs`: shape `(F, n)`, -1, 0 or +1: the patterns, exact.
    - `points`: shape `(F, D)`, a direction of each, of length one. A vector of doubles cannot lie on most hyperplanes:
      where `signs` is zero its products are zero up to rounding.
    - `dimensions`: shape `(F,)`, of the faces as cones: `D` for cells, one for the rays of rows that span `R^D`.
    """

    signs: Int[np.ndarray, "F n"]
    points: Float[np.ndarray, "F D"]
    dimensions: Int[np.ndarray, " F"]

    def __len__(self) -> int:
        return len(self.signs)
