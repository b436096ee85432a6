"""Gradient descent on the logistic loss of one part of the rows, from the constant classifier.

`L(W, b) = sum_i c_i (-log p_(y_i)(W'x_i + b))`, `sum_i c_i = 1`, with `p` the softmax of K scores, or of `(0, s)` for
two classes, which have one column of weights. At the start `W = 0` and `b` is the log share of each class, the least
loss among constants. The intercept is a coordinate like the others: `b = s v` with `s^2` the largest eigenvalue of
`sum_i c_i x_i x_i'`, so that nothing depends on units, and it moves as the largest direction does.

**Step.** The Hessian is at most `h lambda_max(A'CA)`, `A = (X, s)`, with `h = 1/4` for two classes and `1/2` for more
(the softmax's covariance matrix is at most half the identity: Boehning 1992). Steps up to the inverse of that never
raise the loss. On a part of the rows the weights are at most divided by the part's share of them, and so is the bound.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.special
from jaxtyping import Float, Int

FINE, RATIO = 20, 1.05
"""Steps that are all kept, and the ratio of those kept after them: a stopping time is known to five percent."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Rows `A` with their last column for the intercept (or none), `(n, p)`; which class, `(n, k)`; weights of sum one.

    `k` is 1 for two classes (1 for the later one), and the number of classes else.
    """

    A: Float[np.ndarray, "n p"]
    Y: Float[np.ndarray, "n k"]
    c: Float[np.ndarray, " n"]

    def scores(self, W: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "n k"]:
        return self.A @ W

    def log_loss(self, W: Float[np.ndarray, "p k"]) -> float:
        """Mean negative log probability of the right class."""
        scores = self.scores(W)
        if scores.shape[1] == 1:
            losses = np.logaddexp(0.0, np.where(self.Y > 0, -scores, scores))[:, 0]
        else:
            losses = scipy.special.logsumexp(scores, axis=1) - (self.Y * scores).sum(axis=1)
        return float(self.c @ losses)

    def error(self, W: Float[np.ndarray, "p k"]) -> float:
        """Share of the weight on rows whose class is not the predicted one."""
        scores = self.scores(W)
        if scores.shape[1] == 1:
            wrong = (scores > 0)[:, 0] != (self.Y > 0)[:, 0]
        else:
            wrong = scores.argmax(axis=1) != self.Y.argmax(axis=1)
        return float(self.c @ wrong)


def hessian_bound(A: Float[np.ndarray, "n p"], c: Float[np.ndarray, " n"], n_columns: int) -> float:
    """`h lambda_max(A'CA)`, see the head of this page."""
    return (0.25 if n_columns == 1 else 0.5) * largest_eigenvalue(A, c)


def largest_eigenvalue(A: Float[np.ndarray, "n p"], c: Float[np.ndarray, " n"]) -> float:
    """`lambda_max(A'CA)`."""
    rows = np.sqrt(c)[:, None] * A
    return float(np.linalg.norm(rows, 2)) ** 2 if rows.size else 0.0


def start(Y: Float[np.ndarray, "n k"], c: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """The constant scores of least loss: the log odds of the later class, or the log shares less their mean."""
    shares = c @ Y
    if shares.size == 1:
        return np.log(shares) - np.log(c @ (1 - Y))
    logs = np.log(shares)
    return logs - logs.mean()


def marks(max_steps: int) -> Int[np.ndarray, " m"]:
    """The steps that are kept: 0, the first ones, then in equal ratios to the last."""
    fine = np.arange(min(FINE, max_steps) + 1)
    if max_steps <= FINE:
        return fine
    n_ratios = int(np.ceil(np.log(max_steps / FINE) / np.log(RATIO)))
    return np.unique(np.concatenate([fine, np.rint(np.geomspace(FINE, max_steps, n_ratios + 1)).astype(int)]))


def descend(
    part: Part, W: Float[np.ndarray, "p k"], *, step_size: float, marks: Iterable[int]
) -> Iterator[Float[np.ndarray, "p k"]]:
    """The weights after each of `marks` steps (ascending), from `W`; each is an array of its own."""
    W, done = np.ascontiguousarray(W.T), 0  # a class a row: sums and maxima over the classes run along the memory
    A, push = np.ascontiguousarray(part.A.T), step_size * part.c
    residual = _residual(part.Y)
    for mark in marks:
        for _ in range(mark - done):
            R = residual(W @ A)
            R *= push
            W -= R @ part.A
        done = mark
        yield W.T.copy()


def _residual(Y: Float[np.ndarray, "n k"]) -> Callable[[Float[np.ndarray, "k n"]], Float[np.ndarray, "k n"]]:
    """Probabilities less `Y`, of scores, without the cancellation in rows that are right by far."""
    if Y.shape[1] == 1:
        sign = 1 - 2 * Y.T
        return lambda scores: sign * scipy.special.expit(sign * scores)
    own = Y.argmax(axis=1), np.arange(len(Y))

    def residual(scores: np.ndarray) -> np.ndarray:
        scores -= scores.max(axis=0)
        others = np.exp(scores, out=scores)
        others /= others.sum(axis=0)
        others[own] = 0.0
        others[own] = -others.sum(axis=0)
        return others

    return residual
