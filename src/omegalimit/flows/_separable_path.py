"""Weights along a path in the logarithm of time, and what can be read off them: radial and tangential motion, margins.

With `w = rho theta`, `|theta| = 1`, and `g = -grad L`, in log time s = log t:

    d rho / ds = t theta'g,      d theta / ds = t (g - (theta'g) theta) / rho,
    d theta / d log rho = (g - (theta'g) theta) / (theta'g).

(Derived here from the product rule; only the names "radial flow" and "tangential flow" are the literature's.)
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Float

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
        """The weights."""
        return self.rows.from_units(self.scaled_w)

    @functools.cached_property
    def _scaled_radius(self) -> Float[np.ndarray, " T"]:
        return np.linalg.norm(self.scaled_w, axis=1)

    @property
    def log_radius(self) -> Float[np.ndarray, " T"]:
        """`log rho`; `-inf` at the origin."""
        with np.errstate(divide="ignore"):
            return np.log(self._scaled_radius) - self.rows.exponent * LOG_2

    @functools.cached_property
    def direction(self) -> Float[np.ndarray, "T d"]:
        """`theta`, unit vectors; at the origin the one along which the flow leaves it, NaN where it does not."""
        rho = self._scaled_radius[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(rho > 0, self.scaled_w / rho, self.pull)

    @functools.cached_property
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
            rates = (factor / self._scaled_radius)[:, None] * tangential
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

    def perpendicular(self, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, "T d"]:
        """The part of the weights that is perpendicular to `direction`."""
        u = checked_direction(direction, self.rows.Z.shape[1])
        return self.rows.from_units(self.scaled_w - (self.scaled_w @ u)[:, None] * u)


def checked_direction(direction: Float[np.ndarray, " d"], d: int) -> Float[np.ndarray, " d"]:
    """`direction` with length one. Raises `ValueError` where it has none, or another number of entries than `d`."""
    u = np.asarray(direction, dtype=float)
    if u.shape != (d,):
        raise ValueError(f"`direction` must have shape ({d},), one entry a column of `Z`; got {tuple(u.shape)}.")
    largest = float(np.abs(u).max())
    if not 0 < largest < np.inf:
        raise ValueError(f"`direction` must be finite and not zero; its largest entry is {largest:g}.")
    u = u / largest
    return u / np.linalg.norm(u)


def angles(w: Float[np.ndarray, "T d"], u: Float[np.ndarray, " d"]) -> Float[np.ndarray, " T"]:
    """The angle of each vector to the unit vector `u`; by the perpendicular part, which an arc cosine would lose."""
    along = w @ u
    return np.arctan2(np.linalg.norm(w - along[:, None] * u, axis=1), along)
