"""Claims of `negative_shifted_descent` about the filter: what the runs do to each eigenvalue, against closed forms.

The runs work on X and y and know nothing of eigenvalues; the closed forms know nothing of the runs.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...flows import shifted_descent, shifted_flow
from ...limits.spectral_filters import (
    crossing,
    descent_crossings,
    descent_filter,
    flow_filter,
    negative_ridge_filter,
    smallest_positive,
    step_condition,
)

EPS = float(np.finfo(float).eps)
RTOL = 1e-11  # of the flow's integrator
LOSS = "squared"
MOST_STEPS = 50_000
_GRID = 61  # eigenvalues at which a run looks for crossings, in each of four rounds


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """A regression problem with its spectrum: `X` (n, d), `y` (n,), positive eigenvalues `m` ascending, and axes.

    - `V`: eigenvectors of X'X/n for `m`, shape (d, r); `ridgeless`: `V'` of the least-norm interpolant, shape (r,).
    - `backward`: the decomposition's own error, measured: `|X - U s V'| / |X|`, directions that were left out among
      it, and how far U and V are from orthonormal. (LAPACK's may be tens of eps even for three columns.)
    """

    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    m: Float[np.ndarray, " r"]
    V: Float[np.ndarray, "d r"]
    ridgeless: Float[np.ndarray, " r"]
    backward: float

    @classmethod
    def of(cls, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"] | None = None) -> "Rows":
        """The spectrum by a singular value decomposition; without `y`, one that shows every eigenvector alike."""
        U, singular, Vt = np.linalg.svd(X, full_matrices=False)
        kept = singular > singular[0] * max(X.shape) * EPS
        order = np.flatnonzero(kept)[::-1]
        U, singular, Vt = U[:, order], singular[order], Vt[order]
        size, eye = float(np.linalg.norm(X)), np.eye(order.size)
        missed = float(np.linalg.norm(X - (U * singular) @ Vt)) / size
        tilted = float(np.linalg.norm(U.T @ U - eye)) + float(np.linalg.norm(Vt @ Vt.T - eye))
        if y is None:
            y = U @ singular  # the interpolant's coefficient is 1 along every eigenvector
        return cls(
            X=X,
            y=y,
            m=singular**2 / len(y),
            V=Vt.T,
            ridgeless=(U.T @ y) / singular,
            backward=missed + tilted + 4 * EPS,  # and what rounds in taking these differences
        )

    @property
    def rounding(self) -> float:
        """Relative rounding error of one velocity: `(n + d) eps`, the worst case of its two products."""
        return sum(self.X.shape) * EPS

    def velocity_size(self, b: Float[np.ndarray, " d"], nu: float) -> float:
        """The sizes that the two products of a velocity at b add up and cancel; they round to `rounding` times this."""
        X, size = float(np.linalg.norm(self.X)), float(np.linalg.norm(b))
        return X * (float(np.linalg.norm(self.y)) + X * size) / len(self.y) + nu * size

    def step_error(self, b: Float[np.ndarray, " d"], nu: float, eta: float) -> float:
        """Rounding of one step of descent at b: of its velocity, and of the sum."""
        return eta * self.rounding * self.velocity_size(b, nu) + EPS * float(np.linalg.norm(b))

    def run_error(self, b: Float[np.ndarray, " d"], nu: float, *, eta: float, steps: int) -> float:
        """How far a run and the formula may lie apart by rounding, as a length, after `steps` steps that end at b.

        Every step adds its `step_error`, which later steps multiply by `1 + eta nu` at most (`eta m_max <= 1`; b grows
        with the steps, so its last length stands for all). The decomposition is the exact one of rows `X + E`, |E| at
        most `backward |X|`; the run on these differs in each step by `eta (E'(y - Xb) - X'Eb)/n`, at most
        `eta backward` times `velocity_size`. Both are relative to |X| |y| / n and not to X'y/n, in which these cancel.
        The product with V and the filter's own rounding remain.
        """
        growth = math.expm1(steps * math.log1p(eta * nu)) / (eta * nu) if eta * nu > 0 else float(steps)
        decomposition = eta * self.backward * self.velocity_size(b, nu)
        product = self.rounding + self.backward + (8 + steps * eta * nu) * EPS
        return growth * (self.step_error(b, nu, eta) + decomposition) + product * float(np.linalg.norm(b))

    def measured(self, b: Float[np.ndarray, "T d"]) -> Float[np.ndarray, "T r"]:
        """The filter that coefficients stand for, `V'b` over the interpolant's."""
        return (b @ self.V) / self.ridgeless


def gaussian_rows(n: int, d: int, *, seed: int, even: bool = False) -> Rows:
    """A small design, X (n, d) standard normal and y (n,) standard normal, drawn in this order.

    `even`: with a `y` that shows every eigenvector alike in place of the drawn one.
    """
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    return Rows.of(X, None if even else y)


# -- the formula ----------------------------------------------------------------------------------------------------


def filter_formula(rows: Rows, *, dynamics: str, judged_by: str | None = None, eta: float | None = None) -> Verdict:
    """`filter-formula`: coefficients of a run against the formula, at several shifts and times.

    - `dynamics`: `"flow"` or `"descent"`; `judged_by`: the other's formula, and `eta`: a step size, for counters.
    """
    judged_by = dynamics if judged_by is None else judged_by
    top = float(rows.m[-1])
    eta = 0.5 / top if eta is None else eta
    steps = np.array([1, 3, 10, 30])
    worst = (0.0, math.inf, {})
    for nu in (0.0, 0.5 * float(rows.m[0]), float(np.median(rows.m))):
        if dynamics == "descent":
            path = shifted_descent(rows.X, rows.y, nu=nu, eta=eta, steps=[int(k) for k in steps])
            integrator = np.zeros(steps.size)
        else:
            path = shifted_flow(rows.X, rows.y, nu=nu, times=[float(t) for t in eta * steps], rtol=RTOL)
            integrator = 10 * RTOL * path.cost.n_steps * np.exp(nu * eta * steps)
        if judged_by == "descent":
            f = descent_filter(rows.m, nu, steps, eta=eta)
        else:
            f = flow_filter(rows.m, nu, eta * steps)
        formula = (f * rows.ridgeless) @ rows.V.T
        lengths = np.linalg.norm(formula, axis=1)
        errors = np.linalg.norm(path.b - formula, axis=1) / lengths
        # `U'y / s` is as good as y is long, whatever it has along U.
        along = EPS * len(rows.y) + rows.backward
        along *= np.linalg.norm(rows.y) * np.max(f / np.sqrt(len(rows.y) * rows.m), axis=1)
        rounding = [rows.run_error(b, nu, eta=eta, steps=int(k)) for b, k in zip(formula, steps, strict=True)]
        bounds = integrator + (np.array(rounding) + along) / lengths
        for k, error, bound in zip(steps, errors, bounds, strict=True):
            if error / bound >= worst[0] / worst[1]:
                worst = (float(error), float(bound), {"nu": nu, "eta": eta, "steps": int(k)})
    return Verdict(
        claim="filter-formula",
        parametrisation=dynamics,
        loss=LOSS,
        kind=Kind.EQUALITY,
        measured=worst[0],
        bound=worst[1],
        slack=0.0,
        unit="relative error of b",
        undecided=None if worst[1] < 1e-3 else f"rounding may be as large as {worst[1]:.2g} here.",
        details={**worst[2], "n": len(rows.y), "d": rows.X.shape[1], "judged_by": judged_by},
    )


# -- where it crosses 1 ---------------------------------------------------------------------------------------------


def run_filter(
    m: Float[np.ndarray, " n"], nu: float, *, t: float | None = None, k: int = 0, eta: float = 0.0
) -> Float[np.ndarray, " n"]:
    """The filter as a run shows it: on the diagonal design with these eigenvalues, whose interpolant is all ones."""
    X = np.diag(np.sqrt(m.size * m))
    y = np.sqrt(m.size * m)
    if t is not None:
        return shifted_flow(X, y, nu=nu, times=[t], rtol=RTOL).b[0]
    return shifted_descent(X, y, nu=nu, eta=eta, steps=[k]).b[0]


def found_crossings(low: float, high: float, nu: float, **run) -> list[float]:
    """Every eigenvalue in [low, high] at which a run's filter passes 1: seen on a grid, and each closed in on."""

    def brackets(low: float, high: float) -> list[tuple[float, float, float, float]]:
        m = np.geomspace(low, high, _GRID)
        f = run_filter(m, nu, **run) - 1
        at = np.flatnonzero(np.sign(f[:-1]) * np.sign(f[1:]) < 0)
        return [(float(m[i]), float(m[i + 1]), float(f[i]), float(f[i + 1])) for i in at]

    found = []
    for bracket in brackets(low, high):
        for _ in range(3):
            finer = brackets(bracket[0], bracket[1])
            if len(finer) != 1:  # the ends are told apart by rounding only
                break
            bracket = finer[0]
        a, b, fa, fb = bracket
        found.append(a - fa * (b - a) / (fb - fa))
    return found


def one_crossing_flow(pairs: Sequence[tuple[float, float]]) -> Verdict:
    """`one-crossing` for the flow: each pair (nu, t) crosses 1 once, at the Lambert-W point.

    Bound: the integrator's error, which grows like `e^{nu t}` at most, over the filter's slope in log m where it is 1,
    `nu (t m - 1) / (m - nu)` (derived here; 1 at m = nu).
    """
    errors, counts, bounds = [], [], []
    for nu, t in pairs:
        m_c = float(crossing(nu, t))
        # A window that nu and t set, without the prediction: m e^{-tm} = nu e^{-t nu} needs m >= nu e^{-t nu}.
        found = found_crossings(0.5 * nu * math.exp(-nu * t) if nu else 1e-3 / t, 30 * max(nu, 1 / t), nu, t=t)
        counts.append(len(found))
        slope = nu * (t * m_c - 1) / (m_c - nu) if 0 < m_c < math.inf and abs(m_c - nu) > 1e-6 * nu else 1.0
        bounds.append(100 * RTOL * math.exp(nu * t) / slope)
        errors.append(min((abs(x - m_c) / m_c for x in found), default=math.inf) if m_c < math.inf else math.inf)
    at = max(range(len(errors)), key=lambda i: errors[i] / bounds[i])
    return _crossings(
        "one-crossing",
        "flow",
        errors[at : at + 1],
        wrong=sum(c != 1 for c in counts),
        name="exactly one crossing for every pair",
        bound=bounds[at],
        details={"pairs": [list(p) for p in pairs], "counts": counts},
    )


def one_crossing_descent(runs: Sequence[tuple[float, int, float]], top: float) -> Verdict:
    """`one-crossing` for descent: on eigenvalues up to `top` each (nu, k, eta) crosses 1 once, where predicted.

    What happens above the step condition is not predicted here: there the claim must fail.
    """
    errors, counts, condition = [], [], True
    for nu, k, eta in runs:
        condition = condition and step_condition(np.array([top]), nu, eta=eta)
        predicted = descent_crossings(nu, k, eta=eta)
        found = found_crossings(top * 1e-4, top, nu, k=k, eta=eta)
        counts.append(len(found))
        errors.append(
            max((min(abs(x - p) / p for p in predicted[:1]) for x in found), default=math.inf)
            if predicted
            else math.inf
        )
    return _crossings(
        "one-crossing",
        "descent",
        errors,
        wrong=sum(c != 1 for c in counts),
        name="exactly one crossing for every run",
        bound=1e-9,
        details={"runs": [list(r) for r in runs], "counts": counts, "largest_eigenvalue": top},
        assumptions=(Assumption(name="step condition eta (m_max - nu) <= 1", holds=condition),),
    )


def two_crossings(nu: float, k: int, eta: float) -> Verdict:
    """`two-crossings`: beyond the step condition an even k crosses 1 twice, where predicted."""
    predicted = descent_crossings(nu, k, eta=eta)
    found = found_crossings(nu * 1e-3, nu + 1.999 / eta, nu, k=k, eta=eta)
    both = len(predicted) == len(found) == 2
    errors = [abs(x - p) / p for x, p in zip(found, predicted, strict=False)] if both else [math.inf]
    return _crossings(
        "two-crossings",
        "descent",
        errors,
        wrong=int(not both),
        name="exactly two crossings",
        bound=1e-9,
        details={"nu": nu, "k": k, "eta": eta, "predicted": list(predicted), "found": found},
        assumptions=(Assumption(name="an even number of steps", holds=k % 2 == 0, measured=float(k)),),
    )


def _crossings(claim, parametrisation, errors, *, wrong, name, bound, details, assumptions=()) -> Verdict:
    return Verdict(
        claim=claim,
        parametrisation=parametrisation,
        loss=LOSS,
        kind=Kind.EQUALITY,
        measured=float(max(errors)),
        bound=bound,
        slack=0.0,
        undecided=None if bound < 1e-3 else f"errors of the run may move a crossing by {bound:.2g}.",
        unit="relative distance to the predicted eigenvalue",
        conditions=(Assumption(name=name, holds=wrong == 0, measured=float(wrong)),),
        assumptions=assumptions,
        details=details,
    )


# -- the endpoint -----------------------------------------------------------------------------------------------------


def endpoint_pole(rows: Rows, *, start: Float[np.ndarray, " d"] | None = None, most_steps: int = MOST_STEPS) -> Verdict:
    """`endpoint-pole`: the shift at which runs stop settling is the smallest nonzero eigenvalue.

    Steps of a run shrink or grow by the factor `1 - eta (m - nu)` of their slowest direction; late in two runs, one on
    each side of the predicted end, that factor is read off, and with it the shift at which it would be 1. `rows` with
    d <= n: where S has null directions, rounding in them grows like `(1 + eta nu)^k`, and no run settles.

    The step k is `q_i^k a_i` along the eigenvector i, `q_i = 1 - eta (m_i - nu)`, and a the first step. The end read
    off as `nu + (1 - factor) / eta` is the mean of the m_i with these squared as weights, so that others than the first
    add `sum_i min(1, (a_i q_i^k / a_1 q_1^k)^2) (m_i / m_1 - 1)` at most. Rounding of a step, r beside its length, adds
    `2 r / (eta m_1)` and, left along other directions, `(4 r)^2 m_max / m_1`; the decomposition has an error of
    `2 backward |X| / s_1` in m_1 itself. (All derived here.)
    """
    least, top = float(rows.m[0]), float(rows.m[-1])
    eta = 1 / top

    def others(k: int, nu: float) -> float:
        first = rows.m * rows.ridgeless
        if start is not None:
            first = first - (rows.m - nu) * (start @ rows.V)
        if first[0] == 0:
            return math.inf
        with np.errstate(divide="ignore", over="ignore"):  # a direction that has faded to zero is log 0
            q = np.log1p(-eta * (rows.m[1:] - nu)) - math.log1p(-eta * (least - nu))
            weights = np.exp(np.minimum(0.0, 2 * (np.log(np.abs(first[1:] / first[0])) + k * q)))
        return float(weights @ (rows.m[1:] / least - 1))

    # As many steps as it takes until the first direction is left alone. The shifts lie so near to the end that steps
    # have not shrunk to rounding by then.
    k = 4
    while k < most_steps and others(k, least) > 1e-8:
        k = min(2 * k, most_steps)
    offset = min(0.03, 9 / (k * eta * least))
    ends, settles, bounds = [], [], []
    for share in (1 - offset, 1 + offset):
        nu = share * least
        path = shifted_descent(rows.X, rows.y, nu=nu, eta=eta, steps=[k, k + 1, k + 2], start=start)
        first, second = np.diff(path.b, axis=0)
        size = float(np.abs(first).max())
        # Both divided by their size: squares would leave the range of doubles where runs leave the row space.
        factor = float((second / size) @ (first / size) / ((first / size) @ (first / size))) if size > 0 else math.nan
        ends.append(nu + (1 - factor) / eta)
        settles.append(factor < 1)
        # Two steps, each of its own rounding; errors of earlier ones fade, or grow no faster than the step itself.
        length = size * float(np.linalg.norm(first / size)) if size > 0 else 0.0
        r = 2 * rows.step_error(path.b[-1], nu, eta) / length if length > 0 else math.inf
        bounds.append(others(k, nu) + 2 * r / (eta * least) + (4 * r) ** 2 * top / least)
    measured = max(abs(end - least) for end in ends) / least
    bound = max(bounds) + 2 * rows.backward * math.sqrt(len(rows.m) * top / least)
    decides = bound < 1e-3
    return Verdict(
        claim="endpoint-pole",
        parametrisation="endpoint",
        loss=LOSS,
        kind=Kind.EQUALITY,
        measured=measured,
        bound=bound,
        slack=0.0,
        unit="relative distance to m_min+",
        conditions=(
            Assumption(name="settles below m_min+", holds=settles[0]),
            Assumption(name="runs away above m_min+", holds=not settles[1]),
        ),
        undecided=None
        if decides
        else f"after {k} steps other directions and rounding may move what is read off by {bound:.2g}.",
        details={"m_min": least, "ends": ends, "offset": offset, "steps": k, "eta": eta},
    )


def anti_shrinkage(rows: Rows, *, t: float = math.inf, share: float = 0.5) -> Verdict:
    """`anti-shrinkage`: the endpoint amplifies every mode by `m / (m - nu)`, the smaller the more.

    Measured: pairs of neighbours whose smaller eigenvalue is not amplified more. `t`: a finite stopping time, and
    `share`: nu over m_min+, for a counter-instance.
    """
    least, eta = smallest_positive(rows.m), 1 / float(rows.m[-1])
    nu = share * least
    settled = math.ceil(math.log(1e-15) / math.log(1 - eta * (least - nu)))
    k = settled if math.isinf(t) else max(1, round(t / eta))
    f = rows.measured(shifted_descent(rows.X, rows.y, nu=nu, eta=eta, steps=[k]).b)[0]
    apart = np.diff(rows.m) > rows.rounding * float(rows.m[-1])  # equal eigenvalues are amplified alike
    wrong = int(np.sum((f[:-1] <= f[1:]) & apart))
    error, bound = math.inf, 0.0
    if nu < least:
        formula = negative_ridge_filter(rows.m, nu)
        b = (formula * rows.ridgeless) @ rows.V.T
        # Rounding of a step, and the decomposition's error in the velocity, summed by a mode over the steps in which it
        # settles; then what the interpolant's coefficient, the products with V, and the end of the run round.
        drift = rows.step_error(b, nu, eta) / eta + rows.backward * rows.velocity_size(b, nu)
        n, size = len(rows.y), float(np.linalg.norm(rows.y))
        off = drift / (rows.m - nu) + (rows.rounding + rows.backward) * float(np.linalg.norm(b))
        off /= np.abs(formula * rows.ridgeless)
        off += (n * EPS + rows.backward) * size / np.sqrt(n * rows.m) / np.abs(rows.ridgeless) + 1e-15 + 8 * EPS
        errors = np.abs(f / formula - 1)
        at = int(np.argmax(errors / off))
        error, bound = float(errors[at]), float(off[at])
    return Verdict(
        claim="anti-shrinkage",
        parametrisation="endpoint",
        loss=LOSS,
        kind=Kind.COUNT,
        measured=float(wrong),
        bound=0.0,
        slack=0.0,
        unit="neighbours in the wrong order",
        conditions=(
            Assumption(name="every mode above ridgeless", holds=bool(f.min() > 1), measured=float(f.min())),
            Assumption(name="the filter is m / (m - nu)", holds=error <= bound, measured=error),
        ),
        details={"nu": nu, "m_min": least, "steps": k, "largest_filter": float(f.max()), "error_bound": bound},
    )


# -- the prefix -------------------------------------------------------------------------------------------------------


def leading_prefix(
    rows: Rows,
    nu: float,
    *,
    t: float | None = None,
    k: int = 0,
    eta: float = 0.0,
    start: Float[np.ndarray, " d"] | None = None,
) -> Verdict:
    """`leading-prefix`: the modes that a run carries above ridgeless are those of the largest eigenvalues.

    Measured: modes above ridgeless that stand behind one that is not. `rows` without a `y` of their own; `start`: where
    the run starts, for a counter-instance.
    """
    if t is not None:
        b = shifted_flow(rows.X, rows.y, nu=nu, times=[t], rtol=RTOL, start=start).b[0]
        condition, error = True, 100 * RTOL * math.exp(nu * t)
    else:
        b = shifted_descent(rows.X, rows.y, nu=nu, eta=eta, steps=[k], start=start).b[0]
        condition, error = step_condition(rows.m, nu, eta=eta), rows.run_error(b, nu, eta=eta, steps=k)
    f = rows.measured(b[None])[0][::-1]  # largest eigenvalue first
    above = f > 1
    prefix = int(above.argmin()) if not above.all() else above.size
    close = float(np.min(np.abs(f - 1)))
    return Verdict(
        claim="leading-prefix",
        parametrisation="flow" if t is not None else "descent",
        loss=LOSS,
        kind=Kind.COUNT,
        measured=float(np.sum(above[prefix:])),
        bound=0.0,
        slack=0.0,
        unit="modes out of order",
        undecided=None if close > error else f"a mode is within {close:.2g} of ridgeless, which rounding could turn.",
        assumptions=()
        if t is not None
        else (Assumption(name="step condition eta (m_max - nu) <= 1", holds=condition),),
        details={"nu": nu, "t": t, "k": k, "eta": eta, "above": int(above.sum()), "modes": f.size},
    )
