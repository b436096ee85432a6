"""Gradient descent of the squared loss of monomial nets `f = W_L (... (W_1 x)^r ...)`, from many starts at once.

    L(W) = (1 / 2n) sum_i |f(x_i) - y_i|^2,      W+ = W - eta grad L(W)

**Steps.** With `step_size` not given, each start has a step of its own, kept safe by backtracking (Armijo): a step is
taken if `L(W - eta g) <= L(W) - eta |g|^2 / 2`, and eta then grows by a quarter; otherwise nothing moves and eta is
halved. The fraction 1/2 is met by `eta <= 1 / (largest curvature on the way)`, so steps stay below the stable ones of
the flow, the loss never rises, and eta settles near the stable step wherever the run is; a start near zero, where
everything is slow, is left in a number of steps that grows with the logarithm of its size. With `step_size` given, it
is that of every start and step; what then leaves double precision has diverged, which is counted, and as nothing says
whether small moves are the end or a small step, such a run ends with its steps (or where it fits).

**Conserved.** Rescaling neuron i of hidden layer l, row times c and column times `c^-r`, changes no net, so its
generator `(w_i, -r a_i)` is orthogonal to the gradient, and gradient flow conserves

    |row_i of W_l|^2 - r |column_i of W_{l+1}|^2            (`balances`; derived here)

which descent changes by `eta^2 (|g_row|^2 - r |g_column|^2)` a step, exactly.

**How it ends.** The scale of the loss is that of the net zero, `(1 / 2n) sum |y_i|^2` (where y is zero, the loss at the
start), and nothing is compared with an absolute number:

- fitted: the loss is at most `fit_tol` of the scale;
- settled: `|W| |g|` has been at most `rtol` of the scale, and the last steps moved less than `rtol` of `|W|` each at a
  step size that backtracking had stopped from growing. A plateau near a saddle is not settled by this: there steps grow
  until they move. Saddles with a curvature that this misses are told apart by `least_curvature`;
- otherwise the steps ran out, or it diverged. Both are counted.

The descent, its steps and its ends are choices made here.
"""

import dataclasses
import enum
import functools
import itertools
import math
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, check_ndim, check_number, shape_text, to_float64
from .._numerics import double_precision
from ..models.monomial import MonomialNetwork
from ..trajectory import Cost

_GROWTH, _SHRINK, _QUIET = 1.25, 0.5, 20
_CHUNK = 512  # starts that are held at a time in the curvatures


class Arrival(enum.StrEnum):
    """How one start ended."""

    FITTED = "fitted"
    SETTLED = "settled"
    STEPS = "steps ran out"
    DIVERGED = "diverged"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MonomialDescent:
    """Where gradient descent came to from S starts.

    - `weights`, `start`: an array (S, d_l, d_{l-1}) a layer, at the end and at the start; those of a diverged start are
      the last finite ones.
    - `loss`, `start_loss`: shape (S,); `scale`: the loss of the net that is zero (with y = 0, that of each start).
    - `gradient`: `|W| |grad L|` over the scale at the end, shape (S,).
    - `arrival`: how each ended, shape (S,), the words of `Arrival`; `n_steps`: steps taken, rejected ones not counted.
    - `balance_drift`: the largest change of a neuron's balance, over the largest `|W|^2` of start and end, shape (S,).
    - `least_curvature`: the least eigenvalue of the Hessian at the end, times `|W|^2` over the scale, shape (S,); NaN
      for diverged starts. Rescalings give zeros at rest, so it is not positive there; clearly negative: a saddle.
    """

    widths: tuple[int, ...]
    degree: int
    weights: tuple[Float[np.ndarray, "S out in"], ...]
    start: tuple[Float[np.ndarray, "S out in"], ...]
    loss: Float[np.ndarray, " S"]
    start_loss: Float[np.ndarray, " S"]
    scale: Float[np.ndarray, " S"]
    gradient: Float[np.ndarray, " S"]
    arrival: np.ndarray
    n_steps: Int[np.ndarray, " S"]
    balance_drift: Float[np.ndarray, " S"]
    least_curvature: Float[np.ndarray, " S"]
    cost: Cost

    @property
    def n_starts(self) -> int:
        """S."""
        return len(self.loss)

    @property
    def settled(self) -> Bool[np.ndarray, " S"]:
        """Which starts came to rest: fitted, or settled."""
        return (self.arrival == Arrival.FITTED) | (self.arrival == Arrival.SETTLED)

    @property
    def diverged(self) -> Bool[np.ndarray, " S"]:
        """Which starts left double precision."""
        return self.arrival == Arrival.DIVERGED

    @property
    def relative_loss(self) -> Float[np.ndarray, " S"]:
        """The loss over its scale; 1 is the net that is zero. NaN where the scale is zero."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.loss / self.scale

    @property
    def count(self) -> dict[str, int]:
        """How many starts ended in each way."""
        return {str(how): int((self.arrival == how).sum()) for how in Arrival}

    def net(self, start: int) -> tuple[Float[np.ndarray, "out in"], ...]:
        """The weights at the end of one start."""
        return tuple(W[start] for W in self.weights)


def balances(weights: Sequence[np.ndarray], degree: int) -> tuple[np.ndarray, ...]:
    """`|row_i of W_l|^2 - r |column_i of W_{l+1}|^2` of every hidden neuron: an array (..., d_l) a hidden layer."""
    return tuple(
        (W * W).sum(axis=-1) - degree * (after * after).sum(axis=-2) for W, after in itertools.pairwise(weights)
    )


def monomial_descent(
    X: ArrayLike,
    y: ArrayLike,
    widths: Sequence[int],
    degree: int,
    *,
    n_starts: int = 100,
    n_steps: int = 20_000,
    size: float = 1.0,
    start: Sequence[ArrayLike] | None = None,
    step_size: float | None = None,
    rtol: float = 1e-6,
    fit_tol: float = 1e-6,
    seed: int = 0,
) -> MonomialDescent:
    """Gradient descent from `n_starts` starts on inputs `X` (n, d_0) and targets `y` (n,) or (n, m).

    - `widths`, `degree`: of the net, see `MonomialNetwork`; y of shape (n,) is one output.
    - `n_steps`: trial steps a start may take, those that backtracking rejects among them.
    - `size`: starts are independent normal weights with standard deviation `size / sqrt(d_{l-1})`.
    - `start`: an array (S, d_l, d_{l-1}) a layer, in place of `n_starts`, `size` and `seed`.
    - `step_size`: see the top of this file; `rtol`, `fit_tol`: when a start has settled, or fits.

    Raises `ValueError` and `TypeError` for shapes that do not fit, entries that are not finite, values out of range,
    and data whose powers leave double precision at the start.
    """
    net = MonomialNetwork(tuple(widths), degree)
    X, y = _checked(X, y, net)
    n_steps = check_count(n_steps, "n_steps", least=1)
    values = {"size": size, "rtol": rtol, "fit_tol": fit_tol} | ({} if step_size is None else {"step_size": step_size})
    for name, value in values.items():
        if not check_number(value, name) > 0:
            raise ValueError(f"`{name}` must be positive; got {float(value):g}.")
    if start is None:
        S, rng = check_count(n_starts, "n_starts", least=1), np.random.default_rng(check_count(seed, "seed", least=0))
        first = tuple(size / math.sqrt(k) * rng.standard_normal((S, d, k)) for d, k in net.shapes)
    else:
        first = _checked_start(start, net)
    cpu = time.process_time()
    with np.errstate(over="ignore", invalid="ignore"):
        loss, gradient = _loss_and_gradient(net.degree, X, y, first)
    if not np.isfinite(loss).all() or not all(np.isfinite(g).all() for g in gradient):
        raise ValueError(
            f"the loss at the start leaves double precision: its size grows like the power {net.output_degree} of the "
            f"inputs, which have entries up to {np.abs(X).max():.1e}; divide the inputs, or take a smaller `size`."
        )
    scale = np.full(len(loss), (y * y).sum() / (2 * len(X)))
    scale = np.where(scale > 0, scale, loss)
    with double_precision():
        out = _descend(
            X, y, first, scale, n_steps, 0.0 if step_size is None else float(step_size), rtol, fit_tol,
            degree=net.degree, fixed=step_size is not None,
        )  # fmt: skip
        weights, gradient = (tuple(np.array(part) for part in parts) for parts in out[:2])
        end_loss, code, taken, tried = (np.array(part) for part in out[2:])
    arrival = np.array([how.value for how in Arrival], dtype=object)[code]
    squares = np.maximum(_square(first), _square(weights))
    drift = [
        np.abs(b - a).max(axis=1)
        for a, b in zip(balances(first, net.degree), balances(weights, net.degree), strict=True)
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        return MonomialDescent(
            widths=net.widths,
            degree=net.degree,
            weights=weights,
            start=first,
            loss=end_loss,
            start_loss=loss,
            scale=scale,
            gradient=np.sqrt(_square(weights)) * np.sqrt(_square(gradient)) / scale,
            arrival=arrival,
            n_steps=taken,
            balance_drift=np.max(drift, axis=0) / squares,
            least_curvature=_least_curvature(net, X, y, weights, arrival, scale),
            cost=Cost(
                n_evaluations=int(tried),
                n_steps=int(taken.sum()),
                n_rejected=int(tried - taken.sum()),
                cpu_seconds=time.process_time() - cpu,
            ),
        )


@functools.partial(jax.jit, static_argnames=("degree", "fixed"))
def _descend(X, y, first, scale, n_steps, step_size, rtol, fit_tol, *, degree, fixed):
    """All starts at once, until each has ended; what has ended stays as it is."""
    codes = {how: k for k, how in enumerate(Arrival)}

    def judged(weights, gradient, loss, quiet, code):
        force = jnp.sqrt(_square(weights) * _square(gradient))
        # A gradient that is exactly zero moves nothing, ever.
        settled = ((quiet >= _QUIET) & (force <= rtol * scale)) | (force == 0)
        running = code == codes[Arrival.STEPS]
        code = jnp.where(running & settled, codes[Arrival.SETTLED], code)
        return jnp.where(running & (loss <= fit_tol * scale), codes[Arrival.FITTED], code)

    def body(carry):
        step, weights, gradient, loss, eta, quiet, halved, code, n_taken, n_tried = carry
        running = code == codes[Arrival.STEPS]
        trial = tuple(W - eta[:, None, None] * g for W, g in zip(weights, gradient, strict=True))
        new_loss, new_gradient = _loss_and_gradient(degree, X, y, trial, jnp)
        square, size = _square(gradient), jnp.sqrt(_square(weights))
        finite = jnp.isfinite(new_loss) & jnp.isfinite(_square(new_gradient))
        length = eta * jnp.sqrt(square)
        if fixed:
            taken = running & finite
            code = jnp.where(running & ~finite, codes[Arrival.DIVERGED], code)
        else:
            taken = running & finite & (new_loss <= loss - eta * square / 2)
            eta = jnp.where(running, jnp.where(taken, _GROWTH, _SHRINK) * eta, eta)
            halved |= running & ~taken
        # Only steps that were taken count, and those after the step size was halved at least once.
        quiet = jnp.where(taken, jnp.where((length <= rtol * size) & halved, quiet + 1, 0), quiet)
        if not fixed:  # where rounding of the loss hides every decrease no step is taken any more: that is rest too
            quiet = jnp.where(running & ~taken & (length <= 1e-3 * rtol * size), _QUIET, quiet)
        weights, gradient = (
            tuple(jnp.where(taken[:, None, None], new, old) for new, old in zip(news, olds, strict=True))
            for news, olds in ((trial, weights), (new_gradient, gradient))
        )
        loss = jnp.where(taken, new_loss, loss)
        code = judged(weights, gradient, loss, quiet, code)
        n_tried += running.sum()
        return step + 1, weights, gradient, loss, eta, quiet, halved, code, n_taken + taken, n_tried

    def under_way(carry):
        return (carry[0] < n_steps) & (carry[7] == codes[Arrival.STEPS]).any()

    loss, gradient = _loss_and_gradient(degree, X, y, first, jnp)
    slope = jnp.sqrt(_square(gradient))
    zeros = jnp.zeros(len(loss), dtype=int)
    # A first trial that moves a hundredth of the weights; backtracking and growth find the rest.
    eta = jnp.where(slope > 0, 0.01 * jnp.sqrt(_square(first)) / jnp.where(slope > 0, slope, 1.0), 1.0)
    if fixed:
        eta = jnp.full(len(loss), step_size)
    code = judged(first, gradient, loss, zeros, zeros + codes[Arrival.STEPS])
    carry = (0, first, gradient, loss, eta, zeros, zeros > 0, code, zeros, jnp.zeros((), dtype=int))
    _, weights, gradient, loss, _, _, _, code, n_taken, n_tried = jax.lax.while_loop(under_way, body, carry)
    return weights, gradient, loss, code, n_taken, n_tried


def _loss_and_gradient(r, X, y, weights, xp: Any = np):
    """Losses (S,) and gradients of many nets, in NumPy or JAX; complex weights are differentiated as they stand."""
    n, S = len(X), len(weights[0])
    # Values are held as (S, width, n): the long axis is the last one.
    inputs, slopes = [xp.broadcast_to(X.T, (S, X.shape[1], n))], []
    for W in weights[:-1]:
        h = _times(W, inputs[-1])
        low = h ** (r - 1)
        slopes.append(r * low)
        inputs.append(low * h)
    residual = _times(weights[-1], inputs[-1]) - y.T
    loss = (residual * residual).sum(axis=(1, 2)) / (2 * n)
    back, gradient = residual / n, []
    for k in range(len(weights) - 1, -1, -1):
        gradient.append((back[:, :, None, :] * inputs[k][:, None, :, :]).sum(axis=3))
        if k:
            back = _times(xp.swapaxes(weights[k], 1, 2), back) * slopes[k - 1]
    return loss, tuple(gradient[::-1])


def _times(W, a):
    """The product of each small matrix with its values, written out: a call of BLAS costs more than the product."""
    return (W[:, :, :, None] * a[:, None, :, :]).sum(axis=2)


def _least_curvature(net, X, y, weights, arrival, scale):
    """The least eigenvalue of the Hessian times `|W|^2 / scale`; a complex step for each weight."""
    P, S = net.n_parameters, len(arrival)
    found = np.full(S, np.nan)
    ends = np.cumsum([d * k for d, k in net.shapes])[:-1]
    fine = np.flatnonzero(arrival != Arrival.DIVERGED)
    for first in range(0, len(fine), _CHUNK):
        part = fine[first : first + _CHUNK]
        flat = np.concatenate([W[part].reshape(len(part), -1) for W in weights], axis=1)
        # Imaginary steps of 1e-30 of the weights' size: their square is far below rounding, so derivatives are exact.
        size = np.linalg.norm(flat, axis=1)
        length = np.where(size > 0, np.maximum(size, 1e-200), 1.0) * 1e-30
        H = np.zeros((len(part), P, P))
        for j in range(P):
            moved = flat.astype(complex)
            moved[:, j] += 1j * length
            blocks = [b.reshape(-1, *s) for b, s in zip(np.split(moved, ends, axis=1), net.shapes, strict=True)]
            gradient = _loss_and_gradient(net.degree, X, y, blocks)[1]
            H[:, :, j] = np.concatenate([g.imag.reshape(len(part), -1) for g in gradient], axis=1) / length[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.linalg.eigvalsh((H + np.swapaxes(H, 1, 2)) / 2)
            found[part] = values[:, 0] * (flat * flat).sum(axis=1) / scale[part]
    return found


def _square(parts):
    """The sum of squares of all entries, (S,)."""
    return sum((p * p).sum(axis=(1, 2)) for p in parts)


def _checked(X, y, net):
    X, y = to_float64(X, "X")[0], to_float64(y, "y")[0]
    check_ndim(X, "X", axes="n, d_0")
    if y.ndim not in (1, 2):
        raise ValueError(f"`y` must have shape (n,) or (n, m); got {shape_text(y.shape)}.")
    check_finite(X, "X")
    check_finite(y, "y")
    if not len(X) or len(X) != len(y):
        raise ValueError(
            f"`X` and `y` must have the same number of rows, at least one; got shapes {shape_text(X.shape)} and "
            f"{shape_text(y.shape)}."
        )
    if X.shape[1] != net.widths[0]:
        raise ValueError(
            f"`X` has shape {shape_text(X.shape)}: {X.shape[1]} columns, and the network has {net.widths[0]} inputs "
            f"(widths {net.widths})."
        )
    y = y.reshape(len(y), -1)
    if y.shape[1] != net.widths[-1]:
        raise ValueError(
            f"`y` has {y.shape[1]} column{'s' if y.shape[1] > 1 else ''}, and the network has {net.widths[-1]} outputs "
            f"(widths {net.widths})."
        )
    return X, y


def _checked_start(start, net):
    arrays = tuple(to_float64(W, f"start[{k}]")[0] for k, W in enumerate(start))
    for k, W in enumerate(arrays):
        check_finite(W, f"start[{k}]")
    wanted = tuple((len(arrays[0]) if arrays and arrays[0].ndim == 3 else "S", *shape) for shape in net.shapes)
    if tuple(W.shape for W in arrays) != wanted or not len(arrays[0]):
        expected = ", ".join(f"(S, {d}, {k})" for d, k in net.shapes)
        got = ", ".join(shape_text(W.shape) for W in arrays)
        raise ValueError(f"`start` must have the shapes {expected} with the same S of at least 1; got {got}.")
    return arrays
