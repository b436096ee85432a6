"""Langevin particles: against automatic differentiation, a plain loop, the exact Gaussian law, and quadrature."""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import root

from omegalimit._numerics import double_precision
from omegalimit.flows._langevin_blocks import block_size, box_muller
from omegalimit.flows._langevin_clusters import find_clusters
from omegalimit.flows.langevin import langevin

EPS = float(np.finfo(float).eps)
QUICK: dict[str, Any] = {"lam": 0.05, "beta": 200.0, "step_size": 0.02, "n_steps": 30, "n_particles": 40}
JAX_NEURONS = {
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
    "given": lambda h: jnp.sin(h) + h**2,
}
SINE = (lambda h: np.sin(h) + h**2, lambda h: np.cos(h) + 2 * h)


def data(n=5, d=2, m=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, rng.standard_normal(n if m is None else (n, m))


def quick(X, y, **changes):
    """A short run."""
    return langevin(X, y, **(QUICK | changes))


def particles(N, D, m=None, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(N if m is None else (N, m)), rng.standard_normal((N, D))


def plain(X, y, a, V, *, lam, eta, n_steps, bias=True):
    """Gradient descent on relu neurons, a line for a line of the formula; scalar outputs."""
    rows = np.c_[X, np.ones(len(X))] if bias else X
    for _ in range(n_steps):
        H = V @ rows.T
        r = np.maximum(H, 0).T @ a / len(a) - y
        grad_a = np.maximum(H, 0) @ r / len(y)
        grad_V = a[:, None] * (((H > 0) * r) @ rows) / len(y)
        a, V = a - eta * (grad_a + lam * a), V - eta * (grad_V + lam * V)
    return a, V


@pytest.mark.parametrize("m", [None, 1, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", JAX_NEURONS)
def test_a_step_without_noise_is_a_gradient_step(name, bias, m):
    X, y = data(m=m)
    a, V = particles(7, 2 + bias, m)
    lam, eta = 0.3, 0.1
    activation = SINE if name == "given" else name
    run = langevin(
        X, y, lam=lam, beta=math.inf, step_size=eta, n_steps=1, start=(a, V), activation=activation, bias=bias
    )

    def objective(a, V):
        rows = jnp.concatenate([X, jnp.ones((len(X), 1))], axis=1) if bias else jnp.asarray(X)
        f = JAX_NEURONS[name](rows @ V.T) @ a / len(V)
        return jnp.sum((f - y) ** 2) / (2 * len(X)) + lam / 2 * (jnp.sum(a**2) + jnp.sum(V**2)) / len(V)

    with double_precision():
        value, (grad_a, grad_V) = jax.value_and_grad(objective, argnums=(0, 1))(jnp.asarray(a), jnp.asarray(V))
        value, grad_a, grad_V = float(value), np.asarray(grad_a), np.asarray(grad_V)
    # N times the gradient of the mean; sums of a dozen terms of order one.
    assert run.a == pytest.approx(a - eta * len(V) * grad_a, rel=0, abs=100 * EPS)
    assert np.abs(run.V - (V - eta * len(V) * grad_V)).max() < 100 * EPS
    assert run.objective[0] == pytest.approx(value, rel=100 * EPS)
    assert run.residual.shape == (2, *y.shape)
    assert run.predict(X) - y == pytest.approx(run.residual[-1], rel=0, abs=100 * EPS)


def test_sharp_softplus():
    X, y = data()
    start = particles(7, 3)
    setting: dict[str, Any] = {"lam": 0.1, "beta": math.inf, "step_size": 0.1, "n_steps": 5, "start": start}
    k = 7.0
    named = langevin(X, y, activation="softplus", sharpness=k, **setting)
    given = langevin(
        X, y, activation=(lambda h: np.logaddexp(0, k * h) / k, lambda h: 1 / (1 + np.exp(-k * h))), **setting
    )
    assert np.abs(named.V - given.V).max() < 1000 * EPS
    assert np.abs(named.V - langevin(X, y, activation="softplus", **setting).V).max() > 1e-3


@pytest.mark.parametrize("n_threads", [1, 2])
def test_blocks_are_a_plain_loop(n_threads):
    X, y = data()
    N = 3 * block_size(len(X), 10**9) + 5
    a, V = particles(N, 3)
    run = langevin(
        X, y, lam=0.05, beta=math.inf, step_size=0.1, n_steps=20, start=(a, V), n_threads=n_threads, n_particles=N
    )
    a, V = plain(X, y, a, V, lam=0.05, eta=0.1, n_steps=20)
    # 20 steps of rounding that they do not magnify: the residual falls.
    assert run.a == pytest.approx(a, rel=0, abs=1e-13)
    assert np.abs(run.V - V).max() < 1e-13
    assert run.n_particles == N


@pytest.mark.parametrize("N", [1, 100, 8192, 8193, 20_000, 24_577, 100_000])
@pytest.mark.parametrize("n", [1, 32, 5000])
def test_blocks_are_one_or_even_in_number(N, n):
    size = block_size(n, N)
    count = -(-N // size)
    assert 1 <= size <= 8192
    assert count == 1 or count % 2 == 0 or size <= 2 * count  # rounding up may save the last of many small blocks


@pytest.mark.parametrize("noise", ["single", "double"])
@pytest.mark.parametrize(("m", "activation"), [(None, "relu"), (2, "relu"), (2, "tanh")])
def test_threads_change_no_bit(noise, m, activation):
    X, y = data(m=m)
    setting: dict[str, Any] = {"n_particles": 20_000, "noise": noise, "activation": activation, "seed": 3}
    one, two, three = (quick(X, y, n_threads=k, **setting) for k in (1, 2, 3))
    for other in (two, three):
        assert np.array_equal(one.a, other.a)
        assert np.array_equal(one.V, other.V)
        assert np.array_equal(one.residual, other.residual)
    assert not np.array_equal(one.V, quick(X, y, **(setting | {"seed": 4})).V)


def test_going_on_is_one_run():
    X, y = data()
    setting: dict[str, Any] = {"n_particles": 20_000}
    whole = quick(X, y, **(setting | {"n_steps": 50}))
    first = quick(X, y, **(setting | {"n_steps": 20}))
    second = first.go_on(30, n_threads=2)
    assert np.array_equal(second.a, whole.a)
    assert np.array_equal(second.V, whole.V)
    assert np.array_equal(second.residual, whole.residual[20:])
    assert (second.n_steps, second.recorded[0], second.recorded[-1]) == (50, 20, 50)
    assert second.time == pytest.approx(0.02 * np.arange(20, 51))
    # Again, since a result does not change; and not from the start of the streams.
    assert np.array_equal(first.go_on(30).V, whole.V)
    assert not np.array_equal(quick(X, y, start=first, **(setting | {"n_steps": 30, "n_particles": None})).V, whole.V)
    smaller = second.go_on(10, step_size=0.01)
    assert smaller.time[-1] == pytest.approx(1.1)
    assert smaller.average_from == 55


@pytest.mark.parametrize("noise", ["single", "double"])
def test_the_law_without_forces_is_exact(noise):
    # Inputs of zero without a bias: f = 0, and each coordinate is an autoregression of order one.
    lam, beta, eta, N = 0.5, 3.0, 0.4, 100_000
    setting: dict[str, Any] = {
        "lam": lam,
        "beta": beta,
        "step_size": eta,
        "n_particles": N,
        "noise": noise,
        "bias": False,
    }
    setting |= {"start": "zero", "seed": 2}
    X, y = np.zeros((2, 2)), np.zeros(2)
    q = 1 - lam * eta
    for n_steps in (1, 3, 40):
        run = langevin(X, y, n_steps=n_steps, **setting)
        variance = 2 * eta / beta * (1 - q ** (2 * n_steps)) / (1 - q**2)
        theta = np.c_[run.a, run.V]
        # Five standard errors of a variance from 3e5 normals, 0.013: Euler's own 1/(1 - lam eta/2) is 0.11 more than 1.
        assert theta.var() / variance == pytest.approx(1, abs=5 * math.sqrt(2 / theta.size))
        assert run.moments[-1] == pytest.approx([(run.a**2).mean(), (run.V**2).sum(axis=1).mean()], rel=1e-12)
        assert np.abs(theta.mean(axis=0)).max() < 5 * math.sqrt(variance / N)
        # Coordinates are independent of each other (five standard errors of a correlation).
        assert np.abs(np.corrcoef(theta.T) - np.eye(3)).max() < 5 / math.sqrt(N)
    assert abs(variance * lam * beta - 1 / (1 - lam * eta / 2)) < 1e-6


def test_single_precision_noise_is_normal():
    k = 2**20
    rng = np.random.Generator(np.random.SFC64(0))
    xi = box_muller(rng, np.empty(k, np.float32), np.empty(k, np.float32)).astype(float)
    assert math.sqrt(k) * abs(xi.mean()) < 5
    for power, moment, variance in ((2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10_170)):
        assert abs((xi**power).mean() - moment) < 5 * math.sqrt(variance / k)
    assert stats.kstest(xi, "norm").pvalue > 1e-6
    first, second = xi[: k // 2], xi[k // 2 :]  # a cosine and its sine: uncorrelated, and so are their squares
    for f, g in ((first, second), (first**2, second**2), (first[1:], first[:-1])):
        assert abs(np.corrcoef(f, g)[0, 1]) < 5 / math.sqrt(k // 2)
    # Beyond 4: a probability of 6.3e-5, 66 expected.
    assert abs((np.abs(xi) > 4).sum() - k * 2 * stats.norm.sf(4)) < 5 * math.sqrt(k * 2 * stats.norm.sf(4))


def quadrature(rows, y, lam, beta, U):
    """The residual of the stationary measure, for directions on the circle; relu, scalar.

    The radial integrals are closed: the density of a direction is `(lam^2 - R^2)^(-D/2)`, and `E[as | u]` is
    `-(D/beta) R / (lam^2 - R^2)`, `R = mean r_i relu(u'xt_i)`.
    """
    act, D = np.maximum(U @ rows.T, 0), rows.shape[1]

    def output(r):
        R = act @ r / len(y)
        rest = lam**2 - R**2
        p = rest ** (-D / 2)
        return act.T @ (p / p.sum() * (-(D / beta) * R / rest))

    r = np.zeros(len(y))
    for share in np.linspace(0.05, 1, 20):
        r = root(lambda r, share=share: output(r) - share * y - r, r, tol=1e-12).x
    assert np.abs(output(r) - y - r).max() < 1e-11
    return r


@pytest.fixture(scope="module")
def circle():
    """A data set, its stationary residual, and runs with two step sizes."""
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, -0.5, 0.8])
    angles = 2 * math.pi * np.arange(2000) / 2000
    U = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    r = quadrature(np.c_[X, np.ones(3)], y, 0.2, 50.0, U)
    setting: dict[str, Any] = {"lam": 0.2, "beta": 50.0, "n_particles": 2000, "average_from": 0.1, "n_snapshots": 2}
    coarse = langevin(X, y, step_size=0.8, n_steps=8000, **setting)
    fine = langevin(X, y, step_size=0.4, n_steps=16_000, **setting)
    return X, y, U, r, coarse, fine


def test_time_averages_are_those_of_the_stationary_measure(circle):
    X, y, U, r, coarse, fine = circle
    # To the first order in the step size the bias goes away; what stays is noise, and the O(1/N) of 2000 neurons.
    extrapolated = 2 * fine.mean_residual - coarse.mean_residual
    error = np.hypot(2 * fine.standard_error, coarse.standard_error)
    assert np.all(np.abs(extrapolated - r) < 5 * error + 1 / 2000)
    assert error.max() < 1e-3
    # A temperature ten percent off is seen (it moves r by 7e-3 or more), so the agreement could have failed.
    other = quadrature(np.c_[X, np.ones(3)], y, 0.2, 45.0, U)
    assert np.abs(extrapolated - other).max() > 5 * error.max() + 1 / 2000
    assert fine.mean_output == pytest.approx(fine.mean_residual + y)


def test_the_floor_is_proportional_to_the_step_size(circle):
    _, _, _, r, coarse, fine = circle
    # The second input has the largest bias: some ten percent of second order are in the ratio.
    k = int(np.argmax(np.abs(coarse.mean_residual - r)))
    biases = coarse.mean_residual[k] - r[k], fine.mean_residual[k] - r[k]
    assert abs(biases[0]) > 20 * coarse.standard_error[k]
    assert biases[0] / biases[1] == pytest.approx(2, abs=0.3)


def test_standard_error_of_independent_residuals(circle):
    coarse = circle[4]
    # Two halves of the averaged steps are two runs: their means differ as the standard error says.
    half = len(coarse.residual) // 2
    late, early = coarse.residual[half:].mean(axis=0), coarse.residual[len(coarse.residual) // 10 : half].mean(axis=0)
    assert np.all(np.abs(late - early) < 5 * math.sqrt(4) * coarse.standard_error)
    assert np.all(coarse.standard_error > 0)


def test_few_steps_have_no_standard_error():
    X, y = data()
    run = quick(X, y, n_steps=15)
    assert run.average_from == 7
    assert np.isnan(run.standard_error).all()
    assert run.mean_residual == pytest.approx(run.residual[8:].mean(axis=0), rel=1e-12)
    single = quick(X, y, n_steps=1)
    assert single.mean_residual == pytest.approx(single.residual[-1], rel=1e-14)


@pytest.mark.parametrize("start", ["normal", "small", "large", "sphere", "one-sided", "zero"])
def test_named_starts(start):
    X, y = data(m=2)
    setting: dict[str, Any] = {"n_particles": 500, "n_steps": 1}
    run = quick(X, y, start=start, **setting)
    a, V = run.snapshot_a[0], run.snapshot_V[0]
    assert a.shape == (500, 2)
    assert V.shape == (500, 3)
    if start in ("normal", "small", "large"):
        # Five standard errors of a standard deviation from 1500 normals.
        assert V.std() / {"normal": 1, "small": 0.01, "large": 3}[start] == pytest.approx(1, abs=5 / math.sqrt(3000))
    elif start == "zero":
        assert not a.any()
        assert not V.any()
    else:
        assert np.linalg.norm(V, axis=1) == pytest.approx(1)
        assert np.linalg.norm(a, axis=1) == pytest.approx(1)
        assert (start == "one-sided") == bool((V[:, 0] >= 0).all() and (a >= 0).all())


def test_snapshots_and_records():
    X, y = data()
    seen = []
    run = quick(
        X,
        y,
        n_steps=1000,
        n_particles=10_000,
        n_snapshots=5,
        snapshot_particles=50,
        n_recorded=10,
        spacing="even",
        progress=lambda step, of: seen.append((step, of)),
    )
    assert run.snapshot_steps.tolist() == [0, 250, 500, 750, 1000]
    assert run.snapshot_a.shape == (5, 50)
    assert run.snapshot_V.shape == (5, 50, 3)
    assert np.array_equal(run.snapshot_V[-1], run.V[::200])
    assert np.array_equal(run.snapshot_a[-1], run.a[::200])
    assert run.recorded.tolist() == list(range(0, 1001, 100))
    assert run.predict(X) - y == pytest.approx(run.residual[-1], rel=0, abs=1e-12)
    hidden = np.maximum(np.c_[X, np.ones(5)] @ run.snapshot_V[2].T, 0)
    assert run.predict(X, snapshot=2) == pytest.approx(hidden @ run.snapshot_a[2] / 50, rel=0, abs=1e-12)
    assert seen == [(step, 1000) for step in range(0, 1001, 10)]
    log = quick(X, y, n_steps=1000, n_snapshots=4)
    assert log.snapshot_steps.tolist() == [0, 1, 32, 1000]


@pytest.mark.parametrize("activation", ["relu", "softplus"])
def test_a_step_too_large_is_a_value(activation):
    X, y = data()
    run = quick(X, y, step_size=1e6, n_steps=500, activation=activation, n_threads=2)
    assert run.diverged
    assert run.n_steps < 500
    assert np.isfinite(run.residual[:-1]).all()
    assert not np.isfinite(run.residual[-1]).all()
    assert np.isnan(run.mean_residual).all()
    with pytest.raises(ValueError, match=r"^This run diverged, and its particles are no network; take a smaller"):
        run.clusters()
    with pytest.raises(ValueError, match=r"^This run diverged; start again with a smaller `step_size`\.$"):
        run.go_on(1)
    assert not quick(X, y).diverged


def test_a_seeds_scale_does_not_matter():
    # Inputs times c, targets times c^2... : theta keeps its law when (X, lam, y, beta, eta) are scaled together.
    X, y = data()
    a, V = particles(50, 2)
    c = 2.0**20
    setting: dict[str, Any] = {"n_steps": 20, "bias": False}
    one = langevin(X, y, lam=0.1, beta=20.0, step_size=0.1, start=(a, V), **setting)
    # f of inputs c X is c times as large: the loss c^2 times, so lam c^2, the time 1/c^2, and the temperature c^2.
    two = langevin(c * X, c * y, lam=0.1 * c**2, beta=20.0 / c**2, step_size=0.1 / c**2, start=(a, V), **setting)
    assert np.abs(two.V - one.V).max() < 1000 * EPS


def planted(m=None):
    """Four directions with 60, 20, 16 and 4 percent of the mass, each within 0.01 rad; the third with a < 0."""
    rng = np.random.default_rng(5)
    centres = np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    counts, masses, signs = (300, 100, 80, 20), (0.6, 0.2, 0.16, 0.04), (1, 1, -1, 1)
    V, a = [], []
    for u, count, mass, sign in zip(centres, counts, masses, signs, strict=True):
        spread = u + 0.005 * rng.uniform(-1, 1, (count, 3))
        lengths = rng.uniform(0.5, 2, count)
        V.append(spread / np.linalg.norm(spread, axis=1, keepdims=True) * lengths[:, None])
        a.append(sign * mass * 500 / count / lengths)
    a, V = np.concatenate(a), np.concatenate(V)
    return (a if m is None else np.outer(a, np.arange(1, m + 1))), V


def clusters(a, V, **options):
    """Clusters of given particles: the start of a run."""
    X, y = data(m=None if a.ndim == 1 else a.shape[1])
    run = langevin(X, y, lam=0.0, beta=math.inf, step_size=1e-300, n_steps=1, start=(a, V))
    return run.clusters(snapshot=0, **options)


def test_clusters_that_were_planted():
    a, V = planted()
    found = clusters(a, V, angle=0.1, least_mass=0.05)
    assert len(found) == 3
    assert found.shares == pytest.approx([0.6, 0.2, 0.16], rel=1e-12)
    assert found.masses == pytest.approx([0.6, 0.2, -0.16], rel=1e-12)
    assert found.covered == pytest.approx(0.96)
    # 300 uniform deviations of 0.005 average to 0.005 / sqrt(3 * 80) in each coordinate.
    assert np.abs(found.directions - np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]])).max() < 2e-3
    assert np.bincount(found.members + 1).tolist() == [20, 300, 100, 80]
    assert len(clusters(a, V, angle=0.1, least_mass=0.03)) == 4
    # Far too narrow an angle takes clusters apart, and none has enough.
    assert len(clusters(a, V, angle=1e-5, least_mass=0.05)) == 0


def test_clusters_of_vector_outputs_go_by_direction():
    a, V = planted(m=2)
    found = clusters(a, V, angle=0.1, least_mass=0.05)
    assert len(found) == 2
    assert found.shares == pytest.approx([0.6, 0.36], rel=1e-12)
    assert found.masses == pytest.approx(np.outer([0.6, 0.04], [1, 2]), rel=1e-12)


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_clusters_know_no_scale(factor):
    a, V = planted()
    found = clusters(a, factor * V, angle=0.1)
    assert found.masses == pytest.approx(factor * np.array([0.6, 0.2, -0.16]), rel=1e-12, abs=0)
    assert found.shares == pytest.approx([0.6, 0.2, 0.16], rel=1e-12)


def test_clusters_of_nothing():
    found = clusters(np.zeros(5), np.ones((5, 3)))
    assert len(found) == 0
    assert found.covered == 0
    assert found.directions.shape == (0, 3)
    assert (found.members == -1).all()


def test_cold_particles_gather_and_warm_ones_do_not():
    # Two directions hold nearly all of the mass at beta = 1e4. At 200 they hold three quarters, and the rest lies
    # anywhere: a dozen groups have half a percent of it.
    X, y = data()
    setting: dict[str, Any] = {"lam": 0.05, "step_size": 0.05, "n_steps": 8000, "n_particles": 500, "n_snapshots": 2}
    cold, warm = (langevin(X, y, beta=beta, **setting).clusters(least_mass=0.005) for beta in (1e4, 200.0))
    assert cold.shares[:2].sum() > 0.98
    assert warm.shares[:2].sum() < 0.85
    assert len(cold) <= 3
    assert len(warm) >= 8


GOOD: dict[str, Any] = {"X": np.zeros((3, 2)), "y": np.zeros(3)} | QUICK
PAIR = (np.zeros(4), np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros(3)}, "`X` must have shape (n, d); got (3,)."),
        ({"X": np.array([[1.0, np.nan]] * 3)}, "`X[0, 1]` is nan (3 such entries of 6); every entry must be finite."),
        ({"y": np.zeros(4)}, "`X` has shape (3, 2) and `y` has shape (4,): 3 points against 4."),
        ({"y": np.zeros((3, 1, 1))}, "`y` must have shape (n,) or (n, m); got (3, 1, 1)."),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "`X` and `y` must not be empty; got shapes (0, 2) and (0,)."),
        ({"lam": -1}, "`lam` must be at least 0; got -1.0."),
        ({"beta": 0}, "`beta` must be one positive number, or infinity for no noise; got 0."),
        ({"beta": math.nan}, "`beta` must be one positive number, or infinity for no noise; got nan."),
        ({"step_size": 0}, "`step_size` must be positive; got 0.0."),
        ({"step_size": math.inf}, "`step_size` must be finite; got inf."),
        ({"n_steps": 0}, "`n_steps` must be at least 1; got 0."),
        ({"n_particles": 0}, "`n_particles` must be at least 1; got 0."),
        (
            {"n_particles": None},
            "`n_particles` is missing; with `start='normal'` say how many particles to draw.",
        ),
        ({"noise": "half"}, "`noise` must be 'single' or 'double', the precision it is drawn in; got 'half'."),
        ({"activation": "gelu"}, "`activation` must be 'relu', 'softplus', 'tanh' or two functions; got 'gelu'."),
        (
            {"activation": (np.sum, np.cos)},
            "The first function of `activation` must map an array to finite real numbers of the same shape; "
            "from shape (2, 3) it made (), dtype float64.",
        ),
        ({"sharpness": 2.0}, "`sharpness` belongs to the activation 'softplus'; got 2.0 with another."),
        ({"activation": "softplus", "sharpness": 0}, "`sharpness` must be positive; got 0.0."),
        (
            {"start": "warm"},
            "`start` must be one of 'normal', 'small', 'large', 'sphere', 'one-sided', 'zero', or particles; "
            "got 'warm'.",
        ),
        ({"start": PAIR}, "`start` has 4 particles, and `n_particles` is 40; leave it out."),
        (
            {"start": (np.zeros(4), np.zeros((4, 2)))},
            "`start` must be a pair (a, V) of the shapes (N,) and (N, 3), N at least 1; got (4,) and (4, 2).",
        ),
        ({"start": (np.zeros(4),)}, "`start` must be a pair (a, V) of arrays; got 1 parts."),
        ({"spacing": "odd"}, "`spacing` must be 'log' or 'even'; got 'odd'."),
        ({"average_from": 1}, "`average_from` is a share of the steps, at least 0 and below 1; got 1.0."),
        ({"seed": -1}, "`seed` must be at least 0; got -1."),
        ({"n_threads": 0}, "`n_threads` must be at least 1; got 0."),
        (
            {"n_snapshots": 10**7},
            "The snapshots would take 11.9 GiB, of at most 2; take less `snapshot_particles` or `n_snapshots`.",
        ),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        langevin(**(GOOD | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_steps": 1.5}, "`n_steps` must be an integer; got 1.5."),
        ({"activation": 3}, "`activation` must be a name, or a pair of functions, phi and its derivative; got 3."),
        ({"start": 3}, "`start` must be a name, a pair (a, V) or a `Langevin`; got int."),
        ({"bias": "False"}, "`bias` must be True or False; got 'False'."),
        ({"progress": 3}, "`progress` must be a function of the step and `n_steps`, or None; got 3."),
    ],
)
def test_bad_types(change, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        langevin(**(GOOD | change))


def test_bad_questions_to_a_result():
    run = langevin(**GOOD)
    with pytest.raises(ValueError, match=r"^`angle` must lie between 0 and pi/2 \(radians\); got 2\.0\.$"):
        run.clusters(angle=2)
    with pytest.raises(ValueError, match=r"^`least_mass` must lie between 0 and 1; got 0\.0\.$"):
        run.clusters(least_mass=0)
    with pytest.raises(ValueError, match=r"^`X` has shape \(1, 3\) and `the data` has shape \(3, 2\): 3 columns"):
        run.predict(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"^`snapshot` must lie between 0 and 9, there are 10; got 99\.$"):
        quick(*data(), n_steps=1000).predict(np.zeros((1, 2)), snapshot=99)


def test_diverged_particles_predict_nothing():
    X, y = data()
    run = quick(X, y, step_size=1e3, n_steps=500)
    assert run.diverged
    with pytest.raises(ValueError, match=r"^This run diverged, and its particles are no network; take a smaller"):
        run.predict(X)
    with pytest.raises(ValueError, match=r"^This run diverged, and its particles are no network; take a smaller"):
        run.predict(X, snapshot=-1)


def test_standard_error_of_a_short_run():
    # Averaged over five times 1/lam: forty means scatter by no more than a run says, within what forty can show.
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, -0.5, 0.8])
    setting: dict[str, Any] = {"lam": 0.1, "beta": 20.0, "step_size": 0.1, "n_steps": 1000, "n_particles": 50}
    runs = [langevin(X, y, seed=seed, n_snapshots=2, **setting) for seed in range(40)]
    spread = np.std([run.mean_residual for run in runs], axis=0, ddof=1)
    said = np.sqrt(np.mean([run.standard_error**2 for run in runs], axis=0))
    assert (spread <= said * (1 + 3 / math.sqrt(2 * 39))).all()
    assert (said <= 4 * spread).all()


def test_clusters_of_any_share_come_to_an_end():
    a, V = planted()
    found = find_clusters(a, V, 0.1, 0.0)
    assert found.covered == pytest.approx(1, rel=1e-12)
    assert (found.members >= 0).all()
