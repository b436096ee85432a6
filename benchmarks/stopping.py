"""The early-stopping grid in dual coordinates: 24 seeds, 5 sizes, 2 spectra, beside plain loops.

    python benchmarks/stopping.py [--quick] [--sizes NAME ...]

Instances: the Gaussian mixture with r = 2, a tenth of the labels flipped, d = 2000 and the spectra `i^-1.2` and `i^-2`;
seeds 2000 to 2023 for each of n = 50, 100, 200, 400, 800; 1500 steps of gradient descent on the logistic loss (1000 at
n = 800) of size `4 / lam_max(X'X/n)`. Wanted: the exact excess 0-1 risk at about 80 steps of every path.

- ours: all of it in one process: draws, Gram matrices, step sizes, steps (`logistic_descent`, a batch of 24), weights
  at the marks and their risks.
- primal loop: what one writes by hand, `w -= eta X'g` with a product with X and one with X' a step; NumPy alone, the
  same step sizes. Steps only, of as many seeds as its cell says, scaled to the 48 paths.
- batched matmul: the same dual iteration for all seeds of a batch at a time, `numpy.matmul` on (24, n, n): each step
  goes through all matrices, so that none stays in the cache. Steps only, Gram matrices and step sizes taken as given.

CPU seconds of a process on one BLAS thread, imports not counted. GB/s are the bytes that the steps have to read (one
triangle of `ZZ'` a step; all of it up to n = 160, where members of a batch step together) over their time; beside them
what a plain `dot(x, x)` reads in the same process and minute, from memory (256 MiB) and from 2.5 MiB, the triangle of
n = 800, which fits in the cache. In brackets the largest relative difference of the excess risk from ours.
"""

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import _timing

SIZES = {f"n = {n}": n for n in (50, 100, 200, 400, 800)}
QUICK = ("n = 50", "n = 200")
SPECTRA = (1.2, 2.0)
N_SEEDS, D = 24, 2000
RIVALS = ("primal loop", "batched matmul")
SECONDS = 300


def n_steps(n: int) -> int:
    return 1000 if n == 800 else 1500


def marks(n: int):
    import numpy as np

    return np.unique(np.round(np.geomspace(1, n_steps(n), 80)).astype(int))


def setting(a: float):
    from omegalimit.data.mixture import Mixture
    from omegalimit.limits.mixture_risk import MixtureRisk

    mixture = Mixture.polynomial(D, a=a)
    return mixture, MixtureRisk(mean=mixture.mean, eigenvalues=mixture.eigenvalues, flips=mixture.flips)


def draw(mixture, n: int, n_seeds: int):
    import numpy as np

    Z = np.empty((n_seeds, n, D))
    for s in range(n_seeds):
        Z[s] = mixture.sample(n, 2000 + s).Z
    return Z


def stream(n_bytes: int) -> float:
    """Bytes a CPU second that `dot(x, x)` reads of an array of so many, again and again; the best of five."""
    import numpy as np

    x = np.ones(n_bytes // 8)
    repeats = max(1, 2**28 // n_bytes)
    rates = []
    for _ in range(5):
        seconds, _ = _timing.cpu_seconds(lambda: [np.dot(x, x) for _ in range(repeats)])
        rates.append(n_bytes * repeats / seconds)
    return max(rates)


def grid(sizes: Sequence[int]) -> dict[str, Any]:
    """Ours: every part's seconds by size."""
    from omegalimit.flows.logistic_descent import logistic_descent

    found: dict[str, Any] = {}
    for n in sizes:
        parts = dict.fromkeys(("draw", "setup", "steps", "risk"), 0.0)
        n_bytes, oracle = 0, []
        for a in SPECTRA:
            mixture, risk = setting(a)
            seconds, Z = _timing.cpu_seconds(lambda mixture=mixture, n=n: draw(mixture, n, N_SEEDS))
            descent = logistic_descent(Z, n_steps=n_steps(n), marks=marks(n).tolist())
            after, excess = _timing.cpu_seconds(lambda risk=risk, descent=descent: risk.excess(descent.coef()))
            parts["draw"] += seconds
            parts["setup"] += descent.setup_seconds
            parts["steps"] += descent.cost.cpu_seconds
            parts["risk"] += after
            n_bytes += descent.n_bytes
            oracle.append(float(excess.min(axis=1).mean()))
        found[f"n = {n}"] = parts | {"bytes": n_bytes, "oracle": oracle}
    return found


def primal_loop(Z, eta: float, n: int):
    """The weights at the marks."""
    import numpy as np

    w, kept, wanted = np.zeros(D), [], set(marks(n).tolist())
    for k in range(1, n_steps(n) + 1):
        w = w + eta / n * ((1 / (1 + np.exp(Z @ w))) @ Z)
        if k in wanted:
            kept.append(w)
    return np.array(kept)


def batched(gram, eta, n: int):
    """The dual coordinates at the marks, (B, T, n)."""
    import numpy as np

    alpha, kept, wanted = np.zeros((len(gram), n, 1)), [], set(marks(n).tolist())
    for k in range(1, n_steps(n) + 1):
        alpha += eta[:, None, None] / n / (1 + np.exp(np.matmul(gram, alpha)))
        if k in wanted:
            kept.append(alpha[..., 0].copy())
    return np.stack(kept, axis=1)


def run_cell(method: str, *names: str) -> dict[str, Any]:
    """One cell, in this process."""
    import numpy as np

    from omegalimit.flows.logistic_descent import logistic_descent

    sizes = [SIZES[name] for name in names]
    mixture, risk = setting(1.2)
    risk.excess(logistic_descent(draw(mixture, 50, 1), n_steps=10).coef())  # the imports are not its time
    if method == "ours":
        machine = {"memory": stream(2**28), "cache": stream(8 * 800 * 801 // 2)}
        wall = time.perf_counter()
        seconds, found = _timing.cpu_seconds(lambda: grid(sizes))
        wall = time.perf_counter() - wall
        return {
            "seconds": seconds,
            "wall": wall,
            "MiB": _timing.peak_bytes() / 2**20,
            "parts": found,
            "stream": machine,
        }
    (n,) = sizes
    n_seeds = N_SEEDS if method == "batched matmul" else (4 if n <= 100 else 1)
    total, off = 0.0, 0.0
    for a in SPECTRA:
        mixture, risk = setting(a)
        Z = draw(mixture, n, n_seeds)
        ours = logistic_descent(Z, n_steps=n_steps(n), marks=marks(n).tolist())
        eta = np.asarray(ours.step_size)
        if method == "primal loop":
            seconds, W = _timing.cpu_seconds(
                lambda Z=Z, eta=eta: np.stack([primal_loop(Z[s], eta[s], n) for s in range(n_seeds)])
            )
        else:
            gram = np.stack([z @ z.T for z in Z])
            seconds, alpha = _timing.cpu_seconds(lambda gram=gram, eta=eta: batched(gram, eta, n))
            W = alpha @ Z
        total += seconds
        off = max(off, float(np.max(np.abs(risk.excess(W) / risk.excess(ours.coef()) - 1))))
    return {"seconds": total * N_SEEDS / n_seeds, "paths": len(SPECTRA) * n_seeds, "difference": off}


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    names = list(sizes or (QUICK if quick else SIZES))
    found = {"ours": _timing.cell(__file__, "ours", *names, seconds=SECONDS)}
    _timing.tell(f"stopping: ours: {found['ours'].get('seconds', found['ours'].get('ended'))}")
    for name in names:
        for method in RIVALS:
            cell = found[f"{name}: {method}"] = _timing.cell(__file__, method, name, seconds=SECONDS)
            _timing.tell(f"stopping: {name}, {method}: {_shown(cell)}")
    return found


def _shown(cell: dict[str, Any]) -> str:
    if "ended" in cell:
        return cell["ended"]
    return f"{cell['seconds']:.3g} ({cell['difference']:.0e}) of {cell['paths']}"


def tables(found: dict[str, Any]):
    ours = found["ours"]
    if "ended" in ours:
        yield f"The early-stopping grid: {ours['ended']}"
        return
    rows = []
    for name, parts in ours["parts"].items():
        cells = [found[f"{name}: {method}"] for method in RIVALS]
        ratios = [f"{cell.get('seconds', math.nan) / parts['steps']:.1f}" for cell in cells]
        rate = parts["bytes"] / parts["steps"] / 1e9
        seconds = [f"{parts[part]:.2f}" for part in ("draw", "setup", "steps", "risk")]
        oracle = " ".join(f"{value:.4f}" for value in parts["oracle"])
        rows.append((name, *seconds, f"{rate:.0f}", *map(_shown, cells), *ratios, oracle))
    memory, cache = (ours["stream"][key] / 1e9 for key in ("memory", "cache"))
    yield _timing.table(
        f"The early-stopping grid, {len(SPECTRA) * N_SEEDS} paths a size: {ours['seconds']:.1f} CPU seconds in all "
        f"({ours['wall']:.1f} on the wall, {ours['MiB']:.0f} MiB at most)",
        ("rows", "draws", "Gram, eta", "steps", "risks", "GB/s", *RIVALS, "primal/ours", "batched/ours", "oracle"),
        rows,
        f"GB/s of the machine in the same run: {memory:.0f} from memory, {cache:.0f} from the cache. The ratios are of "
        "steps alone. Oracle: mean of the least excess risk of each path, for the two spectra.",
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
