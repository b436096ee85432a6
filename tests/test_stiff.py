"""The stiff integrator: coefficients by the order conditions, order, stability, and steps below rounding."""

import itertools
import math

import numpy as np
import pytest

from omegalimit.flows import _stiff
from omegalimit.flows._stiff import DenseAutonomous, StiffIntegrator
from omegalimit.flows._valleys import valleys


def butcher():
    """`(alpha, beta, b, b_hat)` of the method from the coefficients that save a product with J: `a = alpha / Gamma`,
    `C = diag(1/gamma) - Gamma^{-1}`, `m = b Gamma^{-1}` (Hairer and Wanner, Solving ODEs II, IV.7)."""
    s = _stiff.STAGES
    a, C = np.zeros((s, s)), np.zeros((s, s))
    for i in range(s):
        a[i, :i], C[i, :i] = _stiff.A[i], _stiff.C[i]
    inverse = np.eye(s) / _stiff.GAMMA - C
    Gamma = np.linalg.inv(inverse)
    alpha = a @ Gamma
    m = np.append(a[-1, :-1], 1.0)
    m_hat = np.append(a[-1, :-1], 0.0)
    return alpha, alpha + Gamma, m @ Gamma, m_hat @ Gamma


def trees(order):
    """Rooted trees with `order` vertices, as sorted tuples of their subtrees."""
    if order == 1:
        return {()}
    found = set()
    for sizes in itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(1, order), parts) for parts in range(1, order)
    ):
        if sum(sizes) == order - 1:
            for children in itertools.product(*(trees(size) for size in sizes)):
                found.add(tuple(sorted(children)))
    return found


def n_vertices(tree):
    return 1 + sum(map(n_vertices, tree))


def density(tree):
    return n_vertices(tree) * math.prod(map(density, tree))


def weights(tree, alpha, beta):
    """The elementary weight of a Rosenbrock method at each stage: beta below a vertex with one son, alpha else."""
    matrix = beta if len(tree) == 1 else alpha
    return math.prod((matrix @ weights(son, alpha, beta) for son in tree), start=np.ones(len(alpha)))


def test_the_count_of_trees():
    assert [len(trees(order)) for order in range(1, 7)] == [1, 1, 2, 4, 9, 20]


@pytest.mark.parametrize("order", range(1, 6))
def test_every_order_condition_to_order_five(order):
    # Coefficients have 16 digits and are up to 150 in size: products of five leave 1e-12.
    alpha, beta, b, b_hat = butcher()
    for tree in trees(order):
        error = b @ weights(tree, alpha, beta) - 1 / density(tree)
        assert abs(error) < 1e-11, tree
        if order < 5:
            assert abs(b_hat @ weights(tree, alpha, beta) - 1 / density(tree)) < 1e-11, tree


def test_the_estimate_is_of_order_four_only_and_the_method_of_order_five_only():
    alpha, beta, b, b_hat = butcher()
    assert max(abs(b_hat @ weights(t, alpha, beta) - 1 / density(t)) for t in trees(5)) > 1e-5
    assert max(abs(b @ weights(t, alpha, beta) - 1 / density(t)) for t in trees(6)) > 1e-5


def test_it_is_stable_on_the_imaginary_axis_and_zero_at_infinity():
    _, beta, b, _ = butcher()

    def R(z):
        return 1 + z * b @ np.linalg.solve(np.eye(len(b)) - z * beta, np.ones(len(b)))

    # A pole-free left half plane (all poles are 1/gamma) and |R| <= 1 on its border: A-stable by the maximum principle.
    assert max(abs(R(1j * y)) for y in np.geomspace(1e-3, 1e6, 400)) <= 1 + 1e-10
    assert abs(R(-1e10)) < 1e-4


class VanDerPol(DenseAutonomous):
    def __init__(self, mu):
        self.mu = mu

    def field(self, y):
        return np.array([y[1], self.mu * (1 - y[0] ** 2) * y[1] - y[0]])

    def jacobian(self, y):
        return np.array([[0.0, 1.0], [-2 * self.mu * y[0] * y[1] - 1, self.mu * (1 - y[0] ** 2)]])


def test_order_five_on_a_nonlinear_problem():
    system, y0 = VanDerPol(1.0), np.array([2.0, 0.0])

    def end(n):
        it = StiffIntegrator(system, y0, tol=1.0)
        for _ in range(n):
            it.y, _ = it.trial(1.0 / n)
            it.f = system.field(it.y)
        return it.y

    exact = end(640)
    errors = [np.abs(end(n) - exact).max() for n in (20, 40)]
    # 2^5 = 32, with the next order's share at these steps.
    assert 24 < errors[0] / errors[1] < 45


def test_tolerance_and_stiffness_against_scipy():
    import scipy.integrate

    system, y0 = VanDerPol(1e3), np.array([2.0, 0.0])
    it = StiffIntegrator(system, y0, tol=1e-8)
    while it.elapsed < 500:
        assert it.step(500 - it.elapsed)
    radau = scipy.integrate.solve_ivp(
        lambda _t, y: system.field(y), (0, 500), y0, method="Radau", jac=lambda _t, y: system.jacobian(y), rtol=1e-11,
        atol=1e-13,
    )  # fmt: skip
    # A thousand times the tolerance of a step for what some hundred steps add up to and for Radau's own error.
    np.testing.assert_allclose(it.y, radau.y[:, -1], rtol=1e-6)
    assert it.n_steps < 200


class Pole(DenseAutonomous):
    """`p' = -1`, `x' = -x / p`: p runs into zero after p_0, where everything else happens in no time."""

    def field(self, y):
        return np.array([-y[0] * (1 / y[0] if y[0] > 0 else math.nan), -y[1] / y[0]])

    def jacobian(self, y):
        return np.array([[0.0, 0.0], [y[1] / y[0] ** 2, -1 / y[0]]])

    def unit(self, y):
        return np.abs(y)


def test_steps_far_below_the_rounding_of_the_elapsed_time():
    it = StiffIntegrator(Pole(), np.array([1.0, 1.0]), tol=1e-8)
    while it.y[0] > 1e-60:
        assert it.step()
    # x / p is conserved; the field at the end moves at 1e60 per unit of time.
    assert abs(it.y[1] / it.y[0] - 1) < 1e-5
    # p itself is rounded at each step, which makes 1e-15 or so of the first ones, where it is of size one.
    assert abs(it.elapsed + it.elapsed_low - 1.0) < 1e-13
    # A rejected and an accepted step a decade.
    assert it.n_steps < 300


def test_no_step_where_the_field_is_nowhere_finite():
    class Nothing(DenseAutonomous):
        def field(self, y):
            return np.full(1, np.nan) if y[0] != 0 else np.ones(1)

        def jacobian(self, y):
            return np.zeros((1, 1))

    it = StiffIntegrator(Nothing(), np.zeros(1), tol=1e-6)
    assert not it.step()
    assert it.stuck
    assert it.n_steps == 0


def test_a_matrix_with_rows_of_unlike_size():
    J = np.array([[-1e60, 1e60, 0.0], [1e-60, -2e-60, 0.0], [0.0, 1e100, -3e100]])
    solve = _stiff.factored(0.0, J)
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(solve(-J @ x), x, rtol=1e-13)


def test_valleys():
    speed = np.log([1, 1e2, 1, 2, 1, 1e3, 1e-5, 1e-6, 1e2, 1e-9])
    found = valleys(speed, depth=math.log(10))
    assert [v.lowest for v in found] == [0, 2, 7, 9]
    assert [v.at_end for v in found] == [False, False, False, True]
    np.testing.assert_allclose([v.drop for v in found], np.log([1e2, 1e2, 1e8, 1e11]))
    # Swings below the depth are none.
    assert valleys(np.log([1.0, 2.0, 1.0, 3.0]), depth=math.log(10)) == []
