"""The rows' span is all that a residual sees: the rest of a neuron's weights is Gaussian, and independent of it.

With an orthonormal basis `Q` (D, k) of the span, `R(v) = R(Q'v)`. So the Gibbs law of `v` is that of `w = Q'v` in
`R^k`, and weights `N(0, 1/(beta lam))` across it. Both integrals over spheres come from the Gaussian form

    int_{R^D} exp(-(|v|^2 - |R(v)|^2)/2) dv = 2^{D/2-1} Gamma(D/2) I_D,    I_D = int_{S^{D-1}} (1 - |R(u)|^2)^{-D/2} du

so that `I_D = I_k pi^{(D-k)/2} Gamma(k/2) / Gamma(D/2)`. A new input `x` that leaves the span by `q = |x - QQ'x|` sees
one such weight more. Given the direction `u` of `w`, with `t^2 = 1 - |R(u)|^2`, its output is an average over the plane
of `|w|` and that weight,

    E[a relu(v.x) | u] = -(R(u) / t) J(u.Q'x / t, q) / (beta lam),      J(p, q) = E[s relu(p s + q g)],

`s` chi of `k` degrees and `g` normal. In polar coordinates `s + i g = rho e^{i theta}` the density of `theta` is
`cos^{k-1}`, and `J = (k + 1) (p K(theta_0) + q cos^{k+1}(theta_0) / (k + 1)) / C_{k-1}`, where `tan theta_0 = -p/q`,
`C_j` is the integral of `cos^j` over `(-pi/2, pi/2)` and `K` that of `cos^{k+1}` over `(theta_0, pi/2)`. Derived here.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import betainc

# Rounding of an orthonormal basis of a few columns, relative to rows of length one.
_ROUNDING = 16 * float(np.finfo(float).eps)


def unit_rows(array: Float[np.ndarray, "N D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of length one, and each length as `size 2^exponent`, of shape (N, 1); whatever the size. Zero rows stay."""
    exponent = np.frexp(np.abs(array).max(axis=1, initial=0.0, keepdims=True))[1]
    # Two steps: the inverse of the smallest double is no double.
    scaled = np.ldexp(np.ldexp(array, -(exponent // 2)), -(exponent - exponent // 2))
    size = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(size > 0, size, 1.0), size, exponent


def span(rows: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "D k"] | None:
    """An orthonormal basis of what the rows span, at least one vector; `None` where that is the whole space.

    Directions that are left out hold no more than rounding of any row, relative to the row's own length.
    """
    n, D = rows.shape
    values, vectors = np.linalg.svd(unit_rows(rows)[0])[1:]
    k = max(int((values > _ROUNDING * math.sqrt(max(n, D))).sum()), 1)
    return None if k == D else np.ascontiguousarray(vectors[:k].T)


def complement(basis: Float[np.ndarray, "D k"]) -> Float[np.ndarray, "D D-k"]:
    """An orthonormal basis of the rest."""
    return np.linalg.svd(basis)[0][:, basis.shape[1] :]


def log_ratio(k: int, D: int) -> float:
    """`log(I_D / I_k)`."""
    return (D - k) / 2 * math.log(math.pi) + math.lgamma(k / 2) - math.lgamma(D / 2)


def joined(P: Float[np.ndarray, "T k k"], count: int, *carried: np.ndarray) -> list[np.ndarray]:
    """The cones over each cone's rays and one of either end of `count` more axes: simplicial ones that fill `R^D`.

    Arrays of `carried`, of shape (T, k, ...), are zero on the new axes.
    """
    arrays = [P, *carried]
    for _ in range(count):
        k = arrays[0].shape[2]
        wide = []
        for index, array in enumerate(arrays):
            new = np.zeros((len(array), array.shape[1] + 1, array.shape[2] + (index == 0), *array.shape[3:]))
            new[:, :-1, : array.shape[2]] = array
            other = new.copy()
            if index == 0:
                new[:, -1, k], other[:, -1, k] = 1.0, -1.0
            wide.append(np.concatenate([new, other]))
        arrays = wide
    return arrays


def plane_average(p: np.ndarray, q: np.ndarray, k: int) -> np.ndarray:
    """`J(p, q) = E[s relu(p s + q g)]`, `s` chi of `k` degrees and `g` normal; `q >= 0`."""
    length = np.hypot(p, q)
    safe = np.where(length > 0, length, 1.0)
    sine, cosine = -p / safe, q / safe
    rest = (1 - np.sign(sine) * betainc(0.5, k / 2 + 1, np.minimum(sine**2, 1.0))) / 2
    return (k + 1) * p * (_cosines(k + 1) / _cosines(k - 1)) * rest + q * cosine ** (k + 1) / _cosines(k - 1)


def _cosines(j: int) -> float:
    """The integral of `cos^j` over a half turn."""
    return math.sqrt(math.pi) * math.exp(math.lgamma((j + 1) / 2) - math.lgamma(j / 2 + 1))
