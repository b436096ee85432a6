"""Negative-shifted descent on least squares, run step by step, and its flow, integrated: nothing is diagonalised.

    b <- b - eta ((S - nu I) b - g)            b' = -(S - nu I) b + g            S = X'X/n, g = X'y/n

The shift nu takes away what a long weak tail adds to every eigenvalue of S. For nu above the smallest nonzero
eigenvalue neither has a limit, and what is wanted is where they are at a finite time. Both run here on X and y
themselves, in the order in which a user's own loop would, so that they can bear witness to closed forms in the
spectrum, which they do not use. (Dynamics: stated by the authors of negative-shifted descent, arXiv 2607.22474.)
"""

import dataclasses
import math
import time
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import check_count, check_finite, check_ndim, check_same_length, shape_text, to_float64
from .._threads import on_one_blas_thread
from ..trajectory import Cost

_EPS = float(np.finfo(float).eps)
_LOOK = 200  # steps of the integrator, or of descent, between two looks at whether a run has settled


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShiftedPath:
    """Coefficients along a run.

    - `clock`: `"step"` for descent, `"t"` for the flow; `time`: what was asked for on that clock, shape (T,).
    - `b`: shape (T, d); NaN from the moment on at which the run left the range of doubles.
    - `left_range_at`: the first of `time` that was out of range, or `None`.
    - `ending`: `"arrived"` at the last of `time`; `"settled"` before it, where nothing moves any more, and `b` is that
      point from then on; `"left range"`; or `"step limit"`: `b` is NaN at what was not reached within it.
    """

    clock: str
    time: Float[np.ndarray, " T"]
    b: Float[np.ndarray, "T d"]
    left_range_at: float | None
    cost: Cost
    ending: str


@on_one_blas_thread
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

    A point that a step leaves as it is, to the last digit, ends the run: it is settled. Divergence is a value: see
    `ShiftedPath.left_range_at`. Raises `ValueError` for shapes that do not fit, no rows or columns, entries that are
    not finite, or steps that are not ascending whole numbers; `TypeError` for what is no number.
    """
    X, y, nu, b = _checked(X, y, nu, start)
    eta = _number(eta, "eta")
    if not (math.isfinite(eta) and eta > 0):
        raise ValueError(f"`eta` must be positive and finite; got {eta!r}.")
    asked = _list(steps, "steps")
    if not np.array_equal(asked, np.floor(asked)) or not np.isfinite(asked).all() or not _ascending(asked):
        raise ValueError(f"`steps` must be ascending whole numbers, from 0 on; got {np.asarray(steps).tolist()!r}.")
    wanted = [int(k) for k in asked]
    began, n = time.process_time(), len(y)
    kept, done, left, settled = np.full((len(wanted), X.shape[1]), np.nan), 0, None, False
    for i, k in enumerate(wanted):
        with np.errstate(over="ignore", invalid="ignore"):
            while done < k and not settled:
                before, b = b, b - eta * ((X @ b - y) @ X / n - nu * b)
                done += 1
                settled = done % _LOOK == 0 and np.array_equal(before, b)
        if not np.isfinite(b).all():
            left = float(k)
            break
        kept[i] = b
    cost = Cost(n_evaluations=done, n_steps=done, n_rejected=0, cpu_seconds=time.process_time() - began)
    return ShiftedPath(
        clock="step",
        time=asked,
        b=kept,
        left_range_at=left,
        cost=cost,
        ending=_ending(left, settled, wanted[-1] > done),
    )


@on_one_blas_thread
def shifted_flow(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    *,
    nu: float,
    times: Sequence[float],
    start: Float[np.ndarray, " d"] | None = None,
    rtol: float = 1e-10,
    most_steps: int = 100_000,
) -> ShiftedPath:
    """The flow from `start` (zero when not given) at each of `times` (ascending, from 0), integrated to `rtol`.

    - `most_steps`: of the integrator; an explicit one takes some `m_max t / 6` of them to the time t, m_max the largest
      eigenvalue of S. It stops before where the flow has *settled*: nu <= 0, so that distances never grow, and the
      state is within `10 rtol` of a point at which the velocity is zero to rounding (found by conjugate gradients).

    An explicit Runge-Kutta pair of order 8, in units of time and of b that are taken from the data: SciPy's choice of
    the first step has absolute thresholds. The absolute tolerance is `rtol` in these units. How the run ended is in
    `ShiftedPath.ending`. Raises as `shifted_descent` does.
    """
    from scipy.integrate import DOP853

    X, y, nu, b = _checked(X, y, nu, start)
    asked = _list(times, "times")
    if not np.isfinite(asked).all() or not _ascending(asked):
        raise ValueError(f"`times` must be ascending and finite, from 0 on; got {asked.tolist()!r}.")
    wanted, rtol = asked.tolist(), _number(rtol, "rtol")
    check_count(most_steps, "most_steps", least=1)
    if not 1e-13 <= rtol <= 1e-2:
        raise ValueError(f"`rtol` must lie between 1e-13 and 1e-2; got {rtol!r}.")
    began, n = time.process_time(), len(y)

    def velocity(b: np.ndarray) -> np.ndarray:
        return (y - X @ b) @ X / n + nu * b

    evaluations, steps, left, settled, limited = 0, 0, None, False, False
    kept, at = np.full((len(wanted), X.shape[1]), np.nan), 0.0
    # The unit of b: the start, or how far the first unit of time, 1 / (tr S + |nu|), leads.
    first, speed = velocity(b), _largest(X) + abs(nu)
    size = max(float(np.abs(b).max(initial=0)), float(np.abs(first).max(initial=0)) / speed if speed > 0 else 0.0)
    z = b / size if size > 0 else b
    for i, t in enumerate(wanted):
        if t > at and size > 0 and not settled:
            with np.errstate(over="ignore", invalid="ignore"):
                solver = DOP853(
                    lambda _, z: velocity(z * size) / size / speed, at * speed, z, t * speed, rtol=rtol, atol=rtol
                )
                while solver.status == "running":
                    if limited := steps >= most_steps:
                        break
                    solver.step()
                    steps += 1
                    if not np.isfinite(solver.y).all():
                        break
                    if nu <= 0 and steps % _LOOK == 0:
                        rest, products = _rest(X, y, nu, solver.y * size)
                        evaluations += products
                        if rest is not None and _close(solver.y * size, rest, rtol):
                            settled, solver.y = True, rest / size
                            break
            evaluations += solver.nfev
            if limited:
                break
            if (solver.status != "finished" and not settled) or not np.isfinite(solver.y).all():
                left = t
                break
            z = solver.y
        at, kept[i] = t, z * size if size > 0 else b
    cost = Cost(n_evaluations=evaluations, n_steps=steps, n_rejected=0, cpu_seconds=time.process_time() - began)
    ending = "step limit" if limited else _ending(left, settled, settled)
    return ShiftedPath(clock="t", time=asked, b=kept, left_range_at=left, cost=cost, ending=ending)


def _ending(left: float | None, settled: bool, before_the_end: bool) -> str:
    if left is not None:
        return "left range"
    return "settled" if settled and before_the_end else "arrived"


def _rest(X: np.ndarray, y: np.ndarray, nu: float, b: np.ndarray) -> tuple[np.ndarray | None, int]:
    """A point near b at which the velocity is zero to rounding, by conjugate gradients, and the products it took.

    `None` where they do not get there within 2 d + 20 steps. They add to b what lies in the span of velocities, as the
    flow does, so that directions in which nothing moves stay as they are.
    """
    (n, d), x_unit = X.shape, float(np.abs(X).max()) or 1.0
    y_unit = max(float(np.abs(y).max()), float(np.abs(b).max()) * x_unit)
    if y_unit == 0:
        return b, 0
    # At scale one no square leaves the range of doubles.
    X, y, b, nu = X / x_unit, y / y_unit, b / y_unit * x_unit, nu / x_unit / x_unit
    norm_X, norm_y = float(np.linalg.norm(X)), float(np.linalg.norm(y))

    def velocity(b: np.ndarray) -> np.ndarray:
        return (y - X @ b) @ X / n + nu * b

    def rounding(b: np.ndarray) -> float:
        """Of the two products of a velocity."""
        size = float(np.linalg.norm(b))
        return _EPS * (norm_X * (norm_y + norm_X * size) / n + abs(nu) * size)

    r, used = velocity(b), 1
    p, square = r, float(r @ r)
    for _ in range(2 * d + 20):
        if math.sqrt(square) <= 4 * rounding(b):  # as the recursion has it; the velocity itself decides
            at_rest = float(np.linalg.norm(velocity(b))) <= (n + d) * rounding(b)
            return (b * y_unit / x_unit if at_rest else None), used + 1
        q = (X @ p) @ X / n - nu * p
        used += 1
        if not (curvature := float(p @ q)) > 0:
            return None, used
        b = b + square / curvature * p
        r = r - square / curvature * q
        before, square = square, float(r @ r)
        p = r + square / before * p
    return None, used


def _close(b: np.ndarray, other: np.ndarray, rtol: float) -> bool:
    return bool(np.linalg.norm(b - other) <= 10 * rtol * np.linalg.norm(b))


def _largest(X: np.ndarray) -> float:
    """An upper bound on the largest eigenvalue of X'X/n: its trace."""
    return float(np.sum(X * X) / X.shape[0])


def _ascending(values: np.ndarray) -> bool:
    return values.size > 0 and bool(values[0] >= 0) and bool(np.all(np.diff(values) >= 0))


def _list(values: Sequence[float], name: str) -> Float[np.ndarray, " T"]:
    array = to_float64(values, name)[0]
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be a list of numbers; got shape {shape_text(array.shape)}.")
    return array


def _number(value: object, name: str) -> float:
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    return float(array)


def _checked(X, y, nu, start):
    X, y = to_float64(X, "X")[0], to_float64(y, "y")[0]
    check_ndim(X, "X", axes="n, d")
    check_ndim(y, "y", axes="n")
    check_same_length(X, y, ("X", "y"), axes=(0, 0), what="rows")
    for axis, what in ((0, "row"), (1, "column")):
        if not X.shape[axis]:
            raise ValueError(f"`X` has shape {shape_text(X.shape)}: there is no {what}; pass at least one.")
    check_finite(X, "X")
    check_finite(y, "y")
    nu = _number(nu, "nu")
    if not math.isfinite(nu):
        raise ValueError(f"`nu` must be finite; got {nu!r}.")
    if start is None:
        return X, y, nu, np.zeros(X.shape[1])
    b = to_float64(start, "start")[0]
    check_ndim(b, "start", axes="d")
    check_same_length(X, b, ("X", "start"), axes=(1, 0), what="columns and coefficients")
    check_finite(b, "start")
    return X, y, nu, b
