"""Maximum margin in a norm, over dense rows or rank-one factors, with a certificate that trusts no solver."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..certificate import Certificate, DeltaRank
from ._stationarity import stationary_multipliers

EPS = float(np.finfo(float).eps)
# Beyond 2**1000 the bounds themselves leave double precision.
_LARGEST_EXPONENT = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Norm:
    """One line of the table of norms: which data it takes, the norm, its dual, and how the dual proves a rank."""

    data: str
    norm: Callable[[np.ndarray], float]
    dual: Callable[[np.ndarray], float]
    spectrum: Callable[[np.ndarray], np.ndarray]
    euclidean: bool
    instead: str


def _singular_values(G):
    return np.linalg.svd(G, compute_uv=False)


def _sorted_entries(G):
    return -np.sort(-np.abs(G))


def _root_of_squares(G):
    return float(np.sqrt(np.vdot(G, G)))


_NORMS = {
    "l1": _Norm(
        data="rows",
        norm=lambda w: float(np.abs(w).sum()),
        dual=lambda g: float(np.abs(g).max()),
        spectrum=_sorted_entries,
        euclidean=False,
        instead="nuclear",
    ),
    "l2": _Norm(
        data="rows",
        norm=_root_of_squares,
        dual=_root_of_squares,
        spectrum=_sorted_entries,
        euclidean=True,
        instead="frobenius",
    ),
    "frobenius": _Norm(
        data="factors",
        norm=_root_of_squares,
        dual=_root_of_squares,
        spectrum=_singular_values,
        euclidean=True,
        instead="l2",
    ),
    "nuclear": _Norm(
        data="factors",
        norm=lambda W: float(_singular_values(W).sum()),
        dual=lambda G: float(_singular_values(G)[0]),
        spectrum=_singular_values,
        euclidean=False,
        instead="l1",
    ),
}


@dataclasses.dataclass(frozen=True, eq=False)
class MaxMargin:
    """The maximum margin `gamma* = max_W min_k <A_k, W> / |W|` in a norm.

    `MaxMargin(norm, rows=A)` has the vectors `A_k = A[k]`, `A` of shape `(N, d)`; `norm` is `"l1"` or `"l2"`.
    `MaxMargin(norm, left=D, right=Z)` has the rank-one matrices `A_k = D_k Z_k^T`, `D` of shape `(N, d1)`, `Z` of shape
    `(N, d2)`; `norm` is `"frobenius"` or `"nuclear"`. No array of `N * d1 * d2` numbers is ever formed.

    Weak duality, for every `W` and every `p >= 0` of sum one:
    `min_k <A_k, W> / |W| <= gamma* <= |sum_k p_k A_k|_dual`. The dual of l1 is the largest absolute entry, the dual of
    nuclear is the largest singular value, l2 and Frobenius are their own. Zero gap if and only if the pair is optimal.

    Everything is scale-free: data times a power of two give the same digits, any other factor the same bounds to
    rounding. Arrays are copied to double precision and made read-only.

    Raises `ValueError` for a norm that is not one of the four or does not fit the data, for arrays of the wrong shape,
    for entries that are not finite, and for data whose size leaves double precision.

    Weak duality is standard; the delta-rank rests on von Neumann's trace inequality.
    Derived here: the delta-rank of the Euclidean
    norms (see `certify`) and the rounding bound.
    """

    norm: str
    _: dataclasses.KW_ONLY
    rows: Float[np.ndarray, "N d"] | None = dataclasses.field(default=None, repr=False)
    left: Float[np.ndarray, "N d1"] | None = dataclasses.field(default=None, repr=False)
    right: Float[np.ndarray, "N d2"] | None = dataclasses.field(default=None, repr=False)
    _data: tuple[np.ndarray, ...] = dataclasses.field(init=False, repr=False)
    _exponent: int = dataclasses.field(init=False, repr=False)
    _sizes: np.ndarray = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        if self.norm not in _NORMS:
            raise ValueError(f"`norm` must be one of {', '.join(sorted(_NORMS))}; got {self.norm!r}.")
        given = [name for name in ("rows", "left", "right") if getattr(self, name) is not None]
        if given not in (["rows"], ["left", "right"]):
            raise ValueError(
                "Pass `rows` of shape (N, d), or `left` of shape (N, d1) and `right` of shape (N, d2); "
                f"got {' and '.join(f'`{name}`' for name in given) or 'neither'}."
            )
        table = _NORMS[self.norm]
        if (given == ["rows"]) != (table.data == "rows"):
            what = "vector rows, whose norms are l1 and l2" if given == ["rows"] else "factors, whose `W` is a matrix"
            raise ValueError(f"The norm {self.norm!r} does not go with {what}; you probably mean {table.instead!r}.")
        arrays = {name: _checked(name, getattr(self, name), ndim=2) for name in given}
        if len({array.shape[0] for array in arrays.values()}) > 1:
            raise ValueError(
                "`left` and `right` must have one row per constraint each; "
                f"got shapes {arrays['left'].shape} and {arrays['right'].shape}."
            )
        exponents = [_exponent(array) for array in arrays.values()]
        if abs(sum(exponents)) > _LARGEST_EXPONENT:
            raise ValueError(
                f"The constraints are of size 2**{sum(exponents)}, which leaves double precision; rescale the data."
            )
        data = tuple(np.ldexp(array, -e) for array, e in zip(arrays.values(), exponents, strict=True))
        sizes = np.prod([np.sqrt(np.einsum("kj,kj->k", array, array)) for array in data], axis=0)
        if self.norm == "l1":
            sizes = np.abs(data[0]).max(1)
        nonzero = [np.abs(array).max(1) for array in data]
        for name, size in zip(arrays, nonzero, strict=True):
            smallest = int(np.argmin(np.where(size > 0, size, np.inf)))
            if 0 < size[smallest] < 2.0**-400:
                raise ValueError(
                    f"Row {smallest} of `{name}` is smaller than the largest by a factor of "
                    f"{size[smallest] / size.max():.0e}; bounds on both leave double precision. Rescale or drop it."
                )
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "_data", data)
        object.__setattr__(self, "_exponent", sum(exponents))
        object.__setattr__(self, "_sizes", sizes)

    @property
    def n_constraints(self) -> int:
        """`N`, the number of constraints."""
        return self._data[0].shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a point: `(d,)` over rows, `(d1, d2)` over factors."""
        return tuple(array.shape[1] for array in self._data)

    @property
    def sizes(self) -> Float[np.ndarray, " N"]:
        """`|A_k|_dual`, the largest margin that constraint `k` allows a point of norm one, in the data's units."""
        return np.ldexp(self._sizes, self._exponent)

    def scaled(self) -> tuple[tuple[np.ndarray, ...], int]:
        """`(rows,)` or `(left, right)` divided by powers of two, largest entry in [1/2, 1), and the total exponent."""
        return self._data, self._exponent

    def margins(self, point: ArrayLike) -> Float[np.ndarray, " N"]:
        """`<A_k, W>` for every constraint, in the data's units, shape `(N,)`; `W` has shape `shape`."""
        W, e = _split(self._shaped("point", point, self.shape))
        return np.ldexp(self._margins(W), e + self._exponent)

    def combine(self, multipliers: ArrayLike) -> Float[np.ndarray, "..."]:
        """`sum_k p_k A_k`, of shape `shape`; `p` of shape `(N,)` is used as given, without clipping or scaling."""
        p, e = _split(self._shaped("multipliers", multipliers, (self.n_constraints,)))
        return np.ldexp(self._combine(p), e + self._exponent)

    def norm_of(self, point: ArrayLike) -> float:
        """`|W|` in this problem's norm."""
        W, e = _split(self._shaped("point", point, self.shape))
        return float(np.ldexp(_NORMS[self.norm].norm(W), e))

    def dual_norm_of(self, G: ArrayLike) -> float:
        """`|G|` in the dual norm, `max <G, W>` over `|W| <= 1`."""
        scaled, e = _split(self._shaped("G", G, self.shape))
        return float(np.ldexp(_NORMS[self.norm].dual(scaled), e))

    def certify(
        self,
        point: ArrayLike,
        multipliers: ArrayLike | None = None,
        *,
        delta: float = 1e-3,
    ) -> Certificate:
        """Both bounds on the maximum margin, recomputed from the data, the candidate `W` and multipliers alone.

        - `point`: `W`, shape `shape`; only its direction matters.
        - `multipliers`: shape `(N,)`; negative ones are clipped to zero and counted, the rest scaled to sum one.
          `None`: they are found by non-negative least squares of the stationarity condition on the nearly active rows.
          That loses accuracy: a point that is optimal to 1e-10 is then typically certified to some 1e-7 in the nuclear
          norm. The certificate says so in `multipliers_given`.
        - `delta`: the largest share of the norm that a delta-rank may leave out. The certificate carries the smallest
          rank (for l1 and l2: the smallest support) below the full dimension that is proved with at most this share;
          `None` when there is none. The full dimension always holds with share zero and says nothing, so it is not
          reported.

        The delta-rank of l1 and nuclear is von Neumann's inequality, see `DeltaRank`. For l2 and Frobenius (derived
        here): with `M = sum p_k A_k / |sum p_k A_k|`, every optimum of norm one has `<M, W*> >= 1 - gap`, so
        `|W* - M|^2 <= 2 gap`, and by Weyl and Mirsky its part beyond rank `r` has at most the Frobenius norm
        `(sum_{i>r} s_i(M)^2)^(1/2) + (2 gap)^(1/2)`. In both, `gap` is enlarged by its rounding error.

        The rounding bound is of first order and statistical: a sum of `n` products is taken to err by `sqrt(n)` units
        of the last place of its norm bound, `n` the longest sum (shape and number of constraints).

        Raises `ValueError` for a zero point, entries that are not finite, shapes that do not fit, and multipliers
        without a positive entry.
        """
        table = _NORMS[self.norm]
        W, _ = _split(self._shaped("point", point, self.shape))
        size = table.norm(W)
        if size == 0:
            raise ValueError("`point` is zero, which has no direction and no margin; pass a non-zero point.")
        margins = self._margins(W) / size
        lower = float(margins.min())

        if multipliers is None:
            found = stationary_multipliers(self.norm, self._data, W / size, margins)
            candidates = [p for p in found if p.sum() > 0] or [np.ones(self.n_constraints)]
            duals = [(p / p.sum(), self._combine(p / p.sum())) for p in candidates]
            p, G = min(duals, key=lambda pair: table.dual(pair[1]))
            n_clipped, clipped_mass = 0, 0.0
        else:
            p, _ = _split(self._shaped("multipliers", multipliers, (self.n_constraints,)))
            mass = np.abs(p).sum()
            n_clipped, clipped_mass = int((p < 0).sum()), float(np.abs(p[p < 0]).sum() / mass) if mass else 0.0
            p = np.maximum(p, 0)
            if p.sum() == 0:
                raise ValueError(
                    f"`multipliers` have no positive entry (largest: {np.max(multipliers)}); at least one must be "
                    "positive. To have them found from the point, pass None."
                )
            p = p / p.sum()
            G = self._combine(p)

        spectrum = table.spectrum(G)
        upper = table.dual(G)
        unit = EPS * (2 + math.sqrt(max(*self.shape, self.n_constraints)))
        errors = unit * self._sizes
        slack_lower = max(lower - float((margins - errors).min()), float((margins + errors).min()) - lower)
        slack_lower += unit * abs(lower)
        slack = max(slack_lower, float(errors @ p) + unit * upper)

        def unscaled(value):
            return float(np.ldexp(value, self._exponent))

        found_point = W / size
        if lower > 0:
            scaled_up = np.ldexp(found_point / lower, -self._exponent)
            found_point = scaled_up if np.isfinite(scaled_up).all() else found_point
        certificate = Certificate(
            lower=unscaled(lower),
            upper=unscaled(upper),
            slack=unscaled(slack),
            point=found_point,
            multipliers=p,
            n_clipped=n_clipped,
            clipped_mass=clipped_mass,
            delta_rank=None,
            multipliers_given=multipliers is not None,
        )
        if upper > 0 and delta > 0:
            gap = max((upper - lower) / upper, 0.0) + 2 * slack / upper
            proved = _delta_rank(spectrum / upper, gap=gap, doubt=2 * slack / upper, euclidean=table.euclidean)
            ranks = np.flatnonzero(proved <= delta)
            if len(ranks):
                rank = DeltaRank(rank=int(ranks[0]) + 1, delta=float(proved[ranks[0]]))
                certificate = dataclasses.replace(certificate, delta_rank=rank)
        return certificate

    def _margins(self, W):
        if len(self._data) == 1:
            return self._data[0] @ W
        D, Z = self._data
        return np.einsum("kj,kj->k", D @ W, Z)

    def _combine(self, p):
        if len(self._data) == 1:
            return p @ self._data[0]
        D, Z = self._data
        used = np.flatnonzero(p)
        return (D[used] * p[used, None]).T @ Z[used]

    def _shaped(self, name, value, shape):
        array = _checked(name, value, ndim=len(shape))
        if array.shape != shape:
            raise ValueError(f"`{name}` must have shape {shape}; got {array.shape}.")
        return array


def _delta_rank(s, *, gap, doubt, euclidean):
    """Share of the norm that may lie beyond rank r, for r = 1, ..., full - 1; `s` sorted, of dual norm one."""
    if euclidean:
        tails = np.sqrt(np.cumsum(s[::-1] ** 2)[::-1])
        return tails[1:] + math.sqrt(2 * gap)
    room = 1 - s[1:] - doubt
    return np.where(room > 0, gap / np.where(room > 0, room, 1), np.inf)


def _checked(name, value, *, ndim):
    """A fresh double-precision array of `ndim` dimensions, not empty, all entries finite."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"`{name}` must hold real numbers; got an array of {array.dtype}.")
    array = np.array(array, dtype=float)
    if array.ndim != ndim or array.size == 0:
        shapes = {1: "one dimension", 2: "two dimensions"}[ndim]
        raise ValueError(f"`{name}` must have {shapes} and at least one entry; got shape {array.shape}.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"`{name}` must be finite; entry {list(where)} is {array[where]}.")
    return array


def _exponent(array):
    """The `e` with `max |array| / 2**e` in [1/2, 1); 0 for a zero array."""
    return math.frexp(float(np.abs(array).max()))[1]


def _split(array):
    """`array = scaled * 2**e` with the largest entry of `scaled` in [1/2, 1): exact, and squares cannot overflow."""
    e = _exponent(array)
    return np.ldexp(array, -e), e
