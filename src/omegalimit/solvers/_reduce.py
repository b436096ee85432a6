"""Smaller, equivalent problems: one row for each set of near-duplicates, and coordinates of the row span only."""

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import qr

from ..limits.constraints import Factors, Matrices

# Rows closer than this, relative to their size, leave the Schur matrix singular to working precision.
_NEAR = 1e-8
_NEGLIGIBLE = 1e-13
# What rounding leaves of a matrix of rank one, relative to its largest entry.
_ROUNDING = 4e-16


def near_duplicates(
    constraints: Factors | Matrices, b: Float[np.ndarray, " N"], c: Float[np.ndarray, " N"] | None = None
) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " N"]]:
    """One from each set of near-duplicates (1e-8) of `<A_k, W> + c_k b_k beta >= b_k` with `|A_k| = 1`.

    Returns the indices of the `M` kept, and for each of the `N` the position of its set among them.

    Near-duplicates are neighbours in a random projection, and only neighbours are compared; a duplicate that is missed
    costs speed, not correctness, since all rows are certified. Without an intercept the largest `b_k` of a set is kept:
    it implies the others. With one, `b_k` counts as a further column, and duplicates share their sign `c_k`.
    """
    rng = np.random.default_rng(0)
    x, y = (direction / np.linalg.norm(direction) for direction in (rng.normal(size=n) for n in constraints.shape))
    projected = constraints.margins(np.outer(x, y))
    key = projected if c is None else projected + np.pi * c * b
    order = np.argsort(key, kind="stable")
    if not (np.diff(key[order]) <= 10 * _NEAR).any():
        return np.arange(len(b)), np.arange(len(b))

    def near(k, head):
        if c is not None and (c[k] != c[head] or abs(b[k] - b[head]) > _NEAR * max(b[k], b[head])):
            return False
        return abs(projected[k] - projected[head]) <= _NEAR and _distance(constraints, k, head) <= _NEAR

    kept, member_of = [order[0]], np.zeros(len(b), dtype=int)
    for k in order[1:]:
        if not near(k, kept[-1]):
            kept.append(k)
        elif b[k] > b[kept[-1]]:
            kept[-1] = k
        member_of[k] = len(kept) - 1
    if len(kept) == len(b):
        return np.arange(len(b)), np.arange(len(b))
    return np.array(kept), member_of


def _distance(constraints, k, head):
    """`|A_k - A_head|_F` of constraints of size one, without cancellation.

    For rank one, `d z^T - e y^T` with `c = z.y`: `z - c y` is orthogonal to `y`.
    """
    if isinstance(constraints, Matrices):
        return np.linalg.norm(constraints.flat[k] - constraints.flat[head])
    d, e, z, y = *constraints.left[[k, head]], *constraints.right[[k, head]]
    c = z @ y
    return np.hypot(np.linalg.norm(z - c * y), np.linalg.norm(c * d - e))


def row_span(A: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "d r"] | None:
    """Orthonormal basis of the span of the rows, or `None` when it is all of the space.

    Exact for every unitarily invariant norm; directions below 1e-13 of the largest are dropped.
    """
    if len(A) > 4 * A.shape[1]:
        # The rows of the triangular factor span the same space, and pivoting them is cheap.
        A = np.asarray(qr(A, mode="r")[0])[: A.shape[1]]
    basis, R, _ = (np.asarray(part) for part in qr(A.T, mode="economic", pivoting=True))
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > _NEGLIGIBLE * diagonal[0]).sum())
    return None if rank == A.shape[1] else basis[:, :rank]


def in_spans(constraints: Factors | Matrices):
    """The constraints in coordinates of their row and column spans, and the map of a point back to the whole space."""
    if isinstance(constraints, Factors):
        rows, columns = constraints.left, constraints.right
    else:
        A = constraints.matrices
        rows, columns = A.transpose(0, 2, 1).reshape(-1, A.shape[1]), A.reshape(-1, A.shape[2])
    U, V = row_span(rows), row_span(columns)

    def back(W):
        W = W if U is None else U @ W
        return W if V is None else W @ V.T

    if isinstance(constraints, Factors):
        D, Z = constraints.left, constraints.right
        return Factors(D if U is None else D @ U, Z if V is None else Z @ V), back
    A = constraints.matrices if U is None else U.T @ constraints.matrices
    return Matrices(np.ascontiguousarray(A if V is None else A @ V)), back


def as_factors(constraints: Factors | Matrices) -> Factors | Matrices:
    """Matrices that all have rank one, up to their rounding, as factors; other constraints as they are.

    A matrix of rank one is the product of its column and row through the largest entry, divided by that entry.
    """
    if isinstance(constraints, Factors):
        return constraints
    A, flat = constraints.matrices, constraints.flat
    every = np.arange(len(A))
    i, j = np.unravel_index(np.abs(flat).argmax(1), constraints.shape)
    pivots = A[every, i, j]
    left, right = A[every, :, j], A[every, i, :] / pivots[:, None]
    for k in every:  # one at a time: most stacks are found out by their first matrix
        if np.abs(A[k] - np.outer(left[k], right[k])).max() > _ROUNDING * abs(pivots[k]):
            return constraints
    return Factors(left, right)


def of_size_one(constraints: Factors | Matrices) -> tuple[Factors | Matrices, Float[np.ndarray, " N"]]:
    """The constraints divided by their Frobenius norms, and the norms; no square leaves the range of the numbers."""
    if isinstance(constraints, Factors):
        (D, d), (Z, z) = (_units(a) for a in (constraints.left, constraints.right))
        return Factors(D, Z), d * z
    A, sizes = _units(constraints.flat)
    return Matrices(A.reshape(constraints.matrices.shape)), sizes


def _units(A):
    peak = np.abs(A).max(1, keepdims=True)
    A = A / peak
    size = np.linalg.norm(A, axis=1, keepdims=True)
    return A / size, (peak * size)[:, 0]
