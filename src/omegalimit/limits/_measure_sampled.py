"""Directions by importance sampling, for dimensions in which the sphere cannot be filled with cones.

On a cell with `R(u) = G'u` the weight `(u'Au)^{-D/2}`, `A = I - GG'`, is up to a factor the density of the direction
of a Gaussian `N(0, A^{-1})`. The proposal is a mixture of such laws around the places where `|R|` is large: with the
cell's own `A` where that is positive definite, and with widths `room^{1/2}` along the hyperplanes that meet there and
`room` across them (`room = 1 - |R|^2`), since `|R|` may have a corner; and of the uniform law, which bounds the
weights. The numbers of draws a component are fixed (deterministic mixture), and the shares follow a pilot sample. A
peak of which no start of the search is near is missed, and no standard error shows that. Derived here from standard
methods.
"""

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, logsumexp

from ._measure_partition import Partition
from ._measure_peaks import peaks
from ._measure_peaks import unit as _unit

# The share of uniform draws.
_UNIFORM = 0.3
# Widths of components are those of at least this room; forms of narrower ones have no digits left.
_LEAST_ROOM = 1e-6
# Standard errors that an error bar holds.
N_ERRORS = 4.0


@dataclasses.dataclass(frozen=True, eq=False)
class Directions:
    """Unit vectors `u` (N, D) with `log_weight` (N,): sums over them estimate integrals over the sphere."""

    u: Float[np.ndarray, "N D"]
    log_weight: Float[np.ndarray, " N"]


def log_area(D: int) -> float:
    """The logarithm of the area of the unit sphere of `R^D`."""
    return float(np.log(2) + D / 2 * np.log(np.pi) - gammaln(D / 2))


def directions(rows, c, *, n_samples: int, seed, cells=None) -> Directions:
    """A sample of directions adapted to `R`; the same seed gives the same one. The peaks come last, without weight."""
    rng = np.random.default_rng(seed)
    D = rows.shape[1]
    units = np.where(np.any(rows != 0, axis=1, keepdims=True), rows, 1.0)
    units = _unit(units) * np.any(rows != 0, axis=1, keepdims=True)
    u, maps = peaks(rows, c, rng, cells)
    spread, logs = [np.eye(D)], [0.0]
    for peak, G in zip(u, maps, strict=True):
        room = max(1 - float(np.linalg.norm(np.maximum(rows @ peak, 0) @ c)) ** 2, _LEAST_ROOM)
        left, values, _ = np.linalg.svd(G, full_matrices=False)
        if values[0] ** 2 <= 1 - _LEAST_ROOM:
            spread.append(np.eye(D) + (left * (1 / np.sqrt(1 - values**2) - 1)) @ left.T)
            logs.append(-0.5 * float(np.log1p(-(values**2)).sum()))
        touching = units[np.abs(units @ peak) <= np.sqrt(room)]
        across = (
            np.linalg.svd(touching - np.outer(touching @ peak, peak), full_matrices=False) if len(touching) else None
        )
        normals = across[2][across[1] > 1e-9].T if across is not None else np.zeros((D, 0))
        for widths in ((room**0.5, room**0.5), (room**0.5, room), (room, room)):
            along, through = widths
            half = along * np.eye(D) + (through - along) * normals @ normals.T + (1 - along) * np.outer(peak, peak)
            spread.append(half)
            logs.append(float(np.linalg.slogdet(half)[1]))
    forms = np.stack([np.linalg.inv(half @ half) for half in spread])
    shares = _with_uniform(np.ones(len(spread)))
    for _ in range(3):
        found, components = _mixture(spread, forms, logs, shares, n_samples // 10, rng)
        weight = found.log_weight + _log_density(rows, c, found.u)
        # The square root of the weight keeps a lucky draw from taking all.
        weight = np.exp((weight - weight.max()) / 2)
        shares = _with_uniform(components @ weight + 1e-2 * weight.sum() / len(shares))
    found = _mixture(spread, forms, logs, shares, n_samples, rng)[0]
    return Directions(np.concatenate([found.u, u]), np.concatenate([found.log_weight, np.full(len(u), -np.inf)]))


def _with_uniform(shares):
    rest = shares.copy()
    rest[0] = 0.0
    total = rest.sum()
    rest = rest / total * (1 - _UNIFORM) if total > 0 else rest
    rest[0] = 1 - rest.sum()
    return rest


def _log_density(rows, c, u):
    R = np.maximum(u @ rows.T, 0) @ c
    room = 1 - (R**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(room > 0, -rows.shape[1] / 2 * np.log(np.maximum(room, 1e-300)), -np.inf)


def _mixture(spread, forms, logs, shares, n_samples, rng):
    D = spread[0].shape[0]
    counts = np.maximum(np.round(shares * n_samples).astype(int), shares > 0)
    u = np.concatenate([_unit(rng.standard_normal((k, D)) @ half) for k, half in zip(counts, spread, strict=True)])
    with np.errstate(divide="ignore"):
        of_component = np.stack(
            [
                np.log(k) - log - D / 2 * np.log(np.einsum("nd,nd->n", u @ form, u))
                for k, log, form in zip(counts, logs, forms, strict=True)
            ]
        )
    total = np.asarray(logsumexp(of_component, axis=0))
    return Directions(u, log_area(D) - total), np.exp(of_component - total)


def widened(found: Partition, again: Partition) -> Partition:
    """`found`, its error that of the worse of two independent samples, and by how much they differ."""
    return dataclasses.replace(
        found,
        log_error=max(found.log_error, again.log_error) + abs(found.log_total - again.log_total),
        gradient_error=np.maximum(found.gradient_error, again.gradient_error) + np.abs(found.gradient - again.gradient),
    )


def sampled_partition(nodes: Directions, rows, c, *, second: bool = True, errors: bool = True) -> Partition | None:
    """The integral and its derivatives over the sample; `None` where `|R| < 1` fails at one of its directions."""
    n, D = rows.shape
    m = c.shape[1]
    features = np.maximum(nodes.u @ rows.T, 0)
    R = features @ c
    room = 1 - (R**2).sum(axis=1)
    if not (room > 0).all():
        return None
    logs = nodes.log_weight - D / 2 * np.log(room)
    log_total = float(np.asarray(logsumexp(logs)))
    mass = np.exp(logs - log_total)
    pull = D * R / room[:, None]
    gradient = features.T @ (mass[:, None] * pull)
    hessian = None
    if second:
        curve = D * (D + 2) * R[:, :, None] * R[:, None, :] / room[:, None, None] ** 2
        curve += (D / room)[:, None, None] * np.eye(m)
        hessian = np.empty((n, m, n, m))
        for a in range(m):
            for b in range(m):
                hessian[:, a, :, b] = features.T @ ((mass * curve[:, a, b])[:, None] * features)
        hessian -= gradient[:, :, None, None] * gradient
    log_error, gradient_error = 0.0, np.zeros_like(gradient)
    if errors:
        squares = mass**2
        log_error = N_ERRORS * float(np.sqrt(max(squares.sum() - 1 / len(mass), 0.0)))
        second_moment = (features**2).T @ (squares[:, None] * pull**2)
        crossed = features.T @ (squares[:, None] * pull)
        variance = second_moment - 2 * gradient * crossed + gradient**2 * squares.sum()
        gradient_error = N_ERRORS * np.sqrt(np.maximum(variance, 0))
    return Partition(
        log_total=log_total,
        gradient=gradient,
        hessian=hessian,
        log_error=log_error,
        gradient_error=gradient_error,
    )
