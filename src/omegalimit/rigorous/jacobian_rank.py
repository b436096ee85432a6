"""The rank of the parametrisation's differential of a deep monomial network, exact over the rationals.

`Phi` sends the weights to the coefficients of the outputs `f = W_L (... (W_1 x)^r ...)`, forms of degree `r^(L-1)`. Its
differential has rank at most `#params - #hidden neurons` (each hidden neuron has one rescaling) and at most
`outputs * C(r^(L-1) + d_0 - 1, d_0 - 1)`: the smaller is the *expected* rank. The *generic* rank is that of almost all
weights, and the largest. Weights are *critical* where the rank is less than the generic one.

A rank is proved from both sides. From below: the Jacobian at random points modulo a prime, whose rank never exceeds
the true one. From above: null vectors known by formula (`_rank_structure`); bounds for the architecture
(`_rank_bounds`); else null vectors over the rationals, each proved on a unisolvent set of points (`_rank_nulls`). The
definition of critical points is stated by the authors of the theorem on subnetworks; the bounds, and how they are
proved, are derived here.
"""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .._checks import check_count
from ..models.monomial import MonomialNetwork
from ._rank_bounds import rank_bound
from ._rank_float import FloatRank as FloatRank
from ._rank_float import float_rank as float_rank
from ._rank_generic import GenericRank as GenericRank
from ._rank_generic import expected_rank as expected_rank
from ._rank_generic import generic_rank as generic_rank
from ._rank_nulls import are_null, candidates, rank_and_pivots
from ._rank_residues import SMALL_BITS, primes_below, sampled_jacobian
from ._rank_sizes import check_fits, too_large
from ._rank_structure import structural_null_vectors
from ._rank_table import RankTable as RankTable
from ._rank_table import rank_table as rank_table
from ._rank_weights import integer_layers

_PRIME = 2**61 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class JacobianRank:
    """The rank at given weights: `lower <= rank <= upper`, both proved.

    - `proof`: how the two were proved, in words, or what is missing.
    - `layers`: the integers, proportional to the weights layer by layer, that were computed with.
    - `null_vectors`: independent integer vectors with `J v = 0` at `layers`, proved; `n_parameters - upper` of them,
      or none where the upper bound is one for the architecture.
    """

    widths: tuple[int, ...]
    degree: int
    lower: int
    upper: int
    proof: str
    layers: tuple[tuple[tuple[int, ...], ...], ...] = dataclasses.field(repr=False)
    null_vectors: tuple[tuple[int, ...], ...] = dataclasses.field(repr=False)

    @property
    def proved(self) -> bool:
        """Whether the bounds meet."""
        return self.lower == self.upper

    @property
    def rank(self) -> int | None:
        """The rank; `None` where the bounds do not meet."""
        return self.lower if self.proved else None


def jacobian_rank(
    weights: Sequence[Any],
    degree: int,
    *,
    n_points: int | None = None,
    most_bytes: float = 2e9,
    most_primes: int | None = None,
    seed: int = 0,
) -> JacobianRank:
    """The rank of the differential at these weights: integers, fractions, or floats as the dyadic rationals they are.

    - `n_points`: how many points the lower bound is sampled at; by default a few more than there are weights, which is
      enough. With fewer only bounds are computed.
    - `most_bytes`: the most that the sampled Jacobian may take, and the Jacobian's values on a unisolvent set
      (these are passed through in parts, once for each prime).
    - `most_primes`: how many primes of 31 bits may be used to find null vectors; entries may have
      about `15 most_primes` bits. By default 256, and up to 1024 for small networks, for which that takes seconds.
    - `seed`: of the points. A proved rank is the same for every seed.

    Raises `ValueError` where the sampled Jacobian itself would not fit.
    """
    layers, widths = integer_layers(weights)
    network = MonomialNetwork(widths, degree)
    n, degree = network.n_parameters, network.degree
    few = n_points is not None and check_count(n_points, "n_points", least=1) < n
    check_fits(network, most_bytes, n_points=n_points)
    if most_primes is None:  # an elimination takes some n^3 operations, and 1e9 of them a few seconds
        most_primes = min(1024, max(256, 10**9 // n**3))
    check_count(most_primes, "most_primes", least=1)
    rng = np.random.default_rng(check_count(seed, "seed", least=0))

    def result(lower, upper, proof, vectors=()):
        return JacobianRank(
            widths=widths,
            degree=degree,
            lower=lower,
            upper=upper,
            proof=proof,
            layers=tuple(tuple(map(tuple, W)) for W in layers),
            null_vectors=tuple(map(tuple, vectors)),
        )

    structural = [_dense(v, n) for v in structural_null_vectors(layers, degree)]
    known = [structural[i] for i in _independent(structural, n)]
    cap = rank_bound(widths, degree)
    lower, upper = 0, min(cap, n - len(known))
    by_formula = n - len(known) <= cap
    for p in primes_below(SMALL_BITS, 2):
        lower = max(lower, sampled_jacobian(p, layers, degree, rng, n_points).rank())
        if lower == upper and by_formula:
            return result(lower, upper, "null vectors known by formula", known)
        if lower == upper:
            return result(lower, upper, "a bound for the architecture")
    if few:
        return result(lower, upper, f"not proved: sampled at {n_points} points only")
    missing = too_large(network, most_bytes)
    if missing is not None:
        return result(lower, upper, f"not proved: {missing}")
    _, free = rank_and_pivots(known, n, _PRIME)
    for rank, vectors in candidates(layers, degree, free=free, rank=lower, rng=rng, most_primes=most_primes):
        # The known vectors are independent on the columns `free`; these are zero there, and unit vectors elsewhere.
        known_null = are_null(layers, degree, vectors)
        if known_null is None:
            return result(rank, upper, "not proved: coefficients are too large to check the null vectors in minutes")
        if known_null:
            return result(rank, rank, f"null vectors proved on {network.n_monomials} points", known + vectors)
        lower = rank
    return result(
        lower, upper, f"not proved: null vectors are not found with {most_primes} primes, which `most_primes` raises"
    )


def _dense(vector, n):
    """A vector of fractions as integers."""
    common = math.lcm(*(Fraction(x).denominator for x in vector.values()))
    found = [0] * n
    for j, x in vector.items():
        found[j] = int(x * common)
    return found


def _independent(vectors, n):
    """Which of the vectors are independent of those before them modulo a prime, and so over the rationals."""
    transposed = [[v[j] % _PRIME for v in vectors] for j in range(n)]
    return rank_and_pivots(transposed, len(vectors), _PRIME)[1]
