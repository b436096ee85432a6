"""Is the measure unique? A proof from a dual point that is known to lie near the dual optimum.

The dual is strongly concave: its optimum `r*` is unique and within `sqrt(2n (upper - lower))` of a feasible `r`. Every
optimal measure lives on directions with `|R_{r*}(u)| = lam`, each stationary in its face. Faces where the singular
values of `P_L G_F`, moved by what `r* - r` can move them, stay below `lam`, and vectors that stay out of their face,
are ruled out. What is left are finitely many places, one direction in each; where their feature columns are linearly
independent, and stay so when moved, the masses are determined, and the measure is unique (derived here). Dependent
columns, or a sign that the distance leaves open, decide nothing.
"""

import numpy as np
from jaxtyping import Float

from ._relu_maxima import INSIDE, Cells, Faces, projection

PROVED = "the directions that can carry mass are finitely many, with linearly independent features"


def uniqueness(maxima: Faces | Cells, residual: Float[np.ndarray, "n m"], distance: float) -> tuple[bool | None, str]:
    """Whether the optimal measure is proved unique, and the reason. In units of `lam`; `distance` bounds `|r - r*|`."""
    rows = maxima.rows
    moved = float(np.linalg.norm(rows, 2)) * distance / len(rows) + INSIDE
    if not moved < 0.05:
        return None, f"not decided: the pair is too far from the optimum (a change of R by {moved:.0e} lam is open)"
    found = _in_faces(maxima, residual, moved) if isinstance(maxima, Faces) else _in_cells(maxima, residual, moved)
    if isinstance(found, str):
        return None, f"not decided: {found}"
    directions, errors = found
    if not len(directions):
        return True, "no direction can carry mass: the zero measure is the only optimum"
    features = np.maximum(rows @ directions.T, 0.0)
    sizes = np.linalg.norm(features, axis=0)
    features = features / sizes
    errors = float(np.linalg.norm(np.linalg.norm(rows, 2) * errors / sizes))
    if len(directions) > len(rows) or float(np.linalg.svd(features, compute_uv=False)[-1]) <= errors:
        return None, f"not decided: the features of {len(directions)} directions are dependent, or nearly so"
    return True, PROVED


def _in_faces(faces, residual, moved):
    vectors, values, _ = faces.stationary(residual)
    directions, errors = [], []
    for k in np.flatnonzero(values[:, 0] >= 1 - 2 * moved):
        spectrum = np.zeros(max(faces.rows.shape[1], values.shape[1]))
        spectrum[: values.shape[1]] = values[k] ** 2
        if faces.dimensions[k] == 1:
            spectrum = spectrum[:1]
        change = 2 * values[k, 0] * moved + moved**2
        for j in np.flatnonzero(values[k] >= 1 - 2 * moved):
            apart = float(np.abs(np.delete(spectrum, j) - spectrum[j]).min(initial=np.inf))
            if apart <= 4 * change:
                return "|R| is lam, or nearly so, all along a face (two equal singular values)"
            # Davis and Kahan: the sine of the angle; a chord is at most 1.1 times as long below .4.
            error = 1.1 * change / (apart - change) + INSIDE if np.isfinite(apart) else INSIDE
            products = faces.units @ vectors[k, j] * faces.signs[k]
            strict = products[faces.signs[k] != 0]
            for sign in (1, -1):
                least = float((sign * strict).min())
                if abs(least) <= error:
                    return "a direction lies too near the boundary of its face"
                if least > 0:
                    directions.append(sign * vectors[k, j])
                    errors.append(error)
    return np.array(directions).reshape(len(directions), faces.rows.shape[1]), np.array(errors)


def _in_cells(cells, residual, moved):
    n = len(cells.rows)
    G = (cells.signs > 0) @ (cells.rows * residual / n)
    kept: dict[tuple[bytes, int], np.ndarray] = {}
    for cell in np.flatnonzero(np.linalg.norm(G, axis=1) >= 1 - 2 * moved):
        A = cells.signs[cell, :, None] * cells.units
        for sign in (1, -1):
            p, mu, bound = projection(sign * G[cell], A, least=1 - 2 * moved)
            if p is None and bound >= 1 - 2 * moved:
                return "a projection on a cell was not found"
            if p is None or np.linalg.norm(p) < 1 - 2 * moved:
                continue
            active = np.flatnonzero(mu > 0)
            pattern = cells.face(p / np.linalg.norm(p), mu)
            if len(active):
                steepest = float(np.linalg.svd(A[active], compute_uv=False)[-1])
                if mu[active].min() * steepest <= moved:
                    return "a multiplier of a face is too small"
            if ((A @ p)[pattern != 0]).min() <= 2 * moved:
                return "a direction lies too near the boundary of its face"
            kept[pattern.tobytes(), sign] = p / np.linalg.norm(p)
    directions = np.array(list(kept.values())).reshape(len(kept), cells.rows.shape[1])
    # The projection on a cone moves no further than what is projected; to unit length twice as far at most.
    return directions, np.full(len(kept), 2.5 * moved)
