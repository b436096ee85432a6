"""Counter-instances of `smoothed_sign_descent`: each breaks one assumption and names what must not hold."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...claims import Verdict
from .._counters import counters_of
from .._system import Counter
from ._sign_claims import barrier_limit, envelope, kl_recursion, observed_rate, plain_envelope, primal_dual
from ._sign_ends import LABEL, crossovers, fixed_eps_crossover, l2_endpoint, linf_endpoint
from ._sign_run import flow
from ._sign_setting import Setting
from ._sign_variants import changed, root, with_momentum

if TYPE_CHECKING:
    from .smoothed_sign_descent import SmoothedSignDescent

    Check = Callable[[SmoothedSignDescent], list[Verdict]]

R = 0.5
"""The rate over gamma_inf that runs are judged at."""
RUN = f"r = {R:g}"
LARGE = (3, 6)
EPS = (1e-3, 1e-6, 1e-9, 1e-12)
N_STEPS = 20_000


def counters(system: "SmoothedSignDescent") -> Mapping[str, Counter]:
    """Every counter-instance, from the system's seed.

    Each has rows and steps of its own (`sized`), so that what it breaks is seen whatever the options are. Running one
    raises `ValueError` when data are given as well.
    """
    made: dict[str, tuple[str, tuple[tuple[str, str], ...], Check]] = {
        "large-steps": (
            "steps of 3 and of 6 times the largest stable one: the divergences between the steps have no finite sum",
            tuple(
                (claim, f"{RUN}, {share} x stable step")
                for share in LARGE
                for claim in ("plain-envelope", "barrier-limit", "observed-rate")
            ),
            large_steps,
        ),
        "rate-above-margin": (
            "kappa is 1.2 gamma_inf: no point has the margin, and there is no minimiser to tend to",
            tuple(
                (claim, "r = 1.2")
                for claim in ("barrier-limit", "kl-recursion", "envelope", "plain-envelope", "observed-rate")
            ),
            rate_above_margin,
        ),
        "fast-annealing": (
            "eps falls by e^{-2 gamma_inf eta}, faster than any gradient: the steps become signs",
            tuple(
                (claim, RUN)
                for claim in ("barrier-limit", "primal-dual", "kl-recursion", "plain-envelope", "observed-rate")
            ),
            fast_annealing,
        ),
        "no-annealing": (
            "eps does not fall: the steps vanish, and descent turns into gradient descent",
            tuple((claim, RUN) for claim in ("barrier-limit", "primal-dual", "kl-recursion", "observed-rate")),
            no_annealing,
        ),
        "neighbouring-rate": (
            "the run is judged against the barrier of a rate that is larger by one part in a thousand",
            tuple((claim, RUN) for claim in ("barrier-limit", "primal-dual", "kl-recursion")),
            neighbouring_rate,
        ),
        "other-rate": (
            "the run is judged against the barrier of another rate, 0.9 gamma_inf",
            tuple(
                (claim, RUN)
                for claim in (
                    "barrier-limit",
                    "primal-dual",
                    "kl-recursion",
                    "envelope",
                    "plain-envelope",
                    "observed-rate",
                )
            ),
            other_rate,
        ),
        "other-smoothing": (
            "the sign is smoothed as g / (g^2 + eps^2)^(1/2), which belongs to another barrier",
            tuple((claim, RUN) for claim in ("primal-dual", "kl-recursion")),
            other_smoothing,
        ),
        "momentum": (
            "the smoothed sign is that of an average of past gradients: the update has a memory (and the same limit)",
            tuple((claim, RUN) for claim in ("primal-dual", "kl-recursion")),
            momentum,
        ),
        "logistic-loss": (
            "the loss is logistic: lambda has no recursion of its own until the margins are large",
            tuple((claim, RUN) for claim in ("primal-dual", "kl-recursion")),
            logistic_loss,
        ),
        "wrong-end": (
            "each end of the barrier's path is compared with the other norm's maximum margin",
            (("l2-endpoint", LABEL), ("linf-endpoint", LABEL)),
            wrong_end,
        ),
        "annealed-crossover": (
            "eps falls with the rate gamma_inf / 10 while the gradient comes down to it",
            (("fixed-eps-crossover", "fixed eps"),),
            annealed_crossover,
        ),
        "not-separable": (
            "one row is the opposite of another: nothing separates them, and no margin is positive",
            (
                *((claim, RUN) for claim in ("barrier-limit", "envelope", "plain-envelope", "observed-rate")),
                ("l2-endpoint", LABEL),
                ("linf-endpoint", LABEL),
                ("fixed-eps-crossover", "fixed eps"),
            ),
            not_separable,
        ),
    }
    return counters_of(system, made, own=sized(system), what="rows", option="data", noun="data")


def sized(system: "SmoothedSignDescent") -> "SmoothedSignDescent":
    """The system with default options, fewer steps and its own seed."""
    return type(system)(seed=system.seed, n_steps=N_STEPS)


def large_steps(system: "SmoothedSignDescent") -> list[Verdict]:
    """With all steps of the default run."""
    setting, verdicts = system.setting(), []
    for share in LARGE:
        r = system.run(
            setting, R, n_steps=100_000, step=share * setting.stable_step(R), label=f"{RUN}, {share} x stable step"
        )
        verdicts += [envelope(r), plain_envelope(r), barrier_limit(r), observed_rate(r)]
    return verdicts


def rate_above_margin(system: "SmoothedSignDescent") -> list[Verdict]:
    """While lambda, which grows by e^{0.2 gamma_inf eta} a step, is a double."""
    setting = system.setting()
    step = system.step_of(setting, R)
    r = system.run(setting, 1.2, n_steps=math.floor(1500 / setting.gamma / step), step=step)
    return [claim(r) for claim in (barrier_limit, primal_dual, kl_recursion, envelope, plain_envelope, observed_rate)]


def fast_annealing(system: "SmoothedSignDescent") -> list[Verdict]:
    """While lambda, which grows by e^{gamma_inf eta} a step, is a double."""
    setting = system.setting()
    n_steps = math.floor(300 / setting.gamma / (system.step_of(setting, R)))
    r = system.run(setting, R, n_steps=n_steps, rate=2 * setting.gamma)
    return [claim(r) for claim in (barrier_limit, primal_dual, kl_recursion, plain_envelope, observed_rate)]


def no_annealing(system: "SmoothedSignDescent") -> list[Verdict]:
    """A fixed eps, judged as if it fell."""
    r = system.run(system.setting(), R, n_steps=N_STEPS, rate=0.0)
    return [claim(r) for claim in (barrier_limit, primal_dual, kl_recursion, observed_rate)]


def neighbouring_rate(system: "SmoothedSignDescent") -> list[Verdict]:
    """What the last v can tell apart."""
    setting = system.setting()
    r = system.run(setting, 1.001 * R, n_steps=N_STEPS, rate=R * setting.gamma, label=RUN)
    return [barrier_limit(r), primal_dual(r), kl_recursion(r)]


def other_rate(system: "SmoothedSignDescent") -> list[Verdict]:
    """With all steps of the default run: the envelope then lies below the distance of the two minimisers."""
    setting = system.setting()
    step = system.step_of(setting, R)
    r = system.run(setting, 0.9, n_steps=100_000, step=step, rate=R * setting.gamma, label=RUN)
    return [claim(r) for claim in (barrier_limit, primal_dual, kl_recursion, envelope, plain_envelope, observed_rate)]


def other_smoothing(system: "SmoothedSignDescent") -> list[Verdict]:
    """Where the active rows alone determine the minimiser, that of the other barrier is the same."""
    r = system.run(system.setting(), R, n_steps=N_STEPS, dynamics=changed(root))
    return [claim(r) for claim in (barrier_limit, primal_dual, kl_recursion, observed_rate)]


def momentum(system: "SmoothedSignDescent") -> list[Verdict]:
    """Averages over some ten steps: lambda settles at another point, of which v is the same."""
    setting = system.setting()
    smoothing = with_momentum(math.exp(-R * setting.gamma * system.step_of(setting, R)))
    r = system.run(setting, R, n_steps=N_STEPS, dynamics=changed(smoothing))
    return [barrier_limit(r), primal_dual(r), kl_recursion(r)]


def logistic_loss(system: "SmoothedSignDescent") -> list[Verdict]:
    """The limit is the same; the identities are the exponential loss's own."""
    dynamics = functools.partial(flow, loss="logistic")
    r = system.run(system.setting(), R, n_steps=N_STEPS, dynamics=dynamics)
    return [barrier_limit(r), primal_dual(r), kl_recursion(r)]


def wrong_end(system: "SmoothedSignDescent") -> list[Verdict]:
    """l-infinity at the Euclidean end, and the other way round."""
    setting = system.setting()
    return [l2_endpoint(setting, norm="linf"), linf_endpoint(setting, norm="l2")]


def annealed_crossover(system: "SmoothedSignDescent") -> list[Verdict]:
    """The slope is then 1 / (gamma_inf - kappa)."""
    setting = system.setting()
    step = system.crossover_step * setting.sign_step
    return [fixed_eps_crossover(setting, crossovers(setting, EPS, step=step, rate=setting.gamma / 10), step=step)]


def not_separable(system: "SmoothedSignDescent") -> list[Verdict]:
    """The drawn rows and the opposite of the first."""
    Z = system.setting().Z
    setting = Setting(Z=np.vstack([Z, -Z[0]]), weights=np.ones(len(Z) + 1))
    r = system.run(setting, R, n_steps=2000, rate=0.4, step=0.05)
    return [
        *(barrier_limit(r), envelope(r), plain_envelope(r), observed_rate(r)),
        *(l2_endpoint(setting), linf_endpoint(setting)),
        fixed_eps_crossover(setting, crossovers(setting, EPS, step=0.05), step=0.05),
    ]
