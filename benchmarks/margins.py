"""Maximum margin in the other norms, side by side: this library, CVXPY with four solvers, HiGHS, OSQP, scikit-learn.

    python benchmarks/margins.py [--quick] [--sizes NAME ...]

Instances, all of seed 0: `N` rows of `d` standard normal entries with `N = d`, which are separable because the matrix
is invertible (`A w = 1` has a solution); groups are neighbouring columns. For matrices `A(d)` of `nuclear.py`: `3d/2`
rank-one constraints on `d x d` matrices, independent, so that `<A_k, W> = 1` has a solution.

Every cell runs in a process of its own, on one BLAS thread, cold: a fresh problem, no warm start, imports not counted.
Figures are CPU seconds of that process; in brackets the gap, recomputed from the data by `MaxMargin.certify` from the
cell's own point and multipliers; then the peak of memory above what the process had before, in MiB. A rival that has
used 120 CPU seconds or 8 GiB is ended. Ours is the median of three, a rival's cell is one run at a tolerance of 1e-9;
what it is given stands in `_rivals.py`. LIBLINEAR returns no multipliers: `certify` finds them, uncounted. The ratio
counts the best of the rivals whose gap is at most 1e-8, or the limit of 120 s if there is none.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

import _timing
import nuclear

LIMIT_SECONDS = 120
LIMIT_BYTES = 8 * 2**30
EQUAL_GAP = 1e-8
OURS = ("ours", "ours, polished")
CONES = ("Clarabel", "SCS")
# Family -> its rivals, and its instances: norm, shape (rows, columns; matrices: d), further arguments of `MaxMargin`.
_POWERS = {"1.1": 1.1, "1.5": 1.5, "3": 3.0, "10": 10.0}
_SCHATTEN = {"4/3": 4 / 3, "1.5": 1.5, "3": 3.0, "4": 4.0}


def _families(rows: int, groups: tuple[int, int, int], dimensions: Sequence[int]):
    vectors, size = (rows, rows), f"{rows} x {rows}"
    N, n_groups, width = groups
    return {
        "quadratic program": (
            (*CONES, "OSQP", "LIBSVM", "LIBLINEAR"),
            {f"l2 {size}": ("l2", vectors, {})},
        ),
        "linear programs": (
            (*CONES, "HiGHS in CVXPY", "HiGHS ipm", "HiGHS simplex"),
            {f"l1 {size}": ("l1", vectors, {}), f"linf {size}": ("linf", vectors, {})},
        ),
        "cones": (
            CONES,
            {f"l{name} {size}": ("lp", vectors, {"p": p}) for name, p in _POWERS.items()}
            | {
                f"group l1 {N} x {n_groups} x {width}": (
                    "group-l1",
                    (N, n_groups * width),
                    {"groups": [j // width for j in range(n_groups * width)]},
                )
            },
        ),
        "matrices": (
            CONES,
            {
                f"{norm} A({d})": ("spectral" if p is None else "schatten", (d,), {} if p is None else {"p": p})
                for norm, p in [(f"Schatten-{name}", p) for name, p in _SCHATTEN.items()] + [("spectral", None)]
                for d in dimensions
            },
        ),
    }


FULL, QUICK = _families(1000, (200, 100, 2), (64, 128)), _families(100, (50, 20, 2), (16,))
SIZES = {name: case for families in (FULL, QUICK) for _, cases in families.values() for name, case in cases.items()}
RIVALS = {name: rivals for families in (FULL, QUICK) for rivals, cases in families.values() for name in cases}


def instance(shape: tuple[int, ...]) -> dict[str, Any]:
    """The data as `MaxMargin` takes it."""
    import numpy as np

    if len(shape) == 2:
        return {"rows": np.random.default_rng(0).normal(size=shape)}
    (d,) = shape
    return dict(zip(("left", "right"), nuclear.instance(d // 2, 4, d), strict=True))


def ours(data, norm, *, polish, **arguments):
    from omegalimit.limits import MaxMargin
    from omegalimit.solvers import solve

    def once():
        return solve(MaxMargin(norm, **data, **arguments), polish=polish)

    runs = [_timing.cpu_seconds(once) for _ in range(3)]
    certificate = runs[-1][1].certificate
    return _timing.spread([seconds for seconds, _ in runs])["median"], certificate.point, certificate.multipliers


def run_cell(method: str, name: str) -> dict[str, Any]:
    """One cell, in this process."""
    from omegalimit.limits import MaxMargin
    from omegalimit.solvers import solve

    norm, shape, arguments = SIZES[name]
    data = instance(shape)
    if method in OURS:
        # The import of the method is not its time; a part of the data loads it.
        solve(MaxMargin(norm, **{key: array[:2] for key, array in data.items()}, **arguments))
        before = _timing.peak_bytes()
        seconds, point, multipliers = ours(data, norm, polish=method == "ours, polished", **arguments)
    else:
        import _rivals

        _rivals.load(method)
        before = _timing.peak_bytes()
        _timing.limit_this_process(LIMIT_SECONDS, LIMIT_BYTES)
        seconds, (point, multipliers) = _timing.cpu_seconds(lambda: _rivals.solve(method, data, norm, **arguments))
    mebibytes = (_timing.peak_bytes() - before) / 2**20
    certificate = MaxMargin(norm, **data, **arguments).certify(point, multipliers)
    return {"seconds": seconds, "gap": certificate.gap, "MiB": mebibytes, "lower": certificate.lower}


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    chosen = sizes or [name for _, cases in (QUICK if quick else FULL).values() for name in cases]
    for name in chosen:
        for method in (*OURS, *RIVALS[name]):
            cell = found[f"{name}: {method}"] = _timing.cell(__file__, method, name, seconds=LIMIT_SECONDS)
            _timing.tell(f"margins: {name}, {method}: {_shown(cell)}")
    return found


def _shown(cell: dict[str, Any]) -> str:
    return cell.get("ended") or f"{cell['seconds']:.3g} ({cell['gap']:.0e}) {cell['MiB']:.0f}"


def _ratio(mine: dict[str, Any], rivals: Sequence[dict[str, Any]]) -> str:
    """The better rival at an equal gap over ours, polished."""
    if not mine.get("gap", math.inf) <= EQUAL_GAP:
        return "none"
    equal = [cell["seconds"] for cell in rivals if cell.get("gap", math.inf) <= EQUAL_GAP]
    ratio = min(equal, default=LIMIT_SECONDS) / mine["seconds"]
    return ("" if equal else "> ") + (f"{ratio:.0f}" if ratio >= 9.5 else f"{ratio:.1f}")


def tables(found: dict[str, Any]):
    names = list(dict.fromkeys(key.split(": ")[0] for key in found))
    for family in FULL:
        rivals = FULL[family][0]
        rows = []
        for name in names:
            if name in FULL[family][1] or name in QUICK[family][1]:
                cells = [found[f"{name}: {method}"] for method in (*OURS, *rivals)]
                rows.append((name, *map(_shown, cells), _ratio(cells[1], cells[2:])))
        if rows:
            yield _timing.table(
                f"Maximum margin, {family}: CPU seconds (certified gap) MiB, one thread, cold",
                ("instance", *OURS, *rivals, "better rival / ours"),
                rows,
            )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
