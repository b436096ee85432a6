"""What an interpolant is least in: convex functions `f(k) = sum_i f_i(k_i)` with their conjugates.

| class | `f_i(k)` | `k = (f_i^*)'(s)` |
| --- | --- | --- |
| `ModifiedL1` | `t+ max(k, 0) + t- max(-k, 0)` | - |
| `SquaredNorm` | `k^2 / 2` | `s` |
| `RelativeEntropy` | `k log(k / q0) - k + q0`, `k >= 0` | `q0 e^s` |

and those of `limits/potentials.py`. Each is zero at its minimum and nowhere negative. The modified l1 norm is that of
the growth times of diagonal networks; relative entropy is the Bregman divergence of multiplicative flows (mirror
descent, Nemirovski and Yudin 1983).
"""

import abc
import dataclasses
import math
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ._starts import LOG2, alike, at, broadcast, entry, expm1_less, logarithms, parameter

EPS = float(np.finfo(float).eps)
# Scaling into an open domain or onto a bound leaves this share, which rounding would otherwise cross.
ROOM = 4 * EPS


class AbstractRegulariser(abc.ABC):
    """A convex function `f(k) = sum_i f_i(k_i) >= 0`; arrays of shape `(d,)`."""

    def value(self, k: ArrayLike) -> float:
        """`f(k)`; infinite outside the domain."""
        return float(np.sum(self.terms(np.asarray(k, dtype=float))))

    def conjugate(self, s: ArrayLike) -> float:
        """`f^*(s) = sup_k s.k - f(k)`; infinite outside the domain."""
        return float(np.sum(self.conjugate_terms(np.asarray(s, dtype=float))))

    @abc.abstractmethod
    def terms(self, k: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """`f_i(k_i)`, infinite outside the domain."""

    @abc.abstractmethod
    def conjugate_terms(self, s: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """`f_i^*(s_i)`, infinite outside the domain (the closed domain, within rounding)."""

    @abc.abstractmethod
    def gradient(self, k: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """An element of the subdifferential at each `k_i`; outside the domain, of its nearest point."""

    @abc.abstractmethod
    def weights(self, k: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """`1 / f_i''(k_i)`, the metric in which a small correction costs alike; for l1, the size `|k_i|` itself."""

    @abc.abstractmethod
    def factor_into_domain(self, s: Float[np.ndarray, " d"]) -> float:
        """The factor that takes `s` into the domain of the conjugate; for a norm, onto its boundary."""

    @abc.abstractmethod
    def taken(self, indices) -> Self:
        """The function of these coordinates alone; every parameter has shape `(d,)`."""

    @abc.abstractmethod
    def sized(self, d: int) -> Self:
        """The same with every parameter of shape `(d,)`. Raises `ValueError` where one has another length."""

    @abc.abstractmethod
    def rescaled(self, e: int) -> tuple["AbstractRegulariser", int]:
        """`g` and `a` with `f(2^e k) = 2^a g(k)`, exactly but for the logarithm of a starting scale."""

    @property
    @abc.abstractmethod
    def largest_log(self) -> float:
        """The largest logarithm of a starting scale: its rounding moves `f` by `eps` times as much of `f^*(f'(k))`."""

    @abc.abstractmethod
    def minimum(self, d: int) -> Float[np.ndarray, " d"]:
        """Where `f` is zero, of `d` coordinates."""

    def support(self, k: Float[np.ndarray, " d"], s: Float[np.ndarray, " d"]) -> np.ndarray:
        """The coordinates that are not zero."""
        return np.flatnonzero(k)


class AbstractPotential(AbstractRegulariser):
    """A strictly convex function with a conjugate that is smooth inside its domain."""

    @abc.abstractmethod
    def gradient_of_conjugate(self, s: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """`k_i = (f_i^*)'(s_i)`; infinite with its sign at and beyond the boundary."""

    @abc.abstractmethod
    def curvature_of_conjugate(self, s: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """`(f_i^*)''(s_i)`."""

    def minimum(self, d):
        return self.gradient_of_conjugate(np.zeros(d))

    def longest_step(self, s: Float[np.ndarray, " d"], ds: Float[np.ndarray, " d"]) -> float:
        """The supremum of `x` with `s + x ds` in the open domain of the conjugate."""
        return float("inf")

    @abc.abstractmethod
    def nearer(self, share: float, log_size: float) -> "AbstractPotential":
        """The potential with starting scales moved, in logarithms, from `e^log_size` (share 0) to their own (1)."""

    @abc.abstractmethod
    def distance(self, log_size: float) -> float:
        """How far that is: the largest change of a logarithm."""

    def weights(self, k):
        return self.curvature_of_conjugate(self.gradient(k))

    def factor_into_domain(self, s):
        return 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class ModifiedL1(AbstractRegulariser):
    """`R(k) = sum_i t+_i max(k_i, 0) + t-_i max(-k_i, 0)`; with both 1 the l1 norm.

    - `t_plus`, `t_minus`: positive, a number or one for each coordinate. Infinite: that sign is forbidden.

    The conjugate is zero on `-t- <= s <= t+`, infinite elsewhere. Raises `ValueError` for an entry that is not positive
    or NaN, and where both are infinite for a coordinate.
    """

    t_plus: Any = 1.0
    t_minus: Any = 1.0

    def __post_init__(self):
        for name in ("t_plus", "t_minus"):
            array = parameter(getattr(self, name), name)
            bad = ~(array > 0)
            if bad.any():
                raise ValueError(f"{entry(name, array, bad)}; it must be positive (infinite: that sign is forbidden).")
            object.__setattr__(self, name, array)
        both = np.isinf(self.t_plus) & np.isinf(self.t_minus) if alike(self.t_plus, self.t_minus) else np.False_
        if np.any(both):
            raise ValueError(
                f"`t_plus` and `t_minus` are both infinite{at(both)}: that coordinate can only be zero; drop it."
            )

    def terms(self, k):
        # Infinite times zero is no cost: a forbidden sign that does not occur.
        up, down = np.maximum(k, 0), np.maximum(-k, 0)
        with np.errstate(invalid="ignore"):
            return np.where(up > 0, self.t_plus * up, 0.0) + np.where(down > 0, self.t_minus * down, 0.0)

    def conjugate_terms(self, s):
        room = 1 + 2 * ROOM
        return np.where((s <= self.t_plus * room) & (-s <= self.t_minus * room), 0.0, np.inf)

    def gradient(self, k):
        with np.errstate(invalid="ignore"):
            slope = np.where(k > 0, self.t_plus, np.where(k < 0, -self.t_minus, 0.0))
        return np.where(np.isinf(slope), 0.0, slope)

    def weights(self, k):
        return np.abs(k)

    def factor_into_domain(self, s):
        gauge = float(np.max(np.maximum(s / self.t_plus, -s / self.t_minus), initial=0.0))
        return 1 / gauge if 0 < gauge < np.inf else 1.0

    def room(self, s: Float[np.ndarray, " d"]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """`1 - s / t+` and `1 + s / t-`: what is left to either bound, as a share of it; 1 to an infinite one."""
        return 1 - s / self.t_plus, 1 + s / self.t_minus

    def support(self, k, s):
        """The coordinates whose share of `R(k)` exceeds the share of its bound by which `s_i` falls short of it."""
        terms = self.terms(k)
        total = terms.sum()
        if not 0 < total < np.inf:
            return np.flatnonzero(k)
        above, below = self.room(s)
        return np.flatnonzero((k != 0) & (terms / total > np.where(k > 0, above, below)))

    def minimum(self, d):
        return np.zeros(d)

    def taken(self, indices):
        return ModifiedL1(self.t_plus[indices], self.t_minus[indices])

    def sized(self, d):
        return ModifiedL1(broadcast("t_plus", self.t_plus, d), broadcast("t_minus", self.t_minus, d))

    def rescaled(self, e):
        finite = np.concatenate([t[np.isfinite(t)] for t in (self.t_plus, self.t_minus)])
        unit = math.frexp(float(finite.max()))[1]
        return ModifiedL1(np.ldexp(self.t_plus, -unit), np.ldexp(self.t_minus, -unit)), e + unit

    @property
    def largest_log(self):
        return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class SquaredNorm(AbstractPotential):
    """`f(k) = |k|^2 / 2`: the interpolant of least Euclidean norm."""

    def terms(self, k):
        return 0.5 * k * k

    def conjugate_terms(self, s):
        return 0.5 * s * s

    def gradient(self, k):
        return np.array(k)

    def gradient_of_conjugate(self, s):
        return np.array(s)

    def curvature_of_conjugate(self, s):
        return np.ones_like(s)

    def nearer(self, share, log_size):
        return self

    def distance(self, log_size):
        return 0.0

    def taken(self, indices):
        return self

    def sized(self, d):
        return self

    def rescaled(self, e):
        return self, 2 * e

    @property
    def largest_log(self):
        return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class RelativeEntropy(AbstractPotential):
    """`KL(q | q0) = sum_i q_i log(q_i / q0_i) - q_i + q0_i` over `q >= 0`.

    - `q0`: positive, a number or one for each coordinate; or `log_q0`, its logarithm.

    The weighted entropy `sum q log(q / w) - q` is this one with `q0 = w`, less the constant `sum w`. Raises
    `ValueError` for an entry that is not positive or not finite: mass never comes back to a coordinate without it.
    """

    q0: Any = None
    _: dataclasses.KW_ONLY
    log_q0: Any = None

    def __post_init__(self):
        logs = logarithms(self.q0, self.log_q0, "q0", signed=False)
        object.__setattr__(self, "log_q0", logs)
        object.__setattr__(self, "q0", np.exp(logs) if self.q0 is None else parameter(self.q0, "q0"))

    def terms(self, k):
        s = self.gradient(k)
        small = np.abs(s) < 1
        x = np.where(small, s, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            near = self.q0 * (x * np.expm1(x) - expm1_less(x))
            far = np.where(k > 0, k * (s - 1), 0.0) + self.q0
        return np.where(k < 0, np.inf, np.where(small & (k > 0), near, far))

    def conjugate_terms(self, s):
        with np.errstate(over="ignore"):
            return np.where(s > 1, np.exp(self.log_q0 + s) - self.q0, self.q0 * np.expm1(np.minimum(s, 1)))

    def gradient(self, k):
        """`log(q / q0)`, minus infinity at zero and below."""
        with np.errstate(divide="ignore", over="ignore"):
            s = np.log(np.maximum(k, 0)) - self.log_q0
            # The quotient is exact where both are normal numbers near each other.
            near = np.log1p(np.where(np.abs(s) < 1, (k - self.q0) / np.where(self.q0 > 0, self.q0, 1.0), 0.0))
        return np.where((np.abs(s) < 1) & (self.q0 > 1e-300), near, s)

    def weights(self, k):
        return np.maximum(k, 0)

    def gradient_of_conjugate(self, s):
        with np.errstate(over="ignore"):
            return np.exp(self.log_q0 + s)

    curvature_of_conjugate = gradient_of_conjugate

    def nearer(self, share, log_size):
        return RelativeEntropy(log_q0=(1 - share) * log_size + share * self.log_q0)

    def distance(self, log_size):
        return float(np.abs(self.log_q0 - log_size).max())

    def taken(self, indices):
        return RelativeEntropy(self.q0[indices], log_q0=self.log_q0[indices])

    def sized(self, d):
        return RelativeEntropy(broadcast("q0", self.q0, d), log_q0=broadcast("log_q0", self.log_q0, d))

    def rescaled(self, e):
        return RelativeEntropy(np.ldexp(self.q0, -e), log_q0=self.log_q0 - e * LOG2), e

    @property
    def largest_log(self):
        return float(np.abs(self.log_q0).max())
