"""The integral of `(|u|^2 - |R(u)|^2)^{-D/2}` over a simplicial cone on which `R` is linear, in closed form, `D <= 3`.

Let the cone be spanned by `p_1..p_D`, let `R_k = R(p_k)` and `q_kl = p_k.p_l - R_k.R_l`, `rho_k = sqrt(q_kk)`. On
`v = sum_k alpha_k p_k` the quadratic form is `alpha'q alpha`, so that nothing but `q` and `|det P|` enters:

    D = 1:  |det P| / rho_1
    D = 2:  |det P| h(x) / (rho_1 rho_2),    x = q_12 / (rho_1 rho_2)
    D = 3:  2 |det P| h(x) / K,              x = N / K,   K^2 = 2 e_12 e_13 e_23,   e_kl = rho_k rho_l + q_kl,
            N = rho_1 rho_2 rho_3 + q_12 rho_3 + q_13 rho_2 + q_23 rho_1

with `h(x) = arccos(x) / sqrt(1 - x^2)`, continued beyond `x = 1` as `arcosh(x) / sqrt(x^2 - 1)`: analytic on `x > -1`.
For `D = 3` and a positive definite `q` this is the solid angle of the cone `q^{1/2} R_+^3` over `sqrt(det q)` (the
half-angle form of Van Oosterom and Strackee). The form need not be positive definite: `|R| < |u|` is asked for on the
cone alone, and the linear map that `R` continues there may well be longer than 1 elsewhere; then the cone is one of
hyperbolic geometry, and the analytic continuation is still the integral. The integral is finite if and only if `q` is
strictly copositive: `q_kk > 0`, `e_kl > 0`, and for `D = 3` also `N + K > 0` (Hadeler's criterion). Derived here.
"""

import itertools

import numpy as np
from jaxtyping import Bool, Float

# The power series of h about x = 1 is used for |1 - x| / 2 up to this; its last term is then below 1e-17.
_NEAR_ONE = 0.2
_N_TERMS = 26


def _series() -> Float[np.ndarray, " k"]:
    """Coefficients of `h` in powers of `(1 - x) / 2`: the hypergeometric function 2F1(1, 1; 3/2)."""
    k = np.arange(_N_TERMS - 1)
    return np.concatenate([[1.0], np.cumprod((k + 1) / (k + 1.5))])


_SERIES = np.polynomial.Polynomial(_series())


def angle_ratio(half: Float[np.ndarray, " T"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`h`, `h'` and `h''` at `x = 2 half - 1`, for `half = (1 + x) / 2 > 0`, which holds the digits near `x = -1`."""
    z = 1 - half
    near = np.abs(z) < _NEAR_ONE
    values = [np.empty_like(half) for _ in range(3)]
    for k, array in enumerate(values):
        array[near] = _SERIES.deriv(k)(z[near]) * (-0.5) ** k
    y, z = half[~near], z[~near]
    x, square = y - z, 4 * y * z
    root = np.sqrt(np.abs(square))
    angle = np.where(z > 0, np.arctan2(np.sqrt(np.abs(z)), np.sqrt(y)), np.arcsinh(np.sqrt(np.abs(z))))
    h = 2 * angle / root
    first = (x * h - 1) / square
    for array, value in zip(values, (h, first, (3 * x * first + h) / square), strict=True):
        array[~near] = value
    return values[0], values[1], values[2]


def finite(gram: Float[np.ndarray, "T D D"]) -> Bool[np.ndarray, " T"]:
    """Whether each form is strictly copositive, that is whether its integral is finite; `D <= 3`."""
    D = gram.shape[-1]
    diagonal = np.einsum("tkk->tk", gram)
    good = (diagonal > 0).all(axis=1)
    rho = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    for k, j in itertools.combinations(range(D), 2):
        good &= rho[:, k] * rho[:, j] + gram[:, k, j] > 0
    if D == 3:
        K, N = _half_angle(rho, gram)
        good &= N + K > 0
    return good


def _half_angle(rho, gram):
    e = [np.maximum(rho[:, k] * rho[:, j] + gram[:, k, j], 0.0) for k, j in ((0, 1), (0, 2), (1, 2))]
    K = np.sqrt(2 * e[0] * e[1] * e[2])
    N = rho.prod(axis=1) + gram[:, 0, 1] * rho[:, 2] + gram[:, 0, 2] * rho[:, 1] + gram[:, 1, 2] * rho[:, 0]
    return K, N


def gram_matrices(P: Float[np.ndarray, "T D D"], R: Float[np.ndarray, "T D m"]) -> Float[np.ndarray, "T D D"]:
    """`p_k.p_l - R_k.R_l`; the rays are the rows of each `P`."""
    return P @ P.transpose(0, 2, 1) - R @ R.transpose(0, 2, 1)


def log_volume(P: Float[np.ndarray, "T D D"]) -> Float[np.ndarray, " T"]:
    """`log |det P|`, minus infinity for a flat cone."""
    return np.linalg.slogdet(P)[1]


def cone_integrals(
    P: Float[np.ndarray, "T D D"], R: Float[np.ndarray, "T D m"], *, second: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The logarithm of each integral, its derivatives by `R` (T, D, m), and the second ones (T, D, m, D, m).

    The forms must be `finite`.
    """
    T, D, m = R.shape
    gram = gram_matrices(P, R)
    rho = np.sqrt(np.einsum("tkk->tk", gram))
    pairs = list(itertools.combinations(range(D), 2))
    q = np.stack([gram[:, k, j] for k, j in pairs], axis=1) if pairs else np.empty((T, 0))
    value, by_z, by_zz = _in_lengths(rho, q, pairs, second)
    value = value + log_volume(P)

    # z = (rho, q) as functions of R.
    z_R = np.zeros((T, D + len(pairs), D, m))
    for k in range(D):
        z_R[:, k, k] = -R[:, k] / rho[:, k, None]
    for a, (k, j) in enumerate(pairs):
        z_R[:, D + a, k], z_R[:, D + a, j] = -R[:, j], -R[:, k]
    flat = z_R.reshape(T, D + len(pairs), D * m)
    gradient = np.einsum("tz,tzr->tr", by_z, flat).reshape(T, D, m)
    if not second or by_zz is None:
        return value, gradient, None
    hessian = (flat.transpose(0, 2, 1) @ by_zz @ flat).reshape(T, D, m, D, m)
    for k in range(D):
        unit = R[:, k] / rho[:, k, None]
        curved = np.eye(m) + unit[:, :, None] * unit[:, None, :]
        hessian[:, k, :, k] -= (by_z[:, k] / rho[:, k])[:, None, None] * curved
    for a, (k, j) in enumerate(pairs):
        for c in range(m):
            hessian[:, k, c, j, c] -= by_z[:, D + a]
            hessian[:, j, c, k, c] -= by_z[:, D + a]
    return value, gradient, hessian


def _in_lengths(rho, q, pairs, second):
    """The logarithm (without the volume) and its derivatives by `z = (rho, q)`."""
    T, D = rho.shape
    size = D + len(pairs)
    log_k, k_z, k_zz = np.zeros(T), np.zeros((T, size)), np.zeros((T, size, size))
    if D < 3:
        log_k = np.log(rho).sum(axis=1)
        k_z[:, :D] = 1 / rho
        k_zz[:, range(D), range(D)] = -1 / rho**2
    else:
        log_k = np.full(T, 0.5 * np.log(2))
        for a, (k, j) in enumerate(pairs):
            e = rho[:, k] * rho[:, j] + q[:, a]
            e_z = np.zeros((T, size))
            e_z[:, k], e_z[:, j], e_z[:, D + a] = rho[:, j], rho[:, k], 1.0
            e_z /= e[:, None]
            log_k += 0.5 * np.log(e)
            k_z += 0.5 * e_z
            k_zz -= 0.5 * e_z[:, :, None] * e_z[:, None, :]
            k_zz[:, k, j] += 0.5 / e
            k_zz[:, j, k] += 0.5 / e
    if D == 1:
        return -log_k, -k_z, -k_zz
    # N, and N / K as x.
    N_z, N_zz = np.zeros((T, size)), np.zeros((T, size, size))
    if D == 2:
        N = q[:, 0]
        N_z[:, 2] = 1.0
    else:
        N = rho.prod(axis=1)
        for a, (k, j) in enumerate(pairs):
            i = 3 - k - j
            N = N + q[:, a] * rho[:, i]
            N_z[:, i] += q[:, a] + rho[:, k] * rho[:, j] * 1.0
            N_z[:, D + a] = rho[:, i]
            N_zz[:, i, D + a] = N_zz[:, D + a, i] = 1.0
            N_zz[:, k, j] = N_zz[:, j, k] = rho[:, i]
    K = np.exp(log_k)
    x = N / K
    h, h1, h2 = angle_ratio((K + N) / (2 * K))
    first, curvature = h1 / h, h2 / h - (h1 / h) ** 2
    n_z = N_z / K[:, None]
    x_z = n_z - x[:, None] * k_z
    value = np.log(h) - log_k + (np.log(2) if D == 3 else 0.0)
    by_z = first[:, None] * x_z - k_z
    if not second:
        return value, by_z, None
    cross = n_z[:, :, None] * k_z[:, None, :]
    x_zz = N_zz / K[:, None, None] - cross - cross.transpose(0, 2, 1)
    x_zz += x[:, None, None] * (k_z[:, :, None] * k_z[:, None, :] - k_zz)
    by_zz = curvature[:, None, None] * x_z[:, :, None] * x_z[:, None, :] + first[:, None, None] * x_zz - k_zz
    return value, by_z, by_zz
