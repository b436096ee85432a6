"""Paths of regression, side by side: the saddle-to-saddle path, the Lasso path, and scikit-learn's `lars_path`.

    python benchmarks/paths.py [--quick] [--sizes NAME ...]

Instances, seed 0: `n` rows of `d` standard normal entries, `y` standard normal. All three go to an interpolant of least
l1 norm; the saddle path has other events on the way, so it is compared per event and by its end. `lars_path` is asked
for `method="lasso"` and all else as it is.

Every cell runs in a process of its own, on one BLAS thread, imports not counted: CPU seconds, median of three, from the
arrays to the end, with checks of the input and our certificate of every knot included (the certificate alone stands
beside). The gap of the end and the worst violation of an optimality condition over all knots are recomputed from the
data by `LassoPath.certify` and `SaddlePath.certify`, for `lars_path` too, uncounted; its dual point is the least
squares solution of `X_S' nu = sign(w_S)`. Memory: the peak above what the process had before, in MiB; the data alone
stand in the last column.

Then small inputs on which a path goes wrong: ties, copied columns, other units. Knots, residual at the end and the
worst violation, for the Lasso path and `lars_path`.
"""

import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import _timing

LIMIT_SECONDS = 120
SADDLE, LASSO, LARS = "saddle path", "Lasso path", "lars_path"
METHODS = (SADDLE, LASSO, LARS)
SIZES = {f"{n} x {d}": (n, d) for n, d in ((50, 1000), (100, 2000), (200, 20000))}
QUICK = ("50 x 1000",)
HARD = "hard inputs"


def hard_inputs() -> dict[str, Any]:
    """Small inputs with a path that is known, and what is special about them."""
    import numpy as np

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 40)), rng.normal(size=10)
    coin = rng.choice([-1.0, 1.0], size=(12, 40))
    return {
        "identity 5, y of ones (ties)": (np.eye(5), np.ones(5)),
        "identity 3, y = 2, 1, 1 (ties)": (np.eye(3), np.array([2.0, 1, 1])),
        "12 x 40 of +-1 (ties)": (coin, np.ones(12)),
        "10 x 40 normal": (X, y),
        "10 x 40 normal, every column twice": (np.hstack([X, X]), y),
        "10 x 40 normal times 1e-6": (X * 1e-6, y),
        "10 x 40 normal times 1e-9": (X * 1e-9, y),
        "10 x 40 normal times 1e-150": (X * 1e-150, y),
    }


def by_lars(X, y):
    """The penalties (of the sum of squares), and the coefficients, one row a knot."""
    import numpy as np
    from sklearn.linear_model import lars_path

    alphas, _, w = lars_path(X, y, method="lasso")
    # Where a coefficient leaves it may keep a rounding error of either sign.
    w[np.abs(w) < 1e-13 * np.abs(w).max()] = 0.0
    return alphas * len(y), w.T


def judged(X, y, lam, w) -> tuple[float, float, float]:
    """Residual, worst violation and gap of any Lasso path, from the data and its knots."""
    import numpy as np

    from omegalimit.limits.lasso_path import LassoPath

    support = np.flatnonzero(w[-1])
    nu = np.linalg.lstsq(X[:, support].T, np.sign(w[-1][support]))[0] if len(support) else np.zeros(len(y))
    # The end is said to be that of a penalty of zero; what is wrong with that the certificate shows.
    certificate = LassoPath(X, y).certify(np.append(lam[:-1], 0.0), w, nu)
    return float(certificate.residual[-1]), certificate.worst, certificate.gap


def run_cell(method: str, name: str) -> dict[str, Any]:
    """One cell, in this process."""
    import numpy as np

    if name == HARD:
        return {case: run_hard(method, X, y) for case, (X, y) in hard_inputs().items()}
    rng = np.random.default_rng(0)
    n, d = SIZES[name]
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    work, small = prepared(method), (X[:5, :20].copy(), y[:5].copy())
    work(*small)
    before = _timing.peak_bytes()
    _timing.limit_this_process(LIMIT_SECONDS)
    runs = [_timing.cpu_seconds(lambda: work(X, y)) for _ in range(3)]
    mebibytes = (_timing.peak_bytes() - before) / 2**20
    found = runs[-1][1]
    cell = {"seconds": _timing.spread([seconds for seconds, _ in runs])["median"], "MiB": mebibytes}
    if method == LARS:
        lam, w = found
        residual, worst, gap = judged(X, y, lam, w)
        return cell | {"events": len(lam) - 1, "residual": residual, "worst": worst, "gap": gap, "certificate": 0.0}
    start = time.process_time()
    if method == SADDLE:
        certificate = found.limit.certify(found.knots)
    else:
        certificate = found.limit.certify(found.lam, found.coefficients, found.certificate.nu)
    return cell | {
        "events": len(found.events),
        "residual": float(certificate.residual[-1]),
        "worst": certificate.worst,
        "gap": certificate.gap,
        "certificate": time.process_time() - start,
    }


def prepared(method: str):
    """What is timed, with its imports done."""
    if method == LARS:
        import sklearn.linear_model  # noqa: F401 - imported here so that its import is not counted

        return by_lars
    if method == LASSO:
        from omegalimit.solvers.lasso_path import lasso_path

        return lasso_path
    from omegalimit.limits.saddle_path import SaddlePath
    from omegalimit.solvers.saddle_path import saddle_path

    return lambda X, y: saddle_path(SaddlePath(X, y))


def run_hard(method: str, X, y) -> dict[str, Any]:
    """One small input: knots, residual, worst violation, and the warnings that were given."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        if method == LARS:
            lam, w = by_lars(X, y)
        else:
            found: Any = prepared(method)(X, y)
            lam, w = found.lam, found.coefficients.toarray()
    residual, worst, _ = judged(X, y, lam, w)
    return {"knots": len(lam), "residual": residual, "worst": worst, "warnings": len(given)}


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sizes or (QUICK if quick else SIZES):
        for method in METHODS:
            cell = found[f"{name}: {method}"] = _timing.cell(__file__, method, name, seconds=LIMIT_SECONDS)
            _timing.tell(f"paths: {name}, {method}: {_shown(cell)}")
    if not sizes:
        for method in (LASSO, LARS):
            found[f"{HARD}: {method}"] = _timing.cell(__file__, method, HARD, seconds=LIMIT_SECONDS)
    return found


def _shown(cell: dict[str, Any]) -> str:
    if "ended" in cell:
        return cell["ended"]
    return f"{cell['seconds']:.3g} s, {cell['events']} events, {1e3 * cell['seconds'] / cell['events']:.2f} ms each"


def tables(found: dict[str, Any]):
    names = [name for name in SIZES if f"{name}: {LARS}" in found]
    rows = []
    for name in names:
        lars = found[f"{name}: {LARS}"]
        for method in METHODS:
            cell = found[f"{name}: {method}"]
            if "ended" in cell:
                rows.append((f"{name}, {method}", cell["ended"], *[""] * 9))
                continue
            each = cell["seconds"] / cell["events"]
            ratios = ("", "")
            if "ended" not in lars:
                ratios = (f"{lars['seconds'] / lars['events'] / each:.1f}", f"{lars['seconds'] / cell['seconds']:.1f}")
            rows.append(
                (
                    f"{name}, {method}",
                    f"{cell['seconds']:.3f}",
                    cell["events"],
                    f"{1e3 * each:.2f}",
                    *ratios,
                    f"{cell['certificate']:.3f}" if cell["certificate"] else "none",
                    f"{cell['worst']:.0e}",
                    f"{cell['gap']:.0e}",
                    f"{cell['MiB']:.0f}",
                    f"{8 * SIZES[name][0] * SIZES[name][1] / 2**20:.0f}",
                )
            )
    columns = ("CPU s", "events", "ms an event", "lars_path / it, an event", "in all", "certificate s", "worst", "gap")
    yield _timing.table(
        "Paths to the least l1 interpolant: one thread, median of three",
        ("instance, method", *columns, "MiB", "data MiB"),
        rows,
    )
    if f"{HARD}: {LARS}" in found:
        mine, lars = (found[f"{HARD}: {method}"] for method in (LASSO, LARS))
        yield _timing.table(
            "Small inputs: knots, |Xw - y| / |y| at the end, worst violation over all knots",
            ("input", *(f"{LASSO}: {x}" for x in ("knots", "end", "worst")), *(f"{LARS}: {x}" for x in _HARD)),
            [
                (
                    case,
                    *(_number(mine[case][key]) for key in ("knots", "residual", "worst")),
                    *(_number(lars[case][key]) for key in ("knots", "residual", "worst", "warnings")),
                )
                for case in mine
            ],
        )


_HARD = ("knots", "end", "worst", "warnings")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.0e}"


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
