"""l1: the linear program `min 1.(u + v)` over `A (u - v) + c b >= 1`, `u, v >= 0`; its dual norm is l-infinity.

Method and sources: `_linear_program.py`.
"""

import numpy as np
from jaxtyping import Float

from ._candidate import Candidate
from ._linear_program import least_norm_program


def least_l1(A, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True) -> tuple[list[Candidate], int]:
    """The best pair for rows `A` (dense or sparse) and the signs `c` of a free intercept, and the number of steps.

    `tol`: the relative gap to reach. `polish`: go on to the vertex, which takes the gap to rounding level.
    """
    return least_norm_program(A, c, box=False, tol=tol, polish=polish)
