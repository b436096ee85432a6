"""Which rows hold the Euclidean maximum margin, and what their parts across its direction span.

A certified direction of gap `g` is off by up to `2 sqrt(g)`: halfway between it and the true one the margin is at least
`1 - g / 2` of the largest, and the length `cos` of half the angle. That would leave rows within some 1e-8 of the least
margin undecided. The equations `a_i'w = 1` on the rows that carry the dual, solved by least squares, know `w` to
rounding times their condition; rows within that of the least margin are the support vectors. Rows that only the
certificate cannot tell from them are named. Derived here.
"""

import contextlib
import dataclasses

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

_EPS = float(np.finfo(float).eps)
# Shares of the largest multiplier below which others may be what a method leaves of a zero.
_DUST = (0.0, 1e-13, 1e-9)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SupportRows:
    """The rows of least margin, in units in which that is one.

    - `u`: the unit direction, shape `(d,)`; `gamma`: the margin, in the units of the rows as given.
    - `rows`: indices of the support vectors; `ambiguous`: of further rows that the certificate's gap leaves open.
    - `across`: their parts across `u` over `gamma`, shape `(S, d)`; `basis`: an orthonormal basis of what those span,
      shape `(d, k)`.
    - `unit`: the relative error of a row's part across `u`, beside the row itself.
    - `resolution`: the least singular value that was taken for part of the span, over its error; `inf` without any.
    """

    u: Float[np.ndarray, " d"]
    gamma: float
    rows: Int[np.ndarray, " S"]
    ambiguous: Int[np.ndarray, " M"]
    across: Float[np.ndarray, "S d"]
    basis: Float[np.ndarray, "d k"]
    unit: float
    resolution: float


def support_rows(
    Z: Float[np.ndarray, "n d"], u: Float[np.ndarray, " d"], gap: float, given: Float[np.ndarray, " n"]
) -> SupportRows:
    """Of rows of size one and the unit direction `u`, certified to the relative gap `gap` by the multipliers `given`.

    The gap has its rounding error in it.
    """
    gamma = float((Z @ u).min())
    # The candidates: rows whose margin may be the least at the true direction.
    doubt = 2 * np.sqrt(gap)
    near = np.flatnonzero(Z @ u <= gamma + doubt * (np.linalg.norm(Z, axis=1) + gamma))
    refined, p = _refined(Z, near, gamma, given)
    if refined is None:  # then the certificate is all that is known, and what has no multiplier may be in or out
        unit = doubt
    else:
        u, gamma, condition = refined
        unit = _unit(Z.shape[1], condition)
    A = Z / gamma
    sizes = np.linalg.norm(A, axis=1)
    excess = A @ u - 1
    rows = np.flatnonzero(excess <= unit * sizes)
    ambiguous = np.flatnonzero((excess <= doubt * sizes) & (excess > unit * sizes if refined is not None else p == 0))
    across = A[rows] - np.outer(A[rows] @ u, u)
    lengths = sizes[rows]
    across[np.linalg.norm(across, axis=1) <= 2 * unit * lengths] = 0.0  # rows along `u` itself
    _, singular, directions = np.linalg.svd(across / lengths[:, None], full_matrices=False)
    level = 2 * unit * np.sqrt(len(rows))
    rank = int(np.count_nonzero(singular > level))
    basis = directions[:rank].T
    # Once more across `u`: what rounding left along it would count for all of a margin.
    basis = np.linalg.qr(basis - np.outer(u, u @ basis))[0] if rank else basis
    return SupportRows(
        u=u,
        gamma=gamma,
        rows=rows,
        ambiguous=ambiguous,
        across=across,
        basis=basis,
        unit=float(unit),
        resolution=float(singular[rank - 1] / level) if rank else np.inf,
    )


def _refined(Z, near, gamma, given):
    """The direction, its margin and the condition of the equations of the rows that carry a dual; and that dual.

    `None` for the former where the equations lead to a smaller margin.
    """
    n, d = Z.shape
    A, p = Z[near] / gamma, np.zeros(n)
    # Least distance programming (Lawson and Hanson): the least-norm point of the rows' hull, up to a factor.
    with contextlib.suppress(RuntimeError):  # SciPy's word for too many steps
        p[near], _ = nnls(np.vstack([A.T, np.ones(len(near))]), np.append(np.zeros(d), 1.0), maxiter=30 * len(near))
    # SciPy also ends, without a word, at what is no solution; then the certificate's own multipliers serve.
    for dual in (p, given):
        if (refined := _from_dual(Z, dual, gamma)) is not None:
            return refined, dual
    return None, p


def _from_dual(Z, p, gamma):
    """The same from the equal margins of the rows with a multiplier beyond dust."""
    for dust in _DUST:
        used = Z[p > dust * p.max()] / gamma
        if not len(used):
            continue
        lengths = np.linalg.norm(used, axis=1)
        w, _, rank, singular = np.linalg.lstsq(used / lengths[:, None], 1 / lengths, rcond=None)
        length = float(np.linalg.norm(w))
        if not (length > 0 and np.isfinite(length)):
            continue
        condition = float(singular[0] / singular[rank - 1])
        new = gamma / length
        if (Z @ (w / length) >= new - _unit(Z.shape[1], condition) * np.linalg.norm(Z, axis=1)).all():
            return w / length, new, condition
    return None


def _unit(d, condition):
    """The relative error of a product of a row and a direction from equations of this condition."""
    return 16 * _EPS * (np.sqrt(d) + condition)
