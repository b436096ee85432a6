"""Maximum margin in a norm, over vectors, rank-one factors or matrices, with a certificate that trusts no solver."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .._checks import check_labels, shape_text, to_float64
from ..certificate import Certificate, DeltaRank
from ._arrays import check_range, checked, constraints_of, data_array, shaped, split
from ._bounds import Scale
from ._stationarity import stationary_multipliers
from .constraints import AbstractConstraints
from .norms import INSTEAD, MATRIX_NORMS, NAMES, VECTOR_NORMS, AbstractNorm, make_norm

# A rounding error of the gap above this is worth a second look in extended precision.
_ROUGH = 1e-9
# Beyond 2**1000 the bounds themselves leave double precision.
_LARGEST_EXPONENT = 1000
# An intercept this much larger than what the point contributes leaves double precision with it.
_LARGEST_INTERCEPT = 2.0**400
INTERCEPTS = ("none", "free", "penalised")


@dataclasses.dataclass(frozen=True, eq=False)
class MaxMargin:
    """The maximum margin `gamma* = max_W min_k <A_k, W> / |W|` in a norm.

    - `MaxMargin(norm, rows=A)`: vectors `A_k = A[k]` with `A` of shape `(N, d)`, dense or SciPy sparse, for the norms
      `l1`, `l2`, `linf`, `lp` (with `p`), `group-l1` (with `groups`, an integer label a column) and `fourier-l1`;
      or matrices with `A` of shape `(N, d1, d2)` for `frobenius`, `nuclear`, `spectral` and `schatten` (with `p`).
    - `MaxMargin(norm, left=D, right=Z)`: rank-one matrices `A_k = D_k Z_k^T`, `D` of shape `(N, d1)` and `Z` of shape
      `(N, d2)`. No array of `N * d1 * d2` numbers is ever formed.
    - `MaxMargin.from_labels(norm, X, y)`: `A_k = y_k X_k`.

    With an intercept `b` the margins are `<A_k, W> + y_k b`, `y = labels`, of +-1. `intercept="free"`: `b` is not in
    the norm. `intercept="penalised"`: the norm is that of the vector `(W, b)`; for `group-l1` the intercept is a group
    of its own, for `fourier-l1` its size is added, and norms of matrices do not have it.
    `n_plain` (`fourier-l1`): as many trailing coordinates stay outside the transform and are added by their size.

    Weak duality, for every `W`, `b` and every `p >= 0` of sum one (free intercept: and `sum_k y_k p_k = 0`):
    `min_k <A_k, W> + y_k b <= gamma* |W|` and `gamma* <= |sum_k p_k A_k|_dual`. Zero gap if and only if the pair is
    optimal. The norms and their duals are in `limits/norms.py`.

    Everything is scale-free: data times a power of two give the same digits, any other factor the same bounds to
    rounding. Arrays (NumPy, JAX, pandas, SciPy sparse) are copied to double precision and made read-only.

    Raises `ValueError` or `TypeError` for a norm that is none of the ten or does not fit the data, for arrays of the
    wrong shape or kind, for entries that are not finite, and for data whose size leaves double precision.

    Weak duality is standard. Derived here: the delta-rank (see `certify`) and the rounding bound.
    """

    norm: str
    _: dataclasses.KW_ONLY
    rows: Any = dataclasses.field(default=None, repr=False)
    left: Float[np.ndarray, "N d1"] | None = dataclasses.field(default=None, repr=False)
    right: Float[np.ndarray, "N d2"] | None = dataclasses.field(default=None, repr=False)
    p: float | None = None
    groups: Int[np.ndarray, " d"] | None = dataclasses.field(default=None, repr=False)
    n_plain: int = 0
    intercept: str = "none"
    labels: Float[np.ndarray, " N"] | None = dataclasses.field(default=None, repr=False)
    _constraints: AbstractConstraints = dataclasses.field(init=False, repr=False)
    _norm: AbstractNorm = dataclasses.field(init=False, repr=False)
    _exponent: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        if self.norm not in NAMES:
            raise ValueError(f"`norm` must be one of {', '.join(sorted(NAMES))}; got {self.norm!r}.")
        given = {name: getattr(self, name) for name in ("rows", "left", "right") if getattr(self, name) is not None}
        if list(given) not in (["rows"], ["left", "right"]):
            raise ValueError(
                "Pass `rows` of shape (N, d) or (N, d1, d2), or `left` of shape (N, d1) and `right` of shape (N, d2); "
                f"got {' and '.join(f'`{name}`' for name in given) or 'neither'}."
            )
        arrays: dict[str, Any] = {name: data_array(name, value) for name, value in given.items()}
        self._check_kind(arrays)
        if len({array.shape[0] for array in arrays.values()}) > 1:
            raise ValueError(
                "`left` and `right` must have one row per constraint each; "
                f"got shapes {arrays['left'].shape} and {arrays['right'].shape}."
            )
        scaled, exponents = zip(*(split(array) for array in arrays.values()), strict=True)
        exponent = sum(exponents)
        if abs(exponent) > _LARGEST_EXPONENT:
            raise ValueError(
                f"The constraints are of size 2**{exponent}; their bounds leave double precision. "
                f"{'Divide' if exponent > 0 else 'Multiply'} the data, to a size from 2**-1000 to 2**1000."
            )
        for name, array in zip(arrays, scaled, strict=True):
            check_range(name, array)
        constraints = constraints_of(scaled)
        d = next(iter(arrays.values())).shape[1]
        norm = make_norm(self.norm, d, p=self.p, groups=self.groups, n_plain=self.n_plain)
        for name, array in arrays.items():
            (array.data if scipy.sparse.issparse(array) else array).flags.writeable = False
            object.__setattr__(self, name, array)
        if self.groups is not None:
            object.__setattr__(self, "groups", np.array(self.groups))
        if self.p is not None:
            object.__setattr__(self, "p", float(self.p))
        object.__setattr__(self, "labels", self._checked_labels(constraints.n_constraints))
        object.__setattr__(self, "_constraints", constraints)
        object.__setattr__(self, "_norm", norm)
        object.__setattr__(self, "_exponent", exponent)

    def _check_kind(self, arrays):
        first = next(iter(arrays.values()))
        of_vectors = "rows" in arrays and first.ndim == 2
        if of_vectors == (self.norm in VECTOR_NORMS):
            return
        if of_vectors:
            text = f"is a norm of matrices, and `rows` of shape {shape_text(first.shape)} are vectors"
        elif "rows" in arrays:
            text = f"is a norm of vectors, and `rows` of shape {shape_text(first.shape)} are matrices"
        else:
            text = "is a norm of vectors, and `left` with `right` are matrices"
        raise ValueError(f"{self.norm!r} {text}; you probably mean {INSTEAD[self.norm]!r}.")

    def _checked_labels(self, n_constraints):
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"`intercept` must be one of {', '.join(INTERCEPTS)}; got {self.intercept!r}.")
        if self.intercept == "none":
            if self.labels is not None:
                raise ValueError("`labels` belong to an intercept; pass intercept='free' or 'penalised', or no labels.")
            return None
        if self.intercept == "penalised" and self.norm in MATRIX_NORMS:
            raise ValueError(
                f"A penalised intercept is a coordinate of a vector, and {self.norm!r} is a norm of matrices; "
                "take intercept='free' or 'none'."
            )
        if self.labels is None:
            raise ValueError(f"intercept={self.intercept!r} needs `labels`: +1 or -1 for each of the constraints.")
        labels = checked("labels", self.labels)
        if labels.shape != (n_constraints,):
            raise ValueError(
                f"`labels` must hold +1 or -1 for each of the {n_constraints} constraints; "
                f"got shape {shape_text(labels.shape)}."
            )
        check_labels(labels, "labels")
        if self.intercept == "free" and np.all(labels == labels[0]):
            raise ValueError(
                f"With a free intercept both labels must occur; all {n_constraints} are {labels[0]:+g}, "
                "and the margin has no bound: the intercept alone separates them."
            )
        labels.flags.writeable = False
        return labels

    @classmethod
    def from_labels(
        cls,
        norm: str,
        X: Any,
        y: ArrayLike,
        *,
        intercept: str = "none",
        p: float | None = None,
        groups: ArrayLike | None = None,
    ) -> "MaxMargin":
        """The problem of classifying inputs `X` with labels `y`: `A_k = y_k X_k`.

        `X`: shape `(N, d)`, dense or sparse, or `(N, d1, d2)` for norms of matrices; `y`: +-1, shape `(N,)`. The other
        arguments are those of `MaxMargin`. Raises what `MaxMargin` raises, naming `X` and `y`.
        """
        inputs = data_array("X", X)
        labels = checked("y", y)
        if labels.shape != inputs.shape[:1]:
            raise ValueError(
                f"`y` must hold one label for each of the {inputs.shape[0]} rows of `X`; "
                f"got shape {shape_text(labels.shape)}."
            )
        check_labels(labels)
        if scipy.sparse.issparse(inputs):
            rows = scipy.sparse.csr_array(scipy.sparse.diags_array(labels) @ inputs)
        else:
            rows = inputs * labels.reshape(-1, *[1] * (inputs.ndim - 1))
        kept = None if intercept == "none" else labels
        return cls(norm, rows=rows, p=p, groups=groups, intercept=intercept, labels=kept)  # pyright: ignore[reportArgumentType]

    @property
    def n_constraints(self) -> int:
        """`N`, the number of constraints."""
        return self._constraints.n_constraints

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a point: `(d,)` over vectors, `(d1, d2)` over matrices."""
        return self._constraints.shape

    @property
    def strictly_convex(self) -> bool:
        """True when the norm's unit sphere has no segment: then the direction of the optimum is unique."""
        # A matrix of one row or column has one singular value: every Schatten norm is Euclidean.
        return self._norm.strictly_convex or (len(self.shape) == 2 and min(self.shape) == 1)

    @functools.cached_property
    def sizes(self) -> Float[np.ndarray, " N"]:
        """`|A_k|_dual`, the largest margin that constraint `k` allows a point of norm one, in the data's units."""
        return np.ldexp(self._constraints.dual_sizes(self._norm), self._exponent)

    def scaled(self) -> tuple[AbstractConstraints, int]:
        """The constraints over a power of two, largest entry of each array in [1/2, 1), and the total exponent."""
        return self._constraints, self._exponent

    @property
    def signs(self) -> Float[np.ndarray, " N"] | None:
        """The column `y` of a free intercept, else `None`."""
        return self.labels if self.intercept == "free" else None

    def plain(self) -> "MaxMargin":
        """The same problem with a penalised intercept as one more coordinate; itself where there is none."""
        return self._plain

    @functools.cached_property
    def _plain(self) -> "MaxMargin":
        if self.intercept != "penalised":
            return self
        assert self.labels is not None
        column = self.labels[:, None]
        stack = scipy.sparse.hstack if scipy.sparse.issparse(self.rows) else np.hstack
        groups = None if self.groups is None else np.append(np.unique(self.groups, return_inverse=True)[1], -1)
        n_plain = self.n_plain + 1 if self.norm == "fourier-l1" else 0
        return MaxMargin(self.norm, rows=stack([self.rows, column]), p=self.p, groups=groups, n_plain=n_plain)

    def margins(self, point: ArrayLike, intercept: float = 0.0) -> Float[np.ndarray, " N"]:
        """`<A_k, W> + y_k b` for every constraint, in the data's units, shape `(N,)`; `W` has shape `shape`."""
        W, e = split(shaped("point", point, self.shape))
        margins = np.ldexp(self._constraints.margins(W), e + self._exponent)
        return margins if self.labels is None else margins + self.labels * intercept

    def combine(self, multipliers: ArrayLike) -> Float[np.ndarray, "..."]:
        """`sum_k p_k A_k`, of shape `shape`; `p` of shape `(N,)` is used as given, without clipping or scaling."""
        p, e = split(shaped("multipliers", multipliers, (self.n_constraints,)))
        return np.ldexp(self._constraints.combine(p), e + self._exponent)

    def norm_of(self, point: ArrayLike) -> float:
        """`|W|` in this problem's norm, without an intercept."""
        W, e = split(shaped("point", point, self.shape))
        return float(np.ldexp(self._norm.of(W), e))

    def dual_norm_of(self, G: ArrayLike) -> float:
        """`|G|` in the dual norm, `max <G, W>` over `|W| <= 1`."""
        scaled, e = split(shaped("G", G, self.shape))
        return float(np.ldexp(self._norm.dual(scaled), e))

    def certify(
        self,
        point: ArrayLike,
        multipliers: ArrayLike | None = None,
        *,
        intercept: float | None = None,
        delta: float = 1e-3,
    ) -> Certificate:
        """Both bounds on the maximum margin, recomputed from the data, the candidate `W` and multipliers alone.

        - `point`: `W`, shape `shape`; only its direction matters (that of `(W, b)` with an intercept).
        - `multipliers`: shape `(N,)`; negative ones are clipped to zero and counted, the rest scaled to sum one, and
          with a free intercept to one half on each side. The dual values of a CVXPY constraint serve as they are.
          `None`: they are found by non-negative least squares of the stationarity condition on the nearly active rows.
          That loses accuracy: a point that is optimal to 1e-10 is then typically certified to some 1e-7 in the nuclear
          norm. The certificate says so in `multipliers_given`.
        - `intercept`: `b`. With a free intercept `None` takes the best for this `W`; a penalised one must be given.
        - `delta`: the largest share of the norm that a delta-rank may leave out. The certificate carries the smallest
          rank (for vectors: the smallest support) below the full dimension that is proved with at most this share;
          `None` when there is none, and for norms where the dual proves nothing (`linf`, `lp`, `spectral`,
          `schatten`). The full dimension always holds with share zero and says nothing, so it is not reported.

        The delta-rank of sums over parts (l1, groups, Fourier, nuclear) is von Neumann's inequality, see `DeltaRank`;
        that of l2 and Frobenius follows from strong convexity. In both, `gap` is enlarged by its rounding error.

        The rounding bound is of first order and statistical: a sum of `n` products is taken to err by `sqrt(n)` units
        of the last place of its norm bound, `n` the longest sum (shape and number of constraints). Where that would
        blur the gap, the sums are taken again in extended precision. Bounds that are proved: `omegalimit.prove`.

        Raises `ValueError` for a zero point, entries that are not finite, shapes that do not fit, multipliers
        without a positive entry (free intercept: on each side), and an intercept where the problem has none.
        """
        if not 0 <= delta < 1:
            raise ValueError(f"`delta` must lie in [0, 1); got {delta}.")
        W = shaped("point", point, self.shape)
        b = self._checked_intercept(intercept)
        if not W.any() and not (self.intercept == "penalised" and b):
            raise ValueError("`point` is zero, which has no direction and no margin; pass a non-zero point.")
        if self.intercept == "penalised":
            plain = self.plain().certify(np.append(W, np.float64(b)), multipliers, delta=delta)
            point, offset = plain.point[:-1], float(plain.point[-1])
            return dataclasses.replace(plain, point=point, intercept=offset, intercept_kind=self.intercept)
        W, e = split(W)
        if b is not None:
            b = float(np.ldexp(b, -(e + self._exponent)))
            if not abs(b) < _LARGEST_INTERCEPT:
                raise ValueError(
                    f"`intercept` is {intercept}, so large beside the point that its margins leave double precision."
                )
        p, n_clipped, clipped_mass = self._duals(multipliers, W, b)
        found = self._scale.bounds(W, b, p, wide=False)
        V, offset, exponent = self._normal_form(W, found)
        if 2 * found.slack > _ROUGH * found.upper:
            V, offset, exponent = self._normal_form(W, self._scale.bounds(W, b, p, wide=True))
            # Of the very numbers that are handed out: to scale a point rounds it, but for powers of two.
            U, e = split(V)
            found = self._scale.bounds(U, None if b is None else float(np.ldexp(offset, -e)), p, wide=True)
            offset = float(np.ldexp(found.intercept, e))
        excess = found.margins / found.lower - 1 if found.lower > 0 else np.zeros_like(p)
        return Certificate(
            lower=self._unscaled(found.lower),
            upper=self._unscaled(found.upper),
            average=self._unscaled(found.average),
            slack=self._unscaled(found.slack),
            point=np.ldexp(V, -exponent),
            intercept=None if self.signs is None else float(np.ldexp(offset, self._exponent - exponent)),
            intercept_kind=self.intercept,
            multipliers=p,
            support=np.flatnonzero((p > 0) & (p >= excess)),
            n_clipped=n_clipped,
            clipped_mass=clipped_mass,
            delta_rank=self._delta_rank(found, delta),
            multipliers_given=multipliers is not None,
        )

    def _normal_form(self, W, found) -> tuple[np.ndarray, float, int]:
        """`V`, `b` and an exponent: `V 2^-exponent` is the point of least margin one, else of norm one.

        `V` and `b` are in the scaled data's units.
        """
        V, b = W / found.size, found.intercept / found.size
        if found.lower > 0 and np.isfinite(np.ldexp(V / found.lower, -self._exponent)).all():
            return V / found.lower, b / found.lower, self._exponent
        return V, b, 0

    def _checked_intercept(self, intercept) -> Any:
        if intercept is None:
            if self.intercept == "penalised":
                raise ValueError("`intercept` is missing: with a penalised intercept it is part of the candidate.")
            return None
        value, _ = to_float64(intercept, "intercept")
        if value.size != 1:
            raise ValueError(f"`intercept` must be one number; got shape {shape_text(value.shape)}.")
        value = float(value.reshape(()))
        if not math.isfinite(value):
            raise ValueError(f"`intercept` must be finite; got {value}.")
        if self.intercept == "none" and value != 0:
            raise ValueError(
                f"`intercept` is {value:g}, but the problem has none; state it with intercept='free' or 'penalised'."
            )
        return value

    def _duals(self, multipliers, W, b) -> tuple[np.ndarray, int, float]:
        """`p`, how many multipliers were negative, and their share; for a point and its intercept (or `None`)."""
        if multipliers is None:
            size, (scores, _) = self._norm.of(W), self._scale.scores(W, b, wide=False)
            found = stationary_multipliers(self._norm, self._constraints, W / size, scores / size, self.signs)
            candidates = [q for q in map(self._scale.normalised, found) if q is not None]
            candidates = candidates or [self._scale.normalised(np.ones(self.n_constraints))]
            return min(candidates, key=lambda q: self._norm.dual(self._constraints.combine(q))), 0, 0.0
        p, _ = split(shaped("multipliers", multipliers, (self.n_constraints,)))
        mass = np.abs(p).sum()
        clipped = float(np.abs(p[p < 0]).sum() / mass) if mass else 0.0
        normalised = self._scale.normalised(p)
        if normalised is None and self.signs is not None and np.any(p > 0):
            raise ValueError(
                "`multipliers` have positive entries on one label only; a free intercept needs some on both. "
                "To have them found from the point, pass None."
            )
        if normalised is None:
            raise ValueError(
                f"`multipliers` have no positive entry (largest: {np.max(multipliers)}); at least one must be "
                "positive. To have them found from the point, pass None."
            )
        return normalised, int((p < 0).sum()), clipped

    def _delta_rank(self, found, delta):
        if found.upper <= 0 or delta == 0:
            return None
        doubt = 2 * found.slack / found.upper
        gap = max((found.upper - found.lower) / found.upper, 0.0) + doubt
        tails = self._norm.tails(found.G / found.upper, gap=gap, doubt=doubt)
        if tails is None:
            return None
        ranks = np.flatnonzero(tails <= delta)
        return DeltaRank(rank=int(ranks[0]) + 1, delta=float(tails[ranks[0]])) if len(ranks) else None

    @functools.cached_property
    def _scale(self):
        return Scale(self._norm, self._constraints, self.signs)

    def _unscaled(self, value):
        return float(np.ldexp(value, self._exponent))
