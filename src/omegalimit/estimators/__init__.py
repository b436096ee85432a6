"""The limits as scikit-learn estimators."""

from .max_margin import MaxMarginClassifier as MaxMarginClassifier
from .shifted_descent import ShiftedDescentRegressor as ShiftedDescentRegressor
