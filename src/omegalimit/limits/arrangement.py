"""Central arrangements of hyperplanes: the linear dichotomies of the inputs and their ternary patterns, exactly.

A neuron `u` in `R^D` reads the inputs through the signs of `xt_i . u`, with `xt_i = (x_i, 1)`, or `x_i` without bias.
The hyperplanes `xt_i . u = 0` cut `R^D` into open cones, the *cells*: one for each dichotomy of the inputs by a linear
function. Relatively open faces of every dimension carry the ternary patterns, and the one-dimensional ones are the
*rays*, the corners of the cells on the sphere.

The number of cells is at most Cover's count (T. M. Cover, Geometrical and statistical properties of systems of linear
inequalities, 1965; the count goes back to Schläfli)

    P <= 2 sum_{k < D} C(n - 1, k)

with equality if and only if the rows are in general position: every `min(n, D)` of them independent.

Rows are taken exactly as they stand, as dyadic rationals, and every sign is decided in integers; floating point only
decides those that its error bound leaves no doubt about. Repeated, parallel and opposite rows, several hyperplanes
through one ray and rows that do not span `R^D` are all allowed. Each row times a positive number changes nothing.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, check_ndim, shape_text, to_float64
from ._arrangement_count import (
    MOST_MINORS,
    count_cells,
    counted,
    cover_count,
    face_count,
    grouped,
    in_general_position,
    n_minors,
)
from ._arrangement_faces import TooManyPatterns, compose, quotient, ranks_of, rays_of
from ._arrangement_integers import (
    distinct_rows,
    exact_signs,
    floats_of,
    independent_rows,
    integer_rows,
    integers_of,
    refuse_sparse,
    unit,
)
from ._arrangement_projection import determinant, orthogonalised, without
from ._arrangement_results import Cells, Faces
from ._arrangement_thin import double_inside

__all__ = ["Arrangement", "Cells", "Faces", "augmented", "cover_count", "face_count"]

# Of signs that are held at once, one byte each.
_MOST_SIGNS = 1 << 28
# Subsets of rows over which a refusal decides general position (in well under a second), so as to name the exact count.
_FEW_MINORS = 2_000_000
# Subsets of rows whose null vectors are computed, in integers.
_MOST_SUBSETS = 1_000_000


def augmented(X: ArrayLike, *, bias: bool = True) -> Float[np.ndarray, "n D"]:
    """The rows `xt_i = (x_i, 1)` of inputs `X` of shape `(n, d)`, so `D = d + 1`; without `bias` a copy of `X`.

    Raises `ValueError` or `TypeError` for arrays of the wrong shape or kind and entries that are not finite.
    """
    refuse_sparse("X", X)
    inputs, _ = to_float64(X, "X")
    check_ndim(inputs, "X", axes="n, d")
    check_finite(inputs, "X")
    if len(inputs) == 0 or (inputs.shape[1] == 0 and not bias):
        raise ValueError(f"`X` must have shape (n, d) and at least one entry; got {shape_text(inputs.shape)}.")
    return np.column_stack([inputs, np.ones(len(inputs))]) if bias else inputs


@dataclasses.dataclass(frozen=True, eq=False)
class Arrangement:
    """The central hyperplanes with these normals, see the top of this file.

    - `rows`: normals, shape `(n, D)`: floats, taken exactly; or integers and fractions of any size, whose rows are
      then kept as doubles, each times a positive number, for reading only.
    - `what`: the words for them in messages; `None`: "32 rows of 9 columns".

    Raises `ValueError` or `TypeError` for an empty array, entries that are not finite rational numbers, and rows of
    zeros.
    """

    rows: Any = dataclasses.field(repr=False)
    what: str | None = None
    _exact: Any = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        refuse_sparse("rows", self.rows)
        exact = integer_rows(self.rows, "rows")
        object.__setattr__(self, "_exact", exact)
        given = np.asarray(self.rows)
        rows = floats_of(exact) if given.dtype == object else np.array(given, dtype=float)
        rows.flags.writeable = False
        object.__setattr__(self, "rows", rows)

    @classmethod
    def of_inputs(cls, X: ArrayLike, *, bias: bool = True) -> "Arrangement":
        """The arrangement of the inputs' dichotomies: rows `augmented(X)`."""
        rows = augmented(X, bias=bias)
        return cls(rows, counted(len(rows), "input") + " of " + counted(rows.shape[1] - bias, "column"))

    @property
    def shape(self) -> tuple[int, int]:
        """`(n, D)`."""
        n, D = self._exact.shape
        return n, D

    @functools.cached_property
    def _distinct(self):
        return distinct_rows(self._exact)

    @property
    def exact_rows(self) -> np.ndarray:
        """The rows as coprime integers, dtype object, shape `(n, D)`: each times a positive number of its own."""
        return self._exact

    def same_rows(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " g"], Float[np.ndarray, " n"]]:
        """For each row its group, of rows that are positive multiples of one another; first rows; the multiples.

        Row `i` is `multiples[i]`, rounded, times the first row of its group.
        """
        which, orientation = self._distinct[1:]
        _, first, group = np.unique(2 * which + (orientation > 0), return_index=True, return_inverse=True)
        leaders = self.rows[first][group]
        column = np.abs(leaders).argmax(axis=1)
        every = np.arange(len(column))
        return group, first, self.rows[every, column] / leaders[every, column]

    @functools.cached_property
    def _quotient(self) -> tuple[np.ndarray, np.ndarray]:
        return quotient(self._exact[self._distinct[0]])

    @property
    def n_hyperplanes(self) -> int:
        """The number of different hyperplanes: parallel rows, of either sense, have one in common."""
        return len(self._distinct[0])

    @property
    def rank(self) -> int:
        """The rank of the rows."""
        return self._quotient[0].shape[1]

    @functools.cached_property
    def lineality(self) -> Float[np.ndarray, "k D"]:
        """Orthonormal directions, `D - rank` of them, that lie on every hyperplane. Each rounded from integers."""
        D = self.shape[1]
        whole = np.empty((D - self.rank, D), dtype=object)
        for k, direction in enumerate(self._lineality()):
            whole[k] = direction
        return unit(floats_of(whole))

    def _lineality(self) -> list[list[int]]:
        """Orthogonal integer vectors that span the directions on every hyperplane."""
        D = self.shape[1]
        if self.rank == D:
            return []
        rows = self._exact_distinct
        basis = orthogonalised(rows[independent_rows(rows)].tolist())
        return orthogonalised([[int(i == j) for j in range(D)] for i in range(D)], basis)

    @property
    def _exact_distinct(self) -> np.ndarray:
        return self._exact[self._distinct[0]]

    @functools.cached_property
    def _simple(self) -> bool | None:
        """Whether the different hyperplanes are in general position on the row space; `None` where not decided."""
        m, r = self.n_hyperplanes, self.rank
        if r <= 2:
            return True
        return in_general_position(self._quotient[0]) if n_minors(m, r) <= MOST_MINORS else None

    @property
    def general_position(self) -> bool | None:
        """Whether every `min(n, D)` rows are independent, proved.

        `None` where that would mean more than 40 million subsets of the rows.
        """
        n, D = self.shape
        if D == 1:
            return True
        return self._simple if self.n_hyperplanes == n and self.rank == min(n, D) else False

    @functools.cached_property
    def n_cells(self) -> int:
        """The number `P` of linear dichotomies, exactly.

        Cover's count where the hyperplanes are in general position on the row space; else each hyperplane is counted
        in as often as the earlier ones cut it. Raises `ValueError` where that would take more than minutes.
        """
        m, r = self.n_hyperplanes, self.rank
        if "_cells" in self.__dict__:
            return len(self.__dict__["_cells"])
        if self._simple:
            return cover_count(m, r)
        if math.comb(m, max(r - 2, 0)) > 500_000:
            raise ValueError(
                f"The dichotomies of these {self._what} are too many to count in minutes; there are at most "
                f"{grouped(cover_count(m, r))} (Cover's count). Take fewer inputs, or fewer columns."
            )
        return count_cells(self._quotient[0])

    @property
    def _what(self) -> str:
        n, D = self.shape
        return self.what or counted(n, "row") + " of " + counted(D, "column")

    def _refuse_above(self, most: int) -> None:
        """Raise `ValueError` when there are more than `most` cells, before any is made."""
        rows, m, r = self._quotient[0], self.n_hyperplanes, self.rank
        bound = cover_count(m, r)
        if bound > most:
            # Fewer hyperplanes never have more cells, and a few in general position may settle it.
            few = next(k for k in range(1, m + 1) if cover_count(k, r) > most)
            settled = n_minors(few, r) <= MOST_MINORS and in_general_position(rows[:few])
            found = f"more than {grouped(most)} dichotomies, up to {grouped(bound)} (Cover's count)"
            if n_minors(m, r) <= _FEW_MINORS and self._simple:
                raise ValueError(self._too_many(f"{grouped(bound)} dichotomies (Cover's count)", most))
            if settled or count_cells(rows, most=most) > most:
                raise ValueError(self._too_many(found, most))
        n = self.shape[0]
        if min(bound, most) * n > _MOST_SIGNS:
            raise ValueError(
                f"The dichotomies of these {self._what} have up to {grouped(min(bound, most) * n)} signs; at most "
                f"{grouped(_MOST_SIGNS)} are held. Take fewer inputs, or fewer columns."
            )

    def _too_many(self, found: str, most: int) -> str:
        return (
            f"These {self._what} have {found}; at most {grouped(most)} are enumerated. "
            "Take fewer inputs or fewer columns, or raise `most`."
        )

    @functools.cached_property
    def _rays(self) -> tuple[np.ndarray, Int[np.ndarray, "K m"], Float[np.ndarray, "K D"]]:
        """Integer vectors, their signs on the different hyperplanes, and unit vectors."""
        rows, B = self._quotient
        subsets = math.comb(self.n_hyperplanes, self.rank - 1)
        if subsets > _MOST_SUBSETS:
            raise ValueError(
                f"The cells of these {self._what} have corners on {grouped(subsets)} subsets of the rows; at most "
                f"{grouped(_MOST_SUBSETS)} are looked at. Take fewer inputs, or fewer columns."
            )
        vectors, signs = rays_of(rows)
        lifted = vectors.dot(B.T)
        both = np.concatenate([lifted, -lifted])
        return both, np.concatenate([signs, -signs]), unit(floats_of(both))

    @property
    def rays(self) -> Float[np.ndarray, "K D"]:
        """Unit vectors of the rays: of ray `k` and, `K/2` further on, its opposite. Each rounded from integers.

        Where the rows do not span `R^D`, the rays of the cells' intersections with the row space: a closed cell is
        the cone of its rays, plus the span of `lineality`.
        """
        return self._rays[2]

    @functools.cached_property
    def ray_signs(self) -> Int[np.ndarray, "K n"]:
        """The exact ternary signs of the rays, shape `(K, n)`."""
        return self._expanded(self._rays[1])

    def _expanded(self, signs: Int[np.ndarray, "k m"]) -> Int[np.ndarray, "k n"]:
        """Signs on the distinct hyperplanes, on all rows."""
        _, which, orientation = self._distinct
        return signs[:, which] * orientation

    def cells(self, *, most: int = 200_000) -> Cells:
        """All cells. Counts before enumerating, and raises `ValueError` where there are more than `most`."""
        check_count(most, "most", least=1)
        if "_cells" not in self.__dict__ or len(self.__dict__["_cells"]) > most:
            self._refuse_above(most)
            object.__setattr__(self, "_cells", self._make_cells())
        return self.__dict__["_cells"]

    def _make_cells(self) -> Cells:
        _, signs, units = self._rays
        found = compose(signs, units, self._quotient[0], ternary=False, most=2**62)
        cells = self._expanded(found.signs)
        points = unit(found.sums)
        certified = (exact_signs(integers_of(points), self._exact) == cells).all(axis=1)
        for k in np.flatnonzero(~certified):
            point = double_inside(self._inside(cells[k]), self._exact, cells[k])
            if point is not None:
                points[k], certified[k] = point, True
        return Cells(signs=cells, points=points, certified=certified)

    def _inside(self, signs: Int[np.ndarray, " n"]) -> list[int]:
        """An integer vector of the face with these signs: the sum of its rays, brought to about the same length."""
        at = [self._rays[0][k] for k in self._of_pattern(signs)]
        size = max(abs(v).bit_length() for ray in at for v in ray)
        shifts = [size - max(abs(v).bit_length() for v in ray) for ray in at]
        return [sum(int(ray[j]) << s for ray, s in zip(at, shifts, strict=True)) for j in range(self.shape[1])]

    def witness(self, signs: ArrayLike) -> list[int] | None:
        """A vector of integers with exactly these signs, -1, 0 or +1; `None` where no nonzero vector has them."""
        wanted = np.asarray(signs)
        n, _ = self.shape
        if wanted.shape != (n,) or not np.isin(wanted, (-1, 0, 1)).all():
            raise ValueError(f"`signs` must have shape ({n},) and hold only -1, 0 and +1; got {signs!r}.")
        if not wanted.any():
            return next(iter(self._lineality()), None)
        if len(self._of_pattern(wanted)) == 0:
            return None
        inside = self._inside(wanted)
        vector = np.empty((1, len(inside)), dtype=object)
        vector[0] = inside
        return inside if (exact_signs(vector, self._exact)[0] == wanted).all() else None

    def _of_pattern(self, signs: Int[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
        """The rays in the closure of the face with these signs."""
        held = self.ray_signs
        return np.flatnonzero(((held == 0) | (held == signs)).all(axis=1))

    def vertices_of(self, cell: int | ArrayLike) -> Int[np.ndarray, " k"]:
        """The rays of a closed cell, as indices into `rays`.

        - `cell`: its index in `cells()`, or the signs of a cell or of any other face, shape `(n,)`.

        For cells of rank 3, in the order of the polygon; of rank 2, the two ends: counter-clockwise as seen from
        outside the sphere where rank and `D` agree. Otherwise in the order of `rays`.
        """
        if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool):
            cells = self.__dict__.get("_cells") or self.cells()
            if not 0 <= cell < len(cells):
                raise ValueError(
                    f"`cell` must be an index from 0 to {len(cells) - 1}, as there are {len(cells)} cells; got {cell}."
                )
            signs = cells.signs[cell]
        else:
            signs = np.asarray(cell)
        if signs.shape != (self.shape[0],):
            raise ValueError(
                f"`cell` must be an index or signs of shape ({self.shape[0]},); got shape {shape_text(signs.shape)}."
            )
        if not np.isin(signs, (-1, 0, 1)).all():
            raise ValueError(f"The signs in `cell` must be -1, 0 or +1; got {cell!r}.")
        at = self._of_pattern(signs)
        if self.rank not in (2, 3) or not signs.all() or len(at) < 2:
            return at
        if self.rank == 3:
            at = self._around(at)
        if self.rank == self.shape[1]:
            exact = self._rays[0][at[: self.rank]].tolist()
            if determinant(exact) < 0:
                at = at[::-1].copy()
        return at

    def _around(self, at: Int[np.ndarray, " k"]) -> Int[np.ndarray, " k"]:
        """The corners of a polygon in order: two are neighbours when some hyperplane holds both."""
        zero = (self.ray_signs[at] == 0).astype(np.int64)
        beside = zero @ zero.T > 0
        order = [0]
        while len(order) < len(at):
            order.append(next(int(j) for j in np.flatnonzero(beside[order[-1]]) if j not in order))
        return at[order]

    def faces(self, *, most: int = 200_000) -> Faces:
        """All ternary patterns. Raises `ValueError` where there are more than `most`."""
        check_count(most, "most", least=1)
        if "_faces" not in self.__dict__ or len(self.__dict__["_faces"]) > most:
            self._refuse_above(most)
            object.__setattr__(self, "_faces", self._make_faces(most))
        return self.__dict__["_faces"]

    def _make_faces(self, most: int) -> Faces:
        m, r = self.n_hyperplanes, self.rank
        n, D = self.shape
        bound = face_count(m, r)
        try:
            if bound > most and self.general_position:
                raise TooManyPatterns
            _, signs, units = self._rays
            found = compose(signs, units, self._quotient[0], ternary=True, most=most)
        except TooManyPatterns:
            what = f"more than {grouped(most)} ternary patterns (at most {grouped(bound + (r < D))})"
            raise ValueError(self._too_many(what, most)) from None
        patterns = self._expanded(found.signs)
        dimensions = D - ranks_of(self._quotient[0], found.signs == 0)
        points = unit(found.sums)
        if r < D:
            patterns = np.concatenate([patterns, np.zeros((1, n), dtype=np.int8)])
            points = np.concatenate([points, self.lineality[:1]])
            dimensions = np.append(dimensions, D - r)
            order = np.lexsort(-patterns.T[::-1])
            patterns, points, dimensions = patterns[order], points[order], dimensions[order]
        return Faces(signs=patterns, points=points, dimensions=dimensions)

    def completed(self) -> "Arrangement":
        """This arrangement with further rows at the end, unit vectors, so that the rows span `R^D`.

        The same arrangement where they do. The further rows cut the cells, whose union is unchanged.
        """
        if self.rank == self.shape[1]:
            return self
        D = self.shape[1]
        identity = np.array([[int(i == j) for j in range(D)] for i in range(D)], dtype=object)
        chosen = independent_rows(np.concatenate([self._exact_distinct, identity]))
        more = [i - self.n_hyperplanes for i in chosen if i >= self.n_hyperplanes]
        # The doubles where they are the rows that were given, else the integers.
        as_doubles = bool((integer_rows(self.rows, "rows") == self._exact).all())
        rows = self.rows if as_doubles else self._exact
        return Arrangement(np.concatenate([rows, identity[more].astype(rows.dtype)]), self.what)

    def pattern(self, u: ArrayLike, *, zeros: ArrayLike | None = None) -> Int[np.ndarray, "... n"]:
        """The exact ternary signs of `xt_i . u` for the doubles in `u`, shape `(D,)` or `(k, D)`.

        - `zeros`: a mask of shape `(n,)` (of `(k, n)` for several): rows whose hyperplanes `u` is meant to lie on,
          which doubles seldom do. The signs are then those of the exact orthogonal projection of `u` on these
          hyperplanes; rows that depend on them are zero too.

        Raises `ValueError` for shapes that do not fit, entries that are not finite, and a `u` whose projection is zero.
        """
        n, D = self.shape
        directions, _ = to_float64(u, "u")
        check_finite(directions, "u")
        if directions.ndim not in (1, 2) or directions.shape[-1] != D:
            raise ValueError(f"`u` must have shape ({D},) or (k, {D}); got {shape_text(directions.shape)}.")
        several = np.atleast_2d(directions)
        exact = integers_of(several)
        if zeros is not None:
            mask = np.asarray(zeros)
            if mask.dtype != bool or mask.shape != (*directions.shape[:-1], n):
                raise ValueError(
                    f"`zeros` must be a mask of shape {shape_text((*directions.shape[:-1], n))}; "
                    f"got {mask.dtype} of shape {shape_text(mask.shape)}."
                )
            for k, on in enumerate(np.atleast_2d(mask)):
                exact[k] = without(exact[k].tolist(), orthogonalised(self._exact[on].tolist()))
        nothing = [k for k, row in enumerate(exact.tolist()) if not any(row)]
        if nothing:
            which = f"`u[{nothing[0]}]`" if directions.ndim == 2 else "`u`"
            where = "zero" if zeros is None else "zero once projected on the hyperplanes of `zeros`"
            raise ValueError(f"{which} is {where}; a pattern needs a direction.")
        signs = exact_signs(exact, self._exact)
        return signs[0] if directions.ndim == 1 else signs
