"""Gradient descent on a separable loss from zero, step by step, for one data set or many at once.

    w <- w - eta grad L(w),   L(w) = sum_i c_i l(z_i'w),   w_0 = 0,   z_i = y_i x_i.

Every gradient lies in the span of the rows, so with `w = Z'alpha` and `K = ZZ'` the same iteration is

    alpha_i <- alpha_i + eta c_i s((K alpha)_i),   s(m) = -l'(m):   1/(1 + e^m) logistic,  e^{-m} exponential:

one product with a symmetric matrix a step, n^2 numbers of which one triangle is read, where the weights themselves cost
2 n d. The steps of one data set follow each other while its matrix is in the cache; only small ones of a batch step
together, as many as the cache holds. (Derived here; a rewriting, not an approximation: both give the same weights to
rounding.)
"""

import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count, check_finite, shape_text, to_float64
from .._threads import one_blas_thread
from ..trajectory import Cost
from ._logistic_steps import (
    CACHE,
    SLOPES,
    TOGETHER,
    dual_is_less_work,
    dual_steps,
    primal_steps,
    scaled_problem,
    steps_together,
)

N_MARKS = 80


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LogisticDescent:
    """Gradient descent at some of its steps. `*B` is empty for one data set, and `B` for a batch of so many.

    - `marks`: the steps kept, ascending, shape (T,); `step_size`: eta, shape (*B,).
    - `margins`: `z_i'w` at the marks, shape (*B, T, n): NaN from the mark on at which a run left the range of doubles,
      as the exponential loss lets it.
    - `alpha`: the coordinates with `w = Z'alpha`, shape (*B, T, n).
    - `loss`: its name; `weights`: c, shape (*B, n); `coordinates`: `"dual"` or `"primal"`, what was iterated.
    - `n_bytes`: of the matrix, read in all the steps; `setup_seconds`: CPU seconds for Gram matrices and step sizes;
      `cost`: of the steps alone.
    """

    marks: Int[np.ndarray, " T"]
    step_size: Float[np.ndarray, "*B"]
    margins: Float[np.ndarray, "*B T n"]
    alpha: Float[np.ndarray, "*B T n"]
    weights: Float[np.ndarray, "*B n"]
    loss: str
    coordinates: str
    n_bytes: int
    setup_seconds: float
    cost: Cost
    rows: Float[np.ndarray, "*B n d"] | None = dataclasses.field(repr=False)

    @property
    def log_time(self) -> Float[np.ndarray, "*B T"]:
        """Natural log of `eta` times the steps: the flow's time that descent stands beside."""
        return np.log(self.step_size)[..., None] + np.log(self.marks)

    @property
    def left_range(self) -> Any:
        """Which runs left the range of doubles before their last mark, shape (*B,)."""
        return np.isnan(self.margins).any(axis=(-2, -1))

    @property
    def train_error(self) -> Float[np.ndarray, "*B T"]:
        """Share of the weights c on rows with `z_i'w <= 0`; NaN where a run had left the range."""
        wrong = np.where(np.isnan(self.margins), np.nan, self.margins <= 0)
        return np.einsum("...ti,...i->...t", wrong, self.weights) / self.weights.sum(axis=-1)[..., None]

    @property
    def train_loss(self) -> Float[np.ndarray, "*B T"]:
        """`sum_i c_i l(z_i'w)`; it underflows late, where the margins themselves do not."""
        values = np.logaddexp(0, -self.margins) if self.loss == "logistic" else np.exp(-self.margins)
        return np.einsum("...ti,...i->...t", values, self.weights)

    def coef(self, marks: Sequence[int] | slice | int = slice(None)) -> Float[np.ndarray, "*B T d"]:
        """The weights w at all marks, or at those with the given indices: shape (*B, T, d).

        Raises `ValueError` when only Gram matrices were given: take `alpha`, and the rows where you have them.
        """
        if self.rows is None:
            raise ValueError(
                "only a Gram matrix was given, and the weights need the rows: multiply `alpha` by them, `alpha @ Z`."
            )
        with one_blas_thread():
            return self.alpha[..., marks, :] @ self.rows

    def outputs(self, cross: Float[np.ndarray, "*B m n"]) -> Float[np.ndarray, "*B T m"]:
        """`x_j'w` at the marks for other points, from `cross = X Z'`: hold-out margins, once times their labels."""
        cross = to_float64(cross, "cross")[0]
        if cross.ndim != self.alpha.ndim or cross.shape[:-2] + cross.shape[-1:] != self.weights.shape:
            batch = "".join(f"{k}, " for k in self.weights.shape[:-1])
            raise ValueError(
                f"`cross` must have shape ({batch}m, {self.weights.shape[-1]}), one column for each row of the "
                f"training data; got {shape_text(cross.shape)}."
            )
        with one_blas_thread():
            return self.alpha @ np.swapaxes(cross, -1, -2)


def logistic_descent(
    Z: Float[np.ndarray, "*B n d"] | None = None,
    *,
    n_steps: int,
    gram: Float[np.ndarray, "*B n n"] | None = None,
    step_size: float | Float[np.ndarray, "*B"] | None = None,
    marks: Sequence[int] | None = None,
    weights: Float[np.ndarray, "*B n"] | None = None,
    coordinates: str = "auto",
    loss: str = "logistic",
) -> LogisticDescent:
    """`n_steps` of gradient descent from zero, kept at `marks`.

    - `Z`: rows `y_i x_i`, shape (n, d), or (B, n, d) for a batch; or, in its place, `gram`: `ZZ'`, (n, n) or (B, n, n).
    - `step_size`: eta, one number or one for each of the batch. Not given: `4 / lam_max(sum_i c_i z_i z_i')`, one over
      the largest curvature that the logistic loss can have, so that the loss falls at every step; with c = 1/n that is
      `4 / lam_max(X'X/n)`. The exponential loss has no such bound, and needs one given.
    - `marks`: ascending steps from 1 to `n_steps`; not given, about 80 of them, evenly spread in the logarithm.
    - `weights`: c, positive or zero, shape (n,), or (B, n); not given, 1/n.
    - `coordinates`: `"dual"`, `"primal"`, or `"auto"`: dual where that is less work, the Gram matrix counted.

    A run that leaves the range of doubles is a value: see `LogisticDescent.margins`. Raises `ValueError` for shapes
    that do not fit, entries that are not finite, rows that are all zero, or options out of range.
    """
    began = time.process_time()
    data, is_gram = _data(Z, gram)
    shape, batch = data.shape, data.ndim == 3
    data = data if batch else data[None]
    B, n = data.shape[:2]
    check_count(n_steps, "n_steps", least=1)
    kept = _marks(marks, n_steps)
    c = _weights(weights, shape[:-1]).reshape(B, n)
    if loss not in SLOPES:
        raise ValueError(f"`loss` must be one of {', '.join(SLOPES)}; got {loss!r}.")
    if coordinates not in ("auto", "dual", "primal"):
        raise ValueError(f"`coordinates` must be auto, dual or primal; got {coordinates!r}.")
    if coordinates == "primal" and is_gram:
        raise ValueError("primal coordinates need the rows `Z`; a Gram matrix has only dual ones.")
    if step_size is None and loss != "logistic":
        raise ValueError("the exponential loss has no largest curvature to take a step size from; pass `step_size`.")
    given = None if step_size is None else _steps(step_size, shape[:-2]).reshape(B)
    dual = is_gram or coordinates == "dual" or (coordinates == "auto" and dual_is_less_work(n, data.shape[2], n_steps))

    eta, seconds, n_bytes = np.empty(B), 0.0, 0
    margins, alpha = np.full((B, len(kept), n), np.nan), np.full((B, len(kept), n), np.nan)
    together = max(1, CACHE // (8 * n * n)) if dual and n <= TOGETHER else 1
    with one_blas_thread():
        for first in range(0, B, together):
            group = slice(first, min(first + together, B))
            matrices, units = [], []
            for b in range(group.start, group.stop):
                of = f"of data set {b} " if batch else ""
                matrix, unit_step, eta[b] = scaled_problem(
                    data[b], is_gram, dual, c[b], None if given is None else given[b], of
                )
                matrices.append(matrix)
                units.append(unit_step)
            started, out = time.process_time(), (margins[group], alpha[group])
            if not dual:
                n_bytes += n_steps * 16 * matrices[0].size
                primal_steps(matrices[0], units[0], c[first], kept, SLOPES[loss], out[0][0], out[1][0])
            elif n <= TOGETHER:
                n_bytes += n_steps * 8 * n * n * len(matrices)
                steps_together(np.stack(matrices), c[group], kept, SLOPES[loss], *out)
            else:
                n_bytes += n_steps * 8 * (n * (n + 1) // 2)
                dual_steps(matrices[0], c[first], kept, SLOPES[loss], out[0][0], out[1][0])
            seconds += time.process_time() - started
        alpha *= eta[:, None, None]
    cost = Cost(n_evaluations=B * n_steps, n_steps=B * n_steps, n_rejected=0, cpu_seconds=seconds)
    return LogisticDescent(
        marks=kept,
        step_size=eta.reshape(shape[:-2]),
        margins=margins.reshape(*shape[:-2], len(kept), n),
        alpha=alpha.reshape(*shape[:-2], len(kept), n),
        weights=c.reshape(shape[:-1]),
        loss=loss,
        coordinates="dual" if dual else "primal",
        n_bytes=n_bytes,
        setup_seconds=time.process_time() - began - seconds,
        cost=cost,
        rows=None if is_gram else data.reshape(shape),
    )


def _data(Z: object, gram: object) -> tuple[np.ndarray, bool]:
    if (Z is None) == (gram is None):
        raise ValueError("pass either the rows `Z` or their `gram` matrix, one of the two.")
    name, value, axes = ("Z", Z, "n, d") if gram is None else ("gram", gram, "n, n")
    # A batch is large: it is copied only where it must be converted.
    array = value if isinstance(value, np.ndarray) and value.dtype == np.float64 else to_float64(value, name)[0]
    if array.ndim not in (2, 3):
        raise ValueError(f"`{name}` must have shape ({axes}), or (B, {axes}); got {shape_text(array.shape)}.")
    if not array.size:
        raise ValueError(f"`{name}` has shape {shape_text(array.shape)}: there is nothing in it.")
    check_finite(array, name)
    if gram is None:
        return array, False
    if array.shape[-1] != array.shape[-2]:
        raise ValueError(f"`gram` must be square in its last two axes; got {shape_text(array.shape)}.")
    size = np.abs(array).max()
    off = np.abs(array - np.swapaxes(array, -1, -2)).max()
    if off > 1e3 * array.shape[-1] * np.finfo(float).eps * size:  # sums of products, rounded in another order
        raise ValueError(f"`gram` is not symmetric: entries that should be equal differ by up to {off:g}.")
    return array, True


def _marks(marks: object, n_steps: int) -> Int[np.ndarray, " T"]:
    if marks is None:
        return np.unique(np.round(np.geomspace(1, n_steps, N_MARKS)).astype(int))
    array = to_float64(marks, "marks")[0]
    whole = array.ndim == 1 and array.size > 0 and np.array_equal(array, np.floor(array))
    if not whole or array[0] < 1 or array[-1] > n_steps or not np.all(np.diff(array) > 0):
        raise ValueError(
            f"`marks` must be ascending whole numbers from 1 to `n_steps` = {n_steps}; got {array.tolist()!r}."
        )
    return array.astype(int)


def _weights(weights: object, shape: tuple[int, ...]) -> np.ndarray:
    if weights is None:
        return np.full(shape, 1 / shape[-1])
    array = to_float64(weights, "weights")[0]
    if array.shape not in (shape, shape[-1:]):
        raise ValueError(
            f"`weights` must have shape {shape_text(shape[-1:])}, one for each row"
            + (f", or {shape_text(shape)}" if len(shape) > 1 else "")
            + f"; got {shape_text(array.shape)}."
        )
    check_finite(array, "weights")
    array = np.array(np.broadcast_to(array, shape))
    if (array < 0).any() or not (array.max(axis=-1) > 0).all():
        raise ValueError(
            f"`weights` must not be negative, and not all zero; the least is {array.min():g}, the largest "
            f"{array.max():g}."
        )
    return array


def _steps(step_size: object, shape: tuple[int, ...]) -> np.ndarray:
    array = to_float64(step_size, "step_size")[0]
    if array.shape not in ((), shape):
        of = f", or one for each data set, shape {shape_text(shape)}" if shape else ""
        raise ValueError(f"`step_size` must be one number{of}; got shape {shape_text(array.shape)}.")
    array = np.array(np.broadcast_to(array, shape))
    if not (np.isfinite(array) & (array > 0)).all():
        bad = array[~(np.isfinite(array) & (array > 0))].flat[0]
        raise ValueError(f"`step_size` must be positive and finite; got {math.nan if np.isnan(bad) else float(bad)!r}.")
    return array
