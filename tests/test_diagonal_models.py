"""Neurons of diagonal networks: derivatives, the part near the origin, invariants; the definition's conditions."""

import functools

import flint
import jax.numpy as jnp
import numpy as np
import pytest

from _double import in_double
from omegalimit.models.definition import Answer, check_definition
from omegalimit.models.diagonal import Neuron, NeuronFunctions, PowerDifference, ProductNeurons, WeightedSquares


def three(p):
    return 2 * p[0] * p[1] + (p[0] ** 2 + p[1] ** 2 + p[2] ** 2) * p[2]


def two(p):
    """The authors' own example, as a user would write it: `exp(b) - 1` is zero in doubles for b below 1e-16."""
    return p[0] * jnp.tanh(p[0]) - (jnp.exp(p[1]) - 1) ** 2


FAMILIES = [
    ProductNeurons(2),
    ProductNeurons(3),
    ProductNeurons(5),
    PowerDifference(2),
    PowerDifference(4),
    WeightedSquares((1.0, 0.5, 2.0, 3.0), (1.0, 2.0, 0.25, 3.0)),
    NeuronFunctions([three, three, two, two], [3, 3, 2, 2]),
    NeuronFunctions(two, 2),
]
NAMES = ["product-2", "product-3", "product-5", "power-2", "power-4", "weighted", "functions", "one-function"]


@pytest.mark.parametrize("model", FAMILIES, ids=NAMES)
def test_gradient_and_hessian_are_the_derivatives(model):
    theta = np.random.default_rng(0).uniform(0.3, 1.5, (4, model.width))
    h = 1e-5
    gradient, hessian = np.zeros_like(theta), np.zeros((*theta.shape, model.width))
    for j in range(model.width):
        step = h * np.eye(model.width)[j]
        gradient[:, j] = (model.k(theta + step) - model.k(theta - step)) / (2 * h)
        hessian[:, j] = (model.gradient(theta + step) - model.gradient(theta - step)) / (2 * h)
    # Central differences: h^2 of the third derivative (some hundreds), and rounding / h.
    np.testing.assert_allclose(model.gradient(theta), gradient, atol=3e-7)
    np.testing.assert_allclose(model.hessian(theta), hessian, atol=3e-7)


@pytest.mark.parametrize("model", FAMILIES, ids=NAMES)
def test_leading_axes_are_free(model):
    theta = np.random.default_rng(1).uniform(0.1, 1, (3, 2, 4, model.width))
    for method in (model.k, model.gradient, model.hessian):
        whole = method(theta)
        assert whole.shape[:3] == (3, 2, 4)
        # A user's function is compiled for another number of rows: the last bits may differ.
        np.testing.assert_allclose(whole[1, 0], method(theta[1, 0]), rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("exponent", [-100, -60, -16, -8, -4, -3, -2])
def test_functions_are_exact_near_the_origin(exponent, monkeypatch):
    rng = np.random.default_rng(2)
    theta = 10.0**exponent * rng.uniform(-1, 1, (20, 2))
    neuron = FAMILIES[-1].neuron(0)
    k, g = neuron.value_and_gradient(theta)
    H = neuron.hessian(theta)
    monkeypatch.setattr(flint.ctx, "prec", 800)  # bits
    for row in range(20):
        a, b = (flint.arb(float(x)) for x in theta[row])
        exact = float(a * a.tanh() - b.expm1() ** 2)
        slope = [float(a.tanh() + a * a.sech() ** 2), float(-2 * b.expm1() * b.exp())]
        bend = float(2 * b.exp() ** 2 + 2 * b.expm1() * b.exp())
        # 1e-13 by the choice of the radius; beyond it `exp(b) - 1` loses eps / |b|, at |b| > 1e-3 as much. k is a
        # difference: relative to its terms.
        assert abs(k[row] - exact) < 3e-13 * float(a * a + b * b)
        assert abs(g[row, 0] / slope[0] - 1) < 3e-13
        assert abs(g[row, 1] / slope[1] - 1) < 3e-12
        assert abs(H[row, 1, 1] / -bend - 1) < 1e-10


def test_without_the_taylor_terms_a_small_start_never_moves():
    direct = in_double(lambda p: (two(p), 2 * (jnp.exp(p[1]) - 1) * jnp.exp(p[1])))(np.array([0.0, 1e-60]))
    assert direct[1] == 0
    assert FAMILIES[-1].gradient(np.array([[0.0, 1e-60]]))[0, 1] == pytest.approx(-2e-60, rel=1e-15)


def test_functions_of_other_units():
    scaled = Neuron(lambda p: 1e-3 * two(1e6 * p), 2)
    theta = np.array([[2e-70, 3e-70], [2e-9, -3e-8], [1e-6, 2e-6]])
    k, g = scaled.value_and_gradient(theta)
    reference, slope = FAMILIES[-1].neuron(0).value_and_gradient(1e6 * theta)
    # In units of 1e-6: each uses its own radius, and both are right to 1e-12.
    np.testing.assert_allclose(k, 1e-3 * reference, rtol=1e-11)
    np.testing.assert_allclose(g, 1e3 * slope, rtol=1e-11)


def test_extreme_eigenvalues():
    low, high = FAMILIES[-2].extreme_eigenvalues(4)
    np.testing.assert_allclose(low, -2, rtol=1e-15)
    np.testing.assert_allclose(high, 2, rtol=1e-15)
    assert ProductNeurons(2).extreme_eigenvalues(3)[0].tolist() == [-1, -1, -1]
    assert PowerDifference(2).extreme_eigenvalues(1)[1].tolist() == [2]
    assert ProductNeurons(3).extreme_eigenvalues(1)[1].tolist() == [0]
    weighted = FAMILIES[5].hessian(np.zeros((4, 2)))
    np.testing.assert_array_equal(FAMILIES[5].extreme_eigenvalues(4), [weighted[:, 1, 1], weighted[:, 0, 0]])


@pytest.mark.parametrize("model", FAMILIES[:6], ids=NAMES[:6])
def test_invariants_do_not_change_along_the_gradient(model):
    theta = np.random.default_rng(3).uniform(0.3, 1.5, (4, model.width))
    g = model.gradient(theta)
    h = 1e-6
    ahead, size = model.invariants(theta + h * g)
    behind, _ = model.invariants(theta - h * g)
    # The derivative along grad k is zero; the difference's error is h^2 and rounding / h.
    np.testing.assert_allclose((ahead - behind) / (2 * h * size), 0, atol=1e-9)


def test_equal_weights_have_equal_derivatives_to_the_last_bit():
    theta = np.random.default_rng(4).uniform(-1, 1, (50, 4))
    theta[:, 2] = theta[:, 0]
    theta[:, 3] = -theta[:, 0]
    g = ProductNeurons(4).gradient(theta)
    assert (g[:, 0] == g[:, 2]).all()
    assert (g[:, 0] == -g[:, 3]).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"^`depth` must be at least 2; got 1\.$"):
        ProductNeurons(1)
    with pytest.raises(TypeError, match=r"^`power` must be an integer; got 2\.5\.$"):
        PowerDifference(2.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"^`q` must be positive and finite; got -1\.0\.$"):
        WeightedSquares((1.0,), (-1.0,))
    with pytest.raises(ValueError, match=r"^`p` has 1 entries and `q` 2; give one a feature\.$"):
        WeightedSquares((1.0,), (1.0, 2.0))
    with pytest.raises(ValueError, match=r"^`p` gives 4 neurons and the data have 3 features; give one per feature\.$"):
        FAMILIES[5].extreme_eigenvalues(3)
    with pytest.raises(ValueError, match=r"^`functions` gives 4 neurons and the data have 3 features; give one per f"):
        FAMILIES[-2].k(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"^`functions` has 2 entries and `sizes` 3\.$"):
        NeuronFunctions([two] * 2, [2, 2, 2])
    with pytest.raises(TypeError, match=r"^a neuron's function must return one number; got shape \(2,\)\.$"):
        Neuron(lambda p: p, 2)
    with pytest.raises(
        TypeError, match=r"^a neuron's function must map one JAX vector of 2 parameters to a real numbe"
    ):
        Neuron(lambda p: float(p[0]), 2)


# The conditions of the definition: each passes, fails with a witness, or is undecided.


@functools.cache
def answers(function, size, start=None):
    return check_definition(function, size, start=start)


@pytest.mark.parametrize(("function", "size", "start"), [(three, 3, (1, 0.3, 0.2)), (two, 2, (1, 0.3))])
def test_the_authors_neurons(function, size, start):
    report = answers(function, size, start)
    assert report.failed == ()
    assert [c.name for c in report.undecided] == ["analytic", "no other critical point"]
    assert (report.low, report.high) == pytest.approx((-2, 2), rel=1e-14)
    H = FAMILIES[-2].neuron(0 if size == 3 else 2).tensors[2]
    np.testing.assert_allclose(H @ report.low_vector, -2 * report.low_vector, atol=1e-14)
    np.testing.assert_allclose(H @ report.high_vector, 2 * report.high_vector, atol=1e-14)


def test_unbounded_only_on_the_curve_that_the_start_selects():
    name = "unbounded along the limit trajectories"
    assert answers(two, 2, (1, 0.3))[name].answer is Answer.PASS
    other = answers(two, 2, (1, -0.3))[name]
    assert other.answer is Answer.FAIL
    # The witness: far out on that curve k is -1 to rounding, its infimum there.
    assert other.witness is not None
    assert other.witness[1] < -15
    assert FAMILIES[-1].k(other.witness[None])[0] == pytest.approx(-1, abs=1e-6)
    unknown = answers(two, 2)[name]
    assert unknown.answer is Answer.UNDECIDED
    assert unknown.text.startswith("it depends on the signs of the start, and none was given: ")


def test_a_function_is_compiled_once_and_others_apart():
    again = NeuronFunctions(two, 2).neuron(0)
    assert again is FAMILIES[-1].neuron(0)
    first, second = (NeuronFunctions(lambda p, c=c: c * (p[0] ** 2 - p[1] ** 2), 2) for c in (1.0, 3.0))
    theta = np.array([[0.7, 0.2]])
    assert second.k(theta) == pytest.approx(3 * first.k(theta), rel=1e-14)


def test_many_rows_are_evaluated_in_parts():
    theta = np.random.default_rng(6).uniform(0.5, 1, (600, 2))
    k, g = FAMILIES[-1].neuron(0).value_and_gradient(theta)
    np.testing.assert_allclose(k, theta[:, 0] * np.tanh(theta[:, 0]) - np.expm1(theta[:, 1]) ** 2, rtol=1e-12)
    assert g.shape == (600, 2)


def test_growth_like_a_logarithm_is_left_undecided():
    report = answers(lambda p: jnp.log1p(p[0] ** 2) - p[1] ** 2, 2, (1, 1))
    assert report["unbounded along the limit trajectories"].answer is Answer.UNDECIDED


@pytest.mark.parametrize(
    ("function", "size", "start", "failed"),
    [
        (lambda p: p[0] ** 2 - p[1] ** 2 + 0.1, 2, (1, 1), ["zero at the origin"]),
        (lambda p: p[0] * jnp.abs(p[0]) + 2 * p[0] ** 2 - p[1] ** 2, 2, (1, 1), ["analytic"]),
        (lambda p: jnp.abs(p[0]) ** 3 + p[0] ** 2 - p[1] ** 2, 2, (1, 1), ["analytic"]),
        (lambda p: jnp.sqrt(p[0]) - p[1] ** 2, 2, (1, 1), ["analytic"]),
        (lambda p: p[0] ** 2 + p[1] ** 2 - p[2] ** 2, 3, (1, 2, 3), ["simple extreme eigenvalues"]),
        (lambda p: p[0] * p[1] * p[2], 3, (1, 2, 3), ["simple extreme eigenvalues"]),
        (lambda p: p[0] ** 2, 1, (1,), ["simple extreme eigenvalues"]),
        (lambda p: p[0] ** 2 - p[1] ** 2, 2, (1, 0), ["start orthogonal to neither"]),
        (
            lambda p: p[0] ** 2 - p[1] ** 2 * (1 - p[1]) ** 2,
            2,
            (1, 1),
            ["no other critical point", "unbounded along the limit trajectories"],
        ),
    ],
)
def test_each_condition_can_fail(function, size, start, failed):
    report = answers(function, size, start)
    assert [c.name for c in report.failed] == failed


def test_a_linear_term_makes_the_origin_no_critical_point_and_another_point_one():
    report = answers(lambda p: p[0] ** 2 - p[1] ** 2 + 0.1 * p[0], 2, (1, 1))
    assert [c.name for c in report.failed] == ["critical at the origin", "no other critical point"]
    witness = report["no other critical point"].witness
    assert witness is not None
    np.testing.assert_allclose(witness, [-0.05, 0], atol=1e-12)


def test_a_gradient_that_fades_at_infinity_is_no_critical_point():
    assert answers(two, 2, (1, 0.3))["no other critical point"].answer is Answer.UNDECIDED


def test_the_answers_do_not_depend_on_units():
    for scale in (1e-6, 1e6):
        report = answers(lambda p, s=scale: 1e-3 * two(s * p), 2, (1, 0.3))
        assert report.failed == ()
        assert report["unbounded along the limit trajectories"].answer is Answer.PASS


def test_a_start_that_makes_no_sense():
    with pytest.raises(ValueError, match=r"^`start` must have shape \(2,\); got \(3,\)\.$"):
        check_definition(lambda p: p[0] * p[1], 2, start=np.ones(3))
    with pytest.raises(ValueError, match=r"^`start` is zero, where nothing moves; pass the direction of the start\.$"):
        check_definition(lambda p: p[0] * p[1], 2, start=np.zeros(2))


def test_terms_beyond_those_that_are_known_are_not_forgotten():
    # The growth of the known terms allows a radius of 5.6e-4, where u^6 is a quarter of the gradient.
    model = NeuronFunctions(lambda p: p[0] ** 2 + 1e12 * p[0] ** 6 - p[1] ** 2, 2)
    u = np.array([1e-60, 1e-8, 1e-6, 1e-5, 1e-4, 5e-4, 1e-3])
    theta = np.stack([u, np.zeros_like(u)], axis=1)[:, None]
    # What is left out at the radius that remains is at most 1e-9 of the gradient.
    np.testing.assert_allclose(model.gradient(theta)[:, 0, 0], 2 * u + 6e12 * u**5, rtol=2e-9)
