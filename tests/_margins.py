"""Margin problems in every norm and over every kind of data, and an independent solver for them."""

import dataclasses
from typing import Any

import cvxpy as cp
import numpy as np

from omegalimit.limits import MaxMargin

# Name of a case -> norm, kind of data, further arguments. `groups` is made from the number of columns.
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "l1": ("l1", "rows", {}),
    "l2": ("l2", "rows", {}),
    "linf": ("linf", "rows", {}),
    "lp-1.3": ("lp", "rows", {"p": 1.3}),
    "lp-4": ("lp", "rows", {"p": 4}),
    "group-l1": ("group-l1", "rows", {}),
    "fourier-l1": ("fourier-l1", "rows", {}),
    "frobenius": ("frobenius", "factors", {}),
    "nuclear": ("nuclear", "factors", {}),
    "spectral": ("spectral", "factors", {}),
    "schatten-1.5": ("schatten", "factors", {"p": 1.5}),
    "schatten-4": ("schatten", "factors", {"p": 4}),
    "frobenius of matrices": ("frobenius", "matrices", {}),
    "nuclear of matrices": ("nuclear", "matrices", {}),
    "spectral of matrices": ("spectral", "matrices", {}),
    "schatten-4 of matrices": ("schatten", "matrices", {"p": 4}),
}
VECTORS = tuple(case for case, (_, kind, _) in CASES.items() if kind == "rows")


def stated(case: str, *, intercept: str = "none", labels: Any = None, **arrays: Any) -> MaxMargin:
    """The problem of a case over these arrays."""
    norm, _, extra = CASES[case]
    if norm == "group-l1":
        extra = {"groups": np.arange(arrays["rows"].shape[1]) // 2}
    return MaxMargin(norm, **arrays, **extra, intercept=intercept, labels=labels)


def separable(case: str, seed: int, *, n_constraints: int = 12, d: int = 7, intercept: str = "none") -> MaxMargin:
    """Random constraints with a planted point (and intercept) of positive margin, so that the margin is positive."""
    rng, kind = np.random.default_rng(seed), CASES[case][1]
    y = np.where(np.arange(n_constraints) % 2 == 0, 1.0, -1.0)
    labels, offset = (None, 0.0) if intercept == "none" else (y, 0.3 * y)
    if kind == "factors":
        left, right = rng.normal(size=(n_constraints, d)), rng.normal(size=(n_constraints, d - 2))
        scores = np.einsum("ki,ij,kj->k", left, rng.normal(size=(d, d - 2)), right)
        return stated(case, left=left * signs(scores, offset)[:, None], right=right, intercept=intercept, labels=labels)
    shape = (d,) if kind == "rows" else (d, d - 2)
    rows = rng.normal(size=(n_constraints, *shape))
    scores = rows.reshape(n_constraints, -1) @ rng.normal(size=np.prod(shape))
    turned = rows * signs(scores, offset).reshape(-1, *[1] * len(shape))
    return stated(case, rows=turned, intercept=intercept, labels=labels)


def signs(scores, offset):
    """Signs `s` with `s * scores + offset > 0` wherever one of the two does it; the larger side otherwise."""
    return np.where(scores + offset > -scores + offset, 1.0, -1.0)


def changed(limit: MaxMargin, *, rows=None, factor: float = 1.0) -> MaxMargin:
    """The same problem with its rows picked by index and its data multiplied."""
    rows = np.arange(limit.n_constraints) if rows is None else rows
    labels = None if limit.labels is None else limit.labels[rows]
    if limit.rows is not None:
        return dataclasses.replace(limit, rows=limit.rows[rows] * factor, labels=labels)
    assert limit.left is not None
    assert limit.right is not None
    return dataclasses.replace(limit, left=limit.left[rows] * factor, right=limit.right[rows], labels=labels)


def attention(n, n_tokens, d, seed=0):
    """`A(d)`: tokens and queries normal of variance `1/d`, the first token wanted."""
    rng = np.random.default_rng(seed)
    tokens, queries = rng.normal(size=(n, n_tokens, d)) / np.sqrt(d), rng.normal(size=(n, d)) / np.sqrt(d)
    left = (tokens[:, :1] - tokens[:, 1:]).reshape(-1, d)
    return left, np.repeat(queries, n_tokens - 1, axis=0)


def s40():
    """40 points in ten dimensions, separable through the origin."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=10)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(40, 10))
    y = np.sign(X @ w)
    return (X + 0.3 * y[:, None] * w) * y[:, None]


def by_conic_solver(limit: MaxMargin) -> tuple[float, np.ndarray, np.ndarray, float | None]:
    """Margin, point, multipliers and intercept by CVXPY with Clarabel, whose own tolerance is 1e-8."""
    W = cp.Variable(limit.shape)
    b = cp.Variable()
    if limit.left is not None:
        margins = cp.sum(cp.multiply(limit.left @ W, limit.right), axis=1)
    elif len(limit.shape) == 1:
        margins = limit.rows @ W
    else:
        margins = limit.rows.reshape(len(limit.rows), -1) @ cp.vec(W, order="C")
    extra: list[Any] = []
    size: Any = _size(limit, W, b, extra)
    if limit.labels is not None:
        margins = margins + limit.labels * b
    constraint = margins >= 1
    assert isinstance(constraint, cp.Constraint)
    cp.Problem(cp.Minimize(size), [constraint, *extra]).solve(solver="CLARABEL")
    intercept = None if limit.labels is None else float(np.asarray(b.value))
    length = float(np.asarray(size.value)) ** (0.5 if limit.norm == "schatten" else 1)
    return 1 / length, np.asarray(W.value), np.asarray(constraint.dual_value), intercept


def _size(limit, W, b, extra):
    penalised = limit.intercept == "penalised"
    whole = cp.hstack([W, b]) if penalised else W
    match limit.norm:
        case "l1" | "l2" | "linf":
            return cp.norm(whole, {"l1": 1, "l2": 2, "linf": "inf"}[limit.norm])
        case "lp":
            return cp.pnorm(whole, limit.p, approx=False)
        case "group-l1":
            sizes = [cp.norm(W[np.flatnonzero(limit.groups == g)]) for g in np.unique(limit.groups)]
        case "fourier-l1":
            F = np.fft.fft(np.eye(limit.shape[0]), norm="ortho")
            sizes = [cp.norm(cp.hstack([f.real @ W, f.imag @ W])) for f in F]
        case "frobenius":
            return cp.norm(W, "fro")
        case "nuclear":
            return cp.normNuc(W)
        case "spectral":
            return cp.sigma_max(W)
        case "schatten":
            return _schatten(limit, W, extra)
    return cp.sum(cp.hstack(sizes + [cp.abs(b)] * penalised))


def _schatten(limit, W, extra):
    """`|W|_4^2 = |W^T W|_F` as a semidefinite program; other exponents have no such form at hand."""
    assert limit.p == 4
    X = cp.Variable((limit.shape[1],) * 2, symmetric=True)
    extra.append(cp.bmat([[X, W.T], [W, np.eye(limit.shape[0])]]) >> 0)
    return cp.norm(X, "fro")
