"""Margin problems whose optimum is known exactly: a point `W` and a combination `G` that norm each other are planted.

With `<G, W> = |G|_dual |W|`, the rows `A_k = G + V_k`, `<V_k, W> = 0`, `sum_k V_k = 0`, have equal margins at `W` and
average to `G`, so that `gamma* = |G|_dual`; rows of larger margin change nothing. With a free intercept `b = 1` half of
the rows have the label +1 and `<V_k, W> = -y_k`. All entries are small integers, halves or quarters: exact in doubles.
"""

import dataclasses
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from flint import acb_mat, arb, ctx

from omegalimit.limits import MaxMargin

HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2  # orthogonal, symmetric
TURNED = HADAMARD[:, [1, 0, 3, 2]]

# Case -> norm, further arguments, W, G, and gamma* = |G|_dual as base, root: gamma* = base**(1/root).
PLANTED: dict[str, tuple[str, dict[str, Any], Any, Any, tuple[int, int]]] = {
    "l1": ("l1", {}, [2, -1, 3, 0, 0], [1, -1, 1, 0.5, -0.25], (1, 1)),
    "l2": ("l2", {}, [1, -2, 3, 0, 1], [1, -2, 3, 0, 1], (15, 2)),
    "linf": ("linf", {}, [1, -1, 1, 0.5, 1], [3, -1, 2, 0, 0], (6, 1)),
    "lp 3": ("lp", {"p": 3}, [1, -2, 3, 0, 1], [1, -4, 9, 0, 1], (37**2, 3)),  # |G|_1.5 = (1 + 8 + 27 + 1)^(2/3)
    "lp 1.5": ("lp", {"p": 1.5}, [1, -4, 9, 0, 1], [1, -2, 3, 0, 1], (37, 3)),
    "group-l1": ("group-l1", {"groups": [5, 5, -2, -2, 0, 0]}, [6, 8, 0, 0, 4, -3], [3, 4, 1, 2, 4, -3], (5, 1)),
    # cos(2 pi j / 4) has its mass on two frequencies of unit size; the constant has one, of size 2.
    "fourier-l1": ("fourier-l1", {}, [1, 0, -1, 0], [5, 1, -3, 1], (4, 1)),
    "frobenius": ("frobenius", {}, [3, 1, 0, 0], [3, 1, 0, 0], (10, 2)),
    "nuclear": ("nuclear", {}, [3, 1, 0, 0], [1, 1, 0.5, 0.25], (1, 1)),
    "spectral": ("spectral", {}, [1, 1, 0.5, 0.25], [3, 1, 0, 0], (4, 1)),
    "schatten 3": ("schatten", {"p": 3}, [3, 1, 2, 0], [9, 1, 4, 0], (36**2, 3)),
    "schatten 1.5": ("schatten", {"p": 1.5}, [9, 1, 4, 0], [3, 1, 2, 0], (36, 3)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planted:
    """A problem, its optimal pair, and its maximum margin as a ball of 200 bits."""

    limit: MaxMargin
    point: np.ndarray
    multipliers: np.ndarray
    intercept: float | None
    margin: arb


def planted(case: str, seed: int, *, intercept: bool = False, n_active: int = 6, n_inactive: int = 4) -> Planted:
    """A problem of a case: `n_active` rows (even) that hold the optimum, `n_inactive` that do not, in random order."""
    norm, extra, W, G, (base, root) = PLANTED[case]
    W, G = np.asarray(W, dtype=float), np.asarray(G, dtype=float)
    matrices = norm in ("frobenius", "nuclear", "spectral", "schatten")
    if matrices:
        W, G = HADAMARD @ np.diag(W) @ TURNED.T, HADAMARD @ np.diag(G) @ TURNED.T
    rng = np.random.default_rng(seed)
    V = [_orthogonal(W, rng) for _ in range(n_active)]
    V[-1] -= sum(V)
    y = np.where(np.arange(n_active + n_inactive) % 2 == 0, 1.0, -1.0)
    shift = np.zeros_like(W)
    if intercept:
        shift = _with_product_one(W, matrices)
    active = [G + v - sign * shift for v, sign in zip(V, y, strict=False)]
    # <A, W> + y b is (1 + a) |G| |W| for the inactive ones.
    more = y[n_active:]
    inactive = [
        G * (1 + a) + _orthogonal(W, rng) - s * shift for a, s in zip(rng.integers(1, 4, len(more)), more, strict=True)
    ]
    order = rng.permutation(n_active + n_inactive)
    rows = np.stack(active + inactive)[order]
    p = np.where(order < n_active, 1 / n_active, 0.0)
    kind = {"intercept": "free", "labels": y[order]} if intercept else {}
    with ctx.workprec(200):
        margin = arb(base).root(root)
    limit = MaxMargin(norm, rows=rows, **extra, **kind)
    return Planted(limit=limit, point=W, multipliers=p, intercept=1.0 if intercept else None, margin=margin)


def _orthogonal(W, rng):
    """A small array of quarters with `<V, W> = 0` exactly."""
    V = rng.integers(-2, 3, size=W.shape).astype(float)
    return V - (np.vdot(V, W) * _with_product_one(W, W.ndim == 2) if np.vdot(V, W) else 0)


def _with_product_one(W, matrices):
    """`E` with `<E, W> = 1` exactly: a unit vector over an entry that is a power of two, or such a one turned."""
    E = np.zeros(W.shape)
    if matrices:
        E[0, 0] = 1  # in the turned coordinates, where W is diagonal
        s = (HADAMARD.T @ W @ TURNED).diagonal()
        j = int(np.flatnonzero((s != 0) & (np.log2(np.where(s > 0, s, 1)) % 1 == 0))[0])
        return HADAMARD[:, [j]] @ TURNED[:, [j]].T / s[j]
    j = int(np.flatnonzero((W != 0) & (np.log2(np.where(W != 0, np.abs(W), 1)) % 1 == 0))[0])
    E[j] = 1 / W[j]
    return E


def exact_margin(limit: MaxMargin, point: np.ndarray, intercept: float | None) -> arb:
    """The point's own margin in 200 bits, by formulas of its own: exact sums of fractions over the norm in balls."""
    W = [Fraction(float(x)) for x in np.ravel(point)]
    b = Fraction(0 if intercept is None else float(intercept))
    labels = np.zeros(limit.n_constraints) if limit.labels is None else limit.labels
    least = min(
        sum((Fraction(float(a)) * w for a, w in zip(np.ravel(A), W, strict=True)), Fraction(int(y)) * b)
        for A, y in zip(limit.rows, labels, strict=True)
    )
    with ctx.workprec(200):
        return _ball(least) / _norm_ball(limit, W)


def _ball(x: Fraction) -> arb:
    return arb(x.numerator) / arb(x.denominator)


def _norm_ball(limit, W):
    sizes = [_ball(abs(w)) for w in W]
    match limit.norm:
        case "l1":
            return sum(sizes, arb(0))
        case "linf":
            return _ball(max(map(abs, W)))
        case "l2" | "frobenius":
            return sum((s * s for s in sizes), arb(0)).sqrt()
        case "lp":
            return _power(sizes, limit.p)
        case "group-l1":
            return sum(
                (
                    sum((s * s for s, h in zip(sizes, limit.groups, strict=True) if h == g), arb(0)).sqrt()
                    for g in np.unique(limit.groups)
                ),
                arb(0),
            )
        case "fourier-l1":
            a, b, c, d = W
            pairs = [(a + b + c + d, Fraction(0)), (a - c, b - d), (a - b + c - d, Fraction(0)), (a - c, d - b)]
            return sum((_ball(x * x + y * y).sqrt() for x, y in pairs), arb(0)) / 2
    n = limit.shape[0]
    gram = [[sum((W[k * n + i] * W[k * n + j] for k in range(n)), Fraction(0)) for j in range(n)] for i in range(n)]
    # Eigenvalues of the Gram matrix, not separated when they are multiple: the approximate ones are good to 150 bits.
    values = acb_mat([[_ball(x) for x in row] for row in gram]).eig(algorithm="approx")
    s = [max(abs(v.real.mid()), arb(0)).sqrt() for v in values]
    if limit.norm == "spectral":
        return max(s, key=float)
    return _power(s, {"nuclear": 1, "schatten": limit.p}[limit.norm])


def _power(sizes, p):
    q = arb(p)
    return sum((s**q for s in sizes if s > 0), arb(0)) ** (1 / q)


def decimal(ball: arb) -> Decimal:
    """A ball's middle to 40 digits."""
    with localcontext() as context:
        context.prec = 40
        return Decimal(ball.mid().str(40, radius=False))
