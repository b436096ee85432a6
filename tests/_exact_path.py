"""The saddle-to-saddle and the Lasso path in rational arithmetic, by enumeration of all supports: for tests only."""

from fractions import Fraction
from itertools import combinations
from typing import NamedTuple


class ExactKnot(NamedTuple):
    """After an event: how long it took, `R`, `k`, `r`, how many features came in, and `W = int k`."""

    duration: Fraction
    R: list[Fraction]
    k: dict[int, Fraction]
    r: list[Fraction]
    n_entered: int
    W: list[Fraction]


def exact_path(X, y, t_plus, t_minus, *, lasso=False) -> list[ExactKnot]:
    """Every knot. `X`, `y` hold integers; times are integers or `None` where that sign is never taken."""
    columns = [[Fraction(int(value)) for value in column] for column in X.T]
    y = [Fraction(int(value)) for value in y]
    R, W, r = [Fraction(0)] * len(y), [Fraction(0)] * len(columns), list(y)
    side: dict[int, int] = {}
    k: dict[int, Fraction] = {}
    knots = []
    while True:
        waits = {}
        for i, column in enumerate(columns):
            s, u = _dot(column, R), _dot(column, r)
            t = t_plus[i] if u > 0 else t_minus[i]
            if i not in side and u and t is not None:
                waits[i] = (t - s) / u if u > 0 else (t + s) / -u
        returns = [-W[i] / k[i] for i in k if lasso and W[i] * k[i] < 0]
        if not waits and not returns:
            return knots
        step = min([*waits.values(), *returns])
        R = [a + step * b for a, b in zip(R, r, strict=True)]
        for i, value in k.items():
            W[i] += step * value
        entered = [i for i, wait in waits.items() if wait == step]
        side |= {i: 1 if _dot(columns[i], r) > 0 else -1 for i in entered}
        k, r = _cone_minimum(columns, y, side, {i for i in side if lasso and W[i]})
        side = {i: sign for i, sign in side.items() if i in k or _dot(columns[i], r) * sign == 0}
        knots.append(ExactKnot(step, R, k, r, len(entered), list(W)))


def _cone_minimum(columns, y, side, free):
    """The least squares solution over the cone, and its residual: the first support whose solution is optimal."""
    for size in range(len(free), min(len(y), len(side)) + 1):
        for support in combinations(sorted(side), size):
            if not free <= set(support):
                continue
            gram = [[_dot(columns[i], columns[j]) for j in support] for i in support]
            z = _solved(gram, [_dot(columns[i], y) for i in support])
            if z is None or any(v * side[i] <= 0 for i, v in zip(support, z, strict=True) if i not in free):
                continue
            r = [v - sum(a * columns[i][q] for i, a in zip(support, z, strict=True)) for q, v in enumerate(y)]
            if all(_dot(columns[i], r) * side[i] <= 0 for i in side):
                return {int(i): value for i, value in zip(support, z, strict=True)}, r
    raise AssertionError("a least squares problem over a cone has a solution with independent columns")


def _solved(A, b) -> list[Fraction] | None:
    """The solution of a square system, `None` when it is singular."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for c in range(len(rows)):
        pivot = next((i for i in range(c, len(rows)) if rows[i][c]), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for i in range(len(rows)):
            if i != c and rows[i][c]:
                rows[i] = [a - rows[i][c] * b for a, b in zip(rows[i], rows[c], strict=True)]
    return [row[-1] for row in rows]


def _dot(a, b) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
