"""Primal-dual interior point on `max min_k m_k(omega), |omega| = 1`, started from the flow's own weights.

Unknowns: the direction omega, multipliers lambda, the level t and slacks `s_k = m_k - t > 0`. It says that a direction
is
optimal, not that training went there; its result is thrown away when the handed-in test does not accept it.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from jaxtyping import Float

from .._numerics import double_precision
from ..problem import AbstractProblem

DENSE_UP_TO = 512  # parameters; beyond it one dense factorisation costs more than the whole matrix-free polish
Judge = Callable[[np.ndarray, np.ndarray], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Polished:
    """A polished direction.

    - `direction`: shape (N,), unit norm; `multipliers`: shape (K,), non-negative.
    - `gap`: what the handed-in test gave for it; without a test the larger of `stationarity` and `complementarity`.
    - `stationarity`: `|g - a omega| / a`; `complementarity`: `(sum p m - min m) / sum p m`.
    - `change`: `|direction - flow's direction|`; `n_iterations`, `n_products`: Newton steps and Hessian products spent.
    """

    direction: Float[np.ndarray, " N"]
    multipliers: Float[np.ndarray, " K"]
    gap: float
    stationarity: float
    complementarity: float
    change: float
    n_iterations: int
    n_products: int


def _pulled_back(problem: AbstractProblem, omega, selection, weights):
    m, vjp = jax.vjp(lambda o: problem.constraints(problem.outputs(o), selection), omega)
    return m, vjp(weights)[0]


@eqx.filter_jit
def parts(problem: AbstractProblem, omega, selection, weights):
    """`(m, g)`: the constraints' margins (K,) and `g = sum_k weights_k grad m_k` (N,)."""
    return _pulled_back(problem, omega, selection, weights)


@eqx.filter_jit
def rows(problem: AbstractProblem, omega, selection):
    """The gradients `grad m_k`, shape (K, N)."""
    return jax.jacrev(lambda o: problem.constraints(problem.outputs(o), selection))(omega)


@eqx.filter_jit
def hessian(problem: AbstractProblem, omega, selection, weights):
    """`sum_k weights_k Hess m_k`, shape (N, N)."""
    return jax.jacfwd(lambda o: _pulled_back(problem, o, selection, weights)[1])(omega)


@eqx.filter_jit
def products(problem: AbstractProblem, omega, selection, weights, v, y):
    """`(H v, J v, J^T y)`: H the Hessian of `sum_k weights_k m_k`, J the rows `grad m_k` (K, N); neither is formed."""
    constraints = lambda o: problem.constraints(problem.outputs(o), selection)  # noqa: E731 - differentiated thrice below
    Hv = jax.jvp(lambda o: _pulled_back(problem, o, selection, weights)[1], (omega,), (v,))[1]
    return Hv, jax.jvp(constraints, (omega,), (v,))[1], jax.vjp(constraints, omega)[1](y)[0]


def polish(
    problem: AbstractProblem,
    omega: Float[np.ndarray, " N"],
    selection: np.ndarray,
    multipliers: Float[np.ndarray, " K"],
    sharpness: float,
    *,
    judge: Judge | None,
    tol: float,
    max_iterations: int = 40,
) -> Polished:
    """The best point found from `omega`, see the head. `judge(direction, multipliers) -> gap` may be `None`."""
    with double_precision():
        return _polish(problem, omega, selection, multipliers, sharpness, judge, tol, max_iterations)


def _polish(problem, omega, selection, multipliers, sharpness, judge, tol, max_iterations) -> Polished:
    N, dense = omega.size, omega.size <= DENSE_UP_TO
    start = omega = omega / np.linalg.norm(omega)
    m = np.asarray(parts(problem, omega, selection, multipliers)[0])
    m_min = m.min()
    active = np.flatnonzero(m < m_min + max(60 / sharpness, abs(m_min)))
    K = active.size
    t = m_min - 0.5 / sharpness
    s = m[active] - t
    lam = np.maximum(multipliers[active], 0.0)
    lam = lam / lam.sum() if lam.sum() > 0 else np.full(K, 1 / K)
    lam = np.maximum(lam, 0.1 * (lam @ s / K) / s)
    lam /= lam.sum()
    best: Polished | None = None
    n_products = 0
    for iteration in range(max_iterations + 1):
        full = np.zeros(m.size)
        full[active] = lam
        m, g = map(np.asarray, parts(problem, omega, selection, full))
        a = omega @ g
        if not (np.isfinite(a) and a != 0):
            break
        R1 = g - a * omega
        stationarity = float(np.linalg.norm(R1) / abs(a))
        level = lam @ m[active]
        complementarity = float((level - m.min()) / abs(level)) if level != 0 else np.inf
        gap = max(stationarity, complementarity) if judge is None else judge(omega, full)
        if best is None or gap < best.gap:
            best = Polished(
                direction=omega,
                multipliers=full,
                gap=float(gap),
                stationarity=stationarity,
                complementarity=complementarity,
                change=float(np.linalg.norm(omega - start)),
                n_iterations=iteration,
                n_products=n_products,
            )
        kkt = stationarity + complementarity
        # KKT holds and the gap does not follow: a saddle. More iterations would only sharpen it.
        if gap <= tol or iteration == max_iterations or (kkt < 1e-6 and gap > 100 * kkt and gap > 1e-6):
            break
        if iteration > best.n_iterations + 12:
            break
        A = np.asarray(rows(problem, omega, selection))[active]
        At = A - np.outer(A @ omega, omega)
        ratio = s / lam
        r2 = m[active] - t - s
        if dense:
            # Vanishing but not tiny: with delta = 1e-8 the step runs along a symmetry's null space.
            delta = abs(a) * min(1e-1, max(1e-9, 0.3 * min(1.0, kkt)))
            H = np.asarray(hessian(problem, omega, selection, full))
            solve = _dense_solver(H, At, ratio, omega, a, delta)
        else:
            product = _Products(problem, omega, selection, full, active)
            solve = _MinresSolver(product, At, ratio, omega, a, 1e-6, min(1e-4, max(1e-9, 1e-2 * kkt)))
        mu = lam @ s / K

        def newton(target, correction, solve=solve, lam=lam, s=s, ratio=ratio, R1=R1, r2=r2, omega=omega):
            rc = (target - lam * s - correction) / lam
            x = solve(np.concatenate([-R1, -r2 + rc, [lam.sum() - 1]]))
            d_omega, d_lam, d_t = x[:N], x[N : N + K], x[-1]
            return d_omega - omega * (omega @ d_omega), d_lam, d_t, rc - ratio * d_lam

        if dense:
            d_omega, d_lam, d_t, d_s = newton(0.0, 0.0)
            step_s, step_l = _to_boundary(s, d_s), _to_boundary(lam, d_lam)
            sigma = ((s + step_s * d_s) @ (lam + step_l * d_lam) / K / mu) ** 3
            d_omega, d_lam, d_t, d_s = newton(sigma * mu, d_s * d_lam if min(step_s, step_l) > 0.1 else 0.0)
        else:
            d_omega, d_lam, d_t, d_s = newton(0.1 * mu, 0.0)
            n_products += solve.n_products
        o, t_o, m_o = omega, t, m[active]
        step = min(_to_boundary(s, d_s), _to_boundary(lam, d_lam), 0.3 / max(float(np.linalg.norm(d_omega)), 1e-300))
        for _ in range(12):
            o = omega + step * d_omega
            o /= np.linalg.norm(o)
            m_o = np.asarray(parts(problem, o, selection, full)[0])[active]
            # The level gives way where curvature made a true slack smaller than predicted; the step only when that
            # would cost more than the slacks had to begin with.
            predicted = s + step * d_s
            t_o = min(t + step * d_t, float((m_o - 0.02 * predicted).min()))
            if t + step * d_t - t_o <= 0.5 * mu * K:
                break
            step *= 0.5
        omega, t, s, lam = o, t_o, m_o - t_o, np.maximum(lam + step * d_lam, 1e-300)
        s = np.maximum(s, 1e-300)
    if best is None:  # a vanishing gradient at the start: nothing to polish
        return Polished(
            direction=start,
            multipliers=np.maximum(multipliers, 0.0),
            gap=np.inf,
            stationarity=np.inf,
            complementarity=np.inf,
            change=0.0,
            n_iterations=0,
            n_products=0,
        )
    return best


def _to_boundary(v: np.ndarray, dv: np.ndarray) -> float:
    return min(1.0, 0.995 / max(float(np.max(-dv / v)), 1e-300))


def _dense_solver(H, At, ratio, omega, a, delta):
    """LU of the Newton matrix in (omega, lambda, t), scaled by the slack ratios."""
    N, K = omega.size, ratio.size
    P = H - np.outer(omega, omega @ H)
    P -= np.outer(P @ omega, omega)
    P[np.diag_indices(N)] -= a + delta
    T = np.zeros((N + K + 1, N + K + 1))
    T[:N, :N], T[:N, N : N + K], T[N : N + K, :N] = P, At.T, At
    T[N : N + K, N : N + K][np.diag_indices(K)] = ratio
    T[N : N + K, -1] = T[-1, N : N + K] = -1
    scale = np.ones(N + K + 1)
    scale[N : N + K] = 1 / np.sqrt(1 + ratio)
    lu = scipy.linalg.lu_factor(T * scale[:, None] * scale, overwrite_a=True, check_finite=False)
    return lambda r: scale * scipy.linalg.lu_solve(lu, r * scale, check_finite=False)


class _Operator(scipy.sparse.linalg.LinearOperator):
    """A square matrix known by its product with a vector."""

    def __init__(self, n: int, multiply: Callable[[np.ndarray], np.ndarray]):
        super().__init__(np.dtype(float), (n, n))
        self._product = multiply

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._product(np.ravel(x))


class _Products:
    """`(H v, J v, J^T y)` with the rows of the active constraints only, NumPy at both ends."""

    def __init__(self, problem, omega, selection, weights, active):
        self._fixed = (problem, omega, selection, weights)
        self._active, self._K = active, weights.size

    def __call__(self, v: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        full = np.zeros(self._K)
        full[self._active] = y
        Hv, Jv, JTy = map(np.asarray, products(*self._fixed, v, full))
        return Hv, Jv[self._active], JTy


class _MinresSolver:
    """The same matrix, matrix-free, with the block preconditioner `diag(a I, At At^T / a + diag(s / lambda), border)`.

    Minimum-norm steps ignore a symmetry's null space.
    """

    def __init__(self, product, At, ratio, omega, a, delta, rtol):
        self.product, self.ratio, self.omega, self.a = product, ratio, omega, a
        self.delta, self.rtol = delta, rtol
        self.n_products = 0
        self.N, self.K = omega.size, ratio.size
        # At = J - (J omega) omega^T is used once, here: at 10^4 parameters reading it costs more than a product does.
        gram = At @ At.T / abs(a)
        gram[np.diag_indices(self.K)] += ratio
        self.factor = scipy.linalg.cho_factor(gram, check_finite=False)
        self.border = self._gram_solve(np.ones(self.K)).sum()

    def _gram_solve(self, r):
        return scipy.linalg.cho_solve(self.factor, r, check_finite=False)

    def _multiply(self, x):
        self.n_products += 1
        v, y, z = x[: self.N], x[self.N : -1], x[-1]
        along = self.omega @ v
        vt = v - self.omega * along
        Hv, Jv, JTy = self.product(vt, y)
        Hv = Hv + JTy
        Hv = Hv - self.omega * (self.omega @ Hv)  # both parts are tangent: P H P v and At^T y
        top = Hv - self.a * vt - self.delta * v - self.a * self.omega * along
        return np.concatenate([top, Jv + self.ratio * y - z, [-y.sum()]])

    def _precondition(self, r):
        N = self.N
        return np.concatenate([r[:N] / abs(self.a), self._gram_solve(r[N:-1]), [r[-1] / self.border]])

    def __call__(self, r):
        n = self.N + self.K + 1
        operator = _Operator(n, self._multiply)
        preconditioner = _Operator(n, self._precondition)
        return scipy.sparse.linalg.minres(operator, r, M=preconditioner, rtol=self.rtol, maxiter=600)[0]


def growth_rate(problem, omega, selection, multipliers, a: float, *, tight: float = 1e-6) -> float:
    """The fastest growth, in units of a, of a direction that keeps the active margins: `lambda_max(Z^T H Z) / a - 1`.

    `H = sum_k p_k Hess m_k`; Z spans the tangent space of the constraints that carry multipliers, orthogonal to omega.
    A
    limit has a rate <= 0 up to rounding (0 along symmetries); a saddle that only looks converged has a positive one.
    """
    with double_precision():
        p = np.maximum(multipliers, 0.0)
        p = p / p.sum()
        A = np.asarray(rows(problem, omega, selection))[p > tight * p.max()]
        basis, sizes, _ = np.linalg.svd(np.vstack([A, omega]).T, full_matrices=False)
        Y = basis[:, sizes > 1e-10 * sizes[0]]
        project = lambda v: v - Y @ (Y.T @ v)  # noqa: E731 - used by both branches
        if omega.size - Y.shape[1] <= 0:
            return -1.0
        if omega.size <= DENSE_UP_TO:
            H = np.asarray(hessian(problem, omega, selection, p))
            PHP = project(project(H).T)
            return float(np.linalg.eigvalsh((PHP + PHP.T) / 2)[-1] / a - 1)
        none = np.zeros(p.size)
        product = lambda v: project(  # noqa: E731 - an operand of the next line
            np.asarray(products(problem, omega, selection, p, project(v.ravel()), none)[0])
        )
        operator = _Operator(omega.size, product)
        start = project(np.cos(np.arange(omega.size) + 1.0))
        top = scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)
        return float(top[0] / a - 1)
