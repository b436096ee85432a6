"""Rows in two classes: what is checked at the door, what becomes +1, what files hold, and how a refusal is said."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _margins import s40
from omegalimit.data.classification import ClassificationData
from omegalimit.data.classification_files import load_classification
from omegalimit.data.classification_generators import pushed_gaussians, sign_gaussians

X = np.array([[1.0, 0.5], [0.0, 2.0], [3.0, -1.0]])
Y = np.array([1.0, -1.0, 1.0])
LAST = "the column to predict is the last one, `{}`; say `target` for another."


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(text: str, **options) -> ClassificationData:
    Path("t.csv").write_text(text)
    return load_classification("t.csv", **options)


def refused(text: str, **options) -> str:
    Path("t.csv").write_text(text)
    return said("t.csv", **options)


def said(source, **options) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+[.?]$") as caught:
        load_classification(source, **options)
    return str(caught.value).removeprefix("data frame: " if isinstance(source, pd.DataFrame) else f"{source}: ")


# --- ClassificationData ----------------------------------------------------------------------------------------------


def test_data_are_copied_named_and_read_only():
    rows, weights = X.copy(), np.array([1.0, 2, 3])
    made = ClassificationData(X=rows, y=Y, weights=weights)
    rows[0, 0] = weights[0] = 7
    assert (made.n, made.d, made.names, made.target, made.notes) == (3, 2, ("x1", "x2"), "y", ())
    assert made.X[0, 0] == 1
    assert made.weights is not None
    assert made.weights.tolist() == [1, 2, 3]
    assert made.Z.tolist() == [[1, 0.5], [0, -2], [3, -1]]
    for array in (made.X, made.y, made.Z, made.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2
    assert ClassificationData(X=X, y=np.array([1, -1, 1])).weights is None


def test_what_a_reader_must_see_is_noted():
    columns = np.array([[1.0, 2, 1, 0, -2, 5], [0, 3, 0, 0, -3, 5], [0, 3, 0, 0, -3, 5], [4, 1, 4, 0, -1, 5]])
    made = ClassificationData(X=columns, y=np.array([1, -1, -1, 1]), names=tuple("abcdef"), notes=("from a lab.",))
    assert made.notes == (
        "from a lab.",
        "zero in every row: `d`.",
        "equal columns: `a` and `c`.",
        "opposite columns: `b` and `e`.",
        "constant in every row, which makes it an intercept: `f`.",
        "rows that repeat an earlier one with its label (the first row is 0): 2 repeats 1.",
    )
    made = ClassificationData(X=np.array([[0.0, 0], [1, 2]], dtype=np.float32), y=np.array([1, -1]))
    assert made.notes == (
        "`X` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
        "rows of zeros (the first row is 0): 0; without an intercept no classifier has a positive margin on them.",
    )


@pytest.mark.parametrize("unit", [1.0, 1e-150, 1e150])
def test_rows_that_contradict_each_other_are_named(unit):
    rows = unit * np.array([[1.0, 2], [3, 4], [-0.0, 1], [3, 4], [0.0, 1], [3, 4]])
    made = ClassificationData(X=rows, y=np.array([1.0, -1, 1, 1, -1, -1]))
    # Row 5 repeats row 1, and contradicts row 3; zeros of either sign are equal.
    assert made.contradictions == ((1, 3), (2, 4), (3, 5))
    sentence = (
        "rows 1 and 3 (the first is 0) are equal and have opposite labels (3 such pairs): nothing separates the "
        "classes, in whatever norm and with or without an intercept."
    )
    assert made.contradiction == sentence
    assert sentence in made.notes
    nearly = rows.copy()
    nearly[1] *= 1 + 2**-52
    nearly[4] *= 1 + 2**-52
    nearly[5] *= 1 + 2**-51
    assert ClassificationData(X=nearly, y=made.y).contradictions == ()
    assert ClassificationData(X=nearly, y=made.y).contradiction is None


def test_rows_that_repeat_with_the_same_label_are_no_contradiction():
    made = ClassificationData(X=np.array([[1.0, 2], [1, 2], [3, 1]]), y=np.array([1.0, 1, -1]))
    assert made.contradictions == ()


def convert(positive: str, start: str = "write") -> str:
    return f"{start} `ClassificationData.from_labels(X=X, labels=y, positive={positive})`."


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"X": X[0]}, ValueError, "`X` must have shape (n, d); got (2,)."),
        ({"X": X[:0], "y": Y[:0]}, ValueError, "`X` has shape (0, 2): there is no row; pass at least one."),
        ({"y": Y[:2]}, ValueError, "`X` has shape (3, 2) and `y` has shape (2,): 3 rows against 2."),
        (
            {"X": np.where(X == 2, np.nan, X)},
            ValueError,
            "`X[1, 1]` is nan; every entry must be finite.",
        ),
        ({"y": [1, np.nan, -1]}, ValueError, "`y[1]` is nan; every entry must be finite."),
        ({"names": "ab"}, TypeError, "`names` must be a list of texts, one for each column of `X`; got 'ab'."),
        (
            {"X": np.ma.masked_greater(X, 1.5)},
            ValueError,
            "`X[1, 1]` is masked (2 such entries of 6); fill masked entries in, or leave out their rows.",
        ),
        ({"names": ("a",)}, ValueError, "`names` has 1 entries, and `X` has 2 columns; give one for each."),
        (
            {"y": [0, 1, 1]},
            ValueError,
            "`y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1): " + convert("1", "write `2 * y - 1` or"),
        ),
        (
            {"y": np.array([True, False, True])},
            ValueError,
            "`y` must hold only -1 and +1; `y[1]` is 0 (values seen: 0, 1): " + convert("1", "write `2 * y - 1` or"),
        ),
        (
            {"y": [-1, 2.5, 2.5]},
            ValueError,
            "`y` must hold only -1 and +1; `y[1]` is 2.5 (values seen: -1, 2.5): " + convert("2.5"),
        ),
        (
            {"y": ["no", "yes", "no"]},
            ValueError,
            "`y` must hold only -1 and +1; it holds `no` and `yes`: " + convert("'yes'"),
        ),
        (
            {"y": [1, 0, -1]},
            ValueError,
            "`y` holds 3 classes (-1, 0, 1) and must hold two; leave out the rows of all but two of them, or join "
            "classes.",
        ),
        (
            {"y": ["a", "b", "c"]},
            ValueError,
            "`y` holds 3 classes (`a`, `b`, `c`) and must hold two; leave out the rows of all but two of them, or "
            "join classes.",
        ),
        (
            {"y": -np.ones(3)},
            ValueError,
            "`y` holds one class only, -1 in all 3 rows; there must be rows of two classes.",
        ),
        ({"weights": [1, 2]}, ValueError, "`X` has shape (3, 2) and `weights` has shape (2,): 3 rows against 2."),
        (
            {"weights": [1, 0, 0]},
            ValueError,
            "`weights[1]` is 0 (2 such weights); every weight must be positive: leave the row out of the data if it "
            "is not to count.",
        ),
        (
            {"weights": [1, -2, 1]},
            ValueError,
            "`weights[1]` is -2; every weight must be positive: take a positive weight, or leave the row out.",
        ),
        ({"weights": [1, np.inf, 1]}, ValueError, "`weights[1]` is inf; every entry must be finite."),
        ({"weights": ["a", "b", "c"]}, TypeError, "`weights` must hold real numbers; it holds text (dtype <U1)."),
    ],
)
def test_data_that_are_refused(given, kind, message):
    with pytest.raises(kind) as caught:
        ClassificationData(**({"X": X, "y": Y} | given))
    assert str(caught.value) == message


# --- from_labels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "plus", "minus"),
    [
        ([0, 1, 0], "1", "0"),
        (np.array([2.5, 3, 2.5]), "3", "2.5"),
        (["no", "yes", "no"], "`yes`", "`no`"),
        (np.array(["no", "yes", "no"]), "`yes`", "`no`"),
        ([False, True, False], "`True`", "`False`"),
        (np.array([False, True, False]), "`True`", "`False`"),
        (pd.Series([7, 9, 7], index=[5, 6, 7]), "9", "7"),
        (pd.Categorical(["a", "b", "a"], categories=["b", "a"]), "`b`", "`a`"),
        (pd.Series(["a", "b", "a"], dtype="category"), "`b`", "`a`"),
        (pd.array([0, 1, 0], dtype="Int64"), "1", "0"),
        (np.array(["x", 3, "x"], dtype=object), "`x`", "3"),
        (pd.Categorical(["a", "b", "a"], categories=["b", "a"], ordered=True), "`a`", "`b`"),
        (
            pd.Series(["mild", "severe", "mild"], dtype=pd.CategoricalDtype(["severe", "none", "mild"], ordered=True)),
            "`mild`",
            "`severe`",
        ),
        (["+", "-", "+"], "`+`", "`-`"),
        (["-1", "+1", "-1"], "`+1`", "`-1`"),
        (["10", "9", "10"], "`10`", "`9`"),
        (["+", "a", "+"], "`a`", "`+`"),
    ],
)
def test_two_classes_of_any_kind(labels, plus, minus):
    values = list(labels)
    made = ClassificationData.from_labels(X, labels, target="class")
    assert set(made.y) == {-1, 1}
    assert (made.y == np.where([v == values[0] for v in values], made.y[0], -made.y[0])).all()
    n_plus = int((made.y == 1).sum())
    assert made.notes == (f"`class`: {plus} is +1 ({n_plus} rows) and {minus} is -1 ({3 - n_plus} rows).",)
    first = values[0]
    turned = ClassificationData.from_labels(X, labels, positive=first)
    assert turned.y.tolist() == [1, -1, 1]
    assert ClassificationData.from_labels(X, labels, positive=str(first)).y.tolist() == [1, -1, 1]


def test_signs_stay_as_they_are_unless_turned():
    made = ClassificationData.from_labels(X, [1, -1, 1], weights=[1, 2, 3], names=("a", "b"), notes=("read.",))
    assert made.y.tolist() == [1, -1, 1]
    assert (made.names, made.notes) == (("a", "b"), ("read.",))
    assert made.weights is not None
    assert made.weights.tolist() == [1, 2, 3]
    turned = ClassificationData.from_labels(X, [1, -1, 1], positive=-1)
    assert turned.y.tolist() == [-1, 1, -1]
    assert turned.notes == ("`y`: -1 is +1 (1 rows) and 1 is -1 (2 rows).",)


@pytest.mark.parametrize(
    ("labels", "options", "kind", "message"),
    [
        (
            [0, 1, 2],
            {},
            ValueError,
            "`y` holds 3 classes (0, 1, 2) and must hold two; leave out the rows of all but two of them, or join "
            "classes.",
        ),
        (
            ["u"] * 3,
            {"target": "kind"},
            ValueError,
            "`kind` holds one class only, `u` in all 3 rows; there must be rows of two classes.",
        ),
        ([], {}, ValueError, "`y` is empty; give a class for each row."),
        (
            ["a", None, "b"],
            {},
            ValueError,
            "`y[1]` is missing (None); every row needs a class: fill it in, or leave the row out.",
        ),
        (
            [0, 1, np.nan],
            {},
            ValueError,
            "`y[2]` is missing (nan); every row needs a class: fill it in, or leave the row out.",
        ),
        (
            pd.array([0, None, 1], dtype="Int64"),
            {},
            ValueError,
            "`y[1]` is missing (nan); every row needs a class: fill it in, or leave the row out.",
        ),
        (
            ["no", "yes", "no"],
            {"positive": "maybe"},
            ValueError,
            "`positive` is 'maybe', and the classes in `y` are `no` and `yes`; name one of them.",
        ),
        (
            [0, 1, 0],
            {"positive": 2},
            ValueError,
            "`positive` is 2, and the classes in `y` are 0 and 1; name one of them.",
        ),
        ([[0], [1], [0]], {}, TypeError, "a class must be a number, a text or a truth value; got [0]."),
        (
            np.array([[0], [1], [0]]),
            {},
            ValueError,
            "the labels must have shape (n,); got (3, 1): write `labels.ravel()`.",
        ),
        (X, {}, ValueError, "the labels must have shape (n,); got (3, 2)."),
        ("yes", {}, TypeError, "the labels must be a list with a class for each row; got 'yes'."),
        (3, {}, TypeError, "the labels must be a list with a class for each row; got 3."),
        ([0, 1], {}, ValueError, "`X` has shape (3, 2) and `y` has shape (2,): 3 rows against 2."),
    ],
)
def test_labels_that_are_refused(labels, options, kind, message):
    with pytest.raises(kind) as caught:
        ClassificationData.from_labels(X, labels, **options)
    assert str(caught.value) == message


@given(st.lists(st.integers(0, 1), min_size=2, max_size=30).filter(lambda bits: len(set(bits)) == 2))
def test_the_words_for_the_classes_change_nothing_but_the_words(bits):
    rows = np.arange(float(len(bits)))[:, None] ** [1, 2]
    made = [
        ClassificationData.from_labels(rows, [words[bit] for bit in bits])
        for words in ((0, 1), (-1, 1), ("a", "b"), (False, True), (3.5, 1e300), ("1", "2"))
    ]
    for other in made:
        assert np.array_equal(other.y, 2.0 * np.array(bits) - 1)
        assert np.array_equal(other.Z, made[0].Z)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plus", "minus"),
    [
        ("a,b,c\n1,.5,yes\n0,2,no\n3,-1,yes\n", "`yes`", "`no`"),
        ("a,b,c\n1,.5,1\n0,2,0\n3,-1,1\n", "1", "0"),
        ("a;b;c\n1;.5;+\n0;2;-\n3;-1;+\n", "`+`", "`-`"),
        # As doubles these two are one.
        (
            "a,b,c\n1,.5,9007199254740992\n0,2,9007199254740993\n3,-1,9007199254740992\n",
            "9007199254740993",
            "9007199254740992",
        ),
        ('a,b,c\n1,.5,"two words, and a comma"\n0,2,none\n3,-1,"two words, and a comma"\n', None, "`none`"),
    ],
)
def test_the_target_may_be_text_or_numbers(here, text, plus, minus):
    made = read(text, target="c")
    plus = plus or "`two words, and a comma`"
    assert (made.names, made.target, made.name) == (("a", "b"), "c", "t.csv")
    assert np.array_equal(made.X, X)
    n_plus = int((made.y == 1).sum())
    assert made.notes == (f"`c`: {plus} is +1 ({n_plus} rows) and {minus} is -1 ({3 - n_plus} rows).",)
    assert made.y[0] == made.y[2] != made.y[1]
    word = minus.strip("`")
    assert (read(text, target="c", positive=word).y == -made.y).all()


def test_the_target_stands_anywhere(here):
    made = read("kind,a,b\nu,1,.5\nv,0,2\nu,3,-1\n", target="kind", positive="u")
    assert (made.names, made.y.tolist()) == (("a", "b"), [1, -1, 1])
    assert np.array_equal(made.X, X)
    assert read("a,b,kind\n1,.5,u\n0,2,v\n").notes[0] == LAST.format("kind")


def test_a_file_without_names_whose_classes_are_text(here):
    made = read("1,.5,yes\n0,2,no\n3,-1,yes\n")
    assert (made.names, made.target, made.y.tolist()) == (("x1", "x2"), "x3", [1, -1, 1])
    assert np.array_equal(made.X, X)
    # A class that does not come again may be a name: it is asked for.
    assert refused("1,.5,yes\n0,2,no\n3,-1,no\n") == (
        "line 1 holds numbers (`1`, `.5`) among names, and it is not clear whether it is a row; give the columns other "
        "names (from Python you may also say `header=True` or `header=False`)."
    )
    assert read("1,.5,yes\n0,2,no\n3,-1,no\n", header=False).n == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a,b,c\n1,red,u\n2,blue,v\n",
            "line 2, column `b`: 'red' is not a number; code text as numbers (0 and 1 for each of its values), or "
            "leave the column out.",
        ),
        (
            "a,b,c\n1,2,u\n2,3,\n3,4,NA\n",
            "line 3, column `c`: the value is missing (nothing between separators) (2 such values); fill it in, or "
            "leave out the row or the column.",
        ),
        (
            "a,b,c\n1,2,?\n2,3,u\n",
            "line 2, column `c`: the value is missing ('?'); fill it in, or leave out the row or the column.",
        ),
        (
            "a,c\n1,u\n2,v\n3,w\n",
            "`c` holds 3 classes (`u`, `v`, `w`) and must hold two; leave out the rows of all but two of them, or "
            "join classes.",
        ),
        ("a,c\n1,u\n2,u\n", "`c` holds one class only, `u` in all 2 rows; there must be rows of two classes."),
        (
            "a,c\n1,0.25\n2,7\n3,9\n",
            "`c` holds 3 classes (0.25, 7, 9) and must hold two; leave out the rows of all but two of them, or join "
            "classes.",
        ),
    ],
)
def test_text_that_is_refused(here, text, message):
    assert refused(text, target="c") == message


def test_a_positive_class_that_is_not_there(here):
    assert refused("a,c\n1,u\n2,v\n", positive="w") == (
        "`positive` is 'w', and the classes in `c` are `u` and `v`; name one of them."
    )
    assert read("a,c\n1,0\n2,1\n", positive="0.0").y.tolist() == [1, -1]


def test_npz_data_frames_and_parquet(here):
    labels = np.array(["u", "v", "u"])
    np.savez("t.npz", X=X, y=labels, names=np.array(["a", "b"]))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": labels})
    frame.to_parquet("t.parquet")
    for source in ("t.npz", frame, "t.parquet", frame.astype({"y": "category"})):
        made = load_classification(source, "y", positive="u")
        assert (made.names, made.y.tolist()) == (("a", "b"), [1, -1, 1])
        assert np.array_equal(made.X, X)
        assert made.notes == ("`y`: `u` is +1 (2 rows) and `v` is -1 (1 rows).",)
    for kind, values in (("bool", [True, False, True]), ("Int64", [1, 0, 1]), ("object", [1, 0, 1])):
        made = load_classification(frame.assign(y=pd.array(values, dtype=kind)))
        assert made.y.tolist() == [1, -1, 1]
    assert said(frame.assign(y=["u", None, "v"])) in {
        "row 1 (the first is 0), column `y`: the value is missing (None); fill it in, or leave out the row or the "
        "column.",
        "row 1 (the first is 0), column `y`: the value is missing (nan); fill it in, or leave out the row or the "
        "column.",
    }
    np.savez("t.npz", X=X, y=labels[:, None])
    assert said("t.npz") == "`y` must have shape (n,); got (3, 1): write `y.ravel()`."
    np.savez("t.npz", X=X, y=np.array([1.0, np.nan, 0]))
    assert said("t.npz") == "`y[1]` is missing (nan); every row needs a class: fill it in, or leave the row out."


def test_weights_come_from_files(here):
    weights, frame = [1.0, 2.5, 3], pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": [0, 1, 0], "count": [1, 2.5, 3]})
    np.savez("t.npz", X=X, y=[0, 1, 0], weights=weights)
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    last = "the column to predict is the last one before the weights, `y`; say `target` for another."
    for source, options in [("t.npz", {}), *((s, {"weights": "count"}) for s in ("t.csv", "t.parquet", frame))]:
        made = load_classification(source, **options)
        assert made.weights is not None
        assert made.weights.tolist() == weights
        assert np.array_equal(made.X, X)
        assert made.notes[:-1] == ((last,) if options else ())
    assert load_classification("t.csv", "y").names == ("a", "b", "count")
    np.savez("u.npz", X=X, y=[0, 1, 0], weights=[1, 2])
    assert said("u.npz") == "`X` has shape (3, 2) and `weights` has shape (2,): 3 rows against 2."
    assert said("t.npz", weights="w") == "the weights in an .npz file are its array `weights`; got `weights` 'w'."
    np.savez("u.npz", X=X, y=[0, 1, 0])
    assert said("u.npz", weights="weights") == "there is no array `weights` in the file; it holds `X`, `y`."
    assert said("t.csv", target="y", weights="y") == "the column `y` cannot be both the target and the weights."
    assert said("t.csv", weights="counts") == (
        "there is no column `counts`; the columns are `a`, `b`, `y`, `count`; do you mean `count`?"
    )
    assert refused("a,w\n0,1\n1,2\n", weights="w") == (
        "beside the target and the weights there is no column; the columns are `a`, `w`."
    )
    assert refused("a,c,w\n1,0,1\n2,1,-2\n", weights="w") == (
        "`weights[1]` is -2; every weight must be positive: take a positive weight, or leave the row out."
    )
    with pytest.raises(TypeError, match=r"^`weights` must be the name of a column; got 3\.$"):
        load_classification("t.csv", weights=3)  # pyright: ignore[reportArgumentType]  # refused


def test_ordered_categories_of_files_keep_their_order(here):
    kinds = pd.CategoricalDtype(["tall", "short"], ordered=True)
    frame = pd.DataFrame({"a": X[:, 0], "y": pd.Series(["tall", "short", "tall"], dtype=kinds)})
    frame.to_parquet("t.parquet")
    for source in (frame, "t.parquet"):
        assert load_classification(source, "y").y.tolist() == [-1, 1, -1]
    assert load_classification(frame.astype({"y": "category"}).astype({"y": str}), "y").y.tolist() == [1, -1, 1]


@given(content=st.text("0123456789.,;-+eE\n\r\t \"'#_naifyos?", max_size=60))
def test_any_text_is_read_or_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(content.encode())
    try:
        made, text = load_classification(path), ""
    except ValueError as error:
        made, text = None, str(error)
    if made is not None:
        assert np.isfinite(made.X).all()
        assert set(made.y) == {-1, 1}
    else:
        assert text.startswith(f"{path}: ")
        assert "\n" not in text


# --- generators ------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_known_sets():
    # To one rounding: the product with y = +-1 stands in another place of the sum.
    np.testing.assert_allclose(pushed_gaussians().Z, s40(), rtol=4e-16, atol=1e-16)
    rng = np.random.default_rng(0)
    w, rows = rng.standard_normal(4), rng.standard_normal((6, 4))
    assert np.array_equal(sign_gaussians().Z, rows * np.sign(rows @ w)[:, None])


@pytest.mark.parametrize("seed", range(4))
def test_the_push_is_a_margin(seed):
    for push in (0.0, 0.3, 5.0):
        made = pushed_gaussians(30, 4, push=push, seed=seed)
        w = np.random.default_rng(seed).normal(size=4)
        margins = made.Z @ w / np.linalg.norm(w)
        assert margins.min() >= push * (1 - 1e-12)
        assert made.name == f"pushed gaussians, seed {seed}"


@pytest.mark.parametrize(
    ("make", "options", "kind", "message"),
    [
        (pushed_gaussians, {"n": 1}, ValueError, "`n` must be at least 2; got 1."),
        (pushed_gaussians, {"push": -1.0}, ValueError, "`push` must be a finite length, not negative; got -1.0."),
        (pushed_gaussians, {"push": np.nan}, ValueError, "`push` must be a finite length, not negative; got nan."),
        (sign_gaussians, {"d": 0}, ValueError, "`d` must be at least 1; got 0."),
        (sign_gaussians, {"seed": 1.5}, TypeError, "`seed` must be an integer; got 1.5."),
    ],
)
def test_generators_refuse(make, options, kind, message):
    with pytest.raises(kind) as caught:
        make(**options)
    assert str(caught.value) == message


def test_rows_on_one_side_only_are_drawn_again():
    # Two rows fall on one side half of the time.
    notes = []
    for seed in range(10):
        data = sign_gaussians(2, 3, seed=seed)
        assert set(data.y) == {-1.0, 1.0}
        rng = np.random.default_rng(seed)
        w, X, n_before = rng.standard_normal(3), rng.standard_normal((2, 3)), 0
        while not np.ptp(np.sign(X @ w)):
            w, X, n_before = rng.standard_normal(3), rng.standard_normal((2, 3)), n_before + 1
        np.testing.assert_array_equal(data.X, X)
        again = f"all rows of the first {n_before} draws fell on one side; they were drawn again."
        assert data.notes == ((again,) if n_before else ())
        notes += data.notes
    assert notes
