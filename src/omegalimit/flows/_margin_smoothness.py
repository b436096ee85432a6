"""How large a gradient step on a linear margin loss may be."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from .._threads import one_blas_thread
from ..losses import AbstractLoss
from ._margin_rows import LOG_2, MarginRows, checked_margin_rows, checked_scaled_start


def smoothness(Z: Any, *, weights: Any = None, loss: str | AbstractLoss = "logistic", start: Any = None) -> float:
    """The largest eigenvalue of `sup l'' sum_i c_i z_i z_i'`: a bound on the Hessian of L, everywhere.

    Logistic: `lambda_max(Z' diag(c) Z) / 4`. A loss whose curvature has no bound (the exponential) gets the largest
    eigenvalue of the Hessian at `start` (zero when `None`); steps below 2 over it stay safe only as
    long as no margin falls. Infinite where it overflows. Arguments as for `separable_flow`.
    """
    rows = checked_margin_rows(Z, weights, loss)
    value, exponent = scaled_smoothness(rows, checked_scaled_start(start, rows))
    return times_power_of_two(value, exponent + 2 * rows.exponent)


def scaled_smoothness(rows: MarginRows, w: Float[np.ndarray, " d"]) -> tuple[float, int]:
    """The bound in the units of the rows, over `2^exponent`, and the exponent."""
    if math.isfinite(rows.loss.largest_curvature):
        log_bends = rows.log_c + math.log(rows.loss.largest_curvature)
    else:
        slope, bend = rows.log_slopes(rows.Z @ w)
        with np.errstate(divide="ignore"):
            log_bends = rows.log_c + slope + np.log(-bend)
    shift = math.ceil(float(log_bends.max()) / LOG_2)
    A = np.exp((log_bends - shift * LOG_2) / 2)[:, None] * rows.Z
    with one_blas_thread():
        return float(np.linalg.norm(A, 2)) ** 2, shift


def times_power_of_two(value: float, exponent: int) -> float:
    """`value 2^exponent` for any integer; infinite or zero where that is beyond double precision."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(value, min(max(exponent, -5000), 5000)))
