"""Where exponential forces balance: `w* = argmin sum_i c_i exp(-a_i'x)`, and whether there is such a point.

It exists if and only if some positive combination of the rows is zero (Stiemke). Newton's step `s` at a point `x` with
the forces `alpha_i = c_i exp(-a_i'x)` proves it where all `|a_i's| < 1`, for `alpha_i (1 - a_i's)` is then one, and the
distance to the minimiser is at most `e |A'alpha| / m` where `|A'alpha| max_i |a_i| < m / e`, `m` the least eigenvalue
of `A' diag(alpha) A`: within a radius `r` the curvature falls by no more than `exp(-r max_i |a_i|)`. Derived here.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog

_EPS = float(np.finfo(float).eps)
_N_STEPS, _N_BISECTIONS = 300, 80
# A direction of the alternative is one whose products, relative to its length, are not below the rounding of a linear
# program, on rows of length one.
_PROGRAM = 1e-9


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Balance:
    """A point and what it proves.

    - `point`: shape `(k,)`; `forces`: the `alpha_i` at it over their sum; `log_value`: `log sum_i c_i exp(-a_i'x)`.
    - `gradient`: `|sum_i alpha_i a_i|`, as a share of `sum_i alpha_i |a_i|`.
    - `error`: a bound on the distance to the minimiser, rounding included; `inf` where the point proves none.
    - `exists`: whether the point proves that there is a minimiser.
    """

    point: Float[np.ndarray, " k"]
    forces: Float[np.ndarray, " m"]
    log_value: float
    gradient: float
    error: float
    exists: bool


def balance(
    A: Float[np.ndarray, "m k"], log_weights: Float[np.ndarray, " m"], errors: Float[np.ndarray, " m"]
) -> Balance:
    """The least of `sum_i c_i exp(-a_i'x)`, of rows that span, with what it proves.

    `errors`: by how much each row may be off, in length. Where the point proves nothing as the columns come, which may
    be of very different size, it is sought in coordinates in which they are orthonormal.
    """
    found = _least(A, log_weights, errors)
    if found.exists or not A.shape[1] or len(A) < A.shape[1]:
        return found
    Q, R = np.linalg.qr(A)
    singular = np.linalg.svd(R, compute_uv=False)
    if not singular[-1] > len(A) * _EPS * singular[0]:
        return found
    other = _least(Q, log_weights, errors / singular[-1] + 4 * _EPS)
    if not other.exists:
        return found
    gradient = float(np.linalg.norm(A.T @ other.forces) / (other.forces @ np.linalg.norm(A, axis=1)))
    point = np.linalg.solve(R, other.point)
    rounding = 4 * _EPS * float(singular[0] / singular[-1]) * float(np.linalg.norm(point))
    error = other.error / float(singular[-1]) + rounding
    return dataclasses.replace(other, point=point, gradient=gradient, error=error)


def _least(A, log_weights, errors) -> Balance:
    """Newton's directions, each to its least point, in the coordinates of `A`."""
    x = np.zeros(A.shape[1])
    best, least = x, np.inf
    for _ in range(_N_STEPS if A.shape[1] else 0):
        forces, _ = _forces(A, log_weights, x)
        step = _newton(A, forces)
        decrement = float((A.T @ forces) @ step)
        if decrement < least:
            best, least = x, decrement
        elif decrement < 1e-20:  # rounding
            break
        if not decrement > 0:
            break
        x = x + _longest(A, log_weights, x, step) * step
    return _read(A, log_weights, errors, best)


def _forces(A, log_weights, x):
    """The `alpha_i` over their sum, and the logarithm of it."""
    exponents = log_weights - A @ x
    largest = exponents.max()
    forces = np.exp(exponents - largest)
    return forces / forces.sum(), float(largest + np.log(forces.sum()))


def _newton(A, forces):
    """`s` of `A' diag(alpha) A s = A' alpha`, as least squares of `sqrt(alpha) (A s - 1)`."""
    root = np.sqrt(forces)
    return np.linalg.lstsq(root[:, None] * A, root, rcond=None)[0]


def _longest(A, log_weights, x, step):
    """The share of the step that leads to the least point along it; one where that is it to two digits."""

    def slope(share):
        return -float((A @ step) @ _forces(A, log_weights, x + share * step)[0])

    low, high = 0.0, 1.0
    while slope(high) < 0 and high < 2.0**60:
        low, high = high, 2 * high
    if low == 0.0 and abs(slope(1.0)) < 1e-2 * abs(slope(0.0)):
        return 1.0
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        if high - low < 1e-2 * high:
            break
    return (low + high) / 2


def _read(A, log_weights, errors, x) -> Balance:
    forces, log_value = _forces(A, log_weights, x)
    if not A.shape[1]:
        return Balance(point=x, forces=forces, log_value=log_value, gradient=0.0, error=0.0, exists=True)
    gradient = A.T @ forces
    sizes = np.linalg.norm(A, axis=1)
    total = float(forces @ sizes)
    # Of the rows in the sum and in the exponents, and of the products.
    errors = errors + 4 * _EPS * sizes
    rounding = float(forces @ errors) + float(forces @ (sizes * errors)) * float(np.linalg.norm(x))
    off = float(np.linalg.norm(gradient)) + rounding
    singular = np.linalg.svd(np.sqrt(forces)[:, None] * A, compute_uv=False)
    curvature = float(singular[-1]) ** 2 if len(singular) == A.shape[1] else 0.0
    near = curvature > 0 and off * sizes.max() < curvature / np.e
    worst = float(np.abs(A @ _newton(A, forces)).max())
    return Balance(
        point=x,
        forces=forces,
        log_value=log_value,
        gradient=float(np.linalg.norm(gradient)) / total if total > 0 else 0.0,
        error=np.e * off / curvature if near else np.inf,
        exists=bool(curvature > 64 * _EPS * len(A) * float(singular[0]) ** 2 and near and worst < 0.5),
    )


def one_sided(A: Float[np.ndarray, "m k"]) -> Int[np.ndarray, " q"] | None:
    """The rows with `a_i'y > 0` for a direction `y` that has no `a_i'y < 0`, as many as possible.

    `None` where there is none: then some positive combination of the rows is zero. By a linear program, on rows of
    length one (zero rows stay zero); each product that can be positive can be one.
    """
    m, k = A.shape
    if k == 0:
        return None
    size = np.linalg.norm(A, axis=1)
    rows = A / np.where(size > 0, size, 1.0)[:, None]
    found = linprog(
        np.concatenate([np.zeros(k), -np.ones(m)]),
        A_ub=np.hstack([-rows, np.eye(m)]),
        b_ub=np.zeros(m),
        bounds=[(None, None)] * k + [(0, 1)] * m,
        method="highs",
    )
    if found.x is None:
        return None
    y = found.x[:k]
    length = float(np.linalg.norm(y))
    products = rows @ y
    positive = np.flatnonzero(products > 0.5)
    if not (length > 0 and len(positive) and products.min() >= -_PROGRAM * length):
        return None
    # Positive by the program's tolerance alone?
    return positive if products[positive].min() > _PROGRAM * length else None
