"""The power functions of a norm `|s|_q`, `q > 1`: gradient and curvature of `|s|_q^2 / 2`, safe for large powers.

    r = |s| / |s|_q <= 1,      f = grad |s|_q^2 / 2 = |s|_q sign(s) r^(q-1),
    hessian = diag(h) + (2 - q) a a^T,   h = (q - 1) r^(q-2),   a = sign(s) r^(q-1).

`f` is the point with `|f|_p = |s|_q` (`1/p + 1/q = 1`) and `<s, f> = |s|_q |f|_p`: the witness of a margin is the
gradient of the dual. For a Schatten norm `s` are the singular values, joined by divided differences of `f`.
Everything is a function of the ratios `r`, which neither overflow nor depend on the scale; a power of them may
underflow to zero, which is its value to rounding. At `s_i = 0`, `h_i` is zero for `q > 2` and infinite for `q < 2`.
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


def power_map(s: Float[np.ndarray, " d"], q: float) -> Float[np.ndarray, " d"]:
    """`f = |s|_q a`, the gradient of `|s|_q^2 / 2`."""
    return power_norm(s, q) * power_unit(s, q)


def power_slope(s: Float[np.ndarray, " d"], q: float) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """`(h, a)` of the Hessian `diag(h) + (2 - q) a a^T` of `|s|_q^2 / 2`, for `s != 0`."""
    r = np.abs(s) / power_norm(s, q)
    with np.errstate(divide="ignore"):  # 0^(q-2) for q < 2: an infinite slope is the answer
        return (q - 1) * r ** (q - 2), np.copysign(r ** (q - 1), s)
