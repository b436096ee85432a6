"""Samples for `early_stopping`: one run of descent each, what hold-out chooses, and the interpolators beside it.

A run keeps numbers only: of a weight vector the risks see its size in the covariance's norm and its angle to Bayes.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from ...certificate import Certificate
from ...data.mixture import Mixture
from ...flows.logistic_descent import logistic_descent
from ...limits import MaxMargin
from ...limits.mixture_risk import BestInterpolator, MixtureRisk, Seen
from ...solvers import solve

CERTIFIED = 1e-6
"""Relative gap of a maximum margin, its rounding error included, up to which the interpolator counts as found."""

ACCURATE = 0.01
"""Share of the interpolator's angle to Bayes that a certificate may leave open; else it is sought with more digits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """What is drawn from and how it is trained.

    - `name`: of the spectrum, as verdicts call it; `rate`: the rate in n that a heuristic has for it, as text, and
      `exponent` as a number where it is a power.
    - `n_steps`: of descent; `held_out`: share of the rows that hold-out chooses by.
    """

    name: str
    mixture: Mixture
    rate: str = "none known"
    exponent: float = math.nan
    n_steps: int = 400
    held_out: float = 0.25

    @functools.cached_property
    def risk(self) -> MixtureRisk:
        """Exact risks on this mixture."""
        m = self.mixture
        return MixtureRisk(mean=m.mean, eigenvalues=m.eigenvalues, flips=m.flips)

    @property
    def rounding(self) -> float:
        """The rounding error of an angle to the Bayes direction, which d products and sums go into."""
        return 16 * float(np.finfo(float).eps) * math.sqrt(self.mixture.d)

    def excess(self, seen: Seen) -> Float[np.ndarray, "*T"]:
        """The 0-1 risk above Bayes; zero where the angle is no more than rounding: such a number has no log."""
        return np.where(seen.angle <= self.rounding, 0.0, self.risk.excess(seen))

    def held(self, n: int) -> int:
        """How many of n rows are held out."""
        return rows_held(self.held_out, n)

    @property
    def effective_rank(self) -> float:
        """`tr(Sigma) / lam_1`."""
        return float(self.mixture.eigenvalues.sum() / self.mixture.eigenvalues.max())

    def run(self, n: int, seed: int, *, best: bool = False, margin: bool = False) -> "Run":
        """Draw n rows, train on them, and judge every mark; find the best interpolator, and the maximum margin."""
        Z = self.mixture.sample(n, seed).Z
        gram = Z @ Z.T
        full = logistic_descent(gram=gram, n_steps=self.n_steps)
        seen = self.risk.see(full.alpha @ Z)
        held = self.held(n)
        part = logistic_descent(
            gram=np.ascontiguousarray(gram[held:, held:]),
            n_steps=self.n_steps,
            step_size=float(full.step_size),
            marks=full.marks.tolist(),
        )
        margins = part.outputs(gram[:held, held:])
        angle, error = self._max_margin(Z, gram) if margin else (math.nan, math.nan)
        found = self.risk.best_interpolator(Z) if best else None
        return Run(
            n=n,
            marks=full.marks,
            log_time=full.log_time,
            seen=seen,
            excess=self.excess(seen),
            train_error=full.train_error,
            held_out_error=np.mean(margins <= 0, axis=1),
            held_out_loss=np.mean(np.logaddexp(0, -margins), axis=1),
            train_loss=full.train_loss,
            margin_angle=angle,
            margin_error=error,
            margin_excess=self._nearest(angle, error),
            best_excess=math.nan if found is None else self._best(found),
            best_gap=math.nan if found is None else found.gap,
            sought=margin,
        )

    def _max_margin(self, Z: Float[np.ndarray, "n d"], gram: Float[np.ndarray, "n n"]) -> tuple[float, float]:
        """The angle of the maximum margin to Bayes, and how far off it may be; NaN when it is not found, or not there.

        The margin is strongly concave over the unit ball: `|w/|w| - u|^2 <= 2 gap`, so that in the metric of Sigma the
        certified point w and the maximum margin differ by `sqrt(2 gap) lam_1^{1/2} |w| / |w|_Sigma` at most, as a chord
        (derived here). Of the cheaper way to it the gap may be too large for that.
        """
        found = math.nan, math.nan
        for certificate in max_margins(Z, gram):
            size, angle = self.risk.see(certificate.point)
            share = float(np.linalg.norm(certificate.point)) * math.sqrt(self.mixture.eigenvalues.max()) / float(size)
            chord = math.sqrt(2 * (max(certificate.gap, 0.0) + certificate.relative_slack)) * share
            found = float(angle), math.asin(chord) if chord < 1 else math.pi
            if found[1] <= ACCURATE * found[0]:
                break
        return found

    def _best(self, found: BestInterpolator) -> float:
        """The excess of the best interpolator: zero where no row holds it back, so that it is Bayes itself."""
        if found.w is None:
            return math.nan
        return float(self.excess(self.risk.see(found.w))) if found.support.any() else 0.0

    def _nearest(self, angle: float, error: float) -> float:
        """The least excess that the certificate leaves to the interpolator."""
        if not math.isfinite(angle):
            return math.nan
        return float(self.excess(Seen(size=np.array(1.0), angle=np.array(max(0.0, angle - error)))))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One sample: the path at the marks (shape (T,) each), and the interpolators (NaN where not sought or not found).

    - `seen`: size and angle; `excess`: 0-1 risk above Bayes.
    - `held_out_error`, `held_out_loss`: on the rows held out, of descent on the others, at the same marks.
    - `margin_angle`, `margin_error`: of the maximum margin, certified; `margin_excess`: the least that the certificate
      allows it. `best_excess`: of the best interpolator; `best_gap`: of its signal, a number wherever that interpolator
      was sought. `sought`: whether the maximum margin was.

    An excess of zero is one below rounding.
    """

    n: int
    marks: Int[np.ndarray, " T"]
    log_time: Float[np.ndarray, " T"]
    seen: Seen
    excess: Float[np.ndarray, " T"]
    train_error: Float[np.ndarray, " T"]
    train_loss: Float[np.ndarray, " T"]
    held_out_error: Float[np.ndarray, " T"]
    held_out_loss: Float[np.ndarray, " T"]
    margin_angle: float
    margin_error: float
    margin_excess: float
    best_excess: float
    best_gap: float
    sought: bool

    @property
    def best_sought(self) -> bool:
        """Whether the best interpolator was sought; it is found where `best_excess` is a number."""
        return not math.isnan(self.best_gap)

    @property
    def best(self) -> int:
        """The mark of least excess: what an oracle stops at."""
        return int(np.argmin(self.excess))

    @property
    def oracle(self) -> float:
        """The least excess along the path."""
        return float(self.excess[self.best])

    def chosen(self, criterion: str = "error") -> int:
        """The mark that hold-out stops at, the earliest of equals; `"train"`: judged on the training rows instead."""
        judged = {"error": self.held_out_error, "loss": self.held_out_loss, "train": self.train_loss}[criterion]
        return int(np.argmin(judged))


def max_margins(Z: Float[np.ndarray, "n d"], gram: Float[np.ndarray, "n n"]) -> Iterator[Certificate]:
    """The maximum-margin classifier of the rows, without an intercept, certified on the rows themselves.

    The rows span at most n directions, in whose coordinates it is sought, two ways, the cheaper one first; none where
    there is none, or it is not found to `CERTIFIED`.
    """
    for reduce in (_by_gram, _by_rows):
        if (found := reduce(Z, gram)) is None:
            continue
        rows, back = found
        solution = solve(MaxMargin("l2", rows=rows))
        w = back(solution.certificate.point)
        if solution.status == "not separable" or not (np.isfinite(w).all() and w.any()):
            continue
        certificate = MaxMargin("l2", rows=Z).certify(w, solution.certificate.multipliers)
        if certificate.lower > certificate.slack and certificate.gap + certificate.relative_slack <= CERTIFIED:
            yield certificate


def _by_gram(Z, gram):
    """Rows C with `C C' = Z Z'`: cheap, and good where the rows are far from dependent."""
    from scipy.linalg import solve_triangular

    if len(Z) > Z.shape[1]:
        return None
    try:
        C = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return None
    if C.diagonal().min() < 1e-6 * C.diagonal().max():  # nothing would be left of half of the digits
        return None
    return C, lambda point: solve_triangular(C, point, lower=True, trans=1, check_finite=False) @ Z


def _by_rows(Z, gram):
    """Rows in an orthonormal basis of their span: twice the digits."""
    if len(Z) >= Z.shape[1]:
        return Z, lambda point: point
    Q, R = np.linalg.qr(Z.T)
    return R.T, lambda point: Q @ point


def draw_seed(*key: int) -> int:
    """A seed for each key, by NumPy's own mixing of seeds."""
    return int(np.random.SeedSequence(list(key)).generate_state(1)[0])


def rows_held(share: float, n: int) -> int:
    """How many of n rows are held out, at least one."""
    return max(1, round(share * n))


def log(value: float) -> float:
    """The natural log; NaN where there is none: of zero, which stands for what is below rounding, and of NaN."""
    return math.log(value) if value > 0 else math.nan


def logs(values: Sequence[float]) -> Float[np.ndarray, " k"]:
    """Natural logs of those values that have one. Zeros are left out: who averages logs counts them (`n_zero`)."""
    array = np.asarray(values, dtype=float)
    return np.log(array[array > 0])


def n_zero(values: Sequence[float]) -> int:
    """How many of the values are zero."""
    return int(np.sum(np.asarray(values, dtype=float) == 0))
