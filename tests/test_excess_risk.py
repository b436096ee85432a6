"""Excess risk against its definition with the covariance written out, and the laws of the spectrum against draws."""

import dataclasses
import math
import re

import numpy as np
import pytest
from scipy.integrate import quad

from omegalimit._threads import one_blas_thread
from omegalimit.data.spike_designs import Tail, flat_tail, power_tail, spike_design, wishart
from omegalimit.limits import spectrum_law
from omegalimit.limits.excess_risk import ExcessRisk, choose, hold_out_factor
from omegalimit.limits.spectral_filters import flow_filter, negative_ridge_filter, ridge_filter

EPS = float(np.finfo(float).eps)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_blas_thread():
        yield


def small(n=12, d=30, seed=0, scale=1.0):
    """A design with a full covariance, everything drawn and written out."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) / math.sqrt(d)
    X = rng.standard_normal((n, d)) @ root.T
    return X * scale, root @ root.T * scale**2, rng.standard_normal(d) / scale


def estimator(X, f):
    """The matrix M with b = M y: the filter on the singular vectors, smallest eigenvalue first."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    kept = s > s[0] * max(X.shape) * EPS
    U, s, Vt = U[:, kept][:, ::-1], s[kept][::-1], Vt[kept][::-1]
    return (Vt.T * (f / s)) @ U.T


def by_definition(X, Sigma, b, sigma, f):
    M = estimator(X, f)
    off = M @ X @ b - b
    return off @ Sigma @ off + sigma**2 * np.trace(Sigma @ M @ M.T)


# The quadratic form.


@pytest.mark.parametrize(("n", "d"), [(12, 30), (30, 12), (15, 15)])
def test_the_risk_is_its_definition(n, d):
    X, Sigma, b = small(n, d)
    risk = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.3)
    rank = min(n, d)
    assert risk.m.shape == (rank,)
    assert risk.n_null == n - rank
    f = np.random.default_rng(1).uniform(0, 3, (2, 4, rank))
    expected = risk.expected(f)
    assert expected.shape == (2, 4)
    condition = risk.m[-1] / risk.m[0]
    for i in np.ndindex(2, 4):
        # The interpolant's size, up to condition times the data's, sets the rounding.
        assert expected[i] == pytest.approx(by_definition(X, Sigma, b, 0.3, f[i]), rel=100 * EPS * condition)
    np.testing.assert_allclose(risk.bias(f) + risk.variance(f), expected, rtol=4 * EPS)


def test_the_risk_with_the_noise_as_drawn():
    X, Sigma, b = small()
    risk = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.3)
    noise = np.random.default_rng(2).standard_normal(12)
    f = np.linspace(0.5, 1.5, 12)
    off = estimator(X, f) @ (X @ b + noise) - b
    assert risk.given(f, noise) == pytest.approx(off @ Sigma @ off, rel=1e-12)
    assert risk.given(f, np.zeros(12)) == pytest.approx(risk.bias(f), rel=1e-13)


def test_a_diagonal_covariance_may_be_given_as_a_vector():
    X, _, b = small()
    variances = np.linspace(0.1, 2, 30)
    first = ExcessRisk.from_design(X, b, covariance=variances, sigma=0.3)
    second = ExcessRisk.from_design(X, b, covariance=np.diag(variances), sigma=0.3)
    np.testing.assert_allclose(first.A, second.A, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e140])
def test_units_of_the_columns_change_no_risk(scale):
    X, Sigma, b = small()
    plain = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.3)
    scaled = ExcessRisk.from_design(X * scale, b / scale, covariance=Sigma, sigma=0.3)
    f = np.linspace(0.2, 2, 12)
    # Sigma is left as it was, so all risks are divided by scale^2, the variance as well.
    assert scaled.expected(f) * scale**2 == pytest.approx(plain.expected(f), rel=1e-9)
    np.testing.assert_array_equal(scaled.amplification.worth, plain.amplification.worth)


def test_a_design_without_full_rank_keeps_what_it_can():
    X, Sigma, b = small()
    X = np.vstack([X, X[:3]])  # three rows twice
    risk = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.3)
    assert (risk.m.size, risk.n_null) == (12, 3)
    f = np.linspace(0.2, 2, 12)
    assert risk.expected(f) == pytest.approx(by_definition(X, Sigma, b, 0.3, f), rel=1e-10)


def test_the_best_of_a_grid():
    X, Sigma, b = small()
    risk = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.3)
    f = ridge_filter(risk.m, np.geomspace(1e-3, 1e3, 50))
    best = risk.best(f)
    one_by_one = [risk.expected(row) for row in f]
    assert best.index == int(np.argmin(one_by_one))
    assert best.risk == pytest.approx(min(one_by_one), rel=1e-13)


# The amplification rule.


def test_slopes_at_the_interpolant_are_price_minus_gain():
    X, Sigma, b = small()
    risk = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.3)
    slopes = [
        (by_definition(X, Sigma, b, 0.3, 1 + 0.5 * e) - by_definition(X, Sigma, b, 0.3, 1 - 0.5 * e))
        for e in np.eye(12)
    ]
    np.testing.assert_allclose(slopes, 2 * (risk.price - risk.gain), rtol=0, atol=1e-10 * np.abs(slopes).max())
    assert 0 < risk.amplification.worth.sum() < 12  # the data show both sides of the rule


def test_nothing_is_worth_amplifying_under_an_isotropic_covariance():
    X, _, b = small()
    risk = ExcessRisk.from_design(X, b, covariance=np.ones(30), sigma=0.3)
    # c_i (V' b_perp)_i is zero: what is left is rounding of V'b - (V'V) V'b.
    assert np.abs(risk.gain).max() < 1e-12 * np.abs(risk.c).max() ** 2
    assert not risk.amplification.worth.any()


# Hold-out.


def test_the_hold_out_factor():
    x = math.log(2 * 10 / 0.05)
    assert hold_out_factor(10, 400, 0.05) == pytest.approx(
        (1 + 2 * math.sqrt(x / 400) + 2 * x / 400) / (1 - 2 * math.sqrt(x / 400)), rel=1e-14
    )
    assert hold_out_factor(10, 23, 0.05) == math.inf  # m <= 4 x = 23.97
    assert hold_out_factor(10, 24, 0.05) < math.inf
    assert hold_out_factor(10, 10**9, 0.05) == pytest.approx(1, abs=1e-3)


def test_the_hold_out_inequality_covers_as_it_promises():
    """Two thousand choices among ten Gaussian residuals of known size, at alpha = 0.2: far fewer than 400 may fail."""
    rng = np.random.default_rng(0)
    sizes = np.linspace(1.0, 2.0, 10)
    factor = hold_out_factor(10, 60, 0.2)
    losses = sizes * rng.chisquare(60, (2000, 10)) / 60
    chosen = sizes[[choose(row) for row in losses]]
    assert 1 < factor < math.inf
    assert np.mean(chosen > factor * sizes[0]) <= 0.2
    assert np.mean(chosen > sizes[0]) > 0.2  # the best is missed often: without the factor it would not hold


def test_choosing_leaves_out_what_is_not_finite():
    assert choose(np.array([math.nan, math.inf, 3.0, 2.0, 2.0])) == 3
    with pytest.raises(ValueError, match=r"^none of the 2 losses is finite: there is nothing to choose\.$"):
        choose(np.array([math.nan, math.inf]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hold_out_factor(0, 1, 0.1), "candidates and points must number at least 1; got 0 and 1."),
        (lambda: hold_out_factor(1, 1, 1.0), "`alpha` must lie between 0 and 1; got 1.0."),
        (
            lambda: ExcessRisk.from_design(np.ones((2, 3)), np.ones(2), covariance=np.ones(3), sigma=1.0),
            "`X` has shape (2, 3) and `b_star` has shape (2,): 3 columns and coefficients against 2.",
        ),
        (
            lambda: ExcessRisk.from_design(np.ones((2, 3)), np.ones(3), covariance=np.ones(4), sigma=1.0),
            "`covariance` must have shape (3, 3) or (3,); got (4,).",
        ),
        (
            lambda: ExcessRisk.from_design(np.ones((2, 3)), np.ones(3), covariance=np.ones(3), sigma=-1.0),
            "`sigma` must be finite and not negative; got -1.0.",
        ),
        (
            lambda: ExcessRisk.from_design(np.zeros((2, 3)), np.ones(3), covariance=np.ones(3), sigma=1.0),
            "`gram` is zero: there is nothing to fit with.",
        ),
        (
            lambda: ExcessRisk.from_design(np.eye(3), np.ones(3), covariance=np.ones(3), sigma=1.0).expected(
                np.ones(2)
            ),
            "a filter needs one value for each of the 3 eigenvalues `m` along its last axis; got shape (2,).",
        ),
    ],
)
def test_bad_arguments_are_told(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


# Designs that are drawn.


def test_a_drawn_design_is_its_seed():
    first, second = (spike_design(30, (2.0,), flat_tail(0.1, 90), seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.gram, second.gram)
    np.testing.assert_array_equal(first.y, second.y)
    assert not np.array_equal(first.gram, spike_design(30, (2.0,), flat_tail(0.1, 90), seed=8).gram)


def test_bartletts_matrix_has_the_moments_of_wisharts():
    """Mean p I, variances 2p on and p off the diagonal; 4000 draws give each to its standard error, four of them."""
    n, p, draws = 4, 9, 4000
    rng = np.random.default_rng(0)
    W = np.array([wishart(n, p, rng) for _ in range(draws)])
    variances = np.where(np.eye(n) == 1, 2.0 * p, 1.0 * p)
    np.testing.assert_array_less(np.abs(W.mean(axis=0) - p * np.eye(n)), 4 * np.sqrt(variances / draws))
    # The variance of a sample variance: kurtosis is at most 3 + 12/p for chi-square, more off the diagonal.
    np.testing.assert_allclose(W.var(axis=0), variances, rtol=4 * math.sqrt((2 + 6 / p * 4) / draws))


@pytest.mark.parametrize(
    "tail", [Tail(eigenvalues=(0.5, 0.1), counts=(3, 40)), power_tail(200, exponent=0.7, trace=4.0)]
)
def test_grams_of_a_tail_have_its_traces(tail):
    """E tr(X_T X_T') = n tr Sigma, E tr(X_T Sigma X_T') = n tr Sigma^2; variances 2 n tr Sigma^2 and 2 n tr Sigma^4."""
    n, draws = 20, 300
    designs = [spike_design(n, (1.0,), tail, seed=s) for s in range(draws)]
    lam, count = np.array(tail.eigenvalues), np.array(tail.counts)
    for power, grams in ((1, [d.tail_gram for d in designs]), (2, [d.tail_gram_squared for d in designs])):
        error = 4 * math.sqrt(2 * n * np.sum(lam ** (2 * power) * count) / draws)
        assert abs(np.mean([np.trace(g) for g in grams]) - n * np.sum(lam**power * count)) < error
    assert tail.effective_rank == pytest.approx(np.sum(lam * count) ** 2 / np.sum(lam**2 * count), rel=1e-14)


def test_a_design_by_grams_is_one_by_columns():
    """With the tail's columns known, the two ways to the risk agree."""
    rng = np.random.default_rng(3)
    n, head, lam = 15, np.array([2.0, 0.5]), rng.uniform(0.05, 0.2, 40)
    X = rng.standard_normal((n, 42)) * np.sqrt(np.concatenate([head, lam]))
    b = np.concatenate([[0.7, -1.0], np.zeros(40)])
    direct = ExcessRisk.from_design(X, b, covariance=np.concatenate([head, lam]), sigma=0.1)
    X_T = X[:, 2:]
    grams = ExcessRisk.from_gram(
        X @ X.T,
        (X[:, :2] * head) @ X[:, :2].T + (X_T * lam) @ X_T.T,
        signal=X[:, :2] @ b[:2],
        weighted_signal=X[:, :2] @ (head * b[:2]),
        signal_power=float(np.sum(head * b[:2] ** 2)),
        sigma=0.1,
    )
    f = np.linspace(0.5, 2.0, n)
    assert grams.expected(f) == pytest.approx(direct.expected(f), rel=1e-12)


def test_the_columns_of_a_design_have_its_gram():
    d = spike_design(25, (2.0, 0.5), flat_tail(0.1, 60), seed=0)
    np.testing.assert_allclose(d.columns() @ d.columns().T, d.gram, rtol=0, atol=1e-12 * np.abs(d.gram).max())
    short = spike_design(25, (2.0,), flat_tail(0.1, 10), seed=0)  # fewer tail dimensions than observations
    np.testing.assert_allclose(short.columns() @ short.columns().T, short.gram, rtol=0, atol=1e-12 * short.gram.max())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spike_design(20, (), flat_tail(0.1, 30)), "`head` is empty; give at least one variance."),
        (
            lambda: spike_design(20, (0.0,), flat_tail(0.1, 30)),
            "a head eigenvalue must be positive and finite; got 0.0.",
        ),
        (lambda: flat_tail(-1.0, 3), "a tail eigenvalue must be positive and finite; got -1.0."),
        (lambda: flat_tail(1.0, 0), "`tail count` must be at least 1; got 0."),
        (lambda: spike_design(1, (1.0,), flat_tail(0.1, 30)), "`n` must be at least 2; got 1."),
        (
            lambda: spike_design(20, (1.0,), flat_tail(0.1, 30), b_head=(1.0, 2.0)),
            "`b_head` needs 1 finite coefficients, one for each of `head`; got (1.0, 2.0).",
        ),
        (
            lambda: Tail(eigenvalues=(1.0,), counts=(1, 2)),
            "a tail needs one count for each eigenvalue; got 1 and 2.",
        ),
    ],
)
def test_bad_designs_are_told(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


# Laws of the spectrum.


def test_edges_head_and_fluctuation_of_the_smallest_eigenvalue():
    """Twenty designs of n = 200 under 8000 flat dimensions: edge plus Tracy-Widom's mean, and the head by BBP."""
    n, a, level, head, draws = 200, 1.0, 0.025, 1.0, 20
    edges = spectrum_law.marchenko_pastur_edges(a, level)
    mean, sd = spectrum_law.edge_fluctuation(level, n, 8000)
    spectra = []
    for s in range(draws):
        spectra.append(np.linalg.eigvalsh(spike_design(n, (head,), flat_tail(level, 8000), seed=s).gram / n))
    least, top, second = (np.array([m[i] for m in spectra]) for i in (0, -1, -2))
    # The law's own finite-n error is of relative order n^(-2/3) of its scale.
    assert abs(least.mean() - edges.lower - mean) < 4 * sd / math.sqrt(draws) + mean * n ** (-2 / 3)
    assert abs(second.mean() - edges.upper) < 0.05  # on the same scale, from below
    # The head's own variance fluctuates by sqrt(2/n).
    location = spectrum_law.head_location(a, level, head)
    assert abs(top.mean() - location) < 4 * math.sqrt(2 / n) * head / math.sqrt(draws)
    assert abs(location - (a + head)) > 0.02  # the correction is there
    assert np.isnan(spectrum_law.head_location(a, level, 0.1))


@pytest.mark.parametrize("h", [0.05, 0.1, 0.1585, 0.4, 4.0])
@pytest.mark.parametrize("t", [0.1, 1.0, 10.0])
def test_head_recovery_is_the_integral_of_its_measure(h, t):
    w = 0.158114

    def density(x):
        return math.sqrt(max(4 * w * w - x * x, 0.0)) / (2 * math.pi * (w * w + h * h - h * x))

    def kernel(x):
        return -math.expm1(-t * x) / x if x else t

    outlier = max(0.0, 1 - (w / h) ** 2) * kernel(h + w * w / h)
    bulk = quad(lambda x: density(x) * kernel(x), -2 * w, 2 * w, limit=400, epsabs=1e-13, epsrel=1e-12)[0]
    # Near h = w the density is sharp at the bulk's end, which costs the reference digits and not the rule.
    assert spectrum_law.head_recovery(h, w, t) == pytest.approx(h * (outlier + bulk), rel=1e-7)


def test_head_recovery_for_a_bulk_without_width():
    t = np.array([0.0, 0.5, 3.0])
    np.testing.assert_allclose(spectrum_law.head_recovery(0.4, 0.0, t), 1 - np.exp(-0.4 * t), rtol=1e-14)
    np.testing.assert_allclose(spectrum_law.head_recovery(0.4, 1e-6, t), 1 - np.exp(-0.4 * t), rtol=1e-9)


def test_head_recovery_of_draws():
    """The mean over twenty designs of what the flow recovers under nu = a is the law's, within its standard error."""
    n, draws, t = 200, 20, np.array([2.5, 6.0])
    found = []
    for s in range(draws):
        d = spike_design(n, (0.4,), flat_tail(0.025, 8000), seed=s)
        m, U = np.linalg.eigh(d.gram / n)
        x = U.T @ d.X_head[:, 0]
        empirical = float(d.X_head[:, 0] @ d.X_head[:, 0]) / n
        law = spectrum_law.head_recovery(empirical, math.sqrt(0.025), t)
        found.append(((flow_filter(m, 1.0, t) / m) @ x**2) / n - law)
    mean = np.mean(found, axis=0)
    error = spectrum_law.recovery_error(0.4, math.sqrt(0.025), t, n=n) / math.sqrt(draws)
    # Beyond the semicircle the bulk is skew: of relative order w/a in w^2.
    skew = 0.025**1.5 * t * np.exp(2 * math.sqrt(0.025) * t)
    np.testing.assert_array_less(np.abs(mean), 4 * error + skew)
    assert np.abs(spectrum_law.head_recovery(0.4, math.sqrt(0.025), t) - (1 - np.exp(-0.4 * t))).max() > 0.1


def test_floor_width_and_price():
    assert spectrum_law.floor(200.0, 200) == 1.0
    assert spectrum_law.bulk_width(5.0, 200) == pytest.approx(math.sqrt(0.025))
    assert spectrum_law.tail_price(200.0, 5.0, n=200, sigma=0.1) == pytest.approx(0.01 * 200 * 5 / 200**2)
    assert spectrum_law.ridgeless_recovery(1.0, 4.0) == 0.8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: spectrum_law.marchenko_pastur_edges(0.5, 1.0),
            "the tail has 0.5 dimensions for each observation; its nonzero bulk stands off zero only from 1 on: take a "
            "floor `a` of at least `level`.",
        ),
        (lambda: spectrum_law.floor(-1.0, 3), "`trace` must be positive and finite; got -1.0."),
        (lambda: spectrum_law.floor(1.0, 0), "`n` must be a whole number of at least 1; got 0."),
        (lambda: spectrum_law.head_recovery(1.0, -1.0, 1.0), "`width` must be finite and not negative; got -1.0."),
        (
            lambda: spectrum_law.edge_fluctuation(1.0, 10, 10),
            "the law of the lower edge needs more tail dimensions than observations; got 10 and 10.",
        ),
    ],
)
def test_bad_spectra_are_told(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


# The numbers on the theory page, six designs each; (mean, standard error) of other draws of the same law.


ONE = {
    "ridgeless": (0.24394, 0.0097),
    "endpoint": (0.06238, 0.0024),
    "a + lh": (0.02788, 0.0007),
    "oracle": (0.02408, 0.0009),
    "hold-out": (0.02419, 0.0009),
    "rescaling": (0.02415, 0.0009),
    "floor-critical": (0.0257, 0.0009),
}
TWO = {"ridgeless": (0.28580, 0.0093), "endpoint": (0.12313, 0.0048), "oracle": (0.08031, 0.0043)}
TWO |= {"rescaling": (0.20738, 0.0085), "floor-critical": (0.081, 0.0043)}


@pytest.mark.parametrize(
    ("head", "first", "page"), [((1.0,), 100, ONE), ((4.0, 0.4), 300, TWO)], ids=["one head", "two heads"]
)
def test_the_table_of_risks(head, first, page):
    """Grids as on the page: nu in linspace(0, 2 (a + lh), 21), t (a + lh) in logspace(-2, 1, 31), shares of m_min+."""
    rows = []
    for s in range(first, first + 6):
        design = spike_design(
            200, head, flat_tail(0.025, 8000), b_head=[1 / math.sqrt(len(head) * h) for h in head], seed=s
        )
        risk = ExcessRisk.from_gram(
            design.gram,
            design.gram_squared,
            signal=design.signal,
            weighted_signal=design.weighted_signal,
            signal_power=design.signal_power,
            sigma=0.1,
        )
        scale, one = 1 + min(head), np.ones(200)
        nu, t = np.linspace(0, 2 * scale, 21), np.logspace(-2, 1, 31) / scale
        grid = flow_filter(risk.m, nu[:, None], t[None, :])
        coarse = grid[::2, ::2].reshape(-1, 200)
        z = coarse * (risk.c + risk.noise(design.noise))
        root = np.linalg.cholesky(
            np.block([[risk.A, risk.s[:, None]], [risk.s[None, :], np.array([[risk.q]])]]) + 1e-12 * np.eye(201)
        )
        rng = np.random.default_rng([s, 1])
        points = rng.standard_normal((200, 201)) @ root.T
        y = points[:, -1] + 0.1 * rng.standard_normal(200)
        chosen = choose(np.mean((points[:, :-1] @ z.T - y[:, None]) ** 2, axis=0))
        rows.append(
            {
                "ridgeless": risk.expected(one),
                "endpoint": risk.best(negative_ridge_filter(risk.m, np.linspace(0, 0.999, 60) * risk.m[0])).risk,
                "a + lh": risk.expected(flow_filter(risk.m, scale, 1 / min(head))),
                "oracle": risk.best(grid.reshape(-1, 200)).risk,
                "hold-out": risk.given(coarse[chosen], design.noise),
                "rescaling": risk.best(np.linspace(0.5, 3, 51)[:, None] * one).risk,
                "floor-critical": risk.best(flow_filter(risk.m, 1.0, np.geomspace(0.1, 100, 200))).risk,
                "least": risk.m[0],
                "top": risk.m[-1],
            }
        )
        # Ridge penalties do not help: as on the page, the best is none.
        assert risk.best(ridge_filter(risk.m, np.r_[0, np.geomspace(1e-4, 1e2, 50)])).index == 0
    for name, (mean, error) in page.items():
        values = [row[name] for row in rows]
        own = np.std(values, ddof=1) / math.sqrt(6)
        assert abs(np.mean(values) - mean) < 4 * math.hypot(own, error), name
    # Standard deviations of one design: Tracy and Widom's 0.0047; of a head's eigenvalue sqrt(2/n) of its variance.
    assert abs(np.mean([row["least"] for row in rows]) - 0.7155) < 4 * 0.0047 * math.sqrt(2 / 6)
    if head == (1.0,):
        assert abs(np.mean([row["top"] for row in rows]) - 2.0530) < 4 * math.sqrt(2 / 200) * math.sqrt(2 / 6)


def test_a_weak_head_is_seen_where_the_page_says():
    tops = [
        np.linalg.eigvalsh(spike_design(200, (0.3,), flat_tail(0.025, 8000), seed=s).gram / 200)[-1] for s in range(6)
    ]
    assert abs(np.mean(tops) - 1.3932) < 4 * 0.3 * math.sqrt(2 / 200) * math.sqrt(2 / 6)


def test_a_filter_that_has_diverged_has_an_infinite_risk_and_is_not_the_best():
    X, Sigma, b = small()
    risk = ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.1)
    nu = 1.05 * float(np.median(risk.m))
    f = flow_filter(risk.m, nu, np.array([math.inf, 1 / nu, 500 / nu]))
    expected = risk.expected(f)
    assert expected[0] == expected[2] == math.inf  # squares of e^500 among the last
    assert risk.best(f) == (expected[1], 1)
    assert risk.expected(f[0]) == risk.bias(f[0]) == risk.variance(f[0]) == math.inf
    assert risk.given(f[0], np.ones(risk.n)) == math.inf
    # A mode that carries neither signal nor noise counts as well.
    silent = dataclasses.replace(risk, c=np.zeros_like(risk.c), sigma=0.0)
    assert silent.expected(f[0]) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.given(np.ones(12), np.ones(5)),
         "`noise` needs one value for each of the 12 observations; got shape (5,)."),
        (lambda r: r.best(np.full((1, 12), math.nan)),
         "`f[0, 0]` is NaN; a filter that has diverged is infinite there."),
        (lambda r: r.best(np.empty((0, 12))), "there is no filter among `f` to choose from."),
    ],
)  # fmt: skip
def test_bad_arguments_of_risks_are_told(call, message):
    X, Sigma, b = small()
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(ExcessRisk.from_design(X, b, covariance=Sigma, sigma=0.1))


def test_a_covariance_that_is_none_is_refused():
    X, Sigma, b = small()

    def refused(covariance):
        with pytest.raises(ValueError, match=r"^`covariance` ") as caught:
            ExcessRisk.from_design(X, b, covariance=covariance, sigma=0.1)
        return str(caught.value)

    assert refused(-np.ones(30)) == "`covariance` has the negative variance -1; variances are 0 at least."
    assert re.fullmatch(
        r"`covariance` has the negative eigenvalue -[\d.]+; it must be positive semidefinite\.", refused(-Sigma)
    )
    lopsided = np.eye(30)
    lopsided[3, 7] = 0.5
    assert refused(lopsided) == "`covariance` is not symmetric: entry [3, 7] is 0.5, and [7, 3] is 0."
    # Singular, rounded, at any scale: all that a covariance may be.
    for scale in (1e-150, 1.0, 1e150):
        ExcessRisk.from_design(X, b, covariance=np.outer(b, b) * scale, sigma=0.1)
    with pytest.raises(TypeError, match=r"^`sigma` must hold real numbers; it holds text"):
        ExcessRisk.from_design(X, b, covariance=Sigma, sigma="a")  # pyright: ignore[reportArgumentType] - on purpose


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: spike_design(20, 1.0, flat_tail(0.1, 90)), ValueError,  # pyright: ignore[reportArgumentType] - on purpose
         "`head` must be a list of variances; got shape ()."),
        (lambda: spike_design(20, [1.0], 0.025), TypeError,  # pyright: ignore[reportArgumentType] - on purpose
         "`tail` must be a `Tail`, as `flat_tail(level, count)` makes one; got 0.025."),
        (lambda: spike_design(20, [1.0], flat_tail(0.1, 90), sigma="a"), TypeError,  # pyright: ignore[reportArgumentType] - on purpose
         "`sigma` must hold real numbers; it holds text (dtype <U1)."),
    ],
)  # fmt: skip
def test_arguments_of_designs_that_are_of_another_type_are_told(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(
    ("n", "aspect", "head"),
    [
        (40, 40, (4.0, 0.4)),
        (60, 10, (8.0, 4.0, 2.0, 1.0)),
        (60, 40, tuple(0.5 + 0.1 * i for i in range(12))),
        (40, 3, ()),
    ],
)
def test_the_lower_edge_is_where_draws_have_it(n, aspect, head):
    """Heads take rows: twelve of them in sixty move the edge by more than all that is allowed here."""
    level, draws = 1 / aspect, 400
    law = spectrum_law.lower_edge(n, n * aspect, level=level, head=head)
    rng = np.random.default_rng(0)
    least = []
    for _ in range(draws):
        X = rng.standard_normal((n, len(head))) * np.sqrt(head)
        least.append(np.linalg.eigvalsh((X @ X.T + level * wishart(n, n * aspect, rng)) / n)[0])
    assert abs(np.mean(least) - law.mean) <= law.error + 4 * law.deviation / math.sqrt(draws)
    assert 0.8 <= np.std(least) / law.deviation <= 1.1  # 4 / sqrt(2 draws) is 0.14; the deviation allows for its error
    if len(head) == 12:
        without = spectrum_law.lower_edge(n, n * aspect, level=level, head=())
        assert abs(np.mean(least) - without.mean) > without.error + 4 * without.deviation / math.sqrt(draws)


def test_the_lower_edge_needs_rows_beside_the_heads():
    message = (
        "the bulk's lower edge needs more observations than heads and more tail dimensions than observations; got "
        "n = 3, 2 heads and 90 dimensions."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        spectrum_law.lower_edge(3, 90, level=0.1, head=(1.0, 2.0))
