"""Ranks of shallow monomial nets in closed form, and from which degree on their critical points are subnetworks.

A net of widths (d, h, m) is `f(x) = sum_i a_i (w_i'x)^r`, `w_i` in R^d, `a_i` in R^m. Its differential has the image

    sum_i  w_i^(r-1) * (w_i (x) R^m  +  V (x) a_i),       V = the linear forms in x,

in the forms of degree r with m components. A net is critical where this dimension is below its value at generic
weights. (That the critical points of a deep monomial net are its subnetworks once r is large enough is stated by the
authors of that theory; neither their proof nor their threshold was read. All that follows is derived here.)

**Double points.** Under the apolar pairing `w^(r-1) V` annihilates the forms that vanish doubly at w, so dimensions are
numbers of independent conditions of double points. For k points pairwise different in projective space they are
independent in every degree `r >= 2k - 1`: for point i, take the product over j != i of the square of a linear form
that vanishes at `w_j` and not at `w_i`, of degree 2k - 2 in all, times any linear form (and a power of a form that does
not vanish at `w_i`): it vanishes doubly at every other point, and its 1-jets at `w_i` are all 1-jets. Hence, for rows
in k classes of proportional ones with outgoing weights spanning `s_c` dimensions in class c,

    rank = sum_c (m + (d - 1) s_c)        for r >= 2k - 1, any d and m.

It is `h (m + d - 1)` exactly where no row is zero, no two are proportional and no `a_i` is zero, provided that d >= 2.

**Rows in one plane**, m = 1. With A classes of which some outgoing weight is not zero and B others,

    rank = min(2 A + B, r + 1) + (d - 2) min(A, r)        for every r

(binary forms: conditions on a line are always independent as long as there is room; each of the d - 2 further
variables times `sum w^(r-1)` has a room of r). In two variables, nothing being zero: `min(2 h, r + 1)`.

**The threshold**: the least degree from which on critical points and subnetworks are the same. It is at most 2h - 1 by
the first formula. At r = 2h - 2 it fails:

- d >= 3, m = 1, h >= 3: the generic rank is h d (Alexander and Hirschowitz: none of their exceptions has r = 2h - 2),
  and h rows in one plane have h d - 1;
- m >= 2, h >= 2, d >= 2: rows in one plane have one linear relation `sum_i w_i^(r-1) v_i = 0`, with no `v_i`
  proportional to its `w_i`; it is one of the differential exactly where all `a_i` are proportional, so those weights
  are critical, and no subnetwork;
- d = 2, m = 1: the generic rank is r + 1 = 2h - 1, and a net with one outgoing weight zero has it too: a subnetwork
  that is not critical.

The exception is (d, 2, 1) with d >= 3, where degree 2 is enough: generic rank 2d - 1, at subnetworks at most d + 1.
With one neuron every degree does; with one input none does, as an outgoing zero does not lower the rank there.
"""

import bisect
import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .._checks import check_count, shape_text
from .._exact import exact_rows

# Alexander and Hirschowitz: (variables, degree, powers) at which the generic rank is one below the expected one;
# beside these, degree 2 with 2 <= h <= d - 1.
_EXCEPTIONS = {(3, 4, 5), (4, 4, 9), (5, 3, 7), (5, 4, 14)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShallowThreshold:
    """From which degree on the critical points of a shallow net are its subnetworks, and why not before.

    - `degree`: the least such degree (at least 2), or `None` where there is none.
    - `fails_at`: the degree below it, where this fails; `None` where there is none, or it is below 2.
    - `rows`, `outgoing`: whole-number weights that show it at `fails_at`, shapes (h, d) and (m, h).
    - `generic`, `rank`: the generic rank there, and that of these weights.
    - `critical`: whether they are critical and no subnetwork; false for a subnetwork that is not critical.
    """

    degree: int | None
    fails_at: int | None
    rows: np.ndarray | None = None
    outgoing: np.ndarray | None = None
    generic: int | None = None
    rank: int | None = None
    critical: bool | None = None

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The witness as the matrices of a net, `(rows, outgoing)`."""
        return None if self.rows is None or self.outgoing is None else (self.rows, self.outgoing)


def shallow_rank(rows: Any, degree: int, *, outgoing: Any = None) -> int:
    """The rank of the differential of a shallow net, exactly, by the formulas at the top of this file.

    - `rows`: (h, d); `outgoing`: (m, h), ones with m = 1 when not given. Whole numbers, Fractions, or floats as the
      dyadic rationals that they are. Zero rows and zero outgoing weights are allowed.
    - `degree`: r >= 2. (For r = 1 the derivative by a row that is zero is not zero: `f` is then a linear map, and the
      formulas do not hold.)

    Raises `ValueError` where no formula covers the weights (k > (r + 1) / 2 classes of rows that are not in one plane,
    or several outputs): the rank then depends on where the rows are. And for shapes that do not fit.
    """
    W, r = _exact(rows, "rows"), _power(degree)
    h, d = len(W), len(W[0])
    a = [[Fraction(1)] * h] if outgoing is None else _exact(outgoing, "outgoing")
    if len(a[0]) != h:
        raise ValueError(
            f"`outgoing` must have a column for each of the {h} rows, shape (m, {h}); got "
            f"{shape_text((len(a), len(a[0])))}."
        )
    m, columns = len(a), list(zip(*a, strict=True))
    classes: dict[tuple[Fraction, ...], list[tuple]] = {}
    for row, column in zip(W, columns, strict=True):
        if any(row):
            classes.setdefault(_line(row), []).append(column)
    spans = [_rank(members) for members in classes.values()]
    n_active = sum(s > 0 for s in spans)
    # A class without outgoing weights asks for a simple point only: one degree less.
    if r >= n_active + len(classes) - 1:
        return sum(m + (d - 1) * s for s in spans)
    if m == 1 and _rank(list(classes)) <= 2:
        return min(n_active + len(classes), r + 1) + max(0, d - 2) * min(n_active, r)
    raise ValueError(
        f"no closed formula gives the rank of {len(classes)} different rows in degree {r}: it asks for degree "
        f"{n_active + len(classes) - 1}, or for one output and rows in one plane. Compute the rank exactly instead."
    )


def generic_shallow_rank(widths: Sequence[int], degree: int) -> int:
    """The rank at generic weights of widths (d, h, 1): Alexander and Hirschowitz's theorem on double points.

    `min(h d, C(r+d-1, d-1))`, less one in four cases, and `h d - h (h-1) / 2` for r = 2 with 2 <= h <= d - 1. For more
    outputs: `h (m + d - 1)` from degree 2h - 1 on (d >= 2), and below it raises `ValueError`; `degree` is 2 or more.
    """
    d, h, m = _widths(widths)
    r = _power(degree)
    if d == 1:
        return m
    if r >= 2 * h - 1:
        return h * (m + d - 1)
    if m > 1:
        raise ValueError(
            f"no formula gives the generic rank for {m} outputs below degree {2 * h - 1}; got degree {r}. "
            "Compute it exactly instead."
        )
    if r == 2 and 2 <= h <= d - 1:
        return h * d - h * (h - 1) // 2
    return min(h * d, math.comb(r + d - 1, d - 1)) - ((d, r, h) in _EXCEPTIONS)


def generic_threshold(widths: Sequence[int], *, capped: bool = True) -> int:
    """The least degree r >= 2 from which on the generic rank of widths (d, h, 1) is the expected one.

    The expected rank is `min(h d, C(r+d-1, d-1))`, or `h d` when not `capped`: the map is then finite to one, up to the
    rescaling of neurons. With one input and several neurons `h d` is never met; raises `ValueError` for that, and
    for several outputs.
    """
    d, h, m = _widths(widths)
    if m > 1:
        raise ValueError(f"the generic rank in every degree is known for one output only; `widths` has {m}.")
    if d == 1 and h > 1 and not capped:
        raise ValueError(f"with one input the rank is 1, never {h}; take `capped=True`.")

    def n_monomials(r):
        return math.comb(r + d - 1, d - 1)

    last = max(2, 2 * h - 1)  # from here on both are h d, and below 5 are all exceptions of the theorem
    defects = [r for r in range(2, min(last, 5)) if generic_shallow_rank((d, h, m), r) != min(h * d, n_monomials(r))]
    if not capped and d > 1:  # there are enough monomials from some degree on
        defects.append(bisect.bisect_left(range(last), h * d, lo=2, key=n_monomials) - 1)
    return max(defects, default=1) + 1


def criticality_threshold(widths: Sequence[int]) -> ShallowThreshold:
    """From which degree on the critical points of widths (d, h, m) are the subnetworks, with a witness below it.

    A neuron is unneeded where its row is zero, its outgoing column is zero, or its row is proportional to another. See
    the top of this file for the proof.
    """
    d, h, m = _widths(widths)
    if d == 1:
        return ShallowThreshold(degree=None, fails_at=None)
    if h == 1 or (h == 2 and m == 1 and d >= 3):
        return ShallowThreshold(degree=2, fails_at=None)
    r = 2 * h - 2
    rows = np.zeros((h, d), dtype=np.int64)
    rows[:, 0], rows[:, 1] = 1, np.arange(h)  # the lines e1 + i e2, in one plane
    outgoing = np.ones((m, h), dtype=np.int64)
    if m == 1 and d == 2:
        outgoing[0, -1] = 0
        generic, rank = 2 * h - 1, shallow_rank(rows, r, outgoing=outgoing)
    else:
        # All outgoing columns are equal: m = 1 tensor the one direction, plus h powers for each of the other m - 1.
        generic, rank = h * (m + d - 1), shallow_rank(rows, r) + (m - 1) * h
    return ShallowThreshold(
        degree=r + 1,
        fails_at=r,
        rows=rows,
        outgoing=outgoing,
        generic=generic,
        rank=rank,
        critical=rank < generic,
    )


def _power(degree: int) -> int:
    if check_count(degree, "degree", least=1) < 2:
        raise ValueError(f"`degree` must be at least 2 (the activation is x^degree); got {degree}.")
    return int(degree)


def _widths(widths: Sequence[int]) -> tuple[int, int, int]:
    if isinstance(widths, (str, bytes)) or not isinstance(widths, (Sequence, np.ndarray)):
        raise TypeError(f"`widths` must be a sequence of three integers, such as (2, 3, 1); got {widths!r}.")
    given = tuple(widths)
    if len(given) != 3:
        raise ValueError(f"`widths` of a shallow net are three numbers, (inputs, neurons, outputs); got {given}.")
    d, h, m = (check_count(k, "widths", least=1) for k in given)
    return d, h, m


def _exact(values: Any, name: str) -> list[list[Fraction]]:
    return [[Fraction(x) for x in row] for row in exact_rows(values, name)]


def _line(row: list[Fraction]) -> tuple[Fraction, ...]:
    """The same for proportional rows, and for no others."""
    lead = next(x for x in row if x)
    return tuple(x / lead for x in row)


def _rank(rows: Sequence[Sequence[Fraction]]) -> int:
    """Rank by elimination in fractions."""
    left, rank = [list(row) for row in rows], 0
    for column in range(len(left[0]) if left else 0):
        pivot = next((i for i in range(rank, len(left)) if left[i][column]), None)
        if pivot is None:
            continue
        left[rank], left[pivot] = left[pivot], left[rank]
        for i in range(rank + 1, len(left)):
            if left[i][column]:
                f = left[i][column] / left[rank][column]
                left[i] = [x - f * y for x, y in zip(left[i], left[rank], strict=True)]
        rank += 1
    return rank
