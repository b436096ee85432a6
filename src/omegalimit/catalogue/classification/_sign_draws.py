"""The rows that `smoothed_sign_descent` draws: those of the first draw that can tell the two ends of the path apart."""

import functools

import numpy as np
from jaxtyping import Float

from ...data.classification_generators import sign_gaussians
from ._sign_setting import Setting

APART = 0.02
"""Least distance of the Euclidean and the l-infinity maximum-margin direction, both of length one. In a fifth of all
draws of six rows in four columns they are one direction, and neither end says anything about the other."""

MOST_DRAWS = 100


def setting_of(n: int, d: int, seed: int) -> tuple[Setting, list[str]]:
    """The rows, weights one, with a sentence on the draws where the first was not taken."""
    draw, found = _chosen(n, d, seed)
    setting = Setting(Z=rows(n, d, seed, draw), weights=np.ones(n))
    if not found:
        return setting, [
            f"in each of {MOST_DRAWS} draws the Euclidean and the l-infinity maximum-margin direction are within "
            f"{APART:g}: the first draw was taken, and the two ends may not be told apart; take fewer rows (`--n`), or "
            "more columns (`--d`)."
        ]
    if draw:
        return setting, [
            f"rows of draw {draw + 1}: in those before it the Euclidean and the l-infinity maximum-margin direction "
            f"are within {APART:g}, so that the two ends could not be told apart."
        ]
    return setting, []


def rows(n: int, d: int, seed: int, draw: int) -> Float[np.ndarray, "n d"]:
    """`Z` of a draw: draw 0 is `sign_gaussians(n, d, seed=seed)`, each other has a stream of its own."""
    own = seed if draw == 0 else int(np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0])
    return sign_gaussians(n, d, seed=own).Z


@functools.lru_cache(maxsize=64)
def _chosen(n: int, d: int, seed: int) -> tuple[int, bool]:
    """Which draw, and whether its ends are apart. Nothing is asked of the dynamics."""
    for draw in range(MOST_DRAWS):
        setting = Setting(Z=rows(n, d, seed, draw), weights=np.ones(n))
        if setting.separable and setting.apart >= APART:
            return draw, True
    return 0, False
