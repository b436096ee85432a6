"""Which shift and which stopping time: negative-shifted descent on data, chosen on rows that it has not seen.

On centred rows, `S = X'X/n = V diag(m) V'` and `c = V' b` of the least-norm least-squares fit, every candidate is
`b(nu, t) = V (f(m; nu, t) * c)`, with `f` the filter of the flow `b' = -(S - nu I) b + X'y/n` stopped at `t` (the page
`limits/spectral_filters.py`; `t = inf` is the flow's endpoint, and `nu = 0, t = inf` the ridgeless fit). Its error on
the rows held out is the mean of `(y - ybar - (x - xbar)'V (f * c))^2`: one singular value decomposition and one matrix
product for a whole grid, where a loop would fit each pair again.

**Null directions.** Where `X` does not reach, `f` has nothing to act on: singular values at the level of rounding,
`max(n, d) eps` times the largest (or times what the columns' means take away), are not amplified but left out, and
`unresolved` lists what they came to. More columns than rows leave no data at all in the others: those are not listed.

**Folds.** The floor `tr(Sigma_T)/n` that the shift cancels falls like 1/n, and so does the best penalty of ridge. A
shift `nu` for all n rows is therefore `nu n/n_k` on a fold that trains on `n_k` of them (in weight); times stay.
Derived here.

**What the choice promises.** One part held out, `h` rows, `M` candidates, Gaussian residuals: h times the mean square
over its expectation is chi-square up to a shift of the mean, and Laurent and Massart's lower tail for all M at once
gives, with probability at least 1 - alpha, `x = log(M/alpha)`,

    mean square error on new rows  <=  error on the rows held out / (1 - 2 sqrt(x/h)),

for `h > 4x`. Residuals whose mean is not zero keep it: with `delta = (mean/sd)^2` the noncentral tail (Birge) is
`h (1 + delta) - 2 sqrt(h (1 + 2 delta) x)`, and `1 + 2 delta <= (1 + delta)^2`. Derived here; `hold_out_factor`
compares with the best candidate. Folds that take turns have no such bound.

**Weights.** `S = X'CX / sum c`, means and errors weighted; a row of weight k is as k rows, but not in the bounds, where
rows must be independent and so each counts once. With `a = c / sum c` the tails are `2 |a|_2 sqrt(x)` below and
`2 |a|_2 sqrt(x) + 2 |a|_inf x` above (Laurent and Massart's lemma is for weighted sums), and `|a|_2^2 <= |a|_inf`: the
bounds stand with `h = 1 / |a|_inf`, the weight of the rows held out over the largest among them.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import to_float64
from .._threads import one_blas_thread
from ..limits.excess_risk import hold_out_factor
from ._shift_parts import Part, ScaledRows, ShiftedFit, moved

ENDPOINTS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Shifts of the default grid that have an endpoint whatever the spectrum, in units of its smallest eigenvalue."""

_TIMES = 60  # of the default grid, besides infinity


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ShiftChoice:
    """A shift and a stopping time with the least error on rows held out, and how all others did.

    - `fit`: the chosen estimator: on the training rows when one part was held out, on all rows when `refitted`.
    - `nus`, `ts`: the grid, shapes (a,) and (b,); `errors`: mean square error of each pair on the rows held out,
      (a, b); infinite where an estimator is, on some training rows or on those of the final fit (an endpoint with a
      shift above the smallest eigenvalue).
    - `ridgeless_error`: that of the least-norm fit on the same rows.
    - `n_held_out`: rows on which the errors were taken; `n_effective`: their weight over the largest among them,
      rounded down, which is how many the bounds count; `n_folds`: how many parts took turns; `refitted`: whether the
      fit is on all rows, those held out among them: then no bound holds for it.
    - `alpha`: the bounds fail with at most this probability.
    """

    fit: ShiftedFit
    nus: Float[np.ndarray, " a"]
    ts: Float[np.ndarray, " b"]
    errors: Float[np.ndarray, "a b"]
    index: tuple[int, int]
    ridgeless_error: float
    n_held_out: int
    n_effective: int
    n_folds: int
    refitted: bool
    alpha: float

    @property
    def nu(self) -> float:
        """The chosen shift."""
        return self.fit.nu

    @property
    def t(self) -> float:
        """The chosen stopping time."""
        return self.fit.t

    @property
    def error(self) -> float:
        """Mean square error of the chosen pair on the rows held out."""
        return float(self.errors[self.index])

    @property
    def error_bound(self) -> float | None:
        """Upper bound on the mean square error on new rows; `inf` for too few rows held out, `None` when refitted."""
        if self.refitted:
            return None
        root = 2 * math.sqrt(math.log(self.errors.size / self.alpha) / self.n_effective)
        return self.error / (1 - root) if root < 1 else math.inf

    @property
    def oracle_factor(self) -> float | None:
        """At most so many times the best candidate's mean square error; `inf` for too few rows, `None` if refitted."""
        return None if self.refitted else hold_out_factor(self.errors.size, self.n_effective, self.alpha)


def choose_shift(
    X: ArrayLike,
    y: ArrayLike,
    *,
    nu: ArrayLike | None = None,
    t: ArrayLike | None = None,
    splits: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
    refit: bool | None = None,
    hold_out: float = 0.25,
    seed: int = 0,
    intercept: bool = True,
    alpha: float = 0.05,
    weights: ArrayLike | None = None,
) -> ShiftChoice:
    """The pair of a grid of shifts and stopping times with the least error on rows held out.

    - `X`, `y`: rows (n, d) and numbers (n,), n >= 2.
    - `nu`, `t`: shifts >= 0 and times >= 0 (may be infinite), one number or a list; all pairs are candidates. `None`:
      a grid in units of the spectrum, with 0 among the shifts and infinity among the times: `default_grid`.
    - `splits`: pairs of index arrays, rows to train on and rows to judge by. `None`: one part, the share `hold_out` of
      the rows drawn from `numpy.random.default_rng(seed)`. With several, the errors are averaged over the rows judged
      by.
    - `refit`: whether the chosen pair is fitted again on all rows, which leaves no bound for its error. `None`: when
      there are several splits.
    - `intercept`: take the means of the training rows away first.
    - `weights`: positive, (n,), how much each row counts; `None`: all alike.

    Nothing depends on units: `X` times a number divides `t` by its square and multiplies `nu` by it. Errors that are
    equal to rounding go to the smaller shift, then to the later time: to the ridgeless side. The decompositions run on
    one thread, so that the choice does not depend on how many there are.

    Raises `ValueError` for shapes that do not fit, entries that are not finite, weights that are not positive, values
    whose squares, or coefficients that, leave the range of doubles, empty parts, and shifts, times, `hold_out` or
    `alpha` out of range.
    """
    data = ScaledRows(X, y, intercept=intercept, weights=weights)
    if not 0 < _number(alpha, "alpha") < 1:
        raise ValueError(f"`alpha` must lie between 0 and 1, both excluded; got {alpha!r}.")
    parts = (
        [_rows(train, judge, data.n) for train, judge in splits]
        if splits is not None
        else [_one_part(data.n, hold_out, seed)]
    )
    if not parts:
        raise ValueError("`splits` is empty; give at least one pair of training rows and rows to judge by.")
    data.check_squares()
    if refit is None:
        refit = len(parts) > 1
    elif not isinstance(refit, (bool, np.bool_)):
        raise TypeError(f"`refit` must be True, False or None; got {refit!r}.")
    elif not refit and len(parts) > 1:
        raise ValueError(f"with {len(parts)} splits there is no one part to keep the fit of: take `refit=True`.")
    with one_blas_thread():
        final = data.part(np.arange(data.n) if refit else parts[0][0])
        nus, ts = _grid(nu, t, final, data)
        total, ridgeless, n_judged, weight, heaviest = np.zeros((nus.size, ts.size)), 0.0, 0, 0.0, 0.0
        for train, judge in parts:
            part = data.part(train) if refit else final
            # `nu n / n_k`, see the head of this page; without a fit on all rows, the shift is that of the part's own.
            errors, least_norm = part.errors(judge, nus * (final.weight / part.weight), ts)
            with np.errstate(over="ignore"):
                total += errors * data.weight(judge)
            ridgeless += least_norm * data.weight(judge)
            n_judged += judge.size
            weight += data.weight(judge)
            heaviest = max(heaviest, float(data.c[judge].max()))
        errors = total / weight
        while np.isfinite(errors).any():
            index = _least(errors, data.rounding)
            fit = final.fit(float(nus[index[0]]), float(ts[index[1]]))
            if np.isfinite(fit.coef).all():
                break
            errors[index] = math.inf  # all rows may have a smaller eigenvalue than every fold: no endpoint for them
        else:
            raise ValueError(
                "with every pair of `nu` and `t` the coefficients leave the range of doubles, or the flow has no "
                "endpoint; take smaller shifts or times."
            )
    return ShiftChoice(
        fit=_in_range(fit, data),
        nus=data.shift_in_units(nus),
        ts=data.time_in_units(ts),
        errors=data.square_in_units(errors),
        index=index,
        ridgeless_error=float(data.square_in_units(np.array(ridgeless / weight))),
        n_held_out=n_judged,
        n_effective=math.floor(weight / heaviest),
        n_folds=len(parts),
        refitted=bool(refit),
        alpha=float(alpha),
    )


def fit_shift(
    X: ArrayLike, y: ArrayLike, *, nu: float, t: float, intercept: bool = True, weights: ArrayLike | None = None
) -> ShiftedFit:
    """The estimator with this shift and this time on all rows. Raises `ValueError` as `choose_shift` does.

    Also for an endpoint that does not exist: `t` infinite with `nu` at or above the smallest resolved eigenvalue.
    """
    data = ScaledRows(X, y, intercept=intercept, weights=weights)
    with one_blas_thread():
        part = data.part(np.arange(data.n))
        nus, ts = _grid(nu, t, part, data)
        if nus.size != 1 or ts.size != 1:
            raise ValueError(f"`nu` and `t` must be one number each; got {nus.size} and {ts.size} of them.")
        fit = part.fit(float(nus[0]), float(ts[0]))
    if not np.isfinite(fit.coef).all():
        fit = data.in_units(fit)
        least = float(fit.eigenvalues[-1]) if fit.eigenvalues.size else math.inf
        if math.isinf(fit.t) and fit.nu >= least:
            raise ValueError(
                f"`nu` = {fit.nu:.6g} is not below the smallest nonzero eigenvalue {least:.6g}: the flow has no "
                "endpoint with this shift; take a finite `t`, or a smaller `nu`."
            )
        raise ValueError(
            f"with `nu` = {fit.nu:.6g} and `t` = {fit.t:.6g} the coefficients leave the range of doubles; take a "
            "smaller `t` or `nu`."
        )
    return _in_range(fit, data)


def _in_range(fit: ShiftedFit, data: ScaledRows) -> ShiftedFit:
    """The fit in units, refused where coefficients of a size that matters are no doubles there."""
    there = data.in_units(fit)
    largest = float(np.abs(there.coef).max())
    known = np.isfinite(there.coef).all() and np.isfinite(there.ridgeless).all() and math.isfinite(there.intercept)
    if not known or (np.any(fit.coef) and largest < np.finfo(float).tiny):
        raise ValueError(
            "the coefficients, in units of `y` over those of `X`, leave the range of doubles; divide `X` and `y` by "
            "their largest entries."
        )
    if not np.isfinite(there.eigenvalues).all() or (there.eigenvalues == 0).any():
        raise ValueError(
            "squares of `X` leave the range of doubles, and eigenvalues with them; divide `X` by its largest entry."
        )
    return there


def default_grid(eigenvalues: Float[np.ndarray, " r"]) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, " b"]]:
    """Shifts and times in units of the positive eigenvalues, in any order; `([0], [inf])` when there are none.

    Shifts: 0 and `ENDPOINTS` times the smallest eigenvalue, which have an endpoint; on to twice the median in steps of
    an eighth of it (under a flat tail the median is near the floor), then in eight equal ratios to the largest
    eigenvalue. Times: in equal ratios from a twentieth of the largest eigenvalue's time 1/m to a
    hundred times the median's, and infinity.
    """
    if not eigenvalues.size:
        return np.zeros(1), np.array([math.inf])
    middle, top = float(np.median(eigenvalues)), float(eigenvalues.max())
    shifts = np.linspace(0, 2 * middle, 17)
    shifts = np.unique(np.concatenate([shifts, np.array(ENDPOINTS) * float(eigenvalues.min())]))
    if top > 2 * middle:
        shifts = np.concatenate([shifts, np.geomspace(2 * middle, top, 9)[1:]])
    return shifts, np.append(np.geomspace(0.05 / top, 100 / middle, _TIMES), math.inf)


def _grid(nu: ArrayLike | None, t: ArrayLike | None, part: Part, data: ScaledRows):
    """Shifts and times at scale one, flat."""
    shifts, times = default_grid(part.m)
    if nu is not None:
        shifts = moved(_numbers(nu, "nu", infinite=False), -2 * data.x_power, "shift")
    if t is not None:
        times = moved(_numbers(t, "t", infinite=True), 2 * data.x_power, "time")
    return shifts, times


def _numbers(value: ArrayLike, name: str, *, infinite: bool) -> Float[np.ndarray, " k"]:
    array = np.atleast_1d(to_float64(value, name)[0])
    if array.ndim != 1 or not array.size:
        raise ValueError(f"`{name}` must be a number or a list of numbers; got shape {np.shape(value)}.")
    bad = ~(array >= 0) | (np.isinf(array) & (not infinite))
    if bad.any():
        raise ValueError(f"`{name}` must be {'' if infinite else 'finite and '}not negative; got {array[bad][0]:g}.")
    return array


def _number(value: object, name: str) -> float:
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {array.shape}.")
    return float(array)


def _one_part(n: int, hold_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if not 0 < _number(hold_out, "hold_out") < 1:
        raise ValueError(f"`hold_out` is a share of the rows, between 0 and 1, both excluded; got {hold_out!r}.")
    order = np.random.default_rng(seed).permutation(n)
    n_judge = min(max(round(hold_out * n), 1), n - 1)
    return np.sort(order[n_judge:]), np.sort(order[:n_judge])


def _rows(train: ArrayLike, judge: ArrayLike, n: int) -> tuple[np.ndarray, np.ndarray]:
    train, judge = np.asarray(train), np.asarray(judge)
    if not train.size or not judge.size:
        raise ValueError(f"a split has {train.size} training rows and {judge.size} rows to judge by; both need some.")
    train, judge = np.arange(n)[train], np.arange(n)[judge]
    if (both := np.intersect1d(train, judge)).size:
        raise ValueError(f"row {both[0]} is both trained on and judged by: its error says nothing about new rows.")
    return train, judge


def _least(errors: Float[np.ndarray, "a b"], rounding: float) -> tuple[int, int]:
    """The least error; among those equal to rounding the smallest shift, and there the latest time."""
    least = float(errors.min())
    i, j = np.nonzero(errors <= least * (1 + 1e-12) + rounding)
    first = i == i.min()
    return int(i.min()), int(j[first].max())
