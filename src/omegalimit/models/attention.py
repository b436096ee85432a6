"""Parametrisations of the matrix `W` of one-layer softmax attention, as functions of one flat vector `theta`."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np


class AbstractAttention(eqx.Module):
    """`theta -> W(theta)`, homogeneous of degree `degree`, with logits `h_il = x_il^T W z_i` that never form `W` per
    input.

    - `d`: token dimension; `size`: number of parameters.
    - `parts`: the labels of the parameter blocks.
    """

    d: eqx.AbstractVar[int]
    name: eqx.AbstractClassVar[str]
    degree: eqx.AbstractClassVar[int]

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of parameters, length of `theta`."""

    @abc.abstractmethod
    def logits(self, theta, X, z) -> Any:
        """`h_il = x_il^T W(theta) z_i`, shape (n, L), for X (n, L, d), z (n, d)."""

    @abc.abstractmethod
    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """`W(theta)`, NumPy, shape (..., d, d) for theta (..., size)."""

    @abc.abstractmethod
    def balance(self, theta: np.ndarray) -> np.ndarray | None:
        """The conserved quantity of gradient flow, of degree 2, shape (..., ?); `None` when there is none."""


class MergedAttention(AbstractAttention):
    """`W` itself is trained, shape (d, d)."""

    d: int = eqx.field(static=True)
    name: ClassVar[str] = "merged"
    degree: ClassVar[int] = 1

    @property
    def size(self) -> int:
        return self.d * self.d

    def logits(self, theta, X, z) -> Any:
        _n, _L, d = X.shape
        Wz = z @ theta.reshape(d, d).T
        return jnp.einsum("nld,nd->nl", X, Wz)

    def matrix(self, theta):
        return theta.reshape(*theta.shape[:-1], self.d, self.d)

    def balance(self, theta):
        return None


class KeyQueryAttention(AbstractAttention):
    """`W = K Q^T` with K and Q of shape (d, inner) trained apart; `inner` may be smaller or larger than d."""

    d: int = eqx.field(static=True)
    inner: int = eqx.field(static=True)
    name: ClassVar[str] = "kq"
    degree: ClassVar[int] = 2

    @property
    def size(self) -> int:
        return 2 * self.d * self.inner

    def split(self, theta):
        """`(K, Q)`, each of shape (..., d, inner)."""
        half = self.d * self.inner
        shape = (*theta.shape[:-1], self.d, self.inner)
        return theta[..., :half].reshape(shape), theta[..., half:].reshape(shape)

    def logits(self, theta, X, z) -> Any:
        K, Q = self.split(theta)
        # x^T (K (Q^T z)): the queries first, they are L times fewer than the tokens.
        return jnp.einsum("nld,nd->nl", X, (z @ Q) @ K.T)

    def matrix(self, theta):
        K, Q = self.split(theta)
        return K @ np.swapaxes(Q, -1, -2)

    def balance(self, theta):
        """`K^T K - Q^T Q`, flattened."""
        K, Q = self.split(theta)
        C = np.swapaxes(K, -1, -2) @ K - np.swapaxes(Q, -1, -2) @ Q
        return C.reshape(*theta.shape[:-1], -1)


class DiagonalKeyQueryAttention(AbstractAttention):
    """`W = diag(k q)`: K and Q diagonal, `theta = (k, q)`."""

    d: int = eqx.field(static=True)
    name: ClassVar[str] = "diagonal-kq"
    degree: ClassVar[int] = 2

    @property
    def size(self) -> int:
        return 2 * self.d

    def logits(self, theta, X, z) -> Any:
        return jnp.einsum("nld,nd->nl", X, z * (theta[: self.d] * theta[self.d :]))

    def matrix(self, theta):
        return _diagonal(theta[..., : self.d] * theta[..., self.d :])

    def balance(self, theta):
        """`k_j^2 - q_j^2`, shape (..., d)."""
        return theta[..., : self.d] ** 2 - theta[..., self.d :] ** 2


class MergedDiagonalAttention(AbstractAttention):
    """`W = diag(beta)`, `theta = beta`."""

    d: int = eqx.field(static=True)
    name: ClassVar[str] = "diagonal-merged"
    degree: ClassVar[int] = 1

    @property
    def size(self) -> int:
        return self.d

    def logits(self, theta, X, z) -> Any:
        return jnp.einsum("nld,nd->nl", X, z * theta)

    def matrix(self, theta):
        return _diagonal(theta)

    def balance(self, theta):
        return None


def _diagonal(beta: np.ndarray) -> np.ndarray:
    """`diag(beta)`, shape (..., d, d)."""
    return beta[..., None] * np.eye(beta.shape[-1])
