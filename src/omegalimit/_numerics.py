"""Log-domain helpers and the library's own switch to double precision."""

from typing import Any

import jax
import jax.numpy as jnp


def double_precision() -> Any:
    """A context in which JAX computes in double precision; a user's other JAX code keeps its own setting.

    An array that leaves the context turns single at its next operation, so every boundary converts to NumPy.
    """
    return jax.enable_x64(True)


def log_expm1_ratio(x):
    """`log((e^x - 1) / x)`, shape of `x`, for x >= 0; 0 at x = 0. No overflow for large x."""
    large = x > 40.0
    small = jnp.where(large, 1.0, jnp.maximum(x, jnp.finfo(jnp.result_type(x)).tiny))
    big = jnp.where(large, x, 41.0)
    return jnp.where(large, big - jnp.log(big), jnp.log(jnp.expm1(small) / small))


def log_log1p_exp(y):
    """`log(log(1 + e^y))`, shape of `y`. For y -> -inf it is y to rounding; `log(log1p(exp(y)))` would be -inf."""
    low = y < -36.0
    return jnp.where(low, y, jnp.log(jax.nn.softplus(jnp.where(low, 0.0, y))))
