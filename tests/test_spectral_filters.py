"""Spectral filters against 400-bit arithmetic, their own laws, and the crossings of 1."""

import doctest
import math
import re
import tracemalloc

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from omegalimit.limits import spectral_filters
from omegalimit.limits.spectral_filters import (
    crossing,
    descent_crossings,
    descent_filter,
    flow_blocks,
    flow_filter,
    log_flow_filter,
    negative_ridge_filter,
    rescaling_filter,
    ridge_filter,
    ridgeless_filter,
    smallest_positive,
    step_condition,
)

EPS = float(np.finfo(float).eps)
M = (1.0, 2.0, 1.3, math.nextafter(1.3, 2), 1.3 - 1e-9, 1e-5, 1e-300, 40.0)


@pytest.fixture(autouse=True)
def _wide():
    before = ctx.prec
    ctx.prec = 4000  # 1 - e^-x keeps all digits even for x of 1e-600
    yield
    ctx.prec = before


def exact_flow(m, nu, t):
    """The filter in ball arithmetic, from its own formula."""
    m, nu, t = arb(m), arb(nu), arb(t)
    delta = m - nu
    return m * t if delta == 0 else m / delta * (1 - (-t * delta).exp())


def exact_descent(m, nu, k, eta):
    m, nu, eta = arb(m), arb(nu), arb(eta)
    delta = m - nu
    return m * eta * k if delta == 0 else m / delta * (1 - (1 - eta * delta) ** k)


def relative(found, exact):
    return abs(float((arb(float(found)) - exact) / exact))


# Values.


@pytest.mark.parametrize("t", [1e-300, 1e-8, 0.3, 1.0, 10.0, 300.0, 545.0, 1e10])
@pytest.mark.parametrize("nu", [0.0, 1.3, 1e-4])
def test_the_flow_filter_keeps_its_digits(nu, t):
    f, logs = flow_filter(M, nu, t), log_flow_filter(M, nu, t)
    for m, value, log in zip(M, f, logs, strict=True):
        exact = exact_flow(m, nu, t)
        if float(exact.log()) > 709.7:  # beyond a double: reported as infinite, and exact in its log
            assert value == math.inf
        elif float(exact.log()) > -700:
            # e^x turns the rounding of its argument x = t (nu - m), eps x, into a relative error.
            assert relative(value, exact) <= 8 * EPS * max(1.0, t * max(nu - m, 0.0))
        # Logs of all factors are added; the largest of them sets the rounding.
        size = 1 + t * max(nu - m, 0.0) + abs(math.log(m)) + abs(math.log(abs(m - nu) or 1.0)) + abs(math.log(t))
        assert abs(float(arb(float(log)) - exact.log())) <= 4 * EPS * size


@pytest.mark.parametrize("k", [0, 1, 2, 5, 10, 11, 1000])
@pytest.mark.parametrize("m", [*M[:6], 5.7444, 8.9, 9.0, 1.3 + 1 / 0.225])
def test_the_descent_filter_keeps_its_digits(m, k):
    nu, eta = 1.3, 0.225
    found = descent_filter([m], nu, k, eta=eta)[0]
    exact = exact_descent(m, nu, k, eta)
    if k == 0:
        assert found == 0.0
        return
    # k steps of the factor 1 - eta (m - nu), each off by eps; where its power is near 1, 1 - power loses that share.
    power = abs(1 - eta * (m - nu)) ** k
    assert relative(found, exact) <= 20 * EPS * (1 + k * power / max(abs(float(exact)), 1e-300))


def test_an_infinite_time_is_the_endpoint_or_infinite():
    m = np.array([0.0, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(flow_filter(m, 0.25, math.inf)[1:], negative_ridge_filter(m, 0.25)[1:], rtol=4 * EPS)
    np.testing.assert_array_equal(flow_filter(m, 1.0, math.inf), [0.0, math.inf, math.inf, 2.0])
    np.testing.assert_array_equal(log_flow_filter(m, 1.0, math.inf), [-math.inf, math.inf, math.inf, math.log(2.0)])
    np.testing.assert_array_equal(flow_filter(m, 0.0, math.inf), ridgeless_filter(m))


def test_zero_eigenvalues_get_nothing_even_where_all_else_overflows():
    assert flow_filter([0.0], 3.0, 1e6)[0] == 0.0
    assert descent_filter([0.0], 3.0, 10**6, eta=1.0)[0] == 0.0
    assert ridge_filter([0.0], 0.0)[0] == 0.0
    assert rescaling_filter([0.0], 2.0)[0] == 0.0
    assert log_flow_filter([0.0], 3.0, 1.0)[0] == -math.inf


def test_diverging_steps_show_it():
    assert descent_filter([50.0], 0.0, 10_000, eta=1.0)[0] == -math.inf
    assert descent_filter([50.0], 0.0, 10_001, eta=1.0)[0] == math.inf


def test_ridge_negative_ridge_and_rescaling():
    m = np.array([0.5, 1.0, 4.0])
    np.testing.assert_allclose(ridge_filter(m, [0.0, 2.0]), np.array([[1.0, 1.0, 1.0], m / (m + 2)]), rtol=2 * EPS)
    np.testing.assert_allclose(negative_ridge_filter(m, 0.4), m / (m - 0.4), rtol=4 * EPS)
    np.testing.assert_array_equal(rescaling_filter(m, [0.5, 3.0]), [[0.5] * 3, [3.0] * 3])
    np.testing.assert_array_equal(ridge_filter(m, math.inf), 0.0)


# Laws.


positive = st.floats(1e-3, 1e3)


@given(m=positive, nu=positive, t=st.floats(1e-3, 50.0), c=st.sampled_from([1e-150, 1e-100, 1e150]))
def test_units_change_nothing(m, nu, t, c):
    t = min(t, 600 / nu)
    found = flow_filter([m * c], nu * c, t / c)[0]
    # c is no power of two: m and nu are rounded, and t (m - nu) with them.
    assert found == pytest.approx(
        flow_filter([m], nu, t)[0], rel=1e-13 * (1 + t * max(m, nu)) * (1 + m / max(abs(m - nu), EPS * m))
    )


@given(m=positive, nu=positive, t=st.floats(1e-3, 50.0), eta=st.floats(1e-6, 1e-5))
def test_small_steps_approach_the_flow(m, nu, t, eta):
    """(1 - eta d)^k = exp(-eta k d (1 + eta d / 2 + ...)): the powers differ by the share eta d^2 t / 2."""
    t = min(t, 30 / nu, 30 / m)
    k = max(1, round(t / eta))
    flow, descent = flow_filter([m], nu, eta * k)[0], descent_filter([m], nu, k, eta=eta)[0]
    d = abs(m - nu)
    assert descent == pytest.approx(flow, rel=2 * eta * d * (1 + d * eta * k) + 1e-9)


@given(nu=positive, t=st.floats(1e-3, 50.0))
def test_the_filter_rises_with_time_and_is_an_integral(nu, t):
    t = min(t, 100 / nu)
    m = np.geomspace(1e-3, 1e3, 13)
    f = flow_filter(m, nu, np.linspace(0, t, 9))
    assert np.all(np.diff(f, axis=0) >= 0)
    # One step of a quadrature rule with an error of order h^4: f = m int e^{-(m - nu) s} ds.
    nodes = np.linspace(0, min(t, 1 / np.abs(m - nu).max()), 201)
    h = nodes[1]
    g = m * np.exp(-np.outer(nodes, m - nu))
    simpson = h / 3 * (g[0] + g[-1] + 4 * g[1:-1:2].sum(axis=0) + 2 * g[2:-1:2].sum(axis=0))
    np.testing.assert_allclose(flow_filter(m, nu, nodes[-1]), simpson, rtol=1e-9)


# Grids.


def test_a_grid_is_its_pairs_in_any_blocks(monkeypatch):
    m, nu, t = np.linspace(0, 4, 17), np.linspace(0, 3, 5), np.geomspace(0.1, 10, 7)
    grid = flow_filter(m, nu[:, None], t[None, :])
    assert grid.shape == (5, 7, 17)
    for i, j in ((0, 0), (2, 3), (4, 6)):
        np.testing.assert_array_equal(grid[i, j], flow_filter(m, nu[i], t[j]))
    monkeypatch.setattr(spectral_filters, "_BLOCK", 40)
    np.testing.assert_array_equal(flow_filter(m, nu[:, None], t[None, :]), grid)
    np.testing.assert_array_equal(descent_filter(m, nu, [3] * 5, eta=0.1)[2], descent_filter(m, nu[2], 3, eta=0.1))
    seen = np.empty((35, 17))
    for rows, f in flow_blocks(m, nu[:, None], t[None, :]):
        assert len(f) <= 2
        seen[rows] = f
    np.testing.assert_array_equal(seen.reshape(grid.shape), grid)


def test_ten_thousand_pairs_at_two_thousand_eigenvalues_in_bounded_memory():
    m = np.linspace(0.0, 5.0, 2000)
    nu, t = np.linspace(0, 3, 100)[:, None], np.geomspace(0.01, 10, 100)[None, :]
    tracemalloc.start()
    total = 0
    for _, f in flow_blocks(m, nu, t):
        total += len(f)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 10_000
    assert peak < 40e6  # the whole grid is 160 MB; a block of 2 MB and a dozen temporaries of it stay far below


# Crossings.


def test_the_crossing_on_the_theory_page():
    assert crossing(1.3, 0.95) == pytest.approx(0.8388299160900364, rel=4 * EPS)
    first, second = descent_crossings(1.3, 10, eta=0.225)
    assert (round(first, 2), round(second, 2)) == (0.12, 9.39)


@pytest.mark.parametrize(
    "z", [1e-10, 0.1, 0.3, 0.499, 0.501, 0.9, 0.999, 1 - 1e-7, 1 + 1e-12, 1.1, 1.499, 1.501, 3.0, 30.0, 300.0]
)
def test_the_crossing_is_lamberts_to_the_last_digits(z):
    exact = -(-arb(z) * (-arb(z)).exp()).lambertw(-1 if z < 1 else 0)
    # Far out the crossing falls like e^-z: the rounding of z itself counts z times.
    assert relative(crossing(z, 1.0), exact) <= 4 * EPS * max(1.0, z)
    assert relative(crossing(z * 1e-150, 1e150), exact * arb(1e-150)) <= 8 * EPS * max(1.0, z)


def test_where_there_is_no_crossing():
    np.testing.assert_array_equal(crossing([0.0, 1.0, 0.0, 2.0, 1.0], [1.0, 0.0, math.inf, math.inf, 1.0]), [
        math.inf, math.inf, math.inf, 0.0, 1.0
    ])  # fmt: skip


@given(nu=positive, z=st.floats(1e-3, 50.0))
def test_the_flow_is_above_ridgeless_exactly_beyond_its_crossing(nu, z):
    t = z / nu
    m_c = float(crossing(nu, t))
    below, above = flow_filter([m_c * (1 - 1e-6), m_c * (1 + 1e-6)], nu, t)
    assert below < 1 < above
    grid = m_c * np.geomspace(1e-6, 1e6, 400)  # an even number: m_c itself is none of them
    np.testing.assert_array_equal(flow_filter(grid, nu, t) > 1, grid > m_c)


@given(nu=st.floats(0.01, 100.0), k=st.integers(2, 60), e=st.floats(1e-3, 5.0))
def test_descent_crosses_where_it_says_and_nowhere_else(nu, k, e):
    eta = e / nu
    found = descent_crossings(nu, k, eta=eta)
    assert len(found) == (2 if k % 2 == 0 else 1)
    assert found[0] < nu + 1 / eta
    grid = np.unique(
        np.concatenate([np.geomspace(found[0] * 1e-3, nu + 1.999 / eta, 400), np.linspace(nu, nu + 1.999 / eta, 400)])
    )
    expected = grid > found[0]
    if len(found) == 2:
        assert nu + 1 / eta <= found[1] <= nu + 2 / eta
        expected &= grid < found[1]
    f = descent_filter(grid, nu, k, eta=eta)
    decided = np.abs(f - 1) > 1e-9  # within that of a crossing the grid point itself may be on either side
    np.testing.assert_array_equal((f > 1)[decided], expected[decided])


def test_one_step_crosses_at_the_inverse_of_its_size():
    assert descent_crossings(1.3, 1, eta=0.225) == (pytest.approx(1 / 0.225, rel=4 * EPS),)
    assert descent_crossings(0.0, 10, eta=0.1) == ()
    assert descent_crossings(1.0, 0, eta=0.1) == ()


def test_the_step_condition():
    assert step_condition([0.1, 5.0], 1.0, eta=0.25)
    assert not step_condition([0.1, 5.0], 1.0, eta=0.26)


# Admissible shifts.


def test_the_smallest_eigenvalue_that_is_not_rounding():
    assert smallest_positive([0.0, 1e-18, 0.3, 2.0]) == 0.3
    assert smallest_positive([0.0, 1e-168, 0.3e-150, 2e-150]) == 0.3e-150
    assert smallest_positive([0.0, 0.0]) == math.inf
    assert smallest_positive([]) == math.inf


def test_a_shift_beyond_the_admissible_range_is_refused():
    message = (
        "`nu` = 0.5 is not below the smallest nonzero eigenvalue 0.5: the flow with this shift has no stable endpoint. "
        "Take 0 <= nu < 0.5, or stop the flow: `flow_filter(m, nu, t)`."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        negative_ridge_filter([0.0, 0.5, 1.0], [0.1, 0.5])


# Bad input.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flow_filter([1.0, -0.1], 0.0, 1.0), "`m[1]` is -0.1; eigenvalues of X'X/n are not negative: clip "
         "those that are so by rounding, or take them from singular values."),
        (lambda: flow_filter([[1.0]], 0.0, 1.0), "`m` must have shape (n,); got (1, 1)."),
        (lambda: flow_filter([1.0, math.nan], 0.0, 1.0), "`m[1]` is nan; every entry must be finite."),
        (lambda: flow_filter([1.0], -2.0, 1.0), "`nu` must not be negative; got -2."),
        (lambda: flow_filter([1.0], 1.0, math.nan), "`t` must not be negative; got nan."),
        (lambda: flow_filter([1.0], math.inf, 1.0), "`nu` is inf; every entry must be finite."),
        (lambda: flow_filter([1.0], [1.0, 2.0], [1.0, 2.0, 3.0]), "`nu` has shape (2,) and `t` has shape (3,); they "
         "must broadcast: for a grid of all pairs pass `nu[:, None]` and `t[None, :]`."),
        (lambda: descent_filter([1.0], 1.0, 1.5, eta=0.1), "`k` counts steps and must be whole; got 1.5."),
        (lambda: descent_filter([1.0], 1.0, 1, eta=0.0), "`eta` must be positive and finite; got 0.0."),
        (lambda: descent_crossings(1.0, -1, eta=0.1), "`k` counts steps and must be a whole number, not negative; "
         "got -1."),
        (lambda: ridge_filter([1.0], -1.0), "`penalty` must not be negative; got -1."),
    ],
)  # fmt: skip
def test_bad_arguments_are_told(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_blocks_tell_bad_arguments_before_they_are_asked_for():
    with pytest.raises(ValueError, match=r"^`nu` must not be negative; got -1\.$"):
        flow_blocks([1.0], -1.0, 1.0)


def test_the_examples_run():
    assert doctest.testmod(spectral_filters).attempted >= 2
    assert doctest.testmod(spectral_filters).failed == 0


@pytest.mark.parametrize("z", [500.0, 700.0, 712.0, 740.0, 745.0, 800.0, 1000.0])
def test_a_late_crossing_keeps_its_digits_where_the_exponential_underflows(z):
    """`exp(-z)` is subnormal from 708 on and zero from 746 on; the crossing, nu as much, is not."""
    t = z / 1e150
    # There w = z e^-z (1 + w + ...) is below 1e-200, so that m_c = nu e^-z to all digits.
    exact = arb(1e150) * (-arb(1e150) * arb(t)).exp()
    assert (
        abs(float((arb(float(crossing(1e150, t))) - exact) / exact)) <= 2 * EPS * z
    )  # rounding of nu t counts z times


def test_a_crossing_is_found_where_the_product_of_shift_and_time_underflows():
    found = float(crossing(1e-200, 1e-200))
    w = found * 1e-200
    assert abs(w - math.log(w) - 400 * math.log(10)) <= 8 * EPS * 921  # log(nu t), and nu t itself is nothing beside it
    assert crossing(1e-200, 5e-324) == math.inf


@pytest.mark.parametrize(
    ("nu", "k", "eta"), [(1e-300, 10, 1e-300), (1e-310, 10, 1e-5), (1e-20, 1, 1.0), (1e-250, 4, 1.0), (0.2, 2, 1.0)]
)
def test_crossings_of_descent_far_above_the_shift(nu, k, eta):
    """Where `eta nu` is as good as 0 the filter is `1 - (1 - eta m)^k`: the crossings gather at 1/eta."""
    found = descent_crossings(nu, k, eta=eta)
    assert len(found) == (1 if k % 2 else 2)
    for m in found:
        # m |1 - x|^k = nu, with |1 - x| = (nu/m)^(1/k) put back into x = eta (m - nu).
        power = math.exp((math.log(nu) - math.log(m)) / k)
        x = 1 - power if m == found[0] else 1 + power
        assert abs(eta * (m - nu) / x - 1) <= 32 * EPS


def test_crossings_of_descent_far_below_the_shift():
    first, second = descent_crossings(1e150, 10, eta=1e200)
    assert first == 0.0  # nu e^-10 x 350 log 10: below the smallest double
    assert second == 1e150
    (one,) = descent_crossings(1e200, 1, eta=1.0)
    assert abs(one - 1.0) <= 4 * EPS * 200 * math.log(10)  # the filter of one step is eta m; rounding of log nu


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: descent_crossings(1.0, 2, eta="a"), TypeError,  # pyright: ignore[reportArgumentType] - on purpose
         "`eta` must hold real numbers; it holds text (dtype <U1)."),
        (lambda: descent_crossings([1.0, 2.0], 2, eta=1.0), ValueError, "`nu` must be one number; got shape (2,)."),  # pyright: ignore[reportArgumentType] - on purpose
        (lambda: descent_crossings(1.0, 2**60, eta=1.0), ValueError,
         "`k` must be at most 2**53 steps, which a double still counts; got 1152921504606846976."),
        (lambda: crossing([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError,
         "`nu` has shape (2,) and `t` has shape (3,); they must broadcast: for a grid of all pairs pass "
         "`nu[:, None]` and `t[None, :]`."),
    ],
)  # fmt: skip
def test_bad_arguments_of_crossings_are_told(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
