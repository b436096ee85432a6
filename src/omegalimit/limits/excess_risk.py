"""Excess risk of spectrally filtered regression, exact given the design: a quadratic in the filter, no Monte-Carlo.

`y = X b* + noise`, new points `x ~ (0, Sigma)`, estimator `b = V (f * (c + xi))` with V the eigenvectors of `S = X'X/n`
of positive eigenvalue m, `c = V'b*`, and `xi = U'noise / sqrt(n m)` the noise as the ridgeless interpolant carries it
(U the eigenvectors of XX'). With `A = V' Sigma V`, `s = V' Sigma b*`, `q = b*' Sigma b*` the excess risk is

    (b - b*)' Sigma (b - b*) = z'Az - 2 z's + q,   z = f * (c + xi),

and its mean over noise of variance sigma^2 adds to that at `z = f * c` the *variance*
`sigma^2/n sum_i A_ii f_i^2 / m_i`.

**Amplification rule.** The mean risk has the derivative `2 (v_i - w_i)` in `f_i` at f = 1, with the missing signal's
gain `w_i = c_i (V' Sigma b_perp)_i`, `b_perp = b* - Vc` (the part of the signal that no data has seen), and the price
`v_i = sigma^2 A_ii / (n m_i)`: mode i is worth a little amplification if and only if `w_i > v_i`. (Stated by the
authors of negative-shifted descent, arXiv 2607.22474, in this form up to notation; the derivative is derived here.)

**Hold-out.** For Gaussian residuals and a choice among M estimators by the mean square on m new points, with
probability at least 1 - alpha, `x = log(2M/alpha)` and `m > 4x`:

    sigma^2 + R_chosen <= (sigma^2 + R_best) (1 + 2 sqrt(x/m) + 2x/m) / (1 - 2 sqrt(x/m)).

Derived here: m times the mean square over `sigma^2 + R_j` is chi-square with m degrees, and Laurent and Massart's tails
hold for all M at once.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, check_same_length, shape_text, to_float64
from .._threads import one_blas_thread

_FILTERS = 4096  # filters whose quadratic forms are taken at a time


class Amplification(NamedTuple):
    """Gain of the missing signal and price in variance of each mode, shape (r,): see the head of this page."""

    gain: Float[np.ndarray, " r"]
    price: Float[np.ndarray, " r"]

    @property
    def worth(self) -> "np.ndarray":
        """Which modes are worth amplifying: `gain > price`."""
        return self.gain > self.price


class Best(NamedTuple):
    """The least of several risks, and the index of the filter that has it."""

    risk: float
    index: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExcessRisk:
    """Excess risk of every spectral filter on one design.

    - `m`: the positive eigenvalues of `X'X/n`, ascending, shape (r,); `U`: eigenvectors of `XX'`, shape (n, r).
    - `A`: `V' Sigma V`, (r, r); `c`: `V'b*`, `s`: `V' Sigma b*`, both (r,); `q`: `b*' Sigma b*`.
    - `sigma`: standard deviation of the noise.
    - `n_null`: eigenvalues of XX' that are zero to rounding, which carry nothing.
    """

    m: Float[np.ndarray, " r"]
    U: Float[np.ndarray, "n r"]
    A: Float[np.ndarray, "r r"]
    c: Float[np.ndarray, " r"]
    s: Float[np.ndarray, " r"]
    q: float
    sigma: float
    n_null: int = 0

    @classmethod
    def from_gram(
        cls,
        gram: Float[np.ndarray, "n n"],
        gram_squared: Float[np.ndarray, "n n"],
        *,
        signal: Float[np.ndarray, " n"],
        weighted_signal: Float[np.ndarray, " n"],
        signal_power: float,
        sigma: float,
    ) -> "ExcessRisk":
        """From `XX'`, `X Sigma X'`, `X b*`, `X Sigma b*`, `b*' Sigma b*`: nothing of the size of d is needed.

        Raises `ValueError` for shapes that do not fit, entries that are not finite, or a design that is zero.
        """
        gram, gram_squared = to_float64(gram, "gram")[0], to_float64(gram_squared, "gram_squared")[0]
        signal, weighted = to_float64(signal, "signal")[0], to_float64(weighted_signal, "weighted_signal")[0]
        n = len(signal)
        for name, array, shape in (
            ("gram", gram, (n, n)),
            ("gram_squared", gram_squared, (n, n)),
            ("weighted_signal", weighted, (n,)),
        ):
            if array.shape != shape:
                raise ValueError(
                    f"`{name}` must have shape {shape_text(shape)} beside `signal`; got {shape_text(array.shape)}."
                )
            check_finite(array, name)
        check_finite(signal, "signal")
        sigma, signal_power = _number(sigma, "sigma"), _number(signal_power, "signal_power")
        if not (math.isfinite(sigma) and sigma >= 0):
            raise ValueError(f"`sigma` must be finite and not negative; got {sigma!r}.")
        with one_blas_thread():
            m, U = np.linalg.eigh(gram / n)
        kept = m > n * np.finfo(float).eps * max(float(m[-1]), 0.0)
        if not kept.any():
            raise ValueError("`gram` is zero: there is nothing to fit with.")
        m, U = m[kept], U[:, kept]
        root = np.sqrt(n * m)
        A = (U.T @ gram_squared @ U) / root / root[:, None]
        return cls(
            m=m,
            U=U,
            A=(A + A.T) / 2,
            c=(U.T @ signal) / root,
            s=(U.T @ weighted) / root,
            q=signal_power,
            sigma=sigma,
            n_null=int(n - kept.sum()),
        )

    @classmethod
    def from_design(
        cls,
        X: Float[np.ndarray, "n d"],
        b_star: Float[np.ndarray, " d"],
        *,
        covariance: Float[np.ndarray, "..."],
        sigma: float,
    ) -> "ExcessRisk":
        """From a design, coefficients, and the covariance of new points: (d, d), or its diagonal (d,).

        Raises `ValueError` as `from_gram` does, and for a covariance that is not symmetric or has a negative
        eigenvalue, beyond rounding.
        """
        X, b_star = to_float64(X, "X")[0], to_float64(b_star, "b_star")[0]
        covariance = to_float64(covariance, "covariance")[0]
        check_ndim(X, "X", axes="n, d")
        check_same_length(X, b_star, ("X", "b_star"), axes=(1, 0), what="columns and coefficients")
        for name, array in (("X", X), ("b_star", b_star), ("covariance", covariance)):
            check_finite(array, name)
        d = X.shape[1]
        if covariance.shape not in ((d,), (d, d)):
            raise ValueError(f"`covariance` must have shape ({d}, {d}) or ({d},); got {shape_text(covariance.shape)}.")
        _check_covariance(covariance)
        XS = X * covariance if covariance.ndim == 1 else X @ covariance
        weighted = covariance * b_star if covariance.ndim == 1 else covariance @ b_star
        return cls.from_gram(
            X @ X.T,
            XS @ X.T,
            signal=X @ b_star,
            weighted_signal=X @ weighted,
            signal_power=float(b_star @ weighted),
            sigma=sigma,
        )

    @property
    def n(self) -> int:
        """Number of observations."""
        return self.U.shape[0]

    def _form(self, f: Float[np.ndarray, "*P r"], along: Float[np.ndarray, " r"]) -> Float[np.ndarray, "*P"]:
        """`z'Az - 2 z's + q` at `z = f * along`; infinite where a filter, or a square on the way, is."""
        flat = f.reshape(-1, f.shape[-1])
        out = np.empty(len(flat))
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(0, len(flat), _FILTERS):
                part = flat[i : i + _FILTERS]
                z = part * along
                found = np.einsum("pi,pi->p", z @ self.A - 2 * self.s, z) + self.q
                # A mode that has diverged counts also where the signal has nothing on it, where 0 inf is NaN.
                out[i : i + _FILTERS] = np.where(np.isfinite(found) & np.isfinite(part).all(axis=1), found, math.inf)
        return out.reshape(f.shape[:-1])[()]

    def bias(self, f: Float[np.ndarray, "*P r"]) -> Float[np.ndarray, "*P"]:
        """Excess risk without noise, shape P, for filters of shape P + (r,) on the eigenvalues `m`."""
        return self._form(self._filters(f), self.c)

    def variance(self, f: Float[np.ndarray, "*P r"]) -> Float[np.ndarray, "*P"]:
        """What noise adds in the mean, shape P."""
        f = self._filters(f)
        with np.errstate(over="ignore", invalid="ignore"):
            added = f**2 @ self.price
        return np.where(np.isfinite(added) & np.isfinite(f).all(axis=-1), added, math.inf)[()]

    def expected(self, f: Float[np.ndarray, "*P r"]) -> Float[np.ndarray, "*P"]:
        """Mean excess risk over the noise, given the design: `bias + variance`, shape P."""
        return self.bias(f) + self.variance(f)

    def noise(self, noise: Float[np.ndarray, " n"]) -> Float[np.ndarray, " r"]:
        """`xi = U'noise / sqrt(n m)`: the noise in the ridgeless interpolant's coefficients."""
        noise = to_float64(noise, "noise")[0]
        if noise.shape != (self.n,):
            raise ValueError(
                f"`noise` needs one value for each of the {self.n} observations; got shape {shape_text(noise.shape)}."
            )
        check_finite(noise, "noise")
        return (self.U.T @ noise) / np.sqrt(self.n * self.m)

    def given(self, f: Float[np.ndarray, "*P r"], noise: Float[np.ndarray, " n"]) -> Float[np.ndarray, "*P"]:
        """Excess risk with this very noise, shape P."""
        return self._form(self._filters(f), self.c + self.noise(noise))

    def best(self, f: Float[np.ndarray, "P r"]) -> Best:
        """The least mean excess risk among these filters; ties go to the first.

        A filter that has diverged has an infinite risk. Raises `ValueError` where there is no filter.
        """
        risk = np.asarray(self.expected(f)).reshape(-1)
        if not risk.size:
            raise ValueError("there is no filter among `f` to choose from.")
        index = int(np.argmin(risk))
        return Best(risk=float(risk[index]), index=index)

    @property
    def price(self) -> Float[np.ndarray, " r"]:
        """`v_i = sigma^2 A_ii / (n m_i)`."""
        return self.sigma**2 * np.diag(self.A) / (self.n * self.m)

    @property
    def gain(self) -> Float[np.ndarray, " r"]:
        """`w_i = c_i (V' Sigma b_perp)_i`."""
        return self.c * (self.s - self.A @ self.c)

    @property
    def amplification(self) -> Amplification:
        """Gain and price of each mode."""
        return Amplification(gain=self.gain, price=self.price)

    def _filters(self, f: Float[np.ndarray, "*P r"]) -> Float[np.ndarray, "*P r"]:
        f = to_float64(f, "f")[0]
        if f.ndim == 0 or f.shape[-1] != self.m.size:
            raise ValueError(
                f"a filter needs one value for each of the {self.m.size} eigenvalues `m` along its last axis; "
                f"got shape {shape_text(f.shape)}."
            )
        if np.isnan(f).any():
            where = ", ".join(str(int(i)) for i in np.argwhere(np.isnan(f))[0])
            raise ValueError(f"`f[{where}]` is NaN; a filter that has diverged is infinite there.")
        return f


def hold_out_factor(n_candidates: int, n_points: int, alpha: float) -> float:
    """`(1 + 2 sqrt(x/m) + 2x/m) / (1 - 2 sqrt(x/m))` with `x = log(2M/alpha)`; infinite where `m <= 4x`.

    `sigma^2 + R_chosen` is at most this times `sigma^2 + R_best`, with probability 1 - alpha (Gaussian residuals; see
    the head of this page). Raises `ValueError` for counts below 1 or alpha outside (0, 1).
    """
    alpha = _number(alpha, "alpha")
    if n_candidates < 1 or n_points < 1:
        raise ValueError(f"candidates and points must number at least 1; got {n_candidates!r} and {n_points!r}.")
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must lie between 0 and 1; got {alpha!r}.")
    ratio = math.log(2 * n_candidates / alpha) / n_points
    root = 2 * math.sqrt(ratio)
    return math.inf if root >= 1 else (1 + root + 2 * ratio) / (1 - root)


def choose(losses: Float[np.ndarray, " P"]) -> int:
    """Index of the least mean loss; NaN and infinite losses are never chosen, ties go to the first."""
    losses = np.asarray(losses, dtype=float).reshape(-1)
    finite = np.flatnonzero(np.isfinite(losses))
    if not finite.size:
        raise ValueError(f"none of the {losses.size} losses is finite: there is nothing to choose.")
    return int(finite[np.argmin(losses[finite])])


def _number(value: object, name: str) -> float:
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    return float(array)


def _check_covariance(covariance: np.ndarray) -> None:
    size = float(np.abs(covariance).max(initial=0.0))
    if covariance.ndim == 1:
        if covariance.size and (least := float(covariance.min())) < 0:
            raise ValueError(f"`covariance` has the negative variance {least:g}; variances are 0 at least.")
        return
    if not size:
        return
    scaled = covariance / size  # no square of it leaves the range of doubles
    rounding = 1e3 * len(covariance) * np.finfo(float).eps  # a covariance comes from sums of products, itself rounded
    off = np.abs(scaled - scaled.T)
    if off.max() > rounding:
        i, j = map(int, np.unravel_index(np.argmax(off), off.shape))
        raise ValueError(
            f"`covariance` is not symmetric: entry [{i}, {j}] is {covariance[i, j]:g}, and [{j}, {i}] is "
            f"{covariance[j, i]:g}."
        )
    with one_blas_thread():
        least = float(np.linalg.eigvalsh(scaled)[0])
    if least < -rounding * len(covariance):
        raise ValueError(
            f"`covariance` has the negative eigenvalue {least * size:g}; it must be positive semidefinite."
        )
