"""Claims of `early_stopping` about the risks themselves: Bayes direction, excess and angle, calibration.

Each is checked on weight vectors in full dimension by something that the exact risks do not use: integrals over the
inputs instead of over the margin, 0-1 risks as differences of two normal tails, minimisation from a random start.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.special import expit, ndtr

from ...claims import Assumption, Kind, Verdict
from ...limits.mixture_risk import MixtureRisk, Seen
from ._stopping_claims import judged
from ._stopping_draws import Setting, draw_seed
from ._stopping_statistics import Runs

ARRIVED = 1e-6
"""Distance to the predicted minimiser, relative to its size, within which an optimisation has arrived."""

INEXACT = 1e-3
"""Difference of two rules from which both may be wrong: neither has nodes where rare inputs make the loss."""

SMALLEST = 0.01
"""Angle below which an excess as the difference of two normal tails has lost more than half of its digits."""


def quadratic_excess(
    setting: Setting,
    runs: Runs,
    *,
    seed: int,
    n_samples: int = 2,
    reference: Float[np.ndarray, " d"] | None = None,
) -> Verdict:
    """`quadratic-excess`: `R - R* = (1-2p) phi(r) r theta^2/2`, up to a relative error that the angle bounds.

    With `u = 1 - cos theta`, excess over `(1-2p) phi(r) r` is the integral of `exp(r^2 v - r^2 v^2/2)` over [0, u], so
    that its ratio to `theta^2/2` lies between `1 - theta^2/12` and `exp(r^2 theta^2/2)` (derived here). Measured: the
    largest relative error over what these allow, at most 1, over the marks of some paths and over segments from their
    best marks to the Bayes direction, where `r theta <= 1`. The excess is taken by the risks' definition, as the
    difference of `Phi(-s)` and `Phi(-r)`, `s = w'mu/|w|_Sigma`. Slack: the rounding of that difference, to first order
    `eps Phi(-s)` of the tails and `phi(s) r eps` of the signal, times the roundings of a sum of d products; judged is
    the entry that is worst with its slack. `reference`: the direction that angles are taken to, for a counter-instance.
    """
    risk, m = setting.risk, setting.mixture
    angles, found, roundings = [], [], []
    eps = (8 + math.sqrt(m.d)) * float(np.finfo(float).eps)
    for W in _paths(setting, runs, seed=seed, n_samples=n_samples):
        size = np.linalg.norm(W * np.sqrt(m.eigenvalues), axis=1)
        signal = (W @ m.mean) / size
        excess = (1 - 2 * m.flips) * (ndtr(-signal) - ndtr(-m.r))
        density = np.exp(-signal * signal / 2) / math.sqrt(2 * math.pi)
        roundings.append((1 - 2 * m.flips) * eps * (ndtr(-signal) + m.r * density))
        angle = risk.see(W).angle if reference is None else _angles(W, reference, m.eigenvalues)
        angles.append(angle)
        found.append(excess)
    angle, excess, rounding = map(np.concatenate, (angles, found, roundings))
    used = (angle >= SMALLEST) & (m.r * angle <= 1)
    angle, excess, rounding = angle[used], excess[used], rounding[used]
    law = (1 - 2 * m.flips) * math.exp(-m.r * m.r / 2) / math.sqrt(2 * math.pi) * m.r * angle**2 / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        allowed = np.maximum(angle**2 / 12, np.expm1(m.r**2 * angle**2 / 2))
        error = np.abs(excess / law - 1) / allowed
        slack = rounding / law / allowed
    proved = error - slack
    worst = proved if (proved > 1).any() else error + slack
    at = int(np.argmax(worst)) if error.size else 0
    exponent = _exponent(angle, excess)
    return judged(
        "quadratic-excess",
        Kind.EQUALITY,
        setting,
        runs,
        measured=float(error[at]) if error.size else math.nan,
        bound=1.0,
        slack=float(slack[at]) if error.size else math.inf,
        unit="relative error over what the angle allows",
        undecided=None
        if error.size >= 10
        else f"only {error.size} weight vectors are as near to Bayes as r theta <= 1.",
        details={
            "weight_vectors": int(error.size),
            "angles": [float(angle.min()), float(angle.max())] if error.size else [],
            "exponent": exponent,
        },
    )


def _paths(setting: Setting, runs: Runs, *, seed: int, n_samples: int) -> list[Float[np.ndarray, "T d"]]:
    """Weight vectors of some samples of the smallest and the largest size, and of segments to Bayes."""
    found = []
    for n in (min(runs), max(runs)):
        for i in range(n_samples):
            W, best = path(setting, n, draw_seed(seed, 1, n, i))
            w = W[best] / np.linalg.norm(W[best] * np.sqrt(setting.mixture.eigenvalues))
            b = setting.risk.bayes_direction / setting.mixture.r
            share = np.geomspace(1.0, 1e-3, 24)[:, None]
            found += [W, b + share * (w - b)]
    return found


def path(setting: Setting, n: int, seed: int) -> tuple[Float[np.ndarray, "T d"], int]:
    """The weights at the marks, and which is the best."""
    from ...flows.logistic_descent import logistic_descent

    Z = setting.mixture.sample(n, seed).Z
    W = logistic_descent(gram=Z @ Z.T, n_steps=setting.n_steps).alpha @ Z
    return W, int(np.argmin(setting.risk.excess(W)))


def _angles(W: np.ndarray, direction: np.ndarray, eigenvalues: np.ndarray) -> Float[np.ndarray, " T"]:
    V = W * np.sqrt(eigenvalues)
    v = direction * np.sqrt(eigenvalues)
    return np.arccos(np.clip(V @ v / np.linalg.norm(V, axis=1) / np.linalg.norm(v), -1, 1))


def _exponent(angle: np.ndarray, excess: np.ndarray) -> float | None:
    """The slope of log excess in log angle over the smaller half of the angles."""
    if angle.size < 10 or (excess <= 0).any():
        return None
    near = angle <= np.median(angle)
    return float(np.polyfit(np.log(angle[near]), np.log(excess[near]), 1)[0])


# -- calibration ------------------------------------------------------------------------------------------------------


def calibration(setting: Setting, runs: Runs, *, constant: float | None = None) -> Verdict:
    """`calibration`: excess 0-1 risk is at most K times the excess logistic risk, without a square root.

    Measured: the largest ratio at the marks of all samples; bound: the supremum of the ratio over all weight vectors
    (computed in `MixtureRisk.calibration`, with an upper bound by intervals), less than 1% above it. The local
    constant, of weight vectors that approach the minimiser by turning, stands in the details: along a path the ratio
    may be above it. `constant`: another K, for a counter-instance.
    """
    known = setting.risk.calibration
    ratio, slack, local = 0.0, 0.0, []
    for some in runs.values():
        for run in some:
            logistic = setting.risk.logistic_excess(run.seen)
            # Where both are zero the ratio is no number, and where one is, it proves nothing.
            ratios = np.divide(run.excess, logistic.value, out=np.zeros(run.excess.shape), where=logistic.value > 0)
            at = int(np.argmax(ratios))
            if ratios[at] > ratio:
                ratio, slack = float(ratios[at]), float(ratios[at] * logistic.error[at] / logistic.value[at])
            local.append(float(ratios[run.best]))
    # Small steps from the minimiser that only turn: what the local constant is a limit of.
    turned = np.geomspace(1e-1, 1e-4, 7)
    near = Seen(size=np.full(turned.size, setting.risk.minimum.size), angle=turned)
    approach = setting.risk.excess(near) / setting.risk.logistic_excess(near).value
    return judged(
        "calibration",
        Kind.UPPER,
        setting,
        runs,
        measured=ratio,
        bound=known.supremum if constant is None else constant,
        slack=slack,
        unit="excess 0-1 risk over excess logistic risk",
        conditions=()
        if constant is not None
        else (
            Assumption(
                name="the supremum is proved to 2%",
                holds=known.upper <= 1.02 * known.supremum,
                measured=known.upper,
            ),
        ),
        details={
            "local": known.local,
            "approached_by_turning": float(approach[-1]),
            "global": known.supremum,
            "global_upper": known.upper,
            "global_at": {"angle": known.angle, "size": known.size},
            "at_the_oracle": [min(local), max(local)],
        },
    )


# -- the minimiser ----------------------------------------------------------------------------------------------------


def bayes_direction(
    setting: Setting, runs: Runs, *, seed: int, expected: Float[np.ndarray, " d"] | None = None
) -> Verdict:
    """`bayes-direction`: the population's logistic loss is least at `c* Sigma^{-1} mu`, c* from one variable's problem.

    Measured: the larger of two distances from there, relative to its size, in the metric of Sigma. In full dimension
    the risk (an integral over the margin, by a rule of its own) is minimised from a random start; and on the mixture
    of the three leading directions the loss is integrated over the inputs themselves, in three dimensions, and
    minimised by Newton's method, which does not know that risks depend on two numbers only. Slack: what the two
    minimisations left, and the difference of two rules. `expected`: another direction, for a counter-instance.
    """
    m, risk = setting.mixture, setting.risk
    deviations = np.sqrt(m.eigenvalues)
    b = m.mean / deviations
    c = risk.minimum.c
    whole, left = _full_dimension(b, m.flips, seed=seed)
    lead = min(3, m.d)
    unit = m.eigenvalues[:lead].max()  # no product of inputs then leaves the range of doubles
    mean, eigenvalues = m.mean[:lead] / math.sqrt(unit), m.eigenvalues[:lead] / unit
    # The leading directions carry a part of the signal: the same r, so that c* is the same.
    mean = mean * (m.r / float(np.linalg.norm(mean / np.sqrt(eigenvalues))))
    (few, step), (coarse, _) = (_few_dimensions(mean, np.sqrt(eigenvalues), m.flips, n) for n in (48, 32))
    small = MixtureRisk(mean=mean, eigenvalues=eigenvalues, flips=m.flips).minimum.c * mean / np.sqrt(eigenvalues)
    target = c * b if expected is None else expected * deviations
    if expected is not None:
        target = target * (c * m.r / float(np.linalg.norm(target)))
    distances = {
        "full_dimension": _relative(whole, target),
        "three_dimensions": _relative(few, small),
    }
    slack = max(left, step, _relative(coarse, few))
    return judged(
        "bayes-direction",
        Kind.EQUALITY,
        setting,
        runs,
        measured=max(distances.values()),
        bound=ARRIVED,
        slack=slack,
        unit="distance over the minimiser's size",
        undecided=None if slack < INEXACT else f"the integral in three dimensions is known to {slack:.1g} only.",
        details={"c": c, "logistic_risk": risk.minimum.risk, **distances, "dimensions": [m.d, lead]},
    )


def _relative(found: np.ndarray, target: np.ndarray) -> float:
    return float(np.linalg.norm(found - target) / np.linalg.norm(target))


def _full_dimension(b: Float[np.ndarray, " d"], p: float, *, seed: int) -> tuple[Float[np.ndarray, " d"], float]:
    """The minimiser in whitened coordinates, by L-BFGS from a random start, and its error relative to its size.

    The margin is normal with mean `v'b` and deviation |v|; its integral by the trapezoidal rule, which converges
    exponentially for analytic functions, over 13 deviations beyond margin zero. What is minimised is the risk's log,
    whose gradient does not vanish with the risk. Error: the gradient over the least curvature at the end.
    """
    from scipy.optimize import minimize

    h = 0.02
    reach = 13 + float(np.linalg.norm(b))
    z = np.arange(-reach, reach + h / 2, h)
    weight = np.exp(-z * z / 2) * h / math.sqrt(2 * math.pi)

    def at(v: np.ndarray) -> tuple[float, np.ndarray, float]:
        """Risk, its gradient, and its least curvature where the gradient is zero: across v, and along it."""
        size = float(np.linalg.norm(v))
        margin = v @ b + size * z
        slopes = weight * (p - expit(-margin))
        value = float(weight @ (np.logaddexp(0, -margin) + p * margin))
        turning = float(slopes @ z) / size
        along = float(weight @ (expit(margin) * expit(-margin) * margin**2)) / size**2
        return value, float(slopes.sum()) * b + turning * v, min(turning, along)

    def log_risk(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, _ = at(v)
        return math.log(value), gradient / value

    start = np.random.default_rng([seed, 2]).standard_normal(b.size) / math.sqrt(b.size)
    options = {"gtol": 1e-10, "ftol": 0.0, "maxiter": 2000, "maxcor": 20}
    v = minimize(log_risk, start, jac=True, method="L-BFGS-B", options=options).x
    _, gradient, curvature = at(v)
    left = float(np.linalg.norm(gradient) / np.linalg.norm(v))
    return v, left / curvature if curvature > 0 else math.inf


def _few_dimensions(
    mean: Float[np.ndarray, " k"], deviations: Float[np.ndarray, " k"], p: float, n: int
) -> tuple[Float[np.ndarray, " k"], float]:
    """The minimiser in few dimensions, in whitened coordinates, and the last step relative to its size.

    The loss is integrated over the inputs x of one class, by Gauss and Hermite's rule in every direction; the other
    class contributes the same, by the symmetry x -> -x.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    grid = np.stack(np.meshgrid(*[nodes] * mean.size, indexing="ij"), axis=-1).reshape(-1, mean.size)
    weight = _product(weights, mean.size)
    weight /= weight.sum()
    kept = weight > 1e-20 * weight.max()
    X, weight = mean + deviations * grid[kept], weight[kept]

    def value(w: np.ndarray) -> float:
        margin = X @ w
        return float(weight @ (np.logaddexp(0, -margin) + p * margin))

    w, last = np.zeros(mean.size), math.inf
    for _ in range(60):
        s = expit(-(X @ w))
        gradient = X.T @ (weight * (p - s))
        step = np.linalg.solve((X.T * (weight * s * (1 - s))) @ X, gradient)
        size, before = 1.0, value(w)
        while value(w - size * step) > before and size > 1e-6:
            size /= 2
        w = w - size * step
        last = float(np.linalg.norm(step * deviations) / np.linalg.norm(w * deviations))
        if last <= 1e-12:
            break
    return w * deviations, last


def _product(weights: np.ndarray, k: int) -> np.ndarray:
    found = np.ones(1)
    for _ in range(k):
        found = np.outer(found, weights).reshape(-1)
    return found
