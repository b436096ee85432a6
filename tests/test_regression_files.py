"""Regression data: what is checked at the door, what files hold, and what is refused and how it is said."""

import csv
import io
import os
import pickle
import sys
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omegalimit.data import RegressionData, load_regression

X = np.array([[1.0, 0.5], [0.0, 2.0], [3.0, -1.0]])
Y = np.array([1.0, -1.0, 2.0])
WANTED = "a CSV, Parquet or .npz file"
HOW = "np.savez(path, X=X, y=y)"
FILL = "fill it in, or leave out the row or the column."
NO_TEXT = "is not a number; code text as numbers (0 and 1 for each of its values), or leave the column out."
EITHER = "give the columns other names (from Python you may also say `header=True` or `header=False`)."
LAST = "the column to predict is the last one, `{}`; say `target` for another."


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(text: str | bytes, **options) -> RegressionData:
    Path("t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_regression("t.csv", **options)


def said(source, **options) -> str:
    """The one line with which a source is refused, without what it starts with."""
    with pytest.raises(ValueError, match=r"^[^\n]+[.?]$") as caught:
        load_regression(source, **options)
    start = "data frame: " if isinstance(source, pd.DataFrame) else f"{source}: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def refused(text: str | bytes, **options) -> str:
    Path("t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return said("t.csv", **options)


# --- RegressionData --------------------------------------------------------------------------------------------------


def test_data_are_copied_named_and_read_only():
    rows = X.copy()
    made = RegressionData(X=rows, y=Y)
    rows[0, 0] = 7
    assert (made.n, made.d, made.names, made.target, made.notes) == (3, 2, ("x1", "x2"), "y", ())
    assert made.X[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        made.X[0, 0] = 2


def test_what_a_reader_must_see_is_noted():
    columns = np.array([[1.0, 2, 1, 0, -2], [0, 3, 0, 0, -3]])
    made = RegressionData(X=columns, y=np.array([2, 2]), names=("a", "b", "c", "d", "e"), notes=("from a lab.",))
    assert made.notes == (
        "from a lab.",
        "`y` came as int64 and was converted to float64, exactly.",
        "`y` is 2 in every row.",
        "zero in every row: `d`.",
        "equal columns: `a` and `c`.",
        "opposite columns: `b` and `e`.",
    )


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"X": X[0]}, ValueError, "`X` must have shape (n, d); got (2,)."),
        ({"y": X}, ValueError, "`y` must have shape (n,); got (3, 2)."),
        ({"X": X[:0], "y": Y[:0]}, ValueError, "`X` has shape (0, 2): there is no row; pass at least one."),
        ({"X": X[:, :0]}, ValueError, "`X` has shape (3, 0): there is no column; pass at least one."),
        ({"y": Y[:2]}, ValueError, "`X` has shape (3, 2) and `y` has shape (2,): 3 rows against 2."),
        ({"X": X * np.nan}, ValueError, "`X[0, 0]` is nan (6 such entries of 6); every entry must be finite."),
        ({"y": Y * np.inf}, ValueError, "`y[0]` is inf (3 such entries of 3); every entry must be finite."),
        ({"X": X + 1j}, TypeError, "`X` has complex entries (complex128); it must be real: pass `X.real` if that is "),
        ({"names": ("a",)}, ValueError, "`names` has 1 entries, and `X` has 2 columns; give one for each."),
        ({"names": ("a", "a")}, ValueError, "two columns are called `a`; give every column a name of its own."),
        ({"names": ("a", "y")}, ValueError, "two columns are called `y`; give every column a name of its own."),
        ({"names": ("a", "")}, ValueError, "`names` and `target` must not be empty; give every column a name."),
        ({"names": ("a", 3)}, TypeError, "`names` and `target` must be text; got 3."),
    ],
)
def test_data_that_do_not_fit(given, kind, message):
    with pytest.raises(kind) as caught:
        RegressionData(**({"X": X, "y": Y} | given))
    assert str(caught.value).startswith(message)


# --- separated text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a,b,y\n1,.5,1\n0,2,-1.0\n3,-1,2e0\n",
        "a;b;y\n1;.5;1\n0;2;-1.0\n3;-1;2e0\n",
        "a\tb\ty\n1\t.5\t1\n0\t2\t-1.0\n3\t-1\t2e0",
        "a|b|y\n1|.5|1\n0|2|-1.0\n3|-1|+2.e0\n",
        "  a b   y\n1 .5 1\n 0   2 -1.0  \n3 -1 2E+0\n",
        '"a", "b", "y"\n1, .5, 1\n"0", "2", "-1.0"\n3, -1, 2e0\n\n\n',
        "a,b,y\r\n1,.5,1\r\n0,2,-1.0\r\n3,-1,2e0\r\n",
        "a,b,y\r1,.5,1\r0,2,-1.0\r3,-1,2e0\r",
        "\ufeffa,b,y\n1,.5,1\n0,2,-1.0\n3,-1,2e0\n",
        "sep=;\na;b;y\n1;.5;1\n0;2;-1.0\n3;-1;2e0\n",
    ],
)
def test_separators_quotes_and_line_ends_are_found(here, text):
    made = read(text, target="y")
    assert (made.names, made.target, made.name, made.notes) == (("a", "b"), "y", "t.csv", ())
    assert np.array_equal(made.X, X)
    assert np.array_equal(made.y, Y)


def test_the_target_is_the_last_column_or_the_one_that_is_named(here):
    text = "price,b,c\n1,2,3\n4,5,9\n"
    made = read(text)
    assert (made.names, made.target, made.notes) == (("price", "b"), "c", (LAST.format("c"),))
    made = read(text, target="price")
    assert (made.names, made.target, made.notes) == (("b", "c"), "price", ())
    assert np.array_equal(made.X, [[2, 3], [5, 9]])
    assert np.array_equal(made.y, [1, 4])


def test_a_file_without_names(here):
    made = read("1,.5,1\n0,2,-1\n3,-1,2\n")
    assert (made.names, made.target) == (("x1", "x2"), "x3")
    assert made.notes == ("the file has no names, so the columns are called `x1` to `x3`.", LAST.format("x3"))
    assert np.array_equal(made.X, X)
    assert read("1,.5,1\n0,2,-1\n", target="x1").y.tolist() == [1, 0]


@pytest.mark.parametrize("delimiter", [" ", ",", ";"])
def test_what_numpy_writes(here, delimiter):
    table = np.column_stack([X, Y])
    np.savetxt("t.csv", table, delimiter=delimiter, header=delimiter.join(["a", "b", "y"]))
    made = load_regression("t.csv")
    assert (made.names, made.target) == (("a", "b"), "y")
    assert made.notes == ("the names are those of the comment above the rows.", LAST.format("y"))
    assert np.array_equal(made.X, X)
    np.savetxt("t.csv", table, delimiter=delimiter, header="made on a Monday\nby hand")
    made = load_regression("t.csv")
    assert made.names == ("x1", "x2")
    assert made.notes[0] == "lines of comments above the rows were skipped: 2."
    assert np.array_equal(made.y, Y)


def test_the_index_that_pandas_and_r_write_is_no_feature(here):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    for index in (pd.RangeIndex(3), pd.RangeIndex(1, 4)):
        frame.set_index(index).to_csv("t.csv")
        made = load_regression("t.csv", "y")
        assert (made.names, made.notes) == (
            ("a", "b"),
            ("the first column has no name and counts the rows; it was left out.",),
        )
        assert np.array_equal(made.X, X)
    frame.set_index(pd.Index([3, 1, 2])).to_csv("t.csv")
    assert said("t.csv") == ("column 1 has no name, and it does not count the rows; give it a name, or leave it out.")


def test_names_that_may_be_numbers_are_asked_for(here):
    text = "0,1,2\n3,4,5\n2,3,1\n"  # what pandas writes for a frame without names
    assert (
        refused(text) == f"line 1 counts from 0 to 2, and it is not clear whether these are names or numbers; {EITHER}"
    )
    assert read(text, header=True).names == ("0", "1")
    assert read(text, header=False).X.tolist() == [[0, 1], [3, 4], [2, 3]]
    text = "a,2019,2020\n3,4,5\n"
    assert refused(text) == (
        f"line 1 holds numbers (`2019`, `2020`) among names, and it is not clear whether it is a row; {EITHER}"
    )
    assert read(text, header=True).names == ("a", "2019")
    assert refused(text, header=False) == f"line 1, column `x1`: 'a' {NO_TEXT}"


def test_columns_counted_above_decimals_are_names(here):
    """What pandas writes for an array: a line that counts, and numbers with a point below it."""
    X = np.random.default_rng(0).standard_normal((5, 9))
    pd.DataFrame(X).to_csv("t.csv", index=False)
    made = load_regression("t.csv")
    assert np.array_equal(np.c_[made.X, made.y], X)
    assert made.names == tuple("01234567")
    assert made.target == "8"
    assert made.notes[0] == (
        "line 1 counts the columns from 0 and was read as their names, as the values below are written with a decimal "
        "point and it is not."
    )
    assert load_regression("t.csv", header=False).n == 6
    assert read("0,1\n0.5,2\n1.5,3\n").names == ("0",)
    assert refused("0,1\n0.5,2\n1,3\n") == (  # a zero and a one are written like the whole numbers below
        f"line 1 counts from 0 to 1, and it is not clear whether these are names or numbers; {EITHER}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty."),
        ("\n \n\n", "the file is empty."),
        ("\ufeff", "the file is empty."),
        ("# only a comment\n", "the file has no rows; write one line for each."),
        ("a,b\n", "there are names (`a`, `b`) and no rows below them."),
        (
            "a\n1\n2\n",
            "there is one column, `a`; give a column to predict and at least one to predict it from, separated by "
            "commas.",
        ),
        (",a\n0,5\n1,6\n", "there is one column, `a`, beside one that counts the rows; give at least two."),
        ("a,a,b\n1,2,3\n", "two columns are called `a`; give every column a name of its own."),
        (
            "a,,b\n1,2,3\n",
            "column 2 of 3 has no name; give it one, or leave it out (does every line end in a separator?).",
        ),
        (
            "a,b,\n1,2,\n",
            "column 3 of 3 has no name; give it one, or leave it out (does every line end in a separator?).",
        ),
        (
            "a,b\n1,2\n\n1,2,3\n",
            "line 4 has 3 fields and line 1 has 2 (separated by commas); write equally many on every line.",
        ),
        (
            "a;b;c\n1;2\n",
            "line 2 has 2 fields and line 1 has 3 (separated by semicolons); write equally many on every line.",
        ),
        ('"a', "the first row cannot be read: a quote is never closed."),
        ("a,b\n" + 140000 * "1", "the row after line 1 cannot be read: field larger than field limit (131072)."),
        ('a,b\n3,4\n"1,2\n', "the row after line 2 cannot be read: a quote is never closed."),
        ('a,b\n"1"x,2\n', "the row after line 1 cannot be read: text follows a closing quote."),
        # Numbers.
        ("a,b\n1,red\n2,blue\n", f"line 2, column `b`: 'red' {NO_TEXT}"),
        (
            "a,b\n1,2\n# later\n",
            "line 3 has 1 fields and line 1 has 2 (separated by commas); write equally many on every line.",
        ),
        ('a,b\n1,"two\nlines"\n', f"line 2, column `b`: 'two\\nlines' {NO_TEXT}"),
        ('a,b\n"\n\n1",2\n3,\n', f"line 5, column `b`: the value is missing (nothing between separators); {FILL}"),
        ("a,b\n1_000,2\n", f"line 2, column `a`: '1_000' {NO_TEXT}"),
        ("a,b\n0x1p3,2\n", f"line 2, column `a`: '0x1p3' {NO_TEXT}"),
        ("a,b\n٣,2\n", f"line 2, column `a`: '٣' {NO_TEXT}"),
        ("a,b\nTrue,2\n", f"line 2, column `a`: 'True' {NO_TEXT}"),
        ("a,b\n5%,2\n", f"line 2, column `a`: '5%' {NO_TEXT}"),
        ("a,b\n1,2\n3,\n", f"line 3, column `b`: the value is missing (nothing between separators); {FILL}"),
        ("a,b\nNaN,2\n3,NA\n", f"line 2, column `a`: the value is missing ('NaN') (2 such values); {FILL}"),
        ("NA,1\n2,3\n", f"line 1, column `x1`: the value is missing ('NA'); {FILL}"),
        ("a,b\n1,-inf\n", "line 2, column `b`: the value is infinite (-inf); every value must be finite."),
        ("a,b\n1,1e400\n", "line 2, column `b`: '1e400' is too large for double precision (at most 1.8e308)."),
        (
            "a,b\n1,-2e-400\n",
            "line 2, column `b`: '-2e-400' is too small for double precision (at least 4.9e-324); use larger units.",
        ),
        # Decimal commas, whatever else separates.
        ("a;b\n1,5;2\n", "line 2, column `a`: '1,5' has a decimal comma; write numbers with a decimal point."),
        ("1,5;2,5\n3,5;4,5\n", "line 1, column `x1`: '1,5' has a decimal comma; write numbers with a decimal point."),
        ("a\tb\n1,5\t2,5\n", "line 2, column `a`: '1,5' has a decimal comma; write numbers with a decimal point."),
        (
            'a,b\n"-1.234,5",2\n',
            "line 2, column `a`: '-1.234,5' has a decimal comma; write numbers with a decimal point.",
        ),
        # Encodings.
        ("a,b\n1,2\n".encode("utf-16"), "the text is in UTF-16; save it as UTF-8."),
        (b"a,b\n1,2\nstra\xdfe,3\n", "the text is not UTF-8 (byte 0xdf on line 3); save it so."),
        (b"\x00\x01\x02\x03", f"this is neither text nor a file of a known kind; give {WANTED}."),
    ],
)
def test_text_that_is_refused(here, text, message):
    assert refused(text) == message


def test_zeros_may_be_written_in_many_ways(here):
    made = read("a,b\n0e-400,0.000\n-0,1e-300\n" + "0." + 400 * "0" + ",4\n", target="b")
    assert made.X.ravel().tolist() == [0, 0, 0]
    assert made.y.tolist() == [0, 1e-300, 4]


def test_rounded_integers_and_blank_lines_are_noted(here):
    made = read("a,b\n\n9007199254740993,1\n\n9007199254740992,2\n\n", target="b")
    assert made.X[0, 0] == 2.0**53
    assert made.notes == (
        "blank lines among the rows were skipped: 2.",
        "integers above 2**53 were rounded (1 of them).",
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("prise", "there is no column `prise`; the columns are `price`, `b`, `c`; do you mean `price`?"),
        ("zzz", "there is no column `zzz`; the columns are `price`, `b`, `c`."),
        ("", "there is no column ``; the columns are `price`, `b`, `c`."),
    ],
)
def test_an_unknown_target_is_told_with_the_names(here, target, message):
    assert refused("price,b,c\n1,2,3\n", target=target) == message


names = st.lists(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8).filter(
        lambda name: (
            any(c.isalpha() for c in name) and name.lower() not in {"na", "nan", "null", "none", "missing", "inf"}
        )
    ),
    min_size=2,
    max_size=5,
    unique=True,
)


@given(
    data=st.data(),
    names=names,
    separator=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_written_is_read(tmp_path_factory, data, names, separator, quoting, end):
    """`repr` of a double is read back as the same double, beside names that hold separators and quotes."""
    row = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=len(names), max_size=len(names))
    table = data.draw(st.lists(row, min_size=1, max_size=4))
    target = data.draw(st.sampled_from(names))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting, lineterminator=end)
    writer.writerow(names)
    writer.writerows([[repr(x) for x in row] for row in table])
    path = tmp_path_factory.mktemp("written") / "t.csv"
    path.write_bytes(text.getvalue().encode())
    made = load_regression(path, target, header=True)
    j = names.index(target)
    assert (made.names, made.target) == ((*names[:j], *names[j + 1 :]), target)
    assert np.array_equal(made.y, np.array(table)[:, j])
    assert np.array_equal(made.X, np.delete(np.array(table), j, axis=1))


@given(content=st.binary(max_size=200) | st.text("0123456789.,;-+eE\n\r\t \"'#_naif", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(content)
    try:
        made, text = load_regression(path), None
    except ValueError as error:
        made, text = None, str(error)
    if made is not None:
        assert np.isfinite(made.X).all()
    else:
        assert text is not None
        assert text.startswith(f"{path}: ")
        assert "\n" not in text


# --- other files -----------------------------------------------------------------------------------------------------


def test_npz(here):
    np.savez("t.npz", X=X.astype(np.float32), y=Y, names=np.array(["a", "b"]), extra=Y)
    made = load_regression(Path("t.npz"))
    assert (made.names, made.target, made.name) == (("a", "b"), "y", "t.npz")
    assert np.array_equal(made.X, X)
    assert made.notes == (
        "ignored in the file: `extra`.",
        "`X` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
    )
    assert load_regression("t.npz", "y").names == ("a", "b")
    assert said("t.npz", target="a") == "the column to predict in an .npz file is its array `y`; got `target` 'a'."


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X}, f"the file must hold the arrays `X` and `y`; missing: `y`; it holds `X`. Write it with {HOW}."),
        ({"A": X}, f"the file must hold the arrays `X` and `y`; missing: `X`, `y`; it holds `A`. Write it with {HOW}."),
        ({"X": X, "y": Y[:, None]}, "`y` must have shape (n,); got (3, 1): write `y.ravel()`."),
        ({"X": X, "y": X}, "`y` must have shape (n,); got (3, 2)."),
        ({"X": X, "y": Y[:2]}, "`X` has shape (3, 2) and `y` has shape (2,): 3 rows against 2."),
        ({"X": np.where(X == 2, np.nan, X), "y": Y}, "`X[1, 1]` is nan; every entry must be finite."),
        ({"X": X, "y": Y, "names": Y}, "`names` must be a list of texts, one for each column of `X`."),
        ({"X": X, "y": Y, "names": ["a"]}, "`names` has 1 entries, and `X` has 2 columns; give one for each."),
        ({"X": X, "y": np.array(["a", "b", "c"])}, "`y` must hold real numbers; it holds text (dtype <U1)."),
    ],
)
def test_npz_files_that_are_refused(here, arrays, message):
    np.savez("t.npz", **arrays)
    assert said("t.npz") == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"X": 1}), f"this is a pickle, and loading it would run code; refused. Give {WANTED}."),
        (b"\x1f\x8b\x08abc", f"this is a gzip file; give {WANTED}."),
        (b"\x89HDF\r\n\x1a\n", f"this is an HDF5 or NetCDF file; give {WANTED}."),
        (b"PK\x03\x04 and so on", "the .npz file is truncated or damaged; write it again."),
        (b"PAR1 and so on", "the Parquet file is truncated or damaged; write it again."),
    ],
)
def test_files_of_another_kind(here, content, message):
    Path("t.dat").write_bytes(content)
    assert said("t.dat") == message


def test_a_workbook_is_no_npz(here):
    with zipfile.ZipFile("t.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    assert said("t.xlsx") == f"this is a workbook of a spreadsheet; save the sheet as CSV, or give {WANTED}."


def test_files_that_are_not_there(here):
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert said("no/where.csv") == "there is no such file."
    assert said("folder") == f"this is a folder; give {WANTED}."
    assert said("pipe") == "this is not a regular file."
    with pytest.raises(ValueError, match=r"^'two\\nlines': there is no such file\.$"):
        load_regression("two\nlines")


def test_large_files_are_refused_before_they_are_read(here, monkeypatch):
    monkeypatch.setattr("omegalimit.data._table_files.MAX_BYTES", 10)
    assert refused("a,b\n1,2\n3,4\n") == "the file takes 12 bytes; at most 10 are read."
    assert refused("a,b\n1,2\n") == "the text takes 8 bytes; at most 2 are read: write it as Parquet or .npz."


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (3, {}, "`source` must be a path or a pandas DataFrame; got int."),
        (X, {}, "`source` must be a path or a pandas DataFrame; got ndarray."),
        ("t.csv", {"target": 3}, "`target` must be the name of a column; got 3."),
        ("t.csv", {"header": 0}, "`header` must be True, False or None; got 0."),
    ],
)
def test_arguments_of_another_kind(source, options, message):
    with pytest.raises(TypeError) as caught:
        load_regression(source, **options)
    assert str(caught.value) == message


# --- data frames and Parquet -----------------------------------------------------------------------------------------


def frame_of(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns | {"y": Y})


def test_data_frames(here):
    frame = frame_of(a=X[:, 0], b=X[:, 1])
    made = load_regression(frame)
    assert (made.names, made.target, made.name, made.notes) == (("a", "b"), "y", "data frame", (LAST.format("y"),))
    assert np.array_equal(made.X, X)
    assert load_regression(frame, "a").names == ("b", "y")
    assert load_regression(frame.set_index(pd.Index([7, 8, 9], name="id")), "y").notes == (
        "the index of the data frame was left out.",
    )


def test_columns_of_every_numeric_kind(here):
    frame = frame_of(
        a=np.array([1, 2, 3], dtype=np.int16),
        b=np.array([True, False, True]),
        c=np.array([0.1, 0.2, 0.4], dtype=np.float32),
        d=pd.array([1, 2, 4], dtype="Int64"),
        e=pd.array([1.5, 2, 2], dtype="Float64"),
        f=pd.array([True, False, False], dtype="boolean"),
        g=[Decimal("0.5"), 1, 2.0],
        h=pd.arrays.SparseArray([0.0, 0.0, 1.0]),
        i=np.array([2**53 + 1, 0, 1]),
    )
    made = load_regression(frame, "y")
    assert made.X[0].tolist() == [1, 1, np.float32(0.1), 1, 1.5, 1, 0.5, 0, 2**53]
    assert made.notes == (
        "`a` came as int16, converted to float64 exactly.",
        "`b`, `f` came as bool, converted to float64 exactly.",
        "`c` came as float32: its own rounding, about 6e-08, stays in the data.",
        "`d` came as int64, converted to float64 exactly.",
        "`i` came as int64: integers above 2**53 were rounded.",
    )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (frame_of(a=["u", "v", "w"]), f"row 0 (the first is 0), column `a`: 'u' {NO_TEXT}"),
        (frame_of(a=[1, 2.0, "w"]), f"row 2 (the first is 0), column `a`: 'w' {NO_TEXT}"),
        (frame_of(a=pd.Categorical(["u", "v", "u"])), f"row 0 (the first is 0), column `a`: 'u' {NO_TEXT}"),
        (
            frame_of(a=pd.to_datetime(["2026-01-01"] * 3)),
            f"row 0 (the first is 0), column `a`: Timestamp('2026-01-01 00:00:00') {NO_TEXT}",
        ),
        (
            frame_of(a=[1, None, np.nan]),
            f"row 1 (the first is 0), column `a`: the value is missing (nan) (2 such values); {FILL}",
        ),
        (
            frame_of(a=pd.array([1, 2, None], dtype="Int64")),
            f"row 2 (the first is 0), column `a`: the value is missing (<NA>); {FILL}",
        ),
        (
            frame_of(a=[1, -np.inf, 2]),
            "row 1 (the first is 0), column `a`: the value is -inf; every value must be finite.",
        ),
        (
            frame_of(a=[Decimal("1e400"), 1, 2]),
            "row 0 (the first is 0), column `a`: the value is inf; every value must be finite.",
        ),
        (
            frame_of(a=[Decimal("1e-400"), 1, 2]),
            "row 0 (the first is 0), column `a`: 1E-400 is too small for double precision.",
        ),
        (
            frame_of(a=[1j, 2, 3]),
            "`a` has complex entries (complex128); it must be real: pass `a.real` if that is meant.",
        ),
        (frame_of(), "there is one column, `y`; give one to predict and one to predict it from."),
        (frame_of(a=Y)[:0], "it has shape (0, 2): there are no rows in it."),
        (pd.DataFrame(index=[1, 2]), "it has shape (2, 0): there are no columns in it."),
        (pd.DataFrame(X, columns=["a", "a"]), "two columns are called `a`; give every column a name of its own."),
        (pd.DataFrame(X, columns=["", "a"]), "column 1 of 2 has no name; give it one, or leave it out."),
        (
            pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
            "the columns have names of several levels; give every column one name.",
        ),
    ],
)
def test_data_frames_that_are_refused(frame, message):
    assert said(frame) == message


def test_parquet_and_its_index(here):
    frame = frame_of(a=X[:, 0], b=X[:, 1])
    frame.to_parquet("t.parquet")
    made = load_regression("t.parquet")
    assert (made.names, made.target, made.name) == (("a", "b"), "y", "t.parquet")
    assert np.array_equal(made.X, X)
    frame.set_index(pd.Index([7, 8, 9], name="id")).to_parquet("t.parquet")
    made = load_regression("t.parquet", "y")
    assert (made.names, made.notes) == (("a", "b"), ("the index of the data frame was left out.",))
    frame.assign(a=[1.0, None, 2.0]).to_parquet("t.parquet")
    assert said("t.parquet") == f"row 1 (the first is 0), column `a`: the value is missing (nan); {FILL}"


def test_a_parquet_file_cut_anywhere_is_refused(here):
    frame_of(a=X[:, 0]).to_parquet("t.parquet")
    content = Path("t.parquet").read_bytes()
    for end in range(4, len(content), len(content) // 25):
        Path("cut.parquet").write_bytes(content[:end])
        assert said("cut.parquet") == "the Parquet file is truncated or damaged; write it again."


def test_parquet_without_pyarrow_says_what_to_install(here, monkeypatch):
    frame_of(a=X[:, 0]).to_parquet("t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert said("t.parquet") == ('reading Parquet needs pyarrow; install it with `pip install "omegalimit[parquet]"`.')


def test_large_parquet_tables_are_refused_before_they_are_unpacked(here, monkeypatch):
    frame_of(a=X[:, 0]).to_parquet("t.parquet")
    monkeypatch.setattr("omegalimit.data._table_files.MAX_BYTES", 10**4)
    frame = pd.DataFrame({"a": np.zeros(10**5), "y": np.zeros(10**5)})
    frame.to_parquet("t.parquet")
    assert Path("t.parquet").stat().st_size < 10**4
    assert said("t.parquet") == "the table takes 1600000 bytes unpacked; at most 10000 are read."
