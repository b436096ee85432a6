"""The expected and the generic rank of an architecture."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from .._checks import check_count
from ..models.monomial import MonomialNetwork, check_widths
from ._rank_bounds import rank_bound
from ._rank_residues import LARGE_BITS, random_prime, sampled_jacobian
from ._rank_sizes import LARGE_PRIMES, check_fits


def expected_rank(widths: Sequence[int], degree: int, *, capped: bool = True) -> int:
    """`min(#params - #hidden, outputs * C(r^(L-1) + d_0 - 1, d_0 - 1))`; without the second where not `capped`."""
    network = MonomialNetwork(check_widths(widths), degree)
    free = network.n_parameters - network.n_hidden
    return min(free, network.widths[-1] * network.n_monomials) if capped else free


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenericRank:
    """The generic rank: `rank` is a proved lower bound, `upper` a proved upper one.

    - `failure_probability`: a bound on the probability, over the draws of primes, weights and points, that the generic
      rank is larger than `rank`; 0 where it is proved.
    """

    widths: tuple[int, ...]
    degree: int
    rank: int
    upper: int
    proof: str
    failure_probability: float

    @property
    def proved(self) -> bool:
        """Whether the bounds meet."""
        return self.rank == self.upper


def generic_rank(
    widths: Sequence[int], degree: int, *, n_draws: int = 2, most_bytes: float = 2e9, seed: int = 0
) -> GenericRank:
    """The generic rank of an architecture, from random weights and points modulo random primes of 61 bits.

    A rank found is a lower bound. Where it reaches `rank_bound` it is proved. Else, derived here after Schwartz and
    Zippel: were the generic rank larger, some minor of size k = rank + 1 of the Jacobian at k points would be a
    non-zero polynomial with integer coefficients in weights and points. Its degree is at most k times that of an entry,
    `delta = r^(L-1) + (r^L - 1)/(r - 1) - 1`, and its coefficients are at most `k! s^k`, with s the largest entry at
    weights and points of ones. It is zero modulo a prime drawn from the N primes in [2^60, 2^61) with probability at
    most `log2(k! s^k) / (60 N)`, and otherwise at weights and points drawn modulo p at most `k delta / p`. Draws are
    independent: the sum of the two, to the power `n_draws`.
    """
    network = MonomialNetwork(check_widths(widths), degree)
    check_fits(network, most_bytes, an_entry=LARGE_PRIMES)
    n_draws = check_count(n_draws, "n_draws", least=1)
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    upper, rank, used = rank_bound(network.widths, network.degree), 0, 0
    while used < n_draws:
        p = random_prime(rng, LARGE_BITS)
        layers = [rng.integers(0, p, shape).tolist() for shape in network.shapes]
        found = sampled_jacobian(p, layers, network.degree, rng).rank()
        used += 1
        rank = max(rank, found)
        assert rank <= upper
        if rank == upper:
            proof = (
                "the expected rank"
                if upper == expected_rank(network.widths, degree)
                else "a bound for the architecture"
            )
            return GenericRank(
                widths=network.widths, degree=network.degree, rank=rank, upper=upper, proof=proof,
                failure_probability=0.0,
            )  # fmt: skip
    return GenericRank(
        widths=network.widths, degree=network.degree, rank=rank, upper=upper,
        proof=f"{n_draws} random draws", failure_probability=_failure(network, rank + 1) ** n_draws,
    )  # fmt: skip


def _failure(network, k):
    r, L = network.degree, network.n_layers
    if network.output_degree >= 2**60:
        return 1.0
    delta = network.output_degree + (r**L - 1) // (r - 1) - 1
    # log2 of an entry at ones: f is a product of powers of the widths, and a derivative by a weight at most
    # `r^(L-1)` times that.
    log2_entry, power = (network.n_layers - 1) * math.log2(r), 1
    for width in network.widths[-2::-1]:
        log2_entry += power * math.log2(width)
        power *= r
    log2_minor = math.lgamma(k + 1) / math.log(2) + k * log2_entry
    # By Rosser and Schoenfeld (1962) x/ln x < pi(x) < 1.26 x/ln x: the interval has more than 1.8e16 primes.
    n_primes = 2**61 / (61 * math.log(2)) - 1.25506 * 2**60 / (60 * math.log(2))
    return min(1.0, log2_minor / (60 * n_primes) + k * delta / 2**60)
