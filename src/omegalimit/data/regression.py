"""Rows of numbers and a number to predict from each: the data of a regression, checked at the door."""

import dataclasses

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, check_same_length, to_float64


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
        notes = [*self.notes]
        for key, axes in (("X", "n, d"), ("y", "n")):
            array, note = to_float64(getattr(self, key), key)
            check_ndim(array, key, axes=axes)
            array.flags.writeable = False
            object.__setattr__(self, key, array)
            if note is not None:
                notes.append(note)
        for axis, what in ((0, "row"), (1, "column")):
            if self.X.shape[axis] == 0:
                raise ValueError(f"`X` has shape {self.X.shape}: there is no {what}; pass at least one.")
        check_same_length(self.X, self.y, ("X", "y"), axes=(0, 0), what="rows")
        check_finite(self.X, "X")
        check_finite(self.y, "y")
        self._check_names()
        notes.extend(self._found())
        object.__setattr__(self, "notes", tuple(dict.fromkeys(notes)))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    def _check_names(self) -> None:
        names = tuple(self.names) or tuple(f"x{j}" for j in range(1, self.d + 1))
        for name in (*names, self.target):
            if not isinstance(name, str):
                raise TypeError(f"`names` and `target` must be text; got {name!r}.")
            if not name:
                raise ValueError("`names` and `target` must not be empty; give every column a name.")
        if len(names) != self.d:
            raise ValueError(f"`names` has {len(names)} entries, and `X` has {self.d} columns; give one for each.")
        check_unique((*names, self.target) if self.names else names)
        object.__setattr__(self, "names", names)

    def _found(self) -> list[str]:
        notes = []
        if self.n > 1 and (self.y == self.y[0]).all():
            notes.append(f"`{shown(self.target)}` is {self.y[0]:g} in every row.")
        zero = [self.names[j] for j in np.flatnonzero(~self.X.any(axis=0))]
        if zero:
            notes.append(f"zero in every row: {listed(zero)}.")
        if self.n > 1:
            notes.extend(self._twins(set(zero)))
        return notes

    def _twins(self, zero: set[str]) -> list[str]:
        """Columns that repeat an earlier one, or its opposite, exactly."""
        seen: dict[bytes, str] = {}
        pairs: dict[str, list[str]] = {"equal": [], "opposite": []}
        for name, column in zip(self.names, self.X.T + 0.0, strict=True):  # + 0.0: no negative zeros
            if name in zero:
                continue
            key = column.tobytes()
            if key in seen:
                pairs["equal"].append(f"`{shown(seen[key])}` and `{shown(name)}`")
            elif (other := (0.0 - column).tobytes()) in seen:
                pairs["opposite"].append(f"`{shown(seen[other])}` and `{shown(name)}`")
            else:
                seen[key] = name
        return [f"{kind} columns: {_some(found)}." for kind, found in pairs.items() if found]


def check_unique(names: tuple[str, ...]) -> None:
    """Raise `ValueError` when two names are the same."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two columns are called `{shown(name)}`; give every column a name of its own.")
        seen.add(name)


def shown(text: str) -> str:
    """Text of a file in a message: on one line, at most forty characters."""
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 40 else f"{text[:37]}..."


def listed(names: list[str]) -> str:
    """Names in a message, the first five of them."""
    return _some([f"`{shown(name)}`" for name in names])


def _some(items: list[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
