"""The solvers: certified optima against independent witnesses, laws, and an honest status where there is no optimum."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse
from scipy.linalg import block_diag

from _margins import CASES, VECTORS, attention, by_conic_solver, changed, s40, separable, stated
from omegalimit.limits import MaxMargin
from omegalimit.solvers import solve

NORMS = tuple(CASES)
INTERCEPTS = [(case, "none") for case in CASES] + [(case, "free") for case in CASES]
INTERCEPTS += [(case, "penalised") for case in VECTORS]


def problem(case, seed=0, *, n=5, n_tokens=4, d=6):
    """The attention problem `A(d)` in any norm: its factors, the matrices, or their entries as vectors."""
    left, right = attention(n, n_tokens, d, seed)
    kind = CASES[case][1]
    if kind == "factors":
        return stated(case, left=left, right=right)
    matrices = np.einsum("ki,kj->kij", left, right)
    return stated(case, rows=matrices if kind == "matrices" else matrices.reshape(len(left), -1)[:, : 4 * d])


# Independent witnesses.


def by_dual_barrier(left, right, *, n_steps=80) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers and point of the nuclear problem from the dual's log barrier: another formula, no shared code.

    Newton on `max sum(lam) + mu (logdet(I - G^T G) + sum log lam)`, `mu` falling to zero; `W` is the Newton-corrected
    gradient `2 mu (I - G G^T)^-1 G`.
    """
    scale = np.linalg.norm(left, axis=1).max() * np.linalg.norm(right, axis=1).max()
    D, Z = left / scale, right
    lam = np.full(len(D), 0.5 / np.linalg.norm(D.T @ Z, 2))
    mu, best = 1.0, (np.inf, np.zeros((D.shape[1], Z.shape[1])), lam)
    for _ in range(n_steps):
        G = D.T @ (lam[:, None] * Z)
        Xi, Yi = np.linalg.inv(np.eye(len(G)) - G @ G.T), np.linalg.inv(np.eye(G.shape[1]) - G.T @ G)
        S = Xi @ G
        C = D @ S @ Z.T
        H = 2 * ((D @ Xi @ D.T) * (Z @ Yi @ Z.T) + C * C.T) + np.diag(lam**-2)
        gradient = 1 / mu - 2 * np.diag(C) + 1 / lam
        step = np.linalg.solve(H, gradient)
        dG = D.T @ (step[:, None] * Z)
        W = 2 * mu * (S + Xi @ dG @ Yi + S @ dG.T @ S)
        lower = np.einsum("kj,kj->k", D @ W, Z).min() / np.linalg.norm(W, "nuc")
        upper = np.linalg.norm(G, 2) / lam.sum()
        if upper - lower < best[0]:
            best = (upper - lower, W, lam)
        if best[0] < 1e-8 * upper or mu < 1e-10:
            break
        size = 1.0
        while (lam + size * step).min() <= 0 or np.linalg.norm(G + size * dG, 2) >= 1:
            size *= 0.7
        lam = lam + 0.95 * size * step
        if step @ gradient < 1:
            mu *= 0.3
    return best[1], best[2]


@pytest.mark.parametrize(("case", "intercept"), [pair for pair in INTERCEPTS if pair[0] != "schatten-1.5"])
@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_a_conic_solver(case, intercept, seed):
    limit = separable(case, seed, intercept=intercept)
    solution = solve(limit)
    assert solution.status == "optimal"
    # Clarabel's own tolerance is 1e-8 on gap and feasibility; a sum of squares of 30 entries loses two digits.
    assert solution.certificate.lower == pytest.approx(by_conic_solver(limit)[0], rel=1e-6)


@pytest.mark.parametrize(("case", "intercept"), INTERCEPTS)
@pytest.mark.parametrize("shape", [(30, 5), (6, 14), (2, 4)])
def test_every_norm_is_certified_to_rounding_with_every_intercept(case, intercept, shape):
    limit = separable(case, 7, n_constraints=shape[0], d=shape[1], intercept=intercept)
    solution = solve(limit)
    certificate = solution.certificate
    assert solution.status == "optimal", solution.reason
    assert certificate.gap <= 1e-10
    assert certificate.intercept_kind == intercept
    again = limit.certify(certificate.point, certificate.multipliers, intercept=certificate.intercept)
    assert abs(again.gap - certificate.gap) <= certificate.relative_slack
    sparse = (
        limit
        if limit.left is not None or len(limit.shape) > 1
        else dataclasses.replace(limit, rows=scipy.sparse.csr_array(limit.rows))
    )
    assert solve(sparse).certificate.lower == pytest.approx(certificate.lower, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_nuclear_agrees_with_a_barrier_method_of_another_kind(seed):
    left, right = attention(8, 4, 12, seed)
    limit = MaxMargin("nuclear", left=left, right=right)
    mine, other = solve(limit).certificate, limit.certify(*by_dual_barrier(left, right))
    assert other.gap < 1e-7
    assert mine.lower >= other.lower - mine.slack - other.slack
    assert mine.upper <= other.upper + mine.slack + other.slack


# Laws.


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(6))
def test_optimal_to_rounding_with_point_and_multipliers_in_their_normal_form(norm, seed):
    limit = problem(norm, seed)
    solution = solve(limit)
    certificate = solution.certificate
    assert solution.status == "optimal"
    assert solution.farkas is None
    assert -certificate.relative_slack <= certificate.gap <= 1e-12
    assert limit.margins(certificate.point).min() == pytest.approx(1, rel=1e-12)
    assert certificate.multipliers.min() >= 0
    assert certificate.multipliers.sum() == pytest.approx(1, rel=1e-14)
    # Complementarity: what carries a multiplier is active.
    assert certificate.multipliers @ (limit.margins(certificate.point) - 1) < 1e-9
    again = limit.certify(certificate.point, certificate.multipliers)
    assert abs(again.gap - certificate.gap) <= certificate.relative_slack


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_scale_of_the_data_scales_the_margin_and_nothing_else(norm, factor):
    limit = problem(norm, 1)
    plain, scaled = solve(limit), solve(changed(limit, factor=factor))
    assert scaled.status == "optimal"
    assert scaled.certificate.gap <= 1e-12
    assert scaled.certificate.lower / factor == pytest.approx(plain.certificate.lower, rel=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_doubled_and_permuted_rows_change_no_margin(norm):
    limit = problem(norm, 2)
    order = np.random.default_rng(0).permutation(np.tile(np.arange(limit.n_constraints), 2))
    plain, doubled = solve(limit), solve(changed(limit, rows=order))
    assert doubled.status == "optimal"
    assert doubled.certificate.gap <= 1e-12
    assert doubled.certificate.lower == pytest.approx(plain.certificate.lower, rel=1e-12)


@pytest.mark.parametrize("norm", ["frobenius", "nuclear"])
def test_rotated_coordinates_rotate_the_optimum(norm):
    limit, rng = problem(norm, 3), np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in limit.shape)
    plain = solve(limit).certificate
    turned = solve(MaxMargin(norm, left=limit.left @ U, right=limit.right @ V)).certificate
    np.testing.assert_allclose(U @ turned.point @ V.T, plain.point, atol=1e-9 * np.abs(plain.point).max())


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-7, 1e-4])
def test_nearly_doubled_rows_are_still_solved_to_rounding(noise):
    left, right = attention(8, 4, 16)
    twin = left * (1 + noise * np.random.default_rng(0).normal(size=left.shape))
    limit = MaxMargin("nuclear", left=np.vstack([left, twin]), right=np.vstack([right, right]))
    solution = solve(limit)
    assert solution.status == "optimal"
    assert solution.certificate.gap <= 1e-12


def test_rows_and_coordinates_of_very_different_size():
    left, right = attention(8, 4, 16)
    rng = np.random.default_rng(0)
    for limit in (
        MaxMargin("nuclear", left=left * 10 ** rng.uniform(-2, 2, size=(len(left), 1)), right=right),
        MaxMargin("nuclear", left=left * 10 ** rng.uniform(-3, 3, size=16), right=right),
    ):
        solution = solve(limit)
        assert solution.status == "optimal"
        assert solution.certificate.gap <= 1e-10


@pytest.mark.parametrize("norm", NORMS)
def test_more_constraints_never_widen_the_margin(norm):
    limit = problem(norm, 4)
    margins = [solve(changed(limit, rows=np.arange(k))).certificate.lower for k in (1, 5, 10, 15)]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(margins))


def test_the_norms_order_the_margins():
    frobenius, nuclear = (solve(problem(norm, 5)).certificate for norm in ("frobenius", "nuclear"))
    # |W|_F <= |W|_* <= sqrt(rank) |W|_F.
    assert frobenius.lower / np.sqrt(6) < nuclear.upper < frobenius.lower
    assert problem("nuclear", 5).certify(frobenius.point, frobenius.multipliers).gap > 1e-2


# Closed forms and edges.


@pytest.mark.parametrize(
    ("case", "power"),
    [
        *(("l1", 1), ("l2", 0.5), ("linf", 0), ("lp-1.3", 1 / 1.3), ("lp-4", 0.25), ("nuclear", 1), ("spectral", 0)),
        *(("frobenius", 0.5), ("schatten-1.5", 1 / 1.5), ("schatten-4", 0.25), ("nuclear of matrices", 1)),
        *(("spectral of matrices", 0), ("schatten-4 of matrices", 0.25), ("frobenius of matrices", 0.5)),
    ],
)
def test_one_constraint_per_axis(case, power):
    eye, kind = np.eye(5), CASES[case][1]
    squares = {"rows": np.einsum("ki,kj->kij", eye, eye)}
    arrays = {"rows": {"rows": eye}, "factors": {"left": eye, "right": eye}, "matrices": squares}[kind]
    solution = solve(stated(case, **arrays))
    assert solution.status == "optimal"
    assert solution.certificate.lower == pytest.approx(5**-power, rel=1e-14)
    assert solution.certificate.gap <= 1e-14


@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "frobenius", "nuclear", "spectral"])
def test_a_single_constraint_and_a_single_dimension(norm):
    a, b = np.array([[3.0, -4.0, 0.0]]), np.array([[1.0, 2.0]])
    size = {"l1": 4, "l2": 5, "linf": 7}.get(norm, 5 * 5**0.5)
    limit = MaxMargin(norm, rows=a) if norm in VECTORS else MaxMargin(norm, left=a, right=b)
    assert solve(limit).certificate.lower == pytest.approx(size, rel=1e-14)
    column, ones = np.array([[2.0], [0.5]]), np.ones((2, 1))
    limit = MaxMargin(norm, rows=column) if norm in VECTORS else MaxMargin(norm, left=column, right=ones)
    assert solve(limit).certificate.lower == pytest.approx(0.5, rel=1e-14)


def test_symmetric_problem_whose_optimum_is_not_unique():
    left = np.vstack([np.eye(4) - np.roll(np.eye(4), k, axis=0) for k in (1, 2, 3)])
    solution = solve(MaxMargin("nuclear", left=left, right=np.vstack([np.eye(4)] * 3)))
    assert solution.status == "optimal"
    assert solution.certificate.gap <= 1e-12


# No optimum.


def inseparable(case, kind):
    left, right = {
        "many": attention(40, 4, 3),
        "row and its negative": (np.vstack([np.eye(5), -np.eye(5)[:1]]), np.vstack([np.eye(5), np.eye(5)[:1]])),
        "zero row": (np.vstack([np.eye(5), np.zeros((1, 5))]), np.ones((6, 5))),
        "only zero rows": (np.zeros((2, 5)), np.ones((2, 3))),
    }[kind]
    if CASES[case][1] == "factors":
        return stated(case, left=left, right=right)
    matrices = np.einsum("ki,kj->kij", left, right)
    return stated(case, rows=matrices if CASES[case][1] == "matrices" else matrices.reshape(len(left), -1))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["many", "row and its negative", "zero row", "only zero rows"])
@pytest.mark.parametrize("factor", [1.0, 1e-150])
def test_not_separable_comes_with_the_combination_that_proves_it(norm, kind, factor):
    limit = changed(inseparable(norm, kind), factor=factor)
    solution = solve(limit)
    assert solution.status == "not separable"
    p = solution.farkas
    assert p is not None
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, rel=1e-14)
    assert limit.dual_norm_of(limit.combine(p)) <= 1e-13 * (limit.sizes @ p)
    assert solution.certificate.lower <= solution.certificate.slack
    assert solution.certificate.upper <= 1e-13 * (limit.sizes @ p)


@pytest.mark.parametrize("norm", NORMS)
def test_nearly_contradictory_data_is_stalled_with_both_bounds(norm):
    rng = np.random.default_rng(0)
    left, right = attention(5, 4, 6)
    left, right = np.vstack([left, -left[:1]]), np.vstack([right, right[:1] + 1e-10 * rng.normal(size=(1, 6))])
    matrices, kind = np.einsum("ki,kj->kij", left, right), CASES[norm][1]
    if kind == "factors":
        limit = stated(norm, left=left, right=right)
    else:
        limit = stated(norm, rows=matrices if kind == "matrices" else matrices.reshape(len(left), -1))
    solution = solve(limit)
    certificate = solution.certificate
    assert solution.status == "stalled"
    assert solution.farkas is None
    assert certificate.lower <= certificate.upper + certificate.slack
    # A proved upper bound of the size of the perturbation, and rounding that forbids the word "optimal".
    assert 1e-14 < certificate.upper / limit.sizes.max() < 1e-9
    assert certificate.gap > 1e-8 or certificate.relative_slack > 1e-8


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("factor", [1e-300, 1e-165, 1.0, 1e160, 1e300])
def test_opposite_rows_of_any_size_are_not_separable(norm, factor):
    solution = solve(MaxMargin(norm, rows=np.array([[1.0, 2], [-1, -2], [1, 0.5]]) * factor))
    assert solution.status == "not separable"
    assert solution.farkas is not None
    np.testing.assert_allclose(solution.farkas, [0.5, 0.5, 0], atol=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf", "lp-4"])
@pytest.mark.parametrize("margin", [1e-15, 1e-14, 1e-12])
def test_a_margin_at_rounding_level_is_no_farkas_combination(norm, margin):
    """Rows e1 and -e1 + margin e2 are separable, and their half sum is as small as the rounding of multipliers."""
    rows = np.zeros((2, 4))
    rows[:, 0], rows[1, 1] = [1, -1], margin
    assert solve(stated(norm, rows=rows)).status in ("optimal", "stalled")
    assert solve(stated(norm, rows=rows * [[1], [1 - 2.0**-30]])).status in ("optimal", "stalled")
    rows[1, 1] = 0
    assert solve(stated(norm, rows=rows)).status == "not separable"
    assert solve(stated(norm, rows=rows * [[1 / 3], [0.7]])).status == "not separable"


@pytest.mark.parametrize("norm", VECTORS)
def test_a_penalised_intercept_alone_may_be_the_optimum(norm):
    """Inputs that are opposite and labels that agree: only the intercept has a margin."""
    rows = np.zeros((2, 4))
    rows[:, 0] = [0.1, -0.1]
    solution = solve(stated(norm, rows=rows, intercept="penalised", labels=np.ones(2)))
    assert solution.status == "optimal"
    assert solution.certificate.lower == pytest.approx(1, rel=1e-9)
    assert solution.certificate.intercept == pytest.approx(1, rel=1e-9)
    np.testing.assert_allclose(solution.certificate.point, 0, atol=1e-7)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([[1, 2], [1, -2], [-1, -1], [-2, 2]], [1, -1, 1, 1]),
        ([[0, 2, 2], [0, 0, -2], [1, 1, -2], [0, -2, 1]], None),
        ([[2, 2, 0], [-2, 2, 2], [2, 2, 0], [0, -2, -1], [0, 0, -1], [1, 2, 0]], [-1, -1, -1, 1, -1, 1]),
    ],
)
def test_small_integers_that_are_not_separable(norm, rows, labels):
    """Interior points leave dust, weights of 1e-16, on rows that an exact combination does not have."""
    intercept = "none" if labels is None else "penalised"
    limit = MaxMargin(norm, rows=rows, intercept=intercept, labels=labels)  # pyright: ignore[reportArgumentType]
    solution = solve(limit)
    assert solution.status == "not separable"
    assert solution.farkas is not None
    assert np.count_nonzero(solution.farkas) <= limit.plain().shape[0] + 1
    np.testing.assert_allclose(limit.plain().combine(solution.farkas), 0, atol=1e-15)


@pytest.mark.parametrize("norm", VECTORS)
def test_inputs_far_below_their_labels_come_to_an_end(norm):
    """Inputs of 1e-200 beside a penalised intercept's ones: bounds that hold, and no overflow on the way."""
    rng, y = np.random.default_rng(0), np.array([1.0, -1, 1, -1])
    rows = 1e-200 * rng.integers(-2, 3, size=(4, 4)).astype(float)
    certificate = solve(stated(norm, rows=rows, intercept="penalised", labels=y)).certificate
    assert certificate.lower <= certificate.upper + certificate.slack


@pytest.mark.parametrize("scale", [1e-16, 1e-20, 1e-150])
def test_inputs_far_below_a_penalised_intercept_are_still_separated(scale):
    """x = 3, 1 against -2 in tiny units: without an intercept the margin is one unit, and not the -1 of its sign."""
    X = scale * np.array([[3.0], [1.0], [-2.0]])
    found = solve(MaxMargin.from_labels("l2", X, [1, 1, -1], intercept="penalised")).certificate
    assert scale * 0.999 <= found.lower <= 2 * scale


def test_near_ties_with_an_intercept_come_to_an_end():
    e = 1e-11
    rows = [[1 + e, -1 + e], [-1 + e, 1 - e / 2], [1, -1]]
    solution = solve(MaxMargin("l2", rows=rows, intercept="free", labels=np.array([-1.0, 1, 1])))
    assert solution.status in ("optimal", "stalled")
    assert solution.certificate.lower <= solution.certificate.upper + solution.certificate.slack


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_inputs_at_zero_with_both_labels_are_not_separable(norm):
    solution = solve(MaxMargin.from_labels(norm, [[0.0], [0], [1]], [1, -1, 1], intercept="free"))
    assert solution.status == "not separable"
    assert solution.farkas is not None
    np.testing.assert_allclose(solution.farkas, [0.5, 0.5, 0], atol=1e-12)


def test_a_gap_above_the_tolerance_is_not_called_optimal():
    limit = problem("nuclear", 0)
    loose = solve(limit, 0.5, polish=False)
    assert loose.status == "optimal"
    assert 1e-6 < loose.certificate.gap <= 0.5
    strict = solve(limit, 1e-16)
    assert strict.status == ("optimal" if strict.certificate.gap <= 1e-16 else "stalled")
    assert strict.certificate.gap <= 1e-12


def test_one_inseparable_block_spoils_the_whole():
    separable, spoiled = s40(), np.array([[1.0], [-1.0]])
    solution = solve(MaxMargin("l2", rows=np.asarray(block_diag(separable, spoiled))))
    assert solution.status == "not separable"
    assert solution.farkas is not None
    np.testing.assert_allclose(solution.farkas, np.r_[np.zeros(40), 0.5, 0.5], atol=1e-12)


def test_bad_input_is_named():
    limit = problem("l2")
    with pytest.raises(TypeError) as wrong_type:
        solve(np.eye(2))  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert str(wrong_type.value) == (
        "`limit` must be a MaxMargin, an Interpolation, a Barrier, a StationaryMeasure or a ConvexReluNet; got ndarray."
    )
    with pytest.raises(TypeError, match=r"^`tol` must be a number; got '1'\.$"):
        solve(limit, "1")  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(ValueError, match="tol") as wrong_tolerance:
        solve(limit, 0.0)
    assert str(wrong_tolerance.value) == "`tol` must lie between 0 and 1, both excluded; got 0.0."


def test_rows_too_far_apart_in_size_are_refused():
    with pytest.raises(ValueError, match=r"^Row 1 of `rows` is smaller than the largest by a factor of 1e-200; "):
        MaxMargin("l2", rows=np.array([[1e200, 0.0], [1.0, 1.0]]))


def test_a_margin_lost_in_the_rounding_of_larger_rows_is_not_called_inseparable():
    # Unit rows in general position have a positive margin, and scaling one of them cannot take it away.
    rows = s40()[:6].copy()
    rows[0] *= 1e-100
    for norm in ("l1", "l2"):
        assert solve(MaxMargin(norm, rows=rows)).status in ("optimal", "stalled")
