"""In which norm has training maximised the margin? Margin ratios of any points in any norms, between proved bounds.

For a point w and a norm the *margin ratio* is

    (min_i <z_i, w> / |w|) / gamma,     gamma = max_w min_i <z_i, w> / |w|,

at most 1, and 1 exactly where w maximises the margin in that norm. gamma is solved for once a norm and known between
the two bounds of a certificate, so that a ratio is an interval. The table takes arrays: where they come from (an
optimiser, a flow, a network's last layer) it does not ask. So it speaks of points, not of optimisers: one that passes
the optimum of a norm is near it for a while, wherever it tends, and only its later states tell it from one that stays.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

from .._checks import shape_text
from ..certificate import Certificate
from ..limits import MaxMargin
from ..limits._arrays import check_range, checked, split
from ..limits.norms import MATRIX_NORMS, NAMES, VECTOR_NORMS
from ..solvers import solve

VECTOR_DEFAULT = ("l2", "linf", "l1")
MATRIX_DEFAULT = ("frobenius", "spectral", "nuclear", "linf")
EXPONENTS = ("lp", "schatten")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Winner:
    """The norm that a point has maximised the margin in, or why none can be named.

    - `norm`: its name, or `None`; `reason`: a sentence with the numbers that decided it.
    - `best`, `second`: the norms of the two highest ratios; `second` is `None` in a table of one norm.
    - `lead`: how many times as far from 1 the second ratio is as the best, from the middles of the intervals: a
      point that is still on its way to both has a lead near 1. NaN without a second, infinite at a ratio of 1.
    """

    norm: str | None
    reason: str
    best: str
    second: str | None
    lead: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MarginTable:
    """Margin ratios of P points in K norms.

    - `names`, `norms`: the points' and the norms' names.
    - `lower`, `upper`: bounds on each ratio, shape (P, K); negative where a point misclassifies.
    - `margins`: `min_i <z_i, w> / |w|`, shape (P, K), in the data's units.
    - `certificates`: of the K maximum margins, with their points and multipliers.
    - `across`: `across[k, l]` bounds from above the ratio in norm l of the point that is optimal in norm k, (K, K).
    - `near`, `telling`, `same`: see `margin_table`.
    """

    names: tuple[str, ...]
    norms: tuple[str, ...]
    lower: Float[np.ndarray, "P K"]
    upper: Float[np.ndarray, "P K"]
    margins: Float[np.ndarray, "P K"]
    certificates: tuple[Certificate, ...]
    across: Float[np.ndarray, "K K"]
    near: float
    telling: float
    same: float

    @property
    def ratio(self) -> Float[np.ndarray, "P K"]:
        """The middles of the intervals."""
        return (self.lower + self.upper) / 2

    @functools.cached_property
    def winners(self) -> dict[str, Winner]:
        """See `winner`, for every point."""
        return {name: self._winner(row) for row, name in enumerate(self.names)}

    def winner(self, name: str) -> Winner:
        """The norm whose ratio is nearest 1, where it can be told from every other and is at least `near`.

        No norm is named where two intervals overlap; where the optimum of the best norm is, to `same`, optimal in
        another norm, too: no point near it could tell the two apart; or where the point's ratio is not `telling` times
        as near to 1 as that of every other norm's optimum: a point on its way there may look like this. (On random
        rows gradient descent passes optima of l1 and l-infinity on its way to that of l2, and Adam, where its steps
        are large, stays near the latter for a long time. This rule leaves few of the names that such states would
        get, and not none.) Raises `ValueError` for an unknown name.
        """
        if name not in self.winners:
            raise ValueError(f"There is no point {name!r} in the table; its points are {', '.join(self.names)}.")
        return self.winners[name]

    def _winner(self, row: int) -> Winner:
        lower, upper, ratio = self.lower[row], self.upper[row], self.ratio[row]
        order = np.argsort(-ratio, kind="stable")
        best, others = int(order[0]), [int(k) for k in order[1:]]
        name, far = self.norms[best], 1 - ratio[best]
        lead = math.nan
        if others:
            lead = (1 - ratio[others[0]]) / far if far > 0 else math.inf

        def found(norm: str | None, reason: str) -> Winner:
            second = self.norms[others[0]] if others else None
            return Winner(norm=norm, reason=reason, best=name, second=second, lead=float(lead))

        if upper[best] < self.near:
            return found(None, f"the highest ratio, {ratio[best]:.4g} ({name}), is below {self.near:g}.")
        alike = [k for k in others if upper[k] >= self.near and self.across[best, k] >= 1 - self.same]
        if alike:
            other = self.norms[alike[0]]
            return found(None, f"the optimum of {name} is optimal in {other}, too: no point tells them apart.")
        overlapping = [k for k in others if upper[k] >= lower[best]]
        if overlapping:
            k = overlapping[0]
            spans = f"[{lower[best]:.9g}, {upper[best]:.9g}] ({name}) and [{lower[k]:.9g}, {upper[k]:.9g}]"
            return found(None, f"the ratios {spans} ({self.norms[k]}) overlap.")
        if lower[best] < self.near:
            spans = f"[{lower[best]:.9g}, {upper[best]:.9g}]"
            return found(None, f"the highest ratio, {spans} ({name}), may be below {self.near:g}.")
        beaten = [k for k in others if 1 - self.across[k, best] <= self.telling * (1 - lower[best])]
        if beaten:
            k = max(beaten, key=lambda k: self.across[k, best])
            seen = f"the highest ratio is {ratio[best]:.4g} ({name}), but the optimum of {self.norms[k]} has"
            return found(None, f"{seen} {self.across[k, best]:.4g} there: the point may be on its way to either.")
        rest = f"; the next is {ratio[others[0]]:.4g} ({self.norms[others[0]]})" if others else ""
        return found(name, f"the ratio is {ratio[best]:.6g}{rest}.")

    def frame(self) -> Any:
        """A pandas DataFrame, a row for each point and norm."""
        import pandas as pd

        P, K = self.lower.shape
        return pd.DataFrame(
            {
                "point": np.repeat(self.names, K),
                "norm": np.tile(self.norms, P),
                "margin": self.margins.reshape(-1),
                "maximum_margin_lower": np.tile([c.lower for c in self.certificates], P),
                "maximum_margin_upper": np.tile([c.upper for c in self.certificates], P),
                "ratio_lower": self.lower.reshape(-1),
                "ratio_upper": self.upper.reshape(-1),
                "wins": [self.winners[name].norm == norm for name in self.names for norm in self.norms],
            }
        )

    def dataset(self) -> Any:
        """An xarray Dataset on the dimensions `point` and `norm`; `winner` is empty where no norm is named."""
        import xarray as xr

        both = ("point", "norm")
        return xr.Dataset(
            {
                "margin": (both, self.margins),
                "ratio_lower": (both, self.lower),
                "ratio_upper": (both, self.upper),
                "maximum_margin_lower": ("norm", [c.lower for c in self.certificates]),
                "maximum_margin_upper": ("norm", [c.upper for c in self.certificates]),
                "winner": ("point", [self.winners[name].norm or "" for name in self.names]),
                "reason": ("point", [self.winners[name].reason for name in self.names]),
            },
            coords={"point": list(self.names), "norm": list(self.norms)},
        )

    def __str__(self) -> str:
        """A line for each point; a ratio that is not known to four digits is shown as its interval."""
        head = ["", *self.norms, "maximised in"]
        lines = [head]
        for row, name in enumerate(self.names):
            cells = [_shown(a, b) for a, b in zip(self.lower[row], self.upper[row], strict=True)]
            lines.append([name, *cells, self.winners[name].norm or "-"])
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def margin_table(
    points: Mapping[str, Any],
    Z: Float[np.ndarray, "n ..."],
    norms: str | tuple[str, float] | Sequence[str | tuple[str, float]] | None = None,
    *,
    near: float = 0.99,
    telling: float = 4.0,
    same: float = 1e-6,
    tol: float = 1e-10,
) -> MarginTable:
    """The margin ratios of `points` in `norms`, on the rows `Z = y_i x_i`.

    - `points`: name -> w, of the shape of a row, or with a leading axis of states, of which the last counts.
    - `Z`: shape (n, d), or (n, d1, d2) for matrices.
    - `norms`: names as `MaxMargin` has them, or one name; `("lp", p)` and `("schatten", p)` carry their exponent. For
      matrices, norms of vectors are of the entries. l2, linf, l1 when not given; for matrices frobenius, spectral,
      nuclear, linf.
    - `near`: a norm wins with a ratio of at least this much, and `telling` times as near to 1 as the ratio of any
      other norm's optimum; 1 asks no more than that it be the higher one.
    - `same`: two optima count as one where the ratio of one in the other's norm is within this of 1.
    - `tol`: relative gap asked of the solver (what it reached stands in the certificates, and the intervals are right
      whatever it was).

    Raises `ValueError` for rows that no point separates (naming rows that cancel), shapes that do not fit, points that
    are zero or not finite, integers that no double holds, unknown norms and levels out of range; `TypeError` for what
    is no mapping or no number.
    """
    rows = _checked("Z", Z)
    if rows.ndim not in (2, 3) or not rows.size:
        raise ValueError(
            f"`Z` must have shape (n, d) or (n, d1, d2) and at least one entry; got {shape_text(rows.shape)}."
        )
    check_range("Z", split(rows)[0])
    if isinstance(telling, bool) or not isinstance(telling, (int, float, np.integer, np.floating)):
        raise TypeError(f"`telling` must be a number; got {telling!r}.")
    if not 1 <= telling < math.inf:
        raise ValueError(f"`telling` must be at least 1 and finite; got {telling!r}.")
    if not isinstance(points, Mapping):
        raise TypeError(f"`points` must map names to arrays; got {type(points).__name__}.")
    if not points:
        raise ValueError("`points` is empty; pass at least one, as {'name': w}.")
    for name, level in (("near", near), ("same", same), ("tol", tol)):
        if isinstance(level, bool) or not isinstance(level, (int, float, np.integer, np.floating)):
            raise TypeError(f"`{name}` must be a number; got {level!r}.")
        if not 0 < level < 1:
            raise ValueError(f"`{name}` must lie between 0 and 1, both excluded; got {level!r}.")
    states = {str(name): _state(name, w, rows.shape[1:]) for name, w in points.items()}
    if len(states) < len(points):
        raise ValueError("two names of `points` are the same as text; give each its own.")
    asked = (VECTOR_DEFAULT if rows.ndim == 2 else MATRIX_DEFAULT) if norms is None else _several(norms)
    limits = dict(_limit(norm, rows) for norm in asked)
    if not limits:
        raise ValueError("`norms` is empty; pass at least one, for example ('l2', 'linf').")
    solved = [_solved(limit, tol) for limit in limits.values()]
    shape = (len(states), len(limits))
    lower, upper, margins = np.empty(shape), np.empty(shape), np.empty(shape)
    across = np.empty((shape[1], shape[1]))
    for k, (limit, certificate) in enumerate(zip(limits.values(), solved, strict=True)):
        for row, w in enumerate(states.values()):
            lower[row, k], upper[row, k], margins[row, k] = _ratio(limit, certificate, w)
        for row, other in enumerate(solved):
            across[row, k] = _ratio(limit, certificate, other.point)[1]
    return MarginTable(
        names=tuple(states),
        norms=tuple(limits),
        lower=lower,
        upper=upper,
        margins=margins,
        certificates=tuple(solved),
        across=across,
        near=near,
        telling=telling,
        same=same,
    )


def _state(name: object, w: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The point itself, or the last of a path."""
    array = _checked(f"points[{name!r}]", w)
    if array.ndim == len(shape) + 1 and array.shape[0]:
        array = array[-1]
    if array.shape != shape:
        raise ValueError(
            f"`points[{name!r}]` must have the shape of a row, {shape_text(shape)}, or one more axis in front of it; "
            f"got {shape_text(np.shape(w))}."
        )
    if not array.any():
        raise ValueError(f"`points[{name!r}]` is zero, which has no direction and no margin.")
    return array


def _checked(name: str, value: Any) -> np.ndarray:
    if scipy.sparse.issparse(value):
        raise TypeError(f"`{name}` is a sparse array; pass `{name}.toarray()`.")
    return checked(name, value)


def _several(norms: Any) -> Sequence[Any]:
    """The norms that are asked for; a name, and a name with its exponent, are one."""
    if isinstance(norms, str) or _with_exponent(norms):
        return (norms,)
    if not isinstance(norms, Iterable):
        raise TypeError(f"`norms` must be a sequence of names, for example ('l2', 'linf'); got {norms!r}.")
    return tuple(norms)


def _with_exponent(norm: Any) -> bool:
    return isinstance(norm, (tuple, list)) and len(norm) == 2 and norm[0] in EXPONENTS and norm[1] not in NAMES


def _limit(norm: Any, rows: np.ndarray) -> tuple[str, MaxMargin]:
    """The norm's name in the table, and its limit problem."""
    name, p = norm if isinstance(norm, (tuple, list)) and len(norm) == 2 else (norm, None)
    if not isinstance(name, str) or name not in NAMES or name in ("group-l1", "fourier-l1"):
        usable = ", ".join(n for n in NAMES if n not in ("group-l1", "fourier-l1"))
        raise ValueError(f"`norms` must be among {usable} (with an exponent: ('lp', 4)); got {norm!r}.")
    if name in EXPONENTS:
        if isinstance(p, bool) or not isinstance(p, (int, float, np.integer, np.floating)) or not 1 < p < math.inf:
            raise ValueError(f"{name!r} needs its exponent, a number above 1, as ({name!r}, 4); got {norm!r}.")
    elif p is not None:
        raise ValueError(f"{name!r} has no exponent; got {norm!r}.")
    if name in MATRIX_NORMS and rows.ndim == 2:
        raise ValueError(f"{name!r} is a norm of matrices; `Z` of shape {shape_text(rows.shape)} has vectors.")
    data = rows.reshape(len(rows), -1) if name in VECTOR_NORMS else rows
    return (name if p is None else f"{name}({p:g})"), MaxMargin(name, rows=data, p=None if p is None else float(p))


def _solved(limit: MaxMargin, tol: float) -> Certificate:
    found = solve(limit, tol)
    if found.farkas is not None:
        used = np.flatnonzero(found.farkas)
        which = f"row {used[0]} is zero" if len(used) == 1 else f"rows {', '.join(map(str, used[:8]))}"
        if len(used) > 1:
            which += (", ..." if len(used) > 8 else "") + " have a combination with positive weights that is zero"
        raise ValueError(f"`Z` is not separable, so that no margin is positive: {which}.")
    if not found.certificate.lower > found.certificate.slack:
        raise ValueError(f"the maximum margin in {limit.norm} was not found: {found.reason}")
    return found.certificate


def _ratio(limit: MaxMargin, certificate: Certificate, w: np.ndarray) -> tuple[float, float, float]:
    """Lower and upper bound of the ratio, and the margin."""
    own = limit.certify(w.reshape(limit.shape), certificate.multipliers, delta=0.0)
    low, high = own.lower - own.slack, own.lower + own.slack
    least, most = certificate.lower - certificate.slack, certificate.upper + certificate.slack
    lower = low / (most if low >= 0 else least)
    # No margin is larger than the largest.
    return lower, max(lower, min(1.0, high / (least if high >= 0 else most))), own.lower


def _shown(lower: float, upper: float) -> str:
    middle = (lower + upper) / 2
    return f"{middle:.4f}" if upper - lower < 1e-4 else f"[{lower:.4f}, {upper:.4f}]"
