"""The rule that turns numbers into an outcome."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omegalimit.claims import Assumption, Kind, Outcome, Verdict

finite = st.floats(min_value=-1e6, max_value=1e6)
slacks = st.floats(min_value=0.0, max_value=1e6)
kinds = st.sampled_from(Kind)


def judge(measured: float, bound: float, slack: float, kind: Kind = Kind.UPPER, **rest: Any) -> Outcome:
    verdict = Verdict(
        claim="c",
        parametrisation="p",
        loss="l",
        kind=kind,
        measured=measured,
        bound=bound,
        slack=slack,
        unit="u",
        **rest,
    )
    return verdict.outcome


@pytest.mark.parametrize(
    ("measured", "slack", "kind", "outcome"),
    [
        (0.5, 0.1, Kind.UPPER, Outcome.HOLDS),
        (1.0, 0.0, Kind.UPPER, Outcome.HOLDS),
        (1.5, 0.1, Kind.UPPER, Outcome.FAILS),
        (0.95, 0.1, Kind.UPPER, Outcome.INCONCLUSIVE),
        (1.05, 0.1, Kind.UPPER, Outcome.INCONCLUSIVE),
        (1.5, 0.1, Kind.LOWER, Outcome.HOLDS),
        (0.5, 0.1, Kind.LOWER, Outcome.FAILS),
        (1.05, 0.1, Kind.LOWER, Outcome.INCONCLUSIVE),
        (0.5, 0.1, Kind.EQUALITY, Outcome.HOLDS),
        (1.5, 0.1, Kind.RATE, Outcome.FAILS),
        (1.5, 0.1, Kind.INVARIANT, Outcome.FAILS),
        (2.0, 0.0, Kind.COUNT, Outcome.FAILS),
    ],
)
def test_the_interval_is_compared_with_the_bound(measured, slack, kind, outcome):
    assert judge(measured, 1.0, slack, kind) is outcome


@given(finite, finite, slacks, slacks, kinds)
def test_more_slack_only_moves_towards_inconclusive(measured, bound, one, other, kind):
    small, large = sorted((one, other))
    before, after = judge(measured, bound, small, kind), judge(measured, bound, large, kind)
    assert after in (before, Outcome.INCONCLUSIVE)


@given(finite, finite, slacks)
def test_a_lower_bound_is_an_upper_bound_with_the_signs_turned(measured, bound, slack):
    assert judge(measured, bound, slack, Kind.LOWER) is judge(-measured, -bound, slack, Kind.UPPER)


@given(finite, finite, kinds)
def test_without_slack_there_is_always_an_answer(measured, bound, kind):
    assert judge(measured, bound, 0.0, kind) is not Outcome.INCONCLUSIVE


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", Kind)
def test_numbers_that_are_not_finite_decide_nothing(bad, kind):
    assert judge(bad, 1.0, 0.0, kind) is Outcome.INCONCLUSIVE
    assert judge(1.0, bad, 0.0, kind) is Outcome.INCONCLUSIVE


def test_an_infinite_slack_decides_nothing():
    assert judge(0.0, 1.0, math.inf) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("slack", [-1e-300, math.nan])
def test_a_slack_below_zero_is_refused(slack):
    with pytest.raises(ValueError, match=r"^`slack` must be a number >= 0; got (-1e-300|nan) for the claim 'c'\.$"):
        judge(0.0, 1.0, slack)


def condition(holds: bool | None) -> Assumption:
    return Assumption(name="same tokens", holds=holds)


def test_a_false_condition_fails_the_claim_whatever_the_numbers():
    for measured in (0.0, 0.95, math.nan):
        assert judge(measured, 1.0, 0.1, conditions=(condition(True), condition(False))) is Outcome.FAILS


def test_numpy_booleans_count_as_booleans():
    """By identity they are neither `True` nor `False`."""
    assert judge(0.0, 1.0, 0.1, conditions=(condition(np.bool_(False)),)) is Outcome.FAILS  # pyright: ignore
    assert condition(np.bool_(True)).holds is True  # pyright: ignore


def test_an_undecided_condition_leaves_a_claim_open_but_does_not_save_it():
    assert judge(0.0, 1.0, 0.1, conditions=(condition(None),)) is Outcome.INCONCLUSIVE
    assert judge(9.0, 1.0, 0.1, conditions=(condition(None),)) is Outcome.FAILS
    assert judge(0.0, 1.0, 0.1, conditions=(condition(True),)) is Outcome.HOLDS


def test_a_reason_not_to_decide_outweighs_everything():
    assert judge(0.0, 1.0, 0.0, undecided="did not arrive") is Outcome.INCONCLUSIVE
    assert judge(9.0, 1.0, 0.0, undecided="vacuous", conditions=(condition(False),)) is Outcome.INCONCLUSIVE


@given(finite, finite, slacks, kinds, st.lists(st.sampled_from([True, False, None])))
def test_assumptions_never_change_the_outcome(measured, bound, slack, kind, states):
    assumptions = tuple(Assumption(name="a", holds=state) for state in states)
    assert judge(measured, bound, slack, kind, assumptions=assumptions) is judge(measured, bound, slack, kind)


@pytest.mark.parametrize(("states", "outside"), [((), False), ((True, None), False), ((True, False), True)])
def test_outside_the_theorem_means_an_assumption_is_false(states, outside):
    verdict = Verdict(
        claim="c",
        parametrisation="p",
        loss="l",
        kind=Kind.UPPER,
        measured=0.0,
        bound=1.0,
        slack=0.0,
        unit="u",
        assumptions=tuple(Assumption(name="a", holds=state) for state in states),
    )
    assert verdict.outside_theorem is outside
