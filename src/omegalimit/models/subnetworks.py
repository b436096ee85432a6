"""Subnetworks of a monomial net `f = W_L (... (W_1 x)^r ...)`: which hidden neurons it could do without, and how near.

Three kinds, in each hidden layer l = 1..L-1 (`W_l` has shape (d_l, d_{l-1}), neuron i is its row i and the column i of
`W_{l+1}`; neurons are counted from 0, layers from 1):

- inactive, its incoming row is zero; inactive, its outgoing column is zero;
- redundant: two incoming rows are proportional, none of them zero, so that the two neurons compute multiples of one.

`subnetwork_kinds` decides this exactly: doubles are taken as the dyadic rationals that they are.

**The distance** (derived here). The net does not change when neuron i's row is multiplied by c and its column by
`c^-r`, so a distance must not either: a small row with a large column is no small neuron. In turn for l = 1, 2, ...
every row is scaled to length one and its column takes `|row|^r`; what is left of `W_{l+1}` after its own rows have
become unit is free of every such choice. In it,

- redundant: the sine of the angle between two unit rows of a layer;
- inactive: the length `c_i` of neuron i's column, against the longest of its layer. It is a product `|a| |w|^r`, of
  degree r + 1 in the neuron's own weights; the shortest weights that compute it are the balanced ones,
  `|w|^2 = r |a|^2`, whose length goes like `c_i^(1/(r+1))` (gradient flow conserves `|w|^2 - r |a|^2`, so a small start
  stays near them). So `(c_i / max_j c_j)^(1/(r+1))`: the length of the neuron against the longest of its layer.

Both lie in [0, 1] and are 0 exactly at subnetworks; the least of all is the distance. A row and a column that vanish
together are one event here: which of the two kinds is named is read off the weights as given, and does not enter the
number. Sines come from the 2 x 2 minors of the given rows, in whole numbers, so that nearly parallel rows keep all
their digits; sizes are kept as logarithms, so that none over- or underflows.
"""

import dataclasses
import enum
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_count
from .._exact import Rows, exact_layers
from .monomial import check_shapes

Whole = list[list[int]]
"""A matrix times the least positive number that makes its entries whole; nothing here depends on that number."""


_TINY = float(np.finfo(float).smallest_subnormal)  # what is not zero does not become zero by rounding


class SubnetworkKind(enum.StrEnum):
    """Why a hidden neuron could be left out."""

    INCOMING = "inactive (zero incoming row)"
    OUTGOING = "inactive (zero outgoing column)"
    REDUNDANT = "redundant (two proportional incoming rows)"


@dataclasses.dataclass(frozen=True)
class Subnetwork:
    """One reason why a net is a subnetwork: the kind, the layer from 1, and one or two neurons from 0."""

    kind: SubnetworkKind
    layer: int
    neurons: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SubnetworkDistance:
    """How near a net is to being a subnetwork, see the top of this file.

    - `nearest`: the kind, layer and neurons that attain the least distance.
    - `inactive`: for each hidden layer, the relative length of each neuron, in [0, 1].
    - `redundant`: for each hidden layer, the sines of the angles between its rows; 1 on the diagonal, which is no
      pair, and 1 in the row and column of a neuron whose row is zero, which is inactive and not redundant.
    """

    nearest: Subnetwork
    inactive: tuple[Float[np.ndarray, " k"], ...]
    redundant: tuple[Float[np.ndarray, "k k"], ...]

    @property
    def distance(self) -> float:
        """The least of all, in [0, 1]; 0 exactly at subnetworks."""
        return float(min(part.min() for part in (*self.inactive, *self.redundant)))


def whole_weights(weights: Sequence[Any]) -> tuple[Whole, ...]:
    """Each matrix in whole numbers, up to a positive factor of its own; checks shapes and entries.

    Entries: whole numbers, `fractions.Fraction`, or floats, taken as the dyadic rationals that they are. Raises
    `ValueError` for fewer than two matrices, shapes that do not chain, masked entries and entries that are not finite;
    `TypeError` for what is no real number.
    """
    layers = exact_layers(weights)
    check_shapes([(len(rows), len(rows[0])) for rows in layers])
    return tuple(_whole(rows) for rows in layers)


def subnetwork_kinds(weights: Sequence[Any]) -> tuple[Subnetwork, ...]:
    """Every reason why the net is a subnetwork, exactly; empty where it is none. Raises as `whole_weights` does."""
    return _kinds(whole_weights(weights))


def subnetwork_distance(weights: Sequence[Any], degree: int) -> SubnetworkDistance:
    """The distance of the net to the set of subnetworks, see the top of this file; it needs the degree r of `x^r`.

    Raises as `whole_weights` does, and for a degree that is no whole number of at least 1.
    """
    matrices = whole_weights(weights)
    r = check_count(degree, "degree", least=1)
    exact = _kinds(matrices)
    zero_rows = {(s.layer, s.neurons[0]) for s in exact if s.kind is SubnetworkKind.INCOMING}
    inactive, redundant = [], []
    logs = [np.array([[_log(x) for x in row] for row in W]) for W in matrices]
    scales = np.zeros(len(matrices[0][0]))  # logs of what each column of W_l takes from the rows before
    for k, W in enumerate(matrices[:-1]):
        rows = logs[k] + scales
        lengths = _log_length(rows, axis=1)
        redundant.append(_sines(W, scales, lengths))
        scales = r * np.where(np.isneginf(lengths), 0.0, lengths)
        after = logs[k + 1] + scales
        if k + 2 < len(matrices):  # the next hidden layer's own rows become unit; the output's do not
            own = _log_length(after, axis=1, keepdims=True)
            after = after - np.where(np.isneginf(own), 0.0, own)
        columns = _log_length(after, axis=0)
        columns[[i for layer, i in zero_rows if layer == k + 1]] = -np.inf
        longest = columns.max()
        with np.errstate(invalid="ignore"):
            relative = np.maximum(np.exp((columns - longest) / (r + 1)), _TINY)
        inactive.append(np.where(np.isneginf(columns), 0.0, relative))
    return SubnetworkDistance(
        nearest=exact[0] if exact else _nearest(matrices, inactive, redundant),
        inactive=tuple(inactive),
        redundant=tuple(redundant),
    )


def subnetwork(
    weights: Sequence[Any], kind: SubnetworkKind | str, layer: int, neurons: int | Sequence[int], *, factor: Any = 1
) -> tuple[np.ndarray, ...]:
    """A subnetwork made from given weights: copies, of which one row or column is changed.

    - `kind`: a `SubnetworkKind` or its words; `layer`: 1..L-1.
    - `neurons`: for the inactive kinds one neuron i, whose row, or column, becomes zero. For the redundant kind two,
      (i, j): row j becomes `factor` times row i, exactly where the entries are whole numbers or fractions, or where the
      factor is plus or minus a power of two.

    Raises as `whole_weights` does; `ValueError` for a layer or neuron that does not exist and a factor of zero.
    """
    exact = exact_layers(weights)
    check_shapes([(len(rows), len(rows[0])) for rows in exact])
    kind = SubnetworkKind(kind)
    made = [_copied(W, rows) for W, rows in zip(weights, exact, strict=True)]
    layer = check_count(layer, "layer", least=1)
    if layer >= len(made):
        raise ValueError(
            f"`layer` is {layer}, and the net has {len(made) - 1} hidden "
            f"layer{'s' if len(made) > 2 else ''}, counted from 1."
        )
    n = len(made[layer - 1])
    if isinstance(neurons, (int, np.integer)):
        chosen = (neurons,)
    elif isinstance(neurons, (Sequence, np.ndarray)) and not isinstance(neurons, (str, bytes)):
        chosen = tuple(neurons)
    else:
        raise TypeError(f"`neurons` must be an integer or a sequence of integers, counted from 0; got {neurons!r}.")
    chosen = tuple(check_count(i, "neurons", least=0) for i in chosen)
    wanted = 2 if kind is SubnetworkKind.REDUNDANT else 1
    if len(chosen) != wanted or len(set(chosen)) != wanted or max(chosen) >= n:
        raise ValueError(
            f"`neurons` must be {'two different neurons' if wanted == 2 else 'one neuron'} of the {n} of layer "
            f"{layer}, counted from 0; got {chosen}."
        )
    if kind is SubnetworkKind.INCOMING:
        made[layer - 1][chosen[0]] = 0
    elif kind is SubnetworkKind.OUTGOING:
        made[layer][:, chosen[0]] = 0
    else:
        i, j = chosen
        made[layer - 1] = _with_multiple(made[layer - 1], exact[layer - 1][i], i, j, _factor(factor))
    return tuple(made)


def _copied(W: Any, rows: Rows) -> np.ndarray:
    """A copy in the user's own dtype; of lists the dtype that NumPy gives them, where that holds their entries."""
    array = np.array(W, copy=True)
    if isinstance(W, (list, tuple)) and any(Fraction(x) != Fraction(y) for x, y in _paired(array, rows)):
        return np.array(rows, dtype=object)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _paired(array: np.ndarray, rows: Rows) -> Iterator[tuple[Any, Any]]:
    return zip(array.ravel().tolist(), (x for row in rows for x in row), strict=True)


def _factor(factor: Any) -> Any:
    wanted = "`factor` must be one number: an integer, a Fraction or a float"
    if isinstance(factor, (bool, np.bool_)) or not isinstance(factor, (int, float, Fraction, np.integer, np.floating)):
        raise TypeError(f"{wanted}; got {factor!r}.")
    if isinstance(factor, (float, np.floating)) and not math.isfinite(factor):
        raise ValueError(f"`factor` must be finite; got {float(factor)}.")
    if not factor:
        raise ValueError("`factor` is zero, which makes a neuron inactive; pass the kind that says so.")
    return int(factor) if isinstance(factor, np.integer) else factor


def _shown(factor: Any) -> str:
    try:
        return f"{float(factor):g}"
    except OverflowError:
        return f"a number of {abs(int(factor)).bit_length()} bits"


def _with_multiple(W: np.ndarray, exact: list[int | Fraction], i: int, j: int, factor: Any) -> np.ndarray:
    """W with `factor` times its row i in row j, in a dtype that holds it: integers do not wrap."""
    if W.dtype.kind in "iu" and isinstance(factor, int):
        row = [x * factor for x in exact]
        info = np.iinfo(W.dtype)
        if any(not info.min <= x <= info.max for x in row):
            W = W.astype(object)
    elif W.dtype.kind in "iu" and isinstance(factor, Fraction):
        row, W = [x * factor for x in exact], W.astype(object)
    else:
        if W.dtype.kind in "iu":
            W = W.astype(np.result_type(W.dtype, np.float64))
        try:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                row = W[i] * (factor if W.dtype.kind == "O" else W.dtype.type(factor))
        except OverflowError:
            row = np.full(W.shape[1], np.inf)
        made = [x for x, y in zip(np.asarray(row).tolist(), exact, strict=True) if y]
        if not all(math.isfinite(x) and x for x in made if isinstance(x, float)):
            raise ValueError(
                f"`factor` = {_shown(factor)} times row {i} leaves {W.dtype}; take a factor nearer one, or give the "
                "weights as Fractions."
            )
    W[j] = row
    return W


def _whole(rows: Rows) -> Whole:
    common = math.lcm(*(x.denominator for row in rows for x in row))
    return [[x.numerator * (common // x.denominator) for x in row] for row in rows]


def _kinds(matrices: tuple[Whole, ...]) -> tuple[Subnetwork, ...]:
    found = []
    for k, (W, after) in enumerate(itertools.pairwise(matrices)):
        zero = [not any(row) for row in W]
        found += [Subnetwork(SubnetworkKind.INCOMING, k + 1, (i,)) for i, is_zero in enumerate(zero) if is_zero]
        dead = [i for i in range(len(W)) if not any(row[i] for row in after)]
        found += [Subnetwork(SubnetworkKind.OUTGOING, k + 1, (i,)) for i in dead]
        found += [
            Subnetwork(SubnetworkKind.REDUNDANT, k + 1, (i, j))
            for i, j in itertools.combinations(range(len(W)), 2)
            if not (zero[i] or zero[j]) and not any(_minors(W[i], W[j]))
        ]
    return tuple(found)


def _minors(u: list[int], v: list[int]) -> list[int]:
    return [u[a] * v[b] - u[b] * v[a] for a, b in itertools.combinations(range(len(u)), 2)]


def _log(x: int | Fraction) -> float:
    return math.log(abs(x)) if x else -math.inf  # whole numbers of any length have one


def _log_length(logs: np.ndarray, *, axis: int, keepdims: bool = False) -> np.ndarray:
    """Logs of Euclidean lengths from logs of entries; -inf for zero."""
    most = logs.max(axis=axis, keepdims=True)
    most = np.where(np.isneginf(most), 0.0, most)
    with np.errstate(divide="ignore"):
        length = np.log(np.exp(2 * (logs - most)).sum(axis=axis, keepdims=True)) / 2
    length = np.where(np.isneginf(length), length, length + most)
    return length if keepdims else np.squeeze(length, axis=axis)


def _sines(W: Whole, scales: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sines of the angles between the rows, their columns scaled: the minors of the given numbers are exact."""
    n, sines = len(W), np.ones((len(W), len(W)))
    pairs = np.array(list(itertools.combinations(range(len(scales)), 2)), dtype=int).reshape(-1, 2)
    weights = scales[pairs].sum(axis=1)
    for i, j in itertools.combinations(range(n), 2):
        if not np.isneginf(lengths[[i, j]]).any():
            logs = np.append(np.array([_log(m) for m in _minors(W[i], W[j])]) + weights, -np.inf)
            sine = math.exp(float(_log_length(logs, axis=0)) - lengths[i] - lengths[j])
            exact_zero = np.isneginf(logs).all()
            sines[i, j] = sines[j, i] = 0.0 if exact_zero else min(1.0, max(sine, _TINY))
    return sines


def _nearest(matrices: tuple[Whole, ...], inactive: list[np.ndarray], redundant: list[np.ndarray]) -> Subnetwork:
    k = int(np.argmin([min(a.min(), b.min()) for a, b in zip(inactive, redundant, strict=True)]))
    a, b = inactive[k], redundant[k]
    pairs = np.triu_indices(len(b), 1)  # a neuron is no pair with itself, whatever the diagonal says
    if len(pairs[0]) and b[pairs].min() <= a.min():
        at = int(b[pairs].argmin())
        return Subnetwork(SubnetworkKind.REDUNDANT, k + 1, (int(pairs[0][at]), int(pairs[1][at])))
    i = int(a.argmin())
    rows = _log_length(np.array([[_log(x) for x in row] for row in matrices[k]]), axis=1)
    columns = _log_length(np.array([[_log(x) for x in row] for row in matrices[k + 1]]), axis=0)
    smaller = rows[i] - rows.max() <= columns[i] - columns.max()
    return Subnetwork(SubnetworkKind.INCOMING if smaller else SubnetworkKind.OUTGOING, k + 1, (i,))
