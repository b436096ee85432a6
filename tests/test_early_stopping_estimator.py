"""Early-stopped logistic regression: scikit-learn's checks, plain descent as reference, weights, the choice in time."""

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from omegalimit.estimators._dealt_rows import folds, hold_out_part
from omegalimit.estimators._softmax_descent import Part
from omegalimit.estimators.early_stopping import EarlyStoppedLogisticRegression
from omegalimit.estimators.max_margin import MaxMarginClassifier
from omegalimit.estimators.shifted_descent import ShiftedDescentRegressor
from omegalimit.flows.logistic_descent import logistic_descent


@parametrize_with_checks(
    [
        EarlyStoppedLogisticRegression(max_steps=300),
        EarlyStoppedLogisticRegression(n_steps=300),
        EarlyStoppedLogisticRegression(cv=3, max_steps=300, criterion="error"),
        EarlyStoppedLogisticRegression(refit=False, centre=False, max_steps=300, patience=None),
        EarlyStoppedLogisticRegression(n_steps=300, fit_intercept=False, step_size=0.1),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some of the checks' data are separable
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def sample(n=60, d=5, *, n_classes=2, seed=0, noise=0.15):
    """Rows with means and unequal scales, uneven classes, and labels of which some are wrong."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_classes, size=n, p=np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2))
    X = (rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d))) * np.geomspace(1, 0.2, d) + 1.5
    wrong = rng.random(n) < noise
    return X, np.where(wrong, rng.permutation(y), y)


def plain(X, y, weights, *, steps, step_size, intercept, centre):
    """The same descent for one score a class, written out: `(d, K)` and `(K,)`, and the mean loss at each step."""
    c = weights / weights.sum()
    middle = c @ X if centre else np.zeros(X.shape[1])
    A, K = X - middle, int(y.max()) + 1
    onehot = np.eye(K)[y]
    unit = np.sqrt(np.linalg.eigvalsh(A.T * c @ A)[-1])
    W, v = np.zeros((X.shape[1], K)), np.log(c @ onehot) / unit if intercept else np.zeros(K)
    v = v - v.mean()
    losses = []
    for _ in range(steps + 1):
        scores = A @ W + unit * v
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        losses.append(-c @ np.log(p[np.arange(len(y)), y]))
        if len(losses) <= steps:
            R = c[:, None] * (p - onehot)
            W, v = W - step_size * A.T @ R, v - step_size * unit * R.sum(axis=0) * intercept
    return W, unit * v - middle @ W, losses


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(60, 5, 2), (60, 5, 3), (12, 30, 2), (12, 30, 4)])
def test_the_fit_is_plain_descent(n, d, n_classes, intercept, centre):
    X, y = sample(n, d, n_classes=n_classes)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=n)
    model = EarlyStoppedLogisticRegression(n_steps=40, fit_intercept=intercept, centre=centre)
    model.fit(X, y, sample_weight=weights)
    # Two scores of opposite sign and a score that is their difference take the same way, one at half the step.
    step_size = model.step_size_ * (0.5 if n_classes == 2 else 1)
    # A difference of two scores moves twice as far as each of them.
    W, b, losses = plain(X, y, weights, steps=40, step_size=step_size, intercept=intercept, centre=centre)
    if n_classes == 2:
        W, b = W[:, 1:] - W[:, :1], b[1:] - b[:1]
    else:
        W, b = W - W.mean(axis=1, keepdims=True), b - b.mean()
    coef, level = model.coef_.T, model.intercept_
    if n_classes > 2:
        coef, level = coef - coef.mean(axis=1, keepdims=True), level - level.mean()
    # 40 contracting steps keep rounding where it is.
    np.testing.assert_allclose(coef, W, rtol=0, atol=1e-13 * np.abs(W).max())
    np.testing.assert_allclose(level, b, rtol=0, atol=1e-13 * max(np.abs(b).max(), np.abs(W).max()))
    assert (np.diff(losses) < 0).all()
    probable = model.predict_proba(X)
    np.testing.assert_allclose(probable.sum(axis=1), 1, rtol=1e-14)
    loss = -np.average(np.log(probable[np.arange(n), y]), weights=weights)
    assert loss == pytest.approx(losses[-1], rel=1e-12)
    assert (model.predict(X) == probable.argmax(axis=1)).all()
    assert (model.n_steps_, model.n_iter_, model.time_) == (40, 40, 40 * model.step_size_)
    assert (model.steps_, model.holdout_errors_, model.at_horizon_) == (None, None, False)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_default_step_is_safe_and_larger_ones_need_not_be(n_classes):
    """The loss falls at each step; with eight times the step it rises somewhere."""
    X, y = sample(n_classes=n_classes, noise=0.9)  # hardly a signal: the curvature stays near its bound
    X = X - X.mean(axis=0)
    model = EarlyStoppedLogisticRegression(n_steps=0, fit_intercept=False, centre=False).fit(X, y)
    ways = {}
    for factor in (1.0, 8.0):
        step = factor * model.step_size_ * (0.5 if n_classes == 2 else 1)
        one = np.ones(len(y))
        ways[factor] = np.diff(plain(X, y, one, steps=200, step_size=step, intercept=False, centre=False)[2])
    assert (ways[1.0] < 0).all()
    assert (ways[8.0] > 0).any()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_a_step_that_may_raise_the_loss_is_told(n_classes, scale):
    X, y = sample(n_classes=n_classes)
    stable = EarlyStoppedLogisticRegression(n_steps=3).fit(scale * X, y).step_size_
    # A warning would be an error here.
    EarlyStoppedLogisticRegression(n_steps=3, step_size=2 * stable).fit(scale * X, y)
    for step in (2.001 * stable, 1e300 if scale == 1 else 1e5 * stable):
        with pytest.warns(ConvergenceWarning, match="`step_size`") as caught:
            model: Any = EarlyStoppedLogisticRegression(n_steps=3, step_size=step).fit(scale * X, y)
        assert str(caught[0].message) == (
            f"`step_size` = {step:g} is above {2 * stable:g}, beyond which a step may raise the loss, and descent need "
            "not settle; take a smaller one, or None for half of that."
        )
        assert (len(caught), caught[0].filename) == (1, __file__)
        assert np.isfinite(model.predict_proba(scale * X)).all()
    # Parts have their own curvature: the size that is named is safe for all of them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        chosen = EarlyStoppedLogisticRegression(max_steps=3).fit(scale * X, y).step_size_
        assert chosen < stable
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        EarlyStoppedLogisticRegression(max_steps=3, step_size=2.001 * chosen).fit(scale * X, y)
    assert f"is above {2 * chosen:g}, " in str(told[0].message)


def test_masked_entries_are_refused():
    X, y = sample()
    masked = np.ma.masked_greater(X, X.max() - 1e-9)
    i, j = np.argwhere(masked.mask)[0]
    message = f"`X[{i}, {j}]` is masked; fill masked entries in, or leave out their rows."
    fitted = EarlyStoppedLogisticRegression(n_steps=3).fit(np.ma.array(X), y)  # nothing is masked
    for call in (
        lambda: EarlyStoppedLogisticRegression(n_steps=3).fit(masked, y),
        lambda: fitted.predict(masked),
        lambda: MaxMarginClassifier().fit(masked, y),
        lambda: ShiftedDescentRegressor().fit(masked, y),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()
    with pytest.raises(ValueError, match=r"^`y\[0\]` is masked; fill"):
        EarlyStoppedLogisticRegression().fit(X, np.ma.array(y, mask=np.arange(60) == 0))


def test_without_steps_it_is_the_shares_of_the_classes():
    for n_classes in (2, 4):
        X, y = sample(n_classes=n_classes)
        weights = np.random.default_rng(0).uniform(size=len(y))
        model = EarlyStoppedLogisticRegression(n_steps=0).fit(X, y, sample_weight=weights)
        shares = np.bincount(y, weights=weights) / weights.sum()
        np.testing.assert_allclose(model.predict_proba(X), np.tile(shares, (len(y), 1)), rtol=1e-13)
        assert not model.coef_.any()


def test_where_the_classes_divide():
    X, y = sample()
    fit: dict[tuple[bool, bool], Any] = {
        (intercept, centre): EarlyStoppedLogisticRegression(n_steps=50, fit_intercept=intercept, centre=centre).fit(
            X, y
        )
        for intercept in (True, False)
        for centre in (True, False)
    }
    assert fit[False, False].intercept_ == 0
    # At the mean of the rows: up to the rounding of a sum of five products.
    assert fit[False, True].decision_function(X.mean(axis=0, keepdims=True)) == pytest.approx(0, abs=1e-14)
    assert fit[False, True].intercept_[0] != 0
    assert abs(fit[True, True].decision_function(X.mean(axis=0, keepdims=True))[0]) > 1e-3
    default = EarlyStoppedLogisticRegression(n_steps=50).fit(X, y)
    np.testing.assert_array_equal(default.coef_, fit[True, True].coef_)
    default = EarlyStoppedLogisticRegression(n_steps=50, fit_intercept=False).fit(X, y)
    np.testing.assert_array_equal(default.coef_, fit[False, False].coef_)
    # Where all columns move by a constant, only what is not centred sees it.
    for (intercept, centre), model in fit.items():
        there: Any = clone(model)
        moved = there.fit(X + 3, y).decision_function(X + 3)
        assert np.allclose(moved, model.decision_function(X), rtol=1e-9, atol=1e-12) == centre, (intercept, centre)


# --- weights ---------------------------------------------------------------------------------------------------------

WAYS = [
    {"n_steps": 200},
    {"n_steps": 200, "fit_intercept": False},
    {"n_steps": 200, "centre": False},
    {"max_steps": 200},
    {"max_steps": 200, "refit": False, "criterion": "error"},
    {"max_steps": 200, "cv": 3},
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize(("n", "d"), [(40, 4), (18, 30)])
def test_a_weight_of_k_is_k_rows(options, n_classes, n, d):
    X, y = sample(n, d, n_classes=n_classes, seed=1)
    weights = np.random.default_rng(2).integers(0, 4, size=n)
    order = np.random.default_rng(3).permutation(weights.sum())
    many = np.repeat(np.arange(n), weights)[order]
    weighted: Any = EarlyStoppedLogisticRegression(**options).fit(X, y, sample_weight=5.0 * weights)
    repeated: Any = EarlyStoppedLogisticRegression(**options).fit(X[many], y[many])
    assert weighted.n_steps_ == repeated.n_steps_
    # Rounding of sums in another order, over two hundred steps that do not amplify it.
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-11 * np.abs(repeated.coef_).max())
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-9, atol=1e-12)
    if weighted.holdout_errors_ is not None:
        np.testing.assert_allclose(weighted.holdout_errors_, repeated.holdout_errors_, rtol=1e-10)
    alike = EarlyStoppedLogisticRegression(**options).fit(X, y)
    assert np.abs(alike.coef_ - repeated.coef_).max() > 1e-3 * np.abs(repeated.coef_).max()


def test_rows_of_weight_zero_are_absent():
    X, y = sample(n_classes=3)
    weights = (y != 1).astype(float)
    model = EarlyStoppedLogisticRegression(n_steps=10).fit(X, y, sample_weight=weights)
    assert model.classes_.tolist() == [0, 2]
    with pytest.raises(ValueError, match="class") as caught:
        EarlyStoppedLogisticRegression().fit(X, y, sample_weight=(y == 1).astype(float))
    assert str(caught.value) == (
        f"`y` must hold two classes at least; all {(y == 1).sum()} rows of positive weight are of one class, 1."
    )
    huge = EarlyStoppedLogisticRegression(n_steps=10).fit(X, y, sample_weight=1e308 * weights)
    np.testing.assert_allclose(huge.coef_, model.coef_, rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "kind", "text"),
    [
        (np.ones(3), ValueError, "`sample_weight` has 3 entries, and there are 60 rows; give one for each."),
        (np.ones((60, 1)), ValueError, "`sample_weight` must have shape (n,); got (60, 1)."),
        (
            np.r_[np.ones(59), -2],
            ValueError,
            "`sample_weight[59]` is -2; no weight may be negative: take zero for rows that are not to count.",
        ),
        (np.r_[np.nan, np.ones(59)], ValueError, "`sample_weight[0]` is nan; every entry must be finite."),
        (
            np.zeros(60),
            ValueError,
            "`sample_weight` is zero for all 60 rows; the weights of at least 1 must be positive.",
        ),
        (
            np.r_[1.0, 1e300, np.ones(57), 1e-300],
            ValueError,
            "`sample_weight[59]` is 1e-300 and the largest is 1e+300: their ratio leaves the range of doubles; take "
            "zero for rows that are not to count.",
        ),
        (
            np.ma.masked_less(np.arange(60.0), 1),
            ValueError,
            "`sample_weight[0]` is masked; fill masked entries in, or leave out their rows.",
        ),
        (["a"] * 60, TypeError, "`sample_weight` must hold real numbers; it holds text (dtype <U1)."),
    ],
)
def test_weights_that_are_refused(weights, kind, text):
    with pytest.raises(kind) as caught:
        EarlyStoppedLogisticRegression().fit(*sample(), sample_weight=weights)
    assert str(caught.value) == text


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("criterion", ["log_loss", "error"])
def test_the_path_is_the_fits_one_by_one(criterion, n_classes):
    """Every step that was tried, fitted afresh on the training part and judged on the rows held out."""
    X, y = sample(120, 8, n_classes=n_classes, seed=3)
    model: Any = EarlyStoppedLogisticRegression(criterion=criterion, max_steps=150, patience=None, refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    ((train, judge),) = hold_out_part(X, y, 0.25, np.random.RandomState(0), classes=True)
    assert (model.steps_[:21] == np.arange(21)).all()
    assert model.steps_[-1] == 150
    assert (model.steps_[21:] / model.steps_[20:-1]).max() < 1.1
    step = model.step_size_
    for k in (0, 5, 20, len(model.steps_) - 1):
        # The unit of the intercept is that of all rows; without one there is nothing else that they share.
        one = EarlyStoppedLogisticRegression(n_steps=int(model.steps_[k]), step_size=step, fit_intercept=False)
        other: Any = clone(model)
        other.set_params(fit_intercept=False, step_size=step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            other.fit(X, y)
            one.fit(X[train], y[train])  # that step is large for rows that are not centred
        probable = one.predict_proba(X[judge])[np.arange(judge.size), y[judge]]
        wanted = -np.log(probable).mean() if criterion == "log_loss" else 1 - one.score(X[judge], y[judge])
        assert other.holdout_errors_[k] == pytest.approx(wanted, rel=1e-12)
    best = int(np.argmin(model.holdout_errors_))
    assert model.n_steps_ == model.steps_[best]
    assert model.holdout_error_ == model.holdout_errors_[best]
    score = model.predict_proba(X[judge])[np.arange(judge.size), y[judge]]
    told = -np.log(score).mean() if criterion == "log_loss" else 1 - model.score(X[judge], y[judge])
    assert model.holdout_error_ == pytest.approx(told, rel=1e-12)


def test_all_rows_are_fitted_again_to_the_same_time():
    X, y = sample(120, 20, seed=4)
    kept = EarlyStoppedLogisticRegression(refit=False).fit(X, y)
    model = EarlyStoppedLogisticRegression().fit(X, y)
    assert (model.n_steps_, model.step_size_, model.time_) == (kept.n_steps_, kept.step_size_, kept.time_)
    np.testing.assert_array_equal(model.holdout_errors_, kept.holdout_errors_)
    again = EarlyStoppedLogisticRegression(n_steps=model.n_steps_, step_size=model.step_size_).fit(X, y)
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=1e-12)
    assert np.abs(kept.coef_ - model.coef_).max() > 1e-3
    parts = EarlyStoppedLogisticRegression(cv=4).fit(X, y)
    again = EarlyStoppedLogisticRegression(n_steps=parts.n_steps_, step_size=parts.step_size_).fit(X, y)
    np.testing.assert_allclose(parts.coef_, again.coef_, rtol=1e-12)


def test_parts_that_take_turns_are_averaged_over_the_rows():
    X, y = sample(50, 6, seed=5)
    whole: Any = EarlyStoppedLogisticRegression(max_steps=30, patience=None, step_size=0.2, fit_intercept=False)
    splits = [(np.arange(10, 50), np.arange(10)), (np.arange(30), np.arange(30, 50))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        both, *alone = (whole.set_params(cv=cv).fit(X, y).holdout_errors_ for cv in (splits, splits[:1], splits[1:]))
    np.testing.assert_allclose(both, (10 * alone[0] + 20 * alone[1]) / 30, rtol=1e-13)


def test_a_best_time_at_the_horizon_is_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.sign(X[:, 0])
    X[:, 0] += 0.2 * y  # separable: the loss of rows held out falls for ever
    with pytest.warns(ConvergenceWarning, match="max_steps") as caught:
        model: Any = EarlyStoppedLogisticRegression(max_steps=50).fit(X, y)
    assert str(caught[0].message) == (
        "The log_loss on the rows held out was least after the last of `max_steps` = 50 steps, so that later times may "
        "be better; take a larger `max_steps`."
    )
    assert caught[0].filename == __file__
    assert (model.at_horizon_, model.n_steps_, model.steps_[-1]) == (True, 50, 50)
    X, y = sample(80, 20, noise=0.4)
    model = EarlyStoppedLogisticRegression().fit(X, y)  # a warning would be an error here
    assert not model.at_horizon_
    # The search ended when ten times the best time had passed, in steps of five percent; one hundred steps at least.
    assert max(10 * model.n_steps_, 100) < model.steps_[-1] < 1.1 * max(10 * model.n_steps_, 100)
    long: Any = EarlyStoppedLogisticRegression(patience=None, max_steps=3000).fit(X, y)
    assert long.steps_[-1] == 3000
    assert long.n_steps_ == model.n_steps_


def test_noise_in_the_labels_is_what_it_is_for():
    """More columns than rows, a tenth of the labels flipped: descent that goes on fits them all, and pays for it.

    Clean accuracy on new rows, twelve draws. Both means are from the same draws, and the difference is judged by its
    spread over them: 3 standard errors, so that chance does it less than once in a thousand.
    """
    gains = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d, n = 120, 100
        mean = 2.0 * np.arange(1, d + 1) ** -1.0
        clean = rng.choice([-1, 1], size=n + 2000)
        X = clean[:, None] * mean + rng.normal(size=(n + 2000, d)) * np.arange(1, d + 1) ** -0.4
        y = np.where(rng.random(n + 2000) < 0.1, -clean, clean)
        stopped = EarlyStoppedLogisticRegression(random_state=seed).fit(X[:n], y[:n])
        late = EarlyStoppedLogisticRegression(n_steps=5000).fit(X[:n], y[:n])
        assert late.score(X[:n], y[:n]) == 1
        gains.append(stopped.score(X[n:], clean[n:]) - late.score(X[n:], clean[n:]))
    gains = np.array(gains)
    assert gains.mean() > 3 * gains.std(ddof=1) / np.sqrt(gains.size)


# --- units, threads, tools -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{}, {"n_steps": 100}, {"cv": 3, "max_steps": 500}])
def test_units_change_nothing(options):
    X, y = sample(n_classes=3)
    here = EarlyStoppedLogisticRegression(**options).fit(X, y)
    for power in (-500, 500):
        there = EarlyStoppedLogisticRegression(**options).fit(np.ldexp(X, power), y)
        np.testing.assert_array_equal(there.coef_, np.ldexp(here.coef_, -power))
        np.testing.assert_array_equal(there.intercept_, here.intercept_)
        assert there.time_ == np.ldexp(here.time_, -2 * power)
    for unit in (1e-150, 1e150):  # no power of two: the data are rounded
        there = EarlyStoppedLogisticRegression(**options).fit(unit * X, y)
        np.testing.assert_allclose(unit * there.coef_, here.coef_, rtol=1e-9)


def test_it_works_in_pipelines_searches_and_pickles():
    X, y = load_iris(return_X_y=True)
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    model = make_pipeline(StandardScaler(), EarlyStoppedLogisticRegression(max_steps=1000, cv=StratifiedKFold(3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Any sensible linear classifier has nine of ten right on these flowers.
        assert cross_val_score(model, X, words, cv=3).mean() > 0.9
        grid = {"criterion": ["log_loss", "error"], "holdout_fraction": [0.2, 0.4]}
        found = GridSearchCV(EarlyStoppedLogisticRegression(max_steps=100), grid, cv=2).fit(X, words)
    best: Any = found.best_estimator_
    copy = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(copy.predict_proba(X), best.predict_proba(X))
    assert set(copy.predict(X)) == set(words)


def test_sparse_rows_are_refused():
    X, y = sample()
    with pytest.raises(TypeError, match="dense data is required"):
        EarlyStoppedLogisticRegression().fit(scipy.sparse.csr_array(X), y)


def test_columns_that_say_nothing():
    """Zeros, or one value for all rows: the classes' shares, whatever the number of steps."""
    _, y = sample()
    for X in (np.zeros((60, 3)), np.full((60, 3), 7.0)):
        model = EarlyStoppedLogisticRegression(n_steps=50).fit(X, y)
        assert not model.coef_.any()
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), rtol=1e-13)


@pytest.mark.parametrize(
    ("parameters", "kind", "text"),
    [
        ({"n_steps": -1}, ValueError, "`n_steps` must be at least 0; got -1."),
        ({"n_steps": 1.5}, TypeError, "`n_steps` must be an integer; got 1.5."),
        ({"max_steps": 0}, ValueError, "`max_steps` must be at least 1; got 0."),
        ({"criterion": "loss"}, ValueError, "`criterion` must be 'log_loss' or 'error'; got 'loss'."),
        ({"refit": 1}, ValueError, "`refit` must be True or False; got 1."),
        ({"fit_intercept": "yes"}, ValueError, "`fit_intercept` must be True or False; got 'yes'."),
        ({"centre": 0}, ValueError, "`centre` must be True, False or None; got 0."),
        (
            {"holdout_fraction": 1.0},
            ValueError,
            "`holdout_fraction` is a share of the rows, between 0 and 1, both excluded; got 1.0.",
        ),
        ({"step_size": 0}, ValueError, "`step_size` must be a positive number or None; got 0."),
        ({"step_size": np.inf}, ValueError, "`step_size` must be a positive number or None; got inf."),
        ({"patience": 1}, ValueError, "`patience` must be a number above 1 or None; got 1."),
        ({"cv": 1}, ValueError, "`cv` must be at least 2 folds; got 1."),
        (
            {"cv": True},
            ValueError,
            "`cv` must be a number of folds, or what scikit-learn takes as `cv`; got True.",
        ),
        (
            {"cv": [(np.arange(5), np.arange(5, 60))]},
            ValueError,
            "a training part of `cv` has no row of class 0; deal the classes evenly.",
        ),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], kind, text):
    X, y = sample()
    order = np.argsort(-y, kind="stable")
    with pytest.raises(kind) as caught:
        EarlyStoppedLogisticRegression(**parameters).fit(X[order], y[order])
    assert str(caught.value) == text


def test_data_without_a_row_to_spare():
    X, y = np.array([[0.0], [1], [1]]), [0, 1, 1]
    for cv in (None, 2):
        with pytest.raises(ValueError, match="held out") as caught:
            EarlyStoppedLogisticRegression(cv=cv).fit(X, y)
        assert str(caught.value) == "no class has two different rows, so that none can be held out; say `n_steps`."
    assert EarlyStoppedLogisticRegression(n_steps=100).fit(X, y).predict(X).tolist() == y
    with pytest.raises(ValueError, match="class") as caught:
        EarlyStoppedLogisticRegression().fit(X, [1, 1, 1])
    assert str(caught.value) == "`y` must hold two classes at least; all 3 rows are of one class, 1."


# --- dealing ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=30), st.integers(0, 99))
@settings(max_examples=60)
def test_equal_rows_stay_together_and_no_class_is_left_out(rows, seed):
    X, y = np.array([[float(x)] for x, _ in rows]), np.array([label for _, label in rows])
    order = np.random.default_rng(seed).permutation(len(rows))
    distinct = {label: {x for x, other in rows if other == label} for label in set(y.tolist())}
    parts = hold_out_part(X, y, 0.3, np.random.RandomState(seed), classes=True)
    if not parts:
        assert all(len(values) == 1 for values in distinct.values())
        return
    (part,) = parts
    deals = [part, *folds(3, X, y, np.random.RandomState(seed), classes=True)]
    (moved,) = hold_out_part(X[order], y[order], 0.3, np.random.RandomState(seed), classes=True)
    assert {rows[order[i]] for i in moved[1]} == {rows[i] for i in part[1]}
    for train, judge in deals:
        assert sorted([*train, *judge]) == list(range(len(rows)))
        assert not {rows[i] for i in train} & {rows[i] for i in judge}
        assert set(y[train]) == set(y)
        assert judge.size
    n_held = {label: len({rows[i] for i in part[1] if y[i] == label}) for label in distinct}
    if sum(round(0.3 * len(values)) for values in distinct.values()):
        assert all(n_held[k] == min(round(0.3 * len(v)), len(v) - 1) for k, v in distinct.items())


def test_splits_of_others_are_taken_as_they_are():
    X, y = sample()
    splits = folds(ShuffleSplit(2, test_size=10, random_state=1), X, y, np.random.RandomState(0), classes=True)
    assert [judge.size for _, judge in splits] == [10, 10]


def test_losses_far_out_keep_their_digits():
    A, Y, c = np.array([[1.0], [-1.0]]), np.array([[1.0], [0.0]]), np.full(2, 0.5)
    for score in (1.0, 40.0, 700.0):
        W = np.array([[score]])
        assert Part(A=A, Y=Y, c=c).log_loss(W) == pytest.approx(np.log1p(np.exp(-score)), rel=1e-14)
        assert Part(A=A, Y=Y, c=c).log_loss(-W) == pytest.approx(score + np.log1p(np.exp(-score)), rel=1e-14)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 50)])
def test_it_is_the_descent_of_the_flows(n, d):
    """The same steps by other code: on `z = y x` and, for wide rows, in the coordinates `w = Z'alpha`."""
    X, y = sample(n, d, seed=9)
    c = np.random.default_rng(0).uniform(0.5, 2, size=n)
    run = logistic_descent(X * (2.0 * y - 1)[:, None], n_steps=60, marks=[7, 60], weights=c / c.sum())
    for k, steps in enumerate((7, 60)):
        model = EarlyStoppedLogisticRegression(n_steps=steps, fit_intercept=False).fit(X, y, sample_weight=c)
        assert model.step_size_ == pytest.approx(float(run.step_size), rel=1e-12)
        np.testing.assert_allclose(model.coef_[0], run.coef(k), rtol=1e-10, atol=1e-13)
