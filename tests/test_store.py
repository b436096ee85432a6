"""A folder of records: what is there, what is not, and what a cache may and may not do."""

import dataclasses
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import _toy
from _records import record as blank_record
from _sweeps import toy_sweep
from omegalimit import record
from omegalimit.claims import Assumption, Kind, Verdict
from omegalimit.store import Cell, Failure, Folder, append_index, clopper_pearson, open_folder
from omegalimit.store.cells import cell_from_json, cell_of, cell_to_json


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "sweep"
    toy_sweep(folder, sizes=(0.5, 0.95, 2.0, -1.0), seeds="0:4")
    return folder


@pytest.fixture
def copy(swept, tmp_path):
    return shutil.copytree(swept, tmp_path / "copy")


def test_everything_is_counted(swept):
    folder = open_folder(swept)
    (claim,) = folder.summary()
    assert (len(folder.cells), len(folder.failures), folder.missing, folder.damaged) == (12, 4, (), {})
    assert (claim.n_holds, claim.n_fails, claim.n_inconclusive, claim.n_no_verdict) == (4, 4, 4, 4)
    assert (claim.n, claim.n_decided, claim.share_holds) == (16, 8, 0.5)
    assert claim.envelope == (0.25, 0.75)
    assert claim.measured[1] == 0.95
    assert claim.ratio[1] == 0.95


def test_the_table_has_a_row_for_each_cell_and_verdict(copy):
    plan = json.loads((copy / "sweep.json").read_text())
    lost = plan["cells"][0]["key"]
    shutil.rmtree(copy / "cells" / lost)
    folder = open_folder(copy)
    frame = folder.table()
    assert folder.missing == (lost,)
    assert frame["outcome"].value_counts().to_dict() == {
        "fails": 4,
        "inconclusive": 4,
        "no verdict": 4,
        "holds": 3,
        "not run": 1,
    }
    assert list(frame.columns[:4]) == ["key", "system", "seed", "size"]
    assert set(frame["reason"].dropna()) == {"ValueError: `size` must be >= 0; got -1.0."}
    missing = frame[frame["outcome"] == "not run"].iloc[0]
    assert (missing["key"], missing["size"], missing["seed"]) == (lost, 0.5, 0)
    assert np.isnan(missing["measured"])


def test_the_tables_on_the_disk_are_the_table(copy):
    folder = open_folder(copy)
    csv, parquet = folder.write_tables()
    frame = folder.table()
    pd.testing.assert_frame_equal(pd.read_parquet(parquet), frame)
    read = pd.read_csv(csv)
    assert read["outcome"].tolist() == frame["outcome"].tolist()
    np.testing.assert_array_equal(read["measured"], frame["measured"])
    assert [name for name in os.listdir(copy) if name.endswith(".partial")] == []


def test_without_pyarrow_there_is_one_table(copy, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [path.name for path in open_folder(copy).write_tables()] == ["table.csv"]


@pytest.mark.parametrize("spoil", ["delete", "garbage", "brackets", "cut", "other shape", "another record"])
def test_the_index_is_a_cache(copy, spoil):
    """Whatever happens to the index, the records are told as they are."""
    index = copy / "index.jsonl"
    expected = open_folder(copy).table()
    lines = index.read_text().splitlines()
    if spoil == "delete":
        index.unlink()
    elif spoil == "garbage":
        index.write_bytes(b"\xff\x00{not json\n" * 3)
    elif spoil == "brackets":
        index.write_text("[" * 200_000 + "\n")
    elif spoil == "cut":
        index.write_text("\n".join(lines)[:-40])
    elif spoil == "other shape":
        index.write_text("\n".join(json.dumps({**json.loads(line), "rows": [[1, 2]]}) for line in lines) + "\n")
    else:  # one whose outcome was tampered with; its stamp no longer fits
        changed = [json.loads(line) for line in lines]
        for entry in changed:
            entry["rows"][0][4], entry["stamp"][0] = "holds", entry["stamp"][0] + 1
        index.write_text("\n".join(map(json.dumps, changed)) + "\n")
    pd.testing.assert_frame_equal(open_folder(copy).table(), expected)
    # What was learned is kept, after a line that was cut short too.
    pd.testing.assert_frame_equal(open_folder(copy).table(), expected)


def test_a_record_that_was_replaced_is_read_anew(copy):
    cell = open_folder(copy).cells[0]
    shutil.rmtree(cell.path)
    findings = _toy.Toy(size=3.0).check()
    record.write(findings, folder=cell.path.parent, system="_toy:Toy", seed=0, name=cell.key)
    assert open_folder(copy).cells[0].verdicts[0].measured == 3.0


def test_a_row_of_the_index_gives_the_verdict_back(swept):
    for cell in open_folder(swept).cells:
        (verdict,) = cell.open().verdicts
        (kept,) = cell.verdicts
        for name in ("claim", "kind", "outcome", "measured", "bound", "slack", "unit", "undecided", "outside_theorem"):
            assert getattr(kept, name) == getattr(verdict, name)
        assert [a.name for a in kept.assumptions] == [a.name for a in verdict.assumptions]


def test_numbers_that_are_not_finite_stay_so(tmp_path):
    folder = toy_sweep(tmp_path, sizes=(math.inf,), seeds="0:2")
    assert folder.cells[0].rows[0][5] is None
    assert np.isnan(folder.table()["measured"]).all()
    (claim,) = folder.summary()
    assert (claim.n_inconclusive, claim.n_decided) == (2, 0)
    assert np.isnan(claim.share_holds)
    assert claim.interval == (0.0, 1.0)


def test_what_cannot_be_read_is_named_and_the_rest_kept(copy):
    first, second, third, *_ = open_folder(copy).cells
    (first.path / "record.json").write_text('{"schema": 2, "sys')
    document = json.loads((second.path / "record.json").read_text())
    (second.path / "record.json").write_text(json.dumps({**document, "schema": 99}))
    (third.path / "record.json").unlink()
    (copy / "cells" / ".x-1.partial").mkdir()
    (copy / "cells" / "notes.txt").write_text("mine")
    failure = next((copy / "failures").iterdir())
    failure.write_text("{")
    folder = open_folder(copy)
    assert set(folder.damaged) == {first.key, second.key, third.key, failure.name}
    assert "damaged or cut short" in folder.damaged[first.key]
    assert "schema version 99" in folder.damaged[second.key]
    assert folder.damaged[third.key] == "it has no `record.json`"
    assert (len(folder.cells), len(folder.failures)) == (9, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "`sweep.json` is damaged or cut short"),
        ("[]", "`sweep.json` is not a sweep's plan"),
        ("[" * 200_000, "`sweep.json` is damaged or cut short"),
        ('{"schema": 1, "system": "x", "grid": {}, "cells": [{"key": 3}]}', "`sweep.json` is not a sweep's plan"),
        ('{"schema": 1, "system": "x", "grid": [], "cells": []}', "`sweep.json` is not a sweep's plan"),
        ('{"schema": 7, "system": "x", "grid": {}, "cells": []}', "`sweep.json` has schema version 7"),
    ],
)
def test_a_plan_that_cannot_be_read(copy, text, message):
    (copy / "sweep.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_folder(copy)


def test_no_folder(tmp_path):
    with pytest.raises(ValueError, match=r"^there is no folder '.*nowhere'\.$"):
        open_folder(tmp_path / "nowhere")
    folder = open_folder(tmp_path)
    assert (folder.cells, folder.summary(), len(folder.table())) == ((), (), 0)
    with pytest.raises(ValueError, match=r"^there is no record in '"):
        folder.dataset()


def test_a_plain_folder_of_records(tmp_path):
    for seed in (3, 1):
        record.write(_toy.Toy(seed=seed).check(), folder=tmp_path, system="toy", seed=seed)
    (tmp_path / "mine").mkdir()
    folder = open_folder(tmp_path)
    assert folder.plan is None
    assert sorted(cell.seed or 0 for cell in folder.cells) == [1, 3]
    assert not (tmp_path / "index.jsonl").exists()


def test_the_verdicts_as_a_dataset(swept):
    dataset = open_folder(swept).dataset()
    assert dict(dataset.sizes) == {"cell": 12, "verdict": 1}
    assert dataset["size"].dims == ("cell",)
    fails = dataset.where(dataset["outcome"] == "fails", drop=True)
    assert set(fails["size"].values) == {2.0}
    assert (dataset["claim"].item(), dataset["parametrisation"].item()) == ("stays-under", "plain")


def test_a_group_of_arrays_of_all_records(tmp_path):
    findings = _toy.Toy().check()
    for seed, n in enumerate((3, 5, 0)):
        arrays = {"plain/trajectory": xr.Dataset({"log_time": ("point", np.arange(n) + 10.0 * seed)})} if n else {}
        vars(findings)["arrays"] = arrays
        record.write(findings, folder=tmp_path, system="toy", seed=seed, name=f"r{seed}")
    dataset = open_folder(tmp_path).dataset("plain/trajectory")
    assert dict(dataset.sizes) == {"cell": 2, "point": 5}
    np.testing.assert_array_equal(dataset["log_time"][0], [0, 1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(dataset["log_time"][1], [10, 11, 12, 13, 14])
    assert list(dataset["key"].values) == ["r0", "r1"]
    assert dataset.attrs["lacking"] == ["r2"]
    with pytest.raises(ValueError, match=r"has the group 'kq/gone'\.$"):
        open_folder(tmp_path).dataset("kq/gone")


def test_clopper_pearson_is_scipys():
    for n in (1, 2, 7, 100):
        for k in range(0, n + 1, max(1, n // 5)):
            expected = scipy.stats.binomtest(k, n).proportion_ci(0.95, method="exact")
            # Two routes to the same quantile of a beta distribution: they differ by rounding of its inverse.
            np.testing.assert_allclose(clopper_pearson(k, n), tuple(expected), rtol=1e-9, atol=1e-12)


def test_the_interval_of_a_median_covers_it_as_often_as_it_says(tmp_path):
    """By simulation, for odd and even n; and it is not wider than one rank more than needed."""
    from omegalimit.store.summary import _median_interval

    rng = np.random.default_rng(0)
    assert _median_interval(np.arange(5.0)) == (-math.inf, math.inf)  # 2/2^5 > 5%: no interval exists
    for n in (6, 9, 30, 101, 2000):
        draws = rng.standard_normal((4000, n))
        ends = np.array([_median_interval(row) for row in draws[: 4000 if n < 500 else 600]])
        covered = np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0))
        # At least 95%; four standard errors of the simulated share below that.
        assert covered > 0.95 - 4 * math.sqrt(0.95 * 0.05 / len(ends))
        low = int(np.searchsorted(np.sort(draws[0]), ends[0, 0]))
        narrower = scipy.stats.binom.cdf(low + 1, n, 0.5)
        assert n == 2000 or 2 * narrower > 0.05  # one rank farther in would cover too little


def test_a_line_after_one_that_was_cut(tmp_path):
    (tmp_path / "index.jsonl").write_bytes(b'{"key": "a"')
    append_index(tmp_path, [{"key": "b"}])
    assert (tmp_path / "index.jsonl").read_text().splitlines() == ['{"key": "a"', '{"key":"b"}']


def kept(folder: Path, *settings: dict, **rest) -> Folder:
    """A plain folder with one record for each of the settings."""
    for seed, chosen in enumerate(settings):
        findings = dataclasses.replace(_toy.Toy(seed=seed).check(), settings=chosen, **rest)
        record.write(findings, folder=folder, system="toy", seed=seed, name=f"r{seed}")
    return open_folder(folder)


def test_settings_that_bear_the_names_of_labels(tmp_path):
    """A sweep over losses: the verdicts keep their own loss, and the cells theirs."""
    arrays = {"g": xr.Dataset({"n": ("i", [1.0, 2.0])}, coords={"seed": 7})}
    folder = kept(tmp_path, {"loss": "logistic", "n": 1}, {"loss": "exponential", "n": 2}, arrays=arrays)
    dataset = folder.dataset()
    assert dataset["loss"].dims == ("verdict",)
    assert dataset["loss"].values.tolist() == ["exponential"]
    assert dataset["setting_loss"].values.tolist() == ["logistic", "exponential"]
    assert dataset["n"].values.tolist() == [1, 2]
    group = folder.dataset("g")
    assert group["n"].values.tolist() == [[1.0, 2.0]] * 2
    assert (group["seed"].item(), group["cell_seed"].values.tolist()) == (7, [0, 1])
    assert (group["setting_n"].values.tolist(), group["loss"].values.tolist()) == ([1, 2], ["logistic", "exponential"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, "auto", None), ["1", "auto", None]),
        ((True, 3, 2.5), ["true", "3", "2.5"]),
        ((10**30, 1), [str(10**30), "1"]),
        (([1, 2], "x"), ["[1, 2]", "x"]),
        ((1, 2.5), [1.0, 2.5]),
    ],
)
def test_settings_of_several_sorts_in_one_column(tmp_path, values, expected):
    """A column of Parquet has one sort; what mixes them is text."""
    folder = kept(tmp_path, *({"cap": value} for value in values))
    _, parquet = folder.write_tables()
    assert [None if pd.isna(value) else value for value in pd.read_parquet(parquet)["cap"]] == expected


def test_a_claim_that_is_judged_twice_in_a_record_is_counted_twice(tmp_path):
    folder = kept(tmp_path, {}, {}, verdicts=(_toy.verdict(0.5), _toy.verdict(2.0)))
    assert [(c.n_holds, c.n_fails, c.n) for c in folder.summary()] == [(2, 0, 2), (0, 2, 2)]
    np.testing.assert_array_equal(folder.dataset()["measured"], [[0.5, 2.0]] * 2)


def test_arrays_that_are_damaged_are_named_and_the_rest_kept(tmp_path):
    folder = kept(tmp_path, {}, {})
    (tmp_path / "r0" / "arrays.nc").write_bytes(b"")
    dataset = folder.dataset("plain/trajectory")
    assert (dataset["key"].values.tolist(), dataset.attrs["damaged"]) == (["r1"], ["r0"])
    (tmp_path / "r1" / "arrays.nc").unlink()
    with pytest.raises(ValueError, match=r"^no record in '.*' can be read whole: .*r0': `arrays\.nc` is damaged"):
        folder.dataset("plain/trajectory")


def test_a_group_with_cells_of_its_own(tmp_path):
    folder = kept(tmp_path, {}, arrays={"g": xr.Dataset({"x": ("cell", [1.0])})})
    with pytest.raises(ValueError, match=r"^the group 'g' has a `cell` of its own; open its records one by one\.$"):
        folder.dataset("g")


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
PARTS = st.lists(
    st.builds(Assumption, name=st.text(), holds=st.sampled_from([True, False, None]), measured=st.none() | st.text()),
    max_size=2,
).map(tuple)
VERDICTS = st.builds(
    Verdict,
    claim=st.sampled_from("abc"),
    parametrisation=st.text(),
    loss=st.sampled_from(["exponential", "none"]),
    kind=st.sampled_from(Kind),
    measured=NUMBERS,
    bound=NUMBERS,
    slack=st.floats(min_value=0, allow_nan=False),
    unit=st.text(),
    assumptions=PARTS,
    conditions=PARTS,
    undecided=st.none() | st.text(),
)


def cell(key: str, verdicts: list[Verdict]) -> Cell:
    return cell_of(dataclasses.replace(blank_record({}), path=Path(key), verdicts=tuple(verdicts)))


@given(st.lists(VERDICTS, max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_verdict_comes_back_from_the_index(verdicts):
    """Finite numbers to the last digit; those that are not finite stay so, as `null` does in the record itself."""
    made = cell("k", verdicts)
    line = json.loads(json.dumps(cell_to_json(made), allow_nan=False))
    again = cell_from_json(line, "k", made.path)
    assert len(again.verdicts) == len(verdicts)
    for old, new in zip(verdicts, again.verdicts, strict=True):
        assert (old.outcome, old.outside_theorem) == (new.outcome, new.outside_theorem)
        assert (old.assumptions, old.conditions) == (new.assumptions, new.conditions)
        for name in ("measured", "bound", "slack"):
            before, after = getattr(old, name), getattr(new, name)
            assert before == after if math.isfinite(before) else not math.isfinite(after)


@given(st.lists(st.none() | st.lists(VERDICTS, max_size=3), max_size=8), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_nothing_is_dropped(found, n_missing):
    """Every verdict, failure and missing cell is one row; and each claim's counts make up its system's cells."""
    cells = tuple(cell(f"k{i}", verdicts) for i, verdicts in enumerate(found) if verdicts is not None)
    blank = {"error": "E", "message": "", "traceback": "", "where": "", "started": "", "wall_seconds": None}
    failures = tuple(
        Failure(key=f"k{i}", system="toy", settings={}, seed=i, kind="raised", versions={}, **blank)
        for i, verdicts in enumerate(found)
        if verdicts is None
    )
    missing = tuple(f"m{i}" for i in range(n_missing))
    plan = {"system": "toy", "grid": {}, "cells": [{"key": key, "settings": {"seed": 0}} for key in missing]}
    folder = Folder(path=Path("."), plan=plan, cells=cells, failures=failures, missing=missing, earlier=(), damaged={})
    outcomes = folder.table()["outcome"].value_counts().to_dict()
    verdicts = [verdict for one in cells for verdict in one.verdicts]
    silent = len(failures) + sum(not one.rows for one in cells)
    assert outcomes.pop("not run", 0) == n_missing
    assert outcomes.pop("no verdict", 0) == silent
    assert sum(outcomes.values()) == len(verdicts)
    summaries = folder.summary()
    for name, n in (("holds", "n_holds"), ("fails", "n_fails"), ("inconclusive", "n_inconclusive")):
        assert outcomes.get(name, 0) == sum(getattr(c, n) for c in summaries)
    for claim in summaries:
        assert claim.n == len(cells) + len(failures)
        assert 0 <= claim.envelope[0] <= claim.envelope[1] <= 1
