"""The best of all linear classifiers that fit a sample: non-negative least squares, with both bounds recomputed.

    max w'mu   subject to  |w|_Sigma <= 1,  Z w >= 0
    = min |v|  over alpha >= 0,   v = Sigma^{-1/2} (mu + Z'alpha),   attained at w = Sigma^{-1/2} v/|v|.

In coordinates where Sigma is the identity: any alpha >= 0 gives the upper bound `w'mu <= w'(mu + Z'alpha) <= |v|`, any
w with `Z w >= 0` the lower bound `w'mu/|w|`. (Duality: derived here. The problem is a projection onto the cone of the
constraints, so that the optimum is one point wherever the value is positive.)
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import nnls

from .._threads import one_blas_thread

_EPS = float(np.finfo(float).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BestInterpolator:
    """Bounds `lower <= a* <= upper` on the best signal `w'mu/|w|_Sigma` of all w with `Z w >= 0`, and who attains them.

    Its 0-1 risk is a function of the signal. `lower` is zero where no w that fits the sample was found to have a
    positive signal: the sample is not separable then, or all that separate it point the wrong way, or the best signal
    is lost in rounding, `upper <= 4 slack`; `upper` has its size in any case.

    - `w`: with `|w|_Sigma = 1`, the signal `lower`; `None` where `lower` is zero.
    - `multipliers`: alpha, shape (n,), non-negative, which prove `upper`.
    - `least_margin`: `min_i z_i'w / |z_i|` in the whitened coordinates, at most 1; below zero by rounding, or by what
      the solver left, and then `lower` is that of a point which is infeasible by so much.
    - `slack`: rounding error of either bound, absolute, first-order estimate.
    """

    w: Float[np.ndarray, " d"] | None
    multipliers: Float[np.ndarray, " n"]
    lower: float
    upper: float
    least_margin: float
    slack: float

    @property
    def gap(self) -> float:
        """`upper - lower`, in deviations."""
        return self.upper - self.lower

    @functools.cached_property
    def support(self) -> Bool[np.ndarray, " n"]:
        """Rows of positive multiplier: those that hold the solution back."""
        return self.multipliers > 0


def best_interpolator(
    Z: Float[np.ndarray, "n d"], mean: Float[np.ndarray, " d"], deviations: Float[np.ndarray, " d"]
) -> BestInterpolator:
    """From whitened rows and mean (divided by the `deviations`)."""
    size = np.abs(Z).max(axis=1)
    used = size > 0  # a row of zeros holds nothing back
    length = np.zeros(len(Z))
    length[used] = size[used] * np.linalg.norm(Z[used] / size[used, None], axis=1)
    units = Z[used] / length[used, None]  # of length one: no row's size plays a part
    r = float(np.linalg.norm(mean))
    u = mean / r
    with one_blas_thread():
        alpha = _non_negative(units, u)
        v = u + alpha @ units
        slack = _EPS * len(u) ** 0.5 * (1 + float(alpha.sum()))
        upper = float(np.linalg.norm(v))
        point = _feasible(units, alpha, v)
        signal, margins = float(point @ u), units @ point
    multipliers = np.zeros(len(Z))
    with np.errstate(over="ignore"):
        multipliers[used] = alpha * r / length[used]
    if upper <= 4 * slack or signal <= 0:
        return BestInterpolator(
            w=None, multipliers=multipliers, lower=0.0, upper=upper * r, least_margin=0.0, slack=slack * r
        )
    return BestInterpolator(
        w=point / deviations,
        multipliers=multipliers,
        lower=signal * r,
        upper=upper * r,
        least_margin=float(margins.min(initial=1.0)),
        slack=slack * r,
    )


def _feasible(units: np.ndarray, alpha: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v/|v|, moved by rounding's size so that the rows which hold it back have margins above zero."""
    size = float(np.linalg.norm(v))
    if size == 0:
        return v
    point, held = v / size, alpha > 0
    if held.any():
        rows = units[held]
        wanted = 4 * _EPS * np.sqrt(len(v)) - np.minimum(rows @ point, 0.0)
        try:
            moved = point + rows.T @ cho_solve(cho_factor(rows @ rows.T), wanted)
        except LinAlgError:
            return point
        moved /= np.linalg.norm(moved)
        if (units @ moved).min() > (units @ point).min():
            return moved
    return point


def _non_negative(units: np.ndarray, u: np.ndarray) -> np.ndarray:
    """`argmin |u + units'alpha|` over alpha >= 0, by exchanging blocks of indices (Kim and Park 2011).

    Where the rows in use are dependent, or the exchange does not end, by SciPy's active set; whatever comes out is
    judged by the bounds.
    """
    n = len(units)
    gram, q = units @ units.T, units @ u
    active, alpha = np.zeros(n, dtype=bool), np.zeros(n)
    fewest, patience = n + 1, 3
    rounding = 8 * _EPS * np.sqrt(units.shape[1])
    for _ in range(5 * n + 50):
        alpha, margins = np.zeros(n), q.copy()
        if active.any():
            try:
                factor = cho_factor(gram[np.ix_(active, active)])
            except LinAlgError:
                break
            alpha[active] = -cho_solve(factor, q[active])
            alpha[active] -= cho_solve(factor, (gram[active] @ alpha + q[active])[:])
            margins += gram @ alpha
        worth = rounding * (1 + np.abs(alpha).sum())
        wrong = (active & (alpha < 0)) | (~active & (margins < -worth))
        n_wrong = int(wrong.sum())
        if not n_wrong:
            return alpha
        if n_wrong < fewest:
            fewest, patience = n_wrong, 3
        elif patience:
            patience -= 1
        else:  # one at a time, the last one first: this cannot cycle
            last = int(np.flatnonzero(wrong)[-1])
            wrong = np.arange(n) == last
        active ^= wrong
    try:
        return nnls(units.T, -u)[0]
    except RuntimeError:  # it ran out of iterations
        return np.maximum(alpha, 0.0)
