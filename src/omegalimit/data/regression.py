"""Rows of numbers and a number to predict from each: the data of a regression, checked at the door."""

import dataclasses

import numpy as np
from jaxtyping import Float

from ._rows import column_notes, settle_arrays, settle_names, shown


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RegressionData:
    """`n` rows `x_i` in `R^d`, each with a number `y_i`.

    - `X`: the rows, shape `(n, d)`; `y`: what is to be predicted, `(n,)`. Copied to read-only float64 arrays; a
      conversion is told in `notes`. Nothing is centred or scaled.
    - `names`: a name for each column of `X`; `x1`, `x2`, ... when none are given.
    - `target`: the name of `y`; `name`: what the data are, in a word or two.
    - `notes`: sentences that a reader must see: conversions, a constant `y`, columns that are zero, equal or opposite
      (ties in every method that picks columns). What is passed comes first.

    Raises `ValueError` for empty data, shapes that do not fit (both are named), NaN or infinite entries, names that are
    too few, too many, empty or used twice; `TypeError` for entries that are not real numbers.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    names: tuple[str, ...] = ()
    target: str = "y"
    name: str = "regression"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        notes = [*self.notes, *settle_arrays(self, {"X": "n, d", "y": "n"}).values()]
        settle_names(self)
        if self.n > 1 and (self.y == self.y[0]).all():
            notes.append(f"`{shown(self.target)}` is {self.y[0]:g} in every row.")
        notes.extend(column_notes(self.X, self.names))
        object.__setattr__(self, "notes", tuple(dict.fromkeys(notes)))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.X.shape[1]
