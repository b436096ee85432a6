"""Neurons that are nearly redundant: exact ranks against floats, and how fast the smallest singular value falls.

Two rows w and w + e v of one layer, e = 2^-k, exact in doubles. For every e > 0 the net is no subnetwork and its rank
is the generic one; the singular value that says so vanishes with e.

**The exponent** (derived here), two rows in two variables, r >= 3: scaled to length one the tangent is spanned by f(t),
f'(t) at the two angles t = 0 and e of a smooth curve f in the space of forms, and f, f', f'', f''' are independent. The
combination `f(e) - f(0) - e (f'(0) + f'(e)) / 2` is of order e^3 f''', and no unit combination is smaller in order: the
smallest of the four singular values falls like e^3. In degree 2 there are three dimensions, and the third singular
value, of `f'(e) - f'(0)`, falls like e.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...models.monomial import MonomialNetwork
from ...models.subnetworks import subnetwork_distance
from ...rigorous.jacobian_rank import FloatRank, float_rank, generic_rank, jacobian_rank
from ._monomial_widths import text_of

EXPONENT = 3.0
TOLERANCE = 0.05
"""Of a measured exponent, between neighbouring whole ones."""
MARGIN = 1e3
"""A singular value is used where it is so many times its rounding error: its logarithm is then known to 1e-3."""

Weights = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """One family of nets over the separation: exact bounds, what floats say, the smallest singular value that counts.

    `singular`: the singular value whose number is the generic rank, of the Jacobian at random points with columns of
    length one, over the largest; `rounding`: what rounding may do to it. `float_singular`, `float_error`: the same of
    the Jacobian that floats decide by, scaled otherwise, with its certified error, which is another for each net; NaN
    where underflow has left fewer values.
    """

    label: str
    widths: tuple[int, ...]
    degree: int
    generic: int
    separation: Float[np.ndarray, " e"]
    distance: Float[np.ndarray, " e"]
    lower: np.ndarray
    upper: np.ndarray
    float_lower: np.ndarray
    float_decided: np.ndarray
    singular: Float[np.ndarray, " e"]
    rounding: float
    float_singular: Float[np.ndarray, " e"]
    float_error: Float[np.ndarray, " e"]


def shallow_pair(e: float) -> Weights:
    """Widths (2, 2, 1)."""
    return np.array([[2.0, 1.0], [2.0 - e, 1.0 + 3 * e]]), np.array([[1.0, 1.0]])


def first_layer_pair(e: float) -> Weights:
    """Widths (2, 2, 2, 1), the rows of layer 1 nearly proportional."""
    return shallow_pair(e)[0], np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[1.0, 1.0]])


def second_layer_pair(e: float) -> Weights:
    """Widths (2, 2, 2, 1), the rows of layer 2 nearly proportional."""
    return np.array([[1.0, 2.0], [3.0, -1.0]]), shallow_pair(e)[0], np.array([[1.0, 1.0]])


def sweep(make: Callable[[float], Weights], degree: int, exponents: Sequence[int], *, label: str, seed: int) -> Sweep:
    """The family at separations 2^-k, k in `exponents`."""
    e = np.ldexp(1.0, [-k for k in exponents])
    nets = [make(float(x)) for x in e]
    shapes = [W.shape for W in nets[0]]
    widths = (shapes[0][1], *(s[0] for s in shapes))
    generic = generic_rank(widths, degree, seed=seed).rank
    exact = [jacobian_rank(weights, degree) for weights in nets]
    floats = [float_rank(weights, degree) for weights in nets]
    net = MonomialNetwork(widths, degree)
    X = np.random.default_rng([seed, 2]).standard_normal((4 * net.n_parameters, widths[0]))
    singular = [_relative(net.jacobian(weights, X), generic) for weights in nets]
    return Sweep(
        label=label,
        widths=widths,
        degree=degree,
        generic=generic,
        separation=e,
        distance=np.array([subnetwork_distance(weights, degree).distance for weights in nets]),
        lower=np.array([x.lower for x in exact]),
        upper=np.array([x.upper for x in exact]),
        float_lower=np.array([x.lower for x in floats]),
        float_decided=np.array([x.decided for x in floats]),
        singular=np.array(singular),
        # Entries of J carry some r^(L-1) roundings each, and the decomposition's own error is of the size of J's norm.
        rounding=float(np.finfo(float).eps) * (net.output_degree + net.n_parameters),
        float_singular=np.array([_of_floats(x, generic)[0] for x in floats]),
        float_error=np.array([_of_floats(x, generic)[1] for x in floats]),
    )


def _of_floats(found: FloatRank, k: int) -> tuple[float, float]:
    """Singular value number k and its error, over the largest."""
    s = found.singular_values
    if len(s) < k or not s[0] > 0:
        return math.nan, math.nan
    return abs(float(s[k - 1] / s[0])), found.error / float(s[0])


def _relative(J: np.ndarray, k: int) -> float:
    s = np.linalg.svd(J / np.linalg.norm(J, axis=0), compute_uv=False)
    return float(s[k - 1] / s[0])


def near_redundant(found: Sweep, *, by: str = "exact") -> Verdict:
    """At every separation above zero the rank is the generic one: decided in exact arithmetic, or (`by="float"`) not.

    Floats may leave a rank open; that they never claim more than the exact rank is part of the claim.
    """
    if by == "exact":
        lower, upper = found.lower, found.upper
    else:
        lower = found.float_lower
        upper = np.where(found.float_decided, found.float_lower, found.generic)
    open_ = (lower < found.generic) & (found.generic <= upper)
    against = upper < found.generic
    reason = None
    if open_.any() and not against.any():
        reason = (
            f"the rank is not decided at {int(open_.sum())} of {len(open_)} separations, the largest of them "
            f"{found.separation[open_].max():.1e}; exact arithmetic decides them"
        )
    return Verdict(
        claim="near-redundant",
        parametrisation=found.label,
        loss="none",
        kind=Kind.COUNT,
        measured=float(against.sum()),
        bound=0.0,
        slack=0.0,
        unit="separations at which the rank is below the generic one",
        conditions=(
            Assumption(
                name="floats claim no more than the exact rank", holds=bool((found.float_lower <= found.upper).all())
            ),
        ),
        undecided=reason,
        details={
            "by": by,
            "widths": text_of(found.widths),
            "degree": found.degree,
            "generic": found.generic,
            "separations": len(found.separation),
            "smallest_separation": float(found.separation.min()),
            "floats_undecided": int((~found.float_decided).sum()),
            "largest_undecided_by_floats": (
                float(found.separation[~found.float_decided].max()) if not found.float_decided.all() else None
            ),
        },
    )


def conditioning(found: Sweep, *, exponent: float = EXPONENT) -> Verdict:
    """The exponent of the singular value in the separation, between the two smallest that floats resolve.

    Its change from the pair before is the slack (what is left of higher order), with the rounding of both.
    """
    slope, slack = measured_exponent(found)
    return Verdict(
        claim="conditioning",
        parametrisation=found.label,
        loss="none",
        kind=Kind.EQUALITY,
        measured=abs(slope - exponent),
        bound=TOLERANCE,
        slack=slack,
        unit="exponent of the smallest singular value in the separation, from its prediction",
        assumptions=(
            Assumption(name="two rows in two variables, one hidden layer", holds=found.widths == (2, 2, 1)),
            Assumption(name="degree at least 3", holds=found.degree >= 3, measured=float(found.degree)),
        ),
        undecided=None if math.isfinite(slope) else "fewer than three separations are resolved by floats",
        details={"exponent": slope, "predicted": exponent, "degree": found.degree},
    )


def measured_exponent(found: Sweep) -> tuple[float, float]:
    """The slope of the last pair that floats resolve, and its error; NaN where there are too few."""
    order = np.argsort(-found.separation)
    e, s = found.separation[order], found.singular[order]
    seen = s > MARGIN * found.rounding
    n = int(np.argmin(seen)) if not seen.all() else len(seen)  # those before the first that is not resolved
    if n < 3:
        return math.nan, 0.0
    slopes = np.diff(np.log(s[:n])) / np.diff(np.log(e[:n]))
    rounding = 2 * found.rounding / s[n - 1] / abs(math.log(e[n - 1] / e[n - 2]))
    return float(slopes[-1]), float(abs(slopes[-1] - slopes[-2]) + rounding)
