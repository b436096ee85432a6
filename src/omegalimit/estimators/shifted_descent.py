"""Negative-shifted descent as a scikit-learn regressor: linear, between shrinking and amplifying, stopped in time."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_unmasked
from ..solvers.shift_selection import choose_shift, fit_shift
from ._dealt_rows import Split, folds, hold_out_part, of_these
from ._row_weights import row_weights


class ShiftedDescentRegressor(RegressorMixin, BaseEstimator):
    """Linear regression by the flow `b' = -(S - nu I) b + X'y/n` from 0, stopped at time `t`; `S = X'X/n`, centred.

    On an eigenvector of `S` with eigenvalue m the least-norm least-squares coefficient is multiplied by
    `f(m) = m / (m - nu) (1 - exp(-t (m - nu)))`: below one for small m, above one from a crossing on. With more columns
    than rows the many small directions of `X` act as a penalty on the large ones, `a = tr(Sigma_T)/n`; the shift
    `nu = a` takes it back. `nu = 0, t = inf` is the ridgeless (least-norm) fit, and `t = inf` with `nu` below the
    smallest eigenvalue negative ridge. (Negative-shifted descent: arXiv 2607.22474.)

    - `nu`, `t`: the shift and the time, in units of `S` and of its inverse, a number or a list to choose from, none of
      them negative (`nu` below zero would be ridge's penalty, which is not among what is chosen from here); `None`: a
      grid in units of the spectrum, which has the ridgeless fit among its pairs. Times may be infinite.
    - `selection`: `"cv"` (default): the pair with the least mean square error over folds, fitted again on all rows; a
      shift is that of all rows, and `nu n/n_k` on a fold that trains on `n_k` of n. `"holdout"`: on one part of the
      rows; the fit is that on the others, so that the bounds hold for it. `None`: `nu` and `t` are one number each,
      and by default the ridgeless fit.
    - `cv`: for `"cv"`: a number of folds, dealt at random (at most one a row), or what scikit-learn takes as `cv`.
    - `holdout_fraction`: for `"holdout"`: the share of the rows held out. In this deal and in that of the folds equal
      rows stay together, so that a row of weight k counts as k rows do.
    - `fit_intercept`: whether to take the means of the rows away, and `y`'s.
    - `alpha`: the bounds of a hold-out fail with at most this probability.
    - `random_state`: of the folds or of the rows held out.

    Fitted: `coef_` (d,), `intercept_`; `nu_`, `t_`; `eigenvalues_` (r,), descending, those of the rows that were fitted
    and that rounding leaves (others are left out, not amplified), and `filter_` (r,) on them; `ridgeless_` (d,), the
    least-norm coefficients on the same rows; `rank_`, r; `choice_`, the `ShiftChoice` with both grids and all errors
    (`None` without a selection), of which `nu_grid_` (a,), `t_grid_` (b,) and `errors_` (a, b), mean square errors on
    rows held out; `ridgeless_error_`, that of the ridgeless fit; and for `"holdout"`, with Gaussian residuals:
    `error_bound_`, on the mean square error on new rows, and `oracle_factor_`, how many times that of the best pair it
    is at most. Both are infinite for too few rows held out, and `None` for `"cv"`.

    All pairs of the grid cost one decomposition and one matrix product a fold. `fit` raises `ValueError` for what
    scikit-learn's checks refuse and for parameters out of range.
    """

    def __init__(
        self,
        nu: Any = None,
        t: Any = None,
        *,
        selection: str | None = "cv",
        cv: Any = 5,
        holdout_fraction: float = 0.25,
        fit_intercept: bool = True,
        alpha: float = 0.05,
        random_state: Any = 0,
    ):
        self.nu = nu
        self.t = t
        self.selection = selection
        self.cv = cv
        self.holdout_fraction = holdout_fraction
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ShiftedDescentRegressor":
        """Fit to `X`, shape `(n, d)`, and `y`, shape `(n,)`; returns itself.

        `sample_weight`: not negative, `(n,)`: `S = X'CX / sum c`, with weighted means and errors. A row of weight k
        counts as k rows, and one of zero as none; for the bounds every row counts once (`n_effective` of the choice).
        """
        if self.selection not in ("cv", "holdout", None):
            raise ValueError(f"`selection` must be 'cv', 'holdout' or None; got {self.selection!r}.")
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ValueError(f"`fit_intercept` must be True or False; got {self.fit_intercept!r}.")
        check_unmasked(X, "X")
        check_unmasked(y, "y")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        kept, weights = row_weights(sample_weight, len(y), least=2)
        options: dict[str, Any] = {"intercept": bool(self.fit_intercept), "weights": weights}
        if self.selection is None:
            nu, t = 0.0 if self.nu is None else self.nu, np.inf if self.t is None else self.t
            self.choice_, fitted = None, fit_shift(X[kept], y[kept], nu=nu, t=t, **options)
        else:
            options |= {"nu": self.nu, "t": self.t, "alpha": self.alpha, "refit": self.selection == "cv"}
            self.choice_ = choose_shift(X[kept], y[kept], splits=self._splits(X, y, kept), **options)
            fitted = self.choice_.fit
        choice = self.choice_
        self.coef_, self.intercept_ = fitted.coef, fitted.intercept
        self.nu_, self.t_ = fitted.nu, fitted.t
        self.eigenvalues_, self.filter_, self.ridgeless_ = fitted.eigenvalues, fitted.filter, fitted.ridgeless
        self.rank_ = int(fitted.eigenvalues.size)
        self.nu_grid_ = np.array([fitted.nu]) if choice is None else choice.nus
        self.t_grid_ = np.array([fitted.t]) if choice is None else choice.ts
        self.errors_ = None if choice is None else choice.errors
        self.ridgeless_error_ = None if choice is None else choice.ridgeless_error
        self.error_bound_ = None if choice is None else choice.error_bound
        self.oracle_factor_ = None if choice is None else choice.oracle_factor
        return self

    def predict(self, X: Any) -> np.ndarray:
        """`<x, coef_> + intercept_` for each row, shape `(n,)`."""
        check_is_fitted(self)
        check_unmasked(X, "X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_

    def _fraction(self) -> float:
        share = self.holdout_fraction
        if isinstance(share, bool) or not isinstance(share, (int, float, np.integer, np.floating)) or not 0 < share < 1:
            raise ValueError(
                f"`holdout_fraction` is a share of the rows, between 0 and 1, both excluded; got {share!r}."
            )
        return float(share)

    def _splits(self, X: np.ndarray, y: np.ndarray, kept: np.ndarray) -> list[Split]:
        """Training rows and rows held out, as places among the rows that are kept."""
        generator = check_random_state(self.random_state)
        if self.selection == "holdout":
            return hold_out_part(X[kept], y[kept], self._fraction(), generator, classes=False)
        if isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool):
            return folds(self.cv, X[kept], y[kept], generator, classes=False)
        return of_these(folds(self.cv, X, y, generator, classes=False), kept, len(y))
