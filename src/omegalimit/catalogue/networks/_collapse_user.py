"""The user's own inputs and targets for `width_collapse`: loaded, scaled, counted before anything is enumerated."""

import numpy as np
from jaxtyping import Float

from ...data.regression_files import load_regression
from ...limits.arrangement import cover_count
from ._collapse_instance import Instance

MOST_DICHOTOMIES = 20_000
"""More take longer than minutes, and the measure's cones more memory than a small machine has."""


def own_instance(path: str, target: str | None, *, lam: float, standardise: bool) -> tuple[Instance, tuple[str, ...]]:
    """The data of a file, with sentences on what was done to them.

    Raises `ValueError` as `load_regression` does, for constant targets and for too many dichotomies.
    """
    data = load_regression(path, target)
    notes = list(data.notes)
    X, y = np.array(data.X), np.array(data.y)
    if (y == y[0]).all():
        raise ValueError(f"{path}: `{data.target}` is {y[0]:g} in every row; there is nothing to learn.")
    check_count_of(X, f"{path}: ")
    if standardise:
        X, constant = _standardised(X)
        y = _standardised(y[:, None])[0][:, 0]
        notes.append(
            f"every column and `{data.target}` were shifted to mean zero and scaled to standard deviation one "
            "(`--no-standardise` leaves them as they are): lam, beta and angles between neurons refer to that."
        )
        if constant.any():
            names = ", ".join(f"`{data.names[k]}`" for k in np.flatnonzero(constant))
            notes.append(f"constant columns, which the neurons' bias makes idle: {names}.")
    return Instance(label="relu", X=X, y=y, lam=lam), (*notes, *told_of_inputs(X, y))


def check_count_of(X: Float[np.ndarray, "n d"], where: str = "") -> None:
    """Raise `ValueError` where the inputs may have too many dichotomies; counts, and enumerates nothing."""
    n, d = X.shape
    count = cover_count(n, d + 1)
    if count <= MOST_DICHOTOMIES:
        return
    rows = n
    while rows > 1 and cover_count(rows, d + 1) > MOST_DICHOTOMIES:
        rows -= 1
    raise ValueError(
        f"{where}{n} inputs of {d} columns have up to {count} linear dichotomies (Cover's count), and at most "
        f"{MOST_DICHOTOMIES} are enumerated: with {d} columns take at most {rows} rows, or take fewer columns."
    )


def told_of_inputs(X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n *m"]) -> list[str]:
    """Sentences on repeated inputs, on fewer inputs than columns, and on inputs in a lower flat."""
    n, d = X.shape
    notes = []
    _, which, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)  # NumPy 2.0 gives it a second axis
    repeated = np.flatnonzero(counts > 1)
    if len(repeated):
        spread = [np.ptp(y[which == k], axis=0).max() for k in repeated]
        contradictory = sum(s > 0 for s in spread)
        notes.append(
            f"{int(counts[repeated].sum())} rows repeat {len(repeated)} inputs"
            + (
                f", {contradictory} of them with different targets, of which the net learns the mean"
                * bool(contradictory)
            )
            + ": they share a hyperplane, and are counted once among the dichotomies."
        )
    rank = int(np.linalg.matrix_rank(np.column_stack([X, np.ones(n)])))
    if rank < d + 1:
        why = f"{n} inputs are fewer than {d + 1}" if n < d + 1 else "the inputs lie in a flat of lower dimension"
        notes.append(
            f"{why}: (x, 1) spans {rank} of {d + 1} dimensions, and weights in the others do nothing but decay; "
            f"dichotomies are counted in those {rank}."
        )
    return notes


def _standardised(X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], np.ndarray]:
    centred = X - X.mean(axis=0)
    deviation = centred.std(axis=0)
    # A constant column is left with rounding of its mean, which must not be blown up.
    constant = np.ptp(X, axis=0) == 0
    centred[:, constant] = 0.0
    return centred / np.where(constant, 1.0, deviation), constant
