"""The point of least Euclidean norm of a polytope by a primal-dual interior point method: l2 and Frobenius.

    min |w|^2 / 2 - gamma  over  A w + c b - gamma h = s >= 0,   whose multipliers have
    w = A^T p,  h.p = 1,  c.p = 0,  p >= 0,  s_k p_k = 0:   `A^T p` is the point of least norm.

`h` makes room for rows of unlike sizes. With a free intercept the polytope is the difference of two hulls. Both sides
always have interior points; a least norm of zero means that nothing is separable, and `p` is the Farkas combination.

Where weights vanish like their slacks, as with one input of both labels, the steps take a constant factor off only;
the combination is then sought next to the multipliers of a step, see `_farkas.py`.

A step solves with `A A^T + diag(s/p)`, where the first term never changes, or, for `d < N`, with
`1 + A^T diag(p/s) A`. Only inner products are needed (`GramSpace`), as for rank-one matrices.

Source: Mehrotra's predictor and corrector (1992) for a quadratic program. Derived here: the margin form, its scaling.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from ._algebra import gram
from ._candidate import balanced, best_intercept
from ._farkas import null_combination
from ._program_system import bordered_solver, newton_system

_MOST_STEPS = 100
# Steps without a tenth off the gap, after which rounding has the word.
_PATIENCE = 6
# What is left of the rows combined, below which a combination that is zero is sought where no margin is in sight; and
# the shares of that at which it is sought again.
_DOUBTFUL = 1e-2
_AGAIN = 1 / 30
# A lower bound this small beside the upper one is no margin in sight.
_NO_MARGIN = 1e-3
# Above this many rows and coordinates a dense matrix of steps is out of reach.
_MOST_DENSE = 10_000


class RowSpace:
    """Vectors: the rows of `A`, dense or sparse."""

    def __init__(self, A: Any):
        self.A = A
        self.sizes = np.sqrt((A.multiply(A) if hasattr(A, "multiply") else A * A).sum(axis=1))
        self.K = gram(A, np.ones(A.shape[1])) if A.shape[0] <= min(A.shape[1], _MOST_DENSE) else None

    def lift(self, p):
        """`sum_k p_k A_k`."""
        return self.A.T @ p

    def margins(self, w):
        """`<A_k, w>`."""
        return self.A @ w

    def norm(self, w):
        """`|w|`."""
        return float(np.linalg.norm(w))

    def system(self, B, S):
        """A function `(r, q, b, refine)`: `dw = lift(dp) + r`, `margins(dw) + S dp + B dy = q`, `B^T dp = b`."""
        if min(self.A.shape) > _MOST_DENSE:
            return None
        if self.K is None:
            solve = newton_system(self.A, B, np.ones(self.A.shape[1]), S, None, 0.0)
            return solve and (lambda r, q, b, refine: _without(solve(r, q, 0.0, b, refine), 2))
        return _gram_system(self, B, S)


class GramSpace:
    """Anything with inner products `K_kl = <A_k, A_l>`; a point is an array of any shape.

    `lift(x)` is the point `sum_k x_k A_k` and `margins(W)` are its `<A_k, W>`: norms and margins are never taken from
    `K`, which keeps half the digits only.
    """

    def __init__(self, K: Float[np.ndarray, "N N"], lift: Callable, margins: Callable):
        self.K, self.lift, self.margins = K, lift, margins
        self.sizes = np.sqrt(K.diagonal())

    def norm(self, W):
        """`|W|`."""
        return float(np.linalg.norm(W.ravel()))

    def system(self, B, S):
        """As for rows."""
        return _gram_system(self, B, S)


def _without(values, i):
    return values[:i] + values[i + 1 :]


def _gram_system(space, B, S):
    M = space.K.copy()
    M.flat[:: len(M) + 1] += S
    bordered = bordered_solver(M, B)
    if bordered is None:
        return None

    def solve(r, q, b):
        dp, dy, _ = bordered(q - space.margins(r), b)
        return space.lift(dp) + r, dp, dy

    def refined(r, q, b, refine):
        dw, dp, dy = solve(r, q, b)
        if refine:
            off = q - (space.margins(dw) + S * dp + B @ dy)
            more = solve(r - (dw - space.lift(dp)), off, b - B.T @ dp)
            dw, dp, dy = dw + more[0], dp + more[1], dy + more[2]
        return dw, dp, dy

    return refined


class BestNorm:
    """The highest lower bound with the smallest upper bound so far, of rows that were multiplied by `h`."""

    def __init__(self, space: RowSpace | GramSpace, h: Float[np.ndarray, " N"], c: Float[np.ndarray, " N"] | None):
        self.space, self.h, self.c = space, h, c
        self.lower, self.upper = -np.inf, np.inf
        self.w: np.ndarray | None = None
        self.p: np.ndarray | None = None

    def offer(self, w, p):
        """Keeps what is better of a point and of the multipliers of the rows as given; true when something was."""
        p = balanced(p, self.c)
        lower, upper = self._lower(w), self.space.norm(self.space.lift(p / self.h)) if p.any() else np.inf
        if better_w := lower > self.lower:
            self.lower, self.w = lower, w
        if better_p := upper < self.upper:
            self.upper, self.p = upper, p
        return better_w or better_p

    def _lower(self, w):
        size = self.space.norm(w)
        if not 0 < size < np.inf:
            return -np.inf
        scores = self.space.margins(w) / self.h
        return float((scores if self.c is None else scores + self.c * best_intercept(scores, self.c)).min()) / size

    @property
    def gap(self):
        """The relative gap; at most 1, which is that of the point zero."""
        if not 0 < self.upper < np.inf:
            return 1.0
        return (self.upper - max(self.lower, 0.0)) / self.upper

    @property
    def negligible(self):
        """True when the combination cancels to rounding: nothing is separable, or it cannot be told."""
        return self.left <= 1e-15

    @property
    def left(self):
        """The size of the combination as a part of the sizes combined."""
        return np.inf if self.p is None else self.upper / float(self.space.sizes @ (self.p / self.h))

    def offer_null(self, x):
        """Offers the multipliers next to `x`, of the rows multiplied by `h`, that combine to zero, if there are any.

        Only as a whole: what is small but not zero would look like progress that the method then fails to match.
        """
        found = null_combination(self.space, x, None if self.c is None else self.c * self.h)
        if found is None:
            return
        p = balanced(found * self.h, self.c)
        w = self.space.lift(p / self.h)
        if p.any() and self.space.norm(w) <= 1e-15 * float(self.space.sizes @ (p / self.h)):
            self.offer(w, p)


def interior_point(best: BestNorm, *, tol: float) -> tuple[int, list[np.ndarray]]:
    """Improves `best` until its gap is at most `tol` or rounding stops it; the steps, and two sets of active rows.

    The rows whose slack shrinks by more than their multiplier count as active (Tapia's indicators), in the last step
    that raised the lower bound, and in the last step of all, which may be rounding.
    """
    space, h, c = best.space, best.h, best.c
    B = -h[:, None] if c is None else np.column_stack([-h, c * h])
    p = balanced(h, c) / h
    w = space.lift(p)
    size = space.norm(w) ** 2 + float((p * space.sizes) @ (p * space.sizes))
    s = size / (len(h) * p)
    y = np.append(-float(h @ s) / float(h @ h), np.zeros(B.shape[1] - 1))
    doubtful = _DOUBTFUL
    target, active, history = -np.eye(1, B.shape[1])[0], [np.ones(len(h), dtype=bool)] * 2, []
    for n_steps in range(_MOST_STEPS):
        lower = best.lower
        best.offer(w, p * h)
        if best.lower > lower:
            active[0] = active[1]
        in_sight = best.lower > _NO_MARGIN * best.upper
        # Without a margin in sight, rows of unlike size may leave the bounds as they are while the combination shrinks.
        history.append((best.upper - max(best.lower, 0), np.nan if in_sight else best.left))
        settled = len(history) > _PATIENCE and not any(
            now <= 0.9 * then for now, then in zip(history[-1], history[-1 - _PATIENCE], strict=True)
        )
        if best.gap <= tol or settled or best.negligible:
            return n_steps, active
        # The first system tells whether the matrices of steps are within reach.
        if n_steps and not in_sight and best.left <= doubtful:
            # Later the rows off the face of such combinations stand out by their weights.
            best.offer_null(p if doubtful == _DOUBTFUL else np.where(p > np.sqrt(best.left) * p.max(), p, 0.0))
            doubtful = _AGAIN * best.left
            if best.negligible:
                return n_steps, active
        solve = space.system(B, s / p)
        if solve is None:
            return n_steps, active
        off_w, off_s, off_p = space.lift(p) - w, space.margins(w) + B @ y - s, target - B.T @ p
        mu = s @ p / len(p)
        _, dp, _ = solve(off_w, -s - off_s, off_p, False)
        ds = -s - s / p * dp
        longest = min(_longest(s, ds), _longest(p, dp))
        predicted = (s + longest * ds) @ (p + longest * dp) / len(p)
        centring = min(max((predicted / mu) ** 3, 1e-8), 1.0)
        aim = (centring * mu - dp * ds) / p - s
        dw, dp, dy = solve(off_w, aim - off_s, off_p, True)
        ds = aim - s / p * dp
        if not (np.isfinite(dp).all() and np.isfinite(dw).all()):
            return n_steps, active
        step = min(0.9995, max(0.9, 1 - predicted / mu)) * min(_longest(s, ds), _longest(p, dp))
        active[1] = (p + step * dp) / p > (s + step * ds) / s
        w, p, s, y = w + step * dw, p + step * dp, s + step * ds, y + step * dy
    return _MOST_STEPS, active


def _longest(x, dx):
    falling = dx < 0
    return min(1.0, float((x[falling] / -dx[falling]).min())) if falling.any() else 1.0
