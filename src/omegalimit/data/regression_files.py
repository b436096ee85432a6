"""Regression data from the user's own files (CSV, Parquet, `.npz`) and from data frames of pandas."""

from typing import Any

from ._table_files import Rows, load_rows
from .regression import RegressionData


def load_regression(source: Any, target: str | None = None, *, header: bool | None = None) -> RegressionData:
    """Rows of numbers and the column to predict, from a file or a pandas data frame.

    - `source`: the path of a CSV file (separated by commas, semicolons, tabs, bars or blanks), a Parquet file (needs
      `omegalimit[parquet]`) or an `.npz` file with `X` (n, d), `y` (n,) and, if you like, `names`; or a data frame.
    - `target`: the name of the column to predict; when not given, the last one, and a note says so. All others are what
      it is predicted from.
    - `header`: whether the first line of a CSV file holds names. `None`: it does unless all its fields are numbers, or
      where it counts the columns from 0 above a column of numbers with decimal points, as pandas writes an array (a
      note says so); a line that can be read both ways is refused.

    Raises `ValueError`, one line that starts with the path as given (or with `data frame`): for files that are missing,
    damaged, of another kind or larger than 1 GiB (text: 256 MiB); for values that are missing, infinite, text, with a
    decimal comma or beyond double precision, with their place; for rows of uneven lengths, names used twice or not at
    all, and an unknown `target`. `TypeError` for a source that is neither a path nor a data frame.
    """
    return load_rows(source, target, header, _made)


def _made(rows: Rows) -> RegressionData:
    return RegressionData(X=rows.X, y=rows.y, names=rows.names, target=rows.target, name=rows.name, notes=rows.notes)
