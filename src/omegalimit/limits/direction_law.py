"""How fast weights align with the maximum margin: the law `angle * log t -> C`, and what it rests on.

Weights `w` follow minus the gradient of `sum_i c_i l(z_i'w)`, `l` with an exponential tail, on separable rows; `u` is
the unit direction of the Euclidean maximum margin `gamma`, `w = (u'w) u + w_perp`. Support vectors have
`z_i'u = gamma`, so that to leading order

    d w_perp / dt = e^{-gamma u'w} sum_SV c_i e^{-z_i'w_perp} P z_i,      P = I - u u',

a descent on `sum_SV c_i exp(-z_i'w_perp)` whose time, `log t`, never ends:

- the part of `w_perp` in `V`, the span of the `P z_i` of support vectors, tends to the balance solution `w*`, the least
  point of that sum over `V`. It exists if and only if some maximum-margin dual is positive on all support vectors;
- the rest of `w_perp` tends to a limit of its own, made by the start, the loss and the other rows on the way;
- with `B` the sum at `w*`, `gamma u'w - log t -> log(gamma^2 B)`, and `t c_i |l'(z_i'w)| -> alpha_i` with
  `sum_i alpha_i z_i = u / gamma`: the dual that training picks, `alpha = p / gamma^2`;
- hence `angle * log t -> C = gamma |lim w_perp|`, and an angle takes the log time `C / angle`. Where the limit is zero
  the law says nothing: alignment is then as fast as a power of `t`.

Nothing is normalised here: `z_i` as given, `w` in units of `1 / z`; `C` and log times have no unit.

**No balance.** Where no dual is positive on all support vectors, `V` has a direction along which no `z_i'y` is negative
and those of some rows are positive: rows whose dual is zero in every maximum-margin dual. The rest still balance within
their own span. Across that, with `s = log t` as time, the rows of zero dual pull by `e^{-z_i'w}` alone, which is the
same separable problem again: `w_perp` grows as `(log log t / gamma_2) u_2`, `gamma_2` and `u_2` the maximum margin of
these rows there, and `angle ~ (gamma / gamma_2) log log t / log t`.

The paper's abstract states a time for weak alignment in a form whose symbols are not known; this law, all that it rests
on and the case without balance are derived here.
"""

import dataclasses

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from .._checks import shape_text, to_float64
from ..certificate import Certificate
from ._arrays import checked, split
from ._balance import Balance, balance, one_sided
from ._support_rows import SupportRows, support_rows
from .max_margin import MaxMargin


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DirectionLaw:
    """The law for these rows, see the top of this file.

    - `u`, `gamma`: the maximum margin, refined to rounding; `certificate`: of what was given.
    - `support`: the rows of least margin; `ambiguous`: further rows that the certificate cannot tell from them (the law
      takes them for none; until `log t` is far above one over their relative excess, runs take them for some).
    - `basis`: orthonormal, of `V`, shape `(d, k)`; `resolution`: how far the least singular value of its rows stands
      above its error (`inf` where `k = 0`).
    - `strictly_complementary`: whether some dual is positive on all support vectors; `None` where neither is shown;
      `reason`: by what. `zero_dual`: the support vectors whose dual is zero in every maximum-margin dual.
    - `balance`: `w*`, shape `(d,)`; `None` unless strictly complementary. `core_balance`: that of the rows which have
      positive duals, over their own span; the same where `zero_dual` is empty, and `None` where that is not known.
    - `gradient`: of the sum at `core_balance`, as a share of its parts; `error`: a bound on the distance of
      `core_balance` from the true one, in the units of `w`, for the support and the span as read.
    - `duals`: `p`, of sum one, shape `(n,)`: the maximum-margin dual that training picks; `None` without it.
    - `offset`: the limit of `gamma u'w - log t`; `None` without it.
    - `second_margin`, `second_direction`: `gamma_2` and `u_2`, shape `(d,)`; `None` unless `zero_dual` has rows.
    - `others_reach`: whether other rows have parts outside of `u` and `V`; if not, what is there stays as it started.
    """

    u: Float[np.ndarray, " d"]
    gamma: float
    certificate: Certificate
    support: Int[np.ndarray, " S"]
    ambiguous: Int[np.ndarray, " M"]
    basis: Float[np.ndarray, "d k"]
    resolution: float
    strictly_complementary: bool | None
    reason: str
    zero_dual: Int[np.ndarray, " Q"]
    balance: Float[np.ndarray, " d"] | None
    core_balance: Float[np.ndarray, " d"] | None
    gradient: float
    error: float
    duals: Float[np.ndarray, " n"] | None
    offset: float | None
    second_margin: float | None
    second_direction: Float[np.ndarray, " d"] | None
    others_reach: bool

    @property
    def dimension(self) -> int:
        """Of `V`."""
        return self.basis.shape[1]

    @property
    def spans(self) -> bool:
        """Whether the support vectors span the whole space: then `lim w_perp` is `balance`, whatever the start."""
        return self.dimension == len(self.u) - 1

    @property
    def residuals(self) -> Float[np.ndarray, " n"] | None:
        """`alpha`, the limits of `t c_i |l'(z_i'w)|`, with `sum_i alpha_i z_i = u / gamma`; `None` without balance."""
        return None if self.duals is None else self.duals / self.gamma / self.gamma

    def inside(self, w: ArrayLike) -> Float[np.ndarray, "... d"]:
        """The part of weights in `V`, shape of `w`, `(..., d)`."""
        return self._shaped("w", w) @ self.basis @ self.basis.T

    def outside(self, w: ArrayLike) -> Float[np.ndarray, "... d"]:
        """The part of weights across `u` and `V`, shape of `w`, `(..., d)`."""
        w = self._shaped("w", w)
        return np.zeros_like(w) if self.spans else w - np.multiply.outer(w @ self.u, self.u) - self.inside(w)

    def limit(self, start: ArrayLike | None = None) -> Float[np.ndarray, " d"] | None:
        """`lim w_perp` from `start` (zero without one), where theory has it; `None` where only a run does.

        That is so where there is no balance, and where other rows move what is outside of `V`.
        """
        beside = np.zeros_like(self.u) if start is None else self.outside(self._shaped("start", start, one=True))
        if self.balance is None or (self.others_reach and not self.spans):
            return None
        return self.balance + beside

    def constant(self, w_perp: ArrayLike | None = None) -> float | None:
        """`C = gamma |lim w_perp|`; `w_perp`: the limit as a run has it, else that of a run from zero, if known.

        Of `w_perp` only what is across `u` counts, so that a run's own weights serve.
        """
        limit = self.limit() if w_perp is None else self._shaped("w_perp", w_perp, one=True)
        return None if limit is None else _length(self.gamma * (limit - (limit @ self.u) * self.u))

    @property
    def void(self) -> bool | None:
        """Whether `lim w_perp` of a run from zero is zero within its error, so that the law says nothing."""
        limit = self.limit()
        return None if limit is None else bool(_length(limit) <= self.error)

    def log_time(self, angle: float, w_perp: ArrayLike | None = None) -> float | None:
        """`C / angle`, the log time to this angle in radians, to leading order; later than that at large angles.

        Raises `ValueError` for an angle that is not positive.
        """
        size = to_float64(angle, "angle")[0]
        if size.ndim or not (np.isfinite(size) and size > 0):
            raise ValueError(f"`angle` must be one positive number, in radians; got {angle!r}.")
        constant = self.constant(w_perp)
        return None if constant is None else constant / float(size)

    def _shaped(self, name: str, w: ArrayLike, *, one: bool = False) -> np.ndarray:
        """Weights in double precision, shape `(..., d)`, or `(d,)` for `one`."""
        array, d = to_float64(w, name)[0], len(self.u)
        if array.shape != (d,) and (one or array.shape[-1:] != (d,)):
            wanted = f"({d},)" if one else f"(..., {d})"
            raise ValueError(f"`{name}` must have shape {wanted}; got {shape_text(array.shape)}.")
        return array


def direction_law(
    Z: ArrayLike,
    u: ArrayLike,
    gamma: float | None = None,
    *,
    multipliers: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
) -> DirectionLaw:
    """The law of rows `Z` whose Euclidean maximum margin has the direction `u`.

    - `Z`: rows `y_i x_i`, shape `(n, d)`; `u`: shape `(d,)`, of any length; `gamma`: the margin, compared where given.
    - `multipliers`: of the maximum margin, shape `(n,)`, as `solve(MaxMargin("l2", rows=Z))` has them; without them
      they are found from `u`.
    - `weights`: `c_i > 0`, shape `(n,)`; `1 / n` without them.
    - `tol`: the largest certified gap of `u` with which the support vectors are looked for.

    Nothing changes but the units when `Z` is scaled. Raises `ValueError` for shapes that do not fit, entries that are
    not finite, weights that are not positive, a `tol` outside (0, 1), and a `u` or `gamma` that are not the maximum
    margin to `tol`; `TypeError` for what is no number.
    """
    tol = _number("tol", tol)
    if not 0 < tol < 1:
        raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol:g}.")
    gamma = None if gamma is None else _number("gamma", gamma)
    rows, direction, c = _checked(Z, u, weights)
    limit = MaxMargin("l2", rows=rows)
    certificate = limit.certify(direction, multipliers)
    gap = max(certificate.gap, 0.0) + certificate.relative_slack
    if not (certificate.lower > 0 and gap <= tol):
        raise ValueError(
            f"`u` is not the direction of the Euclidean maximum margin: its margin is {certificate.lower:.6g}, and at "
            f'most {certificate.upper:.6g} is proved. Take it from `solve(MaxMargin("l2", rows=Z))`.'
        )
    if gamma is not None and not abs(gamma - certificate.lower) <= (tol + gap) * certificate.lower:
        raise ValueError(f"`gamma` is {gamma:.10g}, and the margin of `u` is {certificate.lower:.10g}.")
    scaled, exponent = split(rows)
    unit = split(direction)[0] / np.linalg.norm(split(direction)[0])
    found = support_rows(scaled, unit, gap, certificate.multipliers)
    return _law(found, scaled, exponent, np.log(c), certificate)


def _checked(Z, u, weights):
    if scipy.sparse.issparse(Z):
        raise TypeError("`Z` is a sparse array; pass `Z.toarray()`.")
    rows, direction = checked("Z", Z), checked("u", u)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"`Z` must have shape (n, d) and at least one entry; got {shape_text(rows.shape)}.")
    if direction.shape != rows.shape[1:]:
        raise ValueError(f"`u` must have shape {shape_text(rows.shape[1:])}; got {shape_text(direction.shape)}.")
    c = np.full(len(rows), 1 / len(rows)) if weights is None else checked("weights", weights)
    if c.shape != rows.shape[:1]:
        raise ValueError(f"`weights` must have shape {shape_text(rows.shape[:1])}; got {shape_text(c.shape)}.")
    bad = np.flatnonzero(c <= 0)
    if len(bad):
        i = int(bad[0])
        raise ValueError(f"`weights[{i}]` is {c[i]:g}; each must be positive. Drop the rows that are not to count.")
    return rows, direction, c


def _number(name, value) -> float:
    array = to_float64(value, name)[0]
    if array.ndim:
        raise ValueError(f"`{name}` must be one number; got shape {shape_text(array.shape)}.")
    return float(array)


def _law(found: SupportRows, scaled, exponent, log_weights, certificate) -> DirectionLaw:
    """The law in the units of the rows as given, from the support vectors in units of margin one."""
    A, logs = found.across @ found.basis, log_weights[found.rows]
    n, length = len(scaled), np.ldexp(1 / found.gamma, -exponent)
    gamma = float(np.ldexp(found.gamma, exponent))
    sizes = np.linalg.norm(scaled, axis=1) / found.gamma
    complementary, reason, idle, at, span = _complementarity(A, logs, found.unit * sizes[found.rows], found.rows)
    core = np.setdiff1d(np.arange(len(found.rows)), idle)
    point, duals, offset, second = None, None, None, (None, None)
    if at is not None:
        point = length * (found.basis @ (span @ at.point))
        duals = np.zeros(n)
        duals[found.rows[core]] = at.forces
        offset = float(at.log_value + 2 * np.log(found.gamma) + 2 * exponent * np.log(2.0))
    if len(idle):
        second = _second(A[idle], span, found.basis, gamma)
    rest = scaled / found.gamma
    rest = rest - np.outer(rest @ found.u, found.u)
    rest = rest - rest @ found.basis @ found.basis.T
    reach = np.linalg.norm(rest, axis=1) > 4 * found.unit * sizes
    reach[found.rows] = False
    return DirectionLaw(
        u=found.u,
        gamma=gamma,
        certificate=certificate,
        support=found.rows,
        ambiguous=found.ambiguous,
        basis=found.basis,
        resolution=found.resolution,
        strictly_complementary=complementary,
        reason=reason,
        zero_dual=found.rows[idle],
        balance=point if complementary else None,
        core_balance=point,
        gradient=np.inf if at is None else at.gradient,
        error=np.inf if at is None else float(length * at.error),
        duals=duals,
        offset=offset,
        second_margin=second[0],
        second_direction=second[1],
        others_reach=bool(reach.any()),
    )


def _complementarity(A, logs, errors, names) -> tuple[bool | None, str, np.ndarray, Balance | None, np.ndarray]:
    """Whether all rows can have positive duals, by what it is shown, those that cannot, and the balance of the rest.

    The balance's point is in the coordinates of `span`, an orthonormal basis of the rest, as columns.
    """
    none, whole = np.zeros(0, dtype=int), np.eye(A.shape[1])
    at = balance(A, logs, errors)
    if at.exists:
        reason = f"the dual at the balance solution is positive on all {len(A)} support vectors"
        return True, reason + f"; its least share is {at.forces.min():.1e}.", none, at, whole
    idle = one_sided(A)
    if idle is None:
        reason = "no positive dual was found on all support vectors, nor a direction that rules it out: too near a tie"
        return None, reason + " for double precision.", none, None, whole
    core = np.setdiff1d(np.arange(len(A)), idle)
    named = ", ".join(map(str, names[idle][:6])) + (", ..." if len(idle) > 6 else "")
    reason = f"the dual of row{'s' if len(idle) > 1 else ''} {named} is zero in every maximum-margin dual."
    span = _span(A[core])
    rest = balance(A[core] @ span, logs[core], errors[core])
    return False, reason, idle, rest if rest.exists else None, span


def _span(A):
    """An orthonormal basis of what these rows span, as columns."""
    lengths = np.linalg.norm(A, axis=1)
    kept = lengths > 1e-12 * lengths.max(initial=0.0)
    if not kept.any():
        return np.zeros((A.shape[1], 0))
    _, singular, directions = np.linalg.svd(A[kept] / lengths[kept][:, None], full_matrices=False)
    return directions[singular > 1e-12 * singular[0]].T


def _second(A, span, basis, gamma):
    """The maximum margin of the rows of zero dual across the span of the others, in the units of the rows as given."""
    B = A - A @ span @ span.T
    p, _ = nnls(np.vstack([B.T, np.ones(len(B))]), np.append(np.zeros(B.shape[1]), 1.0))
    y = B.T @ p
    y = y / np.linalg.norm(y)
    return float(gamma * (B @ y).min()), basis @ y


def _length(w) -> float:
    """The Euclidean length, of any size."""
    scaled, exponent = split(w)
    return float(np.ldexp(np.linalg.norm(scaled), exponent))
