"""Smaller, equivalent problems: one row for each set of near-duplicates, and coordinates of the row span only."""

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import qr

# Rows closer than this, relative to their size, leave the Schur matrix singular to working precision.
_NEAR = 1e-8
_NEGLIGIBLE = 1e-13


def representatives(
    D: Float[np.ndarray, "N n1"], Z: Float[np.ndarray, "N n2"], b: Float[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " N"]]:
    """One row from each set of near-duplicates (1e-8) of `<D_k Z_k^T, W> >= b_k` with unit `D_k`, `Z_k`.

    Returns the indices of the `M` rows, and for each of the `N` rows the position of its set among them.

    Near-duplicates are neighbours in a random projection, and only neighbours are compared; a duplicate that is missed
    costs speed, not correctness, since all rows are certified. Of rows in one direction the largest `b_k` is kept: it
    implies the others.
    """
    rng = np.random.default_rng(0)
    x, y = (direction / np.linalg.norm(direction) for direction in (rng.normal(size=a.shape[1]) for a in (D, Z)))
    projected = (D @ x) * (Z @ y)
    order = np.argsort(projected, kind="stable")
    if not (np.diff(projected[order]) <= _NEAR).any():
        return np.arange(len(D)), np.arange(len(D))
    kept, member_of = [order[0]], np.zeros(len(D), dtype=int)
    for k in order[1:]:
        head = kept[-1]
        if projected[k] - projected[head] > _NEAR or _distance(D[k], Z[k], D[head], Z[head]) > _NEAR:
            kept.append(k)
        elif b[k] > b[head]:
            kept[-1] = k
        member_of[k] = len(kept) - 1
    return np.array(kept), member_of


def _distance(d, z, e, y):
    """`|d z^T - e y^T|_F` of unit vectors without cancellation: `z - c y` is orthogonal to `y`."""
    c = z @ y
    return np.hypot(np.linalg.norm(z - c * y), np.linalg.norm(c * d - e))


def row_span(A: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "d r"] | None:
    """Orthonormal basis of the span of the rows, or `None` when it is all of the space.

    Exact for every unitarily invariant norm; directions below 1e-13 of the largest are dropped.
    """
    basis, R, _ = (np.asarray(part) for part in qr(A.T, mode="economic", pivoting=True))
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > _NEGLIGIBLE * diagonal[0]).sum())
    return None if rank == A.shape[1] else basis[:, :rank]
