"""Whether a small singular value is that of a critical point nearby, or small by conditioning: Newton at 800 bits.

Near subnetworks, and in deep nets, the singular value sigma that should not vanish goes like a high power of the
distance to them, and double precision cannot tell it from zero. Newton steps `sigma / |grad sigma|` along the gradient
can: to a zero nearby they converge, and soon each is a small share of the one before; where sigma is the power k of a
distance, each step is that distance over k, and they shrink by the factor `1 - 1/k` only, or end at a subnetwork.
They are taken at 800 bits, for the Jacobian without one incoming weight of each neuron (its column is a combination of
the others, by rescaling) and with each column over its length at the point where the step starts. Derived here;
evidence, no proof.
"""

from collections.abc import Sequence

import numpy as np
from flint import arb, arb_mat, ctx

from ...models.monomial import MonomialNetwork
from ...models.subnetworks import subnetwork_distance

_BITS = 800
_STEP = 2.0**-200  # of the central difference: an error of 2^-400, and rounding of 2^-600
# Steps that converge go far below this; those to a least value that is only small, 1e-10 say, do not.
_CONVERGED = 1e-15


def newton_steps(
    network: MonomialNetwork, weights: Sequence[np.ndarray], generic: int, *, n_steps: int = 12
) -> tuple[np.ndarray, tuple[np.ndarray, ...]] | None:
    """Newton steps for a zero of sigma: their lengths over that of the weights, shape (n_steps,), zero after they have
    come down to 1e-15 of the first; and the weights that the last leads to, as doubles.

    `None` where the generic rank is not the number of weights less that of hidden neurons: the columns that are left
    then depend on each other at all weights.
    """
    if generic != network.n_parameters - network.n_hidden:
        return None
    n_points = -(-2 * network.n_parameters // network.widths[-1]) + 2
    X = np.random.default_rng(0).standard_normal((n_points, network.widths[0]))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).tolist()  # of one length: none drowns the others
    kept, lengths = _kept(network, weights), np.zeros(n_steps)
    before = ctx.prec
    ctx.prec = _BITS
    try:
        points = [[arb(x) for x in row] for row in X]
        theta = [arb(x) for W in weights for x in np.asarray(W, dtype=float).ravel().tolist()]
        for k in range(n_steps):
            step = _step(network, theta, points, kept)
            if step is None:  # exactly critical, or nothing to follow
                break
            size = sum((x * x for x in theta), arb(0)).sqrt()
            lengths[k] = float((sum((x * x for x in step), arb(0)).sqrt() / size).mid())
            theta = [(x + d).mid() for x, d in zip(theta, step, strict=True)]
            if lengths[k] < _CONVERGED * lengths[0]:  # converging: further steps would meet rounding
                break
    finally:
        ctx.prec = before
    ends = np.cumsum([rows * columns for rows, columns in network.shapes])[:-1]
    parts = np.split(np.array([float(x) for x in theta]), ends)
    return lengths, tuple(p.reshape(s) for p, s in zip(parts, network.shapes, strict=True))


def zero_is_near(
    network: MonomialNetwork, weights: Sequence[np.ndarray], generic: int, *, separation: float
) -> bool | None:
    """Whether Newton steps converge, one of them 1e-15 of the first, and to no subnetwork: to weights whose
    distance is at least half of `separation`. `None` as `newton_steps`.

    A power k of a distance gives `(1 - 1/k)^11` of the first; a small least value beside a steep side of it, steps
    that come down to their ratio and stay. An outgoing weight that is small is a first power, and ends at zero.
    """
    found = newton_steps(network, weights, generic)
    if found is None:
        return None
    lengths, end = found
    if not lengths[1:].min() <= _CONVERGED * lengths[0]:
        return False
    return subnetwork_distance(end, network.degree).distance >= separation / 2


def _step(network, theta, X, kept):
    J = _jacobian(network, theta, X)
    sizes = [sum((x * x for x in column), arb(0)).sqrt() for column in zip(*J, strict=True)]
    if not all(size > 0 for size in sizes):
        return None
    A = arb_mat([[(row[j] / sizes[j]).mid() for j in kept] for row in J])
    G = A.transpose() * A
    v = arb_mat(len(kept), 1, [arb(1)] * len(kept))
    try:
        for _ in range(8):  # inverse iteration: each divides the other directions by the ratio of the squares
            v = G.solve(v).mid()
            v = (v * (1 / _norm(v))).mid()
    except ZeroDivisionError:  # singular at 800 bits
        return None
    Av = A * v
    sigma = _norm(Av)
    if not sigma > 0:
        return None
    u = [x / sigma for x in Av.entries()]
    moved = dict(zip(kept, v.entries(), strict=True))
    direction = [moved[j] / sizes[j] if j in moved else arb(0) for j in range(len(theta))]
    # The difference's step is a share of the weights' size, whatever the columns' lengths make of v.
    h = _STEP / sum((x * x for x in direction), arb(0)).sqrt().mid()
    ahead = _jacobian(network, [x + h * d for x, d in zip(theta, direction, strict=True)], X)
    behind = _jacobian(network, [x - h * d for x, d in zip(theta, direction, strict=True)], X)
    gradient = [
        sum((a * (x[j] - y[j]) for a, x, y in zip(u, ahead, behind, strict=True)), arb(0)) / (2 * h)
        for j in range(len(theta))
    ]
    square = sum((g * g for g in gradient), arb(0)).mid()
    return [-sigma / square * g for g in gradient] if square > 0 else None


def _kept(network, weights):
    """All weights but the largest of each hidden neuron's row."""
    dropped, first = set(), 0
    for W, (rows, columns) in zip(weights, network.shapes, strict=True):
        if first + rows * columns < network.n_parameters:
            dropped |= {first + i * columns + int(j) for i, j in enumerate(np.abs(np.asarray(W, float)).argmax(axis=1))}
        first += rows * columns
    return [j for j in range(network.n_parameters) if j not in dropped]


def _norm(v):
    return sum((x * x for x in v.entries()), arb(0)).sqrt().mid()


def _jacobian(network, theta, X):
    """Rows (point, output), columns the weights, in balls."""
    matrices, first = [], 0
    for rows, columns in network.shapes:
        matrices.append(arb_mat(rows, columns, theta[first : first + rows * columns]))
        first += rows * columns
    r, J = network.degree, []
    for x in X:
        inputs, slopes = [arb_mat(len(x), 1, x)], []
        for W in matrices[:-1]:
            h = (W * inputs[-1]).entries()
            slopes.append([r * z ** (r - 1) for z in h])
            inputs.append(arb_mat(len(h), 1, [z**r for z in h]))
        for k in range(network.widths[-1]):
            back, blocks = [arb(int(i == k)) for i in range(network.widths[-1])], []
            for layer in range(len(matrices) - 1, -1, -1):
                values = inputs[layer].entries()
                blocks.append([b * z for b in back for z in values])
                if layer:
                    down = (arb_mat(1, len(back), back) * matrices[layer]).entries()
                    back = [d * s for d, s in zip(down, slopes[layer - 1], strict=True)]
            J.append([x for block in blocks[::-1] for x in block])
    return J
