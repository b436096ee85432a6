"""Whether a neuron is one of the general two-layer neurons for which the limit of an infinitesimal start is known.

The definition (stated by the authors of the theory, arXiv 2607.12332, Definition 4.1), for `k` with m parameters: k is
real analytic, k(0) = 0, the origin is its only critical point; the Hessian there has simple extreme eigenvalues
`lam_1 < min(0, lam_2)` and `lam_m > max(0, lam_{m-1})`; k is unbounded along its limit trajectories, the curves that
gradient flow follows out of the origin along the extreme eigenvectors. And the start is orthogonal to neither of them.

Derived here: unboundedness is asked only of the curves that the signs of the start select. The authors' own example
`a tanh a - (e^b - 1)^2` stays above -1 on the curve that the other sign of b would take.

"Analytic", "only" and "unbounded" cannot be decided by evaluating a function. A failure comes with a witness that
anybody can check; what no witness speaks against is undecided, or, for a curve that was followed over fourteen decades
with k still growing like a power, passed with that evidence.
"""

import dataclasses
import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, shape_text, to_float64
from .diagonal import Neuron, compiled_neuron

EPS = float(np.finfo(float).eps)
MOST_STEPS = 3000
MINIMISE: dict[str, Any] = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 100}
NAMES = (
    "zero at the origin",
    "critical at the origin",
    "analytic",
    "no other critical point",
    "simple extreme eigenvalues",
    "start orthogonal to neither",
    "unbounded along the limit trajectories",
)


class Answer(enum.StrEnum):
    """What could be said of a condition."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Condition:
    """One condition of the definition: its name, the answer, a sentence with the numbers, and for a failure the
    parameters that show it (`None` where the sentence is the witness)."""

    name: str
    answer: Answer
    text: str
    witness: Float[np.ndarray, " m"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DefinitionReport:
    """Every condition's answer, with the extreme eigenvalues and unit eigenvectors of the Hessian at the origin."""

    conditions: tuple[Condition, ...]
    low: float
    high: float
    low_vector: Float[np.ndarray, " m"]
    high_vector: Float[np.ndarray, " m"]

    @property
    def failed(self) -> tuple[Condition, ...]:
        """The conditions that fail."""
        return tuple(c for c in self.conditions if c.answer is Answer.FAIL)

    @property
    def undecided(self) -> tuple[Condition, ...]:
        """The conditions that no evaluation can settle, or that were not settled."""
        return tuple(c for c in self.conditions if c.answer is Answer.UNDECIDED)

    def __getitem__(self, name: str) -> Condition:
        return next(c for c in self.conditions if c.name == name)


def check_definition(
    function: Callable[[Any], Any],
    size: int,
    *,
    start: ArrayLike | None = None,
    n_starts: int = 32,
    seed: int = 0,
) -> DefinitionReport:
    """Each condition of the definition for one neuron.

    - `function`: a JAX function of one vector of `size` parameters.
    - `start`: the direction of the start, shape (m,); without it what depends on it is undecided.
    - `n_starts`, `seed`: of the search for other critical points.

    Raises `TypeError` for a function that JAX cannot trace, `ValueError` for a start of the wrong shape or zero.
    """
    m = check_count(size, "size", least=1)
    check_count(n_starts, "n_starts", least=1)
    direction = None
    if start is not None:
        direction, _ = to_float64(start, "start")
        if direction.shape != (m,):
            raise ValueError(f"`start` must have shape {shape_text((m,))}; got {shape_text(direction.shape)}.")
        check_finite(direction, "start")
        if not direction.any():
            raise ValueError("`start` is zero, where nothing moves; pass the direction of the start.")
    check_real(function, m)
    neuron = compiled_neuron(function, m)
    with np.errstate(all="ignore"):
        return _report(neuron, direction, n_starts, np.random.default_rng(seed))


def check_real(function: Callable[[Any], Any], m: int) -> None:
    """Raise `TypeError` for a function with complex values. What cannot be traced is left to be told elsewhere."""
    import jax

    from .._numerics import double_precision

    with double_precision():
        try:
            found = jax.eval_shape(function, jax.ShapeDtypeStruct((m,), np.dtype(np.float64)))
        except (TypeError, jax.errors.JAXTypeError):
            return
    kind = getattr(found, "dtype", None)
    if kind is not None and np.issubdtype(kind, np.complexfloating):
        raise TypeError(f"a neuron's function must return a real number; it returns {kind}. Take the part you mean.")


def _report(neuron: Neuron, start: np.ndarray | None, n_starts: int, rng: np.random.Generator) -> DefinitionReport:
    m, tensors = neuron.m, neuron.tensors
    bad = next((p for p, T in enumerate(tensors) if not np.isfinite(T).all()), None)
    if bad is not None:
        origin = np.zeros(m)
        text = f"the derivative of degree {bad} at the origin is not finite."
        conditions = (
            Condition(name="analytic", answer=Answer.FAIL, text=text, witness=origin),
            *(
                Condition(name=name, answer=Answer.UNDECIDED, text="not examined.")
                for name in NAMES
                if name != "analytic"
            ),
        )
        nothing = np.full(m, np.nan)
        return DefinitionReport(
            conditions=conditions, low=math.nan, high=math.nan, low_vector=nothing, high_vector=nothing
        )
    length = _length(tensors)
    values, vectors = np.linalg.eigh(tensors[2])
    conditions = (
        *_origin(neuron, length, rng),
        _analytic(neuron, length, rng),
        _only_critical(neuron, length, n_starts, rng),
        _simple(values),
        _aligned(vectors, start),
        _unbounded(neuron, length, values, vectors, start),
    )
    return DefinitionReport(
        conditions=conditions,
        low=float(values[0]),
        high=float(values[-1]),
        low_vector=vectors[:, 0],
        high_vector=vectors[:, -1],
    )


def _length(tensors: list[np.ndarray]) -> float:
    """The scale of the parameters on which k is no longer its quadratic part; 1 for a quadratic k."""
    sizes = [float(np.abs(T).max()) / math.factorial(p) for p, T in enumerate(tensors)]
    if sizes[2] == 0:
        return 1.0
    growth = max((sizes[p] / sizes[2]) ** (1 / (p - 2)) for p in range(3, len(sizes)))
    return 1 / growth if growth > 0 else 1.0


def _origin(neuron: Neuron, length: float, rng: np.random.Generator) -> tuple[Condition, Condition]:
    around = length * rng.standard_normal((16, neuron.m))
    k, g = neuron.value_and_gradient(around)
    found = []
    for name, value, size in (
        ("zero at the origin", abs(float(neuron.tensors[0])), float(np.nanmax(np.abs(k)))),
        ("critical at the origin", float(np.abs(neuron.tensors[1]).max()), float(np.nanmax(np.abs(g)))),
    ):
        what = "k(0)" if name.startswith("zero") else "the gradient at the origin"
        answer = Answer.PASS if value <= 8 * EPS * size else Answer.FAIL
        witness = None if answer is Answer.PASS else np.zeros(neuron.m)
        found.append(
            Condition(
                name=name,
                answer=answer,
                text=f"{what} is {value:.3g}; within |theta| of {length:.2g} its size is up to {size:.3g}.",
                witness=witness,
            )
        )
    return found[0], found[1]


def _analytic(neuron: Neuron, length: float, rng: np.random.Generator) -> Condition:
    """Not analytic where a value is missing, or where the Taylor remainder does not fall with its order."""
    around = length * np.concatenate([r * rng.standard_normal((16, neuron.m)) for r in (0.1, 1.0, 3.0)])
    k, g = neuron.value_and_gradient(around)
    missing = np.flatnonzero(np.isnan(k) | np.isnan(g).any(axis=1))
    if missing.size:
        text = f"k or its gradient is not a number at {missing.size} of {len(k)} points near the origin."
        return Condition(name="analytic", answer=Answer.FAIL, text=text, witness=around[missing[0]])
    order = len(neuron.tensors)
    axes = np.concatenate([np.eye(neuron.m), -np.eye(neuron.m), rng.standard_normal((16, neuron.m))])
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    remainder, rounding = np.empty((2, len(axes))), np.empty(len(axes))
    for row, share in enumerate((0.1, 0.05)):
        theta = share * length * axes
        value = neuron.direct_value(theta)
        terms = [neuron.taylor_term(theta, p) for p in range(order)]
        remainder[row] = np.abs(value - sum(terms))
        rounding = 1e3 * EPS * np.sum(np.abs(terms), axis=0) + 1e3 * EPS * np.abs(terms[2]).max()
    # Halved parameters: 2^order for an analytic function; three orders less are taken as proof of the contrary.
    worst = remainder[0] / np.maximum(remainder[1], 1e-300)
    suspect = np.flatnonzero((remainder[1] > rounding) & (worst < 2.0 ** (order - 2.5)))
    if suspect.size:
        i = int(suspect[0])
        text = (
            f"beyond the terms of degree {order - 1} the Taylor remainder is {remainder[0, i]:.2g}, and "
            f"{remainder[1, i]:.2g} at half the distance: a factor {worst[i]:.3g} instead of about {2**order}."
        )
        return Condition(name="analytic", answer=Answer.FAIL, text=text, witness=0.1 * length * axes[i])
    text = f"the Taylor remainder of degree {order} falls as it should in {len(axes)} directions; no more can be seen."
    return Condition(name="analytic", answer=Answer.UNDECIDED, text=text)


def _only_critical(neuron: Neuron, length: float, n_starts: int, rng: np.random.Generator) -> Condition:
    """Levenberg-Marquardt on the gradient from many places; a zero away from the origin is a witness."""
    import scipy.optimize

    name = "no other critical point"

    def gradient(x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(neuron.value_and_gradient(x[None])[1][0], nan=1e150, posinf=1e150, neginf=-1e150)

    def hessian(x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(neuron.hessian(x[None])[0], nan=0.0, posinf=1e150, neginf=-1e150)

    jacobian: Any = hessian  # SciPy's stubs know only its names
    radii = length * np.geomspace(0.3, 30.0, n_starts)
    for radius in radii:
        x0 = rng.standard_normal(neuron.m)
        x0 *= radius / np.linalg.norm(x0)
        start, _ = neuron.value_and_gradient(x0[None])
        if not np.isfinite(start).all():
            continue
        try:
            found = scipy.optimize.least_squares(gradient, x0, jac=jacobian, **MINIMISE)
        except (ValueError, np.linalg.LinAlgError):
            continue
        x = found.x
        if 1e-3 * length < np.linalg.norm(x) < 1e2 * length and _is_critical(neuron, x):
            g = np.linalg.norm(neuron.value_and_gradient(x[None])[1])
            text = f"the gradient is {g:.2g} at |theta| = {np.linalg.norm(x):.6g}, where k = {_value(neuron, x):.6g}."
            return Condition(name=name, answer=Answer.FAIL, text=text, witness=x)
    text = f"none was found from {n_starts} starts at |theta| of {radii[0]:.2g} to {radii[-1]:.2g}."
    return Condition(name=name, answer=Answer.UNDECIDED, text=text)


def _is_critical(neuron: Neuron, x: np.ndarray) -> bool:
    """A zero of the gradient to rounding, and not a gradient that only fades on the way to infinity."""
    _, g = neuron.value_and_gradient(np.stack([0.8 * x, x, 1.25 * x]))
    nearer, here, farther = (float(np.linalg.norm(row)) for row in g)
    H, size = neuron.hessian(x[None])[0], float(np.linalg.norm(x))
    if not here <= 1e-11 * np.linalg.norm(H, 2) * size or farther <= here < 0.5 * nearer:
        return False
    return bool(np.linalg.norm(np.linalg.pinv(H, rcond=1e-14) @ g[1]) <= 1e-6 * size)


def _value(neuron: Neuron, x: np.ndarray) -> float:
    return float(neuron.value_and_gradient(x[None])[0][0])


def _simple(values: np.ndarray) -> Condition:
    name, shown = "simple extreme eigenvalues", ", ".join(f"{v:.6g}" for v in values)
    rounding = 8 * values.size * EPS * float(np.abs(values).max(initial=0.0))
    gaps = [-values[0], values[-1]]
    if values.size > 1:
        gaps += [values[1] - values[0], values[-1] - values[-2]]
    good = bool(min(gaps) > rounding)
    text = f"the eigenvalues of the Hessian at the origin are {shown}" + (
        "." if good else ": the least must be negative, the largest positive, and each differ from the next."
    )
    return Condition(name=name, answer=Answer.PASS if good else Answer.FAIL, text=text)


def _aligned(vectors: np.ndarray, start: np.ndarray | None) -> Condition:
    name = "start orthogonal to neither"
    if start is None:
        return Condition(name=name, answer=Answer.UNDECIDED, text="no start was given.")
    parts = np.abs(vectors[:, [0, -1]].T @ start) / np.linalg.norm(start)
    good = bool(parts.min() > 8 * start.size * EPS)
    text = f"cosines of the start with the extreme eigenvectors: {parts[0]:.3g}, {parts[1]:.3g}."
    return Condition(name=name, answer=Answer.PASS if good else Answer.FAIL, text=text, witness=None if good else start)


def _unbounded(neuron: Neuron, length: float, values, vectors, start) -> Condition:
    name = "unbounded along the limit trajectories"
    if not values[0] < 0 < values[-1]:
        return Condition(name=name, answer=Answer.UNDECIDED, text="there are no two such trajectories.")
    answers, told, witness = [], [], None
    for sign, column in ((1.0, -1), (-1.0, 0)):
        v = vectors[:, column]
        sides = (1.0, -1.0) if start is None or not v @ start else (math.copysign(1.0, v @ start),)
        for side in sides:
            answer, text, end = _follow(neuron, 1e-8 * length * side * v, sign, length)
            answers.append(answer)
            told.append(f"{'up' if sign > 0 else 'down'}{' ' if side > 0 else ' (other side) '}{text}")
            if answer is Answer.FAIL:
                witness = end
    if start is None and Answer.FAIL in answers:
        return Condition(
            name=name,
            answer=Answer.UNDECIDED,
            text="it depends on the signs of the start, and none was given: " + "; ".join(told) + ".",
        )
    worst = next((a for a in (Answer.FAIL, Answer.UNDECIDED) if a in answers), Answer.PASS)
    return Condition(name=name, answer=worst, text="; ".join(told) + ".", witness=witness)


def _follow(neuron: Neuron, theta: np.ndarray, sign: float, length: float) -> tuple[Answer, str, np.ndarray]:
    """Along `theta' = sign grad k / |grad k|` in the log of the arc length, over fourteen decades of it."""
    import scipy.integrate

    def field(log_arc: float, y: np.ndarray) -> np.ndarray:
        g = neuron.value_and_gradient(y[None])[1][0]
        size = np.abs(g).max()
        if not 0 < size < math.inf:
            return np.zeros_like(y)
        g = g / size  # its square may leave double precision
        return sign * math.exp(log_arc) * g / np.linalg.norm(g)

    begin, end = math.log(np.linalg.norm(theta)), math.log(1e6 * length)
    solver = scipy.integrate.LSODA(field, begin, theta, end, rtol=1e-6, atol=1e-9 * math.exp(begin))
    k0 = float(neuron.tensors[0])
    arcs, sizes, last = [begin], [abs(_value(neuron, theta) - k0)], theta
    overflows = stalls = False
    while solver.status == "running" and len(arcs) < MOST_STEPS and not stalls:
        solver.step()
        k, g = neuron.value_and_gradient(solver.y[None])
        overflows = not abs(k[0]) < 1e280 or not np.isfinite(g).all()
        if overflows:
            break
        arcs.append(solver.t)
        sizes.append(abs(float(k[0]) - k0))
        last = solver.y.copy()
        # What is left of the growth per e-fold of the length.
        stalls = bool(np.linalg.norm(g) * math.exp(solver.t) <= 1e-8 * sizes[-1])
    told = f"|k| = {sizes[-1]:.4g} at |theta| = {float(np.linalg.norm(last)):.3g}"
    if overflows:
        return Answer.PASS, f"{told}, and beyond double precision from there", last
    if stalls:
        return Answer.FAIL, f"{told}, and no longer growing", last
    log_k = np.log(np.maximum(sizes, 1e-300))
    back = int(np.searchsorted(arcs, arcs[-1] - math.log(10)))
    slope = (log_k[-1] - log_k[back]) / max(arcs[-1] - arcs[back], 1e-3)
    if slope >= 0.1 and solver.status == "finished":
        return Answer.PASS, f"{told}, still growing", last
    return Answer.UNDECIDED, f"{told}, growing like the power {slope:.2g} of the length", last
