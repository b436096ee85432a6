"""Least interpolants: the theory's numbers, duality laws, independent witnesses, faces, and honest refusals."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import linprog

from omegalimit.certificate import LeastCertificate
from omegalimit.limits import (
    DepthPotential,
    HyperbolicEntropy,
    Interpolation,
    MaxMargin,
    ModifiedL1,
    RelativeEntropy,
    SquaredNorm,
    entropy_on_face,
    optimal_face,
)
from omegalimit.solvers import solve

# The fixture of the diagonal networks, and that of the commuting measurements.
X4, Y4 = np.array([[1, 0.5, 0.7, 0], [0.5, 1, 0.1, 0.7]]), np.array([1.0, 0.0])
A4, B4 = np.array([[1, 0.5, 0.2, 0.8], [0.3, 1, 0.7, 0.1]]), np.array([1.0, 0.8])
TIE = np.array([[1, 1, 0.5]])


def refusal(make, kind: type[Exception] = ValueError) -> str:
    """The message with which `make` refuses, which the tests then compare in full."""
    with pytest.raises(kind) as refused:
        make()
    return str(refused.value)


def random_problem(regulariser, *, n=4, d=9, seed=0) -> Interpolation:
    g = np.random.default_rng(seed)
    return Interpolation(regulariser, g.normal(size=(n, d)), g.normal(size=n))


def kinds(d: int, seed: int = 0) -> dict:
    """One of each, with parameters that differ from coordinate to coordinate."""
    g = np.random.default_rng(seed)
    return {
        "l1": ModifiedL1(g.uniform(0.5, 2, d), g.uniform(0.5, 2, d)),
        "squared": SquaredNorm(),
        "relative": RelativeEntropy(g.uniform(0.1, 2, d)),
        "hyperbolic": HyperbolicEntropy(g.uniform(0.1, 2, d)),
        "from factors": HyperbolicEntropy(u0=g.uniform(0.1, 2, d), v0=-g.uniform(0.1, 2, d)),
        "depth 3": DepthPotential(3, g.uniform(0.1, 2, d)),
        "depth 5": DepthPotential(5, g.uniform(0.1, 2, d)),
    }


SMOOTH = [name for name in kinds(1) if name != "l1"]


# The theory's numbers.


def test_the_fixture_of_the_diagonal_networks():
    solution = solve(Interpolation(ModifiedL1(), X4, Y4), 1e-12)
    assert solution.status == "optimal"
    # R = 80/49 and k = (0, 0, 10/7, -10/49), by hand.
    assert solution.certificate.upper == pytest.approx(80 / 49, rel=1e-14)
    assert solution.certificate.point == pytest.approx([0, 0, 10 / 7, -10 / 49], abs=1e-14)
    assert solution.certificate.dual_point == pytest.approx([0.91836735, -0.6122449, 1, -1], abs=1e-8)
    assert list(solution.certificate.support) == [2, 3]


def test_unequal_weights_select_another_interpolant():
    t = [0.5, 1, 1, 1]
    certificate = solve(Interpolation(ModifiedL1(t, t), X4, Y4), 1e-12).certificate
    assert certificate.upper == pytest.approx(17 / 14, rel=1e-14)
    assert certificate.point == pytest.approx([1, 0, 0, -5 / 7], abs=1e-14)
    # And the plain optimum is not optimal here: its certificate says by how much.
    plain = Interpolation(ModifiedL1(t, t), X4, Y4).certify([0, 0, 10 / 7, -10 / 49], certificate.multipliers)
    assert plain.gap == pytest.approx(1 - (17 / 14) / (80 / 49), rel=1e-12)


def test_least_trace_of_the_commuting_measurements():
    certificate = solve(Interpolation(ModifiedL1(1, np.inf), A4, B4), 1e-12).certificate
    assert certificate.upper == pytest.approx(1.2941176470588234, rel=1e-15)
    assert certificate.point == pytest.approx([0.70588235, 0.58823529, 0, 0], abs=1e-8)
    assert 1 - certificate.dual_point == pytest.approx([0, 0, 0.42352941, 0.28235294], abs=1e-8)


@pytest.mark.parametrize(
    ("eps", "q", "excess"),
    [
        (1, [0.35789828, 0.30242614, 0.48717525, 0.491817], 0.345),
        (0.1, [0.56324586, 0.54328597, 0.09940945, 0.18153658], 0.0934),
        (0.01, [0.65895751, 0.58650632, 0.01456705, 0.0560949], 0.0220),
        (0.001, [0.69217382, 0.58931021, 0.00206112, 0.01594856], 0.00538),
    ],
)
def test_bregman_projections_of_the_commuting_measurements(eps, q, excess):
    solution = solve(Interpolation(RelativeEntropy(eps**2), A4, B4), 1e-12)
    assert solution.status == "optimal"
    assert solution.certificate.point == pytest.approx(q, abs=6e-9)  # the figures have eight digits
    assert solution.certificate.point.sum() - 1.2941176470588234 == pytest.approx(excess, rel=2e-3)  # three digits


@pytest.mark.parametrize("w", [(1, 1, 1), (1, 3, 1)])
def test_the_tie_fixture_and_the_entropy_on_its_face(w):
    limit = Interpolation(ModifiedL1(1, np.inf), TIE, [1.0])
    certificate = solve(limit).certificate
    on_face = entropy_on_face(limit, certificate, w_plus=w)
    point = on_face.lift(solve(on_face.limit, 1e-12).certificate.point)
    assert point == pytest.approx(np.array([w[0], w[1], 0]) / (w[0] + w[1]), abs=1e-14)
    near = solve(Interpolation(RelativeEntropy(1e-8 * np.array(w)), TIE, [1.0]), 1e-12).certificate.point
    expected = {1: [0.49998232, 0.49998232, 7.071e-5], 3: [0.24999375, 0.74998125, 5e-5]}[w[1]]
    assert near == pytest.approx(expected, abs=6e-9)


# The functions.


@pytest.mark.parametrize("name", SMOOTH)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_fenchel_and_young(name, data):
    """`f(k) + f*(s) >= k s` with equality at `k = (f*)'(s)`, and `f'` inverts `(f*)'`."""
    f = kinds(3)[name]
    largest = 0.95 if name.startswith("depth") else 8.0
    s = np.array(data.draw(st.lists(st.floats(-largest, largest), min_size=3, max_size=3)))
    other = np.array(data.draw(st.lists(st.floats(0 if name == "relative" else -50, 50), min_size=3, max_size=3)))
    k = f.gradient_of_conjugate(s)
    sizes = np.abs(f.terms(k)) + np.abs(f.conjugate_terms(s)) + np.abs(k * s)
    # Rounding of terms as large as `u0^2 cosh(s)`.
    assert np.abs(f.terms(k) + f.conjugate_terms(s) - k * s) == pytest.approx(0, abs=1e-14 * (1 + sizes.max()))
    assert f.gradient(k) == pytest.approx(s, rel=1e-10, abs=1e-13)
    sizes = np.abs(f.terms(other)) + np.abs(f.conjugate_terms(s)) + np.abs(other * s)
    assert (f.terms(other) + f.conjugate_terms(s) - other * s >= -1e-14 * (1 + sizes)).all()
    assert (f.terms(other) >= -1e-14 * (1 + np.abs(other))).all()


@pytest.mark.parametrize("name", SMOOTH)
def test_curvatures_are_derivatives(name):
    f, s = kinds(3)[name], np.array([-0.6, 0.1, 0.8])
    h = 1e-5
    slope = (f.conjugate_terms(s + h) - f.conjugate_terms(s - h)) / (2 * h)
    curvature = (f.gradient_of_conjugate(s + h) - f.gradient_of_conjugate(s - h)) / (2 * h)
    assert f.gradient_of_conjugate(s) == pytest.approx(slope, rel=1e-6, abs=1e-8)  # differences err by h^2
    assert f.curvature_of_conjugate(s) == pytest.approx(curvature, rel=1e-6)
    assert f.weights(f.gradient_of_conjugate(s)) == pytest.approx(f.curvature_of_conjugate(s), rel=1e-9)


def test_the_formulas_of_the_potentials():
    k, alpha = np.linspace(-3, 3, 7), 0.7
    z = k / alpha**2
    q = 2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2)
    assert HyperbolicEntropy(alpha).terms(k) == pytest.approx(alpha**2 * q, rel=1e-13, abs=1e-15)
    s = np.linspace(-0.9, 0.9, 7)
    for D in (3, 4, 7):
        power, lesser = D / (D - 2), 2 / (D - 2)
        f = DepthPotential(D, alpha)
        image = alpha**D * ((1 - s) ** -power - (1 + s) ** -power)
        assert f.gradient_of_conjugate(s) == pytest.approx(image, rel=1e-12, abs=1e-15)
        H = alpha**D * (D - 2) / 2 * ((1 - s) ** -lesser + (1 + s) ** -lesser - 2)
        assert f.conjugate_terms(s) == pytest.approx(H, rel=1e-12, abs=1e-15)


def test_potentials_of_any_start_are_finite_and_have_the_right_limits():
    k = np.array([-2.0, 0.0, 1e-3, 5.0])
    for D in (3, 4, 9):
        small = DepthPotential(D, 1e-100)
        assert small.terms(k) == pytest.approx(np.abs(k), rel=1e-15)  # alpha^(D-2) is far below rounding
        large = DepthPotential(D, 1e10)
        # `k = 2 p alpha^D z` and `f = k z / 2` to second order, `p = D / (D - 2)`.
        assert large.terms(k) == pytest.approx(k**2 * (D - 2) / (4 * D) * 1e10**-D, rel=1e-12)
    assert HyperbolicEntropy(1e10).terms(k) == pytest.approx(k**2 / 4e20, rel=1e-12)
    # `|k| log(|k| / alpha^2) - |k|` to leading order.
    small, held = HyperbolicEntropy(1e-100), k != 0
    assert small.terms(k)[held] == pytest.approx(
        np.abs(k[held]) * (np.log(np.abs(k[held])) + 200 * np.log(10) - 1), rel=1e-14
    )
    assert small.terms(k)[~held] == 0
    assert np.isfinite(HyperbolicEntropy(log_squares=(-2000.0, -1000.0)).terms(k)).all()


# Duality.


@pytest.mark.parametrize("name", kinds(1))
@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(-3, 1))
@settings(max_examples=25, deadline=None)
def test_weak_duality_holds_for_any_pair(name, seed, spread):
    """Whatever the point and the multipliers, the bounds enclose the least value."""
    limit = random_problem(kinds(6)[name], n=3, d=6) if name != "relative" else feasible_entropy()
    best = solve(limit, 1e-10).certificate
    g = np.random.default_rng(seed)
    point = best.point + 10**spread * g.normal(size=6)
    multipliers = best.multipliers + 10**spread * g.normal(size=3)
    found = limit.certify(point, multipliers)
    assert found.lower <= best.upper + best.slack + found.slack
    assert found.upper >= best.lower - best.slack - found.slack
    assert limit.certify(best.point, multipliers).gap >= -found.relative_slack - best.relative_slack


def feasible_entropy(n=3, d=6, seed=3, q0=None) -> Interpolation:
    g = np.random.default_rng(seed)
    A = g.normal(size=(n, d))
    return Interpolation(RelativeEntropy(g.uniform(0.1, 2, d) if q0 is None else q0), A, A @ g.uniform(0.1, 2, d))


@pytest.mark.parametrize("name", kinds(1))
def test_a_pair_that_is_not_optimal_has_a_gap(name):
    limit = random_problem(kinds(9)[name]) if name != "relative" else feasible_entropy(4, 9)
    best = solve(limit, 1e-12).certificate
    g = np.random.default_rng(1)
    step = g.normal(size=9)
    step -= np.linalg.pinv(limit.X) @ (limit.X @ step)  # along the interpolants
    step *= 0.02 * np.linalg.norm(best.point) / np.linalg.norm(step)
    other = limit.certify(best.point + step, best.multipliers)
    assert other.residual <= 1e-14
    assert other.correction <= 1e-13
    assert other.gap > 1e-6  # of second order in the step at least
    assert limit.certify(best.point, best.multipliers + 0.05 * np.abs(best.multipliers).max()).gap > 1e-6


@pytest.mark.parametrize("name", kinds(1))
def test_multipliers_are_found_from_the_point(name):
    limit = random_problem(kinds(9)[name]) if name != "relative" else feasible_entropy(4, 9)
    best = solve(limit, 1e-12).certificate
    found = limit.certify(best.point)
    assert best.multipliers_given
    assert not found.multipliers_given
    assert abs(found.gap) <= 1e-12
    assert found.multipliers == pytest.approx(best.multipliers, rel=1e-9)


def test_multipliers_of_a_degenerate_point_are_found_too():
    """One coordinate in use, three rows: bounds that least squares on the support breaks must join."""
    g = np.random.default_rng(0)
    X = g.normal(size=(3, 20))
    X[:, 0] *= 10
    limit = Interpolation(ModifiedL1(), X, 2 * X[:, 0])
    found = limit.certify(np.eye(20)[0] * 2)
    assert abs(found.gap) <= 1e-12


def test_a_point_off_the_interpolants_is_moved_onto_them():
    best = solve(Interpolation(ModifiedL1(), X4, Y4), 1e-12).certificate
    limit = Interpolation(ModifiedL1(), X4, Y4)
    near = limit.certify(best.point * (1 + 1e-6), best.multipliers)
    assert near.residual == pytest.approx(1e-6 / 2, rel=0.5)  # beside both `|X_i| |k|` and `|y_i|`
    assert near.correction == pytest.approx(1e-6, rel=1e-3)
    assert abs(near.gap) <= 1e-14
    assert (near.point == 0).tolist() == [True, True, False, False]  # zeros stay


def test_points_outside_the_domain_are_never_flattered():
    limit = Interpolation(RelativeEntropy(0.1), A4, B4)
    best = solve(limit).certificate
    null = np.linalg.svd(A4)[2][-1]
    outside = best.point + 2 * null * np.abs(best.point).max() / np.abs(null).min()
    assert outside.min() < 0
    assert A4 @ outside == pytest.approx(B4)
    found = limit.certify(outside, best.multipliers)
    assert found.upper == np.inf
    assert found.gap == np.inf
    assert limit.certify(-best.point, best.multipliers).upper == np.inf
    trace = Interpolation(ModifiedL1(1, np.inf), A4, B4)
    assert trace.certify(outside, best.multipliers).upper == np.inf


def test_a_point_that_cannot_reach_the_data_has_no_upper_bound():
    limit = Interpolation(ModifiedL1(), [[1, 1], [2, 2.0]], [1, 3.0])
    found = limit.certify([0.5, 0.5], [1, 0])
    assert found.upper == np.inf
    assert found.gap == np.inf
    assert found.relative_slack == np.inf


# Independent witnesses.


def by_flow(X, y, D, alpha) -> np.ndarray:
    """The end of gradient flow of `u^D - v^D` on half the squared residual, by SciPy on the raw weights."""
    d = X.shape[1]

    def field(t, w):
        u, v = w[:d], w[d:]
        force = X.T @ (y - X @ (u**D - v**D))
        return np.concatenate([D * u ** (D - 1) * force, -D * v ** (D - 1) * force])

    def arrived(t, w):
        return np.linalg.norm(y - X @ (w[:d] ** D - w[d:] ** D)) - 1e-11

    arrived.terminal = True
    end = solve_ivp(
        field, (0, 1e7), np.full(2 * d, alpha), method="LSODA", rtol=1e-11, atol=1e-14 * alpha, events=arrived
    )
    w = end.y[:, -1]
    return w[:d] ** D - w[d:] ** D


@pytest.mark.parametrize("D", [2, 3, 4])
@pytest.mark.parametrize("alpha", [2.0, 0.5, 0.1, 0.05])
def test_potentials_are_where_the_flow_ends(D, alpha):
    f = HyperbolicEntropy(alpha) if D == 2 else DepthPotential(D, alpha)
    solution = solve(Interpolation(f, X4, Y4), 1e-12)
    assert solution.status == "optimal"
    # The integrator's own error, 1e-11 a step, over hundreds of steps.
    assert solution.certificate.point == pytest.approx(by_flow(X4, Y4, D, alpha), abs=3e-8)
    wrong = HyperbolicEntropy(1.1 * alpha) if D == 2 else DepthPotential(D, 1.1 * alpha)
    other = solve(Interpolation(wrong, X4, Y4), 1e-12).certificate.point
    assert np.abs(other - solution.certificate.point).max() > 1e-6


def test_starts_of_any_shape_are_where_the_flow_ends():
    u0, v0 = np.array([0.3, 0.8, 0.1, 0.5]), np.array([0.6, 0.2, 0.4, 0.5])

    def field(t, w):
        force = X4.T @ (Y4 - X4 @ (w[:4] ** 2 - w[4:] ** 2))
        return 2 * w * np.concatenate([force, -force])

    w = solve_ivp(field, (0, 300), np.concatenate([u0, v0]), method="LSODA", rtol=1e-11, atol=1e-15).y[:, -1]
    found = solve(Interpolation(HyperbolicEntropy(u0=u0, v0=-v0), X4, Y4), 1e-12).certificate
    assert found.point == pytest.approx(w[:4] ** 2 - w[4:] ** 2, abs=3e-8)


def test_entropies_and_norms_agree_with_a_conic_solver():
    limit = feasible_entropy(5, 12)
    q = cp.Variable(12)
    entropy = limit.regulariser
    assert isinstance(entropy, RelativeEntropy)
    witness = cp.Problem(cp.Minimize(cp.sum(cp.kl_div(q, entropy.q0))), [limit.X @ q == limit.y])
    witness.solve(solver=cp.CLARABEL)
    assert solve(limit, 1e-12).certificate.upper == pytest.approx(witness.value, rel=1e-6)
    limit = random_problem(kinds(12)["l1"], n=5, d=12)
    f, k = limit.regulariser, cp.Variable(12)
    assert isinstance(f, ModifiedL1)
    equations = limit.X @ k == limit.y
    cost = f.t_plus @ cp.pos(k) + f.t_minus @ cp.neg(k)
    witness = cp.Problem(cp.Minimize(cost), [equations])
    witness.solve(solver=cp.CLARABEL)
    found = solve(limit, 1e-12).certificate
    assert found.upper == pytest.approx(witness.value, rel=1e-7)
    assert k.value is not None
    theirs = limit.certify(k.value, -equations.dual_value)
    assert 0 < theirs.gap < 1e-6


@pytest.mark.parametrize("alpha", [1e10, 1.0, 1e-2, 1e-8, 1e-30, 1e-100])
@pytest.mark.parametrize("D", [2, 3, 4, 7])
def test_any_scale_of_start_is_certified(D, alpha):
    """Ten rows, forty columns: from the kernel regime to where alpha^D is no double."""
    f = HyperbolicEntropy(alpha) if D == 2 else DepthPotential(D, alpha)
    limit = random_problem(f, n=10, d=40)
    solution = solve(limit, 1e-12)
    assert solution.status == "optimal"
    assert solution.certificate.residual <= 1e-14
    l1 = solve(random_problem(ModifiedL1(), n=10, d=40), 1e-12).certificate
    l2 = solve(random_problem(SquaredNorm(), n=10, d=40), 1e-12).certificate
    if alpha == 1e10:
        assert solution.certificate.point == pytest.approx(l2.point, abs=1e-12)
    if alpha == 1e-100 or (alpha == 1e-30 and D > 2):  # for D = 2 the others fade like alpha^(2 x reduced cost)
        assert np.abs(solution.certificate.point).sum() == pytest.approx(l1.upper, rel=1e-12)
    if alpha == 1.0:
        assert np.abs(solution.certificate.point).sum() > 1.05 * l1.upper
        assert np.linalg.norm(solution.certificate.point) > np.sqrt(2 * l2.upper) * (1 + 1e-9)


def test_the_limit_problem_directly():
    """10 x 40 normal data, where penalised solvers are asked for ever smaller penalties: the limit itself, to 1e-12."""
    g = np.random.default_rng(0)
    X, y = g.normal(size=(10, 40)), g.normal(size=10)
    solution = solve(Interpolation(ModifiedL1(), X, y), 1e-12)
    assert solution.status == "optimal"
    assert abs(solution.certificate.gap) <= 1e-12
    assert solution.certificate.relative_slack <= 1e-12
    assert len(solution.certificate.support) == 10
    witness = linprog(np.ones(80), A_eq=np.hstack([X, -X]), b_eq=y, bounds=(0, None), method="highs-ipm")
    assert solution.certificate.upper == pytest.approx(witness.fun, rel=1e-9)


def test_lazy_columns_find_the_same_optimum():
    """So many columns that not all take part from the beginning; a program over all of them is the witness."""
    g = np.random.default_rng(0)
    X, y = g.normal(size=(15, 8000)), g.normal(size=15)
    found = solve(Interpolation(ModifiedL1(), X, y), 1e-12)
    witness = linprog(np.ones(16000), A_eq=np.hstack([X, -X]), b_eq=y, bounds=(0, None), method="highs")
    assert found.status == "optimal"
    assert found.certificate.upper == pytest.approx(witness.fun, rel=1e-9)
    # Columns that only a sign keeps out, and a program over few columns that has no point.
    A = np.abs(X)
    A[:, :7900] = A[:, :1]
    b = A[:, 7900:] @ g.uniform(0.1, 1, size=100)
    found = solve(Interpolation(ModifiedL1(1, np.inf), A, b), 1e-12)
    assert found.status == "optimal"
    witness = linprog(np.ones(8000), A_eq=A, b_eq=b, bounds=(0, None), method="highs")
    assert found.certificate.upper == pytest.approx(witness.fun, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 1e-4, 1e-10, 1e-100])
def test_sparse_teachers_leave_the_multipliers_free(alpha):
    """Three of twenty rows' worth of support: the dual is degenerate, and at small scales nearly flat."""
    g = np.random.default_rng(0)
    X, k = g.normal(size=(20, 100)), np.zeros(100)
    k[:3] = 1, -2, 0.5
    for f in (HyperbolicEntropy(alpha), DepthPotential(3, alpha)):
        assert solve(Interpolation(f, X, X @ k), 1e-12).status == "optimal"
    q0 = RelativeEntropy(log_q0=2 * np.log(alpha))
    assert solve(Interpolation(q0, X, X @ np.abs(k)), 1e-12).status == "optimal"


# Scales.


@pytest.mark.parametrize("exponent", [-498, -40, 40, 498])
def test_powers_of_two_change_no_digit(exponent):
    limit = random_problem(kinds(9)["l1"])
    plain = solve(limit).certificate
    for of_x, of_y in ((exponent, 0), (0, exponent), (exponent, exponent)):
        other = solve(Interpolation(limit.regulariser, np.ldexp(limit.X, of_x), np.ldexp(limit.y, of_y))).certificate
        assert np.array_equal(other.point, np.ldexp(plain.point, of_y - of_x))
        assert other.upper == np.ldexp(plain.upper, of_y - of_x)
        assert np.array_equal(other.dual_point, plain.dual_point)


@pytest.mark.parametrize("of_x", [1e-150, 1e150])
@pytest.mark.parametrize("of_y", [1e-150, 1e150])
def test_no_scale_changes_a_bound(of_x, of_y):
    g = np.random.default_rng(0)
    X, y = g.normal(size=(4, 9)), g.normal(size=4)
    log_size = np.log(of_y) - np.log(of_x)
    for make in (
        lambda log: ModifiedL1(),
        lambda log: HyperbolicEntropy(log_squares=(log - 3, log - 4)),
        lambda log: DepthPotential(3, log_alpha=(log - 3) / 3),
        lambda log: RelativeEntropy(log_q0=log),
    ):
        target = X @ np.linspace(0.1, 0.9, 9) if isinstance(make(0.0), RelativeEntropy) else y
        plain = solve(Interpolation(make(0.0), X, target), 1e-11)
        other = solve(Interpolation(make(log_size), of_x * X, of_y * target), 1e-11)
        assert other.status == plain.status == "optimal"
        # The logarithms of the scales are rounded, at 1e-13 of the sizes themselves.
        assert other.certificate.upper / np.exp(log_size) == pytest.approx(plain.certificate.upper, rel=1e-11)


def test_rows_of_any_size_are_alike():
    limit = random_problem(ModifiedL1(), n=5, d=20)
    sizes = 10.0 ** np.array([-150, -70, 0, 70, 150])
    other = solve(Interpolation(ModifiedL1(), sizes[:, None] * limit.X, sizes * limit.y), 1e-12)
    assert other.status == "optimal"
    assert other.certificate.point == pytest.approx(solve(limit).certificate.point, abs=1e-12)


def test_values_beyond_doubles_are_refused():
    assert refusal(lambda: Interpolation(SquaredNorm(), 1e-150 * X4, 1e150 * Y4)) == (
        "The interpolants are of size 2**997 and the values of `f` of size 2**1994; their bounds leave double "
        "precision. Rescale `X` or `y`, so that both lie from 2**-1000 to 2**1000."
    )


# Data that no point interpolates, or that the start does.


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_inconsistent_data_are_reported(scale):
    X = scale * np.array([[1, 1.0], [1, 1], [2, 2]])
    for f in (ModifiedL1(), HyperbolicEntropy(1e-3), SquaredNorm(), RelativeEntropy(1.0)):
        limit = Interpolation(f, X, [1, 1, 2 + 1e-9])
        solution = solve(limit)
        assert solution.status == "infeasible"
        assert solution.farkas is not None
        assert limit.unreachable(solution.farkas)
        assert solution.reason == (
            "no point of the domain interpolates: `farkas` separates `y` from all that `X k` can be."
        )
        assert solve(Interpolation(f, X, [1, 1, 2])).status == "optimal"


@pytest.mark.parametrize("f", [ModifiedL1(1, np.inf), RelativeEntropy(1.0)])
def test_data_outside_the_cone_are_reported(f):
    limit = Interpolation(f, A4, -B4)
    solution = solve(limit)
    assert solution.status == "infeasible"
    assert solution.farkas is not None
    assert limit.unreachable(solution.farkas)
    assert (A4.T @ solution.farkas <= 1e-15).all()
    assert solution.farkas @ limit.y > 0
    assert solution.certificate.gap == np.inf
    # A combination that proves nothing is not taken for a proof.
    assert not limit.unreachable(-solution.farkas)
    assert not limit.unreachable([0, 0])
    assert not Interpolation(ModifiedL1(), A4, -B4).unreachable(solution.farkas)


def test_a_row_of_zeros_needs_a_zero():
    X = np.array([[1, 2.0], [0, 0]])
    assert solve(Interpolation(ModifiedL1(), X, [1, 0])).status == "optimal"
    limit = Interpolation(ModifiedL1(), X, [1, 1e-200])
    solution = solve(limit)
    assert solution.status == "infeasible"
    assert solution.farkas is not None
    assert solution.farkas[0] == 0


def test_data_on_the_boundary_of_the_cone():
    """Only `q = (1, 0, 0)` interpolates; the entropy is finite there, and its dual has no maximum."""
    solution = solve(Interpolation(RelativeEntropy(1.0), [[1, 1, 0], [0, 1, 1.0]], [1, 0]), 1e-9)
    assert solution.status == "optimal"
    assert solution.certificate.point == pytest.approx([1, 0, 0], abs=1e-12)


def test_a_start_that_interpolates():
    q0 = np.array([0.3, 0.4, 0.7, 0.1])
    solution = solve(Interpolation(RelativeEntropy(q0), A4, A4 @ q0))
    assert solution.status == "optimal"
    assert solution.certificate.point == pytest.approx(q0, rel=1e-14)
    for f in (ModifiedL1(), SquaredNorm(), HyperbolicEntropy(1.0), DepthPotential(3, 1.0)):
        solution = solve(Interpolation(f, A4, [0, 0]))
        assert (solution.status, solution.certificate.gap, solution.certificate.upper) == ("optimal", 0.0, 0.0)


def test_data_of_zeros_leave_the_minimum_itself():
    u0, v0 = np.array([1, 2, 3.0]), np.array([2, 1, 1.0])
    solution = solve(Interpolation(HyperbolicEntropy(u0=u0, v0=v0), np.zeros((2, 3)), [0, 0]))
    assert solution.status == "optimal"
    assert solution.certificate.point == pytest.approx(u0**2 - v0**2, rel=1e-14)
    # With rows, the minimum is projected; at any size of the start.
    for log in (0.0, -400.0):
        f = HyperbolicEntropy(log_squares=(2 * np.log(u0) + log, 2 * np.log(v0) + log))
        solution = solve(Interpolation(f, X4[:, :3], [0, 0]), 1e-12)
        assert solution.status == "optimal"
        assert 0 < np.abs(solution.certificate.point).max() < 9 * np.exp(log)
        assert solution.certificate.upper > 0.1 * np.exp(log)


def test_a_square_system_leaves_one_point_however_small_the_start():
    """The point is given; what is to be found are multipliers that certify an entry of the size of rounding."""
    g = np.random.default_rng(0)
    for _ in range(20):
        X, k = g.normal(size=(8, 4)), np.array([0, 1, -1.5, 0.3])
        f = HyperbolicEntropy(log_squares=(g.uniform(-1, 1, 4) - 400, g.uniform(-1, 1, 4) - 400))
        solution = solve(Interpolation(f, X, X @ k), 1e-11)
        assert solution.status == "optimal"
        assert solution.certificate.point == pytest.approx(k, abs=1e-13)


def test_dependent_rows_and_more_rows_than_columns():
    g = np.random.default_rng(0)
    X, k = g.normal(size=(30, 8)), g.normal(size=8)
    for f in (ModifiedL1(), HyperbolicEntropy(1e-3), DepthPotential(3, 0.1)):
        solution = solve(Interpolation(f, X, X @ k), 1e-11)
        assert solution.status == "optimal"
        assert solution.certificate.point == pytest.approx(k, abs=1e-12)


def test_a_tolerance_below_rounding_is_not_claimed():
    """Columns over twelve decades: rounding decides, and the status says so."""
    g = np.random.default_rng(0)
    limit = Interpolation(ModifiedL1(), 10.0 ** np.linspace(-6, 6, 60) * g.normal(size=(12, 60)), g.normal(size=12))
    assert solve(limit, 1e-8).status == "optimal"
    solution = solve(limit, 1e-16)
    assert solution.certificate.gap > 1e-16 or solution.status == "optimal"
    if solution.status == "stalled":
        assert solution.reason.startswith("double precision ends here") or solution.reason.startswith("the gap is")


# Faces.


def test_the_face_of_a_tie():
    limit = Interpolation(ModifiedL1(1, np.inf), TIE, [1.0])
    face = optimal_face(limit, solve(limit).certificate)
    assert face.unique is False
    assert face.dimension == 1
    assert face.spread == pytest.approx(2)
    assert face.lowest is not None
    assert face.lowest == pytest.approx([0, 0, 0])
    assert face.highest is not None
    assert face.highest == pytest.approx([1, 1, 0])
    assert face.other is not None
    assert TIE @ face.other == pytest.approx([1.0])


def test_a_unique_interpolant():
    limit = Interpolation(ModifiedL1(), X4, Y4)
    face = optimal_face(limit, solve(limit).certificate)
    assert face.unique is True
    assert face.dimension == 0
    assert face.reason.startswith("the 2 columns that meet their bounds are independent")


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_duplicates_and_opposites_span_the_face(scale):
    g = np.random.default_rng(0)
    base, y = g.normal(size=(5, 12)), g.normal(size=5)
    single = solve(Interpolation(ModifiedL1(), base, y)).certificate
    twins = single.support[:3]
    X = np.hstack([base, base[:, twins[:2]], -base[:, twins[2:]]])
    limit = Interpolation(ModifiedL1(), scale * X, y)
    face = optimal_face(limit, solve(limit, 1e-12).certificate)
    assert face.unique is False
    assert face.dimension == 3
    assert face.lowest is not None
    assert face.highest is not None
    low, high = scale * face.lowest, scale * face.highest
    ends = single.point[twins] * [1, 1, -1]
    assert high[12:] == pytest.approx(np.maximum(ends, 0), abs=1e-8)
    assert low[12:] == pytest.approx(np.minimum(ends, 0), abs=1e-8)
    others = np.setdiff1d(single.support, twins)
    assert low[others] == pytest.approx(single.point[others], rel=1e-8)


def test_signs_can_stop_every_step():
    """Three columns that meet their bounds in two rows; but the data lie on the boundary of their cone."""
    X = np.array([[1, 0.5, 0], [0, 0.5, 1.0]])
    limit = Interpolation(ModifiedL1(1, np.inf), X, [1, 0])
    certificate = limit.certify([1, 0, 0], [1, 1])
    face = optimal_face(limit, certificate)
    assert face.unique is True
    assert face.dimension == 0
    assert face.reason == "1 directions keep `X k`, but the signs stop every step along them."


def test_strictly_convex_functions_have_one_minimiser():
    limit = Interpolation(RelativeEntropy(1.0), TIE, [1.0])
    face = optimal_face(limit, solve(limit).certificate)
    assert face.unique is True
    assert face.reason == "RelativeEntropy is strictly convex, and the point interpolates."


def test_faces_are_not_read_off_poor_pairs():
    limit = Interpolation(ModifiedL1(), X4, Y4)
    face = optimal_face(limit, limit.certify([1, 0, 0, -5 / 7], [1, -1]))
    assert face.unique is None
    assert face.reason.startswith("the certificate's gap, ")
    bad = Interpolation(ModifiedL1(), [[1, 1], [1, 1.0]], [1, 2])
    assert optimal_face(bad, solve(bad).certificate).reason == "the point of the certificate does not interpolate."


def test_the_next_order_decides_on_the_face():
    """Copies of used columns: as the start shrinks, the hyperbolic limits approach the point of least entropy."""
    g = np.random.default_rng(3)
    X = np.hstack([X4, X4[:, 2:3], -X4[:, 2:3], -X4[:, 3:]])
    u0, v0 = g.uniform(0.5, 2, 7), g.uniform(0.5, 2, 7)
    limit = Interpolation(ModifiedL1(), X, Y4)
    on_face = entropy_on_face(limit, solve(limit, 1e-12).certificate, w_plus=u0**2, w_minus=v0**2)
    expected = on_face.lift(solve(on_face.limit, 1e-12).certificate.point)
    assert X @ expected == pytest.approx(Y4, abs=1e-13)
    assert np.abs(expected).sum() == pytest.approx(80 / 49, rel=1e-12)
    assert on_face.lift(on_face.restrict(expected)) == pytest.approx(expected)
    # By hand: copies share in proportion to the weights of the sign that they take.
    weights = np.array([u0[2], u0[4], v0[5]]) ** 2
    assert np.abs(expected[[2, 4, 5]]) == pytest.approx(10 / 7 * weights / weights.sum(), rel=1e-10)
    for alpha, error in ((1e-10, 1e-1), (1e-100, 1e-6)):
        near = solve(Interpolation(HyperbolicEntropy(u0=alpha * u0, v0=alpha * v0), X, Y4), 1e-12).certificate.point
        assert near == pytest.approx(expected, abs=error)
    plain = entropy_on_face(limit, solve(limit, 1e-12).certificate)
    other = plain.lift(solve(plain.limit, 1e-12).certificate.point)
    assert np.abs(other - expected).max() > 1e-2  # the shape of the start matters


def test_what_the_face_refuses():
    limit = Interpolation(ModifiedL1(), X4, Y4)
    good = solve(limit).certificate
    other = solve(Interpolation(ModifiedL1(), X4, [2, 1.0])).certificate
    assert refusal(lambda: optimal_face(limit, other)).startswith(
        "`certificate` belongs to other data: its pair has the "
    )
    wide = Interpolation(ModifiedL1(), np.eye(3), [1, 2, 3])
    assert refusal(lambda: optimal_face(wide, good)) == (
        "`certificate` belongs to another problem: it has a point of shape (4,) and 2 multipliers, the limit has "
        "points of shape (3,) and 3 rows."
    )
    margin = solve(MaxMargin("l1", rows=np.eye(2))).certificate
    assert refusal(lambda: optimal_face(limit, margin), TypeError) == (  # pyright: ignore[reportArgumentType, reportCallIssue]
        "`certificate` must be a LeastCertificate; got Certificate. A solution of an Interpolation has one: "
        "`solution.certificate`."
    )
    assert refusal(lambda: entropy_on_face(Interpolation(SquaredNorm(), X4, Y4), good), TypeError) == (
        "`limit` must be an Interpolation with a ModifiedL1; got SquaredNorm."
    )
    assert refusal(lambda: entropy_on_face(limit, good, w_plus=[1, 0, 1, 1])) == (
        "`w_plus` must be positive; its least entry is 0."
    )
    assert refusal(lambda: entropy_on_face(limit, good, w_minus=[1, 1])) == (
        "`w_minus` must be a number or have shape (4,); got (2,)."
    )
    assert refusal(lambda: entropy_on_face(limit, limit.certify([1, 0, 0, -5 / 7], [1, -1]))).startswith(
        "The face of least interpolants is not known: the certificate's gap, "
    )


# Bad input.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RelativeEntropy([1, 0.0]), "`q0[1]` is 0; it must be positive: what starts at zero stays there."),
        (lambda: RelativeEntropy(-1.0), "`q0` is -1; it must be positive: what starts at zero stays there."),
        (lambda: RelativeEntropy(), "Pass `q0` or `log_q0`."),
        (lambda: RelativeEntropy([1, np.nan]), "`q0[1]` is nan; every entry must be finite."),
        (lambda: HyperbolicEntropy(0.0), "`alpha` is 0; it must be positive: what starts at zero stays there."),
        (
            lambda: HyperbolicEntropy(u0=[1, 0], v0=[1, 1]),
            "`u0[1]` is 0; it must not be zero: what starts at zero stays there.",
        ),
        (lambda: HyperbolicEntropy(), "Pass `alpha`, or both `u0` and `v0`, or `log_squares`: the start, once."),
        (
            lambda: HyperbolicEntropy(u0=[1.0]),
            "Pass `alpha`, or both `u0` and `v0`, or `log_squares`: the start, once.",
        ),
        (
            lambda: HyperbolicEntropy(u0=[1, 1], v0=[1, 1, 1]),
            "`u0` and `v0` must have the same shape; got (2,) and (3,).",
        ),
        (
            lambda: DepthPotential(2, 1.0),
            "`D` is 2, whose potential is HyperbolicEntropy(alpha); DepthPotential needs at least 3.",
        ),
        (lambda: DepthPotential(1, 1.0), "`D` must be at least 2; got 1."),
        (
            lambda: ModifiedL1([1, 0.0]),
            "`t_plus[1]` is 0; it must be positive (infinite: that sign is forbidden).",
        ),
        (
            lambda: ModifiedL1(1, np.nan),
            "`t_minus` is nan; it must be positive (infinite: that sign is forbidden).",
        ),
        (
            lambda: ModifiedL1([1, np.inf], [1, np.inf]),
            "`t_plus` and `t_minus` are both infinite at coordinate 1: that coordinate can only be zero; drop it.",
        ),
        (lambda: ModifiedL1(np.ones((2, 2))), "`t_plus` must be a number or have shape (d,); got (2, 2)."),
        (
            lambda: Interpolation(ModifiedL1(np.ones(3)), X4, Y4),
            "`t_plus` must be a number or hold one for each of the 4 columns of `X`; got 3.",
        ),
        (
            lambda: Interpolation(ModifiedL1(), X4[0], Y4),
            "`X` must have shape (n, d) and at least one entry; got (4,).",
        ),
        (
            lambda: Interpolation(ModifiedL1(), np.zeros((0, 4)), []),
            "`X` must have shape (n, d) and at least one entry; got (0, 4).",
        ),
        (
            lambda: Interpolation(ModifiedL1(), X4, [1.0]),
            "`y` must hold one value for each of the 2 rows of `X`; got shape (1,).",
        ),
        (lambda: Interpolation(ModifiedL1(), X4, [1, np.nan]), "`y[1]` is nan; every entry must be finite."),
        (
            lambda: Interpolation(ModifiedL1(), X4, Y4).certify([1, 2]),
            "`point` must have shape (4,); got (2,).",
        ),
        (
            lambda: Interpolation(ModifiedL1(), X4, Y4).certify([1, 2, np.inf, 0]),
            "`point[2]` is inf; every entry must be finite.",
        ),
        (
            lambda: Interpolation(ModifiedL1(), X4, Y4).certify(np.ones(4), [1, 2, 3]),
            "`multipliers` must have shape (2,); got (3,).",
        ),
        (
            lambda: Interpolation(ModifiedL1(), X4, Y4).certify(None),  # pyright: ignore[reportArgumentType]
            "`point` is None: was the problem that it comes from solved?",
        ),
    ],
)
def test_messages(make, message):
    assert refusal(make) == message


def test_wrong_types():
    assert refusal(lambda: Interpolation("l1", X4, Y4), TypeError) == (  # pyright: ignore[reportArgumentType]
        "`regulariser` must be one of omegalimit's, such as ModifiedL1(); got str."
    )
    sparse = scipy.sparse.csr_array(X4)
    assert refusal(lambda: Interpolation(ModifiedL1(), sparse, Y4), TypeError) == (  # pyright: ignore[reportArgumentType]
        "`X` is a sparse array; pass `X.toarray()`."
    )


def test_what_is_handed_out_is_typed_and_frozen():
    limit = Interpolation(ModifiedL1(), X4, Y4)
    solution = solve(limit)
    assert isinstance(solution.certificate, LeastCertificate)
    assert not limit.X.flags.writeable
    assert not limit.y.flags.writeable
    assert limit.value([1, -2, 0, 3]) == 6
    assert limit.n_constraints == 2
    assert limit.shape == (4,)
    assert solution.certificate.relative_slack <= 1e-13
