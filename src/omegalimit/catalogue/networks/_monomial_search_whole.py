"""The whole-number part of the search for critical points: families of small weights, and ranks modulo a prime in bulk.

A rank modulo a prime is at most the true rank, so a net that reaches the generic rank is proved not to be critical.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from ...models.monomial import MonomialNetwork

Batch = tuple[np.ndarray, ...]
"""Weights of many nets of one architecture: an array (B, d_l, d_{l-1}) a layer."""

PRIMES = (2**31 - 1, 2**31 - 19)  # products of two residues stay below 2**62
_CHUNK = 4096


def families(network: MonomialNetwork, n: int, largest: int, rng: np.random.Generator) -> Iterator[tuple[str, Batch]]:
    """Batches of whole-number weights, each with its name; about n in all, half of them where all small ones fit."""
    shapes = network.shapes
    if n == 0:
        return
    h = exhausted(network, n // 2)
    if h:
        yield f"all with entries up to {h}", _all(network, h)
    share = max(1, (n // 2 if h else n) // 6)

    def draw(most):
        return tuple(rng.integers(-most, most + 1, (share, *shape)) for shape in shapes)

    yield "entries up to 1", draw(1)
    yield f"entries up to {largest}", draw(largest)
    yield "signs", tuple(rng.choice(np.array([-1, 1]), (share, *shape)) for shape in shapes)
    low = list(draw(largest))
    for k, (rows, columns) in enumerate(shapes[:-1]):  # rows that span less than they could
        inner = min(rows, columns) - 1
        if inner >= 2:
            left, right = rng.integers(-1, 2, (share, rows, inner)), rng.integers(-1, 2, (share, inner, columns))
            low[k] = np.where(rng.random((share, 1, 1)) < 0.7, left @ right, low[k])
    yield "dependent rows", tuple(low)
    plane = list(draw(largest))
    for k, (rows, columns) in enumerate(shapes[:-1]):
        if min(rows, columns) >= 3:
            left, right = rng.integers(-2, 3, (share, rows, 2)), rng.integers(-1, 2, (share, 2, columns))
            plane[k] = left @ right
    yield "rows in one plane", tuple(plane)
    equal = list(draw(largest))
    for k in range(1, len(shapes)):
        column = rng.integers(-1, 2, (share, shapes[k][0], 1))
        signs = rng.choice(np.array([-1, 1]), (share, 1, shapes[k][1]))
        equal[k] = np.where(rng.random((share, 1, 1)) < 0.5, column * signs, equal[k])
    yield "equal outgoing columns", tuple(equal)


def exhausted(network: MonomialNetwork, most: int) -> int:
    """The largest h for which all nets with entries up to h, one of each orbit, are at most `most`; 0 for none."""
    h = 0
    while h < 6 and _n_all(network, h + 1, most) <= most:
        h += 1
    return h


def _n_all(network, h, most):
    """How many `_all` makes; any number above `most` where one of its lists alone would be longer."""
    total = 1
    for rows, columns in network.shapes[:-1]:
        if (2 * h + 1) ** columns > 20 * most:
            return most + 1
        total *= math.comb(len(_lines(columns, h)), rows)
    rows, columns = network.shapes[-1]
    if (2 * h + 1) ** (rows * columns) > 20 * most:
        return most + 1
    return total * len(_outputs(rows, columns, h))


def _all(network: MonomialNetwork, h: int) -> Batch:
    """Every net with entries up to h in absolute value whose rows are in lowest terms, one of each orbit.

    Rescaling makes a hidden row primitive, with its first entry that is not zero positive; a permutation orders the
    rows of a layer. What is proportional, or zero, is a subnetwork and left out. The output's matrix is taken up to a
    factor, with no zero column. (A net whose rows become primitive only with larger numbers in the columns after them
    is not among these.)
    """
    choices = []
    for rows, columns in network.shapes[:-1]:
        lines = _lines(columns, h)
        sets = list(itertools.combinations(range(len(lines)), rows))
        choices.append(lines[np.array(sets, dtype=int).reshape(len(sets), rows)])
    choices.append(_outputs(*network.shapes[-1], h))
    index = np.unravel_index(np.arange(math.prod(len(c) for c in choices)), [len(c) for c in choices])
    return tuple(c[i] for c, i in zip(choices, index, strict=True))


def _lines(k, h):
    """The primitive vectors of k whole numbers up to h whose first entry that is not zero is positive."""
    grid = np.array(list(itertools.product(range(-h, h + 1), repeat=k)), dtype=np.int64)
    grid = grid[np.any(grid, axis=1)]
    first = np.take_along_axis(grid, (grid != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    return grid[(first > 0) & (np.gcd.reduce(grid, axis=1) == 1)]


def _outputs(rows, columns, h):
    matrices = _lines(rows * columns, h).reshape(-1, rows, columns)
    return matrices[np.any(matrices, axis=1).all(axis=1)]


def are_subnetworks(batch: Batch) -> np.ndarray:
    """Exactly, for whole numbers far below 2**31 (their products are whole numbers too)."""
    found = np.zeros(len(batch[0]), dtype=bool)
    for W, after in itertools.pairwise(batch):
        found |= ~(np.any(W, axis=2).all(axis=1) & np.any(after, axis=1).all(axis=1))
        for i, j in itertools.combinations(range(W.shape[1]), 2):
            minors = W[:, i, :, None] * W[:, j, None, :]
            found |= (minors == np.swapaxes(minors, 1, 2)).all(axis=(1, 2))
    return found


def ranks(network: MonomialNetwork, batch: Batch, generic: int, rng: np.random.Generator) -> np.ndarray:
    """Lower bounds of the ranks: of those below `generic` modulo one prime, the larger one modulo two."""
    found = np.zeros(len(batch[0]), dtype=int)
    for start in range(0, len(found), _CHUNK):
        part = tuple(W[start : start + _CHUNK] for W in batch)
        first = ranks_modulo(network, part, PRIMES[0], rng)
        low = np.flatnonzero(first < generic)
        if low.size:
            first[low] = np.maximum(first[low], ranks_modulo(network, tuple(W[low] for W in part), PRIMES[1], rng))
        found[start : start + len(first)] = first
    return found


def ranks_modulo(network: MonomialNetwork, batch: Batch, p: int, rng: np.random.Generator) -> np.ndarray:
    """The ranks of the Jacobian modulo p at random points, enough of them for the number of weights."""
    n_points = -(-network.n_parameters // network.widths[-1]) + 2
    X = rng.integers(0, p, (n_points, network.widths[0]))
    return _eliminate(jacobian(network, tuple(np.asarray(W) % p for W in batch), X, p), p)


def _eliminate(A: np.ndarray, p: int) -> np.ndarray:
    """Ranks of matrices (B, K, P) modulo p; A is used up."""
    B, K, P = A.shape
    rank, rows = np.zeros(B, dtype=int), np.arange(K)
    for column in range(P):
        open_ = (rows >= rank[:, None]) & (A[:, :, column] != 0)
        has = np.flatnonzero(open_.any(axis=1))
        if not has.size:
            continue
        pivot, top = open_[has].argmax(axis=1), rank[has]
        swapped = A[has, pivot].copy()
        A[has, pivot] = A[has, top]
        A[has, top] = swapped * _inverse(swapped[:, column], p)[:, None] % p
        below = np.where(rows[None, :] > top[:, None], A[has, :, column], 0)
        A[has] = (A[has] - below[:, :, None] * A[has, top][:, None, :]) % p
        rank[has] += 1
    return rank


def _inverse(x, p):
    """`x^(p-2)` modulo p."""
    found, power, exponent = np.ones_like(x), x.copy(), p - 2
    while exponent:
        if exponent & 1:
            found = found * power % p
        power, exponent = power * power % p, exponent >> 1
    return found


def jacobian(network: MonomialNetwork, batch: Batch, X: np.ndarray, p: int | None = None) -> np.ndarray:
    """The derivatives of the outputs at X, shape (B, n m, P), of real or complex weights, or of residues modulo p."""
    r, m = network.degree, network.widths[-1]

    def reduced(a):
        return a if p is None else a % p

    def product(a, W):  # rows a, of shape (B, ..., k), times the matrices W, (B, k, c); terms are reduced one by one
        if p is None:
            return np.einsum("b...k,bkc->b...c", a, W)
        W = W.reshape(len(W), *(1,) * (a.ndim - 2), *W.shape[1:])
        return sum(a[..., k, None] * W[..., k, :] % p for k in range(W.shape[-2])) % p

    def power(a, k):
        found = np.ones_like(a)
        while k:  # repeated squaring
            if k & 1:
                found = reduced(found * a)
            k >>= 1
            if k:
                a = reduced(a * a)
        return found

    B = len(batch[0])
    inputs, slopes = [np.broadcast_to(X, (B, *X.shape))], []
    for W in batch[:-1]:
        h = product(inputs[-1], np.swapaxes(W, 1, 2))
        low = power(h, r - 1)
        slopes.append(reduced(r * low))
        inputs.append(reduced(low * h))
    back = np.broadcast_to(np.eye(m, dtype=inputs[-1].dtype), (B, len(X), m, m))
    blocks = []
    for k in range(len(batch) - 1, -1, -1):
        block = reduced(back[..., :, None] * inputs[k][:, :, None, None, :])
        blocks.append(block.reshape(B, len(X) * m, -1))
        if k:
            back = reduced(product(back, batch[k]) * slopes[k - 1][:, :, None, :])
    return np.concatenate(blocks[::-1], axis=2)
