"""The Jacobian of a monomial network modulo a prime, at many points at once.

Two arithmetics. `Residues`: integers in `[0, p)`, int64 for p < 2^31 and Python's integers beyond. `FloatResidues`:
integers of absolute value about p/2 in float64, p < 2^24, where a product of matrices is one of BLAS and exact:
every partial sum of up to 128 products stays below 2^53. That takes a third of the time, and is for many points.
"""

import functools

import numpy as np
from flint import fmpz, nmod_mat

from ._rank_weights import Layers

_TERMS = 128
FLOAT_BITS = 24
SMALL_BITS = 31
LARGE_BITS = 61
SPARE_POINTS = 4


@functools.lru_cache(maxsize=4)
def primes_below(bits: int, count: int) -> tuple[int, ...]:
    """The `count` largest primes below `2^bits`."""
    found, candidate = [], 2**bits - 1
    while len(found) < count:
        if fmpz(candidate).is_prime():
            found.append(candidate)
        candidate -= 2
    return tuple(found)


def random_prime(rng: np.random.Generator, bits: int) -> int:
    """A prime drawn uniformly from those in `[2^(bits-1), 2^bits)`."""
    while True:
        candidate = int(rng.integers(2 ** (bits - 1), 2**bits))
        if fmpz(candidate).is_prime():
            return candidate


class Residues:
    """Arithmetic modulo `p` on arrays of integers in `[0, p)`."""

    def __init__(self, p: int) -> None:
        self.p = p
        self.dtype = np.int64 if p < 2**31 else object

    def array(self, values) -> np.ndarray:
        """Python integers, as residues."""
        return np.array([[x % self.p for x in row] for row in values], dtype=self.dtype)

    def times(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """`a b`, entry by entry."""
        return a * b % self.p

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The product of matrices `a b`."""
        terms = (a[..., k, None] * b[k] % self.p for k in range(len(b)))
        return functools.reduce(np.add, terms) % self.p

    def power(self, a: np.ndarray, r: int) -> np.ndarray:
        """`a^r`, r >= 1."""
        found = None
        while True:
            if r & 1:
                found = a if found is None else self.times(found, a)
            r >>= 1
            if not r:
                assert found is not None
                return found
            a = self.times(a, a)


class FloatResidues(Residues):
    """Arithmetic modulo a prime `p < 2^24` on float64 arrays of integers of absolute value at most `p/2 + 1`."""

    def __init__(self, p: int) -> None:
        assert p < 2**FLOAT_BITS
        self.p = p
        self.dtype = np.float64

    def array(self, values) -> np.ndarray:
        half = self.p // 2
        return np.array([[(x + half) % self.p - half for x in row] for row in values], dtype=np.float64)

    def _reduced(self, a):
        # |a| < 2^53: the quotient is off by at most one unit near a half, the product and the difference are exact.
        return a - np.rint(a / self.p) * self.p

    def times(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._reduced(a * b)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        parts = [self._reduced(a[..., k : k + _TERMS] @ b[k : k + _TERMS]) for k in range(0, len(b), _TERMS)]
        return parts[0] if len(parts) == 1 else self._reduced(sum(parts))


def residue_jacobian(ring: Residues, layers: Layers, degree: int, X: np.ndarray) -> np.ndarray:
    """The Jacobian modulo `ring.p` at the rows of `X` (residues): shape (n, d_L, n_parameters)."""
    weights = [ring.array(W) for W in layers]
    inputs, slopes = [X], []
    for W in weights[:-1]:
        h = ring.product(inputs[-1], W.T)
        lower = ring.power(h, degree - 1)
        inputs.append(ring.times(lower, h))
        slopes.append(ring.times(lower, np.array(degree % ring.p, dtype=ring.dtype)))
    n, m = len(X), len(weights[-1])
    delta, blocks = None, []
    for layer in range(len(weights) - 1, -1, -1):
        if delta is None:
            block = np.zeros((n, m, m, inputs[layer].shape[1]), dtype=ring.dtype)
            for o in range(m):
                block[:, o, o] = inputs[layer]
            delta = weights[layer][None] if layer else None
        else:
            block = ring.times(delta[..., :, None], inputs[layer][:, None, None, :])
            delta = ring.product(delta, weights[layer])
        blocks.append(block.reshape(n, m, -1))
        if layer:
            assert delta is not None
            delta = ring.times(delta, slopes[layer - 1][:, None, :])
    return np.concatenate(blocks[::-1], axis=-1)


def sampled_jacobian(
    p: int, layers: Layers, degree: int, rng: np.random.Generator, n_points: int | None = None
) -> nmod_mat:
    """The Jacobian modulo `p` at `n_points` random points, by default a few more than there are columns.

    Its rank is a lower bound of the rank of the differential over the rationals: a minor that does not vanish modulo p
    at some points is no zero polynomial. As many points as columns are enough in general position, and with several
    outputs fewer are not: where only one output depends on a weight, each point gives one useful row.
    """
    n_columns = sum(len(W) * len(W[0]) for W in layers)
    J = sampled_residues(p, layers, degree, rng, n_columns + SPARE_POINTS if n_points is None else n_points)
    return nmod_mat(len(J), n_columns, J.ravel().tolist(), p)


def sampled_residues(p: int, layers: Layers, degree: int, rng: np.random.Generator, n_points: int) -> np.ndarray:
    """The Jacobian modulo `p` at `n_points` random points as an array, shape (n_points d_L, n_parameters)."""
    ring = Residues(p)
    X = rng.integers(0, p, (n_points, len(layers[0][0]))).astype(ring.dtype)
    J = residue_jacobian(ring, layers, degree, X)
    return J.reshape(n_points * J.shape[1], -1)
