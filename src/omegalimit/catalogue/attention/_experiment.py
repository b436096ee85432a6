"""One attention model trained to its limit and set beside the predicted ones: the claims of `softmax_attention`,
judged.

Flow and limit meet only here: the limit's certificate is handed to the flow as a function.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...claims import Assumption, Kind, Verdict
from ...data import TokenData
from ...flows import Arrival, FlowResult, gradient_flow, measure
from ...limits import MaxMargin
from ...models import AbstractAttention
from ...problem import AttentionProblem, other_tokens
from ...solvers import Solution, solve
from ...trajectory import Ending

NAMES = {"nuclear": "nuclear", "frobenius": "Frobenius", "l1": "l1", "l2": "l2"}
OWN_NORM = {"kq": "nuclear", "merged": "frobenius", "diagonal-kq": "l1", "diagonal-merged": "l2"}
OTHER_NORM = {"nuclear": "frobenius", "frobenius": "nuclear", "l1": "l2", "l2": "l1"}
MAX_MARGIN_CLAIM = {
    "nuclear": "nuclear-max-margin",
    "frobenius": "frobenius-max-margin",
    "l1": "l1-max-margin",
    # Over diagonal matrices the Frobenius norm is the l2 norm of the diagonal.
    "l2": "frobenius-max-margin",
}
ALLOWANCE = 1.2  # measured gaps may exceed the entropy bound by this factor: room for what is left of the velocity
FLOOR = 1e-9  # added to the bounds: a gap or residual below it is not told from zero (a single constraint has B = 0)
LEAST_EXCESS = 0.03  # norms whose optima differ by less cannot be told apart
N_SHOWN = 160  # states along the path for which gaps and weights are recorded


@dataclasses.dataclass(frozen=True, eq=False)
class Limits:
    """The limit problems of one parametrisation for given tokens, each solved once and only when asked for."""

    data: TokenData
    diagonal: bool
    selection: tuple[int, ...]

    def problem(self, norm: str) -> MaxMargin:
        """`min |W| : (x_selected - x_l)^T W z >= 1` in a norm; for diagonals the rows are `(x_selected - x_l) * z`."""
        D = self.data.differences(np.array(self.selection))
        Z = np.broadcast_to(self.data.z[:, None, :], D.shape)
        d = D.shape[2]
        if not self.diagonal:
            return MaxMargin(norm, left=D.reshape(-1, d), right=Z.reshape(-1, d))
        return MaxMargin(norm, rows=(D * Z).reshape(-1, d))

    @functools.cached_property
    def _problems(self) -> dict[str, MaxMargin]:
        return {}

    @functools.cached_property
    def _solutions(self) -> dict[str, Solution]:
        return {}

    def __getitem__(self, norm: str) -> MaxMargin:
        if norm not in self._problems:
            self._problems[norm] = self.problem(norm)
        return self._problems[norm]

    def solution(self, norm: str) -> Solution:
        """The certified solution in one norm; aims at a gap of 1e-9."""
        if norm not in self._solutions:
            self._solutions[norm] = solve(self[norm], tol=1e-9)
        return self._solutions[norm]

    def excess(self, norm: str, of: str) -> float:
        """`|W_of| / |W_norm| - 1` in `norm`, both optima with margin one: the other optimum's excess."""
        limit = self[norm]
        own, other = self.solution(norm).certificate.point, self.solution(of).certificate.point
        return limit.norm_of(other) / limit.norm_of(own) - 1

    def distance(self, norm: str, point: np.ndarray) -> float:
        """`1 - margin(point) / gamma*`: the gap of a point against the solved limit's upper bound."""
        certificate = self.solution(norm).certificate
        limit = self[norm]
        return 1 - float(limit.margins(point).min()) / limit.norm_of(point) / certificate.upper


@dataclasses.dataclass(frozen=True, eq=False)
class Experiment:
    """A model on its data from one start, trained by gradient flow at two caps.

    - `label`: the parametrisation's name in the verdicts; `norm`: the norm that the theory predicts.
    - `rivals`: the limits for the best-scored tokens (what the theorem is about).
    - `claimed`: the norm that `max_margin` is judged by, when it is on purpose another than `norm`.
    """

    label: str
    problem: AttentionProblem
    data: TokenData
    start: np.ndarray
    norm: str
    limits: Limits
    flow: FlowResult
    scale: float

    @property
    def model(self) -> AbstractAttention:
        """The parametrisation."""
        return self.problem.model

    @property
    def diagonal(self) -> bool:
        """True for diagonal weights, whose points are vectors."""
        return self.norm in ("l1", "l2")

    def point(self, direction: np.ndarray) -> np.ndarray:
        """The point of the limit problem at parameters: `W`, or its diagonal."""
        W = self.model.matrix(direction)
        return np.diagonal(W, axis1=-2, axis2=-1) if self.diagonal else W

    @property
    def arrivals(self) -> tuple[Arrival, ...]:
        """The flow's own states at the cap and, when there is a twin, at ten times the cap."""
        twin = self.flow.twin
        return (self.flow.arrival,) if twin is None else (self.flow.arrival, twin.arrival)

    @functools.cached_property
    def at_best(self) -> tuple[Arrival, ...]:
        """The same states with the weights of the constraints of the best-scored tokens."""
        return tuple(
            measure(self.problem, a.direction, a.log_sharpness, selection=self.data.best, log_time=a.log_time)
            for a in self.arrivals
        )

    def n_not_best(self, arrival: Arrival) -> int:
        """How many inputs attend to a token that is not the best-scored one."""
        return n_not_best(self.data, arrival.selection)

    @functools.cached_property
    def selected_limits(self) -> Limits:
        """The limits for the tokens that the flow selected; `limits` itself when these are the best-scored."""
        selected = tuple(map(int, self.flow.arrival.selection))
        return self.limits if selected == self.limits.selection else Limits(self.data, self.diagonal, selected)

    @functools.cached_property
    def log_needed_sharpness(self) -> float:
        """Log of the sharpness from which on the path stays within 1.2 B(cap) of the selected tokens' limit.

        Past the cap it is what unfrozen gradient flow would have had, see `FlowResult.log_free_sharpness`; NaN when the
        path never came within the bound.
        """
        path = self.flow.trajectory
        free = path.log_radius * self.problem.degree + self.flow.log_unit
        bound = ALLOWANCE * self.flow.arrival.entropy_bound
        for i in range(len(path) - 1, -1, -1):
            if not self.selected_limits.distance(self.norm, self.point(path.direction[i])) <= bound:
                return float(free[i + 1]) if i + 1 < len(path) else math.nan
        return float(free[0])

    def wait(self) -> list[str]:
        """A sentence when unfrozen gradient flow needs far more than the cap's sharpness to come here, else none."""
        if not self.flow.certified or self.selected_limits.solution(self.norm).status != "optimal":
            return []
        log_S = self.log_needed_sharpness
        if not log_S > math.log(10 * self.flow.cap):
            return []
        log_t = (log_S + math.log(self.flow.arrival.mean_margin)) / math.log(10)
        return [
            f"{self.label}: the direction came within its bound of the limit while the sharpness was held at "
            f"{self.flow.cap:.0e}. Left to itself, gradient flow is as near only at a sharpness of about "
            f"1e{log_S / math.log(10):.0f}, when the logarithm of the training time is about 1e{log_t:.0f}: "
            "no training gets there."
        ]

    # -- assumptions ---------------------------------------------------------------------------------------------

    @functools.cached_property
    def assumptions(self) -> dict[str, Assumption]:
        """Every assumption of the theorem by name, checked on this run."""
        data, solution = self.data, self.limits.solution("l2" if self.diagonal else "frobenius")
        n_ties, gap = len(data.ties), float(data.score_gap.min())
        certificate = solution.certificate
        found = {
            "separable": Assumption(
                name="separable",
                holds={"optimal": True, "not separable": False}.get(str(solution.status), certificate.lower > 0),
                measured=certificate.upper if solution.farkas is not None else certificate.lower,
            ),
            "unique target": Assumption(name="unique target", holds=n_ties == 0, measured=float(n_ties)),
            "score gap": Assumption(name="score gap", holds=gap > 1e-6, measured=gap),
            "minimal loss attained": Assumption(
                name="minimal loss attained",
                holds=all(self.n_not_best(a) == 0 and a.least_margin > 0 for a in self.arrivals),
                measured=float(max(self.n_not_best(a) for a in self.arrivals)),
            ),
            "arrival": Assumption(name="arrival", holds=self.flow.certified, measured=str(self.flow.ending)),
        }
        if self.model.name == "kq":
            share = self.start_alignment
            found["aligned start"] = Assumption(name="aligned start", holds=share < 1e-9, measured=share)
            rank, needed = self.start_rank, self.limits.solution("nuclear").certificate.delta_rank
            found["rank of start"] = Assumption(
                name="rank of start", holds=None if needed is None else rank >= needed.rank, measured=float(rank)
            )
        if self.model.name == "diagonal-kq":
            k, q = np.split(self.start, 2)
            least = float((np.abs(k**2 - q**2) / (k**2 + q**2)).min())
            found["unequal start"] = Assumption(name="unequal start", holds=least > 1e-12, measured=least)
        return found

    def assuming(self, *names: str) -> tuple[Assumption, ...]:
        """The named assumptions that this parametrisation has."""
        return tuple(self.assumptions[name] for name in names if name in self.assumptions)

    @functools.cached_property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """The data's own axes `(U, V)`: those of the orbit, else the singular vectors of -dL/dW at the start."""
        if self.data.rotation is not None:
            return self.data.rotation
        path = self.flow.trajectory
        a = measure(self.problem, path.direction[0], float(path.log_sharpness[0]))
        limit = Limits(self.data, False, tuple(map(int, a.selection)))["nuclear"]
        U, _, Vt = np.linalg.svd(limit.combine(a.multipliers))
        return U, Vt.T

    @property
    def start_alignment(self) -> float:
        """Off-diagonal share of `U^T W(0) V`: how far the start's singular spaces are from the data's axes."""
        U, V = self.axes
        return off_diagonal_share(U, self.model.matrix(self.start), V)

    @property
    def start_rank(self) -> int:
        """Numerical rank of [K(0); Q(0)], whose row space is an invariant of the flow."""
        return int(np.linalg.matrix_rank(self.start.reshape(2 * self.model.d, -1)))

    # -- claims --------------------------------------------------------------------------------------------------

    def _verdict(self, claim: str, kind: Kind, **rest) -> Verdict:
        return Verdict(claim=claim, parametrisation=self.label, loss=self.problem.loss.name, kind=kind, **rest)

    def _per_cap(self, arrivals: Sequence[Arrival], gaps: Sequence[float]) -> list[dict]:
        return [
            {
                "sharpness": math.exp(a.log_sharpness),
                "gap": gap,
                "entropy_bound": a.entropy_bound,
                "complementarity": a.complementarity,
                "stationarity": a.stationarity,
                "log_loss_gap": a.log_loss_gap,
                "least_margin": math.exp(a.log_sharpness) * a.least_margin,
                "selected": own.selection,
                "n_not_best": self.n_not_best(own),
                "negative_mass": a.negative_mass,
            }
            for a, own, gap in zip(arrivals, self.arrivals, gaps, strict=True)
        ]

    def _same_tokens(self) -> Assumption:
        first, *rest = self.arrivals
        same = all(np.array_equal(first.selection, a.selection) for a in rest) if rest else None
        return Assumption(name="same tokens at both caps", holds=same, measured=float(len(self.arrivals)))

    def _moving(self) -> str | None:
        """Why the tokens attended to at the end need not stay: the flow was still moving."""
        moving = (Ending.PLATEAU, Ending.HORIZON, Ending.TIME_REACHED)
        if self.flow.ending in moving:
            return f"the flow has not arrived: {self.flow.reason}"
        if self.flow.twin is not None and self.flow.twin.ending in moving:
            return f"the twin at ten times the cap has not arrived: {self.flow.twin.reason}"
        return None

    def _not_arrived(self, bound: float) -> str | None:
        """Why nothing measured at the exit can decide: no arrival, or a bound that anything passes."""
        if self._moving() is not None:
            return self._moving()
        if self.flow.ending is Ending.NOT_SEPARATED:
            return f"no direction was selected: {self.flow.reason}"
        return None if bound < 1 else f"the bound {bound:.2g} is vacuous at this sharpness."

    def _undecided(self, gap: float, bound: float, norm: str, limits: Limits) -> str | None:
        """Why `gap` against `bound` decides nothing: no arrival, no limit, or the other norm's optimum passes too."""
        reason = self._not_arrived(bound)
        if reason is not None:
            return reason
        if limits.solution(norm).status != "optimal":
            return f"the predicted limit is not solved: {limits.solution(norm).status}."
        other = OTHER_NORM[norm]
        if gap <= bound and limits.solution(other).status == "optimal":
            rival = 1 - 1 / (1 + limits.excess(norm, other))
            if rival > 1e-6 and bound >= rival:
                return f"the bound {bound:.2g} would let the {NAMES[other]} optimum pass too (its gap: {rival:.2g})."
        return None

    def _max_margin(
        self, claim: str, norm: str, limits: Limits, arrivals, names: tuple[str, ...], wrong=None
    ) -> Verdict:
        """The flow's own gap against one limit, at the cap where it is largest beside its bound."""
        limit = limits[norm]
        gaps, slacks = [], []
        for a in arrivals:
            point = self.point(a.direction)
            certificate = limit.certify(point, a.multipliers)
            gaps.append(certificate.gap)
            slacks.append(certificate.relative_slack)
            if wrong is not None:  # a limit handed in: the distance to it is the larger norm ratio at equal margin
                ratio = limit.norm_of(wrong) / float(limit.margins(wrong).min())
                gaps[-1] = abs(1 - float(limit.margins(point).min()) / limit.norm_of(point) * ratio)
        bounds = [ALLOWANCE * a.entropy_bound + FLOOR for a in self.arrivals]
        worst = worst_of(gaps, bounds)
        details = {"caps": self._per_cap(arrivals, gaps), "norm": norm, "reason": self.flow.reason}
        details["log10_free_sharpness"] = self.flow.log_free_sharpness / math.log(10)
        if len(gaps) > 1 and gaps[1] > 0:
            details["gap_ratio"] = gaps[0] / gaps[1]
        solution = limits.solution(norm)
        details["limit"] = {
            "status": str(solution.status),
            "lower": solution.certificate.lower,
            "upper": solution.certificate.upper,
            "gap": solution.certificate.gap,
        }
        if self.flow.polished is not None:
            details["polished"] = {"gap": self.flow.polished.gap, "change": self.flow.polished.change}
        return self._verdict(
            claim,
            Kind.RATE,
            measured=gaps[worst],
            bound=bounds[worst],
            slack=_finite(slacks[worst]),
            unit="relative gap",
            conditions=(self._same_tokens(),),
            undecided=self._undecided(gaps[worst], bounds[worst], norm, limits),
            assumptions=self.assuming(*names),
            details=details,
        )

    def max_margin(self, norm: str | None = None, *, wrong: np.ndarray | None = None) -> Verdict:
        """`nuclear-`, `frobenius-` or `l1-max-margin`: the gap of the flow's own weights, best-scored tokens.

        `norm`: another norm to be judged by; `wrong`: a point handed in as the limit. Both are for counter-instances.
        """
        norm = self.norm if norm is None else norm
        names = ("separable", "unique target", "score gap", "minimal loss attained", "arrival")
        names += ("aligned start", "rank of start", "unequal start")
        return self._max_margin(MAX_MARGIN_CLAIM[norm], norm, self.limits, self.at_best, names, wrong)

    def selected_max_margin(self) -> Verdict:
        """The same for whatever tokens the flow selected."""
        return self._max_margin(
            "selected-max-margin",
            self.norm,
            self.selected_limits,
            self.arrivals,
            ("arrival", "rank of start", "unequal start"),
        )

    def minimal_loss(self) -> Verdict:
        """Every selected token is the best-scored one, and log(L - L*) falls one for one with the least margin.

        `log(L - L*) + S min m` stays between two constants that the scores give (derived here), so between two caps
        the slope differs from -1 by at most `(log K + range b) / change of S min m`.
        """
        path = self.flow.trajectory
        # Of tied best tokens whichever the flow attends to; where it attends to a worse one, the target.
        attended = self.flow.arrival.selection
        target = attended if self.n_not_best(self.flow.arrival) == 0 else self.data.best
        ends = [(a.direction, a.log_sharpness) for a in self.arrivals]
        if len(ends) == 1:  # no second cap: the start of the path is the other end
            ends.insert(0, (path.direction[0], float(path.log_sharpness[0])))
        first, last = (measure(self.problem, w, log_S, selection=target) for w, log_S in (ends[0], ends[-1]))
        scores = self.problem.scores
        L = scores.shape[1]
        worse = ~np.take_along_axis(self.data.is_best, other_tokens(target, L), axis=1).reshape(-1)
        best = scores.max(axis=1, keepdims=True)
        b = (np.log(np.where(self.data.is_best, 1.0, best - scores)) - best)[~self.data.is_best]
        margins = [math.exp(a.log_sharpness) * float(a.margins[worse].min()) for a in (first, last)]
        rise = margins[1] - margins[0]
        slope = (last.log_loss_gap - first.log_loss_gap) / rise if rise != 0 else math.nan
        bound = (math.log(b.size) + float(b.max() - b.min())) / abs(rise) if rise != 0 else math.inf
        n_not_best = [self.n_not_best(a) for a in self.arrivals]
        undecided = (
            None if bound < 0.5 else f"the bound {bound:.2g} on the slope is vacuous: the margin rose by {rise:.2g}."
        )
        return self._verdict(
            "minimal-loss",
            Kind.RATE,
            measured=abs(slope + 1),
            bound=bound,
            slack=_finite(1e-12 * abs(slope)),
            unit="slope + 1",
            conditions=(
                Assumption(
                    name="every selected token is the best-scored",
                    holds=max(n_not_best) == 0,
                    measured=float(max(n_not_best)),
                ),
            ),
            assumptions=self.assuming("separable", "unique target", "score gap", "arrival"),
            undecided=self._moving() or (None if max(n_not_best) else undecided),
            details={"slope": slope, "least_margin": margins, "log_loss_gap": [first.log_loss_gap, last.log_loss_gap]},
        )

    def kkt_path(self) -> Verdict:
        """Complementarity and stationarity residual at the exit, at both caps; along the path only recorded."""
        measured = [max(a.complementarity, a.stationarity) for a in self.arrivals]
        bounds = [ALLOWANCE * a.entropy_bound + FLOOR for a in self.arrivals]
        worst = worst_of(measured, bounds)
        return self._verdict(
            "kkt-path",
            Kind.RATE,
            measured=measured[worst],
            bound=bounds[worst],
            slack=1e-12,
            unit="relative residual",
            undecided=self._not_arrived(bounds[worst]),
            assumptions=self.assuming("arrival"),
            details={"caps": self._per_cap(self.arrivals, [a.gap for a in self.arrivals])},
        )

    def balance_conserved(self) -> Verdict:
        """`K^T K - Q^T Q` (diagonal: `k_j^2 - q_j^2`) is conserved: its drift over r^2 along the whole path.

        r is the largest radius so far: an error made there stays when the weights shrink afterwards.
        """
        drift = self.balance_drift()
        measured = float(np.abs(drift).max())
        return self._verdict(
            "balance-conserved",
            Kind.INVARIANT,
            measured=measured,
            bound=10 * self.flow.rtol,
            slack=min(self.accumulated_error, measured),
            unit="drift / r^2",
            details={"rtol": self.flow.rtol},
        )

    @property
    def accumulated_error(self) -> float:
        """The integrator's tolerance per component of a step over all steps, errors taken as independent."""
        unit = self.flow.atol + self.flow.rtol / math.sqrt(self.model.size)
        return 2 * unit * math.sqrt(self.flow.cost.n_steps)

    def balance_drift(self) -> np.ndarray:
        """Largest entry of `C(t) - C(0)` over the largest `r^2` so far at the states of the path, shape (T,)."""
        path = self.flow.trajectory
        C, start = self.model.balance(path.direction), self.model.balance(self.start)
        assert C is not None
        assert start is not None
        drift = np.abs(C - start * np.exp(-2 * path.log_radius)[:, None]).max(axis=1)
        return drift * np.exp(2 * (path.log_radius - np.maximum.accumulate(path.log_radius)))

    def singular_spaces_kept(self) -> Verdict:
        """Off-diagonal share of `U^T W V` along the path, in the axes of the sign-flip orbit."""
        U, V = self.axes
        share = off_diagonal_share(U, self.model.matrix(self.flow.trajectory.direction), V)
        bound = 100 * self.flow.rtol
        first = measure(self.problem, self.start, float(self.flow.trajectory.log_sharpness[0]))
        gradient = Limits(self.data, False, tuple(map(int, first.selection)))["nuclear"].combine(first.multipliers)
        force = off_diagonal_share(U, gradient, V)
        # Symmetric data from an aligned start have no off-diagonal force at all: what is seen later grew from rounding.
        amplified = share > bound and force < 1e-10 and self.start_alignment < 1e-10
        return self._verdict(
            "singular-spaces-kept",
            Kind.INVARIANT,
            measured=share,
            bound=bound,
            slack=1e-14,
            unit="off-diagonal share",
            undecided="rounding was amplified along the path: at the start there is no off-diagonal force."
            if amplified
            else None,
            details={"rtol": self.flow.rtol, "off_diagonal_force_at_start": force},
        )

    # -- arrays for the record and the figures -------------------------------------------------------------------

    def arrays(self) -> dict[str, xr.Dataset]:
        """Trajectory, attention maps and limits as labelled arrays."""
        path = self.flow.trajectory
        index = np.unique(np.linspace(0, len(path) - 1, min(len(path), N_SHOWN)).astype(int))
        states = [
            measure(self.problem, path.direction[i], float(path.log_sharpness[i]), log_time=float(path.log_time[i]))
            for i in index
        ]
        norms = [norm for norm in (self.norm, OTHER_NORM[self.norm]) if self.limits.solution(norm).status == "optimal"]
        points = self.point(path.direction[index])
        W = self.model.matrix(path.direction[index])
        gap = np.array([[self.limits.distance(norm, point) for norm in norms] for point in points])
        one = lambda name: ("point", np.array([getattr(s, name) for s in states]))  # noqa: E731 - a column of the table
        S = np.exp(np.array([s.log_sharpness for s in states]))
        trajectory = xr.Dataset(
            {
                "s": ("point", path.time[index]),
                "log_time": ("point", path.log_time[index]),
                "log_sharpness": one("log_sharpness"),
                "log_free_sharpness": ("point", path.log_radius[index] * self.problem.degree + self.flow.log_unit),
                "log_loss_gap": one("log_loss_gap"),
                "least_margin": ("point", S * np.array([s.least_margin for s in states])),
                "gap": (("point", "norm"), gap.reshape(len(index), len(norms))),
                "singular_values": (
                    ("point", "index"),
                    np.linalg.svd(W / np.linalg.norm(W, axis=(1, 2), keepdims=True))[1],
                ),
                "entropy_bound": one("entropy_bound"),
                "complementarity": one("complementarity"),
                "stationarity": one("stationarity"),
                "direction": (("point", "parameter"), path.direction[index]),
                "log_radius": ("point", path.log_radius[index]),
            },
            coords={"norm": norms},
            attrs={
                "parametrisation": self.label,
                "clock": path.clock,
                "cap": self.flow.cap,
                "ending": str(self.flow.ending),
            },
        )
        if self.model.balance(self.start) is not None:
            trajectory["balance_drift"] = ("point", self.balance_drift()[index])
        middle = int(np.argmin(np.abs(path.log_sharpness - (path.log_sharpness[0] + path.log_sharpness[-1]) / 2)))
        stages = [0, middle, len(path) - 1]
        attention = xr.Dataset(
            {
                "attention": (("stage", "input", "token"), np.array([self.attention(i) for i in stages])),
                "selected": ("input", self.flow.arrival.selection),
                "best": ("input", self.data.best),
            },
            coords={"stage": ["start", "middle", "limit"]},
        )
        limits = xr.Dataset(coords={"norm": norms})
        if norms:
            certificates = [self.limits.solution(norm).certificate for norm in norms]
            axes = ("diagonal",) if self.diagonal else ("row", "column")
            limits["point"] = (("norm", *axes), np.array([c.point for c in certificates]))
            n = self.data.n
            limits["multipliers"] = (
                ("norm", "input", "other"),
                np.array([c.multipliers.reshape(n, -1) for c in certificates]),
            )
            limits["lower"] = ("norm", [c.lower for c in certificates])
            limits["upper"] = ("norm", [c.upper for c in certificates])
        limits["flow"] = (
            ("diagonal",) if self.diagonal else ("row", "column"),
            self.point(self.flow.arrival.direction),
        )
        return {
            f"{self.label}/trajectory": trajectory,
            f"{self.label}/attention": attention,
            f"{self.label}/limits": limits,
        }

    def attention(self, index: int) -> np.ndarray:
        """`softmax(h)` at a state of the path, shape (n, L)."""
        path, p = self.flow.trajectory, self.problem
        W = self.model.matrix(path.direction[index])
        h = np.exp(path.log_sharpness[index]) * np.einsum("nld,de,ne->nl", p.X, W, p.z)
        e = np.exp(h - h.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def log_halving_time(self) -> float:
        """Log of the physical time at which L - L* has halved, between the recorded states; NaN if it never did."""
        path = self.flow.trajectory
        log_gap = np.array(
            [
                measure(self.problem, w, float(s)).log_loss_gap
                for w, s in zip(path.direction, path.log_sharpness, strict=True)
            ]
        )
        target = log_gap[0] - math.log(2)
        below = np.flatnonzero(log_gap <= target)
        if below.size == 0 or not np.isfinite(path.log_time[below[0]]):
            return math.nan
        i = int(below[0])
        if i < 2:
            return float(path.log_time[i])
        x = (target - log_gap[i - 1]) / (log_gap[i] - log_gap[i - 1])
        return float((1 - x) * path.log_time[i - 1] + x * path.log_time[i])


def run_experiment(
    data: TokenData,
    model: AbstractAttention,
    start: np.ndarray,
    *,
    loss: str,
    cap: float,
    label: str | None = None,
    twin: bool = True,
    limits: Limits | None = None,
    until_log_time: float | None = None,
    max_evaluations: int = 800_000,
    scale: float = math.nan,
    progress=None,
) -> Experiment:
    """Train `model` on `data` from `start`, its own norm's certificate (for the selected tokens) handed to the flow."""
    problem = AttentionProblem(data, model, loss=loss)
    norm = OWN_NORM[model.name]
    diagonal = norm in ("l1", "l2")
    best = tuple(map(int, data.best))
    limits = Limits(data, diagonal, best) if limits is None else limits
    known: dict[tuple[int, ...], MaxMargin] = {}

    def judge(direction: np.ndarray, selection: np.ndarray, multipliers: np.ndarray) -> float:
        key = tuple(map(int, selection))
        if key not in known:
            known[key] = limits[norm] if key == limits.selection else Limits(data, diagonal, key)[norm]
        W = model.matrix(direction)
        return known[key].certify(np.diagonal(W) if diagonal else W, multipliers).gap

    flow = gradient_flow(
        problem,
        start,
        cap=cap,
        judge=judge,
        twin=twin,
        until_log_time=until_log_time,
        max_evaluations=max_evaluations,
        progress=progress,
    )
    return Experiment(label or model.name, problem, data, start, norm, limits, flow, scale)


def n_not_best(data: TokenData, selection: np.ndarray) -> int:
    """How many inputs attend to a token that is not best-scored, nor tied with the best."""
    return sum(int(data.best[i]) != int(k) and not data.is_best[i, k] for i, k in enumerate(selection))


def off_diagonal_share(U: np.ndarray, W: np.ndarray, V: np.ndarray) -> float:
    """Largest `|offdiag(U^T W V)| / |W|` in the Frobenius norm over a stack of matrices W (..., d, d)."""
    M = U.T @ W @ V
    off = M * (1 - np.eye(M.shape[-1]))
    return float((np.linalg.norm(off, axis=(-2, -1)) / np.linalg.norm(W, axis=(-2, -1))).max())


def worst_of(measured: Sequence[float], bounds: Sequence[float]) -> int:
    """The index with the largest measured/bound; one that is not a number first."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.divide(measured, bounds)
    return int(np.argmax(np.where(np.isnan(ratio), np.inf, ratio)))


def _finite(slack: float) -> float:
    return slack if math.isfinite(slack) else math.inf
