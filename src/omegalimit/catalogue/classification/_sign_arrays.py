"""What a run of `smoothed_sign_descent` leaves for the record and the figures, as labelled arrays."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ...claims import Verdict
from ._sign_run import Run
from ._sign_setting import Setting, direction

FRACTIONS = np.concatenate([[1e-6, 1e-3, 0.01], np.linspace(0.025, 0.975, 39), [0.99, 0.995, 0.999, 0.9999, 1 - 1e-6]])
"""Rates over gamma_inf on the drawn path; dense where it turns."""


def run_arrays(r: Run) -> xr.Dataset:
    """Distances of v_t and w_t/S_t to v* with both envelopes, at the kept steps."""
    v, w = r.distances()
    S = r.path.S
    start = r.checks.start_size
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = start / S + np.sqrt(2 * (r.checks.kl_start + r.path.kl_sum) / S)
        plain = start / S + np.sqrt(2 * r.checks.kl_start / S)
    return xr.Dataset(
        {
            "S": ("step", S),
            "n_steps": ("step", r.path.steps),
            "v_distance": ("step", v),
            "w_distance": ("step", w),
            "envelope": ("step", np.where(S > 0, whole, np.nan)),
            "plain_envelope": ("step", np.where(S > 0, plain, np.nan)),
            "limit": ("coordinate", r.point),
            "last_v": ("coordinate", r.path.v[-1]),
            "multipliers": ("row", r.checks.multipliers),
        },
        attrs={
            "fraction": r.fraction,
            "kappa": r.kappa,
            "step": r.step,
            "kl_start": r.checks.kl_start,
            "kl_sum": r.checks.kl_sum,
            "limit_error": r.checks.distance,
        },
    )


def path_arrays(setting: Setting) -> xr.Dataset:
    """The barrier's minimiser at every rate, beside the two maximum margins that it leads from and to."""
    ends = {
        name: direction(solution.certificate.point, name)
        for name, solution in (("l2", setting.l2), ("linf", setting.linf))
    }
    found = [setting.barrier(float(f)) for f in FRACTIONS]
    solved = np.array([s.status == "optimal" for s in found])
    d = setting.Z.shape[1]
    points = np.array(
        [s.certificate.point if ok else np.full(d, math.nan) for s, ok in zip(found, solved, strict=True)]
    )
    sizes = np.linalg.norm(points, axis=1)
    angles = {
        name: np.arctan2(np.linalg.norm(points - np.outer(points @ e, e), axis=1), points @ e)
        for name, e in ((name, direction(end, "l2")) for name, end in ends.items())
    }
    return xr.Dataset(
        {
            "fraction": ("rate", FRACTIONS),
            "point": (("rate", "coordinate"), points),
            "direction": (("rate", "coordinate"), points / sizes[:, None]),
            "angle_l2": ("rate", angles["l2"]),
            "angle_linf": ("rate", angles["linf"]),
            "l2_ratio": ("rate", FRACTIONS * setting.gamma / sizes / setting.l2.certificate.lower),
            "linf_ratio": ("rate", FRACTIONS * setting.gamma / np.abs(points).max(axis=1) / setting.gamma),
            "l2_end": ("coordinate", ends["l2"]),
            "linf_end": ("coordinate", direction(ends["linf"], "l2")),
        },
        attrs={"gamma_inf": setting.gamma, "l2_margin": setting.l2.certificate.lower},
    )


def crossover_arrays(setting: Setting, found: Sequence[tuple[float, float]], verdict: Verdict) -> xr.Dataset:
    """S at which a fixed eps takes over, by log(1/eps)."""
    return xr.Dataset(
        {
            "log_inverse_eps": ("eps", [math.log(1 / eps) for eps, _ in found]),
            "S": ("eps", [at for _, at in found]),
        },
        attrs={"gamma_inf": setting.gamma, "slope": float(verdict.details["slope"])},
    )
