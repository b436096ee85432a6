"""Which point of a face of least interpolants: the next order of a vanishing start decides by an entropy.

For `k_i = +-w_i alpha^2 e^(s_i / t_i)`, the two-layer networks (`u^2 - v^2`: `t = 1`, `w` the squares of the shape of
the start) and the commuting quadratic ones (`q_0 = alpha^2 w`, `k >= 0`), the potential at a small `alpha` is

    log(1 / alpha^2) sum_i t_i |k_i|  +  sum_i t_i (|k_i| log(|k_i| / w_i) - |k_i|)  +  smaller terms,

so that `alpha -> 0` first selects the least modified l1 norm, and of its minimisers the one of least weighted entropy.
With `x_i = t_i |k_i|` that is a relative entropy with the weights `t_i w_i` over `{x >= 0 : B x = y}` of
`limits/_interpolant_face.py`. Derived here.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .._checks import shape_text
from ..certificate import LeastCertificate
from ._arrays import checked
from .face import optimal_face
from .interpolation import Interpolation
from .regularisers import ModifiedL1, RelativeEntropy


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FaceEntropy:
    """The problem on the face, over the coordinates that can be nonzero there.

    - `limit`: relative entropy of `x_i = t_i |k_i|` over `B x = y`; solve it, and `lift` its point.
    - `indices`, `signs`, `bounds`: the coordinates of `k`, their signs, and the bound `t_i` of that sign.
    - `n_coordinates`: how many `k` has.
    """

    limit: Interpolation
    indices: Int[np.ndarray, " T"]
    signs: Float[np.ndarray, " T"]
    bounds: Float[np.ndarray, " T"]
    n_coordinates: int

    def lift(self, x: ArrayLike) -> Float[np.ndarray, " d"]:
        """The interpolant with these terms, shape `(d,)`."""
        point = np.zeros(self.n_coordinates)
        point[self.indices] = self.signs * np.asarray(x, dtype=float) / self.bounds
        return point

    def restrict(self, k: ArrayLike) -> Float[np.ndarray, " T"]:
        """The terms `x_i = t_i |k_i|` of an interpolant on the face."""
        return self.signs * np.asarray(k, dtype=float)[self.indices] * self.bounds


def entropy_on_face(
    limit: Interpolation, certificate: LeastCertificate, *, w_plus: ArrayLike = 1.0, w_minus: ArrayLike = 1.0
) -> FaceEntropy:
    """The problem that decides within the face of minimisers of a `ModifiedL1` limit.

    - `certificate`: of an optimal pair, as `solve(limit)` gives it.
    - `w_plus`, `w_minus`: positive, a number or one for each coordinate: `w_i` where the coordinate is positive and
      where it is negative (`u0^2` and `v0^2` for `u^2 - v^2`). Only ratios matter.

    Raises `TypeError` for a limit that is no modified l1 norm, and `ValueError` where the face cannot be determined,
    with the reason, or for weights of the wrong shape or sign.
    """
    if not isinstance(limit, Interpolation) or not isinstance(limit.regulariser, ModifiedL1):
        name = type(limit.regulariser if isinstance(limit, Interpolation) else limit).__name__
        raise TypeError(f"`limit` must be an Interpolation with a ModifiedL1; got {name}.")
    d = limit.shape[0]
    up, down = (_weights(w, name, d) for w, name in ((w_plus, "w_plus"), (w_minus, "w_minus")))
    face = optimal_face(limit, certificate)
    if face.unique is None or (not face.unique and (face.lowest is None or face.highest is None)):
        raise ValueError(f"The face of least interpolants is not known: {face.reason}")
    lowest = certificate.point if face.lowest is None else face.lowest
    highest = certificate.point if face.highest is None else face.highest
    indices = np.flatnonzero((lowest != 0) | (highest != 0))
    if not len(indices):
        raise ValueError("The only least interpolant is zero; there is nothing to decide on its face.")
    signs = np.where(highest[indices] > 0, 1.0, -1.0)
    f = limit.regulariser
    bounds = np.where(signs > 0, f.t_plus[indices], f.t_minus[indices])
    weights = bounds * np.where(signs > 0, up[indices], down[indices])
    on_face = Interpolation(RelativeEntropy(weights), limit.X[:, indices] * (signs / bounds), limit.y)
    return FaceEntropy(limit=on_face, indices=indices, signs=signs, bounds=bounds, n_coordinates=d)


def _weights(value, name, d):
    array = checked(name, value)
    if array.shape not in ((), (d,)):
        raise ValueError(f"`{name}` must be a number or have shape {shape_text((d,))}; got {shape_text(array.shape)}.")
    if not (array > 0).all():
        raise ValueError(f"`{name}` must be positive; its least entry is {array.min():g}.")
    return np.broadcast_to(array, (d,))
