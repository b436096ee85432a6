"""Data of `diagonal_networks` made ready: exact units, and a full row rank on which nothing of the dynamics is lost."""

import dataclasses
import math

import numpy as np

from ...data import RegressionData

LARGEST_EXPONENT = 20  # data of sizes up to 2^20, and down to its inverse, keep their units


@dataclasses.dataclass(frozen=True, eq=False)
class Instance:
    """A regression problem `X k = y` that can be solved, in exact units.

    - `X` (r, d) of row rank r, `y` (r,): divided by powers of two where their largest entries are far from one.
    - `exponents`: `(ex, ey)`: the weights in the data's own units are `2^(ey - ex) k`.
    - `unreachable`: the share `|y - P y| / |y|` that no weights reach, P the projection on the columns' span.
    - `n_unresolved`: rows of the data beyond the numerical rank.
    """

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    name: str
    exponents: tuple[int, int] = (0, 0)
    unreachable: float = 0.0
    n_unresolved: int = 0
    notes: tuple[str, ...] = ()

    @property
    def d(self) -> int:
        """The number of features."""
        return self.X.shape[1]

    @property
    def solvable(self) -> bool:
        """True when `X k = y` has a solution, up to what rounding leaves."""
        return self.unreachable <= 1e-13 * max(self.X.shape)


def instance(data: RegressionData) -> Instance:
    """`data` in exact units and, when its rows are dependent, rotated into the span of its columns.

    Gradient flow feels the data through `X'(y - X k)` alone. With `X = U S V'` of rank r, the data `(U'X, U'y)` have
    the same forces and so the same path in the weights; what is lost is the part of y that nothing reaches, and it is
    reported. Derived here. Raises `ValueError` when X, y or `X'y` is zero: the flow would not move.
    """
    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y, dtype=np.float64)
    for array, what in ((X, "X"), (y, "y")):
        if not np.any(array):
            raise ValueError(
                f"`{what}` is zero: gradient flow from a small start has nothing to fit and does not move."
            )
    ex, ey = (math.frexp(float(np.abs(array).max()))[1] for array in (X, y))
    ex, ey = (0 if abs(e) <= LARGEST_EXPONENT else e for e in (ex, ey))
    X, y = np.ldexp(X, -ex), np.ldexp(y, -ey)
    notes = list(data.notes)
    if ex or ey:
        notes.append(f"X was divided by 2^{ex} and y by 2^{ey}, exactly; arrays and weights are in these units.")
    U, sizes, _ = np.linalg.svd(X, full_matrices=False)
    rank = int((sizes > max(X.shape) * np.finfo(float).eps * sizes[0]).sum())
    inside = U[:, :rank].T @ y
    outside = float(np.linalg.norm(y - U[:, :rank] @ inside) / np.linalg.norm(y))
    n = len(X)
    if rank < n:
        X, y = U[:, :rank].T @ X, inside
        solvable = outside <= 1e-13 * max(n, data.X.shape[1])
        notes.append(
            f"the {n} rows of X have rank {rank}; "
            + (
                "the others follow from these."
                if solvable
                else f"the share {outside:.3g} of y lies outside the span of its columns and is reached by no weights: "
                "every claim is about the least-squares fits."
            )
        )
    else:
        outside = 0.0
    if np.abs(X.T @ y).max() <= 1e-13 * max(X.shape) * np.linalg.norm(X) * np.linalg.norm(y):
        raise ValueError("`X'y` is zero: no feature is correlated with `y`, so that gradient flow does not move.")
    return Instance(
        X=X,
        y=y,
        names=tuple(data.names),
        name=data.name,
        exponents=(ex, ey),
        unreachable=outside,
        n_unresolved=n - rank,
        notes=tuple(notes),
    )
