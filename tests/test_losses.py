"""Losses in logs: exact where plain doubles are, right where they underflow, and no cancellation at small gaps."""

import math
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from _double import in_double
from omegalimit._numerics import double_precision, log_expm1_ratio, log_log1p_exp
from omegalimit.data import TokenData
from omegalimit.flows import measure
from omegalimit.losses import LOSSES, PolynomialTail, as_loss, loss_named
from omegalimit.models import MergedAttention
from omegalimit.problem import AttentionProblem, MarginProblem

EPS = float(np.finfo(float).eps)
# Each form is a handful of operations on numbers no larger than the result and its arguments.
ULPS = 8


def exact(function, *arguments, digits):
    """`function` of decimals with so many digits, rounded to double at the end only."""
    with localcontext() as context:
        context.prec = digits
        context.Emin, context.Emax = -(10**9), 10**9
        return float(function(*map(Decimal, arguments)))


def log1p_exp(y):
    return (1 + y.exp()).ln()


VALUE = {"exponential": lambda z: -z, "logistic": lambda z: log1p_exp(-z).ln()}
SLOPE = {"exponential": lambda z: -z, "logistic": lambda z: -log1p_exp(z)}
GAP = {
    "exponential": lambda z, x: ((x - z).exp() - (-z).exp()).ln(),
    "logistic": lambda z, x: (log1p_exp(x - z) - log1p_exp(-z)).ln(),
}


def close(found, reference, *sizes):
    assert math.isfinite(found)
    assert abs(found - reference) <= ULPS * EPS * max(1.0, abs(reference), *map(abs, sizes))


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_slope_are_exact_on_both_sides_of_every_switch(name):
    loss = LOSSES[name]
    z = [-700.0, -40.0, -36.5, -3.0, -1e-8, 0.0, 1e-8, 0.7, 20.0, 35.9, 36.1, 100.0, 700.0, 760.0]
    values, slopes = in_double(loss.log_value)(np.array(z)), in_double(loss.log_slope)(np.array(z))
    for point, value, slope in zip(z, values, slopes, strict=True):
        # 1 + e^-760 needs 331 digits to differ from one.
        close(value, exact(VALUE[name], point, digits=400), point)
        close(slope, exact(SLOPE[name], point, digits=400), point)


@pytest.mark.parametrize("name", LOSSES)
def test_the_slope_is_the_derivative_of_the_value(name):
    loss = LOSSES[name]
    z = np.linspace(-30.0, 30.0, 25)
    derivative = in_double(jax.vmap(jax.grad(lambda x: jnp.exp(loss.log_value(x)))))(z)
    # One derivative through the log form: its factors are of size z at most.
    np.testing.assert_allclose(derivative, -np.exp(in_double(loss.log_slope)(z)), rtol=40 * EPS)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_gap_is_the_difference_of_losses_computed_with_enough_digits(name, seed):
    rng = np.random.default_rng(seed)
    z = rng.uniform(-50, 50, size=12)
    log_x = rng.uniform(-60, 6, size=12)
    found = in_double(LOSSES[name].log_gap)(z, log_x)
    for point, log_gap, value in zip(z, log_x, found, strict=True):
        # The difference loses 60 / log 10 digits at most; what is left of 150 is exact. x = e^6 amplifies one rounding
        # of log x to x eps.
        reference = exact(lambda a, b: GAP[name](a, b.exp()), point, log_gap, digits=150)
        close(value, reference, point, log_gap * math.exp(max(log_gap, 0.0)))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("log_x", [-50.0, -200.0, -744.0, -800.0, -1e5])
def test_gap_for_small_x_is_slope_times_x_however_small(name, log_x):
    loss = LOSSES[name]
    z = np.array([-30.0, -1.0, 0.0, 2.0, 40.0, 800.0])
    gap, slope = in_double(loss.log_gap)(z, np.full(6, log_x)), in_double(loss.log_slope)(z)
    # The next term is x/2 <= e^-50, far below rounding; one sum with log x rounds once.
    np.testing.assert_allclose(gap, slope + log_x, rtol=ULPS * EPS)


def test_ratio_and_double_log_are_exact_beside_their_switches():
    for x in (0.0, 1e-320, 1e-17, 1e-3, 1.0, 39.9, 40.1, 800.0, 1e4):
        reference = 0.0 if x < 1e-16 else exact(lambda a: ((a.exp() - 1) / a).ln(), x, digits=60)
        close(float(in_double(log_expm1_ratio)(np.array(x))), reference + (x / 2 if x < 1e-16 else 0.0))
    for y in (-800.0, -36.1, -35.9, -1.0, 0.0, 30.0, 1e5):
        close(float(in_double(log_log1p_exp)(np.array(y))), exact(lambda a: log1p_exp(a).ln(), y, digits=400))


# Logit gaps at which the usual programs return a zero loss or a zero gradient.
GAPS = (20.0, 100.0, 104.0, 120.0, 740.0, 760.0, 1e5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_margin_is_too_large_for_loss_and_gradient(name, dtype):
    loss = LOSSES[name]
    z = np.array(GAPS, dtype=dtype)
    with double_precision():
        value, slope = np.asarray(loss.log_value(z)), np.asarray(loss.log_slope(z))
        gap = np.asarray(loss.log_gap(np.zeros(len(z), dtype=dtype), -z))
    # log l = log(-l') = -z up to e^-z/2 < 2e-9 at z = 20.
    tolerance = 1e-9 + 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(value, -z, rtol=tolerance)
    np.testing.assert_allclose(slope, -z, rtol=tolerance)
    np.testing.assert_allclose(gap, -z + float(in_double(loss.log_slope)(np.zeros(()))), rtol=tolerance)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_gap_and_gradient_direction_of_a_softmax_at_any_logit_gap(name, dtype, gap):
    # One input with tokens (0, 1) along the first axis and (1, 0) along the second: the logits are (gap, 0), the scores
    # (1, 0), and the gradient is the first axis, whatever the gap.
    tokens = TokenData(
        X=np.array([[[1, 1], [0, 0]]], dtype=dtype), z=np.array([[1, 0]], dtype=dtype), y=np.ones(1, dtype=dtype),
        v=np.array([0, 1], dtype=dtype),
    )  # fmt: skip
    problem = AttentionProblem(tokens, MergedAttention(d=2), loss=name)
    theta = np.array([gap, 0.0, 0.0, 0.0])
    arrival = measure(problem, theta, math.log(gap) + math.log(float(problem.unit)))
    # p = e^-gap / (1 + e^-gap); f = 1 - p; L - L* = -l'(1) p to first order in p, the second below e^-20.
    slope = float(in_double(loss_named(name).log_slope)(np.ones(())))
    assert arrival.log_loss_gap == pytest.approx(-gap + slope, abs=1e-8, rel=4 * EPS)
    assert arrival.growth > 0
    # grad L = -e^M g with g along (1, 0; 1, 0): W acts on z = e_1 and both coordinates of the token differ.
    assert arrival.stationarity == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_array_equal(arrival.selection, [0])


@pytest.mark.parametrize("gap", GAPS)
def test_gradient_of_a_margin_loss_points_to_the_data_at_any_margin(gap):
    row = np.array([0.6, 0.8])
    problem = MarginProblem(lambda w: w @ row[:, None], np.array([1.0, 0.0]), loss="logistic")
    arrival = measure(problem, row, math.log(gap) + math.log(float(problem.unit)))
    assert arrival.log_loss_gap == pytest.approx(-gap, abs=2e-9)
    # g is the row itself over the unit, so nothing of it is tangential.
    assert arrival.growth * float(problem.unit) == pytest.approx(1.0, rel=1e-14)
    assert arrival.stationarity <= 4 * EPS


def test_an_unknown_loss_is_named():
    with pytest.raises(ValueError, match=r"^`loss` must be one of exponential, logistic; got 'hinge'\.$"):
        loss_named("hinge")


# The tail that falls by a power.

TAILS = [PolynomialTail(0.3), PolynomialTail(1), PolynomialTail(4.0)]


def tail_value(a, z):
    return (1 + z) ** -a / a if z >= 0 else 1 / a - z


@pytest.mark.parametrize("loss", TAILS)
def test_polynomial_tail_is_its_formula(loss):
    z = [-1e300, -700.0, -3.0, -1e-8, 0.0, 1e-300, 1e-8, 0.7, 36.0, 760.0, 1e8, 1e300]
    values, slopes = in_double(loss.log_value)(np.array(z)), in_double(loss.log_slope)(np.array(z))
    a = Decimal(float(loss.a))
    for point, value, slope in zip(z, values, slopes, strict=True):
        close(value, exact(lambda x: tail_value(a, x).ln(), point, digits=700))
        close(slope, exact(lambda x: -(a + 1) * (1 + max(x, Decimal(0))).ln(), point, digits=700))


@pytest.mark.parametrize("loss", TAILS)
def test_slope_of_the_polynomial_tail_is_its_derivative_and_it_is_convex(loss):
    z = np.concatenate([np.linspace(-30.0, -0.1, 20), np.linspace(0.0, 30.0, 25)])
    derivative = in_double(jax.vmap(jax.grad(lambda x: jnp.exp(loss.log_value(x)))))(z)
    slope = -np.exp(in_double(loss.log_slope)(z))
    # One derivative through the log form: its factors are of size z at most.
    np.testing.assert_allclose(derivative, slope, rtol=100 * EPS)
    assert (np.diff(slope) >= 0).all()
    bends = in_double(jax.vmap(jax.grad(lambda x: -jnp.exp(loss.log_slope(x)))))(z)
    assert (bends <= loss.largest_curvature * (1 + 4 * EPS)).all()
    just_inside = in_double(jax.grad(lambda x: -jnp.exp(loss.log_slope(x))))(np.array(1e-12))
    assert just_inside == pytest.approx(loss.largest_curvature, rel=1e-10)


@pytest.mark.parametrize("loss", TAILS)
@pytest.mark.parametrize("seed", range(3))
def test_gap_of_the_polynomial_tail_is_the_difference_of_losses(loss, seed):
    rng = np.random.default_rng(seed)
    z = np.concatenate([rng.uniform(-50, 50, size=12), [0.0, 1.0, 1.0, 3.0]])
    log_x = np.concatenate([rng.uniform(-60, 6, size=12), [0.0, 0.0, -1e-16, math.log(3.0)]])
    found = in_double(loss.log_gap)(z, log_x)
    a = Decimal(float(loss.a))
    for point, log_gap, value in zip(z, log_x, found, strict=True):
        reference = exact(lambda p, b: (tail_value(a, p - b.exp()) - tail_value(a, p)).ln(), point, log_gap, digits=150)
        # 1 - r and x - z each lose what they cancel, at most log x eps over their distance, which a random draw keeps.
        close(value, reference, point, log_gap, 20.0)


@pytest.mark.parametrize("loss", TAILS)
@pytest.mark.parametrize("log_x", [-200.0, -744.0, -800.0, -1e5, 800.0, 1e5])
def test_gap_of_the_polynomial_tail_for_extreme_x(loss, log_x):
    z = np.array([-30.0, -1.0, 0.0, 2.0, 40.0, 800.0])
    gap, slope = in_double(loss.log_gap)(z, np.full(6, log_x)), in_double(loss.log_slope)(z)
    # A small x times the slope; a large one along the line, of slope one.
    np.testing.assert_allclose(gap, log_x + (slope if log_x < 0 else 0), rtol=ULPS * EPS)


def test_largest_curvature_is_the_supremum():
    z = np.linspace(-20, 20, 4001)
    for loss in (LOSSES["logistic"], *TAILS):
        bends = in_double(jax.vmap(jax.grad(lambda x, loss=loss: -jnp.exp(loss.log_slope(x)))))(z)
        assert bends.max() == pytest.approx(loss.largest_curvature, rel=0.51 if loss in TAILS else 1e-12)
    assert LOSSES["exponential"].largest_curvature == math.inf


def test_a_polynomial_tail_needs_a_power():
    assert "polynomial tail" not in LOSSES
    assert as_loss(TAILS[0]) is TAILS[0]
    assert as_loss("logistic") is LOSSES["logistic"]
    for a in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(
            ValueError, match=rf"^`a`, the power of the tail, must be positive and finite; got {a!r}\.$"
        ):
            PolynomialTail(a)
    with pytest.raises(TypeError, match=r"^`a` must be a number; got '2'\.$"):
        PolynomialTail("2")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"^`loss` must be a name \(exponential, logistic\) or a loss; got None\.$"):
        as_loss(None)  # pyright: ignore[reportArgumentType]
