"""The Gibbs measure of a residual as an object: densities, predictions, shares, particles."""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, check_ndim, check_number, shape_text, to_float64
from ._measure_caps import Concentration, concentration
from ._measure_fan import cut
from ._measure_partition import Partition, fields, integrals
from ._measure_rule import refined
from ._measure_sampled import N_ERRORS, Directions
from ._measure_scaled import ScaledMeasure

# Nodes a coordinate for cones that new inputs cut (dimension 4), and numbers held at one time.
_PREDICT = 4
_MOST_NUMBERS = 4_000_000
# Particles are drawn by rejection on cones whose edges have c between these bounds.
_LOW, _HIGH = 0.5, 2.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MeasureLaw:
    """`rho_r ~ exp(-beta [a.R(v) + lam/2 (|a|^2 + |v|^2)])`, see `StationaryMeasure`; made by `StationaryMeasure.at`.

    Directions are unit vectors `u = v / |v|` in R^D, the bias last; `s = |v|`. With scalar targets of shape `(n,)`
    outputs have no last axis.
    """

    scaled: ScaledMeasure = dataclasses.field(repr=False)
    c: Float[np.ndarray, "n m"] = dataclasses.field(repr=False)
    r: Float[np.ndarray, "n m"] = dataclasses.field(repr=False)
    partition: Partition = dataclasses.field(repr=False)
    bias: bool
    scalar: bool
    dual_value: float
    dual_slack: float
    beta: float

    @property
    def dimension(self) -> int:
        """`D`."""
        return self.scaled.rows.shape[1]

    @property
    def n_outputs(self) -> int:
        """`m`."""
        return self.c.shape[1]

    @property
    def log_partition(self) -> float:
        """`log Z`, `Z = int exp(-beta [a.R(v) + lam/2 (|a|^2 + |v|^2)]) da dv`."""
        own = self.scaled.log_partition(self.partition.log_total, self.n_outputs)
        return own + (self.dimension + self.n_outputs) * math.log(self._unit)

    @property
    def entropy(self) -> float:
        """`-E[log rho] = log Z + (D + m)/2`: the exponent is homogeneous of degree 2, its mean `(D + m)/2`."""
        return self.log_partition + (self.dimension + self.n_outputs) / 2

    @property
    def free_energy(self) -> float:
        """`F(rho_r)`: the certificate's upper bound."""
        outputs = self.scaled.outputs(self.partition)
        mismatch = np.linalg.norm(outputs - self.scaled.y - self.r)
        return self.dual_value + float(np.ldexp(mismatch**2 / (2 * len(self.r)), 2 * self.scaled.exponent))

    @property
    def residual(self) -> Float[np.ndarray, "..."]:
        """`r`, in the shape of the targets."""
        return self._shaped(np.ldexp(self.r, self.scaled.exponent))

    @property
    def outputs(self) -> Float[np.ndarray, "..."]:
        """`f` at the inputs, in the shape of the targets."""
        return self._shaped(np.ldexp(self.scaled.outputs(self.partition), self.scaled.exponent))

    def relative_field(self, u: ArrayLike) -> Float[np.ndarray, "K m"]:
        """`R(u) / lam` at directions (K, D), which are scaled to length one; shorter than 1 everywhere."""
        return np.maximum(self._directions(u) @ self.scaled.rows.T, 0) @ self.c

    def density(self, u: ArrayLike) -> Float[np.ndarray, " K"]:
        """The density of the direction, by the area of the sphere, at directions (K, D)."""
        room = 1 - (self.relative_field(u) ** 2).sum(axis=1)
        return np.exp(-self.dimension / 2 * np.log(room) - self.partition.log_total)

    def mean_output(self, u: ArrayLike) -> Float[np.ndarray, "K ..."]:
        """`E[a s | u] = -(D/beta) R / (lam^2 - |R|^2)` at directions (K, D)."""
        field = self.relative_field(u)
        scale = self.dimension / (self.scaled.beta * self.scaled.lam) * self._unit**2
        return self._shaped(-scale * field / (1 - (field**2).sum(axis=1, keepdims=True)))

    def first_moment(self, u: ArrayLike) -> Float[np.ndarray, "K ..."]:
        """The density of `E[a s]` over directions: `density * mean_output`. Its total variation is the net's mass."""
        output, density = self.mean_output(u), self.density(u)
        return output * (density if output.ndim == 1 else density[:, None])

    def predict(self, X: ArrayLike) -> Float[np.ndarray, "N ..."]:
        """`f(x) = E[a relu(v.x~)]` at new inputs (N, d): closed form for `D <= 3`, see `StationaryMeasure`."""
        array, _ = to_float64(X, "X")
        check_ndim(array, "X", axes="N, d")
        check_finite(array, "X")
        if array.shape[1] != self.dimension - int(self.bias):
            raise ValueError(
                f"`X` has {array.shape[1]} columns; the measure was made from {self.dimension - int(self.bias)}."
            )
        rows = np.concatenate([array, np.ones((len(array), 1))], axis=1) if self.bias else array
        size = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
        unit = rows / size
        if self._nodes is not None:
            sums = self._predict_sampled(unit)
        else:
            step = max(1, _MOST_NUMBERS // self._cones[0].size)
            parts = [self._predict_cones(unit[i : i + step]) for i in range(0, len(unit), step)]
            sums = np.concatenate(parts) if parts else np.zeros((0, self.n_outputs))
        outputs = -sums / (self.scaled.beta * self.scaled.lam) * np.ldexp(size, -self.scaled.row_exponent)
        return self._shaped(np.ldexp(outputs, self.scaled.exponent))

    def concentration(self, directions: ArrayLike, angle: float, *, tol: float = 1e-4) -> Concentration:
        """What lies within `angle` (radians) of any of the directions (K, D); `tol`: the error that is wanted."""
        axes = self._directions(directions)
        angle = check_number(angle, "angle")
        if not 0 < angle < math.pi:
            raise ValueError(f"`angle` must lie between 0 and pi, in radians; got {angle}.")
        if self._nodes is None:
            found = concentration(self._cones[0], self._cones[1], axes, angle, tol=tol)
        else:
            found = self._concentration_sampled(axes, angle)
        scale = self.dimension / (self.scaled.beta * self.scaled.lam) * self._unit**2
        return dataclasses.replace(found, total_mass=found.total_mass * scale)

    def sample(self, n_particles: int, *, seed: int = 0) -> tuple[Float[np.ndarray, "N m"], Float[np.ndarray, "N D"]]:
        """Independent particles `(a, V)`; exact draws (directions by rejection, then the radius, then `a`).

        Where directions are sampled (`method` of the limit) they are drawn again from that sample: no longer exact.
        """
        n_particles = check_count(n_particles, "n_particles", least=1)
        rng = np.random.default_rng(check_count(seed, "seed", least=0))
        u = self._draw_directions(n_particles, rng)
        field = self.relative_field(u)
        stiffness = self.scaled.beta * self.scaled.lam
        s = np.sqrt(rng.chisquare(self.dimension, n_particles) / (stiffness * (1 - (field**2).sum(axis=1))))
        a = -s[:, None] * field + rng.standard_normal(field.shape) / math.sqrt(stiffness)
        return a * self._unit, s[:, None] * u * self._unit

    @property
    def _unit(self) -> float:
        """A particle's own unit in the user's: `a` and `v` alike."""
        return math.pow(2.0, (self.scaled.exponent - self.scaled.row_exponent) / 2)

    @functools.cached_property
    def _nodes(self) -> Directions | None:
        return self.scaled.nodes(self.r)

    @functools.cached_property
    def _cones(self) -> tuple[np.ndarray, ...]:
        """Rays, `R` there, and what a function that is linear on a cone contributes for each value at a ray."""
        assert self.scaled.cones is not None
        P, features = self.scaled.cones
        R = fields(features, self.c)
        found = integrals(P, R, second=False)
        assert found is not None, "a law exists only where |R| < lam on the whole sphere"
        logs, first, _ = found
        return P, R, np.exp(logs - self.partition.log_total)[:, None, None] * first

    def _predict_cones(self, unit):
        P, R, pull = self._cones
        values = np.einsum("tkd,nd->ntk", P, unit)
        values[np.abs(values) < 1e-14] = 0.0
        mixed = (values > 0).any(axis=2) & (values < 0).any(axis=2)
        whole = np.where(mixed[:, :, None], 0.0, np.maximum(values, 0.0))
        sums = whole.reshape(len(unit), -1) @ pull.reshape(-1, self.n_outputs)
        which, cone = np.nonzero(mixed)
        step = _MOST_NUMBERS // (16 * P.shape[1] ** 2)
        for i in range(0, len(which), step):
            point, part = which[i : i + step], cone[i : i + step]
            pieces, at, field, origin = cut(P[part], values[point, part], R[part])
            good = (at > 0).any(axis=1)
            pieces, at, field, origin = pieces[good], at[good], field[good], origin[good]
            found = integrals(pieces, field, order=_PREDICT, second=False)
            assert found is not None, "a part of a cone on which |R| < lam"
            share = np.exp(found[0] - self.partition.log_total)
            terms = share[:, None] * np.einsum("tk,tkc->tc", at, found[1])
            np.add.at(sums, point[origin], terms)
        return sums

    def _sampled_shares(self):
        assert self._nodes is not None
        field = np.maximum(self._nodes.u @ self.scaled.rows.T, 0) @ self.c
        room = 1 - (field**2).sum(axis=1)
        share = np.exp(self._nodes.log_weight - self.dimension / 2 * np.log(room) - self.partition.log_total)
        return self._nodes.u, field, room, share

    def _predict_sampled(self, unit):
        u, field, room, share = self._sampled_shares()
        pull = (share * self.dimension / room)[:, None] * field
        step = max(1, _MOST_NUMBERS // len(u))
        parts = [np.maximum(unit[i : i + step] @ u.T, 0) @ pull for i in range(0, len(unit), step)]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_outputs))

    def _concentration_sampled(self, axes, angle):
        u, field, room, share = self._sampled_shares()
        near = (u @ axes.T >= math.cos(angle)).any(axis=1)
        mass = share * np.linalg.norm(field, axis=1) / room
        shares, errors = [], []
        for weight in (share, mass):
            total = max(float(weight.sum()), np.finfo(float).tiny)
            shares.append(float(weight[near].sum()) / total)
            errors.append(N_ERRORS * float(np.sqrt((weight**2 * (near - shares[-1]) ** 2).sum())) / total)
        return Concentration(
            mass=shares[1],
            probability=shares[0],
            mass_error=errors[1],
            probability_error=errors[0],
            total_mass=float(mass.sum() / share.sum()),
        )

    def _draw_directions(self, n_particles, rng):
        if self._nodes is not None:
            u, _, _, share = self._sampled_shares()
            return u[rng.choice(len(u), n_particles, p=share / share.sum())]
        P, share, rho, form = self._rejection
        D = self.dimension
        # The least of alpha'c alpha on the simplex where no entry of c is below _LOW.
        least = _LOW + (1 - _LOW) / D
        cone = rng.choice(len(P), n_particles, p=share)
        u, pending = np.empty((n_particles, D)), np.arange(n_particles)
        while len(pending):
            part = cone[pending]
            alpha = rng.dirichlet(np.ones(D), len(pending))
            value = np.einsum("nk,nkl,nl->n", alpha, form[part], alpha, optimize=True)
            good = rng.random(len(pending)) < (least / value) ** (D / 2)
            v = np.einsum("nk,nkd->nd", alpha[good] / rho[part[good]], P[part[good]])
            u[pending[good]] = v / np.linalg.norm(v, axis=1, keepdims=True)
            pending = pending[~good]
        return u

    @functools.cached_property
    def _rejection(self):
        cones = refined(self._cones[0], self._cones[1], low=_LOW, high=_HIGH)
        assert cones is not None, "a law exists only where |R| < lam on the whole sphere"
        P, R = cones[:2]
        found = integrals(P, R, order=_PREDICT, second=False)
        assert found is not None
        share = np.exp(found[0] - found[0].max())
        gram = P @ P.transpose(0, 2, 1) - R @ R.transpose(0, 2, 1)
        rho = np.sqrt(np.einsum("tkk->tk", gram))
        return P, share / share.sum(), rho, gram / (rho[:, :, None] * rho[:, None, :])

    def _shaped(self, outputs):
        return outputs[:, 0] if self.scalar else outputs

    def _directions(self, u):
        array, _ = to_float64(u, "directions")
        check_finite(array, "directions")
        if array.ndim == 1 and array.size == self.dimension:
            array = array[None]
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise ValueError(f"`directions` must have shape (K, {self.dimension}); got {shape_text(array.shape)}.")
        length = np.linalg.norm(array, axis=1, keepdims=True)
        if not (length > 0).all():
            raise ValueError(f"`directions[{int(np.argmin(length))}]` is zero; a direction has a length.")
        return array / length
