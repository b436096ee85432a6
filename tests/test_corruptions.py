"""Over a thousand spoiled pairs on problems whose optimum is known exactly: every bound holds, none is flattered."""

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from _planted import PLANTED, exact_margin, planted
from omegalimit.proof import digest, write_proof
from omegalimit.rigorous import prove
from omegalimit.solvers import solve

ROOT = Path(__file__).parents[1]
SIZES = ("ulp", 1e-14, 1e-10, 1e-6, 1e-3, 1e-1, 1.0)
PER_CASE = 48  # times 12 norms, times 2: 1152 spoiled pairs


def spoil(x: np.ndarray, rng: np.random.Generator, kind: str, size: float | str) -> np.ndarray:
    """Some entries of `x` changed: by one unit in the last place or the share `size`, or their sign, or exchanged."""
    flat = x.reshape(-1).copy()
    chosen = rng.permutation(flat.size)[: rng.integers(1, flat.size + 1)]
    if kind == "sign":
        flat[chosen[:1]] *= -1
    elif kind == "swap":
        flat[chosen] = flat[np.roll(chosen, 1)]
    elif kind == "zero":
        flat[chosen[: max(1, len(chosen) // 3)]] = 0
    elif size == "ulp":
        flat[chosen] = np.nextafter(flat[chosen], rng.choice([-np.inf, np.inf], len(chosen)))
    elif kind == "scale":
        flat[chosen] *= 1 + float(size) * rng.choice([-1, 1], len(chosen))
    else:
        flat[chosen] += float(size) * np.abs(flat).max() * rng.normal(size=len(chosen))
    return flat.reshape(x.shape)


def spoiled_pairs(known, case, intercept):
    rng = np.random.default_rng([list(PLANTED).index(case), intercept])
    kinds = ("sign", "swap", "zero", "scale", "noise")
    for i in range(PER_CASE):
        size, what = SIZES[i % len(SIZES)], ("point", "multipliers", "both")[i % 3]
        W, p = known.point, known.multipliers
        if what != "multipliers":
            W = spoil(W, rng, kinds[rng.integers(5)], size)
        if what != "point":
            p = spoil(p, rng, kinds[rng.integers(5)], size)
        b = None if not intercept else 1.0 if i % 2 else float(rng.normal())
        labels = np.ones(len(p)) if known.limit.labels is None else known.limit.labels
        if W.any() and all((p[labels == side] > 0).any() for side in np.unique(labels)):
            yield W, p, b


@pytest.mark.parametrize("case", PLANTED)
@pytest.mark.parametrize("intercept", [False, True])
def test_every_bound_of_a_spoiled_pair_holds(case, intercept):
    known = planted(case, 0, intercept=intercept)
    n_pairs = n_worse = 0
    for W, p, b in spoiled_pairs(known, case, intercept):
        found = known.limit.certify(W, p, intercept=b)
        proven = prove(known.limit, W, p, b)
        with ctx.workprec(200):
            own = exact_margin(known.limit, W, b)
            # In floating point up to the slack that is stated, in balls without any.
            assert arb(found.lower) - arb(found.slack) <= known.margin <= arb(found.upper) + arb(found.slack)
            assert arb(found.lower) - arb(found.slack) <= own <= arb(found.lower) + arb(found.slack)
            assert not arb(proven.lower) > known.margin
            assert not arb(proven.upper) < known.margin
            if proven.lower > 0:
                assert not arb(proven.lower) > own
        assert proven.lower <= max(found.lower, 0) + found.slack
        assert proven.upper >= found.upper - found.slack
        n_pairs += 1
        n_worse += found.gap > 1e-12
    assert n_pairs >= 0.9 * PER_CASE  # some lose all multipliers of a label, or the whole point
    assert n_worse >= n_pairs / 3  # spoiling has an effect that is seen


@pytest.mark.parametrize("case", PLANTED)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_solver_finds_the_margin_that_is_known(case, intercept, seed):
    known = planted(case, seed, intercept=intercept)
    solution = solve(known.limit)
    found = solution.certificate
    assert solution.status == "optimal", solution.reason
    assert found.gap <= 1e-11
    with ctx.workprec(200):
        assert arb(found.lower) - arb(found.slack) <= known.margin <= arb(found.upper) + arb(found.slack)
    proven = prove(known.limit, found.point, found.multipliers, found.intercept)
    with ctx.workprec(200):
        assert not arb(proven.lower) > known.margin
        assert not arb(proven.upper) < known.margin
    assert proven.gap <= 1e-11


@pytest.fixture(scope="module")
def checker():
    """The stand-alone tool, loaded as a module."""
    spec = importlib.util.spec_from_file_location("check_proof", ROOT / "tools" / "check_proof.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", PLANTED)
@pytest.mark.parametrize("intercept", [False, True])
def test_the_checker_refuses_every_spoiled_proof_file(case, intercept, checker, tmp_path):
    """As it is spoiled: always. With the digest of a forger: unless what it claims is true."""
    known, rng = planted(case, 0, intercept=intercept), np.random.default_rng(0)
    data, path = str(tmp_path / "data.npz"), tmp_path / "proof.json"
    arrays: dict[str, Any] = {"rows": known.limit.rows} | (
        {} if known.limit.labels is None else {"labels": known.limit.labels}
    )
    np.savez(data, **arrays)
    write_proof(path, known.limit, known.point, known.multipliers, known.intercept)
    honest = json.loads(path.read_text())
    assert checker.main(data, str(path)) == 0
    n_refused = 0
    for i in range(PER_CASE):
        content, size = copy.deepcopy(honest), SIZES[i % len(SIZES)]
        part = ("point", "multipliers", "lower", "upper")[i % 4]
        kind = ("sign", "swap", "zero", "scale", "noise")[rng.integers(5)]
        before = np.atleast_1d(np.array(content[part], dtype=float))
        after = spoil(before, rng, kind if len(before) > 1 else "scale", size)
        if np.array_equal(before, after):
            continue
        content[part] = [repr(x) for x in after.tolist()] if len(before) > 1 else repr(float(after[0]))
        path.write_text(json.dumps(content))
        assert checker.main(data, str(path)) == 1
        content["digest"] = digest(content)
        path.write_text(json.dumps(content))
        refused = checker.main(data, str(path)) == 1
        n_refused += refused
        if not refused:
            W = np.array(content["point"], dtype=float).reshape(known.limit.shape)
            lower, upper = float(content["lower"]), float(content["upper"])
            with ctx.workprec(200):
                assert not arb(lower) > known.margin
                assert not arb(upper) < known.margin
                assert lower <= 0 or not arb(lower) > exact_margin(known.limit, W, known.intercept)
    assert n_refused > PER_CASE / 4


def test_spoiling_does_what_it_says():
    x, rng = np.arange(1.0, 7.0), np.random.default_rng(0)
    for kind in ("sign", "swap", "zero", "scale", "noise"):
        assert np.any(spoil(x, rng, kind, 1e-3) != x) or kind == "swap"
    assert 0 < np.abs(spoil(x, rng, "scale", "ulp") - x).max() < 2e-15
