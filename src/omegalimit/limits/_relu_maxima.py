"""Where `|R(u)|`, `R(u) = (1/n) sum_i r_i relu(u'xt_i)`, can be largest on the sphere: a finite list, exactly.

On the relative interior of a face of the arrangement of the rows, `R(u) = G_F'u` with `G_F = (1/n) sum_{+} xt_i r_i'`
over the rows that the face calls positive. A maximum of `|R|` over the sphere lies in the relative interior of one face
`F`, and is stationary there: with `L` the span of `F`, a left singular vector of `P_L G_F` (scalar: `P_L g_F` itself),
`|R|` its singular value. So the largest value is that of the best such vector which lies in its own face. Where
singular values are equal, any vectors of their space will do: a plane of maxima that meets the face's interior meets
its boundary too, since pointed cones hold no line, and there a smaller face has the same value. Hence rounding, which
is a small change of `G_F`, changes the largest value by no more than itself.

For scalar outputs and many dimensions, where faces are too many, cell by cell: the largest `g'u` over a closed cell
`{u : A u >= 0}` of the unit ball is the length of the projection of `g` on it, and `|g + A'mu|` for any `mu >= 0` is an
upper bound; non-negative least squares gives both.

Both derived here.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int8
from scipy.optimize import nnls

from .arrangement import Arrangement

_EPS = float(np.finfo(float).eps)
# A vector is in its face where signs agree to some rounding errors of a product of unit vectors.
INSIDE = 64 * _EPS
# So many numbers are held at a time.
_CHUNK = 4_000_000


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Maxima:
    """Stationary directions of `|R|`, by falling value.

    - `value`: the largest `|R|` on the sphere, an upper bound up to rounding; 0 where `R` vanishes.
    - `directions`: shape `(K, D)`, unit; `values`: `|R|` there, shape `(K,)`; `outputs`: `R` there, `(K, m)`.
    - `patterns`: the face (its ternary pattern) that each lies in, `(K, n)`.
    """

    value: float
    directions: Float[np.ndarray, "K D"]
    values: Float[np.ndarray, " K"]
    outputs: Float[np.ndarray, "K m"]
    patterns: Int8[np.ndarray, "K n"]


class Faces:
    """All faces of the arrangement of `rows`, for at most three dimensions, with the projections on their spans."""

    def __init__(self, arrangement: Arrangement, *, most: int):
        faces = arrangement.faces(most=most)
        keep = np.flatnonzero(faces.signs.any(axis=1))
        self.rows, self.signs, self.dimensions = arrangement.rows, faces.signs[keep], faces.dimensions[keep]
        self.units = self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True)
        D = self.rows.shape[1]
        self.projections = np.broadcast_to(np.eye(D), (len(keep), D, D)).copy()
        for k in np.flatnonzero(self.dimensions < D):
            if self.dimensions[k] == 1:
                point = faces.points[keep[k]]
                self.projections[k] = np.outer(point, point)
            else:  # in three dimensions, a plane: all rows that are zero on it are parallel
                normal = self.units[np.flatnonzero(self.signs[k] == 0)[0]]
                self.projections[k] -= np.outer(normal, normal)

    def stationary(self, residual: Float[np.ndarray, "n m"]):
        """Left singular vectors `(F, q, D)`, singular values `(F, q)`, the outputs `R` at the vectors, `(F, q, m)`.

        Of `P_L G_F`, face by face; a value that rounding makes of `G_F` is zero.
        """
        n, D = self.rows.shape
        weighted = (self.rows[:, :, None] * residual[:, None, :] / n).reshape(n, -1)
        whole = ((self.signs > 0) @ weighted).reshape(-1, D, residual.shape[1])
        G = self.projections @ whole
        rounding = INSIDE * np.linalg.norm(whole, axis=(1, 2))[:, None]
        if residual.shape[1] == 1:
            values = np.linalg.norm(G, axis=1)
            vectors = (G / np.where(values > 0, values, 1.0)[:, None, :]).transpose(0, 2, 1)
            values = np.where(values > rounding, values, 0.0)
            return vectors, values, values[:, :, None]
        U, S, V = np.linalg.svd(G, full_matrices=False)
        S = np.where(rounding < S, S, 0.0)
        return U.transpose(0, 2, 1), S, S[:, :, None] * V

    def maxima(self, residual: Float[np.ndarray, "n m"], share: float, least: float = np.inf) -> Maxima:
        """All stationary directions of at least `share` of the largest value, or of `least` where that is lower."""
        vectors, values, outputs = self.stationary(residual)
        n, D = self.rows.shape
        face, place = (x.ravel() for x in np.indices(values.shape))
        order = np.argsort(-values.ravel(), kind="stable")
        order = order[values.ravel()[order] > 0]
        found, best = [], 0.0
        step = max(1, _CHUNK // (8 * n))
        for start in range(0, len(order), step):
            part = order[start : start + step]
            if values[face[part[0]], place[part[0]]] < min(share * best, least):
                break
            f, j = face[part], place[part]
            products = vectors[f, j] @ self.units.T
            signs = self.signs[f]
            inside = signs * products >= -INSIDE, signs * products <= INSIDE
            for sign, ok in ((1.0, inside[0]), (-1.0, inside[1])):
                here = np.flatnonzero((ok | (signs == 0)).all(axis=1))
                if len(here):
                    best = max(best, float(values[f[here], j[here]].max()))
                    found.append((f[here], j[here], np.full(len(here), sign)))
        if not found:
            return _none(D, outputs.shape[2], n)
        f, j, sign = (np.concatenate(part) for part in zip(*found, strict=True))
        size = values[f, j]
        keep = np.flatnonzero(size >= min(share * best, least))
        keep = keep[np.argsort(-size[keep], kind="stable")]
        f, j, sign = f[keep], j[keep], sign[keep, None]
        return Maxima(
            value=best,
            directions=sign * vectors[f, j],
            values=values[f, j],
            outputs=sign * outputs[f, j],
            patterns=self.signs[f],
        )


class Cells:
    """The cells of the arrangement of `rows` alone: scalar outputs, any dimension."""

    def __init__(self, arrangement: Arrangement, *, most: int):
        self.arrangement, self.rows = arrangement, arrangement.rows
        self.signs = arrangement.cells(most=most).signs
        self.units = self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True)

    def maxima(self, residual: Float[np.ndarray, "n 1"], share: float, least: float = np.inf) -> Maxima:
        """The maximiser of `R` and of `-R` in each closed cell, where of at least `share` of the largest value.

        Or of at least `least`, where that is lower.
        """
        n, D = self.rows.shape
        G = (self.signs > 0) @ (self.rows * residual / n)
        ceiling = np.linalg.norm(G, axis=1)
        found = []
        upper = best = 0.0
        for cell in np.argsort(-ceiling, kind="stable"):
            # No direction of this cell or a later one counts, and none is larger than what has been found.
            if ceiling[cell] == 0 or ceiling[cell] < min(min(share, 1.0) * best, least):
                break
            A = self.signs[cell, :, None] * self.units
            for sign in (1, -1):
                cut = min(share * best, least)
                p, mu, bound = projection(sign * G[cell] / ceiling[cell], A, least=0.999 * cut / ceiling[cell])
                upper = max(upper, bound * ceiling[cell])
                if p is None:
                    continue
                size = float(np.linalg.norm(p))
                value = size * ceiling[cell]
                if size > INSIDE and value >= cut:
                    best = max(best, value)
                    found.append((value, sign, p / size, mu))
        found = [x for x in found if x[0] >= min(share * best, least)]
        if not found:
            return _none(D, 1, n, upper)
        # Closed cells share faces: what lies on one is found from each of them.
        found.sort(key=lambda x: -x[0])
        chosen: dict[tuple[bytes, int], tuple] = {}
        seen = set()
        for value, sign, u, mu in found:
            place = (*np.round(u, 9).tolist(), sign)
            if place in seen:
                continue
            seen.add(place)
            pattern = self.face(u, mu)
            chosen.setdefault((pattern.tobytes(), sign), (value, sign, u, pattern))
        values, signs, directions, patterns = (np.array(x) for x in zip(*chosen.values(), strict=True))
        return Maxima(
            value=max(upper, best),
            directions=directions,
            values=values,
            outputs=(signs * values)[:, None],
            patterns=patterns,
        )

    def face(self, u, mu) -> Int8[np.ndarray, " n"]:
        """The pattern: rows with a multiplier are zero at the maximiser, and so is every row in their span."""
        return self.arrangement.pattern(u, zeros=mu > 0)


def projection(
    g: Float[np.ndarray, " D"], A: Float[np.ndarray, "n D"], *, least: float = 0.0
) -> tuple[Float[np.ndarray, " D"] | None, Float[np.ndarray, " n"], float]:
    """The projection of `g` on `{u : A u >= 0}`, its multipliers, and `|g + A'mu|`, which bounds `g'u` there.

    `None` in place of the projection where that bound is below `least`.
    """
    if (A @ g >= 0).all():
        return g, np.zeros(len(A)), float(np.linalg.norm(g))
    try:
        mu, _ = nnls(A.T, -g, maxiter=50 * len(A))
    except RuntimeError:  # SciPy's word for too many steps; `|g|` is a bound all the same
        return None, np.zeros(len(A)), float(np.linalg.norm(g))
    bound = float(np.linalg.norm(g + A.T @ mu))
    if bound < least:
        return None, mu, bound
    Q, _ = np.linalg.qr(A[mu > 0].T)
    p = g - Q @ (Q.T @ g)
    return p - Q @ (Q.T @ p), mu, bound


def _none(D, m, n, value=0.0):
    return Maxima(
        value=value,
        directions=np.zeros((0, D)),
        values=np.zeros(0),
        outputs=np.zeros((0, m)),
        patterns=np.zeros((0, n), dtype=np.int8),
    )
