"""Commuting measurements for `positive-quadratic-networks`: instances, their least trace, the entropy's projection."""

import dataclasses
import functools
import math

import numpy as np
import scipy.optimize
from jaxtyping import Float

from ...certificate import LeastCertificate
from ...data.measurements import CommutingMeasurements
from ...limits import Interpolation, ModifiedL1, RelativeEntropy
from ...solvers import Solution, solve

MOST_DRAWS = 500
LEAST_COST = 0.1  # of drawn data: the smallest reduced cost, so that the other entries fade at a visible rate
LARGEST_CONDITION = 10.0  # of drawn data: of the optimum's columns, so that descent needs thousands of steps at most
SUPPORT = 1e-8  # of the largest entry: what a linear program's tolerance leaves
LEAST_WEIGHT = 0.1  # of drawn data: the smallest entry of the least-trace solution beside the largest


@dataclasses.dataclass(frozen=True, eq=False)
class Commuting:
    """Commuting measurements `A_i = V diag(a_i) V'` with the limit problems in their eigenvalues."""

    measurements: CommutingMeasurements

    @property
    def a(self) -> Float[np.ndarray, "n d"]:
        return self.measurements.a

    @property
    def y(self) -> Float[np.ndarray, " n"]:
        return self.measurements.y

    @functools.cached_property
    def least_trace(self) -> Solution[LeastCertificate]:
        """`min sum q` over `a q = y`, `q >= 0`: a linear program, with its certificate."""
        return solve(Interpolation(ModifiedL1(t_plus=1.0, t_minus=math.inf), self.a, self.y))

    @property
    def reduced_costs(self) -> Float[np.ndarray, " d"]:
        """`1 - a' nu >= 0`, from the program's own multipliers: zero where q may be positive."""
        return 1 - self.least_trace.certificate.dual_point

    @property
    def face(self) -> np.ndarray:
        """The entries that may be positive at least trace: whose reduced cost vanishes within rounding."""
        return np.flatnonzero(self.reduced_costs <= 1e-9)

    @functools.cached_property
    def vertex(self) -> bool:
        """Whether the least trace has one solution: no two points of the face have the same outputs."""
        return _rank(self.a[:, self.face]) == self.face.size

    @functools.cached_property
    def costs_known(self) -> bool:
        """Whether the reduced costs are the only ones: the support's columns span what all columns do.

        Where the support is smaller (a degenerate program), other multipliers are as good, and the training may have
        other exponents than the solver found.
        """
        point = self.least_trace.certificate.point
        if not self.vertex:
            point = self.on_face(np.ones(self.a.shape[1]))  # it has every entry that the face allows
        return _rank(self.a[:, point > SUPPORT * point.max()]) == _rank(self.a)

    @functools.cached_property
    def interior(self) -> bool:
        """Whether some q > 0 meets the data: where only ones with zeros do, the approach is like 1/t.

        A linear program in p, `q_j |a_j| = p_j |y|`: the largest s <= 1 with `p >= s`.
        """
        size = np.linalg.norm(self.a, axis=0)
        measured = size > 0
        a, y = self.a[:, measured] / size[measured], self.y / np.linalg.norm(self.y)
        m = a.shape[1]
        found = scipy.optimize.linprog(
            np.append(np.zeros(m), -1.0),
            A_ub=np.column_stack([-np.eye(m), np.ones(m)]),
            b_ub=np.zeros(m),
            A_eq=np.column_stack([a, np.zeros(len(y))]),
            b_eq=y,
            bounds=[(0, None)] * m + [(0, 1)],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        return bool(found.success) and -float(found.fun) > SUPPORT

    def projection(self, log_q0: Float[np.ndarray, " d"]) -> Solution[LeastCertificate]:
        """`argmin KL(q | q0)` over `a q = y`."""
        return solve(Interpolation(RelativeEntropy(log_q0=log_q0), self.a, self.y), tol=1e-12)

    def on_face(self, weights: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        """The weighted entropy's `sum q log(q / w) - q` least point on the least-trace face."""
        kept = self.face
        found = solve(Interpolation(RelativeEntropy(weights[kept]), self.a[:, kept], self.y), tol=1e-12)
        point = np.zeros(self.a.shape[1])
        point[kept] = found.certificate.point
        return point

    def matrix(self, q: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
        """`V diag(q) V'`."""
        V = self.measurements.basis
        return (V * q) @ V.T


def _rank(a: Float[np.ndarray, "n k"]) -> int:
    return int(np.linalg.matrix_rank(a)) if a.size else 0


def drawn(d: int, n: int, seed: int, *, tied: bool = False) -> tuple[Commuting, int]:
    """The first draw whose least trace is at one vertex with clear entries and costs; and the number of draws.

    Drawn from the stream `[seed, 44, draw]`: eigenvalues `(n, d)`, uniform on [0, 1); n planted eigenvalues, uniform on
    [0.5, 1.5), at the first n places; V, the orthogonal factor of a standard normal matrix. `tied`: the last column of
    the eigenvalues is then made the mean of the first two of the optimum's columns, so that the least trace has an edge
    and not a vertex. Nothing is asked of the flow.
    """
    for draw in range(MOST_DRAWS):
        rng = np.random.default_rng([seed, 44, draw])
        a, q = rng.uniform(size=(n, d)), np.zeros(d)
        q[:n] = rng.uniform(0.5, 1.5, size=n)
        V, R = np.linalg.qr(rng.standard_normal((d, d)))
        found = Commuting(CommutingMeasurements(a=a, V=V * np.sign(np.diag(R)), y=a @ q))
        if found.least_trace.status != "optimal":
            continue
        point, costs = found.least_trace.certificate.point, found.reduced_costs
        if found.face.size != n or point[found.face].min() < LEAST_WEIGHT * point.max():
            continue
        if np.linalg.cond(a[:, found.face]) > LARGEST_CONDITION:
            continue
        if np.delete(costs, found.face).min() < LEAST_COST or (tied and found.face.max() == d - 1):
            continue
        if tied:
            a = a.copy()
            a[:, -1] = a[:, found.face[:2]].mean(axis=1)
            m = found.measurements
            found = Commuting(CommutingMeasurements(a=a, V=m.V, y=m.y))
        return found, draw + 1
    raise ValueError(
        f"no commuting measurements with a clear least trace were found in {MOST_DRAWS} draws for d = {d}, n = {n}; "
        "take a larger `d`."
    )


def span_residual(
    Q: Float[np.ndarray, "d d"], Q0: Float[np.ndarray, "d d"], matrices: Float[np.ndarray, "n d d"]
) -> float:
    """How far `log Q - log Q0` is from the span of the `A_i`, relative to its own size: zero for a mirror flow."""
    return _off_span(logarithm(Q) - logarithm(Q0), matrices)


def factor_span_residual(
    U: Float[np.ndarray, "d d"], Q0: Float[np.ndarray, "d d"], matrices: Float[np.ndarray, "n d d"]
) -> tuple[float, float]:
    """`span_residual` of `U U'`, and the rounding in it.

    The logarithm is read from U, in which an eigenvalue has the rounding of the largest one's root, not of itself.
    """
    P, s, _ = np.linalg.svd(U)
    change = (P * (2 * np.log(s))) @ P.T - logarithm(Q0)
    rounding = 100 * float(np.finfo(float).eps) * float(s[0] / s[-1]) / float(np.linalg.norm(change))
    return _off_span(change, matrices), rounding


def _off_span(change: Float[np.ndarray, "d d"], matrices: Float[np.ndarray, "n d d"]) -> float:
    A = matrices.reshape(len(matrices), -1).T
    rest = change.reshape(-1) - A @ np.linalg.lstsq(A, change.reshape(-1), rcond=None)[0]
    return float(np.linalg.norm(rest) / np.linalg.norm(change))


def logarithm(Q: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """The matrix logarithm of a positive definite Q."""
    w, V = np.linalg.eigh(Q)
    return (V * np.log(w)) @ V.T


def entropy_projection(
    Q0: Float[np.ndarray, "d d"], matrices: Float[np.ndarray, "n d d"], y: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "d d"], float]:
    """`exp(log Q0 + sum nu_i A_i)` that meets the data, and its relative residual.

    The projection of Q0 in the divergence of von Neumann's entropy, by damped Newton on the smooth convex dual
    `tr exp(log Q0 + sum nu_i A_i) - nu.y`. For matrices that commute it is the Bregman projection of the eigenvalues,
    by a code that shares nothing with that one.
    """
    L0, nu = logarithm(Q0), np.zeros(len(y))

    def at(nu):
        w, V = np.linalg.eigh(L0 + np.einsum("n,nab->ab", nu, matrices))
        return w, V, np.exp(w)

    def value(nu):
        return float(at(nu)[2].sum() - nu @ y)

    size = float(np.linalg.norm(y))
    residual = math.inf
    for _ in range(200):
        w, V, e = at(nu)
        rotated = np.einsum("ai,nab,bj->nij", V, matrices, V, optimize=True)
        gradient = np.einsum("nii,i->n", rotated, e) - y
        residual = float(np.linalg.norm(gradient)) / size
        if residual <= 1e-14:
            break
        # The derivative of the exponential in its own eigenbasis (Daleckii and Krein).
        gap = w[:, None] - w[None, :]
        mean = np.where(np.abs(gap) > 1e-9, (e[:, None] - e[None, :]) / np.where(gap == 0, 1, gap), e[:, None])
        H = np.einsum("nij,mij,ij->nm", rotated, rotated, mean, optimize=True)
        step = -np.linalg.lstsq(H, gradient, rcond=1e-14)[0]
        slope, t, here = float(gradient @ step), 1.0, value(nu)
        while t > 1e-12 and not value(nu + t * step) <= here + 1e-4 * t * slope + 1e-13 * abs(here):
            t /= 2
        if t <= 1e-12:
            break
        nu = nu + t * step
    w, V, e = at(nu)
    Q = (V * e) @ V.T
    return Q, float(np.linalg.norm(np.einsum("nab,ab->n", matrices, Q) - y)) / size
