"""Gradient flow of a diagonal linear network from an infinitesimal start, past its saddles to the limit.

    theta_i' = u_i grad k_i(theta_i),    u = X^T (y - X k),    theta_i(0) = s shape_i,    loss |y - X k|^2 / 2

with no 1/n. (With the paper's |y - X k|^2 every time is half as long; for a loss over n divide X and y by sqrt n.)
Such a flow rests at one saddle after the other, for times that grow with 1/s, and looks converged at each. So it is
integrated in coordinates that do not underflow (`_orbits.py`), with steps that need no time (`_stiff.py`), and it never
stops for being slow: only when nothing is left to fit, or when no neuron that can still move has a gradient.

Times are told on two clocks: t, and `T = t / h(s)`, on which the saddles are left at times that converge as s -> 0:
`h = log(1/s)` for two-layer neurons and `s^{-(L-2)}` for deep ones. Activations, plateaus and growth rates are what the
flow itself shows; nothing here knows the algorithm that predicts them.
"""

import math
import time as clock

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_finite, check_ndim, check_same_length, shape_text, to_float64
from .._threads import one_blas_thread
from ..models.diagonal import AbstractNeurons, NeuronFunctions, WeightedSquares
from ..trajectory import Cost
from ._diagonal_reading import Path, Record, Setting
from ._diagonal_result import Activation as Activation
from ._diagonal_result import DiagonalEnding, DiagonalFlow
from ._diagonal_result import DiagonalPlateau as DiagonalPlateau
from ._diagonal_systems import Charts
from ._stiff import StiffIntegrator


def checked_data(X: object, y: object) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """`X` and `y` as finite doubles that fit together."""
    X, _ = to_float64(X, "X")
    y, _ = to_float64(y, "y")
    check_ndim(X, "X", axes="n, d")
    check_ndim(y, "y", axes="n")
    check_same_length(X, y, ("X", "y"), axes=(0, 0), what="samples")
    check_finite(X, "X")
    check_finite(y, "y")
    if not X.any():
        raise ValueError("`X` is zero: no feature can move; pass data with a nonzero column.")
    return X, y


def checked_shape(model: AbstractNeurons, d: int, shape: object, *, name: str = "shape") -> Float[np.ndarray, "d m"]:
    """`shape` as an array (d, m), for as many neurons as the model has. A single row is the start of every neuron."""
    theta, _ = to_float64(shape, name)
    if isinstance(model, NeuronFunctions | WeightedSquares):
        model.check_features(d)
    if theta.ndim == 1 and theta.size == model.width:
        theta = np.tile(theta, (d, 1))
    if theta.shape != (d, model.width):
        raise ValueError(
            f"`{name}` must have shape {shape_text((d, model.width))}, a row of {model.width} weights per feature; "
            f"got {shape_text(theta.shape)}."
        )
    check_finite(theta, name)
    return theta


def log_time_unit(order: int, log_s: float) -> float:
    """Log of `h(s)`: `log(1/s)` for two layers, `s^{-(L-2)}` for L; 1 where s is not small (s > 1/e)."""
    if order > 2:
        return -(order - 2) * log_s
    return math.log(max(-log_s, 1.0))


def diagonal_flow(
    model: AbstractNeurons,
    X: ArrayLike,
    y: ArrayLike,
    *,
    shape: ArrayLike,
    log_s: float,
    coordinates: str = "orbits",
    until: float | None = None,
    rtol: float = 1e-9,
    tol: float = 1e-10,
    max_steps: int = 50_000,
    resolution: float = 1e-2,
) -> DiagonalFlow:
    """The flow from `e^{log_s} shape` to its limit.

    - `X`: shape (n, d); `y`: shape (n,), not zero.
    - `shape`: shape (d, m), or (m,) for all neurons alike; doubles as they are: the start is data, not a seed.
    - `coordinates`: "orbits", for any s; or "weights", the plain weights in double precision as a witness, for s not
      far below 1e-4.
    - `until`: end at this T instead of a limit.
    - `rtol`: error of a step, relative in every weight.
    - `tol`: the flow interpolates when `|y - X k| <= tol |y|`; it is stationary when `|u_i| <= tol |x_i| |y - X k|` for
      every neuron but those that are frozen, or at zero and pushed where they never grow.
    - `resolution`: a neuron is active at a rest when `|k_i| |x_i|` is above this share of `|y|`; where the rest is not
      clearly slower than its surroundings, above the root of that ratio, at most 0.1.

    Raises `ValueError` or `TypeError` for data, a shape or options that are out of range.
    """
    X, y = checked_data(X, y)
    d = X.shape[1]
    if not isinstance(model, AbstractNeurons):
        raise TypeError(f"`model` must be neurons such as ProductNeurons(3); got {type(model).__name__}.")
    theta = checked_shape(model, d, shape)
    for name, value in (("log_s", log_s), ("rtol", rtol), ("tol", tol)):
        if not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise ValueError(f"`{name}` must be a finite number; got {value!r}.")
    if not -330 <= log_s <= 10:
        raise ValueError(
            f"`log_s` must lie between -330 (s = 1e-143) and 10; got {log_s!r}: it is the natural logarithm of s."
        )
    if not 1e-13 <= rtol <= 1e-3 or not 0 < tol < 1:
        raise ValueError(f"`rtol` must lie in [1e-13, 1e-3] and `tol` in (0, 1); got {rtol!r} and {tol!r}.")
    if not 0 < resolution <= 0.1:
        raise ValueError(f"`resolution` must lie in (0, 0.1]; got {resolution!r}.")
    if not y.any():
        raise ValueError("`y` is zero: there is nothing to fit, and every start near zero stays there.")
    if (model.order - 2) * -log_s > 690:
        raise ValueError(
            f"`log_s` = {log_s:g} with {model.order} layers makes rates of e^{(model.order - 2) * -log_s:.0f}, beyond "
            f"double precision; use `log_s` above {-690 / (model.order - 2):.0f}."
        )
    if until is not None and not (math.isfinite(until) and until > 0):
        raise ValueError(f"`until` must be positive and finite; got {until!r}.")
    if coordinates not in ("orbits", "weights"):
        raise ValueError(f"`coordinates` must be 'orbits' or 'weights'; got {coordinates!r}.")
    with one_blas_thread(), np.errstate(all="ignore"):
        return _Run(model, X, y, theta, float(log_s), coordinates, until, rtol, tol, max_steps, resolution).result()


class _Run:
    """One run: integrate until nothing is left to do, then read the path."""

    def __init__(self, model, X, y, theta, log_s, coordinates, until, rtol, tol, max_steps, resolution) -> None:
        self.cpu0 = clock.process_time()
        self.model, self.log_s, self.rtol, self.until, self.max_steps = model, log_s, rtol, until, max_steps
        # X and y in one unit: t is in its inverse square, k is as it was.
        unit = float(np.abs(X).max())
        charts = Charts(model, X / unit, y / unit, theta, log_s, coordinates)
        self.setting = Setting(
            X=X / unit,
            y=y / unit,
            unit=unit,
            charts=charts,
            log_h=log_time_unit(model.order, log_s),
            frozen=charts.orbits.frozen | ~X.any(axis=0),
            tol=tol,
            resolution=resolution,
        )

    def ended(self, k: np.ndarray) -> tuple[DiagonalEnding, str] | None:
        """The ending at k, if it is a limit."""
        setting = self.setting
        r, u = setting.gradient(k)
        left, sizes, size_y = math.sqrt(r @ r), setting.sizes, setting.size_y
        if left <= setting.tol * size_y:
            return DiagonalEnding.INTERPOLATES, f"|y - X k| is {left / size_y:.1e} of |y|."
        pulled = ~(np.abs(u) <= setting.tol * sizes * left)
        if (pulled & ~setting.frozen).any():
            at_zero = np.abs(k) * sizes <= setting.tol * size_y
            if (pulled & ~setting.frozen & ~(at_zero & setting.charts.orbits.never(u > 0))).any():
                return None
        stay = np.flatnonzero(pulled)
        kept = f"; pushed, but unable to move: neurons {', '.join(map(str, stay[:8]))}" if stay.size else ""
        more = f" and {stay.size - 8} more" if stay.size > 8 else ""
        return (
            DiagonalEnding.STATIONARY,
            f"no neuron that can move has |u_i| above {setting.tol:g} |x_i| |y - X k|, with |y - X k| at "
            f"{left / size_y:.3g} of |y|{kept}{more}.",
        )

    def result(self) -> DiagonalFlow:
        """Integrate and read."""
        setting, charts = self.setting, self.setting.charts
        it = StiffIntegrator(charts.system, charts.start, tol=self.rtol)
        horizon = math.inf if self.until is None else self.until * setting.scale
        record, ending = Record(charts), None
        while ending is None:
            state = charts.node(it)
            record.add(state, it)
            ending = self.ended(charts.k(state))
            if ending is None and it.elapsed >= horizon:
                ending = DiagonalEnding.TIME_REACHED, f"T = {self.until:g} was reached."
            if ending is None and it.n_steps >= self.max_steps:
                ending = DiagonalEnding.STEPS_SPENT, f"{self.max_steps} steps were taken without reaching a limit."
            if ending is None and not it.step(horizon - it.elapsed):
                ending = DiagonalEnding.HORIZON, "no step is small enough: the field leaves double precision here."
        path = Path(setting, *record.arrays())
        components = charts.components(path.Z)
        drift, slack = self.drift(components)
        return DiagonalFlow(
            ending=ending[0],
            reason=ending[1],
            log_s=self.log_s,
            log_h=setting.log_h,
            time=path.w / setting.scale,
            time_low=path.low / setting.scale,
            k=path.k,
            components=components,
            loss=0.5 * np.sum(path.r**2, axis=1) * setting.unit**2,
            activations=path.activations(),
            plateaus=path.plateaus(arrived=ending[0] in (DiagonalEnding.INTERPOLATES, DiagonalEnding.STATIONARY)),
            u=path.u[-1] * setting.unit**2,
            residual=float(np.linalg.norm(path.r[-1]) / setting.size_y),
            integral=path.integral(self.model.order),
            frozen=np.flatnonzero(setting.frozen),
            drift=drift,
            drift_slack=slack,
            coordinates="orbits" if charts.in_orbits else "weights",
            rtol=self.rtol,
            cost=Cost(
                n_evaluations=it.n_evaluations,
                n_steps=it.n_steps,
                n_rejected=it.n_rejected,
                cpu_seconds=clock.process_time() - self.cpu0,
            ),
        )

    def drift(self, components: np.ndarray) -> tuple[float, float]:
        """See `DiagonalFlow.drift`."""
        if self.setting.charts.in_orbits:
            return 0.0, 0.0
        kept = self.model.invariants(components)
        if kept is None:
            return math.nan, math.nan
        values, sizes = kept
        moves = ~self.setting.frozen
        change = np.abs(values - values[0])[:, moves] / sizes[0, moves]
        return float(change.max()), float(self.rtol * (sizes[:, moves] / sizes[0, moves]).max())
