"""Gaussian regression with a few strong directions (the head) and a long weak tail, drawn without the tail's columns.

The rows of `X = [X_H, X_T]` are independent `N(0, Sigma)`, `Sigma = diag(head) + diag(tail)`; the signal lies in the
head: `y = X_H b_H + sigma z`. Everything that shrinking in the spectrum of `X'X/n` can depend on is in a few n x n
matrices: `X_T X_T'` and `X_T Sigma_T X_T'`. They are drawn from their exact law:

- a tail eigenvalue of multiplicity `p >= n` contributes `lam L L'` with Bartlett's lower triangular L (Wishart):
  `L_ii^2 ~ chi^2_{p-i}`, `L_ij ~ N(0, 1)` below: n^2/2 draws instead of n p;
- one of smaller multiplicity is drawn as columns, in blocks, and only the sums are kept.

So no d x d matrix and no n x d matrix is ever formed, and a tail of 10^5 dimensions costs no more than one of n.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import check_count, shape_text, to_float64

_COLUMNS = 1024  # tail columns drawn at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tail:
    """Eigenvalues of the covariance outside the head, each with its multiplicity.

    - `eigenvalues`: shape (g,), positive; `counts`: shape (g,), whole numbers >= 1.
    """

    eigenvalues: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.eigenvalues) != len(self.counts):
            raise ValueError(
                f"a tail needs one count for each eigenvalue; got {len(self.eigenvalues)} and {len(self.counts)}."
            )
        for value in self.eigenvalues:
            _check_positive(value, "tail eigenvalue")
        for count in self.counts:
            check_count(count, "tail count", least=1)

    @property
    def size(self) -> int:
        """Number of tail dimensions."""
        return sum(self.counts)

    @property
    def trace(self) -> float:
        """`tr(Sigma_T)`."""
        return math.fsum(lam * p for lam, p in zip(self.eigenvalues, self.counts, strict=True))

    @property
    def trace_of_square(self) -> float:
        """`tr(Sigma_T^2)`."""
        return math.fsum(lam * lam * p for lam, p in zip(self.eigenvalues, self.counts, strict=True))

    @property
    def effective_rank(self) -> float:
        """`tr(Sigma_T)^2 / tr(Sigma_T^2)`: the number of dimensions of the flat tail with the same two traces."""
        return self.trace**2 / self.trace_of_square


def flat_tail(eigenvalue: float, count: int) -> Tail:
    """`count` dimensions of the same variance."""
    return Tail(eigenvalues=(eigenvalue,), counts=(count,))


def power_tail(count: int, *, exponent: float, trace: float) -> Tail:
    """`count` dimensions with eigenvalues in proportion to `j^-exponent`, j = 1, ..., count, scaled to the trace."""
    check_count(count, "count", least=1)
    _check_positive(trace, "trace")
    weights = np.arange(1.0, count + 1) ** -float(exponent)
    return Tail(eigenvalues=tuple((trace * weights / weights.sum()).tolist()), counts=(1,) * count)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpikeDesign:
    """One draw of the design and the noise.

    - `head`: variances of the head's coordinates, shape (h,); `b_head`: their coefficients, shape (h,).
    - `X_head`: shape (n, h); `tail_gram`: `X_T X_T'`, `tail_gram_squared`: `X_T Sigma_T X_T'`, both (n, n).
    - `noise`: the noise as drawn, shape (n,); `sigma`: its standard deviation.
    """

    head: Float[np.ndarray, " h"]
    tail: Tail
    b_head: Float[np.ndarray, " h"]
    sigma: float
    X_head: Float[np.ndarray, "n h"]
    tail_gram: Float[np.ndarray, "n n"]
    tail_gram_squared: Float[np.ndarray, "n n"]
    noise: Float[np.ndarray, " n"]

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.noise)

    @property
    def y(self) -> Float[np.ndarray, " n"]:
        """`X_H b_H + noise`."""
        return self.X_head @ self.b_head + self.noise

    @property
    def gram(self) -> Float[np.ndarray, "n n"]:
        """`X X'`."""
        return self.X_head @ self.X_head.T + self.tail_gram

    @property
    def gram_squared(self) -> Float[np.ndarray, "n n"]:
        """`X Sigma X'`."""
        return (self.X_head * self.head) @ self.X_head.T + self.tail_gram_squared

    @property
    def signal(self) -> Float[np.ndarray, " n"]:
        """`X b*`."""
        return self.X_head @ self.b_head

    @property
    def weighted_signal(self) -> Float[np.ndarray, " n"]:
        """`X Sigma b*`."""
        return self.X_head @ (self.head * self.b_head)

    @property
    def signal_power(self) -> float:
        """`b*' Sigma b*`."""
        return float(np.sum(self.head * self.b_head**2))

    def columns(self) -> Float[np.ndarray, "n p"]:
        """`[X_H, L]` with `L L' = X_T X_T'`: the design in the tail's row space, shape (n, h+n).

        The true design is this one times a matrix with orthonormal rows, so that descent, flow and least norm on the
        one are those on the other, rotated. (The covariance of new data is not diagonal in these coordinates, unless
        the tail is flat.)
        """
        try:
            L = np.linalg.cholesky(self.tail_gram)
        except np.linalg.LinAlgError:  # fewer tail dimensions than observations
            values, vectors = np.linalg.eigh(self.tail_gram)
            L = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.hstack([self.X_head, L])


def spike_design(
    n: int,
    head: Sequence[float],
    tail: Tail,
    *,
    b_head: Sequence[float] | None = None,
    sigma: float = 0.1,
    seed: int = 0,
) -> SpikeDesign:
    """A design of n observations with this head and tail.

    - `b_head`: coefficients, `1 / sqrt(h)` each when not given.

    Drawn from `numpy.random.default_rng(seed)` in this order: the head's columns (n, h), standard normal and then
    scaled; the tail, eigenvalue by eigenvalue (Bartlett's chi-squares, then the entries below the diagonal row by
    row; or columns); the noise (n,).

    Raises `ValueError` for an empty head, counts below 1, variances that are not positive, a negative `sigma`, or
    coefficients of another number than the head's.
    """
    check_count(n, "n", least=2)
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    variances = to_float64(head, "head")[0]
    if variances.ndim != 1:
        raise ValueError(f"`head` must be a list of variances; got shape {shape_text(variances.shape)}.")
    if not variances.size:
        raise ValueError("`head` is empty; give at least one variance.")
    for value in variances.tolist():
        _check_positive(value, "head eigenvalue")
    if not isinstance(tail, Tail):
        raise TypeError(f"`tail` must be a `Tail`, as `flat_tail(level, count)` makes one; got {tail!r}.")
    b = np.full(variances.size, 1 / math.sqrt(variances.size)) if b_head is None else to_float64(b_head, "b_head")[0]
    if b.shape != variances.shape or not np.isfinite(b).all():
        raise ValueError(
            f"`b_head` needs {variances.size} finite coefficients, one for each of `head`; got {b_head!r}."
        )
    sigma = _one(sigma, "sigma")
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ValueError(f"`sigma` must be finite and not negative; got {sigma!r}.")
    X_head = rng.standard_normal((n, variances.size)) * np.sqrt(variances)
    first, second = _tail_grams(n, tail, rng)
    noise = sigma * rng.standard_normal(n)
    return SpikeDesign(
        head=variances,
        tail=tail,
        b_head=b,
        sigma=sigma,
        X_head=X_head,
        tail_gram=first,
        tail_gram_squared=second,
        noise=noise,
    )


def wishart(n: int, degrees: int, rng: np.random.Generator) -> Float[np.ndarray, "n n"]:
    """`Z Z'` for Z (n, degrees) standard normal, by Bartlett's decomposition; needs `degrees >= n`."""
    check_count(degrees, "degrees", least=n)
    L = np.zeros((n, n))
    diagonal = np.sqrt(rng.chisquare(degrees - np.arange(n)))
    L[np.tril_indices(n, -1)] = rng.standard_normal(n * (n - 1) // 2)
    L[np.diag_indices(n)] = diagonal
    return L @ L.T


def _tail_grams(n: int, tail: Tail, rng: np.random.Generator):
    first, second = np.zeros((2, n, n))
    few: list[float] = []

    def add_columns() -> None:
        lam = np.array(few)
        Z = rng.standard_normal((n, lam.size))
        first[:] += (Z * lam) @ Z.T
        second[:] += (Z * lam**2) @ Z.T
        few.clear()

    for lam, count in zip(tail.eigenvalues, tail.counts, strict=True):
        if count >= n:
            W = wishart(n, count, rng)
            first += lam * W
            second += lam**2 * W
            continue
        for _ in range(count):
            few.append(lam)
            if len(few) == _COLUMNS:
                add_columns()
    if few:
        add_columns()
    return first, second


def _one(value: object, name: str) -> float:
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    return float(array)


def _check_positive(value: float, name: str) -> float:
    value = _one(value, name)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"a {name} must be positive and finite; got {value!r}.")
    return value
