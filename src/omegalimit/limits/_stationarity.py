"""Multipliers for a point that came without: non-negative least squares of the stationarity condition."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

# How near to the least margin a row counts as active, and how small a share of the largest singular value (entry)
# counts as zero. The accuracy of the point is not known, so each is tried and the best bound wins.
_SHARES = (1e-8, 1e-6, 1e-4, 1e-2)


def stationary_multipliers(norm, data, W, margins) -> list[Float[np.ndarray, " N"]]:
    """Candidate multipliers (not scaled, possibly all zero) for the unit point `W` with these margins.

    The condition is `sum_k a_k A_k` in the subdifferential of `|W|`, with `a_k = 0` off the nearly active rows. l2 and
    Frobenius: equal to `W`; l1: equal to `sign W` on the support of `W`; nuclear: with `W = U diag(s) V^T`, the part in
    the tangent space `P_T(G) = U U^T G + G V V^T - U U^T G V V^T` is `U V^T`. Each is a heuristic for the multipliers
    only: the bound that they give is valid whatever they are.
    """
    least = margins.min()
    found, seen = [], set()
    for share in _SHARES if least > 0 else (np.inf,):
        active = np.flatnonzero(margins <= least * (1 + share)) if least > 0 else np.arange(len(margins))
        key, F, t = _system(norm, tuple(array[active] for array in data), W, margins[active], min(share, _SHARES[-1]))
        if (len(active), key) in seen:
            continue
        seen.add((len(active), key))
        multipliers = np.zeros(len(margins))
        multipliers[active] = nonnegative(F, t)
        found.append(multipliers)
    return found


def _system(norm, A, W, margins, small):
    """Dimension of the support (rank) of `W` that was assumed, and `F, t`: the condition is `F a = t`."""
    if norm == "l1":
        support = np.abs(W) > small * np.abs(W).max()
        return int(support.sum()), A[0][:, support].T, np.sign(W[support])
    if norm == "l2":
        return 0, A[0].T, W
    D, Z = A
    if norm == "frobenius":
        return 0, *factored((D @ D.T) * (Z @ Z.T), margins)
    u, s, vt = np.linalg.svd(W, full_matrices=False)
    r = int((s > small * s[0]).sum())
    c, a = D @ u[:, :r], Z @ vt[:r].T
    cc, aa = c @ c.T, a @ a.T
    return r, *factored(cc * (Z @ Z.T) + (D @ D.T) * aa - cc * aa, np.einsum("ki,ki->k", c, a))


def factored(K, b):
    """`F, t` with `|F a - t|^2 = a^T K a - 2 b^T a + const`, for a positive semi-definite `K`, also a singular one."""
    e, V = np.linalg.eigh(K)
    # Eigenvalues at rounding level would come in as their square roots: 1e-8, not 1e-16.
    kept = e > len(e) * np.finfo(float).eps * e[-1]
    root = np.sqrt(e[kept])
    return root[:, None] * V[:, kept].T, (V[:, kept].T @ b) / root


def nonnegative(F, t):
    """`argmin |F a - t|` over `a >= 0`; zero when the active-set method does not end."""
    if len(F) == 0:
        return np.zeros(F.shape[1])
    try:
        return nnls(F, t, maxiter=10 * F.shape[1] + 100)[0]
    except RuntimeError:
        return np.zeros(F.shape[1])
