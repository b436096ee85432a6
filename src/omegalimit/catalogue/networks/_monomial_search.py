"""Search for critical points of a monomial net that are no subnetworks; every find is decided in exact arithmetic.

Critical: the differential of weights -> output polynomials has a rank below the generic one. The theorem says that for
a degree that is large enough this happens at subnetworks only, so the search looks everywhere else, in two ways.

**Whole numbers.** Critical points of the kinds that are known (rows that depend on each other, outgoing weights that
are equal) are rational and simple. All nets with the smallest entries are tried, one of each orbit of rescalings and
permutations, where they are few enough; more are drawn, some of them with layers of low rank, with equal outgoing
columns, or with rows of signs; subnetworks among them are taken out exactly; the rank of each at random
points modulo a prime is a lower bound of its true rank. One that reaches the generic rank is not critical: that is a
proof. What does not reach it, modulo two primes, is given to `jacobian_rank`, which decides.

**Local minimisation.** From random weights, the singular value of the Jacobian (columns of length one, at random
points) that the generic rank says should not vanish is driven down by Newton steps for a zero of it, along its
gradient: for singular vectors u, v the derivative in weight j is `u' (d/de J(theta + e v))_j`, by the symmetry of
second derivatives, one complex step for all j. Rows are kept unit, which rescaling allows, and the distance to
subnetworks (`subnetwork_distance`) at least `separation`: towards them the value tends to zero at any degree. A point
where it has fallen to rounding is a candidate. Rounded to rationals with the linear relations between rows that it
nearly has, it is decided exactly. One for which no such relation gives a critical point is dismissed where Newton
steps at 800 bits do not converge, or end at a subnetwork (`_monomial_search_precise`), and undecided otherwise.

That nothing is found proves nothing: it is a search. The whole numbers that are covered are counted.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from ..._checks import check_count, check_number
from ...models.monomial import MonomialNetwork
from ...models.subnetworks import subnetwork_distance, subnetwork_kinds
from ...rigorous.jacobian_rank import JacobianRank, generic_rank, jacobian_rank
from ._monomial_search_minimum import minimise
from ._monomial_search_precise import zero_is_near
from ._monomial_search_whole import PRIMES, are_subnetworks, exhausted, families, ranks, ranks_modulo

# A relative singular value at rounding. It only says what is looked at exactly; no answer rests on it. (Near
# subnetworks the value is small without being zero: at the distance 0.2 it comes down to about 1e-9.)
_CANDIDATE = 1e-12
# Below this a value is looked at with 800 bits.
_SMALL = 1e-5
# Relations between rows that are nearer than this are made exact.
_NEAR = 1e-4
_DENOMINATORS = (1, 2, 4, 8, 32, 128)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CriticalPoint:
    """Exact weights that are critical and no subnetwork: `rank < generic`, both proved.

    - `weights`: whole numbers, an array a layer; `rank`: what was proved of them.
    - `family`: how they were drawn, or `"local minimisation"`.
    - `distance`: their distance to the set of subnetworks.
    """

    weights: tuple[np.ndarray, ...]
    rank: JacobianRank
    generic: int
    family: str
    distance: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SearchResult:
    """What a search found.

    - `generic`: the generic rank (a proved lower bound, so that a rank below it is critical).
    - `exhausted`: the largest h such that all nets with entries up to h, up to rescaling and permutation, were tried;
      0 where these are too many.
    - `n_whole`: whole-number weights that were no subnetworks, by family; `n_subnetworks`: those that were, left out.
    - `n_deficient`: of `n_whole`, those below the generic rank modulo both primes, repeats left out; of them, the
      simplest `n_decided` were decided exactly: all, or as many as it took for `most_decided` witnesses.
    - `n_starts`: starts of the minimisation; `n_candidates`: those that came down to rounding; `n_conditioned`: of
      them, those where 800 bits show that no zero is near (the value is a power of the distance to subnetworks).
    - `critical`: the witnesses, simplest first. `undecided`: candidates that exact arithmetic did not settle.
    - `smallest_singular_value`: at the end of each start, relative to the largest, shape (n_starts,);
      `separation`: the least distance to subnetworks allowed; `distances`: those at the end, shape (n_starts,).
    """

    widths: tuple[int, ...]
    degree: int
    generic: int
    exhausted: int
    n_whole: dict[str, int]
    n_subnetworks: int
    n_deficient: int
    n_decided: int
    n_starts: int
    n_candidates: int
    n_conditioned: int
    critical: tuple[CriticalPoint, ...]
    undecided: tuple[tuple[np.ndarray, ...], ...]
    smallest_singular_value: Float[np.ndarray, " n_starts"]
    distances: Float[np.ndarray, " n_starts"]
    separation: float

    @property
    def n_tried(self) -> int:
        """Weights that are no subnetworks and were decided, in exact arithmetic."""
        return sum(self.n_whole.values())


def search_critical(
    widths: Sequence[int],
    degree: int,
    *,
    n_whole: int = 40_000,
    largest: int = 2,
    n_starts: int = 48,
    n_steps: int = 150,
    separation: float = 0.2,
    most_decided: int = 16,
    seed: int = 0,
) -> SearchResult:
    """Looks for critical points that are no subnetworks, see the top of this file.

    - `n_whole`: about how many whole-number weights are tried (0: none), `largest`: their largest entry (products
      of two matrices, in the families of low rank, exceed it).
    - `n_starts`, `n_steps`: of the minimisation; `separation`: in (0, 1), the least distance to subnetworks.
    - `most_decided`: each part stops deciding when it has this many witnesses: below the threshold there may be
      thousands. Where there are none, everything that was found is decided.

    Raises `ValueError` and `TypeError` as `MonomialNetwork` does, and for counts out of range and a separation outside
    (0, 1).
    """
    network = MonomialNetwork(tuple(widths), degree)
    for name, value in {"largest": largest, "n_steps": n_steps, "most_decided": most_decided}.items():
        check_count(value, name, least=1)
    for name, value in {"n_whole": n_whole, "n_starts": n_starts}.items():
        check_count(value, name, least=0)
    separation = check_number(separation, "separation")
    if not 0 < separation < 1:
        raise ValueError(f"`separation` must lie between 0 and 1; got {separation:g}.")
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    generic = generic_rank(network.widths, network.degree, seed=seed).rank

    tried, n_subnetworks, deficient = {}, 0, []
    for family, batch in families(network, n_whole, largest, rng):
        kept = ~are_subnetworks(batch)
        n_subnetworks += int((~kept).sum())
        batch = tuple(W[kept] for W in batch)
        tried[family] = len(batch[0])
        low = np.flatnonzero(ranks(network, batch, generic, rng) < generic)
        deficient += [(family, tuple(W[i] for W in batch)) for i in low]
    deficient.sort(key=lambda item: _complexity(item[1]))
    distinct, seen = [], set()
    for family, weights in deficient:
        key = tuple(W.tobytes() for W in weights)
        if key not in seen:
            seen.add(key)
            distinct.append((family, weights))
    critical, undecided = [], []
    n_decided = 0
    for family, weights in distinct:
        if len(critical) >= most_decided:
            break
        n_decided += 1
        _decide(network, weights, family, generic, critical, undecided)

    values, distances, n_candidates, n_conditioned = np.zeros(0), np.zeros(0), 0, 0
    if n_starts:
        ends, values, distances = minimise(network, generic, n_starts, n_steps, separation, rng)
        candidates = np.flatnonzero(_are_candidates(network, ends, values, generic, separation))
        n_candidates = len(candidates)
        n_before = len(critical)
        for i in candidates:
            if len(critical) - n_before >= most_decided:
                break
            n_conditioned += _decide_candidate(
                network, tuple(W[i] for W in ends), generic, separation, critical, undecided
            )
    critical.sort(key=lambda point: _complexity(point.weights))
    return SearchResult(
        widths=network.widths,
        degree=network.degree,
        generic=generic,
        exhausted=exhausted(network, n_whole // 2),
        n_whole=tried,
        n_subnetworks=n_subnetworks,
        n_deficient=len(distinct),
        n_decided=n_decided,
        n_starts=n_starts,
        n_candidates=n_candidates,
        n_conditioned=n_conditioned,
        critical=tuple(critical),
        undecided=tuple(undecided),
        smallest_singular_value=values,
        distances=distances,
        separation=separation,
    )


# Exact decisions.


def _decide(network, weights, family, generic, critical, undecided) -> bool:
    """Exactly, for weights that are no subnetwork; true where that settled them as critical."""
    found = jacobian_rank(weights, network.degree)
    if found.upper < generic:
        distance = subnetwork_distance(weights, network.degree).distance
        point = CriticalPoint(weights=weights, rank=found, generic=generic, family=family, distance=distance)
        critical.append(point)
        return True
    if found.lower < generic:
        undecided.append(weights)
    return False


def _are_candidates(network, ends, values, generic, separation):
    """Those at rounding, and small ones that are still on the way to a zero which is near."""
    found = values < _CANDIDATE
    for i in np.flatnonzero(~found & (values < _SMALL)):
        found[i] = bool(zero_is_near(network, tuple(W[i] for W in ends), generic, separation=separation))
    return found


def _decide_candidate(network, weights, generic, separation, critical, undecided) -> bool:
    """A candidate of the minimisation: as it stands, then rounded with the relations that it nearly has.

    True where none of these is critical and Newton steps at 800 bits do not converge, or end at a subnetwork.
    """
    rounded, seen = list(_rounded(weights)), set()
    for family, exact in [("local minimisation, as it stands", weights)] + [("local minimisation", W) for W in rounded]:
        key = tuple(str(W.tolist()) for W in exact)
        if key in seen or subnetwork_kinds(exact):
            continue
        seen.add(key)
        lower = _is_deficient(network, exact, generic)
        if lower and _decide(network, exact, family, generic, critical, []):
            return False
    if zero_is_near(network, weights, generic, separation=separation) is False:
        return True
    undecided.append(weights)
    return False


def _is_deficient(network, weights, generic) -> bool:
    """Whether the rank at random points modulo a prime is below `generic`; false proves that the rank is not."""
    p, rng = PRIMES[0], np.random.default_rng(0)
    residues = []
    for W in weights:
        entries = [[Fraction(x) for x in row] for row in np.asarray(W).tolist()]
        if any(x.denominator % p == 0 for row in entries for x in row):
            return True
        residues.append(np.array([[[x.numerator * pow(x.denominator, -1, p) % p for x in row] for row in entries]]))
    return bool(ranks_modulo(network, tuple(residues), p, rng)[0] < generic)


def _rounded(weights):
    """Rational weights near these in which near relations between the rows of each layer are exact, as integers.

    Rows are scaled to their largest entry (rescaling allows it, but for what the columns after them then take, which is
    carried along). Where rows are dependent to rounding, the least subset is found, its last row is replaced by the
    combination of the others with rounded coefficients, and the others are rounded.
    """
    layers = [np.array(W, dtype=float) for W in weights]
    for q in _DENOMINATORS:
        exact = []
        for k, W in enumerate(layers):
            scale = np.abs(W).max(axis=1, keepdims=True) if k < len(layers) - 1 else np.abs(W).max()
            exact.append(_round_rows(W / scale, q))
        yield tuple(_whole(W) for W in exact)


def _round_rows(W, q):
    n, d = W.shape
    rows = [[_near(x, q) for x in row] for row in W]
    fixed = set()
    for size in range(3, min(n, d) + 1):  # pairs that are proportional make a subnetwork
        for subset in itertools.combinations(range(n), size):
            if len(set(subset) & fixed) > 0 and subset[-1] in fixed:
                continue
            values = np.linalg.svd(W[list(subset)])[1]
            if values[-1] > _NEAR * values[0]:
                continue
            *others, last = subset
            c = np.linalg.lstsq(W[others].T, W[last], rcond=None)[0]
            exact = [_near(x, q) for x in c]
            if all(exact):
                rows[last] = [
                    sum((a * rows[i][j] for a, i in zip(exact, others, strict=True)), Fraction(0)) for j in range(d)
                ]
                fixed.add(last)
    return rows


def _near(x, q):
    whole = round(float(x) * q)
    if whole == 0 and abs(x) > 1e-6:  # a small weight must not make a subnetwork
        whole = 1 if x > 0 else -1
    return Fraction(whole, q)


def _whole(rows):
    """The integers proportional to these fractions, as Python integers: no fraction is too long."""
    common = int(np.lcm.reduce([x.denominator for row in rows for x in row]))
    return np.array([[int(x * common) for x in row] for row in rows], dtype=object)


def _complexity(weights):
    return sum(int(np.abs(W).sum()) for W in weights)
