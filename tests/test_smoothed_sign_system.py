"""The system `smoothed-sign-descent`: claims hold where they should, counter-instances fail, own data run."""

import dataclasses
import json
import math
import re
from pathlib import Path

import matplotlib
import numpy as np
import optax
import pytest
import xarray as xr

from _records import record
from omegalimit.catalogue.classification import _sign_diagnostics as diagnostics
from omegalimit.catalogue.classification import _sign_draws, _sign_ends, _sign_table
from omegalimit.catalogue.classification._sign_claims import (
    barrier_limit,
    envelope,
    kl_recursion,
    observed_rate,
    plain_envelope,
    primal_dual,
)
from omegalimit.catalogue.classification._sign_draws import APART, rows, setting_of
from omegalimit.catalogue.classification._sign_ends import (
    affordable,
    crossovers,
    fixed_eps_crossover,
    l2_endpoint,
    linf_endpoint,
)
from omegalimit.catalogue.classification._sign_run import run
from omegalimit.catalogue.classification._sign_setting import FAR, Setting, named, power_of_two_below
from omegalimit.catalogue.classification.smoothed_sign_descent import MOST_WORK, SmoothedSignDescent, claims_of
from omegalimit.claims import Outcome
from omegalimit.data.classification_generators import pushed_gaussians, sign_gaussians
from omegalimit.record import plain
from omegalimit.report.figures import sign
from omegalimit.report.figures._shared import STYLE

RUNS = ("r = 0.1", "r = 0.5", "r = 0.9", "r = 0.5, weighted")
COARSE = ("r = 0.5, 0.9 x stable step", "r = 0.5, 1.5 x stable step")
OF_RUNS = ("barrier-limit", "primal-dual", "kl-recursion", "envelope", "plain-envelope", "observed-rate")
JUDGED = {
    *((claim, label) for claim in OF_RUNS for label in RUNS),
    *(("envelope", label) for label in COARSE),
    ("l2-endpoint", "barrier path"), ("linf-endpoint", "barrier path"), ("fixed-eps-crossover", "fixed eps"),
}  # fmt: skip
COUNTERS = (
    "large-steps", "rate-above-margin", "fast-annealing", "no-annealing", "neighbouring-rate", "other-rate",
    "other-smoothing", "momentum", "logistic-loss", "wrong-end", "annealed-crossover", "not-separable",
)  # fmt: skip


def outcomes(verdicts):
    return {(v.claim, v.parametrisation): (v.outcome, v.measured, v.bound) for v in verdicts}


def fixture(factor: float = 1.0) -> Setting:
    return Setting(Z=factor * sign_gaussians().Z, weights=np.ones(6))


# The default run, without its table of optimisers.


@pytest.fixture(scope="module")
def default():
    system = SmoothedSignDescent()
    setting = system.setting()
    runs, coarse = system.runs(setting)
    verdicts = [v for r in runs for v in claims_of(r)] + [envelope(r) for r in coarse]
    verdicts += [l2_endpoint(setting), linf_endpoint(setting)]
    found, crossover, not_applicable = system.crossovers(setting)
    assert len(found) == len(system.eps)
    assert not_applicable == {}
    return [*verdicts, crossover], runs, coarse


def test_every_claim_of_the_default_run_holds(default):
    verdicts, _, _ = default
    rows = outcomes(verdicts)
    assert {key: row for key, row in rows.items() if row[0] is not Outcome.HOLDS} == {}
    assert set(rows) == JUDGED
    assert len(verdicts) == len(JUDGED)


def test_no_claim_is_outside_the_theorem(default):
    verdicts, _, _ = default
    assert {v.claim for v in verdicts if v.outside_theorem} == set()


def test_claims_are_those_of_the_docstring(default):
    verdicts, _, _ = default
    said = re.findall(r"^    - `([a-z0-9-]+)` \(", str(SmoothedSignDescent.__doc__), re.MULTILINE)
    assert set(said) == {v.claim for v in verdicts}


def test_verdicts_are_json(default):
    verdicts, _, _ = default
    text = json.dumps([plain(dataclasses.asdict(v)) for v in verdicts], allow_nan=False)
    assert "barrier-limit" in text


def test_all_steps_were_looked_at(default):
    _, runs, coarse = default
    assert {r.checks.n_steps for r in (*runs, *coarse)} == {200_000}


def test_the_rounding_bounds_are_not_idle(default):
    # A bound that is thousands of times what rounding does would let a wrong identity pass.
    _, runs, _ = default
    assert min(r.checks.identity for r in runs) > 0.01
    assert min(r.checks.recursion for r in runs) > 1e-4


def test_the_plain_envelope_is_violated_where_steps_are_unstable(default):
    _, _, coarse = default
    ratios = [r.checks.plain for r in coarse]
    assert ratios[0] < 1 < ratios[1]


# Numbers of an independent computation, on the same rows with c = 1, eps_0 = 1, eta = 0.05.


def test_margins_and_minimiser_of_the_reference():
    setting = fixture()
    assert setting.gamma == pytest.approx(0.8513643517412691, rel=1e-14)
    linf, l2 = setting.linf.certificate, setting.l2.certificate
    assert linf.point / np.abs(linf.point).max() == pytest.approx([0.9326318707, -0.3057558685, 1, 1], abs=1e-10)
    assert l2.point / np.linalg.norm(l2.point) == pytest.approx(
        [0.2172257118, -0.0712081557, 0.9175361012, 0.3253765383], abs=1e-8
    )
    assert l2.lower == pytest.approx(0.6211913746, abs=1e-10)
    found = setting.barrier(0.5).certificate
    assert found.point == pytest.approx([0.2641441216, -0.0833093787, 0.5734044371, 0.2945414901], abs=1e-10)
    # The reference's own solver stopped 1.5e-11 above the certified value.
    assert found.upper == pytest.approx(0.37913300726, abs=2e-11)
    assert found.upper - found.lower < 1e-15
    assert found.distance < 1e-12


def test_distances_and_envelope_of_the_reference():
    seen = {}

    def watch(r):
        _, w = r.distances()
        return dict(zip(r.path.steps.tolist(), w.tolist(), strict=True))

    for n_steps in (100, 1000, 10_000, 100_000):
        r = run(fixture(), 0.5, step=0.05, n_steps=n_steps, eps0=1.0, label="reference", n_kept=4)
        seen[n_steps] = watch(r)[n_steps]
    assert list(seen.values()) == pytest.approx([0.160144, 0.0271756, 0.00310347, 3.10347e-4], rel=3e-6)
    assert r.checks.kl_start == pytest.approx(3.0946481, abs=5e-8)
    assert math.sqrt(2 * r.checks.kl_start / 500) == pytest.approx(0.1113, abs=5e-5)
    assert r.checks.premise < 0.1


@pytest.mark.parametrize("step", [2.0, 5.0])
def test_large_steps_violate_the_plain_envelope_and_not_the_whole_one(step):
    r = run(fixture(), 0.5, step=step, n_steps=20_000, eps0=1.0, label="large")
    assert plain_envelope(r).outcome is Outcome.FAILS
    assert plain_envelope(r).outside_theorem
    assert envelope(r).outcome is Outcome.HOLDS
    assert primal_dual(r).outcome is Outcome.HOLDS
    assert kl_recursion(r).outcome is Outcome.HOLDS


def test_rows_a_hundred_times_as_large_violate_the_plain_envelope_after_some_thousand_steps():
    def ratio(n_steps):
        return run(fixture(100), 0.5, step=0.05, n_steps=n_steps, eps0=1.0, label="large rows").checks.plain

    assert ratio(3000) < 1 < ratio(4000)


def test_the_crossover_of_the_reference():
    setting = fixture()
    found = crossovers(setting, (1e-3, 1e-6, 1e-9, 1e-12), step=0.01)
    verdict = fixed_eps_crossover(setting, found, step=0.01)
    # One step at each end, of a span of log(10^3) / gamma between the two smallest eps.
    assert verdict.measured < 2 * 0.01 * setting.gamma / math.log(1e3)
    assert verdict.outcome is Outcome.HOLDS


# What was derived.


@pytest.mark.parametrize("seed", [0, 2, 5, 9])
def test_steps_are_stable_up_to_the_curvature_at_the_limit(seed):
    # Started beside the limit, so that the first steps do not matter: eps_0 where the largest u is as at lambda*.
    setting = Setting(Z=sign_gaussians(seed=seed).Z, weights=np.ones(6))
    weights = setting.barrier(0.5).certificate.multipliers * 1.01 + 1e-9
    beside = setting.weighted(weights)
    below, above = (
        run(beside, 0.5, step=share * setting.stable_step(0.5), n_steps=20_000, eps0=1.0, label="share")
        for share in (0.9, 1.2)
    )
    assert below.distances()[0][-1] < 1e-6
    assert above.distances()[0][-100:].max() > 1e-3


@pytest.mark.parametrize("seed", [0, 2, 3, 5])
def test_both_ends_of_the_path_on_other_rows(seed):
    setting = Setting(Z=sign_gaussians(seed=seed).Z, weights=np.ones(6))
    assert l2_endpoint(setting).outcome is Outcome.HOLDS
    assert linf_endpoint(setting).outcome is Outcome.HOLDS
    assert l2_endpoint(setting, norm="linf").outcome is Outcome.FAILS
    assert linf_endpoint(setting, norm="l2").outcome is Outcome.FAILS


def test_the_law_at_the_l_infinity_end():
    laws = linf_endpoint(fixture()).details["relative error of the law 1 - |v_j| = (gamma - kappa) / (m |q_j|)"]
    # first order in gamma - kappa, which falls by 10 from one to the next
    assert laws[-1] < 2e-3
    assert laws[-2] / laws[-1] == pytest.approx(10, rel=0.05)


def test_ends_that_coincide_decide_nothing():
    # With one row of entries of one size every norm's maximiser has the same direction.
    setting = Setting(Z=np.array([[1.0, -1.0]]), weights=np.ones(1))
    for verdict in (l2_endpoint(setting), linf_endpoint(setting)):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.undecided == (
            "the Euclidean and the l-infinity maximum margin are one direction: these data cannot tell them apart."
        )


def test_several_l_infinity_maximisers_decide_nothing():
    # The second coordinate is free, from -1/2 to 1/2: no row and no bound determines it.
    setting = Setting(Z=np.array([[1.0, 0.0], [2.0, 1.0], [2.0, -2.0]]), weights=np.ones(3))
    verdict = linf_endpoint(setting)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided == (
        "more than one point has the largest l-infinity margin, or rounding does not tell them apart."
    )


def test_memory_moves_the_limit_along_the_path_or_holds_the_margins_back():
    setting = fixture()
    data = diagnostics.diagnose(setting, 0.5, step=0.03, eps0=1.0, fixed_eps=1e-6)
    names = list(data["dynamics"].values)
    row = {name: data.isel(dynamics=i) for i, name in enumerate(names)}
    # v settles exponentially, and S is about 290: what is left of that is 1e-4 at most.
    for name in ("Adam (0.9, 0.9)", "RMSProp (0.9)"):
        assert float(row[name]["predicted_distance"]) < 1e-3
    assert float(row["RMSProp (0.9)"]["last_distance"]) > 0.03
    for name in ("Adam (0.9, 0.99)", "Adam (0.9, 0.999)", "RMSProp (0.99)"):
        # the mean over the last tenth of a run that is still on its way
        assert float(row[name]["margin_rate"]) == pytest.approx(float(row[name]["predicted_rate"]), rel=0.1)
    assert float(row["logistic loss"]["last_distance"]) < 1e-4
    assert float(row["signs of momentum (0.9)"]["cos_linf"]) > 0.9999
    assert float(row["fixed eps 1e-06"]["last_distance"]) > 0.5
    said = diagnostics.notes(data)
    assert len(said) == len(names)
    assert all(note.startswith("diagnostic, ") for note in said)


# Rows whose two ends are one direction are drawn again.


def test_the_first_draw_whose_ends_are_apart_is_taken():
    for seed, draw in ((0, 0), (4, 2), (14, 1), (15, 1)):
        setting, notes = setting_of(6, 4, seed)
        assert np.array_equal(setting.Z, rows(6, 4, seed, draw))
        assert setting.apart >= APART
        before = [Setting(Z=rows(6, 4, seed, k), weights=np.ones(6)).apart for k in range(draw)]
        assert all(apart < APART for apart in before)
        told = (
            f"rows of draw {draw + 1}: in those before it the Euclidean and the l-infinity maximum-margin direction "
            "are within 0.02, so that the two ends could not be told apart."
        )
        assert notes == ([told] if draw else [])
    assert np.array_equal(rows(6, 4, 3, 0), sign_gaussians(6, 4, seed=3).Z)
    assert np.array_equal(SmoothedSignDescent(seed=4).setting().Z, rows(6, 4, 4, 2))


def test_draws_that_are_all_alike_are_told(monkeypatch):
    monkeypatch.setattr(_sign_draws, "APART", 3.0)  # no two directions are farther apart than 2
    monkeypatch.setattr(_sign_draws, "MOST_DRAWS", 3)
    _sign_draws._chosen.cache_clear()
    setting, (note,) = setting_of(6, 4, 0)
    _sign_draws._chosen.cache_clear()
    assert np.array_equal(setting.Z, rows(6, 4, 0, 0))
    assert note == (
        "in each of 3 draws the Euclidean and the l-infinity maximum-margin direction are within 3: the first draw was "
        "taken, and the two ends may not be told apart; take fewer rows (`--n`), or more columns (`--d`)."
    )


# Ends that are far away: the bound K (gamma - kappa) is what counts, not a distance.


@pytest.mark.parametrize(("n", "d", "seed"), [(6, 4, 6), (6, 4, 23), (6, 20, 4), (30, 100, 0)])
def test_the_l_infinity_end_is_judged_by_what_is_allowed(n, d, seed):
    setting = Setting(Z=sign_gaussians(n, d, seed=seed).Z, weights=np.ones(n))
    verdict = linf_endpoint(setting)
    assert verdict.outcome is Outcome.HOLDS
    distances = list(verdict.details["distance to the end"].values())
    assert distances[3] > 1e-3  # at 1 - kappa/gamma = 1e-4 the end is not near yet
    assert distances[-1] < 0.1 * verdict.details["distance between the two ends"]
    assert linf_endpoint(setting, norm="l2").outcome is Outcome.FAILS
    assert l2_endpoint(setting).outcome is Outcome.HOLDS
    assert l2_endpoint(setting, norm="linf").outcome is Outcome.FAILS


def test_an_end_that_the_last_rate_does_not_single_out_is_inconclusive(monkeypatch):
    monkeypatch.setattr(_sign_ends, "SMALLER", ())
    setting = Setting(Z=sign_gaussians(30, 100, seed=0).Z, weights=np.ones(30))
    verdict = linf_endpoint(setting)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.fullmatch(
        r"at the last rate a distance of \S+ is allowed, and the two ends are \S+ apart: nothing nearer was solved\.",
        str(verdict.undecided),
    )


# Verdicts that cannot be given.


SHORT = r"v is still \S+ \|v\*\| away from v\*, and was not given the time to arrive: "


def test_a_run_that_is_too_short_is_inconclusive_and_says_what_is_enough():
    def verdicts(n_steps):
        r = run(fixture(), 0.5, step=0.05, n_steps=n_steps, eps0=1.0, label="short")
        return [barrier_limit(r), observed_rate(r)]

    for k, verdict in enumerate(verdicts(300)):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        said = re.fullmatch(SHORT + r"`--n-steps (\d+)` would do, by estimate\.", str(verdict.undecided))
        assert said is not None
        assert verdicts(int(said[1]))[k].outcome is Outcome.HOLDS


def test_distances_are_judged_beside_the_size_of_the_minimiser():
    # v* is of the size of kappa: v is several times as large still, and less than 1e-6 away.
    system = SmoothedSignDescent(step=0.9)
    r = system.run(system.setting(), 1e-6, n_steps=200_000)
    assert r.distances()[0][-1] < 1e-4
    for claim in (barrier_limit, observed_rate):
        assert claim(r).outcome is Outcome.INCONCLUSIVE
        assert re.fullmatch(SHORT + r"`--n-steps \d+` would do, by estimate\.", str(claim(r).undecided))


def test_steps_that_are_next_to_nothing_decide_nothing():
    system = SmoothedSignDescent()
    r = system.run(system.setting(), 0.999999999, n_steps=1000)
    for claim in (barrier_limit, observed_rate):
        assert claim(r).outcome is Outcome.INCONCLUSIVE
        assert re.fullmatch(
            SHORT + r"no number of steps that can be run will do; take rates farther from 0 and 1 \(`--kappas`\)\.",
            str(claim(r).undecided),
        )


def test_columns_of_very_different_size_are_named():
    setting = Setting(Z=sign_gaussians().Z * np.array([1.0, 1e-4, 1.0, 1e-4]), weights=np.ones(6))
    r = run(setting, 0.5, step=0.01, n_steps=1000, eps0=1.0, label="uneven")
    assert re.fullmatch(
        SHORT + r".* by estimate; the columns differ in size by a factor of \S+: scale them\.|"
        + SHORT + r"no number of steps that can be run will do; the columns differ in size by a factor of \S+: scale "
        r"them\.",
        str(barrier_limit(r).undecided),
    )  # fmt: skip
    assert setting.spread > 1000


def test_a_run_that_had_the_time_and_went_elsewhere_fails():
    # A fixed eps, judged as if it fell: v tends to zero.
    r = run(fixture(), 0.5, step=0.05, n_steps=30_000, eps0=1.0, label="fixed", rate=0.0)
    assert r.path.S[-1] > 3 * r.settling
    assert [claim(r).outcome for claim in (barrier_limit, observed_rate)] == [Outcome.FAILS] * 2


@pytest.mark.parametrize("seed", [0, 3, 6])
def test_the_time_to_settle_is_an_upper_estimate_of_the_right_order(seed):
    system = SmoothedSignDescent(seed=seed)
    setting = system.setting()
    for fraction in system.kappas:
        S = setting.settling(fraction, eps0=setting.gradient_size)
        step = 0.5 * setting.small_step(fraction, eps0=setting.gradient_size)
        r = system.run(setting, fraction, step=step, n_steps=math.ceil(1.5 * S / step))
        v, _ = r.distances()
        far = r.path.S[v > FAR * np.linalg.norm(r.point)]
        assert S / 20 < far[-1] < 1.2 * S


@pytest.mark.parametrize("kappa", [1 - 1e-13, 0.9999999999999999])
def test_a_limit_that_is_not_solved_is_inconclusive_and_no_failure(kappa):
    system = SmoothedSignDescent()
    r = system.run(system.setting(), kappa, n_steps=1000)
    assert r.solution is None
    for verdict in claims_of(r):
        if verdict.claim == "primal-dual":
            continue
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert str(verdict.undecided) == f"the barrier is not solved: {system.setting().barrier(kappa).reason}"
    assert SmoothedSignDescent(kappas=(kappa,)).diagnostics(system.setting()) is None


def test_margins_that_are_not_solved_are_inconclusive_ends():
    setting = fixture()
    setting.__dict__["l2"] = dataclasses.replace(setting.l2, status="stalled", reason="the gap is 1e-3.")
    for claim in (l2_endpoint, linf_endpoint):
        verdict = claim(setting)
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.undecided == "the Euclidean maximum margin is not solved: the gap is 1e-3."


@pytest.mark.parametrize("seed", [0, 1, 4, 8, 14])
def test_the_envelope_holds_beyond_the_largest_stable_step(seed):
    # On some of these rows lambda diverges, and the sum of divergences leaves doubles.
    system = SmoothedSignDescent(seed=seed)
    setting = system.setting()
    step = 1.5 * setting.small_step(0.5, eps0=setting.gradient_size)
    r = system.run(setting, 0.5, step=step, n_steps=20_000)
    assert envelope(r).outcome is Outcome.HOLDS
    assert 0 < r.checks.envelope < 1


def test_an_envelope_beyond_doubles_exceeds_every_distance():
    r = run(fixture(), 0.5, step=5000.0, n_steps=1000, eps0=1.0, label="huge")
    assert r.checks.kl_sum == math.inf
    assert envelope(r).outcome is Outcome.HOLDS
    # |v|_inf and |v*|_inf are at most 1, the envelope at least the root of 2 / S times the largest double.
    assert 2 * math.sqrt(4) < math.sqrt(2 / r.path.S[-1]) * math.sqrt(np.finfo(float).max)
    r.checks.kl_sum = math.nan
    assert envelope(r).undecided == "lambda left double precision, and the sum of divergences is no number."


def test_crossovers_are_those_that_can_be_afforded():
    setting, system = fixture(), SmoothedSignDescent()
    step = 0.25 * setting.sign_step
    assert affordable(setting, system.eps, step=step, work=1e12) == tuple(sorted(system.eps, reverse=True))
    # The small ones, far apart.
    assert affordable(setting, system.eps, step=step, work=3e7) == (1e-25, 1e-50, 1e-100)
    assert affordable(setting, system.eps, step=step, work=1e6) == ()
    far = Setting(Z=np.array([[1.0, 1.0], [-1.0, -1.0 + 1e-6]]), weights=np.ones(2))
    assert system.crossovers(far) == (
        [],
        None,
        {
            "fixed-eps-crossover": "the steps must be small, 3.1e-08, beside gamma_inf, 5e-07, and would be too many",
        },
    )


def test_a_slope_that_still_changes_is_inconclusive():
    setting = fixture()
    # S_x = log(1/eps) / gamma, late by a start-up that is over after the second
    S = [(eps, math.log(1 / eps) / setting.gamma + late) for eps, late in ((1e-3, 0.2), (1e-6, 0.8), (1e-12, 1.0))]
    verdict = fixed_eps_crossover(setting, S, step=1e-3, dropped=(1e-25,))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.fullmatch(
        r"the slope times gamma_inf is 1\.0739 and then 1\.0123: it takes smaller eps, or some farther apart\. "
        r"Not run, since they take too many steps here: eps = 1e-25\.",
        str(verdict.undecided),
    )
    steady = [(eps, 1.02 * math.log(1 / eps) / setting.gamma) for eps in (1e-3, 1e-6, 1e-12)]
    assert fixed_eps_crossover(setting, steady, step=1e-3).outcome is Outcome.FAILS


# Counter-instances.


def test_counters_are_named():
    assert tuple(SmoothedSignDescent().counters) == COUNTERS


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_instance_fails_as_it_should(name):
    counter = SmoothedSignDescent().counters[name]
    found = counter.check(lambda text, fraction: None)
    assert counter.as_expected(found)
    assert found.notes == ()


def test_every_claim_has_a_counter_instance():
    broken = {claim for c in SmoothedSignDescent().counters.values() for claim, _ in c.expected}
    assert broken == {claim for claim, _ in JUDGED}


def test_a_counter_instance_says_which_options_it_leaves():
    counter = SmoothedSignDescent(n=8, kappas=(0.2,)).counters["neighbouring-rate"]
    assert counter.check(lambda text, fraction: None).notes == (
        "not used by a counter-instance, which has rows of its own: --n, --kappas.",
    )
    with pytest.raises(ValueError, match=r"^a counter-instance makes its own data; drop `--data` \(got 'a\.csv'\)\.$"):
        SmoothedSignDescent(data="a.csv").counters["momentum"].check(lambda text, fraction: None)


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kappas": (0.5, 1.2)},
            "`kappas` must lie between 0 and 1, both excluded: they are shares of gamma_inf, the largest l-infinity "
            "margin, from which on no point has the margin; got 1.2.",
        ),
        ({"kappas": ()}, "`kappas` is empty; give at least one rate between 0 and 1."),
        ({"d": 1}, "`d` must be a whole number of at least 2; got 1."),
        ({"n": 1}, "`n` must be a whole number of at least 2; got 1."),
        ({"n_steps": 10}, "`n_steps` must be a whole number of at least 1000; got 10."),
        ({"step": 0.0}, "`step` must lie between 1e-300 and 1e300; got 0.0."),
        ({"coarse": (2.0, -1.0)}, "`coarse` must lie between 1e-300 and 1e300; got -1.0."),
        ({"eps": (1e-3, 1e-3)}, "`eps` needs two values at least, to see a slope; got (0.001, 0.001)."),
        ({"eps": (1e-3, 2.0)}, "`eps` must lie between 1e-300 and 1; got 2.0."),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SmoothedSignDescent(**options)


@pytest.mark.parametrize("kappa", [math.nan, 0.0, 1.0, -0.5])
def test_rates_at_the_ends_and_beyond_are_refused(kappa):
    with pytest.raises(ValueError, match=r"^`kappas` must lie between 0 and 1, both excluded"):
        SmoothedSignDescent(kappas=(kappa,))


def test_labels_of_two_rates_are_two():
    close = (0.5, 0.5000000001, 0.5)
    system = SmoothedSignDescent(kappas=close, coarse=(0.9, 0.90000000001))
    runs, coarse = system.runs(system.setting(), 1000)
    assert [r.label for r in (*runs, *coarse)] == [
        "r = 0.5", "r = 0.5000000001", "r = 0.5, weighted", "r = 0.5, 0.9 x stable step",
        "r = 0.5, 0.90000000001 x stable step",
    ]  # fmt: skip
    assert [named(x) for x in (0.1, 1e-300, 0.999999999, 3.0)] == ["0.1", "1e-300", "0.999999999", "3"]


def test_steps_that_are_asked_for_are_taken_and_others_told():
    setting = fixture()
    asked = SmoothedSignDescent(n_steps=1234)
    assert asked.steps_of(setting, 0.5) == 1234
    assert asked.told_of_steps(setting, asked.runs(setting)[0]) == []
    slow = SmoothedSignDescent(seed=3)  # at r = 0.9
    assert slow.steps_of(slow.setting(), 0.1) == 200_000
    assert slow.steps_of(slow.setting(), 0.9) > 500_000
    wide = Setting(Z=np.hstack([sign_gaussians(300, 30).Z]), weights=np.ones(300))
    assert SmoothedSignDescent().steps_of(wide, 0.5) == wide.affordable_steps(MOST_WORK) < 200_000


def test_options_without_a_part_are_told():
    assert SmoothedSignDescent(target="y", intercept=True).ignored_options() == [
        "not used without `--data`: --target, --intercept."
    ]
    assert SmoothedSignDescent(data="a.csv", n=7).ignored_options() == ["not used with `--data`: --n."]


# The user's own data.


def written(path, X, labels):
    lines = [",".join([*(f"x{j}" for j in range(X.shape[1])), "class"])]
    lines += [",".join([*map(repr, map(float, row)), str(label)]) for row, label in zip(X, labels, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_own_data_have_the_margin_that_is_certified(tmp_path):
    # S40: a soft margin with a huge constant misses the direction by 1e-2.
    drawn = pushed_gaussians()
    names = np.where(drawn.y > 0, "up", "down")
    for factor in (1.0, 1e150, 1e-150):
        path = written(tmp_path / "s40.csv", drawn.X * factor, names)
        data, setting = SmoothedSignDescent(data=path, target="class").own_data()
        assert setting.l2.certificate.lower * setting.unit == pytest.approx(0.46024 * factor, rel=1e-5)
        assert setting.l2.certificate.gap < 1e-11
        assert np.array_equal(setting.Z * setting.unit, data.Z)
        assert 0.5 < np.abs(setting.Z).max() < 4


def test_the_claims_hold_on_own_data(tmp_path):
    drawn = pushed_gaussians(n=12, d=5, seed=4)
    path = written(tmp_path / "own.csv", drawn.X * 1e120, drawn.y.astype(int))
    system = SmoothedSignDescent(data=path, target="class", kappas=(0.4,), coarse=())
    _, setting = system.own_data()
    runs, coarse = system.runs(setting, 40_000)
    assert coarse == []
    verdicts = [v for r in runs for v in claims_of(r)] + [l2_endpoint(setting), linf_endpoint(setting)]
    assert {v.claim: v.outcome for v in verdicts if v.outcome is not Outcome.HOLDS} == {}


def test_rows_beyond_what_double_precision_decides_are_not_called_inseparable(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 4))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1, -1)
    X[:, 0] += 0.3 * y  # separable, and still so in any units of the columns
    path = written(tmp_path / "units.csv", X * [1e12, 1e-12, 1, 1], y)
    with pytest.raises(ValueError, match="could not be decided") as caught:
        SmoothedSignDescent(data=path, target="class").own_data()
    said = (
        rf"{re.escape(path)}: whether anything separates the classes could not be decided: (.+) Bring the columns to "
    )
    assert re.fullmatch(said + r"like sizes\.", str(caught.value))


def test_own_data_that_nothing_separates(tmp_path):
    X = np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0], [3.0, 2.0]])
    path = written(tmp_path / "circle.csv", X, [1, 1, 1, -1])
    with pytest.raises(ValueError, match="nothing separates the classes") as caught:
        SmoothedSignDescent(data=path, target="class").own_data()
    said = re.fullmatch(
        rf"{re.escape(path)}: nothing separates the classes through the origin: the rows y_i x_i, the first is 0, add "
        r"up to zero with these positive weights: (.+)\. "
        r"With a column of ones \(`--intercept`\) they may be separable\.",
        str(caught.value),
    )
    assert said is not None
    Z = X * np.array([[1], [1], [1], [-1]])
    named = re.findall(r"(\d) \(([0-9.]+)\)", said[1])
    assert sum(float(p) for _, p in named) == pytest.approx(1, abs=2e-3)
    assert sum(float(p) * Z[int(i)] for i, p in named) == pytest.approx(0, abs=2e-3)  # weights are shown to 3 digits
    _, setting = SmoothedSignDescent(data=path, target="class", intercept=True).own_data()
    assert setting.Z.shape == (4, 3)
    assert setting.separable


def test_own_data_that_contradict_themselves(tmp_path):
    path = written(tmp_path / "twice.csv", np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 2.0]]), ["a", "b", "b"])
    message = (
        f"{path}: rows 0 and 2 (the first is 0) are equal and have opposite labels: nothing separates the classes, in "
        "whatever norm and with or without an intercept."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SmoothedSignDescent(data=path).own_data()


def test_powers_of_two():
    assert [power_of_two_below(x) for x in (1.0, 1.5, 2.0, 0.75, 3e-200)] == [1.0, 1.0, 2.0, 0.5, 2.0**-663]


def test_own_data_of_one_column_have_no_ends(tmp_path):
    path = written(tmp_path / "one.csv", np.array([[1.0], [2.0], [-1.5]]), ["a", "a", "b"])
    system = SmoothedSignDescent(data=path)
    reason = "in one column every margin has the same maximiser: there is no path between two ends"
    assert system.ends(system.own_data()[1]) == ([], {"l2-endpoint": reason, "linf-endpoint": reason})


# The table of optimisers.


def test_an_optimiser_that_does_not_move_costs_one_row():
    Z = sign_gaussians().Z
    # An eps so large that it counts from the start, and an optimiser that makes no update.
    held = [e for e in _sign_table._of_vectors(Z, 100, 100.0, 1.0) if e.name.endswith("eps 100")]
    still = _sign_table.Entry(name="still", make=lambda eps: optax.set_to_zero(), n_steps=100)
    table = _sign_table._table(Z, [*held, still], ("l2",))
    assert table.ratios is not None
    assert table.ratios.names == ("Adam (0.9, 0.999), eps 100",)
    assert table.notes[-1] == "table, still: left out, w is still zero after 100 steps."
    nothing = _sign_table._table(Z, [still], ("l2",))
    assert (nothing.ratios, nothing.dataset) == (None, None)
    assert nothing.notes == table.notes[-1:]


def test_an_eps_in_units_of_the_data_stays_a_number():
    def eps(unit):
        entries = _sign_table._of_vectors(sign_gaussians().Z, 1000, 1e-3, unit)
        return {e.name: e.eps for e in entries if e.name.startswith("Adam")}

    names = ("Adam (0.9, 0.999), eps 1e-100", "Adam (0.9, 0.999), eps 0.001")
    for unit, expected in ((1.0, 1e-3), (2.0**-1020, 1e300), (2.0**1020, 1e-300), (0.5, 2e-3)):
        assert eps(unit) == dict(zip(names, (1e-100, expected), strict=True))


# Everything together, with the table of optimisers.


@pytest.fixture(scope="module")
def whole():
    ticks = []
    system = SmoothedSignDescent(
        kappas=(0.5,), coarse=(1.5,), n_steps=20_000, eps=(1e-3, 1e-6, 1e-12), optimiser_steps=5000
    )
    return system.check(lambda text, fraction: ticks.append(fraction)), ticks


@pytest.mark.slow
def test_a_whole_check(whole):
    findings, ticks = whole
    assert {v.claim for v in findings.verdicts} == {claim for claim, _ in JUDGED}
    assert {v.claim for v in findings.verdicts if v.outcome is Outcome.FAILS} == set()
    assert findings.not_applicable == {}
    assert ticks[0] == 0.0
    assert ticks[-1] == 1.0
    assert ticks == sorted(ticks)
    assert findings.settings["gamma_inf"] == pytest.approx(0.8513643517412691)
    assert set(findings.arrays) == {
        "r = 0.5/sign-run", "r = 0.5, weighted/sign-run", "r = 0.5, 1.5 x stable step/sign-run", "drawn/sign-path",
        "drawn/sign-crossover", "drawn/sign-diagnostics", "drawn/sign-optimisers", "matrices/sign-optimisers",
    }  # fmt: skip


@pytest.mark.slow
def test_the_table_names_the_norms_that_are_known(whole):
    findings, _ = whole
    vectors, matrices = (findings.arrays[f"{name}/sign-optimisers"] for name in ("drawn", "matrices"))
    winner = dict(zip(vectors["point"].values, vectors["winner"].values, strict=True))
    assert winner["normalised gradient descent"] == "l2"
    # These go on by the logarithm of the steps: no farther from the l1 optimum than from l2 yet, to be named.
    at = [list(vectors["point"].values).index(name) for name in ("gradient descent", "momentum (0.9)")]
    assert [str(vectors["norm"].values[k]) for k in vectors["ratio_lower"].values[at].argmax(axis=1)] == ["l2", "l2"]
    assert {winner[name] for name in ("gradient descent", "momentum (0.9)")} <= {"", "l2"}
    assert winner["sign descent"] == winner["signs of momentum (0.9)"] == "linf"
    assert winner["RMSProp (0.9), eps 1e-100"] == winner["Adam (0.9, 0.999), eps 1e-100"] == "linf"
    of_matrices = dict(zip(matrices["point"].values, matrices["winner"].values, strict=True))
    assert of_matrices["sign descent"] == "linf"
    assert of_matrices["normalised gradient descent"] == "frobenius"
    assert of_matrices["Muon (0.95), orthogonal to rounding"] == "spectral"
    for table in (vectors, matrices):
        assert np.all(table["ratio_lower"] <= table["ratio_upper"])
        assert np.all(table["ratio_upper"] <= 1)
        # the largest margins are certified: their bounds are equal to ten digits
        assert np.all(table["maximum_margin_upper"] / table["maximum_margin_lower"] < 1 + 1e-9)


# Figures, from made-up records.

FIGURES = ["sign-path", "sign-run", "sign-crossover", "sign-diagnostics", "sign-optimisers"]


def made_up():
    S, along = np.geomspace(0.1, 100, 20), ("dynamics", "mark")
    falling = 1 / (1 + S)
    path = np.linspace(0, 1, 9)
    return {
        "rows/sign-path": xr.Dataset(
            {
                "fraction": ("rate", path),
                "direction": (("rate", "coordinate"), np.stack([np.cos(path), np.sin(path)], axis=1)),
                "l2_ratio": ("rate", 1 - 0.2 * path),
                "linf_ratio": ("rate", 0.8 + 0.2 * path),
                "l2_end": ("coordinate", [1.0, 0.0]),
                "linf_end": ("coordinate", [0.54, 0.84]),
            }
        ),
        "r = 0.5/sign-run": xr.Dataset(
            {
                "S": ("step", np.append(0.0, S)),
                "v_distance": ("step", np.append(1.0, falling**2)),
                "w_distance": ("step", np.append(np.nan, falling)),
                "envelope": ("step", np.append(np.nan, 3 * S**-0.5)),
                "plain_envelope": ("step", np.append(np.nan, 2 * S**-0.5)),
            }
        ),
        "rows/sign-crossover": xr.Dataset(
            {"log_inverse_eps": ("eps", [7.0, 14.0, 28.0]), "S": ("eps", [8.0, 15.0, np.nan])},
            attrs={"gamma_inf": 1.0, "slope": 1.0},
        ),
        "rows/sign-diagnostics": xr.Dataset(
            {
                "S": ("mark", S),
                "distance": (along, np.stack([falling, np.ones(20)])),
                "l2_ratio": (along, np.stack([falling, 0.9 * np.ones(20)])),
                "linf_ratio": (along, np.stack([falling, 0.8 * np.ones(20)])),
            },
            coords={"dynamics": ["smoothed signs", "fixed eps 1e-06"]},
        ),
        "rows/sign-optimisers": xr.Dataset(
            {
                "ratio_lower": (("point", "norm"), [[0.99, 0.7], [0.6, 0.999]]),
                "ratio_upper": (("point", "norm"), [[0.99, 0.7], [0.6, 0.999]]),
            },
            coords={"point": ["descent", "signs"], "norm": ["l2", "linf"]},
        ),
    }


def drawn(arrays):
    with matplotlib.rc_context(STYLE):
        return sign.draw(record(arrays))


def pixels(figure) -> np.ndarray:
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba(), dtype=float)[..., :3]


def test_every_figure_is_made_and_shows_something():
    figures = drawn(made_up())
    assert list(figures) == FIGURES
    for figure in figures.values():
        assert figure is not None
        picture = pixels(figure)
        assert (np.abs(picture - picture[0, 0]).max(axis=2) > 50).mean() > 0.005


def test_nothing_to_show_is_no_figure():
    assert drawn({}) == dict.fromkeys(FIGURES)
    counters = {f"counters/momentum/{name}": dataset for name, dataset in made_up().items()}
    assert drawn(counters) == dict.fromkeys(FIGURES)


@pytest.mark.parametrize("name", ["rows/sign-path", "r = 0.5/sign-run", "rows/sign-crossover", "rows/sign-optimisers"])
def test_a_group_makes_its_figure_alone(name):
    assert sum(figure is not None for figure in drawn({name: made_up()[name]}).values()) == 1


def test_the_table_has_the_highest_ratio_of_a_row_in_bold():
    figure = drawn({"rows/sign-optimisers": made_up()["rows/sign-optimisers"]})["sign-optimisers"]
    assert figure is not None
    bold = {text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"}
    assert bold == {"0.9900", "0.9990"}


# The page.


def test_the_code_of_the_page_runs():
    page = (Path(__file__).parents[1] / "docs" / "smoothed-sign-descent.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    assert barrier_limit(names["run"]).outcome is Outcome.HOLDS
    assert names["certificate"].distance < 1e-12


def test_the_page_names_claims_and_counter_instances():
    page = (Path(__file__).parents[1] / "docs" / "smoothed-sign-descent.md").read_text()
    for name in (*COUNTERS, *(claim for claim, _ in JUDGED)):
        assert f"`{name}`" in page
