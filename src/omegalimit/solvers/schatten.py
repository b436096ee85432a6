"""Schatten norms `|W|_p = (sum_i sigma_i^p)^(1/p)`, `1 < p < inf`: from the constraints to certified candidates.

Matrices of rank one become factors, each constraint is divided by its own size, and coordinates outside the row and
column spans go. Then Newton's method in Minty's coordinates (`_spectral_path`) comes within `tol` of the optimum and,
if asked, as close as rounding lets it; a large power that ends with a wide gap goes on from a point of the spectral
norm's path, and any path that ends above `tol` is followed again slowly. Near-duplicates stay: they do no harm there,
and a margin of their size would be lost with them.
"""

import numpy as np
from jaxtyping import Float

from ..limits.constraints import Factors, Matrices
from ._candidate import Candidate, best_intercept
from ._reduce import as_factors, in_spans, of_size_one
from ._spectral_curves import Barrier, Power
from ._spectral_path import Problem, path

# Residuals allowed on the way, relative to the complementarity; after a path that ends with a wide gap, more.
_UNEVEN, _MORE_UNEVEN = 30.0, 300.0
_WIDE = 1e-6
# For powers above `_LARGE` it then begins at a point of the spectral norm's path, at these gaps.
_LARGE, _NEAR = 8.0, (0.1, 0.01)


def least_schatten(
    constraints: Factors | Matrices, c: Float[np.ndarray, " N"] | None, *, p: float, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """`min |W|_p` over `<A_k, W> + c_k b >= 1`, `1 < p < inf`: candidates, the best first, and the number of steps.

    `c`: the signs of a free intercept's column, or `None`. `tol`: the relative gap to reach; `polish`: go on from there
    as long as each step halves it.
    """
    return least_of_curve(constraints, c, Power(p), tol=tol, polish=polish)


def least_of_curve(
    constraints: Factors | Matrices,
    c: Float[np.ndarray, " N"] | None,
    curve: Power | Barrier,
    *,
    tol: float,
    polish: bool,
) -> tuple[list[Candidate], int]:
    """The same for the norm that `curve` leads to."""
    with np.errstate(all="ignore"):
        unit, sizes = of_size_one(as_factors(constraints))
        if not (sizes.min() > 0 and np.isfinite(sizes).all()):
            return [], 0
        unit, back = in_spans(unit)
        turned = unit.shape[0] < unit.shape[1]
        problem = Problem(_transposed(unit) if turned else unit, sizes.min() / sizes, c)
        best, n_iterations = path(problem, curve, tol=tol, polish=polish, uneven=_UNEVEN)
        large = isinstance(curve, Power) and curve.p > _LARGE
        for near in _NEAR if large else _NEAR[:1]:
            if best.gap <= max(tol, _WIDE) or best.vanished:
                break
            begin = None
            if large:
                first, n = path(problem, Barrier(0.0), tol=near, polish=False, uneven=_UNEVEN)
                begin, n_iterations = first.last, n_iterations + n
            other, n = path(problem, curve, tol=tol, polish=polish, uneven=_MORE_UNEVEN, begin=begin)
            n_iterations += n
            best.improve(other)
        if best.gap > tol and not best.vanished:
            other, n = path(problem, curve, tol=tol, polish=polish, uneven=_MORE_UNEVEN, slow=True)
            n_iterations += n
            best.improve(other)
        point = back(best.W.T if turned else best.W)
        p = problem.weights(best.lam)
        if not (np.isfinite(point).all() and np.any(point) and np.isfinite(p).all()):
            return [], n_iterations
        return [Candidate(point, p, best_intercept(constraints.margins(point), c))], n_iterations


def _transposed(constraints):
    if isinstance(constraints, Factors):
        return Factors(constraints.right, constraints.left)
    return Matrices(np.ascontiguousarray(constraints.matrices.transpose(0, 2, 1)))
