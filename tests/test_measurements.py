"""Measurements of a symmetric matrix: one interface, four kinds, drawn from a seed or read from a file."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omegalimit.data.measurement_files import load_measurements
from omegalimit.data.measurement_generators import (
    commuting_measurements,
    completion_measurements,
    gaussian_measurements,
)
from omegalimit.data.measurements import (
    CommutingMeasurements,
    DenseMeasurements,
    EntryMeasurements,
    RankOneMeasurements,
)

# Lists are welcome, whatever the annotations of arrays say.
RankOne: Any = RankOneMeasurements
Dense: Any = DenseMeasurements
Entry: Any = EntryMeasurements
Commuting: Any = CommutingMeasurements


def kinds(rng, n=7, d=5):
    V = np.linalg.qr(rng.standard_normal((d, d)))[0]
    y = rng.standard_normal(n)
    A = rng.standard_normal((n, d, d))
    return [
        RankOne(X=rng.standard_normal((n, d)), y=y),
        Dense(A=A + A.transpose(0, 2, 1), y=y),
        Entry(rows=rng.integers(d, size=n), cols=rng.integers(d, size=n), size=d, y=y),
        Commuting(a=rng.standard_normal((n, d)), V=V, y=y),
    ]


# Sums of at most d^2 = 25 products of standard normal numbers: a few hundred roundings of size 1e-16 each.
ROUNDING = 1e-12


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_kind_is_what_its_matrices_say(seed):
    rng = np.random.default_rng(seed)
    for m in kinds(rng):
        A, U, w = m.matrices(), rng.standard_normal((m.d, 2)), rng.standard_normal(m.n)
        S = rng.standard_normal((m.d, m.d))
        S = S + S.T
        assert (m.n, m.d) == (7, 5)
        np.testing.assert_allclose(A, A.transpose(0, 2, 1), atol=ROUNDING)
        np.testing.assert_allclose(m.apply(S), np.einsum("ijk,jk->i", A, S), atol=ROUNDING)
        np.testing.assert_allclose(m.apply_factor(U), np.einsum("ijk,jk->i", A, U @ U.T), atol=ROUNDING)
        G = np.einsum("i,ijk->jk", w, A)
        np.testing.assert_allclose(m.adjoint(w), G, atol=ROUNDING)
        np.testing.assert_array_equal(m.adjoint(w), m.adjoint(w).T)
        np.testing.assert_allclose(m.adjoint_factor(w, U), G @ U, atol=ROUNDING)
        np.testing.assert_allclose(m.factor_rows(U), A @ U, atol=ROUNDING)
        np.testing.assert_allclose(m.norms, np.linalg.norm(A, axis=(1, 2)), atol=ROUNDING)


def test_powers_of_two_change_no_digit():
    for m in kinds(np.random.default_rng(3)):
        e = 0 if isinstance(m, EntryMeasurements) else -400
        scaled = m.times(e, 300)
        np.testing.assert_array_equal(scaled.y, m.y * 2.0**300)
        np.testing.assert_array_equal(scaled.matrices(), np.ldexp(m.matrices(), e))
        assert scaled.exponent == m.exponent + e
    with pytest.raises(ValueError, match=r"^`exponent` must be even for rank-one measurements; got 3\.$"):
        RankOne(X=np.eye(2), y=np.ones(2)).times(3)
    with pytest.raises(ValueError, match=r"^`exponent` must be 0 for measured entries; got 2\.$"):
        Entry(rows=[0], cols=[0], size=1, y=[1.0]).times(2)


def test_only_the_symmetric_part_is_seen_and_a_note_says_so():
    A = np.array([[[1.0, 2.0], [0.0, 3.0]], [[1.0, 0.5], [0.5, 0.0]]])
    m = Dense(A=A, y=[1.0, 2.0])
    np.testing.assert_array_equal(m.A[0], [[1, 1], [1, 3]])
    assert m.notes == (
        "1 of the 2 matrices `A` are not symmetric (`A[0]` most, by 2.0e+00): "
        "a symmetric Q sees only (A + A') / 2, which is what is used.",
    )
    assert Dense(A=m.A, y=[1.0, 2.0]).notes == ()


def test_an_entry_and_its_mirror_image_are_one_entry():
    m = Entry(rows=[0, 1, 2], cols=[1, 0, 2], size=3, y=[1.0, 2.0, 3.0])
    assert m.notes == (
        "1 entries are measured more than once, 1 of them with different targets, which no matrix meets.",
    )
    Q = np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T
    np.testing.assert_array_equal(m.apply(Q), [Q[0, 1], Q[0, 1], Q[2, 2]])


def test_conversions_and_rows_of_zeros_are_noted():
    m = RankOne(X=np.array([[1, 2], [0, 0]], dtype=np.float32), y=np.array([2**53 + 1, 1]))
    assert m.notes == (
        "`X` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
        "`y` came as int64 and was converted to float64: integers above 2**53 were rounded.",
        "`X[1]` is all zero: it measures nothing, whatever its target is.",
    )
    assert not m.X.flags.writeable


EYE = np.eye(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RankOne(X=EYE, y=[1.0]),
            "`X` has shape (2, 2) and `y` has shape (1,): 2 measurements against 1.",
        ),
        (lambda: RankOne(X=EYE[0], y=[1.0]), "`X` must have shape (n, d); got (2,)."),
        (lambda: RankOne(X=EYE, y=EYE), "`y` must have shape (n,); got (2, 2)."),
        (
            lambda: RankOne(X=EYE * np.nan, y=[1, 1]),
            "`X[0, 0]` is nan (4 such entries of 4); every entry must be finite.",
        ),
        (lambda: RankOne(X=EYE, y=[1, np.inf]), "`y[1]` is inf; every entry must be finite."),
        (lambda: RankOne(X=0 * EYE, y=[1, 1]), "`X` is all zero: nothing is measured."),
        (lambda: RankOne(X=np.zeros((0, 2)), y=[]), "`X` has shape (0, 2): there is nothing to measure."),
        (
            lambda: RankOne(X=EYE, y=[1, 1], planted=np.eye(3)),
            "`planted` must have shape (2, 2); got (3, 3).",
        ),
        (
            lambda: Dense(A=np.ones((1, 2, 3)), y=[1]),
            "`A` must have shape (n, d, d), square matrices; got (1, 2, 3).",
        ),
        (
            lambda: Dense(A=[[[0, 1], [-1, 0]]], y=[1]),
            "`A` is antisymmetric: a symmetric Q is not measured at all.",
        ),
        (
            lambda: Entry(rows=[0, 2], cols=[0, 0], size=2, y=[1, 1]),
            "`rows[1]` is 2; it must be an integer from 0 to 1, an index into a 2 x 2 matrix.",
        ),
        (
            lambda: Entry(rows=[0], cols=[0.5], size=2, y=[1]),
            "`cols[0]` is 0.5; it must be an integer from 0 to 1, an index into a 2 x 2 matrix.",
        ),
        (lambda: Entry(rows=[0], cols=[0], size=0, y=[1]), "`size` must be at least 1; got 0."),
        (
            lambda: Commuting(a=EYE, V=2 * EYE, y=[1, 1]),
            "`V` must be orthogonal; V'V is off by 3.0e+00. "
            "If V was written with few digits, pass `np.linalg.qr(V)[0]`.",
        ),
        (
            lambda: Commuting(a=EYE, V=np.eye(3), y=[1, 1]),
            "`V` must have shape (2, 2), as `a` has 2 columns; got (3, 3).",
        ),
        (lambda: gaussian_measurements(5, 2, 3), "`r` is 3; a 2 x 2 matrix has rank at most 2."),
        (lambda: gaussian_measurements(5, 2, 1, noise=-1.0), "`noise` must be at least 0 and finite; got -1.0."),
        (lambda: completion_measurements(4, 2, 1), "`n` is 4; a symmetric 2 x 2 matrix has only 3 different entries."),
        (lambda: commuting_measurements(seed=-1), "`seed` must be at least 0; got -1."),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_complex_entries_are_no_measurements():
    with pytest.raises(TypeError, match=r"^`X` has complex entries \(complex128\); it must be real: pass `X.real`"):
        RankOne(X=EYE * 1j, y=[1, 1])


def test_the_generators_draw_what_they_say():
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((40, 6)), rng.standard_normal((6, 2))
    m = gaussian_measurements(40, 6, 2, seed=0)
    np.testing.assert_array_equal(m.X, X)
    assert m.planted is not None
    np.testing.assert_allclose(m.planted, U @ U.T, rtol=1e-15, atol=1e-15)
    # 4 sigma_r(U)^2, the least population curvature, as it was found elsewhere to ten digits.
    assert 4 * np.linalg.svd(U)[1][-1] ** 2 == pytest.approx(21.60074794, abs=5e-9)
    for made in (m, completion_measurements(30, 9, 3, seed=4), commuting_measurements(4, 7, 2, seed=5)):
        assert made.planted is not None
        np.testing.assert_allclose(made.apply(made.planted), made.y, atol=1e-12)
    noisy = gaussian_measurements(40, 6, 2, seed=0, noise=0.5)
    np.testing.assert_allclose((noisy.y - m.y) / 0.5, rng.standard_normal(40), atol=1e-12)
    pairs = completion_measurements(45, 9, 3)
    assert len(set(zip(pairs.rows.tolist(), pairs.cols.tolist(), strict=True))) == 45


def test_files_hold_every_kind(tmp_path):
    for i, m in enumerate(kinds(np.random.default_rng(1))):
        path = tmp_path / f"{i}.npz"
        if isinstance(m, RankOneMeasurements):
            np.savez(path, X=m.X, y=m.y, comment=np.ones(2))
        elif isinstance(m, DenseMeasurements):
            np.savez(path, A=m.A, y=m.y)
        elif isinstance(m, EntryMeasurements):
            np.savez(path, rows=m.rows, cols=m.cols, y=m.y, d=5)
        else:
            np.savez(path, a=m.a, V=m.basis, y=m.y)
        read = load_measurements(path)
        assert type(read) is type(m)
        assert read.name == path.name
        np.testing.assert_array_equal(read.matrices(), m.matrices())
        np.testing.assert_array_equal(read.y, m.y)
        assert ("ignored in the file: `comment`." in read.notes) == (i == 0)


HOW = (
    "Write it with np.savez(path, X=X, y=y), np.savez(path, A=A, y=y), np.savez(path, rows=j, cols=k, y=y) "
    "or (path, a=a, y=y)."
)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": EYE}, f"the file must hold `y` and one of `X`, `A`, `a`, or `rows` with `cols`; it holds `X`. {HOW}"),
        (
            {"X": EYE, "a": EYE, "y": [1.0, 2.0]},
            "the file holds `X` and `a`: it is not clear which are the measurements.",
        ),
        ({"X": EYE * np.nan, "y": [1.0, 2.0]}, "`X[0, 0]` is nan (4 such entries of 4); every entry must be finite."),
        ({"X": EYE, "y": [1.0]}, "`X` has shape (2, 2) and `y` has shape (1,): 2 measurements against 1."),
        (
            {"rows": [0, 1], "cols": [0], "y": [1.0, 1.0]},
            "`rows` has shape (2,) and `cols` has shape (1,); both must have one index for each entry.",
        ),
        (
            {"rows": [0, 100_000], "cols": [0, 0], "y": [1.0, 1.0]},
            "the largest index asks for a 100001 x 100001 matrix; at most 1073741824 bytes are taken for one.",
        ),
        (
            {"rows": [0], "cols": [0], "y": [1.0], "d": 2.5},
            "`d` must be one integer, the number of rows; got float64 of shape ().",
        ),
        (
            {"A": np.array([[[None]]]), "y": [1.0]},
            "`A` holds Python objects, and loading them would run code; refused. ",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(tmp_path, arrays, message):
    path = tmp_path / "q.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {message}')}"):
        load_measurements(path)


def test_a_file_that_is_none(tmp_path):
    path = tmp_path / "q.npz"
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: there is no such file.')}$"):
        load_measurements(path)
    path.write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(
        ValueError, match=f"^{re.escape(f'{path}: the .npz file is truncated or damaged; write it again.')}$"
    ):
        load_measurements(path)
