"""The certificate: bounds that hold for any candidate, exact where the answer is known, no credit that is not due."""

import tracemalloc
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.limits import MaxMargin
from omegalimit.solvers import solve

NORMS = ("l1", "l2", "frobenius", "nuclear")


def separable(norm, seed, *, n_constraints=12, d=7):
    """A problem with a planted point of positive margin, so that the maximum margin is positive."""
    rng = np.random.default_rng(seed)
    if norm in ("l1", "l2"):
        rows, planted = rng.normal(size=(n_constraints, d)), rng.normal(size=d)
        return MaxMargin(norm, rows=rows * np.sign(rows @ planted)[:, None])
    left, right = rng.normal(size=(n_constraints, d)), rng.normal(size=(n_constraints, d - 2))
    signs = np.sign(np.einsum("ki,ij,kj->k", left, rng.normal(size=(d, d - 2)), right))
    return MaxMargin(norm, left=left * signs[:, None], right=right)


def rescaled(limit, factor):
    if limit.rows is not None:
        return MaxMargin(limit.norm, rows=limit.rows * factor)
    return MaxMargin(limit.norm, left=limit.left * factor, right=limit.right)


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
    plain, scaled = limit.certify(point, p), rescaled(limit, factor).certify(point * factor, p)
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
    for other, point in ((rescaled(limit, factor), best.point), (limit, best.point * factor)):
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


@pytest.mark.parametrize(("norm", "power"), [("l1", 1), ("l2", 0.5), ("frobenius", 0.5), ("nuclear", 1)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_constraint_per_axis(norm, power, d):
    eye = np.eye(d)
    limit = MaxMargin(norm, rows=eye) if norm in ("l1", "l2") else MaxMargin(norm, left=eye, right=eye)
    point = np.ones(d) if norm in ("l1", "l2") else eye
    for p in (np.ones(d), None):
        certificate = limit.certify(point, p)
        assert certificate.lower == pytest.approx(d**-power, rel=1e-15)
        assert certificate.upper == pytest.approx(d**-power, rel=1e-15)
        assert certificate.multipliers_given is (p is not None)


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


@pytest.mark.parametrize("norm", NORMS)
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
            tail.sum() / values.sum() if norm in ("l1", "nuclear") else np.linalg.norm(tail) / np.linalg.norm(values)
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
            "`norm` must be one of frobenius, l1, l2, nuclear; got 'l3'.",
        ),
        (
            lambda: MaxMargin("frobenius", rows=ROWS),
            "The norm 'frobenius' does not go with vector rows, whose norms are l1 and l2; you probably mean 'l2'.",
        ),
        (
            lambda: MaxMargin("nuclear", rows=ROWS),
            "The norm 'nuclear' does not go with vector rows, whose norms are l1 and l2; you probably mean 'l1'.",
        ),
        (
            lambda: MaxMargin("l2", left=ROWS, right=ROWS),
            "The norm 'l2' does not go with factors, whose `W` is a matrix; you probably mean 'frobenius'.",
        ),
        (
            lambda: MaxMargin("l1", left=ROWS, right=ROWS),
            "The norm 'l1' does not go with factors, whose `W` is a matrix; you probably mean 'nuclear'.",
        ),
        (
            lambda: MaxMargin("l2"),
            "Pass `rows` of shape (N, d), or `left` of shape (N, d1) and `right` of shape (N, d2); got neither.",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS),
            "Pass `rows` of shape (N, d), or `left` of shape (N, d1) and `right` of shape (N, d2); got `left`.",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS, right=ROWS[:1]),
            "`left` and `right` must have one row per constraint each; got shapes (2, 2) and (1, 2).",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([1.0, 2.0])),
            "`rows` must have two dimensions and at least one entry; got shape (2,).",
        ),
        (
            lambda: MaxMargin("l2", rows=np.zeros((0, 3))),
            "`rows` must have two dimensions and at least one entry; got shape (0, 3).",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([[1.0, np.nan]])),
            "`rows` must be finite; entry [0, 1] is nan.",
        ),
        (
            lambda: MaxMargin("l2", rows=np.array([[1j, 2.0]])),
            "`rows` must hold real numbers; got an array of complex128.",
        ),
        (
            lambda: MaxMargin("nuclear", left=ROWS * 1e-200, right=ROWS * 1e-200),
            "The constraints are of size 2**-1324, which leaves double precision; rescale the data.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([0.0, 0.0]),
            "`point` is zero, which has no direction and no margin; pass a non-zero point.",
        ),
        (
            lambda: MaxMargin("l2", rows=ROWS).certify([1.0, np.inf]),
            "`point` must be finite; entry [1] is inf.",
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
