"""A test's own JAX code in double precision."""

import jax
import numpy as np

from omegalimit._numerics import double_precision


def in_double(function):
    """`function` run in double precision, its arrays returned as NumPy arrays."""

    def wrapped(*args):
        with double_precision():
            return jax.tree.map(np.asarray, function(*args))

    return wrapped
