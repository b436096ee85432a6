"""Rows in two classes from the user's own files (CSV, Parquet, `.npz`) and from data frames of pandas."""

from typing import Any

from ._table_files import Rows, load_rows
from .classification import ClassificationData


def load_classification(
    source: Any,
    target: str | None = None,
    *,
    header: bool | None = None,
    positive: Any = None,
    weights: str | None = None,
) -> ClassificationData:
    """Rows of numbers and their classes, from a file or a pandas data frame.

    - `source`: the path of a CSV file (separated by commas, semicolons, tabs, bars or blanks), a Parquet file (needs
      `omegalimit[parquet]`) or an `.npz` file with `X` (n, d), `y` (n,) and, if you like, `names`, `weights` (n,); or
      a data frame.
    - `target`: the name of the column with the classes; when not given, the last one, and a note says so. It may hold
      text or numbers, two different ones. All others are what they are predicted from, and hold numbers.
    - `header`: whether the first line of a CSV file holds names. `None`: as for `load_regression`; and a line is a row
      where everything in it that is no number occurs again below it, in the same column.
    - `positive`: the class that becomes +1; `None`: the later one, as in `ClassificationData.from_labels`. A note says
      which it is.
    - `weights`: the name of a column with a positive weight for each row; `None`: no column has weights.

    In a CSV file an empty field, `?`, `NA` and their like are missing classes; `+`, `-` and `none` are classes.

    Raises `ValueError`, one line that starts with the path as given (or with `data frame`): for all that
    `load_regression` refuses, for one class, for more than two (they are named), for a class that is missing, with its
    place, and for a `positive` that is none of them. `TypeError` for a source that is neither a path nor a data frame.
    """

    def make(rows: Rows) -> ClassificationData:
        return ClassificationData.from_labels(
            rows.X,
            rows.y,
            positive=positive,
            weights=rows.weights,
            names=rows.names,
            target=rows.target,
            name=rows.name,
            notes=rows.notes,
        )

    return load_rows(source, target, header, make, labels=True, weights=weights)
