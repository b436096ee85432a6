"""Frobenius: l2 over the entries of matrices. Rank-one factors are solved from their inner products.

`<D_k Z_k^T, D_l Z_l^T> = <D_k, D_l> <Z_k, Z_l>`: the matrices themselves are formed only when there are more of them
than a point has entries, where their inner products would be the larger array, and singular.
"""

import numpy as np
from jaxtyping import Float

from ..limits.constraints import AbstractConstraints, Factors, Matrices, Rows
from ._candidate import Candidate
from ._farkas import opposite
from .l2 import least_l2, least_l2_gram


def least_frobenius(
    constraints: AbstractConstraints, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """The best pair in the Euclidean norm for constraints of any kind, and the number of steps."""
    if isinstance(constraints, Factors) and constraints.n_constraints <= np.prod(constraints.shape):
        p = opposite(constraints, c)
        if p is not None:
            return [Candidate(constraints.combine(np.eye(1, len(p))[0]), p)], 0
        combine, margins = constraints.combine, constraints.margins
        return least_l2_gram(constraints.gram(), c, combine=combine, margins=margins, tol=tol, polish=polish)
    if isinstance(constraints, Rows):
        rows = constraints.rows
    elif isinstance(constraints, Matrices):
        rows = constraints.flat
    else:
        rows = constraints.congruence(None, None).reshape(constraints.n_constraints, -1)  # pyright: ignore[reportAttributeAccessIssue]
    candidates, n_steps = least_l2(rows, c, tol=tol, polish=polish)
    return [found._replace(point=found.point.reshape(constraints.shape)) for found in candidates], n_steps


def least_norm_combination(
    constraints: AbstractConstraints, c: Float[np.ndarray, " N"] | None
) -> Float[np.ndarray, " N"] | None:
    """`p >= 0` of sum one, balanced, with the least `|sum_k p_k A_k|_2`: zero to rounding if nothing separates."""
    candidates, _ = least_frobenius(constraints, c, tol=1e-12)
    return candidates[0].multipliers if candidates else None
