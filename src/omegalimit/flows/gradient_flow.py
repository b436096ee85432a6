"""Gradient flow, integrated until it has arrived: flow to a moderate sharpness, wait there, certify, polish."""

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from .._numerics import double_precision
from .._threads import one_blas_thread
from ..problem import AbstractProblem, MarginProblem
from ..trajectory import Cost, Ending, Trajectory
from ._field import REST, Field, Keep, Stop, pack
from ._integrators import INTEGRATORS
from ._polish import Polished, growth_rate, polish
from ._state import Arrival, measure

Judge = Callable[[Float[np.ndarray, " N"], Int[np.ndarray, " n"], Float[np.ndarray, " K"]], float]
Progress = Callable[[str, float], None]

SPEEDS = tuple(10.0**-k for k in range(2, 11))
GROWTH_TOLERANCE = 1e-3  # in units of a: what may still grow at a limit, for models without a convex dual
MAX_CAP = 1e9
HIGHEST_RAISE = 1e7  # the cap is not raised beyond this unasked: the cost grows like its root
CHUNK = 40_000  # field evaluations between two looks at the clock and at Ctrl-C


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plateau:
    """A place where the flow was slow at the cap without having arrived: a plateau or a saddle, never a limit."""

    s: float
    stationarity: float
    gap: float
    complementarity: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowResult:
    """What a gradient flow came to.

    - `ending`: see `Ending`; `reason`: one sentence with the numbers behind it.
    - `arrival`: the flow's own, unpolished state at the end; a verdict rests on this.
    - `polished`: the certified limit point next to it, or `None` when none was accepted.
    - `growth_rate`: for models without a convex dual, the fastest growth at the polished point in units of a; else NaN.
    - `trajectory`: states up to the end; below the cap it is gradient flow itself, up to the time change.
    - `cap`: the sharpness S_c at which the flow was frozen; `rtol`, `atol`: the integrator's tolerances.
    - `plateaus`: where the flow was slow before it arrived.
    - `degree`, `log_unit`: D and the log of the unit in `S = unit r^D`.
    - `twin`: the same flow run again from the start with ten times the cap, or `None`.
    """

    ending: Ending
    reason: str
    arrival: Arrival
    polished: Polished | None
    growth_rate: float
    trajectory: Trajectory
    cap: float
    rtol: float
    atol: float
    method: str
    plateaus: tuple[Plateau, ...]
    cost: Cost
    polish_cost: Cost
    degree: float
    log_unit: float
    twin: "FlowResult | None" = None

    @property
    def tolerance_horizon(self) -> float:
        """`S_tol = 1 / (atol + rtol / sqrt N)`: beyond it the integrator's own error makes the weights wrong."""
        return 1 / (self.atol + self.rtol / math.sqrt(self.arrival.direction.size))

    @property
    def log_free_sharpness(self) -> float:
        """Log of the sharpness that gradient flow itself, unfrozen, has when it comes to this direction.

        What is inactive at the cap fades or grows at rates per unit of the direction clock s that do not depend on S,
        and unfrozen `log S` rises by `D a` per unit of s, at the cap as below it. So r, which is carried on past the
        cap, says where the wait at the cap lies on the way of the unfrozen flow. `log t` is about S times the mean
        margin there: beyond reach of any training when the wait was long. Derived here.
        """
        return float(self.trajectory.log_radius[-1]) * self.degree + self.log_unit

    @property
    def horizon(self) -> float:
        """No reported quantity uses a sharpness beyond this: `min(S_eps, S_tol) / 10`."""
        return min(self.arrival.arithmetic_horizon, self.tolerance_horizon) / 10

    @property
    def certified(self) -> bool:
        """True when the ending is `certified`."""
        return self.ending is Ending.CERTIFIED


def gradient_flow(
    problem: AbstractProblem,
    start: Float[np.ndarray, " N"] | None = None,
    *,
    cap: float = 1e4,
    method: str = "rkc",
    rtol: float | None = None,
    judge: Judge | None = None,
    tol: float = 1e-6,
    twin: bool = False,
    polishing: bool = True,
    until_log_time: float | None = None,
    max_evaluations: int = 800_000,
    progress: Progress | None = None,
) -> FlowResult:
    """Where gradient flow on `problem` goes from `start`, in direction.

    The flow is integrated in polar coordinates to the sharpness `cap`, then with the sharpness frozen until it is a
    limit by its own weights: stationary, complementary, and nothing inactive growing. Small velocity alone never ends
    it. The cap is raised tenfold while the entropy bound there exceeds 2% or the polish finds nothing that certifies.

    - `start`: flat parameters, shape (N,), not all zero; a `MarginProblem` has its own.
    - `cap`: sharpness `S_c = unit r^D` at which the loss is frozen.
    - `method`: `"rkc"` (any size), or `"lsoda"` (tight, up to some hundreds of parameters) when the path itself is
      wanted.
    - `rtol`: the integrator's; by default 1e-4 for rkc, 1e-8 for lsoda, and at most `0.09 sqrt(N) / cap` for either.
    - `judge`: `(direction, selection, multipliers) -> gap`, the certificate of the predicted limit; without it a limit
      is a KKT point of the margin problem in parameter space at which no direction grows.
    - `tol`: the gap that a certified limit point must reach.
    - `twin`: run again with ten times the cap, unless the first run came to no direction or
      that cap would pass 1e9.
    - `until_log_time`: stop at this natural log of physical time instead (before the cap).
    - `max_evaluations`: of the field, over the whole run; when they are spent the ending is a plateau.

    Raises `ValueError` for a start of the wrong shape, zero, not finite or of extreme size, and for options out of
    range.
    """
    if not isinstance(problem, AbstractProblem):
        raise TypeError(
            f"`problem` must be a problem such as MarginProblem(margins, params); got {type(problem).__name__}."
        )
    theta = checked_start(problem, start)
    for name, value in (("cap", cap), ("tol", tol), ("max_evaluations", max_evaluations), ("rtol", rtol)):
        _check_number(name, value, may_be_none=name == "rtol")
    _check_number("until_log_time", until_log_time, may_be_none=True)
    if method not in INTEGRATORS:
        raise ValueError(f"`method` must be one of {', '.join(INTEGRATORS)}; got {method!r}.")
    if not 10 <= cap <= MAX_CAP:
        raise ValueError(f"`cap` must lie between 10 and {MAX_CAP:g}; got {cap!r}.")
    if rtol is not None and not 1e-13 <= rtol <= 1e-2:
        raise ValueError(f"`rtol` must lie between 1e-13 and 1e-2; got {rtol!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1; got {tol!r}.")
    if until_log_time is not None and not math.isfinite(until_log_time):
        raise ValueError(f"`until_log_time` must be finite; got {until_log_time!r}.")
    if not max_evaluations >= 1:
        raise ValueError(f"`max_evaluations` must be at least 1; got {max_evaluations!r}.")
    log_S = problem.degree * math.log(np.linalg.norm(theta)) + math.log(problem.unit)
    if log_S > math.log(MAX_CAP / 10):
        raise ValueError(
            f"`start` has the sharpness 1e{log_S / math.log(10):.0f}; a flow needs a decade from there to a cap of at "
            f"most {MAX_CAP:g}: start from smaller parameters."
        )
    with double_precision(), one_blas_thread():
        run = _Run(problem, theta, cap, method, rtol, judge, tol, polishing, until_log_time, max_evaluations, progress)
        result = run.result()
    if twin and result.ending in (Ending.CERTIFIED, Ending.STATIONARY) and 10 * result.cap <= MAX_CAP:
        again = gradient_flow(
            problem,
            theta,
            cap=10 * result.cap,
            method=method,
            rtol=rtol,
            judge=judge,
            tol=tol,
            polishing=False,
            max_evaluations=4 * max_evaluations,  # the cost grows like the root of the cap
            progress=progress,
        )
        result = dataclasses.replace(result, twin=again)
    return result


def _check_number(name: str, value: object, *, may_be_none: bool) -> None:
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"`{name}` must be a number; got {value!r}.")


def checked_start(problem: AbstractProblem, start: Float[np.ndarray, " N"] | None) -> Float[np.ndarray, " N"]:
    """`start` as flat double-precision parameters. Raises `ValueError`, saying why, for one that no flow can leave."""
    if start is None:
        if not isinstance(problem, MarginProblem):
            raise ValueError("`start` is missing; pass the flat parameters to start from.")
        start = problem.start
    if isinstance(start, dict | list | tuple) and not np.array([isinstance(x, int | float) for x in start]).all():
        raise TypeError("`start` must be one flat vector; pass parameters of another structure to MarginProblem.")
    theta = np.asarray(start, dtype=float)
    if theta.shape != (problem.size,):
        raise ValueError(f"`start` must have shape ({problem.size},); got {theta.shape}.")
    if not np.isfinite(theta).all():
        raise ValueError(f"`start` must be finite; got {theta[~np.isfinite(theta)][0]}.")
    size = float(np.abs(theta).max())
    if size == 0:
        raise ValueError("`start` is zero, where the direction is undefined; start from any other point.")
    if not 1e-150 < size < 1e150:
        raise ValueError(
            f"`start` has entries of size {size:.3g}, whose squares leave double precision; rescale the problem."
        )
    return theta


class _Run:
    """One run's moving parts; `result()` drives them."""

    def __init__(
        self, problem, theta, cap, method, rtol, judge, tol, polishing, until_log_time, max_evaluations, progress
    ):
        self.problem, self.judge, self.tol, self.polishing = problem, judge, tol, polishing
        self.N = problem.size
        self.method, self.asked_rtol, self.asked_cap = method, rtol, cap
        self.progress = progress
        self.max_evaluations = max_evaluations
        self.cpu0 = time.process_time()
        self.polish_cpu = 0.0
        self.polish_steps = 0
        self.y0 = pack(problem, theta, math.log(np.linalg.norm(theta)))
        self.u0 = float(self.y0[self.N + 1])
        self.log_unit = float(np.log(problem.unit))
        self.log_S0 = problem.degree * self.y0[self.N] + self.log_unit
        # A start beyond the cap has no path below it: leave a decade.
        self.cap = max(cap, 10 * math.exp(min(self.log_S0, 600.0)))
        self.until_u = np.inf if until_log_time is None else float(np.logaddexp(until_log_time, self.y0[self.N + 1]))
        self.integrator = INTEGRATORS[method](Field(problem, np.asarray(math.log(self.cap))), self.y0)
        self.first_tolerances = self.tolerances  # they only tighten when the cap is raised: the path has the loosest
        self.crossed = False
        self.growing = math.nan
        self.segments = [(0.0, math.log(self.cap), 0.0)]  # from s on: log of the cap, log radius taken off
        self.plateaus: list[Plateau] = []

    @property
    def tolerances(self) -> tuple[float, float]:
        usual = 1e-8 if self.method == "lsoda" else 1e-4
        # S_c (atol + rtol / sqrt N) <= 0.1: looser, and the weights at the cap are wrong.
        rtol = min(usual if self.asked_rtol is None else self.asked_rtol, 0.09 * math.sqrt(self.N) / self.cap)
        return rtol, min(rtol / 100, 0.01 / self.cap)

    def log_sharpness(self) -> float:
        return self.problem.degree * self.integrator.y[self.N] + self.log_unit

    def advance(self, speed: float) -> Ending | None:
        """Integrate until slow at the cap. An ending when the flow came to something else."""
        field = Field(self.problem, np.asarray(math.log(self.cap)))
        low = min(self.log_S0, 0.0) - 60.0
        stop = Stop(
            self.problem, np.asarray(math.log(self.cap)), np.asarray(low), np.asarray(speed), np.asarray(self.until_u)
        )
        keep = Keep(
            self.problem, np.asarray(math.log(self.cap)), np.asarray(max(math.log(self.cap) - self.log_S0, 1.0) / 100)
        )
        rtol, atol = self.tolerances
        it = self.integrator
        while True:
            left = max(self.max_evaluations - it.n_evaluations, 1)
            it.advance(field, stop, keep, rtol=rtol, atol=atol, max_evaluations=min(CHUNK, left))
            if not np.isfinite(it.y).all() or it.stuck:
                return Ending.HORIZON
            log_S = self.log_sharpness()
            self._tell(log_S, speed)
            if log_S < low and self.problem.degree <= 1 and not self.crossed and self.cross_zero(low + 5):
                continue
            if np.linalg.norm(it.f[: self.N + 1]) < REST or log_S < low:
                return Ending.NOT_SEPARATED
            if it.y[self.N + 1] >= self.until_u:
                return Ending.TIME_REACHED
            slow = np.linalg.norm(it.f[: self.N]) < speed * abs(it.f[self.N])
            if slow and log_S >= math.log(self.cap):
                return None
            if it.n_evaluations >= self.max_evaluations:
                return Ending.PLATEAU

    def cross_zero(self, log_S: float) -> bool:
        """Weights of degree one may pass through zero, where polar coordinates end: go on along -grad L(0), if any."""
        self.crossed = True
        y, f = self.integrator.y, self.integrator.f
        g = f[: self.N] + f[self.N] * y[: self.N]
        size = np.linalg.norm(g)
        if not size > 0:
            return False
        self.integrator.restart(pack(self.problem, g / size, (log_S - self.log_unit) / self.problem.degree))
        return True

    def _tell(self, log_S: float, speed: float) -> None:
        if self.progress is not None:
            rise = (log_S - self.log_S0) / max(math.log(self.cap) - self.log_S0, 1e-9)
            waited = (-math.log10(speed) - 2) / 4
            self.progress("flow", max(0.0, min(0.6 * rise, 0.6)) + max(0.0, min(0.4 * waited, 0.39)))

    def measured(self) -> Arrival:
        """The present direction at the present (frozen) sharpness, judged by the handed-in test if there is one."""
        y = self.integrator.y
        log_S = min(self.log_sharpness(), math.log(self.cap))
        timed = log_S < math.log(self.cap) and len(self.segments) == 1
        log_time = _log_time(float(y[self.N + 1]), self.u0) if timed else math.nan
        arrival = measure(self.problem, y[: self.N], log_S, log_time=log_time)
        if self.judge is None:
            return arrival
        return dataclasses.replace(arrival, gap=self.judge(arrival.direction, arrival.selection, arrival.multipliers))

    def is_limit(self, arrival: Arrival, growing: float) -> bool:
        """Stationary and dual feasible: the gap is the complementarity, or nothing inactive grows."""
        settled = (
            arrival.least_margin > 0
            and arrival.stationarity <= max(arrival.entropy_bound, 1e-9)
            # A constraint that carries no weight and is not kept either makes C exceed its bound: no limit.
            and arrival.complementarity <= 1.2 * arrival.entropy_bound
        )
        if self.judge is None:
            return settled and growing <= GROWTH_TOLERANCE
        return settled and arrival.gap <= 1.1 * arrival.complementarity + 1e-12

    def try_polish(self, arrival: Arrival) -> tuple[Polished, float] | None:
        """The polished point with its growth rate when it is accepted: certified, near, on the same tokens."""
        cpu = time.process_time()
        selection, judge = arrival.selection, self.judge
        bound = None if judge is None else (lambda omega, p: judge(omega, selection, p))
        point = polish(
            self.problem,
            arrival.direction,
            selection,
            arrival.multipliers,
            math.exp(arrival.log_sharpness),
            judge=bound,
            tol=1e-2 * self.tol,
        )
        accepted = point.gap <= self.tol and point.change <= 0.1
        rate = math.nan
        if accepted:
            there = measure(self.problem, point.direction, arrival.log_sharpness)
            accepted = bool(np.array_equal(there.selection, selection)) and there.least_margin > 0
        if accepted and judge is None:
            rate = growth_rate(
                self.problem, point.direction, selection, point.multipliers, there.mean_margin * self.problem.degree
            )
            accepted = rate <= GROWTH_TOLERANCE
        self.polish_cpu += time.process_time() - cpu
        self.polish_steps += point.n_iterations
        return (point, rate) if accepted else None

    def result(self) -> FlowResult:
        polished: tuple[Polished, float] | None = None
        arrival: Arrival | None = None
        n_polishes = 0
        i = 0
        while True:
            ending = self.advance(SPEEDS[i])
            if ending is Ending.TIME_REACHED:
                return self.reached()
            arrival = self.measured()
            if ending is Ending.NOT_SEPARATED and arrival.selection.size == 0 and arrival.least_margin > 0:
                ending = Ending.HORIZON  # separated, by less than the arithmetic of the weights resolves
            if ending is not None:
                return self.finish(ending, arrival, polished)
            B, C = arrival.entropy_bound, arrival.complementarity
            if B > 2e-2 and arrival.mean_margin > 0:
                # B falls like 1/S: when no cap in reach would do, the data's scores are too large for their margins.
                if B * self.cap > 2e-2 * self.highest_cap(arrival) or not self.raise_cap(arrival):
                    return self.finish(Ending.HORIZON, arrival, polished)
                i = 0
                continue
            growing = math.nan
            if self.judge is None and arrival.mean_margin > 0:
                growing = growth_rate(
                    self.problem,
                    arrival.direction,
                    arrival.selection,
                    arrival.multipliers,
                    arrival.mean_margin * self.problem.degree,
                    tight=0.01,
                )
            self.growing = growing
            limit = self.is_limit(arrival, growing)
            near = limit or (self.judge is not None and arrival.gap <= 2 * C)
            if self.polishing and near and polished is None and n_polishes < 4:
                polished = self.try_polish(arrival)
                n_polishes += 1
            if limit and (polished is not None or not self.polishing):
                return self.finish(Ending.CERTIFIED, arrival, polished)
            if not limit:
                self.plateaus.append(
                    Plateau(s=self.integrator.s, stationarity=arrival.stationarity, gap=arrival.gap, complementarity=C)
                )
            floor = (
                0.5 * math.exp(arrival.log_sharpness) / arrival.arithmetic_horizon / max(abs(arrival.growth), 1e-300)
            )
            at_floor = i + 1 == len(SPEEDS) or SPEEDS[i + 1] < floor
            if (limit and n_polishes >= 2) or (at_floor and limit):
                if not self.raise_cap(arrival):
                    return self.finish(Ending.HORIZON, arrival, polished)
                i, n_polishes = 0, 0
            elif at_floor:
                return self.finish(Ending.STATIONARY, arrival, polished)
            else:
                i += 1

    def highest_cap(self, arrival: Arrival) -> float:
        """The largest cap that a run may be raised to."""
        return min(max(HIGHEST_RAISE, self.asked_cap), arrival.arithmetic_horizon / 10)

    def raise_cap(self, arrival: Arrival) -> bool:
        """Ten times the cap, from the unpolished direction at the old one; false at the horizon."""
        if 10 * self.cap > self.highest_cap(arrival):
            return False
        # Past the cap r went on growing at a frozen sharpness: the flow resumes from the cap, as if it had not, and
        # the clock u, which has no meaning any more, is set anew.
        excess = max(0.0, (self.log_sharpness() - math.log(self.cap)) / self.problem.degree)
        y = self.integrator.y
        self.integrator.restart(pack(self.problem, y[: self.N], float(y[self.N]) - excess))
        self.cap *= 10
        self.segments.append((self.integrator.s, math.log(self.cap), self.segments[-1][2] + excess))
        return True

    def reached(self) -> FlowResult:
        s, y = self.integrator.crossing(self.N + 1, self.until_u)
        self.integrator.s, self.integrator.y = s, y
        return self.finish(Ending.TIME_REACHED, self.measured(), None)

    def finish(self, ending: Ending, arrival: Arrival, polished: tuple[Polished, float] | None) -> FlowResult:
        it = self.integrator
        rtol, atol = self.first_tolerances
        s, y = it.kept()
        before = s < it.s
        s, y = np.append(s[before], it.s), np.vstack([y[before], it.y])
        begin, log_cap, taken_off = map(np.array, zip(*self.segments, strict=True))
        segment = np.maximum(np.searchsorted(begin, s, side="left") - 1, 0)
        log_S = self.problem.degree * y[:, self.N] + self.log_unit
        timed = (segment == 0) & (log_S < log_cap[0])
        log_time = np.array([_log_time(float(u), self.u0) for u in y[:, self.N + 1]])
        trajectory = Trajectory(
            clock="s",
            time=s,
            direction=y[:, : self.N] / np.linalg.norm(y[:, : self.N], axis=1, keepdims=True),
            log_radius=y[:, self.N] + taken_off[segment],
            log_time=np.where(timed, log_time, np.nan),
            log_sharpness=np.minimum(log_S, log_cap[segment]),
        )
        cpu = time.process_time() - self.cpu0 - self.polish_cpu
        return FlowResult(
            ending=ending,
            reason=_reason(ending, arrival, polished, self),
            arrival=arrival,
            polished=None if polished is None else polished[0],
            growth_rate=self.growing if polished is None else polished[1],
            trajectory=trajectory,
            cap=self.cap,
            rtol=rtol,
            atol=atol,
            method=self.method,
            plateaus=tuple(self.plateaus),
            cost=Cost(n_evaluations=it.n_evaluations, n_steps=it.n_steps, n_rejected=it.n_rejected, cpu_seconds=cpu),
            degree=self.problem.degree,
            log_unit=self.log_unit,
            polish_cost=Cost(n_evaluations=0, n_steps=self.polish_steps, n_rejected=0, cpu_seconds=self.polish_cpu),
        )


def _log_time(u: float, u0: float) -> float:
    """`log t` from `u = log(t + t0)`, `u0 = log t0`; -inf at the start."""
    return u + math.log1p(-math.exp(u0 - u)) if u > u0 else -math.inf


def _reason(ending: Ending, arrival: Arrival, polished, run: _Run) -> str:
    C, B, S = arrival.complementarity, arrival.entropy_bound, math.exp(min(arrival.log_sharpness, 700.0))
    numbers = (
        f"stationarity {arrival.stationarity:.1e}, complementarity {C:.1e}, "
        f"entropy bound {B:.1e}, gap {arrival.gap:.1e}"
    )
    match ending:
        case Ending.CERTIFIED:
            tail = (
                ""
                if polished is None
                else f"; limit point certified to {polished[0].gap:.1e}, {polished[0].change:.1e} away"
            )
            return f"arrived at sharpness {S:.1e} ({numbers}){tail}."
        case Ending.STATIONARY:
            return f"at rest in direction at sharpness {S:.1e}, yet inactive directions would grow ({numbers})."
        case Ending.PLATEAU:
            n = run.integrator.n_evaluations
            return f"still moving after {n} field evaluations, at sharpness {S:.1e} ({numbers})."
        case Ending.HORIZON:
            return (
                f"arithmetic or tolerance ends the run at sharpness {S:.1e} before a limit is decided ({numbers}); "
                f"rounding ends at {arrival.arithmetic_horizon:.1e}."
            )
        case Ending.NOT_SEPARATED:
            if S < 1e-20:
                return f"the weights shrink to zero (sharpness {S:.1e}): no direction is selected."
            return (
                f"the gradient has vanished beside its weights at the finite sharpness {S:.1e}: "
                "the flow rests there, or creeps, and no direction is selected."
            )
        case Ending.TIME_REACHED:
            return f"reached log t = {arrival.log_time:.6g} at sharpness {S:.1e} ({numbers})."
