"""`solve` for interpolation: the method, whether the data can be interpolated at all, and what the certificate says."""

import time

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from .._threads import one_blas_thread
from ..certificate import LeastCertificate
from ..limits import Interpolation, ModifiedL1
from ..limits._least_squares import independent_rows, least_squares
from ..limits.interpolation import Scaled, forbidden_signs, unreachable
from ..limits.potentials import DepthPotential
from ..limits.regularisers import AbstractPotential
from ._candidate import Candidate
from ._dual_newton import from_multipliers, least_potential
from ._least_interpolant import least_l1
from ._solution import Solution

# Non-negative least squares may take this many steps an unknown; the default of SciPy is three.
_N_STEPS = 30
# A column whose product with the residual is a smaller share than this of the sizes may be in use.
_NEARLY = 1e-10
# Multiples of the multipliers of the l1 norm that are tried for an entropy.
_N_MULTIPLES = 100
# Shares of them that are tried for a potential with a bounded dual domain.
# Below this distance from the boundary of that domain they are as good as any.
_UNRESOLVED = 1e-14
# A residual of rounding.
_INTERPOLATES = 1e-13
_SHARES = 1 - 2.0 ** -np.arange(4, 52)


def interpolate(limit: Interpolation, *, tol: float, polish: bool) -> Solution[LeastCertificate]:
    """The least interpolant, certified from both sides; see `solve`."""
    start = time.process_time()
    with one_blas_thread(), np.errstate(all="ignore"):
        best, farkas, n_iterations = _search(limit, tol, polish)
        status, reason = _judged(limit, best, farkas, tol)
    return Solution(
        status=status,
        reason=reason,
        certificate=best,
        farkas=None if farkas is None else limit.unscaled_multipliers(farkas),
        n_iterations=n_iterations,
        cpu_seconds=time.process_time() - start,
    )


def _search(limit, tol, polish):
    """The best certified pair, a proof that there is none or `None` (in scaled units), and the number of steps."""
    scaled = limit.scaled()
    X, y, f = scaled.X, scaled.y, scaled.regulariser
    point, off = _nearest(X, y)
    empty = np.flatnonzero(~X.any(axis=1) & (y != 0))
    if len(empty):  # a zero row asks for something else, however small beside the others
        off = np.sign(y) * np.eye(1, len(y), empty[0])[0]
    if unreachable(scaled, off):
        return _certified(limit, Candidate(point, off)), off, 0
    rows = independent_rows(X)
    candidates, n_iterations = [Candidate(point, np.zeros(len(rows)))], 0
    if not len(rows):
        best = _best(limit, rows, [*candidates, Candidate(f.minimum(X.shape[1]), np.zeros(0))])
        return best, None, 0
    for method in _methods(f, point, tol=tol, polish=polish):
        more, n = method(X[rows], y[rows])
        candidates, n_iterations = [*candidates, *more], n_iterations + n
        best = _best(limit, rows, candidates)
        if best.gap <= tol:
            break
    if not best.gap <= tol and any(np.any(forbidden) for forbidden in forbidden_signs(f, X.shape[1])):
        found = _outside_the_cone(scaled)
        if found is not None:
            return _certified(limit, found), found.multipliers, n_iterations
    return best, None, n_iterations


def _methods(f, point, *, tol, polish):
    """Methods for `f`, the likeliest first; each takes independent rows and returns candidates and a count."""
    if isinstance(f, ModifiedL1):
        return [lambda X, y: least_l1(X, y, f, polish=polish)]
    assert isinstance(f, AbstractPotential)
    methods = [
        lambda X, y: least_potential(X, y, f, tol=tol, polish=polish),
        lambda X, y: _from_l1(X, y, f, polish=polish),
    ]
    largest = float(np.abs(point).max())
    if isinstance(f, DepthPotential) and largest > 0 and f.least_room(np.log(largest)) < _UNRESOLVED:
        methods.reverse()
    return methods


def _from_l1(X, y, f, *, polish):
    """Candidates for a potential that is nearly an l1 norm of some size: that one's point, and multiples of its dual.

    Where the starting scale of a deep potential is so small that the dual cannot resolve it, these are as good as any.
    For an entropy the bound is best at a multiple near `log(1 / scale)`, whence Newton's method goes on.
    """
    no_plus, no_minus = forbidden_signs(f, X.shape[1])
    norm = ModifiedL1(np.where(no_plus, np.inf, 1.0), np.where(no_minus, np.inf, 1.0))
    found, n_iterations = least_l1(X, y, norm, polish=polish)
    if isinstance(f, DepthPotential):
        return [Candidate(k, share * nu) for k, nu, _ in found for share in (1.0, *_SHARES)], n_iterations
    multiples = [size * nu for _, nu, _ in found for size in np.linspace(0, f.largest_log + 10, _N_MULTIPLES)]
    more, n = from_multipliers(X, y, f, multiples) if multiples else ([], 0)
    return [*found, *more], n_iterations + n


def _nearest(X, y):
    """The least-squares point, and the part of `y` that no combination of columns reaches (zero if rounding)."""
    point = least_squares(X, y)
    off = y - X @ point
    if np.abs(off).max() <= 1e-14 * np.abs(y).max():
        return point, np.zeros_like(y)
    U, values, _ = np.linalg.svd(X, full_matrices=False)
    span = U[:, values > max(X.shape) * np.finfo(float).eps * values.max(initial=0.0)]
    for _ in range(2):  # what is left of the span after one projection is rounding of `y`, after two of `off`
        off = off - span @ (span.T @ off)
    return point, off


def _outside_the_cone(scaled: Scaled) -> Candidate | None:
    """The residual of the nearest point of the cone, where it proves that `y` lies outside."""
    X = scaled.X
    no_plus, no_minus = forbidden_signs(scaled.regulariser, X.shape[1])
    up, down = np.flatnonzero(~no_plus), np.flatnonzero(~no_minus)
    columns = np.hstack([X[:, up], -X[:, down]])
    try:
        q, _ = nnls(columns, scaled.y, maxiter=_N_STEPS * columns.shape[1])
    except RuntimeError:  # SciPy's word for too many steps
        return None
    point = np.zeros(X.shape[1])
    point[up] += q[: len(up)]
    point[down] -= q[len(up) :]
    off = scaled.y - columns @ q
    used = q > 0
    for _ in range(3):  # what rounding left of the columns in use, or nearly so, would be taken for a product
        used |= np.abs(columns.T @ off) <= _NEARLY * (np.abs(columns.T) @ np.abs(off))
        if used.any():
            off = off - columns[:, used] @ least_squares(columns[:, used], off)
    return Candidate(point, off) if unreachable(scaled, off) else None


def _judged(limit, best: LeastCertificate, farkas, tol) -> tuple[str, str]:
    if farkas is not None:
        return "infeasible", "no point of the domain interpolates: `farkas` separates `y` from all that `X k` can be."
    if best.gap <= tol and best.relative_slack <= max(tol, 1e-8):
        return "optimal", f"the recomputed gap is {best.gap:.1e}, at most {tol:g}."
    # With multipliers of zero the slack is the rounding of the value at the point alone.
    least = limit.certify(best.point, np.zeros(limit.n_constraints))
    if least.upper <= 4 * least.slack and least.residual <= _INTERPOLATES:
        return (
            "optimal",
            f"the least value is zero within rounding ({least.slack:.1e}): the minimum of `f` interpolates.",
        )
    if best.gap <= tol or best.gap <= 4 * best.relative_slack < np.inf:
        ends = f"double precision ends here: rounding alone moves the gap by {best.relative_slack:.1e}."
        return "stalled", ends
    return "stalled", f"the gap is {best.gap:.1e}, above {tol:g}."


def _certified(limit, candidate: Candidate) -> LeastCertificate:
    scaled = limit.scaled()
    nu = candidate.multipliers
    return limit.certify(np.ldexp(candidate.point, scaled.size), limit.unscaled_multipliers(nu))


def _best(limit, rows: Float[np.ndarray, " r"], candidates) -> LeastCertificate:
    """The highest lower with the smallest upper bound; `rows` have the candidates' multipliers, the others none."""
    full = []
    for point, multipliers, _ in candidates:
        nu = np.zeros(limit.n_constraints)
        nu[rows] = multipliers
        if np.isfinite(point).all() and np.isfinite(limit.unscaled_multipliers(nu)).all():
            full.append(Candidate(point, nu))
    found = [_certified(limit, candidate) for candidate in full]
    highest = max(range(len(found)), key=lambda i: found[i].lower)
    smallest = min(range(len(found)), key=lambda i: found[i].upper)
    # Once more, so that the certificate speaks of the point that is handed out, already on `X k = y`.
    return limit.certify(found[smallest].point, found[highest].multipliers)
