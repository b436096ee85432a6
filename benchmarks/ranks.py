"""Exact ranks of deep monomial networks, beside a float loop and the expansion into monomials.

    python benchmarks/ranks.py [--quick] [--sizes NAME ...] [--json FILE]

Table: the generic rank of all 27 networks of widths 2..4 x 2..4 x 2..4 x 1 and of the 9 with one hidden layer, for the
degrees 2 to 9: 288 entries. "ours" is `rank_table`, every entry proved; "float_rank" is ours in double precision, a
certified lower bound. "SVD" is what one would write in NumPy: the Jacobian at twice as many random unit vectors as
there are weights, columns of norm one, the singular values above 1e-9 of the largest; both at the same standard normal
weights. "exact, sampled" is python-flint's rank of the Jacobian at as many points of small integers as weights and 4
more, over the rationals: a lower bound. "expansion" is the exact one by python-flint's polynomials: each derivative
expanded into its monomials, the rank of the coefficients over the rationals. The number of entries in which a method
differs from ours is given beside its time.

Proofs: (4, 4, 4, 1) with an inactive neuron in the first layer, weights integers of absolute value at most 9, degree r.
"ours" is `jacobian_rank`, whose null vectors come by formula (at r = 3, two more from primes); "all points" proves the
same null vectors on the unisolvent set of all C(r^2 + 3, 3) points.

Every cell is a process of its own, on one thread, ended at 120 CPU seconds or 6 GiB. Work of less than a quarter of a
second is repeated, and the mean taken; memory is what the process's largest resident size grew by after its imports.
"""

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import _timing

LIMIT_SECONDS, LIMIT_BYTES = 120, 6 * 2**30
TABLE = "table"
PROOFS = ("r=3", "r=5", "r=7", "r=9")
SIZES = (TABLE, *PROOFS)
QUICK = (TABLE, *PROOFS[:2])
METHODS = {TABLE: ("ours", "float_rank", "SVD", "exact, sampled", "expansion")} | dict.fromkeys(
    PROOFS, ("ours", "all points", "float_rank", "SVD", "exact, sampled", "expansion")
)
THRESHOLD = 1e-9
LEAST_SECONDS = 0.25  # shorter work is repeated: the clock of CPU time is coarse


def by_svd(weights, degree):
    import numpy as np

    from omegalimit.models.monomial import MonomialNetwork

    W = [np.array(layer, dtype=float) for layer in weights]
    network = MonomialNetwork((W[0].shape[1], *(len(layer) for layer in W)), degree)
    X = np.random.default_rng(1).standard_normal((2 * network.n_parameters, network.widths[0]))
    J = network.jacobian(W, X / np.linalg.norm(X, axis=1, keepdims=True))
    size = np.linalg.norm(J, axis=0)
    s = np.linalg.svd(J / np.where(size > 0, size, 1), compute_uv=False)
    return int(np.count_nonzero(s > THRESHOLD * s[0]))


def by_samples(weights, degree):
    """Over the rationals, in Python's integers."""
    import numpy as np
    from flint import fmpz_mat

    n = sum(len(W) * len(W[0]) for W in weights)
    rows = []
    for x in np.random.default_rng(1).integers(-9, 10, (n + 4, len(weights[0][0]))).tolist():
        inputs, slopes = [x], []
        for W in weights[:-1]:
            h = [sum(w * a for w, a in zip(row, inputs[-1], strict=True)) for row in W]
            inputs.append([y**degree for y in h])
            slopes.append([degree * y ** (degree - 1) for y in h])
        delta, blocks = [1], [inputs[-1]]
        for k in range(len(weights) - 1, 0, -1):
            sums = [sum(w * d for w, d in zip(c, delta, strict=True)) for c in zip(*weights[k], strict=True)]
            delta = [s * y for s, y in zip(sums, slopes[k - 1], strict=True)]
            blocks.insert(0, [d * a for d in delta for a in inputs[k - 1]])
        rows.append([y for block in blocks for y in block])
    return fmpz_mat(rows).rank()


def by_expansion(weights, degree):
    from flint import fmpz_mat, fmpz_mpoly_ctx

    ring = fmpz_mpoly_ctx.get([f"x{k}" for k in range(len(weights[0][0]))], "lex")
    zero = ring.constant(0)
    inputs, slopes = [list(ring.gens())], []
    for W in weights[:-1]:
        h = [sum((w * a for w, a in zip(row, inputs[-1], strict=True)), zero) for row in W]
        inputs.append([y**degree for y in h])
        slopes.append([degree * y ** (degree - 1) for y in h])
    delta, blocks = [ring.constant(1)], [inputs[-1]]
    for k in range(len(weights) - 1, 0, -1):
        sums = [sum((w * d for w, d in zip(c, delta, strict=True)), zero) for c in zip(*weights[k], strict=True)]
        delta = [s * y for s, y in zip(sums, slopes[k - 1], strict=True)]
        blocks.insert(0, [d * a for d in delta for a in inputs[k - 1]])
    columns = [y.to_dict() for block in blocks for y in block]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    return fmpz_mat(len(keys), len(columns), [column.get(key, 0) for key in keys for column in columns]).rank()


def by_bounds(weights, degree):
    from omegalimit.rigorous.jacobian_rank import float_rank

    return float_rank(weights, degree).lower


RIVALS = {"float_rank": by_bounds, "SVD": by_svd, "exact, sampled": by_samples, "expansion": by_expansion}


def drawn(widths, rng, most=9):
    return [
        (rng.integers(1, most + 1, (m, k)) * rng.choice([-1, 1], (m, k))).tolist()
        for k, m in itertools.pairwise(widths)
    ]


def whole_table(method: str) -> list[int]:
    import numpy as np

    from omegalimit.rigorous.jacobian_rank import rank_table

    if method == "ours":
        table = rank_table()
        assert table.proved
        return [found.rank for found in table.ranks.values()]
    rng = np.random.default_rng(0)
    shapes = [(*inner, 1) for n in (2, 3) for inner in itertools.product((2, 3, 4), repeat=n)]
    if method in ("SVD", "float_rank"):
        normal = [[rng.standard_normal((m, k)) for k, m in itertools.pairwise(widths)] for widths in shapes]
        return [RIVALS[method](W, degree) for W in normal for degree in range(2, 10)]
    return [RIVALS[method](drawn(widths, rng, 99), degree) for widths in shapes for degree in range(2, 10)]


def one_proof(method: str, degree: int) -> list[int]:
    import numpy as np

    from omegalimit.rigorous._rank_nulls import are_null
    from omegalimit.rigorous.jacobian_rank import jacobian_rank

    weights = drawn((4, 4, 4, 1), np.random.default_rng(0))
    weights[0][0] = [0] * 4
    if method in RIVALS:
        return [RIVALS[method](weights, degree)]
    found = jacobian_rank(weights, degree)
    assert found.rank is not None
    if method == "all points":
        assert are_null([[list(row) for row in W] for W in found.layers], degree, [list(v) for v in found.null_vectors])
    return [found.rank]


def run_cell(method: str, size: str) -> dict[str, Any]:
    """One cell, in this process."""
    import numpy as np

    from omegalimit.rigorous.jacobian_rank import jacobian_rank

    # Imports, and the primes and tables that the first call leaves behind, are not its time.
    jacobian_rank([[[1, 2], [3, 4]], [[1, 1]]], 2)
    np.linalg.svd(np.eye(3))
    before = _timing.peak_bytes()
    _timing.limit_this_process(LIMIT_SECONDS, LIMIT_BYTES)
    work = whole_table if size == TABLE else one_proof
    argument = () if size == TABLE else (int(size.removeprefix("r=")),)
    seconds, ranks = _timing.cpu_seconds(lambda: work(method, *argument))
    memory, runs = (_timing.peak_bytes() - before) / 2**20, 1
    if seconds < LEAST_SECONDS:
        runs = round(2 * LEAST_SECONDS / max(seconds, 1e-4))
        seconds = _timing.cpu_seconds(lambda: [work(method, *argument) for _ in range(runs)])[0] / runs
    return {"seconds": seconds, "ranks": ranks, "MiB": memory, "runs": runs}


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for size in sizes or (QUICK if quick else SIZES):
        for method in METHODS[size]:
            if quick and method == "expansion" and size == TABLE:
                continue
            found[f"{size}: {method}"] = _timing.cell(__file__, method, size, seconds=LIMIT_SECONDS)
            _timing.tell(f"ranks: {size}, {method}: {_shown(found, size, method)}")
    return found


def _shown(found: dict[str, Any], size: str, method: str) -> str:
    cell = found.get(f"{size}: {method}")
    if cell is None:
        return "-"
    if "ended" in cell:
        return cell["ended"]
    shown = f"{cell['seconds']:.3g} s, {cell['MiB']:.0f} MiB"
    ours = found[f"{size}: ours"].get("ranks")
    if method == "ours" or ours is None:
        return shown
    wrong = sum(a != b for a, b in zip(cell["ranks"], ours, strict=True))
    return f"{shown}, {wrong} of {len(ours)} differ" if wrong else shown


def tables(found: dict[str, Any]):
    sizes = list(dict.fromkeys(key.split(": ")[0] for key in found))
    methods = [m for m in METHODS[PROOFS[0]] if any(f"{size}: {m}" in found for size in sizes)]
    yield _timing.table(
        "Ranks of monomial networks: CPU seconds, one thread, and memory",
        ("", *methods),
        [(size, *(_shown(found, size, method) for method in methods)) for size in sizes],
        caption="table: generic ranks of 36 networks, degrees 2 to 9, and how many entries "
        "differ from the proved. r=...: the rank of (4, 4, 4, 1) with an inactive neuron.",
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
