"""Least spectral function over linear constraints: primal-dual Newton steps in Minty's coordinates.

    min Phi(W) - t  over  <A_k, W> + c_k b_k beta - b_k t = k_k >= 0,        |A_k|_F = 1, 0 < b_k <= 1
    grad Phi(W) = G = sum_k lam_k A_k,   lam_k k_k = mu,   sum_k b_k lam_k = 1,   sum_k c_k b_k lam_k = 0

For `Phi = |W|^2 / 2` the optimum has `t = |W|^2`, and `|W|` is the margin of the constraints `A_k / b_k`. With the
margin `t` free, as here, any `W` is feasible, and a small margin only takes more steps.

`W` and `V = grad Phi(W)` are one point of the graph of the gradient, kept as `Z = W + eta V`. A step solves the
equations linearised there (`S` the inverse Hessian; `R = V - G`),

    dW = S (sum_k dlam_k A_k - R),   (<A_k, S A_l> + diag(k / lam)) dlam + (columns of t, beta) = ...,

moves `Z` by `dW + eta dV`, and takes `W` and `V` from the new `Z` (Minty 1962: the graph of a monotone map is a
Lipschitz image of `Z`). So neither an infinite slope (`p > 2`, singular `G`) nor a flat one (`p < 2`) leads astray,
powers near 1 and large ones need no continuation, and the barrier of the spectral norm falls like any other
complementarity. The steps of `lam` and `k` are Mehrotra's.

The residuals aimed at are those of the next curve, which does not depend on its `mu` in a linear way: where they are
large beside `mu`, the step need not lessen those of the present one, and the line search finds next to nothing. A slow
path then lets `mu` fall by less, at last not at all, which leaves Newton's method proper.

Derived here.
"""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float

from ..limits.constraints import Factors, Matrices
from ._candidate import balanced, best_intercept
from ._spectral_curves import Barrier, BarrierPair, Power, PowerPair
from ._spectral_metric import Metric
from ._spectral_system import newton_system

_MAX_ITERATIONS = 100
_CHEAP = 4e6  # products in the matrix of the system up to which orthogonal factors cost nothing that is felt
_MOST_NUMBERS = 2**25  # in the rows that orthogonal factors need at once
_ROUNDING = 1e-15
_PATIENCE = 12  # iterations without a gap or an upper bound that falls by a tenth
_VANISHED = 1e-15  # size of the combination, relative to its terms, that is rounding
_LEAST_FACTOR, _LEAST_SLOW = 1e-3, 0.1  # by which the complementarity falls in a step
_SHORT = 0.05  # a step below which a slow path takes one with a smaller fall


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Constraints of size one, `b`, and the signs `c` of the intercept's column or `None`; more rows than columns."""

    constraints: Factors | Matrices
    b: Float[np.ndarray, " N"]
    c: Float[np.ndarray, " N"] | None

    @functools.cached_property
    def border(self) -> Float[np.ndarray, "N e"]:
        """The columns of the margin `t` and of the intercept."""
        return np.column_stack([-self.b] if self.c is None else [-self.b, self.c * self.b])

    def least_margin(self, W) -> float:
        """The least margin of `W` with its best intercept."""
        scores = self.constraints.margins(W) / self.b
        return float((scores if self.c is None else scores + best_intercept(scores, self.c) * self.c).min())

    def weights(self, lam) -> Float[np.ndarray, " N"]:
        """Weights of sum one of the undivided constraints `A_k / b_k`, balanced over the intercept."""
        return balanced(self.b * lam, self.c)

    def combined(self, lam) -> Float[np.ndarray, "m n"]:
        """`sum_k p_k A_k / b_k`, whose dual norm is an upper bound of the margin."""
        return self.constraints.combine(self.weights(lam) / self.b)


@dataclasses.dataclass(frozen=True, eq=False)
class Point:
    """`Z = W + eta G` by its singular vectors, the pair on the curve, and `lam`, `k`, `beta`."""

    u: Float[np.ndarray, "m m"]
    v: Float[np.ndarray, "n n"]
    pair: PowerPair | BarrierPair
    lam: Float[np.ndarray, " N"]
    k: Float[np.ndarray, " N"]
    y: Float[np.ndarray, " e"]

    def matrix(self, s) -> Float[np.ndarray, "m n"]:
        return (self.u[:, : len(s)] * s) @ self.v.T


@dataclasses.dataclass
class Best:
    """Highest lower and lowest upper bound so far, each with what proves it."""

    W: np.ndarray
    lam: np.ndarray
    lower: float = -math.inf
    upper: float = math.inf
    vanished: bool = False  # the combination is zero within rounding
    last: Point | None = None

    @property
    def gap(self) -> float:
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    def improve(self, other: "Best") -> None:
        """Takes the other's bounds where they are better."""
        if other.lower > self.lower:
            self.W, self.lower = other.W, other.lower
        if other.upper < self.upper:
            self.lam, self.upper = other.lam, other.upper


def path(
    problem: Problem,
    curve: Power | Barrier,
    *,
    tol: float,
    polish: bool,
    uneven: float,
    begin: Point | None = None,
    slow: bool = False,
) -> tuple[Best, int]:
    """The best pair on the way to the last curve, when its gap is at most `tol` or no longer falls; and the steps.

    `polish`: go on towards rounding as long as each step halves the gap. `uneven`: residuals allowed on the way,
    relative to the complementarity. `begin`: a point of another curve to go on from. `slow`: more steps, more surely.
    """
    lam = np.ones_like(problem.b) if problem.c is None else balanced(np.ones_like(problem.b), problem.c) / problem.b
    lam /= problem.b @ lam
    G = problem.constraints.combine(lam)
    if not np.linalg.norm(G) > _VANISHED * lam.sum():
        first = np.zeros_like(lam)
        first[0] = 1
        return Best(problem.constraints.combine(first), lam, upper=0.0, vanished=True), 0
    if begin is None:
        curve, x = _start(problem, curve, lam)
    else:
        sigma, g = begin.pair.sigma, begin.pair.g
        eta = curve.lean * sigma[0] / g[0]
        x = dataclasses.replace(begin, pair=curve.at(sigma + eta * g, eta))
    best = Best(x.matrix(x.pair.sigma), lam)
    N, size = problem.constraints.n_constraints, math.prod(problem.constraints.shape)
    careful = size < N or N * N * size <= _CHEAP
    goal, last, waited, patience, enough = tol, (math.inf, math.inf), 0, _PATIENCE, 0.9
    for n in range(_MAX_ITERATIONS):
        best.last = x
        _judge(problem, curve, x, best)
        if best.vanished or best.gap <= _ROUNDING:
            return best, n
        if goal == tol and best.gap <= tol:
            if not polish:
                return best, n
            goal, patience, enough = _ROUNDING, 2, 0.5
            last = (math.inf, math.inf)
        waited += 1
        if best.gap < enough * last[0] or (goal == tol and best.upper < enough * last[1]):
            last, waited = (best.gap, best.upper), 0
        if waited >= min(4, patience) and not careful and N * size <= _MOST_NUMBERS:
            careful, waited = True, 0
        if waited >= patience:
            return best, n
        try:
            moved = _step(problem, curve, x, goal=goal, careful=careful, uneven=uneven, slow=slow)
        except (np.linalg.LinAlgError, ValueError):  # numbers that are not finite, past what rounding allows
            moved = None
        if moved is None:
            return best, n
        curve, x = moved
    return best, _MAX_ITERATIONS


def _start(problem, curve, lam):
    """The point whose gradient is the combination, a margin below its least one, and slacks that are not small."""
    u, s, vt = np.linalg.svd(problem.constraints.combine(lam))
    if isinstance(curve, Barrier):
        curve, pair = Barrier.from_gradient(s)
    else:
        pair = curve.from_gradient(s)
    x = Point(u, vt.T, pair, lam, lam, np.zeros(len(problem.border.T)))
    scores = problem.constraints.margins(x.matrix(pair.sigma)) / problem.b
    y = np.zeros(problem.border.shape[1])
    if problem.c is not None:
        y[1] = best_intercept(scores, problem.c)
        scores = scores + y[1] * problem.c
    scores = problem.b * scores
    y[0] = scores.min() - np.abs(scores).mean()
    return curve, dataclasses.replace(x, k=np.maximum(scores - y[0] * problem.b, np.abs(scores).mean()), y=y)


def _judge(problem, curve, x, best):
    """Takes the point's bounds into `best`."""
    sigma = x.pair.sigma
    W = x.matrix(sigma)
    lower = problem.least_margin(W) / curve.norm(sigma)
    G = problem.combined(x.lam)
    upper = curve.dual(np.linalg.svd(G, compute_uv=False)) if np.isfinite(G).all() else math.inf
    if lower > best.lower:
        best.W, best.lower = W, lower
    if upper < best.upper:
        best.lam, best.upper = x.lam, upper
    best.vanished = upper <= _VANISHED * (problem.weights(x.lam) / problem.b).sum()


def _step(problem, curve, x, *, goal, careful, uneven, slow):
    """The next curve and point; `None` where the linear system or the step is not finite."""
    constraints, E = problem.constraints, problem.border
    lam, k, N = x.lam, x.k, len(x.lam)
    sigma, g = x.pair.sigma, x.pair.g
    eta = curve.lean * sigma[0] / g[0]
    z = sigma + eta * g
    metric = Metric(x.u, x.v, x.pair.weights())
    solve = newton_system(metric, constraints, k / lam, E, careful=careful)
    if solve is None:
        return None
    G = constraints.combine(lam)
    off = -(E.T @ lam)
    off[0] -= 1

    def residuals(pair):
        W, V = x.matrix(pair.sigma), x.matrix(pair.g)
        return W, V, V - G, constraints.margins(W) + E @ x.y - k

    def direction(R, r, product):
        dlam, moved, dy = solve(metric.pull(R), -r - product / lam, off)
        return dlam, -(product + k * dlam) / lam, metric.push(moved), constraints.combine(dlam) - R, dy

    size = abs(np.vdot(x.matrix(g), x.matrix(sigma)))
    mu = lam @ k / N
    W, V, R, r = residuals(x.pair)
    infeasible = _infeasibility(W, V, R, r, lam)
    _, _, R, r = residuals(curve.next(0.01).at(z, eta))
    dlam, dk, *_ = direction(R, r, lam * k)
    reach = min(1.0, _largest(lam, dlam), _largest(k, dk))
    factor = ((lam + reach * dlam) @ (k + reach * dk) / N / mu) ** (3 if reach > 0.9 else 2)
    least = max(1e-2 * goal * size, 1e-3 * infeasible * size) / N / mu
    first = min(1.0, max(factor, _LEAST_SLOW if slow else _LEAST_FACTOR, least))
    bend = reach**2 * dlam * dk
    for factor in (first, first**0.25, 1.0) if slow else (first,):
        W, V, R, r = residuals(curve.next(factor).at(z, eta))
        dlam, dk, dW, dG, dy = direction(R, r, lam * k - factor * mu + bend)
        reach = min(_largest(lam, dlam), _largest(k, dk))
        step = min(1.0, (0.995 if reach > 0.9 else 0.95) * reach)
        if not (np.isfinite(dW).all() and np.isfinite(dG).all() and np.isfinite(step)):
            return None
        rounding = 1e-12 + 1e-14 * lam.sum() / np.linalg.norm(V)  # of a combination that nearly cancels
        for _ in range(12):
            u, new_z, vt = np.linalg.svd((W + step * dW) + eta * (V + step * dG))
            new_lam, new_k = lam + step * dlam, k + step * dk
            gap = new_lam @ new_k
            onward = curve.next(min(1.0, gap / N / mu))
            new = Point(u, vt.T, onward.at(new_z, eta), new_lam, new_k, x.y + step * dy)
            W1 = new.matrix(new.pair.sigma)
            r = constraints.margins(W1) + E @ new.y - new.k
            V1 = new.matrix(new.pair.g)
            R = V1 - constraints.combine(new.lam)
            if _infeasibility(W1, V1, R, r, new.lam) <= max((1 - step / 2) * infeasible, uneven * gap / size, rounding):
                break
            step /= 2
        if step > _SHORT:
            break
        bend = 0.0  # it was that of a full fall
    return onward, new


def _infeasibility(W, G, R, r, lam):
    """Relative size of the residuals."""
    return np.linalg.norm(R) / np.linalg.norm(G) + (lam @ np.abs(r)) / (lam.sum() * np.linalg.norm(W))


def _largest(x, dx):
    """Largest step at most 1.1 with `x + step dx >= 0`."""
    falling = dx < 0
    return min(1.1, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.1
