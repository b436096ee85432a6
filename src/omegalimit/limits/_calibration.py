"""The constants of calibration: how much excess 0-1 risk an excess logistic risk can stand for. Derived here.

On the ray of weight vectors with a given angle the 0-1 risk is constant and the logistic risk convex in the size, so

    K = sup_w (R - R*)/(F - F*) = sup_a N(a)/E(a),   a = r cos theta in [-r, r),
    N(a) = (1-2p) (Phi(-a) - Phi(-r)),   E(a) = the least of F - F* on the ray.

- For a <= 0 the least is at w = 0, `E = log 2 - F*`, and N is largest at a = -r: K is at least
  `(1-2p)(1 - 2 Phi(-r))/(log 2 - F*)`, which small weights pointing exactly the wrong way approach.
- On `a1 <= a <= a2 < r` with a1 >= 0 both N and E fall: the ratio is at most `N(a1)/E(a2)`.
- Near a = r: `d/da d/drho F = E[g'(M) + M g''(M)]` at `M = rho (a + Z)`, and `|g' + m g''| <= p + 2 sigma(-m/2)`,
  whose mean falls in a: call it L at a1. A size `rho_1 < c* r` at which `d/drho F < -L (r - a1)` on the Bayes ray is
  therefore below the minimiser of every ray with `a1 <= a < r`; there `E(a) >= A rho_1 (r - a)`, and the ratio is at
  most `(1-2p) phi(a1) / (A rho_1)`. At a -> r it tends to `(1-2p) phi(r)/(A c* r)`, the local constant.

Together they bound K from above, by finitely many numbers, up to the rounding of these.
"""

import dataclasses
import itertools
import math

import numpy as np
from scipy.special import expit

from ._normal_integrals import (
    LogisticMinimum,
    integrate,
    logistic_minimum,
    logistic_remainder,
    logistic_slope_along,
    normal_mass,
)

_ROOT_TAU = math.sqrt(2 * math.pi)
_CLOSE = 1e-2  # how far above the value found the bound may stay
_MOST = 4000  # intervals


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """The constants K of `R - R* <= K (F - F*)`.

    - `local`: the limit of the ratio at w -> `c* Sigma^{-1} mu` along directions that turn away.
    - `supremum`: the largest ratio found over all w; approached at `angle` and `size` (0: the limit of small weights).
    - `upper`: no ratio is above it, by the three bounds at the head of this page; infinite if these did not close.
    - `n_intervals`: of the signal, into which it was divided for that.
    """

    local: float
    supremum: float
    angle: float
    size: float
    upper: float
    n_intervals: int


def calibrate(r: float, p: float, minimum: LogisticMinimum) -> Calibration:
    """Local and global constant for signal r and flips p."""
    A, scale = minimum.slope, 1 - 2 * p
    local = scale * math.exp(-r * r / 2) / _ROOT_TAU / (A * minimum.size)
    # Turned all the way round, at w = 0.
    still = float(logistic_remainder(r, np.array(1.0), np.array(0.0), minimum.size).value)
    behind = scale * float(normal_mass(r, np.array(2 * r))) / still

    found: dict[float, tuple[float, float, float]] = {}

    def ray(t: float) -> tuple[float, float, float]:
        """N, E and the minimising size at `a = r (1 - t)`, 0 < t <= 1."""
        if t not in found:
            size = logistic_minimum(r * (1 - t), p).size if t < 1 else 0.0
            rest = float(logistic_remainder(r, np.array(t), np.array(size), minimum.size).value)
            found[t] = scale * float(normal_mass(r, np.array(r * t))), A * size * r * t + rest, size
        return found[t]

    def ratio(log_t: float) -> float:
        N, E, _ = ray(math.exp(log_t))
        return N / E

    first, near = _near_the_optimum(r, p, minimum)
    grid = np.geomspace(first, 1.0, max(9, 4 * math.ceil(math.log2(1 / first)) + 1)).tolist()
    grid[-1] = 1.0
    best = max(grid, key=lambda t: ray(t)[0] / ray(t)[1])
    best = _climb(ratio, grid, best)
    inside = ray(best)[0] / ray(best)[1]
    supremum, angle, size = max(
        (behind, math.pi, 0.0), (local, 0.0, minimum.size), (inside, math.acos(1 - best), ray(best)[2])
    )
    upper, n_intervals = _bound(ray, grid, supremum)
    return Calibration(
        local=local,
        supremum=supremum,
        angle=angle,
        size=size,
        upper=max(behind, near, upper),
        n_intervals=n_intervals,
    )


def _near_the_optimum(r: float, p: float, minimum: LogisticMinimum) -> tuple[float, float]:
    """How far `1 - cos theta` may go for the third bound at the head of this page, and that bound."""
    share = 0.01  # of the size that is given up; more where the sign of the slope drowns in rounding
    while share < 1:
        rho = minimum.size * (1 - share)
        slope = logistic_slope_along(r, p, rho)
        fall = -float(slope.value[0] + slope.error[0])
        # The density at a1 is above that at r by no more than a share of its own.
        t = min(0.5, share / (r * r))
        while fall > 0 and fall <= _steepest(r, p, rho, t) * r * t:
            t /= 2
        if fall > 0:
            a = r * (1 - t)
            return t, (1 - 2 * p) * math.exp(-a * a / 2) / _ROOT_TAU / (minimum.slope * rho)
        share *= 2
    return 1e-6, math.inf


def _steepest(r: float, p: float, rho: float, t: float) -> float:
    """L at `a1 = r (1 - t)`."""
    found = integrate(lambda z, _: 2 * expit(-rho * (r * (1 - t) + z) / 2), np.array([rho]), signal=r)
    return p + float(found.value[0] + found.error[0])


def _climb(f, grid: list[float], best: float) -> float:
    """The top of f(log t) around the grid's best point, by golden section."""
    from scipy.optimize import minimize_scalar

    i = grid.index(best)
    low, high = math.log(grid[max(i - 1, 0)]), math.log(grid[min(i + 1, len(grid) - 1)])
    found = minimize_scalar(lambda x: -f(x), bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    top = math.exp(float(found.x))  # pyright: ignore[reportAttributeAccessIssue] - stubs
    return top if f(math.log(top)) > f(math.log(best)) else best


def _bound(ray, grid: list[float], supremum: float) -> tuple[float, int]:
    """The largest of `N(a1)/E(a2)` over intervals, halved until none is far above the supremum found."""
    target = supremum * (1 + _CLOSE)
    open_, worst, n = list(itertools.pairwise(grid)), 0.0, 0
    while open_:
        low, high = open_.pop()
        bound = ray(high)[0] / ray(low)[1]
        n += 1
        if n > _MOST:
            return math.inf, n
        if bound <= target:
            worst = max(worst, bound)
            continue
        middle = math.sqrt(low * high)
        if not low < middle < high:
            return math.inf, n
        open_ += [(low, middle), (middle, high)]
    return worst, n
