"""Losses of a margin, in logs: `l` itself underflows late in training, `log l` does not."""

import abc
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._checks import to_float64
from ._numerics import log_expm1_ratio, log_log1p_exp


class AbstractLoss(eqx.Module):
    """A decreasing, differentiable loss `l` of the margin with infimum 0."""

    name: eqx.AbstractClassVar[str]

    @property
    @abc.abstractmethod
    def largest_curvature(self) -> float:
        """The supremum of `l''`; infinite where there is none."""

    @abc.abstractmethod
    def log_value(self, z) -> Any:
        """`log l(z)`, shape of `z`."""

    @abc.abstractmethod
    def log_slope(self, z) -> Any:
        """`log(-l'(z))`, shape of `z`."""

    @abc.abstractmethod
    def log_gap(self, z, log_x) -> Any:
        """`log(l(z - x) - l(z))` for `x = exp(log_x) >= 0`, shape of `z`; never a difference of losses."""


class Exponential(AbstractLoss):
    """`l(z) = exp(-z)`."""

    name: ClassVar[str] = "exponential"

    @property
    def largest_curvature(self) -> float:
        return math.inf

    def log_value(self, z) -> Any:
        return -z

    def log_slope(self, z) -> Any:
        return -z

    def log_gap(self, z, log_x) -> Any:
        # e^{-z} expm1(x); the last term is 0 as x -> 0.
        return -z + log_x + log_expm1_ratio(jnp.exp(log_x))


class Logistic(AbstractLoss):
    """`l(z) = log(1 + exp(-z))`."""

    name: ClassVar[str] = "logistic"

    @property
    def largest_curvature(self) -> float:
        return 0.25

    def log_value(self, z) -> Any:
        return log_log1p_exp(-z)

    def log_slope(self, z) -> Any:
        return -jax.nn.softplus(z)

    def log_gap(self, z, log_x) -> Any:
        # log1p(sigma(-z) expm1(x)).
        return log_log1p_exp(-jax.nn.softplus(z) + log_x + log_expm1_ratio(jnp.exp(log_x)))


def _power(a: Any) -> float:
    """A number of any library as a `float`; the rest is said where its range is checked."""
    if a is None or isinstance(a, (bool, np.bool_, str, bytes)) or np.ndim(a):
        raise TypeError(f"`a` must be a number; got {a!r}.")
    return float(to_float64(a, "a")[0])


class PolynomialTail(AbstractLoss):
    """`-l'(z) = (1 + max(z, 0))^-(a + 1)`: convex and C1, `(1 + z)^-a / a` for z >= 0 and a straight line before it.

    A tail that falls by a power, and not exponentially, is outside the theorems on the maximum margin: the limit
    direction of its flow is another one. It is therefore not in `LOSSES`; it goes wherever a loss itself is accepted.
    """

    name: ClassVar[str] = "polynomial tail"
    a: float = eqx.field(converter=_power)

    def __check_init__(self):
        if not 0 < self.a < math.inf:
            raise ValueError(f"`a`, the power of the tail, must be positive and finite; got {self.a!r}.")

    @property
    def largest_curvature(self) -> float:
        return self.a + 1.0

    def log_value(self, z) -> Any:
        before = jnp.log(1 / self.a - jnp.where(z < 0, z, 0.0))
        return jnp.where(z < 0, before, -self.a * jnp.log1p(_positive_part(z)) - math.log(self.a))

    def log_slope(self, z) -> Any:
        return -(self.a + 1) * jnp.log1p(_positive_part(z))

    def log_gap(self, z, log_x) -> Any:
        # Three cases: both ends on the line; both on the tail, where l(z - x) = l(z) (1 - r)^-a with r = x / (1 + z);
        # and z on the tail with z - x on the line. No branch may make an infinity that its neighbour would inherit.
        over = _positive_part(z)
        value = -self.a * jnp.log1p(over) - math.log(self.a)
        tail = jnp.exp(log_x) <= over
        log_r = jnp.where(tail, log_x, -1.0) - jnp.log1p(over)
        r = jnp.exp(log_r)
        log_y = math.log(self.a) + log_r + _log_log1p_ratio(r)
        along = value + log_y + log_expm1_ratio(jnp.exp(log_y))
        y = self.a * jnp.log1p(over)
        rise = value + jnp.log(y) + log_expm1_ratio(y)
        line = log_x + jnp.log1p(-jnp.where(tail, 0.0, over * jnp.exp(-log_x)))
        return jnp.where(z <= 0, log_x, jnp.where(tail, along, jnp.logaddexp(rise, line)))


def _positive_part(z):
    """`max(z, 0)` with the derivative from the right at 0, where that of JAX's `maximum` is one half."""
    return jnp.where(z >= 0, z, 0.0)


def _log_log1p_ratio(r):
    """`log(-log(1 - r) / r)` for 0 <= r < 1; 0 at r = 0."""
    tiny = r < 1e-17
    inside = jnp.where(tiny, 0.5, r)
    return jnp.where(tiny, 0.0, jnp.log(-jnp.log1p(-inside) / inside))


LOSSES: dict[str, AbstractLoss] = {loss.name: loss for loss in (Exponential(), Logistic())}


def loss_named(name: str) -> AbstractLoss:
    """The loss called `name`. Raises `ValueError` for another name."""
    if name not in LOSSES:
        raise ValueError(f"`loss` must be one of {', '.join(LOSSES)}; got {name!r}.")
    return LOSSES[name]


def as_loss(loss: str | AbstractLoss) -> AbstractLoss:
    """A loss, or the one of that name. Raises `ValueError` for another name, `TypeError` for anything else."""
    if isinstance(loss, AbstractLoss):
        return loss
    if not isinstance(loss, str):
        raise TypeError(f"`loss` must be a name ({', '.join(LOSSES)}) or a loss; got {loss!r}.")
    return loss_named(loss)
