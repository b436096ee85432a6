"""The arrays of a margin problem, checked at the door and scaled by powers of two."""

import math
from typing import Any

import numpy as np
import scipy.sparse

from .._checks import check_finite, n_rounded, shape_text, to_float64
from .constraints import AbstractConstraints, Factors, Matrices, Rows


def constraints_of(scaled) -> AbstractConstraints:
    """The constraints of one array (vectors, matrices) or two (factors)."""
    if len(scaled) == 2:
        return Factors(*scaled)
    return Rows(scaled[0]) if scaled[0].ndim == 2 else Matrices(scaled[0])


def _squeezed(shape):
    return tuple(n for n in shape if n != 1)


def data_array(name, value) -> Any:
    """Constraints as a fresh array, dense or CSR, of two dimensions (`rows`, `X`: or three), not empty, finite."""
    if scipy.sparse.issparse(value):
        array: Any = scipy.sparse.csr_array(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"`{name}` must hold real numbers; it is a sparse array of {array.dtype}.")
        array = scipy.sparse.csr_array(array, dtype=float, copy=True)
        array.sum_duplicates()
        check_finite(array.data, f"{name}.data")
    else:
        array = checked(name, value)
    wanted = ("(N, d) or (N, d1, d2)", (2, 3)) if name in ("rows", "X") else ("(N, d)", (2,))
    if array.ndim not in wanted[1] or 0 in array.shape:
        raise ValueError(f"`{name}` must have shape {wanted[0]} and at least one entry; got {shape_text(array.shape)}.")
    return array


def checked(name, value):
    """A fresh double-precision array, all entries finite."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"`{name}` is a masked array; drop or fill what is masked first.")
    array, _ = to_float64(value, name)
    given = np.asarray(value)
    if given.dtype.kind in "iu" and n_rounded(given, array):
        raise ValueError(f"`{name}` has integers beyond 2**53 that no double holds; rescale it or round it yourself.")
    check_finite(array, name)
    return array


def shaped(name, value, shape):
    """A candidate's array, checked, of this shape; axes of length one, as solvers' columns have, are dropped."""
    if value is None:
        raise ValueError(f"`{name}` is None: was the problem that it comes from solved?")
    array = checked(name, value)
    if array.shape != shape and _squeezed(array.shape) == _squeezed(shape):
        array = array.reshape(shape)
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape_text(shape)}; got {shape_text(array.shape)}.")
    return array


def check_range(name, array):
    """Raise `ValueError` when a row is so much smaller than the largest that bounds on both leave double precision."""
    absolute = abs(array).reshape(array.shape[0], -1) if isinstance(array, np.ndarray) else abs(array)
    size = absolute.max(axis=1)
    size = size if isinstance(size, np.ndarray) else size.toarray().reshape(-1)
    smallest = int(np.argmin(np.where(size > 0, size, np.inf)))
    if 0 < size[smallest] < 2.0**-400:
        raise ValueError(
            f"Row {smallest} of `{name}` is smaller than the largest by a factor of "
            f"{size[smallest] / size.max():.0e}; bounds on both leave double precision. Rescale or drop it."
        )


def split(array):
    """`array = scaled * 2**e` with the largest entry of `scaled` in [1/2, 1): exact, and squares cannot overflow."""
    if scipy.sparse.issparse(array):
        e = math.frexp(float(np.abs(array.data).max(initial=0.0)))[1]
        scaled = array.copy()
        scaled.data = np.ldexp(scaled.data, -e)
        return scaled, e
    e = math.frexp(float(np.abs(array).max(initial=0.0)))[1]
    return np.ldexp(array, -e), e
