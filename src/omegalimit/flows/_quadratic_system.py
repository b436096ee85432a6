"""What a quadratic flow is to the engine that runs it."""

from __future__ import annotations

import abc

import numpy as np
from jaxtyping import Float

from ._quadratic_loss import ScaledProblem


class System(abc.ABC):
    """A flow in units of size one, in coordinates y, shape (N,), whose entries fall in groups of one size each.

    Only `rebase` may change what the coordinates mean; `user` and `state` always know.
    """

    coordinates: str
    problem: ScaledProblem
    y0: Float[np.ndarray, " N"]
    accuracy: float
    rank_start: int

    @abc.abstractmethod
    def field(self, t: float, y: np.ndarray) -> np.ndarray:
        """`dy/dt`."""

    @abc.abstractmethod
    def jacobian(self, t: float, y: np.ndarray) -> np.ndarray:
        """Derivative of `field` in y, shape (N, N)."""

    @abc.abstractmethod
    def outputs(self, y: np.ndarray) -> np.ndarray:
        """`<A_i, Q>`, shape (n,)."""

    @abc.abstractmethod
    def slopes(self, y: np.ndarray, w: np.ndarray, gamma: float) -> tuple[float, float, float, np.ndarray]:
        """`(|G U| / |U|, log |U|, growth, log_spectrum)`, Q in place of U for the quotient and the mirror.

        For the loss's derivative w; G is over `gamma = sum |w_i| |A_i|_F`, and zero where that is.
        """

    @abc.abstractmethod
    def drift(self, y: np.ndarray) -> float:
        """See `QuadraticResult.drift`."""

    @abc.abstractmethod
    def sizes(self, y: np.ndarray) -> np.ndarray:
        """Root mean squares of the groups, shape (number of groups,)."""

    @abc.abstractmethod
    def spread(self, sizes: np.ndarray) -> np.ndarray:
        """A number for each group as one for each entry, shape (N,)."""

    def logs(self) -> bool:
        """Whether y holds logs, whose errors are relative ones already."""
        return False

    def worn(self, y: np.ndarray) -> bool:
        """Whether errors have carried y where the exact flow cannot be, so far that `rebase` must mend it."""
        return False

    def hidden(self, y: np.ndarray) -> bool:
        """Whether something that the start had, and that grows, has sunk below the rounding of y."""
        return False

    def rebase(self, y: np.ndarray) -> np.ndarray:
        """y in coordinates that fit it, without what the exact flow cannot have."""
        return y

    @abc.abstractmethod
    def user(self, y: np.ndarray) -> np.ndarray:
        """The user's state for y in the coordinates of now, in units of size one."""

    @abc.abstractmethod
    def state(self, user: np.ndarray) -> np.ndarray:
        """The same in the user's unit."""
