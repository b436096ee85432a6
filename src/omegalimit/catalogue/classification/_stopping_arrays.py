"""What a run of `early_stopping` leaves for the record and the figures, as labelled arrays."""

import math

import numpy as np
import xarray as xr

from ...limits.mixture_risk import Seen
from ._stopping_draws import Run, Setting, draw_seed, logs, n_zero
from ._stopping_statistics import Runs, combination, slope

LONG = 4_000
"""Steps of the paths that are drawn: until they are near the interpolator."""


def arrays(setting: Setting, runs: Runs, *, seed: int) -> dict[str, xr.Dataset]:
    """Excess over the sizes, risk along two paths, and the pairs of excesses at the marks."""
    return {
        f"{setting.name}/stopping-sizes": sizes(setting, runs),
        f"{setting.name}/stopping-path": paths(setting, runs, seed=seed),
        f"{setting.name}/stopping-calibration": pairs(setting, runs),
    }


def sizes(setting: Setting, runs: Runs) -> xr.Dataset:
    """Geometric means of the excess at each size, with 95% intervals (as factors), and slopes.

    Excesses below rounding (zeros) have no logs and are left out; how many these are stands beside.
    """
    of = {
        "oracle": lambda run: run.oracle,
        "hold-out": lambda run: float(run.excess[run.chosen()]),
        "maximum margin": lambda run: run.margin_excess,
        "best interpolator": lambda run: run.best_excess,
    }
    means, halves, zeros, slopes, slacks = [], [], [], [], []
    for get in of.values():
        found = [combination((1.0, logs([get(run) for run in some]))) for some in runs.values()]
        means.append([math.exp(x.value) if math.isfinite(x.value) else math.nan for x in found])
        halves.append([math.exp(x.half) if x.half < 700 else math.nan for x in found])
        zeros.append([float(n_zero([get(run) for run in some])) for some in runs.values()])
        trend = slope(runs, get)
        slopes.append(trend.value)
        slacks.append(trend.half if math.isfinite(trend.half) else math.nan)
    return xr.Dataset(
        {
            "n": ("size", [float(n) for n in runs]),
            "excess": (("classifier", "size"), means),
            "factor": (("classifier", "size"), halves),
            "below_rounding": (("classifier", "size"), zeros),
            "slope": ("classifier", slopes),
            "slack": ("classifier", slacks),
        },
        coords={"classifier": list(of)},
        attrs={"heuristic_exponent": setting.exponent, "heuristic_rate": setting.rate},
    )


def paths(setting: Setting, runs: Runs, *, seed: int) -> xr.Dataset:
    """Excess along one long path at the smallest size and at a middle one, where each rule stops, and interpolation."""
    chosen = sorted({min(runs), sorted(runs)[len(runs) // 2]})
    long = Setting(name=setting.name, mixture=setting.mixture, n_steps=LONG, held_out=setting.held_out)
    found: list[Run] = [long.run(n, draw_seed(seed, 2, n), best=True, margin=True) for n in chosen]
    return xr.Dataset(
        {
            "n": ("size", [float(n) for n in chosen]),
            "time": (("size", "mark"), np.array([np.exp(run.log_time) for run in found])),
            "excess": (("size", "mark"), np.array([run.excess for run in found])),
            "train_error": (("size", "mark"), np.array([run.train_error for run in found])),
            "oracle_time": ("size", [math.exp(run.log_time[run.best]) for run in found]),
            "oracle": ("size", [run.oracle for run in found]),
            "hold_out_time": ("size", [math.exp(run.log_time[run.chosen()]) for run in found]),
            "hold_out": ("size", [float(run.excess[run.chosen()]) for run in found]),
            "max_margin": ("size", [run.margin_excess for run in found]),
            "best_interpolator": ("size", [run.best_excess for run in found]),
        }
    )


def pairs(setting: Setting, runs: Runs, *, n_samples: int = 3) -> xr.Dataset:
    """Excess logistic and 0-1 risk at the marks of some samples of each size."""
    some = [run for group in runs.values() for run in list(group)[:n_samples]]
    size = np.concatenate([run.seen.size for run in some])
    angle = np.concatenate([run.seen.angle for run in some])
    known = setting.risk.calibration
    return xr.Dataset(
        {
            "logistic": ("point", setting.risk.logistic_excess(Seen(size=size, angle=angle)).value),
            "excess": ("point", np.concatenate([run.excess for run in some])),
            "before": ("point", np.concatenate([(np.arange(len(run.marks)) <= run.best) * 1.0 for run in some])),
        },
        attrs={"local": known.local, "global": known.supremum},
    )
