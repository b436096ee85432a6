"""Negative-shifted descent on least squares, run step by step, and its flow, integrated: nothing is diagonalised.

    b <- b - eta ((S - nu I) b - g)            b' = -(S - nu I) b + g            S = X'X/n, g = X'y/n

The shift nu takes away what a long weak tail adds to every eigenvalue of S. For nu above the smallest nonzero
eigenvalue neither has a limit, and what is wanted is where they are at a finite time. Both run here on X and y
themselves, in the order in which a user's own loop would, so that they can bear witness to closed forms in the
spectrum, which they do not use. (Dynamics: stated by the authors of negative-shifted descent, arXiv 2607.22474.)
"""

import dataclasses
import itertools
import math
import time
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, check_same_length, to_float64
from ..trajectory import Cost


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShiftedPath:
    """Coefficients along a run.

    - `clock`: `"step"` for descent, `"t"` for the flow; `time`: what was asked for on that clock, shape (T,).
    - `b`: shape (T, d); NaN from the moment on at which the run left the range of doubles.
    - `left_range_at`: the first of `time` that was out of range, or `None`.
    """

    clock: str
    time: Float[np.ndarray, " T"]
    b: Float[np.ndarray, "T d"]
    left_range_at: float | None
    cost: Cost


def shifted_descent(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    *,
    nu: float,
    eta: float,
    steps: Sequence[int],
    start: Float[np.ndarray, " d"] | None = None,
) -> ShiftedPath:
    """The iteration from `start` (zero when not given), kept after each number of `steps` (ascending, from 0).

    - `nu`: the shift, any finite number (a negative one is a ridge penalty); `eta` > 0: the step size.

    Divergence is a value: see `ShiftedPath.left_range_at`. Raises `ValueError` for shapes that do not fit, entries
    that are not finite, or steps that are not ascending whole numbers.
    """
    X, y, b = _checked(X, y, nu, start)
    if not (math.isfinite(eta) and eta > 0):
        raise ValueError(f"`eta` must be positive and finite; got {eta!r}.")
    wanted = [int(k) for k in steps]
    if any(k != kept for k, kept in zip(steps, wanted, strict=True)) or not _ascending(wanted):
        raise ValueError(f"`steps` must be ascending whole numbers, from 0 on; got {list(steps)!r}.")
    began, n = time.process_time(), len(y)
    kept, done, left = np.full((len(wanted), X.shape[1]), np.nan), 0, None
    for i, k in enumerate(wanted):
        with np.errstate(over="ignore", invalid="ignore"):
            while done < k:
                b = b - eta * ((X @ b - y) @ X / n - nu * b)
                done += 1
        if not np.isfinite(b).all():
            left = float(k)
            break
        kept[i] = b
    cost = Cost(n_evaluations=done, n_steps=done, n_rejected=0, cpu_seconds=time.process_time() - began)
    return ShiftedPath(clock="step", time=np.array(wanted, dtype=float), b=kept, left_range_at=left, cost=cost)


def shifted_flow(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    *,
    nu: float,
    times: Sequence[float],
    start: Float[np.ndarray, " d"] | None = None,
    rtol: float = 1e-10,
) -> ShiftedPath:
    """The flow from `start` (zero when not given) at each of `times` (ascending, from 0), integrated to `rtol`.

    An explicit Runge-Kutta pair of order 8, in units of time and of b that are taken from the data: SciPy's choice of
    the first step has absolute thresholds. The absolute tolerance is `rtol` in these units. Raises as
    `shifted_descent` does.
    """
    from scipy.integrate import DOP853

    X, y, b = _checked(X, y, nu, start)
    wanted = [float(t) for t in times]
    if not all(math.isfinite(t) for t in wanted) or not _ascending(wanted):
        raise ValueError(f"`times` must be ascending and finite, from 0 on; got {list(times)!r}.")
    if not 1e-13 <= rtol <= 1e-2:
        raise ValueError(f"`rtol` must lie between 1e-13 and 1e-2; got {rtol!r}.")
    began, n = time.process_time(), len(y)

    def velocity(b: np.ndarray) -> np.ndarray:
        return (y - X @ b) @ X / n + nu * b

    evaluations, steps, left = 0, 0, None
    kept, at = np.full((len(wanted), X.shape[1]), np.nan), 0.0
    # The unit of b: the start, or how far the first unit of time, 1 / (tr S + |nu|), leads.
    first, speed = velocity(b), _largest(X) + abs(nu)
    size = max(float(np.abs(b).max(initial=0)), float(np.abs(first).max(initial=0)) / speed if speed > 0 else 0.0)
    z = b / size if size > 0 else b
    for i, t in enumerate(wanted):
        if t > at and size > 0:
            with np.errstate(over="ignore", invalid="ignore"):
                solver = DOP853(
                    lambda _, z: velocity(z * size) / size / speed, at * speed, z, t * speed, rtol=rtol, atol=rtol
                )
                while solver.status == "running":
                    solver.step()
                    steps += 1
                    if not np.isfinite(solver.y).all():
                        break
            evaluations += solver.nfev
            if solver.status != "finished" or not np.isfinite(solver.y).all():
                left = t
                break
            z = solver.y
        at, kept[i] = t, z * size if size > 0 else b
    cost = Cost(n_evaluations=evaluations, n_steps=steps, n_rejected=0, cpu_seconds=time.process_time() - began)
    return ShiftedPath(clock="t", time=np.array(wanted), b=kept, left_range_at=left, cost=cost)


def _largest(X: np.ndarray) -> float:
    """An upper bound on the largest eigenvalue of X'X/n: its trace."""
    return float(np.sum(X * X) / X.shape[0])


def _ascending(values: Sequence[float]) -> bool:
    return len(values) > 0 and values[0] >= 0 and all(a <= b for a, b in itertools.pairwise(values))


def _checked(X, y, nu, start):
    X, y = to_float64(X, "X")[0], to_float64(y, "y")[0]
    check_ndim(X, "X", axes="n, d")
    check_ndim(y, "y", axes="n")
    check_same_length(X, y, ("X", "y"), axes=(0, 0), what="rows")
    check_finite(X, "X")
    check_finite(y, "y")
    if not math.isfinite(nu):
        raise ValueError(f"`nu` must be finite; got {nu!r}.")
    if start is None:
        return X, y, np.zeros(X.shape[1])
    b = to_float64(start, "start")[0]
    check_ndim(b, "start", axes="d")
    check_same_length(X, b, ("X", "start"), axes=(1, 0), what="columns and coefficients")
    check_finite(b, "start")
    return X, y, b
