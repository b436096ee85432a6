"""One run of smoothed sign descent beside the barrier's minimiser, looked at in every step.

What is looked at, with `lambda_t = c e^{-Z w_t} / eps_t`, `v_t = u / (1 + |u|)` at `u = Z'lambda_t`, any `lambda* >= 0`
and `KL(a, b) = sum a log(a/b) - a + b`:

    log lambda_{t+1} = log lambda_t + eta (kappa - Z v_t)                                          (primal-dual)
    KL(l*, l_{t+1}) = KL(l*, l_t) - eta <kappa - Z v_t, l* - l_t> + KL(l_t, l_{t+1})               (KL recursion)
    |w_t/S_t - v*| <= |w_0|/S_t + (2 (KL(l*, l_0) + sum KL(l_s, l_{s+1})) / S_t)^(1/2)             (envelope)

Each residual is divided by what rounding can do to it, to first order: a sum of n products errs by at most n + 4 units
in the last place of the sum of their sizes. The envelope's constants are derived here, from `|v_t - v*|^2 / 2 <= D* -
D(l_t)` (the barrier's curvature is at least one), the recursion summed, and Jensen. A pair (v*, lambda*) whose
certified gap is g adds 2g under the root.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ...flows.smoothed_sign_descent import SignSteps, kl_divergence, smoothed_sign_descent
from ._sign_setting import Setting

EPS = float(np.finfo(float).eps)


@dataclasses.dataclass(eq=False)
class StepChecks:
    """The largest of each figure over all steps seen so far.

    - `identity`, `recursion`: residuals over their rounding; 1 is what rounding explains.
    - `envelope`, `plain`: the distance of w_t/S_t over the envelope with the KL sum, and without it.
    - `premise`: the largest `sum KL / KL_0`; `kl_sum`: the sum at the last step.
    - `envelope_slack`, `plain_slack`: what the certified error of v* moves the two ratios by.
    """

    Z: Float[np.ndarray, "n d"]
    log_c: Float[np.ndarray, " n"]
    log_eps0: float
    kappa: float
    point: Float[np.ndarray, " d"]
    multipliers: Float[np.ndarray, " n"]
    distance: float
    gap: float
    identity: float = 0.0
    recursion: float = 0.0
    envelope: float = 0.0
    plain: float = 0.0
    envelope_slack: float = 0.0
    plain_slack: float = 0.0
    premise: float = 0.0
    kl_sum: float = 0.0
    kl_start: float = math.nan
    start_size: float = 0.0
    n_steps: int = 0

    def see(self, steps: SignSteps) -> None:
        """A chunk of consecutive steps."""
        if not self.n_steps:
            self.kl_start = float(kl_to(self.multipliers, steps.log_lambda[:1])[0])
            self.start_size = float(np.linalg.norm(steps.w[0]))
        self.n_steps += len(steps.step)
        self._see_identity(steps)
        self._see_recursion(steps)
        self._see_envelopes(steps)

    def _see_identity(self, steps: SignSteps) -> None:
        """lambda from w and eps, after each step, against lambda before it moved by what v says."""
        n, d = self.Z.shape
        size_Z = np.abs(self.Z)
        from_w = self.log_c - steps.w @ self.Z.T - (self.log_eps0 - self.kappa * steps.S)[:, None]
        eta = steps.step_size[:, None]
        moved = from_w[:-1] + eta * (self.kappa - smoothed_signs(self.Z, from_w[:-1]) @ self.Z.T)
        terms = np.abs(self.log_c) + np.abs(steps.w) @ size_Z.T + self.kappa * steps.S[:, None] + abs(self.log_eps0)
        # v is as wrong as its lambda, relatively; a coordinate's u is a sum of terms that may cancel.
        lam = np.exp(np.minimum(from_w[:-1], 700.0))
        u = lam @ self.Z
        shaken = ((lam * terms[:-1]) @ size_Z) / (1 + np.abs(u)) ** 2
        shaken = np.where(shaken < 2 / EPS, shaken, 2 / EPS)  # v is at most one in size
        both = terms[1:] + terms[:-1] + eta * (self.kappa + size_Z.sum(axis=1))
        allowed = EPS * ((d + 4) * both + eta * ((n + d + 4) * shaken @ size_Z.T))
        self.identity = _larger(self.identity, np.abs(from_w[1:] - moved) / allowed)

    def _see_recursion(self, steps: SignSteps) -> None:
        star, eta = self.multipliers, steps.step_size
        slope = self.kappa - smoothed_signs(self.Z, steps.before) @ self.Z.T
        before, after = kl_to(star, steps.before), kl_to(star, steps.after)
        lam = np.exp(np.minimum(steps.before, 700.0))
        moved = before - eta * (slope * (star - lam)).sum(axis=1) + kl_divergence(steps.before, steps.after)
        used = star > 0
        logs = np.abs(steps.before) + np.abs(steps.after) + np.abs(np.log(np.where(used, star, 1.0)))
        sizes = (star * (1 + logs) + lam + np.exp(np.minimum(steps.after, 700.0))).sum(axis=1)
        # lambda is the exponential of a rounded logarithm; the slope is a sum of d products
        wide = 1 + np.abs(steps.before)
        sizes += (lam * wide).sum(axis=1) + (lam + star) @ (self.kappa + np.abs(self.Z).sum(axis=1)) * eta
        n, d = self.Z.shape
        self.recursion = _larger(self.recursion, np.abs(after - moved) / ((n + d + 4) * EPS * sizes))

    def _see_envelopes(self, steps: SignSteps) -> None:
        kl = self.kl_sum + np.cumsum(kl_divergence(steps.before, steps.after))
        S = steps.S[1:]
        distance = np.linalg.norm(steps.w[1:] / S[:, None] - self.point, axis=1)
        start = self.start_size / S
        whole = start + np.sqrt(2 * (self.kl_start + kl) / S)
        plain = start + np.sqrt(2 * self.kl_start / S)
        # The gap's share under the root, to first order, and the distance that it leaves between v* and the point.
        for name, bound in (("envelope", whole), ("plain", plain)):
            with np.errstate(divide="ignore"):
                ratio = np.where(bound > 0, distance / bound, np.inf)
            at = int(np.argmax(ratio))  # the first NaN, where there is one
            if not ratio[at] <= getattr(self, name):
                setattr(self, name, float(ratio[at]))
                error = (self.distance + math.sqrt(2 * self.gap)) / bound[at] if bound[at] > 0 else math.inf
                setattr(self, f"{name}_slack", float(error))
        self.kl_sum = float(kl[-1])
        self.premise = max(self.premise, self.kl_sum / self.kl_start if self.kl_start > 0 else math.inf)


def _larger(so_far: float, values: np.ndarray) -> float:
    """The largest of all; NaN where one of them is, which `max` would lose."""
    return float(np.max(np.append(values, so_far)))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Path:
    """States that a run keeps, K of them.

    - `steps`, `S`, `kl_sum`: shape (K,); `w`, `v`: shape (K, d).
    - `loss`: its name; `details`: what the dynamics says of its own rounding.
    """

    loss: str
    steps: Int[np.ndarray, " K"]
    S: Float[np.ndarray, " K"]
    w: Float[np.ndarray, "K d"]
    v: Float[np.ndarray, "K d"]
    kl_sum: Float[np.ndarray, " K"]
    details: dict[str, Any]

    @property
    def normalised(self) -> Float[np.ndarray, "K d"]:
        """`w / S`; NaN before the first step."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.S[:, None] > 0, self.w / self.S[:, None], np.nan)


def flow(Z: Float[np.ndarray, "n d"], **options: Any) -> Path:
    """`smoothed_sign_descent` as a dynamics of `run`."""
    found = smoothed_sign_descent(Z, **options)
    return Path(
        loss=found.loss,
        steps=found.steps,
        S=found.S,
        w=found.w,
        v=found.v,
        kl_sum=found.kl_sum,
        details={
            "over the whole run": found.identity_residual,
            "rounding over the whole run": found.identity_slack,
            "largest difference of the update": found.map_residual,
        },
    )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A run and what it is judged against.

    - `fraction`: the rate over gamma_inf of the limit that is predicted; `rate`: what eps was annealed with.
    - `solution`: the barrier's; `None` when there is none (nothing separates, or kappa is out of range; `why` says
      why), or when none was found (`unsolved` says why).
    - `settling`: S by which v should be at v*, see `Setting.settling`.
    - `label`: the parametrisation of its verdicts.
    """

    setting: Setting
    fraction: float
    rate: float
    step: float
    label: str
    path: Path
    checks: StepChecks
    solution: Any = None
    why: str | None = None
    unsolved: str | None = None
    settling: float = math.inf

    @property
    def kappa(self) -> float:
        """The rate that the limit is predicted for."""
        return self.fraction * self.setting.gamma

    @property
    def point(self) -> Float[np.ndarray, " d"]:
        """v*."""
        return self.checks.point

    def distances(self) -> tuple[np.ndarray, np.ndarray]:
        """|v_t - v*| and |w_t/S_t - v*| at the kept steps, NaN for the second at the start."""
        return (
            np.linalg.norm(self.path.v - self.point, axis=1),
            np.linalg.norm(self.path.normalised - self.point, axis=1),
        )


def run(
    setting: Setting,
    fraction: float,
    *,
    step: float,
    n_steps: int,
    eps0: float,
    label: str,
    rate: float | None = None,
    n_kept: int = 200,
    dynamics: Callable[..., Path] = flow,
) -> Run:
    """The dynamics at `rate` (kappa when not given), judged against the barrier's minimiser at kappa.

    `dynamics`: called like `smoothed_sign_descent`, another one for counter-instances.
    """
    kappa = fraction * setting.gamma
    solution, why, unsolved = limit_of(setting, fraction)
    n, d = setting.Z.shape
    certificate = None if solution is None else solution.certificate
    checks = StepChecks(
        Z=setting.Z,
        log_c=np.log(setting.weights),
        log_eps0=math.log(eps0),
        kappa=kappa,
        point=np.full(d, math.nan) if certificate is None else certificate.point,
        multipliers=np.ones(n) if certificate is None else certificate.multipliers,
        distance=math.nan if certificate is None else certificate.distance,
        gap=math.nan if certificate is None else certificate.difference + certificate.difference_slack,
    )
    # Steps that are much too large, or an eps that falls too fast, take lambda out of doubles; the claims say so.
    with np.errstate(over="ignore", invalid="ignore"):
        path = dynamics(
            setting.Z,
            rate=kappa if rate is None else rate,
            step_size=step,
            n_steps=n_steps,
            weights=setting.weights,
            eps0=eps0,
            observe=checks.see,
            n_kept=n_kept,
        )
    return Run(
        setting=setting,
        fraction=fraction,
        rate=kappa if rate is None else rate,
        step=step,
        label=label,
        path=path,
        checks=checks,
        solution=solution,
        why=why,
        unsolved=unsolved,
        settling=math.inf if solution is None else setting.settling(fraction, eps0=eps0),
    )


def limit_of(setting: Setting, fraction: float) -> tuple[Any, str | None, str | None]:
    """The barrier's solution, or why there is none, or why none was found."""
    if not setting.separable:
        return None, setting.why_inseparable, setting.why_unknown
    if not fraction < 1:
        why = f"kappa is {fraction:g} times the largest l-infinity margin: no point of norm below one has margin kappa"
        return None, why, None
    solution = setting.barrier(fraction)
    if solution.status != "optimal":
        return None, None, f"the barrier is not solved: {solution.reason}"
    return solution, None, None


def smoothed_signs(Z: Float[np.ndarray, "n d"], log_lambda: Float[np.ndarray, "T n"]) -> Float[np.ndarray, "T d"]:
    """`u / (1 + |u|)` at `u = Z'lambda`, in any range of lambda."""
    M = log_lambda.max(axis=1, keepdims=True)
    u = np.exp(log_lambda - M) @ Z
    with np.errstate(over="ignore"):
        bottom = np.abs(u) + np.exp(-M)
    return np.divide(u, bottom, out=np.zeros_like(u), where=bottom > 0)


def kl_to(star: Float[np.ndarray, " n"], logs: Float[np.ndarray, "T n"]) -> Float[np.ndarray, " T"]:
    """`KL(lambda*, lambda)` at each row of log lambda; where lambda*_i is zero the term is lambda_i."""
    used = star > 0
    with np.errstate(over="ignore"):
        rest = np.exp(logs[:, ~used]).sum(axis=1)
    return rest + kl_divergence(np.log(star[used])[None], logs[:, used])
