"""The stationary measure's dual by Newton's method: `n m` unknowns, an analytic Hessian, any start.

The dual is minus `|r|^2/(2n) + r.y/n + log Z(r) / beta`, each term convex; the gradient of `log Z` grows without bound
towards `max |R| = lam`, as a barrier's does. A step is halved until it stays inside and lowers the value; near the
optimum, where rounding hides the value, until the mismatch `|f - y - r|`, which is the gradient, falls.

It is a weak barrier: where `|R|` has a corner for its maximum, `D = 3`, the integral stays finite as the room `eta =
lam - max |R|` goes to zero, and its gradient grows like `eta^{-1/2}` only. At the optimum such an `eta` falls like
`beta^{-2}`, and Newton's method takes it from `eta_0` to `3 eta_0 - 2 eta_0 (beta / beta_0)`: inside if `beta` grows
by less than 1.5. So `beta` grows to its value in stages, by factors of ten where that goes well and by less where it
does not, each from what a parabola in `1/beta` through the last three predicts: rooms are of the orders `1/beta` and
`1/beta^2`. The last stage goes on while the mismatch halves: what is left is rounding. Where integrals are sampled,
each stage has a fixed sample, adapted to the residual of the stage before. Derived here.
"""

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from .._threads import one_blas_thread
from ..limits._arrays import shaped
from ..limits._measure_partition import SEARCH
from ..limits.measure_certificate import MeasureCertificate
from ..limits.stationary_measure import StationaryMeasure
from ._solution import Solution

_MOST_STEPS = 100
_MOST_HALVINGS = 60
# The first beta, in the units of the scaled problem, where targets are of size 1; the largest and the least factor.
_FIRST_BETA, _FACTOR, _LEAST_FACTOR = 1.0, 10.0, 1.02
# The mismatch, as a share of |y|, that ends a stage before the last (with a sample: less is noise), and the steps that
# it may take.
_ROUGH, _ROUGH_SAMPLED, _ROUGH_STEPS = 1e-7, 1e-3, 15
# And the last stage where the rule's error of about 1e-9 is all that more steps would see.
_ROUGH_LAST = 1e-10
# A stage that took no more steps than this lets the factor grow.
_EASY_STEPS = 6
# Rounds of sampling at the last beta, each adapted to the last residual.
_ROUNDS = 4
# A sampled residual outside the domain is scaled by this, and at most so often.
_SHRINK, _MOST_SHRINKS = 0.99, 40
# The share of the value's promised decrease that a step must keep.
_KEPT = 1e-4
# Steps that do not halve the mismatch, after which rounding has the word.
_PATIENCE = 3


def stationary_measure(
    limit: StationaryMeasure, *, tol: float = 1e-10, start: ArrayLike | None = None
) -> Solution[MeasureCertificate]:
    """The residual of the stationary measure, certified.

    - `tol`: the gap, `|f - y - r|^2 / |y|^2`, that counts as optimal; its error must be at most `tol` or 1e-8,
      whichever is larger. The search goes on beyond it, to rounding. Sampled integrals (`D > 4`) do not reach that.
    - `start`: a residual of the shape of `y`; scaled towards zero until it lies in the domain. Default zero.

    Raises `ValueError` for a `tol` outside (0, 1), and for a start of another shape or with entries that are not
    finite.
    """
    if not isinstance(limit, StationaryMeasure):
        raise TypeError(f"`limit` must be a StationaryMeasure; got {type(limit).__name__}.")
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.integer, np.floating)):
        raise TypeError(f"`tol` must be a number; got {tol!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol}.")
    begin = time.process_time()
    scaled = limit.scaled
    r = np.zeros(scaled.y.shape)
    if start is not None:
        r = np.ldexp(shaped("start", start, limit.y.shape), -scaled.exponent).reshape(r.shape)
    with one_blas_thread(), np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        # Without targets the measure is Gaussian, whatever the start.
        r, n_steps = _followed(scaled, r) if scaled.y.any() else (np.zeros_like(r), 0)
        certificate = limit.certify(np.ldexp(r, scaled.exponent).reshape(limit.y.shape))
    status, reason = _judged(certificate, scaled.method, tol)
    return Solution(
        status=status,
        reason=reason,
        certificate=certificate,
        farkas=None,
        n_iterations=n_steps,
        cpu_seconds=time.process_time() - begin,
    )


def _judged(certificate, method, tol) -> tuple[str, str]:
    gap, error = certificate.gap, certificate.relative_slack
    if certificate.bounded == "violated":
        return "stalled", "no residual was found at which |R| < lam holds on the whole sphere."
    if gap > tol:
        return "stalled", f"the gap is {gap:.1e}, above {tol:g}."
    if error <= max(tol, 1e-8):
        return "optimal", f"the recomputed gap is {gap:.1e}, at most {tol:g}; its error is {error:.1e}."
    more = ": take more samples, `n_samples`." if method == "sampled" else ", rounding where |R| comes close to `lam`."
    return "stalled", f"the gap is {gap:.1e}, but its error is {error:.1e}{more}"


def _followed(scaled, r) -> tuple[np.ndarray, int]:
    """The residual at `scaled.beta`, by stages of `beta`, and the steps taken."""
    beta, factor, n_steps = min(_FIRST_BETA, scaled.beta), _FACTOR, 0
    r = _inside(_at(scaled, beta), r)
    # Away from the boundary, where the barrier is weak: the domain is convex and holds zero.
    r, reached, path = r / 2, 0.0, []
    while True:
        stage, last = _at(scaled, beta), beta == scaled.beta
        guess = _predicted(path, 1 / beta) if scaled.method != "sampled" else None
        if guess is not None and _evaluate(stage, guess, None, _order(scaled), second=False) is not None:
            r = guess
        trial, n, good = _newton(stage, r, stage.nodes(r, round_=n_steps + 1), order=_order(scaled), rough=True)
        n_steps += n
        if good or reached == 0 or factor <= _LEAST_FACTOR:
            r, reached = trial, beta
            path = [*path[-2:], (1 / beta, r)]
            if last:
                break
            factor = min(factor**1.5, _FACTOR) if n <= _EASY_STEPS else factor
        else:
            r, factor = path[-1][1], max(factor**0.5, _LEAST_FACTOR)
        beta = min(reached * factor, scaled.beta)
    for k in range(_ROUNDS if scaled.method == "sampled" else 1):
        nodes = scaled.nodes(r, round_=n_steps + 1 + k)
        r, n, _ = _newton(scaled, r, nodes, order=None, rough=scaled.method == "quadrature")
        n_steps += n
    for _ in range(_MOST_SHRINKS if scaled.method == "sampled" else 0):
        # The sample that judges is another one, with peaks that the last one has not held down.
        if _evaluate(scaled, r, None, None, second=False) is not None:
            break
        r = _SHRINK * r
    return r, n_steps


def _predicted(path, t):
    """The parabola through the last three residuals, by `1 / beta`, at `t`; `None` where there are not three."""
    if len(path) < 3:
        return None
    times = [time_ for time_, _ in path]
    total = np.zeros_like(path[0][1])
    for k, (time_, r) in enumerate(path):
        others = times[:k] + times[k + 1 :]
        total += r * np.prod([(t - other) / (time_ - other) for other in others])
    return total


def _at(scaled, beta):
    stage = dataclasses.replace(scaled, beta=beta)
    # The cones and cells do not depend on beta: made once.
    vars(stage).update(cones=scaled.cones, cells=scaled.cells)
    return stage


def _order(scaled):
    return SEARCH if scaled.method == "quadrature" else None


def _evaluate(scaled, r, nodes, order, second=True):
    options: dict[str, Any] = {"second": second, "errors": False}
    if order is not None:
        options["order"] = order
    return scaled.partition(r, nodes=nodes, **options)


def _inside(scaled, r, nodes=None):
    """`r`, or the first of `r/2, r/4, ...` in the domain; zero always is."""
    for _ in range(1100):
        if _evaluate(scaled, r, nodes, _order(scaled), second=False) is not None:
            return r
        r = r / 2
    return np.zeros_like(r)


def _newton(scaled, r, nodes, *, order, rough) -> tuple[np.ndarray, int, bool]:
    """The residual, the steps taken, and whether the mismatch fell as far as it should."""
    n, m = r.shape
    # d f / d r = -(Hessian of log I by c) / (beta lam) / (n lam).
    stiffness = 1 / (scaled.beta * scaled.lam) / (n * scaled.lam)
    here = _evaluate(scaled, r, nodes, order)
    if here is None:
        # Another sample, or a finer rule, has seen what the one before has not.
        r = _inside(scaled, r, nodes)
        here = _evaluate(scaled, r, nodes, order)
    if here is None:
        return r, 0, False
    enough = _ROUGH if nodes is None else _ROUGH_SAMPLED
    if scaled.method == "quadrature" and order is None:
        enough = _ROUGH_LAST
    enough *= float(np.linalg.norm(scaled.y))
    best, best_size, patience = r, np.inf, 0
    for count in range(_ROUGH_STEPS if rough else _MOST_STEPS):
        gradient = r + scaled.y - scaled.outputs(here)
        size = float(np.linalg.norm(gradient))
        patience = 0 if size < best_size / 2 else patience + 1
        if size < best_size:
            best, best_size = r, size
        if rough and size <= enough:
            return r, count, True
        if size == 0 or (patience >= _PATIENCE and size > 0 and _flat(scaled, r, here, size)):
            return best, count, True
        matrix = stiffness * here.hessian.reshape(n * m, n * m)
        matrix = (matrix + matrix.T) / 2 + np.eye(n * m)
        try:
            step = -cho_solve(cho_factor(matrix), gradient.reshape(-1)).reshape(n, m)
        except np.linalg.LinAlgError:
            # Rounding of a Hessian of a huge range; its positive part is meant.
            values, vectors = np.linalg.eigh(matrix)
            step = -(vectors @ ((vectors.T @ gradient.reshape(-1)) / np.maximum(values, 1.0))).reshape(n, m)
        found = _searched(scaled, r, here, gradient, step, nodes, order)
        if found is None:
            return best, count + 1, False
        r, here = found
    return best, _ROUGH_STEPS if rough else _MOST_STEPS, False


def _flat(scaled, r, here, size):
    """Whether the value can no longer tell: the decrease that is left is below its rounding."""
    value = abs(scaled.negative_dual(r, here)) + abs(here.log_total) / scaled.beta
    return size**2 / (2 * len(r)) <= 1e-10 * max(value, np.finfo(float).tiny)


def _searched(scaled, r, here, gradient, step, nodes, order):
    value = scaled.negative_dual(r, here)
    slope = float((gradient * step).sum()) / len(r)
    noise = 1e-14 * (abs(value) + abs(here.log_total) / scaled.beta)
    size = float(np.linalg.norm(gradient))
    share = 1.0
    for _ in range(_MOST_HALVINGS):
        trial = r + share * step
        # The first trial is taken as a rule, and its Hessian is then wanted.
        there = _evaluate(scaled, trial, nodes, order, second=share == 1)
        if there is not None:
            lower = scaled.negative_dual(trial, there) <= value + _KEPT * share * slope
            smaller = abs(slope) * share <= noise and (
                float(np.linalg.norm(trial + scaled.y - scaled.outputs(there))) <= size
            )
            if lower or smaller:
                full = there if there.hessian is not None else _evaluate(scaled, trial, nodes, order)
                return (trial, full) if full is not None else None
        share /= 2
    return None
