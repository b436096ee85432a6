"""One step of the interior point method for the least barrier; see `_barrier.py` for the equations."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, get_lapack_funcs, qr, solve_triangular

from ..limits._barrier_bounds import ScaledBarrier, room_of, slacks
from ..limits._barrier_terms import log1p_less
from ..limits._double_double import times, two_sum

_EPS = float(np.finfo(float).eps)
(_potrf,) = get_lapack_funcs(("potrf",), dtype=float)
# Pivots of the unit matrix below this cost digits that the triangle of a QR factorisation keeps.
_SMALL_PIVOT = 1e-8
# Of the way to the boundary.
_SHARE = 0.995
# The mean product that a step aims at, as a share of what the other equations lack and of the present one.
_SHARE_OF_LACK, _LEAST_TARGET = 0.1, 1e-6
_N_HALVINGS = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Iterate:
    """Where the method stands: the point as a pair, the multipliers, and what the equations are made of."""

    high: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    multipliers: Float[np.ndarray, " n"]
    u: Float[np.ndarray, " d"]
    room: Float[np.ndarray, " d"]
    slack: Float[np.ndarray, " n"]

    @classmethod
    def at(cls, scaled: ScaledBarrier, transposed, high, low, multipliers):
        return cls(
            high=high,
            low=low,
            multipliers=multipliers,
            u=times(transposed, multipliers)[0],
            room=room_of(high, low),
            slack=slacks(scaled, high, low),
        )

    @property
    def difference(self) -> float:
        """Primal less dual value, as `limits/barrier.py` writes it."""
        q = np.abs(self.u) * self.room - np.abs(self.high)
        opposite = np.where(self.u * self.high < 0, 2 * np.abs(self.u * self.high), 0.0)
        return float(log1p_less(np.maximum(q, -1 + _EPS)).sum() + opposite.sum() + self.multipliers @ self.slack)

    @property
    def size(self) -> float:
        """The barrier's value, in order of magnitude."""
        if self.room.max() < 0.5:
            return float(((self.room - 1) - np.log(self.room)).sum())
        return float((self.high**2).sum() / 2)


def step(scaled, transposed, at: Iterate) -> Iterate | None:
    """One predictor and corrector, or `None` where there is no further step."""
    weight, miss = linear(at)
    solve = _solver(scaled.Z, transposed, weight, at.slack / at.multipliers)
    if solve is None:
        return None
    products = at.multipliers * at.slack
    mu = float(products.mean())
    dv, dl = solve(miss, -at.slack)
    primal, dual = (min(1.0, share) for share in _longest(scaled, at, dv, dl))
    reached = float(((at.slack + primal * (scaled.Z @ dv)) * (at.multipliers + dual * dl)).mean())
    lack = max(at.difference - float(products.sum()), 0.0) / len(products)
    target = max(mu * min(max(reached / mu, _LEAST_TARGET), 1.0) ** 3, min(_SHARE_OF_LACK * lack, mu))
    second = np.where(at.u * at.high < 0, 0.0, -(transposed @ dl) * dv * np.sign(at.high) / (1 + np.abs(at.u)))
    wanted = (target - dl * (scaled.Z @ dv)) / at.multipliers - at.slack
    share = 1 - min(1 - _SHARE, at.difference / at.size)
    tried = []
    for miss_to, slack_to in ((miss + second, wanted), (miss, 0.3 * mu / at.multipliers - at.slack)):
        dv, dl = solve(miss_to, slack_to)
        if not (np.isfinite(dv).all() and np.isfinite(dl).all()):
            continue
        primal, dual = _longest(scaled, at, dv, dl)
        primal, dual = min(1.0, share * primal), min(1.0, share * dual)
        # Rounding of `dv` may be more than a slack that is all but zero.
        for _ in range(_N_HALVINGS):
            high, low = two_sum(at.high, at.low + primal * dv)
            new = Iterate.at(scaled, transposed, high, low, at.multipliers + dual * dl)
            if (new.slack > 0).all() and (new.room > 0).all() and (new.multipliers > 0).all():
                tried.append(new)
                break
            primal, dual = primal / 2, dual / 2
        if tried and min(primal, dual) > 0.1:
            break
    return min(tried, key=lambda new: new.difference, default=None)


def linear(at: Iterate):
    """`weight` and `miss` of `dv = weight du + miss`, which makes `u w = v` to first order.

    Where `u` and `v` differ in sign `1 + |u|` stands for `1 - |u|`: the step is then shorter than Newton's. (That of
    `v = B*'(u)` would be longer than any room there.)
    """
    size = 1 + np.abs(at.u)
    return at.room / size, (at.u * at.room - at.high - at.low) / size


def _longest(scaled, at, dv, dl):
    """The longest steps of the point and of the multipliers within their bounds, at most two."""
    ds = scaled.Z @ dv
    outward = np.sign(at.high) * dv
    # The coordinate may also cross zero and reach the other bound.
    to_bounds = np.where(outward > 0, at.room / np.abs(dv), (2 - at.room) / np.abs(dv))
    primal = min(np.min(-at.slack[ds < 0] / ds[ds < 0], initial=2.0), np.min(to_bounds[dv != 0], initial=2.0))
    dual = np.min(-at.multipliers[dl < 0] / dl[dl < 0], initial=2.0)
    return float(primal), float(dual)


def _solver(Z, transposed, weight, ratio):
    """A function from `miss`, `wanted` to `dv`, `dlambda` with `dv = weight Z'dlambda + miss`,
    `Z dv + ratio dlambda = wanted`; `None` where the system has lost all digits."""
    n, d = Z.shape
    if n <= d:
        rows, diagonal, root = transposed, weight, ratio
    else:
        rows, diagonal, root = Z, 1 / ratio, 1 / weight
    gram = (rows.T * diagonal) @ rows
    gram[np.diag_indices_from(gram)] += root
    solve = _factored(gram, rows, diagonal, root)
    if solve is None:
        return None
    if n <= d:

        def by_multipliers(miss, wanted):
            dl = solve(wanted - Z @ miss, lambda: (-miss / np.sqrt(weight), wanted / np.sqrt(ratio)))
            return weight * (transposed @ dl) + miss, dl

        return by_multipliers

    def by_points(miss, wanted):
        dv = solve(
            transposed @ (wanted / ratio) + miss / weight, lambda: (wanted / np.sqrt(ratio), miss / np.sqrt(weight))
        )
        return dv, (wanted - Z @ dv) / ratio

    return by_points


def _factored(gram, rows, diagonal, root):
    """A solver of `(rows' diag rows + root) x = r`, by Cholesky or else by QR of the square root."""
    scale = 1 / np.sqrt(gram.diagonal())
    if not np.isfinite(scale).all():
        return None
    factor, failed = _potrf(gram * scale * scale[:, None], lower=1, clean=1)
    if not failed and factor.diagonal().min() ** 2 > _SMALL_PIVOT:
        return lambda r, _: scale * cho_solve((factor, True), scale * r, check_finite=False)
    # Rows sorted by size and pivoted columns keep the digits of rows of very different size (Powell and Reid).
    stacked = np.vstack([np.sqrt(diagonal)[:, None] * rows, np.diag(np.sqrt(root))])
    order = np.argsort(-np.abs(stacked).max(axis=1), kind="stable")
    if not np.isfinite(stacked).all():
        return None
    factored: Any = qr(stacked[order], mode="economic", pivoting=True, check_finite=False)
    Q, R, columns = factored
    if not np.abs(R.diagonal()).min() > 0:
        return None

    def by_triangle(_, parts):
        x = np.empty(len(columns))
        x[columns] = solve_triangular(R, Q.T @ np.concatenate(parts())[order], check_finite=False)
        return x

    return by_triangle
