"""Integrals of the logistic loss against a normal margin, at any size, each with an estimate of its error.

`g(m) = log(1 + e^{-m}) + p m` is the loss on labels that are flipped with probability p: `(1-p) l(m) + p l(-m)`, with
`l(-m) = l(m) + m`. It is analytic in the strip of height pi, so that the trapezoidal rule in the normal variable
converges exponentially; its error is estimated by the rule with every other node, whose error is its square root.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit, log_ndtr, ndtr

_EPS = float(np.finfo(float).eps)
_ROOT_TAU = math.sqrt(2 * math.pi)
_REACH = 12.0  # deviations beyond the signal's own number: the tail weighs 4e-33 of what is there
# Nodes a deviation for a loss of unit width: pole at distance pi, so that `e^{-2 pi^2 / h}` is 9e-20 at h = 0.45.
_STEP, _FLAT = 0.45, 0.3
_LARGE = 8.0  # sizes beyond, and beyond so many signals: the loss is narrow beside the density
_GAUSS = np.polynomial.legendre.leggauss(24)
_PANELS = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 28.0, 42.0])
_TAYLOR = np.polynomial.legendre.leggauss(8)
_MASS = np.polynomial.legendre.leggauss(16)


class Quadrature(NamedTuple):
    """Values of integrals, and estimates of their absolute errors, rounding included."""

    value: Float[np.ndarray, "*T"]
    error: Float[np.ndarray, "*T"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogisticMinimum:
    """The least logistic risk `F*`, at `w = c* Sigma^{-1} mu`.

    - `c`: c*; `c_lower`, `c_upper`: the derivative, with its error, is negative at the one and positive at the other,
      so that the convex problem's solution lies between them.
    - `risk`: F at c; `risk_lower`: a lower bound on F*, by convexity: `F(c) - |F'(c)| (c_upper - c_lower)`, less the
      error of the quadrature.
    - `size`: `c* r = |w|_Sigma`; `slope`: `A = -E g'(m) = E[(1-p) sigma(-m) - p sigma(m)] > 0`, at the optimum.
    """

    c: float
    c_lower: float
    c_upper: float
    risk: float
    risk_lower: float
    size: float
    slope: float


def normal_mass(r: float, delta: Float[np.ndarray, "*T"]) -> Float[np.ndarray, "*T"]:
    """`Phi(-a) - Phi(-r)` at `a = r - delta`, `0 <= delta <= 2r`, with no cancellation."""
    delta = np.asarray(delta, dtype=float)
    near = (r + 1) * delta < 1
    # Near: phi(r) times the integral of e^{rt - t^2/2} over [0, delta], smooth at this length.
    d = np.where(near, delta, 0.0)
    t = d[..., None] * (1 + _MASS[0]) / 2
    small = math.exp(-r * r / 2) / _ROOT_TAU * d / 2 * (np.exp(r * t - t * t / 2) @ _MASS[1])
    a = r - np.where(near, r, delta)
    large = np.exp(log_ndtr(-a)) * -np.expm1(log_ndtr(-r) - log_ndtr(-a))
    return np.where(near, small, large)


def nodes(width: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Trapezoidal nodes and weights of the standard normal for functions analytic to `pi / width` off the axis."""
    h = min(_FLAT, _STEP / width)
    k = 2 * math.ceil(reach / h / 2)  # even, so that every other node is again a rule with a node at 0
    h = reach / k
    z = h * np.arange(-k, k + 1)
    return z, np.exp(-z * z / 2) * (h / _ROOT_TAU)


def softplus(x: np.ndarray) -> np.ndarray:
    """`log(1 + e^x)`."""
    return np.logaddexp(0.0, x)


def integrate(f, size: Float[np.ndarray, "*T"], *, signal: float, least_width: float = 0.0) -> Quadrature:
    """`E f(Z, index)` for each entry of `size`, where f takes nodes (1, k) and the flat indices (m,) that it is for.

    `signal`: at most so many deviations from the middle the integrand may have its weight, see `_REACH`.
    """
    size = np.asarray(size, dtype=float)
    flat, value, error = size.reshape(-1), np.zeros(size.size), np.zeros(size.size)
    # In groups of one rule each: twice the width, twice the nodes.
    level = np.ceil(np.log2(np.maximum(np.maximum(flat, least_width), 0.5))).astype(int)
    for k in np.unique(level):
        z, w = nodes(2.0**k, _REACH + signal)
        index = np.flatnonzero(level == k)
        for part in np.array_split(index, max(1, index.size * z.size // 2_000_000)):
            values = f(z[None, :], part)
            value[part] = values @ w
            coarse = 2 * (values[:, ::2] @ w[::2])
            # The error of the finer rule is about the square of the coarser's, relative to the size of the integrand.
            scale = np.abs(values) @ w
            off = np.abs(coarse - value[part]) / np.where(scale > 0, scale, 1.0)
            error[part] = scale * (off**2 + 8 * _EPS)
    return Quadrature(value=value.reshape(size.shape), error=error.reshape(size.shape))


def logistic_integral(signal: Float[np.ndarray, "*T"], size: Float[np.ndarray, "*T"], p: float) -> Quadrature:
    """`E g(size (signal + Z))`: the logistic risk of a margin of deviation `size` whose mean is `signal` deviations."""
    signal, size = np.broadcast_arrays(np.asarray(signal, dtype=float), np.asarray(size, dtype=float))
    value, error = np.zeros(size.shape), np.zeros(size.shape)
    large = size > _LARGE * np.maximum(1.0, np.abs(signal))
    a, rho = signal[~large].reshape(-1), size[~large].reshape(-1)
    reach = float(np.abs(a).max(initial=0.0))
    found = integrate(lambda z, i: softplus(-rho[i, None] * (a[i, None] + z)), rho, signal=reach)
    value[~large], error[~large] = found.value + p * rho * a, found.error + 4 * _EPS * p * np.abs(rho * a)
    if large.any():
        # E max(-M, 0) in closed form, and log(1 + e^{-|m|}) against a density that is smooth at the scale 1.
        a, rho = signal[large], size[large]
        hinge = rho * (np.exp(-a * a / 2) / _ROOT_TAU - a * ndtr(-a))
        bump, off = _bump(a, rho)
        value[large] = hinge + bump + p * rho * a
        error[large] = off + 8 * _EPS * (rho * (np.exp(-a * a / 2) + np.abs(a) * (ndtr(-a) + p)) + bump)
    return Quadrature(value=value, error=error)


def _bump(a: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`E log(1 + e^{-|rho (a + Z)|})` for large rho, and the change from half the panels."""

    def rule(panels: np.ndarray) -> np.ndarray:
        x, w = _GAUSS
        left, length = panels[:-1, None], np.diff(panels)[:, None]
        m, weight = (left + length * (1 + x) / 2).reshape(-1), (length / 2 * w).reshape(-1)
        f = np.log1p(np.exp(-m)) * weight
        density = np.exp(-((m / rho[:, None] - a[:, None]) ** 2) / 2) + np.exp(
            -((m / rho[:, None] + a[:, None]) ** 2) / 2
        )
        return density @ f / (_ROOT_TAU * rho)

    fine = rule(_PANELS)
    return fine, np.abs(fine - rule(_PANELS[::2] if _PANELS.size % 2 else np.append(_PANELS[::2], _PANELS[-1])))


def logistic_slope_along(r: float, p: float, size: float) -> Quadrature:
    """`d/d rho E g(rho (r + Z))` at `rho = size`: increasing in rho, and `-(1/2 - p) r` at 0; shape (1,).

    With `X = r + Z` it is `p r - E X sigma(-size X)`, or `E X tanh(size X / 2) / 2 - (1/2 - p) r`: differences of
    numbers that are `p r` or `(1/2 - p) r` each near the minimum, and the one with the smaller numbers is taken. For
    small r, X has both signs, and only the second has no cancellation inside its mean.
    """
    if r < 1 or p >= 0.25:
        found = integrate(lambda z, _: (r + z) * np.tanh(size * (r + z) / 2) / 2, np.array([size]), signal=r)
        mean = (0.5 - p) * r  # exact to a rounding: 1/2 - p is a double
        return Quadrature(value=found.value - mean, error=found.error + 2 * _EPS * mean)
    found = integrate(lambda z, _: (r + z) * (p - expit(-size * (r + z))), np.array([size]), signal=r)
    # Where p and sigma nearly cancel the rounding is that of each of them: E|X| p is at most p (r + 1).
    return Quadrature(value=found.value, error=found.error + 16 * _EPS * p * (r + 1))


def logistic_minimum(r: float, p: float) -> LogisticMinimum:
    """The minimiser over the size along the Bayes direction, bracketed by the sign of the derivative."""
    from scipy.optimize import brentq

    def slope(rho: float) -> tuple[float, float]:
        found = logistic_slope_along(r, p, rho)
        return float(found.value[0]), float(found.error[0])

    # The derivative is -(1/2 - p) r at 0 and rises by at most E X^2/4 = (1 + r^2)/4: it is negative below this size.
    low = 4 * (0.5 - p) * r / (1 + r * r) * (1 - 16 * _EPS)
    high = 2 * low
    while not slope(high)[0] > slope(high)[1]:  # it grows to at least phi(r) - r Phi(-r) > 0
        high *= 2
    rho = low
    if slope(low)[0] < 0:
        rho = float(brentq(lambda t: slope(t)[0], low, high, xtol=4 * _EPS * low, rtol=4 * _EPS))  # pyright: ignore[reportArgumentType] - stubs
    lower, upper = _bracket(slope, rho, low, high)
    risk = logistic_integral(np.array(r), np.array(rho), p)
    derivative, error = slope(rho)
    z, w = nodes(max(rho, 0.5), _REACH + r)
    return LogisticMinimum(
        c=rho / r,
        # Their own division, and that of low.
        c_lower=lower / r * (1 - 2 * _EPS),
        c_upper=upper / r * (1 + 2 * _EPS),
        risk=float(risk.value),
        risk_lower=float(risk.value - risk.error) - (abs(derivative) + error) * (upper - lower),
        size=rho,
        # By Stein's identity E[g'(m)(r + Z)] = r E g' + rho E g'', zero at the optimum: no term is negative so.
        slope=float(rho / r * (w @ (expit(rho * (r + z)) * expit(-rho * (r + z))))),
    )


def _bracket(slope, rho: float, low: float, high: float) -> tuple[float, float]:
    """The closest points, by doubling distances from rho > 0, at which the derivative's sign is sure."""
    width = 4 * _EPS * rho
    while (lower := rho - width) > low and not slope(lower)[0] < -slope(lower)[1]:
        width *= 2
    width = 4 * _EPS * rho
    while (upper := rho + width) < high and not slope(upper)[0] > slope(upper)[1]:
        width *= 2
    return max(lower, low), min(upper, high)


def logistic_remainder(
    r: float, turned: Float[np.ndarray, "*T"], size: Float[np.ndarray, "*T"], best: float
) -> Quadrature:
    """`E[g(M) - g(m) - g'(m)(M - m)]`, `m = best (r + Z)`, `M = size (r (1 - turned) + Z)`; never negative.

    The linear part of g has no share in it, so that p has none.
    """
    turned, size = np.broadcast_arrays(np.asarray(turned, dtype=float), np.asarray(size, dtype=float))
    t, rho = turned.reshape(-1), size.reshape(-1)

    def f(z, i):
        m = best * (r + z)
        change = (rho[i, None] - best) * (r + z) - (rho * t)[i, None] * r
        return bregman(-m, -change)

    return integrate(f, size, signal=r, least_width=best)


def bregman(x: Float[np.ndarray, "..."], h: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """`log(1 + e^{x+h}) - log(1 + e^x) - sigma(x) h >= 0`, with no cancellation.

    At |h| below 1/2 the integral form of the remainder, elsewhere the difference itself, on the side x <= 0 (the
    function is even under `(x, h) -> (-x, -h)`), where no term is large without the result being so.
    """
    x, h = np.broadcast_arrays(x, h)
    side = np.where(x > 0, -1.0, 1.0)
    x, h = side * x, side * h
    t, w = (1 + _TAYLOR[0]) / 2, _TAYLOR[1] / 2
    close = np.where(np.abs(h) < 0.5, h, 0.0)
    small = np.zeros(x.shape)
    for ti, wi in zip(t, w, strict=True):
        e = np.exp(-np.abs(x + ti * close))
        small += wi * (1 - ti) * e / (1 + e) ** 2
    small *= close**2
    far = np.where(np.abs(h) < 0.5, 1.0, h)
    s = expit(x)
    large = np.where(
        far > 0, softplus(x + far) - softplus(x) - s * far, np.log1p(s * np.expm1(np.minimum(far, 0.0))) - s * far
    )
    return np.where(np.abs(h) < 0.5, small, np.maximum(large, 0.0))
