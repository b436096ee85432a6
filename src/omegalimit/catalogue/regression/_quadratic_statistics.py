"""Claims of `positive-quadratic-networks` about random rows: mean curvature, concentration, spectral start."""

import dataclasses
import itertools
import math

import numpy as np
import xarray as xr
from jaxtyping import Float

from ...claims import Assumption, Kind, Verdict
from ...limits.quotient import population_form, population_spectrum, spectral_start, tangent
from ...limits.recovery import operator_deviation

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)  # two decades, from far above d (d+1)/2 on
DRAWS = (8, 160)  # of rows for each size, least and most
DRAWN_ENTRIES = 840  # draws times d (d+1)/2: the cost of a draw grows with it, and the scatter of the fit falls
ORDER_ALLOWANCE = 0.05  # the exponents -1/3 and -1 of other laws are three and ten times further off
LARGEST_SIGN_CUBE = 14  # 2^14 sign vectors are summed over exactly


@dataclasses.dataclass(frozen=True)
class Law:
    """The law of the rows: `"normal"`, or `"signs"` (entries +-1) in a counter-instance."""

    name: str = "normal"

    def draw(self, rng: np.random.Generator, n: int, d: int) -> Float[np.ndarray, "n d"]:
        if self.name == "signs":
            return rng.choice([-1.0, 1.0], size=(n, d))
        return rng.standard_normal((n, d))

    def cubature(self, d: int) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, " m"]]:
        """Nodes and weights with which the mean of every polynomial of degree five in the row is exact.

        Normal: the fully symmetric rule with nodes 0, `+-(d+2)^(1/2) e_i` and `((d+2)/2)^(1/2) (+-e_i +-e_j)`.
        Signs: all of them.
        """
        if self.name == "signs":
            if d > LARGEST_SIGN_CUBE:
                raise ValueError(f"the cube of signs is summed over up to d = {LARGEST_SIGN_CUBE}; got {d}.")
            nodes = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
            return nodes, np.full(len(nodes), 1 / len(nodes))
        e = np.eye(d)
        near = [sign * math.sqrt(d + 2) * e[i] for i in range(d) for sign in (1, -1)]
        far = [
            math.sqrt((d + 2) / 2) * (s * e[i] + t * e[j])
            for i in range(d)
            for j in range(i)
            for s in (1, -1)
            for t in (1, -1)
        ]
        weights = [2 / (d + 2)] + [(4 - d) / (2 * (d + 2) ** 2)] * len(near) + [1 / (d + 2) ** 2] * len(far)
        return np.array([np.zeros(d), *near, *far]), np.array(weights)


def population_curvature(U: Float[np.ndarray, "d r"], law: Law, *, seed: int) -> Verdict:
    """The mean of `<x x', xi>^2` is `2 |xi|_F^2 + (tr xi)^2`, and its least value on horizontal lifts 4 sigma_r^2.

    The mean is exact, by a cubature of degree five, in coordinates of the factor; the formula is in those of Q.
    Measured: the largest difference of the `d r` eigenvalues (the gauge's are zero), of the form along random
    directions, and of the least eigenvalue from `4 sigma_r^2`, over the largest eigenvalue.
    """
    d, r = U.shape
    nodes, weights = law.cubature(d)
    J = 2 * (nodes[:, :, None] * (nodes @ U)[:, None, :]).reshape(len(nodes), -1)
    other = np.linalg.eigvalsh((J.T * weights) @ J)
    formula = population_spectrum(U)
    n_gauge = r * (r - 1) // 2
    padded = np.concatenate([np.zeros(n_gauge), formula])
    largest = float(formula[-1])
    difference = float(np.abs(other - padded).max()) / largest
    along = 0.0
    rng = np.random.default_rng([seed, 41])
    for _ in range(8):
        Z = rng.standard_normal(U.shape)
        xi = tangent(U, Z)
        mean = float(weights @ np.einsum("na,na->n", nodes @ xi, nodes) ** 2)
        along = max(along, abs(mean - population_form(xi)) / population_form(xi))
    sigma = float(np.linalg.svd(U, compute_uv=False)[-1])
    least = abs(float(other[n_gauge]) - 4 * sigma**2) / largest
    # With d = r no direction leaves U's range, and the least value is larger.
    measured = max(difference, along, least if d > r else 0.0)
    return Verdict(
        claim="population-curvature",
        parametrisation="gaussian",
        loss="squared",
        kind=Kind.EQUALITY,
        measured=measured,
        bound=1e-11,  # rounding of sums over the nodes and of an eigenvalue problem
        slack=1e-13,
        unit="relative difference",
        assumptions=(Assumption(name="normal rows", holds=law.name == "normal", measured=law.name),),
        details={
            "least": float(other[n_gauge]),
            "4 sigma_r^2": 4 * sigma**2,
            "formula": formula,
            "difference": difference,
            "along": along,
        },
    )


def concentration(
    U: Float[np.ndarray, "d r"], law: Law, *, seed: int, sizes: tuple[int, ...] = SIZES
) -> tuple[list[Verdict], xr.Dataset]:
    """The deviation of the normal operator, and the spectral start's error, over rows of two decades of sizes.

    Measured: how far the fitted exponent in n is from -1/2; the slack is twice its standard error.
    """
    d, r = U.shape
    Q = U @ U.T
    n_draws = int(np.clip(DRAWN_ENTRIES // (d * (d + 1) // 2), *DRAWS))
    deviation, error = np.empty((2, len(sizes), n_draws))
    rng = np.random.default_rng([seed, 42])
    for i, n in enumerate(sizes):
        for j in range(n_draws):
            X = law.draw(rng, n, d)
            deviation[i, j] = operator_deviation(X)
            start = spectral_start(X, np.square(X @ U).sum(axis=1), rank=r)
            error[i, j] = np.linalg.norm(start.matrix - Q) / np.linalg.norm(Q)
    table = xr.Dataset(
        {"deviation": (("size", "draw"), deviation), "start_error": (("size", "draw"), error)},
        coords={"size": np.array(sizes)},
        attrs={"d": d, "r": r, "law": law.name},
    )
    verdicts = []
    for claim, values in (("operator-concentration", deviation), ("spectral-start", error)):
        slope, intercept, standard = fitted_exponent(np.repeat(sizes, n_draws), values.reshape(-1))
        table.attrs |= {f"{claim} slope": slope, f"{claim} intercept": intercept, f"{claim} error": standard}
        verdicts.append(
            Verdict(
                claim=claim,
                parametrisation="gaussian",
                loss="squared",
                kind=Kind.RATE,
                measured=abs(slope + 0.5),
                bound=ORDER_ALLOWANCE,
                slack=2 * standard,
                unit="exponent + 1/2",
                assumptions=(Assumption(name="normal rows", holds=law.name == "normal", measured=law.name),),
                details={
                    "exponent": slope,
                    "standard error": standard,
                    "n": sizes,
                    "mean": values.mean(axis=1),
                    "draws": n_draws,
                },
            )
        )
    return verdicts, table


def fitted_exponent(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Slope, intercept and the slope's standard error of `log y` on `log x` by least squares."""
    u, v = np.log(x), np.log(y)
    du = u - u.mean()
    slope = float(du @ v / (du @ du))
    intercept = float(v.mean() - slope * u.mean())
    rest = v - slope * u - intercept
    return slope, intercept, math.sqrt(float(rest @ rest) / max(len(u) - 2, 1) / float(du @ du))
