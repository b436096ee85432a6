"""In which norm do optimisers maximise the margin? Optax's own, on logistic loss, in a table of margin ratios.

A ratio is an optimiser's margin in a norm over the largest one, which is certified. Gradients are taken in an
arithmetic without underflow, so that an eps is what it was set to at any margin. Steps are in units of the data: of
gradient descent 1 over the largest curvature; of signs, of normalised gradients and of Muon those of `_step`. Adam,
whose average of squares forgets in 1/(1 - b2) steps, takes steps so small that the margins do not outrun it.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ...data.classification_generators import sign_gaussians
from ...diagnose.margin_table import MarginTable, margin_table
from ...flows.optimiser_descent import OptimiserDescent, optimiser_descent
from ._sign_setting import named, power_of_two_below

SHARE = 0.25
GROWTH = 60.0
B2 = 0.999
TINY = 1e-100
"""An eps that no run comes down to, whatever the unit of the data."""

VECTOR_NORMS, MATRIX_NORMS = ("l2", "linf", "l1"), ("frobenius", "spectral", "nuclear", "linf")
MATRICES = (8, 4, 3)
"""Rows, and the shape of each, of the matrices that are drawn."""

NEAR = 0.95
"""A ratio of at least this much names a norm; the others are on their way, or on none."""

LONGER = 10
"""Adam's steps are smaller, and as many times more."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """An optimiser of the table: optax's, as a function of eps; its steps; whether it is shown before eps counts."""

    name: str
    make: Callable[[Any], Any]
    n_steps: int
    eps: float = 0.0
    stopped: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimiserTable:
    """The table: `ratios` with its certificates, labelled arrays for the record, and what must be said of it.

    Both are `None` where no optimiser moved.
    """

    ratios: MarginTable | None
    dataset: xr.Dataset | None
    notes: tuple[str, ...]


def vectors(Z: Float[np.ndarray, "n d"], *, n_steps: int, adam_eps: float, unit: float = 1.0) -> OptimiserTable:
    """Optimisers of vectors by l2, l-infinity and l1.

    `adam_eps` is in units of the gradient on the rows `unit * Z`, from which the rows of the runs were made.
    """
    return _table(Z, _of_vectors(Z, n_steps, adam_eps, unit), VECTOR_NORMS)


def matrices(*, seed: int, n_steps: int) -> OptimiserTable:
    """Optimisers of matrices by Frobenius, spectral and nuclear norm and l-infinity norm of the entries."""
    n, *shape = MATRICES
    Z = sign_gaussians(n, math.prod(shape), seed=seed).Z.reshape(MATRICES)
    return _table(Z, _of_matrices(Z, n_steps), MATRIX_NORMS)


def _of_vectors(Z: np.ndarray, n_steps: int, adam_eps: float, unit: float) -> Sequence[Entry]:
    import optax

    smooth, step = 4 / float(np.linalg.norm(Z, 2)) ** 2, _step(Z, "linf", n_steps)
    # Its margins grow by log(1/b2) / 2 a step at most, and by gamma_inf times the step if nothing holds them.
    slow = min(step, 0.5 * (1 - B2) / _margin(Z, "linf"))
    entries = [
        Entry(name="gradient descent", make=lambda eps: optax.sgd(smooth), n_steps=n_steps),
        Entry(name="momentum (0.9)", make=lambda eps: optax.sgd(smooth / 10, momentum=0.9), n_steps=n_steps),
        Entry(name="normalised gradient descent", make=_normalised(_step(Z, "l2", n_steps)), n_steps=n_steps),
        Entry(name="sign descent", make=_signs(step), n_steps=n_steps),
        Entry(name="signs of momentum (0.9)", make=_signs(step, ema=0.9), n_steps=n_steps),
        Entry(
            name=f"RMSProp (0.9), eps {named(TINY)}",
            make=lambda eps: optax.rmsprop(step, decay=0.9, eps=eps, eps_in_sqrt=False),
            n_steps=n_steps,
            eps=TINY,
        ),
        *(
            Entry(
                name=f"Adam (0.9, {B2:g}), eps {named(eps)}",
                make=lambda eps: optax.adam(slow, b2=B2, eps=eps),
                n_steps=LONGER * n_steps,
                eps=min(max(eps / unit, 1e-300), 1e300) if eps == adam_eps else eps,
                stopped=eps == adam_eps,
            )
            for eps in dict.fromkeys((TINY, adam_eps))
        ),
        Entry(
            name="Adagrad",
            make=lambda eps: optax.adagrad(50 * step, initial_accumulator_value=0.0, eps=eps),
            n_steps=n_steps,
            eps=TINY,
        ),
    ]
    return entries


def _of_matrices(Z: np.ndarray, n_steps: int) -> Sequence[Entry]:
    import optax
    import optax.contrib

    smooth, step = 4 / float(np.linalg.norm(Z.reshape(len(Z), -1), 2)) ** 2, _step(Z, "spectral", n_steps)
    accurate: tuple[float, float, float] = (2.0, -1.5, 0.5)  # Newton and Schulz with the limit one; optax's aim near it
    return [
        Entry(name="gradient descent", make=lambda eps: optax.sgd(smooth), n_steps=n_steps),
        Entry(name="normalised gradient descent", make=_normalised(_step(Z, "frobenius", n_steps)), n_steps=n_steps),
        Entry(name="sign descent", make=_signs(_step(Z, "linf", n_steps)), n_steps=n_steps),
        Entry(
            name="Muon (0.95), optax's defaults",
            make=lambda eps: optax.contrib.muon(step, eps=eps),
            n_steps=n_steps,
        ),
        Entry(
            name="Muon (0.95), orthogonal to rounding",
            make=lambda eps: optax.contrib.muon(step, eps=eps, ns_coeffs=accurate, ns_steps=12),
            n_steps=n_steps,
        ),
    ]


def _normalised(step: float) -> Callable[[Any], Any]:
    import optax

    return lambda eps: optax.chain(optax.normalize_by_update_norm(eps=eps), optax.scale(-step))


def _signs(step: float, *, ema: float | None = None) -> Callable[[Any], Any]:
    import optax

    average = [] if ema is None else [optax.ema(ema)]
    return lambda eps: optax.chain(*average, optax.scale_by_sign(), optax.scale(-step))


def _margin(Z: np.ndarray, norm: str) -> float:
    """The certified maximum margin; `margin_table` says why where there is none."""
    return margin_table({"ones": np.ones(Z.shape[1:])}, Z, norms=(norm,)).certificates[0].lower


def _step(Z: np.ndarray, norm: str, n_steps: int) -> float:
    """A step in units of the norm: small enough not to overshoot, where `n_steps` such steps lead far enough.

    `SHARE` of the margin over the square of the largest row in the dual norm overshoots little. Where the margin grows
    by less than `GROWTH` in that many, longer ones are taken, up to the inverse of the largest row.
    """
    rows = Z.reshape(len(Z), -1)
    sizes = {
        "linf": lambda: np.abs(rows).sum(axis=1),
        "l2": lambda: np.linalg.norm(rows, axis=1),
        "frobenius": lambda: np.linalg.norm(rows, axis=1),
        "spectral": lambda: np.linalg.svd(Z, compute_uv=False).sum(axis=1),
    }
    margin, size = _margin(Z, norm), float(sizes[norm]().max())
    return max(SHARE * margin / size**2, min(GROWTH / (margin * n_steps), 1 / size))


def _table(Z: np.ndarray, entries: Sequence[Entry], norms: Sequence[str]) -> OptimiserTable:
    points, seen, left_out = {}, {}, []
    for e in entries:
        run = _run(Z, e)
        for name, at in _shown(e, run):
            w = run.w[at]
            largest = float(np.abs(w).max())
            # A cell is no reason to lose the run: what has no direction has no ratio.
            if not 0 < largest < math.inf:
                state = "w is still zero" if largest == 0 else "w has left double precision"
                left_out.append(f"table, {name}: left out, {state} after {int(run.steps[at])} steps.")
                continue
            # Ratios do not change with the size, which may be next to nothing.
            points[name], seen[name] = w / power_of_two_below(largest), (e, run, at)
    if not points:
        return OptimiserTable(ratios=None, dataset=None, notes=tuple(left_out))
    ratios = margin_table(points, Z, norms=norms, near=NEAR)
    S = [float(run.S[at]) for _, run, at in seen.values()]
    steps = [int(run.steps[at]) for _, run, at in seen.values()]
    dataset = ratios.dataset().assign(
        S=("point", S),
        n_steps=("point", steps),
        eps=("point", [e.eps if e.eps else math.nan for e, _, _ in seen.values()]),
        below_eps_S=("point", [run.below_eps_S for _, run, _ in seen.values()]),
        least_margin=("point", [float(run.margins[at].min()) for _, run, at in seen.values()]),
    )
    return OptimiserTable(ratios=ratios, dataset=dataset, notes=(*_notes(ratios, seen), *left_out))


def _run(Z: np.ndarray, e: Entry) -> OptimiserDescent:
    return optimiser_descent(
        Z, e.make, n_steps=e.n_steps, loss="logistic", weights=np.ones(len(Z)), eps=e.eps, n_kept=200
    )


def _shown(e: Entry, run: OptimiserDescent) -> list[tuple[str, int]]:
    """The last state, and where eps was to come into play one before that."""
    last = len(run.steps) - 1
    if not e.stopped or run.below_eps_step is None:
        return [(e.name, last)]
    before = int(np.flatnonzero(run.steps <= run.below_eps_step)[-1])
    if before == 0:  # below eps from the start: there is no state before that
        return [(e.name, last)]
    return [(f"{e.name}, S = {run.S[before]:.3g}", before), (f"{e.name}, S = {run.S[last]:.3g}", last)]


def _notes(ratios: MarginTable, seen: dict[str, tuple[Entry, OptimiserDescent, int]]) -> list[str]:
    """A sentence for each point."""
    said = []
    for row, (name, (_, run, at)) in enumerate(seen.items()):
        winner, k = ratios.winner(name), int(np.argmax(ratios.ratio[row]))
        where = f"after {int(run.steps[at])} steps, S = {float(run.S[at]):.3g}"
        best = f"{ratios.ratio[row, k]:.4f} of the largest {ratios.norms[k]} margin"
        if not ratios.ratio[row, k] > 0:
            said.append(f"table, {name}: it has not separated the rows {where}.")
            continue
        told = f"named: {winner.norm}" if winner.norm else f"no norm is named: {winner.reason.rstrip('.')}"
        text = f"table, {name}: {best} {where}; {told}"
        if run.below_eps_step is not None and at == len(run.steps) - 1:
            text += f"; its gradient fell below eps at S = {run.below_eps_S:.3g}, from where it is gradient descent"
        if run.arithmetic_ended:
            text += f"; arithmetic ended the run: {run.ending}"
        said.append(text + ".")
    return said
