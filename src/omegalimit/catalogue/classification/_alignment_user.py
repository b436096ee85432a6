"""`early_alignment` on the user's own rows: separable or not, with a proof; the margin; steps until aligned."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ...claims import Verdict
from ...data.classification import ClassificationData
from ...data.classification_files import load_classification
from ...flows.separable_descent import smoothness
from ...flows.separable_flow import SeparableEnding, separable_flow
from ...limits import MaxMargin
from ...solvers import solve
from .._system import Findings, Progress
from . import _alignment_claims as claims
from ._alignment_answer import sentences, summary
from ._alignment_arrays import arrays
from ._alignment_instance import Instance, log_unit, of_solution, refusal
from ._alignment_path import Path
from ._alignment_radial import radial_tangential
from ._alignment_runs import Diverged, StepsTooLate, descent, flow
from ._alignment_times import LEAST_RATIO, exponential_time

if TYPE_CHECKING:
    from .early_alignment import EarlyAlignment

LIMITS = (
    *("radial-tangential", "radius-law", "balance-solution", "transverse-limit", "direction-law"),
    *("exponential-time", "loss-law", "residual-identity"),
)
ON_THE_PAIR = ("symmetric-pair", "power-alignment")
MOST_WORK = 4e9
"""Multiplications of the exact steps."""

MOST_FLOW = 1e8
"""Of n min(n, d)^2, for rows that the flow is run on: a Jacobian takes as many multiplications."""

LEAST_WEIGHT = 1e-150
"""Of the largest weight: below, sums of the weights' products lose it."""

LARGEST_EXPONENT = 20
"""Rows of sizes up to 2^20, and down to its inverse, keep their units."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """The rows of a file, ready to run: `Z 2^exponent` are the user's; `weights` of sum one."""

    data: ClassificationData
    Z: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    exponent: int
    notes: tuple[str, ...]


def check(system: "EarlyAlignment", path: str, progress: Progress) -> Findings:
    """Read the data, settle whether they are separable, and answer how long alignment takes."""
    progress("data", 0.0)
    made = prepared(system, path)
    settings: dict[str, Any] = {**dataclasses.asdict(system), "rows": made.data.n, "columns": made.Z.shape[1]}
    notes = [*system.ignored_options(), *made.notes]
    not_applicable: dict[str, str] = dict.fromkeys(
        ON_THE_PAIR, "it is about two rows of a special kind, not about your data"
    )
    progress("maximum margin", 0.1)
    if not made.Z.any():
        raise ValueError(f"{path}: every entry of the rows is zero: there is nothing to separate.")
    solution = solve(MaxMargin("l2", rows=made.Z))
    if solution.status != "optimal":
        proof = refusal(solution, made.Z)
        notes += [proof, *_settled(made, system, separable=None if solution.farkas is None else False)]
        reason = "the rows are not separable" if solution.farkas is not None else "separability is not decided"
        not_applicable |= dict.fromkeys(LIMITS, reason)
        progress("done", 1.0)
        settings |= {"separable": None if solution.farkas is None else False}
        unique = tuple(dict.fromkeys(notes))
        return Findings(verdicts=(), not_applicable=not_applicable, settings=settings, notes=unique)
    rows = of_solution("your rows", made.Z, solution, made.weights)
    notes += _proof(made, rows)
    settings |= {"separable": True, "law": rows.summary(made.exponent), "unit_exponent": made.exponent}
    if system.fine <= rows.angle_error:
        raise ValueError(
            f"{path}: the maximum-margin direction is certified to {rows.angle_error:.1e} rad; "
            f"`fine` must be larger (got {system.fine!r})."
        )
    reason = None
    if rows.d == 1:
        reason = "there is one column only, and no direction to align"
    elif _work(made.Z) > MOST_FLOW:
        reason = f"{made.data.n} x {rows.d} numbers are too many to run the flow on"
    if reason is not None:
        notes.append(f"{reason}: only separability and margin are answered.")
        not_applicable |= dict.fromkeys(LIMITS, reason)
        return Findings(verdicts=(), not_applicable=not_applicable, settings=settings, notes=tuple(notes))
    verdicts: list[Verdict] = []
    paths: list[Path] = []
    answers = {}
    for count, loss in enumerate(system.losses):
        progress(f"flow, {loss} loss", 0.2 + 0.8 * count / len(system.losses))
        by_flow = flow(rows, loss, until=system.until_log_time, fine=system.fine)
        verdicts.append(radial_tangential([by_flow]))
        begins_weak = not math.isfinite(by_flow.first_times(np.array([system.weak]))[0])
        verdicts += _limits(system, by_flow, not_applicable, begins_weak=begins_weak)
        progress(f"descent, {loss} loss", 0.5 + 0.5 * count / len(system.losses))
        step, told = _step(system, made, loss)
        notes += told
        try:
            by_steps, told = _descent(system, rows, loss, step)
        except StepsTooLate as error:
            raise ValueError(f"{path}: {error}") from None
        notes += told
        if isinstance(by_steps, str):
            notes.append(by_steps)
            paths.append(by_flow)
            continue
        verdicts += _limits(system, by_steps, not_applicable, begins_weak=begins_weak)
        answers[loss] = summary(system, by_steps, made.exponent)
        notes += sentences(system, answers[loss], rows, loss)
        paths += [by_flow, by_steps]
    found = arrays(paths, finest=min(0.01, system.fine / 3))
    for name, dataset in found.items():
        if name.endswith("alignment-times"):
            dataset.attrs |= {"weak": system.weak, "fine": system.fine}
    progress("done", 1.0)
    return Findings(
        verdicts=tuple(verdicts),
        not_applicable=not_applicable,
        settings={**settings, "steps_until": answers},
        arrays=found,
        notes=tuple(dict.fromkeys(notes)),
    )


def prepared(system: "EarlyAlignment", path: str) -> Prepared:
    """The rows in units of a power of two near one, an intercept as a last column, and weights from their column.

    Raises `ValueError` for a column of weights that is not there or not positive, and for what cannot be read.
    """
    data = load_classification(path, system.target, positive=system.positive)
    notes: list[str] = []
    column = system.weight_column
    if column is not None:
        if column not in data.names:
            listed = ", ".join(f"`{name}`" for name in data.names[:8]) + (", ..." if data.d > 8 else "")
            raise ValueError(f"{path}: there is no column `{column}` for the weights; there are: {listed}.")
        if data.d == 1:
            raise ValueError(f"{path}: `{column}` is the only column besides the target; no feature is left.")
        at = data.names.index(column)
        try:
            data = ClassificationData(
                X=np.delete(data.X, at, axis=1),
                y=data.y,
                weights=data.X[:, at],
                names=data.names[:at] + data.names[at + 1 :],
                target=data.target,
                name=data.name,
                notes=tuple(note for note in data.notes if note.startswith(f"`{data.target}`")),
            )
        except ValueError as error:
            raise ValueError(f"{path}: {str(error).replace('`weights', f'`{column}')}") from None
        notes.append(f"weights: column `{column}`, divided by its sum.")
    Z = np.asarray(data.Z)
    if system.intercept:
        Z = np.column_stack([Z, data.y])
        notes.append(
            "the intercept is a column of ones: descent trains it like any weight, and it counts in the norm of the "
            "margin."
        )
    c = np.ones(data.n) if data.weights is None else np.asarray(data.weights)
    if not float(c.min() / c.max()) >= LEAST_WEIGHT:
        raise ValueError(
            f"{path}: the weights `{column}` reach from {c.min():g} to {c.max():g}: the least must be at least "
            f"{LEAST_WEIGHT:g} of the largest; leave out rows that are not to count."
        )
    exponent = math.frexp(float(np.abs(Z).max()))[1] if np.any(Z) else 0
    exponent = 0 if abs(exponent) <= LARGEST_EXPONENT else exponent
    if exponent:
        notes.append(
            f"the rows are divided by 2^{exponent} for the run: its log times, in verdicts, pictures and "
            f"`--until-log-time`, are those of these rows; for yours subtract {log_unit(exponent):.6g}. Step sizes, "
            "steps, margins and b are given for your rows."
        )
    return Prepared(
        data=data,
        Z=np.ldexp(Z, -exponent),
        weights=c / c.max() / float((c / c.max()).sum()),
        exponent=exponent,
        notes=(*data.notes, *notes),
    )


def _proof(made: Prepared, rows: Instance) -> list[str]:
    unit = math.ldexp(1.0, made.exponent)
    reach = rows.law.dimension
    shown = ", ".join(map(str, rows.support[:8])) + (", ..." if len(rows.support) > 8 else "")
    notes = [
        f"separable: in the certified direction every row has a margin of at least {rows.margin.lower * unit:.6g}, and "
        f"no direction has more than {rows.margin.upper * unit:.6g} (relative gap {rows.margin.gap:.1e}).",
        f"{len(rows.support)} support vectors of {rows.n} rows ({shown}; the first row is 0); their parts across the "
        f"maximum margin reach {reach} of {rows.d - 1} directions.",
    ]
    if rows.balance is None and rows.undecided is None:
        notes.append(
            f"{rows.no_balance}: the angle falls more slowly than 1 / log t (by a factor of log log t), so that "
            "`direction-law` cannot hold; the other laws that need a balance are not decided."
        )
    elif rows.balance is None:
        notes.append(f"{rows.undecided}.")
    if rows.law.ambiguous.size:
        close = ", ".join(map(str, rows.law.ambiguous[:6]))
        notes.append(f"rows {close} may be support vectors as well: the certificate cannot tell, and the law says no.")
    return notes


def _settled(made: Prepared, system: "EarlyAlignment", *, separable: bool | None) -> list[str]:
    """Where the flow ends on rows that nothing separates."""
    notes = [made.data.contradiction] if made.data.contradiction else []
    if separable is not False or _work(made.Z) > MOST_FLOW:
        return notes
    loss, unit = system.losses[0], log_unit(made.exponent)
    run = separable_flow(made.Z, loss=loss, weights=made.weights, until_log_time=system.until_log_time)
    size = math.ldexp(float(np.linalg.norm(run.w[-1])), -made.exponent)
    begun, when = f"gradient flow ({loss} loss)", f"log t = {run.log_time[-1] - unit:.4g}"
    if run.ending is SeparableEnding.SETTLED:
        end = f"settles at |w| = {size:.6g}, by {when}: the loss has a minimiser, and there is no alignment to wait for"
    elif run.ending is SeparableEnding.HORIZON:
        end = (
            f"is at |w| = {size:.6g} at {when}; from there on the pulls of rows that cancel bury the others' in double "
            "precision, and where it goes is not followed"
        )
    else:
        end = f"is at |w| = {size:.6g} at {when}, and has not settled"
    return [*notes, f"{begun} {end}."]


def _limits(
    system: "EarlyAlignment", path: Path, not_applicable: dict[str, str], *, begins_weak: bool
) -> list[Verdict]:
    found = [claims.radius_law([path]), claims.balance_solution([path])]
    if path.instance.n_outside:
        found.append(claims.transverse_limit([path]))
    else:
        not_applicable["transverse-limit"] = "the support vectors reach every direction across the maximum margin"
    found.append(claims.direction_law([path]))
    expected = path.constant * (1 / math.tan(system.fine) - 1 / math.tan(system.weak))
    if begins_weak:
        not_applicable["exponential-time"] = (
            f"the flow begins within {system.weak:g} rad of the maximum margin: weak alignment takes it no time"
        )
    elif expected < math.log(LEAST_RATIO) + 1:
        not_applicable["exponential-time"] = (
            f"on your rows fine alignment takes e^{expected:.3g} times as long as weak alignment, by the law: "
            f"the ratio {LEAST_RATIO:g} is the fixture's"
        )
    else:
        found.append(exponential_time([path], weak=system.weak, fine=system.fine))
    return [*found, claims.loss_law([path]), claims.residual_identity([path])]


def _step(system: "EarlyAlignment", made: Prepared, loss: str) -> tuple[float, list[str]]:
    """The step size in the runs' units, and what is to be said of it."""
    largest = smoothness(made.Z, weights=made.weights, loss=loss)
    if system.absolute_step is None:
        return system.step_size / largest, []
    step = math.ldexp(system.absolute_step, 2 * made.exponent)
    if step * largest < 2:
        return step, []
    return step, [
        f"{loss} loss: the step is {step * largest:.3g} / smoothness, and not below 2: the loss need not fall with "
        "every step."
    ]


def _descent(system: "EarlyAlignment", rows: Instance, loss: str, step: float) -> tuple[Path | str, list[str]]:
    """Exact steps, as many as can be afforded, and their continuation; a sentence where there is none; and notes."""
    n_steps = max(10, min(system.steps, round(MOST_WORK / (2 * rows.Z.size))))
    told = [] if n_steps == system.steps else [
        f"of {system.steps} steps {n_steps} are taken one by one, for {rows.n} x {rows.d} numbers each."
    ]  # fmt: skip

    try:
        path = descent(rows, loss, until=system.until_log_time, n_steps=n_steps, step_size=step, fine=system.fine)
    except Diverged as error:
        return f"{loss} loss: {error}.", told
    return path, told


def _work(Z: Float[np.ndarray, "n d"]) -> float:
    return float(len(Z)) * min(Z.shape) ** 2
