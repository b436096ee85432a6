"""lp, `1 < p < inf`: an interior point method in which the power is one more relation of two positive numbers.

    max gamma   over   A w + c b >= gamma,  |w|_p <= 1;
    dual: min |A^T lam|_q   over   lam >= 0,  sum lam = 1,  c.lam = 0,       1/p + 1/q = 1.

Newton's method on the smooth dual or primal problem breaks down away from `p = 2`: the curvature `|w_i|^(p-2)`
vanishes or explodes at small coordinates. Here the absolute value is separated from the power. `u >= |w|` is a pair of
linear constraints with multipliers `alpha, beta`; the power then joins two *positive* vectors, `u` and
`y = alpha + beta`, and its equation is linear in their logarithms:

    (1)  A w + c b - gamma = s            (2)  A^T lam = alpha - beta
    (3)  log y = (p - 1) log u + kappa    (4)  log |u|_p = 0,   sum lam = 1,   c.lam = 0
    (5)  s lam = alpha (u - w) = beta (u + w) = mu,   all six positive,   mu -> 0.

The products in (5) add up to the duality gap `y.u - gamma`. As `p -> 1`, (3) becomes `y = const`, the linear program of
l1; as `p -> inf`, it becomes `u = const`, that of l-infinity. Nothing degenerates in between, and the number of steps
is that of a linear program for every power (9 to 20 to a gap of 1e-8 for `1.001 <= p <= 1000`). A point that satisfies
(1) to (4) is at hand: `w = 0` with `u` constant. All stays bounded: data without a margin end at `gamma = 0` like any
other, with `lam` the combination that is zero.

A step: a predictor, a corrector of second order (Mehrotra 1992), for (3) as well, and up to two corrections of
centrality (Gondzio 1996): each costs a solve, and spares steps, of which each costs a factorisation. The separation
and (3) are derived here.
"""

import numpy as np
from jaxtyping import Float

from ._candidate import Candidate, balanced, best_intercept
from ._lp_newton import Newton
from ._power import power_norm, power_unit

_LARGEST_STEPS = 100
# Steps in a row that improve neither bound (by a thousandth of the gap) before the arithmetic is taken to be exhausted.
_PATIENCE = 5
# The least decrease of the gap, in one step, for which the polish goes on.
_WORTH = 0.5
# Below this gap the solves are refined by the residual of the whole system.
_REFINED = 1e-4
# Residuals of (1) and (2), relative to the slacks and multipliers, that ask for more care in the linear algebra.
_ROUGH = 1e-10
_CORRECTIONS = 2


def least_lp(
    A, c: Float[np.ndarray, " N"] | None, *, p: float, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """`min |w|_p` over `A w + c b >= 1`, `1 < p < inf`: the best pair by its recomputed gap, and the number of steps.

    `A`: (N, d), dense or sparse, no zero row, entries of size about one. `c`: signs of a free intercept `b`, or `None`.
    It stops at the relative gap `tol`; with `polish` it goes on while a step halves the gap, as a rule to 1e-14. The
    list is empty only where `A` is not finite. Raises `ValueError` for a `p` outside (1, inf).
    """
    if not 1 < p < np.inf:
        raise ValueError(f"`p` must lie between 1 and infinity, both excluded; got {p}.")
    # Where double precision ends, a step is not finite, and the search ends with it: no warning is due.
    with np.errstate(all="ignore"):
        return _search(A, c, p, tol=tol, polish=polish)


class _Best:
    """The highest lower and the smallest upper bound: one depends on the point alone, one on the multipliers alone."""

    def __init__(self, A, c, p):
        self._A, self._c, self._p, self._q = A, c, p, p / (p - 1)
        self._sizes = abs(A)
        self.lower, self.upper = -np.inf, np.inf
        self._point, self._multipliers, self._intercept = None, None, 0.0

    def see(self, w, scores, lam) -> bool:
        """Judge `w` with `A w = scores`, `lam`, and the point `lam` implies; true when a bound clearly improved."""
        lower, upper = self.lower, self.upper
        lam = balanced(lam, self._c)
        g = self._A.T @ lam
        size = power_norm(g, self._q)
        if size < self.upper and np.any(lam):
            self.upper, self._multipliers = size, lam
        self._judge(w, scores)
        if size > 0:
            dual_point = power_unit(g, self._q)
            self._judge(dual_point, self._A @ dual_point)
        if not (np.isfinite(lower) and np.isfinite(upper)):
            return True
        return max(self.lower - lower, upper - self.upper) > 1e-3 * (upper - lower) or self.upper < 0.9 * upper

    def _judge(self, point, scores):
        size = power_norm(point, self._p)
        if not size > 0:
            return
        b = best_intercept(scores, self._c)
        lower = (scores if self._c is None else scores + self._c * b).min() / size
        if lower > self.lower:
            self.lower, self._point, self._intercept = lower, point, b

    @property
    def gap(self):
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    @property
    def rounding(self) -> float:
        """The rounding of the upper bound: a bound below it is zero, and means that there is no margin."""
        if self._multipliers is None:
            return 0.0
        return np.finfo(float).eps * power_norm(self._sizes.T @ self._multipliers, self._q)

    def candidates(self) -> list[Candidate]:
        if self._multipliers is None:
            return []
        if self._point is None:  # the combination is exactly zero: no point is better than another
            point = np.ones(self._A.shape[1])
            return [Candidate(point, self._multipliers, best_intercept(self._A @ point, self._c))]
        return [Candidate(self._point, self._multipliers, self._intercept)]


def _search(A, c, p, *, tol, polish):
    best, state, care = _Best(A, c, p), _start(A, c, p), 0
    idle, last = 0, np.inf
    for n_iterations in range(_LARGEST_STEPS + 1):
        idle = 0 if best.see(state.w, state.scores, state.lam) else idle + 1
        gap = best.gap
        if best.upper <= best.rounding or idle > _PATIENCE or n_iterations == _LARGEST_STEPS:
            break
        if gap <= tol and not (polish and best.rounding / best.upper < gap < _WORTH * last):
            break
        last = gap if gap <= tol else np.inf
        care = max(care, int(gap < _REFINED))
        after = _step(state, A, c, p, care=care)
        while gap > tol and care < 2 and (after is None or after.roughness > _ROUGH):
            # Once lost in rounding, the linear equations are not recovered: the step is taken again with more care.
            care += 1
            after = _step(state, A, c, p, care=care)
        if after is None:
            break
        state = after
    return best.candidates(), n_iterations


class _State:
    """An iterate and the residuals of its linear equations."""

    def __init__(self, A, c, x, z, scalars):
        self.x, self.z, self.scalars = x, z, scalars
        N, d = A.shape
        s, a, e = x[:N], x[N : N + d], x[N + d :]
        self.lam, alpha, beta = z[:N], z[N : N + d], z[N + d :]
        self.w, self.scores = (e - a) / 2, A @ ((e - a) / 2)
        _, gamma, b = scalars
        self.residuals = {
            "margins": self.scores - gamma - s + (0 if c is None else c * b),
            "forces": A.T @ self.lam - (alpha - beta),
            "sums": (1 - self.lam.sum(), 0 if c is None else -c @ self.lam),
        }
        self.roughness = max(
            np.abs(self.residuals["margins"]).max() / s.max(), np.abs(self.residuals["forces"]).max() / z[N:].max()
        )


def _step(state, A, c, p, *, care):
    """The iterate after one step, or `None` where the arithmetic breaks down."""
    x, z = state.x, state.z
    system = Newton(A, c, p, x=x, z=z, care=care)
    if not system.factored:
        return None
    curve = np.log(system.y) - (p - 1) * np.log(system.u) - state.scalars[0]
    try:
        dx, dz, dscalars = _direction(system, x, z, p, curve=curve, residuals=state.residuals)
    except np.linalg.LinAlgError:
        return None
    reach = _reach(x, z, dx, dz)
    step = min(1.0, reach * (0.9 + 0.0999 * min(1.0, reach)))
    x, z = x + step * dx, z + step * dz
    if not (np.isfinite(x).all() and np.isfinite(z).all() and min(x.min(), z.min()) > 0):
        return None
    return _State(A, c, x, z, state.scalars + step * np.resize(dscalars, 3) * [1, 1, c is not None])


def _start(A, c, p):
    """`w = 0`, `u` constant of norm one, `y` constant, equal multipliers: every equation but (5) holds."""
    N, d = A.shape
    lam = balanced(np.ones(N), c)
    g = A.T @ lam
    u, y = np.full(d, d ** (-1 / p)), np.full(d, 1.5 * np.abs(g).max())
    kappa = np.log(y[0]) - (p - 1) * np.log(u[0])
    s = np.full(N, (y @ u) * N / (2 * d))  # for which the products in (5) are about equal
    x, z = np.concatenate([s, u, u]), np.concatenate([lam, (y + g) / 2, (y - g) / 2])
    return _State(A, c, x, z, np.array([kappa, -s[0], 0.0]))


def _direction(system, x, z, p, *, curve, residuals):
    products = x * z
    mu = products.mean()
    n_rows, d = len(x) - 2 * len(system.u), len(system.u)
    dx, dz, _ = system.direction(-products, curve=curve, **residuals)
    reach = min(1.0, _reach(x, z, dx, dz))
    target = mu * np.clip(((x + reach * dx) @ (z + reach * dz) / (len(x) * mu)) ** 3, 1e-6, 1)
    # Terms of second order of the predictor, as far as it can be followed; those of (3) in logarithms, hence clipped.
    du, dy = (dx[n_rows : n_rows + d] + dx[n_rows + d :]) / 2, dz[n_rows : n_rows + d] + dz[n_rows + d :]
    second = ((p - 1) * (du / system.u) ** 2 - (dy / system.y) ** 2) / 2
    curve = curve + np.clip(reach**2 * second, -1, 1)
    t = target - products - reach**2 * dx * dz
    found = system.direction(t, curve=curve, **residuals)
    reach = _reach(x, z, *found[:2])
    for _ in range(_CORRECTIONS):
        if reach >= 1:
            break
        # Products that a longer step would leave far from the target are pulled towards it.
        longer = min(1.0, 1.5 * reach + 0.1)
        reached = (x + longer * found[0]) * (z + longer * found[1])
        t = t + np.maximum(np.clip(reached, 0.1 * target, 10 * target) - reached, -10 * target)
        corrected = system.direction(t, curve=curve, **residuals)
        reach_corrected = _reach(x, z, *corrected[:2])
        if not reach_corrected > reach + 0.01:
            break
        found, reach = corrected, reach_corrected
    return found


def _reach(x, z, dx, dz):
    """The step at which the first of `x`, `z` would be zero (1e10 at most)."""
    return 1 / max((-dx / x).max(), (-dz / z).max(), 1e-10)
