"""Which part of the targets a ReLU network can reach at the inputs, whatever its width.

The features `(relu(u'xt_i))_i`, over all `u`, span a subspace of `R^n`. A vector `a` is orthogonal to it if and only
if `sum_i a_i relu(u'xt_i)` vanishes for all `u`. Each hyperplane is a kink of its own rows alone, so that there these
must cancel: those that point one way up to a linear function, which those that point the other way share. So

- rows `s_i xt` with one sense are one input: reached is `s_i` times one number, the weighted mean of the targets;
- where rows of both senses occur (never with a bias), `relu(t) - relu(-t) = t`, and linear functions may be dependent.

Derived here.
"""

import numpy as np
from jaxtyping import Float

from ._arrangement_integers import independent_rows
from .arrangement import Arrangement


class Reach:
    """The span of the features of the rows of an arrangement."""

    def __init__(self, arrangement: Arrangement):
        which, first, ratios = arrangement.same_rows()
        self._which, self._ratios, self._merges = which, ratios, len(first) < len(which)
        self._weights = np.bincount(which, weights=ratios**2)
        self._null = _paired(arrangement, first, np.sqrt(self._weights))

    def part(self, values: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """The orthogonal projection on the span."""
        if not self._merges and self._null is None:
            return values
        sums = np.zeros((len(self._weights), values.shape[1]))
        np.add.at(sums, self._which, self._ratios[:, None] * values)
        means = sums / self._weights[:, None]
        if self._null is not None:
            lengths = np.sqrt(self._weights)[:, None]
            for _ in range(2):  # once more for what rounding left
                means = means - self._null @ (self._null.T @ (means * lengths)) / lengths
        return self._ratios[:, None] * means[self._which]


def _paired(arrangement: Arrangement, first, lengths) -> Float[np.ndarray, "g k"] | None:
    """An orthonormal basis of the vectors on groups of rows that no feature sees; `None` where there are none.

    In the coordinates in which the group's features have length one: `a_g` times the length.
    """
    rows = arrangement.exact_rows[first]
    place = {tuple(row): g for g, row in enumerate(rows.tolist())}
    pairs = [(g, place.get(tuple(-a for a in row))) for g, row in enumerate(rows.tolist())]
    pairs = [(g, h) for g, h in pairs if h is not None and g < h]
    if not pairs:
        return None
    one = [g for g, _ in pairs]
    rank = len(independent_rows(rows[one]))
    if rank == len(pairs):
        return None
    # The first row of the other sense is `-ratio` times the first of this one.
    normals = arrangement.rows[first]
    sizes = np.linalg.norm(normals, axis=1)
    U, _, _ = np.linalg.svd(normals[one] / sizes[one, None])
    found = np.zeros((len(rows), len(pairs) - rank))
    for k, (g, h) in enumerate(pairs):
        found[g], found[h] = U[k, rank:] / sizes[g], -U[k, rank:] / sizes[h]
    # `sum_g a_g f_g` with `a_g` on first rows; the length of a group's coordinate is that of its ratios.
    Q, _ = np.linalg.qr(found / lengths[:, None])
    return Q
