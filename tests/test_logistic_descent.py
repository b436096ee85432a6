"""Descent in dual coordinates against the plain loop, batches against single runs, and the theory page's numbers."""

import math
import re

import numpy as np
import pytest

from omegalimit._threads import one_blas_thread
from omegalimit.data.mixture import Mixture
from omegalimit.flows.logistic_descent import logistic_descent
from omegalimit.limits.mixture_risk import MixtureRisk

EPS = float(np.finfo(float).eps)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_blas_thread():
        yield


def rows(n=20, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + rng.standard_normal(d) * 0.3


def plain_loop(Z, eta, c, marks, slope=lambda m: 1 / (1 + np.exp(m))):
    w, kept = np.zeros(Z.shape[1]), []
    for k in range(1, marks[-1] + 1):
        w = w + eta * (c * slope(Z @ w)) @ Z
        if k in set(marks):
            kept.append(w)
    return np.array(kept)


# Each step's rounding is of the size of the margins, and a convex descent does not enlarge it: 500 steps lose 500 EPS.
TOLERANCE = 500 * EPS


@pytest.mark.parametrize("coordinates", ["dual", "primal"])
@pytest.mark.parametrize(("n", "d"), [(20, 30), (30, 5), (1, 4), (90, 100), (170, 60)])
def test_both_coordinates_are_the_plain_loop(n, d, coordinates):
    Z = rows(n, d)
    found = logistic_descent(Z, n_steps=500, coordinates=coordinates)
    eta = 4 / np.linalg.eigvalsh(Z.T @ Z / n)[-1]
    assert found.step_size == pytest.approx(eta, rel=1e-12)
    assert found.coordinates == coordinates
    assert (found.marks[0], found.marks[-1]) == (1, 500)
    W = plain_loop(Z, float(found.step_size), np.full(n, 1 / n), found.marks.tolist())
    # Against what the sum over the rows, whose terms may cancel, is made of.
    size = (np.abs(found.alpha) @ np.abs(Z)).max()
    np.testing.assert_allclose(found.coef(), W, rtol=0, atol=TOLERANCE * size)
    np.testing.assert_allclose(found.margins, W @ Z.T, rtol=0, atol=TOLERANCE * size * np.abs(Z).sum(1).max())
    np.testing.assert_allclose(found.coef(-1), found.coef()[-1], rtol=0, atol=8 * EPS * size)
    np.testing.assert_allclose(found.coef([0, -1]), found.coef()[[0, -1]], rtol=0, atol=8 * EPS * size)
    np.testing.assert_allclose(found.coef(slice(2, 4)), found.coef()[2:4], rtol=0, atol=8 * EPS * size)
    X = rows(7, d, seed=1)
    outputs = found.outputs(X @ Z.T)
    np.testing.assert_allclose(outputs, W @ X.T, rtol=0, atol=TOLERANCE * size * np.abs(X).sum(1).max())


def test_the_coordinates_that_are_less_work_are_taken():
    assert logistic_descent(rows(20, 30), n_steps=10).coordinates == "dual"
    assert logistic_descent(rows(200, 3), n_steps=10).coordinates == "primal"


@pytest.mark.parametrize("coordinates", ["dual", "primal"])
def test_the_exponential_loss(coordinates):
    Z = rows()
    found = logistic_descent(Z, n_steps=200, step_size=0.05, loss="exponential", coordinates=coordinates)
    W = plain_loop(Z, 0.05, np.full(20, 1 / 20), found.marks.tolist(), slope=lambda m: np.exp(-m))
    np.testing.assert_allclose(found.coef(), W, rtol=0, atol=TOLERANCE * np.abs(W).max())
    np.testing.assert_allclose(found.train_loss, np.exp(-W @ Z.T).mean(1), rtol=1e-12)
    # Too large a step leaves the range of doubles, as exp of exp does; that is a value, and a logistic run does not.
    wild = logistic_descent(np.vstack([Z, -Z]), n_steps=50, step_size=100.0, loss="exponential")
    assert wild.left_range
    assert np.isfinite(wild.margins[0]).all()
    assert np.isnan(wild.margins[-1]).all()
    assert np.isnan(wild.train_error[-1])
    assert np.isnan(wild.alpha[-1]).all()
    assert not logistic_descent(np.vstack([Z, -Z]), n_steps=50, step_size=1e100).left_range


def test_a_batch_is_its_members_to_the_last_digit():
    Z = np.stack([rows(seed=s) for s in range(3)])
    c = np.random.default_rng(5).uniform(0.5, 1.5, (3, 20))
    batch = logistic_descent(Z, n_steps=300, weights=c)
    assert batch.margins.shape == (3, batch.marks.size, 20)
    assert batch.coef().shape == (3, batch.marks.size, 30)
    for marks in (-1, 0, [2], [0, -1], slice(1, 3)):
        # One product against another order of sums.
        np.testing.assert_allclose(batch.coef(marks), batch.coef()[:, marks], rtol=1e-12, atol=1e-14)
    cross = np.stack([rows(6, seed=9)] * 3) @ np.swapaxes(Z, 1, 2)
    for b in range(3):
        one = logistic_descent(Z[b], n_steps=300, weights=c[b])
        np.testing.assert_array_equal(batch.alpha[b], one.alpha)
        np.testing.assert_array_equal(batch.margins[b], one.margins)
        assert batch.step_size[b] == one.step_size
        np.testing.assert_allclose(batch.outputs(cross)[b], one.outputs(cross[b]), rtol=1e-13)
        np.testing.assert_allclose(batch.train_error[b], one.train_error, rtol=0)
        np.testing.assert_allclose(batch.log_time[b], np.log(one.marks * one.step_size), atol=8 * EPS)
    steps = np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(
        logistic_descent(Z, n_steps=9, step_size=steps).alpha[2],
        logistic_descent(Z[2], n_steps=9, step_size=0.3).alpha,
    )


def test_gram_matrices_are_the_rows():
    Z = np.stack([rows(seed=s) for s in range(2)])
    by_rows = logistic_descent(Z, n_steps=300)
    by_gram = logistic_descent(gram=Z @ np.swapaxes(Z, 1, 2), n_steps=300)
    # Each Gram matrix is rounded in its own units.
    np.testing.assert_allclose(by_gram.alpha, by_rows.alpha, rtol=0, atol=TOLERANCE * by_rows.alpha.max())
    np.testing.assert_allclose(by_gram.alpha @ Z, by_rows.coef(), rtol=0, atol=TOLERANCE * np.abs(by_rows.coef()).max())


def test_weights_are_repeated_rows():
    Z, times = rows(), np.arange(20) % 3
    repeated = np.repeat(Z, times, axis=0)
    c = times / times.sum()
    weighted = logistic_descent(Z, n_steps=300, weights=c)
    other = logistic_descent(repeated, n_steps=300)
    assert weighted.step_size == pytest.approx(float(other.step_size), rel=1e-13)
    np.testing.assert_allclose(weighted.coef(), other.coef(), rtol=0, atol=TOLERANCE * np.abs(other.coef()).max())
    np.testing.assert_allclose(weighted.train_error, other.train_error, atol=1e-14)
    np.testing.assert_allclose(weighted.train_loss, other.train_loss, rtol=1e-12)


def test_the_loss_falls_at_every_step_of_the_stated_size():
    for seed in range(5):
        Z = rows(25, 4, seed=seed)
        Z[:5] *= -1  # not separable
        found = logistic_descent(Z, n_steps=200, marks=range(1, 201))
        losses = np.concatenate([[math.log(2)], found.train_loss])
        assert (np.diff(losses) <= 4 * EPS).all()
    # ... which a step size beyond twice that need not do.
    Z = np.array([[1.0], [-1.0 + 1e-3]])
    eta = float(logistic_descent(Z, n_steps=1).step_size)
    wild = logistic_descent(Z, n_steps=200, step_size=50 * eta, marks=range(1, 201))
    assert (np.diff(wild.train_loss) > 1e-3).any()


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("coordinates", ["dual", "primal"])
def test_units_change_nothing(scale, coordinates):
    Z = rows()
    one = logistic_descent(Z, n_steps=200, coordinates=coordinates)
    other = logistic_descent(Z * scale, n_steps=200, coordinates=coordinates)
    np.testing.assert_allclose(other.margins, one.margins, rtol=0, atol=TOLERANCE * one.margins.max())
    np.testing.assert_allclose(other.coef() * scale, one.coef(), rtol=0, atol=TOLERANCE * np.abs(one.coef()).max())
    given = logistic_descent(Z * scale, n_steps=200, coordinates=coordinates, step_size=float(other.step_size))
    np.testing.assert_allclose(given.margins, one.margins, rtol=0, atol=TOLERANCE * one.margins.max())


def long_loop(Z, eta, n_steps):
    """Margins of the plain loop in extended precision."""
    Z, w = Z.astype(np.longdouble), np.zeros(Z.shape[1], np.longdouble)
    for _ in range(n_steps):
        w = w + np.longdouble(eta) / len(Z) * (1 / (1 + np.exp(Z @ w))) @ Z
    return Z @ w


@pytest.mark.skipif(bool(np.finfo(np.longdouble).eps >= EPS), reason="needs numbers longer than doubles")
@pytest.mark.parametrize("coordinates", ["dual", "primal"])
@pytest.mark.parametrize("kind", ["plain", "nearly opposite", "of unequal sizes"])
def test_the_rounding_of_the_margins_is_told(kind, coordinates):
    for n, d in [(20, 30), (5, 5), (20, 8)]:
        Z = np.random.default_rng(n + d).standard_normal((n, d))
        if kind == "nearly opposite":
            Z[1] = -Z[0] + 1e-6 * Z[2]
        elif kind == "of unequal sizes":
            Z *= np.geomspace(1e-4, 1e4, n)[:, None]
        found = logistic_descent(Z, n_steps=1000, marks=[1000], coordinates=coordinates)
        off = np.abs(found.margins[-1] - long_loop(Z, float(found.step_size), 1000))
        assert (off <= found.margin_errors[-1]).all()
        assert found.margin_errors.shape == found.margins.shape
        # It is no larger than 150 roundings of the sums that margins are made of.
        sums = np.linalg.norm(Z, axis=1) * (np.linalg.norm(Z, axis=1) @ found.alpha[-1])
        assert (found.margin_errors[-1] <= 150 * EPS * sums * (1 + n / found.alpha[-1].min())).all()


def test_rows_whose_squares_hide_their_difference():
    Z = np.array([[1.0, 0.0], [-1.0, 1e-8]])
    dual = logistic_descent(Z, n_steps=10_000, coordinates="dual")
    assert (np.abs(dual.margins) <= dual.margin_errors).all()  # nothing is known of them, and it says so
    found = logistic_descent(Z, n_steps=10_000)
    assert found.coordinates == "primal"
    # Both rows pull alike: the second component grows by eta 1e-8 / 4 a step.
    grown = float(found.step_size) * 1e-16 / 4 * 10_000
    np.testing.assert_allclose(found.margins[-1].sum(), grown, rtol=1e-6)
    assert (found.margins[-1] > 10 * found.margin_errors[-1]).all()
    batch = logistic_descent(np.stack([Z, np.eye(2)]), n_steps=10_000)
    np.testing.assert_array_equal(batch.margins[0], found.margins)
    # Margins that are zero because the rows contradict each other are none the worse in primal coordinates.
    assert logistic_descent(np.array([[1.0, 2.0], [-1.0, -2.0]]), n_steps=100).coordinates == "primal"
    assert logistic_descent(rows(), n_steps=10_000).coordinates == "dual"


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_a_gram_matrix_of_rows_is_never_refused(scale):
    for n, d in [(1, 1), (30, 2), (60, 60), (200, 3)]:
        Z = rows(n, d)
        assert logistic_descent(gram=scale * (Z @ Z.T), n_steps=2).coordinates == "dual"
        Z *= np.geomspace(1, 1e8, n)[:, None]
        logistic_descent(gram=scale * (Z @ Z.T), n_steps=2)
        single = Z.astype(np.float32)
        logistic_descent(gram=single @ single.T, n_steps=2)


# The configuration of the theory page: oracle stopping on equal seeds.


@pytest.mark.parametrize(("n", "n_seeds", "n_steps", "excess"), [(50, 24, 1500, 0.0060), (800, 8, 1000, 0.0024)])
def test_the_oracle_of_the_theory_page(n, n_seeds, n_steps, excess):
    mixture = Mixture.polynomial(2000, a=1.2)
    risk = MixtureRisk(mean=mixture.mean, eigenvalues=mixture.eigenvalues, flips=mixture.flips)
    best = []
    for s in range(n_seeds):
        along = risk.excess(logistic_descent(mixture.sample(n, 2000 + s).Z, n_steps=n_steps).coef())
        assert along.argmin() < along.size - 1  # stopped, if only after the first step
        best.append(along.min())
    assert np.mean(best) == pytest.approx(excess, abs=5e-5)  # the page's digits


# What is refused.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: logistic_descent(n_steps=5),
            "pass either the rows `Z` or their `gram` matrix, one of the two.",
        ),
        (
            lambda: logistic_descent(np.ones(3), n_steps=5),
            "`Z` must have shape (n, d), or (B, n, d); got (3,).",
        ),
        (
            lambda: logistic_descent(np.ones((0, 3)), n_steps=5),
            "`Z` has shape (0, 3): there is nothing in it.",
        ),
        (
            lambda: logistic_descent(np.array([[1.0, np.nan]]), n_steps=5),
            "`Z[0, 1]` is nan; every entry must be finite.",
        ),
        (
            lambda: logistic_descent(np.zeros((2, 3)), n_steps=5),
            "every row is zero: there is nothing to learn from.",
        ),
        (
            lambda: logistic_descent(np.stack([np.ones((2, 3)), np.zeros((2, 3))]), n_steps=5),
            "every row of data set 1 is zero: there is nothing to learn from.",
        ),
        (
            lambda: logistic_descent(np.array([[0.0], [1.0]]), n_steps=5, weights=np.array([1.0, 0.0])),
            "every row of positive weight is zero: there is nothing to learn from.",
        ),
        (
            lambda: logistic_descent(gram=np.ones((2, 3)), n_steps=5),
            "`gram` must be square in its last two axes; got (2, 3).",
        ),
        (
            lambda: logistic_descent(gram=np.array([[1.0, 0.5], [0.0, 1.0]]), n_steps=5),
            "`gram` is not symmetric: entries that should be equal differ by up to 0.5.",
        ),
        (
            lambda: logistic_descent(gram=np.array([[1.0, 2.0], [2.0, 1.0]]), n_steps=5),
            "`gram` is not positive semidefinite: it has the eigenvalue -1 beside 3, and the products `z_i'z_j` of "
            "rows have none below zero.",
        ),
        (
            lambda: logistic_descent(gram=1e150 * np.array([np.eye(2), [[1.0, 0.0], [0.0, -1e-9]]]), n_steps=5),
            "`gram[1]` is not positive semidefinite: it has the eigenvalue -1e+141 beside 1e+150, and the products "
            "`z_i'z_j` of rows have none below zero.",
        ),
        (
            lambda: logistic_descent(rows() * 0 + 1e-160, n_steps=5),
            "with entries up to 1e-160 in `Z` the step size leaves the range of doubles, here or in units of the "
            "largest entry; divide `Z` by its largest entry.",
        ),
        (
            lambda: logistic_descent(np.full((2, 3, 2), 1e300), n_steps=5),
            "with entries up to 1e+300 in `Z` of data set 0 the step size leaves the range of doubles, here or in "
            "units of the largest entry; divide `Z` by its largest entry.",
        ),
        (
            lambda: logistic_descent(np.full((3, 2), 1e300), n_steps=5, step_size=1.0),
            "with entries up to 1e+300 in `Z` the step size leaves the range of doubles, here or in units of the "
            "largest entry; divide `Z` by its largest entry.",
        ),
        (
            lambda: logistic_descent(np.array([[1e-153], [-1e-153]]), n_steps=10_000),
            "the coordinates alpha leave the range of doubles in these units; divide `Z` by its largest entry.",
        ),
        (
            lambda: logistic_descent(np.ma.masked_equal(np.eye(2), 0.0), n_steps=5),
            "`Z[0, 1]` is masked (2 such entries of 4); fill masked entries in, or leave out their rows.",
        ),
        (
            lambda: logistic_descent(gram=np.eye(2), n_steps=5, coordinates="primal"),
            "primal coordinates need the rows `Z`; a Gram matrix has only dual ones.",
        ),
        (
            lambda: logistic_descent(gram=np.eye(2), n_steps=5).coef(),
            "only a Gram matrix was given, and the weights need the rows: multiply `alpha` by them, `alpha @ Z`.",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5).outputs(np.ones((3, 4))),
            "`cross` must have shape (m, 20), one column for each row of the training data; got (3, 4).",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=0),
            "`n_steps` must be at least 1; got 0.",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, marks=[2, 6]),
            "`marks` must be ascending whole numbers from 1 to `n_steps` = 5; got [2.0, 6.0].",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, marks=[2, 2]),
            "`marks` must be ascending whole numbers from 1 to `n_steps` = 5; got [2.0, 2.0].",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, weights=np.ones(3)),
            "`weights` must have shape (20,), one for each row; got (3,).",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, weights=-np.ones(20)),
            "`weights` must not be negative, and not all zero; the least is -1, the largest -1.",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, step_size=-0.5),
            "`step_size` must be positive and finite; got -0.5.",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, step_size=np.ones(2)),
            "`step_size` must be one number; got shape (2,).",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, loss="hinge"),
            "`loss` must be one of logistic, exponential; got 'hinge'.",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, loss="exponential"),
            "the exponential loss has no largest curvature to take a step size from; pass `step_size`.",
        ),
        (
            lambda: logistic_descent(rows(), n_steps=5, coordinates="mirror"),
            "`coordinates` must be auto, dual or primal; got 'mirror'.",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
