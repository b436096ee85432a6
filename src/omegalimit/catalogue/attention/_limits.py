"""The limit problems that the paper predicts for one parametrisation, each solved once and only when asked for."""

import dataclasses
import functools

import numpy as np

from ...data import TokenData
from ...limits import MaxMargin
from ...solvers import Solution, solve

NAMES = {"nuclear": "nuclear", "frobenius": "Frobenius", "l1": "l1", "l2": "l2"}
OWN_NORM = {"kq": "nuclear", "merged": "frobenius", "diagonal-kq": "l1", "diagonal-merged": "l2"}
OTHER_NORM = {"nuclear": "frobenius", "frobenius": "nuclear", "l1": "l2", "l2": "l1"}
MAX_MARGIN_CLAIM = {
    "nuclear": "nuclear-max-margin",
    "frobenius": "frobenius-max-margin",
    "l1": "l1-max-margin",
    # Over diagonal matrices the Frobenius norm is the l2 norm of the diagonal.
    "l2": "frobenius-max-margin",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Limits:
    """The limit problems of one parametrisation for given tokens, each solved once and only when asked for."""

    data: TokenData
    diagonal: bool
    selection: tuple[int, ...]

    def problem(self, norm: str) -> MaxMargin:
        """`min |W| : (x_selected - x_l)^T W z >= 1` in a norm; for diagonals the rows are `(x_selected - x_l) * z`."""
        D = self.data.differences(np.array(self.selection))
        Z = np.broadcast_to(self.data.z[:, None, :], D.shape)
        d = D.shape[2]
        if not self.diagonal:
            return MaxMargin(norm, left=D.reshape(-1, d), right=Z.reshape(-1, d))
        return MaxMargin(norm, rows=(D * Z).reshape(-1, d))

    @functools.cached_property
    def _problems(self) -> dict[str, MaxMargin]:
        return {}

    @functools.cached_property
    def _solutions(self) -> dict[str, Solution]:
        return {}

    def __getitem__(self, norm: str) -> MaxMargin:
        if norm not in self._problems:
            self._problems[norm] = self.problem(norm)
        return self._problems[norm]

    def solution(self, norm: str) -> Solution:
        """The certified solution in one norm; aims at a gap of 1e-9."""
        if norm not in self._solutions:
            self._solutions[norm] = solve(self[norm], tol=1e-9)
        return self._solutions[norm]

    def excess(self, norm: str, of: str) -> float:
        """`|W_of| / |W_norm| - 1` in `norm`, both optima with margin one: the other optimum's excess."""
        limit = self[norm]
        own, other = self.solution(norm).certificate.point, self.solution(of).certificate.point
        return limit.norm_of(other) / limit.norm_of(own) - 1

    def distance(self, norm: str, point: np.ndarray) -> float:
        """`1 - margin(point) / gamma*`: the gap of a point against the solved limit's upper bound."""
        certificate = self.solution(norm).certificate
        limit = self[norm]
        return 1 - float(limit.margins(point).min()) / limit.norm_of(point) / certificate.upper


def n_not_best(data: TokenData, selection: np.ndarray) -> int:
    """How many inputs attend to a token that is not best-scored, nor tied with the best."""
    return sum(int(data.best[i]) != int(k) and not data.is_best[i, k] for i, k in enumerate(selection))
