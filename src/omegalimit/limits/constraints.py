"""The constraints `A_1, ..., A_N` of a margin problem: vectors, dense or sparse; rank-one factors; matrices."""

import abc
import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

from .norms import AbstractNorm, Lp, conjugate, power_norms


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractConstraints(abc.ABC):
    """A linear map `W -> (<A_k, W>)_k` and its adjoint. Entries are near 1 at the largest: squares cannot overflow."""

    @property
    @abc.abstractmethod
    def n_constraints(self) -> int:
        """`N`."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of a point."""

    @abc.abstractmethod
    def margins(self, W: Float[np.ndarray, "..."]) -> Float[np.ndarray, " N"]:
        """`<A_k, W>`."""

    @abc.abstractmethod
    def combine(self, p: Float[np.ndarray, " N"]) -> Float[np.ndarray, "..."]:
        """`sum_k p_k A_k`."""

    @abc.abstractmethod
    def gram(self) -> Float[np.ndarray, "N N"]:
        """`<A_k, A_l>`."""

    @abc.abstractmethod
    def take(self, kept: np.ndarray) -> "AbstractConstraints":
        """The constraints with these indices."""

    @property
    @abc.abstractmethod
    def euclidean_sizes(self) -> Float[np.ndarray, " N"]:
        """`|A_k|_2`, Frobenius for matrices."""

    @abc.abstractmethod
    def dual_sizes(self, norm: AbstractNorm) -> Float[np.ndarray, " N"]:
        """`|A_k|_dual`."""

    def error_sizes(self, norm: AbstractNorm) -> Float[np.ndarray, " N"]:
        """Bounds on `|E_k|_dual` for errors `E_k` that are entrywise at most `|A_k|` in size."""
        if norm.blind_to_signs:
            return self.dual_sizes(norm)
        return norm.euclidean_factor(self.shape) * self.euclidean_sizes


@dataclasses.dataclass(frozen=True, eq=False)
class Rows(AbstractConstraints):
    """Vectors `A_k = rows[k]`: a dense array of shape `(N, d)`, or a SciPy sparse array in CSR format."""

    rows: Any

    @property
    def n_constraints(self):
        return self.rows.shape[0]

    @property
    def shape(self):
        return (self.rows.shape[1],)

    def margins(self, W):
        return self.rows @ W

    def combine(self, p):
        return self.rows.T @ p

    def gram(self):
        K = self.rows @ self.rows.T
        return K.toarray() if scipy.sparse.issparse(K) else K

    def take(self, kept):
        return Rows(self.rows[kept])

    @functools.cached_property
    def euclidean_sizes(self):
        if isinstance(self.rows, np.ndarray):
            return np.sqrt(np.einsum("kj,kj->k", self.rows, self.rows))
        return np.sqrt(np.asarray(self.rows.power(2).sum(1)).reshape(-1))

    def dual_sizes(self, norm):
        if isinstance(self.rows, np.ndarray):
            if isinstance(norm, Lp):
                return power_norms(np.abs(self.rows), conjugate(norm.p))
            return np.array([norm.dual(row) for row in self.rows])
        return np.array([norm.dual(self.rows[[k]].toarray()[0]) for k in range(self.n_constraints)])


@dataclasses.dataclass(frozen=True, eq=False)
class Factors(AbstractConstraints):
    """Rank-one matrices `A_k = D_k Z_k^T`, never multiplied out: `left = D` of `(N, d1)`, `right = Z` of `(N, d2)`."""

    left: Float[np.ndarray, "N d1"]
    right: Float[np.ndarray, "N d2"]

    @property
    def n_constraints(self):
        return len(self.left)

    @property
    def shape(self):
        return self.left.shape[1], self.right.shape[1]

    def margins(self, W):
        return np.einsum("kj,kj->k", self.left @ W, self.right)

    def combine(self, p):
        used = np.flatnonzero(p)
        return (self.left[used] * p[used, None]).T @ self.right[used]

    def gram(self):
        return (self.left @ self.left.T) * (self.right @ self.right.T)

    def congruence(self, u: Float[np.ndarray, "d1 r1"] | None, v: Float[np.ndarray, "d2 r2"] | None) -> np.ndarray:
        """`u^T A_k v`, shape `(N, r1, r2)`; `None` stands for the identity."""
        left = self.left if u is None else self.left @ u
        right = self.right if v is None else self.right @ v
        return left[:, :, None] * right[:, None, :]

    def take(self, kept):
        return Factors(self.left[kept], self.right[kept])

    @functools.cached_property
    def euclidean_sizes(self):
        return np.prod([np.sqrt(np.einsum("kj,kj->k", a, a)) for a in (self.left, self.right)], axis=0)

    def dual_sizes(self, norm):
        return self.euclidean_sizes  # every Schatten norm of a matrix of rank one

    def error_sizes(self, norm):
        return norm.euclidean_factor(self.shape) * self.euclidean_sizes


@dataclasses.dataclass(frozen=True, eq=False)
class Matrices(AbstractConstraints):
    """Matrices `A_k = matrices[k]`, shape `(N, d1, d2)`."""

    matrices: Float[np.ndarray, "N d1 d2"]

    @property
    def n_constraints(self):
        return len(self.matrices)

    @property
    def shape(self):
        return self.matrices.shape[1], self.matrices.shape[2]

    @functools.cached_property
    def flat(self) -> Float[np.ndarray, "N d"]:
        """The matrices as vectors of length `d1 d2`."""
        return self.matrices.reshape(len(self.matrices), -1)

    def margins(self, W):
        return self.flat @ W.reshape(-1)

    def combine(self, p):
        return (self.flat.T @ p).reshape(self.shape)

    def gram(self):
        return self.flat @ self.flat.T

    def congruence(self, u: Float[np.ndarray, "d1 r1"] | None, v: Float[np.ndarray, "d2 r2"] | None) -> np.ndarray:
        """`u^T A_k v`, shape `(N, r1, r2)`; `None` stands for the identity."""
        part = self.matrices if u is None else np.matmul(u.T, self.matrices)
        return part if v is None else np.matmul(part, v)

    def take(self, kept):
        return Matrices(self.matrices[kept])

    @functools.cached_property
    def euclidean_sizes(self):
        return np.sqrt(np.einsum("kj,kj->k", self.flat, self.flat))

    def dual_sizes(self, norm):
        return np.array([norm.dual(matrix) for matrix in self.matrices])
