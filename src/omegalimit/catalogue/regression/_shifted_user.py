"""`negative_shifted_descent` on the user's own data: shift and time by hold-out, and the claims that apply."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...claims import Verdict
from ...data.regression_files import load_regression
from ...limits.spectral_filters import crossing
from ...solvers.shift_selection import ShiftChoice, choose_shift
from .._system import Findings, Progress
from ._shifted_arrays import choice as choice_arrays
from ._shifted_filters import (
    MOST_STEPS,
    Rows,
    anti_shrinkage,
    endpoint_pole,
    filter_formula,
    leading_prefix,
    one_crossing_flow,
)

if TYPE_CHECKING:
    from .negative_shifted_descent import NegativeShiftedDescent

UNUSED = ("n", "head", "single", "floor", "aspect", "sigma", "draws", "sizes", "shifts", "times")
NEEDS_TRUTH = (
    *("bulk-barrier", "trace-sets-floor", "squared-spectrum-sets-exposure", "floor-critical-path"),
    *("beats-endpoints", "risk-ratio-grows", "beats-rescaling", "amplification-rule", "head-worth-amplifying"),
    "hold-out",
)
MOST_GROWTH = 30.0  # nu t: beyond, rounding has grown by 1e13
LEAST_GROWTH = 1e-4  # nu t: below, the filter's slope at its crossing is no more than that
MOST_WORK = 4e9  # multiplications of a run


def check(system: "NegativeShiftedDescent", path: str, progress: Progress) -> Findings:
    """Read the data, choose by the rows held out, and run flow and descent on the training rows."""
    progress("data", 0.0)
    data = load_regression(path, system.target)
    if data.n < 4:
        raise ValueError(f"{path}: {data.n} rows; at least 4 are needed, to train and to hold some out.")
    order = np.random.default_rng(system.seed).permutation(data.n)
    judged = min(max(1, round(system.held_out * data.n)), data.n - 2)
    train, judge = np.sort(order[judged:]), np.sort(order[:judged])
    progress("hold-out", 0.1)
    chosen = choose_shift(data.X, data.y, splits=[(train, judge)], alpha=system.alpha)
    notes = [*system.ignored_options(), *data.notes, *_told(chosen, len(train))]
    not_applicable = dict.fromkeys(NEEDS_TRUTH, "the covariance and the signal of your data are not known")
    not_applicable["two-crossings"] = "it is about large steps, which are not taken here"
    rows, unit = _training_rows(data.X[train], data.y[train])
    verdicts: list[Verdict] = []
    progress("runs", 0.3)
    if rows is None:
        reason = "the training rows are constant: there is nothing to fit"
        not_applicable |= dict.fromkeys(
            ("filter-formula", "one-crossing", "leading-prefix", "endpoint-pole", "anti-shrinkage"), reason
        )
    else:
        even = Rows.of(rows.X)
        if np.any(rows.ridgeless):
            verdicts += [filter_formula(rows, dynamics=kind) for kind in ("flow", "descent")]
        else:
            not_applicable["filter-formula"] = "the target is not correlated with any column"
        verdicts += _at_the_chosen(even, chosen.nu / unit, chosen.t * unit, not_applicable)
        verdicts += _endpoint(rows, even, not_applicable)
    settings = {
        **dataclasses.asdict(system),
        "n": data.n,
        "d": data.d,
        "target": data.target,
        "training_rows": len(train),
        "chosen": _summary(chosen),
        "shift_unit_of_runs": unit,
    }
    progress("done", 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        filters = {"eigenvalues": chosen.fit.eigenvalues, "filter": chosen.fit.filter}
    arrays = {f"{data.target or 'y'}/shifted-choice": choice_arrays(chosen.errors, chosen.nus, chosen.ts, **filters)}
    dataset = next(iter(arrays.values()))
    dataset.attrs |= {
        "chosen_nu": chosen.nu,
        "chosen_t": chosen.t,
        "ridgeless_error": chosen.ridgeless_error,
        "crossing": float(crossing(chosen.nu, chosen.t)),
    }
    return Findings(
        verdicts=tuple(verdicts),
        not_applicable=not_applicable,
        settings=settings,
        arrays=arrays,
        notes=tuple(notes),
    )


def _summary(chosen: ShiftChoice) -> dict[str, Any]:
    endpoints = chosen.errors[:, np.isinf(chosen.ts)]
    return {
        "nu": chosen.nu,
        "t": chosen.t,
        "error": chosen.error,
        "ridgeless_error": chosen.ridgeless_error,
        "best_endpoint_error": float(endpoints.min()) if endpoints.size else math.inf,
        "best_unshifted_error": float(chosen.errors[chosen.nus == 0].min()) if np.any(chosen.nus == 0) else math.inf,
        "candidates": chosen.errors.size,
        "rows_held_out": chosen.n_held_out,
        "error_bound": chosen.error_bound,
        "oracle_factor": chosen.oracle_factor,
        "smallest_eigenvalue": float(chosen.fit.eigenvalues[-1]) if chosen.fit.eigenvalues.size else math.nan,
        "modes": int(chosen.fit.eigenvalues.size),
        "modes_above_ridgeless": int((chosen.fit.filter > 1).sum()),
        "unresolved_eigenvalues": chosen.fit.unresolved.tolist(),
    }


def _told(chosen: ShiftChoice, n_train: int) -> list[str]:
    found = _summary(chosen)
    notes = [
        f"chosen on {found['rows_held_out']} rows held out: nu = {chosen.nu:.6g}, t = {chosen.t:.6g}; mean squared "
        f"error {chosen.error:.6g} (ridgeless {chosen.ridgeless_error:.6g}, best admissible endpoint of the grid "
        f"{found['best_endpoint_error']:.6g}, best without a shift {found['best_unshifted_error']:.6g})."
    ]
    if found["modes"]:
        beyond = chosen.nu >= found["smallest_eigenvalue"]
        side = "beyond" if beyond else "below"
        notes.append(
            f"the shift lies {side} the smallest nonzero eigenvalue {found['smallest_eigenvalue']:.6g} of {n_train} "
            f"training rows; {found['modes_above_ridgeless']} of {found['modes']} modes are above ridgeless."
        )
    if chosen.oracle_factor == math.inf:
        least = 4 * math.log(2 * chosen.errors.size / chosen.alpha)
        notes.append(
            f"the hold-out inequality says nothing with {found['rows_held_out']} rows held out for "
            f"{found['candidates']} pairs: it needs more than {least:.0f}."
        )
    if left := found["unresolved_eigenvalues"]:
        shown = ", ".join(f"{value:.2g}" for value in left[:5]) + (", ..." if len(left) > 5 else "")
        notes.append(f"{len(left)} directions are zero to rounding and were left out (eigenvalues {shown}).")
    return notes


def _training_rows(X: np.ndarray, y: np.ndarray) -> tuple[Rows | None, float]:
    """The centred training rows at scale one, as a square matrix with the same X'X/n and X'y/n in their row space.

    Outside of the row space rounding grows like `exp(nu t)`; and r rows are as good as n when n is larger. The second
    value turns shifts into the user's units.
    """
    power = math.frexp(float(np.abs(X).max()))[1] if np.any(X) else 0
    X = np.ldexp(X, -power)
    X, y = X - X.mean(axis=0), y - y.mean()
    size = float(np.abs(y).max())
    y = y / size if size > 0 else y
    if not np.any(np.abs(X) > X.shape[0] * np.finfo(float).eps):
        return None, 1.0
    Q, R = np.linalg.qr(X @ Rows.of(X, y).V)
    scale = math.sqrt(R.shape[0] / len(y))  # runs divide by the number of their rows
    return Rows.of(R * scale, Q.T @ y * scale), math.ldexp(1.0, 2 * power)


def _at_the_chosen(rows: Rows, nu: float, t: float, not_applicable: dict[str, str]) -> list[Verdict]:
    """Prefix and crossing at the chosen pair, in the runs' units."""
    reason = None
    if nu == 0:
        reason = "the chosen shift is 0: no mode is above ridgeless"
    elif math.isinf(t):
        reason = "an endpoint was chosen: every mode is above ridgeless"
    elif nu * t > MOST_GROWTH or float(rows.m[-1]) * t > _most_steps(rows):
        reason = f"a run to the chosen time would take m_max t = {float(rows.m[-1]) * t:.2g} steps or lose its digits"
    if reason is not None:
        not_applicable |= dict.fromkeys(("one-crossing", "leading-prefix"), reason)
        return []
    prefix = leading_prefix(rows, nu, t=t)
    if nu * t < LEAST_GROWTH:
        not_applicable["one-crossing"] = (
            f"the chosen shift has not begun to act at the chosen time (nu t = {nu * t:.2g}): the crossing lies far "
            "above all eigenvalues, where the filter is flat"
        )
        return [prefix]
    return [one_crossing_flow([(nu, t)]), prefix]


def _endpoint(rows: Rows, even: Rows, not_applicable: dict[str, str]) -> list[Verdict]:
    """Pole and anti-shrinkage, where runs can reach the endpoint."""
    steps, most = 70 * float(rows.m[-1] / rows.m[0]), _most_steps(rows)
    if rows.m.size < 2 or steps > most:
        reason = "there is one direction only" if rows.m.size < 2 else f"a run to the endpoint takes {steps:.1e} steps"
        not_applicable |= dict.fromkeys(("endpoint-pole", "anti-shrinkage"), reason)
        return []
    return [endpoint_pole(even, most_steps=most), anti_shrinkage(even)]


def _most_steps(rows: Rows) -> int:
    """Steps of two products each that a run may take."""
    return min(MOST_STEPS, round(MOST_WORK / (2 * rows.X.size)))
