"""Proved upper bounds on norms and dual norms of points whose entries are balls.

Both sides of weak duality need an upper bound only: `lower = min_k m_k / |W|` and `upper = |G|_dual`.

**Powers.** With `u` the largest entry, `|w|_p = u (sum_j (|w_j|/u)^p)^(1/p)`, and at most `n^(1/p) u`, which also holds
where `p` is so large that the powers carry no digits any more. The conjugate `q = p/(p-1)` is a ball.

**Schatten norms from one matrix.** Let `M` have `n` columns (transpose it if that makes `n` smaller), `V` be any
`n x n` matrix with `delta = |V^T V - I|_F < 1`, and `B = M V`. Then `M = B V^-1`, and `|V^-1|_op <= (1-delta)^(-1/2)`
because the eigenvalues of `V^T V` are at least `1 - delta`. Hence `|M|_q <= (1-delta)^(-1/2) |B|_q`, and

- `q <= 2`: `|B|_q <= (sum_j |b_j|_2^q)^(1/q)` with `b_j` the columns: `tr f(H) <= sum_j f(H_jj)` for concave `f`
  (Peierls) with `H = B^T B` and `f(x) = x^(q/2)`;
- `q > 2`: with `t = q/2`, `|B|_q^2 = |H|_t <= |diag H|_t + n^max(0, 1/t - 1/2) |H - diag H|_F`, by the triangle
  inequality and the comparison of Schatten norms.

Both are equalities where `V` holds the right singular vectors. `V` is the floating-point ones after a step of
perturbation theory and of Newton's method for orthogonality, kept as sums of two doubles. No residual of a
decomposition enters. Derived here.
"""

import dataclasses
import itertools
import math

import numpy as np
from flint import acb, arb, arb_mat

from ._balls import largest, matrix, root, total

_EXPONENTS = {"l1": 1, "l2": 2, "linf": math.inf, "nuclear": 1, "frobenius": 2, "spectral": math.inf}
# Norms whose bound a checker evaluates with transcendental functions or a witness, so with an error of its own: the
# claims leave it this much room, far below one unit of the last place of a double.
_ROOM = 2.0**-90
# Squares of singular values this near, as a share of the largest, count as equal: corrections between clusters are then
# at most about 1e-8, and their squares are lost.
_CLUSTER = 1e-8
_ROOMY = ("lp", "fourier-l1", "nuclear", "spectral", "schatten")


@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """The matrix `V = high + low` that a Schatten bound rests on; for the transpose where that has fewer columns."""

    high: np.ndarray
    low: np.ndarray


def upper_norm(limit, w: list[arb], *, dual: bool) -> tuple[arb, Basis | None]:
    """An upper bound on the norm (the dual norm) of a point, and the witness for it with Schatten norms.

    `limit`: a problem without a penalised intercept, for its norm; `w`: the entries of the point in C order.
    """
    name, basis = limit.norm, None
    if name == "group-l1":
        sizes = _group_sizes(limit.groups, w)
        bound = largest(sizes) if dual else total(sizes)
    elif name == "fourier-l1":
        sizes = _fourier_sizes(w, limit.n_plain)
        bound = largest(sizes) if dual else total(sizes)
    else:
        exponent, at_most_two = _exponent(name, limit.p, dual=dual)
        if len(limit.shape) == 1 or exponent == 2:
            bound = power_norm(w, exponent)
        else:
            bound, basis = _schatten(arb_mat(limit.shape[0], limit.shape[1], w), exponent, at_most_two=at_most_two)
    return bound * (1 + arb(_ROOM)) if name in _ROOMY else bound, basis


def power_norm(w: list[arb], p) -> arb:
    """An upper bound on `(sum_j |w_j|^p)^(1/p)`; `p`: 1, 2, infinity, or a ball."""
    if p == 1:
        return total([abs(x) for x in w])
    if p == 2:
        return root(total([x * x for x in w]))
    sizes = [x.abs_upper() for x in w]
    u = largest(sizes)
    if p == math.inf or u == 0:
        return u
    powers = [_power(x / u, p) for x in sizes if x != 0]
    plain = (arb(len(powers)).log() / p).exp() * u
    return ((total(powers).log() / p).exp() * u).min(plain)


def _power(x, p):
    """At least `x^p` for `0 < x <= 1`."""
    t = (p * x.log()).upper()
    # Above 0 only by rounding; below -1e6 beyond all digits, and far below it `exp` would give up.
    return t.min(arb(0)).max(arb(-1e6)).exp().upper()


def _exponent(name, p, *, dual):
    """The exponent of the norm or of its dual, exactly or as a ball, and whether it is at most 2."""
    if name in ("lp", "schatten"):
        ball = arb(p)
        return (ball / (ball - 1), p >= 2) if dual else (ball, p <= 2)
    exponent = _EXPONENTS[name]
    if dual:
        exponent = {1: math.inf, 2: 2, math.inf: 1}[exponent]
    return exponent, exponent <= 2


def _group_sizes(groups, w):
    members: dict[int, list[arb]] = {}
    for label, x in zip(np.asarray(groups).tolist(), w, strict=True):
        members.setdefault(label, []).append(x)
    return [power_norm(part, 2) for part in members.values()]


def _fourier_sizes(w, n_plain):
    d = len(w) - n_plain
    scale = arb(d).sqrt()
    return [z.abs_upper() / scale for z in acb.dft([acb(x) for x in w[:d]])] + [abs(x) for x in w[d:]]


def _schatten(M, q, *, at_most_two):
    if M.ncols() > M.nrows():
        M = M.transpose()
    n, basis = M.ncols(), _right_basis(M)
    V = matrix(basis.high) + matrix(basis.low)
    defect = root(total([x * x for x in (V.transpose() * V - _identity(n)).entries()])).upper()
    if not defect < 1:  # no decomposition came out: the identity is always a basis
        basis = Basis(np.eye(n), np.zeros((n, n)))
        V, defect = _identity(n), arb(0)
    B = M * V
    if at_most_two:
        columns = B.transpose().tolist()
        bound = power_norm([power_norm(b, 2) for b in columns], q)
    else:
        H = (B.transpose() * B).tolist()
        off = root(total([H[i][j] * H[i][j] for i in range(n) for j in range(n) if i != j]))
        t = math.inf if q == math.inf else q / 2
        wider = arb(1) if q == math.inf or q >= 4 else (arb(n).log() * (1 / t - arb(0.5)).nonnegative_part()).exp()
        bound = root(power_norm([H[i][i] for i in range(n)], t) + wider * off)
    return bound / (1 - defect).sqrt(), basis


def _right_basis(M):
    """The right singular vectors of the midpoints, orthogonal to about 1e-31 and nearly as exact."""
    n, mid = M.ncols(), M.mid().entries()
    high = np.eye(n)
    size = largest([abs(x) for x in mid])
    if size != 0:
        scaled = np.array([float(x / size) for x in mid]).reshape(M.nrows(), n)
        high = np.linalg.svd(scaled, full_matrices=False)[2].T if np.isfinite(scaled).all() else high
    V = _orthogonal(matrix(high))
    if size != 0:
        V = _sharpened(M.mid() * (1 / size), V)
    high = np.array([float(x) for x in V.entries()])
    low = np.array([float(x - y) for x, y in zip(V.entries(), high.tolist(), strict=True)])
    return Basis(high.reshape(n, n), low.reshape(n, n))


def _sharpened(M, V):
    """One step of perturbation theory: rotations inside clusters of equal values, first order between them."""
    n, B = V.ncols(), M * V
    H = (B.transpose() * B).tolist()
    h = np.array([float(H[i][i]) for i in range(n)])
    ends = [0, *np.flatnonzero(h[:-1] - h[1:] > _CLUSTER * h[0]) + 1, n]
    Q, between = np.eye(n), np.ones((n, n))
    for i, j in itertools.pairwise(ends):
        # Differences before rounding: what is left of nearly equal values has all its digits.
        block = [[float(H[a][b] - (H[i][i] if a == b else 0)) for b in range(i, j)] for a in range(i, j)]
        Q[i:j, i:j] = np.linalg.eigh(np.array(block))[1]
        between[i:j, i:j] = 0
    rotated = Q.T @ (np.array([[float(x) for x in row] for row in H]) * between) @ Q
    apart = h[None, :] - h[:, None]
    V = V * matrix(Q)
    return _orthogonal(V + V * matrix(rotated * between / np.where(between > 0, apart, 1)))


def _orthogonal(V):
    """One step of Newton's method for orthogonality, on midpoints."""
    V = V.mid()
    return (V * (3 * _identity(V.ncols()) - V.transpose() * V) * arb(0.5)).mid()


def _identity(n):
    return arb_mat(n, n, np.eye(n).ravel().tolist())
