"""Tokens, queries, labels and a head: the data of one-layer softmax attention, checked at the door."""

import dataclasses
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from .._checks import check_finite, check_labels, check_ndim, check_same_length, to_float64

TIE_RTOL = 1e-12
"""Scores that differ by at most this share of the score spread (or by rounding) are equal."""

NEAR_TIE_RTOL = 1e-6
"""Scores closer than this share of the spread, but not equal, are near-ties: the target rests on the sixth digit."""

_LEAST_SPREAD = float(np.finfo(np.float64).tiny) * 2.0**10
"""Scores that spread over less than this (2.3e-305) lose digits to underflow."""


@dataclasses.dataclass(frozen=True)
class Tie:
    """Tokens of one input whose scores are the best up to a tolerance: `input` is its index, `tokens` theirs."""

    input: int
    tokens: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """Tokens of one input that are the same row; `best` is true when they are rows of the best-scored token."""

    input: int
    tokens: tuple[int, ...]
    best: bool


@dataclasses.dataclass(frozen=True, eq=False)
class TokenData:
    """`n` inputs of `L` tokens in `R^d`, each with a query and a label, and one fixed head.

    - `X`: tokens, shape `(n, L, d)`; `z`: queries, `(n, d)`; `y`: labels -1 or +1, `(n,)`; `v`: the head, `(d,)`.
      All are copied to read-only float64 arrays; a conversion is told in `notes`.
    - `name`: what the data are, in a word or two.
    - `notes`: sentences that a reader must see: conversions, ties, duplicate tokens. What is passed comes first.
    - `rotation`: orthogonal `(U, V)`, each `(d, d)`, such that `U^T x_l` and `V^T z` are the coordinates in which the
      data were built (sign-flip orbits: `U^T (dL/dW) V` is diagonal there); else `None`.

    The score of a token is `gamma_il = y_i v^T x_il`; the best-scored token is the target, fixed before any training.

    Raises `ValueError` for empty data, `L = 1`, shapes that do not fit (both are named), NaN or infinite entries,
    labels other than -1 and +1, an all-zero query, an input whose scores are all equal (no token is best), and scores
    that leave the range of doubles; `TypeError` for entries that are not real numbers.
    """

    X: Float[np.ndarray, "n L d"]
    z: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " d"]
    name: str = "tokens"
    notes: tuple[str, ...] = ()
    rotation: tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d d"]] | None = None

    def __post_init__(self) -> None:
        notes = [*self.notes]
        for key, axes in (("X", "n, L, d"), ("z", "n, d"), ("y", "n"), ("v", "d")):
            array, note = to_float64(getattr(self, key), key)
            check_ndim(array, key, axes=axes)
            array.flags.writeable = False
            object.__setattr__(self, key, array)
            if note is not None:
                notes.append(note)
        self._check_shapes()
        for key in ("X", "z", "y", "v"):
            check_finite(getattr(self, key), key)
        check_labels(self.y)
        self._check_rotation()
        self._check_content()
        notes.extend(self._found())
        object.__setattr__(self, "notes", tuple(dict.fromkeys(notes)))

    def _check_shapes(self) -> None:
        X, z, y, v = self.X, self.z, self.y, self.v
        if X.shape[0] == 0:
            raise ValueError(f"`X` has shape {X.shape}: there is no input; pass at least one.")
        if X.shape[2] == 0:
            raise ValueError(f"`X` has shape {X.shape}: the tokens have no entries; pass d >= 1.")
        if X.shape[1] < 2:
            count = "no token leaves" if X.shape[1] == 0 else "one token leaves"
            raise ValueError(f"`X` has shape {X.shape}, so L = {X.shape[1]}: {count} nothing to select; pass L >= 2.")
        check_same_length(X, z, ("X", "z"), axes=(0, 0), what="inputs")
        check_same_length(X, y, ("X", "y"), axes=(0, 0), what="inputs")
        check_same_length(X, z, ("X", "z"), axes=(2, 1), what="coordinates")
        check_same_length(X, v, ("X", "v"), axes=(2, 0), what="coordinates")

    def _check_rotation(self) -> None:
        if self.rotation is None:
            return
        d = self.v.size
        checked = []
        for key, value in zip(("U", "V"), self.rotation, strict=True):
            array, _ = to_float64(value, key)
            if array.shape != (d, d):
                raise ValueError(f"`{key}` of `rotation` must have shape {(d, d)}; got {array.shape}.")
            error = float(np.abs(array.T @ array - np.eye(d)).max())
            if not error <= 1e-10:
                raise ValueError(f"`{key}` of `rotation` must be orthogonal; its Gram matrix is off by {error:.1e}.")
            array.flags.writeable = False
            checked.append(array)
        object.__setattr__(self, "rotation", tuple(checked))

    def _check_content(self) -> None:
        if not self.v.any():
            raise ValueError(
                "`v` is all zero: every score y v^T x is zero and no token is best; pass a head with a direction."
            )
        if (zero := np.flatnonzero(~self.z.any(axis=1))).size:
            raise ValueError(
                f"`z[{zero[0]}]` is all zero{_of_inputs(zero)}: its attention stays uniform whatever the weights are; "
                "drop the input or give it a query."
            )
        if np.abs(self.X).max() >= 2.0**1023:
            raise ValueError(
                f"`X` reaches {np.abs(self.X).max():.1e}, and differences of tokens overflow; "
                "divide `X` by a power of ten."
            )
        scaled, exponent = self._scaled_scores
        flat = np.flatnonzero(np.ptp(scaled, axis=1) <= TIE_RTOL * self._score_size)
        if flat.size:
            raise ValueError(
                f"the scores y v^T x of input {flat[0]} are all equal to 12 digits{_of_inputs(flat)}, "
                "so no token is best; drop the input or change `v`."
            )
        # The head's and the tokens' powers of two come back here; this is where a product can leave the doubles.
        with np.errstate(over="ignore", under="ignore"):
            scores = np.ldexp(scaled, exponent)
            spread = np.ldexp(np.ptp(scaled, axis=1), exponent[:, 0])
        if not (np.isfinite(scores).all() and np.isfinite(spread).all()):
            raise ValueError(
                f"the scores y v^T x overflow (max |X| is {np.abs(self.X).max():.1e}, "
                f"max |v| is {np.abs(self.v).max():.1e}); divide `X` or `v` by a power of ten."
            )
        lost = np.flatnonzero(spread < _LEAST_SPREAD)
        if lost.size:
            raise ValueError(
                f"the scores y v^T x of input {lost[0]} underflow (max |X[{lost[0]}]| is "
                f"{np.abs(self.X[lost[0]]).max():.1e}, max |v| is {np.abs(self.v).max():.1e}); "
                "multiply `X` or `v` by a power of ten."
            )

    def _found(self) -> list[str]:
        notes = []
        for tie in self.ties:
            notes.append(
                f"input {tie.input}: tokens {_listed(tie.tokens)} share the best score; token {tie.tokens[0]} is taken "
                "as the target, and the theorem's unique target does not hold."
            )
        for tie in self.near_ties:
            notes.append(
                f"input {tie.input}: the best scores of tokens {_listed(tie.tokens)} differ by less than "
                f"{NEAR_TIE_RTOL:g} of the score spread."
            )
        others = [dup for dup in self.duplicate_tokens if not dup.best]
        for dup in self.duplicate_tokens:
            if dup.best:
                notes.append(
                    f"input {dup.input}: the best-scored token is repeated "
                    f"(tokens {_listed(dup.tokens)} are the same row)."
                )
        for dup in others[:3]:
            notes.append(
                f"input {dup.input}: tokens {_listed(dup.tokens)} are the same row; none is the target, all are kept."
            )
        if len(others) > 3:
            notes.append(f"{len(others) - 3} more groups of equal rows that are not the target; all are kept.")
        return notes

    @cached_property
    def _scaled_scores(self) -> tuple[Float[np.ndarray, "n L"], Int[np.ndarray, "n 1"]]:
        # Powers of two make |X_i| and |v| of order one, exactly: v^T x then neither overflows nor underflows.
        ex = _exponent(self.X, axis=(1, 2))
        ev = _exponent(self.v, axis=(0,))
        X = np.ldexp(self.X, -ex)
        v = np.ldexp(self.v, -ev)
        return self.y[:, None] * (X @ v), (ex[:, :, 0] + ev[0]).astype(int)

    @cached_property
    def _score_size(self) -> Float[np.ndarray, " n"]:
        # What the scores' rounding is relative to: the size of the products that are summed, max_l |x_l|^T |v|.
        ex, ev = _exponent(self.X, axis=(1, 2)), _exponent(self.v, axis=(0,))
        return (np.abs(np.ldexp(self.X, -ex)) @ np.abs(np.ldexp(self.v, -ev))).max(axis=1)

    @property
    def n(self) -> int:
        """Number of inputs."""
        return self.X.shape[0]

    @property
    def L(self) -> int:
        """Tokens per input."""
        return self.X.shape[1]

    @property
    def d(self) -> int:
        """Entries of a token."""
        return self.X.shape[2]

    @cached_property
    def scores(self) -> Float[np.ndarray, "n L"]:
        """`gamma_il = y_i v^T x_il`, shape `(n, L)`; computed at scale one, so tokens of 1e+-150 lose nothing."""
        scaled, exponent = self._scaled_scores
        with np.errstate(under="ignore"):
            return _frozen(np.ldexp(scaled, exponent))

    @cached_property
    def best(self) -> Int[np.ndarray, " n"]:
        """The best-scored token of each input, shape `(n,)`; of tied ones the first (see `ties`)."""
        return _frozen(self._near_best(TIE_RTOL).argmax(axis=1))

    @cached_property
    def is_best(self) -> Bool[np.ndarray, "n L"]:
        """True for the best-scored token of each input and those tied with it (see `ties`), shape `(n, L)`."""
        return _frozen(self._near_best(TIE_RTOL))

    @cached_property
    def score_gap(self) -> Float[np.ndarray, " n"]:
        """Best score minus second best, as a share of best minus worst, shape `(n,)`: in [0, 1], 0 for a tie."""
        ordered = np.sort(self._scaled_scores[0], axis=1)
        gap = (ordered[:, -1] - ordered[:, -2]) / (ordered[:, -1] - ordered[:, 0])
        return _frozen(np.where(self._near_best(TIE_RTOL).sum(axis=1) > 1, 0.0, gap))

    @cached_property
    def ties(self) -> tuple[Tie, ...]:
        """Inputs in which more than one token has the best score, up to `TIE_RTOL` of the score spread."""
        return tuple(Tie(i, tokens) for i, tokens in self._top(TIE_RTOL))

    @cached_property
    def near_ties(self) -> tuple[Tie, ...]:
        """Inputs with a token within `NEAR_TIE_RTOL` of the best score but not tied; `tokens` has the best too."""
        tied = dict(self._top(TIE_RTOL))
        return tuple(Tie(i, tokens) for i, tokens in self._top(NEAR_TIE_RTOL) if tokens != tied.get(i))

    def _near_best(self, rtol: float) -> Bool[np.ndarray, "n L"]:
        scaled = self._scaled_scores[0]
        # Equal rows may be summed in another order: they differ by a rounding of the summands, whatever the spread.
        rounding = self.d * np.finfo(np.float64).eps * self._score_size
        width = np.maximum(rtol * np.ptp(scaled, axis=1), rounding)[:, None]
        return scaled.max(axis=1, keepdims=True) - scaled <= width

    def _top(self, rtol: float) -> list[tuple[int, tuple[int, ...]]]:
        near = self._near_best(rtol)
        return [(int(i), tuple(map(int, np.flatnonzero(near[i])))) for i in np.flatnonzero(near.sum(axis=1) > 1)]

    @cached_property
    def duplicate_tokens(self) -> tuple[Duplicates, ...]:
        """Groups of equal rows within an input, by input and first token."""
        found = []
        for i, tokens in enumerate(self.X + 0.0):  # -0.0 and 0.0 are one value
            groups: dict[bytes, list[int]] = {}
            for token, row in enumerate(tokens):
                groups.setdefault(row.tobytes(), []).append(token)
            for group in groups.values():
                if len(group) > 1:
                    found.append(Duplicates(i, tuple(group), bool(self.best[i] in group)))
        return tuple(found)

    def rescaled(self) -> tuple["TokenData", int, int]:
        """The same data with tokens and queries of ordinary size, and the powers of two `(ex, ez)` that were taken out.

        Sizes beyond 2^+-64 only: else the data themselves and `(0, 0)`. `X / 2^ex`, `z / 2^ez`, `v * 2^ex`, all exact:
        the scores stay, and weights `W` of the data are `W * 2^(ex + ez)` here. A note says so.
        """
        ex, ez = (int(_exponent(a, axis=tuple(range(a.ndim))).item()) for a in (self.X, self.z))
        ex, ez = (e if abs(e) > 64 else 0 for e in (ex, ez))
        if ex == ez == 0:
            return self, 0, 0
        with np.errstate(over="ignore", under="ignore"):
            X, z, v = np.ldexp(self.X, -ex), np.ldexp(self.z, -ez), np.ldexp(self.v, ex)
        note = (
            f"the tokens were divided by 2^{ex} (the head multiplied by it) and the queries by 2^{ez}, exactly; "
            "arrays and margins are in these units."
        )
        data = TokenData(X=X, z=z, y=self.y, v=v, name=self.name, notes=(*self.notes, note), rotation=self.rotation)
        return data, ex, ez

    def differences(self, selected: Int[np.ndarray, " n"] | None = None) -> Float[np.ndarray, "n L-1 d"]:
        """`D_il = x_{i,selected(i)} - x_il` over the other tokens in their order, shape `(n, L - 1, d)`.

        `selected`: token of each input, shape `(n,)`, integers in `[0, L)`; the best-scored ones when left out.
        Raises `ValueError` or `TypeError` when it is not that.
        """
        chosen = np.asarray(self.best if selected is None else selected)
        if chosen.shape != (self.n,):
            raise ValueError(f"`selected` must have shape {(self.n,)}, one token for each input; got {chosen.shape}.")
        if chosen.dtype.kind not in "iu":
            raise TypeError(f"`selected` must hold integers; got dtype {chosen.dtype}.")
        if (bad := np.flatnonzero((chosen < 0) | (chosen >= self.L))).size:
            raise ValueError(f"`selected[{bad[0]}]` is {chosen[bad[0]]}; the tokens are 0 to {self.L - 1}.")
        others = np.arange(self.L - 1)[None, :] + (np.arange(self.L - 1)[None, :] >= chosen[:, None])
        inputs = np.arange(self.n)
        return self.X[inputs, chosen][:, None, :] - self.X[inputs[:, None], others]


def _exponent(array: Float[np.ndarray, "..."], *, axis: tuple[int, ...]) -> Int[np.ndarray, "..."]:
    """The power of two just above the largest entry over `axis` (kept as axes of length one); 0 where all are zero."""
    return np.frexp(np.abs(array).max(axis=axis, keepdims=True))[1].astype(int)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _listed(tokens: tuple[int, ...]) -> str:
    return " and ".join([", ".join(map(str, tokens[:-1])), str(tokens[-1])])


def _of_inputs(which: Int[np.ndarray, " k"]) -> str:
    return f" (so are those of {which.size - 1} more)" if which.size > 1 else ""
