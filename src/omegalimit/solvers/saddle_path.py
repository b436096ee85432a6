"""The saddle-to-saddle path, event by event: Algorithm 1 with all features on the boundary in one cone.

Between events `s = X'R` moves with the gradient `u = X'r`, `r = y - Xk`. An event is the first `s_i` to reach `t_i+` or
`-t_i-`; all that reach it together, to rounding, enter together. Then `k` is the least squares solution over the
features on the boundary, each with the sign of its side, by an active set that starts from the last one; a feature
whose coefficient ends at zero with a gradient that leads inside leaves. `r` is the part of `y` that is orthogonal to
the support, so that the gradient of the support stays zero relative to `r` however small it becomes.

Every threshold is a bound on rounding, relative to the sizes of what was added up. Columns are scaled by powers of two.
"""

import dataclasses
import time

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from .. import _html
from .._checks import check_count
from .._threads import on_one_blas_thread
from ..limits.saddle_path import Knots, PathCertificate, SaddlePath
from ._path_events import DONE, EVENT, NONE, STALLED, BoundaryPath, PathEvent
from ._path_screen import run

# A path whose conditions hold to less than this is not the path: its data are too nearly singular for double precision.
_RESOLVED = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PathSolution:
    """The path: plateau `p = 0 .. P` holds `k(p)` from `times[p]` to `times[p + 1]`; plateau 0 is zero.

    - `status`: `"interpolates"`: `Xk = y` to rounding at the end, at a least `R(k)`. `"unreachable"`: no further event,
      and no solution of `Xk = y` with the allowed signs: the last `k` is the nearest. `"event limit"`: `max_events`
      were made.
      `"stalled"`: rounding stopped or spoiled the path; how far it holds is in `certificate.kkt`.
    - `reason`: the status in words, with the number that decided it.
    - `knots`: durations, coefficients and `R`, as `limit.certify` takes them.
    - `events`: `events[p - 1]` is what happened at the start of plateau `p`, shape `(P,)`.
    - `unique`: shape `(P + 1,)`; false where the support has dependent idle features, so that only the set of
      minimisers is determined, of which `k(p)` is one with independent columns.
    - `certificate`: recomputed from the data by `limit.certify`.
    - `cpu_seconds`: process time of all threads, certificate included.
    """

    status: str
    reason: str
    limit: SaddlePath = dataclasses.field(repr=False)
    knots: Knots = dataclasses.field(repr=False)
    events: tuple[PathEvent, ...] = dataclasses.field(repr=False)
    unique: np.ndarray = dataclasses.field(repr=False)
    certificate: PathCertificate = dataclasses.field(repr=False)
    cpu_seconds: float

    @property
    def n_plateaus(self) -> int:
        """`P + 1`."""
        return len(self.knots.durations)

    @property
    def deltas(self) -> Float[np.ndarray, " P"]:
        """Time from one event to the next, shape `(P,)`: the durations of all plateaus but the last."""
        return self.knots.durations[:-1]

    @property
    def times(self) -> Float[np.ndarray, " P"]:
        """When each plateau begins, shape `(P + 1,)`; `times[0] = 0`."""
        return np.concatenate([[0.0], np.cumsum(self.deltas)])

    @property
    def tied(self) -> bool:
        """Some features came in together: outside the authors' theorem."""
        return any(event.tied for event in self.events)

    @property
    def order(self) -> list[tuple[int, int]]:
        """Feature and sign, in the order in which they come in; those of a tie by index."""
        return [
            (int(i), int(sign)) for event in self.events for i, sign in zip(event.entered, event.signs, strict=True)
        ]

    def at(self, time: float) -> int:
        """The plateau that holds at this time, for `k`, `support`, `R` and `s`; at an event the one that begins."""
        if not time >= 0:
            raise ValueError(f"`time` must be at least zero; got {time}.")
        return int(np.searchsorted(self.times, time, side="right")) - 1

    def k(self, p: int = -1) -> Float[np.ndarray, " d"]:
        """The coefficients on plateau `p`, dense, shape `(d,)`."""
        return self.knots.k[[range(self.n_plateaus)[p]]].toarray()[0]

    def support(self, p: int = -1) -> Int[np.ndarray, " m"]:
        """The features with a coefficient on plateau `p`, sorted."""
        p = range(self.n_plateaus)[p]
        return np.sort(self.knots.k.indices[self.knots.k.indptr[p] : self.knots.k.indptr[p + 1]])

    def R(self, p: int = -1) -> Float[np.ndarray, " n"]:
        """`int (y - Xk) dt` up to the start of plateau `p`."""
        return self.knots.R[p]

    def s(self, p: int = -1) -> Float[np.ndarray, " d"]:
        """`X'R` at the start of plateau `p`, shape `(d,)`."""
        return self.limit.products(self.knots.R[p])

    def _repr_html_(self) -> str:
        facts = {
            "status": self.status,
            "reason": self.reason,
            "plateaus": self.n_plateaus,
            "features that come in together": "yes: outside the theorem" if self.tied else "none",
            "unique": "yes"
            if self.unique.all()
            else f"not on {np.count_nonzero(~self.unique)} of {self.n_plateaus} plateaus",
            "conditions hold to": self.certificate.worst,
        }
        return _html.pairs(facts, caption="path from saddle to saddle")


@on_one_blas_thread
def saddle_path(limit: SaddlePath, *, max_events: int | None = None) -> PathSolution:
    """The whole path of `limit`, or its first `max_events` events.

    Raises `TypeError` or `ValueError` when `max_events` is not a count.
    """
    if not isinstance(limit, SaddlePath):
        raise TypeError(f"`limit` must be a SaddlePath; got {type(limit).__name__}.")
    if max_events is not None:
        max_events = check_count(max_events, "max_events", least=0)
    return solve_path(limit, max_events=max_events, screen=True)


def solve_path(limit: SaddlePath, *, max_events: int | None, screen: bool) -> PathSolution:
    """`saddle_path` with or without screening; the two differ in cost only."""
    start = time.process_time()
    data = limit.scaled()
    path = BoundaryPath(data, remembers=False)
    states, ended = run(path, max_events=max_events, screen=screen)
    durations = np.array([state.duration for state in states[1:]] + [np.inf])
    if ended in (EVENT, STALLED):
        path.restore(states[-1])
        durations[-1] = np.inf if path.finished() else path.time_left()
    if ended == EVENT and not np.isfinite(durations[-1]):
        ended = DONE if path.finished() else NONE
    certificate = limit.certify(knots := _knots(data, states, durations))
    left = certificate.residual[-1]
    n_events = len(states) - 1
    status, reason = {
        DONE: ("interpolates", f"|Xk - y| / |y| is {left:.1e}, zero to rounding, after {n_events} events."),
        NONE: (
            "unreachable",
            f"|Xk - y| / |y| is {left:.1e} and no feature comes in any more: no k with the allowed signs fits y.",
        ),
        EVENT: ("event limit", f"{n_events} events were asked for; |Xk - y| / |y| is {left:.1e}."),
        STALLED: ("stalled", f"rounding stopped the path after {n_events} events; |Xk - y| / |y| is {left:.1e}."),
    }[ended]
    confirmed = {DONE: np.isfinite(certificate.upper), NONE: certificate.unreachable}.get(ended, True)
    if not (confirmed and certificate.worst <= _RESOLVED):
        bad = np.flatnonzero(certificate.kkt > _RESOLVED)
        what = f"confirms the plateaus before {bad[0]} of {n_events} only" if len(bad) else "does not confirm the end"
        status, reason = "stalled", f"rounding: the certificate {what}; |Xk - y| / |y| is {left:.1e} at the end."
    return PathSolution(
        status=status,
        reason=reason,
        limit=limit,
        knots=knots,
        events=tuple(state.event for state in states[1:]),
        unique=np.array([state.unique for state in states]),
        certificate=certificate,
        cpu_seconds=time.process_time() - start,
    )


def _knots(data, states, durations) -> Knots:
    indptr = np.cumsum([0] + [len(state.order) for state in states])
    where = np.concatenate([state.order for state in states])
    values = np.concatenate([state.k for state in states])
    k = scipy.sparse.csr_array((data.coefficients(values, where), where, indptr), shape=(len(states), data.d))
    k.sort_indices()
    R = np.ldexp(np.array([state.R for state in states]), data.t_exponent)
    return Knots(durations=data.durations(durations), k=k, R=R)
