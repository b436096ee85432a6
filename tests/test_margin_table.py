"""Margin ratios: exact values, known optima, ties, scales, and what is refused."""

import dataclasses
import math
import re
from typing import Any

import numpy as np
import optax
import pytest
import scipy.sparse

from omegalimit.data.classification_generators import pushed_gaussians
from omegalimit.diagnose.margin_table import margin_table
from omegalimit.flows.optimiser_descent import optimiser_descent

# Both optima of the fixture to the ten digits that are known.
L2 = np.array([0.2172257118, -0.0712081557, 0.9175361012, 0.3253765383])
LINF = np.array([0.9326318707, -0.3057558685, 1.0, 1.0])


def fixture():
    rng = np.random.default_rng(0)
    w, X = rng.standard_normal(4), rng.standard_normal((6, 4))
    return np.sign(X @ w)[:, None] * X


def matrices():
    rng = np.random.default_rng(1)
    A, W = rng.standard_normal((12, 5, 4)), rng.standard_normal((5, 4))
    return np.sign((A * W).sum(axis=(1, 2)))[:, None, None] * A


def test_optima_win_in_their_norm_and_in_no_other():
    table = margin_table({"two": L2, "infinity": LINF, "path": np.stack([L2, LINF])}, fixture(), ["l2", "linf"])
    assert table.names == ("two", "infinity", "path")
    # Optima to ten digits have margins to ten digits; the maximum margins themselves are on the theory page.
    np.testing.assert_allclose(np.diag(table.ratio), 1, atol=1e-9)
    assert [c.lower for c in table.certificates] == pytest.approx([0.6211913746, 0.8513643517412691], abs=5e-11)
    assert [table.winner(name).norm for name in table.names] == ["l2", "linf", "linf"]
    np.testing.assert_array_equal(table.ratio[1], table.ratio[2])
    assert table.winner("two").second == "linf"
    assert table.winner("two").lead > 1e6


def test_ratios_are_what_they_are_called():
    """Against margins and norms from NumPy over the maximum margins, which two certificates enclose."""
    Z = fixture()
    w = np.array([0.3, -0.1, 0.9, 0.6])
    table = margin_table({"w": w, "wrong": -w}, Z, ["l2", "linf", "l1", ("lp", 4)])
    assert table.norms == ("l2", "linf", "l1", "lp(4)")
    for k, order in enumerate((2, np.inf, 1, 4)):
        size, gamma = np.linalg.norm(w, order), table.certificates[k].lower
        for row, point in enumerate((w, -w)):
            exact = (Z @ point).min() / size / gamma
            # Margins err by some units of the last place, and the bounds of gamma meet to 1e-10.
            assert table.margins[row, k] == pytest.approx(exact * gamma, rel=1e-14)
            assert table.lower[row, k] <= exact * (1 + 1e-10 * np.sign(exact))
            assert table.upper[row, k] >= exact * (1 - 1e-10 * np.sign(exact))
            assert 0 <= table.upper[row, k] - table.lower[row, k] < 1e-9 * abs(exact)


def test_matrices_have_their_norms_and_those_of_their_entries():
    A = matrices()
    W = A.mean(axis=0)
    table = margin_table({"W": W}, A)
    assert table.norms == ("frobenius", "spectral", "nuclear", "linf")
    s, least = np.linalg.svd(W, compute_uv=False), (A * W).sum(axis=(1, 2)).min()
    sizes = [np.linalg.norm(W), s[0], s.sum(), np.abs(W).max()]
    np.testing.assert_allclose(table.margins[0], least / np.array(sizes), rtol=1e-12)
    for k, norm in enumerate(table.norms):
        best = table.certificates[k].point.reshape(5, 4)
        assert margin_table({"best": best}, A).winner("best").norm == norm
    # l2 of the entries is frobenius: the two are never told apart.
    both = margin_table({"best": table.certificates[0].point}, A, ["frobenius", "l2"])
    assert both.winner("best").norm is None
    assert both.winner("best").reason.endswith("optimal in l2, too: no point tells them apart.") or both.winner(
        "best"
    ).reason.endswith("optimal in frobenius, too: no point tells them apart.")


def test_no_norm_is_named_where_none_can_be():
    # Each row constrains a coordinate of its own: (1, 1) maximises the margin in every norm.
    table = margin_table({"w": np.ones(2), "far": np.array([1.0, 0.1])}, np.eye(2), ["l2", "linf", "l1"], near=0.9)
    assert table.winner("w").norm is None
    assert "no point tells them apart" in table.winner("w").reason
    assert table.winner("far").norm is None
    assert table.winner("far").reason == "the highest ratio, 0.1818 (l1), is below 0.9."
    clear = margin_table({"w": L2}, fixture(), ["l2", "linf"], near=0.9)
    assert clear.winner("w").norm == "l2"
    blurred = dataclasses.replace(clear, lower=np.array([[0.93, 0.90]]), upper=np.array([[0.96, 0.95]]))
    assert blurred.winner("w").reason == "the ratios [0.93, 0.96] (l2) and [0.9, 0.95] (linf) overlap."
    assert blurred.winner("w").norm is None
    astride = dataclasses.replace(clear, lower=np.array([[0.85, 0.1]]), upper=np.array([[0.95, 0.2]]))
    assert astride.winner("w").reason == "the highest ratio, [0.85, 0.95] (l2), may be below 0.9."
    alone = margin_table({"w": L2}, fixture(), ["l2"]).winner("w")
    assert (alone.norm, alone.second, math.isnan(alone.lead)) == ("l2", None, True)
    asked = margin_table({"w": (L2 + LINF) / 2}, fixture(), ["l2", "linf"], near=0.99).winner("w")
    assert asked.reason == "the highest ratio, 0.9026 (l2), is below 0.99."


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_change_nothing(scale):
    points = {"two": L2, "between": L2 + LINF, "wrong": -L2}
    one, other = margin_table(points, fixture()), margin_table({k: w * scale for k, w in points.items()}, fixture())
    third = margin_table(points, fixture() * scale)
    for table in (other, third):
        # Scaling by a power of ten rounds every entry once.
        np.testing.assert_allclose(table.ratio, one.ratio, rtol=1e-12)
        assert [table.winner(k).norm for k in points] == [one.winner(k).norm for k in points]


def test_as_text_frame_and_arrays():
    table = margin_table({"two": L2, "infinity": LINF}, fixture(), ["l2", "linf"])
    assert str(table) == (
        "          l2      linf    maximised in\ntwo       1.0000  0.7952  l2\ninfinity  0.7962  1.0000  linf"
    )
    wide = dataclasses.replace(table, lower=table.lower - 0.01, near=0.9)
    assert str(wide).splitlines()[1] == "two       [0.9900, 1.0000]  [0.7852, 0.7952]  l2"
    frame = table.frame()
    assert frame["wins"].tolist() == [True, False, False, True]
    np.testing.assert_array_equal(frame["ratio_lower"], table.lower.reshape(-1))
    data = table.dataset()
    assert data["winner"].values.tolist() == ["l2", "linf"]
    assert float(data["ratio_upper"].sel(point="two", norm="linf")) == table.upper[0, 1]


def test_rows_that_nothing_separates_are_named():
    Z = fixture()
    for rows, which in (
        (np.vstack([Z, -Z[2]]), "rows 2, 6 have a combination with positive weights that is zero."),
        (np.vstack([Z, np.zeros(4)]), "row 6 is zero."),
    ):
        message = f"`Z` is not separable, so that no margin is positive: {which}"
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            margin_table({"w": L2}, rows)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"points": {"w": np.ones(3)}},
            ValueError,
            "`points['w']` must have the shape of a row, (4,), or one more axis",
        ),
        ({"points": {"w": np.zeros(4)}}, ValueError, "`points['w']` is zero, which has no direction and no margin."),
        ({"points": {"w": [1, 2, 3, np.inf]}}, ValueError, "`points['w'][3]` is inf; every entry must be finite."),
        ({"points": {}}, ValueError, "`points` is empty; pass at least one, as {'name': w}."),
        ({"points": [np.ones(4)]}, TypeError, "`points` must map names to arrays; got list."),
        (
            {"Z": np.ones(4)},
            ValueError,
            "`Z` must have shape (n, d) or (n, d1, d2) and at least one entry; got (4,).",
        ),
        (
            {"Z": np.ones((0, 4))},
            ValueError,
            "`Z` must have shape (n, d) or (n, d1, d2) and at least one entry; got (0, 4).",
        ),
        (
            {"Z": scipy.sparse.csr_array(np.ones((2, 4)))},
            TypeError,
            "`Z` is a sparse array; pass `Z.toarray()`.",
        ),
        (
            {"Z": [[2**53 + 1, 1, 1, 1]]},
            ValueError,
            "`Z` has integers beyond 2**53 that no double holds; rescale it or round it yourself.",
        ),
        (
            {"points": {"w": [2**53 + 1, 1, 1, 1]}},
            ValueError,
            "`points['w']` has integers beyond 2**53 that no double holds; rescale it or round it yourself.",
        ),
        (
            {"Z": [[1.0, 1, 1, 1], [1e-200, 0, 0, 0]]},
            ValueError,
            "Row 1 of `Z` is smaller than the largest by a factor of 1e-200; bounds on both leave double precision. "
            "Rescale or drop it.",
        ),
        ({"norms": "l7"}, ValueError, "`norms` must be among l1, l2, linf, lp, frobenius, nuclear, spectral, schatten"),
        ({"norms": 5}, TypeError, "`norms` must be a sequence of names, for example ('l2', 'linf'); got 5."),
        (
            {"norms": [("lp", "a")]},
            ValueError,
            "'lp' needs its exponent, a number above 1, as ('lp', 4); got ('lp', 'a').",
        ),
        ({"norms": ["lp"]}, ValueError, "'lp' needs its exponent, a number above 1, as ('lp', 4); got 'lp'."),
        ({"norms": [("l2", 3)]}, ValueError, "'l2' has no exponent; got ('l2', 3)."),
        ({"near": "a"}, TypeError, "`near` must be a number; got 'a'."),
        ({"telling": "a"}, TypeError, "`telling` must be a number; got 'a'."),
        ({"telling": 0.5}, ValueError, "`telling` must be at least 1 and finite; got 0.5."),
        ({"same": True}, TypeError, "`same` must be a number; got True."),
        ({"tol": "a"}, TypeError, "`tol` must be a number; got 'a'."),
        ({"tol": 0}, ValueError, "`tol` must lie between 0 and 1, both excluded; got 0."),
        (
            {"norms": ["l7"]},
            ValueError,
            "`norms` must be among l1, l2, linf, lp, frobenius, nuclear, spectral, schatten",
        ),
        ({"norms": ["nuclear"]}, ValueError, "'nuclear' is a norm of matrices; `Z` of shape (6, 4) has vectors."),
        ({"norms": []}, ValueError, "`norms` is empty; pass at least one, for example ('l2', 'linf')."),
        ({"near": 1.0}, ValueError, "`near` must lie between 0 and 1, both excluded; got 1.0."),
    ],
)
def test_bad_input(change, error, message):
    arguments = {"points": {"w": L2}, "Z": fixture()} | change
    with pytest.raises(error, match="^" + re.escape(message)):
        margin_table(**arguments)


def test_an_unknown_point():
    with pytest.raises(ValueError, match=r"^There is no point 'v' in the table; its points are w\.$"):
        margin_table({"w": L2}, fixture()).winner("v")


def test_no_norm_is_named_where_another_norms_optimum_does_as_well():
    # On the way from the start to the l2 optimum the l1 ratio may be the higher one, and falls behind only later.
    table = margin_table({"w": L2}, fixture(), ["l2", "linf"], near=0.9)
    short = dataclasses.replace(
        table,
        lower=np.array([[0.93, 0.5]]),
        upper=np.array([[0.93, 0.5]]),
        across=np.array([[1.0, 0.6], [0.94, 1.0]]),
    )
    assert short.winner("w").norm is None
    assert short.winner("w").reason == (
        "the highest ratio is 0.93 (l2), but the optimum of linf has 0.94 there: the point may be on its way to either."
    )
    # 0.07 from 1, and that optimum 0.27 and 0.29: less and more than four times as far.
    for other, norm in ((0.73, None), (0.71, "l2")):
        ahead = dataclasses.replace(short, across=np.array([[1.0, 0.6], [other, 1.0]]))
        assert ahead.winner("w").norm == norm


def test_no_norm_is_named_on_the_way_past_an_optimum():
    """In the plane, between the optima: of l-infinity at (1, 1), of l2 at (1/2.195, 1), where both rows are active."""
    Z = np.array([[0.005, 1.0], [2.2, 0.0]])
    points = {"two": np.array([1 / 2.195, 1.0]), "infinity": np.ones(2), "between": np.array([0.8, 1.0])}
    table = margin_table(points, Z, ["l2", "linf"])
    assert [table.winner(name).norm for name in table.names] == ["l2", "linf", None]
    assert table.winner("between").reason == (
        "the highest ratio is 0.999 (linf), but the optimum of l2 has 0.9973 there: "
        "the point may be on its way to either."
    )
    assert margin_table(points, Z, ["l2", "linf"], telling=1).winner("between").norm == "linf"
    # Higher than at the optimum of l2, to which it may be on its way, and so far from it in l2.
    assert table.ratio[2, 1] > table.ratio[0, 1]
    assert table.ratio[2, 0] < 0.9


def test_optimisers_on_their_way_are_given_no_norm():
    """From the first step to the last, no state is given a norm that the optimiser does not tend to."""
    Z, step = pushed_gaussians().Z, 0.01

    def normalised(eps):
        return optax.chain(optax.normalize_by_update_norm(eps=eps), optax.scale(-step))

    for optimiser, eps, n_steps, norm, is_named in (
        (optax.sgd(0.5), None, 50_000, "l2", False),  # a ratio of 0.95: on its way
        (normalised, 0.0, 50_000, "l2", True),
        (optax.sign_sgd(step), None, 50_000, "linf", True),
        # Large steps: for some 10^5 of them within 2% of the Euclidean optimum, from where it leaves.
        (lambda eps: optax.adam(step, eps=eps), 0.0, 400_000, "linf", False),
    ):
        run = optimiser_descent(Z, optimiser, n_steps=n_steps, eps=eps, n_kept=25)
        table = margin_table({str(k): w for k, w in zip(run.steps[1:], run.w[1:], strict=True)}, Z)
        assert {winner.norm for winner in table.winners.values()} <= {None, norm}
        assert (table.winner(str(n_steps)).norm == norm) is is_named


def test_one_norm_is_a_table_of_one():
    cases: Any = (("l2", "l2"), (("lp", 4), "lp(4)"), ([["lp", 3]], "lp(3)"), ([("lp", 4)], "lp(4)"))
    for norms, name in cases:
        assert margin_table({"w": L2}, fixture(), norms).norms == (name,)
    assert margin_table({"w": L2}, fixture(), ("l2", "linf")).norms == ("l2", "linf")
