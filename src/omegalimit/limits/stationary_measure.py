"""The stationary measure of mean-field Langevin dynamics of a wide two-layer ReLU network, by a finite concave dual.

A particle is `(a, v)`, `a` in R^m, `v` in R^D; with `x~ = (x, 1)` (or `x`, without a bias), `f(x) = E[a relu(v.x~)]`,
the dynamics of noisy gradient descent with weight decay `lam` at the inverse temperature `beta` decrease the free
energy

    F(rho) = 1/(2n) sum_i |f(x_i) - y_i|^2 + lam/2 E[|a|^2 + |v|^2] + (1/beta) E[log rho]

which is strictly convex. Its one stationary measure is the Gibbs law of its own residual `r = f - y`:

    rho_r ~ exp(-beta [ a.R(v) + lam/2 (|a|^2 + |v|^2) ]),    R(v) = (1/n) sum_i r_i relu(v.x~_i)  in R^m

The radial integrals close, since the exponent is homogeneous of degree 2: with `v = s u`, `|u| = 1`,

    density of the direction u  ~  (lam^2 - |R(u)|^2)^{-D/2},      E[a s | u] = -(D/beta) R(u) / (lam^2 - |R(u)|^2)

finite if and only if `|R| < lam` on the sphere. What is left is concave in the `n m` numbers `r`,

    G(r) = -|r|^2/(2n) - r.y/n - (1/beta) log Z(r),      Z(r) = int exp(-beta [ ... ]) da dv,

with gradient `(f_r - y - r)/n`, `f_r` the predictor of `rho_r`. For every `r` in the domain, exactly,

    F(rho_r) - G(r) = |f_r - y - r|^2 / (2n)                                     (the certificate)
    F(rho) - F*    = |f - f*|^2/(2n) + KL(rho | rho*)/beta                       (for every measure)

and `G` is strongly concave with the constant `1/n`, so that `|r - r*| <= |f_r - y - r|`.

Source: the paper's abstract states that the dynamics have a unique stationary measure, and what happens to it as
neurons align. The measure's form, its dual, the certificate and how the integrals are taken are derived here.

**How the integrals are taken.** Space is cut into simplicial cones on each of which every `relu(v.x~_i)` is linear.
All of it in the span of the inputs `x~`, of dimension `k <= min(n, D)`: across it weights are Gaussian, and independent
(`_measure_reduced.py`). `k <= 3`: every integral is closed (`_measure_cones.py`), and no peak is too sharp. `k = 4`:
Gauss rule on cones, stretched and cut so that peaks are flat (`_measure_rule.py`); its error, about 1e-9 at the inputs
and 1e-8 in predictions elsewhere, is taken as twice the difference to a finer rule. `k > 4`, or more cones than memory
should hold: importance sampling (`_measure_sampled.py`), with four standard errors and the difference of two
independent samples as the error. All errors are carried into the certificate. Predictions at inputs that
leave a span of `k = 3` are right to about 1e-7, of `k = 4` to about 1e-5.

**What rounding leaves.** `f_r` depends on `r` like `1 / (lam - max |R|)`: rounding of `r` alone moves `f` by about
`1e-16 / (1 - max |R| / lam)`, relative, and that is the floor of `|f - y - r|`.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, check_ndim, check_same_length, shape_text, to_float64
from ._arrays import shaped, split
from ._measure_law import MeasureLaw
from ._measure_partition import FINAL, Partition
from ._measure_reduced import span
from ._measure_scaled import ScaledMeasure
from .measure_certificate import MeasureCertificate

_EPS = float(np.finfo(float).eps)
# Exponents of two within which products of the scaled constants stay far from the ends of the range of doubles.
_RANGE = 900


@dataclasses.dataclass(frozen=True, eq=False)
class StationaryMeasure:
    """The least free energy of a noisy wide ReLU network on these data, see the top of this file.

    - `X`: inputs, shape `(n, d)`; `y`: targets, shape `(n,)`, or `(n, m)` for vector outputs. Copied to double
      precision and made read-only. Repeated inputs are allowed, with different targets too: the loss counts each row.
    - `lam`: weight decay, positive. `beta`: inverse temperature, positive and finite.
    - `bias`: whether a neuron has one (`D = d + 1`), or not (`D = d`).
    - `n_samples`, `seed`: directions that are drawn where integrals are sampled (`k > 4`), at least 10 000; elsewhere
      used by `concentration` alone, for `D > 4`.

    **Sampled integrals can be wrong by more than their error.** It comes from the scatter of two samples. A peak of the
    density that neither the search for the largest `|R|` nor a draw has met is not seen by it; cold measures in many
    dimensions have peaks that narrow. Compare seeds, and numbers of samples, before such a bound is relied on.

    Invariances: targets times `c` with `lam` times `c` and `beta` over `c^2` is the same problem, with residual and
    predictions times `c`; so is `(X, 1)` (without a bias: `X`) times `c` with `lam` times `c`, with the same residual.
    For powers of two every digit is the same.

    Raises `ValueError` or `TypeError` for arrays of the wrong shape or kind, entries that are not finite, no rows,
    `lam` or `beta` that are not positive finite numbers, and constants whose products leave double precision.
    """

    X: Any = dataclasses.field(repr=False)
    y: Any = dataclasses.field(repr=False)
    lam: float = dataclasses.field(kw_only=True)
    beta: float = dataclasses.field(kw_only=True)
    bias: bool = dataclasses.field(default=True, kw_only=True)
    n_samples: int = dataclasses.field(default=100_000, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)

    def __post_init__(self):
        X, _ = to_float64(self.X, "X")
        y, _ = to_float64(self.y, "y")
        check_ndim(X, "X", axes="n, d")
        if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] == 0):
            raise ValueError(f"`y` must have shape (n,) or (n, m), m >= 1; got {shape_text(y.shape)}.")
        check_same_length(X, y, ("X", "y"), axes=(0, 0), what="rows")
        if len(X) == 0:
            raise ValueError("`X` has no rows; the measure needs at least one data point.")
        if X.shape[1] == 0 and not self.bias:
            raise ValueError("`X` has no columns and there is no bias: no neuron has a weight.")
        check_finite(X, "X")
        check_finite(y, "y")
        lam, beta = _constant(self.lam, "lam", _NO_DECAY), _constant(self.beta, "beta", _NO_TEMPERATURE)
        if not isinstance(self.bias, (bool, np.bool_)):
            raise TypeError(f"`bias` must be True or False; got {self.bias!r}.")
        check_count(self.n_samples, "n_samples", least=10_000)
        check_count(self.seed, "seed", least=0)
        for name, value in (("X", X), ("y", y), ("lam", lam), ("beta", beta), ("bias", bool(self.bias))):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)
        scaled = self.scaled
        for what in (scaled.lam, scaled.beta, scaled.beta * scaled.lam * scaled.lam):
            if not (what > 0 and abs(math.frexp(what)[1]) < _RANGE):
                raise ValueError(
                    f"`lam` = {lam:g} and `beta` = {beta:g} with inputs of size {np.abs(X).max(initial=0):.1e} and "
                    f"targets of size {np.abs(y).max():.1e} leave double precision: the problem's own constants are "
                    "lam / (size of inputs x size of targets) and beta x (size of targets)^2. Rescale them together."
                )

    @property
    def dimension(self) -> int:
        """`D`, of a neuron's incoming weights, the bias included."""
        return self.X.shape[1] + int(self.bias)

    @property
    def n_outputs(self) -> int:
        """`m`."""
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @property
    def method(self) -> str:
        """How the integrals are taken: `"closed form"`, `"quadrature"` or `"sampled"`."""
        return self.scaled.method

    @functools.cached_property
    def scaled(self) -> ScaledMeasure:
        """The problem in units of its own, see `ScaledMeasure`."""
        rows, row_exponent = split(self.augmented(self.X))
        basis = span(rows)
        y, exponent = split(self.y.reshape(len(self.y), -1))
        # Two steps each, so that no factor leaves the range before the product does.
        lam = _ldexp(_ldexp(self.lam, -row_exponent), -exponent)
        beta = _ldexp(_ldexp(self.beta, exponent), exponent)
        return ScaledMeasure(
            rows=rows if basis is None else rows @ basis,
            y=y,
            lam=lam,
            beta=beta,
            row_exponent=row_exponent,
            exponent=exponent,
            n_samples=self.n_samples,
            seed=self.seed,
            basis=basis,
        )

    def augmented(self, X: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N D"]:
        """`(x, 1)`, or `x` without a bias."""
        return np.concatenate([X, np.ones((len(X), 1))], axis=1) if self.bias else X

    def certify(self, residual: ArrayLike) -> MeasureCertificate:
        """Bounds on the least free energy from a residual of the shape of `y`, axes of length one aside.

        Raises `ValueError` for another shape and for entries that are not finite.
        """
        r = self._scaled_residual(residual)
        scaled = self.scaled
        with np.errstate(over="ignore", invalid="ignore"):
            # A residual so large that its square is no number is outside the domain.
            partition = scaled.partition(r, order=FINAL, second=False) if scaled.near(r) else None
        unit, shape, n = 2.0 ** min(max(scaled.exponent, -1000), 1000), self.y.shape, len(r)
        size = float(np.linalg.norm(scaled.y)) * unit
        if partition is None:
            nothing = np.full(shape, np.nan)
            return MeasureCertificate(
                lower=-np.inf,
                upper=np.inf,
                slack=0.0,
                difference=np.inf,
                difference_slack=0.0,
                residual=np.ldexp(r, scaled.exponent).reshape(shape),
                outputs=nothing,
                outputs_error=nothing,
                mismatch=np.inf,
                mismatch_slack=0.0,
                size=size,
                method=self.method,
                bounded="violated",
            )
        outputs, error = scaled.outputs(partition), scaled.outputs_error(partition)
        error = error + _EPS * (np.abs(scaled.y) + np.abs(r))
        mismatch, slack = float(np.linalg.norm(outputs - scaled.y - r)), float(np.linalg.norm(error))
        lower, lower_slack = self._dual(r, partition)
        difference = _square_unit(mismatch**2 / (2 * n), scaled.exponent)
        difference_slack = _square_unit((2 * mismatch + slack) * slack / (2 * n), scaled.exponent)
        return MeasureCertificate(
            lower=lower,
            upper=lower + difference,
            slack=lower_slack + difference_slack,
            difference=difference,
            difference_slack=difference_slack,
            residual=np.ldexp(r, scaled.exponent).reshape(shape),
            outputs=np.ldexp(outputs, scaled.exponent).reshape(shape),
            outputs_error=np.ldexp(error, scaled.exponent).reshape(shape),
            mismatch=mismatch * unit,
            mismatch_slack=slack * unit,
            size=size,
            method=self.method,
            bounded=scaled.bounded(r),
        )

    def at(self, residual: ArrayLike) -> MeasureLaw:
        """The Gibbs measure that this residual defines; the stationary one at the solution's residual.

        Raises `ValueError` outside the domain: where `|R(u)| >= lam` somewhere, the measure cannot be normalised.
        """
        r = self._scaled_residual(residual)
        partition = self.scaled.partition(r, second=False) if self.scaled.near(r) else None
        if partition is None:
            raise ValueError(
                f"at this residual |R(u)| reaches `lam` = {self.lam:g} on the sphere, so that the Gibbs measure cannot "
                "be normalised; scale the residual towards zero, or take the one of the solution."
            )
        lower, slack = self._dual(r, partition)
        return MeasureLaw(
            scaled=self.scaled,
            c=self.scaled.coefficients(r),
            r=r,
            partition=partition,
            bias=self.bias,
            scalar=self.y.ndim == 1,
            dual_value=lower,
            dual_slack=slack,
            beta=self.beta,
        )

    def _scaled_residual(self, residual):
        r = shaped("residual", residual, self.y.shape)
        with np.errstate(over="ignore"):
            return np.ldexp(r, -self.scaled.exponent).reshape(len(r), -1)

    def _dual(self, r, partition: Partition) -> tuple[float, float]:
        """`G(r)` and its error, in the user's units."""
        scaled, n = self.scaled, len(r)
        square, cross = float((r * r).sum() / (2 * n)), float((r * scaled.y).sum() / n)
        size = square + float(np.abs(r * scaled.y).sum() / n)
        log_z = self.log_partition_of(partition)
        value = _square_unit(-square - cross, scaled.exponent) - log_z / self.beta
        rounding = 8 * _EPS * (_square_unit(size, scaled.exponent) + abs(log_z) / self.beta)
        return value, rounding + partition.log_error / self.beta

    def log_partition_of(self, partition: Partition) -> float:
        """`log Z`, in the user's units of `a` and `v`."""
        scaled = self.scaled
        count = self.dimension + self.n_outputs
        own = scaled.log_partition(partition.log_total, self.n_outputs)
        return own + count / 2 * math.log(2) * (scaled.exponent - scaled.row_exponent)


_NO_DECAY = (
    "without weight decay (`lam` = 0) the stationary density cannot be normalised: nothing holds large weights back. "
    "Take `lam` > 0."
)
_NO_TEMPERATURE = "the limit `beta` -> infinity is another problem, `ConvexReluNet(X, y, lam=...)`."


def _constant(value, name, more) -> float:
    array, _ = to_float64(value, name)
    if array.size != 1:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    number = float(array.reshape(()))
    if number == np.inf and name == "beta":
        raise ValueError(f"`beta` must be finite; {more}")
    if number == 0 and name == "lam":
        raise ValueError(f"`lam` must be positive: {more}")
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"`{name}` must be positive and finite; got {number}.")
    return number


def _ldexp(value: float, exponent: int) -> float:
    """`value * 2^exponent`, infinite or zero where that leaves the range, without a warning."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(value, exponent))


def _square_unit(value: float, exponent: int) -> float:
    """`value` in units of the square of the targets' scale."""
    return _ldexp(_ldexp(value, exponent), exponent)
