"""Rows in two classes drawn from a seed, separable through the origin. Each docstring says what is drawn, in order."""

import numpy as np

from .._checks import check_count
from .classification import ClassificationData


def pushed_gaussians(n: int = 40, d: int = 10, *, push: float = 0.3, seed: int = 0) -> ClassificationData:
    """Gaussian rows on the two sides of a plane through the origin, each pushed away from it: `x = g + push y w`.

    Drawn from `numpy.random.default_rng(seed)`: `w` `(d,)` standard normal, divided by its length; `g` `(n, d)`
    standard normal. `y = sign(g'w)`, so that `y x'w = |g'w| + push`: the margin in the l2 norm is at least `push`.

    Raises `ValueError` for `n < 2`, `d < 1`, a negative `seed`, a `push` that is negative or not finite, and for a seed
    that draws all rows on one side.
    """
    check_count(n, "n", least=2)
    check_count(d, "d", least=1)
    check_count(seed, "seed", least=0)
    if not 0 <= push < np.inf:
        raise ValueError(f"`push` must be a finite length, not negative; got {push!r}.")
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(n, d))
    y = _sides(X @ w, seed)
    return ClassificationData(X=X + push * y[:, None] * w, y=y, name=f"pushed gaussians, seed {seed}")


def sign_gaussians(n: int = 6, d: int = 4, *, seed: int = 0) -> ClassificationData:
    """Gaussian rows and the signs of a gaussian linear function of them: `y = sign(Xw)`.

    Drawn from `numpy.random.default_rng(seed)`: `w` `(d,)` standard normal; `X` `(n, d)` standard normal. Nothing keeps
    the rows away from the plane between the classes.

    Raises `ValueError` for `n < 2`, `d < 1`, a negative `seed`, and a seed that draws all rows on one side.
    """
    check_count(n, "n", least=2)
    check_count(d, "d", least=1)
    check_count(seed, "seed", least=0)
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    X = rng.standard_normal((n, d))
    return ClassificationData(X=X, y=_sides(X @ w, seed), name=f"signs of gaussians, seed {seed}")


def _sides(scores: np.ndarray, seed: int) -> np.ndarray:
    y = np.where(scores < 0, -1.0, 1.0)
    if (y == y[0]).all():
        raise ValueError(f"seed {seed} draws all {y.size} rows on one side; take another seed, or more rows.")
    return y
