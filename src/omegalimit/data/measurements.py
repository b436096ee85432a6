"""Symmetric linear measurements of a d x d matrix: `y_i = <A_i, Q>`, the data of a positive quadratic network.

The network is `f_U(x) = x' U U' x`; every loss of its outputs is a loss of `Q = U U'` through `<A_i, Q> = tr(A_i Q)`.
Four kinds, each final, behind one interface:

- `RankOneMeasurements`: `A_i = x_i x_i'`, inputs of a network (phase retrieval, quadratic sensing);
- `DenseMeasurements`: any matrices; only their symmetric part is seen by a symmetric Q;
- `EntryMeasurements`: entries of Q, `A_i = (e_j e_k' + e_k e_j') / 2` (matrix completion);
- `CommutingMeasurements`: `A_i = V diag(a_i) V'` with one orthogonal V for all.

Generators with a seed are in `measurement_generators.py`, the user's own files in `measurement_files.py`.

`adjoint(w) = sum_i w_i A_i`, so that `<adjoint(w), Q> = w . apply(Q)` for every symmetric Q.
"""

import abc
import dataclasses
import math
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_count, check_finite, check_ndim, check_same_length, shape_text, to_float64


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Measurements(abc.ABC):
    """`n` measurements of a symmetric `d x d` matrix, and the targets `y`, shape `(n,)`; the arrays are read-only.

    - `planted`: the matrix that the targets were made from, shape `(d, d)`, where there is one; else `None`.
    - `notes`: sentences that a reader must see: conversions, asymmetric matrices, entries measured twice.
    """

    y: Float[np.ndarray, " n"]
    name: str = "measurements"
    notes: tuple[str, ...] = ()
    planted: Float[np.ndarray, "d d"] | None = None

    def __post_init__(self) -> None:
        notes = [*self.notes]
        for key, axes in (*self._axes().items(), ("y", "n")):
            array, note = to_float64(getattr(self, key), key)
            check_ndim(array, key, axes=axes)
            self._set(key, array)
            if note is not None:
                notes.append(note)
        first = next(iter(self._axes()))
        array = getattr(self, first)
        if 0 in array.shape:
            raise ValueError(f"`{first}` has shape {shape_text(array.shape)}: there is nothing to measure.")
        check_same_length(array, self.y, (first, "y"), axes=(0, 0), what="measurements")
        for key in (*self._axes(), "y"):
            check_finite(getattr(self, key), key)
        self._check(notes)
        if self.planted is not None:
            planted, _ = to_float64(self.planted, "planted")
            if planted.shape != (self.d, self.d):
                raise ValueError(f"`planted` must have shape {(self.d, self.d)}; got {shape_text(planted.shape)}.")
            check_finite(planted, "planted")
            self._set("planted", planted)
        object.__setattr__(self, "notes", tuple(dict.fromkeys(notes)))

    def _set(self, key: str, array: np.ndarray) -> None:
        array.flags.writeable = False
        object.__setattr__(self, key, array)

    @abc.abstractmethod
    def _axes(self) -> dict[str, str]:
        """The arrays of this kind and their axes; the first has one row a measurement."""

    @abc.abstractmethod
    def _check(self, notes: list[str]) -> None:
        """What this kind asks of its arrays; sentences for the reader are appended to `notes`."""

    @property
    @abc.abstractmethod
    def d(self) -> int:
        """Rows of the measured matrix."""

    @property
    def n(self) -> int:
        """How many measurements there are."""
        return self.y.size

    @property
    def inputs(self) -> Float[np.ndarray, "n d"] | None:
        """The rows x_i where `A_i = x_i x_i'`, else `None`."""
        return None

    @property
    def eigenvalues(self) -> Float[np.ndarray, "n d"] | None:
        """The rows a_i where `A_i = V diag(a_i) V'` by construction, else `None`; V is `basis`."""
        return None

    @property
    def basis(self) -> Float[np.ndarray, "d d"]:
        """The basis V in which a diagonal Q is written; the identity but for commuting measurements."""
        return np.eye(self.d)

    @abc.abstractmethod
    def apply(self, Q: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " n"]:
        """`<A_i, Q>` of a symmetric Q, shape `(n,)`."""

    @abc.abstractmethod
    def apply_factor(self, U: Float[np.ndarray, "d r"]) -> Float[np.ndarray, " n"]:
        """`<A_i, U U'>`, shape `(n,)`; U U' is not formed where the kind allows it."""

    @abc.abstractmethod
    def adjoint(self, w: Float[np.ndarray, " n"]) -> Float[np.ndarray, "d d"]:
        """`sum_i w_i A_i`, symmetric, shape `(d, d)`."""

    def adjoint_factor(self, w: Float[np.ndarray, " n"], U: Float[np.ndarray, "d r"]) -> Float[np.ndarray, "d r"]:
        """`(sum_i w_i A_i) U`, shape `(d, r)`."""
        return self.adjoint(w) @ U

    @abc.abstractmethod
    def factor_rows(self, U: Float[np.ndarray, "d r"]) -> Float[np.ndarray, "n d r"]:
        """`A_i U` for every i, shape `(n, d, r)`: half the derivative of `<A_i, U U'>` in U."""

    @property
    @abc.abstractmethod
    def norms(self) -> Float[np.ndarray, " n"]:
        """The Frobenius norms of the `A_i`, shape `(n,)`."""

    @abc.abstractmethod
    def matrices(self) -> Float[np.ndarray, "n d d"]:
        """The matrices A_i themselves, shape `(n, d, d)`: `8 n d^2` bytes."""

    @property
    @abc.abstractmethod
    def exponent(self) -> int:
        """The power of two nearest below the size of the `A_i`; `times(-exponent)` has entries of size one."""

    @abc.abstractmethod
    def times(self, exponent: int, targets: int = 0) -> Self:
        """The same measurements with `A_i` times `2**exponent` and `y` times `2**targets`, exactly (no underflow).

        `exponent` is even for rank-one measurements. Matrix entries have a size of their own: they take 0 only.
        """

    def _targets(self, exponent: int) -> Float[np.ndarray, " n"]:
        return np.ldexp(self.y, exponent)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RankOneMeasurements(Measurements):
    """`<A_i, Q> = x_i' Q x_i` with the rows `x_i` of `X`, shape `(n, d)`."""

    X: Float[np.ndarray, "n d"]

    def _axes(self) -> dict[str, str]:
        return {"X": "n, d"}

    def _check(self, notes: list[str]) -> None:
        if not self.X.any():
            raise ValueError("`X` is all zero: nothing is measured.")
        _note_zero(self.X, "X", notes)

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def inputs(self):
        return self.X

    def apply(self, Q):
        return np.einsum("ij,ij->i", self.X @ Q, self.X)

    def apply_factor(self, U):
        XU = self.X @ U
        return np.einsum("ij,ij->i", XU, XU)

    def adjoint(self, w):
        G = self.X.T @ (w[:, None] * self.X)
        return (G + G.T) / 2

    def adjoint_factor(self, w, U):
        return self.X.T @ (w[:, None] * (self.X @ U))

    def factor_rows(self, U):
        return self.X[:, :, None] * (self.X @ U)[:, None, :]

    @property
    def norms(self):
        return np.square(self.X).sum(axis=1)

    def matrices(self):
        return self.X[:, :, None] * self.X[:, None, :]

    @property
    def exponent(self) -> int:
        return 2 * _exponent(self.X)

    def times(self, exponent: int, targets: int = 0) -> Self:
        if exponent % 2:
            raise ValueError(f"`exponent` must be even for rank-one measurements; got {exponent}.")
        return dataclasses.replace(
            self, X=np.ldexp(self.X, exponent // 2), y=self._targets(targets), planted=None, notes=()
        )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DenseMeasurements(Measurements):
    """`<A_i, Q> = tr(A_i Q)` with the user's own matrices `A`, shape `(n, d, d)`.

    A symmetric Q sees only `(A_i + A_i') / 2`; that is what is kept, and a note says so where they differ.
    """

    A: Float[np.ndarray, "n d d"]

    def _axes(self) -> dict[str, str]:
        return {"A": "n, d, d"}

    def _check(self, notes: list[str]) -> None:
        A = self.A
        if A.shape[1] != A.shape[2]:
            raise ValueError(f"`A` must have shape (n, d, d), square matrices; got {shape_text(A.shape)}.")
        if not A.any():
            raise ValueError("`A` is all zero: nothing is measured.")
        half = A / 2  # halves first: the sum of two large entries may overflow
        symmetric = half + half.transpose(0, 2, 1)
        odd = np.abs(half - half.transpose(0, 2, 1)).max(axis=(1, 2))
        if (n_odd := int((odd > 0).sum())) > 0:
            i = int(np.argmax(odd))
            notes.append(
                f"{n_odd} of the {A.shape[0]} matrices `A` are not symmetric (`A[{i}]` most, by {2 * odd[i]:.1e}): "
                "a symmetric Q sees only (A + A') / 2, which is what is used."
            )
            if not symmetric.any():
                raise ValueError("`A` is antisymmetric: a symmetric Q is not measured at all.")
        self._set("A", symmetric)
        _note_zero(symmetric, "A", notes)

    @property
    def d(self) -> int:
        return self.A.shape[1]

    def apply(self, Q):
        return self.A.reshape(self.n, -1) @ Q.reshape(-1)

    def apply_factor(self, U):
        return self.apply(U @ U.T)

    def adjoint(self, w):
        return (w @ self.A.reshape(self.n, -1)).reshape(self.d, self.d)

    def factor_rows(self, U):
        return self.A @ U

    @property
    def norms(self):
        return np.linalg.norm(self.A, axis=(1, 2))

    def matrices(self):
        return self.A.copy()

    @property
    def exponent(self) -> int:
        return _exponent(self.A)

    def times(self, exponent: int, targets: int = 0) -> Self:
        return dataclasses.replace(self, A=np.ldexp(self.A, exponent), y=self._targets(targets), planted=None, notes=())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class EntryMeasurements(Measurements):
    """`<A_i, Q> = Q[rows_i, cols_i]` of a `size x size` matrix: matrix completion.

    `rows` and `cols` count from 0, shape `(n,)` each. An entry and its mirror image are one entry.
    """

    rows: Int[np.ndarray, " n"]
    cols: Int[np.ndarray, " n"]
    size: int

    def _axes(self) -> dict[str, str]:
        return {"rows": "n", "cols": "n"}

    def _check(self, notes: list[str]) -> None:
        check_same_length(self.rows, self.cols, ("rows", "cols"), axes=(0, 0), what="measurements")
        d = check_count(self.size, "size", least=1)
        object.__setattr__(self, "size", d)
        for key in ("rows", "cols"):
            found = getattr(self, key)
            bad = np.flatnonzero((found != np.floor(found)) | (found < 0) | (found >= d))
            if bad.size:
                raise ValueError(
                    f"`{key}[{bad[0]}]` is {found[bad[0]]:g}; it must be an integer from 0 to {d - 1}, "
                    f"an index into a {d} x {d} matrix."
                )
            self._set(key, found.astype(np.int64))
        # Indices are integers by their meaning: that they were converted is no news.
        notes[:] = [note for note in notes if not note.startswith(("`rows` came", "`cols` came"))]
        pairs = np.sort(np.stack((self.rows, self.cols)), axis=0)
        _, where, counts = np.unique(pairs[0] * d + pairs[1], return_inverse=True, return_counts=True)
        if (n_twice := int((counts > 1).sum())) > 0:
            low, high = np.full(counts.size, np.inf), np.full(counts.size, -np.inf)
            np.minimum.at(low, where, self.y)
            np.maximum.at(high, where, self.y)
            n_odds = int((low < high).sum())
            other = f", {n_odds} of them with different targets, which no matrix meets" if n_odds else ""
            notes.append(f"{n_twice} entries are measured more than once{other}.")

    @property
    def d(self) -> int:
        return self.size

    def apply(self, Q):
        return (Q[self.rows, self.cols] + Q[self.cols, self.rows]) / 2

    def apply_factor(self, U):
        return np.einsum("ij,ij->i", U[self.rows], U[self.cols])

    def adjoint(self, w):
        G = np.zeros((self.d, self.d))
        np.add.at(G, (self.rows, self.cols), w / 2)
        return G + G.T

    def factor_rows(self, U):
        found = np.zeros((self.n, *U.shape))
        i = np.arange(self.n)
        found[i, self.rows] += U[self.cols] / 2
        found[i, self.cols] += U[self.rows] / 2
        return found

    @property
    def norms(self):
        return np.where(self.rows == self.cols, 1.0, np.sqrt(0.5))

    def matrices(self):
        A = np.zeros((self.n, self.d, self.d))
        i = np.arange(self.n)
        A[i, self.rows, self.cols] += 0.5
        A[i, self.cols, self.rows] += 0.5
        return A

    @property
    def exponent(self) -> int:
        return 0

    def times(self, exponent: int, targets: int = 0) -> Self:
        if exponent:
            raise ValueError(f"`exponent` must be 0 for measured entries; got {exponent}.")
        return dataclasses.replace(self, y=self._targets(targets), planted=None, notes=())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class CommutingMeasurements(Measurements):
    """`<A_i, Q> = a_i . diag(V' Q V)`: matrices `A_i = V diag(a_i) V'` that commute.

    - `a`: the eigenvalues, shape `(n, d)`; `V`: orthogonal, shape `(d, d)`, the identity when `None`.
    """

    a: Float[np.ndarray, "n d"]
    V: Float[np.ndarray, "d d"] | None = None

    def _axes(self) -> dict[str, str]:
        return {"a": "n, d"}

    def _check(self, notes: list[str]) -> None:
        if not self.a.any():
            raise ValueError("`a` is all zero: nothing is measured.")
        V, note = to_float64(np.eye(self.d) if self.V is None else self.V, "V")
        if V.shape != (self.d, self.d):
            raise ValueError(f"`V` must have shape {(self.d, self.d)}, as `a` has {self.d} columns; got {V.shape}.")
        check_finite(V, "V")
        # The bound is on orthogonality, which has no unit; the products below are off by as much.
        if not (error := float(np.abs(V.T @ V - np.eye(self.d)).max())) <= 1e-10:
            raise ValueError(
                f"`V` must be orthogonal; V'V is off by {error:.1e}. "
                "If V was written with few digits, pass `np.linalg.qr(V)[0]`."
            )
        self._set("V", V)
        if note is not None:
            notes.append(note)
        _note_zero(self.a, "a", notes)

    @property
    def d(self) -> int:
        return self.a.shape[1]

    @property
    def eigenvalues(self):
        return self.a

    @property
    def basis(self):
        assert self.V is not None  # `_check` puts the identity
        return self.V

    def diagonal(self, Q: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
        """`diag(V' Q V)`, shape `(d,)`: all that is measured of Q."""
        return np.einsum("ij,ij->j", self.basis, Q @ self.basis)

    def apply(self, Q):
        return self.a @ self.diagonal(Q)

    def apply_factor(self, U):
        return self.a @ np.square(self.basis.T @ U).sum(axis=1)

    def adjoint(self, w):
        G = (self.basis * (w @ self.a)) @ self.basis.T
        return (G + G.T) / 2

    def adjoint_factor(self, w, U):
        return self.basis @ ((w @ self.a)[:, None] * (self.basis.T @ U))

    def factor_rows(self, U):
        return self.basis @ (self.a[:, :, None] * (self.basis.T @ U))

    @property
    def norms(self):
        return np.linalg.norm(self.a, axis=1)

    def matrices(self):
        return np.einsum("jk,ik,lk->ijl", self.basis, self.a, self.basis)

    @property
    def exponent(self) -> int:
        return _exponent(self.a)

    def times(self, exponent: int, targets: int = 0) -> Self:
        return dataclasses.replace(self, a=np.ldexp(self.a, exponent), y=self._targets(targets), planted=None, notes=())


def _exponent(array: np.ndarray) -> int:
    """`e` with `2**(e-1) <= max |array| < 2**e`."""
    return math.frexp(float(np.abs(array).max()))[1]


def _note_zero(array: np.ndarray, key: str, notes: list[str]) -> None:
    where = np.flatnonzero(~array.reshape(array.shape[0], -1).any(axis=1))
    if where.size:
        more = f" ({where.size} such)" if where.size > 1 else ""
        notes.append(f"`{key}[{where[0]}]` is all zero{more}: it measures nothing, whatever its target is.")
