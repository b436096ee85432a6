"""The same integrals by a Gauss rule, for cones of dimension 4, where there is no closed form.

The rays are scaled to `q_kk = 1` first, which flattens every peak of `(alpha'q alpha)^{-D/2}`, however sharp; then a
cone is cut in two at the middle of an edge, in that scale, until `c_kl = q_kl` of every edge lies between two bounds.
An edge with `c` is cut into two with `sqrt((1 + c) / 2)`, so that four cuts do for any `c > -1`. On what is left the
form varies by a fifth, and a product Gauss rule in collapsed coordinates (Gauss-Jacobi in each, Stroud's conical
product) converges quickly. The error is estimated from a rule with one more node a coordinate. Derived here.
"""

import functools

import numpy as np
from jaxtyping import Float
from scipy.special import roots_jacobi

from ._measure_cones import gram_matrices, log_volume
from ._measure_fan import split

# Bounds on an edge's c: the form then varies by less than a factor 1 / LOW over the cone.
LOW, HIGH = 0.8, 1.3
# Rounds of cutting. One edge of a cone is cut in a round; a cone of dimension 4 has six, each cut at most five times.
_MOST_ROUNDS = 80
_MOST_CONES = 2_000_000
# Cones handled at one time, so that the arrays of nodes stay small.
_CHUNK = 4096


@functools.cache
def simplex_rule(D: int, order: int) -> tuple[Float[np.ndarray, "M D"], Float[np.ndarray, " M"]]:
    """Nodes (barycentric) and weights on the simplex of `D` corners, exact to degree `2 order - 1`; weights sum to
    `1 / (D - 1)!`."""
    nodes, weights = np.ones((1, 1)), np.ones(1)
    for k in range(1, D):
        x, w = roots_jacobi(order, k - 1, 0)
        x, w = (x + 1) / 2, w / 2**k
        nodes = np.concatenate(
            [np.kron((1 - x)[:, None], nodes), np.kron(x[:, None], np.ones((len(nodes), 1)))], axis=1
        )
        weights = np.kron(w, weights)
    return nodes, weights


def refined(P, R, *carried, low: float = LOW, high: float = HIGH):
    """Cones whose edges all have `low <= c <= high`, with `R` and the carried arrays, and where each came from.

    `None` where the form is not positive on some cone, or so nearly that the cutting does not end.
    """
    arrays, done, count = [P, R, *carried, np.arange(len(P))], [], 0
    for _ in range(_MOST_ROUNDS):
        gram = gram_matrices(arrays[0], arrays[1])
        diagonal = np.einsum("tkk->tk", gram)
        if not (diagonal > 0).all():
            return None
        rho = np.sqrt(diagonal)
        cosine = gram / (rho[:, :, None] * rho[:, None, :])
        if not (cosine > -1).all():
            return None
        # Logarithmic size of the edge, of either sign, against its bound.
        excess = np.maximum((1 - cosine) / (1 - low), (cosine - 1) / (high - 1)).reshape(len(gram), -1)
        worst = excess.argmax(axis=1)
        small = excess[np.arange(len(gram)), worst] <= 1
        done.append([array[small] for array in arrays])
        count += int(small.sum())
        if small.all():
            return [np.concatenate(parts) for parts in zip(*done, strict=True)]
        arrays, rho, worst = [array[~small] for array in arrays], rho[~small], worst[~small]
        first, last = np.divmod(worst, P.shape[1])
        at = np.arange(len(rho))
        arrays = split(arrays, first, last, 1 / np.stack([rho[at, first], rho[at, last]], axis=1))
        del arrays[-2]
        if count + len(arrays[0]) > _MOST_CONES:
            return None
    return None


def rule_integrals(P, R, order: int, *, second: bool = True):
    """As `cone_integrals`, by the rule, with cones cut where they must be; `None` where `refined` finds none."""
    T, D, m = R.shape
    eye = np.broadcast_to(np.eye(D), P.shape)
    cones = refined(P, R, np.ascontiguousarray(eye))
    if cones is None:
        return None
    parts, shares, origin = cones[0], cones[2], cones[3]
    logs = np.empty(len(parts))
    by_R, by_RR = np.empty((len(parts), D, m)), np.empty((len(parts), D, m, D, m)) if second else None
    for i in range(0, len(parts), _CHUNK):
        chunk = slice(i, i + _CHUNK)
        value, first, hessian = _on_nodes(parts[chunk], cones[1][chunk], order, second)
        logs[chunk] = value
        # A part's rays are `shares` of the whole cone's: the chain rule.
        by_R[chunk] = np.einsum("tkl,tkc->tlc", shares[chunk], first)
        if by_RR is not None and hessian is not None:
            half = np.einsum("tkl,tkcje->tlcje", shares[chunk], hessian)
            by_RR[chunk] = np.einsum("tji,tlcje->tlcie", shares[chunk], half)
    largest = np.full(T, -np.inf)
    np.maximum.at(largest, origin, logs)
    mass = np.exp(logs - largest[origin])
    total = np.bincount(origin, mass, T)
    mass /= total[origin]
    first = np.zeros((T, D, m))
    np.add.at(first, origin, mass[:, None, None] * by_R)
    if by_RR is None:
        return largest + np.log(total), first, None
    by_RR += by_R[:, :, :, None, None] * by_R[:, None, None]
    hessian = np.zeros((T, D, m, D, m))
    np.add.at(hessian, origin, mass[:, None, None, None, None] * by_RR)
    return largest + np.log(total), first, hessian - first[:, :, :, None, None] * first[:, None, None]


def _on_nodes(P, R, order, second):
    T, D, m = R.shape
    nodes, weights = simplex_rule(D, order)
    rho = np.sqrt(np.einsum("tkk->tk", gram_matrices(P, R)))
    P, R = P / rho[:, :, None], R / rho[:, :, None]
    form = np.einsum("mk,tkl,ml->tm", nodes, gram_matrices(P, R), nodes, optimize=True)
    density = weights * form ** (-D / 2)
    total = density.sum(axis=1)
    density /= total[:, None]
    value = np.log(total) + log_volume(P)
    at = np.einsum("mk,tkc->tmc", nodes, R)
    pull = (D * density / form)[:, :, None] * at
    first = np.einsum("mk,tmc->tkc", nodes, pull)
    if not second:
        return value, first / rho[:, :, None], None
    curve = (D * (D + 2) * density / form**2)[:, :, None, None] * at[:, :, :, None] * at[:, :, None, :]
    curve += (D * density / form)[:, :, None, None] * np.eye(m)
    pairs = (nodes[:, :, None] * nodes[:, None, :]).reshape(len(nodes), -1)
    hessian = (pairs.T @ curve.reshape(T, len(nodes), -1)).reshape(T, D, D, m, m).transpose(0, 1, 3, 2, 4)
    hessian = hessian - first[:, :, :, None, None] * first[:, None, None]
    scale = rho[:, :, None, None, None] * rho[:, None, None, :, None]
    return value, first / rho[:, :, None], hessian / scale
