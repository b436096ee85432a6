"""The Lasso path: units, rational arithmetic, scikit-learn where that is right, linear programs, wrong paths."""

import re

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog
from sklearn.linear_model import Lasso, lars_path

from _exact_path import exact_path
from omegalimit.limits.lasso_path import LassoPath
from omegalimit.solvers.lasso_path import lasso_path, solve_lasso

# Sums of at most some hundred products, each to half a unit of the last place; the conditions are relative.
ROUNDING = 1e-14


def normal(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


def check(path):
    """Every condition at every knot, and the bounds at the end."""
    certificate = path.certificate
    assert certificate.worst < ROUNDING
    assert (np.diff(path.lam) <= 0).all()
    assert len(path.lam) == path.n_knots == len(path.unique)
    if path.lam[-1] == 0:
        assert len(path.events) == path.n_knots - 1
        assert abs(certificate.gap) < 1e-11
        assert certificate.upper - certificate.lower <= certificate.slack
    return certificate


def conditions(path, lam):
    """The largest violation of the optimality conditions at one penalty, from their definition, over `|X_i| |y|`."""
    X, y = path.limit.X, path.limit.y
    w = path.at(lam)
    c = X.T @ (y - X @ w)
    off = np.where(w == 0, np.maximum(np.abs(c) - lam, 0), np.abs(c - lam * np.sign(w)))
    return float((off / (np.linalg.norm(X, axis=0) * np.linalg.norm(y))).max())


def test_the_penalty_is_against_the_sum_of_squares():
    path = lasso_path(np.eye(4), [4, 3, 2, 1])
    check(path)
    np.testing.assert_allclose(path.at(1.0), [3, 2, 1, 0], atol=ROUNDING)
    np.testing.assert_array_equal(path.lam, [4, 3, 2, 1, 0])
    # scikit-learn's alpha is lam / n; taken for lam it gives zeros.
    other = Lasso(alpha=1 / 4, fit_intercept=False, tol=1e-12).fit(np.eye(4), [4, 3, 2, 1])
    np.testing.assert_allclose(other.coef_, path.at(1.0), atol=1e-9)
    assert not Lasso(alpha=1.0, fit_intercept=False).fit(np.eye(4), [4, 3, 2, 1]).coef_.any()


@pytest.mark.parametrize(("n", "d"), [(10, 40), (30, 12), (20, 300)])
def test_lars_path_where_that_is_right(n, d):
    X, y = normal(n, d)
    path = lasso_path(X, y)
    check(path)
    alphas, _, w = lars_path(X, y, method="lasso")
    # lars_path is right to some 1e-12 of its largest penalty on data like these.
    np.testing.assert_allclose(path.lam, alphas * n, atol=1e-10 * path.lam[0])
    for p in range(path.n_knots):
        np.testing.assert_allclose(path.w(p), w[:, p], atol=1e-9)


def test_between_the_knots():
    path = lasso_path(*normal(15, 40))
    for lam in np.linspace(0, 1.1 * path.lam[0], 60):
        assert conditions(path, lam) < ROUNDING
    # It can fail: a neighbour's penalty is not this one's.
    assert conditions(path, path.lam[3]) < ROUNDING < np.abs(path.at(path.lam[3]) - path.at(0.99 * path.lam[3])).max()
    with pytest.raises(ValueError, match=r"^`lam` must be at least 0, where the path ends; got -1\.$"):
        path.at(-1)


@pytest.mark.parametrize(
    ("X", "y", "lam", "end"),
    [
        (np.eye(5), np.ones(5), [1, 0], np.ones(5)),
        (np.eye(3), np.array([2.0, 1, 1]), [2, 1, 0], [2, 1, 1]),
        (np.eye(3), np.array([2.0, -1, 1]), [2, 1, 0], [2, -1, 1]),
    ],
)
def test_tied_features_come_in_together(X, y, lam, end):
    path = lasso_path(X, y)
    check(path)
    np.testing.assert_array_equal(path.lam, lam)
    np.testing.assert_array_equal(path.w(), end)
    assert (path.certificate.kkt == 0).all()
    assert path.tied


@pytest.mark.parametrize("seed", range(5))
def test_small_integers_against_rational_arithmetic(seed):
    """Most of these have ties, duplicates or dependent columns; some no interpolant."""
    rng = np.random.default_rng(seed)
    n_tied = n_dependent = 0
    for _ in range(40):
        n, d = rng.integers(1, 4), rng.integers(1, 7)
        X, y = rng.integers(-2, 3, size=(n, d)), rng.integers(-2, 3, size=n)
        exact = exact_path(X, y, [1] * d, [1] * d, lasso=True)
        path = lasso_path(X, y)
        check(path)
        T = 0
        for p, knot in enumerate(exact):
            T += knot.duration
            w = path.at(max(float(1 / T), path.lam[-1]))
            # The fit and the norm are the same for all minimisers, the coefficients where there is but one.
            fit = [float(sum(W * int(x) for W, x in zip(knot.W, row, strict=True)) / T) for row in X]
            np.testing.assert_allclose(X @ w, fit, atol=1e-13)
            assert np.abs(w).sum() == pytest.approx(float(sum(map(abs, knot.W)) / T), abs=1e-13)
            if path.unique.all():
                assert path.lam[p] == pytest.approx(float(1 / T), rel=1e-13)
                assert len(path.events[p].entered) == knot.n_entered
                np.testing.assert_allclose(w, np.array(knot.W, float) / float(T), atol=1e-13)
        if path.unique.all():
            assert len(path.events) == len(exact)
        solved = not any(exact[-1].r if exact else y)
        assert path.status == ("interpolates" if solved else "least squares")
        n_tied += path.tied
        n_dependent += not path.unique.all()
    assert min(n_tied, n_dependent) > 0


def instances():
    X, y = normal(20, 60)
    rng = np.random.default_rng(7)
    low_rank = rng.normal(size=(20, 5)) @ rng.normal(size=(5, 60))
    return {
        "normal": (X, y, "interpolates"),
        "duplicates": (np.hstack([X, X, -X]), y, "interpolates"),
        "zero columns": (np.hstack([X, 0 * X]), y, "interpolates"),
        "binary": (rng.integers(0, 2, size=(20, 60)), rng.integers(0, 4, size=20), "interpolates"),
        "signs of a coin": (rng.choice([-1.0, 1.0], size=(12, 100)), np.ones(12), "interpolates"),
        "correlated": (1 + 0.01 * X, y, "interpolates"),
        "low rank, reachable": (low_rank, low_rank @ rng.normal(size=60), "interpolates"),
        "low rank": (low_rank, y, "least squares"),
        "more samples": (X.T, normal(60, 1, seed=1)[1], "least squares"),
    }


@pytest.mark.parametrize("name", instances())
def test_the_end_against_a_linear_program(name):
    X, y, status = instances()[name]
    path = lasso_path(X, y)
    certificate = check(path)
    assert path.status == status
    # All least squares solutions: the fit is known, and reached.
    fit = X @ np.linalg.lstsq(X, y)[0]
    np.testing.assert_allclose(X @ path.w(), fit, atol=1e-10)
    if status == "interpolates":
        found = linprog(np.ones(2 * X.shape[1]), A_eq=np.hstack([X, -X]), b_eq=y, bounds=(0, None), method="highs")
    else:
        Q = np.linalg.qr(X[:, path.support()])[0].T  # the range of X, for a consistent system
        found = linprog(
            np.ones(2 * X.shape[1]), A_eq=np.hstack([Q @ X, -Q @ X]), b_eq=Q @ y, bounds=(0, None), method="highs"
        )
    assert certificate.lower == pytest.approx(found.fun, rel=1e-9)
    assert certificate.upper == pytest.approx(found.fun, rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-9, 1e-150, 1e150])
def test_the_units_do_not_matter(scale):
    X, y = normal(10, 40)
    base, path = lasso_path(X, y), lasso_path(X * scale, y)
    check(path)
    assert path.status == "interpolates"
    np.testing.assert_allclose(path.lam / scale, base.lam, rtol=1e-9)
    for p in range(base.n_knots):
        np.testing.assert_array_equal(path.support(p), base.support(p))
        # A factor that is no power of two rounds the data; the condition of the least squares problems multiplies it.
        np.testing.assert_allclose(path.w(p) * scale, base.w(p), rtol=1e-9)


@pytest.mark.parametrize("name", ["normal", "duplicated", "binary"])
def test_screening_changes_nothing(name):
    rng = np.random.default_rng(3)
    X, y = normal(15, 1500)
    X = {"duplicated": np.repeat(X[:, :300], 5, axis=1), "binary": rng.integers(0, 2, size=(15, 1500))}.get(name, X)
    quick, slow = (solve_lasso(LassoPath(X, y), max_events=None, screen=screen) for screen in (True, False))
    check(quick)
    assert quick.status == slow.status == "interpolates"
    np.testing.assert_allclose(quick.lam, slow.lam, rtol=1e-9)
    for p in range(quick.n_knots):
        np.testing.assert_array_equal(quick.support(p), slow.support(p))


def test_a_limit_of_events():
    X, y = normal(10, 40)
    whole = lasso_path(X, y)
    path = lasso_path(X, y, max_events=4)
    check(path)
    assert path.status == "event limit"
    np.testing.assert_allclose(path.lam, whole.lam[:4], rtol=1e-12)
    assert path.certificate.gap == np.inf
    assert path.certificate.lower is None
    with pytest.raises(ValueError, match=rf"^`lam` must be at least {path.lam[-1]:g}, where the path ends; got 0\.$"):
        path.at(0)


def test_nothing_to_fit():
    for X, y in ((normal(5, 8)[0], np.zeros(5)), (np.zeros((3, 4)), np.ones(3))):
        path = lasso_path(X, y)
        check(path)
        assert path.lam.tolist() == [0]
        assert not path.w().any()
    assert path.status == "least squares"


def test_data_too_nearly_singular_are_not_called_solved():
    x = np.linspace(0, 1, 60)
    path = lasso_path(np.exp(-((x[:, None] - x) ** 2) / 2), np.sin(3 * x))
    assert path.status == "stalled"
    assert re.match(r"^rounding: the end is certified to a gap of \S+ only; \|Xw - y\| / \|y\| is \S+\.$", path.reason)


def test_a_wrong_path_is_found_out():
    limit = LassoPath(*normal(10, 40))
    path = lasso_path(limit)
    nu = path.certificate.nu
    assert limit.certify(path.lam, path.coefficients, nu).worst < ROUNDING

    w = path.coefficients.copy()
    w.data[w.indptr[5] : w.indptr[6]] *= 1.01
    bad = limit.certify(path.lam, w, nu)
    assert bad.kkt[5] > 1e-4
    assert bad.kkt[[0, 1, 2, 3, 4, 6]].max() < ROUNDING

    # Penalties in other units.
    assert limit.certify(path.lam / limit.n, path.coefficients, nu).worst > 1e-2
    # A knot left out: its feature's sign does not bind at the knot before, or its bound is broken.
    keep = np.delete(np.arange(path.n_knots), 3)
    assert limit.certify(path.lam[keep], path.coefficients[keep], nu).worst > 1e-3
    # Another interpolant at the end, or another dual point: the bounds part.
    w = scipy.sparse.lil_array(path.coefficients)
    w[[-1], :] = np.linalg.lstsq(limit.X, limit.y)[0][None]
    assert limit.certify(path.lam, w.tocsr(), nu).gap > 0.1
    assert limit.certify(path.lam, path.coefficients, limit.y).gap > 0.1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, y: lasso_path(X), TypeError, "Pass `X` and `y`, or a LassoPath alone."),
        (lambda X, y: lasso_path(LassoPath(X, y), y), TypeError, "Pass `X` and `y`, or a LassoPath alone."),
        (
            lambda X, y: lasso_path(X, y, max_events=0),
            ValueError,
            "`max_events` must be at least 1; got 0.",
        ),
        (
            lambda X, y: lasso_path(X, y[:2]),
            ValueError,
            "`X` has shape (3, 5) and `y` has shape (2,): 3 rows against 2.",
        ),
        (
            lambda X, y: LassoPath(X, y).certify([1.0], np.zeros((2, 5))),
            ValueError,
            "`lam` and `w` must have shapes (P,) and (P, 5); got (1,) and (2, 5).",
        ),
        (
            lambda X, y: LassoPath(X, y).certify([1.0, 2.0], np.zeros((2, 5))),
            ValueError,
            "`lam` must fall from knot to knot and not below zero.",
        ),
        (
            lambda X, y: LassoPath(X, y).certify([1.0, 0.0], np.zeros((2, 5))),
            ValueError,
            "`nu` is missing: the last `lam` is zero, and the end is certified by a dual point.",
        ),
        (
            lambda X, y: LassoPath(X, y).certify([0.0], np.zeros((1, 5)), [1.0]),
            ValueError,
            "`nu` must have shape (3,); got (1,).",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=rf"^{re.escape(message)}$"):
        call(*normal(3, 5))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (
            [[1e300, 1e-300], [0.0, 1e-300]],
            [1.0, 1.0],
            "Feature 1 is so small that the largest column is 3e+120 times larger or more; double precision holds no "
            "path of both. Rescale or drop it.",
        ),
        (
            [[1e300, 1e300], [0.0, 1e300]],
            [1e300, 1e300],
            "The penalties, of the size of X'y, leave double precision; bring `X` or `y` nearer to one.",
        ),
    ],
)
def test_sizes_are_told_in_the_words_of_the_lasso(X, y, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        LassoPath(np.array(X), np.array(y))
