"""A grid of 10^4 shifts and times: one pass against loops of fits.

    python benchmarks/filters.py [--quick] [--sizes NAME ...]

Instances, seed 0: `n` rows to train on and `n/4` to judge by, `d = 2n` columns; ten of them a head of variances 0.5 to
5, the others a flat tail of variance 0.5, so that the floor is 1; unit signal in the head, noise of deviation 0.1.
The grid: 100 shifts from 0 to 4 times 100 times from 0.02 to 10 and infinity. Wanted: the mean square error of every
pair on the rows to judge by.

- ours: `choose_shift`, all of it: checks, decomposition, the pass over the grid, the choice and its fit.
- loop on one SVD: what one writes by hand: the decomposition once, then filter, coefficients and error pair by pair.
- loop of fits: `ShiftedDescentRegressor(nu, t, selection=None)` pair by pair, as a grid search over it fits.
- Ridge: scikit-learn's, `solver="svd"` and `"cholesky"`, one fit a penalty: for scale; its filter is another.
- DOP853: SciPy's integrator on `b`, at rtol 1e-9, once a shift, read off at all times but infinity.

CPU seconds of a process on one BLAS thread, imports not counted. Ours is the median of three runs; a loop is run on as
many pairs as its cell says and scaled to the 10^4. In brackets the largest relative difference of its errors from ours
on those pairs: at 1e-6 or less it counts as equally accurate. The ratio is the best of the loops of that accuracy over
ours.
"""

import math
import sys
from collections.abc import Sequence
from typing import Any

import _timing

SIZES = {"n = 2000": 2000, "n = 200": 200}
QUICK = ("n = 200",)
RIVALS = ("loop on one SVD", "loop of fits", "Ridge, svd", "Ridge, cholesky", "DOP853")
N_SHIFTS, N_TIMES = 100, 100
EQUAL = 1e-6
SECONDS = 900


def instance(n: int):
    """Rows, numbers, the rows to train on and those to judge by."""
    import numpy as np

    rng, head = np.random.default_rng(0), 10
    d, rows = 2 * n, n + n // 4
    deviation = np.sqrt(np.r_[np.geomspace(0.5, 5, head), np.full(d - head, 0.5)])
    X = rng.normal(size=(rows, d)) * deviation
    b = np.r_[1 / (math.sqrt(head) * deviation[:head]), np.zeros(d - head)]
    y = X @ b + 0.1 * rng.normal(size=rows)
    return X, y, np.arange(n), np.arange(n, rows)


def grid():
    import numpy as np

    return np.linspace(0, 4, N_SHIFTS), np.append(np.geomspace(0.02, 10, N_TIMES - 1), math.inf)


def pairs(count: int) -> list[tuple[int, int]]:
    """Indices of so many pairs, spread over the grid."""
    import numpy as np

    flat = np.random.default_rng(1).choice(N_SHIFTS * N_TIMES, count, replace=False)
    return [divmod(int(k), N_TIMES) for k in flat]


def one_pass(X, y, train, judge):
    from omegalimit.solvers.shift_selection import choose_shift

    nus, ts = grid()
    return choose_shift(X, y, nu=nus, t=ts, splits=[(train, judge)]).errors


def by_hand(X, y, train, judge, chosen):
    """One decomposition, then a loop; NumPy alone."""
    import numpy as np

    nus, ts = grid()
    mean, level = X[train].mean(axis=0), y[train].mean()
    U, s, V = np.linalg.svd(X[train] - mean, full_matrices=False)
    kept = s > 1e-10 * s[0]  # centring leaves one zero
    s, V = s[kept], V[kept]
    m, c = s**2 / train.size, (U[:, kept].T @ (y[train] - level)) / s
    found = []
    for i, j in chosen:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            f = -m / (m - nus[i]) * np.expm1(-ts[j] * (m - nus[i]))
            b = (f * c) @ V
            found.append(float(np.mean((X[judge] @ b - mean @ b + level - y[judge]) ** 2)))
    return found


def by_fits(X, y, train, judge, chosen):
    import numpy as np

    from omegalimit.estimators import ShiftedDescentRegressor

    nus, ts = grid()
    found = []
    for i, j in chosen:
        try:
            model = ShiftedDescentRegressor(nus[i], ts[j], selection=None).fit(X[train], y[train])
            found.append(float(np.mean((model.predict(X[judge]) - y[judge]) ** 2)))
        except ValueError:  # no endpoint with this shift
            found.append(math.inf)
    return found


def by_ridge(X, y, train, judge, count, solver):
    import numpy as np
    from sklearn.linear_model import Ridge

    for penalty in np.geomspace(0.01, 1, count):
        model = Ridge(alpha=penalty * train.size, solver=solver).fit(X[train], y[train])
        np.mean((model.predict(X[judge]) - y[judge]) ** 2)


def by_integrator(X, y, train, judge, i):
    import numpy as np
    from scipy.integrate import solve_ivp

    nus, ts = grid()
    mean, level = X[train].mean(axis=0), y[train].mean()
    A, r = X[train] - mean, y[train] - level

    def field(_, b):
        return A.T @ (r - A @ b) / train.size + nus[i] * b

    flow = solve_ivp(field, (0, ts[-2]), np.zeros(X.shape[1]), "DOP853", t_eval=ts[:-1], rtol=1e-9, atol=1e-12)
    off = (X[judge] - mean) @ flow.y + level - y[judge][:, None]
    return np.mean(off**2, axis=0).tolist()


def run_cell(method: str, name: str) -> dict[str, Any]:
    """One cell, in this process."""
    import numpy as np

    n = SIZES[name]
    X, y, train, judge = instance(n)
    one_pass(X, y, train[:50], judge)  # the imports are not its time
    if method == "ours":
        before = _timing.peak_bytes()
        runs = [_timing.cpu_seconds(lambda: one_pass(X, y, train, judge)) for _ in range(3)]
        mebibytes = (_timing.peak_bytes() - before) / 2**20
        return {"seconds": _timing.spread([s for s, _ in runs])["median"], "MiB": mebibytes, "pairs": 10**4}
    ours = one_pass(X, y, train, judge)
    small = n <= 200
    if method == "DOP853":
        shift = N_SHIFTS // 4
        seconds, found = _timing.cpu_seconds(lambda: by_integrator(X, y, train, judge, shift))
        return _cell(seconds * N_SHIFTS, N_TIMES - 1, found, ours[shift, :-1])
    if method.startswith("Ridge"):
        count = 20 if small else 3
        solver = method.split(", ")[1]
        seconds, _ = _timing.cpu_seconds(lambda: by_ridge(X, y, train, judge, count, solver))
        return {"seconds": seconds / count * 10**4, "pairs": count}
    if method == "loop of fits":
        chosen = pairs(20 if small else 3)
        seconds, found = _timing.cpu_seconds(lambda: by_fits(X, y, train, judge, chosen))
    else:
        # The decomposition is paid once: its seconds are those of a loop over nothing.
        chosen = pairs(500 if small else 100)
        first, _ = _timing.cpu_seconds(lambda: by_hand(X, y, train, judge, []))
        both, found = _timing.cpu_seconds(lambda: by_hand(X, y, train, judge, chosen))
        wanted = np.array([ours[pair] for pair in chosen])
        return _cell(first + max(both - first, 0.0) / len(chosen) * 10**4, len(chosen), found, wanted)
    return _cell(seconds / len(chosen) * 10**4, len(chosen), found, np.array([ours[pair] for pair in chosen]))


def _cell(seconds: float, count: int, found, ours) -> dict[str, Any]:
    """Seconds for the grid, and the largest relative difference where ours is finite."""
    import numpy as np

    finite = np.isfinite(ours)
    # Where an estimator is infinite ours says so, and a loop may come to any number.
    off = float(np.max(np.abs(np.array(found)[finite] / ours[finite] - 1))) if finite.any() else math.nan
    return {"seconds": seconds, "pairs": count, "difference": off}


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sizes or (QUICK if quick else SIZES):
        for method in ("ours", *RIVALS):
            cell = found[f"{name}: {method}"] = _timing.cell(__file__, method, name, seconds=SECONDS)
            _timing.tell(f"filters: {name}, {method}: {_shown(cell)}")
    return found


def _shown(cell: dict[str, Any]) -> str:
    if "ended" in cell:
        return cell["ended"]
    difference = f" ({cell['difference']:.0e})" if "difference" in cell else ""
    return f"{cell['seconds']:.3g}{difference}" + (f" of {cell['pairs']}" if cell["pairs"] != 10**4 else "")


def tables(found: dict[str, Any]):
    rows = []
    for name in dict.fromkeys(key.split(": ")[0] for key in found):
        cells = {method: found[f"{name}: {method}"] for method in ("ours", *RIVALS)}
        equal = [c["seconds"] for c in cells.values() if c.get("difference", math.inf) <= EQUAL]
        fits = cells["loop of fits"].get("seconds", math.nan) / cells["ours"].get("seconds", math.nan)
        best = min(equal, default=math.nan) / cells["ours"].get("seconds", math.nan)
        rows.append((name, *map(_shown, cells.values()), f"{best:.1f}", f"{fits:.0f}"))
    yield _timing.table(
        "10^4 pairs of a shift and a time: CPU seconds (difference from ours), scaled from the pairs that were run",
        ("rows", "ours", *RIVALS, "best loop / ours", "loop of fits / ours"),
        rows,
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
