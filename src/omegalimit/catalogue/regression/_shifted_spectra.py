"""Claims of `negative_shifted_descent` about the spectrum: barrier, floor, exposure, and the path at the floor."""

import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...flows import shifted_flow
from ...limits.spectrum_law import head_recovery, lower_edge, recovery_error, tail_price
from ._shifted_experiment import Draw
from ._shifted_filters import RTOL
from ._shifted_risks import judged

SIGMAS = 4.0
"""Standard deviations that a fluctuation is allowed; one in sixteen thousand draws of a Gaussian lies outside."""

VACUOUS = 0.25
"""A share of the head that the bulk may add or take; beyond it the head is not told from the bulk."""


# -- spectrum ---------------------------------------------------------------------------------------------------------


def sigmas(count: int) -> float:
    """How many standard deviations the worst of `count` may lie off, for all together as rarely as one by `SIGMAS`."""
    from scipy.special import ndtr, ndtri

    return float(-ndtri(ndtr(-SIGMAS) / count))


def bulk_barrier(draws: Sequence[Draw]) -> Verdict:
    """`bulk-barrier`: the shift a that cancels the floor lies half a bulk's width beyond every admissible one.

    Measured: how far the mean of m_min+ is from where it is predicted, over the distance from a to the bulk's lower
    edge, `2 sqrt(a lT) - lT` for many observations. Predicted, with p tail dimensions and h heads (`lower_edge`):
    `(sqrt(p) - sqrt(n - h - 1/2))^2 lT/n` and Tracy and Widom's mean. Allowed: the fluctuation over draws, and what
    `lower_edge` says is left out. That heads take rows away, and how much, is derived here.
    """
    s = draws[0].setting
    level = s.a / (s.tail.size / s.n)
    stands = s.tail.size > s.n
    at = lower_edge(s.n, s.tail.size, level=level, head=s.head) if stands else None
    least = [float(d.m[0]) for d in draws]
    if at is None:
        edge = predicted = 0.0
        measured, bound = abs(float(np.mean(least))) / s.a, math.inf
    else:
        edge, predicted = at.edge, at.mean
        width = s.a - edge
        measured = abs(float(np.mean(least)) - predicted) / width
        bound = (at.error + SIGMAS * at.deviation / math.sqrt(len(draws))) / width
    return judged(
        "bulk-barrier",
        Kind.EQUALITY,
        draws,
        parametrisation="spectrum",
        measured=measured,
        bound=bound,
        slack=0.0,
        unit="relative to the distance from a to the edge",
        conditions=(Assumption(name="a is not admissible: a > m_min+", holds=max(least) < s.a, measured=max(least)),),
        undecided=None if bound < 0.5 else "the tail has too few dimensions for a bulk that stands off zero.",
        details={"m_min": least, "edge": edge, "predicted_mean": predicted},
    )


def trace_sets_floor(groups: Sequence[Sequence[Draw]]) -> Verdict:
    """`trace-sets-floor`: tails of one trace raise the same floor, as the interpolant's recovery of the head shows.

    Of a head of empirical variance h (along its own directions) the interpolant recovers h / (floor + h), which gives
    the floor. The bulk's spread lowers it to `a (1 - w^2/a^2)` to first order (1/x is convex; derived here), which is
    the prediction; twice the second order and the fluctuation over draws are allowed.
    """
    rows = []
    for draws in groups:
        s = draws[0].setting
        floors = [value for d in draws for value in _implied_floors(d)]
        error = SIGMAS * math.sqrt(2 / s.n) * s.w / s.a / math.sqrt(len(floors))
        predicted = s.a * (1 - (s.w / s.a) ** 2)
        found = float(np.mean(floors))
        rows.append((abs(found / predicted - 1), 2 * (s.w / s.a) ** 4 + error, found, predicted, s))
    measured, bound, *_ = max(rows, key=lambda row: row[0] / row[1])
    return judged(
        "trace-sets-floor",
        Kind.EQUALITY,
        groups[0],
        parametrisation="spectrum",
        measured=measured,
        bound=bound,
        slack=0.0,
        unit="relative error of the floor",
        undecided=None if bound < 0.5 else "the bulk is as wide as the floor is high.",
        details={
            "tails": [
                {"floor": f, "a": s.a, "predicted": p, "bulk_sd": s.w, "effective_rank": s.tail.effective_rank}
                for _, _, f, p, s in rows
            ]
        },
    )


def _implied_floors(d: Draw) -> list[float]:
    """`h (1/R - 1)` with R the interpolant's recovery along each empirical head direction of variance h."""
    X, n = d.design.X_head, d.design.n
    h, Q = np.linalg.eigh(X.T @ X / n)
    recovered = (Q.T @ X.T) @ np.linalg.solve(d.design.gram, X @ Q)
    return [float(hi * (1 / r - 1)) for hi, r in zip(h, np.diag(recovered), strict=True)]


def squares_set_exposure(groups: Sequence[Sequence[Draw]]) -> Verdict:
    """`squared-spectrum-sets-exposure`: fitted noise costs `sigma^2 n tr(Sigma_T^2) / tr(Sigma_T)^2` in the tail.

    Measured on tails of one trace and different squared spectra, along the interpolant: `sigma^2 tr(K^-1 K_2 K^-1)`
    with `K = XX'`, `K_2 = X_T Sigma_T X_T'`. To first order in the bulk's spread the price has the further factor
    `1 + 3 w^2/a^2 - 2 tr(Sigma_T^3) / (a tr(Sigma_T^2)) - sum_h (1 - a^2/(a + lh)^2) / n` (derived here), which is
    the prediction; the square of the terms and the fluctuation over draws are allowed.
    """
    rows = []
    for draws in groups:
        s = draws[0].setting
        predicted = tail_price(s.tail.trace, s.tail.trace_of_square, n=s.n, sigma=s.sigma)
        found = []
        for d in draws:
            K = d.design.gram
            inner = np.linalg.solve(K, d.design.tail_gram_squared)
            found.append(s.sigma**2 * float(np.trace(np.linalg.solve(K, inner.T))))
        lam, count = np.array(s.tail.eigenvalues), np.array(s.tail.counts)
        cubes = float(np.sum(lam**3 * count))
        terms = 3 * (s.w / s.a) ** 2, 2 * cubes / (s.tail.trace_of_square * s.a)
        modes = sum(1 - (s.a / (s.a + lam)) ** 2 for lam in s.head) / s.n
        predicted *= 1 + terms[0] - terms[1] - modes
        error = SIGMAS * 2 * math.sqrt(2) * s.w / s.a / s.n / math.sqrt(len(draws))
        bound = sum(terms) ** 2 + modes**2 + error
        rows.append((abs(float(np.mean(found)) / predicted - 1), bound, float(np.mean(found)), predicted, s))
    measured, bound, *_ = max(rows, key=lambda row: row[0] / row[1])
    apart = [max(rows, key=lambda row: row[i])[i] / min(rows, key=lambda row: row[i])[i] for i in (2, 3)]
    return judged(
        "squared-spectrum-sets-exposure",
        Kind.EQUALITY,
        groups[0],
        parametrisation="spectrum",
        measured=measured,
        bound=bound,
        slack=0.0,
        unit="relative error of the price",
        undecided=None if bound < 0.5 else "the bulk is as wide as the floor is high.",
        details={
            "ratio_of_prices": apart[0],
            "ratio_of_squared_spectra": apart[1],
            "tails": [{"price": f, "predicted": p, "effective_rank": s.tail.effective_rank} for _, _, f, p, s in rows],
        },
    )


# -- the path nu = a --------------------------------------------------------------------------------------------------


def floor_critical_path(draws: Sequence[Draw], *, shift: float | None = None) -> Verdict:
    """`floor-critical-path`: with nu = a the flow recovers of every head, at every time, the share `1 - exp(-t h)`.

    The flow is integrated on each design without noise, and read off along the head's empirical directions (variance
    h). It may differ from the law by what the bulk adds (`spectrum_law.head_recovery`, derived here) and by that
    sum's fluctuation over draws, of which the worst of all directions and times counts; a bound above `VACUOUS` decides
    nothing. `shift`: another nu, for a counter-instance.
    """
    s = draws[0].setting
    times = np.array([0.25, 0.5, 1.0]) / min(s.head)
    worst, by_head = (0.0, math.inf), []
    allowed = sigmas(len(draws) * len(s.head) * times.size)
    for d in draws:
        X, n = d.design.columns(), s.n
        h, Q = np.linalg.eigh(d.design.X_head.T @ d.design.X_head / n)
        for i in range(h.size):
            direction = Q[:, i]
            path = shifted_flow(
                X, d.design.X_head @ direction, nu=s.a if shift is None else shift, times=times.tolist(), rtol=RTOL
            )
            found = path.b[:, : h.size] @ direction
            law = -np.expm1(-times * h[i])
            bulk = np.abs(head_recovery(float(h[i]), s.w, times) - law)
            bound = bulk + allowed * recovery_error(float(h[i]), s.w, times, n=n)
            errors = np.abs(found - law)
            at = int(np.argmax(errors / bound))
            if errors[at] / bound[at] >= worst[0] / worst[1]:
                worst = (float(errors[at]), float(bound[at]))
            by_head.append((float(h[i]), found.tolist(), law.tolist(), float(bound.max())))
    widest = max(row[3] for row in by_head)
    return judged(
        "floor-critical-path",
        Kind.EQUALITY,
        draws,
        parametrisation="flow",
        measured=worst[0],
        bound=worst[1],
        slack=0.0,
        unit="share of the head",
        undecided=None if widest < VACUOUS else f"the bulk may add {widest:.2g} of a head: it is as wide as the head.",
        more=(
            Assumption(name="several head scales", holds=max(s.head) >= 2 * min(s.head), measured=float(len(s.head))),
        ),
        details={
            "nu": s.a if shift is None else shift,
            "times": times.tolist(),
            "heads": [{"variance": h, "recovered": f, "law": r} for h, f, r, _ in by_head[: len(s.head)]],
        },
    )
