"""Rows for `early_alignment` with their certified maximum margin, and the law that theory derives from it."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ...certificate import Certificate
from ...claims import Assumption
from ...limits import MaxMargin
from ...limits.direction_law import DirectionLaw, direction_law
from ...solvers import Solution, solve

LATEST = 1e5
"""Log time beyond which no run is sent, however slowly the law's remainder falls."""

REMAINDER = 1e-7
"""What may be left of the law's remainder at three quarters of the log time, where it is judged from."""

PAIR_START = np.array([0.0, 1.0])
"""Where runs on the symmetric pair start: from zero they would stay on the line of u."""

ROUGH = 10.0
"""The remainder is guessed to be this many times its leading power of t, to choose how long to run."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """Rows `z_i`, weights, and what theory says of them.

    - `Z`: shape (n, d); `weights`: c_i, shape (n,).
    - `margin`: the certified maximum margin; `law`: the balance solution and what follows from it.
    """

    name: str
    Z: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]
    margin: Certificate
    law: DirectionLaw

    @property
    def n(self) -> int:
        return self.Z.shape[0]

    @property
    def d(self) -> int:
        return self.Z.shape[1]

    @property
    def u(self) -> Float[np.ndarray, " d"]:
        """The maximum-margin direction, of length one."""
        return self.law.u

    @property
    def gamma(self) -> float:
        """The maximum margin."""
        return self.law.gamma

    @property
    def angle_error(self) -> float:
        """By how much u may be off, in radians, as the certificate has it: `2 arccos(1 - gap / 2)`.

        Halfway between u and the true direction, phi apart, the margin is at least `(1 - gap / 2) gamma*` and the
        length is cos(phi / 2). Derived here.
        """
        gap = max(0.0, self.margin.gap) + self.margin.relative_slack
        return 2 * math.acos(max(-1.0, 1 - gap / 2))

    @property
    def natural_log_time(self) -> float:
        """Log of the time in which the longest row, alone, would come to a margin of about one: its unit of time."""
        return -2 * math.log(float(np.linalg.norm(self.Z, axis=1).max()))

    @property
    def support(self) -> Int[np.ndarray, " S"]:
        """The rows with the least margin."""
        return self.law.support

    @property
    def balance(self) -> Float[np.ndarray, " d"] | None:
        """w*, the V-part of lim w_perp; `None` where no dual is positive on all support vectors."""
        return self.law.balance

    @property
    def no_balance(self) -> str:
        """Why there is no balance solution, or none that is known."""
        if self.law.strictly_complementary is None:
            return f"whether there is a balance solution is not decided: {self.law.reason}"
        named = ", ".join(map(str, self.law.zero_dual[:6]))
        return (
            f"no maximum-margin dual is positive on all support vectors (zero on rows {named}): there is no balance "
            "solution"
        )

    @property
    def undecided(self) -> str | None:
        """Why the law is not known, where neither a balance solution nor its absence is shown."""
        return self.no_balance.rstrip(".") if self.law.strictly_complementary is None else None

    def inside(self, x: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """The part of vectors across u in the support vectors' span."""
        return self.law.inside(x)

    def outside(self, x: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """The part of vectors across u outside of that span."""
        return self.law.outside(x)

    @property
    def n_outside(self) -> int:
        """Directions across u that no support vector reaches."""
        return self.d - 1 - self.law.dimension

    @property
    def offset(self) -> float | None:
        """`b = log(gamma^2 B)`, the limit of `gamma u'w - log t`; B the least `sum_SV c_i exp(-z_i'w)`."""
        return self.law.offset

    @property
    def shares(self) -> Float[np.ndarray, " n"] | None:
        """`p`, the limits of `gamma^2 t c_i |l'|`: of sum one, zero but on support vectors."""
        return self.law.duals

    @functools.cached_property
    def rate(self) -> float:
        """The power r of 1/t with which the law's remainder falls.

        The least of: the slowest way into the balance, the smallest eigenvalue of `sum_i p_i z_i z_i' / gamma^2` on V;
        the fading of the next row, `(z_i'u) / gamma - 1`; and one, of the start and of the loss beyond its exponential.
        Derived here, by linearising `d w_perp / ds` at its limit.
        """
        rest = np.delete(self.Z @ self.u / self.gamma - 1, self.support)
        found = [1.0, *([float(rest.min())] if rest.size else [])]
        if self.balance is not None and self.shares is not None and self.law.dimension:
            across = self.Z[self.support] @ self.law.basis / self.gamma
            found.append(float(np.linalg.eigvalsh((across.T * self.shares[self.support]) @ across)[0]))
        return min(found)

    def horizon(self, until: float) -> float:
        """The log time to run to: at least `until`, later where the remainder falls slowly."""
        needed = (math.log(ROUGH / REMAINDER) / self.rate - (self.offset or 0.0)) / 0.75 if self.rate > 0 else LATEST
        return max(until, min(needed, LATEST))

    def another_start(self, seed: int) -> Float[np.ndarray, " d"]:
        """Weights to start from instead of zero, of length 3 / gamma."""
        w = np.random.default_rng([seed, 1]).normal(size=self.d)
        return 3 * w / np.linalg.norm(w) / self.gamma

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The conditions of the law on the rows."""
        return (
            Assumption(name="separable", holds=self.margin.lower > self.margin.slack, measured=self.margin.lower),
            Assumption(
                name="a dual positive on all support vectors",
                holds=self.law.strictly_complementary,
                measured=self.law.reason,
            ),
        )

    def summary(self, exponent: int = 0) -> dict[str, Any]:
        """The instance and its law, JSON-ready; for rows that are these times `2^exponent`."""
        balance, offset = self.balance, self.offset
        return {
            "rows": self.n,
            "dimension": self.d,
            "margin": math.ldexp(self.gamma, exponent),
            "relative_gap": self.margin.gap,
            "support_vectors": self.support.tolist(),
            "directions_they_reach": self.law.dimension,
            "directions_they_do_not": self.n_outside,
            "balance_solution": None if balance is None else np.ldexp(balance, -exponent).tolist(),
            "offset_b": None if offset is None else offset + log_unit(exponent),
            "power_of_the_remainder": self.rate,
        }


def log_unit(exponent: int) -> float:
    """What log times lose, and `b` gains, for rows that are `2^exponent` times those that are run: time is 1/rows^2."""
    return 2 * exponent * math.log(2.0)


def instance(name: str, Z: Float[np.ndarray, "n d"], weights: Float[np.ndarray, " n"] | None = None) -> Instance:
    """Rows with equal weights 1/n, or these. Raises `ValueError` when they are not separable: the proof is named."""
    solution = solve(MaxMargin("l2", rows=Z))
    if solution.status != "optimal":
        raise ValueError(f"{name}: {refusal(solution, Z)}")
    return of_solution(name, Z, solution, weights)


def of_solution(
    name: str,
    Z: Float[np.ndarray, "n d"],
    solution: Solution[Certificate],
    weights: Float[np.ndarray, " n"] | None = None,
) -> Instance:
    """The instance of rows whose maximum margin is solved."""
    c = np.full(len(Z), 1 / len(Z)) if weights is None else weights
    margin = solution.certificate
    law = direction_law(Z, margin.point, margin.lower, multipliers=margin.multipliers, weights=c)
    return Instance(name=name, Z=Z, weights=c, margin=margin, law=law)


def refusal(solution: Solution[Certificate], Z: Float[np.ndarray, "n d"]) -> str:
    """Why there is no maximum margin, in a sentence: the rows that cancel, with their multipliers."""
    if solution.farkas is None:
        return f"whether the rows are separable could not be decided: {solution.reason}"
    p = solution.farkas
    rows = np.flatnonzero(p)
    size = float(p @ np.linalg.norm(Z, axis=1))
    left = float(np.linalg.norm(p @ Z)) / size if size > 0 else 0.0
    shown = " + ".join(f"{p[i]:.4g} z[{i}]" for i in rows[:6]) + (f" + {len(rows) - 6} more" if len(rows) > 6 else "")
    return (
        f"not separable: the combination {shown} of the rows z[i] = y[i] x[i] is zero (to {left:.0e} of the lengths "
        "combined), so that no w has z[i]'w > 0 on all of them (Farkas)."
    )


def fixture() -> Instance:
    """Four rows in the plane with u = (1, 0), gamma = 1, w* = (0, 0.4620981)."""
    return instance("fixture", np.array([[1.0, 1.0], [1.0, -0.5], [2.0, 1.5], [1.5, 3.0]]))


def unreached() -> Instance:
    """Four rows in R^3 whose support vectors, the first two, do not reach the third direction; the others do."""
    return instance("unreached", np.array([[1.0, 1.0, 0.0], [1.0, -0.5, 0.0], [2.0, 1.5, 1.0], [1.5, 0.5, 2.0]]))


def pair() -> Instance:
    """Two rows (1, a), (1, -a) with a = 1/2: w* = 0."""
    return instance("symmetric pair", np.array([[1.0, 0.5], [1.0, -0.5]]))
