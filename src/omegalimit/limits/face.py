"""Is the maximum-margin point unique, and how large is the set of all of them?

Let `(W, p)` be an optimal pair, `|W| = 1`, `G = sum_k p_k A_k` with `|G|_dual = 1` after scaling. Every optimum lies in
the face of the unit ball that `G` exposes, and the rows with `p_k > 0` are active at every optimum. On such a face the
norm is linear, so that the optima are the `x` in a cone (a box, a ball) with `B x = 1` on the rows that have
multipliers, `B x >= 1` on the others, and a fixed norm `n.x`:

| norm | points of the face of the ball | cone | `n.x` |
| --- | --- | --- | --- |
| `l1`, `group-l1`, `fourier-l1` | `sum_g x_g G_g / |G_g|` over parts with `|G_g| = 1` | `x >= 0` | `sum_g x_g` |
| `linf` | `sign G_j` where `G_j != 0`, `x_j` elsewhere | `|x_j| <= 1` | - |
| `nuclear` | `U_1 H V_1^T`, `U_1, V_1` the leading singular vectors of `G` | `H` p.s.d. | `tr H` |
| `spectral` | `U_1 V_1^T + U_2 X V_2^T`, `U_1, V_1` spanning the range of `G` | `|X|_op <= 1` | - |

A free intercept is one more unknown, of any sign. The optimum is unique if `(B; n)` has full column rank; where it has
not, a step along its null space, as far as the cone and the other rows permit, is a second optimum. The other norms are
strictly convex, hence their optimum is unique.

The faces of the norms are standard, and so is the rank criterion for linear programs (Mangasarian 1979). Derived here:
the criterion in this form for all norms, and the thresholds. Two numbers decide: `noise`, the rounding error of the
gap, and `tie = 10 sqrt(gap + noise)`. In an optimal pair the product of a multiplier and the excess of its row is zero,
in a given pair at most `gap`; below the square root of it neither of the two is known to be the zero one.
"""

import dataclasses
import math
from typing import overload

import numpy as np
import scipy.linalg
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import shape_text
from ..certificate import Certificate, LeastCertificate
from ._bounds import EPS
from ._face_charts import Chart, Pair, chart_of, normalised
from ._face_steps import LARGEST_SEARCH, Found, Linear, by_programmes, by_straight_steps
from ._interpolant_face import interpolant_face
from .interpolation import Interpolation
from .max_margin import MaxMargin

# Above this gap a pair says nothing about which constraints, and which parts, hold the optimum.
_LARGEST_GAP = 1e-6
# Unknowns beyond which a sample of the null space stands for it.
_LARGEST_NULL_SPACE = 400


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Face:
    """The set of all optima: of maximum margin, as points of least margin 1, or of the least interpolants.

    - `unique`: true: one direction, decided in floating point with singular values well above their error; not a
      proof. False: `other` is a second optimum, and its bounds are those of the first within their rounding error (so
      that a tie closer than rounding is a tie). `None`: neither; `reason` says why.
    - `dimension` of the set (0 when unique); `None` where it is not known, which may be with `unique=False` too.
    - `other`, `other_intercept`: a second optimum, certified by the same multipliers, as far from the first as the
      search found; `None` unless `unique` is false.
    - `spread`: `|W - W'|` of the two, both scaled to norm one (at most 2); 0 when unique, `None` when undecided. For
      interpolants the sum of `t_i |k_i - k'_i|`, as a share of the least norm.
    - `lowest`, `highest`: for vectors, the range of each coordinate over the set, by linear programs (to about 1e-9 of
      the norm); `None` for matrices, where `unique` is not false, and where more than 200 vary.
    """

    unique: bool | None
    dimension: int | None
    reason: str
    other: Float[np.ndarray, "..."] | None = None
    other_intercept: float | None = None
    spread: float | None = None
    lowest: Float[np.ndarray, " d"] | None = None
    highest: Float[np.ndarray, " d"] | None = None


@overload
def optimal_face(limit: MaxMargin, certificate: Certificate, *, ranges: bool = ...) -> Face: ...
@overload
def optimal_face(limit: Interpolation, certificate: LeastCertificate, *, ranges: bool = ...) -> Face: ...
def optimal_face(
    limit: MaxMargin | Interpolation, certificate: Certificate | LeastCertificate, *, ranges: bool = True
) -> Face:
    """Whether the optimum that `certificate` of `limit` bounds is unique; if not, a second one and the set's size.

    The direction is meant, of `W`, and of `(W, b)` with an intercept. Nothing is solved again: one factorization of the
    active rows on the supporting parts decides where the optimum is unique. Where it is not, small linear programs look
    for others, two for each coordinate that varies; `ranges=False` leaves out all but a few of them.
    Undecided when the certificate's gap exceeds 1e-6 (norms that are not strictly convex) or its margin is not positive
    beyond rounding. Pairs with a gap near rounding (`solve` with `polish`) decide most.

    Of an `Interpolation`, whether its least interpolant is unique (always, where the function is strictly convex).

    Raises `TypeError` for a certificate of the other kind, `ValueError` for one of another problem: by its shape, its
    kind of intercept or its bounds.
    """
    if isinstance(limit, Interpolation):
        checked = _checked_least(limit, certificate)
        return Face(**interpolant_face(limit, checked, ranges)._asdict())
    _check(limit, certificate)
    assert isinstance(certificate, Certificate)
    if not certificate.lower > certificate.slack:
        return _undecided(f"no positive margin is certified (lower bound {certificate.lower:.1e}).")
    if limit.strictly_convex:
        reason = f"the norm {limit.norm!r} is strictly convex and the margin is positive."
        return Face(unique=True, dimension=0, reason=reason, spread=0.0)
    if certificate.gap > _LARGEST_GAP:
        return _undecided(f"the certificate's gap, {certificate.gap:.1e}, exceeds {_LARGEST_GAP:g}.")
    if limit.intercept != "penalised":
        return _face(limit, certificate, ranges)
    assert certificate.intercept is not None
    point = np.append(certificate.point, certificate.intercept)
    plain = dataclasses.replace(certificate, point=point, intercept=None, intercept_kind="none")
    face = _face(limit.plain(), plain, ranges)
    if face.other is None:
        return face
    return dataclasses.replace(
        face,
        other=face.other[:-1],
        other_intercept=float(face.other[-1]),
        lowest=None if face.lowest is None else face.lowest[:-1],
        highest=None if face.highest is None else face.highest[:-1],
    )


def margin_ratio(
    limit: MaxMargin, point: ArrayLike, certificate: Certificate, *, intercept: float | None = None
) -> float:
    """The margin `min_k <A_k, W> / |W|` of `point` over the certified upper bound: 1 at an optimum, below elsewhere.

    What to report in place of a cosine with one optimum where there are many. Negative for a point that misclassifies;
    NaN when the bound is zero. `intercept` as in `MaxMargin.certify`. Raises what `certify` raises, and `ValueError`
    for a certificate of another problem's shape or kind of intercept.
    """
    _check(limit, certificate)
    lower = limit.certify(point, certificate.multipliers, intercept=intercept, delta=0.0).lower
    return lower / certificate.upper if certificate.upper > 0 else math.nan


def _check(limit, certificate):
    if not isinstance(certificate, Certificate):
        raise TypeError(
            f"`certificate` must be a Certificate; got {type(certificate).__name__}. A solution has one: "
            "`solution.certificate`."
        )
    if certificate.point.shape != limit.shape or certificate.multipliers.shape != (limit.n_constraints,):
        raise ValueError(
            f"`certificate` belongs to another problem: it has a point of shape {shape_text(certificate.point.shape)} "
            f"and {len(certificate.multipliers)} multipliers, the limit has points of shape {shape_text(limit.shape)} "
            f"and {limit.n_constraints} constraints."
        )
    if certificate.intercept_kind != limit.intercept:
        raise ValueError(
            f"`certificate` belongs to another problem: its intercept is {certificate.intercept_kind!r}, "
            f"the limit's {limit.intercept!r}."
        )
    upper = limit.plain().dual_norm_of(limit.plain().combine(certificate.multipliers))
    # The multipliers alone give the upper bound; with other data it is another.
    if abs(upper - certificate.upper) > certificate.slack + 1e-10 * (limit.plain().sizes @ certificate.multipliers):
        raise ValueError(
            f"`certificate` belongs to other data: its multipliers give the upper bound {certificate.upper:.6g} there "
            f"and {upper:.6g} here."
        )


def _checked_least(limit, certificate) -> LeastCertificate:
    """The certificate, computed again from its own pair."""
    if not isinstance(certificate, LeastCertificate):
        raise TypeError(
            f"`certificate` must be a LeastCertificate; got {type(certificate).__name__}. "
            "A solution of an Interpolation has one: `solution.certificate`."
        )
    if certificate.point.shape != limit.shape or certificate.multipliers.shape != (limit.n_constraints,):
        raise ValueError(
            f"`certificate` belongs to another problem: it has a point of shape {shape_text(certificate.point.shape)} "
            f"and {len(certificate.multipliers)} multipliers, the limit has points of shape {shape_text(limit.shape)} "
            f"and {limit.n_constraints} rows."
        )
    again = limit.certify(certificate.point, certificate.multipliers)
    for name in ("upper", "lower"):
        there, here = getattr(certificate, name), getattr(again, name)
        if there != here and not abs(there - here) <= certificate.slack + again.slack:
            raise ValueError(
                f"`certificate` belongs to other data: its pair has the {name} bound {there:.6g} there "
                f"and {here:.6g} here."
            )
    return again


def _undecided(reason):
    return Face(unique=None, dimension=None, reason=reason)


def _face(limit, certificate, ranges) -> Face:
    pair = normalised(limit, certificate)
    chart = chart_of(pair)
    if chart is None:
        return _undecided("the face of the unit ball that holds the optimum is too large to be searched.")
    if chart.n_unknowns == 0 and pair.c is None:
        return _single(f"no part of the point is free once {_what(limit)} are given.")
    B = _system(pair, chart)
    # A step that moves no held margin beyond its rounding error cannot be told from one that moves none.
    noise = pair.noise + EPS * math.sqrt(max(B.shape)) * float(np.linalg.norm(B))
    largest = float(pair.constraints.euclidean_sizes[pair.held].max(initial=0.0)) / pair.least
    safe = 100 * noise + (10 * pair.tie * max(largest, float(np.linalg.norm(B, 2))) if chart.inexact else 0.0)
    if (smallest := _least_singular_value(B)) > safe:
        return _single(
            f"{len(B)} active conditions determine the {B.shape[1]} unknowns "
            f"(least singular value {smallest:.1e}, error {safe:.1e})."
        )
    rows = np.flatnonzero(~pair.held)
    others = _margins(pair, chart, rows)
    null, n_free, doubtful, blur = _null_space(B, 10 * noise, safe=safe, others=others, x=chart.x)
    if n_free == 0:
        return _undecided(
            f"{len(B)} active conditions nearly leave a direction free "
            f"(least singular value {smallest:.1e}, error {safe:.1e})."
        )
    linear = np.vstack([chart.cone @ null[: chart.n_unknowns], others @ null])
    room = np.maximum(np.concatenate([chart.room, pair.excess[rows]]), 0.0)
    tied = np.concatenate([chart.tied, pair.excess[rows] <= pair.tie])
    complete = null.shape[1] == n_free
    inequalities = Linear(linear, room, tied, blur)
    if chart.matrix is None and complete and n_free <= LARGEST_SEARCH:
        found = by_programmes(chart, null, inequalities, noise=pair.noise, ranges=ranges)
    else:
        found = by_straight_steps(chart, null, inequalities, tie=pair.tie)
    if isinstance(found, str):
        return _undecided(found)
    if found.dimension == 0:
        return _single("ties without multipliers stop every step along the directions that the active rows leave free.")
    dimension = found.dimension if complete else n_free if found.dimension == null.shape[1] else None
    dimension = None if doubtful else dimension
    return _exhibited(pair, chart, found._replace(dimension=dimension), n_free)


def _what(limit):
    return {"linf": "the signs of the combined gradient", "spectral": "its singular vectors"}.get(
        limit.norm, "its parts"
    )


def _single(reason):
    return Face(unique=True, dimension=0, reason=reason, spread=0.0)


def _margins(pair: Pair, chart: Chart, rows):
    """`B` on these rows, the intercept's column last."""
    B = chart.of(pair.constraints.take(rows)) / pair.least
    return B if pair.c is None else np.column_stack([B, pair.c[rows]])


def _system(pair, chart):
    B = _margins(pair, chart, np.flatnonzero(pair.held))
    if chart.normal is None:
        return B
    return np.vstack([B, chart.normal if pair.c is None else np.append(chart.normal, 0.0)])


def _least_singular_value(B):
    """A lower bound, `1 / |R^-1|_F` from `B = Q R`, much cheaper than the value itself; 0 for a wide `B`."""
    if B.shape[0] < B.shape[1]:
        return 0.0
    R = scipy.linalg.qr(B, mode="r", check_finite=False)[0][: B.shape[1]]
    if np.abs(np.diagonal(R)).min() <= EPS * np.abs(R).max():
        return 0.0
    return 1 / float(np.linalg.norm(scipy.linalg.solve_triangular(R, np.eye(len(R)), check_finite=False)))


def _null_space(B, noise, *, safe, others, x):
    """A basis (beyond 400 unknowns: of a part), the dimension, whether singular values are in doubt, and the blur.

    Directions next to a small singular value `s` are known to `noise / s` only.
    """
    n = B.shape[1]
    small = n <= _LARGEST_NULL_SPACE
    _, s, vt = np.linalg.svd(B, full_matrices=small)
    rank = int((s > noise).sum())
    doubtful = bool((s[:rank] <= safe).any())
    blur = noise / min(1.0, float(s[rank - 1])) if rank else noise
    if small:
        return vt[rank:].T, n - rank, doubtful, blur
    active = vt[:rank].T
    if len(B) + len(others) < n:  # rather steps that move none of the other rows, so that none of them stops a step
        active = np.linalg.qr(np.hstack([active, others.T]))[0]
    sample = np.random.default_rng(0).normal(size=(n, min(20, n - active.shape[1])))
    if x is not None:
        sample[: len(x), 0] = x
    return np.linalg.qr(sample - active @ (active.T @ sample))[0], n - rank, doubtful, blur


def _exhibited(pair, chart, found: Found, n_free) -> Face:
    """The farthest step that the certificate accepts: its lower bound is that of the pair, within rounding."""
    limit, certificate = pair.limit, pair.certificate
    lifted = [chart.lift(step[: chart.n_unknowns]) for step in found.steps]
    spreads = np.array([limit.norm_of(step) if np.isfinite(step).all() and np.any(step) else 0.0 for step in lifted])
    # Where the face is read off the pair, or curved, points at the fourth root of the gap may be all but optimal.
    least_spread = math.sqrt(10 * pair.tie) if chart.inexact else pair.tie
    for i in np.argsort(-spreads, kind="stable")[:4]:
        for share in (1.0,) if chart.matrix is None else (1.0, 0.9, 0.5):  # at the end of a curved step rounding grows
            if share * spreads[i] <= least_spread:
                break
            step = share * found.steps[i]
            point = (pair.W + share * lifted[i]) * pair.size
            b = None if pair.c is None else pair.b + step[-1]
            if b is not None:
                b = float(np.ldexp(b * pair.least, limit.scaled()[1])) * pair.size
            other = limit.certify(point, certificate.multipliers, intercept=b, delta=0.0)
            spread = limit.norm_of(other.point / limit.norm_of(other.point) - pair.W)
            # One that is better beyond rounding shows that the pair is not optimal, and nothing of the optimum.
            alike = abs(other.lower - certificate.lower) <= certificate.slack + other.slack
            if alike and spread > least_spread:
                low, high = found.lowest, found.highest
                return Face(
                    unique=False,
                    dimension=found.dimension,
                    reason=f"another point, at the distance {spread:.1e}, has the same bounds within rounding.",
                    other=other.point,
                    other_intercept=other.intercept,
                    spread=spread,
                    lowest=None if low is None else (pair.W + np.minimum(low, 0.0)) * pair.size,
                    highest=None if high is None else (pair.W + np.maximum(high, 0.0)) * pair.size,
                )
    return _undecided(f"{n_free} directions are free, but no second point along them has the same bounds.")
