"""l1 and l-infinity: a primal-dual interior point method for the maximum margin as a bounded linear program.

Of the rows `A`, the signs `c` of a free intercept (or none) and unit weights `h`, `f`, to be scaled below,

    max gamma  over  A w + c b - gamma h = s >= 0  and  |w| <= 1,

where l1 writes `w = u - v`, `sum_j f_j (u_j + v_j) = 1`, `u, v >= 0` with the dual slacks `f g -+ A^T p >= 0`, and
l-infinity writes `u = f + w`, `v = f - w >= 0` with dual slacks `y, x >= 0`, `x - y = A^T p`. The duals of the rows are
`p >= 0`, `h.p = 1`, `c.p = 0`. Both sides always have interior points, also when nothing is separable (`gamma = 0`),
which the usual form `min |w|` over `A w >= 1` has not. `h`, `f` make room for rows and columns of unlike sizes.

Each step solves with `A diag(t) A^T + diag(s/p)`, or with a `d x d` matrix when `d < N`; see `_program_system.py`.

Source: Mehrotra's predictor and corrector (1992). Derived here: the margin form, the elimination and its scaling.
"""

import numpy as np

from ._candidate import Candidate, best_intercept
from ._program_step import Iterate, Newton, free_columns, start
from ._program_system import single_precision
from ._program_vertex import offer_simplex, offer_vertex, polish_vertex
from ._scaled_program import Best, Scaled, scaled, units
from ._single_precision import TooInexact

_MOST_STEPS = 100
# Steps without a tenth off the gap, after which rounding has the word.
_PATIENCE = 6
# The gap below which the active set may be right, and steps beyond the tolerance to find it, down to a gap.
_NEAR = 1e-3
_EXTRA = 3
_SHARP = 1e-12
# The fall of the mean product from which on a step in single precision is refined by the residual of the whole system.
_REFINED = 1e-3
# Corrections of centrality; from this many rows and columns on, the steps they spare cost more.
_CORRECTIONS = 2
_LARGE = 200
# Above this many rows and columns a dense matrix of steps is out of reach; HiGHS keeps its own sparse.
_MOST_DENSE = 8000
# Above this many entries the simplex method takes minutes.
_MOST_SIMPLEX = 300_000
_CHEAP_SIMPLEX = 20_000


def least_norm_program(A, c, *, box: bool, tol: float, polish: bool) -> tuple[list[Candidate], int]:
    """The best pair for l-infinity (`box`) or l1, and the number of steps; an empty list when there is none."""
    with np.errstate(all="ignore"):
        program = scaled(A, c, box=box)
        best = Best(program)
        n_steps = 0
        if min(A.shape) <= _MOST_DENSE:
            n_steps = interior_point(program, best, tol=tol, polish=polish)
            if polish:
                polish_vertex(program, best)
        entries = A.nnz if hasattr(A, "nnz") else A.size
        # Near ties hide the vertex from the interior point; where that costs little, the simplex method finds it.
        wanted = min(tol, _SHARP) if polish and entries <= _CHEAP_SIMPLEX else tol
        # HiGHS's tolerances are absolute: margins of one are met most sharply, points of size one found most surely.
        for least in (1.0, best.upper * float(program.h.max())) if entries <= _MOST_SIMPLEX or n_steps == 0 else ():
            if best.gap > wanted and not best.negligible:
                n_steps += offer_simplex(program, best, least=least if 0 < least < np.inf else 1.0)
                if polish:
                    polish_vertex(program, best)
        if best.p is None:
            return [], n_steps
        # Where the combination is zero to the last digit there may be no point, and none has a positive margin.
        w = program.A[[0]].T @ np.ones(1) if best.w is None else best.w
        w = w / program.f if box else w * program.f
        # By a power of two alone: a point of norm 1e-300 or 1e300 would leave the caller without digits.
        w = w * units(np.abs(w).max())
        return [Candidate(w, best.p, best_intercept(A @ w, c))], n_steps


def interior_point(program: Scaled, best: Best, *, tol: float, polish: bool = False) -> int:
    """Improves `best` until its gap is at most `tol` or rounding stops it; the number of steps.

    `polish`: try the vertex that the active set names as soon as it may be right, which ends the run.
    """
    d, h = program.A.shape[1], program.h
    at, active, history, n_extra = start(program), None, [], 0
    first = at.mu
    single = single_precision(program.A, free_columns(program))
    for n_steps in range(_MOST_STEPS):
        after = None
        if single.usable:
            try:
                after = _step(Newton(program, at, single), at, refine=at.mu < _REFINED * first)
            except TooInexact:
                single.usable = False
        if not single.usable:
            after = _step(Newton(program, at), at, refine=True)
        if after is None:
            return n_steps
        before, at = at, after
        best.offer(at.w, at.z[2 * d :] * h)
        if polish and best.gap < _NEAR:
            last, active = active, _active(program, before, at)
            # The set counts as found when two steps agree on it.
            if last is not None and all(np.array_equal(a, b) for a, b in zip(last, active, strict=True)):
                offer_vertex(program, best, active)
        history.append(best.upper - max(best.lower, 0))
        settled = len(history) > _PATIENCE and history[-1] > 0.9 * history[-1 - _PATIENCE]
        n_extra += best.gap <= tol
        if n_extra > (_EXTRA if polish and best.gap > _SHARP else 0) or settled or best.negligible:
            return n_steps + 1
    return _MOST_STEPS


def _step(newton: Newton, at: Iterate, *, refine: bool) -> Iterate | None:
    """The next iterate; `None` where the arithmetic breaks down."""
    if not newton.usable:
        return None
    predictor = newton.step(-at.x * at.z, refine=False)
    predicted = at.moved(predictor, _longest(at.x, predictor.x), _longest(at.z, predictor.z)).mu
    centring = min(max((predicted / at.mu) ** 3, 1e-8), 1.0)
    target = centring * at.mu
    products = target - at.x * at.z - predictor.x * predictor.z
    step = newton.step(products, refine=refine)
    primal, dual = _longest(at.x, step.x), _longest(at.z, step.z)
    for _ in range(_CORRECTIONS if min(newton.program.A.shape) >= _LARGE else 0):
        if min(primal, dual) > 0.99:
            break
        # Products that longer steps would leave far from the target are pulled towards it.
        further = (min(1.0, 1.5 * length + 0.1) for length in (primal, dual))
        reached = (at.x + next(further) * step.x) * (at.z + next(further) * step.z)
        products = products + np.maximum(np.clip(reached, 0.1 * target, 10 * target) - reached, -10 * target)
        corrected = newton.step(products, refine=refine)
        lengths = _longest(at.x, corrected.x), _longest(at.z, corrected.z)
        if not sum(lengths) > primal + dual + 0.02:
            break
        step, (primal, dual) = corrected, lengths
    if not (np.isfinite(step.x).all() and np.isfinite(step.z).all()):
        return None
    fraction = min(0.9995, max(0.9, 1 - predicted / at.mu))
    return at.moved(step, fraction * primal, fraction * dual)


def _active(program, before, at):
    """The rows with multipliers, and the coordinates that are not zero (l1) or inside the box (l-infinity).

    Of each pair the one that shrinks by more is the one that vanishes (Tapia's indicators), in any units.
    """
    grows = at.x / before.x > at.z / before.z
    u, v, s = np.split(grows, [program.A.shape[1], 2 * program.A.shape[1]])
    return ~s, u & v if program.box else u | v


def _longest(x, dx):
    """The longest step up to 1 that keeps `x + step * dx >= 0`."""
    falling = dx < 0
    return min(1.0, float((x[falling] / -dx[falling]).min())) if falling.any() else 1.0
