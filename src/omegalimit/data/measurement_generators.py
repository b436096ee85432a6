"""Measurements of a planted matrix drawn from a seed; each docstring says what is drawn, in the order it is drawn."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import check_count
from .measurements import CommutingMeasurements, EntryMeasurements, RankOneMeasurements


def _options(seed: object, **counts: Any) -> tuple[np.random.Generator, list[int]]:
    checked = [check_count(value, key, least=1) for key, value in counts.items()]
    return np.random.default_rng(check_count(seed, "seed", least=0)), checked


def gaussian_measurements(
    n: int = 40, d: int = 6, r: int = 2, *, seed: int = 0, noise: float = 0.0
) -> RankOneMeasurements:
    """Gaussian inputs and a planted matrix of rank r.

    Drawn from `numpy.random.default_rng(seed)` in this order, standard normal: the inputs `X` `(n, d)`, the planted
    factor `(d, r)` and, with `noise` > 0, n errors, which are added to the targets times `noise`. Raises
    `ValueError` for counts below one, `r > d` or a negative seed.
    """
    rng, (n, d, r) = _options(seed, n=n, d=d, r=r)
    _check_rank(r, d)
    X, U = rng.standard_normal((n, d)), rng.standard_normal((d, r))
    y = np.square(X @ U).sum(axis=1)
    return RankOneMeasurements(X=X, y=y + _noise(rng, n, noise), planted=U @ U.T, name="gaussian")


def completion_measurements(
    n: int = 40, d: int = 10, r: int = 2, *, seed: int = 0, noise: float = 0.0
) -> EntryMeasurements:
    """`n` different entries of a planted matrix of rank r, the diagonal among those that may be drawn.

    Drawn in this order: the planted factor `(d, r)`, standard normal; n of the `d (d + 1) / 2` entries `j <= k` without
    replacement; with `noise` > 0, n standard normal errors. Raises `ValueError` as `gaussian_measurements` does, and
    for more entries than there are.
    """
    rng, (n, d, r) = _options(seed, n=n, d=d, r=r)
    _check_rank(r, d)
    if n > d * (d + 1) // 2:
        raise ValueError(f"`n` is {n}; a symmetric {d} x {d} matrix has only {d * (d + 1) // 2} different entries.")
    U = rng.standard_normal((d, r))
    rows, cols = np.triu_indices(d)
    chosen = np.sort(rng.choice(rows.size, size=n, replace=False))
    rows, cols = rows[chosen], cols[chosen]
    Q = U @ U.T
    return EntryMeasurements(
        rows=rows, cols=cols, size=d, y=Q[rows, cols] + _noise(rng, n, noise), planted=Q, name="completion"
    )


def commuting_measurements(
    n: int = 3, d: int = 8, r: int = 2, *, seed: int = 0, rotated: bool = True
) -> CommutingMeasurements:
    """Commuting measurements with eigenvalues in `[0, 1)` and a planted matrix with r positive eigenvalues.

    Drawn in this order: eigenvalues `a` `(n, d)`, uniform on `[0, 1)`; r planted eigenvalues, uniform on `[0.5, 1.5)`,
    at the first r places; with `rotated`, V: the orthogonal factor of a standard normal `(d, d)` matrix, each column
    with the sign that makes R's diagonal positive. Raises `ValueError` as `gaussian_measurements` does.
    """
    rng, (n, d, r) = _options(seed, n=n, d=d, r=r)
    _check_rank(r, d)
    a, q = rng.uniform(size=(n, d)), np.zeros(d)
    q[:r] = rng.uniform(0.5, 1.5, size=r)
    V = np.eye(d)
    if rotated:
        V, R = np.linalg.qr(rng.standard_normal((d, d)))
        V = V * np.sign(np.diag(R))
    return CommutingMeasurements(a=a, V=V, y=a @ q, planted=(V * q) @ V.T, name="commuting")


def _check_rank(r: int, d: int) -> None:
    if r > d:
        raise ValueError(f"`r` is {r}; a {d} x {d} matrix has rank at most {d}.")


def _noise(rng: np.random.Generator, n: int, noise: float) -> Float[np.ndarray, " n"]:
    if not (math.isfinite(noise) and noise >= 0):
        raise ValueError(f"`noise` must be at least 0 and finite; got {noise!r}.")
    return noise * rng.standard_normal(n) if noise else np.zeros(n)
