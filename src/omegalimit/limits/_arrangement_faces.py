"""The cells and faces of an essential arrangement, composed from its rays.

Every cell of an arrangement of full rank is a pointed cone, so it has a ray; around a ray `t` the arrangement looks
like the hyperplanes through `t` alone, and the cells at `t` are the signs of `t` with its zeros filled in by the cells
of those. Where the hyperplanes through `t` are independent, which is all there is in general position, these are all
combinations of signs; else they are an arrangement of rank one less, and the same is done there. Faces likewise.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from ._arrangement_integers import exact_signs, independent_rows, null_vectors

# How many composed patterns are held at once.
_CHUNK = 1 << 21


class TooManyPatterns(Exception):
    """More patterns than asked for were found."""


@dataclasses.dataclass(frozen=True, eq=False)
class Patterns:
    """Sign patterns `(P, m)` in lexicographic order from + to -, and for each the sum of the unit rays at it."""

    signs: Int[np.ndarray, "P m"]
    sums: Float[np.ndarray, "P r"]


def rays_of(rows: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, "K m"]]:
    """One integer vector of each line that `r - 1` independent of these `r`-rank rows share, and its signs."""
    vectors = null_vectors(rows)
    signs = exact_signs(vectors, rows)
    # The zeros of a ray determine it up to its sign; degenerate rows give the same one many times.
    zeros = np.packbits(signs == 0, axis=1)
    first = np.unique(zeros.view([("", zeros.dtype)] * zeros.shape[1]).reshape(-1), return_index=True)[1]
    first.sort()
    vectors, signs = vectors[first], signs[first]
    for k, row in enumerate(vectors.tolist()):
        divisor = math.gcd(*row)
        if divisor > 1:
            vectors[k] = [a // divisor for a in row]
    return vectors, signs


def quotient(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The arrangement on the row space: rows `(m, r)` of full rank, and `B` of shape `(D, r)` with `u = B z`."""
    chosen = independent_rows(rows)
    if len(chosen) == rows.shape[1]:
        identity = np.empty((len(chosen), len(chosen)), dtype=object)
        identity[...] = [[int(i == j) for j in range(len(chosen))] for i in range(len(chosen))]
        return rows, identity
    B = rows[chosen].T.copy()
    return rows.dot(B), B


def ranks_of(rows: np.ndarray, zeros: Bool[np.ndarray, "F m"]) -> Int[np.ndarray, " F"]:
    """The rank of the rows at each mask, found once for each mask."""
    known: dict[bytes, int] = {}
    ranks = np.zeros(len(zeros), dtype=np.int64)
    for k, zero in enumerate(zeros):
        key = zero.tobytes()
        if key not in known:
            known[key] = len(independent_rows(rows[zero])) if zero.any() else 0
        ranks[k] = known[key]
    return ranks


def compose(
    signs: Int[np.ndarray, "K m"],
    units: Float[np.ndarray, "K r"],
    rows: np.ndarray,
    *,
    ternary: bool,
    most: int,
) -> Patterns:
    """All cells (or, `ternary`, all faces but the zero one) from the rays' signs and unit vectors, both signs of each.

    Raises `TooManyPatterns` as soon as more than `most` are found.
    """
    keys = _Keys(signs.shape[1], ternary)
    local = _Local(rows, ternary=ternary, most=most)
    groups = _groups(signs, rows.shape[1])
    found = keys.collect((filled for group in groups for filled, _ in _filled(signs, group, local, keys)), most)
    place = keys.places(found)
    sums = np.zeros((len(found), units.shape[1]))
    for group in groups if units.shape[1] else ():
        for filled, ray in _filled(signs, group, local, keys):
            where = place(filled)
            for j in range(units.shape[1]):
                sums[:, j] += np.bincount(where, weights=units[ray, j], minlength=len(found))
    return Patterns(signs=keys.signs(found), sums=sums)


def _groups(signs: Int[np.ndarray, "K m"], r: int) -> list[Int[np.ndarray, " k"]]:
    """The rays whose hyperplanes are independent, all together; and each other one by itself."""
    simple = (signs == 0).sum(axis=1) == r - 1
    groups = [np.flatnonzero(simple)] if simple.any() else []
    return groups + [np.array([k]) for k in np.flatnonzero(~simple)]


def _filled(
    signs: Int[np.ndarray, "K m"], group: Int[np.ndarray, " k"], local: "_Local", keys: "_Keys"
) -> Iterator[tuple[np.ndarray, Int[np.ndarray, " k"]]]:
    """The keys of these rays' patterns with their zeros filled in, by chunks, each with the ray it was made from."""
    zeros = np.nonzero(signs[group] == 0)[1].reshape(len(group), -1)
    n_zeros = zeros.shape[1]
    if n_zeros == local.rank - 1:
        values = (1, 0, -1) if local.ternary else (1, -1)
        inner = np.array(list(itertools.product(values, repeat=n_zeros)), dtype=np.int8)
        inner = inner.reshape(len(values) ** n_zeros, n_zeros)
    else:
        inner = local(zeros[0])
    step = max(1, _CHUNK // (len(inner) * (1 if keys.numeric else signs.shape[1])))
    for start in range(0, len(group), step):
        chunk = slice(start, start + step)
        yield keys.filled(signs[group[chunk]], zeros[chunk], inner), np.repeat(group[chunk], len(inner))


class _Local:
    """The cells (or faces, the zero one with them) of the hyperplanes through a ray, kept for its opposite."""

    def __init__(self, rows: np.ndarray, *, ternary: bool, most: int):
        self.rows, self.ternary, self.most = rows, ternary, most
        self.rank = rows.shape[1]
        self._known: dict[bytes, Int[np.ndarray, "P k"]] = {}

    def __call__(self, zeros: Int[np.ndarray, " k"]) -> Int[np.ndarray, "P k"]:
        key = zeros.tobytes()
        if key not in self._known:
            rows, _ = quotient(self.rows[zeros])
            _, half = rays_of(rows)
            signs = np.concatenate([half, -half])
            found = compose(signs, np.zeros((len(signs), 0)), rows, ternary=self.ternary, most=self.most).signs
            if self.ternary:
                found = np.concatenate([found, np.zeros((1, len(zeros)), dtype=np.int8)])
            self._known[key] = found
        return self._known[key]


class _Keys:
    """Patterns as keys that sort from + to -: integers where they fit 63 bits, else bytes."""

    def __init__(self, m: int, ternary: bool):
        self.m, self.base = m, 3 if ternary else 2
        self.numeric = self.base**m < 2**63
        self._bytes = np.dtype((np.void, m if ternary else -(-m // 8)))
        self._weights = np.array([self.base ** (m - 1 - i) for i in range(m)] if self.numeric else [], dtype=np.int64)

    def _digits(self, signs: np.ndarray) -> np.ndarray:
        """+ as 0, and - as 1 or, with zeros between, as 2."""
        return 1 - signs if self.base == 3 else signs < 0

    def filled(self, signs: Int[np.ndarray, "k m"], zeros: Int[np.ndarray, "k z"], inner) -> np.ndarray:
        """The keys of every row of `signs` with its zeros replaced by every row of `inner`."""
        if self.numeric:
            # A zero counts one in base three: it is taken out, and the digit of `inner` put in.
            outer = self._digits(signs).astype(np.int64) @ self._weights
            change = self._digits(inner).astype(np.int64) - self._digits(np.zeros_like(inner)).astype(np.int64)
            return (outer[:, None] + self._weights[zeros] @ change.T).reshape(-1)
        patterns = np.repeat(signs[:, None, :], len(inner), axis=1)
        np.put_along_axis(patterns, np.repeat(zeros[:, None, :], len(inner), axis=1), inner[None], axis=2)
        digits = self._digits(patterns.reshape(-1, self.m))
        raw = digits.astype(np.uint8) if self.base == 3 else np.packbits(digits, axis=1)
        return np.ascontiguousarray(raw).view(self._bytes).reshape(-1)

    def collect(self, chunks: Iterator[np.ndarray], most: int) -> np.ndarray:
        """All keys of the chunks, sorted, each once. Raises `TooManyPatterns` as soon as they are more than `most`."""
        found, texts = np.zeros(0, dtype=np.int64), set()
        for chunk in chunks:
            if self.numeric:
                found = np.union1d(found, chunk)
            else:
                texts.update(chunk.tolist())
            if max(len(found), len(texts)) > most:
                raise TooManyPatterns
        return found if self.numeric else np.frombuffer(b"".join(sorted(texts)), dtype=self._bytes)

    def signs(self, keys: np.ndarray) -> Int[np.ndarray, "P m"]:
        """The patterns of these keys."""
        if self.numeric:
            digits = keys[:, None] // self._weights[None] % self.base
        else:
            raw = keys.view(np.uint8).reshape(len(keys), -1)
            digits = raw if self.base == 3 else np.unpackbits(raw, axis=1, count=self.m)
        return (1 - digits.astype(np.int8) * (1 if self.base == 3 else 2)).astype(np.int8)

    def places(self, found: np.ndarray) -> Callable[[np.ndarray], Int[np.ndarray, " k"]]:
        """The function that gives the position of each key in `found`."""
        if self.numeric:
            return lambda keys: np.searchsorted(found, keys)
        index = {key: k for k, key in enumerate(found.tolist())}
        return lambda keys: np.array([index[key] for key in keys.tolist()], dtype=np.int64)
