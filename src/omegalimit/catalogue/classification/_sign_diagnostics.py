"""What becomes of the barrier's limit when the theorem's dynamics are changed: measured, and not judged.

Logistic in place of exponential loss; eps held fixed; Adam and RMSProp with the annealed eps; signs of a momentum.
Adam, RMSProp and the signs are optax's own, with eps handed to them in each step.

What memory does (derived here; no theorem of the authors). Where lambda has settled, the gradient falls by e^{-kappa
eta} a step, and the averages of Adam over past gradients and their squares exceed the last one by

    a1 = (1 - b1) / (1 - b1 e^{kappa eta}),      a2 = ((1 - b2) / (1 - b2 e^{2 kappa eta}))^(1/2),

so that it takes steps `a1 u / (a2 |u| + 1)`: the limit is `(a1/a2) v*(kappa a2/a1)`, on the same path of barriers (a1 =
1 for RMSProp). For b2 e^{2 kappa eta} >= 1 the average of the squares falls more slowly than the squares; then the
margins grow by log(1/b2) / 2 a step, whatever kappa is.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..._numerics import double_precision
from ...flows.smoothed_sign_descent import smoothed_sign_descent
from ._sign_setting import Setting, direction, named

SPAN = 250.0
"""gamma_inf S at the end: e^{-250}, and its square, are doubles still."""

WORK = 1e8
"""Of each run, see `Setting.affordable_steps`."""

N_MARKS = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """A changed dynamics: its name, optax's optimiser as a function of (step size, eps), and what memory predicts."""

    name: str
    make: Callable[..., Any]
    b1: float = 0.0
    b2: float = 0.0
    has_eps: bool = True


def variants() -> Sequence[Variant]:
    """Adam and RMSProp with short and with long memory; signs of a momentum."""
    import optax

    def adam(b1: float, b2: float) -> Variant:
        return Variant(
            name=f"Adam ({b1:g}, {b2:g})",
            make=lambda learning_rate, eps: optax.adam(learning_rate, b1=b1, b2=b2, eps=eps),
            b1=b1,
            b2=b2,
        )

    def rmsprop(b2: float) -> Variant:
        return Variant(
            name=f"RMSProp ({b2:g})",
            make=lambda learning_rate, eps: optax.rmsprop(learning_rate, decay=b2, eps=eps, eps_in_sqrt=False),
            b2=b2,
        )

    signs = Variant(
        name="signs of momentum (0.9)",
        make=lambda learning_rate: optax.chain(optax.ema(0.9), optax.scale_by_sign(), optax.scale(-learning_rate)),
        has_eps=False,
    )
    return adam(0.9, 0.9), rmsprop(0.9), adam(0.9, 0.99), adam(0.9, 0.999), rmsprop(0.99), signs


def diagnose(setting: Setting, fraction: float, *, step: float, eps0: float, fixed_eps: float) -> xr.Dataset:
    """Every changed dynamics at one rate: distances to the barrier's minimiser and to both ends along the run.

    `eps0`, `fixed_eps`: in units of the gradient at w = 0.
    """
    kappa, gamma = fraction * setting.gamma, setting.gamma
    n_steps = min(math.ceil(SPAN / gamma / step), max(1000, setting.affordable_steps(WORK)))
    ideal = setting.barrier(fraction).certificate.point
    ends = [direction(s.certificate.point, norm) for s, norm in ((setting.l2, "l2"), (setting.linf, "linf"))]
    marks = np.unique(np.round(np.geomspace(10, n_steps, N_MARKS)).astype(int))
    rows: list[dict[str, Any]] = []
    for name, options in (
        ("smoothed signs", {}),
        ("logistic loss", {"loss": "logistic"}),
        (f"fixed eps {named(fixed_eps)}", {"rate": 0.0, "eps0": fixed_eps * setting.gradient_size}),
    ):
        w = _flow(setting, marks, **{"rate": kappa, "eps0": eps0 * setting.gradient_size, "step_size": step, **options})
        rows.append(_row(setting, name, w, marks * step, ideal, ends, None))
    for variant in variants():
        w = _optax(setting, variant, marks, kappa=kappa, step=step, eps0=eps0 * setting.gradient_size)
        predicted = _predicted(setting, variant, fraction, step)
        rows.append(_row(setting, variant.name, w, marks * step, ideal, ends, predicted))
    stacked = {key: np.array([row[key] for row in rows]) for key in rows[0] if key != "name"}
    per_variant = {key: ("dynamics", values) for key, values in stacked.items() if values.ndim == 1}
    along = {key: (("dynamics", "mark"), values) for key, values in stacked.items() if values.ndim == 2}
    return xr.Dataset(
        {"S": ("mark", marks * step), **per_variant, **along},
        coords={"dynamics": [row["name"] for row in rows]},
        attrs={"kappa": kappa, "fraction": fraction, "gamma_inf": gamma, "step": step, "eps0": eps0},
    )


def notes(data: xr.Dataset) -> list[str]:
    """A sentence for each dynamics."""
    said = []
    for i, name in enumerate(np.asarray(data["dynamics"])):
        text = (
            f"diagnostic, {name}: its last steps are {float(data['last_distance'][i]):.2g} from v* at kappa = "
            f"{named(data.attrs['fraction'])} gamma_inf, and its margins grow by {float(data['margin_rate'][i]):.3g} "
            "gamma_inf a unit of S"
        )
        if np.isfinite(float(data["predicted_distance"][i])):
            text += f"; from what its memory predicts they are {float(data['predicted_distance'][i]):.2g}"
        elif np.isfinite(float(data["predicted_rate"][i])):
            text += f"; its memory holds that to {float(data['predicted_rate'][i]):.3g}"
        said.append(text + ".")
    return said


def _flow(setting: Setting, marks: np.ndarray, **options: Any) -> np.ndarray:
    seen = []

    def observe(steps: Any) -> None:
        at = marks - 1 - int(steps.step[0])
        at = at[(at >= 0) & (at < len(steps.step))]
        seen.append(np.stack([steps.w[1:][at], steps.v[at]], axis=1))

    smoothed_sign_descent(
        setting.Z, n_steps=int(marks[-1]), weights=setting.weights, observe=observe, n_kept=2, **options
    )
    return np.concatenate(seen)


def _optax(
    setting: Setting, variant: Variant, marks: np.ndarray, *, kappa: float, step: float, eps0: float
) -> Float[np.ndarray, "M 2 d"]:
    """w and the mean step over the last tenth, in units of the step size, after each mark."""
    import jax
    import jax.numpy as jnp
    import optax

    n_steps = int(marks[-1])
    with double_precision():
        Z, c = jnp.asarray(setting.Z), jnp.asarray(setting.weights)
        if variant.has_eps:
            optimiser = optax.inject_hyperparams(variant.make)(learning_rate=step, eps=eps0)
        else:
            optimiser = variant.make(step)

        def body(carry, t):
            w, state = carry
            if variant.has_eps:
                state.hyperparams["eps"] = eps0 * jnp.exp(-kappa * step * t)
            gradient = -((c * jnp.exp(-(Z @ w))) @ Z)
            updates, state = optimiser.update(gradient, state, w)
            w = optax.apply_updates(w, updates)
            return (w, state), w

        start = jnp.zeros(setting.Z.shape[1])
        _, path = jax.jit(lambda w: jax.lax.scan(body, (w, optimiser.init(w)), jnp.arange(n_steps)))(start)
        path = np.vstack([np.zeros(len(start)), np.asarray(path)])
    before = np.floor(0.9 * marks).astype(int)
    mean = (path[marks] - path[before]) / ((marks - before) * step)[:, None]
    return np.stack([path[marks], mean], axis=1)


def _predicted(setting: Setting, variant: Variant, fraction: float, step: float) -> Any:
    """`(v, None)`, the limit that memory predicts, or `(None, rate)`, its margin rate over gamma_inf; or `None`."""
    if not variant.has_eps:
        return None
    kappa = fraction * setting.gamma
    if variant.b2 * math.exp(2 * kappa * step) >= 1:
        return None, -math.log(variant.b2) / (2 * step * setting.gamma)
    if variant.b1 * math.exp(kappa * step) >= 1:
        return None
    a1 = (1 - variant.b1) / (1 - variant.b1 * math.exp(kappa * step))
    a2 = math.sqrt((1 - variant.b2) / (1 - variant.b2 * math.exp(2 * kappa * step)))
    effective = fraction * a2 / a1
    if effective >= 1:
        return None
    found = setting.barrier(effective)
    return ((a1 / a2) * found.certificate.point, None) if found.status == "optimal" else None


def _row(setting: Setting, name: str, w: np.ndarray, S: np.ndarray, ideal, ends, predicted) -> dict[str, Any]:
    path, last = w[:, 0], w[-1, 1]
    normalised = path / S[:, None]
    margins = path @ setting.Z.T
    expected, rate = (None, None) if predicted is None else predicted
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "name": name,
            "distance": np.linalg.norm(normalised - ideal, axis=1),
            "linf_ratio": margins.min(axis=1) / np.abs(path).max(axis=1) / setting.gamma,
            "l2_ratio": margins.min(axis=1) / np.linalg.norm(path, axis=1) / setting.l2.certificate.lower,
            "last_distance": float(np.linalg.norm(last - ideal)),
            "margin_rate": float((setting.Z @ last).min() / setting.gamma),
            "cos_l2": _cosine(last, ends[0]),
            "cos_linf": _cosine(last, ends[1]),
            "predicted_distance": math.nan if expected is None else float(np.linalg.norm(last - expected)),
            "predicted_rate": math.nan if rate is None else rate,
        }


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    sizes = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / sizes if sizes > 0 else math.nan
