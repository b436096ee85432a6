"""The maximum margin as a scikit-learn classifier, with the certificate beside the coefficients."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse.linalg
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_unmasked
from ..limits import MaxMargin
from ..limits.norms import VECTOR_NORMS
from ..solvers import solve

_INTERCEPTS = {True: "free", False: "none", "penalised": "penalised"}


class MaxMarginClassifier(ClassifierMixin, BaseEstimator):
    """The linear classifier of maximum margin in a norm: `max_{w, b} min_k y_k (<x_k, w> + b) / |w|`, no penalty `C`.

    - `norm`: `"l1"`, `"l2"`, `"linf"`, `"lp"` (with `p`), `"group-l1"` (with `groups`, an integer label a feature) or
      `"fourier-l1"`.
    - `fit_intercept`: `True`: `b` is free, as in the usual hard-margin classifier. `False`: `b = 0`. `"penalised"`: the
      norm is that of `(w, b)`.
    - `tol`: the relative gap between the certified bounds that counts as optimal.
    - `on_not_separable`: `"warn"` (default) or `"raise"`: what `fit` does on data that no linear classifier separates.

    Fitted: `coef_` `(1, d)` and `intercept_` `(1,)`, scaled to least margin 1; `classes_`; `status_` (`"optimal"`,
    `"not separable"`, `"stalled"`); `certificate_`, with the bounds; `margin_`, the certified margin (its lower bound);
    `support_`, the rows that hold the solution, and `dual_coef_` `(1, N)`, their multipliers, of sum one, times the
    label; `farkas_`, the convex combination that is zero where the data are not separable, else `None`; `n_iter_`.

    On data that are not separable there is no maximum margin. `fit` then warns, sets `status_` and `farkas_`, and
    `coef_` is the direction of ordinary least squares on the labels, of least norm: a serviceable classifier, and no
    maximum margin in any sense; `certificate_` and `margin_` are then of the best point that was found, not of `coef_`.
    A `"stalled"` fit, where double precision ends before the bounds meet, warns too; its `coef_` has the margin that
    the certificate says.

    Two classes. `X` dense or sparse, `(N, d)`. `fit` raises `ValueError` for what scikit-learn's checks refuse, for
    parameters outside those listed, and with `on_not_separable="raise"` for data that are not separable.
    """

    def __init__(
        self,
        norm: str = "l2",
        *,
        p: float | None = None,
        groups: Any = None,
        fit_intercept: Any = True,
        tol: float = 1e-8,
        on_not_separable: str = "warn",
    ):
        self.norm = norm
        self.p = p
        self.groups = groups
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.on_not_separable = on_not_separable

    def fit(self, X: Any, y: Any) -> "MaxMarginClassifier":
        """Solve the problem on `X`, shape `(N, d)`, and two classes `y`, shape `(N,)`; returns itself."""
        if self.norm not in VECTOR_NORMS:
            raise ValueError(f"`norm` must be one of {', '.join(VECTOR_NORMS)}; got {self.norm!r}.")
        if self.on_not_separable not in ("warn", "raise"):
            raise ValueError(f"`on_not_separable` must be 'warn' or 'raise'; got {self.on_not_separable!r}.")
        if not isinstance(self.fit_intercept, (bool, np.bool_)) and self.fit_intercept != "penalised":
            raise ValueError(f"`fit_intercept` must be True, False or 'penalised'; got {self.fit_intercept!r}.")
        check_unmasked(X, "X")
        check_unmasked(y, "y")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        if type_of_target(y, input_name="y") != "binary":
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y, input_name='y')}."
            )
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"`y` must hold two classes; all {len(y)} labels are of one class, {self.classes_[0]}.")
        labels = np.where(y == self.classes_[1], 1.0, -1.0)
        intercept = _INTERCEPTS[self.fit_intercept]
        limit = MaxMargin.from_labels(self.norm, X, labels, intercept=intercept, p=self.p, groups=self.groups)
        solution = solve(limit, self.tol)
        self.status_, self.certificate_, self.farkas_ = solution.status, solution.certificate, solution.farkas
        self.n_iter_ = max(1, solution.n_iterations)
        self.margin_ = solution.certificate.lower
        self.dual_coef_ = (solution.certificate.multipliers * labels)[None]
        self.support_ = solution.certificate.support
        w, b = solution.certificate.point, solution.certificate.intercept or 0.0
        if self.status_ == "not separable":
            text = f"The data are not separable: {solution.reason} There is no maximum margin."
            if self.on_not_separable == "raise":
                raise ValueError(text)
            warnings.warn(f"{text} `coef_` is the least-squares direction.", ConvergenceWarning, stacklevel=2)
            w, b = _least_squares(X, labels, with_intercept=intercept != "none")
        elif self.status_ == "stalled":
            text = f"The bounds did not meet: {solution.reason} `certificate_` has both."
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        self.coef_, self.intercept_ = w[None], np.array([b])
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """`<x, w> + b`, shape `(n,)`; positive for `classes_[1]`."""
        check_is_fitted(self)
        check_unmasked(X, "X")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row, shape `(n,)`."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _least_squares(X, labels, *, with_intercept):
    """`w, b` that minimise `sum_k (<x_k, w> + b - y_k)^2`, `w` of least norm (LSQR: to about six digits)."""
    centre, mean = (np.asarray(X.mean(0)).ravel(), labels.mean()) if with_intercept else (np.zeros(X.shape[1]), 0.0)
    w = scipy.sparse.linalg.lsqr(_Centred(X, centre), labels - mean)[0]
    return w, float(mean - centre @ w)


class _Centred(scipy.sparse.linalg.LinearOperator):
    """`X - 1 centre^T` without forming it, so that sparse inputs stay sparse."""

    def __init__(self, X, centre):
        super().__init__(dtype=np.float64, shape=X.shape)
        self._X, self._centre = X, centre

    def _matvec(self, x):
        return self._X @ x.ravel() - self._centre @ x.ravel()

    def _rmatvec(self, x):
        return self._X.T @ x.ravel() - self._centre * x.sum()
