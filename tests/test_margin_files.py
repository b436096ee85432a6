"""Margin problems, groups and points in files: what is read, what is refused and how it is said, and whole writing."""

import io
import os
import pickle
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from omegalimit.data import check_writable, load_groups, load_margin_data, load_point, save_point

HOW = "np.savez(path, rows=A), np.savez(path, left=D, right=Z), np.savez(path, X=X, y=y) or scipy.sparse.save_npz"
ROWS = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]])
KINDS = "the file must hold `rows`, or `left` and `right`, or `X` and `y`, or one sparse array"


def saved(folder: Path, **arrays) -> Path:
    path = folder / "A.npz"
    np.savez(path, **arrays)
    return path


def said(function, path, **options) -> str:
    """What the one-line error says after the path."""
    with pytest.raises(ValueError, match=r"^[^\n]+\.$") as caught:
        function(path, **options)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def read_or_said(path):
    """What the file holds, or the one line with which it is refused."""
    try:
        return load_margin_data(path)
    except ValueError as error:
        text = str(error)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "arrays",
    [
        {"rows": ROWS},
        {"rows": np.arange(12.0).reshape(2, 2, 3)},
        {"left": ROWS, "right": ROWS[:, :2]},
        {"X": ROWS, "y": np.array([1.0, -1.0])},
    ],
)
def test_what_is_written_is_read(tmp_path, arrays):
    given = load_margin_data(saved(tmp_path, **arrays))
    assert list(given.arrays) == list(arrays)
    assert all(np.array_equal(given.arrays[key], array) for key, array in arrays.items())
    assert (given.labels, given.notes) == (None, ())
    assert given.n_columns == (3 if arrays.get("rows", arrays.get("X", np.zeros(0))).ndim == 2 else None)


def test_labels_stand_beside_rows_of_every_kind(tmp_path):
    y = np.array([1, -1])
    for arrays in ({"rows": ROWS}, {"left": ROWS, "right": ROWS}):
        assert load_margin_data(saved(tmp_path, **arrays, labels=y)).labels == pytest.approx(y, abs=0)
    matrix = scipy.sparse.csr_array(ROWS)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    given = load_margin_data(saved(tmp_path, **parts, format=b"csr", labels=y))
    assert given.labels == pytest.approx(y, abs=0)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_sparse_rows_are_read(tmp_path, form, make):
    path = tmp_path / "A.npz"
    scipy.sparse.save_npz(path, make(ROWS).asformat(form))
    given = load_margin_data(path)
    assert scipy.sparse.issparse(given.arrays["rows"])
    assert np.array_equal(given.arrays["rows"].toarray(), ROWS)
    assert given.notes == ()


def test_conversions_and_ignored_arrays_are_noted(tmp_path):
    given = load_margin_data(saved(tmp_path, rows=ROWS.astype(np.float32), weights=ROWS, a=ROWS))
    assert given.notes == (
        "ignored in the file: `a`, `weights`.",
        "`rows` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, f"{KINDS}; it holds none. Write it with {HOW}."),
        ({"arr_0": ROWS}, f"{KINDS}; it holds `arr_0`. Write it with {HOW}."),
        ({"X": ROWS}, f"{KINDS}; missing: `y`; it holds `X`. Write it with {HOW}."),
        ({"left": ROWS, "b": ROWS}, f"{KINDS}; missing: `right`; it holds `b`, `left`. Write it with {HOW}."),
        (
            {"rows": ROWS, "X": ROWS, "y": [1, -1]},
            "the file holds `rows` and `X` and `y`: it is not clear which are the constraints.",
        ),
        (
            {"rows": ROWS, "y": [1, -1]},
            "the file holds `rows` and `y`: it is not clear which are the constraints. "
            "The labels of rows are called `labels`.",
        ),
        (
            {"X": ROWS, "y": [1, -1], "labels": [1, -1]},
            "the file holds `X`, `y` and `labels`: the labels of `X` are `y`; write it without `labels`.",
        ),
        (
            {"left": ROWS, "right": ROWS[:1]},
            "`left` has shape (2, 3) and `right` has shape (1, 3); both must have one row for each constraint.",
        ),
        ({"X": ROWS, "y": [1, 1, -1]}, "`y` must hold one label for each of the 2 rows of `X`; got shape (3,)."),
        (
            {"X": ROWS, "y": [0, 1]},
            "`y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1); for labels in {0, 1} pass `2 * y - 1`.",
        ),
        (
            {"rows": ROWS, "labels": [2, 1]},
            "`labels` must hold only -1 and +1; `labels[0]` is 2 (values seen: 1, 2); "
            "recode the two classes as -1 and +1.",
        ),
        ({"rows": np.array([[1.0, np.nan]])}, "`rows[0, 1]` is nan; every entry must be finite."),
        ({"rows": 3.0}, "`rows` must have one row for each constraint; got shape ()."),
        ({"rows": np.zeros((0, 3))}, "`rows` has shape (0, 3): there is nothing in it."),
        ({"X": np.zeros((2, 0)), "y": [1, -1]}, "`X` has shape (2, 0): there is nothing in it."),
        (
            {"rows": ROWS * 1j},
            "`rows` has complex entries (complex128); it must be real: pass `rows.real` if that is meant.",
        ),
        ({"rows": ["a", "b"]}, "`rows` must hold real numbers; it holds text (dtype <U1)."),
        (
            {"rows": np.array([[None, 1]])},
            "`rows` holds Python objects, and loading them would run code; refused. "
            f"Convert it to numbers (`rows.astype(float)`) and write it with {HOW}.",
        ),
    ],
)
def test_arrays_that_state_no_problem_are_refused(tmp_path, arrays, message):
    assert said(load_margin_data, saved(tmp_path, **arrays)) == message


SPARSE = scipy.sparse.csr_array(ROWS)


def sparse_file(folder, **changed):
    parts = {"data": SPARSE.data, "indices": SPARSE.indices, "indptr": SPARSE.indptr, "shape": [2, 3]}
    parts |= {"format": b"csr", **changed}
    return saved(folder, **{key: part for key, part in parts.items() if part is not None})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": b"bsr"}, "the sparse array has the format 'bsr'; write it as `.tocsr()`."),
        ({"indptr": None}, "the sparse array of format 'csr' lacks `indptr`; write it again."),
        (
            {"indices": SPARSE.indices * 1.0},
            "`indices`, `indptr` of the sparse array must be lists of integers; write it again.",
        ),
        ({"shape": [2, 3, 1]}, "`shape` of the sparse array must be two integers; got [2, 3, 1]."),
        ({"shape": [2, 0]}, "the sparse array has shape (2, 0); both must lie between 1 and 134217728."),
        (
            {"shape": [2, 10**12]},
            "the sparse array has shape (2, 1000000000000); both must lie between 1 and 134217728.",
        ),
        ({"data": SPARSE.data * np.inf}, "`data[0]` is inf (4 such entries of 4); every entry must be finite."),
    ],
)
def test_sparse_arrays_that_are_damaged_are_refused(tmp_path, changed, message):
    assert said(load_margin_data, sparse_file(tmp_path, **changed)) == message


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": np.array([0, 1, 1, 3])},
        {"indices": np.array([0, 1, 1, -1])},
        {"indices": np.array([0, 1, 1])},
        {"indptr": np.array([0, 9, 4])},
        {"indptr": np.array([0, 4])},
        {"indptr": np.array([0, 2, 9])},
        {"format": b"csc"},
        {"format": b"coo", "row": np.array([0, 0, 0, 2]), "col": SPARSE.indices},
        {"format": b"coo", "row": np.array([0, 0, 0, -1]), "col": SPARSE.indices},
    ],
)
def test_sparse_indices_that_lead_outside_are_refused(tmp_path, changed):
    # SciPy would read and write outside of its arrays. The words after the colon are its own, and differ by release.
    assert said(load_margin_data, sparse_file(tmp_path, **changed)).startswith("the sparse array is damaged: ")


@pytest.mark.parametrize("load", [load_margin_data, load_point])
def test_files_of_other_kinds_are_refused(tmp_path, load):
    how = HOW if load is load_margin_data else "np.savez(path, point=W, multipliers=p)"
    path = tmp_path / "A.npz"
    assert said(load, path) == "there is no such file."
    assert said(load, tmp_path) == f"this is a folder; give an .npz file, written by {how}."
    assert said(load, os.devnull) == "this is not a regular file."
    path.write_bytes(b"")
    assert said(load, path) == "the file is empty."
    path.write_text("1 2 3")
    assert said(load, path) == f"this is not an .npz file (it is a text file); write one with {how}."
    with path.open("wb") as stream:
        np.save(stream, ROWS)
    assert said(load, path) == f"this is not an .npz file (it is a single array (.npy)); write one with {how}."
    path.write_bytes(pickle.dumps(ROWS))
    assert said(load, path) == (
        f"this is a pickle, and loading it would run code; refused. Write the arrays with {how}."
    )


def test_a_file_that_is_cut_or_flipped_anywhere_is_read_right_or_refused_in_one_line(tmp_path):
    path = saved(tmp_path, rows=ROWS, labels=np.array([1.0, -1.0]))
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in range(0, len(whole), 7):
        cut = whole[:position]
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(rng.integers(8))
        for damaged in (cut, bytes(flipped)):
            path.write_bytes(damaged)
            found = read_or_said(path)
            # A name may be what was flipped, or a field that nobody reads; the entries have a checksum.
            assert isinstance(found, str) or np.array_equal(found.arrays["rows"], ROWS)


def test_a_file_that_claims_more_than_is_read_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "A.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 100)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rows.npy", header.getvalue() + bytes(64))
    assert said(load_margin_data, path) == (
        "`rows` claims the shape (1000000000, 100) of float64, which is 800000000000 bytes; 64 are there. "
        "The file is damaged; write it again."
    )


# --- groups ----------------------------------------------------------------------------------------------------------

LINES = "write one integer label a line, one for each column."


@pytest.mark.parametrize(
    "content", [b"1\n-2\n1", b"1\n-2\n1\n", b"1\r\n-2\r\n+1\r\n", b" 1\n-2 \n1", b"\xef\xbb\xbf1\n-2\n1"]
)
def test_groups_are_one_label_a_line(tmp_path, content):
    path = tmp_path / "groups.txt"
    path.write_bytes(content)
    assert load_groups(path, n_columns=3).tolist() == [1, -2, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f"the file is empty; {LINES}"),
        (b"1\n2", "there are 2 labels, and the data has 3 columns; write one label for each."),
        (b"1\n\n2\n3", f"line 2 is blank; {LINES}"),
        (b"1\n2\n3\n\n", f"line 4 is blank; {LINES}"),
        (b"1\n2.0\n3", f"line 2 is '2.0', which is not an integer; {LINES}"),
        (b"1 2 3", f"line 1 is '1 2 3', which is not an integer; {LINES}"),
        (b"# groups\n1\n2\n3", f"line 1 is '# groups', which is not an integer; {LINES}"),
        (b"1\n2 # two\n3", f"line 2 is '2 # two', which is not an integer; {LINES}"),
        (b"1\n1_0\n3", f"line 2 is '1_0', which is not an integer; {LINES}"),
        (b"1\n" + b"9" * 30 + b"\n3", f"line 2 is '{'9' * 30}', which is not an integer; {LINES}"),
        (b"\xff\xfe1", f"this is not text; {LINES}"),
    ],
)
def test_groups_that_are_no_labels_are_refused(tmp_path, content, message):
    path = tmp_path / "groups.txt"
    path.write_bytes(content)
    assert said(load_groups, path, n_columns=3) == message


def test_a_groups_file_that_is_none(tmp_path):
    assert said(load_groups, tmp_path / "none") == "there is no such file."
    assert said(load_groups, tmp_path) == "this is a folder; give a text file with one integer label a line."


# --- points ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [None, -0.5])
def test_a_point_comes_back_bit_for_bit(tmp_path, intercept):
    path = tmp_path / "point"  # the name is kept, with no ending added
    W, p = np.arange(6.0).reshape(2, 3) / 7, np.array([0.25, 0.75])
    save_point(path, point=W, multipliers=p, intercept=intercept)
    found = load_point(path)
    assert found.multipliers is not None
    assert found.point.tobytes() == W.tobytes()
    assert found.multipliers.tobytes() == p.tobytes()
    assert found.intercept == intercept
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"W": ROWS},
            "the file must hold the array `point`; it holds `W`. Write it with np.savez(path, point=W, multipliers=p).",
        ),
        ({"point": [1.0, np.inf]}, "`point[1]` is inf; every entry must be finite."),
        ({"point": [1.0], "multipliers": [np.nan]}, "`multipliers[0]` is nan; every entry must be finite."),
        ({"point": [1.0], "intercept": [1.0, 2.0]}, "`intercept` must be one number; got shape (2,)."),
        ({"point": np.zeros(0)}, "`point` has shape (0,): there is nothing in it."),
    ],
)
def test_points_that_are_none_are_refused(tmp_path, arrays, message):
    assert said(load_point, saved(tmp_path, **arrays)) == message


def test_places_where_no_file_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "none")
    assert said(check_writable, tmp_path) == "this is a folder; give the name of a file."
    assert said(check_writable, os.devnull) == "this is not a regular file; give the name of a file."
    assert said(check_writable, tmp_path / "none" / "p.npz") == f"there is no folder {folder!r}; make it first."
    inside = str(tmp_path / "file")
    assert said(check_writable, tmp_path / "file" / "p.npz") == f"there is no folder {inside!r}; make it first."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.npz").write_text("old")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    save_point(tmp_path / "link.npz", point=np.ones(2), multipliers=np.ones(1))
    assert (tmp_path / "link.npz").is_symlink()
    assert load_point(tmp_path / "real.npz").point.tolist() == [1, 1]


@pytest.mark.parametrize("where", ["numpy.savez", "os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, where, error):
    path = tmp_path / "point.npz"
    save_point(path, point=np.ones(2), multipliers=np.ones(1))

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(where, fail)
    expected = ValueError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match=r"^(|.*: nothing was written: No space left on device\.)$"):
        save_point(path, point=np.zeros(2), multipliers=np.ones(1))
    assert load_point(path).point.tolist() == [1, 1]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("old", [True, False])
def test_a_process_that_is_killed_while_writing_leaves_no_half_a_file(tmp_path, old):
    path = tmp_path / "point.npz"
    if old:
        save_point(path, point=np.ones(2), multipliers=np.ones(1))
    code = (
        "import os, signal, sys, numpy\n"
        "from omegalimit.data import save_point\n"
        "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)\n"
        "save_point(sys.argv[1], point=numpy.zeros(2), multipliers=numpy.ones(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")
    assert path.exists() is old
    assert not old or load_point(path).point.tolist() == [1, 1]
    left = [other.name for other in tmp_path.iterdir() if other != path]
    assert all(name.startswith(".") and name.endswith(".partial") for name in left)
