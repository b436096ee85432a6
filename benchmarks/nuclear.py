"""Nuclear maximum margin, side by side: this library, CVXPY with Clarabel, CVXPY with SCS at 1e-9.

    python benchmarks/nuclear.py [--quick]

Instances: `A(d)`, seed 0: `d/2` inputs of 4 tokens in dimension `d`, tokens and query vectors normal of variance `1/d`,
one target token each, `3d/2` constraints `<(x_target - x_other) z^T, W> >= 1`; and 128 inputs of 16 tokens, `d = 64`.

Every cell runs in a process of its own, on one BLAS thread, cold: a fresh problem, no warm start, imports not counted.
Figures are CPU seconds of that process. A cell that has used 120 CPU seconds or 8 GiB is ended, and the table says so.
Every gap is recomputed from the data by `MaxMargin.certify` from the cell's own point and multipliers. A rival's cell
is one run; ours is the median of three. The ratio compares the better rival with our whole solve, polish included.
"""

import sys
from collections.abc import Sequence
from typing import Any

import _timing

LIMIT_SECONDS = 120
LIMIT_BYTES = 8 * 2**30
SIZES = {f"A({d})": (d // 2, 4, d) for d in (16, 32, 64, 128, 256)} | {"n=128 L=16 d=64": (128, 16, 64)}
METHODS = ("ours", "ours, polished", "Clarabel", "SCS")


def instance(n, L, d):
    import numpy as np

    rng = np.random.default_rng(0)
    tokens, queries = rng.normal(size=(n, L, d)) / np.sqrt(d), rng.normal(size=(n, d)) / np.sqrt(d)
    left = (tokens[:, :1] - tokens[:, 1:]).reshape(-1, d)
    return left, np.repeat(queries, L - 1, axis=0)


def ours(left, right, *, polish):
    from omegalimit.limits import MaxMargin
    from omegalimit.solvers import solve

    solve(MaxMargin("nuclear", left=left[:2], right=right[:2]))
    runs = [
        _timing.cpu_seconds(lambda: solve(MaxMargin("nuclear", left=left, right=right), polish=polish).certificate)
        for _ in range(3)
    ]
    certificate = runs[-1][1]
    return _timing.spread([seconds for seconds, _ in runs])["median"], certificate.point, certificate.multipliers


def rival(left, right, *, solver):
    import cvxpy as cp
    import numpy as np

    options = {"Clarabel": {}, "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 10**6}}[solver]

    def solved():
        W = cp.Variable((left.shape[1], right.shape[1]))
        constraint = cp.sum(cp.multiply(left @ W, right), axis=1) >= 1
        assert isinstance(constraint, cp.Constraint)
        problem = cp.Problem(cp.Minimize(cp.normNuc(W)), [constraint])
        problem.solve(solver=solver.upper(), warm_start=False, **options)
        return np.asarray(W.value), np.asarray(constraint.dual_value)

    seconds, (W, multipliers) = _timing.cpu_seconds(solved)
    return seconds, W, multipliers


def run_cell(method: str, name: str) -> dict[str, Any]:
    """One cell, in this process."""
    from omegalimit.limits import MaxMargin

    left, right = instance(*SIZES[name])
    if method in ("Clarabel", "SCS"):
        import cvxpy  # noqa: F401 - imported here so that its import is not the solver's time

        _timing.limit_this_process(LIMIT_SECONDS, LIMIT_BYTES)
        seconds, point, multipliers = rival(left, right, solver=method)
    else:
        seconds, point, multipliers = ours(left, right, polish=method == "ours, polished")
    certificate = MaxMargin("nuclear", left=left, right=right).certify(point, multipliers)
    return {"seconds": seconds, "gap": certificate.gap}


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sizes or (list(SIZES)[:3] if quick else list(SIZES)):
        for method in METHODS:
            left_out = quick and method == "Clarabel" and name == "A(64)"
            cell = {"ended": "left out"} if left_out else _timing.cell(__file__, method, name, seconds=LIMIT_SECONDS)
            found[f"{name}: {method}"] = cell
            _timing.tell(f"nuclear: {name}, {method}: {_shown(cell)}")
    return found


def _shown(cell: dict[str, Any]) -> str:
    return cell.get("ended") or f"{cell['seconds']:.3g} ({cell['gap']:.1e})"


def tables(found: dict[str, Any]):
    rows = []
    for name in dict.fromkeys(key.split(": ")[0] for key in found):
        n, L, _ = SIZES[name]
        cells = {method: found[f"{name}: {method}"] for method in METHODS}
        rivals = [cells[r] for r in ("Clarabel", "SCS") if cells[r].get("ended") != "left out"]
        finished = [c["seconds"] for c in rivals if "seconds" in c]
        ratio, mine = "", cells["ours, polished"].get("seconds")
        if mine is not None:
            ratio = f"{min(finished) / mine:.0f}" if finished else f"> {LIMIT_SECONDS / mine:.0f}"
        rows.append((name, n * (L - 1), *map(_shown, cells.values()), ratio))
    yield _timing.table(
        "Nuclear maximum margin: CPU seconds (certified gap), one thread, cold",
        ("instance", "constraints", *METHODS, "better rival / ours"),
        rows,
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
