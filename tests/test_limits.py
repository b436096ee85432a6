"""The certificate: bounds that hold for any candidate, exact where the answer is known, no credit that is not due."""

import dataclasses
import tracemalloc
from decimal import Decimal, localcontext
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import scipy.sparse
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from _margins import CASES, VECTORS, by_conic_solver, changed, separable, stated
from _planted import exact_margin
from omegalimit.limits import MaxMargin
from omegalimit.limits._cancellation import cancelling
from omegalimit.rigorous import prove
from omegalimit.solvers import solve

NORMS = tuple(CASES)

# Laws.


@given(norm=st.sampled_from(NORMS), seed=st.integers(0, 10**6), negative=st.booleans())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_bounds_never_cross_for_any_candidate(norm, seed, negative):
    limit, rng = separable(norm, seed), np.random.default_rng(seed)
    p = rng.normal(size=limit.n_constraints) if negative else rng.exponential(size=limit.n_constraints)
    certificate = limit.certify(rng.normal(size=limit.shape), p if np.any(p > 0) else -p)
    assert certificate.lower <= certificate.upper + 2 * certificate.slack


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_enclose_the_optimum_of_a_solver_and_flag_a_corrupted_pair(norm, seed):
    limit = separable(norm, seed)
    best = solve(limit).certificate
    rng = np.random.default_rng(seed)
    for size in (1e-9, 1e-4, 1e-1):
        point = best.point + size * np.abs(best.point).max() * rng.normal(size=limit.shape)
        multipliers = best.multipliers.copy()
        multipliers[np.argmax(multipliers)] *= -1
        spoiled = limit.certify(point, multipliers)
        assert spoiled.lower <= best.upper + best.slack
        assert spoiled.upper >= best.lower - best.slack
        assert spoiled.n_clipped == 1
        assert spoiled.clipped_mass == pytest.approx(best.multipliers.max(), rel=1e-12)
        assert spoiled.gap > best.gap + 1e-3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("factor", [2.0**-500, 2.0**500])
def test_a_power_of_two_changes_no_digit(norm, factor):
    limit, rng = separable(norm, 1), np.random.default_rng(0)
    point, p = rng.normal(size=limit.shape), rng.exponential(size=limit.n_constraints)
    plain, scaled = limit.certify(point, p), changed(limit, factor=factor).certify(point * factor, p)
    assert (scaled.lower, scaled.upper, scaled.slack) == tuple(
        factor * value for value in (plain.lower, plain.upper, plain.slack)
    )
    assert scaled.gap == plain.gap
    np.testing.assert_array_equal(scaled.multipliers, plain.multipliers)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("factor", [1e-150, 1e150])
@pytest.mark.parametrize("given", [True, False])
def test_scale_of_data_point_and_multipliers_changes_no_gap(norm, factor, given):
    limit = separable(norm, 2)
    best = solve(limit).certificate
    p = best.multipliers if given else None
    plain = limit.certify(best.point, p)
    for other, point in ((changed(limit, factor=factor), best.point), (limit, best.point * factor)):
        scaled = other.certify(point, None if p is None else p * factor)
        # Rounding of the scaled data: a few units of the last place, magnified by |A| / gamma*.
        assert abs(scaled.gap - plain.gap) <= plain.relative_slack + scaled.relative_slack
        assert abs(other.margins(scaled.point).min() - 1) < 1e-12


@pytest.mark.parametrize("norm", ["frobenius", "nuclear"])
def test_rotated_coordinates_and_permuted_rows_change_no_bound(norm):
    limit, rng = separable(norm, 3), np.random.default_rng(0)
    left, right = limit.left, limit.right
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in limit.shape)
    order = rng.permutation(limit.n_constraints)
    point, p = rng.normal(size=limit.shape), rng.exponential(size=limit.n_constraints)
    plain = limit.certify(point, p)
    turned = MaxMargin(norm, left=(left @ U)[order], right=(right @ V)[order]).certify(U.T @ point @ V, p[order])
    assert turned.lower == pytest.approx(plain.lower, abs=plain.slack + turned.slack)
    assert turned.upper == pytest.approx(plain.upper, abs=plain.slack + turned.slack)


@pytest.mark.parametrize("norm", NORMS)
def test_margins_combination_and_norms_are_adjoint_and_dual(norm):
    limit, rng = separable(norm, 4), np.random.default_rng(0)
    point, p = rng.normal(size=limit.shape), rng.normal(size=limit.n_constraints)
    G = limit.combine(p)
    assert p @ limit.margins(point) == pytest.approx(np.vdot(G, point), rel=1e-12)
    assert np.vdot(G, point) <= limit.dual_norm_of(G) * limit.norm_of(point)
    for k in range(limit.n_constraints):
        one = limit.combine(np.eye(limit.n_constraints)[k])
        assert limit.sizes[k] == pytest.approx(limit.dual_norm_of(one), rel=1e-14)


# Closed forms.


@pytest.mark.parametrize(
    ("case", "power"),
    [
        *(("l1", 1), ("l2", 0.5), ("linf", 0), ("lp-1.3", 1 / 1.3), ("lp-4", 0.25), ("nuclear", 1), ("spectral", 0)),
        *(("frobenius", 0.5), ("schatten-1.5", 1 / 1.5), ("schatten-4", 0.25), ("nuclear of matrices", 1)),
        *(("spectral of matrices", 0), ("schatten-4 of matrices", 0.25), ("frobenius of matrices", 0.5)),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_constraint_per_axis(case, power, d):
    """The optimum is the vector of ones, or the identity: its size is d to the power 1/p."""
    eye, kind = np.eye(d), CASES[case][1]
    if kind == "rows":
        limit, point = stated(case, rows=eye), np.ones(d)
    else:
        arrays: dict[str, Any] = {"left": eye, "right": eye}
        arrays = arrays if kind == "factors" else {"rows": np.einsum("ki,kj->kij", eye, eye)}
        limit, point = stated(case, **arrays), eye
    for p in (np.ones(d), None):
        certificate = limit.certify(point, p)
        # A power and a sum of d numbers: a few units of the last place.
        assert certificate.lower == pytest.approx(d**-power, rel=1e-15)
        assert certificate.upper == pytest.approx(d**-power, rel=1e-15)
        assert certificate.multipliers_given is (p is not None)


def test_groups_and_frequencies_by_hand():
    limit = MaxMargin("group-l1", rows=[[3.0, 1.0, 4.0]], groups=np.array([7, -1, 7]))
    assert limit.norm_of([3, 1, 4]) == pytest.approx(6, rel=1e-15)
    assert limit.dual_norm_of([3, 1, 4]) == pytest.approx(5, rel=1e-15)
    # A constant has one frequency, of size sqrt(d); the unit impulse has all of them, of size 1 / sqrt(d).
    limit = MaxMargin("fourier-l1", rows=np.eye(4))
    assert limit.norm_of(np.ones(4)) == pytest.approx(2, rel=1e-15)
    assert limit.dual_norm_of(np.ones(4)) == pytest.approx(2, rel=1e-15)
    assert limit.norm_of([0, 1, 0, 0]) == pytest.approx(2, rel=1e-15)
    assert limit.dual_norm_of([0, 1, 0, 0]) == pytest.approx(0.5, rel=1e-15)
    plain = MaxMargin("fourier-l1", rows=np.eye(5), n_plain=1)
    assert plain.norm_of([0, 1, 0, 0, -3]) == pytest.approx(5, rel=1e-15)


# Intercepts.


@pytest.mark.parametrize("norm", NORMS)
def test_a_free_intercept_is_balanced_and_the_best_is_found(norm):
    limit, rng = separable(norm, 3, intercept="free"), np.random.default_rng(0)
    point, p = rng.normal(size=limit.shape), rng.exponential(size=limit.n_constraints)
    best = limit.certify(point, p)
    assert best.intercept_kind == "free"
    assert best.intercept is not None
    assert limit.labels is not None
    assert limit.labels @ best.multipliers == pytest.approx(0, abs=1e-15)
    for shift in (-0.1, 0.1):
        worse = limit.certify(best.point, p, intercept=best.intercept + shift)
        assert worse.lower < best.lower
        assert worse.upper == pytest.approx(best.upper, rel=1e-14)
    again = limit.certify(7 * best.point, p, intercept=7 * best.intercept)
    assert again.lower == pytest.approx(best.lower, rel=1e-13)


@pytest.mark.parametrize("norm", VECTORS)
def test_a_penalised_intercept_is_one_more_coordinate(norm):
    limit, rng = separable(norm, 3, intercept="penalised"), np.random.default_rng(0)
    w, b, p = rng.normal(size=limit.shape), 0.7, rng.exponential(size=limit.n_constraints)
    certificate = limit.certify(w, p, intercept=b)
    assert certificate.intercept_kind == "penalised"
    length = limit.norm_of(w)
    size = {"l2": np.hypot(length, b), "linf": max(length, b)}.get(norm, length + b)
    if limit.p is not None:
        size = (length**limit.p + b**limit.p) ** (1 / limit.p)
    assert limit.labels is not None
    # The same numbers by another road: a few units of the last place.
    assert certificate.lower == pytest.approx((limit.rows @ w + limit.labels * b).min() / size, rel=1e-13)
    assert certificate.upper >= limit.dual_norm_of(limit.combine(certificate.multipliers)) * (1 - 1e-15)
    assert certificate.upper >= abs(limit.labels @ certificate.multipliers)


def test_two_points_need_their_intercept():
    """x = 1 and x = 2 of unlike labels: no direction through the origin separates them, the intercept -1.5 does."""
    X, y = [[1.0], [2.0]], [-1, 1]
    for norm in ("l1", "l2", "linf", "group-l1"):
        groups = [0] if norm == "group-l1" else None
        free = MaxMargin.from_labels(norm, X, y, intercept="free", groups=groups).certify([1.0], [1, 1])
        assert (free.lower, free.upper, free.intercept) == (0.5, 0.5, -3.0)
        none = MaxMargin.from_labels(norm, X, y, groups=groups).certify([1.0], [2, 1])
        assert (none.lower, none.upper, none.intercept) == (-1.0, 0.0, None)


def test_rows_of_zeros_are_no_fault_with_an_intercept():
    free = MaxMargin.from_labels("l2", [[0.0], [2.0]], [-1, 1], intercept="free").certify([1.0], [1, 1])
    assert (free.lower, free.upper, free.intercept) == (1.0, 1.0, -1.0)


# Kinds of data.


@pytest.mark.parametrize("norm", VECTORS)
@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
def test_sparse_rows_are_the_same_problem(norm, intercept):
    dense = separable(norm, 5, intercept=intercept)
    sparse = dataclasses.replace(dense, rows=scipy.sparse.coo_array(dense.rows))
    rng = np.random.default_rng(0)
    point, p = rng.normal(size=dense.shape), rng.exponential(size=dense.n_constraints)
    b = None if intercept == "none" else 0.4
    here, there = dense.certify(point, p, intercept=b), sparse.certify(point, p, intercept=b)
    assert there.lower == pytest.approx(here.lower, rel=1e-13)
    assert there.upper == pytest.approx(here.upper, rel=1e-13)
    assert there.slack == pytest.approx(here.slack, rel=1e-2)
    np.testing.assert_allclose(sparse.sizes, dense.sizes, rtol=1e-14)


@pytest.mark.parametrize("norm", ["frobenius", "nuclear", "spectral", "schatten-4"])
def test_matrices_of_rank_one_are_the_same_problem_as_their_factors(norm):
    factors, rng = separable(norm, 6), np.random.default_rng(0)
    assert factors.left is not None
    assert factors.right is not None
    matrices = stated(norm, rows=np.einsum("ki,kj->kij", factors.left, factors.right))
    point, p = rng.normal(size=factors.shape), rng.exponential(size=factors.n_constraints)
    for multipliers in (p, None):
        here, there = factors.certify(point, multipliers), matrices.certify(point, multipliers)
        assert there.lower == pytest.approx(here.lower, rel=1e-12)
        assert there.upper == pytest.approx(here.upper, rel=1e-6)  # found multipliers: least squares of a Gram matrix
    np.testing.assert_allclose(matrices.sizes, factors.sizes, rtol=1e-14)


def test_arrays_of_other_libraries_are_taken_as_they_are():
    rows, point, p = np.array([[1.0, 2.0], [3.0, -1.0]]), [1.0, 1.0], [0.5, 0.5]
    plain = MaxMargin("l2", rows=rows).certify(point, p)
    frame = pandas.DataFrame(rows, columns=["a", "b"])
    for same in (frame, jnp.asarray(rows, dtype=jnp.float32), scipy.sparse.csc_matrix(rows), rows.tolist()):
        certificate = MaxMargin("l2", rows=same).certify(point, p)
        assert (certificate.lower, certificate.upper) == (plain.lower, plain.upper)
    X = scipy.sparse.csr_array(rows)
    labelled = MaxMargin.from_labels("l2", X, pandas.Series([1, -1]))
    np.testing.assert_array_equal(labelled.rows.toarray(), rows * [[1], [-1]])


def test_a_convex_modelling_tools_answer_is_taken_as_it_is():
    limit = separable("l1", 0)
    _, point, dual, _ = by_conic_solver(limit)
    # Clarabel ends at 1e-8; a column as it comes from `cp.Variable((d, 1))`, duals as a list of scalars.
    assert limit.certify(point, dual).gap < 1e-6
    assert limit.certify(point[:, None], list(dual[:, None])).gap < 1e-6
    assert message(lambda: limit.certify(None)) == "`point` is None: was the problem that it comes from solved?"  # pyright: ignore[reportArgumentType]


def test_the_gap_is_the_sum_of_stationarity_and_complementarity():
    limit, rng = separable("l2", 1), np.random.default_rng(0)
    best = solve(limit).certificate
    turned = limit.certify(best.point + 0.1 * rng.normal(size=limit.shape), best.multipliers)
    assert turned.gap == pytest.approx(turned.stationarity + turned.complementarity, rel=1e-12)
    # Multipliers on a constraint that is not active: complementarity alone, for the optimal point.
    spread = limit.certify(best.point, best.multipliers + 0.1)
    assert spread.complementarity > 1e-2
    assert best.stationarity < 1e-12
    assert np.all(best.multipliers[best.support] > 0)
    np.testing.assert_allclose(limit.margins(best.point)[best.support], 1, rtol=1e-12)


# Rounding.


def test_slack_bounds_the_rounding_error_against_exact_arithmetic():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(30):
        u, v = rng.integers(-(2**20), 2**20, size=30), rng.integers(-(2**20), 2**20, size=20)
        left, right = rng.integers(-(2**20), 2**20, size=(15, 30)), rng.integers(-(2**20), 2**20, size=(15, 20))
        # A rank-one point has nuclear norm |u| |v|, and integers of 20 bits multiply exactly.
        certificate = MaxMargin("nuclear", left=left, right=right).certify(np.outer(u, v), np.ones(15))
        exact_margins = [
            int(a @ u) * int(b @ v) for a, b in zip(left.astype(object), right.astype(object), strict=True)
        ]
        with localcontext() as context:
            context.prec = 60
            size = Decimal(int((u.astype(object) ** 2).sum()) * int((v.astype(object) ** 2).sum())).sqrt()
            error = abs(Decimal(certificate.lower) - Decimal(min(exact_margins)) / size)
        assert error <= Decimal(certificate.slack)
        worst = max(worst, float(error) / certificate.slack)
    # The bound is not idle either: some error reaches a thousandth of it.
    assert worst > 1e-3


def test_a_misclassifying_point_keeps_its_negative_margin():
    limit = MaxMargin("l2", rows=np.eye(2))
    certificate = limit.certify([-3.0, 4.0], [1.0, 1.0])
    assert certificate.lower == pytest.approx(-0.6, rel=1e-15)
    np.testing.assert_allclose(certificate.point, [-0.6, 0.8], rtol=1e-15)
    assert certificate.gap > 1


# Multipliers that are found.


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(4))
def test_a_point_alone_is_certified_to_the_accuracy_it_has(norm, seed):
    limit = separable(norm, seed)
    best = solve(limit).certificate
    exact = limit.certify(best.point)
    assert exact.gap < 1e-9  # exact points: the active rows and the rank are unmistakable
    rng = np.random.default_rng(seed)
    near = best.point + 1e-10 * np.abs(best.point).max() * rng.normal(size=limit.shape)
    assert limit.certify(near).gap < 1e-5  # stated in `certify`: typically 1e-7
    assert not exact.multipliers_given


def test_a_wrong_point_alone_is_not_certified():
    limit = separable("nuclear", 0)
    frobenius = solve(MaxMargin("frobenius", left=limit.left, right=limit.right)).certificate.point
    assert limit.certify(frobenius).gap > 1e-2


# Rank and support.


def test_a_tiny_gap_is_no_proof_of_rank():
    """diag(1, 0) has gap 1e-14 for A1 = diag(1, 0), A2 = diag(1 - 1e-7, 1), whose optimum has rank two.

    A2 is not of rank one, so the example stands here in l1, where diagonal matrices are vectors.
    """
    e = 1e-7
    limit = MaxMargin("l1", rows=np.array([[1.0, 0.0], [1 - e, 1.0]]))
    best = solve(limit).certificate
    certificate = limit.certify([1.0, 0.0], best.multipliers)
    assert 0 < certificate.gap < 2e-14
    assert certificate.delta_rank is None
    assert best.delta_rank is None
    assert np.all(best.point > 0)


@pytest.mark.parametrize("norm", ["l1", "l2", "frobenius", "nuclear", "nuclear of matrices"])
def test_delta_rank_holds_for_the_optimum_and_is_the_smallest_proved(norm):
    limit = separable(norm, 5, n_constraints=6, d=9)
    best = solve(limit).certificate
    values = np.sort(np.abs(best.point))[::-1] if best.point.ndim == 1 else np.linalg.svd(best.point, compute_uv=False)
    rough = limit.certify(best.point + 1e-7 * np.abs(best.point).max(), best.multipliers)
    for certificate, delta in ((best, 1e-3), (rough, 1e-3), (best, 0.5), (best, 0.9)):
        again = limit.certify(certificate.point, certificate.multipliers, delta=delta).delta_rank
        if again is None:
            assert delta < 0.5
            continue
        assert 1 <= again.rank < len(values)
        assert again.delta <= delta
        tail = values[again.rank :]
        share = (
            tail.sum() / values.sum()
            if norm not in ("l2", "frobenius")
            else np.linalg.norm(tail) / np.linalg.norm(values)
        )
        assert share <= again.delta
    ranks = [limit.certify(best.point, best.multipliers, delta=delta).delta_rank for delta in (0.9, 0.5)]
    assert ranks[0] is not None
    assert ranks[1] is not None
    assert ranks[0].rank <= ranks[1].rank


def test_nuclear_optimum_has_low_delta_rank_and_full_dimension_is_not_reported():
    limit = separable("nuclear", 6, n_constraints=8, d=9)
    best = solve(limit).certificate
    sizes = np.linalg.svd(best.point, compute_uv=False)
    assert best.delta_rank is not None
    assert best.delta_rank.rank == (sizes > 1e-9 * sizes[0]).sum() < min(limit.shape)
    assert best.delta_rank.delta < 1e-9
    identity = MaxMargin("nuclear", left=np.eye(3), right=np.eye(3)).certify(np.eye(3), np.ones(3))
    assert identity.gap < 1e-15
    assert identity.delta_rank is None


@pytest.mark.parametrize("norm", [case for case, (_, kind, _) in CASES.items() if kind != "factors"])
def test_extended_precision_bounds_what_double_precision_blurs(norm):
    """Inputs 1e6 away from the origin: the same margins, which products in double precision know to 1e-9 at best."""
    near = separable(norm, 3, intercept="free")
    assert near.labels is not None
    best = solve(near).certificate
    y = near.labels.reshape(-1, *[1] * (near.rows.ndim - 1))
    far = dataclasses.replace(near, rows=near.rows + y * 2.0**20)
    certificate = far.certify(best.point, best.multipliers)
    # The rows at 2^20 are rounded to 2^-33 of their size, the intercept as well.
    assert certificate.slack < 1e-11
    assert certificate.lower == pytest.approx(best.lower, rel=1e-8)
    assert certificate.upper == pytest.approx(best.upper, rel=1e-8)
    proven = prove(far, certificate.point, certificate.multipliers, certificate.intercept)
    assert proven.lower == pytest.approx(certificate.lower, abs=certificate.slack)
    assert proven.upper == pytest.approx(certificate.upper, abs=certificate.slack)


def test_factors_are_never_multiplied_out():
    rng = np.random.default_rng(0)
    n_constraints, d = 400, 100
    limit = MaxMargin("nuclear", left=rng.normal(size=(n_constraints, d)), right=rng.normal(size=(n_constraints, d)))
    tracemalloc.start()
    limit.certify(rng.normal(size=(d, d)), np.ones(n_constraints))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The full array would be 32 MB; a few of size N d are 0.3 MB each.
    assert peak < 4e6


# Bad input.


def message(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    return str(caught.value)


ROWS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: MaxMargin("l3", rows=ROWS),
            "`norm` must be one of fourier-l1, frobenius, group-l1, l1, l2, linf, lp, nuclear, schatten, spectral; "
            "got 'l3'.",
        ),
        (
            lambda: MaxMargin("frobenius", rows=ROWS),
            "'frobenius' is a norm of matrices, and `rows` of shape (2, 2) are vectors; you probably mean 'l2'.",
        ),
        (
            lambda: MaxMargin("schatten", rows=ROWS, p=3),
            "'schatten' is a norm of matrices, and `rows` of shape (2, 2) are vectors; you probably mean 'lp'.",
        ),
        (
            lambda: MaxMargin("spectral", rows=ROWS),
            "'spectral' is a norm of matrices, and `rows` of shape (2, 2) are vectors; you probably mean 'linf'.",
        ),
        (
            lambda: MaxMargin("l2", left=ROWS, right=ROWS),
            "'l2' is a norm of vectors, and `left` with `right` are matrices; you probably mean 'frobenius'.",
        ),
        (
            lambda: MaxMargin("l1", rows=ROWS[None]),
            "'l1' is a norm of vectors, and `rows` of shape (1, 2, 2) are matrices; you probably mean 'nuclear'.",
        ),
        (
            lambda: MaxMargin("l2"),
            "Pass `rows` of shape (N, d) or (N, d1, d2), or `left` of shape (N, d1) and `right` of shape (N, d2); "
            "got neither.",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS),
            "Pass `rows` of shape (N, d) or (N, d1, d2), or `left` of shape (N, d1) and `right` of shape (N, d2); "
            "got `left`.",
        ),
        (
            lambda: MaxMargin("lp", rows=ROWS),
            "The norm 'lp' needs `p`, a number above 1; got none.",
        ),
        (
            lambda: MaxMargin("lp", rows=ROWS, p=1),
            "`p` must be above 1 and finite; got 1. For 1 take 'l1', for infinity 'linf'.",
        ),
        (
            lambda: MaxMargin("schatten", rows=ROWS[None], p=np.inf),
            "`p` must be above 1 and finite; got inf. For 1 take 'nuclear', for infinity 'spectral'.",
        ),
        (
            lambda: MaxMargin("lp", rows=ROWS, p="3"),  # pyright: ignore[reportArgumentType]
            "`p` must be a number above 1; got '3'.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS, p=2),
            "The norm 'l2' takes no `p`; got 2. Norms with `p` are 'lp' and 'schatten'.",
        ),
        (
            lambda: MaxMargin("group-l1", rows=ROWS),
            "The norm 'group-l1' needs `groups`: one integer label for each column; got none.",
        ),
        (
            lambda: MaxMargin("group-l1", rows=ROWS, groups=[1]),  # pyright: ignore[reportArgumentType]
            "`groups` must hold one label for each of the 2 columns; got shape (1,).",
        ),
        (
            lambda: MaxMargin("group-l1", rows=ROWS, groups=[1.0, 2.0]),  # pyright: ignore[reportArgumentType]
            "`groups` must hold integers, one for each column; got an array of float64.",
        ),
        (
            lambda: MaxMargin("l1", rows=ROWS, groups=[1, 2]),  # pyright: ignore[reportArgumentType]
            "The norm 'l1' takes no `groups`; you probably mean 'group-l1'.",
        ),
        (
            lambda: MaxMargin("fourier-l1", rows=ROWS, n_plain=2),
            "`n_plain` must be an integer from 0 to d - 1 = 1; got 2.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS, intercept="yes"),
            "`intercept` must be one of none, free, penalised; got 'yes'.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS, intercept="free"),
            "intercept='free' needs `labels`: +1 or -1 for each of the constraints.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS, labels=np.ones(2)),
            "`labels` belong to an intercept; pass intercept='free' or 'penalised', or no labels.",
        ),
        (
            lambda: MaxMargin("nuclear", rows=ROWS[None], intercept="penalised", labels=np.ones(1)),
            "A penalised intercept is a coordinate of a vector, and 'nuclear' is a norm of matrices; "
            "take intercept='free' or 'none'.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [1, 1], intercept="free"),
            "With a free intercept both labels must occur; all 2 are +1, and the margin has no bound: "
            "the intercept alone separates them.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [0, 1]),
            "`y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1); for labels in {0, 1} pass `2 * y - 1`.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [1]),
            "`y` must hold one label for each of the 2 rows of `X`; got shape (1,).",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, 1.0], intercept=2),
            "`intercept` is 2, but the problem has none; state it with intercept='free' or 'penalised'.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [1, -1], intercept="penalised").certify([1.0, 1.0]),
            "`intercept` is missing: with a penalised intercept it is part of the candidate.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [1, -1], intercept="free").certify([1.0, 1.0], intercept=np.nan),
            "`intercept` must be finite; got nan.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [1, -1], intercept="free").certify([1.0, 1.0], intercept=1e200),
            "`intercept` is 1e+200, so large beside the point that its margins leave double precision.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, [1, -1], intercept="free").certify([1.0, 1.0], [0.0, 1.0]),
            "`multipliers` have positive entries on one label only; a free intercept needs some on both. "
            "To have them found from the point, pass None.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, 1.0], delta=-1),
            "`delta` must lie in [0, 1); got -1.",
        ),
        (
            lambda: MaxMargin("l2", rows=np.ma.masked_array(ROWS, ROWS > 3)),
            "`rows` is a masked array; drop or fill what is masked first.",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([[2**53 + 1, 1]])),
            "`rows` has integers beyond 2**53 that no double holds; rescale it or round it yourself.",
        ),
        (
            lambda: MaxMargin.from_labels("l2", ROWS, np.ma.masked_array([1, -1], [True, False]), intercept="free"),
            "`y` is a masked array; drop or fill what is masked first.",
        ),
        (
            lambda: MaxMargin("group-l1", rows=ROWS, groups=np.ma.masked_array([1, 2], [True, False])),
            "`groups` is a masked array; every column needs a label.",
        ),
        (
            lambda: MaxMargin("fourier-l1", rows=ROWS, n_plain=1.0),  # pyright: ignore[reportArgumentType]
            "`n_plain` must be an integer from 0 to d - 1 = 1; got 1.0.",
        ),
        (
            lambda: MaxMargin("lp", rows=ROWS, p=10**400),
            f"`p` must be above 1 and finite; got {10**400}. For 1 take 'l1', for infinity 'linf'.",
        ),
        (
            lambda: MaxMargin("l2", rows=scipy.sparse.csr_array([[1.0, np.nan]])),
            "`rows.data[1]` is nan; every entry must be finite.",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS, right=ROWS[:1]),
            "`left` and `right` must have one row per constraint each; got shapes (2, 2) and (1, 2).",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([1.0, 2.0])),
            "`rows` must have shape (N, d) or (N, d1, d2) and at least one entry; got (2,).",
        ),
        (
            lambda: MaxMargin("l2", rows=np.zeros((0, 3))),
            "`rows` must have shape (N, d) or (N, d1, d2) and at least one entry; got (0, 3).",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([[1.0, np.nan]])),
            "`rows[0, 1]` is nan; every entry must be finite.",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([[1j, 2.0]])),
            "`rows` has complex entries (complex128); it must be real: pass `rows.real` if that is meant.",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS * 1e-200, right=ROWS * 1e-200),
            "The constraints are of size 2**-1324; their bounds leave double precision. "
            "Multiply the data, to a size from 2**-1000 to 2**1000.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([0.0, 0.0]),
            "`point` is zero, which has no direction and no margin; pass a non-zero point.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, np.inf]),
            "`point[1]` is inf; every entry must be finite.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, 2.0, 3.0]),
            "`point` must have shape (2,); got (3,).",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS, right=ROWS).certify(np.ones((3, 2))),
            "`point` must have shape (2, 2); got (3, 2).",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, 1.0], [1.0, 2.0, 3.0]),
            "`multipliers` must have shape (2,); got (3,).",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, 1.0], [-1.0, -2.0]),
            "`multipliers` have no positive entry (largest: -1.0); at least one must be positive. "
            "To have them found from the point, pass None.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).margins([1.0]),
            "`point` must have shape (2,); got (1,).",
        ),
    ],
)
def test_bad_input_is_named(call, text):
    assert message(call) == text


def test_the_limit_keeps_its_own_read_only_copy():
    rows = ROWS.copy()
    limit = MaxMargin("l2", rows=rows)
    assert limit.rows is not None
    rows[0, 0] = 100
    assert limit.rows[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        limit.rows[0, 0] = 2


def test_slack_covers_the_margin_of_a_point_whatever_the_multipliers_are():
    """A point that misclassifies a large row: its margin is rounded at that size, the upper bound at the small one."""
    rng, n_rounded = np.random.default_rng(0), 0
    for _ in range(20):
        limit = MaxMargin("l1", rows=[[1e8 * rng.normal(), 1e8 * rng.normal()], [1e-3, 0.0]])
        found = limit.certify(rng.normal(size=2), [0.0, 1.0])
        own = exact_margin(limit, found.point, None)
        with ctx.workprec(200):
            assert arb(found.lower) - arb(found.slack) <= own <= arb(found.lower) + arb(found.slack)
            n_rounded += abs(arb(found.lower) - own) > arb(1e-17)
    assert n_rounded > 0


@pytest.mark.parametrize("off", [0.0, 2.0**-52, 2.0**-50, 2.0**-45])
def test_multipliers_cancel_or_do_not(off):
    """Rows (1, 1) and (-1, -1 + off): equal weights cancel for `off = 0` alone; the best others leave half of it."""
    limit = MaxMargin("l2", rows=[[1.0, 1.0], [-1.0, -1.0 + off]])
    refined = cancelling(limit, np.array([0.5, 0.5]))
    assert (refined is None) == (off > 0)
    if refined is not None:
        np.testing.assert_array_equal(refined, [0.5, 0.5])
