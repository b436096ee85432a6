"""Iterates of the interior point method for l1 and l-infinity, and the steps from one to the next.

Pairs `x, z > 0` whose products all tend to 0 (the programs stand in `_linear_program.py`):

    l1:          x = (u, v, s),          z = (f g - A^T p, f g + A^T p, p),   w = u - v
    l-infinity:  x = (f + w, f - w, s),  z = (z_u, z_v, p),                   z_u - z_v = -A^T p

Of the changes of a pair in `u, v`, only one linear combination comes from the linear system; both sides' equations are
then met to rounding and the products take up the error. The other way round, an error `eps` in one side would come
back as `eps u/z` in the other.

Derived here.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._candidate import balanced
from ._program_system import newton_system
from ._scaled_program import Scaled
from ._single_precision import SinglePrecision


class Iterate(NamedTuple):
    """The pairs, the scaled point, `(gamma, b)` and, for l1, `g`."""

    x: Float[np.ndarray, " 2d+N"]
    z: Float[np.ndarray, " 2d+N"]
    w: Float[np.ndarray, " d"]
    y: Float[np.ndarray, " n"]
    g: float

    @property
    def mu(self):
        """The mean product of a pair."""
        return float(self.x @ self.z) / len(self.x)

    def moved(self, step: "Iterate", primal: float, dual: float):
        """The iterate after these parts of the step."""
        x = self.x + primal * step.x
        w, y = self.w + primal * step.w, self.y + primal * step.y
        return Iterate(x, self.z + dual * step.z, w, y, self.g + dual * step.g)


def start(program: Scaled) -> Iterate:
    """Equal weights of scaled rows and of columns, with equal products of all pairs; only the margins are off."""
    A, c, h, f, box = program
    d = A.shape[1]
    p = balanced(h, c) / h
    a = A.T @ p
    size = float(np.sqrt(p @ p))
    g = 0.0
    if box:
        u = v = f
        room = np.abs(a) + max(float(f @ np.abs(a)) / float(f.sum()), size)
        zu, zv = (room - a) / 2, (room + a) / 2
    else:
        u = v = 1 / (2 * d * f)
        g = 2 * max(float((np.abs(a) / f).max()), size / float(f.max()))
        zu, zv = f * g - a, f * g + a
    s = float(u @ zu + v @ zv) / (2 * d) / p
    y = np.append(-float(h @ s) / float(h @ h), np.zeros(int(c is not None)))
    return Iterate(np.concatenate([u, v, s]), np.concatenate([zu, zv, p]), np.zeros(d), y, g)


def free_columns(program: Scaled) -> Float[np.ndarray, "N n"]:
    """The columns of `gamma` and of the intercept."""
    h, c = program.h, program.c
    return -h[:, None] if c is None else np.column_stack([-h, c * h])


class Newton:
    """The steps from an iterate, for any products aimed at; `usable` is false where the system cannot be solved."""

    def __init__(self, program: Scaled, at: Iterate, single: SinglePrecision | None = None):
        A, _, _, f, box = program
        self.program, self.at = program, at
        d = A.shape[1]
        self.u, self.v, self.s = u, v, s = np.split(at.x, [d, 2 * d])
        self.zu, self.zv, self.p = zu, zv, p = np.split(at.z, [d, 2 * d])
        B = free_columns(program)
        a = A.T @ p
        # What is off in each equation, rounding included: the step sets it right.
        self.off_s = A @ at.w + B @ at.y - s
        self.off_p = -np.eye(1, B.shape[1])[0] - B.T @ p
        if box:
            self.off_u, self.off_v, self.off_a = u - f - at.w, v - f + at.w, zu - zv + a
            self.t, self.e, m = 1 / (zu / u + zv / v), None, 0.0
        else:
            self.off_u, self.off_v, self.off_f = zu - f * at.g + a, zv - f * at.g - a, float(f @ (u + v)) - 1
            tu, tv = u / zu, v / zv
            self.t, self.e = tu + tv, f * (tu - tv) / (tu + tv)
            m = float((4 * f * f * tu * (tv / (tu + tv))).sum())
        self._solve = newton_system(A, B, self.t, s / p, self.e, m, single)
        self.usable = self._solve is not None

    def step(self, products: Float[np.ndarray, " 2d+N"], *, refine: bool) -> Iterate:
        """The changes after which the products have changed by `products`, to first order, and nothing is off.

        `refine`: solve to full accuracy; a mere prediction needs less.
        """
        assert self._solve is not None
        A, f, d = self.program.A, self.program.f, len(self.t)
        ku, kv, ks = np.split(products, [d, 2 * d])
        q = ks / self.p - self.off_s
        if self.e is None:
            tu, tv = self.zu / self.u, self.zv / self.v
            ju, jv = ku / self.u + tu * self.off_u, kv / self.v + tv * self.off_v
            dw, dp, dg, dy = self._solve(ju - jv + self.off_a, q, 0.0, self.off_p, refine)
            du, dv = dw - self.off_u, -dw - self.off_v
            dzu, dzv = _apart(-self.off_a - A.T @ dp, ju, jv, tu, tv)
        else:
            tu, tv = self.u / self.zu, self.v / self.zv
            ju, jv = ku / self.zu + tu * self.off_u, kv / self.zv + tv * self.off_v
            off_g = float(self.e @ (ju - jv)) - self.off_f - float(f @ (ju + jv))
            dw, dp, dg, dy = self._solve((ju - jv) / self.t, q, off_g, self.off_p, refine)
            da = A.T @ dp
            dzu, dzv = f * dg - da - self.off_u, f * dg + da - self.off_v
            du, dv = _apart(dw, ju - tu * f * dg, jv - tv * f * dg, tu, tv)
            dw = du - dv
        ds = (ks - self.s * dp) / self.p
        return Iterate(np.concatenate([du, dv, ds]), np.concatenate([dzu, dzv, dp]), dw, dy, dg)


def _apart(difference, ju, jv, tu, tv):
    """`ju + tu k` and `jv - tv k` for the `k` that makes their difference as given; nothing cancels."""
    common = (tv * ju + tu * jv) / (tu + tv)
    return common + tu / (tu + tv) * difference, common - tv / (tu + tv) * difference
