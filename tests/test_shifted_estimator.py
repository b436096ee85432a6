"""The regressor and the choice behind it: scikit-learn's checks, the flow itself as reference, bounds that hold."""

import math
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, LeaveOneOut, ShuffleSplit, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from omegalimit.estimators import ShiftedDescentRegressor
from omegalimit.solvers.shift_selection import choose_shift, default_grid, fit_shift


@parametrize_with_checks(
    [
        ShiftedDescentRegressor(),
        ShiftedDescentRegressor(selection="holdout"),
        ShiftedDescentRegressor(selection=None),
        ShiftedDescentRegressor(0.1, 3.0, selection=None, fit_intercept=False),
        ShiftedDescentRegressor([0.0, 0.1], [1.0, 2.0, math.inf], cv=3),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def sample(n, d, *, seed=0, rank=None):
    """Rows of spread-out scales with means, and a noisy linear response."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 0.1, d) + rng.normal(size=d)
    if rank is not None:
        X = X[:, :rank] @ rng.normal(size=(rank, d))
    return X, X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) + 3


def flow(X, y, nu, t, *, intercept=True):
    """`b(t)` of the flow by the exponential of a matrix: no eigenvalues, no filter; `t` finite."""
    centre, level = (X.mean(0), y.mean()) if intercept else (np.zeros(X.shape[1]), 0.0)
    A, r = X - centre, y - level
    n, d = A.shape
    field = np.zeros((d + 1, d + 1))
    field[:d, :d], field[:d, d] = nu * np.eye(d) - A.T @ A / n, A.T @ r / n
    b = scipy.linalg.expm(t * field)[:d, d]
    return b, level - centre @ b


SHAPES = [(30, 6), (12, 25), (20, 20)]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("nu", "t"), [(0.0, 2.0), (0.3, 1.5), (2.0, 3.0), (0.5, 0.0)])
def test_the_fit_is_the_flow(n, d, intercept, nu, t):
    X, y = sample(n, d)
    fit = fit_shift(X, y, nu=nu, t=t, intercept=intercept)
    b, level = flow(X, y, nu, t, intercept=intercept)
    # Null directions: the flow amplifies what rounding puts there, by at most e^(nu t) = 400 times 1e-15.
    np.testing.assert_allclose(fit.coef, b, rtol=0, atol=1e-11 * max(np.abs(b).max(), 1))
    assert fit.intercept == pytest.approx(level, rel=1e-11, abs=1e-11)
    model = ShiftedDescentRegressor(nu, t, selection=None, fit_intercept=intercept).fit(X, y)
    np.testing.assert_array_equal(model.coef_, fit.coef)
    np.testing.assert_array_equal(model.predict(X), X @ fit.coef + fit.intercept)
    assert (model.nu_, model.t_, model.rank_) == (nu, t, min(n - intercept, d))


def test_without_a_selection_the_default_is_least_squares():
    """Tall rows: scikit-learn's own least squares; wide rows: the least-norm interpolant by the pseudo-inverse."""
    X, y = sample(30, 6)
    model, theirs = ShiftedDescentRegressor(selection=None).fit(X, y), LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-10)
    assert model.intercept_ == pytest.approx(theirs.intercept_, rel=1e-10)
    np.testing.assert_array_equal(model.filter_, 1)
    np.testing.assert_array_equal(model.ridgeless_, model.coef_)
    X, y = sample(12, 25)
    model = ShiftedDescentRegressor(selection=None, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.linalg.pinv(X) @ y, rtol=1e-10)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-10)


# --- the table of errors ---------------------------------------------------------------------------------------------


NUS, TS = [0.0, 0.2, 1.0], [0.0, 0.5, 3.0]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
def test_one_pass_is_the_loop_of_fits(n, d, intercept):
    X, y = sample(n, d, seed=1)
    halves = np.arange(n) < n // 2
    folds = [(np.flatnonzero(~halves), np.flatnonzero(halves)), (np.flatnonzero(halves), np.flatnonzero(~halves))]
    for splits in (folds[:1], folds, [*folds, (np.arange(n - 3), np.arange(n - 3, n))]):
        choice = choose_shift(X, y, nu=NUS, t=TS, splits=splits, intercept=intercept)
        wanted = np.zeros((3, 3))
        for train, judge in splits:
            # A shift is that of the rows of the final fit, and grows with 1/n on a part of them.
            share = 1 if len(splits) == 1 else n / train.size
            for i, nu in enumerate(NUS):
                for j, t in enumerate(TS):
                    b, level = flow(X[train], y[train], nu * share, t, intercept=intercept)
                    wanted[i, j] += np.sum((X[judge] @ b + level - y[judge]) ** 2)
        wanted /= sum(judge.size for _, judge in splits)
        np.testing.assert_allclose(choice.errors, wanted, rtol=1e-9)
        assert choice.index == np.unravel_index(wanted.argmin(), wanted.shape)
        assert choice.error == choice.errors.min()
        assert (choice.nu, choice.t) == (NUS[choice.index[0]], TS[choice.index[1]])
        rows = splits[0][0] if len(splits) == 1 else np.arange(n)
        again = fit_shift(X[rows], y[rows], nu=choice.nu, t=choice.t, intercept=intercept)
        np.testing.assert_allclose(choice.fit.coef, again.coef, rtol=1e-9, atol=1e-12)
        assert (choice.n_folds, choice.fit.n) == (len(splits), rows.size)


def test_the_ridgeless_fit_is_among_the_defaults():
    X, y = sample(40, 10, seed=2)
    choice = choose_shift(X, y)
    assert choice.nus[0] == 0
    assert choice.ts[-1] == math.inf
    assert choice.errors[0, -1] == pytest.approx(choice.ridgeless_error, rel=1e-12)
    assert choice.error <= choice.ridgeless_error
    # An endpoint with a shift above the smallest eigenvalue does not exist, and is never chosen.
    least = choice.fit.eigenvalues[-1]
    assert np.isinf(choice.errors[choice.nus >= least, -1]).all()
    assert np.isfinite(choice.errors[choice.nus < least, -1]).all()


def test_an_endpoint_that_all_rows_do_not_have_is_not_chosen():
    """Folds see the first direction only; all rows the second one too, with an eigenvalue of 0.005."""
    X = np.repeat([[2.0, 0], [-2, 0], [0, 0.1], [0, -0.1]], 2, axis=0)
    y, folds = X @ [3.0, 0.1], [([0, 2], [1, 3]), ([1, 3], [0, 2])]
    # On the folds the shift 0.25 is 1, below their eigenvalue 4: the endpoint is 4/3 of the ridgeless fit there, better
    # than hardly any fit at all. For all rows there is no such endpoint.
    choice = choose_shift(X, y, nu=[0.25], t=[1e-3, math.inf], splits=folds)
    assert (choice.t, choice.errors[0, 1]) == (1e-3, math.inf)
    with pytest.raises(ValueError, match=r"\.$") as caught:
        choose_shift(X, y, nu=[0.25], t=math.inf, splits=folds)
    assert str(caught.value) == (
        "with every pair of `nu` and `t` the coefficients leave the range of doubles, or the flow has no endpoint; "
        "take smaller shifts or times."
    )
    # Without the second direction the same endpoint exists.
    assert choose_shift(X[:, :1], y, nu=[0.25], t=[1e-3, math.inf], splits=folds).t == math.inf


def test_exact_data_are_interpolated_and_ties_go_to_the_ridgeless_side():
    X, _ = sample(40, 5)
    model = ShiftedDescentRegressor().fit(X, X @ [1.0, -2, 3, 0.5, 1] + 4)
    assert (model.nu_, model.t_) == (0, math.inf)
    np.testing.assert_allclose(model.coef_, [1, -2, 3, 0.5, 1], rtol=1e-12)


@pytest.mark.parametrize("selection", ["cv", "holdout", None])
def test_nothing_to_learn(selection):
    """Zero rows, constant columns, a constant response: the mean, and no amplified rounding."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 3)), rng.normal(size=9)
    for rows, response in ((0 * X, y), (0 * X + [0.1, 1e8, 0.3], y), (X, 0 * y + 0.1), (X, 0 * y)):
        model = ShiftedDescentRegressor(selection=selection).fit(rows, response)
        np.testing.assert_allclose(model.coef_, 0, atol=1e-15)
        assert np.ptp(model.predict(rows)) <= 1e-15
        assert (model.nu_, model.t_) == (0, math.inf)
    model = ShiftedDescentRegressor(selection=selection, fit_intercept=False).fit(0 * X, y)
    assert model.rank_ == 0
    np.testing.assert_array_equal(model.predict(X), 0)


@pytest.mark.parametrize("selection", ["cv", "holdout", None])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_two_rows(selection, d):
    X = np.arange(2.0 * d).reshape(2, d) ** 2
    model = ShiftedDescentRegressor(selection=selection).fit(X, [1.0, 3.0])
    assert np.isfinite(model.predict(X)).all()
    if selection is None:
        np.testing.assert_allclose(model.predict(X), [1, 3], rtol=1e-14)


# --- null directions, units ------------------------------------------------------------------------------------------


def test_null_directions_are_not_amplified():
    """e^(nu t) = e^60 on every direction that the rows do not reach: rounding there, 1e-17, would become 1e9."""
    X, y = sample(30, 6, rank=3)
    nu = 0.5 * fit_shift(X, y, nu=0.0, t=1.0).eigenvalues[2]
    fit = fit_shift(X, y, nu=nu, t=60 / nu)
    null = scipy.linalg.null_space(X - X.mean(0), rcond=1e-10)
    assert null.shape == (6, 3)
    assert fit.eigenvalues.size == 3
    assert fit.unresolved.size == 3
    # Squares of rounding, some units in the last place.
    assert fit.unresolved.max() <= 1e-28 * fit.eigenvalues.max()
    # The data's own directions are all above the shift: at most doubled, against the ridgeless fit.
    np.testing.assert_allclose(fit.filter, fit.eigenvalues / (fit.eigenvalues - nu), rtol=1e-12)
    np.testing.assert_allclose(null.T @ fit.coef, 0, atol=1e-12 * np.abs(fit.coef).max())
    # The same flow with what rounding left there: this is what is kept out.
    b, _ = flow(X, y, nu, 60 / nu)
    assert np.abs(null.T @ b).max() > 1e3 * np.abs(fit.coef).max()


def test_equal_columns_share_and_zero_columns_get_nothing():
    X, y = sample(30, 4)
    twice = ShiftedDescentRegressor(0.1, 2.0, selection=None).fit(np.column_stack([X, X[:, 0], 0 * X[:, 0]]), y)
    assert twice.coef_[0] == pytest.approx(twice.coef_[4], rel=1e-10)
    assert twice.coef_[5] == pytest.approx(0, abs=1e-14)
    assert twice.rank_ == 4


def test_a_far_away_mean_is_not_taken_for_data():
    """Columns of 1e9 plus a part in 1e9: eight digits of it are gone, and the fit knows which directions are left."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    far = fit_shift(X * [1, 1, 0] + 1e9 * np.array([1, 0, 1.1]), y, nu=0.0, t=math.inf)
    near = fit_shift(X[:, :2], y, nu=0.0, t=math.inf)
    assert far.eigenvalues.size == 2
    np.testing.assert_allclose(far.coef, [*near.coef, 0], atol=1e-6)


@pytest.mark.parametrize("selection", ["cv", "holdout"])
@pytest.mark.parametrize(("x_unit", "y_unit"), [(1e150, 1.0), (1e-150, 1.0), (1.0, 1e-150), (1e-9, 1e150)])
@pytest.mark.parametrize("shape", [(30, 6), (12, 25)])
def test_units_change_nothing(selection, x_unit, y_unit, shape):
    X, y = sample(*shape, seed=4)
    one, other = (
        ShiftedDescentRegressor(selection=selection).fit(a * X, b * y) for a, b in ((1.0, 1.0), (x_unit, y_unit))
    )
    assert one.choice_ is not None
    assert other.choice_ is not None
    assert one.choice_.index == other.choice_.index
    # Decimal units round every entry of the data once.
    assert other.nu_ / x_unit / x_unit == pytest.approx(one.nu_, rel=1e-12)
    assert other.t_ * x_unit * x_unit == pytest.approx(one.t_, rel=1e-12)
    np.testing.assert_allclose(other.coef_ / y_unit * x_unit, one.coef_, rtol=1e-9)
    np.testing.assert_allclose(other.filter_, one.filter_, rtol=1e-9)
    assert other.error_bound_ == one.error_bound_ or other.error_bound_ / y_unit / y_unit == pytest.approx(
        one.error_bound_, rel=1e-9
    )


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(2, 12),
    d=st.integers(1, 15),
    k=st.integers(-300, 300),
    intercept=st.booleans(),
)
def test_powers_of_two_change_not_a_bit(seed, n, d, k, intercept):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-3, 4, size=(n, d)).astype(float), rng.normal(size=n)
    one = choose_shift(X, y, intercept=intercept, seed=seed)
    other = choose_shift(np.ldexp(X, k), np.ldexp(y, -k), intercept=intercept, seed=seed)
    assert one.index == other.index
    np.testing.assert_array_equal(np.ldexp(other.fit.coef, 2 * k), one.fit.coef)
    np.testing.assert_array_equal(other.fit.filter, one.fit.filter)
    assert np.isfinite(one.fit.coef).all()


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(30, 6), (12, 25)])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"selection": None},
        {"selection": None, "nu": 0.05, "t": 4.0},
        {"selection": "holdout"},
        {"selection": "cv", "cv": 3},
        {"selection": "holdout", "nu": [0.0, 0.1], "t": [0.5, 1.0, 2.0]},
    ],
)
def test_a_weight_of_k_is_k_rows(options, intercept, shape):
    X, y = sample(*shape, seed=6)
    weights = np.random.default_rng(7).integers(0, 4, size=len(y))
    many = np.repeat(np.arange(len(y)), weights)[np.random.default_rng(8).permutation(weights.sum())]
    options = options | {"fit_intercept": intercept}
    weighted: Any = ShiftedDescentRegressor(**options).fit(X, y, sample_weight=0.7 * weights)
    repeated: Any = ShiftedDescentRegressor(**options).fit(X[many], y[many])
    # Sums in another order, divided by eigenvalues that span 1e4 here.
    size = np.abs(repeated.coef_).max()
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-10 * size)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, rel=1e-9, abs=1e-10 * size)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    assert weighted.nu_ == pytest.approx(repeated.nu_, rel=1e-9)
    assert weighted.t_ == pytest.approx(repeated.t_, rel=1e-9)
    if weighted.errors_ is not None:
        known = np.isfinite(repeated.errors_)
        assert (np.isfinite(weighted.errors_) == known).all()
        # Late times and shifts above most of the spectrum amplify rounding with the data.
        near = repeated.errors_ < 10 * repeated.errors_.min()
        np.testing.assert_allclose(weighted.errors_[near], repeated.errors_[near], rtol=1e-8)
    alike = ShiftedDescentRegressor(**options).fit(X, y)
    assert np.abs(alike.coef_ - repeated.coef_).max() > 1e-3 * size


def test_weighted_fits_are_the_weighted_flow():
    """Weights that are no counts: the flow of the weighted loss, by the exponential of its matrix."""
    X, y = sample(30, 6)
    c = np.random.default_rng(1).uniform(0.1, 3, size=30)
    mean, level = np.average(X, axis=0, weights=c), np.average(y, weights=c)
    root = np.sqrt(c * 30 / c.sum())
    b, _ = flow(root[:, None] * (X - mean), root * (y - level), 0.3, 1.5, intercept=False)
    fit = fit_shift(X, y, nu=0.3, t=1.5, weights=c)
    np.testing.assert_allclose(fit.coef, b, rtol=1e-10)
    assert fit.intercept == pytest.approx(level - mean @ b, rel=1e-10)
    assert fit.n == 30


def test_equal_weights_change_nothing_and_zeros_drop_rows():
    X, y = sample(40, 5)
    one, same = choose_shift(X, y), choose_shift(X, y, weights=np.full(40, 1e308))
    np.testing.assert_array_equal(same.errors, one.errors)
    np.testing.assert_array_equal(same.fit.coef, one.fit.coef)
    assert (same.n_effective, same.error_bound) == (one.n_held_out, one.error_bound)
    splits = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    weights = np.r_[np.zeros(4), np.ones(36)]
    dropped: Any = ShiftedDescentRegressor(cv=splits).fit(X, y, sample_weight=weights)
    by_hand: Any = ShiftedDescentRegressor(
        cv=[(np.arange(16), np.arange(16, 36)), (np.arange(16, 36), np.arange(16))]
    ).fit(X[4:], y[4:])
    np.testing.assert_array_equal(dropped.errors_, by_hand.errors_)
    np.testing.assert_array_equal(dropped.coef_, by_hand.coef_)


def test_the_bounds_count_rows_and_not_weights():
    X, y = sample(60, 5)
    grid: dict[str, Any] = {"nu": [0.0, 0.1], "t": [1.0, 2.0], "splits": [(np.arange(20), np.arange(20, 60))]}
    weights = np.ones(60)
    weights[20:40] = 2
    choice = choose_shift(X, y, weights=weights, **grid)
    assert (choice.n_held_out, choice.n_effective) == (40, 30)  # twenty of weight 2 and twenty of 1
    assert choice.error_bound == pytest.approx(choice.error / (1 - 2 * math.sqrt(math.log(4 / 0.05) / 30)), rel=1e-14)
    b = choice.fit.coef
    off = (y - X @ b - choice.fit.intercept)[20:] ** 2
    assert choice.error == pytest.approx(np.average(off, weights=weights[20:]), rel=1e-12)


def test_the_bound_of_a_weighted_hold_out_holds_as_often_as_it_says():
    """Weights spread over a factor of ten: at most a share alpha of the bounds may fail."""
    alpha, failed, n_runs = 0.25, 0, 100
    truth = np.array([1.0, -1, 0.5, 0, 0])
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        X, weights = rng.normal(size=(400, 5)), 10 ** rng.uniform(-1, 0, size=400)
        y = X @ truth + rng.normal(size=400)
        choice = choose_shift(
            X, y, nu=[0.0, 0.05], t=[1.0, 2, 3, 4], hold_out=0.8, seed=seed, alpha=alpha, weights=weights
        )
        exact = 1 + np.sum((choice.fit.coef - truth) ** 2) + choice.fit.intercept**2
        failed += exact > choice.error_bound
        assert 80 < choice.n_effective < 200
    assert failed <= alpha * n_runs


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "`X` has shape (20, 3) and `weights` has shape (3,): 20 rows against 3."),
        (
            np.r_[1.0, 0, np.ones(18)],
            "`weights[1]` is 0; every weight must be positive: leave out rows that do not count.",
        ),
        (
            np.r_[1.0, -2, np.ones(18)],
            "`weights[1]` is -2; every weight must be positive: leave out rows that do not count.",
        ),
        (np.r_[np.ones(19), np.inf], "`weights[19]` is inf; every entry must be finite."),
        (
            np.r_[1e-300, np.ones(18), 1e300],
            "`weights[0]` is 1e-300 and the largest is 1e+300: their ratio leaves the range of doubles; leave out rows "
            "that do not count.",
        ),
    ],
)
def test_weights_that_do_not_fit(weights, message):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        choose_shift(*sample(20, 3), weights=weights)
    assert str(caught.value) == message


def test_a_regressor_of_one_row_that_counts_is_refused():
    X, y = sample(20, 3)
    with pytest.raises(ValueError, match="at least 2") as caught:
        ShiftedDescentRegressor().fit(X, y, sample_weight=np.eye(20)[0])
    assert str(caught.value) == "`sample_weight` is positive for 1 rows; the weights of at least 2 must be positive."


# --- what the choice is worth ----------------------------------------------------------------------------------------


def spike_and_tail(seed, heads, n=200):
    """Twice n rows: a head that carries the signal, and 40 n flat columns of variance 0.025, so that the floor is 1."""
    rng = np.random.default_rng(seed)
    heads = np.array(heads)
    variances = np.r_[heads, np.full(40 * n, 0.025)]
    X = rng.normal(size=(2 * n, variances.size)) * np.sqrt(variances)
    truth = np.r_[1 / np.sqrt(heads.size * heads), np.zeros(40 * n)]
    return X, X @ truth + 0.1 * rng.normal(size=2 * n), lambda b: float(variances @ (b - truth) ** 2)


@pytest.mark.parametrize(
    ("heads", "least_norm", "chosen"),
    # Means over six draws and their standard errors, of other draws and another grid: excess risk of the ridgeless fit;
    # of the best pair of a grid (one head) and of the same (two heads).
    [([1.0], (0.24394, 0.0097), (0.02408, 0.0009)), ([4.0, 0.4], (0.28580, 0.0093), (0.08031, 0.0043))],
)
def test_amplification_recovers_what_the_tail_hides(heads, least_norm, chosen):
    """With a floor of 1 the ridgeless fit keeps half of a head of variance 1; the shift gives it back."""
    risks = []
    for seed in range(3):
        X, y, risk = spike_and_tail(seed, heads)
        choice = choose_shift(X, y, hold_out=0.5, seed=seed, intercept=False)
        risks.append((risk(choice.fit.ridgeless), risk(choice.fit.coef)))
        assert choice.fit.filter.max() > 1
    ridgeless, shifted = np.mean(risks, axis=0)
    # Three standard errors of a difference of means of six and of three draws.
    spread = 3 * math.sqrt(1 + 6 / 3)
    assert ridgeless == pytest.approx(least_norm[0], abs=spread * least_norm[1])
    assert shifted == pytest.approx(chosen[0], abs=spread * chosen[1])


def test_the_bound_of_a_hold_out_holds_as_often_as_it_says():
    """Gaussian rows, an exact error on new rows: at most a share alpha of the bounds may fail, and the error itself,
    least of many, is too small far more often than that."""
    alpha, below, failed, worse, n_runs = 0.25, 0, 0, 0, 100
    truth = np.array([1.0, -1, 0.5, 0, 0])
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 5))
        y = X @ truth + rng.normal(size=400)
        choice = choose_shift(X, y, nu=[0.0, 0.05], t=[1.0, 2, 3, 4], hold_out=0.8, seed=seed, alpha=alpha)
        assert choice.n_held_out == 320
        exact = 1 + np.sum((choice.fit.coef - truth) ** 2) + choice.fit.intercept**2
        train = np.sort(np.random.default_rng(seed).permutation(400)[320:])
        best = min(
            1 + np.sum((fit.coef - truth) ** 2) + fit.intercept**2
            for fit in (fit_shift(X[train], y[train], nu=nu, t=t) for nu in choice.nus for t in choice.ts)
        )
        below += exact > choice.error
        failed += exact > choice.error_bound
        worse += exact > choice.oracle_factor * best
    assert failed <= alpha * n_runs
    assert worse <= alpha * n_runs
    assert below > alpha * n_runs


def test_bounds_need_rows_and_one_part():
    X, y = sample(60, 5)
    few = choose_shift(X, y, nu=[0.0, 0.1], t=[1.0, 2.0])
    # log(4 / 0.05) = 4.4: of fifteen rows held out the bound needs more than four times that.
    assert few.n_held_out == 15
    assert (few.error_bound, few.oracle_factor) == (math.inf, math.inf)
    more = choose_shift(X, y, nu=[0.0, 0.1], t=[1.0, 2.0], hold_out=0.75)
    assert more.error_bound == pytest.approx(more.error / (1 - 2 * math.sqrt(math.log(4 / 0.05) / 45)), rel=1e-14)
    folds = ShiftedDescentRegressor().fit(X, y)
    assert folds.error_bound_ is None
    assert folds.oracle_factor_ is None


def test_the_default_grid_spans_the_spectrum():
    m = np.array([5.0, 1.0, 1.0, 1.0, 0.2])
    nus, ts = default_grid(m)
    assert (nus[0], nus.max(), ts[-1]) == (0, pytest.approx(5), math.inf)
    assert 1.0 in nus
    assert ts[0] == pytest.approx(0.01)
    assert ts[-2] == pytest.approx(100)
    assert [list(a) for a in default_grid(np.zeros(0))] == [[0], [math.inf]]


# --- as scikit-learn uses it -----------------------------------------------------------------------------------------


def test_it_works_in_pipelines_searches_and_pickles():
    X, y = map(np.asarray, load_diabetes(return_X_y=True))
    model = make_pipeline(StandardScaler(), ShiftedDescentRegressor())
    # Least squares comes to 0.48 on these data; noise of the folds is 0.05.
    assert cross_val_score(model, X, y, cv=5).mean() > 0.43
    search = GridSearchCV(
        ShiftedDescentRegressor(selection=None), {"nu": [0.0, 1e-5], "t": [10.0, 1e4, math.inf]}, cv=3
    )
    search.fit(X, y)
    copied = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(copied.predict(X), search.predict(X))
    assert not hasattr(clone(search.best_estimator_), "coef_")


def test_names_of_columns_are_kept_and_checked():
    X, y = sample(20, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model: Any = ShiftedDescentRegressor().fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.coef_, ShiftedDescentRegressor().fit(X, y).coef_)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["c", "b", "a"]])


@pytest.mark.parametrize("cv", [2, 100, LeaveOneOut(), TimeSeriesSplit(3), [(range(10), range(10, 20))]])
def test_folds_of_every_kind(cv):
    X, y = sample(20, 3)
    model: Any = ShiftedDescentRegressor(cv=cv).fit(X, y)
    assert model.choice_.n_folds == {2: 2, 100: 20}.get(cv if isinstance(cv, int) else 0, model.choice_.n_folds)
    assert model.errors_.shape == (model.nu_grid_.size, model.t_grid_.size)
    assert model.errors_.min() == pytest.approx(model.choice_.error)


def test_the_seed_decides():
    X, y = sample(40, 8)
    fits = [ShiftedDescentRegressor(selection="holdout", random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].errors_, fits[1].errors_)
    assert (fits[0].errors_ != fits[2].errors_).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"selection": "loo"}, "`selection` must be 'cv', 'holdout' or None; got 'loo'."),
        ({"fit_intercept": "yes"}, "`fit_intercept` must be True or False; got 'yes'."),
        ({"cv": 1}, "`cv` must be at least 2 folds; got 1."),
        ({"cv": False}, "`cv` must be a number of folds, or what scikit-learn takes as `cv`; got False."),
        ({"nu": -1.0}, "`nu` must be finite and not negative; got -1."),
        ({"nu": [0.0, math.inf]}, "`nu` must be finite and not negative; got inf."),
        ({"t": [1.0, math.nan]}, "`t` must be not negative; got nan."),
        ({"t": []}, "`t` must be a number or a list of numbers; got shape (0,)."),
        ({"nu": [[1.0]]}, "`nu` must be a number or a list of numbers; got shape (1, 1)."),
        ({"selection": None, "nu": [1.0, 2.0], "t": 1.0}, "`nu` and `t` must be one number each; got 2 and 1 of them."),
        (
            {"selection": "holdout", "holdout_fraction": 1.0},
            "`holdout_fraction` is a share of the rows, between 0 and 1, both excluded; got 1.0.",
        ),
        ({"alpha": 0}, "`alpha` must lie between 0 and 1, both excluded; got 0."),
        (
            {"selection": None, "nu": 1e6, "t": 1.0},
            "with `nu` = 1e+06 and `t` = 1 the coefficients leave the range of doubles; take a smaller `t` or `nu`.",
        ),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=r"^`|^with") as caught:
        ShiftedDescentRegressor(**parameters).fit(*sample(20, 3))
    assert str(caught.value) == message


def test_an_endpoint_beyond_the_spectrum_is_refused():
    X, y = np.diag([1.0, 2.0, 4.0]), np.ones(3)
    inside = fit_shift(X, y, nu=0.33, t=math.inf, intercept=False)
    np.testing.assert_allclose(inside.filter, [16 / (16 - 0.99), 4 / (4 - 0.99), 1 / (1 - 0.99)], rtol=1e-13)
    with pytest.raises(ValueError, match="endpoint") as caught:
        fit_shift(X, y, nu=0.34, t=math.inf, intercept=False)
    assert str(caught.value) == (
        "`nu` = 0.34 is not below the smallest nonzero eigenvalue 0.333333: the flow has no endpoint with this shift; "
        "take a finite `t`, or a smaller `nu`."
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X": np.ones((1, 2)), "y": [1.0]}, "`X` has shape (1, 2); there must be two rows and a column at least."),
        ({"y": np.ones(3)}, "`X` has shape (20, 3) and `y` has shape (3,): 20 rows against 3."),
        ({"X": np.full((20, 3), np.nan)}, "`X[0, 0]` is nan (60 such entries of 60); every entry must be finite."),
        ({"splits": []}, "`splits` is empty; give at least one pair of training rows and rows to judge by."),
        ({"splits": [([0, 1], [])]}, "a split has 2 training rows and 0 rows to judge by; both need some."),
        (
            {"splits": [([0, 1, 2], [2, 3])]},
            "row 2 is both trained on and judged by: its error says nothing about new rows.",
        ),
        (
            {"X": 1e-200 * sample(20, 3)[0]},
            "a shift in units of `X` leaves the range of doubles, as squares of its entries do; divide `X` by its "
            "largest entry.",
        ),
    ],
)
def test_data_that_do_not_fit(given, message):
    X, y = sample(20, 3)
    with pytest.raises(ValueError, match=r"\.$") as caught:
        choose_shift(**({"X": X, "y": y} | given))
    assert str(caught.value) == message


def test_one_split_for_cv_still_fits_all_rows():
    X, y = sample(40, 5)
    model = ShiftedDescentRegressor(cv=ShuffleSplit(1, test_size=0.5, random_state=0)).fit(X, y)
    choice: Any = model.choice_
    assert choice.fit.n == 40
    assert choice.n_held_out == 20
    assert (model.error_bound_, model.oracle_factor_) == (None, None)
    same = fit_shift(X, y, nu=model.nu_, t=model.t_)
    assert np.array_equal(model.coef_, same.coef)
    held = choose_shift(X, y, splits=[(np.arange(20), np.arange(20, 40))])
    assert held.fit.n == 20
    assert held.error_bound is not None
    with pytest.raises(
        ValueError, match=r"^with 2 splits there is no one part to keep the fit of: take `refit=True`\.$"
    ):
        choose_shift(X, y, splits=[(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))], refit=False)


def test_the_default_grid_has_admissible_shifts_whatever_the_spectrum():
    eigenvalues = np.array([1.0, 0.5, 0.1, 2e-5])
    shifts, _ = default_grid(eigenvalues)
    assert np.array_equal(shifts[:6], [0.0, *(2e-5 * np.array([0.5, 0.8, 0.9, 0.95, 0.99]))])
    assert shifts[6] > 2e-5
    # A signal on the smallest eigenvalue, seen shrunk: only an endpoint near it brings it back.
    X = np.diag(np.sqrt(4 * eigenvalues))
    choice = choose_shift(
        np.r_[X, X], np.r_[X[:, 3] * 0.1, X[:, 3]], splits=[(np.arange(4), np.arange(4, 8))], intercept=False
    )
    assert choice.nu == 0.9 * float(choice.fit.eigenvalues[-1])  # 1 / (1 - 0.9) = 10
    assert choice.t == math.inf


@pytest.mark.parametrize("size", [1e-200, 1e300, 1e307])
def test_a_response_whose_squares_are_no_doubles_is_refused(size):
    X, y = sample(40, 5)
    with pytest.raises(
        ValueError, match=r"^squares of `y` leave the range of doubles, and mean squared errors with them; "
    ):
        choose_shift(X * 1e-150, y / np.abs(y).max() * size)


@pytest.mark.parametrize(("x", "y"), [(1e-150, 1e200), (1e200, 1e-200)])
def test_coefficients_that_are_no_doubles_are_refused(x, y):
    X, response = sample(40, 5)
    message = (
        "the coefficients, in units of `y` over those of `X`, leave the range of doubles; divide `X` and `y` by their "
        "largest entries."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        fit_shift(X * x, response * y, nu=0.0, t=math.inf)
    with pytest.raises(ValueError, match=r"^squares of `X` leave the range of doubles, and eigenvalues with them; "):
        fit_shift(X * 1e200, response * 1e200, nu=0.0, t=math.inf)
    assert np.isfinite(fit_shift(X * 1e-150, response * 1e150, nu=0.0, t=math.inf).coef).all()


def test_a_large_response_is_refused_without_a_raw_warning():
    X, y = sample(40, 5)
    with pytest.raises(ValueError, match=r"^squares of `y` leave the range of doubles"):
        ShiftedDescentRegressor().fit(X, y / np.abs(y).max() * 1e307)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"alpha": "a"}, TypeError, "`alpha` must hold real numbers; it holds text (dtype <U1)."),
        (
            {"selection": "holdout", "holdout_fraction": "a"},
            ValueError,
            "`holdout_fraction` is a share of the rows, between 0 and 1, both excluded; got 'a'.",
        ),
    ],
)
def test_parameters_that_are_no_numbers_are_told(parameters, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        ShiftedDescentRegressor(**parameters).fit(*sample(20, 3))
