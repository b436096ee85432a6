"""Draws of the design for `negative_shifted_descent`, and the risks of everything that is compared on them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ...data.spike_designs import SpikeDesign, Tail, flat_tail, spike_design
from ...limits.excess_risk import Best, ExcessRisk, choose
from ...limits.spectral_filters import flow_filter, negative_ridge_filter, ridge_filter

SHARES = np.concatenate([np.linspace(0.0, 0.9, 46), 1 - np.geomspace(0.09, 1e-6, 60)])
"""Shifts of the admissible endpoints that are tried, in units of the smallest eigenvalue; refined around the best."""

SPREAD = 1.2
"""The best stopping time of the path nu = a is sought among times this factor apart."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """What designs are drawn from: n observations, a head, a tail, and noise.

    Each head carries the same share of the signal's power: `b_i = 1 / sqrt(h lam_i)`. `row_correlation`: of the
    tails of neighbouring observations, for a counter-instance.
    """

    n: int
    head: tuple[float, ...]
    tail: Tail
    sigma: float
    row_correlation: float = 0.0

    @property
    def b_head(self) -> tuple[float, ...]:
        """Coefficients of the head."""
        return tuple(1 / math.sqrt(len(self.head) * lam) for lam in self.head)

    @property
    def a(self) -> float:
        """The floor `tr(Sigma_T) / n`."""
        return self.tail.trace / self.n

    @property
    def w(self) -> float:
        """The bulk's standard deviation `sqrt(tr(Sigma_T^2) / n)`."""
        return math.sqrt(self.tail.trace_of_square / self.n)

    def draws(self, count: int, *, seed: int, role: int) -> list["Draw"]:
        """`count` independent draws; `role` tells apart the parts of one run."""
        return [Draw(setting=self, seed=draw_seed(seed, role, i)) for i in range(count)]


def draw_seed(*key: int) -> int:
    """A seed for each key, by NumPy's own mixing of seeds."""
    return int(np.random.SeedSequence(list(key)).generate_state(1)[0])


def flat_setting(n: int, head: Sequence[float], *, floor: float, aspect: float, sigma: float) -> Setting:
    """A flat tail of `aspect` dimensions for each observation that adds `floor` to every eigenvalue."""
    count = max(1, round(aspect * n))
    return Setting(n=n, head=tuple(head), tail=flat_tail(floor * n / count, count), sigma=sigma)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """One design with its exact risk; what is expensive is computed once."""

    setting: Setting
    seed: int

    @functools.cached_property
    def design(self) -> SpikeDesign:
        """The design and the noise."""
        s = self.setting
        design = spike_design(s.n, s.head, s.tail, b_head=s.b_head, sigma=s.sigma, seed=self.seed)
        if s.row_correlation == 0:
            return design
        lag = np.abs(np.subtract.outer(np.arange(s.n), np.arange(s.n)))
        C = np.linalg.cholesky(s.row_correlation**lag)  # X_T becomes C X_T
        return dataclasses.replace(
            design,
            tail_gram=C @ design.tail_gram @ C.T,
            tail_gram_squared=C @ design.tail_gram_squared @ C.T,
        )

    @functools.cached_property
    def risk(self) -> ExcessRisk:
        """Excess risk of every filter on this design."""
        d = self.design
        return ExcessRisk.from_gram(
            d.gram,
            d.gram_squared,
            signal=d.signal,
            weighted_signal=d.weighted_signal,
            signal_power=d.signal_power,
            sigma=d.sigma,
        )

    @property
    def m(self) -> Float[np.ndarray, " r"]:
        """Positive eigenvalues of X'X/n, ascending."""
        return self.risk.m

    @property
    def scale(self) -> float:
        """Where the weakest head is seen, `a + min lh`: the unit of the grids."""
        return self.setting.a + min(self.setting.head)

    def grid(self, n_shifts: int, n_times: int) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
        """All pairs of shifts in [0, 2 (a + lh)] and times in [0.01, 10] / (a + lh), flattened: `(nu, t)`."""
        nu = np.linspace(0, 2 * self.scale, n_shifts)
        t = np.logspace(-2, 1, n_times) / self.scale
        first, second = np.meshgrid(nu, t, indexing="ij")
        return first.ravel(), second.ravel()

    @functools.cached_property
    def ridgeless(self) -> float:
        """Mean excess risk of the least-norm interpolant."""
        return float(self.risk.expected(np.ones(self.m.size)))

    @functools.cached_property
    def endpoint(self) -> tuple[float, float]:
        """The least mean risk over all admissible endpoints 0 <= nu < m_min+, and its shift in units of m_min+."""
        from scipy.optimize import minimize_scalar

        least = float(self.m[0])

        def risk(share: float) -> float:
            return float(self.risk.expected(negative_ridge_filter(self.m, share * least)))

        best = self.risk.best(negative_ridge_filter(self.m, SHARES * least))
        low, high = SHARES[max(best.index - 1, 0)], SHARES[min(best.index + 1, SHARES.size - 1)]
        fine: Any = minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
        return (float(fine.fun), float(fine.x)) if fine.fun < best.risk else (best.risk, float(SHARES[best.index]))

    @functools.cached_property
    def ridge(self) -> float:
        """The least mean risk over ridge penalties >= 0."""
        penalties = np.concatenate([[0.0], np.geomspace(1e-4, 1e2, 61) * self.scale])
        return self.risk.best(ridge_filter(self.m, penalties)).risk

    @functools.cached_property
    def rescaling(self) -> tuple[float, float]:
        """The least mean risk over all uniform rescalings of the interpolant, and the factor: a parabola's minimum."""
        one = np.ones(self.m.size)
        at = [float(self.risk.expected(factor * one)) for factor in (0.0, 1.0, 2.0)]
        curvature = (at[0] - 2 * at[1] + at[2]) / 2
        factor = (at[0] - at[1] + curvature) / (2 * curvature)
        return float(self.risk.expected(factor * one)), factor

    def stopped(self, nu: float) -> tuple[float, float]:
        """The least mean risk along the path with shift nu, and the time (of times `SPREAD` apart, then refined)."""
        times = np.geomspace(0.01, 100, 1 + round(math.log(1e4) / math.log(SPREAD))) / self.scale
        best = self.risk.best(flow_filter(self.m, nu, times))
        near = np.geomspace(times[max(best.index - 1, 0)], times[min(best.index + 1, times.size - 1)], 21)
        fine = self.risk.best(flow_filter(self.m, nu, near))
        return fine.risk, float(near[fine.index])

    @functools.cached_property
    def floor_critical(self) -> tuple[float, float]:
        """`stopped` at the floor, nu = a."""
        return self.stopped(self.setting.a)

    def oracle(self, n_shifts: int, n_times: int) -> tuple[Best, float, float]:
        """The best pair of the grid by its mean risk: its risk and index, nu and t."""
        nu, t = self.grid(n_shifts, n_times)
        best = self.risk.best(flow_filter(self.m, nu, t))
        return best, float(nu[best.index]), float(t[best.index])

    def hold_out(
        self, n_shifts: int, n_times: int, *, n_points: int, losses: Callable[..., np.ndarray] | None = None
    ) -> "HoldOut":
        """Choose a pair of the grid by the squared error on `n_points` new observations, and compare with the best.

        New points `x` are Gaussian, and of `x` only `(V'x, x'b*)` matters: a Gaussian vector whose covariance is known
        exactly, from which they are drawn. `losses`: another way to judge the pairs, for a counter-instance.
        """
        nu, t = self.grid(n_shifts, n_times)
        f = flow_filter(self.m, nu, t)
        noise = self.design.noise
        z = f * (self.risk.c + self.risk.noise(noise))
        judge = self.new_points if losses is None else losses
        found = judge(self, z, n_points)
        risk = np.asarray(self.risk.given(f, noise))
        chosen, best = choose(found), int(np.argmin(risk))
        return HoldOut(
            nu=float(nu[chosen]),
            t=float(t[chosen]),
            risk=float(risk[chosen]),
            best=float(risk[best]),
            n_candidates=nu.size,
            n_points=n_points,
        )

    @staticmethod
    def new_points(draw: "Draw", z: Float[np.ndarray, "P r"], n_points: int) -> Float[np.ndarray, " P"]:
        """Mean squared error of each coefficient vector `z` on fresh observations."""
        r = draw.risk
        covariance = np.block([[r.A, r.s[:, None]], [r.s[None, :], np.array([[r.q]])]])
        size = np.sqrt(np.diag(covariance))  # columns and signal have units of their own
        values, vectors = np.linalg.eigh(covariance / size / size[:, None])
        # The exact matrix is positive; rounding may not be.
        root = size[:, None] * (vectors * np.sqrt(np.maximum(values, 0.0)))
        rng = np.random.default_rng([draw.seed, 1])
        points = rng.standard_normal((n_points, r.m.size + 1)) @ root.T
        y = points[:, -1] + r.sigma * rng.standard_normal(n_points)
        return np.mean((points[:, :-1] @ z.T - y[:, None]) ** 2, axis=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HoldOut:
    """What hold-out chose: the pair, its excess risk with the noise as drawn, and the best of the grid."""

    nu: float
    t: float
    risk: float
    best: float
    n_candidates: int
    n_points: int
