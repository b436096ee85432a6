"""One attention model trained to its limit, with the limits that the paper predicts for it.

Flow and limit meet only here: the limit's certificate is handed to the flow as a function.
"""

import dataclasses
import functools
import math

import numpy as np

from ...claims import Assumption
from ...data import TokenData
from ...flows import Arrival, FlowResult, gradient_flow, measure
from ...limits import MaxMargin
from ...models import AbstractAttention
from ...problem import AttentionProblem
from ._limits import OWN_NORM, Limits, n_not_best

ALLOWANCE = 1.2  # measured gaps may exceed the entropy bound by this factor: room for what is left of the velocity


@dataclasses.dataclass(frozen=True, eq=False)
class Experiment:
    """A model on its data from one start, trained by gradient flow at two caps.

    - `label`: the parametrisation's name in the verdicts; `norm`: the norm that the theory predicts.
    - `start`: flat parameters, shape (N,), of radius `scale` in the data's units (NaN when they came from elsewhere).
    - `limits`: the limit problems for the best-scored tokens, which the theorem is about; see also `selected_limits`.
    - `flow`: the gradient flow to the cap, with its twin.
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
                holds={"optimal": True, "not separable": False}.get(
                    str(solution.status), True if certificate.lower > certificate.slack else None
                ),
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


def off_diagonal_share(U: np.ndarray, W: np.ndarray, V: np.ndarray) -> float:
    """Largest `|offdiag(U^T W V)| / |W|` in the Frobenius norm over a stack of matrices W (..., d, d)."""
    M = U.T @ W @ V
    off = M * (1 - np.eye(M.shape[-1]))
    return float((np.linalg.norm(off, axis=(-2, -1)) / np.linalg.norm(W, axis=(-2, -1))).max())
