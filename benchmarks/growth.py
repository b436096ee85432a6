"""How the time to a certificate grows with n, L and d, beside the operations that a field evaluation needs.

    python benchmarks/growth.py [--quick] [--json FILE]

Unit gaussian tokens, seed 0. Every cell is a process of its own on one thread: it trains once cold (compiling), then
once more, warm; CPU seconds of the warm run, split into flow and polish, and of what the cold run took longer. Memory
is the largest resident size of the process, and what of it was there after the imports.

Operations of one evaluation of the flow's field, multiplications and additions. Needed, for the logits and their
reverse pass alone, in the cheapest order:

- merged W (d x d): forward `z W^T` 2 n d^2, `X .` 2 n L d; reverse `X^T q` 2 n L d, its outer product with z 2 n d^2:
  `4 n d^2 + 4 n L d`.
- K and Q (d x r): forward `z Q` 2 n d r, `(z Q) K^T` 2 n d r, `X .` 2 n L d; reverse `X^T q` 2 n L d, and 2 n d r each
  for K, for the cotangent of `z Q`, and for Q: `10 n d r + 4 n L d`. (With `X K` formed first it is
  `4 n L d r + 4 n d r + 5 n L r`, which is more.)

Done: what the compiler counts in the logits, the loss's weights and the reverse pass as they are written. Neither has
the integrator's vector operations (some 15 for each parameter). GFLOP/s is the needed operations over the CPU time of
the whole flow; the peak is that of a matrix product of order 1024 in the same kind of process.
"""

import sys
from typing import Any, cast

import _timing

SIZES = ((6, 8, 10), (8, 8, 16), (12, 8, 24), (16, 8, 32), (24, 12, 48), (32, 16, 64))
QUICK = SIZES[:2]
NAMES = {"kq": "K and Q apart", "merged": "merged W"}
SECONDS = 600
TIMES = (
    "n, L, d",
    "parameters",
    "CPU s",
    "flow",
    "polish",
    "polish steps (products)",
    "compile, once",
    "MiB (imports)",
)
TIMES += ("cap", "flow's gap", "certified", "ending")
RATES = ("n, L, d", "evaluations", "us each", "kflop needed", "kflop done", "GFLOP/s", "of the peak")


def operations(name: str, n: int, L: int, d: int) -> int:
    """Of one field evaluation, see the head of this file; K and Q of inner width d."""
    return 4 * n * L * d + (10 if name == "kq" else 4) * n * d * d


def compiled_operations(problem: Any) -> float:
    """What XLA counts in logits, weights and reverse pass."""
    import jax
    import numpy as np

    def evaluate(omega, log_S):
        h, vjp = jax.vjp(problem.outputs, omega)
        q, M = problem.weights(h, log_S)
        return vjp(q)[0], M

    with jax.enable_x64(True):
        analysis = jax.jit(evaluate).lower(np.ones(problem.size), np.asarray(9.0)).compile().cost_analysis()
    return float(analysis["flops"]) if analysis else float("nan")


def peak_rate() -> float:
    """GFLOP/s of a double-precision matrix product of order 1024, one thread: the best of five."""
    import numpy as np

    A = np.random.default_rng(0).standard_normal((1024, 1024))
    return max(2 * 1024**3 / _timing.cpu_seconds(lambda: A @ A)[0] for _ in range(5)) / 1e9


def run_cell(name: str, *size: str) -> dict[str, Any]:
    if name == "peak":
        return {"gflops": peak_rate()}
    from omegalimit.catalogue.attention.softmax_attention import SoftmaxAttention

    _timing.limit_this_process(SECONDS)
    n, L, d = map(int, size)
    system = SoftmaxAttention(tokens="gaussian", parametrisation=cast(Any, name), n=n, L=L, d=d)
    data, _ = system.instance()
    imports = _timing.peak_bytes()
    cold, _ = _timing.cpu_seconds(lambda: system.experiment(name, data, name, twin=False))
    warm, e = _timing.cpu_seconds(lambda: system.experiment(name, data, name, twin=False))
    flow, polished, peak = e.flow, e.flow.polished, _timing.peak_bytes()
    return {
        "seconds": warm,
        "compile_seconds": cold - warm,
        "flow_seconds": flow.cost.cpu_seconds,
        "polish_seconds": flow.polish_cost.cpu_seconds,
        "n_parameters": e.problem.size,
        "n_evaluations": flow.cost.n_evaluations,
        "n_steps": flow.cost.n_steps,
        "polish_steps": flow.polish_cost.n_steps,
        "polish_products": 0 if polished is None else polished.n_products,
        "operations": operations(name, n, L, d),
        "operations_compiled": compiled_operations(e.problem),
        "gflops": flow.cost.n_evaluations * operations(name, n, L, d) / flow.cost.cpu_seconds / 1e9,
        "peak_bytes": peak,
        "import_bytes": imports,
        "cap": flow.cap,
        "ending": str(flow.ending),
        "reason": flow.reason,
        "flow_gap": flow.arrival.gap,
        "certified": flow.arrival.gap if polished is None else polished.gap,
        "n_not_best": e.n_not_best(flow.arrival),
    }


def measure(*, quick: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"peak": _timing.cell(__file__, "peak", seconds=60)}
    for name in NAMES:
        for size in QUICK if quick else SIZES:
            key = f"{name}: {' '.join(map(str, size))}"
            found[key] = _timing.cell(__file__, name, *size, seconds=SECONDS)
            _timing.tell(f"growth: {key}: {found[key].get('ended') or format(found[key]['seconds'], '.3g')}")
    return found


def tables(found: dict[str, Any]):
    peak = found["peak"].get("gflops", float("nan"))
    for name, title in NAMES.items():
        cells = {key.split(": ")[1].replace(" ", ", "): c for key, c in found.items() if key.startswith(f"{name}: ")}
        times, rates = [], []
        for size, c in cells.items():
            if "ended" in c:
                times.append((size, "", c["ended"], *[""] * 9))
                continue
            times.append(
                (
                    size,
                    c["n_parameters"],
                    f"{c['seconds']:.2f}",
                    f"{c['flow_seconds']:.2f}",
                    f"{c['polish_seconds']:.2f}",
                    f"{c['polish_steps']} ({c['polish_products']})",
                    f"{c['compile_seconds']:.1f}",
                    f"{c['peak_bytes'] / 2**20:.0f} ({c['import_bytes'] / 2**20:.0f})",
                    f"{c['cap']:.0e}",
                    f"{c['flow_gap']:.1e}",
                    f"{c['certified']:.1e}",
                    c["ending"],
                )
            )
            rates.append(
                (
                    size,
                    c["n_evaluations"],
                    f"{1e6 * c['flow_seconds'] / c['n_evaluations']:.1f}",
                    f"{c['operations'] / 1e3:.0f}",
                    f"{c['operations_compiled'] / 1e3:.0f}",
                    f"{c['gflops']:.2f}",
                    f"{100 * c['gflops'] / peak:.1f} %",
                )
            )
        yield _timing.table(
            f"{title}: CPU seconds and memory to a certificate, one thread, warm",
            TIMES,
            times,
        )
        yield _timing.table(
            f"{title}: the flow's evaluations beside a peak of {peak:.1f} GFLOP/s",
            RATES,
            rates,
        )
        for size, c in cells.items():
            if not c.get("certified", 1) <= 1e-6:
                yield f"  {size}: not certified to 1e-6: {c.get('reason') or c['ended']}"


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell)
