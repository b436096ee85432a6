"""Positive quadratic networks: every claim holds where it should, every counter-instance fails as it should."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from omegalimit import record
from omegalimit.catalogue.regression._quadratic_commuting import Commuting, entropy_projection, span_residual
from omegalimit.catalogue.regression._quadratic_entropy import (
    bregman,
    commute,
    finite_steps,
    minimum_trace,
    mirror,
    starts,
    weighted_entropy,
)
from omegalimit.catalogue.regression._quadratic_experiment import falls_like_a_power
from omegalimit.catalogue.regression._quadratic_geometry import (
    congruence,
    curvature_claims,
    exponential_rate,
    linear_rate,
    quotient_flow_claim,
)
from omegalimit.catalogue.regression._quadratic_statistics import Law, fitted_exponent, population_curvature
from omegalimit.catalogue.regression.positive_quadratic_networks import PositiveQuadraticNetworks, as_commuting
from omegalimit.claims import Kind, Outcome
from omegalimit.data.measurements import CommutingMeasurements, DenseMeasurements
from omegalimit.flows import mirror_flow

COUNTERS = (
    "column-rates", "off-the-data", "few-measurements", "wide-factor", "rank-deficient-start", "too-large-step",
    "sign-rows", "non-commuting", "large-start", "wrong-weights",
)  # fmt: skip

# Every verdict of the default run, by claim: its parametrisation and kind.
JUDGED = {
    "horizontal-gradient": ("gaussian", Kind.INVARIANT),
    "quotient-flow": ("gaussian", Kind.EQUALITY),
    "congruence": ("gaussian", Kind.EQUALITY),
    "effective-hessian": ("gaussian", Kind.EQUALITY),
    "gauge-zeros": ("gaussian", Kind.COUNT),
    "exponential-rate": ("gaussian", Kind.RATE),
    "linear-rate": ("gaussian", Kind.RATE),
    "population-curvature": ("gaussian", Kind.EQUALITY),
    "operator-concentration": ("gaussian", Kind.RATE),
    "spectral-start": ("gaussian", Kind.RATE),
    "recovery": ("gaussian", Kind.COUNT),
    "entropy-mirror-flow": ("commuting", Kind.EQUALITY),
    "bregman-projection": ("commuting", Kind.EQUALITY),
    "minimum-trace": ("commuting", Kind.RATE),
    "weighted-entropy-on-face": ("commuting", Kind.RATE),
    "finite-step": ("commuting", Kind.RATE),
    "finite-step-corrected": ("commuting", Kind.RATE),
}


def silent(text, fraction):
    del text, fraction


def outcomes(findings):
    return {(v.claim, v.parametrisation): v.outcome for v in findings.verdicts}


def assert_all_hold(findings):
    assert {key: found for key, found in outcomes(findings).items() if found is not Outcome.HOLDS} == {}


def verdict(findings, claim):
    return next(v for v in findings.verdicts if v.claim == claim)


# The default run.


@pytest.fixture(scope="module")
def default():
    ticks = []
    findings = PositiveQuadraticNetworks().check(lambda text, fraction: ticks.append(fraction))
    return findings, ticks


def test_every_claim_of_the_default_run_holds(default):
    findings, _ = default
    assert_all_hold(findings)
    assert findings.not_applicable == {}
    assert findings.notes == ()
    assert not any(v.outside_theorem for v in findings.verdicts)


def test_claims_are_those_of_the_docstring(default):
    findings, _ = default
    assert {v.claim: (v.parametrisation, v.kind) for v in findings.verdicts} == JUDGED
    assert len(findings.verdicts) == len(JUDGED)
    page = PositiveQuadraticNetworks.__doc__
    assert page is not None
    assert set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", page)) | {"recovery", "congruence"} == set(JUDGED)
    assert "- `recovery` (" in page
    assert "- `congruence` (" in page


def test_the_numbers_of_the_theory_are_met_by_training(default):
    # The default data are those of the stored numbers; here they are read at the flow's end and off JAX's Hessian.
    findings, _ = default
    hessian = verdict(findings, "effective-hessian").details["in U"]
    assert hessian[1] == pytest.approx(4.25699523, abs=6e-9)
    assert hessian[-1] == pytest.approx(241.14279821, abs=6e-9)
    assert verdict(findings, "gauge-zeros").details["zeros"] == 1
    rate = verdict(findings, "exponential-rate").details
    # The slope of the tail alone is the least curvature's, up to what the window leaves of faster modes.
    assert abs(rate["fitted rate"] - 4.25699523) <= 2 * rate["its error"]
    assert rate["its error"] < 0.02


def test_concentration_is_measured_over_two_decades(default):
    findings, _ = default
    for claim in ("operator-concentration", "spectral-start"):
        details = verdict(findings, claim).details
        assert details["n"][-1] / details["n"][0] == 100
        assert details["exponent"] == pytest.approx(-0.5, abs=4 * details["standard error"])
        assert 0 < details["standard error"] < 0.02


def test_the_guarantee_is_met_and_far_from_tight(default):
    findings, _ = default
    found = verdict(findings, "recovery")
    assert found.details["guaranteed trials"] > 10
    assert min(found.details["conservative by"]) > 20
    # Nothing can be told from fewer data than unknowns; from four times as many on nearly all are recovered.
    diagram = findings.arrays["gaussian/recovery"]
    ratio = diagram["ratio"].values
    assert np.nanmean(diagram["recovered"].values[:, ratio < 1]) == 0
    assert np.nanmean(diagram["recovered"].values[:, ratio >= 4]) > 0.95
    guaranteed = diagram["guaranteed"].values
    # The guarantee is never there before recovery.
    assert np.all((np.nan_to_num(guaranteed) == 0) | (diagram["recovered"].values >= guaranteed))


def test_steps_orders_and_exponents_are_those_of_the_theory(default):
    findings, _ = default
    plain = verdict(findings, "finite-step").details
    assert plain["over eta"][-1] == pytest.approx(plain["over eta"][-2], rel=0.01)
    ratios = verdict(findings, "finite-step-corrected").details["ratios"]
    assert np.all((ratios > 3.8) & (ratios < 4.2))
    trace = verdict(findings, "minimum-trace").details
    assert np.all(np.diff(trace["excess"]) < 0)
    assert trace["excess"][-1] < 1e-5


def test_details_settings_and_arrays_go_into_a_record(default, tmp_path):
    findings, _ = default
    assert all(map(math.isfinite, (x for v in findings.verdicts for x in (v.measured, v.bound, v.slack))))
    json.dumps(record.plain(findings.settings), allow_nan=False)
    path = record.write(findings, folder=tmp_path, system="positive-quadratic-networks", seed=0)
    back = record.read(path)
    assert set(back.arrays) == {
        "gaussian/run", "gaussian/curvature", "gaussian/concentration", "gaussian/recovery",
        "commuting/mirror", "commuting/least-trace", "commuting/steps",
    }  # fmt: skip
    assert [v.outcome for v in back.verdicts] == [v.outcome for v in findings.verdicts]
    assert (findings.settings["n"], findings.settings["d"], findings.settings["r"]) == (40, 6, 2)


def test_progress_rises_to_one(default):
    _, ticks = default
    assert ticks[0] == 0.0
    assert ticks[-1] == 1.0
    assert ticks == sorted(ticks)


# Counter-instances.


def test_the_counter_instances_are_these_and_cover_every_claim():
    counters = PositiveQuadraticNetworks().counters
    assert tuple(counters) == COUNTERS
    assert {claim for c in counters.values() for claim, _ in c.expected} == set(JUDGED)


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_instance_fails_as_it_should(name):
    counter = PositiveQuadraticNetworks().counters[name]
    findings = counter.check(silent)
    found = outcomes(findings)
    for key in counter.expected:
        # Without any guaranteed trial there is nothing to count.
        nothing = name == "sign-rows" and key[0] == "recovery"
        # A run that stays at a saddle has come to no interpolator, whose rates the claims are about.
        nothing |= name == "rank-deficient-start" and key[0].endswith("-rate")
        assert found[key] is (Outcome.INCONCLUSIVE if nothing else Outcome.FAILS), key
    assert counter.as_expected(findings)


def test_counter_instances_refuse_data_of_ones_own():
    counter = PositiveQuadraticNetworks(data="own.npz").counters["wide-factor"]
    message = "a counter-instance makes its own data; drop `--data` (got 'own.npz')."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        counter.check(silent)


def test_a_rate_that_many_modes_share_is_judged_by_all_of_them():
    # The least curvature alone is off by more than the allowance here: it is not yet alone when rounding ends the run.
    system = PositiveQuadraticNetworks(d=20, r=5, n=600)
    m = system.instance()
    e = system.experiment(m, system.start(m, []), "gaussian")
    for found in (exponential_rate(e), linear_rate(e)):
        assert found.outcome is Outcome.HOLDS
    slope = exponential_rate(e).details["fitted rate"]
    assert abs(slope / e.hessian.smallest_nonzero - 1) > 0.01


def test_a_rate_that_is_not_local_yet_is_left_undecided():
    system = PositiveQuadraticNetworks()
    m = system.instance()
    e = system.experiment(m, system.start(m, []), "gaussian", max_steps=600)
    found = linear_rate(e)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.undecided is not None
    assert found.undecided.endswith(", before the rate could be local.")


def test_the_rate_of_another_step_fails():
    system = PositiveQuadraticNetworks()
    m = system.instance()
    e = system.experiment(m, system.start(m, []), "gaussian")
    slower = dataclasses.replace(e, descent=dataclasses.replace(e.descent, step_size=0.95 * e.descent.step_size))
    assert linear_rate(slower).outcome is Outcome.FAILS
    assert linear_rate(slower).measured == pytest.approx(0.05, rel=0.2)


# The commuting fixtures of the theory.


def fixture():
    a = np.array([[1, 0.5, 0.2, 0.8], [0.3, 1, 0.7, 0.1]])
    return Commuting(CommutingMeasurements(a=a, y=np.array([1, 0.8])))


def test_the_least_trace_of_the_fixture_and_its_reduced_costs():
    found = fixture()
    certificate = found.least_trace.certificate
    # Eight digits are stored of the point and the costs, all of the value.
    assert certificate.lower == pytest.approx(1.2941176470588234, rel=1e-14)
    assert certificate.upper == pytest.approx(1.2941176470588234, rel=1e-14)
    np.testing.assert_allclose(certificate.point, [0.70588235, 0.58823529, 0, 0], atol=6e-9)
    np.testing.assert_allclose(found.reduced_costs, [0, 0, 0.42352941, 0.28235294], atol=6e-9)
    np.testing.assert_array_equal(found.face, [0, 1])


def test_the_trace_excess_of_the_fixture():
    log_eps = np.log([1.0, 0.1, 0.01, 0.001])
    found, table = minimum_trace(fixture(), np.ones(4), "squared", log_eps=log_eps)
    # Three digits are stored, of the trace itself and not of its ratio to the least one.
    excess = found.details["excess"] * 1.2941176470588234
    assert np.all(np.abs(excess - [0.345, 0.0934, 0.0220, 0.00538]) <= [6e-4, 6e-5, 6e-5, 6e-6])
    # It is the sum of the reduced costs times the entries, exactly.
    np.testing.assert_allclose(np.exp(table["log_q"].values) @ fixture().reduced_costs, excess, rtol=1e-9)
    np.testing.assert_allclose(table["excess"], table["predicted_excess"], rtol=1e-8)
    # At these starts the exponents are still off: what the claim says is about smaller ones.
    assert found.outcome is Outcome.FAILS
    assert minimum_trace(fixture(), np.ones(4), "squared")[0].outcome is Outcome.HOLDS


@pytest.mark.parametrize(
    ("w", "limit", "at"),
    [
        ((1.0, 1.0, 1.0), (0.5, 0.5, 0.0), (0.49998232, 0.49998232, 7.071e-5)),
        ((1.0, 3.0, 1.0), (0.25, 0.75, 0.0), (0.24999375, 0.74998125, 5e-5)),
    ],
)
def test_the_weights_of_the_start_decide_on_the_tied_face(w, limit, at):
    tied = Commuting(CommutingMeasurements(a=np.array([[1, 1, 0.5]]), y=np.ones(1)))
    weights = np.array(w)
    np.testing.assert_allclose(tied.on_face(weights), limit, atol=1e-12)
    run = mirror_flow(tied.measurements, log_q0=2 * math.log(1e-4) + np.log(weights))
    np.testing.assert_allclose(np.exp(run.final), at, atol=1e-8)
    found = weighted_entropy(tied, weights, "squared")
    if w[1] == 1.0:  # equal weights: nothing tells them from any other claim about the face
        assert found.outcome is Outcome.INCONCLUSIVE
    else:
        assert found.outcome is Outcome.HOLDS
        wrong = weighted_entropy(tied, weights, "squared", judged_by=np.ones(3))
        assert wrong.outcome is Outcome.FAILS
        assert wrong.measured == pytest.approx(0.5, abs=1e-3)  # (.25, .75) from (.5, .5), over .5


def test_a_vertex_is_no_face():
    found = weighted_entropy(fixture(), np.array([1.0, 3.0, 1.0, 1.0]), "squared")
    assert {c.name: c.holds for c in found.conditions}["the face is no vertex"] is False
    assert found.outcome is not Outcome.HOLDS


def test_finite_steps_of_the_fixture():
    found, _ = finite_steps(fixture(), np.log(np.full(4, 0.1)), "squared")
    plain, corrected = found
    assert plain.outcome is Outcome.HOLDS
    assert corrected.outcome is Outcome.HOLDS
    assert plain.details["over eta"][-1] == pytest.approx(plain.details["over eta"][-2], rel=0.01)
    # "About 3.9 per halving", with steps from moderate on.
    assert np.all((corrected.details["ratios"] > 3.7) & (corrected.details["ratios"] < 4.3))


# What the claims rest on.


def test_the_projection_in_von_neumanns_entropy_is_optimal_for_matrices_that_do_not_commute():
    rng = np.random.default_rng(3)
    M = rng.standard_normal((2, 4, 4))
    A = M @ M.transpose(0, 2, 1)
    S = rng.standard_normal((4, 4))
    Q0, planted = S @ S.T / 4, np.diag([0.5, 1.0, 1.5, 1.0])
    y = np.einsum("nab,ab->n", A, planted)
    Q, residual = entropy_projection(Q0, A, y)
    assert residual <= 1e-12
    assert span_residual(Q, Q0, A) <= 1e-11

    def divergence(P):
        w, V = np.linalg.eigh(P)
        w0, V0 = np.linalg.eigh(Q0)
        return np.trace(P @ ((V * np.log(w)) @ V.T - (V0 * np.log(w0)) @ V0.T) - P)

    # No interpolator nearby is nearer to Q0: moves in the measurements' null space.
    B = A.reshape(2, -1)
    for size in (1e-1, 1e-2):
        for _ in range(20):
            T = rng.standard_normal((4, 4))
            T = T + T.T
            T = T - (B.T @ np.linalg.solve(B @ B.T, B @ T.reshape(-1))).reshape(4, 4)
            P = Q + size * np.linalg.eigvalsh(Q)[0] * T / np.linalg.norm(T, 2)
            assert divergence(P) >= divergence(Q)


def test_the_two_witnesses_of_the_bregman_projection_agree_and_a_third_start_does_not():
    found = fixture()
    q0 = np.array([0.3, 0.02, 0.5, 0.1])
    Q, _ = entropy_projection(np.diag(q0), found.measurements.matrices(), found.y)
    np.testing.assert_allclose(np.diag(Q), found.projection(np.log(q0)).certificate.point, rtol=1e-10)
    judged = bregman(found.measurements, "squared", [np.diag(q0)])
    assert judged.outcome is Outcome.HOLDS
    other = bregman(found.measurements, "squared", [np.diag(q0)], judged_by=[np.diag([0.3, 0.02, 0.5, 0.2])])
    assert other.outcome is Outcome.FAILS


def test_commuting_matrices_are_found_in_a_basis_of_their_own():
    rng = np.random.default_rng(5)
    V = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    a = rng.uniform(size=(3, 5))
    own = CommutingMeasurements(a=a, V=V, y=a @ np.ones(5))
    dense = DenseMeasurements(A=own.matrices(), y=own.y)
    found = as_commuting(dense)
    assert found is not None
    np.testing.assert_allclose(found.matrices(), own.matrices(), atol=1e-13)
    bent = own.matrices()
    bent[0, 0, 1] = bent[0, 1, 0] = bent[0, 0, 1] + 1e-6
    moved = DenseMeasurements(A=bent, y=own.y)
    assert commute(moved) > 1e-8
    assert as_commuting(moved) is None


def test_starts_are_positive_and_of_different_sizes():
    found = starts(fixture().measurements, 0)
    sizes = [float(np.linalg.eigvalsh(Q0).max()) for Q0 in found]
    assert all(np.linalg.eigvalsh(Q0)[0] > 0 for Q0 in found)
    assert sizes[2] / sizes[0] > 30


def test_a_fitted_exponent_and_its_error():
    x = np.geomspace(10, 1000, 20)
    slope, intercept, error = fitted_exponent(x, 3 * x**-0.5)
    assert slope == pytest.approx(-0.5, abs=1e-12)
    assert math.exp(intercept) == pytest.approx(3, rel=1e-12)
    assert error <= 1e-12
    noisy = 3 * x**-0.5 * np.exp(0.1 * np.random.default_rng(0).standard_normal(20))
    slope, _, error = fitted_exponent(x, noisy)
    assert 0.005 < error < 0.05  # 0.1 / (20^(1/2) x the spread of log x, 1.4) = 0.016
    assert abs(slope + 0.5) < 4 * error


@pytest.mark.parametrize(("d", "r"), [(6, 2), (3, 3), (5, 1)])
def test_the_population_curvature_holds_for_normal_rows_and_fails_for_signs(d, r):
    U = np.random.default_rng(d).standard_normal((d, r))
    assert population_curvature(U, Law(), seed=0).outcome is Outcome.HOLDS
    assert population_curvature(U, Law("signs"), seed=0).outcome is Outcome.FAILS


# Other data and options.


def test_completion():
    findings = PositiveQuadraticNetworks(measurements="completion").check()
    assert_all_hold(findings)
    assert set(findings.not_applicable) == {
        "population-curvature",
        "operator-concentration",
        "spectral-start",
        "recovery",
    }
    assert findings.settings["n"] == 18  # 85% of 21 entries


def test_the_other_loss_has_the_same_geometry_and_the_same_limits():
    system = PositiveQuadraticNetworks(loss="log-cosh")
    m = system.instance()
    e = system.experiment(m, system.start(m, []), "gaussian")
    found = [quotient_flow_claim(e), congruence(e), exponential_rate(e), linear_rate(e), *curvature_claims(e)]
    own = fixture()
    found.append(bregman(own.measurements, "log-cosh", starts(own.measurements, 0)[:2]))
    found.append(mirror(own.measurements, starts(own.measurements, 0)[1], "log-cosh")[0])
    assert [v.claim for v in found if v.outcome is not Outcome.HOLDS] == []
    assert {v.loss for v in found} == {"log-cosh"}


def own_rows(scale_X=1.0, scale_y=1.0, noise=0.0):
    rng = np.random.default_rng(8)
    X, U = rng.standard_normal((40, 4)), rng.standard_normal((4, 2))
    y = np.square(X @ U).sum(axis=1) + noise * rng.standard_normal(40)
    return {"X": X * scale_X, "y": y * scale_y}


def on_file(tmp_path, arrays, **options):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    return PositiveQuadraticNetworks(data=str(path), **options).check()


def test_a_file_of_ones_own_is_what_is_trained_on(tmp_path):
    findings = on_file(tmp_path, own_rows())
    assert_all_hold(findings)
    assert {v.parametrisation for v in findings.verdicts} == {"data"}
    assert (findings.settings["n"], findings.settings["d"]) == (40, 4)
    reason = "about measurements that commute; these do not"
    assert findings.not_applicable["bregman-projection"] == reason
    assert findings.not_applicable["recovery"] == "about normal rows, which were not drawn"


@pytest.mark.parametrize(("scale_X", "scale_y"), [(2.0**120, 2.0**-200), (2.0**-120, 2.0**200)])
def test_units_of_ones_own_data_change_no_verdict(tmp_path, scale_X, scale_y):
    plain = on_file(tmp_path, own_rows())
    scaled = on_file(tmp_path, own_rows(scale_X, scale_y))
    assert outcomes(scaled) == outcomes(plain)
    for claim in ("exponential-rate", "linear-rate"):
        # The powers of two leave every digit of the run.
        assert verdict(scaled, claim).measured == pytest.approx(verdict(plain, claim).measured, rel=1e-6)


def test_noise_leaves_the_claims_about_interpolators_undecided(tmp_path):
    findings = on_file(tmp_path, own_rows(noise=0.3))
    found = outcomes(findings)
    for claim in ("horizontal-gradient", "quotient-flow", "congruence"):
        assert found[claim, "data"] is Outcome.HOLDS
    for claim in ("effective-hessian", "gauge-zeros", "exponential-rate", "linear-rate"):
        assert found[claim, "data"] is Outcome.INCONCLUSIVE
    assert any(note.startswith("the flow did not end at an interpolator (") for note in findings.notes)


def test_data_whose_fourth_powers_are_no_doubles_are_scaled_and_the_reader_is_told(tmp_path):
    plain = on_file(tmp_path, own_rows())
    scaled = on_file(tmp_path, own_rows(2.0**-480, 2.0**-400))
    assert outcomes(scaled) == outcomes(plain)
    told = [note for note in scaled.notes if note.startswith("the measurements were scaled by 2**")]
    assert len(told) == 1
    assert told[0].endswith("exactly; times, rates and arrays are in these units.")


def test_targets_that_are_all_zero_are_refused(tmp_path):
    message = "`y` is all zero, which Q = 0 meets: the network shrinks to nothing, and there is no choice to look at."
    with pytest.raises(ValueError, match=f": {re.escape(message)}$"):
        on_file(tmp_path, {"X": np.eye(3), "y": np.zeros(3)})


def test_a_trace_that_the_data_fix_selects_nothing(tmp_path):
    findings = on_file(tmp_path, {"A": np.eye(3)[None], "y": np.ones(1)})
    assert findings.not_applicable["minimum-trace"] == "every matrix that meets these data has the same trace"


def test_one_row_leaves_descent_no_choice(tmp_path):
    findings = on_file(tmp_path, {"X": np.array([[1.0, 2.0, 0.5]]), "y": np.ones(1)}, r=1)
    found = verdict(findings, "finite-step")
    assert found.undecided == "every step size ends at the projection: these data leave descent no choice."
    # One measurement of three unknowns: the claim about the gauge's zeros is about data that see all of them.
    zeros = verdict(findings, "gauge-zeros")
    assert (zeros.outcome, zeros.outside_theorem) == (Outcome.INCONCLUSIVE, True)
    reason = "the data do not see 2 of the 3 tangent directions: the claim is about data that see all of them."
    assert zeros.undecided == reason


@pytest.mark.parametrize("r", [1, 2])
def test_flow_and_descent_may_end_at_different_interpolators(tmp_path, r):
    findings = on_file(tmp_path, {"a": np.array([[1.0, -1.0, 0.5]]), "y": np.ones(1)}, r=r)
    # Judged by the curvature at the flow's end instead of its own, descent's rate was off by 5%.
    assert verdict(findings, "linear-rate").measured < 1e-3


def test_a_run_that_ends_at_a_saddle_is_followed_step_by_step(tmp_path):
    # One column cannot meet targets of full rank: the end is a saddle, off which the recursion in Q alone would slide.
    X = np.random.default_rng(0).standard_normal((11, 3))
    findings = on_file(tmp_path, {"X": X, "y": np.ones(11)}, r=1)
    assert outcomes(findings)["congruence", "data"] is Outcome.HOLDS
    assert outcomes(findings)["exponential-rate", "data"] is Outcome.INCONCLUSIVE


def test_commuting_data_of_ones_own_are_judged_by_the_entropy(tmp_path):
    own = fixture()
    findings = on_file(tmp_path, {"a": own.a, "y": own.y})
    found = outcomes(findings)
    for claim in ("entropy-mirror-flow", "bregman-projection", "minimum-trace", "finite-step", "finite-step-corrected"):
        assert found[claim, "commuting"] is Outcome.HOLDS, claim
    reason = "the solution of least trace is unique: there is no face"
    assert findings.not_applicable["weighted-entropy-on-face"] == reason


def test_commuting_data_that_no_positive_matrix_meets(tmp_path):
    findings = on_file(tmp_path, {"a": np.array([[1.0, 0.5, 0.2]]), "y": np.array([-1.0])}, r=1)
    assert findings.not_applicable["minimum-trace"].startswith("no q >= 0 meets the data: ")
    assert all(v.parametrisation == "data" for v in findings.verdicts)
    assert outcomes(findings)["exponential-rate", "data"] is not Outcome.HOLDS


def test_options_that_data_leave_no_room_for_are_named(tmp_path):
    findings = on_file(tmp_path, own_rows(), n=7, d=5)
    assert "not used with these data: --n, --d." in findings.notes


def test_more_columns_than_rows_of_the_matrix(tmp_path):
    message = "`r` is 5, and the measured matrix has 4 rows; take `--r 4` or less."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        on_file(tmp_path, own_rows(), r=5)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"^nowhere\.npz: "):
        PositiveQuadraticNetworks(data="nowhere.npz").check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 1}, "`d` must be a whole number of at least 2; got 1."),
        ({"r": 0}, "`r` must be a whole number of at least 1; got 0."),
        ({"n": 0}, "`n` must be a whole number of at least 1; got 0."),
        ({"seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
        ({"d": True}, "`d` must be a whole number of at least 2; got True."),
        ({"r": 7}, "`r` must be at most d = 6; got 7."),
        ({"n": 10**8}, "n x d = 100000000 x 6 is too large to be made; take at most 3e+07."),
        ({"d": 100, "r": 5}, "d x r = 100 x 5 is too large: the Hessian in U is formed up to 400 entries."),
        ({"scale": 0.0}, "`scale` must lie between 1e-30 and 1e3; got 0.0."),
        ({"scale": math.nan}, "`scale` must lie between 1e-30 and 1e3; got nan."),
        ({"step": 0.0}, "`step` must be positive and below 100; got 0.0."),
        ({"measurements": "phase"}, "`measurements` must be one of gaussian, completion; got 'phase'."),
        ({"loss": "hinge"}, "`loss` must be one of squared, log-cosh; got 'hinge'."),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PositiveQuadraticNetworks(**options)


def test_the_entropy_claims_hold_for_another_seed():
    system = PositiveQuadraticNetworks(seed=1)
    found = system.entropy_claims(system.instance(), {}, silent)[0]
    assert [v.claim for v in found if v.outcome is not Outcome.HOLDS] == []


# Runs that do not come to where a claim is about.


def trained(**options):
    system = PositiveQuadraticNetworks(**options)
    m = system.instance()
    return system.experiment(m, system.start(m, []), "data" if system.data else system.measurements)


@pytest.mark.parametrize("options", [{"measurements": "completion", "seed": 4}, {"n": 15, "seed": 8}])
def test_a_run_that_ends_at_a_local_minimum_has_no_rate(options):
    e = trained(**options)
    assert not e.interpolates
    for found in (exponential_rate(e), linear_rate(e)):
        assert found.outcome is Outcome.INCONCLUSIVE
        assert found.undecided is not None
        assert re.fullmatch(r"the residual ended at \d\.\de-0\d, before the rate could be local\.", found.undecided)


def test_single_precision_ends_at_its_own_rounding(tmp_path):
    path = tmp_path / "single.npz"
    np.savez(path, **{key: array.astype(np.float32) for key, array in own_rows().items()})
    e = trained(data=str(path))
    assert e.flow.figures.residual > 1e-9
    assert [exponential_rate(e).outcome, linear_rate(e).outcome] == [Outcome.INCONCLUSIVE] * 2


def test_a_step_is_bounded_by_the_curvature_of_the_start(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **own_rows())
    # At the start the curvature is a thousand times that of the end: a step for the end left the doubles.
    e = trained(data=str(path), scale=1000.0)
    assert e.descent.diverged_at is None
    assert e.descent.edge_start <= 0.5 * (1 + 1e-6)
    assert e.descent.edge_end < 2


def test_descent_that_diverged_from_the_start_has_judged_no_rate():
    system = PositiveQuadraticNetworks(d=20, r=3)
    m = system.instance()
    e = system.experiment(m, system.start(m, []), "gaussian", anywhere=True)
    found = linear_rate(e)
    assert e.descent.diverged_at is not None
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.undecided == (
        f"descent diverged from the start, where step x curvature is {e.descent.edge_start:.3g} (at the flow's end "
        f"{e.edge:.3g}): it never came near an interpolator."
    )
    assert e.descent.edge_start > 2 > e.edge


def test_many_modes_together_are_not_taken_for_a_power_law():
    # 40 measurements of 57 unknowns: curvatures over many decades, and a residual that is straight in log t.
    system = PositiveQuadraticNetworks(d=20, r=3, seed=2)
    m = system.instance()
    e = system.experiment(m, system.start(m, []), "gaussian", max_steps=50_000)
    assert falls_like_a_power(np.arange(e.descent.residual.size), e.descent.residual)
    assert linear_rate(e).outcome is Outcome.INCONCLUSIVE


def test_what_falls_like_a_power():
    t = np.geomspace(1e-3, 1e3, 300)
    assert falls_like_a_power(t, 1 / (1 + t))
    assert falls_like_a_power(t, (1 + t) ** -0.5)
    assert not falls_like_a_power(t, np.exp(-t / 50))
    assert not falls_like_a_power(t, 0.03 + np.exp(-t))
    assert not falls_like_a_power(t[:100], 1 / (1 + t[:100]))


def test_a_factor_wider_than_the_rank_of_the_limit_is_outside(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **own_rows())
    e = trained(data=str(path), r=3)
    assert e.limit_rank == 2
    found = exponential_rate(e)
    assert (found.outcome, found.outside_theorem) == (Outcome.FAILS, True)
    width = next(a for a in found.assumptions if a.name == "width equals the limit's rank")
    assert (width.holds, width.measured) == (False, "3 against 2")
    zeros = curvature_claims(e)[1]
    assert zeros.undecided == (
        "the limit has rank 2, and the factor 3 columns: the claim is about as many columns as the rank."
    )


def test_the_rounding_of_q_at_a_tiny_start_is_no_failure(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **own_rows())
    e = trained(data=str(path), scale=1e-30)
    found = quotient_flow_claim(e)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.slack >= found.measured > found.bound


# Commuting data of one's own.


def entropy(tmp_path, arrays, **options):
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    system = PositiveQuadraticNetworks(data=str(path), **options)
    found, _, reasons = system.entropy_claims(system.instance(), {}, silent)
    return {v.claim: v for v in found}, reasons


def test_a_degenerate_least_trace_leaves_the_exponents_undecided(tmp_path):
    own = fixture()
    found, reasons = entropy(tmp_path, {"a": own.a, "y": np.array([1.0, 0.3])})
    trace = found["minimum-trace"]
    assert trace.outcome is Outcome.INCONCLUSIVE
    assert trace.undecided is not None
    assert trace.undecided.startswith(
        "the least trace has fewer positive entries than there are independent measurements: the reduced costs are not "
        "unique, and with them the exponents. The trace's excess fell to "
    )
    assert all(v.outcome is Outcome.HOLDS for claim, v in found.items() if claim != "minimum-trace")
    assert reasons == {"weighted-entropy-on-face": "the solution of least trace is unique: there is no face"}


def test_a_measurement_made_twice_makes_no_vertex_of_an_edge(tmp_path):
    a = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5]])
    found, reasons = entropy(tmp_path, {"a": a, "y": np.ones(2)})
    assert reasons == {}
    assert found["weighted-entropy-on-face"].outcome is Outcome.HOLDS
    assert found["minimum-trace"].outside_theorem  # one solution of least trace


def boundary():
    return {"a": np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.2]]), "y": np.array([1.0, 0.0])}


def planted_on_the_boundary():
    rng = np.random.default_rng(4526)
    a = rng.uniform(size=(3, 5))
    q = np.r_[rng.uniform(0.5, 1.5, 5)[:2], 0, 0, 0]
    return {"a": a, "y": a @ q}


@pytest.mark.parametrize("arrays", [boundary(), planted_on_the_boundary()])
def test_data_that_only_a_boundary_meets(tmp_path, arrays):
    found, reasons = entropy(tmp_path, arrays, r=1, seed=4526)
    # The identity is read from U, as long as the small eigenvalues are above the rounding of the large ones.
    assert {claim: v.outcome for claim, v in found.items()} == {"entropy-mirror-flow": Outcome.HOLDS}
    reason = "no q > 0 meets the data, only ones with zeros, which are approached like 1/t"
    assert reasons["bregman-projection"] == reasons["minimum-trace"] == reasons["finite-step"] == reason


def test_descent_that_spent_its_steps_is_undecided_and_descent_that_cannot_settle_fails():
    start = np.log(np.full(4, 0.1))
    few, _ = finite_steps(fixture(), start, "squared", most_steps=300)
    assert [v.outcome for v in few] == [Outcome.INCONCLUSIVE] * 2
    assert few[0].undecided is not None
    assert few[0].undecided.startswith("descent did not arrive: step ")
    assert few[0].undecided.endswith(" after 300 steps.")
    large, _ = finite_steps(fixture(), start, "squared", largest=16.0, most_steps=3000)
    assert [v.outcome for v in large] == [Outcome.FAILS] * 2


def test_diagonal_entries_commute(tmp_path):
    i = np.arange(4)
    found, reasons = entropy(tmp_path, {"rows": i, "cols": i, "y": np.arange(1.0, 5.0)})
    assert found["bregman-projection"].outcome is Outcome.HOLDS
    assert found["entropy-mirror-flow"].outcome is Outcome.HOLDS
    assert reasons["minimum-trace"] == "every matrix that meets these data has the same trace"


def test_measurements_too_many_to_compare_are_not_said_not_to_commute(tmp_path):
    X = np.random.default_rng(2).standard_normal((61, 3))
    _, reasons = entropy(tmp_path, {"X": X, "y": np.ones(61)})
    assert reasons["bregman-projection"] == (
        "about measurements that commute; whether these 61 of 3 rows do was not looked at (it is for at most 60): pass "
        "them as `a` and `V`"
    )
