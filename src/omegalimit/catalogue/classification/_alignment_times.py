"""The claims of `early_alignment` on times and powers: how long an angle takes, and the symmetric pair."""

import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ._alignment_claims import Reading, tolerance, verdict
from ._alignment_path import Path

LEAST_RATIO = 1e5
"""By which fine alignment takes longer than weak alignment, on the fixture."""

FINEST = 0.9
"""At the angle after this share of the log time the curve of times is compared with the law."""

ABOVE = 1e4
"""The pair's w2 is read as long as it stands above the path's error by this factor."""

EXPONENT = 1e-3
"""Of the exponent of the symmetric pair."""

CLOSED_FORM = 1e-7
"""Of the symmetric pair's closed form, in units of its start."""


def exponential_time(paths: Sequence[Path], *, weak: float, fine: float) -> Verdict:
    """`T(fine) / T(weak)` is at least 1e5, and the times of fine angles are `exp(C / tan(angle) - b)`."""

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
        left = path.instance.remainder(late) * late
        off = abs(late - float(law[2]))
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
                    holds=None if not math.isfinite(off) else off <= tolerance([path]) * law[2] + slack + left,
                    measured=off,
                ),
            ),
            undecided=None if math.isfinite(ratio) else f"the path does not come to {fine:g} rad, or begins there",
        )

    return verdict(
        "exponential-time",
        paths,
        read,
        kind=Kind.LOWER,
        bound=math.log(LEAST_RATIO),
        unit=f"log of T({fine:g}) / T({weak:g})",
    )


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
        first = path.index(0.3)
        s, size = path.log_time[first:], w2[first:]
        # Handing descent over multiplies w2 by a constant, which no power sees: only the integration counts.
        error = float(path.errors[-1])
        above = np.flatnonzero(size > ABOVE * error)
        last = int(above[-1]) if above.size else 0
        if last == 0 or s[last] - s[0] < 1:
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
