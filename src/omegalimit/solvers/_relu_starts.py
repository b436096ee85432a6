"""From many atoms to one neuron for each limit direction: guesses for Newton's method.

The atoms of a conditional gradient gather about the limit's directions. Which faces these are on is read from the
residual in several ways, the plainest first; each guess is judged by its end. For scalar outputs there is one direction
of each sign in a closed cell, so the local maxima of `|R|` are the answer once they are right. For vector outputs the
value can be `lam` all along a cell, where several atoms share the mass.

Masses along fixed directions that reproduce `f` are chosen by non-negative least squares, whose solutions are basic: of
dependent features no more than it takes are used.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8
from scipy.optimize import nnls

from ..limits._relu_maxima import Maxima
from ._relu_polish import Neurons, polish

# Local maxima of at least this share of lam may carry mass in the end.
NEAR = 0.9
# How far below lam the value at a direction with mass may be: it is zero in the end.
_BELOW = (1e-7, 1e-4, 1e-2)
# Atoms within this angle are taken for one.
_ANGLES = (1e-3, 3e-2)


class Atoms(NamedTuple):
    """Unit directions `(K, D)` and the ternary patterns that they are meant to have, `(K, n)`."""

    directions: Float[np.ndarray, "K D"]
    patterns: Int8[np.ndarray, "K n"]


def features_of(rows: Float[np.ndarray, "n D"], atoms: Atoms | Neurons) -> Float[np.ndarray, "n K"]:
    """`relu(u_k'xt_i)`, zero where the pattern says so."""
    return np.where(atoms.patterns.T > 0, np.maximum(rows @ atoms.directions.T, 0.0), 0.0)


def starts(
    rows: Float[np.ndarray, "n D"], y: Float[np.ndarray, "n m"], lam: float, atoms: Neurons, maxima: Maxima
) -> Iterator[Neurons]:
    """Faces, directions and masses; `atoms` solve the problem on their directions, `maxima` are those of `nu`."""
    nu, target = atoms.nu, y + lam * atoms.nu
    peaks = _local(rows, nu, maxima)
    size = np.linalg.norm(atoms.masses, axis=1)
    carries = np.flatnonzero(_carries(atoms.masses, features_of(rows, atoms).T @ nu / len(rows)))
    if len(peaks) and len(carries):
        yield _nearest(atoms, carries, maxima, peaks)
    before = -1
    for below in _BELOW:
        some = peaks[maxima.values[peaks] >= 1 - below]
        if len(some) not in (0, before):
            before = len(some)
            found = basic(rows, target, Atoms(maxima.directions[some], maxima.patterns[some]), nu)
            if found is not None:
                yield found
    if y.shape[1] == 1 or not len(carries):
        return
    for angle in _ANGLES:
        merged = _merged(atoms, carries[np.argsort(-size[carries], kind="stable")], angle)
        found = basic(rows, target, merged, nu)
        if found is not None:
            yield found


def basic(
    rows: Float[np.ndarray, "n D"], target: Float[np.ndarray, "n m"], atoms: Atoms, nu: Float[np.ndarray, "n m"]
) -> Neurons | None:
    """Masses opposite to the outputs that reproduce `target`, on as few directions as that takes."""
    features = features_of(rows, atoms)
    outputs = features.T @ nu
    outputs = outputs / np.maximum(np.linalg.norm(outputs, axis=1, keepdims=True), np.finfo(float).tiny)
    columns = -(features[:, None, :] * outputs.T[None, :, :]).reshape(target.size, -1)
    try:
        t, _ = nnls(columns, target.ravel(), maxiter=20 * columns.shape[1])
    except RuntimeError:  # SciPy's word for too many steps
        return None
    used = np.flatnonzero(t > 0)
    if not len(used):
        return None
    return Neurons(atoms.directions[used], -t[used, None] * outputs[used], atoms.patterns[used], nu)


def settled(rows: Float[np.ndarray, "n D"], y: Float[np.ndarray, "n m"], lam: float, start: Neurons) -> Neurons | None:
    """Newton's method from a guess, by active sets.

    A neuron whose mass goes to zero or would pass it is dropped; one that would leave its face is held on the first
    hyperplane that it meets. `None` where that does not end.
    """
    neurons = start
    for _ in range(2 * len(start.directions) + 2):
        if not len(neurons.directions):
            return None
        found = polish(rows, y, lam, neurons)
        left = (np.sign(found.directions @ rows.T) * found.patterns < 0).any(axis=1)
        outputs = features_of(rows, found).T @ found.nu
        ahead = (found.masses * outputs).sum(axis=1) < 0
        ahead &= (found.directions * neurons.directions).sum(axis=1) > 0
        ahead &= _carries(found.masses, outputs / len(rows))
        if ahead.all() and not left.any():
            return found
        patterns = neurons.patterns.copy()
        directions = neurons.directions.copy()
        for k in np.flatnonzero(left & ahead):
            patterns[k], directions[k] = _stopped(rows, neurons.patterns[k], neurons.directions[k], found.directions[k])
        ahead &= directions.any(axis=1)
        neurons = Neurons(directions[ahead], neurons.masses[ahead], patterns[ahead], start.nu)
    return None


def _stopped(rows, pattern, before, after):
    """The pattern and the direction where the way between two directions first leaves the face."""
    a, b = rows @ before, rows @ after
    crossing = np.flatnonzero(b * pattern < 0)
    share = np.abs(a[crossing]) / (np.abs(a[crossing]) + np.abs(b[crossing]))
    first = float(share.min())
    met = pattern.copy()
    met[crossing[share == first]] = 0
    direction = before + first * (after - before)
    return met, direction / np.linalg.norm(direction)


def _carries(masses, outputs):
    """Which masses are not zero in the end: of two factors whose product is to vanish, `|c|` is the larger."""
    size = np.linalg.norm(masses, axis=1)
    return size > size.sum() * np.abs(1 - np.linalg.norm(outputs, axis=1))


def _nearest(atoms: Neurons, carries, maxima: Maxima, peaks) -> Neurons:
    """Each atom's mass to the nearest local maximum of its sign."""
    c, V, outputs = atoms.masses[carries], maxima.directions[peaks], maxima.outputs[peaks]
    nearest = np.argmax(atoms.directions[carries] @ V.T - 4.0 * (c @ outputs.T > 0), axis=1)
    masses = np.zeros((len(peaks), c.shape[1]))
    np.add.at(masses, nearest, c)
    used = np.flatnonzero(masses.any(axis=1))
    return Neurons(V[used], masses[used], maxima.patterns[peaks[used]], atoms.nu)


def _merged(atoms: Neurons, order: Int[np.ndarray, " k"], angle: float) -> Atoms:
    """The atoms, largest first, without those within the angle of one that is kept."""
    kept: list[int] = []
    for k in order:
        if not kept or (atoms.directions[kept] @ atoms.directions[k]).max() < np.cos(angle):
            kept.append(k)
    return Atoms(atoms.directions[kept], atoms.patterns[kept])


def _local(rows, nu, maxima: Maxima) -> Int[np.ndarray, " k"]:
    """Which of the directions near `lam` are maxima: `|R|` falls towards all higher ones of the same cells."""
    near = np.flatnonzero(maxima.values >= NEAR * min(maxima.value, 1.0))
    V, patterns = maxima.directions[near], maxima.patterns[near]
    kept = []
    for k in range(len(near)):
        rivals = np.arange(k)[~((patterns[:k] * patterns[k]) < 0).any(axis=1)]
        moved = V[k] + 1e-4 * (V[rivals] - V[k])
        moved = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        there = np.linalg.norm(np.maximum(moved @ rows.T, 0.0) @ nu, axis=1) / len(rows)
        if not (there > maxima.values[near[k]] * (1 + 1e-14)).any():
            kept.append(near[k])
    return np.array(kept, dtype=int)
