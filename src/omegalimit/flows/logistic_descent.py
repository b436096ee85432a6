"""Gradient descent on a separable loss from zero, step by step, for one data set or many at once.

    w <- w - eta grad L(w),   L(w) = sum_i c_i l(z_i'w),   w_0 = 0,   z_i = y_i x_i.

Every gradient lies in the span of the rows, so with `w = Z'alpha` and `K = ZZ'` the same iteration is

    alpha_i <- alpha_i + eta c_i s((K alpha)_i),   s(m) = -l'(m):   1/(1 + e^m) logistic,  e^{-m} exponential:

one product with a symmetric matrix a step, n^2 numbers of which one triangle is read, where the weights themselves cost
2 n d. The steps of one data set follow each other while its matrix is in the cache; only small ones of a batch step
together, as many as the cache holds. (Derived here; a rewriting, not an approximation: both give the same weights to
rounding.)

The rounding is not the same, though. In dual coordinates alpha grows without end, and the margins are sums of
`z_i'z_j alpha_j`, whose squares hide how nearly opposite rows differ: rows (1, 0) and (-1, 1e-8) have margins of zero
there. In primal coordinates such sums cancel in each step's gradient, before anything has grown. `margin_errors` has
the size of either; `coordinates="auto"` takes primal ones where dual ones lost a margin.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count, shape_text, to_float64
from .._threads import one_blas_thread
from ..trajectory import Cost
from ._logistic_door import check_data, check_marks, check_steps, check_weights
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

_EPS = float(np.finfo(float).eps)
_HIDDEN = 1e-3  # share of a margin that its rounding may be, before primal coordinates are taken


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LogisticDescent:
    """Gradient descent at some of its steps. `*B` is empty for one data set, and `B` for a batch of so many.

    - `marks`: the steps kept, ascending, shape (T,); `step_size`: eta, shape (*B,).
    - `margins`: `z_i'w` at the marks, shape (*B, T, n): NaN from the mark on at which a run left the range of doubles,
      as the exponential loss lets it.
    - `alpha`: the coordinates with `w = Z'alpha`, shape (*B, T, n).
    - `loss`: its name; `weights`: c, shape (*B, n); `coordinates`: `"dual"` or `"primal"`, what was iterated.
    - `lengths`: `|z_i|`, shape (*B, n).
    - `n_bytes`: of the matrix, read in all the steps; `setup_seconds`: CPU seconds for Gram matrices and step sizes;
      `cost`: of the steps alone.
    """

    marks: Int[np.ndarray, " T"]
    step_size: Float[np.ndarray, "*B"]
    margins: Float[np.ndarray, "*B T n"]
    alpha: Float[np.ndarray, "*B T n"]
    weights: Float[np.ndarray, "*B n"]
    lengths: Float[np.ndarray, "*B n"] = dataclasses.field(repr=False)
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
    def margin_errors(self) -> Float[np.ndarray, "*B T n"]:
        """Rounding errors of `margins`, in size, an estimate to first order: what is below them is not known.

        In dual coordinates `f |z_i| sum_j |z_j| alpha_j`, in primal ones `sum_l |z_il| (f |w_l| + 16 eps v_l)` with
        `v = eta sum_j c_j |z_j|`, as large as a step; `f = (16 + 4 sqrt k) eps` after k steps: roundings add up as
        random signs do, and descent damps them. (Derived here, the numbers measured against descent in longer doubles.)
        """
        factor = _rounding(self.marks)[:, None]
        if self.coordinates == "dual":
            sums = np.einsum("...ti,...i->...t", np.abs(self.alpha), self.lengths)
            return factor * sums[..., None] * self.lengths[..., None, :]
        assert self.rows is not None  # primal coordinates are those of the rows
        with one_blas_thread():
            sizes, c = np.abs(self.rows), self.step_size[..., None] * self.weights
            step = (c[..., None, :] @ sizes)[..., 0, :]
            return (factor * np.abs(self.coef()) + 16 * _EPS * step[..., None, :]) @ np.swapaxes(sizes, -1, -2)

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

    def coef(self, marks: Sequence[int] | slice | int = slice(None)) -> Float[np.ndarray, "..."]:
        """The weights w at all marks, or at those with the given indices, shape (*B, T, d); at one, (*B, d).

        Raises `ValueError` when only Gram matrices were given: take `alpha`, and the rows where you have them.
        """
        if self.rows is None:
            raise ValueError(
                "only a Gram matrix was given, and the weights need the rows: multiply `alpha` by them, `alpha @ Z`."
            )
        chosen = np.arange(self.marks.size)[marks]
        with one_blas_thread():
            W = self.alpha[..., np.atleast_1d(chosen), :] @ self.rows
        return W if np.ndim(chosen) else W[..., 0, :]

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
    - `coordinates`: `"dual"`, `"primal"`, or `"auto"`: dual where that is less work, the Gram matrix counted; and then
      primal after all where rounding is more than a thousandth of the last margin of some row.

    A run that leaves the range of doubles is a value: see `LogisticDescent.margins`. Raises `ValueError` for shapes
    that do not fit, entries that are not finite, rows that are all zero, a `gram` with an eigenvalue below zero,
    options out of range, and units in which the step size or alpha leave the range of doubles.
    """
    began = time.process_time()
    data, is_gram = check_data(Z, gram)
    shape, batch = data.shape, data.ndim == 3
    data = data if batch else data[None]
    B, n = data.shape[:2]
    check_count(n_steps, "n_steps", least=1)
    kept = check_marks(marks, n_steps)
    c = check_weights(weights, shape[:-1]).reshape(B, n)
    if loss not in SLOPES:
        raise ValueError(f"`loss` must be one of {', '.join(SLOPES)}; got {loss!r}.")
    if coordinates not in ("auto", "dual", "primal"):
        raise ValueError(f"`coordinates` must be auto, dual or primal; got {coordinates!r}.")
    if coordinates == "primal" and is_gram:
        raise ValueError("primal coordinates need the rows `Z`; a Gram matrix has only dual ones.")
    if step_size is None and loss != "logistic":
        raise ValueError("the exponential loss has no largest curvature to take a step size from; pass `step_size`.")
    given = None if step_size is None else check_steps(step_size, shape[:-2]).reshape(B)
    dual = is_gram or coordinates == "dual" or (coordinates == "auto" and dual_is_less_work(n, data.shape[2], n_steps))

    run = _run(data, is_gram, dual, c, given, kept, loss, batch)
    if dual and coordinates == "auto" and not is_gram and _hidden(run, c, n_steps):
        dual, more = False, run.seconds
        run = _run(data, is_gram, dual, c, given, kept, loss, batch)
        run.seconds += more
    n_done = B * int(kept[-1])  # nothing is run beyond the last mark
    cost = Cost(n_evaluations=n_done, n_steps=n_done, n_rejected=0, cpu_seconds=run.seconds)
    return LogisticDescent(
        marks=kept,
        step_size=run.eta.reshape(shape[:-2]),
        margins=run.margins.reshape(*shape[:-2], len(kept), n),
        alpha=run.alpha.reshape(*shape[:-2], len(kept), n),
        weights=c.reshape(shape[:-1]),
        lengths=run.lengths.reshape(shape[:-1]),
        loss=loss,
        coordinates="dual" if dual else "primal",
        n_bytes=run.n_bytes,
        setup_seconds=time.process_time() - began - run.seconds,
        cost=cost,
        rows=None if is_gram else data.reshape(shape),
    )


@dataclasses.dataclass
class _Run:
    """All data sets in one kind of coordinates, filled one after the other."""

    eta: np.ndarray
    lengths: np.ndarray
    margins: np.ndarray
    alpha: np.ndarray
    n_bytes: int = 0
    seconds: float = 0.0


def _run(data, is_gram, dual, c, given, kept, loss, batch) -> _Run:
    B, n = c.shape
    n_steps, slope = int(kept[-1]), SLOPES[loss]
    empty = np.full((B, len(kept), n), np.nan)
    run = _Run(eta=np.empty(B), lengths=np.empty((B, n)), margins=empty, alpha=empty.copy())
    together = max(1, CACHE // (8 * n * n)) if dual and n <= TOGETHER else 1
    with one_blas_thread():
        for first in range(0, B, together):
            group = slice(first, min(first + together, B))
            matrices, units = [], []
            for b in range(group.start, group.stop):
                of = f"of data set {b} " if batch else ""
                matrix, unit_step, run.eta[b], run.lengths[b] = scaled_problem(
                    data[b], is_gram, dual, c[b], None if given is None else given[b], of
                )
                matrices.append(matrix)
                units.append(unit_step)
            started, out = time.process_time(), (run.margins[group], run.alpha[group])
            if not dual:
                run.n_bytes += n_steps * 16 * matrices[0].size
                primal_steps(matrices[0], units[0], c[first], kept, slope, out[0][0], out[1][0])
            elif n <= TOGETHER:
                run.n_bytes += n_steps * 8 * n * n * len(matrices)
                steps_together(np.stack(matrices), c[group], kept, slope, *out)
            else:
                run.n_bytes += n_steps * 8 * (n * (n + 1) // 2)
                dual_steps(matrices[0], c[first], kept, slope, out[0][0], out[1][0])
            run.seconds += time.process_time() - started
        with np.errstate(over="ignore", invalid="ignore"):
            run.alpha *= run.eta[:, None, None]
    if (np.isfinite(run.margins) & ~np.isfinite(run.alpha)).any():
        raise ValueError(
            "the coordinates alpha leave the range of doubles in these units; divide "
            f"`{'gram' if is_gram else 'Z'}` by its largest entry."
        )
    return run


def _hidden(run: _Run, c: np.ndarray, n_steps: int) -> bool:
    """Whether rounding in dual coordinates is a noticeable part of some row's last margin."""
    sizes = run.lengths * (run.alpha[:, -1] * run.lengths).sum(axis=-1, keepdims=True)
    lost = _rounding(n_steps) * sizes > _HIDDEN * np.abs(run.margins[:, -1])
    return bool((lost & (c > 0) & (run.lengths > 0)).any())


def _rounding(n_steps):
    """See `LogisticDescent.margin_errors`."""
    return (16 + 4 * np.sqrt(n_steps)) * _EPS
