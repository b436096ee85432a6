"""The least barrier over a margin slice: a feasible primal-dual interior point method to the last digit.

With `u = Z'lambda`, slacks `s = Z v - kappa > 0` and `w_j = 1 - |v_j| > 0` the optimum is where

    u_j w_j = v_j,        lambda_i s_i = mu -> 0.

Both equations are products, so that both are treated as an interior point method treats complementarity (Newton's
method on `v = B*'(u)` or `B'(v) = u` alone would creep near `|v_j| = 1`): a step solves

    dv_j = (w_j Z'dlambda + u_j w_j - v_j) / (1 + |u_j|),      s_i dlambda_i + lambda_i z_i.dv = mu - lambda_i s_i

by Mehrotra's predictor and corrector. `v` is kept as a pair of doubles, and `s`, `u` come from products to thirty
digits, so that the equations hold to rounding of each `s_i` and `w_j`, however small. The start is the l-infinity
maximum margin moved towards zero: to twice the margin that is asked for, or half way to it where that is less. It is
feasible, and so is every iterate after it. A matrix of steps that loses digits is replaced by the triangle of its
square root. Derived here from the standard method.
"""

import dataclasses
import time
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from .._threads import one_blas_thread
from ..certificate import BarrierCertificate, Certificate
from ..limits._barrier_bounds import ScaledBarrier, active_rows, slacks
from ..limits._double_double import two_sum
from ..limits.barrier import Barrier
from ._barrier_steps import Iterate, linear, step
from ._solution import Solution

# The relative gap to which the l-infinity margin is wanted: it says whether there is a solution.
MARGIN_TOL = 1e-12
_MOST_STEPS = 200
# Newton steps on the active rows.
_N_POLISH = 8
# A pivot below this share of the first is a row that depends on those before.
_DEPENDENT = 1e-13
# Steps that do not halve the difference, after which rounding has the word.
_PATIENCE, _EARLY_PATIENCE = 4, 25
_NEAR = 1e-8
# A difference of the values, relative to them, that leaves the point no digit to gain.
_SHARP = 1e-26


def least_barrier(
    limit: Barrier, margin: Solution[Certificate], *, tol: float, polish: bool = True
) -> Solution[BarrierCertificate]:
    """The least barrier, certified from both sides; `margin`: the l-infinity maximum margin of the same rows.

    `polish`: go on with Newton's method on the active rows, which as a rule takes the gap to 1e-28.
    """
    start = time.process_time()
    with one_blas_thread(), np.errstate(all="ignore"):
        farkas = _unreachable(limit, margin)
        reference = _unit(margin.certificate)
        if farkas is not None:
            certificate, n = limit.certify(reference, np.zeros(limit.n_constraints)), 0
            # A feasible point: rounding alone says that there is none.
            farkas = None if np.isfinite(certificate.upper) else farkas
        else:
            candidates, n = _candidates(limit.scaled(), reference, polish)
            found = [
                limit.certify(at.high, np.ldexp(at.multipliers, -limit.scaled().exponent), tail=at.low)
                for at in candidates
            ]
            certificate = min(found, key=lambda other: np.nan_to_num(other.difference, nan=np.inf, posinf=np.inf))
        status, reason = _judged(limit, margin, certificate, farkas, tol)
    return Solution(
        status=status,
        reason=reason,
        certificate=certificate,
        farkas=farkas,
        n_iterations=n,
        cpu_seconds=time.process_time() - start,
    )


def _unit(certificate):
    largest = np.abs(certificate.point).max()
    return certificate.point / largest if largest > 0 else certificate.point


def _unreachable(limit, margin):
    """Multipliers which prove that no point has the margin, or `None`."""
    for p in (margin.farkas, margin.certificate.multipliers):
        if p is not None and limit.unreachable(p):
            return p
    return None


def _judged(limit, margin, certificate, farkas, tol) -> tuple[str, str]:
    upper = margin.certificate.upper
    if farkas is not None and margin.status == "not separable":
        return "infeasible", f"the rows are not separable, so that no point has a positive margin: {margin.reason}"
    if farkas is not None:
        return (
            "infeasible",
            f"`kappa` is {limit.kappa:.10g}, and no point with |v_j| < 1 has a margin of {upper:.10g} or more "
            f"(`farkas`); take `kappa` between 0 and {upper:.10g}, both excluded.",
        )
    if certificate.gap <= tol and certificate.relative_slack <= max(tol, 1e-8):
        return "optimal", f"the recomputed gap is {certificate.gap:.1e}, at most {tol:g}."
    if not np.isfinite(certificate.upper):
        return (
            "stalled",
            f"no point with the margin {limit.kappa:.10g} was found, nor a proof that there is none: the l-infinity "
            f"maximum margin lies from {margin.certificate.lower:.10g} to {upper:.10g}.",
        )
    if limit.kappa >= margin.certificate.upper - 2 * margin.certificate.slack:
        return (
            "stalled",
            f"`kappa` is the l-infinity maximum margin to rounding, {upper:.17g}; take it between 0 and that, both "
            "excluded.",
        )
    return "stalled", f"the gap is {certificate.gap:.1e}, above {tol:g}."


def _candidates(scaled: ScaledBarrier, reference, polish: bool) -> tuple[list[Iterate], int]:
    """Where the method ended, and after Newton's steps on the active rows; the number of all steps."""
    transposed = np.ascontiguousarray(scaled.Z.T)
    at, n = _interior(scaled, transposed, _start(scaled, transposed, reference))
    polished = _polished(scaled, transposed, at) if polish else []
    return [at, *polished], n + len(polished)


def _polished(scaled, transposed, at: Iterate) -> list[Iterate]:
    """Iterates of Newton's method with the active rows as equations; they may leave the slice by rounding."""
    rows = active_rows(scaled, at.room, at.slack, at.multipliers)
    found = []
    for _ in range(_N_POLISH if len(rows) else 0):
        weight, miss = linear(at)
        root = np.sqrt(weight)[:, None] * transposed[:, rows]
        order = np.argsort(-np.abs(root).max(axis=1), kind="stable")
        triangle: Any = qr(root[order], mode="r", pivoting=True, check_finite=False)
        R, columns = triangle
        diagonal = np.abs(R.diagonal())
        rank = int(np.count_nonzero(diagonal > _DEPENDENT * diagonal[0]))
        R, used = R[:rank, :rank], rows[columns[:rank]]
        wanted = -at.slack[used] - scaled.Z[used] @ miss
        change = np.zeros(len(scaled.Z))
        change[used] = solve_triangular(R, solve_triangular(R, wanted, trans=1, check_finite=False), check_finite=False)
        high, low = two_sum(at.high, at.low + (weight * (transposed @ change) + miss))
        multipliers = np.maximum(at.multipliers + change, 0.0)
        multipliers[np.setdiff1d(np.arange(len(multipliers)), rows)] = 0.0
        at = Iterate.at(scaled, transposed, high, low, multipliers)
        if not ((at.room > 0).all() and np.isfinite(at.multipliers).all()):
            break
        found.append(at)
    return found


def _interior(scaled: ScaledBarrier, transposed, at: Iterate) -> tuple[Iterate, int]:
    """The best iterate from `at` on, and the number of steps."""
    best, stalled, n = at, 0.0, 0
    size = at.size
    while n < _MOST_STEPS and stalled < _PATIENCE and (at.slack > 0).all():
        n += 1
        new = step(scaled, transposed, at)
        if new is None:
            break
        at = new
        if not np.isfinite(at.difference):
            break
        near = best.difference <= _NEAR * size
        stalled = (
            0 if at.difference < 0.5 * best.difference else stalled + (1.0 if near else _PATIENCE / _EARLY_PATIENCE)
        )
        if at.difference < best.difference:
            best, size = at, at.size
        if best.difference <= _SHARP * size:
            break
    return best, n


def _start(scaled, transposed, reference):
    """The reference half way from the margin that is asked for to its own, and multipliers in proportion to `1 / s`."""
    margin = float((slacks(dataclasses.replace(scaled, kappa=0.0), reference, np.zeros_like(reference))).min())
    if 3 * scaled.kappa < margin:
        high, low = 2 * scaled.kappa / margin * reference, np.zeros_like(reference)
    else:
        spare = 0.5 * (margin - scaled.kappa) / margin if margin > scaled.kappa else 0.0
        high, low = two_sum(reference, -spare * reference)
    at = Iterate.at(scaled, transposed, high, low, np.zeros(len(scaled.Z)))
    if not ((at.slack > 0).all() and (at.room > 0).all()):
        return at
    slope = np.sign(high) * np.abs(high) / at.room
    multipliers = 1 / at.slack
    multipliers = multipliers * float(high @ slope) / float(high @ (transposed @ multipliers))
    return Iterate.at(scaled, transposed, high, low, multipliers)
