#!/usr/bin/env python3
"""Check a proof of bounds on a maximum margin: `python check_proof.py DATA.npz PROOF.json`.

Exit code 0: every claim is true of the data; 1: refused, with the line that is false; 2: a file cannot be read. DATA:
`rows` (N, d) or (N, d1, d2), or `left` and `right`, or `X` and `y`; for an intercept `labels` or `y`, of +-1. Doubles
are integers times a power of two: sums and products are exact. The rest rounds upward in `|.|` or `|.|_dual`, the safe
side of `min_k (<A_k, W> + y_k b) / |W| <= gamma* <= |sum_k p_k A_k|_dual`, `gamma* >= 0` (that of `W = 0`):
- roots: `isqrt` of a number shifted by 1024 bits, plus one unit unless exact; powers `(sum u^q)^(1/q)`: `decimal` with
  100 digits, its `ln` and `exp` correctly rounded; the largest entry is scaled to 1, a power below e^-1000 counts as
  that, `q ln u` errs by at most `2e-100 q + 2e-97`, which the root divides by q, and the result is enlarged by 1e-80;
- Fourier, d < 2^20: cosines by rotation in 400-bit integers, each right to 2^-360, a doubt added to each coefficient;
- Schatten: with any V, B = MV and columns b_j, `|M|_q <= (1 - |V'V - I|_F)^(-1/2) |B|_q`; for q <= 2
  `|B|_q <= |(|b_j|)_j|_q`; for q > 2 `|B|_q^2 <= |diag H|_t + n^max(0, 1/t - 1/2) |H - diag H|_F`, H = B'B, t = q/2.
"""

import decimal
import hashlib
import json
import math
import sys
from fractions import Fraction

import numpy as np

EXPONENTS = {"l1": 1, "l2": 2, "linf": math.inf, "nuclear": 1, "frobenius": 2, "spectral": math.inf}
MATRIX = ("frobenius", "nuclear", "spectral", "schatten")
ONE = 1 << 400


def require(holds, line):
    if not holds:
        raise AssertionError(line)


def exact(values):
    """Doubles, or texts of such, as integers and the Fraction that they are to be multiplied with."""
    parts, exponents = np.frexp(np.array(values, dtype=float))
    require(np.isfinite(parts).all(), "a number is not finite")
    least = int(exponents[parts != 0].min()) if parts.any() else 0
    shifts = np.where(parts != 0, exponents - least, 0).astype(object)
    return np.asarray(np.ldexp(parts, 53).astype(np.int64).astype(object) << shifts), Fraction(2) ** (least - 53)


def root(x):
    r = math.isqrt(n := x.numerator * x.denominator << 1024)
    return Fraction(r + (r * r != n), x.denominator << 512)


def power_norm(sizes, p):
    top = max(sizes := [Fraction(x) for x in sizes])
    if p == math.inf or top == 0:
        return top
    if p in (1, 2):
        return sum(sizes) if p == 1 else root(sum(x * x for x in sizes))
    with decimal.localcontext(prec=100, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX):
        q, powers = decimal.Decimal(p.numerator) / decimal.Decimal(p.denominator), decimal.Decimal(0)
        for u in (x / top for x in sizes if x):
            t = q * (decimal.Decimal(u.numerator) / decimal.Decimal(u.denominator)).ln()
            powers += max(t, decimal.Decimal(-1000)).exp()
        return Fraction((powers.ln() / q).exp()) * top * (1 + Fraction(1, 10**80))


def fourier_sizes(w):
    d, doubt = len(w), sum(abs(x) for x in w) << 40
    # Cosines and sines of 2 pi k / d, times 2^400: pi by Machin's formula, one Taylor series, then rotations.
    fifth, small = (sum((-1) ** k * (ONE // ((2 * k + 1) * m ** (2 * k + 1))) for k in range(100)) for m in (5, 239))
    x, term, parts = 2 * (16 * fifth - 4 * small) // d, ONE, [0, 0]
    for j in range(200):
        parts[j % 2] += (-1) ** (j // 2) * term
        term = term * x // ((j + 1) * ONE)
    (c, s), found = parts, [(ONE, 0)]
    for _ in range(d - 1):
        a, b = found[-1]
        found.append(((a * c - b * s) // ONE, (a * s + b * c) // ONE))
    table, turns = np.array(found, dtype=object), np.arange(d)
    half = [sum((abs(x) + doubt) ** 2 for x in w @ table[k * turns % d]) for k in range(d // 2 + 1)]
    return [root(Fraction(x, d * ONE**2)) for x in half + half[1 : (d + 1) // 2]]


def schatten(M, q, basis):
    M = M.T if M.shape[1] > M.shape[0] else M
    (V, unit), n = exact([basis["high"], basis["low"]]), M.shape[1]
    V = V.sum(axis=0).reshape(n, n)
    defect = root(sum((x * unit**2 - (i % (n + 1) == 0)) ** 2 for i, x in enumerate((V.T @ V).ravel())))
    require(defect < 1, "a basis is not orthogonal")
    B, t = M @ V, math.inf if q == math.inf else q / Fraction(2)
    if t <= 1:
        bound = power_norm([root(Fraction(x)) for x in (B * B).sum(axis=0)], q)
    else:
        H, wider = B.T @ B, power_norm([1] * n, 2 * t / (2 - t)) if t < 2 else 1
        off = root(Fraction(((H - np.diag(np.diag(H))) ** 2).sum()))
        bound = root(power_norm(np.diag(H), t) + wider * off)
    return bound * unit * root(1 / (1 - defect))


def norm(proof, w, shape, *, dual):
    """At least the norm, or the dual norm, of integers `w`; a penalised intercept is their last entry."""
    name, p, extra = proof["norm"], 1, int(proof["intercept_kind"] == "penalised")
    sizes = [abs(x) for x in w]
    if name == "group-l1":
        squares, labels = {}, proof["groups"]
        require({type(label) for label in labels} == {int}, "the groups are not integers")
        for label, x in zip(labels + [None] * extra, w, strict=True):
            squares[label] = squares.get(label, 0) + x * x
        sizes = [root(Fraction(x)) for x in squares.values()]
    elif name == "fourier-l1":
        d = len(w) - proof["n_plain"] - extra
        require(type(proof["n_plain"]) is int and 0 < d <= len(w) - extra < 2**20, "`n_plain` does not fit the columns")
        sizes = fourier_sizes(w[:d]) + sizes[d:]
    else:
        p = EXPONENTS[name] if name in EXPONENTS else Fraction(float(proof["p"]))
        require(p > 1 or name in EXPONENTS, "`p` is not above 1")
    p = {1: math.inf, math.inf: 1}.get(p) or p / Fraction(p - 1) if dual else p
    if name in MATRIX and p != 2:
        return schatten(w.reshape(shape), p, proof["dual_basis" if dual else "point_basis"])
    return power_norm(sizes, p)


def load(path, kind):
    with np.load(path, allow_pickle=False) as file:
        given = {k: file[k] for k in file.files if k in ("rows", "left", "right", "labels", "X", "y")}
    found = {k: a.astype(np.float64, casting="safe") for k, a in given.items()}
    require(all((a.astype(given[k].dtype) == given[k]).all() for k, a in found.items()), "integers beyond doubles")
    found |= {"rows": found["X"] * found["y"].reshape(-1, *[1] * (found["X"].ndim - 1))} if "X" in found else {}
    found["labels"] = found.get("labels", found.get("y"))
    return {k: found[k] for k in ("rows", "left", "right", "labels") if k in found and (k, kind) != ("labels", "none")}


def check(proof, arrays):
    digest = hashlib.sha256()
    for name, a in arrays.items():
        digest.update(f"{name} {','.join(map(str, a.shape))}\n".encode() + (a + 0.0).astype("<f8").tobytes())
    require(proof["data"]["sha256"] == digest.hexdigest(), "the data are not those of the proof (SHA-256 differs)")
    require(proof["data"]["shapes"] == {k: list(a.shape) for k, a in arrays.items()}, "the shapes are not the data's")
    n, name, kind = len(next(iter(arrays.values()))), proof["norm"], proof["intercept_kind"]
    y = arrays.get("labels", np.ones(n))
    require(y.shape == (n,) and (abs(y) == 1).all(), "the labels are not +-1")
    fits = [a.ndim for k, a in arrays.items() if k != "labels"] in ([[3], [2, 2]] if name in MATRIX else [[2]])
    fits &= all(len(a) == n for a in arrays.values()) and name in {*EXPONENTS, *MATRIX, "lp", "group-l1", "fourier-l1"}
    fits &= kind in ("none", "free") or (kind == "penalised" and name not in MATRIX)
    require(fits, f"the norm {name!r} does not take such data")
    if "left" in arrays:
        (L, left_unit), (A, right_unit) = exact(arrays["left"]), exact(arrays["right"])
        shape, unit = (L.shape[1], A.shape[1]), left_unit * right_unit
    else:
        flat, shape = arrays["rows"].reshape(n, -1), arrays["rows"].shape[1:]
        A, unit = exact(np.column_stack([flat, y]) if kind == "penalised" else flat)
        L = np.full((n, 1), 1, dtype=object)
    require(all(repr(float(proof[k])) == proof[k] for k in ("lower", "upper")), "a bound is not written as a double")
    lower, upper, up, down = Fraction(float(proof["lower"])), Fraction(float(proof["upper"])), y > 0, y < 0
    if proof["claim"] == "not separable":
        weights = np.zeros(n, dtype=object)
        for k, weight in zip(proof["farkas"]["indices"], proof["farkas"]["weights"], strict=True):
            weights[k] += int(weight, 16)
        require((weights >= 0).all() and weights.any(), "the Farkas weights are not positive")
        require(kind != "free" or weights[up].sum() == weights[down].sum(), "the Farkas weights are not balanced")
        require(not ((L * weights[:, None]).T @ A).any(), "the Farkas sum is not zero")
        return require(lower <= 0 <= upper, "the bounds exclude 0, and no point separates")
    require(proof["claim"] == "bounds", f"unknown claim {proof['claim']!r}")
    w, w_unit = exact(proof["point"] + [proof["intercept"]] * (kind == "penalised"))
    weights, _ = exact(proof["multipliers"])
    fits = len(weights) == n and len(w) == math.prod(shape) + (kind == "penalised")
    require(fits, "the point or the multipliers have not the shape of the data")
    if lower > 0:
        b = Fraction(float(proof["intercept"])) if kind == "free" else 0
        scores = ((L @ w.reshape(L.shape[1], -1)) * A).sum(axis=1)
        margin = min(m * unit * w_unit + (b if side else -b) for m, side in zip(scores, up, strict=True))
        size = norm(proof, w, shape, dual=False) * w_unit
        require(size > 0 and lower * size <= margin, "the lower bound is too high")
    require((weights >= 0).all(), "a multiplier is negative")
    if kind == "free":
        weights = np.where(up, weights * weights[down].sum(), weights * weights[up].sum())
    require(weights.any(), "the multipliers are all zero, or not balanced")
    size = norm(proof, ((L * weights[:, None]).T @ A).ravel(), shape, dual=True) * unit
    return require(size <= upper * weights.sum(), "the upper bound is too low")


def main(data_path, proof_path):
    try:
        with open(proof_path, encoding="ascii") as file:
            proof = json.load(file)
        rest = {name: x for name, x in proof.items() if name != "digest"}
        digest = hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        arrays = load(data_path, proof["intercept_kind"])
    except Exception as error:
        return print(f"unreadable, {data_path} or {proof_path}: {type(error).__name__}: {error}") or 2
    try:
        require(proof.get("digest") == digest, "the digest is not that of the content")
        require((proof["format"], repr(proof["version"])) == ("omegalimit-proof", "1"), "not a proof of version 1")
        check(proof, arrays)
    except Exception as error:
        return print(f"refused: {error if isinstance(error, AssertionError) else f'malformed: {error!r}'}") or 1
    power = [str(proof.get("p"))] * (proof["norm"] in ("lp", "schatten"))
    what = ", ".join([proof["norm"], *power, proof["intercept_kind"], proof["claim"]])
    return print(f"accepted: {proof['lower']} <= maximum margin <= {proof['upper']} ({what})") or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 else print(__doc__) or 2)
