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


def cancels(limit: MaxMargin, p: Float[np.ndarray, " N"]) -> bool:
    """True when `p` (not negative, balanced with a free intercept) combines the constraints to zero, refined.

    `limit` has no penalised intercept. Rows that are combined to less than 1e-13 of their size are asked about only.
    """
    constraints, _ = limit.scaled()
    used = np.flatnonzero(p)
    few, p = constraints.take(used), p[used].astype(np.longdouble)
    sizes = few.euclidean_sizes
    signs = None if limit.signs is None else limit.signs[used]
    if not sizes.any():
        return True
    spread = 2 + np.sqrt(len(used))
    if len(used) * np.prod(few.shape) > _LARGEST:
        left = float(np.linalg.norm(_wide.combine(few, p).astype(float)))
        return left <= 2 * EPS * spread * float(sizes @ p.astype(float))
    # Coordinate by coordinate, each in units of what it sums up: one that is small for all rows must cancel as well.
    terms = (_flat(few) * p.astype(float)[:, None]).T
    if signs is not None:
        terms = np.vstack([terms, signs * p.astype(float)])
    scale = np.abs(terms).sum(1)
    held = scale > 0
    F, scale = terms[held] / scale[held, None], scale[held]

    def off():
        G = _wide.combine(few, p).reshape(-1)
        return (G if signs is None else np.append(G, (signs * p).sum()))[held] / scale

    for _ in range(_N_STEPS):
        solved = lstsq(F, -off().astype(float), lapack_driver="gelsy", check_finite=False)
        assert solved is not None
        z = solved[0]
        if not np.isfinite(z).all() or np.abs(z).max() > 0.5:
            return False
        p = p + p * z  # not `1 + z`, which a double rounds to one
    return bool(np.abs(off()).max() <= 16 * _wide.EPS * spread)


def _flat(constraints):
    if isinstance(constraints, Factors):
        return constraints.congruence(None, None).reshape(constraints.n_constraints, -1)
    rows = constraints.flat if isinstance(constraints, Matrices) else constraints.rows
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
