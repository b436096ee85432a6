"""The two classes in labels of any kind: which they are, and what is said where they are not two."""

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from ._rows import shown, some


def check_kind(y: Any) -> None:
    """Refuse labels that are no numbers, with the conversion."""
    try:
        array = np.asarray(y)
    except ValueError:
        return  # lists of uneven lengths: told with the other arrays
    if array.dtype.kind in "fiubc" or array.ndim != 1:
        return
    seen = _distinct(items_of(y))
    if len(seen) > 2:
        raise ValueError(f"`y` {_too_many(seen)}")
    raise ValueError(
        f"`y` must hold only -1 and +1; it holds {' and '.join(map(word, seen))}: "
        f"write `ClassificationData.from_labels(X=X, labels=y, positive={seen[-1]!r})`."
    )


def check_classes(y: Float[np.ndarray, " n"]) -> None:
    seen = [value.item() for value in np.unique(y)]
    if len(seen) > 2:
        raise ValueError(f"`y` {_too_many(seen)}")
    bad = np.flatnonzero(np.abs(y) != 1)
    if bad.size:
        shorter = "`2 * y - 1` or " if set(seen) <= {0.0, 1.0} else ""
        raise ValueError(
            f"`y` must hold only -1 and +1; `y[{bad[0]}]` is {word(y[bad[0]].item())} (values seen: "
            f"{', '.join(map(word, seen))}): write {shorter}`ClassificationData.from_labels(X=X, labels=y, "
            f"positive={word(seen[-1])})`."
        )
    if len(seen) == 1:
        raise ValueError(f"`y` {_one_class(len(y), seen[0])}")


def items_of(labels: Any) -> list[Any]:
    """The labels one by one, as Python's own values."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise TypeError(f"the labels must be a list with a class for each row; got {labels!r}.")
    # numpy would turn a list that mixes text and numbers into text
    array = None if isinstance(labels, (list, tuple)) else np.asarray(labels)
    if array is not None and array.ndim != 1:
        more = ": write `labels.ravel()`" if array.ndim == 2 and 1 in array.shape else ""
        raise ValueError(f"the labels must have shape (n,); got {array.shape}{more}.")
    items = list(labels) if array is None else array.tolist()
    return [item.item() if isinstance(item, np.generic) else item for item in items]


def order_of(labels: Any) -> list[Any] | None:
    """The categories of pandas' ordered categoricals, the lowest first; `None` for labels that have no such order."""
    pandas = sys.modules.get("pandas")  # who has a categorical has imported pandas
    kind: Any = getattr(labels, "dtype", None)
    if pandas is None or not isinstance(kind, pandas.CategoricalDtype) or not kind.ordered:
        return None
    return kind.categories.tolist()


def _distinct(values: list[Any]) -> list[Any]:
    """Each class once, sorted: texts that are all numbers or signs as these, classes that do not compare by text."""
    try:
        seen = list(dict.fromkeys(values))
    except TypeError:
        unhashable = next(value for value in values if type(value).__hash__ is None)
        raise TypeError(f"a class must be a number, a text or a truth value; got {unhashable!r}.") from None
    if all(isinstance(value, str) for value in seen):
        # In the order of characters `+` comes before `-`, and `10` before `9`.
        written = [{"+": 1.0, "-": -1.0}.get(value.strip(), _number(value)) for value in seen]
        if not any(map(math.isnan, written)):
            return [value for _, value in sorted(zip(written, seen, strict=True))]
    try:
        return sorted(seen)
    except TypeError:
        return sorted(seen, key=lambda value: (type(value).__name__, str(value)))


def two_classes(values: list[Any], target: str, order: list[Any] | None = None) -> list[Any]:
    """The two classes, the one that is to be -1 first: in the given order, or sorted."""
    for i, value in enumerate(values):
        # NaN, NaT and pandas' NA are not equal to themselves, or not sure of it
        if value is None or (not isinstance(value, str) and (value == value) is not True):
            raise ValueError(
                f"`{shown(target)}[{i}]` is missing ({value}); every row needs a class: fill it in, or leave the row "
                "out."
            )
    seen = _distinct(values)
    if len(seen) > 2:
        raise ValueError(f"`{shown(target)}` {_too_many(seen)}")
    if not seen:
        raise ValueError(f"`{shown(target)}` is empty; give a class for each row.")
    if len(seen) == 1:
        raise ValueError(f"`{shown(target)}` {_one_class(len(values), seen[0])}")
    return seen if order is None else sorted(seen, key=order.index)


def _too_many(seen: list[Any]) -> str:
    return (
        f"holds {len(seen)} classes ({some([word(value) for value in seen])}) and must hold two; leave out the rows "
        "of all but two of them, or join classes."
    )


def _one_class(n: int, value: Any) -> str:
    return f"holds one class only, {word(value)} in all {n} rows; there must be rows of two classes."


def meant(positive: Any, classes: list[Any], target: str) -> Any:
    """The class that `positive` is: the same value, or one that is written so."""
    for value in classes:
        if value == positive and isinstance(value, str) == isinstance(positive, str):
            return value
    if isinstance(positive, str):
        for value in classes:
            if str(value).lower() == positive.strip().lower():
                return value
        for value in classes:
            if isinstance(value, (int, float)) and _number(positive) == value:
                return value
    raise ValueError(
        f"`positive` is {positive!r}, and the classes in `{shown(target)}` are {word(classes[0])} and "
        f"{word(classes[1])}; name one of them."
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def word(value: Any) -> str:
    """A class in a message."""
    if isinstance(value, int) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(value)
    return f"`{shown(str(value))}`"
