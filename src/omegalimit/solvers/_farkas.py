"""Combinations of the constraints that are zero: `p >= 0` of sum one with `sum_k p_k A_k = 0`, and `sum_k c_k p_k = 0`.

One proves that nothing separates, in every norm. Three ways to one:

- `opposite`: two constraints that cancel exactly, as an input that occurs with both labels does.
- `null_combination`: multipliers `x` that already combine to little, moved to the null space of `A^T` by the least
  relative change. With `z = 1` at first and `B = diag(x) A`, repeat `z <- z - B B^+ z`, and set to zero what is small
  or negative; `B^+` comes from one factorisation, of `B^T B + e` or `B B^T + e`. An interior point method approaches
  such an `x` by a constant factor a step where weights vanish like their slacks; the projection drops them at once.
- `reduced`: a combination of few constraints, at most their rank and two (Caratheodory): a basic solution.

Sources: alternating projections (von Neumann 1949; Bregman 1965); non-negative least squares (Lawson, Hanson 1974),
whose positive entries belong to independent columns. Derived here: the relative projection.
"""

from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float
from scipy.linalg import lstsq, qr
from scipy.optimize import nnls

from ..limits.constraints import AbstractConstraints, Factors, Matrices
from ._algebra import cogram, positive_solver
from ._candidate import balanced

_EPS = float(np.finfo(float).eps)
# Pairs that a random projection takes for opposite, of which this many are compared.
_MOST_PAIRS = 20
# Projections by one factorisation; each takes off the gap what the factorisation resolves.
_MOST_PROJECTIONS = 12
# Weights that fall to this part of themselves are to vanish; what noise leaves of them would come off by halves only.
_SMALL = 1e-3
# Of the diagonal, what makes a singular matrix definite; projections repeat until it does not matter.
_SHIFT = 1e-11
# Shares of the largest weight below which weights may be noise of a method: each set is tried.
_SHARES = (1e-3, 1e-8, 0.0)
# Entries of the rows combined, and multiplications for a basic solution, beyond which none is sought.
_MOST_ENTRIES = 50_000_000
_MOST_WORK = 2_000_000_000


def opposite(constraints: AbstractConstraints, c: Float[np.ndarray, " N"] | None) -> Float[np.ndarray, " N"] | None:
    """`p` on two constraints that cancel exactly (or on one that is zero); `None` where none is found.

    Opposite constraints have opposite values in a random projection, and only neighbours there are compared.
    """
    sizes = constraints.euclidean_sizes
    sizes = np.where(sizes > 0, sizes, 1.0)
    # An intercept has equal weights on both; without one any multiple of the opposite will do.
    units = sizes if c is None else np.ones(len(sizes))
    direction = np.random.default_rng(0).normal(size=constraints.shape)
    direction /= np.linalg.norm(direction)
    key = constraints.margins(direction) / units
    up, down = (np.arange(len(key)),) * 2 if c is None else (np.flatnonzero(c > 0), np.flatnonzero(c < 0))
    down = down[np.argsort(-key[down], kind="stable")]
    at = np.searchsorted(-key[down], key[up])
    pairs = np.vstack([np.column_stack([up, down[np.clip(at + i, 0, len(down) - 1)]]) for i in (-1, 0)])
    off = np.abs(key[pairs].sum(axis=1)) / (sizes / units)[pairs].max(axis=1)
    for i in np.argsort(off, kind="stable")[:_MOST_PAIRS]:
        if off[i] > 16 * _EPS:
            return None
        p = np.zeros(len(key))
        p[pairs[i]] = 1 / units[pairs[i]]
        p = balanced(p, c)
        # One at a time: a sum of products may be rounded once, and no more, and then equal terms do not cancel.
        first, second = (constraints.take(pairs[i, [j]]).combine(p[pairs[i, [j]]]) for j in (0, 1))
        if not (first + second if pairs[i, 0] != pairs[i, 1] else first).any():
            return p
    return None


def null_combination(space, x: Float[np.ndarray, " N"], border: Float[np.ndarray, " N"] | None):
    """Multipliers near `x >= 0` that combine the rows of a `RowSpace` or `GramSpace` to zero; `None` where that fails.

    `border`: the intercept's column, which they combine to zero as well.
    """
    if border is not None:
        border = border * (np.linalg.norm(x * space.sizes) / np.linalg.norm(x * border))
    off_range = _projector(space, x, None if border is None else x * border)
    if off_range is None:
        return None
    z, before = np.ones(len(x)), np.inf
    for _ in range(_MOST_PROJECTIONS):
        z = off_range(z)
        z = np.where(z > _SMALL * abs(z.max()), z, 0.0)
        y = x * z
        left = np.hypot(space.norm(space.lift(y)), 0.0 if border is None else float(border @ y))
        size = float(space.sizes @ y)
        if not (0 < size < np.inf):
            return None
        if left <= _EPS * size or not left / size < 0.9 * before:
            return y
        before = left / size
    return x * z


def _projector(space, x, edge):
    """`z -> z - B B^+ z` for `B = diag(x) A`, with `edge` as one more column."""

    def combined(z):
        return space.lift(x * z), 0.0 if edge is None else float(edge @ z)

    if space.K is not None:
        M = space.K * x * x[:, None]
        if edge is not None:
            M += np.multiply.outer(edge, edge)
        M.flat[:: len(M) + 1] += _SHIFT * M.diagonal().mean()
        solve = positive_solver(M)
        if solve is None:
            return None

        def project(z):
            w, b = combined(z)
            rows = x * space.margins(w)
            return z - solve(rows if edge is None else rows + edge * b)

        return project
    d = space.A.shape[1]
    M = np.zeros((n := d + (edge is not None), n))
    M[:d, :d] = cogram(space.A, x * x)
    if edge is not None:
        M[d, :d], M[d, d] = space.lift(x * edge), edge @ edge
    # Coordinates that no row has; and those that are the same in all rows.
    M.flat[:: n + 1] += np.where(M.diagonal() > 0, _SHIFT * M.diagonal(), 1.0)
    solve = positive_solver(M)
    if solve is None:
        return None

    def project(z):
        w, b = combined(z)
        v = solve(w if edge is None else np.append(w, b))
        rows = x * space.margins(v[:d])
        return z - (rows if edge is None else rows + edge * v[d])

    return project


def reduced(
    constraints: AbstractConstraints, c: Float[np.ndarray, " N"] | None, p: Float[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    """`p` of sum one (balanced) on at most rank + 2 constraints of its support, that combine to as little; else `p`.

    As little: the Euclidean size of the combination, over the sizes combined, no more than before or than rounding.
    """
    with np.errstate(all="ignore"):
        q = balanced(p, c)
        support = np.flatnonzero(q)
        if len(support) < 2:
            return p
        found = _on_few(constraints.take(support), None if c is None else c[support], q[support])
    if found is None or np.count_nonzero(found) >= len(support):
        return p
    full = np.zeros(len(p))
    full[support] = found
    return full


def _on_few(constraints, c, p):
    pair = opposite(constraints, c)
    if pair is not None:
        return pair
    sizes = constraints.euclidean_sizes

    def left(q):
        return float(np.linalg.norm(np.ravel(constraints.combine(q)))) / float(sizes @ q)

    most = max(left(p), _EPS)
    column = np.zeros(len(p)) if c is None else c * np.median(sizes[sizes > 0])
    units = np.hypot(sizes, column)
    last = 0
    for share in _SHARES:
        kept = np.flatnonzero(p * units > share * (p * units).max())
        if len(kept) == last:
            continue
        last = len(kept)
        q = np.zeros(len(p))
        q[kept] = _basic(constraints.take(kept), column[kept], units[kept])
        q = balanced(q, c)
        if q.any() and left(q) <= most:
            return q
    return None


def _basic(constraints, column, units):
    """Multipliers of a basic solution, or zeros: of `sum_k x_k A_k = 0`, `column.x = 0`, `units.x = 1`."""
    n, none = len(units), np.zeros(len(units))
    rows: Any = getattr(constraints, "rows", None)
    sparse = scipy.sparse.issparse(rows)
    used = np.unique(rows.indices) if sparse else np.arange(np.prod(constraints.shape))
    if n * len(used) > _MOST_ENTRIES or n * len(used) * min(n, len(used)) > _MOST_WORK:
        return none
    rows = rows[:, used].toarray() if sparse else _flat(constraints)
    columns = np.vstack([rows.T, column]) / units
    # The triangular factor has the same inner products.
    small = np.asarray(qr(columns, mode="r", check_finite=False)[0])[:n] if len(columns) > n else columns
    try:
        x = nnls(np.vstack([small, np.ones(n)]), np.eye(1, len(small) + 1, len(small))[0])[0]
    except RuntimeError:
        return none
    used = np.flatnonzero(x)
    columns = np.vstack([columns[:, used], np.ones(len(used))])
    target = np.eye(1, len(columns), len(columns) - 1)[0]
    for _ in range(2):
        change = lstsq(columns, target - columns @ x[used], lapack_driver="gelsy", check_finite=False)
        x[used] = np.maximum(x[used] + np.asarray(change[0] if change else 0.0), 0.0)
    return x / units


def _flat(constraints):
    if isinstance(constraints, Factors):
        return constraints.congruence(None, None).reshape(constraints.n_constraints, -1)
    return constraints.flat if isinstance(constraints, Matrices) else constraints.rows
