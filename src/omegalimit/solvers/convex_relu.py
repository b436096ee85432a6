"""The zero-temperature limit: directions added where the dual is violated most, then Newton's method on their faces.

A fully corrective conditional gradient: the problem on finitely many directions is solved (a group Lasso), the
stationary directions of its residual that exceed `lam` are added, those without mass dropped. That converges from any
start, with several atoms about each limit direction. Once the faces of these are right, one neuron for each local
maximum of `|R|` and Newton's method on the optimality conditions end it, to rounding. Every candidate is judged by the
limit's own certificate, whose largest `|R|` is exact.
"""

import time

import numpy as np

from .._checks import check_number
from .._threads import one_blas_thread
from ..limits._relu_maxima import Maxima
from ..limits.convex_relu import ConvexReluNet
from ..limits.net_certificate import NetCertificate
from ._relu_barrier import group_lasso
from ._relu_polish import Neurons
from ._relu_starts import NEAR, Atoms, basic, features_of, settled, starts
from ._solution import Solution

_ROUNDS = 60
# The atoms themselves are judged so often: exact patterns of many take a while.
_JUDGED = 6


def convex_relu(limit: ConvexReluNet, *, tol: float = 1e-10) -> Solution[NetCertificate]:
    """The least measure of `limit`, certified from both sides: its directions, masses, and ternary patterns.

    `tol`: the relative gap that counts as optimal; the search goes on to rounding where it can. The status is
    `"optimal"` only if the recomputed gap is at most `tol`, and `"stalled"` else. Raises `TypeError` for another limit
    and `ValueError` for a `tol` outside (0, 1).
    """
    if not isinstance(limit, ConvexReluNet):
        raise TypeError(f"`limit` must be a ConvexReluNet; got {type(limit).__name__}.")
    tol = check_number(tol, "tol")
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol}.")
    start = time.process_time()
    with one_blas_thread():
        certificate, n_steps = _search(limit, tol)
    optimal = certificate.gap <= tol
    words = f"the relative gap is {certificate.gap:.1e} with {certificate.n_directions} directions"
    return Solution(
        status="optimal" if optimal else "stalled",
        reason=f"{words}." if optimal else f"{words}, above `tol` = {tol:g}.",
        certificate=certificate,
        farkas=None,
        n_iterations=n_steps,
        cpu_seconds=time.process_time() - start,
    )


def _search(limit: ConvexReluNet, tol: float) -> tuple[NetCertificate, int]:
    rows, y, lam = limit.scaled()
    first = limit.maxima_scaled(-y / lam, share=0.1)
    best = limit.certify(np.zeros((0, limit.D)), *limit.unscaled(np.zeros((0, y.shape[1])), -y))
    if first.value <= 1:
        return best, 0
    atoms = _first(first, 4 * y.size + 20)
    nu, n_steps = None, 0
    for k in range(_ROUNDS):
        features = features_of(rows, atoms)
        nu, c, more = group_lasso(features, y, lam, start=nu)
        n_steps += more
        maxima = limit.maxima_scaled(nu, share=NEAR, least=NEAR)
        if k % _JUDGED == _JUDGED - 1:
            best = _better(best, _judged(limit, Neurons(atoms.directions, c, atoms.patterns, nu)))
        added = [_above(maxima)]
        for start in starts(rows, y, lam, Neurons(atoms.directions, c, atoms.patterns, nu), maxima):
            n_steps += 1
            ending = settled(rows, y, lam, start)
            if ending is None:
                continue
            judged = _judged(limit, ending)
            best = _better(best, judged)
            if _at_rounding(best):
                return _better(best, _fewer(limit, ending)), n_steps
            added += [Atoms(ending.directions, ending.patterns)]
            added += [_above(limit.maxima_scaled(ending.nu, share=NEAR, least=NEAR))]
        if best.gap <= tol and k > _ROUNDS // 4:
            break
        size = np.linalg.norm(c, axis=1)
        carries = size / size.sum() > 0.01 * (1 - np.linalg.norm(features.T @ nu, axis=1) / len(y))
        atoms = _together([Atoms(atoms.directions[carries], atoms.patterns[carries]), *added])
    return best, n_steps


def _fewer(limit: ConvexReluNet, found: Neurons) -> NetCertificate | None:
    """The same on no more directions than it takes, where their features are dependent."""
    rows, y, lam = limit.scaled()
    some = basic(rows, y + lam * found.nu, Atoms(found.directions, found.patterns), found.nu)
    if some is None or len(some.directions) == len(found.directions):
        return None
    ending = settled(rows, y, lam, some)
    return None if ending is None else _judged(limit, ending)


def _first(maxima: Maxima, most: int) -> Atoms:
    return Atoms(maxima.directions[:most], maxima.patterns[:most])


def _above(maxima: Maxima) -> Atoms:
    above = np.flatnonzero(maxima.values > 1 - 1e-12)[:200]
    return Atoms(maxima.directions[above], maxima.patterns[above])


def _together(parts: list[Atoms]) -> Atoms:
    directions = np.concatenate([part.directions for part in parts])
    patterns = np.concatenate([part.patterns for part in parts])
    _, first = np.unique(np.round(directions, 12), axis=0, return_index=True)
    return Atoms(directions[first], patterns[first])


def _at_rounding(certificate: NetCertificate) -> bool:
    return certificate.difference <= certificate.difference_slack


def _better(one: NetCertificate, other: NetCertificate | None) -> NetCertificate:
    """The smaller difference; of two that rounding does not tell apart, the fewer directions."""
    if other is None:
        return one
    if _at_rounding(one) and _at_rounding(other):
        return other if other.n_directions < one.n_directions else one
    return other if other.difference < one.difference else one


def _judged(limit: ConvexReluNet, neurons: Neurons) -> NetCertificate | None:
    if not all(np.isfinite(x).all() for x in neurons) or not neurons.directions.any(axis=1).all():
        return None
    masses, residual = limit.unscaled(neurons.masses, limit.scaled()[2] * neurons.nu)
    return limit.certify(neurons.directions, masses, residual, patterns=neurons.patterns)
