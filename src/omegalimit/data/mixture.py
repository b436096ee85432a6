"""Two Gaussian classes of one covariance, with labels that are flipped at random.

    y* = +-1, each with probability 1/2;   x = y* mu + Sigma^{1/2} z, z standard normal;   y = -y* with probability p

and y* otherwise. With `r^2 = mu' Sigma^{-1} mu` the best classifier is linear, in the direction `Sigma^{-1} mu`. Sigma
is diagonal here; a full covariance is turned into its eigenbasis (`Mixture.from_covariance`). The setting, a Gaussian
mixture with label flips and a polynomial or exponential spectrum, is that of the authors of the result on early-stopped
gradient descent; the size and direction of mu in the builders below are a choice made here.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._checks import check_count, check_finite, check_ndim, check_number, check_same_length, shape_text, to_float64
from .._threads import one_blas_thread

_EPS = float(np.finfo(float).eps)
_SMALL, _LARGE = 1e-153, 1e153  # of mean and deviations: within them no square leaves the range of doubles


class Sample(NamedTuple):
    """Rows drawn from a mixture.

    - `X`: shape (n, d); `y`: the observed labels, +-1; `clean`: the labels before any was flipped.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    clean: Float[np.ndarray, " n"]

    @property
    def Z(self) -> Float[np.ndarray, "n d"]:
        """The rows `y_i x_i`: a weight vector w separates the sample if and only if `Z w > 0`."""
        return self.y[:, None] * self.X

    @property
    def flipped(self) -> Bool[np.ndarray, " n"]:
        """Which labels were flipped."""
        return self.y != self.clean


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """The distribution at the head of this page, with `Sigma = diag(eigenvalues)`.

    - `mean`: mu, shape (d,), not zero; `eigenvalues`: of Sigma, positive, shape (d,); `flips`: p, `0 <= p < 1/2`.
    - `rotation`: for a covariance given in another basis, the orthogonal matrix V with `Sigma = V diag V'`, so that a
      row x of that basis is `x V` here; `None` when there is no other basis. Everything else is in the eigenbasis.

    Raises `ValueError` for a mean that is zero, eigenvalues that are not positive, p out of range, lengths that differ,
    a rotation that is not orthogonal, no entries, entries that are not finite, or sizes (of the mean, of the
    deviations) beyond 1e+-153, whose squares are no doubles; `TypeError` for what is no number.
    """

    mean: Float[np.ndarray, " d"]
    eigenvalues: Float[np.ndarray, " d"]
    flips: float
    rotation: Float[np.ndarray, "d d"] | None = None

    def __post_init__(self):
        mean, eigenvalues = to_float64(self.mean, "mean")[0], to_float64(self.eigenvalues, "eigenvalues")[0]
        check_ndim(mean, "mean", axes="d")
        check_ndim(eigenvalues, "eigenvalues", axes="d")
        check_same_length(mean, eigenvalues, ("mean", "eigenvalues"), axes=(0, 0), what="entries")
        _check_eigenvalues(eigenvalues)
        check_finite(mean, "mean")
        _check_size(float(np.abs(mean).max()), "the largest entry of `mean`", "a mean of zero leaves nothing to learn")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "eigenvalues", eigenvalues)
        object.__setattr__(self, "flips", _flips(self.flips))
        if self.rotation is not None:
            rotation = to_float64(self.rotation, "rotation")[0]
            if rotation.shape != (mean.size, mean.size):
                raise ValueError(
                    f"`rotation` must have shape ({mean.size}, {mean.size}); got {shape_text(rotation.shape)}."
                )
            check_finite(rotation, "rotation")
            _check_orthogonal(rotation)
            object.__setattr__(self, "rotation", rotation)

    @property
    def d(self) -> int:
        """Dimension of x."""
        return self.mean.size

    @property
    def r(self) -> float:
        """`(mu' Sigma^{-1} mu)^{1/2}`: half the distance of the two class means, in standard deviations."""
        return float(np.linalg.norm(self.mean / np.sqrt(self.eigenvalues)))

    @classmethod
    def polynomial(
        cls, d: int = 2000, *, a: float = 1.2, r: float = 2.0, flips: float = 0.1, decay: float = 0.6
    ) -> "Mixture":
        """Spectrum `i^-a`, i = 1..d; mean as in `with_spectrum`. `a = 0` is the isotropic mixture."""
        i = np.arange(1.0, check_count(d, "d", least=1) + 1)
        return cls.with_spectrum(i ** -check_number(a, "a"), r=r, flips=flips, decay=decay)

    @classmethod
    def exponential(
        cls, d: int = 200, *, rate: float = 0.5, r: float = 2.0, flips: float = 0.1, decay: float = 0.6
    ) -> "Mixture":
        """Spectrum `e^(-rate (i - 1))`, i = 1..d; mean as in `with_spectrum`."""
        i = np.arange(float(check_count(d, "d", least=1)))
        return cls.with_spectrum(np.exp(-check_number(rate, "rate") * i), r=r, flips=flips, decay=decay)

    @classmethod
    def with_spectrum(
        cls, eigenvalues: Float[np.ndarray, " d"], *, r: float = 2.0, flips: float = 0.1, decay: float = 0.6
    ) -> "Mixture":
        """The mean `mu = Sigma b` with `b_i = C i^-decay` and C > 0 such that `(mu' Sigma^{-1} mu)^{1/2} = r`.

        - `eigenvalues`: of Sigma, in the order in which directions are numbered; `r` > 0; `decay`: any finite number.
        """
        eigenvalues = to_float64(eigenvalues, "eigenvalues")[0]
        check_ndim(eigenvalues, "eigenvalues", axes="d")
        _check_eigenvalues(eigenvalues)
        r, decay = check_number(r, "r"), check_number(decay, "decay")
        if not r > 0:
            raise ValueError(f"`r` must be positive; got {r!r}.")
        deviations = np.sqrt(eigenvalues)
        log_b = -decay * np.log(np.arange(1.0, eigenvalues.size + 1))
        whitened = deviations / deviations.max() * np.exp(log_b - log_b.max())
        return cls(mean=deviations * (whitened * (r / np.linalg.norm(whitened))), eigenvalues=eigenvalues, flips=flips)

    @classmethod
    def from_covariance(
        cls, mean: Float[np.ndarray, " d"], covariance: Float[np.ndarray, "d d"], *, flips: float = 0.1
    ) -> "Mixture":
        """A mixture whose covariance is any positive definite matrix, turned into its eigenbasis; see `rotation`.

        The eigenvalues come in descending order. Raises `ValueError` for a matrix that is not symmetric, or has an
        eigenvalue that is not positive beyond rounding.
        """
        mean, covariance = to_float64(mean, "mean")[0], to_float64(covariance, "covariance")[0]
        check_ndim(mean, "mean", axes="d")
        if covariance.shape != (mean.size, mean.size) or not mean.size:
            raise ValueError(
                f"`covariance` must have shape (d, d) with d the length of `mean`, at least 1; got "
                f"{shape_text(covariance.shape)} beside a mean of length {mean.size}."
            )
        check_finite(covariance, "covariance")
        size = float(np.abs(covariance).max())
        scaled = covariance / size if size > 0 else covariance
        off = np.abs(scaled - scaled.T)
        if off.max() > 1e3 * mean.size * _EPS:  # a covariance comes from sums of products, itself rounded
            i, j = map(int, np.unravel_index(np.argmax(off), off.shape))
            raise ValueError(
                f"`covariance` is not symmetric: entry [{i}, {j}] is {covariance[i, j]:g}, and [{j}, {i}] is "
                f"{covariance[j, i]:g}."
            )
        with one_blas_thread():
            values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        values, vectors = values[::-1] * size, vectors[:, ::-1]
        if not values[-1] > mean.size * _EPS * values[0]:
            raise ValueError(
                f"`covariance` has the eigenvalue {values[-1]:g} beside {values[0]:g}, which is not positive beyond "
                "rounding: the best classifier needs its inverse. Leave out the directions that do not vary."
            )
        return cls(mean=mean @ vectors, eigenvalues=values, flips=flips, rotation=vectors)

    def rotated(self, X: Float[np.ndarray, "*B d"]) -> Float[np.ndarray, "*B d"]:
        """Rows, or weight vectors, of the user's basis in the eigenbasis; as they are when there is no other basis."""
        return X if self.rotation is None else X @ self.rotation

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> Sample:
        """`n` rows, in the eigenbasis.

        Drawn from `numpy.random.default_rng(seed)`, or the generator given, in this order: the clean labels (`choice`
        of -1 and +1), the noise (`standard_normal`, shape (n, d)), and one uniform number a row: below p, its label is
        flipped.
        """
        check_count(n, "n", least=1)
        if isinstance(seed, np.random.Generator):
            rng = seed
        else:
            rng = np.random.default_rng(check_count(seed, "seed", least=0))
        clean = rng.choice([-1.0, 1.0], size=n)
        X = rng.standard_normal((n, self.d))
        X *= np.sqrt(self.eigenvalues)
        X += clean[:, None] * self.mean
        return Sample(X=X, y=np.where(rng.random(n) < self.flips, -clean, clean), clean=clean)


def _check_eigenvalues(eigenvalues: np.ndarray) -> None:
    if not eigenvalues.size:
        raise ValueError("`eigenvalues` is empty; pass at least one.")
    check_finite(eigenvalues, "eigenvalues")
    i = int(np.argmin(eigenvalues))
    if not eigenvalues[i] > 0:
        raise ValueError(
            f"`eigenvalues[{i}]` is {eigenvalues[i]:g}; every eigenvalue of the covariance must be positive. Leave out "
            "the directions that do not vary; where a spectrum fell below what a double can hold, pass a smaller `d`."
        )
    _check_size(math.sqrt(eigenvalues.max()), "the largest deviation", "the covariance is zero")


def _check_orthogonal(rotation: np.ndarray) -> None:
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(rotation.T @ rotation - np.eye(len(rotation)))
    # A product of orthogonal matrices, rounded; what came in single precision is to be made orthogonal in double.
    if not off.max() <= 1e3 * len(rotation) * _EPS:
        raise ValueError(
            f"`rotation` is not orthogonal: `V'V` differs from the identity by {off.max():g}. Take the eigenvectors of "
            "the covariance, or leave it to `Mixture.from_covariance`."
        )


def _check_size(size: float, what: str, why_not_zero: str) -> None:
    if size == 0:
        raise ValueError(f"{what} is 0: {why_not_zero}.")
    if not _SMALL <= size <= _LARGE:
        raise ValueError(f"{what} is {size:g}; choose units in which it lies between {_SMALL:g} and {_LARGE:g}.")


def _flips(value: object) -> float:
    p = check_number(value, "flips")
    if not 0 <= p < 0.5:
        raise ValueError(
            f"`flips`, the probability that a label is flipped, must be at least 0 and less than 1/2; got {p!r}."
            + (" Above 1/2 exchange the names of the two classes." if 0.5 < p <= 1 else "")
        )
    return p
