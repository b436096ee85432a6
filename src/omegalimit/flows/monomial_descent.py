"""Gradient descent of the squared loss of monomial nets `f = W_L (... (W_1 x)^r ...)`, from many starts at once.

    L(W) = (1 / 2n) sum_i |f(x_i) - y_i|^2,      W+ = W - eta grad L(W)

**Steps.** With `step_size` not given, each start has a step of its own, kept safe by backtracking (Armijo): a step is
taken if `L(W - eta g) <= L(W) - eta |g|^2 / 2`, and eta then grows by a quarter; otherwise nothing moves and eta is
halved. The decrease is summed from differences of the outputs, so that it is seen where the loss itself does not move
in its last digit. The fraction 1/2 is met by `eta <= 1 / (largest curvature on the way)`, so steps stay below the
stable ones of the flow, the loss never rises (but for rounding), and eta settles near the stable step wherever the run
is; a start near zero, where everything is slow, is left in a number of steps that grows with the logarithm of its size.
With `step_size` given, it is that of every start and step; what then leaves double precision has diverged, which is
counted, and as nothing says whether small moves are the end or a small step, such a run ends with its steps (or where
it fits).

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
- left double precision: every derivative is below the smallest normal number, and at the same weights in whole numbers
  the gradient is not zero (or too long to be computed): nothing can be said of where such a start goes;
- otherwise the steps ran out, or it diverged. All are counted.

**Units.** With `X = 2^a X'`, `W = 2^k V` and `y = 2^b y'`, `b = a r^(L-1) + k (r^L - 1)/(r - 1)`, the loss is `2^(2b)`
times that of V on the primed data, and a step eta of W is one of `2^(2b - 2k) eta` of V. Powers of two are exact, so
the descent runs on inputs of size one and targets as near one as k can bring them, and data in other units, as far
apart as doubles are, give the same steps.

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

from .._checks import check_count, check_number
from .._numerics import double_precision
from ..models.monomial import MonomialNetwork, check_widths
from ..trajectory import Cost
from ._monomial_checks import checked_data, checked_start
from ._monomial_exact import gradient_is_zero

_GROWTH, _SHRINK, _QUIET = 1.25, 0.5, 20
_CHUNK = 512  # starts that are held at a time in the curvatures
_NORMAL = float(np.finfo(float).smallest_normal)
_MOST_POWER = 512  # half of it may be left in the exponent of the targets, and their square is far inside of doubles


class Arrival(enum.StrEnum):
    """How one start ended."""

    FITTED = "fitted"
    SETTLED = "settled"
    STEPS = "steps ran out"
    DIVERGED = "diverged"
    LOST = "left double precision"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MonomialDescent:
    """Where gradient descent came to from S starts.

    - `weights`, `start`: an array (S, d_l, d_{l-1}) a layer, at the end and at the start; those of a diverged start are
      the last finite ones.
    - `loss`, `start_loss`: shape (S,); `scale`: the loss of the net that is zero (with y = 0, that of each start). In
      the units of the data these may leave double precision where what follows does not.
    - `relative_loss`: the loss over its scale, shape (S,); 1 is the net that is zero, NaN where the scale is zero.
    - `gradient`: `|W| |grad L|` over the scale at the end, shape (S,).
    - `arrival`: how each ended, shape (S,), the words of `Arrival`; `n_steps`: steps taken, rejected ones not counted.
    - `balance_drift`: the largest change of a neuron's balance, over the larger `|W|^2` of start and end, shape (S,).
    - `least_curvature`: the least eigenvalue of the Hessian at the end, times `|W|^2` over the scale, shape (S,); NaN
      for starts that left double precision. Rescalings give zeros at rest, so it is not positive there; clearly
      negative: a saddle.
    """

    widths: tuple[int, ...]
    degree: int
    weights: tuple[Float[np.ndarray, "S out in"], ...]
    start: tuple[Float[np.ndarray, "S out in"], ...]
    loss: Float[np.ndarray, " S"]
    start_loss: Float[np.ndarray, " S"]
    scale: Float[np.ndarray, " S"]
    relative_loss: Float[np.ndarray, " S"]
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
        """Which starts left double precision, upwards or downwards; their ends say nothing."""
        return (self.arrival == Arrival.DIVERGED) | (self.arrival == Arrival.LOST)

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
    net = MonomialNetwork(check_widths(widths), degree)
    X, y = checked_data(X, y, net)
    n_steps = check_count(n_steps, "n_steps", least=1)
    values = {"size": size, "rtol": rtol, "fit_tol": fit_tol} | ({} if step_size is None else {"step_size": step_size})
    for name, value in values.items():
        if not check_number(value, name) > 0:
            raise ValueError(f"`{name}` must be positive; got {float(value):g}.")
    if start is None:
        S, rng = check_count(n_starts, "n_starts", least=1), np.random.default_rng(check_count(seed, "seed", least=0))
        first = tuple(size / math.sqrt(k) * rng.standard_normal((S, d, k)) for d, k in net.shapes)
    else:
        first = checked_start(start, net)
    cpu = time.process_time()
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        a, b, k = _units(X, y, first, net)
        X_, y_, V = np.ldexp(X, -a), np.ldexp(y, -b), tuple(np.ldexp(W, -k) for W in first)
        loss, gradient = _loss_and_gradient(net.degree, X_, y_, V)
        if not np.isfinite(loss).all() or not all(np.isfinite(part).all() for part in (*gradient, *first)):
            raise ValueError(
                "the loss or its gradient at the start leaves double precision, in units of the targets: outputs grow "
                f"like the power {net.output_degree} of the inputs (entries up to {np.abs(X).max():.1e}) and the power "
                f"{_power(net)} of the weights (up to {max(np.abs(W).max() for W in first):.1e}), and the targets have "
                f"entries up to {np.abs(y).max():.1e}; divide the inputs, or take smaller weights."
            )
        scale = np.full(len(loss), (y_ * y_).sum() / (2 * len(X)))
        scale = np.where(scale > 0, scale, loss)
        eta = 0.0 if step_size is None else float(np.ldexp(float(step_size), 2 * (b - k)))
        with double_precision():
            out = _descend(
                X_, y_, V, scale, n_steps, eta, rtol, fit_tol, degree=net.degree, fixed=step_size is not None
            )
            ends, gradient = (tuple(np.array(part) for part in parts) for parts in out[:2])
            end_loss, code, taken, tried = (np.array(part) for part in out[2:])
        arrival = np.array([how.value for how in Arrival], dtype=object)[code]
        for s in np.flatnonzero(arrival == Arrival.LOST):
            if gradient_is_zero(X_, y_, [W[s] for W in ends], net.degree):
                arrival[s] = Arrival.SETTLED.value
        weights = tuple(np.ldexp(W, k) for W in ends)
        arrival[~np.all([np.isfinite(W).all(axis=(1, 2)) for W in weights], axis=0)] = Arrival.LOST.value
        return MonomialDescent(
            widths=net.widths,
            degree=net.degree,
            weights=weights,
            start=first,
            loss=np.ldexp(end_loss, 2 * b),
            start_loss=np.ldexp(loss, 2 * b),
            scale=np.ldexp(scale, 2 * b),
            relative_loss=end_loss / scale,
            gradient=_length(ends) / scale * _length(gradient),
            arrival=arrival,
            n_steps=taken,
            balance_drift=_drift(V, ends, net.degree),
            least_curvature=_least_curvature(net, X_, y_, ends, arrival, scale),
            cost=Cost(
                n_evaluations=int(tried),
                n_steps=int(taken.sum()),
                n_rejected=int(tried - taken.sum()),
                cpu_seconds=time.process_time() - cpu,
            ),
        )


def _power(net):
    """`(r^L - 1) / (r - 1)`, the degree of the outputs in all weights."""
    return (net.degree**net.n_layers - 1) // (net.degree - 1)


def _units(X, y, first, net):
    """The exponents a, b, k of inputs, targets and weights, see the top of this file."""
    power = _power(net)
    if power > _MOST_POWER:  # a factor of two in the weights leaves double precision: there is nothing to choose
        return 0, 0, 0
    a, b = (int(np.frexp(np.abs(data).max())[1]) for data in (X, y))
    k = round((b - a * net.output_degree) / power)
    if not y.any():  # every unit of the targets will do: that in which the weights have size one
        k = int(np.frexp(max(np.abs(W).max() for W in first))[1])
    return a, a * net.output_degree + k * power, k


def _drift(first, ends, degree):
    """The largest change of a balance over the larger `|W|^2`, all weights divided by their largest entry first."""
    most = np.max([np.abs(W).max(axis=(1, 2)) for W in (*first, *ends)], axis=0)
    most = np.where(most > 0, most, 1.0)[:, None, None]
    first, ends = (tuple(W / most for W in weights) for weights in (first, ends))
    squares = np.max([sum((W * W).sum(axis=(1, 2)) for W in weights) for weights in (first, ends)], axis=0)
    pairs = zip(balances(first, degree), balances(ends, degree), strict=True)
    drift = np.max([np.abs(after - before).max(axis=1) for before, after in pairs], axis=0)
    return drift / np.where(squares > 0, squares, 1.0)


@functools.partial(jax.jit, static_argnames=("degree", "fixed"))
def _descend(X, y, first, scale, n_steps, step_size, rtol, fit_tol, *, degree, fixed):
    """All starts at once, until each has ended; what has ended stays as it is."""
    codes = {how: k for k, how in enumerate(Arrival)}

    def judged(weights, gradient, loss, quiet, code):
        slope = _length(gradient, jnp)
        # The square of a gradient may underflow where the gradient does not: nothing here is squared.
        force = _length(weights, jnp) / scale * slope
        running = code == codes[Arrival.STEPS]
        code = jnp.where(running & (quiet >= _QUIET) & (force <= rtol), codes[Arrival.SETTLED], code)
        # Zero, or underflow: exact arithmetic tells them apart afterwards. Either way nothing would move.
        code = jnp.where(running & (slope < _NORMAL), codes[Arrival.LOST], code)
        return jnp.where(running & (loss <= fit_tol * scale), codes[Arrival.FITTED], code)

    def body(carry):
        step, weights, gradient, outputs, loss, eta, quiet, halved, code, n_taken, n_tried = carry
        running = code == codes[Arrival.STEPS]
        trial = tuple(W - eta[:, None, None] * g for W, g in zip(weights, gradient, strict=True))
        new_outputs, new_loss, new_gradient = _all(degree, X, y, trial, jnp)
        slope, size = _length(gradient, jnp), _length(weights, jnp)
        finite = jnp.isfinite(new_loss) & jnp.isfinite(_length(new_gradient, jnp))
        length = eta * slope
        if fixed:
            taken = running & finite
            code = jnp.where(running & ~finite, codes[Arrival.DIVERGED], code)
        else:
            change = ((outputs - new_outputs) * (outputs + new_outputs - 2 * y.T)).sum(axis=(1, 2)) / (2 * len(X))
            taken = running & finite & (change >= length * slope / 2)
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
        outputs = jnp.where(taken[:, None, None], new_outputs, outputs)
        loss = jnp.where(taken, new_loss, loss)
        code = judged(weights, gradient, loss, quiet, code)
        n_tried += running.sum()
        return step + 1, weights, gradient, outputs, loss, eta, quiet, halved, code, n_taken + taken, n_tried

    def under_way(carry):
        return (carry[0] < n_steps) & (carry[8] == codes[Arrival.STEPS]).any()

    outputs, loss, gradient = _all(degree, X, y, first, jnp)
    slope = _length(gradient, jnp)
    zeros = jnp.zeros(len(loss), dtype=int)
    # A first trial that moves a hundredth of the weights; backtracking and growth find the rest.
    eta = jnp.where(slope > 0, 0.01 * _length(first, jnp) / jnp.where(slope > 0, slope, 1.0), 1.0)
    if fixed:
        eta = jnp.full(len(loss), step_size)
    code = judged(first, gradient, loss, zeros, zeros + codes[Arrival.STEPS])
    carry = (0, first, gradient, outputs, loss, eta, zeros, zeros > 0, code, zeros, jnp.zeros((), dtype=int))
    _, weights, gradient, _, loss, _, _, _, code, n_taken, n_tried = jax.lax.while_loop(under_way, body, carry)
    return weights, gradient, loss, code, n_taken, n_tried


def _loss_and_gradient(r, X, y, weights):
    """Losses (S,) and gradients of many nets."""
    return _all(r, X, y, weights)[1:]


def _all(r, X, y, weights, xp: Any = np):
    """Outputs (S, m, n), losses (S,) and gradients, in NumPy or JAX; complex weights are taken as they stand."""
    n, S = len(X), len(weights[0])
    # Values are held as (S, width, n): the long axis is the last one.
    inputs, slopes = [xp.broadcast_to(X.T, (S, X.shape[1], n))], []
    for W in weights[:-1]:
        h = _times(W, inputs[-1])
        low = h ** (r - 1)
        slopes.append(r * low)
        inputs.append(low * h)
    outputs = _times(weights[-1], inputs[-1])
    residual = outputs - y.T
    loss = (residual * residual).sum(axis=(1, 2)) / (2 * n)
    back, gradient = residual / n, []
    for k in range(len(weights) - 1, -1, -1):
        gradient.append((back[:, :, None, :] * inputs[k][:, None, :, :]).sum(axis=3))
        if k:
            back = _times(xp.swapaxes(weights[k], 1, 2), back) * slopes[k - 1]
    return outputs, loss, tuple(gradient[::-1])


def _times(W, a):
    """The product of each small matrix with its values, written out: a call of BLAS costs more than the product."""
    return (W[:, :, :, None] * a[:, None, :, :]).sum(axis=2)


def _least_curvature(net, X, y, weights, arrival, scale):
    """The least eigenvalue of the Hessian times `|W|^2 / scale`; a complex step for each weight."""
    P, S = net.n_parameters, len(arrival)
    found = np.full(S, np.nan)
    ends = np.cumsum([d * k for d, k in net.shapes])[:-1]
    fine = np.flatnonzero((arrival != Arrival.DIVERGED) & (arrival != Arrival.LOST))
    for first in range(0, len(fine), _CHUNK):
        part = fine[first : first + _CHUNK]
        flat = np.concatenate([W[part].reshape(len(part), -1) for W in weights], axis=1)
        # Imaginary steps of 1e-30 of the weights' size: their square is far below rounding, so derivatives are exact.
        size = _length([flat[:, :, None]])
        length = np.where(size > 0, np.maximum(size, 1e-200), 1.0) * 1e-30
        H = np.zeros((len(part), P, P))
        for j in range(P):
            moved = flat.astype(complex)
            moved[:, j] += 1j * length
            blocks = [b.reshape(-1, *s) for b, s in zip(np.split(moved, ends, axis=1), net.shapes, strict=True)]
            gradient = _loss_and_gradient(net.degree, X, y, blocks)[1]
            H[:, :, j] = np.concatenate([g.imag.reshape(len(part), -1) for g in gradient], axis=1) / length[:, None]
        H *= (size / scale[part] * size)[:, None, None]
        known = np.isfinite(H).all(axis=(1, 2))
        found[part[known]] = np.linalg.eigvalsh((H[known] + np.swapaxes(H[known], 1, 2)) / 2)[:, 0]
    return found


def _length(parts, xp: Any = np):
    """The Euclidean length of all entries, (S,); no square leaves double precision where the length does not."""
    most = functools.reduce(xp.maximum, [xp.abs(p).max(axis=(1, 2)) for p in parts])
    unit = xp.where((most > 0) & xp.isfinite(most), most, 1.0)[:, None, None]
    return xp.sqrt(sum(((p / unit) ** 2).sum(axis=(1, 2)) for p in parts)) * unit[:, 0, 0]
