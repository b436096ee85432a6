"""The certificate of a stationary measure: two-sided bounds on the least free energy, from a residual alone."""

import dataclasses

import numpy as np
from jaxtyping import Float

from .. import _html


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MeasureCertificate:
    """Bounds `lower <= F* <= upper` on the least free energy, see `StationaryMeasure`.

    - `lower`: the dual value `G(r)` at the residual; `upper`: the free energy of the Gibbs measure that it defines.
      Minus and plus infinity where the residual lies outside the domain, `largest |R(u)| < lam`.
    - `slack`: error of either bound, absolute: rounding, quadrature, or four standard errors of a sample.
    - `difference`: `upper - lower`, which is `|f - y - r|^2 / (2n)` exactly, and is computed so: it may be far smaller
      than the rounding of either bound. `difference_slack`: its own error.
    - `residual`: `r`; `outputs`: `f`, what the measure predicts on the inputs, with the error `outputs_error` of each
      entry; all of the shape of the targets.
    - `mismatch`: `|f - y - r|_2`, with its error `mismatch_slack`; `size`: `|y|_2`, against which `gap` is taken:
      free energies have no zero of their own.
    - `method`: by the dimension `k` that the inputs span: `"closed form"` (`k <= 3`), `"quadrature"` (`k = 4`) or
      `"sampled"` (`k > 4`). A sample's error does not see a peak that the sample has missed: then it is too small.
    - `bounded`: `"proved"` where `|R| < lam` was verified on the whole sphere (up to rounding), `"sampled"` where only
      at sampled directions and where a search found `|R|` largest, `"violated"` outside the domain.
    """

    lower: float
    upper: float
    slack: float
    difference: float
    difference_slack: float
    residual: Float[np.ndarray, "..."]
    outputs: Float[np.ndarray, "..."]
    outputs_error: Float[np.ndarray, "..."]
    mismatch: float
    mismatch_slack: float
    size: float
    method: str
    bounded: str

    @property
    def gap(self) -> float:
        """`(mismatch / size)^2`: the difference over the loss of predicting nothing. Zero if and only if the measure is
        the stationary one; 0 or `inf` where `y` is zero."""
        if self.size > 0:
            return (self.mismatch / self.size) ** 2
        return 0.0 if self.mismatch == 0 else float("inf")

    @property
    def relative_slack(self) -> float:
        """Error of `gap`."""
        if self.size > 0:
            return (2 * self.mismatch / self.size + self.mismatch_slack / self.size) * (self.mismatch_slack / self.size)
        return 0.0 if self.mismatch_slack == 0 else float("inf")

    @property
    def distance(self) -> float:
        """A bound on `|r - r*|_2` and on `|f - f*|_2` alike: `|f - y - r|_2`.

        The dual is strongly concave with the constant `1/n`, and `|f - f*|^2 / (2n)` is part of what a measure's free
        energy exceeds the least one by.
        """
        return self.mismatch + self.mismatch_slack

    def _repr_html_(self) -> str:
        facts = {
            "distance to the optimum": f"at most {_html.number(self.distance)}",
            "method": self.method,
            "inside the domain": self.bounded,
        }
        return _html.bounds(self, of="least free energy", facts=facts)
