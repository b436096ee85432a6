"""The direction law: the theory's numbers, optimality, runs of an independent integrator, and what no law covers."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import linprog
from sklearn.datasets import load_wine

from _margins import s40
from omegalimit.limits import MaxMargin
from omegalimit.limits.direction_law import DirectionLaw, direction_law
from omegalimit.solvers import solve

# The fixture of the theory: u = (1, 0), gamma = 1.
FIXTURE = np.array([[1.0, 1.0], [1.0, -0.5], [2.0, 1.5], [1.5, 3.0]])
PAIR = np.array([[1.0, 0.5], [1.0, -0.5]])
# Two rows that balance along the second axis, and one of equal margin that only ever pushes along the third.
ONE_SIDED = np.array([[1.0, 1.0, 0.0], [1.0, -0.5, 0.0], [1.0, 0.3, 1.0]])


def refusal(make, kind: type[Exception] = ValueError) -> str:
    """The message with which `make` refuses, which the tests then compare in full."""
    with pytest.raises(kind) as refused:
        make()
    return str(refused.value)


def law_of(Z, weights=None) -> DirectionLaw:
    """From the solver's certificate."""
    found = solve(MaxMargin("l2", rows=Z)).certificate
    return direction_law(Z, found.point, found.lower, multipliers=found.multipliers, weights=weights)


def run(Z, weights, log_time: float, *, logistic: bool = False, start=None) -> np.ndarray:
    """Weights of the flow at this log time by SciPy's LSODA, from `log t = -10`, where the flow has not moved."""

    def pulls(s, w):
        margins = Z @ w
        tail = np.logaddexp(0, margins) if logistic else margins
        return Z.T @ np.exp(np.log(weights) - tail + s)

    w = np.zeros(Z.shape[1]) if start is None else start
    return solve_ivp(pulls, (-10, log_time), w, method="LSODA", rtol=1e-10, atol=1e-12).y[:, -1]


def across(law: DirectionLaw, w: np.ndarray) -> np.ndarray:
    return w - law.u * (law.u @ w)


def present(value):
    """The value of a law that has it."""
    assert value is not None
    return value


# The theory's numbers, and runs.


def test_the_fixture():
    """Two support vectors of parts `1` and `-1/2`: `w* = ln(1 / (1/2)) / (3/2)`."""
    law = law_of(FIXTURE)
    assert law.support.tolist() == [0, 1]
    assert law.strictly_complementary is True
    assert law.spans
    assert not law.void
    np.testing.assert_allclose(present(law.balance), [0, math.log(2) / 1.5], atol=1e-15)
    assert present(law.constant()) == pytest.approx(0.4620981, abs=5e-8)
    assert law.offset == pytest.approx(-0.749780, abs=5e-7)
    np.testing.assert_allclose(law.u, [1, 0], atol=1e-15)
    np.testing.assert_allclose(present(law.residuals), [1 / 3, 2 / 3, 0, 0], atol=1e-15)
    assert law.error < 1e-12
    assert law.log_time(0.01) == pytest.approx(100 * math.log(2) / 1.5, rel=1e-14)
    # Earlier than the run at large angles, as the theory's table has it: 1.54 against 2.48.
    assert present(law.log_time(0.3)) == pytest.approx(1.54, abs=5e-3)


@pytest.mark.parametrize("logistic", [False, True])
def test_s40(logistic):
    """The part in V, the offset and the residuals come out of a run to 1e40; most of `w_perp` is what no law has."""
    Z = s40()
    law, weights = law_of(Z), np.full(40, 1 / 40)
    w = run(Z, weights, 92.1, logistic=logistic)
    assert len(law.support) == 7
    assert law.dimension == 6
    assert not law.spans
    assert law.others_reach
    assert law.limit() is None
    assert law.constant() is None
    w_perp = across(law, w)
    np.testing.assert_allclose(law.inside(w_perp), present(law.balance), atol=1e-8)  # the integrator's 1e-10, with room
    assert law.gamma * (law.u @ w) - 92.1 == pytest.approx(present(law.offset), abs=1e-8)
    np.testing.assert_allclose(np.exp(92.1 - Z @ w) / 40, present(law.residuals), atol=1e-7)
    np.testing.assert_allclose(present(law.residuals) @ Z, law.u / law.gamma, atol=1e-12)
    if not logistic:
        assert np.linalg.norm(w_perp) == pytest.approx(2.296, abs=5e-4)
        assert np.linalg.norm(law.outside(w_perp)) == pytest.approx(2.02, abs=5e-3)
    # The balance solution alone would be the wrong constant by half.
    assert np.linalg.norm(present(law.balance)) < 0.5 * np.linalg.norm(w_perp)
    assert law.constant(w_perp) == pytest.approx(law.gamma * np.linalg.norm(w_perp), rel=1e-14)


def test_a_weighted_run_from_another_start():
    """Rows three times as long, weights over decades, a start that V forgets and the rest does not."""
    Z = np.hstack([3 * FIXTURE, np.zeros((4, 1))])
    weights = np.array([1e-3, 2.0, 5.0, 0.1])
    start = np.array([0.2, -0.1, 0.7])
    law, w = law_of(Z, weights), run(Z, weights, 92.1, start=start)
    assert not law.spans
    assert not law.others_reach
    np.testing.assert_allclose(across(law, w), present(law.limit(start)), atol=1e-8)
    np.testing.assert_allclose(present(law.limit()), present(law.balance))
    assert present(law.limit(start))[2] == 0.7
    assert law.gamma * (law.u @ w) - 92.1 == pytest.approx(present(law.offset), abs=1e-8)


# Closed forms and laws.


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(-7, 7), st.floats(0, 6.3), st.floats(0.01, 100.0))
@settings(max_examples=100, deadline=None)
def test_two_support_vectors(up, down, log_ratio, turn, size):
    """`w* = ln(c0 a0 / (c1 |a1|)) / (a0 + |a1|)` along the line that joins them, in any frame and unit."""
    frame = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    Z = size * np.array([[1.0, up], [1.0, -down]]) @ frame
    law = law_of(Z, np.array([math.exp(log_ratio), 1.0]))
    expected = (log_ratio + math.log(up / down)) / (up + down) / size * frame[1]
    assert np.linalg.norm(present(law.balance) - expected) <= law.error
    # Nearly parallel rows lose six digits of their difference, and their equations six more.
    assert law.error <= 1e-6 / size / min(up, down)


@pytest.mark.parametrize("seed", range(5))
def test_the_balance_is_the_least_point(seed):
    """Of the sum over V, by its gradient and against points nearby, for weights over six decades."""
    g = np.random.default_rng(seed)
    Z = s40()
    weights = 10.0 ** g.uniform(-3, 3, 40)
    law = law_of(Z, weights)
    rows, c, best = Z[law.support], weights[law.support], present(law.balance)

    def value(w):
        return float((c * np.exp(-rows @ w)).sum())

    forces = c * np.exp(-rows @ best)
    gradient = law.basis.T @ (forces @ rows)
    assert np.linalg.norm(gradient) <= 1e-12 * (forces @ np.linalg.norm(rows, axis=1))
    for _ in range(20):
        step = law.basis @ g.standard_normal(law.dimension)
        assert value(best + 1e-3 * step) > value(best)
    np.testing.assert_allclose(present(law.duals)[law.support], forces / forces.sum(), rtol=1e-9)
    assert law.offset == pytest.approx(math.log(law.gamma**2 * value(best)), abs=1e-12)
    np.testing.assert_allclose(law.basis.T @ law.basis, np.eye(law.dimension), atol=1e-14)
    np.testing.assert_allclose(law.u @ law.basis, 0, atol=1e-15)


def test_the_symmetric_pair_has_no_law():
    """The limit is zero: `void`."""
    law = law_of(PAIR)
    assert law.spans
    assert law.void
    assert present(law.constant()) <= law.gamma * law.error < 1e-12
    # Weights tell the two apart, and the law is there again.
    assert law_of(PAIR, np.array([1.0, 2.0])).void is False


def test_one_support_vector():
    """V is empty and `w* = 0`; what is across stays as it started."""
    law = law_of(np.array([[1.0, 0.5, 2.0]]))
    assert law.dimension == 0
    assert not law.spans
    assert law.void
    start = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(present(law.limit(start)), across(law, start), atol=1e-15)
    np.testing.assert_array_equal(present(law.duals), [1.0])


def test_one_dimension():
    """Nothing lies across."""
    law = law_of(np.array([[1.0], [2.0]]))
    assert law.support.tolist() == [0]
    assert law.spans
    assert law.void
    np.testing.assert_array_equal(present(law.balance), [0.0])


def test_repeated_rows_are_weights():
    """Row 0 twice and row 1 three times are weights of two and three."""
    many = law_of(FIXTURE[[0, 0, 1, 1, 1, 2, 3]], np.ones(7))
    one = law_of(FIXTURE, np.array([2.0, 3.0, 1.0, 1.0]))
    assert many.support.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(present(many.balance), present(one.balance), atol=1e-15)
    assert many.offset == pytest.approx(one.offset, abs=1e-14)


def test_weights_over_five_hundred_decades():
    """`ln(c0 / c1)` enters, and no `c`."""
    law = law_of(FIXTURE, np.array([1e-300, 1e200, 1.0, 1.0]))
    assert present(law.balance)[1] == pytest.approx((math.log(2) - 500 * math.log(10)) / 1.5, rel=1e-13)
    assert law.error < 1e-9


@pytest.mark.parametrize("factor", [1e-150, 2.0**-400, 2.0**400, 1e150])
def test_scales(factor):
    """`w*` in units of `1 / z`; `C` and the log times have none; `log(gamma^2 B)` moves by two logarithms."""
    one, other = law_of(FIXTURE), law_of(FIXTURE * factor)
    np.testing.assert_allclose(present(other.balance) * factor, present(one.balance), atol=1e-14)
    assert other.constant() == pytest.approx(one.constant(), rel=1e-14)
    assert other.offset == pytest.approx(present(one.offset) + 2 * math.log(factor), rel=1e-14)
    assert (other.error * factor, other.support.tolist()) == (pytest.approx(one.error, rel=0.1), [0, 1])
    assert not other.void


# No balance.


def test_a_row_of_zero_dual():
    """Named, with the balance of the others, and the margin that the log log term goes by."""
    law = law_of(ONE_SIDED)
    assert law.strictly_complementary is False
    assert law.reason == "the dual of row 2 is zero in every maximum-margin dual."
    assert law.zero_dual.tolist() == [2]
    assert law.balance is None
    assert law.constant() is None
    assert law.void is None
    assert law.log_time(0.1) is None
    np.testing.assert_allclose(present(law.core_balance), [0, math.log(2) / 1.5, 0], atol=1e-14)
    np.testing.assert_allclose(present(law.duals), [1 / 3, 2 / 3, 0], atol=1e-14)
    assert law.second_margin == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(present(law.second_direction), [0, 0, 1], atol=1e-14)


def test_the_log_log_term():
    """`w_perp` grows along the second direction as `log(K log t) / gamma_2`; the run meets it, and the rest balances.

    `K = gamma_2^2 c_2 exp(-z_2'w*) / (gamma^2 B)`: the pull of row 2 beside that of the rows which balance.
    """
    Z, weights = 1.7 * ONE_SIDED, np.array([0.2, 0.5, 0.9])
    law = law_of(Z, weights)
    pull = weights[2] * math.exp(-Z[2] @ present(law.core_balance)) / math.exp(present(law.offset))
    gamma_2 = present(law.second_margin)
    off = []
    for log_time in (1e2, 1e3, 1e4):
        w = run(Z, weights, log_time)
        w_perp = across(law, w)
        along = float(w_perp @ present(law.second_direction))
        off.append(abs(along - math.log(gamma_2**2 * pull * log_time) / gamma_2))
        rest = w_perp - along * present(law.second_direction)
        # The balance is off by what row 2 still pulls: one part in log t.
        assert np.linalg.norm(rest - present(law.core_balance)) < 1 / log_time
        assert abs(law.gamma * (law.u @ w) - log_time - present(law.offset)) < 2 / log_time
    # The next order is log log t / log t.
    assert off[0] > 3 * off[1] > 9 * off[2]
    assert off[2] < 1e-3


@given(st.integers(0, 10**6))
@example(9669)  # SciPy's non-negative least squares ends at what is no solution
@settings(max_examples=80, deadline=None)
def test_complementarity_against_a_linear_program(seed):
    """Rows on a grid with many ties, turned: the largest least dual, by HiGHS, is positive or zero alike."""
    g = np.random.default_rng(seed)
    n, d = int(g.integers(1, 15)), int(g.integers(1, 6))
    Z = np.round(g.standard_normal((n, d)))
    Z[:, 0] = 1
    Z = Z @ np.linalg.qr(g.standard_normal((d, d)))[0]
    law = law_of(Z, np.exp(g.standard_normal(n)))
    assert law.ambiguous.size == 0
    rows, m = Z[law.support] / law.gamma, len(law.support)
    found = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.hstack([-np.eye(m), np.ones((m, 1))]),
        b_ub=np.zeros(m),
        A_eq=np.vstack([np.hstack([rows.T, np.zeros((d, 1))]), np.append(np.ones(m), 0.0)]),
        b_eq=np.append(law.u, 1.0),
        bounds=[(None, None)] * m + [(None, 1)],
    )
    assert law.strictly_complementary == (-found.fun > 1e-7)
    assert law.strictly_complementary == (law.zero_dual.size == 0)
    p = present(law.duals)
    np.testing.assert_allclose(p @ Z, law.gamma * law.u, atol=1e-10 * np.linalg.norm(Z, axis=1).max())
    assert (p[law.zero_dual] == 0).all()
    assert (p[np.setdiff1d(law.support, law.zero_dual)] > 0).all()
    if not law.strictly_complementary:
        assert present(law.second_margin) > 0
        y = present(law.second_direction)
        products = Z[law.support] @ y
        idle = np.isin(law.support, law.zero_dual)
        # Across u and the balancing rows' span, and no product below the second margin on the others.
        np.testing.assert_allclose(products[~idle], 0, atol=1e-10)
        assert products[idle].min() == pytest.approx(law.second_margin, rel=1e-9)


def test_columns_of_very_different_size_do_not_hide_the_balance():
    """Wine as it comes: singular values across the margin from 0.2 to 2600. The dual is unique, 0.0107 at the least."""
    X, y = load_wine(return_X_y=True)
    Z = np.where(y == 1, 1.0, -1.0)[y < 2, None] * X[y < 2]
    law = law_of(Z)
    assert law.strictly_complementary
    assert len(law.support) == 11
    p = present(law.duals)
    assert p[law.support].min() == pytest.approx(0.0107, abs=5e-5)
    np.testing.assert_allclose(p @ Z, law.gamma * law.u, atol=1e-9 * np.linalg.norm(Z, axis=1).max())


# What cannot be told, and refusals.


def test_a_row_near_the_margin_is_named():
    """An excess of 1e-10 is beyond rounding of the equations and within what a certificate of 1e-16 tells."""
    Z = np.vstack([FIXTURE, [1 + 1e-10, 2.0]])
    law = law_of(Z)
    assert law.support.tolist() == [0, 1]
    assert law.ambiguous.tolist() == [4]
    np.testing.assert_allclose(present(law.balance), present(law_of(FIXTURE).balance), atol=1e-12)
    # At an excess of 1e-3 there is no doubt, at rounding level it is a support vector.
    assert law_of(np.vstack([FIXTURE, [1.001, 2.0]])).ambiguous.size == 0
    assert law_of(np.vstack([FIXTURE, [1 + 2e-16, 2.0]])).support.tolist() == [0, 1, 4]


def test_a_rough_direction_is_refined():
    """A direction off by 1e-4, which is a gap of 1e-4, is refused; one by 1e-7 is made right."""
    assert refusal(lambda: direction_law(FIXTURE, [1.0, 1e-4])) == (
        "`u` is not the direction of the Euclidean maximum margin: its margin is 0.99995, and at most 1 is proved. "
        'Take it from `solve(MaxMargin("l2", rows=Z))`.'
    )
    law = direction_law(FIXTURE, [5.0, 5e-7])
    np.testing.assert_allclose(law.u, [1, 0], atol=1e-15)
    assert present(law.constant()) == pytest.approx(math.log(2) / 1.5, rel=1e-13)


def test_refusals():
    """In the user's words."""
    u = [1.0, 0.0]
    assert refusal(lambda: direction_law(FIXTURE, u, 1.1)) == "`gamma` is 1.1, and the margin of `u` is 1."
    assert refusal(lambda: direction_law(FIXTURE, [1.0])) == "`u` must have shape (2,); got (1,)."
    assert refusal(lambda: direction_law(FIXTURE[0], u)) == (
        "`Z` must have shape (n, d) and at least one entry; got (2,)."
    )
    assert refusal(lambda: direction_law(FIXTURE, u, weights=[1.0, 2.0])) == "`weights` must have shape (4,); got (2,)."
    assert refusal(lambda: direction_law(FIXTURE, u, weights=[1.0, 0.0, 1.0, -1.0])) == (
        "`weights[1]` is 0; each must be positive. Drop the rows that are not to count."
    )
    opposed = np.vstack([FIXTURE, -FIXTURE[:1]])
    assert refusal(lambda: direction_law(opposed, u, multipliers=[1, 0, 0, 0, 1])) == (
        "`u` is not the direction of the Euclidean maximum margin: its margin is -1, and at most 0 is proved. "
        'Take it from `solve(MaxMargin("l2", rows=Z))`.'
    )
    for tol, seen in ((0, "0"), (1.0, "1"), (math.nan, "nan")):
        assert refusal(lambda tol=tol: direction_law(FIXTURE, u, tol=tol)) == (
            f"`tol` must lie between 0 and 1, both excluded; got {seen}."
        )
    several: Any = [1.0, 2.0]
    assert refusal(lambda: direction_law(FIXTURE, u, several)) == "`gamma` must be one number; got shape (2,)."
    large = [[2**53 + 1, 0], [1, 1]]
    assert refusal(lambda: direction_law(large, u)) == (
        "`Z` has integers beyond 2**53 that no double holds; rescale it or round it yourself."
    )


def test_what_the_law_is_asked_is_checked():
    """Angles, and weights of another length than the law's."""
    law = law_of(FIXTURE)
    several: Any = [0.1, 0.2]
    for angle, seen in ((0, "0"), (-1, "-1"), (math.nan, "nan"), (math.inf, "inf"), (several, "[0.1, 0.2]")):
        assert refusal(lambda angle=angle: law.log_time(angle)) == (
            f"`angle` must be one positive number, in radians; got {seen}."
        )
    assert refusal(lambda: law.log_time(0.1, [1, 2, 3])) == "`w_perp` must have shape (2,); got (3,)."
    assert refusal(lambda: law.constant([1, 2, 3])) == "`w_perp` must have shape (2,); got (3,)."
    assert refusal(lambda: law.constant(np.ones((5, 2)))) == "`w_perp` must have shape (2,); got (5, 2)."
    assert refusal(lambda: law.limit([1, 2, 3])) == "`start` must have shape (2,); got (3,)."
    assert refusal(lambda: law.inside([1, 2, 3])) == "`w` must have shape (..., 2); got (3,)."
    assert refusal(lambda: law.outside(np.ones((2, 3)))) == "`w` must have shape (..., 2); got (2, 3)."
    assert law.inside(np.ones((5, 2))).shape == law.outside(np.ones((5, 2))).shape == (5, 2)
