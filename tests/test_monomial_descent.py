"""Gradient descent of monomial nets: its steps by another code, what it conserves, and how it says that it ended."""

import itertools
import re
from typing import Any

import numpy as np
import pytest

from omegalimit.flows.monomial_descent import Arrival, balances, monomial_descent
from omegalimit.models.monomial import MonomialNetwork

EPS = np.finfo(float).eps


def problem(widths, degree, seed=0, n=20):
    """Unit inputs and the values of a net of the same size, of mean square one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, widths[0]))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    net = MonomialNetwork(widths, degree)
    y = net.evaluate(net.random(seed + 1), X)
    return X, y / np.sqrt((y * y).mean()), net


def gradient(net, X, y, weights):
    """From the Jacobian of the model's own file."""
    residual = (net.evaluate(weights, X) - y).ravel()
    flat = residual @ net.jacobian(weights, X) / len(X)
    ends = np.cumsum([d * k for d, k in net.shapes])[:-1]
    return [g.reshape(shape) for g, shape in zip(np.split(flat, ends), net.shapes, strict=True)]


# Each shape is compiled once, for a second: tests share them where they can.
@pytest.mark.parametrize(("widths", "degree"), [((2, 2, 2, 1), 3), ((3, 2, 2), 2), ((1, 1, 1), 4)])
def test_a_fixed_step_is_the_gradient_of_the_model(widths, degree):
    X, y, net = problem(widths, degree)
    found = monomial_descent(X, y, widths, degree, n_starts=10, n_steps=1, step_size=1e-3, fit_tol=1e-30)
    for i in range(10):
        start = tuple(W[i] for W in found.start)
        expected = [W - 1e-3 * g for W, g in zip(start, gradient(net, X, y, start), strict=True)]
        for one, two in zip(found.net(i), expected, strict=True):
            # Sums of 20 terms whose sizes are bounded by those of the weights and steps.
            assert one == pytest.approx(two, rel=1e-9, abs=1e-11 * max(1.0, np.abs(two).max()))
        loss = ((net.evaluate(start, X) - y) ** 2).sum() / (2 * len(X))
        assert found.start_loss[i] == pytest.approx(loss, rel=1e-12)


def test_gradient_flow_conserves_the_balances_and_descent_changes_them_as_it_must():
    """Time 0.2 in steps of eta: the drift is first order in eta, as each step changes a balance by eta^2 times."""
    X, y, net = problem((2, 2, 2, 1), 3)
    drifts, run, rng = [], None, np.random.default_rng(0)
    # Rows of moderate size: curvatures are then far below 1 / eta, and gradients far above rounding.
    start = tuple(rng.uniform(0.5, 0.8, (10, *s)) * rng.choice([-1.0, 1.0], (10, *s)) for s in net.shapes)
    for eta in (2e-4, 1e-4, 5e-5):
        run = monomial_descent(X, y, net.widths, 3, start=start, n_steps=round(0.2 / eta), step_size=eta)
        assert run.arrival.tolist() == [Arrival.STEPS] * 10
        drifts.append(run.balance_drift)
        before, after = balances(run.start, 3), balances(run.weights, 3)
        change = np.max([np.abs(b - a).max(axis=1) for a, b in zip(before, after, strict=True)], axis=0)
        sizes = [sum((W * W).sum(axis=(1, 2)) for W in weights) for weights in (run.start, run.weights)]
        assert run.balance_drift == pytest.approx(change / np.max(sizes, axis=0), rel=1e-10)
    for coarse, fine in itertools.pairwise(drifts):
        assert coarse / fine == pytest.approx(2, rel=0.05)  # first order, plus terms of relative size eta
    # What is not conserved: the same without the degree.
    assert run is not None
    moved = [np.abs(b - a).max() for a, b in zip(balances(run.start, 1), balances(run.weights, 1), strict=True)]
    assert max(moved) > 1000 * drifts[-1].max()


def test_one_step_changes_the_balance_by_the_square_of_the_step_exactly():
    X, y, net = problem((2, 2, 2, 1), 3)
    run = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=1, step_size=0.01)
    g = gradient(net, X, y, tuple(W[0] for W in run.start))
    change = balances(run.weights, 3)[0][0] - balances(run.start, 3)[0][0]
    expected = 1e-4 * ((g[0] ** 2).sum(axis=1) - 3 * (g[1] ** 2).sum(axis=0))
    scale = max((W * W).sum() for W in run.start)
    assert change == pytest.approx(expected, rel=1e-9, abs=50 * EPS * scale)


def test_with_backtracking_the_loss_never_rises_and_no_start_diverges():
    X, y, net = problem((2, 2, 2, 1), 3)
    losses = [monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=k, size=2.0).loss for k in (1, 10, 100, 1000)]
    for one, two in itertools.pairwise(losses):
        # Decreases are summed apart from the loss: it is a sum of 20 squares, each with a few roundings.
        assert (two <= one * (1 + 50 * EPS)).all()
    assert (losses[-1] < losses[0]).all()


def test_starts_near_a_net_that_fits_arrive_at_one():
    X, y, net = problem((2, 2, 1), 3)
    teacher = net.random(1)
    scale = np.sqrt((net.evaluate(teacher, X) ** 2).mean())
    teacher = (teacher[0], teacher[1] / scale)
    rng = np.random.default_rng(0)
    start = tuple(W + 0.01 * rng.standard_normal((10, *W.shape)) for W in teacher)
    found = monomial_descent(X, y, net.widths, 3, start=start)
    assert found.count == {"fitted": 10, "settled": 0, "steps ran out": 0, "diverged": 0, "left double precision": 0}
    assert (found.relative_loss <= 1e-6).all()
    assert found.settled.all()
    # At a net that fits the Hessian is J'J / n: nothing negative beyond the residual's share, sqrt(1e-6) at most.
    assert (found.least_curvature > -1e-2).all()


def test_targets_that_do_not_fit_are_settled_and_not_fitted():
    """One neuron, even power, negative targets: its outgoing weight becomes the best multiple of a square."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = -(X[:, 0] ** 2) + 0.1 * rng.standard_normal(30)
    found = monomial_descent(X, y, (2, 1, 1), 2, n_starts=10, size=1.0)
    assert (found.arrival == Arrival.SETTLED).sum() >= 8
    settled = found.arrival == Arrival.SETTLED
    assert (found.gradient[settled] <= 1e-6).all()
    # The least loss of c (u'x)^2, by a grid over the angle with the best c: 4000 angles are off by (pi/4000)^2.
    angles = np.linspace(0, np.pi, 4000)
    squares = (X @ np.stack([np.cos(angles), np.sin(angles)])) ** 2
    c = (squares * y[:, None]).sum(axis=0) / (squares**2).sum(axis=0)
    least = ((c * squares - y[:, None]) ** 2).sum(axis=0).min() / 60
    assert found.loss[settled].min() == pytest.approx(least, rel=1e-4)


def test_a_small_start_is_slow_and_not_settled():
    """Near zero the gradient is tiny; steps grow until it moves, so the saddle is left within the steps."""
    X, y, net = problem((2, 2, 1), 3)
    few = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=5, size=1e-3)
    assert few.arrival.tolist() == [Arrival.STEPS] * 10
    assert (few.relative_loss > 0.999).all()
    more = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=20_000, size=1e-3)
    assert (more.relative_loss < 0.9).all()


def test_at_zero_nothing_moves():
    X, y, net = problem((2, 2, 1), 3)
    start = tuple(np.zeros((10, *shape)) for shape in net.shapes)
    found = monomial_descent(X, y, net.widths, 3, start=start, n_steps=10)
    assert found.arrival.tolist() == [Arrival.SETTLED] * 10
    assert found.n_steps.tolist() == [0] * 10
    assert found.relative_loss.tolist() == [1.0] * 10


# Gradients down to 1e-182, whose squares are zero in doubles; the last is the user's own example.
@pytest.mark.parametrize(
    ("widths", "degree", "size"), [((2, 2, 1), 3, 1e-40), ((2, 2, 2, 1), 3, 1e-13), ((2, 2, 2, 1), 5, 1e-6)]
)
def test_very_small_starts_are_left_in_steps_that_grow_with_the_logarithm(widths, degree, size):
    X = np.random.default_rng(0).standard_normal((20, 2))
    net = MonomialNetwork(widths, degree)
    y = net.evaluate(net.random(5), X)
    few = monomial_descent(X, y, widths, degree, n_starts=10, n_steps=5, size=size)
    assert few.arrival.tolist() == [Arrival.STEPS] * 10
    assert not any((a == b).any() for a, b in zip(few.weights, few.start, strict=True))
    # A doubling takes 4 steps that grow by a quarter, and a halving of the step for each power of the weights in the
    # gradient; one half of this from size to one, and the other half to arrive somewhere.
    power = (degree ** (len(widths) - 1) - 1) // (degree - 1)
    more = monomial_descent(
        X, y, widths, degree, n_starts=10, n_steps=2 * round(-np.log2(size) * (4 + power)), size=size
    )
    assert (more.relative_loss < 1 - 1e-6).sum() >= 8
    assert (more.n_steps > 5).all()


@pytest.mark.parametrize("exponent", [20, -40, 100, -100, -160, 250, -250])
def test_data_in_other_units_give_the_same_steps(exponent):
    """Inputs times s and targets times s^r: the outputs of the same weights, in other units; all are powers of two."""
    X, y, net = problem((2, 2, 1), 3)
    one = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=200)
    two = monomial_descent(np.ldexp(X, exponent), np.ldexp(y, 3 * exponent), net.widths, 3, n_starts=10, n_steps=200)
    assert (one.n_steps > 0).all()
    assert all(np.array_equal(a, b) for a, b in zip(one.weights, two.weights, strict=True))
    for field in ("arrival", "n_steps", "relative_loss", "gradient", "balance_drift", "least_curvature"):
        assert np.array_equal(getattr(one, field), getattr(two, field)), field


def test_a_fixed_step_is_one_of_the_users_units():
    X, y, net = problem((2, 2, 1), 3)
    first = tuple(0.5 * np.ones((10, *shape)) for shape in net.shapes)
    for scale in (1.0, 2.0**30):  # y and f times 2^30, f by outgoing weights: then the loss has other units than these
        start = (first[0], scale * first[1])
        found = monomial_descent(X, scale * y, net.widths, 3, start=start, n_steps=1, step_size=1e-3 / scale**2)
        expected = gradient(net, X, scale * y, tuple(W[0] for W in start))
        for end, W, g in zip(found.net(0), start, expected, strict=True):
            assert end == pytest.approx(W[0] - 1e-3 / scale**2 * g, rel=1e-12)


# Runtime warnings are errors here.
@pytest.mark.parametrize(
    ("inputs", "targets", "size"), [(1e50, 1, 1), (1, 1e-150, 1), (1, 1, 1e30), (1, 1e90, 1), (1, 1e150, 1)]
)
def test_starts_far_too_large_or_too_small_for_the_data_move(inputs, targets, size):
    X, y, net = problem((2, 2, 1), 3)
    found = monomial_descent(inputs * X, targets * y, net.widths, 3, n_starts=10, n_steps=1000, size=size)
    before = found.start_loss / found.scale
    assert (found.n_steps >= 10).all()
    assert not found.diverged.any()
    assert np.isfinite(found.gradient).all()
    assert np.isfinite(found.balance_drift).all()
    if targets > 1:
        assert (found.relative_loss < 0.9).all()
    else:  # outputs that fall at all fall by a share, as steps may be a share of the weights
        assert (found.relative_loss < 0.1 * before).all()


def test_what_underflows_has_not_settled():
    """Weights of 1e-6 in degree 91: derivatives are 1e-540, no double, and not zero."""
    X, y, net = problem((2, 2, 2, 1), 9)
    found = monomial_descent(X, y, net.widths, 9, n_starts=3, size=1e-6, n_steps=10)
    assert found.count["left double precision"] == 3
    assert found.diverged.all()
    assert not found.settled.any()
    assert found.n_steps.tolist() == [0] * 3
    assert np.isnan(found.least_curvature).all()


def test_a_gradient_of_zero_is_told_from_one_that_underflows():
    """Odd targets of an even net. Without outgoing weight the derivative is exactly zero: the targets cancel. With
    tiny ones they cancel too, and what is left, of size 1e-500, pulls the weights to zero."""
    X, y = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])
    start = (np.array([[[1.0]], [[1e-100]]]), np.array([[[0.0]], [[1e-100]]]))
    found = monomial_descent(X, y, (1, 1, 1), 2, start=start, n_steps=10)
    assert found.arrival.tolist() == [Arrival.SETTLED, Arrival.LOST]


def test_what_diverges_is_counted():
    X, y, net = problem((2, 2, 2, 1), 3)
    found = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=200, step_size=10.0, size=1.0)
    assert found.diverged.sum() >= 8
    assert found.count["diverged"] == found.diverged.sum()
    assert all(np.isfinite(W).all() for W in found.weights)
    assert np.isnan(found.least_curvature[found.diverged]).all()
    assert not (found.settled & found.diverged).any()


def test_the_least_curvature_is_that_of_differences_of_the_models_gradient():
    X, y, net = problem((2, 2, 2, 1), 3)
    found = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=30)
    ends = np.cumsum([d * k for d, k in net.shapes])[:-1]
    for i in range(3):
        flat = np.concatenate([W.ravel() for W in found.net(i)])

        def force(theta):
            parts = [p.reshape(s) for p, s in zip(np.split(theta, ends), net.shapes, strict=True)]
            return np.concatenate([g.ravel() for g in gradient(net, X, y, parts)])

        h = 1e-5
        H = np.stack([(force(flat + h * e) - force(flat - h * e)) / (2 * h) for e in np.eye(len(flat))])
        values = np.linalg.eigvalsh((H + H.T) / 2)
        expected = values[0] * (flat @ flat) / found.scale[i]
        largest = np.abs(values).max() * (flat @ flat) / found.scale[i]
        # Differences of step h: an error of h^2 times fourth derivatives and eps / h, relative to the largest value.
        assert found.least_curvature[i] == pytest.approx(expected, abs=1e-7 * largest)


def test_a_seed_gives_the_same_starts_and_a_start_can_be_given():
    X, y, net = problem((2, 2, 1), 3)
    one = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=50, seed=3)
    two = monomial_descent(X, y, net.widths, 3, start=one.start, n_steps=50)
    for a, b in zip(one.weights, two.weights, strict=True):
        assert np.array_equal(a, b)
    other = monomial_descent(X, y, net.widths, 3, n_starts=10, n_steps=50, seed=4)
    assert not np.array_equal(one.weights[0], other.weights[0])
    assert one.cost.n_steps == one.n_steps.sum() == one.cost.n_evaluations - one.cost.n_rejected


def test_targets_of_zero_take_the_loss_at_the_start_as_scale():
    X = np.eye(2)
    found = monomial_descent(X, np.zeros(2), (2, 1, 1), 2, n_starts=3, n_steps=10)
    assert np.array_equal(found.scale, found.start_loss)


X2, Y2 = np.eye(2), np.ones(2)
WRONG: list[Any] = [5, None, {2, 3, 1}]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: monomial_descent(X2, np.ones(3), (2, 1, 1), 2), ValueError,
         "`X` and `y` must have the same number of rows, at least one; got shapes (2, 2) and (3,)."),
        (lambda: monomial_descent(X2, Y2, (3, 1, 1), 2), ValueError,
         "`X` has shape (2, 2): 2 columns, and the network has 3 inputs (widths (3, 1, 1))."),
        (lambda: monomial_descent(X2, np.ones((2, 3)), (2, 1, 1), 2), ValueError,
         "`y` has 3 columns, and the network has 1 outputs (widths (2, 1, 1))."),
        (lambda: monomial_descent(X2, np.ones((2, 1, 1)), (2, 1, 1), 2), ValueError,
         "`y` must have shape (n,) or (n, m); got (2, 1, 1)."),
        (lambda: monomial_descent(X2, Y2, (2, 1, 1), 2, step_size=0), ValueError,
         "`step_size` must be positive; got 0."),
        (lambda: monomial_descent(X2, Y2, (2, 1, 1), 2, size=-1.0), ValueError, "`size` must be positive; got -1."),
        (lambda: monomial_descent(X2, Y2, (2, 1, 1), 1), ValueError,
         "`degree` must be at least 2 (the activation is x^degree); got 1."),
        (lambda: monomial_descent(X2, Y2, (2, 1, 1), 2, start=(np.ones((1, 2)), np.ones((1, 1)))), ValueError,
         "`start` must have the shapes (S, 1, 2), (S, 1, 1) with the same S of at least 1; got (1, 2), (1, 1)."),
        (lambda: monomial_descent(X2 * 1e100, Y2, (2, 1, 1), 4, start=(np.ones((1, 1, 2)), np.ones((1, 1, 1)))),
         ValueError,
         "the loss or its gradient at the start leaves double precision, in units of the targets: outputs grow like "
         "the power 4 of the inputs (entries up to 1.0e+100) and the power 5 of the weights (up to 1.0e+00), and the "
         "targets have entries up to 1.0e+00; divide the inputs, or take smaller weights."),
        (lambda: monomial_descent(X2, Y2, WRONG[0], 2), TypeError,
         "`widths` must be a sequence of integers such as (2, 3, 1); got 5."),
        (lambda: monomial_descent(X2, Y2, WRONG[1], 2), TypeError,
         "`widths` must be a sequence of integers such as (2, 3, 1); got None."),
        (lambda: monomial_descent(X2, Y2, WRONG[2], 2), TypeError,
         "`widths` must be a sequence of integers such as (2, 3, 1); got {1, 2, 3}."),
        (lambda: monomial_descent(X2, Y2, (2, 1, 1), 2, start=WRONG[0]), TypeError,
         "`start` must be a sequence of arrays (S, d_l, d_{l-1}), one a layer; got 5."),
    ],
)  # fmt: skip
def test_messages(call, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()
