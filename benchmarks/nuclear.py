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
    times = []
    for _ in range(3):
        start = time.process_time()
        certificate = solve(MaxMargin("nuclear", left=left, right=right), polish=polish).certificate
        times.append(time.process_time() - start)
    return sorted(times)[1], certificate.point, certificate.multipliers


def rival(left, right, *, solver):
    import cvxpy as cp
    import numpy as np

    options = {"Clarabel": {}, "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 10**6}}[solver]
    start = time.process_time()
    W = cp.Variable((left.shape[1], right.shape[1]))
    constraint = cp.sum(cp.multiply(left @ W, right), axis=1) >= 1
    assert isinstance(constraint, cp.Constraint)
    problem = cp.Problem(cp.Minimize(cp.normNuc(W)), [constraint])
    problem.solve(solver=solver.upper(), warm_start=False, **options)
    return time.process_time() - start, np.asarray(W.value), np.asarray(constraint.dual_value)


def run_cell(method, name):
    """One cell, in this process; prints a line of JSON."""
    from omegalimit.limits import MaxMargin

    left, right = instance(*SIZES[name])
    if method in ("Clarabel", "SCS"):
        import cvxpy  # noqa: F401  (its import is not the solver's time)

        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + LIMIT_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
        seconds, point, multipliers = rival(left, right, solver=method)
    else:
        seconds, point, multipliers = ours(left, right, polish=method == "ours, polished")
    certificate = MaxMargin("nuclear", left=left, right=right).certify(point, multipliers)
    print(json.dumps({"seconds": seconds, "gap": certificate.gap}))


def cell(method, name):
    """One cell in a child process: its seconds and gap, or what ended it."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    child = subprocess.Popen(
        [sys.executable, __file__, "--cell", method, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | threads,
    )
    try:
        # CPU seconds are counted by the child; a busy machine needs longer on the wall.
        output, errors = child.communicate(timeout=4 * LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {"ended": f"> {LIMIT_SECONDS}"}
    if child.returncode == 0:
        return json.loads(output.splitlines()[-1])
    if child.returncode < 0 and "alloc" not in errors:
        return {"ended": f"> {LIMIT_SECONDS}"}
    return {"ended": "> 8 GiB" if "alloc" in errors or "Memory" in errors else errors.strip().splitlines()[-1][:60]}


def main():
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="d = 16, 32 and 64, without Clarabel at 64")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), help="only these instances")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        return run_cell(*arguments.cell)

    names = arguments.sizes or (list(SIZES)[:3] if arguments.quick else list(SIZES))
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table(title="Nuclear maximum margin: CPU seconds (certified gap), one thread, cold")
    table.add_column("instance")
    table.add_column("constraints", justify="right")
    for method in (*METHODS, "better rival / ours"):
        table.add_column(method, justify="right")
    for name in names:
        n, L, _ = SIZES[name]
        row = [name, str(n * (L - 1))]
        results = {}
        for method in METHODS:
            if arguments.quick and method == "Clarabel" and name == "A(64)":
                row.append("left out")
                continue
            result = results[method] = cell(method, name)
            row.append(result.get("ended") or f"{result['seconds']:.3g} ({result['gap']:.1e})")
            print(f"{name} {method}: {row[-1]}", file=sys.stderr, flush=True)
        times = [results[r].get("seconds") for r in ("Clarabel", "SCS") if r in results]
        finished, mine = [t for t in times if t is not None], results["ours, polished"].get("seconds")
        if mine is None:
            row.append("")
        else:
            row.append(f"{min(finished) / mine:.0f}" if finished else f"> {LIMIT_SECONDS / mine:.0f}")
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
