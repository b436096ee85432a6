"""Ball arithmetic on arrays of doubles: exact conversion in, products with proved radii, rounding outward out.

A ball `[m +- r]` of python-flint contains the true value whatever was rounded on the way. Its exponents have no limit,
so nothing overflows or underflows between the data and the two final doubles.
"""

import itertools
import math

import numpy as np
import scipy.sparse
from flint import arb, arb_mat

# Entries of a dense array that are held as balls at one time: about 48 bytes each.
_CHUNK = 2**18


def column(values: list[arb]) -> arb_mat:
    """A column vector."""
    return arb_mat(len(values), 1, values)


def matrix(a: np.ndarray) -> arb_mat:
    """A two-dimensional array of doubles, exactly."""
    return arb_mat(a.shape[0], a.shape[1], a.ravel().tolist())


def products(A: np.ndarray | scipy.sparse.sparray, x: list[arb]) -> list[arb]:
    """`A x` for a matrix of doubles, dense or CSR."""
    if not isinstance(A, np.ndarray):
        A = scipy.sparse.csr_array(A)
        data, indices, ends = A.data.tolist(), np.asarray(A.indices).tolist(), np.asarray(A.indptr).tolist()
        return [dot(data[i:j], [x[c] for c in indices[i:j]]) for i, j in itertools.pairwise(ends)]
    step, X, found = max(1, _CHUNK // max(A.shape[1], 1)), column(x), []
    for start in range(0, A.shape[0], step):
        found += (matrix(A[start : start + step]) * X).entries()
    return found


def dot(a: list, b: list) -> arb:
    """`sum_i a_i b_i`."""
    return (arb_mat(1, len(a), a) * arb_mat(len(b), 1, b)).entries()[0] if a else arb(0)


def total(values: list[arb]) -> arb:
    """`sum_i a_i`."""
    return sum(values, arb(0))


def largest(values: list[arb]) -> arb:
    """An exact number that is at least every one of these."""
    bound = arb(0)
    for value in values:
        bound = bound.max(value.upper())
    return bound.upper()


def root(x: arb) -> arb:
    """`sqrt(x)` of a number known not to be negative: a ball that reaches below zero only does so by rounding."""
    return x.nonnegative_part().sqrt()


def round_up(x: arb) -> float:
    """The smallest double that is at least every number in the ball; `inf` beyond the largest double."""
    return _directed(x.upper(), up=True) if x.is_finite() else math.inf


def round_down(x: arb) -> float:
    """The largest double that is at most every number in the ball; `-inf` below the smallest."""
    return _directed(x.lower(), up=False) if x.is_finite() else -math.inf


def _directed(end, *, up):
    man, exp = map(int, end.man_exp())
    if man == 0:
        return 0.0
    # Spacing of doubles at this size: 2**(e - 53) for numbers in [2**(e-1), 2**e), never finer than 2**-1074.
    drop = max(man.bit_length() - 53, -1074 - exp, 0)
    kept = -((-man) >> drop) if up else man >> drop
    try:
        return math.ldexp(kept, exp + drop)
    except OverflowError:
        if kept > 0:
            return math.inf if up else math.nextafter(math.inf, 0)
        return math.nextafter(-math.inf, 0) if up else -math.inf
