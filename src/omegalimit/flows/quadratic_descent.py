"""Gradient descent on a positive quadratic network, as users run it.

`U+ = (I - 2 eta G) U`, so that `Q+ = (I - 2 eta G) Q (I - 2 eta G)` exactly. A step on rank-one measurements costs the
two products `U' X'` and `(w * U' X') X` and a few sums over n numbers; nothing of size n x d or d x d is formed. Its
counterpart for commuting measurements, in logs, is `mirror_descent`.
"""

from __future__ import annotations

import dataclasses
import math
import time as clock
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse.linalg
from jaxtyping import Float

from .._checks import check_count
from .._threads import one_blas_thread
from ..trajectory import Cost
from ._quadratic_engine import Watch, target_size
from ._quadratic_loss import (
    OutputLoss,
    ScaledProblem,
    SquaredLoss,
    checked_start,
    checked_step,
    from_units,
    scale,
    to_units,
)
from ._quadratic_result import Figures, QuadraticEnding, Rate, tail_rate
from ._quadratic_systems import FactorSystem

if TYPE_CHECKING:
    from ..data.measurements import Measurements

_LOOK = 256
"""Steps between two questions whether the gradient has vanished: they cost more than a step."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticDescent:
    """Where descent came to.

    - `step`: kept steps, shape (K,), log-spaced, with the first and the last; `states`: U there, shape (K, d, r).
    - `residual`: `|f - y| / |y|` before every step and after the last, shape (T,).
    - `ending`, `figures`: how it ended; the last state's numbers (of the start, when it diverged).
    - `diverged_at`: the step after which a parameter or an output was no longer finite, else `None`.
    - `n_rises`: steps in which the residual rose.
    - `edge_start`, `edge_end`: step size times the largest eigenvalue of the loss's Hessian in U: above 2 the step is
      too large there. Negative where the Hessian has no positive eigenvalue, as near a small start. The last is NaN
      when the run diverged.
    - `rank_start`: the numerical rank of the start, which no step raises.
    """

    measurements: Measurements
    step_size: float
    step: Float[np.ndarray, " K"]
    states: Float[np.ndarray, "K d r"]
    residual: Float[np.ndarray, " T"]
    ending: QuadraticEnding
    figures: Figures
    diverged_at: int | None
    n_rises: int
    edge_start: float
    edge_end: float
    rank_start: int
    cost: Cost

    @property
    def U(self) -> Float[np.ndarray, "d r"]:
        """The last state."""
        return self.states[-1]

    @property
    def Q(self) -> Float[np.ndarray, "d d"]:
        """The last state as a matrix, `U U'`."""
        return self.U @ self.U.T

    def local_rate(self, *, first: float = 1e-4, last: float = 1e-9) -> Rate | None:
        """The linear rate of the residual between `first` and `last`, per step; `None` when it does not come there."""
        return tail_rate(np.arange(self.residual.size, dtype=float), self.residual, first=first, last=last)


class _Outputs:
    """Outputs and gradient of a factor, transposed: `(r, d)` arrays, whose products run along the rows of X."""

    def __init__(self, problem: ScaledProblem):
        self._m, self._loss = problem.measurements, problem.loss

    def residual(self, UT: np.ndarray) -> float:
        """`|f - y|`; what `gradient` needs is kept."""
        self._U = UT.T
        self._f = self._m.apply_factor(self._U)
        return float(np.linalg.norm(self._f - self._m.y))

    def gradient(self) -> np.ndarray:
        """`(G U)'` at the last `residual`'s point."""
        return self._m.adjoint_factor(self._loss.weights(self._f), self._U).T


class _RankOneOutputs:
    """The same for rank-one measurements and the squared loss, in memory of its own: two products and four sums."""

    def __init__(self, X: np.ndarray, y: np.ndarray, r: int):
        self._X, self._XT, self._y = X, X.T, y
        self._W, self._S, self._e = np.empty((r, y.size)), np.empty((r, y.size)), np.empty(y.size)
        self._g = np.empty((r, X.shape[1]))

    def residual(self, UT: np.ndarray) -> float:
        np.matmul(UT, self._XT, out=self._W)
        np.multiply(self._W, self._W, out=self._S)
        np.sum(self._S, axis=0, out=self._e)
        self._e -= self._y
        return math.sqrt(self._e @ self._e)

    def gradient(self) -> np.ndarray:
        self._W *= self._e
        np.matmul(self._W, self._X, out=self._g)
        self._g /= self._y.size
        return self._g


def quadratic_descent(
    measurements: Measurements,
    U0: Float[np.ndarray, "d r"],
    *,
    step_size: float,
    n_steps: int,
    until: float = 1e-12,
    loss: OutputLoss | None = None,
    n_kept: int = 50,
) -> QuadraticDescent:
    """`U+ = U - 2 step_size G U` from `U0`, shape (d, r), until the relative residual is at most `until`, or `n_steps`.

    - `loss`: as for `factor_flow`; `|f - y|^2 / (2n)` when `None`.
    - `until`: 0 runs all the steps. A gradient that vanishes while no part of Q grows (see `Figures`) ends it, too.
    - `n_kept`: about how many states are kept.

    A step that is too large makes the parameters overflow: the ending is then `diverged`, with the step, and the last
    state is a finite one shortly before. Raises `ValueError` for a start or options that are out of range.
    """
    U0 = checked_start(U0, "U0", axes="d, r", d=measurements.d)
    n_steps, n_kept = check_count(n_steps, "n_steps", least=1), check_count(n_kept, "n_kept", least=2)
    checked_step(step_size, until)
    problem = scale(measurements, loss, lambda scaled: float(np.abs(scaled.apply_factor(U0)).max()))
    U = to_units(U0, problem.exponent_Q // 2, "U0")
    cpu = clock.process_time()
    with one_blas_thread(), np.errstate(under="ignore", over="ignore", invalid="ignore"):
        eta = float(np.ldexp(step_size, -problem.exponent_t))
        system = FactorSystem(problem, U, 1e-11)
        watch = Watch(system, max(until, 1e-14), residual=until)
        edge = eta * _sharpness(problem, U)
        run = _descend(system, watch, U, 2 * eta, until, n_steps, n_kept)
        y = system.of(run.states[-1])
        diverged = run.diverged_at is not None
        if diverged:
            watch.rows.clear()
            y = system.y0
        watch.look(eta * run.steps[-1], y)
        ending = run.ending
        if ending in (QuadraticEnding.STEPS_TAKEN, QuadraticEnding.HORIZON) and until > 0:
            ending = watch.ending or ending
        residual = run.residual
        return QuadraticDescent(
            measurements=measurements,
            step_size=float(step_size),
            step=np.array(run.steps, dtype=float),
            states=np.array([from_units(state, problem.exponent_Q // 2) for state in run.states]),
            residual=residual,
            ending=ending,
            figures=watch.figures(y),
            diverged_at=run.diverged_at,
            n_rises=int((np.diff(residual[np.isfinite(residual)]) > 0).sum()),
            edge_start=edge,
            edge_end=math.nan if diverged else eta * _sharpness(problem, run.states[-1]),
            rank_start=system.rank_start,
            cost=Cost(
                n_evaluations=residual.size,
                n_steps=residual.size - 1,
                n_rejected=0,
                cpu_seconds=clock.process_time() - cpu,
            ),
        )


@dataclasses.dataclass
class _Steps:
    steps: list[int]
    states: list[np.ndarray]
    residual: np.ndarray
    ending: QuadraticEnding
    diverged_at: int | None


def _descend(
    system: FactorSystem,
    watch: Watch,
    U0: np.ndarray,
    double_step: float,
    until: float,
    n_steps: int,
    n_kept: int,
) -> _Steps:
    problem = system.problem
    UT = np.array(U0.T, order="C")  # a copy also for one column, since the steps are taken in place
    outputs = outputs_of(problem, UT.shape[0])
    size = target_size(problem, problem.measurements.apply_factor(U0))
    marks = set(np.unique(np.round(np.geomspace(1, n_steps, n_kept)).astype(int)).tolist())
    found: list[float] = []
    steps, states = [0], [U0]
    finite, finite_step, k = U0, 0, 0
    ending, diverged_at = QuadraticEnding.STEPS_TAKEN, None
    while True:
        residual = outputs.residual(UT) / size
        found.append(residual)
        if not math.isfinite(residual):
            ending, diverged_at = QuadraticEnding.DIVERGED, k
            break
        if residual <= until:
            ending = QuadraticEnding.INTERPOLATES
            break
        if k == n_steps:
            break
        gradient = outputs.gradient()
        gradient *= double_step
        if k % _LOOK == _LOOK - 1 and until > 0:
            watch.look(k * double_step / 2, system.of(UT.T))
            if watch.ending is not None:
                ending = watch.ending
                break
            if np.array_equal(UT - gradient, UT) or _only_rounds(found):
                ending = QuadraticEnding.HORIZON
                break
        if k in marks:
            steps.append(k)
            states.append(UT.T.copy())
        if residual > 1e3:  # squares of squares may overflow within a step or two
            finite, finite_step = UT.T.copy(), k
        UT -= gradient
        k += 1
    last = UT.T.copy()
    if not np.isfinite(last).all() or diverged_at is not None:
        last, k = finite, finite_step
    if steps[-1] < k:
        steps.append(k)
        states.append(last)
    return _Steps(steps=steps, states=states, residual=np.array(found), ending=ending, diverged_at=diverged_at)


def _only_rounds(residuals: list[float]) -> bool:
    """Whether the residual is of the size of rounding, and the last steps have not found a smaller one."""
    small = residuals[-1] < 100 * float(np.finfo(float).eps)
    return small and min(residuals[-_LOOK:]) >= min(residuals[:-_LOOK], default=math.inf)


def outputs_of(problem: ScaledProblem, r: int) -> _Outputs | _RankOneOutputs:
    """The fast form where there is one."""
    X = problem.measurements.inputs
    if X is not None and isinstance(problem.loss, SquaredLoss):
        return _RankOneOutputs(X, problem.loss.y, r)
    return _Outputs(problem)


def _sharpness(problem: ScaledProblem, U: np.ndarray) -> float:
    """The largest eigenvalue of the loss's Hessian in U, without forming it."""
    m, loss, X = problem.measurements, problem.loss, problem.measurements.inputs
    f = m.apply_factor(U)
    w, N = loss.weights(f), U.size
    F = None if X is None else X @ U

    def hessian(z: np.ndarray) -> np.ndarray:
        """`2 G Z + 4 sum_ij B_i C_ij <B_j, Z>` with `B_i = A_i U`."""
        Z = z.reshape(U.shape)
        if X is not None and F is not None:
            XZ = X @ Z
            change = 2 * np.einsum("ij,ij->i", F, XZ)
            moved = loss.curve(f, change[:, None])
            return 2 * (X.T @ (w[:, None] * XZ + moved * F)).reshape(-1)
        change = (m.apply_factor(U + Z) - m.apply_factor(U - Z)) / 2
        moved = loss.curve(f, change[:, None])[:, 0]
        return 2 * (m.adjoint_factor(w, Z) + m.adjoint_factor(moved, U)).reshape(-1)

    if N < 3:
        return float(np.linalg.eigvalsh(np.array([hessian(e) for e in np.eye(N)]))[-1])
    # SciPy's constructor takes `matvec` by way of `__new__`, which type checkers do not see.
    operator = scipy.sparse.linalg.LinearOperator((N, N), matvec=hessian, dtype=float)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).standard_normal(N)
    # Three digits are enough to compare with 2.
    rough: dict[str, Any] = {
        "k": 1,
        "which": "LA",
        "v0": start,
        "tol": 1e-3,
        "ncv": min(10, N),
        "return_eigenvectors": False,
    }
    values = scipy.sparse.linalg.eigsh(operator, **rough)
    return float(values[0])
