"""`B(v) = -|v| - log(1 - |v|)`, its conjugate and its map, to the last digits of small values and of small room.

See `limits/barrier.py`.
"""

import numpy as np
from jaxtyping import Float

# Below this the logarithm and its first term are closer than the digits that their difference needs.
_SERIES = 0.5
_N_TERMS = 18


def log1p_less(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """`x - log(1 + x)`, not negative, shape of `x > -1`, to a few units of its own last place."""
    x = np.asarray(x, dtype=float)
    near = np.abs(x) <= _SERIES
    small = np.where(near, x, 0.0)
    # log(1 + x) = 2 artanh(r), r = x / (2 + x), and x - 2 r = r x.
    r = small / (2 + small)
    square = r * r
    series = np.zeros_like(r)
    for k in range(_N_TERMS, 0, -1):
        series = square * (1 / (2 * k + 1) + series)
    large = np.where(near, 0.0, x)
    return np.where(near, r * small - 2 * r * series, large - np.log1p(large))


def barrier_terms(v: Float[np.ndarray, " d"], room: Float[np.ndarray, " d"] | None = None) -> Float[np.ndarray, " d"]:
    """`B(v_j)`, infinite outside `|v_j| < 1`; `room`: `1 - |v_j|` where it is known to more digits than `v_j` tells."""
    room = 1 - np.abs(v) if room is None else room
    inside = room > 0
    safe = np.where(inside, room, 1.0)
    near = np.abs(v) <= _SERIES
    direct = (safe - 1) - np.log(safe)
    return np.where(inside, np.where(near, log1p_less(-np.abs(np.where(near, v, 0.0))), direct), np.inf)


def conjugate_terms(u: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """`B*(u_j) = |u_j| - log(1 + |u_j|)`."""
    return log1p_less(np.abs(u))


def smoothed_sign(u: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """`(B*)'(u_j) = u_j / (1 + |u_j|)`, the primal point of the dual `u`."""
    return u / (1 + np.abs(u))
