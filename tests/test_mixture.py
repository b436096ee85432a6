"""The mixture: its moments, its draw order written out, and what it refuses."""

import math
import re

import numpy as np
import pytest

from omegalimit.data.mixture import Mixture

EPS = float(np.finfo(float).eps)


@pytest.mark.parametrize(
    "made",
    [
        Mixture.polynomial(2000, a=1.2),
        Mixture.polynomial(50, a=0.0, r=0.3, flips=0.0),
        Mixture.exponential(200, rate=0.5, r=5.0),
        Mixture.with_spectrum(np.array([1e-150, 1.0, 1e150]), r=1.5, flips=0.4),
    ],
)
def test_the_mean_has_the_signal_that_was_asked_for(made):
    asked = {2000: 2.0, 50: 0.3, 200: 5.0, 3: 1.5}[made.d]
    assert made.r == pytest.approx(asked, rel=8 * EPS)
    # Sigma^{-1} mu falls as i^-0.6 whatever the spectrum is.
    b = made.mean / made.eigenvalues
    np.testing.assert_allclose(b / b[0], np.arange(1.0, made.d + 1) ** -0.6, rtol=1e-12)


def test_the_spectra():
    np.testing.assert_allclose(Mixture.polynomial(4, a=2.0).eigenvalues, [1, 1 / 4, 1 / 9, 1 / 16], rtol=4 * EPS)
    np.testing.assert_allclose(
        Mixture.exponential(3, rate=0.5).eigenvalues, [1, math.exp(-0.5), math.exp(-1)], rtol=4 * EPS
    )
    assert (Mixture.polynomial(4, a=0.0).eigenvalues == 1).all()


def test_the_draws_are_in_the_order_that_is_stated():
    made = Mixture.polynomial(7, a=1.2)
    rng = np.random.default_rng(2003)
    clean = rng.choice([-1.0, 1.0], 30)
    X = clean[:, None] * made.mean + rng.standard_normal((30, 7)) * np.sqrt(made.eigenvalues)
    y = np.where(rng.random(30) < 0.1, -clean, clean)
    drawn = made.sample(30, 2003)
    np.testing.assert_array_equal(drawn.clean, clean)
    np.testing.assert_array_equal(drawn.y, y)
    np.testing.assert_allclose(drawn.X, X, rtol=0, atol=4 * EPS * np.abs(X).max())
    np.testing.assert_array_equal(drawn.Z, drawn.y[:, None] * drawn.X)
    np.testing.assert_array_equal(drawn.flipped, clean != y)
    again = made.sample(30, np.random.default_rng(2003))
    np.testing.assert_array_equal(again.X, drawn.X)


def test_the_moments():
    made = Mixture(mean=np.array([1.0, -0.5]), eigenvalues=np.array([2.0, 0.25]), flips=0.2)
    n = 200_000
    X, y, clean = made.sample(n, 1)
    # Five standard deviations of each mean.
    np.testing.assert_allclose((clean[:, None] * X).mean(0), made.mean, atol=5 * math.sqrt(2 / n))
    covariance = np.cov((clean[:, None] * X).T)
    np.testing.assert_allclose(covariance, np.diag(made.eigenvalues), atol=5 * 2 * math.sqrt(2 / n))
    assert abs((y != clean).mean() - 0.2) < 5 * math.sqrt(0.16 / n)
    assert abs(clean.mean()) < 5 / math.sqrt(n)


def test_a_full_covariance_is_the_same_mixture_in_its_eigenbasis():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 5))
    covariance, mean = root @ root.T + np.eye(5), rng.standard_normal(5)
    made = Mixture.from_covariance(mean, covariance, flips=0.2)
    V = made.rotation
    assert V is not None
    assert made.r == pytest.approx(math.sqrt(mean @ np.linalg.solve(covariance, mean)), rel=1e-12)
    np.testing.assert_allclose(V * made.eigenvalues @ V.T, covariance, atol=1e-13 * np.abs(covariance).max())
    np.testing.assert_allclose(made.rotated(mean), made.mean, atol=1e-14)
    assert (np.diff(made.eigenvalues) <= 0).all()
    X = rng.standard_normal((4, 5))
    w = rng.standard_normal(5)
    np.testing.assert_allclose(made.rotated(X) @ made.rotated(w), X @ w, rtol=1e-12)
    flat = Mixture.polynomial(5)
    assert flat.rotated(X) is X


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_units_change_nothing(scale):
    made = Mixture.polynomial(20, a=1.2)
    other = Mixture(mean=made.mean * scale, eigenvalues=made.eigenvalues * scale * scale, flips=0.1)
    assert other.r == pytest.approx(made.r, rel=8 * EPS)
    np.testing.assert_allclose(other.sample(5).X / scale, made.sample(5).X, rtol=1e-14)
    covariance = np.diag(made.eigenvalues * scale * scale)
    assert Mixture.from_covariance(made.mean * scale, covariance).r == pytest.approx(made.r, rel=1e-13)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: Mixture(mean=np.ones(2), eigenvalues=np.ones(2), flips=0.5),
            "`flips`, the probability that a label is flipped, must be at least 0 and less than 1/2; got 0.5.",
        ),
        (
            lambda: Mixture.polynomial(3, flips=0.75),
            "`flips`, the probability that a label is flipped, must be at least 0 and less than 1/2; got 0.75. "
            "Above 1/2 exchange the names of the two classes.",
        ),
        (
            lambda: Mixture.polynomial(3, flips=-0.1),
            "`flips`, the probability that a label is flipped, must be at least 0 and less than 1/2; got -0.1.",
        ),
        (
            lambda: Mixture.polynomial(3, flips=float("nan")),
            "`flips` must be finite; got nan.",
        ),
        (
            lambda: Mixture.polynomial(3, r=0.0),
            "`r` must be positive; got 0.0.",
        ),
        (
            lambda: Mixture(mean=np.zeros(2), eigenvalues=np.ones(2), flips=0.1),
            "the largest entry of `mean` is 0: a mean of zero leaves nothing to learn.",
        ),
        (
            lambda: Mixture(mean=np.ones(2), eigenvalues=np.array([1.0, 0.0]), flips=0.1),
            "`eigenvalues[1]` is 0; every eigenvalue of the covariance must be positive. Leave out the directions that "
            "do not vary; where a spectrum fell below what a double can hold, pass a smaller `d`.",
        ),
        (
            lambda: Mixture(mean=np.ones(2), eigenvalues=np.array([1.0, np.inf]), flips=0.1),
            "`eigenvalues[1]` is inf; every entry must be finite.",
        ),
        (
            lambda: Mixture(mean=np.array([1.0, np.nan]), eigenvalues=np.ones(2), flips=0.1),
            "`mean[1]` is nan; every entry must be finite.",
        ),
        (
            lambda: Mixture(mean=np.array([1e200]), eigenvalues=np.ones(1), flips=0.1),
            "the largest entry of `mean` is 1e+200; choose units in which it lies between 1e-153 and 1e+153.",
        ),
        (
            lambda: Mixture(mean=np.ones(3), eigenvalues=np.ones(2), flips=0.1),
            "`mean` has shape (3,) and `eigenvalues` has shape (2,): 3 entries against 2.",
        ),
        (
            lambda: Mixture(mean=np.ones(0), eigenvalues=np.ones(0), flips=0.1),
            "`eigenvalues` is empty; pass at least one.",
        ),
        (
            lambda: Mixture.exponential(2000, rate=0.5),
            "`eigenvalues[1491]` is 0; every eigenvalue of the covariance must be positive. Leave out the directions "
            "that do not vary; where a spectrum fell below what a double can hold, pass a smaller `d`.",
        ),
        (
            lambda: Mixture.from_covariance(np.ones(2), np.array([[1.0, 0.5], [0.4, 1.0]])),
            "`covariance` is not symmetric: entry [0, 1] is 0.5, and [1, 0] is 0.4.",
        ),
        (
            lambda: Mixture.from_covariance(np.ones(2), np.eye(3)),
            "`covariance` must have shape (d, d) with d the length of `mean`, at least 1; got (3, 3) beside a mean of "
            "length 2.",
        ),
        (
            lambda: Mixture.from_covariance(np.ones(2), np.diag([1.0, -1.0])),
            "`covariance` has the eigenvalue -1 beside 1, which is not positive beyond rounding: the best classifier "
            "needs its inverse. Leave out the directions that do not vary.",
        ),
        (
            lambda: Mixture(mean=np.ones(2), eigenvalues=np.ones(2), flips=0.1, rotation=np.eye(3)),
            "`rotation` must have shape (2, 2); got (3, 3).",
        ),
        (
            lambda: Mixture(mean=np.ones(2), eigenvalues=np.ones(2), flips=0.1, rotation=np.array([[1.0, 0], [1, 1]])),
            "`rotation` is not orthogonal: `V'V` differs from the identity by 1. Take the eigenvectors of the "
            "covariance, or leave it to `Mixture.from_covariance`.",
        ),
        (
            lambda: Mixture(mean=np.ones(2), eigenvalues=np.ones(2), flips=0.1, rotation=1e200 * np.eye(2)),
            "`rotation` is not orthogonal: `V'V` differs from the identity by inf. Take the eigenvectors of the "
            "covariance, or leave it to `Mixture.from_covariance`.",
        ),
        (
            lambda: Mixture(mean=np.ones(1), eigenvalues=np.ones(1), flips=0.1, rotation=np.array([[np.nan]])),
            "`rotation[0, 0]` is nan; every entry must be finite.",
        ),
        (
            lambda: Mixture.polynomial(3).sample(0),
            "`n` must be at least 1; got 0.",
        ),
        (
            lambda: Mixture.polynomial(0),
            "`d` must be at least 1; got 0.",
        ),
    ],
)
def test_what_is_refused(made, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made()
