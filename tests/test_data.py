"""Token data: what is refused and how it is said, laws of the generators, and files that are not what they seem."""

import dataclasses
import io
import itertools
import os
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from omegalimit.data import (
    Duplicates,
    Tie,
    TokenData,
    digit_tokens,
    gaussian_tokens,
    load_tokens,
    load_weights,
    orbit_tokens,
    planted_tokens,
    planted_weights,
)

SAVEZ = "np.savez(path, X=X, z=z, y=y, v=v)"
SAVEZ_WEIGHTS = "np.savez(path, K=K, Q=Q) or np.savez(path, W=W)"


def arrays(n=2, L=3, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return {"X": rng.standard_normal((n, L, d)), "z": rng.standard_normal((n, d)), "y": y, "v": rng.standard_normal(d)}


def message_of(function, *args, error: type[Exception] = ValueError, **kwargs) -> str:
    with pytest.raises(error) as caught:
        function(*args, **kwargs)
    text = str(caught.value)
    assert "\n" not in text
    return text


def refused(error: type[Exception] = ValueError, **changed: Any) -> str:
    return message_of(lambda: TokenData(**{**arrays(), **changed}), error=error)


def put(array, index, value):
    copy = np.array(array)
    copy[index] = value
    return copy


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "index", "value", "message"),
    [
        ("X", (1, 2, 0), np.nan, "`X[1, 2, 0]` is nan; every entry must be finite."),
        ("z", (0, 1), -np.inf, "`z[0, 1]` is -inf; every entry must be finite."),
        ("z", 0, np.inf, "`z[0, 0]` is inf (2 such entries of 4); every entry must be finite."),
        ("y", 1, np.nan, "`y[1]` is nan; every entry must be finite."),
        ("v", 0, np.inf, "`v[0]` is inf; every entry must be finite."),
    ],
)
def test_entries_that_are_not_finite_are_named(key, index, value, message):
    changed: dict[str, Any] = {key: put(arrays()[key], index, value)}
    assert refused(ValueError, **changed) == message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.ones((2, 3))}, "`X` must have shape (n, L, d); got (2, 3)."),
        ({"z": np.ones(2)}, "`z` must have shape (n, d); got (2,)."),
        ({"y": np.ones((2, 1))}, "`y` must have shape (n,); got (2, 1)."),
        ({"v": 1.0}, "`v` must have shape (d,); got ()."),
        ({"z": np.ones((3, 2))}, "`X` has shape (2, 3, 2) and `z` has shape (3, 2): 2 inputs against 3."),
        ({"y": np.ones(4)}, "`X` has shape (2, 3, 2) and `y` has shape (4,): 2 inputs against 4."),
        ({"z": np.ones((2, 5))}, "`X` has shape (2, 3, 2) and `z` has shape (2, 5): 2 coordinates against 5."),
        ({"v": np.ones(3)}, "`X` has shape (2, 3, 2) and `v` has shape (3,): 2 coordinates against 3."),
        ({"X": np.ones((0, 3, 2))}, "`X` has shape (0, 3, 2): there is no input; pass at least one."),
        ({"X": np.ones((2, 3, 0))}, "`X` has shape (2, 3, 0): the tokens have no entries; pass d >= 1."),
        (
            {"X": np.ones((2, 1, 2))},
            "`X` has shape (2, 1, 2), so L = 1: one token leaves nothing to select; pass L >= 2.",
        ),
        (
            {"X": np.ones((2, 0, 2))},
            "`X` has shape (2, 0, 2), so L = 0: no token leaves nothing to select; pass L >= 2.",
        ),
        ({"X": [[1.0, 2.0], [3.0]]}, "`X` is not a rectangular array of numbers: its rows differ in length."),
    ],
)
def test_shapes_that_do_not_fit_are_named(changed, message):
    assert refused(**changed) == message


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            [0, 1],
            "`y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1); for labels in {0, 1} pass `2 * y - 1`.",
        ),
        (
            [1, 2],
            "`y` must hold only -1 and +1; `y[1]` is 2 (values seen: 1, 2); recode the two classes as -1 and +1.",
        ),
    ],
)
def test_labels_that_are_not_signs_say_how_to_convert(y, message):
    assert refused(y=np.array(y, float)) == message


def test_many_label_values_are_cut_short():
    data = arrays(n=6)
    data["y"] = np.arange(6.0)
    assert message_of(TokenData, **data) == (
        "`y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1, 2, 3, ...); recode the two classes as -1 and +1."
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"z": np.ones((2, 2)) * 1j},
            "`z` has complex entries (complex128); it must be real: pass `z.real` if that is meant.",
        ),
        (
            {"v": np.array([1.0, None], dtype=object)},
            "`v` must hold real numbers; it holds Python objects (dtype object).",
        ),
        ({"y": ["a", "b"]}, "`y` must hold real numbers; it holds text (dtype <U1)."),
        ({"y": [b"a", b"b"]}, "`y` must hold real numbers; it holds bytes (dtype |S1)."),
        (
            {"y": np.zeros(2, "datetime64[s]")},
            "`y` must hold real numbers; it holds dates (dtype datetime64[s]).",
        ),
        (
            {"v": np.ones(2, np.longdouble)},
            f"`v` came as {np.dtype(np.longdouble)}, wider than float64; round it yourself: `v.astype(float)`.",
        ),
    ],
)
def test_entries_that_are_not_real_numbers_are_refused(changed, message):
    assert refused(error=TypeError, **changed) == message


def test_a_query_of_zeros_names_the_input():
    data = arrays(n=4)
    data["z"][1] = 0
    advice = "its attention stays uniform whatever the weights are; drop the input or give it a query."
    assert message_of(TokenData, **data) == f"`z[1]` is all zero: {advice}"
    data["z"][3] = 0
    assert message_of(TokenData, **data) == f"`z[1]` is all zero (so are those of 1 more): {advice}"


def test_equal_scores_name_the_input():
    data = arrays(n=3, d=3)
    across = np.cross(data["v"], [1.0, 2.0, 3.0])
    data["X"][2] = np.outer([1.0, -2.0, 0.5], across) + data["v"]  # differences orthogonal to v, up to rounding
    assert message_of(TokenData, **data) == (
        "the scores y v^T x of input 2 are all equal to 12 digits, so no token is best; drop the input or change `v`."
    )


def test_a_head_of_zeros_is_refused():
    assert refused(v=np.zeros(2)) == (
        "`v` is all zero: every score y v^T x is zero and no token is best; pass a head with a direction."
    )


def test_a_rotation_must_be_orthogonal():
    eye = np.eye(2)
    assert (
        refused(rotation=(eye, 2 * eye)) == "`V` of `rotation` must be orthogonal; its Gram matrix is off by 3.0e+00."
    )
    assert refused(rotation=(np.eye(3), eye)) == "`U` of `rotation` must have shape (2, 2); got (3, 3)."


# --- what is converted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "note"),
    [
        (
            np.float32,
            "`X` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
        ),
        (
            np.float16,
            "`X` came as float16 and was converted to float64: its own rounding, about 5e-04, stays in the data.",
        ),
        (np.int8, "`X` came as int8 and was converted to float64, exactly."),
        (">f8", None),
    ],
)
def test_conversions_are_told(dtype, note):
    data = arrays()
    data["X"] = (10 * data["X"]).astype(dtype)
    made = TokenData(**data)
    assert made.notes == (() if note is None else (note,))
    assert made.X.dtype == np.dtype(np.float64)
    assert made.X.dtype.isnative
    np.testing.assert_array_equal(made.X, data["X"].astype(np.float64))


def test_integers_beyond_two_to_the_53_are_told():
    data = arrays(n=1)
    X = np.array([[[2**60 + 1, 0], [1, 3], [5, 2]]])
    assert TokenData(**{**data, "X": X, "v": np.array([1.0, 1.0])}).notes == (
        "`X` came as int64 and was converted to float64: integers above 2**53 were rounded.",
    )


def test_lists_pass_and_arrays_are_copied_and_locked():
    data = arrays()
    made = TokenData(**{**data, "y": [1, -1]})
    assert made.notes == ()
    data["X"][0, 0, 0] = 7.0
    assert made.X[0, 0, 0] != 7.0
    for locked in (made.X, made.z, made.y, made.v, made.scores, made.best, made.score_gap):
        assert not locked.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.X = data["X"]  # pyright: ignore[reportAttributeAccessIssue]


# --- derived ---------------------------------------------------------------------------------------------------------


def test_scores_best_gap_and_differences_by_hand():
    made = TokenData(
        X=np.array([[[1.0, 0], [3, 1], [2, 5]], [[1, 0], [3, 1], [2, 5]]]),
        z=np.ones((2, 2)),
        y=np.array([1.0, -1.0]),
        v=np.array([2.0, 0]),
    )
    np.testing.assert_array_equal(made.scores, [[2, 6, 4], [-2, -6, -4]])
    np.testing.assert_array_equal(made.best, [1, 0])
    np.testing.assert_array_equal(made.score_gap, [0.5, 0.5])
    assert (made.n, made.L, made.d, made.ties, made.near_ties, made.duplicate_tokens) == (2, 3, 2, (), (), ())
    np.testing.assert_array_equal(made.differences(), [[[2, 1], [1, -4]], [[-2, -1], [-1, -5]]])
    np.testing.assert_array_equal(made.differences(np.array([0, 2])), [[[-2, -1], [-1, -5]], [[1, 5], [-1, 4]]])


def test_a_wrong_selection_is_refused():
    made = TokenData(**arrays())
    assert message_of(made.differences, [0]) == ("`selected` must have shape (2,), one token for each input; got (1,).")
    assert message_of(made.differences, [0, 3]) == "`selected[1]` is 3; the tokens are 0 to 2."
    assert message_of(made.differences, [-1, 0]) == "`selected[0]` is -1; the tokens are 0 to 2."
    assert message_of(made.differences, [0.0, 1.0], error=TypeError) == (
        "`selected` must hold integers; got dtype float64."
    )


def line(scores, **more):
    """One input whose scores are as given, on two-dimensional tokens that are all different."""
    scores = np.asarray(scores, float)
    X = np.stack([scores, np.arange(scores.size)], axis=1)[None]
    return TokenData(X=X, z=np.ones((1, 2)), y=np.ones(1), v=np.array([1.0, 0.0]), **more)


def test_ties_and_near_ties_are_told_apart():
    tied = line([3, 1, 3, 0])
    assert tied.ties == (Tie(0, (0, 2)),)
    assert tied.near_ties == ()
    assert tied.best[0] == 0
    assert tied.score_gap[0] == 0.0
    assert tied.notes == (
        "input 0: tokens 0 and 2 share the best score; token 0 is taken as the target, "
        "and the theorem's unique target does not hold.",
    )
    near = line([3, 1, 3 + 1e-8, 0])
    assert near.ties == ()
    assert near.near_ties == (Tie(0, (0, 2)),)
    assert near.best[0] == 2
    assert near.notes == ("input 0: the best scores of tokens 0 and 2 differ by less than 1e-06 of the score spread.",)
    both = line([3, 3 - 1e-8, 3, 0])
    assert both.ties == (Tie(0, (0, 2)),)
    assert both.near_ties == (Tie(0, (0, 1, 2)),)
    assert line([3, 1, 3 + 1e-4, 0]).near_ties == ()
    # a difference of 1e-13 of the spread is a tie, and the first of the tied tokens is taken
    assert line([3, 1, 3 + 3e-13, 0]).ties == (Tie(0, (0, 2)),)
    assert line([3, 1, 3 + 3e-13, 0]).best[0] == 0


def test_ties_of_worse_tokens_are_no_ties():
    assert line([1, 3, 1, 1]).ties == ()


def test_equal_rows_are_reported_and_kept():
    X = np.array([[[1.0, 0.0], [2, 1], [1, -0.0], [2, 1]], [[1, 0], [2, 1], [1, 0], [3, 1]]])
    made = TokenData(X=X, z=np.ones((2, 2)), y=np.ones(2), v=np.array([1.0, 0.0]), notes=("mine",))
    assert made.duplicate_tokens == (
        Duplicates(0, (0, 2), best=False),
        Duplicates(0, (1, 3), best=True),
        Duplicates(1, (0, 2), best=False),
    )
    assert made.ties == (Tie(0, (1, 3)),)
    assert made.X.shape == X.shape
    assert made.notes == (
        "mine",
        "input 0: tokens 1 and 3 share the best score; token 1 is taken as the target, "
        "and the theorem's unique target does not hold.",
        "input 0: the best-scored token is repeated (tokens 1 and 3 are the same row).",
        "input 0: tokens 0 and 2 are the same row; none is the target, all are kept.",
        "input 1: tokens 0 and 2 are the same row; none is the target, all are kept.",
    )


def test_many_equal_rows_make_one_note_more():
    one = np.array([[0.0, 1], [0, 1], [1, 0]])
    made = TokenData(X=np.stack([one] * 9), z=np.ones((9, 2)), y=np.ones(9), v=np.array([1.0, 0.0]))
    assert len(made.duplicate_tokens) == 9
    assert len(made.notes) == 4
    assert made.notes[-1] == "6 more groups of equal rows that are not the target; all are kept."


@given(seed=st.integers(0, 2**32 - 1), tokens=st.integers(2, 40), d=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_a_repeated_best_token_is_always_a_tie(seed, tokens, d):
    # Equal rows must tie even when a matrix product sums them in another order, and under a large common offset.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1, tokens, d)) + 1e4 * rng.standard_normal((1, 1, d))
    v = rng.standard_normal(d)
    best = int(np.argmax(X[0] @ v))
    X = np.concatenate([X, X[:, [best]]], axis=1)
    made = TokenData(X=X, z=np.ones((1, d)), y=np.ones(1), v=v)
    assert {best, tokens} <= set(made.ties[0].tokens)


# --- scale -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-500, -1, 500])
def test_powers_of_two_change_nothing(power):
    # 2**500 is 3e150; scores are then at 2**-1000 or 2**1000, and every digit is the same.
    base = gaussian_tokens(seed=3)
    scale = 2.0**power
    for X, v in ((base.X * scale, base.v), (base.X, base.v * scale), (base.X * scale, base.v * scale)):
        made = TokenData(X=X, z=base.z * scale, y=base.y, v=v)
        np.testing.assert_array_equal(made.best, base.best)
        np.testing.assert_array_equal(made.score_gap, base.score_gap)
        np.testing.assert_array_equal(made.differences(), base.differences() * (scale if X is not base.X else 1.0))
        assert made.notes == ()


@pytest.mark.parametrize(
    ("token_scale", "head_scale"), [(1e-150, 1e-150), (1e150, 1e150), (1e-300, 1e200), (1e300, 1e-300)]
)
def test_extreme_scales_keep_target_and_gap(token_scale, head_scale):
    base = gaussian_tokens(seed=4)
    made = TokenData(X=base.X * token_scale, z=base.z, y=base.y, v=base.v * head_scale)
    np.testing.assert_array_equal(made.best, base.best)
    # the scaled entries are rounded once each: a few eps of the largest product, d = 10 of them
    np.testing.assert_allclose(made.score_gap, base.score_gap, rtol=0, atol=1e-14)
    np.testing.assert_allclose(made.scores / token_scale / head_scale, base.scores, rtol=0, atol=1e-14)


def test_one_input_may_be_far_larger_than_another():
    base = gaussian_tokens(seed=5)
    scale = np.where(np.arange(6) % 2 == 0, 1e-140, 1e140)[:, None, None]
    np.testing.assert_array_equal(TokenData(X=base.X * scale, z=base.z, y=base.y, v=base.v).best, base.best)


def test_scores_that_leave_the_doubles_are_refused():
    X = np.array([[[1.0, 0.0], [0.5, 1.0]]])
    rest = {"z": np.ones((1, 2)), "y": np.ones(1)}
    v = np.array([1.0, 0.0])
    assert message_of(TokenData, X=X * 1e200, v=v * 1e200, **rest) == (
        "the scores y v^T x overflow (max |X| is 1.0e+200, max |v| is 1.0e+200); divide `X` or `v` by a power of ten."
    )
    assert message_of(TokenData, X=X * 1e-200, v=v * 1e-200, **rest) == (
        "the scores y v^T x of input 0 underflow (max |X[0]| is 1.0e-200, max |v| is 1.0e-200); "
        "multiply `X` or `v` by a power of ten."
    )
    assert message_of(TokenData, X=X * 1.7e308, v=v, **rest) == (
        "`X` reaches 1.7e+308, and differences of tokens overflow; divide `X` by a power of ten."
    )


# --- generators ------------------------------------------------------------------------------------------------------

MAKERS = {
    "gaussian": gaussian_tokens,
    "planted": planted_tokens,
    "orbits": orbit_tokens,
    "digits": digit_tokens,
}


def same(a, b):
    return a.X.shape == b.X.shape and all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("X", "z", "y", "v"))


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_fixes_the_data(name):
    make = MAKERS[name]
    assert same(make(seed=7), make(seed=7))
    assert not same(make(seed=7), make(seed=8))
    assert make(seed=0).name.startswith(name)
    assert message_of(make, seed=-1) == "`seed` must be at least 0; got -1."
    assert message_of(make, seed=1.5, error=TypeError) == "`seed` must be an integer; got 1.5."


@pytest.mark.parametrize("make", [planted_tokens, orbit_tokens])
def test_draws_are_other_streams(make):
    made = [make(seed=seed, draw=draw) for seed, draw in itertools.product(range(3), repeat=2)]
    assert same(made[1], make(seed=0, draw=1))
    assert not any(same(a, b) for a, b in itertools.combinations(made, 2))
    assert message_of(make, draw=-1) == "`draw` must be at least 0; got -1."


def test_gaussian_tokens_are_what_their_page_says():
    made = gaussian_tokens(n=5, L=4, d=7, seed=11)
    rng = np.random.default_rng(11)
    unit = lambda a: a / np.linalg.norm(a, axis=-1, keepdims=True)  # noqa: E731 - used on the next lines only
    np.testing.assert_array_equal(made.X, unit(rng.standard_normal((5, 4, 7))))
    np.testing.assert_array_equal(made.z, unit(rng.standard_normal((5, 7))))
    np.testing.assert_array_equal(made.v, unit(rng.standard_normal(7)))
    np.testing.assert_array_equal(made.y, rng.choice([-1.0, 1.0], size=5))


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (gaussian_tokens, {"n": 0}, "`n` must be at least 1; got 0."),
        (gaussian_tokens, {"L": 1}, "`L` must be at least 2; got 1."),
        (gaussian_tokens, {"d": 1}, "`d` must be at least 2; got 1."),
        (planted_tokens, {"d": 2}, "`d` must be at least 3; got 2."),
        (planted_tokens, {"L": 1}, "`L` must be at least 2; got 1."),
        (orbit_tokens, {"m": 1}, "`m` must be at least 2; got 1."),
        (orbit_tokens, {"m": 9}, "`m` must be at most 8, which makes orbits of 256 inputs; got 9."),
        (orbit_tokens, {"n_base": 0}, "`n_base` must be at least 1; got 0."),
        (digit_tokens, {"n": 1}, "`n` must be at least 2; got 1."),
        (digit_tokens, {"n": 1000}, "n = 1000 takes 500 images of the digit 3; there are 183."),
        (digit_tokens, {"classes": (3, 3)}, "`classes` must be two different digits, such as (3, 8); got (3, 3)."),
        (digit_tokens, {"classes": (3, 10)}, "`classes` must be two different digits, such as (3, 8); got (3, 10)."),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make, options, message):
    assert message_of(make, **options) == message


@pytest.mark.parametrize("size", [(6, 8, 10), (16, 8, 32), (6, 64, 10), (40, 8, 10), (1, 2, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_planted_weights_separate_the_best_scored_tokens(size, seed):
    n, L, d = size
    made = planted_tokens(n, L, d, seed=seed, draw=1)
    beta = planted_weights(d, seed=seed, draw=1)
    wanted = beta * made.z
    lead = np.einsum("nld,nd->nl", made.differences(), wanted) / np.linalg.norm(wanted, axis=1)[:, None]
    assert lead.min() >= 0.5 - 1e-12  # as planted, up to rounding
    assert (beta[:-1] > 0).any()
    assert (beta[:-1] < 0).any()
    assert made.notes == ()


@pytest.mark.parametrize("seed", range(4))
def test_planted_scores_leave_no_stationary_point(seed):
    made = planted_tokens(seed=seed)
    ordered = np.sort(made.scores, axis=1)
    np.testing.assert_array_equal(ordered[:, -1], 0.5)
    assert np.abs(ordered[:, :-1]).max() <= 0.0025
    assert (made.z[:, -1] == 0).all()
    # <-dL/dW, W0> > 0 at weights of moderate size, with or against W0: what the generator's page derives
    beta = planted_weights(seed=seed)
    for scale in (-3.0, 0.0, 3.0):
        W = scale * np.diag(beta) + np.random.default_rng(seed).standard_normal((10, 10))
        logits = np.einsum("nld,de,ne->nl", made.X, W, made.z)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        f = (p * made.scores).sum(axis=1, keepdims=True)
        along = np.einsum("nl,nld,nd->n", np.exp(-f) * p * (made.scores - f), made.X, beta * made.z)
        attended = p[np.arange(6), made.best] > 0.01
        assert attended.any()
        assert (along[attended] > 0).all()


def test_tokens_and_queries_are_unit_where_said():
    made = planted_tokens(seed=2)
    np.testing.assert_allclose(np.linalg.norm(made.X[..., :-1], axis=-1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(made.z, axis=-1), 1, rtol=1e-14)


def descent(made, W):
    """`-dL/dW` of the exponential loss, shape `(d, d)`."""
    logits = np.einsum("nld,de,ne->nl", made.X, W, made.z)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    f = (p * made.scores).sum(axis=1, keepdims=True)
    return np.einsum("nl,nld,ne->de", np.exp(-f) * p * (made.scores - f), made.X, made.z)


@pytest.mark.parametrize("options", [{}, {"m": 2, "L": 4}, {"m": 4, "L": 5}, {"n_base": 2}])
def test_orbits_keep_the_gradient_diagonal(options):
    made = orbit_tokens(seed=1, **options)
    assert made.rotation is not None
    assert made.notes == ()
    U, V = made.rotation
    m = made.d - 1
    rng = np.random.default_rng(0)
    for _ in range(3):
        inner = np.diag(np.append(rng.standard_normal(m), 0.0))
        G = U.T @ descent(made, U @ inner @ V.T) @ V
        # rounding of 2^m products of order one
        assert np.abs(G - np.diag(np.diag(G))).max() <= 1e-14 * np.abs(G).max() * 2**m
        assert np.abs(np.diag(G)[:m]).min() > 0
        # and only there: full weights do not keep it
        away = U.T @ descent(made, rng.standard_normal((m + 1, m + 1))) @ V
        assert np.abs(away - np.diag(np.diag(away))).max() > 1e-3 * np.abs(away).max()


@pytest.mark.parametrize("options", [{}, {"m": 2, "L": 4}, {"n_base": 2}])
@pytest.mark.parametrize("seed", range(3))
def test_orbits_need_two_coordinates_and_tell_the_norms_apart(options, seed):
    made = orbit_tokens(seed=seed, **options)
    assert made.rotation is not None
    U, V = made.rotation
    m = made.d - 1
    rows = (np.einsum("nld,de->nle", made.differences(), U) * (made.z @ V)[:, None])[..., :m].reshape(-1, m)
    # every input of an orbit has the same rows: signs square to one
    per_orbit = rows.reshape(-1, 2**m, made.L - 1, m)
    np.testing.assert_allclose(per_orbit - per_orbit[:, :1], 0, atol=1e-14)
    # the l1 optimum, written otherwise than in the generator: |beta_j| <= s_j
    eye = np.eye(m)
    answer = linprog(
        np.append(np.zeros(m), np.ones(m)),
        A_ub=np.block([[-rows, np.zeros_like(rows)], [eye, -eye], [-eye, -eye]]),
        b_ub=np.append(-np.ones(len(rows)), np.zeros(2 * m)),
        bounds=(None, None),
    )
    assert answer.status == 0
    for j in range(m):  # alone, no coordinate comes within 5 %
        alone = max(rows[:, j].min(), (-rows[:, j]).min())
        assert alone <= 0 or 1 / alone >= 1.05 * answer.fun * (1 - 1e-9)
    # the l2 optimum by another method than the generator's least squares; SLSQP is good to six digits here
    found = minimize(
        lambda b: b @ b,
        answer.x[:m],
        jac=lambda b: 2 * b,
        constraints={"type": "ineq", "fun": lambda b: rows @ b - 1, "jac": lambda b: rows},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert (rows @ found.x).min() >= 1 - 1e-6
    assert np.abs(found.x).sum() >= 1.10 * answer.fun * (1 - 1e-4)
    assert np.linalg.norm(answer.x[:m]) >= 1.03 * np.linalg.norm(found.x) * (1 - 1e-4)


def test_orbits_that_cannot_be_found_say_so(monkeypatch):
    monkeypatch.setattr("omegalimit.data.generators._MAX_REDRAWS", 5)
    assert message_of(orbit_tokens, m=2, n_base=8) == (
        "no separable bases whose norms differ were found for m = 2, L = 8, n_base = 8 in 5 tries; "
        "take fewer bases or tokens, or a larger `m`."
    )
    monkeypatch.setattr("omegalimit.data.generators._MAX_REDRAWS", 1)
    assert message_of(planted_tokens, L=512, d=3) == (
        "no input with L = 512 tokens in d = 3 dimensions was found in 1 tries; take a smaller `L` or another `d`."
    )


def separable(made):
    """Whether some full `W` puts every best-scored token first (linear program)."""
    rows = (made.differences()[..., None] * made.z[:, None, None, :]).reshape(-1, made.d**2)
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    if (size == 0).any():
        return False
    n_rows, p = rows.shape
    answer = linprog(
        np.append(np.zeros(p), -1.0),
        A_ub=np.hstack([-rows / size, np.ones((n_rows, 1))]),
        b_ub=np.zeros(n_rows),
        bounds=[(-1, 1)] * p + [(None, 1)],
    )
    return bool(-answer.fun > 1e-9)


def test_digits_are_rows_of_two_digits():
    made = digit_tokens(n=9, seed=2)
    assert made.X.shape == (9, 8, 8)
    assert made.X.min() >= 0
    assert made.X.max() == 1
    np.testing.assert_array_equal(made.z, made.X.mean(axis=1))
    assert (made.y == 1).sum() == 4
    assert np.linalg.norm(made.v) == pytest.approx(1, rel=1e-15)
    np.testing.assert_array_equal(digit_tokens(n=40, seed=9).v, made.v)
    np.testing.assert_allclose(digit_tokens(classes=(8, 3)).v, -made.v, rtol=1e-14)
    assert made.name == "digits 3 and 8"


def test_digits_are_separable_when_few_and_not_when_many():
    assert all(separable(digit_tokens(n=8, seed=seed)) for seed in range(6))
    assert not separable(digit_tokens(n=200, seed=0))


def test_equal_rows_of_digits_are_kept_and_told():
    made = digit_tokens(n=200, classes=(1, 7), seed=0)
    assert made.n == 200
    assert made.duplicate_tokens
    assert made.ties
    for tie in made.ties:
        assert any(note.startswith(f"input {tie.input}: tokens ") for note in made.notes)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_tokens_come_back_as_they_were(here, save):
    base = gaussian_tokens(seed=1)
    save("t.npz", X=base.X, z=base.z, y=base.y, v=base.v)
    made = load_tokens("t.npz")
    assert same(made, base)
    assert (made.name, made.notes) == ("t.npz", ())
    assert same(load_tokens(here / "t.npz"), base)


def test_fortran_order_and_float32_come_back(here):
    base = arrays()
    np.savez("t.npz", **{**base, "X": np.asfortranarray(base["X"]), "v": base["v"].astype(np.float32)})
    made = load_tokens("t.npz")
    np.testing.assert_array_equal(made.X, base["X"])
    assert made.notes == (
        "`v` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
    )


def write(name, content):
    with open(name, "wb") as stream:
        stream.write(content)


def npy_bytes(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def pickled_list():
    return pickle.dumps([1, 2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty."),
        (b"a,b\n1,2\n", f"this is not an .npz file (it is a text file); write one with {SAVEZ}."),
        ("é".encode() * 300, f"this is not an .npz file (it is a text file); write one with {SAVEZ}."),
        (
            b"\x01\x00\xfe\xff",
            f"this is not an .npz file (its first bytes are of no known kind); write one with {SAVEZ}.",
        ),
        (b"\x89PNG\r\n\x1a\n....", f"this is not an .npz file (it is a PNG image); write one with {SAVEZ}."),
        (b"\x89HDF\r\n\x1a\n....", f"this is not an .npz file (it is an HDF5 or NetCDF file); write one with {SAVEZ}."),
        (npy_bytes(np.ones(3)), f"this is not an .npz file (it is a single array (.npy)); write one with {SAVEZ}."),
        (
            pickled_list(),
            f"this is a pickle, and loading it would run code; refused. Write the arrays with {SAVEZ}.",
        ),
        (b"PK\x03\x04 and no more", "the .npz file is truncated or damaged; write it again."),
    ],
    ids=["empty", "text", "long-text", "bytes", "png", "hdf", "npy", "pickle", "stub"],
)
def test_files_of_another_kind(here, content, message):
    write("data.npz", content)
    assert message_of(load_tokens, "data.npz") == f"data.npz: {message}"


def test_files_that_are_not_there(here):
    (here / "folder").mkdir()
    os.mkfifo("pipe")
    assert message_of(load_tokens, "no/where.npz") == "no/where.npz: there is no such file."
    assert message_of(load_tokens, "folder") == f"folder: this is a folder; give an .npz file, written by {SAVEZ}."
    assert message_of(load_tokens, "pipe") == "pipe: this is not a regular file."
    assert message_of(load_tokens, "two\nlines") == "'two\\nlines': there is no such file."
    assert message_of(load_tokens, "") == f"'': this is a folder; give an .npz file, written by {SAVEZ}."
    assert message_of(load_weights, "w.npz") == "w.npz: there is no such file."


def test_files_that_may_not_be_read(here, monkeypatch):
    np.savez("t.npz", **arrays())

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)  # the tests may run as a user whom no mode stops
    assert message_of(load_tokens, "t.npz") == "t.npz: it cannot be read: Permission denied."


def test_keys_that_are_missing_or_unknown_are_listed(here):
    data = arrays()
    np.savez("t.npz", X=data["X"], z=data["z"], labels=data["y"], v=data["v"])
    wanted = "the file must hold the arrays `X`, `z`, `y` and `v` and no others"
    assert message_of(load_tokens, "t.npz") == f"t.npz: {wanted}; missing: `y`; unknown: `labels`."
    np.savez("t.npz", **data, extra=1)
    assert message_of(load_tokens, "t.npz") == f"t.npz: {wanted}; unknown: `extra`."
    np.savez("t.npz", **{f"a{k}": np.ones(k) for k in range(8)})  # pyright: ignore[reportArgumentType]
    assert message_of(load_tokens, "t.npz") == (
        f"t.npz: {wanted}; missing: `X`, `z`, `y`, `v`; unknown: `a0`, `a1`, `a2`, `a3`, `a4` and 3 more."
    )


def test_what_the_data_refuse_names_the_file(here):
    data = arrays()
    np.savez("t.npz", **{**data, "y": np.array([0.0, 1.0])})
    assert message_of(load_tokens, "t.npz") == (
        "t.npz: `y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1); for labels in {0, 1} pass `2 * y - 1`."
    )
    np.savez("t.npz", **{**data, "v": data["v"] * 1j})
    assert message_of(load_tokens, "t.npz") == (
        "t.npz: `v` has complex entries (complex128); it must be real: pass `v.real` if that is meant."
    )
    np.savez("t.npz", **{**data, "X": data["X"][0]})
    assert message_of(load_tokens, "t.npz") == "t.npz: `X` must have shape (n, L, d); got (3, 2)."


class Trap:
    """Unpickling it would leave a file behind."""

    def __reduce__(self):
        return (open, ("sprung", "w"))


def test_what_would_run_code_is_refused_unrun(here):
    data = arrays()
    trap = np.empty(2, dtype=object)
    trap[:] = [Trap(), Trap()]
    np.savez("t.npz", **{**data, "v": trap})
    assert message_of(load_tokens, "t.npz") == (
        "t.npz: `v` holds Python objects, and loading them would run code; refused. "
        f"Convert it to numbers (`v.astype(float)`) and write it with {SAVEZ}."
    )
    write("p.npz", pickle.dumps(Trap()))
    assert message_of(load_tokens, "p.npz") == (
        f"p.npz: this is a pickle, and loading it would run code; refused. Write the arrays with {SAVEZ}."
    )
    with zipfile.ZipFile("model.pt", "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(Trap()))
    assert message_of(load_weights, "model.pt") == (
        "model.pt: the file holds a pickle, and loading it would run code; refused. "
        f"Write the arrays with {SAVEZ_WEIGHTS}."
    )
    assert not (here / "sprung").exists()


def zip_with(name, members):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in members.items():
            archive.writestr(key + ".npy", content)


def header(shape, descr="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def test_headers_that_claim_too_much_take_no_memory(here):
    good = {key: npy_bytes(array) for key, array in arrays().items()}
    zip_with("t.npz", {**good, "X": header((10**9, 10**9, 10**9)) + b"12345678"})
    assert message_of(load_tokens, "t.npz") == (
        "t.npz: `X` claims the shape (1000000000, 1000000000, 1000000000) of float64, which is "
        "8000000000000000000000000000 bytes; 8 are there. The file is damaged; write it again."
    )
    zip_with("t.npz", {**good, "X": header((-1, 3, 2)) + bytes(48)})
    assert message_of(load_tokens, "t.npz") == "t.npz: `X` claims the shape (-1, 3, 2); the file is damaged."
    zip_with("t.npz", {**good, "X": good["X"] + b"more"})
    assert "The file is damaged; write it again." in message_of(load_tokens, "t.npz")


def test_archives_that_unpack_to_too_much_are_refused(here, monkeypatch):
    monkeypatch.setattr("omegalimit.data.files.MAX_BYTES", 10_000)
    np.savez_compressed("t.npz", **{**arrays(), "X": np.zeros((2, 1000, 2))})
    unpacked = sum(info.file_size for info in zipfile.ZipFile("t.npz").infolist())
    assert message_of(load_tokens, "t.npz") == (
        f"t.npz: the arrays take {unpacked} bytes unpacked; at most 10000 are read."
    )


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_key_that_comes_twice_is_refused(here):
    with zipfile.ZipFile("t.npz", "w") as archive:
        for _ in range(2):
            archive.writestr("X.npy", npy_bytes(np.ones(3)))
    assert message_of(load_tokens, "t.npz") == "t.npz: the file holds `X` twice."


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_truncated_files_are_refused_wherever_they_end(here, save):
    save("t.npz", **arrays())
    whole = (here / "t.npz").read_bytes()
    for size in [*range(1, 40), *range(40, len(whole), 13), len(whole) - 1]:
        write("cut.npz", whole[:size])
        assert message_of(load_tokens, "cut.npz").startswith("cut.npz: ")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_are_refused_or_harmless(here, save):
    base = arrays()
    save("t.npz", **base)
    whole = (here / "t.npz").read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for where in rng.choice(len(whole), 400, replace=False):
        damaged = bytearray(whole)
        damaged[where] ^= int(rng.integers(1, 256))
        write("bad.npz", bytes(damaged))
        try:
            made = load_tokens("bad.npz")
        except ValueError as error:
            text = str(error)
            assert text.startswith("bad.npz: ")
            assert "\n" not in text
            n_refused += 1
        else:  # a date or an attribute of the archive was hit: the arrays, under checksums, are the same
            assert same(made, TokenData(**base))
    assert n_refused > 100


@given(content=st.binary(max_size=300), prefix=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x04", b"\x93NUMPY\x01\x00"]))
@settings(max_examples=150, deadline=None)
def test_random_bytes_are_refused(tmp_path_factory, content, prefix):
    file = tmp_path_factory.getbasetemp() / "random.npz"
    file.write_bytes(prefix + content)
    assert message_of(load_tokens, file).startswith(f"{file}: ")
    assert message_of(load_weights, file).startswith(f"{file}: ")


@given(content=st.binary(max_size=200), start=st.sampled_from([b"", b"\x93NUMPY\x01\x00\x40\x00{'descr': '<f8',"]))
@settings(max_examples=150, deadline=None)
def test_random_members_are_refused(tmp_path_factory, content, start):
    file = tmp_path_factory.getbasetemp() / "member.npz"
    zip_with(file, {**{key: npy_bytes(array) for key, array in arrays().items()}, "v": start + content})
    assert message_of(load_tokens, file).startswith(f"{file}: ")


# --- weights ---------------------------------------------------------------------------------------------------------


def test_weights_come_back(here):
    rng = np.random.default_rng(0)
    K, Q, W = rng.standard_normal((5, 2)), rng.standard_normal((5, 2)), rng.standard_normal((5, 5))
    np.savez("kq.npz", K=K, Q=Q.astype(np.float32))
    notes: list[str] = []
    made = load_weights("kq.npz", d=5, notes=notes)
    assert set(made) == {"K", "Q"}
    np.testing.assert_array_equal(made["K"], K)
    np.testing.assert_array_equal(made["Q"], Q.astype(np.float32))
    assert notes == [
        "`Q` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data."
    ]
    np.savez_compressed("w.npz", W=W)
    assert set(load_weights("w.npz")) == {"W"}
    np.testing.assert_array_equal(load_weights("w.npz")["W"], W)


ONES = np.ones((5, 2))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (
            {"K": ONES, "Q": ONES[:, :1]},
            "`K` has shape (5, 2) and `Q` has shape (5, 1); both must be (d, m), with W = K Q^T.",
        ),
        ({"W": ONES}, "`W` must be square, (d, d); got (5, 2)."),
        ({"W": np.ones(5)}, "`W` must have shape (d, d); got (5,)."),
        ({"K": np.ones(5), "Q": ONES}, "`K` must have shape (d, m); got (5,)."),
        ({"W": np.eye(4)}, "`W` has shape (4, 4); the tokens have 5 entries, so it must have 5 rows."),
        ({"W": np.zeros((5, 5))}, "`W` is all zero: such weights have no direction."),
        ({"K": ONES, "Q": 0 * ONES}, "`Q` is all zero: such weights have no direction."),
        ({"K": np.eye(5)[:, :2], "Q": np.eye(5)[:, [3, 4]] * 0 + [[1, 0]] * 5}, None),
        ({"K": np.ones((5, 0)), "Q": np.ones((5, 0))}, "`K` has shape (5, 0): there are no weights in it."),
        ({"W": put(np.eye(5), (2, 3), np.nan)}, "`W[2, 3]` is nan; every entry must be finite."),
        ({"K": ONES}, "the file must hold the arrays `K` and `Q` or `W` and no others; missing: `Q`."),
        (
            {"K": ONES, "Q": ONES, "W": np.eye(5)},
            "the file must hold the arrays `K` and `Q` or `W` and no others; got `K`, `Q`, `W`.",
        ),
        (
            {"wq": ONES},
            "the file must hold the arrays `K` and `Q` or `W` and no others; missing: `W`; unknown: `wq`.",
        ),
    ],
)
def test_weights_that_make_no_sense_are_refused(here, held, message):
    np.savez("w.npz", **held)
    if message is None:
        assert set(load_weights("w.npz", d=5)) == {"K", "Q"}
    else:
        assert message_of(load_weights, "w.npz", d=5) == f"w.npz: {message}"


def test_factors_whose_product_is_zero_are_refused_and_small_ones_are_not(here):
    K, Q = np.zeros((3, 2)), np.zeros((3, 2))
    K[:, 0], Q[:, 1] = 1.0, 1.0
    np.savez("w.npz", K=K, Q=Q)
    assert message_of(load_weights, "w.npz") == "w.npz: `K Q^T` is all zero: such weights have no direction."
    np.savez("w.npz", K=np.eye(3) * 1e-200, Q=np.eye(3) * 1e-200)
    assert set(load_weights("w.npz")) == {"K", "Q"}


def test_rescaling_is_exact_and_only_for_extreme_sizes():
    data = gaussian_tokens(3, 4, 5, seed=0)
    same, *none = data.rescaled()
    assert same is data
    assert none == [0, 0]
    huge = TokenData(X=data.X * 2.0**400, z=data.z * 2.0**-300, y=data.y, v=data.v * 2.0**-400)
    plain, ex, ez = huge.rescaled()
    np.testing.assert_array_equal(plain.scores, huge.scores)
    np.testing.assert_array_equal(plain.X * 2.0**ex, huge.X)
    np.testing.assert_array_equal(plain.z * 2.0**ez, huge.z)
    assert 0.25 <= np.abs(plain.X).max() <= 1
    assert f"divided by 2^{ex} (the head multiplied by it) and the queries by 2^{ez}, exactly" in plain.notes[-1]
