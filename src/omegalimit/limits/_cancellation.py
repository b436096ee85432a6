"""Does a convex combination of constraints cancel, or is it only small?

Multipliers in double precision leave `|sum_k p_k A_k|` near 1e-16 of the sizes combined where exact ones would leave
zero, and a margin of that size looks the same. The difference shows when the multipliers are refined: with
`p_k (1 + z_k)`, `z` of least norm such that the combination vanishes, and residuals in extended precision, one that
cancels falls to the rounding of that precision, while `z` stays small; a small margin stays. Derived here.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import lstsq

from . import _wide
from .constraints import Factors, Matrices
from .max_margin import MaxMargin

EPS = float(np.finfo(float).eps)
# Entries of the system that is solved; beyond, the plain rounding of the multipliers decides.
_LARGEST = 10_000_000
_N_STEPS = 4


def cancelling(limit: MaxMargin, p: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"] | None:
    """`p` (not negative, balanced with a free intercept) refined to combine the constraints to zero, or `None`.

    `limit` has no penalised intercept. For multipliers that combine to less than 1e-13 of the sizes combined only.
    """
    constraints, _ = limit.scaled()
    used = np.flatnonzero(p)
    few, weights = constraints.take(used), p[used].astype(np.longdouble)
    signs = None if limit.signs is None else limit.signs[used]
    spread, sizes = 2 + np.sqrt(len(used)), few.euclidean_sizes
    if not sizes.any():
        return p
    if len(used) * np.prod(few.shape) > _LARGEST:
        left = float(np.linalg.norm(_wide.combine(few, weights).astype(float)))
        return p if left <= 2 * EPS * spread * float(sizes @ p[used]) else None
    # Coordinate by coordinate, each in units of what it sums up: one that is small for all rows must cancel as well.
    terms = (_flat(few) * p[used, None]).T
    if signs is not None:
        terms = np.vstack([terms, signs * p[used]])
    scale = np.abs(terms).sum(1)
    held = scale > 0
    F, scale = terms[held] / scale[held, None], scale[held]

    def off():
        G = _wide.combine(few, weights).reshape(-1)
        return (G if signs is None else np.append(G, (signs * weights).sum()))[held] / scale

    for _ in range(_N_STEPS):
        solved = lstsq(F, -off().astype(float), lapack_driver="gelsy", check_finite=False)
        assert solved is not None
        z = solved[0]
        if not np.isfinite(z).all() or np.abs(z).max() > 0.5:
            return None
        weights = weights + weights * z  # not `1 + z`, which a double rounds to one
    if np.abs(off()).max() > 16 * _wide.EPS * spread:
        return None
    refined = np.zeros_like(p)
    refined[used] = weights.astype(float)
    return refined


def _flat(constraints):
    if isinstance(constraints, Factors):
        return constraints.congruence(None, None).reshape(constraints.n_constraints, -1)
    rows = constraints.flat if isinstance(constraints, Matrices) else constraints.rows
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
