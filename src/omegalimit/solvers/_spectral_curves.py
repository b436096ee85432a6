"""Spectral functions `Phi` of a matrix and their curves: pairs of singular values with `g = grad Phi(sigma)`.

    Power:    Phi = |sigma|_p^2 / 2,     sigma = tau rho,  g = tau rho^(p-1),  sum rho^p = 1
    Barrier:  Phi = min_t t^2 / 2 - mu sum_i log(t^2 - sigma_i^2),
              sigma = t x,  g = t nu x / (1 - x^2),  nu = 2 mu / t^2,  sum nu / (1 - x^2) = 1

`|g|_q = |sigma|_p` on the first, `|g|_1 <= t`, `sigma <= t` and `g.sigma = t^2 - 2 mu r` on the second, which tends to
the spectral norm as `mu` falls. A point of a curve is found from `z = sigma + eta g` (Minty's coordinates of a monotone
map): `sigma(z)` and `g(z)` are Lipschitz for every `p` and `mu`, where `g(sigma)` or its inverse is nearly vertical.

Derived here.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from ..limits.norms import conjugate, power_norm

_TINY = 1e-200  # singular values below this, relative to the largest, are not told apart
_FLAT = 23.0  # log of the largest weight relative to that of the largest pair: above it rounding rules


@dataclasses.dataclass(frozen=True)
class Weights:
    """The inverse Hessian of `Phi` at singular values `sigma`, in the basis of singular vectors.

    `even` and `odd` multiply the symmetric and the antisymmetric part, `outer` the rows beyond the square; on the
    diagonal `L L^T` with `L = diag(even_ii^(1/2)) (I + (stretch - 1) e e^T)` replaces `even_ii`.
    """

    even: Float[np.ndarray, "r r"]
    odd: Float[np.ndarray, "r r"]
    outer: Float[np.ndarray, " r"]
    e: Float[np.ndarray, " r"]
    stretch: float


@dataclasses.dataclass(frozen=True)
class Power:
    """`|sigma|_p^2 / 2`, `1 < p < inf`."""

    p: float

    @property
    def lean(self) -> float:
        """`eta` relative to `sigma_1 / g_1`: for large `p` the bend of the curve is at `g` near `g_1 / p`."""
        return min(max(self.p - 1, 1.0), 100.0)

    def next(self, factor: float) -> "Power":
        """The curve when the complementarity falls by `factor`."""
        return self

    def norm(self, sigma) -> float:
        """`|W|` from the singular values of `W`."""
        return power_norm(sigma, self.p)

    def dual(self, s) -> float:
        """The dual norm, from singular values."""
        return power_norm(s, conjugate(self.p))

    def from_gradient(self, s) -> "PowerPair":
        """The pair with `g = s`."""
        q = conjugate(self.p)
        log_s = np.log(np.maximum(s, _TINY * s[0]))
        log_tau = log_s[0] + np.log(np.exp(q * (log_s - log_s[0])).sum()) / q
        return PowerPair(self.p, log_tau, (log_s - log_tau) / (self.p - 1))

    def at(self, z, eta) -> "PowerPair":
        """The pair with `sigma + eta g = z`: for given `tau` each `log rho` solves a convex scalar equation."""
        a, p, log_eta = self.p - 1, self.p, math.log(eta)
        log_z = np.log(np.maximum(z, _TINY * z[0]))
        log_tau, low, high = log_z[0], -np.inf, np.inf
        for _ in range(80):
            u, slope = _log_sum_root(log_z - log_tau, log_eta, a)
            top = p * u.max()
            e = np.exp(p * u - top)
            excess = top + math.log(e.sum())
            low, high = (log_tau, high) if excess > 0 else (low, log_tau)
            step = excess * e.sum() / (p * (e / slope).sum())
            if abs(step) <= 1e-15 * max(1.0, abs(log_tau)):
                break
            log_tau = log_tau + step if low < log_tau + step < high else (low + high) / 2
        return PowerPair(p, log_tau, u)


def _log_sum_root(log_y, log_eta, a):
    """`u` with `exp u + eta exp(a u) = y` and the slope of `log(exp u + eta exp(a u))` there.

    That function is convex and grows, and Newton's method falls to the root from the larger of its two summands.
    """
    u = np.minimum(log_y, (log_y - log_eta) / a)
    for _ in range(60):
        first, second = u, log_eta + a * u
        top = np.maximum(first, second)
        x, y = np.exp(first - top), np.exp(second - top)
        slope = (x + a * y) / (x + y)
        du = (top + np.log(x + y) - log_y) / slope
        u = u - du
        if np.abs(du).max() <= 4e-16 * max(1.0, np.abs(u).max()):
            break
    return u, slope


@dataclasses.dataclass(frozen=True)
class PowerPair:
    """A point of the curve: `log tau` and `u = log rho`, largest first."""

    p: float
    log_tau: float
    u: Float[np.ndarray, " r"]

    @property
    def sigma(self):
        return np.exp(self.log_tau + self.u)

    @property
    def g(self):
        return np.exp(self.log_tau + (self.p - 1) * self.u)

    def weights(self) -> Weights:
        """Divided differences of `sigma` over `g`, and the inverse of the Hessian's rank-one term."""
        a, u = self.p - 1, self.u
        most = (1 - a) * u[0] + _FLAT
        top, d = np.maximum(u[:, None], u), np.abs(u[:, None] - u)
        lead = np.exp(np.minimum((1 - a) * top, most))
        apart = d * max(a, 1.0) > 1e-15
        even = lead * np.where(apart, np.expm1(-d) / np.where(apart, np.expm1(-a * d), 1), 1 / a)
        odd = lead * (1 + np.exp(-d)) / (1 + np.exp(-a * d))
        e = np.exp(self.p / 2 * u)
        return Weights(even, odd, np.exp(np.minimum((1 - a) * u, most)), e / np.linalg.norm(e), math.sqrt(a))


@dataclasses.dataclass(frozen=True)
class Barrier:
    """The spectral norm with the barrier `mu`."""

    mu: float

    @property
    def lean(self) -> float:
        return 1.0

    def next(self, factor: float) -> "Barrier":
        return Barrier(self.mu * factor)

    def norm(self, sigma) -> float:
        return float(sigma.max())

    def dual(self, s) -> float:
        return float(s.sum())

    @classmethod
    def from_gradient(cls, s) -> tuple["Barrier", "BarrierPair"]:
        """A barrier of middling size (half of `sum g`) and its pair with `g = s`."""
        nu = 0.5 / len(s)
        unit = s / s.sum()

        def excess(log_k):
            w = np.exp(log_k) * unit
            return math.log((nu * (0.5 + np.sqrt(0.25 + w * w))).sum())  # 1 / (1 - x^2) for w = x / (1 - x^2)

        log_k = float(brentq(excess, -1.0, 5.0 + math.log(len(s))))  # pyright: ignore[reportArgumentType]
        w = math.exp(log_k) * unit
        t = s.sum() / (nu * w.sum())
        h = 1 / (0.5 + np.sqrt(0.25 + w * w))
        x = w * h
        return cls(nu * t * t / 2), BarrierPair(t, nu, x, h / (1 + x))

    def at(self, z, eta) -> "BarrierPair":
        """The pair with `sigma + eta g = z`: a cubic equation for each value, and one for `t`."""
        z = np.maximum(z, _TINY * z[0])

        def solved(log_t):
            t = math.exp(log_t)
            nu = 2 * self.mu / t / t
            return t, nu, _distance_to_one(z / t, eta * nu)

        def excess(log_t):
            _, nu, s = solved(log_t)
            return math.log((nu / (s * (2 - s))).sum())

        low = high = math.log(z[0])
        step = 0.5
        while excess(low) < 0:
            low, step = low - step, 2 * step
        step = 0.5
        while excess(high) > 0:
            high, step = high + step, 2 * step
        t, nu, s = solved(brentq(excess, low, high, xtol=1e-15) if high > low else low)
        return BarrierPair(t, nu, 1 - s, s)


def _distance_to_one(y, c):
    """`s = 1 - x` for the root `0 < x < 1` of `x + c x / (1 - x^2) = y`, by Newton's method on the cubic in `s`.

    It starts above, at the root for `x / (1 + x) = 1/2`, which is close when `x` is near 1.
    """
    s = np.minimum(c / ((y - 1) + np.sqrt((y - 1) ** 2 + 2 * c)), 1.0)
    s = np.where(y < 1, np.minimum(((1 - y) + np.sqrt((1 - y) ** 2 + 2 * c)) / 2, 1.0), s)
    for _ in range(60):
        value = s * (2 - s) * (y - 1 + s) - c * (1 - s)
        slope = 2 * (1 - s) * (y - 1 + s) + s * (2 - s) + c
        new = np.clip(s - value / slope, 0.1 * s, 1.0)
        done = (np.abs(new - s) <= 1e-15 * s).all()
        s = new
        if done:
            break
    return s


@dataclasses.dataclass(frozen=True)
class BarrierPair:
    """A point of the curve: `t`, `nu`, `x` and `s = 1 - x`."""

    t: float
    nu: float
    x: Float[np.ndarray, " r"]
    s: Float[np.ndarray, " r"]

    @property
    def sigma(self):
        return self.t * self.x

    @property
    def g(self):
        return self.t * self.nu * self.x / (self.s * (1 + self.x))

    def weights(self) -> Weights:
        """Divided differences of `sigma` over `g`; the rank-one term comes from the elimination of `t`."""
        x, s, nu = self.x, self.s, self.nu
        h = s * (1 + x)
        both = np.multiply.outer(h, h) / nu
        slope = nu * (1 + x * x) / h**2
        e = 2 * nu * x / h**2 / np.sqrt(slope * (2 * nu / (h * (1 + x * x))).sum())
        size = np.linalg.norm(e)
        odd = both / (s[:, None] + s - np.multiply.outer(s, s))
        even = both / (1 + np.multiply.outer(x, x))
        most = math.exp(_FLAT) * h[0] / nu
        return Weights(
            np.minimum(even, most),
            np.minimum(odd, most),
            np.minimum(h / nu, most),
            e / max(size, _TINY),
            math.hypot(1, size),
        )
