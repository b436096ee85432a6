"""The rank of shallow nets in two variables, `min(2h, r + 1)`: the formula of the limits against exact ranks.

The formula (`limits/shallow_rank.py`) and the ranks (`rigorous/jacobian_rank.py`) share no code.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...limits.shallow_rank import shallow_rank
from ...models.subnetworks import subnetwork_kinds
from ...rigorous.jacobian_rank import JacobianRank, jacobian_rank
from ._monomial_architecture import plain_weights

Formula = Callable[[np.ndarray, int], int]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One net with its exact rank and what the formula says."""

    rows: np.ndarray
    degree: int
    exact: JacobianRank
    formula: int


def shallow_rows(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """n whole-numbered rows with small entries, pairwise not proportional, none zero."""
    while True:
        rows = rng.integers(-9, 10, size=(n, d))
        if not subnetwork_kinds((rows, np.ones((1, n), dtype=int))):
            return rows


def shallow_cases(
    neurons: Sequence[int],
    degrees: Sequence[int],
    *,
    seed: int,
    d: int = 2,
    draw: Callable[[int, int, np.random.Generator], np.ndarray] = shallow_rows,
    formula: Formula = shallow_rank,
) -> list[Case]:
    """A draw for each number of neurons and each degree, with outgoing weights that are not zero."""
    rng, found = np.random.default_rng([seed, 1]), []
    for h in neurons:
        for r in degrees:
            rows = draw(h, d, rng)
            outgoing = rng.integers(1, 10, size=(1, h))
            found.append(Case(rows=rows, degree=r, exact=jacobian_rank((rows, outgoing), r), formula=formula(rows, r)))
    return found


def shallow_rank_verdict(cases: Sequence[Case], label: str) -> Verdict:
    """Exact rank against the formula, in every case."""
    against = [c for c in cases if not c.exact.lower <= c.formula <= c.exact.upper]
    open_ = [c for c in cases if c.exact.lower < c.exact.upper and c not in against]
    apart = all(not subnetwork_kinds((c.rows, np.ones((1, len(c.rows)), dtype=int))) for c in cases)
    return Verdict(
        claim="shallow-rank",
        parametrisation=label,
        loss="none",
        kind=Kind.COUNT,
        measured=float(len(against)),
        bound=0.0,
        slack=0.0,
        unit="ranks that differ from the formula",
        assumptions=(
            Assumption(name="two inputs", holds=all(c.rows.shape[1] == 2 for c in cases)),
            Assumption(name="rows pairwise not proportional", holds=apart),
        ),
        undecided=f"{len(open_)} ranks are not proved" if open_ and not against else None,
        details={
            "cases": len(cases),
            "neurons": sorted({len(c.rows) for c in cases}),
            "degrees": sorted({c.degree for c in cases}),
            "against": [
                {
                    "rows": plain_weights([c.rows])[0],
                    "degree": c.degree,
                    "formula": c.formula,
                    "rank": [c.exact.lower, c.exact.upper],
                }
                for c in against[:6]
            ],
        },
    )
