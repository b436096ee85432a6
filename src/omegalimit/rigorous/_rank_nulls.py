"""Null vectors of the differential over the rationals: found modulo primes, proved on a unisolvent set of points.

Found: the reduced echelon form of the sampled Jacobian modulo several primes gives the null vectors' residues; the
Chinese remainder theorem and rational reconstruction give fractions. Nothing here is trusted.

Proved: `J v` is a vector of polynomials of degree D with integer coefficients, of absolute value at most B
(`coefficient_bounds`). Forms of degree D in d variables are determined by their values on the lattice
`{x in N^d, sum x = D}`, and so they are modulo any prime p > D (Newton's interpolation on it divides by nothing but
differences of 0, ..., D). If all values vanish modulo primes of product more than B, all coefficients are zero.
"""

import math
from collections.abc import Iterator

import numpy as np
from flint import nmod_mat

from ._rank_residues import (
    FLOAT_BITS,
    SMALL_BITS,
    SPARE_POINTS,
    FloatResidues,
    primes_below,
    residue_jacobian,
    sampled_residues,
)
from ._rank_weights import Layers, coefficient_bounds

_CHUNK = 4096
# Entries of the Jacobian, over all points and primes: about 100 seconds.
_MOST_WORK = 1e10


def rank_and_pivots(rows: list[list[int]], n_columns: int, p: int) -> tuple[int, list[int]]:
    """The rank modulo p and the columns that are independent of those before them."""
    if not rows:
        return 0, []
    reduced, rank = nmod_mat(len(rows), n_columns, [x for row in rows for x in row], p).rref()
    return rank, pivots(reduced, rank)


def pivots(reduced: nmod_mat, rank: int) -> list[int]:
    """The leading columns of a reduced echelon form."""
    found, column = [], 0
    for i in range(rank):
        while int(reduced[i, column]) == 0:
            column += 1
        found.append(column)
        column += 1
    return found


def candidates(
    layers: Layers, degree: int, *, free: list[int], rank: int, rng: np.random.Generator, most_primes: int
) -> Iterator[tuple[int, list[list[int]]]]:
    """Lower bounds of the rank, each with integer vectors that may be null vectors: zero on the columns `free`, unit
    vectors (up to positive factors) on columns of their own, and as many as the rank leaves over.

    Each is tried with more primes of 31 bits than the one before, at most `most_primes`.
    """
    n_columns = sum(len(W) * len(W[0]) for W in layers)
    dropped = set(free)
    kept = [j for j in range(n_columns) if j not in dropped]
    lead, modulus, values, n_used, due = None, 1, None, 0, 1
    for p in primes_below(SMALL_BITS, most_primes):
        # As many points as columns are enough, whichever columns these are.
        entries = sampled_residues(p, layers, degree, rng, len(kept) + SPARE_POINTS)[:, kept]
        reduced, found = nmod_mat(len(entries), len(kept), entries.ravel().tolist(), p).rref()
        columns = pivots(reduced, found)
        # Modulo a prime the rank may be less and pivots later than over the rationals, never the other way round.
        if found < rank or (found == rank and lead is not None and columns > lead):
            continue
        if found > rank or lead is None or columns < lead:
            rank, lead, modulus, values, n_used, due = found, columns, 1, None, 0, 1
        led = set(lead)
        others = [j for j in range(len(kept)) if j not in led]
        residues = [[-int(reduced[i, j]) % p for i in range(rank)] for j in others]
        values, modulus = _combined(values, modulus, residues, p)
        n_used += 1
        if n_used < due:
            continue
        due = max(due + 1, due * 3 // 2)
        vectors = []
        for j, residue in zip(others, values, strict=True):
            fractions = _reconstructed(residue, modulus)
            if fractions is None:
                break
            common = math.lcm(*(q for _, q in fractions), 1)
            vector = [0] * n_columns
            vector[kept[j]] = common
            for i, (a, q) in zip(lead, fractions, strict=True):
                vector[kept[i]] = a * (common // q)
            vectors.append(vector)
        if len(vectors) == len(others):
            yield rank, vectors


def _combined(values, modulus, residues, p):
    if values is None:
        return residues, p
    inverse = pow(modulus, -1, p)
    combined = [
        [x + modulus * ((y - x) * inverse % p) for x, y in zip(old, new, strict=True)]
        for old, new in zip(values, residues, strict=True)
    ]
    return combined, modulus * p


def _reconstructed(vector, modulus):
    """Fractions `a/q` with these residues, both at most `sqrt(modulus / 2) / 64`; `None` where there are none.

    The margin of 2^12 is a filter: residues of no small fractions pass it seldom, and are found out by the proof.
    """
    most, found = math.isqrt(modulus // 2) >> 6, []
    for x in vector:
        r0, r1, t0, t1 = modulus, x, 0, 1
        while r1 > most:
            k = r0 // r1
            r0, r1, t0, t1 = r1, r0 - k * r1, t1, t0 - k * t1
        if abs(t1) > most or t1 == 0:
            return None
        found.append((r1, t1) if t1 > 0 else (-r1, -t1))
    return found


def lattice(d: int, degree: int) -> np.ndarray:
    """All points of `{x in N^d, sum x = degree}`, shape (C(degree + d - 1, d - 1), d)."""
    if d == 1:  # one point does, whatever the degree
        return np.ones((1, 1), dtype=np.int64)
    points = np.zeros((1, 0), dtype=np.int64)
    left = np.array([degree])
    for _ in range(d - 1):
        counts = left + 1
        rows = np.repeat(np.arange(len(points)), counts)
        first = np.cumsum(counts) - counts
        x = np.arange(len(rows)) - first[rows]
        points, left = np.column_stack([points[rows], x]), left[rows] - x
    return np.column_stack([points, left])


def are_null(layers: Layers, degree: int, vectors: list[list[int]]) -> bool | None:
    """Whether `J v = 0` for each of these integer vectors, as an identity of polynomials; proved either way.

    `None` where that takes more than `1e10` entries of the Jacobian, over all points and primes.
    """
    if not vectors:
        return True
    D = degree ** (len(layers) - 1)
    X = lattice(len(layers[0][0]), D)
    bounds = coefficient_bounds(layers, degree)
    most = max(sum(abs(x) * b for x, b in zip(v, bounds, strict=True)) for v in vectors)
    n_primes = 1 + most.bit_length() // (FLOAT_BITS - 1)
    if n_primes * len(X) * len(layers[-1]) * len(bounds) > _MOST_WORK:
        return None
    modulus = 1
    for p in _primes_above(D):
        if modulus > most:
            break
        modulus *= p
        ring = FloatResidues(p)
        V = ring.array(zip(*vectors, strict=True))
        for start in range(0, len(X), _CHUNK):
            J = residue_jacobian(ring, layers, degree, X[start : start + _CHUNK].astype(float))
            if ring.product(J, V).any():
                return False
    return True


def _primes_above(D):
    """Primes for `FloatResidues`, the largest first, all above D."""
    assert 2 * D < 2**FLOAT_BITS
    count, used = 64, 0
    while True:
        primes = primes_below(FLOAT_BITS, count)
        yield from primes[used:]
        used, count = count, 2 * count
