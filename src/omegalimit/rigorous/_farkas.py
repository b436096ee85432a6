"""A rational proof that no point separates: integers `p >= 0`, not all zero, with `sum_k p_k A_k = 0` exactly.

With an intercept also `sum_k y_k p_k = 0`. Then `min_k <A_k, W> + y_k b <= 0` for every `W` and `b`, in every norm.

A floating-point `p` names the support. The equations on it have integer coefficients once each is multiplied by a
power of two. Gaussian elimination modulo a prime splits the support into pivots and the rest; the rest keep their
floating-point values, and the pivots follow by one exact solve. What comes out is checked against every equation and
for its signs, so neither the prime nor the floating-point numbers are trusted. Derived here.

Where rounding has made the data separable, or independent on the support, there is no such `p`, and `None` comes out.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import scipy.optimize
import scipy.sparse
from flint import fmpz, fmpz_mat, nmod_mat

_PRIME = 2**61 - 1
# Shares of the largest multiplier below which a multiplier may be noise of the solver: each support is tried.
_SHARES = (0.0, 1e-12, 1e-8, 1e-4)
# The exact solve takes 0.3 CPU seconds at rank 200; the cost grows with the fourth power of the rank.
_LARGEST_RANK = 400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Farkas:
    """`sum_i weights[i] A_{indices[i]} = 0` exactly, with positive integers; the other constraints have weight zero."""

    indices: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def multipliers(self) -> dict[int, Fraction]:
        """The same of sum one, as fractions."""
        whole = sum(self.weights)
        return {k: Fraction(weight, whole) for k, weight in zip(self.indices, self.weights, strict=True)}


def rational_farkas(limit, multipliers: np.ndarray) -> Farkas | None:
    """An exact Farkas vector on the support of these multipliers (or on part of it); `None` where none is found."""
    p, tried = np.maximum(multipliers, 0.0), set()
    for support, values in _candidates(limit, p):
        key = tuple(support.tolist())
        if len(key) == 0 or key in tried:
            continue
        tried.add(key)
        weights = _null_vector(_equations(limit, support), values)
        if weights is not None:
            kept = sorted((k, x) for k, x in zip(key, weights, strict=True) if x)
            return Farkas(indices=tuple(k for k, _ in kept), weights=tuple(x for _, x in kept))
    return None


def _candidates(limit, p):
    """Supports and values, the largest multipliers first: they become the pivots, which absorb what is corrected."""
    order = np.argsort(-p, kind="stable")
    for share in _SHARES:
        support = order[p[order] > share * p.max()]
        yield support, p[support]
    support = order[p[order] > 0]
    rows = [[x / (1 << max(1, *(abs(x).bit_length() for x in row))) for x in row] for row in _equations(limit, support)]
    system = np.array([*rows, [1.0] * len(support)])
    try:
        q = scipy.optimize.nnls(system, np.eye(len(system))[-1])[0]  # its positive entries are independent columns
    except RuntimeError:
        return
    kept = np.argsort(-q, kind="stable")[: int((q > 0).sum())]
    yield support[kept], q[kept]


def _equations(limit, support):
    """Rows of integers: one equation `sum_i p_i A_{k_i, j} = 0` a coordinate `j` that is not zero everywhere."""
    equations = [] if limit.labels is None else [[int(y) for y in limit.labels[support]]]
    if limit.rows is not None:
        rows = limit.rows[support]
        if scipy.sparse.issparse(rows):
            rows = rows[:, np.unique(rows.indices)].toarray()
        return equations + [_integers(a) for a in rows.reshape(len(support), -1).T if a.any()]
    left, right = ([_integers(a) for a in side[support].T] for side in (limit.left, limit.right))
    return equations + [[x * z for x, z in zip(a, b, strict=True)] for a in left for b in right if any(a) and any(b)]


def _integers(a):
    """Doubles times the power of two that makes all of them integers."""
    parts, exponents = np.frexp(a)
    exponents = np.where(parts == 0, 2000, exponents)
    least = int(exponents.min())
    whole = np.ldexp(parts, 53).astype(np.int64).tolist()
    return [m << (e - least) if m else 0 for m, e in zip(whole, exponents.tolist(), strict=True)]


def _null_vector(equations, p):
    """Integers `x >= 0`, not all zero, with `equations x = 0`, near a multiple of `p`; `None` where that fails."""
    n = len(p)
    pivots = _pivots([[x % _PRIME for x in row] for row in equations], n)
    rest = sorted(set(range(n)) - set(pivots))
    if not rest or len(pivots) > _LARGEST_RANK:
        return None
    kept = [1] if len(rest) == 1 else _integers(p[rest])
    values = dict(zip(rest, map(fmpz, kept), strict=True))
    if pivots:
        transposed = [[row[j] % _PRIME for row in equations] for j in pivots]
        chosen = [equations[i] for i in _pivots(transposed, len(equations))]
        K = fmpz_mat([[row[j] for j in pivots] for row in chosen])
        right = fmpz_mat([[-sum(row[j] * x for j, x in zip(rest, kept, strict=True))] for row in chosen])
        solved = K.solve(right).entries()
        whole = math.lcm(*(int(x.q) for x in solved))
        values = {j: x * whole for j, x in values.items()}
        values |= {j: x.p * (whole // int(x.q)) for j, x in zip(pivots, solved, strict=True)}
    weights = [int(values[j]) for j in range(n)]
    if min(weights) < 0 or not any(weights):
        return None
    exact = not equations or not any((fmpz_mat(equations) * fmpz_mat([[x] for x in weights])).entries())
    common = math.gcd(*weights)
    return [x // common for x in weights] if exact else None


def _pivots(rows, n_columns):
    """The columns that are independent of those before them, modulo the prime."""
    if not rows:
        return []
    reduced, rank = nmod_mat(rows, _PRIME).rref()
    found, column = [], 0
    for i in range(rank):
        while int(reduced[i, column]) == 0:
            column += 1
        found.append(column)
        column += 1
    assert column <= n_columns
    return found
