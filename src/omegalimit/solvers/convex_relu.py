"""The zero-temperature limit: directions added where the dual is violated most, then Newton's method on their faces.

A fully corrective conditional gradient: the problem on finitely many directions is solved (a group Lasso), the
stationary directions of its residual that exceed `lam` are added, those without mass dropped. That converges from any
start, with several atoms about each limit direction. Once the faces of these are right, one neuron for each local
maximum of `|R|` and Newton's method on the optimality conditions end it, to rounding. Every candidate is judged by the
limit's own certificate, whose largest `|R|` is exact.

For `lam` far below the least that makes the zero measure optimal, the residual over `lam` is nearly free along a face
of the dual's maximum: a group Lasso to a relative gap does not find its point there. Directions hardly change with
`lam` then, so the problem is solved at a larger one first, and the end is the first guess.
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
# Below this share of the least `lam` without directions a larger one goes first, so many times as large.
_SMALL, _LARGER = 1e-5, 1e3
# Rows whose units span their space only to this are called nearly parallel, in the advice.
_PARALLEL = 1e-4


def convex_relu(limit: ConvexReluNet, *, tol: float = 1e-10) -> Solution[NetCertificate]:
    """The least measure of `limit`, certified from both sides: its directions, masses, and ternary patterns.

    `tol`: the relative gap that counts as optimal; the search goes on to rounding where it can. The status is
    `"optimal"` only if the recomputed gap is at most `tol`, its rounding error at most `tol` or 1e-8, whichever is
    larger, and the directions are settled too, however small the gap is beside a least objective that is mostly misfit:
    it is rounding, or at most the root of `tol` beside the masses' cost; and, for one output, no closed cell has two
    directions of one sign, as none of an optimum has. It is `"stalled"` else. Raises `TypeError` for another limit
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
    status, reason = _status(limit, certificate, tol)
    return Solution(
        status=status,
        reason=reason,
        certificate=certificate,
        farkas=None,
        n_iterations=n_steps,
        cpu_seconds=time.process_time() - start,
    )


def _status(limit: ConvexReluNet, certificate: NetCertificate, tol: float) -> tuple[str, str]:
    gap, error = certificate.gap, certificate.relative_slack
    words = f"the relative gap is {gap:.1e} with {certificate.n_directions} directions"
    if gap > tol:
        return "stalled", f"{words}, above `tol` = {tol:g}.{_advice(limit)}"
    if error > max(tol, 1e-8):
        return "stalled", f"{words}, but rounding alone moves it by {error:.1e}.{_advice(limit)}"
    open_ = "the objective is near its least value, the directions are not yet those of the optimum."
    if _crowded(limit, certificate):
        return "stalled", f"{words}, some of one sign in one closed cell: {open_}{_advice(limit)}"
    cost = limit.lam * certificate.total_mass
    if certificate.difference > max(certificate.difference_slack, np.sqrt(tol) * cost):
        share = certificate.difference / cost if cost else np.inf
        return "stalled", f"{words}, and {share:.1e} of the masses' cost: {open_}{_advice(limit)}"
    return "optimal", f"{words}."


def _advice(limit: ConvexReluNet) -> str:
    rows = limit.rows / np.linalg.norm(limit.rows, axis=1, keepdims=True)
    spectrum = np.linalg.svd(rows, compute_uv=False)[: limit.arrangement.rank]
    spread = float(spectrum[-1] / spectrum[0])
    if spread < _PARALLEL and limit.bias:
        return (
            f" The rows (x, 1) are parallel but for {spread:.0e}: inputs close together, near zero or far from it. "
            "Shift and scale the columns of `X` to mean 0 and size 1; that is another problem, as weight decay takes "
            "in the bias."
        )
    if spread < _PARALLEL:
        return f" The inputs span their space only to {spread:.0e}: scale the columns of `X` to one size."
    share = limit.lam / limit.lam_max
    if share < 1e-12:
        return f" `lam` is {share:.0e} of the least that leaves no direction: take a larger one."
    return ""


def _crowded(limit: ConvexReluNet, certificate: NetCertificate) -> bool:
    """Whether two directions of one sign lie in one closed cell, which no optimum with one output has."""
    if limit.n_outputs > 1:
        return False
    signs, masses = certificate.patterns.astype(np.int16), certificate.masses.ravel()
    return any(
        (((signs[:k] * signs[k]) >= 0).all(axis=1) & (masses[:k] * np.sign(masses[k]) > 0)).any()
        for k in range(len(signs))
    )


Found = tuple[NetCertificate, Neurons | None]
"""A certificate, and the end of Newton's method that it is of, if it is of one."""


def _search(limit: ConvexReluNet, tol: float) -> tuple[NetCertificate, int]:
    """The best certificate, and the steps."""
    _, y, lam = limit.scaled()
    first = limit.maxima_scaled(-y, share=0.1)
    best: Found = (limit.certify_scaled(np.zeros((0, limit.D)), np.zeros((0, y.shape[1])), -y), None)
    if first.value <= lam:
        return best[0], 0
    weights = [lam]
    while weights[-1] < _SMALL * first.value:
        weights.append(min(_LARGER * weights[-1], _SMALL * first.value))
    before, n_steps = None, 0
    for weight in weights[:0:-1]:
        (certificate, before), more = _rounds(limit.at(weight), tol, first, before)
        n_steps += more
        if before is None or certificate.gap > tol:
            break  # nor would the next end
    found, more = _rounds(limit, tol, first, before)
    return _better(best, *found)[0], n_steps + more


def _rounds(limit: ConvexReluNet, tol: float, first: Maxima, before: Neurons | None) -> tuple[Found, int]:
    """From the first directions, and the neurons that are optimal for another `lam`."""
    rows, y, lam = limit.scaled()
    best: Found = (limit.certify_scaled(np.zeros((0, limit.D)), np.zeros((0, y.shape[1])), -y), None)
    atoms = _first(first, 4 * y.size + 20)
    nu, n_steps = None, 0
    if before is not None:
        n_steps += 1
        best = _better(best, *_ended(limit, before))
        if _at_rounding(best[0]):
            best = _fewer(limit, best)
            if not _crowded(limit, best[0]):
                return best, n_steps
        nu = before.nu
        atoms = _together([atoms, Atoms(before.directions, before.patterns), _near(limit, nu)])
    for k in range(_ROUNDS):
        features = features_of(rows, atoms)
        nu, c, more = group_lasso(features, y, lam, start=nu)
        n_steps += more
        if not (np.isfinite(nu).all() and np.isfinite(c).all() and c.any()):
            break  # rounding
        maxima = limit.maxima_scaled(nu, share=NEAR, least=NEAR)
        found = Neurons(atoms.directions, c, atoms.patterns, nu)
        if k % _JUDGED == _JUDGED - 1:
            best = _better(best, _judged(limit, found), None)
        added = [_above(maxima)]
        for start in starts(rows, y, lam, found, maxima):
            n_steps += 1
            judged, ending = _ended(limit, start)
            if ending is None:
                continue
            best = _better(best, judged, ending)
            if _at_rounding(best[0]):
                best = _fewer(limit, best)
                if not _crowded(limit, best[0]):
                    return best, n_steps
            added += [Atoms(ending.directions, ending.patterns), _near(limit, ending.nu)]
        if best[0].gap <= tol and k > _ROUNDS // 4 and not _crowded(limit, best[0]):
            break
        size = np.linalg.norm(c, axis=1)
        carries = size / size.sum() > 0.01 * (1 - np.linalg.norm(features.T @ nu, axis=1) / len(y))
        atoms = _together([Atoms(atoms.directions[carries], atoms.patterns[carries]), *added])
    return best, n_steps


def _ended(limit: ConvexReluNet, start: Neurons) -> tuple[NetCertificate | None, Neurons | None]:
    """Where Newton's method ends, judged; and its end."""
    ending = settled(*limit.scaled(), start)
    return (None, None) if ending is None else (_judged(limit, ending), ending)


def _fewer(limit: ConvexReluNet, best: Found) -> Found:
    """The same on no more directions than it takes, where their features are dependent."""
    rows, y, lam = limit.scaled()
    found = best[1]
    if found is None:
        return best
    some = basic(rows, y + lam * found.nu, Atoms(found.directions, found.patterns), found.nu)
    if some is None or len(some.directions) == len(found.directions):
        return best
    return _better(best, *_ended(limit, some))


def _first(maxima: Maxima, most: int) -> Atoms:
    return Atoms(maxima.directions[:most], maxima.patterns[:most])


def _near(limit: ConvexReluNet, nu) -> Atoms:
    return _above(limit.maxima_scaled(nu, share=NEAR, least=NEAR))


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


def _better(best: Found, other: NetCertificate | None, ending: Neurons | None) -> Found:
    """The smaller difference; of two that rounding does not tell apart, the fewer directions."""
    one = best[0]
    if other is None:
        return best
    if _at_rounding(one) and _at_rounding(other):
        return (other, ending) if other.n_directions < one.n_directions else best
    return (other, ending) if other.difference < one.difference else best


def _judged(limit: ConvexReluNet, neurons: Neurons) -> NetCertificate | None:
    if not all(np.isfinite(x).all() for x in neurons) or not neurons.directions.any(axis=1).all():
        return None
    residual = limit.scaled()[2] * neurons.nu
    return limit.certify_scaled(neurons.directions, neurons.masses, residual, patterns=neurons.patterns)
