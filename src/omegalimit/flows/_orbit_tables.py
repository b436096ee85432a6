"""Orbits of neurons that are a user's functions: integrated once, kept as tables of `k` against `tau`.

In polar coordinates `theta = e^rho omega` the orbit `theta' = grad k(theta)` is

    rho' = omega . grad k / |theta|,    omega' = (grad k - (omega . grad k) omega) / |theta|,

which at the origin is the power iteration of the Hessian: no exponent is lost however small the start. Both ends of the
orbit draw nearer to the extreme eigenvectors, so errors die out. The table holds `kappa = asinh(k / k_0)`, nearly a
straight line over hundreds of decades, with two derivatives: `kappa' = |grad k|^2 / sqrt(k^2 + k_0^2)` is exact. Each
interval is halved until the quintic between its ends is right in the middle to 1e-11.
"""

import math

import numpy as np
import scipy.integrate
from jaxtyping import Float

from ..models.diagonal import Neuron, NeuronFunctions
from ._orbits import AbstractOrbits, Array, Place

RTOL, TABLE_TOL = 1e-12, 1e-11
MOST_HALVINGS = 10
MOST_PIECES = 5000
LARGEST = 1e8  # a neuron's k, in units of what the data ask of it, beyond which a trial step is refused


class _Branch:
    """One end of an orbit, from tau = 0 outward, made longer when asked."""

    def __init__(self, neuron: Neuron, start: Array, log_s: float, sign: float, k0: float, limit: float) -> None:
        self.neuron, self.sign, self.k0, self.limit = neuron, sign, k0, limit
        size = float(np.linalg.norm(start))
        y0 = np.concatenate([[log_s + math.log(size)], start / size])
        self.solver = scipy.integrate.DOP853(self._field, 0.0, y0, np.inf, rtol=RTOL, atol=RTOL)
        self.pieces: list = []
        self.ends = [0.0]
        self.tau = np.zeros(1)
        self.kappa = self._kappas(y0[None])
        self.complete = False

    def _field(self, _time: float, y: Array) -> Array:
        omega = y[1:]
        r = math.exp(min(y[0], 300.0))
        g = self.sign * self.neuron.gradient(r * omega[None])[0] / r
        along = omega @ g
        return np.concatenate([[along], g - along * omega])

    def _kappas(self, y: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B 3"]:
        """`kappa` and its first two derivatives by tau."""
        theta = np.exp(y[:, :1]) * y[:, 1:]
        k, g = self.neuron.value_and_gradient(theta)
        H = self.neuron.hessian(theta)
        speed = np.sum(g * g, axis=1)
        bend = 2 * np.einsum("bi,bij,bj->b", g, H, g)
        size = np.hypot(k, self.k0)
        return np.stack([np.arcsinh(k / self.k0), speed / size, bend / size - (k / size) * (speed / size) ** 2], axis=1)

    def reach(self, tau: float) -> bool:
        """Make the table longer until it holds `tau` (of this branch's sign, as a length); False where it ends."""
        while (self.ends[-1] < tau or not self.pieces) and not self.complete:
            self._advance()
        return self.ends[-1] >= tau

    def _advance(self) -> None:
        with np.errstate(all="ignore"):
            try:
                self.solver.step()
            except (ValueError, FloatingPointError):
                self.complete = True
                return
        if self.solver.status == "failed" or not np.isfinite(self.solver.y).all():
            self.complete = True
            return
        piece = self.solver.dense_output()
        start, end = float(self.solver.t_old or 0.0), float(self.solver.t)
        tau = np.linspace(start, end, 5)
        kappa = self._kappas(piece(tau).T)
        for _ in range(MOST_HALVINGS):
            middle = 0.5 * (tau[:-1] + tau[1:])
            exact = self._kappas(piece(middle).T)
            guess = quintic(0.5, self.sign * (tau[1:] - tau[:-1]), kappa[:-1], kappa[1:])[0]
            bad = ~(np.abs(guess - exact[:, 0]) <= TABLE_TOL * np.maximum(1.0, np.abs(exact[:, 0])))
            if not bad.any():
                break
            where = np.flatnonzero(bad) + 1
            tau, kappa = np.insert(tau, where, middle[bad]), np.insert(kappa, where, exact[bad], axis=0)
        self.pieces.append(piece)
        self.ends.append(end)
        self.tau = np.concatenate([self.tau, tau[1:]])
        self.kappa = np.concatenate([self.kappa, kappa[1:]])
        if len(self.pieces) >= MOST_PIECES or abs(self.k0 * math.sinh(min(abs(kappa[-1, 0]), 700.0))) > self.limit:
            self.complete = True

    def interval(self, length: float) -> tuple[float, float, Array, Array] | None:
        """The share of a table's interval at which a length lies, the signed length of that interval, and its two ends;
        `None` beyond the table's end."""
        if not self.reach(length):
            return None
        i = min(max(int(self.tau.searchsorted(length, side="right")) - 1, 0), self.tau.size - 2)
        h = self.tau[i + 1] - self.tau[i]
        return (length - self.tau[i]) / h, self.sign * h, self.kappa[i], self.kappa[i + 1]

    def polar(self, tau: float) -> Array:
        """`(rho, omega)` at a length within the table."""
        if not self.pieces:
            self._advance()
        i = min(max(int(np.searchsorted(self.ends, tau, side="left")) - 1, 0), len(self.pieces) - 1)
        return self.pieces[i](min(tau, self.ends[-1]))


def quintic(x: Array | float, h: Array, left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Value and two derivatives, at the share `x` of an interval of signed length `h`, of the quintic with the values
    and two derivatives of `left` and `right`, each (..., 3)."""
    f0, g0, b0 = left[..., 0], left[..., 1] * h, left[..., 2] * h * h
    f1, g1, b1 = right[..., 0], right[..., 1] * h, right[..., 2] * h * h
    # From the left end: f0 + g0 x + b0/2 x^2 + x^3 (p + q x + r x^2).
    A, B, C = f1 - f0 - g0 - 0.5 * b0, g1 - g0 - b0, b1 - b0
    p, q, r = 10 * A - 4 * B + 0.5 * C, -15 * A + 7 * B - C, 6 * A - 3 * B + 0.5 * C
    value = f0 + x * (g0 + x * (0.5 * b0 + x * (p + x * (q + x * r))))
    first = g0 + x * (b0 + x * (3 * p + x * (4 * q + x * 5 * r)))
    second = b0 + x * (6 * p + x * (12 * q + x * 20 * r))
    return value, first / h, second / (h * h)


class TableOrbits(AbstractOrbits):
    """The orbits of `NeuronFunctions`; z = tau.

    - `k_unit`: the size of k that the data ask for, shape (d,).
    """

    far_is_cheap = False  # the table would have to be made as long

    def __init__(self, model: NeuronFunctions, shape: Array, log_s: float, k_unit: Array) -> None:
        d = len(shape)
        self.width = shape.shape[1]
        self.pole, self.start, self.log_unit = 0.0, np.zeros(d), 0.0
        self.neurons = [model.neuron(i) for i in range(d)]
        self.low, self.high = model.extreme_eigenvalues(d)
        self.unit = 1 / np.maximum(np.abs(self.low), np.abs(self.high))
        self.frozen = np.array([not np.any(shape[i, : n.m]) for i, n in enumerate(self.neurons)])
        self.k0 = np.empty(d)
        self.log_ends = np.full((2, d), -np.inf)  # log of the start along the two extreme eigenvectors
        self.branches: list[tuple[_Branch, _Branch] | None] = []
        for i, neuron in enumerate(self.neurons):
            own = shape[i, : neuron.m]
            lam = max(abs(self.low[i]), abs(self.high[i]))
            extremes = np.linalg.eigh(neuron.tensors[2])[1][:, [0, -1]]
            with np.errstate(divide="ignore"):
                self.log_ends[:, i] = log_s + np.log(np.abs(extremes.T @ own))
            self.k0[i] = max(0.5 * lam, 1e-300) * math.exp(2 * (log_s + math.log(max(np.linalg.norm(own), 1e-300))))
            if self.frozen[i]:
                self.branches.append(None)
                continue
            limit = LARGEST * max(float(k_unit[i]), self.k0[i])
            made = [_Branch(neuron, own, log_s, sign, self.k0[i], limit) for sign in (1.0, -1.0)]
            self.branches.append((made[0], made[1]))

    def at(self, z: Array) -> Place:
        z = np.asarray(z, dtype=float)
        flat = z.ravel()
        # Intervals one by one, the quintics in one go; x = NaN makes the place beyond an end NaN.
        x, h = np.zeros(flat.size), np.ones(flat.size)
        left, right = np.zeros((flat.size, 3)), np.zeros((flat.size, 3))
        for j, tau in enumerate(flat.tolist()):
            branches = self.branches[j % len(self.branches)]
            if branches is None:
                continue
            found = branches[0 if tau >= 0 else 1].interval(abs(tau)) if math.isfinite(tau) else None
            if found is None:
                x[j] = math.nan
            else:
                x[j], h[j], left[j], right[j] = found
        kappa, first, _ = quintic(x, h, left, right)
        kappa, first = kappa.reshape(z.shape), first.reshape(z.shape)
        one = np.ones_like(z)
        return Place(
            k=self.k0 * np.sinh(kappa), slope=self.k0 * np.cosh(kappa) * first, rate=one, rate_slope=np.zeros_like(z)
        )

    def polar(self, z: Array) -> tuple[Array, Array]:
        """`log |theta|`, shape (..., d), and the unit vectors, shape (..., d, m)."""
        flat = np.asarray(z, dtype=float).reshape(-1, z.shape[-1])
        log_r, omega = np.full(flat.shape, -np.inf), np.zeros((*flat.shape, self.width))
        for i, branches in enumerate(self.branches):
            if branches is None:
                continue
            for row, tau in enumerate(flat[:, i]):
                y = branches[0 if tau >= 0 else 1].polar(abs(tau))
                log_r[row, i], omega[row, i, : y.size - 1] = y[0], y[1:]
        return log_r.reshape(z.shape), omega.reshape(*z.shape, self.width)

    def components(self, z: Array) -> Array:
        log_r, omega = self.polar(z)
        return np.exp(log_r)[..., None] * omega

    def remaining(self, z: Array, upward: np.ndarray) -> Array:
        """By the linear motion near the origin, where the part along an extreme eigenvector is `e^{lam tau}` times what
        it was at the start."""
        log_size = np.where(upward, self.log_ends[1] + self.high * z, self.log_ends[0] + self.low * z)
        lam = np.where(upward, self.high, -self.low)
        return np.where(lam > 0, np.maximum(-log_size, 0.0) / np.where(lam > 0, lam, 1.0), np.inf)

    def never(self, upward: np.ndarray) -> np.ndarray:
        return np.isneginf(np.where(upward, self.log_ends[1], self.log_ends[0]))
