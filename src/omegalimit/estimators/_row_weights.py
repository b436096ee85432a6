"""Sample weights as estimators take them: not negative, and a row of weight zero is as good as absent."""

from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, to_float64


def row_weights(sample_weight: Any, n: int, *, least: int) -> tuple[np.ndarray, Float[np.ndarray, " k"]]:
    """The rows of positive weight, ascending, and their weights; all rows and ones for `None`.

    Raises `ValueError` for another shape than `(n,)`, weights that are negative or not finite, fewer than `least` rows
    that count, and weights whose ratio is no double; `TypeError` for weights that are no real numbers.
    """
    if sample_weight is None:
        return np.arange(n), np.ones(n)
    weights = to_float64(sample_weight, "sample_weight")[0]
    check_ndim(weights, "sample_weight", axes="n")
    if weights.size != n:
        raise ValueError(f"`sample_weight` has {weights.size} entries, and there are {n} rows; give one for each.")
    check_finite(weights, "sample_weight")
    negative = np.flatnonzero(weights < 0)
    if negative.size:
        raise ValueError(
            f"`sample_weight[{negative[0]}]` is {weights[negative[0]]:g}; no weight may be negative: take zero for "
            "rows that are not to count."
        )
    kept = np.flatnonzero(weights)
    if not kept.size:
        raise ValueError(f"`sample_weight` is zero for all {n} rows; the weights of at least {least} must be positive.")
    if kept.size < least:
        raise ValueError(
            f"`sample_weight` is positive for {kept.size} rows; the weights of at least {least} must be positive."
        )
    # Weights count against each other; without the check, one that is positive would count as zero.
    least_weight = int(kept[np.argmin(weights[kept])])
    if weights[least_weight] / weights.max() < np.finfo(float).tiny:
        raise ValueError(
            f"`sample_weight[{least_weight}]` is {weights[least_weight]:g} and the largest is {weights.max():g}: their "
            "ratio leaves the range of doubles; take zero for rows that are not to count."
        )
    return kept, weights[kept]
