"""Where training recovers the planted matrix, over (n, d, r): what is seen, beside what is guaranteed."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import xarray as xr
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...limits.quotient import effective_hessian, spectral_start
from ...limits.recovery import RecoveryGuarantee, normal_operator, orbit_distance, recovery_guarantee
from ._quadratic_statistics import Law

PAIRS = ((4, 1), (4, 2), (6, 1), (6, 2), (6, 3), (8, 2))
FEW = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0)  # n over d r - r (r-1)/2: where recovery begins
MANY = tuple(2.0**k for k in range(5, 15))  # and up to where the guarantee does
N_TRIALS = 8
MOST_ROWS = 200_000
RECOVERED = 1e-6  # relative error in Q
STUCK = 1e-10  # a trial whose loss falls by less than this share over a hundred steps stays where it is
MOST_STEPS = 6_000
FREE_STEP = 0.5  # in units of 1 / largest curvature at the planted matrix, where nothing is guaranteed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One planted matrix and one draw of rows."""

    U: Float[np.ndarray, "d r"]
    N: Float[np.ndarray, "m m"]
    start: Float[np.ndarray, "d r"]
    step: float
    guarantee: RecoveryGuarantee


def trial(law: Law, n: int, d: int, r: int, seed: tuple[int, ...], too_large: float) -> Trial:
    """Drawn from the stream `seed`: the planted factor, orthonormal columns, and the rows."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((d, r)))[0]
    X = law.draw(rng, n, d)
    guarantee = recovery_guarantee(X, U)
    start = spectral_start(X, np.square(X @ U).sum(axis=1), rank=r, trace="moment").factor
    # The start lies nearer than the guarantee knows: the step for its own distance is guaranteed, too, and larger.
    distance = orbit_distance(start, U)
    step = guarantee.step_from(distance) if guarantee.holds else FREE_STEP / effective_hessian(U, rows=X).largest
    if too_large > 1:
        step = too_large / effective_hessian(U, rows=X).largest
    return Trial(U=U, N=normal_operator(X), start=start, step=step, guarantee=guarantee)


def descend(trials: list[Trial]) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"], np.ndarray]:
    """Descent on all trials at once: relative errors in Q, distances from the orbit, and steps made.

    The gradient is `2 N(U U' - Q*) U`, with the operator N formed once: a step costs the same for any number of rows.
    """
    U = np.array([t.start for t in trials])
    target = np.array([t.U @ t.U.T for t in trials])
    operators = np.array([_unpacked(t.N, U.shape[1]) for t in trials])
    double_step = 2 * np.array([t.step for t in trials])[:, None, None]
    size = np.linalg.norm(target, axis=(1, 2))
    steps = np.full(len(trials), MOST_STEPS)
    loss = np.full(len(trials), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(MOST_STEPS):
            D = U @ U.transpose(0, 2, 1) - target
            G = (operators @ D.reshape(len(trials), -1, 1)).reshape(D.shape)
            if k % 100 == 0:
                now = (D * G).sum(axis=(1, 2))
                error = np.linalg.norm(D, axis=(1, 2)) / size
                on = (error > RECOVERED / 10) & (now < (1 - STUCK) * loss)  # false for what is not finite
                steps[~on & (steps == MOST_STEPS)] = k
                double_step[~on] = 0.0
                loss = now
                if not on.any():
                    break
            U = U - double_step * (G @ U)
        error = np.linalg.norm(U @ U.transpose(0, 2, 1) - target, axis=(1, 2)) / size
    distance = np.array(
        [orbit_distance(u, t.U) if np.isfinite(u).all() else math.inf for u, t in zip(U, trials, strict=True)]
    )
    return np.where(np.isfinite(error), error, np.inf), distance, steps


def _unpacked(N: Float[np.ndarray, "m m"], d: int) -> Float[np.ndarray, "dd dd"]:
    """The operator on all d x d matrices as a matrix: symmetric ones are mapped as before, the others not at all."""
    i, j = np.triu_indices(d)
    basis = np.zeros((len(i), d, d))
    basis[np.arange(len(i)), i, j] += np.where(i == j, 1.0, math.sqrt(0.5))
    basis[np.arange(len(i)), j, i] = basis[np.arange(len(i)), i, j]
    B = basis.reshape(len(i), -1)
    return B.T @ N @ B


def recovery(
    law: Law,
    *,
    seed: int,
    pairs: tuple[tuple[int, int], ...] = PAIRS,
    rank_deficient: bool = False,
    too_large: float = 1.0,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Verdict, xr.Dataset]:
    """Every trial within the guarantee is recovered, at the guaranteed rate; and where recovery begins without it.

    `rank_deficient` (the last column of the start is zero), `too_large` (a step of so many units of 1 / largest
    curvature): for counter-instances.
    """
    ratios = (*FEW, *MANY)
    seen, guaranteed = np.full((2, len(pairs), len(ratios)), np.nan)
    numbers = np.zeros((len(pairs), len(ratios)), dtype=int)
    missed, n_guaranteed, slow, outside = 0, 0, 0, 0
    for p, (d, r) in enumerate(pairs):
        for q, ratio in enumerate(ratios):
            progress((p + q / len(ratios)) / len(pairs))
            n = numbers[p, q] = max(1, round(ratio * (d * r - r * (r - 1) // 2)))
            if n > MOST_ROWS or (guaranteed[p, :q] == 1).any():  # the guarantee has begun: no more is learnt
                continue
            count = N_TRIALS if ratio <= FEW[-1] else N_TRIALS // 2
            trials = [trial(law, int(n), d, r, (seed, 47, p, q, k), too_large) for k in range(count)]
            if rank_deficient:
                trials = [dataclasses.replace(t, start=_without_last(t.start)) for t in trials]
            error, distance, steps = descend(trials)
            recovered = error <= RECOVERED
            within = np.array([t.guarantee.holds for t in trials])
            seen[p, q], guaranteed[p, q] = recovered.mean(), within.mean()
            n_guaranteed += int(within.sum())
            missed += int((within & ~recovered).sum())
            for k in np.flatnonzero(within):
                g = trials[k].guarantee
                first = orbit_distance(trials[k].start, trials[k].U)
                outside += first > g.start_distance
                allowed = first**2 * (1 - trials[k].step * g.rate_from(first)) ** int(steps[k])
                slow += distance[k] ** 2 > allowed * (1 + 1e-6)
    table = xr.Dataset(
        {
            "recovered": (("pair", "ratio_index"), seen),
            "guaranteed": (("pair", "ratio_index"), guaranteed),
            "n": (("pair", "ratio_index"), numbers),
        },
        coords={
            "pair": [f"d = {d}, r = {r}" for d, r in pairs],
            "ratio": ("ratio_index", np.array(ratios)),
            "d": ("pair", [d for d, _ in pairs]),
            "r": ("pair", [r for _, r in pairs]),
        },
        attrs={"law": law.name},
    )
    begins = [(_first(seen[p], numbers[p]), _first(guaranteed[p], numbers[p])) for p in range(len(pairs))]
    table["begins"] = (("pair", "which"), np.array(begins))
    factors = [g / s for s, g in begins if math.isfinite(g / s)]
    return Verdict(
        claim="recovery",
        parametrisation="gaussian",
        loss="squared",
        kind=Kind.COUNT,
        measured=float(missed),
        bound=0.0,
        slack=0.0,
        unit="guaranteed trials that were not recovered",
        conditions=(
            Assumption(name="the guaranteed rate is met", holds=slow == 0, measured=float(slow)),
            Assumption(
                name="the spectral start is within its bound",
                holds=outside == 0,
                measured=float(outside),
            ),
        ),
        assumptions=(Assumption(name="normal rows", holds=law.name == "normal", measured=law.name),),
        undecided=None if n_guaranteed else "the guarantee holds in none of the trials.",
        details={
            "guaranteed trials": n_guaranteed,
            "pairs": [list(pair) for pair in pairs],
            "n where half are recovered": [s for s, _ in begins],
            "n where half are guaranteed": [g for _, g in begins],
            "conservative by": factors,
        },
    ), table


def _first(share: Float[np.ndarray, " q"], n: np.ndarray) -> float:
    """The number of rows from which on at least half of the trials succeed; infinite when they do not."""
    known = np.isfinite(share)
    low = np.flatnonzero(known & (share < 0.5))
    after = np.flatnonzero(known & (np.arange(share.size) > (low[-1] if low.size else -1)))
    return float(n[after[0]]) if after.size else math.inf


def _without_last(U: Float[np.ndarray, "d r"]) -> Float[np.ndarray, "d r"]:
    U = U.copy()
    U[:, -1] = 0.0
    return U
