"""Particles in blocks that the cache holds: one pass over a block updates it and evaluates the network there.

A block keeps `theta`, shape (m + D, b), the outgoing weights a in its first m rows and the directions v below. With
`H = Xt V`, shape (n, b), and the mask M = [H > 0], relu's forces need one product with a matrix of mD rows,

    T_k = W_k M,   W_k = -(step/n) (r_k o Xt)',   a_k += v'T_k,   v += sum_k a_k T_k,

since relu(h) = [h > 0] h; and its outputs need no mask: `sum_j a_j relu(h_j) = (Xt (V a) + |H| a) / 2`. M is kept from
the evaluation to the next update, a byte an entry; at h = 0 relu's slope is taken as 0. Other activations compute H
twice instead.

Every block has its own random stream, and sums over blocks are taken in their order, so that threads change no bit.
"""

import concurrent.futures
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float

from .._threads import one_blas_thread

# Numbers of H in a block: 2^18 doubles are 2 MiB, which stay in the cache that cores share. Smaller blocks are no
# faster on one thread; on two, their operations are so short that the interpreter's lock has one wait for the other.
_BLOCK_NUMBERS, _LEAST, _MOST = 2**18, 256, 8192
_TWO_PI = 2 * math.pi


@dataclasses.dataclass(frozen=True, eq=False)
class Neuron:
    """The activation phi, and its slope, both of arrays; `None` in both is relu."""

    name: str
    value: Callable[[np.ndarray], np.ndarray] | None
    slope: Callable[[np.ndarray], np.ndarray] | None

    def __call__(self, h: np.ndarray) -> np.ndarray:
        return np.maximum(h, 0.0) if self.value is None else self.value(h)


@dataclasses.dataclass(eq=False)
class Block:
    """So many particles, their random stream, and (relu) which of their entries of H are positive."""

    theta: Float[np.ndarray, "P b"]
    rng: np.random.Generator
    mask: Bool[np.ndarray, "n b"] | None


def block_size(n: int, N: int) -> int:
    """How many of N particles a block has, for n inputs; threads have no say in it, so that streams stay the same.

    All blocks but the last are of this size, which leaves one block or an even number of them, for two threads.
    """
    most = min(_MOST, max(_LEAST, _BLOCK_NUMBERS // n))
    n_blocks = -(-N // most)
    return -(-N // (n_blocks + n_blocks % 2)) if n_blocks > 1 else N


def make_blocks(theta: Float[np.ndarray, "P N"], n: int, *, relu: bool, seed: int) -> list[Block]:
    """The particles `theta` in blocks; the streams are children of `seed`."""
    size = block_size(n, theta.shape[1])
    firsts = range(0, theta.shape[1], size)
    streams = np.random.SeedSequence(seed).spawn(len(firsts))
    blocks = []
    for first, stream in zip(firsts, streams, strict=True):
        part = np.ascontiguousarray(theta[:, first : first + size])
        # SFC64 is the fastest of NumPy's generators, and has 256 bits of state.
        rng = np.random.Generator(np.random.SFC64(stream))
        blocks.append(Block(part, rng, np.empty((n, part.shape[1]), dtype=bool) if relu else None))
    return blocks


def gathered(blocks: list[Block]) -> Float[np.ndarray, "P N"]:
    """The particles of all blocks."""
    return np.concatenate([block.theta for block in blocks], axis=1)


class Stepper:
    """Updates of all blocks, and the sums of their outputs."""

    def __init__(
        self, rows: Float[np.ndarray, "n D"], m: int, neuron: Neuron, blocks: list[Block], *, single: bool
    ) -> None:
        self._rows, self._m, self._neuron, self._blocks = rows, m, neuron, blocks
        self._single = single
        self._sums = np.zeros((len(blocks), len(rows), m))

    @contextlib.contextmanager
    def threads(self, n_threads: int) -> Iterator[Callable[..., Float[np.ndarray, "n m"]]]:
        """Inside, a function `pass_over(residual, step_size, decay, sigma)` that returns `sum_j phi(v_j'xt_i) a_j`.

        It updates every particle and evaluates the network there; with `residual=None` it only evaluates.
        """
        n_threads = min(n_threads, len(self._blocks))
        scratches = [_Scratch(self._rows, self._m, self._blocks[0].theta.shape[1]) for _ in range(n_threads)]

        def work(k: int, *arguments) -> None:
            # What a step that is too large leads to is a value of the result, not a warning; each thread has its own.
            with np.errstate(all="ignore"):
                for i in range(k, len(self._blocks), n_threads):
                    self._pass(i, scratches[k], *arguments)

        with one_blas_thread():
            if n_threads == 1:
                yield lambda *arguments: self._summed(work, *arguments)
                return
            with concurrent.futures.ThreadPoolExecutor(n_threads - 1) as pool:

                def together(*arguments) -> None:
                    others = [pool.submit(work, k, *arguments) for k in range(1, n_threads)]
                    work(0, *arguments)
                    for other in others:
                        other.result()

                yield lambda *arguments: self._summed(lambda _, *rest: together(*rest), *arguments)

    def _summed(self, work: Callable[..., None], residual, step_size, decay, sigma) -> Float[np.ndarray, "n m"]:
        with np.errstate(all="ignore"):
            if residual is None:
                weights = None
            elif self._neuron.slope is None:
                scaled = residual * (-step_size / len(self._rows))
                weights = np.concatenate([(self._rows * scaled[:, k : k + 1]).T for k in range(self._m)])
            else:
                weights = np.ascontiguousarray((residual * (-step_size / len(self._rows))).T)
            work(0, weights, decay, sigma)
            return self._sums.sum(axis=0)

    def _pass(self, i: int, scratch: "_Scratch", weights: np.ndarray | None, decay: float, sigma: float) -> None:
        block, m = self._blocks[i], self._m
        theta, b = block.theta, block.theta.shape[1]
        H = scratch.wide[: len(self._rows) * b].reshape(-1, b)
        if weights is not None:
            if self._neuron.slope is None:
                assert block.mask is not None
                np.copyto(H, block.mask)
                _relu_update(theta, m, weights, H, decay, scratch)
            else:
                self._smooth_update(theta, weights, H, decay, scratch)
            if sigma > 0:
                noise = scratch.noise(block.rng, theta.shape, sigma, single=self._single)
                np.add(theta, noise, out=theta)
        a, V = theta[:m], theta[m:]
        np.matmul(self._rows, V, out=H)
        if self._neuron.value is None:
            assert block.mask is not None
            np.greater(H, 0.0, out=block.mask)
            np.abs(H, out=H)
            self._sums[i] = 0.5 * (self._rows @ (V @ a.T) + H @ a.T)
        else:
            self._sums[i] = self._neuron.value(H) @ a.T

    def _smooth_update(self, theta, weights, H, decay, scratch) -> None:
        m, b = self._m, theta.shape[1]
        neuron = self._neuron
        assert neuron.value is not None
        assert neuron.slope is not None
        a, V = theta[:m], theta[m:]
        np.matmul(self._rows, V, out=H)
        change = scratch.change[: theta.size].reshape(-1, b)
        np.matmul(weights, neuron.value(H), out=change[:m])
        np.matmul(self._rows.T, (weights.T @ a) * neuron.slope(H), out=change[m:])
        np.multiply(theta, decay, out=theta)
        np.add(theta, change, out=theta)


def _relu_update(theta, m: int, weights, M, decay: float, scratch: "_Scratch") -> None:
    b = theta.shape[1]
    a, V = theta[:m], theta[m:]
    D = len(V)
    T = scratch.forces[: m * D * b].reshape(m * D, b)
    product, change = scratch.change[: D * b].reshape(D, b), scratch.outgoing[: m * b].reshape(m, b)
    np.matmul(weights, M, out=T)
    for k in range(m):
        part = T[k * D : (k + 1) * D]
        np.multiply(V, part, out=product)
        np.add.reduce(product, axis=0, out=change[k])
        np.multiply(part, a[k], out=part)
        if k:
            np.add(T[:D], part, out=T[:D])
    np.multiply(theta, decay, out=theta)
    np.add(a, change, out=a)
    np.add(V, T[:D], out=V)


class _Scratch:
    """What one thread works in."""

    def __init__(self, rows: Float[np.ndarray, "n D"], m: int, b: int) -> None:
        n, D = rows.shape
        self.wide, self.forces = np.empty(n * b), np.empty(m * D * b)
        self.change, self.outgoing = np.empty((m + D) * b), np.empty(m * b)
        half = ((m + D) * b + 1) // 2
        self._singles, self._pair = np.empty(2 * half, np.float32), np.empty(2 * half, np.float32)

    def noise(self, rng, shape: tuple[int, int], sigma: float, *, single: bool) -> Float[np.ndarray, "P b"]:
        """Independent normals of the standard deviation sigma, in doubles."""
        k = shape[0] * shape[1]
        out = self.change[:k]
        if not single:
            rng.standard_normal(out=out)
            return np.multiply(out, sigma, out=out).reshape(shape)
        half = (k + 1) // 2
        xi = box_muller(rng, self._singles[: 2 * half], self._pair[: 2 * half])
        return np.multiply(xi[:k], sigma, out=out, dtype=np.float64).reshape(shape)


def box_muller(rng: np.random.Generator, work: np.ndarray, out: np.ndarray) -> Float[np.ndarray, " k"]:
    """Standard normals in single precision into `out`, of an even length k; `work` has the same length.

    `sqrt(-2 log u) (cos, sin)(2 pi w)` from 32 bits for u and 32 for w: three times as fast as the rejections of
    `standard_normal`, since NumPy computes these functions several at a time. The largest is `sqrt(66 log 2)` = 6.76,
    beyond which a normal has a probability of 1.4e-11; below 3e-4 the radius is coarse.
    """
    half = len(out) // 2
    bits = rng.integers(0, 2**64 - 1, size=half, dtype=np.uint64, endpoint=True).view(np.uint32)
    np.copyto(work, bits, casting="unsafe")
    radius, angle, cos, sin = work[:half], work[half:], out[:half], out[half:]
    np.multiply(radius, np.float32(2.0**-32), out=radius)
    np.add(radius, np.float32(2.0**-33), out=radius)  # log 0 has no place here
    np.log(radius, out=radius)
    np.multiply(radius, np.float32(-2), out=radius)
    np.sqrt(radius, out=radius)
    np.multiply(angle, np.float32(_TWO_PI * 2.0**-32), out=angle)
    np.cos(angle, out=cos)
    np.sin(angle, out=sin)
    np.multiply(cos, radius, out=cos)
    np.multiply(sin, radius, out=sin)
    return out
