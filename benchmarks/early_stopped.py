"""Early-stopped descent, a penalty and a hard margin on real data with wrong labels.

    python benchmarks/early_stopped.py [--quick] [--sizes NAME ...]

Data that ship with scikit-learn: breast cancer (569 rows, 30 columns), the digits 3 and 8 (357, 64), wine (178, 13, 3
classes). For each seed half of the rows are trained on, with columns scaled to variance one there; of their labels a
share of 0, 10 or 20 percent is replaced, each by another class. Judged on the other half, with its labels as they are:
the share of right classes, and the mean negative log probability of the right class.

- hold-out, folds: `EarlyStoppedLogisticRegression()`, and with `cv=5`; nothing else is set.
- penalty: scikit-learn's `LogisticRegressionCV`: five folds, ten penalties, chosen by the log loss, as ours is.
- hard margin: `MaxMarginClassifier` where the training rows are separable (in brackets: in how many of the draws), else
  the soft margin with C = 1e6, solved to the end (CVXPY with Clarabel); for wine one class against the others. The
  scores, with a least margin of one, are taken as log odds, for lack of any; for wine there is no log loss.
- SVC: scikit-learn's with C = 1e6, which is what is usually called a hard margin; ended after 10^6 iterations (in
  brackets: in how many of the draws it had not converged by then).

Cells: mean and standard deviation over the seeds. Differences, ours by hold-out less another, are of the same seeds; in
brackets their standard errors. CPU seconds of a fit on one BLAS thread, median over the seeds.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import _timing

DATA = ("breast cancer", "digits 3 and 8", "wine")
NOISE = (0.0, 0.1, 0.2)
SIZES = {f"{name}, {share:.0%}": (name, share) for name in DATA for share in NOISE}
QUICK = ("breast cancer, 10%", "digits 3 and 8, 20%", "wine, 10%")
METHODS = ("hold-out", "folds", "penalty", "hard margin", "SVC")
PENALTY = 1e6
N_SEEDS, N_QUICK = 20, 5
MOST_SVC_STEPS = 10**6
SECONDS = 600


def rows(name: str):
    """Rows and classes."""
    import numpy as np
    from sklearn import datasets

    load = {"wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}.get(name, datasets.load_digits)
    X, y = map(np.asarray, load(return_X_y=True))
    if load is not datasets.load_digits:
        return X, y
    kept = np.isin(y, (3, 8))
    return X[kept], (y[kept] == 8).astype(int)


def draw(name: str, share: float, seed: int):
    """Rows to train on, with some labels replaced, and rows to judge by."""
    import numpy as np
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = rows(name)
    parts = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    train_X, test_X, train_y, test_y = map(np.asarray, parts)
    scale = StandardScaler().fit(train_X)
    rng = np.random.default_rng(seed)
    wrong = rng.random(train_y.size) < share
    n_classes = y.max() + 1
    train_y = np.where(wrong, (train_y + rng.integers(1, n_classes, size=train_y.size)) % n_classes, train_y)
    return scale.transform(train_X), train_y, scale.transform(test_X), test_y


def fitted(method: str, X, y, seed: int) -> tuple[Callable, bool]:
    """What gives scores of rows (`(n,)`: log odds of class 1; `(n, K)`: of each class).

    And a mark: of the margin, that the rows are separable; of SVC, that it has not converged.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.svm import SVC

    from omegalimit.estimators.early_stopping import EarlyStoppedLogisticRegression

    if method in ("hold-out", "folds"):
        cv = None if method == "hold-out" else 5
        return EarlyStoppedLogisticRegression(cv=cv, random_state=seed).fit(X, y).decision_function, False
    if method == "penalty":
        options: dict[str, Any] = {"l1_ratios": (0.0,), "use_legacy_attributes": False}  # what will be the defaults
        model = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=10**4, **options)
        return model.fit(X, y).decision_function, False
    if method == "SVC":
        model = SVC(kernel="linear", C=PENALTY, max_iter=MOST_SVC_STEPS).fit(X, y)
        return model.decision_function, model.fit_status_ == 1
    if y.max() == 1:
        return margin(X, y)
    one_by_one = [margin(X, (y == k).astype(int)) for k in np.unique(y)]
    return lambda rows: np.column_stack([s(rows) for s, _ in one_by_one]), all(marked for _, marked in one_by_one)


def margin(X, y) -> tuple[Callable, bool]:
    """Scores of the maximum margin and `True`; where there is none, of the soft margin with a large C, and `False`."""
    import cvxpy as cp

    from omegalimit import MaxMarginClassifier

    ours = MaxMarginClassifier().fit(X, y)
    if ours.status_ == "optimal":
        return ours.decision_function, True
    w, b, slack = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(y.size)
    above: Any = cp.multiply(2.0 * y - 1, X @ w + b) >= 1 - slack
    # Over C, so that the objective is of the size of the slacks.
    objective = cp.Minimize(cp.sum(slack) + cp.sum_squares(w) / (2 * PENALTY))
    cp.Problem(objective, [above, slack >= 0]).solve(solver="CLARABEL")
    return lambda rows: rows @ w.value + b.value, False


def judged(scores, y) -> tuple[float, float]:
    """The share of right classes and the mean negative log probability of the right one."""
    import numpy as np
    import scipy.special

    if scores.ndim == 1:
        right = (scores > 0) == (y == 1)
        return float(np.mean(right)), float(np.mean(np.logaddexp(0, np.where(y == 1, -scores, scores))))
    losses = scipy.special.logsumexp(scores, axis=1) - scores[np.arange(y.size), y]
    return float(np.mean(scores.argmax(axis=1) == y)), float(np.mean(losses))


def run_cell(name: str, share: str, n_seeds: str) -> dict[str, Any]:
    """All methods on all draws, in this process."""
    import math

    found: dict[str, Any] = {m: {"accuracy": [], "log loss": [], "seconds": [], "marked": 0} for m in METHODS}
    warnings.simplefilter("ignore")  # rivals that stop at their limits and horizons: the figures are shown as they are
    for method in METHODS:
        fitted(method, *draw(name, 0.2, 0)[:2], 0)  # the imports are not their time
    for seed in range(int(n_seeds)):
        X, y, test_X, test_y = draw(name, float(share), seed)
        for method, cell in found.items():
            seconds, (scores, marked) = _timing.cpu_seconds(lambda m=method, X=X, y=y, s=seed: fitted(m, X, y, s))
            accuracy, log_loss = judged(scores(test_X), test_y)
            cell["accuracy"].append(accuracy)
            # A score for one class against the others, or for a pair, is no log odds.
            cell["log loss"].append(math.nan if method in METHODS[3:] and y.max() > 1 else log_loss)
            cell["seconds"].append(seconds)
            cell["marked"] += int(marked)
    return found


def measure(*, quick: bool = False, sizes: Sequence[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for size in sizes or (QUICK if quick else SIZES):
        cell = _timing.cell(__file__, *SIZES[size], N_QUICK if quick else N_SEEDS, seconds=SECONDS)
        found[size] = cell
        _timing.tell(f"early stopping: {size}: {cell.get('ended', 'done')}")
    return found


def _mean(values: Sequence[float], digits: int) -> str:
    import statistics

    if any(value != value for value in values):
        return "-"
    return f"{statistics.fmean(values):.{digits}f} +- {statistics.stdev(values):.{digits}f}"


def _difference(ours: Sequence[float], theirs: Sequence[float], digits: int) -> str:
    import statistics

    found = [a - b for a, b in zip(ours, theirs, strict=True)]
    if any(value != value for value in found):
        return "-"
    error = statistics.stdev(found) / len(found) ** 0.5
    return f"{statistics.fmean(found):+.{digits}f} ({error:.{digits}f})"


def tables(found: dict[str, Any]):
    import statistics

    for figure, digits in (("accuracy", 3), ("log loss", 3)):
        lines = []
        for size, cells in found.items():
            if "ended" in cells:
                lines.append((size, cells["ended"], *[""] * 6))
                continue
            shown = [_mean(cells[method][figure], digits) for method in METHODS]
            n_seeds = len(cells["hold-out"][figure])
            for k in (3, 4):
                shown[k] += f" [{cells[METHODS[k]]['marked']}/{n_seeds}]"
            ours = cells["hold-out"][figure]
            less = [_difference(ours, cells[m][figure], digits) for m in ("penalty", "hard margin")]
            lines.append((size, *shown, *less))
        yield _timing.table(
            f"{figure} on rows with right labels, by the share of wrong labels among those trained on",
            ("data, wrong labels", *METHODS, "less penalty", "less margin"),
            lines,
        )
    yield _timing.table(
        "CPU seconds of a fit, median",
        ("data, wrong labels", *METHODS),
        [
            (size, *(f"{statistics.median(cells[method]['seconds']):.3f}" for method in METHODS))
            for size, cells in found.items()
            if "ended" not in cells
        ],
    )


if __name__ == "__main__":
    _timing.command(sys.modules[__name__], run_cell=run_cell, sizes=SIZES)
