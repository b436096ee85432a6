"""The catalogue: every system runs, its claims hold where they should, and each counter-instance fails as it should."""

import dataclasses
import importlib.util
import json
import math
import re

import numpy as np
import pytest

from omegalimit.catalogue import SYSTEMS, AbstractSystem, load
from omegalimit.catalogue.attention._arrays import arrays
from omegalimit.catalogue.attention._claims import kkt_path, max_margin
from omegalimit.catalogue.attention._limits import OTHER_NORM, Limits
from omegalimit.catalogue.attention.softmax_attention import PARAMETRISATIONS, SoftmaxAttention
from omegalimit.claims import Kind, Outcome
from omegalimit.data import TokenData, gaussian_tokens, planted_tokens
from omegalimit.limits import MaxMargin
from omegalimit.models import KeyQueryAttention
from omegalimit.solvers import solve

COUNTERS = (
    "inseparable", "tied-scores", "rank-one-start", "equal-start", "wrong-norm", "stopped-early", "wrong-limit",
    "separate-normalisation", "perturbed-orbits", "coinciding-norms",
)  # fmt: skip

# Every verdict of the default run, by claim: the parametrisations on which it is judged.
JUDGED = {
    "minimal-loss": {"kq", "merged", "diagonal-kq", "diagonal-merged", "kq-aligned"},
    "nuclear-max-margin": {"kq", "kq-aligned"},
    "frobenius-max-margin": {"merged", "diagonal-merged"},
    "l1-max-margin": {"diagonal-kq"},
    "selected-max-margin": {"kq", "merged", "diagonal-kq", "diagonal-merged", "kq-aligned"},
    "norms-differ": {"kq", "diagonal-kq"},
    "kkt-path": {"kq", "merged", "diagonal-kq", "diagonal-merged", "kq-aligned"},
    "balance-conserved": {"kq", "diagonal-kq", "kq-aligned"},
    "singular-spaces-kept": {"kq-aligned"},
    "rank": {"kq"},
    "initialisation": {"kq", "merged", "diagonal-kq", "diagonal-merged"},
}


def plain(value):
    """What JSON can say, checked: mappings, sequences, text, numbers, booleans, None and NumPy's own of these."""
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    assert value is None or isinstance(value, (str, bool, int, float)), type(value)
    return value


def outcomes(findings):
    return {(v.claim, v.parametrisation): (v.outcome, v.measured, v.bound) for v in findings.verdicts}


def assert_all_hold(findings):
    assert {key: row for key, row in outcomes(findings).items() if row[0] is not Outcome.HOLDS} == {}


# The catalogue itself.


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_is_where_the_catalogue_says(name):
    entry = SYSTEMS[name]
    assert importlib.util.find_spec(entry.module) is not None
    system = load(name)
    assert issubclass(system, AbstractSystem)
    assert dataclasses.is_dataclass(system)
    assert system.title == entry.line
    assert re.fullmatch(r"[a-z0-9-]+", name)
    field_names = {field.name for field in dataclasses.fields(system)}
    assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(system))
    assert "seed" in field_names
    for text in (system.__doc__, *(counter.text for counter in system().counters.values())):
        assert text


def test_an_unknown_system_is_named():
    with pytest.raises(
        ValueError, match=rf"^there is no system 'perceptron'; the catalogue has: {', '.join(SYSTEMS)}\.$"
    ):
        load("perceptron")


# The default run.


@pytest.fixture(scope="module")
def default():
    ticks = []
    findings = SoftmaxAttention().check(lambda text, fraction: ticks.append((text, fraction)))
    return findings, ticks


def test_every_claim_of_the_default_run_holds(default):
    findings, _ = default
    assert_all_hold(findings)
    assert findings.not_applicable == {}


def test_claims_and_parametrisations_are_those_of_the_docstring(default):
    findings, _ = default
    judged = {}
    for v in findings.verdicts:
        judged.setdefault(v.claim, set()).add(v.parametrisation)
        assert v.loss == "exponential"
        assert v.unit
    assert judged == JUDGED
    assert len(findings.verdicts) == sum(map(len, JUDGED.values()))  # none twice
    page = SoftmaxAttention.__doc__
    assert page is not None
    for claim in judged:
        assert f"`{claim}`" in page
    for counter in SoftmaxAttention().counters.values():
        for claim, _ in counter.expected:
            assert claim in JUDGED


def test_max_margin_verdicts_rest_on_the_flow_at_two_caps(default):
    findings, _ = default
    for v in findings.verdicts:
        if not v.claim.endswith("max-margin"):
            continue
        assert v.kind is Kind.RATE
        first, second = v.details["caps"]
        # The flow goes on a little past its cap's threshold within the last step.
        assert second["sharpness"] == pytest.approx(10 * first["sharpness"], rel=1e-6)
        assert second["gap"] < first["gap"]
        assert second["entropy_bound"] == pytest.approx(first["entropy_bound"] / 10, rel=0.05)
        np.testing.assert_array_equal(first["selected"], second["selected"])
        for cap in (first, second):
            assert 0 < cap["gap"] <= 1.2 * cap["entropy_bound"]
        # Of the cap with the larger measured/bound, never a mixture.
        pairs = [(c["gap"], pytest.approx(1.2 * c["entropy_bound"] + 1e-9, rel=1e-12)) for c in (first, second)]
        assert any((v.measured, v.bound) == pair for pair in pairs)
        assert v.details["polished"]["gap"] <= 1e-8
        assert v.details["limit"]["gap"] <= 1e-8
        assert all(a.holds for a in v.assumptions if a.name in ("separable", "unique target", "arrival"))


def test_details_and_settings_are_ready_for_json(default):
    findings, _ = default
    for v in findings.verdicts:
        json.dumps(plain(v.details))
        assert all(map(math.isfinite, (v.measured, v.bound, v.slack)))
        assert isinstance(v.measured, float)
    settings = json.loads(json.dumps(plain(dict(findings.settings)), allow_nan=False))
    assert set(settings) >= {field.name for field in dataclasses.fields(SoftmaxAttention)}
    assert (settings["n"], settings["L"], settings["d"], settings["seed"]) == (6, 8, 10, 0)


def test_arrays_have_their_groups_and_named_axes(default):
    findings, _ = default
    labels = {*PARAMETRISATIONS, "kq-aligned"}
    assert set(findings.arrays) == {
        f"{label}/{part}" for label in labels for part in ("trajectory", "attention", "limits")
    }
    for label in labels:
        path = findings.arrays[f"{label}/trajectory"]
        assert path["gap"].dims == ("point", "norm")
        assert path["singular_values"].dims == ("point", "index")
        assert path["direction"].dims == ("point", "parameter")
        assert path["log_sharpness"].dims == ("point",)
        assert set(path["norm"].values) <= set(OTHER_NORM)
        assert path.attrs["clock"] == "s"
        # A path is a path: the clock runs, the loss gap falls from start to end, no state is NaN.
        assert np.all(np.diff(path["s"].values) > 0)
        assert path["log_loss_gap"].values[-1] < path["log_loss_gap"].values[0] - 100
        for name in ("direction", "log_radius", "log_loss_gap", "gap", "singular_values", "least_margin"):
            assert np.isfinite(path[name].values).all(), (label, name)
        maps = findings.arrays[f"{label}/attention"]
        assert maps["attention"].dims == ("stage", "input", "token")
        assert list(maps["stage"].values) == ["start", "middle", "limit"]
        np.testing.assert_allclose(maps["attention"].sum("token"), 1.0, rtol=1e-14)
        # At the cap the winner of each input has all of the attention but e^-(margin of hundreds).
        np.testing.assert_array_equal(maps["attention"].values[-1].argmax(axis=1), maps["selected"].values)
        np.testing.assert_array_equal(maps["selected"], maps["best"])
        limits = findings.arrays[f"{label}/limits"]
        diagonal = label.startswith("diagonal")
        assert limits["point"].dims == (("norm", "diagonal") if diagonal else ("norm", "row", "column"))
        assert limits["multipliers"].dims == ("norm", "input", "other")
        assert np.all(limits["lower"].values <= limits["upper"].values * (1 + 1e-9))


def test_the_recorded_gap_falls_to_the_own_norm_only(default):
    findings, _ = default
    for label, (own, other) in {"kq": ("nuclear", "frobenius"), "diagonal-kq": ("l1", "l2")}.items():
        gap = findings.arrays[f"{label}/trajectory"]["gap"].isel(point=-1)
        assert float(gap.sel(norm=own)) < 1e-3
        assert float(gap.sel(norm=other)) > 0.03


def test_progress_rises_to_one(default):
    _, ticks = default
    fractions = [fraction for _, fraction in ticks]
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    assert all(0 <= f <= 1 for f in fractions)
    # Within one flow it may fall back when the cap is raised; from one parametrisation to the next it may not.
    names = [text.split(":")[0] for text, _ in ticks]
    starts = [fractions[names.index(name)] for name in dict.fromkeys(names)]
    assert starts == sorted(starts)


@pytest.mark.parametrize("seed", [1, 2])
def test_another_seed_holds_as_well(default, seed):  # after `default`, whose compiled flow is used again
    findings = SoftmaxAttention(seed=seed, parametrisation="kq").check()
    assert_all_hold(findings)
    assert {v.parametrisation for v in findings.verdicts} == {"kq"}
    assert set(findings.not_applicable) == {"frobenius-max-margin", "l1-max-margin", "singular-spaces-kept"}


# Counter-instances.


def test_the_counter_instances_are_these():
    assert set(SoftmaxAttention().counters) == set(COUNTERS)


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_instance_fails_as_it_should(name):
    counter = SoftmaxAttention().counters[name]
    findings = counter.check(lambda text, fraction: None)
    rows = outcomes(findings)
    for key in counter.expected:
        assert key in rows
        assert rows[key][0] is not Outcome.HOLDS, (key, rows[key])
    assert counter.as_expected(findings)


# Data and weights of one's own.


def write_tokens(path, data):
    np.savez(path, X=data.X, z=data.z, y=data.y, v=data.v)
    return str(path)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    data = planted_tokens(seed=5)
    return data, write_tokens(tmp_path_factory.mktemp("own") / "tokens.npz", data)


def test_a_file_of_tokens_is_what_is_trained_on(own):
    data, path = own
    findings = SoftmaxAttention(data=path, parametrisation="merged", n=3).check()
    assert (findings.settings["n"], findings.settings["L"], findings.settings["d"]) == (data.n, data.L, data.d)
    assert findings.settings["data"] == path
    assert_all_hold(findings)
    limit = Limits(data, False, tuple(map(int, data.best))).solution("frobenius").certificate.point
    point = findings.arrays["merged/limits"]["flow"].values
    cosine = np.sum(point * limit) / np.linalg.norm(point) / np.linalg.norm(limit)
    # The unpolished gap at S = 1e4 is about 1e-4, and 1 - cos is of its order.
    assert cosine == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("apart", [False, True], ids=["W", "K and Q"])
def test_weights_at_the_nuclear_limit_are_judged_there_and_not_at_the_frobenius_one(own, tmp_path, apart):
    data, path = own
    limits = Limits(data, False, tuple(map(int, data.best)))
    W = limits.solution("nuclear").certificate.point
    # Least margin 1: times s the sharpness is s |W| in the data's units, over the largest |x| |z|.
    W = W * 1e4 / np.linalg.norm(W)
    U, s, Vt = np.linalg.svd(W)
    weights = tmp_path / "w.npz"
    if apart:
        np.savez(weights, K=U * np.sqrt(s), Q=Vt.T * np.sqrt(s))
    else:
        np.savez(weights, W=W)
    findings = SoftmaxAttention(data=path, weights=str(weights)).check()
    rows = outcomes(findings)
    assert set(rows) == {("nuclear-max-margin", "weights"), ("frobenius-max-margin", "weights")}
    assert rows["nuclear-max-margin", "weights"][0] is Outcome.HOLDS
    assert abs(rows["nuclear-max-margin", "weights"][1]) < 1e-8
    # Its gap in the other norm by hand: 1 - |W_F| / |W_N| at equal margin.
    best = limits.solution("frobenius").certificate.point
    gap = 1 - np.linalg.norm(best) / np.linalg.norm(limits.solution("nuclear").certificate.point)
    assert rows["frobenius-max-margin", "weights"][0] is Outcome.FAILS
    assert rows["frobenius-max-margin", "weights"][1] == pytest.approx(gap, rel=1e-6)
    assert gap > 0.03
    assert findings.arrays == {}
    assert findings.not_applicable["minimal-loss"] == "nothing is trained when `--weights` is given"
    assert findings.not_applicable["l1-max-margin"] == "the weights are not diagonal"


def test_weights_that_attend_to_another_token_are_told(own, tmp_path):
    data, path = own
    weights = tmp_path / "w.npz"
    np.savez(weights, W=-Limits(data, False, tuple(map(int, data.best))).solution("frobenius").certificate.point)
    findings = SoftmaxAttention(data=path, weights=str(weights)).check()
    # The opposite of the limit gives the best token the least score of all.
    note = f"the weights attend to a token that is not the best-scored in {data.n} of {data.n} inputs."
    assert note in findings.notes
    assert all(v.outcome is not Outcome.HOLDS for v in findings.verdicts)


@pytest.mark.parametrize(
    "system", [SoftmaxAttention(data="nowhere.npz"), SoftmaxAttention(weights="nowhere.npz")], ids=["data", "weights"]
)
def test_a_file_that_is_not_there_is_named(system):
    with pytest.raises(ValueError, match=r"^nowhere\.npz: "):
        system.check()


# Degenerate starts.


def test_a_balanced_start_with_equal_singular_values_leaves_no_nan_in_the_record():
    data = planted_tokens()
    half = np.eye(data.d).ravel() / 2
    e = SoftmaxAttention().experiment(
        "kq",
        data,
        "kq",
        model=KeyQueryAttention(d=data.d, inner=data.d),
        start=np.concatenate([half, half]),
        twin=False,
    )
    assert e.flow.certified
    for name, dataset in arrays(e).items():
        for key, values in dataset.data_vars.items():
            if values.dtype.kind == "f" and key != "log_time":  # time has no meaning past the cap
                assert np.isfinite(values.values).all(), (name, key)
    assert kkt_path(e).outcome is not Outcome.FAILS


def test_units_of_the_tokens_change_no_verdict(own):
    data, _ = own
    system = SoftmaxAttention(parametrisation="merged")
    rows = []
    for c in (1.0, 1e120):
        scaled = TokenData(X=data.X * c, z=data.z, y=data.y, v=data.v / c)
        e = system.experiment("merged", scaled, "merged", twin=False)
        v = max_margin(e)
        assert e.flow.certified
        rows.append((v.measured, v.bound))
    # The unit is a power of two near c: the cap stands at another sharpness, by a factor below two, and gap S is kept.
    assert 0.4 < rows[0][0] / rows[1][0] < 2.5
    assert rows[0][0] / rows[0][1] == pytest.approx(rows[1][0] / rows[1][1], rel=0.05)


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "`n` must be a whole number of at least 1; got 0."),
        ({"L": 1}, "`L` must be a whole number of at least 2; got 1."),
        ({"d": 2.5}, "`d` must be a whole number of at least 1; got 2.5."),
        ({"seed": -1}, "`seed` must be a whole number of at least 0; got -1."),
        ({"seed": True}, "`seed` must be a whole number of at least 0; got True."),
        ({"inner": 0}, "`inner` must be a whole number of at least 1; got 0."),
        ({"scale": 0.0}, "`scale` must lie between 1e-60 and 1e3; got 0.0."),
        ({"scale": math.nan}, "`scale` must lie between 1e-60 and 1e3; got nan."),
        ({"cap": 5.0}, "`cap` must lie between 10 and 1e8; got 5.0."),
        ({"log10_time": 0.1}, "`log10_time` must lie between 0.5 and 1e6; got 0.1."),
        ({"tokens": "words"}, "`tokens` must be one of planted, gaussian, orbits, digits; got 'words'."),
        (
            {"parametrisation": "qk"},
            "`parametrisation` must be one of all, kq, merged, diagonal-kq, diagonal-merged; got 'qk'.",
        ),
        ({"loss": "hinge"}, "`loss` must be one of exponential, logistic; got 'hinge'."),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SoftmaxAttention(**options)


def test_an_aligned_start_needs_room():
    message = "an aligned start needs an inner width of at least d = 4; got `inner` = 2."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        SoftmaxAttention(tokens="orbits", parametrisation="kq", inner=2).check()


def test_the_wait_at_the_cap_lies_on_the_way_of_the_unfrozen_flow():
    # Held at 1e4 or let go to 1e6: at the sharpness 1e6 (of the unfrozen flow) the same distance from the limit is
    # left, up to the complementarity at the lower cap, which holding the sharpness costs. Both are far from arrived.
    system = SoftmaxAttention()
    data, _ = system.instance()
    held = system.experiment("kq", data, "kq", twin=False)
    free = dataclasses.replace(system, cap=1e6).experiment("kq", data, "kq", twin=False, limits=held.limits)
    left = []
    for e in (held, free):
        path = e.flow.trajectory
        log_S = path.log_radius * e.problem.degree + e.flow.log_unit
        points = e.point(path.direction)
        distances = np.array([e.limits.distance("nuclear", point) for point in points])
        left.append(float(np.interp(math.log(1e6), log_S, distances)))
    C = held.flow.arrival.complementarity
    assert min(left) > 5 * C
    assert abs(left[0] - left[1]) < 1.3 * C


def test_tokens_of_extreme_size_give_the_verdicts_of_ordinary_ones(tmp_path):
    data, _ = SoftmaxAttention().instance()
    outcomes = []
    for name, scale in (("plain", 1.0), ("huge", 2.0**500), ("tiny", 2.0**-500)):
        file = tmp_path / f"{name}.npz"
        np.savez(file, X=data.X * scale, z=data.z, y=data.y, v=data.v / scale)
        findings = SoftmaxAttention(data=str(file), parametrisation="merged").check()
        outcomes.append([(v.claim, str(v.outcome), v.measured) for v in findings.verdicts])
        told = any("exactly; arrays and margins are in these units" in note for note in findings.notes)
        assert told == (scale != 1.0)
    # Powers of two: not a digit differs.
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_narrow_factors_leave_out_what_needs_an_aligned_start():
    with pytest.raises(
        ValueError, match=r"^an aligned start needs an inner width of at least d = 4; got `inner` = 2\.$"
    ):
        SoftmaxAttention(tokens="orbits", inner=2).check()


def small_tokens(tmp_path, **changed):
    """A file of gaussian tokens with some arrays replaced, and the data without the replacement."""
    data = gaussian_tokens(4, 5, 8, seed=1)
    file = tmp_path / "tokens.npz"
    np.savez(file, **{"X": data.X, "z": data.z, "y": data.y, "v": data.v, **changed})
    return str(file)


def test_either_of_two_tied_targets_attains_the_minimal_loss(tmp_path):
    data = gaussian_tokens(4, 5, 8, seed=1)
    rows = np.arange(4)
    other = (data.best + 1) % 5
    X = np.array(data.X)
    lift = (data.scores[rows, data.best] - data.scores[rows, other]) * data.y / (data.v @ data.v)
    X[rows, other] += lift[:, None] * data.v
    findings = SoftmaxAttention(data=small_tokens(tmp_path, X=X), parametrisation="kq").check()
    minimal = next(v for v in findings.verdicts if v.claim == "minimal-loss")
    assert minimal.outcome is Outcome.HOLDS
    assert {a.name: a.holds for a in minimal.assumptions}["unique target"] is False
    # The loss gap goes on falling: a tie up to rounding is no loss gap of 1e-17.
    assert minimal.details["log_loss_gap"][1] < -1000


def test_a_repeated_target_is_reported_and_no_crash(tmp_path):
    data = gaussian_tokens(4, 5, 8, seed=1)
    X = np.array(data.X)
    rows = np.arange(4)
    X[rows, (data.best + 1) % 5] = X[rows, data.best]
    findings = SoftmaxAttention(data=small_tokens(tmp_path, X=X), parametrisation="kq").check()
    outcomes = {v.claim: v.outcome for v in findings.verdicts}
    assert outcomes["nuclear-max-margin"] is not Outcome.HOLDS  # the margin to the token's double is zero
    assert any("the best-scored token is repeated" in note for note in findings.notes)


def test_limits_of_diagonal_weights_are_in_the_units_of_the_data():
    data, _ = SoftmaxAttention().instance()
    limits = Limits(data, True, tuple(map(int, data.best)))
    rows = (data.differences() * data.z[:, None, :]).reshape(-1, data.d)
    for norm in ("l1", "l2"):
        found, expected = limits.solution(norm).certificate, solve(MaxMargin(norm, rows=rows)).certificate
        assert found.lower == pytest.approx(expected.lower, rel=1e-12)
        assert (rows @ found.point).min() == pytest.approx(1, rel=1e-12)


def test_counter_instances_refuse_data_of_ones_own(tmp_path):
    system = SoftmaxAttention(data=small_tokens(tmp_path))
    with pytest.raises(
        ValueError, match=r"^a counter-instance makes its own data and model; drop `--data` \(got '.*'\)\.$"
    ):
        system.counters["wrong-norm"].check(lambda text, fraction: None)


@pytest.mark.parametrize("size", [1e-300, 1e100, 1e160])
def test_weights_of_any_size_are_judged_by_their_direction(tmp_path, size):
    file = small_tokens(tmp_path)
    data = gaussian_tokens(4, 5, 8, seed=1)
    W = Limits(data, False, tuple(map(int, data.best))).solution("nuclear").certificate.point
    np.savez(tmp_path / "w.npz", W=W * size)
    findings = SoftmaxAttention(data=file, weights=str(tmp_path / "w.npz")).check()
    nuclear = next(v for v in findings.verdicts if v.claim == "nuclear-max-margin")
    assert nuclear.measured < 1e-9
    assert nuclear.outcome is (Outcome.INCONCLUSIVE if size < 1 else Outcome.HOLDS)
    assert not any("not the best-scored" in note for note in findings.notes)


@pytest.mark.parametrize("scale", [1e-60, 500.0])
def test_the_other_starts_may_lie_outside_the_range_of_the_option(scale):
    findings = SoftmaxAttention(parametrisation="diagonal-merged", scale=scale).check()
    found = next(v for v in findings.verdicts if v.claim == "initialisation")
    assert found.details["scale"] == pytest.approx([10 * scale, scale, 0.1 * scale, 0.01 * scale])
