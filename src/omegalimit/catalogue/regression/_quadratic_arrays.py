"""What a run of `positive-quadratic-networks` leaves for the record and the figures, as labelled arrays."""

import math

import numpy as np
import xarray as xr

from ._quadratic_experiment import Experiment

N_SHOWN = 400  # points of each curve


def run_arrays(e: Experiment) -> dict[str, xr.Dataset]:
    """Residuals of flow and descent with the predicted rates, and the curvature's spectrum."""
    history = e.flow.history
    kept = _thinned(history.residual.size)
    steps = _thinned(e.descent.residual.size)
    nonzero = e.hessian.eigenvalues[e.hessian.n_zero :]
    factor = float(np.abs(1 - e.descent.step_size * nonzero).max()) if nonzero.size else math.nan
    return {
        f"{e.label}/run": xr.Dataset(
            {
                "time": ("flow_point", history.time[kept]),
                "flow_residual": ("flow_point", history.residual[kept]),
                "log_spectrum": (("flow_point", "index"), history.log_spectrum[kept]),
                "step": ("descent_point", steps.astype(float)),
                "descent_residual": ("descent_point", e.descent.residual[steps]),
            },
            attrs={
                "rate": e.hessian.smallest_nonzero,
                "factor": factor,
                "step_size": e.descent.step_size,
                "loss": e.loss.name,
                "ending": str(e.flow.ending),
            },
        ),
        f"{e.label}/curvature": xr.Dataset(
            {"eigenvalue": ("index", e.hessian.eigenvalues)},
            attrs={"n_gauge": e.hessian.n_gauge, "n_zero": e.hessian.n_zero, "rounding": e.hessian.rounding},
        ),
    }


def _thinned(n: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, N_SHOWN)).astype(int))
