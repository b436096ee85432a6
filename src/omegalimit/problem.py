"""What is trained: outputs homogeneous in the parameters, and a loss whose gradient is available in logs at any
sharpness.

With `theta = r omega`, `|omega| = 1`, outputs `h` homogeneous of degree `D`, and a fixed `unit` (the outputs' scale),
the *sharpness* is `S = unit r^D`, so that `h(theta) = S h(omega) / unit`. A problem gives, for the unit-scaled outputs
`h(omega)` and `log S`,

    -grad L(theta) = unit r^(D-1) e^M g,     g = sum_k q_k grad h_k(omega),     sum of the absolute weights one,

with `q` and `M` computed without a difference of losses and without underflow.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, Int

from ._numerics import double_precision
from .data import TokenData
from .losses import AbstractLoss, loss_named
from .models.attention import AbstractAttention


class LogWeights(NamedTuple):
    """Signed multipliers `sign e^{log_abs}` of the constraints, before normalisation; each of shape (K,)."""

    sign: Any
    log_abs: Any


class AbstractProblem(eqx.Module):
    """A model, its data and its loss, as the flow sees them: one flat parameter vector `theta` of length `size`."""

    degree: eqx.AbstractVar[float]
    unit: eqx.AbstractVar[Any]
    loss: eqx.AbstractVar[AbstractLoss]

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of parameters."""

    @property
    @abc.abstractmethod
    def n_choices(self) -> int:
        """Length of `selection`: the number of inputs that choose a token, or 0."""

    @abc.abstractmethod
    def outputs(self, theta) -> Any:
        """The unit-scaled outputs `h(theta) / unit`, homogeneous of degree `degree`."""

    @abc.abstractmethod
    def weights(self, h, log_S) -> Any:
        """`(q, M)`: ascent weights on the outputs, and the log of what they were divided by."""

    @abc.abstractmethod
    def selection(self, h) -> Any:
        """The tokens that win at present, shape (n,); empty for problems without a choice."""

    @abc.abstractmethod
    def constraints(self, h, selection) -> Any:
        """The margins `m_k` that the limit problem constrains, shape (K,), linear in `h`."""

    @abc.abstractmethod
    def log_weights(self, h, log_S, selection) -> LogWeights:
        """The gradient's weights on the `constraints`: negative ones belong to outputs better than the selected."""

    @abc.abstractmethod
    def log_loss_gap(self, h, log_S) -> Any:
        """`log(L - inf L)`, a scalar."""

    @abc.abstractmethod
    def limit_offsets(self, selection: Int[np.ndarray, " n"]) -> Float[np.ndarray, " K"]:
        """`b_k` of the weights `p_k ~ e^{b_k - S m_k}` as S -> inf, NumPy; NaN for outputs better than the selected."""


class MarginProblem(AbstractProblem):
    """A user's own model: any JAX function from parameters to margins, homogeneous of some degree, under a decreasing
    loss.

    `L(theta) = sum_k l(m_k(theta))`. The degree is measured, and a function that has none is refused with the figure.

    - `margins`: `params -> m`, shape (K,): positive where an example is classified rightly. A JAX function.
    - `params`: any pytree of arrays; where the degree and the unit are measured, and the start unless another is given.
    - `loss`: `"exponential"` or `"logistic"`.

    Raises `ValueError` when the margins are not a vector, not finite, or not homogeneous; `TypeError` when `margins` is
    not a function.
    """

    function: Callable[[Any], Any] = eqx.field(static=True)
    unravel: Callable[[Any], Any] = eqx.field(static=True)
    start: Any
    degree: float = eqx.field(static=True)
    unit: Any
    loss: AbstractLoss

    def __init__(self, margins: Callable[[Any], Any], params: Any, *, loss: str = "exponential"):
        if not callable(margins):
            raise TypeError(f"`margins` must be a function from parameters to margins; got {type(margins).__name__}.")
        for leaf in jax.tree.leaves(params):
            if np.iscomplexobj(leaf):
                raise TypeError("`params` must be real; got complex numbers. Pass real and imaginary parts apart.")
        with double_precision():
            params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), params)
            theta, unravel = ravel_pytree(params)
            self.start = np.asarray(theta)
            flat = lambda t: margins(unravel(t))  # noqa: E731 - closes over two locals, used four times below
            self.degree = _measured_degree(flat, self.start)
            r = float(np.linalg.norm(self.start))
            jacobian = np.asarray(jax.jacrev(flat)(theta / r))
        largest = float(np.abs(jacobian).max())
        if not 1e-140 < largest < 1e140:
            raise ValueError(f"`margins` has derivatives of size {largest:.1e}, beyond double precision; rescale it.")
        # A power of two, so that dividing by it is exact.
        self.unit = np.asarray(2.0 ** round(math.log2(np.linalg.norm(jacobian, axis=1).max() / self.degree)))
        self.function = margins
        self.unravel = unravel
        self.loss = loss_named(loss)

    @property
    def size(self) -> int:
        return self.start.size

    @property
    def n_choices(self) -> int:
        return 0

    def outputs(self, theta) -> Any:
        return self.function(self.unravel(theta)) / self.unit

    def weights(self, h, log_S) -> Any:
        log_w = self.loss.log_slope(jnp.exp(log_S) * h)
        M = jax.nn.logsumexp(log_w)
        return jnp.exp(log_w - M), M

    def selection(self, h) -> Any:
        return jnp.zeros((0,), dtype=int)

    def constraints(self, h, selection) -> Any:
        return h

    def log_weights(self, h, log_S, selection):
        return LogWeights(jnp.ones_like(h), self.loss.log_slope(jnp.exp(log_S) * h))

    def log_loss_gap(self, h, log_S) -> Any:
        return jax.nn.logsumexp(self.loss.log_value(jnp.exp(log_S) * h))

    def limit_offsets(self, selection):
        with double_precision():
            K = jax.eval_shape(self.outputs, self.start).shape[0]
        return np.zeros(K)

    def params(self, theta: Float[np.ndarray, " N"]) -> Any:
        """The parameters, in the user's own structure, NumPy inside, of a flat vector `theta`."""
        with double_precision():
            return jax.tree.map(np.asarray, self.unravel(jnp.asarray(theta)))


class AttentionProblem(AbstractProblem):
    """One-layer softmax attention with a fixed head: `L(theta) = sum_i l(f_i)`, `f_i = sum_l softmax(h_i)_l gamma_il`.

    `h_il = x_il^T W(theta) z_i` are the logits and `gamma_il = y_i v^T x_il` the tokens' scores. `f_i` stays strictly
    inside the scores' range, so `inf L = sum_i l(max_l gamma_il)` is not attained: the loss gap is what falls.
    Source of the setting: Sheen, Chen, Wang, Zhou, arXiv 2403.08699; the log-domain forms are derived here.

    - `data`: the tokens; `model`: the parametrisation of W; `loss`: `"exponential"` or `"logistic"`.
    """

    model: AbstractAttention
    X: Float[np.ndarray, "n L d"]
    z: Float[np.ndarray, "n d"]
    scores: Float[np.ndarray, "n L"]
    loss: AbstractLoss
    unit: Any
    degree: float = eqx.field(static=True)

    def __init__(self, data: TokenData, model: AbstractAttention, *, loss: str = "exponential"):
        _n, _L, d = data.X.shape
        if model.d != d:
            raise ValueError(f"`model` is for tokens of dimension {model.d}, but the data have dimension {d}.")
        scale_x, scale_z = _power_of_two(np.abs(data.X).max()), _power_of_two(np.abs(data.z).max())
        self.X, self.z = data.X / scale_x, data.z / scale_z
        size_x, size_z = np.linalg.norm(self.X, axis=2).max(), np.linalg.norm(self.z, axis=1).max()
        norm_x, norm_z = _power_of_two(size_x), _power_of_two(size_z)
        self.X, self.z = self.X / norm_x, self.z / norm_z
        log2_unit = math.log2(scale_x) + math.log2(norm_x) + math.log2(scale_z) + math.log2(norm_z)
        if abs(log2_unit) > 1000:
            raise ValueError(
                f"`X` and `z` together have the scale 2^{log2_unit:.0f}, beyond double precision; rescale one of them."
            )
        self.unit = np.asarray(2.0**log2_unit)
        # Ties up to rounding are ties: else the rounding would be a loss gap that never falls.
        self.scores = np.where(data.is_best, data.scores.max(axis=1, keepdims=True), data.scores)
        self.model = model
        self.loss = loss_named(loss)
        self.degree = float(model.degree)

    @property
    def size(self) -> int:
        return self.model.size

    @property
    def n_choices(self) -> int:
        return self.X.shape[0]

    def outputs(self, theta) -> Any:
        return self.model.logits(theta, self.X, self.z)

    def _terms(self, h, log_S):
        """`-dL/dh_l = sign_l e^{log_abs_l}`, with the mask of the winners.

        It is `softmax_l slope(f) c_l`, `c_l = gamma_l - f`. The current winner `a` is the reference, not the best
        token: otherwise the weights cancel
        when the flow selects another token, and the run stalls and looks converged. The formula is exact whichever
        is used, because `sum_l softmax_l c_l = 0`.
        """
        u = self.scores
        log_p = jax.nn.log_softmax(jnp.exp(log_S) * h, axis=1)
        a = jnp.argmax(h, axis=1)[:, None]
        is_a = jnp.arange(h.shape[1])[None, :] == a
        drop = u - jnp.take_along_axis(u, a, axis=1)
        # drop = 0: the winner itself, and tokens tied with it. Their c is -dev, kept in logs: dev underflows first.
        log_dev, sign_dev = jax.nn.logsumexp(log_p, b=drop, axis=1, keepdims=True, return_sign=True)
        dev = sign_dev * jnp.exp(log_dev)
        c = drop - dev
        level = drop == 0
        log_abs = jnp.where(level, log_dev, jnp.log(jnp.where(c == 0, 1e-300, jnp.abs(c))))
        f = jnp.take_along_axis(u, a, axis=1) + dev
        return is_a, jnp.where(level, -sign_dev, jnp.sign(c)), log_abs + log_p + self.loss.log_slope(f)

    def weights(self, h, log_S) -> Any:
        is_a, sign, log_abs = self._terms(h, log_S)
        # The winners' terms count in M, so that the clock does not jump when another token takes the lead.
        M = jax.nn.logsumexp(log_abs)
        q = jnp.where(is_a, 0.0, sign * jnp.exp(log_abs - M))
        return q - is_a * jnp.sum(q, axis=1, keepdims=True), M

    def selection(self, h) -> Any:
        return jnp.argmax(h, axis=1)

    def constraints(self, h, selection) -> Any:
        """`h_{i,selected} - h_il` for the other tokens in order, shape (n (L - 1),)."""
        chosen = jnp.take_along_axis(h, selection[:, None], axis=1)
        return (chosen - jnp.take_along_axis(h, _others(selection, h.shape[1], jnp), axis=1)).reshape(-1)

    def log_weights(self, h, log_S, selection):
        _, sign, log_abs = self._terms(h, log_S)
        others = _others(selection, h.shape[1], jnp)
        return LogWeights(
            -jnp.take_along_axis(sign, others, axis=1).reshape(-1),
            jnp.take_along_axis(log_abs, others, axis=1).reshape(-1),
        )

    def log_loss_gap(self, h, log_S) -> Any:
        u = self.scores
        best = jnp.argmax(u, axis=1)
        u_best = jnp.take_along_axis(u, best[:, None], axis=1)
        log_p = jax.nn.log_softmax(jnp.exp(log_S) * h, axis=1)
        log_x = jax.nn.logsumexp(log_p, b=u_best - u, axis=1)  # E_i: log of gamma_opt - f
        return jax.nn.logsumexp(self.loss.log_gap(u_best[:, 0], log_x))

    def limit_offsets(self, selection):
        u = np.take_along_axis(self.scores, np.asarray(selection)[:, None], axis=1)
        drop = u - np.take_along_axis(self.scores, other_tokens(selection, self.scores.shape[1]), axis=1)
        with double_precision():
            slope = np.asarray(self.loss.log_slope(u))
        with np.errstate(invalid="ignore", divide="ignore"):
            return (np.log(drop) + slope).reshape(-1)


def other_tokens(selection: Int[np.ndarray, " n"], L: int) -> Int[np.ndarray, "n L-1"]:
    """For each input the tokens that are not selected, in order: the order of `AttentionProblem.constraints`."""
    return _others(np.asarray(selection), L, np)


def _others(selection, L: int, xp):
    index = xp.arange(L - 1)[None, :]
    return index + (index >= selection[:, None])


def _power_of_two(x: float) -> float:
    """The power of two nearest below `x`; 1 for x = 0."""
    return 2.0 ** math.floor(math.log2(x)) if x > 0 else 1.0


def _measured_degree(margins: Callable[[Any], Any], theta: Float[np.ndarray, " N"]) -> float:
    """The degree D with `m(c theta) = c^D m(theta)`, measured along the ray of `theta` and of a point beside it.

    Accepts a spread of the local slopes up to 1e-6 and rounds to the nearest integer within that.
    Raises `ValueError` with the slopes when there is none, or when the margins are not a finite vector.
    """
    r = np.linalg.norm(theta)
    if not (np.isfinite(r) and r > 0):
        raise ValueError(f"`params` must be finite and not all zero; their norm is {r}.")
    beside = theta + 0.1 * r * np.random.default_rng(0).standard_normal(theta.size) / math.sqrt(theta.size)
    evaluate = jax.jit(margins)
    try:
        first = np.asarray(evaluate(theta))
    except (TypeError, AttributeError, jax.errors.JAXTypeError) as error:
        raise TypeError(
            "`margins` cannot be traced by JAX at `params`; write it with jax.numpy, as a function of params alone "
            f"({str(error).strip().splitlines()[0]})."
        ) from None
    if first.ndim != 1 or first.size == 0 or not np.issubdtype(first.dtype, np.floating):
        raise ValueError(
            "`margins` must return one vector of real margins; "
            f"got an array of shape {first.shape} and type {first.dtype}."
        )
    slopes = []
    for point in (theta, beside):
        m1 = np.asarray(evaluate(point))
        if not np.isfinite(m1).all():
            raise ValueError(f"`margins` returned {m1[~np.isfinite(m1)][0]} at `params`; it must be finite there.")
        for scale in (0.5, 2.0, 8.0):
            m = np.asarray(evaluate(scale * point))
            usable = np.abs(m1) > 1e-12 * np.abs(m1).max()
            with np.errstate(divide="ignore", invalid="ignore"):
                slopes.append(np.log(m[usable] / m1[usable]) / math.log(scale))
    slopes = np.concatenate(slopes) if slopes else np.zeros(0)
    if slopes.size == 0:
        raise ValueError(
            "`margins` is zero at `params` and beside it; its degree of homogeneity cannot be measured there."
        )
    low, high = np.min(slopes), np.max(slopes)  # NaN (a margin that changed its sign) spreads through both
    if not high - low <= 1e-6:
        seen = (
            "a margin changed its sign under scaling"
            if np.isnan(slopes).any()
            else f"the slopes of log m(c theta) in log c range over [{low:.6g}, {high:.6g}]"
        )
        raise ValueError(
            f"`margins` is not homogeneous: {seen}, where a homogeneous function has one degree. "
            "Drop biases or normalisation layers, or scale them with the parameters."
        )
    degree = float(np.median(slopes))
    degree = float(round(degree)) if abs(degree - round(degree)) < 1e-6 else degree
    if not degree > 0:
        raise ValueError(
            f"`margins` has the degree of homogeneity {degree:.6g}; it must be positive for a flow to have a direction."
        )
    return degree
