"""How many steps of descent it takes until an angle, on the user's rows, and how far that answer is to be trusted."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ._alignment_claims import VOID
from ._alignment_instance import Instance, log_unit
from ._alignment_path import Path

if TYPE_CHECKING:
    from .early_alignment import EarlyAlignment

AGREEMENT = 0.01
"""Log of the factor of steps within which the law is said to agree with the run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """Steps until one angle: `first` there, and there `for_good`, in logs; NaN where the run does not come to that."""

    angle: float
    first: float
    first_error: float
    for_good: float
    for_good_error: float


def answers(system: "EarlyAlignment", by_steps: Path) -> list[Answer]:
    """For weak and for fine alignment."""
    assert by_steps.run is not None
    assert by_steps.log_step is not None
    angles = (system.weak, system.fine)
    counted = by_steps.run.hitting(by_steps.instance.u, angles)
    found = []
    for angle, first, error in zip(angles, counted.log_steps, counted.error, strict=True):
        low, high = _for_good(by_steps, angle)
        late, late_error = high - by_steps.log_step, high - low
        if math.isnan(high) or late - late_error <= first + np.nan_to_num(
            error
        ):  # it does not leave again, as far as is seen
            late, late_error = (math.nan, math.nan) if math.isnan(high) else (float(first), float(error))
        found.append(
            Answer(angle=angle, first=float(first), first_error=float(error), for_good=late, for_good_error=late_error)
        )
    return found


def _for_good(path: Path, angle: float) -> tuple[float, float]:
    """Log times between which the path comes within the angle and stays; NaN where it is not within it at the end."""
    above = np.flatnonzero(path.angle > angle)
    if above.size == 0:
        return -math.inf, float(path.log_time[0])
    if above[-1] == len(path.log_time) - 1:
        return math.nan, math.nan
    low, high = (float(path.log_time[above[-1] + i]) for i in (0, 1))
    if path.at is None or path.last_exact is None or low < path.last_exact:
        return low, high
    while high - low > 1e-6 * max(1.0, abs(high)):
        middle = (low + high) / 2
        there = dataclasses.replace(path, log_time=np.array([middle]), w=path.at(np.array([middle])))
        low, high = (middle, high) if there.angle[0] > angle else (low, middle)
    return low, high


def summary(system: "EarlyAlignment", by_steps: Path, exponent: int) -> dict[str, Any]:
    """The answer and its range, in the user's units; JSON-ready."""
    assert by_steps.run is not None
    assert by_steps.log_step is not None
    rows = by_steps.instance
    weak, fine = answers(system, by_steps)
    margin = math.nan
    if math.isfinite(weak.for_good):
        at = int(np.searchsorted(by_steps.log_time - by_steps.log_step, weak.for_good - 1e-9))
        w = by_steps.w[min(at, len(by_steps.w) - 1)]
        margin = float((rows.Z @ w).min() / np.linalg.norm(w) / rows.gamma)
    return {
        "step_size": math.ldexp(math.exp(by_steps.log_step), -2 * exponent),
        "in_units_of_smoothness": by_steps.run.descent.sharpness,
        "log_steps": {"weak": dataclasses.asdict(weak), "fine": dataclasses.asdict(fine)},
        "exact_steps": by_steps.n_exact,
        "overshoots": by_steps.run.descent.n_overshoots,
        "C": by_steps.constant,
        "b": by_steps.offset + log_unit(exponent),
        "law_agrees_from": _agrees_from(by_steps),
        "too_short": by_steps.settling.reason,
        "direction_certified_to": rows.angle_error,
        "margin_when_weakly_aligned": margin,
    }


def _agrees_from(path: Path) -> float:
    """The largest angle from which on down the law's time is this path's own, to 1%; NaN where there is none."""
    if path.instance.balance is None or path.constant < VOID or path.settling.reason is not None:
        return math.nan
    least = max(path.instance.angle_error, 1.001 * float(path.angle[-1]))
    angles = np.geomspace(1.2, least, 60)
    after = _after(path, angles)
    if after == len(angles):
        return math.nan
    if after:  # once more, between the last angle that is off and the one after it
        angles = np.geomspace(angles[after - 1], angles[after], 12)
        after = _after(path, angles)
    return float(angles[after])


def _after(path: Path, angles: np.ndarray) -> int:
    """From which of these falling angles on the law's times are the path's."""
    with np.errstate(invalid="ignore"):
        off = np.abs(path.first_times(angles) - (path.constant / np.tan(angles) - path.offset))
    bad = np.flatnonzero(~(off <= AGREEMENT))
    return int(bad[-1]) + 1 if bad.size else 0


def sentences(system: "EarlyAlignment", found: dict[str, Any], rows: Instance, loss: str) -> list[str]:
    """The answer, its range, and what stands beside it."""
    parts = [_alignment(name, **found["log_steps"][name]) for name in ("weak", "fine")]
    notes = [
        f"gradient descent, {loss} loss, step size {found['step_size']:.6g} "
        f"({found['in_units_of_smoothness']:.3g} / smoothness): {'; '.join(parts)}."
    ]
    valid = [f"steps are exact up to {found['exact_steps']}; beyond, the flow continues them"]
    if math.isfinite(found["law_agrees_from"]):
        valid.append(
            f"the law, steps(angle) = exp(C / tan(angle) - b) / step size with C = {found['C']:.6g} and b = "
            f"{found['b']:.6g}, agrees with the run to {100 * AGREEMENT:g}% of the steps from "
            f"{found['law_agrees_from']:.3g} rad down"
        )
    elif found["too_short"] is not None and rows.balance is not None:
        valid.append(f"no law is shown: {found['too_short']}")
    elif rows.balance is not None and found["C"] < VOID:
        valid.append("w_perp tends to zero, so that the law says nothing: alignment is a power of t")
    certified = found["direction_certified_to"]
    valid.append(f"the direction itself is certified to {certified:.1e} rad, and no smaller angle means anything")
    notes.append(f"range of that answer, {loss} loss: {'; '.join(valid)}.")
    margin = found["margin_when_weakly_aligned"]
    if math.isfinite(margin):
        wrong = "" if margin > 0 else ": some row is on the wrong side still"
        notes.append(
            f"{loss} loss: when weakly aligned for good, the least margin is {100 * margin:.3g}% of the maximum{wrong}."
        )
    if found["overshoots"]:
        notes.append(f"{loss} loss: the gradient pointed back after {found['overshoots']} of the exact steps.")
    return notes


def _alignment(
    name: str, *, angle: float, first: float, first_error: float, for_good: float, for_good_error: float
) -> str:
    if math.isnan(first):
        return f"{name} alignment ({angle:g} rad) is not reached within the run"
    text = f"{name} alignment ({angle:g} rad) after {_count(first, first_error)}"
    if math.isnan(for_good):
        return f"{text}, but the angle grows again and is above that at the end of the run"
    return text if for_good == first else f"{text}, left again, and for good after {_count(for_good, for_good_error)}"


def _count(log_steps: float, error: float) -> str:
    """A number of steps, as a number or as a power of e, with its error."""
    if error == 0:
        steps = round(math.exp(log_steps))
        return f"exactly {steps} step{'' if steps == 1 else 's'}"
    written = f"{math.exp(log_steps):.3g} steps, " if log_steps < 700 else ""
    known = "by how much that may be off is not known" if math.isnan(error) else f"to {error:.1e} in the exponent"
    return f"about {written}e^{log_steps:.6g} ({known})"
