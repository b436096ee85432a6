"""What ranks take in memory, estimated before anything is built."""

import numpy as np

from ..models.monomial import MonomialNetwork
from ._rank_residues import SPARE_POINTS

# Bytes an entry of the sampled Jacobian, measured at 465 to 2485 weights and rounded up: the matrix and the lists of
# Python's integers that it is filled from (integers of 61 bits are objects of their own); a dozen arrays of doubles.
SMALL_PRIMES, LARGE_PRIMES, DOUBLES = 72.0, 112.0, 90.0


def check_fits(
    network: MonomialNetwork, most_bytes: float, *, an_entry: float = SMALL_PRIMES, n_points: int | None = None
) -> None:
    """Raise `ValueError` where the Jacobian at `n_points` points would take more than `most_bytes`.

    And `TypeError` or `ValueError` where that is no positive number.
    """
    if isinstance(most_bytes, bool) or not isinstance(most_bytes, (int, float, np.integer, np.floating)):
        raise TypeError(f"`most_bytes` must be a number of bytes, such as 2e9; got {most_bytes!r}.")
    if not most_bytes > 0:
        raise ValueError(f"`most_bytes` must be positive, a number of bytes such as 2e9; got {most_bytes}.")
    n, m = network.n_parameters, network.widths[-1]
    rows = (n + SPARE_POINTS if n_points is None else n_points) * m
    size = an_entry * rows * n
    if size <= most_bytes:
        return
    what = "" if an_entry == DOUBLES else "exact "
    few = int(most_bytes / (max(an_entry, DOUBLES) * m * n))
    remedy = (
        f"`float_rank` and `jacobian_rank` with `n_points` = {few} or fewer give a certified lower bound within it"
        if few
        else f"one point takes {size_text(max(an_entry, DOUBLES) * m * n)} already"
    )
    raise ValueError(
        f"widths {network.widths} have {n} weights: the {what}Jacobian of {rows} rows takes {size_text(size)}, more "
        f"than `most_bytes` = {size_text(most_bytes)}; {remedy}."
    )


def too_large(network: MonomialNetwork, most_bytes: float) -> str | None:
    """Why the Jacobian is not to be evaluated on a unisolvent set, in words; `None` where it is."""
    n_points, d = network.n_monomials, network.widths[0]
    size = 8.0 * n_points * (d + network.widths[-1] * network.n_parameters)
    # The degree must also stay below the primes of float arithmetic.
    if size <= most_bytes and (d == 1 or 2 * network.output_degree < 2**23):
        return None
    return (
        f"forms of degree {network.output_degree} in {d} variables are determined by {n_points} points, and the "
        f"Jacobian there takes {size_text(size)}, more than `most_bytes` = {size_text(most_bytes)}"
    )


def size_text(n_bytes: float) -> str:
    """A size as people write it."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    raise AssertionError
