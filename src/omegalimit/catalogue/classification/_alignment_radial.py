"""Radial and tangential flow of `early_alignment`: what a path moved in stretches of log time, beside quadrature."""

from collections.abc import Sequence

import numpy as np

from ...claims import Kind, Verdict
from ._alignment_claims import TOLERANCE, Reading, verdict
from ._alignment_path import Path, movement

LAST_LOG_TIME = 100.0
"""Up to here: the direction turns by C / s^2 in a unit of log time s, in the end less than the integration's error."""

N_INTERVALS, N_NODES = 16, 24
"""Of the quadrature that puts radial and tangential flow beside the path's movement."""

PARTS = (4, 16)
"""Into which a stretch is cut where the quadrature does not see it whole."""

BLURRED = 0.25
"""Share of the tolerance that the run's error may take of a stretch that is judged."""

AT_REST = 1e-9
"""A stretch in which radius (times gamma) or direction move by less is at rest to rounding, and judged by this size."""

FIRST_LOG_TIME = -1.0
"""From here on the flow from zero has left its start so far that its direction is more than rounding; in units of the
time in which the longest row's margin comes near one."""


def radial_tangential(paths: Sequence[Path]) -> Verdict:
    """`d rho/dt = th'g` and `d th/dt = (g - (th'g) th)/rho` over stretches of log time, movement against quadrature."""
    return verdict(
        "radial-tangential", paths, _radial_tangential, kind=Kind.INVARIANT, unit="of the movement in a stretch"
    )


def _radial_tangential(path: Path) -> Reading:
    assert path.at is not None
    # Closer together at first, where the path still turns; the flow from zero has no direction at zero.
    last = min(float(path.log_time[-1]), LAST_LOG_TIME + path.instance.natural_log_time)
    begin = FIRST_LOG_TIME + path.instance.natural_log_time
    edges = begin + (max(last, begin + 10) - begin) * np.linspace(0, 1, N_INTERVALS + 1) ** 2
    ends = path.at(edges)
    rho = np.linalg.norm(ends, axis=1)
    theta, rho = ends / rho[:, None], path.instance.gamma * rho
    turned = np.diff(theta, axis=0)
    fine, coarse = _quadratures(path, edges)
    moved = np.array([np.abs(np.diff(rho)), np.linalg.norm(turned, axis=1)])
    size = np.maximum(np.maximum(moved, [np.abs(fine[0]), np.linalg.norm(fine[1], axis=1)]), AT_REST)
    residual = np.array([np.abs(np.diff(rho) - fine[0]), np.linalg.norm(turned - fine[1], axis=1)])
    quadrature = np.array([np.abs(fine[0] - coarse[0]), np.linalg.norm(fine[1] - coarse[1], axis=1)])
    # What the stretch's own steps may err by, as a length and as a direction, beside a movement that shrinks
    # like 1/s^2; from wherever a stretch begins, the flow goes on by its law.
    error = np.diff(np.interp(edges, path.log_time, path.errors))
    noise = 2 * np.array([error, error / rho[1:]])
    worst = residual / size
    slack = (quadrature + noise) / size
    # Where the movement is lost in the run's own error nothing is seen, unless it is more than that error, too.
    seen = (noise / size <= BLURRED * TOLERANCE) | (worst - slack > TOLERANCE)
    shown = np.where(seen, worst + slack, -1.0) if seen.any() else worst + slack
    part, at = np.unravel_index(np.argmax(shown), worst.shape)
    return Reading(
        measured=float(worst[part, at]),
        slack=float(slack[part, at]),
        details={
            "worst_part": ("radial", "tangential")[part],
            "worst_stretch": [float(edges[at]), float(edges[at + 1])],
            "stretches_seen": [int(count) for count in seen.sum(axis=1)],
            "radial": worst[0].tolist(),
            "tangential": worst[1].tolist(),
        },
    )


def _quadratures(path: Path, edges: np.ndarray) -> tuple[tuple, tuple]:
    """The gains of each stretch by a fine and by a coarse rule; in more parts where the two differ, at rows' exits."""
    fine, coarse = (_moved(path, edges, n) for n in (N_NODES, N_NODES // 2))
    for parts in PARTS:
        off = np.maximum(np.abs(fine[0] - coarse[0]) / np.maximum(np.abs(fine[0]), AT_REST), 0)
        turn = np.linalg.norm(fine[1], axis=1)
        off = np.maximum(off, np.linalg.norm(fine[1] - coarse[1], axis=1) / np.maximum(turn, AT_REST))
        for k in np.flatnonzero(off > BLURRED * TOLERANCE):
            inner = np.linspace(edges[k], edges[k + 1], parts + 1)
            for rule, n in ((fine, N_NODES), (coarse, N_NODES // 2)):
                radial, tangential = _moved(path, inner, n)
                rule[0][k], rule[1][k] = radial.sum(), tangential.sum(axis=0)
    return fine, coarse


def _moved(path: Path, edges: np.ndarray, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """`gamma rho` and direction gained in each stretch by radial and tangential flow: Gauss's rule in log time."""
    assert path.at is not None
    x, weight = np.polynomial.legendre.leggauss(n_nodes)
    half = np.diff(edges) / 2
    s = (edges[:-1] + half)[:, None] + half[:, None] * x
    radial, tangential = movement(path, s.ravel(), path.at(s.ravel()))
    scale = half[:, None] * weight
    return (
        (radial.reshape(s.shape) * scale).sum(axis=1),
        (tangential.reshape(*s.shape, -1) * scale[:, :, None]).sum(axis=1),
    )
