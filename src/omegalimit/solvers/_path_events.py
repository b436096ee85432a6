"""A path along the boundary of `{R: -t- <= X'R <= t+}`, from event to event, in scaled units.

`R` moves with `r = y - Xk`, where `k` is least squares over the features on the boundary. A feature comes in when its
`s_i = x_i'R` reaches `t_i+` (side +1) or `-t_i-` (side -1); all that arrive together, to rounding, come in together.

- The saddle path: `side_i k_i >= 0`, `k` is the coefficient, and a feature leaves where its `k_i` ends at zero.
- The Lasso path is the same with a memory: its coefficients are `w = W / T` with `W = int k` and `T = 1/lambda` the
  time (derived here from `X'(y - Xw) = lambda s`). The sign binds `W_i`: only where that is zero does it bind `k_i`. A
  feature leaves when its `W_i` comes back to zero, which is an event of its own.

`r` is the part of `y` that is orthogonal to the support, so that the gradient of the support stays zero relative to `r`
however small it becomes. Every threshold is a bound on rounding, relative to the sizes of what was added up.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ..limits._path_data import PathData
from ._path_cone import solve_cone
from ._path_factor import Factor

_LATE = 1e3  # times the age of a path
EVENT, DONE, NONE, STALLED = "event", "done", "none", "stalled"


class PathEvent(NamedTuple):
    """What happened at a knot.

    - `entered`, `signs`: features that reached the boundary here, all at once, and their side, +1 or -1.
    - `left`: features whose coefficient became zero here.
    - `idle`: features on the boundary whose coefficient and gradient are zero: duplicates, and others that depend on
      the support.
    """

    entered: Int[np.ndarray, " E"]
    signs: Int[np.ndarray, " E"]
    left: Int[np.ndarray, " F"]
    idle: Int[np.ndarray, " G"]

    @property
    def tied(self) -> bool:
        """More than one feature reached the boundary together."""
        return len(self.entered) > 1


class Knot(NamedTuple):
    """The state after an event.

    - `order`, `k`: the support and its `k`; `W`: the coefficients of the Lasso path, over `order` too.
    - `idle`: the other features on the boundary; `sides`: of `order` and `idle`.
    - `T`: when it was; `duration`: how long it took to come here from the last one.
    """

    order: np.ndarray
    k: np.ndarray
    W: np.ndarray
    idle: list[int]
    sides: np.ndarray
    R: np.ndarray
    r: np.ndarray
    T: float
    duration: float
    event: PathEvent
    unique: bool

    @property
    def boundary(self) -> np.ndarray:
        """All features on the boundary: `order` and `idle`."""
        return np.concatenate([self.order, self.idle]).astype(int) if self.idle else self.order


class BoundaryPath:
    """The state of a path, and its steps; `remembers`: the Lasso path."""

    def __init__(self, data: PathData, *, remembers: bool):
        self.data = data
        self._remembers = remembers
        self._factor = Factor(data.rows)
        # Of a gradient, and of |r|.
        self._unit = data.rounding * float(np.linalg.norm(data.y))
        self._rounding = data.sizes * self._unit
        self.k, self.R, self.r = np.zeros(0), np.zeros(data.n), data.y
        self._W, self._side, self._idle = np.zeros(data.d), np.zeros(data.d, np.int8), []
        self._support = np.zeros(0, int)  # the factor's order, as an array
        self._event = PathEvent(*[np.zeros(0, int)] * 4)
        self._T, self._duration, self._unique = 0.0, 0.0, True
        self._n_still, self._best = 0, np.inf

    def finished(self) -> bool:
        """`Xk = y` to rounding."""
        return float(np.sqrt(self.r @ self.r)) <= 2 * self._unit

    def restrict(self, candidates: np.ndarray) -> None:
        """From here on let only these features, an array of indices, come in; those on the boundary included."""
        data = self.data
        self._candidates = candidates
        everything = len(candidates) == data.d
        arrays = (data.rows, data.t_plus, data.t_minus, data.sizes, self._rounding)
        self._near = arrays if everything else tuple(array[candidates] for array in arrays)

    def step(self) -> str:
        """Go to the next event: `EVENT`. `DONE`: `Xk = y` for good; `NONE`: no candidate ever comes in."""
        if self.finished():
            if not self._returns(np.inf)[0].any():
                return DONE
            # The steps that remain may be so long that rounding, taken for a residual, would carry `R` away.
            self.r = np.zeros_like(self.r)
        rows, t_plus, t_minus, sizes, rounding = self._near
        s, u = rows @ self.R, rows @ self.r  # two products with a vector are faster than one with two columns
        speed = np.abs(u)
        comes = (speed > rounding) & (self._side[self._candidates] == 0)
        wait, bound = _waits(s, u, speed, t_plus, t_minus, comes)
        returning, delta = self._returns(float(wait.min(initial=np.inf)))
        if not np.isfinite(delta):
            return NONE
        self.R = self.R + delta * self.r
        size = float(np.sqrt(self.R @ self.R))
        at = np.flatnonzero(np.isfinite(wait))
        left = (wait[at] - delta) * speed[at]
        at = at[left <= self.data.rounding * (bound[at] + sizes[at] * size)]
        self._T, self._duration = self._T + delta, delta
        self._enter(self._candidates[at], np.sign(u[at]).astype(int), returning)
        # Every event lowers the residual of the saddle path; rounding may keep it where it is, but not for long.
        size = float(np.sqrt(self.r @ self.r))
        self._n_still = 0 if size < self._best or (self._remembers and delta > 0) else self._n_still + 1
        self._best = min(size, self._best)
        return STALLED if self._n_still > 10 + 2 * self.data.n else EVENT

    def _returns(self, delta):
        """A mask of the support of the Lasso path: whose `W` comes back to zero before another feature comes in.

        And when the first of all these events is; `delta` is when a feature comes in.
        """
        none = np.zeros(len(self.k), bool)
        if not self._remembers or not len(self.k):
            return none, delta
        W = self._W[self._support]
        back = W * self.k < 0
        if not back.any():
            return none, delta
        wait = np.full(len(W), np.inf)
        np.divide(-W, self.k, out=wait, where=back)
        first = float(wait.min())
        if first > _LATE * self._T:
            # So late that `k_i` is far below `w_i`: it may be what rounding makes of zero, and then never comes back.
            wait[np.abs(self.k) <= self._unit * self._factor.sensitivity()] = np.inf
            first = float(wait.min())
            if not np.isfinite(first):
                return none, delta
        return (wait <= first, first) if first <= delta else (none, delta)

    def _enter(self, entered, signs, returning):
        """Let these features in at this knot, those of the mask out, and find `k`."""
        factor, before = self._factor, self._support
        self._side[entered] = signs
        waiting = self._idle + entered.tolist()
        if self._remembers and len(before):
            old, more = self._W[before], self._duration * self.k
            W, sides = old + more, self._side[before]
            # Others that are back at zero to rounding come with it, lest they go on with the wrong sign.
            returning |= (self.k * sides < 0) & (W * sides <= self.data.rounding * np.abs(old))
            W[returning] = 0.0
            self._W[before] = W
            # Zero also where a step had no length.
            for j in before[W == 0].tolist():
                factor.remove(j)
                waiting.append(j)
            if len(factor.order) < len(before):
                self.k, self.r = factor.minimum(self.data.y)
        found = solve_cone(
            factor,
            self.data.y,
            z=self.k,
            r=self.r,
            waiting=waiting,
            side=self._side,
            W=self._W,
            rounding=self._rounding,
        )
        self.k, self.r, self._idle = found.z, found.r, found.idle
        self._side[found.dropped] = 0
        self._support = np.array(factor.order, dtype=int)
        gone = [j for j in found.dropped + found.idle if j in before]
        self._unique = not found.idle or self._independent(found.idle)
        self._event = PathEvent(entered, signs, *(np.array(sorted(x), dtype=int) for x in (gone, found.idle)))

    def _independent(self, idle):
        """True when no idle feature depends on the support and the other idle ones."""
        n_support = len(self._factor.order)
        independent = all(self._factor.append(j) for j in idle)
        del self._factor.order[n_support:]
        return independent

    def time_left(self) -> float:
        """How long the state of now lasts, over all features."""
        s, u = (self.data.rows @ np.column_stack([self.R, self.r])).T
        return self._returns(float(self._all_waits(s, u).min()))[1]

    def dual(self):
        """The part of `R` in the span of the support of the Lasso path: there, `x_i'R = side_i t_i`.

        The rest is `T r`. Solved for, since `R - T r` would cancel where `T` is large.
        """
        order = self._support
        side = self._side[order].astype(float)
        return self._factor.dual(side * np.where(side > 0, self.data.t_plus[order], self.data.t_minus[order]))

    def next_to_come(self, s, u):
        """The features that would come in next if nothing else did; `s = X'R` and `u = X'r` of all."""
        wait = self._all_waits(s, u)
        found = np.argsort(wait, kind="stable")[: self.data.n]
        return found[np.isfinite(wait[found])]

    def _all_waits(self, s, u):
        data, speed = self.data, np.abs(u)
        return _waits(s, u, speed, data.t_plus, data.t_minus, (speed > self._rounding) & (self._side == 0))[0]

    def knot(self) -> Knot:
        """The state, for `restore` and for the record."""
        order, idle = self._support, self._idle.copy()
        W, sides = self._W[order], self._side[[*order, *idle] if idle else order]
        times = self._T, self._duration
        return Knot(order, self.k, W, idle, sides, self.R, self.r, *times, self._event, self._unique)

    def restore(self, knot: Knot) -> None:
        """Go back to a knot; `restrict` must follow."""
        self._factor.rebuild(knot.order.tolist())
        self._support = knot.order
        self._W[:], self._side[:] = 0, 0
        self._W[knot.order], self._side[knot.boundary] = knot.W, knot.sides
        self._idle = knot.idle.copy()
        self.k, self.R, self.r = knot.k, knot.R, knot.r
        self._T, self._duration = knot.T, knot.duration
        self._event, self._unique = knot.event, knot.unique
        self._n_still, self._best = 0, np.inf


def _waits(s, u, speed, t_plus, t_minus, comes):
    """When each feature reaches the bound ahead, infinite where it does not, and that bound."""
    bound = np.where(u > 0, t_plus, t_minus)
    wait = np.full(len(s), np.inf)
    np.divide(np.maximum(bound - np.copysign(1.0, u) * s, 0.0), speed, out=wait, where=comes)
    return wait, bound
