"""Positive quadratic networks: the time of a descent step, and the flow to its limit, beside the usual tools.

    python benchmarks/quadratic.py [--quick] [--sizes NAME ...]

Steps: seed 0, standard normal inputs `X` (n, d), planted factor (d, r), a start of size 0.3 (so that no method
diverges), step size 1e-5. All methods run in one process on one BLAS thread, in turn, ten rounds; figures are medians
of CPU microseconds a step, warm. "two products" are the bare `U'X'` and `W X` into arrays that are there: what any
method must at least do. Ours is `quadratic_descent`, the difference between 250 and 50 steps, so that what it does once
does not count; its full price for 250 steps is the last column. "NumPy" is the textbook line, "JAX" the same as one
compiled step in double precision. Every method's parameters after the same steps agree to 1e-12, or the cell fails.

Flow: `gaussian_measurements` of seed 0, a standard normal start of `numpy.random.default_rng(1)` times the size given,
until the relative residual is 1e-10. SciPy's methods integrate the raw weights with `rtol` 1e-10, `atol` 1e-13 and stop
at an event; figures are CPU seconds of a process of its own and, in brackets, the relative residual recomputed from the
last weights. A method that has used 60 CPU seconds is ended. "wide" has a factor wider than the rank: its residual
falls like 1/t, and is asked for to 1e-6 only.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import _timing

LIMIT_SECONDS = 60
STEPS = {
    "d=100, r=5, n=5000": (5000, 100, 5),
    "d=300, r=5, n=5000": (5000, 300, 5),
    "d=20, r=2, n=200": (200, 20, 2),
}
# (n, d, planted rank, width of the factor, size of the start, residual)
FLOWS = {
    "d=6, r=2, n=40": (40, 6, 2, 2, 1.0, 1e-10),
    "d=20, r=3, n=300": (300, 20, 3, 3, 1.0, 1e-10),
    "d=20, r=3, n=300, start 1e-6": (300, 20, 3, 3, 1e-6, 1e-10),
    "d=6, r=2, n=40, wide": (40, 6, 2, 6, 1.0, 1e-6),
    "d=100, r=5, n=5000": (5000, 100, 5, 5, 1.0, 1e-10),
}
QUICK = (*list(STEPS)[:1], *list(FLOWS)[:2])
SIZES = (*STEPS, *(f"flow {name}" for name in FLOWS))
RIVALS = ("DOP853", "RK45", "LSODA", "BDF", "Radau")
ROUNDS, SHORT, LONG, STEP_SIZE = 10, 50, 250, 1e-5


def steps(name: str) -> dict[str, Any]:
    """Seconds a step of every method, in this process."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from omegalimit.data.measurements import RankOneMeasurements
    from omegalimit.flows import quadratic_descent

    n, d, r = STEPS[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.square(X @ rng.standard_normal((d, r))).sum(axis=1)
    U0 = 0.3 * rng.standard_normal((d, r))
    measurements = RankOneMeasurements(X=X, y=y)
    XT, UT, W, g = X.T, np.ascontiguousarray(U0.T), np.empty((r, n)), np.empty((r, d))

    def bare(k: int):
        for _ in range(k):
            np.matmul(UT, XT, out=W)
            np.matmul(W, X, out=g)

    def ours(k: int):
        return quadratic_descent(measurements, U0, step_size=STEP_SIZE, n_steps=k, until=0.0).U

    def naive(k: int):
        U = U0.copy()
        for _ in range(k):
            F = X @ U
            U = U - (2 * STEP_SIZE / n) * (X.T @ (((F**2).sum(axis=1) - y)[:, None] * F))
        return U

    with jax.enable_x64(True):
        data = jnp.asarray(X), jnp.asarray(y)

        @jax.jit
        def step(U, X, y):
            F = X @ U
            return U - (2 * STEP_SIZE / n) * (X.T @ (((F * F).sum(axis=1) - y)[:, None] * F))

        def compiled(k: int):
            U = jnp.asarray(U0)
            for _ in range(k):
                U = step(U, *data)
            return np.asarray(U)

        methods: dict[str, Callable[[int], Any]] = {"ours": ours, "NumPy": naive, "JAX": compiled}
        ends = {key: method(LONG) for key, method in methods.items()}
        for key, end in ends.items():
            error = float(np.abs(end - ends["ours"]).max() / np.abs(end).max())
            assert error < 1e-12, f"{key} is off by {error:.1e}"
        found: dict[str, list[float]] = {key: [] for key in ("two products", *methods, "ours, whole run")}
        bare(SHORT)
        for _ in range(ROUNDS):
            found["two products"].append(_timing.cpu_seconds(lambda: bare(LONG))[0] / LONG)
            for key, method in methods.items():
                long = _timing.cpu_seconds(lambda method=method: method(LONG))[0]
                short = _timing.cpu_seconds(lambda method=method: method(SHORT))[0]
                found[key].append((long - short) / (LONG - SHORT))
                if key == "ours":
                    found["ours, whole run"].append(long / LONG)
    return {key: _timing.spread(values)["median"] for key, values in found.items()}


def flow(name: str, method: str) -> dict[str, Any]:
    """CPU seconds to the residual, and the residual recomputed."""
    import numpy as np
    import scipy.integrate

    from omegalimit.data.measurement_generators import gaussian_measurements
    from omegalimit.flows import factor_flow

    n, d, rank, r, size, target = FLOWS[name]
    measurements = gaussian_measurements(n, d, rank, seed=0)
    X, y = measurements.X, measurements.y
    U0 = size * np.random.default_rng(1).standard_normal((d, r))

    def residual(U) -> float:
        return float(np.linalg.norm(np.square(X @ U).sum(axis=1) - y) / np.linalg.norm(y))

    _timing.limit_this_process(LIMIT_SECONDS)
    if method == "ours":
        factor_flow(measurements, U0, max_steps=3)  # what is loaded once is not its time
        seconds, result = _timing.cpu_seconds(lambda: factor_flow(measurements, U0, arrival=target))
        return {"seconds": seconds, "residual": residual(result.final), "steps": result.cost.n_steps}

    def field(t, u):
        F = X @ u.reshape(d, r)
        return (-2 / n) * (X.T @ ((np.square(F).sum(axis=1) - y)[:, None] * F)).reshape(-1)

    def event(t, u) -> float:
        return np.log(residual(u.reshape(d, r)) / target)

    event.terminal = True  # pyright: ignore[reportFunctionMemberAccess]  # SciPy's own way to say so
    options: dict[str, Any] = {"method": method, "rtol": 1e-10, "atol": 1e-13, "events": event}
    seconds, result = _timing.cpu_seconds(
        lambda: scipy.integrate.solve_ivp(field, (0.0, 1e9), U0.reshape(-1), **options)
    )
    return {"seconds": seconds, "residual": residual(result.y[:, -1].reshape(d, r)), "steps": result.t.size}


def run_cell(method: str, name: str) -> dict[str, Any]:
    """One cell, in this process."""
    return steps(name) if method == "steps" else flow(name, method)


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    chosen = sizes or (QUICK[:1] + tuple(f"flow {name}" for name in QUICK[1:]) if quick else SIZES)
    for size in chosen:
        if size in STEPS:
            found[size] = _timing.cell(__file__, "steps", size, seconds=10 * LIMIT_SECONDS)
            _timing.tell(f"quadratic: {size}: {found[size]}")
            continue
        for method in ("ours", *RIVALS):
            name = size.removeprefix("flow ")
            cell = found[f"{size}: {method}"] = _timing.cell(__file__, method, name, seconds=LIMIT_SECONDS)
            _timing.tell(f"quadratic: {size}, {method}: {_shown(cell)}")
    return found


def _shown(cell: dict[str, Any]) -> str:
    return cell.get("ended") or f"{cell['seconds']:.3g} ({cell['residual']:.0e})"


def tables(found: dict[str, Any]):
    done = [(name, found[name]) for name in STEPS if name in found]
    if done:
        yield _timing.table(
            "A step of descent, rank-one measurements: CPU microseconds, warm, one thread",
            ("instance", "two products", "ours", "ours / products", "NumPy", "JAX", "ours, whole run of 250"),
            [
                (name, cell["ended"], *[""] * 5)
                if "ended" in cell
                else (
                    name,
                    *(f"{1e6 * cell[key]:.0f}" for key in ("two products", "ours")),
                    f"{cell['ours'] / cell['two products']:.2f}",
                    *(f"{1e6 * cell[key]:.0f}" for key in ("NumPy", "JAX", "ours, whole run")),
                )
                for name, cell in done
            ],
        )
    names = [name for name in FLOWS if f"flow {name}: ours" in found]
    if names:
        yield _timing.table(
            "The flow to its limit: CPU seconds (relative residual), one thread",
            ("instance", "ours", *RIVALS),
            [(name, *(_shown(found[f"flow {name}: {method}"]) for method in ("ours", *RIVALS))) for name in names],
        )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
