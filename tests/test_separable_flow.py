"""Flow and descent on separable rows: laws, closed forms, an integrator in physical time, and plain loops."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import sklearn.datasets

from _margins import s40
from omegalimit._numerics import double_precision
from omegalimit.flows._log_time_field import LogTimeField
from omegalimit.flows._margin_rows import checked_margin_rows
from omegalimit.flows.separable_descent import DescentEnding, separable_descent, smoothness
from omegalimit.flows.separable_flow import SeparableEnding, separable_flow
from omegalimit.limits import MaxMargin
from omegalimit.losses import LOSSES, PolynomialTail
from omegalimit.solvers import solve

# Four rows whose maximum margin direction is the first axis, margin 1, held by the first two.
FOUR = np.array([(1, 1), (1, -0.5), (2, 1.5), (1.5, 3.0)])
AXIS = np.array([1.0, 0.0])
SLOPE = {"exponential": lambda m: np.exp(-m), "logistic": lambda m: 1 / (1 + np.exp(m))}
LATE = 40 * math.log(10)
# The default tolerance is 1e-10 a step, and some hundred steps add up to 1e-8 at most.
ERROR = 2e-8


@functools.cache
def four(loss="logistic", until=LATE):
    return separable_flow(FOUR, loss=loss, until_log_time=until)


@functools.cache
def forty(loss="logistic", until=LATE):
    return separable_flow(s40(), loss=loss, until_log_time=until)


@functools.cache
def margin_of_forty():
    found = solve(MaxMargin("l2", rows=s40())).certificate
    return found.lower, found.point / np.linalg.norm(found.point), found.support


def pull(Z, loss, w):
    """-grad of the mean loss, in plain doubles."""
    return SLOPE[loss](Z @ w) @ Z / len(Z)


# The four rows: figures to the digits that are known.

HITS = {"exponential": ((2.4788, 2.169), (6.3257, 5.635)), "logistic": ((3.0221, 2.456), (6.4969, 5.787))}


@pytest.mark.parametrize("loss", LOSSES)
def test_four_rows_at_t_1e40(loss):
    flow = four(loss)
    assert flow.ending is SeparableEnding.TIME_REACHED
    s, w = flow.log_time[-1], flow.w[-1]
    assert s == 40 * math.log(10)
    # Balance of the two that hold the margin: e^-w2 = e^(w2/2) / 2.
    assert w[1] == pytest.approx(math.log(2) / 1.5, abs=ERROR)
    assert w[0] - s == pytest.approx(-0.749780, abs=5e-7)
    assert flow.path.angle_to(AXIS)[-1] * s == pytest.approx(0.465887, abs=5e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_four_rows_first_come_to_an_angle_when_they_do(loss):
    flow = four(loss)
    hits = flow.hitting(AXIS, [0.3, 0.1])
    for hit, angle, (log_t, radius) in zip(hits, (0.3, 0.1), HITS[loss], strict=True):
        assert hit == pytest.approx(log_t, abs=5e-5)
        there = flow.path_at(hit)
        assert np.exp(there.log_radius[0]) == pytest.approx(radius, abs=5e-4)
        assert there.angle_to(AXIS)[0] == pytest.approx(angle, abs=1e-12)


def test_a_tenth_of_a_weak_angle_takes_almost_a_million_times_as_long():
    weak, fine = four("exponential").hitting(AXIS, [0.3, 0.03])
    assert fine - weak == pytest.approx(13.7, abs=0.05)


@pytest.mark.parametrize("loss", LOSSES)
def test_an_integrator_in_physical_time_agrees(loss):
    ours = four(loss)
    times = np.array([1e-3, 0.1, 1.0, 10.0, 300.0])
    theirs = scipy.integrate.solve_ivp(
        lambda _, w: pull(FOUR, loss, w), (0, times[-1]), np.zeros(2), "DOP853", t_eval=times, rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(ours.at(np.log(times)), theirs.y.T, rtol=1e-8)


# Forty points in ten dimensions: most of what is perpendicular lies outside the support vectors' span.


@pytest.mark.parametrize(("loss", "perpendicular"), [("exponential", 2.296), ("logistic", None)])
def test_forty_points_have_a_perpendicular_limit_and_balanced_residuals(loss, perpendicular):
    gamma, u, support = margin_of_forty()
    flow = forty(loss)
    s = flow.log_time[-1]
    off = flow.path.perpendicular(u)[-1]
    if perpendicular is not None:
        assert np.linalg.norm(off) == pytest.approx(perpendicular, abs=5e-4)
        spanned = np.linalg.svd((s40() - np.outer(s40() @ u, u))[support], full_matrices=False)[2][:-1]
        assert np.linalg.norm(off - spanned.T @ (spanned @ off)) == pytest.approx(2.02, abs=5e-3)
    # rho = log(t) / gamma up to a constant.
    assert flow.w[-1] @ u * gamma == pytest.approx(s, abs=10)
    # t c_i (-l') -> alpha with sum alpha_i z_i = u / gamma, on the support vectors alone.
    alpha = np.exp(flow.path.log_residuals[-1])
    np.testing.assert_allclose(alpha @ s40(), u / gamma, atol=1e-8)
    assert alpha[support].sum() == pytest.approx(1 / gamma**2, rel=1e-8)
    others = np.delete(alpha, support)
    assert others.max() < 1e-3 * alpha[support].min()
    # t L = sum alpha, as both losses are e^-m far out.
    assert s + flow.path.log_loss[-1] == pytest.approx(-2 * math.log(gamma), abs=1e-8)


def test_log_t_of_ten_thousand():
    gamma, u, _ = margin_of_forty()
    flow = forty("logistic", 1e4)
    off = np.linalg.norm(flow.path.perpendicular(u)[-1])
    assert flow.path.angle_to(u)[-1] * 1e4 == pytest.approx(gamma * off, rel=1e-2)
    # The limit has been there since t = 1e40, up to what rounding w = 4e3 costs.
    assert off == pytest.approx(np.linalg.norm(forty().path.perpendicular(u)[-1]), abs=1e-7)
    np.testing.assert_allclose(np.exp(flow.path.log_residuals[-1]) @ s40(), u / gamma, atol=1e-8)
    assert flow.cost.n_steps < 2 * forty().cost.n_steps


# A closed form: the symmetric pair.


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_symmetric_pair_follows_its_closed_form(scale):
    """z = (gamma, +-a), exponential: sinh(a w2) = sinh(a w2(0)) exp(-(a^2/gamma) (w1 - w1(0)))."""
    gamma, a = 0.5 * scale, scale
    pair = np.array([(gamma, a), (gamma, -a)])
    flow = separable_flow(pair, loss="exponential", start=[0, 1 / scale], until_log_time=9.2 - 2 * math.log(scale))
    w1, w2 = flow.w.T
    left, right = np.sinh(a * w2), math.sinh(1.0) * np.exp(-(a**2) / gamma * w1)
    np.testing.assert_allclose(left, right, atol=ERROR)
    early = right > 1e-3
    np.testing.assert_allclose(np.log(left[early]), np.log(right[early]), atol=1e3 * ERROR)
    # Its alignment is a power of t and no 1/log t: w2 falls like t^-(a/gamma)^2, here t^-4.
    assert right[-1] < 1e-12


# Laws.


@pytest.mark.parametrize("loss", [*LOSSES, PolynomialTail(1.5)])
def test_radial_and_tangential_flow_are_the_derivatives(loss):
    flow = separable_flow(s40(), loss=loss, until_log_time=30.0)
    h = 1e-2
    for s in (-3.0, 0.5, 4.0, 25.0):
        # Differences of order 6 leave h^6 of the seventh derivative, and 1e-10 / h.
        weights = np.array([-1, 9, -45, 45, -9, 1]) / (60 * h)
        around = flow.path_at(s + h * np.array([-3, -2, -1, 1, 2, 3]))
        here = flow.path_at(s)
        rho = np.exp(around.log_radius)
        np.testing.assert_allclose(here.radial, weights @ rho, rtol=1e-7, atol=1e-8)
        size = here.tangential_speed[0]
        np.testing.assert_allclose(here.tangential[0], weights @ around.direction, atol=1e-6 * size + 1e-8)
        turning = (weights @ around.direction) / (weights @ around.log_radius)
        np.testing.assert_allclose(here.turning[0], turning, atol=1e-6 * here.turning_speed[0] + 1e-8)
        assert abs(here.turning[0] @ here.direction[0]) <= 1e-14 * here.turning_speed[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-150, 1e150, 3.0])
def test_units_change_the_clock_and_nothing_else(loss, scale):
    _, u, _ = margin_of_forty()
    shift = 2 * math.log(scale)
    plain, scaled = forty(loss), separable_flow(s40() * scale, loss=loss, until_log_time=40 * math.log(10) - shift)
    np.testing.assert_allclose(scaled.w[-1] * scale, plain.w[-1], rtol=ERROR)
    angles = [0.3, 0.1, 0.03]
    np.testing.assert_allclose(scaled.hitting(u, angles) + shift, plain.hitting(u, angles), rtol=1e-7)
    s = np.array([0.0, 20.0])
    there, here = scaled.path_at(s - shift), plain.path_at(s)
    # 1e-7: 300 decades of log t, subtracted, cost three digits.
    np.testing.assert_allclose(there.radial * scale, here.radial, rtol=1e-7)
    np.testing.assert_allclose(there.turning, here.turning, atol=1e-7)
    np.testing.assert_allclose(there.log_loss, here.log_loss, rtol=1e-7)
    np.testing.assert_allclose(there.log_gradient - math.log(scale), here.log_gradient, rtol=1e-7)


def test_columns_beyond_the_rows_span_do_not_move():
    rotation = np.linalg.qr(np.random.default_rng(3).standard_normal((7, 7)))[0][:, :2]
    start = np.random.default_rng(4).standard_normal(7)
    inside, outside = rotation.T @ start, start - rotation @ (rotation.T @ start)
    wide = separable_flow(FOUR @ rotation.T, start=start)
    flat = separable_flow(FOUR, start=inside)
    np.testing.assert_allclose(wide.w[-1], rotation @ flat.w[-1] + outside, atol=ERROR)


def test_a_weight_of_two_is_the_row_twice_and_all_weights_are_time():
    c = np.array([2.0, 1, 1, 1])
    weighted = separable_flow(FOUR, weights=c, until_log_time=20)
    twice = separable_flow(FOUR[[0, 0, 1, 2, 3]], weights=np.ones(5), until_log_time=20)
    np.testing.assert_allclose(weighted.w[-1], twice.w[-1], atol=ERROR)
    faster = separable_flow(FOUR, weights=c * 1e200, until_log_time=20 - 200 * math.log(10))
    np.testing.assert_allclose(faster.w[-1], weighted.w[-1], atol=ERROR)


@pytest.mark.parametrize("s", [-5.0, 1.0, 40.0])
def test_a_flow_taken_up_where_it_was_left_goes_on(s):
    again = separable_flow(s40(), start=forty().at(s), start_log_time=s)
    assert again.log_time[0] == pytest.approx(s, rel=1e-14)
    np.testing.assert_allclose(again.w[-1], forty().w[-1], atol=2 * ERROR)


def test_a_flow_taken_up_long_before_it_moves_waits():
    """At a margin of 700, nothing happens from t = e^7 to e^690: the margin is log(e^700 + t) for one row."""
    flow = separable_flow(
        [[0.6, 0.8]], loss="exponential", start=[420.0, 560.0], start_log_time=7.0, until_log_time=705.0
    )
    assert flow.ending is SeparableEnding.TIME_REACHED
    assert flow.log_time[0] == 7.0
    np.testing.assert_allclose(flow.path.margins[:, 0], np.logaddexp(700, flow.log_time), atol=1e-8)
    np.testing.assert_allclose(flow.at([50.0, 698.0]) @ [0.6, 0.8], np.logaddexp(700, [50.0, 698.0]), atol=1e-8)


def test_the_error_is_what_it_says_it_is():
    exact = separable_flow(s40(), tol=1e-13, until_log_time=15)
    for tol in (1e-4, 1e-6, 1e-8, 1e-10):
        rough = separable_flow(s40(), tol=tol, until_log_time=15)
        longest = np.linalg.norm(s40(), axis=1).max()
        off = np.linalg.norm(rough.w[-1] - exact.w[-1]) * longest
        assert 1e-6 * rough.margin_error[-1] < off < rough.margin_error[-1] < 1e5 * tol
        assert (np.diff(rough.margin_error) > 0).all()


def test_a_start_far_on_the_wrong_side_comes_back():
    _, u, _ = margin_of_forty()
    flow = separable_flow(s40(), start=-200 * u, until_log_time=300)
    assert flow.path.log_loss[0] > 5
    assert flow.path.margins[-1].min() > 250
    # The exponential loss is e^400 there, and its time runs by as much faster.
    steep = separable_flow(s40(), start=-200 * u, loss="exponential", until_log_time=300)
    assert steep.path.log_loss[0] > 200
    assert steep.path.margins[-1].min() > 250
    assert (np.diff(steep.path.log_loss) < 0).all()


# Rows as they come: a margin that is 1e-4 of the longest row, columns in any units, many rows, many columns.


@functools.cache
def real(name):
    if name == "wine":
        found = sklearn.datasets.load_wine(return_X_y=True)
        kept = found[1] < 2
        X, y = found[0][kept], np.where(found[1][kept] == 0, 1.0, -1.0)
    else:
        X, labels = sklearn.datasets.load_breast_cancer(return_X_y=True)
        X, y = (X - X.mean(axis=0)) / X.std(axis=0), np.where(labels == 1, 1.0, -1.0)
    return y[:, None] * np.column_stack([X, np.ones(len(X))])


@pytest.mark.parametrize("name", ["wine", "breast cancer"])
def test_real_data_take_some_thousand_steps_and_keep_the_laws(name):
    Z = real(name)
    found = solve(MaxMargin("l2", rows=Z)).certificate
    gamma, u = found.lower, found.point / np.linalg.norm(found.point)
    assert gamma < 1e-4 * np.linalg.norm(Z, axis=1).max()
    flow = separable_flow(Z)
    assert flow.ending is SeparableEnding.TIME_REACHED
    # Held to 1e-10 in a margin that is 1e6, wine took 15000.
    assert flow.cost.n_steps < 6000
    assert flow.angle_error[-1] < 1e-8
    alpha = np.exp(flow.path.log_residuals[-1])
    assert (alpha[found.support].sum() / alpha.sum()) > 1 - 1e-6
    np.testing.assert_allclose(alpha @ Z * gamma, u, atol=1e-7)
    assert math.sqrt(alpha.sum()) * gamma == pytest.approx(1, abs=1e-7)


def test_the_error_is_what_it_says_it_is_on_wine():
    rough, exact = (separable_flow(real("wine"), until_log_time=5.0, tol=tol) for tol in (1e-8, 1e-11))
    longest = np.linalg.norm(real("wine"), axis=1).max()
    for s in (-5.0, 0.0, 5.0):
        off = np.linalg.norm(rough.at(s) - exact.at(s)) * longest
        bound = rough.margin_error[np.searchsorted(rough.log_time, s) - 1] + exact.margin_error[-1]
        # Far below, as stiff motion forgets its errors.
        assert 1e-7 * bound < off < bound


def test_more_columns_than_rows_cost_what_the_rows_do():
    """In the rows' span the flow is that of as many coordinates; its rows there are a triangular factor's."""
    Z = np.random.default_rng(2).standard_normal((30, 900))
    flow = separable_flow(Z)
    assert flow.ending is SeparableEnding.TIME_REACHED
    R = np.linalg.qr(Z.T)[1]
    flat = separable_flow(R.T)
    assert flow.cost.n_evaluations < 1.1 * flat.cost.n_evaluations
    np.testing.assert_allclose(flow.path.margins[-1], flat.path.margins[-1], atol=ERROR)
    # Nothing outside the span moves.
    outside = flow.w[-1] - Z.T @ np.linalg.lstsq(Z.T, flow.w[-1])[0]
    assert np.linalg.norm(outside) < 1e-13 * np.linalg.norm(flow.w[-1])


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_those_of_the_loss(loss):
    """Written out for the two losses; the loss itself and its derivative by JAX are the reference."""
    m = np.concatenate([np.linspace(-40, 40, 801), [-1e5, -800.0, 0.0, 800.0, 1e5]])
    with double_precision():
        slope = np.asarray(LOSSES[loss].log_slope(m))
        bend = np.asarray(jax.vmap(jax.grad(LOSSES[loss].log_slope))(m))
    found = checked_margin_rows(np.ones((1, 1)), None, loss).log_slopes(m)
    np.testing.assert_allclose(found[0], slope, rtol=4e-16)
    # JAX differentiates by e^(m - log(1 + e^m)), which loses the rounding of a number of up to 40.
    np.testing.assert_allclose(found[1], bend, rtol=1e-14)


@pytest.mark.parametrize("size", [0.0, 5.0, 60.0])
def test_a_factorisation_solves_with_the_derivative(size):
    """Late, most rows are left out of it: by less than rounding."""
    rows = checked_margin_rows(s40(), None, "logistic")
    field = LogTimeField(rows, np.zeros(10), log_start=-math.inf, tol=1e-10)
    y, b = np.append(size * margin_of_forty()[1], size), np.linspace(-1, 2, 11)
    h = 1e-5
    J = np.column_stack([(field.field(y + h * e) - field.field(y - h * e)) / (2 * h) for e in np.eye(11)])
    np.testing.assert_allclose(field.jacobian(y), J, atol=1e-8 * max(1, np.abs(J).max()))
    for shift in (0.3, 10.0):
        np.testing.assert_allclose(
            field.factor(y, shift)(b), np.linalg.solve(shift * np.eye(11) - field.jacobian(y), b), rtol=1e-10
        )


# Reading a path.


def test_the_start_is_at_t_zero_and_leaves_along_the_first_gradient():
    flow = four()
    assert flow.log_time[0] == -math.inf
    np.testing.assert_array_equal(flow.w[0], 0)
    mean = FOUR.mean(axis=0)
    np.testing.assert_allclose(flow.direction[0], mean / np.linalg.norm(mean), rtol=1e-15)
    assert flow.log_radius[0] == -math.inf
    assert flow.path.radial[0] == 0
    np.testing.assert_array_equal(flow.path.tangential[0], 0)
    np.testing.assert_allclose(flow.path.turning[0], 0, atol=1e-15)
    # w = t g(0) + O(t^2)
    np.testing.assert_allclose(flow.at(-50.0), math.exp(-50) * mean / 2, rtol=1e-12)
    angle = math.atan2(mean[1], mean[0])
    assert flow.hitting(AXIS, angle * (1 + 1e-9))[0] == -math.inf
    assert math.isnan(flow.hitting(AXIS, 1e-4)[0])


def test_the_first_time_is_found_on_a_path_that_turns_back():
    """Seen from the path's own direction at some time, the angle falls to zero there and rises again."""
    flow = forty()
    s0 = 0.5 * (flow.log_time[60] + flow.log_time[61])
    passed = flow.path_at(s0).direction[0]
    hits = flow.hitting(passed, [0.1, 1e-3, 1e-7])
    assert (np.diff(hits) > 0).all()
    assert s0 - 1e-5 < hits[-1] <= s0
    for hit, angle in zip(hits, (0.1, 1e-3, 1e-7), strict=True):
        assert flow.path_at(hit).angle_to(passed)[0] == pytest.approx(angle, rel=1e-5)
        before = flow.path_at(np.linspace(-5, hit - 1e-6, 50)).angle_to(passed)
        assert (before > angle).all()


def test_an_angle_of_zero_at_the_end_of_a_step_is_no_trouble():
    flow = forty()
    hit = flow.hitting(flow.direction[60], 1e-6)[0]
    assert flow.log_time[59] < hit < flow.log_time[60]
    assert flow.path_at(hit).angle_to(flow.direction[60])[0] == pytest.approx(1e-6, rel=1e-6)


# Rows without a margin.


def test_without_a_margin_the_flow_settles_at_the_minimiser():
    Z = np.random.default_rng(1).standard_normal((40, 5))
    flow = separable_flow(Z)
    assert flow.ending is SeparableEnding.SETTLED
    assert flow.log_time[-1] < 20
    found = scipy.optimize.minimize(
        lambda w: np.mean(np.logaddexp(0, -Z @ w)), np.zeros(5), jac=lambda w: -pull(Z, "logistic", w), tol=1e-14
    )
    np.testing.assert_allclose(flow.w[-1], found.x, atol=1e-6)
    # Forty pulls, which sum up to one before they cancel, each rounded.
    assert np.linalg.norm(pull(Z, "logistic", flow.w[-1])) < 2e-15
    np.testing.assert_array_equal(flow.at(1e6), flow.w[-1])
    assert math.isnan(flow.hitting(np.ones(5), 1e-3)[0])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d", [2, 3, 4])
def test_twelve_rows_settle_where_nothing_separates_them_and_only_there(loss, d):
    """Some of these are separated by a direction: a linear program says which."""
    for seed in range(8):
        Z = np.random.default_rng(seed).standard_normal((12, d))
        separable = scipy.optimize.linprog(np.zeros(d), A_ub=-Z, b_ub=-np.ones(12), bounds=(None, None)).success
        flow = separable_flow(Z, loss=loss)
        if separable:
            assert flow.ending is SeparableEnding.TIME_REACHED
            continue
        assert flow.ending is SeparableEnding.SETTLED
        # 1e-10 in the last steps' margins is what is left, beside pulls of order one.
        slopes = SLOPE[loss](Z @ flow.w[-1])
        assert np.linalg.norm(slopes @ Z) < 1e-9 * (slopes @ np.linalg.norm(Z, axis=1))


@pytest.mark.parametrize("unit", [1e-3, 1e-5])
def test_a_minimiser_far_away_is_waited_for(unit):
    """In other units of one column the minimiser is the same but for that unit; the flow takes 1/unit^2 as long."""
    Z = np.random.default_rng(1).standard_normal((40, 3))
    near = separable_flow(Z)
    far = separable_flow(Z * [1, 1, unit])
    assert far.ending is SeparableEnding.SETTLED
    assert far.log_time[-1] > near.log_time[-1] + 1.5 * math.log(1 / unit)
    assert np.linalg.norm(far.w[-1]) > 0.01 / unit
    # The step's error is 1e-10 of w at most, over some units of log time.
    np.testing.assert_allclose(far.w[-1] * [1, 1, unit], near.w[-1], atol=1e-8)


@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_rows_that_are_separable_in_part_end_where_arithmetic_does(angle):
    """+-e1 pull against each other with forces of order one; at t = 1e10 what 1/t leaves for e2 is six digits."""
    c, s = math.cos(angle), math.sin(angle)
    Z = np.array([(1, 0), (-1, 0), (0.5, 1)]) @ np.array([(c, s), (-s, c)])
    flow = separable_flow(Z, until_log_time=1e3)
    assert flow.ending is SeparableEnding.HORIZON
    assert 20 < flow.log_time[-1] < 27
    # Until there, e2's part is log t and e1's comes to rest.
    w = flow.w[-1] @ np.array([(c, -s), (s, c)])
    assert abs(w[0]) < 1e-8
    assert abs(w[1] - flow.log_time[-1]) < 2


@pytest.mark.parametrize("a", [0.5, 1.5])
def test_rows_on_a_straight_line_pull_as_they_are(a):
    """A power's tail begins where the margin is positive: -1 against two of 1 rests where 2 (1 + w)^-(a + 1) = 1."""
    flow = separable_flow([[-1.0], [1.0], [1.0]], loss=PolynomialTail(a))
    assert flow.ending is SeparableEnding.SETTLED
    assert flow.w[-1, 0] == pytest.approx(2 ** (1 / (a + 1)) - 1, abs=ERROR)
    for seed in range(3):
        Z = np.random.default_rng(seed).standard_normal((12, 2))
        assert not scipy.optimize.linprog(np.zeros(2), A_ub=-Z, b_ub=-np.ones(12), bounds=(None, None)).success
        flow = separable_flow(Z, loss=PolynomialTail(a))
        assert flow.ending is SeparableEnding.SETTLED
        slopes = (1 + np.maximum(Z @ flow.w[-1], 0)) ** -(a + 1)
        assert np.linalg.norm(slopes @ Z) < 1e-9 * (slopes @ np.linalg.norm(Z, axis=1))


@pytest.mark.parametrize("size", [10.0, 1e2, 1e4])
def test_a_row_far_on_the_wrong_side_is_no_trouble_for_a_minimiser(size):
    """The logistic loss is as good as straight there: its curvature is e^-size of its pull or less."""
    Z = np.vstack([np.random.default_rng(0).standard_normal((20, 2)) + AXIS, [[-size, 0.0]], [[-1.0, -size]]])
    flow = separable_flow(Z)
    assert flow.ending is SeparableEnding.SETTLED
    slopes = SLOPE["logistic"](Z @ flow.w[-1])
    assert np.linalg.norm(slopes @ Z) < 1e-9 * (slopes @ np.linalg.norm(Z, axis=1))


def test_with_a_power_rows_that_are_separable_in_part_do_not_settle():
    flow = separable_flow([(1, 0), (-1, 0), (0.5, 1)], loss=PolynomialTail(1.5), until_log_time=1e3)
    assert flow.ending is SeparableEnding.HORIZON
    assert flow.log_time[-1] > 20


def test_a_margin_within_rounding_of_the_rows_is_beyond_arithmetic():
    """The two pull against each other but for 1e-10 of their lengths; at 1e-6 the flow goes on."""
    assert separable_flow([[1, 1e-10], [-1, 1e-10]]).ending is SeparableEnding.HORIZON
    assert separable_flow([[1, 1e-6], [-1, 1e-6]]).ending is SeparableEnding.TIME_REACHED


# Where double precision ends.


@pytest.mark.parametrize("until", [1e20, 1e300])
def test_a_clock_beyond_double_precision_ends_the_run(until):
    flow = separable_flow(FOUR, until_log_time=until)
    assert flow.ending is SeparableEnding.HORIZON
    # 2^-16 / eps is 6.9e10, and steps are at most eight times as long as those before.
    assert 5e9 < flow.log_time[-1] < 6.9e10
    assert flow.cost.n_evaluations < 5000
    # There, margins of 6e10 are rounded to 1e-5.
    assert flow.w[-1, 1] == pytest.approx(math.log(2) / 1.5, abs=1e-4)
    before = separable_flow(FOUR, until_log_time=1e9)
    assert before.ending is SeparableEnding.TIME_REACHED
    assert before.w[-1, 0] - 1e9 == pytest.approx(-0.749780, abs=1e-4)


def test_weights_that_overflow_end_the_run_and_large_ones_have_a_direction():
    Z, a = np.array([[1, 0.3], [0.5, 1.0]]), 1.5
    # Far out already, as it would take 6000 steps to there; a factor of 1e16 forgets where it came from.
    flow = separable_flow(Z, loss=PolynomialTail(a), start=[1e285, 1e285], until_log_time=1e5)
    assert flow.ending is SeparableEnding.HORIZON
    assert np.isfinite(flow.w).all()
    # w = t^(1/(a+2)) v, and 2^1000 is the largest.
    assert flow.log_time[-1] / (a + 2) == pytest.approx(1000 * math.log(2), abs=3)
    v = flow.direction[-1]
    balance = (Z @ v) ** -(a + 1) @ Z
    np.testing.assert_allclose(balance / np.linalg.norm(balance), v, atol=1e-8)
    assert np.linalg.norm(v) == pytest.approx(1, rel=1e-15)
    assert flow.log_radius[-1] == pytest.approx(math.log(flow.w[-1].max() / v.max()), rel=1e-14)
    assert flow.path.angle_to(AXIS)[-1] == pytest.approx(math.atan2(v[1], v[0]), rel=1e-14)
    assert 0 < flow.angle_error[-1] < 1e-6
    # Each step's error is 1e-10 of w at most, or less.
    assert flow.path.tangential_speed[-1] < 1e-8
    assert flow.path.turning_speed[-1] < 1e-7


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_a_start_whose_square_is_beyond_double_precision_has_a_direction(size):
    flow = separable_flow(FOUR, start=[size, size], until_log_time=20.0)
    run = separable_descent(FOUR, start=[size, size], step_size=1.0, n_steps=10)
    for found in (flow, run):
        np.testing.assert_allclose(found.direction[0], math.sqrt(0.5), rtol=1e-15)
        assert found.log_radius[0] == pytest.approx(math.log(size) + 0.5 * math.log(2), rel=1e-15)
        assert found.path.angle_to(AXIS)[0] == pytest.approx(math.pi / 4, rel=1e-15)
    assert flow.hitting([1, 1], 1e-9)[0] == -math.inf  # pyright: ignore[reportArgumentType]
    assert run.hitting([1, 1], 1e-9)[0] == 0  # pyright: ignore[reportArgumentType]
    if size > 1:
        # Nothing moves, and that is said of all the time asked for.
        assert flow.ending is SeparableEnding.TIME_REACHED
        assert list(flow.log_time) == [-math.inf, 20.0]
        np.testing.assert_array_equal(flow.at([-3.0, 19.0]), np.full((2, 2), size))
        assert math.isnan(flow.hitting(AXIS, 0.1)[0])
        assert run.ending is DescentEnding.STALLED


def test_descent_looks_at_the_angle_of_weights_whose_square_overflows():
    run = separable_descent(FOUR, start=[0.0, -1e200], loss=PolynomialTail(1.0), step_size=1e199, n_steps=3)
    assert list(run.step) == [0, 1, 2, 3]
    u = run.direction[2]
    assert run.hitting(u, 1e-9)[0] == 2


@pytest.mark.parametrize(("size", "error"), [(1e5, 1e-5), (1e8, 1e-3)])
def test_a_start_very_far_on_the_wrong_side_comes_back(size, error):
    """Two tolerances take other steps; what rounding margins of `size` moves, both allow for."""
    flows = [
        separable_flow(FOUR, start=[-size, -size], loss="exponential", until_log_time=20.0, tol=tol)
        for tol in (1e-10, 1e-7)
    ]
    for flow in flows:
        assert flow.ending is SeparableEnding.TIME_REACHED
        assert flow.cost.n_steps < 3000
    np.testing.assert_allclose(flows[0].w[-1], flows[1].w[-1], atol=error)
    # t L -> 1 / gamma^2.
    assert flows[0].path.log_loss[-1] + 20.0 == pytest.approx(0, abs=0.1)


def test_a_start_whose_loss_no_double_tells_ends_at_once():
    for size in (1e12, 1e200):
        flow = separable_flow(FOUR, start=[-size, -size], loss="exponential", until_log_time=20.0)
        assert flow.ending is SeparableEnding.HORIZON
        assert flow.cost.n_steps <= 1
        run = separable_descent(FOUR, start=[-size, -size], loss="exponential", step_size=1.0, n_steps=5)
        assert run.ending is DescentEnding.DIVERGED
        assert run.diverged_at == 0
        assert run.sharpness == math.inf


# A tail that is a power.


@pytest.mark.parametrize("a", [0.5, 2.0])
def test_a_polynomial_tail_goes_along_another_direction(a):
    """w = t^(1/(a+2)) v with v/(a+2) = sum c_i (z_i'v)^-(a+1) z_i, from the flow itself with l = m^-a/a."""
    _, u, _ = margin_of_forty()
    flow = separable_flow(s40(), loss=PolynomialTail(a), until_log_time=100.0)
    assert flow.ending is SeparableEnding.TIME_REACHED
    v = flow.w[-1] * math.exp(-100 / (a + 2))
    balance = (s40() @ v) ** -(a + 1) @ s40() / 40
    # Margins differ from m by one, out of e^(100/(a+2)) > 1e10.
    np.testing.assert_allclose(balance, v / (a + 2), rtol=1e-6)
    assert flow.path.angle_to(u)[-1] > 0.1


# Descent.


def plain_descent(Z, loss, eta, n_steps, w):
    path = [w]
    for _ in range(n_steps):
        w = w + eta * pull(Z, loss, w)
        path.append(w)
    return np.array(path)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("share", [0.1, 1.0, 1.9])
def test_a_thousand_steps_are_those_of_a_plain_loop(loss, share):
    Z, u = s40(), margin_of_forty()[1]
    eta = share / smoothness(Z, loss=loss)
    run = separable_descent(Z, step_size=eta, n_steps=1000, loss=loss)
    path = plain_descent(Z, loss, eta, 1000, np.zeros(10))
    assert run.ending is DescentEnding.STEPS_MADE
    assert run.n_steps == 1000
    # A thousand sums, each rounded; ours are kept to twice the digits.
    np.testing.assert_allclose(run.w, path[run.step], atol=1e-12)
    angle = np.arccos(path[1:] @ u / np.linalg.norm(path[1:], axis=1))
    wanted = [0.5, 0.3, 0.25, 0.2]
    expected = [1 + int(np.argmax(angle <= a)) if (angle <= a).any() else math.nan for a in wanted]
    np.testing.assert_array_equal(run.hitting(u, wanted), expected)
    np.testing.assert_allclose(run.log_time[1:], np.log(eta * run.step[1:]), rtol=1e-14, atol=1e-15)


def test_smoothness_is_the_largest_eigenvalue():
    Z, c = s40(), np.linspace(0.1, 2, 40)
    eigenvalue = np.linalg.eigvalsh(Z.T @ (c[:, None] * Z))[-1]
    assert smoothness(Z, weights=c) == pytest.approx(eigenvalue / 4, rel=1e-13)
    assert smoothness(Z, weights=c, loss=PolynomialTail(2.0)) == pytest.approx(3 * eigenvalue, rel=1e-13)
    w = np.linspace(-1, 1, 10)
    bent = np.linalg.eigvalsh(Z.T @ ((np.exp(-Z @ w) / 40)[:, None] * Z))[-1]
    assert smoothness(Z, loss="exponential", start=w) == pytest.approx(bent, rel=1e-12)
    assert smoothness(Z * 1e150) == pytest.approx(smoothness(Z) * 1e300, rel=1e-13)
    assert smoothness(Z * 1e-150) == pytest.approx(smoothness(Z) * 1e-300, rel=1e-13)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_descent_in_other_units_is_the_same(scale):
    runs = [separable_descent(Z, step_size=1 / smoothness(Z), n_steps=500) for Z in (s40(), s40() * scale)]
    # The smoothness differs in its last place.
    np.testing.assert_allclose(runs[1].w[-1] * scale, runs[0].w[-1], rtol=1e-12)
    assert runs[1].sharpness == pytest.approx(1, rel=1e-14)


def test_steps_beyond_twice_the_smoothness_overshoot():
    Z = np.random.default_rng(1).standard_normal((40, 5))
    calm, wild = (separable_descent(Z, step_size=k / smoothness(Z), n_steps=3000) for k in (1.9, 6.0))
    assert calm.ending is DescentEnding.SETTLED
    assert calm.n_overshoots == 0
    np.testing.assert_allclose(calm.w[-1], separable_flow(Z).w[-1], atol=1e-13)
    assert wild.ending is DescentEnding.STEPS_MADE
    assert wild.is_oscillating
    assert wild.n_overshoots > 2900
    path = plain_descent(Z, "logistic", 6 / smoothness(Z), 50, np.zeros(5))
    losses = np.mean(np.logaddexp(0, -path @ Z.T), axis=1)
    assert (np.diff(losses) > 0).any()


def test_large_steps_on_a_margin_overshoot_at_first_only():
    run = separable_descent(s40(), step_size=50 / smoothness(s40()), n_steps=1000)
    assert 0 < run.n_overshoots < 10
    assert run.last_overshoot < 10
    assert not run.is_oscillating
    assert run.sharpness == pytest.approx(50)


@pytest.mark.parametrize("share", [100, 1000])
def test_descent_that_diverges_says_at_which_step(share):
    Z = s40()
    eta = share / smoothness(Z, loss="exponential")
    run = separable_descent(Z, loss="exponential", step_size=eta, n_steps=1000)
    with np.errstate(over="ignore", invalid="ignore"):
        path = plain_descent(Z, "exponential", eta, 10, np.zeros(10))
        pulls = np.array([pull(Z, "exponential", w) for w in path])
    broken = ~(np.isfinite(path).all(axis=1) & np.isfinite(pulls).all(axis=1))
    assert run.ending is DescentEnding.DIVERGED
    assert run.diverged_at == int(np.argmax(broken))
    assert run.diverged_at is not None
    assert run.n_steps == run.diverged_at - 1
    assert np.isfinite(run.w).all()
    with pytest.raises(ValueError, match=rf"^descent diverged at step {run.diverged_at}: no flow goes on from there"):
        run.extended()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_flow_foretells_steps_that_can_still_be_made(loss):
    """Handed over after 300 and 3000 steps, the flow says how many are needed for 0.13 rad, and they are made."""
    Z, u = s40(), margin_of_forty()[1]
    eta = 1 / smoothness(Z, loss=loss)
    made = separable_descent(Z, loss=loss, step_size=eta, n_steps=50_000).hitting(u, 0.13)[0]
    errors = []
    for n_steps in (300, 3000):
        extended = separable_descent(Z, loss=loss, step_size=eta, n_steps=n_steps).extended(20.0)
        found = extended.hitting(u, 0.13)
        off = abs(found.log_steps[0] - math.log(made))
        assert 0 < off <= found.error[0] < 1e-2
        errors.append(extended.handover_error)
    # An error of order 1/k: ten times as many steps, several times less.
    assert 0 < errors[1] < errors[0] / 3


def test_the_extension_counts_what_was_made_and_reaches_what_was_not():
    Z, (gamma, u, _) = s40(), margin_of_forty()
    run = separable_descent(Z, step_size=1 / smoothness(Z), n_steps=10_000)
    extended = run.extended(1e4)
    found = extended.hitting(u, [0.3, 0.01, 0.001, 1e-6])
    np.testing.assert_array_equal(np.exp(found.log_steps[:1]).round(), run.hitting(u, 0.3))
    assert found.error[0] == 0
    # log T = C / angle + o(1 / angle), measured and not assumed: the ratio of the two is 10 up to a tenth.
    assert found.log_steps[2] / found.log_steps[1] == pytest.approx(10, rel=0.1)
    limit = gamma * np.linalg.norm(extended.flow.path.perpendicular(u)[-1])
    assert found.log_steps[2] == pytest.approx(limit / 0.001, rel=0.02)
    assert (found.error[1:3] < 1e-3 * found.log_steps[1:3]).all()
    assert math.isnan(found.log_steps[3])
    assert math.isnan(found.error[3])
    assert extended.handover_error < 0.01
    # The flow's clock is eta k.
    assert extended.flow.log_time[0] == pytest.approx(run.log_time[-1], rel=1e-15)


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Z": [1.0, 2.0]}, "`Z` must have shape (n, d) and at least one entry; got (2,)."),
        ({"Z": np.zeros((0, 2))}, "`Z` must have shape (n, d) and at least one entry; got (0, 2)."),
        ({"Z": [[0.0, 0.0]]}, "`Z` is zero: no margin depends on the weights, and nothing moves."),
        ({"Z": [[1.0, math.nan]]}, "`Z[0, 1]` is nan; every entry must be finite."),
        (
            {"weights": [1, 1, 0, 1]},
            "`weights` must be positive; `weights[2]` is 0: drop the rows that shall not count.",
        ),
        ({"weights": [1, 1]}, "`Z` has shape (4, 2) and `weights` has shape (2,): 4 rows against 2."),
        ({"start": [1.0]}, "`start` must have shape (2,); got (1,)."),
        (
            {"start": [1e300, 0], "Z": FOUR * 1e100},
            "`start` is so large for these rows that its margins overflow; start nearer to zero.",
        ),
        ({"loss": "hinge"}, "`loss` must be one of exponential, logistic; got 'hinge'."),
        ({"until_log_time": math.inf}, "`until_log_time` must be finite; got inf."),
        ({"start_log_time": math.nan}, "`start_log_time` must be finite; got nan."),
        ({"until_log_time": [1.0]}, "`until_log_time` must be one number; got shape (1,)."),
        (
            {"until_log_time": 1.0, "start_log_time": 2.0},
            "`until_log_time` must be after `start_log_time`; got 1 and 2.",
        ),
        (
            {"Z": np.array([[2**53 + 1, 1]])},
            "`Z` has integers beyond 2**53 that no double holds; rescale it or round it yourself.",
        ),
        ({"tol": 1e-16}, "`tol` must lie between 1e-14 and 1e-3; got 1e-16."),
        ({"max_steps": 0}, "`max_steps` must be at least 1; got 0."),
    ],
)
def test_bad_input_to_the_flow(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        separable_flow(**({"Z": FOUR} | arguments))
    assert str(caught.value) == message


def test_a_loss_must_be_a_name_or_a_loss():
    with pytest.raises(TypeError, match=r"^`loss` must be a name \(exponential, logistic\) or a loss; got 3\.$"):
        separable_flow(FOUR, loss=3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", ["20", None, True])
def test_what_is_no_number_is_refused_in_words(value):
    extended = separable_descent(FOUR, step_size=1.0, n_steps=5).extended
    asked = [(functools.partial(separable_flow, FOUR), n) for n in ("until_log_time", "start_log_time", "tol")]
    for ask, name in [*asked, (extended, "until_log_time"), (extended, "tol")]:
        with pytest.raises(TypeError) as caught:
            ask(**{name: value})
        assert str(caught.value) == f"`{name}` must be a number; got {value!r}."


@pytest.mark.parametrize("convert", [np.float32, jnp.asarray, np.array])
def test_numbers_of_any_kind_are_computed_with_in_double(convert):
    """0.5 and 20 are exact in single precision: nothing else may be different."""
    plain, other = four(until=20.0), separable_flow(FOUR, until_log_time=convert(20.0))
    np.testing.assert_array_equal(other.w, plain.w)
    np.testing.assert_array_equal(other.log_time, plain.log_time)
    late = [separable_flow(FOUR, start_log_time=k, until_log_time=30.0).w[-1] for k in (20.0, convert(20.0))]
    np.testing.assert_array_equal(late[1], late[0])
    rough = [separable_flow(FOUR, tol=k, until_log_time=5.0).w[-1] for k in (2.0**-30, convert(2.0**-30))]
    np.testing.assert_array_equal(rough[1], rough[0])
    runs = [separable_descent(FOUR, step_size=k, n_steps=30) for k in (0.5, convert(0.5))]
    np.testing.assert_array_equal(runs[1].w, runs[0].w)
    assert isinstance(runs[1].step_size, float)
    assert PolynomialTail(convert(0.5)) == PolynomialTail(0.5)


def test_whole_numbers_are_numbers():
    one: Any = np.int64(1)
    assert separable_descent(FOUR, step_size=one, n_steps=3).step_size == 1.0
    assert PolynomialTail(one) == PolynomialTail(1.0)
    assert separable_flow(FOUR, until_log_time=one).log_time[-1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"step_size": 0.0}, ValueError, "`step_size` must be positive; got 0."),
        ({"step_size": math.nan}, ValueError, "`step_size` must be finite; got nan."),
        ({"step_size": True}, TypeError, "`step_size` must be a number; got True."),
        ({"step_size": "1"}, TypeError, "`step_size` must be a number; got '1'."),
        ({"n_steps": 0}, ValueError, "`n_steps` must be at least 1; got 0."),
    ],
)
def test_bad_input_to_descent(arguments, kind, message):
    with pytest.raises(kind) as caught:
        separable_descent(**({"Z": FOUR, "step_size": 1.0, "n_steps": 1} | arguments))
    assert str(caught.value) == message


def test_bad_questions_to_a_run():
    flow = four()
    run = separable_descent(FOUR, step_size=1.0, n_steps=20)
    for asked in (flow, run, run.extended()):
        with pytest.raises(ValueError, match=r"^`angles` must be positive; got 0\.$"):
            asked.hitting(AXIS, [0.1, 0.0])
        with pytest.raises(ValueError, match=r"^`direction` must have shape \(2,\), one entry a column of `Z`;"):
            asked.hitting([1.0, 0, 0], [0.1])  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match=r"^`direction` must be finite and not zero; its largest entry is 0\.$"):
            asked.hitting(np.zeros(2), [0.1])
    with pytest.raises(ValueError, match=r"^`log_time` must lie within the run, from -inf to 92\.1034; got 93\.$"):
        flow.at([1.0, 93.0])
    with pytest.raises(TypeError, match=r"^`log_time` must hold real numbers; it holds text"):
        flow.at("3")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"^`log_time` must be a number or a list of numbers; got shape \(1, 2\)\.$"):
        flow.at([[1.0, 2.0]])  # pyright: ignore[reportArgumentType]
    for tol in (-1, 0, 0.1):
        with pytest.raises(ValueError, match=rf"^`tol` must lie between 1e-14 and 1e-3; got {tol:g}\.$"):
            run.extended(tol=tol)
    with pytest.raises(
        ValueError, match=r"^`until_log_time` must be after the last step, at log t = 2\.99573; got 2\.$"
    ):
        run.extended(2.0)


def test_few_steps_are_steps_spent():
    flow = separable_flow(FOUR, max_steps=5)
    assert flow.ending is SeparableEnding.STEPS_SPENT
    assert len(flow.path) == 6


def test_no_times_and_no_angles_have_no_answers():
    flow = four()
    assert flow.at([]).shape == (0, 2)
    assert flow.path_at([]).angle_to(AXIS).shape == (0,)
    run = separable_descent(FOUR, step_size=1.0, n_steps=20)
    assert flow.hitting(AXIS, []).shape == run.hitting(AXIS, []).shape == (0,)
    assert run.extended().hitting(AXIS, []).log_steps.shape == (0,)
