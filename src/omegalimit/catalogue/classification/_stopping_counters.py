"""Counter-instances of `early_stopping`: each breaks one assumption and names what must not hold."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..._threads import one_blas_thread
from ...claims import Verdict
from ...data.mixture import Mixture
from ...limits.mixture_risk import MixtureRisk
from .._system import Counter, Findings, Progress
from ._stopping_claims import (
    best_interpolator_grows,
    best_interpolator_loses,
    hold_out,
    interpolator_floor,
    oracle_excess_falls,
    stopping_time_grows,
)
from ._stopping_draws import Run, Setting
from ._stopping_geometry import bayes_direction, calibration, quadratic_excess

if TYPE_CHECKING:
    from .early_stopping import EarlyStopping

    Check = Callable[[EarlyStopping, Progress], list[Verdict]]

DIM = 1000


def counters(system: "EarlyStopping") -> Mapping[str, Counter]:
    """Every counter-instance, from the system's seed; sizes, spectrum and noise are each one's own."""
    made: dict[str, tuple[str, tuple[str, ...], Check]] = {
        "clean-and-strong": (
            "no label is flipped and the classes are far apart: interpolation is fine, and stopping gains nothing",
            (
                "oracle-excess-falls",
                "stopping-time-grows",
                "interpolator-floor",
                "best-interpolator-grows",
                "best-interpolator-loses",
                "hold-out",
            ),
            clean_and_strong,
        ),
        "isotropic": (
            "all directions vary equally: the first step is the best one, and stopping gains little over interpolation",
            ("stopping-time-grows", "interpolator-floor", "best-interpolator-grows", "best-interpolator-loses"),
            isotropic,
        ),
        "too-late": (
            "the path is stopped far too late: it is hardly better than the interpolator that it tends to",
            ("interpolator-floor", "best-interpolator-loses"),
            too_late,
        ),
        "too-few-steps": (
            "descent ends after four steps, before the best time at any size",
            ("oracle-excess-falls", "stopping-time-grows"),
            too_few_steps,
        ),
        "validated-on-training": (
            "the time is chosen by the loss on the training rows",
            ("hold-out",),
            validated_on_training,
        ),
        "angle-to-the-mean": (
            "angles are taken to mu, and not to Sigma^-1 mu",
            ("quadratic-excess", "bayes-direction"),
            angle_to_the_mean,
        ),
        "noise-forgotten": (
            "two labels of five are flipped, and the constant of clean labels is taken for K",
            ("calibration",),
            noise_forgotten,
        ),
        "local-constant": (
            "the constant that holds at the minimiser is taken for K along the whole path",
            ("calibration",),
            local_constant,
        ),
    }

    def counter(name: str) -> Counter:
        text, claims, make = made[name]

        def check(progress: Progress) -> Findings:
            if system.spectrum is not None or system.eigenvalues:
                raise ValueError(f"the counter-instance {name!r} has a spectrum of its own; leave out yours.")
            progress(text, 0.0)
            with one_blas_thread():
                verdicts = make(sized(system), progress)
            progress("done", 1.0)
            return Findings(verdicts=tuple(verdicts), settings={"seed": system.seed, "counter": name})

        spectrum = ISOTROPIC if name == "isotropic" else FALLING
        return Counter(text=text, expected=tuple((claim, spectrum) for claim in claims), check=check)

    return {name: counter(name) for name in made}


FALLING, ISOTROPIC = "polynomial-1.2", "isotropic"


def sized(system: "EarlyStopping") -> "EarlyStopping":
    """The system at the counters' sizes: of the options only the seed counts."""
    return type(system)(sizes=(50, 100, 200), dim=DIM, draws=16, interpolators=15, seed=system.seed)


def falling(*, flips: float = 0.1, r: float = 2.0, n_steps: int = 400) -> Setting:
    """Spectrum i^-1.2."""
    return Setting(name=FALLING, mixture=Mixture.polynomial(DIM, a=1.2, r=r, flips=flips), n_steps=n_steps)


def last(run: Run) -> float:
    """The excess at the last step."""
    return float(run.excess[-1])


def clean_and_strong(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """p = 0, r = 4: the Bayes classifier errs on 3 rows of 100 000."""
    setting = falling(flips=0.0, r=4.0)
    runs = system.runs(setting, role=3, progress=progress)
    return [
        oracle_excess_falls(setting, runs),
        stopping_time_grows(setting, runs),
        interpolator_floor(setting, runs),
        best_interpolator_grows(setting, runs),
        best_interpolator_loses(setting, runs),
        hold_out(setting, runs),
    ]


def isotropic(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """Sigma = 1."""
    setting = Setting(name=ISOTROPIC, mixture=Mixture.polynomial(DIM, a=0.0))
    runs = system.runs(setting, role=4, progress=progress)
    return [
        oracle_excess_falls(setting, runs),
        stopping_time_grows(setting, runs),
        interpolator_floor(setting, runs),
        best_interpolator_grows(setting, runs),
        best_interpolator_loses(setting, runs),
    ]


def too_late(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """At 3000 steps, some hundred times the best."""
    setting = falling(n_steps=3000)
    runs = dataclasses.replace(system, sizes=(50, 100)).runs(setting, role=5, progress=progress)
    return [interpolator_floor(setting, runs, of=last), best_interpolator_loses(setting, runs, of=last)]


def too_few_steps(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """Sizes at which the best time is at ten steps or more."""
    setting = falling(n_steps=4)
    runs = dataclasses.replace(system, sizes=(200, 400), draws=8, interpolators=2).runs(
        setting, role=6, progress=progress
    )
    return [oracle_excess_falls(setting, runs), stopping_time_grows(setting, runs)]


def validated_on_training(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """The loss on the training rows falls to the end."""
    setting = falling()
    return [hold_out(setting, system.runs(setting, role=7, progress=progress), criterion="train")]


def angle_to_the_mean(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """As if the covariance were a multiple of the identity."""
    setting = falling()
    runs = _few(system, setting, 8)
    mean = np.asarray(setting.mixture.mean)
    return [
        quadratic_excess(setting, runs, seed=system.seed, reference=mean),
        bayes_direction(setting, runs, seed=system.seed, expected=mean),
    ]


def noise_forgotten(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """p = 0.4, with the constant of p = 0."""
    setting = falling(flips=0.4)
    m = setting.mixture
    clean = MixtureRisk(mean=m.mean, eigenvalues=m.eigenvalues, flips=0.0).calibration.supremum
    return [calibration(setting, _few(system, setting, 9), constant=clean)]


def local_constant(system: "EarlyStopping", progress: Progress) -> list[Verdict]:
    """The limit of the ratio at the minimiser, of weight vectors that turn away from it."""
    setting = falling()
    return [calibration(setting, _few(system, setting, 10), constant=setting.risk.calibration.local)]


def _few(system: "EarlyStopping", setting: Setting, role: int) -> dict[int, list[Run]]:
    return dataclasses.replace(system, sizes=(50, 100), draws=4, interpolators=2).runs(setting, role=role)
