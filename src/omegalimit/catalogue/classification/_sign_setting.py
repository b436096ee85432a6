"""The data of `smoothed_sign_descent` with the limits that theory predicts: margins, barrier minimisers, their path."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from ...certificate import Certificate
from ...limits.barrier import Barrier
from ...limits.max_margin import MaxMargin
from ...solvers import Solution, solve

TOL = 1e-11
"""Relative gap asked of every limit; the distance that it certifies enters each verdict as slack."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """Rows `z_i = y_i x_i` at the size at which runs are made.

    - `Z`: shape (n, d); `weights`: c, shape (n,).
    - `unit`: what the user's own rows were divided by; 1 for drawn data.
    - `label`: what the rows are, for the record.
    """

    Z: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    unit: float = 1.0
    label: str = "drawn"

    @functools.cached_property
    def linf(self) -> Solution[Certificate]:
        """The l-infinity maximum margin, certified."""
        return solve(MaxMargin("linf", rows=self.Z), tol=TOL)

    @functools.cached_property
    def l2(self) -> Solution[Certificate]:
        """The Euclidean maximum margin, certified."""
        return solve(MaxMargin("l2", rows=self.Z), tol=TOL)

    @property
    def gamma(self) -> float:
        """gamma_inf, the certified lower bound on the l-infinity maximum margin, in the runs' units."""
        return self.linf.certificate.lower

    @property
    def separable(self) -> bool:
        """Whether a point of positive margin is certified."""
        return self.linf.certificate.lower > self.linf.certificate.slack

    def barrier(self, fraction: float) -> Solution[Any]:
        """The barrier's minimiser at kappa = fraction * gamma_inf, certified; solved once."""
        key = float(fraction)
        if key not in self._barriers:
            self._barriers[key] = solve(Barrier(self.Z, key * self.gamma), tol=TOL)
        return self._barriers[key]

    def affordable_steps(self, work: float) -> int:
        """Steps that this much work is enough for: each has products with the rows, and logarithms of their number."""
        n, d = self.Z.shape
        return int(work / (8 * n * d + 60 * n))

    @functools.cached_property
    def gradient_size(self) -> float:
        """The largest entry of the gradient at w = 0: the unit of eps."""
        return float(np.abs(self.weights @ self.Z).max())

    def stable_step(self, fraction: float) -> float:
        """The largest step at which the iteration is stable at its limit, 2/L. Derived here.

        Near lambda* a step takes `d = log lambda - log lambda*` to `d - eta Z diag((1 + |u|)^-2) Z' diag(lambda*) d`: L
        is the largest eigenvalue of `diag(lambda*)^(1/2) Z diag((1 + |u|)^-2) Z' diag(lambda*)^(1/2)`.
        """
        return 2 / self._curvature(self.barrier(fraction).certificate.multipliers)

    def small_step(self, fraction: float, *, eps0: float) -> float:
        """The same for the limit and for the start, `lambda_0 = c / eps0`, whichever asks for the smaller one."""
        return min(self.stable_step(fraction), 2 / self._curvature(self.weights / eps0))

    def _curvature(self, lam: Float[np.ndarray, " n"]) -> float:
        """L at lambda: how fast D's gradient turns with log lambda."""
        A = np.sqrt(lam)[:, None] * self.Z / (1 + np.abs(self.Z.T @ lam))
        return float(np.linalg.norm(A, 2)) ** 2

    @functools.cached_property
    def sign_step(self) -> float:
        """gamma_inf over the square of the largest `|z_i|_1`: signs times a small share of it overshoot little."""
        return self.gamma / float(np.abs(self.Z).sum(axis=1).max()) ** 2

    @functools.cached_property
    def _barriers(self) -> dict[float, Solution[Any]]:
        return {}

    def weighted(self, weights: Float[np.ndarray, " n"]) -> "Setting":
        """The same rows with other weights; what was solved for them is kept, since no limit depends on weights."""
        other = dataclasses.replace(self, weights=weights)
        for name in ("linf", "l2", "_barriers"):
            other.__dict__[name] = getattr(self, name)
        return other


def unequal_weights(n: int, *, seed: int) -> Float[np.ndarray, " n"]:
    """Weights over four decades, drawn evenly in logs."""
    return 10.0 ** np.random.default_rng([seed, 7]).uniform(-2, 2, size=n)


def direction(point: Float[np.ndarray, " d"], norm: str) -> Float[np.ndarray, " d"]:
    """The point over its norm, `"l2"` or `"linf"`."""
    return point / (np.linalg.norm(point) if norm == "l2" else np.abs(point).max())


def power_of_two_below(value: float) -> float:
    """The largest power of two that is at most this positive number: dividing by it rounds nothing."""
    return math.ldexp(0.5, math.frexp(value)[1])
