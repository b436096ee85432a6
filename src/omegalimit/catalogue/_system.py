"""What a system of the catalogue is: a frozen dataclass whose fields are its options, with `check` and `counters`."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .. import _html
from ..claims import Outcome, Verdict

if TYPE_CHECKING:  # listing the catalogue must not pay for xarray
    import xarray as xr

Progress = Callable[[str, float], None]
"""`progress(text, fraction)`: what is being done, and the share of the work that is behind, in [0, 1]."""


def silent(text: str, fraction: float) -> None:
    """A `Progress` that shows nothing."""
    del text, fraction


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """What a check found.

    - `verdicts`: one per claim and parametrisation.
    - `not_applicable`: claims that the data or the options rule out, with the reason.
    - `settings`: every setting that the run used, defaults filled in; JSON-ready.
    - `arrays`: labelled arrays by group (`"kq/trajectory"`, ...), NumPy inside, for the record and the figures.
    - `notes`: sentences that the reader must see (what was converted, ties, what did not arrive).
    """

    verdicts: tuple[Verdict, ...]
    not_applicable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: "Mapping[str, xr.Dataset]" = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return _html.verdicts(self.verdicts) + _html.beside(self.notes, self.not_applicable)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counter:
    """A variant in which one assumption is broken on purpose.

    - `text`: what is broken, in one sentence.
    - `expected`: the claims that must then fail or be inconclusive, each a pair `(claim, parametrisation)`.
    - `check`: runs the variant.
    """

    text: str
    expected: tuple[tuple[str, str], ...]
    check: Callable[[Progress], Findings]

    def as_expected(self, findings: Findings) -> bool:
        """True when each expected claim was judged and none of its verdicts holds."""
        for claim, parametrisation in self.expected:
            judged = [v for v in findings.verdicts if v.claim == claim and v.parametrisation == parametrisation]
            if not judged or any(v.outcome is Outcome.HOLDS for v in judged):
                return False
        return True


class AbstractSystem(abc.ABC):
    """One file, one paper: fields with defaults are the options, `check` judges every claim, `counters` break one
    assumption each.

    Concrete systems are frozen dataclasses. `title` is one line; the class docstring is the system's page.
    """

    title: ClassVar[str]

    @abc.abstractmethod
    def check(self, progress: Progress = silent) -> Findings:
        """Make the problem, run the flow, solve the limit, judge every claim."""

    @property
    @abc.abstractmethod
    def counters(self) -> Mapping[str, Counter]:
        """The counter-instances by name."""
