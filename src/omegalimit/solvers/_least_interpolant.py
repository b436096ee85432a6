"""The least interpolant in a modified l1 norm: a linear program with lazy columns, and an exact solve on its vertex.

    min sum_i t+_i k+_i + t-_i k-_i  over  X (k+ - k-) = y,  k+, k- >= 0          max nu.y  over  -t- <= X^T nu <= t+

A program over few columns has the multipliers of a vertex; a column that its multipliers leave within the bounds cannot
help, the others join. At the end the tight columns, `X_T^T nu = +-t_T`, are solved again to rounding, and the support
by the certificate's own correction.

Source: column generation (Gilmore and Gomory 1961); the simplex method of HiGHS (Huangfu and Hall 2018) through SciPy.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from ..limits._least_squares import least_squares
from ..limits.regularisers import ModifiedL1
from ._candidate import Candidate

# The smallest tolerance that HiGHS takes.
_TOLERANCE = 1e-10
# Up to this many entries of `X` all columns take part from the beginning.
_FEW_ENTRIES = 100_000
# A bound exceeded by less is met, as far as the program's tolerance can tell.
_MET = 1e-9
# Shares below which a bound may be tight, and an entry zero: each is tried.
_TIES = (1e-9, 1e-7, 1e-5)


def least_l1(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], f: ModifiedL1, *, polish: bool = True
) -> tuple[list[Candidate], int]:
    """Candidates for `min f(k)` over `X k = y`, independent rows of largest entry 1, and the number of simplex steps.

    None where the program has no point, or none was found.
    """
    n, d = X.shape
    scores = X.T @ y
    appeal = np.maximum(scores / f.t_plus, -scores / f.t_minus) / np.maximum(np.linalg.norm(X, axis=0), 1e-300)
    order = np.argsort(-appeal, kind="stable")
    size = d if X.size <= _FEW_ENTRIES else min(d, 4 * n + 100)
    used, n_iterations = np.zeros(d, dtype=bool), 0
    used[order[:size]] = True
    while True:
        columns = np.flatnonzero(used)
        found, n_steps = _program(X[:, columns], y, f.taken(columns))
        n_iterations += n_steps
        if found is None:
            if used.all():
                return [], n_iterations
            size = min(d, 2 * size)
            used[order[:size]] = True
            continue
        point, nu = np.zeros(d), found.multipliers
        point[columns] = found.point
        above, below = f.room(X.T @ nu)
        excess = np.where(used, 0.0, -np.minimum(above, below))
        if excess.max(initial=0.0) <= _MET:
            break
        worst = np.argsort(-excess, kind="stable")[: n + 50]
        used[worst[excess[worst] > _MET]] = True
    candidates = [Candidate(point, nu)]
    if polish:
        candidates += [_on_vertex(X, f, point, nu, tie) for tie in _TIES]
    return candidates, n_iterations


def _program(X, y, f) -> tuple[Candidate | None, int]:
    up, down = np.isfinite(f.t_plus), np.isfinite(f.t_minus)
    columns = np.hstack([X[:, up], -X[:, down]])
    cost = np.concatenate([f.t_plus[up], f.t_minus[down]])
    options = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE}
    result = linprog(cost, A_eq=columns, b_eq=y, bounds=(0, None), method="highs", options=options)
    if result.x is None or result.eqlin is None or result.eqlin.marginals is None:
        return None, int(result.nit or 0)
    point = np.zeros(X.shape[1])
    point[up] += result.x[: up.sum()]
    point[down] -= result.x[up.sum() :]
    return Candidate(point, np.array(result.eqlin.marginals)), int(result.nit)


def _on_vertex(X, f, point, nu, tie) -> Candidate:
    """The same with bounds within `tie` met to rounding, and entries below that share of the whole set to zero."""
    for _ in range(3):
        s = X.T @ nu
        above, below = f.room(s)
        tight = np.flatnonzero(np.minimum(above, below) <= tie)
        if not len(tight):
            break
        bound = np.where(above[tight] < below[tight], f.t_plus[tight], -f.t_minus[tight])
        nu = nu + least_squares((X[:, tight] / np.abs(bound)).T, (bound - s[tight]) / np.abs(bound))
    terms = f.terms(point)
    return Candidate(np.where(terms > tie * terms.sum(), point, 0.0), nu)
