"""`solve(limit)`: a method for each norm, judged by the limit's own certificate."""

import dataclasses
import time
from importlib import import_module
from typing import overload

import numpy as np
import scipy.sparse

from .._threads import one_blas_thread
from ..certificate import BarrierCertificate, Certificate, LeastCertificate
from ..limits import Interpolation, MaxMargin
from ..limits.barrier import Barrier
from ..limits.constraints import Factors, Matrices, Rows
from ..limits.convex_relu import ConvexReluNet
from ..limits.judgement import OPEN, judge
from ..limits.measure_certificate import MeasureCertificate
from ..limits.net_certificate import NetCertificate
from ..limits.stationary_measure import StationaryMeasure
from ._barrier import MARGIN_TOL, least_barrier
from ._candidate import Candidate, balanced, best_intercept
from ._farkas import opposite, reduced
from ._interpolate import interpolate
from ._solution import Solution
from .convex_relu import convex_relu
from .stationary_measure import stationary_measure

AnyLimit = MaxMargin | Interpolation | Barrier | StationaryMeasure | ConvexReluNet

# Norm -> "module:function" of its method, the parameters that it takes from the limit.
_METHODS = {
    "l1": ("l1:least_l1", ()),
    "l2": ("l2:least_l2", ()),
    "linf": ("linf:least_linf", ()),
    "lp": ("lp:least_lp", ("p",)),
    "group-l1": ("group_l1:least_group_l1", ("groups",)),
    "fourier-l1": ("fourier_l1:least_fourier_l1", ("n_plain",)),
    "frobenius": ("frobenius:least_frobenius", ()),
    "nuclear": ("nuclear:least_nuclear", ()),
    "spectral": ("spectral:least_spectral", ()),
    "schatten": ("schatten:least_schatten", ("p",)),
}


@overload
def solve(limit: MaxMargin, tol: float = ..., *, polish: bool = ...) -> Solution[Certificate]: ...
@overload
def solve(limit: Interpolation, tol: float = ..., *, polish: bool = ...) -> Solution[LeastCertificate]: ...
@overload
def solve(limit: Barrier, tol: float = ..., *, polish: bool = ...) -> Solution[BarrierCertificate]: ...
@overload
def solve(limit: StationaryMeasure, tol: float = ..., *, polish: bool = ...) -> Solution[MeasureCertificate]: ...
@overload
def solve(limit: ConvexReluNet, tol: float = ..., *, polish: bool = ...) -> Solution[NetCertificate]: ...
def solve(limit: AnyLimit, tol: float = 1e-8, *, polish: bool = True) -> Solution:
    """The optimum of `limit`, certified from both sides: maximum margin, least interpolant, barrier or measure.

    - `tol`: the relative gap `(upper - lower) / upper` that counts as optimal. Rounding sets a floor of about
      `1e-16 max |A_k| / gamma*`; see `relative_slack` of the certificate.
    - `polish`: follow with an exact solve on the active set (Newton where the norm is curved), which as a rule takes
      the gap to 1e-14.

    Methods, a file each: l1 and l-infinity: interior point of the linear program; l2 and Frobenius: least-norm point of
    the convex hull; lp and Schatten: primal-dual Newton, by continuation in p where p is large; groups and Fourier:
    interior point over second-order cones; nuclear and spectral: interior point with as many unknowns as constraints.
    Separability is settled by a point of positive margin, or else by the least-norm point, which is then the Farkas
    combination; that step does not depend on the norm. Interpolation: linear program with lazy columns (modified l1),
    Newton's method on the smooth dual by continuation in the starting scale (all others). Barrier: the l-infinity
    margin first, which says whether there is a solution; then interior point, and Newton on the active rows. Stationary
    measure: Newton's method on its dual, by continuation in beta. Convex ReLU network: conditional gradient, then
    Newton on the directions and masses that are left. `polish` says nothing to these two.

    The status is `"optimal"` only if the recomputed gap is at most `tol`, and its rounding error at most `tol` or 1e-8,
    whichever is larger. Raises `ValueError` for a `tol` outside (0, 1) and `TypeError` for another limit.

    The sources of the methods stand in their files.
    """
    if not isinstance(limit, AnyLimit):
        raise TypeError(
            "`limit` must be a MaxMargin, an Interpolation, a Barrier, a StationaryMeasure or a ConvexReluNet; "
            f"got {type(limit).__name__}."
        )
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.integer, np.floating)):
        raise TypeError(f"`tol` must be a number; got {tol!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol}.")
    if isinstance(limit, Interpolation):
        return interpolate(limit, tol=tol, polish=polish)
    if isinstance(limit, StationaryMeasure):
        return stationary_measure(limit, tol=tol)
    if isinstance(limit, ConvexReluNet):
        return convex_relu(limit, tol=tol)
    if isinstance(limit, Barrier):
        return least_barrier(limit, solve(MaxMargin("linf", rows=limit.Z), MARGIN_TOL), tol=tol, polish=polish)
    start = time.process_time()
    with one_blas_thread():
        best, n_iterations = _search(limit.plain(), tol, polish)
    if limit.intercept == "penalised":
        best = limit.certify(best.point[:-1], best.multipliers, intercept=best.point[-1])
        if best.lower <= best.slack:
            best = _by_other_intercepts(limit, best, tol, polish)
    judgement = judge(limit, best, tol=tol, separable_by_rows=separable_by_rows)
    if judgement.farkas is not None:
        best, judgement = _with_few_rows(limit, best, judgement, tol)
    return Solution(
        status="stalled" if judgement.status == OPEN else judgement.status,
        reason=judgement.reason,
        certificate=best,
        farkas=judgement.farkas,
        n_iterations=n_iterations,
        cpu_seconds=time.process_time() - start,
    )


def _search(limit: MaxMargin, tol: float, polish: bool) -> tuple[Certificate, int]:
    """The best certified pair, and the number of steps."""
    constraints, _ = limit.scaled()
    opposed = opposite(constraints, limit.signs)
    if opposed is not None:  # two constraints that cancel, or one that is zero: nothing separates
        best = _best(limit, [Candidate(_some_point(limit), opposed)])
        assert best is not None
        return best, 0
    nearer = _centred(limit)
    candidates, n_iterations = _run(nearer, tol, polish)
    best = _best(limit, candidates)
    # The method of the Euclidean norms is the least-norm point itself.
    others = (_by_linear_program,) if limit.norm in ("l2", "frobenius") else (_fallback, _by_linear_program)
    for more in others:
        if best is None or (best.lower <= best.slack and best.upper > best.slack):
            candidates = [*candidates, *more(nearer)]
            best = _best(limit, candidates)
    assert best is not None
    return best, n_iterations


def _by_other_intercepts(limit, best, tol, polish):
    """The better of a certificate and the optima without an intercept and with a free one.

    Inputs far below one are lost beside the intercept's column, where they are not without it.
    """
    kinds = ["none"] if np.all(limit.labels == limit.labels[0]) else ["none", "free"]
    for kind in kinds:
        labels = None if kind == "none" else limit.labels
        found, _ = _search(dataclasses.replace(limit, intercept=kind, labels=labels), tol, polish)
        for p in (found.multipliers, best.multipliers):
            other = limit.certify(found.point, p, intercept=found.intercept or 0.0)
            if other.lower > best.lower and other.upper <= best.upper * (1 + 1e-9):
                best = other
    return best


def _with_few_rows(limit, certificate, judgement, tol):
    """The same with a Farkas combination of no more rows than it takes, where that one passes too."""
    plain = limit.plain()
    p = reduced(plain.scaled()[0], plain.signs, judgement.farkas)
    intercept = certificate.intercept if limit.intercept == "penalised" else None
    other = limit.certify(certificate.point, p, intercept=intercept)
    again = judge(limit, other, tol=tol, separable_by_rows=separable_by_rows)
    return (certificate, judgement) if again.farkas is None else (other, again)


def _centred(limit):
    """The problem with the origin near the inputs but on none, where a free intercept has them far off or some at zero.

    `<A_k, W> + y_k b = <A_k - y_k m, W> + y_k (b + <m, W>)`: the points and the balanced multipliers are the same.
    Inputs far from the origin would drown the differences that matter in rounding, in every product of a method; and
    methods for matrices divide constraints by their size.
    """
    constraints, _ = limit.scaled()
    if limit.signs is None:
        return limit
    has_zero = not isinstance(constraints, Rows) and constraints.euclidean_sizes.min() == 0
    if isinstance(constraints, Factors) and not has_zero:
        return limit
    rows = _stacked(constraints)
    if not isinstance(rows, np.ndarray):
        return limit
    y = limit.signs.reshape(-1, *[1] * (rows.ndim - 1))
    m = (y * rows).mean(0)
    largest = np.abs(rows - y * m).max()
    if has_zero:
        m = m - largest * np.cos(np.arange(m.size)).reshape(m.shape)  # a direction in which no data lie but by design
    elif not 0 < 4 * largest < np.abs(rows).max():
        return limit
    return dataclasses.replace(limit, rows=rows - y * m, left=None, right=None)


def _stacked(constraints):
    """The constraints as one array."""
    if isinstance(constraints, Rows):
        return constraints.rows
    return constraints.matrices if isinstance(constraints, Matrices) else constraints.congruence(None, None)


def _run(limit, tol, polish):
    where, names = _METHODS[limit.norm]
    module, function = where.split(":")
    method = getattr(import_module(f".{module}", __package__), function)
    constraints, _ = limit.scaled()
    data = constraints.rows if isinstance(constraints, Rows) else constraints
    return method(data, limit.signs, tol=tol, polish=polish, **{name: getattr(limit, name) for name in names})


def _fallback(limit):
    """The least-norm combination, which proves non-separability whatever the norm, and its own direction as a point."""
    from .frobenius import least_norm_combination

    constraints, _ = limit.scaled()
    c, ones = limit.signs, balanced(np.ones(limit.n_constraints), limit.signs)
    p = least_norm_combination(constraints, c)
    p = ones if p is None else p
    W = constraints.combine(p)
    W = W if np.any(W) else _some_point(limit)
    return [Candidate(W, q, best_intercept(constraints.margins(W), c)) for q in (p, ones)]


def _by_linear_program(limit):
    """The pair of the l1 margin: where nothing separates, its multipliers are a Farkas combination for every norm.

    The least-norm point may be reached slowly there, as a combination with weights that vanish like their slacks.
    """
    from .l1 import least_l1

    constraints, _ = limit.scaled()
    rows = _stacked(constraints)
    rows = rows.reshape(len(rows), -1) if isinstance(rows, np.ndarray) else rows
    found, _ = least_l1(rows, limit.signs, tol=1e-8)
    return [candidate._replace(point=candidate.point.reshape(limit.shape)) for candidate in found]


def _best(limit, candidates) -> Certificate | None:
    """The highest lower with the smallest upper bound: one depends on the point alone, one on the multipliers alone.

    A free intercept is the best for the point.
    """
    usable = [
        candidate
        for candidate in candidates
        if np.isfinite(candidate.point).all()
        and np.any(candidate.point)
        and np.isfinite(candidate.multipliers).all()
        and np.any(balanced(candidate.multipliers, limit.signs) > 0)
    ]
    found = [limit.certify(candidate.point, candidate.multipliers) for candidate in usable]
    if not found:
        return None
    highest = max(range(len(found)), key=lambda i: found[i].lower)
    smallest = min(range(len(found)), key=lambda i: found[i].upper)
    if highest == smallest:
        return found[highest]
    return limit.certify(usable[highest].point, usable[smallest].multipliers)


def _some_point(limit):
    """The largest constraint as a point, or ones where all are zero; used only where no margin is positive."""
    constraints, _ = limit.scaled()
    largest = int(np.argmax(constraints.euclidean_sizes))
    point = constraints.combine(np.eye(1, limit.n_constraints, largest)[0])
    return point if np.any(point) else np.ones(limit.shape)


def separable_by_rows(limit):
    """True when the constraints, each scaled to size one, have a certified positive margin: no scaling changes that."""
    if limit.signs is not None:
        return False  # the intercept's column is of size one already
    constraints, _ = limit.scaled()
    if isinstance(constraints, Factors):
        data = {"left": constraints.left, "right": constraints.right}
    else:
        data = {"rows": _stacked(constraints)}
    sizes = [_row_sizes(array) for array in data.values()]
    if min(size.min() for size in sizes) == 0 or all(size.max() < 1e6 * size.min() for size in sizes):
        return False
    unit = dataclasses.replace(limit, **{k: _divided(a, s) for (k, a), s in zip(data.items(), sizes, strict=True)})
    best = _best(unit, _fallback(unit))
    return best is not None and best.lower > best.slack


def _row_sizes(array):
    largest = abs(array).max(axis=tuple(range(1, array.ndim)) if isinstance(array, np.ndarray) else 1)
    return largest if isinstance(largest, np.ndarray) else largest.toarray().reshape(-1)


def _divided(array, sizes):
    if isinstance(array, np.ndarray):
        return array / sizes.reshape(-1, *[1] * (array.ndim - 1))
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / sizes) @ array)
