"""One claim over many cells: shares with their intervals, quartiles with theirs."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

from ..claims import Kind, Outcome


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClaimSummary:
    """One claim over all cells of a folder.

    - `n_holds`, `n_fails`, `n_inconclusive`: cells by outcome; `n_no_verdict`: cells of the same system that failed
      or have no verdict on this claim.
    - `interval`: 95% Clopper-Pearson, for the share that holds among those that are decided.
    - `envelope`: the share if every cell without a decision failed, and if every one held.
    - `measured`, `ratio`: quartiles (25, 50, 75%) of *measured* and of *measured / bound* where finite.
    - `median_interval`: for the median of *measured*, from order statistics, at least 95%.
    """

    system: str
    claim: str
    parametrisation: str
    loss: str
    kind: Kind
    unit: str
    n_holds: int
    n_fails: int
    n_inconclusive: int
    n_no_verdict: int
    measured: tuple[float, float, float]
    ratio: tuple[float, float, float]
    median_interval: tuple[float, float]

    @property
    def n(self) -> int:
        return self.n_holds + self.n_fails + self.n_inconclusive + self.n_no_verdict

    @property
    def n_decided(self) -> int:
        return self.n_holds + self.n_fails

    @property
    def share_holds(self) -> float:
        """The share that holds among the decided; NaN when none is."""
        return self.n_holds / self.n_decided if self.n_decided else math.nan

    @functools.cached_property
    def interval(self) -> tuple[float, float]:
        return clopper_pearson(self.n_holds, self.n_decided)

    @property
    def envelope(self) -> tuple[float, float]:
        return self.n_holds / self.n, (self.n - self.n_fails) / self.n


def clopper_pearson(n_yes: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """The exact interval for a share of which `n_yes` of `n` were seen; (0, 1) when nothing was.

    Source: Clopper and Pearson, Biometrika 26 (1934).

    >>> [round(end, 4) for end in clopper_pearson(10, 10)]
    [0.6915, 1.0]
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if n_yes == 0 else float(betaincinv(n_yes, n - n_yes + 1, tail))
    high = 1.0 if n_yes == n else float(betaincinv(n_yes + 1, n - n_yes, 1 - tail))
    return low, high


def summary_of(system: str, claim: str, where: str, loss: str, rows: Sequence[Sequence[Any]], n: int) -> ClaimSummary:
    import numpy as np

    outcomes = [row[4] for row in rows]
    measured, bound = (np.array([row[k] for row in rows], dtype=np.float64) for k in (5, 6))  # `None` becomes NaN
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = measured / bound
    return ClaimSummary(
        system=system,
        claim=claim,
        parametrisation=where,
        loss=loss,
        kind=Kind(rows[0][3]),
        unit=rows[0][8],
        n_holds=outcomes.count(Outcome.HOLDS.value),
        n_fails=outcomes.count(Outcome.FAILS.value),
        n_inconclusive=outcomes.count(Outcome.INCONCLUSIVE.value),
        n_no_verdict=max(0, n - len(rows)),
        measured=_quartiles(measured),
        ratio=_quartiles(ratio),
        median_interval=_median_interval(measured[np.isfinite(measured)]),
    )


def _quartiles(values: Any) -> tuple[float, float, float]:
    import numpy as np

    finite = values[np.isfinite(values)]
    if not finite.size:
        return math.nan, math.nan, math.nan
    low, middle, high = np.quantile(finite, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


def _median_interval(values: Any) -> tuple[float, float]:
    """The order statistics between which the median lies with probability 95% at least; infinite when too few.

    The number of values below the median is binomial (n, 1/2), whatever the distribution.
    """
    import numpy as np

    n, ordered = len(values), np.sort(values)
    below = math.ldexp(1.0, -n) if n < 1000 else 0.0
    if n >= 1000:  # the binomial's normal limit, a rank farther out
        k = math.floor(n / 2 - 1.96 * math.sqrt(n) / 2) - 1
    else:
        k, term = 0, below
        while below <= 0.025 and k < n:  # `below` = P(fewer than k + 1 of them lie under the median)
            k += 1
            term *= (n - k + 1) / k
            below += term
    if k < 1:
        return -math.inf, math.inf
    return float(ordered[k - 1]), float(ordered[n - k])
