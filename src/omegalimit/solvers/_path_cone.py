"""Least squares over a cone: some coefficients free, some with a sign, by an active set that starts warm.

    min 1/2 |y - X z|^2   over   side_i z_i >= 0 on the features of the cone that are not free,

with the outward gradient `side_i x_i'r`, `r = y - X z`.
"""

from typing import NamedTuple

import numpy as np

from ._path_factor import Factor

_EPS = float(np.finfo(float).eps)


class ConeSolution(NamedTuple):
    """`z` over `factor.order`, and `r`. Of the features at zero: `idle` have no gradient either (they depend on the
    others, or stay on the boundary by chance); `dropped` have one that leads inside."""

    z: np.ndarray
    r: np.ndarray
    idle: list[int]
    dropped: list[int]


def solve_cone(factor: Factor, y, *, z, r, waiting: list[int], side, W, rounding) -> ConeSolution:
    """The minimiser over the cone of `factor.order` and `waiting`; the factor holds its support at the end.

    - `z`, `r`: the minimum over `factor.order`, all signs right. `waiting`: features at zero, with a sign.
    - `side`: +-1; `W`: where it is not zero a feature is free; `rounding`: of the gradient; shape `(d,)` all three.
    """
    waiting, rejected = list(waiting), set()
    # Exact arithmetic never repeats a support; this ends a loop that rounding keeps alive.
    budget = 10 * (len(waiting) + len(factor.order) + 2)
    while waiting:
        at = np.array(waiting)
        out = factor.products(at, r) * side[at]
        j = _most_outward(waiting, out, rounding[at], rejected) if budget > 0 else None
        if j is None:
            idle = [i for i, g, e in zip(waiting, out, rounding[at], strict=True) if g >= -e]
            dropped = [i for i, g, e in zip(waiting, out, rounding[at], strict=True) if g < -e]
            return ConeSolution(z, r, idle, dropped)
        if not factor.append(j):
            rejected.add(j)
            continue
        waiting.remove(j)
        old = np.append(z, 0.0)
        z, r = factor.minimum(y)
        budget -= 1
        while True:
            # Towards the minimum over the support, until a sign stops it.
            order = np.array(factor.order)
            wrong = np.flatnonzero((z * side[order] <= 0) & (W[order] == 0))
            if not len(wrong):
                break
            # What just came in starts at zero: its share is zero.
            shares = old[wrong] / np.where(old[wrong] == 0, 1.0, old[wrong] - z[wrong])
            share = shares.min()
            old = old + share * (z - old)
            stopped = wrong[shares <= share * (1 + 8 * _EPS)]
            if share == 0:
                rejected.add(j)  # its gradient was rounding
            for i in order[stopped].tolist():
                factor.remove(i)
                waiting.append(i)
            old = np.delete(old, stopped)
            z, r = factor.minimum(y)
            budget -= 1
    return ConeSolution(z, r, [], [])


def _most_outward(waiting, out, rounding, rejected):
    """The feature whose gradient leads out most, beyond rounding, or `None`; of equal ones (copies) the first."""
    usable = out > rounding
    if rejected:
        usable &= [i not in rejected for i in waiting]
    if not usable.any():
        return None
    most = out[usable].max()
    return min(i for i, g, e, ok in zip(waiting, out, rounding, usable, strict=True) if ok and g >= most - e)
