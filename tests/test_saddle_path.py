"""The saddle-to-saddle path: rational arithmetic, linear programs, ties, scales, and certificates that can fail."""

import dataclasses
import re
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog, lsq_linear

from _exact_path import exact_path
from omegalimit.limits.saddle_path import Knots, SaddlePath
from omegalimit.solvers.saddle_path import saddle_path, solve_path

# Sums of at most some hundred products, each to half a unit of the last place; the conditions are relative.
ROUNDING = 1e-13
FIXTURE = np.array([[1, 0.5, 0.7, 0], [0.5, 1, 0.1, 0.7]]), np.array([1.0, 0.0])


def normal(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


def least_value(X, y, t_plus, t_minus):
    """The least `R(k)` over `Xk = y` by HiGHS, `None` when there is no such `k`."""
    t = np.concatenate([t_plus, t_minus])
    bounds = [(0, None if np.isfinite(v) else 0) for v in t]
    found = linprog(np.where(np.isfinite(t), t, 0), A_eq=np.hstack([X, -X]), b_eq=y, bounds=bounds, method="highs")
    return found.fun if found.status == 0 else None


def check(path, *, rtol=ROUNDING):
    """Every condition holds to rounding, and what is reported is what the knots say."""
    limit, certificate = path.limit, path.certificate
    assert certificate.worst < rtol
    assert len(path.events) == path.n_plateaus - 1
    assert path.n_plateaus == len(path.unique) == len(path.times)
    assert (path.deltas >= 0).all()
    np.testing.assert_allclose(np.diff(path.times), path.deltas, rtol=1e-9)
    for p, event in enumerate(path.events, start=1):
        s = path.s(p)
        side = np.where(event.signs > 0, limit.t_plus[event.entered], limit.t_minus[event.entered])
        np.testing.assert_allclose(s[event.entered] * event.signs, side, rtol=rtol)
        assert not np.isin(event.left, path.support(p)).any()
        assert np.isin(event.left, path.support(p - 1)).all()
        assert (np.sign(path.k(p)[event.entered]) * event.signs >= 0).all()
    return certificate


def test_the_example_of_the_paper():
    path = saddle_path(SaddlePath(*FIXTURE))
    certificate = check(path)
    assert path.status == "interpolates"
    assert path.order == [(0, 1), (2, 1), (3, -1)]
    np.testing.assert_allclose(path.deltas, [1, 3, 80 / 49], rtol=ROUNDING)
    np.testing.assert_allclose(path.times, [0, 1, 4, 4 + 80 / 49], rtol=ROUNDING)
    k = [[0, 0, 0, 0], [0.8, 0, 0, 0], [0, 0, 1.4, 0], [0, 0, 10 / 7, -10 / 49]]
    np.testing.assert_allclose([path.k(p) for p in range(4)], k, atol=ROUNDING)
    s = [[0, 0, 0, 0], [1, 0.5, 0.7, 0], [1, -0.4, 1, -0.84], [45 / 49, -30 / 49, 1, -1]]
    np.testing.assert_allclose([path.s(p) for p in range(4)], s, atol=ROUNDING)
    assert certificate.lower == pytest.approx(80 / 49, rel=ROUNDING)
    assert certificate.upper == pytest.approx(80 / 49, rel=ROUNDING)
    assert path.limit.value(path.k()) == pytest.approx(80 / 49, rel=ROUNDING)
    assert [event.left.tolist() for event in path.events] == [[], [0], []]
    assert path.unique.all()
    assert not path.tied
    assert path.reason.endswith("zero to rounding, after 3 events.")


def test_the_example_with_weights():
    weights = np.array([0.5, 1, 1, 1])
    path = saddle_path(SaddlePath(*FIXTURE, weights, weights))
    check(path)
    np.testing.assert_allclose(path.deltas, [0.5, 25 / 7], rtol=ROUNDING)
    np.testing.assert_allclose(path.k(), [1, 0, 0, -5 / 7], atol=ROUNDING)
    assert path.certificate.upper == pytest.approx(17 / 14, rel=ROUNDING)
    # The plain path ends elsewhere: the weights matter on these data.
    assert np.abs(path.k() - saddle_path(SaddlePath(*FIXTURE)).k()).max() > 0.5


def test_which_plateau_holds_when():
    path = saddle_path(SaddlePath(*FIXTURE))
    assert [path.at(time) for time in (0, 0.999, 1, 3.9, 4.1, 5.7, 1e9)] == [0, 0, 1, 1, 2, 3, 3]
    with pytest.raises(ValueError, match=r"^`time` must be at least zero; got -1\.$"):
        path.at(-1)


@pytest.mark.parametrize(
    ("X", "y", "entered"),
    [
        (np.eye(5), np.ones(5), [[0, 1, 2, 3, 4]]),
        (np.eye(3), np.array([2.0, 1, 1]), [[0], [1, 2]]),
        (np.eye(3), np.array([1.0, -1, 1]), [[0, 1, 2]]),
        (np.eye(3)[:, [0, 0, 1, 2]] * [1, -1, 1, 1], np.array([1.0, 1, 1]), [[0, 1, 2, 3]]),
    ],
)
def test_tied_features_enter_together(X, y, entered):
    path = saddle_path(SaddlePath(X, y))
    certificate = check(path)
    assert [event.entered.tolist() for event in path.events] == entered
    assert path.status == "interpolates"
    assert path.tied
    np.testing.assert_allclose(X @ path.k(), y, atol=ROUNDING)
    assert (certificate.kkt == 0).all()


def test_the_end_of_tied_features():
    np.testing.assert_array_equal(saddle_path(SaddlePath(np.eye(5), np.ones(5))).k(), np.ones(5))
    np.testing.assert_array_equal(saddle_path(SaddlePath(np.eye(3), [2, 1, 1])).k(), [2, 1, 1])


def test_tied_features_take_the_sign_of_their_gradient():
    """Free least squares over a tied pair may give one of them the wrong sign; the path may not."""
    X, y = np.array([[1.0, 2.0], [2.0, -1.0], [2.0, 2.0]]), np.array([1.0, -1.0, 1.0])
    X[:, 1] *= (X[:, 0] @ y) / (X[:, 1] @ y)
    path = saddle_path(SaddlePath(X, y))
    assert path.events[0].tied
    free = np.linalg.lstsq(X, y)[0]
    assert free.min() < 0 < free.max()
    cone = lsq_linear(X, y, bounds=(0, np.inf), method="bvls").x
    np.testing.assert_allclose(path.k(1), cone, atol=1e-12)


def times(rng, d):
    """Integers as doubles and for rational arithmetic; some infinite."""
    t = rng.integers(1, 4, size=d).astype(float)
    t[rng.random(d) < 0.1] = np.inf
    return t, [None if np.isinf(v) else Fraction(int(v)) for v in t]


@pytest.mark.parametrize("seed", range(6))
def test_small_integers_against_rational_arithmetic(seed):
    """Most of these have ties, duplicates, dependent columns, or no solution at all."""
    rng = np.random.default_rng(seed)
    n_tied = n_unreachable = n_dependent = 0
    for _ in range(40):
        n, d = rng.integers(1, 4), rng.integers(1, 7)
        X, y = rng.integers(-2, 3, size=(n, d)), rng.integers(-2, 3, size=n)
        (plus, exact_plus), (minus, exact_minus) = times(rng, d), times(rng, d)
        exact = exact_path(X, y, exact_plus, exact_minus)
        path = saddle_path(SaddlePath(X, y, plus, minus))
        check(path)
        assert len(path.events) == len(exact)
        for p, knot in enumerate(exact, start=1):
            event = path.events[p - 1]
            assert path.deltas[p - 1] == pytest.approx(float(knot.duration), rel=1e-12)
            np.testing.assert_allclose(path.R(p), np.array(knot.R, float), atol=1e-12)
            np.testing.assert_allclose(y - X @ path.k(p), np.array(knot.r, float), atol=1e-13)
            assert len(event.entered) == knot.n_entered
            if path.unique[p]:
                np.testing.assert_allclose(path.k(p), [float(knot.k.get(i, 0)) for i in range(d)], atol=1e-13)
        solved = not any(exact[-1].r if exact else y)
        assert path.status == ("interpolates" if solved else "unreachable")
        assert path.certificate.unreachable == (not solved)
        assert path.certificate.gap == (pytest.approx(0, abs=ROUNDING) if solved else np.inf)
        n_tied += path.tied
        n_unreachable += not solved
        n_dependent += not path.unique.all()
    assert min(n_tied, n_unreachable, n_dependent) > 0


def signed(d, seed=5):
    """Growth times that are infinite for one sign of most features."""
    rng = np.random.default_rng(seed)
    t_plus, t_minus = rng.exponential(size=d) + 0.1, rng.exponential(size=d) + 0.1
    choice = rng.integers(0, 3, size=d)
    t_plus[choice == 0], t_minus[choice == 1] = np.inf, np.inf
    return t_plus, t_minus


def instances():
    X, y = normal(20, 60)
    rng = np.random.default_rng(7)
    plain = np.ones(60)
    return {
        "normal": (X, y, plain, plain),
        "weights": (X, y, rng.exponential(size=60) + 0.1, rng.exponential(size=60) + 0.1),
        "signs": (X, y, *signed(60)),
        "duplicates": (np.hstack([X, X, -X]), y, np.ones(180), np.ones(180)),
        "zero columns": (np.hstack([X, 0 * X]), y, np.ones(120), np.ones(120)),
        "binary": (rng.integers(0, 2, size=(20, 60)), rng.integers(0, 4, size=20), plain, plain),
        "signs of a coin": (rng.choice([-1.0, 1.0], size=(12, 100)), np.ones(12), np.ones(100), np.ones(100)),
        "correlated": (1 + 0.01 * X, y, plain, plain),
        "low rank, reachable": (X[:, :5] @ X[:5], X[:, :5] @ X[:5] @ rng.normal(size=60), plain, plain),
        "more samples": (X.T, X.T @ y, np.ones(20), np.ones(20)),
        "wide columns": (X * (scale := 10.0 ** rng.uniform(-90, 90, size=60)), y, scale, scale),
    }


@pytest.mark.parametrize("name", instances())
def test_the_end_against_a_linear_program(name):
    X, y, t_plus, t_minus = instances()[name]
    path = saddle_path(SaddlePath(X, y, t_plus, t_minus))
    # |X_i| |R| / t_i units of rounding in s; up to some thousand where columns are nearly parallel.
    certificate = check(path, rtol=1e-11)
    assert path.status == "interpolates"
    assert abs(certificate.gap) < 1e-11
    assert certificate.upper - certificate.lower <= certificate.slack
    if name != "wide columns":  # beyond the linear program's absolute tolerances
        # HiGHS meets its constraints to 1e-7 unless asked; vertices come out far better.
        assert certificate.lower == pytest.approx(least_value(X, y, t_plus, t_minus), rel=1e-9)


@pytest.mark.parametrize(
    ("X", "y", "t_plus", "t_minus"),
    [
        (*normal(40, 15), np.ones(15), np.ones(15)),
        (*normal(20, 60), np.full(60, np.inf), np.full(60, np.inf)),
        (np.abs(normal(5, 30)[0]), np.array([1.0, 1, 1, 1, -1]), np.ones(30), np.full(30, np.inf)),
        (np.zeros((3, 4)), np.ones(3), np.ones(4), np.ones(4)),
        (normal(20, 4)[0] @ normal(4, 60)[0], normal(20, 1)[1], np.ones(60), np.ones(60)),
    ],
    ids=["more samples", "no sign at all", "a sign that is missing", "zero", "low rank"],
)
def test_a_target_out_of_reach(X, y, t_plus, t_minus):
    path = saddle_path(SaddlePath(X, y, t_plus, t_minus))
    certificate = check(path, rtol=1e-11)
    assert path.status == "unreachable"
    assert least_value(X, y, t_plus, t_minus) is None
    assert (certificate.upper, certificate.gap, path.knots.durations[-1]) == (np.inf, np.inf, np.inf)
    low, high = np.where(np.isfinite(t_minus), -np.inf, 0), np.where(np.isfinite(t_plus), np.inf, 0)
    can = high > low
    if np.isinf(low[can]).all() and np.isinf(high[can]).all():
        best = X[:, can] @ np.linalg.lstsq(X[:, can], y)[0]
    else:
        best = X[:, can] @ lsq_linear(X[:, can], y, bounds=(low[can], high[can]), method="bvls").x
    # bvls stops at 1e-10 by itself.
    np.testing.assert_allclose(X @ path.k(), best, atol=1e-9)
    v = certificate.witness
    assert v is not None
    assert v @ y > 0
    rounding = 1e-13 * np.linalg.norm(v) * np.linalg.norm(X, axis=0)
    assert (X.T @ v <= np.where(np.isfinite(t_plus), rounding, np.inf)).all()
    assert (X.T @ v >= np.where(np.isfinite(t_minus), -rounding, -np.inf)).all()


@pytest.mark.parametrize("name", ["kernel", "Hilbert", "columns of every size"])
def test_data_too_nearly_singular_are_not_called_solved(name):
    x = np.linspace(0, 1, 60)
    X, y = normal(10, 40)
    X, y = {
        "kernel": (np.exp(-((x[:, None] - x) ** 2) / 2), np.sin(3 * x)),
        "Hilbert": (1 / (np.arange(12)[:, None] + np.arange(40) + 1), np.ones(12)),
        "columns of every size": (X * 10.0 ** np.linspace(-60, 60, 40), y),
    }[name]
    path = saddle_path(SaddlePath(X, y))
    assert path.status == "stalled"
    assert re.match(
        r"^rounding: the certificate (confirms the plateaus before \d+ of \d+ only|does not confirm the end); "
        r"\|Xk - y\| / \|y\| is \S+ at the end\.$",
        path.reason,
    )
    # The first event is far from singular, and certified.
    assert path.certificate.kkt[:2].max() < 1e-11


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-9, 1e-150, 1e150])
@pytest.mark.parametrize("what", ["X", "y", "t", "all"])
def test_the_units_do_not_matter(scale, what):
    X, y = normal(10, 40)
    base = saddle_path(SaddlePath(X, y))
    a, b, c = (scale if what in (name, "all") else 1.0 for name in ("X", "y", "t"))
    path = saddle_path(SaddlePath(X * a, y * b, c, c))
    check(path)
    assert path.status == "interpolates"
    assert len(path.events) == len(base.events)
    for p in range(path.n_plateaus):
        np.testing.assert_array_equal(path.support(p), base.support(p))
        # A factor that is no power of two rounds the data; the condition of the least squares problems multiplies it.
        np.testing.assert_allclose(path.k(p) * (a / b), base.k(p), rtol=1e-9)
    np.testing.assert_allclose(path.times * (a * (b / c)), base.times, rtol=1e-9)


def test_powers_of_two_give_the_same_digits():
    X, y = normal(10, 40)
    columns = 2.0 ** np.random.default_rng(1).integers(-300, 300, size=40)
    base = saddle_path(SaddlePath(X, y))
    path = saddle_path(SaddlePath(X * columns, y * 2.0**40, columns / 8, columns / 8))
    assert path.order == base.order
    np.testing.assert_array_equal(path.times, base.times / 2.0**43)
    for p in range(path.n_plateaus):
        np.testing.assert_array_equal(path.k(p) * columns, base.k(p) * 2.0**40)


@pytest.mark.parametrize("name", ["normal", "duplicated", "binary", "weights"])
def test_screening_changes_nothing(name):
    rng = np.random.default_rng(3)
    X, y = normal(15, 1500)
    t = rng.exponential(size=1500) + 0.2 if name == "weights" else np.ones(1500)
    X = {"duplicated": np.repeat(X[:, :300], 5, axis=1), "binary": rng.integers(0, 2, size=(15, 1500))}.get(name, X)
    limit = SaddlePath(X, y, t, t[::-1])
    quick, slow = (solve_path(limit, max_events=None, screen=screen) for screen in (True, False))
    check(quick)
    assert quick.order == slow.order
    assert quick.status == slow.status == "interpolates"
    np.testing.assert_allclose(quick.times, slow.times, rtol=1e-10)
    for p in range(quick.n_plateaus):
        np.testing.assert_array_equal(quick.support(p), slow.support(p))
        np.testing.assert_allclose(quick.k(p), slow.k(p), rtol=1e-9, atol=1e-12)


def test_screening_goes_back_when_it_missed_a_feature(monkeypatch):
    """With hardly any candidates nearly every batch misses one; the path is the same."""
    from omegalimit.solvers import _path_screen

    X, y = normal(15, 1500)
    limit = SaddlePath(X, y)
    slow = solve_path(limit, max_events=None, screen=False)
    n_missed, nearest, first = 0, _path_screen._nearest, _path_screen._first_missed

    def few(data, s, knot, n_wanted):
        return nearest(data, s, knot, 3)

    def counted(*arguments):
        nonlocal n_missed
        found = first(*arguments)
        n_missed += len(found[0]) > 0
        return found

    monkeypatch.setattr(_path_screen, "_nearest", few)
    monkeypatch.setattr(_path_screen, "_first_missed", counted)
    quick = solve_path(limit, max_events=None, screen=True)
    assert n_missed > 0
    assert quick.order == slow.order
    np.testing.assert_allclose(quick.k(), slow.k(), rtol=1e-9)


@pytest.mark.parametrize("d", [40, 1500])
def test_a_limit_of_events(d):
    X, y = normal(10, d)
    whole = saddle_path(SaddlePath(X, y))
    for n_events in (0, 1, 5):
        path = saddle_path(SaddlePath(X, y), max_events=n_events)
        check(path)
        assert path.status == "event limit"
        assert len(path.events) == n_events
        assert path.order == whole.order[:n_events]
        # The plateau that was reached is known for as long as it lasts.
        np.testing.assert_allclose(path.knots.durations, whole.knots.durations[: n_events + 1], rtol=1e-12)
        assert path.certificate.lower < whole.certificate.lower
        assert path.certificate.upper == np.inf
        assert re.match(rf"^{n_events} events were asked for; \|Xk - y\| / \|y\| is \S+\.$", path.reason)
    assert saddle_path(SaddlePath(X, y), max_events=10**6).status == "interpolates"


def test_nothing_to_fit():
    path = saddle_path(SaddlePath(normal(5, 8)[0], np.zeros(5)))
    assert path.status == "interpolates"
    assert path.n_plateaus == 1
    assert not path.k().any()
    assert path.certificate.gap == 0


def spoiled(knots, **changes):
    copied = {"durations": knots.durations.copy(), "k": knots.k.copy(), "R": knots.R.copy()}
    return Knots(**(copied | changes))


def test_a_wrong_path_is_found_out():
    """Every condition fails when it is broken, by the size of what was done, and on the plateau where it was done."""
    limit = SaddlePath(*normal(10, 40))
    path = saddle_path(limit)
    good = path.knots
    assert limit.certify(good).worst < ROUNDING

    k = good.k.copy()
    at = slice(k.indptr[4], k.indptr[5])
    k.data[at] *= 1.01
    bad = limit.certify(spoiled(good, k=k))
    assert bad.stationarity[4] > 1e-4
    assert bad.consistency[4] > 1e-4
    assert bad.kkt[[0, 1, 2, 3, 5, 6]].max() < ROUNDING

    k = good.k.copy()
    k.data[k.indptr[4]] *= -1
    assert limit.certify(spoiled(good, k=k)).boundary[4] == pytest.approx(2, rel=1e-9)

    durations = good.durations.copy()
    durations[3] *= 1.01
    assert limit.certify(spoiled(good, durations=durations)).consistency[3] > 1e-4

    R = good.R.copy()
    R[5] *= 1.001
    bad = limit.certify(spoiled(good, R=R))
    assert bad.boundary[5] > 1e-4
    assert bad.overshoot[5] > 1e-4
    assert bad.consistency[4] > 1e-5

    # An event that was left out: its feature goes beyond its bound, while all else is as it should be.
    keep = np.delete(np.arange(len(good.durations)), 3)
    durations, R = good.durations.copy(), good.R.copy()
    r = limit.y - limit.X @ path.k(2)
    durations[2] += durations[3]
    R = R[keep]
    R[3:] += good.R[2] + durations[2] * r - R[3]
    bad = limit.certify(Knots(durations=durations[keep], k=good.k[keep], R=R))
    assert bad.overshoot[2] > 1e-3
    assert bad.consistency[:3].max() < ROUNDING

    # Another solution of Xk = y: the bounds part.
    k = scipy.sparse.lil_array(good.k)
    k[[-1], :] = np.linalg.lstsq(limit.X, limit.y)[0][None]
    bad = limit.certify(spoiled(good, k=k.tocsr()))
    assert bad.gap > 0.1
    assert bad.boundary[-1] > 0.1

    # A path that stops too early is no path without an end.
    early = Knots(durations=np.append(good.durations[:4], np.inf), k=good.k[:5], R=good.R[:5])
    bad = limit.certify(early)
    assert bad.overshoot[-1] > 1e-3
    assert bad.gap == np.inf
    assert not bad.unreachable
    # Plain l1 is not what other growth times select.
    other = SaddlePath(limit.X, limit.y, np.linspace(1, 3, 40), np.linspace(3, 1, 40))
    assert other.certify(good).worst > 0.1


def test_a_wrong_growth_time_is_found_out():
    X, y = normal(10, 40)
    t = np.ones(40)
    path = saddle_path(SaddlePath(X, y, t, t))
    first = path.order[0][0]
    t[first] *= 1.001
    assert SaddlePath(X, y, t, t).certify(path.knots).boundary[1] == pytest.approx(1e-3, rel=1e-2)


def test_memory_is_that_of_the_data():
    X, y = normal(40, 8000)
    saddle_path(SaddlePath(*normal(5, 200)))  # imports and caches
    tracemalloc.start()
    saddle_path(SaddlePath(X, y))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The limit's copy, its scaled form, a batch of products, and the rest; far from d squared or d times plateaus.
    assert peak < 6 * X.nbytes


def test_what_is_given_is_copied():
    X, y = normal(3, 5)
    limit = SaddlePath(X, y)
    X[:] = 0
    assert limit.X.any()
    for array in (limit.X, limit.y, limit.t_plus, limit.t_minus):
        assert not array.flags.writeable
    assert limit.value([1, -1, 0, 0, 0]) == 2
    assert SaddlePath(limit.X, y, 1.0, np.inf).value([1, -1, 0, 0, 0]) == np.inf


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda X, y: SaddlePath(X[0], y), ValueError, "`X` must have shape (n, d); got (5,)."),
        (
            lambda X, y: SaddlePath(X[:, :0], y),
            ValueError,
            "`X` must have at least one row and one column; got shape (3, 0).",
        ),
        (
            lambda X, y: SaddlePath(X, y[:2]),
            ValueError,
            "`X` has shape (3, 5) and `y` has shape (2,): 3 rows against 2.",
        ),
        (lambda X, y: SaddlePath(X * np.nan, y), ValueError, None),
        (lambda X, y: SaddlePath(X, y + 1j), TypeError, None),
        (
            lambda X, y: SaddlePath(X, y, [1, 1, 0, 1, 1]),
            ValueError,
            "`t_plus[2]` is 0; growth times are positive (inf: that sign is never taken).",
        ),
        (
            lambda X, y: SaddlePath(X, y, 1, np.nan),
            ValueError,
            "`t_minus[0]` is nan; growth times are positive (inf: that sign is never taken).",
        ),
        (
            lambda X, y: SaddlePath(X, y, [1, 2]),
            ValueError,
            "`t_plus` must be a number or have shape (5,), one per column of `X`; got shape (2,).",
        ),
        (
            lambda X, y: SaddlePath(X, y, [1, 1, 1e200, 1, 1]),
            ValueError,
            "Feature 2 is so slow (its growth time over the size of its column) that the fastest one is 3e+120 times "
            "faster or more; double precision holds no path of both. Rescale or drop it.",
        ),
        (
            lambda X, y: SaddlePath(X * 1e-200, y * 1e200),
            ValueError,
            "The coefficients k, of the size of y over X, leave double precision; bring `X`, `y` or the growth times "
            "nearer to one.",
        ),
        (
            lambda X, y: SaddlePath(X, y).value([1.0]),
            ValueError,
            "`k` must have shape (5,); got (1,).",
        ),
        (
            lambda X, y: saddle_path(SaddlePath(X, y), max_events=-1),
            ValueError,
            "`max_events` must be at least 0; got -1.",
        ),
        (
            lambda X, y: saddle_path(SaddlePath(X, y), max_events=2.0),  # pyright: ignore[reportArgumentType]
            TypeError,
            "`max_events` must be an integer; got 2.0.",
        ),
        (lambda X, y: saddle_path(X), TypeError, "`limit` must be a SaddlePath; got ndarray."),
    ],
)
def test_what_is_refused(build, error, message):
    X, y = normal(3, 5)
    with pytest.raises(error, match=None if message is None else rf"^{re.escape(message)}$"):
        build(X, y)


def test_knots_that_do_not_fit():
    limit = SaddlePath(*normal(3, 5))
    good = saddle_path(limit).knots
    with pytest.raises(
        ValueError,
        match=r"^`durations`, `k` and `R` must have shapes \(P \+ 1,\), \(P \+ 1, 5\) and \(P \+ 1, 3\); got "
        r"\(\d,\), \(\d, 5\) and \(\d, 3\)\.$",
    ):
        limit.certify(dataclasses.replace(good, R=good.R[1:]))
    for value in (-1.0, np.inf):
        durations = good.durations.copy()
        durations[0] = value
        with pytest.raises(
            ValueError,
            match=rf"^`durations\[0\]` is {value}; durations are at least zero, and only the last may be infinite\.$",
        ):
            limit.certify(dataclasses.replace(good, durations=durations))
