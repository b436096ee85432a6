"""Where training attention leads, for 100 random instances: this library beside the usual training loop.

    python benchmarks/attention.py [--quick] [--json FILE]

Instances: unit gaussian tokens, n = 6 inputs of L = 8 tokens, d = 10, seeds 0 to 99, none left out; K and Q trained
apart, and merged W; the same starts for all methods.

- ours: gradient flow to the cap, certificate and polish; beside it the twin at ten times the cap, which verdicts need.
- loop: what public code does: 2000 steps of normalised gradient descent, step 0.1, on W, or on K and Q each normalised
  apart; double precision. Written here twice, in NumPy and as one compiled JAX loop, and both are timed.
- loop, stable: the same, and better than what is published. As a token's share tends to one, its entry of the gradient
  is a difference that rounding takes over, and the plain loop follows the rounding from then on; here it is minus the
  sum of the other entries. Also with ten times the steps, and from a start of norm one.

Figures are CPU seconds a seed on one thread, warm (the first seed is run twice and counted once). For every direction:
the tokens that it selects (those of largest attention), the maximum-margin problem for those tokens in the norm that
theory predicts (nuclear for K and Q apart, Frobenius for merged W), solved apart, its time not counted, and the gap
`1 - margin(W) / |W| / upper bound` with the solved problem's multipliers: the true distance from the limit, to 1e-9.
`correlation` is the cosine between W and the solved limit. For ours there is also the flow's own state at the cap
before the polish, and the number of seeds whose own certificate, which needs no solver, is small enough.
"""

import sys
from typing import Any, cast

import numpy as np

import _timing

NORM = {"kq": "nuclear", "merged": "frobenius"}
TITLE = {"kq": "K and Q apart", "merged": "merged W"}
STEP, STEPS = 0.1, 2000
LOOPS: dict[str, dict[str, Any]] = {
    "loop, NumPy": {},
    "loop, JAX": {},
    "loop, JAX, stable": {"stable": True},
    "  20000 steps": {"stable": True, "steps": 10 * STEPS},
    "  start of norm 1": {"stable": True, "norm": 1.0},
}
GOAL = 1e-6
N_SEEDS, N_QUICK = 100, 8
SECONDS = 600


def instance(name: str, seed: int) -> tuple[Any, Any, np.ndarray]:
    """`(system, data, start)` of one seed."""
    from omegalimit.catalogue.attention.softmax_attention import SoftmaxAttention

    system = SoftmaxAttention(tokens="gaussian", parametrisation=cast(Any, name), seed=seed)
    data, _ = system.instance()
    return system, data, system.start(data, system.model(name, data.d))


# -- the usual loop --------------------------------------------------------------------------------------------------


def numpy_loop(name: str, data: Any, theta: np.ndarray) -> np.ndarray:
    """The attention matrix after `STEPS` steps, in NumPy."""
    X, z, scores = data.X, data.z, data.scores
    d = X.shape[2]

    def gradient(W):
        h = np.matmul(X, (z @ W.T)[:, :, None])[:, :, 0]
        p = np.exp(h - h.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        f = (p * scores).sum(axis=1, keepdims=True)
        dh = np.exp(-f) * p * (f - scores)
        return np.matmul(dh[:, None, :], X)[:, 0].T @ z

    def step(P, G):
        size = np.sqrt(np.vdot(G, G))
        return P - STEP / size * G if size > 0 else P

    if name == "merged":
        W = theta.reshape(d, d)
        for _ in range(STEPS):
            W = step(W, gradient(W))
        return W
    K, Q = theta.reshape(2, d, -1)
    for _ in range(STEPS):
        G = gradient(K @ Q.T)
        K, Q = step(K, G @ Q), step(Q, G.T @ K)
    return K @ Q.T


def jax_loop(name: str, *, stable: bool = False, steps: int = STEPS):
    """The same as one compiled loop: `(X, z, scores, theta) -> W`."""
    import jax
    import jax.numpy as jnp

    def gradient(W, X, z, scores):
        h = jnp.einsum("nld,nd->nl", X, z @ W.T)
        p = jax.nn.softmax(h, axis=1)
        f = (p * scores).sum(axis=1, keepdims=True)
        dh = jnp.exp(-f) * p * (f - scores)
        if stable:
            winner = jnp.arange(h.shape[1]) == h.argmax(axis=1)[:, None]
            dh = jnp.where(winner, 0.0, dh)
            dh = dh - winner * dh.sum(axis=1, keepdims=True)
        return jnp.einsum("nl,nld->nd", dh, X).T @ z

    def step(P, G):
        size = jnp.linalg.norm(G)
        return P - STEP * G / jnp.where(size > 0, size, 1.0)

    @jax.jit
    def run(X, z, scores, theta):
        d = X.shape[2]
        if name == "merged":
            return jax.lax.fori_loop(0, steps, lambda _, W: step(W, gradient(W, X, z, scores)), theta.reshape(d, d))

        def both(_, KQ):
            K, Q = KQ
            G = gradient(K @ Q.T, X, z, scores)
            return step(K, G @ Q), step(Q, G.T @ K)

        K, Q = jax.lax.fori_loop(0, steps, both, tuple(theta.reshape(2, d, -1)))
        return K @ Q.T

    return run


# -- one cell: every seed of one method ------------------------------------------------------------------------------


def judged(name: str, data: Any, W: np.ndarray) -> dict[str, Any]:
    """The tokens that W selects and how far it is from the limit for them."""
    from omegalimit.limits import MaxMargin
    from omegalimit.solvers import solve

    selection = np.argmax(np.einsum("nld,de,ne->nl", data.X, W, data.z), axis=1)
    D = data.differences(selection)
    d = data.X.shape[2]
    limit = MaxMargin(NORM[name], left=D.reshape(-1, d), right=np.repeat(data.z, D.shape[1], axis=0))
    solution = solve(limit, tol=1e-9)
    solved = solution.certificate
    return {
        "gap": limit.certify(W, solved.multipliers).gap,
        "correlation": float(np.vdot(W, solved.point) / np.linalg.norm(W) / np.linalg.norm(solved.point)),
        "n_not_best": int((selection != data.best).sum()),
        "selection": selection.tolist(),
        "limit": str(solution.status),
        "limit_gap": solved.gap,
    }


def ours(name: str, seed: int) -> dict[str, Any]:
    system, data, start = instance(name, seed)
    seconds, e = _timing.cpu_seconds(lambda: system.experiment(name, data, name, start=start))
    flow = e.flow
    twin = flow.twin.cost.cpu_seconds + flow.twin.polish_cost.cpu_seconds
    W = e.model.matrix(flow.arrival.direction)
    found = {
        "seed": seed,
        "seconds": seconds - twin,
        "flow_seconds": flow.cost.cpu_seconds,
        "polish_seconds": flow.polish_cost.cpu_seconds,
        "twin_seconds": twin,
        "n_evaluations": flow.cost.n_evaluations,
        "ending": str(flow.ending),
        "reason": flow.reason,
        "cap": flow.cap,
        "certified": flow.arrival.gap if flow.polished is None else flow.polished.gap,
        "polished": flow.polished is not None,
        "twin_same_tokens": bool(np.array_equal(flow.twin.arrival.selection, flow.arrival.selection)),
        "unpolished": judged(name, data, W),
    }
    point = W if flow.polished is None else e.model.matrix(flow.polished.direction)
    return found | judged(name, data, point)


def run_cell(method: str, name: str, n_seeds: str) -> dict[str, Any]:
    seeds = [0, *range(int(n_seeds))]
    if method == "ours":
        return {"seeds": [ours(name, seed) for seed in seeds][1:]}
    import jax

    jax.config.update("jax_enable_x64", True)
    options = dict(LOOPS[method])
    norm = options.pop("norm", None)
    compiled = None if "NumPy" in method else jax_loop(name, **options)
    found = []
    for seed in seeds:
        _, data, start = instance(name, seed)
        start = start if norm is None else norm * start / np.linalg.norm(start)
        seconds, W = _timing.cpu_seconds(
            lambda data=data, start=start: (
                numpy_loop(name, data, start)
                if compiled is None
                else np.asarray(compiled(data.X, data.z, data.scores, start))
            )
        )
        found.append({"seed": seed, "seconds": seconds, **judged(name, data, W)})
    return {"seeds": found[1:]}


# -- the table -------------------------------------------------------------------------------------------------------


def measure(*, quick: bool = False) -> dict[str, Any]:
    n_seeds = N_QUICK if quick else N_SEEDS
    found: dict[str, Any] = {}
    for name in NORM:
        for method in ("ours", *LOOPS):
            found[f"{name}: {method}"] = _timing.cell(__file__, method, name, n_seeds, seconds=SECONDS)
            _timing.tell(
                f"attention: {TITLE[name]}, {method.strip()}: {found[f'{name}: {method}'].get('ended', 'done')}"
            )
    return found


def tables(found: dict[str, Any]):
    columns = ("method", "CPU s median", "mean", "max", "gap median", "worst", f"gap <= {GOAL:g}", "correlation mean")
    columns += ("least", "other tokens")
    for name in NORM:
        rows, left = [], []
        for method in ("ours", *LOOPS):
            cell = found[f"{name}: {method}"]
            if "ended" in cell:
                rows.append((method, cell["ended"]) + ("",) * (len(columns) - 2))
                continue
            seeds = cell["seeds"]
            rows.append(_row(method, seeds, [s["seconds"] for s in seeds], seeds))
            if method == "ours":
                rows[-1] = _row("ours, polished", seeds, [s["seconds"] for s in seeds], seeds)
                unpolished = [s["unpolished"] for s in seeds]
                rows.append(_row("  flow at the cap", seeds, [s["flow_seconds"] for s in seeds], unpolished))
                rows.append(("  twin, beside", *_seconds([s["twin_seconds"] for s in seeds]), *[""] * 6))
                left = [s for s in seeds if not s["certified"] <= GOAL]
        n_seeds = len(found[f"{name}: ours"].get("seeds", ()))
        yield _timing.table(f"{TITLE[name]}: {n_seeds} gaussian seeds, n = 6, L = 8, d = 10", columns, rows)
        if n_seeds:
            yield f"ours: own certificate <= {GOAL:g} in {n_seeds - len(left)} of {n_seeds}."
        for s in left:
            yield (
                f"  seed {s['seed']}: certificate {s['certified']:.1e}, ending {s['ending']!r}, cap {s['cap']:g}, "
                f"{s['n_evaluations']} evaluations, limit of the selected tokens {s['limit']}: {s['reason']}"
            )


def _seconds(values) -> list[str]:
    return [f"{x:.3f}" for x in _timing.spread(values).values()]


def _row(label, seeds, seconds, judgements) -> tuple[object, ...]:
    gaps, cosines = [j["gap"] for j in judgements], [j["correlation"] for j in judgements]
    return (
        label,
        *_seconds(seconds),
        f"{np.median(gaps):.1e}",
        f"{max(gaps):.1e}",
        f"{sum(g <= GOAL for g in gaps)} of {len(seeds)}",
        f"{np.mean(cosines):.5f}",
        f"{min(cosines):.4f}",
        f"{sum(j['n_not_best'] > 0 for j in judgements)} of {len(seeds)}",
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell)
