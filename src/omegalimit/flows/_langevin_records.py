"""What a run of particles keeps: snapshots, residuals now and then, and the mean of all residuals from some step on."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from .._checks import check_count, check_number
from ._langevin_blocks import Block

_BATCHES = 40
_GROUPS = (1, 2, 4)  # consecutive batches that are taken together for a standard error: 40, 20 and 10 means
_MOST_BYTES = 2**31


class Recorder:
    """Sees every step, keeps few. `sizes`: numbers in a particle, particles, and numbers in a residual."""

    def __init__(
        self,
        *,
        sizes: tuple[int, int, int],
        n_steps: int,
        n_snapshots: int,
        spacing: str,
        snapshot_particles: int,
        n_recorded: int,
        average_from: float,
        progress: Callable[[int, int], None] | None,
        before: int = 0,
    ) -> None:
        self.n_steps, self.before = check_count(n_steps, "n_steps", least=1), before
        n_snapshots = check_count(n_snapshots, "n_snapshots", least=2)
        n_recorded = check_count(n_recorded, "n_recorded", least=2)
        self._n_kept = check_count(snapshot_particles, "snapshot_particles", least=1)
        share = check_number(average_from, "average_from")
        if not 0 <= share < 1:
            raise ValueError(f"`average_from` is a share of the steps, at least 0 and below 1; got {share!r}.")
        if spacing not in ("log", "even"):
            raise ValueError(f"`spacing` must be 'log' or 'even'; got {spacing!r}.")
        if progress is not None and not callable(progress):
            raise TypeError(f"`progress` must be a function of the step and `n_steps`, or None; got {progress!r}.")
        P, N, n_residuals = sizes
        for what, n_bytes, remedy in (
            ("snapshots", 8 * P * min(self._n_kept, N) * n_snapshots, "`snapshot_particles` or `n_snapshots`"),
            ("records", 8 * n_residuals * n_recorded, "`n_recorded`"),
        ):
            if n_bytes > _MOST_BYTES:
                raise ValueError(f"The {what} would take {n_bytes / 2**30:.1f} GiB, of at most 2; take less {remedy}.")
        self._progress, self._told = progress, max(1, self.n_steps // 100)
        inner = np.geomspace(1, self.n_steps, n_snapshots - 1) if spacing == "log" else None
        marks = np.linspace(0, self.n_steps, n_snapshots) if inner is None else np.concatenate([[0.0], inner])
        self._marks = set(np.round(marks).astype(int).tolist())
        self._thin = max(1, math.ceil(self.n_steps / n_recorded))
        self.first_averaged = min(self.n_steps - 1, int(share * self.n_steps))
        self._n_averaged = self.n_steps - self.first_averaged
        self._n_batches = min(_BATCHES, self._n_averaged)
        self._sums: np.ndarray | None = None
        self._counts = np.zeros(self._n_batches)
        self.recorded: list[int] = []
        self.residual: list[np.ndarray] = []
        self.moments: list[tuple[float, float]] = []
        self.snapshot_steps: list[int] = []
        self._snapshots: list[np.ndarray] = []
        self._m = 1

    def see(self, step: int, residual: np.ndarray, blocks: list[Block], m: int, *, last: bool = False) -> None:
        """The state after `step` steps; `last` where the run ends early, on numbers that are not finite."""
        end = last or step == self.n_steps
        self._m = m
        if step > self.first_averaged and not last:
            if self._sums is None:
                self._sums = np.zeros((self._n_batches, *residual.shape))
            k = (step - self.first_averaged - 1) * self._n_batches // self._n_averaged
            self._sums[k] += residual
            self._counts[k] += 1
        if end or step % self._thin == 0:
            self.recorded.append(step)
            self.residual.append(residual.copy())
            self.moments.append(_moments(blocks, m))
        if end or step in self._marks:
            self._snapshots.append(self._subset(blocks))
            self.snapshot_steps.append(step)
        if self._progress is not None and (end or step % self._told == 0):
            self._progress(step, self.n_steps)

    def _subset(self, blocks: list[Block]) -> np.ndarray:
        N = sum(block.theta.shape[1] for block in blocks)
        if self._n_kept >= N:
            return np.concatenate([block.theta for block in blocks], axis=1)
        chosen = np.arange(self._n_kept) * N // self._n_kept
        size = blocks[0].theta.shape[1]
        return np.concatenate(
            [block.theta[:, chosen[chosen // size == k] - k * size] for k, block in enumerate(blocks)], axis=1
        )

    def snapshots(self, *, scalar: bool) -> tuple[np.ndarray, np.ndarray]:
        """Outgoing weights and directions, shapes (K, N', *m) and (K, N', D)."""
        kept = np.array(self._snapshots).transpose(0, 2, 1)
        a, V = kept[..., : self._m], np.ascontiguousarray(kept[..., self._m :])
        return (a[..., 0].copy() if scalar else a.copy()), V

    def average(
        self, shape: tuple[int, ...], memory: float
    ) -> tuple[Float[np.ndarray, " n *m"], Float[np.ndarray, " n *m"]]:
        """Mean over the steps that were averaged, and its standard error; NaN where there are too few of them.

        Batch means are independent only where batches are longer than the run's memory: then the three groupings agree,
        and otherwise fewer and longer batches give the larger error. The largest is taken. Weight decay forgets within
        `memory` = 1 / (lam step_size) steps, and forces may forget sooner: ten batches are widened to what they would
        have to be if nothing did.
        """
        nothing = np.full(shape, np.nan)
        if self._sums is None:
            return nothing, nothing
        used = self._counts > 0
        sums, counts = self._sums[used], self._counts[used]
        mean = (sums.sum(axis=0) / counts.sum()).reshape(shape)
        errors = []
        for group in _GROUPS:
            k = len(counts) // group
            if k < _BATCHES // _GROUPS[-1]:
                continue
            joined = sums[: k * group].reshape(k, group, -1).sum(axis=1)
            joined = joined / counts[: k * group].reshape(k, group).sum(axis=1)[:, None]
            widening = _widening(float(counts.sum()), k, memory) if group == _GROUPS[-1] else 1.0
            errors.append(widening * joined.std(axis=0, ddof=1) / math.sqrt(k))
        return mean, (np.max(errors, axis=0).reshape(shape) if errors else nothing)


def _widening(n: float, k: int, memory: float) -> float:
    """The standard deviation of the mean of `n` steps over what `k` batch means of them estimate, at least 1.

    For correlations `exp(-t / memory)` the variance of the mean of `L` steps is, up to a constant, `v(L / memory)`.
    """
    if not math.isfinite(memory):
        return 1.0  # without weight decay nothing need be stationary, and no error is right
    whole, batch = _mean_variance(n / memory), _mean_variance(n / (k * memory))
    return math.sqrt(max(1.0, (k - 1) * whole / (batch - whole)))


def _mean_variance(x: float) -> float:
    """`v(x) = 2 (x - 1 + e^{-x}) / x^2`."""
    return 1 - x / 3 + x * x / 12 if x < 1e-3 else 2 * (x + math.expm1(-x)) / x**2


def _moments(blocks: list[Block], m: int) -> tuple[float, float]:
    """`mean |a|^2` and `mean |v|^2`."""
    N = sum(block.theta.shape[1] for block in blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = [
            (np.vdot(block.theta[:m], block.theta[:m]), np.vdot(block.theta[m:], block.theta[m:])) for block in blocks
        ]
        return float(sum(s[0] for s in sums)) / N, float(sum(s[1] for s in sums)) / N
