"""The zero-temperature limit of noisy wide ReLU networks: a convex problem over measures, with a certificate.

    min  (1/2n) |f - y|^2 + lam sum_k |c_k|,    f(x) = sum_k c_k relu(u_k'xt),    |u_k| = 1,    xt = (x, 1)

over all finite signed (for `m` outputs: vector-valued) measures on the sphere of `R^D`: their number of atoms is free.
It is what mean-field training with weight decay `lam` minimises as the noise goes to zero, for
`(lam/2)(a^2 + |v|^2)` is at least `lam |a| |v|`, with equality at balance. With the residual `r` as its unknown the
dual is

    max_r  -|r|^2 / (2n) - <r, y> / n   over   |R_r(u)| <= lam on the sphere,
    R_r(u) = (1/n) sum_i r_i relu(u'xt_i)

and at the optimum `r = f - y`, `R(u_k) = -lam c_k / |c_k|`. For any measure and any feasible `r`

    primal - dual = |f - y - r|^2 / (2n) + sum_k (lam |c_k| + c_k.R_r(u_k))

where no term is negative, so that the difference is known far below the rounding of either value.

Part of `y` may be out of reach of every network: the differences of targets of one input are. That part of the
residual is known, and infinite in units of `lam` as `lam` goes to zero. It is set apart, exactly, and is a constant of
both bounds.

**Finitely many directions** (scalar outputs). On a closed cell of the arrangement of the rows (a linear dichotomy) `R`
is linear; as the ball is strictly convex, at most one `u` of each sign has `|R(u)| = lam` in a closed cell, and none in
the cell where all rows are off. So there are at most `2(P - 1) <= 2P - 1` directions, `P` the number of dichotomies;
and two on one face are opposite, which have other patterns: each has a ternary pattern of its own.

**The measure need not be unique** where more directions than independent features have `|R| = lam`; for small `lam`
this is common. `relu(u'x) - relu(-u'x)` is linear, so with `sum_i r_i xt_i = 0` a kink can be turned round wherever it
is active: three such kinks with one input exchange mass without any change of the predictor, or of the total mass.
`largest` of the certified residual, with a `share` just below one, lists all directions that can carry mass.

**Vector outputs: none of this follows.** On a cell `|R(u)|^2` is a quadratic form: both boundary rays of a closed cell
can be active, and where its two largest singular values are equal `|R| = lam` holds all along the cell. The optimum is
then not unique, has optimal measures with any number of directions, several in one cell and of one pattern; and this
survives small changes of the targets (one input, two outputs, six points: 3 of 25 normal draws at `lam = .03`).

The authors' abstract states finitely many directions, `2P - 1`, and the ternary patterns, for a unique stationary
measure of noisy training; that it is this limit which they hold for, the problem, its dual, the bound's proof and the
certificate are derived here. That one cone per dichotomy makes the problem finite is due to Pilanci and Ergen (2020).
"""

import copy
import functools

import numpy as np
from jaxtyping import Float, Int8
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, check_number, check_same_length, shape_text, to_float64
from ._arrangement_integers import refuse_sparse
from ._arrays import checked, shaped, split
from ._relu_exact import projected
from ._relu_maxima import Cells, Faces, Maxima
from ._relu_reach import Reach
from ._relu_unique import uniqueness
from .arrangement import Arrangement, augmented
from .net_certificate import NetCertificate, lengths

_EPS = float(np.finfo(float).eps)
# Faces are listed up to here; beyond, cells alone are.
_FACES_UP_TO = 3
# In three dimensions there are fewer than four times as many faces as cells.
_FACES_PER_CELL = 4
# Squares of numbers beyond 2**512 leave double precision.
_LARGEST_EXPONENT = 510
# Beyond, in units of the scaled problem, squares of a candidate's masses do.
_LARGEST_MASS = 1e150


class ConvexReluNet:
    """The least `(1/2n)|f - y|^2 + lam * total mass` over measures of ReLU neurons, see the top of this file.

    - `X`: inputs, shape `(n, d)`; `y`: targets, `(n,)`, or `(n, m)` with `D <= 3`.
    - `lam`: the weight of the total mass, positive. From `lam_max` on, the zero measure is the optimum.
    - `bias`: neurons see `(x, 1)`, `D = d + 1`; else `x`, `D = d`.
    - `most`: as many dichotomies at most are listed.

    Repeated inputs, with equal targets or others, are fine. Scale-free: `y` and `lam` times one factor give the same
    directions and `|R| / lam`, masses and residual times that factor. Inputs have a scale of their own where there is
    a bias: `X` times a factor changes the problem. Without one, `X` and `lam` times one factor change nothing but the
    masses.

    Raises `ValueError` or `TypeError` for arrays of the wrong shape or kind, entries that are not finite, a `lam` that
    is not positive, too many dichotomies, and several outputs with more than three dimensions.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike, *, lam: float, bias: bool = True, most: int = 200_000):
        if not isinstance(bias, (bool, np.bool_)):
            raise TypeError(f"`bias` must be True or False; got {bias!r}.")
        if isinstance(lam, (bool, np.bool_)):
            raise TypeError(f"`lam` must be a number; got {lam!r}.")
        most = check_count(most, "most", least=1)
        refuse_sparse("X", X)
        refuse_sparse("y", y)
        inputs, targets = checked("X", X), checked("y", y)
        if inputs.ndim != 2 or 0 in inputs.shape:
            raise ValueError(f"`X` must have shape (n, d) and at least one entry; got {shape_text(inputs.shape)}.")
        if targets.ndim not in (1, 2) or 0 in targets.shape:
            raise ValueError(f"`y` must have shape (n,) or (n, m); got {shape_text(targets.shape)}.")
        check_same_length(inputs, targets, ("X", "y"), axes=(0, 0), what="inputs")
        weight = check_number(lam, "lam")
        if weight <= 0:
            raise ValueError(f"`lam` must be positive; got {weight:g}. Without weight decay no measure is singled out.")
        rows = augmented(inputs, bias=bool(bias))
        if not rows.any(axis=1).all():
            raise ValueError(
                f"`X[{int(np.argmin(rows.any(axis=1)))}]` is zero: without a bias every network is zero there. "
                "Drop the row, or take `bias=True`."
            )
        if targets.ndim == 2 and targets.shape[1] > 1 and rows.shape[1] > _FACES_UP_TO:
            raise ValueError(
                f"{targets.shape[1]} outputs with neurons of {rows.shape[1]} weights: the largest |R| on a cell is "
                f"then a problem without a finite formula here. Pass at most {_FACES_UP_TO - bias} columns of `X`, "
                "or one output."
            )
        self.X, self.y, self.lam, self.bias, self.most = inputs, targets, weight, bool(bias), most
        for array in (self.X, self.y):
            array.flags.writeable = False
        self.rows, self._row_exponent = split(rows)
        scaled, self._y_exponent = split(targets)
        self._targets = scaled.reshape(len(scaled), -1)
        unit = self._row_exponent + self._y_exponent
        if max(abs(self._row_exponent), abs(self._y_exponent)) > _LARGEST_EXPONENT:
            raise ValueError(
                f"The inputs are of size 2**{self._row_exponent} and the targets of size 2**{self._y_exponent}: their "
                "products leave double precision. Divide both to sizes near one."
            )
        with np.errstate(over="ignore", under="ignore"):
            self._weight = float(np.ldexp(weight, -unit))
        if not (np.isfinite(self._weight) and self._weight > 1e-200):
            raise ValueError(
                f"`lam` is {weight:g}, too far from the size of the data ({float(np.ldexp(1.0, unit)):.0e}) for double "
                "precision."
            )

    def __repr__(self):
        return f"ConvexReluNet(n={self.n}, d={self.X.shape[1]}, m={self.n_outputs}, lam={self.lam:g})"

    @property
    def n(self) -> int:
        """Number of inputs."""
        return len(self.X)

    @property
    def D(self) -> int:
        """Number of weights of a neuron, bias included."""
        return self.rows.shape[1]

    @property
    def n_outputs(self) -> int:
        """`m`."""
        return self._targets.shape[1]

    @functools.cached_property
    def arrangement(self) -> Arrangement:
        """The hyperplanes `u'xt_i = 0`, of the rows over a power of two."""
        return Arrangement(self.rows, f"{self.n} inputs of {self.X.shape[1]} columns")

    @functools.cached_property
    def _maxima(self) -> Faces | Cells:
        if self.D > _FACES_UP_TO:
            return Cells(self.arrangement, most=self.most)
        self.arrangement.cells(most=self.most)
        return Faces(self.arrangement, most=_FACES_PER_CELL * self.most)

    @functools.cached_property
    def _reach(self) -> Reach:
        return Reach(self.arrangement)

    @functools.cached_property
    def _reachable(self) -> Float[np.ndarray, "n m"]:
        return self._reach.part(self._targets)

    def scaled(self) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n m"], float]:
        """Rows, what of the targets is in reach, over powers of two, and `lam` in their units: what solvers see."""
        return self.rows, self._reachable, self._weight

    def at(self, weight: float) -> "ConvexReluNet":
        """The same problem with another `lam`, given in the units of `scaled()`."""
        _ = self._maxima, self._reachable  # computed once, for both
        other = copy.copy(self)
        other._weight = float(weight)
        other.lam = float(np.ldexp(weight, self._row_exponent + self._y_exponent))
        return other

    @functools.cached_property
    def lam_max(self) -> float:
        """The least `lam` for which the zero measure is the optimum: `max_u |R_y(u)|`."""
        return float(
            np.ldexp(self.maxima_scaled(-self._reachable, share=1.0).value, self._row_exponent + self._y_exponent)
        )

    def largest(self, residual: ArrayLike, *, share: float = 0.0) -> Maxima:
        """The largest `|R(u)|` on the sphere, exact up to rounding, and the directions where it is stationary.

        - `residual`: shape of `y`.
        - `share`: only directions with at least this share of the largest value are given, which is faster.

        For `D <= 3` a stationary direction on every face that has one; beyond, the maximiser of either sign on every
        closed cell where its value is positive.
        """
        share = check_number(share, "share")
        if not 0 <= share <= 1:
            raise ValueError(f"`share` must lie between 0 and 1; got {share:g}.")
        r, exponent = split(shaped("residual", residual, self.y.shape))
        found = self.maxima_scaled(r.reshape(self.n, -1), share=share)
        e = exponent + self._row_exponent
        return Maxima(
            value=float(np.ldexp(found.value, e)),
            directions=found.directions,
            values=np.ldexp(found.values, e),
            outputs=np.ldexp(found.outputs, e),
            patterns=found.patterns,
        )

    def maxima_scaled(self, residual: Float[np.ndarray, "n m"], *, share: float, least: float = np.inf) -> Maxima:
        """`largest` in the units of `scaled()`; directions of at least `share` of the largest value, or of `least`."""
        return self._maxima.maxima(residual, share, least)

    def certify(
        self,
        directions: ArrayLike,
        masses: ArrayLike,
        residual: ArrayLike | None = None,
        *,
        patterns: ArrayLike | None = None,
    ) -> NetCertificate:
        """Both bounds on the least objective, recomputed from the data, a measure and a residual alone.

        - `directions`: shape `(K, D)`, scaled to length one here (their length goes into the masses: neurons
          `a_k relu(v_k'xt)` may be passed as they are); `masses`: `(K,)`, or `(K, m)`. `K = 0` is the zero measure.
        - `residual`: the dual point, of the shape of `y`; scaled until feasible, but for its part out of reach, which
          is taken to be that of `-y`. `None`: `f - y`, which loses digits where `lam` is so small that `f` nearly
          interpolates.
        - `patterns`: shape `(K, n)`, the ternary patterns that the directions are meant to have: a float vector on a
          lower face has no exact zeros. Each direction is moved to the nearest one with those zeros, and its signs are
          computed exactly; the certificate is that of the moved directions, whatever was claimed.

        Raises `ValueError` for shapes that do not fit, entries that are not finite, directions that are zero or have
        nothing in the face that is claimed, and masses so large that their squares overflow.
        """
        u, _ = to_float64(directions, "directions")
        if u.ndim != 2 or u.shape[1] != self.D:
            raise ValueError(f"`directions` must have shape (K, {self.D}); got {shape_text(u.shape)}.")
        check_finite(u, "directions")
        K, m = len(u), self.n_outputs
        c = np.array(shaped("masses", masses, (K,) if self.y.ndim == 1 else (K, m))).reshape(K, m)
        if not u.any(axis=1).all():
            raise ValueError(f"`directions[{int(np.argmin(u.any(axis=1)))}]` is zero; a direction must have a length.")
        claimed = None
        if patterns is not None:
            claimed = np.sign(shaped("patterns", patterns, (K, self.n))).astype(np.int8)
        # Lengths by a power of two and a number near one, as squares and products of either alone may overflow.
        _, e = np.frexp(np.abs(u).max(axis=1, initial=0.0))
        u = np.ldexp(u, -e[:, None])
        sizes = np.linalg.norm(u, axis=1)
        with np.errstate(over="ignore", under="ignore"):
            c = np.ldexp(c * sizes[:, None], e[:, None] + self._row_exponent - self._y_exponent)
        large = np.abs(c).max(axis=1, initial=0.0)
        if (large > _LARGEST_MASS).any():
            k = int(np.argmax(large))
            raise ValueError(
                f"`masses[{k}]`, times the length of `directions[{k}]` and the size of the inputs, is more than "
                f"{_LARGEST_MASS:g} times the targets: bounds on its square leave double precision."
            )
        r = None
        if residual is not None:
            r, exponent = split(shaped("residual", residual, self.y.shape))
            # A residual far too large is scaled down anyway until it is feasible.
            exponent = min(exponent - self._y_exponent, 500)
            with np.errstate(under="ignore"):
                r = self._reach.part(np.ldexp(r, exponent).reshape(self.n, m))
        return self.certify_scaled(u / sizes[:, None], c, r, patterns=claimed)

    def certify_scaled(
        self,
        directions: Float[np.ndarray, "K D"],
        masses: Float[np.ndarray, "K m"],
        residual: Float[np.ndarray, "n m"] | None,
        *,
        patterns: Int8[np.ndarray, "K n"] | None = None,
    ) -> NetCertificate:
        """`certify` in the units of `scaled()`, for unit directions; `residual` is that of the part in reach.

        In the units of `y` the part out of reach is added to it, whose rounding may be large beside `lam`.
        """
        keep = np.flatnonzero(masses.any(axis=1))
        u, c = directions[keep], masses[keep]
        zeros = np.zeros((len(keep), self.n), dtype=bool) if patterns is None else patterns[keep] == 0
        moved = [projected(v, self.rows[zero]) if zero.any() else v for v, zero in zip(u, zeros, strict=True)]
        for k, v in zip(keep, moved, strict=True):
            if not v.any():
                raise ValueError(
                    f"`patterns[{k}]` has zeros on whose hyperplanes `directions[{k}]` has no part: no direction near "
                    "it has that pattern."
                )
        signs = np.zeros((0, self.n), dtype=np.int8)
        if len(keep):
            signs = self.arrangement.pattern(u, zeros=zeros)
        return self._certified(np.array(moved).reshape(len(keep), self.D), c, signs, residual)

    def _certified(self, u, c, signs, r):
        rows, y, lam = self.rows, self._reachable, self._weight
        (n, D), m = rows.shape, y.shape[1]
        # Where the exact sign is zero, so is the neuron: no rounding of its direction turns it on.
        features = np.where(signs.T > 0, np.maximum(rows @ u.T, 0.0), 0.0)
        f = features @ c
        r = f - y if r is None else r
        with np.errstate(over="ignore", invalid="ignore"):
            largest = self.maxima_scaled(r / lam, share=1.0).value
            # The measure's own directions are a check on the search for the largest.
            largest = max(largest, float(np.linalg.norm(features.T @ (r / lam) / n, axis=1).max(initial=0.0)))
        r = r / largest if largest > 1 else r
        if float((r * y).sum()) >= 0:
            r = np.zeros_like(r)
        R = features.T @ r / n
        size = lengths(c)
        fit, cost = float(((f - y) ** 2).sum()) / (2 * n), lam * float(size.sum())
        lower = -float((r**2).sum()) / (2 * n) - float((r * y).sum()) / n
        terms = lam * size + (c * R).sum(axis=1)
        difference = float(((f - y - r) ** 2).sum()) / (2 * n) + float(np.maximum(terms, 0.0).sum())
        # Rounding: of f, by its terms; of the largest |R|, and so of the scaling that makes r feasible; of the terms.
        norms = np.linalg.norm(rows, axis=1)
        of_f = _EPS * ((D + len(u) + 2) * float(norms.max()) * float(size.sum()) + float(np.abs(y).max()))
        of_scaling = _EPS * (n + D) * max(1.0, float(norms @ np.abs(r).sum(axis=1)) / (n * lam))
        doubt = float(np.abs(f - y - r).sum()) / n * of_f + m * of_f**2 / 2
        doubt += of_scaling * abs(float((r * (r + y)).sum())) / n
        doubt += _EPS * (n + 4) * float((size * (lam + features.T @ np.linalg.norm(r, axis=1) / n)).sum())
        slack = doubt + float(np.abs(f - y).sum()) / n * of_f
        slack += _EPS * (n + D + 4) * (float(np.abs(r * y).sum()) / n + cost + fit)
        # The part of the targets that is out of reach costs the same whatever the measure.
        off = self._targets - y
        constant = float((off**2).sum()) / (2 * n)
        slack += _EPS * (n + 4) * constant
        unique, why = uniqueness(self._maxima, r / lam, np.sqrt(2 * n * (difference + doubt)) / lam)
        e = 2 * self._y_exponent
        shape = () if self.y.ndim == 1 else (m,)
        return NetCertificate(
            directions=u,
            masses=np.ldexp(c, self._y_exponent - self._row_exponent).reshape(len(c), *shape),
            patterns=signs,
            residual=np.ldexp(r - off, self._y_exponent).reshape(self.y.shape),
            fitted=np.ldexp(f, self._y_exponent).reshape(self.y.shape),
            lower=float(np.ldexp(lower + constant, e)),
            upper=float(np.ldexp(fit + cost + constant, e)),
            difference=float(np.ldexp(difference, e)),
            slack=float(np.ldexp(slack, e)),
            difference_slack=float(np.ldexp(doubt, e)),
            largest=float(largest),
            alignment=-(c / size[:, None] * R).sum(axis=1) / lam,
            unique=unique,
            uniqueness=why,
            n_dichotomies=self.arrangement.n_cells,
            bias=self.bias,
        )
