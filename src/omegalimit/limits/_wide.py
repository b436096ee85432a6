"""The constraints' linear map and its adjoint in extended precision, for margins that double precision would lose.

`numpy.longdouble` has eleven bits more than a double on most machines, and none on some, where these are no sharper
than the plain products: `EPS` tells. There is no BLAS for it; a product costs about ten nanoseconds an entry.
"""

import numpy as np

from .constraints import AbstractConstraints, Factors, Matrices, Rows

EPS = float(np.finfo(np.longdouble).eps)
# Entries that are held in extended precision at one time.
_CHUNK = 2**20


def margins(constraints: AbstractConstraints, W: np.ndarray) -> np.ndarray:
    """`<A_k, W>`, shape `(N,)`."""
    if isinstance(constraints, Factors):
        projected = _times(constraints.left, W.astype(np.longdouble))
        return (projected * constraints.right).sum(1)
    return _times(_rows(constraints), W.reshape(-1).astype(np.longdouble))


def combine(constraints: AbstractConstraints, p: np.ndarray) -> np.ndarray:
    """`sum_k p_k A_k`, of the shape of a point; `p` in extended precision."""
    if isinstance(constraints, Factors):
        used = np.flatnonzero(p)
        weighted = (constraints.left[used] * p[used, None]).T
        return np.stack([(row[:, None] * constraints.right[used]).sum(0) for row in weighted])
    rows = _rows(constraints)
    if isinstance(rows, np.ndarray):
        step = max(1, _CHUNK // rows.shape[1])
        parts = [(rows[i : i + step] * p[i : i + step, None]).sum(0) for i in range(0, len(rows), step)]
        return np.sum(parts, axis=0).reshape(constraints.shape)
    return _times(rows.T.tocsr(), p)


def _rows(constraints):
    if isinstance(constraints, Rows):
        return constraints.rows
    assert isinstance(constraints, Matrices)
    return constraints.flat


def _times(A, x):
    """`A x`, of a dense or CSR array and a vector or a matrix."""
    found = np.zeros((A.shape[0], *x.shape[1:]), dtype=np.longdouble)
    if not isinstance(A, np.ndarray):
        terms, filled = A.data * x[A.indices], np.diff(A.indptr) > 0
        if len(terms):
            found[filled] = np.add.reduceat(terms, A.indptr[:-1][filled])
        return found
    step = max(1, _CHUNK // max(A.shape[1], 1))
    for i in range(0, len(A), step):
        found[i : i + step] = (A[i : i + step] * x).sum(1) if x.ndim == 1 else A[i : i + step] @ x
    return found
