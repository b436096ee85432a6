"""The loss of a positive quadratic network as a function of its outputs, in units in which data have size one.

The squared loss is `l(f) = |f - y|^2 / (2n)`; any other smooth loss is a JAX function `loss(f, y)`, the whole sum. With
`w = dl/df` the gradient in Q is `G = sum_i w_i A_i`.

Units: with `A = 2^p A~`, `y = 2^m y~` and `Q = 2^(m-p) Q~` the squared loss keeps its form, its gradient is
`2^(p+m) G~`, and time runs as `t = 2^-(p+m) t~`. Everything is computed in the units with a tilde, and powers of two
are exact: data times 1e-150 or 1e+150 change no digit. Another loss fixes its own unit of outputs: m = 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, shape_text, to_float64
from .._numerics import double_precision

if TYPE_CHECKING:
    from ..data.measurements import Measurements

OutputLoss = Callable[[Any, Any], Any]
"""`loss(outputs, targets)`, both JAX arrays of shape (n,): a scalar."""


@dataclasses.dataclass(frozen=True, eq=False)
class SquaredLoss:
    """`|f - y|^2 / (2n)`."""

    y: Float[np.ndarray, " n"]

    def value(self, f: np.ndarray) -> float:
        e = f - self.y
        return float(e @ e) / (2 * e.size)

    def weights(self, f: np.ndarray) -> np.ndarray:
        """`dl/df`, shape (n,)."""
        return (f - self.y) / f.size

    def curve(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`C rows` for C the Hessian of l in f; `rows` has shape (n, m)."""
        return rows / f.size

    def gram(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`rows' C rows`: half the work of a general product, for both factors are one array."""
        return (rows.T @ rows) / f.size


class FunctionLoss:
    """A user's loss, its derivatives taken by JAX in double precision."""

    def __init__(self, loss: OutputLoss, y: np.ndarray):
        import jax

        self.y = y
        self._value = jax.jit(loss)
        self._weights = jax.jit(jax.grad(loss))
        self._hessian = jax.jit(jax.hessian(loss))
        with double_precision():
            shape = np.shape(self._value(y, y))
        if shape != ():
            raise ValueError(f"`loss` must return one number, the whole loss; it returned shape {shape_text(shape)}.")

    def value(self, f: np.ndarray) -> float:
        with double_precision():
            return float(self._value(f, self.y))

    def weights(self, f: np.ndarray) -> np.ndarray:
        with double_precision():
            return np.asarray(self._weights(f, self.y))

    def curve(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        with double_precision():
            return np.asarray(self._hessian(f, self.y)) @ rows

    def gram(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return rows.T @ self.curve(f, rows)


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledProblem:
    """Measurements and loss in units of size one, and the powers of two that lead back."""

    measurements: Measurements
    loss: SquaredLoss | FunctionLoss
    exponent_A: int
    exponent_y: int

    @property
    def exponent_Q(self) -> int:
        """`Q = 2**exponent_Q Q~`; even, so that a factor has a unit, too."""
        return self.exponent_y - self.exponent_A

    @property
    def exponent_t(self) -> int:
        """`t = 2**exponent_t t~`."""
        return -(self.exponent_A + self.exponent_y)

    @property
    def exponent_loss(self) -> int:
        return 2 * self.exponent_y if isinstance(self.loss, SquaredLoss) else 0

    def log_time(self, time: np.ndarray) -> np.ndarray:
        """The natural log of the user's time, from the scaled time; -inf at 0."""
        with np.errstate(divide="ignore"):
            return np.log(time) + self.exponent_t * math.log(2)

    def value(self, loss: np.ndarray) -> np.ndarray:
        """Losses in the user's unit: they may leave the doubles where the data's squares do."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(loss, self.exponent_loss)


def scale(measurements: Measurements, loss: OutputLoss | None, size_of_start: Callable[[Measurements], float]):
    """The problem in units of size one.

    Targets that are all zero have no size: then `size_of_start(A~)`, the size of the outputs at the start, is the unit.
    """
    p = measurements.exponent
    p += p % 2
    m = 0
    if loss is None:
        top = float(np.abs(measurements.y).max()) or math.ldexp(size_of_start(measurements.times(-p)), p)
        m = math.frexp(top)[1] if math.isfinite(top) else 1024
        m += m % 2
    scaled = measurements.times(-p, -m)
    output_loss = SquaredLoss(scaled.y) if loss is None else FunctionLoss(loss, scaled.y)
    return ScaledProblem(measurements=scaled, loss=output_loss, exponent_A=p, exponent_y=m)


def checked_start(start: object, name: str, *, axes: str, d: int) -> Float[np.ndarray, "d ..."]:
    """A start as float64: `d` rows, as many columns where `axes` says `d, d`; finite, and not all zero."""
    array, _ = to_float64(start, name)
    letters = axes.split(", ")
    fits = array.ndim == len(letters) and all(
        k == d for k, letter in zip(array.shape, letters, strict=False) if letter == "d"
    )
    if not fits or array.size == 0:
        written = f"({axes},)" if len(letters) == 1 else f"({axes})"
        raise ValueError(f"`{name}` must have shape {written} with d = {d}; got {shape_text(array.shape)}.")
    check_finite(array, name)
    if not array.any():
        raise ValueError(f"`{name}` is all zero, and the flow stays there; start from something else.")
    return array


def checked_commuting(measurements: Measurements) -> Float[np.ndarray, "n d"]:
    """The eigenvalues a of commuting measurements."""
    a = measurements.eigenvalues
    if a is None:
        raise TypeError(
            "`measurements` must be `CommutingMeasurements`: others do not keep Q diagonal; "
            f"got `{type(measurements).__name__}`."
        )
    return a


def checked_logs(d: int, q0: object, log_q0: object) -> Float[np.ndarray, " d"]:
    """`log q0` from the one of the two that was given."""
    if (q0 is None) == (log_q0 is None):
        raise ValueError(f"pass one of `q0` and `log_q0`; got {'neither' if q0 is None else 'both'}.")
    name = "log_q0" if q0 is None else "q0"
    given, _ = to_float64(log_q0 if q0 is None else q0, name)
    check_ndim(given, name, axes="d")
    if given.size != d:
        raise ValueError(f"`{name}` must have shape ({d},); got {shape_text(given.shape)}.")
    check_finite(given, name)
    if q0 is None:
        return given
    if (bad := np.flatnonzero(given <= 0)).size:
        raise ValueError(
            f"`q0[{bad[0]}]` is {given[bad[0]]:g}: every entry must be positive, for the flow cannot leave zero; "
            "for entries too small for a double pass `log_q0`."
        )
    return np.log(given)


def checked_step(step_size: float, until: float) -> None:
    """Raise `ValueError` for a step size or a residual to stop at that is out of range."""
    if not (math.isfinite(step_size) and step_size > 0):
        raise ValueError(f"`step_size` must be positive and finite; got {step_size!r}.")
    if not 0 <= until < 1:
        raise ValueError(f"`until` must be at least 0 and below 1; got {until!r}.")


def to_units(array: np.ndarray, exponent: int, name: str) -> np.ndarray:
    """`array` times `2**-exponent`, or `ValueError` when that leaves the doubles or loses digits."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(array, -exponent)
        back = np.ldexp(scaled, exponent)
    if not np.array_equal(back, array):
        raise ValueError(
            f"`{name}` (largest entry {np.abs(array).max():.1e}) and the size that fits the data, about 1e"
            f"{exponent * math.log10(2):+.0f}, are further apart than doubles reach; rescale the data or `{name}`."
        )
    return scaled


def from_units(array: np.ndarray, exponent: int) -> np.ndarray:
    """`array` times `2**exponent`."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(array, exponent)
