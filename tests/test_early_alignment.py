"""The system `early-alignment`: claims hold where they should, counter-instances fail, own data are answered."""

import dataclasses
import doctest
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from omegalimit.catalogue.classification import _alignment_claims as claims
from omegalimit.catalogue.classification import _alignment_times as times
from omegalimit.catalogue.classification._alignment_instance import PAIR_START, fixture, instance, pair
from omegalimit.catalogue.classification._alignment_path import log_value
from omegalimit.catalogue.classification._alignment_radial import radial_tangential
from omegalimit.catalogue.classification._alignment_runs import descent, flow
from omegalimit.catalogue.classification._alignment_user import prepared
from omegalimit.catalogue.classification.early_alignment import EarlyAlignment
from omegalimit.claims import Outcome
from omegalimit.data.classification_generators import pushed_gaussians
from omegalimit.record import plain

LATEST = 40 * math.log(10)  # t = 1e40
BOTH = ("radius-law", "balance-solution", "transverse-limit", "direction-law", "exponential-time", "power-alignment",
        "loss-law", "residual-identity")  # fmt: skip
JUDGED = {
    ("radial-tangential", "flow"), ("symmetric-pair", "flow"),
    *((claim, where) for claim in BOTH for where in ("flow", "descent")),
}  # fmt: skip
COUNTERS = (
    "not-separable", "polynomial-tail", "zero-dual", "span-only", "other-weights", "large-steps", "symmetric-rows",
    "unequal-pair", "steps-as-time", "stopped-early",
)  # fmt: skip


def outcomes(findings):
    return {(v.claim, v.parametrisation, v.loss): v.outcome for v in findings.verdicts}


def silent(text, fraction):
    del text, fraction


@pytest.fixture(scope="module")
def default():
    ticks = []
    findings = EarlyAlignment().check(lambda text, fraction: ticks.append(fraction))
    return findings, ticks


@pytest.fixture(scope="module")
def s40():
    return instance("drawn", pushed_gaussians().Z)


# The default run.


def test_every_claim_of_the_default_run_holds(default):
    findings, ticks = default
    rows = outcomes(findings)
    assert {key: outcome for key, outcome in rows.items() if outcome is not Outcome.HOLDS} == {}
    expected = {(*key, loss) for key in JUDGED for loss in ("exponential", "logistic")}
    assert set(rows) == expected - {("symmetric-pair", "flow", "logistic")}
    assert len(findings.verdicts) == len(rows)
    assert findings.not_applicable == {}
    assert ticks[0] == 0.0
    assert ticks[-1] == 1.0
    assert ticks == sorted(ticks)


def test_no_claim_is_outside_the_theorem_and_the_stated_bound_is_shown(default):
    findings, _ = default
    assert {v.claim for v in findings.verdicts if v.outside_theorem} == set()
    assert any("not tested here" in note and "exp(exp(-delta))" in note for note in findings.notes)


def test_claims_are_those_of_the_docstring(default):
    findings, _ = default
    page = EarlyAlignment.__doc__
    assert page is not None
    for claim in {v.claim for v in findings.verdicts}:
        assert f"`{claim}`" in page


def test_details_and_settings_are_ready_for_json(default):
    findings, _ = default
    for v in findings.verdicts:
        json.dumps(plain(v.details), allow_nan=False)
        assert all(map(math.isfinite, (v.measured, v.bound, v.slack)))
        assert isinstance(v.measured, float)
    settings = json.loads(json.dumps(plain(findings.settings), allow_nan=False))
    assert set(settings) >= {field.name for field in dataclasses.fields(EarlyAlignment)}


def test_bounds_are_far_from_slack(default):
    """A verdict that holds by a wide slack would say little."""
    findings, _ = default
    for v in findings.verdicts:
        if v.claim != "exponential-time":
            assert v.measured + v.slack < 0.5 * v.bound, v


def test_arrays_have_their_groups_and_named_axes(default):
    findings, _ = default
    kinds = ("angle", "flow", "times")
    assert set(findings.arrays) == {f"{name}/alignment-{kind}" for name in ("fixture", "drawn") for kind in kinds}
    angle = findings.arrays["fixture/alignment-angle"]
    assert angle["angle"].dims == ("run", "time")
    assert angle.sizes["run"] == 6  # two losses: a flow and two steps each
    # Late, the recorded curves are the law.
    s = angle["log_time"].values[-40:]
    law = np.arctan(angle.attrs["C"] / (s + angle.attrs["offset"]))
    np.testing.assert_allclose(angle["angle"].values[:, -40:], np.tile(law, (6, 1)), rtol=1e-6)
    moved = findings.arrays["drawn/alignment-flow"]
    s = moved["log_time"].values[-40:]
    gained = (s + moved.attrs["offset"]) / np.hypot(s + moved.attrs["offset"], moved.attrs["C"])
    np.testing.assert_allclose(moved["radial"].values[0, -40:], gained, atol=1e-6)
    curve = findings.arrays["fixture/alignment-times"]
    # On a grid of log times 0.4 apart, read between its points: the angle bends by less than a thousandth there.
    late = curve["angle"].values < 0.02
    np.testing.assert_allclose(curve["log_times"].values[0][late], curve["law"].values[late], rtol=1e-3)


# Numbers of theory.


@pytest.mark.parametrize(
    ("loss", "weak", "fine"),
    # Computed apart from this library by three of SciPy's integrators, in log time and in time itself.
    [("exponential", (2.47880, 2.169), (6.3257, 5.635)), ("logistic", (3.02206, 2.4557), (6.49691, 5.7874))],
)
def test_the_fixture_has_the_numbers_of_theory(loss, weak, fine):
    path = flow(fixture(), loss, until=LATEST)
    found = path.first_times(np.array([0.3, 0.1]))
    assert path.at is not None
    for time, w, (log_time, radius) in zip(found, path.at(found), (weak, fine), strict=True):
        assert time == pytest.approx(log_time, abs=6e-5)  # the digits given
        assert np.linalg.norm(w) == pytest.approx(radius, abs=6e-4)
    assert path.across[-1] == pytest.approx([0, 0.46209818], abs=1e-7)
    assert path.angle[-1] * path.log_time[-1] == pytest.approx(0.465887, abs=1e-6)
    assert path.along[-1] - path.log_time[-1] == pytest.approx(-0.749780, abs=1e-6)
    ratio = np.diff(path.first_times(np.array([0.3, 0.03])))[0]
    assert ratio > math.log(1e5)
    if loss == "exponential":
        assert ratio == pytest.approx(13.7, abs=0.05)


def test_what_support_vectors_do_not_reach_is_most_of_it_on_s40(s40):
    path = flow(s40, "exponential", until=LATEST)
    across = path.across[-1] / s40.gamma
    assert np.linalg.norm(across) == pytest.approx(2.296, abs=1e-3)
    assert np.linalg.norm(s40.outside(across)) == pytest.approx(2.02, abs=5e-3)
    # Five digits of the residual identity.
    shares = np.exp(path.log_shares[-1])
    np.testing.assert_allclose(shares @ s40.Z, s40.gamma * s40.u, atol=1e-5 * s40.gamma)


def test_the_law_needs_no_equal_weights(s40):
    c = np.linspace(1, 5, s40.n)
    weighted = instance("weighted", s40.Z, c / c.sum())
    path = flow(weighted, "logistic", until=LATEST)
    for judge in (claims.radius_law, claims.balance_solution, claims.loss_law, claims.residual_identity):
        assert judge([path]).outcome is Outcome.HOLDS
    assert weighted.offset != pytest.approx(s40.offset, abs=1e-3)


def test_a_million_steps_are_where_the_law_and_the_flow_say(s40):
    """1 - cos of the angle after 1e6 steps is 4e-3 where nothing reports convergence: here it is predicted."""
    path = descent(s40, "logistic", until=LATEST, n_steps=1_000_000, step_size=1.0)
    assert path.last_exact is not None
    at = int(np.searchsorted(path.log_time, path.last_exact))
    error = 1 - math.cos(path.angle[at])
    assert error == pytest.approx(4.1e-3, rel=0.2)
    law = math.atan(path.constant / (path.last_exact + path.offset))
    # At log t = 13.8 the law's remainder, (gamma^2 B t)^-0.26, is some 6%.
    assert path.angle[at] == pytest.approx(law, rel=0.15)
    by_flow = flow(s40, "logistic", until=LATEST)
    assert by_flow.at is not None
    w = by_flow.at(np.array([path.last_exact]))[0]
    # Descent is the flow but for what its first, large steps left where no support vector reaches.
    assert 1 - w @ s40.u / np.linalg.norm(w) == pytest.approx(error, rel=0.01)


def test_log_of_the_logistic_loss_is_right_at_any_margin():
    z = np.array([-800.0, -2.0, 0.0, 3.0, 30.0, 700.0, 1e6])
    expected = [
        math.log(800),
        math.log(math.log1p(math.exp(2))),
        math.log(math.log(2)),
        math.log(math.log1p(math.exp(-3))),
    ]
    np.testing.assert_allclose(log_value("logistic", z)[:4], expected, rtol=1e-14)
    np.testing.assert_allclose(log_value("logistic", z)[4:], -z[4:], rtol=1e-12)


# Each claim sees what it should.


def test_a_path_a_thousandth_off_is_seen():
    path = flow(fixture(), "logistic", until=LATEST)
    late = dataclasses.replace(path, w=path.w + 1e-3 * np.array([0.0, 1.0]), at=None)
    for judge in (claims.balance_solution, claims.direction_law, claims.residual_identity):
        assert judge([late]).outcome is Outcome.FAILS
    slow = dataclasses.replace(path, log_time=path.log_time + 1e-3)
    for judge in (claims.radius_law, claims.loss_law, claims.direction_law):
        assert judge([slow]).outcome is Outcome.FAILS


def test_a_gradient_a_thousandth_off_is_seen():
    rows = fixture()
    c = rows.weights * np.array([1.001, 1.0, 1.0, 1.0])
    path = flow(rows, "logistic", until=LATEST, weights=c)
    assert radial_tangential([path]).outcome is Outcome.FAILS


def test_another_power_and_another_closed_form_are_seen():
    path = flow(pair(), "exponential", until=LATEST, start=PAIR_START)
    assert times.symmetric_pair([path]).outcome is Outcome.HOLDS
    assert times.power_alignment([path]).outcome is Outcome.HOLDS
    wider = dataclasses.replace(path, instance=dataclasses.replace(path.instance, Z=path.instance.Z * [1.0, 1.01]))
    assert times.symmetric_pair([wider]).outcome is Outcome.FAILS
    assert times.power_alignment([wider]).outcome is Outcome.FAILS
    assert times.symmetric_pair([flow(pair(), "logistic", until=LATEST, start=PAIR_START)]).outcome is Outcome.FAILS


def test_a_short_run_decides_nothing_and_says_why(s40):
    short = flow(dataclasses.replace(s40), "logistic", until=LATEST)
    kept = short.log_time < 20
    short = dataclasses.replace(short, log_time=short.log_time[kept], w=short.w[kept], errors=short.errors[kept])
    verdict = claims.balance_solution([short])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.undecided is not None
    assert verdict.undecided.startswith("what is left of the law, or the run's own error, may be ")


def test_a_law_that_is_not_known_decides_nothing():
    rows = fixture()
    unknown = dataclasses.replace(
        rows.law, strictly_complementary=None, balance=None, duals=None, offset=None, reason="too near a tie."
    )
    path = flow(rows, "logistic", until=LATEST)
    path = dataclasses.replace(path, instance=dataclasses.replace(rows, law=unknown))
    why = "whether there is a balance solution is not decided: too near a tie"
    for judge in (claims.radius_law, claims.direction_law, claims.loss_law, claims.residual_identity):
        verdict = judge([path])
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.undecided == why
    assert claims.balance_solution([path]).undecided == f"{why}; what drifts is measured"
    assert radial_tangential([path]).outcome is Outcome.HOLDS


# What a run shows of its own remainder.


def rows_file(tmp_path, Z, name="rows.csv"):
    """A CSV file whose rows `y_i x_i` are these; the last row is of the other class."""
    y = np.where(np.arange(len(Z)) < len(Z) - 1, 1, -1)
    return written(tmp_path, np.asarray(Z) * y[:, None], y, name=name)


def test_the_remainder_is_measured_where_rows_nearly_support():
    """Rows a little above the margin pull for long: ten times the leading power of t is far below what is left."""
    rows = instance("near", pushed_gaussians(200, 10, push=0.2).Z)
    path = flow(rows, "logistic", until=LATEST)
    short = path.log_time < rows.horizon(LATEST)
    cut = dataclasses.replace(path, log_time=path.log_time[short], w=path.w[short], errors=path.errors[short])
    left = cut.settling.left[cut.index(0.75)]
    assert left > 100 * 10 * math.exp(-rows.rate * (cut.log_time[cut.index(0.75)] + path.offset))
    # What is measured from the shorter run bounds how far it still was, as the longer one has it.
    true = abs(cut.along[cut.index(0.75)] - cut.log_time[cut.index(0.75)] - path.offset)
    assert true <= left
    assert claims.direction_law([cut]).outcome is Outcome.INCONCLUSIVE
    assert claims.direction_law([path]).outcome is Outcome.HOLDS


def test_a_run_that_shows_no_limit_decides_nothing():
    """From far out the flow stands still until log t has come as far as the weights."""
    rows = fixture()
    path = flow(rows, "logistic", until=LATEST, start=np.array([200.0, 0.0]))
    assert path.at is not None
    s = np.linspace(10, 150, 50)
    cut = dataclasses.replace(path, log_time=s, w=path.at(s), errors=np.zeros(50))
    assert cut.settling.reason is not None
    assert cut.settling.reason.startswith("the run is too short: w still moves against its law by ")
    for judge in (claims.radius_law, claims.balance_solution, claims.direction_law, claims.loss_law):
        assert judge([cut]).undecided == cut.settling.reason
        assert judge([path]).outcome is Outcome.HOLDS  # which was made longer until it showed the limit


def test_a_path_far_behind_its_law_is_not_excused():
    """Behind `log t + b` the weights are pulled up at once: what stays there follows no law, however it moves."""
    path = flow(fixture(), "logistic", until=LATEST)
    held = np.repeat(path.w[:1], len(path.w), axis=0)
    behind = dataclasses.replace(path, w=held, at=None)
    assert behind.settling.reason is None
    assert claims.radius_law([behind]).outcome is Outcome.FAILS


def test_limits_closer_than_the_runs_errors_decide_nothing():
    rows = instance("drawn", pushed_gaussians(40, 10).Z)
    path = flow(rows, "logistic", until=LATEST)
    same = dataclasses.replace(path)
    verdict = claims.transverse_limit([path], [same])
    assert verdict.conditions[0].holds is None
    assert verdict.outcome is Outcome.INCONCLUSIVE
    moved = dataclasses.replace(path, w=path.w + 4e-6 * rows.outside(np.ones(10)))
    assert claims.transverse_limit([path], [moved]).conditions[0].holds is True


def test_few_steps_tell_no_limit():
    path = descent(fixture(), "logistic", until=LATEST, n_steps=10, size=1e-6)
    verdict = claims.direction_law([path])
    assert verdict.undecided == "10 exact steps tell no limit (the bound would be 1): take more `steps`"
    assert [c for c in verdict.conditions if c.holds is False] == []


def test_the_least_ratio_is_that_of_the_angles():
    assert times.least_log_ratio(0.3, 0.03) == pytest.approx(math.log(1e5))
    path = flow(fixture(), "exponential", until=LATEST)
    # e^9.9 from 0.1 rad on: by the law, 10.775; scaled from 1e5 at (0.3, 0.03), 8.93.
    verdict = times.exponential_time([path], weak=0.1, fine=0.03)
    assert verdict.bound == pytest.approx(8.93, abs=0.01)
    assert verdict.outcome is Outcome.HOLDS
    assert EarlyAlignment(weak=1.5, fine=1.4).is_small is False
    assert EarlyAlignment().is_small is True


def test_an_angle_that_is_not_reached_says_until_when_to_run():
    path = flow(fixture(), "logistic", until=LATEST)
    assert times.exponential_time([path], weak=0.3, fine=0.001).undecided == (
        "the path does not come to 0.001 rad by log t = 92.1; by the law that takes log t = 462.8: set "
        "`until_log_time` later than that"
    )


def test_the_power_of_the_pair_is_read_in_a_long_run():
    path = flow(pair(), "exponential", until=1000.0, start=PAIR_START)
    verdict = times.power_alignment([path])
    assert verdict.outcome is Outcome.HOLDS
    assert verdict.measured + verdict.slack < 0.5 * verdict.bound


def test_radial_and_tangential_flow_have_no_unit():
    found = []
    for scale in (1.0, 1e-6):
        path = flow(instance("scaled", small().Z * scale), "logistic", until=LATEST - 2 * math.log(scale))
        verdict = radial_tangential([path])
        assert verdict.outcome is Outcome.HOLDS
        found.append(verdict.slack)
    assert found[1] < 10 * found[0]


def test_the_law_that_is_printed_is_that_of_the_steps(tmp_path):
    """Giant steps: the law of the flow from zero is not theirs down to where it is the flow's."""
    file = rows_file(tmp_path, fixture().Z)
    findings = EarlyAlignment(data=file, target="side", absolute_step=50.0, steps=2000).check(silent)
    answer = findings.settings["steps_until"]["logistic"]
    assert {v.outcome for v in findings.verdicts if v.parametrisation == "descent"} <= {
        Outcome.HOLDS,
        Outcome.INCONCLUSIVE,
    }
    law = answer["C"] / math.tan(0.03) - answer["b"] - math.log(answer["step_size"])
    assert abs(law - answer["log_steps"]["fine"]["first"]) > 10
    assert answer["law_agrees_from"] < 0.01
    shown = next(note for note in findings.notes if note.startswith("range of that answer"))
    assert f"with C = {answer['C']:.6g} and b = {answer['b']:.6g}, agrees with the run to 1% of the steps" in shown


def test_what_is_told_is_in_the_units_of_the_user(own, tmp_path):
    _, findings = own
    scale = 1e150
    file = written(tmp_path, small().X * scale, small().y)
    other = EarlyAlignment(data=file, target="side", steps=20_000).check(silent)
    mine, theirs = (f.settings["law"] for f in (findings, other))
    assert theirs["margin"] == pytest.approx(mine["margin"] * scale, rel=1e-9)
    assert theirs["offset_b"] == pytest.approx(mine["offset_b"] + 2 * math.log(scale), rel=1e-9)
    np.testing.assert_allclose(np.array(theirs["balance_solution"]) * scale, mine["balance_solution"], rtol=1e-6)
    answer = other.settings["steps_until"]["logistic"]
    assert answer["b"] == pytest.approx(theirs["offset_b"], rel=1e-12)
    law = answer["C"] / math.tan(0.03) - answer["b"] - math.log(answer["step_size"])
    assert answer["log_steps"]["fine"]["first"] == pytest.approx(law, abs=0.1)
    assert any(note.startswith("the rows are divided by 2^") for note in other.notes)


def test_rows_without_a_balance_are_not_failed_by_laws_that_need_one(tmp_path):
    Z = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 0.2, 1.0], [2.0, 0.0, -1e-6]])
    findings = EarlyAlignment(data=rows_file(tmp_path, Z), target="side", steps=1000).check(silent)
    told = next(note for note in findings.notes if "there is no balance solution" in note)
    assert told.endswith("so that `direction-law` cannot hold; the other laws that need a balance are not decided.")
    found = outcomes(findings)
    assert found["direction-law", "flow", "logistic"] is Outcome.FAILS
    for claim in ("radius-law", "balance-solution", "loss-law", "residual-identity"):
        assert found[claim, "flow", "logistic"] is Outcome.INCONCLUSIVE


def test_a_balance_that_is_not_zero_is_not_called_void(tmp_path):
    Z = np.array([[1.0, 1.0], [1.0, -0.5], [1.00001, 0.2]])
    findings = EarlyAlignment(data=rows_file(tmp_path, Z), target="side", steps=1000).check(silent)
    assert not any("w_perp tends to zero" in (v.undecided or "") for v in findings.verdicts)
    assert not any("w_perp tends to zero" in note for note in findings.notes)
    assert {v.outcome for v in findings.verdicts if v.claim == "direction-law"} == {Outcome.INCONCLUSIVE}


def test_files_that_cannot_be_run_are_refused_in_their_own_words(tmp_path):
    X = np.array([[1.0, 2.0], [-1.0, -1.5], [2.0, 2.0]])
    zero = written(tmp_path, X * 0, [1, -1, 1], name="zero.csv")
    message = f"{zero}: every entry of the rows is zero: there is nothing to separate."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyAlignment(data=zero, target="side").check(silent)
    heavy = written(tmp_path, np.column_stack([X, [1e-300, 1e300, 1.0]]), [1, -1, 1], name="heavy.csv")
    message = (
        f"{heavy}: the weights `f3` reach from 1e-300 to 1e+300: the least must be at least 1e-150 of the largest; "
        "leave out rows that are not to count."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyAlignment(data=heavy, target="side", weight_column="f3").check(silent)
    file = written(tmp_path, X, [1, -1, 1])
    with pytest.raises(ValueError, match=f"^{re.escape(file)}: the first 1 exact steps come to log t = 690.8, beyond "):
        EarlyAlignment(data=file, target="side", absolute_step=1e300, steps=100).check(silent)


def test_where_a_flow_that_cannot_separate_ends_is_told(tmp_path):
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    findings = EarlyAlignment(data=written(tmp_path, X, [1, -1, 1]), target="side").check(silent)
    told = next(note for note in findings.notes if note.startswith("gradient flow (logistic loss) "))
    assert "horizon" not in told
    assert re.search(r" at \|w\| = [\d.]+ at log t = [\d.]+; from there on the pulls of rows that cancel bury ", told)


# Counter-instances.


def test_the_counter_instances_are_these_and_every_claim_has_one():
    counters = EarlyAlignment().counters
    assert set(counters) == set(COUNTERS)
    assert {key for counter in counters.values() for key in counter.expected} == JUDGED


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_instance_fails_as_it_should(name):
    counter = EarlyAlignment().counters[name]
    findings = counter.check(silent)
    assert counter.as_expected(findings)
    assert {(v.claim, v.parametrisation) for v in findings.verdicts} == set(counter.expected)
    for v in findings.verdicts:
        assert v.outcome is Outcome.FAILS or v.undecided, (name, v.claim)
    if name == "not-separable":
        assert findings.notes[0] == (
            "not separable: the combination 0.1 z[0] + 0.4 z[1] + 0.5 z[4] of the rows z[i] = y[i] x[i] is zero (to "
            "0e+00 of the lengths combined), so that no w has z[i]'w > 0 on all of them (Farkas)."
        )
    if name == "zero-dual":
        grown, theory = map(float, re.findall(r"\d\.\d{4}", findings.notes[0]))
        assert grown == pytest.approx(theory, rel=2e-3)  # the next term falls like 1 / log t


def test_a_counter_instance_refuses_data_and_names_options_it_does_not_use():
    message = "a counter-instance makes its own data; drop `--data` (got 'mine.csv')."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyAlignment(data="mine.csv").counters["large-steps"].check(silent)
    notes = EarlyAlignment(n=50, weak=0.2).counters["unequal-pair"].check(silent).notes
    assert notes == ("not used by a counter-instance, which has options of its own: --n, --weak.",)


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1}, "`n` must be a whole number of at least 2; got 1."),
        ({"d": 1}, "`d` must be a whole number of at least 2; got 1."),
        ({"seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
        ({"steps": 2.5}, "`steps` must be a whole number of at least 10; got 2.5."),
        ({"steps": 20_000_000}, "`steps` must be at most 10000000; got 20000000."),
        ({"loss": "hinge"}, "`loss` must be one of all, exponential, logistic; got 'hinge'."),
        ({"push": -1.0}, "`push` must lie between 0 and 1e3; got -1.0."),
        ({"until_log_time": math.nan}, "`until_log_time` must lie between 10 and 1e5; got nan."),
        (
            {"weak": 0.01},
            "`fine` and `weak` must be angles with 0 < fine < weak < pi/2; got 0.03 and 0.01.",
        ),
        ({"step_sizes": ()}, "`step_sizes` is empty; give at least one."),
        ({"step_sizes": (0.5, 2.0)}, "`step_sizes` must lie between 0 and 2, in units of 1 / smoothness; got 2.0."),
        (
            {"step_size": 3.0},
            "`step_size` must lie between 0 and 2, in units of 1 / smoothness; got 3.0 (a step in the units of the "
            "data: `absolute_step`).",
        ),
        ({"absolute_step": 0.0}, "`absolute_step` must be a positive number; got 0.0."),
        ({"n": 3000, "d": 3000}, "3000 x 3000 rows are too many numbers: take at most 4000000."),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyAlignment(**options)


def test_options_without_a_part_in_the_run_are_named():
    assert EarlyAlignment(target="y", intercept=True).ignored_options() == [
        "not used without `--data`: --target, --intercept."
    ]
    assert EarlyAlignment(data="a.csv", push=0.5).ignored_options() == ["not used with `--data`: --push."]
    assert EarlyAlignment().ignored_options() == []


# The page.


def test_the_examples_of_the_page_run():
    page = Path(__file__).parents[1] / "docs" / "early-alignment.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 5
    assert results.failed == 0


# The user's own data.


def written(tmp_path, X, y, name="mine.csv", columns=None):
    """A CSV file of these rows and classes."""
    columns = columns or [f"f{j}" for j in range(1, X.shape[1] + 1)]
    lines = [",".join([*columns, "side"])]
    lines += [",".join([*(repr(float(x)) for x in row), str(label)]) for row, label in zip(X, y, strict=True)]
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def small():
    """Rows of one shape for all these tests: what is compiled for the first serves the others."""
    return pushed_gaussians(12, 3)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    data = small()
    labels = np.where(data.y > 0, "up", "down")
    file = written(tmp_path_factory.mktemp("own"), data.X, labels)
    return file, EarlyAlignment(data=file, target="side", steps=20_000).check(silent)


def test_separable_data_are_answered(own):
    _, findings = own
    assert {v.outcome for v in findings.verdicts} == {Outcome.HOLDS}
    assert set(findings.not_applicable) == {"symmetric-pair", "power-alignment", "exponential-time"}
    begins = "the flow begins within 0.3 rad of the maximum margin: weak alignment takes it no time"
    assert findings.not_applicable["exponential-time"] == begins
    margin = instance("own", small().Z).gamma
    proof = f"separable: in the certified direction every row has a margin of at least {margin:.6g}, and no direction "
    assert any(note.startswith(proof) for note in findings.notes)
    assert findings.settings["separable"] is True
    answer = findings.settings["steps_until"]["logistic"]
    assert answer["exact_steps"] == 20_000
    weak, fine = answer["log_steps"]["weak"], answer["log_steps"]["fine"]
    assert weak["first_error"] == 0
    # The fine angle is beyond any number of steps that can be made; to leading order it is the law's.
    law = answer["C"] / math.tan(0.03) - answer["b"] - math.log(answer["step_size"])
    assert fine["first"] == pytest.approx(law, abs=0.1)
    assert 0 < fine["first_error"] < 1e-3
    assert fine["for_good"] == fine["first"]
    assert 0.02 < answer["law_agrees_from"] < 0.1
    assert findings.arrays["your rows/alignment-times"].attrs["fine"] == 0.03
    json.dumps(plain(findings.settings), allow_nan=True)


def test_the_counted_steps_are_those_of_plain_descent(own):
    _, findings = own
    answer = findings.settings["steps_until"]["logistic"]
    Z, u = small().Z, instance("own", small().Z).u
    w, step, angle = np.zeros(3), 0, math.inf
    while angle > 0.3:
        step += 1
        w = w + answer["step_size"] * np.mean(Z / (1 + np.exp(Z @ w))[:, None], axis=0)
        angle = math.acos(min(1.0, w @ u / np.linalg.norm(w)))
    assert round(math.exp(answer["log_steps"]["weak"]["first"])) == step


def test_other_units_give_the_same_answer(own, tmp_path):
    _, findings = own
    data, scale = small(), 1e150
    file = written(tmp_path, data.X * scale, data.y)
    other = EarlyAlignment(data=file, target="side", steps=20_000).check(silent)
    assert outcomes(other) == outcomes(findings)
    mine, theirs = (f.settings["steps_until"]["logistic"] for f in (findings, other))
    for name in ("weak", "fine"):
        assert theirs["log_steps"][name] == pytest.approx(mine["log_steps"][name], abs=1e-6)
    assert theirs["step_size"] * scale * scale == pytest.approx(mine["step_size"], rel=1e-9)


def test_rows_are_run_in_units_near_one(tmp_path):
    data = small()
    for scale in (1e-150, 1e-3, 1e150):
        file = written(tmp_path, data.X * scale, data.y)
        made = prepared(EarlyAlignment(data=file, target="side"), file)
        np.testing.assert_allclose(np.ldexp(made.Z / scale, made.exponent), data.Z, rtol=1e-14)
        assert 2.0**-20 < np.abs(made.Z).max() < 2.0**20
        assert made.weights == pytest.approx(np.full(12, 1 / 12))


def test_an_angle_that_is_left_again_is_told(tmp_path):
    """One step from zero lies along u, and the second row, of zero dual, then turns the weights away from it."""
    X = np.array([[1.0, 0.0], [-1.0, -1.0], [2.0, -1.0]])
    file = written(tmp_path, X, [1, -1, 1])
    findings = EarlyAlignment(data=file, target="side", steps=1000).check(silent)
    told = next(note for note in findings.notes if note.startswith("gradient descent, logistic loss, "))
    assert "fine alignment (0.03 rad) after exactly 1 step, left again, and for good after about " in told
    assert any(
        "no maximum-margin dual is positive on all support vectors (zero on rows 1)" in n for n in findings.notes
    )
    assert all(v.outside_theorem for v in findings.verdicts)
    # No claim on a limit that is not there holds; what needs no balance may.
    rows = {v.claim: v.outcome for v in findings.verdicts if v.parametrisation == "flow"}
    assert rows["radial-tangential"] is Outcome.HOLDS
    assert rows["direction-law"] is not Outcome.HOLDS
    assert rows["balance-solution"] is Outcome.INCONCLUSIVE


def test_rows_that_balance_at_zero_are_told_apart(tmp_path):
    file = written(tmp_path, np.array([[1.0, 0.5], [-1.0, 0.5]]), [1, -1])
    findings = EarlyAlignment(data=file, target="side", steps=1000).check(silent)
    assert any(
        "w_perp tends to zero, so that the law says nothing: alignment is a power of t" in n for n in findings.notes
    )
    rows = {(v.claim, v.parametrisation): v for v in findings.verdicts}
    assert rows["direction-law", "flow"].undecided == "w_perp tends to zero: the law is void"
    assert rows["radial-tangential", "flow"].outcome is Outcome.HOLDS


def test_data_that_nothing_separates_are_refused_with_the_proof(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    file = written(tmp_path, X, np.where(np.arange(12) < 6, 1, -1))
    findings = EarlyAlignment(data=file, target="side").check(silent)
    assert findings.verdicts == ()
    assert findings.settings["separable"] is False
    told = next(note for note in findings.notes if note.startswith("not separable: "))
    # The rows and multipliers of the message themselves combine to zero, to the digits that it shows.
    terms = re.findall(r"([\d.e-]+) z\[(\d+)\]", told)
    Z = X * np.where(np.arange(12) < 6, 1.0, -1.0)[:, None]
    left = sum(float(p) * Z[int(i)] for p, i in terms)
    assert np.linalg.norm(left) < 1e-3 * sum(float(p) * np.linalg.norm(Z[int(i)]) for p, i in terms)
    assert any(note.startswith("gradient flow (logistic loss) settles at |w| = ") for note in findings.notes)
    assert findings.not_applicable["direction-law"] == "the rows are not separable"


def test_contradicting_rows_are_named(tmp_path):
    X = np.array([[1.0, 2.0], [0.5, -1.0], [1.0, 2.0], [3.0, 0.1]])
    findings = EarlyAlignment(data=written(tmp_path, X, [1, -1, -1, 1]), target="side").check(silent)
    assert any(
        note.startswith("rows 0 and 2 (the first is 0) are equal and have opposite labels") for note in findings.notes
    )
    assert any(
        note.startswith("not separable: the combination 0.5 z[0] + 0.5 z[2] of the rows") for note in findings.notes
    )


def test_an_intercept_and_weights_are_columns(tmp_path):
    X = np.array([[3.0, 1.0], [3.5, 2.0], [1.0, 3.0], [0.4, 1.0]])
    file = written(tmp_path, X, [1, 1, -1, -1], columns=["length", "count"])
    through_zero = EarlyAlignment(data=file, target="side", weight_column="count").check(silent)
    assert through_zero.settings["separable"] is False  # one class only is on the right side of zero
    findings = EarlyAlignment(data=file, target="side", weight_column="count", intercept=True, steps=1000).check(silent)
    assert findings.settings["separable"] is True
    assert findings.settings["columns"] == 2
    assert any(note == "weights: column `count`, divided by its sum." for note in findings.notes)
    assert any(note.startswith("the intercept is a column of ones") for note in findings.notes)
    message = f"{file}: there is no column `mass` for the weights; there are: `length`, `count`."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyAlignment(data=file, target="side", weight_column="mass").check(silent)


def test_weights_that_are_not_positive_are_refused(tmp_path):
    X = np.array([[3.0, 1.0], [3.5, 2.0], [1.0, 0.0], [0.4, 1.0]])
    file = written(tmp_path, X, [1, 1, -1, -1], columns=["length", "count"])
    message = (
        f"{file}: `count[2]` is 0; every weight must be positive: leave the row out of the data if it is not to count."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EarlyAlignment(data=file, target="side", weight_column="count").check(silent)


def test_a_single_column_has_nothing_to_align(tmp_path):
    findings = EarlyAlignment(
        data=written(tmp_path, np.array([[1.0], [-2.0], [3.0]]), [1, -1, 1]), target="side"
    ).check(silent)
    assert findings.settings["separable"] is True
    assert findings.not_applicable["direction-law"] == "there is one column only, and no direction to align"


def test_a_step_beyond_two_over_smoothness_is_told(tmp_path):
    data = small()
    file = written(tmp_path, data.X, data.y)
    findings = EarlyAlignment(data=file, target="side", absolute_step=10.0, steps=200).check(silent)
    assert any("and not below 2: the loss need not fall with every step" in note for note in findings.notes)
    assert findings.settings["steps_until"]["logistic"]["step_size"] == pytest.approx(10.0)
