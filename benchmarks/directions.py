"""Time to a direction: the l2 maximum margin of forty points in ten dimensions, through the origin, side by side.

    python benchmarks/directions.py [--quick]

The instance is separable (seed 0, margin 0.46). Wanted: a direction within 1e-3, 1e-6 and 1e-10 radians of the true
one, which is computed in rational arithmetic and proved by its multipliers. Every method runs with all the settings of
its sweep (penalties, tolerances, step sizes, numbers of steps); for each error the cheapest counts that reaches it, and
where none does, the cell says "never" and how near the best of them came. Which setting that is cannot be known without
the answer; ours alone says how far it is, by its certificate.

- gradient descent: logistic loss, step size 1 and 1.9 over the smoothness, in a compiled loop (`separable_descent`).
- normalised descent: gradient over loss (exponential), in a compiled loop: its direction error is of order 1/steps.
- LinearSVC: its default loss, the squared hinge, with C = 1 to 1e12; and the hinge in the dual, both without intercept.
- SVC: linear kernel, every row and its negative, so that the intercept is zero.
- Clarabel: `min |w|^2, Z w >= 1` in CVXPY, whose compilation counts, as a user's does.
- ours: `solve(MaxMargin("l2", rows=Z))`, with and without polish, the certificate included.

CPU seconds of a process on one BLAS thread, imports and compilation by JAX not counted; a run under a second is the
median of five. In brackets the method's time over ours.
"""

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import _timing

ERRORS = (1e-3, 1e-6, 1e-10)
METHODS = (
    "gradient descent",
    "normalised descent",
    "LinearSVC, default",
    "LinearSVC, hinge",
    "SVC",
    "Clarabel",
    "ours",
)
SECONDS = 120
Settings = Iterator[tuple[str, Callable[[], Any]]]


def instance():
    import numpy as np

    g = np.random.default_rng(0)
    normal = g.standard_normal(10)
    normal /= np.linalg.norm(normal)
    X = g.standard_normal((40, 10))
    y = np.sign(X @ normal)
    return y[:, None] * (X + 0.3 * y[:, None] * normal)


def truth(Z):
    """The direction, exact before its rounding: w = Z_S' a with z_i'w = 1 on S, a > 0, and z_i'w >= 1 elsewhere."""
    import numpy as np

    from omegalimit import MaxMargin, solve

    support = [int(i) for i in solve(MaxMargin("l2", rows=Z)).certificate.support]
    rows = [[Fraction(float(x)) for x in row] for row in Z]
    gram = [[_dot(rows[i], rows[j]) for j in support] + [Fraction(1)] for i in support]
    for k in range(len(support)):
        for i in range(len(support)):
            if i != k:
                ratio = gram[i][k] / gram[k][k]
                gram[i] = [x - ratio * y for x, y in zip(gram[i], gram[k], strict=True)]
    a = [gram[k][-1] / gram[k][k] for k in range(len(support))]
    w = [sum((c * rows[i][j] for c, i in zip(a, support, strict=True)), Fraction(0)) for j in range(Z.shape[1])]
    assert min(a) > 0
    assert all(_dot(row, w) >= 1 for row in rows)
    found = np.array([float(x) for x in w])
    return found / np.linalg.norm(found)


def _dot(x: list[Fraction], y: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def angle(w, u) -> float:
    import numpy as np

    along = float(w @ u)
    return float(np.arctan2(np.linalg.norm(w - along * u), along))


def descents(Z, most: int) -> Settings:
    from omegalimit.flows.separable_descent import separable_descent, smoothness

    unit = 1 / smoothness(Z)
    for share in (1.0, 1.9):
        separable_descent(Z, step_size=share * unit, n_steps=10)
        for n_steps in _powers(100, most):
            yield (
                f"{share:g} / smoothness, {n_steps:.0e} steps",
                lambda eta=share * unit, k=n_steps: separable_descent(Z, step_size=eta, n_steps=k, n_kept=2).w[-1],
            )


def normalised(Z, most: int) -> Settings:
    import jax
    import numpy as np

    from omegalimit._numerics import double_precision

    longest = float(np.linalg.norm(Z, axis=1).max())

    @jax.jit
    def run(Z, eta, n_steps):
        def step(carry):
            k, w = carry
            return k + 1, w + eta * jax.nn.softmax(-Z @ w) @ Z

        return jax.lax.while_loop(lambda c: c[0] < n_steps, step, (0, jax.numpy.zeros(Z.shape[1])))[1]

    def weights(eta: float, n_steps: int):
        with double_precision():
            return np.asarray(run(Z, eta, n_steps))

    weights(1.0, 10)
    for share in (1.0, 10.0, 100.0):
        for n_steps in _powers(100, most):
            yield (
                f"{share:g} / longest row, {n_steps:.0e} steps",
                lambda eta=share / longest, k=n_steps: weights(eta, k),
            )


def _powers(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 10


def machines(Z, method: str, quick: bool) -> Settings:
    import numpy as np
    from sklearn.svm import SVC, LinearSVC

    signs = np.where(np.arange(len(Z)) % 2, 1, -1)
    X = signs[:, None] * Z
    penalties = (1e2, 1e4) if quick else tuple(10.0**k for k in range(0, 13, 2))
    tolerances = (1e-4, 1e-9) if quick else tuple(10.0**-k for k in range(2, 14, 2))
    for C in penalties:
        for tol in tolerances:
            if method == "SVC":
                model = SVC(kernel="linear", C=C, tol=tol)
                yield (
                    f"C = {C:g}, tol {tol:.0e}",
                    lambda m=model: m.fit(np.vstack([Z, -Z]), np.repeat([1, -1], len(Z))).coef_[0],
                )
            else:
                loss = "hinge" if method.endswith("hinge") else "squared_hinge"
                model = LinearSVC(loss=loss, C=C, tol=tol, fit_intercept=False, random_state=0, max_iter=10**5)
                yield f"C = {C:g}, tol {tol:.0e}", lambda m=model: m.fit(X, signs).coef_[0]


def programs(Z) -> Settings:
    import cvxpy as cp
    import numpy as np

    def weights(tolerance: float):
        w = cp.Variable(Z.shape[1])
        settings = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
        cp.Problem(cp.Minimize(cp.sum_squares(w)), [Z @ w >= 1]).solve(solver="CLARABEL", **settings)
        return np.asarray(w.value)

    weights(1e-3)
    for k in range(2, 15):
        yield f"tolerance 1e-{k:02d}", lambda tol=10.0**-k: weights(tol)


def ours(Z) -> Settings:
    from omegalimit import MaxMargin, solve

    solve(MaxMargin("l2", rows=Z))
    for polish in (False, True):
        yield (
            "polished" if polish else "not polished",
            lambda polish=polish: solve(MaxMargin("l2", rows=Z), polish=polish).certificate.point,
        )


def run_cell(method: str, quick: str) -> dict[str, Any]:
    """Every setting of one method: how near it came, in what time."""
    import warnings

    warnings.simplefilter("ignore")  # rivals that do not converge say so; here their errors are measured
    Z = instance()
    u = truth(Z)
    is_quick = quick == "quick"
    settings = {
        "gradient descent": lambda: descents(Z, 10**5 if is_quick else 10**7),
        "normalised descent": lambda: normalised(Z, 10**5 if is_quick else 10**7),
        "Clarabel": lambda: programs(Z),
        "ours": lambda: ours(Z),
    }.get(method, lambda: machines(Z, method, is_quick))
    tried = []
    for name, work in settings():
        seconds, w = _timing.cpu_seconds(work)
        if seconds < 1:
            seconds = _timing.spread([seconds, *(_timing.cpu_seconds(work)[0] for _ in range(4))])["median"]
        # A solver that gave up returns nothing, or nonsense.
        error = angle(w, u) if w is not None and w.shape == u.shape else math.pi
        tried.append({"setting": name, "seconds": seconds, "error": error})
    found: dict[str, Any] = {"best": min(tried, key=lambda t: t["error"]), "n_settings": len(tried)}
    for target in ERRORS:
        reached = [t for t in tried if t["error"] <= target]
        found[f"{target:.0e}"] = min(reached, key=lambda t: t["seconds"]) if reached else None
    return found


def measure(*, quick: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for method in METHODS:
        found[method] = _timing.cell(__file__, method, "quick" if quick else "full", seconds=SECONDS)
        _timing.tell(f"directions: {method}: {[_shown(found[method], t, math.nan) for t in ERRORS]}")
    return found


def _shown(cell: dict[str, Any], target: float, ours: float) -> str:
    if "ended" in cell:
        return cell["ended"]
    reached = cell[f"{target:.0e}"]
    if reached is None:
        return f"never ({cell['best']['error']:.0e})"
    ratio = reached["seconds"] / ours
    return f"{reached['seconds']:.2g}" + (f" ({ratio:.2g})" if math.isfinite(ratio) else "")


def tables(found: dict[str, Any]):
    mine = {t: ((found["ours"].get(f"{t:.0e}") or {}).get("seconds", math.nan)) for t in ERRORS}
    yield _timing.table(
        "CPU seconds to a direction error (time over ours); never (the least error of any setting)",
        ("method", "settings", *(f"{t:.0e} rad" for t in ERRORS)),
        [
            (method, cell.get("n_settings", ""), *(_shown(cell, t, mine[t]) for t in ERRORS))
            for method, cell in found.items()
        ],
    )
    yield _timing.table(
        "The cheapest setting that reaches it",
        ("method", *(f"{t:.0e} rad" for t in ERRORS)),
        [
            (method, *((cell.get(f"{t:.0e}") or {}).get("setting", "-") for t in ERRORS))
            for method, cell in found.items()
        ],
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell)
