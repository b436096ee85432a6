"""l1: the linear program `min 1.(u + v)` over `A (u - v) + c b >= 1`, `u, v >= 0`; its dual norm is l-infinity.

Method and sources: `_linear_program.py`.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from ._candidate import Candidate
from ._linear_program import least_norm_program

# The smallest that HiGHS takes.
_TOLERANCE = 1e-10


def least_l1(A, c: Float[np.ndarray, " N"] | None, *, tol: float, polish: bool = True) -> tuple[list[Candidate], int]:
    """The best pair for rows `A` (dense or sparse) and the signs `c` of a free intercept, and the number of steps.

    `tol`: the relative gap to reach. `polish`: go on to the vertex, which takes the gap to rounding level.
    """
    return least_norm_program(A, c, box=False, tol=tol, polish=polish)


def linear_program(A: Float[np.ndarray, "N d"]) -> tuple[np.ndarray, np.ndarray, int] | None:
    """A vertex `w`, its multipliers and the number of steps, for the scaled rows; `None` when HiGHS finds none."""
    N, d = A.shape
    result = linprog(
        np.ones(2 * d),
        A_ub=np.hstack([-A, A]),
        b_ub=-np.ones(N),
        method="highs",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if result.x is None or result.status != 0:
        return None
    return result.x[:d] - result.x[d:], np.maximum(-result.ineqlin.marginals, 0), int(result.nit)


def on_active_set(A: Float[np.ndarray, "N d"], w: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The vertex and multipliers again, from one solve each on the rows `p > 0` and the columns `w != 0`."""
    rows, columns = np.flatnonzero(p > 1e-9 * p.max()), np.flatnonzero(np.abs(w) > 1e-9 * np.abs(w).max())
    if not (len(rows) and len(columns)):
        return None
    block = A[np.ix_(rows, columns)]
    sharp_w, sharp_p = np.zeros_like(w), np.zeros_like(p)
    sharp_w[columns] = np.linalg.lstsq(block, np.ones(len(rows)), rcond=None)[0]
    sharp_p[rows] = np.linalg.lstsq(block.T, np.sign(w[columns]), rcond=None)[0]
    return sharp_w, sharp_p
