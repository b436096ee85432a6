"""Exact risks against draws, against quadrature of their definitions, and in ball arithmetic where digits cancel."""

import itertools
import math
import re

import numpy as np
import pytest
from flint import arb, ctx
from scipy.integrate import quad
from scipy.optimize import nnls

from omegalimit._threads import one_blas_thread
from omegalimit.data.mixture import Mixture
from omegalimit.limits._normal_integrals import bregman, normal_mass
from omegalimit.limits.mixture_risk import MixtureRisk, Seen

EPS = float(np.finfo(float).eps)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_blas_thread():
        yield


def risk_of(mixture):
    return MixtureRisk(mean=mixture.mean, eigenvalues=mixture.eigenvalues, flips=mixture.flips)


def signal_alone(r, p):
    """In one dimension, with unit variance."""
    return MixtureRisk(mean=np.array([r]), eigenvalues=np.ones(1), flips=p)


@pytest.fixture(scope="module")
def two():
    """The configuration r = 2, p = 0.1."""
    return risk_of(Mixture.polynomial(2000, a=1.2))


# The 0-1 risk.


def test_the_risks_of_draws():
    mixture = Mixture.polynomial(6, a=1.2, r=1.3, flips=0.15)
    risk, n = risk_of(mixture), 400_000
    X, y, _ = mixture.sample(n, 11)
    W = np.random.default_rng(0).standard_normal((5, 6)) * np.array([0.2, 1, 3, 10, 0.01])[:, None]
    margins = y[:, None] * (X @ W.T)
    wrong = (margins <= 0).mean(0)
    # Five standard deviations of the mean.
    np.testing.assert_allclose(risk.risk(W), wrong, atol=5 * 0.5 / math.sqrt(n))
    losses = np.logaddexp(0, -margins)
    found = risk.logistic_risk(W)
    assert (np.abs(found.value - losses.mean(0)) <= 5 * losses.std(0) / math.sqrt(n)).all()


def test_bayes():
    mixture = Mixture.polynomial(30, a=2.0)
    risk = risk_of(mixture)
    assert risk.bayes_risk == pytest.approx(0.1 + 0.8 * 0.5 * math.erfc(math.sqrt(2)), rel=1e-14)
    assert risk.risk(risk.bayes_direction * 7) == pytest.approx(risk.bayes_risk, rel=1e-14)
    assert risk.risk(np.zeros(30)) == 0.5
    assert risk.excess(np.zeros(30)) == pytest.approx(0.5 - risk.bayes_risk, rel=1e-14)
    W = np.random.default_rng(0).standard_normal((50, 30))
    assert (risk.risk(W) > risk.bayes_risk).all()
    np.testing.assert_allclose(risk.excess(W), risk.risk(W) - risk.bayes_risk, atol=4 * EPS)
    signal = W @ risk.mean / np.sqrt((W * W) @ risk.eigenvalues)
    np.testing.assert_allclose(risk.signal(W), signal, rtol=1e-12)
    np.testing.assert_allclose(risk.excess_at(signal), risk.excess(W), rtol=1e-12)


def test_the_angle_is_exact_where_the_arc_cosine_has_no_digits(two):
    b = two.bayes_direction / two.r  # of size one in the metric of the covariance
    # A direction that is orthogonal to b in that metric, of the same size.
    across = np.zeros(b.size)
    across[:2] = two.mean[1], -two.mean[0]
    across /= math.sqrt(across**2 @ two.eigenvalues)
    tilts = np.array([1e-12, 1e-8, 1e-4, 0.3, 2.0])
    W = b + tilts[:, None] * across
    seen = two.see(W)
    np.testing.assert_allclose(seen.angle, np.arctan(tilts), rtol=0, atol=16 * EPS)
    np.testing.assert_allclose(seen.size, np.hypot(1, tilts), rtol=1e-13)
    np.testing.assert_allclose(two.see(-W).angle, math.pi - seen.angle, atol=16 * EPS)
    excess = two.excess(W)
    # The first term of the series, whose next is of relative size theta^2.
    first = 0.8 * math.exp(-2) / math.sqrt(2 * math.pi) * 2 * tilts[1:3] ** 2 / 2
    np.testing.assert_allclose(excess[1:3], first, rtol=1e-7)
    assert excess[1] < 1e-16  # beside a risk of 0.118, whose last digit is 1e-17


def in_balls(r, delta):
    """`Phi(delta - r) - Phi(-r)` by the error function with 150 digits."""
    ctx.dps = 150  # Phi(-20) is 3e-89
    try:
        root = arb(2).sqrt()
        return float(((arb(r) / root).erf() - ((arb(r) - arb(delta)) / root).erf()) / 2)
    finally:
        ctx.default()


@pytest.mark.parametrize("r", [1e-3, 0.5, 2.0, 7.0, 20.0])
def test_a_normal_mass_has_no_cancellation(r):
    deltas = np.array([*np.geomspace(1e-15, 2, 40) * r, r, 0.999 / (r + 1), 1.001 / (r + 1)])
    deltas = deltas[deltas <= 2 * r]
    found = normal_mass(r, deltas)
    exact = np.array([in_balls(r, float(d)) for d in deltas])
    # The exponent r^2/2, rounded, is the conditioning of the result; log Phi is good to a few units of it.
    np.testing.assert_allclose(found, exact, rtol=16 * EPS * (2 + r * r))


# The logistic risk.


def by_quad(r, p, s, rho):
    """`E log(1 + e^{-M}) + p M` with SciPy's adaptive rule."""

    def f(z):
        return np.logaddexp(0, -(s + rho * z)) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    kink = -s / rho
    points = [kink - 40 / rho, kink, kink + 40 / rho] if abs(kink) + 40 / rho < 12 else None
    return quad(f, -12 - r, 12 + r, points=points, epsabs=1e-13, epsrel=1e-12, limit=400)[0] + p * s


@pytest.mark.parametrize("rho", [1e-6, 0.3, 2.0, 7.9, 8.1, 15.9, 16.1, 500.0, 1e5])
@pytest.mark.parametrize("angle", [0.0, 0.4, 1.7, math.pi])
def test_the_logistic_risk_is_its_definition(rho, angle):
    risk = signal_alone(2.0, 0.1)
    found = risk.logistic_risk(Seen(size=np.array(rho), angle=np.array(angle)))
    exact = by_quad(2.0, 0.1, 2.0 * rho * math.cos(angle), rho)
    assert found.value == pytest.approx(exact, rel=1e-11)  # SciPy's own accuracy
    assert found.error <= 1e-13 * max(1.0, rho)


def test_the_logistic_risk_far_out_is_a_hinge():
    risk = signal_alone(2.0, 0.1)
    rho = 1e12
    found = risk.logistic_risk(Seen(size=np.array(rho), angle=np.array(0.0)))
    phi, Phi = math.exp(-2) / math.sqrt(2 * math.pi), 0.5 * math.erfc(math.sqrt(2))
    # E max(-M, 0) + p E M, to which the curvature of the loss adds O(1/rho).
    assert found.value / rho == pytest.approx(phi - 2 * Phi + 0.1 * 2, rel=1e-13)


def test_the_minimum_of_the_theory_page(two):
    found = two.minimum
    assert found.c == pytest.approx(0.492784, abs=5e-7)
    assert found.risk == pytest.approx(0.382702, abs=5e-7)
    assert found.c_lower <= found.c <= found.c_upper
    assert found.c_upper - found.c_lower < 1e-13
    assert 0 <= found.risk - found.risk_lower < 1e-14
    clean = signal_alone(2.0, 0.0).minimum
    assert clean.c == pytest.approx(2, rel=1e-14)
    assert clean.risk == pytest.approx(0.0604270, abs=5e-8)


@pytest.mark.parametrize("r", [1e-8, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("p", [0.0, 1e-9, 0.2, 0.499])
def test_the_minimum_is_one(r, p):
    risk = signal_alone(r, p)
    found = risk.minimum
    if p == 0:  # well specified: the bracket must hold the known answer
        assert found.c_lower <= 2 <= found.c_upper
    others = risk.logistic_risk(np.array([[0.9], [0.999], [1.001], [1.1]]) * found.c * r)
    assert (others.value + others.error >= found.risk_lower).all()
    assert 0 < found.slope <= 0.5
    assert found.slope == pytest.approx(-slope_at(risk, found.c), rel=1e-8)


def slope_at(risk, c):
    """`E g'(m)` by another rule; SciPy's, on the two sides of the steep part apart."""
    r, p = risk.r, risk.flips

    def f(z):
        m = c * r * (r + z)
        return (p - 1 / (1 + math.exp(m)) if m < 700 else p) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    width = 10 / max(1.0, c * r)
    edges = sorted({-12 - r, -r - width, -r, -r + width, 0.0, 12 + r})
    # Each of its pieces relative to itself: the sum is exponentially small for strong signals.
    return math.fsum(quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(edges))


def slope_in_balls(r, p):
    """`d/d rho E g(rho (r + Z))` as a function of rho: the trapezoidal rule with 140 digits, exact to far below them.

    At steps of 1/5 its error is `e^{-2 pi^2 25}`, or less than `e^{-2 pi^2 5/rho}` by the pole of the loss: 1e-200 and
    1e-85.
    """
    R, half, h = arb(r), arb(1) / 2 - arb(p), arb(1) / 5
    nodes = [(R + k * h, (-((k * h) ** 2) / 2).exp()) for k in range(-5 * 30, 5 * 30 + 1)]
    unit = h / (2 * arb.pi()).sqrt()
    return lambda rho: unit * sum((x * (rho * x / 2).tanh() / 2 * w for x, w in nodes), arb(0)) - half * R


@pytest.mark.parametrize(
    ("r", "p"),
    [
        (5.0, 0.1),
        (5.0, 0.2499),
        (5.0, 0.26),
        (5.0, 0.4999),
        (5.0, 0.5 - 1e-10),
        (5.0, 0.499999999999999),
        (1.0, 0.499999999999),
        (1.0, 0.3),
        (0.3, 0.0),
        (2.0, 0.5 - 2.0**-54),
        (2.0, 0.5 - 2e-16),
        (20.0, 0.49),
        (1e-100, 0.1),
    ],
)
def test_the_bracket_holds_the_minimiser_however_many_labels_are_flipped(r, p):
    found = signal_alone(r, p).minimum
    assert found.c_lower <= found.c <= found.c_upper
    # A few ten roundings: where the two parts of the derivative cancel, they are as large as it is.
    assert found.c_upper - found.c_lower <= 200 * EPS * found.c
    ctx.dps = 140
    try:
        slope = slope_in_balls(r, p)
        assert slope(arb(found.c_lower) * arb(r)) < 0
        assert slope(arb(found.c_upper) * arb(r)) > 0
    finally:
        ctx.default()


def test_the_constants_of_weak_signals():
    # To first order in r, with q = 1/2 - p: F - F* = |w - w*|^2/8 in the metric of the covariance, |w*| = 4 q r, and
    # R - R* = 2 q phi(0) r (1 - cos theta); so the ratio is phi(0)/(2 q r) near w*, and four times that behind 0.
    for r, p in [(1e-8, 0.1), (1e-100, 0.3), (1e-100, 0.5 - 2.0**-54)]:
        risk, q = signal_alone(r, p), 0.5 - p
        found = risk.calibration
        assert risk.minimum.c == pytest.approx(4 * q, rel=1e-12)
        assert found.local == pytest.approx(1 / (2 * q * r * math.sqrt(2 * math.pi)), rel=1e-12)
        assert found.supremum == pytest.approx(4 * found.local, rel=1e-7)  # the next term is of order r
        assert found.supremum <= found.upper <= 1.0101 * found.supremum


def test_signals_and_sizes_next_to_the_ends_of_the_doubles():
    risk = signal_alone(2.0, 0.1)
    W = np.array([[1e300], [-1e300], [1e-320]])
    found = risk.logistic_risk(W)
    assert np.isfinite(found.value).all()
    assert found.value[2] == pytest.approx(math.log(2), rel=1e-15)
    # So far out the risk is that of a hinge, proportional to the size.
    np.testing.assert_allclose(found.value[:2], risk.logistic_risk(W[:2] * 1e-280).value * 1e280, rtol=1e-12)
    assert np.isfinite(risk.logistic_excess(W).value).all()
    assert risk.risk(np.array([1e308])) == pytest.approx(risk.bayes_risk, rel=1e-14)
    small = MixtureRisk(mean=np.full(3, 1e-90), eigenvalues=np.ones(3), flips=0.1)
    assert small.r == pytest.approx(math.sqrt(3) * 1e-90, rel=4 * EPS)


def bregman_in_balls(x, h):
    ctx.dps = 80
    try:
        X, H = arb(x), arb(h)
        return float((1 + (X + H).exp()).log() - (1 + X.exp()).log() - H / (1 + (-X).exp()))
    finally:
        ctx.default()


def test_the_remainder_has_no_cancellation():
    x = np.array([-40.0, -3.0, -0.2, 0.0, 0.7, 5.0, 60.0])
    h = np.array([-80.0, -5.0, -0.51, -0.49, -1e-3, -1e-9, 1e-12, 1e-4, 0.3, 0.6, 4.0, 90.0])
    found = bregman(x[:, None], h[None, :])
    exact = np.array([[bregman_in_balls(a, b) for b in h] for a in x])
    # At |h| = 1/2 the difference has lost a factor 1/|h| of its digits, on exponents of size up to 100.
    np.testing.assert_allclose(found, exact, rtol=200 * EPS)
    assert (bregman(x, np.zeros(7)) == 0).all()


@pytest.mark.parametrize("p", [0.0, 0.1])
def test_the_logistic_excess_is_the_difference_of_the_risks(p):
    risk = risk_of(Mixture.polynomial(40, a=1.2, flips=p))
    W = np.random.default_rng(3).standard_normal((30, 40)) * np.geomspace(1e-3, 1e5, 30)[:, None]
    W += risk.bayes_direction * np.linspace(-1, 3, 30)[:, None]
    whole, excess = risk.logistic_risk(W), risk.logistic_excess(W)
    difference = whole.value - risk.minimum.risk
    assert (np.abs(excess.value - difference) <= 4 * EPS + 2 * (whole.error + excess.error)).all()
    assert risk.logistic_excess(np.zeros(40)).value == pytest.approx(math.log(2) - risk.minimum.risk, rel=1e-13)


def test_the_logistic_excess_is_exact_near_the_minimum(two):
    b = two.bayes_direction * two.minimum.c
    # In size: F'' rho^2 change^2/2, with F'' by differences of the derivative's own rule.
    found = two.logistic_excess(b[None] * (1 + np.array([1e-9, 1e-6]))[:, None]).value
    assert found[1] / found[0] == pytest.approx(1e6, rel=1e-5)  # 1e-9 is given to 1e-7 of itself in 1 + 1e-9
    assert 1e-20 < found[0] < 1e-17  # beside a risk of 0.38
    # In direction: A c r^2 theta^2/2.
    theta = 1e-7
    turned = two.logistic_excess(Seen(size=np.array(two.minimum.size), angle=np.array(theta))).value
    # The mean of M falls too, by O(theta^2), and adds to the remainder only at the fourth order.
    assert turned == pytest.approx(two.minimum.slope * two.minimum.size * two.r * theta**2 / 2, rel=1e-8)


# Calibration.


def test_the_constants_of_the_theory_page(two):
    found = two.calibration
    assert found.local == pytest.approx(0.75688, abs=5e-6)
    assert found.supremum == pytest.approx(2.4597, abs=5e-5)
    assert (found.angle, found.size) == (math.pi, 0.0)
    assert found.supremum <= found.upper <= 1.0101 * found.supremum


@pytest.mark.parametrize(("r", "p"), [(0.2, 0.0), (1.0, 0.3), (2.0, 0.1), (4.0, 0.0), (6.0, 0.01)])
def test_no_weight_vector_has_more_than_the_constant(r, p):
    risk = signal_alone(r, p)
    K = risk.calibration
    angle, size = np.meshgrid(
        np.concatenate([np.geomspace(1e-8, 1, 60), np.linspace(1, math.pi, 60)]), np.geomspace(1e-6, 10, 71)
    )
    seen = Seen(size=size * risk.minimum.size, angle=angle)
    ratio = risk.excess(seen) / risk.logistic_excess(seen).value
    assert ratio.max() <= K.supremum * (1 + 1e-12)
    assert ratio.max() >= K.supremum * 0.99  # it is no larger than it must be
    close = Seen(size=np.array(risk.minimum.size), angle=np.array(1e-6))
    at_best = risk.excess(close) / risk.logistic_excess(close).value
    # theta^2 of the series' next term, times r^2.
    assert at_best == pytest.approx(K.local, rel=1e-9)
    assert K.supremum <= K.upper <= 1.0101 * K.supremum


def test_the_local_constant_is_not_enough(two):
    # The gate has to be the global one: a small weight vector across the Bayes direction has more.
    seen = Seen(size=np.array(1e-3), angle=np.array(2.0))
    assert two.excess(seen) > two.calibration.local * two.logistic_excess(seen).value


def test_the_bound_on_the_curvature_that_calibration_uses():
    m = np.linspace(-50, 50, 100_001)
    s = 1 / (1 + np.exp(-m))
    assert (2 / (1 + np.exp(m / 2)) >= (1 - s) + np.abs(m) * s * (1 - s)).all()


# The best interpolator.


def test_the_best_interpolator_of_the_theory_page():
    mixture = Mixture.polynomial(2000, a=1.2)
    risk = risk_of(mixture)

    def mean_excess(n, seeds):
        found = [risk.best_interpolator(mixture.sample(n, 2000 + s).Z) for s in range(seeds)]
        return np.mean([risk.excess(f.w) for f in found if f.w is not None])

    assert mean_excess(100, 24) == pytest.approx(0.0011, abs=1e-4)
    assert mean_excess(800, 2) == pytest.approx(0.0103, rel=0.25)  # two of the seeds that the page's mean is over


def checked(risk, Z, found):
    """Both bounds, from nothing but the data."""
    V = Z / risk.deviations
    v = risk.whitened_mean + found.multipliers @ V
    assert (found.multipliers >= 0).all()
    assert found.upper == pytest.approx(np.linalg.norm(v), rel=1e-12, abs=1e-12 * risk.r)
    if found.w is not None:
        assert math.sqrt(found.w**2 @ risk.eigenvalues) == pytest.approx(1, rel=1e-13)
        assert found.w @ risk.mean == pytest.approx(found.lower, rel=1e-12)
        assert (Z @ found.w / np.linalg.norm(V, axis=1)).min() == pytest.approx(found.least_margin, abs=1e-14)
        assert found.least_margin >= 0
        assert 0 <= found.upper - found.lower + 2 * found.slack < 1e-10 * risk.r


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 40), (40, 60), (12, 4)])
def test_the_best_interpolator_is_optimal(n, d):
    risk = risk_of(Mixture.polynomial(d, a=1.0, r=1.5, flips=0.2))
    rng = np.random.default_rng(n)
    for _ in range(4):
        teacher = rng.standard_normal(d) + risk.bayes_direction * 2
        Z = rng.standard_normal((n, d))
        Z *= np.sign(Z @ teacher)[:, None]  # separable
        found = risk.best_interpolator(Z)
        checked(risk, Z, found)
        V = Z / risk.deviations
        _, residual = nnls(V.T, -risk.whitened_mean)
        assert found.upper == pytest.approx(residual, rel=1e-10, abs=1e-10 * risk.r)
        # No other interpolator is better: the teacher is one.
        assert risk.signal(teacher) <= found.upper * (1 + 1e-12)


def test_rows_that_hold_nothing_back_leave_bayes():
    risk = risk_of(Mixture.polynomial(6))
    Z = np.vstack([risk.bayes_direction, np.zeros(6), 2 * risk.bayes_direction])
    found = risk.best_interpolator(Z)
    assert found.lower == pytest.approx(2, rel=1e-14)
    assert not found.support.any()
    assert found.w is not None
    assert risk.excess(found.w) < 1e-28


def test_no_interpolator_that_points_the_right_way():
    risk = risk_of(Mixture.polynomial(3))
    rng = np.random.default_rng(0)
    z = rng.standard_normal(3)
    both = risk.best_interpolator(np.array([z, -z, risk.mean, -risk.mean, *np.eye(3), *-np.eye(3)]))
    assert both.w is None  # not separable
    assert both.lower == 0
    assert both.upper <= 1e-12
    wrong = risk.best_interpolator(-risk.mean[None] / 3)  # separable, but only by w'mu < 0
    assert wrong.w is None
    assert wrong.upper <= 1e-12


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_change_nothing(scale):
    mixture = Mixture.polynomial(30, a=1.2)
    Z = mixture.sample(12, 4).Z
    one = risk_of(mixture)
    other = MixtureRisk(mean=one.mean * scale, eigenvalues=one.eigenvalues * scale * scale, flips=0.1)
    W = np.random.default_rng(0).standard_normal((3, 30))
    np.testing.assert_allclose(other.excess(W / scale), one.excess(W), rtol=1e-11)
    np.testing.assert_allclose(other.logistic_risk(W / scale).value, one.logistic_risk(W).value, rtol=1e-13)
    a, b = one.best_interpolator(Z), other.best_interpolator(Z * scale)
    assert b.lower == pytest.approx(a.lower, rel=1e-12)
    c = one.best_interpolator(Z * np.geomspace(1e-150, 1e150, 12)[:, None])  # nor do the sizes of the rows
    assert c.lower == pytest.approx(a.lower, rel=1e-12)
    assert c.support.tolist() == a.support.tolist()
    assert other.calibration.supremum == pytest.approx(one.calibration.supremum, rel=1e-12)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: signal_alone(0.0, 0.1),
            "`mean` is zero: both classes are the same, and there is nothing to learn.",
        ),
        (
            lambda: signal_alone(21.0, 0.1),
            "`mean` is r = 21 standard deviations long, in the metric of the covariance; risks are computed for "
            "0 < r <= 20, where the best classifier's error is 3e-89 already.",
        ),
        (
            lambda: signal_alone(1e-160, 0.1),
            "`mean` is r = 1e-160 standard deviations long, in the metric of the covariance; risks are computed for "
            "r >= 1e-100: excess risks are of the size of its square, and leave the range of doubles.",
        ),
        (
            lambda: signal_alone(2.0, 0.1).logistic_risk(np.array([[-1e308], [1.0]])),
            "the logistic risk of a `W` of size 1e+308 leaves the range of doubles; divide a weight vector by its size "
            "for the 0-1 risk, which is the same, and take the logistic risk of smaller ones.",
        ),
        (
            lambda: MixtureRisk(mean=np.ones(1), eigenvalues=np.array([4.0]), flips=0.1).risk(np.array([1e308])),
            "`W` times the deviations leaves the range of doubles; divide a weight vector by its size for the 0-1 "
            "risk, which is the same, and take the logistic risk of smaller ones.",
        ),
        (lambda: signal_alone(2.0, [0.1]), "`flips` must be one number; got shape (1,)."),
        (lambda: signal_alone(2.0, np.nan), "`flips` must be finite; got nan."),
        (lambda: signal_alone(2.0, 0.5), "`flips` must be at least 0 and less than 1/2; got 0.5."),
        (
            lambda: MixtureRisk(mean=np.ones(2), eigenvalues=np.array([1.0, -1.0]), flips=0.1),
            "`eigenvalues[1]` is -1; every one must be positive.",
        ),
        (
            lambda: MixtureRisk(mean=np.ones(2), eigenvalues=np.ones(3), flips=0.1),
            "`mean` has shape (2,) and `eigenvalues` has shape (3,): 2 entries against 3.",
        ),
        (
            lambda: signal_alone(2.0, 0.1).risk(np.ones((3, 2))),
            "`W` must have 1 entries along its last axis, one for each of `mean`; got shape (3, 2).",
        ),
        (
            lambda: signal_alone(2.0, 0.1).risk(np.array([np.nan])),
            "`W[0]` is nan; every entry must be finite.",
        ),
        (
            lambda: signal_alone(2.0, 0.1).excess_at(np.array(2.5)),
            "`signal` must lie between -r and r, r = 2; got 2.5.",
        ),
        (
            lambda: signal_alone(2.0, 0.1).best_interpolator(np.ones((3, 2))),
            "`Z` must have at least one row and 1 columns, one for each entry of `mean`; got shape (3, 2).",
        ),
    ],
)
def test_what_is_refused(made, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made()
