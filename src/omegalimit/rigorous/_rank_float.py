"""A lower bound of the rank in double precision, certified: singular values less a bound on all rounding errors.

Every array carries a bound on its error. With unit roundoff u and `gamma_n = n u / (1 - n u)`, a sum of n products is
off by at most `gamma_n sum |a_i| |b_i|` in any order of summation (Higham, Accuracy and Stability, section 3.1), plus
n times the smallest normal number where products underflow. For the decomposition `U diag(s) V^T` that LAPACK returned
for the computed Jacobian, nothing is assumed: with `e` the bound on the Jacobian's error, `rho` on the residual, and
`o_U`, `o_V` on the distances of `U^T U` and `V^T V` from the unit matrix (Frobenius norms, all with their own
rounding), the exact Jacobian has `sigma_k >= s_k sqrt((1 - o_U)(1 - o_V)) - rho - e`. Derived here from Weyl's
inequality.

Before that all is scaled by powers of two, which is exact and changes no rank: rows of hidden neurons to absolute sums
in [1/2, 1], by their rescalings; outputs; points; columns.
"""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_count, check_finite, check_unmasked, to_float64
from .._exact import check_layers
from ..models.monomial import MonomialNetwork, check_shapes
from ._rank_bounds import rank_bound
from ._rank_sizes import DOUBLES, check_fits
from ._rank_weights import fraction_layers

_U = 2.0**-53
_TINY = 2.0**-1022
_RELATIVE = 2.0**-20
# Covers the rounding of the bounds themselves, some thousand operations each.
_UP = 1 + 2.0**-40


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatRank:
    """What double precision can say of the rank: `lower <= rank <= upper`.

    - `singular_values`: of the Jacobian at random points, rows and columns scaled by powers of two, without those in
      which underflow has left too few digits.
    - `error`: by how much each may be wrong; those above it are certified to be positive, and `lower` counts them.
    - `upper`: the bound for the architecture. Doubles never prove a rank below it: an exact zero looks like a small
      number.
    """

    widths: tuple[int, ...]
    degree: int
    upper: int
    singular_values: Float[np.ndarray, " k"]
    error: float

    @property
    def lower(self) -> int:
        """The number of singular values that are certified to be positive."""
        return int(np.count_nonzero(self.singular_values > self.error))

    @property
    def decided(self) -> bool:
        """Whether the bounds meet."""
        return self.lower == self.upper

    @property
    def rank(self) -> int | None:
        """The rank; `None` where double precision does not decide it."""
        return self.lower if self.decided else None

    def describe(self) -> str:
        """The outcome in a sentence."""
        if self.decided:
            return f"rank {self.lower}, certified in double precision"
        s = self.singular_values
        if not s.any():
            why = "; all that is left of the Jacobian in double precision is zero"
        elif self.lower < len(s):
            value = abs(float(s[self.lower]))  # LAPACK may return -0.0
            why = f"; singular value {self.lower + 1} is {value:.1e}, and rounding may account for {self.error:.1e}"
        else:
            why = f", and rounding may account for {self.error:.1e}"
        return f"undecided: at least {self.lower} and at most {self.upper}{why}; `jacobian_rank` decides exactly"


@dataclasses.dataclass(frozen=True)
class _Bounded:
    """An array, and a bound on the absolute error of each entry."""

    value: np.ndarray
    error: np.ndarray

    def times(self, other: "_Bounded") -> "_Bounded":
        a, b = abs(self.value), abs(other.value)
        error = (a + self.error) * other.error + self.error * b + _U * a * b + _TINY
        return _Bounded(self.value * other.value, error * _UP)

    def product(self, W: "_Bounded") -> "_Bounded":
        """The matrix product."""
        n, a, w = len(W.value), abs(self.value), abs(W.value)
        error = (a + self.error) @ W.error + self.error @ w + _gamma(n) * (a @ w) + n * _TINY
        return _Bounded(self.value @ W.value, error * _UP)

    def power(self, r: int) -> "_Bounded":
        """`value^r`, r >= 1, by repeated squaring."""
        found, square = None, self
        while True:
            if r & 1:
                found = square if found is None else found.times(square)
            r >>= 1
            if not r:
                assert found is not None
                return found
            square = square.times(square)


def _gamma(n):
    return n * _U / (1 - n * _U)


def float_rank(
    weights: Sequence[Any], degree: int, *, n_points: int | None = None, most_bytes: float = 2e9, seed: int = 0
) -> FloatRank:
    """A certified lower bound of the rank at these weights in double precision, and whether it decides the rank.

    - `n_points`: how many random points; by default twice as many values as there are weights. With fewer the bound
      remains one, at most `n_points` times the number of outputs.
    - `most_bytes`: the most that it may take; raises `ValueError` beyond, with the number of points that fit.
    - `seed`: of the points.

    Weights may be anything that `jacobian_rank` takes; fractions are rounded, and the error accounts for it.
    """
    rounded = _doubles(weights)
    network = MonomialNetwork(check_shapes([W.shape for W, _ in rounded]), degree)
    layers = _scaled(rounded, network.degree)
    n, m = network.n_parameters, network.widths[-1]
    n_points = -(-2 * n // m) if n_points is None else check_count(n_points, "n_points", least=1)
    check_fits(network, most_bytes, an_entry=DOUBLES, n_points=n_points)
    X = np.random.default_rng(check_count(seed, "seed", least=0)).standard_normal((n_points, network.widths[0]))
    X /= abs(X).max(axis=1, keepdims=True)
    values, error = np.zeros(min(n_points * m, n)), math.inf
    if layers is not None:
        J = _jacobian(layers, network.degree, _Bounded(X, np.zeros_like(X)))
        values, error = _singular_values(*_equilibrated(J))
    return FloatRank(
        widths=network.widths, degree=network.degree, upper=rank_bound(network.widths, network.degree),
        singular_values=values, error=error,
    )  # fmt: skip


def _doubles(weights):
    """The weights as float64, with the errors of their rounding."""
    for layer, W in enumerate(check_layers(weights)):
        check_unmasked(W, f"weights[{layer}]")
    weights = [W if isinstance(W, (list, tuple)) else np.asarray(W) for W in weights]
    matrices = [W for W in weights if isinstance(W, np.ndarray) and W.dtype.kind in "fiub" and W.dtype.itemsize <= 8]
    if len(matrices) == len(weights):
        arrays = [to_float64(W, f"weights[{layer}]")[0] for layer, W in enumerate(matrices)]
        check_shapes([W.shape for W in arrays])
        for layer, W in enumerate(arrays):
            check_finite(W, f"weights[{layer}]")
        if all(W.dtype.kind == "f" for W in matrices):
            return [(W, np.zeros_like(W)) for W in arrays]
        return [(W, np.where(abs(W) < 2.0**53, 0.0, 2 * _U * abs(W))) for W in arrays]
    found = []
    for rows in fraction_layers(weights):
        most = max((abs(x) for row in rows for x in row), default=0) or Fraction(1)
        exponent = most.numerator.bit_length() - most.denominator.bit_length()
        scale = Fraction(2) ** -exponent  # a whole layer times a power of two: no overflow, no change of rank
        W = np.array([[float(x * scale) for x in row] for row in rows])
        exact = np.array(
            [
                [Fraction(y) == x * scale for x, y in zip(*pair, strict=True)]
                for pair in zip(rows, W.tolist(), strict=True)
            ]
        )
        found.append((W, np.where(exact, 0.0, 2 * _U * abs(W) + _TINY)))
    return found


def _scaled(layers, degree):
    """Rows scaled to absolute sums in [1/2, 1]; each hidden neuron's outgoing column takes the inverse r-th power.

    `None` where the exponents leave 64 bits.
    """
    found, exponents = [], None
    for W, error in layers:
        mantissas, powers = np.frexp(W)
        powers = powers.astype(np.int64)
        if exponents is not None:
            if degree * int(abs(exponents).max()) > 2**60:
                return None
            powers = powers + degree * exponents
        powers = np.where(mantissas == 0, np.iinfo(np.int64).min // 2, powers)
        top = powers.max(axis=1, keepdims=True)
        top = np.where(mantissas.any(axis=1, keepdims=True), top, 0)
        shift = np.maximum(powers - top, -2000)
        scaled = np.ldexp(mantissas, shift)
        extra = np.frexp(abs(scaled).sum(axis=1, keepdims=True))[1].astype(np.int64)
        scaled = np.ldexp(scaled, -extra)
        relative = np.divide(error, abs(W), out=np.zeros_like(W), where=W != 0)
        lost = np.where((shift - extra < -1000) & (mantissas != 0), _TINY, 0.0)
        found.append(_Bounded(scaled, (relative * abs(scaled) + lost) * _UP))
        exponents = (top + extra)[:, 0]
    return found


def _jacobian(layers, degree, X):
    """The Jacobian with its error, shape (n d_L, n_parameters)."""
    inputs, slopes = [X], []
    r = _Bounded(np.array(float(degree)), np.array(0.0))
    for W in layers[:-1]:
        h = inputs[-1].product(_Bounded(W.value.T, W.error.T))
        lower = h.power(degree - 1)
        inputs.append(lower.times(h))
        slopes.append(lower.times(r))
    n, m = len(X.value), len(layers[-1].value)
    unit = np.broadcast_to(np.eye(m), (n, m, m))
    delta, blocks = _Bounded(unit, np.zeros_like(unit)), []
    for layer in range(len(layers) - 1, -1, -1):
        a = inputs[layer]
        block = _Bounded(delta.value[..., None], delta.error[..., None]).times(
            _Bounded(a.value[:, None, None, :], a.error[:, None, None, :])
        )
        blocks.append((block.value.reshape(n * m, -1), block.error.reshape(n * m, -1)))
        if layer:
            s = slopes[layer - 1]
            delta = delta.product(layers[layer]).times(_Bounded(s.value[:, None, :], s.error[:, None, :]))
    return tuple(np.concatenate(parts[::-1], axis=1) for parts in zip(*blocks, strict=True))


def _equilibrated(J):
    """Rows, then columns, scaled by powers of two to a largest entry in [1/2, 1).

    Those of which rounding and underflow have left less than six digits are dropped: what remains bounds the rank too.
    """
    value, error = J
    for axis in (1, 0):
        exponents = -np.frexp(abs(value).max(axis=axis, keepdims=True, initial=0.0))[1]
        with np.errstate(over="ignore"):
            value, error = np.ldexp(value, exponents), np.ldexp(error, exponents) + _TINY
        kept = error.max(axis=axis, initial=0.0) <= _RELATIVE
        value, error = (value[kept], error[kept]) if axis else (value[:, kept], error[:, kept])
    return value, error


def _singular_values(J, error):
    if J.size == 0:
        return np.zeros(0), math.inf
    try:
        U, s, Vt = np.linalg.svd(J, full_matrices=False)
    except np.linalg.LinAlgError:  # LAPACK did not converge: nothing is certified
        return np.zeros(min(J.shape)), math.inf
    k = len(s)
    scaled = U * s
    residual = np.linalg.norm(J - scaled @ Vt) + _gamma(k + 2) * np.linalg.norm(abs(scaled) @ abs(Vt))
    orthogonality = [
        np.linalg.norm(Q.T @ Q - np.eye(k)) + _gamma(len(Q) + 1) * np.linalg.norm(abs(Q).T @ abs(Q)) for Q in (U, Vt.T)
    ]
    if max(orthogonality) >= 0.5:
        return s, math.inf
    # sqrt((1 - o_U)(1 - o_V)) >= 1 - o_U - o_V for both below 1/2: the loss is charged to the error, at the largest s.
    loss = float(s[0]) * sum(orthogonality)
    return s, float((np.linalg.norm(error) + residual + loss) * _UP * (1 + J.size * _U))
