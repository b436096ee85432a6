"""Proof files: the checker, which shares no code with the library, accepts what is true and refuses what is not."""

import copy
import importlib.util
import json
import math
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from omegalimit import proof as proof_module
from omegalimit.limits import MaxMargin
from omegalimit.proof import digest, write_proof

TOOL = Path(__file__).parents[1] / "tools" / "check_proof.py"
D = 4
NORMS = [
    ("l1", {}),
    ("l2", {}),
    ("linf", {}),
    ("lp", {"p": 1.0000001}),
    ("lp", {"p": 3.0}),
    ("lp", {"p": 1e300}),
    ("group-l1", {"groups": np.array([5, 5, -1, -1])}),
    ("fourier-l1", {}),
    ("fourier-l1", {"n_plain": 1}),
    ("nuclear", {}),
    ("frobenius", {}),
    ("spectral", {}),
    ("schatten", {"p": 1.2}),
    ("schatten", {"p": 1.7}),
    ("schatten", {"p": 5.0}),
]
MATRIX = ("nuclear", "frobenius", "spectral", "schatten")
# A penalised intercept is a coordinate of a vector: norms of matrices have none.
CASES = [
    (norm, parameters, intercept)
    for norm, parameters in NORMS
    for intercept in ("none", "free", "penalised")
    if intercept != "penalised" or norm not in MATRIX
]
# With the constraints e_1, ..., e_D (matrices: e_k e_k^T): the exponent `e` and the fraction `gamma*^e`.
IDENTITY = [
    ("l1", {}, 1, Fraction(1, D)),
    ("l2", {}, 1, Fraction(1, 2)),
    ("linf", {}, 1, Fraction(1)),
    ("lp", {"p": 3.0}, 3, Fraction(1, D)),
    ("group-l1", {"groups": [0, 0, 1, 1]}, 2, Fraction(1, 8)),
    ("fourier-l1", {}, 1, Fraction(1, 2)),
    ("nuclear", {}, 1, Fraction(1, D)),
    ("frobenius", {}, 1, Fraction(1, 2)),
    ("spectral", {}, 1, Fraction(1)),
    ("schatten", {"p": 3.0}, 3, Fraction(1, D)),
    ("schatten", {"p": 1.5}, Fraction(3, 2), Fraction(1, D)),
]


@pytest.fixture(scope="module")
def checker():
    """The stand-alone tool, loaded as a module."""
    spec = importlib.util.spec_from_file_location("check_proof", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def judge(checker, tmp_path, capsys):
    """`judge(content)`: exit code and message of the checker for the data of `write` below."""

    def run(content, data="data.npz"):
        path = tmp_path / "forged.json"
        path.write_text(json.dumps(content), encoding="ascii")
        code = checker.main(str(tmp_path / data), str(path))
        return code, capsys.readouterr().out.strip()

    return run


def save(path, limit):
    arrays = {name: getattr(limit, name) for name in ("rows", "left", "right", "labels")}
    dense = {name: a.toarray() if scipy.sparse.issparse(a) else a for name, a in arrays.items() if a is not None}
    np.savez(path, **dense)


def write(tmp_path, limit, *candidate):
    save(tmp_path / "data.npz", limit)
    proven = write_proof(tmp_path / "proof.json", limit, *candidate)
    return json.loads((tmp_path / "proof.json").read_text(encoding="ascii")), proven


def signed(content, **changes):
    """The content with changes and the digest that belongs to them: what a forger would hand in."""
    forged = copy.deepcopy(content) | changes
    return forged | {"digest": digest(forged)}


def random_problem(norm, parameters, intercept, *, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    matrices = norm in MATRIX
    X = rng.standard_normal((7, D, 3) if matrices else (7, D)) * scale
    y = np.where(np.arange(7) % 2, 1.0, -1.0)
    W = rng.standard_normal(X.shape[1:])
    X[np.tensordot(X, W, W.ndim) * y < 0] *= -1
    rows = X * y.reshape(-1, *[1] * W.ndim)
    limit = MaxMargin(norm, rows=rows, intercept=intercept, labels=None if intercept == "none" else y, **parameters)
    return limit, (W, rng.random(7), None if intercept == "none" else 1e-3 * scale)


@pytest.mark.parametrize(("norm", "parameters", "intercept"), CASES)
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150, 1e-290, 1e290])
def test_accepts_what_is_proved(norm, parameters, intercept, scale, tmp_path, judge):
    limit, candidate = random_problem(norm, parameters, intercept, scale=scale)
    content, proven = write(tmp_path, limit, *candidate)
    assert 0 < proven.lower < proven.upper
    power = f"{parameters['p']!r}, " if "p" in parameters else ""
    code, text = judge(content)
    assert (code, text) == (
        0,
        f"accepted: {proven.lower!r} <= maximum margin <= {proven.upper!r} ({norm}, {power}{intercept}, bounds)",
    )


@pytest.mark.parametrize(("norm", "parameters", "intercept"), CASES)
def test_refuses_bounds_a_hair_too_good(norm, parameters, intercept, tmp_path, judge):
    """The checker's own bounds end within two units of the claims: better claims are not proved by this candidate."""
    limit, candidate = random_problem(norm, parameters, intercept)
    content, proven = write(tmp_path, limit, *candidate)
    for name, value, towards, line in [
        ("lower", proven.lower, math.inf, "refused: the lower bound is too high"),
        ("upper", proven.upper, 0, "refused: the upper bound is too low"),
    ]:
        better = math.nextafter(math.nextafter(value, towards), towards)
        assert judge(signed(content, **{name: repr(better)})) == (1, line)


def identity(norm, parameters):
    if norm in MATRIX:
        return MaxMargin(norm, left=np.eye(D), right=np.eye(D), **parameters), np.eye(D)
    return MaxMargin(norm, rows=np.eye(D), **parameters), np.ones(D)


def true_claims(content, exponent, value):
    with localcontext(prec=60):
        e = Decimal(Fraction(exponent).numerator) / Decimal(Fraction(exponent).denominator)
        gamma = (Decimal(value.numerator) / Decimal(value.denominator)) ** (1 / e)
        # Where the optimum is no double, it is further than 1e-40 from every double.
        return Decimal(float(content["lower"])) <= gamma + Decimal("1e-40") and gamma - Decimal("1e-40") <= Decimal(
            float(content["upper"])
        )


def changes_of(content, rng):
    """Every entry of the file changed: floats by one unit to 100 %, other values by another of their kind."""

    def visit(value, path):
        if isinstance(value, dict):
            for key in value:
                yield from visit(value[key], (*path, key))
        elif isinstance(value, list):
            for index in range(len(value)):
                yield from visit(value[index], (*path, index))
            yield path, value[:-1]
        elif isinstance(value, str) and path[0] not in ("format", "norm", "intercept_kind", "claim", "digest", "data"):
            x = float(value)
            options = [math.nextafter(x, math.inf), math.nextafter(x, -math.inf), x * (1 + 1e-9), -x, 2 * x, 0.0]
            for changed in {repr(y) for y in [options[i] for i in rng.permutation(len(options))[:3]]} - {value}:
                yield path, changed
        else:
            changed = {str: lambda x: x[:-1], int: lambda x: x + 1, type(None): lambda x: "1.0"}[type(value)]
            yield path, changed(value)

    for path, value in visit(content, ()):
        changed = copy.deepcopy(content)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        yield path, changed


@pytest.mark.parametrize(("norm", "parameters", "exponent", "value"), IDENTITY)
def test_every_corruption(norm, parameters, exponent, value, tmp_path, judge):
    """Without a new digest all are refused; with one, whatever is accepted about this problem is true."""
    limit, point = identity(norm, parameters)
    content, _ = write(tmp_path, limit, point, np.ones(D))
    assert judge(content)[0] == 0
    assert true_claims(content, exponent, value)
    count = 0
    for path, changed in changes_of(content, np.random.default_rng(1)):
        count += 1
        code, text = judge(changed)
        assert code in (1, 2), path
        assert path == ("intercept_kind",) or text == "refused: the digest is not that of the content"
        if path[0] == "digest":
            continue
        code, text = judge(signed(changed))
        same_problem = path[0] not in ("norm", "p", "groups", "n_plain", "intercept_kind")
        if same_problem and not true_claims(changed, exponent, value):
            assert code == 1, (path, text)
        if path[0] in ("format", "version", "data", "claim"):
            assert code == 1, (path, text)
    assert count > 30


@pytest.mark.parametrize(("norm", "parameters", "exponent", "value"), IDENTITY)
def test_forged_candidates_prove_nothing_false(norm, parameters, exponent, value, tmp_path, judge):
    """Random points, multipliers, bases and claims near the optimum: an accepted claim is a true one."""
    rng = np.random.default_rng(2)
    limit, point = identity(norm, parameters)
    content, proven = write(tmp_path, limit, point, np.ones(D))
    verdicts = set()
    for k in range(40):
        noise = 10.0 ** rng.integers(-17, -1)
        forged = copy.deepcopy(content)
        for name in ("point", "multipliers"):
            forged[name] = [repr(float(x) + noise * rng.standard_normal()) for x in forged[name]]
        for name in ("point_basis", "dual_basis"):
            if forged[name] is not None:
                forged[name]["high"] = [repr(float(x) * (1 - noise)) for x in forged[name]["high"]]
        error = 0.0 if k % 2 else 10.0 ** rng.integers(-16, -1)
        forged["lower"] = repr(proven.lower * (1 + error * rng.standard_normal()))
        forged["upper"] = repr(proven.upper * (1 + error * rng.standard_normal()))
        code, _ = judge(signed(forged))
        assert code == 1 or true_claims(forged, exponent, value)
        verdicts.add(code)
    assert 1 in verdicts


def test_a_basis_cannot_make_a_norm_smaller(tmp_path, judge):
    """One constraint `A` of ones, of order two: `gamma* = |A|_op = 2`, with `|A|_* = 2` and `A` itself as the point."""
    limit = MaxMargin("nuclear", rows=np.ones((1, 2, 2)))
    content, proven = write(tmp_path, limit, np.ones((2, 2)), np.ones(1))
    assert proven.lower <= 2 <= proven.upper
    vectors = np.array([1.0, 1.0, 1.0, -1.0]) / math.sqrt(2)

    def basis(high):
        return {"high": [repr(float(x)) for x in high], "low": ["0.0"] * 4}

    too_high, too_low = "refused: the lower bound is too high", "refused: the upper bound is too low"
    skew = "refused: a basis is not orthogonal"
    # Not singular vectors: the diagonal of `A^T A` alone would give the root of 2. Shrunk vectors shrink `A V`.
    for high, claim, line in [
        (np.eye(2).ravel(), 1.5, too_low),
        (0.9 * vectors, 1.9, too_low),
        (0.1 * vectors, 0.3, skew),
    ]:
        assert judge(signed(content, dual_basis=basis(high), upper=repr(claim))) == (1, line)
    for high, claim, line in [(0.9 * vectors, 2.1, too_high), (0.1 * vectors, 19.0, skew), (0 * vectors, 1e9, skew)]:
        assert judge(signed(content, point_basis=basis(high), lower=repr(claim))) == (1, line)


def test_negative_and_one_sided_multipliers_are_refused(tmp_path, judge):
    limit, candidate = random_problem("l2", {}, "free")
    content, _ = write(tmp_path, limit, *candidate)
    multipliers = content["multipliers"]
    assert judge(signed(content, multipliers=["-1e-300", *multipliers[1:]])) == (
        1,
        "refused: a multiplier is negative",
    )
    assert limit.labels is not None
    one_side = [x if label > 0 else "0.0" for x, label in zip(multipliers, limit.labels, strict=True)]
    assert judge(signed(content, multipliers=one_side)) == (
        1,
        "refused: the multipliers are all zero, or not balanced",
    )
    assert judge(signed(content, multipliers=multipliers[1:]))[0] == 1
    assert judge(signed(content, lower="inf"))[0] == 1
    assert judge(signed(content, point=["nan"] * D)) == (1, "refused: a number is not finite")
    assert judge(signed(content, claim="anything")) == (1, "refused: unknown claim 'anything'")
    assert judge(signed(content, norm="nuclear")) == (1, "refused: the norm 'nuclear' does not take such data")


def test_a_claim_for_another_norm_is_judged_by_that_norm(tmp_path, judge):
    limit, point = identity("linf", {})
    content, _ = write(tmp_path, limit, point, np.ones(D))
    assert judge(signed(content, norm="l1")) == (1, "refused: the lower bound is too high")
    limit, point = identity("l1", {})
    content, _ = write(tmp_path, limit, point, np.ones(D))
    assert judge(signed(content, norm="linf")) == (1, "refused: the upper bound is too low")


@pytest.mark.parametrize("array", ["rows", "labels", "left", "right"])
def test_other_data_are_refused(array, tmp_path, judge):
    if array in ("rows", "labels"):
        limit, candidate = random_problem("l2", {}, "free")
    else:
        rng = np.random.default_rng(4)
        limit = MaxMargin("nuclear", left=rng.standard_normal((5, 3)), right=rng.standard_normal((5, 4)))
        candidate = (np.ones((3, 4)), np.ones(5))
    content, _ = write(tmp_path, limit, *candidate)
    with np.load(tmp_path / "data.npz") as file:
        arrays = {name: file[name] for name in file.files}
    changed = arrays[array].copy()
    changed.flat[3] = -changed.flat[3] if array == "labels" else math.nextafter(changed.flat[3], math.inf)
    np.savez(tmp_path / "data.npz", **(arrays | {array: changed}))
    line = "refused: the data are not those of the proof (SHA-256 differs)"
    assert judge(content) == (1, line)
    np.savez(tmp_path / "data.npz", **{name: a[::-1] for name, a in arrays.items()})
    assert judge(content) == (1, line)


def test_inputs_and_labels_serve_as_data(tmp_path, judge):
    limit, candidate = random_problem("l1", {}, "free")
    content, _ = write(tmp_path, limit, *candidate)
    assert limit.labels is not None
    np.savez(tmp_path / "xy.npz", X=limit.rows * limit.labels[:, None], y=limit.labels.astype(np.int64))
    assert judge(content, "xy.npz")[0] == 0


def test_sparse_rows_have_the_digest_of_the_dense_ones(tmp_path, judge):
    rows = np.array([[0.0, 2.0, -0.0], [1.5, 0.0, 0.0]])
    content, _ = write(tmp_path, MaxMargin("l1", rows=scipy.sparse.csr_array(rows)), np.ones(3), np.ones(2))
    np.savez(tmp_path / "data.npz", rows=rows)
    assert judge(content)[0] == 0


@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
def test_not_separable(intercept, tmp_path, judge):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((6, 5)), np.array([1.0, -1, 1, -1, 1, -1])
    X, y = np.vstack([X, 2 * X[2], X[2]]), np.append(y, [1.0, -1.0])  # one input with both labels, and its double
    limit = MaxMargin.from_labels("l2", X, y, intercept=intercept)
    p = np.zeros(8)
    p[[2, 7]] = 1
    content, proven = write(tmp_path, limit, np.ones(5), p, None if intercept == "none" else 0.0)
    assert proven.farkas is not None
    assert content["farkas"] == {"indices": [2, 7], "weights": ["0x1", "0x1"]}
    accepted = f"accepted: 0.0 <= maximum margin <= 0.0 (l2, {intercept}, not separable)"
    assert judge(content) == (0, accepted)
    forgeries = [
        ({"indices": [2, 6], "weights": ["0x1", "0x1"]}, "refused: the Farkas sum is not zero"),
        ({"indices": [2, 7], "weights": ["0x1", "0x2"]}, "refused: the Farkas sum is not zero"),
        ({"indices": [2, 7], "weights": ["-0x1", "-0x1"]}, "refused: the Farkas weights are not positive"),
        ({"indices": [], "weights": []}, "refused: the Farkas weights are not positive"),
    ]
    for farkas, line in forgeries:
        code, text = judge(signed(content, farkas=farkas))
        assert code == 1
        assert text in (line, "refused: the Farkas weights are not balanced")
    # The doubled input cancels in twice the weight, but with an intercept that is not balanced.
    code, text = judge(signed(content, farkas={"indices": [6, 7], "weights": ["0x1", "0x2"]}))
    assert (code, text) == {
        "none": (0, accepted),
        "free": (1, "refused: the Farkas weights are not balanced"),
        "penalised": (1, "refused: the Farkas sum is not zero"),
    }[intercept]
    assert judge(signed(content, lower="5e-324")) == (1, "refused: the bounds exclude 0, and no point separates")


def test_separable_data_have_no_farkas_vector(tmp_path, judge):
    limit, point = identity("l2", {})
    content, _ = write(tmp_path, limit, point, np.ones(D))
    forged = {"claim": "not separable", "lower": "0.0", "upper": "0.0"}
    for weights in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]):
        farkas = {"indices": [0, 1, 2, 3], "weights": [hex(w) for w in weights]}
        assert judge(signed(content, **forged, farkas=farkas))[0] == 1


def test_the_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    limit, point = identity("l2", {})
    path = tmp_path / "proof.json"
    path.write_text("before", encoding="ascii")

    def fails(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(proof_module.os, "fsync", fails)
        with pytest.raises(OSError, match=r"^no space left on device$"):
            write_proof(path, limit, point, np.ones(D))
    assert [file.name for file in tmp_path.iterdir()] == ["proof.json"]
    assert path.read_text(encoding="ascii") == "before"
    write_proof(path, limit, point, np.ones(D))
    assert [file.name for file in tmp_path.iterdir()] == ["proof.json"]
    assert json.loads(path.read_text(encoding="ascii"))["format"] == "omegalimit-proof"


def test_a_folder_that_is_missing_is_named(tmp_path):
    limit, point = identity("l2", {})
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*none/proof\.json'$"):
        write_proof(tmp_path / "none" / "proof.json", limit, point, np.ones(D))


def test_the_command_line_and_its_exit_codes(tmp_path):
    limit, point = identity("l2", {})
    content, _ = write(tmp_path, limit, point, np.ones(D))
    (tmp_path / "false.json").write_text(json.dumps(signed(content, upper="0.25")), encoding="ascii")
    (tmp_path / "cut.json").write_text(json.dumps(content)[:-9], encoding="ascii")

    def run(*names):
        command = [sys.executable, "-I", str(TOOL), *(str(tmp_path / name) for name in names)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert run("data.npz", "proof.json") == (0, "accepted: 0.5 <= maximum margin <= 0.5 (l2, none, bounds)\n")
    assert run("data.npz", "false.json") == (1, "refused: the upper bound is too low\n")
    assert run("data.npz", "cut.json")[0] == 2
    assert run("data.npz", "missing.json")[0] == 2
    assert run("missing.npz", "proof.json")[0] == 2
    assert run("proof.json", "proof.json")[0] == 2
    assert run("data.npz")[0] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"lower": "1.00000000000000005"},
        {"upper": "0.99999999999999998"},
        {"lower": "\n 1.0 \n"},
        {"lower": True},
        {"norm": "L1", "p": 2.0},
        {"norm": "l1 "},
        {"intercept_kind": "None"},
        {"intercept_kind": "Free"},
        {"norm": "fourier-l1", "n_plain": 5},
        {"norm": "fourier-l1", "n_plain": -7},
        {"norm": "fourier-l1", "n_plain": True},
        {"norm": "group-l1", "groups": ["intercept"]},
        {"norm": "group-l1", "groups": [True]},
    ],
)
def test_a_claim_in_other_words_is_refused(change, tmp_path, judge):
    """What the checker prints is what it has checked: no rounding of texts, no unknown norm, no odd label."""
    content, _ = write(tmp_path, MaxMargin("l2", rows=[[1.0]]), [1.0], [1.0])
    assert judge(content)[0] == 0
    assert judge(signed(content, **change))[0] == 1


def test_what_is_not_used_is_not_echoed(tmp_path, judge):
    content, _ = write(tmp_path, MaxMargin("l1", rows=[[1.0]]), [1.0], [1.0])
    said = (0, "accepted: 1.0 <= maximum margin <= 1.0 (l1, none, bounds)")
    assert judge(signed(content, p="x")) == said
    assert judge(signed({name: value for name, value in content.items() if name != "p"})) == said
    assert judge(signed(content, version=True)) == (1, "refused: not a proof of version 1")


def test_integers_that_no_double_holds_are_refused(tmp_path, judge):
    content, _ = write(tmp_path, MaxMargin("l2", rows=[[2.0**53, 1], [-(2.0**53), -1]]), [1.0, 1.0], [1.0, 1.0])
    assert content["claim"] == "not separable"
    assert judge(content)[0] == 0
    np.savez(tmp_path / "data.npz", rows=np.array([[2**53 + 1, 1], [-(2**53), -1]]))
    assert judge(content)[0] == 2


def test_the_checker_is_short():
    assert len(TOOL.read_text(encoding="ascii").splitlines()) < 200


def test_the_checker_shares_no_code_with_the_library():
    text = TOOL.read_text(encoding="ascii")
    imports = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imports == {"decimal", "hashlib", "json", "math", "sys", "fractions", "numpy"}
