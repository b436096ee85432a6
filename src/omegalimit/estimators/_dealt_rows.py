"""Which rows are held out: distinct rows are dealt, so that equal ones stay together.

Rows that are equal, label and all, go to the same part, and the deal depends on the distinct rows alone: not on their
order, nor on how often each one occurs. A row of weight k is then dealt as k equal rows are, and none is judged by what
was trained on. (The order of the columns and of the classes does count: the distinct rows are sorted by them before
they are shuffled, so that other names for the classes may give other parts.) Where no number differs from another, and
there are no classes, rows are dealt one by one: there is nothing to learn from them.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.model_selection import check_cv

Split = tuple[np.ndarray, np.ndarray]


def hold_out_part(
    X: Float[np.ndarray, "n d"], y: np.ndarray, share: float, generator: np.random.RandomState, *, classes: bool
) -> list[Split]:
    """Rows to train on and rows held out, `share` of the distinct ones: one pair, or none where none can be held out.

    With `classes` it is that share of each class, and one at least of each is left to train on.
    """
    groups, label = _distinct(X, y, classes=classes)
    held = np.zeros(label.size, dtype=bool)
    spare = []
    for order in _orders(label, generator, classes=classes):
        k = min(round(share * order.size), order.size - 1)
        held[order[:k]] = True
        spare += [order[0]] if order.size > 1 else []
    if not spare:
        return []
    if not held.any():
        held[spare[0]] = True
    return [(np.flatnonzero(~held[groups]), np.flatnonzero(held[groups]))]


def folds(
    cv: Any, X: Float[np.ndarray, "n d"], y: np.ndarray, generator: np.random.RandomState, *, classes: bool
) -> list[Split]:
    """Parts that take turns: `cv` of them, dealt; or what scikit-learn takes as `cv`, as it is.

    With `classes` each class is dealt by itself; one with a single distinct row is never held out. Fewer distinct rows
    give fewer parts, and none where none can be held out. Raises `ValueError` for a `cv` below two, or a truth value.
    """
    if isinstance(cv, (bool, np.bool_)):
        raise ValueError(f"`cv` must be a number of folds, or what scikit-learn takes as `cv`; got {cv}.")
    if not isinstance(cv, (int, np.integer)):
        splitter: Any = check_cv(cv, y, classifier=classes)
        return list(splitter.split(X, y))
    if cv < 2:
        raise ValueError(f"`cv` must be at least 2 folds; got {cv}.")
    groups, label = _distinct(X, y, classes=classes)
    turn = np.full(label.size, -1)
    start = 0
    for order in _orders(label, generator, classes=classes):
        if order.size > 1:
            turn[order] = (start + np.arange(order.size)) % cv
            start += order.size
    parts = [turn[groups] == k for k in range(int(cv))]
    return [(np.flatnonzero(~part), np.flatnonzero(part)) for part in parts if part.any()]


def of_these(splits: list[Split], rows: np.ndarray, n: int) -> list[Split]:
    """Splits of `n` rows as splits of those among them that are kept, `rows`; parts that lose all are left out."""
    place = np.full(n, -1)
    place[rows] = np.arange(rows.size)
    kept = [tuple(place[np.arange(n)[part]] for part in split) for split in splits]
    cleared = [(train[train >= 0], judge[judge >= 0]) for train, judge in kept]
    return [(train, judge) for train, judge in cleared if train.size and judge.size]


def _distinct(X: Float[np.ndarray, "n d"], y: np.ndarray, *, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """The group of equal rows, label and all, of each row, in an order of their values; the label of each group."""
    labels, codes = np.unique(y, return_inverse=True)
    table = np.column_stack([codes.astype(float), X + 0.0])  # + 0.0: no negative zeros
    rows, groups = np.unique(table, axis=0, return_inverse=True)
    if len(rows) == 1 and not classes:
        return np.arange(len(y)), y
    return groups.reshape(-1), labels[rows[:, 0].astype(int)]


def _orders(label: np.ndarray, generator: np.random.RandomState, *, classes: bool) -> list[np.ndarray]:
    """The distinct rows in a random order, of each class or of all."""
    kinds = [np.flatnonzero(label == value) for value in np.unique(label)] if classes else [np.arange(label.size)]
    return [generator.permutation(kind) for kind in kinds]
