"""What a solver hands back: the certificate that its limit computed, and how it ended."""

import dataclasses
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Float

from .. import _html
from ..certificate import BarrierCertificate, Certificate, LeastCertificate
from ..limits.measure_certificate import MeasureCertificate
from ..limits.net_certificate import NetCertificate

AnyCertificate = TypeVar(
    "AnyCertificate", Certificate, LeastCertificate, BarrierCertificate, MeasureCertificate, NetCertificate
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solution(Generic[AnyCertificate]):
    """The best certified pair that was found, and how the search ended.

    - `status`: `"optimal"`: the recomputed gap is at most the tolerance. `"not separable"` (maximum margin): no point
      has a positive margin beyond rounding; `farkas` shows it, and `certificate.upper` is a proved bound on the maximum
      margin. `"infeasible"`: no point of the domain interpolates (interpolation) or has the margin (barrier); `farkas`
      shows it. `"stalled"`: neither; the certificate's two bounds are what is known.
    - `reason`: the status in words, with the number that decided it.
    - `certificate`: recomputed from the data by `limit.certify`; never a solver's own figure.
    - `farkas`: maximum margin: multipliers `p >= 0` of sum one, shape `(N,)`, with `|sum_k p_k A_k|_dual` zero within
      rounding. Interpolation: `nu`, shape `(n,)`, with `nu.y > 0` and `X^T nu` zero within rounding (of the sign that
      rules out a positive product with any point of the domain), see `Interpolation.unreachable`. Barrier: `p >= 0`,
      shape `(n,)`, with `|Z'p|_1 <= kappa 1'p`, see `Barrier.unreachable`. `None` unless the status is
      `"not separable"` or `"infeasible"`.
    - `n_iterations`: steps of the method, polish included (0 for the active-set method of l2, which does not count).
    - `cpu_seconds`: process time of all threads.
    """

    status: str
    reason: str
    certificate: AnyCertificate
    farkas: Float[np.ndarray, " N"] | None
    n_iterations: int
    cpu_seconds: float

    def _repr_html_(self) -> str:
        facts = {"status": self.status, "reason": self.reason, "iterations": self.n_iterations}
        return _html.pairs({**facts, "CPU seconds": self.cpu_seconds}) + self.certificate._repr_html_()
