"""Claims of `width_collapse` on the stationary measures and their limit at zero temperature. No particles in them.

How mass concentrates (derived here). Near a learned direction, in the relative interior of a face whose span has
dimension L of D, `lam - |R|` is `lam delta` plus terms linear in D - L coordinates and quadratic in L - 1. With
`|E[as|u]| p(u)` in proportion to `(lam^2 - R^2)^{-D/2-1}`, a peak weighs `delta^{(D-L-3)/2}`, and the density's
integral Z `delta^{(D-L-1)/2}`: as masses stay finite, `delta ~ 1/beta` for L = D, `1/(beta log beta)` for
L = D - 1. What is not near any peak is of order `1/(beta Z)`: it falls like `beta^-1` at least, `beta^-3/2` with a
direction inside of a cell. For D - L = 3 delta falls exponentially; for D - L > 3 the peak's weight stays bounded as
delta vanishes, and there may be no stationary density at all: mass would leave to infinity. That takes D >= 5.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ._collapse_instance import Instance, values_of

FALL = -0.9
"""Exponent in beta that is asked of the mass away from the learned directions; the law's is -1 at most, with logarithms
that beta of 10^5 or 10^6 has not outgrown."""

PREDICTOR_FALL = -0.4
"""Exponent in beta that is asked of the predictor's distance to its limit. Directions spread by the root of delta,
about beta^(-1/2), and the kinks of the predictor with them."""

CLOSED = 1e-8
"""A relative gap that counts as none. Masses are known to its root."""

SHARE_SEEN = 0.99
"""Share of |E[as]| within the window that the largest beta must reach."""


def unique_measure(instance: Instance, beta: float, solutions: Sequence[Any], curvature: tuple[float, int]) -> Verdict:
    """One residual from every start of Newton's method, within what their certificates allow."""
    certificates = [s.certificate for s in solutions]
    first = certificates[0]
    ratios = [
        _over(float(np.linalg.norm(c.residual - first.residual)), c.distance + first.distance) for c in certificates[1:]
    ]
    largest, n_points = curvature
    return verdict(
        instance,
        "unique-measure",
        Kind.INVARIANT,
        measured=max(ratios, default=math.nan),
        bound=1.0,
        slack=0.0,
        unit="of the certified distance",
        conditions=(
            Assumption(
                name=f"the dual's Hessian is at most -1/n at {n_points} residuals",
                # One part in 1e9: rounding of the Hessian's entries, each a mean of products.
                holds=None if math.isnan(largest) else largest * instance.n <= -1 + 1e-9,
                measured=largest * instance.n,
            ),
            Assumption(
                name=f"every start is certified to within {CLOSED:g} |y|",
                holds=all(c.distance <= CLOSED * np.linalg.norm(instance.y) for c in certificates) or None,
                measured=max(c.distance for c in certificates),
            ),
        ),
        details={
            "beta": beta,
            "starts": len(solutions),
            "certified distances": [c.distance for c in certificates],
            "method": first.method,
            "largest eigenvalue of the Hessian, over 1/n": largest * instance.n,
        },
    )


def concentration(instance: Instance, betas: Sequence[float], shares: Sequence[Any], window: float) -> Verdict:
    """The share of |E[as]| away from the learned directions falls with beta, and leaves one percent at most."""
    away = 1 - np.array([share.mass for share in shares])
    errors = np.array([share.mass_error for share in shares])
    exponent = _last_exponent(betas, away)
    grows = bool((np.diff(away) < 0).all())
    return verdict(
        instance,
        "concentration",
        Kind.RATE,
        measured=exponent,
        bound=FALL,
        slack=_exponent_error(betas, away, errors),
        unit="exponent of beta, last decade",
        conditions=(
            Assumption(name="the share near the directions grows with beta", holds=grows),
            Assumption(
                name=f"it is at least {SHARE_SEEN:g} at the largest beta",
                holds=bool((away[-1:] <= 1 - SHARE_SEEN).all()),
                measured=float(1 - away[-1]) if len(away) else None,
            ),
        ),
        assumptions=(unique_limit(instance),),
        undecided=_too_few(betas) or not_unique(instance),
        details={
            "window, radians": window,
            "share of |E[as]| in the window": dict(zip(map(name_of, betas), (1 - away).tolist(), strict=True)),
            "share of neurons in the window": {
                name_of(beta): share.probability for beta, share in zip(betas, shares, strict=True)
            },
        },
    )


def direction_count(instance: Instance, certificate: Any) -> Verdict:
    """The optimum at zero temperature uses at most 2P - 1 directions."""
    return verdict(
        instance,
        "direction-count",
        Kind.COUNT,
        measured=float(len(certificate.directions)),
        bound=float(2 * instance.n_dichotomies - 1),
        slack=0.0,
        unit="directions",
        conditions=(
            closed(certificate),
            Assumption(
                name="|R| = lam at each, to 1e-9",
                holds=bool(np.all(np.abs(np.asarray(certificate.alignment) - 1) <= 1e-9)),
                measured=float(np.max(np.abs(np.asarray(certificate.alignment) - 1), initial=0.0)),
            ),
        ),
        assumptions=(scalar(instance), unique_limit(instance)),
        details={"P": instance.n_dichotomies, **_net(certificate)},
    )


def ternary_patterns(instance: Instance, certificate: Any) -> Verdict:
    """No two directions of the optimum have the same ternary pattern."""
    patterns = np.asarray(certificate.patterns)
    shared = len(patterns) - len(np.unique(patterns, axis=0))
    return verdict(
        instance,
        "ternary-patterns",
        Kind.COUNT,
        measured=float(shared),
        bound=0.0,
        slack=0.0,
        unit="directions whose pattern another has",
        conditions=(closed(certificate),),
        assumptions=(scalar(instance), unique_limit(instance)),
        details={"patterns": patterns.tolist(), **_net(certificate)},
    )


def predictor_limit(
    instance: Instance,
    betas: Sequence[float],
    predictors: Sequence[Float[np.ndarray, " k *m"]],
    limit: Float[np.ndarray, " k *m"],
) -> Verdict:
    """The largest distance of the predictor to its limit over a box falls with beta."""
    largest = float(values_of(limit).max())
    distances = np.array([float(values_of(f - limit).max()) for f in predictors]) / largest
    return verdict(
        instance,
        "predictor-limit",
        Kind.RATE,
        measured=_last_exponent(betas, distances),
        bound=PREDICTOR_FALL,
        slack=0.0,
        unit="exponent of beta, last decade",
        conditions=(
            Assumption(name="it falls from each beta to the next", holds=bool((np.diff(distances) < 0).all())),
        ),
        assumptions=(unique_limit(instance),),
        undecided=_too_few(betas) or not_unique(instance),
        details={
            "largest distance over the largest output": dict(zip(map(name_of, betas), distances.tolist(), strict=True)),
            "points of the box": len(limit),
        },
    )


def closed(certificate: Any) -> Assumption:
    """Whether the net is the optimum."""
    return Assumption(
        name=f"the bounds on the least objective agree to {CLOSED:g}",
        holds=bool(certificate.gap <= CLOSED),
        measured=float(certificate.gap),
    )


def unique_limit(instance: Instance) -> Assumption:
    """Whether the optimum at zero temperature is the only one."""
    certificate = instance.cold.certificate
    return Assumption(
        name="no other measure is optimal at zero temperature",
        holds=certificate.unique,
        measured=certificate.uniqueness,
    )


def not_unique(instance: Instance) -> str | None:
    """Why nothing can be compared with the limit's directions or predictor: they are perhaps one choice of many."""
    certificate = instance.cold.certificate
    if certificate.unique is True:
        return None
    return (
        "the limit is not known to be unique, so that its directions and predictor may be one choice of many: "
        f"{certificate.uniqueness}."
    )


def scalar(instance: Instance) -> Assumption:
    """What the proof of the bound and of the patterns takes; whether the authors' own does is not known here."""
    return Assumption(
        name="one output, as the proof derived here needs",
        holds=True if instance.outputs == 1 else None,
        measured=float(instance.outputs),
    )


def verdict(
    instance: Instance,
    claim: str,
    kind: Kind,
    *,
    measured: float,
    bound: float,
    slack: float,
    unit: str,
    of: str = "",
    **more: Any,
) -> Verdict:
    """A verdict with what all of an instance share; `of`: what was judged, where it is not the limit itself."""
    return Verdict(
        claim=claim,
        parametrisation=instance.label + (f", {of}" if of else ""),
        loss="squared",
        kind=kind,
        measured=measured,
        bound=bound,
        slack=0.0 if math.isnan(slack) else slack,
        unit=unit,
        **more,
    )


def name_of(beta: float) -> str:
    """`1e4`, `200`."""
    text = f"{beta:.0e}".replace("e+0", "e").replace("e+", "e")
    return text if float(text) == beta and beta >= 1000 else f"{beta:g}"


def _net(certificate: Any) -> dict[str, Any]:
    return {
        "directions": np.asarray(certificate.directions).tolist(),
        "masses": np.asarray(certificate.masses).tolist(),
        "gap": float(certificate.gap),
        "largest |R| over lam": float(certificate.largest),
    }


def _last_exponent(betas: Sequence[float], values: Float[np.ndarray, " B"]) -> float:
    """Of `values` in beta, between the largest beta and the nearest that is a decade below it."""
    last, before = len(betas) - 1, _decade_before(betas)
    if before is None or not (values[last] > 0 and values[before] > 0):
        return math.nan
    return math.log(values[last] / values[before]) / math.log(betas[last] / betas[before])


def _exponent_error(betas: Sequence[float], values: Float[np.ndarray, " B"], errors: Float[np.ndarray, " B"]) -> float:
    """Error of `_last_exponent`, to first order."""
    last, before = len(betas) - 1, _decade_before(betas)
    if before is None or not (values[last] > 0 and values[before] > 0):
        return 0.0
    relative = errors[last] / values[last] + errors[before] / values[before]
    return float(relative / math.log(betas[last] / betas[before]))


def _decade_before(betas: Sequence[float]) -> int | None:
    return max((k for k in range(len(betas) - 1) if betas[k] <= betas[-1] / 9.99), default=None)


def _too_few(betas: Sequence[float]) -> str | None:
    if len(betas) > 1 and betas[-1] >= 9.99 * betas[0]:
        return None
    if len(betas) < 2:
        return "fewer than two measures were found, see the notes."
    return f"the inverse temperatures {betas[0]:g} to {betas[-1]:g} do not span a decade; give more (`--betas`)."


def _over(distance: float, allowed: float) -> float:
    return distance / allowed if allowed > 0 else 0.0 if distance == 0 else math.inf
