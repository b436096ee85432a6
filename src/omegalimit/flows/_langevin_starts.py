"""Where the particles of a two-layer network start."""

import numpy as np
from jaxtyping import Float

from .._checks import check_finite, check_ndim, shape_text, to_float64

STARTS = ("normal", "small", "large", "sphere", "one-sided", "zero")


def named_start(name: str, N: int, m: int, D: int, seed: int) -> Float[np.ndarray, "P N"]:
    """N particles, outgoing weights in the first m rows: see `langevin` for the names."""
    # A child that no block has: the blocks' streams are spawned from the same seed.
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, 1])))
    theta = rng.standard_normal((m + D, N))
    if name == "small":
        theta *= 0.01
    elif name == "large":
        theta *= 3.0
    elif name == "zero":
        theta[:] = 0.0
    elif name in ("sphere", "one-sided"):
        for part in (theta[:m], theta[m:]):
            part /= np.linalg.norm(part, axis=0)
        if name == "one-sided":
            theta[:m] = np.abs(theta[:m])
            theta[m] = np.abs(theta[m])
    return theta


def given_start(start: tuple | list, m: int, D: int, *, scalar: bool) -> Float[np.ndarray, "P N"]:
    """The particles `(a, V)` as they are."""
    if len(start) != 2:
        raise ValueError(f"`start` must be a pair (a, V) of arrays; got {len(start)} parts.")
    a, V = (to_float64(part, f"start[{k}]")[0] for k, part in enumerate(start))
    check_ndim(V, "start[1]", axes="n_particles, D")
    check_ndim(a, "start[0]", axes="n_particles" if scalar else "n_particles, m")
    wanted = (len(V),) if scalar else (len(V), m)
    if a.shape != wanted or V.shape[1] != D or not len(V):
        raise ValueError(
            f"`start` must be a pair (a, V) of the shapes {'(N,)' if scalar else f'(N, {m})'} and (N, {D}), "
            f"N at least 1; got {shape_text(a.shape)} and {shape_text(V.shape)}."
        )
    check_finite(a, "start[0]")
    check_finite(V, "start[1]")
    return np.concatenate([a.reshape(len(V), -1).T, V.T])
