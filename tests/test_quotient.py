"""The quotient geometry: each formula against a witness that does not share its code, and the theory's own numbers."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _double import in_double
from omegalimit.limits.quotient import (
    effective_hessian,
    horizontal_part,
    population_form,
    population_spectrum,
    quotient_norm,
    spectral_start,
    tangent,
    vertical_share,
)

EPS = np.finfo(float).eps


def fixture(n=40, d=6, r=2, seed=0):
    """Rows, then the factor, standard normal, in this order: the draws behind the stored numbers."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((d, r))


def hessian_in_factor(U, A, value=lambda z: z**2 / 2):
    """All eigenvalues of JAX's Hessian, in U, of the mean of `value(<A_i, U U'> - y_i)` with y read off at U."""
    y = np.einsum("nab,ak,bk->n", A, U, U)

    def loss(flat):
        V = flat.reshape(U.shape)
        return value(jnp.einsum("nab,ak,bk->n", A, V, V) - y).mean()

    return np.linalg.eigvalsh(in_double(jax.hessian(loss))(U.ravel()))


shapes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1)).map(
    lambda t: (max(t[0], t[1]), min(t[0], t[1]), t[2])
)


@settings(deadline=None, max_examples=60)
@given(shapes)
def test_the_horizontal_part_is_horizontal_moves_q_alike_and_is_the_shortest(shape):
    d, r, seed = shape
    rng = np.random.default_rng(seed)
    U, Z = rng.standard_normal((2, d, r))
    H = horizontal_part(U, Z)
    # Rounding of a Lyapunov equation whose condition is that of U, squared.
    s = np.linalg.svd(U, compute_uv=False)
    tolerance = 100 * EPS * (s[0] / s[-1]) ** 2
    assert vertical_share(U, H) <= tolerance
    assert np.linalg.norm(tangent(U, H) - tangent(U, Z)) <= tolerance * np.linalg.norm(U) * np.linalg.norm(Z)
    # What was taken off is U times a skew matrix, orthogonal to everything horizontal: Pythagoras.
    off = np.linalg.norm(Z - H)
    assert math.hypot(float(off), float(np.linalg.norm(H))) == pytest.approx(np.linalg.norm(Z), rel=tolerance)
    assert quotient_norm(U, tangent(U, Z)) == pytest.approx(np.linalg.norm(H), rel=tolerance)


def test_a_gauge_direction_is_vertical_and_moves_nothing():
    _, U = fixture(r=3)
    W = np.array([[0, 1, -2], [-1, 0, 3], [2, -3, 0.0]])
    assert np.linalg.norm(tangent(U, U @ W)) <= 100 * EPS * np.linalg.norm(U) ** 2
    assert np.linalg.norm(horizontal_part(U, U @ W)) <= 100 * EPS * np.linalg.norm(U @ W)
    assert vertical_share(U, U @ W) > 0.1


def test_the_quotient_norm_is_infinite_off_the_tangent_space():
    U = np.eye(3)[:, :2]
    xi = np.zeros((3, 3))
    xi[0, 2] = xi[2, 0] = 1.0
    assert quotient_norm(U, xi) == pytest.approx(1.0, rel=4 * EPS)  # the lift is e_3 in the first column
    xi[2, 2] = 1e-6
    assert quotient_norm(U, xi) == math.inf


def test_the_numbers_of_the_theory_are_met():
    X, U = fixture()
    found = effective_hessian(U, rows=X)
    assert found.eigenvalues.size == 11
    assert (found.n_gauge, found.n_excess, found.n_zero, found.n_zero_in_factor) == (1, 0, 0, 1)
    # Eight decimals are stored.
    assert found.smallest == pytest.approx(4.25699523, abs=6e-9)
    assert found.largest == pytest.approx(241.14279821, abs=6e-9)
    population = population_spectrum(U)
    np.testing.assert_allclose(population[:4], 21.60074794, atol=6e-9)
    assert population[4] > 30  # d - r = 4 times, and no more
    assert population[0] == pytest.approx(4 * np.linalg.svd(U)[1][-1] ** 2, rel=20 * EPS)


def test_nine_rows_leave_three_zeros():
    X, U = fixture()
    found = effective_hessian(U, rows=X[:9])
    # The form has 11 rows and rank 9 at most.
    assert (found.n_zero, found.n_zero_in_factor, found.smallest) == (2, 3, 0.0)
    assert found.smallest_nonzero > 0


@pytest.mark.parametrize(
    ("d", "r", "n", "kind", "loss"),
    [
        (6, 2, 40, "rows", "squared"),
        (5, 3, 30, "rows", "log-cosh"),
        (4, 4, 25, "matrices", "squared"),
        (5, 1, 12, "matrices", "log-cosh"),
        (6, 2, 9, "rows", "squared"),
    ],
)
def test_the_form_has_the_eigenvalues_of_jax_hessian(d, r, n, kind, loss):
    rng = np.random.default_rng(d + 10 * r)
    U = rng.standard_normal((d, r))
    if kind == "rows":
        given = {"rows": rng.standard_normal((n, d))}
        A = np.einsum("na,nb->nab", given["rows"], given["rows"])
    else:
        A = rng.standard_normal((n, d, d))
        A = A + A.transpose(0, 2, 1)
        given = {"matrices": A}
    weights = rng.uniform(0.5, 2.0, n)
    value = (lambda z: weights * z**2 / 2) if loss == "squared" else (lambda z: weights * jnp.log(jnp.cosh(z)))
    found = effective_hessian(U, **given, curvature=weights)
    other = hessian_in_factor(U, A, value)
    # Rounding of a symmetric eigenvalue problem of d r rows.
    level = 100 * EPS * found.largest
    assert found.n_zero_in_factor == r * (r - 1) // 2 + max(0, d * r - r * (r - 1) // 2 - n)
    assert (np.abs(other) <= level).sum() == found.n_zero_in_factor
    np.testing.assert_allclose(other[found.n_gauge :], found.eigenvalues, atol=level)


def test_unused_columns_are_flat_and_told_apart_from_the_gauge():
    X, U = fixture()
    wide = np.column_stack([U, np.zeros((6, 2))]) @ np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    found = effective_hessian(wide, rows=X)
    assert (found.rank, found.width, found.n_gauge, found.n_excess, found.n_zero) == (2, 4, 1, 12, 0)
    np.testing.assert_allclose(found.eigenvalues, effective_hessian(U, rows=X).eigenvalues, rtol=1e-12)
    A = np.einsum("na,nb->nab", X, X)
    assert (np.abs(hessian_in_factor(wide, A)) <= 100 * EPS * found.largest).sum() == found.n_zero_in_factor


def gaussian_cubature(d):
    """Nodes and weights that integrate polynomials of degree 5 against the standard normal law exactly."""
    e = np.eye(d)
    nodes = [np.zeros(d)]
    weights = [2 / (d + 2)]
    for i in range(d):
        for sign in (1, -1):
            nodes.append(sign * math.sqrt(d + 2) * e[i])
            weights.append((4 - d) / (2 * (d + 2) ** 2))
            for j in range(i):
                for other in (1, -1):
                    nodes.append(math.sqrt((d + 2) / 2) * (sign * e[i] + other * e[j]))
                    weights.append(1 / (d + 2) ** 2)
    return np.array(nodes), np.array(weights)


@pytest.mark.parametrize(("d", "r"), [(6, 2), (5, 5), (4, 1), (7, 3)])
def test_the_population_curvature_is_the_exact_mean_over_the_normal_law(d, r):
    nodes, weights = gaussian_cubature(d)
    rng = np.random.default_rng(d)
    U, Z = rng.standard_normal((2, d, r))
    xi = tangent(U, Z)
    mean = weights @ np.einsum("na,ab,nb->n", nodes, xi, nodes) ** 2
    assert population_form(xi) == pytest.approx(mean, rel=1e-12)
    J = 2 * np.einsum("na,nk->nak", nodes, nodes @ U).reshape(len(nodes), -1)
    other = np.linalg.eigvalsh((J.T * weights) @ J)
    expected = population_spectrum(U)
    n_gauge = r * (r - 1) // 2
    np.testing.assert_allclose(other[:n_gauge], 0.0, atol=1e-12 * expected[-1])
    np.testing.assert_allclose(other[n_gauge:], expected, atol=1e-12 * expected[-1])
    if d > r:
        assert expected[0] == pytest.approx(4 * np.linalg.svd(U)[1][-1] ** 2, rel=1e-12)


def test_the_population_curvature_is_that_of_many_draws_and_of_no_other_law():
    _, U = fixture()
    xi = tangent(U, np.random.default_rng(1).standard_normal(U.shape))
    rng = np.random.default_rng(2)
    for draw, agrees in ((rng.standard_normal, True), (lambda size: rng.choice([-1.0, 1.0], size=size), False)):
        X = draw((400_000, 6))
        squares = np.einsum("na,na->n", X @ xi, X) ** 2
        error = float(squares.std() / math.sqrt(len(squares)))
        assert (abs(float(squares.mean()) - population_form(xi)) <= 4 * error) is agrees  # four standard errors


def test_the_spectral_start_has_the_errors_of_the_theory():
    # The order of the draws that gives the stored three digits: rows, factor, a current factor and a direction (both
    # unused here), two million rows for a mean, and then the rows of each size.
    rng = np.random.default_rng(0)
    rng.standard_normal((40, 6))
    U = rng.standard_normal((6, 2))
    rng.standard_normal((2, 6, 2))
    rng.standard_normal((2_000_000, 6))
    errors = []
    for n in (200, 2000, 20_000, 200_000):
        X = rng.standard_normal((n, 6))
        start = spectral_start(X, ((X @ U) ** 2).sum(axis=1), rank=2)
        assert start.n_positive == 2
        errors.append(np.linalg.norm(start.matrix - U @ U.T) / np.linalg.norm(U @ U.T))
    for error, stored, digit in zip(errors, (0.556, 0.175, 0.0640, 0.0177), (1e-3, 1e-3, 1e-4, 1e-4), strict=True):
        assert error == pytest.approx(stored, abs=0.6 * digit)


def test_the_spectral_start_says_how_many_of_its_columns_are_filled():
    X = np.random.default_rng(3).standard_normal((20_000, 4))
    y = X**2 @ np.array([1.0, -1.0, -1.0, -1.0])  # one direction is positive, and the other three are far from it
    start = spectral_start(X, y, rank=2)
    assert start.n_positive == 1
    assert np.count_nonzero(np.abs(start.factor).sum(axis=0)) == 1


@pytest.mark.parametrize("c", [2.0**-500, 2.0**230, 1e-150, 1e70])
def test_units_of_factor_and_rows_change_no_digit_and_no_count(c):
    X, U = fixture()
    plain = effective_hessian(U, rows=X)
    exact = c == 2.0 ** round(math.log2(c))  # and so is its root: the exponents are even
    for found, power in ((effective_hessian(c * U, rows=X), 2), (effective_hessian(U, rows=math.sqrt(c) * X), 2)):
        assert (found.n_zero, found.n_zero_in_factor) == (plain.n_zero, plain.n_zero_in_factor)
        np.testing.assert_allclose(found.eigenvalues / c**power, plain.eigenvalues, rtol=0 if exact else 1e-12)
    Z = np.random.default_rng(1).standard_normal(U.shape)
    assert vertical_share(c * U, Z) == pytest.approx(vertical_share(U, Z), rel=1e-12)
    np.testing.assert_allclose(horizontal_part(c * U, Z), horizontal_part(U, Z), rtol=1e-9)


X3, U3 = np.ones((4, 3)), np.eye(3)[:, :2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: effective_hessian(U3),
            "pass `rows` of shape (n, d) or `matrices` of shape (n, d, d), one of the two.",
        ),
        (
            lambda: effective_hessian(U3, rows=np.ones((4, 2))),
            "`rows` must have shape (n, 3) to fit `U`; got (4, 2).",
        ),
        (
            lambda: effective_hessian(U3, matrices=np.ones((4, 3, 2))),
            "`matrices` must have shape (n, 3, 3) to fit `U`; got (4, 3, 2).",
        ),
        (
            lambda: effective_hessian(0 * U3, rows=X3),
            "`U` is zero: no direction moves Q there, and nothing is trained from it.",
        ),
        (
            lambda: effective_hessian(U3, rows=X3, curvature=[1, 1, -1, 1]),
            "`curvature` must have shape (4,) and entries >= 0; got (4,) and the least entry -1.",
        ),
        (
            lambda: effective_hessian(U3, rows=X3 * np.nan),
            "`rows[0, 0]` is nan (12 such entries of 12); every entry must be finite.",
        ),
        (
            lambda: effective_hessian([1.0, 2.0], rows=X3),
            "`U` must have shape (d, r) and at least one entry; got (2,).",
        ),
        (lambda: tangent(U3, np.ones((3, 3))), "`Z` must have the shape of `U`, (3, 2); got (3, 3)."),
        (lambda: quotient_norm(U3, np.eye(2)), "`xi` must have shape (3, 3); got (2, 2)."),
        (
            lambda: spectral_start(X3, np.ones(3), rank=1),
            "`y` must have shape (4,), one value for each row; got (3,).",
        ),
        (lambda: spectral_start(X3, np.ones(4), rank=4), "`rank` must be at most the dimension 3; got 4."),
        (lambda: spectral_start(X3, np.ones(4), rank=0), "`rank` must be at least 1; got 0."),
        (
            lambda: spectral_start(X3, np.ones(4), rank=1, trace="median"),
            "`trace` must be mean or moment; got 'median'.",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


def test_sizes_that_no_double_holds_are_named():
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((20, 3)), rng.standard_normal((3, 2))
    y = np.square(X @ U).sum(axis=1)
    with pytest.raises(ValueError, match=r"^`rows` and `y` give numbers of about 1e\+40\d, which no double holds; "):
        spectral_start(X * 1e100, y * 1e200, rank=1)
    with pytest.raises(ValueError, match=r"^`U` and the measurements give numbers of about 1e\+601, "):
        effective_hessian(U * 1e100, rows=X * 1e100)


def test_units_of_the_rows_are_units_of_the_start():
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((20, 3)), rng.standard_normal((3, 2))
    y = np.square(X @ U).sum(axis=1)
    plain = spectral_start(X, y, rank=2, trace="moment")
    large = spectral_start(X * 2.0**300, y * 2.0**-100, rank=2, trace="moment")
    np.testing.assert_array_equal(large.factor, plain.factor * 2.0**250)
    np.testing.assert_array_equal(large.estimate, plain.estimate * 2.0**500)
