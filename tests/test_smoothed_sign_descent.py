"""Smoothed sign descent: against its update in 50 digits, its own dual, and the numbers of its theory."""

import itertools
import math
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest

from omegalimit.flows.smoothed_sign_descent import kl_divergence, smoothed_sign_descent

EPS = float(np.finfo(float).eps)
GAMMA_INF = 0.8513643517412691
# The barrier's minimiser at half of gamma_inf, to the ten digits that are known.
V_HALF = np.array([0.2641441216, -0.0833093787, 0.5734044371, 0.2945414901])


def fixture():
    rng = np.random.default_rng(0)
    w, X = rng.standard_normal(4), rng.standard_normal((6, 4))
    return np.sign(X @ w)[:, None] * X


def by_definition(Z, *, rate, eta, n_steps, eps0, c, loss):
    """w after every step, in 50 digits, from the update as it is written."""
    with localcontext(prec=50):
        rows, weights = [[Decimal(x) for x in row] for row in Z.tolist()], [Decimal(x) for x in c.tolist()]
        w, eps, found = [Decimal(0)] * Z.shape[1], Decimal(eps0), []
        for _ in range(n_steps):
            m = [sum((x * y for x, y in zip(row, w, strict=True)), Decimal(0)) for row in rows]
            slope = [(-x).exp() if loss == "exponential" else 1 / (1 + x.exp()) for x in m]
            parts = [a * s for a, s in zip(weights, slope, strict=True)]
            g = [sum(a * row[j] for a, row in zip(parts, rows, strict=True)) for j in range(len(w))]
            w = [x + Decimal(eta) * y / (abs(y) + eps) for x, y in zip(w, g, strict=True)]
            eps *= (-Decimal(rate) * Decimal(eta)).exp()
            found.append([float(x) for x in w])
        return np.array(found)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize(("rate", "eps0"), [(0.4, 1.0), (0.0, 1e-3), (3.0, 1e-5)])
def test_the_update_is_the_one_that_is_written(loss, rate, eps0):
    Z, c = fixture(), np.array([1.0, 2.0, 0.5, 1.0, 3.0, 0.1])
    run = smoothed_sign_descent(
        Z, rate=rate, step_size=0.25, n_steps=60, weights=c, eps0=eps0, loss=loss, n_kept=60 * 10
    )
    exact = by_definition(Z, rate=rate, eta=0.25, n_steps=60, eps0=eps0, c=c, loss=loss)
    assert run.steps.tolist() == list(range(61))
    # Rounding of sums of some numbers of size one; sixty steps do not amplify it a thousandfold.
    np.testing.assert_allclose(run.w[1:], exact, rtol=0, atol=1e3 * EPS * np.abs(exact).max())
    assert run.map_residual <= run.map_slack


def test_the_dual_recursion_holds_for_the_exponential_loss_and_for_no_other():
    seen = []
    run = smoothed_sign_descent(fixture(), rate=0.5 * GAMMA_INF, step_size=0.05, n_steps=2000, observe=seen.append)
    assert run.identity_residual <= run.identity_slack
    assert run.identity_residual <= 2.7e-12  # the theory page's figure for this very run
    assert run.map_residual <= min(run.map_slack, 1e-11)
    log_lambda = np.concatenate([chunk.log_lambda[:-1] for chunk in seen])
    v = np.concatenate([chunk.v for chunk in seen])
    # v from lambda: u / (1 + |u|).
    u = np.exp(log_lambda) @ fixture()
    np.testing.assert_allclose(v, u / (1 + np.abs(u)), rtol=0, atol=1e-13)
    other = smoothed_sign_descent(fixture(), rate=0.5 * GAMMA_INF, step_size=0.05, n_steps=2000, loss="logistic")
    # The slope of the logistic loss goes from 1/2 to e^{-m}: log 2 is what the recursion misses in the end.
    assert other.identity_residual == pytest.approx(math.log(2), abs=1e-6)


def test_the_kl_recursion_holds_at_every_step():
    Z, kappa, eta = fixture(), 0.5 * GAMMA_INF, 0.05
    # The dual's optimum, from the last state of a long run: any positive vector obeys the recursion.
    log_best = smoothed_sign_descent(Z, rate=kappa, step_size=eta, n_steps=20_000).log_lambda[-1]
    worst = []

    def look(steps):
        gain = ((kappa - steps.v @ Z.T) * (np.exp(log_best) - np.exp(steps.before))).sum(axis=1)
        left = kl_divergence(log_best, steps.after)
        right = kl_divergence(log_best, steps.before) - steps.step_size * gain
        worst.append(np.abs(left - right - kl_divergence(steps.before, steps.after)).max())

    smoothed_sign_descent(Z, rate=kappa, step_size=eta, n_steps=2000, observe=look)
    # Some ten terms of size one, each with a rounding error of log lambda, which is of size one.
    assert max(worst) <= 40 * EPS


def test_the_iterates_tend_to_the_barriers_minimiser_at_the_rate_of_one_over_S():
    known = {5: 0.160144, 50: 0.0271756, 500: 0.00310347, 5e3: 3.10347e-4, 5e4: 3.10347e-5}
    run = smoothed_sign_descent(fixture(), rate=0.5 * GAMMA_INF, step_size=0.05, n_steps=10**6)
    for S, distance in known.items():
        short = smoothed_sign_descent(fixture(), rate=0.5 * GAMMA_INF, step_size=0.05, n_steps=round(S / 0.05))
        # Six digits are known, and the minimiser to ten.
        assert np.linalg.norm(short.normalised[-1] - V_HALF) == pytest.approx(distance, rel=5e-6, abs=2e-10)
    # The last smoothed sign converges faster; the minimiser is known to ten digits.
    assert np.linalg.norm(run.v[-1] - V_HALF) <= 2e-10
    assert run.identity_residual <= run.identity_slack <= 1e-8
    assert run.S[-1] == pytest.approx(5e4, rel=EPS)
    # Another rate leads elsewhere.
    other = smoothed_sign_descent(fixture(), rate=0.6 * GAMMA_INF, step_size=0.05, n_steps=10**4)
    assert np.linalg.norm(other.v[-1] - V_HALF) > 0.05


def test_a_fixed_eps_is_met_at_a_time_that_grows_like_its_log():
    eps = 10.0 ** -np.arange(3, 13, 3)
    found = [smoothed_sign_descent(fixture(), rate=0, step_size=0.01, n_steps=4000, eps0=e) for e in eps]
    slopes = np.diff([run.crossover_S for run in found]) / np.diff(-np.log(eps))
    np.testing.assert_allclose(slopes, 1 / GAMMA_INF, rtol=2e-3)  # a step of 0.01 in 8
    run, step = found[0], found[0].crossover_step
    assert step is not None
    Z, seen = fixture(), []
    smoothed_sign_descent(Z, rate=0, step_size=0.01, n_steps=4000, eps0=1e-3, observe=seen.append)
    w = np.concatenate([chunk.w[:-1] for chunk in seen])
    below = np.abs(np.exp(-w @ Z.T) @ Z).max(axis=1) < 1e-3
    assert int(np.argmax(below)) == step
    assert run.crossover_S == pytest.approx(0.01 * step, rel=2 * EPS)
    never = smoothed_sign_descent(Z, rate=0, step_size=0.01, n_steps=step - 1, eps0=1e-3)
    assert never.crossover_step is None
    assert math.isnan(never.crossover_S)
    last = smoothed_sign_descent(Z, rate=0, step_size=0.01, n_steps=step, eps0=1e-3)
    assert last.crossover_step == step


def test_a_rate_above_the_margin_is_sign_descent():
    run = smoothed_sign_descent(fixture(), rate=2 * GAMMA_INF, step_size=0.05, n_steps=200_000)
    # No v has margins of 2 gamma_inf: lambda grows without bound, far beyond doubles, and the steps are signs.
    assert np.abs(run.v[-1]).min() == 1
    assert run.log_lambda[-1].max() > 1000
    Z = fixture()
    margin = (Z @ run.w[-1]).min() / np.abs(run.w[-1]).max()
    assert GAMMA_INF * (1 - 1e-4) < margin < GAMMA_INF
    assert run.identity_residual <= run.identity_slack
    assert run.map_residual <= run.map_slack
    assert run.kl_sum[-1] == math.inf


def test_a_step_for_each_step_and_the_chunks_in_which_they_are_seen():
    etas, seen = np.random.default_rng(3).uniform(0, 0.1, 20_000), []
    run = smoothed_sign_descent(fixture(), rate=0.3, step_size=etas, n_steps=20_000, observe=seen.append, n_kept=30)
    assert len(seen) > 1
    np.testing.assert_array_equal(np.concatenate([chunk.step for chunk in seen]), np.arange(20_000))
    np.testing.assert_array_equal(np.concatenate([chunk.step_size for chunk in seen]), etas)
    for one, two in itertools.pairwise(seen):
        np.testing.assert_array_equal(one.w[-1], two.w[0])
        np.testing.assert_array_equal(one.after[-1], two.before[0])
        assert one.S[-1] == two.S[0]
    assert run.S[-1] == pytest.approx(math.fsum(etas), rel=2 * EPS)
    total = sum(kl_divergence(chunk.before, chunk.after).sum() for chunk in seen)
    assert run.kl_sum[-1] == pytest.approx(total, rel=1e-12)
    # w is the sum of the steps.
    summed = sum((chunk.step_size[:, None] * chunk.v).sum(axis=0) for chunk in seen)
    np.testing.assert_allclose(run.w[-1], summed, rtol=1e-12)
    assert run.steps[0] == 0
    assert run.steps[-1] == 20_000
    np.testing.assert_allclose(run.log_eps, -0.3 * run.S, rtol=1e-14)
    assert run.identity_residual <= run.identity_slack


def test_wide_rows_take_the_other_products():
    Z = np.abs(np.random.default_rng(1).standard_normal((90, 70))) + 0.1
    run = smoothed_sign_descent(Z, rate=0.1, step_size=0.02, n_steps=500)
    # Rows that are positive in every coordinate: all steps go up.
    assert (np.diff(run.w, axis=0) > 0).all()
    assert run.identity_residual <= run.identity_slack
    assert run.map_residual <= run.map_slack


def test_kl_without_cancellation():
    rng = np.random.default_rng(0)
    log_a, delta = rng.uniform(-3, 3, 8), rng.standard_normal(8)
    with localcontext(prec=60):
        for size in (1e-12, 1e-6, 1e-3, 0.3, 0.499, 0.501, 2.0, 30.0):
            log_b = log_a + size * delta
            logs = [(Decimal(s), Decimal(t)) for s, t in zip(log_a.tolist(), log_b.tolist(), strict=True)]
            exact = sum(s.exp() * (s - t) - s.exp() + t.exp() for s, t in logs)
            # exp of a number up to 60 errs by 60 units of the last place.
            assert kl_divergence(log_a, log_b) == pytest.approx(float(exact), rel=100 * EPS)
    assert kl_divergence(log_a, log_a) == 0
    # A small number times a large one; and two that are beyond doubles.
    assert kl_divergence(np.array([-800.0]), np.array([2.0])) == pytest.approx(math.exp(2), rel=4 * EPS)
    assert kl_divergence(np.array([900.0]), np.array([901.0])) == math.inf
    assert kl_divergence(np.array([900.0]), np.array([900.0])) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": -0.1}, "`rate` must be finite and at least 0; got -0.1."),
        ({"rate": np.nan}, "`rate` must be finite and at least 0; got nan."),
        ({"eps0": 0.0}, "`eps0` must be positive and finite; got 0.0."),
        ({"step_size": 0.0}, "`step_size` must be positive and finite; got 0.0."),
        ({"step_size": [0.1, 0.1]}, "`step_size` has shape (2,), for 10 steps (`n_steps`)."),
        ({"step_size": [-0.1] * 10}, "`step_size` must not be negative, nor all zero; its least entry is -0.1."),
        ({"n_steps": 0}, "`n_steps` must be at least 1; got 0."),
        ({"loss": "hinge"}, "`loss` must be one of exponential, logistic; got 'hinge'."),
        ({"weights": [1.0] * 5 + [0.0]}, "`weights` must be positive; `weights[5]` is 0: drop the rows that shall not"),
        ({"weights": [1.0] * 5 + [-2.0]}, "`weights` must be positive; `weights[5]` is -2: a loss with a negative"),
        ({"weights": [1.0]}, "`Z` has shape (6, 4) and `weights` has shape (1,): 6 rows against 1."),
        ({"start": [0.0]}, "`start` must have shape (4,); got (1,)."),
        (
            {"start": [1e308] * 4},
            "`start` is so large for these rows that its margins overflow; start nearer to zero.",
        ),
        (
            {"start": [1e306, 0, 0, 0]},
            "Margins after 10 steps may leave double precision: `Z` has entries up to 2.3e+00, `start` up to 1.0e+306, "
            "and the steps sum to 1.0e+00, at the rate 2.0e-01; take smaller ones.",
        ),
        (
            {"step_size": 1e308},
            "Margins after 10 steps may leave double precision: `Z` has entries up to 2.3e+00, `start` up to 0.0e+00, "
            "and the steps sum to inf, at the rate 2.0e-01; take smaller ones.",
        ),
        (
            {"step_size": [1e308] * 10, "rate": 0.0},
            "Margins after 10 steps may leave double precision: `Z` has entries up to 2.3e+00, `start` up to 0.0e+00, "
            "and the steps sum to inf, at the rate 0.0e+00; take smaller ones.",
        ),
    ],
)
def test_bad_input(change, message):
    options = {"rate": 0.2, "step_size": 0.1, "n_steps": 10} | change
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        smoothed_sign_descent(fixture(), **options)


def test_bad_rows():
    for Z, message in (
        ([1.0, 2.0], "`Z` must have shape (n, d) and at least one entry; got (2,)."),
        ([[2**53 + 1, 1]], "`Z` has integers beyond 2**53 that no double holds; rescale it or round it yourself."),
        (np.zeros((0, 3)), "`Z` must have shape (n, d) and at least one entry; got (0, 3)."),
        ([[1.0, np.nan]], "`Z[0, 1]` is nan; every entry must be finite."),
        (
            np.full((2, 2), 1e308),
            "Margins after 10 steps may leave double precision: `Z` has entries up to 1.0e+308, `start` up to 0.0e+00, "
            "and the steps sum to 1.0e+01, at the rate 2.0e-01; take smaller ones.",
        ),
    ):
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            smoothed_sign_descent(Z, rate=0.2, step_size=1.0, n_steps=10)  # pyright: ignore[reportArgumentType]


def test_who_looks_on_must_be_callable():
    message = "`observe` must be a function that is called with the steps taken, or None; got 3."
    with pytest.raises(TypeError, match="^" + re.escape(message) + "$"):
        smoothed_sign_descent(fixture(), rate=0.2, step_size=0.1, n_steps=2, observe=3)  # pyright: ignore[reportArgumentType]
