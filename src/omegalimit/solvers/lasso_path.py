"""The Lasso path by homotopy, on the machine of the saddle path.

Derived here: with `T = 1/lam`, `R = T (y - Xw)` and `W = T w` the optimality conditions are `s = X'R` in `[-1, 1]`, on
the boundary with the sign of `W_i` where that is not zero, and `R' = y - X W'`. So `W'` is the least squares solution
over the features on the boundary, as `k` is on the saddle path; only the signs bind `W` and not its derivative. In `T`
every piece is linear and nothing cancels as `lam` goes to zero; the last `W'` is the `w` of `lam = 0`.
"""

import dataclasses
import time

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .. import _html
from .._checks import check_count
from .._threads import on_one_blas_thread
from ..limits.lasso_path import LassoCertificate, LassoPath
from ._path_events import DONE, EVENT, NONE, STALLED, BoundaryPath, PathEvent
from ._path_screen import run

# An end whose bounds agree to less than this is not the end: its data are too nearly singular for double precision.
_RESOLVED = 1e-6


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LassoSolution:
    """The knots of `min 1/2 |Xw - y|^2 + lam |w|_1`; `w` is linear in `lam` between two of them, zero above the first.

    - `status`: `"interpolates"`: at `lam = 0` `Xw = y`, with the least `|w|_1`. `"least squares"`: no `w` interpolates;
      at `lam = 0` stands the least squares solution of least `|w|_1`. `"event limit"`: `max_events` were made.
      `"stalled"`: rounding stopped or spoiled the path; what was certified is in `certificate`.
    - `reason`: the status in words, with the number that decided it.
    - `lam`: shape `(P,)`, falling; `coefficients`: `(P, d)`, CSR.
    - `events`: `events[p]` is what happened at `lam[p]`; the end `lam = 0` has none.
    - `unique`: one a knot; false where the support that holds below it has dependent idle features.
    - `certificate`: recomputed from the data by `LassoPath.certify`.
    - `cpu_seconds`: process time of all threads, certificate included.
    """

    status: str
    reason: str
    limit: LassoPath = dataclasses.field(repr=False)
    lam: Float[np.ndarray, " P"] = dataclasses.field(repr=False)
    coefficients: scipy.sparse.csr_array = dataclasses.field(repr=False)
    events: tuple[PathEvent, ...] = dataclasses.field(repr=False)
    unique: np.ndarray = dataclasses.field(repr=False)
    certificate: LassoCertificate = dataclasses.field(repr=False)
    cpu_seconds: float

    @property
    def n_knots(self) -> int:
        """`P`."""
        return len(self.lam)

    @property
    def tied(self) -> bool:
        """Some features came in together."""
        return any(event.tied for event in self.events)

    def w(self, p: int = -1) -> Float[np.ndarray, " d"]:
        """The coefficients at knot `p`, dense, shape `(d,)`."""
        return self.coefficients[[range(self.n_knots)[p]]].toarray()[0]

    def support(self, p: int = -1) -> Int[np.ndarray, " m"]:
        """The features with a coefficient at knot `p`, sorted."""
        p = range(self.n_knots)[p]
        return np.sort(self.coefficients.indices[slice(*self.coefficients.indptr[p : p + 2])])

    def at(self, lam: float) -> Float[np.ndarray, " d"]:
        """The coefficients for a penalty `lam` at or above the last knot's, shape `(d,)`."""
        if not lam >= self.lam[-1]:
            raise ValueError(f"`lam` must be at least {self.lam[-1]:g}, where the path ends; got {lam}.")
        if lam >= self.lam[0]:
            return np.zeros(self.limit.d)
        p = int(np.flatnonzero(self.lam > lam)[-1])
        share = (self.lam[p] - lam) / (self.lam[p] - self.lam[p + 1])
        return self.w(p) * (1 - share) + self.w(p + 1) * share

    def _repr_html_(self) -> str:
        facts = {
            "status": self.status,
            "reason": self.reason,
            "knots": self.n_knots,
            "features that come in together": "yes" if self.tied else "none",
            "unique": "yes"
            if self.unique.all()
            else f"not below {np.count_nonzero(~self.unique)} of {self.n_knots} knots",
            "relative gap": self.certificate.gap,
        }
        return _html.pairs(facts, caption="Lasso path")


@on_one_blas_thread
def lasso_path(X: ArrayLike | LassoPath, y: ArrayLike | None = None, *, max_events: int | None = None) -> LassoSolution:
    """The path of `min 1/2 |Xw - y|^2 + lam |w|_1` from `|X'y|_inf` to zero, or its first `max_events` events.

    `X`, shape `(n, d)`, with `y`, `(n,)`; or a `LassoPath`. No centring, no scaling; scikit-learn's `alpha` is `lam/n`.
    Raises what `LassoPath` raises, and `TypeError` or `ValueError` when `max_events` is not a count.
    """
    if isinstance(X, LassoPath) != (y is None):
        raise TypeError("Pass `X` and `y`, or a LassoPath alone.")
    if max_events is not None:
        max_events = check_count(max_events, "max_events", least=1)
    limit = X if isinstance(X, LassoPath) else LassoPath(X, np.asarray(y))
    return solve_lasso(limit, max_events=max_events, screen=True)


def solve_lasso(limit: LassoPath, *, max_events: int | None, screen: bool) -> LassoSolution:
    """`lasso_path` with or without screening; the two differ in cost only."""
    start = time.process_time()
    data = limit.scaled()
    path = BoundaryPath(data, remembers=True)
    states, ended = run(path, max_events=max_events, screen=screen)
    last, T = states[-1], np.cumsum([state.duration for state in states[1:]])
    lam = 1 / T
    pairs = [(state.order, state.W / t) for state, t in zip(states[1:], T, strict=True)]
    nu = None
    if ended in (DONE, NONE):
        lam = np.append(lam, 0.0)
        # What is left with the wrong sign is zero to rounding, else it would have come back to zero on the way.
        pairs.append((last.order, np.where(last.W * last.k < 0, 0.0, last.k)))
        nu = np.ldexp(path.dual(), data.t_exponent)
    lam = np.ldexp(lam, data.y_exponent - data.t_exponent)
    where, values = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    indptr = np.cumsum([0] + [len(pair[0]) for pair in pairs])
    w = scipy.sparse.csr_array((data.coefficients(values, where), where, indptr), shape=(len(pairs), data.d))
    w.sort_indices()
    certificate = limit.certify(lam, w, nu)
    left, n_events = certificate.residual[-1], len(states) - 1
    status, reason = {
        DONE: ("interpolates", f"|Xw - y| / |y| is {left:.1e}, zero to rounding, after {n_events} events."),
        NONE: ("least squares", f"|Xw - y| / |y| is {left:.1e} and X'(Xw - y) is zero to rounding: none interpolates."),
        EVENT: ("event limit", f"{n_events} events were asked for; |Xw - y| / |y| is {left:.1e}."),
        STALLED: ("stalled", f"rounding stopped the path after {n_events} events; |Xw - y| / |y| is {left:.1e}."),
    }[ended]
    if ended in (DONE, NONE) and not certificate.gap <= _RESOLVED:
        status = "stalled"
        reason = f"rounding: the end is certified to a gap of {certificate.gap:.1e} only; |Xw - y| / |y| is {left:.1e}."
    return LassoSolution(
        status=status,
        reason=reason,
        limit=limit,
        lam=lam,
        coefficients=w,
        events=tuple(state.event for state in states[1:]),
        unique=np.array([state.unique for state in states[1:]] + [last.unique] * (nu is not None), dtype=bool),
        certificate=certificate,
        cpu_seconds=time.process_time() - start,
    )
