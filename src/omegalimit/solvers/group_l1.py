"""Group l1, `|w| = sum_g |w_g|_2`: interior point over second-order cones, feasible from its first step.

    max gamma  over  A w + a b - s = gamma h,  |w_g|_2 <= t_g,  sum_g t_g = 1,  s >= 0
    min tau    over  |A_g^T p|_2 <= tau,  h.p = 1,  a.p = 0,  p >= 0

is the same problem as `min |w|` over `A w + a b >= h`, scaled so that both sides are bounded and strictly feasible
whatever the data: `w = 0, t = 1 / G, gamma < 0` and the balanced mean of the rows are interior points. Data that are
not separable, or only just, are therefore no special case: `gamma* = 0`, or small. (The usual form has an optimum of
`1 / gamma*`; started infeasible, it stalled on margins of 1e-6 and below.)

Newton's step follows the substitution `dp = x + p dtau / tau`: since the scaling maps `(tau, -A^T p)` to `(t, w)`, the
column of `tau` becomes `(t, w, s, b, gamma)` itself, and no difference of large numbers is left. `x` then solves the
system of `_second_order.py` twice, for the right-hand side and for `h`. Predictor and corrector are Mehrotra's.

Where many rows leave a gap, the nearest are solved for by themselves, and the others checked.

Sources: Mehrotra (1992), Nesterov and Todd (1997); the form and the substitution are derived here.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from ._candidate import Candidate, balanced, best_intercept
from ._second_order import Cone, Problem, by_both, by_columns, by_rows
from .group_l1_polish import polish as newton_polish

_MOST_STEPS = 80
# After so many steps in which the complementarity does not fall to this part of its least, rounding has the upper hand.
# With many more rows than columns steps of a tenth to a quarter may come in a row before the cones are centred.
_PATIENCE = 6
_SLOWEST = 0.9
# The largest system, in unknowns, for a second attempt with an indefinite matrix.
_MOST_UNKNOWNS = 1500
_SHORTEST = 1e-6
# Above this many rows, as a multiple of what a vertex has, a gap that is left is tried on the nearest alone, so many
# of them, a few times over.
_MANY, _NEAREST, _MOST_ROUNDS = 10, 6, 4
# A gap that has grown by this factor will not come back.
_WORSE = 100
# Multipliers whose combination is this small, relative to the rows that they combine, show that the rows contradict.
_ZERO = 1e-14


def least_group_l1(
    A, c: Float[np.ndarray, " N"] | None, *, groups: Int[np.ndarray, " d"], tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """`min sum_g |w_g|_2` over `A w + c b >= 1`; `groups` labels the columns. Candidates, best first, and steps taken.

    `A`: `(N, d)`, dense or sparse. `c`: the signs of a free intercept's column, or `None`. `tol`: the relative gap at
    which the interior point stops; `polish`: follow with Newton's method on the active rows and groups.
    """
    problem = Problem(A, c, groups)
    best = Best(problem)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        n_iterations = _search(problem, best, tol, polish)
        many = A.shape[0] > _MANY * (A.shape[1] + 1)
        for _ in range(_MOST_ROUNDS if many else 0):
            before = best.gap
            if best.enough(tol) or not best.gap < np.inf:
                break
            n_iterations += _search_nearest(problem, best, tol, polish)
            if not best.gap < before / 2:
                break
    return best.candidates(), n_iterations


def _search(problem: Problem, best: "Best", tol: float, polish: bool) -> int:
    """The interior point method, a second one where the first falls short, and the polish; the number of steps."""
    N, d = problem.A.shape
    n_iterations = _interior_point(problem, best, tol, by_rows if d >= N else by_columns)
    n_iterations += newton_polish(problem, best) if polish else 0
    if not best.enough(tol) and N + d <= _MOST_UNKNOWNS:
        n_iterations += _interior_point(problem, best, tol, by_both)
        n_iterations += newton_polish(problem, best) if polish else 0
    return n_iterations


def _search_nearest(problem: Problem, best: "Best", tol: float, polish: bool) -> int:
    """The same for the rows nearest to the best point alone; what it finds is judged by all rows.

    Each row keeps a multiplier of about the complementarity, which rounding bounds from below: with `N` rows the gap
    ends at about `N` times the floor.
    """
    if best.point is None or best.multipliers is None:
        return 0
    most = problem.A.shape[1] + 1
    scores = problem.raw @ best.point + (0 if problem.c is None else problem.c * best.intercept)
    slack = (scores - scores.min()) / problem.sizes
    nearest = np.argsort(slack, kind="stable")[: _NEAREST * most]
    weightiest = np.argsort(-best.multipliers * problem.sizes, kind="stable")[: 2 * most]
    rows = np.union1d(nearest, weightiest)
    c = None if problem.c is None else problem.c[rows]
    if c is not None and abs(c.sum()) == len(c):
        return 0
    part = Problem(problem.raw[rows], c, problem.groups)
    best_of_part = Best(part)
    n_iterations = _search(part, best_of_part, tol, polish)
    if best_of_part.point is not None and best_of_part.multipliers is not None:
        lam = np.zeros(len(problem.h))
        lam[rows] = best_of_part.multipliers / problem.h[rows]
        best.take(best_of_part.point[problem.order], lam)
    return n_iterations


class Best:
    """The point with the highest lower bound, the multipliers with the smallest upper bound, the best pair of one step.

    Both bounds are computed from the rows as they were given.
    """

    def __init__(self, problem: Problem):
        self._problem = problem
        self.lower, self.upper, self.gap, self.pair_gap = -np.inf, np.inf, np.inf, np.inf
        self.point: np.ndarray | None = None
        self.multipliers: np.ndarray | None = None
        self.intercept, self.size = 0.0, 0.0
        self.pair: tuple[np.ndarray, np.ndarray] | None = None

    def take(self, w: Float[np.ndarray, " d"], lam: Float[np.ndarray, " N"]) -> float:
        """Keep what is better; the relative gap of this pair (`w`, `lam` in the order and the units of the problem)."""
        problem = self._problem
        lower, upper = -np.inf, np.inf
        p = balanced(lam * problem.h, problem.c)
        if np.isfinite(p).all() and p.any():
            upper = problem.norms((problem.raw.T @ p)[problem.order]).max()
            if upper < self.upper:
                self.upper, self.multipliers, self.size = upper, p, p @ problem.sizes
        largest = np.abs(w).max()
        if np.isfinite(largest) and largest > 0:
            point = np.empty_like(w)
            point[problem.order] = w / largest
            scores = problem.raw @ point
            b = best_intercept(scores, problem.c)
            lower = scores.min() if problem.c is None else (scores + problem.c * b).min()
            lower /= problem.norms(w / largest).sum()
            if lower > self.lower:
                self.lower, self.point, self.intercept = lower, point, b
        gap = (upper - lower) / upper if 0 < upper < np.inf else np.inf
        if gap < self.pair_gap:
            self.pair, self.pair_gap = (w, lam), gap
        if self.upper > 0 and self.point is not None:
            self.gap = (self.upper - self.lower) / self.upper
        return gap

    @property
    def contradictory(self) -> bool:
        return bool(self.upper <= _ZERO * self.size)

    def enough(self, tol: float) -> bool:
        """True at the gap asked for, at the floor that rounding sets for it, and where the data are contradictory."""
        floor = np.finfo(float).eps * self.size / self.upper if self.upper > 0 else np.inf
        return bool(self.gap <= max(tol, floor)) or self.contradictory

    def candidates(self) -> list[Candidate]:
        if self.multipliers is None:
            return []
        if self.point is None:
            # The rows cancel exactly, so that any point will do.
            point = np.ones(len(self._problem.of))
            return [Candidate(point, self.multipliers, best_intercept(self._problem.raw @ point, self._problem.c))]
        return [Candidate(self.point, self.multipliers, self.intercept)]


def _interior_point(problem: Problem, best: Best, tol: float, factor: Callable) -> int:
    """Steps until `tol`, the floor of rounding or a standstill; `factor`: the form of Newton's system. Their number."""
    iterate = _Iterate(problem)
    best.take(problem.A.T @ iterate.p, iterate.p)
    if best.contradictory or not iterate.s.min() > 0:
        return 0
    improved, smallest_mu, smallest_gap = 0, np.inf, np.inf
    for step in range(_MOST_STEPS):
        if not iterate.factor(factor):
            return step
        mu = iterate.mu
        primal, dual = iterate.advance()
        if not (primal > 0 and dual > 0):
            return step
        gap = best.take(iterate.w, iterate.p)
        smallest_gap = min(gap, smallest_gap)
        if mu < _SLOWEST * smallest_mu:
            improved, smallest_mu = step, mu
        stuck = step - improved > _PATIENCE or max(primal, dual) < _SHORTEST
        if best.enough(tol) or stuck or (smallest_gap < 1 and gap > _WORSE * smallest_gap):
            return step + 1
    return _MOST_STEPS


class _Iterate:
    """The primal `(t, w, s, b, gamma)` and the dual `(p, tau)`, which stay feasible up to rounding."""

    def __init__(self, problem: Problem):
        A, h = problem.A, problem.h
        (N, d), G = A.shape, len(problem.starts)
        self.problem = problem
        self.p = balanced(np.ones(N), problem.c) / h
        self.tau = 2 * problem.norms(A.T @ self.p).max()
        self.t, self.w, self.b = np.full(G, 1 / G), np.zeros(d), 0.0
        # Rows and cones start with about the same complementarity.
        self.gamma = -self.tau * N / G
        self.s = -self.gamma * h
        self.solve: Callable | None = None

    def factor(self, factor: Callable) -> bool:
        """The scaling and Newton's system at this point; false where the matrix cannot be factored."""
        problem, A, h, a = self.problem, self.problem.A, self.problem.h, self.problem.a
        self.cone = Cone(problem, t=self.t, w=self.w, tau=self.tau, g=A.T @ self.p)
        self.mu = (self.cone.complementarity.sum() + self.s @ self.p) / (len(self.t) + len(self.s))
        self.solve = solve = factor(problem, self.cone, self.s / self.p)
        if solve is None or not np.isfinite(self.mu):
            return False
        # These are rounding alone.
        self.residual = self.gamma * h - A @ self.w + self.s - (0 if a is None else a * self.b)
        self.unbalanced = 0.0 if a is None else -(a @ self.p)
        self.lack_p, self.lack_t = 1 - h @ self.p, 1 - self.t.sum()
        self.x_h, self.w_h, self.b_h = solve(np.zeros(len(self.w)), h, 0.0)
        self.t_h = self.cone.beside(self.w_h)
        return True

    def direction(self, y, slack):
        """The Newton step; `y` is what the cones' scaled complementarity asks for beyond zero, `slack` the rows'.

        Returns the step of the primal, that of the dual, the cones' parts of both in scaled variables, and how far
        each may go.
        """
        assert self.solve is not None
        cone, h, p, s = self.cone, self.problem.h, self.p, self.s
        q_t, q_w = cone.scale(*y)
        q_t, q_w, r = q_t - self.t, q_w - self.w, slack / p - s
        x, dw, db = self.solve(q_w, self.residual + r, self.unbalanced)
        dt = q_t + cone.beside(dw - q_w)
        dgamma = (self.lack_p + self.lack_t - h @ x - dt.sum()) / (h @ self.x_h + self.t_h.sum())
        x = x + dgamma * self.x_h
        growth = self.lack_p - h @ x  # dtau / tau
        dt = dt + dgamma * self.t_h - growth * self.t
        dw = dw + dgamma * self.w_h - growth * self.w
        db = db + dgamma * self.b_h - growth * self.b
        ds = r - s / p * x - growth * s
        dgamma = dgamma - growth * self.gamma
        dp, dtau = x + growth * p, growth * self.tau
        dx = cone.unscale(dt, dw)
        dz = cone.scale(np.full(len(dt), dtau), -(self.problem.A.T @ dp))
        steps = min(cone.longest(*dx), _longest(s, ds)), min(cone.longest(*dz), _longest(p, dp))
        return (dt, dw, ds, db, dgamma), (dp, dtau), (dx, dz), steps

    def advance(self) -> tuple[float, float]:
        """Predictor, corrector, and the step; the lengths that were taken."""
        cone, of, total = self.cone, self.problem.of, self.problem.total
        nothing = np.zeros(len(self.t)), np.zeros(len(self.w))
        (_, _, ds, _, _), (dp, _), (dx, dz), (primal, dual) = self.direction(nothing, 0.0)
        primal, dual = min(1.0, primal), min(1.0, dual)
        after = primal * dual * (dx[0] @ dz[0] + dx[1] @ dz[1])
        after += primal * (cone.l0 @ dx[0] + cone.l1 @ dx[1]) + dual * (cone.l0 @ dz[0] + cone.l1 @ dz[1])
        after += cone.complementarity.sum() + (self.s + primal * ds) @ (self.p + dual * dp)
        after /= len(self.t) + len(self.s)
        exponent = max(1.0, 3 * min(primal, dual) ** 2)
        target = self.mu * min(1.0, max(1e-4, (max(after, 0.0) / self.mu) ** exponent))
        product_t = total(dx[1] * dz[1]) + dx[0] * dz[0]
        product_w = dx[0][of] * dz[1] + dz[0][of] * dx[1]
        y = cone.divide(target - product_t, -product_w)
        (dt, dw, ds, db, dgamma), (dp, dtau), _, (primal, dual) = self.direction(y, target - ds * dp)
        fraction = 0.9 + 0.09 * min(1.0, primal, dual)
        primal, dual = min(1.0, fraction * primal), min(1.0, fraction * dual)
        self.t, self.w, self.s = self.t + primal * dt, self.w + primal * dw, self.s + primal * ds
        self.b, self.gamma = self.b + primal * db, self.gamma + primal * dgamma
        self.p, self.tau = self.p + dual * dp, self.tau + dual * dtau
        return primal, dual


def _longest(x, dx) -> float:
    """The largest step that keeps `x + step dx >= 0`."""
    falling = dx < 0
    return float((x[falling] / -dx[falling]).min()) if falling.any() else np.inf
