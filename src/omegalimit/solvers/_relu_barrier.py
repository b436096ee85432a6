"""The network problem on finitely many given directions: a group Lasso, by the barrier of its dual.

With the residual over `lam` as the unknown, `nu = r / lam`, and `R_k = Phi_k'nu / n` for the feature column of a
direction:

    min_nu  lam |nu|^2 / (2n) + <nu, y> / n - tau sum_k log(1 - |R_k|^2),      c_k = -2 tau R_k / (1 - |R_k|^2)

is smooth and convex, and `lam nu = f - y` at its minimum, so that masses come with it; their duality gap is
`lam sum_k |c_k| (1 - |R_k|) <= lam tau K`. Newton's method follows `tau` down.
"""

import numpy as np
from jaxtyping import Float

_FALL = 0.1
_STEPS = 60


def group_lasso(
    features: Float[np.ndarray, "n K"],
    y: Float[np.ndarray, "n m"],
    lam: float,
    *,
    gap: float = 1e-9,
    start: Float[np.ndarray, "n m"] | None = None,
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "K m"], int]:
    """`nu`, the masses and the number of Newton steps; `gap`: of the restricted problem, relative to its mass."""
    n, m = y.shape
    phi = features / n
    nu = np.zeros((n, m))
    if start is not None:
        largest = float(np.linalg.norm(phi.T @ start, axis=1).max(initial=0.0))
        nu = start * (0.9 / largest) if largest > 0.9 else start
    if not np.isfinite(_value(phi, y, lam, 0.0, nu)):
        nu = np.zeros((n, m))  # so large a start that rounding puts it outside
    tau = float(np.linalg.norm(features.T @ y / n, axis=1).max())
    n_steps = 0
    while True:
        n_steps += _centre(phi, y, lam, tau, nu)
        R = phi.T @ nu
        size = (R**2).sum(axis=1)
        c = -2 * tau * R / (1 - size)[:, None]
        if len(R) * tau <= gap * np.linalg.norm(c, axis=1).sum() or tau < 1e-14 * np.abs(y).max():
            return nu, c, n_steps
        tau *= _FALL


def _centre(phi, y, lam, tau, nu):
    """Newton's method at one `tau`, in place; the number of steps."""
    n, m = y.shape
    value = _value(phi, y, lam, tau, nu)
    for k in range(_STEPS):
        R = phi.T @ nu
        room = 1 - (R**2).sum(axis=1)
        gradient = (lam * nu + y) / n + phi @ (2 * tau * R / room[:, None])
        weights = 2 * tau * np.eye(m) / room[:, None, None]
        weights = weights + 4 * tau * R[:, :, None] * R[:, None, :] / room[:, None, None] ** 2
        H = np.einsum("ik,kab,jk->iajb", phi, weights, phi, optimize=True).reshape(n * m, n * m)
        H[np.diag_indices(n * m)] += lam / n
        scale = 1 / np.sqrt(np.diag(H))
        step = -scale * _solved(H * scale[:, None] * scale, scale * gradient.ravel())
        decrement = -float(step @ gradient.ravel())
        if not decrement > 1e-4 * tau:
            return k
        step, length = step.reshape(n, m), 1.0
        for _ in range(60):
            trial = nu + length * step
            other = _value(phi, y, lam, tau, trial)
            if other <= value - 0.1 * length * decrement:
                break
            length /= 2
        else:
            return k  # rounding
        nu[:] = trial
        value = other
    return _STEPS


def _value(phi, y, lam, tau, nu):
    room = 1 - ((phi.T @ nu) ** 2).sum(axis=1)
    if not (room > 0).all():
        return np.inf
    n = len(y)
    return lam * float((nu**2).sum()) / (2 * n) + float((nu * y).sum()) / n - tau * float(np.log(room).sum())


def _solved(H, b):
    try:
        L = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(H, b, rcond=None)[0]
    return np.linalg.solve(L.T, np.linalg.solve(L, b))
