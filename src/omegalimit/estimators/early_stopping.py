"""Logistic regression by gradient descent that is stopped in time, as a scikit-learn classifier."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_count, check_unmasked
from .._threads import one_blas_thread
from ._dealt_rows import Split, folds, hold_out_part, of_these
from ._descent_rows import DescentRows
from ._row_weights import row_weights
from ._softmax_descent import descend, marks

LONGEST = 10.0
"""The search ends when `patience` times the best time has passed; this many by default."""


class EarlyStoppedLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression by early-stopped gradient descent: no penalty, the number of steps is what is chosen.

    Gradient descent on the mean logistic loss, with two classes, and on the softmax loss with more, from coefficients
    of zero and the constant classifier that fits best. On separable rows the loss has no minimiser, and descent goes on
    to the maximum margin: an interpolator, whatever the noise in the labels. Stopped in time it does not get there (for
    the theory: early-stopped gradient descent against interpolators, Wu and others, arXiv 2502.13283). Descent is not
    indifferent to the scale of columns: those that are large come first; scale columns that should count alike.

    - `n_steps`: `None` (default): chosen on rows held out. A number: so many steps on all rows, nothing is chosen.
    - `cv`: `None` (default): one part of the rows is held out. A number of folds, or what scikit-learn takes as `cv`:
      parts take turns, and their errors are averaged over the rows. In parts that are dealt here equal rows stay
      together, so that a row of weight k counts as k rows do.
    - `holdout_fraction`: the share of the distinct rows of each class that is held out.
    - `criterion`: what is to be least on the rows held out: `"log_loss"`, the mean negative log probability of the
      class, or `"error"`, the share of wrong classes; of equal ones the earliest.
    - `refit`: `True` (default): all rows are fitted again, to the same time, step size times number of steps. `False`:
      the fit on the training part stays; with `cv`, where there is no one such part, all rows are fitted in any case.
    - `step_size`: `None`: the inverse of a bound on the Hessian, `4 / lambda_max(A'CA)` for two classes and
      `2 / lambda_max(A'CA)` for more, `A` the rows with their column for the intercept and `C` their weights with sum
      one, times the smallest share of the weights that any part trains on: no step on any part raises its loss. A
      number: in units of the inverse square of `X`; above twice the size just given, where steps may raise the loss and
      descent need not settle, `fit` warns.
    - `fit_intercept`: whether the classes may be divided away from the centre. The intercept descends as well, in units
      of the largest direction, from the log odds of the classes.
    - `centre`: whether to take the mean of the training rows away first. `None`: as `fit_intercept`. With
      `fit_intercept=False` and `centre=True` the classes divide at that mean, and `intercept_` is not zero; with both
      `False` they divide at the origin.
    - `max_steps`: at most so many steps are tried. `patience`: the search ends earlier when so many times the best
      number of steps have passed (and 100 at least); `None`: it does not.
    - `random_state`: of the rows held out, or of the folds. The deal depends on it, on the distinct rows, and on the
      order of the columns and of the classes; not on the order of the rows, nor on how often each occurs.

    Fitted: `classes_` (K,); `coef_` (1, d) and `intercept_` (1,) for two classes, else (K, d) and (K,); `n_steps_`
    (`n_iter_` too), `step_size_` and `time_`, their product; `steps_` (m,), the numbers of steps that were tried, and
    `holdout_errors_` (m,), the criterion on the rows held out (both `None` without a choice); `holdout_error_`, the
    least; `at_horizon_`: whether that was after `max_steps`, so that later times may be better: `fit` warns.

    `X` dense, `(n, d)`; two classes or more. `fit` raises `ValueError` for what scikit-learn's checks refuse and for
    parameters out of range.
    """

    def __init__(
        self,
        *,
        n_steps: int | None = None,
        cv: Any = None,
        holdout_fraction: float = 0.25,
        criterion: str = "log_loss",
        refit: bool = True,
        step_size: float | None = None,
        fit_intercept: bool = True,
        centre: bool | None = None,
        max_steps: int = 10_000,
        patience: float | None = LONGEST,
        random_state: Any = 0,
    ):
        self.n_steps = n_steps
        self.cv = cv
        self.holdout_fraction = holdout_fraction
        self.criterion = criterion
        self.refit = refit
        self.step_size = step_size
        self.fit_intercept = fit_intercept
        self.centre = centre
        self.max_steps = max_steps
        self.patience = patience
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "EarlyStoppedLogisticRegression":
        """Fit to `X`, shape `(n, d)`, and classes `y`, `(n,)`; returns itself.

        `sample_weight`: not negative, `(n,)`; a row of weight k counts as k rows, and one of zero as none.
        """
        self._check_parameters()
        check_unmasked(X, "X")
        check_unmasked(y, "y")
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        kept, weights = row_weights(sample_weight, len(y), least=1)
        self.classes_, codes = np.unique(y[kept], return_inverse=True)
        if self.classes_.size < 2:
            of_weight = "" if kept.size == len(y) else " of positive weight"
            raise ValueError(
                f"`y` must hold two classes at least; all {kept.size} rows{of_weight} are of one class, "
                f"{self.classes_[0]}."
            )
        splits = self._splits(X, y, kept)
        with one_blas_thread():
            intercept = bool(self.fit_intercept)
            centred = intercept if self.centre is None else bool(self.centre)
            rows = DescentRows(X[kept], codes, weights, intercept=intercept, centred=centred)
            self._descend(rows, splits)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: the log odds of `classes_[1]`, shape `(n,)`, for two classes; one for each class, `(n, K)`, else."""
        check_is_fitted(self)
        check_unmasked(X, "X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row, shape `(n,)`."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, shape `(n, K)`."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return scipy.special.expit(np.column_stack([-scores, scores]))
        return scipy.special.softmax(scores, axis=1)

    def _check_parameters(self) -> None:
        if self.n_steps is not None:
            check_count(self.n_steps, "n_steps", least=0)
        check_count(self.max_steps, "max_steps", least=1)
        if self.criterion not in ("log_loss", "error"):
            raise ValueError(f"`criterion` must be 'log_loss' or 'error'; got {self.criterion!r}.")
        for name in ("refit", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"`{name}` must be True or False; got {getattr(self, name)!r}.")
        if self.centre is not None and not isinstance(self.centre, (bool, np.bool_)):
            raise ValueError(f"`centre` must be True, False or None; got {self.centre!r}.")
        if not _is_number(self.holdout_fraction) or not 0 < self.holdout_fraction < 1:
            raise ValueError(
                "`holdout_fraction` is a share of the rows, between 0 and 1, both excluded; got "
                f"{self.holdout_fraction!r}."
            )
        if self.step_size is not None and not (_is_number(self.step_size) and 0 < self.step_size < math.inf):
            raise ValueError(f"`step_size` must be a positive number or None; got {self.step_size!r}.")
        if self.patience is not None and not (_is_number(self.patience) and self.patience > 1):
            raise ValueError(f"`patience` must be a number above 1 or None; got {self.patience!r}.")

    def _splits(self, X: np.ndarray, y: np.ndarray, kept: np.ndarray) -> list[Split]:
        """Training rows and rows held out, as places among the rows that are kept; none without a choice."""
        if self.n_steps is not None:
            return []
        generator = check_random_state(self.random_state)
        if self.cv is None or isinstance(self.cv, (int, np.integer)):
            found = (
                hold_out_part(X[kept], y[kept], self.holdout_fraction, generator, classes=True)
                if self.cv is None
                else folds(self.cv, X[kept], y[kept], generator, classes=True)
            )
            if not found:
                raise ValueError("no class has two different rows, so that none can be held out; say `n_steps`.")
            return found
        found = of_these(folds(self.cv, X, y, generator, classes=True), kept, len(y))
        for train, _ in found:
            absent = np.setdiff1d(self.classes_, y[kept][train])
            if absent.size:
                raise ValueError(f"a training part of `cv` has no row of class {absent[0]}; deal the classes evenly.")
        if not found:
            raise ValueError("`cv` has no part with rows to train on and rows to judge by.")
        return found

    def _descend(self, rows: DescentRows, splits: Sequence[Split]) -> None:
        least_share = min([rows.share(train) for train, _ in splits], default=1.0)
        step = rows.step_size(self.step_size, least_share)
        if self.step_size is not None:
            self._check_step(rows, step, least_share)
        everything = np.arange(len(rows.c))
        self.steps_ = self.holdout_errors_ = self.holdout_error_ = None
        self.at_horizon_ = False
        if self.n_steps is not None:
            chosen, W, train = int(self.n_steps), None, everything
        else:
            chosen, W = self._choose(rows, splits, step)
            keep = self.cv is None and not self.refit
            train, W = (splits[0][0], W) if keep else (everything, None)
        if W is None:
            (W,) = descend(rows.part(train), rows.start(train), step_size=step, marks=[chosen])
        self.coef_, self.intercept_ = rows.in_units(W, train)
        self.n_steps_ = self.n_iter_ = chosen
        self.step_size_ = rows.step_in_units(step)
        self.time_ = chosen * self.step_size_

    def _check_step(self, rows: DescentRows, step: float, least_share: float) -> None:
        stable = 2 * least_share / rows.bound if rows.bound else math.inf
        if step > stable * (1 + 1e-12):  # its own rounding
            warnings.warn(
                f"`step_size` = {self.step_size:g} is above {rows.step_in_units(stable):g}, beyond which a step may "
                "raise the loss, and descent need not settle; take a smaller one, or None for half of that.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _choose(self, rows: DescentRows, splits: Sequence[Split], step: float) -> tuple[int, np.ndarray]:
        """The number of steps with the least error on the rows held out, and the weights there of the first part."""
        tried = marks(int(self.max_steps))
        runs = [descend(rows.part(train), rows.start(train), step_size=step, marks=tried) for train, _ in splits]
        judges = [rows.part(judge, centred_by=train) for train, judge in splits]
        shares = np.array([rows.share(judge) for _, judge in splits])
        errors: list[float] = []
        best, best_W = 0, None
        for k, states in enumerate(zip(*runs, strict=True)):
            found = [
                part.log_loss(W) if self.criterion == "log_loss" else part.error(W)
                for part, W in zip(judges, states, strict=True)
            ]
            errors.append(float(shares @ found / shares.sum()))
            # Errors that are equal to rounding are equal: the earlier time stays.
            if best_W is None or errors[k] < errors[best] * (1 - 1e-12):
                best, best_W = k, states[0]
            if self.patience is not None and tried[k] > max(self.patience * tried[best], 100):
                break
        assert best_W is not None
        self.steps_, self.holdout_errors_ = tried[: len(errors)], np.array(errors)
        self.holdout_error_ = errors[best]
        self.at_horizon_ = bool(tried[best] == self.max_steps)
        if self.at_horizon_:
            warnings.warn(
                f"The {self.criterion} on the rows held out was least after the last of `max_steps` = {self.max_steps} "
                "steps, so that later times may be better; take a larger `max_steps`.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return int(tried[best]), best_W


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
