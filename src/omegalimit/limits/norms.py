"""Norms of vectors and matrices: each knows its dual, and what the dual proves about the rank or support of an optimum.

`|G|_dual = max <G, W>` over `|W| <= 1`. In the table, `q = p / (p - 1)`, `s` are singular values and `F` is the unitary
discrete Fourier transform.

| name | `|W|` | `|G|_dual` |
| --- | --- | --- |
| `l1`, `l2`, `linf`, `lp` | `(sum_j |w_j|^p)^(1/p)` | the same with `q` |
| `group-l1` | `sum_g |w_g|_2` over groups of columns | `max_g |g_g|_2` |
| `fourier-l1` | `sum_k |(F w)_k|` | `max_k |(F g)_k|` |
| `nuclear`, `frobenius`, `spectral`, `schatten` | `(sum_i s_i^p)^(1/p)` | the same with `q` |

The duals are standard (Hölder; von Neumann for matrices; Parseval for Fourier).
"""

import abc
import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

VECTOR, MATRIX = 1, 2  # dimensions of a point
_EXPONENTS = {"l1": 1.0, "l2": 2.0, "linf": math.inf, "nuclear": 1.0, "frobenius": 2.0, "spectral": math.inf}
_ALIKE = [("l1", "nuclear"), ("l2", "frobenius"), ("linf", "spectral"), ("lp", "schatten")]
_LARGEST = float(np.finfo(float).max)
VECTOR_NORMS = ("l1", "l2", "linf", "lp", "group-l1", "fourier-l1")
MATRIX_NORMS = ("frobenius", "nuclear", "spectral", "schatten")
NAMES = (*VECTOR_NORMS, *MATRIX_NORMS)
# The norm of the other kind that is probably meant.
INSTEAD = dict(_ALIKE) | {there: here for here, there in _ALIKE} | {"group-l1": "nuclear", "fourier-l1": "nuclear"}


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractNorm(abc.ABC):
    """A norm on points `W` of one shape. Points and gradients come with their largest entry near 1."""

    @abc.abstractmethod
    def of(self, W: Float[np.ndarray, "..."]) -> float:
        """`|W|`."""

    @abc.abstractmethod
    def dual(self, G: Float[np.ndarray, "..."]) -> float:
        """`|G|_dual`."""

    @property
    @abc.abstractmethod
    def strictly_convex(self) -> bool:
        """True when the unit sphere has no segment, so that the direction of the optimum is unique."""

    @property
    @abc.abstractmethod
    def blind_to_signs(self) -> bool:
        """True when `|W|` does not change with the signs of single entries: then entrywise bounds bound the norm."""

    @abc.abstractmethod
    def euclidean_factor(self, shape: tuple[int, ...]) -> float:
        """The smallest `c` with `|G|_dual <= c |G|_2` for every `G` (and, by duality, `|W|_2 <= c |W|`)."""

    def parts(self, G: Float[np.ndarray, "..."]) -> Float[np.ndarray, " r"] | None:
        """`|G|_i` with `|G|_dual = max_i |G|_i`, for norms that are sums over parts; else `None`."""
        return None

    def tails(self, G: Float[np.ndarray, "..."], *, gap: float, doubt: float) -> Float[np.ndarray, " r"] | None:
        """Share of the norm of an optimum that may lie beyond rank `1, 2, ...`, given `|G|_dual = 1` up to `doubt`.

        `None` where the dual proves nothing. Here: for norms that sum over parts, `sum_i (1 - |G|_i) |W|_i <= gap` for
        every optimum of norm one (von Neumann's trace inequality where the parts are singular values).
        """
        s = self.parts(G)
        if s is None:
            return None
        room = 1 - (-np.sort(-s))[1:] - doubt
        return np.where(room > 0, gap / np.where(room > 0, room, 1), np.inf)


@dataclasses.dataclass(frozen=True, eq=False)
class Lp(AbstractNorm):
    """`(sum_j |w_j|^p)^(1/p)` of a vector; the largest entry for `p = inf`."""

    p: float

    def of(self, W):
        return power_norm(np.abs(W), self.p)

    def dual(self, G):
        return power_norm(np.abs(G), conjugate(self.p))

    @property
    def strictly_convex(self):
        return 1 < self.p < math.inf

    @property
    def blind_to_signs(self):
        return True

    def euclidean_factor(self, shape):
        return _power_factor(self.p, shape[0])

    def parts(self, G):
        return np.abs(G) if self.p == 1 else None

    def tails(self, G, *, gap, doubt):
        return _euclidean_tails(np.abs(G), gap) if self.p == 2 else super().tails(G, gap=gap, doubt=doubt)


class AbstractSum(AbstractNorm):
    """`sum_i |W|_i` over parts whose sizes `parts` gives."""

    def of(self, W):
        return float(self.parts(W).sum())

    def dual(self, G):
        return float(self.parts(G).max())

    @property
    def strictly_convex(self):
        return False

    def euclidean_factor(self, shape):
        return 1.0

    @abc.abstractmethod
    def parts(self, G: Float[np.ndarray, "..."]) -> Float[np.ndarray, " r"]:
        """`|G|_i`."""


@dataclasses.dataclass(frozen=True, eq=False)
class GroupL1(AbstractSum):
    """`sum_g |w_g|_2`; `groups[j]` in `0, ..., n_groups - 1` is the group of coordinate `j`."""

    groups: Int[np.ndarray, " d"]

    @property
    def blind_to_signs(self):
        return True

    def parts(self, G):
        return np.sqrt(np.bincount(self.groups, G * G))


@dataclasses.dataclass(frozen=True, eq=False)
class FourierL1(AbstractSum):
    """`sum_k |(F w)_k|`, `F` the unitary transform of the first `d - n_plain` coordinates; the rest is added as is."""

    n_plain: int = 0

    @property
    def blind_to_signs(self):
        return False

    def parts(self, G):
        d = len(G) - self.n_plain
        return np.concatenate([np.abs(np.fft.fft(G[:d], norm="ortho")), np.abs(G[d:])])


@dataclasses.dataclass(frozen=True, eq=False)
class Schatten(AbstractNorm):
    """`(sum_i s_i(W)^p)^(1/p)` of a matrix; nuclear for `p = 1`, Frobenius for 2, spectral for `inf`."""

    p: float

    def of(self, W):
        return float(np.linalg.norm(W)) if self.p == 2 else power_norm(singular_values(W), self.p)

    def dual(self, G):
        return float(np.linalg.norm(G)) if self.p == 2 else power_norm(singular_values(G), conjugate(self.p))

    @property
    def strictly_convex(self):
        return 1 < self.p < math.inf

    @property
    def blind_to_signs(self):
        return self.p == 2

    def euclidean_factor(self, shape):
        return _power_factor(self.p, min(shape))

    def parts(self, G):
        return singular_values(G) if self.p == 1 else None

    def tails(self, G, *, gap, doubt):
        return _euclidean_tails(singular_values(G), gap) if self.p == 2 else super().tails(G, gap=gap, doubt=doubt)


def make_norm(name: str, d: int, *, p: float | None, groups: ArrayLike | None, n_plain: int) -> AbstractNorm:
    """The norm called `name` of points with `d` columns. Raises `ValueError` for parameters that do not fit it."""
    if name not in NAMES:
        raise ValueError(f"`norm` must be one of {', '.join(sorted(NAMES))}; got {name!r}.")
    takes_p = name in ("lp", "schatten")
    if takes_p and p is None:
        raise ValueError(f"The norm {name!r} needs `p`, a number above 1; got none.")
    if takes_p and (isinstance(p, bool) or not isinstance(p, (int, float, np.integer, np.floating))):
        raise TypeError(f"`p` must be a number above 1; got {p!r}.")
    if takes_p and not 1 < p <= _LARGEST:  # pyright: ignore[reportOperatorIssue, reportOptionalOperand]
        kind = INSTEAD[name] if name == "schatten" else name
        one, infinite = ("l1", "linf") if kind == name else ("nuclear", "spectral")
        raise ValueError(f"`p` must be above 1 and finite; got {p}. For 1 take {one!r}, for infinity {infinite!r}.")
    if not takes_p and p is not None:
        raise ValueError(f"The norm {name!r} takes no `p`; got {p}. Norms with `p` are 'lp' and 'schatten'.")
    if name != "group-l1" and groups is not None:
        raise ValueError(f"The norm {name!r} takes no `groups`; you probably mean 'group-l1'.")
    if name != "fourier-l1" and n_plain != 0:
        raise ValueError(f"The norm {name!r} takes no `n_plain`; it belongs to 'fourier-l1'.")
    if name == "group-l1":
        return GroupL1(_checked_groups(groups, d))
    if name == "fourier-l1":
        if isinstance(n_plain, bool) or not isinstance(n_plain, (int, np.integer)) or n_plain not in range(d):
            raise ValueError(f"`n_plain` must be an integer from 0 to d - 1 = {d - 1}; got {n_plain!r}.")
        return FourierL1(n_plain)
    exponent = float(p) if takes_p else _EXPONENTS[name]  # pyright: ignore[reportArgumentType]
    return Lp(exponent) if name in VECTOR_NORMS else Schatten(exponent)


def _checked_groups(groups, d):
    """Labels of any integers as `0, ..., n_groups - 1`, in the order of their values."""
    if groups is None:
        raise ValueError("The norm 'group-l1' needs `groups`: one integer label for each column; got none.")
    if isinstance(groups, np.ma.MaskedArray):
        raise TypeError("`groups` is a masked array; every column needs a label.")
    labels = np.asarray(groups)
    if labels.dtype.kind not in "iu":
        raise TypeError(f"`groups` must hold integers, one for each column; got an array of {labels.dtype}.")
    if labels.shape != (d,):
        raise ValueError(f"`groups` must hold one label for each of the {d} columns; got shape {labels.shape}.")
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def conjugate(p: float) -> float:
    """`q` with `1/p + 1/q = 1`."""
    if p == 1:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1)


def power_norm(sizes: Float[np.ndarray, " r"], p: float) -> float:
    """`(sum_i sizes_i^p)^(1/p)` of numbers that are not negative, without overflow for any `p >= 1`."""
    largest = float(sizes.max())
    if p == math.inf or largest == 0:
        return largest
    if p == 1:
        return float(sizes.sum())
    scaled = sizes / largest
    if p == 2:
        return largest * math.sqrt(scaled @ scaled)
    with np.errstate(under="ignore"):
        return largest * float((scaled**p).sum()) ** (1 / p)


def power_norms(sizes: Float[np.ndarray, "N r"], p: float) -> Float[np.ndarray, " N"]:
    """`power_norm` of every row."""
    largest = sizes.max(1)
    if p == math.inf:
        return largest
    with np.errstate(under="ignore"):
        scaled = sizes / np.where(largest > 0, largest, 1)[:, None]
        return largest * (scaled**p).sum(1) ** (1 / p)


def singular_values(G: Float[np.ndarray, "m n"]) -> Float[np.ndarray, " r"]:
    """Singular values, largest first."""
    return np.linalg.svd(G, compute_uv=False)


def _power_factor(p, n):
    """`max |g|_q / |g|_2` over vectors of length `n`: 1 for `q >= 2`, else `n^(1/q - 1/2)`, with `1/q = 1 - 1/p`."""
    return float(n ** max(0.0, 0.5 - 1 / p))


def _euclidean_tails(sizes, gap):
    """With `M` the combination of norm one, every optimum of norm one has `<M, W*> >= 1 - gap`.

    Hence `|W* - M|^2 <= 2 gap`, and by Weyl and Mirsky its part beyond rank `r` has at most the norm
    `(sum_{i>r} s_i(M)^2)^(1/2) + (2 gap)^(1/2)`. Derived here.
    """
    s = np.sort(sizes)
    return np.sqrt(np.cumsum(s * s))[::-1][1:] + math.sqrt(2 * gap)
