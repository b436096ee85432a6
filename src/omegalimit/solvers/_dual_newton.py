"""The least interpolant of a smooth potential: Newton's method on the dual, by continuation in the starting scale.

    max_nu  g(nu) = nu.y - f^*(X^T nu),     grad g = y - X k,   -Hess g = X D X^T,   k = (f^*)'(s),  D = (f^*)''(s)

From a start as large as the interpolants themselves the dual is nearly quadratic and Newton's method takes few steps
from zero. The logarithm of the scale then moves to its own value, in steps that grow as long as Newton's method follows
easily; `nu` is nearly affine in it (for small scales `s` is `log(1 / scale)` times the multipliers of the l1 norm), so
that the line through the last two points predicts the next. Where the support has as many entries as there are rows,
the last point does: the multipliers nearest to its gradient in the next potential. The better of the two counts.
Derived here; damped Newton with Armijo's rule is standard.

Where `D` spreads over many decades `X D X^T` loses the small ones; its factor is then the triangle of a QR
factorisation of `sqrt(D) X^T`, rows sorted by size.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, get_lapack_funcs, qr, solve_triangular

from ..limits._least_squares import least_squares
from ..limits.regularisers import AbstractPotential
from ._candidate import Candidate

_EPS = float(np.finfo(float).eps)
(_potrf,) = get_lapack_funcs(("potrf",), dtype=float)
# Pivots of the unit matrix below this cost digits that the triangle of a QR factorisation keeps.
_SMALL_PIVOT = 1e-10
# Of the way to the boundary of the dual domain.
_SHARE_OF_ROOM = 0.95
_LONGEST = 20.0
_N_STAGES, _N_STEPS, _N_HALVINGS = 400, 60, 50
# On the way: the decrement, relative to the point's size, at which a stage ends; at the end, that of rounding.
_ROUGH, _SHARP = 1e-4, 1e-32
# And the residual that it may leave, as a share of the data.
_OFF = 1e-2
# Logarithms of the scale: the first step of the continuation, and the least before it gives up.
_FIRST, _LEAST = 1.5, 1e-4
_EASY, _HARD = 5, 12


def least_potential(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], f: AbstractPotential, *, tol: float, polish: bool
) -> tuple[list[Candidate], int]:
    """Candidates for `min f(k)` over `X k = y`, independent rows; the number of Newton steps."""
    nu, total, candidates = np.zeros(len(X)), 0, []
    largest = float(np.abs(least_squares(X, y)).max(initial=0.0))
    sharp = _SHARP if polish else 0.01 * tol
    length = f.distance(np.log(largest)) if largest > 0 else 0.0
    if length > _FIRST:
        nu, last, total = _continued(X, y, f, np.log(largest), length)
        # Where the path ended early, its last point is still near the optimum: it interpolates, and what is small is.
        guesses = [nu, _moved(X, last, f)]
        guesses = [guess * min(f.factor_into_domain(X.T @ guess), 1.0) for guess in guesses]
        candidates += [Candidate(last, guess) for guess in guesses]
        nu = max(guesses, key=lambda guess: _value(y, f, guess, X.T @ guess)[0])
    nu, n, _ = _newton(X, y, f, nu, stop=sharp, n_steps=2 * _N_STEPS)
    return [*candidates, Candidate(f.gradient_of_conjugate(X.T @ nu), nu)], total + n


def from_multipliers(
    X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], f: AbstractPotential, nus: list[np.ndarray]
) -> tuple[list[Candidate], int]:
    """The same by Newton's method alone, from that of `nus` which has the highest bound."""
    nu = max(nus, key=lambda nu: _value(y, f, nu, X.T @ nu)[0])
    nu, n, _ = _newton(X, y, f, nu, stop=_SHARP, n_steps=2 * _N_STEPS)
    return [Candidate(f.gradient_of_conjugate(X.T @ nu), nu)], n


def _continued(X, y, f, log_size, length):
    """Multipliers and a point near those of `f`, from the start of size `e^log_size`; the number of Newton steps."""
    share, step = 0.0, _FIRST / length
    nu, total, _ = _newton(X, y, f.nearer(0.0, log_size), np.zeros(len(X)), stop=_ROUGH, n_steps=_N_STEPS)
    before: tuple[float, np.ndarray] | None = None
    for _ in range(_N_STAGES):
        new = min(1.0, share + step)
        if not new > share:
            break
        here, nearer = f.nearer(share, log_size), f.nearer(new, log_size)
        guesses = [nu, _moved(X, here.gradient_of_conjugate(X.T @ nu), nearer)]
        if before is not None:
            guesses.append(nu + (new - share) / (share - before[0]) * (nu - before[1]))
        guesses = [guess * min(nearer.factor_into_domain(X.T @ guess), 1.0) for guess in guesses]
        guess = max(guesses, key=lambda guess: _value(y, nearer, guess, X.T @ guess)[0])
        found, n, arrived = _newton(X, y, nearer, guess, stop=_ROUGH, n_steps=_N_STEPS)
        total += n
        if not arrived:
            step /= 4
            if step * length < _LEAST:
                break
            continue
        before, share, nu = (share, nu), new, found
        step *= 2.0 if n <= _EASY else 0.5 if n > _HARD else 1.0
    return nu, f.nearer(share, log_size).gradient_of_conjugate(X.T @ nu), total


def _moved(X, k, f):
    """Multipliers whose `X^T nu` is nearest to `f'(k)` in the metric of `f`."""
    slope, D = f.gradient(k), f.weights(k)
    held = np.isfinite(slope) & np.isfinite(D)
    slope, D = np.where(held, slope, 0.0), np.where(held, D, 0.0)
    nu = _solved(X, D, X @ (D * slope))
    return np.zeros(len(X)) if nu is None else nu


def _newton(X, y, f, nu, *, stop, n_steps):
    """Damped Newton from `nu`: multipliers, the number of steps, and whether the decrement fell to `stop`."""
    s = X.T @ nu
    value, size = _value(y, f, nu, s)
    if not np.isfinite(value):
        nu, s = np.zeros_like(nu), np.zeros_like(s)
        value, size = _value(y, f, nu, s)
    least, n_poor = np.inf, 0
    for n in range(n_steps):
        point = f.gradient_of_conjugate(s)
        residual = y - X @ point
        step = _solved(X, f.curvature_of_conjugate(s), residual)
        if step is None:
            return nu, n, False
        decrement = float(residual @ step)
        if not (np.isfinite(decrement) and decrement >= 0):
            return nu, n, False
        # The decrement as a relative change of the point, squared: beside the value it would be too small too soon.
        if decrement <= stop * float(np.abs(point).sum()) and np.abs(residual).max() <= _OFF * np.abs(y).max():
            return nu, n, True
        # At rounding level the decrement stays; a quadratic phase that ends there has arrived.
        n_poor = n_poor + 1 if decrement > 0.25 * least and decrement < 1e-12 * size else 0
        if n_poor >= 3:
            return nu, n, True
        least = min(least, decrement)
        ds = X.T @ step
        # Entries that are all but zero may ask for steps of any length: not beyond a few times what `s` is.
        longest = (2 * float(np.abs(s).max()) + _LONGEST) / max(float(np.abs(ds).max()), np.finfo(float).tiny)
        share = min(1.0, longest, _SHARE_OF_ROOM * f.longest_step(s, ds))
        for _ in range(_N_HALVINGS):
            new, new_s = nu + share * step, s + share * ds
            new_value, new_size = _value(y, f, new, new_s)
            if np.isfinite(new_value) and new_value >= value + 1e-4 * share * decrement - 8 * _EPS * (size + new_size):
                break
            share /= 2
        else:
            return nu, n, decrement <= 1e-12 * size
        nu, s, value, size = new, new_s, new_value, new_size
    return nu, n_steps, False


def _value(y, f, nu, s):
    """`g(nu)` and the size of what it is the difference of."""
    terms = f.conjugate_terms(s)
    total = float(terms.sum())
    product = float(nu @ y)
    value = product - total
    return (value if np.isfinite(value) else -np.inf), abs(product) + float(np.abs(terms).sum())


def _solved(X, D, r):
    """The solution of `X D X^T x = r`, or `None`."""
    if not (np.isfinite(D).all() and D.max(initial=0.0) > 0):
        return None
    largest = D.max()
    gram = (X * (D / largest)) @ X.T
    diagonal = gram.diagonal()
    if diagonal.min() > 0:
        unit = 1 / np.sqrt(diagonal)
        factor, failed = _potrf(gram * unit * unit[:, None], lower=1, clean=1)
        if not failed and factor.diagonal().min() ** 2 > _SMALL_PIVOT:
            return unit * cho_solve((factor, True), unit * r, check_finite=False) / largest
    root = np.sqrt(D / largest)
    rows = root[:, None] * X.T
    used = np.flatnonzero(root)
    rows = rows[used[np.argsort(-np.abs(rows[used]).max(1), kind="stable")]]
    if len(rows) < len(X):
        return None
    factored: Any = qr(rows, mode="r", pivoting=True, check_finite=False)
    R, order = factored[0][: len(X)], factored[1]
    if not np.abs(R.diagonal()).min() > 0:
        return None
    x = np.empty_like(r)
    x[order] = solve_triangular(R, solve_triangular(R, r[order], trans=1, check_finite=False), check_finite=False)
    return x / largest if np.isfinite(x).all() else None
