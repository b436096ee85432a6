"""Noisy gradient descent on the neurons of a wide two-layer network, in the mean-field scaling.

Neurons `theta_j = (a_j, v_j)`, a in R^m and v in R^D, make the network `f(x) = (1/N) sum_j a_j phi(v_j'xt)` with
`xt = (x, 1)`. A step of Euler and Maruyama is

    a <- (1 - eta lam) a - (eta/n) sum_i r_i phi(v'xt_i)                  + sqrt(2 eta/beta) xi,
    v <- (1 - eta lam) v - (eta/n) sum_i (r_i'a) phi'(v'xt_i) xt_i        + sqrt(2 eta/beta) xi,    r_i = f(x_i) - y_i,

all neurons with the same r. As N -> inf and eta -> 0 this is the Wasserstein gradient flow of

    F(rho) = |r|^2 / 2n + (lam/2) E|theta|^2 + (1/beta) E log rho                              (mean-field Langevin),

and `beta = inf` is gradient descent without noise, on the first two terms times N. (The dynamics of the abstract on
noisy wide ReLU networks, reconstructed here: only the abstract was read.) Physical time is `eta` times the steps.

What a run differs from the stationary measure by: noise, 1/sqrt(N) in a snapshot and less in a time average, whose
standard error comes from the means of consecutive batches; a bias O(1/N) of finitely many neurons; and a bias O(eta)
of the steps, which halving eta shows. For y = 0, f = 0 the last is known: the variance of each coordinate is
`(2 eta/beta) / (1 - (1 - eta lam)^2)`, not `1 / (beta lam)`.

State and sums are in double precision. The noise is drawn in single precision unless `noise="double"`, which takes a
third of the time: each normal is rounded to 24 bits and added to a state of 53. The moments of such normals are right
to about 1e-7, far below what a run of any length can see. A seed gives the same bits on one thread and on two; on
another processor NumPy's logarithm or BLAS may round otherwise, and the run is then another draw of the same law.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count, check_finite, check_ndim, check_number, check_same_length, to_float64
from ..trajectory import Cost
from ._langevin_blocks import Block, Neuron, Stepper, block_size, gathered, make_blocks
from ._langevin_clusters import Clusters, find_clusters
from ._langevin_neurons import named_neuron
from ._langevin_records import Recorder
from ._langevin_starts import STARTS, given_start, named_start


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Langevin:
    """Where the particles came to. `*m` is empty for targets of shape (n,), and m for (n, m).

    - `a`, `V`: the particles after the last step, shapes (N, *m) and (N, D); huge or not finite where the run diverged,
      and no network.
    - `recorded`: steps before each record, shape (T,), the start and the last among them; `residual`: `f - y` there,
      shape (T, n, *m); `moments`: `mean |a|^2` and `mean |v|^2` there, shape (T, 2).
    - `average_from`: steps before the first residual that is averaged; `mean_residual`: mean over all steps from there
      to the last, shape (n, *m), NaN where none is left; `standard_error`: its standard error, the largest of those
      from 40, 20 and 10 batch means, NaN from fewer than 10 steps. The last are widened to what they would have to be
      if the run remembered the time `1/lam`, which matters where it averages less than some hundred of these. It knows
      the fluctuation of this run, not the biases O(1/N) and O(step_size), nor what is left of the start.
    - `snapshot_steps`: shape (K,); `snapshot_a`, `snapshot_V`: particles there, shapes (K, N', *m) and (K, N', D), the
      same N' of the N each time, evenly from all.
    - `n_steps`: steps taken, those of a run that was gone on from among them; `diverged`: whether the network's outputs
      left the range of doubles, which ends a run: take a smaller step.
    """

    X: Float[np.ndarray, "n d"] = dataclasses.field(repr=False)
    y: Float[np.ndarray, " n *m"] = dataclasses.field(repr=False)
    lam: float
    beta: float
    step_size: float
    activation: str
    bias: bool
    noise: str
    n_steps: int
    diverged: bool
    a: Float[np.ndarray, " N *m"] = dataclasses.field(repr=False)
    V: Float[np.ndarray, "N D"] = dataclasses.field(repr=False)
    recorded: Int[np.ndarray, " T"] = dataclasses.field(repr=False)
    residual: Float[np.ndarray, "T n *m"] = dataclasses.field(repr=False)
    moments: Float[np.ndarray, "T 2"] = dataclasses.field(repr=False)
    average_from: int
    mean_residual: Float[np.ndarray, " n *m"] = dataclasses.field(repr=False)
    standard_error: Float[np.ndarray, " n *m"] = dataclasses.field(repr=False)
    snapshot_steps: Int[np.ndarray, " K"] = dataclasses.field(repr=False)
    snapshot_a: Float[np.ndarray, "K N' *m"] = dataclasses.field(repr=False)
    snapshot_V: Float[np.ndarray, "K N' D"] = dataclasses.field(repr=False)
    cost: Cost
    _neuron: Neuron = dataclasses.field(repr=False)
    _start_time: float = dataclasses.field(repr=False)
    _streams: tuple[Mapping[str, Any], ...] = dataclasses.field(repr=False)

    @property
    def n_particles(self) -> int:
        return len(self.V)

    @property
    def time(self) -> Float[np.ndarray, " T"]:
        """Physical time at the records: the sum of the step sizes, also over a run that this one went on from."""
        return self._start_time + (self.recorded - self.recorded[0]) * self.step_size

    @property
    def mean_output(self) -> Float[np.ndarray, " n *m"]:
        """Time average of the network at the inputs."""
        return self.mean_residual + self.y

    @property
    def objective(self) -> Float[np.ndarray, " T"]:
        """`|r|^2 / 2n + (lam/2) E|theta|^2` at the records: F without its entropy."""
        squares = np.sum(self.residual.reshape(len(self.residual), -1) ** 2, axis=1)
        return squares / (2 * len(self.X)) + self.lam / 2 * self.moments.sum(axis=1)

    def predict(self, X: Float[np.ndarray, "k d"], *, snapshot: int | None = None) -> Float[np.ndarray, " k *m"]:
        """The network at other inputs: of the last particles, or of those in a snapshot.

        Raises `ValueError` when `X` has not as many columns as the data, or entries that are not finite, for a snapshot
        that there is not, and where the run diverged.
        """
        a, V = self._particles(snapshot)
        X = to_float64(X, "X")[0]
        check_ndim(X, "X", axes="k, d")
        check_same_length(X, self.X, ("X", "the data"), axes=(1, 1), what="columns")
        check_finite(X, "X")
        rows = _rows(X, self.bias)
        size = block_size(max(1, len(rows)), len(V))
        total = np.zeros((len(rows), *a.shape[1:]))
        for first in range(0, len(V), size):
            total += self._neuron(rows @ V[first : first + size].T) @ a[first : first + size]
        return total / len(V)

    def clusters(self, *, angle: float = 0.15, least_mass: float = 0.05, snapshot: int | None = None) -> Clusters:
        """Clusters of the directions `v/|v|`, weighted by |a||v|: greedy by mass, each within `angle` of its centre.

        A cluster has at least the share `least_mass` of `mean |a||v|`. Scalar outputs: particles with positive and with
        negative a form clusters apart; vector outputs: by direction alone. Meant for relu, whose neurons are
        homogeneous in v; for another activation it is the same count. Raises `ValueError` for an angle outside
        (0, pi/2] or a share outside (0, 1], and where the run diverged.
        """
        angle, least_mass = check_number(angle, "angle"), check_number(least_mass, "least_mass")
        if not 0 < angle <= math.pi / 2:
            raise ValueError(f"`angle` must lie between 0 and pi/2 (radians); got {angle!r}.")
        if not 0 < least_mass <= 1:
            raise ValueError(f"`least_mass` must lie between 0 and 1; got {least_mass!r}.")
        return find_clusters(*self._particles(snapshot), angle, least_mass)

    def _particles(self, snapshot: int | None) -> tuple[np.ndarray, np.ndarray]:
        """The last ones or those of a snapshot, from the end where negative; refused where they are no network."""
        count = len(self.snapshot_steps)
        if snapshot is not None:
            if isinstance(snapshot, bool) or not isinstance(snapshot, (int, np.integer)):
                raise TypeError(f"`snapshot` must be an integer or None; got {snapshot!r}.")
            if not -count <= snapshot < count:
                raise ValueError(f"`snapshot` must lie between 0 and {count - 1}, there are {count}; got {snapshot}.")
        last = snapshot is None or snapshot % count == count - 1
        a, V = (self.a, self.V) if snapshot is None else (self.snapshot_a[snapshot], self.snapshot_V[snapshot])
        if (self.diverged and last) or not (np.isfinite(a).all() and np.isfinite(V).all()):
            raise ValueError("This run diverged, and its particles are no network; take a smaller `step_size`.")
        return a, V

    def go_on(
        self,
        n_steps: int,
        *,
        lam: float | None = None,
        beta: float | None = None,
        step_size: float | None = None,
        n_threads: int = 1,
        n_snapshots: int = 10,
        spacing: Literal["log", "even"] = "log",
        snapshot_particles: int = 20_000,
        n_recorded: int = 1000,
        average_from: float = 0.5,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Langevin":
        """`n_steps` more from here, with the random streams where they are: the particles of one run of both lengths.

        `lam`, `beta` and `step_size` stay unless given. Records and averages are of the steps taken now. Raises as
        `langevin` does, and `ValueError` where this run diverged.
        """
        if self.diverged:
            raise ValueError("This run diverged; start again with a smaller `step_size`.")
        setting = _Setting(
            X=self.X,
            y=self.y,
            lam=_lam(self.lam if lam is None else lam),
            beta=_beta(self.beta if beta is None else beta),
            step_size=_step_size(self.step_size if step_size is None else step_size),
            neuron=self._neuron,
            bias=self.bias,
            noise=self.noise,
        )
        theta = np.concatenate([self.a.reshape(len(self.V), -1).T, self.V.T])
        blocks = make_blocks(theta, len(self.X), relu=self._neuron.value is None, seed=0)
        for block, state in zip(blocks, self._streams, strict=True):
            block.rng.bit_generator.state = state
        recorder = Recorder(
            sizes=(*theta.shape, self.y.size),
            n_steps=n_steps,
            n_snapshots=n_snapshots,
            spacing=spacing,
            snapshot_particles=snapshot_particles,
            n_recorded=n_recorded,
            average_from=average_from,
            progress=progress,
            before=self.n_steps,
        )
        return _run(setting, blocks, recorder, _threads(n_threads), float(self.time[-1]))


def langevin(
    X: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n *m"],
    *,
    lam: float,
    beta: float,
    step_size: float,
    n_steps: int,
    n_particles: int | None = None,
    activation: str | tuple[Callable, Callable] = "relu",
    sharpness: float = 1.0,
    start: "str | tuple[np.ndarray, np.ndarray] | Langevin" = "normal",
    seed: int = 0,
    noise: Literal["single", "double"] = "single",
    bias: bool = True,
    n_threads: int = 1,
    n_snapshots: int = 10,
    spacing: Literal["log", "even"] = "log",
    snapshot_particles: int = 20_000,
    n_recorded: int = 1000,
    average_from: float = 0.5,
    progress: Callable[[int, int], None] | None = None,
) -> Langevin:
    """`n_steps` steps of `n_particles` neurons on inputs `X` (n, d) and targets `y`, (n,) or (n, m).

    - `lam` >= 0, the weight decay; `beta`, the inverse temperature, in (0, inf]; `step_size` > 0. Without weight decay
      there is no stationary measure: the run is what it is.
    - `activation`: `"relu"`; `"softplus"`, `log(1 + e^{kh})/k` with k = `sharpness`; `"tanh"`; or a pair of functions
      of arrays, phi and its derivative. They are called on blocks, and from several threads where `n_threads` is not 1.
    - `start`: `"normal"` (standard normal in every coordinate), `"small"` (0.01 of it), `"large"` (3 times),
      `"sphere"` (a and v uniform on unit spheres), `"one-sided"` (so, but a >= 0 and the first coordinate of v >= 0),
      `"zero"`; particles `(a, V)`, shapes (N,) or (N, m) and (N, D); or a `Langevin`, whose last particles are taken.
      With particles, `n_particles` may be left out. (`Langevin.go_on` also goes on with the random streams.)
    - `seed`: of the start and of one random stream for each block of particles. `bias=False`: xt = x, D = d.
    - `n_threads`: 1 or 2, or more; it changes no bit of the result.
    - `n_snapshots`: about how many times up to `snapshot_particles` particles are kept, `spacing` `"log"` or `"even"`
      in the steps; `n_recorded`: about how many residuals are kept.
    - `average_from`: share of the steps before the time average begins, in [0, 1).
    - `progress`: called as `progress(step, n_steps)`, about a hundred times.

    Raises `ValueError` for values out of range, no columns (also with a bias), shapes that do not fit and entries that
    are not finite; `TypeError`
    for what is no number, or no function.
    """
    X = to_float64(X, "X")[0]
    check_ndim(X, "X", axes="n, d")
    check_finite(X, "X")
    y = to_float64(y, "y")[0]
    if y.ndim not in (1, 2):
        raise ValueError(f"`y` must have shape (n,) or (n, m); got {tuple(y.shape)}.")
    check_same_length(X, y, ("X", "y"), axes=(0, 0), what="points")
    check_finite(y, "y")
    if not X.size or not y.size:
        raise ValueError(f"`X` and `y` must not be empty; got shapes {tuple(X.shape)} and {tuple(y.shape)}.")
    if noise not in ("single", "double"):
        raise ValueError(f"`noise` must be 'single' or 'double', the precision it is drawn in; got {noise!r}.")
    setting = _Setting(
        X=X,
        y=y,
        lam=_lam(lam),
        beta=_beta(beta),
        step_size=_step_size(step_size),
        neuron=named_neuron(activation, sharpness),
        bias=_bias(bias),
        noise=noise,
    )
    seed = check_count(seed, "seed", least=0)
    m, D = (1 if y.ndim == 1 else y.shape[1]), X.shape[1] + setting.bias
    if isinstance(start, Langevin):
        start = (start.a, start.V)
    if isinstance(start, str):
        if start not in STARTS:
            raise ValueError(f"`start` must be one of {', '.join(map(repr, STARTS))}, or particles; got {start!r}.")
        if n_particles is None:
            raise ValueError(f"`n_particles` is missing; with `start={start!r}` say how many particles to draw.")
        theta = named_start(start, check_count(n_particles, "n_particles", least=1), m, D, seed)
    elif isinstance(start, tuple | list):
        theta = given_start(start, m, D, scalar=y.ndim == 1)
        if n_particles is not None and check_count(n_particles, "n_particles", least=1) != theta.shape[1]:
            raise ValueError(
                f"`start` has {theta.shape[1]} particles, and `n_particles` is {n_particles}; leave it out."
            )
    else:
        raise TypeError(f"`start` must be a name, a pair (a, V) or a `Langevin`; got {type(start).__name__}.")
    blocks = make_blocks(theta, len(X), relu=setting.neuron.value is None, seed=seed)
    recorder = Recorder(
        sizes=(*theta.shape, y.size),
        n_steps=n_steps,
        n_snapshots=n_snapshots,
        spacing=spacing,
        snapshot_particles=snapshot_particles,
        n_recorded=n_recorded,
        average_from=average_from,
        progress=progress,
    )
    return _run(setting, blocks, recorder, _threads(n_threads), 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Setting:
    """What stays the same during a run."""

    X: np.ndarray
    y: np.ndarray
    lam: float
    beta: float
    step_size: float
    neuron: Neuron
    bias: bool
    noise: str


def _run(setting: _Setting, blocks: list[Block], recorder: Recorder, n_threads: int, start_time: float) -> Langevin:
    cpu = time.process_time()
    rows, y = _rows(setting.X, setting.bias), setting.y
    targets = y.reshape(len(y), -1)
    m, N = targets.shape[1], sum(block.theta.shape[1] for block in blocks)
    eta, decay = setting.step_size, 1 - setting.step_size * setting.lam
    sigma = math.sqrt(2 * eta / setting.beta)
    stepper = Stepper(rows, m, setting.neuron, blocks, single=setting.noise == "single")
    with stepper.threads(n_threads) as pass_over:
        residual = pass_over(None, eta, decay, sigma) / N - targets
        recorder.see(0, residual, blocks, m)
        taken, diverged = 0, not np.isfinite(residual).all()
        while taken < recorder.n_steps and not diverged:
            residual = pass_over(residual, eta, decay, sigma) / N - targets
            taken += 1
            diverged = not np.isfinite(residual).all()
            recorder.see(taken, residual, blocks, m, last=diverged)
    theta = gathered(blocks)
    memory = 1 / (eta * setting.lam) if eta * setting.lam > 0 else math.inf
    mean, error = recorder.average(y.shape, memory)
    snapshot_a, snapshot_V = recorder.snapshots(scalar=y.ndim == 1)
    return Langevin(
        X=setting.X,
        y=y,
        lam=setting.lam,
        beta=setting.beta,
        step_size=eta,
        activation=setting.neuron.name,
        bias=setting.bias,
        noise=setting.noise,
        n_steps=recorder.before + taken,
        diverged=diverged,
        a=theta[0].copy() if y.ndim == 1 else np.ascontiguousarray(theta[:m].T),
        V=np.ascontiguousarray(theta[m:].T),
        recorded=recorder.before + np.array(recorder.recorded),
        residual=np.array(recorder.residual).reshape(-1, *y.shape),
        moments=np.array(recorder.moments),
        average_from=recorder.before + recorder.first_averaged,
        mean_residual=mean,
        standard_error=error,
        snapshot_steps=recorder.before + np.array(recorder.snapshot_steps),
        snapshot_a=snapshot_a,
        snapshot_V=snapshot_V,
        cost=Cost(n_evaluations=taken + 1, n_steps=taken, n_rejected=0, cpu_seconds=time.process_time() - cpu),
        _neuron=setting.neuron,
        _start_time=start_time,
        _streams=tuple(block.rng.bit_generator.state for block in blocks),
    )


def _rows(X: np.ndarray, bias: bool) -> Float[np.ndarray, "n D"]:
    return np.concatenate([X, np.ones((len(X), 1))], axis=1) if bias else X


def _bias(value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"`bias` must be True or False; got {value!r}.")
    return bool(value)


def _lam(value: object) -> float:
    lam = check_number(value, "lam")
    if lam < 0:
        raise ValueError(f"`lam` must be at least 0; got {lam!r}.")
    return lam


def _beta(value: object) -> float:
    beta = to_float64(value, "beta")[0]
    if beta.ndim or not beta > 0:
        raise ValueError(f"`beta` must be one positive number, or infinity for no noise; got {value!r}.")
    return float(beta)


def _step_size(value: object) -> float:
    step_size = check_number(value, "step_size")
    if step_size <= 0:
        raise ValueError(f"`step_size` must be positive; got {step_size!r}.")
    return step_size


def _threads(value: object) -> int:
    return check_count(value, "n_threads", least=1)
