"""Any optimiser of optax on a linear classifier, at margins where its gradients have long left double precision.

    L(w) = sum_i c_i l(<z_i, w>),      w of shape (d,), or (d1, d2) for optimisers of matrices.

The gradient is `e^M g` with g of size one: e^M underflows at margins of 745, and its square, which Adam and its kin
keep, at 370. Where the update rule is homogeneous in the gradient (see `_optimiser_degrees`), it is run here on
gradients `2^-k e^M g`, with the power k following M: when k changes, each part of the optimiser's state, and eps, is
scaled by its own power of 2^k. A power of two rounds nothing, so that the updates are those of the rule itself, in an
arithmetic without a smallest number, and an eps means what its user set, relative to the true gradient. For that an
eps must be in reach: pass a function of eps, `lambda eps: optax.adam(0.1, eps=eps)`.

A rule that has no degree, as any with an eps that is built in, is run on the true gradients, as far as double precision
can have their squares; the result says where that ends.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count
from .._numerics import double_precision
from ..losses import AbstractLoss, loss_named
from ..trajectory import Cost
from ._optimiser_checks import checked_eps, flat_rows
from ._optimiser_degrees import Degrees, measured_degrees
from ._separable_checks import check_start_margins, checked_start, checked_weights

if TYPE_CHECKING:
    import optax

_WINDOW = 60  # powers of two that the scaled gradient may be from one before its unit follows
_ROOM = (
    250  # a scaled part of the state, or eps, may have this power of two for each degree: rules square what they keep
)
_SQUARES = -511  # gradients below this power of two have squares below the smallest normal double
_LOG2 = math.log(2)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OptimiserDescent:
    """Where an optimiser came to; K states are kept, the start, the last and some between, log-spaced.

    - `steps`: shape (K,); `w`: shape (K, d) or (K, d1, d2); `S`: `sum |update|_inf` over the steps so far (the
      cumulative time of sign descent, whatever the schedule), shape (K,).
    - `margins`: `<z_i, w>`, shape (K, n); `log_loss`: shape (K,); `log_gradient`: `log max_j |g_j|`, shape (K,).
    - `log_scale`: the natural log of the unit that gradients were measured in, shape (K,); zeros when not `scaled`.
    - `eps`, `log_threshold`: eps, and the log of the gradient to compare with it (eps or its root, by its place in the
      rule); `None` and NaN for an optimiser without an eps to set.
    - `below_eps_step`: how many steps were taken before the first gradient with `max_j |g_j|` below that threshold,
      or `None`; `below_eps_S`: S there, or NaN. Soon after it a rule that forgets its past divides by its eps: it is
      gradient descent from there. (One that sums its squares, as Adagrad, never does.)
    - `scaled`: whether the rule ran in an arithmetic without underflow; `degrees`: its degrees in the gradient, or
      `None` with `why_unscaled` in words.
    - `stalled_at`: steps before the first update that was lost, below the rounding of w in every entry, with no entry
      of w moved after it; or `None`. `idle_since`: steps after which each update was exactly zero, or `None`: the
      optimiser's own doing (a schedule that has come to zero, gradients that are only gathered), or a gradient of zero,
      see `ending`. Not both.
    - `horizon`: steps before the one at which arithmetic ended the run, or `None`; `ending`: how it ended.
    """

    loss: str
    steps: Int[np.ndarray, " K"]
    w: Float[np.ndarray, "K ..."]
    S: Float[np.ndarray, " K"]
    margins: Float[np.ndarray, "K n"]
    log_loss: Float[np.ndarray, " K"]
    log_gradient: Float[np.ndarray, " K"]
    log_scale: Float[np.ndarray, " K"]
    eps: float | None
    log_threshold: float
    below_eps_step: int | None
    below_eps_S: float
    scaled: bool
    degrees: Degrees | None
    why_unscaled: str
    stalled_at: int | None
    idle_since: int | None
    horizon: int | None
    ending: str
    cost: Cost

    @property
    def arithmetic_ended(self) -> bool:
        """True where the last state is what double precision, not the optimiser, has made of the run."""
        return self.horizon is not None or self.stalled_at is not None


class _Run(NamedTuple):
    w: Any
    leaves: Any
    k: Any  # gradients are in units of 2^k
    step: Any
    S: Any
    below: Any  # steps before the first gradient below eps, or -1
    below_S: Any
    still: Any  # steps before those at the end that moved nothing, or -1
    lost: Any  # steps before the first of these whose update was not zero, or -1
    ended: Any  # see `_ENDINGS`


class _Data(NamedTuple):
    Z: Any
    unit: Any  # Z over 2^exponent, of size one: what a gradient is summed from
    exponent: Any
    log_c: Any
    eps: Any
    log2_eps: Any
    log2_threshold: Any


def optimiser_descent(
    Z: Float[np.ndarray, "n ..."],
    optimiser: optax.GradientTransformation | Callable[[float], optax.GradientTransformation],
    *,
    n_steps: int,
    loss: str = "logistic",
    weights: Float[np.ndarray, " n"] | None = None,
    start: np.ndarray | None = None,
    eps: float | None = None,
    shape: tuple[int, ...] | None = None,
    n_kept: int = 50,
) -> OptimiserDescent:
    """`n_steps` of an optimiser from `start` (zero when not given) on the rows `Z = y_i x_i`.

    - `Z`: shape (n, d), or (n, d1, d2) for w of shape (d1, d2); with `shape` w has that shape, and so has every row.
    - `optimiser`: an `optax.GradientTransformation`, or a function that makes one of eps, with `eps`, a number >= 0.
      The function is called with a traced number: what it makes may use eps in any formula, but not in an `if`.
    - `weights`: c > 0, shape (n,), 1/n each when not given; `loss`: `"logistic"` or `"exponential"`.
    - `n_kept`: about how many states are kept.

    Numerical failure is a value in the result. Raises `ValueError` for values out of range, shapes that do not fit,
    entries that are not finite, and a function of eps whose optimisers do not scale with the gradient (a norm that is
    clipped, noise, weight decay that is added to the gradient): pass the optimiser itself, to run it as it is.
    Raises `TypeError` for what is neither an optimiser nor a function of eps that makes one, and for an optimiser that
    needs more than gradients.
    """
    rows, of_shape = flat_rows(Z, shape)
    c = checked_weights(weights, rows, default=1 / len(rows))
    w0 = checked_start(start, of_shape)
    check_start_margins(w0, rows)
    n_steps, n_kept = check_count(n_steps, "n_steps", least=1), check_count(n_kept, "n_kept", least=2)
    the_loss = loss_named(loss)
    eps_value = checked_eps(optimiser, eps)
    cpu = time.process_time()
    with double_precision():
        degrees, advance = _compiled(optimiser, of_shape, loss, eps is not None)
        scaled = isinstance(degrees, Degrees)
        if eps is not None and not scaled:
            raise ValueError(
                f"`optimiser` cannot be run in units of its gradient: {degrees.reason}. "
                "Pass the optimiser itself, without `eps`, to run it on the true gradients as far as they are numbers."
            )
        unit, exponent = _unit(rows)
        data = _Data(
            Z=rows,
            unit=unit,
            exponent=np.asarray(exponent),
            log_c=np.log(c),
            eps=np.asarray(eps_value),
            log2_eps=np.asarray(math.log2(eps_value) if eps_value > 0 else -math.inf),
            log2_threshold=np.asarray(_log_threshold(degrees, eps) / _LOG2),
        )
        state = _maker(optimiser, eps is not None)(eps_value).init(jnp.asarray(w0))
        found = _kept_states(advance, data, w0, state, n_steps=n_steps, n_kept=n_kept)
    last = found[-1]
    states = np.array([run.w for run in found])
    steps = np.array([int(run.step) for run in found])
    margins, log_loss, log_gradient = _read(states.reshape(len(found), -1), rows, np.log(c), the_loss)
    below, still, lost, ended = (int(part) for part in (last.below, last.still, last.lost, last.ended))
    return OptimiserDescent(
        loss=loss,
        steps=steps,
        w=states,
        S=np.array([float(run.S) for run in found]),
        margins=margins,
        log_loss=log_loss,
        log_gradient=log_gradient,
        log_scale=np.array([float(run.k) for run in found]) * _LOG2,
        eps=eps,
        log_threshold=_log_threshold(degrees, eps),
        below_eps_step=below if below >= 0 else None,
        below_eps_S=float(last.below_S) if below >= 0 else math.nan,
        scaled=scaled,
        degrees=degrees if scaled else None,
        why_unscaled="" if scaled else degrees.reason,
        stalled_at=lost if lost >= 0 else None,
        idle_since=still if still >= 0 > lost else None,
        horizon=int(steps[-1]) if ended else None,
        ending=_ending(ended, still, lost, float(log_gradient[-1])),
        cost=Cost(
            n_evaluations=int(steps[-1]), n_steps=int(steps[-1]), n_rejected=0, cpu_seconds=time.process_time() - cpu
        ),
    )


_ENDINGS = (
    "all steps were taken",
    "the next update or the optimiser's next state is not a finite number",
    "squares of the next gradient are below the smallest double",
    "margins are beyond the largest double",
)


def _ending(ended: int, still: int, lost: int, log_gradient: float) -> str:
    if ended or still < 0:
        return _ENDINGS[ended]
    if lost >= 0:
        return f"after {lost} steps updates were below the rounding of w"
    if log_gradient == -math.inf:
        return f"after {still} steps nothing moved: the gradient is zero"
    return f"the optimiser made no update since step {still}"


def _read(
    states: Float[np.ndarray, "K D"], rows: Float[np.ndarray, "n D"], log_c: Float[np.ndarray, " n"], loss: AbstractLoss
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Margins, log loss and log gradient of the states; what has left double precision is infinite or NaN."""
    unit, exponent = _unit(rows)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        margins = states @ rows.T
        with double_precision():
            slopes = log_c + np.asarray(loss.log_slope(margins))
            losses = log_c + np.asarray(loss.log_value(margins))
        M = slopes.max(axis=1, keepdims=True)
        sums = np.abs(np.exp(slopes - M) @ unit).max(axis=1)
        return margins, np.logaddexp.reduce(losses, axis=1), M[:, 0] + np.log(sums) + exponent * _LOG2


def _unit(rows: Float[np.ndarray, "n D"]) -> tuple[Float[np.ndarray, "n D"], int]:
    """The rows over a power of two, and its exponent: sums of slopes times rows of 1e308 would leave doubles."""
    exponent = math.frexp(float(np.abs(rows).max()))[1]
    return np.ldexp(rows, -exponent), exponent


def _kept_states(advance: Any, data: _Data, w0: np.ndarray, state: Any, *, n_steps: int, n_kept: int) -> list[_Run]:
    """The run at its marks; it stops before the last of them where arithmetic ends it. In double precision."""
    none, zero = np.asarray(-1), np.asarray(0)
    found = [
        _Run(
            w=w0,
            leaves=[np.asarray(leaf) for leaf in jax.tree.leaves(state)],
            k=zero,
            step=zero,
            S=np.asarray(0.0),
            below=none,
            below_S=np.asarray(math.nan),
            still=none,
            lost=none,
            ended=zero,
        )
    ]
    for mark in np.unique(np.round(np.geomspace(1, n_steps, n_kept)).astype(int)):
        run = jax.tree.map(np.asarray, advance(found[-1], np.asarray(mark), data))
        if int(run.step) == int(found[-1].step):  # ended at once: what it says of that belongs to the last state
            found[-1] = run
        else:
            found.append(run)
        if int(run.ended):
            break
    return found


def _compiled(optimiser: Any, shape: tuple[int, ...], loss: str, with_eps: bool) -> Any:
    """The optimiser's degrees, or why it has none, and its loop; kept, since compiling costs more than most runs."""
    try:
        hash(optimiser)
    except TypeError:
        return _compile.__wrapped__(optimiser, shape, loss, with_eps)
    return _compile(optimiser, shape, loss, with_eps)


@functools.lru_cache(maxsize=32)
def _compile(optimiser: Any, shape: tuple[int, ...], loss: str, with_eps: bool) -> Any:
    make = _maker(optimiser, with_eps)
    w = np.random.default_rng(1).standard_normal(shape)
    try:
        degrees = measured_degrees(make, w, with_eps=with_eps)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        raise TypeError(
            "`optimiser` asks for the value of eps, which is traced: it may use eps in jax.numpy's functions, "
            "not in an `if`, `max` or NumPy's."
        ) from None
    except TypeError as error:
        raise TypeError(f"`optimiser` cannot be run on gradients alone: {error}") from None
    return degrees, _loop(make, shape, loss_named(loss), degrees if isinstance(degrees, Degrees) else None)


def _loop(make: Callable[[Any], Any], shape: tuple[int, ...], loss: AbstractLoss, degrees: Degrees | None) -> Any:
    """The compiled function from a run and a mark to the run at the mark, or where arithmetic ended it."""
    structure = jax.tree.structure(jax.eval_shape(make(1.0).init, jnp.zeros(shape)))
    powers = [0] * structure.num_leaves if degrees is None else degrees.leaves
    update_power, eps_power = (0, 0) if degrees is None else (degrees.update, degrees.eps)

    def follow(leaves, k, e, log2_eps):
        """The state in the unit of the power of two nearest e for which nothing that is scaled up leaves doubles."""
        lowest = log2_eps / eps_power - _ROOM if eps_power else -jnp.inf
        for leaf, D in zip(leaves, powers, strict=True):
            if D:
                size = jnp.max(jnp.abs(leaf))
                log2_leaf = jnp.where(size > 0, jnp.log2(jnp.where(size > 0, size, 1.0)), -jnp.inf)
                lowest = jnp.maximum(lowest, k + log2_leaf / D - _ROOM)
        new = jnp.maximum(jnp.round(e), jnp.ceil(lowest)).astype(k.dtype)
        return [_times(x, -D * (new - k)) if D else x for x, D in zip(leaves, powers, strict=True)], new

    def body(run: _Run, data: _Data) -> _Run:
        w, leaves, k, step, S, below, below_S, still, lost, _ = run
        log_slope = data.log_c + loss.log_slope(data.Z @ w.reshape(-1))
        M = jnp.max(log_slope)
        size = jnp.max(jnp.abs(jnp.exp(log_slope - M) @ data.unit))
        e = (M + jnp.log(size)) / _LOG2 + data.exponent  # -inf for a gradient that is zero
        if degrees is not None:
            far = jnp.isfinite(e) & (jnp.abs(e - k) > _WINDOW)
            leaves, k = jax.lax.cond(far, follow, lambda leaves, k, *_: (leaves, k), leaves, k, e, data.log2_eps)
        first_below = (below < 0) & (e < data.log2_threshold)  # NaN is above nothing
        below, below_S = jnp.where(first_below, step, below), jnp.where(first_below, S, below_S)
        if degrees is None:
            g = _times(jnp.exp(log_slope) @ data.unit, data.exponent)
        else:
            g = jnp.exp(log_slope - (k - data.exponent) * _LOG2) @ data.unit
        g = -g.reshape(w.shape)
        eps = jnp.where(data.eps > 0, _times(data.eps, -eps_power * k), 0.0) if eps_power else data.eps
        updates, state = make(eps).update(g, jax.tree.unflatten(structure, leaves), w)
        # An update that is not zero, or might not be in an arithmetic with room for so small a gradient.
        made = jnp.any(updates != 0) | (jnp.isfinite(e) & (e - k < _SQUARES))
        updates = _times(updates, update_power * k) if update_power else updates
        new, new_leaves = w + updates, jax.tree.leaves(state)
        fine = jnp.all(jnp.isfinite(new))
        for leaf in new_leaves:
            fine &= jnp.all(jnp.isfinite(leaf)) if jnp.issubdtype(leaf.dtype, jnp.floating) else True
        ended = jnp.where(fine, 0, 1)
        if degrees is None:
            ended = jnp.where(jnp.isfinite(e) & (e < _SQUARES), 2, ended)
        ended = jnp.where(jnp.isnan(e), 3, ended)
        went_on = ended == 0
        moved = jnp.any(new != w) | ~went_on
        return _Run(
            w=jnp.where(went_on, new, w),
            leaves=[jnp.where(went_on, a, b) for a, b in zip(new_leaves, leaves, strict=True)],
            k=k,
            step=jnp.where(went_on, step + 1, step),
            S=jnp.where(went_on, S + jnp.max(jnp.abs(updates)), S),
            below=below,
            below_S=below_S,
            still=jnp.where(moved, jnp.where(went_on, -1, still), jnp.where(still < 0, step, still)),
            lost=jnp.where(moved, jnp.where(went_on, -1, lost), jnp.where((lost < 0) & made, step, lost)),
            ended=ended,
        )

    def advance(run: _Run, mark, data: _Data) -> _Run:
        return jax.lax.while_loop(lambda r: (r.step < mark) & (r.ended == 0), lambda r: body(r, data), run)

    return jax.jit(advance)


def _times(x, power):
    """`x 2^power`, by two factors: one alone may be beyond doubles where the product is not."""
    half, one = power // 2, jnp.asarray(1.0)
    return x * jnp.ldexp(one, half) * jnp.ldexp(one, power - half)


def _log_threshold(degrees: Any, eps: float | None) -> float:
    """Log of the gradient's size at which eps takes over; NaN without an eps."""
    if eps is None or not isinstance(degrees, Degrees):
        return math.nan
    return math.log(eps) / degrees.eps if eps > 0 else -math.inf


def _maker(optimiser: Any, with_eps: bool) -> Callable[[Any], Any]:
    """A function of eps; for an optimiser itself one that does not look at it."""
    return optimiser if with_eps else lambda _: optimiser
