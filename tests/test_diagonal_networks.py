"""Diagonal networks: the claims hold where they should, each counter-instance fails, and bad input is named."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from omegalimit.catalogue.regression import _diagonal_claims as claims
from omegalimit.catalogue.regression import _diagonal_manifolds as manifolds
from omegalimit.catalogue.regression._diagonal_arrays import accumulated_forces
from omegalimit.catalogue.regression._diagonal_claims import monotone_bottleneck
from omegalimit.catalogue.regression._diagonal_data import instance
from omegalimit.catalogue.regression._diagonal_definition import definition_of
from omegalimit.catalogue.regression._diagonal_experiment import clock_unit, log_start, run_experiment, run_several
from omegalimit.catalogue.regression._diagonal_models import (
    deep,
    hyperbolic_neuron,
    mixed_neurons,
    square_difference,
    weighted_squares,
)
from omegalimit.catalogue.regression._diagonal_potentials import exact_potential, run_potential
from omegalimit.catalogue.regression._diagonal_prediction import Prediction
from omegalimit.catalogue.regression._diagonal_ties import tie_entropy
from omegalimit.catalogue.regression.diagonal_networks import DiagonalNetworks
from omegalimit.claims import Kind, Outcome
from omegalimit.data import RegressionData, random_starts, saddle_regression, sparse_regression, tied_regression
from omegalimit.record import verdict_to_json

HOLDS, FAILS, INCONCLUSIVE = Outcome.HOLDS, Outcome.FAILS, Outcome.INCONCLUSIVE
PATH = {"saddles-in-order", "modified-l1-limit", "jump-times", "dual-certificate"}
JUDGED: dict[str, set[str]] = {
    "square-difference": PATH | {"plain-l1", "invariant-manifolds"},
    "weighted-squares": PATH | {"not-plain-l1"},
    "paper": {"saddles-in-order", "modified-l1-limit", "plain-l1", "definition"},
    "product": PATH | {"not-plain-l1", "invariant-manifolds"},
    "zero-balanced": PATH | {"plain-l1"},
    "tied": {"tie-entropy"},
    "descent-affine": {"invariant-manifolds"},
    "descent-curved": {"invariant-manifolds"},
    **{f"depth-{depth}": {"exact-potential"} for depth in (2, 3, 4)},
}


def outcomes(findings):
    return {(v.claim, v.parametrisation): v.outcome for v in findings.verdicts}


def only(findings, claim, where=None):
    (found,) = [v for v in findings.verdicts if v.claim == claim and where in (None, v.parametrisation)]
    return found


def all_hold(findings):
    return {key: outcome for key, outcome in outcomes(findings).items() if outcome is not HOLDS} == {}


@pytest.fixture(scope="module")
def square():
    return DiagonalNetworks(model="square-difference").check()


@pytest.fixture(scope="module")
def product():
    return DiagonalNetworks(model="product", deep_s=1e-4).check()  # fewer steps than from the default start


# What is drawn.


def test_sparse_data_are_solvable_and_drawn_as_said():
    data = sparse_regression(5, 12, 3, seed=7, draw=2)
    rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(2,)))
    np.testing.assert_array_equal(data.X, rng.standard_normal((5, 12)) / np.sqrt(5))
    support = rng.choice(12, size=3, replace=False)
    signs = rng.choice([-1.0, 1.0], size=3)
    k = np.zeros(12)
    k[support] = signs * rng.uniform(0.5, 1.5, size=3)
    np.testing.assert_array_equal(data.y, data.X @ k)
    assert not np.array_equal(data.X, sparse_regression(5, 12, 3, seed=7, draw=3).X)


def test_random_starts_have_the_spread_and_their_streams_differ():
    start = random_starts((400, 2), spread=100.0, seed=3)
    assert 0.1 <= np.abs(start).min() < 0.11  # of 800 uniform logarithms, the extremes are within a few percent
    assert 9 < np.abs(start).max() <= 10
    assert 300 < (start > 0).sum() < 500
    assert (random_starts((400, 2), spread=100.0, seed=3, signs=False) > 0).all()
    assert not np.array_equal(np.abs(start), np.abs(random_starts((400, 2), spread=100.0, seed=3, stream=2)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sparse_regression(0, 3, 1), "`n` must be at least 1; got 0."),
        (lambda: sparse_regression(2, 3, 4), "`sparsity` must be at most d = 3; got 4."),
        (lambda: sparse_regression(2, 3, 1, seed=-1), "`seed` must be at least 0; got -1."),
        (lambda: random_starts((2, 2), spread=0.5), "`spread` must be a finite factor of at least 1; got 0.5."),
        (lambda: random_starts((2, 2), spread=math.nan), "`spread` must be a finite factor of at least 1; got nan."),
    ],
)
def test_draws_that_cannot_be_are_refused(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


# The claims hold.


def test_two_layers_from_1e_60(square):
    assert all_hold(square)
    assert {v.claim for v in square.verdicts} == JUDGED["square-difference"]
    saddles = only(square, "saddles-in-order")
    assert saddles.bound == pytest.approx(1 / (60 * math.log(10)), rel=1e-3)
    order = saddles.details["predicted_order"].split()
    assert saddles.details["order"].split() == order
    assert len(order) >= 3


def test_deep_products_have_the_modified_and_not_the_plain_norm(product):
    assert all_hold(product)
    assert {v.claim for v in product.verdicts} == JUDGED["product"]
    limit = only(product, "modified-l1-limit")
    assert limit.details["plain_optimum_excess"] > 0.06  # the draw's condition: the other optimum would be seen
    np.testing.assert_allclose(limit.details["limit"], limit.details["predicted"], atol=1e-6)  # s^3 and the flow's rtol
    assert only(product, "not-plain-l1").measured == pytest.approx(
        only(product, "not-plain-l1").details["predicted_excess"], rel=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "claim"),
    [
        ({"shape": "zero-balanced", "deep_s": 1e-4}, "plain-l1"),
        ({"depth": 4, "deep_s": 1e-2, "n": 2, "d": 5}, "not-plain-l1"),
        ({"depth": 2}, "plain-l1"),
    ],
)
def test_products_of_other_shapes_and_depths(options, claim):
    findings = DiagonalNetworks(model="product", **options).check()
    assert all_hold(findings)
    assert claim in {v.claim for v in findings.verdicts}


def test_the_paper_network_visits_the_saddles_that_the_paper_prints():
    made = instance(saddle_regression())
    network = mixed_neurons(4, "random", 0, 0)
    e = run_experiment(network, made, -60 * math.log(10))
    assert claims.saddles_in_order(e).outcome is HOLDS
    assert claims.modified_l1_limit(e).outcome is HOLDS
    assert claims.plain_l1(e).outcome is HOLDS
    # k_1 = .8, then k_3 = 1.4, then (10/7, -10/49): exact values of the path; the times have an error of order 1/138.
    np.testing.assert_allclose(
        e.prediction.k[1:], [[0.8, 0, 0, 0], [0, 0, 1.4, 0], [0, 0, 10 / 7, -10 / 49]], atol=1e-14
    )
    np.testing.assert_allclose(e.prediction.times, [0, 0.5, 2, 0.5 * (4 + 80 / 49)], rtol=1e-13)
    np.testing.assert_allclose(e.limit, e.prediction.k[-1], atol=1e-6)
    assert e.activations == ((0, 1), (2, 1), (3, -1))


def test_unequal_eigenvalues_give_the_modified_norm():
    # The paper's discussion: half the growth time for the first feature, and the limit is (1, 0, 0, -5/7).
    made = instance(saddle_regression())
    network = weighted_squares(4, "equal", 0, 0)
    p, q = np.array([1.0, 0.5, 0.5, 0.5]), np.array([1.0, 0.5, 0.5, 0.5])
    np.testing.assert_allclose(network.neurons.extreme_eigenvalues(4)[1], 1 / network.growth.t_plus, rtol=1e-13)
    wanted = Prediction(made.X, made.y, 1 / (2 * p), 1 / (2 * q))
    np.testing.assert_allclose(wanted.k[-1], [1, 0, 0, -5 / 7], atol=1e-14)
    assert wanted.excess_of_plain > 0.03


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("alpha", [2.0, 0.1])
def test_finite_starts_minimise_their_exact_potential(depth, alpha):
    findings = DiagonalNetworks(model="power-difference", depth=depth, alpha=alpha).check()
    v = only(findings, "exact-potential", f"depth-{depth}")
    assert v.outcome is HOLDS
    assert abs(v.measured) < 1e-12  # the gap is quadratic in the flow's error of 1e-9
    assert v.details["plain_optimum_gap"] > 1e-4  # the l1 optimum is told apart
    curve = findings.arrays[f"depth-{depth}/potential"]
    at = np.interp(math.log10(alpha), curve["log10_alpha"], curve["excess"])
    # Two witnesses of one number: the potential's minimiser on a grid of half decades, and the flow.
    assert v.details["l1_excess"] == pytest.approx(at, rel=0.25)


def test_rates_are_measured_over_several_starts(square, product):
    for findings, where in ((square, "square-difference"), (product, "product")):
        for claim in ("jump-times", "dual-certificate"):
            v = only(findings, claim, where)
            h = np.array(v.details["h"])
            assert np.all(np.diff(h) > 0)
            worst = [np.abs(errors).max() for errors in v.details["errors"]]
            # Independent of the claim's own exponent: errors times h is one constant to a few percent.
            np.testing.assert_allclose(worst * h, worst[-1] * h[-1], rtol=0.05)


@pytest.mark.slow
def test_the_default_run_judges_every_claim():
    ticks = []
    findings = DiagonalNetworks().check(lambda text, fraction: ticks.append((text, fraction)))
    assert all_hold(findings)
    judged: dict[str, set[str]] = {}
    for v in findings.verdicts:
        judged.setdefault(v.parametrisation, set()).add(v.claim)
        json.dumps(verdict_to_json(v), allow_nan=False)
        assert isinstance(v.measured, float)
    assert judged == JUDGED
    assert findings.not_applicable == {}
    page = str(DiagonalNetworks.__doc__)
    for claim in set().union(*JUDGED.values()):
        assert f"`{claim}`" in page
    fractions = [fraction for _, fraction in ticks]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


# Each claim can fail.


@pytest.fixture(scope="module")
def counters():
    return DiagonalNetworks(deep_s=1e-4).counters


CHEAP = (
    "large-start", "plain-for-deep", "equal-growth-times", "equal-eigenvalues", "stopped-at-a-saddle",
    "broken-definition", "unbounded-nowhere", "large-steps", "unequal-layers", "wrong-depth", "vanishing-alpha",
    "wrong-growth-time", "tiny-steps", "wrong-weights",
)  # fmt: skip


def test_every_claim_has_a_counter_instance(counters):
    assert set(counters) == set(CHEAP)
    assert {claim for counter in counters.values() for claim, _ in counter.expected} == set().union(*JUDGED.values())


@pytest.mark.parametrize("name", CHEAP)
def test_counter_instances_fail_as_they_should(counters, name):
    findings = counters[name].check(lambda text, fraction: None)
    assert counters[name].as_expected(findings)
    if name != "equal-growth-times":  # where the data cannot tell, which is said
        found = outcomes(findings)
        assert {found[key] for key in counters[name].expected} == {FAILS}


def test_a_growth_time_that_is_off_by_a_tenth_is_seen():
    made, network = instance(saddle_regression()), square_difference(4, "random", 0, 0)
    runs = run_several(network, made, [x * -60 * math.log(10) for x in (0.5, 0.75, 1.0)])
    assert claims.jump_times(runs).outcome is HOLDS
    off = Prediction(made.X, made.y, np.full(4, 0.55), np.full(4, 0.5))
    wrong = [dataclasses.replace(run, prediction=off) for run in runs]
    assert claims.jump_times(wrong).outcome is not HOLDS
    assert claims.dual_certificate(wrong).outcome is not HOLDS


def test_a_start_too_large_for_the_claim_is_inconclusive_and_says_so():
    # At s = 1e-3 the flow passes the middle saddles without settling: by the estimate, and in fact.
    e = run_experiment(square_difference(4, "random", 1, 0), instance(saddle_regression()), math.log(1e-3))
    v = claims.saddles_in_order(e)
    assert v.measured > v.bound
    assert v.outcome is INCONCLUSIVE
    assert v.undecided is not None
    assert re.fullmatch(
        r"at this start the flow leaves saddle 2 after coming within about 0\.\d steps of it, by the theory's own "
        r"estimate: too soon for the bound 0\.14; take a smaller `s`\.",
        v.undecided,
    )


def test_the_estimate_of_the_approach_is_right_within_a_factor_of_ten():
    made = instance(sparse_regression(seed=1))
    for network, h in ((square_difference(8, "random", 1, 0), 46.0), (deep(8, 3, "random", 1, 0), 1e3)):
        e = run_experiment(network, made, log_start(network.layers, h))
        for p in range(1, len(e.prediction.times) - 1):
            measured = e.distances[p].min()
            if 1e-9 < measured < 0.1:  # neither rounding nor a saddle that is not there yet
                assert abs(math.log(measured) - e.log_approach(p)) < math.log(10)


# Faults that were reported: each of these gave a wrong verdict, or none.


@pytest.mark.parametrize(
    "options",
    [
        {"depth": 5, "seed": 1},
        {"depth": 5, "shape": "zero-balanced"},
        {"depth": 5, "deep_s": 1e-10},
        {"depth": 3, "deep_s": 1e-12, "n": 2, "d": 5},
    ],
)
def test_errors_below_the_tolerance_of_the_flow_say_nothing_about_the_exponent(options):
    # h reaches 1e15 and beyond: the predicted errors are 1e-15, and what is measured there is the flow's own 1e-9.
    findings = DiagonalNetworks(model="product", **options).check()
    assert all_hold(findings)
    left_out = only(findings, "jump-times").details["left_out"]
    assert left_out == [h for h in only(findings, "jump-times").details["h"] if h > 1e9]
    assert len(left_out) == 1


def test_a_growth_time_that_is_off_by_1e_6_is_seen_where_the_flow_can_tell():
    made, network = instance(sparse_regression(seed=1)), deep(8, 5, "random", 1, 0)
    runs = run_several(network, made, [log_start(5, h) for h in (1e3, 1e4, 1e9)])
    assert claims.jump_times(runs).outcome is HOLDS
    p = runs[0].prediction
    wrong = [
        dataclasses.replace(run, prediction=Prediction(made.X, made.y, p.t_plus * (1 + 1e-6), p.t_minus * (1 + 1e-6)))
        for run in runs
    ]
    assert claims.jump_times(wrong).outcome is FAILS
    assert claims.dual_certificate(wrong).outcome is FAILS


@pytest.mark.parametrize("depth", [2, 3])
def test_equal_layers_that_would_need_another_sign_make_no_jump(tmp_path, depth):
    # k = a^2 or a^3 from equal layers stays positive, and y = -2 x: a path without steps, with errors exactly zero.
    c = np.random.default_rng(0).standard_normal(4)
    file = saved(tmp_path, c[:, None], -2 * c)
    findings = DiagonalNetworks(model="product", depth=depth, shape="equal", data=file).check()
    assert FAILS not in outcomes(findings).values()
    assert only(findings, "jump-times").undecided == "the path makes no jump: there is no time to measure."
    dual = only(findings, "dual-certificate")
    assert (dual.outcome, dual.measured, dual.unit) == (HOLDS, 0.0, "relative error")
    assert dual.outside_theorem
    name = "one smallest weight in each start" if depth > 2 else "start orthogonal to no extreme eigenvector"
    assert {a.name: a.holds for a in dual.assumptions}[name] is False
    assert only(findings, "modified-l1-limit").outcome is INCONCLUSIVE
    assert "descent-curved does not apply: with layers of equal size every manifold is a plane." in findings.notes


def test_equal_layers_of_two_have_one_sign_and_its_path():
    findings = DiagonalNetworks(model="product", depth=2, shape="equal", n=3, d=10, sparsity=1, s=1e-40, seed=4935)
    findings = findings.check()
    assert all_hold(findings)
    assert only(findings, "modified-l1-limit").outside_theorem
    assert (only(findings, "modified-l1-limit").details["limit"] >= 0).all()
    assert only(findings, "not-plain-l1").measured > 1  # the plain norm's optimum needs both signs
    assert ("invariant-manifolds", "descent-curved") not in outcomes(findings)


def test_a_neuron_that_starts_at_zero_is_refused_with_its_start():
    shape = np.array([[1.0, 0.5], [0.0, 0.0]])
    neuron = lambda p: p[0] ** 2 - p[1] ** 2  # noqa: E731 - a neuron as a user writes it
    findings = DiagonalNetworks().check_neurons(neuron, 2, shape=shape, data=tied_regression())
    (verdict,) = findings.verdicts
    assert verdict.outcome is FAILS
    (refuted,) = [c for c in verdict.details["conditions"] if c["answer"] == "fail"]
    assert refuted["text"] == "the start is zero, where the gradient is zero: it never moves."
    assert refuted["features"] == [1]
    np.testing.assert_array_equal(refuted["witness"], [0, 0])


@pytest.mark.parametrize(
    "options",
    [
        {"model": "square-difference", "s": 0.1, "seed": 1},
        {"model": "square-difference", "s": 0.1, "seed": 2},
        {"model": "square-difference", "s": 1e-3, "seed": 1},
        {"model": "weighted-squares", "s": 0.1, "seed": 1},
        {"model": "weighted-squares", "s": 1e-4, "seed": 1},
        {"model": "product", "depth": 2, "s": 1e-3, "seed": 11},
        {"model": "product", "deep_s": 0.1},
    ],
)
def test_a_start_that_is_too_large_is_never_a_refutation(options):
    findings = DiagonalNetworks(**options).check()
    assert FAILS not in outcomes(findings).values()
    assert INCONCLUSIVE in outcomes(findings).values()
    for v in findings.verdicts:
        if v.outcome is INCONCLUSIVE and not v.measured <= v.bound:
            assert v.undecided is not None
            assert v.undecided.endswith("take a smaller `s`.")


@pytest.mark.parametrize("log10_s", [-1, -2, -6, -20, -60])
def test_the_exact_potential_of_the_start_bounds_the_excess(log10_s):
    made = instance(sparse_regression(seed=1))
    for network in (square_difference(8, "random", 1, 0), deep(8, 2, "random", 1, 0)):
        e = run_experiment(network, made, log10_s * math.log(10))
        measured, _ = e.prediction.excess(e.limit)
        assert e.excess_of_start is not None
        # Two witnesses of one number: a convex problem of this start, and the flow; its steps are right to 1e-9.
        assert measured == pytest.approx(e.excess_of_start, rel=1e-6, abs=1e-8)
        assert claims.limit_bound(e) <= min(1 / e.h, e.excess_of_start) + claims.FLOOR
        # The estimate for networks without a potential, where the excess is neither rounding nor of order one.
        if 1e-9 < measured < 0.1:
            assert abs(math.log(measured / e.estimated_excess())) < math.log(10)


def test_a_limit_that_is_off_by_1e_5_is_seen_from_1e_60():
    e = run_experiment(square_difference(4, "random", 0, 0), instance(saddle_regression()), -60 * math.log(10))
    assert claims.modified_l1_limit(e).outcome is HOLDS
    # Along the kernel of X, so that it still interpolates.
    kernel = np.linalg.svd(e.prediction.X)[2][-1]
    off = dataclasses.replace(e.flow, k=np.vstack([e.flow.k, e.limit + 1e-4 * kernel]))
    wrong = dataclasses.replace(e, flow=off)
    assert claims.modified_l1_limit(wrong).outcome is FAILS
    assert claims.plain_l1(wrong).outcome is FAILS


def test_descent_that_is_cut_short_is_compared_only_where_it_has_arrived(monkeypatch):
    made, network = instance(sparse_regression(seed=1)), deep(8, 3, "random", 1, 0)
    assert manifolds.curved_left(network, made).outcome is HOLDS
    monkeypatch.setattr(manifolds, "MOST_STEPS", 50)
    v = manifolds.curved_left(network, made)
    assert v.outcome is INCONCLUSIVE
    assert v.undecided is not None
    assert re.fullmatch(
        r"descent reaches \d+% of the flow's time in 50 steps: the drifts do not compare\.", v.undecided
    )


def test_a_potential_with_nothing_to_select_says_so():
    made = instance(RegressionData(X=np.array([[2.0, 1.0], [0.0, 1.0]]), y=np.array([1.0, -1.0])))
    v = exact_potential(run_potential(made, 3, 0.5))
    assert v.outcome is INCONCLUSIVE
    assert v.undecided == ("`X k = y` has one solution only on these data: there is nothing to select, at any `alpha`.")
    # One weight is zero in both norms: the columns are orthogonal to it.
    made = instance(RegressionData(X=np.array([[2.0, 0.0]]), y=np.array([1.0])))
    assert exact_potential(run_potential(made, 3, 0.5)).undecided == (
        "the least plain l1 and the least Euclidean norm are one point on these data: nothing tells them apart."
    )


SQUARES = lambda p: p[0] ** 2 - p[1] ** 2  # noqa: E731 - a neuron as a user writes it


@pytest.mark.parametrize(
    ("functions", "sizes", "message"),
    [
        (
            3,
            2,
            "`functions` must be a function of one JAX vector, or a sequence of them, one a feature; got 3.",
        ),
        (SQUARES, 2.5, "`sizes` must be a whole number, or a sequence of them, one a feature; got 2.5."),
        (
            lambda p: p[0] ** 2 - 1j * p[1] ** 2,
            2,
            "a neuron's function must return a real number; it returns complex128. Take the part you mean.",
        ),
    ],
)
def test_neurons_that_are_none_are_refused(functions, sizes, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        DiagonalNetworks().check_neurons(functions, sizes, shape=np.ones((2, 2)), data=tied_regression())


# Instruments.


def test_the_bottleneck_keeps_the_order():
    near = np.array([[0.0, 9, 9, 9], [9, 5, 9, 1], [9, 9, 2, 9]])
    worst, times = monotone_bottleneck(near)  # the last row's best column comes before the second's
    assert worst == 5
    np.testing.assert_array_equal(times, [0, 1, 2])


def test_forces_along_the_flow_end_where_its_own_coordinates_do():
    for network, log_s in ((square_difference(4, "random", 0, 0), -60.0), (deep(4, 3, "random", 0, 0), -7.0)):
        e = run_experiment(network, instance(saddle_regression()), log_s)
        # A quadrature of fourth order on the flow's steps against the coordinate that the flow integrates.
        np.testing.assert_allclose(accumulated_forces(e)[-1], e.flow.integral, atol=1e-6)


def test_clocks():
    assert clock_unit(2, math.log(1e-60)) == pytest.approx(60 * math.log(10))
    assert clock_unit(4, math.log(1e-3)) == pytest.approx(1e6)
    assert clock_unit(3, -800.0) == math.inf
    for layers, h in ((2, 138.0), (3, 1e5), (5, 1e4)):
        assert clock_unit(layers, log_start(layers, h)) == pytest.approx(h)


# Neurons of one's own.


def test_neurons_of_the_users_own_are_checked_and_trained():
    findings = DiagonalNetworks(s=1e-30).check_neurons(
        lambda p: p[0] ** 2 - 2 * p[1] ** 2, 2, shape=np.array([[1.0, 0.5], [0.5, 1.0]]), data=tied_regression()
    )
    assert only(findings, "definition").outcome is HOLDS
    conditions = {a.name: a.holds for a in only(findings, "definition").assumptions}
    assert conditions["analytic"] is None  # nothing refutes it, and nothing can prove it
    assert conditions["simple extreme eigenvalues"] is True
    assert only(findings, "modified-l1-limit").outcome is HOLDS
    assert any("reach their walls together" in note for note in findings.notes)
    assert only(findings, "modified-l1-limit").details["optimal_face"]["unique"] is False


def test_neurons_that_break_the_definition_are_not_trained():
    quartic = lambda p: p[0] ** 4 - p[1] ** 2  # noqa: E731 - a neuron as a user writes it
    findings = DiagonalNetworks().check_neurons(quartic, 2, shape=np.ones((2, 2)), data=tied_regression())
    (verdict,) = findings.verdicts
    assert verdict.outcome is FAILS
    assert findings.not_applicable["jump-times"] == "Definition 4.1 is refuted; nothing was trained"
    refuted = [c for c in verdict.details["conditions"] if c["answer"] == "fail"]
    assert [c["condition"] for c in refuted] == ["simple extreme eigenvalues"]


def test_the_side_of_the_start_decides_whether_a_branch_is_bounded():
    made = instance(tied_regression())
    verdict, network = definition_of(hyperbolic_neuron, 2, np.array([[1.0, 0.5], [1.0, -0.5]]), made)
    assert network is None
    (refuted,) = [c for c in verdict.details["conditions"] if c["answer"] == "fail"]
    assert refuted["condition"] == "unbounded along the limit trajectories"
    assert refuted["features"] == [1]  # on the side b < 0, k stays above -1; the first neuron complies


# One's own data, and bad input.


def saved(tmp_path, X, y):
    file = tmp_path / "data.npz"
    np.savez(file, X=X, y=y)
    return str(file)


def test_data_of_any_units_give_the_same_verdicts(tmp_path):
    data = saddle_regression()
    found = {}
    for scale in (1.0, 2.0**-500, 2.0**500):
        file = saved(tmp_path, data.X * scale, data.y * scale)
        findings = DiagonalNetworks(model="square-difference", data=file).check()
        found[scale] = outcomes(findings)
        assert any("exactly; arrays and weights are in these units" in note for note in findings.notes) == (scale != 1)
    assert found[1.0] == found[2.0**-500] == found[2.0**500]


def test_dependent_rows_and_unreachable_targets_are_reported(tmp_path):
    data = saddle_regression()
    X, y = np.vstack([data.X, data.X[:1]]), np.append(data.y, data.y[0])
    findings = DiagonalNetworks(model="square-difference", data=saved(tmp_path, X, y)).check()
    assert findings.notes == ("the 3 rows of X have rank 2; the others follow from these.",)
    assert all(a.holds for a in only(findings, "modified-l1-limit").assumptions)
    y[-1] += 1
    findings = DiagonalNetworks(model="square-difference", data=saved(tmp_path, X, y)).check()
    share = math.sqrt(0.5) / np.linalg.norm(y)  # half of the last difference is in each of the two equal rows
    assert findings.notes[0] == (
        f"the 3 rows of X have rank 2; the share {share:.3g} of y lies outside the span of its columns and is reached "
        "by no weights: every claim is about the least-squares fits."
    )
    v = only(findings, "modified-l1-limit")
    assert v.outcome is HOLDS
    assert {a.name: a.holds for a in v.assumptions}["X k = y can be solved"] is False
    assert v.outside_theorem


def test_ties_and_duplicates_are_named_and_the_limit_still_holds(tmp_path):
    data = sparse_regression(seed=1)
    X = np.hstack([data.X, data.X[:, [4]]])
    findings = DiagonalNetworks(model="square-difference", data=saved(tmp_path, X, data.y)).check()
    assert "equal columns: `x5` and `x9`." in findings.notes
    assert "square-difference: x5, x9 reach their walls together: a tie, outside the theorem." in findings.notes
    assert only(findings, "modified-l1-limit").outcome is HOLDS
    assert only(findings, "saddles-in-order").outcome is HOLDS  # in the fits, which are unique
    assert only(findings, "tie-entropy").outcome is HOLDS
    assert only(findings, "jump-times").undecided == (
        "dependent features are active together: the theory does not say which of them jumps how far."
    )


def test_of_tied_features_each_gets_its_start_squared():
    made = instance(tied_regression())
    network = square_difference(2, "equal", 0, 0)
    for u in (1.0, 3.0):
        shape = np.array([[1.0, 1.0], [u, 1.0]])
        e = run_experiment(dataclasses.replace(network, shape=shape), made, -60 * math.log(10))
        v = tie_entropy(e)
        assert v.outcome is HOLDS
        # k_i in proportion to u_i^2; what is left is of the order s^2 and the flow's own error.
        np.testing.assert_allclose(v.details["selected"], np.array([1, u**2]) / (1 + u**2), rtol=1e-6)
        np.testing.assert_allclose(e.limit, v.details["selected"], rtol=1e-6)


def test_a_start_at_zero_never_moves_and_is_reported():
    made = instance(RegressionData(X=np.array([[1.0, 2.0]]), y=np.ones(1)))
    network = square_difference(2, "equal", 0, 0)
    stuck = dataclasses.replace(network, shape=np.array([[1.0, 1.0], [0.0, 0.0]]))
    e = run_experiment(stuck, made, -60.0)
    assert {a.name: a.holds for a in e.assumptions}["no start at zero"] is False
    v = claims.modified_l1_limit(e)
    assert v.outcome is FAILS  # R wants the second feature, which cannot move
    assert v.outside_theorem


def test_signs_that_a_balanced_start_cannot_take_leave_the_limit_open():
    # All layers equal and positive: no weight can be negative, and this y needs one.
    made = instance(RegressionData(X=np.ones((1, 1)), y=-np.ones(1)))
    network = deep(1, 3, "equal", 0, 0)
    e = run_experiment(network, made, log_start(3, 1e3), until=5.0)
    v = claims.modified_l1_limit(e)
    assert v.outcome is INCONCLUSIVE
    assert {a.name: a.holds for a in v.assumptions}["one smallest weight in each start"] is False


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.eye(2), np.zeros(2), "`y` is zero: gradient flow from a small start has nothing to fit and does not move."),
        (
            np.zeros((2, 2)),
            np.ones(2),
            "`X` is zero: gradient flow from a small start has nothing to fit and does not move.",
        ),
        (
            np.array([[1.0, 1.0], [0.0, 0.0]]),
            np.array([0.0, 1.0]),
            "`X'y` is zero: no feature is correlated with `y`, so that gradient flow does not move.",
        ),
        (np.array([[np.nan, 1.0]]), np.ones(1), "{file}: `X[0, 0]` is nan; every entry must be finite."),
        (
            np.eye(2),
            np.ones(3),
            "{file}: `X` has shape (2, 2) and `y` has shape (3,): 2 rows against 3.",
        ),
        (
            np.ones((1, 201)),
            np.ones(1),
            "{file}: 201 features; the flow takes up to 200. The path alone has no such limit: omegalimit.saddle_path.",
        ),
    ],
)
def test_data_that_cannot_be_used_are_refused(tmp_path, X, y, message):
    file = saved(tmp_path, X, y)
    with pytest.raises(ValueError, match=f"^{re.escape(message.replace('{file}', file))}$"):
        DiagonalNetworks(model="square-difference", data=file).check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "`n` must be a whole number of at least 1; got 0."),
        ({"d": 2.5}, "`d` must be a whole number of at least 1; got 2.5."),
        ({"depth": 1}, "`depth` must be a whole number of at least 2; got 1."),
        ({"depth": 9}, "`depth` must be at most 8; got 9."),
        ({"sparsity": 9}, "`sparsity` must be at most d = 8; got 9."),
        ({"s": 0.0}, "`s` must lie between 1e-140 and 0.1; got 0.0."),
        ({"s": math.nan}, "`s` must lie between 1e-140 and 0.1; got nan."),
        ({"deep_s": 0.5}, "`deep_s` must lie between 1e-60 and 0.1; got 0.5."),
        ({"alpha": -1.0}, "`alpha` must lie between 1e-30 and 1000; got -1.0."),
        ({"seed": True}, "`seed` must be a whole number of at least 0; got True."),
        (
            {"model": "linear"},
            "`model` must be one of all, square-difference, weighted-squares, paper, product, power-difference; "
            "got 'linear'.",
        ),
        ({"shape": "flat"}, "`shape` must be one of random, equal, zero-balanced; got 'flat'."),
        (
            {"model": "paper", "shape": "zero-balanced"},
            "`shape` zero-balanced is for products; got `model` 'paper'.",
        ),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        DiagonalNetworks(**options)


def test_options_without_a_part_are_named():
    system = DiagonalNetworks(model="square-difference", depth=4, alpha=0.5, data="x.csv", n=9)
    assert system.ignored_options() == ["not used in this run: --depth, --n, --alpha."]
    assert DiagonalNetworks().ignored_options() == []


def test_counter_instances_refuse_data_of_ones_own():
    system = DiagonalNetworks(data="own.csv")
    message = "a counter-instance makes its own data and network; drop `--data` (got 'own.csv')."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        system.counters["large-start"].check(lambda text, fraction: None)


def test_verdicts_have_the_kinds_of_the_page(square):
    kinds = {v.claim: v.kind for v in square.verdicts}
    assert kinds["saddles-in-order"] is Kind.RATE
    assert kinds["invariant-manifolds"] is Kind.INVARIANT
