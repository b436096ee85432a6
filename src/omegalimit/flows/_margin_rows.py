"""The rows of a linear margin loss `L(w) = sum_i c_i l(z_i'w)` in units of their own; its slopes as NumPy functions.

Rows over a power of two, so that the longest has a length in [1/2, 1): nothing over- or underflows, and the digits are
those of the data. With `Z = 2^e Z^`, `w = 2^-e w^` and `t = 2^-2e t^` margins, loss and angles are the same, and
`dw/dt = -grad L` becomes `dw^/dt^ = sum_i c_i (-l'(m_i)) z^_i`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from .._checks import check_number
from .._numerics import double_precision
from ..losses import AbstractLoss, Exponential, Logistic, as_loss
from ._separable_checks import check_start_margins, checked_rows, checked_start, checked_weights

EPS = float(np.finfo(float).eps)
LOG_2 = math.log(2.0)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class MarginRows:
    """What is trained, in units of its own.

    - `Z`: shape (n, d), the rows over `2^exponent`; `log_c`: log of the weights, shape (n,); `loss`.
    """

    Z: Float[np.ndarray, "n d"]
    exponent: int
    log_c: Float[np.ndarray, " n"]
    loss: AbstractLoss

    @functools.cached_property
    def lengths(self) -> Float[np.ndarray, " n"]:
        """Lengths of the rows, at most 1."""
        return np.linalg.norm(self.Z, axis=1)

    def to_units(self, w: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """Weights in the units of these rows."""
        with np.errstate(over="ignore"):
            return np.ldexp(w, self.exponent)

    def from_units(self, w: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Weights in the user's units; infinite where they overflow."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(w, -self.exponent)

    @functools.cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return _compiled(self.loss)

    def log_slopes(self, m: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
        """`log(-l'(m))` and its derivative in m, both with the shape of `m`."""
        known = _KNOWN.get(type(self.loss))
        if known is not None:
            return known(np.asarray(m, dtype=float))
        with double_precision():
            slope, bend = self._functions[0](m)
            return np.asarray(slope), np.asarray(bend)

    def log_values(self, m: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """`log l(m)`, shape of `m`."""
        with double_precision():
            return np.asarray(self._functions[1](m))

    @property
    def log_unit_time(self) -> float:
        """`log(t / t^)`."""
        return -2 * self.exponent * LOG_2


def checked_margin_rows(Z: Any, weights: Any, loss: str | AbstractLoss) -> MarginRows:
    """The user's rows, weights (1/n each when `None`) and loss. Raises `ValueError` or `TypeError` for bad input."""
    found = as_loss(loss)
    rows = checked_rows(Z)
    c = checked_weights(weights, rows, default=1 / len(rows))
    largest = float(np.abs(rows).max())
    if largest == 0:
        raise ValueError("`Z` is zero: no margin depends on the weights, and nothing moves.")
    first = math.frexp(largest)[1]
    e = first + math.frexp(float(np.linalg.norm(np.ldexp(rows, -first), axis=1).max()))[1]
    return MarginRows(Z=np.ldexp(rows, -e), exponent=e, log_c=np.log(c), loss=found)


def checked_scaled_start(start: Any, rows: MarginRows) -> Float[np.ndarray, " d"]:
    """The start in the units of the rows; zero when `None`. Raises `ValueError` or `TypeError` for bad input."""
    w = rows.to_units(checked_start(start, (rows.Z.shape[1],)))
    check_start_margins(w, rows.Z)
    return w


def checked_number(value: Any, name: str) -> float:
    """A number of any library as a `float`: in single precision all that it touches would be computed so.

    Raises `TypeError` for what is no number, `ValueError` for several of them, NaN or infinity.
    """
    if value is None or isinstance(value, (bool, np.bool_, str, bytes)):
        raise TypeError(f"`{name}` must be a number; got {value!r}.")
    return check_number(value, name)


def _exponential(m: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    return -m, np.full_like(m, -1.0)


def _logistic(m: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """`-log(1 + e^m)` and `-1 / (1 + e^-m)`; neither overflows, and both keep their digits where they are tiny."""
    small = np.exp(-np.abs(m))
    return -np.maximum(m, 0.0) - np.log1p(small), np.where(m >= 0, -1.0, -small) / (1.0 + small)


# A call of a compiled function costs more than all the rest of a step on some hundred rows.
_KNOWN = {Exponential: _exponential, Logistic: _logistic}


@functools.lru_cache(maxsize=32)
def _compiled(loss: AbstractLoss) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def slope_sum(m):
        slope = loss.log_slope(m)
        return slope.sum(), slope

    def slopes(m):
        (_, slope), bend = jax.value_and_grad(slope_sum, has_aux=True)(m)
        return slope, bend

    return jax.jit(slopes), jax.jit(loss.log_value)


def log_sum_exp(x: Float[np.ndarray, "T n"]) -> Float[np.ndarray, " T"]:
    """`log sum exp` along the last axis."""
    top = x.max(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(top), top + np.log(np.exp(x - top[..., None]).sum(axis=-1)), top)
