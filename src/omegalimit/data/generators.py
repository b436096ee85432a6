"""Token data drawn from a seed. Each docstring says exactly what is drawn, in the order in which it is drawn."""

import itertools

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog, nnls

from .._checks import check_count
from .tokens import TokenData

_MAX_REDRAWS = 10_000

PLANTED_SHARE = 0.5
"""Least lead of the planted target over every other token of its input, in units of `|W0 z_i|`."""

SCORE_GAP = 0.5
"""Score of the target in planted and orbit data; the other tokens score about zero."""

SCORE_SPREAD = 0.01
"""The other tokens' scores are spread over this share of `SCORE_GAP`, so that training cannot prefer another one."""

_COMMON = 0.3  # size of what distinguishes the tokens of a planted input, against sqrt(1 - 0.3**2) that they share
_WEAK = 0.3  # weight of the coordinates outside the planted support

_LEAST_EXCESS = 0.05, 0.10, 0.03
"""What the bases of orbits must have, see `orbit_tokens`: one coordinate only, l2 optimum in l1, l1 optimum in l2."""


def _stream(seed: int, draw: int = 0) -> np.random.Generator:
    """Independent streams for each `(seed, draw)`: child `draw` of the seed's sequence."""
    check_count(seed, "seed", least=0)
    check_count(draw, "draw", least=0)
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(int(draw),)))


def _unit(array: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def gaussian_tokens(n: int = 6, L: int = 8, d: int = 10, *, seed: int = 0) -> TokenData:
    """Unit gaussian tokens, queries and head, and fair labels: the field's usual random instance.

    Drawn from `numpy.random.default_rng(seed)` in this order: tokens `(n, L, d)`, queries `(n, d)` and the head `(d,)`,
    standard normal and then each scaled to norm one; labels -1 or +1 with equal chance. Nothing is redrawn: the data
    may be inseparable, and the flow may select other tokens than the best-scored.

    Raises `ValueError` for `n < 1`, `L < 2`, `d < 2` or a negative seed.
    """
    check_count(n, "n", least=1)
    check_count(L, "L", least=2)
    check_count(d, "d", least=2)  # in one dimension unit tokens are all +-1
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    X = _unit(rng.standard_normal((n, L, d)))
    z = _unit(rng.standard_normal((n, d)))
    v = _unit(rng.standard_normal(d))
    y = rng.choice([-1.0, 1.0], size=n)
    return TokenData(X=X, z=z, y=y, v=v, name="gaussian")


def planted_weights(d: int = 10, *, seed: int = 0, draw: int = 0) -> Float[np.ndarray, " d"]:
    """The diagonal `beta0` of the weights `W0 = diag(beta0)` that separate `planted_tokens` of the same arguments.

    Of the `d - 1` coordinates that carry queries, two random ones have +1 and -1, the others have +-0.3 with fair
    signs; the last coordinate, which carries the scores, has 0. Shape `(d,)`.
    """
    return _planted_weights(_stream(seed, draw), check_count(d, "d", least=3))


def _planted_weights(rng: np.random.Generator, d: int) -> Float[np.ndarray, " d"]:
    beta = _WEAK * rng.choice([-1.0, 1.0], size=d - 1)
    beta[:2] = 1.0, -1.0
    return np.append(rng.permutation(beta), 0.0)


def planted_tokens(n: int = 6, L: int = 8, d: int = 10, *, seed: int = 0, draw: int = 0) -> TokenData:
    """Tokens that a diagonal `W0` with both signs separates from the best-scored ones, by construction.

    The last coordinate carries the scores and no query weight (`v = e_d`, `z_d = 0`); the other `d - 1` carry the rest.

    1. `W0 = diag(beta0)`, see `planted_weights`; labels -1 or +1 with equal chance.
    2. For each input: a unit gaussian query `z_i`; a target `t` among the `L` tokens, each equally likely; tokens
       `x_l = sqrt(1 - 0.3^2) c_i + 0.3 g_l` with `c_i` common to the input and all entries normal of variance
       `1 / (d - 1)`; the target gets `W0 z_i / |W0 z_i|` added; all are scaled to norm one. The input is redrawn, query
       and all, until `(x_t - x_l)^T W0 z_i >= 0.5 |W0 z_i|` for every `l != t`. So the data are separable for full
       and for diagonal weights.
    3. The last coordinate is set so that the target scores `0.5` and the others uniformly within `+-0.0025`.

    With equal scores of the others, `<-dL/dW, W0> > 0` at every finite `W`: no stationary point holds the flow of the
    merged weights, and the loss falls with the target's attention alone. With this small spread the same is true
    wherever each target's attention is above 1 %; a small start has `1/L`. Derived here.

    Not planted, and left to the caller to check and redraw with `draw = 1, 2, ...` (streams independent of each other):
    that the norms differ, the rank of the nuclear optimum, the signs of the l1 optimum. At the default size about
    half of the draws have at least 10 % of excess of each optimum in the other norm (nuclear against Frobenius,
    l1 against l2 of the diagonal), a nuclear optimum of rank two or more and an l1 optimum of both signs.

    Raises `ValueError` for `n < 1`, `L < 2`, `d < 3`, a negative `seed` or `draw`, and when an input was redrawn 10000
    times without success (`L` large against `d`).
    """
    check_count(n, "n", least=1)
    check_count(L, "L", least=2)
    check_count(d, "d", least=3)
    rng = _stream(seed, draw)
    m = d - 1
    beta = _planted_weights(rng, d)
    y = rng.choice([-1.0, 1.0], size=n)
    X, z = np.zeros((n, L, d)), np.zeros((n, d))
    for i in range(n):
        for _ in range(_MAX_REDRAWS):
            query = _unit(rng.standard_normal(m))
            target = int(rng.integers(L))
            common, own = rng.standard_normal(m), rng.standard_normal((L, m))
            tokens = (np.sqrt(1 - _COMMON**2) * common + _COMMON * own) / np.sqrt(m)
            wanted = _unit(beta[:m] * query)
            tokens[target] += wanted
            tokens = _unit(tokens)
            logits = tokens @ wanted
            if logits[target] - np.delete(logits, target).max() >= PLANTED_SHARE:
                break
        else:
            raise ValueError(
                f"no input with L = {L} tokens in d = {d} dimensions was found in {_MAX_REDRAWS} tries; "
                "take a smaller `L` or another `d`."
            )
        X[i, :, :m], z[i, :m] = tokens, query
        X[i, :, m] = y[i] * _planted_scores(rng, L, target)
    return TokenData(X=X, z=z, y=y, v=np.eye(d)[m], name="planted")


def _planted_scores(rng: np.random.Generator, L: int, target: int) -> Float[np.ndarray, " L"]:
    scores = SCORE_GAP * SCORE_SPREAD * rng.uniform(-0.5, 0.5, size=L)
    scores[target] = SCORE_GAP
    return scores


def orbit_tokens(m: int = 3, L: int = 8, n_base: int = 1, *, seed: int = 0, draw: int = 0) -> TokenData:
    """Sign-flip orbits: data on which `-dL/dW` stays diagonal, in hidden axes, along the whole flow.

    `n = n_base 2^m` inputs in `d = m + 1` dimensions, orbit after orbit. For each base: tokens `a_l` and a query `q`
    in `R^m`, unit gaussian, and a target token, each equally likely; for each sign pattern `e` in `{-1, 1}^m` one input
    with tokens `(diag(e) a_l, y gamma_l)` and query `(diag(e) q, 0)`. All inputs of an orbit have the base's label `y`
    and scores (target 0.5, others uniform within +-0.0025), so for diagonal weights their attention is equal and the
    sum over the orbit of `D z^T` is diagonal. Then tokens and head are rotated by a random orthogonal `U`, queries by a
    random orthogonal `V` (both uniform, kept in `rotation`): start `K = U A R^T`, `Q = V B R^T` with diagonal `A`, `B`
    to stay aligned. The nuclear optimum over full weights is `U diag(beta, 0) V^T` with `beta` the l1 optimum of the
    base problem `min |beta|_1 : ((a_t - a_l) * q)^T beta >= 1` (average over the orbit), and the Frobenius one the
    same with the l2 optimum. Derived here.

    The bases are redrawn, all together, until the base problem is feasible; the best `beta` on one coordinate costs at
    least 5 % more than the l1 optimum (so that this uses two or more); the l2 optimum has at least 10 % more l1 norm
    than the l1 optimum, and the l1 optimum 3 % more l2 norm than the l2 optimum. (A linear program by HiGHS and a
    non-negative least squares problem, both scipy's.) One draw in seven passes at m = 3, one in a hundred or fewer
    at m = 2.

    Raises `ValueError` for `m` outside 2..8, `L < 2`, `n_base < 1`, a negative `seed` or `draw`, and when 10000 redraws
    found no such bases (many bases in few dimensions are rarely separable).
    """
    check_count(m, "m", least=2)
    if m > 8:
        raise ValueError(f"`m` must be at most 8, which makes orbits of 256 inputs; got {m}.")
    check_count(L, "L", least=2)
    check_count(n_base, "n_base", least=1)
    rng = _stream(seed, draw)
    for _ in range(_MAX_REDRAWS):
        a = _unit(rng.standard_normal((n_base, L, m)))
        q = _unit(rng.standard_normal((n_base, m)))
        targets = rng.integers(L, size=n_base)
        rows = np.concatenate([(a[b, t] - np.delete(a[b], t, axis=0)) * q[b] for b, t in enumerate(targets)])
        if _norms_differ(rows):
            break
    else:
        raise ValueError(
            f"no separable bases whose norms differ were found for m = {m}, L = {L}, n_base = {n_base} "
            f"in {_MAX_REDRAWS} tries; "
            "take fewer bases or tokens, or a larger `m`."
        )
    y = rng.choice([-1.0, 1.0], size=n_base)
    scores = np.array([_planted_scores(rng, L, int(t)) for t in targets])
    U, V = _orthogonal(rng, m + 1), _orthogonal(rng, m + 1)
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=m)))
    orbit = signs.shape[0]
    X = np.empty((n_base, orbit, L, m + 1))
    X[..., :m] = signs[None, :, None, :] * a[:, None]
    X[..., m] = (y[:, None] * scores)[:, None, :]
    z = np.zeros((n_base, orbit, m + 1))
    z[..., :m] = signs[None] * q[:, None]
    return TokenData(
        X=X.reshape(-1, L, m + 1) @ U.T,
        z=z.reshape(-1, m + 1) @ V.T,
        y=np.repeat(y, orbit),
        v=U[:, m],
        name="orbits",
        rotation=(U, V),
    )


def _norms_differ(rows: Float[np.ndarray, "N m"]) -> bool:
    """Whether `min |beta| : rows @ beta >= 1` is feasible with the excesses of `_LEAST_EXCESS`."""
    m = rows.shape[1]
    # Lawson and Hanson's least distance problem: the residual of non-negative least squares gives the l2 optimum.
    try:
        u, _ = nnls(np.vstack([rows.T, np.ones(rows.shape[0])]), np.append(np.zeros(m), 1.0))
    except RuntimeError:  # too many iterations
        return False
    residual = np.append(rows.T @ u, u.sum() - 1)
    if not residual[m] < -1e-9:  # it is -1 / (1 + least norm squared); zero when infeasible
        return False
    least_l2 = -residual[:m] / residual[m]
    if np.abs(least_l2).sum() < (1 + _LEAST_EXCESS[1]) * np.linalg.norm(least_l2):
        return False  # nearly one coordinate: the l1 norm cannot be smaller by that much
    answer = linprog(np.ones(2 * m), A_ub=np.hstack([-rows, rows]), b_ub=-np.ones(rows.shape[0]), bounds=(0, None))
    if answer.status != 0:
        return False
    least_l1 = answer.x[:m] - answer.x[m:]
    single = max(rows.min(axis=0).max(), -rows.max(axis=0).min())  # largest margin of a unit vector +-e_j
    excess = (
        1 / single / answer.fun - 1 if single > 0 else np.inf,
        np.abs(least_l2).sum() / answer.fun - 1,
        np.linalg.norm(least_l1) / np.linalg.norm(least_l2) - 1,
    )
    return all(found >= least for found, least in zip(excess, _LEAST_EXCESS, strict=True))


def _orthogonal(rng: np.random.Generator, d: int) -> Float[np.ndarray, "d d"]:
    """Uniform on the orthogonal group: QR of a gaussian matrix, signs fixed by the diagonal of R."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diag(r))
