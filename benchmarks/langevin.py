"""Langevin particles of a two-layer ReLU network: 1e5 neurons, 200 steps, n = 32, d = 8, beside plain loops.

    python benchmarks/langevin.py [--quick]

- ours: `langevin`, noise in single precision; ours, double: the same with `noise="double"`; ours, 2 threads.
- NumPy: the loop one writes by hand, in double precision: `standard_normal`, matrix products, no buffers kept.
- JAX: the same step in a compiled `lax.scan`, in double precision; compilation is not counted.

Every round runs each of them once, from the same start, in one process with one BLAS thread; ratios are of a round,
and the median over rounds is shown. CPU seconds of the process, but for two threads, where it is seconds on the wall:
they mean what they say on an idle machine alone. Without noise all of them must come to the same particles: the
largest difference is shown.

What bounds a step: the random numbers alone, the two products with the inputs alone (in blocks, as ours takes them),
flops of those products, and bytes of the arrays a step goes through that no block holds.
"""

import math
import statistics
import sys
import time
from typing import Any

import _timing

N, D_IN, N_INPUTS, STEPS = 100_000, 8, 32, 200
LAM, BETA, ETA = 0.05, 200.0, 0.02
METHODS = ("ours", "ours, double", "ours, 2 threads", "NumPy", "JAX")
ROUNDS, SECONDS = 5, 900
QUICK_ROUNDS, QUICK_STEPS = 3, 40


def instance():
    """Inputs, targets and the particles that everyone starts from."""
    import numpy as np

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N_INPUTS, D_IN)), rng.standard_normal(N_INPUTS)
    return X, y, rng.standard_normal(N), rng.standard_normal((N, D_IN + 1))


def numpy_loop(X, y, a, V, beta: float, n_steps: int):
    import numpy as np

    rng = np.random.default_rng(1)
    rows, sigma = np.column_stack([X, np.ones(len(X))]), math.sqrt(2 * ETA / beta)
    for _ in range(n_steps):
        H = V @ rows.T
        hidden = np.maximum(H, 0)
        r = hidden.T @ a / len(a) - y
        force_a = hidden @ r / len(y)
        force_V = ((H > 0) * r * a[:, None]) @ rows / len(y)
        a = a - ETA * (force_a + LAM * a)
        V = V - ETA * (force_V + LAM * V)
        if sigma:
            a = a + sigma * rng.standard_normal(a.shape)
            V = V + sigma * rng.standard_normal(V.shape)
    return a, V


def jax_loop(X, y, beta: float, n_steps: int):
    """A compiled function of the start."""
    import jax
    import jax.numpy as jnp

    rows = jnp.concatenate([jnp.asarray(X), jnp.ones((len(X), 1))], axis=1)
    sigma = math.sqrt(2 * ETA / beta)

    def step(state, key):
        a, V = state
        H = V @ rows.T
        hidden = jnp.maximum(H, 0)
        r = hidden.T @ a / len(a) - y
        force_a = hidden @ r / len(y)
        force_V = ((H > 0) * r * a[:, None]) @ rows / len(y)
        for_a, for_V = jax.random.split(key)
        a = a - ETA * (force_a + LAM * a)
        V = V - ETA * (force_V + LAM * V)
        if sigma:
            a = a + sigma * jax.random.normal(for_a, a.shape, a.dtype)
            V = V + sigma * jax.random.normal(for_V, V.shape, V.dtype)
        return (a, V), None

    def run(a, V):
        return jax.lax.scan(step, (a, V), jax.random.split(jax.random.key(1), n_steps))[0]

    return jax.jit(run)


def ours(X, y, a, V, beta: float, n_steps: int, **options):
    from omegalimit.flows.langevin import langevin

    run = langevin(
        X, y, lam=LAM, beta=beta, step_size=ETA, n_steps=n_steps, start=(a, V), n_snapshots=2, n_recorded=10, **options
    )
    return run.a, run.V


def parts() -> dict[str, float]:
    """Milliseconds of what a step cannot do without, each alone, the best of five."""
    import numpy as np

    from omegalimit.flows._langevin_blocks import block_size, box_muller

    rng = np.random.Generator(np.random.SFC64(0))
    size = block_size(N_INPUTS, N)
    n_blocks, D = -(-N // size), D_IN + 1
    rows, V, H = rng.standard_normal((N_INPUTS, D)), rng.standard_normal((D, size)), np.empty((N_INPUTS, size))
    weights, forces = np.ascontiguousarray(rows.T), np.empty((D, size))
    k = 2 * ((D + 1) * size // 2)
    work, single, double = np.empty(k, np.float32), np.empty(k, np.float32), np.empty(k)

    def best(task) -> float:
        return 1e3 * min(_timing.cpu_seconds(lambda: [task() for _ in range(n_blocks)])[0] for _ in range(5))

    return {
        "noise, single": best(lambda: box_muller(rng, work, single)),
        "noise, ziggurat single": best(lambda: rng.standard_normal(out=single, dtype=np.float32)),
        "noise, ziggurat double": best(lambda: rng.standard_normal(out=double)),
        "products": best(lambda: (np.matmul(rows, V, out=H), np.matmul(weights, H, out=forces))),
    }


def run_cell(rounds: str, steps: str) -> dict[str, Any]:
    """All of it, in this process."""
    import jax
    import numpy as np

    n_steps = int(steps)
    X, y, a, V = instance()
    with jax.enable_x64(True):
        compiled = jax_loop(X, y, BETA, n_steps)
        jax.block_until_ready(compiled(a, V))
        exact = jax_loop(X, y, math.inf, 10)(a, V)
        exact_a, exact_V = ours(X, y, a, V, math.inf, 10)  # imports are not its time
        methods = {
            "ours": lambda: ours(X, y, a, V, BETA, n_steps),
            "ours, double": lambda: ours(X, y, a, V, BETA, n_steps, noise="double"),
            "ours, 2 threads": lambda: ours(X, y, a, V, BETA, n_steps, n_threads=2),
            "NumPy": lambda: numpy_loop(X, y, a, V, BETA, n_steps),
            "JAX": lambda: jax.block_until_ready(compiled(a, V)),
        }
        cpu: dict[str, list[float]] = {name: [] for name in METHODS}
        wall: dict[str, list[float]] = {name: [] for name in METHODS}
        outputs = {}
        for _ in range(int(rounds)):
            for name, method in methods.items():
                begin = time.perf_counter()
                seconds, last = _timing.cpu_seconds(method)
                wall[name].append(time.perf_counter() - begin)
                cpu[name].append(seconds)
                found_a, found_V = (np.asarray(part) for part in last)
                hidden = np.maximum(np.column_stack([X, np.ones(len(X))]) @ found_V.T, 0)
                outputs[name] = hidden @ found_a / N
        loop_a, loop_V = numpy_loop(X, y, a, V, math.inf, 10)
        off = max(
            float(np.abs(exact_a - other_a).max() + np.abs(exact_V - other_V).max())
            for other_a, other_V in ((loop_a, loop_V), (np.asarray(exact[0]), np.asarray(exact[1])))
        )
    return {
        "steps": n_steps,
        "cpu": cpu,
        "wall": wall,
        "difference": off,
        "noise": max(float(np.abs(outputs[name] - outputs["NumPy"]).max()) for name in METHODS),
        "parts": parts(),
        "MiB": _timing.peak_bytes() / 2**20,
    }


def measure(*, quick: bool = False) -> dict[str, Any]:
    rounds, steps = (QUICK_ROUNDS, QUICK_STEPS) if quick else (ROUNDS, STEPS)
    found = _timing.cell(__file__, rounds, steps, seconds=SECONDS)
    _timing.tell(f"langevin: {found.get('ended') or statistics.median(found['cpu']['ours'])}")
    return found


def counts() -> dict[str, float]:
    """Of a step: flops of the two products; bytes of ours and of NumPy's that go through memory.

    Ours: the state, read and written, and a byte a neuron and input, written and read. NumPy's loop: the ten times that
    it reads or writes an array of a double for every neuron and input.
    """
    D = D_IN + 1
    return {
        "flops": 2 * 2.0 * N * N_INPUTS * D,
        "ours": 2.0 * 8 * N * (D + 1) + 2.0 * N * N_INPUTS,
        "NumPy": 10 * 8.0 * N * N_INPUTS,
    }


def tables(found: dict[str, Any]):
    if "ended" in found:
        yield f"Langevin particles: {found['ended']}"
        return
    rows = []
    for name in METHODS:
        clock = "wall" if name == "ours, 2 threads" else "cpu"
        ms = [1e3 * seconds / found["steps"] for seconds in found[clock][name]]
        ratios = [p / q for p, q in zip(found[clock]["NumPy"], found[clock][name], strict=True)]
        shown = "1" if name == "NumPy" else f"{statistics.median(ratios):.2f}"
        rows.append((name, clock, f"{statistics.median(ms):.1f}", f"{min(ms):.1f} to {max(ms):.1f}", shown))
    yield _timing.table(
        f"Langevin particles: {N:,} neurons, {found['steps']} steps, n = {N_INPUTS}, d = {D_IN}; "
        f"{len(found['cpu']['ours'])} interleaved rounds, {found['MiB']:.0f} MiB",
        ("method", "clock", "ms a step", "from, to", "NumPy / it"),
        rows,
        "The ratio is the median over rounds. Without noise, particles after 10 steps differ by at most "
        f"{found['difference']:.0e}; with it, outputs of the networks by {found['noise']:.0e} (their own noise).",
    )
    ms, work = found["parts"], counts()
    step = 1e3 * statistics.median(found["cpu"]["ours"]) / found["steps"]
    yield _timing.table(
        "What a step is bound by (milliseconds alone, one thread)",
        ("part", "ms", "share of ours"),
        [(name, f"{value:.2f}", f"{value / step:.0%}") for name, value in ms.items()],
        f"Products: {work['flops'] / 1e6:.0f} Mflop a step, {work['flops'] / ms['products'] / 1e6:.0f} Gflop/s. Arrays "
        f"larger than a block: ours {work['ours'] / 1e6:.0f} MB a step, NumPy's loop {work['NumPy'] / 1e6:.0f} MB.",
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell)
