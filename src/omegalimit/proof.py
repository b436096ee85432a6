"""Proof files: proved bounds with everything that a stranger needs to check them again, without this library.

`write_proof` writes one JSON object, whole or not at all; `tools/check_proof.py DATA.npz PROOF.json` checks it in exact
integer arithmetic and shares no code with the library. Doubles are stored as strings that read back exactly (`repr`),
integers of the rational proof as hexadecimal strings, so that the text is the same for every writer.

- `format`, `version`: `"omegalimit-proof"`, 1.
- `norm`, `p`, `groups`, `n_plain`, `intercept_kind`: the problem, as in `MaxMargin`.
- `data`: `shapes` of the arrays, and `sha256` over, for each of `rows` or `left` and `right`, then `labels` (with an
  intercept): the line `name shape` in ASCII, such as `rows 6,8` and a newline, then the entries in C order as
  little-endian doubles. Negative zeros count as zeros; sparse rows are hashed as the dense array.
- `claim`: `"bounds"` or `"not separable"`; `lower` and `upper`.
- `"bounds"`: `point` (entries in C order), `intercept`, `multipliers`, and for Schatten norms other than Frobenius
  `point_basis` and `dual_basis`: the matrices `V = high + low` of the derivation in `rigorous/_norms.py`.
- `"not separable"`: `farkas`, with `indices` and positive integer `weights`.
- `digest`: SHA-256 of the JSON text of all the rest, keys sorted, no spaces, ASCII.
"""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from .limits import MaxMargin
from .rigorous import Basis, ProvenBounds, prove

FORMAT, VERSION = "omegalimit-proof", 1
# Dense entries that are hashed at one time.
_CHUNK = 2**20


def write_proof(
    path: str | os.PathLike[str],
    limit: MaxMargin,
    point: ArrayLike,
    multipliers: ArrayLike | None = None,
    intercept: float | None = None,
    *,
    precision: int = 106,
) -> ProvenBounds:
    """Prove bounds on the maximum margin of `limit` and write them to `path`; the arguments are those of `prove`.

    The proof is of "not separable" where `prove` finds a rational one. The file appears whole or not at all; one that
    is there is replaced. Returns the proved bounds. Raises what `prove` raises, and `ValueError` when a bound is beyond
    double precision.
    """
    proven = prove(limit, point, multipliers, intercept, precision=precision)
    if not proven.upper < np.inf:
        raise ValueError(
            "The upper bound is beyond the largest double, so there is no claim to write; rescale the data."
        )
    content = proof_content(limit, proven)
    _write_whole(Path(path), json.dumps(content, indent=1, ensure_ascii=True) + "\n")
    return proven


def proof_content(limit: MaxMargin, proven: ProvenBounds) -> dict[str, Any]:
    """The JSON object of a proof file, with its digest."""
    separable = proven.farkas is None
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "norm": limit.norm,
        "p": None if limit.p is None else repr(limit.p),
        "groups": None if limit.groups is None else np.asarray(limit.groups).tolist(),
        "n_plain": int(limit.n_plain),
        "intercept_kind": limit.intercept,
        "data": _data(limit),
        "claim": "bounds" if separable else "not separable",
        "lower": repr(proven.lower),
        "upper": repr(proven.upper),
        "point": _texts(proven.point) if separable else None,
        "intercept": repr(proven.intercept) if separable and proven.intercept is not None else None,
        "multipliers": _texts(proven.multipliers) if separable else None,
        "point_basis": _basis(proven.point_basis) if separable else None,
        "dual_basis": _basis(proven.dual_basis) if separable else None,
        "farkas": None,
    }
    if proven.farkas is not None:
        weights = [hex(weight) for weight in proven.farkas.weights]
        content["farkas"] = {"indices": list(proven.farkas.indices), "weights": weights}
    return content | {"digest": digest(content)}


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of the content in its one canonical text, without the entry `digest` itself."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def data_digest(limit: MaxMargin) -> str:
    """SHA-256 of the data of a problem, as defined at the top of this file."""
    found = hashlib.sha256()
    for name, array in _arrays(limit).items():
        found.update(f"{name} {','.join(map(str, array.shape))}\n".encode())
        step = max(1, _CHUNK // max(1, int(np.prod(array.shape[1:]))))
        for start in range(0, array.shape[0], step):
            part = array[start : start + step]
            dense = part if isinstance(part, np.ndarray) else scipy.sparse.csr_array(part).toarray()
            found.update(np.ascontiguousarray(dense + 0.0, dtype="<f8").tobytes())  # -0.0 + 0.0 is 0.0
    return found.hexdigest()


def _data(limit):
    shapes = {name: [int(n) for n in array.shape] for name, array in _arrays(limit).items()}
    return {"shapes": shapes, "sha256": data_digest(limit)}


def _arrays(limit) -> dict[str, Any]:
    names = ("rows", "left", "right", "labels")
    return {name: getattr(limit, name) for name in names if getattr(limit, name) is not None}


def _texts(a):
    return [repr(x) for x in a.ravel().tolist()]


def _basis(basis: Basis | None):
    return None if basis is None else {"high": _texts(basis.high), "low": _texts(basis.low)}


def _write_whole(path, text):
    """Write beside the place, flush to the disk, then rename: a run that is killed leaves no half file there."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except FileNotFoundError as error:  # in the words of the caller, not of the file beside it
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
