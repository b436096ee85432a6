"""Gradient flow from a small start past its saddles: this library, and integrators of ODEs on the plain weights.

    python benchmarks/saddles.py [--quick] [--sizes NAME ...]

Data, seed 1: 10 rows of 20 standard normal features, y standard normal; loss `|y - X k|^2 / 2n`. Two layers:
`k = u^2 - v^2`, all weights s at the start. Three layers: `k = a b c`, from s times numbers between 0.5 and 2.

Ours is `diagonal_flow` at its defaults, which finds the end itself; the median of three. The others get the weights in
double precision, the field and its exact derivative in NumPy or compiled by JAX (compiling not counted), and the time
at which ours ended. Each runs twice: with its own default tolerances (diffrax has none: relative 1e-3, absolute 1e-6,
SciPy's), and with relative 1e-8 and absolute 0, the only tolerance that sees weights of 1e-60. Every cell is a process
of its own on one BLAS thread, CPU seconds, ended after 60. `--quick` is the start of 1e-60 alone, ended after 30.

What an integrator came to is judged by the certificate of the limit that theory predicts (`Interpolation.certify` with
the modified l1 norm): it has arrived when the relative gap is at most 1e-6 and the residual at most 1e-6 of y. One that
has not is shown with the share of the loss it has left, and with what it said of itself. An end that is right says
nothing of the way: beside it stands by how much the time at which half of the loss is gone differs from ours.
"""

import sys
from collections.abc import Sequence
from typing import Any

import _timing

LIMIT_SECONDS, QUICK_SECONDS = 60, 30
EQUAL_GAP, EQUAL_RESIDUAL = 1e-6, 1e-6
OURS = "ours"
SCIPY = ("LSODA", "BDF", "Radau", "RK45", "DOP853")
DIFFRAX = ("Kvaerno5", "Tsit5", "Dopri8")
TOLERANCES = {"default": (1e-3, 1e-6), "1e-8, 0": (1e-8, 0.0)}
METHODS = (OURS, *(f"{name} ({tolerance})" for name in (*SCIPY, *DIFFRAX) for tolerance in TOLERANCES))
SIZES = {
    "two layers, s = 1e-2": (2, -2),
    "two layers, s = 1e-16": (2, -16),
    "two layers, s = 1e-60": (2, -60),
    "three layers, s = 1e-2": (3, -2),
    "three layers, s = 1e-4": (3, -4),
    "three layers, s = 1e-60": (3, -60),
}
QUICK = ("two layers, s = 1e-60", "three layers, s = 1e-60")
QUICK_METHODS = (
    OURS,
    *(f"{name} ({tolerance})" for name in ("LSODA", "BDF", "Radau", "DOP853") for tolerance in TOLERANCES),
    *(f"{name} (1e-8, 0)" for name in ("Tsit5", "Dopri8", "Kvaerno5")),
)


def instance(layers: int, exponent: int) -> dict[str, Any]:
    """Model, data, shape and log of s."""
    import numpy as np

    from omegalimit.models import PowerDifference, ProductNeurons

    n, d = 10, 20
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    shape = rng.uniform(0.5, 2, (d, 3)) if layers == 3 else np.ones((d, 2))
    return {
        "model": ProductNeurons(3) if layers == 3 else PowerDifference(2),
        "X": X / np.sqrt(n),
        "y": y / np.sqrt(n),
        "shape": shape,
        "log_s": exponent * np.log(10.0),
    }


def predicted(given: dict[str, Any]):
    """The limit problem, and its multipliers."""
    from omegalimit.limits import Interpolation, ModifiedL1
    from omegalimit.limits.growth_times import deep_growth_times, two_layer_growth_times
    from omegalimit.solvers import solve

    if given["model"].order == 2:
        times = two_layer_growth_times(*given["model"].extreme_eigenvalues(given["X"].shape[1]))
    else:
        times = deep_growth_times(given["shape"])
    limit = Interpolation(ModifiedL1(times.t_plus, times.t_minus), given["X"], given["y"])
    return limit, solve(limit).certificate.multipliers


def ours(given: dict[str, Any]):
    from omegalimit.flows import diagonal_flow

    return diagonal_flow(given["model"], given["X"], given["y"], shape=given["shape"], log_s=given["log_s"])


def field(given: dict[str, Any]):
    """`(f(t, y), J(t, y))` of the flat weights, in NumPy."""
    import numpy as np

    model, X, y = given["model"], given["X"], given["y"]
    d, m = given["shape"].shape
    gram, rows = X.T @ X, np.arange(d)

    def derivative(_t, flat):
        theta = flat.reshape(d, m)
        return ((X.T @ (y - X @ model.k(theta)))[:, None] * model.gradient(theta)).ravel()

    def jacobian(_t, flat):
        theta = flat.reshape(d, m)
        u, g = X.T @ (y - X @ model.k(theta)), model.gradient(theta)
        J = -g[:, :, None, None] * gram[:, None, :, None] * g[None, None, :, :]
        J[rows, :, rows, :] += u[:, None, None] * model.hessian(theta)
        return J.reshape(d * m, d * m)

    return derivative, jacobian


def by_scipy(name: str, given: dict[str, Any], end: float, rtol: float, atol: float):
    """Times, weights, what the integrator says of itself, and how often it took the field."""
    import warnings

    import numpy as np
    from scipy.integrate import solve_ivp

    derivative, jacobian = field(given)
    start = (np.exp(given["log_s"]) * given["shape"]).ravel()
    options: dict[str, Any] = {"jac": jacobian} if name in ("LSODA", "BDF", "Radau") else {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = solve_ivp(derivative, (0, end), start, method=name, rtol=rtol, atol=atol, **options)
    return found.t, found.y.T, "success" if found.success else found.message, int(found.nfev)


def by_diffrax(name: str, given: dict[str, Any], end: float, rtol: float, atol: float, limit_seconds: int):
    """The seconds without compiling, and as above with its steps."""
    import diffrax  # pyright: ignore[reportMissingImports] - of the extra `benchmarks`
    import jax
    import jax.numpy as jnp
    import numpy as np

    jax.config.update("jax_enable_x64", True)  # this process is its own
    X, y, three = jnp.asarray(given["X"]), jnp.asarray(given["y"]), given["model"].order == 3
    shape = given["shape"].shape

    def loss(theta):
        k = jnp.prod(theta, axis=1) if three else theta[:, 0] ** 2 - theta[:, 1] ** 2
        return 0.5 * jnp.sum((y - X @ k) ** 2)

    term = diffrax.ODETerm(lambda _t, flat, _args: -jax.grad(loss)(flat.reshape(shape)).ravel())
    controller = diffrax.PIDController(rtol=rtol, atol=atol)

    @jax.jit
    def run(start, t1):
        solver = getattr(diffrax, name)()
        return diffrax.diffeqsolve(
            term,
            solver,
            0.0,
            t1,
            None,
            start,
            stepsize_controller=controller,
            max_steps=10**7,
            throw=False,
            saveat=saved(t1),
        )

    def saved(t1):
        return diffrax.SaveAt(ts=t1 * jnp.linspace(0.0, 1.0, 2001))

    start = jnp.asarray(np.exp(given["log_s"]) * given["shape"]).ravel()
    jax.block_until_ready(run(start, 1e-3))
    _timing.limit_this_process(limit_seconds)
    seconds, found = _timing.cpu_seconds(lambda: jax.block_until_ready(run(start, end)))
    said = "success" if bool(found.result == diffrax.RESULTS.successful) else "a message of failure"
    return seconds, (np.asarray(found.ts), np.asarray(found.ys), said, int(found.stats["num_steps"]))


def half_time(time, loss) -> float | None:
    """When half of the loss was gone, straight between two states; `None` where it never was."""
    import numpy as np

    below = np.flatnonzero(loss < 0.5 * loss[0])
    if not below.size:
        return None
    j = int(below[0])
    share = (loss[j - 1] - 0.5 * loss[0]) / (loss[j - 1] - loss[j])
    return float(time[j - 1] + share * (time[j] - time[j - 1]))


def run_cell(method: str, name: str, limit_seconds: str) -> dict[str, Any]:
    """One cell, in this process."""
    import numpy as np

    given = instance(*SIZES[name])
    X, y = given["X"], given["y"]
    limit, multipliers = predicted(given)
    flow = ours(given)
    half = half_time(np.exp(flow.log_t), flow.loss)
    assert half is not None
    if method == OURS:
        runs = [_timing.cpu_seconds(lambda: ours(given)) for _ in range(3)]
        seconds = _timing.spread([s for s, _ in runs])["median"]
        k, said, count, late = flow.limit, flow.ending.value, flow.cost.n_evaluations, 0.0
    else:
        which, tolerance = method.removesuffix(")").split(" (")
        rtol, atol = TOLERANCES[tolerance]
        end = float(np.exp(flow.log_t[-1]))
        if which in DIFFRAX:
            seconds, (time, theta, said, count) = by_diffrax(which, given, end, rtol, atol, int(limit_seconds))
        else:
            by_scipy(which, given, 1e-3, rtol, atol)  # the import of the method is not its time
            _timing.limit_this_process(int(limit_seconds))
            seconds, (time, theta, said, count) = _timing.cpu_seconds(lambda: by_scipy(which, given, end, rtol, atol))
        path = given["model"].k(theta.reshape(-1, *given["shape"].shape))
        finite = np.isfinite(path).all(axis=1)
        other = half_time(time[finite], 0.5 * np.sum((y - path[finite] @ X.T) ** 2, axis=1))
        k, late = path[-1], None if other is None else other / half - 1
    finite = bool(np.isfinite(k).all())
    residual = float(np.linalg.norm(y - X @ k) / np.linalg.norm(y)) if finite else None
    gap = limit.certify(k, multipliers).gap if finite else None
    return {"seconds": seconds, "gap": gap, "residual": residual, "late": late, "said": said, "count": count}


def arrived(cell: dict[str, Any]) -> bool:
    """Whether a cell's point is the limit."""
    gap, residual = cell.get("gap"), cell.get("residual")
    return gap is not None and residual is not None and abs(gap) <= EQUAL_GAP and residual <= EQUAL_RESIDUAL


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    most = QUICK_SECONDS if quick else LIMIT_SECONDS
    for name in sizes or (QUICK if quick else SIZES):
        for method in QUICK_METHODS if quick else METHODS:
            cell = found[f"{name}: {method}"] = _timing.cell(__file__, method, name, most, seconds=most)
            _timing.tell(f"saddles: {name}, {method}: {_shown(cell)}")
    return found


def _shown(cell: dict[str, Any]) -> str:
    if "ended" in cell:
        return cell["ended"]
    if arrived(cell):
        return f"{cell['seconds']:.3g} ({abs(cell['gap']):.0e}) {100 * cell['late']:+.1f}%"
    left = "not finite" if cell["residual"] is None else f"{cell['residual'] ** 2:.2g} of the loss left"
    if cell["residual"] is not None and cell["residual"] <= EQUAL_RESIDUAL:
        left = f"another interpolant, gap {cell['gap']:.0e}"
    return f"never: {left} after {cell['seconds']:.2g} s, {'success' if cell['said'] == 'success' else 'failure'}"


def tables(found: dict[str, Any]):
    names = list(dict.fromkeys(key.split(": ")[0] for key in found))
    methods = list(dict.fromkeys(key.split(": ")[1] for key in found))
    yield _timing.table(
        "Flow of a diagonal network to its certified limit, n = 10, d = 20: CPU seconds (gap) lateness, one thread",
        ("method (relative, absolute tolerance)", *names),
        [(method, *(_shown(found[f"{name}: {method}"]) for name in names)) for method in methods],
        caption="lateness: of the moment when half of the loss is gone. never: the integrator's own end, judged by the "
        "certificate; success or failure is what it reported.",
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
