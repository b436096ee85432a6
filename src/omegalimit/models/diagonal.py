"""Neurons `k_i(theta_i)` of diagonal linear networks `F(x) = sum_i k_i(theta_i) x_i`, one per feature.

Each family gives `k`, its gradient and its Hessian for parameters of shape (..., d, m), NumPy in and out. All are right
down to parameters of 1e-100 and below: a user's `exp(b) - 1` is exactly zero in doubles at b = 1e-60, so functions are
evaluated by their Taylor terms at the origin there.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_count

Array = Float[np.ndarray, "..."]
# The compiler's own work is most of what a user's function costs; it changes no operation.
QUICK_TO_COMPILE: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
FEW, MANY = 16, 256  # rows for which a function is compiled: two programs, whatever is asked


class AbstractNeurons(abc.ABC):
    """The neurons of a diagonal network.

    - `order`: the lowest degree of `k_i` at the origin: 2 for two-layer networks, L for deep ones.
    - `width`: m, the number of parameters of a neuron (the largest, where they differ).
    """

    @property
    @abc.abstractmethod
    def order(self) -> int: ...

    @property
    @abc.abstractmethod
    def width(self) -> int: ...

    @abc.abstractmethod
    def k(self, theta: Array) -> Array:
        """`k_i(theta_i)`, shape (..., d), for `theta` of shape (..., d, m)."""

    @abc.abstractmethod
    def gradient(self, theta: Array) -> Array:
        """`grad k_i(theta_i)`, shape (..., d, m)."""

    @abc.abstractmethod
    def hessian(self, theta: Array) -> Array:
        """`k_i''(theta_i)`, shape (..., d, m, m)."""

    @abc.abstractmethod
    def extreme_eigenvalues(self, d: int) -> tuple[Array, Array]:
        """`(lam_1, lam_m)`, each of shape (d,): the extreme eigenvalues of the Hessian at the origin."""

    @abc.abstractmethod
    def invariants(self, theta: Array) -> tuple[Array, Array] | None:
        """What gradient flow conserves, shape (..., d, q), and the size of the terms that it is a difference of, which
        its rounding is relative to; `None` where no formula is known."""

    def describe(self) -> str:
        """The family in a few words."""
        return repr(self)


@dataclasses.dataclass(frozen=True)
class ProductNeurons(AbstractNeurons):
    """`k_i = a_i1 a_i2 ... a_iL`, with `depth` L >= 2. Gradient flow conserves `a_ij^2 - a_i1^2`."""

    depth: int

    def __post_init__(self) -> None:
        check_count(self.depth, "depth", least=2)

    @property
    def order(self) -> int:
        return self.depth

    @property
    def width(self) -> int:
        return self.depth

    def k(self, theta: Array) -> Array:
        return np.prod(theta, axis=-1)

    def gradient(self, theta: Array) -> Array:
        # Products of the others, in one order for all: equal factors then have equal derivatives to the last bit.
        return np.stack([np.prod(np.delete(theta, j, axis=-1), axis=-1) for j in range(self.depth)], axis=-1)

    def hessian(self, theta: Array) -> Array:
        H = np.zeros((*theta.shape, self.depth))
        for j in range(self.depth):
            for i in range(j):
                H[..., i, j] = H[..., j, i] = np.prod(np.delete(theta, (i, j), axis=-1), axis=-1)
        return H

    def extreme_eigenvalues(self, d: int) -> tuple[Array, Array]:
        size = 1.0 if self.depth == 2 else 0.0
        return np.full(d, -size), np.full(d, size)

    def invariants(self, theta: Array) -> tuple[Array, Array]:
        first, others = theta[..., :1], theta[..., 1:]
        # (a - b)(a + b) loses nothing where a^2 - b^2 would.
        return (others - first) * (others + first), others**2 + first**2


@dataclasses.dataclass(frozen=True)
class PowerDifference(AbstractNeurons):
    """`k_i = u_i^D - v_i^D`, with `power` D >= 2; parameters `(u_i, v_i)`, which must be positive for D > 2.

    Gradient flow conserves `u v` for D = 2 and `u^{2-D} + v^{2-D}` for D > 2 (derived here).
    """

    power: int

    def __post_init__(self) -> None:
        check_count(self.power, "power", least=2)

    @property
    def order(self) -> int:
        return self.power

    @property
    def width(self) -> int:
        return 2

    def k(self, theta: Array) -> Array:
        return theta[..., 0] ** self.power - theta[..., 1] ** self.power

    def gradient(self, theta: Array) -> Array:
        return self.power * theta ** (self.power - 1) * np.array([1.0, -1.0])

    def hessian(self, theta: Array) -> Array:
        curvature = self.power * (self.power - 1) * theta ** (self.power - 2) * np.array([1.0, -1.0])
        return curvature[..., None] * np.eye(2)

    def extreme_eigenvalues(self, d: int) -> tuple[Array, Array]:
        size = 2.0 if self.power == 2 else 0.0
        return np.full(d, -size), np.full(d, size)

    def invariants(self, theta: Array) -> tuple[Array, Array]:
        u, v = theta[..., :1], theta[..., 1:]
        if self.power == 2:
            return u * v, np.abs(u * v)
        value = u ** (2 - self.power) + v ** (2 - self.power)
        return value, value


@dataclasses.dataclass(frozen=True)
class WeightedSquares(AbstractNeurons):
    """`k_i = p_i u_i^2 - q_i v_i^2`, p and q positive; parameters `(u_i, v_i)`.

    - `p`, `q`: one number a feature.

    Gradient flow conserves `|u|^q |v|^p` (derived here).
    """

    p: tuple[float, ...]
    q: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, values in (("p", self.p), ("q", self.q)):
            bad = [value for value in values if not 0 < value < math.inf]
            if bad:
                raise ValueError(f"`{name}` must be positive and finite; got {bad[0]!r}.")
        if len(self.p) != len(self.q):
            raise ValueError(f"`p` has {len(self.p)} entries and `q` {len(self.q)}; give one a feature.")

    @property
    def order(self) -> int:
        return 2

    @property
    def width(self) -> int:
        return 2

    @property
    def coefficients(self) -> Float[np.ndarray, "d 2"]:
        """`(p, q)`."""
        return np.array([self.p, self.q], dtype=float).T

    @property
    def _signed(self) -> Float[np.ndarray, "d 2"]:
        return self.coefficients * np.array([1.0, -1.0])

    def check_features(self, d: int) -> None:
        """Raise `ValueError` when there are not `d` numbers."""
        if len(self.p) != d:
            raise ValueError(f"`p` gives {len(self.p)} neurons and the data have {d} features; give one per feature.")

    def k(self, theta: Array) -> Array:
        return np.sum(self._signed * theta**2, axis=-1)

    def gradient(self, theta: Array) -> Array:
        return 2 * self._signed * theta

    def hessian(self, theta: Array) -> Array:
        return np.broadcast_to(2 * self._signed[..., None] * np.eye(2), (*theta.shape, 2))

    def extreme_eigenvalues(self, d: int) -> tuple[Array, Array]:
        self.check_features(d)
        return -2 * np.array(self.q, dtype=float), 2 * np.array(self.p, dtype=float)

    def invariants(self, theta: Array) -> tuple[Array, Array]:
        # By the larger exponent's root: |u|^(q/m) |v|^(p/m), m = max(p, q), stays within doubles.
        power = self.coefficients[:, ::-1] / self.coefficients.max(axis=1)[:, None]
        value = np.prod(np.abs(theta) ** power, axis=-1)[..., None]
        return value, value


def _jets(function: Callable[[Any], Any], m: int, order: int) -> list[np.ndarray]:
    """The derivative tensors of `function` at the origin, of degrees 0 to `order`."""
    import jax
    import jax.numpy as jnp

    from .._numerics import double_precision

    def differentiated(lower: Callable[[Any], tuple]) -> Callable[[Any], tuple]:
        """`x -> (D_0, ..., D_p, D_{p+1})` from `x -> (D_0, ..., D_p)`: one chain, compiled once."""

        def whole(x):
            found = lower(x)
            return found[-1], found

        def next_one(x):
            derivative, found = jax.jacfwd(whole, has_aux=True)(x)
            return (*found, derivative)

        return next_one

    def value(x):
        return (function(x),)

    chain: Callable[[Any], tuple] = value
    for _ in range(order):
        chain = differentiated(chain)
    with double_precision():
        compiled = jax.jit(chain, compiler_options=QUICK_TO_COMPILE)
        return [np.asarray(value, dtype=float) for value in compiled(jnp.zeros(m))]


class Neuron:
    """One function of `m` parameters, with its derivatives, exact near the origin.

    - `tensors`: derivatives at the origin, degrees 0 to 5 (fewer for m > 12); `radius`: below it, in the largest
      coordinate, the Taylor terms are used. Derived here: with the growth R of the terms the first one left out is
      `(R radius)^(order - 1)` of the gradient, set to 1e-13, while direct evaluation loses about `1e-16 / (R radius)`.
      Where the two disagree at the radius, it is made smaller until they do not.
    """

    def __init__(self, function: Callable[[Any], Any], m: int) -> None:
        import jax

        self.function, self.m = function, m
        order = 5 if m <= 12 else 3
        try:
            self.tensors = _jets(function, m, order)
        except (TypeError, jax.errors.JAXTypeError) as error:
            raise TypeError(
                f"a neuron's function must map one JAX vector of {m} parameters to a real number, with jax.numpy "
                f"inside; tracing it raised {type(error).__name__}: {str(error).splitlines()[0]}"
            ) from None
        if self.tensors[0].shape != ():
            raise TypeError(f"a neuron's function must return one number; got shape {self.tensors[0].shape}.")
        sizes = [float(np.abs(T).max()) / math.factorial(p) for p, T in enumerate(self.tensors)]
        lead = next((p for p in range(2, order) if sizes[p] > 0), None)
        self.radius = 0.0
        if lead is not None and all(map(math.isfinite, sizes)) and sizes[0] == sizes[1] == 0:
            ratios = [(sizes[p] / sizes[lead]) ** (1 / (p - lead)) for p in range(lead + 1, order + 1)]
            self.radius = 1e-13 ** (1 / (order + 1 - lead)) / max(max(ratios) * math.sqrt(m), 1.0)
        grad = jax.grad(function)

        def whole(x):
            value, slope = jax.value_and_grad(function)(x)
            return value, slope, jax.jacfwd(grad)(x)

        self._whole = jax.jit(jax.vmap(whole), compiler_options=QUICK_TO_COMPILE)
        while self.radius > 1e-12 and not self._agrees():
            self.radius *= 0.3

    def _agrees(self) -> bool:
        """Whether the Taylor terms and the function itself have the same gradient at the radius, within rounding: terms
        of a high degree may be large where all that are known are small."""
        directions = np.random.default_rng(0).standard_normal((FEW, self.m))
        theta = 0.999 * self.radius * directions / np.abs(directions).max(axis=1, keepdims=True)
        taylor, direct = self._taylor(theta, 1), self._direct(theta, 1)
        apart, size = np.abs(taylor - direct).max(), np.abs(taylor).max()
        return not apart > max(1e-9, 100 * np.finfo(float).eps / self.radius) * size

    def _direct(self, theta: Float[np.ndarray, "B m"], free: int) -> np.ndarray:
        """The value (free 0), gradient (1) or Hessian (2) by the function itself."""
        from .._numerics import double_precision

        rows = len(theta)
        if rows > MANY:
            return np.concatenate([self._direct(theta[i : i + MANY], free) for i in range(0, rows, MANY)])
        padded = np.zeros((FEW if rows <= FEW else MANY, self.m))
        padded[:rows] = theta
        with double_precision():
            # One program for all three; what is fetched is most of what a call costs.
            return np.asarray(self._whole(padded)[free])[:rows]

    def _by_distance(self, theta: Float[np.ndarray, "B m"], free: int) -> np.ndarray:
        near = np.abs(theta).max(axis=1) < self.radius
        if near.all():
            return self._taylor(theta, free)
        if not near.any():
            return self._direct(theta, free)
        found = np.empty((len(theta), *(self.m,) * free))
        found[near], found[~near] = self._taylor(theta[near], free), self._direct(theta[~near], free)
        return found

    def _taylor(self, theta: np.ndarray, free: int) -> np.ndarray:
        """`sum_p T_p [theta^(p - free)] / (p - free)!` over p >= 2: the value (free 0), gradient (1), Hessian (2)."""
        top = len(self.tensors) - 1
        if len(theta) == 1:
            one = self.tensors[top]
            for p in range(top, free, -1):
                one = one @ theta[0] / (p - free)
                if p > 2:
                    one = one + self.tensors[p - 1]
            return one[None]
        many = np.broadcast_to(self.tensors[top], (len(theta), *self.tensors[top].shape))
        for p in range(top, free, -1):
            many = np.einsum("b...i,bi->b...", many, theta) / (p - free)
            if p > 2:
                many = many + self.tensors[p - 1]
        return many

    def taylor_term(self, theta: Float[np.ndarray, "B m"], p: int) -> Float[np.ndarray, " B"]:
        """The term of degree p of the value."""
        term = np.broadcast_to(self.tensors[p], (len(theta), *self.tensors[p].shape))
        for q in range(p, 0, -1):
            term = np.einsum("b...i,bi->b...", term, theta) / q
        return term

    def direct_value(self, theta: Float[np.ndarray, "B m"]) -> Float[np.ndarray, " B"]:
        """k by the function itself, without the Taylor terms."""
        return self._direct(theta, 0)

    def value_and_gradient(self, theta: Float[np.ndarray, "B m"]) -> tuple[Float[np.ndarray, " B"], np.ndarray]:
        """`(k, grad k)` at each row."""
        return self._by_distance(theta, 0), self._by_distance(theta, 1)

    def gradient(self, theta: Float[np.ndarray, "B m"]) -> Float[np.ndarray, "B m"]:
        """`grad k` at each row."""
        return self._by_distance(theta, 1)

    def hessian(self, theta: Float[np.ndarray, "B m"]) -> Float[np.ndarray, "B m m"]:
        """`k''` at each row."""
        return self._by_distance(theta, 2)


class _Same:
    """A function, equal to itself alone."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.function is self.function


@functools.lru_cache(maxsize=64)
def _compiled(same: _Same, m: int) -> Neuron:
    return Neuron(same.function, m)


def compiled_neuron(function: Callable[[Any], Any], m: int) -> Neuron:
    """`Neuron(function, m)`, made once for each function object: as with `jax.jit`, it must be a pure one."""
    return _compiled(_Same(function), m)


@dataclasses.dataclass(frozen=True)
class NeuronFunctions(AbstractNeurons):
    """The user's own neurons: JAX functions of one vector each, `functions` one per feature or a single shared one.

    - `sizes`: how many parameters each takes, one number or one per function. Parameters are arrays (..., d, m) with m
      the largest of them; what is beyond a neuron's own number is ignored, and its derivative is zero.

    For the paper's own `k = a tanh a - (e^b - 1)^2`, say:

        NeuronFunctions(lambda p: p[0] * jnp.tanh(p[0]) - jnp.expm1(p[1]) ** 2, 2)
    """

    functions: Callable[[Any], Any] | Sequence[Callable[[Any], Any]]
    sizes: int | Sequence[int]

    def __post_init__(self) -> None:
        for function in self._functions:
            if not callable(function):
                raise TypeError(f"`functions` must be functions of one JAX vector; got {function!r}.")
        for size in self._sizes:
            check_count(size, "sizes", least=1)
        if len(self._sizes) not in (1, len(self._functions)) and len(self._functions) != 1:
            raise ValueError(f"`functions` has {len(self._functions)} entries and `sizes` {len(self._sizes)}.")

    @property
    def _functions(self) -> tuple[Callable[[Any], Any], ...]:
        return (self.functions,) if callable(self.functions) else tuple(self.functions)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (self.sizes,) if isinstance(self.sizes, int | np.integer) else tuple(self.sizes)

    @property
    def order(self) -> int:
        return 2

    @property
    def width(self) -> int:
        return max(self._sizes)

    def neuron(self, i: int) -> Neuron:
        """The function of feature `i`; features that share a function share what was compiled for it."""
        functions, sizes = self._functions, self._sizes
        function = functions[0] if len(functions) == 1 else functions[i]
        m = int(sizes[0] if len(sizes) == 1 else sizes[i])
        return compiled_neuron(function, m)

    def check_features(self, d: int) -> None:
        """Raise `ValueError` when there are not `d` functions (or one)."""
        n = max(len(self._functions), len(self._sizes))
        if n not in (1, d):
            raise ValueError(f"`functions` gives {n} neurons and the data have {d} features; give one per feature.")

    def _groups(self, d: int) -> list[tuple[Neuron, list[int]]]:
        self.check_features(d)
        found: dict[int, tuple[Neuron, list[int]]] = {}
        for i in range(d):
            neuron = self.neuron(i)
            found.setdefault(id(neuron), (neuron, []))[1].append(i)
        return list(found.values())

    def _apply(self, theta: Array, free: int) -> Array:
        theta = np.asarray(theta, dtype=float)
        d, m = theta.shape[-2:]
        out = np.zeros((*theta.shape[:-1], *(m,) * free))
        for neuron, members in self._groups(d):
            rows = theta[..., members, : neuron.m]
            flat = rows.reshape(-1, neuron.m)
            value = neuron.hessian(flat) if free == 2 else neuron.value_and_gradient(flat)[free]
            own = (slice(0, neuron.m),) * free
            out[(..., members, *own)] = value.reshape(*rows.shape[:-1], *value.shape[1:])
        return out

    def k(self, theta: Array) -> Array:
        return self._apply(theta, 0)

    def gradient(self, theta: Array) -> Array:
        return self._apply(theta, 1)

    def hessian(self, theta: Array) -> Array:
        return self._apply(theta, 2)

    def extreme_eigenvalues(self, d: int) -> tuple[Array, Array]:
        self.check_features(d)
        values = [np.linalg.eigvalsh(self.neuron(i).tensors[2]) for i in range(d)]
        return np.array([v[0] for v in values]), np.array([v[-1] for v in values])

    def invariants(self, theta: Array) -> None:
        return None
