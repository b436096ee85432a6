"""The user's own inputs and targets for `width_collapse`: loaded, scaled, counted before anything is enumerated."""

import math

import numpy as np
from jaxtyping import Float

from ...data.regression_files import load_regression
from ...limits.arrangement import cover_count
from ._collapse_instance import Instance

MOST_DICHOTOMIES = 20_000
"""More take longer than minutes, and the measure's cones more memory than a small machine has."""


MOST_COLUMNS = 8
"""From four columns on the measures' integrals are sampled, and their errors leave claims undecided."""

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Relative error that an entry may have: that of a column computed from others, and of the shift to mean zero."""

NEAR = 1e-6
"""Distance of two inputs, over the widest column's range, below which a note is due."""

LARGEST = 1e75
"""Entries that are not scaled must leave room for fourth powers, of which the curvature is made."""


def own_instance(path: str, target: str | None, *, lam: float, standardise: bool) -> tuple[Instance, tuple[str, ...]]:
    """The data of a file, with sentences on what was done to them.

    Raises `ValueError` as `load_regression` does, for constant targets or inputs and for too many dichotomies.
    """
    data = load_regression(path, target)
    notes = list(data.notes)
    X, y = np.array(data.X), np.array(data.y)
    if (y == y[0]).all():
        raise ValueError(f"{path}: `{data.target}` is {y[0]:g} in every row; there is nothing to learn.")
    if np.equal(X, X[0]).all():
        raise ValueError(f"{path}: the inputs are the same in every row; nothing can be learned from them.")
    largest = max(np.abs(X).max(), np.abs(y).max())
    if not standardise and largest > LARGEST:
        raise ValueError(
            f"{path}: the largest entry is {largest:.3g}, and without scaling products of more than {LARGEST:g} "
            "overflow; drop `--no-standardise`."
        )
    noise = ROUNDING * np.abs(X).max(axis=0)
    if standardise:
        X, deviation = standardised(X)
        y = standardised(y[:, None])[0][:, 0]
        notes.append(
            f"every column and `{data.target}` were shifted to mean zero and scaled to standard deviation one "
            "(`--no-standardise` leaves them as they are): lam, beta and angles between neurons refer to that."
        )
        constant = deviation == 0
        noise = np.where(constant, 0.0, noise / np.where(constant, 1.0, deviation))
        if constant.any():
            names = ", ".join(f"`{data.names[k]}`" for k in np.flatnonzero(constant))
            notes.append(f"constant columns, which the neurons' bias makes idle: {names}.")
    notes += told_of_inputs(X, y)
    X, told = flattened(X, noise)
    check_count_of(X, f"{path}: ")
    return Instance(label="relu", X=X, y=y, lam=lam), (*notes, *told)


def flattened(
    X: Float[np.ndarray, "n d"], noise: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, "n k"], list[str]]:
    """Inputs in a flat of lower dimension, in orthonormal coordinates of that flat; with a sentence where it is one.

    `noise`: the rounding of each column's entries. Directions in which the inputs do not differ beyond it are dropped:
    exact arithmetic would count dichotomies that only rounding makes. Where the flat contains the origin, as after a
    shift to mean zero, weights across it do nothing but decay, and the net on the new coordinates is the same. A flat
    beside the origin has no such coordinates, and is left as it is.
    """
    n, d = X.shape
    centre = X.mean(axis=0)
    _, sizes, axes = np.linalg.svd(X - centre, full_matrices=True)
    tol = math.sqrt(n) * float(np.linalg.norm(noise)) + ROUNDING * math.sqrt(n * d) * float(sizes.max(initial=0.0))
    rank = int((sizes > tol).sum())
    if rank == d:
        return X, []
    why = f"{n} inputs are fewer than {d + 1}" if n < d + 1 else "the inputs lie in a flat of lower dimension"
    across = axes[rank:] @ centre
    if np.linalg.norm(across) > tol:
        return X, [
            f"{why}: beyond rounding, (x, 1) spans {rank + 1} of {d + 1} dimensions; this flat does not contain x = 0, "
            "so that the inputs are left as they are, and dichotomies are counted of the numbers as they stand, "
            "rounding and all (inputs that are shifted to mean zero are counted in the flat)."
        ]
    # Equal inputs stay equal: each is turned once.
    distinct, which = np.unique(X, axis=0, return_inverse=True)
    turned = (distinct @ axes[:rank].T)[which.reshape(-1)]
    return turned, [
        f"{why}: (x, 1) spans {rank + 1} of {d + 1} dimensions, and weights in the others do nothing but decay; "
        f"directions and dichotomies are those in these {rank + 1}."
    ]


def check_count_of(X: Float[np.ndarray, "n d"], where: str = "") -> None:
    """Raise `ValueError` for too many columns, or perhaps too many dichotomies; counts, and enumerates nothing."""
    n, d = X.shape
    if d > MOST_COLUMNS:
        raise ValueError(
            f"{where}inputs of {d} columns are more than {MOST_COLUMNS}: the integrals of their measures are sampled, "
            "which takes more than minutes and decides nothing; take fewer columns."
        )
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
    """Sentences on inputs that are repeated, or nearly so."""
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
    near = nearly_equal(np.unique(X, axis=0))
    if near is not None:
        notes.append(
            f"two inputs differ by {near:.2g} only: they count as different, and no net with moderate weights tells "
            "them apart."
        )
    return notes


def nearly_equal(X: Float[np.ndarray, "n d"]) -> float | None:
    """The least distance of two inputs, where it is below `NEAR` of the largest deviation of a column."""
    wide = float(np.ptp(X, axis=0).max())
    if len(X) < 2 or wide == 0:
        return None
    least = min(float(np.abs(X[k + 1 :] - X[k]).max(axis=1).min()) for k in range(len(X) - 1))
    return least if least <= NEAR * wide else None


def standardised(X: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " d"]]:
    """Columns of mean zero and standard deviation one, and the deviations; a constant column is zero, of deviation
    zero."""
    constant = np.ptp(X / 2, axis=0) == 0
    # In units of the largest entry, so that squares neither over- nor underflow.
    top = np.abs(X).max(axis=0)
    top = np.where(top > 0, top, 1.0)
    scaled = X / top
    centred = scaled - scaled.mean(axis=0)
    # A constant column is left with rounding of its mean, which must not be blown up.
    centred[:, constant] = 0.0
    deviation = centred.std(axis=0)
    return centred / np.where(constant, 1.0, deviation), deviation * top
