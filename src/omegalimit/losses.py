"""Losses of a margin, in logs: `l` itself underflows late in training, `log l` does not."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ._numerics import log_expm1_ratio, log_log1p_exp


class AbstractLoss(eqx.Module):
    """A decreasing, differentiable loss `l` of the margin with infimum 0."""

    name: eqx.AbstractClassVar[str]

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

    def log_value(self, z) -> Any:
        return log_log1p_exp(-z)

    def log_slope(self, z) -> Any:
        return -jax.nn.softplus(z)

    def log_gap(self, z, log_x) -> Any:
        # log1p(sigma(-z) expm1(x)).
        return log_log1p_exp(-jax.nn.softplus(z) + log_x + log_expm1_ratio(jnp.exp(log_x)))


LOSSES: dict[str, AbstractLoss] = {loss.name: loss for loss in (Exponential(), Logistic())}


def loss_named(name: str) -> AbstractLoss:
    """The loss called `name`. Raises `ValueError` for another name."""
    if name not in LOSSES:
        raise ValueError(f"`loss` must be one of {', '.join(LOSSES)}; got {name!r}.")
    return LOSSES[name]
