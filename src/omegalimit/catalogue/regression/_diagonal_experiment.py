"""One diagonal network trained from a small start, with what the theory predicts for it. They meet only here."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption
from ...flows.diagonal_flow import DiagonalFlow, diagonal_flow
from ...limits import HyperbolicEntropy, Interpolation
from ...solvers import solve
from ._diagonal_data import Instance
from ._diagonal_models import Network, hyperbolic_squares
from ._diagonal_prediction import Prediction


@dataclasses.dataclass(frozen=True, eq=False)
class Experiment:
    """A network on its data from one start, with the prediction for it.

    - `log_s`: the scale that the claims are judged for; `h`: the unit of its clock.
    - `trusted`: the flow is taken for converged whatever it says itself, for counter-instances.
    """

    label: str
    network: Network
    instance: Instance
    prediction: Prediction
    flow: DiagonalFlow
    log_s: float
    trusted: bool = False

    @property
    def h(self) -> float:
        """`log(1/s)` for two layers, `s^-(L-2)` for L."""
        return clock_unit(self.network.layers, self.log_s)

    @property
    def k(self) -> np.ndarray:
        """The flow's weights, shape (T, d)."""
        return self.flow.k

    @property
    def limit(self) -> np.ndarray:
        """The flow's last weights, as they are."""
        return self.flow.limit

    @property
    def residual(self) -> float:
        """`|X k - y| / |y|` at the flow's end."""
        p = self.prediction
        return float(np.linalg.norm(p.X @ self.limit - p.y) / np.linalg.norm(p.y))

    @functools.cached_property
    def activations(self) -> tuple[tuple[int, int], ...]:
        """Neurons of the path with their signs, in the order in which the flow wakes them.

        A neuron is awake when it has half of the weight that it has on the path's first plateau that uses it.
        """
        p, found = self.prediction, []
        for i in np.flatnonzero(np.any(p.k != 0, axis=0)):
            first = float(p.k[np.flatnonzero(p.k[:, i])[0], i])
            moment = self._crossing(int(i), first / 2, 0)
            if math.isfinite(moment):
                found.append((moment, int(i), int(np.sign(first))))
        return tuple((i, sign) for _, i, sign in sorted(found))

    @property
    def undecided(self) -> str | None:
        """Why the end of the flow is no limit, in a sentence, or `None`."""
        if not np.isfinite(self.flow.k).all():
            return "the flow left double precision."
        return None if self.flow.is_limit or self.trusted else f"the flow has not arrived: {self.flow.reason}"

    @functools.cached_property
    def distances(self) -> np.ndarray:
        """`|k(t) - k^(p)|` (largest entry) in units of the shorter step next to saddle p, shape (P + 1, T).

        In the fits X k where the saddles are not unique.
        """
        p = self.prediction
        own = p.seen(self.k)
        far = np.array([np.abs(own - saddle).max(axis=1) for saddle in p.seen(p.k)])
        return np.nan_to_num(far / p.steps[:, None], nan=np.inf)

    def same_order(self) -> bool:
        """True when the flow's neurons wake in the path's order; those of a tie in any."""
        p, left = self.prediction, list(self.activations)
        for event, saddle in zip(p.path.events, p.k[1:], strict=True):
            known = {i for i, _ in self.activations} - {i for i, _ in left}
            group = {(int(i), int(np.sign(saddle[i]))) for i in event.entered if saddle[i] != 0 and int(i) not in known}
            if set(left[: len(group)]) != group:
                return False
            left = left[len(group) :]
        return not left

    def log_approach(self, p: int) -> float:
        """Log of the distance, up to a factor, within which the flow can come of saddle p at this start. Derived here.

        At the scaled time T of the rest two things keep it away, and the best T is a compromise. The active weights
        relax like `exp(-rate h (T - T_p))`, see `_relaxation`. The others are not zero: with `w_i = 1 - |s_i| / t_i`,
        what is left to their wall on the predicted path, `|k_i| ~ s^(2 w_i)` for two layers and
        `(s^(L-2) / w_i)^(L/(L-2))` for L. At the end of deep networks the latter alone. Minus infinity for the
        start, for the end of two layers (an exact potential or `estimated_excess` knows more), and where the flow never
        has the saddle's weights though they were due.
        """
        predicted, L = self.prediction, self.network.layers
        if L > 2 and 0 < p == len(predicted.times) - 1:
            t = np.where(predicted.s[p] >= 0, predicted.t_plus, predicted.t_minus)
            w = (1 - np.abs(predicted.s[p]) / t)[predicted.k[p] == 0].min(initial=1.0)
            return -L / (L - 2) * (math.log(self.h) + math.log(max(w, 1e-300))) if np.isfinite(self.h) else -math.inf
        if p == 0 or p + 1 >= len(predicted.times) or (rate := self._relaxation(p)) is None:
            return -math.inf
        share = np.linspace(0.0, 1.0, 401)[1:-1, None]
        s = (1 - share) * predicted.s[p] + share * predicted.s[p + 1]
        left = 1 - np.maximum(s / predicted.t_plus, -s / predicted.t_minus)
        asleep = np.flatnonzero(predicted.k[p] == 0)
        relaxed = -rate * self.h * share[:, 0] * (predicted.times[p + 1] - predicted.times[p])
        w = left[:, asleep].min(axis=1, initial=1.0).clip(min=1e-300)
        asleep_size = -2 * self.h * w if L == 2 else -L / (L - 2) * (math.log(self.h) + np.log(w))
        return float(np.maximum(relaxed, asleep_size).min())

    @functools.cached_property
    def own(self) -> Prediction:
        """The prediction for the network's own growth times, whatever it is judged by."""
        p, growth = self.prediction, self.network.growth
        if np.array_equal(p.t_plus, growth.t_plus) and np.array_equal(p.t_minus, growth.t_minus):
            return p
        return Prediction(p.X, p.y, growth.t_plus, growth.t_minus)

    @functools.cached_property
    def excess_of_start(self) -> float | None:
        """The excess of R at the minimiser of the exact potential of this start; `None` where there is no formula.

        For `u^2 - v^2`, and for `a b = ((a + b)^2 - (a - b)^2) / 4`. No flow is involved, and no limit: the start is
        `e^log_s` times the shape.
        """
        squares = hyperbolic_squares(self.network.neurons, self.network.shape)
        if squares is None or not (squares > 0).all() or self.own.unsolved() is not None:
            return None
        plus, minus = (2 * self.log_s + np.log(squares)).T
        found = solve(Interpolation(HyperbolicEntropy(log_squares=(plus, minus)), self.own.X, self.own.y), tol=1e-9)
        if found.status != "optimal":
            return None
        return max(self.own.excess(found.certificate.point)[0], 0.0)

    def estimated_excess(self) -> float:
        """The share of R at the end that weights have which should be zero, up to a factor. Derived here.

        As in `log_approach`, with `c = |theta*|^2 / 2t` in the size of a two-layer weight; each costs `t w |k|`.
        """
        p, L = self.own, self.network.layers
        up = p.s[-1] >= 0
        t, k = np.where(up, p.t_plus, p.t_minus), p.k[-1]
        asleep = (k == 0) & np.isfinite(t)
        w = (1 - np.abs(p.s[-1][asleep]) / t[asleep]).clip(min=1e-300)
        size = (self.network.shape[asleep] ** 2).sum(axis=1)
        with np.errstate(over="ignore"):
            small = size / (2 * t[asleep]) * np.exp(-2 * self.h * w) if L == 2 else (self.h * w) ** (-L / (L - 2))
        largest = float(np.abs(k).max())
        if not largest > 0 or not np.isfinite(self.h):
            return 0.0
        cost = float((t[asleep] * w * np.minimum(small, largest)).sum())
        return cost / float(np.where(k != 0, t * np.abs(k), 0.0).sum())

    def _relaxation(self, p: int) -> float | None:
        """The slowest rate at which the active weights relax at saddle p; where the flow never has its weights, `None`
        for a start at which the saddle was due by the theory's own rate, else that rate.

        Near the saddle `d k_i / dt = |grad k_i|^2 u_i`: the rates are the eigenvalues of `G^(1/2) X_S'X_S G^(1/2)`, G
        the active neurons' `|grad k_i|^2`. A neuron is on one curve for ever, so that its gradient is read off the flow
        where its own weight is nearest to the predicted one.
        """
        saddle = self.prediction.k[p]
        support = np.flatnonzero(saddle)
        nearest = np.abs(self.k[:, support] - saddle[support]).argmin(axis=0)
        if (np.abs(self.k[nearest, support] / saddle[support] - 1) > 0.5).any():
            return self._due(p)
        gradients = self.network.neurons.gradient(self.flow.components[nearest])
        g = np.linalg.norm(gradients[np.arange(len(support)), support], axis=-1)
        sizes = np.linalg.svd(self.prediction.X[:, support] * g, compute_uv=False)
        return float(sizes[min(len(support), len(sizes)) - 1] ** 2)

    def _due(self, p: int) -> float | None:
        """The relaxation rate at saddle p by the sizes of the weights alone; `None` where it leaves time to settle.

        `|grad k|^2` is `2 |k| / t` for two layers and at least `L |k|^(2 - 2/L)` for L.
        """
        predicted, L = self.prediction, self.network.layers
        k = predicted.k[p]
        support = np.flatnonzero(k)
        t = np.where(k > 0, predicted.t_plus, predicted.t_minus)[support]
        size = np.abs(k[support])
        g = np.sqrt(2 * size / t if L == 2 else L * size ** (2 - 2 / L))
        sizes = np.linalg.svd(predicted.X[:, support] * g, compute_uv=False)
        rate = float(sizes[min(len(support), len(sizes)) - 1] ** 2)
        # Five times over in half of the rest: what was not reached then was not on the way.
        return None if rate * self.h * (predicted.times[p + 1] - predicted.times[p]) > 10 else rate

    def unresolved(self, bound: float) -> list[int]:
        """Saddles that the flow leaves too soon to come within `bound` of them, a factor ten allowed for."""
        limit, n = math.log(bound / 10), len(self.prediction.times)
        upset = n if self.upset is None else self.upset
        return [p for p in range(n) if p >= upset or self.log_approach(p) > limit]

    @functools.cached_property
    def upset(self) -> int | None:
        """The first saddle whose rest the size of the start upsets, see `_upset`."""
        return next((p for p in range(1, len(self.prediction.times)) if self._upset(p)), None)

    @functools.cached_property
    def _late(self) -> np.ndarray:
        """By what share of its growth time a two-layer neuron wakes late, for either sign, shape (2, d). Derived here.

        With `c` the part of theta* in an extreme eigenvector, `|k| = c^2 s^(2w) / 2t` where the share w is left: it is
        of the size K of the predicted weights at `w = log(c^2 / (2 t K)) / 2h`; minus that. Of order 1/h.
        """
        p, (d, m) = self.prediction, self.network.shape.shape
        vectors = np.linalg.eigh(self.network.neurons.hessian(np.zeros((d, m))))[1][..., [-1, 0]]
        parts = np.einsum("dme,dm->ed", vectors, self.network.shape)
        with np.errstate(divide="ignore"):
            logs = 2 * np.log(np.abs(parts)) - np.log(2 * np.array([p.t_plus, p.t_minus]) * np.abs(p.k).max())
        return -logs / (2 * self.h)

    def _upset(self, p: int) -> bool:
        """Whether shifts of order 1/h take half of the rest at saddle p, or let another neuron wake in it."""
        predicted = self.prediction
        if self.network.layers > 2 or p + 1 >= len(predicted.times):
            return False
        rest = predicted.times[p + 1] - predicted.times[p]
        first, last = (self._delay(q) for q in (p, p + 1))
        if not last - first > -0.5 * rest:
            return True
        s = predicted.s[p + 1]
        t, late = (np.where(s >= 0, *pair) for pair in ((predicted.t_plus, predicted.t_minus), self._late))
        speed = np.abs(s - predicted.s[p]) / rest
        others = (predicted.k[p] == 0) & (predicted.k[p + 1] == 0) & np.isfinite(t)
        others[np.asarray(predicted.path.events[p].entered, dtype=int)] = False
        left = 1 - np.abs(s) / t + late - speed * max(last, 0.0) / t
        return bool((left[others] < 0).any())

    def _delay(self, at: int) -> float:
        """How late, on the scaled clock, the neurons that saddle `at` wakes are of the size of the weights."""
        predicted = self.prediction
        entered = np.asarray(predicted.path.events[at - 1].entered, dtype=int)
        s, before = predicted.s[at][entered], predicted.s[at - 1][entered]
        t, late = (
            np.where(s >= 0, *(row[entered] for row in pair))
            for pair in ((predicted.t_plus, predicted.t_minus), self._late)
        )
        speed = np.abs(s - before) / (predicted.times[at] - predicted.times[at - 1])
        return float((t * late / speed)[speed > 0].max(initial=-math.inf)) if (speed > 0).any() else 0.0

    # -- errors on the scaled clock -------------------------------------------------------------------------------

    def jumps(self) -> np.ndarray:
        """When the waking neuron of each event has half of its next plateau's weight, shape (P,); NaN if never.

        Read off the flow after it was nearest to the saddle before; between its steps linearly in T.
        """
        p, found = self.prediction, []
        after = 0
        for event, before, saddle in zip(p.path.events, p.k[:-1], p.k[1:], strict=True):
            near = np.abs(self.k[after:] - before).max(axis=1)
            after += int(np.argmin(near)) if len(near) else 0
            moments = [self._crossing(int(i), float(saddle[i]) / 2, after) for i in event.entered if saddle[i] != 0]
            found.append(max(moments) if moments else math.nan)
        return np.array(found)

    def _crossing(self, i: int, level: float, after: int) -> float:
        share = self.k[after:, i] / level
        beyond = np.flatnonzero(share >= 1)
        if not beyond.size:
            return math.nan
        at = after + int(beyond[0])
        if beyond[0] == 0:
            return float(self.flow.time[at])
        low, high = share[beyond[0] - 1], share[beyond[0]]
        x = (1 - low) / (high - low)
        return float((1 - x) * self.flow.time[at - 1] + x * self.flow.time[at])

    def jump_errors(self) -> np.ndarray:
        """Errors of the jumps' times relative to the predicted times, shape (P,), with their signs."""
        return self.jumps() / self.prediction.times[1:] - 1

    def dual_errors(self) -> np.ndarray:
        """By how much the accumulated s leaves [-t-, t+], or misses its wall on the support, relative to t; shape (d,).

        Support: the certified optimum's. Where it is not unique, the path's.
        """
        p, s = self.prediction, self.flow.integral
        over = np.maximum(np.maximum(s / p.t_plus - 1, -s / p.t_minus - 1), 0.0)
        wall = np.where(p.k[-1] > 0, s / p.t_plus - 1, -s / p.t_minus - 1)
        return np.where(p.k[-1] != 0, np.abs(wall), over)

    # -- assumptions ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Every assumption of the theorem, checked on this run."""
        p, growth = self.prediction, self.network.growth
        path = p.path
        zero = int((~np.any(self.network.shape, axis=1)).sum())
        return (
            Assumption(name="X k = y can be solved", holds=self.instance.solvable, measured=self.instance.unreachable),
            Assumption(name="path certified", holds=path.certificate.worst < 1e-10, measured=path.certificate.worst),
            Assumption(
                name="one neuron wakes at a time",
                holds=not path.tied and bool(path.unique.all()),
                measured=float(sum(event.tied for event in path.events)),
            ),
            Assumption(
                name="one smallest weight in each start"
                if self.network.layers > 2
                else "start orthogonal to no extreme eigenvector",
                holds=not growth.outside.any(),
                measured=float(growth.outside.sum()),
            ),
            Assumption(name="no start at zero", holds=zero == 0, measured=float(zero)),
            Assumption(name="arrival", holds=self.flow.is_limit, measured=str(self.flow.ending)),
        )


def clock_unit(layers: int, log_s: float) -> float:
    """`h(s)`: `log(1/s)` for two layers, `s^-(L-2)` for L; infinite where it leaves double precision."""
    if layers == 2:
        return -log_s
    exponent = -(layers - 2) * log_s
    return math.exp(exponent) if exponent < 700 else math.inf


def log_start(layers: int, h: float) -> float:
    """The `log s` at which the scaled clock has the unit `h`."""
    return -h if layers == 2 else -math.log(h) / (layers - 2)


def run_experiment(
    network: Network,
    instance: Instance,
    log_s: float,
    *,
    prediction: Prediction | None = None,
    until: float | None = None,
) -> Experiment:
    """Train `network` on `instance` from `e^log_s` times its shape; `prediction`: another one to be judged by."""
    growth = network.growth
    if prediction is None:
        prediction = Prediction(instance.X, instance.y, growth.t_plus, growth.t_minus)
    flow = diagonal_flow(network.neurons, instance.X, instance.y, shape=network.shape, log_s=log_s, until=until)
    return Experiment(network.label, network, instance, prediction, flow, log_s)


def run_several(network: Network, instance: Instance, logs: Sequence[float]) -> list[Experiment]:
    """The same network from several starts, in the order given, judged by one prediction."""
    first = run_experiment(network, instance, logs[0])
    others = [run_experiment(network, instance, log_s, prediction=first.prediction) for log_s in logs[1:]]
    return [first, *others]
