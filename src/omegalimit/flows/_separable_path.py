"""Weights along a path in the logarithm of time, and what can be read off them: radial and tangential motion, margins.

With `w = rho theta`, `|theta| = 1`, and `g = -grad L`, in log time s = log t:

    d rho / ds = t theta'g,      d theta / ds = t (g - (theta'g) theta) / rho,
    d theta / d log rho = (g - (theta'g) theta) / (theta'g).

(Derived here from the product rule; only the names "radial flow" and "tangential flow" are the literature's.)
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._checks import shape_text, to_float64
from .._threads import on_one_blas_thread
from ._margin_rows import LOG_2, MarginRows, log_sum_exp


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SeparablePath:
    """Weights at some times.

    - `log_time`: natural log of the physical time t, shape (T,); `-inf` for t = 0.
    - `scaled_w`: the weights times `2^rows.exponent`, shape (T, d); `w` has them as they are.
    """

    rows: MarginRows
    log_time: Float[np.ndarray, " T"]
    scaled_w: Float[np.ndarray, "T d"]

    def __len__(self) -> int:
        return len(self.log_time)

    @property
    def w(self) -> Float[np.ndarray, "T d"]:
        """The weights; infinite where they overflow (`direction` and `log_radius` do not)."""
        return self.rows.from_units(self.scaled_w)

    @functools.cached_property
    def _radius(self) -> tuple[Float[np.ndarray, " T"], Int[np.ndarray, " T"]]:
        """`rho` in the units of the rows, over a power of two of its own, and the exponent of that."""
        w, e = near_one(self.scaled_w)
        return np.linalg.norm(w, axis=1), e[:, 0]

    @property
    def log_radius(self) -> Float[np.ndarray, " T"]:
        """`log rho`; `-inf` at the origin."""
        with np.errstate(divide="ignore"):
            return np.log(self._radius[0]) + (self._radius[1] - self.rows.exponent) * LOG_2

    @functools.cached_property
    def direction(self) -> Float[np.ndarray, "T d"]:
        """`theta`, unit vectors; at the origin the one along which the flow leaves it, NaN where it does not."""
        rho = self._radius[0][:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(rho > 0, near_one(self.scaled_w)[0] / rho, self.pull)

    @functools.cached_property
    @on_one_blas_thread
    def margins(self) -> Float[np.ndarray, "T n"]:
        """`z_i'w`."""
        return self.scaled_w @ self.rows.Z.T

    @functools.cached_property
    def _log_pulls(self) -> Float[np.ndarray, "T n"]:
        return self.rows.log_c + self.rows.log_slopes(self.margins)[0]

    @property
    def log_residuals(self) -> Float[np.ndarray, "T n"]:
        """`log(t c_i (-l'(z_i'w)))`."""
        return self.log_time[:, None] + self._log_pulls

    @property
    def log_loss(self) -> Float[np.ndarray, " T"]:
        """`log L`."""
        return log_sum_exp(self.rows.log_c + self.rows.log_values(self.margins))

    @functools.cached_property
    @on_one_blas_thread
    def _scaled_gradient(self) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, "T d"]]:
        """`g = e^x G` in the units of the rows: x, shape (T,), and G."""
        top = self._log_pulls.max(axis=1)
        return top, np.exp(self._log_pulls - top[:, None]) @ self.rows.Z

    @property
    def pull(self) -> Float[np.ndarray, "T d"]:
        """The unit vector along `g = -grad L`, whatever its size; NaN where it is zero."""
        _, G = self._scaled_gradient
        with np.errstate(invalid="ignore", divide="ignore"):
            return G / np.linalg.norm(G, axis=1, keepdims=True)

    @property
    def log_gradient(self) -> Float[np.ndarray, " T"]:
        """`log |grad L|`."""
        top, G = self._scaled_gradient
        with np.errstate(divide="ignore"):
            return top + np.log(np.linalg.norm(G, axis=1)) + self.rows.exponent * LOG_2

    @property
    @on_one_blas_thread
    def balance(self) -> Float[np.ndarray, " T"]:
        """`|g|` over the sum of the lengths of what it is made of: at least the margin over the longest row where there
        is one, and zero, or rounding, at a minimiser."""
        top, G = self._scaled_gradient
        return np.linalg.norm(G, axis=1) / (np.exp(self._log_pulls - top[:, None]) @ self.rows.lengths)

    @functools.cached_property
    def _parts(self) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"], Float[np.ndarray, "T d"]]:
        """`t^`-fold factor, `theta'G`, and `G - (theta'G) theta`."""
        top, G = self._scaled_gradient
        radial = np.einsum("ij,ij->i", self.direction, G)
        tangential = G - radial[:, None] * self.direction
        # Once more: the first difference leaves its rounding along theta.
        tangential -= np.einsum("ij,ij->i", self.direction, tangential)[:, None] * self.direction
        with np.errstate(over="ignore"):
            return np.exp(top + self.log_time - self.rows.log_unit_time), radial, tangential

    @property
    def radial(self) -> Float[np.ndarray, " T"]:
        """`d rho / ds`."""
        factor, radial, _ = self._parts
        return self.rows.from_units(factor * radial)

    @property
    def tangential(self) -> Float[np.ndarray, "T d"]:
        """`d theta / ds`; 0 at t = 0."""
        factor, _, tangential = self._parts
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = np.ldexp(factor / self._radius[0], -self._radius[1])[:, None] * tangential
        return np.where(np.isneginf(self.log_time)[:, None], 0.0, rates)

    @property
    def tangential_speed(self) -> Float[np.ndarray, " T"]:
        """`|d theta / ds|`."""
        return np.linalg.norm(self.tangential, axis=1)

    @property
    def turning(self) -> Float[np.ndarray, "T d"]:
        """`d theta / d log rho`: how far the direction turns while the radius grows by a factor e."""
        _, radial, tangential = self._parts
        with np.errstate(invalid="ignore", divide="ignore"):
            return tangential / radial[:, None]

    @property
    def turning_speed(self) -> Float[np.ndarray, " T"]:
        """`|d theta / d log rho|`, the ratio of tangential to radial flow."""
        return np.linalg.norm(self.turning, axis=1)

    def angle_to(self, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, " T"]:
        """The angle between the weights and `direction`, in radians, exact for small ones."""
        return angles(self.direction, checked_direction(direction, self.rows.Z.shape[1]))

    @on_one_blas_thread
    def perpendicular(self, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, "T d"]:
        """The part of the weights that is perpendicular to `direction`."""
        u = checked_direction(direction, self.rows.Z.shape[1])
        return self.rows.from_units(self.scaled_w - (self.scaled_w @ u)[:, None] * u)


def checked_direction(direction: Any, d: int) -> Float[np.ndarray, " d"]:
    """`direction` with length one. Raises `ValueError` where it has none, or another number of entries than `d`."""
    u, _ = to_float64(direction, "direction")
    if u.shape != (d,):
        raise ValueError(f"`direction` must have shape ({d},), one entry a column of `Z`; got {shape_text(u.shape)}.")
    largest = float(np.abs(u).max())
    if not 0 < largest < np.inf:
        raise ValueError(f"`direction` must be finite and not zero; its largest entry is {largest:g}.")
    u = u / largest
    return u / np.linalg.norm(u)


def checked_list(value: Any, name: str) -> Float[np.ndarray, " k"]:
    """One number, or a list of them, as an array. Raises `TypeError` or `ValueError`; a NaN is left to the caller."""
    found, _ = to_float64(value, name)
    if found.ndim > 1:
        raise ValueError(f"`{name}` must be a number or a list of numbers; got shape {shape_text(found.shape)}.")
    return np.atleast_1d(found)


def checked_angles(angles: Any) -> Float[np.ndarray, " A"]:
    """Angles to be reached, positive. Raises `TypeError` or `ValueError`."""
    found = checked_list(angles, "angles")
    if not (found > 0).all():
        raise ValueError(f"`angles` must be positive; got {float(found[~(found > 0)][0]):g}.")
    return found


@on_one_blas_thread
def angles(w: Float[np.ndarray, "T d"], u: Float[np.ndarray, " d"]) -> Float[np.ndarray, " T"]:
    """The angle of each vector to the unit vector `u`; by the perpendicular part, which an arc cosine would lose."""
    w, _ = near_one(w)
    along = w @ u
    return np.arctan2(np.linalg.norm(w - along[:, None] * u, axis=1), along)


def near_one(w: Float[np.ndarray, "T d"]) -> tuple[Float[np.ndarray, "T d"], Int[np.ndarray, "T 1"]]:
    """Each vector over the power of two that brings its largest entry to [1/2, 1), and the exponent: squares of entries
    over- and underflow long before the entries do."""
    _, e = np.frexp(np.abs(w).max(axis=1, keepdims=True, initial=0.0))
    return np.ldexp(w, -e), e


def lengths(w: Float[np.ndarray, "T d"]) -> Float[np.ndarray, " T"]:
    """The length of each vector."""
    w, e = near_one(w)
    with np.errstate(over="ignore"):
        return np.ldexp(np.linalg.norm(w, axis=1), e[:, 0])
