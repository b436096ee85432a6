"""What `early_alignment` reads off a path of weights: radius, angle to a direction, residuals and loss, in logs.

Everything here is computed from the rows and the weights alone: what a flow says of itself is judged, not used.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..._numerics import double_precision
from ...losses import AbstractLoss

if TYPE_CHECKING:
    from ...flows.separable_descent import ExtendedDescent
    from ._alignment_instance import Instance


ROUNDING = 16 * float(np.finfo(float).eps)
"""Of what is as large as the margins at the end."""


def log_slope(loss: str | AbstractLoss, margins: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """`log(-l')` at the margins."""
    if loss == "exponential":
        return -margins
    if loss == "logistic":
        return -np.logaddexp(0.0, margins)
    return _of(loss, "log_slope", margins)


def log_value(loss: str | AbstractLoss, margins: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """`log l` at the margins."""
    if loss == "exponential":
        return -margins
    if loss == "logistic":
        # Beyond 36 the two differ by e^-m / 2, less than rounding; from 745 on log(1 + e^-m) itself is zero.
        return np.where(margins > 36.0, -margins, np.log(np.logaddexp(0.0, -np.minimum(margins, 36.0))))
    return _of(loss, "log_value", margins)


def _of(loss: Any, name: str, margins: np.ndarray) -> np.ndarray:
    with double_precision():
        return np.asarray(getattr(loss, name)(margins), dtype=np.float64)


def log_sum(values: Float[np.ndarray, "... n"]) -> Float[np.ndarray, "..."]:
    """`log sum exp` over the last axis."""
    most = values.max(axis=-1, keepdims=True)
    return (most + np.log(np.exp(values - most).sum(axis=-1, keepdims=True)))[..., 0]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Path:
    """Weights along a path, at the natural log of the time that the law counts (for descent: step size times steps).

    - `instance`: rows, weights and their maximum margin; `loss`: a name, or a loss that is in no table.
    - `dynamics`: `"flow"` or `"descent"`; `label`: which instance, and which step.
    - `start`: w at t = 0, shape (d,); `log_time`: shape (T,), finite and increasing; `w`: shape (T, d).
    - `errors`: what the integration may have cost, in units of 1 / gamma, shape (T,); `handed_over`: what taking
      descent's later steps for the flow may have cost, in the same units.
    - `first_times`: log times at which the angle to the maximum margin first is as small as each of those given.
    - `at`: the weights at log times in between, where the path can say: for descent after its last exact step.
    - `n_exact`: steps that were taken one by one, `last_exact`, the log time of the last, `log_step`, the log of the
      step size, and `run`, the run itself; `None` for the flow.
    """

    instance: "Instance"
    loss: str | AbstractLoss
    dynamics: str
    label: str
    start: Float[np.ndarray, " d"]
    log_time: Float[np.ndarray, " T"]
    w: Float[np.ndarray, "T d"]
    errors: Float[np.ndarray, " T"]
    first_times: Callable[[Float[np.ndarray, " A"]], Float[np.ndarray, " A"]]
    at: Callable[[Float[np.ndarray, " S"]], Float[np.ndarray, "S d"]] | None = None
    handed_over: float = 0.0
    n_exact: int | None = None
    last_exact: float | None = None
    log_step: float | None = None
    run: "ExtendedDescent | None" = None

    @property
    def error(self) -> float:
        """What the path thinks its error is at the end, in units of 1 / gamma: no two paths of a convex loss part."""
        return float(self.errors[-1]) + self.handed_over

    @property
    def log_loss_error(self) -> float:
        """What that error may do to log L at the end: times the longest row, times |L'| / L along it."""
        i = self.instance
        longest = float(np.linalg.norm(i.Z, axis=1).max()) / i.gamma
        slopes = log_sum(np.log(i.weights) + log_slope(self.loss, i.Z @ self.w[-1]))
        return self.error * longest * float(np.exp(slopes - self.log_loss[-1]))

    @property
    def loss_name(self) -> str:
        """The loss in words."""
        return self.loss if isinstance(self.loss, str) else self.loss.name

    @functools.cached_property
    def scaled(self) -> Float[np.ndarray, "T d"]:
        """`gamma w`, which has no unit."""
        return self.instance.gamma * self.w

    @functools.cached_property
    def along(self) -> Float[np.ndarray, " T"]:
        """`gamma u'w`."""
        return self.scaled @ self.instance.u

    @functools.cached_property
    def across(self) -> Float[np.ndarray, "T d"]:
        """`gamma w_perp`, the part across the maximum-margin direction u."""
        u = self.instance.u
        once = self.scaled - self.along[:, None] * u
        return once - (once @ u)[:, None] * u  # the first leaves what rounding does to a large part along u

    @functools.cached_property
    def radius(self) -> Float[np.ndarray, " T"]:
        """`gamma |w|`."""
        return np.linalg.norm(self.scaled, axis=1)

    @functools.cached_property
    def angle(self) -> Float[np.ndarray, " T"]:
        """The angle to u, in radians."""
        return np.arctan2(np.linalg.norm(self.across, axis=1), self.along)

    @functools.cached_property
    def log_shares(self) -> Float[np.ndarray, "T n"]:
        """`log(gamma^2 t c_i |l'(z_i'w)|)`: the pull of each row, whose limits sum to one."""
        i = self.instance
        slopes = log_slope(self.loss, self.w @ i.Z.T)
        return 2 * np.log(i.gamma) + self.log_time[:, None] + np.log(i.weights) + slopes

    @functools.cached_property
    def radial_and_tangential(self) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, "T d"]]:
        """`gamma d rho / ds` and `d theta / ds`, of the gradient at the weights, in log time s."""
        return movement(self, self.log_time, self.w)

    @functools.cached_property
    def log_loss(self) -> Float[np.ndarray, " T"]:
        """`log L(w)`."""
        i = self.instance
        return log_sum(np.log(i.weights) + log_value(self.loss, self.w @ i.Z.T))

    @functools.cached_property
    def settling(self) -> "Settling":
        """From where on the path is judged, and how far it still was from its limit there, as it shows itself."""
        return settling(self)

    @functools.cached_property
    def off_support(self) -> float:
        """`gamma` times the size of the part of w_perp outside the support vectors' span, where judging begins.

        No theory but the run itself says where it goes.
        """
        return float(np.linalg.norm(self.instance.outside(self.across[self.settling.first])))

    @functools.cached_property
    def constant(self) -> float:
        """`C`: `gamma |lim w_perp|`, from the balance solution, and from the run where no support vector reaches.

        Where there is no balance solution, all of it is taken from the run, where judging begins.
        """
        i = self.instance
        if i.balance is None:
            return float(np.linalg.norm(self.across[self.settling.first]))
        return float(np.hypot(i.gamma * np.linalg.norm(i.balance), self.off_support))

    @functools.cached_property
    def offset(self) -> float:
        """`b`, the limit of `gamma u'w - log t`; from the run, as `constant` is, where the law has none."""
        at = self.settling.first
        return self.instance.offset if self.instance.offset is not None else self.along[at] - self.log_time[at]

    def index(self, share: float) -> int:
        """The last recorded time no later than this share of the whole log time."""
        return max(0, int(np.searchsorted(self.log_time, share * self.log_time[-1], side="right")) - 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settling:
    """How far a path is from its limit, in units of 1 / gamma, by what it still moves.

    - `first`: the recorded time from which on it is judged.
    - `left`: at each recorded time, what it moves from there to the end and, by the decay that it shows, after it.
    - `reason`: why it shows no such decay; `None` where it does. Then `left` says nothing.
    """

    first: int
    left: Float[np.ndarray, " T"]
    reason: str | None

    @property
    def at_first(self) -> float:
        """What was left where judging begins."""
        return float(self.left[self.first])

    @property
    def at_end(self) -> float:
        """What is left at the end."""
        return float(self.left[-1])


NEGLIGIBLE = 1e-7
"""A path is judged from where it is as near as this to its limit, if that is later than three quarters of the way."""

DECAYED = 0.5
"""In the last quarter of the log time a path that settles moves less than this share of what it moved in the third."""

BEHIND = 1.0
"""A path that lies so far behind `log t + b` follows no law that it could still come to."""


def settling(path: Path) -> Settling:
    """What `(gamma u'w - log t, gamma w_perp)` still moves, and by how much it moves less and less.

    The remainder of the law is a power of t with a known exponent r, but its constant is not known: rows that are
    nearly support vectors may pull for long. So it is measured: with d' and d what is moved in the third and in the
    last quarter q of the log time, what comes after is at most `d x / (1 - x)`, x the larger of d / d' and `e^{-r q}`.
    Before that decay is seen (d / d' near one) nothing can be said: descent that has taken giant steps, for one,
    stands still for as long as the flow takes to come so far.

    One thing can: `gamma u'w` may lie far ahead of `log t + b` for long, but not behind it, as it grows there by
    `e^{log t + b - gamma u'w}` and more with each unit of log t. (Derived here, from B being a least value.)
    """
    i, s = path.instance, path.log_time
    half, quarter = path.index(0.5), path.index(0.75)
    moved = np.hypot(path.along - s - (path.along[-1] - s[-1]), np.linalg.norm(path.across - path.across[-1], axis=1))
    if i.offset is not None and (path.along - s - i.offset)[quarter:].max() < -BEHIND:
        return Settling(first=quarter, left=np.zeros_like(s), reason=None)
    third = float(
        np.hypot(
            path.along[quarter] - s[quarter] - path.along[half] + s[half],
            np.linalg.norm(path.across[quarter] - path.across[half]),
        )
    )
    noise = float(path.errors[-1] - path.errors[half]) + ROUNDING * max(1.0, float(np.abs(path.along[-1])))
    last = float(moved[quarter])
    # What the integration may have moved it by shows no decay, and needs none.
    ratio = 0.0 if last <= noise else last / third if third > 0 else math.inf
    if not ratio < DECAYED:
        return Settling(
            first=quarter,
            left=np.full_like(s, math.inf),
            reason=f"the run is too short: w still moves against its law by {last:.2g} / gamma in the last quarter of "
            f"its log time, after {third:.2g} in the third, and shows no limit",
        )
    x = max(ratio, math.exp(-max(i.rate, 0.0) * float(s[-1] - s[quarter])))
    left = moved + noise + (last * x / (1 - x) if x < 1 else math.inf)
    near = np.flatnonzero(left[quarter:] > NEGLIGIBLE)
    first = quarter + (int(near[-1]) + 1 if near.size else 0)
    # The end alone says no more than that it is the end.
    return Settling(first=min(first, path.index(0.95)), left=left, reason=None)


def movement(path: Path, log_time: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`gamma d rho / ds = t gamma th'g` and `d th / ds = t (g - (th'g) th) / rho` at these states, s = log t."""
    i = path.instance
    slopes = log_slope(path.loss, w @ i.Z.T)
    g = np.exp(log_time[:, None] + np.log(i.weights) + slopes) @ i.Z
    rho = np.linalg.norm(w, axis=1)
    theta = w / rho[:, None]
    radial = np.sum(theta * g, axis=1)
    return i.gamma * radial, (g - radial[:, None] * theta) / rho[:, None]
