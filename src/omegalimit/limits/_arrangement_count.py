"""How many cells there are, before any is made: general position proved modulo a prime, or deletion and restriction.

General position makes the number Cover's. A minor that is not zero modulo a prime is not zero, so elimination modulo a
prime, shared among all subsets with the same beginning, proves it for millions of subsets in a second; a subset that is
dependent modulo three primes is decided in integers. Otherwise hyperplanes are counted in one by one: each adds as
many cells as the earlier ones cut it into, which is a count in one dimension less.
"""

import itertools
import math

import numpy as np

from .._checks import check_count
from ._arrangement_integers import independent_rows

# Products of two residues stay below 2**62.
_PRIMES = (2147483647, 2147483629, 2147483587)
# How many partly eliminated rows are held at once, and over how many subsets general position is decided.
_CHUNK = 1 << 19
MOST_MINORS = 40_000_000


def cover_count(n: int, D: int) -> int:
    """`2 sum_{k < D} C(n - 1, k)`: the dichotomies of `n >= 1` rows of `D >= 1` columns in general position."""
    n, D = check_count(n, "n", least=1), check_count(D, "D", least=1)
    return 2 * sum(math.comb(n - 1, k) for k in range(min(D, n)))


def face_count(n: int, D: int) -> int:
    """The ternary patterns of nonzero directions for `n` rows of `D` columns in general position.

    `sum_k C(n, k) 2 sum_{j < D - k} C(n - k - 1, j)` over the number `k < min(n, D)` of zeros; with fewer rows than
    columns one more, of zeros alone. Never less than that of rows which are not in general position.
    """
    n, D = check_count(n, "n", least=1), check_count(D, "D", least=1)
    return sum(math.comb(n, k) * cover_count(n - k, D - k) for k in range(min(n, D))) + (n < D)


def n_minors(m: int, r: int) -> int:
    """How many subsets must be independent for general position."""
    return math.comb(m, min(m, r))


def in_general_position(rows: np.ndarray) -> bool:
    """Whether every `min(m, r)` of these integer rows, shape `(m, r)`, are independent."""
    m, r = rows.shape
    if m <= r:
        return len(independent_rows(rows)) == m
    for prime in _PRIMES:
        suspect = _dependent_subset(rows, prime)
        if suspect is None:
            return True
        if len(independent_rows(rows[list(suspect)])) < len(suspect):
            return False
    # Three primes divided minors that are not zero: every one in integers.
    return all(len(independent_rows(rows[list(s)])) == r for s in itertools.combinations(range(m), r))


def _dependent_subset(rows: np.ndarray, prime: int) -> tuple[int, ...] | None:
    """Some subset of at most `r < m` rows that is dependent modulo this prime, or `None` where there is none.

    An element is a subset with its last row reduced by the others; elements of one group share all but the last.
    """
    m, _ = rows.shape
    residues = np.array([[v % prime for v in row] for row in rows.tolist()], dtype=np.int64)
    zero = ~residues.any(axis=1)
    if zero.any():
        return (int(zero.argmax()),)
    stack = [(residues, np.arange(m, dtype=np.int32)[:, None], np.array([m]))]
    while stack:
        vectors, subsets, sizes = stack.pop()
        if vectors.shape[1] == 1:
            continue
        ends = np.repeat(np.cumsum(sizes), sizes)
        later = ends - np.arange(len(vectors)) - 1
        # Only beginnings of subsets of `r` rows: `r` independent ones have no dependent part.
        later[later < vectors.shape[1] - 1] = 0
        for start, stop in _pieces(later):
            sizes = later[start:stop]
            parent = np.repeat(np.arange(start, stop), sizes)
            offsets = np.cumsum(sizes) - sizes
            child = parent + 1 + np.arange(len(parent)) - np.repeat(offsets, sizes)
            reduced = _reduced(vectors, parent, child, prime)
            zero = ~reduced.any(axis=1)
            if zero.any():
                k = int(zero.argmax())
                return (*(int(i) for i in subsets[parent[k]]), int(subsets[child[k], -1]))
            if reduced.shape[1] > 1:
                stack.append((reduced, np.column_stack([subsets[parent], subsets[child, -1]]), sizes[sizes > 0]))
    return None


def _pieces(later: np.ndarray) -> list[tuple[int, int]]:
    """Runs of elements with about `_CHUNK` children each, or those of one element more."""
    total = np.cumsum(later)
    marks = np.searchsorted(total, np.arange(_CHUNK, int(total[-1]), _CHUNK)) + 1
    stops = np.unique(np.append(marks, len(later)))
    starts = np.concatenate([[0], stops[:-1]])
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True) if later[a:b].any()]


def _reduced(vectors: np.ndarray, parent: np.ndarray, child: np.ndarray, prime: int) -> np.ndarray:
    """The `child` rows, each reduced by its `parent` row, in one column less."""
    width = vectors.shape[1]
    lead = (vectors != 0).argmax(axis=1)
    # The leading column goes first and is dropped after the step that clears it.
    others = np.array([[c for c in range(width) if c != k] for k in range(width)])
    column = lead[parent]
    pivot, factor = vectors[parent, column][:, None], vectors[child, column][:, None]
    rest = others[column]
    left = vectors[child[:, None], rest] * pivot
    right = vectors[parent[:, None], rest] * factor
    # Both products are in [0, 2**62), so the difference fits.
    return (left - right) % prime


def count_cells(rows: np.ndarray, *, most: int | None = None) -> int:
    """The number of cells of distinct hyperplanes (primitive integer rows); past `most`, the first count above it."""
    total = 1
    for k, row in enumerate(rows.tolist()):
        total += 1 if k == 0 else _cut(rows[:k].tolist(), row)
        if most is not None and total > most:
            return total
    return total


def _cut(rows: list[list[int]], normal: list[int]) -> int:
    """How many cells the hyperplanes `rows` cut the hyperplane `normal` into."""
    pivot = next(j for j, a in enumerate(normal) if a)
    p = normal[pivot]
    restricted: dict[tuple[int, ...], None] = {}
    for row in rows:
        q = row[pivot]
        reduced = [p * a - q * b for j, (a, b) in enumerate(zip(row, normal, strict=True)) if j != pivot]
        divisor = math.gcd(*reduced)
        if next(a for a in reduced if a) < 0:
            divisor = -divisor
        restricted[tuple(a // divisor for a in reduced)] = None
    kept = list(restricted)
    if len(kept[0]) <= 2:
        return 2 * len(kept)
    return 1 + sum(1 if k == 0 else _cut([list(a) for a in kept[:k]], list(row)) for k, row in enumerate(kept))


def grouped(number: int) -> str:
    """`19652032` as `19 652 032`, and from 10**15 on as `about 10^18`."""
    return f"{number:,}".replace(",", " ") if number < 10**15 else f"about 10^{len(str(number)) - 1}"


def counted(number: int, what: str) -> str:
    """`1 column`, `8 columns`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
