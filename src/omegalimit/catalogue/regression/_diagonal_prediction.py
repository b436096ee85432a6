"""What the theory predicts for a diagonal network: the path of saddles, and the two least-norm problems beside it."""

import dataclasses
import functools
import math

import numpy as np

from ...limits import Face, Interpolation, ModifiedL1, optimal_face
from ...limits.saddle_path import SaddlePath
from ...solvers import Solution, solve
from ...solvers.saddle_path import PathSolution, saddle_path


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction:
    """Algorithm 1 and the least-norm problems for one instance and its growth times, each solved once.

    - `X` (n, d), `y` (n,): of full row rank; `t_plus`, `t_minus` (d,): growth times, on the scaled clock.
    """

    X: np.ndarray
    y: np.ndarray
    t_plus: np.ndarray
    t_minus: np.ndarray

    @functools.cached_property
    def path(self) -> PathSolution:
        """The path of saddles, each certified from the data."""
        return saddle_path(SaddlePath(self.X, self.y, self.t_plus, self.t_minus))

    @functools.cached_property
    def times(self) -> np.ndarray:
        """Scaled times `T_0 = 0 < T_1 < ...` at which the path goes to saddle p, shape (P + 1,)."""
        return self.path.times

    @functools.cached_property
    def k(self) -> np.ndarray:
        """The saddles and the limit, shape (P + 1, d), with zeros for weights that are rounding of the fit."""
        k = np.array([self.path.k(p) for p in range(self.path.n_plateaus)])
        parts = np.abs(k) * np.linalg.norm(self.X, axis=0)
        rounding = 64 * np.finfo(float).eps * (np.linalg.norm(self.y) + parts.sum(axis=1, keepdims=True))
        return np.where(parts > rounding, k, 0.0)

    @functools.cached_property
    def s(self) -> np.ndarray:
        """The accumulated forces at the times, shape (P + 1, d)."""
        return np.array([self.path.s(p) for p in range(self.path.n_plateaus)])

    @property
    def unique(self) -> bool:
        """True when every saddle is one point; else dependent features are active together, and only X k is one."""
        return bool(self.path.unique.all())

    def seen(self, k: np.ndarray) -> np.ndarray:
        """What of weights (..., d) the path determines: themselves, or `X k` where they are not unique."""
        return k if self.unique else k @ self.X.T

    @functools.cached_property
    def steps(self) -> np.ndarray:
        """For each saddle the shorter of the steps to its neighbours (largest entry), shape (P + 1,)."""
        lengths = np.abs(np.diff(self.seen(self.k), axis=0)).max(axis=1, initial=0.0)
        return np.minimum(np.append(np.inf, lengths), np.append(lengths, np.inf))

    @functools.cached_property
    def limit(self) -> Interpolation:
        """`min R(k) = sum t+ k+ + t- k-` subject to `X k = y`."""
        return Interpolation(ModifiedL1(self.t_plus, self.t_minus), self.X, self.y)

    @functools.cached_property
    def plain(self) -> Interpolation:
        """`min |k|_1` subject to `X k = y`."""
        return Interpolation(ModifiedL1(1.0, 1.0), self.X, self.y)

    @functools.cached_property
    def solution(self) -> Solution:
        """The certified solution of `limit`."""
        return solve(self.limit, tol=1e-10)

    @functools.cached_property
    def plain_solution(self) -> Solution:
        """The certified solution of `plain`."""
        return solve(self.plain, tol=1e-10)

    @functools.cached_property
    def face(self) -> Face | None:
        """The set of all interpolants of least R; `None` where the problem is not solved."""
        return None if self.unsolved() else optimal_face(self.limit, self.solution.certificate)

    def unsolved(self, *, plain: bool = False) -> str | None:
        """Why the least norm is not known, in a sentence, or `None`."""
        found = self.plain_solution if plain else self.solution
        name = "plain" if plain else "modified"
        return None if found.status == "optimal" else f"the least {name} l1 norm is not solved: {found.reason}"

    def excess(self, k: np.ndarray, *, plain: bool = False) -> tuple[float, float]:
        """How much more norm `k` has, moved onto `X k = y`, than the certified lower bound; and the rounding of that.

        Relative to the lower bound; infinite where `k` cannot be moved there or has a forbidden sign.
        """
        limit, solution = (self.plain, self.plain_solution) if plain else (self.limit, self.solution)
        best = solution.certificate
        if not best.lower > 0 or not np.isfinite(k).all():
            return math.nan, 0.0
        own = limit.certify(k, best.multipliers)
        slack = (own.slack + best.slack) / best.lower
        return own.upper / best.lower - 1, slack if math.isfinite(slack) else 0.0

    @functools.cached_property
    def excess_of_plain(self) -> float:
        """The excess in R of the least plain l1 norm."""
        return self.excess(self.plain_solution.certificate.point)[0]

    @functools.cached_property
    def l1_excess_of_modified(self) -> float:
        """The excess in the l1 norm of the least R."""
        return self.excess(self.solution.certificate.point, plain=True)[0]
