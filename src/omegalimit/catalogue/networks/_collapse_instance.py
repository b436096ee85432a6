"""Inputs and targets of `width_collapse`, with what theory predicts for them: stationary measures and their limit."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from ...limits.arrangement import Arrangement, augmented
from ...limits.convex_relu import ConvexReluNet
from ...limits.stationary_measure import StationaryMeasure
from ...solvers.convex_relu import convex_relu
from ...solvers.stationary_measure import stationary_measure

SHARE_OF_STABLE = 0.4
"""Step size times the estimate of the largest curvature that `Instance.curvature` gives; Euler's method is stable to
2."""

AT_LIMIT = 1.6
"""The curvature at the limit counts for so much more: twice as large steps must be far from unstable there, since the
bias of the averages is proportional to the step size only then."""

TOL = 1e-10
"""Relative gap asked of every measure and of the limit; what is left of it enters the verdicts as slack."""

FINEST_BETA = 1e8
"""No measure is asked for beyond: peaks of the density become narrower than the rounding of their places."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Instance:
    """Inputs `X` (n, d), targets `y` (n,) or (n, m), weight decay `lam`; `label`: what its verdicts call it."""

    label: str
    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n *m"]
    lam: float

    @property
    def n(self) -> int:
        """Number of inputs."""
        return len(self.X)

    @property
    def d(self) -> int:
        """Their columns, the constant one not counted."""
        return self.X.shape[1]

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @functools.cached_property
    def rows(self) -> Float[np.ndarray, "n D"]:
        """`(x_i, 1)`."""
        return augmented(self.X)

    @functools.cached_property
    def arrangement(self) -> Arrangement:
        """The hyperplanes `u'(x_i, 1) = 0` in the space of neurons: their cells are the dichotomies of the inputs."""
        return Arrangement(self.rows)

    @functools.cached_property
    def n_dichotomies(self) -> int:
        """P, counted exactly."""
        return self.arrangement.n_cells

    @functools.cached_property
    def net(self) -> ConvexReluNet:
        """The problem at zero temperature."""
        return ConvexReluNet(self.X, self.y, lam=self.lam)

    @functools.cached_property
    def cold(self) -> Any:
        """Its solution."""
        return convex_relu(self.net, tol=TOL)

    @functools.cached_property
    def _measures(self) -> dict[float, Any]:
        return {}

    def stationary(self, beta: float) -> tuple[StationaryMeasure, Any]:
        """The stationary measure at this inverse temperature, and its solution; solved once.

        Newton's method starts at the residual of the next smaller beta that is known: a start matters to its speed.
        """
        if beta not in self._measures:
            limit = StationaryMeasure(self.X, self.y, lam=self.lam, beta=beta)
            warmer = max((known for known in self._measures if known < beta), default=None)
            start = None if warmer is None else self._measures[warmer][1].certificate.residual
            self._measures[beta] = (limit, stationary_measure(limit, tol=TOL, start=start))
        return self._measures[beta]

    def measure(self, beta: float) -> Any:
        """The Gibbs measure at the residual that was found."""
        limit, solution = self.stationary(beta)
        return limit.at(solution.certificate.residual)

    @functools.cached_property
    def curvature(self) -> float:
        """An estimate of the largest curvature that particles meet, at a standard normal start and at the limit.

        Residuals fall at rates that are eigenvalues of `(1/n) E[relu_i relu_j + a^2 1_i 1_j xt_i'xt_j]` over neurons,
        with relu_i and 1_i the neuron's output and slope at input i. At a start lam and the force on a single neuron,
        `(1/n) sum |y_i||xt_i|` at most, come on top. At the limit a learned direction of mass c counts as |c| neurons.
        """
        rows = self.rows
        lengths = np.linalg.norm(rows, axis=1)
        inner = rows @ rows.T
        theta = np.arccos(np.clip(inner / np.outer(lengths, lengths), -1.0, 1.0))
        off = (np.pi - theta) / (2 * np.pi)
        normal = np.outer(lengths, lengths) * np.sin(theta) / (2 * np.pi) + 2 * off * inner
        start = _largest(normal) / self.n + self.lam + float((lengths * values_of(self.y)).mean())
        certificate = self.cold.certificate
        on, masses = np.asarray(certificate.patterns).T > 0, values_of(np.asarray(certificate.masses))
        outputs = np.where(on, rows @ np.asarray(certificate.directions).T, 0.0)
        limit = (outputs * masses) @ outputs.T + ((on * masses) @ on.T) * inner
        return max(start, AT_LIMIT * _largest(limit) / self.n)

    @functools.cached_property
    def step_size(self) -> float:
        """A step well inside the stable ones."""
        return SHARE_OF_STABLE / self.curvature

    def box(self, margin: float = 0.25) -> Float[np.ndarray, "2 d"]:
        """Least and largest input in every column, moved apart by this share of their distance."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        wide = np.where(high > low, high - low, 1.0)
        return np.stack([low - margin * wide, high + margin * wide])


def drawn(n: int, d: int, m: int, *, lam: float, seed: int, label: str) -> Instance:
    """Standard normal inputs, then standard normal targets, from `numpy.random.default_rng(seed)`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = rng.standard_normal(n) if m == 1 else rng.standard_normal((n, m))
    return Instance(label=label, X=X, y=y, lam=lam)


def named(d: int, m: int) -> str:
    """How verdicts call an instance."""
    return f"relu d={d}" + (f", {m} outputs" if m > 1 else "")


def values_of(output: Float[np.ndarray, " k *m"]) -> Float[np.ndarray, " k"]:
    """The size of each output: its absolute value, or Euclidean norm."""
    return np.abs(output) if output.ndim == 1 else np.linalg.norm(output, axis=1)


def _largest(matrix: Float[np.ndarray, "n n"]) -> float:
    return float(np.linalg.eigvalsh(matrix)[-1])
