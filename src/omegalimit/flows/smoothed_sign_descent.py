"""Stability-annealed smoothed sign descent on linear classification, in primal and in dual coordinates at once.

    L(w) = sum_i c_i l(z_i'w),   g = -grad L(w),
    w+ = w + eta g / (|g| + eps)  in every coordinate,      eps+ = eps e^{-kappa eta},      S = sum of the step sizes.

In dual coordinates `lambda_i = c_i (-l'(z_i'w)) / eps` the step is `v = u / (1 + |u|)` with `u = Z'lambda`. For the
exponential loss, and for it alone, lambda has a recursion of its own, in which w does not occur:

    lambda+ = lambda exp(eta (kappa - Z v)),

which is unnormalised entropic mirror ascent, with the step eta, on the concave function
`kappa 1'lambda - sum_j (|u_j| - log(1 + |u_j|))`. (The abstract of stability-annealed smoothed sign descent states
that the iteration is entropic mirror ascent on a concave dual. The update above, the schedule of eps and these
formulas are a reconstruction that was derived here: the authors' own were not read.)

The state is log lambda, so that nothing under- or overflows at any S, for any kappa >= 0. w is the sum of the same
steps, and the run says how far the two are from what they should be of each other: lambda computed from w against the
recursion (`identity_residual`), and the update as its user writes it, from w and eps, against `u / (1 + |u|)`
(`map_residual`). These are computed in NumPy, from the states; the steps are compiled.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count, check_finite, check_ndim, shape_text, to_float64
from .._numerics import double_precision
from ..losses import loss_named
from ..trajectory import Cost
from ._separable_checks import check_start_margins, checked_rows, checked_start, checked_weights

_EPS = float(np.finfo(float).eps)
_CHUNK_NUMBERS = 1_000_000  # numbers that a chunk of steps hands over, so that memory does not grow with the steps


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SignSteps:
    """T consecutive steps, as `observe` sees them; before step t the state is row t, after it row t + 1.

    - `step`: how many steps were taken before each, shape (T,); `step_size`: shape (T,).
    - `S`: sums of the step sizes, shape (T + 1,); `w`: shape (T + 1, d); `log_lambda`: shape (T + 1, n).
    - `v`: the smoothed signs that were taken, shape (T, d).
    """

    step: Int[np.ndarray, " T"]
    step_size: Float[np.ndarray, " T"]
    S: Float[np.ndarray, " T+1"]
    w: Float[np.ndarray, "T+1 d"]
    log_lambda: Float[np.ndarray, "T+1 n"]
    v: Float[np.ndarray, "T d"]

    @property
    def before(self) -> Float[np.ndarray, "T n"]:
        """log lambda before each step."""
        return self.log_lambda[:-1]

    @property
    def after(self) -> Float[np.ndarray, "T n"]:
        """log lambda after each step."""
        return self.log_lambda[1:]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SmoothedSignDescent:
    """Where smoothed sign descent came to; K states are kept, the start, the last and some between, log-spaced.

    - `steps`: how many steps were taken, shape (K,); `S`: the sum of their sizes, shape (K,).
    - `w`: shape (K, d); `v`: the smoothed sign at that state, which the next step takes, shape (K, d).
    - `log_lambda`: shape (K, n); `log_eps`: shape (K,).
    - `kl_sum`: `sum_t KL(lambda_t, lambda_{t+1})` over the steps so far, shape (K,), see `kl_divergence`.
    - `identity_residual`: the largest `|log lambda - log lambda'|` over steps and rows, lambda from w and eps, lambda'
      from the recursion alone. Rounding for the exponential loss; for others it says how far the recursion is off.
      `identity_slack`: what rounding explains of it, first order.
    - `map_residual`: the largest difference, over steps and coordinates, between `g / (|g| + eps)`, from w, and v;
      `map_slack`: what rounding explains of it, first order (a coordinate in which rows cancel has more of it).
    - `crossover_step`: steps before the first state with `max_j |g_j| < eps`, or `None`; `crossover_S`: S there, NaN
      without one. From it on a fixed eps has descent turn into gradient descent.
    """

    rate: float
    loss: str
    steps: Int[np.ndarray, " K"]
    S: Float[np.ndarray, " K"]
    w: Float[np.ndarray, "K d"]
    v: Float[np.ndarray, "K d"]
    log_lambda: Float[np.ndarray, "K n"]
    log_eps: Float[np.ndarray, " K"]
    kl_sum: Float[np.ndarray, " K"]
    identity_residual: float
    identity_slack: float
    map_residual: float
    map_slack: float
    crossover_step: int | None
    crossover_S: float
    cost: Cost

    @property
    def normalised(self) -> Float[np.ndarray, "K d"]:
        """`w / S`; NaN before the first step."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.S[:, None] > 0, self.w / self.S[:, None], np.nan)


def kl_divergence(log_a: Float[np.ndarray, "... n"], log_b: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "..."]:
    """`sum_i a_i log(a_i / b_i) - a_i + b_i` from logs, along the last axis; no cancellation where a is near b.

    With `x = log b - log a` each term is `a (e^x - 1 - x)`, whose bracket is a series for small x.
    """
    log_a, log_b = np.broadcast_arrays(log_a, log_b)
    x = log_b - log_a
    near = np.where(np.abs(x) < 0.5, x, 0.0)
    series = np.ones_like(near)
    for k in range(18, 2, -1):  # x^2 / 2 (1 + x/3 (1 + x/4 (...))), to rounding for |x| < 1/2
        series = 1 + near / k * series
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        a = np.exp(log_a)
        # By b where a e^x is a small number times a large one; by a where both are beyond doubles.
        far = np.where((x > 1) & (log_a < 0), np.exp(log_b) - a * (1 + x), a * (np.expm1(x) - x))
        terms = np.where(np.abs(x) < 0.5, a * near * near / 2 * series, far)
    return np.where(x == 0, 0.0, terms).sum(axis=-1)


@functools.partial(jax.jit, static_argnames="logistic")
def _scan(Z, log_c, rate, carry, etas, *, logistic: bool):
    small = Z.size <= 4096

    # Sums of products in place of calls of BLAS: a call costs more than a small product.
    def apply(w):
        return jnp.sum(Z * w, axis=1) if small else Z @ w

    def combine(p):
        return jnp.sum(Z * p[:, None], axis=0) if small else p @ Z

    def body(carry, eta):
        w, w_low, a, a_low = carry
        log_lambda = a - jax.nn.softplus(-apply(w)) if logistic else a
        M = jnp.max(log_lambda)
        u = combine(jnp.exp(log_lambda - M))
        size = jnp.abs(u)
        v = jnp.where(size > 0, u / (size + jnp.exp(-M)), 0.0)
        w, w_low = _add(w, w_low, eta * v)
        a, a_low = _add(a, a_low, eta * (rate - apply(v)))
        return (w, w_low, a, a_low), (w, a, v)

    return jax.lax.scan(body, carry, etas)


def _add(total, low, term):
    """One term of a compensated sum: `low` is what rounding has taken from `total`."""
    term = term + low
    new = total + term
    return new, term - (new - total)


def smoothed_sign_descent(
    Z: Float[np.ndarray, "n d"],
    *,
    rate: float,
    step_size: float | Float[np.ndarray, " T"],
    n_steps: int,
    weights: Float[np.ndarray, " n"] | None = None,
    eps0: float = 1.0,
    start: Float[np.ndarray, " d"] | None = None,
    loss: str = "exponential",
    observe: Callable[[SignSteps], None] | None = None,
    n_kept: int = 50,
) -> SmoothedSignDescent:
    """`n_steps` steps from `start` (zero when not given) on the rows `Z = y_i x_i`.

    - `rate`: kappa >= 0; 0 keeps eps fixed. A rate above the largest l-infinity margin is run as any other: eps then
      falls faster than the gradient, and the steps become signs.
    - `step_size`: eta > 0, a number or one for each step, shape (n_steps,); a step of 0 changes nothing.
    - `weights`: c > 0, shape (n,), ones when not given; `eps0` > 0; `loss`: `"exponential"` or `"logistic"`.
    - `observe`: called with every step that was taken, in order, some hundreds or thousands at a time.
    - `n_kept`: about how many states are kept.

    Raises `ValueError` for values out of range, shapes that do not fit and entries that are not finite; `TypeError`
    for what is no number, or no function.
    """
    Z = checked_rows(Z)
    n, d = Z.shape
    c = checked_weights(weights, Z, default=1.0)
    w0 = checked_start(start, (d,))
    check_start_margins(w0, Z)
    if observe is not None and not callable(observe):
        raise TypeError(f"`observe` must be a function that is called with the steps taken, or None; got {observe!r}.")
    n_steps, n_kept = check_count(n_steps, "n_steps", least=1), check_count(n_kept, "n_kept", least=2)
    rate = _number(rate, "rate")
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"`rate` must be finite and at least 0; got {rate!r}.")
    eps0 = _number(eps0, "eps0")
    if not (math.isfinite(eps0) and eps0 > 0):
        raise ValueError(f"`eps0` must be positive and finite; got {eps0!r}.")
    logistic = loss_named(loss).name == "logistic"
    etas, S = _steps(step_size, n_steps)
    with np.errstate(over="ignore", invalid="ignore"):
        # |v| <= 1 bounds every margin; a hundredth of the range is left to sums.
        largest = np.abs(Z).sum(axis=1).max() * (np.abs(w0).max() + S[-1]) + rate * S[-1]
    if not largest < 1e306:
        raise ValueError(
            f"Margins after {n_steps} steps may leave double precision: `Z` has entries up to {np.abs(Z).max():.1e}, "
            f"`start` up to {np.abs(w0).max():.1e}, and the steps sum to {S[-1]:.1e}, at the rate {rate:.1e}; "
            "take smaller ones."
        )
    cpu = time.process_time()
    log_c, log_eps = np.log(c), math.log(eps0) - rate * S
    check = _Check(Z, log_c, logistic, w0, log_eps[0])
    marks = np.unique(np.concatenate([[0], np.round(np.geomspace(1, n_steps, n_kept)).astype(int)]))
    size = min(n_steps, max(1, min(8192, _CHUNK_NUMBERS // (n + 2 * d))))
    kept = _Kept(marks)
    kept.add(0, w0[None], check.start[None], np.zeros(1))
    carry, a_last, w_last = (w0, np.zeros(d), check.linear_start, np.zeros(n)), check.linear_start, w0
    log_lambda, kl_total, crossover = check.start, 0.0, None
    for first in range(0, n_steps, size):
        last = min(first + size, n_steps)
        padded = np.zeros(size)  # steps of size 0 change nothing: every chunk has one length and is compiled once
        padded[: last - first] = etas[first:last]
        with double_precision():
            carry, out = _scan(Z, log_c, np.asarray(rate), carry, padded, logistic=logistic)
            carry = tuple(np.asarray(part) for part in carry)
            w, a, v = (np.asarray(part)[: last - first] for part in out)
        w, a = np.concatenate([w_last[None], w]), np.concatenate([a_last[None], a])
        logs = check.log_lambda(w, a)
        logs[0] = log_lambda
        check.see(w, a, v, logs, S[first : last + 1], log_eps[first : last + 1], rate)
        kl = kl_total + np.cumsum(kl_divergence(logs[:-1], logs[1:]))
        if crossover is None:
            below = np.flatnonzero(np.abs(v).max(axis=1) < 0.5)  # |v| = |g| / (|g| + eps)
            crossover = first + int(below[0]) if below.size else None
        kept.add(first + 1, w[1:], logs[1:], kl)
        if observe is not None:
            observe(
                SignSteps(
                    step=np.arange(first, last),
                    step_size=etas[first:last].copy(),
                    S=S[first : last + 1].copy(),
                    w=w,
                    log_lambda=logs,
                    v=v,
                )
            )
        w_last, a_last, log_lambda, kl_total = w[-1], a[-1], logs[-1], float(kl[-1])
    w, logs, kl = kept.arrays()
    v = _smoothed_signs(Z, logs)
    if crossover is None and np.abs(v[-1]).max() < 0.5:
        crossover = n_steps
    return SmoothedSignDescent(
        rate=rate,
        loss=loss,
        steps=marks,
        S=S[marks],
        w=w,
        v=v,
        log_lambda=logs,
        log_eps=log_eps[marks],
        kl_sum=kl,
        identity_residual=check.identity,
        identity_slack=check.slack,
        map_residual=check.map,
        map_slack=check.map_slack,
        crossover_step=crossover,
        crossover_S=math.nan if crossover is None else float(S[crossover]),
        cost=Cost(n_evaluations=n_steps, n_steps=n_steps, n_rejected=0, cpu_seconds=time.process_time() - cpu),
    )


class _Check:
    """The two residuals, from states alone. `a` is `log c - Z w - log eps`, which the recursion carries."""

    def __init__(self, Z: np.ndarray, log_c: np.ndarray, logistic: bool, w0: np.ndarray, log_eps0: float):
        self._Z, self._size_Z, self._log_c, self._logistic = Z, np.abs(Z), log_c, logistic
        self.linear_start = log_c - Z @ w0 - log_eps0
        self.start = self.log_lambda(w0[None], self.linear_start[None])[0]
        # The recursion, started from lambda's own start; it is what `a` is, but for this offset.
        self._offset = self.start - self.linear_start
        self._widest = self._size_Z.sum(axis=1).max()
        self.identity, self.map, self.slack, self.map_slack = 0.0, 0.0, 0.0, 0.0

    def log_lambda(self, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        """From both coordinates: what the loss adds to the exponential's `a` is a function of the margins alone."""
        return a - np.logaddexp(0.0, -(w @ self._Z.T)) if self._logistic else a.copy()

    def see(self, w, a, v, logs, S, log_eps, rate) -> None:
        margins = w @ self._Z.T
        slopes = self._log_c + (-np.logaddexp(0.0, margins) if self._logistic else -margins)
        self.identity = max(self.identity, float(np.abs(slopes - log_eps[:, None] - a - self._offset).max()))
        # Each of the sums that are compared has terms of this size; w and a are compensated, their steps are rounded.
        terms = (np.abs(w[-1]) @ self._size_Z.T).max() + S[-1] * (rate + self._widest)
        largest = terms + np.abs(log_eps[-1]) + np.abs(self._log_c).max() + np.abs(a[-1]).max()
        self.slack = max(self.slack, (w.shape[1] + 4) * _EPS * float(largest))
        # What the update says, from w and eps; the gradient is scaled to the size one, and eps with it.
        M = slopes[:-1].max(axis=1, keepdims=True)
        p = np.exp(slopes[:-1] - M)
        g = p @ self._Z
        with np.errstate(over="ignore"):
            bottom = np.abs(g) + np.exp(log_eps[:-1, None] - M)
        by_user = np.divide(g, bottom, out=np.zeros_like(g), where=bottom > 0)
        self.map = max(self.map, float(np.abs(by_user - v).max()))
        # An error of log lambda moves the update by its own size times sum_i |p_i z_ij| / (|g_j| + eps).
        condition = np.divide(p @ self._size_Z, bottom, out=np.zeros_like(g), where=bottom > 0).max()
        self.map_slack = max(self.map_slack, min(2.0, float(condition) * (self.slack + len(self._Z) * _EPS)))


class _Kept:
    """States at marked steps."""

    def __init__(self, marks: np.ndarray):
        self._marks, self._parts = marks, []

    def add(self, first: int, *arrays: np.ndarray) -> None:
        """States at the steps `first`, `first + 1`, ..."""
        here = self._marks[(self._marks >= first) & (self._marks < first + len(arrays[0]))] - first
        self._parts.append([array[here] for array in arrays])

    def arrays(self) -> list[np.ndarray]:
        return [np.concatenate(part) for part in zip(*self._parts, strict=True)]


def _smoothed_signs(Z: np.ndarray, log_lambda: np.ndarray) -> np.ndarray:
    """`u / (1 + |u|)` with `u = Z'lambda`, at each row of log lambda."""
    M = log_lambda.max(axis=1, keepdims=True)
    u = np.exp(log_lambda - M) @ Z
    with np.errstate(over="ignore"):
        bottom = np.abs(u) + np.exp(-M)
    return np.divide(u, bottom, out=np.zeros_like(u), where=bottom > 0)


def _steps(step_size: object, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The step sizes, shape (n_steps,), and their sums from 0 on."""
    eta = to_float64(step_size, "step_size")[0]
    if eta.ndim == 0:
        eta = float(eta)
        if not (math.isfinite(eta) and eta > 0):
            raise ValueError(f"`step_size` must be positive and finite; got {eta!r}.")
        with np.errstate(over="ignore"):
            return np.full(n_steps, eta), eta * np.arange(n_steps + 1)
    check_ndim(eta, "step_size", axes="n_steps")
    check_finite(eta, "step_size")
    if eta.size != n_steps:
        raise ValueError(f"`step_size` has shape {shape_text(eta.shape)}, for {n_steps} steps (`n_steps`).")
    if eta.min() < 0 or eta.max() == 0:
        raise ValueError(f"`step_size` must not be negative, nor all zero; its least entry is {eta.min():g}.")
    # In extended precision: the recursion compensates its own sums, which S is compared with.
    with np.errstate(over="ignore"):
        return eta, np.concatenate([[0.0], np.cumsum(eta.astype(np.longdouble)).astype(float)])


def _number(value: object, name: str) -> float:
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    return float(array)
