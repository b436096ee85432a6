"""The power norm `|s|_q`, `q > 1`, and its gradient, safe for large powers.

    r = |s| / |s|_q <= 1,      grad |s|_q = sign(s) r^(q-1),

which has dual norm one: the point at which a combination `s` attains its norm. Everything is a function of the ratios
`r`, which neither overflow nor depend on the scale; a power of them may underflow to zero, its value to rounding.
"""

import numpy as np
from jaxtyping import Float


def log_norm(s: Float[np.ndarray, " d"], q: float) -> float:
    """`log |s|_q` of a vector that is not zero."""
    r = np.abs(s)
    top = r.max()
    return float(np.log(top) + np.log(((r / top) ** q).sum()) / q)


def power_norm(s: Float[np.ndarray, " d"], q: float) -> float:
    """`|s|_q`."""
    r = np.abs(s)
    top = r.max()
    return 0.0 if top == 0 else float(top * ((r / top) ** q).sum() ** (1 / q))


def power_unit(s: Float[np.ndarray, " d"], q: float) -> Float[np.ndarray, " d"]:
    """`a = sign(s) (|s| / |s|_q)^(q-1)`, the gradient of `|s|_q`: of unit dual norm; zero for `s = 0`."""
    size = power_norm(s, q)
    return np.zeros_like(s) if size == 0 else np.copysign((np.abs(s) / size) ** (q - 1), s)
