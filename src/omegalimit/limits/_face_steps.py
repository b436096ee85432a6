"""Steps from one optimum to others: along the null space of the active conditions, inside the cone and the other rows.

`z` are coordinates in a basis of the null space, and a step is feasible while `room + rows z >= 0` and, over matrices,
`matrix + image(z)` is positive semi-definite. Ties are rooms that may be zero. Derived here.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from ._face_charts import Chart

EPS = float(np.finfo(float).eps)
# Unknowns of the linear programs, beyond which neither ranges nor the way out of a corner are searched.
LARGEST_SEARCH = 200


class Linear(NamedTuple):
    rows: np.ndarray
    room: np.ndarray
    tied: np.ndarray
    noise: float


class Found(NamedTuple):
    steps: list[np.ndarray]  # each feasible at its full length, in the chart's unknowns
    dimension: int | None
    lowest: np.ndarray | None = None  # changes of the coordinates
    highest: np.ndarray | None = None


def _programme(cost, rows, room, bounds=(None, None)):
    """`argmin cost.z` over `room + rows z >= 0`; `None` when HiGHS finds none."""
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(
        cost, A_ub=-rows if len(rows) else None, b_ub=room if len(rows) else None, bounds=bounds, options=options
    )
    return result.x if result.status == 0 else None


def _unit_rows(rows, noise):
    sizes = np.linalg.norm(rows, axis=1)
    return rows[sizes > noise] / sizes[sizes > noise, None]


def _null(rows, n):
    """Basis of the null space of rows of norm one (LP accuracy: 1e-9 is zero)."""
    if not len(rows):
        return np.eye(n)
    _, s, vt = np.linalg.svd(rows)
    return vt[int((s > 1e-7).sum()) :].T


def by_programmes(chart: Chart, null: np.ndarray, linear: Linear, *, noise: float, ranges: bool) -> Found | str:
    """All is linear: the dimension by a step that leaves every tie that can be left, ranges by two programs each.

    A string says why there is no verdict; no steps: the point is pinned, see `_pinned`.
    """
    n = null.shape[1]
    ties = _unit_rows(linear.rows[linear.tied], linear.noise)
    inner, implied = np.zeros(n), ties[:0]
    if k := len(ties):
        # Largest sum of t with ties z >= t: at the optimum t is 1 where a tie can be left and 0 where it cannot.
        cost, rows = np.append(np.zeros(n), -np.ones(k)), np.hstack([ties, -np.eye(k)])
        best = _programme(cost, rows, np.zeros(k), [(-1e6, 1e6)] * n + [(0, 1)] * k)
        if best is None or (np.abs(best[n:] - 0.5) < 0.499).any():
            return "the linear program for the ties of the optimum is too close to call."
        inner, implied = best[:n], ties[best[n:] < 0.5]
    free = _null(implied, n)
    if free.shape[1] == 0:
        return _pinned(implied, linear, noise)
    one_each = scipy.sparse.issparse(chart.basis)
    targets = null[: chart.n_unknowns] if one_each else chart.basis @ null[: chart.n_unknowns]
    low, high, ends = _ranges(targets @ free, linear.rows @ free, linear.room, ranges)
    if one_each and low is not None:
        up, down = chart.basis.maximum(0), chart.basis.minimum(0)
        low, high = up @ low + down @ high, up @ high + down @ low
    # A corner from a program may violate a tie by its tolerance; a touch of the inner step takes it inside.
    inner = inner * (min(reach(linear, linear.rows, inner), 1.0) / 2)
    inside = [free @ ((1 - 1e-7) * end + 1e-7 * (free.T @ inner)) for end in ends]
    return Found([null @ z * _finite(reach(linear, linear.rows, z)) for z in inside], free.shape[1], low, high)


def _ranges(targets, rows, room, wanted):
    """Lowest and highest `targets y`, where wanted and not too many, and the `y` found, one far from 0 among them."""
    moving = np.flatnonzero(np.linalg.norm(targets, axis=1) > 1e-9)
    few = moving if wanted and len(moving) <= LARGEST_SEARCH else moving[:2]
    low, high, ends = np.zeros(len(targets)), np.zeros(len(targets)), []
    for i in few:
        for sign, store in ((1, low), (-1, high)):
            end = _programme(sign * targets[i], rows, room)
            if end is not None:
                store[i] = targets[i] @ end
                ends.append(end)
    complete = len(ends) == 2 * len(moving)
    farther = _programme(-targets.T @ np.where(high >= -low, 1.0, -1.0), rows, room)
    if farther is not None:
        ends.append(farther)
    return (low, high, ends) if complete else (None, None, ends)


def _finite(length):
    return length if np.isfinite(length) else 1.0


def reach(linear, rows, step):
    """The largest multiple of a step that keeps `room + multiple * rows step >= 0`; infinite where nothing stops it."""
    rates = rows @ step
    falling = rates < -linear.noise * float(np.linalg.norm(step))
    return float((linear.room[falling] / -rates[falling]).min(initial=np.inf))


def _pinned(ties, linear, noise) -> Found | str:
    """No step but zero satisfies `ties z >= 0`. Shown by `y >= 1` with `ties^T y = 0`: then `ties z = 0`, and `z = 0`.

    With `|ties^T y| <= delta` below the least singular value `sigma` that still holds: a unit `z` would have
    `sigma <= |ties z| <= sum_i (ties z)_i <= y.(ties z) <= delta`.
    """
    worst = float(linear.room[linear.tied].max(initial=0.0))
    y = linprog(np.ones(len(ties)), A_eq=ties.T, b_eq=np.zeros(ties.shape[1]), bounds=(1, 1e6)).x
    if y is not None and worst <= 100 * noise:
        sigma, delta = float(np.linalg.svd(ties, compute_uv=False)[-1]), float(np.linalg.norm(ties.T @ y))
        if delta < 1e-3 * sigma:
            return Found([], 0)
    return "ties without multipliers stop every step, but not beyond rounding."


def by_straight_steps(chart: Chart, null: np.ndarray, linear: Linear, *, tie: float) -> Found | str:
    """A few straight steps: both ways along the null space, or into the cone where the point lies on its boundary."""
    n = null.shape[1]
    ties, kernel = _unit_rows(linear.rows[linear.tied], linear.noise), None
    if chart.matrix is not None:
        e, q = np.linalg.eigh(chart.matrix)
        kernel = q[:, e * (len(e) if chart.normal is not None else 1) <= tie]
    curved = kernel is not None and kernel.shape[1] > 0
    directions, dimension = ([], None) if curved else (_free_directions(chart, null, linear, tie=tie), n)
    if len(ties) or curved:
        inner = _inner_direction(chart, null, ties, kernel) if n <= LARGEST_SEARCH else None
        dimension = None if inner is None else n
        directions += [] if inner is None else [inner]
        if not directions and n > LARGEST_SEARCH:
            return "the point lies on the boundary of a face too large to be searched."
        directions = directions or [*_along_boundary(chart, null, ties, kernel).T[:4]]
    steps = []
    for direction in directions:
        for z in (direction, -direction):
            step = null @ z
            length = min(reach(linear, linear.rows, z), _reach_in_cone(chart, step, curved))
            steps.append(_finite(length) * step)
    return Found(steps, dimension)


def _free_directions(chart, null, linear, *, tie):
    """The point itself first, for its own far side is the farthest; none moves a row, where there are such steps."""
    n = null.shape[1]
    calm = _null(_unit_rows(linear.rows, linear.noise), n)
    calm = calm if calm.shape[1] or linear.tied.any() else np.eye(n)
    own = np.zeros(n) if chart.x is None else calm @ (calm.T @ (null[: chart.n_unknowns].T @ chart.x))
    size = float(np.linalg.norm(own))
    return [*([own / size] if size > tie else []), *calm.T[:4]]


def _reach_in_cone(chart, step, singular):
    if chart.matrix is None or chart.image is None:
        return np.inf
    M, D = chart.matrix, chart.image(step[: chart.n_unknowns])
    if not singular:
        L = np.linalg.cholesky(M)
        lowest = np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, D).T))[0]
        return -1 / lowest if lowest < 0 else np.inf
    floor = min(float(np.linalg.eigvalsh(M)[0]), 0.0) - 4 * EPS

    def inside(t):
        return np.linalg.eigvalsh(M + t * D)[0] >= floor

    below, above = 0.0, 4.0
    for _ in range(50):
        middle = (below + above) / 2
        below, above = (middle, above) if inside(middle) else (below, middle)
    return below


def _inner_direction(chart, null, ties, kernel):
    """A step that leaves every tie and makes the kernel's block positive, by Kelley's cutting planes; or `None`."""
    n = null.shape[1]
    blocks = None
    if kernel is not None and kernel.shape[1]:
        blocks = np.stack([kernel.T @ chart.image(column[: chart.n_unknowns]) @ kernel for column in null.T])
    cuts = [*ties, *([] if blocks is None else np.einsum("nii->in", blocks))]
    for _ in range(30):
        rows = np.column_stack([np.array(cuts), -np.ones(len(cuts))])
        best = _programme(np.append(np.zeros(n), -1.0), rows, np.zeros(len(cuts)), [(-1, 1)] * n + [(0, 1)])
        if best is None or best[-1] <= 1e-6:
            return None
        if blocks is None:
            return best[:-1]
        e, q = np.linalg.eigh(np.einsum("n,nij->ij", best[:-1], blocks))
        if e[0] >= best[-1] / 2:
            return best[:-1]
        cuts.append(np.einsum("nij,i,j->n", blocks, q[:, 0], q[:, 0]))
    return None


def _along_boundary(chart, null, ties, kernel):
    """Basis of the steps that leave no tie and keep the kernel."""
    rows = [*ties]
    if kernel is not None and kernel.shape[1]:
        images = np.stack([(chart.image(column[: chart.n_unknowns]) @ kernel).reshape(-1) for column in null.T], axis=1)
        rows += [*_unit_rows(images, 1e-9)]
    return _null(np.array(rows).reshape(-1, null.shape[1]), null.shape[1])
