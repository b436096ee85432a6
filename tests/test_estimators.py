"""The classifier: scikit-learn's own checks, the right margins where its SVMs are silently wrong, honest refusals."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from _margins import s40
from omegalimit import MaxMarginClassifier


@parametrize_with_checks(
    [
        MaxMarginClassifier(),
        MaxMarginClassifier("l1"),
        MaxMarginClassifier("linf", fit_intercept=False),
        MaxMarginClassifier("lp", p=1.5, fit_intercept="penalised"),
        MaxMarginClassifier("fourier-l1"),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks' data are not all separable
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def points():
    """40 points of ten features, both labels, separable through the origin."""
    rows = s40()
    y = np.where(np.arange(40) % 2 == 0, 1, -1)
    return rows * y[:, None], y


@pytest.mark.parametrize("fit_intercept", [True, False, "penalised"])
@pytest.mark.parametrize(("norm", "extra"), [("l1", {}), ("l2", {}), ("linf", {}), ("lp", {"p": 3}), ("group-l1", {})])
def test_coefficients_have_least_margin_one_and_the_certified_margin(norm, extra, fit_intercept):
    X, y = points()
    extra = extra | ({"groups": np.arange(10) // 2} if norm == "group-l1" else {})
    model = MaxMarginClassifier(norm, fit_intercept=fit_intercept, **extra).fit(X, y)
    assert model.status_ == "optimal"
    assert model.farkas_ is None
    margins = y * model.decision_function(X)
    assert margins.min() == pytest.approx(1, rel=1e-12)
    assert model.score(X, y) == 1
    assert (model.intercept_[0] == 0) or fit_intercept
    np.testing.assert_allclose(margins[model.support_], 1, rtol=1e-7)
    assert model.certificate_.gap <= 1e-8
    sparse: Any = clone(model)
    sparse.fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, model.coef_, rtol=1e-5, atol=1e-7)


def test_labels_of_any_kind():
    X, y = points()
    names = np.where(y > 0, "yes", "no")
    model = MaxMarginClassifier(fit_intercept=False).fit(X, names)
    assert list(model.classes_) == ["no", "yes"]
    assert (model.predict(X) == names).all()
    assert MaxMarginClassifier(fit_intercept=False).fit(X, y == 1).predict(X).dtype == bool


def test_it_works_in_pipelines_and_cross_validation():
    X, y = points()
    model = make_pipeline(StandardScaler(), MaxMarginClassifier())
    assert cross_val_score(model, X, y, cv=4).mean() > 0.5


# Where the usual tools are silently wrong.


def test_a_huge_penalty_is_not_the_hard_margin():
    """LinearSVC with C = 1e9 on separable data: no warning of a wrong answer, margin 1.9 percent low."""
    X, y = points()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        soft = LinearSVC(C=1e9, fit_intercept=False, random_state=0).fit(X, y)
    ours = MaxMarginClassifier(fit_intercept=False).fit(X, y)
    w = soft.coef_[0]
    theirs = (y * (X @ w)).min() / np.linalg.norm(w)
    assert ours.margin_ == pytest.approx(0.4602, abs=5e-5)
    assert theirs < 0.99 * ours.margin_
    # The same judge takes their coefficients: the bounds show what is missing.
    assert 0.01 < ours.certificate_.upper / theirs - 1 < 0.03


def test_small_units_are_not_shrunk_away():
    """SVC with C = 1e6 on data in units of 1e-6 leaves points on the wrong side; the margin is what it was."""
    X, y = points()
    small = SVC(kernel="linear", C=1e6).fit(1e-6 * X, y)
    ours, unit = MaxMarginClassifier().fit(1e-6 * X, y), MaxMarginClassifier().fit(X, y)
    w = small.coef_[0]
    assert (y * (1e-6 * X @ w + small.intercept_)).min() < 0
    assert 1e6 * ours.margin_ == pytest.approx(unit.margin_, rel=1e-12)


def test_a_default_penalty_puts_a_point_on_the_wrong_side():
    """Two points at 10 and 11: the boundary is 10.5. LinearSVC, with C = 1, puts it below both."""
    X, y = np.array([[10.0], [11.0]]), np.array([-1, 1])
    soft = LinearSVC(random_state=0, max_iter=10**6).fit(X, y)
    assert -np.ravel(soft.intercept_)[0] / soft.coef_[0, 0] < 9
    ours = MaxMarginClassifier().fit(X, y)
    assert -ours.intercept_[0] / ours.coef_[0, 0] == pytest.approx(10.5, rel=1e-14)
    assert ours.margin_ == pytest.approx(0.5, rel=1e-14)
    assert MaxMarginClassifier(fit_intercept="penalised").fit(X, y).margin_ < 0.05


# No maximum margin.


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_data_that_are_not_separable_warn_and_come_with_their_proof(norm):
    X, y = np.array([[0.0, 1], [1, 0], [0, 1], [1, 0], [5, 5], [-5, -5]]), np.array([0, 0, 1, 1, 1, 0])
    with pytest.warns(ConvergenceWarning, match="not separable") as caught:
        model = MaxMarginClassifier(norm).fit(X, y)
    assert len(caught) == 1
    assert model.status_ == "not separable"
    signed = np.where(y == 1, 1, -1) * model.farkas_
    np.testing.assert_allclose(signed @ X, 0, atol=1e-14)
    assert signed.sum() == pytest.approx(0, abs=1e-15)
    assert model.farkas_ is not None
    assert model.farkas_.min() >= 0
    assert model.predict([[5, 5], [-5, -5]]).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"^The data are not separable: .* There is no maximum margin\.$"):
        MaxMarginClassifier(norm, on_not_separable="raise").fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"norm": "nuclear"}, "`norm` must be one of l1, l2, linf, lp, group-l1, fourier-l1; got 'nuclear'."),
        ({"on_not_separable": "ignore"}, "`on_not_separable` must be 'warn' or 'raise'; got 'ignore'."),
        ({"fit_intercept": "free"}, "`fit_intercept` must be True, False or 'penalised'; got 'free'."),
        ({"norm": "lp"}, "The norm 'lp' needs `p`, a number above 1; got none."),
        ({"tol": 0.0}, "`tol` must lie between 0 and 1, both excluded; got 0.0."),
    ],
)
def test_bad_parameters_are_named(parameters, text):
    with pytest.raises(ValueError, match=r"must|needs") as caught:
        MaxMarginClassifier(**parameters).fit(*points())
    assert str(caught.value) == text


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="class") as caught:
        MaxMarginClassifier().fit(np.eye(3), [1, 1, 1])
    assert "one class" in str(caught.value)
