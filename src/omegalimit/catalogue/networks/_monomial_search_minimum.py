"""The local part of the search for critical points: the singular value that should not vanish, driven down.

For singular vectors u, v of the Jacobian its derivative in weight j is `u' (d/de J(theta + e v))_j`, by the symmetry of
second derivatives: one complex step gives it for all j. Newton steps for a zero of the value, along its gradient, on
unit rows (rescaling allows that), at least a given distance from the set of subnetworks.
"""

import itertools

import numpy as np

from ...models.monomial import MonomialNetwork
from ._monomial_search_whole import Batch, jacobian


def minimise(
    network: MonomialNetwork, generic: int, n_starts: int, n_steps: int, separation: float, rng: np.random.Generator
) -> tuple[Batch, np.ndarray, np.ndarray]:
    """Ends (unit rows), their relative singular values and their distances to subnetworks."""
    n_points = -(-2 * network.n_parameters // network.widths[-1]) + 2
    X = rng.standard_normal((n_points, network.widths[0]))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = _starts(network, n_starts, separation, rng)
    value, direction = _singular(network, theta, X, generic)
    reach = np.full(n_starts, 0.2)
    for _ in range(n_steps):
        moving = np.flatnonzero((value > 1e-15) & (reach > 1e-7))
        if not moving.size:
            break
        here, step = theta[moving], direction[moving]
        near, normal = separations(network, here), None
        close = near < 1.2 * separation
        if close.any():  # along the boundary, not through it
            normal = _separation_normal(network, here[close])
            inward = np.minimum(0.0, np.einsum("bp,bp->b", step[close], normal))
            step[close] -= inward[:, None] * normal
        length = np.linalg.norm(step, axis=1)
        scale = np.minimum(1.0, reach[moving] / np.maximum(length, np.finfo(float).tiny))
        trial = _unit(network, here + scale[:, None] * step)
        short = np.flatnonzero(separations(network, trial) < separation)
        if short.size:
            normal = _separation_normal(network, trial[short], scaled=True)
            lack = 1.01 * separation - separations(network, trial[short])
            trial[short] = _unit(network, trial[short] + lack[:, None] * normal)
        new_value, new_direction = _singular(network, trial, X, generic)
        better = (new_value < value[moving]) & (separations(network, trial) >= separation)
        taken = moving[better]
        theta[taken], value[taken], direction[taken] = trial[better], new_value[better], new_direction[better]
        reach[moving] = np.where(better, np.minimum(1.0, 2 * reach[moving]), reach[moving] / 3)
    return _split(network, theta), value, separations(network, theta)


def _starts(network, n, separation, rng):
    """Random unit rows at least `separation` from subnetworks; after many draws the farthest that were seen."""
    kept = np.zeros((0, network.n_parameters))
    for _ in range(50):
        drawn = _unit(network, rng.standard_normal((4 * n, network.n_parameters)))
        kept = np.concatenate([kept, drawn])
        distance = separations(network, kept)
        good = np.flatnonzero(distance >= separation)
        if good.size >= n:
            return kept[good[:n]].copy()
        kept = kept[np.argsort(-distance, kind="stable")[: 4 * n]]
    return kept[:n].copy()


def _split(network, theta):
    ends = np.cumsum([rows * columns for rows, columns in network.shapes])[:-1]
    parts = np.split(theta, ends, axis=1)
    return tuple(part.reshape(-1, *shape) for part, shape in zip(parts, network.shapes, strict=True))


def _join(parts):
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _unit(network, theta):
    """Rows of hidden layers to length one, and the output's matrix."""
    parts = list(_split(network, theta))
    for k, W in enumerate(parts):
        axis = (1, 2) if k == len(parts) - 1 else 2
        parts[k] = W / np.maximum(np.sqrt((W * W).sum(axis=axis, keepdims=True)), np.finfo(float).tiny)
    return _join(parts)


def separations(network: MonomialNetwork, theta: np.ndarray) -> np.ndarray:
    """`subnetwork_distance` of nets whose hidden rows are unit, as doubles."""
    parts, found = _split(network, theta), np.full(len(theta), np.inf)
    for W, after in itertools.pairwise(parts):
        columns = np.linalg.norm(after, axis=1)
        longest = np.maximum(columns.max(axis=1), np.finfo(float).tiny)
        found = np.minimum(found, (columns.min(axis=1) / longest) ** (1 / (network.degree + 1)))
        for i, j in itertools.combinations(range(W.shape[1]), 2):
            u, v = W[:, i], W[:, j]
            found = np.minimum(found, np.linalg.norm(u - v, axis=1) * np.linalg.norm(u + v, axis=1) / 2)
    return found


def _separation_normal(network, theta, *, scaled=False):
    """The gradient of the distance by central differences, as a unit vector, or over its squared length."""
    h, P = 1e-6, theta.shape[1]
    moved = theta[:, None, :] + h * np.concatenate([np.eye(P), -np.eye(P)])
    values = separations(network, _unit(network, moved.reshape(-1, P))).reshape(len(theta), 2, P)
    gradient = (values[:, 0] - values[:, 1]) / (2 * h)
    length = np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-8)
    return gradient / length**2 if scaled else gradient / length


def _singular(network, theta, X, generic):
    """The generic-rank-th singular value over the first, and the Newton step for a zero of it."""
    J = jacobian(network, _split(network, theta), X)
    size = np.linalg.norm(J, axis=1)
    size = np.where(size > 0, size, 1.0)
    U, values, Vt = np.linalg.svd(J / size[:, None, :], full_matrices=False)
    k = generic - 1
    u, v, value = U[:, :, k], Vt[:, k] / size, values[:, k]
    # d sigma = u' dJ v plus terms of the size of sigma itself, from the columns' lengths. The step of 1e-30 makes the
    # imaginary part a derivative to rounding.
    length = np.maximum(np.linalg.norm(v, axis=1, keepdims=True), np.finfo(float).tiny)
    moved = np.imag(jacobian(network, _split(network, theta + 1e-30j * (v / length)), X)) / 1e-30
    gradient = np.einsum("bk,bkp->bp", u, moved) * length
    # Along rows nothing changes: rescaling.
    parts = list(zip(_split(network, gradient), _split(network, theta), strict=True))
    tangent = []
    for k, (g, W) in enumerate(parts):
        axis = (1, 2) if k == len(parts) - 1 else 2
        tangent.append(g - (g * W).sum(axis=axis, keepdims=True) * W)
    gradient = _join(tangent)
    square = np.maximum((gradient * gradient).sum(axis=1), np.finfo(float).tiny)
    return value / values[:, 0], -(value / square)[:, None] * gradient
