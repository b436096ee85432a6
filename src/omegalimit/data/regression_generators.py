"""Regression data drawn from a seed, and two fixed instances. Each docstring says exactly what is drawn, in order."""

import numpy as np

from .._checks import check_count
from .regression import RegressionData

LEAST_WEIGHT, MOST_WEIGHT = 0.5, 1.5
"""Size of the nonzero weights of `sparse_regression`."""


def sparse_regression(n: int = 3, d: int = 8, sparsity: int = 2, *, seed: int = 0, draw: int = 0) -> RegressionData:
    """A noiseless sparse target on a gaussian design: `y = X k`, so that `X k = y` can be solved.

    Drawn from child `draw` of the seed's sequence (`numpy.random.SeedSequence(seed, spawn_key=(draw,))`), in this
    order: X `(n, d)` standard normal, divided by `n^(1/2)`; the support, `sparsity` of the d coordinates without
    replacement; for each of them a fair sign, then a size uniform in `[0.5, 1.5]`. Nothing is redrawn.

    Raises `ValueError` for `n < 1`, `d < 1`, a `sparsity` outside 1..d, or a negative `seed` or `draw`.
    """
    check_count(n, "n", least=1)
    check_count(d, "d", least=1)
    if check_count(sparsity, "sparsity", least=1) > d:
        raise ValueError(f"`sparsity` must be at most d = {d}; got {sparsity}.")
    rng = _stream(seed, draw)
    X = rng.standard_normal((n, d)) / np.sqrt(n)
    k = np.zeros(d)
    support = rng.choice(d, size=sparsity, replace=False)
    signs = rng.choice([-1.0, 1.0], size=sparsity)
    k[support] = signs * rng.uniform(LEAST_WEIGHT, MOST_WEIGHT, size=sparsity)
    return _made(X, X @ k, f"sparse regression, seed {seed}, draw {draw}")


def saddle_regression() -> RegressionData:
    """Two samples, four features: `X = [[1, .5, .7, 0], [.5, 1, .1, .7]]`, `y = (1, 0)`.

    The data of the main experiment of the paper on diagonal linear networks from infinitesimal initialisation
    (arXiv 2607.12332). With equal growth times the flow visits (.8, 0, 0, 0), (0, 0, 1.4, 0) and
    (0, 0, 10/7, -10/49): the feature that enters first leaves again. Nothing is drawn.
    """
    return _made(np.array([[1.0, 0.5, 0.7, 0.0], [0.5, 1.0, 0.1, 0.7]]), np.array([1.0, 0.0]), "four features")


def tied_regression() -> RegressionData:
    """One sample, two equal features: `X = [1, 1]`, `y = 1`. Every convex combination has the least l1 norm.

    Nothing is drawn.
    """
    return _made(np.ones((1, 2)), np.ones(1), "two equal features")


def random_starts(
    shape: tuple[int, int], *, spread: float, seed: int = 0, draw: int = 0, stream: int = 1, signs: bool = True
) -> np.ndarray:
    """Initial shapes whose sizes are spread evenly in the logarithm over a factor `spread`, none of them zero.

    Drawn from the child `(draw, stream)` of the seed's sequence, independent for each stream: the logarithms of the
    sizes, uniform in `+-log(spread) / 2`; then, with `signs`, a fair sign for each.

    Raises `ValueError` for a `spread` below 1.
    """
    if not 1 <= spread < np.inf:
        raise ValueError(f"`spread` must be a finite factor of at least 1; got {spread!r}.")
    rng = _stream(seed, draw, stream)
    half = np.log(spread) / 2
    sizes = np.exp(rng.uniform(-half, half, size=shape))
    return sizes * rng.choice([-1.0, 1.0], size=shape) if signs else sizes


def _made(X: np.ndarray, y: np.ndarray, name: str) -> RegressionData:
    return RegressionData(X=X, y=y, name=name)


def _stream(*key: int) -> np.random.Generator:
    seed, *rest = key
    check_count(seed, "seed", least=0)
    for value in rest:
        check_count(value, "draw", least=0)
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=tuple(map(int, rest))))
