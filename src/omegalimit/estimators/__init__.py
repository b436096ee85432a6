"""The limits as scikit-learn estimators."""

from .early_stopping import EarlyStoppedLogisticRegression as EarlyStoppedLogisticRegression
from .max_margin import MaxMarginClassifier as MaxMarginClassifier
from .shifted_descent import ShiftedDescentRegressor as ShiftedDescentRegressor
