"""How an optimiser's numbers scale with the gradient, found by running it.

An update rule is homogeneous when gradients `c g` lead from the state with leaves `c^{D_i} s_i` to the updates
`c^p u` and to leaves scaled by the same powers: momenta have degree 1, squares 2, counters and constants 0; signs and
quotients have p = 0, plain gradients p = 1. An `eps` that is added to one of these has a degree of its own (1 beside a
root, 2 under it). Where all this holds, the rule can be run on gradients in any unit, and gives the same updates.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

_TOL = 1e-9  # powers of two scale without rounding; roots and products differ by some units in the last place
_EPS_TRIED = 0.3  # beside gradients of size one, so that it matters
_POWERS = (-40, -240)  # of two: a constant above 1e-80, or one of size 1e-12, shows; fourth powers stay in range
# Some rules count steps, and are others later: as many gradients are tried first, then counters are moved on by this.
_EARLY, _LATER = 4, 10_000
_DEEP = -1000  # squares do not survive this: what passes has none


@dataclasses.dataclass(frozen=True, kw_only=True)
class Degrees:
    """Degrees of the state's leaves in the order of `jax.tree.leaves`, of the update, and of `eps` (0 without one)."""

    leaves: tuple[int, ...]
    update: int
    eps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class NotHomogeneous:
    """`reason`: what does not scale, in words."""

    reason: str


def measured_degrees(make: Callable[[Any], Any], w: Float[np.ndarray, "..."], *, with_eps: bool) -> Any:
    """`Degrees`, or `NotHomogeneous`; `make` maps eps to a gradient transformation. Call it in double precision.

    - `w`: where parameters stand; a point that is not zero, so that a pull towards zero shows.
    - `with_eps`: whether `make` looks at its argument. Without an eps to scale, the rule must have degrees at gradients
      of any size that a double has, which no sum of squares has.
    """
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((_EARLY + 3, *w.shape))

    @jax.jit
    def update(eps, g, leaves):
        u, state = make(eps).update(g, jax.tree.unflatten(structure, leaves), w)
        return u, jax.tree.leaves(state)

    start, structure = jax.tree.flatten(make(_EPS_TRIED).init(jnp.asarray(w)))
    start = [np.asarray(leaf) for leaf in start]
    degrees = _leaf_degrees(update, start, gradients[:3], 0.0 if with_eps else _EPS_TRIED)
    if isinstance(degrees, NotHomogeneous):
        return degrees
    found = NotHomogeneous(reason="")
    for q in (1, 2) if with_eps else (0,):
        found = _verified(update, start, gradients, degrees, q, _POWERS if with_eps else (*_POWERS, _DEEP))
        if isinstance(found, Degrees):
            return found
    return found


def _leaf_degrees(update: Any, start: list[np.ndarray], gradients: np.ndarray, eps: float) -> Any:
    """From updates by g, 2 g and 4 g: the second difference over the first is 2^D; no difference is degree 0."""
    one, two, four = (_steps(update, start, c * gradients, eps)[1] for c in (1.0, 2.0, 4.0))
    degrees = []
    for i, leaves in enumerate(zip(one, two, four, strict=True)):
        a, b, c = (np.asarray(leaf) for leaf in leaves)
        if not np.issubdtype(a.dtype, np.floating):
            degrees.append(0)
            continue
        first, second, size = b - a, c - b, float(np.abs(a).max(initial=0.0))
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            return NotHomogeneous(reason="its state is not finite at eps = 0")
        if np.abs(first).max(initial=0.0) <= _TOL * size:
            degrees.append(0)
            continue
        near = [D for D in (1, 2) if np.abs(second - 2**D * first).max() <= _TOL * np.abs(c).max()]
        if len(near) != 1:
            return NotHomogeneous(reason=f"part {i} of its state is no power of the gradient")
        degrees.append(near[0])
    return tuple(degrees)


def _verified(update: Any, start: Any, gradients: np.ndarray, degrees: tuple[int, ...], q: int, powers: Any) -> Any:
    """`Degrees` with this degree of eps, where runs of some steps at several scales say so."""
    plain, plain_leaves = _steps(update, start, gradients, _EPS_TRIED)
    update_degree = None
    for k in powers:
        scaled_start = [np.ldexp(leaf, D * k) if D else leaf for leaf, D in zip(start, degrees, strict=True)]
        scaled, leaves = _steps(update, scaled_start, np.ldexp(gradients, k), float(np.ldexp(_EPS_TRIED, q * k)))
        near = [p for p in (0, 1) if _alike(_power(scaled, -p * k), plain)]
        if not near or (update_degree is not None and near[0] != update_degree):
            return NotHomogeneous(
                reason=f"with gradients 2^{-k} times as small its updates are neither the same nor as much smaller"
            )
        update_degree = near[0]
        for i, (leaf, other, D) in enumerate(zip(leaves, plain_leaves, degrees, strict=True)):
            if np.issubdtype(other.dtype, np.floating) and not _alike(_power(leaf, -D * k), other):
                return NotHomogeneous(reason=f"part {i} of its state does not scale with the gradient")
    assert update_degree is not None
    return Degrees(leaves=degrees, update=update_degree, eps=q)


def _steps(update: Any, leaves: Any, gradients: np.ndarray, eps: float) -> tuple[np.ndarray, list[np.ndarray]]:
    found = []
    for i, g in enumerate(gradients):
        if i == _EARLY:
            leaves = [x + _LATER if np.issubdtype(np.asarray(x).dtype, np.signedinteger) else x for x in leaves]
        u, leaves = update(eps, g, leaves)
        found.append(np.asarray(u))
    return np.array(found), [np.asarray(leaf) for leaf in leaves]


def _power(x: np.ndarray, k: int) -> np.ndarray:
    """`x 2^k`; what overflows was not small by that power."""
    with np.errstate(over="ignore"):
        return np.ldexp(x, k)


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.isfinite(a).all() and np.abs(a - b).max(initial=0.0) <= _TOL * np.abs(b).max(initial=0.0))
