"""The ordinary differential equations of a diagonal network, in places on the orbits or in the weights themselves."""

import copy
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ..models.diagonal import AbstractNeurons, NeuronFunctions, PowerDifference, ProductNeurons, WeightedSquares
from ._explicit import ExplicitStep, between
from ._orbit_tables import TableOrbits
from ._orbits import AbstractOrbits, Array, Place, PowerOrbits, ProductOrbits, QuadraticOrbits
from ._stiff import AbstractAutonomous, DenseAutonomous, Solve, StiffIntegrator, factored

NEGLIGIBLE = 1e-17  # of a row of the linear system, below which an entry changes no bit of the solution


class OrbitSystem(AbstractAutonomous):
    """`z_i' = u_i(k(z)) rate_i(z_i)`, in `q = e^{-+ m z}` where the orbit's ends are at finite tau.

    There `x ~ 1 / (tau_end - tau)^{1/m}`, so that q, which is in proportion to `tau_end - tau`, moves on a straight
    line while u rests, and z does not: it would cost thirty steps for each decade of x. Errors are relative in q. The
    sign is of the nearer end; `at_node` chooses it anew between two steps.
    """

    def __init__(self, orbits: AbstractOrbits, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> None:
        self.orbits, self.X, self.y = orbits, X, y
        self.sizes = np.linalg.norm(X, axis=0)
        self.probe = np.ones(len(X)) / np.sqrt(len(X))
        self.seen: tuple[np.ndarray, Place] | None = None
        self.m = orbits.pole
        self.side = orbits.nearer_end(orbits.start)

    def q(self, z: Array) -> Array:
        """The coordinate that is integrated."""
        return np.exp(-self.m * self.side * z) if self.m else z

    def z(self, q: Array) -> Array:
        """The orbit's coordinate; NaN beyond the end."""
        return -self.side * np.log(q) / self.m if self.m else q

    def at_node(self, q: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"] | None:
        """The same place by the nearer end; None where that is already so."""
        z = self.z(q)
        side = self.orbits.nearer_end(z)
        if not self.m or (side == self.side).all():
            return None
        self.side = side
        return self.q(z)

    def speed(self, z: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """dz/dw, leading axes free."""
        k, rate = self.orbits.k_and_rate(z)
        u = (self.y - k @ self.X.T) @ self.X
        return u if rate is None else u * rate

    def field(self, y: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        if not self.m:
            return self.speed(y)
        return -self.m * self.side * y * self.speed(self.z(y))

    def _place(self, y: Float[np.ndarray, " d"]) -> Place:
        """`orbits.at`, which is asked for twice at every state."""
        if self.seen is None or self.seen[0] is not y:
            self.seen = y, self.orbits.at(self.z(y))
        return self.seen[1]

    def fastest(self, y: Float[np.ndarray, " d"]) -> float:
        """The largest eigenvalue of `G^(1/2) X^T X G^(1/2)`, G the `dk/dtau`, by one step of the power method from what
        the last call came to; and the decay of a coordinate of its own where it has an end. Infinite where explicit
        steps, which overshoot, would be dear."""
        if not self.orbits.far_is_cheap:
            return np.inf
        place = self._place(y)
        G = place.slope * place.rate
        apart = self.sizes * self.sizes * np.abs(G)
        image = self.X @ (G * (self.probe @ self.X))
        size = float(np.sqrt(image @ image))
        if 0 < size < np.inf:
            self.probe = image / size
        found = min(float(apart.sum()), 1.2 * max(size, float(apart.max())))
        if self.m:
            u = (self.y - place.k @ self.X.T) @ self.X
            found += max(0.0, float(np.max(-u * (place.rate_slope - self.m * self.side * place.rate))))
        return found

    def unit(self, y: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"] | float:
        return y if self.m else self.orbits.unit

    def reach(self, y: Float[np.ndarray, " d"], f: Float[np.ndarray, " d"]) -> float:
        """To the nearest end of an orbit, of the neurons that run into it: one at rest at size one is held by the loss,
        and what is left of its speed is rounding."""
        if not self.m:
            return np.inf
        place = self.orbits.at(self.z(y))
        held = self.sizes**2 * np.abs(place.slope * place.rate)
        return float(np.min(np.where((f < 0) & (held * y < -f), -y / f, np.inf)))

    def factor(self, y: Float[np.ndarray, " d"], shift: float) -> Solve:
        """In units of q, so that q itself drops out. Columns of neurons that are far from size one vanish: the rest is
        a small dense system."""
        place = self._place(y)
        u = self.X.T @ (self.y - self.X @ place.k)
        own, rate, slope, scale = u * place.rate_slope, place.rate, place.slope, np.ones_like(y)
        if self.m:
            turn = -self.m * self.side
            own, rate, slope, scale = own + turn * u * rate, turn * rate, slope / turn, y
        reach = self.sizes * np.abs(slope) * np.max(self.sizes * np.abs(rate), initial=0.0)
        live = np.flatnonzero(~(reach <= NEGLIGIBLE * shift))
        alone = np.ones(y.size, dtype=bool)
        alone[live] = False
        XA, slope = self.X[:, live], slope[live]
        J = -(rate[live, None] * (XA.T @ XA)) * slope
        J.flat[:: live.size + 1] += own[live]
        solve = factored(shift, J) if live.size else np.copy
        if live.size == y.size:
            return (lambda b: solve(b / scale) * scale) if self.m else solve

        def solved(b):
            b = b / scale
            w = np.empty_like(b)
            w[live] = solve(b[live])
            pushed = b - rate * (self.X.T @ (XA @ (slope * w[live])))
            w[alone] = pushed[alone] / (shift - own[alone])
            return w * scale

        return solved


class WeightSystem(DenseAutonomous):
    """`theta_i' = u_i grad k_i(theta_i)` in the weights themselves."""

    def __init__(self, model: AbstractNeurons, X, y, shape: tuple[int, ...], floor: float) -> None:
        self.model, self.X, self.y, self.shape, self.floor = model, X, y, shape, floor

    def field(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        theta = y.reshape(self.shape)
        u = self.X.T @ (self.y - self.X @ self.model.k(theta))
        return (u[:, None] * self.model.gradient(theta)).ravel()

    def jacobian(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N N"]:
        theta = y.reshape(self.shape)
        d, m = self.shape
        u = self.X.T @ (self.y - self.X @ self.model.k(theta))
        g = self.model.gradient(theta)
        J = -np.einsum("ia,ij,jb->iajb", g, self.X.T @ self.X, g)
        J[np.arange(d), :, np.arange(d), :] += u[:, None, None] * self.model.hessian(theta)
        return J.reshape(d * m, d * m)

    def unit(self, y: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        return np.maximum(np.abs(y), self.floor)


def make_orbits(model, shape, log_s: float, k_unit) -> AbstractOrbits:
    if isinstance(model, ProductNeurons):
        if model.depth == 2:
            return QuadraticOrbits(shape, log_s, np.array([0.5, 0.5]), product=True)
        return ProductOrbits(shape, log_s)
    if isinstance(model, WeightedSquares):
        return QuadraticOrbits(shape, log_s, model.coefficients, product=False)
    if isinstance(model, PowerDifference):
        if model.power == 2:
            return QuadraticOrbits(shape, log_s, np.ones(2), product=False)
        bad = np.argwhere(~(shape > 0))
        if bad.size:
            i, j = (int(q) for q in bad[0])
            raise ValueError(
                f"`shape[{i}, {j}]` is {shape[i, j]:g}; u^D - v^D with D > 2 needs positive weights (they stay so)."
            )
        return PowerOrbits(shape, log_s, model.power)
    if isinstance(model, NeuronFunctions):
        low, high = model.extreme_eigenvalues(len(shape))
        flat = np.flatnonzero(~((low < 0) & (high > 0)))
        if flat.size:
            i = int(flat[0])
            raise ValueError(
                f"neuron {i} has the Hessian eigenvalues {low[i]:g} to {high[i]:g} at the origin; a two-layer neuron "
                "needs a negative and a positive one. Products of more than two weights are `ProductNeurons(depth)`."
            )
        for i in range(len(shape)):
            tensors = model.neuron(i).tensors
            if tensors[0] != 0 or tensors[1].any():
                raise ValueError(
                    f"neuron {i} has k(0) = {float(tensors[0]):g} and a gradient of size {np.abs(tensors[1]).max():g} "
                    "at the origin; both must be zero for an infinitesimal start."
                )
        return TableOrbits(model, shape, log_s, k_unit)
    raise TypeError(f"`model` must be neurons such as ProductNeurons(3); got {type(model).__name__}.")


class Charts:
    """What a run needs of its coordinates: orbits, or the weights themselves."""

    def __init__(self, model, X, y, theta, log_s: float, coordinates: str) -> None:
        self.model = model
        sizes = np.linalg.norm(X, axis=0)
        with np.errstate(divide="ignore"):
            k_unit = np.linalg.norm(y) / np.where(sizes > 0, sizes, np.inf)
        self.orbits = make_orbits(model, theta, log_s, k_unit)
        self.in_orbits = coordinates == "orbits"
        self.log_unit = self.orbits.log_unit if self.in_orbits else 0.0
        if self.in_orbits:
            self.system = OrbitSystem(self.orbits, X, y)
            self.start = self.system.q(self.orbits.start)
        else:
            weights = math.exp(log_s) * theta
            self.start = weights.ravel()
            floor = math.exp((3 if isinstance(model, PowerDifference) and model.power == 2 else 1) * log_s)
            self.system = WeightSystem(model, X, y, weights.shape, floor * float(np.abs(theta).max()))

    def node(self, it: StiffIntegrator) -> np.ndarray:
        """The state for the record, which has one chart; the integrator goes on by the nearer ends."""
        if not isinstance(self.system, OrbitSystem):
            return it.y
        other = self.system.at_node(it.y)
        if other is not None:
            it.replace(other)
        return self.system.z(it.y)

    @property
    def side(self) -> np.ndarray | None:
        """The ends by which the integrator goes now."""
        return self.system.side if isinstance(self.system, OrbitSystem) else None

    def between(self, steps: list[ExplicitStep], sides: list[np.ndarray], shares: np.ndarray) -> np.ndarray:
        """States for the record at the given shares of explicit steps, each taken by the ends of `sides`."""
        assert isinstance(self.system, OrbitSystem)
        system = copy.copy(self.system)
        system.side = np.stack(sides)
        q = between(system.field, steps, shares)
        system.side = system.side[:, None]
        return system.z(q)

    def steps_from(self, state: np.ndarray) -> Callable[[float], np.ndarray]:
        """`h -> state` after one step of the integrator from a state of the record."""
        system, start = self.system, state
        if isinstance(system, OrbitSystem):
            system.side = system.orbits.nearer_end(state)
            start = system.q(state)
        it = StiffIntegrator(system, start, tol=1.0)

        def after(h: float) -> np.ndarray:
            y, _ = it.trial(h)
            return system.z(y) if isinstance(system, OrbitSystem) else y

        return after

    def k(self, z: Float[np.ndarray, "... N"]) -> np.ndarray:
        """`k` alone."""
        return self.orbits.k_and_rate(z)[0] if self.in_orbits else self.model.k(self.components(z))

    def motion(self, z: Float[np.ndarray, "... N"]) -> tuple[np.ndarray, np.ndarray]:
        """`k` and `dk/dtau >= 0`, in the clock of the coordinates, each (..., d)."""
        if self.in_orbits:
            place = self.orbits.at(z)
            return place.k, place.slope * place.rate
        theta = self.components(z)
        return self.model.k(theta), np.sum(self.model.gradient(theta) ** 2, axis=-1)

    def components(self, z: Float[np.ndarray, "... N"]) -> Float[np.ndarray, "... d m"]:
        if self.in_orbits:
            return self.orbits.components(z)
        return z.reshape(*z.shape[:-1], -1, self.model.width)
