"""The face of the unit ball that the dual exposes, in coordinates in which the norm is linear (table: `face.py`).

A part (coordinate, group, frequency, singular value) belongs to the face if it carries weight, or if its room
`1 - |G_g|` is at most `tie`. Directions and singular vectors are those of the point where it has them, for then the
norm is linear along the face to the last digit, and those of `G` elsewhere. Derived here.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float

from ..certificate import Certificate
from ._arrays import split
from ._bounds import EPS
from .constraints import AbstractConstraints
from .max_margin import MaxMargin

# Entries of `B` beyond which it is not formed.
_LARGEST_SYSTEM = 2 * 10**7


class Pair(NamedTuple):
    """The pair in units of its own: `|W| = |G|_dual = 1`, margins and the intercept over the least margin."""

    limit: MaxMargin
    certificate: Certificate
    constraints: AbstractConstraints
    c: Float[np.ndarray, " N"] | None
    W: Float[np.ndarray, "..."]
    size: float  # the norm of the certificate's point
    b: float
    G: Float[np.ndarray, "..."]
    least: float
    excess: Float[np.ndarray, " N"]
    held: np.ndarray  # rows with a multiplier beyond doubt
    noise: float
    tie: float


class Chart(NamedTuple):
    """Coordinates on the face of the unit ball: unknowns `x`, of which `d` is a change."""

    of: Callable[[AbstractConstraints], Any]  # `B`: margins of the steps
    lift: Callable[[np.ndarray], np.ndarray]  # `d` as a point
    normal: np.ndarray | None  # `n`
    n_unknowns: int
    inexact: bool  # true when the unknowns rest on singular vectors or directions read off the pair
    room: np.ndarray  # the cone: `room + cone d >= 0`
    cone: Any
    tied: np.ndarray  # rooms that may be zero
    basis: Any = None  # points for unit steps, `(d, n_unknowns)`, sparse when each coordinate is in at most one
    matrix: np.ndarray | None = None  # and `matrix + image(d)` positive semi-definite
    image: Callable[[np.ndarray], np.ndarray] | None = None
    x: np.ndarray | None = None  # over matrices: the unknowns of the point itself


def normalised(limit: MaxMargin, certificate: Certificate) -> Pair:
    """The pair of a certificate with a positive margin."""
    constraints, exponent = limit.scaled()
    size = limit.norm_of(certificate.point)
    W, c = split(certificate.point)[0], limit.signs
    W = W / limit.norm_of(W)
    b = 0.0 if certificate.intercept is None else float(np.ldexp(certificate.intercept / size, -exponent))
    margins = constraints.margins(W) if c is None else constraints.margins(W) + c * b
    least, p = float(margins.min()), certificate.multipliers
    excess, noise = margins / least - 1, certificate.relative_slack
    G = constraints.combine(p)
    tie = 10 * math.sqrt(max(certificate.gap, 0.0) + noise)
    shares = p * max(1, int((p > excess).sum()))
    held = shares > np.maximum(excess, tie)
    G = G / limit.dual_norm_of(G)
    return Pair(limit, certificate, constraints, c, W, size, b / least, G, least, excess, held, noise, tie)


def chart_of(pair: Pair) -> Chart | None:
    """The chart of the face that `G` exposes; `None` where its conditions are too many to be written down."""
    match pair.limit.norm:
        case "linf":
            return _box(pair)
        case "nuclear":
            return _cone_of_matrices(pair)
        case "spectral":
            return _ball_of_matrices(pair)
    return _parts(pair)


def _of_basis(basis):
    def of(constraints):
        B = constraints.rows @ basis
        return B.toarray() if scipy.sparse.issparse(B) else B

    return of


def _candidates(weights, room, tie):
    """Parts that may carry weight at some optimum: those with a weight above their room, or with a room near zero."""
    shares = weights * max(1, int((weights > room).sum()))
    return (room <= tie) | (shares > room), shares <= tie


def _parts(pair) -> Chart:
    limit, W, G = pair.limit, pair.W, pair.G
    if limit.norm == "fourier-l1":
        basis, weights, tied = _frequencies(pair)
        inexact = True
    else:
        groups = np.arange(len(W)) if limit.norm == "l1" else np.unique(limit.groups, return_inverse=True)[1]
        weights, room = np.sqrt(np.bincount(groups, W * W)), 1 - np.sqrt(np.bincount(groups, G * G))
        kept, tied = _candidates(weights, room, pair.tie)
        # The direction is read off the point, where it has one: then the norm is linear along it to the last digit.
        direction = np.where(tied[groups], G / (1 - room)[groups].clip(EPS), W / weights.clip(EPS)[groups])
        used = np.flatnonzero(kept[groups])
        column = (np.cumsum(kept) - 1)[groups[used]]
        basis = scipy.sparse.csr_array((direction[used], (used, column)), shape=(len(W), int(kept.sum())))
        weights, tied, inexact = weights[kept], tied[kept], limit.norm != "l1"
    n = len(weights)
    cone = scipy.sparse.eye_array(n, format="csr")
    return Chart(_of_basis(basis), lambda d: basis @ d, np.ones(n), n, inexact, weights, cone, tied, basis)


def _frequencies(pair):
    """Conjugate frequencies are one part; the columns are real vectors of norm one."""
    d, plain = len(pair.W) - pair.limit.n_plain, pair.limit.n_plain
    w, g = (np.concatenate([np.fft.rfft(v[:d], norm="ortho"), v[d:]]) for v in (pair.W, pair.G))
    n = d // 2 + 1
    double = np.ones(n + plain)
    double[1 : (d + 1) // 2] = 2
    weights, sizes = double * np.abs(w), np.abs(g)
    kept, tied = _candidates(weights, 1 - sizes, pair.tie)
    phase = np.where(tied, g / sizes.clip(EPS), w / np.abs(w).clip(EPS)) / double
    basis = np.zeros((d + plain, n + plain))
    basis[:d, :n] = np.fft.irfft(np.diag(phase[:n]), n=d, axis=0, norm="ortho")
    basis[d:, n:] = np.diag(phase[n:].real)
    return basis[:, kept], weights[kept], tied[kept]


def _box(pair) -> Chart:
    signs = np.where(pair.G < 0, -1.0, 1.0)
    room = 1 - signs * pair.W
    shares = np.abs(pair.G) * max(1, int((np.abs(pair.G) > room).sum()))
    free = np.flatnonzero((shares <= pair.tie) | (room > shares))
    n, w = len(free), pair.W[free]
    basis = scipy.sparse.csr_array((np.ones(n), (free, np.arange(n))), shape=(len(pair.W), n))
    eye = scipy.sparse.eye_array(n, format="csr")
    room = np.concatenate([1 - w, 1 + w])
    cone = scipy.sparse.vstack([-eye, eye], format="csr")
    return Chart(_of_basis(basis), lambda d: basis @ d, None, n, False, room, cone, room <= pair.tie, basis)


def _cone_of_matrices(pair) -> Chart | None:
    """`W = U H V^T`: `U, V` begin with the singular vectors of `W` itself and go on with those of `G`."""
    u, s, vt = np.linalg.svd(pair.W, full_matrices=False)
    _, sizes, right = np.linalg.svd(pair.G, full_matrices=False)
    kept, tied = _candidates(s, 1 - sizes, pair.tie)
    r = int(np.flatnonzero(kept).max(initial=0)) + 1
    r_found = int((~tied[:r]).sum())
    U, V = u[:, :r_found], vt[:r_found].T
    if r_found < r:
        more = right[:r].T - V @ (V.T @ right[:r].T)
        more = np.linalg.svd(more, full_matrices=False)[0][:, : r - r_found]
        image = pair.G @ more
        V, U = np.hstack([V, more]), np.hstack([U, _polar(image - U @ (U.T @ image))])
    i, j = np.triu_indices(r)
    weight = np.where(i == j, 1.0, math.sqrt(0.5))
    if len(i) * pair.held.sum() > _LARGEST_SYSTEM:
        return None

    def image_of(d):
        H = np.zeros((r, r))
        H[i, j] = H[j, i] = d * weight
        return H

    def of(constraints):
        B = constraints.congruence(U, V)
        return (B[:, i, j] + B[:, j, i]) * (weight * np.where(i == j, 0.5, 1.0))

    H = U.T @ pair.W @ V
    H = (H + H.T) / 2
    return Chart(
        *(of, lambda d: U @ image_of(d) @ V.T, np.where(i == j, 1.0, 0.0), len(i), True, np.zeros(0)),
        *(np.zeros((0, len(i))), np.zeros(0, dtype=bool), None, H, image_of, H[i, j] / weight),
    )


def _polar(A):
    u, _, vt = np.linalg.svd(A, full_matrices=False)
    return u @ vt


def _ball_of_matrices(pair: Pair) -> Chart | None:
    """`|X|_op <= 1` as `(I X; X^T I)` positive semi-definite."""
    u, sizes, vt = np.linalg.svd(pair.G)
    room = 1 - np.einsum("ji,ji->i", u[:, : len(sizes)], pair.W @ vt[: len(sizes)].T)
    shares = sizes * max(1, int((sizes > room).sum()))
    r = int((shares > np.maximum(room, pair.tie)).sum())
    # Blocks of the point's own singular vectors: then its norm is that of the larger block, to the last digit.
    _, s, right = np.linalg.svd(pair.W)
    largest = right[: max(r, int((s >= 1 - pair.tie).sum()))].T
    V = _polar(largest @ (largest.T @ vt[:r].T))
    U = _polar(pair.W @ V)
    U, V = (np.linalg.qr(A, mode="complete")[0][:, r:] for A in (U, V))
    m, n = U.shape[1], V.shape[1]
    if m * n * pair.held.sum() > _LARGEST_SYSTEM:
        return None

    def image_of(d):
        X = d.reshape(m, n)
        return np.block([[np.zeros((m, m)), X], [X.T, np.zeros((n, n))]])

    X = U.T @ pair.W @ V
    matrix = np.eye(m + n) + image_of(X)
    return Chart(
        *(
            lambda constraints: constraints.congruence(U, V).reshape(constraints.n_constraints, m * n),
            lambda d: U @ d.reshape(m, n) @ V.T,
        ),
        *(
            None,
            m * n,
            True,
            np.zeros(0),
            np.zeros((0, m * n)),
            np.zeros(0, dtype=bool),
            None,
            matrix,
            image_of,
            X.reshape(-1),
        ),
    )
