"""l-infinity: the linear program `min t` over `A w + c b >= 1`, `|w_j| <= t`; its dual norm is l1.

Method and sources: `_linear_program.py`.
"""

from jaxtyping import Float
from numpy import ndarray

from ._candidate import Candidate
from ._linear_program import least_norm_program


def least_linf(A, c: Float[ndarray, " N"] | None, *, tol: float, polish: bool = True) -> tuple[list[Candidate], int]:
    """The best pair for rows `A` (dense or sparse) and the signs `c` of a free intercept, and the number of steps.

    `tol`: the relative gap to reach. `polish`: go on to the vertex, which takes the gap to rounding level.
    """
    return least_norm_program(A, c, box=True, tol=tol, polish=polish)
