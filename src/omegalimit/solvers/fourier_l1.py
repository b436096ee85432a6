"""Fourier l1, `|F w|_1` with the unitary discrete Fourier transform `F` and real `w`: a group-l1 problem.

Real `w` has `(F w)_{D-k} = conj (F w)_k`, so with the multiplicity `m_k` (1 for `k = 0`, and for `k = D/2` where D is
even; 2 otherwise) and `u_k = m_k (F w)_k`, `0 <= k <= D/2`,

    |F w|_1 = sum_k |u_k|,      <a, w> = sum_k Re conj((F a)_k) u_k,

which is group l1 in the real and imaginary parts of `u`, with rows `Re F a`, `Im F a`. The imaginary parts where
`m_k = 1` vanish and are left out. The dual norm is `|F g|_inf`. Derived here; the order of the candidates comes
from both bounds with the full transform.
"""

import numpy as np
import scipy.sparse
from jaxtyping import Float

from ._candidate import Candidate, balanced, best_intercept
from .group_l1 import least_group_l1


def least_fourier_l1(
    A, c: Float[np.ndarray, " N"] | None, *, n_plain: int = 0, tol: float, polish: bool = True
) -> tuple[list[Candidate], int]:
    """`min |F w|_1` over `A w + c b >= 1`; candidates, best first, and the number of steps.

    `A`: `(N, d)`, dense or sparse. The last `n_plain` coordinates stand outside the transform, with their absolute
    values: the norm of `(w, v)` is `|F w|_1 + |v|_1`. `c`, `tol` and `polish` as in `least_group_l1`.
    """
    A = A.toarray() if scipy.sparse.issparse(A) else np.asarray(A)
    D = A.shape[1] - n_plain
    if not D > 0:
        raise ValueError(
            f"The transform needs a coordinate; got {A.shape[1]} of them, {n_plain} outside the transform."
        )
    basis = _Basis(D, n_plain)
    found, n_iterations = least_group_l1(basis.rows(A), c, groups=basis.groups, tol=tol, polish=polish)
    candidates = [_at(A, c, basis.point(candidate.point), candidate.multipliers) for candidate in found]
    candidates.sort(key=lambda candidate: _gap(A, c, n_plain, candidate))
    return candidates, n_iterations


class _Basis:
    """Coordinates: the real parts of `u`, its imaginary parts where `m_k = 2`, the plain coordinates."""

    def __init__(self, D: int, n_plain: int):
        self._D, self._n_plain = D, n_plain
        self._n = D // 2 + 1
        self._twice = np.arange(1, (D + 1) // 2)
        self.groups = np.r_[np.arange(self._n), self._twice, self._n + np.arange(n_plain)]

    def rows(self, A: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N d"]:
        transformed = np.fft.rfft(A[:, : self._D], axis=1, norm="ortho")
        return np.hstack([transformed.real, transformed.imag[:, self._twice], A[:, self._D :]])

    def point(self, u: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
        transform = u[: self._n].astype(complex)
        transform[self._twice] += 1j * u[self._n : self._D]
        transform[self._twice] /= 2
        return np.r_[np.fft.irfft(transform, n=self._D, norm="ortho"), u[self._D :]]


def _at(A, c, point, multipliers):
    return Candidate(point, multipliers, best_intercept(A @ point, c))


def _gap(A, c, n_plain, candidate):
    D = A.shape[1] - n_plain

    def sizes(v):
        return np.r_[np.abs(np.fft.fft(v[:D], norm="ortho")), np.abs(v[D:])]

    scores = A @ candidate.point
    margins = scores if c is None else scores + c * candidate.intercept
    norm = sizes(candidate.point).sum()
    upper = sizes(A.T @ balanced(candidate.multipliers, c)).max()
    return (upper - margins.min() / norm) / upper if upper > 0 and norm > 0 else np.inf
