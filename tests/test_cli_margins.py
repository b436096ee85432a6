"""`omegalimit solve` and `omegalimit certify`: from files to files, exit statuses, JSON, and what is refused."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from omegalimit.cli import main
from omegalimit.data import load_point, save_point
from omegalimit.report import margins

KEYS = [
    *("status", "reason", "lower", "upper", "gap", "slack", "stationarity", "complementarity"),
    *("delta_rank", "support", "unique", "farkas", "rigorous"),
    *("norm", "p", "n_constraints", "shape", "intercept", "intercept_kind", "tol"),
    *("n_clipped", "clipped_mass", "multipliers_given", "data", "out", "proof", "notes", "versions", "cpu_seconds"),
]
# For identity rows (matrices e_k e_k^T) the margin is d to this power: by symmetry the optimum is ones (the identity).
EXPONENTS = {
    "l1": -1,
    "l2": -1 / 2,
    "linf": 0,
    "lp": -1 / 3,
    "group-l1": -1 / 2,
    "fourier-l1": -1 / 2,
    "nuclear": -1,
    "frobenius": -1 / 2,
    "spectral": 0,
    "schatten": -1 / 3,
}
VECTORS = ("l1", "l2", "linf", "lp", "group-l1", "fourier-l1")
D = 6
ROWS = np.array([[3.0, 1.0, -2.0], [1.0, 2.0, 0.5], [-1.0, 4.0, 1.0], [2.0, -1.0, 3.0]])


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def document(capsys, *arguments) -> tuple[int, dict]:
    status, out, err = run(capsys, *arguments, "--json", "--quiet")
    assert err == ""
    found = json.loads(out, parse_constant=pytest.fail)  # NaN and Infinity are not JSON
    assert list(found) == KEYS
    return status, found


def refused(capsys, *arguments) -> str:
    """The one line with which the command refuses the arguments."""
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("omegalimit: error: ")
    return err.removeprefix("omegalimit: error: ").rstrip("\n")


def solve(norm="l1", data="A.npz", out="point.npz"):
    return "solve", "max-margin", "--norm", norm, "--data", data, "--out", out


def certify(norm="l1", data="A.npz", point="point.npz"):
    return "certify", "max-margin", "--norm", norm, "--data", data, "--point", point


def options(norm) -> list[str]:
    if norm == "group-l1":
        Path("groups.txt").write_text("7\n" * D)
        return ["--groups", "groups.txt"]
    return ["--p", "3"] if norm in ("lp", "schatten") else []


@pytest.mark.parametrize("norm", EXPONENTS)
def test_from_data_to_a_point_and_back(capsys, norm):
    if norm in VECTORS:
        np.savez("A.npz", rows=np.eye(D))
    else:
        np.savez("A.npz", left=np.eye(D), right=np.eye(D))
    status, found = document(capsys, *solve(norm), *options(norm))
    assert (status, found["status"], found["out"]) == (0, "optimal", "point.npz")
    margin = D ** EXPONENTS[norm]
    # The gap asked for, and its rounding.
    assert found["lower"] == pytest.approx(margin, rel=2e-8)
    assert found["upper"] == pytest.approx(margin, rel=2e-8)
    status, again = document(capsys, *certify(norm), *options(norm))
    assert (status, again["status"], again["multipliers_given"]) == (0, "certified", True)
    same = ("norm", "p", "n_constraints", "shape", "unique", "farkas", "tol", "data", "versions")
    assert {key: again[key] for key in same} == {key: found[key] for key in same}
    assert again["shape"] == ([D] if norm in VECTORS else [D, D])
    # The point was scaled once more, which moves the last places.
    assert again["lower"] == pytest.approx(found["lower"], rel=1e-14)
    assert again["upper"] == pytest.approx(found["upper"], rel=1e-14)


def test_the_document_names_the_data_and_the_versions(capsys):
    import hashlib
    from importlib.metadata import version

    np.savez("A.npz", rows=ROWS.astype(np.float32), more=ROWS)
    found = document(capsys, *solve())[1]
    digest = hashlib.sha256(Path("A.npz").read_bytes()).hexdigest()
    assert found["data"] == {"file": "A.npz", "sha256": digest}
    assert found["versions"] == {name: version(name) for name in ("omegalimit", "numpy", "scipy")}
    assert found["notes"] == [
        "A.npz: ignored in the file: `more`.",
        "A.npz: `rows` came as float32 and was converted to float64: its own rounding, about 6e-08, stays in the data.",
    ]
    assert (found["rigorous"], found["proof"], found["intercept"]) == (None, None, None)
    assert found["intercept_kind"] == "none"
    assert found["cpu_seconds"] > 0


def test_a_point_that_is_off_is_not_certified(capsys):
    np.savez("A.npz", rows=ROWS)
    optimum = document(capsys, *solve())[1]
    solved = load_point("point.npz")
    assert solved.multipliers is not None
    moved = solved.point * (1 + 1e-3 * np.array([1, -1, 1]))
    save_point("off.npz", point=moved, multipliers=solved.multipliers)
    status, found = document(capsys, *certify(point="off.npz"))
    assert (status, found["status"]) == (3, "not certified")
    assert found["reason"] == f"the gap is {found['gap']:.1e}, above 1e-08."
    # The margin falls by at most the relative move of the point, doubled for its norm; the multipliers still bound it.
    assert 1e-6 < found["gap"] < 2e-3
    assert found["upper"] == optimum["upper"]
    # The same point is good enough for a reader who asks for less.
    assert document(capsys, *certify(point="off.npz"), "--tol", "0.01")[0] == 0


def test_the_margin_of_a_point_that_misclassifies_is_negative(capsys):
    np.savez("A.npz", rows=ROWS)
    document(capsys, *solve())
    solved = load_point("point.npz")
    assert solved.multipliers is not None
    save_point("off.npz", point=-solved.point, multipliers=solved.multipliers)
    status, found = document(capsys, *certify(point="off.npz"))
    assert (status, found["status"]) == (3, "not certified")
    margin = (ROWS @ -solved.point).min() / np.abs(solved.point).sum()
    assert found["lower"] == pytest.approx(margin, rel=1e-14)  # the same few products in another order
    assert found["lower"] < 0
    _, out, _ = run(capsys, *certify(point="off.npz"))
    assert "(it misclassifies)" in out


def test_multipliers_of_the_wrong_sign_are_clipped_and_counted(capsys):
    np.savez("A.npz", rows=ROWS)
    document(capsys, *solve())
    solved = load_point("point.npz")
    assert solved.multipliers is not None
    used = np.flatnonzero(solved.multipliers)
    assert len(used) > 1
    flipped = solved.multipliers * np.where(np.arange(4) == used[0], -1, 1)
    save_point("off.npz", point=solved.point, multipliers=flipped)
    status, found = document(capsys, *certify(point="off.npz"))
    assert (status, found["n_clipped"]) == (3, 1)
    # Multipliers of sum one: the share is the entry, to the rounding of the sum.
    assert found["clipped_mass"] == pytest.approx(solved.multipliers[used[0]], rel=1e-14)
    assert "1 negative, clipped to zero" in run(capsys, *certify(point="off.npz"))[1]


def test_multipliers_that_are_not_given_are_found_with_less_accuracy(capsys):
    np.savez("A.npz", rows=ROWS)
    optimum = document(capsys, *solve())[1]
    np.savez("bare.npz", point=load_point("point.npz").point, extra=1)
    status, found = document(capsys, *certify(point="bare.npz"), "--tol", "1e-6")
    assert (status, found["multipliers_given"]) == (0, False)
    assert found["upper"] == pytest.approx(optimum["upper"], rel=1e-6)
    assert found["notes"] == [
        "bare.npz: ignored in the file: `extra`.",
        "bare.npz has no `multipliers`: they were found by least squares, which loses accuracy; "
        "put a solver's dual values beside the point for the sharpest upper bound.",
    ]


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_what_is_not_separable_comes_with_its_proof(capsys, norm):
    rows = np.array([[1.0, 2.0], [3.0, 1.0], [-4.0, -3.0]])
    np.savez("A.npz", rows=rows)
    for arguments in (solve(norm), certify(norm)):
        status, found = document(capsys, *arguments, "--rigorous")
        assert (status, found["status"]) == (1, "not separable")
        p = np.array(found["farkas"])
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1, rel=1e-15)
        # A sum of three products of numbers below 4.
        assert np.abs(p @ rows).max() < 1e-15
        assert found["lower"] <= found["slack"]
        assert found["rigorous"] == [0, 0]
    assert "a rational combination of the constraints is exactly zero" in run(capsys, *certify(norm), "--rigorous")[1]


def test_a_zero_row_has_no_gap(capsys):
    np.savez("A.npz", rows=np.array([[1.0, 0.0], [0.0, 0.0]]))
    status, found = document(capsys, *solve())
    assert (status, found["status"]) == (1, "not separable")
    assert (found["upper"], found["gap"], found["stationarity"], found["farkas"]) == (0, None, None, [0, 1])
    # Whatever the multipliers: the row itself is the proof.
    save_point("off.npz", point=np.ones(2), multipliers=np.array([1.0, 0.0]))
    status, found = document(capsys, *certify(point="off.npz"))
    assert (status, found["status"], found["farkas"]) == (1, "not separable", [0, 1])
    assert "relative gap" not in run(capsys, *solve())[1]


def test_where_double_precision_ends_the_solver_says_stalled(capsys):
    # The margin is 5e-13 and rounding moves it by 1e-15 or so, far above 1e-8 of it.
    np.savez("A.npz", rows=np.array([[1.0, 0.0], [-1.0, 1e-12]]))
    status, found = document(capsys, *solve())
    assert (status, found["status"]) == (3, "stalled")
    status, found = document(capsys, *certify())
    assert (status, found["status"]) == (3, "not certified")


def test_the_proven_interval_holds_the_margin_itself(capsys):
    np.savez("A.npz", rows=np.eye(3))
    for arguments in (solve("l1"), certify("l1")):
        low, high = document(capsys, *arguments, "--rigorous")[1]["rigorous"]
        assert Fraction(low) <= Fraction(1, 3) <= Fraction(high)
        assert high - low < 1e-14
    low, high = document(capsys, *solve("l2"), "--rigorous")[1]["rigorous"]
    assert Fraction(low) ** 2 <= Fraction(1, 3) <= Fraction(high) ** 2


def test_a_proof_is_written(capsys):
    np.savez("A.npz", rows=ROWS)
    _, found = document(capsys, *solve(), "--proof", "proof.json")
    assert found["proof"] == "proof.json"
    proof = json.loads(Path("proof.json").read_text())
    assert [float(proof["lower"]), float(proof["upper"])] == found["rigorous"]
    assert found["lower"] == pytest.approx(found["rigorous"][0], rel=1e-14)


def test_sparse_rows_have_the_same_margin(capsys):
    np.savez("A.npz", rows=ROWS)
    scipy.sparse.save_npz("S.npz", scipy.sparse.csr_matrix(ROWS))
    dense, sparse = document(capsys, *solve())[1], document(capsys, *solve(data="S.npz"))[1]
    assert sparse["status"] == "optimal"
    assert sparse["upper"] == pytest.approx(dense["upper"], rel=2e-8)  # the gap asked for, twice


@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_an_intercept(capsys, intercept):
    # On a line: +1 at 1 and 3, -1 at -2. Free: w x + b with margin 3/2 |w|, b = w/2. Penalised, |w| + |b| = 1: 1.
    X, y = np.array([[1.0], [3.0], [-2.0]]), np.array([1.0, 1.0, -1.0])
    np.savez("X.npz", X=X, y=y)
    np.savez("A.npz", rows=X * y[:, None], labels=y)
    for data in ("X.npz", "A.npz"):
        status, found = document(capsys, *solve(data=data), "--intercept", intercept)
        assert (status, found["intercept_kind"]) == (0, intercept)
        assert found["lower"] == pytest.approx(1.5 if intercept == "free" else 1.0, rel=2e-8)
        W, b = load_point("point.npz").point, found["intercept"]
        assert load_point("point.npz").intercept == b
        assert (y * (X @ W + b)).min() == pytest.approx(1, rel=1e-14)
        status, found = document(capsys, *certify(data=data), "--intercept", intercept)
        assert (status, found["status"]) == (0, "certified")
    assert f"({intercept})" in run(capsys, *certify(), "--intercept", intercept)[1]


def test_labels_without_an_intercept_are_noted(capsys):
    np.savez("A.npz", rows=ROWS, labels=np.array([1, 1, -1, 1]))
    assert document(capsys, *solve())[1]["notes"] == ["A.npz: `labels` are not used, as there is no intercept."]


def test_the_table_says_it_in_plain_words(capsys):
    np.savez("A.npz", rows=np.eye(3))
    status, out, err = run(capsys, *solve(), "--rigorous", "--quiet")
    assert (status, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[0] == "maximum margin in l1 · A.npz: 3 constraints, point of shape (3,)"
    assert lines[1].startswith("status               optimal: the recomputed gap is ")
    assert any(line.startswith("margin of the point  0.33333333333333") for line in lines)
    assert any(line.startswith("no margin exceeds    0.33333333333333") for line in lines)
    for name in ("proven interval", "relative gap", "rounding", "unique               yes: ", "CPU time"):
        assert sum(line.startswith(name) for line in lines) == 1
    assert "support              3 constraints: 0, 1, 2" in lines
    assert "point                point.npz" in lines


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["solve", "certify"])
def test_the_limit_is_asked_for(capsys, name):
    assert refused(capsys, name) == f"which limit? `omegalimit {name} LIMIT`; there is: max-margin."
    assert refused(capsys, name, "margin", "--norm", "l1") == "there is no limit 'margin'; there is: max-margin."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("solve", "max-margin"),
            "the following arguments are required: --norm, --data, --out; see `omegalimit solve max-margin --help`.",
        ),
        (
            ("certify", "max-margin", "--norm", "l1", "--data", "A.npz"),
            "the following arguments are required: --point; see `omegalimit certify max-margin --help`.",
        ),
        (
            (*solve(), "--colour", "red"),
            "unrecognized arguments: --colour red; see `omegalimit solve --help`.",
        ),
        (
            (*solve("lp"), "--p", "x"),
            "argument --p: invalid float value: 'x'; see `omegalimit solve max-margin --help`.",
        ),
        ((*solve(), "--tol", "0"), "--tol must lie between 0 and 1, both excluded; got 0."),
        ((*certify(), "--tol", "1"), "--tol must lie between 0 and 1, both excluded; got 1."),
        ((*solve(), "--tol", "nan"), "--tol must lie between 0 and 1, both excluded; got nan."),
        (
            solve("l3"),
            "`norm` must be one of fourier-l1, frobenius, group-l1, l1, l2, linf, lp, nuclear, schatten, spectral; "
            "got 'l3'.",
        ),
        (solve("lp"), "The norm 'lp' needs `p`, a number above 1; got none."),
        ((*solve("l1"), "--p", "2"), "The norm 'l1' takes no `p`; got 2.0. Norms with `p` are 'lp' and 'schatten'."),
        (
            (*solve("lp"), "--p", "1"),
            "`p` must be above 1 and finite; got 1.0. For 1 take 'l1', for infinity 'linf'.",
        ),
        (
            solve("group-l1"),
            "--norm group-l1 needs --groups FILE: text, one integer label a line, for each column in turn.",
        ),
        (
            solve("nuclear"),
            "'nuclear' is a norm of matrices, and `rows` of shape (4, 3) are vectors; you probably mean 'l1'.",
        ),
        (
            solve("l1", "M.npz"),
            "'l1' is a norm of vectors, and `rows` of shape (2, 2, 2) are matrices; you probably mean 'nuclear'.",
        ),
        (
            (*solve(), "--intercept", "free"),
            "A.npz: --intercept free needs labels: put `labels` of +1 and -1, one for each constraint, beside the "
            "rows, or give `X` with `y`.",
        ),
        (
            (*solve("l1", "X.npz"),),
            "X.npz: `y` must hold only -1 and +1; `y[0]` is 0 (values seen: 0, 1); "
            "for labels in {0, 1} pass `2 * y - 1`.",
        ),
        ((*solve("group-l1"), "--groups", "none.txt"), "none.txt: there is no such file."),
        (
            (*solve("group-l1"), "--groups", "two.txt"),
            "two.txt: there are 2 labels, and the data has 3 columns; write one label for each.",
        ),
        (
            (*solve("l1"), "--groups", "three.txt"),
            "The norm 'l1' takes no `groups`; you probably mean 'group-l1'.",
        ),
        (solve(data="none.npz"), "none.npz: there is no such file."),
        (certify(point="none.npz"), "none.npz: there is no such file."),
        (
            certify(point="zero.npz"),
            "zero.npz: `point` is zero, which has no direction and no margin; pass a non-zero point.",
        ),
        (certify(point="short.npz"), "short.npz: `point` must have shape (3,); got (2,)."),
        (
            (*certify(point="b.npz"),),
            "b.npz: `intercept` is 2, but the problem has none; state it with intercept='free' or 'penalised'.",
        ),
        (solve(out="A.npz"), "--out A.npz is the file of --data too; write another one."),
        (solve(out="./A.npz"), "--out ./A.npz is the file of --data too; write another one."),
        ((*solve(), "--proof", "point.npz"), "--out point.npz is the file of --proof too; write another one."),
        (solve(out=""), "'': this is a folder; give the name of a file."),
        ((*certify(), "--proof", "point.npz"), "--proof point.npz is the file of --point too; write another one."),
    ],
)
def test_wrong_usage_and_bad_input_are_one_line(capsys, here, arguments, message):
    np.savez("A.npz", rows=ROWS)
    np.savez("M.npz", rows=np.ones((2, 2, 2)))
    np.savez("X.npz", X=ROWS, y=[0, 1, 0, 1])
    np.savez("zero.npz", point=np.zeros(3))
    np.savez("short.npz", point=np.ones(2))
    np.savez("b.npz", point=np.ones(3), intercept=2)
    Path("two.txt").write_text("1\n2\n")
    Path("three.txt").write_text("1\n2\n2\n")
    before = sorted(path.name for path in here.iterdir())
    assert refused(capsys, *arguments) == message
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_place_that_cannot_be_written_is_refused_before_the_data_are_read(capsys, here):
    folder = str(here / "none")
    for out, message in (
        (here, "this is a folder; give the name of a file."),
        ("none/point.npz", f"there is no folder {folder!r}; make it first."),
        (os.devnull, "this is not a regular file; give the name of a file."),
    ):
        assert refused(capsys, *solve(data="nowhere.npz", out=out)) == f"{out}: {message}"
        assert refused(capsys, *certify(data="nowhere.npz"), "--proof", out) == f"{out}: {message}"


def test_a_result_is_printed_even_when_the_disk_is_full(capsys, here, monkeypatch):
    np.savez("A.npz", rows=ROWS)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    status, out, err = run(capsys, *solve(), "--json", "--quiet")
    found = json.loads(out)
    assert (status, found["status"], found["out"]) == (2, "optimal", None)
    assert err == "omegalimit: error: point.npz: nothing was written: No space left on device.\n"
    assert [path.name for path in here.iterdir()] == ["A.npz"]


# --- the terminal ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["solve", "certify"])
def test_help_is_there(capsys, name):
    status, out, err = run(capsys, name, "--help")
    assert (status, err) == (0, "")
    assert "max-margin" in out
    status, out, err = run(capsys, name, "max-margin", "--help")
    assert (status, err) == (0, "")
    options = ["--norm", "--p", "--groups", "--intercept", "--tol", "--data", "--rigorous", "--proof", "--json"]
    for option in (*options, "--out" if name == "solve" else "--point"):
        assert f"  {option}" in out
    assert "exit status: 0 " in out
    assert max(map(len, out.splitlines())) <= 120


def start(code: str, *arguments) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys\n{code}\nfrom omegalimit.cli import main\nsys.exit(main())", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )


def test_interrupted_in_mid_solve(here):
    np.savez("A.npz", rows=ROWS)
    code = (
        "import time, omegalimit.solvers\n"
        "def wait(*args):\n    print('waiting', flush=True)\n    time.sleep(60)\n"
        "omegalimit.solvers.solve = wait"
    )
    with start(code, *solve(), "--quiet") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "waiting\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
        assert child.stderr.read() == "omegalimit: interrupted; nothing half-written is left.\n"
    assert [path.name for path in here.iterdir()] == ["A.npz"]


@pytest.mark.parametrize("arguments", [("--json",), ()])
def test_a_reader_that_leaves_is_no_trouble(arguments):
    np.savez("A.npz", rows=ROWS)
    with start("", *solve(), *arguments) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.wait(60) == 0
        assert child.stderr.read() == ""
    assert load_point("point.npz").point.shape == (3,)


class Terminal(io.StringIO):
    """A stream that may be a terminal, and tells when something was written."""

    def __init__(self, *, live: bool) -> None:
        super().__init__()
        self.written, self._live = threading.Event(), live

    def isatty(self) -> bool:
        return self._live

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.mark.parametrize("live", [True, False])
def test_progress_shows_what_takes_long(monkeypatch, live):
    stream = Terminal(live=live)
    with margins.waiting(stream):
        pass
    assert stream.getvalue() == ""
    monkeypatch.setattr(margins, "_QUIET_FOR", 0.0)
    with margins.waiting(stream) as say:
        say("solving")
        assert stream.written.wait(20)
    text = stream.getvalue()
    assert "s so far" in text
    assert text.endswith("\r\x1b[K" if live else " s so far\n")


def test_progress_goes_on_without_its_reader(monkeypatch):
    class Gone(Terminal):
        def write(self, text: str) -> int:
            self.written.set()
            raise BrokenPipeError

    stream = Gone(live=False)
    monkeypatch.setattr(margins, "_QUIET_FOR", 0.0)
    with margins.waiting(stream):
        assert stream.written.wait(20)
