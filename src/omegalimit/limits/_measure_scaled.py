"""The stationarity problem in units of its own: inputs and targets over powers of two, residuals as in the targets."""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float

from ._measure_fan import fan
from ._measure_partition import CLOSED, FINAL, Partition, cone_partition
from ._measure_sampled import Directions, directions, sampled_partition

# Numbers held at one time for the cones' features; beyond, directions are sampled.
_MOST_NUMBERS = 40_000_000


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledMeasure:
    """`rows` (n, D) and `y` (n, m) of size about 1, with `lam` and `beta` to match, see `StationaryMeasure`.

    `row_exponent`, `exponent`: what was divided out, as powers of two.
    """

    rows: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, "n m"]
    lam: float
    beta: float
    row_exponent: int
    exponent: int
    n_samples: int
    seed: int

    @functools.cached_property
    def cones(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Cones on which every `R` is linear, and `relu(p.x_i)` at their rays; `None` where there are too many."""
        n, D = self.rows.shape
        if D > CLOSED + 1:
            return None
        P = fan(self.rows, most=max(_MOST_NUMBERS // (n * D), 64))
        if P is None:
            return None
        return P, np.maximum((P.reshape(-1, D) @ self.rows.T).reshape(len(P), D, n), 0.0)

    @property
    def method(self) -> str:
        """`"closed form"`, `"quadrature"` or `"sampled"`."""
        if self.cones is None:
            return "sampled"
        return "closed form" if self.rows.shape[1] <= CLOSED else "quadrature"

    def coefficients(self, r: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """`c` with `R(u) / lam = sum_i c_i relu(u.x_i)`."""
        return r / len(r) / self.lam

    def nodes(self, r: Float[np.ndarray, "n m"], *, round_: int = 0) -> Directions | None:
        """Sampled directions adapted to `r`; `None` where nothing is sampled."""
        if self.cones is not None:
            return None
        return directions(self.rows, self.coefficients(r), n_samples=self.n_samples, seed=(self.seed, round_))

    def partition(
        self,
        r: Float[np.ndarray, "n m"],
        *,
        nodes: Directions | None = None,
        order: int = FINAL,
        second: bool = True,
        errors: bool = True,
    ) -> Partition | None:
        """`log int_S (1 - |R/lam|^2)^{-D/2}` with derivatives by `c`; `None` outside the domain."""
        c = self.coefficients(r)
        if self.cones is None:
            nodes = self.nodes(r) if nodes is None else nodes
            return sampled_partition(nodes, self.rows, c, second=second, errors=errors) if nodes is not None else None
        return cone_partition(*self.cones, c, order=order, second=second, errors=errors)

    def outputs(self, partition: Partition) -> Float[np.ndarray, "n m"]:
        """`f = E[a relu(v.x)]` at the inputs."""
        return -partition.gradient / (self.beta * self.lam)

    def outputs_error(self, partition: Partition) -> Float[np.ndarray, "n m"]:
        """Its error."""
        eps = float(np.finfo(float).eps)
        return partition.gradient_error / (self.beta * self.lam) + eps * np.abs(self.outputs(partition))

    def log_partition(self, log_total: float, m: int) -> float:
        """`log int exp(-beta (a.R(v) + lam/2 (|a|^2 + |v|^2))) da dv` from the integral over the sphere."""
        D = self.rows.shape[1]
        stiffness = self.beta * self.lam
        radial = (D / 2 - 1) * math.log(2) + math.lgamma(D / 2)
        return log_total + radial + m / 2 * math.log(2 * math.pi) - (D + m) / 2 * math.log(stiffness)

    def negative_dual(self, r: Float[np.ndarray, "n m"], partition: Partition) -> float:
        """`|r|^2 / (2n) + r.y / n + log I / beta`: minus the dual value, up to a constant."""
        n = len(r)
        return float(((r / 2 + self.y) * r).sum() / n + partition.log_total / self.beta)
