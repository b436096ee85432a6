"""The plan of a sweep: seeds, grid, files, and the address of a cell."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omegalimit.catalogue import AbstractSystem, Findings
from omegalimit.catalogue._system import silent
from omegalimit.sweep.plan import MOST_CELLS, address, make_plan, parse_seeds, read_toml

TOY = "_toy:Toy"


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0:4", (0, 1, 2, 3)),
        ("2:9:3", (2, 5, 8)),
        ("7", (7,)),
        ("1,5, 9", (1, 5, 9)),
        ("0:2,10", (0, 1, 10)),
        (3, (3,)),
        ([4, 2], (4, 2)),
        (range(2), (0, 1)),
        (np.array([1, 2]), (1, 2)),
    ],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the seeds '' cannot be read; write A:B (B left out), A:B:STEP, or a list such as 1,5,9."),
        ("a:b", "the seeds 'a:b' cannot be read; write A:B (B left out), A:B:STEP, or a list such as 1,5,9."),
        ("-1:3", "the seeds '-1:3' cannot be read; write A:B (B left out), A:B:STEP, or a list such as 1,5,9."),
        ("5:5", "there is no seed in '5:5'; write A:B (B left out), A:B:STEP, or a list such as 1,5,9."),
        ("0:9:0", "the seeds '0:9:0' have a step of 0; write A:B (B left out), A:B:STEP, or a list such as 1,5,9."),
        ("0:99999999999", "the seeds '0:99999999999' are more than 1,000,000."),
        ([], "there is no seed in []; write A:B (B left out), A:B:STEP, or a list such as 1,5,9."),
        ([1.5], "seeds must be whole numbers of at least 0; got 1.5."),
        ([True], "seeds must be whole numbers of at least 0; got True."),
        ([math.nan], "seeds must be whole numbers of at least 0; got nan."),
        (-1, "seeds must be whole numbers of at least 0; got -1."),
    ],
)
def test_seeds_that_are_none(text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        parse_seeds(text)
    assert str(caught.value) == message


def test_every_combination_in_order():
    plan = make_plan(TOY, grid={"size": [0.5, 2.0], "ending": ["found", "fault"]}, seeds="0:2")
    assert [(s["size"], s["ending"], s["seed"]) for _, s in plan.cells] == [
        (size, ending, seed) for size in (0.5, 2.0) for ending in ("found", "fault") for seed in (0, 1)
    ]
    assert len({key for key, _ in plan.cells}) == 8
    assert plan.varied == ("size", "ending", "seed")
    assert json.loads(json.dumps(plan.to_json([])))["cells"][0]["settings"] == {
        "size": 0.5,
        "ending": "found",
        "seed": 0,
    }


def test_the_command_of_a_cell():
    plan = make_plan("early-alignment", grid={"n": [20]}, options={"step_size": 0.5, "intercept": True}, seeds=[3])
    ((_, settings),) = plan.cells
    words = ("run", "early-alignment", "--step-size", "0.5", "--intercept", "--n", "20", "--seed", "3")
    assert plan.command(settings) == words


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            {"grid": {"siz": [1.0]}},
            "_toy:Toy has no field 'siz'; did you mean 'size'? it has: data, seed, size, ending, seconds.",
        ),
        ({"options": {"x": 1}}, "_toy:Toy has no field 'x'; it has: data, seed, size, ending, seconds."),
        ({"grid": {"size": []}}, "the grid has no value for 'size'; give one at least, or leave the field out."),
        ({"grid": {"size": 3.0}}, "the grid's 'size' must be a list of values; got 3.0."),
        ({"grid": {"ending": "found"}}, "the grid's 'ending' must be a list of values; got 'found'."),
        (
            {"grid": {"size": [1.0]}, "options": {"size": 2.0}},
            "'size' is in the grid and among the options; leave it in one of them.",
        ),
        ({"grid": {"seed": [1]}, "seeds": "0:2"}, "`seed` is in the grid, and seeds are given too; leave one of them."),
        (
            {"options": {"seed": 1}, "seeds": "0:2"},
            "`seed` is among the options, and seeds are given too; leave one of them.",
        ),
        (
            {"grid": {"size": [-1.0, -2.0]}},
            "_toy:Toy refuses every cell; the first because: `size` must be >= 0; got -1.0.",
        ),
        (
            {"grid": {"size": [float(i) for i in range(1001)]}, "seeds": "0:1000"},
            f"that is a sweep of 1,001,000 cells; {MOST_CELLS:,} at most are run.",
        ),
    ],
)
def test_plans_that_make_no_sense(ask, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        make_plan(TOY, **ask)
    assert str(caught.value) == message


def test_a_system_needs_a_seed():
    with pytest.raises(ValueError, match=r"^test_sweep_plan:Seedless has no field `seed`; give it one, so that a cell"):
        make_plan(Seedless)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seedless(AbstractSystem):
    """Nothing is drawn."""

    title = "nothing"

    def check(self, progress=silent):
        return Findings(verdicts=())

    @property
    def counters(self):
        return {}


def test_repetitions_are_run_once_and_told():
    plan = make_plan(TOY, grid={"size": [0.5, 0.5, 2.0]}, seeds=[1, 1])
    assert len(plan.cells) == 2
    assert plan.notes == (
        "size: 1 of 3 values are repetitions, run once.",
        "seeds: 1 of 2 values are repetitions, run once.",
    )
    plan = make_plan(TOY, grid={"size": [1, 1.0, np.float64(1), 2.0]})
    assert (len(plan.cells), plan.notes) == (2, ("size: 2 of 4 values are repetitions, run once.",))


SETTINGS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.floats(), st.text("abx1", max_size=4)),
)


@given(SETTINGS, SETTINGS)
def test_an_address_is_the_content(one, other):
    """Equal settings have one address, others have others; the order of the fields does not matter."""

    def same(x, y):
        return x == y or (isinstance(x, float) and isinstance(y, float) and math.isnan(x) and math.isnan(y))

    equal = one.keys() == other.keys() and all(
        same(one[k], other[k]) and isinstance(one[k], bool) == isinstance(other[k], bool) for k in one
    )
    assert (address("s", one) == address("s", other)) == equal
    assert address("s", dict(reversed(one.items()))) == address("s", one)
    assert address("t", one) != address("s", one)


def test_an_address_takes_numbers_as_numbers(tmp_path):
    assert address("s", {"a": 1}) == address("s", {"a": 1.0}) == address("s", {"a": np.float64(1)})
    assert address("s", {"a": (1, 2.0)}) == address("s", {"a": [1.0, 2]})
    assert address("s", {"a": math.inf}) != address("s", {"a": None})
    file = tmp_path / "x"
    before = address("s", {"a": str(file)})
    file.write_text("1")
    first = address("s", {"a": str(file)})
    file.write_text("2")
    assert len({before, first, address("s", {"a": str(file)})}) == 3


def test_the_addresses_do_not_drift():
    """A change of this number would have every user's cells run again: it is one on purpose only."""
    assert address("s", {"a": 1, "b": "x", "c": None}, code="") == ADDRESS


ADDRESS = "e5378554826aabe18245"


def test_toml(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('system = "s"\nseeds = "0:3"\nout = "here"\n[grid]\nL = [4, 8]\n[options]\nd = 3\n')
    expected = {"system": "s", "seeds": "0:3", "out": "here", "grid": {"L": [4, 8]}, "options": {"d": 3}}
    assert read_toml(str(file)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system =", "{} is not TOML: "),
        ('system = "s"\nsede = 3', "{}: there is no entry 'sede'; there are: system, seeds, out, "),
        ("seeds = 3", '{}: name the system: `system = "softmax-attention"`.'),
        ('system = "s"\ngrid = 3', "{}: `grid` must be a table; write it under `[grid]`."),
    ],
)
def test_toml_that_is_none(tmp_path, text, message):
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        read_toml(str(file))
    assert str(caught.value).startswith(message.format(file))


def test_toml_that_is_nowhere():
    with pytest.raises(ValueError, match=r"^/nowhere/a\.toml: No such file or directory\.$"):
        read_toml("/nowhere/a.toml")
