"""Claims and their verdicts: one sentence of a theorem, what was measured, and whether it holds.

A verdict compares *measured ± slack* with *bound*. When the interval straddles the bound the verdict is
inconclusive. Assumptions never change an outcome: they stand beside it.
"""

import dataclasses
import enum
import math
from typing import Any

from . import _html


class Outcome(enum.StrEnum):
    """What a verdict says."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"


class Kind(enum.StrEnum):
    """What sort of statement a claim is. `LOWER` asks for *measured >= bound*, the others for *measured <= bound*."""

    EQUALITY = "equality"
    UPPER = "upper bound"
    LOWER = "lower bound"
    RATE = "rate"
    INVARIANT = "invariant"
    COUNT = "count"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumption:
    """A condition of the theorem, as found in this run.

    - `name`: the condition in the field's words.
    - `holds`: true, false, or `None` when it could not be decided.
    - `measured`: the number (or short text) on which `holds` rests.
    """

    name: str
    holds: bool | None
    measured: float | str | None = None

    def __post_init__(self) -> None:
        # A NumPy boolean is neither `True` nor `False` by identity: left as it is, a false condition would pass unseen.
        if self.holds is not None:
            object.__setattr__(self, "holds", bool(self.holds))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim, judged.

    - `claim`: the claim's name, `parametrisation` and `loss`: what it was judged on.
    - `kind`: see `Kind`; `unit`: what `measured`, `bound` and `slack` count.
    - `conditions`: further parts of the claim itself that are yes-or-no (the same tokens at both caps, ...).
      A condition that is false makes the claim fail; one that is `None` leaves it inconclusive.
    - `undecided`: a reason for which the numbers cannot decide (a vacuous bound, a run that did not arrive);
      when given, the outcome is inconclusive.
    - `assumptions`: the theorem's conditions. They never change the outcome.
    - `details`: anything else, JSON-ready: both caps, the tokens, the cost.
    """

    claim: str
    parametrisation: str
    loss: str
    kind: Kind
    measured: float
    bound: float
    slack: float
    unit: str
    assumptions: tuple[Assumption, ...] = ()
    conditions: tuple[Assumption, ...] = ()
    undecided: str | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.slack >= 0:
            raise ValueError(f"`slack` must be a number >= 0; got {self.slack!r} for the claim {self.claim!r}.")

    @property
    def outcome(self) -> Outcome:
        """Holds, fails, or inconclusive, by the rule at the head of this page."""
        if self.undecided is not None:
            return Outcome.INCONCLUSIVE
        if any(c.holds is False for c in self.conditions):
            return Outcome.FAILS
        if not all(map(math.isfinite, (self.measured, self.bound, self.slack))):
            return Outcome.INCONCLUSIVE
        excess = self.bound - self.measured if self.kind is Kind.LOWER else self.measured - self.bound
        if excess - self.slack > 0:
            return Outcome.FAILS
        if excess + self.slack > 0 or any(c.holds is None for c in self.conditions):
            return Outcome.INCONCLUSIVE
        return Outcome.HOLDS

    @property
    def outside_theorem(self) -> bool:
        """True when an assumption of the theorem does not hold."""
        return any(a.holds is False for a in self.assumptions)

    def _repr_html_(self) -> str:
        return _html.verdicts([self])
