"""The Gibbs measure of a residual as an object: densities, predictions, shares, particles."""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._checks import check_count, check_finite, check_ndim, check_number, shape_text, to_float64
from ._measure_caps import TOO_CLOSE, Concentration, concentration, node_weights
from ._measure_fan import cut
from ._measure_partition import CLOSED, FINAL, Partition, fields, integrals
from ._measure_reduced import complement, joined, log_ratio, plane_average, unit_rows
from ._measure_rule import refined
from ._measure_sampled import N_ERRORS, Directions
from ._measure_scaled import ScaledMeasure

# Nodes a coordinate for cones that new inputs cut (dimension 4), and numbers held at one time.
_PREDICT = 4
_MOST_NUMBERS = 4_000_000
_CHUNK = 2048
# A new input that leaves the span of the rows by no more than this, relative to its length, is in it: rounding.
_IN_SPAN = 1e-14
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
        return self.scaled.dimension

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
        return self._field(self._reduced(self._directions(u)))

    def density(self, u: ArrayLike) -> Float[np.ndarray, " K"]:
        """The density of the direction, by the area of the sphere, at directions (K, D)."""
        room = 1 - (self.relative_field(u) ** 2).sum(axis=1)
        return np.exp(-self.dimension / 2 * np.log(room) - self._log_total)

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
        unit, size, exponent = unit_rows(rows)
        inside = self._reduced(unit)
        sums = np.zeros((len(unit), self.n_outputs))
        beyond = np.zeros(len(unit))
        if self.scaled.basis is not None:
            beyond = np.linalg.norm(unit - inside @ self.scaled.basis.T, axis=1)
        new = beyond > _IN_SPAN * math.sqrt(self.dimension)
        sums[~new] = self._sums(inside[~new])
        if new.any():
            sums[new] = self._sums_beyond(inside[new], beyond[new])
        outputs = -sums / (self.scaled.beta * self.scaled.lam) * size
        with np.errstate(over="ignore"):
            return self._shaped(np.ldexp(outputs, exponent + self.scaled.exponent - self.scaled.row_exponent))

    def concentration(self, directions: ArrayLike, angle: float, *, tol: float = 1e-4) -> Concentration:
        """What lies within `angle` (radians) of any of the directions (K, D).

        `tol`: the error that is wanted, above zero and below 1; `reached` of the result says whether it was. To
        `D = 3` cones are cut until it is, or there are too many of them, which is so below about 1e-4 for `D = 3` and
        1e-2 for `D = 4`. Beyond, `n_samples` draws are counted, whatever `tol`.
        """
        axes = self._directions(directions)
        angle, tol = check_number(angle, "angle"), check_number(tol, "tol")
        if not 0 < angle < math.pi:
            raise ValueError(f"`angle` must lie between 0 and pi, in radians; got {angle}.")
        if not 0 < tol < 1:
            raise ValueError(f"`tol` must lie between 0 and 1, both excluded; got {tol}.")
        if self._nodes is None and self.dimension <= CLOSED + 1:
            P, R = joined(self._cones[0], self.dimension - self._cones[0].shape[1], self._cones[1])
            if self.scaled.basis is not None:
                P = P @ np.concatenate([self.scaled.basis, complement(self.scaled.basis)], axis=1).T
            found = concentration(P, R, axes, angle, tol=tol, log_total=self._log_total)
        else:
            found = self._concentration_drawn(axes, angle, tol)
        scale = self.dimension / (self.scaled.beta * self.scaled.lam) * self._unit**2
        return dataclasses.replace(found, total_mass=found.total_mass * scale)

    def sample(self, n_particles: int, *, seed: int = 0) -> tuple[Float[np.ndarray, "N m"], Float[np.ndarray, "N D"]]:
        """Independent particles `(a, V)`; exact draws (directions by rejection, then the radius, then `a`).

        Where directions are sampled (`method` of the limit) they are drawn again from that sample: no longer exact.
        """
        n_particles = check_count(n_particles, "n_particles", least=1)
        rng = np.random.default_rng(check_count(seed, "seed", least=0))
        u = self._draw_directions(n_particles, rng)
        field = self._field(u)
        unit = self._unit / math.sqrt(self.scaled.beta * self.scaled.lam)
        s = np.sqrt(rng.chisquare(u.shape[1], n_particles) / (1 - (field**2).sum(axis=1)))
        a = -s[:, None] * field + rng.standard_normal(field.shape)
        return a * unit, self._extended(s[:, None] * u, rng) * unit

    @property
    def _unit(self) -> float:
        """A particle's own unit in the user's: `a` and `v` alike."""
        return math.pow(2.0, (self.scaled.exponent - self.scaled.row_exponent) / 2)

    @property
    def _log_total(self) -> float:
        """The logarithm of the integral over the sphere of `R^D`."""
        return self.partition.log_total + log_ratio(self.scaled.rows.shape[1], self.dimension)

    def _reduced(self, u):
        return u if self.scaled.basis is None else u @ self.scaled.basis

    def _extended(self, w, rng):
        """Weights in `R^D`, in units where those across the span are standard normal."""
        basis = self.scaled.basis
        if basis is None:
            return w
        across = rng.standard_normal((len(w), len(basis)))
        return w @ basis.T + across - (across @ basis) @ basis.T

    def _field(self, u):
        """`R / lam` at directions in the span."""
        return np.maximum(u @ self.scaled.rows.T, 0) @ self.c

    @functools.cached_property
    def _nodes(self) -> Directions | None:
        return self.scaled.nodes(self.r)

    @functools.cached_property
    def _cones(self) -> tuple[np.ndarray, ...]:
        """Rays, `R` there, and what a function that is linear on a cone contributes for each value at a ray."""
        assert self.scaled.cones is not None
        P, features = self.scaled.cones
        R = fields(features, self.c)
        return P, R, _pull(P, R, self.partition.log_total)

    @functools.cached_property
    def _wide_cones(self) -> tuple[np.ndarray, ...]:
        """The same with one axis more, for new inputs that leave the span."""
        P, R = joined(self._cones[0], 1, self._cones[1])
        k = self._cones[0].shape[1]
        return P, R, _pull(P, R, self.partition.log_total + log_ratio(k, k + 1))

    def _sums(self, unit):
        """Minus `f`, in units of `1 / (beta lam)`, for inputs of length one in the span."""
        if self._nodes is not None:
            return self._sums_on(*self._sampled_shares(), unit, np.zeros(len(unit)))
        return self._predict_cones(self._cones, self.partition.log_total, unit)

    def _sums_beyond(self, inside, beyond):
        """The same for inputs that leave the span by `beyond`."""
        k = inside.shape[1]
        if self._nodes is None and k <= CLOSED:
            wide = np.concatenate([inside, beyond[:, None]], axis=1)
            return self._predict_cones(self._wide_cones, self.partition.log_total + log_ratio(k, k + 1), wide)
        if self._nodes is not None:
            return self._sums_on(*self._sampled_shares(), inside, beyond)
        P, R = _refined(*self._cones[:2])
        total = np.zeros((len(inside), self.n_outputs))
        for i in range(0, len(P), _CHUNK):
            u, density, _ = node_weights(P[i : i + _CHUNK], R[i : i + _CHUNK], _PREDICT)
            u, share = u.reshape(-1, k), density.reshape(-1) * math.exp(-self.partition.log_total)
            total += self._sums_on(u, self._field(u), share, inside, beyond)
        return total

    def _sums_on(self, u, field, share, inside, beyond):
        root = np.sqrt(1 - (field**2).sum(axis=1))
        pull = (share / root)[:, None] * field
        sums = np.zeros((len(inside), self.n_outputs))
        step = max(1, _MOST_NUMBERS // len(u))
        for i in range(0, len(inside), step):
            p = (inside[i : i + step] @ u.T) / root
            q = beyond[i : i + step, None]
            average = plane_average(p, q, u.shape[1]) if q.any() else u.shape[1] * np.maximum(p, 0)
            sums[i : i + step] = average @ pull
        return sums

    def _predict_cones(self, cones, log_total, unit):
        step = max(1, _MOST_NUMBERS // cones[0].size)
        parts = [self._predict_some(cones, log_total, unit[i : i + step]) for i in range(0, len(unit), step)]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_outputs))

    def _predict_some(self, cones, log_total, unit):
        P, R, pull = cones
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
            found = _integrals(pieces, field)
            share = np.exp(found[0] - log_total)
            terms = share[:, None] * np.einsum("tk,tkc->tc", at, found[1])
            np.add.at(sums, point[origin], terms)
        return sums

    def _sampled_shares(self):
        assert self._nodes is not None
        field = self._field(self._nodes.u)
        room = 1 - (field**2).sum(axis=1)
        k = self.scaled.rows.shape[1]
        return self._nodes.u, field, np.exp(self._nodes.log_weight - k / 2 * np.log(room) - self.partition.log_total)

    def _concentration_drawn(self, axes, angle, tol):
        rng = np.random.default_rng((self.scaled.seed, 1))
        u, field, share = self._drawn_shares(rng)
        s = np.sqrt(rng.chisquare(u.shape[1], len(u)) / (1 - (field**2).sum(axis=1)))
        v = self._extended(s[:, None] * u, rng)
        if self.scaled.basis is not None:
            length = np.linalg.norm(v, axis=1, keepdims=True)
            u, field = v / length, field * s[:, None] / length
        else:
            u = v / s[:, None]
        near = (u @ axes.T >= math.cos(angle)).any(axis=1)
        mass = share * np.linalg.norm(field, axis=1) / (1 - (field**2).sum(axis=1))
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
            tol=tol,
        )

    def _drawn_shares(self, rng):
        """Directions in the span, the field there, and weights; half of the draws go where the mass is."""
        if self._nodes is not None:
            return self._sampled_shares()
        P, R, share, rho, form = self._rejection
        mass = node_weights(P, R, 3)[2].sum(axis=1)
        drawn = (share + mass / mass.sum()) / 2 if mass.sum() > 0 else share
        cone = rng.choice(len(P), self.scaled.n_samples, p=drawn)
        u = _drawn(P, rho, form, cone, rng)
        return u, self._field(u), (share / drawn)[cone] / len(cone)

    def _draw_directions(self, n_particles, rng):
        """In the span."""
        if self._nodes is not None:
            u, _, share = self._sampled_shares()
            return u[rng.choice(len(u), n_particles, p=share / share.sum())]
        P, _, share, rho, form = self._rejection
        return _drawn(P, rho, form, rng.choice(len(P), n_particles, p=share), rng)

    @functools.cached_property
    def _rejection(self):
        P, R = _refined(self._cones[0], self._cones[1], low=_LOW, high=_HIGH)
        logs = _integrals(P, R)[0]
        share = np.exp(logs - logs.max())
        gram = P @ P.transpose(0, 2, 1) - R @ R.transpose(0, 2, 1)
        rho = np.sqrt(np.einsum("tkk->tk", gram))
        return P, R, share / share.sum(), rho, gram / (rho[:, :, None] * rho[:, None, :])

    def _shaped(self, outputs):
        return outputs[:, 0] if self.scalar else outputs

    def _directions(self, u):
        array, _ = to_float64(u, "directions")
        check_finite(array, "directions")
        if array.ndim == 1 and array.size == self.dimension:
            array = array[None]
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise ValueError(f"`directions` must have shape (K, {self.dimension}); got {shape_text(array.shape)}.")
        unit, length, _ = unit_rows(array)
        if not (length > 0).all():
            raise ValueError(f"`directions[{int(np.argmin(length))}]` is zero; a direction has a length.")
        return unit


def _integrals(P, R, order=_PREDICT):
    found = integrals(P, R, order=order, second=False)
    if found is None:
        raise ValueError(TOO_CLOSE)
    return found


def _pull(P, R, log_total):
    logs, first, _ = _integrals(P, R, FINAL)
    return np.exp(logs - log_total)[:, None, None] * first


def _refined(P, R, **bounds):
    cones = refined(P, R, **bounds)
    if cones is None:
        raise ValueError(TOO_CLOSE)
    return cones[:2]


def _drawn(P, rho, form, cone, rng):
    """A direction in each of the cones numbered `cone`, by rejection from a Dirichlet law on its simplex."""
    D = P.shape[1]
    # The least of alpha'c alpha on the simplex where no entry of c is below _LOW.
    least = _LOW + (1 - _LOW) / D
    u, pending = np.empty((len(cone), D)), np.arange(len(cone))
    while len(pending):
        part = cone[pending]
        alpha = rng.dirichlet(np.ones(D), len(pending))
        value = np.einsum("nk,nkl,nl->n", alpha, form[part], alpha, optimize=True)
        good = rng.random(len(pending)) < (least / value) ** (D / 2)
        v = np.einsum("nk,nkd->nd", alpha[good] / rho[part[good]], P[part[good]])
        u[pending[good]] = v / np.linalg.norm(v, axis=1, keepdims=True)
        pending = pending[~good]
    return u
