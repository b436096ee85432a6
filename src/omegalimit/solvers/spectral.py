"""Spectral norm `max_i sigma_i`: the path of Schatten norms (`_spectral_path`) with a barrier in place of the power.

    min t^2 / 2 - mu log det(t^2 I - W^T W)

over the constraints, `mu` falling with the complementarity. Of an optimal face the path tends to a point inside.
"""

import numpy as np
from jaxtyping import Float

from ..limits.constraints import Factors, Matrices
from ._candidate import Candidate
from ._spectral_curves import Barrier
from .schatten import least_of_curve


def least_spectral(
    constraints: Factors | Matrices, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """`min |W|` in the spectral norm over `<A_k, W> + c_k b >= 1`: candidates, the best first, and the number of steps.

    `c`: the signs of a free intercept's column, or `None`. `tol`: the relative gap to reach; `polish`: go on from there
    as long as each step halves it.
    """
    return least_of_curve(constraints, c, Barrier(0.0), tol=tol, polish=polish)
