"""Records: what is written is read, whole or not at all, and what is damaged is refused."""

import dataclasses
import datetime
import enum
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from omegalimit._stored import file_sha256, read_arrays
from omegalimit.catalogue import Findings
from omegalimit.claims import Assumption, Kind, Verdict
from omegalimit.record import About, CounterResult, plain, prepare, read, verdict_from_json, verdict_to_json, write

SPECIAL = np.array([[1.0, np.nan], [np.inf, -np.inf], [5e-324, -0.0]])


def findings() -> Findings:
    one = Verdict(
        claim="nuclear-max-margin",
        parametrisation="kq",
        loss="exponential",
        kind=Kind.RATE,
        measured=0.1 + 0.2,
        bound=1.2,
        slack=1e-9,
        unit="relative gap",
        assumptions=(Assumption(name="separable", holds=True, measured=np.float64(0.3)),),
        conditions=(Assumption(name="same tokens", holds=True, measured="6 of 6"),),
        details={"gaps": np.array([1.0, np.inf]), "tokens": (1, 2), "caps": {1.0: np.float32(0.5)}},
    )
    other = Verdict(
        claim="rank",
        parametrisation="merged",
        loss="logistic",
        kind=Kind.COUNT,
        measured=math.nan,
        bound=math.inf,
        slack=math.inf,
        unit="count",
        undecided="did not arrive",
    )
    trajectory = xr.Dataset(
        {"gap": (("point", "norm"), SPECIAL), "done": ("point", [True, False, True])},
        coords={"norm": ["nuclear", "frobenius"]},
        attrs={"clock": "log t", "twin": True, "caps": (1, 2)},
    )
    return Findings(
        verdicts=(one, other),
        not_applicable={"l1-max-margin": "no diagonal run"},
        settings={"seed": np.int64(3), "atol": math.nan, "scales": (1.0, 0.1)},
        arrays={"kq": xr.Dataset({"W": (("i", "j"), np.eye(2))}), "kq/trajectory": trajectory, "empty": xr.Dataset()},
        notes=("ties: none",),
    )


def test_round_trip(tmp_path):
    found = findings()
    counter = CounterResult(
        name="stopped-early",
        text="Training stops early.",
        expected=(("rank", "merged"),),
        verdicts=found.verdicts[1:],
        as_expected=True,
    )
    started = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    path = write(
        found,
        folder=tmp_path / "made" / "here",
        system="softmax-attention",
        seed=3,
        counters=[counter],
        started=started,
        cpu_seconds=1.5,
        wall_seconds=2.5,
    )
    record = read(path)
    assert path.parent == tmp_path / "made" / "here"
    assert path.name.startswith("softmax-attention-20260102T030405Z-")
    assert (record.system, record.seed, record.cpu_seconds, record.wall_seconds) == ("softmax-attention", 3, 1.5, 2.5)
    assert record.started == "2026-01-02T03:04:05+00:00"
    assert record.settings == {"seed": 3, "atol": None, "scales": [1.0, 0.1]}
    assert record.not_applicable == {"l1-max-margin": "no diagonal run"}
    assert record.notes == ("ties: none",)
    assert record.versions["numpy"] == np.__version__
    assert record.threads["processors"] == os.cpu_count()
    assert [verdict_to_json(v) for v in record.verdicts] == [verdict_to_json(v) for v in found.verdicts]
    assert [v.outcome for v in record.verdicts] == [v.outcome for v in found.verdicts]
    assert record.counters[0].expected == counter.expected
    assert record.counters[0].as_expected
    assert set(record.arrays) == {"kq", "kq/trajectory"}
    stored = record.arrays["kq/trajectory"]
    assert stored["gap"].values.tobytes() == SPECIAL.tobytes()  # NaN, infinities, subnormals and signed zero survive
    assert stored["done"].values.tolist() == [True, False, True]
    assert list(stored["norm"].values) == ["nuclear", "frobenius"]
    assert stored.attrs == {"clock": "log t", "twin": "true", "caps": "[1, 2]"}


def test_a_record_written_again_is_the_same(tmp_path):
    first = read(write(findings(), folder=tmp_path, system="s", seed=1))
    second = read(write(first, folder=tmp_path, system="s", seed=1))
    assert first.path != second.path
    assert [verdict_to_json(v) for v in first.verdicts] == [verdict_to_json(v) for v in second.verdicts]
    for group, dataset in first.arrays.items():
        xr.testing.assert_identical(dataset, second.arrays[group])


def test_what_the_system_says_and_how_to_run_it_again(tmp_path):
    about = About(
        title="A toy", text="One.\n\n- two", counters={"big": "too big"}, defaults={"cap": math.inf, "n": (1, 2)}
    )
    command = ("run", "toy", "--size", "0.5")
    path = write(findings(), folder=tmp_path, system="toy", seed=1, about=about, command=command, name="here")
    assert path == tmp_path / "here"
    stored = read(path)
    assert stored.about == About(
        title="A toy", text="One.\n\n- two", counters={"big": "too big"}, defaults={"cap": None, "n": [1, 2]}
    )
    assert stored.command == command
    with pytest.raises(FileExistsError, match="there is a record already"):
        write(findings(), folder=tmp_path, system="toy", seed=1, name="here")
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]


def test_a_record_of_the_first_version_is_read(stored):
    """It had neither `about` nor `command`, and did not count the pools of threads."""
    document = json.loads((stored / "record.json").read_text())
    del document["about"], document["command"], document["threads"]["pools"]
    (stored / "record.json").write_text(json.dumps({**document, "schema": 1}))
    old = read(stored)
    assert (old.about, old.command) == (None, None)
    assert old.threads["processors"] == os.cpu_count()
    assert set(old.arrays) == {"kq", "kq/trajectory"}


def test_the_pools_of_threads_are_counted(stored):
    pools = read(stored).threads["pools"]
    assert pools
    assert all(isinstance(n, int) and n >= 1 for n in pools.values())


def test_without_its_arrays_a_record_is_read_without_xarray(stored):
    """And what is not read cannot be damaged."""
    (stored / "arrays.nc").write_bytes(b"no longer")
    program = (
        "import sys; from omegalimit.record import read; r = read(sys.argv[1], arrays=False); "
        "print(dict(r.arrays), len(r.verdicts), {'xarray', 'h5netcdf', 'h5py', 'pandas'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program, stored], capture_output=True, text=True, check=True).stdout
    assert said == "{} 2 set()\n"


def test_a_record_is_read_without_dask(stored):
    """Where Dask is installed, xarray would import it to look at each array."""
    program = (
        "import sys; from omegalimit.record import read; r = read(sys.argv[1]); "
        "print(len(r.arrays), {'dask.array', 'distributed'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program, stored], capture_output=True, text=True, check=True).stdout
    assert said == f"{len(read(stored).arrays)} set()\n"


def test_the_verdicts_of_a_record_as_a_dataset(stored):
    dataset = read(stored).dataset()
    assert dict(dataset.sizes) == {"verdict": 2}
    assert dataset["claim"].values.tolist() == ["nuclear-max-margin", "rank"]
    assert dataset["outcome"].values.tolist() == ["holds", "inconclusive"]
    np.testing.assert_array_equal(dataset["measured"], [0.1 + 0.2, np.nan])


def all_kinds() -> dict[str, xr.Dataset]:
    """Every kind of variable, coordinate and attribute that xarray itself can write; a group before its parent."""
    variables = {f"v{t}": ("row", np.arange(3).astype(t)) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")}
    variables |= {f"f{t}": (("row", "norm"), SPECIAL.astype(t)) for t in ("f4", "f8")}
    variables |= {
        "truth": ("row", np.array([True, False, True])),
        "text": ("row", np.array(["a", "", "Gr\u00f6\u00dfe \u2207"])),
        "objects": (("norm", "row"), np.array([["a", "bb", "c"], ["", "x" * 300, "z"]], dtype=object)),
        "one": ((), 1.5),
        "one_truth": ((), True),
        "one_text": ((), "only"),
        "empty": (("none", "row"), np.zeros((0, 3))),
        "empty_text": ("none", np.array([], dtype="U1")),
        "backwards": (("norm", "row"), SPECIAL.T),
        "big": ("row", np.arange(3.0, dtype=">f8")),
    }
    coordinates = {
        "norm": ["nuclear", "frobenius"],
        "row": ("row", [3, 1, 2], {"units": "steps"}),
        "log_time": ("row", [0.0, np.inf, np.nan]),
        "grid": (("row", "norm"), np.ones((3, 2))),
        "scale": 0.1,
        "elsewhere": ("other", [1, 2]),
    }
    attributes = {"clock": "log t", "n": 3, "share": 0.25, "nothing": "", "nan": math.nan}
    return {
        "a/b/c": xr.Dataset(variables, coords=coordinates, attrs=attributes),
        "a": xr.Dataset({"row": ("row", [0.5, math.nan])}),
        "a/d": xr.Dataset(attrs={"only": "attributes"}),
        "bare": xr.Dataset({"x": (("i", "j"), np.eye(2)), "y": ("i", [1, 2], {"unit": "nats"})}),
    }


def test_arrays_are_written_as_xarray_writes_them(tmp_path):
    """xarray reads the same from our file as from its own; and so do we, from both."""
    arrays = all_kinds()
    theirs = tmp_path / "theirs.nc"
    for group, dataset in arrays.items():
        dataset.to_netcdf(theirs, group=group, mode="a" if theirs.exists() else "w", engine="h5netcdf")
    path = write(Findings(verdicts=(), arrays=arrays), folder=tmp_path, system="s", seed=1)
    expected, found = (xr.open_groups(file, engine="h5netcdf") for file in (theirs, path / "arrays.nc"))
    for group in arrays:
        xr.testing.assert_identical(found[f"/{group}"].load(), expected[f"/{group}"].load())
    for mine in (read(path).arrays, read_arrays(theirs, file_sha256(theirs))):
        assert set(mine) == set(arrays)
        for group in arrays:
            xr.testing.assert_identical(mine[group], expected[f"/{group}"])
            for name, variable in mine[group].variables.items():
                assert variable.dtype.kind == expected[f"/{group}"][name].dtype.kind
    for opened in (*expected.values(), *found.values()):
        opened.close()


def test_arrays_that_no_record_can_keep(tmp_path):
    arrays = {"g": xr.Dataset({"z": ("i", np.array([1j]))})}
    with pytest.raises(
        TypeError, match=r"^`z` holds complex128, which a record cannot keep; use numbers, truth or text\.$"
    ):
        write(Findings(verdicts=(), arrays=arrays), folder=tmp_path, system="s", seed=1)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_leaves_nothing(tmp_path):
    """The system itself refuses to let a file grow past a limit: in the arrays, in the JSON, or not at all."""
    path = write(findings(), folder=tmp_path / "whole", system="s", seed=1)
    arrays, text = ((path / name).stat().st_size for name in ("arrays.nc", "record.json"))
    assert text < arrays
    program = textwrap.dedent(
        """
        import os, resource, sys
        sys.path.insert(0, sys.argv[1])
        import test_record
        from omegalimit.record import read, write
        found, folder = test_record.findings(), sys.argv[2]
        write(found, folder=folder, system="s", seed=1, name="first")
        for limit in map(int, sys.argv[3:]):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            try:
                write(found, folder=folder, system="s", seed=1, name=f"r{limit}")
                print("written", end=" ")
            except OSError as error:
                print(error.strerror, end=" ")
            print(len(os.listdir(folder)))
        """
    )
    folder = tmp_path / "runs"
    limits = map(str, (0, 1, text // 2, arrays - 1, arrays))
    command = [sys.executable, "-c", program, Path(__file__).parent, folder, *limits]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["File too large 1"] * 4 + ["written 2"]
    # Large text and small arrays: the JSON is what does not fit.
    long = dataclasses.replace(findings(), notes=("x" * 3 * arrays,))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * arrays, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(long, folder=folder, system="s", seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(entry.name for entry in folder.iterdir()) == ["first", f"r{arrays}"]


def test_a_file_of_brackets(stored):
    (stored / "record.json").write_text("[" * 200_000)
    assert refusal(stored).startswith(f"{str(stored)!r}: `record.json` is damaged or cut short: ")


def test_the_json_has_no_token_that_is_not_json(tmp_path):
    text = (write(findings(), folder=tmp_path, system="s", seed=None) / "record.json").read_text()
    json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} in record.json"))


def test_a_verdict_in_json_has_these_keys():
    verdict = findings().verdicts[0]
    assert list(verdict_to_json(verdict)) == [
        "claim",
        "parametrisation",
        "loss",
        "kind",
        "outcome",
        "measured",
        "bound",
        "slack",
        "unit",
        "assumptions",
        "conditions",
        "undecided",
        "details",
    ]
    assert verdict_to_json(verdict)["assumptions"] == [{"name": "separable", "holds": True, "measured": 0.3}]


class Colour(enum.Enum):
    RED = (1, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.bool_(True), True),
        (np.int32(-3), -3),
        (np.float64("inf"), None),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array(2.5), 2.5),
        (1 + 2j, {"real": 1.0, "imag": 2.0}),
        (Colour.RED, [1, 2]),
        (Kind.RATE, "rate"),
        ({1: {2: (None, b"x")}}, {"1": {"2": [None, "b'x'"]}}),
        (frozenset({4}), [4]),
        (Path("a/b"), "a/b"),
        (Assumption(name="a", holds=None), {"name": "a", "holds": None, "measured": None}),
        (10**30, 10**30),
    ],
)
def test_everything_becomes_plain_json(value, expected):
    got = plain(value)
    assert got == expected
    assert type(got) is type(expected)
    assert json.loads(json.dumps(got, allow_nan=False)) == expected


def test_an_outcome_that_its_numbers_deny_is_refused():
    entry = verdict_to_json(findings().verdicts[0]) | {"outcome": "fails"}
    expected = "^the verdict on 'nuclear-max-margin' is stored as 'fails', but its numbers say 'holds'$"
    with pytest.raises(ValueError, match=expected):
        verdict_from_json(entry)


def test_nothing_that_exists_is_overwritten(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda n: "00" * n)
    started = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    first = write(findings(), folder=tmp_path, system="s", seed=1, started=started)
    before = {path: path.read_bytes() for path in first.iterdir()}
    with pytest.raises(FileExistsError, match="there is a record already"):
        write(findings(), folder=tmp_path, system="s", seed=2, started=started)
    assert {path: path.read_bytes() for path in first.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", first.name]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, RuntimeError, OSError])
def test_a_writing_that_stops_leaves_nothing(tmp_path, trouble):
    def illustrate(record, folder):
        (folder / "half.png").write_bytes(b"half")
        raise trouble

    with pytest.raises(trouble):
        write(findings(), folder=tmp_path, system="s", seed=1, illustrate=illustrate)
    assert list(tmp_path.iterdir()) == []


def test_pictures_are_part_of_the_record(tmp_path):
    def illustrate(record, folder):
        (folder / "gap.png").write_bytes(repr(sorted(record.arrays)).encode())

    path = write(findings(), folder=tmp_path, system="s", seed=1, illustrate=illustrate)
    assert (path / "gap.png").read_text() == "['kq', 'kq/trajectory']"


def test_a_run_killed_while_writing_leaves_no_record(tmp_path):
    """Kill a process that writes record after record, at random moments; what bears a record's name must be whole."""
    program = textwrap.dedent(
        """
        import sys
        import numpy as np, xarray as xr
        from omegalimit.catalogue import Findings
        from omegalimit.record import write
        found = Findings(verdicts=(), arrays={"a": xr.Dataset({"x": ("i", np.zeros(20000))})})
        write(found, folder=sys.argv[1], system="s", seed=1)
        print("ready", flush=True)
        while True:
            write(found, folder=sys.argv[1], system="s", seed=1)
        """
    )
    moments = random.Random(0)
    whole = partial = 0
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(moments.uniform(0.0, 0.1))
            child.send_signal(signal.SIGKILL)
        for path in folder.iterdir():
            if path.name.startswith("."):
                partial += 1
                with pytest.raises(ValueError, match="was left by a run that was killed while writing"):
                    read(path)
            else:
                whole += 1
                assert read(path).system == "s"
    # A kill between two writes leaves no hidden folder, and a write takes nearly all of the time.
    assert whole >= 4
    assert partial >= 1


@pytest.fixture
def stored(tmp_path) -> Path:
    return write(findings(), folder=tmp_path, system="s", seed=1)


def change(path: Path, **entries) -> None:
    document = json.loads((path / "record.json").read_text())
    (path / "record.json").write_text(json.dumps({**document, **entries}))


def refusal(path: Path) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        read(path)
    return str(caught.value)


def test_no_record_there(tmp_path):
    missing = tmp_path / "none"
    assert refusal(missing) == f"there is no record at {str(missing)!r}: a record is a folder with `record.json` in it."
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "file").startswith("there is no record at ")
    assert refusal(tmp_path) == f"there is no record at {str(tmp_path)!r}: `record.json`: No such file or directory."


def test_another_schema_version(stored):
    change(stored, schema=7)
    assert refusal(stored) == (
        f"{str(stored)!r} has schema version 7, and this omegalimit reads versions 1 and 2; "
        "read it with the version of omegalimit that wrote it."
    )


@pytest.mark.parametrize("text", ["[]", "{}", "3"])
def test_json_of_another_kind(stored, text):
    (stored / "record.json").write_text(text)
    assert refusal(stored) == f"{str(stored)!r}: `record.json` names no schema version; omegalimit did not write it."


def test_json_cut_short_anywhere(stored):
    whole = (stored / "record.json").read_bytes().rstrip()
    for length in range(0, len(whole), 97):
        (stored / "record.json").write_bytes(whole[:length])
        assert refusal(stored).startswith(f"{str(stored)!r}: `record.json` is damaged or cut short: ")


def test_json_that_is_not_text_or_not_json(stored):
    (stored / "record.json").write_bytes(b"\xff\xfe")
    assert refusal(stored) == f"{str(stored)!r}: `record.json` is damaged: it is not UTF-8 text."
    (stored / "record.json").write_text('{"schema": NaN}')
    assert refusal(stored) == f"{str(stored)!r}: `record.json` is damaged or cut short: NaN is not JSON."


def test_json_with_a_part_missing_or_of_another_kind(stored):
    document = json.loads((stored / "record.json").read_text())
    for entry in set(document) - {"schema"}:
        rest = {name: value for name, value in document.items() if name != entry}
        (stored / "record.json").write_text(json.dumps(rest))
        assert refusal(stored) == f"{str(stored)!r}: `record.json` lacks the entry {entry!r}."
    (stored / "record.json").write_text(json.dumps(document | {"verdicts": 3}))
    assert refusal(stored).startswith(f"{str(stored)!r}: `record.json` is not laid out as a record: ")


def test_arrays_damaged_cut_short_or_missing(stored):
    arrays = stored / "arrays.nc"
    whole = arrays.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for damaged in (bytes(flipped), whole[:-1], b""):
        arrays.write_bytes(damaged)
        assert refusal(stored).startswith(f"{str(stored)!r}: `arrays.nc` is damaged or cut short: its SHA-256 is ")
    arrays.unlink()
    assert refusal(stored) == f"{str(stored)!r}: `arrays.nc` is missing."


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "runs"
    with pytest.raises(ValueError, match=r"^cannot write a record in .*: Not a directory\.$"):
        prepare(folder)
    with pytest.raises(ValueError, match=r"^cannot write a record in .*: Not a directory\.$"):
        write(findings(), folder=folder, system="s", seed=1)
