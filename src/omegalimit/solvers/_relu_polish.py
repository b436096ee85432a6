"""The optimality conditions of finitely many neurons, each on its face, by Newton's method.

Neuron `k` has the weights `B_k z_k` in the span of its face (orthonormal columns `B_k`), outgoing weights `c_k`, and is
linear in them: `f = sum_k Phi_k B_k z_k c_k'` with the rows `Phi_k` that its pattern turns on. With `nu = (f - y) /
lam` as an unknown of its own nothing cancels as `lam` goes to zero:

    lam nu + y - f = 0,    z_k + B_k'Phi_k'nu c_k / n = 0,    c_k + nu'Phi_k B_k z_k / n = 0

are the conditions of balanced weight decay `(lam/2)(|z|^2 + |c|^2)`, so `|z_k| = |c_k|`, and `|R| = lam` on the
directions.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

_STEPS = 30
_EPS = float(np.finfo(float).eps)


class Neurons(NamedTuple):
    """Unit directions `(K, D)`, masses `(K, m)`, patterns `(K, n)`, and `nu`, `(n, m)`."""

    directions: Float[np.ndarray, "K D"]
    masses: Float[np.ndarray, "K m"]
    patterns: Int8[np.ndarray, "K n"]
    nu: Float[np.ndarray, "n m"]


def polish(rows: Float[np.ndarray, "n D"], y: Float[np.ndarray, "n m"], lam: float, start: Neurons) -> Neurons:
    """The neurons that satisfy the conditions near `start`, or as near as it came."""
    (n, D), m = rows.shape, y.shape[1]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    bases = [_span(units[pattern == 0], D) for pattern in start.patterns]
    designs = [((p > 0)[:, None] * rows) @ B for p, B in zip(start.patterns, bases, strict=True)]
    sizes = [B.shape[1] for B in bases]
    masses = np.linalg.norm(start.masses, axis=1)
    z = [B.T @ u * np.sqrt(s) for B, u, s in zip(bases, start.directions, masses, strict=True)]
    c = [a / np.sqrt(s) for a, s in zip(start.masses, masses, strict=True)]
    nu = start.nu
    best, least = None, np.inf
    ends = n * m + np.cumsum([0] + [k + m for k in sizes])
    for _ in range(_STEPS):
        F, J = _conditions(designs, y, lam, nu, z, c, ends)
        left = float(np.abs(F).max())
        if left < least:
            best, least = (nu, z, c), left
        elif left > 1e3 * least:
            break
        step, *_ = np.linalg.lstsq(J, -F, rcond=4 * _EPS)
        if not np.isfinite(step).all():
            break
        nu = nu + step[: n * m].reshape(n, m)
        parts = [step[slice(*ends[k : k + 2])] for k in range(len(z))]
        z = [a + part[:size] for a, part, size in zip(z, parts, sizes, strict=True)]
        c = [a + part[size:] for a, part, size in zip(c, parts, sizes, strict=True)]
        if np.abs(step).max() <= 2 * _EPS * max(np.abs(x).max() for x in (nu, *z, *c)):
            break
    assert best is not None
    nu, z, c = best
    u = np.array([B @ a for B, a in zip(bases, z, strict=True)]).reshape(len(z), D)
    length = np.linalg.norm(u, axis=1)
    length = np.where(length > 0, length, 1.0)[:, None]
    found = Neurons(u / length, np.array(c).reshape(len(z), m) * length, start.patterns, nu)
    return found


def _conditions(designs, y, lam, nu, z, c, ends):
    """The conditions and their derivative; the unknowns in the order nu, z_1, c_1, z_2, ..."""
    n, m = y.shape
    F, J = np.empty(ends[-1]), np.zeros((ends[-1], ends[-1]))
    f = np.zeros((n, m))
    J[: n * m, : n * m] = lam * np.eye(n * m)
    for k, (A, a, b) in enumerate(zip(designs, z, c, strict=True)):
        size, on = len(a), A @ a
        f += np.outer(on, b)
        of_z, of_c = slice(ends[k], ends[k] + size), slice(ends[k] + size, ends[k + 1])
        d_z = np.einsum("ij,a->iaj", A, b).reshape(n * m, size)
        d_c = np.einsum("i,ab->iab", on, np.eye(m)).reshape(n * m, m)
        J[: n * m, of_z], J[: n * m, of_c] = -d_z, -d_c
        J[of_z, : n * m], J[of_c, : n * m] = d_z.T / n, d_c.T / n
        J[of_z, of_z], J[of_c, of_c] = np.eye(size), np.eye(m)
        J[of_z, of_c] = A.T @ nu / n
        J[of_c, of_z] = J[of_z, of_c].T
        F[of_z] = a + A.T @ (nu @ b) / n
        F[of_c] = b + nu.T @ on / n
    F[: n * m] = (lam * nu + y - f).ravel()
    return F, J


def _span(zeros, D):
    """An orthonormal basis of what is orthogonal to these rows."""
    if not len(zeros):
        return np.eye(D)
    _, s, V = np.linalg.svd(zeros)
    return V[int((s > 1e-9 * s[0]).sum()) :].T
