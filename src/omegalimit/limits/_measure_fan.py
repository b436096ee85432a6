"""Simplicial cones that fill space, cut by hyperplanes until a piecewise linear function is linear on each.

Cutting an edge at a time keeps everything simplicial: a cone with a ray on either side of the hyperplane is cut at the
crossing point of one such edge into two cones, each with one ray fewer off the hyperplane, until none is left on both
sides. The positive and the negative parts come out whole, in any dimension, and in any position of the hyperplanes.
Nothing here decides an exact sign: a ray within rounding of a hyperplane counts as on it, and what this moves is of the
size of rounding, since the functions that are integrated are continuous there.
"""

import numpy as np
from jaxtyping import Float

# Rounding of the product of two unit vectors of a few entries, with room for a ray that came from several cuts.
_ZERO = 64 * float(np.finfo(float).eps)


def whole_space(D: int) -> Float[np.ndarray, "T D D"]:
    """`D + 1` simplicial cones that fill space: those over the facets of a regular simplex; their rays are the rows."""
    centred = np.eye(D + 1) - 1 / (D + 1)
    corners = np.linalg.svd(centred)[0][:, :D]
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    return np.stack([np.delete(corners, k, axis=0) for k in range(D + 1)])


def fan(rows: Float[np.ndarray, "n D"], *, most: int) -> Float[np.ndarray, "T D D"] | None:
    """Simplicial cones with unit rays, none of which a hyperplane `row.u = 0` cuts; `None` where more than `most`."""
    P = whole_space(rows.shape[1])
    for row in rows:
        size = np.abs(row).max(initial=0.0)
        if size > 0:
            unit = row / size
            P = cut(P, P @ (unit / np.linalg.norm(unit)))[0]
        if len(P) > most:
            return None
    return P


def cut(
    P: Float[np.ndarray, "T D D"], values: Float[np.ndarray, "T D"], *carried: np.ndarray, zero: float = _ZERO
) -> list[np.ndarray]:
    """The cones cut where the linear function with these values at the rays is zero.

    Returned: the rays, the values, each array of `carried`, of shape (T, D, ...), that is linear on the cones and goes
    along with the rays; and last the index of the cone that each came from. New rays have length one.
    """
    values = np.where(np.abs(values) <= zero, 0.0, values)
    arrays = [P, values, *carried, np.arange(len(P))]
    done = []
    while len(arrays[0]):
        mixed = (arrays[1] > 0).any(axis=1) & (arrays[1] < 0).any(axis=1)
        done.append([array[~mixed] for array in arrays])
        arrays = [array[mixed] for array in arrays]
        values = arrays[1]
        high, low = values.argmax(axis=1), values.argmin(axis=1)
        at = np.arange(len(values))
        shares = np.stack([-values[at, low], values[at, high]], axis=1)
        arrays = split(arrays, high, low, shares)
        arrays[1] = np.where(arrays[-2], 0.0, arrays[1])
        del arrays[-2]
    return [np.concatenate(parts) for parts in zip(*done, strict=True)] if done else arrays


def split(arrays: list[np.ndarray], first: np.ndarray, last: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Each cone cut in two at `shares[:, 0] p_first + shares[:, 1] p_last`, of length one.

    The last array is one number a cone. A mask (2 T, D) of the rays that are new comes in before it.
    """
    P, others, number = arrays[0], arrays[1:-1], arrays[-1]
    at = np.arange(len(P))
    point = shares[:, :1] * P[at, first] + shares[:, 1:] * P[at, last]
    weights = shares / np.linalg.norm(point, axis=1, keepdims=True)
    both = []
    for array in (P, *others):
        shape = (-1, *[1] * (array.ndim - 2))
        new = weights[:, 0].reshape(shape) * array[at, first] + weights[:, 1].reshape(shape) * array[at, last]
        upper, lower = array.copy(), array.copy()
        upper[at, last], lower[at, first] = new, new
        both.append(np.concatenate([upper, lower]))
    fresh = np.zeros((2 * len(P), P.shape[1]), dtype=bool)
    fresh[at, last] = fresh[len(P) + at, first] = True
    return [*both, fresh, np.concatenate([number, number])]
