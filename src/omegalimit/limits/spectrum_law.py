"""What random-matrix theory says of the spectrum of X'X/n for a head of strong directions over a long weak tail.

The tail acts on the n observations like a multiple of the identity, `X_T X_T'/n ~ a I`, so that every nonzero
eigenvalue stands on a *floor*

    a = tr(Sigma_T) / n                                     (set by the tail's trace)

spread by its *exposure*, set by the tail's squared spectrum: `w^2 = tr(Sigma_T^2) / n` is the variance of the bulk of
eigenvalues around a, and noise that is fitted costs `sigma^2 n tr(Sigma_T^2) / tr(Sigma_T)^2 = sigma^2 w^2 / a^2` in
the tail. For a flat tail of level lT, `w^2 = a lT` and the nonzero bulk lies in Marchenko and Pastur's
`a + lT -+ 2 sqrt(a lT)`. A head of variance lh is seen at `a + lh` to first order, by Baik, Ben Arous and Peche at
`a + lh + a lT / (lh - lT)` when `lh > lT + sqrt(a lT)`, and not at all below (a head inside the bulk).

That trace and squared spectrum do this is stated by the authors of negative-shifted descent (arXiv 2607.22474), as is
the floor; the edges and the head's location are classical. Derived here:

**Head recovery under the shift nu = a.** With `X_T X_T'/n = a I + W`, W close to a semicircular matrix of variance
w^2, free from the head, the flow recovers of a head of (empirical) variance h the share

    R(t) = h int_0^t < exp(-s (h u u' + W)) >_u ds = h int k(t, x) dmu(x),    k(t, x) = (1 - e^{-t x}) / x,

with mu the spectral measure of `h u u' + W` at u: the mass `1 - w^2/h^2` at `h + w^2/h` (if h > w) and the density
`sqrt(4 w^2 - x^2) / (2 pi (w^2 + h^2 - h x))` on the bulk |x| <= 2w. For w -> 0 it is `1 - e^{-t h}`: one shift
recovers every head scale. For w > 0 the bulk grows like `e^{2 w t}` and in the end carries the head past 1.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


class LowerEdge(NamedTuple):
    """The smallest nonzero eigenvalue under heads at finite n: its edge, mean and standard deviation over draws.

    `error`: how far off the mean may be.
    """

    edge: float
    mean: float
    deviation: float
    error: float


class Edges(NamedTuple):
    """Ends of the bulk of nonzero eigenvalues."""

    lower: float
    upper: float


def floor(trace: float, n: int) -> float:
    """`a = tr(Sigma_T) / n`: what the tail adds to every nonzero eigenvalue, and the shift that takes it away."""
    return _positive(trace, "trace") / _count(n)


def bulk_width(trace_of_square: float, n: int) -> float:
    """`w = sqrt(tr(Sigma_T^2) / n)`: standard deviation of the bulk around the floor (its edges lie 2 w off)."""
    return math.sqrt(_positive(trace_of_square, "trace_of_square") / _count(n))


def tail_price(trace: float, trace_of_square: float, *, n: int, sigma: float) -> float:
    """`sigma^2 n tr(Sigma_T^2) / tr(Sigma_T)^2`: excess risk from noise that the interpolant hides in the tail."""
    ratio = _positive(trace_of_square, "trace_of_square") / _positive(trace, "trace") ** 2
    return sigma**2 * _count(n) * ratio


def marchenko_pastur_edges(a: float, level: float) -> Edges:
    """`a + lT -+ 2 sqrt(a lT)`, the ends of the bulk for a flat tail of this level and of `a / level >= 1` times n
    dimensions.

    Raises `ValueError` for fewer dimensions than observations, where the bulk reaches zero.
    """
    a, level = _positive(a, "a"), _positive(level, "level")
    if a < level:
        raise ValueError(
            f"the tail has {a / level:.3g} dimensions for each observation; its nonzero bulk stands off zero "
            "only from 1 on: take a floor `a` of at least `level`."
        )
    width = 2 * math.sqrt(a * level)
    return Edges(a + level - width, a + level + width)


def edge_fluctuation(level: float, n: int, count: int) -> tuple[float, float]:
    """Mean and standard deviation of the smallest nonzero eigenvalue above its edge, at this n (flat tail of `count`).

    Tracy and Widom's law for real data (mean -1.2065, standard deviation 1.268) on Johnstone's scale,
    `(lT/n) (sqrt(p) - sqrt(n)) (1/sqrt(n) - 1/sqrt(p))^(1/3)`: of relative order n^(-2/3).
    """
    n, p = _count(n), int(count)
    if p <= n:
        raise ValueError(f"the law of the lower edge needs more tail dimensions than observations; got {p} and {n}.")
    root_n, root_p = math.sqrt(n), math.sqrt(p)
    scale = _positive(level, "level") / n * (root_p - root_n) * (1 / root_n - 1 / root_p) ** (1 / 3)
    return 1.2065 * scale, 1.268 * scale


def lower_edge(n: int, count: int, *, level: float, head: ArrayLike) -> LowerEdge:
    """Smallest nonzero eigenvalue of X'X/n over a flat tail of `count` > n dimensions, under heads of these variances.

    On the n - h directions that the head's columns do not touch, `X_T X_T'` is Wishart with n - h rows, and by
    interlacing m_min+ lies between the smallest eigenvalue of that matrix and of the one with n rows. To second order a
    head of variance lh draws it down from the former by `(lT mu / n) / (lh + a - mu)`, mu the edge: little for a strong
    one, and never more than its row, which is what one inside the bulk may take. (Derived here.)

    Edge and scale are those of n - h rows; the edge is centred at half a row less, which makes Tracy and Widom's law
    right to relative order n^(-2/3) in the logarithm (Ma 2012). `error`: the draws-down, and of Tracy and Widom's mean
    that share, with what the logarithm's curvature adds, `3.06 scale / (2.41 edge)`.
    """
    n, p, lam = _count(n), int(count), np.atleast_1d(np.asarray(head, dtype=float))
    rows = n - lam.size
    if rows < 2 or p <= n:
        raise ValueError(
            f"the bulk's lower edge needs more observations than heads and more tail dimensions than observations; got "
            f"n = {n}, {lam.size} heads and {p} dimensions."
        )

    def at(rows: float) -> float:
        return _positive(level, "level") / n * (math.sqrt(p) - math.sqrt(rows)) ** 2

    edge = at(rows - 0.5)
    # The law's own scale is per observation of its rows; here everything is over n.
    mean, deviation = (value * rows / n for value in edge_fluctuation(level, rows, p))
    a, row = level * p / n, (edge - at(n - 0.5)) / max(lam.size, 1)
    clear = lam > level + math.sqrt(a * level)
    drawn = np.where(clear, np.minimum(level * edge / n / (lam + a - edge), row), row)
    share = rows ** (-2 / 3) + 3.06 * mean / 1.2065 / (2.41 * edge)
    return LowerEdge(
        edge=edge, mean=edge + mean, deviation=deviation * (1 + share), error=float(drawn.sum()) + mean * share
    )


def head_location(a: float, level: float, head: ArrayLike) -> Float[np.ndarray, "..."]:
    """Where heads of variance `head` are seen over a flat tail: `a + lh + a lT / (lh - lT)`; NaN inside the bulk."""
    a, level, lh = _positive(a, "a"), _positive(level, "level"), np.asarray(head, dtype=float)
    outside = lh > level + math.sqrt(a * level)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(outside, a + lh + a * level / (lh - level), np.nan)[()]


def ridgeless_recovery(a: float, head: ArrayLike) -> Float[np.ndarray, "..."]:
    """`lh / (a + lh)`: share of the head that the least-norm interpolant recovers."""
    lh = np.asarray(head, dtype=float)
    return lh / (_positive(a, "a") + lh)


def head_recovery(head: float, width: float, t: ArrayLike) -> Float[np.ndarray, "..."]:
    """`R(t)` under the shift nu = a, see the head of this page, shape of `t`; `width` is w >= 0."""
    h, w, t = _positive(head, "head"), float(width), np.asarray(t, dtype=float)
    if not (math.isfinite(w) and w >= 0):
        raise ValueError(f"`width` must be finite and not negative; got {width!r}.")
    if w == 0:
        return -np.expm1(-t * h)
    # x = 2 w cos(theta): the density's root becomes smooth. Its pole p = h + w^2/h, where the outlier sits, may touch
    # the bulk: with k(t, p) taken off the kernel all stays smooth, and the masses of bulk and outlier sum to 1.
    points, pole = 200, h + w * w / h
    theta = np.arange(1, points + 1) * math.pi / (points + 1)
    x = 2 * w * np.cos(theta)
    # sqrt(4 w^2 - x^2) dx = 4 w^2 sin^2 dtheta.
    weight = 2 * w * w * np.sin(theta) ** 2 / (points + 1) / (h * (pole - x))
    at_pole = _kernel(t, np.asarray(pole))
    return h * ((weight * (_kernel(t[..., None], x) - at_pole[..., None])).sum(axis=-1) + at_pole)


def _kernel(t: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`(1 - e^{-t x}) / x`, t at x = 0."""
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, t, -np.expm1(-t * safe) / safe)


def recovery_error(head: float, width: float, t: ArrayLike, *, n: int) -> Float[np.ndarray, "..."]:
    """One standard deviation of R(t) over draws of the tail, to first order: `w sqrt(2/n) (1 - e^{-th}(1 + th)) / h`.

    The head's own quadratic form `u'Wu` has standard deviation `w sqrt(2/n)` and acts like a change of h.
    """
    th = np.asarray(t, dtype=float) * _positive(head, "head")
    return width * math.sqrt(2 / _count(n)) * (-np.expm1(-th) - th * np.exp(-th)) / head


def _positive(value: float, name: str) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` must be positive and finite; got {value!r}.")
    return float(value)


def _count(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"`n` must be a whole number of at least 1; got {n!r}.")
    return int(n)
