"""The claim `tie-entropy` of `diagonal_networks`: which point of a face of least interpolants `u^2 - v^2` selects.

Where the least l1 norm is not unique, the theorem says no more. The potential of the start `s (u0, v0)` is, divided by
its leading order, the l1 norm plus `1 / h` times the entropy `sum |k| log(|k| / w) - |k|` with `w = u0^2` for positive
and `v0^2` for negative weights: its minimiser on the face is the limit. Derived here.
"""

import math

import numpy as np

from ...claims import Kind, Verdict
from ...limits import entropy_on_face
from ...models import PowerDifference
from ...solvers import solve
from ._diagonal_claims import FLOOR
from ._diagonal_experiment import Experiment


def has_ties(e: Experiment) -> bool:
    """True for `u^2 - v^2` on data whose least l1 norm is not unique, where the set of optima is known."""
    face = e.prediction.face
    return e.network.neurons == PowerDifference(2) and face is not None and face.unique is False


def tie_entropy(e: Experiment, *, shape: np.ndarray | None = None) -> Verdict:
    """The distance of the flow's end to the point of least entropy on the face, over the largest weight: at most 1/h.

    `shape`: another start's, for a counter-instance.
    """
    p = e.prediction
    squares = (e.network.shape if shape is None else shape) ** 2
    undecided, measured, selected, slack, spread = e.undecided, math.nan, None, 0.0, math.nan
    try:
        face = entropy_on_face(p.limit, p.solution.certificate, w_plus=squares[:, 0], w_minus=squares[:, 1])
    except ValueError as error:  # the set of optima is not known, or a start is zero
        undecided = undecided or str(error)
    else:
        found = solve(face.limit, tol=1e-12)
        selected = face.lift(found.certificate.point)
        size = float(np.abs(selected).max())
        measured = float(np.abs(e.limit - selected).max()) / size
        # Entropy is strongly convex on the face: a gap is at least |x - x*|^2 / (2 max x).
        slack = math.sqrt(2 * max(found.certificate.gap, 0.0) + 2 * found.certificate.relative_slack)
        if found.status != "optimal":
            undecided = undecided or f"the least entropy on the face is not solved: {found.reason}"
        if p.face is not None and p.face.lowest is not None and p.face.highest is not None:
            spread = float((p.face.highest - p.face.lowest).max()) / size
    bound = 1 / e.h + FLOOR
    if undecided is None and measured <= bound and spread <= 2 * bound:
        undecided = f"every point of the face would pass: its width is {spread:.2g} of the largest weight."
    return Verdict(
        claim="tie-entropy",
        parametrisation=e.label,
        loss="squared",
        kind=Kind.RATE,
        measured=measured,
        bound=bound,
        slack=slack,
        unit="distance / weight",
        undecided=undecided,
        assumptions=e.assumptions,
        details={"limit": e.limit, "selected": selected, "width_of_the_face": spread},
    )
