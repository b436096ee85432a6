"""The claims of `early_alignment` on times and powers: how long an angle takes, and the symmetric pair."""

import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ._alignment_claims import VOID, Reading, tolerance, verdict
from ._alignment_path import Path

LEAST_RATIO = 1e5
"""By which fine alignment takes longer than weak alignment, on the fixture, at the angles 0.03 and 0.3."""

LARGEST_FINE = 0.1
"""A fine angle above this is none of the law, which is one of small angles."""

FINEST = 0.9
"""At the angle after this share of the log time the curve of times is compared with the law."""

ABOVE = 1e4
"""The pair's w2 is read as long as it stands above the path's error by this factor."""

EXPONENT = 1e-3
"""Of the exponent of the symmetric pair."""

CLOSED_FORM = 1e-7
"""Of the symmetric pair's closed form, in units of its start."""


def least_log_ratio(weak: float, fine: float) -> float:
    """Log of the least ratio at other angles than 0.3 and 0.03: `log T` grows like `1 / tan(angle)`."""
    return math.log(LEAST_RATIO) * (1 / math.tan(fine) - 1 / math.tan(weak)) / (1 / math.tan(0.03) - 1 / math.tan(0.3))


def exponential_time(paths: Sequence[Path], *, weak: float, fine: float) -> Verdict:
    """`T(fine) / T(weak)` is at least 1e5, for 0.3 and 0.03, and late times are `exp(C / tan(angle) - b)`."""

    def read(path: Path) -> Reading:
        angles = np.array([weak, fine, path.angle[path.index(FINEST)]])
        times = path.first_times(angles)
        law = path.constant / np.tan(angles) - path.offset
        # A path that begins within an angle has it at t = 0.
        ratio = float(times[1] - times[0]) if np.isfinite(times[:2]).all() else math.nan
        # The angle's logarithm falls by about 1/s with each unit of s, and errs by the error over gamma |w_perp|.
        along = float(np.interp(np.nan_to_num(times[1]), path.log_time, path.along))
        slack = float(max(1.0, np.nan_to_num(times[1])) * path.error / (math.tan(fine) * along))
        late = float(times[2]) if math.isfinite(times[2]) else math.nan
        here = path.settling
        # At that angle a distance from the limit changes log T by itself along u, and across it times 1 / tan(angle).
        left = float(here.left[path.index(FINEST)]) * (1 + 1 / math.tan(angles[2]))
        off = abs(late - float(law[2]))
        known = math.isfinite(off) and math.isfinite(left)
        return Reading(
            measured=ratio,
            slack=slack,
            details={
                "angles": angles.tolist(),
                "log_times": times.tolist(),
                "law": law.tolist(),
                "C_over_angle": (path.constant / angles).tolist(),
            },
            conditions=(
                Assumption(
                    name="late, the time until an angle is that of the law",
                    holds=off <= tolerance([path]) * law[2] + slack + left if known else None,
                    measured=off,
                ),
            ),
            undecided=None if math.isfinite(ratio) else _not_reached(path, times, weak, fine),
        )

    return verdict(
        "exponential-time",
        paths,
        read,
        kind=Kind.LOWER,
        bound=least_log_ratio(weak, fine),
        unit=f"log of T({fine:g}) / T({weak:g})",
    )


def _not_reached(path: Path, times: np.ndarray, weak: float, fine: float) -> str:
    """Why there is no ratio, and what to do."""
    if math.isnan(times[1]):
        needed = path.constant / math.tan(fine) - path.offset
        later = "" if path.settling.reason is not None or path.constant <= VOID else (
            f"; by the law that takes log t = {needed:.4g}: set `until_log_time` later than that"
        )  # fmt: skip
        return f"the path does not come to {fine:g} rad by log t = {path.log_time[-1]:.4g}{later}"
    return f"the path begins within {fine if not math.isfinite(times[1]) else weak:g} rad"


# The symmetric pair.


def symmetric_pair(paths: Sequence[Path]) -> Verdict:
    """`sinh(a w2) = sinh(a w2(0)) exp(-(a^2/gamma)(w1 - w1(0)))` for rows (gamma, a), (gamma, -a), exponential loss."""

    def read(path: Path) -> Reading:
        gamma, a = _pair(path)
        w1, w2 = path.w.T
        start = math.sinh(a * path.start[1])
        off = np.abs(np.sinh(a * w2) / start - np.exp(-(a**2 / gamma) * (w1 - path.start[0])))
        return Reading(measured=float(off.max()), slack=path.error, details={"gamma": gamma, "a": a})

    return verdict("symmetric-pair", paths, read, kind=Kind.INVARIANT, bound=CLOSED_FORM, unit="of sinh(a w2(0))")


def power_alignment(paths: Sequence[Path]) -> Verdict:
    """There w2 falls like `t^{-(a/gamma)^2}`, and so does `angle * log t`: alignment is a power of t."""

    def read(path: Path) -> Reading:
        gamma, a = _pair(path)
        power = (a / gamma) ** 2
        w2 = np.abs(path.w[:, 1]) * gamma
        # Handing descent over multiplies w2 by a constant, which no power sees: only the integration counts.
        above = np.flatnonzero(w2 > ABOVE * path.errors)
        end = float(path.log_time[above[-1]]) if above.size else -math.inf
        # The second half of the log time for which w2 can be read, which may be a small part of a long run.
        first = int(np.searchsorted(path.log_time, max(0.5 * end, 0.0)))
        s, size = path.log_time[first:], w2[first:]
        last = int(above[-1]) - first if above.size else 0
        error = float(path.errors[max(0, first + last)])
        if last <= 0 or s[last] - s[0] < 1:
            return Reading(measured=math.nan, slack=0.0, undecided="w2 is lost in rounding before the power shows")
        exponent = -float(np.log(size[last] / size[0]) / (s[last] - s[0]))
        left = math.exp(-2 * power * s[0]) + 2 * error / size[last]
        return Reading(
            measured=abs(exponent / power - 1),
            slack=float(left / (power * (s[last] - s[0]))),
            details={"exponent": exponent, "predicted": power, "log_times": [float(s[0]), float(s[last])]},
        )

    return verdict("power-alignment", paths, read, kind=Kind.RATE, bound=EXPONENT, unit="of the exponent (a/gamma)^2")


def _pair(path: Path) -> tuple[float, float]:
    """`(gamma, a)` of rows (gamma, a), (gamma, -a)."""
    return float(path.instance.Z[0, 0]), float(abs(path.instance.Z[0, 1]))
