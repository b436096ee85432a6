"""The stationary measure: its integrals, duality, independent quadrature and sampling, both extremes, refusals."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import dblquad, quad

from omegalimit.limits._arrays import split
from omegalimit.limits._measure_cones import angle_ratio, cone_integrals, finite, gram_matrices
from omegalimit.limits._measure_fan import fan
from omegalimit.limits._measure_law import MeasureLaw
from omegalimit.limits._measure_rule import rule_integrals
from omegalimit.limits.measure_certificate import MeasureCertificate
from omegalimit.limits.stationary_measure import StationaryMeasure
from omegalimit.solvers.stationary_measure import stationary_measure


def refusal(make, kind: type[Exception] = ValueError) -> str:
    """The message with which `make` refuses, which the tests then compare in full."""
    with pytest.raises(kind) as refused:
        make()
    return str(refused.value)


def data(n: int, d: int, m: int = 0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal inputs, and targets `(n,)` or, with `m`, `(n, m)`; seed 0, n = 5, d = 2 is the theory's instance."""
    g = np.random.default_rng(seed)
    return g.standard_normal((n, d)), g.standard_normal((n, m) if m else n)


def solved(limit: StationaryMeasure, **options) -> MeasureCertificate:
    """The certificate of its solution, which must be optimal."""
    found = stationary_measure(limit, **options)
    assert found.status == "optimal", found.reason
    return found.certificate


def law_of(limit: StationaryMeasure) -> MeasureLaw:
    """Its stationary measure."""
    return limit.at(solved(limit).residual)


def unreduced(limit: StationaryMeasure) -> None:
    """Has integrals taken in all `D` dimensions, not in the span of the inputs alone: the other way to one answer."""
    rows, _ = split(limit.augmented(limit.X))
    vars(limit)["scaled"] = dataclasses.replace(limit.scaled, rows=rows, basis=None)


def breaks(limit: StationaryMeasure) -> list[float]:
    """Angles on the circle where a relu of the data has its kink, and a quarter turn from one to the next."""
    rows = limit.augmented(limit.X)
    kinks = np.arctan2(-rows[:, 0], rows[:, 1])
    angles = np.concatenate([kinks, kinks + np.pi, np.arange(4) * np.pi / 2])
    return sorted({float(a) for a in (angles + np.pi) % (2 * np.pi) - np.pi})


def over_circle(limit: StationaryMeasure, function) -> np.ndarray:
    """The integral of `function(angle)`, which has shape (k,), piece by piece."""
    ends = [-math.pi, *breaks(limit), math.pi]
    size = len(function(0.0))
    return np.array(
        [
            sum(
                quad(lambda t, k=k: function(t)[k], a, b, limit=200, epsabs=1e-13)[0]
                for a, b in itertools.pairwise(ends)
            )
            for k in range(size)
        ]
    )


def brute(limit: StationaryMeasure, r: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`R(u)` (K, m) and `relu(u.x)` (K, n), written out."""
    features = np.maximum(u @ limit.augmented(limit.X).T, 0)
    return features @ r.reshape(len(r), -1) / len(r), features


# The integrals over cones.


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("D", [2, 3])
def test_cone_integrals_against_quadrature(D, m):
    """Cones with definite and with indefinite forms alike; quadrature over the simplex of the rays."""
    g = np.random.default_rng(D + m)
    P, R = g.standard_normal((30, D, D)), 0.7 * g.standard_normal((30, D, m))
    P /= np.linalg.norm(P, axis=2, keepdims=True)
    gram = gram_matrices(P, R)
    keep = finite(gram)
    P, R, gram = P[keep][:8], R[keep][:8], gram[keep][:8]
    assert (np.linalg.eigvalsh(gram)[:, 0] < 0).any()
    assert (np.linalg.eigvalsh(gram)[:, 0] > 0).any()
    values = np.exp(cone_integrals(P, R, second=False)[0])
    for q, value, rays in zip(gram, values, P, strict=True):

        def density(*share, q=q):
            point = np.array([1 - sum(share), *share])
            return (point @ q @ point) ** (-D / 2)

        if D == 2:
            total = quad(density, 0, 1, epsabs=1e-13)[0]
        else:
            total = dblquad(lambda b, a: density(a, b), 0, 1, 0, lambda a: 1 - a, epsabs=1e-9, epsrel=1e-9)[0]
        assert value == pytest.approx(abs(np.linalg.det(rays)) * total, rel=1e-8)  # what was asked of the quadrature


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("D", [1, 2, 3, 4])
def test_derivatives_by_differences(D, m):
    """Gradient from values, Hessian from gradients; 1e-6 is the error of a central difference of that step."""
    g = np.random.default_rng(10 * D + m)
    P, R = g.standard_normal((12, D, D)), (0.5 if D < 4 else 0.2) * g.standard_normal((12, D, m))
    P /= np.linalg.norm(P, axis=2, keepdims=True)
    gram = gram_matrices(P, R)
    keep = finite(gram) if D < 4 else np.linalg.eigvalsh(gram)[:, 0] > 0
    P, R = P[keep], R[keep]
    assert len(P) > 1

    def integrals(field) -> tuple[Any, Any, Any]:
        found = cone_integrals(P, field) if D < 4 else rule_integrals(P, field, 6)
        assert found is not None
        return found

    _, first, second = integrals(R)
    for k in range(D):
        for c in range(m):
            step = np.zeros_like(R)
            step[:, k, c] = 1e-5
            up, down = integrals(R + step), integrals(R - step)
            assert (up[0] - down[0]) / 2e-5 == pytest.approx(first[:, k, c], rel=1e-5, abs=1e-6)
            np.testing.assert_allclose((up[1] - down[1]) / 2e-5, second[:, :, :, k, c], rtol=1e-5, atol=1e-5)


def test_angle_ratio_is_smooth_through_one():
    """Both forms of `h` and of its derivatives meet, and `h(0) = pi/2`, `h(1) = 1`, `h'(1) = -1/3`."""
    half = np.array([0.5, 1.0])
    h, first, _ = angle_ratio(half)
    assert h == pytest.approx([math.pi / 2, 1.0], rel=1e-15)
    assert first == pytest.approx([-1.0, -1 / 3], rel=1e-15)
    for edge in (0.8, 1.2):  # where the series takes over
        low, high = angle_ratio(np.array([edge * (1 - 1e-13)])), angle_ratio(np.array([edge * (1 + 1e-13)]))
        for a, b in zip(low, high, strict=True):
            assert a == pytest.approx(b, rel=2e-12)  # what is left of the step of 2e-13, and rounding of h''


@settings(max_examples=60, deadline=None)
@given(arrays(float, (3, 3), elements=st.floats(-1, 1)), st.integers(2, 3))
def test_finite_is_strict_copositivity(entries, D):
    """Against the least value of the form on a grid of the simplex, where that is clear."""
    q = ((entries + entries.T) / 2)[:D, :D]
    k = np.arange(61)
    shares = np.array([(i, j, 60 - i - j) for i in k for j in k if i + j <= 60]) / 60
    shares = shares[shares[:, 2] == 0][:, :2] if D == 2 else shares
    least = np.einsum("ni,ij,nj->n", shares, q, shares).min()
    # Between nodes of the grid the form is lower by at most the square of the spacing times its size.
    if least < 0:
        assert not finite(q[None])[0]
    elif least > 6 / 60**2:
        assert finite(q[None])[0]


@pytest.mark.parametrize(("n", "D"), [(0, 2), (3, 2), (6, 3), (4, 4)])
def test_the_fan_fills_the_sphere(n, D):
    """Areas sum to the sphere's, and no row changes sign within a cone."""
    rows = np.random.default_rng(n).standard_normal((n, D))
    P = fan(np.vstack([rows, rows[:1], -rows[:1], np.zeros((1, D))]), most=10**5)
    assert P is not None
    found = cone_integrals(P, np.zeros((*P.shape[:2], 1))) if D < 4 else rule_integrals(P, np.zeros((len(P), 4, 1)), 6)
    assert found is not None
    area = 2 * math.pi ** (D / 2) / math.gamma(D / 2)
    assert np.exp(found[0]).sum() == pytest.approx(area, rel=1e-13 if D < 4 else 1e-9)
    values = P @ rows.T
    assert not ((values > 1e-13).any(axis=1) & (values < -1e-13).any(axis=1)).any()


# The measure against independent quadrature and sampling.


@pytest.mark.parametrize("beta", [1e2, 1e4])
@pytest.mark.parametrize("m", [0, 2])
def test_circle_by_quadrature(m, beta):
    """`d = 1`: the residual is that of the density as it is written, and every integral of the law agrees."""
    limit = StationaryMeasure(*data(6, 1, m), lam=0.05, beta=beta)
    found = solved(limit)
    law, r = limit.at(found.residual), found.residual.reshape(6, -1)

    def terms(t):
        u = np.array([[math.cos(t), math.sin(t)]])
        R, features = brute(limit, r, u)
        room = limit.lam**2 - (R**2).sum()
        pull = -2 / beta * R[0] / room**2
        size = np.linalg.norm(pull)
        near = math.cos(0.3) <= abs(u[0, 0])
        return np.array([1 / room, size, near / room, near * size, *(features[0][:, None] * pull).reshape(-1)])

    # The caps' ends are kinks too.
    caps = [s * math.pi * k + e * 0.3 for s in (-1, 1) for k in (0, 1) for e in (-1, 1)]
    ends = sorted({-math.pi, math.pi, *breaks(limit), *(c for c in caps if abs(c) < math.pi)})
    pieces = list(itertools.pairwise(ends))
    peaks = [
        quad(lambda t, k=k: terms(t)[k], a, b, limit=400, epsabs=0, epsrel=1e-11)[0]
        for k in range(4 + r.size)
        for a, b in pieces
    ]
    total = np.array(peaks).reshape(4 + r.size, -1).sum(axis=1)
    f = (total[4:] / total[0]).reshape(r.shape)
    y = limit.y.reshape(r.shape)
    assert f - y == pytest.approx(r, abs=1e-9)  # the quadrature, across peaks of a width of about beta^{-1/2}
    share = law.concentration([[1.0, 0.0], [-1.0, 0.0]], 0.3)
    assert share.total_mass == pytest.approx(total[1] / total[0], rel=1e-7)
    assert abs(share.probability - total[2] / total[0]) <= share.probability_error <= 1e-4
    assert abs(share.mass - total[3] / total[1]) <= share.mass_error <= 1e-4


def test_sphere_by_a_grid():
    """`d = 2`: outputs from 720 000 directions; the grid's error, from kinks, is quadratic in its spacing of 0.005."""
    limit = StationaryMeasure(*data(5, 2), lam=0.05, beta=100.0)
    r = solved(limit).residual
    height, turn = (np.arange(600) + 0.5) / 300 - 1, (np.arange(1200) + 0.5) * np.pi / 600
    flat = np.sqrt(1 - height**2)
    u = np.stack(
        [np.outer(flat, np.cos(turn)), np.outer(flat, np.sin(turn)), np.outer(height, np.ones(1200))], axis=2
    ).reshape(-1, 3)
    R, features = brute(limit, r, u)
    room = limit.lam**2 - R[:, 0] ** 2
    f = -3 / limit.beta * (features.T @ (R[:, 0] * room**-2.5)) / (room**-1.5).sum()
    assert f - limit.y == pytest.approx(r, abs=3e-5)


@pytest.mark.parametrize(("d", "m", "beta"), [(1, 0, 1e3), (2, 2, 1e2), (3, 0, 30.0)])
def test_particles_have_the_law(d, m, beta):
    """200 000 draws: outputs at inputs old and new, the homogeneous mean, the share near an axis; five errors."""
    limit = StationaryMeasure(*data(4 if d < 3 else 2, d, m), lam=0.05, beta=beta)
    law, N = law_of(limit), 200_000
    a, V = law.sample(N, seed=1)
    assert a.shape == (N, max(m, 1))
    assert V.shape == (N, d + 1)
    new = np.random.default_rng(9).standard_normal((3, d))
    for X, f in ((limit.X, law.outputs), (new, law.predict(new))):
        each = np.maximum(V @ limit.augmented(X).T, 0)[:, :, None] * a[:, None]
        error = each.std(axis=0) / math.sqrt(N)
        assert (np.abs(each.mean(axis=0) - f.reshape(len(X), -1)) <= 5 * error).all()
    R, _ = brute(limit, law.residual, V)
    energy = beta * ((a * R).sum(axis=1) + limit.lam / 2 * ((a**2).sum(axis=1) + (V**2).sum(axis=1)))
    assert energy.mean() == pytest.approx((d + 1 + max(m, 1)) / 2, abs=5 * energy.std() / math.sqrt(N))
    assert law.entropy - law.log_partition == (d + 1 + max(m, 1)) / 2
    if d == 3:
        return  # shares near a direction are bracketed by many cones there
    near = np.abs(V[:, 0]) >= math.cos(0.5) * np.linalg.norm(V, axis=1)
    share = law.concentration(np.eye(d + 1)[:1] * [[1.0], [-1.0]], 0.5, tol=1e-2)
    assert abs(near.mean() - share.probability) <= share.probability_error + 5 * near.std() / math.sqrt(N)


def test_particles_of_another_temperature_do_not():
    """The same check can fail: draws at a tenth of the temperature are told apart."""
    X, y = data(4, 1)
    law = law_of(StationaryMeasure(X, y, lam=0.05, beta=1e2))
    other = StationaryMeasure(X, y, lam=0.05, beta=1e3)
    a, V = law_of(other).sample(200_000, seed=1)
    each = np.maximum(V @ other.augmented(X).T, 0) * a
    error = each.std(axis=0) / math.sqrt(len(a))
    assert (np.abs(each.mean(axis=0) - law.outputs) > 5 * error).any()


@pytest.mark.parametrize("beta", [1e2, 1e5])
def test_predictions(beta):
    """At the inputs the outputs; and no new kink at finite temperature, but slopes that settle far away."""
    limit = StationaryMeasure(*data(5, 2), lam=0.05, beta=beta)
    law = law_of(limit)
    assert law.predict(limit.X) == pytest.approx(law.outputs, abs=1e-9)
    assert law.predict(np.zeros((0, 2))).shape == (0,)
    far = 1e12 * np.array([[0.6, 0.8]])
    assert law.predict(2 * far) == pytest.approx(2 * law.predict(far), rel=1e-9)
    plain = StationaryMeasure(*data(5, 2), lam=0.05, beta=beta, bias=False)
    law = law_of(plain)
    X = np.random.default_rng(1).standard_normal((4, 2))
    assert law.predict(3 * X) == pytest.approx(3 * law.predict(X), abs=1e-12)  # homogeneous without a bias


@pytest.mark.parametrize("beta", [1e3])
def test_idle_columns_change_nothing(beta):
    """A column of zeros: its weight is an independent Gaussian: `D = 4` by quadrature is `D = 3` in closed form.

    The other way to the same numbers; 1e-7 is the rule's error in `f`, times what `f` makes of it.
    """
    X, y = data(2, 2)
    plain = solved(StationaryMeasure(X, y, lam=0.05, beta=beta))
    wide = StationaryMeasure(np.column_stack([X, np.zeros(2)]), y, lam=0.05, beta=beta)
    assert wide.method == "closed form"
    unreduced(wide)
    found = solved(wide)
    assert (plain.method, found.method) == ("closed form", "quadrature")
    assert found.residual == pytest.approx(plain.residual, abs=1e-7)
    # log Z gains the Gaussian integral of the idle weight.
    gain = math.log(2 * math.pi / (beta * 0.05)) / 2 / beta
    assert found.lower + gain == pytest.approx(plain.lower, abs=1e-9)


def test_sampled_directions_agree_within_their_error():
    """Two columns of zeros, `D = 5`: four standard errors hold the closed form's residual."""
    X, y = data(5, 2)
    plain = solved(StationaryMeasure(X, y, lam=0.05, beta=100.0))
    wide = StationaryMeasure(np.column_stack([X, np.zeros((5, 2))]), y, lam=0.05, beta=100.0, n_samples=20_000)
    unreduced(wide)
    found = wide.certify(plain.residual)
    assert (found.method, found.bounded) == ("sampled", "sampled")
    assert found.mismatch <= found.mismatch_slack <= 0.3 * np.linalg.norm(y)
    solution = stationary_measure(wide)
    own = solution.certificate
    assert np.linalg.norm(own.residual - plain.residual) <= own.distance
    assert solution.status == "stalled"
    assert solution.reason == f"the gap is {own.gap:.1e}, above 1e-10."
    law = wide.at(own.residual)
    assert np.linalg.norm(law.predict(wide.X) - law.outputs) <= 1e-9
    share = law.concentration(np.eye(5)[:2], 0.4)
    assert 0 < share.probability_error < 0.1
    a, V = law.sample(1000, seed=0)
    assert a.shape == (1000, 1)
    assert V.shape == (1000, 5)


# Duality.


@pytest.mark.parametrize(("d", "m", "beta"), [(1, 0, 1e2), (1, 2, 1e4), (2, 0, 1e3), (2, 2, 1e2)])
def test_certified_from_both_sides(d, m, beta):
    """The solution to rounding; every other residual lower below and higher above, and no nearer than it says."""
    limit = StationaryMeasure(*data(5, d, m), lam=0.05, beta=beta)
    best = solved(limit)
    assert best.gap <= 1e-12
    assert best.distance <= 1e-9 * np.linalg.norm(limit.y)
    assert best.bounded == "proved"
    g = np.random.default_rng(3)
    for size in (1e-6, 1e-3):
        other = limit.certify(best.residual * (1 - 10 * size) + size * g.standard_normal(limit.y.shape) * 0.1)
        assert other.bounded == "proved"
        assert other.lower <= best.upper + best.slack
        assert other.upper >= best.lower - best.slack
        assert other.gap > 0
        assert np.linalg.norm(other.residual - best.residual) <= other.distance
        assert np.linalg.norm(other.outputs - best.outputs) <= other.distance


def test_free_energy_written_out():
    """`d = 1`, a residual that is not the solution's: `F(rho_r)` from its definition is the certificate's upper bound.

    Loss, `lam/2 E|theta|^2` and `E log rho` from integrals over the circle; the radial ones are Gaussian.
    """
    limit = StationaryMeasure(*data(4, 1), lam=0.1, beta=50.0)
    r = 0.5 * solved(limit).residual
    found = limit.certify(r)
    lam, beta = limit.lam, limit.beta

    def terms(t):
        R, features = brute(limit, r, np.array([[math.cos(t), math.sin(t)]]))
        R, room = R[0, 0], lam**2 - R[0, 0] ** 2
        weight = lam / (beta * room)  # the integral of s exp(-beta s^2 room / (2 lam)) ds
        s2 = 2 * lam / (beta * room)  # E[s^2 | u]
        a2 = R**2 / lam**2 * s2 + 1 / (beta * lam)
        return weight * np.array([1.0, s2 + a2, -(R**2) / lam * s2, *(-R / lam * s2 * features[0])])

    total = over_circle(limit, terms)
    Z = total[0] * math.sqrt(2 * math.pi / (beta * lam))
    square, cross, f = total[1] / total[0], total[2] / total[0], total[3:] / total[0]
    entropy_term = -beta * (cross + lam / 2 * square) - math.log(Z)
    free = ((f - limit.y) ** 2).sum() / 8 + lam / 2 * square + entropy_term / beta
    dual = -(r @ r) / 8 - r @ limit.y / 4 - math.log(Z) / beta
    assert found.upper == pytest.approx(free, abs=1e-11)  # the quadrature
    assert found.lower == pytest.approx(dual, abs=1e-11)
    assert found.difference == pytest.approx(free - dual, abs=2e-11)
    law = limit.at(r)
    assert law.free_energy == pytest.approx(free, abs=1e-11)
    assert law.log_partition == pytest.approx(math.log(Z), abs=1e-10)
    assert over_circle(limit, lambda t: law.density([[math.cos(t), math.sin(t)]]))[0] == pytest.approx(1, abs=1e-10)


def test_residuals_of_another_problem_do_not_pass():
    """Another weight decay, another temperature, another target: each leaves a gap."""
    X, y = data(5, 2)
    limit = StationaryMeasure(X, y, lam=0.05, beta=1e3)
    for other in (
        StationaryMeasure(X, y, lam=0.04, beta=1e3),
        StationaryMeasure(X, y, lam=0.05, beta=900.0),
        StationaryMeasure(X, y + 0.1 * np.eye(5)[4], lam=0.05, beta=1e3),
    ):
        assert limit.certify(solved(other).residual).gap > 1e-6


def test_outside_the_domain():
    """A residual so large that `|R|` exceeds `lam`: no measure, and bounds that say nothing."""
    limit = StationaryMeasure(*data(5, 2), lam=0.05, beta=1e3)
    found = limit.certify(-limit.y)
    assert (found.lower, found.upper, found.bounded, found.gap) == (-np.inf, np.inf, "violated", np.inf)
    assert refusal(lambda: limit.at(-limit.y)) == (
        "at this residual |R(u)| reaches `lam` = 0.05 on the sphere, so that the Gibbs measure cannot be normalised; "
        "scale the residual towards zero, or take the one of the solution."
    )


@pytest.mark.parametrize(("d", "m", "beta"), [(2, 0, 1e2), (2, 0, 1e5), (1, 2, 1e4)])
def test_every_start_ends_at_one_measure(d, m, beta):
    """Far outside, inside, at the solution: within the certified distance."""
    limit = StationaryMeasure(*data(5, d, m), lam=0.05, beta=beta)
    best = solved(limit)
    g = np.random.default_rng(1)
    starts = [-limit.y, 1e6 * g.standard_normal(limit.y.shape), 1e-3 * g.standard_normal(limit.y.shape), best.residual]
    for start in starts:
        found = solved(limit, start=start)
        assert np.linalg.norm(found.residual - best.residual) <= found.distance + best.distance
        assert found.gap <= 1e-12


@pytest.mark.parametrize("m", [0, 2])
def test_the_dual_is_concave(m):
    """Differences of outputs are those of the Hessian, which is positive: `G` curves down by at least `1/n`."""
    limit = StationaryMeasure(*data(5, 2, m), lam=0.05, beta=300.0)
    scaled = limit.scaled
    r = np.ldexp(0.8 * solved(limit).residual, -scaled.exponent).reshape(5, -1)
    partition = scaled.partition(r)
    assert partition is not None
    assert partition.hessian is not None
    matrix = partition.hessian.reshape(r.size, -1)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.linalg.eigvalsh(matrix)[-1]
    step = 1e-6 * np.random.default_rng(2).standard_normal(r.shape)
    up, down = scaled.partition(r + step), scaled.partition(r - step)
    assert up is not None
    assert down is not None
    moved = (matrix @ step.reshape(-1)).reshape(r.shape) / 5 / scaled.lam
    assert (up.gradient - down.gradient) / 2 == pytest.approx(moved, rel=1e-5, abs=1e-7 * np.abs(moved).max())


# The theory's numbers, both extremes.


def test_the_pages_shares():
    """The share of the mass within 0.1 rad of the zero-temperature directions: .35, .81, .97, .998 of the theory.

    The third and fourth are .963 and .9972 here, with errors below 1e-4; the theory's come from a grid.
    """
    X, y = data(5, 2)
    # Where |R| = lam at beta = infinity, to 1e-5: from beta = 1e7, where they are reproduced to 1e-7.
    directions = np.array([[-0.50740, 0.61663, 0.60192], [-0.81683, 0.30214, 0.49142]])
    cold = law_of(StationaryMeasure(X, y, lam=0.05, beta=1e7))
    assert np.linalg.norm(cold.relative_field(directions), axis=1) == pytest.approx(1, abs=1e-5)
    shares = []
    for beta in (1e2, 1e3, 1e4, 1e5):
        found = law_of(StationaryMeasure(X, y, lam=0.05, beta=beta)).concentration(directions, 0.1, tol=1e-3)
        assert found.mass_error <= 1e-3
        shares.append(found.mass)
    assert shares == pytest.approx([0.35, 0.81, 0.97, 0.998], abs=0.008)
    assert shares == pytest.approx([0.3460, 0.8053, 0.9633, 0.9972], abs=3e-4)
    assert cold.concentration(directions, 0.1, tol=1e-3).mass > 0.9999


@pytest.mark.parametrize(("d", "m"), [(1, 0), (2, 0), (1, 2)])
def test_cold(d, m):
    """`beta = 1e7`: rounding of `r` alone moves `f` by 1e-16 / (1 - max |R| / lam), which the slack says."""
    limit = StationaryMeasure(*data(6, d, m, seed=1), lam=0.05, beta=1e7)
    found = solved(limit)
    assert found.gap <= 1e-12
    assert found.relative_slack <= 1e-10
    assert found.distance <= 1e-5 * np.linalg.norm(limit.y)


def test_hot_is_gaussian():
    """`beta -> 0`: weights `N(0, 1/(beta lam))`, outputs `-(D/beta) int R relu / lam^2`, to first order in `r = -y`."""
    X, y = data(4, 1)
    limit = StationaryMeasure(X, y, lam=50.0, beta=1e-3)
    r = solved(limit).residual

    def terms(t):
        R, features = brute(limit, r, np.array([[math.cos(t), math.sin(t)]]))
        return -2 / limit.beta * R[0, 0] / limit.lam**2 * features[0] / (2 * math.pi)

    assert r + y == pytest.approx(over_circle(limit, terms), rel=1e-3)  # the next order, (R/lam)^2
    a, V = limit.at(r).sample(100_000, seed=2)
    assert (np.concatenate([a, V], axis=1) ** 2).mean(axis=0) == pytest.approx(
        20, rel=0.03
    )  # five errors of a variance


@pytest.mark.parametrize(("c", "s"), [(2.0**500, 1.0), (2.0**-500, 1.0), (1.0, 2.0**500), (2.0**-300, 2.0**450)])
def test_scale_free(c, s):
    """Targets, `lam` and `beta` scaled together, and inputs with `lam`: the same digits."""
    X, y = data(5, 2)
    plain = solved(StationaryMeasure(X, y, lam=0.05, beta=1e4, bias=False))
    scaled = StationaryMeasure(X * s, y * c, lam=0.05 * c * s, beta=1e4 / c**2, bias=False)
    found = solved(scaled)
    assert (found.residual / c == plain.residual).all()
    assert found.gap == plain.gap
    new = np.random.default_rng(4).standard_normal((3, 2))
    law = scaled.at(found.residual)
    other = StationaryMeasure(X, y, lam=0.05, beta=1e4, bias=False).at(plain.residual)
    assert law.predict(new * s) / c == pytest.approx(other.predict(new), rel=1e-12)
    a, V = law.sample(100, seed=0)
    b, W = other.sample(100, seed=0)
    assert a * (s / c) ** 0.5 == pytest.approx(b, rel=1e-9)
    assert V * (s / c) ** 0.5 == pytest.approx(W, rel=1e-9)


@pytest.mark.parametrize("X", [np.zeros((3, 1)), [[1.0], [1.0], [2.0]], [[0.0], [0.0], [0.0]], np.ones((3, 2))])
def test_degenerate_inputs(X):
    """Repeated inputs with different targets, inputs all zero, collinear ones: certified all the same."""
    limit = StationaryMeasure(X, [1.0, -0.5, 2.0], lam=0.1, beta=1e3)
    found = solved(limit)
    assert found.gap <= 1e-12
    X = np.asarray(X, dtype=float)
    if (X[0] == X[1]).all():
        assert found.outputs[0] == pytest.approx(found.outputs[1], abs=1e-12)


def test_nothing_to_learn():
    """Targets of zero: no residual, no output, any temperature; one row, no columns but the bias: `D = 1`."""
    found = solved(StationaryMeasure([[1.0], [2.0]], [0.0, 0.0], lam=0.1, beta=1e5))
    assert (found.residual == 0).all()
    assert (found.outputs == 0).all()
    assert (found.gap, found.relative_slack, found.size) == (0.0, 0.0, 0.0)
    one = StationaryMeasure(np.zeros((1, 0)), [1.0], lam=0.1, beta=100.0)
    r = float(solved(one).residual[0])
    # On the half line v > 0, R = r: E[a v] = -(1/beta) r (lam^2 - r^2)^{-3/2} over (lam^2 - r^2)^{-1/2} + 1/lam.
    room = 0.01 - r**2
    assert r + 1 == pytest.approx(-r / 100 * room**-1.5 / (room**-0.5 + 10), rel=1e-9)


# Refusals.


def test_refusals():
    """In the user's words."""
    X, y = data(4, 2)

    def make(X: Any = X, y: Any = y, **options):
        return lambda: StationaryMeasure(X, y, **{"lam": 0.1, "beta": 10.0, **options})

    assert refusal(make(lam=0)) == (
        "`lam` must be positive: without weight decay (`lam` = 0) the stationary density cannot be normalised: nothing "
        "holds large weights back. Take `lam` > 0."
    )
    assert refusal(make(lam=-1.0)) == "`lam` must be positive and finite; got -1.0."
    assert refusal(make(beta=np.inf)) == (
        "`beta` must be finite; the limit `beta` -> infinity is another problem, `ConvexReluNet(X, y, lam=...)`."
    )
    assert refusal(make(beta=0)) == "`beta` must be positive and finite; got 0.0."
    assert refusal(make(beta=np.nan)) == "`beta` must be positive and finite; got nan."
    assert refusal(make(lam=[1, 2])) == "`lam` must be one number; got shape (2,)."
    assert refusal(make(X=X[:, 0])) == "`X` must have shape (n, d); got (4,)."
    assert refusal(make(y=y[:3])) == "`X` has shape (4, 2) and `y` has shape (3,): 4 rows against 3."
    assert refusal(make(y=y[:, None, None])) == "`y` must have shape (n,) or (n, m), m >= 1; got (4, 1, 1)."
    assert refusal(make(X=X[:0], y=y[:0])) == "`X` has no rows; the measure needs at least one data point."
    assert refusal(make(X=X[:, :0], bias=False)) == "`X` has no columns and there is no bias: no neuron has a weight."
    assert refusal(make(y=[0, np.nan, 0, 0])) == "`y[1]` is nan; every entry must be finite."
    assert refusal(make(bias="no"), TypeError) == "`bias` must be True or False; got 'no'."
    assert refusal(make(n_samples=10)) == "`n_samples` must be at least 10000; got 10."
    assert refusal(make(beta=1e-300, y=1e-10 * y)).startswith("`lam` = 0.1 and `beta` = 1e-300 with inputs of size ")
    limit = make()()
    assert refusal(lambda: limit.certify([1.0])) == "`residual` must have shape (4,); got (1,)."
    assert refusal(lambda: stationary_measure(limit, start=[1.0])) == "`start` must have shape (4,); got (1,)."
    assert refusal(lambda: stationary_measure(limit, tol=0)) == "`tol` must lie between 0 and 1, both excluded; got 0."
    wrong: Any = "limit"
    assert refusal(lambda: stationary_measure(wrong), TypeError) == "`limit` must be a StationaryMeasure; got str."
    law = law_of(limit)
    assert refusal(lambda: law.density([[1.0, 2.0]])) == "`directions` must have shape (K, 3); got (1, 2)."
    assert refusal(lambda: law.density([[0.0, 0.0, 0.0]])) == "`directions[0]` is zero; a direction has a length."
    assert refusal(lambda: law.concentration(np.eye(3), 4.0)) == (
        "`angle` must lie between 0 and pi, in radians; got 4.0."
    )
    assert refusal(lambda: law.predict([[1.0]])) == "`X` has 1 columns; the measure was made from 2."
    assert refusal(lambda: law.sample(0)) == "`n_particles` must be at least 1; got 0."
    assert refusal(lambda: law.concentration(np.eye(3), 0.1, tol=0)) == (
        "`tol` must lie between 0 and 1, both excluded; got 0.0."
    )


# The span of the inputs, and extreme sizes.


@pytest.mark.parametrize(("n", "d", "m"), [(1, 4, 0), (2, 6, 2), (3, 5, 0)])
def test_fewer_inputs_than_dimensions(n, d, m):
    """Particles have the law at inputs in the span and off it; the density is normalised on the sphere of `R^D`."""
    limit = StationaryMeasure(*data(n, d, m), lam=0.3, beta=30.0)
    found = solved(limit)
    assert found.method == "closed form"
    law, N = limit.at(found.residual), 200_000
    a, V = law.sample(N, seed=1)
    new = np.random.default_rng(9).standard_normal((3, d))
    for X, f in ((limit.X, law.outputs), (new, law.predict(new))):
        each = np.maximum(V @ limit.augmented(X).T, 0)[:, :, None] * a[:, None]
        error = each.std(axis=0) / math.sqrt(N)
        assert (np.abs(each.mean(axis=0) - f.reshape(len(X), -1)) <= 5 * error).all()
    u = np.random.default_rng(3).standard_normal((N, d + 1))
    density = law.density(u) * 2 * math.pi ** ((d + 1) / 2) / math.gamma((d + 1) / 2)
    assert density.mean() == pytest.approx(1, abs=5 * density.std() / math.sqrt(N))
    near = np.abs(V[:, 0]) >= math.cos(0.8) * np.linalg.norm(V, axis=1)
    share = law.concentration(np.eye(d + 1)[:1] * [[1.0], [-1.0]], 0.8, tol=1e-2)
    assert abs(near.mean() - share.probability) <= share.probability_error + 5 * near.std() / math.sqrt(N)


def test_the_span_alone_is_the_whole():
    """`D = 3` with a column of zeros, in its span of two and in all three: every number of the law to rounding."""
    X, y = data(4, 1)
    limit, whole = (StationaryMeasure(np.column_stack([X, np.zeros(4)]), y, lam=0.1, beta=1e3) for _ in range(2))
    unreduced(whole)
    one, two = law_of(limit), law_of(whole)
    assert one.log_partition == pytest.approx(two.log_partition, rel=1e-12)
    u, new = np.random.default_rng(0).standard_normal((5, 3)), np.random.default_rng(1).standard_normal((5, 2))
    assert one.density(u) == pytest.approx(two.density(u), rel=1e-9)
    assert one.predict(new) == pytest.approx(two.predict(new), rel=1e-9)
    shares = [law.concentration(u[:1], 0.5, tol=1e-3) for law in (one, two)]
    assert all(share.reached for share in shares)
    assert abs(shares[0].mass - shares[1].mass) <= shares[0].mass_error + shares[1].mass_error


def test_sizes_of_inputs_and_directions():
    """Squares of these leave double precision; nothing depends on them."""
    X, y = data(4, 1)
    k = 2.0**520
    law = law_of(StationaryMeasure(X * k, y, lam=0.05 * k, beta=100.0, bias=False))
    assert law.predict(X * k) == pytest.approx(law.outputs, rel=1e-12, abs=1e-14)
    law = law_of(StationaryMeasure(X, y, lam=0.05, beta=100.0))
    assert law.predict([[1e300]])[0] == pytest.approx(1e280 * law.predict([[1e20]])[0], rel=1e-12)
    u = np.array([[0.3, 0.4]])
    for size in (1e200, 1e-170, 1e-300):
        assert law.density(size * u) == pytest.approx(law.density(u), rel=1e-12)
    assert law.concentration([[0, 1e300]], 0.1) == law.concentration([[0, 1]], 0.1)
    assert not law.concentration([[0, 1]], 0.1, tol=1e-15).reached


def test_a_residual_far_outside():
    limit = StationaryMeasure(*data(4, 1), lam=0.05, beta=100.0)
    assert limit.certify(np.full(4, 1e308)).bounded == "violated"


@pytest.mark.parametrize("m", [0, 2])
def test_sampled_domain_is_checked_on_every_cell(m):
    """`D = 5`: residuals scaled to just inside and just outside, by the largest `|R|` that a plain search knows of."""
    limit = StationaryMeasure(*data(7, 4, m), lam=0.3, beta=10.0, n_samples=10_000)
    r = np.random.default_rng(2).standard_normal(limit.y.shape)
    u = np.random.default_rng(3).standard_normal((200_000, 5))
    R, _ = brute(limit, r, u / np.linalg.norm(u, axis=1, keepdims=True))
    top = np.linalg.norm(R, axis=1).max()
    # A plain search falls short of the largest, never beyond it.
    assert limit.certify(r * limit.lam / top).bounded == "violated"
    inside = limit.certify(0.8 * r * limit.lam / top)
    assert inside.bounded in (("proved",) if m == 0 else ("proved", "sampled"))
    assert inside.method == "sampled"
