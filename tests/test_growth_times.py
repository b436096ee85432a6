"""Growth times: the authors' formula by direct quadrature, Carlson's integral, and the blow-up of the flow itself."""

import itertools
import math
import re

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import elliprf

from omegalimit.limits.growth_times import deep_growth_times, two_layer_growth_times

RNG = np.random.default_rng(0)
SHAPES = {
    "three layers": RNG.normal(size=(12, 3)),
    "four layers": RNG.normal(size=(8, 4)),
    "six layers": RNG.normal(size=(4, 6)),
    "one zero": np.array([[0.0, 1.0, -2.0], [1.0, 0.0, 0.5]]),
    "nearly shared": np.array([[1.0, 1.0 + 1e-9, 2.0], [1.0, -1.0 - 1e-12, 1.5]]),
}


def by_the_authors(a):
    """`F(inf)` and `-F(-inf)` by adaptive quadrature; the smallest entry with the sign of the others' product."""
    order = np.argsort(np.abs(a))
    others = a[order[1:]]
    c = a[order[0]] * np.prod(np.sign(others))
    mu2 = (np.abs(others) - abs(c)) * (np.abs(others) + abs(c))

    def piece(low, high):
        # The integrand is peaked within the smallest mu of zero.
        return quad(lambda x: np.prod((x * x + mu2) ** -0.5), low, high, epsabs=0, epsrel=1e-11, limit=500)[0]

    ends = sorted({-math.inf, math.inf, c, *(sign * m for m in np.sqrt(mu2) for sign in (-1, 1)), -1.0, 1.0})
    up = sum(piece(low, high) for low, high in itertools.pairwise(ends) if low >= c)
    down = sum(piece(low, high) for low, high in itertools.pairwise(ends) if high <= c)
    return up, down


def blow_up(a, sign):
    """When the flow `a_j' = sign prod_{l != j} a_l` from `a` blows up, or `inf` when it goes to zero instead."""
    L = len(a)

    def speed(_, x):
        return sign * np.array([np.prod(np.delete(x, j)) for j in range(L)])

    def large(_, x):
        return np.abs(x).max() - 10 ** (7 / (L - 2))

    large.terminal = True
    run = solve_ivp(speed, (0, 1e4), a, method="DOP853", rtol=1e-11, atol=1e-12, events=large)
    if not len(run.t_events[0]):
        return math.inf
    # All entries are of one size M then: M' = M^(L-1) takes 1/((L-2) M^(L-2)) more.
    return run.t[-1] + 1 / ((L - 2) * np.abs(run.y[:, -1]).max() ** (L - 2))


@pytest.mark.parametrize("name", SHAPES)
def test_the_authors_formula(name):
    times = deep_growth_times(SHAPES[name])
    assert not times.outside.any()
    assert times.note is None
    for i, a in enumerate(SHAPES[name]):
        # The adaptive rule was asked for 1e-11.
        assert (times.t_plus[i], times.t_minus[i]) == pytest.approx(by_the_authors(a), rel=1e-10)


def test_three_layers_are_carlsons_integral():
    shape = np.vstack([SHAPES["three layers"], [[1e-60, 1e60, 2.0]], [[3e-200, 1e-190, 2e-195]]])
    times = deep_growth_times(shape)
    near = np.minimum(times.t_plus, times.t_minus)
    # elliprf squares leave double precision for the last row; degree -1 brings it back.
    scale = np.array([1.0] * 13 + [1e190])
    expected = scale * elliprf(*((shape * scale[:, None]) ** 2).T)
    np.testing.assert_allclose(near, expected, rtol=4 * times.error)
    assert times.error < 1e-11


@pytest.mark.parametrize("L", [3, 4, 5])
def test_the_flow_blows_up_at_that_time(L):
    """With a constant gradient the clock runs alone: sign patterns of every kind."""
    sizes = np.array([0.7, 1.3, 0.9, 1.6, 1.1][:L])
    # The smallest entry, 0, negative or not, and an even or odd number of others.
    for bits in range(8) if L == 3 else (0, 1, 2 ** (L - 1), 3):
        a = sizes * np.array([-1 if bits >> j & 1 else 1 for j in range(L)])
        times = deep_growth_times(a[None])
        # The integrator's tolerance over some hundred steps; the tail is 1e-7 and exact to the square of c/M.
        assert times.t_plus[0] == pytest.approx(blow_up(a, 1.0), rel=1e-8)
        assert times.t_minus[0] == pytest.approx(blow_up(a, -1.0), rel=1e-8)
    # It can fail: without the sign rule the two would be exchanged for half of the patterns.
    assert not np.isclose(times.t_plus[0], times.t_minus[0])


@pytest.mark.parametrize("L", [3, 4, 6])
@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
def test_balanced_shapes_keep_their_sign(L, c):
    times = deep_growth_times(np.array([np.full(L, c), [-c] + [c] * (L - 1)]))
    expected = 1 / ((L - 2) * c ** (L - 2))
    np.testing.assert_allclose(times.t_plus, [expected, math.inf], rtol=2 * times.error)
    np.testing.assert_allclose(times.t_minus, [math.inf, expected], rtol=2 * times.error)
    assert times.outside.all()


def test_shapes_outside_the_theorem_are_named():
    times = deep_growth_times([[1, 2, 3], [1, 1, 3], [1, -1, 3], [0, 0, 1], [0, 1, 1]])
    assert times.outside.tolist() == [False, True, True, True, False]
    assert np.isinf(times.t_plus).tolist() == [False, False, True, True, False]
    assert np.isinf(times.t_minus).tolist() == [False, True, False, True, False]
    assert times.t_plus[1] == pytest.approx(blow_up(np.array([1.0, 1.0, 3.0]), 1.0), rel=1e-8)
    assert times.note == (
        "3 of 5 features (index 1, 2, 3) have no single smallest entry in their shape: outside the theorem; one sign, "
        "or both, cannot be reached."
    )
    assert times.scale == "s^-(L-2)"
    assert times.t_plus[4] == times.t_minus[4]


@pytest.mark.parametrize("power", [-200, -3, 5, 300])
def test_the_scale_of_the_shape(power):
    shape = SHAPES["three layers"]
    times, scaled = deep_growth_times(shape), deep_growth_times(shape * 2.0**power)
    for name in ("t_plus", "t_minus"):
        np.testing.assert_allclose(getattr(scaled, name) * 2.0**power, getattr(times, name), rtol=2 * scaled.error)
    assert scaled.error < 1e-11


def test_many_features_are_as_good_as_one():
    shape = RNG.normal(size=(5000, 4))
    times = deep_growth_times(shape)
    for i in (0, 1234, 4999):
        alone = deep_growth_times(shape[i : i + 1])
        assert times.t_plus[i] == pytest.approx(alone.t_plus[0], rel=2 * times.error)
    assert times.error < 1e-11


def test_two_layers():
    times = two_layer_growth_times([-2.0, -0.5], [2.0, 4.0])
    assert times.t_plus.tolist() == [0.5, 0.25]
    assert times.t_minus.tolist() == [0.5, 2.0]
    assert times.scale == "log(1/s)"
    assert not times.outside.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: two_layer_growth_times([-1.0], [0.0]),
            "`largest[0]` is 0; the largest eigenvalue of the Hessian at zero must be positive: without it the "
            "coefficient cannot leave zero in that direction.",
        ),
        (
            lambda: two_layer_growth_times([-1.0, 1e-3], [1.0, 1.0]),
            "`least[1]` is 0.001; the least eigenvalue of the Hessian at zero must be negative: without it the "
            "coefficient cannot leave zero in that direction.",
        ),
        (
            lambda: two_layer_growth_times([-1.0], [1.0, 1.0]),
            "`least` and `largest` must have one entry per feature each; got shapes (1,) and (2,).",
        ),
        (lambda: two_layer_growth_times([], [1.0]), "`least` is empty; it needs one entry per feature."),
        (
            lambda: two_layer_growth_times([-1e-320], [1.0]),
            "The growth times of feature 0 leave double precision; bring the initial shape, or the extreme "
            "eigenvalues, nearer to one.",
        ),
        (
            lambda: deep_growth_times([[1.0, 2.0]]),
            "`shape` must have shape (d, L) with L >= 3 and d >= 1; got (1, 2). For two layers the growth times are "
            "1/|extreme Hessian eigenvalue|: use two_layer_growth_times.",
        ),
        (lambda: deep_growth_times([1.0, 2.0, 3.0]), "`shape` must have shape (d, L); got (3,)."),
        (
            lambda: deep_growth_times([[1.0, 2.0, float("nan")]]),
            "`shape[0, 2]` is nan; every entry must be finite.",
        ),
        (
            lambda: deep_growth_times([[1.0] * 4, [1e-200, 2e-200, 3e-200, 4e-200]]),
            "The growth times of feature 1 leave double precision; bring the initial shape, or the extreme "
            "eigenvalues, nearer to one.",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=r"^" + re.escape(message) + r"$"):
        call()


def test_a_sign_that_two_layers_never_take_has_no_time():
    found = two_layer_growth_times([-1.0, -1.0], [1.0, 1.0], no_minus=np.array([True, False]))
    np.testing.assert_array_equal(found.t_minus, [np.inf, 1.0])
    np.testing.assert_array_equal(found.t_plus, [1.0, 1.0])
    np.testing.assert_array_equal(found.outside, [True, False])
    assert found.note == (
        "1 of 2 features (index 0) start orthogonal to an extreme eigenvector: outside the theorem; that sign cannot "
        "be reached."
    )
    with pytest.raises(
        ValueError, match=r"^`no_plus` must be true or false, one or \(2,\); got int64 of shape \(3,\)\.$"
    ):
        two_layer_growth_times([-1.0, -1.0], [1.0, 1.0], no_plus=np.zeros(3, int))
