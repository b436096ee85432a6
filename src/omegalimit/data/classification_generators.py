"""Rows in two classes drawn from a seed, separable through the origin. Each docstring says what is drawn, in order.

A draw with all rows on one side is drawn again, from where the stream stands; a note says how often."""

import itertools

import numpy as np

from .._checks import check_count
from .classification import ClassificationData


def pushed_gaussians(n: int = 40, d: int = 10, *, push: float = 0.3, seed: int = 0) -> ClassificationData:
    """Gaussian rows on the two sides of a plane through the origin, each pushed away from it: `x = g + push y w`.

    Drawn from `numpy.random.default_rng(seed)`: `w` `(d,)` standard normal, divided by its length; `g` `(n, d)`
    standard normal. `y = sign(g'w)`, so that `y x'w = |g'w| + push`: the margin in the l2 norm is at least `push`.

    Raises `ValueError` for `n < 2`, `d < 1`, a negative `seed`, and a `push` that is negative or not finite.
    """
    if not 0 <= push < np.inf:
        raise ValueError(f"`push` must be a finite length, not negative; got {push!r}.")
    w, X, y, notes = _draw(n, d, seed, unit=True)
    return ClassificationData(X=X + push * y[:, None] * w, y=y, name=f"pushed gaussians, seed {seed}", notes=notes)


def sign_gaussians(n: int = 6, d: int = 4, *, seed: int = 0) -> ClassificationData:
    """Gaussian rows and the signs of a gaussian linear function of them: `y = sign(Xw)`.

    Drawn from `numpy.random.default_rng(seed)`: `w` `(d,)` standard normal; `X` `(n, d)` standard normal. Nothing keeps
    the rows away from the plane between the classes.

    Raises `ValueError` for `n < 2`, `d < 1` and a negative `seed`.
    """
    _, X, y, notes = _draw(n, d, seed, unit=False)
    return ClassificationData(X=X, y=y, name=f"signs of gaussians, seed {seed}", notes=notes)


def _draw(n: int, d: int, seed: int, *, unit: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """`w`, `X`, their sides, and a note where all rows of earlier draws fell on one side."""
    check_count(n, "n", least=2)
    check_count(d, "d", least=1)
    check_count(seed, "seed", least=0)
    rng = np.random.default_rng(seed)
    for n_before in itertools.count():
        w = rng.standard_normal(d)
        if unit:
            w /= np.linalg.norm(w)
        X = rng.standard_normal((n, d))
        y = np.where(X @ w < 0, -1.0, 1.0)
        if (y != y[0]).any():
            again = f"all rows of the first {n_before} draws fell on one side; they were drawn again."
            return w, X, y, (again,) if n_before else ()
    raise AssertionError("unreachable: each draw of two rows and more has two sides with probability one half at least")
