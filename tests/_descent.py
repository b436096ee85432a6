"""A small system of one's own: does gradient descent on least squares reach the interpolant of least norm?"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import xarray as xr

from omegalimit.catalogue import AbstractSystem, Counter, Findings
from omegalimit.catalogue._system import Progress, silent
from omegalimit.claims import Kind, Verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Descent(AbstractSystem):
    """Gradient descent on |X k - y|^2 / 2 from zero, with more columns than rows.

    Claims.
    - `least-norm` (equality): descent ends at X^+ y.
    """

    title: ClassVar[str] = "gradient descent on least squares: which interpolant?"

    step: float = 1.0
    """Step size in units of 1 / the largest eigenvalue of X'X; descent diverges from 2 on."""
    n_steps: int = 2000
    """Steps of descent."""
    seed: int = 0
    """Seed of the data."""

    def check(self, progress: Progress = silent) -> Findings:
        rng = np.random.default_rng(self.seed)
        X, y = rng.standard_normal((4, 12)), rng.standard_normal(4)
        eta, k, losses = self.step / np.linalg.norm(X, 2) ** 2, np.zeros(12), []
        for number in range(self.n_steps):
            residual = X @ k - y
            losses.append(float(residual @ residual) / 2)
            if not losses[-1] < 1e100:
                raise FloatingPointError(f"descent diverged: the loss is {losses[-1]:.0e} after {number} steps.")
            k -= eta * (X.T @ residual)
            progress("descends", number / self.n_steps)
        error = float(np.linalg.norm(k - np.linalg.pinv(X) @ y) / np.linalg.norm(k))
        found = Verdict(
            claim="least-norm",
            parametrisation="linear",
            loss="squared",
            kind=Kind.EQUALITY,
            measured=error,
            bound=1e-6,
            slack=1e-12,
            unit="relative distance",
        )
        arrays = {"linear/trajectory": xr.Dataset({"log_loss": ("step", np.log(losses))})}
        return Findings(verdicts=(found,), settings=dataclasses.asdict(self), arrays=arrays)

    @property
    def counters(self) -> Mapping[str, Counter]:
        return {}
