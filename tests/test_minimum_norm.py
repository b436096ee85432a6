"""Minimum-norm interpolation on the numerical range: what single precision leaves of a kernel, and honest residuals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.limits import Interpolation, SquaredNorm, minimum_norm
from omegalimit.solvers import solve


def gaussian(dtype, n=200):
    """Equispaced points on [0, 1] and the kernel exp(-(x - x')^2 / 2), computed in this precision."""
    x = np.linspace(0, 1, n, dtype=dtype)
    return x, np.exp(-((x[:, None] - x) ** 2) / 2)


def refusal(make, kind: type[Exception] = ValueError) -> str:
    """The message with which `make` refuses, which the tests then compare in full."""
    with pytest.raises(kind) as refused:
        make()
    return str(refused.value)


# The kernel whose Cholesky factor is NaN in single precision.


def test_a_kernel_in_single_precision():
    x, K = gaussian(np.float32)
    assert np.linalg.eigvalsh(K)[0] < 0  # as computed; not in exact arithmetic
    y = np.exp(x)
    found = minimum_norm(K, y, kernel=True)
    assert np.isfinite(found.coefficients).all()
    assert found.precision == np.finfo(np.float32).eps
    # The truth, from the same kernel in double precision: what is called resolved is right to within the level, what is
    # called unresolved lies below it.
    exact = np.linalg.eigvalsh(gaussian(float)[1])[::-1]
    assert np.abs(found.values - exact).max() <= found.level
    assert found.n_resolved == (exact > found.level).sum() == 5
    assert len(found.unresolved_values) == found.directions.shape[1] == 195
    assert np.abs(found.unresolved_values).max() <= found.level
    assert found.directions.T @ found.directions == pytest.approx(np.eye(195), abs=1e-12)
    assert found.components == pytest.approx(found.directions.T @ y, abs=1e-11)
    assert found.reached
    off = np.linalg.norm(K.astype(float) @ found.coefficients - y) / np.linalg.norm(y)
    assert found.residual == pytest.approx(off, rel=1e-6)
    assert found.residual < 1e-3


def test_the_resolved_part_is_that_of_double_precision():
    """Right where the data resolve it, its values at the points; what they do not resolve is missing in its norm."""
    x, K = gaussian(np.float32)
    y = np.cos(x.astype(float))
    single, double = minimum_norm(K, y, kernel=True), minimum_norm(gaussian(float)[1], y, kernel=True)
    assert double.n_resolved > single.n_resolved
    values = gaussian(float)[1] @ single.coefficients
    assert values == pytest.approx(y, abs=1e-4)  # about the root of the level, relative to the kernel's size
    assert 0.5 * double.norm < single.norm < double.norm


def test_a_target_that_the_kernel_does_not_resolve():
    x, K = gaussian(np.float32)
    step = np.sign(x - 0.5)
    found = minimum_norm(K, step, kernel=True)
    assert not found.reached
    assert found.residual == pytest.approx(np.linalg.norm(found.components) / np.linalg.norm(step), rel=1e-4)
    assert found.residual > 0.3
    # In double precision more is resolved, at the norm foretold or more.
    double = minimum_norm(gaussian(float)[1], step.astype(float), kernel=True)
    assert double.n_resolved > found.n_resolved
    assert double.residual < found.residual
    assert double.norm > found.least_norm_beyond > found.norm


def test_precision_can_be_stated():
    """A kernel computed in single precision and stored in double: its type hides what is known of it."""
    x, K = gaussian(np.float32)
    y = np.exp(x.astype(float))
    hidden = minimum_norm(K.astype(float), y, kernel=True, precision=float(np.finfo(np.float32).eps))
    assert hidden.n_resolved == 5
    assert hidden.coefficients == pytest.approx(minimum_norm(K, y, kernel=True).coefficients)
    assert refusal(lambda: minimum_norm(K.astype(float), y, kernel=True)) == (
        "`kernel` has the eigenvalue -6.8e-09 (relative to the largest), below zero beyond rounding: it is no kernel "
        "matrix. State `precision` if it was computed in a lower one."
    ).replace("-6.8e-09", f"{np.linalg.eigvalsh(K.astype(float))[0] / np.linalg.eigvalsh(K.astype(float))[-1]:.1e}")


# Features.


@pytest.mark.parametrize("shape", [(5, 12), (12, 5), (6, 6)])
@pytest.mark.parametrize("rank", [2, 5])
def test_the_pseudoinverse_is_the_answer(shape, rank):
    g = np.random.default_rng(0)
    n, d = shape
    X = g.normal(size=(n, rank)) @ g.normal(size=(rank, d))
    y = X @ g.normal(size=d)
    found = minimum_norm(X, y)
    assert found.n_resolved == rank
    assert found.reached
    assert found.residual <= 1e-13
    # Conditioning of the resolved part times rounding.
    assert found.coefficients == pytest.approx(np.linalg.pinv(X, rcond=1e-12) @ y, rel=1e-9)
    assert found.norm == pytest.approx(np.linalg.norm(found.coefficients))
    noise = g.normal(size=n)
    if rank < n:
        broken = minimum_norm(X, y + noise)
        assert not broken.reached
        left = noise - X @ (np.linalg.pinv(X, rcond=1e-12) @ noise)
        assert broken.residual == pytest.approx(np.linalg.norm(left) / np.linalg.norm(y + noise), rel=1e-9)
        assert np.linalg.norm(broken.components) == pytest.approx(np.linalg.norm(left), rel=1e-9)
        assert broken.least_norm_beyond > 1e10 * broken.norm


def test_full_rank_data_agree_with_the_certified_limit():
    g = np.random.default_rng(0)
    X, y = g.normal(size=(10, 40)), g.normal(size=10)
    certificate = solve(Interpolation(SquaredNorm(), X, y), 1e-12).certificate
    found = minimum_norm(X, y)
    assert found.coefficients == pytest.approx(certificate.point, rel=1e-10)
    assert found.norm**2 / 2 == pytest.approx(certificate.upper, rel=1e-12)
    assert found.directions.shape == (10, 0)
    assert found.least_norm_beyond == 0


@given(e_x=st.integers(-500, 500), e_y=st.integers(-500, 500), kernel=st.booleans())
@settings(max_examples=40, deadline=None)
def test_powers_of_two_change_no_digit(e_x, e_y, kernel):
    g = np.random.default_rng(0)
    X, y = g.normal(size=(6, 4)), g.normal(size=6)
    X = X @ X.T if kernel else X
    plain = minimum_norm(X, y, kernel=kernel)
    other = minimum_norm(np.ldexp(X, e_x), np.ldexp(y, e_y), kernel=kernel)
    assert np.array_equal(other.coefficients, np.ldexp(plain.coefficients, e_y - e_x))
    assert (other.n_resolved, other.residual, other.reached) == (4, plain.residual, False)
    assert np.array_equal(other.components, np.ldexp(plain.components, e_y))
    shift = e_y - e_x / 2 if kernel else e_y - e_x
    assert np.log2(other.norm) == pytest.approx(np.log2(plain.norm) + shift, abs=1e-12)


def test_data_of_zeros():
    found = minimum_norm(np.zeros((3, 2)), [1, 2, 3.0])
    assert not found.reached
    assert (found.residual, found.norm, found.n_resolved, found.least_norm_beyond) == (1.0, 0.0, 0, np.inf)
    assert minimum_norm([[1, 2.0]], [0.0]).reached
    assert minimum_norm([[1, 2.0]], [0.0]).residual == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: minimum_norm([1.0, 2.0], [1.0]),
            "`X` must have shape (n, d) and at least one entry; got (2,).",
        ),
        (
            lambda: minimum_norm(np.ones((2, 3)), [1, 1], kernel=True),
            "`kernel` must have shape (n, n) and at least one entry; got (2, 3).",
        ),
        (
            lambda: minimum_norm(np.ones((2, 3)), [1, 1, 1]),
            "`y` must hold one value for each of the 2 rows of `X`; got shape (3,).",
        ),
        (
            lambda: minimum_norm([[1, np.nan]], [1]),
            "`X[0, 1]` is nan; every entry must be finite.",
        ),
        (
            lambda: minimum_norm([[1, 2], [3, 4.0]], [1, 1], kernel=True),
            "`kernel` is not symmetric: its entries [0, 1] and [1, 0] differ by 2.5e-01 of the largest; pass the "
            "symmetric matrix, or `kernel=False` for features.",
        ),
        (
            lambda: minimum_norm([[1, 2], [2, 1.0]], [1, 1], kernel=True),
            "`kernel` has the eigenvalue -3.3e-01 (relative to the largest), below zero beyond rounding: it is no "
            "kernel matrix. State `precision` if it was computed in a lower one.",
        ),
        (
            lambda: minimum_norm([[1.0]], [1], precision=0.0),
            "`precision` must lie between 0 and 1, both excluded; got 0.0.",
        ),
    ],
)
def test_messages(make, message):
    assert refusal(make) == message


def test_a_precision_is_a_number():
    message = refusal(lambda: minimum_norm([[1.0]], [1], precision="single"), TypeError)  # pyright: ignore[reportArgumentType]
    assert message == "`precision` must be a number; got 'single'."
