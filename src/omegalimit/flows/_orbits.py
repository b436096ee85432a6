"""The curves on which neurons move: gradient flow keeps each `theta_i` on one, and its place there is integrated.

`theta_i' = u_i grad k_i(theta_i)` with a number `u_i` common to all coordinates of a neuron: whatever `u_i` does,
theta_i stays on the orbit of `d theta / d tau = grad k_i(theta)` through its start, at `tau_i = int u_i dt`. (The paper
calls the orbit of a product, `a_j^2 - a_l^2 = const`, a structural invariant manifold.) With a coordinate z_i on it,

    z_i' = u_i rate_i(z_i),    rate = dz/dtau > 0,    k_i = k_i(z_i) increasing.

So the whole network is d numbers, whatever the depth, and a neuron that leaves, `k_i` back to zero, returns along the
way it came: in the weights themselves the orbit is a difference `a^2 - b^2` of size s^2 between weights of size one,
which doubles cannot hold for s < 1e-8. Coordinates are logarithms of the weights in units of s: nothing underflows.

Each family: `at(z)` gives `k`, `dk/dz`, `rate`, `d rate/dz`; rates are per unit of `tau e^{log_unit}`, which keeps them
within doubles.
"""

import abc
import dataclasses
import math

import numpy as np
from jaxtyping import Float

Array = Float[np.ndarray, "..."]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where the neurons are: `k`, its derivative by z, dz/dtau in the orbit's unit, its derivative by z."""

    k: Array
    slope: Array
    rate: Array
    rate_slope: Array


class AbstractOrbits(abc.ABC):
    """The orbits of d neurons through `e^{log_s} shape`.

    - `pole`: m where `e^{-m |z|}` falls like the tau that is left before an end; 0 where tau has no end.
    - `start`: z at time zero, shape (d,).
    - `log_unit`: rates are `dz / (e^{-log_unit} dtau)`.
    - `unit`: a change of z that changes weights by a factor e at most, shape (d,) or 1; where `pole` is 0.
    - `frozen`: neurons whose gradient is zero at the start: they stay there for ever.
    """

    pole: float
    start: Array
    log_unit: float
    frozen: np.ndarray
    unit: Array | float = 1.0
    far_is_cheap: bool = True
    """False where a trial step that leads far out costs as much as the way there."""

    def nearer_end(self, z: Array) -> Array:
        """The sign of z at the end of the orbit that is nearer, or at the only one that is at finite tau."""
        return np.where(z < 0, -1.0, 1.0)

    @abc.abstractmethod
    def at(self, z: Float[np.ndarray, "... d"]) -> Place:
        """The neurons at z, leading axes free."""

    def k_and_rate(self, z: Float[np.ndarray, "... d"]) -> tuple[Array, Array | None]:
        """`k` and `rate` alone; `None` for a rate that is one everywhere."""
        place = self.at(z)
        return place.k, place.rate

    @abc.abstractmethod
    def components(self, z: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d m"]:
        """The weights themselves."""

    @abc.abstractmethod
    def remaining(self, z: Array, upward: np.ndarray) -> Array:
        """How much `tau`, in the orbit's unit, is left before the neuron has grown from z to size one, upward or
        downward, shape (d,); infinite where it never does. For s -> 0 these are the growth times that the orbit
        itself has left."""

    @abc.abstractmethod
    def never(self, upward: np.ndarray) -> np.ndarray:
        """Where `remaining` is infinite: neurons that no push in this direction brings to life, shape (d,)."""


class QuadraticOrbits(AbstractOrbits):
    """`k = c_p p^2 - c_q q^2`, with `p = p_0 e^{lam_p tau}`, `q = q_0 e^{-lam_q tau}`; z = tau.

    `c u^2 - e v^2` has p = u, q = v, and rates 2c and 2e; the product `a b` has `p = (a+b)/sqrt 2`,
    `q = (a-b)/sqrt 2`, both c = 1/2 and both rates 1.

    - `coefficients`: `(c_p, c_q)`, shape (2,) or (d, 2), positive.
    """

    def __init__(self, shape: Float[np.ndarray, "d 2"], log_s: float, coefficients: Array, *, product: bool) -> None:
        self.product = product
        c = np.broadcast_to(np.asarray(coefficients, dtype=float), shape.shape).T
        self.lam = 2 * c
        self.unit = 1 / self.lam.max(axis=0)
        p, q = (shape[:, 0] + shape[:, 1], shape[:, 0] - shape[:, 1]) if product else (shape[:, 0], shape[:, 1])
        unit = math.sqrt(0.5) if product else 1.0
        self.signs = np.stack([np.sign(p), np.sign(q)])
        with np.errstate(divide="ignore"):
            self.log_start = log_s + np.log(np.abs(np.stack([p, q])) * unit)
        self.log_up, self.log_down = 2 * self.log_start + np.log(c)
        self.turn_up, self.turn_down = 2 * self.lam
        self.start = np.zeros(len(shape))
        self.pole, self.log_unit = 0.0, 0.0
        self.frozen = np.asarray(~shape.any(axis=1))

    def at(self, z: Array) -> Place:
        up, down = np.exp(self.log_up + self.turn_up * z), np.exp(self.log_down - self.turn_down * z)
        slope = self.turn_up * up + self.turn_down * down
        return Place(k=up - down, slope=slope, rate=np.ones_like(z), rate_slope=np.zeros_like(z))

    def k_and_rate(self, z: Array) -> tuple[Array, None]:
        return np.exp(self.log_up + self.turn_up * z) - np.exp(self.log_down - self.turn_down * z), None

    def components(self, z: Array) -> Array:
        p = self.signs[0] * np.exp(self.log_start[0] + self.lam[0] * z)
        q = self.signs[1] * np.exp(self.log_start[1] - self.lam[1] * z)
        pair = ((p + q) * math.sqrt(0.5), (p - q) * math.sqrt(0.5)) if self.product else (p, q)
        return np.stack(pair, axis=-1)

    def remaining(self, z: Array, upward: np.ndarray) -> Array:
        log_size = np.where(upward, self.log_start[0] + self.lam[0] * z, self.log_start[1] - self.lam[1] * z)
        return np.maximum(-log_size, 0.0) / np.where(upward, self.lam[0], self.lam[1])

    def never(self, upward: np.ndarray) -> np.ndarray:
        return np.isneginf(np.where(upward, self.log_start[0], self.log_start[1]))


class PowerOrbits(AbstractOrbits):
    """`k = u^D - v^D`, D > 2: `a = (u/s)^{2-D}` falls and `b = (v/s)^{2-D}` rises by D (D-2) s^{D-2} tau; z = log b/a.

    With S = a + b conserved, `a = S sigma(-z)`, `b = S sigma(z)`, and `dz/dtau` is in proportion to `S / (a b)`.
    """

    def __init__(self, shape: Float[np.ndarray, "d 2"], log_s: float, D: int) -> None:
        self.D, self.log_s = D, log_s
        log_a, log_b = (2 - D) * np.log(shape.T)
        self.log_S = np.logaddexp(log_a, log_b)
        self.log_speed = math.log(D * (D - 2))
        self.start = log_b - log_a
        self.pole = 1.0
        # Half of the way between t and the clock of the first activation: neither end leaves double precision.
        self.log_unit = 0.5 * (D - 2) * log_s
        self.frozen = np.zeros(len(shape), dtype=bool)

    def _logs(self, z: Array) -> tuple[Array, Array]:
        up, down = np.logaddexp(0.0, z), np.logaddexp(0.0, -z)
        scale = 1 / (self.D - 2)
        return self.log_s + (up - self.log_S) * scale, self.log_s + (down - self.log_S) * scale

    def at(self, z: Array) -> Place:
        up, down = np.logaddexp(0.0, z), np.logaddexp(0.0, -z)
        log_u, log_v = self._logs(z)
        U, V = np.exp(self.D * log_u), np.exp(self.D * log_v)
        rate = np.exp(self.log_speed - self.log_S + up + down + self.log_unit)
        return Place(
            k=U - V,
            slope=self.D / (self.D - 2) * (U * np.exp(-down) + V * np.exp(-up)),
            rate=rate,
            rate_slope=rate * np.tanh(z / 2),
        )

    def k_and_rate(self, z: Array) -> tuple[Array, Array]:
        up, down = np.logaddexp(0.0, z), np.logaddexp(0.0, -z)
        scale = self.D / (self.D - 2)
        top = self.D * self.log_s
        k = np.exp(top + (up - self.log_S) * scale) - np.exp(top + (down - self.log_S) * scale)
        return k, np.exp(self.log_speed - self.log_S + up + down + self.log_unit)

    def components(self, z: Array) -> Array:
        return np.exp(np.stack(self._logs(z), axis=-1))

    def remaining(self, z: Array, upward: np.ndarray) -> Array:
        return np.exp(self.log_S - self.log_speed - np.logaddexp(0.0, np.where(upward, z, -z)) - self.log_unit)

    def never(self, upward: np.ndarray) -> np.ndarray:
        return np.zeros(upward.shape, dtype=bool)


class ProductOrbits(AbstractOrbits):
    """`k = a_1 ... a_L`, L >= 3, in units of s: with x the weight that starts smallest, `a_j = +-sqrt(x^2 + mu_j^2)`.

    Where every mu_j > 0, x may pass through zero, and z = asinh(x / min mu). Where another weight ties with it (a
    mu_j = 0), neither can, and z = log |x|: on the one side it takes for ever to decay. Where two weights are exactly
    zero, nothing moves.
    """

    def __init__(self, shape: Float[np.ndarray, "d L"], log_s: float) -> None:
        d, L = shape.shape
        self.L, self.log_s, self.d = L, log_s, d
        self.pole = L - 2.0
        rows = np.arange(d)
        self.least = np.abs(shape).argmin(axis=1)
        x0 = shape[rows, self.least]
        others = np.ones(shape.shape, dtype=bool)
        others[rows, self.least] = False
        rest = shape[others].reshape(d, L - 1)
        self.mu = np.sqrt((np.abs(rest) - np.abs(x0)[:, None]) * (np.abs(rest) + np.abs(x0)[:, None]))
        self.signs = np.where(rest < 0, -1.0, 1.0)
        self.sign = self.signs.prod(axis=1)
        self.frozen = (shape == 0).sum(axis=1) >= 2
        self.tied = (self.mu.min(axis=1) == 0) & ~self.frozen
        self.any_tied, self.any_frozen = bool(self.tied.any()), bool(self.frozen.any())
        self.delta = np.where(self.tied | self.frozen, 1.0, self.mu.min(axis=1))
        self.side = np.where(x0 < 0, -1.0, 1.0)
        with np.errstate(divide="ignore"):
            self.start = np.where(self.tied, np.log(np.abs(x0)), np.arcsinh(x0 / self.delta))
        self.log_unit = 0.5 * (L - 2) * log_s  # as above

    def nearer_end(self, z: Array) -> Array:
        return np.where((z < 0) & ~self.tied, -1.0, 1.0)

    def _x(self, z: Array) -> tuple[Array, Array, Array]:
        """`x`, `dx/dz` and `d log|dx/dz| / dz`."""
        if not self.any_tied:
            return self.delta * np.sinh(z), self.delta * np.cosh(z), np.tanh(z)
        free = np.where(self.tied, 0.0, z)
        grown = self.side * np.exp(np.where(self.tied, z, 0.0))
        x = np.where(self.tied, grown, self.delta * np.sinh(free))
        dx = np.where(self.tied, grown, self.delta * np.cosh(free))
        return x, dx, np.where(self.tied, 1.0, np.tanh(free))

    def _log_others(self, x: Array) -> Array:
        """Log of the product of the other weights' sizes, in units of s."""
        return np.log(np.hypot(x[..., None], self.mu)).sum(axis=-1)

    def at(self, z: Array) -> Place:
        x, dx, curl = self._x(z)
        size = np.hypot(x[..., None], self.mu)
        share = x[..., None] / size
        log_size, log_dx = np.log(size).sum(axis=-1), np.log(np.abs(dx))
        sign = self.sign * np.sign(dx)
        rate = sign * np.exp(log_size - log_dx + self.log_unit)
        rate_slope = rate * (dx * (share / size).sum(axis=-1) - curl)
        slope = sign * np.exp(log_size + log_dx + self.L * self.log_s) * (1 + (share**2).sum(axis=-1))
        # In logs: the product of the others may be beyond double precision where k is not.
        k = self.sign * np.sign(x) * np.exp(log_size + np.log(np.abs(x)) + self.L * self.log_s)
        if self.any_frozen:
            k, slope, rate, rate_slope = (np.where(self.frozen, 0.0, part) for part in (k, slope, rate, rate_slope))
        return Place(k=k, slope=slope, rate=rate, rate_slope=rate_slope)

    def k_and_rate(self, z: Array) -> tuple[Array, Array]:
        x, dx, _ = self._x(z)
        log_size, log_dx = self._log_others(x), np.log(np.abs(dx))
        rate = self.sign * np.sign(dx) * np.exp(log_size - log_dx + self.log_unit)
        k = self.sign * np.sign(x) * np.exp(log_size + np.log(np.abs(x)) + self.L * self.log_s)
        if self.any_frozen:
            k, rate = np.where(self.frozen, 0.0, k), np.where(self.frozen, 0.0, rate)
        return k, rate

    def components(self, z: Array) -> Array:
        x, _, _ = self._x(z)
        rest = self.signs * np.hypot(x[..., None], self.mu)
        theta = np.empty((*x.shape, self.L))
        for i, least in enumerate(self.least):
            theta[..., i, least] = 0.0 if self.frozen[i] else x[..., i]
            theta[..., i, np.arange(self.L) != least] = rest[..., i, :]
        return theta * math.exp(self.log_s)

    def _heading(self, upward: np.ndarray) -> Array:
        """Which way z goes; tied neurons only ever grow on their own side, for z rising."""
        return np.where(upward, 1.0, -1.0) * self.sign * np.where(self.tied, self.side, 1.0)

    def never(self, upward: np.ndarray) -> np.ndarray:
        return self.frozen | (self.tied & (self._heading(upward) < 0))

    def remaining(self, z: Array, upward: np.ndarray) -> Array:
        heading = self._heading(upward)
        # The integrand falls like e^{-(L-2) z} beyond z = 0, and rises at most like that before.
        nodes, weights = np.polynomial.legendre.leggauss(8)
        reach = np.maximum(0.0, -heading * z) + 45.0 / (self.L - 2) + 5.0
        total = np.zeros(self.d)
        panels = int(np.ceil(reach.max()))
        width = reach / panels
        for panel in range(panels):
            for node, weight in zip(nodes, weights, strict=True):
                place = z + heading * width * (panel + 0.5 + 0.5 * node)
                x, dx, _ = self._x(place)
                log_rate = self._log_others(x) - np.log(np.abs(dx))
                total += 0.5 * weight * width * np.exp(-log_rate)
        return np.where(self.never(upward), np.inf, total * math.exp(-self.log_unit))
