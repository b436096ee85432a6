"""`solve(limit)`: a method for each norm, judged by the limit's own certificate."""

import dataclasses
import time

import numpy as np

from .._threads import one_blas_thread
from ..certificate import Certificate
from ..limits import MaxMargin
from ._reduce import representatives, row_span
from ._solution import Solution
from .l1 import linear_program, on_active_set
from .l2 import minimum_norm_point, on_support
from .nuclear import Pair, interior_point
from .nuclear_polish import polish as newton_polish

# A convex combination this small, relative to the constraints that it combines, is zero within rounding.
_ZERO = 1e-13


def solve(limit: MaxMargin, tol: float = 1e-8, *, polish: bool = True) -> Solution:
    """The maximum margin of `limit`, certified from both sides.

    - `tol`: the relative gap `(upper - lower) / upper` that counts as optimal. Rounding sets a floor of about
      `1e-16 max |A_k| / gamma*`; see `Certificate.relative_slack`.
    - `polish`: follow with an exact solve on the active set (nuclear: Newton), which as a rule takes the gap to 1e-14.

    Methods: nuclear: primal-dual interior point with as many unknowns as constraints; l2 and Frobenius: least-norm
    point of the convex hull; l1: linear program. Separability is settled by a point of positive margin, or else by the
    least-norm point, which is then the Farkas combination; that step does not depend on the norm.

    The status is `"optimal"` only if the recomputed gap is at most `tol`, and its rounding error at most `tol` or 1e-8,
    whichever is larger. Raises `ValueError` for a `tol` outside (0, 1) and `TypeError` for what is not a `MaxMargin`.

    The sources of the methods stand in their files.
    """
    if not isinstance(limit, MaxMargin):
        raise TypeError(f"`limit` must be a MaxMargin; got {type(limit).__name__}.")
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol}.")
    data, exponent = limit.scaled()
    with one_blas_thread():
        if abs(exponent) <= 64:
            return _solve(limit, tol, polish)
        # Squares of such data leave double precision: solve the scaled problem, certify on the data themselves.
        names = ("rows",) if len(data) == 1 else ("left", "right")
        solution = _solve(MaxMargin(limit.norm, **dict(zip(names, data, strict=True))), tol, polish)
        found = solution.certificate
        return dataclasses.replace(solution, certificate=limit.certify(found.point, found.multipliers))


def _solve(limit: MaxMargin, tol: float, polish: bool) -> Solution:
    start = time.process_time()
    zero = np.flatnonzero(limit.sizes == 0)
    if len(zero):
        p = np.eye(1, limit.n_constraints, int(zero[0]))[0]
        candidates, n_iterations = [(_some_point(limit), p)], 0
        best = _best(limit, candidates)
    else:
        candidates, n_iterations = _METHODS[limit.norm](limit, tol, polish)
        best = _best(limit, candidates)
        if best is None or best.lower <= best.slack:
            candidates += _euclidean(limit, tol, True)[0] + [(_some_point(limit), np.ones(limit.n_constraints))]
            best = _best(limit, candidates)
    assert best is not None
    status = _status(limit, best, tol)
    if status == "not separable" and _separable_row_by_row(limit):
        status = "stalled"  # some rows are so small that the margin is lost in the rounding of the others
    return Solution(
        status=status,
        certificate=best,
        farkas=best.multipliers if status == "not separable" else None,
        n_iterations=n_iterations,
        cpu_seconds=time.process_time() - start,
    )


def _best(limit, candidates) -> Certificate | None:
    """The highest lower with the smallest upper bound: one depends on the point alone, one on the multipliers alone."""
    usable = [
        (point, p)
        for point, p in candidates
        if np.isfinite(point).all() and np.any(point) and np.isfinite(p).all() and np.any(p > 0)
    ]
    found = [limit.certify(point, p) for point, p in usable]
    if not found:
        return None
    highest = max(range(len(found)), key=lambda i: found[i].lower)
    smallest = min(range(len(found)), key=lambda i: found[i].upper)
    if highest == smallest:
        return found[highest]
    return limit.certify(usable[highest][0], usable[smallest][1])


def _some_point(limit):
    """The largest constraint as a point, or ones where all are zero; used only where no margin is positive."""
    point = limit.combine(np.eye(1, limit.n_constraints, int(np.argmax(limit.sizes)))[0])
    return point if np.any(point) else np.ones(limit.shape)


def _status(limit, certificate, tol):
    if certificate.gap <= tol and certificate.relative_slack <= max(tol, 1e-8):
        return "optimal"
    size = limit.sizes @ certificate.multipliers
    # Zero within rounding, and no more than that: a margin of 1e-13 that the bounds resolve is a margin.
    if certificate.lower <= certificate.slack and certificate.upper <= min(_ZERO * size, 20 * certificate.slack):
        return "not separable"
    return "stalled"


def _separable_row_by_row(limit):
    """True when the constraints, each scaled to size one, have a certified positive margin: no scaling changes that."""
    data, _ = limit.scaled()
    sizes = [np.linalg.norm(array, axis=1, keepdims=True) for array in data]
    if min(size.min() for size in sizes) == 0 or all(size.max() < 1e6 * size.min() for size in sizes):
        return False
    names = ("rows",) if len(data) == 1 else ("left", "right")
    units = (array / size for array, size in zip(data, sizes, strict=True))
    unit = MaxMargin(limit.norm, **dict(zip(names, units, strict=True)))
    best = _best(unit, _euclidean(unit, 1e-8, True)[0])
    return best is not None and best.lower > best.slack


def _euclidean(limit, tol, polish):
    p = minimum_norm_point(limit)
    sharp = on_support(limit, p) if polish else None
    return [(limit.combine(p), p)] + ([sharp] if sharp else []), 0


def _l1(limit, tol, polish):
    (A,), _ = limit.scaled()
    solved = linear_program(A)
    if solved is None:
        return [], 0
    w, p, n_iterations = solved
    sharp = on_active_set(A, w, p) if polish else None
    return [(w, p)] + ([sharp] if sharp else []), n_iterations


def _nuclear(limit, tol, polish):
    (D, Z), _ = limit.scaled()
    U, V = row_span(D), row_span(Z)
    D, Z = D if U is None else D @ U, Z if V is None else Z @ V
    # Each constraint is divided by its own size, right-hand side included: the same problem, better conditioned.
    D_sizes, Z_sizes = np.linalg.norm(D, axis=1), np.linalg.norm(Z, axis=1)
    D, Z, b = D / D_sizes[:, None], Z / Z_sizes[:, None], 1 / (D_sizes * Z_sizes)
    b /= b.max()

    def restored(pair, kept):
        lam = np.zeros(len(b))
        lam[kept] = pair.lam
        W = pair.W if U is None else U @ pair.W
        return (W if V is None else W @ V.T), lam * b

    kept, member_of = representatives(D, Z, b)
    pair = interior_point(D[kept], Z[kept], b[kept], tol=tol)
    candidates = [restored(pair, kept)]
    if polish:
        pair = newton_polish(D[kept], Z[kept], b[kept], pair)
        candidates.append(restored(pair, kept))
        if len(kept) < len(b):
            # Of two near-duplicates the one that binds is not always the one that was kept.
            lam = (pair.lam / np.bincount(member_of))[member_of]
            pair = newton_polish(D, Z, b, Pair(pair.W, lam, np.inf, pair.n_iterations))
            candidates.append(restored(pair, np.arange(len(b))))
    return candidates, pair.n_iterations


_METHODS = {"l1": _l1, "l2": _euclidean, "frobenius": _euclidean, "nuclear": _nuclear}
