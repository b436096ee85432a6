"""Potentials of networks of two factors from a finite start: what gradient flow from there selects.

| class | `f_i(k)` | `k = (f_i^*)'(s)` |
| --- | --- | --- |
| `HyperbolicEntropy` | `sup_s k s - u0^2 (e^s - 1) - v0^2 (e^-s - 1)` | `u0^2 e^s - v0^2 e^-s` |
| `DepthPotential` | `sup_z k z - H(z)` | `alpha^D [(1 - z)^-p - (1 + z)^-p]`, `p = D / (D - 2)` |

With `u0 = v0 = alpha` the hyperbolic entropy is `alpha^2 q(k / alpha^2)`, `q(z) = 2 - sqrt(4 + z^2) + z asinh(z / 2)`.
The conjugate of the depth potential is, on `|z| < 1`,

    H(z) = alpha^D (D - 2) / 2 [(1 - z)^(-2 / (D - 2)) + (1 + z)^(-2 / (D - 2)) - 2].

Source: implicit bias of `u^D - v^D`, Woodworth et al. (2020). Derived here: the entropy of unequal starts, the
conjugate `H`, and the form `z = tanh a`, `k = 2 alpha^D cosh(a)^p sinh(p a)`, in which nothing overflows.

Starting scales are kept as logarithms, so that `alpha = 1e-100` at depth 4 is no trouble: `alpha^D`, which no double
holds, is never formed. Pass `log_...` for scales beyond doubles. What ends is the resolution of the dual: a potential
of depth `D > 2` has `1 - |z|` near `alpha^(D - 2)` on its support, and below 1e-16 the point cannot be read from it
(the bounds still can: the potential is then the l1 norm to rounding).
"""

import dataclasses
import math
from typing import Any

import numpy as np

from .._checks import check_count, shape_text
from ._starts import (
    LOG2,
    alike,
    atanh,
    broadcast,
    log_2_sinh,
    log_abs,
    log_cosh,
    logarithms,
    scaled_expm1,
    scaled_expm1_less,
)
from .regularisers import EPS, ROOM, AbstractPotential


@dataclasses.dataclass(frozen=True, eq=False)
class HyperbolicEntropy(AbstractPotential):
    """The potential of `k = u^2 - v^2` from the start `u0, v0`: `k = u0^2 e^s - v0^2 e^-s` with `s = X^T nu`.

    - `alpha`: `u0 = v0 = alpha`, a number or one for each coordinate;
    - or `u0` and `v0`, of any sign, none of them zero (a factor that starts at zero stays zero: `RelativeEntropy`);
    - or `log_squares = (log u0^2, log v0^2)`, for starts whose squares leave doubles.

    For gradient flow on `|X k - y|^2 / 2`, `s = 4 int X^T (y - X k) dt`. Zero at the start `k = u0^2 - v0^2`.
    """

    alpha: Any = None
    _: dataclasses.KW_ONLY
    u0: Any = None
    v0: Any = None
    log_squares: Any = None

    def __post_init__(self):
        given = [self.alpha is not None, self.u0 is not None and self.v0 is not None, self.log_squares is not None]
        if sum(given) != 1 or ((self.u0 is None) != (self.v0 is None)):
            raise ValueError("Pass `alpha`, or both `u0` and `v0`, or `log_squares`: the start, once.")
        if given[0]:
            both = 2 * logarithms(self.alpha, None, "alpha", signed=False)
            logs = (both, both)
        elif given[1]:
            logs = tuple(2 * logarithms(getattr(self, name), None, name, signed=True) for name in ("u0", "v0"))
        else:
            names = ("log_squares[0]", "log_squares[1]")
            logs = tuple(
                logarithms(None, log, name, signed=False) for log, name in zip(self.log_squares, names, strict=True)
            )
        if not alike(*logs):
            raise ValueError(
                "`u0` and `v0` must have the same shape; "
                f"got {shape_text(logs[0].shape)} and {shape_text(logs[1].shape)}."
            )
        object.__setattr__(self, "log_squares", logs)

    @property
    def _middle(self):
        """`log(u0 v0)`, and the shift `log(u0 / v0)`: `k = 2 u0 v0 sinh(s + shift)`."""
        plus, minus = self.log_squares
        return (plus + minus) / 2, (plus - minus) / 2

    def gradient(self, k):
        middle, shift = self._middle
        plus, minus = self.log_squares
        log_ratio = log_abs(k) - middle - LOG2
        with np.errstate(over="ignore"):
            large = log_ratio > 300
            s = np.where(large, log_ratio + LOG2, np.arcsinh(np.exp(np.minimum(log_ratio, 300.0)))) * np.sign(k) - shift
            # Near the start the shift would drown `s`: one step of Newton's method from the start itself.
            u2, v2 = np.exp(plus), np.exp(minus)
            near = (np.abs(s) < 0.5) & (u2 + v2 > 1e-300) & np.isfinite(u2 + v2)
            x = np.where(near, s, 0.0)
            miss = (k - (u2 - v2)) - (u2 * np.expm1(x) - v2 * np.expm1(-x))
            step = np.where(near, miss, 0.0) / np.where(near, u2 * np.exp(x) + v2 * np.exp(-x), 1.0)
        return s + np.where(near & np.isfinite(step), step, 0.0)

    def terms(self, k):
        # The Legendre transform about the start: `f = (k - k0) s - [f*(s) - k0 s]`, in which little cancels.
        s = self.gradient(k)
        plus, minus = self.log_squares
        with np.errstate(over="ignore", invalid="ignore"):
            start = np.exp(plus) - np.exp(minus)
            return (k - start) * s - scaled_expm1_less(plus, s) - scaled_expm1_less(minus, -s)

    def conjugate_terms(self, s):
        # The linear parts apart: with `u0 = v0` they cancel, and what is left is of second order.
        plus, minus = self.log_squares
        with np.errstate(over="ignore", invalid="ignore"):
            linear = (np.exp(plus) - np.exp(minus)) * s
            return scaled_expm1_less(plus, s) + scaled_expm1_less(minus, -s) + linear

    def gradient_of_conjugate(self, s):
        middle, shift = self._middle
        x = s + shift
        with np.errstate(over="ignore"):
            return np.sign(x) * np.exp(middle + log_2_sinh(np.abs(x)))

    def curvature_of_conjugate(self, s):
        middle, shift = self._middle
        with np.errstate(over="ignore"):
            return np.exp(middle + LOG2 + log_cosh(s + shift))

    def nearer(self, share, log_size):
        logs = tuple((1 - share) * np.maximum(log, log_size) + share * log for log in self.log_squares)
        return HyperbolicEntropy(log_squares=logs)

    def distance(self, log_size):
        return float(max(np.max(log_size - log) for log in self.log_squares))

    def taken(self, indices):
        return HyperbolicEntropy(log_squares=tuple(log[indices] for log in self.log_squares))

    def sized(self, d):
        name = "alpha" if self.alpha is not None else "u0"
        return HyperbolicEntropy(log_squares=tuple(broadcast(name, log, d) for log in self.log_squares))

    def rescaled(self, e):
        return HyperbolicEntropy(log_squares=tuple(log - e * LOG2 for log in self.log_squares)), e

    @property
    def largest_log(self):
        return float(max(np.abs(log).max() for log in self.log_squares))


@dataclasses.dataclass(frozen=True, eq=False)
class DepthPotential(AbstractPotential):
    """The potential of `k = u^D - v^D` from the start `u = v = alpha`, for a depth `D > 2`.

    - `D`: an integer of at least 3 (for 2: `HyperbolicEntropy`).
    - `alpha`: positive, a number or one for each coordinate; or `log_alpha`, its logarithm.
    """

    D: int
    alpha: Any = None
    _: dataclasses.KW_ONLY
    log_alpha: Any = None

    def __post_init__(self):
        if check_count(self.D, "D", least=2) == 2:
            raise ValueError("`D` is 2, whose potential is HyperbolicEntropy(alpha); DepthPotential needs at least 3.")
        object.__setattr__(self, "log_alpha", logarithms(self.alpha, self.log_alpha, "alpha", signed=False))

    @property
    def _power(self) -> float:
        return self.D / (self.D - 2)

    def _angle(self, k):
        """`a >= 0` with `2 cosh(a)^p sinh(p a) = |k| / alpha^D`, by Newton's method in logarithms."""
        p, log_c = self._power, log_abs(k) - self.D * self.log_alpha
        # `2 p a` for small a, `e^(2 p a) / 2^p` for large: between them a smooth start.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            a = np.where(
                log_c > 600, (log_c + p * LOG2) / (2 * p), np.arcsinh(np.exp(np.minimum(log_c, 600.0))) / (2 * p)
            )
            for _ in range(60):
                miss = p * log_cosh(a) + log_2_sinh(p * a) - log_c
                slope = p * np.tanh(a) + p / np.tanh(p * a)
                # In log a where a is small: the logarithm of k is affine in it there.
                step = np.where(np.isfinite(miss), miss / (slope * np.maximum(a, 1e-300)), 0.0)
                new = np.where(a < 1, a * np.exp(-np.clip(step, -3, 3)), a - miss / slope)
                new = np.where(np.isfinite(new) & (a > 0), np.maximum(new, a / 20), a)
                done = np.abs(new - a) <= 2 * EPS * a
                a = new
                if done.all():
                    break
        return np.where(k == 0, 0.0, a)

    def gradient(self, k):
        return np.sign(k) * np.tanh(self._angle(k))

    def terms(self, k):
        a = self._angle(k)
        return np.abs(k) * np.tanh(a) - self._conjugate_of_angle(a)

    def conjugate_terms(self, s):
        return np.where(np.abs(s) < 1, self._conjugate_of_angle(atanh(s)), np.inf)

    def _conjugate_of_angle(self, a):
        p = self._power
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            x = (p - 1) * log_cosh(a) + log_cosh((p - 1) * a)
            log_factor = self.D * self.log_alpha + math.log(2 / (p - 1))
            return scaled_expm1(log_factor, x)

    def gradient_of_conjugate(self, s):
        a, p = atanh(s), self._power
        with np.errstate(over="ignore"):
            return np.sign(s) * np.exp(self.D * self.log_alpha + p * log_cosh(a) + log_2_sinh(p * np.abs(a)))

    def curvature_of_conjugate(self, s):
        return self._curvature_of_angle(atanh(s))

    def weights(self, k):
        return self._curvature_of_angle(self._angle(k))

    def _curvature_of_angle(self, a):
        # `p alpha^D [(1 - z)^(-p-1) + (1 + z)^(-p-1)]`.
        p = self._power
        with np.errstate(over="ignore"):
            logs = (p + 1) * log_cosh(a) + log_cosh((p + 1) * a)
            return np.exp(self.D * self.log_alpha + math.log(2 * p) + logs)

    def factor_into_domain(self, s):
        largest = float(np.abs(s).max(initial=0.0))
        return (1 - ROOM) / largest if largest > 1 - ROOM else 1.0

    def least_room(self, log_size: float) -> float:
        """`1 - |z|`, in order of magnitude, for the largest `alpha` and entries of size `e^log_size`."""
        log_ratio = self.D * float(np.max(self.log_alpha)) - log_size
        return math.exp(min(log_ratio / self._power, 0.0))

    def longest_step(self, s, ds):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return float(np.min(np.where(ds != 0, (1 - s * np.sign(ds)) / np.abs(ds), np.inf), initial=np.inf))

    def nearer(self, share, log_size):
        own = self.log_alpha
        return DepthPotential(self.D, log_alpha=(1 - share) * np.maximum(own, log_size / self.D) + share * own)

    def distance(self, log_size):
        return float(np.max(log_size - self.D * self.log_alpha))

    def taken(self, indices):
        return DepthPotential(self.D, log_alpha=self.log_alpha[indices])

    def sized(self, d):
        return DepthPotential(self.D, log_alpha=broadcast("alpha", self.log_alpha, d))

    def rescaled(self, e):
        return DepthPotential(self.D, log_alpha=self.log_alpha - e * LOG2 / self.D), e

    @property
    def largest_log(self):
        return float(self.D * np.abs(self.log_alpha).max())
