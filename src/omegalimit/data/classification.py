"""Rows of numbers in two classes: the data of a linear classifier, checked at the door."""

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ._rows import column_notes, listed, settle_arrays, settle_names, shown, some, zero_columns
from ._two_classes import check_classes, check_kind, items_of, meant, order_of, two_classes, word


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ClassificationData:
    """`n` rows `x_i` in `R^d`, each in one of two classes, `y_i = -1` or `+1`.

    - `X`: the rows, shape `(n, d)`; `y`: the classes, `(n,)`, both of which occur. Classes of another kind (0 and 1,
      text, any two values): `ClassificationData.from_labels`.
    - `weights`: positive, `(n,)`, how much each row counts in the loss; `None`: all alike.
    - `names`: a name for each column of `X`; `x1`, `x2`, ... when none are given.
    - `target`: the name of `y`; `name`: what the data are, in a word or two.
    - `notes`: sentences that a reader must see: conversions; columns that are constant (in effect an intercept), zero,
      equal or opposite; rows that repeat; rows on which nothing linear has a positive margin. What is passed comes
      first.

    Arrays are copied to read-only float64; nothing is centred or scaled. Raises `ValueError` for labels that are not
    -1 or +1 (with the conversion), for one class only, weights that are not positive, empty data, shapes that do not
    fit, NaN or infinite entries, and names that are too few, too many, empty or used twice; `TypeError` for entries
    that are not real numbers.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"] | None = None
    names: tuple[str, ...] = ()
    target: str = "y"
    name: str = "classification"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_kind(self.y)
        axes = {"X": "n, d", "y": "n"} | ({} if self.weights is None else {"weights": "n"})
        told = settle_arrays(self, axes)
        told.pop("y", None)  # -1 and +1 are exact in every kind of number
        settle_names(self)
        check_classes(self.y)
        self._check_weights()
        notes = (*self.notes, *told.values(), *column_notes(self.X, self.names), *self._found())
        object.__setattr__(self, "notes", tuple(dict.fromkeys(notes)))

    @classmethod
    def from_labels(
        cls,
        X: ArrayLike,
        labels: Any,
        *,
        positive: Any = None,
        weights: ArrayLike | None = None,
        names: tuple[str, ...] = (),
        target: str = "y",
        name: str = "classification",
        notes: tuple[str, ...] = (),
    ) -> "ClassificationData":
        """Data whose classes are any two values: numbers, text, true and false, categories of a data frame.

        - `labels`: the class of each row, `(n,)`.
        - `positive`: the class that becomes +1; `None`: the later one in sorted order, or in their own order for
          ordered categories. Texts that are all numbers, or the signs `+` and `-`, are sorted as these. A number or a
          truth value may also be given as text, as a command line has it.

        A note says which class is which, where they are not -1 and +1 already. Raises `ValueError` for one class, for
        more than two (they are named), for labels that are missing, and for a `positive` that is none of them;
        otherwise as `ClassificationData` does.
        """
        values = items_of(labels)
        classes = two_classes(values, target, order_of(labels))
        if positive is not None:
            plus = meant(positive, classes, target)
            classes = [next(c for c in classes if c is not plus), plus]
        minus, plus = classes
        if classes != [-1, 1]:
            n_plus = sum(value == plus for value in values)
            notes = (
                *notes,
                f"`{shown(target)}`: {word(plus)} is +1 ({n_plus} rows) and {word(minus)} is -1 "
                f"({len(values) - n_plus} rows).",
            )
        return cls(
            X=X,  # pyright: ignore[reportArgumentType]  # whatever numpy makes an array of: it is copied and checked
            y=np.array([1.0 if value == plus else -1.0 for value in values]),
            weights=weights,  # pyright: ignore[reportArgumentType]  # likewise
            names=names,
            target=target,
            name=name,
            notes=notes,
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @cached_property
    def Z(self) -> Float[np.ndarray, "n d"]:
        """`z_i = y_i x_i`, shape `(n, d)`: `w` classifies row i rightly when `z_i'w > 0`."""
        Z = self.X * self.y[:, None] + 0.0
        Z.flags.writeable = False
        return Z

    @cached_property
    def contradictions(self) -> tuple[tuple[int, int], ...]:
        """Pairs `(i, j)`, `i < j`, of equal rows with opposite labels: no classifier of any kind separates them.

        Each row `j` that contradicts an earlier one is in one pair, with the first such `i`.
        """
        return tuple((i, j) for i, j, same in self._repeats if not same)

    @property
    def contradiction(self) -> str | None:
        """A sentence that names the first two rows which contradict each other; `None` where no rows do."""
        if not self.contradictions:
            return None
        i, j = self.contradictions[0]
        more = f" ({len(self.contradictions)} such pairs)" if len(self.contradictions) > 1 else ""
        return (
            f"rows {i} and {j} (the first is 0) are equal and have opposite labels{more}: nothing separates the "
            "classes, in whatever norm and with or without an intercept."
        )

    @cached_property
    def _repeats(self) -> list[tuple[int, int, bool]]:
        """`(i, j, same)`: row j repeats an earlier one; i is the first with the other label, or else with its own."""
        first: dict[bytes, dict[float, int]] = {}
        found = []
        for j, (row, label) in enumerate(zip(self.X + 0.0, self.y, strict=True)):  # + 0.0: no negative zeros
            seen = first.setdefault(row.tobytes(), {})
            if seen:
                found.append((seen.get(-label, next(iter(seen.values()))), j, -label not in seen))
            seen.setdefault(float(label), j)
        return found

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        bad = np.flatnonzero(~(self.weights > 0))
        if bad.size:
            more = f" ({bad.size} such weights)" if bad.size > 1 else ""
            remedy = (
                "leave the row out of the data if it is not to count"
                if self.weights[bad[0]] == 0
                else "take a positive weight, or leave the row out"
            )
            raise ValueError(
                f"`weights[{bad[0]}]` is {self.weights[bad[0]]:g}{more}; every weight must be positive: {remedy}."
            )

    def _found(self) -> list[str]:
        notes = []
        if self.n > 1:
            constant = np.flatnonzero(self.X.min(axis=0) == self.X.max(axis=0))
            zero = set(zero_columns(self.X, self.names))
            if names := [self.names[j] for j in constant if self.names[j] not in zero]:
                notes.append(f"constant in every row, which makes it an intercept: {listed(names)}.")
        if repeats := [f"{j} repeats {i}" for i, j, same in self._repeats if same]:
            notes.append(f"rows that repeat an earlier one with its label (the first row is 0): {some(repeats)}.")
        if self.contradiction is not None:
            notes.append(self.contradiction)
        zero = [str(i) for i in np.flatnonzero(~self.X.any(axis=1))]
        if zero:
            notes.append(
                f"rows of zeros (the first row is 0): {some(zero)}; without an intercept no classifier has a positive "
                "margin on them."
            )
        return notes
