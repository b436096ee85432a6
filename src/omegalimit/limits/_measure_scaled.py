"""The stationarity problem in units of its own: inputs and targets over powers of two, residuals as in the targets."""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float

from ._measure_fan import fan
from ._measure_partition import CLOSED, FINAL, Partition, cone_partition
from ._measure_peaks import below, enumerated
from ._measure_sampled import Directions, directions, sampled_partition, widened

# Numbers held at one time for the cones' features; beyond, directions are sampled.
_MOST_NUMBERS = 40_000_000
# The number of the second sample, which no round of the search has.
_SECOND = 2**31


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledMeasure:
    """`rows` (n, k) and `y` (n, m) of size about 1, with `lam` and `beta` to match, see `StationaryMeasure`.

    `row_exponent`, `exponent`: what was divided out, as powers of two. `basis` (D, k): of the span of the inputs, in
    which `rows` are given, see `_measure_reduced.py`; `None` where that is the whole space.
    """

    rows: Float[np.ndarray, "n D"]
    y: Float[np.ndarray, "n m"]
    lam: float
    beta: float
    row_exponent: int
    exponent: int
    n_samples: int
    seed: int
    basis: Float[np.ndarray, "D k"] | None = None

    @property
    def dimension(self) -> int:
        """`D`, of a neuron's incoming weights."""
        return self.rows.shape[1] if self.basis is None else len(self.basis)

    @functools.cached_property
    def cones(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Cones on which every `R` is linear, and `relu(p.x_i)` at their rays; `None` where there are too many."""
        n, D = self.rows.shape  # D: that of the span
        if D > CLOSED + 1:
            return None
        P = fan(self.rows, most=max(_MOST_NUMBERS // (n * D), 64))
        if P is None:
            return None
        return P, np.maximum((P.reshape(-1, D) @ self.rows.T).reshape(len(P), D, n), 0.0)

    @functools.cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Signs and inner points of the cells, where integrals are sampled and they are few enough to be listed."""
        return enumerated(self.rows) if self.cones is None else None

    @property
    def method(self) -> str:
        """`"closed form"`, `"quadrature"` or `"sampled"`."""
        if self.cones is None:
            return "sampled"
        return "closed form" if self.rows.shape[1] <= CLOSED else "quadrature"

    def coefficients(self, r: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """`c` with `R(u) / lam = sum_i c_i relu(u.x_i)`."""
        return r / len(r) / self.lam

    def near(self, r: Float[np.ndarray, "n m"]) -> bool:
        """Whether numbers of this size leave a square; far beyond the domain, where `|R|` may be as large as `|r|`."""
        return bool((np.abs(r) < 2.0**400 * max(self.lam, 1.0)).all())

    def bounded(self, r: Float[np.ndarray, "n m"]) -> str:
        """How `|R| < lam` is known: `"proved"` on the whole sphere, up to rounding, or `"sampled"`."""
        if self.cones is not None:
            return "proved"
        return (
            "proved"
            if self.cells is not None and below(self.rows, self.coefficients(r), self.cells, 1.0)
            else "sampled"
        )

    def nodes(self, r: Float[np.ndarray, "n m"], *, round_: int = 0) -> Directions | None:
        """Sampled directions adapted to `r`; `None` where nothing is sampled."""
        if self.cones is not None:
            return None
        return directions(
            self.rows, self.coefficients(r), n_samples=self.n_samples, seed=(self.seed, round_), cells=self.cells
        )

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
            own = self.nodes(r) if nodes is None else nodes
            assert own is not None
            found = sampled_partition(own, self.rows, c, second=second, errors=errors)
            if found is None or nodes is not None or not errors:
                return found
            # A sample knows nothing of what it has missed: another one, drawn independently, is asked too.
            other = self.nodes(r, round_=_SECOND)
            assert other is not None
            again = sampled_partition(other, self.rows, c, second=False)
            return None if again is None else widened(found, again)
        return cone_partition(*self.cones, c, order=order, second=second, errors=errors)

    def outputs(self, partition: Partition) -> Float[np.ndarray, "n m"]:
        """`f = E[a relu(v.x)]` at the inputs."""
        return -partition.gradient / (self.beta * self.lam)

    def outputs_error(self, partition: Partition) -> Float[np.ndarray, "n m"]:
        """Its error."""
        eps = float(np.finfo(float).eps)
        return partition.gradient_error / (self.beta * self.lam) + eps * np.abs(self.outputs(partition))

    def log_partition(self, log_total: float, m: int) -> float:
        """`log int exp(-beta (a.R(v) + lam/2 (|a|^2 + |v|^2))) da dv` from the integral over the sphere of `R^k`."""
        k, D = self.rows.shape[1], self.dimension
        stiffness = self.beta * self.lam
        radial = (k / 2 - 1) * math.log(2) + math.lgamma(k / 2)
        return log_total + radial + (D - k + m) / 2 * math.log(2 * math.pi) - (D + m) / 2 * math.log(stiffness)

    def negative_dual(self, r: Float[np.ndarray, "n m"], partition: Partition) -> float:
        """`|r|^2 / (2n) + r.y / n + log I / beta`: minus the dual value, up to a constant."""
        n = len(r)
        return float(((r / 2 + self.y) * r).sum() / n + partition.log_total / self.beta)
