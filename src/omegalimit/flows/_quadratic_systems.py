"""The three fields of a positive quadratic network, with exact Jacobians, in units of size one.

With `w = dl/df`, C the Hessian of l in the outputs f, and `B_i = A_i U`:

    factor      d(-2 G U)[Z]        = -2 G Z - 4 sum_ij B_i C_ij <B_j, Z>
    quotient    d(-2(GQ + QG))[S]   = -2 (G S + S G) - 2 sum_ij (A_i Q + Q A_i) C_ij <A_j, S>
    mirror      d(-4 a' w)[z]       = -4 a' C a (q * z)

Symmetric matrices are vectors of length d(d+1)/2, their off-diagonal entries times sqrt(2): lengths agree.
"""

import math

import numpy as np
from scipy.linalg import lapack

from ._quadratic_loss import ScaledProblem, checked_commuting, from_units
from ._quadratic_system import System

_EPS = float(np.finfo(float).eps)


def graded_svd(U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`(P, s, V)` with `U V = P diag(s)` for U with at least as many rows as columns.

    Columns of very different sizes keep their relative accuracy (one-sided Jacobi of LAPACK); the usual SVD would lose
    a column that is 1e-16 of another.
    """
    s, P, V, work, _, _ = lapack.dgejsv(U, joba=0, jobu=0, jobv=0, jobr=0)  # pyright: ignore[reportAttributeAccessIssue]  # not in its stubs
    return P, s * (work[0] / work[1]), V


class FactorSystem(System):
    """`U' = -2 G U`.

    The flow commutes with rotations on the right, so U is held as `W R'` with orthonormal columns of R and nearly
    orthogonal columns of W, renewed at each `rebase`: a singular value that is 1e-100 of another is a column of its own
    and keeps its digits. What the start does not have, W has no column for.
    """

    coordinates = "factor"

    def __init__(self, problem: ScaledProblem, U: np.ndarray, accuracy: float):
        self.problem, self.accuracy = problem, accuracy
        _, values, right = np.linalg.svd(U, full_matrices=True)
        self.rank_start = k = int((values > max(U.shape) * _EPS * values[0]).sum())
        # With no null space the first coordinates are the user's own, to the last digit.
        self._R, self._null = (right[:k].T if k < U.shape[1] else np.eye(k)), right[k:].T
        self.shape = (U.shape[0], k)
        self.y0 = self.of(U)

    def of(self, U: np.ndarray) -> np.ndarray:
        """y for a U in the space that the start spans, in the coordinates of now."""
        return (U @ self._R).reshape(-1)

    def field(self, t, y):
        U = y.reshape(self.shape)
        m = self.problem.measurements
        return -2 * m.adjoint_factor(self.problem.loss.weights(m.apply_factor(U)), U).reshape(-1)

    def jacobian(self, t, y):
        U = y.reshape(self.shape)
        m, loss = self.problem.measurements, self.problem.loss
        f = m.apply_factor(U)
        B = m.factor_rows(U).reshape(f.size, -1)
        return -2 * np.kron(m.adjoint(loss.weights(f)), np.eye(U.shape[1])) - 4 * loss.gram(f, B)

    def outputs(self, y):
        return self.problem.measurements.apply_factor(y.reshape(self.shape))

    def slopes(self, y, w, gamma):
        U = y.reshape(self.shape)
        m = self.problem.measurements
        P, values, _ = graded_svd(U)
        logs = 2 * np.log(values)
        size = float(np.linalg.norm(values))
        if not gamma > 0:
            return 0.0, math.log(size), 0.0, logs
        GP = m.adjoint_factor(w / gamma, P)
        ratio = float(np.linalg.norm(GP * values)) / size
        return ratio, math.log(size), -float(np.einsum("ij,ij->j", P, GP).min()), logs

    def drift(self, y):
        if not self._null.size:
            return 0.0
        U = self.user(y)
        return float(np.linalg.norm(U @ self._null) / np.linalg.norm(U))

    def sizes(self, y):
        return np.sqrt(np.square(y.reshape(self.shape)).mean(axis=0))

    def spread(self, sizes):
        return np.broadcast_to(sizes, self.shape).reshape(-1).copy()

    def rebase(self, y):
        P, values, V = graded_svd(y.reshape(self.shape))
        self._R = self._R @ V
        return (P * values).reshape(-1)

    def user(self, y):
        return y.reshape(self.shape) @ self._R.T

    def state(self, user):
        return from_units(user, self.problem.exponent_Q // 2)


class QuotientSystem(System):
    """`Q' = -2 (G Q + Q G)`."""

    coordinates = "quotient"

    def __init__(self, problem: ScaledProblem, Q: np.ndarray, accuracy: float):
        self.problem, self.accuracy, d = problem, accuracy, Q.shape[0]
        self._d, self._where = d, np.triu_indices(d)
        self._weight = np.where(self._where[0] == self._where[1], 1.0, math.sqrt(2))
        self.y0 = self._vector(Q)
        values = np.linalg.eigvalsh(Q)
        self.rank_start = int((values > d * _EPS * values[-1]).sum())
        self._seen: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._rows: np.ndarray | None = None
        self._basis: np.ndarray | None = None

    def _vector(self, Q: np.ndarray) -> np.ndarray:
        """Symmetric matrices, shape (..., d, d), as vectors (..., d(d+1)/2)."""
        return Q[..., self._where[0], self._where[1]] * self._weight

    def _matrix(self, y: np.ndarray) -> np.ndarray:
        Q = np.zeros((*y.shape[:-1], self._d, self._d))
        Q[..., self._where[0], self._where[1]] = y / self._weight
        Q[..., self._where[1], self._where[0]] = y / self._weight
        return Q

    def _eigen(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues, rising, and eigenvectors of Q; a step asks several times for the same y."""
        if self._seen is None or self._seen[0] is not y:
            values, P = np.linalg.eigh(self._matrix(y))
            self._seen = y, values, P
        return self._seen[1], self._seen[2]

    def field(self, t, y):
        Q, m = self._matrix(y), self.problem.measurements
        GQ = m.adjoint(self.problem.loss.weights(m.apply(Q))) @ Q
        return -2 * self._vector(GQ + GQ.T)

    def jacobian(self, t, y):
        Q, m, loss = self._matrix(y), self.problem.measurements, self.problem.loss
        if self._rows is None or self._basis is None:
            self._rows, self._basis = self._vector(m.matrices()), self._matrix(np.eye(y.size))
        f = m.apply(Q)
        GS = m.adjoint(loss.weights(f)) @ self._basis
        SQ = self._matrix(self._rows) @ Q
        moved = self._vector(SQ + SQ.transpose(0, 2, 1))
        return -2 * self._vector(GS + GS.transpose(0, 2, 1)).T - 2 * moved.T @ loss.curve(f, self._rows)

    def outputs(self, y):
        return self.problem.measurements.apply(self._matrix(y))

    def slopes(self, y, w, gamma):
        Q, m = self._matrix(y), self.problem.measurements
        values, P = self._eigen(y)
        values, P = values[::-1], P[:, ::-1]
        seen = values > self._d * _EPS * values[0]
        seen[self.rank_start :] = False  # the steps' own errors
        logs = np.where(seen, np.log(np.where(seen, values, 1.0)), np.nan)
        size = float(np.linalg.norm(Q))
        if not gamma > 0:
            return 0.0, math.log(size), 0.0, logs
        GQ = m.adjoint_factor(w / gamma, Q)
        # What rounding hides may have started as nothing: it grows only where the start had it.
        P = P[:, : max(self.rank_start, 1)]
        rates = -np.einsum("ij,ij->j", P, m.adjoint_factor(w / gamma, P))
        return float(np.linalg.norm(GQ)) / size, math.log(size), float(rates.max()), logs

    def drift(self, y):
        values, _ = self._eigen(y)
        lost = np.abs(values[: self._d - self.rank_start]).max(initial=0.0)
        largest = float(np.abs(values).max())
        return float(max(lost, -values[0], 0.0)) / largest if largest > 0 else 0.0

    def sizes(self, y):
        return np.array([np.linalg.norm(y) / math.sqrt(y.size)])

    def spread(self, sizes):
        return np.full(self.y0.size, sizes[0])

    def worn(self, y):
        return self.drift(y) > 10 * self.accuracy

    def hidden(self, y):
        values, P = self._eigen(y)
        lost = values <= 4 * self._d * _EPS * values[-1]
        lost[: self._d - self.rank_start] = False
        if not lost.any():
            return False
        m = self.problem.measurements
        w = self.problem.loss.weights(self.outputs(y))
        rates = -np.einsum("ij,ij->j", P[:, lost], m.adjoint_factor(w, P[:, lost]))
        return bool(rates.max() > 1e-9 * float(np.abs(w) @ m.norms))

    def rebase(self, y):
        # A step's error outside the rank of the start does not decay: the flow is neutral there, or unstable.
        values, P = self._eigen(y)
        values = values.copy()
        values[: self._d - self.rank_start] = 0.0
        return self._vector((P * np.maximum(values, 0.0)) @ P.T)

    def user(self, y):
        return self._matrix(y)

    def state(self, user):
        return from_units(user, self.problem.exponent_Q)


def _exp(log_q: np.ndarray) -> np.ndarray:
    """`exp`, kept finite: an integrator's trial step may overshoot, and is rejected only if it can be weighed."""
    return np.exp(np.minimum(log_q, 600.0))


class MirrorSystem(System):
    """`(log q)' = -4 a' w`."""

    coordinates = "mirror"

    def __init__(self, problem: ScaledProblem, log_q: np.ndarray, accuracy: float):
        self.problem, self.y0, self.accuracy = problem, log_q.copy(), accuracy
        self._a = checked_commuting(problem.measurements)
        self.rank_start = log_q.size
        _, values, right = np.linalg.svd(self._a, full_matrices=False)
        self._range = right[values > max(self._a.shape) * _EPS * values[0]]

    def field(self, t, y):
        return -4 * (self.problem.loss.weights(self.outputs(y)) @ self._a)

    def jacobian(self, t, y):
        q = _exp(y)
        return -4 * self._a.T @ self.problem.loss.curve(self._a @ q, self._a * q)

    def outputs(self, y):
        return self._a @ _exp(y)

    def slopes(self, y, w, gamma):
        top = float(y.max())
        q = np.exp(y - top)  # however small q is
        size = float(np.linalg.norm(q))
        if not gamma > 0:
            return 0.0, top + math.log(size), 0.0, y.copy()
        g = (w / gamma) @ self._a
        return float(np.linalg.norm(g * q)) / size, top + math.log(size), -float(g.min()), y.copy()

    def logs(self):
        return True

    def sizes(self, y):
        return np.abs(y)

    def spread(self, sizes):
        return sizes

    def drift(self, y):
        moved = y - self.y0
        off = moved - self._range.T @ (self._range @ moved)
        return float(np.linalg.norm(off) / max(float(np.linalg.norm(moved)), 1.0))

    def user(self, y):
        return y

    def state(self, user):
        return user + self.problem.exponent_Q * math.log(2)
