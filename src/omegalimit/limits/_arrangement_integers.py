"""Exact integers for arrangements: rows without rounding, null vectors, and signs of products that are proved.

A double is a dyadic rational, and a positive multiple of a row has the same hyperplane and the same sides; so each row
becomes a row of coprime integers. Signs of products are read off doubles where an error bound allows it, and computed
in integers elsewhere: a filter, so that the speed is that of floating point and the answer that of the integers.
"""

import math
from fractions import Fraction

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from .._checks import check_finite, check_ndim, check_unmasked, shape_text, to_float64

_EPS = float(np.finfo(float).eps)
# Entries are below one and products of two may underflow, by at most 2**-1074 each; this is far more than any sum.
_UNDERFLOW = 2.0**-1000
# How many exact products are formed at once.
_CHUNK = 1 << 18


def integer_rows(value: object, name: str) -> np.ndarray:
    """The rows as coprime integers (dtype object, shape `(n, D)`), each times a positive number of its own.

    Floats are taken exactly as they stand; Python integers and fractions (dtype object) too. Raises `ValueError` or
    `TypeError` for anything else, entries that are not finite, an empty array and rows of zeros.
    """
    check_unmasked(value, name)
    # As objects, since NumPy rounds lists that mix large integers of both signs.
    array = np.array(value, dtype=object) if isinstance(value, (list, tuple)) and _is_table(value) else value
    if isinstance(array, np.ndarray) and array.dtype.kind in "iuO" and array.ndim == 2:
        entries = _rationals(array, name)
    else:
        floats, _ = to_float64(value, name)
        check_ndim(floats, name, axes="n, D")
        check_finite(floats, name)
        array, entries = floats, floats.tolist()
    if 0 in array.shape:
        raise ValueError(f"`{name}` must have shape (n, D) and at least one entry; got {shape_text(array.shape)}.")
    rows = np.empty(array.shape, dtype=object)
    for i, row in enumerate(entries):
        rows[i] = _coprime(row)
        if not any(rows[i]):
            raise ValueError(
                f"`{name}[{i}]` is zero: no direction lies on either side of it. Leave the row out "
                "(an input of zeros without bias never switches a neuron on)."
            )
    return rows


def refuse_sparse(name: str, value: object) -> None:
    """Raise `TypeError` for a sparse array, which is no array of numbers to NumPy."""
    if scipy.sparse.issparse(value):
        raise TypeError(f"`{name}` is a sparse array; pass `{name}.toarray()`.")


def _is_table(value: list | tuple) -> bool:
    """Whether these are rows of one length that hold numbers and not further rows."""
    rows = [row for row in value if isinstance(row, (list, tuple))]
    return len(rows) == len(value) and len({len(row) for row in rows}) == 1 and not any(np.ndim(e) for e in rows[0])


def _rationals(array: np.ndarray, name: str) -> list[list]:
    """The entries of an integer or object array, refused where one is no finite rational number."""
    entries = [[e.item() if isinstance(e, np.generic) else e for e in row] for row in array.tolist()]
    for i, row in enumerate(entries):
        for j, entry in enumerate(row):
            if not isinstance(entry, (int, float, Fraction)):
                raise TypeError(f"`{name}[{i}, {j}]` is {entry!r}; it must be a float, an integer or a fraction.")
            if isinstance(entry, float) and not math.isfinite(entry):
                raise ValueError(f"`{name}[{i}, {j}]` is {entry}; every entry must be finite.")
    return entries


def _coprime(row: list) -> list[int]:
    """The row times the positive number that makes it coprime integers; a row of zeros stays."""
    ratios = [entry.as_integer_ratio() for entry in row]
    whole = math.lcm(*(q for _, q in ratios))
    integers = [p * (whole // q) for p, q in ratios]
    divisor = math.gcd(*integers) or 1
    return [p // divisor for p in integers]


def integers_of(points: Float[np.ndarray, "K D"]) -> np.ndarray:
    """Finite doubles as integers (dtype object), each row times a power of two of its own."""
    fractions, exponents = np.frexp(points)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    exponents = np.where(mantissas == 0, np.iinfo(np.int32).max, exponents)
    shifts = np.where(mantissas == 0, 0, exponents - exponents.min(axis=1, initial=np.iinfo(np.int32).max)[:, None])
    whole = np.empty(points.shape, dtype=object)
    whole[...] = [
        [m << s for m, s in zip(*pair, strict=True)] for pair in zip(mantissas.tolist(), shifts.tolist(), strict=True)
    ]
    return whole


def floats_of(integers: np.ndarray) -> Float[np.ndarray, "K D"]:
    """Each row over the power of two that brings its largest entry into [1/2, 1), every entry to within one ulp.

    Entries below 2**-1074 of the largest become zero.
    """
    out = np.empty(integers.shape)
    for k, row in enumerate(integers.tolist()):
        size = max(max(row).bit_length(), min(row).bit_length())
        if size <= 1000:
            out[k] = row
            out[k] = np.ldexp(out[k], -size) if size < 500 else [math.ldexp(v, -size) for v in out[k].tolist()]
        else:
            for j, v in enumerate(row):
                cut = max(v.bit_length() - 64, 0)
                out[k, j] = math.ldexp(float(v >> cut), cut - size)
    return out


def unit(vectors: Float[np.ndarray, "K D"]) -> Float[np.ndarray, "K D"]:
    """Rows over their Euclidean lengths; rows of zeros stay."""
    sizes = np.frexp(np.abs(vectors).max(axis=1, keepdims=True, initial=0.0))[1]
    scaled = np.ldexp(vectors, -sizes)
    lengths = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return scaled / np.where(lengths > 0, lengths, 1.0)


def exact_signs(points: np.ndarray, rows: np.ndarray) -> Int[np.ndarray, "K n"]:
    """The signs of `points @ rows.T` for integer arrays (dtype object), all proved."""
    p, r = floats_of(points), floats_of(rows)
    # Each factor is off by at most 2 ulp and each sum by D more; twice that covers the rounding of the bound itself.
    share = 2 * (points.shape[1] + 6) * _EPS
    signs = np.empty((len(p), len(r)), dtype=np.int8)
    step = max(1, (1 << 22) // len(r))
    for start in range(0, len(p), step):
        chunk = slice(start, start + step)
        products = p[chunk] @ r.T
        bound = share * (np.abs(p[chunk]) @ np.abs(r).T) + _UNDERFLOW
        signs[chunk] = np.sign(products)
        i, j = np.nonzero(np.abs(products) <= bound)
        for first in range(0, len(i), _CHUNK):
            part = slice(first, first + _CHUNK)
            exact = (points[start + i[part]] * rows[j[part]]).sum(axis=1)
            signs[start + i[part], j[part]] = (exact > 0).astype(np.int8) - (exact < 0).astype(np.int8)
    return signs


def independent_rows(rows: np.ndarray) -> list[int]:
    """The indices of the first rows that span the row space: their number is the rank."""
    chosen, reduced = [], []
    for i, row in enumerate(rows.tolist()):
        for pivot, other in reduced:
            if row[pivot]:
                row = [other[pivot] * a - row[pivot] * b for a, b in zip(row, other, strict=True)]
        divisor = math.gcd(*row)
        if divisor:
            row = [a // divisor for a in row]
            reduced.append((next(j for j, a in enumerate(row) if a), row))
            chosen.append(i)
            if len(chosen) == len(row):
                break
    return chosen


def distinct_rows(rows: np.ndarray) -> tuple[list[int], Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The first row of each hyperplane; and for each row which of these it is, and whether it points as that one."""
    first: dict[tuple, int] = {}
    indices, which, orientation = [], [], []
    for i, row in enumerate(rows.tolist()):
        lead = next(a for a in row if a)
        key = tuple(row) if lead > 0 else tuple(-a for a in row)
        if key not in first:
            first[key] = len(indices)
            indices.append(i)
        base = rows[indices[first[key]]]
        which.append(first[key])
        orientation.append(1 if list(base) == row else -1)
    return indices, np.array(which), np.array(orientation, dtype=np.int8)


def null_vectors(rows: np.ndarray) -> np.ndarray:
    """One null vector (integers, shape `(E, r)`) of every independent `r - 1` of these rows of rank `r`.

    A basis of the null space of each subset's first `j` rows is carried along, division-free but for the previous
    pivot (Bareiss): by Sylvester's identity its entries are minors of the rows and the division is exact.
    """
    m, r = rows.shape
    last = np.array([-1])
    basis = np.empty((1, r, r), dtype=object)
    basis[0] = [[int(i == j) for j in range(r)] for i in range(r)]
    pivots = np.array([1], dtype=object)
    for j in range(r - 1):
        # Children that leave enough rows for the subsets to be completed.
        counts = np.maximum(m - (r - 2 - j) - 1 - last, 0)
        parent = np.repeat(np.arange(len(last)), counts)
        starts = np.cumsum(counts) - counts
        last = last[parent] + 1 + np.arange(len(parent)) - np.repeat(starts, counts)
        products = (basis[parent] * rows[last][:, None, :]).sum(axis=2)
        kept = (products != 0).any(axis=1)
        parent, last, products = parent[kept], last[kept], products[kept]
        # The pivot vector goes first, and leaves the basis.
        k = (products != 0).argmax(axis=1)
        every = np.arange(len(k))
        vectors = basis[parent]
        head, value = vectors[every, k].copy(), products[every, k].copy()
        vectors[every, k], products[every, k] = vectors[:, 0].copy(), products[:, 0].copy()
        basis = value[:, None, None] * vectors[:, 1:] - products[:, 1:, None] * head[:, None, :]
        basis //= pivots[parent][:, None, None]
        pivots = value
    return basis[:, 0]
