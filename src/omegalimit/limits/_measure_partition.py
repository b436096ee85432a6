"""`log int_S (1 - |R(u)|^2)^{-D/2} du` and its derivatives by the coefficients of `R(u) = sum_i c_i relu(u.x_i)`."""

import dataclasses

import numpy as np
from jaxtyping import Float

from ._measure_cones import cone_integrals, finite, gram_matrices
from ._measure_rule import rule_integrals

_EPS = float(np.finfo(float).eps)
# Operations behind one value of R or q, each of which rounds once.
_ROUNDINGS = 8
# The largest dimension with a closed form.
CLOSED = 3
# Gauss nodes a coordinate in dimension 4: while searching, and for what is certified (then one more for the error).
SEARCH, FINAL = 3, 6


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Partition:
    """The logarithm of the integral, its gradient (n, m) and its Hessian (n, m, n, m), and what is wrong with them.

    - `log_error`, `gradient_error` (n, m): absolute; rounding (first-order estimate) and quadrature (the difference of
      two rules) or the standard error of a sample.
    """

    log_total: float
    gradient: Float[np.ndarray, "n m"]
    hessian: Float[np.ndarray, "n m n m"] | None
    log_error: float
    gradient_error: Float[np.ndarray, "n m"]


def fields(features: Float[np.ndarray, "T D n"], c: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "T D m"]:
    """`R` at the rays, from `features = relu(p.x_i)`."""
    T, D, n = features.shape
    return (features.reshape(T * D, n) @ c).reshape(T, D, -1)


def integrals(P, R, *, order: int = FINAL, second: bool = True):
    """Of each cone: the logarithm, and the derivatives by `R`; `None` where an integral is not finite."""
    if P.shape[1] > CLOSED:
        return rule_integrals(P, R, order, second=second)
    return cone_integrals(P, R, second=second) if finite(gram_matrices(P, R)).all() else None


def cone_partition(P, features, c, *, order: int, second: bool = True, errors: bool = True) -> Partition | None:
    """Summed over cones; `None` where `|R| < 1` does not hold on the whole sphere, so that the integral diverges."""
    R = fields(features, c)
    found = integrals(P, R, order=order, second=second or errors)
    if found is None:
        return None
    logs, first, blocks = found
    top = logs.max()
    mass = np.exp(logs - top)
    log_total = float(top + np.log(mass.sum()))
    mass /= mass.sum()
    gradient = _onto_rows(features, mass[:, None, None] * first)
    if blocks is None:
        return Partition(
            log_total=log_total,
            gradient=gradient,
            hessian=None,
            log_error=0.0,
            gradient_error=np.zeros_like(gradient),
        )
    blocks = mass[:, None, None, None, None] * (blocks + first[:, :, :, None, None] * first[:, None, None])
    hessian = _between_rows(features, blocks) - gradient[:, :, None, None] * gradient if second else None
    log_error, gradient_error = 0.0, np.zeros_like(gradient)
    if errors:
        # What rounding does to R at a ray, of the size of the sum of its terms, carried to first order.
        noise = _ROUNDINGS * _EPS * np.maximum(fields(features, np.abs(c)), 1.0)
        log_error = float((mass[:, None, None] * np.abs(first) * noise).sum()) + 4 * _EPS * (1 + abs(log_total))
        moved = np.einsum("tkcje,tje->tkc", np.abs(blocks), noise)
        # At c = 0 the gradient is zero by symmetry, without rounding.
        gradient_error = np.any(c) * (_onto_rows(features, moved) + np.abs(gradient) * log_error)
        if P.shape[1] > CLOSED:
            finer = cone_partition(P, features, c, order=order + 1, second=False, errors=False)
            if finer is None:
                return None
            # Twice the difference: it is about as large as the error itself.
            log_error += 2 * abs(finer.log_total - log_total)
            gradient_error = gradient_error + 2 * np.abs(finer.gradient - gradient)
    return Partition(
        log_total=log_total,
        gradient=gradient,
        hessian=hessian,
        log_error=log_error,
        gradient_error=gradient_error,
    )


def _onto_rows(features, by_R):
    T, D, n = features.shape
    return features.reshape(T * D, n).T @ by_R.reshape(T * D, -1)


def _between_rows(features, blocks):
    T, D, n = features.shape
    m = blocks.shape[2]
    out = np.empty((n, m, n, m))
    flat = features.reshape(T * D, n)
    for c in range(m):
        for e in range(c, m):
            out[:, c, :, e] = flat.T @ (blocks[:, :, c, :, e] @ features).reshape(T * D, n)
            out[:, e, :, c] = out[:, c, :, e].T
    return out
