"""The search for critical points that are no subnetworks: what it must find, what it must not, and its own tools."""

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.catalogue.networks._monomial_search import search_critical
from omegalimit.catalogue.networks._monomial_search_minimum import _singular, _unit, separations
from omegalimit.catalogue.networks._monomial_search_precise import newton_steps, zero_is_near
from omegalimit.catalogue.networks._monomial_search_whole import (
    PRIMES,
    _all,
    are_subnetworks,
    exhausted,
    jacobian,
    ranks,
    ranks_modulo,
)
from omegalimit.limits.shallow_rank import criticality_threshold, shallow_rank
from omegalimit.models.monomial import MonomialNetwork
from omegalimit.models.subnetworks import subnetwork_distance, subnetwork_kinds
from omegalimit.rigorous.jacobian_rank import expected_rank, jacobian_rank

FEW = {"n_whole": 10_000, "n_starts": 16, "n_steps": 100}


@pytest.mark.parametrize(("degree", "ranks_seen"), [(3, {7}), (4, {8})])
def test_it_finds_by_itself_that_dependent_rows_are_critical(degree, ranks_seen):
    """(3,3,1) below degree 5: both parts of the search find it, and every witness is what the closed formula says."""
    found = search_critical((3, 3, 1), degree, **FEW)
    families = {point.family for point in found.critical}
    assert "local minimisation" in families
    assert len(families) >= 2
    assert found.undecided == ()
    for point in found.critical:
        rows, outgoing = ([[Fraction(int(x)) for x in row] for row in W] for W in point.weights)
        assert subnetwork_kinds(point.weights) == ()
        assert point.distance > 0
        assert point.rank.upper < point.generic == found.generic == 9
        assert point.rank.rank == shallow_rank(rows, degree, outgoing=outgoing)
        assert abs(np.linalg.det(np.array(rows, dtype=float))) < 1e-9 * np.prod(
            np.linalg.norm(np.array(rows, dtype=float), axis=1)
        )
    assert {point.rank.rank for point in found.critical} == ranks_seen


@pytest.mark.parametrize(
    ("widths", "degree"), [((3, 3, 1), 5), ((2, 2, 2, 1), 3), ((2, 2, 2, 1), 4), ((2, 2, 2, 1), 2), ((3, 2, 1), 2)]
)
def test_it_finds_none_where_there_are_none(widths, degree):
    found = search_critical(widths, degree, **FEW)
    assert found.critical == ()
    assert found.n_deficient == 0
    assert found.n_candidates == 0
    assert found.undecided == ()
    assert found.n_tried > 500
    assert found.n_subnetworks > 0
    assert len(found.smallest_singular_value) == found.n_starts == 16
    # Between rounding and one; the distance demanded was kept.
    assert (found.smallest_singular_value > 1e-12).all()
    assert (found.distances >= found.separation).all()


@pytest.mark.parametrize("widths", [(2, 3, 1), (3, 4, 1), (3, 2, 2)])
def test_the_thresholds_of_shallow_nets_are_seen(widths):
    """Found below the threshold where there is a critical point that is no subnetwork, and nothing at it."""
    threshold = criticality_threshold(widths)
    assert threshold.degree is not None
    assert threshold.fails_at is not None
    below = search_critical(widths, threshold.fails_at, **FEW)
    assert bool(below.critical) == threshold.critical
    at = search_critical(widths, threshold.degree, **FEW)
    assert at.critical == ()
    assert at.undecided == ()


def test_minimisation_alone_finds_it_and_comes_down_to_rounding():
    found = search_critical((3, 3, 1), 3, n_whole=0, n_starts=16)
    assert found.n_tried == 0
    assert found.n_candidates >= 8
    assert {point.family for point in found.critical} == {"local minimisation"}
    other = search_critical((3, 3, 1), 5, n_whole=0, n_starts=16)
    assert other.n_candidates == 0
    assert other.smallest_singular_value.min() > 1e6 * np.median(found.smallest_singular_value)


def test_a_deep_net_has_critical_points_below_its_threshold_too():
    """(2,3,2,1) at degree 3, where the generic rank is 8; from degree 4 on, none is found."""
    found = search_critical((2, 3, 2, 1), 3, n_starts=0)
    assert found.generic == 8
    assert found.critical
    again = jacobian_rank(found.critical[0].weights, 3)
    assert again.proved
    assert again.rank is not None
    assert again.rank < 8
    assert search_critical((2, 3, 2, 1), 4, n_starts=0).n_deficient == 0


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([((2, 2, 2, 1), 3), ((3, 3, 1), 3), ((2, 3, 2, 1), 2), ((2, 2, 2), 4), ((1, 2, 1), 3)]),
    st.integers(0, 2**32 - 1),
)
def test_ranks_modulo_a_prime_are_the_exact_ones(case, seed):
    """Many at once, by elimination in NumPy, against python-flint's one by one; zeros and subnetworks included."""
    (widths, degree), rng = case, np.random.default_rng(seed)
    net = MonomialNetwork(widths, degree)
    batch = tuple(rng.integers(-1, 2, (5, *shape)) for shape in net.shapes)
    found = ranks(net, batch, net.n_parameters, rng)
    for i in range(5):
        weights = tuple(W[i] for W in batch)
        exact = jacobian_rank(weights, degree)
        assert exact.proved
        assert found[i] == exact.rank
        assert are_subnetworks(batch)[i] == bool(subnetwork_kinds(weights))


def test_a_rank_modulo_a_prime_never_exceeds_the_true_one():
    net, rng = MonomialNetwork((3, 3, 1), 4), np.random.default_rng(0)
    batch = (np.array([[[1, 0, 0], [0, 1, 0], [1, 1, 0]]]), np.array([[[1, 1, 1]]]))
    assert ranks_modulo(net, batch, PRIMES[0], rng).tolist() == [8]
    # Modulo 5 the derivative of x^5 is zero: only the outgoing weights' columns are left.
    assert ranks_modulo(MonomialNetwork((3, 3, 1), 5), batch, 5, rng)[0] <= 3


@pytest.mark.parametrize("widths", [(2, 2, 2, 1), (3, 2, 1), (2, 2, 2)])
def test_all_nets_up_to_symmetry_are_every_orbit_once(widths):
    """Every net of entries -1, 0, 1 that is no subnetwork and has unit first signs is one of the list, permuted."""
    net = MonomialNetwork(widths, 3)
    batch = _all(net, 1)
    assert exhausted(net, len(batch[0])) >= 1
    assert exhausted(net, len(batch[0]) - 1) == 0
    listed = {tuple(W[i].tobytes() for W in batch) for i in range(len(batch[0]))}
    assert len(listed) == len(batch[0])

    def canonical(weights):
        """Signs of the rows, then the order of each hidden layer's neurons; odd degree: columns take the sign."""
        weights = [W.copy() for W in weights]
        for k in range(len(weights) - 1):
            W = weights[k]
            signs = np.array([row[np.flatnonzero(row)[0]] for row in W])
            W *= signs[:, None]
            weights[k + 1] = weights[k + 1] * signs
            order = sorted(range(len(W)), key=lambda i: W[i].tolist())
            weights[k], weights[k + 1] = W[order], weights[k + 1][:, order]
        last = weights[-1].ravel()
        weights[-1] = weights[-1] * last[np.flatnonzero(last)[0]]
        return tuple(np.ascontiguousarray(W, dtype=np.int64).tobytes() for W in weights)

    rng = np.random.default_rng(0)
    n_seen = 0
    for _ in range(3000):
        weights = tuple(rng.integers(-1, 2, shape) for shape in net.shapes)
        if not subnetwork_kinds(weights):
            n_seen += 1
            assert canonical(weights) in listed
    assert n_seen > 300
    kinds = are_subnetworks(batch)
    assert not kinds.all()


def test_the_number_of_lines_is_what_counting_says():
    """(2,2,2,1), entries up to 2: 8 lines in two variables, 28 pairs a layer, 6 outputs without zeros."""
    batch = _all(MonomialNetwork((2, 2, 2, 1), 3), 2)
    assert len(batch[0]) == 28 * 28 * 6


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([(2, 2, 2, 1), (3, 4, 1), (2, 3, 2, 2)]), st.sampled_from([2, 3, 5]), st.integers(0, 2**32 - 1))
def test_the_distance_kept_by_the_minimisation_is_that_of_the_nets(widths, degree, seed):
    net, rng = MonomialNetwork(widths, degree), np.random.default_rng(seed)
    theta = _unit(net, rng.standard_normal((1, net.n_parameters)))
    ends = np.cumsum([a * b for a, b in net.shapes])[:-1]
    weights = [p.reshape(s) for p, s in zip(np.split(theta[0], ends), net.shapes, strict=True)]
    # Differences of unit rows have an absolute error of a few eps, here against distances above 1e-4.
    assert separations(net, theta)[0] == pytest.approx(
        subnetwork_distance(weights, degree).distance, rel=1e-9, abs=1e-13
    )


def test_the_jacobian_is_that_of_the_model():
    net = MonomialNetwork((3, 2, 3, 2), 3)
    weights, X = net.random(0), np.random.default_rng(1).standard_normal((7, 3))
    expected = net.jacobian(weights, X)
    found = jacobian(net, tuple(W[None] for W in weights), X)[0]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12 * np.abs(expected).max())


def test_a_step_near_a_critical_point_brings_the_value_down_at_second_order():
    """(3,3,1), r = 4: at a distance t the value is first order in t, after one Newton step second order."""
    net, rng = MonomialNetwork((3, 3, 1), 4), np.random.default_rng(0)
    point = np.array([1.0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1])
    away, X = rng.standard_normal(12), rng.standard_normal((30, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    left = []
    for t in (1e-2, 1e-3):
        theta = _unit(net, (point + t * away)[None])
        before, step = _singular(net, theta, X, 9)
        after, _ = _singular(net, _unit(net, theta + step), X, 9)
        left.append(after[0] / before[0])
    # The ratio after / before is itself first order in t: ten times less, within the next order.
    assert left[0] / left[1] == pytest.approx(10, rel=0.5)


def test_a_value_at_rounding_without_a_zero_near_is_told_apart_from_one_with():
    """(2,2,2,2,1): four layers at distance 0.2 bring the value to rounding, and 800 bits show no critical point near.
    (3,3,1) at r = 4, rows dependent but for t: the zero is about t away."""
    deep = search_critical((2, 2, 2, 2, 1), 4, n_whole=0, n_starts=24)
    assert deep.n_candidates == deep.n_conditioned > 0
    assert deep.undecided == deep.critical == ()
    net = MonomialNetwork((3, 3, 1), 4)
    for t in (1e-3, 1e-9, 1e-15):
        rows = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, t]])
        found = newton_steps(net, (rows, np.ones((1, 3))), 9)
        assert found is not None
        lengths = found[0]
        # The determinant is t; its gradient has length sqrt(3) here, and the weights sqrt(7).
        assert lengths[0] == pytest.approx(t / np.sqrt(21), rel=2e-3)
        assert lengths[1] < 10 * lengths[0] ** 2  # second order
        assert zero_is_near(net, (rows, np.ones((1, 3))), 9, separation=0.2)
        # The same with an outgoing weight of t: the zero that is reached is a subnetwork too.
        assert not zero_is_near(net, (rows + np.eye(3)[::-1] / 3, np.array([[1, 1, t]])), 9, separation=0.2)
    # Towards a subnetwork, which is critical at every degree, steps are a share of the distance, however small it is.
    for t in (1e-3, 1e-9):
        rows = np.array([[1.0, 0, 0], [0, 1, 0], [1, t, t]])
        found = newton_steps(MonomialNetwork((3, 3, 1), 5), (rows, np.ones((1, 3))), 9)
        assert found is not None
        lengths = found[0]
        assert 0.3 < lengths[1] / lengths[0] < 1
    assert newton_steps(MonomialNetwork((2, 2, 2, 1), 2), MonomialNetwork((2, 2, 2, 1), 2).random(0), 5) is None


def test_the_generic_rank_is_the_expected_one_where_the_search_says_so():
    for widths, degree in (((2, 2, 2, 1), 3), ((3, 3, 1), 5)):
        assert search_critical(widths, degree, n_whole=0, n_starts=0).generic == expected_rank(widths, degree)


def test_a_seed_gives_the_same_search():
    one, two = (search_critical((3, 3, 1), 4, n_whole=600, n_starts=4, n_steps=20, seed=1) for _ in range(2))
    assert np.array_equal(one.smallest_singular_value, two.smallest_singular_value)
    assert one.n_whole == two.n_whole
    for a, b in zip(one.critical, two.critical, strict=True):
        assert all(np.array_equal(x, y) for x, y in itertools.zip_longest(a.weights, b.weights))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: search_critical((2, 2, 1), 3, separation=1.0), "`separation` must lie between 0 and 1; got 1."),
        (lambda: search_critical((2, 2, 1), 3, n_whole=-1), "`n_whole` must be at least 0; got -1."),
        (lambda: search_critical((2, 2, 1), 1), "`degree` must be at least 2 (the activation is x^degree); got 1."),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
