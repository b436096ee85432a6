"""Exact risks of linear classifiers on two Gaussian classes whose labels are flipped at random, with no Monte-Carlo.

    y* = +-1 equally likely,  x = y* mu + Sigma^{1/2} z,  y = y* but flipped with probability p < 1/2.

For a weight vector w the clean margin `y* w'x` is normal with mean `s = w'mu` and deviation `rho = |w|_Sigma`, so that
risks depend on w through two numbers: rho, and the angle theta in the metric of Sigma between w and the Bayes direction
`Sigma^{-1} mu`, with `s = r rho cos theta`, `r^2 = mu' Sigma^{-1} mu`. All of this page is derived here.

- 0-1 risk: `R(w) = p + (1-2p) Phi(-r cos theta)`, least `R* = p + (1-2p) Phi(-r)`. The *excess* `R - R*` is
  `(1-2p)` times the normal density's integral from `r cos theta` to r; it is `(1-2p) phi(r) r theta^2/2 + O(theta^4)`:
  quadratic in the error of direction.
- logistic risk: `F(w) = E g(M)`, `g(m) = log(1 + e^{-m}) + p m`, M normal (s, rho^2). It is least at
  `c* Sigma^{-1} mu`: c* solves a convex problem in one variable, `E[g'(c X) X] = 0`, X normal (r^2, r^2).
  For p = 0, c* = 2.
- *excess logistic risk* without a difference of risks: with `m = c*(r^2 + r Z)`, `M = s + rho Z` on the same Z,

      F - F* = A rho r 2 sin^2(theta/2) + E[ g(M) - g(m) - g'(m)(M - m) ],    A = -E g'(m) > 0:

  what the direction costs, and what the size costs; neither is negative.
- *calibration*: `R - R* <= K (F - F*)`, see `calibration`.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from .._checks import check_finite, check_ndim, check_number, check_same_length, shape_text, to_float64
from ._best_interpolator import BestInterpolator, best_interpolator
from ._calibration import Calibration, calibrate
from ._normal_integrals import (
    LogisticMinimum,
    Quadrature,
    logistic_integral,
    logistic_minimum,
    logistic_remainder,
    normal_mass,
)

_EPS = float(np.finfo(float).eps)
_ANGLE = 8 * _EPS  # rounding of an angle as `see` finds it
_NEAREST = 1e-100  # signal: excess risks are r^2, times up to 1e-32 for flips next to 1/2
_LARGEST = 1e300  # size of w: the logistic risk is up to r + 1 times that
_FARTHEST = 20.0  # signal: Phi(-20) is 3e-89


_TOO_LARGE = (
    "leaves the range of doubles; divide a weight vector by its size for the 0-1 risk, which is the same, and take the "
    "logistic risk of smaller ones."
)


class Seen(NamedTuple):
    """What the risks see of weight vectors, each of shape (*T,).

    - `size`: `|w|_Sigma`; `angle`: theta in [0, pi], accurate near 0 too; NaN where w = 0.
    """

    size: Float[np.ndarray, "*T"]
    angle: Float[np.ndarray, "*T"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MixtureRisk:
    """Risks of linear classifiers `sign(w'x)` on the distribution at the head of this page.

    - `mean`: mu, shape (d,), not zero; `eigenvalues`: of the covariance, which is diagonal, positive, shape (d,);
      `flips`: p, `0 <= p < 1/2`.

    Methods take weight vectors `W` of shape (*T, d), or what `see` made of them. The vector zero, which predicts
    nothing, has 0-1 risk 1/2. Raises `ValueError` for what is out of range, `TypeError` for what is no number.
    """

    mean: Float[np.ndarray, " d"]
    eigenvalues: Float[np.ndarray, " d"]
    flips: float

    def __post_init__(self):
        mean, eigenvalues = to_float64(self.mean, "mean")[0], to_float64(self.eigenvalues, "eigenvalues")[0]
        check_ndim(mean, "mean", axes="d")
        check_ndim(eigenvalues, "eigenvalues", axes="d")
        check_same_length(mean, eigenvalues, ("mean", "eigenvalues"), axes=(0, 0), what="entries")
        check_finite(mean, "mean")
        check_finite(eigenvalues, "eigenvalues")
        flips = check_number(self.flips, "flips")
        if not mean.any():
            raise ValueError("`mean` is zero: both classes are the same, and there is nothing to learn.")
        if not eigenvalues.min() > 0:
            i = int(np.argmin(eigenvalues))
            raise ValueError(f"`eigenvalues[{i}]` is {eigenvalues[i]:g}; every one must be positive.")
        if not 0 <= flips < 0.5:
            raise ValueError(f"`flips` must be at least 0 and less than 1/2; got {flips!r}.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "eigenvalues", eigenvalues)
        object.__setattr__(self, "flips", flips)
        with np.errstate(over="ignore"):
            r = self.r
        if not 0 < r <= _FARTHEST * (1 + 1e-9):  # what was meant to be 20 may be rounded
            raise ValueError(
                f"`mean` is r = {r:g} standard deviations long, in the metric of the covariance; risks are computed "
                f"for 0 < r <= {_FARTHEST:g}, where the best classifier's error is 3e-89 already."
            )
        if r < _NEAREST:
            raise ValueError(
                f"`mean` is r = {r:g} standard deviations long, in the metric of the covariance; risks are computed "
                f"for r >= {_NEAREST:g}: excess risks are of the size of its square, and leave the range of doubles."
            )

    @functools.cached_property
    def deviations(self) -> Float[np.ndarray, " d"]:
        """`Sigma^{1/2}`."""
        return np.sqrt(self.eigenvalues)

    @functools.cached_property
    def whitened_mean(self) -> Float[np.ndarray, " d"]:
        """`Sigma^{-1/2} mu`."""
        return self.mean / self.deviations

    @functools.cached_property
    def r(self) -> float:
        """`(mu' Sigma^{-1} mu)^{1/2}`."""
        unit = float(np.abs(self.whitened_mean).max())  # squares of small entries are no doubles
        return unit * float(np.linalg.norm(self.whitened_mean / unit)) if 0 < unit < math.inf else unit

    @property
    def bayes_direction(self) -> Float[np.ndarray, " d"]:
        """`Sigma^{-1} mu`, not normalised."""
        return self.whitened_mean / self.deviations

    @property
    def bayes_risk(self) -> float:
        """`p + (1-2p) Phi(-r)`: no classifier, linear or not, has less."""
        return self.flips + (1 - 2 * self.flips) * float(ndtr(-self.r))

    def see(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Seen:
        """Size and angle of weight vectors, shape (*T, d) to (*T,)."""
        if isinstance(W, Seen):
            return W
        W = to_float64(W, "W")[0]
        if W.ndim == 0 or W.shape[-1] != self.mean.size:
            raise ValueError(
                f"`W` must have {self.mean.size} entries along its last axis, one for each of `mean`; got shape "
                f"{shape_text(W.shape)}."
            )
        check_finite(W, "W")
        with np.errstate(over="ignore"):
            V = W * self.deviations
        if not np.isfinite(V).all():
            raise ValueError(f"`W` times the deviations {_TOO_LARGE}")
        unit = np.abs(V).max(axis=-1, keepdims=True)
        V /= np.where(unit > 0, unit, 1.0)
        length = np.linalg.norm(V, axis=-1)
        with np.errstate(invalid="ignore"):
            V /= length[..., None]
        u = self.whitened_mean / self.r
        # Twice the half angle (Kahan): the arc cosine of v'u loses half of the digits near 0 and pi.
        angle = 2 * np.arctan2(np.linalg.norm(V - u, axis=-1), np.linalg.norm(V + u, axis=-1))
        with np.errstate(over="ignore"):  # infinite sizes are told where a risk depends on them
            return Seen(size=length * unit[..., 0], angle=angle)

    def signal(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Float[np.ndarray, "*T"]:
        """`w'mu / |w|_Sigma = r cos theta`, at most r; NaN for w = 0."""
        return self.r * np.cos(self.see(W).angle)

    def risk(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Float[np.ndarray, "*T"]:
        """The 0-1 risk on observed (flipped) labels: `p + (1-2p) Phi(-r cos theta)`; 1/2 for w = 0."""
        angle = self.see(W).angle
        return np.where(np.isnan(angle), 0.5, self.flips + (1 - 2 * self.flips) * ndtr(-self.r * np.cos(angle)))

    def excess(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Float[np.ndarray, "*T"]:
        """The 0-1 risk above Bayes, never a difference of two risks: right to rounding down to the smallest angles."""
        angle = np.asarray(self.see(W).angle)
        nothing = np.isnan(angle)
        found = normal_mass(self.r, 2 * self.r * np.sin(np.where(nothing, 0.0, angle) / 2) ** 2)
        return np.where(nothing, 0.5 - self.bayes_risk, (1 - 2 * self.flips) * found)

    def excess_at(self, signal: Float[np.ndarray, "*T"]) -> Float[np.ndarray, "*T"]:
        """The excess 0-1 risk of any w of this `w'mu / |w|_Sigma`, from -r to r; accurate where that is not close to r.

        Raises `ValueError` beyond r by more than rounding.
        """
        signal = to_float64(signal, "signal")[0]
        if not (np.abs(signal) <= self.r * (1 + 64 * _EPS)).all():
            raise ValueError(f"`signal` must lie between -r and r, r = {self.r:g}; got {signal.tolist()!r}.")
        return (1 - 2 * self.flips) * normal_mass(self.r, np.maximum(self.r - signal, 0.0))

    def logistic_risk(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Quadrature:
        """The expected logistic loss on observed labels, at any size of w, and the error of its quadrature."""
        size, angle = self._in_range(W)
        signal = np.where(size > 0, self.r * np.cos(np.where(size > 0, angle, 0.0)), 0.0)
        found = logistic_integral(signal, np.asarray(size), self.flips)
        return Quadrature(value=found.value, error=found.error + _ANGLE * size * self.r)

    def logistic_excess(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Quadrature:
        """The logistic risk above its least value, as the sum of two parts that are not negative."""
        size, angle = self._in_range(W)
        angle = np.where(size > 0, angle, 0.0)
        turned = 2 * np.sin(angle / 2) ** 2  # 1 - cos
        best = self.minimum
        large = size > 8 * max(1.0, best.size)  # there the difference of the risks is as large as they are
        part = best.slope * size * self.r * turned
        rest = logistic_remainder(self.r, turned, np.where(large, 0.0, size), best.size)
        value, error = part + rest.value, rest.error + _ANGLE * (part + size * self.r * np.sin(angle))
        if large.any():
            whole = self.logistic_risk(Seen(size=size, angle=angle))
            value = np.where(large, whole.value - best.risk, value)
            error = np.where(large, whole.error + best.risk - best.risk_lower, error)
        return Quadrature(value=value, error=error)

    def _in_range(self, W: "Float[np.ndarray, '*T d'] | Seen") -> Seen:
        size, angle = (np.asarray(a) for a in self.see(W))
        if not (size <= _LARGEST).all():
            raise ValueError(f"the logistic risk of a `W` of size {size.max():g} {_TOO_LARGE}")
        return Seen(size=size, angle=angle)

    @functools.cached_property
    def minimum(self) -> LogisticMinimum:
        """Least logistic risk, and c*: `w = c* Sigma^{-1} mu`."""
        return logistic_minimum(self.r, self.flips)

    @functools.cached_property
    def calibration(self) -> Calibration:
        """The constants K of `R - R* <= K (F - F*)`, local and over all weight vectors."""
        return calibrate(self.r, self.flips, self.minimum)

    def best_interpolator(self, Z: Float[np.ndarray, "n d"]) -> BestInterpolator:
        """The best of all w with `Z w >= 0` (rows `y_i x_i`), found knowing mu and Sigma: see `BestInterpolator`."""
        Z = to_float64(Z, "Z")[0]
        check_ndim(Z, "Z", axes="n, d")
        if not len(Z) or Z.shape[1] != self.mean.size:
            raise ValueError(
                f"`Z` must have at least one row and {self.mean.size} columns, one for each entry of `mean`; got shape "
                f"{shape_text(Z.shape)}."
            )
        check_finite(Z, "Z")
        return best_interpolator(Z / self.deviations, self.whitened_mean, self.deviations)
