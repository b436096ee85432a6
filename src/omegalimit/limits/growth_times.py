"""Growth times of diagonal networks: how long a coefficient that starts near zero takes to become of size one.

A diagonal network `k_i = k_i(theta_i)`, started at `s theta*` with `s -> 0`, stays at zero until

    int u_i dt = t_i+ h(s)    (it becomes positive)    or    int u_i dt = -t_i- h(s)    (negative),    u = X'(y - Xk).

**Two layers.** `h(s) = log(1/s)`, `t+ = 1/lambda_max`, `t- = -1/lambda_min` with the extreme eigenvalues of the Hessian
of `k_i` at zero (stated by the authors, arXiv 2607.12332, for a shape that is orthogonal to neither extreme
eigenvector). They do not depend on the initial shape. Derived here, outside the theorem: of a quadratic `k_i` a part
that is zero stays zero, so that a shape without the one or the other eigenvector never takes that sign: `t = inf`.

**L >= 3 layers**, `k_i = prod_l a_il`. `h(s) = s^-(L-2)`. With `c` the entry of the shape that is smallest in size and
`mu_j^2 = a_j^2 - c^2` for the others, the authors state `t+ = F(inf)` and `t- = -F(-inf)` for

    F(z) = int_c^z prod_j (x^2 + mu_j^2)^(-1/2) dx.

Derived here: where the product of the other entries is negative, `c` is to be replaced by `-c`. With `t = x^2 - c^2`

    G(a) = 1/2 int_0^inf prod_l (t + a_l^2)^(-1/2) dt,    F(inf) = G(a),    -F(-inf) = 2 G(0, mu) - G(a)   for c >= 0,

the two exchanged for `c < 0`: a symmetric function of the squares, for `L = 3` Carlson's integral `R_F`.

Derived here, outside the authors' theorem, which wants a single smallest entry: where the smallest size is shared by
two or more entries, they stay equal in size, none crosses zero, and the coefficient keeps its sign: the time of the
other sign is infinite. For a balanced shape, all sizes `c`, the finite one is `1/((L-2) c^(L-2))`. With two zeros the
coefficient never leaves zero.

All times are those of the loss `1/2 |Xk - y|^2`; the authors' `|Xk - y|^2` is twice as fast and halves every instant at
which something happens (not these numbers).
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from .._checks import check_finite, check_ndim, shape_text, to_float64

# The integrand of G in w = log t is analytic in a strip of half-width pi: the trapezoidal rule errs by
# exp(-2 pi^2 / h), 7e-18 for h = 1/2. It falls at least like exp(-|w|/2) on both sides; exp(-80/2) is below rounding.
_STEP, _TAIL = 0.5, 80.0
_CHUNK = 2**21  # numbers held at once


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GrowthTimes:
    """Growth times of every coefficient, for the loss `1/2 |Xk - y|^2`.

    - `t_plus`, `t_minus`: shape `(d,)`, positive; `inf` where the coefficient never takes that sign.
    - `error`: relative error of the finite ones: the quadrature's own difference between two grids, and rounding.
    - `outside`: shape `(d,)`; true where the shape is outside the authors' theorem (orthogonal to an extreme
      eigenvector; deep: smallest size shared, two zeros).
    - `scale`: how the clock depends on the size `s` of the start, in words: `"log(1/s)"` or `"s^-(L-2)"`.
    """

    t_plus: Float[np.ndarray, " d"]
    t_minus: Float[np.ndarray, " d"]
    error: float
    outside: Bool[np.ndarray, " d"]
    scale: str

    @property
    def note(self) -> str | None:
        """What is outside the theorem, in words, or `None`."""
        where = np.flatnonzero(self.outside)
        if not len(where):
            return None
        shown = ", ".join(map(str, where[:5])) + (", ..." if len(where) > 5 else "")
        if self.scale == "log(1/s)":
            return (
                f"{len(where)} of {len(self.outside)} features (index {shown}) start orthogonal to an extreme "
                "eigenvector: outside the theorem; that sign cannot be reached."
            )
        return (
            f"{len(where)} of {len(self.outside)} features (index {shown}) have no single smallest entry in their "
            "shape: outside the theorem; one sign, or both, cannot be reached."
        )


def two_layer_growth_times(
    least: ArrayLike, largest: ArrayLike, *, no_plus: ArrayLike = False, no_minus: ArrayLike = False
) -> GrowthTimes:
    """`t+ = 1/largest`, `t- = -1/least`: the extreme Hessian eigenvalues of every `k_i` at zero, shape `(d,)` each.

    `u^2 - v^2` has `-2` and `2`, so one half each. `no_plus`, `no_minus`: where a quadratic `k_i` starts orthogonal to
    the eigenvector of the largest, or the least, and that time is infinite; true or false, one or `(d,)`. Raises
    `ValueError` unless `least < 0 < largest`.
    """
    low, high = (_vector(value, name) for value, name in ((least, "least"), (largest, "largest")))
    if low.shape != high.shape:
        raise ValueError(
            f"`least` and `largest` must have one entry per feature each; got shapes {shape_text(low.shape)} and "
            f"{shape_text(high.shape)}."
        )
    for array, name, good in ((low, "least", low < 0), (high, "largest", high > 0)):
        if not good.all():
            i = int(np.flatnonzero(~good)[0])
            wanted = "negative" if name == "least" else "positive"
            raise ValueError(
                f"`{name}[{i}]` is {array[i]:g}; the {name} eigenvalue of the Hessian at zero must be {wanted}: "
                "without it the coefficient cannot leave zero in that direction."
            )
    with np.errstate(over="ignore"):
        t_plus, t_minus = 1 / high, -1 / low
    never = []
    for value, name in ((no_plus, "no_plus"), (no_minus, "no_minus")):
        mask = np.asarray(value)
        if mask.dtype != bool or mask.shape not in ((), low.shape):
            raise ValueError(
                f"`{name}` must be true or false, one or {shape_text(low.shape)}; got {mask.dtype} of shape "
                f"{shape_text(mask.shape)}."
            )
        never.append(np.broadcast_to(mask, low.shape))
    _check_double(t_plus, t_minus, np.zeros(len(low), bool), np.zeros(len(low), bool))
    t_plus, t_minus = np.where(never[0], np.inf, t_plus), np.where(never[1], np.inf, t_minus)
    eps = float(np.finfo(float).eps)
    outside = never[0] | never[1]
    return GrowthTimes(t_plus=t_plus, t_minus=t_minus, error=eps, outside=outside, scale="log(1/s)")


def deep_growth_times(shape: ArrayLike) -> GrowthTimes:
    """The growth times of `k_i = prod_l a_il` from the shape `a*` of the start, `(d, L)` with `L >= 3`.

    Entries may have any sign; one zero a feature is allowed (`t+ = t-` then). Raises `ValueError` for `L < 3` (two
    layers have `t = 1/|eigenvalue|`, whatever the shape) and for times that leave double precision.
    """
    a, _ = to_float64(shape, "shape")
    check_ndim(a, "shape", axes="d, L")
    check_finite(a, "shape")
    if a.shape[1] < 3 or not a.shape[0]:
        raise ValueError(
            f"`shape` must have shape (d, L) with L >= 3 and d >= 1; got {shape_text(a.shape)}. For two layers the "
            "growth times are 1/|extreme Hessian eigenvalue|: use two_layer_growth_times."
        )
    size = np.abs(a)
    order = np.argsort(size, axis=1, kind="stable")
    size = np.take_along_axis(size, order, axis=1)
    c, others = size[:, :1], size[:, 1:]
    n_smallest = (size == c).sum(axis=1)
    # sqrt((a - c)(a + c)) with each factor's root, so that neither overflows nor underflows.
    mu = np.sqrt(others - c) * np.sqrt(others + c)
    shared, stuck = n_smallest > 1, (c[:, 0] == 0) & (n_smallest > 1)
    near, error = np.full(len(a), np.inf), 0.0
    far = np.full(len(a), np.inf)
    near[~stuck], error = _carlson(size[~stuck])
    whole, error_whole = _carlson(np.hstack([np.zeros((len(a), 1)), mu])[~shared])
    with np.errstate(invalid="ignore"):  # both infinite: refused below
        far[~shared] = 2 * whole - near[~shared]  # near <= whole: the difference loses nothing
    negative = np.prod(np.sign(a), axis=1) < 0
    t_plus, t_minus = np.where(negative, far, near), np.where(negative, near, far)
    zero = (c[:, 0] == 0) & ~stuck
    # c = 0: the two are one integral.
    t_plus[zero] = t_minus[zero] = near[zero]
    _check_double(t_plus, t_minus, stuck | (shared & negative), stuck | (shared & ~negative))
    return GrowthTimes(
        t_plus=t_plus, t_minus=t_minus, error=max(error, 3 * error_whole), outside=shared, scale="s^-(L-2)"
    )


def _carlson(a: Float[np.ndarray, "m L"]) -> tuple[Float[np.ndarray, " m"], float]:
    """`G` of every row of sizes, at most one of them zero, and the largest relative error.

    Trapezoidal rule in `w = log t`, in logs throughout; two grids, one between the other.
    """
    found, error = np.zeros(len(a)), 0.0
    with np.errstate(divide="ignore"):
        b = 2 * np.log(a)
    at = 0
    while at < len(a):
        positive = np.where(np.isfinite(b[at:]), b[at:], np.nan)
        low, high = np.nanmin(positive, axis=1), np.nanmax(positive, axis=1)
        width = float(np.max(high - low)) + 2 * _TAIL
        rows = slice(at, at + max(1, int(_CHUNK * _STEP / (2 * width * a.shape[1]))))
        low, some = low[: rows.stop - at, None], b[rows, None, :]
        width = float(np.max(high[: rows.stop - at, None] - low)) + 2 * _TAIL
        w = low - _TAIL + np.arange(0.0, width + _STEP, _STEP / 2)
        logs = w - 0.5 * np.logaddexp(w[:, :, None], some).sum(axis=2)
        top = logs.max(axis=1, keepdims=True)
        even, odd = (np.exp(logs[:, i::2] - top).sum(axis=1) for i in (0, 1))
        difference = float(np.max(np.abs(even - odd) / (even + odd)))
        with np.errstate(over="ignore"):
            found[rows] = 0.5 * np.exp(top[:, 0] + np.log(_STEP * (even + odd) / 2))
        # log a and its sums are of this size; the exponential turns their rounding into a relative error.
        rounding = float(np.finfo(float).eps) * (2 + float(np.abs(top).max()) + float(np.abs(w).max()) / 8)
        error = max(error, difference + rounding)
        at = rows.stop
    return found, error


def _vector(value, name):
    array, _ = to_float64(value, name)
    check_ndim(array, name, axes="d")
    check_finite(array, name)
    if not len(array):
        raise ValueError(f"`{name}` is empty; it needs one entry per feature.")
    return array


def _check_double(t_plus, t_minus, no_plus, no_minus):
    """Raise `ValueError` when a time is infinite that is not meant to be, or zero."""
    for t, never in ((t_plus, no_plus), (t_minus, no_minus)):
        bad = ((t == 0) | ~np.isfinite(t)) & ~never
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"The growth times of feature {i} leave double precision; bring the initial shape, or the extreme "
                "eigenvalues, nearer to one."
            )
