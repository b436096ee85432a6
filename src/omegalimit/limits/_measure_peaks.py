"""Where `|R|`, `R(u) = sum_i c_i relu(u.x_i)` in `R^m`, is large on the sphere, in dimensions without cones.

On a cell of the hyperplanes `x_i.u = 0`, `R(u) = G'u` with the cell's own `G` (k, m). Climbing from many directions
finds good cells: a step goes towards the maximiser of the linear map, and is kept where `|R|` rises. On a cell, `u` and
`w = R/|R|` then take turns, `u` the projection of `G w` on the cell's cone: `|R|` rises each time, and with one output
the first is the maximiser. Where the cells are few they are enumerated, and each is a start; `|R| <= |G|` leaves few
cells in which a bound could be exceeded. Derived here from standard methods.
"""

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from .arrangement import Arrangement, cover_count

MOST_PEAKS = 48
_MOST_CELLS = 4096
# Rows so close to a smaller space have cells so thin that exact arithmetic takes long.
_THIN = 1e-6
_N_STARTS = 2048
_N_CLIMBS = 20
_SHARES = (1.0, 0.3, 0.03, 0.003)
# Around each of the best peaks, the sizes of jumps from which the climb begins again, and their number.
_N_JUMPED, _JUMPS, _N_JUMPS = 8, (0.3, 0.1, 0.03, 0.01, 1e-3), 16
_N_TURNS = 20


def unit(v):
    """Of length one along the last axis."""
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def size_of(rows, c, u) -> Float[np.ndarray, " K"]:
    """`|R|`."""
    return np.linalg.norm(np.maximum(u @ rows.T, 0) @ c, axis=1)


def maps_of(rows, c, signs) -> Float[np.ndarray, "K k m"]:
    """`G` of the cells with these signs (K, n)."""
    return np.einsum("kn,nm,nd->kdm", (signs > 0).astype(float), c, rows, optimize=True)


def enumerated(rows) -> tuple[np.ndarray, np.ndarray] | None:
    """Signs and inner points of all cells; `None` where they are many, or rows in special position, which is slow."""
    if cover_count(*rows.shape) > _MOST_CELLS:
        return None
    values = np.linalg.svd(unit(rows + (~rows.any(axis=1))[:, None]), compute_uv=False)
    if values[-1] < _THIN * values[0]:
        return None
    arrangement = Arrangement(rows)
    if arrangement.general_position is not True:
        return None
    cells = arrangement.cells()
    return cells.signs, cells.points


def peaks(rows, c, rng, cells=None) -> tuple[np.ndarray, np.ndarray]:
    """Directions with a large `|R|`, one a cell, the largest first, and their cells' linear maps (K, k, m)."""
    k = rows.shape[1]
    units = unit(rows[np.any(rows != 0, axis=1)])
    starts = [rng.standard_normal((_N_STARTS, k)), units, -units]
    if cells is not None:
        starts.append(cells[1])
    u = _best_of_cells(rows, c, _climbed(rows, c, unit(np.concatenate(starts)), _N_CLIMBS))
    u = _polished(rows, c, u, *_cells_at(rows, c, u))
    top = u[np.argsort(-size_of(rows, c, u))][:_N_JUMPED]
    jumps = np.concatenate(
        [unit(top[:, None] + size * rng.standard_normal((len(top), _N_JUMPS, k))).reshape(-1, k) for size in _JUMPS]
    )
    again = _best_of_cells(rows, c, _climbed(rows, c, jumps, _N_CLIMBS))
    again = _polished(rows, c, again, *_cells_at(rows, c, again))
    found = [u, again]
    if cells is not None:
        # Cells whose map is longer than what was found could hold more.
        G = maps_of(rows, c, cells[0])
        norms = np.linalg.norm(G, ord=2, axis=(1, 2))
        open_ = np.argsort(-norms)[: 4 * MOST_PEAKS]
        open_ = open_[norms[open_] > 0.5 * norms[open_[0]]]
        found.append(_polished(rows, c, cells[1][open_], cells[0][open_], G[open_]))
    u = np.concatenate(found)
    u = u[np.argsort(-size_of(rows, c, u))][: 2 * MOST_PEAKS]
    # One of each place: a peak on a face belongs to several cells.
    kept = np.ones(len(u), dtype=bool)
    for i in range(len(u)):
        kept[i] = not (kept[:i] & (np.linalg.norm(u[:i] - u[i], axis=1) < 1e-7)).any()
    u = u[kept][:MOST_PEAKS]
    return u, maps_of(rows, c, u @ rows.T)


def below(rows, c, cells, bound: float) -> bool:
    """Whether `|R| < bound` is proved on every cell, up to rounding: `|G|` is, or, with one output, its largest."""
    G = maps_of(rows, c, cells[0])
    open_ = np.flatnonzero(np.linalg.norm(G, ord=2, axis=(1, 2)) >= bound)
    if len(open_) and c.shape[1] > 1:
        return False
    for i in open_:
        sides = cells[0][i][:, None] * rows
        for sign in (1.0, -1.0):
            target = sign * G[i, :, 0]
            # The distance of the target to the polar cone is the largest value on the cell.
            if nnls(sides.T, -target)[1] >= bound:
                return False
    return True


def _climbed(rows, c, u, count):
    size = size_of(rows, c, u)
    for _ in range(count):
        maps = maps_of(rows, c, u @ rows.T)
        aim = np.einsum("kdm,km->kd", maps, np.einsum("kdm,kd->km", maps, u))
        length = np.linalg.norm(aim, axis=1, keepdims=True)
        aim = np.where(length > 0, aim / np.where(length > 0, length, 1), u)
        risen = False
        for share in _SHARES:
            trial = unit(share * aim + (1 - share) * u)
            trial_size = size_of(rows, c, trial)
            better = trial_size > size
            risen |= bool((trial_size > size * (1 + 1e-6)).any())
            u, size = np.where(better[:, None], trial, u), np.where(better, trial_size, size)
        if not risen:
            break
    return u


def _best_of_cells(rows, c, u):
    u = u[np.argsort(-size_of(rows, c, u))]
    _, first = np.unique(u @ rows.T > 0, axis=0, return_index=True)
    return u[np.sort(first)][:MOST_PEAKS]


def _cells_at(rows, c, u):
    signs = np.where(u @ rows.T > 0, 1, -1)
    return signs, maps_of(rows, c, signs)


def _polished(rows, c, u, signs, maps):
    """Each point moved to where `|R|` is largest near it in its closed cell."""
    return np.array([_on_cell(rows, c, *each) for each in zip(u, signs, maps, strict=True)]).reshape(-1, rows.shape[1])


def _on_cell(rows, c, u, signs, G):
    sides = signs[:, None] * rows
    size = float(np.linalg.norm(G.T @ u))
    # With one output both signs have a maximum; otherwise every main axis of the map is a start.
    starts = [G.T @ u]
    if G.shape[1] == 1:
        starts.append(-starts[0])
    best = u
    for value in starts:
        for _ in range(_N_TURNS if G.shape[1] > 1 else 1):
            target = G @ value
            if not target.any():
                break
            try:
                weights, length = nnls(sides.T, -target)
            except RuntimeError:  # too many of its iterations: the point stays
                break
            if not length > 1e-12 * np.linalg.norm(target):
                break
            point = unit(target + sides.T @ weights)
            value = G.T @ point
            risen = float(np.linalg.norm(value))
            if risen <= size * (1 + 1e-12):
                break
            best, size = point, risen
    # Rounding may put a point of a face on its other side, where `R` is as large.
    return best if size_of(rows, c, best[None])[0] >= size_of(rows, c, u[None])[0] else u
