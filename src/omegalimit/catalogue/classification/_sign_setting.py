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

FAR = 1e-6
"""A distance of v_t to v*, over |v*|, that counts as arrival. v_t settles exponentially, to rounding; the barrier's
minimisers at two rates that differ by one part in 10^5 are farther apart."""


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

    @functools.cached_property
    def apart(self) -> float:
        """Distance of the Euclidean and the l-infinity maximum-margin direction, both of length one."""
        a, b = (direction(s.certificate.point, "l2") for s in (self.l2, self.linf))
        return float(np.linalg.norm(a - b))

    @functools.cached_property
    def why_inseparable(self) -> str | None:
        """Why nothing separates the rows, where that is proved; else `None`."""
        if self.separable or self.linf.farkas is None:
            return None
        return f"nothing separates the rows: {self.linf.reason}"

    @functools.cached_property
    def why_unknown(self) -> str | None:
        """Why it is not known whether anything separates the rows, or `None` where it is."""
        if self.separable or self.linf.farkas is not None:
            return None
        return f"the l-infinity maximum margin is not solved: {self.linf.reason}"

    @property
    def spread(self) -> float:
        """How many times as large the largest column is as the smallest that is not zero."""
        sizes = np.abs(self.Z).max(axis=0)
        return float(sizes.max() / sizes[sizes > 0].min())

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
        is the largest eigenvalue of `diag(lambda*)^(1/2) Z diag((1 + |u|)^-2) Z' diag(lambda*)^(1/2)`. Infinite where
        the barrier was not solved.
        """
        found = self.barrier(fraction)
        if found.status != "optimal":
            return math.inf
        return 2 / self._curvature(found.certificate.multipliers)

    def settling(self, fraction: float, *, eps0: float) -> float:
        """S by which v is within `FAR` of v*, relatively, to first order; an estimate, derived here.

        log lambda has to travel from its start to log lambda*, at a speed of the order of kappa; near the limit the
        active rows settle at the rate of the least eigenvalue of the matrix in `stable_step` (those that are zero to
        rounding move lambda and not v), and the others fade at the rate of their slack. A row counts as active where
        its multiplier, over the largest, is larger than its slack over kappa. Infinite where the barrier is not solved.
        """
        found = self.barrier(fraction)
        if found.status != "optimal":
            return math.inf
        lam, kappa = found.certificate.multipliers, fraction * self.gamma
        slack = np.maximum(self.Z @ found.certificate.point - kappa, 0.0)
        active = lam / lam.max() > slack / kappa
        values = np.linalg.svd(self._linear(lam)[active], compute_uv=False) ** 2
        moving = values[values > len(lam) * np.finfo(float).eps * values[0]]
        slowest = min(float(moving[-1]), float(slack[~active].min(initial=math.inf)))
        way = float(np.abs(np.log(lam[active]) - np.log(self.weights[active] / eps0)).max())
        return way / kappa + (way - math.log(FAR)) / slowest

    def small_step(self, fraction: float, *, eps0: float) -> float:
        """The same for the limit and for the start, `lambda_0 = c / eps0`, whichever asks for the smaller one."""
        return min(self.stable_step(fraction), 2 / self._curvature(self.weights / eps0))

    def _curvature(self, lam: Float[np.ndarray, " n"]) -> float:
        """L at lambda: how fast D's gradient turns with log lambda."""
        return float(np.linalg.norm(self._linear(lam), 2)) ** 2

    def _linear(self, lam: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        """A root of the matrix in `stable_step`."""
        return np.sqrt(lam)[:, None] * self.Z / (1 + np.abs(self.Z.T @ lam))

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


def named(value: float) -> str:
    """The number in as few digits as name it and no other: labels of two values are never the same."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def direction(point: Float[np.ndarray, " d"], norm: str) -> Float[np.ndarray, " d"]:
    """The point over its norm, `"l2"` or `"linf"`."""
    return point / (np.linalg.norm(point) if norm == "l2" else np.abs(point).max())


def power_of_two_below(value: float) -> float:
    """The largest power of two that is at most this positive number: dividing by it rounds nothing."""
    return math.ldexp(0.5, math.frexp(value)[1])
