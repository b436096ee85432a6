"""The guarantee of recovery: its operator against a direct sum, its bounds against training, and how it can fail."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.limits.quotient import spectral_start
from omegalimit.limits.recovery import (
    LEMMA,
    normal_operator,
    operator_deviation,
    orbit_distance,
    packed,
    population_operator,
    recovery_guarantee,
)

EPS = np.finfo(float).eps


def planted(n, d, r, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.linalg.qr(rng.standard_normal((d, r)))[0] * rng.uniform(0.8, 1.2, r)


def symmetric(d, rng):
    M = rng.standard_normal((d, d))
    return M + M.T


def test_the_operator_is_the_sum_over_the_rows():
    rng = np.random.default_rng(0)
    X, xi, zeta = rng.standard_normal((30, 5)), symmetric(5, rng), symmetric(5, rng)
    value = packed(zeta) @ normal_operator(X) @ packed(xi)
    assert value == pytest.approx(np.mean([(x @ xi @ x) * (x @ zeta @ x) for x in X]), rel=1e-12)
    assert packed(zeta) @ packed(xi) == pytest.approx(np.trace(zeta @ xi), rel=1e-12)
    value = packed(zeta) @ population_operator(5) @ packed(xi)
    assert value == pytest.approx(2 * np.trace(zeta @ xi) + np.trace(zeta) * np.trace(xi), rel=1e-12)


def test_blocks_of_rows_add_up():
    X = np.random.default_rng(1).standard_normal((30_000, 12))  # 78 x 30000 numbers: two blocks
    halves = (normal_operator(X[:15_000]) + normal_operator(X[15_000:])) / 2
    np.testing.assert_allclose(normal_operator(X), halves, rtol=1e-10, atol=1e-12)


def test_the_deviation_is_the_largest_over_symmetric_matrices():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 4))
    deviation = operator_deviation(X)
    difference = normal_operator(X) - population_operator(4)
    w, V = np.linalg.eigh(difference)
    assert deviation == pytest.approx(max(abs(w[0]), abs(w[-1])), rel=1e-12)
    for _ in range(50):
        v = packed(symmetric(4, rng))
        assert np.linalg.norm(difference @ v) <= deviation * np.linalg.norm(v) * (1 + 100 * EPS)
    assert np.linalg.norm(difference @ V[:, 0]) <= deviation * (1 + 100 * EPS)


def test_rows_of_another_law_do_not_come_nearer_with_their_number():
    rng = np.random.default_rng(3)
    gaussian = [operator_deviation(rng.standard_normal((n, 5))) for n in (1000, 100_000)]
    signs = [operator_deviation(rng.choice([-1.0, 1.0], size=(n, 5))) for n in (1000, 100_000)]
    assert gaussian[1] < gaussian[0] / 5  # ten times nearer is the law
    # E x^4 = 1 for signs, and 3 for normal entries: diag(1, -1, 0, ...) is seen as 0 instead of 2.
    assert min(signs) >= 2 * (1 - 100 * EPS)


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1), st.floats(-3, 1))
def test_the_lemma_holds(d, r, seed, log_step):
    rng = np.random.default_rng(seed)
    d, r = max(d, r), min(d, r)
    V = rng.standard_normal((d, r))
    U = V + 10**log_step * rng.standard_normal((d, r))
    left = np.linalg.norm(U @ U.T - V @ V.T) ** 2
    right = LEMMA * np.linalg.svd(V, compute_uv=False)[-1] ** 2 * orbit_distance(U, V) ** 2
    assert right <= left * (1 + 1e-6) + 1e-24


def test_the_distance_is_that_of_the_nearest_rotation():
    rng = np.random.default_rng(4)
    V = rng.standard_normal((6, 2))
    U = V + 0.3 * rng.standard_normal((6, 2))
    angles = np.linspace(0, 2 * math.pi, 20_001)
    best = min(
        np.linalg.norm(U - V @ np.array([[math.cos(t), -s * math.sin(t)], [math.sin(t), s * math.cos(t)]]))
        for t in angles
        for s in (1, -1)
    )
    assert orbit_distance(U, V) == pytest.approx(best, rel=1e-6)  # quadratic in the spacing of 3e-4
    R = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    assert orbit_distance(V @ R, V) <= 100 * EPS * np.linalg.norm(V)


@pytest.mark.parametrize(("n", "d", "r", "seed"), [(20_000, 4, 1, 0), (40_000, 4, 2, 1), (60_000, 5, 2, 2)])
def test_within_the_guarantee_every_step_brings_the_factor_nearer(n, d, r, seed):
    X, U_star = planted(n, d, r, seed)
    g = recovery_guarantee(X, U_star)
    assert g.holds
    y = ((X @ U_star) ** 2).sum(axis=1)
    start = spectral_start(X, y, rank=r, trace="moment").factor
    distance = orbit_distance(start, U_star)
    assert distance <= g.start_distance < g.radius
    rng = np.random.default_rng(seed)
    random = rng.standard_normal((d, r))
    # From anywhere in the ball, too, with the theta of that start.
    for U, theta in (
        (start, g.theta),
        (U_star + 0.9 * g.radius * random / np.linalg.norm(random), 0.9),
    ):
        step = (1 - theta) / (4 * (d + 2 + g.deviation) * (g.largest + g.radius) ** 2)
        rate = (1 - theta) * (2 - g.deviation) * LEMMA * g.smallest**2
        for _ in range(30):
            before = orbit_distance(U, U_star)
            P = X @ U
            U = U - step * 2 * (X.T * ((P**2).sum(axis=1) - y)) @ P / n
            # The proof's decrease of the squared distance in one step.
            assert orbit_distance(U, U_star) ** 2 <= before**2 * (1 - step * rate) * (1 + 1e-12)
    assert g.largest_step == pytest.approx((1 - g.theta) / (4 * (d + 2 + g.deviation) * (g.largest + g.radius) ** 2))


def test_few_rows_are_guaranteed_nothing():
    X, U = planted(200, 6, 2, 0)
    g = recovery_guarantee(X, U)
    assert g.deviation > 2
    assert (g.radius, g.holds, g.rate, g.largest_step, g.theta) == (0.0, False, 0.0, 0.0, math.inf)


@pytest.mark.parametrize("c", [2.0**-400, 2.0**200])
def test_units_of_the_planted_factor_change_no_guarantee(c):
    X, U = planted(40_000, 4, 2, 1)
    plain, scaled = recovery_guarantee(X, U), recovery_guarantee(X, c * U)
    assert plain.holds
    assert scaled.holds
    assert scaled.theta == pytest.approx(plain.theta, rel=1e-12)
    assert scaled.radius / c == pytest.approx(plain.radius, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: normal_operator(np.ones((2, 80))),
            "symmetric matrices of dimension 80 have 3240 entries; the operator is formed up to 3000.",
        ),
        (lambda: normal_operator(np.ones(3)), "`rows` must have shape (n, d) and at least one entry; got (3,)."),
        (
            lambda: recovery_guarantee(np.ones((4, 2)), np.eye(3)),
            "`rows` must have shape (n, 3) to fit `U`; got (4, 2).",
        ),
        (
            lambda: recovery_guarantee(np.ones((4, 3)), np.ones((3, 2))),
            "`U` of shape (3, 2) has not full column rank; drop the columns that the others span.",
        ),
        (
            lambda: recovery_guarantee(np.full((4, 2), np.inf), np.eye(2)),
            "`rows[0, 0]` is inf (8 such entries of 8); every entry must be finite.",
        ),
        (
            lambda: orbit_distance(np.eye(3), np.eye(3)[:, :2]),
            "`V` must have the shape of `U`, (3, 3); got (3, 2).",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_rows_whose_fourth_powers_are_no_doubles_are_refused():
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((20, 3)), rng.standard_normal((3, 2))
    message = (
        r"^the largest entry of `rows` is \d\.\de\+100: the operator is of fourth powers, and compared with that of "
        r"standard normal rows\. Divide the rows by their standard deviation\.$"
    )
    with pytest.raises(ValueError, match=message):
        recovery_guarantee(X * 1e100, U)
