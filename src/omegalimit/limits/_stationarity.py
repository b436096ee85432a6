"""Multipliers for a point that came without: non-negative least squares of the stationarity condition."""

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from .constraints import AbstractConstraints
from .norms import AbstractNorm, FourierL1, GroupL1, Lp, Schatten

# How near to the least margin a row counts as active, and how small a share of the largest singular value (entry)
# counts as zero. The accuracy of the point is not known, so each is tried and the best bound wins.
_SHARES = (1e-8, 1e-6, 1e-4, 1e-2)


def stationary_multipliers(
    norm: AbstractNorm,
    constraints: AbstractConstraints,
    W: Float[np.ndarray, "..."],
    margins: Float[np.ndarray, " N"],
    signs: Float[np.ndarray, " N"] | None = None,
) -> list[Float[np.ndarray, " N"]]:
    """Candidate multipliers (not scaled, possibly all zero) for the unit point `W` with these margins.

    The condition is `G = sum_k a_k A_k` in the subdifferential of `|W|`, with `a_k = 0` off the nearly active rows and,
    with `signs` (a free intercept), `sum_k signs_k a_k = 0`. It fixes `G` where the norm is smooth at `W`, and its part
    along the support of `W` in sums over parts: l1 `sign W`, groups and Fourier `W_g / |W_g|`, nuclear with
    `W = U diag(s) V^T` the part `P_T(G) = U U^T G + G V V^T - U U^T G V V^T` is `U V^T`. For the largest entry (l-inf)
    and the largest singular value (spectral), `G` vanishes off the largest and has its signs (`U_1 H V_1^T` with a
    symmetric `H`). Each is a heuristic for the multipliers only: the bound that they give is valid whatever they are.
    """
    least = margins.min()
    found, seen = [], set()
    for share in _SHARES if least > 0 else (np.inf,):
        active = np.flatnonzero(margins <= least * (1 + share)) if least > 0 else np.arange(len(margins))
        few = constraints.take(active)
        key, F, t = _system(norm, few, W, margins[active], min(share, _SHARES[-1]))
        if (len(active), key) in seen:
            continue
        seen.add((len(active), key))
        if signs is not None:
            balance = np.zeros(F.shape[1])
            balance[: len(active)] = (np.abs(F).max(initial=0.0) or 1.0) * signs[active]
            F, t = np.vstack([F, balance]), np.append(t, 0.0)
        multipliers = np.zeros(len(margins))
        multipliers[active] = nonnegative(F, t)[: len(active)]
        found.append(multipliers)
    return found


def _system(norm, few, W, margins, small):
    """Dimension of the support (rank) of `W` that was assumed, and `F, t`: the condition is `F a = t`."""
    match norm:
        case Lp(p=1):
            support = np.abs(W) > small * np.abs(W).max()
            return _on_coordinates(few, support, np.sign(W[support]))
        case Lp(p=math.inf):
            return _on_largest(few, np.abs(W) < (1 - small) * np.abs(W).max(), np.sign(W))
        case GroupL1(groups=groups):
            sizes = np.sqrt(np.bincount(groups, W * W))
            support = (sizes > small * sizes.max())[groups]
            return _on_coordinates(few, support, (W / np.where(support, sizes[groups], 1))[support])
        case FourierL1(n_plain=n_plain):
            return _in_frequencies(few, W, n_plain, small)
        case Lp(p=p):
            return 0, _dense(few).T, _gradient(np.abs(W), p) * np.sign(W)
        case Schatten(p=2):
            return 0, *factored(few.gram(), margins)
        case Schatten(p=p):
            return _matrix_system(few, W, p, small)
    raise AssertionError(f"no stationarity condition for {norm}")


def _gradient(sizes, p):
    """`d |s|_p / d s` for sizes of norm one."""
    scaled = sizes / sizes.max()
    with np.errstate(under="ignore"):
        slopes = scaled ** (p - 1)
    return slopes / ((slopes * scaled).sum() * sizes.max())


def _dense(few):
    rows = few.rows
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def _on_coordinates(few, support, values):
    return int(support.sum()), _dense(few)[:, support].T, values


def _on_largest(few, inside, signs):
    """l-inf: `G_j = 0` inside, `signs_j G_j >= 0` elsewhere (by variables of its own), `sum_k a_k = 1`."""
    A = _dense(few) * np.where(signs == 0, 1.0, signs)
    largest = np.flatnonzero(~inside)
    spread = np.zeros((A.shape[1], len(largest)))
    spread[largest, np.arange(len(largest))] = -1
    F = np.block([[A.T, spread], [np.ones((1, len(A))), np.zeros((1, len(largest)))]])
    return int(inside.sum()), F, np.append(np.zeros(A.shape[1]), 1.0)


def _in_frequencies(few, W, n_plain, small):
    d = len(W) - n_plain

    def transform(A):
        return np.concatenate([np.fft.fft(A[..., :d], norm="ortho"), A[..., d:]], axis=-1)

    w = transform(W)
    sizes = np.abs(w)
    support = sizes > small * sizes.max()
    A, phase = transform(_dense(few))[:, support], w[support] / sizes[support]
    return int(support.sum()), np.vstack([A.real.T, A.imag.T]), np.concatenate([phase.real, phase.imag])


def _matrix_system(few, W, p, small):
    u, s, vt = np.linalg.svd(W, full_matrices=False)
    if 1 < p < math.inf:
        return 0, *factored(few.gram(), few.margins((u * _gradient(s, p)) @ vt))
    r = int((s > small * s[0]).sum()) if p == 1 else int((s >= (1 - small) * s[0]).sum())
    u, v = u[:, :r], vt[:r].T
    B = few.congruence(u, v)
    if p == 1:
        tangent = _products(few.congruence(u, None)) + _products(few.congruence(None, v)) - _products(B)
        return r, *factored(tangent, np.einsum("kii->k", B))
    # G in the span of U_1 H V_1^T with a symmetric H, of trace one: what is outside must vanish.
    outside = few.gram() - _products((B + B.transpose(0, 2, 1)) / 2)
    trace = np.einsum("kii->k", B)
    return r, *factored(outside + np.outer(trace, trace), trace)


def _products(B):
    """`<B_k, B_l>`."""
    flat = B.reshape(len(B), -1)
    return flat @ flat.T


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
