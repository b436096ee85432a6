"""Spectral filters: what ridge, its negative end, and negative-shifted descent do to each eigenvalue.

With `S = X'X/n` and `g = X'y/n`, every estimator here is a function of `S` applied to `g`. On an eigenvector of `S`
with eigenvalue `m > 0` the ridgeless (least-norm) interpolant has the coefficient `g_i / m`, and a *filter* `f(m)` is
what an estimator makes of it: coefficient `f(m) g_i / m`. `f < 1` shrinks, `f > 1` amplifies ("above ridgeless").

| estimator | filter |
| --- | --- |
| flow `b' = -(S - nu I) b + g`, `b(0) = 0`, stopped at t | `m / (m - nu) (1 - exp(-t (m - nu)))`; `nu t` at m = nu |
| descent `b <- b - eta ((S - nu I) b - g)`, k steps | `m / (m - nu) (1 - (1 - eta (m - nu))^k)`; `nu eta k` at m = nu |
| ridge, penalty lam > 0 | `m / (m + lam)` |
| negative ridge (the flow's endpoint), 0 <= nu < m_min+ | `m / (m - nu)` |
| uniform rescaling of the ridgeless interpolant | a constant |

The flow, its filter and the endpoint with its range are stated by the authors of negative-shifted descent (arXiv
2607.22474). Derived here: the discrete filter, where the filters cross 1, and the forms that do not lose digits.

**Crossings.** `f(m) = 1` where `m exp(-t m) = nu exp(-t nu)`, `m != nu`. With `p = m/nu - 1` this reads
`log(1 + p) / p = nu t`, whose left side falls from infinity to 0 on (-1, inf): exactly one crossing,
`m_c = -W_b(-nu t exp(-nu t)) / t` with Lambert's branch b = -1 for `nu t < 1` and 0 beyond, and no loss of digits
at `nu t = 1`, where `m_c = nu`. For descent the same division gives `log(1 + p)/p = (k/p) log(1/(1 - eta nu p))`, left
falling and right rising on the eigenvalues below `nu + 1/eta`: exactly one crossing there. Beyond, `1 - eta (m - nu)`
is negative: an odd k has no further crossing, an even k exactly one, below `nu + 2/eta`. So the
*step condition* `eta (m_max - nu) <= 1` leaves one crossing on the spectrum, and without it there can be two.

All functions take `m` of shape (n,) and `nu`, `t`, ... that broadcast to a shape P, and return P + (n,). They work in
blocks of bounded memory; `flow_blocks` hands the blocks out one by one, for a reduction that never holds all of them.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_finite, check_ndim, shape_text, to_float64

_BLOCK = 2**18  # entries of a block: five temporaries of 2 MB stay in the cache
_OVERFLOW = 700.0  # exp of more than 709 is infinite; from here on the product is taken in logs


def _spectrum(m: ArrayLike) -> Float[np.ndarray, " n"]:
    m = to_float64(m, "m")[0]
    check_ndim(m, "m", axes="n")
    check_finite(m, "m")
    if m.size and m.min() < 0:
        i = int(np.argmin(m))
        raise ValueError(
            f"`m[{i}]` is {m[i]:g}; eigenvalues of X'X/n are not negative: "
            "clip those that are so by rounding, or take them from singular values."
        )
    return m


def _parameter(value: ArrayLike, name: str, *, infinite: bool = False) -> Float[np.ndarray, "..."]:
    """`value` as float64, not negative and not NaN; infinite only where that has a meaning."""
    array = to_float64(value, name)[0]
    if not infinite:
        check_finite(array, name)
    if not np.all(array >= 0):
        bad = float(array.reshape(-1)[np.flatnonzero(~(array >= 0).reshape(-1))[0]])
        raise ValueError(f"`{name}` must not be negative; got {bad:g}.")
    return array


def _pairs(first: tuple[str, np.ndarray], second: tuple[str, np.ndarray]):
    """Both arrays broadcast and flattened, and the shape P."""
    try:
        a, b = np.broadcast_arrays(first[1], second[1])
    except ValueError:
        raise ValueError(
            f"`{first[0]}` has shape {shape_text(first[1].shape)} and `{second[0]}` has shape "
            f"{shape_text(second[1].shape)}; they must broadcast: for a grid of all pairs pass "
            f"`{first[0]}[:, None]` and `{second[0]}[None, :]`."
        ) from None
    return a.reshape(-1), b.reshape(-1), a.shape


# -- filters ------------------------------------------------------------------------------------------------------


def flow_filter(m: ArrayLike, nu: ArrayLike, t: ArrayLike) -> Float[np.ndarray, "*P n"]:
    """Filter of the shifted flow at time t: `m / (m - nu) (1 - exp(-t (m - nu)))`, shape P + (n,).

    - `m`: eigenvalues, shape (n,), none negative; `nu` >= 0; `t` >= 0, may be infinite.

    Right at m = nu, at huge t, and at m = 0, where it is 0. What is beyond a double is `inf`; see `log_flow_filter`.
    Raises `ValueError` for negative or NaN arguments and shapes that do not broadcast.
    """
    m, nu, t = _spectrum(m), _parameter(nu, "nu"), _parameter(t, "t", infinite=True)
    nus, ts, shape = _pairs(("nu", nu), ("t", t))
    out = np.empty((nus.size, m.size))
    for rows in _rows(nus.size, m.size):
        _flow(m, nus[rows], ts[rows], out[rows])
    return out.reshape(*shape, m.size)


def flow_blocks(m: ArrayLike, nu: ArrayLike, t: ArrayLike) -> Iterator[tuple[slice, Float[np.ndarray, "B n"]]]:
    """`flow_filter` in blocks of pairs: yields `(rows, f)` with `f` of shape (B, n) for the flattened pairs `rows`.

    The array `f` is used again for the next block: reduce it or copy it. Memory is that of one block (2 MB each for
    a handful of temporaries), whatever the number of pairs.
    """
    m, nu, t = _spectrum(m), _parameter(nu, "nu"), _parameter(t, "t", infinite=True)
    nus, ts, _ = _pairs(("nu", nu), ("t", t))

    def blocks() -> Iterator[tuple[slice, Float[np.ndarray, "B n"]]]:
        buffer = np.empty((min(nus.size, _height(m.size)), m.size))
        for rows in _rows(nus.size, m.size):
            f = buffer[: rows.stop - rows.start]
            _flow(m, nus[rows], ts[rows], f)
            yield rows, f

    return blocks()  # a generator of its own, so that bad arguments are told at the call


def _height(n: int) -> int:
    return max(1, _BLOCK // max(n, 1))


def _rows(n_pairs: int, n: int) -> Iterator[slice]:
    height = _height(n)
    for first in range(0, n_pairs, height):
        yield slice(first, min(first + height, n_pairs))


def _flow(m: np.ndarray, nu: np.ndarray, t: np.ndarray, out: np.ndarray) -> None:
    """`out[p] = flow filter of the pair p`; `(m/delta) (-expm1(-t delta))` keeps every digit, as m - nu is exact."""
    delta = m - nu[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        x = t[:, None] * delta
        np.expm1(-x, out=out)
        out *= -(m / delta)
        # At (or within underflow of) the pole, and at t = 0: the removable value m t.
        at_pole = ~(np.abs(x) > 1e-290)  # NaN (an infinite time at the pole) counts as well
        if at_pole.any():
            rows, columns = np.nonzero(at_pole)
            out[at_pole] = m[columns] * t[rows]
        far = x < -_OVERFLOW
        if far.any():
            rows, columns = np.nonzero(far)
            out[far] = np.exp(np.log(m[columns] / -delta[far]) - x[far])
    out[:, m == 0] = 0.0


def log_flow_filter(m: ArrayLike, nu: ArrayLike, t: ArrayLike) -> Float[np.ndarray, "*P n"]:
    """Natural log of `flow_filter`, shape P + (n,): never overflows for finite t; `-inf` where the filter is 0.

    The filter is positive wherever m > 0 and t > 0. `inf` only for an infinite t at m <= nu.
    """
    m, nu, t = _spectrum(m), _parameter(nu, "nu"), _parameter(t, "t", infinite=True)
    nus, ts, shape = _pairs(("nu", nu), ("t", t))
    out = np.empty((nus.size, m.size))
    for rows in _rows(nus.size, m.size):
        delta, at = m - nus[rows, None], ts[rows, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            x = at * delta
            # |1 - e^-x| = e^{max(-x, 0)} (1 - e^-|x|): the growing factor stays a sum of logs.
            size = np.abs(x)
            f = np.log(m) - np.log(np.abs(delta)) + np.maximum(-x, 0.0) + np.log(-np.expm1(-size))
            f = np.where(size > 1e-290, f, np.log(m) + np.log(at))
        f[:, m == 0] = -np.inf
        out[rows] = f
    return out.reshape(*shape, m.size)


def descent_filter(m: ArrayLike, nu: ArrayLike, k: ArrayLike, *, eta: float) -> Float[np.ndarray, "*P n"]:
    """Filter of k steps of shifted descent: `m / (m - nu) (1 - (1 - eta (m - nu))^k)`, shape P + (n,).

    - `k`: whole numbers of steps >= 0; `eta` > 0: the step size. The rest as in `flow_filter`, whose t is `eta k`.

    Beyond `eta (m - nu) = 2` the iteration diverges, and the filter shows it, up to `inf` of either sign.
    Raises `ValueError` for numbers of steps that are not whole, and as `flow_filter` does.
    """
    m, nu, steps = _spectrum(m), _parameter(nu, "nu"), _parameter(k, "k")
    if np.any(steps != np.floor(steps)):
        bad = float(steps.reshape(-1)[np.flatnonzero((steps != np.floor(steps)).reshape(-1))[0]])
        raise ValueError(f"`k` counts steps and must be whole; got {bad:g}.")
    eta = _step_size(eta)
    nus, ks, shape = _pairs(("nu", nu), ("k", steps))
    out = np.empty((nus.size, m.size))
    for rows in _rows(nus.size, m.size):
        delta, at = m - nus[rows, None], ks[rows, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            x = eta * delta
            turned = x > 1  # 1 - x is negative there: its powers alternate
            log_power = at * np.where(turned, np.log1p(x - 2), np.log1p(-np.where(turned, 0.0, x)))
            log_power = np.where(at == 0, 0.0, log_power)  # (1 - x)^0 = 1, also where 1 - x = 0
            rest = np.where(turned & (at % 2 == 1), 1 + np.exp(log_power), -np.expm1(log_power))
            f = m / delta * rest
            f = np.where(np.abs(x) > 1e-290, f, m * eta * at) + 0.0  # no negative zeros
        f[:, m == 0] = 0.0
        out[rows] = f
    return out.reshape(*shape, m.size)


def ridge_filter(m: ArrayLike, penalty: ArrayLike) -> Float[np.ndarray, "*P n"]:
    """Filter of ridge regression with `penalty` >= 0 (in units of S = X'X/n): `m / (m + penalty)`, shape P + (n,).

    A penalty of 0 is the ridgeless interpolant: 1 where m > 0, and 0 at m = 0. A penalty of inf gives 0.
    """
    m, penalty = _spectrum(m), _parameter(penalty, "penalty", infinite=True)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(m > 0, 1 / (1 + penalty[..., None] / m), 0.0)


def ridgeless_filter(m: ArrayLike) -> Float[np.ndarray, " n"]:
    """Filter of the least-norm interpolant: 1 where m > 0, 0 at m = 0."""
    return (_spectrum(m) > 0).astype(float)


def rescaling_filter(m: ArrayLike, factor: ArrayLike) -> Float[np.ndarray, "*P n"]:
    """Filter of the ridgeless interpolant times `factor` >= 0, shape P + (n,)."""
    m, factor = _spectrum(m), _parameter(factor, "factor")
    return factor[..., None] * (m > 0)


def smallest_positive(m: ArrayLike) -> float:
    """The smallest eigenvalue that is not zero to rounding: above `n eps m_max`; infinity where there is none.

    That is what a symmetric eigenvalue solver resolves. For eigenvalues known better than that, pass those that are
    positive only, and take their minimum.
    """
    m = _spectrum(m)
    positive = m[m > m.size * np.finfo(float).eps * m.max(initial=0.0)]
    return float(positive.min()) if positive.size else math.inf


def negative_ridge_filter(m: ArrayLike, nu: ArrayLike) -> Float[np.ndarray, "*P n"]:
    """Filter of the flow's endpoint (negative ridge): `m / (m - nu)`, for 0 <= nu < m_min+, shape P + (n,).

    `m_min+` is `smallest_positive(m)`. Eigenvalues that are zero to rounding get 0.
    Raises `ValueError` for a shift beyond the admissible range: the flow then has no endpoint.
    """
    m, nu = _spectrum(m), _parameter(nu, "nu")
    least = smallest_positive(m)
    if np.any(nu >= least):
        raise ValueError(
            f"`nu` = {float(nu.max()):.6g} is not below the smallest nonzero eigenvalue {least:.6g}: the flow "
            f"with this shift has no stable endpoint. Take 0 <= nu < {least:.6g}, or stop the flow: "
            "`flow_filter(m, nu, t)`."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(m >= least, 1 / (1 - nu[..., None] / m), 0.0)


# -- where a filter crosses 1 -------------------------------------------------------------------------------------


def crossing(nu: ArrayLike, t: ArrayLike) -> Float[np.ndarray, "*P"]:
    """The eigenvalue `m_c` at which the flow's filter crosses 1, shape P: above it f > 1, below it f < 1.

    `m_c = -W_b(-nu t exp(-nu t)) / t` (see the head of this page), taken in logs where `exp(-nu t)` or `nu t` leaves
    the range of doubles. Infinite for nu = 0 or t = 0 (no crossing: f < 1 everywhere) and above the largest double; 0
    below the smallest.

    >>> round(float(crossing(1.3, 0.95)), 12)
    0.83882991609
    """
    from scipy.special import lambertw

    first, second = ("nu", _parameter(nu, "nu")), ("t", _parameter(t, "t", infinite=True))
    nu, t, shape = _pairs(first, second)
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        z = nu * t  # 0 * inf is NaN: no shift
        early, late = (z < 0.5) & (nu > 0) & (t > 0), (z > 1.5) & (z < math.inf)
        # m_c = w / t with w - log w = z - log z, w > 1.
        log_z = np.where(z > 1e-290, np.log(z), np.log(nu) + np.log(t))  # the sum loses digits by cancellation
        m_early = _larger_log_root(np.where(early, z - log_z, 2.0)) / t
        # m_c = nu exp(w - z) with w exp(-w) = z exp(-z), w < 1; in two factors, as nu may be as large as exp(z).
        safe = np.where(late, z, 2.0)
        half = np.exp((-lambertw(-safe * np.exp(-safe), 0).real - safe) / 2)
        m_late = nu * half * half
        # Lambert's function loses half the digits where its branches meet; the divided equation does not.
        safe = np.where(early | late | ~(z > 0) | np.isinf(z), 1.0, z)
        argument = -safe * np.exp(-safe)
        w = np.where(safe < 1, -lambertw(argument, -1).real, -lambertw(argument, 0).real)
        m_near = nu * (1 + _divided_log_inverse(safe, w / safe - 1))
    out = np.where(early, m_early, np.where(late, m_late, np.where(z == math.inf, 0.0, m_near)))
    return np.where((nu > 0) & (t > 0), out, math.inf).reshape(shape)[()]


def _larger_log_root(level: np.ndarray) -> np.ndarray:
    """`w > 1` with `w - log w = level`, for levels from 1.1 on, by Newton's method."""
    w = level + np.log(level)
    for _ in range(6):
        w = w - (w - np.log(w) - level) / (1 - 1 / w)
    return w


def _divided_log(p: np.ndarray) -> np.ndarray:
    """`log(1 + p) / p`, 1 at p = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p == 0, 1.0, np.log1p(p) / np.where(p == 0, 1.0, p))


def _divided_log_inverse(z: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """`p` with `log(1 + p) / p = z` for z in (0.5, 1.5), by Newton's method.

    Far from z = 1 the guess is right; near it the function is a line to first order, -2 (z - 1).
    """
    p = np.where(np.abs(z - 1) < 1e-2, -2 * (z - 1), guess)
    for _ in range(5):
        small = np.abs(p) < 1e-3
        q = np.where(small, 1.0, p)
        slope = np.where(small, -0.5 + p * (2 / 3 - 0.75 * p), (q / (1 + q) - np.log1p(q)) / q**2)
        p = np.clip(p - (_divided_log(p) - z) / slope, -0.99, 10.0)
    return p


def descent_crossings(nu: float, k: int, *, eta: float) -> tuple[float, ...]:
    """Every eigenvalue at which the filter of k steps crosses 1, ascending: one, or two when k is even; none at nu = 0.

    The first lies below `nu + 1/eta`, the second between `nu + 1/eta` and `nu + 2/eta`. Between them f > 1.
    With one step and `eta nu >= 1` the filter `eta m` crosses 1 at 1/eta. One that is above the largest double is
    infinite, one below the smallest is 0: `eta nu` itself is only used in logs where it leaves their range.

    >>> [round(m, 2) for m in descent_crossings(1.3, 10, eta=0.225)]
    [0.12, 9.39]
    """
    nu, eta = _one_number(_parameter(nu, "nu"), "nu"), _step_size(eta)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 0:
        raise ValueError(f"`k` counts steps and must be a whole number, not negative; got {k!r}.")
    if k > 2**53:
        raise ValueError(f"`k` must be at most 2**53 steps, which a double still counts; got {k}.")
    if nu == 0 or k == 0:
        return ()
    k, log_e = int(k), math.log(eta) + math.log(nu)  # e = eta nu
    first = _above_the_shift(nu, k, eta, log_e) if math.log(k) + log_e < math.log(0.5) else _first(nu, k, log_e)
    if k % 2 == 1:
        return (first,)

    # At x = eta (m - nu) = 1 + exp(v) in (1, 2): log of m (x - 1)^k / nu, rising in v.
    def beyond(v: float) -> float:
        return _log_sum(math.log1p(math.exp(v)) - log_e) + k * v

    v = _root(beyond, -(_log_sum(math.log(2) - log_e) + 1) / k, 0.0)
    return (first, nu + _quotient(1 + math.exp(v), eta))


def _above_the_shift(nu: float, k: int, eta: float, log_e: float) -> float:
    """The first crossing for `k eta nu < 1/2`, where it lies above nu: sought in `v = log(1 - eta (m - nu))`, v < 0.

    `log(m / nu) + k v` vanishes at v = 0, which is the pole and no crossing, is positive just below it, and falls
    below zero in the end: where m is near nu + 1/eta, only v has digits.
    """

    def log_ratio(v: float) -> float:
        return _log_sum(math.log(-math.expm1(v)) - log_e) + k * v

    v = _root(log_ratio, -(_log_sum(-log_e) + 1) / k, -1e-3 / k)
    return nu + _quotient(-math.expm1(v), eta)


def _first(nu: float, k: int, log_e: float) -> float:
    """The first crossing for `k eta nu >= 1/2`, in u = log(m / nu), so that one far below nu keeps its digits."""
    e = math.exp(min(log_e, 700.0))

    def below(u: float) -> float:
        p = math.expm1(u)
        if p == 0:
            return 1.0 - k * e
        if p < 0:
            return u / p + k * _log_sum(log_e + math.log(-p)) / p
        return u / p + k * math.log1p(max(-e * p, -1 + 1e-16)) / p

    low, high = -1.0, math.log1p(1 / e)
    while below(low) <= 0:  # the left side grows without end
        low *= 2
    u = _root(below, low, high)
    return nu * math.exp(u / 2) * math.exp(u / 2)  # in two factors: nu may be as large as exp(-u)


def _log_sum(log_x: float) -> float:
    """`log(1 + x)` from log x."""
    return log_x + math.log1p(math.exp(-log_x)) if log_x > 0 else math.log1p(math.exp(log_x))


def _quotient(value: float, by: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(value) / by)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function that changes its sign between `low` and `high`, to rounding."""
    from scipy.optimize import brentq

    # No absolute tolerance: the zero may lie at any scale.
    found: Any = brentq(function, low, high, xtol=5e-324, rtol=4 * np.finfo(float).eps, maxiter=2000)
    return float(found)


def step_condition(m: ArrayLike, nu: float, *, eta: float) -> bool:
    """Whether `eta (m_max - nu) <= 1`: then the filter of descent crosses 1 at most once on this spectrum."""
    return bool(_step_size(eta) * (_spectrum(m).max(initial=0.0) - nu) <= 1)


def _step_size(eta: float) -> float:
    eta = _one_number(to_float64(eta, "eta")[0], "eta")
    if not (math.isfinite(eta) and eta > 0):
        raise ValueError(f"`eta` must be positive and finite; got {eta!r}.")
    return eta


def _one_number(array: np.ndarray, name: str) -> float:
    if array.size != 1:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    return float(array.reshape(()))
