"""What the zero-temperature limit certifies: a finite measure on the sphere, and bounds on the least objective."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int8
from numpy.typing import ArrayLike

from .. import _html
from .._checks import check_finite, shape_text, to_float64


def lengths(masses: Float[np.ndarray, "K m"]) -> Float[np.ndarray, " K"]:
    """`|c_k|`, also where squares would leave double precision."""
    if masses.shape[1] == 1:
        return np.abs(masses[:, 0])
    large = np.abs(masses).max(axis=1)
    return large * np.linalg.norm(masses / np.where(large > 0, large, 1.0)[:, None], axis=1)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NetCertificate:
    """Bounds `lower <= F* <= upper` on the least `(1/2n)|f - y|^2 + lam * total mass`, and the measure of the upper.

    - `directions`: `u_k`, shape `(K, D)`, unit vectors, in the order they were given; none with mass zero.
    - `masses`: `c_k`, shape `(K,)` or `(K, m)`: `f(x) = sum_k c_k relu(u_k'xt)`.
    - `patterns`: the signs of `u_k'xt_i`, shape `(K, n)`, entries -1, 0, +1, decided in rational arithmetic for the
      direction that is meant: the given float vector where no pattern was claimed for it, else its orthogonal
      projection on the rows that the claimed pattern calls zero. `directions` are those projections, rounded.
    - `residual`: the dual point, shape `(n,)` or `(n, m)`, scaled so that `|R(u)| <= lam` on the whole sphere.
    - `fitted`: `f(x_i)`, of the shape of `y`.
    - `lower`: the dual value at `residual`; `upper`: the objective at the measure.
    - `difference`: `upper - lower`, summed from terms none of which is negative:
      `|f - y - r|^2 / (2n) + sum_k (lam |c_k| + c_k.R(u_k))`. It may be far below the rounding of either bound.
    - `slack`: rounding error of either bound, absolute, first order; `difference_slack`: that of `difference`.
    - `largest`: `max_u |R(u)| / lam` of the residual as it was given, before the scaling.
    - `alignment`: `-R(u_k).c_k / (lam |c_k|)`, shape `(K,)`: one on every direction of an optimum.
    - `unique`: true where it is proved that no other measure attains the least objective; `None` where that is not
      decided, and `uniqueness` says why. Predictions at the inputs are unique always.
    - `n_dichotomies`: `P`, the number of linear dichotomies of the inputs, exact.
    """

    directions: Float[np.ndarray, "K D"]
    masses: Float[np.ndarray, "..."]
    patterns: Int8[np.ndarray, "K n"]
    residual: Float[np.ndarray, "..."]
    fitted: Float[np.ndarray, "..."]
    lower: float
    upper: float
    difference: float
    slack: float
    difference_slack: float
    largest: float
    alignment: Float[np.ndarray, " K"]
    unique: bool | None
    uniqueness: str
    n_dichotomies: int
    bias: bool

    @property
    def n_directions(self) -> int:
        """`K`."""
        return len(self.directions)

    @property
    def bound(self) -> int:
        """`2P - 1`, the number of directions that the authors state as the most."""
        return 2 * self.n_dichotomies - 1

    @property
    def total_mass(self) -> float:
        """`sum_k |c_k|`."""
        m = self.masses.shape[1] if self.masses.ndim == 2 else 1
        return float(lengths(self.masses.reshape(self.n_directions, m)).sum())

    @property
    def gap(self) -> float:
        """`difference / upper`: zero if and only if the pair is optimal; 0 where both bounds are zero."""
        if self.upper == 0:
            return 0.0 if self.lower >= 0 else float("inf")
        return self.difference / self.upper

    @property
    def relative_slack(self) -> float:
        """Rounding error of `gap`, first order."""
        return self.difference_slack / self.upper if self.upper > 0 else 0.0

    @property
    def distinct_patterns(self) -> bool:
        """Each direction has a ternary pattern of its own."""
        return len(np.unique(self.patterns, axis=0)) == self.n_directions

    @property
    def kinks(self) -> Float[np.ndarray, "K D"]:
        """The hyperplanes `u_k'(x, 1) = 0` (without bias `u_k'x = 0`) between the cells of the predictor, one a row.

        For one input with bias the kink lies at `-kinks[:, 1] / kinks[:, 0]`, where `kinks[:, 0]` is not zero.
        """
        return self.directions

    def predict(self, X: ArrayLike) -> Float[np.ndarray, "..."]:
        """`f` at inputs `X`, shape `(N, d)`; shape `(N,)`, or `(N, m)` for vector outputs."""
        x, _ = to_float64(X, "X")
        d = self.directions.shape[1] - self.bias
        if x.ndim != 2 or x.shape[1] != d:
            raise ValueError(
                f"`X` must have shape (N, {d}), as the inputs that were fitted; got {shape_text(x.shape)}."
            )
        check_finite(x, "X")
        rows = np.column_stack([x, np.ones(len(x))]) if self.bias else x
        return np.maximum(rows @ self.directions.T, 0.0) @ self.masses

    def _repr_html_(self) -> str:
        unique = "yes" if self.unique else self.uniqueness
        facts = {"directions": self.n_directions, "total mass": self.total_mass, "unique": unique}
        return _html.bounds(self, of="least regularised loss", facts=facts)
