"""The system `negative-shifted-descent`: claims hold where they should, counter-instances fail, own data run."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from omegalimit.catalogue.regression import _shifted_filters as filters
from omegalimit.catalogue.regression._shifted_experiment import flat_setting
from omegalimit.catalogue.regression._shifted_risks import (
    beats_endpoints,
    beats_rescaling,
    head_worth_amplifying,
    interval,
    noise_of,
)
from omegalimit.catalogue.regression._shifted_spectra import bulk_barrier, floor_critical_path, sigmas
from omegalimit.catalogue.regression.negative_shifted_descent import NegativeShiftedDescent
from omegalimit.claims import Outcome
from omegalimit.data.spike_designs import Tail
from omegalimit.limits.spectral_filters import flow_filter, rescaling_filter
from omegalimit.record import plain

JUDGED = {
    ("filter-formula", "flow"), ("filter-formula", "descent"), ("one-crossing", "flow"), ("one-crossing", "descent"),
    ("two-crossings", "descent"), ("leading-prefix", "flow"), ("leading-prefix", "descent"),
    ("endpoint-pole", "endpoint"), ("anti-shrinkage", "endpoint"), ("bulk-barrier", "spectrum"),
    ("trace-sets-floor", "spectrum"), ("squared-spectrum-sets-exposure", "spectrum"), ("floor-critical-path", "flow"),
    ("beats-endpoints", "flow"), ("risk-ratio-grows", "flow"), ("beats-rescaling", "flow"),
    ("amplification-rule", "spectrum"), ("head-worth-amplifying", "spectrum"), ("hold-out", "flow"),
}  # fmt: skip
COUNTERS = (
    "coarse-steps", "no-shift", "large-steps", "odd-steps", "start-not-zero", "stopped-early", "isotropic",
    "head-inside-bulk", "single-head", "wrong-shift", "dependent-rows", "short-tail", "fixed-aspect", "unequal-noise",
    "validated-on-training",
)  # fmt: skip


def outcomes(findings):
    return {(v.claim, v.parametrisation): (v.outcome, v.measured, v.bound) for v in findings.verdicts}


def smaller(**options):
    """The system with fewer and smaller designs: its claims hold there as well."""
    return NegativeShiftedDescent(**{"n": 120, "sizes": (60, 120, 240), "draws": 4, **options})


# The default run.


@pytest.fixture(scope="module")
def default():
    ticks = []
    findings = NegativeShiftedDescent().check(lambda text, fraction: ticks.append(fraction))
    return findings, ticks


def test_every_claim_of_the_default_run_holds(default):
    findings, ticks = default
    rows = outcomes(findings)
    assert {key: row for key, row in rows.items() if row[0] is not Outcome.HOLDS} == {}
    assert set(rows) == JUDGED
    assert len(findings.verdicts) == len(JUDGED)
    assert findings.not_applicable == {}
    assert ticks[0] == 0.0
    assert ticks[-1] == 1.0
    assert ticks == sorted(ticks)


def test_no_claim_is_outside_the_theorem(default):
    findings, _ = default
    outside = {v.claim for v in findings.verdicts if v.outside_theorem}
    assert outside == set()


def test_claims_are_those_of_the_docstring(default):
    findings, _ = default
    page = NegativeShiftedDescent.__doc__
    assert page is not None
    for claim in {v.claim for v in findings.verdicts}:
        assert f"`{claim}`" in page


def test_details_and_settings_are_ready_for_json(default):
    findings, _ = default
    for v in findings.verdicts:
        json.dumps(plain(v.details), allow_nan=False)
        assert all(map(math.isfinite, (v.measured, v.bound, v.slack)))
        assert isinstance(v.measured, float)
        assert v.loss == "squared"
    settings = json.loads(json.dumps(plain(findings.settings), allow_nan=False))
    assert set(settings) >= {field.name for field in dataclasses.fields(NegativeShiftedDescent)}


def test_the_measured_numbers_are_those_of_theory(default):
    findings, _ = default
    found = {(v.claim, v.parametrisation): v for v in findings.verdicts}
    # The exponent on the theory page is .28, of other draws and a coarser search of the endpoints.
    ratio = found["risk-ratio-grows", "flow"]
    assert abs(ratio.measured - 0.28) <= ratio.slack + 0.02
    assert ratio.details["ratios"][0] == pytest.approx(1.97, abs=0.15)
    prices = found["squared-spectrum-sets-exposure", "spectrum"].details
    assert prices["ratio_of_prices"] == pytest.approx(prices["ratio_of_squared_spectra"], rel=0.1)
    assert prices["ratio_of_squared_spectra"] > 1.3
    heads = found["floor-critical-path", "flow"].details["heads"]
    for head in heads:  # both scales on one path
        np.testing.assert_allclose(head["recovered"], head["law"], atol=0.03)
    # Every endpoint that could be taken leaves the weak head at less than its path has.
    assert found["beats-rescaling", "flow"].details["ratio"] == pytest.approx(2.6, abs=0.4)


def test_arrays_have_their_groups_and_named_axes(default):
    findings, _ = default
    groups = {f"{p}/shifted-{kind}" for p in ("several-heads", "one-head") for kind in ("spectrum", "risk", "prefix")}
    assert set(findings.arrays) == groups | {"one-head/shifted-sizes"}
    spectrum = findings.arrays["several-heads/shifted-spectrum"]
    assert spectrum["filters"].dims == ("filter", "eigenvalue")
    assert spectrum.attrs["lower_edge"] < spectrum.attrs["floor"] < spectrum.attrs["upper_edge"]
    # Next to the edge the smallest eigenvalue fluctuates by a fiftieth.
    assert spectrum.attrs["m_min"] == pytest.approx(spectrum.attrs["lower_edge"], rel=0.03)
    risk = findings.arrays["several-heads/shifted-risk"]
    assert risk["risk"].dims == ("shift", "time")
    best = risk["risk"].min("time")
    assert float(best.sel(shift="a")) < risk.attrs["endpoint"] < risk.attrs["rescaling"] < risk.attrs["ridgeless"]
    prefix = findings.arrays["several-heads/shifted-prefix"]
    above = prefix["above"].values
    assert np.all(np.diff(above, axis=1) <= 0)  # a leading prefix at every time
    np.testing.assert_array_equal(above.sum(axis=1), [
        np.sum(prefix["eigenvalues"].values > m_c) for m_c in prefix["crossing"].values
    ])  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_hold_as_well(seed):
    rows = outcomes(NegativeShiftedDescent(seed=seed).check())
    assert {key: row for key, row in rows.items() if row[0] is not Outcome.HOLDS} == {}


def test_other_scales_change_no_verdict():
    """Columns in other units: variances times c^2; the noise and the signal's share stay, as b is divided by c."""
    plain_rows = outcomes(smaller().check())
    rows = outcomes(smaller(head=(4.0e-90, 0.4e-90), single=1e-90, floor=1e-90).check())
    assert {key: row[0] for key, row in rows.items()} == {key: row[0] for key, row in plain_rows.items()}
    for key in JUDGED:
        if key[0] in ("beats-endpoints", "beats-rescaling", "bulk-barrier", "floor-critical-path", "hold-out"):
            assert rows[key][1] == pytest.approx(plain_rows[key][1], rel=1e-6), key


# Counter-instances.


def test_the_counter_instances_are_these_and_every_claim_has_one():
    counters = NegativeShiftedDescent().counters
    assert set(counters) == set(COUNTERS)
    assert {key for counter in counters.values() for key in counter.expected} == JUDGED


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_instance_fails_as_it_should(name):
    counter = NegativeShiftedDescent().counters[name]
    findings = counter.check(lambda text, fraction: None)
    rows = outcomes(findings)
    for key in counter.expected:
        assert rows[key][0] is not Outcome.HOLDS, (key, rows[key])
    assert counter.as_expected(findings)
    if name in (
        "dependent-rows",
        "short-tail",
        "isotropic",
        "head-inside-bulk",
        "unequal-noise",
        "validated-on-training",
    ):
        assert all(v.outside_theorem for v in findings.verdicts)
    # Most fail outright; what is inconclusive says why.
    for v in findings.verdicts:
        assert v.outcome is Outcome.FAILS or v.undecided, (name, v.claim)


def test_a_counter_instance_refuses_data():
    counter = NegativeShiftedDescent(data="mine.csv").counters["isotropic"]
    message = "a counter-instance makes its own data; drop `--data` (got 'mine.csv')."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        counter.check(lambda text, fraction: None)


# The parts that compare.


@pytest.fixture(scope="module")
def draw():
    return flat_setting(100, (2.0, 0.5), floor=1.0, aspect=40.0, sigma=0.1).draws(1, seed=3, role=9)[0]


def test_the_best_rescaling_is_the_best_of_a_fine_grid(draw):
    factors = np.linspace(0, 4, 4001)
    grid = draw.risk.best(rescaling_filter(draw.m, factors))
    risk, factor = draw.rescaling
    assert risk <= grid.risk
    assert factor == pytest.approx(factors[grid.index], abs=1e-3)


def test_the_best_endpoint_and_the_best_time_are_those_of_fine_grids(draw):
    shares = np.linspace(0, 0.9999, 5000)
    endpoints = 1 / (1 - shares[:, None] * draw.m[0] / draw.m)
    assert draw.endpoint[0] <= draw.risk.best(endpoints).risk
    times = np.geomspace(0.05, 50, 4000)
    grid = draw.risk.best(flow_filter(draw.m, 1.0, times)).risk
    # The refined search stops at times 2% apart: near the minimum that is a share of 1e-4 of the risk.
    assert draw.floor_critical[0] == pytest.approx(grid, rel=1e-3)


def test_new_points_have_the_law_that_the_risk_assumes(draw):
    """The mean squared error on 20000 new points is sigma^2 + risk, to four standard errors of a chi-square."""
    f = np.stack([np.ones(draw.m.size), flow_filter(draw.m, 1.0, 2.0)])
    noise = draw.design.noise
    z = f * (draw.risk.c + draw.risk.noise(noise))
    found = draw.new_points(draw, z, 20_000)
    np.testing.assert_allclose(found, 0.01 + draw.risk.given(f, noise), rtol=4 * math.sqrt(2 / 20_000))


def test_a_single_head_is_tied_by_rescaling_and_not_separated():
    draws = flat_setting(200, (1.0,), floor=1.0, aspect=40.0, sigma=0.1).draws(4, seed=0, role=1)
    verdict = beats_rescaling(draws)
    assert verdict.outcome is Outcome.FAILS
    oracle = np.mean([d.oracle(21, 31)[0].risk / d.rescaling[0] for d in draws])
    assert oracle == pytest.approx(1.0, abs=0.01)  # over the whole grid they tie to a per cent
    assert verdict.outside_theorem


def test_a_bound_as_wide_as_the_head_decides_nothing():
    draws = flat_setting(200, (0.1,), floor=1.0, aspect=40.0, sigma=0.1).draws(1, seed=0, role=1)
    verdict = floor_critical_path(draws)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert re.fullmatch(r"the bulk may add [\d.]+ of a head: it is as wide as the head\.", verdict.undecided or "")


def test_an_interval_of_one_value_is_infinite():
    assert interval([2.0]) == (2.0, math.inf)
    mean, half = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302652729911275 / math.sqrt(3), rel=1e-9)  # Student's t, two degrees, 95%


def test_crossings_are_found_without_being_told_where():
    """`found_crossings` on a run whose filter crosses twice, in a window that says nothing of where."""
    found = filters.found_crossings(1e-3, 10.1, 1.3, k=10, eta=0.225)
    assert [round(x, 2) for x in found] == [0.12, 9.39]
    assert filters.found_crossings(0.2, 9.0, 1.3, k=10, eta=0.225) == []


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 5}, "`n` must be a whole number of at least 20; got 5."),
        ({"draws": 1}, "`draws` must be a whole number of at least 2; got 1."),
        ({"head": ()}, "`head` is empty; give at least one variance."),
        ({"head": (1.0, -2.0)}, "`head` must lie between 1e-100 and 1e100; got -2.0."),
        ({"aspect": 1.0}, "`aspect` must lie between 1.5 and 1e6, so that there are more tail dimensions than "
         "observations; got 1.0."),
        ({"head": (1.0, 1e-5)}, "`head`, `single` and `floor` must lie within a factor of 10000 of each other: runs "
         "from the strongest to the weakest direction take that many steps; got 1e-05 to 1.0."),
        ({"sizes": (100, 100)}, "`sizes` needs two numbers at least, to see a growth; got (100, 100)."),
        ({"n": 4000}, "4000 observations are too many: take at most 2000."),
        ({"alpha": 0.0}, "`alpha` must lie between 0 and 1; got 0.0."),
        ({"sigma": math.nan}, "`sigma` must lie between 1e-100 and 1e100; got nan."),
    ],
)  # fmt: skip
def test_options_out_of_range_are_told(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        NegativeShiftedDescent(**options)


# Data of one's own.


def write(path, X, y):
    np.savez(path, X=X, y=y)
    return str(path)


def planted(scale=1.0):
    """240 rows, 1500 columns: two strong directions and a flat tail whose floor is 1 on the 180 training rows."""
    rng = np.random.default_rng(0)
    n, d = 240, 1500
    X = rng.standard_normal((n, d)) * np.sqrt(np.r_[4.0, 0.4, np.full(d - 2, 180 / d)])
    return X * scale, X[:, :2] @ (1 / np.sqrt(2 * np.array([4.0, 0.4]))) + 0.1 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return NegativeShiftedDescent(data=write(folder / "planted.npz", *planted())).check()


def test_a_file_chooses_a_shift_near_its_floor(own):
    chosen = own.settings["chosen"]
    assert chosen["nu"] == pytest.approx(1.0, rel=0.2)  # the grid's shifts are an eighth of the median apart
    assert chosen["nu"] > chosen["smallest_eigenvalue"]
    assert chosen["error"] < chosen["best_endpoint_error"] < chosen["ridgeless_error"]
    rows = outcomes(own)
    assert {key[0] for key in rows} == {
        "filter-formula", "one-crossing", "leading-prefix", "endpoint-pole", "anti-shrinkage",
    }  # fmt: skip
    assert {key: row for key, row in rows.items() if row[0] is not Outcome.HOLDS} == {}
    assert {claim for claim, _ in JUDGED} == {key[0] for key in rows} | set(own.not_applicable)
    assert own.not_applicable["hold-out"] == "the covariance and the signal of your data are not known"
    assert any(note.startswith("chosen on 60 rows held out: nu = ") for note in own.notes)
    data = own.arrays["y/shifted-choice"]
    assert data["errors"].dims == ("shift", "time")
    json.dumps(plain(own.settings), allow_nan=False)


@pytest.mark.parametrize("scale", [1e-150, 1e140])
def test_units_of_the_columns_change_no_choice(own, tmp_path, scale):
    findings = NegativeShiftedDescent(data=write(tmp_path / "scaled.npz", *planted(scale))).check()
    assert findings.settings["chosen"]["nu"] == pytest.approx(own.settings["chosen"]["nu"] * scale**2, rel=1e-9)
    assert findings.settings["chosen"]["error"] == pytest.approx(own.settings["chosen"]["error"], rel=1e-9)
    assert {key: row[0] for key, row in outcomes(findings).items()} == {k: row[0] for k, row in outcomes(own).items()}


def test_a_table_with_named_columns(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 4))
    path = tmp_path / "flats.csv"
    rows = np.c_[X, X @ [1, 2, 0, -1] + 0.5 * rng.standard_normal(60)]
    np.savetxt(path, rows, delimiter=",", header="size,rooms,age,noise,price", comments="")
    findings = NegativeShiftedDescent(data=str(path), target="price").check()
    assert findings.settings["target"] == "price"
    assert findings.settings["d"] == 4
    assert all(v.outcome is Outcome.HOLDS for v in findings.verdicts)
    with pytest.raises(ValueError, match=r"flats\.csv: "):
        NegativeShiftedDescent(data=str(path), target="prize").check()


@pytest.mark.parametrize(
    ("X", "y", "claim", "reason"),
    [
        (
            np.ones((12, 3)),
            np.arange(12.0),
            "filter-formula",
            "the training rows are constant: there is nothing to fit",
        ),
        (np.eye(12)[:, :5], np.ones(12), "filter-formula", "the target is not correlated with any column"),
        (np.c_[np.arange(12.0)], np.arange(12.0), "endpoint-pole", "there is one direction only"),
    ],
    ids=["constant rows", "constant target", "one column"],
)
def test_degenerate_data_say_what_cannot_be_judged(tmp_path, X, y, claim, reason):
    findings = NegativeShiftedDescent(data=write(tmp_path / "flat.npz", X, y)).check()
    assert findings.not_applicable[claim] == reason
    assert all(v.outcome is not Outcome.FAILS for v in findings.verdicts)


def test_nearly_dependent_columns_are_not_run_to_their_endpoint(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 3))
    X = np.c_[X, X[:, 0] + 1e-4 * rng.standard_normal(40)]
    findings = NegativeShiftedDescent(data=write(tmp_path / "near.npz", X, X[:, 1] + rng.standard_normal(40))).check()
    assert re.fullmatch(r"a run to the endpoint takes \d\.\de\+\d+ steps", findings.not_applicable["endpoint-pole"])
    assert all(v.outcome is Outcome.HOLDS for v in findings.verdicts)


def test_unused_options_and_missing_files_are_told(tmp_path):
    path = write(tmp_path / "some.npz", *planted())
    findings = NegativeShiftedDescent(data=path, n=50, sigma=1.0).check()
    assert "not used with `--data`: --n, --sigma." in findings.notes
    with pytest.raises(ValueError, match=r"^nowhere\.csv: "):
        NegativeShiftedDescent(data="nowhere.csv").check()
    few = write(tmp_path / "few.npz", np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match=r"few\.npz: 3 rows; at least 4 are needed, to train and to hold some out\.$"):
        NegativeShiftedDescent(data=few).check()


def test_runs_on_tall_data_cost_what_their_columns_cost(tmp_path):
    """4000 rows of 6 columns are run as 6 rows with the same X'X/n and X'y/n: the filter is that of all rows."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 6)) * np.geomspace(1.0, 0.3, 6)
    findings = NegativeShiftedDescent(data=write(tmp_path / "tall.npz", X, X[:, 0] + rng.standard_normal(4000))).check()
    assert {key: row for key, row in outcomes(findings).items() if row[0] is not Outcome.HOLDS} == {}
    pole = next(v for v in findings.verdicts if v.claim == "endpoint-pole")
    unit = findings.settings["shift_unit_of_runs"]
    assert pole.details["m_min"] * unit == pytest.approx(findings.settings["chosen"]["smallest_eigenvalue"], rel=1e-10)
    formula = next(v for v in findings.verdicts if v.claim == "filter-formula")
    assert formula.details["n"] == formula.details["d"] == 6


# Bounds that are derived: they hold on awkward data, and what is wrong still fails.


def weak(seed, n=60, d=3):
    """Columns over five decades, and a response along the weakest direction: `X'y` is what cancellation leaves."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** -np.sort(rng.uniform(0, 5, d))
    X -= X.mean(axis=0)
    return X, np.linalg.svd(X, full_matrices=False)[0][:, -1]


def test_the_filters_bound_knows_what_cancels_in_the_data():
    for seed in range(40):
        rows = filters.Rows.of(*weak(seed))
        for dynamics in ("flow", "descent"):
            verdict = filters.filter_formula(rows, dynamics=dynamics)
            assert verdict.outcome is Outcome.HOLDS
            assert verdict.bound < 1e-3


def test_a_wrong_filter_still_fails():
    for seed in range(5):
        rows = filters.gaussian_rows(40, 12, seed=seed, even=True)
        # Steps so small that the two filters differ by (eta m) / 2 at most, 5e-4.
        eta = 1e-3 / float(rows.m[-1])
        for dynamics, other in (("flow", "descent"), ("descent", "flow")):
            assert filters.filter_formula(rows, dynamics=dynamics, eta=eta).outcome is Outcome.HOLDS
            verdict = filters.filter_formula(rows, dynamics=dynamics, judged_by=other, eta=eta)
            assert verdict.outcome is Outcome.FAILS
    for seed in range(40):
        rows = filters.Rows.of(*weak(seed))
        wrong = dataclasses.replace(rows, m=rows.m * (1 + 1e-6))  # eigenvalues wrong in the seventh digit
        assert filters.filter_formula(wrong, dynamics="descent").outcome is Outcome.FAILS


@pytest.mark.parametrize("scales", [(1, 0.6, 0.05), (1, 0.5, 0.05)])
def test_the_pole_is_found_on_columns_of_different_sizes(tmp_path, scales):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 3)) * scales
        path = write(tmp_path / f"{seed}.npz", X, X[:, 0] + rng.standard_normal(40))
        for verdict in NegativeShiftedDescent(data=path, seed=seed).check().verdicts:
            assert verdict.outcome is Outcome.HOLDS
            assert verdict.claim != "endpoint-pole" or verdict.bound < 1e-6


def test_a_pole_in_the_wrong_place_fails():
    rows = filters.gaussian_rows(40, 12, seed=0, even=True)
    wrong = dataclasses.replace(rows, m=np.r_[rows.m[0] * (1 + 1e-5), rows.m[1:]])
    verdict = filters.endpoint_pole(wrong)
    assert verdict.outcome is Outcome.FAILS
    assert verdict.measured == pytest.approx(1e-5, rel=0.1)  # the runs' own end stays where it was


def test_two_eigenvalues_that_a_run_cannot_tell_apart_are_undecided_or_right():
    X = np.diag(np.sqrt(3 * np.array([1e-3, 1.00001e-3, 1.0])))
    verdict = filters.endpoint_pole(filters.Rows.of(X))
    assert verdict.outcome is Outcome.HOLDS
    assert verdict.bound == pytest.approx(1e-5, rel=0.1)  # any mixture of the two lies as near


def test_the_endpoints_bound_knows_the_decomposition():
    """Three columns, whose decomposition may be off by tens of eps."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = filters.Rows.of(rng.standard_normal((3, 3)))
        if rows.m[-1] / rows.m[0] < 1e3:
            assert filters.anti_shrinkage(rows).outcome is Outcome.HOLDS
    wrong = dataclasses.replace(rows, m=rows.m * np.array([1.0, 1 + 1e-9, 1.0]))
    assert filters.anti_shrinkage(wrong).outcome is Outcome.FAILS


def test_a_shift_that_has_not_begun_to_act_has_no_crossing_to_look_for():
    verdict = filters.one_crossing_flow([(1e-9, 1.0)])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided is not None
    for nu in (1e-3, 1e-2, 0.1, 10.0):
        assert filters.one_crossing_flow([(nu, 1.0)]).outcome is Outcome.HOLDS


# Heads, draws and the barrier.


@pytest.mark.parametrize(
    "options",
    [
        {"n": 100, "head": tuple(0.5 + 0.1 * i for i in range(20))},
        {"n": 100, "head": (8.0, 4.0, 2.0, 1.0, 0.5), "draws": 30, "seed": 4},
        {"n": 40, "draws": 200, "sizes": (20, 40)},
        {"n": 20, "aspect": 3.0, "draws": 200, "sizes": (20, 40)},
    ],
)
def test_the_barrier_stands_whatever_the_heads_and_draws(options):
    assert bulk_barrier(NegativeShiftedDescent(**options).several()).outcome is Outcome.HOLDS


def test_a_barrier_of_other_rows_fails():
    """Rows that are correlated a little, or a tail of the same trace on two levels, move the edge by more."""
    system = NegativeShiftedDescent(n=100, draws=30)
    setting = system.setting(system.head)
    assert bulk_barrier(setting.draws(30, seed=0, role=0)).outcome is Outcome.HOLDS
    level, half = setting.tail.eigenvalues[0], setting.tail.size // 2
    for wrong in (
        dataclasses.replace(setting, row_correlation=0.3),
        dataclasses.replace(setting, tail=Tail(eigenvalues=(1.5 * level, 0.5 * level), counts=(half, half))),
    ):
        assert bulk_barrier(wrong.draws(30, seed=0, role=0)).outcome is Outcome.FAILS


def test_the_worst_of_many_directions_is_allowed_what_many_deviate():
    assert sigmas(1) == pytest.approx(4.0, abs=1e-12)
    # A Gaussian lies 5.06 deviations above its mean with probability 2.1e-7.
    assert 0.5 * math.erfc(sigmas(150) / math.sqrt(2)) == pytest.approx(3.1671241833e-5 / 150, rel=1e-6)
    assert (
        floor_critical_path(NegativeShiftedDescent(n=40, draws=100, sizes=(20, 40)).several()).outcome is Outcome.HOLDS
    )


# Conditions of the theorem that options can break.


def outside(verdict):
    return [a.name for a in verdict.assumptions if a.holds is False]


LOUD = "noise low enough for every head: n a b^2 / (sigma^2 (1 + w^2/lh^2)) > 1"
HIDDEN = "noise hidden in the tail over the signal that is missed: ratio < 1"
APART = "heads apart: sqrt(lh lh'/n) / |lh - lh'| < 1/3"
OWN = "sampled correlations leave every head its missing signal: ratio < 1"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, []),
        ({"sigma": 10.0}, [LOUD, HIDDEN]),
        ({"head": (4.0, 4.0)}, [APART]),
        ({"head": (100.0, 1.0)}, [OWN]),
        ({"head": (1000.0, 10.0, 0.5)}, [OWN]),
    ],
)
def test_heads_and_noise_outside_the_theorem_are_marked(options, names):
    draws = NegativeShiftedDescent(**{"n": 100, **options}).several()
    verdict = head_worth_amplifying(draws)
    assert outside(verdict) == names
    assert verdict.outcome is Outcome.HOLDS or names
    assert -1 <= verdict.measured - 1e-12 <= verdict.measured <= 1
    assert math.isfinite(verdict.slack)
    assert set(outside(beats_endpoints(draws))) == set(names) & {LOUD, HIDDEN}


def test_the_noise_condition_is_the_rule_for_many_observations():
    """`n a b^2 / sigma^2 (1 + w^2/lh^2)` is gain over price: at n = 800 as drawn, to the few per cent of sampling."""
    draws = NegativeShiftedDescent(n=800, aspect=10.0, sizes=(20, 40), draws=2, head=(4.0, 0.8)).several()
    (worth,) = (float(a.measured or 0) for a in noise_of(draws) if a.name == LOUD)
    for draw in draws:
        gain, price = draw.risk.amplification
        ratio = float(np.min(gain[-2:] / price[-2:]))
        # Deviations: sqrt(2/n) of the head's variance, and of the two heads' correlation beside the missing signal.
        assert abs(ratio / worth - 1) <= 4 * 2 * math.sqrt(2 / 800)


def test_a_hold_out_on_too_few_observations_says_why_it_decides_nothing():
    system = NegativeShiftedDescent(n=20, sizes=(20, 40))
    verdict = system.hold_out(system.several())
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.bound == math.inf
    assert verdict.undecided == "the inequality says nothing with 20 new observations: it needs more than 43."


# Counter-instances have sizes of their own.


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("validated-on-training", {"n": 50}),
        ("validated-on-training", {"n": 60, "draws": 2}),
        ("validated-on-training", {"n": 100, "aspect": 5.0}),
        ("validated-on-training", {"n": 100, "sigma": 1.0}),
        ("validated-on-training", {"n": 100, "alpha": 1e-9}),
        ("large-steps", {"n": 100, "floor": 10.0}),
        ("short-tail", {"n": 100, "sigma": 1.0}),
    ],
)
def test_counters_do_not_depend_on_options(name, options):
    counter = NegativeShiftedDescent(**options).counters[name]
    findings = counter.check(lambda text, fraction: None)
    assert counter.as_expected(findings)
    assert findings.settings["n"] == 200
    assert findings.notes == (
        "not used by a counter-instance, which has sizes of its own: " + ", ".join(f"--{key}" for key in options) + ".",
    )


def test_the_best_endpoint_is_said_to_be_that_of_the_grid(tmp_path):
    path = write(tmp_path / "planted.npz", *planted())
    findings = NegativeShiftedDescent(data=path).check()
    assert any("best admissible endpoint of the grid" in note for note in findings.notes)
