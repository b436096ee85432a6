"""Which interpolant: the least of a convex function over `X k = y`, with a certificate that trusts no solver."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import shape_text
from ..certificate import LeastCertificate
from ._arrays import checked, shaped
from ._least_squares import EPS, least_squares
from .regularisers import AbstractRegulariser, ModifiedL1

# Beyond 2**1000 the bounds themselves leave double precision.
_LARGEST_EXPONENT = 1000
# Above this residual, relative to what is summed up, a corrected point interpolates other data.
_LARGEST_RESIDUAL = 1e-8
# Rounds in which the set of bounds that an l1 point's multipliers break may change.
_N_ROUNDS = 50


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scaled:
    """The problem in units of its own: `X` with rows of largest entry in [1/2, 1), `y` of largest entry there.

    `k = 2^size k'`, `f(k) = 2^value f'(k')`, `X_i = 2^rows_i X'_i`; multipliers are `2^(value - rows - size) nu'`.
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    regulariser: AbstractRegulariser
    rows: np.ndarray
    size: int
    value: int


@dataclasses.dataclass(frozen=True, eq=False)
class Interpolation:
    """The least interpolant: `f* = min f(k)` over `X k = y`, `f` of `limits/regularisers.py` or `limits/potentials.py`.

    - `regulariser`: `ModifiedL1`, `SquaredNorm`, `RelativeEntropy`, `HyperbolicEntropy` or `DepthPotential`.
    - `X`: shape `(n, d)`; `y`: shape `(n,)`. Copied to double precision and made read-only.

    Weak duality, for every `k` with `X k = y` and every `nu`: `nu.y - f^*(X^T nu) <= f* <= f(k)` (Fenchel and Young).
    The gap is zero if and only if `k` is optimal and `X^T nu` in the subdifferential of `f` there: `k = grad f^*(X^T
    nu)` where the conjugate is smooth; for the modified l1 norm `-t- <= X^T nu <= t+`, with equality and the matching
    sign wherever `k_i` is not zero.

    Everything is scale-free: rows of `(X, y)` times powers of two give the same digits, and so do `y` and the starting
    scales together, but for the rounding of their logarithms.

    Raises `ValueError` or `TypeError` for arrays of the wrong shape or kind, entries that are not finite, parameters of
    the regulariser of another length than `X` has columns, and data whose size leaves double precision.

    Weak duality is standard. Derived here: the correction of points onto `X k = y` and the rounding bound.
    """

    regulariser: AbstractRegulariser
    X: Any = dataclasses.field(repr=False)
    y: Any = dataclasses.field(repr=False)

    def __post_init__(self):
        if not isinstance(self.regulariser, AbstractRegulariser):
            raise TypeError(
                "`regulariser` must be one of omegalimit's, such as ModifiedL1(); "
                f"got {type(self.regulariser).__name__}."
            )
        if scipy.sparse.issparse(self.X):
            raise TypeError("`X` is a sparse array; pass `X.toarray()`.")
        X, y = checked("X", self.X), checked("y", self.y)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"`X` must have shape (n, d) and at least one entry; got {shape_text(X.shape)}.")
        if y.shape != X.shape[:1]:
            raise ValueError(
                f"`y` must hold one value for each of the {len(X)} rows of `X`; got shape {shape_text(y.shape)}."
            )
        X.flags.writeable = y.flags.writeable = False
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "regulariser", self.regulariser.sized(X.shape[1]))
        scaled = self.scaled()
        if abs(scaled.value) > _LARGEST_EXPONENT or abs(scaled.size) > _LARGEST_EXPONENT:
            raise ValueError(
                f"The interpolants are of size 2**{scaled.size} and the values of `f` of size 2**{scaled.value}; their "
                "bounds leave double precision. Rescale `X` or `y`, so that both lie from 2**-1000 to 2**1000."
            )

    @property
    def n_constraints(self) -> int:
        """`n`, the number of rows."""
        return len(self.y)

    @property
    def shape(self) -> tuple[int]:
        """Shape of a point, `(d,)`."""
        return (self.X.shape[1],)

    def scaled(self) -> Scaled:
        """The problem in units of its own, see `Scaled`."""
        return self._scaled

    @functools.cached_property
    def _scaled(self) -> Scaled:
        rows = np.frexp(np.abs(self.X).max(axis=1))[1]
        X = np.ldexp(self.X, -rows[:, None])
        # In two steps: the exponent that a row's `y` keeps may be out of the range of doubles in between.
        exponents = np.frexp(self.y)[1] - rows
        size = int(exponents[self.y != 0].max(initial=-(2**20)))
        if size == -(2**20):  # `y` is zero: the interpolants are of the size of the minimum of `f`
            size = math.frexp(float(np.abs(self.regulariser.minimum(X.shape[1])).max()))[1]
        fractions = np.frexp(self.y)[0]
        y = np.ldexp(fractions, np.where(self.y != 0, exponents - size, 0))
        regulariser, value = self.regulariser.rescaled(size)
        return Scaled(X=X, y=y, regulariser=regulariser, rows=rows, size=size, value=value)

    def unscaled_multipliers(self, nu: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Multipliers of the problem as given, from those of `scaled()`."""
        scaled = self.scaled()
        return np.ldexp(nu, scaled.value - scaled.rows - scaled.size)

    def value(self, point: ArrayLike) -> float:
        """`f(k)`; infinite outside the domain."""
        scaled = self.scaled()
        k = np.ldexp(shaped("point", point, self.shape), -scaled.size)
        return float(np.ldexp(scaled.regulariser.value(k), scaled.value))

    def certify(self, point: ArrayLike, multipliers: ArrayLike | None = None) -> LeastCertificate:
        """Both bounds on the least value, recomputed from the data, the candidate `k` and multipliers `nu` alone.

        - `point`: `k`, shape `(d,)`. What it lacks of `X k = y` is removed first, by the correction that is least in
          the metric of `f` itself (for the modified l1 norm, relative to each entry), so that zeros and signs stay;
          the certificate says how far that moved it. Where no such correction exists, or the point lies outside the
          domain, the upper bound is infinite.
        - `multipliers`: `nu`, shape `(n,)`, of the Lagrangian `f(k) - nu.(X k - y)`; scaled into the domain of the
          conjugate (for the modified l1 norm, onto its boundary, which is the best scale). CVXPY's dual values of
          `X @ k == y` are `-nu`. `None`: they are found by least squares of the stationarity condition in the metric of
          `f` (modified l1: on the support and on the bounds that would be broken), and `multipliers_given` is false.

        The rounding bound is of first order and statistical: a sum of `N` terms is taken to err by `2 + sqrt(N)` units
        of the last place of its absolute sum. Raises `ValueError` for shapes that do not fit and entries that are not
        finite.
        """
        scaled = self.scaled()
        k = np.ldexp(shaped("point", point, self.shape), -scaled.size)
        nu = None
        if multipliers is not None:
            given = shaped("multipliers", multipliers, (self.n_constraints,))
            nu = np.ldexp(given, scaled.rows + scaled.size - scaled.value)
            if not np.isfinite(nu).all():
                raise ValueError("`multipliers` are so large that their bound leaves double precision; rescale them.")
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            found = _certified(scaled, k, nu)
        return dataclasses.replace(
            found,
            lower=float(np.ldexp(found.lower, scaled.value)),
            upper=float(np.ldexp(found.upper, scaled.value)),
            slack=float(np.ldexp(found.slack, scaled.value)),
            point=np.ldexp(found.point, scaled.size),
            multipliers=self.unscaled_multipliers(found.multipliers),
            dual_point=np.ldexp(found.dual_point, scaled.value - scaled.size),
        )

    def unreachable(self, multipliers: ArrayLike) -> bool:
        """True when `nu` proves that no point of the domain interpolates: `nu.y > 0 >= nu.X k` for all of them.

        `X^T nu` must vanish within rounding, or have the sign that the domain permits: not positive where `k_i >= 0`,
        not negative where `k_i <= 0`. `nu.y` must exceed its rounding error a hundredfold (Farkas).
        """
        scaled = self.scaled()
        nu = shaped("multipliers", multipliers, (self.n_constraints,))
        largest = np.frexp(np.abs(nu[nu != 0]))[1] + scaled.rows[nu != 0]
        if not len(largest):
            return False
        fractions, exponents = np.frexp(nu)
        nu = np.ldexp(fractions, np.where(nu != 0, exponents + scaled.rows - int(largest.max()), 0))
        return unreachable(scaled, nu)


def forbidden_signs(regulariser: AbstractRegulariser, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the domain forbids positive entries, and where negative ones."""
    ones = np.ones(d)
    return np.isinf(regulariser.terms(ones)), np.isinf(regulariser.terms(-ones))


def unreachable(scaled: Scaled, nu: Float[np.ndarray, " n"]) -> bool:
    """`Interpolation.unreachable` in the scaled problem's units."""
    spread = 2 + math.sqrt(max(scaled.X.shape))
    # Columns that change by this share of their size, along `nu`, make the products exact.
    s, rounding = scaled.X.T @ nu, EPS * spread * np.linalg.norm(scaled.X, axis=0) * np.linalg.norm(nu)
    no_plus, no_minus = forbidden_signs(scaled.regulariser, len(s))
    off = np.where(no_plus, np.maximum(-s, 0), np.where(no_minus, np.maximum(s, 0), np.abs(s)))
    product, error = float(nu @ scaled.y), EPS * spread * float(np.abs(nu) @ np.abs(scaled.y))
    return bool((off <= rounding).all() and product > 100 * error)


def _certified(scaled: Scaled, k, nu) -> LeastCertificate:
    """The certificate in the scaled problem's units."""
    X, y, f = scaled.X, scaled.y, scaled.regulariser
    absolute = np.abs(X)
    unit = EPS * (2 + math.sqrt(max(X.shape)))
    residual = _residual(scaled, k)
    inside = bool(np.isfinite(f.terms(k)).all())
    point = k if residual <= unit or not inside else _corrected(scaled, k, unit)
    left = X @ point - y
    upper = f.value(point) if inside and _residual(scaled, point) <= _LARGEST_RESIDUAL else np.inf
    given = nu is not None
    if nu is None:
        nu = _stationary(scaled, point)
    factor = f.factor_into_domain(X.T @ nu)
    nu, s = factor * nu, factor * (X.T @ nu)
    terms = f.conjugate_terms(s)
    lower = float(nu @ y - terms.sum())
    lower = lower if np.isfinite(lower) else -np.inf

    weights = absolute.T @ np.abs(nu)
    of_lower = float(np.abs(nu) @ np.abs(y)) + float(np.abs(terms[np.isfinite(terms)]).sum())
    if isinstance(f, ModifiedL1):
        # To scale by a gauge that rounding moved moves the bound in proportion.
        of_lower += abs(lower) * float(np.max(weights / np.minimum(f.t_plus, f.t_minus), initial=0.0))
    else:
        of_lower += float(np.abs(_image(f, s, point)) @ weights)
    # Rounding of the point itself, to second order: near the minimum of `f` there is no first.
    slope = f.gradient(point)
    held = (point != 0) & np.isfinite(slope)
    second = np.divide(point**2, f.weights(point), out=np.zeros_like(point), where=held)
    values = f.terms(point)
    of_upper = float(np.abs(values[np.isfinite(values)]).sum()) + float(np.abs(slope[held] * point[held]).sum())
    of_upper += 0.5 * unit * float(second[np.isfinite(second)].sum()) + f.largest_log * float(
        np.abs(terms[np.isfinite(terms)]).sum()
    )
    sizes = np.abs(left) + unit * (absolute @ np.abs(point))
    of_residual = float(np.abs(nu) @ sizes)
    if (
        given and np.isfinite(upper) and _residual(scaled, point) > unit
    ):  # the point's own multipliers say what its residual is worth
        of_residual = max(of_residual, float(np.abs(_stationary(scaled, point)) @ sizes))
    slack = max(unit * of_lower, unit * of_upper + of_residual)
    moved = float(np.linalg.norm(point - k))
    return LeastCertificate(
        lower=lower,
        upper=float(upper),
        slack=slack if np.isfinite(slack) else np.inf,
        residual=residual,
        correction=moved / max(float(np.linalg.norm(k)), np.finfo(float).tiny) if moved else 0.0,
        point=point,
        multipliers=nu,
        dual_point=s,
        support=f.support(point, s),
        multipliers_given=given,
    )


def _residual(scaled, k):
    """The largest residual of a row, relative to `|X_i| |k| + |y_i|`."""
    off = np.abs(scaled.X @ k - scaled.y)
    sizes = np.linalg.norm(scaled.X, axis=1) * np.linalg.norm(k) + np.abs(scaled.y)
    return float(np.max(np.where(off == 0, 0.0, off / sizes), initial=0.0))


def _image(f, s, point):
    """What an error of `s_i` is multiplied by in the conjugate: `(f_i^*)'(s_i)`, or the point's where that is none."""
    image = f.gradient_of_conjugate(s)
    return np.where(np.isfinite(image), image, point)


def _corrected(scaled, k, unit):
    """`k` moved onto `X k = y` by the least correction in the metric of `f`, or by the least one; else as it is.

    Where the correction leads out of the domain, by rounding or more, entries are put back onto its boundary: the
    residual that this leaves is judged like any other.
    """
    X, y, f = scaled.X, scaled.y, scaled.regulariser
    best, best_key = k, (np.inf, np.inf)
    for metric in (np.sqrt(np.minimum(f.weights(k), np.finfo(float).max)), np.ones_like(k)):
        used = np.flatnonzero(metric > 0)
        if not len(used):
            continue
        sizes = metric[used] / metric[used].max()
        part, point = X[:, used] * sizes, k.copy()
        for _ in range(3):
            point[used] += least_squares(part, y - X @ point) * sizes
            point = np.where(np.isinf(f.terms(point)) & np.isfinite(point), 0.0, point)
            off = _residual(scaled, point) if np.isfinite(point).all() else np.inf
            if off <= unit:
                break
        key = (float(off > _LARGEST_RESIDUAL), f.value(point))
        if np.isfinite(off) and np.isfinite(key[1]) and key < best_key:
            best, best_key = point, key
        if best_key[0] == 0:
            break
    return best


def _stationary(scaled, k):
    """Multipliers from the point alone: least squares of `X^T nu = f'(k)` in the metric of `f`."""
    X, f = scaled.X, scaled.regulariser
    slope = f.gradient(k)
    if not isinstance(f, ModifiedL1):
        weights = np.sqrt(f.weights(k))
        held = np.isfinite(slope) & np.isfinite(weights) & (weights > 0)
        if not held.any():
            return np.zeros(len(X))
        weights = weights[held] / weights[held].max()
        return _finite(least_squares((X[:, held] * weights).T, weights * slope[held]))
    # The distance of `s` to the subdifferential, in units of the bounds: a bound that `s` breaks is an equation.
    on = np.flatnonzero(slope)
    target = dict(zip(on.tolist(), slope[on].tolist(), strict=True))
    nu = np.zeros(len(X))
    for _ in range(_N_ROUNDS):
        indices = np.array(sorted(target), dtype=int)
        values = np.array([target[i] for i in indices])
        if not len(indices):
            return nu
        nu = _finite(least_squares((X[:, indices] / np.abs(values)).T, np.sign(values)))
        s = X.T @ nu
        room = 1 + 1e-12
        broken = {
            int(i): float(f.t_plus[i] if s[i] > 0 else -f.t_minus[i])
            for i in np.flatnonzero((k == 0) & ((s > f.t_plus * room) | (-s > f.t_minus * room)))
        }
        new = {i: target[i] for i in on.tolist()} | broken
        if new.keys() <= target.keys():
            return nu
        target = target | broken
    return nu


def _finite(nu):
    return nu if np.isfinite(nu).all() else np.zeros_like(nu)
