"""A user's own net for `monomial_networks`: weights from an `.npz` file, and what exact arithmetic says of them."""

import itertools
import zipfile
from collections.abc import Sequence

import numpy as np

from ..._checks import check_finite, shape_text, to_float64
from ...claims import Verdict
from ...data.files import _read, _typed
from ...models.subnetworks import subnetwork_distance, subnetwork_kinds
from ...rigorous.jacobian_rank import expected_rank, float_rank, generic_rank
from ._monomial_architecture import Architecture, AtDegree, JudgedPoint, judged
from ._monomial_claims import criticality, subnetworks_critical

_HOW = "np.savez(path, W1=W1, W2=W2, ...), each matrix with a row for each neuron of its layer"


def load_net(path: str) -> tuple[tuple[np.ndarray, ...], list[str]]:
    """The matrices W1, W2, ... of the file and notes on conversions; whole numbers stay as they are.

    Raises `ValueError`, one line that starts with the path, for files that cannot be read, other names, matrices that
    are empty or not finite, and widths that do not chain.
    """
    notes: list[str] = []
    try:
        names = _layers(path)
        raw = _read(path, dict.fromkeys(names, 2), (names,), how=_HOW)
        weights = []
        for name in names:
            array = raw[name]
            if array.dtype.kind not in "iu":
                array, note = to_float64(array, name)
                check_finite(array, name)
                notes += [] if note is None else [note]
            if not array.size:
                raise ValueError(f"`{name}` has shape {shape_text(array.shape)}: there are no weights in it.")
            weights.append(array)
        for k, (W, after) in enumerate(itertools.pairwise(weights), start=1):
            if len(W) != after.shape[1]:
                raise ValueError(
                    f"the widths do not chain: `W{k}` has shape {shape_text(W.shape)} and `W{k + 1}` has shape "
                    f"{shape_text(after.shape)}; `W{k + 1}` must have {len(W)} columns, one for each row of `W{k}`."
                )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{_typed(path)}: {error}") from None
    return tuple(weights), notes


def _layers(path: str) -> tuple[str, ...]:
    """The names W1, ..., WL that the file holds; W1 and W2 where it is no archive, which reading it will say."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return ("W1", "W2")
    names = tuple(f"W{k}" for k in range(1, len(found) + 1))
    if found != set(names) or len(names) < 2:
        listed = ", ".join(f"`{ascii(name)[1:41].rstrip(chr(39))}`" for name in sorted(found)[:8]) or "nothing"
        raise ValueError(
            f"the file must hold the matrices `W1`, `W2`, ... of the layers, two at least, and nothing else; it holds "
            f"{listed}."
        )
    return names


def judge_net(weights: Sequence[np.ndarray], degree: int, *, seed: int) -> tuple[list[Verdict], list[str]]:
    """The verdict that concerns this net, and what is known of it in words."""
    widths = (weights[0].shape[1], *(len(W) for W in weights))
    generic = generic_rank(widths, degree, seed=seed)
    point, kinds = judged(weights, degree), subnetwork_kinds(weights)
    at = AtDegree(
        widths=widths,
        degree=degree,
        generic=generic,
        expected=expected_rank(widths, degree),
        kinds=(point,) if kinds else (),
    )
    found = Architecture(widths=widths, degrees=(at,))
    verdict = (
        subnetworks_critical(found, degrees=(at,))
        if kinds
        else criticality(found, degrees=(at,), given=((degree, point),))
    )
    return [verdict], told(weights, at, point, [f"{k.kind.value} of layer {k.layer}: {k.neurons}" for k in kinds])


def told(weights: Sequence[np.ndarray], at: AtDegree, point: JudgedPoint, kinds: Sequence[str]) -> list[str]:
    """Rank, generic rank, kinds, distance, and whether floats would have decided."""
    rank = point.rank
    exact = f"{rank.lower}" if rank.proved else f"between {rank.lower} and {rank.upper} ({rank.proof})"
    critical = {True: "critical", False: "not critical", None: "not decided"}[point.critical(at.generic.rank)]
    floats = float_rank(weights, at.degree)
    nearest = subnetwork_distance(weights, at.degree)
    return [
        f"exact rank {exact}; generic rank of these widths {at.generic.rank}, expected {at.expected}: {critical}.",
        "a subnetwork: " + "; ".join(kinds) + "." if kinds else "no subnetwork (exact).",
        f"distance to the subnetworks {nearest.distance:.3g}, nearest: {nearest.nearest.kind.value}, layer "
        f"{nearest.nearest.layer}, neurons {nearest.nearest.neurons}.",
        f"floats alone prove a rank of at least {floats.lower}"
        + ("." if floats.decided else "; beyond that they are undecided."),
    ]
