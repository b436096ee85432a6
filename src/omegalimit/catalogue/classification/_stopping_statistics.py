"""Statistics over the samples of `early_stopping`: means of logs, and slopes in n, with 95% intervals.

An excess below rounding counts as zero, and has no log: it is left out of means and slopes.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ._stopping_draws import Run, logs, n_zero

Runs = Mapping[int, Sequence[Run]]


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean or a slope, and half the length of its 95% interval; infinite where there is none."""

    value: float
    half: float


def combination(*parts: tuple[float, np.ndarray]) -> Interval:
    """`sum_k c_k mean(x_k)` of independent samples x_k, by Welch and Satterthwaite."""
    if any(x.size == 0 for _, x in parts):
        return Interval(math.nan, math.inf)
    value = math.fsum(c * float(np.mean(x)) for c, x in parts)
    if any(x.size < 2 for _, x in parts) or not math.isfinite(value):
        return Interval(value, math.inf)
    shares = [c * c * float(np.var(x, ddof=1)) / x.size for c, x in parts]
    total = math.fsum(shares)
    if total == 0:
        return Interval(value, 0.0)
    degrees = total**2 / math.fsum(v * v / (x.size - 1) for v, (_, x) in zip(shares, parts, strict=True))
    return Interval(value, student(degrees) * math.sqrt(total))


def compared(some: Sequence[Run], first: Callable[[Run], float], second: Callable[[Run], float]) -> Interval:
    """Mean of `first` less that of `second`, both numbers of a run: paired where every run has both, else by Welch."""
    x, y = (np.array([float(of(run)) for run in some]) for of in (first, second))
    if not np.isnan(x - y).any():
        return combination((1.0, x - y))
    return combination((1.0, x[~np.isnan(x)]), (-1.0, y[~np.isnan(y)]))


def slope(runs: Runs, of: Callable[[Run], float]) -> Interval:
    """Least-squares slope of `log of(run)` on log n over all samples for which there is a number."""
    pairs = [(math.log(n), log) for n, some in runs.items() for log in logs([of(run) for run in some])]
    x, y = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    if y.size < 3 or not np.isfinite(y).all() or np.ptp(x) == 0:
        return Interval(math.nan, math.inf)
    centred = x - x.mean()
    found = float(centred @ y / (centred @ centred))
    left = y - y.mean() - found * centred
    error = math.sqrt(float(left @ left) / (y.size - 2) / float(centred @ centred))
    return Interval(found, student(y.size - 2) * error)


def student(degrees: float) -> float:
    """The 97.5% point of Student's t."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(degrees, 0.975))


def geometric(runs: Runs, of: Callable[[Run], float]) -> list[float | None]:
    """Geometric mean at each n; `None` where there is no number."""
    found = [logs([of(run) for run in some]) for some in runs.values()]
    return [math.exp(float(np.mean(x))) if x.size and np.isfinite(x).all() else None for x in found]


def zeros(runs: Runs, of: Callable[[Run], float]) -> list[int]:
    """How many excesses at each n are below rounding."""
    return [n_zero([of(run) for run in some]) for some in runs.values()]


def below(found: Interval, bound: float) -> bool | None:
    """Whether the number is below the bound: `None` where the interval straddles it, or there is none."""
    if found.value + found.half < bound:
        return True
    return False if found.value - found.half > bound else None
