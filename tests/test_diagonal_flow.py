"""The flow of diagonal networks against other integrators, closed forms, and what it must not take for a limit."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.flows import DiagonalEnding, _orbit_tables, _stiff, diagonal_descent, diagonal_flow
from omegalimit.flows._explicit import between, explicit_error, explicit_step
from omegalimit.models import NeuronFunctions, PowerDifference, ProductNeurons
from omegalimit.models.diagonal import WeightedSquares

LN10 = math.log(10)
X = np.array([[1, 0.5, 0.7, 0], [0.5, 1, 0.1, 0.7]])
Y = np.array([1.0, 0.0])
# The three saddles after the origin, by hand: least squares on {0}, {2}, {2, 3}.
SADDLES = np.array([[0.8, 0, 0, 0], [0, 0, 1.4, 0], [0, 0, 10 / 7, -10 / 49]])


def fixture_shape():
    rng = np.random.default_rng(1)
    return np.stack([rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4)], axis=1)


def d20():
    """10 samples of 20 features, a target of three; with `X / sqrt n` for the loss over 2n."""
    features = np.random.default_rng(1).standard_normal((10, 20))
    target = np.zeros(20)
    target[:3] = 1.5, -1, 0.7
    return features / math.sqrt(10), features @ target / math.sqrt(10), target


def two_layer_reference(features, y, shape, log_s, end, events=()):
    """`u^2 - v^2` by SciPy in the logarithms of the weights: `k = exp(2 log u_0 + 4 tau) - exp(2 log v_0 - 4 tau)`."""
    log_u, log_v = 2 * (log_s + np.log(np.abs(shape.T)))

    def k(tau):
        return np.exp(np.minimum(log_u + 4 * tau, 50.0)) - np.exp(np.minimum(log_v - 4 * tau, 50.0))

    def crossing(i, level):
        return lambda _t, tau: k(tau)[i] - level

    found = scipy.integrate.solve_ivp(
        lambda _t, tau: features.T @ (y - features @ k(tau)),
        (0, end),
        np.zeros(features.shape[1]),
        method="LSODA",
        rtol=1e-11,
        atol=1e-11,
        dense_output=True,
        events=[crossing(i, level) for i, level in events] or None,
    )
    return found, k


@pytest.mark.parametrize(
    ("exponent", "known"), [(60, (0.5131, 1.944, 2.979)), (20, (0.5394, 1.832, 3.303)), (5, (0.6601, 1.318, 4.7555))]
)
def test_the_fixture_against_scipy(exponent, known):
    log_s = -exponent * LN10
    flow = diagonal_flow(PowerDifference(2), X, Y, shape=fixture_shape(), log_s=log_s)
    assert flow.ending is DiagonalEnding.INTERPOLATES
    assert flow.is_limit
    levels = [(0, 0.4), (2, 0.7), (3, -0.1)]
    scipys, k = two_layer_reference(X, Y, fixture_shape(), log_s, -6 * log_s, levels)
    times = np.array([t[0] for t in scipys.t_events]) / -log_s
    # What was known has three or four digits.
    np.testing.assert_allclose(times, known, atol=6e-4)
    for (i, level), time in zip(levels, times, strict=True):
        crossed = np.argmax(np.sign(level) * flow.k[:, i] > abs(level))
        around = slice(crossed - 1, crossed + 1)
        # Straight between two nodes, where the step is a tenth of the jump's width 1 / log(1/s).
        width = np.ptp(flow.time[around])
        assert abs(np.interp(level, *sorted_pair(flow.k[around, i], flow.time[around])) - time) < 0.2 * width
    # Nodes anywhere: each step is right to 1e-9 in tau, and so is SciPy's 1e-11.
    late = flow.time * -log_s < scipys.t[-1]
    np.testing.assert_allclose(flow.k[late], k(scipys.sol(flow.time[late] * -log_s).T), atol=3e-7)


def sorted_pair(k, time):
    order = np.argsort(k)
    return k[order], time[order]


def test_order_plateaus_and_limit_of_the_fixture():
    flow = diagonal_flow(PowerDifference(2), X, Y, shape=fixture_shape(), log_s=-60 * LN10)
    assert [(a.neuron, a.sign, a.enters) for a in flow.activations] == [
        (0, 1, True),
        (2, 1, True),
        (0, 1, False),
        (3, -1, True),
    ]
    assert flow.order == ((0,), (2,), (3,))
    assert flow.ties == ()
    np.testing.assert_allclose(flow.limit, SADDLES[2], atol=1e-8)
    assert [p.support.tolist() for p in flow.plateaus] == [[], [0], [2]]
    # The last plateau is short: k_1 has not died out, k_4 grows already.
    for plateau, k, atol in zip(
        flow.plateaus, np.vstack([np.zeros(4), SADDLES[:2]]), (1e-100, 1e-12, 1e-7), strict=True
    ):
        np.testing.assert_allclose(plateau.k, k, atol=atol)
        assert plateau.is_saddle
        assert plateau.loss == pytest.approx(0.5 * np.sum((Y - X @ k) ** 2), rel=1e-6)
        assert plateau.start <= plateau.time <= plateau.end
        # The one that leaves first is the one that is seen to come next, at about that time.
        nxt = int(np.argmin(plateau.leaves_in))
        event = next(a for a in flow.activations if a.enters and a.time > plateau.time)
        assert event.neuron == nxt
        # It is left for size one; the event is half of the next k, `log k / (4 |u|)` of t away, or two e-folds of k.
        efold = 1 / (4 * abs(plateau.u[nxt]) * 60 * LN10)
        early = efold * math.log(0.5 * abs(SADDLES[event.transition, nxt]))
        assert plateau.time + plateau.leaves_in[nxt] + early == pytest.approx(event.time, abs=2 * efold)


@pytest.mark.parametrize("exponent", [16, 100])
def test_the_escape_from_the_first_saddle_and_the_coefficients(exponent):
    """Field fault: implicit integrators on the weights end at the origin, "successfully", with all the loss."""
    features, y, target = d20()
    flow = diagonal_flow(PowerDifference(2), features, y, shape=[1.0, 1.0], log_s=-exponent * LN10)
    assert flow.ending is DiagonalEnding.INTERPOLATES
    crossed = int(np.argmax(flow.loss < 0.5 * flow.loss[0]))
    share = (flow.loss[crossed - 1] - 0.5 * flow.loss[0]) / (flow.loss[crossed - 1] - flow.loss[crossed])
    t = np.exp(flow.log_t[crossed - 1 : crossed + 1])
    escape = t[0] + share * (t[1] - t[0])
    if exponent == 16:
        assert escape == pytest.approx(16.30, rel=1e-2)
    scipys, k = two_layer_reference(features, y, np.ones((20, 2)), -exponent * LN10, 1.2 * escape)
    t = np.linspace(0.9, 1.1, 2001) * escape
    loss = 0.5 * np.sum((y - k(scipys.sol(t).T) @ features.T) ** 2, axis=1)
    assert escape == pytest.approx(np.interp(-0.5 * loss[0], -loss, t), rel=1e-3)
    np.testing.assert_allclose(flow.limit, target, atol=1e-6)


@pytest.mark.parametrize("exponent", [4, 6, 8])
def test_a_saddle_is_not_taken_for_the_limit(exponent):
    """Field fault: a steady-state test on the speed stops at t = 0 with all the loss left, or never."""
    features, y, target = d20()
    flow = diagonal_flow(PowerDifference(2), features, y, shape=[1.0, 1.0], log_s=-exponent * LN10)
    assert flow.ending is DiagonalEnding.INTERPOLATES
    assert flow.residual <= 1e-10
    # The speed at the start is s times what a threshold of 1e-6 or 1e-3 relative would need.
    first = flow.plateaus[0]
    assert first.support.size == 0
    assert first.loss == pytest.approx(0.5 * y @ y, rel=1e-3)
    assert all(p.is_saddle for p in flow.plateaus)
    assert len(flow.plateaus) == {4: 2, 6: 4, 8: 4}[exponent]
    # In double precision the theory's own error: 0.7 alpha^{2 (1 - 0.98)} and smaller with alpha.
    np.testing.assert_allclose(flow.limit, target, atol={4: 2e-4, 6: 2e-6, 8: 2e-8}[exponent])


def test_a_moderate_start_takes_few_steps():
    """Field fault: an implicit method in single precision spends 4096 steps at this start and fails."""
    features, y, _ = d20()
    flow = diagonal_flow(PowerDifference(2), features, y, shape=[1.0, 1.0], log_s=math.log(1e-2))
    assert flow.ending is DiagonalEnding.INTERPOLATES
    assert flow.k.dtype == np.float64
    assert flow.cost.n_steps < 1526
    scipys, k = two_layer_reference(features, y, np.ones((20, 2)), math.log(1e-2), float(np.exp(flow.log_t[-1])))
    np.testing.assert_allclose(flow.limit, k(scipys.y[:, -1]), atol=1e-7)


def test_a_tie_is_told_as_a_tie():
    """Field fault: two equal features from u = v = 1e-8, one of them 1e-16 larger: threads and precision decide."""
    start = np.array([[1e-8, 1e-8], [1e-8 + 1e-16, 1e-8 + 1e-16]])
    flow = diagonal_flow(PowerDifference(2), [[1.0, 1.0]], [1.0], shape=start / 1e-8, log_s=math.log(1e-8))
    assert flow.ties == ((0, 1),)
    assert [a.transition for a in flow.activations] == [0, 0]
    # k_2 / k_1 = (u_2 / u_1)^2 along the whole path; the shape is data, so the same bits every time.
    ratio = ((1e-8 + 1e-16) / 1e-8) ** 2
    assert flow.limit[1] / flow.limit[0] == pytest.approx(ratio, rel=1e-14)
    again = diagonal_flow(PowerDifference(2), [[1.0, 1.0]], [1.0], shape=start / 1e-8, log_s=math.log(1e-8))
    assert (again.limit == flow.limit).all()
    # The same without the tie.
    apart = diagonal_flow(PowerDifference(2), [[1.0, 0.5]], [1.0], shape=[1.0, 1.0], log_s=-60 * LN10)
    assert apart.ties == ()


# Deep networks.


def deep_shape():
    rng = np.random.default_rng(3)
    return rng.uniform(0.5, 2, (4, 3)) * rng.choice([-1, 1], (4, 3))


def test_a_balanced_pair_in_closed_form():
    """`k = a a c`, c from 0: `c = s tan(s tau)`, `a = s / cos(s tau)`; quadrature gives the time of `k = 1/2`."""
    for exponent in (1, 20, 60):
        log_s = -exponent * LN10
        flow = diagonal_flow(ProductNeurons(3), [[1.0]], [1.0], shape=[1.0, 1.0, 0.0], log_s=log_s)
        s = math.exp(log_s)
        # dT = dphi / (1 - k), k = s^3 sin/cos^3, to the angle where k = 1/2, from the pole inward by its own cosine.
        cosine = scipy.optimize.brentq(lambda c, s=s: s**3 * math.sqrt(1 - c * c) / c**3 - 0.5, s * 0.5, 1 - 1e-9)
        phi, weight = np.polynomial.legendre.leggauss(200)
        assert isinstance(cosine, float)
        end = math.acos(cosine)
        angle = 0.5 * end * (phi + 1)
        k = s**3 * np.sin(angle) / np.cos(angle) ** 3
        exact = 0.5 * end * np.sum(weight / (1 - k))
        (event,) = flow.activations
        # The level is half of k at the end, 1 - 1e-10.
        assert event.time == pytest.approx(exact, rel=2e-8 if exponent > 1 else 1e-6)
        assert flow.limit[0] == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("depth", [3, 4, 5])
def test_deep_jumps_from_the_orbits_alone(depth):
    """For s -> 0 a neuron needs `int u dT` = its own growth time, by SciPy's quadrature; u rests between jumps."""
    shape = np.abs(np.random.default_rng(depth).uniform(0.5, 2, (4, depth)))
    flow = diagonal_flow(ProductNeurons(depth), X, Y, shape=shape, log_s=-60 * LN10)
    assert flow.ending is DiagonalEnding.INTERPOLATES
    up = []
    for row in shape:
        small = row.min()
        mu2 = np.delete(row, row.argmin()) ** 2 - small**2
        up.append(
            scipy.integrate.quad(lambda x, mu2=mu2: np.prod((x * x + mu2) ** -0.5), small, np.inf, epsabs=1e-12)[0]
        )
    # From the origin u = X^T y = (1, .5, .7, 0): the first jump, and what leaves_in promised.
    ready = np.array(up)[:3] / (X.T @ Y)[:3]
    first = flow.activations[0]
    assert first.neuron == int(np.argmin(ready))
    assert first.time == pytest.approx(ready.min(), rel=1e-8)
    np.testing.assert_allclose(flow.plateaus[0].leaves_in[:3], ready, rtol=1e-8)
    # What is on the support of the limit has grown by its whole growth time.
    for i in np.flatnonzero(np.abs(flow.limit) > 1e-3):
        if flow.limit[i] > 0:
            assert flow.integral[i] == pytest.approx(up[i], rel=1e-7)


def test_a_neuron_that_leaves_comes_back_along_its_orbit():
    """In the weights `a^2 - b^2` is 1e-120 of them at the plateau: it must be there again when the neuron is small."""
    shape = deep_shape()
    flow = diagonal_flow(ProductNeurons(3), X, Y, shape=shape, log_s=-60 * LN10)
    assert [(a.neuron, a.enters) for a in flow.activations] == [(0, True), (2, True), (0, False), (1, True)]
    np.testing.assert_allclose(flow.limit, [0, -2 / 13, 20 / 13, 0], atol=1e-9)
    left = flow.components[-1, 0] / 1e-60
    np.testing.assert_allclose(left[1:] ** 2 - left[0] ** 2, shape[0, 1:] ** 2 - shape[0, 0] ** 2, rtol=1e-9)
    assert np.abs(left).max() < 10


def test_orbits_against_the_weights_themselves():
    for model, shape in ((PowerDifference(2), fixture_shape()), (ProductNeurons(3), deep_shape())):
        for s in (0.3, 1e-2):
            fast = diagonal_flow(model, X, Y, shape=shape, log_s=math.log(s))
            plain = diagonal_flow(model, X, Y, shape=shape, log_s=math.log(s), coordinates="weights", rtol=1e-11)
            assert plain.coordinates == "weights"
            np.testing.assert_allclose(fast.limit, plain.limit, atol=1e-8)
            # The whole path, at the weights' nodes that lie close to one of the orbits'.
            for i in range(4):
                between = np.interp(plain.time, fast.time, fast.k[:, i])
                span = np.interp(plain.time, fast.time, np.abs(np.gradient(fast.k[:, i])))
                assert (np.abs(between - plain.k[:, i]) <= 1e-7 + span).all()
            # The conserved quantity, to what one step's tolerance makes of the largest weights, some hundred times.
            assert 0 < plain.drift <= 300 * plain.drift_slack
            assert fast.drift == 0


def test_scipys_weights_agree_too():
    """An integrator of others on the plain weights, where s allows it."""
    shape, s = deep_shape(), 0.05

    def field(_t, theta):
        a = theta.reshape(4, 3)
        u = X.T @ (Y - X @ a.prod(axis=1))
        return (u[:, None] * np.stack([a[:, 1] * a[:, 2], a[:, 0] * a[:, 2], a[:, 0] * a[:, 1]], axis=1)).ravel()

    flow = diagonal_flow(ProductNeurons(3), X, Y, shape=shape, log_s=math.log(s))
    t = np.exp(flow.log_t[1:])
    found = scipy.integrate.solve_ivp(
        field, (0, t[-1]), (s * shape).ravel(), method="LSODA", rtol=1e-10, atol=1e-13, t_eval=t
    )
    np.testing.assert_allclose(flow.components[1:].reshape(len(t), -1), found.y.T, atol=1e-6)


def test_powers_beyond_two():
    for power in (3, 4):
        shape, s = np.random.default_rng(power).uniform(0.5, 2, (4, 2)), 0.2
        flow = diagonal_flow(PowerDifference(power), X, Y, shape=shape, log_s=math.log(s))
        plain = diagonal_flow(
            PowerDifference(power), X, Y, shape=shape, log_s=math.log(s), coordinates="weights", rtol=1e-10
        )
        np.testing.assert_allclose(flow.limit, plain.limit, atol=1e-8)
        values, _ = PowerDifference(power).invariants(flow.components)
        np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), rtol=1e-12)


# Neurons that are functions.


def three(p):
    return 2 * p[0] * p[1] + (p[0] ** 2 + p[1] ** 2 + p[2] ** 2) * p[2]


def two(p):
    return p[0] * jnp.tanh(p[0]) - (jnp.exp(p[1]) - 1) ** 2


PAPERS = NeuronFunctions([three, three, two, two], [3, 3, 2, 2])


def papers_shape():
    shape = np.random.default_rng(5).uniform(-1, 1, (4, 3))
    shape[2:, 2] = 0
    return shape


def test_the_papers_network_from_1e_minus_60():
    flow = diagonal_flow(PAPERS, X, Y, shape=papers_shape(), log_s=-60 * LN10)
    assert flow.order == ((0,), (2,), (3,))
    for plateau, k in zip(flow.plateaus[1:], SADDLES[:2], strict=True):
        np.testing.assert_allclose(plateau.k, k, atol=2e-4)
    # k_1 dies like s^{2 (1 - 0.918)}, 1e-10 and its shape's share; its weights were further out than u^2 - v^2.
    np.testing.assert_allclose(flow.limit, SADDLES[2], atol=2e-6)
    # On the support the integral is 1 / |lambda| = 1/2, up to O(1 / log(1/s)).
    np.testing.assert_allclose(flow.integral[2:], [0.5, -0.5], atol=3 / (60 * LN10))


def test_functions_against_the_weights_themselves():
    flow = diagonal_flow(PAPERS, X, Y, shape=papers_shape(), log_s=math.log(0.1))
    plain = diagonal_flow(PAPERS, X, Y, shape=papers_shape(), log_s=math.log(0.1), coordinates="weights", rtol=1e-8)
    np.testing.assert_allclose(flow.limit, plain.limit, atol=1e-7)
    assert [a.neuron for a in flow.activations] == [a.neuron for a in plain.activations]
    np.testing.assert_allclose([a.time for a in flow.activations], [a.time for a in plain.activations], rtol=1e-3)
    # The weights, too, from the table: at the end, where neither has an error of time left.
    np.testing.assert_allclose(flow.components[-1], plain.components[-1], atol=1e-6)
    assert math.isnan(plain.drift)


def test_functions_against_the_family_they_are():
    family = diagonal_flow(PowerDifference(2), X, Y, shape=fixture_shape(), log_s=-20 * LN10)
    functions = diagonal_flow(
        NeuronFunctions(lambda p: p[0] ** 2 - p[1] ** 2, 2), X, Y, shape=fixture_shape(), log_s=-20 * LN10
    )
    np.testing.assert_allclose(functions.limit, family.limit, rtol=1e-6)
    np.testing.assert_allclose([a.time for a in functions.activations], [a.time for a in family.activations], rtol=1e-6)
    # What is left until a neuron would wake is told at a node of the path, which the steps choose: compare moments.
    moments = [flow.plateaus[0].time + flow.plateaus[0].leaves_in for flow in (functions, family)]
    np.testing.assert_allclose(moments[0], moments[1], rtol=1e-6)


def test_weighted_squares_against_the_weights_and_against_functions():
    p, q = (0.5, 2.0, 1.0, 3.0), (1.0, 0.25, 3.0, 2.0)
    model, shape = WeightedSquares(p, q), fixture_shape()
    fast = diagonal_flow(model, X, Y, shape=shape, log_s=math.log(0.1))
    plain = diagonal_flow(model, X, Y, shape=shape, log_s=math.log(0.1), coordinates="weights", rtol=1e-11)
    np.testing.assert_allclose(fast.limit, plain.limit, atol=1e-8)
    np.testing.assert_allclose(fast.components[-1], plain.components[-1], atol=1e-8)
    # A power of the weights: its error is a few of a step's errors, over some hundred steps.
    assert 0 < plain.drift <= 300 * plain.drift_slack
    functions = NeuronFunctions(
        [lambda t, a=a, b=b: a * t[0] ** 2 - b * t[1] ** 2 for a, b in zip(p, q, strict=True)], 2
    )
    far, table = (diagonal_flow(m, X, Y, shape=shape, log_s=-20 * LN10) for m in (model, functions))
    np.testing.assert_allclose(table.limit, far.limit, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(table.integral, far.integral, atol=1e-8)
    assert table.order == far.order
    moments = [flow.plateaus[0].time + flow.plateaus[0].leaves_in for flow in (table, far)]
    np.testing.assert_allclose(moments[0], moments[1], rtol=1e-9)


# The integrator.


def test_explicit_steps_have_their_order_and_an_error_that_bounds_them():
    """On a rotation with growth: `e^{t/2}` times a turn by t."""

    def field(y):
        return np.stack([0.5 * y[..., 0] - y[..., 1], y[..., 0] + 0.5 * y[..., 1]], axis=-1)

    def exact(t):
        return math.exp(0.5 * t) * np.array([math.cos(t), math.sin(t)])

    start, shares, ends, inner = np.array([1.0, 0.0]), np.arange(1, 6) / 6, [], []
    for h in (1.0, 0.5):
        step = explicit_step(field, start, field(start), h)
        assert step is not None
        ends.append(np.abs(step.end - exact(h)).max())
        assert ends[-1] < explicit_error(step, 1.0)
        (found,) = between(field, [step], shares)
        inner.append(np.abs(found - [exact(h * x) for x in shares]).max())
    # Locally of order 9 at the end, and for this field a little more, and 8 between; a wrong digit makes it 1.
    assert 8.7 < math.log2(ends[0] / ends[1]) < 10
    assert math.log2(inner[0] / inner[1]) == pytest.approx(8, abs=0.5)


@pytest.mark.parametrize(
    ("model", "log_s"), [(PowerDifference(2), -30 * LN10), (ProductNeurons(3), -3 * LN10)], ids=["two", "three"]
)
def test_explicit_steps_and_the_stiff_method_alone_agree(model, log_s, monkeypatch):
    shape = np.random.default_rng(8).uniform(0.5, 2, (4, model.width))
    mixed = diagonal_flow(model, X, Y, shape=shape, log_s=log_s)
    monkeypatch.setattr(_stiff, "NOISY", 1.0)
    alone = diagonal_flow(model, X, Y, shape=shape, log_s=log_s)
    assert mixed.cost.n_steps < alone.cost.n_steps
    assert mixed.order == alone.order
    np.testing.assert_allclose(mixed.limit, alone.limit, atol=1e-8)
    np.testing.assert_allclose(mixed.integral, alone.integral, rtol=1e-8)
    # At half of k at a rest, which is read at a node: where the rest is short, another node's k is another.
    np.testing.assert_allclose(
        [event.time for event in mixed.activations], [event.time for event in alone.activations], rtol=1e-5
    )
    # The record has places within explicit steps: one in each of three transitions, where k moves fastest.
    fastest = np.argsort(np.abs(np.diff(mixed.k, axis=0)).max(axis=1))[::-1]
    for event in mixed.activations[:3]:
        j = next(int(j) for j in fastest if abs(mixed.time[j] / event.time - 1) < 0.02)
        there = diagonal_flow(model, X, Y, shape=shape, log_s=log_s, until=float(mixed.time[j] + mixed.time_low[j]))
        # A step's 1e-9 in time, over some tens of steps, where k changes by ten to a hundred per unit of it.
        np.testing.assert_allclose(there.limit, mixed.k[j], atol=1e-6)


# Endings.


def test_least_squares_when_y_is_out_of_reach():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((8, 4)), rng.standard_normal(8)
    exact = np.linalg.lstsq(A, b)[0]
    for model, shape in ((PowerDifference(2), [1.0, 1.0]), (ProductNeurons(3), [1.0, 2.0, 1.5])):
        flow = diagonal_flow(model, A, b, shape=shape, log_s=-10 * LN10)
        assert flow.ending is DiagonalEnding.STATIONARY
        assert flow.is_limit
        np.testing.assert_allclose(flow.limit, exact, atol=1e-8)
        assert all(p.is_saddle for p in flow.plateaus)


def test_neurons_of_one_sign():
    """Balanced weights, all equal: k >= 0 for ever; the limit is least squares with k >= 0 and says who cannot move."""
    for depth in (2, 3):
        flow = diagonal_flow(ProductNeurons(depth), X, Y, shape=[1.0] * depth, log_s=-20 * LN10)
        assert flow.ending is DiagonalEnding.STATIONARY
        np.testing.assert_allclose(flow.limit, SADDLES[1], atol=1e-9)
        assert flow.reason.endswith("; pushed, but unable to move: neurons 0, 1, 3.")
        # The gradient pushes them all down, where they do not go.
        assert (flow.u[[0, 1, 3]] < 0).all()
        assert np.isinf(flow.plateaus[1].leaves_in[[1, 3]]).all()


def test_neurons_that_start_at_a_critical_point_are_told():
    shape = np.array([[1.0, 0, 0], [1, 2, 3], [1, 2, 3], [2, 3, 4]])
    flow = diagonal_flow(ProductNeurons(3), X, Y, shape=shape, log_s=-20 * LN10)
    assert flow.frozen.tolist() == [0]
    assert (flow.k[:, 0] == 0).all()
    np.testing.assert_allclose(flow.limit, SADDLES[2], atol=1e-9)
    zero = fixture_shape()
    zero[2] = 0
    flow = diagonal_flow(PowerDifference(2), X, Y, shape=zero, log_s=-20 * LN10)
    assert flow.frozen.tolist() == [2]
    assert flow.limit[2] == 0


def test_the_end_of_a_given_time():
    flow = diagonal_flow(PowerDifference(2), X, Y, shape=fixture_shape(), log_s=-60 * LN10, until=1.0)
    assert flow.ending is DiagonalEnding.TIME_REACHED
    assert flow.reason == "T = 1 was reached."
    assert flow.time[-1] == pytest.approx(1.0, rel=1e-14)
    assert not flow.is_limit
    # It rests at a saddle there: with k settled to the last digits, and the proof that it is none beside it.
    np.testing.assert_allclose(flow.limit, SADDLES[0], atol=1e-12)
    assert flow.plateaus[-1].support.tolist() == [0]
    assert flow.plateaus[-1].is_saddle
    few = diagonal_flow(PowerDifference(2), X, Y, shape=fixture_shape(), log_s=-60 * LN10, max_steps=20)
    assert few.ending is DiagonalEnding.STEPS_SPENT
    assert not few.is_limit


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_of_the_data(scale):
    one = diagonal_flow(PowerDifference(2), X, Y, shape=fixture_shape(), log_s=-20 * LN10)
    other = diagonal_flow(PowerDifference(2), scale * X, scale * Y, shape=fixture_shape(), log_s=-20 * LN10)
    assert other.ending is one.ending
    np.testing.assert_allclose(other.limit, one.limit, rtol=1e-6)
    # T is in the inverse square of the data's unit; rounding of the scaled data moves it in the last bits.
    np.testing.assert_allclose(
        [a.time * scale**2 for a in other.activations], [a.time for a in one.activations], rtol=1e-9
    )


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([PowerDifference(2), ProductNeurons(2), ProductNeurons(3)]))
def test_the_limit_is_stationary_and_the_loss_falls(seed, model):
    rng = np.random.default_rng(seed)
    n, d = (int(k) for k in rng.integers(2, 6, 2))
    A, b = rng.standard_normal((n, d)), rng.standard_normal(n)
    flow = diagonal_flow(model, A, b, shape=rng.uniform(0.3, 2, (d, model.width)), log_s=-8 * LN10)
    assert flow.is_limit
    # Steps are right to 1e-9 in the weights; near a saddle the loss is constant to that.
    assert (np.diff(flow.loss) <= 1e-8 * flow.loss[0]).all()
    sizes = np.linalg.norm(A, axis=0) * np.linalg.norm(b)
    assert (np.abs(flow.u) <= 1.1e-10 * sizes).all()
    assert all(p.is_saddle for p in flow.plateaus)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": [[1.0, np.nan]]}, ValueError, "`X[0, 1]` is nan; every entry must be finite."),
        ({"X": [1.0, 2.0]}, ValueError, "`X` must have shape (n, d); got (2,)."),
        (
            {"y": [1.0, 2.0]},
            ValueError,
            "`X` has shape (1, 2) and `y` has shape (2,): 1 samples against 2.",
        ),
        ({"X": [[0.0, 0.0]]}, ValueError, "`X` is zero: no feature can move; pass data with a nonzero column."),
        (
            {"y": [0.0]},
            ValueError,
            "`y` is zero: there is nothing to fit, and every start near zero stays there.",
        ),
        (
            {"shape": np.ones((3, 2))},
            ValueError,
            "`shape` must have shape (2, 2), a row of 2 weights per feature; got (3, 2).",
        ),
        (
            {"log_s": 1e-60 - 400},
            ValueError,
            "`log_s` must lie between -330 (s = 1e-143) and 10; got -400.0: it is the natural logarithm of s.",
        ),
        (
            {"model": ProductNeurons(6), "shape": np.ones(6), "log_s": -300.0},
            ValueError,
            "`log_s` = -300 with 6 layers makes rates of e^1200, beyond double precision; use `log_s` above -172.",
        ),
        (
            {"model": PowerDifference(3), "shape": [[1.0, 1.0], [1.0, 0.0]]},
            ValueError,
            "`shape[1, 1]` is 0; u^D - v^D with D > 2 needs positive weights (they stay so).",
        ),
        (
            {"model": NeuronFunctions(lambda p: p[0] * p[1] ** 2, 2)},
            ValueError,
            "neuron 0 has the Hessian eigenvalues 0 to 0 at the origin; a two-layer neuron needs a negative and a "
            "positive one. Products of more than two weights are `ProductNeurons(depth)`.",
        ),
        (
            {"model": NeuronFunctions(lambda p: p[0] ** 2 - p[1] ** 2 + 1, 2)},
            ValueError,
            "neuron 0 has k(0) = 1 and a gradient of size 0 at the origin; both must be zero for an infinitesimal "
            "start.",
        ),
        (
            {"coordinates": "polar"},
            ValueError,
            "`coordinates` must be 'orbits' or 'weights'; got 'polar'.",
        ),
        ({"until": -1.0}, ValueError, "`until` must be positive and finite; got -1.0."),
        ({"resolution": 0.5}, ValueError, "`resolution` must lie in (0, 0.1]; got 0.5."),
        ({"model": 3}, TypeError, "`model` must be neurons such as ProductNeurons(3); got int."),
    ],
)
def test_what_is_refused(change, error, message):
    given = {"model": PowerDifference(2), "X": [[1.0, 2.0]], "y": [1.0], "shape": [1.0, 1.0], "log_s": -20.0} | change
    with pytest.raises(error) as caught:
        diagonal_flow(given.pop("model"), given.pop("X"), given.pop("y"), **given)
    assert str(caught.value) == message


# Gradient descent.


def test_descent_keeps_straight_manifolds_to_the_last_bit_and_not_the_curved_ones():
    start = np.tile([0.1, -0.1, 0.03], (4, 1))
    drifts = []
    for step_size in (0.1, 0.05):
        found = diagonal_descent(
            ProductNeurons(3), X, Y, start=start, step_size=step_size, n_steps=int(300 / step_size)
        )
        assert found.residual < 1e-12
        # Against the first weight: the second is its negative for ever, the third's distance shrinks.
        assert found.invariants is not None
        assert (found.invariants[..., 0] == 0).all()
        assert found.drift > 1e6 * found.drift_rounding
        drifts.append(found.drift)
    # First order in the step over a fixed time.
    assert drifts[0] / drifts[1] == pytest.approx(2, rel=0.1)


def test_one_step_of_descent_on_the_invariants():
    start = np.random.default_rng(7).uniform(0.3, 1, (4, 3))
    eta = 0.2
    found = diagonal_descent(ProductNeurons(3), X, Y, start=start, step_size=eta, n_steps=1)
    k = start.prod(axis=1)
    u = X.T @ (Y - X @ k)
    factor = 1 - (eta * (u * k)[:, None] / (start[:, 1:] * start[:, :1])) ** 2
    assert found.invariants is not None
    np.testing.assert_allclose(found.invariants[1], factor * found.invariants[0], atol=1e-15)
    pair = diagonal_descent(PowerDifference(2), X, Y, start=start[:, :2], step_size=eta, n_steps=1)
    u = X.T @ (Y - X @ (start[:, 0] ** 2 - start[:, 1] ** 2))
    assert pair.invariants is not None
    np.testing.assert_allclose(
        pair.invariants[1, :, 0], (1 - (2 * eta * u) ** 2) * start[:, 0] * start[:, 1], atol=1e-15
    )


def test_descent_says_what_arithmetic_did():
    stalled = diagonal_descent(ProductNeurons(7), X, Y, start=[1e-60] * 7, step_size=0.1, n_steps=100)
    assert stalled.stalled_at == 0
    assert stalled.underflows.tolist() == [0, 1, 2]  # u_3 is zero at first
    moving = diagonal_descent(PowerDifference(2), X, Y, start=[1e-60, 1e-60], step_size=0.1, n_steps=100)
    assert moving.stalled_at is None
    assert moving.underflows.size == 0
    wild = diagonal_descent(PowerDifference(2), X, Y, start=[1.0, 1.0], step_size=5.0, n_steps=100)
    assert wild.diverged_at is not None
    assert np.isfinite(wild.components).all()
    with pytest.raises(ValueError, match=r"^`step_size` must be positive and finite; got 0\.0\.$"):
        diagonal_descent(PowerDifference(2), X, Y, start=[1.0, 1.0], step_size=0.0, n_steps=1)


def test_small_steps_of_descent_follow_the_flow():
    shape, s = deep_shape(), 0.1
    flow = diagonal_flow(ProductNeurons(3), X, Y, shape=shape, log_s=math.log(s))
    errors = []
    for eta in (0.08, 0.04):
        found = diagonal_descent(ProductNeurons(3), X, Y, start=s * shape, step_size=eta, n_steps=int(1000 / eta))
        errors.append(np.abs(found.k[-1] - flow.limit).max())
    # First order: half the step, half the distance of the limits.
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)


def test_trial_steps_do_not_lead_far_out_on_orbits_that_grow_slowly(monkeypatch):
    # k = a tanh a grows like tau: a table to where k is beyond the data takes thousands of pieces for each neuron, and
    # the path itself some dozens.
    pieces = []
    advance = _orbit_tables._Branch._advance
    monkeypatch.setattr(_orbit_tables._Branch, "_advance", lambda self: pieces.append(advance(self)))
    neurons = NeuronFunctions(lambda p: p[0] * jnp.tanh(p[0]) - jnp.expm1(p[1]) ** 2, 2)
    flow = diagonal_flow(neurons, X, Y, shape=np.full((4, 2), 0.5), log_s=math.log(1e-40))
    assert flow.is_limit
    assert len(pieces) < 1500
