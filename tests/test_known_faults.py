"""Faults that people meet in today's tools, and kinds of data that provoke them: the right value and its reason."""

import dataclasses
import math
import os
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest
from sklearn.svm import LinearSVC

import omegalimit as ol
from _margins import CASES, VECTORS, attention, by_conic_solver, s40, stated
from omegalimit.flows.separable_descent import DescentEnding, separable_descent, smoothness
from omegalimit.flows.separable_flow import SeparableEnding, separable_flow
from omegalimit.limits import MaxMargin
from omegalimit.limits.face import optimal_face
from omegalimit.rigorous import prove
from omegalimit.solvers import solve

# A huge penalty is not the hard margin.


def test_a_soft_margin_with_a_huge_penalty_is_told_from_the_hard_one():
    """Forty points: the margin is 0.4602. A squared hinge with C = 1e9 ends 1.9 percent below, and says nothing."""
    limit = MaxMargin("l2", rows=s40())
    best = solve(limit).certificate
    assert best.gap <= 1e-12
    assert best.lower == pytest.approx(0.4602, abs=5e-5)
    # What holds the solution is active, and nothing lies inside the margin.
    np.testing.assert_allclose(s40()[best.support] @ best.point, 1, rtol=1e-12)
    y = np.where(np.arange(40) % 2 == 0, 1, -1)
    soft = LinearSVC(C=1e9, fit_intercept=False, random_state=0, max_iter=10**5).fit(s40() * y[:, None], y)
    judged = limit.certify(soft.coef_[0], best.multipliers)
    assert 0.01 < judged.gap < 0.03
    assert judged.lower < best.lower - best.slack


# Interior points explode, first-order methods stop early.


@pytest.mark.parametrize("d", [16, 64, 128, 256])
def test_nuclear_attention_problems_are_certified(d):
    """Interior points of convex modelling tools need minutes at d = 64; first-order ones call a gap of 1e-4 optimal."""
    left, right = attention(d // 2, 4, d)
    limit = MaxMargin("nuclear", left=left, right=right)
    solution, rough = solve(limit), solve(limit, polish=False)
    assert solution.status == "optimal"
    assert solution.certificate.gap <= 1e-12
    # The rounding of either bound, some hundred units in the last place of sums of 256 products over a margin of 0.016.
    assert solution.certificate.relative_slack <= 3e-12
    assert rough.status == "optimal"
    assert rough.certificate.gap <= 1e-8


def test_the_word_optimal_is_no_evidence():
    """A first-order method's own status is `optimal`; the bounds that its answer proves are 1e-5 apart or more."""
    left, right = attention(32, 4, 64)
    limit = MaxMargin("nuclear", left=left, right=right)
    W = cp.Variable(limit.shape)
    constraint = cp.sum(cp.multiply(left @ W, right), axis=1) >= 1
    assert isinstance(constraint, cp.Constraint)
    problem = cp.Problem(cp.Minimize(cp.normNuc(W)), [constraint])
    problem.solve(solver="SCS")
    assert problem.status == "optimal"
    theirs = limit.certify(W.value, constraint.dual_value)  # pyright: ignore[reportArgumentType]
    ours = solve(limit).certificate
    assert theirs.gap > 1e-5
    assert ours.gap < 1e-12
    assert theirs.lower < ours.lower < ours.upper < theirs.upper


@pytest.mark.parametrize("which", ["forty points", "nuclear"])
def test_a_spoiled_answer_is_told_from_the_answer(which):
    """A rival's answer is good to 1e-6; moved by 1e-4, or with one multiplier's sign turned, it no longer is."""
    left, right = attention(8, 4, 16)
    limit = MaxMargin("l2", rows=s40()) if which != "nuclear" else MaxMargin("nuclear", left=left, right=right)
    _, point, dual, _ = by_conic_solver(limit)
    honest = limit.certify(point, dual)
    assert honest.gap < 1e-6
    rng = np.random.default_rng(0)
    moved = point + 1e-4 * np.linalg.norm(point) * rng.normal(size=point.shape) / np.sqrt(point.size)
    turned = dual.copy()
    turned[np.argmax(turned)] *= -1
    judged = limit.certify(moved, dual)
    assert 1e-6 < judged.gap < 1e-2
    assert judged.lower < honest.lower
    assert judged.upper == honest.upper  # the bound from the multipliers does not depend on the point
    judged = limit.certify(point, turned)
    assert judged.gap > 1e-3
    assert judged.n_clipped == 1
    assert judged.lower == honest.lower
    assert prove(limit, moved, turned).gap > 1e-3


# Nearly touching long hulls with a free intercept.


@pytest.mark.parametrize(
    ("case", "size"),
    [("l1", 7), ("l2", 5), ("linf", 4), ("lp-4", (3**4 + 4**4) ** 0.25), ("lp-1.3", (3**1.3 + 4**1.3) ** (1 / 1.3))],
)
@pytest.mark.parametrize("length", [10, 10**3, 10**6])
def test_long_hulls_that_nearly_touch(case, size, length):
    """Points on two parallel lines along (4, 3), 5 apart: the direction is (-3, 4), whatever the norm.

    Both hulls reach far beyond the other's points, so that any other direction is blocked; the lines differ by
    <(-3, 4), (-3, 4)> = 25 along it, and the margin is half of that over the norm of (-3, 4).
    """
    along, across, steps = np.array([4, 3]), np.array([-3, 4]), np.arange(-20, 21)
    X = np.vstack([length * np.outer(steps, along) + across, length * np.outer(steps, along) + 0 * across])
    y = np.repeat([1, -1], len(steps))
    norm, _, extra = CASES[case]
    limit = MaxMargin.from_labels(norm, X, y, intercept="free", **extra)
    solution = solve(limit)
    found = solution.certificate
    # A point in doubles can be as good as 1e-16 times the length of the hull over its distance.
    assert solution.status == "optimal" if length < 10**6 else solution.status in ("optimal", "stalled")
    assert found.lower - found.slack <= 12.5 / size <= found.upper + found.slack
    assert found.gap <= max(1e-12, 1e-15 * 100 * length)
    assert found.slack < 4e-15 * 100 * length  # eps (2 + sqrt(N)) times the longest row, or less
    assert found.intercept == pytest.approx(-found.point @ across / 2, rel=1e-6)


# Duplicated and opposite columns.


@pytest.mark.parametrize("sign", [1, -1])
def test_a_repeated_column_leaves_the_margin_and_takes_the_uniqueness(sign):
    """With column 3 once more (or its opposite) any split of its weight has the same l1 norm; in l2 the halves do."""
    rows = s40()
    twice = np.column_stack([rows, sign * rows[:, 3]])
    limit = MaxMargin("l1", rows=twice)
    once, both = solve(MaxMargin("l1", rows=rows)).certificate, solve(limit).certificate
    assert both.lower == pytest.approx(once.lower, rel=1e-12)
    assert both.gap <= 1e-12
    assert once.point[3] != 0
    split = np.append(once.point, 0.0)
    split[3], split[10] = 0.25 * once.point[3], sign * 0.75 * once.point[3]
    assert limit.certify(split, both.multipliers).gap <= 1e-12
    face = optimal_face(limit, both)
    assert face.unique is False
    assert face.dimension == 1
    assert face.other is not None
    assert limit.certify(face.other, both.multipliers).gap <= 1e-12
    assert optimal_face(MaxMargin("l1", rows=rows), once).unique is True
    halves = solve(MaxMargin("l2", rows=twice)).certificate
    assert halves.point[3] == pytest.approx(sign * halves.point[10], rel=1e-9)
    assert optimal_face(MaxMargin("l2", rows=twice), halves).unique is True


def test_a_tie_and_a_near_tie_are_told_apart():
    tie, near = MaxMargin("l1", rows=[[1.0, 1.0]]), MaxMargin("l1", rows=[[1.0, 1 - 1e-9]])
    assert optimal_face(tie, solve(tie).certificate).unique is False
    assert optimal_face(near, solve(near).certificate).unique is not False
    assert solve(near).certificate.point[1] == 0


# Tiny sets whose margin needs the intercept.


@pytest.mark.parametrize("case", VECTORS)
def test_three_points_on_a_line_need_the_intercept(case):
    """x = 0, 1 against x = 3: the margin is 1 about the middle 2. Through the origin x = 0 has none."""
    norm, _, extra = CASES[case]
    extra = {**extra, "groups": [0]} if norm == "group-l1" else extra
    X, y = [[0.0], [1.0], [3.0]], [-1, -1, 1]
    free = solve(MaxMargin.from_labels(norm, X, y, intercept="free", **extra))
    assert free.status == "optimal"
    assert free.certificate.lower == pytest.approx(1, rel=1e-14)
    assert free.certificate.intercept == pytest.approx(-2, rel=1e-14)
    assert list(free.certificate.support) == [1, 2]
    none = solve(MaxMargin.from_labels(norm, X, y, **extra))
    assert none.status == "not separable"
    assert none.farkas is not None
    assert none.farkas[0] == 1  # the zero row
    assert "row 0 is zero" in none.reason


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
def test_two_points_far_from_the_origin(offset):
    """Half their distance, 2.5, wherever they are. A penalised intercept pays for the offset: the height 4 is left."""
    X, y = np.array([[offset, 0.0], [offset + 3, 4.0]]), [-1, 1]
    found = solve(MaxMargin.from_labels("l2", X, y, intercept="free")).certificate
    assert found.lower - found.slack <= 2.5 <= found.upper + found.slack
    assert found.gap <= max(1e-12, 1e-16 * offset)  # a double holds the intercept no better
    if offset:
        penalised = solve(MaxMargin.from_labels("l2", X, y, intercept="penalised")).certificate
        assert penalised.upper == pytest.approx(2, rel=2e-3)


# Nearly contradictory data.


@pytest.mark.parametrize("case", VECTORS)
@pytest.mark.parametrize("margin", [1e-3, 1e-6])
def test_nearly_contradictory_rows_have_the_margin_that_they_have(case, margin):
    """Rows +-e1 + margin e2 on the line between them: the point must be e2, of margin `margin` over |e2|."""
    d = 4
    rows = np.zeros((2, d))
    rows[:, 0], rows[:, 1] = [1, -1], margin
    limit = stated(case, rows=rows)
    solution = solve(limit)
    truth = margin * limit.dual_norm_of(np.eye(d)[1])
    assert solution.status == "optimal"
    assert solution.certificate.lower == pytest.approx(truth, abs=4 * solution.certificate.slack + 1e-8 * truth)


def test_a_zero_row_is_named_and_an_intercept_excuses_it():
    limit = MaxMargin.from_labels("l2", [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]], [1, -1, -1])
    solution = solve(limit)
    assert solution.status == "not separable"
    assert solution.reason == "rows 1, 2 are zero, so that no point has a positive margin there."
    assert solve(dataclasses.replace(limit, intercept="free", labels=np.array([1.0, -1, -1]))).status == "optimal"


# Loss and gradient become exactly zero.


@pytest.mark.parametrize("gap", [20, 100, 104, 120, 740, 760])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_loss_and_gradient_are_right_at_any_logit_gap_and_training_goes_on(loss, dtype, gap):
    """One row of length one, w along it at margin `gap`: plain single precision has a gradient of zero from 104 on.

    The margin of the flow is known: e^m = e^gap + t for the exponential loss, m + e^m = gap + e^gap + t for the
    logistic one.
    """
    row = np.array([[0.75, 1.0]], dtype=dtype) * dtype(0.8)
    unit = row[0].astype(float) / np.linalg.norm(row[0].astype(float))
    start = (gap / np.linalg.norm(row.astype(float)) * unit).astype(dtype)
    margin = float(row[0].astype(float) @ start.astype(float))
    flow = separable_flow(row, loss=loss, start=start, until_log_time=gap + 5.0)
    path = flow.path
    # log l = log(-l') = -m, up to e^-m for the logistic loss.
    assert path.log_loss[0] == pytest.approx(-margin, abs=2e-9)
    assert path.log_gradient[0] == pytest.approx(-margin, abs=3e-9 + 1e-7 * (dtype is np.float32))
    np.testing.assert_allclose(path.pull[0], unit, rtol=1e-15)
    assert path.turning_speed[0] <= 1e-6  # the start in single precision is that far off the row
    assert flow.ending is SeparableEnding.TIME_REACHED
    left = path.margins[:, 0] + (
        np.log1p(path.margins[:, 0] * np.exp(-path.margins[:, 0])) if loss == "logistic" else 0
    )
    whole = margin + (math.log1p(margin * math.exp(-margin)) if loss == "logistic" else 0)
    squared = 2 * math.log(np.linalg.norm(row.astype(float)))
    np.testing.assert_allclose(left, np.logaddexp(whole, flow.log_time + squared), atol=1e-7)
    assert path.margins[-1, 0] > gap + 4.9


@pytest.mark.parametrize(("gap", "stalls"), [(20, False), (104, False), (700, False), (740, True), (760, True)])
def test_a_step_that_is_zero_in_doubles_says_so_and_the_flow_goes_on(gap, stalls):
    """At 104 a step is 1e-45 and carried on; at 740 it is zero in doubles, and neither made nor called convergence."""
    row = np.array([[0.6, 0.8]])
    run = separable_descent(row, step_size=1.0, n_steps=1000, start=gap * row[0])
    assert run.ending is (DescentEnding.STALLED if stalls else DescentEnding.STEPS_MADE)
    assert run.stalled_at == (0 if stalls else None)
    assert run.path.log_loss[-1] == pytest.approx(-gap, abs=1e-5)
    # The margin that descent has after e^(gap + 5) steps of size one.
    later = run.extended(gap + 5.0).flow
    assert later.path.margins[-1, 0] == pytest.approx(gap + 5 + math.log1p(math.exp(-5)), abs=1e-5)


# Separable logistic regression has no minimiser.


def test_a_million_steps_miss_the_limit_by_what_the_law_says():
    """Forty points: after 1e6 steps 1 - cos is 4.1e-3 and the margin 4.0 percent low; nothing has gone wrong."""
    rows = s40()
    best = solve(MaxMargin("l2", rows=rows)).certificate
    assert best.gap <= 1e-12
    u = best.point / np.linalg.norm(best.point)
    run = separable_descent(rows, step_size=1 / smoothness(rows), n_steps=10**6)
    assert run.ending is DescentEnding.STEPS_MADE
    angle = run.path.angle_to(u)[-1]
    assert 1 - math.cos(angle) == pytest.approx(4.1e-3, abs=5e-5)
    assert 1 - (rows @ run.direction[-1]).min() / best.lower == pytest.approx(0.040, abs=5e-4)
    # Angle times log t tends to C = gamma |lim w_perp|; at log t = 14 the radius is off log(t)/gamma by a constant.
    flow = separable_flow(rows, until_log_time=1e4)
    C = best.lower * np.linalg.norm(flow.path.perpendicular(u)[-1])
    assert flow.path.angle_to(u)[-1] * 1e4 == pytest.approx(C, rel=1e-3)
    assert angle * run.log_time[-1] == pytest.approx(C, rel=0.25)
    # How many steps would do for 0.01 rad: e^109, with an error.
    needed = run.extended(1e3).hitting(u, [0.01])
    assert needed.log_steps[0] == pytest.approx(C / 0.01, rel=0.05)
    assert needed.error[0] < 1e-3


TIE = """
import sys
import numpy as np
import omegalimit as ol

kind = np.dtype(sys.argv[1])
X, y = np.array([[1, 1]], kind), np.array([1], kind)
shape = np.array([[1.0, 1.0], [1.0 + 1e-8, 1.0 + 1e-8]])  # u = v = 1e-8, and 1e-16 more in the second
flow = ol.diagonal_flow(ol.PowerDifference(2), X, y, shape=shape, log_s=np.log(1e-8))
path = ol.saddle_path(ol.SaddlePath(X, y))
print([float(k).hex() for k in flow.limit], path.unique.tolist())
"""


def said_with(threads: str, script: str, *arguments: str) -> str:
    """What a Python of its own prints when its numerical libraries are given so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
    environment = {**os.environ, **dict.fromkeys(names, threads)}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_selected_solution_does_not_depend_on_threads_or_dtype():
    """Two equal features, started 1e-16 apart: every thread count and dtype of data gives the same bits, and the tie.

    Both features grow by the same factor, so `k_2 / k_1` stays what it was, `(1 + 1e-8)^2`, and they end 1e-8 apart.
    """
    (said,) = {said_with(threads, TIE, kind) for threads in ("1", "2") for kind in ("float64", "float32", "int32")}
    limit, unique = said.strip().strip("[]").split("] [")
    first, second = (float.fromhex(word.strip("' ")) for word in limit.split(","))
    assert second - first == pytest.approx(1e-8, rel=1e-6)  # the flow's own error, 1e-11 of k, hits both alike
    assert abs(first + second - 1) < 1e-10  # the flow ends at its own tolerance
    assert unique.split(", ")[-1] == "False"  # the tie is told


@pytest.mark.parametrize(("kind", "apart"), [(np.float32, 0.0), (np.float64, 1e-8)])
def test_a_naive_loop_selects_by_its_dtype(kind, apart):
    """The loop that people write: in single precision it starts at, and selects, another solution, and says nothing."""
    X, y = np.ones((1, 2), kind), np.ones(1, kind)
    u = np.array([1e-8, 1e-8 + 1e-16]).astype(kind)
    v, eta = u.copy(), kind(0.1)
    for _ in range(2000):
        pull = eta * X.T @ (y - X @ (u * u - v * v))
        u, v = u + pull * u, v - pull * v
    k = u * u - v * v
    assert k.sum() == pytest.approx(1, abs=1e-6)  # a step that is lost to rounding in single precision
    assert k[1] - k[0] == pytest.approx(apart, rel=1e-6, abs=0)


# Large enough that BLAS deals the work out to its threads, which rounds sums in another order.
LARGE = """
import sys
import numpy as np
import omegalimit as ol

kind = np.dtype(sys.argv[1])
rng = np.random.default_rng(1)


def tell(name, *arrays):
    import hashlib
    print(name, hashlib.sha256(b"".join(np.asarray(a, float).tobytes() for a in arrays)).hexdigest())


X = (np.round(rng.normal(size=(600, 1500)) * 64) / 64).astype(kind)  # the same numbers in either precision
y = np.round(X.astype(float) @ np.round(rng.normal(size=1500))).astype(kind)
path = ol.saddle_path(ol.SaddlePath(X, y), max_events=100)
tell("saddle path", path.k(), path.certificate.kkt)
lasso = ol.lasso_path(X, y, max_events=100)
tell("lasso path", lasso.lam, lasso.w(), [lasso.certificate.gap])
X, labels = X[:200, :600], np.where(rng.normal(size=200) > 0, 1, -1)
Z = labels[:, None].astype(kind) * X
flow = ol.separable_flow(Z, until_log_time=100.0)
tell("flow", flow.direction, flow.at(50.0), flow.path.log_loss)
descent = ol.separable_descent(Z, step_size=1 / ol.smoothness(Z), n_steps=100)
tell("descent", descent.direction, descent.path.log_loss)
tell("shifted", ol.shifted_descent(X, y[:200], nu=-0.01, eta=1e-3, steps=[0, 100]).b)
for norm in ("l2", "linf"):
    best = ol.solve(ol.MaxMargin(norm, rows=Z)).certificate
    tell(norm, best.point, best.multipliers, [best.lower, best.upper])
least = ol.solve(ol.Interpolation(ol.SquaredNorm(), X, y[:200])).certificate
tell("interpolation", least.point, least.multipliers, [least.lower, least.upper])
tell("max margin", ol.MaxMarginClassifier().fit(X, labels).coef_)
tell("early stopping", ol.EarlyStoppedLogisticRegression().fit(X, labels).coef_)
tell("shift", ol.ShiftedDescentRegressor().fit(X, y[:200]).coef_)
"""


def test_paths_flows_solvers_and_estimators_give_the_same_bits_on_any_number_of_threads():
    one, two = said_with("1", LARGE, "float64"), said_with("2", LARGE, "float32")
    assert len(one.splitlines()) == 11
    assert one == two


def test_the_tie_and_the_threads_are_in_the_record(tmp_path):
    (tmp_path / "tie.csv").write_text("a,b,y\n1,1,1\n")
    system = ol.load("diagonal-networks")(data=str(tmp_path / "tie.csv"), target="y", model="square-difference")  # pyright: ignore[reportCallIssue] - the system's own fields
    path = ol.write_record(system.check(), folder=tmp_path / "runs", system="diagonal-networks", seed=0)
    found = ol.read_record(path)
    assert "square-difference: a, b reach their walls together: a tie, outside the theorem." in found.notes
    assert any("the least R is not unique" in note for note in found.notes)
    assert found.threads["pools"]
    assert "OMP_NUM_THREADS" in found.threads["environment"]
